"""Whether the tests notice a wrong formula: one operator or number is changed, the tests run.

    python -m benchmarks.mutation [--count 60] [--seed 1] [--group formulas]

cosmic-ray (`pip install cosmic-ray`) lists the changes of the book's formulas, of the search and of
the inverse questions and runs the tests of the group for each, in a copy of the checkout. Of its
operators those are tried that make another number without another type, as many changes as
``--count`` says, drawn evenly over the groups; a sample does not move when another line of the code
does. Tests stop at the first that fails; golden pages and whatever else compares with what the
program once printed do not run. Survivors are printed with their change. Exit status 1 where more
survive than ``--most``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
QUESTIONS = "tests/questions/test_"
#: By group, the modules that are changed and the tests that should notice.
GROUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "formulas": (
        ("planner/book/formulas/*.py",),
        ("tests/book", "tests/plans", "tests/results/test_parts.py", "tests/test_edges.py",
         "tests/results/test_result.py", "tests/test_memory_accuracy.py",
         "tests/test_time_accuracy.py", "tests/test_whole_space.py"),
    ),
    "search": (
        ("planner/questions/search/*.py", "planner/questions/batch*.py"),
        (f"{QUESTIONS}[abmnprsl]*.py", "tests/cli/test_search.py", "tests/test_every_option.py"),
    ),
    "solve": (
        ("planner/questions/solve/*.py",),
        (f"{QUESTIONS}solve*.py", f"{QUESTIONS}answers*.py", f"{QUESTIONS}[cg]*.py"),
    ),
}  # fmt: skip
#: Names of tests that compare a page with what the program prints.
GOLDEN = "not _current and not _what_the_program_prints"
REPLACED = ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Pow_Mul")
COMPARED = ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq")
OPERATORS = {
    "core/NumberReplacer",
    *(f"core/ReplaceBinaryOperator_{name}" for name in REPLACED),
    *(f"core/ReplaceComparisonOperator_{name}" for name in COMPARED),
}
#: Seconds for the tests of one change; what does not end counts as noticed.
PATIENCE = 1800


def write_config(group: str, folder: Path) -> Path:
    """Write what cosmic-ray is to do for a group into a copy of the checkout."""
    changed, tests = (sorted(p.relative_to(folder) for glob in globs for p in folder.glob(glob))
                      for globs in GROUPS[group])  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-xq", "--tb=no", "-p", "no:cacheprovider", "-k",
               f"'{GOLDEN}'", *map(str, tests)]  # fmt: skip
    lines = ["[cosmic-ray]", f"module-path = {json.dumps([*map(str, changed)])}"]
    lines += [f"timeout = {PATIENCE}.0", "excluded-modules = []"]
    lines += [f"test-command = {json.dumps(' '.join(command))}"]
    config = folder / f"{group}.toml"
    config.write_text("\n".join([*lines, "[cosmic-ray.distributor]", 'name = "local"', ""]))
    return config


@cache
def read_lines(file: Path) -> list[str]:
    """Read a module of the copy, once for all of its changes."""
    return file.read_text("utf-8").splitlines()


def rank(change: Any, folder: Path, seed: int) -> str:
    """Rank a change in a sample: the same wherever its line and its file move."""
    row = read_lines(folder / change.module_path)[change.start_pos[0] - 1]
    place = change.start_pos[1] - (len(row) - len(row.lstrip()))
    name = (seed, change.module_path.name, row.strip(), place, change.operator_name,
            change.operator_args)  # fmt: skip
    return hashlib.sha256(repr(name).encode()).hexdigest()


def draw(group: str, session: Path, count: int, seed: int) -> None:
    """Leave as many changes in a session, and skip the others.

    Args:
        group: whose changes they are; but of formulas, they lie in functions.
        session: the file of cosmic-ray that lists them, in the copy of the checkout.
        count: how many.
        seed: which ones.
    """
    from cosmic_ray.work_db import use_db
    from cosmic_ray.work_item import WorkerOutcome, WorkResult

    with use_db(session) as work:
        items = {item.job_id: item.mutations[0] for item in work.pending_work_items}
        fit = [
            job for job, change in items.items()
            if change.operator_name in OPERATORS
            and (group == "formulas" or change.definition_name)
        ]  # fmt: skip
        kept = {*sorted(fit, key=lambda job: rank(items[job], session.parent, seed))[:count]}
        skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
        work.set_multiple_results({*items} - kept, skipped)


def report(session: Path) -> Counter[str]:
    """Print the changes that survive; returns how many end in which way."""
    from cosmic_ray.work_db import use_db

    ends: Counter[str] = Counter()
    with use_db(session) as work:
        for _, result in work.completed_work_items:
            if result.test_outcome is not None:
                ends[result.test_outcome.value] += 1
                if result.test_outcome.value == "survived":
                    print(result.diff, flush=True)
    return ends


def main() -> int:
    """Try the changes of a sample; return 1 where more survive than is accepted."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--count", type=int, default=60, help="changes in all, spread evenly")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--group", choices=GROUPS, action="append", help="repeatable")
    parser.add_argument("--most", type=int, default=5, help="survivors that are accepted")
    options = parser.parse_args()
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work) / "checkout"
        unwanted = shutil.ignore_patterns(".git", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, folder, ignore=unwanted)
        for group in options.group or GROUPS:
            config, session = write_config(group, folder), folder / f"{group}.sqlite"
            program = [sys.executable, "-m", "cosmic_ray.cli"]
            for step in ("init", "exec"):
                if step == "exec":
                    draw(group, session, options.count // len(GROUPS), options.seed)
                subprocess.run([*program, step, config, session], cwd=folder, check=True)
            ends += report(session)
            print(f"{group}: {dict(ends)} so far", flush=True)
    print(f"{ends['survived']} of {ends.total()} survive (at most {options.most} are accepted)")
    return int(ends["survived"] > options.most)


if __name__ == "__main__":
    sys.exit(main())
