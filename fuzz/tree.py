"""Documents as trees whose scalars are text as written, so that any spelling can be tried."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Tree = Any  # dict, list, or str: a scalar or any other YAML text
Path = tuple[str | int, ...]


def from_data(data: Any) -> Tree:
    """The tree of plain data; texts are quoted."""
    if isinstance(data, dict):
        return {str(key): from_data(value) for key, value in data.items()}
    if isinstance(data, list):
        return [from_data(value) for value in data]
    return json.dumps(data, ensure_ascii=False)


def flow(tree: Tree) -> str:
    """On one line; JSON where the scalars are."""
    if isinstance(tree, dict):
        pairs = (
            f"{key if key[:1] in _WRITTEN else json.dumps(key)}: {flow(value)}"
            for key, value in tree.items()
        )
        return "{" + ", ".join(pairs) + "}"
    if isinstance(tree, list):
        return "[" + ", ".join(map(flow, tree)) + "]"
    return str(tree)


_WRITTEN = tuple("\"'&*!?[{~")


def block(tree: Tree, indent: str = "") -> str:
    """Over many lines."""
    if isinstance(tree, dict) and tree:
        return "".join(f"{indent}{key}:{_below(value, indent)}" for key, value in tree.items())
    if isinstance(tree, list) and tree:
        return "".join(f"{indent}-{_below(value, indent)}" for value in tree)
    return f"{indent}{flow(tree)}\n"


def _below(value: Tree, indent: str) -> str:
    if isinstance(value, (dict, list)) and value and len(indent) < 400:
        return "\n" + block(value, indent + "  ")
    return f" {flow(value)}\n"


def paths(tree: Tree, path: Path = ()) -> Iterator[Path]:
    """The path of every node, the root's first."""
    yield path
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from paths(value, (*path, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from paths(value, (*path, index))


def at(tree: Tree, path: Path) -> Tree:
    for step in path:
        tree = tree[step]
    return tree
