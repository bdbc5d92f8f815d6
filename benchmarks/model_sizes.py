"""Write what `plan.py list models` prints of each model: `python -m benchmarks.model_sizes`.

Counting them takes seconds, listing them may not: presets/aliases/sizes.json keeps
their parameters and context, and a test holds it against the models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planner.connect.imports.found import AROUND
from planner.documents.references import preset_names
from planner.questions import loading
from planner.results.result import evaluate_plan

FILE = Path(__file__).parents[1] / "presets" / "aliases" / "sizes.json"


def count(name: str) -> list[Any]:
    """The name, the parameters, those that a token uses, and the context of a shipped model."""
    plan = loading.load({"model": name, **AROUND}, team=False)
    result = evaluate_plan(plan)
    sizes = [int(result[f"parameters.{one}"].number) for one in ("total", "active")]
    return [str(plan.get("model.name") or ""), *sizes, plan.get("model.max_sequence")]


def text() -> str:
    """The file, a line for each model."""
    import json

    rows = (f"{json.dumps(name)}: {json.dumps(count(name))}" for name in preset_names("model"))
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
