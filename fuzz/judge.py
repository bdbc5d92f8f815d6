"""Whether numbers can be right: their sign, their range, their order, and what moves them where.

A crash is seen by anybody; an absurd number by nobody. So each document that evaluates is judged by
laws that hold whatever the formulas are.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import math
from collections.abc import Mapping
from fractions import Fraction
from random import Random
from typing import Any

#: What may be below zero: what is left of a capacity.
SIGNED = ("memory.headroom", "memory.headroom_p95")
#: Shares of a whole, unless a plan assumes one of them.
SHARES = ("time.mfu", "time.hfu", "cluster.goodput", "time.goodput")
#: The first is at most the second.
ORDERS = (
    ("parameters.active", "parameters.total"),
    ("parameters.embedding", "parameters.total"),
    ("parameters.non_embedding", "parameters.total"),
    ("parameters.routed_experts", "parameters.total"),
    ("compute.forward_flops_per_token", "compute.flops_per_token"),
    ("memory.weights", "memory.total"),
    ("memory.total", "memory.reserved"),
    ("memory.reserved", "memory.process"),
    ("memory.process", "memory.at_worst"),
    ("memory.headroom_p95", "memory.headroom"),
    ("energy.devices", "energy.total"),
)
#: A larger value of the key, by this factor, may lower (-1) or raise (+1) none of these.
RUN = ("time.training_days", "time.device_hours", "cost.total", "energy.total")
LAWS: tuple[tuple[str, Fraction, int, tuple[str, ...]], ...] = (
    ("training.tokens", Fraction(2), -1, (*RUN, "compute.training_flops")),
    ("training.global_batch", Fraction(2), -1, ("time.step_seconds",)),
    ("cluster.price", Fraction(3), -1, ("cost.total",)),
    ("cluster.pue", Fraction(3, 2), -1, ("energy.total", "energy.carbon")),
    ("cluster.host_power", Fraction(2), -1, ("energy.total",)),
    ("cluster.carbon_intensity", Fraction(2), -1, ("energy.carbon",)),
    ("cluster.stragglers", Fraction(2), -1, RUN),
    ("cluster.storage.blocking", Fraction(2), -1, RUN),
    ("cluster.failures.count", Fraction(2), -1, RUN),
    ("time.restart", Fraction(3), -1, RUN),
    ("model.layers", Fraction(2), -1,
     ("parameters.total", "compute.flops_per_token", "checkpoint.bytes", "time.step_seconds")),
    ("model.moe.intermediate", Fraction(2), -1, ("parameters.total", "time.step_seconds")),
    ("model.mlp.intermediate", Fraction(2), -1, ("parameters.total", "time.step_seconds")),
    ("training.sequence_length", Fraction(2), -1, ("time.step_seconds", "memory.activations")),
    ("cluster.storage.bandwidth", Fraction(2), 1, RUN),
    ("cluster.failures.period", Fraction(2), 1, RUN),
    ("cluster.failures.devices", Fraction(2), 1, RUN),
    ("cluster.accelerator.memory_bandwidth", Fraction(2), 1, ("time.step_seconds",)),
    ("cluster.accelerator.link.bandwidth", Fraction(2), 1, ("time.step_seconds",)),
    ("cluster.accelerator.network.bandwidth", Fraction(2), 1, ("time.step_seconds",)),
    ("cluster.network.bandwidth", Fraction(2), 1, ("time.step_seconds",)),
    ("cluster.accelerator.memory", Fraction(2), 1, ("memory.process",)),
)  # fmt: skip
#: Floats are sums of many numbers.
ROUNDING = Fraction(1, 10**9)

Result = Mapping[str, Any]


def values(result: Result) -> str | None:
    """What is absurd about the numbers of a result; None where nothing is."""
    numbers = {i: q["value"] for i, q in result["quantities"].items() if _is_number(q["value"])}
    for name, value in numbers.items():
        base = name.partition("[")[0]
        if not math.isfinite(value):
            return f"{base} is not finite"
        if value < 0 and base not in SIGNED:
            return f"{base} is below zero"
        if base in SHARES and value > 1 + ROUNDING and "time.mfu" not in result["inputs"]:
            return f"{base} is above one"
        interval = result["quantities"][name].get("interval")
        if interval and not _in_order(interval[0], value, interval[1]):
            return f"{base} lies outside its own interval"
    for small, large in ORDERS:
        if small in numbers and large in numbers and not _in_order(numbers[small], numbers[large]):
            return f"{small} is above {large}"
    wanted = ("memory.capacity", "memory.process", "memory.headroom")
    if all(name in numbers for name in wanted):
        capacity, process, headroom = (Fraction(numbers[name]) for name in wanted)
        if abs(capacity - process - headroom) > 1:
            return "memory.headroom is not capacity less process"
    return None


def law(random: Random, line: list[str], result: Result) -> str | None:
    """A law that the plan of a line breaks: one key is made larger, and a number that rests on it
    moves the wrong way. None where it holds, or the larger value is refused."""
    inputs = {key: about["value"] for key, about in result["inputs"].items()}
    if inputs.get("parallelism.auto"):  # another layout may be the best
        return None
    known = [one for one in LAWS if _is_number(inputs.get(one[0])) and inputs[one[0]] > 0]
    if not known:
        return None
    key, factor, sign, names = random.choice(known)
    larger = Fraction(inputs[key]) * factor
    text = str(larger) if larger.denominator == 1 else repr(float(larger))
    changed = evaluated([*line, "--set", f"{key}={text}"])
    if changed is None:
        return None
    for name in names:
        before, after = (
            side["quantities"].get(name, {}).get("value") for side in (result, changed)
        )
        if not (_is_number(before) and _is_number(after)):
            continue
        in_order = _in_order(before, after) if sign < 0 else _in_order(after, before)
        if not in_order:
            return f"more {key} {'lowers' if sign < 0 else 'raises'} {name}"
    return None


def evaluated(line: list[str]) -> Result | None:
    """The result of a command line that prints it as JSON; None where it is refused."""
    from planner.base.errors import PlanError
    from planner.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = run(line)
        except PlanError:
            return None
    found: Result | None = json.loads(out.getvalue()) if status == 0 else None
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _in_order(*numbers: float) -> bool:
    """Whether numbers do not fall, but for rounding."""
    exact = list(map(Fraction, numbers))
    return all(b - a >= -ROUNDING * max(abs(a), abs(b)) for a, b in itertools.pairwise(exact))
