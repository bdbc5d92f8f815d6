"""An assistant asks the planner through the protocol's own client."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("pebble")
import jsonschema
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from planner.cli import main
from tests.conftest import ROOT

PLAN = "gpt2small_hgx-h100"
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("evaluate", {"plan": PLAN, "set": {"training.micro_batch": 16}}),
    ("explain", {"plan": PLAN, "quantity": "mfu"}),
    ("evaluate", {"plan": PLAN, "set": {"training.micro_bach": 16}}),
    ("evaluate", {"plan": "/etc/passwd"}),
    ("evaluate", {"plan": "extends: ../../../etc/passwd\n"}),
    ("forecast", {}),
)


async def asked() -> tuple[list[Any], list[tuple[bool, str]]]:
    how = StdioServerParameters(command=sys.executable, args=["plan.py", "mcp"], cwd=str(ROOT))
    async with stdio_client(how) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = json.loads((await session.list_tools()).model_dump_json(by_alias=True))["tools"]
        found = []
        for name, given in ASKED:
            answer = await session.call_tool(name, given)
            said = json.loads(answer.model_dump_json(by_alias=True))
            found.append((bool(said["isError"]), said["content"][0]["text"]))
        return tools, found


@pytest.mark.slow
def test_an_assistant_gets_what_the_command_line_prints() -> None:
    tools, found = asyncio.run(asyncio.wait_for(asked(), 120))
    names = {tool["name"] for tool in tools}
    assert {"evaluate", "solve", "search", "explain", "diff", "list", "quick"} <= names
    for tool in tools:
        jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
        assert tool["description"]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        main.main(["report", PLAN, "--set=training.micro_batch=16", "--format=json"])
    wrong, text = found[0]
    assert not wrong and json.loads(text) == json.loads(out.getvalue())
    assert not found[1][0] and "time.mfu" in found[1][1]
    wrong, text = found[2]
    assert wrong and "micro_batch" in text
    for wrong, text in found[3:]:
        assert wrong and "root:" not in text and "Traceback" not in text
