"""The intervals that predicted times carry: how far predictions have been off on published runs.

    python -m benchmarks.time_bands --runs FILE [--held-out FILE] [--bands FILE]

A kind of run is what ran (dense, experts, lora, inference) on a generation of accelerators under
whose kernels; of serving all are one kind. Each gives one interval by the rule of
``benchmarks.spread``: scatter within sources, and between those that no constant was fitted to
(``--held-out``; all of serving). ``--bands`` writes the document of intervals, ``--markdown``
rewrites how many runs of each source lie in the interval that all sources but their own give
(docs/accuracy.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from benchmarks import spread, tables
from benchmarks.spread import Kind
from benchmarks.tables import Record
from benchmarks.time_accuracy import compare
from planner.plans.error_bands import DENSE, EXPERTS, INFERENCE, LORA, PATCHES, PHASES, REST

MARK = "coverage"


class Evidence(NamedTuple):
    """Log of measured over predicted seconds, by kind and source; and the sources that constants
    were fitted to."""

    ratios: dict[Kind, dict[str, list[float]]]
    fitted: frozenset[str]


def evidence(fitted: Sequence[Record], held_out: Sequence[Record] = ()) -> Evidence:
    """Of runs that constants were fitted to, and of those that they were not."""
    found: dict[Kind, dict[str, list[float]]] = {}
    for record in tables.judged([*fitted, *held_out]):
        family = record["workload"]
        pair = f"{record['architecture']}, {record['software']}"
        if family in PHASES.values():
            pair = f"{REST}, {record['stack']}"
        groups = found.setdefault((family, REST if family == INFERENCE else pair), {})
        groups.setdefault(record["source"], []).append(-math.log1p(record["error"]))
    return Evidence(found, frozenset(record["source"] for record in fitted))


#: Of these there are published runs; of the rest the least certain of dense models stand for them.
WORKLOADS = (DENSE, EXPERTS, LORA, INFERENCE, *dict.fromkeys(PHASES.values()))
#: A plan of any family is held against runs of no kind in particular where none is of its.
ASKED = [(workload, REST) for workload in WORKLOADS]


def apart(found: Evidence) -> list[tuple[dict[Kind, dict[str, list[float]]], list[Kind]]]:
    """Evidence and what is asked, of runs and of phases: one says nothing of the other."""
    sides = ({*WORKLOADS} - {*PHASES.values()}, {*PHASES.values()})
    ratios = [{k: v for k, v in found.ratios.items() if k[0] in side} for side in sides]
    asked = [[kind for kind in ASKED if kind[0] in side] for side in sides]
    return list(zip(ratios, asked, strict=True))


def document(found: Evidence) -> str:
    """The intervals as they ship."""
    shipped: dict[Kind, spread.Interval] = {}
    for part in apart(found):
        shipped |= spread.intervals(*part, found.fitted)
    lines = [
        "# Measured over predicted time on published runs, less 1: 5th and 95th percentile of a",
        "# run of a new source, by the rule of benchmarks/spread.py; and the standard deviation of",
        "# its logarithm within one source. Written by benchmarks.time_bands.",
        "kinds:",
    ]
    for (workload, kind), band in sorted(shipped.items()):
        if kind.endswith("None"):  # a plan that names no framework may be of any
            continue
        pair = kind.replace(", ", ", software: ")
        lines.append(
            f"  - {{workload: {workload}, architecture: {pair}, low: {band.low:.2f}, "
            f"high: {band.high:.2f}, rows: {band.rows}, sources: {band.sources}, "
            f"within: {band.within:.3f}}}"
        )
    band = shipped[DENSE, REST]
    lines.append(
        f"  - {{workload: {PATCHES}, architecture: {REST}, low: {band.low:.2f}, "
        f"high: {band.high:.2f}, rows: 0, sources: 0, within: {band.within:.3f}}}"
    )
    return "\n".join(lines) + "\n"


def coverage(found: Evidence) -> list[tuple[str, ...]]:
    """How many runs lie in the interval that all sources but their own give, by kind and family:
    of all runs, and as a mean over sources. Sources with a run outside are named."""
    lines: list[tuple[str, ...]] = [
        ("kind", "sources", "runs", "runs inside", "mean over sources", "outside")
    ]
    kinds: dict[Kind, dict[str, list[bool]]] = {}
    for part in apart(found):
        for name, kind, inside in spread.left_out(*part, found.fitted):
            kinds.setdefault(kind, {})[name] = inside
    for kind, sources in sorted(kinds.items()):
        lines.append(_line(", ".join(kind), sources))
    for family in WORKLOADS:
        every = {
            f"{name} {kind}": inside
            for (own, kind), sources in kinds.items()
            if own == family
            for name, inside in sources.items()
        }
        if every:
            lines.append((*_line(f"all {family}", every)[:-1], ""))
    return lines


def _line(title: str, sources: Mapping[str, list[bool]]) -> tuple[str, ...]:
    rows = [inside for group in sources.values() for inside in group]
    outside = [
        f"{name} {len(group) - sum(group)} of {len(group)}"
        for name, group in sources.items()
        if not all(group)
    ]
    return (
        title,
        str(len(sources)),
        str(len(rows)),
        f"{100 * fmean(rows):.0f} %",
        f"{100 * fmean(fmean(group) for group in sources.values()):.0f} %",
        ", ".join(outside),
    )


def main() -> None:
    parser = tables.make_parser(__doc__)  # whose runs constants were fitted to
    parser.add_argument(
        "--held-out", type=Path, default=[], action="append", help="runs that they were not"
    )
    parser.add_argument("--bands", type=Path, help="document of intervals that is rewritten")
    options = parser.parse_args()
    found = evidence(compare(*options.runs), compare(*options.held_out))
    print(document(found))
    tables.publish(options, MARK, coverage(found))
    if options.bands:
        options.bands.write_text(document(found), "utf-8")


if __name__ == "__main__":
    main()
