"""A simulated step as Chrome's trace events, for Perfetto (ui.perfetto.dev) and chrome://tracing: a
process per stage, a thread per stream, memory as a counter; then a process per kind of layer with
one forward pass in pieces.

The format is the JSON object of "Trace Event Format" (Google, 2016): times in microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from planner.base.display import one_line
from planner.results.durations import COMPUTE, STREAMS
from planner.results.result import Result
from planner.results.rl_step import simulate_plan
from planner.results.timeline import Span, Timeline

DIGITS = 3  # of microseconds: a nanosecond


def format_trace(result: Result) -> str:
    """Format the trace of a step of an evaluated plan.

    Raises:
        PlanError: no step can be simulated.
    """
    found = simulate_plan(result)
    closed = "rl.step_seconds" if found.names else "time.step_seconds"
    said = {
        "plan": one_line(result.plan.name),
        "schedule": found.schedule,
        "seconds": found.seconds,
        f"seconds, closed form ({closed})": found.closed,
    }
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in yield_events(found))
    head = json.dumps(said, ensure_ascii=False)
    return f'{{"displayTimeUnit":"ms","otherData":{head},"traceEvents":[\n{lines}\n]}}\n'


def yield_events(timeline: Timeline) -> Iterator[dict[str, Any]]:
    """Yield the trace events of a timeline, stage by stage; stages, chunks and micro-batches count
    from 1. Concurrent work of a stream, as sends both ways, is on separate threads."""
    critical = set(timeline.critical)
    ends: dict[tuple[int, str], list[float]] = {}  # of what stands on each thread, so far
    lines = []
    for span in timeline.spans:
        threads = ends.setdefault((span.stage, span.stream), [])
        free = (place for place, end in enumerate(threads) if end <= span.start)
        place = next(free, len(threads))
        threads[place:] = [span.end, *threads[place + 1 :]]
        lines.append(_make_span_event(span, _number_thread(span.stream, place), span in critical))
    for stage in range(timeline.stages):
        name = timeline.names[stage] if timeline.names else f"stage {stage + 1}"
        yield _make_name(stage, {}, "process", name)
        for stream in STREAMS:
            for place in range(len(ends.get((stage, stream), ()))):
                name = f"{stream} {place + 1}" if place else stream
                yield _make_name(stage, {"tid": _number_thread(stream, place)}, "thread", name)
    yield from lines
    for stage, steps in enumerate(timeline.memory):
        for seconds, held in steps:
            gib = {"GiB": round(held / 2**30, DIGITS)}
            yield {"ph": "C", "pid": stage, "name": "memory", "ts": _micro(seconds), "args": gib}
    for number, (name, pieces) in enumerate(timeline.layers, timeline.stages):
        yield _make_name(number, {}, "process", f"{name}: one forward pass")
        for works in sorted({piece.works for piece in pieces}, reverse=True):
            stream = COMPUTE if works else "exchanges"
            yield _make_name(number, {"tid": int(not works)}, "thread", stream)
        for block, works, work, start, end in pieces:
            yield _make_event(number, int(not works), work, block, start, end, {"block": block})


def _number_thread(stream: str, place: int) -> int:
    """Return the number of a thread: streams in order, then concurrent work of each."""
    return STREAMS.index(stream) + len(STREAMS) * place


def _make_name(pid: int, thread: dict[str, int], what: str, name: str) -> dict[str, Any]:
    """Make the event that names a process or a thread.

    Args:
        pid: the number of the process: a pipeline stage, or one layer's forward pass.
        thread: ``tid`` and its number; empty to name the process.
        what: process or thread.
        name: the name.
    """
    return {"ph": "M", "pid": pid, **thread, "name": f"{what}_name", "args": {"name": name}}


def _make_span_event(span: Span, thread: int, critical: bool) -> dict[str, Any]:
    """Make the event of a span.

    Args:
        span: the span; its micro-batch and chunk, counted from 1, become args.
        thread: the number of its stream.
        critical: whether it is on the critical path.
    """
    args: dict[str, Any] = {}
    if span.micro_batch is not None:
        args["micro-batch"] = span.micro_batch + 1
    if span.chunk is not None:
        args["chunk"] = span.chunk + 1
    if critical:
        args["critical path"] = True
    number = "" if span.micro_batch is None else f" {span.micro_batch + 1}"
    work = span.work
    return _make_event(span.stage, thread, f"{work}{number}", work, span.start, span.end, args)


def _make_event(
    pid: int, tid: int, name: str, kind: str, start: float, end: float, args: dict[str, Any]
) -> dict[str, Any]:
    """Make an event with a start and a length.

    Args:
        pid, tid: numbers of process and thread.
        name, kind: its label and its category.
        start, end: seconds from the start of the step.
        args: further values by name.

    Returns:
        The event as the Trace Event Format has it, times in microseconds.
    """
    begin = _micro(start)
    length = round(_micro(end) - begin, DIGITS)
    of = {"pid": pid, "tid": tid, "name": name, "cat": kind}
    return {"ph": "X", **of, "ts": begin, "dur": length, "args": args}


def _micro(seconds: float) -> float:
    """Convert seconds to microseconds."""
    return round(seconds * 10**6, DIGITS)
