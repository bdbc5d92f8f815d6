"""Pipeline schedules: in which order a stage runs its passes, as tables in presets/schedules say.

A pass is forward (``F``), backward (``B``), backward without the gradients of weights (``I``) or
these gradients, put off (``W``), of one chunk of the model and one micro-batch. A table has phases;
each runs a row of passes so many ``times``, or, where it says none, as long as one of them is left.
A pass that is not left is passed over.

``F0`` is the next micro-batch of the device's first chunk; ``F`` the next of all chunks, which take
turns every ``group`` micro-batches (as many as stages, by default), in backward passes from the
last chunk on; ``W`` belongs to the ``I`` that waits longest; ``F0+B1`` run beside each other.
Numbers are whole, written in ``p`` stages, ``v`` chunks a device, ``m`` micro-batches, ``i`` the
stage from 0 on, and names that ``let`` gives; with + - * // % min max and brackets.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from planner.base import resources

#: How a micro-batch passes the chunks of a pipeline: chunk after chunk, round after round over the
#: stages; half of the micro-batches from either end, each past chunks of its own; down the stages
#: over their first chunks and back over their second.
LOOP, OPPOSITE, THERE_AND_BACK = "loop", "opposite", "there and back"
#: What a pass does. A full backward pass is both of the other two.
FORWARD, BACKWARD, INPUT, WEIGHT = "F", "B", "I", "W"
LONGEST = 200  # characters of a number in a table


class Pass(NamedTuple):
    """One pass of a stage over a chunk that the device holds, and the pass beside it, if any."""

    kind: str
    chunk: int
    micro_batch: int
    beside: Pass | None = None


class Schedule(NamedTuple):
    """What each stage of a pipeline runs, in order, and the way of a micro-batch."""

    name: str
    #: The (stage, chunk) that a micro-batch passes, one after another; two ways from either end.
    ways: tuple[tuple[tuple[int, int], ...], ...]
    orders: tuple[tuple[Pass, ...], ...]


def chunks_of(table: Mapping[str, Any], virtual: int) -> int:
    """How many chunks of the model a device holds."""
    return virtual if table["path"] == LOOP else 2


def ways(path: str, size: int, virtual: int) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The (stage, chunk) that micro-batches pass, one after another, by the path of a table."""
    if path == LOOP:
        return (tuple((stage, turn) for turn in range(virtual) for stage in range(size)),)
    down = tuple((stage, 0) for stage in range(size))
    if path == THERE_AND_BACK:
        return ((*down, *((stage, 1) for stage in reversed(range(size)))),)
    # A device's first chunk is passed by those that entered at the nearer end.
    near = tuple((stage, int(2 * stage >= size)) for stage in range(size))
    return near, tuple((stage, 1 - chunk) for stage, chunk in reversed(near))


def table(name: str) -> Mapping[str, Any]:
    """The table of a schedule that ships."""
    found: Mapping[str, Any] = resources.preset(f"schedules/{name}")
    return found


@lru_cache(16)
def schedule(name: str, size: int, virtual: int, micro_batches: int) -> Schedule:
    """The order of passes of a schedule that ships, for so many stages, chunks and micro-batches.

    Raises:
        ValueError: the table does not run every pass once, in an order that a device can keep.
    """
    return expanded(table(name), size, virtual, micro_batches)


def expanded(table: Mapping[str, Any], size: int, virtual: int, micro_batches: int) -> Schedule:
    """As ``schedule``, of a table."""
    found = ways(table["path"], size, virtual)
    orders = []
    for stage in range(size):
        names = {"p": size, "v": virtual, "m": micro_batches, "i": stage}
        for name, text in table.get("let", {}).items():
            names[name] = number(text, names)
        held = [range(micro_batches)] * chunks_of(table, virtual)
        if len(found) > 1:  # half of them from either end
            half = micro_batches // 2
            starts = [range(half), range(half, micro_batches)]
            held = [starts[(stage, chunk) not in found[0]] for chunk in (0, 1)]
        orders.append(tuple(_order(table, names, held)))
    return Schedule(table["name"], found, tuple(orders))


def _order(
    table: Mapping[str, Any], names: Mapping[str, int], held: Sequence[range]
) -> Iterator[Pass]:
    """The passes of a stage that holds chunks, each for a range of micro-batches."""
    group = number(table.get("group", "p"), names)
    turns = [
        (chunk, each)
        for start in range(0, max(map(len, held)), group)
        for chunk, batches in enumerate(held)
        for each in batches[start : start + group]
    ]
    back = [
        (len(held) - 1 - chunk, held[len(held) - 1 - chunk][each - held[chunk].start])
        for chunk, each in turns
    ]
    # Which passes are left, each micro-batch of each chunk once.
    left = {FORWARD: deque(turns), BACKWARD: deque(back), WEIGHT: deque[tuple[int, int]]()}
    gone: set[tuple[str, int, int]] = set()
    places = {
        (kind, chunk): deque((chunk, each) for each in batches)
        for kind in (FORWARD, BACKWARD)
        for chunk, batches in enumerate(held)
    }

    def take(word: str) -> Pass | None:
        kind, chunk = word[0], int(word[1:]) if word[1:] else None
        of = BACKWARD if kind == INPUT else kind
        queue = left[of] if chunk is None else places[of, chunk]
        while queue:
            found = queue.popleft()
            if (of, *found) not in gone:
                break
        else:
            return None
        if kind == INPUT:
            left[WEIGHT].append(found)
        if kind != WEIGHT:
            gone.add((of, *found))
        return Pass(kind, *found)

    for phase in table["phases"]:
        times = phase.get("times")
        rounds = number(times, names) if times is not None else 3 * len(turns) + 1
        for _ in range(rounds):
            some = False
            for words in phase["passes"]:
                taken = [one for word in words.split("+") if (one := take(word)) is not None]
                if taken:
                    some = True
                    yield taken[0] if len(taken) == 1 else taken[0]._replace(beside=taken[1])
            if not some:
                break


# -- numbers of a table ------------------------------------------------------------------------

_TOKEN = re.compile(r"\s*(\d{1,9}|[a-z]+|//|[-+*%(),])")
_PRODUCTS: Mapping[str, Callable[[int, int], int]] = {
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
}


def number(text: Any, names: Mapping[str, int]) -> int:
    """A whole number that a table gives by names.

    Raises:
        ValueError: with what is wrong.
    """
    text = str(text)
    if len(text) > LONGEST:
        raise ValueError(f"more than {LONGEST} characters")
    tokens, at = deque[str](), 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:].strip()[0]!r} is no part of a number")
        tokens.append(found[1])
        at = found.end()

    def expect(wanted: str) -> None:
        if not tokens or tokens.popleft() != wanted:
            raise ValueError(f"a {wanted!r} is missing")

    def total() -> int:
        value = product()
        while tokens and tokens[0] in ("+", "-"):
            value = value + product() if tokens.popleft() == "+" else value - product()
        return value

    def product() -> int:
        value = factor()
        while tokens and tokens[0] in _PRODUCTS:
            operation, other = tokens.popleft(), factor()
            if other == 0 and operation != "*":
                raise ValueError("a division by 0")
            value = _PRODUCTS[operation](value, other)
        return value

    def factor() -> int:
        word = tokens.popleft() if tokens else ""
        if word == "-":
            return -factor()
        if word == "(":
            value = total()
            expect(")")
            return value
        if word in ("min", "max"):
            expect("(")
            values = [total()]
            while tokens and tokens[0] == ",":
                tokens.popleft()
                values.append(total())
            expect(")")
            return min(values) if word == "min" else max(values)
        if word.isdigit():
            return int(word)
        if word not in names:
            raise ValueError(f"{word or 'nothing'} is no number and none of {', '.join(names)}")
        return names[word]

    value = total()
    if tokens:
        raise ValueError(f"{tokens[0]!r} stands behind a whole number")
    return value
