"""From a Megatron-LM argument list to a model document, by the `megatron` rows of families.yaml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from planner.base.errors import Place, PlanError, nearest
from planner.connect.exports import load_framework
from planner.connect.exports.rules import walk_rows
from planner.connect.exports.table import walk_texts
from planner.connect.imports.arguments import Arguments
from planner.connect.imports.commands import read_command, split_changes
from planner.connect.imports.families import ARGUMENTS, MEGATRON_ROWS, list_model_options, row
from planner.connect.imports.option_table import is_equal, load_options
from planner.connect.imports.rules import read_traits
from planner.connect.imports.tidy import drop_defaults
from planner.documents import aliases, references, source

#: Of what they say, what shapes no tensor; and of other options those that belong to the layout.
DESCRIBING = ("max_sequence", "rope_base", "norm_epsilon")
PADDING = ("make-vocab-size-divisible-by", "tensor-model-parallel-size")


def read_megatron(
    text: str, place: Place | None = None, changes: Sequence[str] = ()
) -> dict[str, Any]:
    """Read the model document of an argument list or a script, defaults left out.

    Args:
        text: the arguments, or the script.
        place: where faults are.
        changes: variables of the script and keys of the model, as ``--set`` has them.

    Raises:
        PlanError: an argument is missing, malformed or changes the architecture unmodelled.
    """
    variables, fixed = split_changes(changes)
    found = read_command(text, place, variables).options
    return convert_options({**found, **find_model_options(fixed)}, place)


def find_model_options(fixed: Mapping[str, Any]) -> dict[str, str]:
    """Find the options that take keys of a model, with their values."""
    options = {}
    for row_ in walk_rows(load_framework("megatron").rows):
        key, about = next(iter(row_.items()))
        if key in fixed and key.startswith("model.") and isinstance(about, str):
            options[about] = str(fixed[key])
    return options


def read_hybrid(found: Mapping[str, Any], ends: bool = False) -> str | None:
    """Read the letters of layers that are one block each; None where there are none.

    Args:
        found: options with their values.
        ends: whether the signs between stages stay.
    """
    names = (found.get(f"hybrid-{word}-pattern") for word in ("layer", "override"))
    text = next((str(one) for one in names if one is not None), None)
    return text if text is None or ends else text.replace("|", "")


def find_vocabulary(found: Mapping[str, Any]) -> dict[str, str]:
    """Find the vocabulary of a tokenizer that is the page of a built-in model, where no option has
    its size."""
    page = str(found.get("tokenizer-model", ""))[:200]
    if "/" not in page or not {"vocab-size", "padded-vocab-size"}.isdisjoint(found):
        return {}
    known = references.preset_names("model")
    name = aliases.find_preset("model", page, known)
    vocab = source.load({"extends": name}, kind="model").get("vocab") if name else None
    return {"vocab-size": str(vocab)} if vocab else {}


def convert_options(
    found: Mapping[str, Any], place: Place | None = None, names: Mapping[str, str] = {}
) -> dict[str, Any]:
    """Convert options to a model document, defaults left out.

    Args:
        found: options with their values.
        place: where they are read.
        names: of options that a file calls otherwise.

    Raises:
        PlanError: as for ``read_megatron``.
    """
    letters = read_hybrid(found)
    if letters is not None:  # how many layers there are follows from it
        layered = {"num-layers": str(len(letters)), "hybrid-layer-pattern": letters}
        spec = {"spec"} if found.get("spec") in ARGUMENTS["specs"] else set()
        found = {**{k: v for k, v in found.items() if k not in spec}, **layered}
    _judge_unknown(found, place, names)
    found = {**found, "model_type": "megatron", "num_hidden_layers": found.get("num-layers")}
    c = Arguments(found, {}, names, place)
    latent = c.read_flag("multi-latent-attention")
    left_out = {"megatron_heads" if latent else "megatron_latent"}
    left_out.add("megatron_hybrid" if letters is None else "megatron_placement")
    if "num-experts" not in found or (letters is not None and "E" not in letters):
        left_out |= {"megatron_experts", "megatron_placement"}
    document: dict[str, Any] = {}
    for kind in MEGATRON_ROWS:
        if kind not in left_out:
            document |= read_traits(row(kind).traits, c)
    return drop_defaults(document, place)


def _judge_unknown(found: Mapping[str, Any], place: Place | None, names: Mapping[str, str]) -> None:
    """Refuse an option that changes the model as no row reads it, or that Megatron-LM's table does
    not have and whose name says that it could.

    Args:
        found: values by name inside.
        place: where faults are.
        names: the names that users write.

    Raises:
        PlanError: such an option.
    """
    known, shaped = list_model_options(), re.compile("|".join(ARGUMENTS["shaped"]))
    table = load_options("megatron")
    for name, value in found.items():
        kind = table.classify(name)
        if name in known or value == "0" or is_equal(value, table.defaults.get(name)):
            continue
        if kind == "refused" or not (kind or name in table.defaults or not shaped.search(name)):
            shown = names.get(name, f"--{name}")
            fault = f"{shown} could change the architecture and is not modelled"
            raise PlanError(fault, place, None, nearest(name, known))


def find_shaper(found: Mapping[str, Any]) -> str | None:
    """Find the first option that shapes a model."""
    traits = {key: said for kind in MEGATRON_ROWS for key, said in row(kind).traits.items()}
    shaped = {*walk_texts([said for key, said in traits.items() if key not in DESCRIBING])}
    others = {*ARGUMENTS["others"]} - {*PADDING}
    return next((name for name in found if name in shaped | others), None)
