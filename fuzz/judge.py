"""Whether numbers can be right: their sign, their range, their order, and what moves them where.

A crash is seen by anybody; an absurd number by nobody. So each document that evaluates is judged by
laws that hold whatever the formulas are.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

#: What may be below zero: what is left of a capacity.
SIGNED = ("memory.headroom", "memory.headroom_p95")
#: Shares of a whole. A utilisation counts what masks hide, which kernels may skip.
SHARES = ("time.goodput", "memory.activations.offloaded")
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
    ("time.micro_batch", "time.step_seconds"),
    ("time.training_days", "time.run_days"),
    ("time.device_hours", "time.run_device_hours"),
    ("time.tokens_per_second_per_device", "time.tokens_per_second"),
    ("cost.total", "cost.run"),
    ("energy.devices", "energy.computers"),
    ("energy.hosts", "energy.computers"),
    ("energy.computers", "energy.total"),
    ("energy.expected", "energy.total"),
)
STEP = ("time.step_seconds",)
RUN = (
    "time.training_days", "time.device_hours", "time.run_days", "time.run_device_hours",
    "cost.total", "cost.reserved", "cost.run", "energy.total", "energy.expected",
)  # fmt: skip
SLOWER = (*STEP, *RUN)
HELD = ("memory.total", "memory.reserved", "memory.process", "memory.at_worst")
SIZE = ("parameters.total", "compute.flops_per_token", "checkpoint.bytes", *STEP)
#: A larger value of the key may lower (+1) or raise (-1) none of these.
LAWS: dict[str, tuple[int, tuple[str, ...]]] = {
    "training.tokens": (+1, (*RUN, "compute.training_flops", "compute.training_flops_6nd")),
    "training.global_batch": (+1, STEP),
    "training.sequence_length": (+1, (*STEP, "memory.activations")),
    "training.context_tokens": (+1, (*STEP, "memory.activations")),
    "training.expert_imbalance": (+1, (*SLOWER, *HELD)),
    "training.dropout": (+1, ("memory.activations",)),
    "training.offload.activations": (-1, ("memory.activations",)),
    "training.output_tokens": (+1, ("time.latency_seconds", "memory.cache")),
    "training.lora.rank": (+1, (*STEP, "memory.optimizer", "memory.gradients")),
    "model.layers": (+1, SIZE),
    "model.vocab": (+1, SIZE),
    "model.mlp.intermediate": (+1, SIZE),
    "model.moe.intermediate": (+1, SIZE),
    "model.moe.shared_experts": (+1, SIZE),
    "model.moe.experts": (+1, ("parameters.total", "checkpoint.bytes")),
    "model.moe.top_k": (+1, ("parameters.active", "compute.flops_per_token", *STEP)),
    "cluster.price": (+1, ("cost.total", "cost.run", "cost.million_output_tokens")),
    "cluster.reserved_price": (+1, ("cost.reserved",)),
    "cluster.pue": (+1, ("energy.total", "energy.expected", "energy.carbon")),
    "cluster.host_power": (+1, ("energy.hosts", "energy.total", "energy.carbon")),
    "cluster.carbon_intensity": (+1, ("energy.carbon",)),
    "cluster.stragglers": (+1, RUN),
    "cluster.storage.blocking": (+1, RUN),
    "cluster.storage.bandwidth": (-1, (*RUN, "checkpoint.write_seconds")),
    "cluster.failures.count": (+1, RUN),
    "cluster.failures.period": (-1, RUN),
    "cluster.failures.devices": (-1, RUN),
    "time.restart": (+1, RUN),
    "time.mfu": (-1, SLOWER),
    "time.host_link": (-1, SLOWER),
    "time.host_memory": (-1, SLOWER),
    "cluster.network.bandwidth": (-1, SLOWER),
    "cluster.network.sustained": (-1, SLOWER),
    "cluster.network.latency": (+1, SLOWER),
    "cluster.network.oversubscription": (+1, SLOWER),
    "cluster.accelerator.memory_bandwidth": (-1, SLOWER),
    "cluster.accelerator.link.bandwidth": (-1, SLOWER),
    "cluster.accelerator.link.latency": (+1, SLOWER),
    "cluster.accelerator.network.bandwidth": (-1, SLOWER),
    "cluster.accelerator.network.latency": (+1, SLOWER),
    "cluster.accelerator.memory": (-1, ("memory.process",)),
    "cluster.accelerator.memory_usable": (+1, ("memory.capacity", "memory.headroom")),
    "cluster.accelerator.power": (+1, ("energy.devices", "energy.total")),
    "cluster.accelerator.idle_power": (+1, ("energy.devices", "energy.total")),
    "memory.allocator_share": (+1, HELD[1:]),
    "memory.margin": (+1, ("memory.at_worst",)),
    "memory.other": (+1, HELD[2:]),
    "memory.context": (+1, HELD[2:]),
    "memory.communicator": (+1, HELD[2:]),
    "memory.workspace": (+1, HELD),
    **{f"training.bytes.{key}": (+1, HELD) for key in ("weight", "gradient", "master", "state")},
    **{f"time.efficiency.{key}": (-1, SLOWER) for key in (
        "matmul", "matmul_16", "attention", "memory", "link", "network", "all_to_all", "dispatch",
        "attention_backward",
    )},
    **{f"time.efficiency.{key}": (+1, SLOWER) for key in (
        "alignment", "alignment_8", "small_tile", "elementwise", "elementwise_backward", "launch",
        "contention", "launches", "end_launches", "ring_launches", "mixer_accesses",
        "embedding_accesses", "small_dimension", "head_exponent",
    )},
}  # fmt: skip
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
