"""Processor time of named cases, each a process of its own, as a multiple of `import sympy`.

    python -m benchmarks.speed [CASE…] [--runs N]

CASE is a name or the beginning of several: `start` (the main jobs), `solve` (inverse questions),
`sweep` (studies). The cases take turns, so that a busy moment of the machine hits all of them;
ratios are formed of the minima of user and system time. Bars are goals of the project, printed
beside the ratio; nothing fails here.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
UNIT = "import sympy"
PLAN, GPT3 = "presets/llama70b_h100x1024.yaml", "presets/gpt3_a100x1024.yaml"
COMMITTED = ("cs336_70b_h100x1024", "gpt2small_hgx-h100", "gpt3_a100x1024", "largest_on_8xh100",
             "llama70b_h100x1024")  # fmt: skip
SOLVED = ("gpt2small_hgx-h100", "gpt3_a100x1024", "llama70b_h100x1024", "mixtral8x7b_h100x1024",
          "largest_on_8xh100")  # fmt: skip
_TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
#: Inverse questions as a command line has them, behind the plan; and documents of studies.
QUESTIONS: dict[str, str] = _TABLES["questions"]
STUDIES: dict[str, dict[str, Any]] = _TABLES["studies"]


@dataclass(frozen=True)
class Case:
    """A command: its words after the interpreter, the ratio that it should not exceed, and of how
    many points or layouts it is."""

    name: str
    words: tuple[str, ...]
    bar: float | None = None
    points: int = 0


def yield_cases(folder: Path) -> Iterator[Case]:
    """Yield every case that is a command; what they write and read lies in the folder."""
    from planner.questions.studies import study

    reports = ("-o", str(folder / "r.md"), "-o", str(folder / "r.html"))
    yield Case("bare interpreter", ("-c", "pass"))
    yield Case(UNIT, ("-c", UNIT))
    yield Case("start: --help", ("plan.py", "--help"))
    yield Case("start: list", ("plan.py", "list"))
    yield Case("start: validate", ("plan.py", "validate", PLAN))
    yield Case("start: summary", ("plan.py", PLAN), 0.7)
    yield Case("start: summary, .md and .html", ("plan.py", PLAN, *reports), 1.6)
    committed = (f"examples/{name}.md" for name in COMMITTED)
    yield Case("start: check of five reports", ("plan.py", "check", *committed), 2.5)
    yield Case("start: search of GPT-3", ("plan.py", "search", GPT3), 1.2)
    for name in SOLVED:
        for title, words in QUESTIONS.items():
            line = ("plan.py", "solve", f"presets/{name}.yaml", *words.split())
            yield Case(f"solve: {name}, {title}", line)
    for title, document in STUDIES.items():
        file = folder / f"{title}.yaml"
        file.write_text(json.dumps(document), "utf-8")
        size = study.read_study(document).size
        for count in (1, 2) if title == "plain axes" else (1,):
            more = ("--workers", str(count), "--restart", "-o", str(folder / "out.csv"))
            name = f"sweep: {title}, {count} worker{'s'[: count - 1]}"
            yield Case(name, ("plan.py", "sweep", str(file), *more), points=size)


def run(case: Case, environment: dict[str, str]) -> dict[str, Any]:
    """Run a case in this checkout.

    Args:
        case: the command.
        environment: its variables.

    Returns:
        Seconds of processors and elapsed, peak memory in bytes; ``reason`` where it failed.
    """
    start = time.perf_counter()
    with tempfile.TemporaryFile() as told:
        child = subprocess.Popen(
            [sys.executable, *case.words], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=told,
        )  # fmt: skip
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        told.seek(0)
        last = told.read().decode(errors="replace").strip().splitlines()[-1:]
    row: dict[str, Any] = {"elapsed": time.perf_counter() - start}
    row["seconds"] = usage.ru_utime + usage.ru_stime
    row["peak_bytes"] = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    if child.returncode not in (0, 1):  # 1: a report has drifted, a question has no answer
        row["reason"] = " ".join([f"exit {child.returncode}", *last])
    return row


def measure(cases: Sequence[Case], runs: int, environment: dict[str, str]) -> list[dict[str, Any]]:
    """Run all cases in turn, once to warm caches and then so often.

    Args:
        cases: the commands, that of ``UNIT`` among them.
        runs: how often each is measured.
        environment: their variables.

    Returns:
        A row for each case: minimum, median and ratio, or the reason why it has none.
    """
    first = {case.name: run(case, environment) for case in cases}
    sound = [case for case in cases if "reason" not in first[case.name]]
    found: dict[str, list[dict[str, Any]]] = {case.name: [] for case in sound}
    for _ in range(runs):
        for case in sound:
            found[case.name].append(run(case, environment))
    least = {name: min(row["seconds"] for row in rows) for name, rows in found.items()}
    table = []
    for case in cases:
        row: dict[str, Any] = {"case": case.name, "bar": case.bar, **first[case.name]}
        if case in sound:
            rows, ratio = found[case.name], least[case.name] / least[UNIT]
            row["minimum_seconds"], row["ratio"] = least[case.name], ratio
            row["median_seconds"] = median(one["seconds"] for one in rows)
            row["elapsed"] = min(one["elapsed"] for one in rows)
            row["holds"] = None if case.bar is None else ratio <= case.bar
            row["points_per_second"] = case.points / least[case.name]
        table.append(row)
    return table


def format_row(row: dict[str, Any]) -> str:
    """Format a row of the table: milliseconds, ratio and what is known beside them."""
    if "reason" in row:
        return f"{row['case']:<48} not measured: {row['reason']}"
    notes = []
    if row["bar"] is not None:
        notes.append(f"bar {row['bar']:.1f} {'holds' if row['holds'] else 'exceeded'}")
    if row["points_per_second"]:
        notes.append(f"{row['points_per_second']:,.0f} points a second")
        notes.append(f"{row['elapsed']:.1f} s elapsed, {row['peak_bytes'] / 1e6:,.0f} MB")
    times = f"{1000 * row['minimum_seconds']:8.0f} {1000 * row['median_seconds']:10.0f}"
    return f"{row['case']:<48} {times} {row['ratio']:8.2f}  {', '.join(notes)}".rstrip()


def main(words: Sequence[str] | None = None) -> None:
    """Measure the cases that are named, or all commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("case", nargs="*", help="beginnings of names; all commands by default")
    parser.add_argument("--runs", type=int, default=3, help="processes for each case (default 3)")
    options = parser.parse_args(words)
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory() as name:
        compileall.compile_dir(str(ROOT / "planner"), quiet=2)
        named = (UNIT, *(options.case or ("",)))
        cases = [case for case in yield_cases(Path(name)) if case.name.startswith(named)]
        rows = measure(cases, options.runs, environment)
    print(f"{'case':<48} {'min ms':>8} {'median ms':>10} {'× sympy':>8}")
    print("\n".join(map(format_row, rows)))


if __name__ == "__main__":
    main()
