"""A simulated step against what papers say of their schedules, and against the closed form."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from benchmarks.simulation import SCHEDULES, compared, random_plans
from planner import api
from planner.book import notation
from planner.plans import pipeline
from planner.plans.schedules import Pass, schedule
from planner.questions.search import ranking
from planner.report import searched
from planner.results import pieces
from planner.results.durations import Chunk, StepData, read_step
from planner.results.timeline import Timeline, run_step, simulate_seconds
from tests.changed import merged
from tests.conftest import read_data

#: Seconds of a forward pass, of a backward pass, and of the gradients of weights in it.
F, B, W = 1.0, 2.5, 0.75
PLAN = "presets/llama70b_h100x1024.yaml"


def simulated(
    name: str, stages: int, virtual: int, batches: int, backward: float = B, weights: float = W
) -> Timeline:
    """A pipeline whose stages are alike, with nothing but passes."""
    order = schedule(name, stages, virtual, batches)
    held = {chunk for way in order.ways for _, chunk in way}
    each = Chunk(
        F / virtual, backward / virtual, weights / virtual, 0.0, ({}, {}), 1 / virtual, 0.0, 1.0
    )
    return run_step(StepData(order, batches, [dict.fromkeys(held, each) for _ in range(stages)]))


def bubble(timeline: Timeline) -> float:
    """What every stage waits for others; all of them alike."""
    assert timeline.idle == pytest.approx([timeline.idle[0]] * timeline.stages)
    return timeline.idle[0]


def peak(timeline: Timeline) -> list[float]:
    """Micro-batches whose activations each stage keeps at most, in shares of a stage's layers."""
    return [max(held for _, held in steps) for steps in timeline.memory]


@pytest.mark.parametrize(("stages", "batches"), [(1, 1), (2, 2), (4, 8), (4, 3), (8, 64)])
def test_one_forward_one_backward(stages: int, batches: int) -> None:
    """Narayanan et al. 2021, section 2.2.1: (p - 1)(F + B), and p - i micro-batches in flight."""
    found = simulated("1f1b", stages, 1, batches)
    assert bubble(found) == pytest.approx((stages - 1) * (F + B))
    assert peak(found) == [min(batches, stages - stage) for stage in range(stages)]


@pytest.mark.parametrize(("stages", "batches"), [(2, 2), (4, 8), (8, 64)])
def test_gpipe(stages: int, batches: int) -> None:
    """Huang et al. 2019, section 2.3: O((K - 1)/(M + K - 1)) of the time; all M are kept."""
    found = simulated("gpipe", stages, 1, batches)
    assert bubble(found) / found.seconds == pytest.approx((stages - 1) / (batches + stages - 1))
    assert peak(found) == [batches] * stages


@pytest.mark.parametrize(("stages", "virtual", "batches"), [(2, 2, 4), (4, 2, 8), (4, 8, 16)])
def test_interleaved(stages: int, virtual: int, batches: int) -> None:
    """Narayanan et al. 2021, section 2.2.2: (p - 1)(F + B)/v; Korthikanti et al. 2022, section
    4.2.3: the first stage keeps 1 + (p - 1)/(p v) of the model's layers, in p stages' layers."""
    found = simulated("interleaved", stages, virtual, batches)
    assert bubble(found) == pytest.approx((stages - 1) * (F + B) / virtual)
    assert peak(found)[0] == pytest.approx(stages * (1 + (stages - 1) / (stages * virtual)))


@pytest.mark.parametrize(("stages", "batches"), [(2, 4), (4, 8), (8, 24)])
def test_zero_bubble(stages: int, batches: int) -> None:
    """Qi et al. 2023, table 2, ZB-H1: (p - 1)(T_F + T_B - T_W), where T_B is the gradient of inputs
    alone; table 1: p micro-batches are kept by every stage, as by the first of 1F1B."""
    found = simulated("zero-bubble", stages, 1, batches)
    assert bubble(found) == pytest.approx((stages - 1) * (F + (B - W) - W))
    assert peak(found) == [stages] * stages


@pytest.mark.parametrize(("stages", "batches"), [(2, 4), (4, 8), (8, 20), (16, 40)])
def test_dualpipe(stages: int, batches: int) -> None:
    """DeepSeek-V3, table 2: (PP/2 - 1)(F&B + B - 3W), and the activations of PP + 1 micro-batches.
    F&B is as long as both here: nothing but exchanges is hidden by it. Where gradients of weights
    are shorter than those of inputs, the table's bubble is the most that there is."""
    found = simulated("dualpipe", stages, 1, batches, 2 * F, F)
    assert bubble(found) == pytest.approx((stages / 2 - 1) * (F + 2 * F + 2 * F - 3 * F))
    assert peak(found) == [stages + 1] * stages
    found = simulated("dualpipe", stages, 1, batches)
    assert bubble(found) <= (stages / 2 - 1) * (F + B + B - 3 * W)


@pytest.mark.parametrize(("devices", "batches"), [(1, 2), (2, 6), (4, 10), (8, 20)])
def test_dualpipev(devices: int, batches: int) -> None:
    """deepseek-ai/DualPipe, README: as DualPipe of PP = 2 devices' stages."""
    found = simulated("dualpipev", devices, 1, batches, 2 * F, F)
    assert bubble(found) == pytest.approx((devices - 1) * (F + 2 * F + 2 * F - 3 * F))
    assert peak(found) == [2 * devices + 1] * devices


def words(passes: tuple[Pass, ...]) -> str:
    return " ".join(
        "+".join(f"{one.kind}{one.chunk}.{one.micro_batch}" for one in (each, each.beside) if one)
        for each in passes
    )


def test_order_of_megatron() -> None:
    """Megatron-Core, pipeline_parallel/schedules.py, by hand for p = 2, v = 2, m = 4: stage 0 warms
    up with (2 - 0 - 1) * 2 + (2 - 1) * 2 = 4 passes, stage 1 with 2; micro-batches go in groups of
    2, chunk 0 before chunk 1 forward and after it backward."""
    first, last = schedule("interleaved", 2, 2, 4).orders
    assert words(first) == (
        "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3"
    )
    assert words(last) == (
        "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3"
    )


@pytest.mark.parametrize(
    ("name", "virtual"),
    [
        *(("1f1b", 1), ("gpipe", 1), ("zero-bubble", 1), ("dualpipe", 1)),
        *(("interleaved", 2), ("interleaved", 3), ("dualpipev", 2)),
    ],
)
@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize(("stages", "batches"), [(2, 4), (4, 8), (4, 12), (8, 24)])
def test_what_a_plan_keeps_is_what_its_schedule_keeps(
    name: str, virtual: int, stages: int, batches: int, ahead: bool
) -> None:
    """A plan's memory counts the micro-batches that are alive without running the schedule."""
    document = merged(
        read_data("plans")["narrow_and_deep"],
        cluster={"devices": stages},
        training={"global_batch": batches, "schedule": name},
        parallelism={"pipeline": stages, "virtual_pipeline": virtual},
    )
    plan = planner.load(document).plan
    assert plan.model is not None
    order = schedule(name, stages, virtual, batches, ahead)
    layout, vocab = plan.data["parallelism"] | {"expert_overlap": ahead}, plan.get("model.vocab")
    held = pipeline.list_chunk_parts(plan.model, layout, vocab)
    chunk = {place: held[number] for way in order.ways for number, place in enumerate(way)}
    counted = {
        index: found
        for found in pipeline.build_stages(plan.model, layout, name, batches, vocab)
        for index in range(found.index, found.last + 1)
    }
    for stage, passes in enumerate(order.orders):
        kept, most = Counter[str](), Counter[str]()
        for work in passes:
            for one in filter(None, (work, work.beside)):
                parts = Counter(chunk[stage, one.chunk])
                kept += parts if one.kind == "F" else Counter()
                most = kept.copy() if kept["layer"] > most["layer"] else most
                kept -= parts if one.kind in "BW" else Counter()
        if counted[stage].index == stage:  # of stages that hold the same the first keeps most
            assert most == counted[stage].alive


def test_order_of_megatron_with_experts_overlapped() -> None:
    """Megatron-Core, get_pp_rank_microbatches: one forward pass more before the first backward."""
    for stage, order in enumerate(schedule("interleaved", 4, 2, 8, True).orders):
        warm_up = next(number for number, one in enumerate(order) if one.kind == "B") - 1
        assert warm_up == 2 * (4 - stage - 1) + (2 - 1) * 4 + 1


def test_a_step_of_a_plan() -> None:
    """Each stage is busy, idle or waits for traffic, all of the step; nothing is done twice at a
    time; the fullest moment is the one that memory is planned by."""
    result = planner.load(PLAN).evaluate()
    found = planner.simulate(result)
    for stage in range(found.stages):
        spent = found.busy[stage] + found.idle[stage] + sum(found.exposed[stage].values())
        assert spent == pytest.approx(found.seconds)
        work = [s for s in found.spans if s.stage == stage and s.stream == "compute"]
        assert all(one.end <= other.start + 1e-12 for one, other in pairwise(work))
    assert found.critical[0].start == 0 and found.critical[-1].end == found.seconds
    fullest = max(held for steps in found.memory for _, held in steps)
    assert fullest == pytest.approx(result["memory.total"].number, rel=1e-6)
    assert found.seconds == pytest.approx(found.closed, rel=0.02)


@pytest.mark.slow
@given(
    schedule=st.sampled_from(("gpipe", "1f1b", "interleaved", "zero-bubble")),
    stages=st.sampled_from((2, 4, 8)),
    rounds=st.integers(1, 4),
    data=st.sampled_from((1, 4)),
    zero=st.integers(0, 3),
    recompute=st.sampled_from(("none", "selective", "full")),
)
@settings(max_examples=20)
def test_the_closed_form_is_the_same_step(
    schedule: str, stages: int, rounds: int, data: int, zero: int, recompute: str
) -> None:
    """Where stages are alike, nothing is sent and traffic overlaps with nothing, both are one sum:
    m passes of a stage, the bubble, and what follows. Here stages are made alike by their mean."""
    virtual = 2 if schedule == "interleaved" else 1
    plan = planner.load(
        merged(
            read_data("plans")["free_traffic"],
            cluster={"devices": stages * data},
            training={
                "global_batch": stages * rounds * data,
                "schedule": schedule,
                "recompute": recompute,
            },
            parallelism={"pipeline": stages, "virtual_pipeline": virtual, "zero": zero},
        )
    )
    result = plan.evaluate()
    step = read_step(result, {})
    count = stages * virtual
    each = [chunk for chunks in step.chunks for chunk in chunks.values()]
    alike = Chunk(
        *(sum(values) / count for values in list(zip(*each, strict=True))[:4]),
        ({}, {}),
        0.0,
        0.0,
        1.0,
    )
    found = run_step(replace(step, chunks=[dict.fromkeys(chunks, alike) for chunks in step.chunks]))

    def value(name: str) -> float:
        return float(result[f"time.{name}"].number)

    batches = result["layout.micro_batches"].number
    ends = sum(map(value, ("bubble", "accumulation", "data", "tied", "optimizer")))
    # Gradients are added up by an average stage here, by the fullest one there.
    added = (alike.backward - value("model.backward") / count) * count / stages
    ends += batches * added - value("accumulation")
    if schedule != "zero-bubble":
        ends += (stages - 1) * added / virtual
    assert found.seconds == pytest.approx(batches * value("model") / stages + ends, rel=1e-6)


def test_pieces_of_an_exchange_by_hand() -> None:
    """Four ranks, 4 s for gathering rows and as many for scattering sums: of 8 s of products the
    first piece waits 1 s for its rows; 2 s are sums of 0.5 s each, whose pieces of 1 s queue."""
    found = pieces.simulate_block("mlp", 0.0, (8.0, 3.0, 2.0), 4.0, pieces.OF_RANKS, 4, 0.0)
    ends = {piece.work: piece.end for piece in found}
    assert ends == {
        "gathering rows": 4.0,
        "products by columns": 1 + 8,
        "what follows": 9 + 3,
        "products by rows": 12 + 2,
        "scattering sums": 12 + 0.5 + 4,
    }
    # 3 s beside products by columns and 1.5 s beside those by rows, at half of their time
    slowed = pieces.simulate_block("mlp", 0.0, (8.0, 3.0, 2.0), 4.0, pieces.OF_RANKS, 4, 0.5)[-1]
    assert slowed.end == 16.5 + (3 + 1.5) / 2
    # Cut into nothing, all waits for all.
    assert (
        pieces.simulate_block("mlp", 0.0, (8.0, 3.0, 2.0), 4.0, pieces.OF_RANKS, 1, 0.5)[-1].end
        == 21
    )


@pytest.mark.slow
def test_a_layer_in_pieces_takes_what_the_closed_form_says() -> None:
    """Over random plans, with exchanges in pieces or whole, and models with layers of several
    widths: what tensor-parallel ranks exchange beside products as events, and as time.part.forward
    has it."""
    cut = 0
    layout = {"tensor": 4, "sequence": True, "tensor_overlap": True}
    several = [
        planner.load(
            {
                "model": model,
                "cluster": {"extends": "hgx-h100", "devices": 8},
                "training": {"tokens": "1T", "sequence_length": 1024, "global_batch": 16},
                "parallelism": layout,
            }
        )
        for model in ("qwen2.5-vl-7b", "sd3-medium", "qwen3-next-80b-a3b")
    ]
    for plan in (*random_plans(2, seed=5), *several):
        result = plan.evaluate()
        for part in result.list_entries("part"):
            found = pieces.simulate_forward(result, part)
            whole = float(result.evaluation.value("time.part.forward", {"part": part}))
            assert found[-1].end == pytest.approx(whole)
            for works in (True, False):
                stream = [piece for piece in found if piece.works == works]
                assert all(one.end <= other.start + 1e-12 for one, other in pairwise(stream))
            cut += any(piece.work == "work that traffic slows" for piece in found)
    assert cut


def test_a_slow_stage_slows_the_step() -> None:
    """By what its own passes take longer, and no other stage works longer for it."""
    plan = planner.load(PLAN)
    usual, slowed = plan.simulate(), plan.simulate(slow={2: 1.5})
    assert slowed.seconds > 1.3 * usual.seconds
    assert slowed.busy[3] == pytest.approx(usual.busy[3])
    assert slowed.idle[3] > usual.idle[3]


def test_what_travels_beside_passes() -> None:
    """Each pass of a plan with experts dispatches rows and combines them, over the streams where
    the groups lie; what lies on the host goes there in forward passes and comes back in others."""
    changes = ["training.offload.activations=0.5", "time.mfu=null"]
    plan = planner.load("presets/mixtral8x7b_h100x1024.yaml", set=changes)
    found, result = plan.simulate(), plan.evaluate()
    count, chunks = (
        Counter(span.work for span in found.spans),
        plan.plan.get("parallelism.virtual_pipeline"),
    )
    passes = result["layout.micro_batches"].number * 4 * chunks
    assert count["dispatch"] == count["combine"] == 2 * passes
    assert count["offload"] == count["fetch"] == passes == count["forward"]
    seconds = sum(
        span.end - span.start for span in found.spans if span.work in ("dispatch", "combine")
    )
    layers = sum(
        entry.bindings[notation.L_k]
        * float(result.evaluation.value("time.part.exchanged", {"part": entry}))
        for entry in result.list_entries("part")
    )
    assert seconds == pytest.approx(layers * result["layout.micro_batches"].number)


@pytest.mark.parametrize("changes", [["training.mode=inference", "training.output_tokens=8"], []])
def test_no_step(changes: list[str]) -> None:
    plan = planner.load(
        {
            "model": "llama3-8b" if changes else {"parameters": "8B"},
            "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
            "training": {"tokens": "1T", "sequence_length": 4096, "global_batch": 8},
        },
        set=changes,
    )
    with pytest.raises(planner.PlanError, match="no step can be simulated"):
        plan.simulate()


@pytest.mark.slow
def test_the_best_of_a_search_are_simulated() -> None:
    """Beside the closed form by which they are ranked, as the plan that each of them is."""
    plan = planner.load(PLAN, set=["cluster.devices=128", "training.global_batch=128"])
    found = plan.search(top=3)
    seconds = [layout.simulated for layout in found.best]
    for layout, run_ in zip(found.best, seconds, strict=True):
        assert run_ == planner.simulate(api.Plan(layout.of(plan.plan))).seconds
        assert run_ == pytest.approx(float(layout.values["time.step_seconds"]), rel=0.1)
    assert [one.get("simulated") for one in ranking.dump_search(found)["best"]] == seconds
    assert "Simulated as events" in searched.format_search(found)


@pytest.mark.slow
def test_seconds_alone_are_those_of_the_whole_story() -> None:
    """A search asks for nothing else of a step; to the last digit, on every schedule."""
    for plan in random_plans(3, seed=11):
        result = plan.evaluate()
        assert simulate_seconds(result) == planner.simulate(result).seconds


@pytest.mark.slow
def test_the_closed_form_stays_near() -> None:
    """Over random plans of every schedule, most of them with uneven stages: a search may rank by
    it. `python -m benchmarks.simulation` draws more."""
    rows = list(map(compared, random_plans(2, seed=3)))
    assert len(rows) == 2 * len(SCHEDULES)
    sizes = [abs(row["difference"]) for row in rows]
    assert max(sizes) < 0.2 and sum(sizes) / len(sizes) < 0.04
