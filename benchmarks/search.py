"""Layouts per second and core, peak memory and size of the space of one search.

    python -m benchmarks.search [--plan PLAN.yaml] [--set KEY=VALUE] [--json FILE]

Processor time is counted, so that a busy machine does not change the figure much; enumeration,
preparation and the exact evaluation of the winners are part of it. The second rate is that of the
arrays alone. As many layouts as ``--check`` says are evaluated exactly as well.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import time
from typing import Any

from planner import plan as plans
from planner import search as searching
from planner.document import Plan
from planner.files import write_text
from planner.layouts import Space
from planner.plan import variant
from planner.solve import evaluated

QUANTITIES = (searching.FITS, searching.MEMORY, "time.step_seconds")


def measure(plan: Plan, check: int) -> dict[str, Any]:
    """The figures of one plan."""
    start = time.process_time()
    found = searching.search(plan)
    whole = time.process_time() - start
    space, chance = Space(plan), random.Random(0)
    arrays, worst = 0.0, 0.0
    groups = list(searching.groups(space))
    for group in groups:
        group.arrays(slice(0, 1))  # what is prepared once for a group
        step = max(1, searching.CHUNK // len(group.choices))
        for first in range(0, len(group.rows), step):
            start = time.process_time()
            values = searching.evaluate(group, slice(first, first + step), QUANTITIES)
            arrays += time.process_time() - start
            count = len(values[QUANTITIES[0]])
            share = round(check * count / space.size)
            for place in chance.sample(range(count), min(share, count)):
                changes = group.changes(first * len(group.choices) + place)
                exact = evaluated(variant(plan, changes), QUANTITIES)
                for name in QUANTITIES:
                    size = abs(float(exact[name])) or 1
                    worst = max(worst, abs(float(exact[name]) - values[name][place]) / size)
    for layout in found.best:
        for name, value in layout.approximate.items():
            worst = max(worst, abs(float(layout.values[name]) - value) / float(layout.values[name]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "plan": plan.name,
        "layouts": space.size,
        "fitting": found.fitting,
        "groups": len(groups),
        "seconds": whole,
        "layouts_per_second": space.size / whole,
        "arrays_layouts_per_second": space.size / arrays,
        "peak_bytes": peak * (1 if sys.platform == "darwin" else 1024),
        "worst_difference": worst,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", default="presets/gpt3_a100x1024.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--check", type=int, default=1000, help="layouts evaluated exactly too")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    row = measure(plans.load(options.plan, options.set), options.check)
    print(f"{row['plan']}")
    print(
        f"  layouts              {row['layouts']:>12,}  ({row['fitting']:,} fit, "
        f"{row['groups']} groups)"
    )
    print(
        f"  whole search         {row['layouts_per_second']:>12,.0f}  a second and core "
        f"({row['seconds']:.1f} s)"
    )
    print(f"  arrays alone         {row['arrays_layouts_per_second']:>12,.0f}  a second and core")
    print(f"  peak memory          {row['peak_bytes'] / 1e6:>12,.0f}  MB")
    print(f"  worst difference     {row['worst_difference']:>12.1e}  from exact evaluation")
    if options.json:
        write_text(options.json, json.dumps(row, indent=2) + "\n")


if __name__ == "__main__":
    main()
