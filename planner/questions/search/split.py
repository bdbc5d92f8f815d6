"""What a plan of reinforcement learning leaves open of its engine, and of how devices are split.

The engine's degree follows from what its memory needs: the fewest devices that hold the weights and
as much cache. Under ``rl.rollout: auto`` placement, staleness, devices and degree are those of the
shortest step that fits; devices are bisected, for a larger engine only shortens the rollout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from planner.base import numbers
from planner.base.errors import PlanError
from planner.documents.source import SPLIT, Document
from planner.engine.instance import compute_values
from planner.plans import plan, reinforcement
from planner.plans.document import Plan
from planner.questions.domains import divisors
from planner.results.verdict import FITS

TENSOR, DEVICES, ENGINE = "rl.rollout.tensor", "rl.rollout.devices", "rl.rollout.auto"
PLACEMENT, STALENESS = "rl.placement", "rl.staleness"
HOLDS = "the fewest devices whose share of memory holds the weights and as much cache"
#: What a device of the engine holds.
HELD = ("memory.capacity", "memory.process", "memory.weights", "memory.cache")
#: Ways to run a step, by what they leave to decide.
MODES: tuple[Mapping[str, Any], ...] = (
    {PLACEMENT: "colocated", STALENESS: 0},
    {PLACEMENT: "split", STALENESS: 0},
    {PLACEMENT: "split", STALENESS: 1},
)
#: What ranks them, and the sides that devices are balanced between.
STEP, SIDES = "rl.step_seconds", ("rl.rollout_seconds", "rl.trainer_seconds")
Complete = Callable[[Document], Plan]


class Split(NamedTuple):
    """A way to run a step.

    Attributes:
        changes: of the document, by dotted key.
        plan: with these.
        values: of what ranks it.
    """

    changes: Mapping[str, Any]
    plan: Plan
    values: Mapping[str, Any]

    @property
    def rank(self) -> tuple[bool, Any]:
        """The shortest step of those that fit; below them what lacks least."""
        left = self.values[FITS]
        return left < 0, self.values[STEP] if left >= 0 else -left

    @property
    def words(self) -> str:
        """How devices are split, and what a step takes."""
        rl, step = self.plan.data["rl"], numbers.text(self.values[STEP], "s")
        if rl["placement"] == "colocated":
            return f"{step} colocated"
        late = f"{rl['staleness']} step off" if rl["staleness"] else "on policy"
        return f"{step} with {rl['rollout']['devices']} devices for the engine, {late}"


def complete_rollout(document: Document, complete: Complete) -> Plan:
    """Complete a document of reinforcement learning.

    Args:
        document: of which the engine's degrees and the split of devices may be open.
        complete: completes a document in which they are set; it finds an open layout.

    Raises:
        PlanError: every fault of the document.
    """
    rl = document.data.get("rl") or {}
    if not (rl.get("rollout") or {}).get("auto"):
        return complete_engine(document, complete)
    document = document.change_keys({ENGINE: None})
    modes = [mode for mode in MODES if _agrees(mode, document)]
    found = [best for mode in modes if (best := _find_split(document, mode, complete))]
    if not found:  # which says why
        return complete_engine(document, complete)
    best, *others = sorted(found, key=lambda one: one.rank)
    against = f"; best others: {'; '.join(one.words for one in others)}" if others else ""
    why = f"found: {best.words}{against}{SPLIT}"
    return _add_reasons(best.plan, dict.fromkeys(best.changes, why))


def complete_engine(document: Document, complete: Complete) -> Plan:
    """Complete a document with the tensor-parallel size that its engine's memory needs, unless it
    gives one."""
    size = next(_list_sizes(document), None)
    if size is None:
        return complete(document)
    return _add_reasons(complete(document.change_keys({TENSOR: size})), {TENSOR: HOLDS})


def _add_reasons(found: Plan, why: Mapping[str, str]) -> Plan:
    """Return a plan with the reasons of some keys."""
    return replace(found, derived={**found.derived, **why})


def _agrees(mode: Mapping[str, Any], document: Document) -> bool:
    """Decide whether a mode has the placement, staleness and devices that a document gives."""
    given = {key: document.get(key) for key in mode if document.get_stated(key) is not None}
    alone = document.get(DEVICES) is not None and mode[PLACEMENT] == "colocated"
    return not alone and all(mode[key] == value for key, value in given.items())


def _find_split(document: Document, mode: Mapping[str, Any], complete: Complete) -> Split | None:
    """Find the shortest step of a mode that fits, over devices and degrees of the engine; None if
    no number of devices makes a plan."""
    best, counts = list[Split](), _list_counts(document, mode)
    low, high = 0, len(counts) - 1
    while low <= high:
        middle = (low + high) // 2
        changes = {**mode, DEVICES: counts[middle]}
        here = [*_yield_splits(document, changes, complete)]
        if not here:  # which layout or engine divides no such number
            counts = [*counts[:middle], *counts[middle + 1 :]]
            high -= 1
            continue
        best.append(min(here, key=lambda one: one.rank))
        rollout, trainer = (best[-1].values[side] for side in SIDES)
        low, high = (middle + 1, high) if rollout > trainer else (low, middle - 1)
    return min(best, key=lambda one: one.rank, default=None)


def _list_counts(document: Document, mode: Mapping[str, Any]) -> Sequence[int]:
    """List the devices that an engine may have: whole nodes, or parts that divide the only one."""
    every, node = (document.get(f"cluster.{key}") for key in ("devices", "devices_per_node"))
    if (given := document.get(DEVICES)) is not None:
        return [given]
    if mode[PLACEMENT] == "colocated":
        return [every]
    if every <= (node or every):
        return [size for size in divisors(every) if size < every]
    return range(node, every, node)


def _yield_splits(
    document: Document, changes: Mapping[str, Any], complete: Complete
) -> Iterator[Split]:
    """Yield the plans of a split with each degree of the engine from the smallest that holds."""
    changed = document.change_keys(changes)
    sizes: Sequence[int | None] = [*_list_sizes(changed)] or [None]
    for size in sizes:
        also = {} if size is None else {TENSOR: size}
        with suppress(PlanError):
            found = complete(changed.change_keys(also))
            values = compute_values(found, (FITS, STEP, *SIDES))
            yield Split({**changes, **also}, found, values)


def _list_sizes(document: Document) -> Iterator[int]:
    """Yield the tensor-parallel sizes of an engine, from the smallest that holds weights and as
    much cache up to a node; of those that do not, the one with the most room. None where the
    document gives the size or is at fault."""
    rl = document.data.get("rl")
    if not rl or rl["rollout"].get("tensor"):
        return
    draft, model = plan.begin_plan(document)
    reinforcement.apply_reinforcement(draft)
    if draft.faults or model is None:
        return
    rl, room = draft.data["rl"], dict[int, Any]()
    node = document.get("cluster.devices_per_node") or 1
    _, _, changes = next(reinforcement.list_roles(draft.data))
    for size in divisors(rl["rollout"]["devices"] // rl["rollout"]["pipeline"]):
        holds = any(left >= 0 for left in room.values())
        if holds and size > node:
            break
        changed = {**changes, "parallelism": {**changes["parallelism"], "tensor": size}}
        with suppress(PlanError):  # heads do not divide
            engine = plan.complete_plan(document.change_keys(changed))
            values = compute_values(engine, HELD)
            capacity, process, weights, cache = (values[name] for name in HELD)
            room[size] = rl["rollout"]["memory_share"] * capacity - (process - cache) - weights
            if room[size] >= 0:
                yield size
    if room and max(room.values()) < 0:
        yield max(room, key=room.__getitem__)
