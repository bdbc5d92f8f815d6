"""Model documents from the configurations of other programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def document(path: str, source: str = "huggingface") -> str:
    """The YAML text of the model document of a file.

    Args:
        path: a config.json, or a file of arguments.
        source: huggingface or megatron.

    Raises:
        PlanError: the file cannot be read, or as for the functions above.
    """
    place = Place(path)
    text = files.read_text(path, LARGEST_FILE, place, "a configuration: text in UTF-8")
    if source == "megatron":
        return tidy.write(megatron.read(text, place), {}, "Megatron-LM argument")
    config = hf.parse(text, place)
    imported = hf.convert(config, place)
    given = config.get("_name_or_path") or config.get("model_type")
    head: dict[str, Any] = {"name": str(given)[:200]}
    if imported.notes:
        head["notes"] = "; ".join(imported.notes)
    family = f"the {imported.family} architecture"
    return tidy.write({**head, **imported.document}, imported.came_from, family)
