"""From the arguments of EleutherAI's three scripts (github.com/EleutherAI/cookbook, calc/) to a
model document or, where they say anything of a run, a plan, by `eleuther` rows of families.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from planner.base.errors import Fault, Place, PlanError, nearest
from planner.connect.imports.arguments import Arguments, parse_arguments
from planner.connect.imports.families import SCRIPTS, row
from planner.connect.imports.rules import read_traits, trace_traits
from planner.connect.imports.tidy import drop_defaults, place_faults
from planner.documents import aliases, references, schema, source
from planner.documents.source import expand_keys
from planner.plans.plan import build_plan

#: The scripts, in the order in which arguments that several know are given to one.
HUB, SHOWN = "hf-model-name-or-path", "--hf_model_name_or_path"
NAMES = ("calc_transformer_mem", "calc_transformer_params", "calc_transformer_flops")


class ScriptImport(NamedTuple):
    """A document; the script whose arguments they are; what else there is to say, a line each; for
    dotted keys of a plan, the arguments that gave them.

    Attributes:
        document: the document.
        script: the script that takes the arguments.
        said: further lines for the user.
        came_from: for dotted keys of a plan, the arguments that gave them.
    """

    document: dict[str, Any]
    script: str
    said: list[str]
    came_from: Mapping[str, tuple[str, ...]]


def read_script(text: str, place: Place | None = None) -> ScriptImport:
    """Read the document that arguments say, with the script's defaults for those left out.

    Raises:
        PlanError: an argument is unknown, malformed, or says what is not modelled.
    """
    given = parse_arguments(text, place, short=True)
    script = _pick_script(text, given)
    known = _list_names(script)
    unknown = [_format_name(name) for name in given if name not in known]
    if unknown:
        near = {name: nearest(name, map(_format_name, known)) for name in unknown}
        message = f"{script}.py has no argument "
        raise PlanError(Fault(message + name, place, None, hint) for name, hint in near.items())
    found = {known[name]: value for name, value in given.items()}
    shipped = _find_hub_model(found, place)
    defaults = SCRIPTS[script]["defaults"]
    c = Arguments({"model_type": "eleuther", **found}, defaults, {}, place)
    routed = c.read_flag("moe") if "moe" in known else c.read_int("num-experts", 0)
    traits = {**row("eleuther").traits, **(row("eleuther_experts").traits if routed else {})}
    model = shipped or drop_defaults(read_traits(traits, c), place)
    said = [f"arguments that are not given are at the defaults of {script}.py"]
    if "ffn-hidden-size" in found:
        said.append("--ffn-hidden-size is taken here; the script counts 4 times the hidden width")
    if found.keys() <= {*SCRIPTS["model"], HUB}:
        return ScriptImport(model, script, said, {})
    plan, came_from = trace_traits(row("eleuther_plan").traits, c)
    if shipped and "sequence-length" not in found:
        del plan["training.sequence_length"]  # as long as the model reads
    came_from["cluster.accelerator"] = ("no argument says which",)
    said.append("no argument says which accelerator: cluster.accelerator is an assumption")
    document = {"model": model, **expand_keys(plan)}
    with place_faults(place):
        build_plan(schema.validate(source.load(document), "plan"))
    return ScriptImport(document, script, said, came_from)


def _find_hub_model(found: Mapping[str, Any], place: Place | None) -> dict[str, Any] | None:
    """Find the model of the name on the Hub that an argument gives; None where there is none.

    Raises:
        PlanError: a name that does not ship, or arguments of a shape besides.
    """
    if HUB not in found:
        return None
    known = references.preset_names("model")
    preset = aliases.find_preset("model", str(found[HUB]), known)
    if preset is None:
        wrong = f"{SHOWN} {found[HUB]}: not a built-in model, and nothing is downloaded"
        near = nearest(str(found[HUB]), [*known, *aliases.on_the_hub()])
        raise PlanError(wrong, place, "plan.py import config.json", near)
    twice = [name for name in found if name in SCRIPTS["model"] and name != "sequence-length"]
    if twice:
        wrong = f"--{twice[0]} and {SHOWN} both give the shape of the model"
        raise PlanError(wrong, place, "one of them")
    return {"extends": preset}


@cache
def _list_names(script: str) -> dict[str, str]:
    """List the arguments of a script by their names, short ones with their dash."""
    about = SCRIPTS[script]
    long = {*about["defaults"], *about["short"].values(), *about["others"]}
    return {**{name: name for name in long}, **{f"-{k}": v for k, v in about["short"].items()}}


def _format_name(name: str) -> str:
    """Write an argument with its dashes."""
    return name if name.startswith("-") else f"--{name}"


def _pick_script(text: str, given: Mapping[str, Any]) -> str:
    """Pick the script that is named, or the first that knows most of the arguments."""
    named = re.search("|".join(NAMES), text)
    if named:
        return named[0]
    return max(NAMES, key=lambda script: sum(name in _list_names(script) for name in given))
