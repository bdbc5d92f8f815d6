"""The formula book: importing this package registers every quantity."""

from planner.formulas import (  # noqa: F401
    compute,
    cost,
    energy,
    layout,
    memory,
    memory_activations,
    memory_buffers,
    memory_states,
    parameters,
    time,
)
