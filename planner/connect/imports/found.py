"""What an imported model is, in a sentence: its size, its layers, what one token meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from planner.base import numbers
from planner.documents import schema, source
from planner.plans.document import Plan
from planner.plans.plan import build_plan
from planner.results.result import evaluate_plan

#: What a plan needs beside a model before its parameters can be counted; it decides none of them.
AROUND = {"cluster": {"accelerator": "h100-sxm-80gb", "devices": 1}, "training": {}}


def describe_doc(document: Mapping[str, Any], family: str) -> str:
    """Describe the size and the shape of a model document, as `23.6B parameters, …`.

    Raises:
        PlanError: the document is no valid model.
    """
    read = source.load({"model": document, **AROUND})
    plan = build_plan(schema.validate(read, "plan"))
    result = evaluate_plan(plan)
    total, active = (result[f"parameters.{name}"].number for name in ("total", "active"))
    size = numbers.text(total, "parameters")
    if active != total:
        size += f", {numbers.text(active, 'parameters', 'table')} active for a token"
    return f"{family}: {size}; {', '.join(list_shape(plan))}"


def list_shape(plan: Plan) -> Iterator[str]:
    """Describe what a model is made of, in a few words each."""
    assert plan.model is not None
    kinds = Counter(plan.model.sequence)
    each = ", ".join(f"{count} {name}" for name, count in kinds.items())
    yield f"{len(plan.model.sequence)} layers" + (f" ({each})" if len(kinds) > 1 else "")
    yield f"hidden {numbers.text(plan.get('model.hidden'))}"
    blocks = {block.kind: block.values for part in plan.model.parts for block in part.blocks}
    attention, experts = blocks.get("attention", {}), blocks.get("moe", {})
    heads, shared = attention.get("heads"), attention.get("kv_heads")
    if heads:
        yield f"{heads} heads" + (f" with {shared} of keys and values" if shared != heads else "")
    if experts:
        yield f"{experts['experts']} experts of which a token takes {experts['top_k']}"
    if plan.get("model.vocab"):
        yield f"vocabulary {numbers.text(plan.get('model.vocab'))}"
    if plan.get("model.context"):
        yield f"{numbers.text(plan.get('model.context.tokens'))} tokens of context"
    if plan.get("model.max_sequence"):
        yield f"up to {numbers.text(plan.get('model.max_sequence'))} tokens"
