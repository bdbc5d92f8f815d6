"""Model documents from the configurations of other programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from planner.base import files
from planner.base.errors import Place
from planner.connect.imports import hf, megatron, tidy

LARGEST_FILE = 10_000_000  # bytes; configurations have thousands


def import_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A model document from a Hugging Face configuration, defaults left out.

    Raises:
        PlanError: what is missing, malformed, contradictory or not modelled.
    """
    return hf.convert(config).document


class Imported(NamedTuple):
    """The YAML of a model document; the document; what it is in a few lines, the first of them its
    size and shape, the others what was left out."""

    text: str
    document: dict[str, Any]
    said: Sequence[str]


def read(path: str, source: str = "huggingface") -> Imported:
    """The model of a file.

    Args:
        path: a config.json, or a file of arguments.
        source: huggingface or megatron.

    Raises:
        PlanError: the file cannot be read, or as for the functions above.
    """
    from planner.connect.imports.found import sentence

    place = Place(path)
    text = files.read_text(path, LARGEST_FILE, place, "a configuration: text in UTF-8")
    if source == "megatron":
        document = megatron.read(text, place)
        written = tidy.write(document, {}, "Megatron-LM argument")
        return Imported(written, document, [sentence(document, "Megatron-LM arguments")])
    config = hf.parse(text, place)
    imported = hf.convert(config, place)
    given = config.get("_name_or_path") or config.get("model_type")
    head: dict[str, Any] = {"name": str(given)[:200]}
    if imported.notes:
        head["notes"] = "; ".join(imported.notes)
    family = f"the {imported.family} architecture"
    document = {**head, **imported.document}
    written = tidy.write(document, imported.came_from, family)
    return Imported(written, document, [sentence(document, imported.family), *imported.notes])
