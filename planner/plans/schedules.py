"""Pipeline schedules: in which order a stage runs its passes, as tables in presets/schedules say.

A pass is forward (``F``), backward (``B``), backward without the gradients of weights (``I``) or
these gradients, put off (``W``), of one chunk of the model and one micro-batch. A table has phases;
each runs a row of passes so many ``times``, or, where it says none, as long as one of them is left.
A pass that is not left is passed over.

``F0`` is the next micro-batch of the device's first chunk; ``F`` the next of all chunks, which take
turns every ``group`` micro-batches (as many as stages, by default), in backward passes from the
last chunk on; ``W`` belongs to the ``I`` that waits longest; ``F0+B1`` run beside each other.
Numbers are whole, written in ``p`` stages, ``v`` chunks a device, ``m`` micro-batches, ``i`` the
stage from 0 on, ``o`` 1 where experts' rows travel beside another micro-batch's work, else 0, and
names that ``let`` gives; with + - * // % min max and brackets.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from planner.base import resources
from planner.base.arithmetic import EXTREMES, evaluate_whole
from planner.base.files import parse_json
from planner.plans.document import Draft, Model

#: How a micro-batch passes the chunks of a pipeline: chunk after chunk, round after round over the
#: stages; half of the micro-batches from either end, each past chunks of its own; down the stages
#: over their first chunks and back over their second.
LOOP, OPPOSITE, THERE_AND_BACK = "loop", "opposite", "there and back"
#: What a pass does. A full backward pass is both of the other two.
FORWARD, BACKWARD, INPUT, WEIGHT = "F", "B", "I", "W"
LONGEST = 100  # characters of a number in a table
MOST = 2**16  # forward passes that are run


#: A stage, and a chunk that its device holds.
Place = tuple[int, int]


class Pass(NamedTuple):
    """One pass of a stage over a chunk that the device holds, and the pass beside it, if any."""

    kind: str
    chunk: int
    micro_batch: int
    beside: Pass | None = None


class Schedule(NamedTuple):
    """What each stage of a pipeline runs, in order, and the way of a micro-batch.

    Attributes:
        name: for people.
        ways: the (stage, chunk) that a micro-batch passes, one after another; two ways from either
            end.
        orders: the passes of each stage.
    """

    name: str
    ways: tuple[tuple[Place, ...], ...]
    orders: tuple[tuple[Pass, ...], ...]

    def find_neighbours(self) -> tuple[dict[Place, Place], dict[Place, Place]]:
        """Return the next and the previous (stage, chunk) of each on the way of a micro-batch."""
        behind = {one: other for way in self.ways for one, other in pairwise(way)}
        return behind, {other: one for one, other in behind.items()}


def list_paths(path: str, size: int, virtual: int) -> tuple[tuple[Place, ...], ...]:
    """Return the sequences of (stage, chunk) that micro-batches pass: one, or two from either end.

    Args:
        path: of a table: ``LOOP``, ``THERE_AND_BACK`` or from both ends.
        size: stages.
        virtual: chunks of a stage.
    """
    if path == LOOP:
        return (tuple((stage, turn) for turn in range(virtual) for stage in range(size)),)
    down = tuple((stage, 0) for stage in range(size))
    if path == THERE_AND_BACK:
        return ((*down, *((stage, 1) for stage in reversed(range(size)))),)
    # A device's first chunk is passed by those that entered at the nearer end.
    near = tuple((stage, int(2 * stage >= size)) for stage in range(size))
    return near, tuple((stage, 1 - chunk) for stage, chunk in reversed(near))


def schedule(
    name: str, size: int, virtual: int, micro_batches: int, ahead: bool = False
) -> Schedule:
    """Return a built-in schedule.

    Args:
        name: of a file in presets/schedules.
        size: stages.
        virtual: chunks of a stage.
        micro_batches: of one optimizer step.
        ahead: whether another micro-batch's forward pass overlaps each backward pass.

    Raises:
        ValueError: it does not run each pass once, or has more passes than are worth a look.
    """
    table: Mapping[str, Any] = resources.load_preset(f"schedules/{name}")
    return expand_table(table, size, virtual, micro_batches, ahead)


def expand_table(
    table: Mapping[str, Any], size: int, virtual: int, micro_batches: int, ahead: bool = False
) -> Schedule:
    """Return the schedule of a table; arguments and errors are those of ``schedule``.

    Args:
        table: with expressions in the numbers of stages, chunks and micro-batches.
        size: stages.
        virtual: chunks of a stage.
        micro_batches: of one optimizer step.
        ahead: whether another micro-batch's forward pass overlaps each backward pass.
    """
    return _expand_text(_format_table(table), size, virtual, micro_batches, ahead)


def _format_table(table: Mapping[str, Any]) -> str:
    """Return a table as text, by which results are cached."""
    return json.dumps(table, default=str)


@lru_cache(16)
def _expand_text(text: str, size: int, virtual: int, micro_batches: int, ahead: bool) -> Schedule:
    """Return the schedule of a table in JSON; see ``schedule`` for arguments and errors."""
    table = parse_json(text)
    found = list_paths(table["path"], size, virtual)
    chunks = 1 + max(chunk for way in found for _, chunk in way)
    if size * chunks * micro_batches > MOST:
        count = f"{size} stages × {chunks} chunks × {micro_batches} micro-batches"
        raise ValueError(f"{count} are more than {MOST} forward passes")
    orders = []
    for stage in range(size):
        names = {"p": size, "v": virtual, "m": micro_batches, "i": stage, "o": int(ahead)}
        for name, text in (table.get("let") or {}).items():
            if name in names or not re.fullmatch("[a-z]+", name) or name in ("min", "max"):
                raise ValueError(f"let: '{name}' is not a new name of lower-case letters")
            names[name] = evaluate_number(text, names)
        held = [range(micro_batches)] * chunks
        if len(found) > 1:  # half of them from either end
            half = micro_batches // 2
            starts = [range(half), range(half, micro_batches)]
            held = [starts[(stage, chunk) not in found[0]] for chunk in (0, 1)]
        orders.append(_order_passes(table, names, held))
    return Schedule(table["name"], found, tuple(orders))


def _order_passes(
    table: Mapping[str, Any], names: Mapping[str, int], held: Sequence[range]
) -> tuple[Pass, ...]:
    """Order the passes of a stage; ``held`` has the micro-batches of each of its chunks."""
    group = evaluate_number(table.get("group", "p"), names)
    if group < 1:
        raise ValueError(f"group is {group}")
    turns = [
        (chunk, each)
        for start in range(0, max(map(len, held)), group)
        for chunk, batches in enumerate(held)
        for each in batches[start : start + group]
    ]
    last = len(held) - 1
    back = [(last - chunk, held[last - chunk][each - held[chunk].start]) for chunk, each in turns]
    #: What is left: in turns, and by chunk; of a micro-batch that one has taken, the other has it
    #: no more. And the gradients of weights that wait.
    left = {FORWARD: deque(turns), BACKWARD: deque(back)}
    of_chunk = {
        (kind, chunk): deque((chunk, each) for each in batches)
        for kind in left
        for chunk, batches in enumerate(held)
    }
    taken: set[tuple[str, int, int]] = set()
    waiting: deque[tuple[int, int]] = deque()

    def take(word: str) -> Pass | None:
        """Take the next pass that a word of the table means (`F`, `B0`, `W`); None if none is left.

        Raises:
            ValueError: the device has no such chunk.
        """
        kind, chunk = word[0], word[1:]
        if kind == WEIGHT:
            return Pass(kind, *waiting.popleft()) if waiting else None
        of = FORWARD if kind == FORWARD else BACKWARD
        if chunk and int(chunk) > last:
            raise ValueError(f"{word}: a device has {len(held)} chunks, counted from 0")
        queue = of_chunk[of, int(chunk)] if chunk else left[of]
        while queue:
            found = queue.popleft()
            if (of, *found) not in taken:
                taken.add((of, *found))
                if kind == INPUT:
                    waiting.append(found)
                return Pass(kind, *found)
        return None

    passes: list[Pass] = []
    for phase in table["phases"]:
        rounds, times = 0, phase.get("times")
        most = evaluate_number(times, names) if times is not None else None
        before = -1
        while (most is None or rounds < most) and len(passes) > before:
            rounds, before = rounds + 1, len(passes)
            for words in phase["passes"]:
                together = [one for word in words.split("+") if (one := take(word)) is not None]
                if together:
                    first, *others = together
                    passes.append(first._replace(beside=others[0]) if others else first)
    undone = 2 * len(turns) - len(taken)
    if undone or waiting:
        some = f"{undone} passes undone" if undone else f"{len(waiting)} gradients of weights"
        raise ValueError(f"its phases leave {some} on stage {names['i'] + 1}")
    return tuple(passes)


def compute_length(schedule: Schedule, seconds: Mapping[str, Any]) -> Any:
    """Compute how long a pipeline takes if each kind of pass takes its ``seconds`` and sends take
    no time.

    Raises:
        ValueError: stages wait for each other for ever.
    """
    behind, before = schedule.find_neighbours()
    #: When a (chunk of a stage, forward?, micro-batch) has what it needs.
    ready: dict[tuple[Place, bool, int], Any] = {}
    free = [0] * len(schedule.orders)

    def run(stage: int, work: Pass) -> bool:
        """Run the next pass of a stage, and the one beside it; return False if an input has not
        arrived."""
        pair = (work,) if work.beside is None else (work, work.beside)
        start = free[stage]
        for kind, chunk, batch, _ in pair:
            here, forward = (stage, chunk), kind == FORWARD
            if kind != WEIGHT and not (forward and here not in before):
                if (here, forward, batch) not in ready:
                    return False
                start = max(start, ready[here, forward, batch])
        free[stage] = start + sum(seconds[one.kind] for one in pair)
        for kind, chunk, batch, _ in pair:
            here, forward = (stage, chunk), kind == FORWARD
            if forward and here not in behind:  # to the loss, and back
                ready[here, False, batch] = free[stage]
            elif kind != WEIGHT and (there := (behind if forward else before).get(here)):
                ready[there, forward, batch] = free[stage]
        return True

    run_passes(schedule, run)
    return max(free)


def run_passes(schedule: Schedule, run: Callable[[int, Pass], bool]) -> None:
    """Run the passes of all stages, each stage in its order, as soon as what they need is there:
    ``run`` returns whether it could run a pass.

    Raises:
        ValueError: stages wait for each other for ever.
    """
    orders = schedule.orders
    at, left = [0] * len(orders), sum(map(len, orders))
    while left:
        before = left
        for stage, order in enumerate(orders):
            place, end = at[stage], len(order)
            while place < end and run(stage, order[place]):
                place += 1
            left -= place - at[stage]
            at[stage] = place
        if left == before:
            stage = next(i for i, order in enumerate(orders) if at[i] < len(order))
            kind, chunk, batch, _ = orders[stage][at[stage]]
            raise ValueError(
                f"stage {stage + 1} waits forever before its pass {at[stage] + 1}, {kind}{chunk} "
                f"of micro-batch {batch + 1}"
            )


OWN = "own"
#: A backward pass is twice as long as a forward pass, half of it for the gradients of weights.
USUAL = {FORWARD: 1, BACKWARD: 2, INPUT: 1, WEIGHT: 1}


def apply_schedule(draft: Draft) -> None:
    """Move a schedule that is a table to ``parallelism.passes``, which the stages read."""
    found = draft.get("training.schedule")
    if isinstance(found, Mapping):
        draft.data["training"]["schedule"] = OWN
        draft.default("parallelism.passes", found, "the table of training.schedule")


def check_table(draft: Draft, model: Model) -> None:
    """Check that a table runs every pass once and ends; set its bubble."""
    table, layout = draft.get("parallelism.passes"), draft.get("parallelism")
    batches = draft.get("training.gradient_accumulation")
    if table is None or not batches:
        return
    size, virtual = layout["pipeline"], layout["virtual_pipeline"]
    key = "training.schedule.path"
    if table["path"] == OPPOSITE:
        wrong = "micro-batches from both ends need two copies of the model"
        draft.fault(key, wrong, f"{LOOP} or {THERE_AND_BACK}")
    elif table["path"] == THERE_AND_BACK and virtual != 2:
        wrong = f"there and back needs two chunks on each device, not {virtual}"
        draft.fault(key, wrong, "parallelism.virtual_pipeline: 2")
    else:
        try:
            whole = _measure_length(
                _format_table(table), size, virtual, batches, layout["expert_overlap"]
            )
        except ValueError as error:
            of = f"for {size} stages, {virtual} chunks a device and {batches} micro-batches"
            draft.fault("training.schedule.phases", str(error), f"each pass once, {of}")
        else:
            each = (USUAL[FORWARD] + USUAL[BACKWARD]) * virtual
            why = "of its table, where a backward pass takes two forward passes"
            draft.default("time.bubble", Fraction(whole, each) - batches, why)


@lru_cache(16)
def _measure_length(text: str, size: int, virtual: int, micro_batches: int, ahead: bool) -> int:
    """Return the length of a schedule in units of time, with the usual durations of passes."""
    found: int = compute_length(_expand_text(text, size, virtual, micro_batches, ahead), USUAL)
    return found


def list_in_flight(layout: Mapping[str, Any], micro_batches: int) -> list[list[int]]:
    """Return the micro-batches in flight at the peak, for each stage and each of its chunks."""
    size, virtual = layout["pipeline"], layout["virtual_pipeline"]
    try:
        ahead = layout["expert_overlap"]
        return _find_in_flight(_format_table(layout["passes"]), size, virtual, micro_batches, ahead)
    except ValueError:  # which a check tells
        return [[micro_batches] * virtual] * size


@lru_cache(16)
def _find_in_flight(
    text: str, size: int, virtual: int, micro_batches: int, ahead: bool
) -> list[list[int]]:
    """Return the most micro-batches in flight, for each stage and each of its chunks."""
    orders, found = _expand_text(text, size, virtual, micro_batches, ahead).orders, []
    for order in orders:
        now, most = [0] * virtual, [0] * virtual
        for work in order:
            for one in filter(None, (work, work.beside)):
                now[one.chunk] += one.kind == FORWARD
                most = list(now) if sum(now) > sum(most) else most
                now[one.chunk] -= one.kind in (BACKWARD, WEIGHT)
        found.append(most)
    return found


def evaluate_number(text: Any, names: Mapping[str, int]) -> int:
    """Evaluate a whole number of a table, an expression of names.

    Raises:
        ValueError: with what is wrong.
    """
    if len(str(text)) > LONGEST:
        raise ValueError(f"a number of more than {LONGEST} characters")
    return evaluate_whole(str(text), {**names, **EXTREMES})
