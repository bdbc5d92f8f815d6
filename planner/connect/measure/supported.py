"""Which models and runs a plain PyTorch decoder can be built and trained for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planner.base import resources
from planner.base.errors import Fault, PlanError
from planner.plans.document import Block, Model, Plan

_SAID = resources.read_yaml(Path(__file__).with_name("supported.yaml"))
OFF = (None, False, 0, "none")


def check(plan: Plan) -> None:
    """Refuse what the decoder does not build.

    Raises:
        PlanError: every part of the model or run that it does not know.
    """
    if plan.model is None:
        where = plan.document.place(("model",))
        raise PlanError(Fault("a step needs the model's shape", where, "layers, hidden and so on"))
    faults: dict[Any, Fault] = {}  # what several blocks have is told once
    for key, value, instead in _refused(plan, plan.model):
        fault = f"measure --step cannot run {key} {_shown(value)}"
        where = plan.document.place(tuple(key.split(".")))
        faults.setdefault((key, instead), Fault(fault, where, instead))
    if faults:
        raise PlanError([*faults.values()])


def _shown(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _refused(plan: Plan, model: Model) -> Iterator[tuple[str, Any, str]]:
    """Keys with a value that it does not build or run, and what goes instead."""
    for key, known in _SAID["run"].items():
        if plan.get(key) not in known:
            yield key, plan.get(key), f"--set {key}={_shown(known[0])}"
    if plan.get("training.lora") is not None:
        yield "training.lora", "adapters", "--set training.lora=null"
    if plan.get("model.encoder") is not None:
        yield "model.encoder", "models", "a decoder"
    if plan.get("model.mtp"):
        yield "model.mtp", plan.get("model.mtp"), "--set model.mtp=0"
        return
    for block in (block for part in model.parts for block in part.blocks):
        for key, value in _unknown(block, plan.get("training.sequence_length")):
            yield key, value, "a plain decoder: attention, mlp or moe"


def _unknown(block: Block, length: int) -> Iterator[tuple[str, Any]]:
    values, built = block.values, _SAID["blocks"].get(block.kind)
    if built is None:
        yield f"model.{block.kind}", "blocks"
        return
    for key, value in values.items():
        if key not in built and value not in OFF and key != "decoder":
            yield f"model.{block.kind}.{key}", value
    if block.kind in ("mlp", "moe") and values["activation"] not in _SAID["activations"]:
        yield f"model.{block.kind}.activation", values["activation"]
    if block.kind == "attention":
        if values["value_head_dim"] != values["head_dim"]:
            yield "model.attention.value_head_dim", values["value_head_dim"]
        if (values.get("window") or length) < length:
            yield "model.attention.window", values["window"]
