"""The quantities that a comparison asks of every point, recorded or not."""

from __future__ import annotations

DAYS = "time.training_days"
COST = "cost.total"
MEMORY = "memory.process"
FITS, SURE = "memory.headroom", "memory.headroom_p95"
USE = "time.mfu"
COMPARED = (DAYS, COST, MEMORY, FITS, SURE, USE)

#: The key along which charts go, where it varies.
DEVICES = "cluster.devices"
