"""The intervals that predicted times carry: how far predictions have been off on published runs.

    python -m benchmarks.time_bands --runs CSV --held-out YAML [--bands FILE] [--markdown FILE]

Runs of one kind (accelerator generation, dense or mixture of experts, on one node or several
where two sources measured so) give one interval, the 5th to the 95th percentile of measured over
predicted step time, each source with the same weight if it has five rows or more: the rows that
constants were fitted to (``--runs``) and those that they were not (``--held-out``). ``--bands``
writes the document of intervals. Each run that nothing was fitted to is also held against the
interval that all sources but its own give; ``--markdown`` rewrites those tables between the
markers of a page (docs/accuracy.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import time_totals
from benchmarks.time_accuracy import Record, compare, rows
from benchmarks.time_totals import Kind, Total
from planner import resources, source
from planner.bands import ANY, REST, chosen

#: Measured over predicted step time by kind and by source.
Ratios = Mapping[Kind, Mapping[str, Sequence[float]]]
#: Fewer runs are no kind of their own: they are judged by those of all.
FEW = 10
#: A source with fewer rows weighs less than the others.
ENOUGH = 5
#: No interval is narrower than what one layout measured twice differs by, nor reaches lower.
NARROWEST, LOWEST = 0.03, -0.6


def of_rows(file: Path, records: Iterable[Record]) -> Ratios:
    """Of the rows of a table of measured runs."""
    found: dict[Kind, dict[str, list[float]]] = {}
    errors = {record["id"]: record for record in records if "error" in record}
    for row in rows(file):
        record = errors.get(row["id"])
        if record is not None:
            kind = (architecture(row["accelerator"]), bool(row["num_experts"]), record["scale"])
            groups = found.setdefault(kind, {})
            groups.setdefault(record["source"], []).append(slowness(row, record))
    return found


def of_totals(found: Iterable[Total]) -> Ratios:
    """Of runs that nothing was fitted to."""
    ratios: dict[Kind, dict[str, list[float]]] = {}
    for total in found:
        ratios.setdefault(total.kind, {}).setdefault(total.source, []).append(total.ratio())
    return ratios


def together(*several: Ratios) -> Ratios:
    """Of all of them, each source once."""
    found: dict[Kind, dict[str, list[float]]] = {}
    for ratios in several:
        for kind, groups in ratios.items():
            for name, values in groups.items():
                found.setdefault(kind, {}).setdefault(name, []).extend(values)
    return found


def without(ratios: Ratios, name: str) -> Ratios:
    """Of all sources but one."""
    kept = {
        kind: {other: values for other, values in groups.items() if other != name}
        for kind, groups in ratios.items()
    }
    return {kind: groups for kind, groups in kept.items() if groups}


def slowness(row: Mapping[str, str], record: Record) -> float:
    """Measured over predicted step time of a row, its source's offset included."""
    whole: float = (1 + record["error"]) * (1 + record.get("removed", 0))
    return 1 / whole if row["measured_quantity"] == "step_time_s" else whole


@cache
def architecture(accelerator: str) -> str:
    file = resources.folder("presets") / "accelerators" / f"{accelerator}.yaml"
    return str(source.load(file, kind="accelerator").data["architecture"])


def quantile(groups: Iterable[Sequence[float]], share: float) -> float:
    """Of all rows, each source with the same weight, or less where it has few rows."""
    weighted = sorted((value, 1 / max(len(group), ENOUGH)) for group in groups for value in group)
    total = sum(weight for _, weight in weighted)
    reached = 0.0
    for value, weight in weighted:
        reached += weight
        if reached >= share * total:
            return value
    return weighted[-1][0]


def intervals(ratios: Ratios) -> list[dict[str, Any]]:
    """The interval of each kind, less 1, and of those that are no kind of their own."""
    of_any = ({(name, has, ANY): groups} for (name, has, _), groups in ratios.items())
    every = sorted(together(ratios, *of_any).items())
    found = []
    for experts in (False, True):
        kinds = [(kind, list(groups.values())) for kind, groups in every if kind[1] == experts]
        rest = [group for (_, _, scale), groups in kinds if scale == ANY for group in groups]
        # A generation that nobody published is off by as much as the worst source of those known.
        known = [group for group in rest if len(group) >= ENOUGH]
        worst = max(abs(quantile([group], 0.5) - 1) for group in known)
        for (name, _, scale), groups in kinds:
            if sum(map(len, groups)) >= FEW and (len(groups) > 1 or scale == ANY):
                found.append(_interval(name, experts, scale, groups, 0.0))
        found.append(_interval(REST, experts, ANY, rest, worst))
    return found


def _interval(
    name: str, experts: bool, scale: str, groups: list[Any], more: float
) -> dict[str, Any]:
    low, high = quantile(groups, 0.05) - 1 - more, quantile(groups, 0.95) - 1 + more
    return {
        "architecture": name,
        "experts": experts,
        "scale": scale,
        "low": max(min(low, -NARROWEST), LOWEST),
        "high": max(high, NARROWEST),
        "rows": sum(map(len, groups)),
        "sources": len(groups),
    }


def document(ratios: Ratios) -> str:
    """The intervals as they ship."""
    lines = [
        "# Measured over predicted step time on published runs, less 1: 5th and 95th percentile,",
        "# each source with the same weight if it has five rows or more. Written by",
        "# benchmarks.time_bands.",
        "kinds:",
    ]
    for entry in intervals(ratios):
        said = {
            **entry,
            "experts": str(entry["experts"]).lower(),
            "low": f"{entry['low']:.2f}",
            "high": f"{entry['high']:.2f}",
        }
        lines.append(f"  - {{{', '.join(f'{key}: {value}' for key, value in said.items())}}}")
    return "\n".join(lines) + "\n"


def foreseen(ratios: Ratios, found: Iterable[Total]) -> frozenset[Total]:
    """The runs that lie in the interval which all sources but their own give."""
    inside: set[Total] = set()
    for name, group in groupby(sorted(found, key=_source), _source):
        others = intervals(without(ratios, name))
        for total in group:
            entry = chosen(others, *total.kind)
            if entry["low"] <= total.ratio() - 1 <= entry["high"]:
                inside.add(total)
    return frozenset(inside)


def _source(total: Total) -> str:
    return total.source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, required=True, help="CSV file of measured runs")
    parser.add_argument(
        "--held-out", type=Path, required=True, help="YAML file of whole published tables"
    )
    parser.add_argument("--bands", type=Path, help="document of intervals that is rewritten")
    parser.add_argument("--markdown", type=Path, help="page whose tables are rewritten")
    options = parser.parse_args()
    found = list(time_totals.totals(options.held_out))
    ratios = together(of_rows(options.runs, compare(options.runs)), of_totals(found))
    inside = foreseen(ratios, found)
    texts = {
        time_totals.SOURCES: time_totals.sources(found, inside),
        time_totals.RUNS: time_totals.runs(found, inside),
    }
    print(document(ratios), *texts.values(), sep="\n")
    if options.bands:
        options.bands.write_text(document(ratios), "utf-8")
    if options.markdown:
        page = options.markdown.read_text("utf-8")
        for name, text in texts.items():
            page = time_totals.rewritten(page, text, name)
        options.markdown.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
