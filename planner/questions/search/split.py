"""What a plan of reinforcement learning leaves open of its engine, and of how devices are split.

The engine's degree follows from what its memory needs: the fewest devices that hold the weights and
as much cache. Under ``rl.rollout: auto`` placement, staleness, devices and degrees are those of the
shortest step that fits. After each number of devices the next is the one at which both sides would
be balanced if each were as much faster as it has more devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

from planner.base import numbers
from planner.base.errors import PlanError
from planner.documents.source import SPLIT, Document
from planner.engine.instance import compute_values
from planner.plans import plan, reinforcement
from planner.plans.document import Plan
from planner.questions.domains import divisors
from planner.results.verdict import FITS

TENSOR, EXPERT, DEVICES = (f"rl.rollout.{name}" for name in ("tensor", "expert", "devices"))
PLACEMENT, STALENESS, ENGINE = "rl.placement", "rl.staleness", "rl.rollout.auto"
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
#: Mean lengths of responses, in parts of their cap, between which two ways cross.
PARTS_OF_CAP = 8
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
        late = (
            f"{rl['staleness']} step{'s' * (rl['staleness'] > 1)} off"
            if rl["staleness"]
            else "on policy"
        )
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
    found = [
        way for mode in _list_modes(document) if (way := _find_split(document, mode, complete))
    ]
    if not found:  # which says why
        return complete_engine(document, complete)
    best, *others = sorted(found, key=lambda one: one.rank)
    against = f"; best others: {'; '.join(one.words for one in others)}" if others else ""
    crossing = next(filter(None, (_find_crossing(best, other) for other in others)), "")
    why = f"found: {best.words}{against}{crossing}{SPLIT}"
    return _add_reasons(best.plan, dict.fromkeys(best.changes, why))


def complete_engine(document: Document, complete: Complete) -> Plan:
    """Complete a document with the tensor-parallel size that its engine's memory needs, unless it
    gives one."""
    degrees = next(_list_degrees(document), None)
    if degrees is None:
        return complete(document)
    return _add_reasons(complete(document.change_keys(degrees)), dict.fromkeys(degrees, HOLDS))


def _add_reasons(found: Plan, why: Mapping[str, str]) -> Plan:
    """Return a plan with the reasons of some keys."""
    return replace(found, derived={**found.derived, **why})


def _list_modes(document: Document) -> Iterator[Mapping[str, Any]]:
    """Yield the modes that a document leaves open, with the placement and staleness that it gives;
    one with its own devices is split."""
    keys = [key for key in (PLACEMENT, STALENESS) if document.get_stated(key) is not None]
    given = {key: document.get(key) for key in keys}
    for mode in MODES:
        own = {**mode, **given}
        split = own[PLACEMENT] == "split" or document.get(DEVICES) is None
        late = bool(own[STALENESS]) == bool(mode[STALENESS])
        if own[PLACEMENT] == mode[PLACEMENT] and late and split:
            yield own


def _find_split(document: Document, mode: Mapping[str, Any], complete: Complete) -> Split | None:
    """Find the shortest step of a mode that fits, over devices and degrees of the engine; None if
    no number of devices makes a plan."""
    counts, every = _list_counts(document, mode), document.get("cluster.devices")
    ways, count = dict[int, Split | None](), counts[(len(counts) - 1) // 2]
    join: Callable[[Sequence[Any]], Any] = max if mode[STALENESS] else sum
    while count not in ways:
        splits = _yield_splits(document, {**mode, DEVICES: count}, complete)
        way = ways[count] = min(splits, key=lambda one: one.rank, default=None)
        left = [one for one in counts if ways.get(one, way) is not None]
        if way is None:  # layout or engine divides no such number
            count = next((one for one in left if one not in ways), count)
            continue
        rollout, trainer = (way.values[side] for side in SIDES)
        work = rollout * count, trainer * (every - count)
        count = min(left, key=lambda one: join((work[0] / one, work[1] / max(1, every - one))))
    return min(filter(None, ways.values()), key=lambda one: one.rank, default=None)


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
    """Yield the plans of a split with each degree of the engine that holds; all have the layout
    that is found with the first."""
    changed = document.change_keys(changes)
    for degrees in [*_list_degrees(changed, searched=True)] or [{}]:
        with suppress(PlanError):
            found = complete(changed.change_keys(degrees))
            values = compute_values(found, (FITS, STEP, *SIDES))
            yield Split({**changes, **degrees}, found, values)
            changed, complete = found.document, plan.build_plan


def _list_degrees(document: Document, searched: bool = False) -> Iterator[dict[str, int]]:
    """Yield the engine's tensor-parallel sizes from the smallest that holds weights and as much
    cache up to a node; of those that do not, the one with the most room. None where the document
    gives the size or is at fault.

    Args:
        searched: whether expert-parallel sizes up to a node are tried too.
    """
    rl = document.data.get("rl")
    if not rl or rl["rollout"].get("tensor"):
        return
    draft, model = plan.begin_plan(document)
    reinforcement.apply_reinforcement(draft)
    if draft.faults or model is None:
        return
    rl, room = draft.data["rl"], list[tuple[Any, dict[str, int]]]()
    node = document.get("cluster.devices_per_node") or 1
    _, _, changes = next(reinforcement.list_roles(draft.data))
    experts = (
        divisors(min(node, rl["rollout"]["devices"]))
        if searched and draft.get("model.moe")
        else [1]
    )
    free = document.get_stated(EXPERT) is None
    for expert in experts if free else [rl["rollout"]["expert"]]:
        holds = False
        for size in divisors(rl["rollout"]["devices"] // rl["rollout"]["pipeline"]):
            if holds and size > node:
                break
            degrees = {TENSOR: size, **({EXPERT: expert} if expert > 1 and free else {})}
            layout = {**changes["parallelism"], "tensor": size, "expert": expert}
            with suppress(PlanError):  # heads do not divide
                engine = plan.complete_plan(
                    document.change_keys({**changes, "parallelism": layout})
                )
                values = compute_values(engine, HELD)
                capacity, process, weights, cache = (values[name] for name in HELD)
                left = rl["rollout"]["memory_share"] * capacity - (process - cache) - weights
                room.append((left, degrees))
                if left >= 0:
                    holds = True
                    yield degrees
    if room and not any(left >= 0 for left, _ in room):
        yield max(room, key=lambda one: one[0])[1]


def _find_crossing(best: Split, other: Split) -> str:
    """Find between which mean lengths of responses two ways take equally long; empty if both wait
    alike."""
    if bool(best.changes[STALENESS]) == bool(other.changes[STALENESS]):
        return ""
    lengths = best.plan.data["rl"]["response_tokens"]
    means = [lengths["cap"] * part // PARTS_OF_CAP for part in range(1, PARTS_OF_CAP)]
    faster = []
    for mean in means:
        change = {"rl.response_tokens": {**lengths, "mean": mean}}
        built = (plan.build_plan(way.plan.document.change_keys(change)) for way in (best, other))
        steps = [compute_values(one, (STEP,))[STEP] for one in built]
        faster.append(steps[0] < steps[1])
    for (mean, here), (beyond, there) in pairwise(zip(means, faster, strict=True)):
        if here != there:
            return f"; both take equally long at responses of {mean} to {beyond} tokens on average"
    return "; that is faster at every mean length of responses"
