"""Schemas for programs of others: one file that refers to no other, and the line by which an editor
finds the schema of a document."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from planner.base import resources, version
from planner.documents.references import FOLDERS

KINDS = (*FOLDERS, "result", "defaults")
DRAFT = "http://json-schema.org/draft-07/schema#"


def get_schema_url(kind: str) -> str:
    """Return where a schema is published, of which version it is. The files themselves have no
    `$id`, so that validators look for what they refer to beside them, wherever they lie."""
    return f"{version.HOME}/schemas/{version.__version__}/{kind}.schema.json"


def build_bundle(kind: str) -> dict[str, Any]:
    """Return the schema of a kind of document as one file: what it refers to in other files is
    added to its definitions."""
    definitions: dict[str, Any] = {}

    def rewrite(node: Any, file: str) -> Any:
        """Return a part of a file with its references changed to those of the bundle."""
        if isinstance(node, list):
            return [rewrite(item, file) for item in node]
        if not isinstance(node, dict):
            return node
        found = {key: rewrite(inner, file) for key, inner in node.items()}
        if isinstance(node.get("$ref"), str):
            other, _, pointer = node["$ref"].partition("#")
            target = other.removesuffix(".schema.json") or file
            name = pointer.removeprefix("/definitions/")
            found["$ref"] = f"#/definitions/{take(target, name)}"
        return found

    def take(file: str, name: str) -> str:
        """Add a definition of a file (all of it, if it has no name) to the bundle; return its key
        there."""
        said = name.replace("/properties/", "-")
        here = "-".join(filter(None, (file if file != kind or not name else "", said)))
        if here not in definitions:
            definitions[here] = {}  # one may hold itself
            whole = resources.read_json(find_schema(file))
            kept = {key: inner for key, inner in whole.items() if key not in OF_A_FILE}
            inner = whole["definitions"] if name else kept
            for step in filter(None, name.split("/")):
                inner = inner[step.replace("~1", "/")]
            key = here.replace("~1", "/")
            definitions.pop(here)
            definitions[key] = {}
            definitions[key] = rewrite(inner, file)
        return here

    root = resources.read_json(find_schema(kind))
    found = {key: rewrite(inner, kind) for key, inner in root.items() if key != "definitions"}
    found = {"$schema": DRAFT, "$id": get_schema_url(kind), **found}
    return {**found, "definitions": definitions} if definitions else found


OF_A_FILE = ("$schema", "$id", "definitions")


def find_schema(kind: str) -> Path:
    return resources.folder("schemas") / f"{kind}.schema.json"


def format_schema(schema: dict[str, Any]) -> str:
    """Format a schema as in its file."""
    return json.dumps(schema, indent=2, ensure_ascii=True) + "\n"


def make_schema_line(kind: str, document: str | Path | None = None) -> str:
    """Return the first line of a document, by which an editor finds its schema: the file in the
    same checkout, else the public address.

    Args:
        document: where the document is written; None where nobody knows.
    """
    where = get_schema_url(kind)
    if document is not None:
        shipped, folder = find_schema(kind).resolve(), Path(document).resolve().parent
        checkout = shipped.parent.parent
        if folder == checkout or checkout in folder.parents:
            where = Path(os.path.relpath(shipped, folder)).as_posix()
        beside = folder / shipped.name
        if beside.is_file():
            where = beside.name
    return f"# yaml-language-server: $schema={where}"


def update_line(document: str, path: str | None) -> str:
    """Update the first line of a document, if it names a schema, to the path from where it is
    written."""
    kind = re.match(r"# yaml-language-server: \$schema=\S*?(\w+)\.schema\.json\n", document)
    if kind is None or path in (None, "-"):
        return document
    return f"{make_schema_line(kind[1], path)}\n{document[kind.end() :]}"
