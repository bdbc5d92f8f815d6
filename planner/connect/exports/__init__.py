"""Launch configurations of training frameworks, from a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.base.errors import Fault, PlanError

# The command line asks for the names of the frameworks at each start; the rest waits.
if TYPE_CHECKING:
    from types import ModuleType

    from planner.connect.exports.table import Config, Unsaid
    from planner.plans.document import Plan

__all__ = ["FORMATS", "config", "export", "framework"]

#: The frameworks, each a module of this package with its table.
FORMATS = ("megatron", "torchtitan", "deepspeed", "nanotron", "accelerate")


def export(plan: Plan, to: str) -> str:
    """The launch configuration of a framework, as the text of its file.

    Raises:
        PlanError: an unknown framework, or a plan whose layout is still to be searched.
    """
    return config(plan, to).text


def config(plan: Plan, to: str) -> Config:
    """The configuration with what it says, by their keys, and what it cannot say."""
    from planner.connect.exports.table import Config, makes

    module = framework(to)
    if not isinstance(plan.data.get("parallelism"), dict):
        raise PlanError(
            Fault(
                "a launch configuration needs a layout",
                plan.document.place(("parallelism",)),
                "sizes under parallelism; plan.py search ranks layouts",
            )
        )
    draft = makes(module.TABLE, plan)
    unsaid = tuple(dict.fromkeys(draft.unsaid))
    head = _head(plan, module.TITLE, module.USE, unsaid, module.BY_HAND)
    return Config(module.write(draft.said, head), dict(draft.said), unsaid, module.BY_HAND)


def framework(name: str) -> ModuleType:
    """The module of a framework, with its table.

    Raises:
        PlanError: an unknown framework.
    """
    from importlib import import_module

    if name not in FORMATS:
        raise PlanError(Fault.among(f"unknown framework {name}", name, FORMATS))
    return import_module(f"planner.connect.exports.{name}")


def _head(
    plan: Plan, title: str, use: str, unsaid: tuple[Unsaid, ...], by_hand: tuple[str, ...]
) -> str:
    """The comments that open the file."""
    from planner.base.display import one_line

    devices, node = plan.get("cluster.devices"), plan.get("cluster.devices_per_node")
    per_node = f", {node} per node" if node else ""
    lines = [
        f"{title} of the plan: {plan.name}",
        f"Use: {use}",
        f"Processes: {devices}{per_node}; data parallel {plan.get('parallelism.data')}, "
        f"{plan.get('training.gradient_accumulation')} micro-batches per step.",
    ]
    if unsaid:
        lines += ["Not said here, or not quite:", *(f"  {each}" for each in unsaid)]
    lines.append("To be added by hand: " + "; ".join(by_hand) + ".")
    return "".join(f"# {one_line(line)}\n" for line in lines)
