"""The planner as a page and as an interface for programs, over HTTP."""
