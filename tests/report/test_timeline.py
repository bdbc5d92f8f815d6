"""A step over time as it is drawn: to scale, legible, light, and with words that add up."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.plans.schedules import schedule
from planner.report import as_text, lanes
from planner.report.timeline import StepView as Drawn
from planner.report.timeline import build_step_view
from planner.results.durations import Chunk, StepData
from planner.results.result import Result
from planner.results.timeline import Span, Timeline, _predict_time, run_step, simulate_step
from tests.conftest import read_data

ROOM = (lanes.WIDTH - lanes.LEFT) * lanes.UNITS
#: A dense plan with interleaving, one with recomputation, experts, and a single stage.
PLANS = ("llama70b_h100x1024", "gpt3_a100x1024", "mixtral8x7b_h100x1024", "gpt2small_hgx-h100")


def pipeline(
    name: str = "1f1b", stages: int = 4, batches: int = 8, virtual: int = 1, **given: object
) -> Timeline:
    """A pipeline of forward passes of 1 s and backward passes of 2 s."""
    order = schedule(name, stages, virtual, batches)
    held = {chunk for way in order.ways for _, chunk in way}
    each = Chunk(1 / virtual, 2 / virtual, 1 / virtual, 0.0, ({}, {}), 1 / virtual, 0.0, 1.0)
    made = StepData(
        order, batches, [dict.fromkeys(held, each) for _ in range(stages)], capacity=99.0
    )
    return run_step(replace(made, **given))  # type: ignore[arg-type]


@pytest.fixture(scope="module", params=PLANS)
def result(request: pytest.FixtureRequest) -> Result:
    return planner.load(f"presets/{request.param}.yaml").evaluate()


def strokes(paths: list[tuple[str, str, str]]) -> dict[tuple[str, int], list[tuple[float, float]]]:
    """What a browser strokes, by look and height: dashes of lines, and pieces of paths."""
    found: dict[tuple[str, int], list[tuple[float, float]]] = defaultdict(list)
    for look, dashes, path in paths:
        for piece in re.findall(r"M[^M]+", path):
            start, y, rest = re.fullmatch(r"M(\d+) (\d+)(.*)", piece).groups()  # type: ignore[union-attr]
            at = float(start)
            for gap, length in re.findall(r"(?:m(\d+) 0)?h(\d+)", rest):
                at += float(gap or 0)
                end = at + float(length)
                if dashes:
                    dash, space = map(float, dashes.split())
                    while at < end:
                        found[look, int(y)].append((at, min(at + dash, end)))
                        at += dash + space
                else:
                    found[look, int(y)].append((at, end))
                at = end
    return {key: sorted(runs) for key, runs in found.items()}


def drawn_and_meant(made: Drawn) -> list[tuple[list[tuple[float, float]], lanes.Runs]]:
    """For each look of each lane what is stroked, and the strokes that were meant."""
    pairs, named = [], {lane.name: lane for lane in made._lanes}
    for figure in made.figures:
        found = strokes(figure.strokes)
        for name in figure.names:
            for look, runs in named[name.text].runs.items():
                shift = (lanes.BAR - lanes.STRIP) // 2 if look == "beside" else 0
                pairs.append((found.get((look, name.y - 4 + shift), []), runs))
    return pairs


# -- geometry ------------------------------------------------------------------------------------


def test_a_pipeline_is_drawn_to_scale() -> None:
    """Narayanan et al. 2021, section 2.2.1: of (m + p - 1)(F + B) each stage idles (p - 1)(F + B).
    Stage i starts after i forward passes, and ends i backward passes before the end."""
    figure = Drawn(pipeline(stages=4, batches=8)).figures[0]
    second = ROOM / 33
    found = strokes(figure.strokes)
    for stage, name in enumerate(figure.names):
        work = found["forward", name.y - 4]
        assert name.text == f"stage {stage + 1}"
        assert work[0][0] == pytest.approx(stage * second, abs=1)
        assert work[-1][1] == pytest.approx((33 - 2 * stage) * second, abs=2 + lanes.SLIT)
        gaps = (lanes.SLIT + 1) * 16  # by which wide passes stand apart
        assert sum(b - a for a, b in work) == pytest.approx(24 * second - gaps, abs=16)
    assert figure.idle.count(f"H{lanes.WIDTH}") == 4  # all of a lane where no work covers it
    assert [text.text for text in figure.texts[:2]] == ["1", "8"]


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    name=st.sampled_from(["1f1b", "gpipe", "zero-bubble", "interleaved", "dualpipe"]),
    half=st.integers(1, 9),
    rounds=st.integers(1, 8),
)
def test_any_schedule_is_drawn_in_its_lanes(name: str, half: int, rounds: int) -> None:
    stages, virtual = 2 * half, 3 if name == "interleaved" else 1
    timeline = pipeline(name, stages, stages * rounds, virtual)
    made = Drawn(timeline)
    names = [name.text for figure in made.figures for name in figure.names]
    assert sorted(names) == sorted(f"stage {i + 1}" for i in range(stages))
    assert len(made.figures[0].names) <= 16
    for there, meant in drawn_and_meant(made):
        assert all(0 <= a < b <= ROOM for a, b in there)
        assert all(a[1] < b[0] for a, b in pairwise(meant)), "strokes overlap"
        # Dashes stand where the strokes were, to a unit of a path.
        assert len(there) == len(meant)
        for (start, stop), (begin, end) in zip(there, meant, strict=True):
            assert start == pytest.approx(begin, abs=1.01)
            assert stop - start == pytest.approx(end - begin, abs=1.01)
    assert made._axis([timeline.seconds])[0] == pytest.approx(ROOM, abs=1)


def test_micro_batches_that_pass_alike_are_left_out() -> None:
    """What is drawn and what is left out is the step; nothing of filling or draining goes."""
    timeline = pipeline(stages=8, batches=512)
    made = Drawn(timeline)
    axis = made._axis
    # In the steady state a micro-batch takes as long as its two passes.
    assert axis.end - axis.start == pytest.approx(3 * axis.batches)
    assert 7 * 3 < axis.start < axis.end < timeline.seconds - 7 * 3
    shown = ROOM - lanes.BREAK * lanes.UNITS
    assert (timeline.seconds - axis.end + axis.start) * axis.scale == pytest.approx(shown)
    places = axis([i / 10 for i in range(round(10 * timeline.seconds))])
    assert places == sorted(places)
    assert f"{axis.batches} micro-batches" in [tick.text for tick in made.figures[0].ticks]
    assert f"{axis.batches} micro-batches" in made.break_said
    left = [s for s in timeline.spans if s.work == "forward" and axis.start <= s.start < axis.end]
    assert len(left) == pytest.approx(8 * axis.batches, abs=8)
    # What is drawn is wide enough to be seen.
    work = max(len([s for s in timeline.spans if s.stage == 0]) - 2 * axis.batches, 1)
    assert (lanes.WIDTH - lanes.LEFT) / work >= lanes.NARROW


def test_nothing_is_left_out_where_no_pass_is_alike() -> None:
    """All forward passes, then all backward passes: a break would hide where they meet."""
    assert not Drawn(pipeline("gpipe", batches=512))._axis.batches
    assert not Drawn(pipeline(stages=4, batches=8))._axis.batches


def test_exchange_is_drawn_where_nothing_is_computed() -> None:
    """By hand: work from 1 to 2 and from 4 to 5; traffic from 0 to 3, and from 4.5 to 6."""
    work = [
        Span(0, "compute", "forward", 0, 0, 1.0, 2.0),
        Span(0, "compute", "forward", 1, 0, 4.0, 5.0),
    ]
    sent = [
        Span(0, "link", "send", 0, 0, 0.0, 2.5),
        Span(0, "network", "reduce", None, None, 2.5, 3.0),
        Span(0, "link", "send", 0, 0, 4.5, 6.0),
    ]
    traffic = lanes.merge_times([*work, *sent], 0.0)
    assert traffic == [(0.0, 3.0), (4.5, 6.0)]
    assert list(lanes.alone(traffic, work)) == [(0.0, 1.0), (2.0, 3.0), (5.0, 6.0)]


def test_long_pipelines_are_folded() -> None:
    first, rest = Drawn(pipeline(stages=32, batches=64)).figures
    assert [name.text for name in first.names] == [f"stage {i}" for i in (1, 2, 31, 32)]
    assert [name.text for name in rest.names] == [f"stage {i}" for i in range(3, 31)]


def test_one_stage_has_a_lane_for_each_stream() -> None:
    timeline = pipeline(stages=1, batches=2, reduce=[1.0], optimizer=[0.5])
    figure = Drawn(timeline).figures[0]
    assert [name.text for name in figure.names] == ["compute", "link"]
    assert {look for look, _, _ in figure.strokes} == {"forward", "backward", "exchange", "update"}
    assert "exchange" in [words for _, words in Drawn(timeline).legend]


# -- memory --------------------------------------------------------------------------------------


def test_peaks_are_those_of_the_phases(result: Result) -> None:
    """What the simulated step holds at most is what the phases say, to a fortieth."""
    timeline = simulate_step(result)
    for entry in result.list_entries("stage"):
        held = max(size for _, size in timeline.memory[int(entry.name.partition("-")[0])])
        peak = float(result[f"memory.peak[{entry.path}]"].number)
        assert held == pytest.approx(peak, rel=0.025), entry.path


# -- words ---------------------------------------------------------------------------------------


def test_seconds_and_shares_add_up_to_the_step(result: Result) -> None:
    made = build_step_view(result)
    assert made is not None
    for said in made.said[:2]:
        printed = re.findall(r"([\d.]+)\u00a0(ms|s) \(([\d.]+)\u00a0%\)", said)
        whole = sum(float(n) * {"ms": 1e-3, "s": 1}[unit] for n, unit, _ in printed)
        assert whole == pytest.approx(made._timeline.seconds, rel=0.01)
        # What prints as 0.0 % is left out.
        assert sum(float(share) for _, _, share in printed) == pytest.approx(100, abs=0.11)
    for stage in range(made._timeline.stages):
        assert sum(made._sum_parts(stage).values()) == pytest.approx(made._timeline.seconds)
    closed = _predict_time(result)["time.step_seconds"].number
    assert made._timeline.closed == pytest.approx(float(closed))


def test_the_table_has_each_stage_once(result: Result) -> None:
    made = build_step_view(result)
    assert made is not None
    stages: list[int] = []
    for first, *_ in made.table.rows:
        begin, _, end = first.partition(" to ")
        stages += range(int(begin), int(end or begin) + 1)
    assert stages == list(range(1, made._timeline.stages + 1))


def test_a_wait_inside_of_a_pass_is_that_pass() -> None:
    """By hand: four buckets of 1 s each, the first ready after a quarter of the backward pass of
    2 s, are through 1 + 0.5 + 4 s after the start; the other 1.5 s of that pass lie beside."""
    timeline = pipeline(stages=1, batches=1, reduce=[4.0], reduces_beside=True, buckets=4)
    said = Drawn(timeline).said[1].replace("\u00a0", " ")
    parts = "forward 1.00 s (18.2 %), backward 0.500 s (9.1 %), reducing gradients 4.00 s (72.7 %)"
    assert timeline.seconds == 5.5 and parts in said


# -- reports -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "batches"), [(16, 64), (16, 512), (64, 256)])
def test_figures_are_light(stages: int, batches: int) -> None:
    made = Drawn(pipeline(stages=stages, batches=batches))
    assert len(repr((made.figures, made.legend, made.said))) < 30_000


@pytest.mark.slow(every=5)
def test_it_is_read_aloud(result: Result) -> None:
    text = as_text(result, "html")
    ids = set(re.findall(r'id="([\w-]+)', text))
    drawn = re.findall(r'<svg class="time" [^>]*>', text)
    assert len(drawn) == 1
    assert len("".join(re.findall(r'(?s)<svg class="time".*?</svg>', text))) < 10_000
    for svg in drawn:
        assert 'role="img"' in svg
        labels = re.search(r'aria-labelledby="([^"]+)"', svg)
        assert labels and set(labels[1].split()) <= ids


@pytest.mark.slow(every=5)
def test_markdown_has_it_in_words(result: Result) -> None:
    text = as_text(result, "md")
    made = build_step_view(result)
    assert made is not None
    assert f"**{made.title}.**" in text and "The critical path" in text
    assert ("| Stage | at work |" in text) == (made._timeline.stages > 1)
    assert "<svg" not in text


def test_what_has_no_step_has_no_timeline() -> None:
    size = read_data("plans")["size_only"]
    assert build_step_view(planner.load(size).evaluate()) is None


def test_a_simulated_plan_is_the_one_that_is_drawn() -> None:
    result = planner.load("presets/llama70b_h100x1024.yaml").evaluate()
    made = build_step_view(result)
    assert made is not None and made._timeline == simulate_step(result)
