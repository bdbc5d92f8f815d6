"""Many plans evaluated in one process, their values judged.

    python -m fuzz.judged --documents 100000 [--minutes 60] [--seed 1]
    python -m fuzz.judged --seed 1 --only 4711          # one ladder again, with its documents

A ladder begins at a plan that is valid by construction (fuzz/valid.py) and takes one number of it
from the smallest that the schema allows to the largest: zero, one, just below, at and above what
divides it, and around the plan's own value. Each document that evaluates is judged alone and beside
the one below it (fuzz/judge.py); ladder i of a seed is always the same. Every fiftieth plan also
goes through the whole command line, with a report written (fuzz/watch.py).
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
from pathlib import Path
from random import Random
from typing import Any

from fuzz import judge, valid, watch
from fuzz.tree import block, from_data

#: Ladders of which one plan goes through the command line.
WHOLE = 5
#: Rungs of a ladder, besides its ends.
RUNGS = 12
#: Seconds of processor time for one document.
SECONDS = 2.0
#: Around these, and what divides a value, a whole number is tried just below and above.
DIVISORS = (2, 3, 8, 16, 64, 128, 256, 4096)
TIMES = tuple(map(Fraction, ("1/1000000", "1/1000", "1/2", "999/1000", "1", "1001/1000", "2", "3",
                             "1000", "1000000")))  # fmt: skip


@dataclass
class Tally:
    """What became of the documents of a campaign."""

    judged: int = 0
    refused: int = 0
    commands: int = 0
    slowest: float = 0.0
    problems: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    absent: Counter[str] = field(default_factory=Counter)
    #: By key and quantity, how often a larger value made it larger, and smaller.
    moves: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    turns: dict[tuple[str, str, int], str] = field(default_factory=dict)

    def problem(self, what: str, where: str) -> None:
        self.problems[what] += 1
        if what not in self.first:
            self.first[what] = where
            print(f"{what}\n    {where}", flush=True)


def evaluated(document: valid.Document, changes: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A plan and the values of its quantities without axes: numbers, and why there is none."""
    import planner
    from planner import case
    from planner.evaluate import Absent
    from planner.quantity import BOOK
    from planner.untraced import Untraced

    plan = planner.load(document, set=changes)
    evaluation, found = Untraced(case.build(plan.plan)), {}
    for name, (first, *_) in BOOK.declarations.items():
        if not first.per:
            try:
                found[name] = evaluation.value(name)
            except Absent as absent:
                found[name] = absent.reason
    return plan, found


def ladder(random: Random, key: str, value: Any) -> list[Any]:
    """Values of a key, smallest first."""
    said = valid.numeric()[key]
    low, high = valid.bounds(said)
    whole = "integer" in str(said.get("type"))
    own = Fraction(value) if judge.is_number(value) else Fraction(1)
    if whole:
        near = [d for d in {*DIVISORS, int(own)} if d > 0]
        tried = [Fraction(d * times + by) for d in near for times in (1, 2) for by in (-1, 0, 1)]
        tried += [Fraction(int(own * times)) for times in (2, 4, 1000)]
    else:
        tried = [own * times for times in TIMES] + [Fraction(1, 10**9), Fraction(1, 2)]
    inside = sorted({each for each in tried if low <= each <= high})
    kept = random.sample(inside, min(RUNGS, len(inside)))
    ends = [each for each in (low, Fraction(0), Fraction(1), high) if low <= each <= high]
    return sorted({*kept, *ends, *([own] if low <= own <= high else [])})


def keys(result: Any) -> list[str]:
    """The numbers that a plan has, or may have."""
    known = result.inputs
    return [
        key
        for key in valid.numeric()
        if key in known or key.partition(".")[0] in ("memory", "time") or key in valid.FREE
    ]


def climb(seed: int, number: int, tally: Tally, show: bool = False) -> None:
    """One ladder, judged."""
    random = Random(f"{seed}:{number}")
    base = valid.plan(random)
    where = f"--seed {seed} --only {number}"
    found = tried(base, {}, tally, where)
    if found is None:
        return
    result = found[0].evaluate()
    if number % WHOLE == 0:
        traced(result, tally, where)
    if number % (10 * WHOLE) == 0:
        command(base, random.choice(("md", "html", "txt")), tally, where)
    key = random.choice(keys(result))
    value = result.inputs[key].value if key in result.inputs else None
    said, before, below = valid.numeric()[key], None, None
    # Where layers are cut over stages by their cost, another shape has other stages.
    cut = key.startswith("model.") and result.inputs["parallelism.cut"].value == "compute"
    for rung in ladder(random, key, value):
        text = valid.written(rung, said)
        here = tried(base, {key: text}, tally, f"{where}  {key}={text}")
        if show:
            print(key, text, here and {k: str(v) for k, v in here[1].items() if k in SHOWN})
        if here is None:
            continue
        if before is not None and not cut:
            beside(key, before, here[1], tally, f"{where}  {key}={below} to {text}")
        before, below = here[1], text
    if show:
        print(json.dumps(base))


SHOWN = ("time.step_seconds", "memory.process", "parameters.total", "energy.total", "cost.run")


def tried(
    document: valid.Document, changes: dict[str, Any], tally: Tally, where: str
) -> tuple[Any, dict[str, Any]] | None:
    """A plan with its numbers, judged; None where it is refused."""
    from planner.errors import PlanError

    started = time.process_time()
    try:
        plan, found = evaluated(document, changes)
    except PlanError as error:
        tally.refused += 1
        if not changes:
            tally.problems["refused: " + error.faults[0].message[:40]] += 0
        return None
    except Exception as error:
        tally.problem(f"{type(error).__name__}: {str(error)[:60]}",
                      f"{where}\n{traceback.format_exc()[-1500:]}")  # fmt: skip
        return None
    taken = time.process_time() - started
    tally.slowest = max(tally.slowest, taken)
    tally.judged += 1
    numbers = {name: value for name, value in found.items() if judge.is_number(value)}
    reasons = {name: value for name, value in found.items() if isinstance(value, str)}
    reasons = {n: r for n, r in reasons.items() if n not in ("memory.stage", "memory.phase")}
    wrong = judge.values(numbers) or judge.unsaid(reasons)
    if taken > SECONDS:
        wrong = wrong or f"over {SECONDS:g} s"
    if wrong:
        tally.problem(wrong, where)
    for name, reason in reasons.items():
        if "number" in reason:
            tally.absent[f"{name}: {reason}"[:120]] += 1
    return plan, numbers


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


def beside(
    key: str, before: dict[str, Any], after: dict[str, Any], tally: Tally, where: str
) -> None:
    """Two plans that differ in one number."""
    wrong = judge.order(key, before, after)
    if wrong:
        tally.problem(wrong, where)
    for name, value in after.items():
        if name not in before or value == before[name]:
            continue
        up = not judge.in_order(value, before[name])
        down = not judge.in_order(before[name], value)
        if up or down:
            moves = tally.moves.setdefault((key, name), [0, 0])
            moves[down] += 1
            tally.turns.setdefault((key, name, int(down)), where)


def command(document: valid.Document, ending: str, tally: Tally, where: str) -> None:
    """The same plan through the whole command line: its result in JSON, and a report written."""
    with tempfile.TemporaryDirectory(prefix="judged-") as folder:
        file = Path(folder) / "plan.yaml"
        file.write_text(block(from_data(document)), "utf-8")
        report = ["report", str(file)]
        for line in ([*report, "--format", "json"], [*report, f"-o{folder}/out.{ending}"]):
            outcome = watch.run(line)
            tally.commands += 1
            tally.slowest = max(tally.slowest, outcome.seconds)
            if outcome.problem or outcome.status != 0:
                what = outcome.problem or f"exit status {outcome.status}"
                tally.problem(f"command line: {what}", f"{where}\n{outcome.detail}{outcome.said}")


def lone(tally: Tally, share: float = 0.02) -> Iterator[str]:
    """Quantities that a key moved seldom the one way, often the other."""
    for (key, name), (up, down) in sorted(tally.moves.items()):
        few, many = sorted((up, down))
        if 0 < few <= share * (many + few):
            where = tally.turns[key, name, int(down < up)]
            yield f"{key} moved {name} up {up} times, down {down}: {where}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000, help="to judge, at least")
    parser.add_argument("--minutes", type=float, default=600.0, help="begin nothing after that")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--moves", type=Path, help="file for what moved seldom the one way")
    options = parser.parse_args()
    tally, started, number = Tally(), time.monotonic(), options.first
    if options.only is not None:
        climb(options.seed, options.only, tally, show=True)
        return int(bool(+tally.problems))
    valid._shipped()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    while tally.judged < options.documents:
        if time.monotonic() - started > 60 * options.minutes:
            break
        climb(options.seed, number, tally)
        number += 1
        if number % 500 == 0 or tally.judged >= options.documents:
            report(tally, number, options)
    report(tally, number, options)
    for problem, count in (+tally.problems).most_common():
        print(f"{count:6d}  {problem}  ({tally.first[problem].splitlines()[0]})")
    return int(bool(+tally.problems))


def report(tally: Tally, number: int, options: argparse.Namespace) -> None:
    print(
        f"{number} ladders, {tally.judged} documents judged, {tally.refused} refused, "
        f"{tally.commands} command lines, slowest {tally.slowest:.2f} s, "
        f"{time.process_time():.0f} s of processor time, {sum(tally.problems.values())} problems",
        flush=True,
    )
    if options.moves:
        text = "\n".join([*lone(tally), "", *map(str, tally.absent.most_common(40))])
        options.moves.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    os.chdir(valid.seeds.ROOT)
    sys.exit(main())
