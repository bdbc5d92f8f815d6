"""Scripts of trainers by reinforcement learning, from a plan: the rows that read configurations
(planner/connect/imports/options), the other way. What is written is read back, and a key that comes
back as another value is reported.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from math import prod
from typing import Any

from planner.base.display import format_flow, one_line
from planner.base.errors import Place, PlanError
from planner.connect.exports import caveats
from planner.connect.exports.table import Elsewhere, ExportDraft, LaunchConfig
from planner.connect.imports import tabled
from planner.connect.imports.option_table import OptionTable, load_options
from planner.plans.document import Plan
from planner.plans.plan import about

#: What a run finds, and constants of the time of a step: no option decides them.
FOUND_BY_RUNNING = (
    *("rl.steps", "rl.prompt_tokens", "rl.response_tokens", "rl.reward_seconds", "rl.host_seconds"),
    *("rl.logprob_excess", "rl.switch_rate", "rl.rollout.step_overhead"),
    "rl.sync_tensor_seconds",
)
_HUB_PAGE = re.compile(r"https://huggingface\.co/([\w.-]+/[\w.-]+)")


def write_trainer_script(plan: Plan, to: str) -> LaunchConfig:
    """Build the script that starts a trainer: its text, what it says and what it cannot say.

    Raises:
        PlanError: the plan trains otherwise.
    """
    if not plan.reinforced:
        where = plan.document.find_place(("training", "mode"))
        raise PlanError(f"{to} trains by reinforcement learning", where, "mode: rl")
    table, draft = load_options(to), ExportDraft(plan, to)
    wanted = _list_writable(draft, table)
    for key in wanted:
        rows = (row for row in table.keys if row["key"] == key)
        ways = (_invert_row(row, wanted, draft.said, table) for row in rows)
        draft.said |= next((options for options in ways if options is not None), {})
    options = tabled.resolve_references({**table.defaults, **draft.said})
    again, _ = tabled.apply_rows(options, table, Place(to))
    draft.heard |= {*wanted, "rl.updates"}
    draft.heard.discard("model")  # but what is stated of it beside its name
    for path, node in plan.document.walk_values() if "model" in wanted else ():
        if path[0] == "model" and node.origin.kind == "preset":
            draft.heard.add(".".join(map(str, path)))
    for key, value in wanted.items():
        if key not in FOUND_BY_RUNNING and again.get(key, about(key).get("default")) != value:
            draft.add_gap(key, "no option for it")
    for key in FOUND_BY_RUNNING:
        if plan.document.get_stated(key) is not None:
            draft.add_gap(key, Elsewhere("what a run finds"))
    draft.add_rest()
    unsaid = tuple(dict.fromkeys(draft.unsaid))
    head = [f"{to} script of the plan: {plan.name}", *caveats(unsaid)]
    launch = next(r for r in table.launch if tabled.match_options(r.get("when", {}), options))
    words = [shlex.quote(f"++{key}={format_flow(value)}") for key, value in draft.said.items()]
    text = " \\\n  ".join([launch["command"], *words])
    text = "".join(f"# {one_line(line)}\n" for line in head) + text + "\n"
    return LaunchConfig(text, draft.said, unsaid, True, {})


def _list_writable(draft: ExportDraft, table: OptionTable) -> dict[str, Any]:
    """List the values of a draft's plan that a table has rows for, by key: as its document has
    them, before its packed batches and the trainer's share of the devices."""
    plan, document, rl = draft.plan, draft.plan.document, draft.plan.data["rl"]
    devices = document.get("cluster.devices")
    whole = document.get("training.sequence_length") or plan.get("model.max_sequence")
    caps = {name: rl[f"{name}_tokens"]["cap"] for name in ("prompt", "response")}
    pages = (_HUB_PAGE.match(one.get("url") or "") for one in plan.get("model.sources") or ())
    own = {
        "model": next((page[1] for page in pages if page), None),
        "cluster.devices": devices,
        "cluster.devices_per_node": min(plan.get("cluster.devices_per_node") or devices, devices),
        "training.mode": "rl",
        "training.global_batch": rl["prompts"] * rl["samples"] // rl["updates"],
        "training.micro_batch": document.get("training.micro_batch"),
        "training.sequence_length": whole,
        "training.packed": document.get("training.packed") is not False,
        "rl.prompt_tokens": min(caps["prompt"], max(1, whole - caps["response"])),
        "rl.response_tokens": caps["response"],
        "rl.rollout.devices": rl["rollout"]["devices"] if rl["placement"] == "split" else None,
    }
    if plan.get("parallelism.context") == 1:
        own["parallelism.context_exchange"] = None
    keys = dict.fromkeys(row["key"] for row in table.keys)
    values = {key: own[key] if key in own else draft.get(key) for key in keys}
    return {key: value for key, value in values.items() if value is not None}


def _invert_row(
    row: Mapping[str, Any], wanted: Mapping[str, Any], said: Mapping[str, Any], table: OptionTable
) -> dict[str, Any] | None:
    """Return the options with which a row gives the value of its key; None if there are none.

    Args:
        row: of the table.
        wanted: the values of the plan by key.
        said: the options that other rows have written, which stay.
        table: of the trainer.
    """
    value, names = wanted[row["key"]], tabled.list_row_options(row)
    if value == row.get("silent"):
        return {}
    found: dict[str, Any] = dict(row.get("with", {}))
    for option, pattern in row.get("when", {}).items():
        if option not in names and option not in said:
            found[option] = pattern.replace("?", "") if isinstance(pattern, str) else pattern
    if "words" in row:  # the first of those that mean it
        words = [word for word, of in row["words"].items() if of == value]
        found |= dict(zip(names, words, strict=False))
    elif "any" in row:
        usual = table.defaults.get(names[0], False)
        found |= dict.fromkeys(names, False)
        found[names[0]] = usual if bool(usual) == value else type(usual)(value)
    elif len(names) > 1:
        found |= _divide_size(row, value, said, wanted["cluster.devices_per_node"])
    elif names:
        found[names[0]] = value
    elif row["value"] != value:
        return None
    made = {**found, **said}
    same = all(made[one] == to for one, to in found.items()) and made.keys() >= {*names}
    return found if same and tabled.match_options(row.get("when", {}), made) else None


def _divide_size(
    row: Mapping[str, Any], size: int, said: Mapping[str, Any], node: int
) -> dict[str, int]:
    """Return the options that a size is the product of, beside those that are known; of two unknown
    ones the last is at most ``node``."""
    names = tabled.list_row_options(row)
    known = [said[name] for name in names if name in said]
    unknown = [name for name in names if name not in said]
    if not unknown:
        return {}
    rest = size // prod(known)
    inner = min(rest, node) if len(unknown) == 2 else rest
    return {unknown[0]: rest // inner, unknown[-1]: inner}
