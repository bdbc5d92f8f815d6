"""An assistant asks the planner through the protocol's own client."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import io
import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from planner.base.errors import PlanError
from planner.cli import main
from planner.cli.commands import COMMANDS
from planner.serve.programs import MOST_SAID, build_programs
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("mcp", "starlette"))), reason="extra: test"
)
PLAN = "gpt2small_hgx-h100"
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("evaluate", {"plan": PLAN, "set": {"training.micro_batch": 16}}),
    ("explain", {"plan": PLAN, "quantity": "mfu"}),
    ("evaluate", {"plan": PLAN, "set": {"training.micro_bach": 16}}),
    ("evaluate", {"plan": "/etc/passwd"}),
    ("evaluate", {"plan": "extends: ../../../etc/passwd\n"}),
    ("forecast", {}),
)


async def asked(
    questions: Sequence[tuple[str, dict[str, Any]]] = ASKED,
) -> tuple[list[Any], list[tuple[bool, str]]]:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    how = StdioServerParameters(command=sys.executable, args=["plan.py", "mcp"], cwd=str(ROOT))
    async with stdio_client(how) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = json.loads((await session.list_tools()).model_dump_json(by_alias=True))["tools"]
        found = []
        for name, given in questions:
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
        main.main(["report", PLAN, "--set=training.micro_batch=16"])
    wrong, text = found[0]
    assert not wrong and text == out.getvalue()
    assert not found[1][0] and "time.mfu" in found[1][1]
    wrong, text = found[2]
    assert wrong and "micro_batch" in text
    for wrong, text in found[3:]:
        assert wrong and "root:" not in text and "Traceback" not in text


#: What is no message of the protocol, a line each.
MALFORMED = (
    b"{{{{", b"\xff\xfe", b"\0\0", b"[]", b"null", b"[" * 200_000 + b"]" * 200_000,
    b'[{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}]',
    *(b'{"jsonrpc": "2.0", "id": %s, "method": "ping"}' % name
      for name in (b"null", b"[1]", b"{}", b"1e400", b"9" * 5000, b"true")),
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
    b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
    b'{"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": "file:///"}}',
    b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call"}',
)  # fmt: skip


@pytest.mark.slow
def test_a_malformed_message_ends_nothing() -> None:
    """What follows it is answered, and the server ends with its input."""
    ping = b'{"jsonrpc": "2.0", "id": "last", "method": "ping"}'
    with subprocess.Popen([sys.executable, "plan.py", "mcp"], cwd=ROOT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:  # fmt: skip
        late = threading.Timer(60, process.kill)
        late.start()
        assert process.stdin and process.stdout and process.stderr
        process.stdin.write(b"\n".join((*MALFORMED, ping, b"")))
        process.stdin.flush()
        answers = map(json.loads, process.stdout)
        assert {"jsonrpc": "2.0", "id": "last", "result": {}} in answers
        process.stdin.close()
        said = process.stderr.read()
        assert process.wait() == 0
        late.cancel()
    assert b"Traceback" not in said and len(said.splitlines()) <= len(MALFORMED)


@pytest.mark.slow
def test_answers_are_short_and_texts_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner.serve.assistant import BRIEFLY

    monkeypatch.chdir(tmp_path)
    programs = build_programs(COMMANDS, main.run_words)
    told = programs.tell_assistant("evaluate", {"plan": PLAN})
    jsonschema.validate(told["data"], BRIEFLY)
    assert {"time.step_seconds", "memory.process"} <= told["data"]["quantities"].keys()
    one = programs.tell_assistant("evaluate", {"plan": PLAN, "quantities": ["time.optimizer"]})
    assert [*one["data"]["quantities"]] == ["time.optimizer"]
    for name, given in (("list", {"what": "quantities"}), ("search", {"plan": PLAN, "top": 100})):
        assert len(programs.tell_assistant(name, given)["text"]) < MOST_SAID + 100
    script = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 "
    script += "--num-attention-heads 2 --seq-length 64 --max-position-embeddings 64 --bf16 "
    script += "--micro-batch-size 1 --global-batch-size 8 --vocab-size 512 --no-such-option 3"
    asked = {"config": script, "from": "megatron", "plan": True}
    text = programs.tell_assistant("import", asked)["text"]
    assert "devices: 8" in text and "no-such-option" in text
    for row in programs.list_texts():
        if row["uri"].endswith(("plan", "models", PLAN, "glossary")):
            whole = programs.read_text(row["uri"], {})
            assert len(whole["text"]) > MOST_SAID and whole["mimeType"] == row["mimeType"]
    with pytest.raises(PlanError, match="no text"):
        programs.read_text("trainplan://report/../../etc/passwd", {})
