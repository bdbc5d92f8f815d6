"""Whether the tests notice a wrong formula: one operator or constant is changed, the tests run.

``python -m benchmarks.mutation [--count 60] [--seed 1] [--jobs 2]`` copies the checkout, changes
one place of the book's formulas, of the search or of the inverse questions at a time, and runs the
tests that hold against facts from outside and against properties. Tests that compare a page with
the program's own output (golden pages) do not run, so they cannot notice anything. It prints each
change with the test that noticed it; a change that no test notices survives. Exit status 1 where
more survive than ``--most``.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

ROOT = Path(__file__).resolve().parent.parent
#: Whose tests are asked: folders of code, and the tests that speak of them, the quickest first.
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "formulas": (
        "planner/book/formulas",
        (
            "tests/formulas",
            "tests/test_cases.py",
            "tests/test_book.py",
            "tests/test_run_around.py",
            "tests/test_serving.py",
            "tests/test_scaling.py",
            "tests/test_memory_accuracy.py",
            "tests/test_parts.py",
            "tests/test_time_accuracy.py",
        ),
    ),
    "search": (
        "planner/questions/search",
        (
            "tests/test_search.py",
            "tests/test_contest.py",
            "tests/test_modes.py",
            "tests/test_narrowed.py",
            "tests/test_automatic.py",
            "tests/test_published_layouts.py",
            "tests/cli/test_search.py",
        ),
    ),
    "inverse": (
        "planner/questions/solve",
        (
            "tests/test_solve.py",
            "tests/test_closed_forms.py",
            "tests/test_goals.py",
            "tests/formulas/test_lecture.py",
        ),
    ),
}
#: Tests that compare with the program's own output say "moved", never "wrong".
GOLDEN = "not current and not golden and not committed and not same_bytes"
SECONDS = 900
BINARY: dict[type[ast.operator], tuple[type[ast.operator], str]] = {
    ast.Add: (ast.Sub, "-"),
    ast.Sub: (ast.Add, "+"),
    ast.Mult: (ast.Div, "/"),
    ast.Div: (ast.Mult, "*"),
    ast.Pow: (ast.Mult, "*"),
}
COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
}
CALLED = {"largest": "smallest", "smallest": "largest", "min": "max", "max": "min"}


@dataclass(frozen=True)
class Change:
    """One place of a file, from ``start`` to ``end`` in its text, and what stands there instead."""

    group: str
    file: str
    line: int
    start: int
    end: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        return text[: self.start] + self.new + text[self.end :]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.old.strip()} -> {self.new.strip()}"


def changes(group: str, file: Path, text: str) -> Iterator[Change]:
    """Every change of one operator, comparison or number inside a function of the file."""
    offsets = [0]
    for row in text.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(row))

    def at(line: int, column: int) -> int:
        row = text[offsets[line - 1] : offsets[line]]
        return offsets[line - 1] + len(row.encode()[:column].decode())

    def change(node: ast.expr, start: int, end: int, new: str) -> Change:
        name = str(file.relative_to(ROOT))
        return Change(group, name, node.lineno, start, end, text[start:end], new)

    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
                start = at(node.left.end_lineno or 0, node.left.end_col_offset or 0)
                end = at(node.right.lineno, node.right.col_offset)
                between = text[start:end]
                old = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**"}
                sign = old[type(node.op)]
                if between.count(sign) == 1 or sign == "**":
                    new = between.replace(sign, BINARY[type(node.op)][1], 1)
                    yield change(node, start, end, new)
            elif isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
                right = node.comparators[0]
                start = at(node.left.end_lineno or 0, node.left.end_col_offset or 0)
                end = at(right.lineno, right.col_offset)
                yield change(node, start, end, f" {COMPARED[type(node.ops[0])]} ")
            elif isinstance(node, ast.Constant) and type(node.value) is int:
                start = at(node.lineno, node.col_offset)
                end = at(node.end_lineno or 0, node.end_col_offset or 0)
                yield change(node, start, end, str(node.value + 1))
            elif isinstance(node, ast.Call) and len(node.args) > 1:
                called = node.func.id if isinstance(node.func, ast.Name) else ""
                if called in CALLED:
                    start = at(node.lineno, node.col_offset)
                    yield change(node, start, start + len(called), CALLED[called])


def sample(count: int, seed: int) -> list[Change]:
    """As many changes of each group, spread over its files, the same for the same seed."""
    draw = random.Random(seed)
    chosen: list[Change] = []
    for group, (folder, _) in GROUPS.items():
        found: dict[tuple[int, int, str], Change] = {}
        for file in sorted((ROOT / folder).rglob("*.py")):
            for one in changes(group, file, file.read_text("utf-8")):
                found[(one.start, one.end, one.file)] = one
        share = count // len(GROUPS)
        chosen += draw.sample(list(found.values()), min(share, len(found)))
    return chosen


def noticed(one: Change, copy: Path) -> str | None:
    """The first test that fails with the change; None where all pass."""
    file = copy / one.file
    text = file.read_text("utf-8")
    try:
        file.write_text(one.applied(text), "utf-8")
        tests = [name for name in GROUPS[one.group][1] if (copy / name).exists()]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-k", GOLDEN, *tests],
            cwd=copy,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=SECONDS,
            check=False,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "default"},
        )
    except subprocess.TimeoutExpired:
        return f"no end within {SECONDS} s"
    finally:
        file.write_text(text, "utf-8")
    if done.returncode == 0:
        return None
    failed = [row for row in done.stdout.splitlines() if row.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed else f"pytest ended with {done.returncode}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="changes in all, spread evenly")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies at work")
    parser.add_argument("--most", type=int, default=5, help="survivors that are accepted")
    options = parser.parse_args()
    survived = []
    with tempfile.TemporaryDirectory() as work:
        copies: Queue[Path] = Queue()
        for number in range(options.jobs):
            copy = Path(work) / str(number)
            ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", "*.pyc")
            shutil.copytree(ROOT, copy, ignore=ignored)
            copies.put(copy)

        def tried(one: Change) -> tuple[Change, str | None]:
            copy = copies.get()
            try:
                return one, noticed(one, copy)
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(options.jobs) as pool:
            for one, by in pool.map(tried, sample(options.count, options.seed)):
                print(f"{'survives' if by is None else 'noticed '}  {one}  {by or ''}", flush=True)
                if by is None:
                    survived.append(one)
    print(f"{len(survived)} survive (at most {options.most} are accepted)")
    return int(len(survived) > options.most)


if __name__ == "__main__":
    sys.exit(main())
