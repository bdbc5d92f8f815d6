"""Configurations in YAML that begin with those of other files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from planner.base import files
from planner.base.display import flatten, one_line
from planner.base.errors import Place, PlanError
from planner.documents import yaml_nodes

MOST_BASES, BASE_BYTES = 8, 10_000_000
#: Options that may name a file of settings.
NAMING = (
    *("deepspeed", "fsdp_config", "fsdp-config", "launch.deepspeed-config-file"),
    *("launch.deepspeed_config_file", "deepspeed_config.deepspeed_config_file"),
)
#: A whole number as YAML 1.1 has it, which these frameworks read.
YAML_DIGITS = re.compile(r"[0-9]{1,3}(_[0-9]{3}){1,5}")


def read_configuration(
    text: str, place: Place, key: str, depth: int = 0
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read a configuration over those that one of its keys names, and by itself.

    Args:
        text: the configuration.
        place: the file; the others are beside it.
        key: the key that names them.
        depth: how many lead to it.

    Raises:
        PlanError: it is no mapping, or one of them is not there.
    """
    found = yaml_nodes.parse_plain(text, place.file)
    if not isinstance(found, dict):
        raise PlanError("not a configuration: not a mapping", place)
    parents = found.pop(key, None) or []
    if not isinstance(parents, str | list):
        raise PlanError(f"{key} is no file and no list of files", place)
    merged: dict[str, Any] = {}
    for parent in [parents] if isinstance(parents, str) else parents:
        path = str(PurePosixPath(place.file).parent / str(parent))
        if depth >= MOST_BASES or not files.is_file(path):
            fault = f"{key} names {one_line(str(parent))}, which is not there"
            raise PlanError(fault, place, "the file beside it, or the resolved configuration")
        merged = merge_trees(merged, read_base(path, key, depth + 1))
    return merge_trees(merged, found), found


def read_base(path: str, key: str, depth: int = 1) -> dict[str, Any]:
    """Read a file that a configuration begins with, as ``read_configuration``."""
    inner = Place(path)
    text = files.read_text(path, BASE_BYTES, inner, "a configuration: text in UTF-8")
    return read_configuration(text, inner, key, depth)[0]


def read_beside(name: Any, place: Place) -> dict[str, Any] | None:
    """Read the options of a file that a script names, if it lies in the folder of the script, or in
    the one that a script with a relative path is started from.

    Args:
        name: its name.
        place: the script.

    Returns:
        The options by dotted key; None where the script is no file, or the other is not there.
    """
    path, folder = PurePosixPath(str(name)), PurePosixPath(place.file).parent
    if path.is_absolute() or ".." in path.parts or not files.is_file(place.file):
        return None
    folders = [folder] if folder.is_absolute() else [folder, PurePosixPath()]
    found = next((str(one / path) for one in folders if files.is_file(str(one / path))), None)
    return None if found is None else flatten_options(read_base(found, ""))


def open_named(options: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Replace the files that options of DeepSpeed and FSDP name by what they hold, where they are
    there (``read_beside``)."""
    read = {name: read_beside(options[name], place) for name in NAMING if name in options}
    return {**options, **{name: inner for name, inner in read.items() if inner is not None}}


def merge_trees(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge mappings in mappings; all else is replaced."""
    merged = dict(base)
    for key, value in over.items():
        inner = merged.get(key)
        both = isinstance(inner, Mapping) and isinstance(value, Mapping)
        merged[key] = merge_trees(inner, value) if both else value  # type: ignore[arg-type]
    return merged


def flatten_options(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten mappings in mappings to dotted keys, with underscores for hyphens."""
    found = {key.replace("-", "_"): value for key, value in flatten(tree, lists=True).items()}
    texts = {key: value for key, value in found.items() if isinstance(value, str)}
    return found | {key: int(text) for key, text in texts.items() if YAML_DIGITS.fullmatch(text)}
