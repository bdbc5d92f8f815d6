"""`parallelism: auto` in a study: the best layout of each point, found once for points that differ
only in what the choice does not rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

from planner.document import Plan
from planner.domains import divisors
from planner.errors import PlanError
from planner.sweep.axes import LAYOUT
from planner.sweep.plain import PLAIN, SYMBOLS, rests_on
from planner.sweep.points import FITS, MEMORY
from planner.sweep.study import Study

if TYPE_CHECKING:
    from planner.search import Layout

NO_LAYOUT = "no layout fits into memory"
#: Layouts tried until one is valid, for the search to start from.
TRIED = 500


def found(study: Study, places: Sequence[int]) -> tuple[Plan, str] | None:
    """The plan of a point with its best layout, and the layout in words; None where none fits.

    Raises:
        PlanError: there is no valid layout.
    """
    place = tuple(p if matters else 0 for p, matters in zip(places, _matters(study), strict=True))
    layout = _best(study, place)
    if layout is None:
        return None
    plan = layout.of(_start(study, places))
    return plan, _words(layout.changes)


def _matters(study: Study) -> tuple[bool, ...]:
    """Along which dimensions the best layout may change."""
    symbols = rests_on((FITS, MEMORY, study.by))

    def indifferent(key: str) -> bool:
        return key in PLAIN and SYMBOLS[key] not in symbols

    return tuple(
        not all(axis.keys and all(map(indifferent, axis.keys)) for axis in axes)
        for axes in study.dimensions
    )


_FOUND: dict[tuple[str, tuple[int, ...]], Layout | PlanError | None] = {}
MOST_KEPT = 4096


def _best(study: Study, places: tuple[int, ...]) -> Layout | None:
    from planner.search import best

    key = (study.digest, places)
    if key not in _FOUND:
        if len(_FOUND) >= MOST_KEPT:
            _FOUND.pop(next(iter(_FOUND)))
        try:
            _FOUND[key] = best(_start(study, places), study.by)
        except PlanError as error:
            _FOUND[key] = error
    layout = _FOUND[key]
    if isinstance(layout, PlanError):
        raise layout
    return layout


def _start(study: Study, places: Sequence[int]) -> Plan:
    """A valid plan of the point, whatever its layout.

    Raises:
        PlanError: none of the layouts tried is valid; the faults are those of the first.
    """
    first: PlanError | None = None
    for layout in _layouts(study, places):
        try:
            return study.plan_at(places, {LAYOUT: layout})
        except PlanError as error:
            first = first or error
    assert first is not None
    raise first


def _layouts(study: Study, places: Sequence[int]) -> Iterator[Mapping[str, Any]]:
    """That of the base, then plain ones from the narrowest on."""
    own = study.base_at(places).data[LAYOUT]
    yield own
    plain = {**study.neutral}
    yield plain
    devices = study.value_at(places, "cluster.devices")
    batch = study.value_at(places, "training.global_batch")
    if not isinstance(devices, int) or not isinstance(batch, int):
        return
    degrees = [d for d in divisors(devices) if batch % (devices // d) == 0]
    tried = 0
    for whole in degrees:
        for tensor, pipeline in product(divisors(whole), repeat=2):
            if whole % (tensor * pipeline) == 0 and tried < TRIED:
                tried += 1
                context = whole // (tensor * pipeline)
                degrees_of = {"tensor": tensor, "pipeline": pipeline, "context": context}
                yield {**plain, **degrees_of}


#: What names a layout, in the order in which it is said.
SAID = (
    ("tensor", "parallelism.tensor"),
    ("pipeline", "parallelism.pipeline"),
    ("virtual", "parallelism.virtual_pipeline"),
    ("context", "parallelism.context"),
    ("expert", "parallelism.expert"),
    ("expert_tensor", "parallelism.expert_tensor"),
    ("zero", "parallelism.zero"),
    ("sequence", "parallelism.sequence"),
    ("micro_batch", "training.micro_batch"),
    ("recompute", "training.recompute"),
    ("schedule", "training.schedule"),
)


def _words(changes: Mapping[str, Any]) -> str:
    """A layout in one cell of a table, without what is off."""
    said = ((name, changes.get(key)) for name, key in SAID)
    dull = {"zero": 0, "recompute": "none", "schedule": "1f1b", "sequence": False, "micro_batch": 0}
    return (
        " ".join(
            f"{name}={str(value).lower()}"
            for name, value in said
            if value is not None and value != dull.get(name, 1)
        )
        or "one device each"
    )
