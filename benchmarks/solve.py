"""Time of one inverse question, after start-up.

    python -m benchmarks.solve [--runs N] [--plan FILE …] [--json FILE]

Every question is asked once to warm up (modules, the book's expressions) and then N times; the
least time counts. The bars are goals of the project, printed beside the time; nothing fails here.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from planner.base.errors import PlanError
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.solve import questions

ROOT = Path(__file__).resolve().parent.parent
PLANS = (
    "presets/gpt2small_hgx-h100.yaml",
    "presets/gpt3_a100x1024.yaml",
    "presets/llama70b_h100x1024.yaml",
    "presets/mixtral8x7b_h100x1024.yaml",
    "presets/largest_on_8xh100.yaml",
)
#: A plan of many small experts, which no preset is.
EXPERTS = {
    "name": "DeepSeek-V3 on 2,048 H800s",
    "model": "deepseek-v3",
    "cluster": "deepseek-h800x2048",
    "training": {
        "tokens": "14.8T",
        "sequence_length": 4096,
        "global_batch": 15360,
        "micro_batch": 1,
        "precision": "fp8",
        "recompute": "selective",
    },
    "parallelism": {"pipeline": 16, "expert": 64, "zero": 1},
}
#: Milliseconds: with the plan's layout, and with the best layout at each value.
BARS = {"own": 50.0, "auto": 2000.0}


@dataclass(frozen=True)
class Question:
    name: str
    options: Mapping[str, Any]
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def layout(self) -> str:
        return str(self.options.get("with_layout", "own"))


DEADLINE = {"deadline": "60 days"}
PREDICTED = {"time.mfu": None}
AUTO, OWN = {"with_layout": "auto"}, {"with_layout": "own"}
QUESTIONS = (
    Question("largest-model", {"question": "largest-model", **OWN}),
    Question(
        "largest-model-by-deadline",
        {"question": "largest-model-by-deadline", **DEADLINE, **OWN},
    ),
    Question("largest-batch", {"question": "largest-batch"}),
    Question("longest-context", {"question": "longest-context"}),
    Question("fewest-devices", {"question": "fewest-devices"}),
    Question("tokens-by-deadline", {"question": "tokens-by-deadline", **DEADLINE}),
    Question(
        "tokens-by-deadline, predicted",
        {"question": "tokens-by-deadline", **DEADLINE},
        PREDICTED,
    ),
    Question("vary model.layers", {"vary": "model.layers", "until": ["memory.process<=70 GiB"]}),
    Question(
        "vary tokens, two limits",
        {
            "vary": "training.tokens",
            "until": ["time.training_days<=60 days", "compute.training_flops<=1e26 FLOP"],
        },
    ),
    Question(
        "maximize tokens per second",
        {
            "vary": "training.micro_batch",
            "maximize": "time.tokens_per_second",
            "until": ["memory.headroom>=0"],
        },
        PREDICTED,
    ),
    Question("fewest-devices, any layout", {"question": "fewest-devices", **DEADLINE, **AUTO}),
    Question(
        "tokens-by-deadline, any layout", {"question": "tokens-by-deadline", **DEADLINE, **AUTO}
    ),
    Question(
        "longest-context, any layout",
        {"question": "longest-context", "until": ["time.step_seconds<=60 s"], **AUTO},
    ),
    Question("largest-model, any layout", {"question": "largest-model", **AUTO}),
    Question(
        "largest-model-by-deadline, any layout",
        {"question": "largest-model-by-deadline", **DEADLINE, **AUTO},
    ),
    Question("cheapest", {"question": "cheapest", **DEADLINE, **AUTO}),
)


def measure(plan: Plan, asked: Question, runs: int) -> dict[str, Any]:
    """One row: the least milliseconds and how many plans were tried, or why there is no answer."""
    changed = variant(plan, asked.changes)
    row: dict[str, Any] = {"plan": plan.name, "question": asked.name, "layout": asked.layout}
    times: list[float] = []
    for _ in range(runs + 1):
        start = time.process_time()
        try:
            answer = questions.ask(changed, **asked.options)
        except PlanError as error:
            return row | {"reason": error.faults[0].message}
        times.append(1000 * (time.process_time() - start))
    held = answer.holds is not None
    least = min(times[1:])
    bar = BARS[asked.layout]
    row |= {"ms": least, "bar": bar, "holds": least <= bar}
    return row | {"tried": answer.tried, "solved": held}


def line(row: Mapping[str, Any]) -> str:
    if "reason" in row:
        return f"  {row['question']:<37} {row['reason'][:60]}"
    verdict = "" if row["holds"] else "  over the bar"
    solved = "" if row["solved"] else "  no solution"
    times = f"{row['ms']:8.1f} {row['bar']:6.0f}"
    return f"  {row['question']:<37} {times} {row['tried']:6}{solved}{verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time of one inverse question.")
    parser.add_argument("--runs", type=int, default=5, help="times each is asked (default 5)")
    parser.add_argument("--plan", action="append", default=[], help="a plan; repeatable")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there too")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    rows = []
    shipped = [*(str(ROOT / name) for name in PLANS), EXPERTS]
    for document in options.plan or shipped:
        plan = loading.load(document)
        print(f"\n{plan.name:<39} {'ms':>8} {'bar':>6} {'plans':>6}")
        for asked in QUESTIONS:
            row = measure(plan, asked, options.runs)
            rows.append(row)
            print(line(row), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"bars": BARS, "rows": rows}, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
