"""Faults for programs: as annotations of GitHub, as SARIF for code scanning, as JSON.

A row is the rule that does not hold, and the fault.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from planner.base import files
from planner.base.display import as_json
from planner.base.errors import Fault, Place

#: The rule of a fault of a document, and what each rule is called.
DOCUMENT = "document"
RULES = {DOCUMENT: "a document is not valid"}
Row = tuple[str, Fault]
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def list_fault_rows(faults: Iterable[Fault]) -> list[Row]:
    """Return the faults of documents as rows, all of the one rule that a document is valid."""
    return [(DOCUMENT, fault) for fault in faults]


def _find_place(fault: Fault) -> Place | None:
    """Return the place of a fault in a file; None for others, such as of a command-line option."""
    place = fault.place
    if place is None or (place.line is None and not files.is_file(place.file)):
        return None
    return place


def _escape_name(name: str) -> str:
    """Return the name of a file as text; bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


def format_github(rows: Sequence[Row], rules: Mapping[str, str]) -> str:
    """Write the faults as GitHub workflow commands, which GitHub shows at their lines. Text of a
    document or a file's name is escaped, so that it cannot end a command or a property."""
    lines = []
    for rule, fault in rows:
        place = _find_place(fault)
        title = f"trainplan: {rules[rule]}"
        said: dict[str, Any] = {"title": title}
        if place:
            known = {"file": _escape_name(place.file), "line": place.line, "col": place.column}
            said = {k: v for k, v in known.items() if v is not None} | said
        named = ",".join(
            f"{key}={_escape_command(str(value), ':,')}" for key, value in said.items()
        )
        lines.append(f"::error {named}::{_escape_command(fault.words if place else str(fault))}\n")
    return "".join(lines)


def _escape_command(text: str, more: str = "") -> str:
    """Escape the message of a workflow command, or with ``more`` characters a property of it."""
    return "".join(f"%{ord(sign):02X}" if sign in f"%\r\n{more}" else sign for sign in text)


def format_sarif(rows: Sequence[Row], rules: Mapping[str, str]) -> str:
    """Write the faults as SARIF 2.1.0 (OASIS 2020), with every rule, violated or not."""
    from planner.base.version import __version__

    ids = list(rules)
    driver = {
        "name": "trainplan",
        "semanticVersion": __version__,
        "rules": [{"id": rule, "shortDescription": {"text": rules[rule]}} for rule in ids],
    }
    results = [_build_sarif(rule, ids.index(rule), fault) for rule, fault in rows]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return as_json({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]})


def _build_sarif(rule: str, index: int, fault: Fault) -> dict[str, Any]:
    """Return one result of SARIF.

    Args:
        rule: id of the rule that does not hold.
        index: of the rule in the list of rules.
        fault: without a file its place becomes part of the text.
    """
    place = _find_place(fault)
    text = fault.words if place else str(fault)
    result: dict[str, Any] = {
        "ruleId": rule,
        "ruleIndex": index,
        "level": "error",
        "message": {"text": text},
    }
    if place is not None:
        where: dict[str, Any] = {"artifactLocation": {"uri": _format_uri(place.file)}}
        if place.line is not None:
            column = {} if place.column is None else {"startColumn": place.column}
            where["region"] = {"startLine": place.line, **column}
        result["locations"] = [{"physicalLocation": where}]
    return result


def _format_uri(file: str) -> str:
    """Format a path as a URI reference; a relative path stays relative, so that a viewer finds the
    file in its own checkout."""
    from urllib.parse import quote

    path = Path(file)
    if path.is_absolute():
        return path.as_uri()
    return quote(os.fsencode(path.as_posix()))


def encode_fault(fault: Fault, rule: str = DOCUMENT) -> dict[str, Any]:
    """Convert a fault to JSON data; unknown parts of its place are null."""
    place = fault.place or Place("")
    return {
        "place": _escape_name(str(place)) or None,
        "file": _escape_name(place.file) or None,
        "line": place.line,
        "column": place.column,
        "message": fault.words,
        "rule": rule,
    }


WRITERS: Mapping[str, Callable[[Sequence[Row], Mapping[str, str]], str]] = {
    "github": format_github,
    "sarif": format_sarif,
    "json": lambda rows, _: as_json(
        {"faults": [encode_fault(fault, rule) for rule, fault in rows]}
    ),
}
