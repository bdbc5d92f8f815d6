"""Job files of schedulers: nodes, devices and environment of a plan, the launch configuration of a
framework in it, and the line that starts that on each node."""

from __future__ import annotations

import re
from typing import Any

from planner.base import resources
from planner.base.display import one_line
from planner.base.errors import PlanError
from planner.base.sandbox import make_sandbox
from planner.connect.exports import Framework, load_framework
from planner.connect.exports.table import LaunchConfig
from planner.plans.document import Plan

#: How files of a framework's form end.
ENDINGS = {"flags": "args", "json": "json", "yaml": "yaml", "toml": "toml", "python": "py"}
#: The script that a user brings, in a framework's line and in a job's.
SCRIPT, OWN = "TRAIN.py", '"${TRAIN:-train.py}"'


def write_job(plan: Plan, to: str, made: LaunchConfig, scheduler: str) -> str:
    """Write a job file.

    Args:
        plan: the plan.
        to: the framework.
        made: its launch configuration of the plan.
        scheduler: slurm, kubernetes or skypilot.

    Raises:
        PlanError: nodes that are not whole, or an accelerator that the scheduler has no name for.
    """
    from jinja2 import FileSystemLoader

    facts = resources.load_beside(__file__)
    known, about = load_framework(to), facts["schedulers"][scheduler]
    values = {
        **_count_nodes(plan, facts),
        "environment": made.environment,
        "text": made.text.rstrip(),
    }
    if scheduler == "skypilot" and values["skypilot"] is None:
        raise _refuse_name(plan, scheduler, "cluster.accelerator")
    slug = re.sub(r"[^a-z0-9]+", "-", f"{plan.name}".lower()).strip("-")[:40].strip("-")
    values["name"] = slug if slug[:1].isalpha() else f"plan-{slug}".rstrip("-")
    # A module of its own, whatever the plan is called: not `math`, nor `torch`.
    module = "run_" * (known.form == "python") + values["name"].replace("-", "_")
    values |= {"module": module, "file": f"{module}.{ENDINGS[known.form]}"}
    values["line"] = _build_line(known, facts, about, values)
    values["head"] = _write_job_head(plan, known, about)
    jinja = make_sandbox(loader=FileSystemLoader(resources.folder("templates")))
    text: str = jinja.get_template(f"jobs/{scheduler}.jinja").render(values)
    return text


def _count_nodes(plan: Plan, facts: Any) -> dict[str, Any]:
    """Count whole nodes, and find the names of their accelerators."""
    devices = plan.get("cluster.devices")
    per_node = min(plan.get("cluster.devices_per_node") or devices, devices)
    if devices % per_node:
        where = plan.document.find_place(("cluster", "devices"))
        raise PlanError(f"{devices} devices are not whole nodes of {per_node}", where)
    vendor = plan.get("cluster.accelerator.vendor")
    if vendor not in facts["vendors"]:
        raise _refuse_name(plan, "torchrun", "cluster.accelerator.vendor")
    node = plan.document.find_node(("cluster", "accelerator"))
    names = facts["accelerators"].get(node.reference, {})
    unnamed = {"skypilot": None, "product": None}
    sizes = {"nodes": devices // per_node, "per_node": per_node}
    return {**unnamed, **names, **facts["vendors"][vendor], **sizes}


def _refuse_name(plan: Plan, what: str, key: str) -> PlanError:
    """Make the error for an accelerator that a scheduler or a cloud has no name for."""
    where = plan.document.find_place(("cluster", "accelerator"))
    shown = one_line(str(plan.get(f"{key}.name") or plan.get(key)))
    return PlanError(f"{what} has no name for {shown}", where)


def _build_line(known: Framework, facts: Any, about: Any, values: dict[str, Any]) -> str:
    """Build the line that starts the framework.

    Args:
        known: the framework.
        facts: the table of jobs, with the text of each launcher.
        about: what the scheduler has of its own: the rank of a node, and text at the end of the
            line.
        values: what the launcher's text needs, and ``file``, the launch file.
    """
    launcher = facts["launchers"][known.use.partition(" ")[0]]
    line = known.use if "…" in known.use else f"… {known.use}"
    line = line.replace("…", launcher.format(rank=about["rank"], **values))
    for word, own in (("FILE", values["file"]), ("MODULE", values["module"]), (SCRIPT, OWN)):
        line = line.replace(word, own)
    return line + str(about["more"])


def _write_job_head(plan: Plan, known: Framework, about: Any) -> str:
    """Write the comments that open the file."""
    hand = [*about["by_hand"], *(["TRAIN, the training script"] if SCRIPT in known.use else [])]
    lines = [
        f"Job of the plan: {plan.name}",
        f"Starts: {known.title}",
        f"Use: {about['use']}",
        "To be added by hand: " + "; ".join(hand) + ".",
    ]
    return "\n".join(f"# {one_line(line)}" for line in lines)
