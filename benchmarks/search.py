"""Layouts per second and core, peak memory and size of the space of one search.

    python -m benchmarks.search [--plan PLAN.yaml] [--set KEY=VALUE] [--sensible]

All valid layouts, or with ``--sensible`` those that a search looks at unless told otherwise.
Processor time of one thread is counted, so that a busy machine does not change the figure much;
enumeration, preparation and the exact evaluation of the winners are part of it. The second rate is
that of a further search over the same kind of plan, which has the graph already; the third that of
the arrays alone. The best hundred are evaluated exactly as well.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from typing import Any

import numpy as np

from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.search import engine as searching
from planner.results.verdict import FITS

QUANTITIES = (FITS, searching.MEMORY, searching.STEP)
BEST = 100


def measure(plan: Plan, full: bool = True) -> dict[str, Any]:
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
    exact = (layout.evaluate(plan, (step,), step) for layout in best)
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
    }


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
    parser.add_argument("--sensible", action="store_true", help="not the full space")
    options = parser.parse_args()
    plan = loading.load(options.plan, options.set)
    row = measure(plan, not options.sensible)
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


if __name__ == "__main__":
    main()
