"""Cold-process time of the main job, as a multiple of `python -c "import sympy"`.

    python -m benchmarks.startup [--runs N] [--json FILE]

Every case is a fresh interpreter with byte code compiled and files in the page cache. The
cases take turns, so that a busy moment of the machine hits all of them; ratios are formed of
the minima. The bars are goals of the project, printed beside the ratio; nothing fails here.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLAN = "presets/llama70b_h100x1024.yaml"
UNIT = "import sympy"
HTML_BAR = 300_000  # bytes


@dataclass(frozen=True)
class Case:
    name: str
    arguments: tuple[str, ...]  # after the interpreter
    bar: float | None = None  # at most this multiple of UNIT


def cases(folder: Path) -> list[Case]:
    reports = ("-o", str(folder / "r.md"), "-o", str(folder / "r.html"))
    return [
        Case("bare interpreter", ("-c", "pass")),
        Case(UNIT, ("-c", "import sympy")),
        Case("plan.py --help", ("plan.py", "--help")),
        Case("plan.py list", ("plan.py", "list")),
        Case("plan.py validate", ("plan.py", "validate", PLAN)),
        Case("summary", ("plan.py", PLAN), bar=2.0),
        Case("summary, .md and .html", ("plan.py", PLAN, *reports), bar=3.0),
    ]


def run(case: Case) -> tuple[float, str | None]:
    """Wall seconds of one process, and what went wrong in it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *case.arguments],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    seconds = time.perf_counter() - start
    if done.returncode == 0:
        return seconds, None
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return seconds, " ".join([f"exit {done.returncode}", *last])


def measure(chosen: list[Case], runs: int) -> list[dict[str, Any]]:
    """One row per case: minimum, median and ratio, or the reason why it has none."""
    compileall.compile_dir(str(ROOT / "planner"), quiet=2)
    faults = {case.name: run(case)[1] for case in chosen}  # also warms the page cache
    sound = [case for case in chosen if faults[case.name] is None]
    times: dict[str, list[float]] = {case.name: [] for case in sound}
    for _ in range(runs):
        for case in sound:
            times[case.name].append(run(case)[0])
    unit = min(times[UNIT])
    rows: list[dict[str, Any]] = []
    for case in chosen:
        row: dict[str, Any] = {"case": case.name, "bar": case.bar}
        if case in sound:
            least = min(times[case.name])
            row |= {
                "minimum_seconds": least,
                "median_seconds": statistics.median(times[case.name]),
                "ratio": least / unit,
                "holds": None if case.bar is None else least / unit <= case.bar,
            }
        else:
            row["reason"] = faults[case.name]
        rows.append(row)
    return rows


def line(row: dict[str, Any]) -> str:
    if "reason" in row:
        return f"{row['case']:<24} not measured: {row['reason']}"
    verdict = "" if row["holds"] is None else "  holds" if row["holds"] else "  exceeded"
    bar = "" if row["bar"] is None else f"{row['bar']:.1f}"
    return (
        f"{row['case']:<24} {1000 * row['minimum_seconds']:8.0f}"
        f" {1000 * row['median_seconds']:10.0f}"
        f" {row['ratio']:8.2f} {bar:>5}{verdict}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Cold-process time of the main job.")
    parser.add_argument("--runs", type=int, default=11, help="processes per case (default 11)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = measure(cases(folder), options.runs)
        html = folder / "r.html"
        size = html.stat().st_size if html.is_file() else None

    print(f"{'case':<24} {'min ms':>8} {'median ms':>10} {'× sympy':>8} {'bar':>5}")
    print("\n".join(map(line, rows)))
    if size is not None:
        verdict = "holds" if size < HTML_BAR else "exceeded"
        print(f"HTML of the default plan: {size:,} bytes, bar {HTML_BAR:,}  {verdict}")
    if options.json:
        document = {"runs": options.runs, "rows": rows, "html_bytes": size, "html_bar": HTML_BAR}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
