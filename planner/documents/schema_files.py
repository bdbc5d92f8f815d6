"""Schemas for programs of others: what units.schema.json and names.schema.json hold, one file that
refers to no other, and the line by which an editor finds the schema of a document.

`python -m planner.documents.schema_files` writes the two files anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from planner.base import files, resources, units, version
from planner.documents.references import FOLDERS, preset_names

#: The kinds of documents and results that have a schema.
KINDS = (*FOLDERS, "result", "defaults")
#: The units of quantities in documents.
UNITS = (
    "1", "tokens", "parameters", "sequences", "bytes", "bytes/s", "FLOP/s", "Hz", "s", "days", "W",
    "USD/h", "kgCO2e/kWh",
)  # fmt: skip
_LARGEST = 1_000_000  # bytes of a schema
_DRAFT = "http://json-schema.org/draft-07/schema#"


def address(kind: str) -> str:
    """The `$id` of a schema, which says of which version it is."""
    return f"{version.HOME}/schemas/{version.__version__}/{kind}.schema.json"


def made() -> dict[str, dict[str, Any]]:
    """The schemas that follow from the table of units and from what ships, by kind."""
    quantities = {
        unit: {
            "description": f"{units.wanted(unit)[:1].upper()}{units.wanted(unit)[1:]}.",
            "type": ["string", "null"],
            "maxLength": units.LONGEST,
            "pattern": units.pattern(unit),
        }
        for unit in UNITS
    }
    names: dict[str, Any] = {
        kind: {
            "description": f"A {kind} that ships, by its name, or any by its path.",
            "anyOf": [{"enum": preset_names(kind)}, {"type": "string", "minLength": 1}],
        }
        for kind in FOLDERS
    }
    names["file"] = {"type": "string", "pattern": r"\.ya?ml$"}
    taken = "Takes away what the extended document gives."
    names["nothing"] = {"description": taken, "type": "null"}
    titles = {
        "units": ("Quantities", "Quantities as text, by unit.", quantities),
        "names": ("Names", "Names and paths of documents, by kind.", names),
    }
    return {
        kind: {
            "$schema": _DRAFT,
            "$id": address(kind),
            "title": title,
            "description": text,
            "definitions": definitions,
        }
        for kind, (title, text, definitions) in titles.items()
    }


def bundled(kind: str) -> dict[str, Any]:
    """The schema of a kind of document in one piece: what it refers to in other files is among its
    definitions."""
    definitions: dict[str, Any] = {}

    def moved(node: Any, file: str) -> Any:
        """A part of a file, whose references are those of the piece."""
        if isinstance(node, list):
            return [moved(item, file) for item in node]
        if not isinstance(node, dict):
            return node
        found = {key: moved(inner, file) for key, inner in node.items()}
        if isinstance(node.get("$ref"), str):
            other, _, pointer = node["$ref"].partition("#")
            target = other.removesuffix(".schema.json") or file
            name = pointer.removeprefix("/definitions/")
            found["$ref"] = f"#/definitions/{take(target, name)}"
        return found

    def take(file: str, name: str) -> str:
        """Puts a definition of a file (all of it, where it has no name) among those of the piece,
        and says under which name."""
        said = name.replace("/properties/", "-")
        here = "-".join(filter(None, (file if file != kind or not name else "", said)))
        if here not in definitions:
            definitions[here] = {}  # one may hold itself
            whole = _read(file)
            kept = {key: inner for key, inner in whole.items() if key not in OF_A_FILE}
            inner = whole["definitions"] if name else kept
            for step in filter(None, name.split("/")):
                inner = inner[step.replace("~1", "/")]
            key = here.replace("~1", "/")
            definitions.pop(here)
            definitions[key] = {}
            definitions[key] = moved(inner, file)
        return here

    root = _read(kind)
    found = {key: moved(inner, kind) for key, inner in root.items() if key != "definitions"}
    return {**found, "definitions": definitions} if definitions else found


OF_A_FILE = ("$schema", "$id", "definitions")


def _read(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = resources.read_json(_file(kind))
    return found


def _file(kind: str) -> Path:
    return resources.folder("schemas") / f"{kind}.schema.json"


def text(schema: dict[str, Any]) -> str:
    """A schema as its file has it."""
    return json.dumps(schema, indent=2, ensure_ascii=True) + "\n"


def line(kind: str, document: str | Path | None = None) -> str:
    """The first line of a document, by which an editor finds its schema: the program's own file
    where both lie in one checkout, else the public address.

    Args:
        document: where the document is written; None where nobody knows.
    """
    where = address(kind)
    if document is not None:
        shipped, folder = _file(kind).resolve(), Path(document).resolve().parent
        checkout = shipped.parent.parent
        if folder == checkout or checkout in folder.parents:
            where = Path(os.path.relpath(shipped, folder)).as_posix()
        beside = folder / shipped.name
        if beside.is_file():
            where = beside.name
    return f"# yaml-language-server: $schema={where}"


def placed(document: str, path: str | None) -> str:
    """The text of a document whose first line names a schema, by the way from where it is
    written."""
    kind = re.match(r"# yaml-language-server: \$schema=\S*?(\w+)\.schema\.json\n", document)
    if kind is None or path in (None, "-"):
        return document
    return f"{line(kind[1], path)}\n{document[kind.end() :]}"


def main() -> None:
    """Writes units.schema.json and names.schema.json, and the version into the others."""
    for kind, schema in made().items():
        files.write_text(_file(kind), text(schema))
    for kind in KINDS:
        read = re.sub(r'\n  "\$id": "[^"]*",', "", files.read_text(_file(kind), _LARGEST))
        first = f'"$schema": "{_DRAFT}",'
        named = read.replace(first, f'{first}\n  "$id": "{address(kind)}",', 1)
        files.write_text(_file(kind), named)


if __name__ == "__main__":
    main()
