"""Whether predicted time puts layouts in the measured order.

``python -m benchmarks.order --runs FILE [--runs FILE …]`` compares runs of one source that differ
in their layout and batch alone (same model, machine, length and kernels) by seconds for a token.
For each source it prints how many pairs lie at least 5 % apart, the share of them that is predicted
in the measured order, and the regret: by how much the layout that is predicted to be the fastest
was slower than the fastest, in the mean and at worst. A run whose source leaves a key open with
several predictions takes no part. ``--markdown FILE`` rewrites the table of a page.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import fmean

from benchmarks import measured, tables
from benchmarks.time_accuracy import percent
from planner.plans import layout

#: Measured times that differ by less say nothing about an order.
APART = 1.05
HEADS = ("source", "layouts", "pairs", "in order", "regret", "worst regret")
#: What runs of one group may differ in, besides `parallelism`.
_FREE = {*layout.ROW, "training.global_batch"} - {*layout.OWN_CHOICE}


#: Seconds for a token: predicted, measured.
Layout = tuple[float, float]


def list_groups(rows: Iterable[measured.Row]) -> dict[str, list[list[Layout]]]:
    """List, by source, the groups of layouts that it measured side by side."""
    rows = [row for row in rows if row.quantity in measured.SPEED]
    groups: dict[tuple[str, str], list[Layout]] = {}
    records = measured.compare(
        rows, more=lambda run: {"rate": float(run.value("time.tokens_per_second"))}
    )
    for row, record in zip(rows, records, strict=True):
        if record["judged"] and "range" not in record:
            slow = 1 / record["rate"]
            error = (1 + record["error"]) * (1 + record.get("removed", 0))
            key = record["group"], describe_setting(row.plan)
            groups.setdefault(key, []).append((slow, slow / error))
    found: dict[str, list[list[Layout]]] = {}
    for (source, _), group in groups.items():
        if any(pairs([group])):
            found.setdefault(source, []).append(group)
    return found


def describe_setting(plan: measured.Document) -> str:
    """Describe what layouts that are compared have in common: the plan without its layout."""
    training = plan["training"].items()
    shared = {k: v for k, v in plan.items() if k not in ("name", "parallelism")}
    shared["training"] = {
        k: v for k, v in training if f"training.{k}" not in _FREE and "recompute" not in k
    }
    return json.dumps(shared, sort_keys=True)


def pairs(groups: Iterable[Sequence[Layout]]) -> list[bool]:
    """List, for each pair that was measured apart, whether it is predicted in that order."""
    return [
        fast[0] < slow[0]
        for group in groups
        for fast, slow in combinations(sorted(group, key=lambda layout: layout[1]), 2)
        if slow[1] >= APART * fast[1]
    ]


def regret(group: Sequence[Layout]) -> float:
    """By how much the layout that is predicted to be the fastest was slower than the fastest."""
    return min(group)[1] / min(measured for _, measured in group) - 1


def lines(found: dict[str, list[list[Layout]]]) -> list[tuple[str, ...]]:
    """A row for each source, and their mean."""
    table, shares, regrets = [HEADS], [], []
    for source, groups in sorted(found.items()):
        ordered, lost = pairs(groups), [regret(group) for group in groups]
        shares.append(fmean(ordered))
        regrets.append(fmean(lost))
        counts = (str(sum(map(len, groups))), str(len(ordered)), f"{100 * shares[-1]:.0f} %")
        table.append((source, *counts, percent(regrets[-1]), percent(max(lost))))
    mean = (f"mean over {len(shares)} sources", "", "", f"{100 * fmean(shares):.0f} %")
    return [*table, (*mean, percent(fmean(regrets)), percent(max(regrets)))]


def main() -> None:
    options = tables.make_parser(__doc__).parse_args()
    tables.publish(options, "order", lines(list_groups(measured.read(*options.runs))))


if __name__ == "__main__":
    main()
