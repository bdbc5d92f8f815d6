"""One collective over a group of devices: time, algorithm, bus bandwidth, and what bounds it.

The group is that of a plan with data parallelism over as many devices, so hops and bandwidths are
those of the plan, and the formulas are those of the book (axis ``collective``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from planner.base import numbers, units
from planner.base.display import as_json, clean, one_line
from planner.base.errors import Fault, PlanError, show_files_alone
from planner.base.numbers import exact_text
from planner.book.formulas.time_collective import OPERATIONS
from planner.connect.measure import expected
from planner.report.layout import COLLECTIVE_LINES
from planner.report.matmul import dump_quantities, list_answers
from planner.results.result import Quantity, Result

#: Operations that are sent from device to device, by what does it.
PAIRWISE = {"all-to-all": "pairwise", "p2p": "send and receive"}


@dataclass(frozen=True)
class CollectiveAnswer:
    """A collective and its quantities.

    Attributes:
        operation: one of ``OPERATIONS``.
        size: bytes.
        result: the evaluation of a plan whose data-parallel group is the collective's.
        answers: quantities by the names of ``COLLECTIVE_LINES``; those that have a value.
    """

    operation: str
    size: Fraction
    result: Result
    answers: Mapping[str, Quantity]

    @property
    def devices(self) -> int:
        """The devices of the group."""
        return int(self.result.plan.get("cluster.devices"))

    @property
    def algorithm(self) -> str:
        """How the library carries it out."""
        if self.operation in PAIRWISE:
            return PAIRWISE[self.operation]
        if self.operation != "all-reduce" or self.devices == 1:
            return "ring"
        latency = self.answers["latency"].number
        if self.result.plan.settings["time.shards"] == "nodes":
            hops = 2 * self.result["network.data_hops"].number
            return "tree" if latency < hops else "ring"
        hops = 2 * (self.devices - 1) * self.result.plan.get("cluster.accelerator.link.latency")
        on_ring = self.answers["link"].number + hops
        return "switches (NVLS)" if self.answers["time"].number < on_ring else "ring"

    @property
    def bound(self) -> str:
        """What takes most of the time: link, network or latency."""
        parts = {
            name: self.answers[name].number
            for name in ("link", "network", "latency")
            if name in self.answers
        }
        return max(parts, key=lambda name: parts[name]) if parts else "nothing"


def evaluate_collective(
    operation: str,
    size: str,
    cluster: str | Mapping[str, Any],
    devices: int | None,
    changes: Sequence[str],
) -> CollectiveAnswer:
    """Evaluate a collective over consecutive devices of a cluster.

    Args:
        operation: one of ``OPERATIONS``.
        size: bytes, such as 1GiB.
        cluster: a built-in cluster, the file of one, or its document.
        devices: of the group; all by default.
        changes: further keys of the plan, each KEY=VALUE.

    Returns:
        The collective with its evaluated quantities.

    Raises:
        PlanError: no such cluster, no such operation, no bytes, a group that the cluster does not
            have, or a rate or latency that its documents lack.
    """
    if operation not in OPERATIONS:
        raise PlanError(Fault.from_pool(f"no collective {operation}", operation, OPERATIONS))
    bytes_ = units.parse_option("--bytes", size, "bytes", "at least 1 byte, such as 1GiB", least=1)
    keys = {"cluster": {"extends": cluster} if isinstance(cluster, str) else cluster}
    with show_files_alone():
        whole = expected.load_layer(keys, changes)  # data-parallel over all devices
    node, all_ = (int(whole.get(f"cluster.{key}")) for key in ("link_domain", "devices"))
    group = all_ if devices is None else devices
    if not 1 <= group <= all_ or (group > node and group % node):
        allowed = f"1 to {min(node, all_)}" + (
            f", or a multiple of {node} up to {all_}" if all_ > node else ""
        )
        raise PlanError(f"--devices {group}", None, allowed)
    few = {**keys, "cluster.devices": group}
    with show_files_alone():
        plan = whole if group == all_ else expected.load_layer(few, changes)
    result, point = expected.evaluate_group_collective(plan, operation, bytes_)
    answers = {name: result.get_quantity(base, point) for name, base in COLLECTIVE_LINES.items()}
    if answers["time"].absent is not None:
        raise PlanError(f"{operation}: {answers['time'].absent}")
    answers = {name: found for name, found in answers.items() if found.absent is None}
    return CollectiveAnswer(operation, bytes_, result, answers)


def format_collective(found: CollectiveAnswer) -> str:
    """Format the answers for a terminal, each with its formula and numbers."""
    answers, result = found.answers, found.result
    name = clean(result.plan.get("cluster.accelerator.name"))
    over = "between two of" if found.operation == "p2p" else "over"
    lines = [
        f"{answers['time'].text()}: {found.operation} of {numbers.text(found.size, 'bytes')} "
        f"{over} {exact_text(found.devices)} {name}",
        f"{found.algorithm}; bound by {found.bound}",
        "Rates are those by which plans are predicted: what training runs sustain.",
        "",
    ]
    used = {one.symbol: one for each in answers.values() for one in each.uses}
    own = {quantity.symbol for quantity in answers.values()}
    lines += list_answers(answers, [one for symbol, one in used.items() if symbol not in own])
    return "".join(one_line(line.rstrip()) + "\n" for line in lines)


def encode_collective(found: CollectiveAnswer) -> str:
    """Return the answers as JSON, with the quantities as in a result."""
    return as_json(
        {
            "operation": found.operation,
            "bytes": found.size,
            "devices": found.devices,
            "accelerator": found.result.plan.get("cluster.accelerator.name"),
            "algorithm": found.algorithm,
            "bound": found.bound,
            "quantities": dump_quantities(found.answers),
        }
    )
