"""The description of the interface for programs: OpenAPI 3.1, from the table of commands and our
JSON Schemas."""

from __future__ import annotations

import json
from typing import Any

from planner.base import files, version
from planner.documents import schema_files
from planner.serve.programs import DOCUMENTS, TOOLS, WORDS, Programs, Tool


def describe_api(programs: Programs) -> dict[str, Any]:
    """Describe the interface as plain data."""
    plan = {"anyOf": [_ref("plan"), {"type": "string"}]}
    schemas = {**_build_components("plan"), **_build_components("result"), **WORDS["schemas"]}
    paths = {}
    for name in TOOLS:
        tool = programs.tools[name]
        asked = tool.build_schema()
        for key in asked["properties"].keys() & set(DOCUMENTS):
            told = asked["properties"][key]["description"]
            asked["properties"][key] = {"description": told, **plan}
        paths[f"/v1/{name}"] = {"post": _build_operation(name, tool, asked, WORDS["statuses"])}
    return {
        "openapi": "3.1.0",
        "info": {**WORDS["info"], "version": version.__version__},
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _build_components(kind: str) -> dict[str, Any]:
    """Return the schema of a kind of document, each of its definitions under a unique name."""

    def build_name(name: str) -> str:
        """Return the name of a definition among those of all schemas."""
        return f"{kind}-{name}".replace("/", "-per-")

    def move(node: dict[str, Any]) -> dict[str, Any]:
        """Return a mapping whose reference leads to a component of the description."""
        parts, reference = node.get("properties"), node.get("$ref")
        if isinstance(parts, dict):  # generators read no schema that is `true`
            node["properties"] = {key: {} if part is True else part for key, part in parts.items()}
        if isinstance(reference, str):
            name = reference.removeprefix("#/definitions/").replace("~1", "/")
            node |= _ref(build_name(name))
        return node

    whole = files.parse_json(json.dumps(schema_files.build_bundle(kind)), object_hook=move)
    parts = {build_name(name): part for name, part in whole["definitions"].items()}
    rest = {key: part for key, part in whole.items() if key not in schema_files.OF_A_FILE}
    return {kind: rest, **parts}


def _build_operation(
    name: str, tool: Tool, asked: dict[str, Any], statuses: dict[str, str]
) -> dict[str, Any]:
    """Return the operation of one tool.

    Args:
        name: of the operation.
        tool: the command behind it.
        asked: schema of the body.
        statuses: refusals by status, in words.
    """
    result = {"anyOf": [_ref("result"), _ref("fields")]}
    answer = result if name == "evaluate" else {"type": "object"}
    what = f"What `trainplan {tool.command} --format json` prints; also where the answer is no."
    refused = {
        status: {"description": text, **_json(_ref("faults"))} for status, text in statuses.items()
    }
    return {
        "operationId": name,
        "summary": f"{tool.help[:1].upper()}{tool.help[1:]}.",
        "requestBody": {"required": True, **_json(asked)},
        "responses": {"200": {"description": what, **_json(answer)}, **refused},
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a body in JSON with a schema."""
    return {"content": {"application/json": {"schema": schema}}}


def _ref(name: str) -> dict[str, str]:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}
