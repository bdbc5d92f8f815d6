"""The closed form of a step beside its simulation, over random plans and those that ship.

    python -m benchmarks.simulation [--plans N] [--seed N] [--json FILE]

For each schedule, by how much time.step_seconds, which searches rank by, is above (+) or below (-)
the simulated step: on average, on average without the sign, and at most. Random plans differ in
model, accelerator, degrees, virtual stages, micro-batches, ZeRO stage and recomputation; what a
schedule cannot run is drawn again. Shipped plans are those of presets/. Below the table: by how
much a forward pass in pieces (exchanges with tensor-parallel ranks beside products) differs at most
from time.part.forward, over all layer kinds.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any

import planner
from planner.base.display import as_json, columns
from planner.base.files import write_text

PRESETS = Path(__file__).resolve().parent.parent / "presets"
MODELS = (
    *("gpt3-175b", "llama2-70b", "llama3-8b"),
    *("mixtral-8x7b", "deepseek-v3", "qwen3-30b-a3b"),
)
ACCELERATORS = ("a100-sxm-80gb", "h100-sxm-80gb", "gb200")
SCHEDULES = ("gpipe", "1f1b", "interleaved", "zero-bubble", "dualpipe", "dualpipev")
VIRTUAL = {"interleaved": (2, 4), "dualpipev": (2,)}
TRIES = 100  # of one plan


def drawn(chance: random.Random, schedule: str) -> dict[str, Any]:
    """A plan document, which its schedule may refuse."""
    stages, tensor, data = (chance.choice(of) for of in ((2, 4, 8, 16), (1, 4, 8), (1, 4, 16)))
    sequences = chance.choice((1, 2))
    return {
        "name": "drawn",
        "model": chance.choice(MODELS),
        "cluster": {
            "accelerator": chance.choice(ACCELERATORS),
            "devices": stages * tensor * data,
            "devices_per_node": 8,
            "network": {"bandwidth": "400 Gb/s"},
        },
        "training": {
            "tokens": "1T",
            "sequence_length": 4096,
            "micro_batch": sequences,
            "global_batch": stages * chance.choice((1, 2, 4, 8)) * data * sequences,
            "schedule": schedule,
            "recompute": chance.choice(("none", "selective", "full")),
        },
        "parallelism": {
            "pipeline": stages,
            "virtual_pipeline": chance.choice(VIRTUAL.get(schedule, (1,))),
            "tensor": tensor,
            "sequence": tensor > 1,
            "tensor_overlap": tensor == 8,
            "zero": chance.choice((0, 1, 1, 1, 2, 3)),
        },
    }


def random_plans(count: int, seed: int) -> Iterator[planner.Plan]:
    """As many valid plans of each schedule."""
    chance = random.Random(seed)
    for schedule in SCHEDULES:
        for _ in range(count):
            for _ in range(TRIES):
                try:
                    yield planner.load(drawn(chance, schedule))
                    break
                except planner.PlanError:
                    continue


def shipped_plans() -> Iterator[planner.Plan]:
    """Those whose model has a shape."""
    for path in sorted(PRESETS.glob("*.yaml")):
        plan = planner.load(path)
        if plan.plan.model is not None:
            yield plan


def compared(plan: planner.Plan) -> dict[str, Any]:
    """A plan's step by closed form and simulated, and the difference as a share of the latter."""
    result = plan.evaluate()
    step, evaluation = planner.simulate(result), result.evaluation
    layout = plan.plan.data["parallelism"]
    degrees = ("pipeline", "virtual_pipeline", "tensor", "zero")
    return {
        "plan": plan.name,
        "schedule": plan.plan.settings["training.schedule"],
        "model": plan.plan.get("model.name"),
        **{degree: layout[degree] for degree in degrees},
        "micro_batches": plan.plan.get("training.gradient_accumulation"),
        "simulated": step.seconds,
        "closed": step.closed,
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
    parser.add_argument("--json", metavar="FILE", help="write every plan's figures")
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
    if options.json:
        write_text(options.json, as_json(rows + own))


if __name__ == "__main__":
    main()
