"""The planner for assistants: the tools of the interface for programs over the Model Context
Protocol, on standard input and output (https://modelcontextprotocol.io)."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from planner.base.version import __version__
from planner.serve import bodies
from planner.serve.programs import Programs
from planner.serve.workers import REASONS, Workers

ABOUT = (
    "Plans the training of large language models: parameters, memory of a device, step time, cost, "
    "and inverse questions. A plan is YAML (model, cluster, training, parallelism) or the name of "
    "one that ships; `list` names presets. Numbers in answers have ids that `explain` derives."
)
#: Seconds that a tool may take, and how many may wait for the one process.
SECONDS, WAITING = 120, 16


def run_assistant(programs: Programs) -> None:
    """Serve an assistant until it disconnects."""
    asyncio.run(_serve_tools(programs))


async def _serve_tools(programs: Programs) -> None:
    """Serve tools on standard input and output until it is closed; one process computes."""
    with closing(Workers(1, SECONDS, WAITING)) as workers:

        async def list_tools(*_: Any) -> types.ListToolsResult:
            """Return all tools with the schemas of their arguments."""
            tools = [
                {"name": name, "description": tool.help, "inputSchema": tool.build_schema()}
                for name, tool in programs.tools.items()
            ]
            return types.ListToolsResult.model_validate({"tools": tools})

        async def call_tool(_: Any, asked: Any) -> types.CallToolResult:
            """Return what a command prints; a fault is text with a mark, so that the assistant can
            correct it."""
            good, text = await _call_tool(programs, workers, asked.name, asked.arguments or {})
            content = [{"type": "text", "text": text}]
            return types.CallToolResult.model_validate({"content": content, "isError": not good})

        server: Server[Any] = Server(
            "trainplan",
            version=__version__,
            instructions=ABOUT,
            on_list_tools=list_tools,
            on_call_tool=call_tool,
        )
        async with stdio_server() as (asked, answers):
            await server.run(asked, answers, server.create_initialization_options())


async def _call_tool(
    programs: Programs, workers: Workers, name: str, given: dict[str, Any]
) -> tuple[bool, str]:
    """Call a tool; return whether it succeeded, and its text."""
    if name not in programs.tools:
        return False, f"no tool '{name}'; there are {', '.join(programs.tools)}"
    try:
        raw = json.dumps(given).encode()
        status, body = await workers.run(bodies.compute_answer, programs.call_tool, name, raw)
    except RecursionError:
        return False, "nested too deeply"
    except tuple(REASONS) as error:
        return False, REASONS[type(error)][1]
    return status == 200, body.decode()
