"""The description of the interface for programs: OpenAPI 3.1, from the table of commands and our
JSON Schemas."""

from __future__ import annotations

from typing import Any

from planner.base import version
from planner.documents import schema_files
from planner.serve.programs import DOCUMENTS, TOOLS, Programs, Tool

#: What an answer says that is none, by status.
_FAULTS = {
    400: "The body is no JSON object.",
    403: "A page of another address asks.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    422: "Faults of the document or of a key, each with its place.",
    500: "A fault of the program.",
    503: "The server is busy; ask again in a moment.",
    504: "It takes longer than a request may.",
}


def description(programs: Programs) -> dict[str, Any]:
    """The interface as plain data."""
    plan = {"anyOf": [_ref("plan"), {"type": "string"}]}
    schemas = {
        **_components("plan"),
        **_components("result"),
        "faults": {
            "type": "object",
            "required": ["faults"],
            "properties": {
                "faults": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "required": ["place", "message"],
                        "properties": {
                            "place": {"type": "string", "examples": ["plan.yaml:3:5"]},
                            "message": {"type": "string"},
                            "line": {"type": ["integer", "null"]},
                            "column": {"type": ["integer", "null"]},
                        },
                    },
                }
            },
        },
    }
    paths = {}
    for name in TOOLS:
        tool = programs.tools[name]
        asked = tool.schema()
        for key in asked["properties"].keys() & set(DOCUMENTS):
            told = asked["properties"][key]["description"]
            asked["properties"][key] = {"description": told, **plan}
        paths[f"/v1/{name}"] = {"post": _operation(name, tool, asked)}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "trainplan",
            "version": version.__version__,
            "description": "Plans a training run of a large language model. An address answers as "
            "the command of the command line does, to the digit.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _components(kind: str) -> dict[str, Any]:
    """The schema of a kind of document, each of its definitions by a name of its own."""

    def called(name: str) -> str:
        return f"{kind}.{name}".replace("/", "-per-")

    def moved(node: Any) -> Any:
        if isinstance(node, list):
            return [moved(item) for item in node]
        if not isinstance(node, dict):
            return node
        found = {key: moved(inner) for key, inner in node.items()}
        if isinstance(node.get("$ref"), str):
            found |= _ref(called(node["$ref"].removeprefix("#/definitions/").replace("~1", "/")))
        return found

    whole = schema_files.bundled(kind)
    parts = {called(name): moved(part) for name, part in whole["definitions"].items()}
    rest = {key: moved(part) for key, part in whole.items() if key not in schema_files.OF_A_FILE}
    return {kind: rest, **parts}


def _operation(name: str, tool: Tool, asked: dict[str, Any]) -> dict[str, Any]:
    answer = _ref("result") if name == "evaluate" else {"type": "object"}
    what = f"What `trainplan {tool.command} --format json` prints; also where the answer is no."
    refused = {
        str(status): {"description": text, **_json(_ref("faults"))}
        for status, text in _FAULTS.items()
    }
    return {
        "operationId": name,
        "summary": f"{tool.help[:1].upper()}{tool.help[1:]}.",
        "requestBody": {"required": True, **_json(asked)},
        "responses": {"200": {"description": what, **_json(answer)}, **refused},
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}
