"""The formula book: importing this package registers every quantity."""

from planner.formulas import compute, parameters  # noqa: F401
