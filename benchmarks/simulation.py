"""The closed form of a step beside its simulation, over random plans and those that ship.

    python -m benchmarks.simulation [--plans N] [--seed N]

For each schedule, by how much time.step_seconds, which searches rank by, is above (+) or below (-)
the simulated step: on average, on average without the sign, and at most. Random plans differ in
model, accelerator, degrees, virtual stages, micro-batches, ZeRO stage and recomputation; what a
schedule cannot run is drawn again. Shipped plans are those of presets/. Below the table: by how
much a forward pass in pieces (exchanges with tensor-parallel ranks beside products) differs at most
from time.part.forward, over all layer kinds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import planner
from fuzz.documents import draw_one
from planner.base.display import columns
from tests.strategies import Document, pipelined_plans

PRESETS = Path(__file__).resolve().parent.parent / "presets"
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "dualpipe", "dualpipev")


def is_valid(document: Document) -> bool:
    """Whether a schedule can run a plan."""
    try:
        planner.load(document)
    except planner.PlanError:
        return False
    return True


def random_plans(count: int, seed: int) -> Iterator[planner.Plan]:
    """As many valid plans of each schedule."""
    for schedule in SCHEDULES:
        for number in range(count):
            place = f"{seed} {schedule} {number}"
            if (document := draw_one(pipelined_plans(schedule), place, is_valid)) is not None:
                yield planner.load(document)


def shipped_plans() -> Iterator[planner.Plan]:
    """Those whose model has a shape."""
    for path in sorted(PRESETS.glob("*.yaml")):
        plan = planner.load(path)
        if plan.plan.model is not None:
            yield plan


def compared(plan: planner.Plan) -> dict[str, Any]:
    """A plan's step by closed form and simulated, and the difference as a share of the latter."""
    result = plan.evaluate()
    if result.assumes_utilisation:  # of which there is nothing to simulate
        result = result.alternative or result
    step, evaluation = planner.simulate(result), result.evaluation
    layout = plan.plan.data["parallelism"]
    return {
        "schedule": plan.plan.settings["training.schedule"],
        "model": plan.plan.get("model.name"),
        **layout,
        "micro_batches": plan.plan.get("training.gradient_accumulation"),
        "difference": step.closed / step.seconds - 1,
        "pieces": max(
            abs(found[-1].end / float(evaluation.value("time.part.forward", {"part": part})) - 1)
            for part, (_, found) in zip(evaluation.case.entries("part"), step.layers, strict=True)
        ),
    }


def summary(name: str, rows: list[dict[str, Any]]) -> list[str]:
    found = [row["difference"] for row in rows]
    worst = max(rows, key=lambda row: abs(row["difference"]))
    where = "{model}, p {pipeline}, v {virtual_pipeline}, t {tensor}, m {micro_batches}"
    return [
        name,
        str(len(rows)),
        *(f"{100 * x:+.1f} %" for x in (mean(found), mean(map(abs, found)), worst["difference"])),
        f"{where}, ZeRO {{zero}}".format(**worst),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plans", type=int, default=40, help="of each schedule")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rows = list(map(compared, random_plans(options.plans, options.seed)))
    own = list(map(compared, shipped_plans()))
    table = [
        summary(schedule, [row for row in rows if row["schedule"] == schedule])
        for schedule in SCHEDULES
    ]
    head = ["schedule", "plans", "mean", "without sign", "most", "there"]
    lines = columns([head, *table, summary("presets", own)], right=range(1, 5))
    print("\n".join(lines))
    pieces = max(row["pieces"] for row in rows + own)
    print(f"forward passes in pieces: {pieces:.1e} at most")


if __name__ == "__main__":
    main()
