"""The formula book: importing this package registers every quantity."""

from planner.book.formulas import (  # noqa: F401
    checkpoint,
    compute,
    cost,
    energy,
    layout,
    memory,
    memory_activations,
    memory_buffers,
    memory_cache,
    memory_states,
    parameters,
    roofline,
    scaling,
    time,
    time_conventions,
    time_inference,
    time_run,
)
