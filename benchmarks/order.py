"""Whether predicted time puts layouts in the measured order.

``python -m benchmarks.order --runs FILE [--runs FILE …]`` compares runs of one source that differ
in their layout and batch alone (same model, machine, length and kernels) by seconds for a token.
For each source it prints how many pairs lie at least 5 % apart, the share of them that is predicted
in the measured order, and the regret: by how much the layout that is predicted to be the fastest
was slower than the fastest, in the mean and at worst. A run whose source leaves a key open with
several predictions takes no part. A second table counts pairs of all sources by how far apart they
are predicted; ``--order FILE`` writes it as data, with the distance up to which layouts are not
told apart. ``--markdown FILE`` rewrites both tables of a page.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean

from benchmarks import measured, tables
from benchmarks.time_accuracy import percent
from planner.plans import layout

#: Measured times that differ by less say nothing about an order.
APART = 1.05
HEADS = ("source", "layouts", "pairs", "in order", "regret", "worst regret")
#: Predicted distances, in percent, by which pairs of all sources are counted.
DISTANCES = (2, 20)
#: Up to this share of pairs in order, half-way between a coin and certainty, two layouts are not
#: told apart.
UNSURE = 0.75
#: What runs of one group may differ in, besides `parallelism`.
_FREE = {*layout.ROW, "training.global_batch"} - {*layout.OWN_CHOICE}


#: Seconds for a token: predicted, measured.
Layout = tuple[float, float]
#: Layouts that were measured side by side, by source.
Groups = dict[str, list[list[Layout]]]


def list_groups(rows: Iterable[measured.Row]) -> Groups:
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
    found: Groups = {}
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


def list_distances(groups: Iterable[Sequence[Layout]]) -> list[tuple[float, bool]]:
    """List the pairs of a source that differ in prediction and in measurement: how far apart they
    are predicted, in percent, and whether they were measured in that order."""
    return [
        (100 * (slow[0] / fast[0] - 1), slow[1] > fast[1])
        for group in groups
        for fast, slow in combinations(sorted(group), 2)
        if slow[0] > fast[0] * (1 + 1e-9) and slow[1] != fast[1]
    ]


def count_in_order(found: Groups, low: float, high: float) -> tuple[int, float]:
    """Count the pairs that are predicted more than ``low`` and at most ``high`` percent apart, and
    the share of them in the measured order, in the mean over sources."""
    sources = [
        [right for apart, right in list_distances(groups) if low < apart <= high]
        for groups in found.values()
    ]
    sources = [rights for rights in sources if rights]
    return sum(map(len, sources)), fmean(map(fmean, sources)) if sources else 1.0


def find_close_distance(found: Groups) -> int:
    """Find the largest distance, in whole percent, up to which no more pairs are in the measured
    order than ``UNSURE``."""
    close = 0
    while count_in_order(found, 0, close + 1)[1] <= UNSURE:
        close += 1
    return close


def format_order(found: Groups) -> str:
    """Write what a search states about the order of layouts (presets/efficiency/order.yaml)."""
    return "\n".join(
        [
            "# Pairs of layouts that one source measured side by side, by how far apart they are",
            "# predicted, and the share of them that was measured in the predicted order, in the",
            "# mean over sources. Up to `close` that is at most three of four, half-way between a",
            "# coin and certainty: such layouts are not told apart. Written by benchmarks.order.",
            f"close: {find_close_distance(found) / 100:g}",
            "distances:",
            *(
                f"  - {{up_to: {'.inf' if high == math.inf else high / 100}, pairs: {pairs}, "
                f"in_order: {share:.2f}}}"
                for high, (pairs, share) in _group_by_distance(found)
            ),
            "",
        ]
    )


def _group_by_distance(found: Groups) -> list[tuple[float, tuple[int, float]]]:
    """Group pairs by the distance up to which they are predicted apart: their number and share."""
    ends = (0, *DISTANCES, math.inf)
    return [(high, count_in_order(found, low, high)) for low, high in pairwise(ends)]


def tabulate_distances(found: Groups) -> list[tuple[str, ...]]:
    """Tabulate pairs by their predicted distance."""
    table: list[tuple[str, ...]] = [("predicted apart", "pairs", "in order, mean over sources")]
    for high, (pairs, share) in _group_by_distance(found):
        name = "further" if high == math.inf else f"up to {high} %"
        table.append((name, str(pairs), f"{100 * share:.0f} %"))
    return table


def lines(found: Groups) -> list[tuple[str, ...]]:
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
    parser = tables.make_parser(__doc__)
    parser.add_argument("--order", type=Path, help="write the shares by distance to this file")
    options = parser.parse_args()
    found = list_groups(measured.read(*options.runs))
    tables.publish(options, "order", lines(found))
    tables.publish(options, "order by distance", tabulate_distances(found))
    if options.order:
        options.order.write_text(format_order(found), "utf-8")


if __name__ == "__main__":
    main()
