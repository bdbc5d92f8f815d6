"""How well predicted time agrees with published runs.

``python -m benchmarks.time_accuracy --runs FILE [--json FILE]`` evaluates the plan of each measured
value (``benchmarks.measured``) and prints the agreement by source: runs, mean, median, 90th
percentile, worst, bias (of seconds, by the source's own count), and how many lie in the interval
that the prediction carries. Each run is judged once; dense runs and runs with experts are never
averaged together. ``--markdown FILE`` rewrites the table between the markers of a page
(docs/accuracy.md). The intervals come of the same comparisons (``benchmarks.time_bands``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean

from benchmarks import measured, tables
from benchmarks.tables import Record
from planner.plans import error_bands

MARK = "time"
HEADS = ("runs", "mean", "median", "90 %", "worst", "bias", "in the interval", "left out")


def compare(*files: Path) -> list[Record]:
    """One record for each value that states the speed of a run, or of a phase of its steps."""
    told = {*measured.SPEED, *error_bands.PHASES}
    return measured.compare(row for row in measured.read(*files) if row.quantity in told)


def lines(records: Iterable[Record], by: str = "source") -> list[tuple[str, ...]]:
    """The table: a line for each source, then each kind of run, its sources counted alike.

    Args:
        by: what the lines are of, if not of sources.
    """
    table: list[tuple[str, ...]] = [(by, *HEADS)]
    groups = sorted(tables.grouped(records).items())
    for name, group in groups:
        counted = tables.judged(group)
        runs = {record["run"] for record in counted}
        left = str(len({record["run"] for record in group} - runs))
        if not counted:
            table.append((name, "0", *[""] * 6, left))
            continue
        figures = tables.spread([record["error"] for record in counted])
        inside = str(sum(tables.covered(counted)))
        table.append((name, str(len(counted)), *map(percent, figures), inside, left))
    for kind in dict.fromkeys(record["kind"] for _, group in groups for record in group):
        own = [counted for _, group in groups if (counted := of_kind(group, kind))]
        if own:
            each = [tables.spread([r["error"] for r in group])[0] for group in own]
            within = [fmean(tables.covered(group)) for group in own]
            cells = ("", "", "", "", f"{100 * fmean(within):.0f} %", "")
            name = f"mean over {len(own)} {by}{'s' * (len(own) > 1)}, {kind}"
            table.append((name, str(sum(map(len, own))), percent(fmean(each)), *cells))
    return table


def of_kind(records: Iterable[Record], kind: str) -> list[Record]:
    """The judged records of a kind of run."""
    return [r for r in tables.judged(records) if r["kind"] == kind]


def percent(value: float) -> str:
    return f"{100 * value:.1f} %"


def reasons(records: Iterable[Record]) -> str:
    """Why values were left out."""
    found = Counter(record["left_out"] for record in records if "left_out" in record)
    return "\n".join(f"left out {count}: {reason}" for reason, count in found.most_common())


def main() -> None:
    parser = tables.make_parser(__doc__)
    parser.add_argument("--name", default=MARK, help="of the markers in the page")
    options = parser.parse_args()
    records = compare(*options.runs)
    tables.publish(options, options.name, lines(records), records)
    print(reasons(records))


if __name__ == "__main__":
    main()
