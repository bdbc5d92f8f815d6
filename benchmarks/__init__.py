"""Programs that measure the planner: its speed, and its agreement with published data."""
