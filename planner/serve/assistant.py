"""The planner for assistants: the tools of the interface for programs over the Model Context
Protocol, on standard input and output (https://modelcontextprotocol.io)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from mcp import MCPError, types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from planner.base import files
from planner.base.version import __version__
from planner.serve import bodies
from planner.serve.programs import WORDS, Programs
from planner.serve.workers import REASONS, Workers

ABOUT = (
    "Plans the training of large language models: parameters, memory of a device, step time, cost, "
    "and inverse questions. A plan is YAML (model, cluster, training, parallelism) or the name of "
    "one that ships; `list` names presets. Numbers in answers have ids that `explain` derives."
)
#: Seconds that a tool may take, and how many may wait for the one process.
SECONDS, WAITING = 120, 16
#: No tool changes anything outside its own empty folder, or asks a network.
HARMLESS = {"readOnlyHint": True, "openWorldHint": False}
#: The schema of what `evaluate` returns beside its text; `fields` leaves keys out.
BRIEFLY = WORDS["brief"]


def run_assistant(programs: Programs) -> None:
    """Serve an assistant until it disconnects."""
    asyncio.run(_serve_tools(programs))


async def _serve_tools(programs: Programs) -> None:
    """Serve tools on standard input and output until it is closed; one process computes."""
    with closing(Workers(1, SECONDS, WAITING)) as workers:

        async def list_tools(*_: Any) -> types.ListToolsResult:
            """Return all tools with the schemas of their arguments."""
            return types.ListToolsResult.model_validate({"tools": _list_tools(programs)})

        async def call_tool(_: Any, asked: Any) -> types.CallToolResult:
            """Return what a command prints; a fault is text with a mark, so that the assistant can
            correct it."""
            good, told = await _ask_worker(
                workers, programs.tell_assistant, asked.name, asked.arguments or {}
            )
            answer = {
                "content": [{"type": "text", "text": told["text"]}],
                "structuredContent": told.get("data"),
                "isError": not good,
            }
            return types.CallToolResult.model_validate(answer)

        async def list_resources(*_: Any) -> types.ListResourcesResult:
            """Return the addresses of schemas, lists and reports."""
            return types.ListResourcesResult.model_validate({"resources": programs.list_texts()})

        async def read_resource(_: Any, asked: Any) -> types.ReadResourceResult:
            """Return a schema, a list or a report, whole."""
            address = str(asked.uri)
            good, told = await _ask_worker(workers, programs.read_text, address, {})
            if not good:
                raise MCPError(types.INVALID_PARAMS, told["text"])
            return types.ReadResourceResult.model_validate({"contents": [{"uri": address, **told}]})

        server: Server[Any] = Server(
            "trainplan",
            version=__version__,
            instructions=ABOUT,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
            on_list_resources=list_resources,
            on_read_resource=read_resource,
        )
        async with stdio_server() as (asked, answers):
            await server.run(asked, answers, server.create_initialization_options())


def _list_tools(programs: Programs) -> list[dict[str, Any]]:
    """List the tools, each with its purpose and the schema of its arguments."""
    return [
        {
            "name": name,
            "description": tool.help,
            "inputSchema": tool.build_schema(),
            "annotations": HARMLESS,
            **({"outputSchema": BRIEFLY} if name == "evaluate" else {}),
        }
        for name, tool in programs.tools.items()
    ]


async def _ask_worker(
    workers: Workers, function: bodies.Function, name: str, given: Mapping[str, Any]
) -> tuple[bool, dict[str, Any]]:
    """Call a function in the one process that computes; return whether it succeeded, and what it
    says, with at least a ``text``."""
    try:
        raw = json.dumps(given).encode()
        status, body = await workers.run(bodies.compute_answer, function, name, raw, False)
    except RecursionError:
        return False, {"text": "nested too deeply"}
    except tuple(REASONS) as error:
        return False, {"text": REASONS[type(error)][1]}
    return status == 200, files.parse_json(body) if status == 200 else {"text": body.decode()}
