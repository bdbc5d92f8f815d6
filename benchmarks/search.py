"""Layouts per second and core, peak memory and size of the space of one search.

    python -m benchmarks.search [--plan PLAN.yaml] [--set KEY=VALUE] [--json FILE] [--sensible]

All valid layouts, or with ``--sensible`` those that a search looks at unless told otherwise.
Processor time of one thread is counted, so that a busy machine does not change the figure much;
enumeration, preparation and the exact evaluation of the winners are part of it. The second rate is
that of a further search over the same kind of plan, which has the graph already; the third that of
the arrays alone. As many layouts as ``--check`` says, and the best hundred, are evaluated exactly
as well.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from typing import Any

import numpy as np

from planner.base.files import write_text
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.search import engine as searching

QUANTITIES = (searching.FITS, searching.MEMORY, searching.STEP)
BEST = 100


def measure(plan: Plan, check: int, full: bool = True) -> dict[str, Any]:
    """The figures of one plan."""
    seconds = []
    for _ in range(2):
        start = time.process_time()
        found = searching.search(plan, full=full)
        seconds.append(time.process_time() - start)
    start = time.process_time()
    walk = searching.Walk(plan, QUANTITIES, full=full)
    layouts = sum(int(np.count_nonzero(chunk.valid)) for chunk in walk)
    arrays = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best = searching.search(plan, BEST, full=full).best
    step = searching.STEP
    exact = (layout.evaluate(plan, (step,), step, like=best[:1]) for layout in best)
    worst = max((_difference(x.values, x.approximate) for x in exact), default=0.0)
    return {
        "plan": plan.name,
        "layouts": layouts,
        "fitting": found.fitting,
        "seconds": seconds[0],
        "layouts_per_second": layouts / seconds[0],
        "again_layouts_per_second": layouts / seconds[1],
        "arrays_layouts_per_second": layouts / arrays,
        "peak_bytes": peak * (1 if sys.platform == "darwin" else 1024),
        "checked_best": len(best),
        "worst_difference_best": worst,
        "checked": check,
        "worst_difference": _checked(walk, layouts, check),
    }


def _checked(walk: searching.Walk, layouts: int, check: int) -> float:
    """The worst difference between arrays and exact evaluation, over layouts drawn at random."""
    chosen = sorted(random.Random(0).sample(range(layouts), min(check, layouts)), reverse=True)
    worst, done = 0.0, 0
    for chunk in walk:
        places = np.flatnonzero(chunk.valid)
        while chosen and chosen[-1] < done + len(places):
            place = int(places[chosen.pop() - done])
            exact = compute_values(variant(walk.plan, chunk.build_changes(place)), QUANTITIES)
            over_arrays = {name: chunk.values[name].ravel()[place] for name in QUANTITIES}
            worst = max(worst, _difference(exact, over_arrays))
        done += len(places)
    return worst


def _difference(exact: Any, over_arrays: Any) -> float:
    """The largest difference of a quantity, as a share of its exact value."""
    return max(
        abs(float(exact[name]) - float(value)) / (abs(float(exact[name])) or 1)
        for name, value in over_arrays.items()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", default="presets/gpt3_a100x1024.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--check", type=int, default=1000, help="layouts evaluated exactly too")
    parser.add_argument("--sensible", action="store_true", help="not the full space")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    plan = loading.load(options.plan, options.set)
    row = measure(plan, options.check, not options.sensible)
    print(f"{row['plan']}")
    print(f"  layouts              {row['layouts']:>12,}  ({row['fitting']:,} fit)")
    print(
        f"  whole search         {row['layouts_per_second']:>12,.0f}  a second and core "
        f"({row['seconds']:.2f} s)"
    )
    print(f"  a further search     {row['again_layouts_per_second']:>12,.0f}  a second and core")
    print(f"  arrays alone         {row['arrays_layouts_per_second']:>12,.0f}  a second and core")
    print(f"  peak memory          {row['peak_bytes'] / 1e6:>12,.0f}  MB")
    print(
        f"  worst difference     {row['worst_difference_best']:>12.1e}  from exact evaluation, of "
        f"the best {row['checked_best']}"
    )
    print(f"  worst difference     {row['worst_difference']:>12.1e}  of {row['checked']} at random")
    if options.json:
        write_text(options.json, json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
