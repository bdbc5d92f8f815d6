"""Transformers of diffusion models, from configurations of diffusers (diffusion.yaml)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.base import resources
from planner.base.errors import Place, PlanError, nearest
from planner.connect.imports.config import Config
from planner.connect.imports.families import HARMLESS, inherit_row
from planner.connect.imports.rules import check_depth, check_values, trace_traits

_SAID = resources.load_beside(__file__)
#: Classes that are known, and what each row has that is no key of the document.
CLASSES: Mapping[str, Mapping[str, Any]] = _SAID["types"]
_BESIDE = ("defaults", "refused", "names")
#: What says the class, as transformers' `model_type` does elsewhere.
NAME = "_class_name"


def convert_diffuser(
    config: Mapping[str, Any], place: Place | None
) -> tuple[str, dict[str, Any], dict[str, tuple[str, ...]]]:
    """Convert a configuration of diffusers: its class, its model document in dotted keys, and for
    each of these the keys that it came from.

    Raises:
        PlanError: a class, a value or a key that is not modelled, or one that is missing.
    """
    name = str(config[NAME])
    if name not in CLASSES:
        for reason, classes in _SAID["refusals"].items():
            if name in classes:
                raise PlanError(f"{name} is not modelled: {reason}", place)
        fault, allowed = f"the class {name[:200]!r} is not known", None
        if name.endswith("Pipeline"):
            fault = f"{name[:200]} is a pipeline of several models"
            allowed = "the config.json of one of them, in its folder transformer"
        raise PlanError(fault, place, allowed, nearest(name, CLASSES))
    given = {key: value for key, value in config.items() if not key.startswith("_")}
    own, names = CLASSES[name]["defaults"], CLASSES[name].get("names", {})
    c = Config({**given, "model_type": name}, own, names, place)
    for key, classes in CLASSES[name].get("is", {}).items():
        check_values(c, {key: [*classes]}, name)
        name = classes[c.get(key)]
    check_values(c, CLASSES[name].get("refused", {}), name, derive=True)
    said = inherit_row({**_SAID["parts"], **CLASSES}, name)
    traits = {key: value for key, value in said.items() if key not in _BESIDE}
    document, came_from = trace_traits(traits, c)
    check_depth(c, document["layers"])
    c.judge(_SAID["harmless"], HARMLESS)
    return name, document, came_from
