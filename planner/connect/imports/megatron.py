"""From a Megatron-LM argument list to a model document, by the `megatron` rows of families.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.base.errors import Fault, Place, PlanError, nearest
from planner.connect.exports.table import texts
from planner.connect.imports.arguments import Arguments, parse
from planner.connect.imports.families import ARGUMENTS, row
from planner.connect.imports.rules import values
from planner.connect.imports.tidy import without_defaults

#: Rows of families.yaml that arguments are read by.
ROWS = ("megatron", "megatron_heads", "megatron_latent", "megatron_experts")


def read(text: str, place: Place | None = None) -> dict[str, Any]:
    """The model document of an argument list, defaults left out.

    Raises:
        PlanError: an argument is missing, malformed or changes the architecture unmodelled.
    """
    found = parse(text, place)
    _judge_unknown(found, place)
    c = Arguments({"model_type": "megatron", **found}, {}, {}, place)
    latent = c.flag("multi-latent-attention")
    left_out = {"megatron_heads" if latent else "megatron_latent"}
    if "num-experts" not in found:
        left_out.add("megatron_experts")
    document: dict[str, Any] = {}
    for kind in ROWS:
        if kind not in left_out:
            document |= values(row(kind).traits, c)
    return without_defaults(document, place)


def _judge_unknown(found: Mapping[str, Any], place: Place | None) -> None:
    """An argument that no row names is harmless, or refused."""
    known = {*ARGUMENTS["others"], *texts([list(row(kind).traits.values()) for kind in ROWS])}
    shaped, harmless = (re.compile("|".join(ARGUMENTS[key])) for key in ("shaped", "harmless"))
    for name, value in found.items():
        if name in known or harmless.search(name) or not shaped.search(name) or value == "0":
            continue
        fault = f"--{name} could change the architecture and is not modelled"
        raise PlanError(Fault(fault, place, None, nearest(name, known)))
