"""The formula book: importing this package registers every quantity, those of modules that these
import among them."""

from planner.book.formulas import (  # noqa: F401
    checkpoint,
    compute,
    cost,
    energy,
    memory,
    memory_replica,
    rl,
    roofline,
    scaling,
    time_collective,
    time_conventions,
)
