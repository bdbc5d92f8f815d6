"""From the arguments of EleutherAI's three scripts (github.com/EleutherAI/cookbook, calc/) to a
model document or, where they say anything of a run, a plan, by `eleuther` rows of families.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from planner.base.errors import Fault, Place, PlanError, nearest
from planner.connect.imports.arguments import Arguments, parse
from planner.connect.imports.families import SCRIPTS, row
from planner.connect.imports.rules import values
from planner.connect.imports.tidy import placed, without_defaults
from planner.documents import aliases, schema, source
from planner.documents.source import nested
from planner.plans.plan import planned

#: The scripts, in the order in which arguments that several know are given to one.
HUB, SHOWN = "hf-model-name-or-path", "--hf_model_name_or_path"
NAMES = ("calc_transformer_mem", "calc_transformer_params", "calc_transformer_flops")


class Read(NamedTuple):
    """A document; the script whose arguments they are; what else there is to say, a line each; for
    dotted keys of a plan, the arguments that gave them."""

    document: dict[str, Any]
    script: str
    said: list[str]
    came_from: Mapping[str, tuple[str, ...]]


def read(text: str, place: Place | None = None) -> Read:
    """The document that arguments say, with what their script takes for those left out.

    Raises:
        PlanError: an argument is unknown, malformed, or says what is not modelled.
    """
    given = parse(text, place, short=True)
    script = _script(text, given)
    known = _names(script)
    unknown = [_shown(name) for name in given if name not in known]
    if unknown:
        near = {name: nearest(name, map(_shown, known)) for name in unknown}
        message = f"{script}.py has no argument "
        raise PlanError(Fault(message + name, place, None, hint) for name, hint in near.items())
    found = {known[name]: value for name, value in given.items()}
    shipped = _shipped(found, place)
    defaults = SCRIPTS[script]["defaults"]
    c = Arguments({"model_type": "eleuther", **found}, defaults, {}, place)
    routed = c.flag("moe") if "moe" in known else c.whole("num-experts", 0)
    traits = {**row("eleuther").traits, **(row("eleuther_experts").traits if routed else {})}
    model = shipped or without_defaults(values(traits, c), place)
    said = [f"arguments that are not given are at the defaults of {script}.py"]
    if "ffn-hidden-size" in found:
        said.append("--ffn-hidden-size is taken here; the script counts 4 times the hidden width")
    if found.keys() <= {*SCRIPTS["model"], HUB}:
        return Read(model, script, said, {})
    plan: dict[str, Any] = {}
    came_from: dict[str, tuple[str, ...]] = {}
    for dotted, rule in row("eleuther_plan").traits.items():
        c.noted.clear()
        value = values({dotted: rule}, c)
        plan |= value
        came_from |= {key: tuple(f"--{name}" for name in sorted(c.noted)) for key in value}
    if shipped and "sequence-length" not in found:
        del plan["training.sequence_length"]  # as long as the model reads
    came_from["cluster.accelerator"] = ("no argument says which",)
    said.append("no argument says which accelerator: cluster.accelerator is an assumption")
    document = {"model": model, **nested(plan)}
    with placed(place):
        planned(schema.validate(source.load(document), "plan"))
    return Read(document, script, said, came_from)


def _shipped(found: Mapping[str, Any], place: Place | None) -> dict[str, Any] | None:
    """The model of the name on the Hub that an argument gives; None where there is none.

    Raises:
        PlanError: a name that does not ship, or arguments of a shape besides.
    """
    if HUB not in found:
        return None
    known = source.preset_names("model")
    preset = aliases.preset("model", str(found[HUB]), known)
    if preset is None:
        wrong = f"{SHOWN} {found[HUB]}: not a built-in model, and nothing is downloaded"
        near = nearest(str(found[HUB]), [*known, *aliases.on_the_hub()])
        raise PlanError(Fault(wrong, place, "plan.py import config.json", near))
    twice = [name for name in found if name in SCRIPTS["model"] and name != "sequence-length"]
    if twice:
        wrong = f"--{twice[0]} and {SHOWN} both give the shape of the model"
        raise PlanError(Fault(wrong, place, "one of them"))
    return {"extends": preset}


@cache
def _names(script: str) -> dict[str, str]:
    """The arguments of a script by their names, short ones with their dash."""
    about = SCRIPTS[script]
    long = {*about["defaults"], *about["short"].values(), *about["others"]}
    return {**{name: name for name in long}, **{f"-{k}": v for k, v in about["short"].items()}}


def _shown(name: str) -> str:
    return name if name.startswith("-") else f"--{name}"


def _script(text: str, given: Mapping[str, Any]) -> str:
    """The script that is named, or the first that knows most of the arguments."""
    named = re.search("|".join(NAMES), text)
    if named:
        return named[0]
    return max(NAMES, key=lambda script: sum(name in _names(script) for name in given))
