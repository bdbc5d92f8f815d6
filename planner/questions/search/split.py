"""What a plan of reinforcement learning leaves open of its engine.

The engine's degrees follow from what its memory needs: the fewest devices that hold the weights and
as much cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from planner.base.errors import PlanError
from planner.documents.source import Document
from planner.engine.instance import compute_values
from planner.plans import plan, reinforcement
from planner.questions.domains import divisors

TENSOR = "rl.rollout.tensor"
HOLDS = "the fewest devices whose share of memory holds the weights and as much cache"
#: What a device of the engine holds.
HELD = ("memory.capacity", "memory.process", "memory.weights", "memory.cache")


def add_engine_degree(document: Document) -> tuple[Document, Mapping[str, str]]:
    """Set the tensor-parallel size of the engine that a document of reinforcement learning leaves
    open.

    Returns:
        The document, and the reason by key; as it is if it gives the size or is at fault.
    """
    rl = document.data.get("rl")
    if document.data["training"]["mode"] != "rl" or not rl or rl["rollout"].get("tensor"):
        return document, {}
    draft, model = plan.begin_plan(document)
    reinforcement.apply_reinforcement(draft)
    if draft.faults or model is None:
        return document, {}
    rl, room = draft.data["rl"], dict[int, Any]()
    _, _, changes = next(reinforcement.list_roles(draft.data))
    for size in divisors(rl["rollout"]["devices"] // rl["rollout"]["pipeline"]):
        changed = {**changes, "parallelism": {**changes["parallelism"], "tensor": size}}
        with suppress(PlanError):  # heads do not divide
            engine = plan.complete_plan(document.change_keys(changed))
            values = compute_values(engine, HELD)
            capacity, process, weights, cache = (values[name] for name in HELD)
            room[size] = rl["rollout"]["memory_share"] * capacity - (process - cache) - weights
            if room[size] >= 0:
                break
    if not room:
        return document, {}
    return document.change_keys({TENSOR: max(room, key=room.__getitem__)}), {TENSOR: HOLDS}
