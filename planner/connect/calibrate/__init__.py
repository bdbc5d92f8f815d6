"""One's own runs beside predicted times: the rates that they sustain, as a cluster document."""
