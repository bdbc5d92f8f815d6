"""Many plans in one process, their values judged.

    python -m fuzz.judged --plans 100000 [--minutes 60] [--seed 1]
    python -m fuzz.judged --seed 1 --only 471           # one grid again, with its points

A grid begins at a random plan (fuzz/ranges.py) and takes three numbers of it,
each from the smallest that its schema allows to the largest: zero, one, just below, at and above
what divides it, and around the plan's own value. Two are the next of the schema's numbers, so that
as many grids as half of them meet each; the third is one that formulas alone read. It is a study,
so that its formulas are compiled once. Each point that is a plan is judged alone, and beside the
one below it along each number (fuzz/judge.py). A few are read as documents too and evaluated
exactly, which must give the same numbers; one plan in ten goes through the whole command line, with
a report written (fuzz/watch.py). Grid i of a seed is always the same.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from fuzz import documents, judge, ranges, watch
from fuzz.tree import block, from_data

#: Values of each number besides its corners; points of a grid that are evaluated exactly too.
RUNGS, EXACT = (10, 10, 12), 6
#: Grids of which one has its plan evaluated with all that rests on entries, and sent through the
#: command line.
TRACED, WHOLE = 3, 10
#: Around these, and what divides a value, a whole number is tried just below and above.
DIVISORS = (2, 3, 8, 16, 64, 128, 256, 4096)
TIMES = tuple(map(Fraction, ("1/1000000", "1/1000", "1/2", "999/1000", "1", "1001/1000", "2", "3",
                             "1000", "1000000")))  # fmt: skip
#: Doubles against exact numbers, which a difference of large ones may lose.
DOUBLE = Fraction(1, 10**6)
Numbers = dict[str, Any]


@dataclass
class Tally:
    """What became of the plans of a campaign."""

    judged: int = 0
    refused: int = 0
    exact: int = 0
    commands: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    keys: Counter[str] = field(default_factory=Counter)
    #: By key and quantity, how often a larger value made it larger, and smaller.
    moves: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    turns: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def problem(self, what: str, where: str) -> None:
        self.problems[what] += 1
        if what not in self.first:
            self.first[what] = where
            print(f"{what}\n    {where}", flush=True)


@cache
def scalars() -> tuple[str, ...]:
    """The quantities without axes whose values are numbers, and which a study has."""
    from planner.book import formulas
    from planner.book.quantity import BOOK
    from planner.questions.constraints import is_stage_sum

    assert formulas
    names = ("memory.stage", "memory.phase")
    found = (n for n, q in BOOK.quantities.items() if not q.per and n not in names)
    return tuple(n for n in found if not is_stage_sum(n))


def ladder(random: Random, key: str, value: Any, rungs: int) -> list[Fraction]:
    """Values of a key, smallest first."""
    said = ranges.numeric()[key]
    low, high = ranges.bounds(said)
    own = Fraction(value) if judge.is_number(value) else Fraction(1)
    if "integer" in str(said.get("type")):
        near = [d for d in {*DIVISORS, int(own)} if d > 0]
        tried = [Fraction(d * times + by) for d in near for times in (1, 2) for by in (-1, 0, 1)]
        tried += [Fraction(int(own * times)) for times in (2, 4, 1000)]
    else:
        tried = [own * times for times in TIMES] + [Fraction(1, 10**9), Fraction(1, 2)]
    inside = sorted({each for each in tried if low <= each <= high})
    kept = random.sample(inside, min(rungs, len(inside)))
    ends = [each for each in (low, Fraction(0), Fraction(1), high, own) if low <= each <= high]
    return sorted({*kept, *ends})


def keys(result: Any) -> list[str]:
    """The numbers that a plan has, or may have."""
    return [
        key
        for key in ranges.numeric()
        if key in result.inputs or key.startswith(("memory.", "time.", "training.bytes."))
    ]


def asked(number: int) -> tuple[str, str]:
    """The two numbers of the schema that a grid is about."""
    names = tuple(ranges.numeric())
    return names[2 * number % len(names)], names[(2 * number + 1) % len(names)]


def grid(seed: int, number: int, tally: Tally, show: bool = False) -> None:
    """One grid, judged."""
    import planner
    from planner.questions.studies.dimensions import PLAIN

    random = Random(f"{seed}:{number}")
    first, second = asked(number)
    where = f"--seed {seed} --only {number}"
    base = ranges.draw_plan(where, (first, second)) or ranges.draw_plan(where, (first,))
    if base is None:
        tally.problem(f"no plan has {first}", where)
        return
    result = planner.load(base).evaluate()
    if number % TRACED == 0:
        traced(result, tally, where)
    if number % WHOLE == 0:
        command(base, random.choice(("md", "html", "txt")), tally, where)
    known = keys(result)
    # The third is a number that formulas alone read, through which a compiled study runs.
    facts = [key for key in known if key in PLAIN]
    chosen = [first, second if second in known else random.choice(known)]
    chosen.append(random.choice([key for key in facts if key not in chosen]))
    rungs = [
        ladder(random, key, result.inputs[key].value if key in result.inputs else None, count)
        for key, count in zip(chosen, RUNGS, strict=True)
    ]
    texts = [
        [ranges.written(rung, ranges.numeric()[key]) for rung in several]
        for key, several in zip(chosen, rungs, strict=True)
    ]
    axes = dict(zip(chosen, texts, strict=True))
    # In a row, a key stands for a quantity of its name (time.mfu).
    record = [name for name in scalars() if name not in axes]
    study = {"base": base, "axes": axes, "record": record}
    try:
        rows = list(planner.load_study(study).rows())
    except planner.PlanError as error:  # of a number that the schema itself does not refuse
        tally.problems["no study: " + error.faults[0].message[:60]] += 0
        return
    # Where layers are cut over stages by their cost, another shape has other stages.
    cut = result.inputs["parallelism.cut"].value == "compute" if "parallelism.cut" in (
        result.inputs) else False  # fmt: skip
    free = [not (cut and key.startswith("model.")) for key in chosen]
    points = dict(zip(product(*map(range, map(len, texts))), rows, strict=True))
    told = [dict(zip(chosen, point, strict=True)) for point in product(*texts)]
    if show:
        print(json.dumps(study))
    judged(points, told, chosen, free, tally, where, show)
    for index in random.sample(range(len(rows)), min(EXACT, len(rows))):
        alike(base, told[index], rows[index], tally, where)


def judged(
    points: dict[tuple[int, ...], Numbers], told: list[Numbers], chosen: list[str],
    free: list[bool], tally: Tally, where: str, show: bool,
) -> None:  # fmt: skip
    """The points of a grid, each alone and beside the last plan below it along each number."""
    below: dict[tuple[int, ...], tuple[Numbers, Numbers]] = {}
    for (place, row), changes in zip(points.items(), told, strict=True):
        numbers = {k: row[k] for k in scalars() if k not in changes and judge.is_number(row.get(k))}
        if show:
            print(changes, {k: numbers.get(k) for k in SHOWN}, row.get("reason", "")[:80])
        if "parameters.total" not in numbers:
            tally.refused += 1
            continue
        tally.judged += 1
        wrong = judge.values(numbers) or judge.unsaid({"a plan": row["reason"] or "-"})
        if wrong:
            tally.problem(wrong, f"{where}  {changes}")
        for axis, key in enumerate(chosen):
            line = (axis, *place[:axis], *place[axis + 1 :])
            if line in below:
                tally.keys[key] += 1
                before, under = below[line]
                if free[axis]:
                    beside(key, before, numbers, tally, f"{where}  {under} to {changes}")
            below[line] = (numbers, changes)


SHOWN = ("time.step_seconds", "memory.process", "parameters.total", "energy.total", "cost.run")


def alike(base: Any, changes: Numbers, row: Numbers, tally: Tally, where: str) -> None:
    """A point of a grid, read as a document and evaluated exactly, has the same numbers."""
    import planner

    where = f"{where}  --set {changes}"
    try:
        result = planner.load(base, set=changes).evaluate()
    except planner.PlanError as error:
        if row.get("parameters.total") is not None:
            tally.problem(f"a document refuses: {error.faults[0].message[:60]}", where)
        return
    except Exception as error:
        what = f"{type(error).__name__}: {str(error)[:60]}"
        tally.problem(what, f"{where}\n{traceback.format_exc()[-1500:]}")
        return
    if row.get("parameters.total") is None:
        tally.problem(f"a study refuses: {row.get('reason', '')[:60]}", where)
        return
    tally.exact += 1
    numbers = {n: result[n].value for n in scalars() if judge.is_number(result[n].value)}
    wrong = judge.values(numbers)
    for name in (name for name in scalars() if name not in changes):
        one, other = numbers.get(name), row.get(name)
        if (one is None) != (other is None):
            wrong = wrong or f"{name} is {'absent' if one is None else 'there'} exactly alone"
        elif one is not None and other is not None:
            exact, double = Fraction(one), Fraction(other)
            whole = Fraction(numbers.get(OF.get(name, "")) or 0)
            largest = max(map(abs, (exact, double, whole)))
            if abs(exact - double) > DOUBLE * largest:
                wrong = wrong or f"{name} is another number over arrays"
    if wrong:
        tally.problem(wrong, where)


#: What is small beside it: differences of it, and its parts where the peak lies, which is another
#: where two peaks are the same to double precision.
OF = {
    "memory.allocator": "memory.total", "memory.headroom": "memory.process",
    "memory.headroom_p95": "memory.at_worst", "memory.left": "memory.needed",
    "time.failure_days": "time.training_days", "parameters.non_embedding": "parameters.total",
    **{f"memory.{part}": "memory.total" for part in (
        "weights", "gradients", "optimizer", "activations", "buffers", "cache",
    )},
}  # fmt: skip


def traced(result: Any, tally: Tally, where: str) -> None:
    """Every quantity of a result, those along axes too, with intervals."""
    found = result.quantities
    numbers = {name: q.value for name, q in found.items() if judge.is_number(q.value)}
    wrong = judge.values(numbers) or judge.unsaid(result.absent)
    for name, quantity in found.items():
        ends = quantity.interval
        if ends is not None and not judge.in_order(ends[0], quantity.value, ends[1]):
            wrong = wrong or f"{name.partition('[')[0]} lies outside its own interval"
    if wrong:
        tally.problem(wrong, where)


def beside(key: str, before: Numbers, after: Numbers, tally: Tally, where: str) -> None:
    """Two plans that differ in one number."""
    wrong = judge.order(key, before, after)
    if wrong:
        tally.problem(wrong, where)
    for name, value in after.items():
        if name not in before or abs(value - before[name]) <= 1e-9 * abs(value):
            continue
        down = int(value < before[name])
        tally.moves.setdefault((key, name), [0, 0])[down] += 1
        tally.turns.setdefault((key, name, down), where)


def command(document: dict[str, Any], ending: str, tally: Tally, where: str) -> None:
    """The same plan through the whole command line: its result in JSON, and a report written."""
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        file = Path(folder) / "plan.yaml"
        file.write_text(block(from_data(document)), "utf-8")
        report = ["report", str(file)]
        for line in ([*report, "--format", "json"], [*report, f"-o{folder}/out.{ending}"]):
            outcome = watch.run(line)
            tally.commands += 1
            if outcome.problem or outcome.status != 0:
                what = outcome.problem or f"exit status {outcome.status}"
                about = f"{line}\n{outcome.detail[-600:]}{outcome.said}"
                tally.problem(f"command line: {what}", f"{where}  {about}")


def lone(tally: Tally, share: float = 0.05) -> Iterator[str]:
    """Quantities that a key moved seldom the one way, often the other."""
    for (key, name), (up, down) in sorted(tally.moves.items()):
        few, many = sorted((up, down))
        if 0 < few <= share * (many + few):
            where = tally.turns[key, name, int(down < up)]
            yield f"{key} moved {name} up {up} times, down {down}: {where}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=100_000, help="to judge, at least")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing after that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--moves", type=Path, help="file for what moved seldom the one way")
    options = parser.parse_args()
    tally, started, number = Tally(), time.monotonic(), options.first
    if options.only is not None:
        grid(options.seed, options.only, tally, show=True)
        return int(bool(+tally.problems))
    gc.freeze()
    while tally.judged < options.plans and time.monotonic() - started < 60 * options.minutes:
        grid(options.seed, number, tally)
        number += 1
        if number % 10 == 0 or tally.judged >= options.plans:
            report(tally, number, options)
    report(tally, number, options)
    print("numbers not met: " + ", ".join(k for k in ranges.numeric() if k not in tally.keys))
    for problem, count in tally.problems.most_common():
        print(f"{count:6d}  {problem}  {tally.first.get(problem, '').splitlines()[:1]}")
    return int(bool(+tally.problems))


def report(tally: Tally, number: int, options: argparse.Namespace) -> None:
    print(
        f"{number} grids, {tally.judged} plans judged, {tally.refused} refused, {tally.exact} "
        f"exactly too, {tally.commands} command lines, {len(tally.keys)} of "
        f"{len(ranges.numeric())} numbers, "
        f"{time.process_time():.0f} s of processor time, {sum(tally.problems.values())} problems",
        flush=True,
    )
    if options.moves:
        options.moves.write_text("\n".join(lone(tally)) + "\n", "utf-8")


if __name__ == "__main__":
    os.chdir(documents.ROOT)
    sys.exit(main())
