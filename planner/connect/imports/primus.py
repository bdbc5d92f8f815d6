"""Configurations of Primus, as those of the framework that they train with."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from planner.base import files, resources
from planner.base.display import one_line
from planner.base.errors import Place, PlanError
from planner.connect.imports import option_table
from planner.connect.imports.arguments import parse_word
from planner.connect.imports.bases import flatten_options, read_base, read_configuration
from planner.connect.imports.commands import TrainingCommand
from planner.connect.imports.option_table import is_equal

MODULES = re.compile(r"^modules:\s*(#.*)?$", re.MULTILINE)
#: What a variable of the environment stands for, with its default.
ENVIRONMENT_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::([^{}]*))?\}")
#: Primus's own names.
PRIMUS = resources.load_beside(__file__)
BASES = "extends"
MOST_FOLDERS = 12  # between a configuration and its repository


def is_primus(text: str) -> bool:
    """Check whether a text is a configuration of Primus."""
    return (
        MODULES.search(text) is not None and re.search(r"^[ \t]+framework:", text, re.M) is not None
    )


def find_primus_framework(text: str) -> str:
    """Find the framework that a configuration of Primus trains with; megatron for one not read."""
    named = re.search(r"^[ \t]+framework:[ \t]*(maxtext|torchtitan)\b", text, re.M)
    return named[1] if named else "megatron"


def read_primus(text: str, place: Place, variables: Mapping[str, str]) -> TrainingCommand:
    """Read the options of a configuration over those of the files that it names.

    Args:
        text: the configuration.
        place: the file.
        variables: variables of the environment.

    Raises:
        PlanError: it trains with another framework, a file that it names is not in its repository,
            or an option is refused.
    """
    tree, overrides = _read_module(text, place, variables, "megatron")
    own = dict(_name_options(overrides, variables))
    options = {**dict(_name_options(tree, variables)), **own}
    of_primus = option_table.OptionTable(**PRIMUS["options"])
    megatron = option_table.load_options("megatron")
    judged = {k: v for k, v in options.items() if of_primus.classify(k) and _has_value(v)}
    lines = option_table.judge_options(judged, {}, of_primus, own, place)
    # Base files have all options, also of optimizers and layers that are not there.
    idle = [] if options.get("optimizer") == "muon" else ["muon-"]
    idle += [] if _has_value(options.get("num-experts", False)) else ["moe-", "expert-"]
    kept = {}
    for option, value in options.items():
        default = megatron.defaults.get(option)
        if default is False and value in ("0", "1"):
            value = value == "1"
        known = option in own or option in megatron.defaults or megatron.classify(option)
        left_out = option in judged or option.startswith(tuple(idle))
        if known and not left_out and _has_value(value) and not is_equal(value, default):
            kept[option] = value
    return TrainingCommand(kept, None, lines)


def read_primus_settings(
    text: str, place: Place, variables: Mapping[str, str], framework: str
) -> dict[str, Any]:
    """Read a configuration that trains with MaxText or torchtitan, as one of it; what its file of
    modules has besides is no option of a run's numbers.

    Args:
        text: the configuration.
        place: the file.
        variables: variables of the environment.
        framework: the framework.

    Raises:
        PlanError: as ``read_primus``.
    """
    tree, overrides = _read_module(text, place, variables, framework)
    return {
        key: parse_word(_fill_variables(value, variables), key)
        if isinstance(value, str) and ENVIRONMENT_VARIABLE.search(value)
        else value
        for key, value in flatten_options(
            {**flatten_options(tree), **flatten_options(overrides)}
        ).items()
        if not re.fullmatch(PRIMUS["besides"][framework], key)
    }


def _read_module(
    text: str, place: Place, variables: Mapping[str, str], framework: str
) -> tuple[dict[str, Any], Mapping[str, Any]]:
    """Read the files that a configuration names, and its overrides.

    Args:
        text: the configuration.
        place: the file.
        variables: variables of the environment.
        framework: the framework that it has to train with.

    Raises:
        PlanError: it trains with another one, or a file is not in its repository.
    """
    modules = read_configuration(text, place, BASES)[0].get("modules")
    module = modules.get("pre_trainer") if isinstance(modules, Mapping) else None
    if not isinstance(module, Mapping) or module.get("framework") != framework:
        named = module.get("framework") if isinstance(module, Mapping) else "no pre_trainer"
        fault = f"{one_line(str(named))[:60]} is not read"
        raise PlanError(
            fault, place, "modules.pre_trainer with framework: megatron, maxtext or torchtitan"
        )
    tree: dict[str, Any] = {}
    for key, folder in PRIMUS["folders"].items():
        named = _fill_variables(str(module.get(key)), variables)
        tree |= read_base(_find_file(named, f"{folder}/{framework}", place), BASES)
    overrides = module.get("overrides") or {}
    if not isinstance(overrides, Mapping):
        raise PlanError("overrides is no mapping", place)
    return tree, overrides


def _fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """Replace variables of the environment by their values, or their defaults."""
    return ENVIRONMENT_VARIABLE.sub(lambda found: variables.get(found[1], found[2] or ""), text)


def _find_file(name: str, folder: str, place: Place) -> str:
    """Find a file of the repository that a configuration is in.

    Raises:
        PlanError: it is not there.
    """
    for above in list(PurePosixPath(place.file).parents)[:MOST_FOLDERS]:
        path = str(above / folder / name)
        if re.fullmatch(r"[\w.-]{1,200}", name) and files.is_file(path):
            return path
    fault = f"{one_line(name)[:60]} is not in {folder} of its repository"
    raise PlanError(fault, place, "the file where Primus has it")


def _name_options(
    tree: Mapping[str, Any], variables: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    """Yield options by the names of Megatron-LM; those that are there where a value is false are
    false where it is true."""
    for key, value in tree.items():
        name = str(key).replace("_", "-")
        if isinstance(value, str) and ENVIRONMENT_VARIABLE.search(value):
            value = _fill_variables(value, variables)
            value = parse_word(value, name) if value else value
        if name in PRIMUS["inverted"] and isinstance(value, bool):
            yield PRIMUS["inverted"][name], not value
        elif isinstance(value, Mapping):
            yield name, value.get("enabled", value.get("enable", False))
        else:
            yield (
                PRIMUS["renamed"].get(name, name),
                value if isinstance(value, bool) else str(value),
            )


def _has_value(value: Any) -> bool:
    """Check whether an option is there at all."""
    return value not in (False, "None", "")
