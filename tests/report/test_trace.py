"""The trace of a step, in the form that its viewers document (Google, Trace Event Format)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.cli.main import main

PLAN = "presets/llama70b_h100x1024.yaml"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path: Path = tmp_path_factory.mktemp("trace") / "step.trace.json"
    assert main([PLAN, "-o", str(path)]) == 0
    return json.loads(path.read_text("utf-8"))


def test_fields(trace: Any) -> None:
    """Phases X (complete, with ts and dur), M (names) and C (counters), each with its process."""
    assert {event["ph"] for event in trace["traceEvents"]} == {"X", "M", "C"}
    for event in trace["traceEvents"]:
        assert isinstance(event["pid"], int) and event["name"]
        if event["ph"] == "X":
            assert isinstance(event["tid"], int) and event["ts"] >= 0 and event["dur"] >= 0


def test_threads_do_one_thing_at_a_time(trace: Any) -> None:
    """Viewers draw slices of one thread inside each other, or misplace them."""
    threads: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            times = event["ts"], event["ts"] + event["dur"]
            threads.setdefault((event["pid"], event["tid"]), []).append(times)
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert threads.keys() == named
    for times in threads.values():
        assert all(one[1] <= other[0] + 0.002 for one, other in pairwise(sorted(times)))


def test_it_is_the_step(trace: Any) -> None:
    """Microseconds of the step; each micro-batch passes each chunk of each stage once each way."""
    plan = planner.load(PLAN)
    result, timeline = plan.evaluate(), plan.simulate()
    slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in slices) == pytest.approx(10**6 * timeline.seconds)
    passes = result["layout.micro_batches"].number
    for key in ("pipeline", "virtual_pipeline"):
        passes *= plan.plan.get(f"parallelism.{key}")
    for work in ("forward", "backward"):
        assert sum(event["cat"] == work for event in slices) == passes


def test_no_trace_without_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [PLAN, "--set", "training.mode=inference", "--set", "training.output_tokens=8"]
    assert main([*words, "--format", "trace"]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1 and "inference has no training step" in said.err
