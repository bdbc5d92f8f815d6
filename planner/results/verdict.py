"""The verdict on a plan's memory: how it is decided, and the words for it in every output."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """A state of the verdict, and the words for it."""

    state: str  # in data
    look: str  # colour and icon
    word: str  # as a headline
    says: tuple[str, str]  # of one plan, of several
    still: tuple[str, str]  # where nothing changed it: of one plan, of two
    mark: str  # in a table of plans
    legend: str  # of a chart of plans


#: The verdicts by state, the safest first.
VERDICTS = {
    verdict.state: verdict
    for verdict in (
        Verdict("fits", "ok", "Fits", ("fits", "fit"), ("it still FITS", "both FIT"),
                "fits", "fits"),
        Verdict("open", "unknown", "Not enough input", ("is open", "are open"),
                ("there is still NOT ENOUGH INPUT", "both have NOT ENOUGH INPUT"),
                "open", "memory is not known for sure"),
        Verdict("tight", "tight", "Tight", ("is tight", "are tight"),
                ("it is still TIGHT", "both are TIGHT"),
                "△ tight", "tight: memory at worst exceeds the capacity"),
        Verdict("no", "bad", "Does not fit", ("does not fit", "do not fit"),
                ("it still DOES NOT FIT", "neither FITS"), "× does not fit", "does not fit"),
    )
}  # fmt: skip
#: The predicate of a plan that does not fit.
(UNFIT, _) = VERDICTS["no"].says


#: What a device holds however little the allocator keeps, and what it may hold.
NEEDED, CAPACITY = "memory.needed", "memory.capacity"


def is_within_capacity(value_of: Callable[[str], Any]) -> Any:
    """Decide whether live tensors and the runtime are within the capacity of a device.

    Args:
        value_of: gives a quantity in bytes by its id, as a number or as an array of any shape.

    Returns:
        A truth value; an array where the quantities are.
    """
    return value_of(NEEDED) <= value_of(CAPACITY)


def decide_state(fits: bool | None, shaped: bool, safe: bool) -> str:
    """Decide the state of a verdict.

    Args:
        fits: whether live tensors and the runtime are within the capacity; None where that is
            unknown.
        shaped: whether the shape of the model is known, not only its size: without it, activations
            and buffers are missing from the prediction.
        safe: whether the 95th percentile of published measurements is within the capacity.

    Returns:
        The state, a key of ``VERDICTS``.
    """
    if fits is None or (fits and not shaped):
        return "open"
    return "no" if not fits else "fits" if safe else "tight"
