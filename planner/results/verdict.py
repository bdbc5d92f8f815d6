"""The verdict on a plan's memory: how it is decided, and the words for it in every output."""

from __future__ import annotations

from typing import Any, NamedTuple

from planner.base import resources


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
    one["state"]: Verdict(**{**one, "says": (*one["says"],), "still": (*one["still"],)})
    for one in resources.load_beside(__file__)
}
#: The predicate of a plan that does not fit.
(UNFIT, _) = VERDICTS["no"].says


#: A plan fits where this is at least 0: what is needed is within the capacity of a device, and
#: within the memory of a host.
FITS = "memory.left"
#: It fits safely where this is at least 0 too, and tightly where it is not.
SURE = "memory.headroom_p95"


def is_host_short(result: Any) -> bool:
    """Check whether a plan does not fit because of the memory of a host."""
    left = result["memory.host.headroom"].value
    return result.verdict["state"] == "no" and left is not None and left == result[FITS].value


def decide_state(fits: bool | None, shaped: bool, safe: bool) -> str:
    """Decide the state of a verdict.

    Args:
        fits: whether ``FITS`` is at least 0; None where that is unknown.
        shaped: whether the shape of the model is known, not only its size: without it, activations
            and buffers are missing from the prediction.
        safe: whether ``SURE`` is at least 0.

    Returns:
        The state, a key of ``VERDICTS``.
    """
    if fits is None or (fits and not shaped):
        return "open"
    return "no" if not fits else "fits" if safe else "tight"
