"""Processor time of a process of its own for the main jobs, as a multiple of `import sympy`.

    python -m benchmarks.startup [--runs N] [--json FILE]

Every job is a fresh interpreter with files in the page cache, once with byte code compiled beside
the sources, and once under PYTHONDONTWRITEBYTECODE in a copy of the program that has none, as in
containers. The jobs take turns, so that a busy moment of the machine hits all of them; ratios are
formed of the minima of user and system time. The bars are goals of the project, printed beside the
ratio; nothing fails here.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLAN = "presets/llama70b_h100x1024.yaml"
UNIT = "import sympy"
HTML_BAR = 300_000  # bytes
#: What a copy of the program is made of.
PROGRAM = ("plan.py", "pyproject.toml", "planner", "presets", "schemas", "templates", "examples")
COMMITTED = ("cs336_70b_h100x1024", "gpt2small_hgx-h100", "gpt3_a100x1024", "largest_on_8xh100",
             "llama70b_h100x1024")  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    arguments: tuple[str, ...]  # after the interpreter
    bar: float | None = None  # at most this multiple of UNIT


def cases(folder: Path) -> list[Case]:
    reports = ("-o", str(folder / "r.md"), "-o", str(folder / "r.html"))
    committed = (f"examples/{name}.md" for name in COMMITTED)
    return [
        Case("bare interpreter", ("-c", "pass")),
        Case(UNIT, ("-c", "import sympy")),
        Case("plan.py --help", ("plan.py", "--help")),
        Case("plan.py list", ("plan.py", "list")),
        Case("plan.py validate", ("plan.py", "validate", PLAN)),
        Case("summary", ("plan.py", PLAN), bar=0.7),
        Case("summary, .md and .html", ("plan.py", PLAN, *reports), bar=1.6),
        Case("check of five reports", ("plan.py", "check", *committed), bar=2.5),
        Case(
            "search of GPT-3 on 1,024",
            ("plan.py", "search", "presets/gpt3_a100x1024.yaml"),
            bar=1.2,
        ),
    ]


def run(case: Case, folder: Path, environment: dict[str, str]) -> tuple[float, str | None]:
    """Processor seconds of one process in a folder, and what went wrong in it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, *case.arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    if done.returncode in (0, 1):  # 1: a report has drifted
        return seconds, None
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
    return seconds, " ".join([f"exit {done.returncode}", *last])


def measure(
    chosen: list[Case], runs: int, folder: Path, environment: dict[str, str]
) -> list[dict[str, Any]]:
    """One row per case: minimum, median and ratio, or the reason why it has none."""
    faults = {case.name: run(case, folder, environment)[1] for case in chosen}  # and warms caches
    sound = [case for case in chosen if faults[case.name] is None]
    times: dict[str, list[float]] = {case.name: [] for case in sound}
    for _ in range(runs):
        for case in sound:
            times[case.name].append(run(case, folder, environment)[0])
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


def copied(folder: Path) -> Path:
    """A copy of the program without byte code."""
    folder.mkdir()
    for name in PROGRAM:
        if (ROOT / name).is_dir():
            left_out = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=left_out)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


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
    parser = argparse.ArgumentParser(description="Processor time of the main jobs.")
    parser.add_argument("--runs", type=int, default=11, help="processes per case (default 11)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")

    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        bare = {**plain, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(folder / "cache")}
        compileall.compile_dir(str(ROOT / "planner"), quiet=2)
        for title, where, environment in (
            ("byte code", ROOT, plain),
            ("PYTHONDONTWRITEBYTECODE", copied(folder / "copy"), bare),
        ):
            rows = found[title] = measure(cases(folder), options.runs, where, environment)
            print(f"{title:<24} {'min ms':>8} {'median ms':>10} {'× sympy':>8} {'bar':>5}")
            print("\n".join([*map(line, rows), ""]))
        html = folder / "r.html"
        size = html.stat().st_size if html.is_file() else None

    if size is not None:
        verdict = "holds" if size < HTML_BAR else "exceeded"
        print(f"HTML of the default plan: {size:,} bytes, bar {HTML_BAR:,}  {verdict}")
    if options.json:
        document = {"runs": options.runs, "rows": found, "html_bytes": size, "html_bar": HTML_BAR}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
