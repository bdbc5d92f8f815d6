"""Whether numbers can be right: their sign, their range, their order, and what moves them where.

A crash is seen by anybody; an absurd number by nobody. So each document that evaluates is judged by
laws that hold whatever the formulas are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner.base.resources import read_yaml

#: What may be below zero: what is left of a capacity.
SIGNED = ("memory.headroom", "memory.headroom_p95", "memory.left")
#: Shares of a whole. A utilisation counts what masks hide, which kernels may skip.
SHARES = ("time.goodput", "memory.activations.offloaded")
_TABLES = read_yaml(Path(__file__).with_suffix(".yaml"))
#: The first is at most the second.
ORDERS = _TABLES["orders"]
#: A larger value of the key may lower (+1) or raise (-1) none of these.
LAWS: dict[str, tuple[int, tuple[str, ...]]] = {
    key: (sign, tuple(name for word in words for name in _TABLES["groups"].get(word, [word])))
    for sign, part in ((+1, "raises"), (-1, "lowers"))
    for key, words in _TABLES[part].items()
}
#: Floats are sums of many numbers.
ROUNDING = 1e-9

Numbers = Mapping[str, Any]
Result = Mapping[str, Any]


def result(data: Result) -> str | None:
    """What is absurd about a result in JSON; None where nothing is."""
    numbers = {i: q["value"] for i, q in data["quantities"].items() if is_number(q["value"])}
    for name, value in numbers.items():
        interval = data["quantities"][name].get("interval")
        if interval and not in_order(interval[0], value, interval[1]):
            return f"{name.partition('[')[0]} lies outside its own interval"
    return values(numbers) or unsaid(data["absent"])


def values(numbers: Numbers) -> str | None:
    """What is absurd about the numbers of a plan, by id; None where nothing is."""
    for name, value in numbers.items():
        base = name.partition("[")[0]
        if isinstance(value, float) and not math.isfinite(value):
            return f"{base} is not finite"
        if value < 0 and base not in SIGNED:
            return f"{base} is below zero"
        if base in SHARES and value > 1 + ROUNDING:
            return f"{base} is above one"
    for small, large in ORDERS:
        if small in numbers and large in numbers and not in_order(numbers[small], numbers[large]):
            return f"{small} is above {large}"
    wanted = ("memory.capacity", "memory.process", "memory.headroom")
    if all(name in numbers for name in wanted):
        capacity, process, headroom = (numbers[name] for name in wanted)
        if abs(capacity - process - headroom) > 1 + ROUNDING * abs(process):
            return "memory.headroom is not capacity less process"
    return None


def unsaid(absent: Mapping[str, str]) -> str | None:
    """What is absent for a reason that is the program's own fault; None where nothing is."""
    for name, reason in absent.items():
        if not reason.strip() or "please report" in reason:
            return f"{name.partition('[')[0]} is absent: {reason}"
    return None


def order(key: str, before: Numbers, after: Numbers) -> str | None:
    """A law that numbers break where a key was made larger; None where none is."""
    sign, names = LAWS.get(key, (0, ()))
    for name in names:
        if not (name in before and name in after):
            continue
        pair = (before[name], after[name])
        if not in_order(*(pair if sign > 0 else reversed(pair))):
            return f"more {key} {'lowers' if sign > 0 else 'raises'} {name}"
    return None


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Fraction)) and not isinstance(value, bool)


def in_order(*numbers: Any) -> bool:
    """Whether numbers do not fall, but for rounding."""
    return all(
        b >= a or a - b <= ROUNDING * max(abs(a), abs(b)) for a, b in itertools.pairwise(numbers)
    )
