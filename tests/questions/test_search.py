"""The search over layouts: agreement with exact evaluation, completeness, ranking."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
from itertools import islice, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.base import units
from planner.base.errors import PlanError
from planner.base.numbers import exact_text
from planner.base.progress import send_progress
from planner.engine.instance import compute_values
from planner.plans import pipeline
from planner.plans import plan as plans
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.search import choices, layouts, ranking
from planner.questions.search import engine as searching
from planner.questions.search.layouts import SCHEDULES, Space
from planner.report import searched
from tests.changed import merged
from tests.conftest import leave_to_night, read_data
from tests.in_turn import InTurn
from tests.layouts import find_best, yield_layouts

QUANTITIES = ("memory.headroom", "memory.process", "time.step_seconds", "memory.activations")


def small(model: str, **changes: Any) -> plans.Plan:
    """A plan on 16 devices, small enough to enumerate by brute force."""
    return loading.load(
        {
            "name": "small",
            "model": model,
            "cluster": {"accelerator": "h100-sxm-80gb", "devices": 16, "devices_per_node": 8},
            "training": {"tokens": "1B", "sequence_length": 1024, "global_batch": 32},
            "parallelism": {"zero": 0},
        },
        {key.replace("__", "."): value for key, value in changes.items()},
    )


PLANS = [
    lambda: small("gpt2-small"),
    lambda: small("mixtral-8x7b"),
    lambda: small("llama2-7b", model__mtp=1),
    lambda: small("llama2-7b", model__layers=31),
    lambda: small("llama2-70b", training__precision="fp8"),
    lambda: loading.load("presets/gpt3_a100x1024.yaml"),
    lambda: small("llama2-7b", parallelism__context_exchange="gather"),
    lambda: loading.load("presets/mixtral8x7b_h100x1024.yaml", {"cluster.devices": 128}),
]


@pytest.mark.slow
@pytest.mark.parametrize("make", leave_to_night(PLANS, PLANS[::3]))
@pytest.mark.parametrize("full", [False, True])
def test_arrays_agree_with_exact_evaluation(make: Any, full: bool) -> None:
    plan, chance = make(), random.Random(9)
    walk = searching.Walk(plan, QUANTITIES, full=full)
    chunks, exactly = list(islice(walk, 4)), InTurn()
    for chunk in chunks:
        for place in chance.sample(np.flatnonzero(chunk.valid).tolist(), 6):
            changes = chunk.build_changes(place)
            exact = exactly(variant(plan, changes), QUANTITIES)
            for name in QUANTITIES:
                assert chunk.values[name].ravel()[place] == pytest.approx(
                    float(exact[name]), rel=1e-9
                ), changes


@pytest.mark.slow
def test_winners_fit_and_are_sorted() -> None:
    plan = loading.load("presets/llama70b_h100x1024.yaml", {"cluster.devices": 256})
    found = searching.search(plan, top=20)
    times = [layout.values["time.step_seconds"] for layout in found.best]
    assert times == sorted(times) and len(times) == 20
    for layout in found.best:
        assert layout.values["memory.headroom"] >= 0
        for name, value in layout.approximate.items():
            assert value == pytest.approx(float(layout.values[name]), rel=1e-9)
        again = loading.load(
            "presets/llama70b_h100x1024.yaml",
            {"cluster.devices": 256, **layout.changes, "time.mfu": None},
        )
        assert (
            compute_values(again, ["memory.process"])["memory.process"]
            == (layout.values["memory.process"])
        )
    assert found.own is not None
    assert times[0] <= found.own.values["time.step_seconds"]


@pytest.mark.slow
def test_ranked_by_memory() -> None:
    by_memory = searching.search(small("gpt2-small"), top=1, by="memory.process")
    by_time = searching.search(small("gpt2-small"), top=1)
    assert by_memory.best[0].values["memory.process"] <= by_time.best[0].values["memory.process"]


def test_written_out() -> None:
    found = searching.search(small("gpt2-small"), top=4)
    text = searched.format_search(found)
    step = float(found.best[0].values["time.step_seconds"])
    assert text.startswith(f"Fastest of {exact_text(found.fitting)} that fit: ") and "own" in text
    assert f"{1000 * step:.3g} ms a step" in text.replace("\n", " ")
    data = json.loads(ranking.encode_search(found))
    assert data["layouts"] == found.size and len(data["best"]) == 4
    rows = list(csv.DictReader(io.StringIO(ranking.to_csv(found))))
    assert [float(r["time.step_seconds"]) for r in rows] == pytest.approx(
        [float(x.values["time.step_seconds"]) for x in found.best]
    )


def test_what_cannot_be_searched() -> None:
    plan = small("gpt2-small")
    with pytest.raises(PlanError, match="unknown quantity"):
        searching.search(plan, by="time.steps")
    with pytest.raises(PlanError):
        searching.search(plan, fixed={"parallelism.tensor": 7})
    with pytest.raises(PlanError, match="shape"):
        searching.search(variant(plan, {"model": {"parameters": 10**9}}))
    none = searching.search(small("llama2-70b", cluster__devices=1, training__global_batch=1))
    assert none.best == () and searched.format_search(none).startswith("No layout fits.")


def test_words_of_a_choice_are_values_of_its_key() -> None:
    """The same twice is one; without a value it is that of the plan."""
    said = ["parallelism.sequence=True", "parallelism.tensor=2", "parallelism.tensor=2"]
    held = choices.parse_fixed(small("gpt2-small"), [*said, "parallelism.context"])
    assert held == {"parallelism.sequence": True, "parallelism.tensor": 2, "parallelism.context": 1}
    both = choices.parse_varied(["training.dropout=0,0.1", "training.precision"], held)
    assert len(both["training.dropout"]) == 2 and "bf16" in both["training.precision"]


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=5), st.booleans())
def test_a_list_of_numbers_is_read_as_it_was_meant_or_asked_about(
    numbers: list[int], compact: bool
) -> None:
    for written in (", ".join(map("{:,}".format, numbers)), ", ".join(map(str, numbers))):
        if compact and len(numbers) == 1:
            continue  # without a space a comma separates there
        with contextlib.suppress(PlanError):
            values = [units.parse(one) for one in choices.split_values(written, compact)]
            assert values == numbers, written
    assert [*map(int, choices.split_values(",".join(map(str, numbers)), True))] == numbers
    with contextlib.suppress(PlanError):
        assert [
            units.parse(one) for one in choices.split_values(",".join(map(str, numbers)))
        ] == numbers


@pytest.mark.slow
def test_progress_reaches_the_end() -> None:
    seen: list[tuple[int, int]] = []

    def hear(line: str) -> None:
        done, size = line.replace(",", "").removesuffix(" layouts").split(" of ")
        seen.append((int(done), int(size)))

    with send_progress(hear):
        searching.search(small("gpt2-small"))
    done = [done for done, _ in seen]
    assert done == sorted(done) and 0 < seen[-1][0] == seen[-1][1]


def test_more_micro_batches_than_are_alive_change_nothing() -> None:
    """What lets a search look at few pipelines."""
    plan = small("gpt2-small", model__layers=48)
    assert plan.model is not None
    layout = dict(plan.data["parallelism"])
    for schedule, stages, virtual in product(SCHEDULES, (2, 4, 8), (1, 2, 3)):
        most = pipeline.max_in_flight(stages, schedule)
        layout |= {"pipeline": stages, "virtual_pipeline": virtual}
        if most is None or not pipeline.suits(schedule, virtual):
            continue
        told = [pipeline.build_stages(plan.model, layout, schedule, most + more, 50257)
                for more in (0, stages, 5 * stages)]  # fmt: skip
        assert told[0] == told[1] == told[2]


@pytest.mark.slow
def test_the_best_is_that_of_the_search_and_keeps_limits() -> None:
    plan = small("mixtral-8x7b")
    found = searching.search(plan, top=1, margin="0")
    first = find_best(plan)
    assert first is not None and found.plain is not None
    assert first.changes == found.plain.changes
    assert first.of(plan).get("parallelism.pipeline") == first.changes["parallelism.pipeline"]
    bound = found.best[0].values["memory.process"] * 9 / 10
    limits = [Limit("memory.process", "<=", bound)]
    within, expected = (
        find_best(plan, limits=limits),
        searching.search(plan, top=1, margin="0", limits=limits).plain,
    )
    assert within is not None and expected is not None
    assert within.values["memory.process"] <= bound
    assert within.values["time.step_seconds"] == expected.values["time.step_seconds"]
    assert find_best(plan, limits=[Limit("memory.process", "<=", 1)]) is None


@pytest.mark.slow
def test_values_of_any_key_are_tried() -> None:
    plan = small("gpt2-small")
    plan = variant(plan, {"time.efficiency.launch": 0})  # nothing waits for the host
    found = searching.search(plan, top=3, vary={"training.precision": ("bf16", "fp8")})
    alone = [searching.search(variant(plan, {"training.precision": p})) for p in ("bf16", "fp8")]
    assert found.size == sum(one.size for one in alone)
    best = min(one.best[0].values["time.step_seconds"] for one in alone)
    assert found.best[0].values["time.step_seconds"] == best
    assert found.best[0].changes["training.precision"] == "fp8"


@pytest.mark.slow
def test_points_of_a_scatter_plot() -> None:
    found = searching.scatter(small("gpt2-small"), points=200)
    assert 100 < len(found.points) < 300
    assert found.points == searching.scatter(small("gpt2-small"), points=200).points
    front = [(p.score, p.memory) for p in found.points if p.front]
    assert len(front) == len(found.front) > 3
    for point in found.points:  # no point lies beyond the front
        if point.fits:
            assert any(s <= point.score and m <= point.memory for s, m in front)
    assert found.own is not None and len(found.best) == 5


@pytest.mark.slow
def test_no_layout_takes_less_than_no_time() -> None:
    """Groups of experts smaller than a replica once did."""
    plan = small("deepseek-v3", cluster__devices=32, training__global_batch=64)
    named = ("time.step_seconds", "time.micro_batch", "time.data", "memory.process")
    for chunk in searching.Walk(plan, named, full=True):
        for name in named:
            values = chunk.values[name][chunk.valid]
            assert (values[np.isfinite(values)] >= 0).all(), name


@pytest.mark.slow
def test_which_kernels_run_is_said_where_they_differ() -> None:
    plan = small("gpt2-small", parallelism__tensor=2)
    found = searching.search(plan, top=1, choices=True)
    assert {c.value for c in found.choices if c.key == layouts.KERNELS} == {"megatron", "pytorch"}
    assert found.own is not None and found.own.follows[layouts.KERNELS] == "megatron"
    assert found.best[0].follows[layouts.KERNELS] == "pytorch"
    assert "kernels" in ranking.build_ranking(found)[0][0]
    fixed = small("gpt2-small", training__implementation="pytorch")
    found = searching.search(fixed, top=1, choices=True)
    assert "kernels" not in ranking.build_ranking(found)[0][0]
    assert layouts.KERNELS not in {choice.key for choice in found.choices}


def test_memory_does_not_grow_with_the_space() -> None:
    """What is kept alive at any time is that of one block of rows."""
    plan = small("mixtral-8x7b", cluster__devices=64, training__global_batch=64)
    space = Space(plan, full=True)
    blocks = [len(rows) for rows in space.yield_blocks(most=2000)]
    assert len(blocks) > 5 and max(blocks) < 2000 + max(
        len(s) * len(r) * len(b) for s, r, b in space.crossed
    )


def test_a_space_that_is_too_large_is_narrowed() -> None:
    plan = small("mixtral-8x7b")
    every = searching.Walk(plan, QUANTITIES)
    fewer = searching.Walk(plan, QUANTITIES, most=every.size - 1)
    assert 0 < fewer.size < every.size
    kept = {"parallelism.replicate": (2,)}  # what is asked for is not narrowed
    assert searching.Walk(plan, QUANTITIES, kept, most=1).options["parallelism.replicate"] == (2,)


@pytest.mark.slow
def test_each_layout_says_where_it_loses() -> None:
    found = searching.search(loading.load("presets/gpt3_a100x1024.yaml"), top=searching.EXACT)
    for layout in (*found.best, found.own):
        assert layout is not None
        step = float(layout.values["time.step_seconds"])
        assert sum(map(float, layout.parts.values())) == pytest.approx(step, rel=1e-9)
    assert found.own is not None
    assert "recomputation" in ranking.describe_loss(found.own, found.best[0], found.by)
    assert ranking.describe_loss(found.best[0], found.best[0], found.by) == ""
    (own,) = (
        line
        for line in searched.format_search(found).splitlines()
        if line.strip().startswith("own")
    )
    assert " s " in own


def test_sequence_parallelism_is_shown() -> None:
    """True is no 1."""
    plan = small("llama2-7b")
    held = {"parallelism.tensor": 8, "parallelism.sequence": True}
    found = searching.search(plan, top=1, fixed=held)
    assert found.best[0].changes["parallelism.sequence"] is True
    head, *rows = ranking.build_ranking(found)[0]
    assert rows[0][head.index("sequence")] == "yes"
    assert "sequence yes" in ranking.name_layout(found.best[0])


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("model", ["llama2-7b", "mixtral-8x7b"])
def test_which_layouts_are_valid_rests_on_how_many_devices_there_are_not_on_which(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was enumerated for one accelerator serves another: each on its own is the same."""
    spaces = []
    for accelerator in ("h100-sxm-80gb", "mi300x", "tpu-v5p"):
        monkeypatch.setattr(layouts, "_get_cache", lambda *_: {})
        own = {"model": model, **read_data("plans")["on_any_accelerator"]}
        plan = loading.load(merged(own, cluster={"accelerator": accelerator}))
        spaces.append(list(yield_layouts(next(Space(plan).yield_blocks()))))
    assert all(found == spaces[0] for found in spaces[1:])


@pytest.mark.slow
def test_a_space_of_a_plan_that_was_asked_before_is_the_same() -> None:
    one, other, third = small("llama2-7b"), small("gpt2-small"), small("llama2-7b")
    found = [list(yield_layouts(next(Space(plan).yield_blocks()))) for plan in (one, other, third)]
    assert found[0] == found[2] != found[1]
    half = variant(one, {"cluster.devices": 8})
    assert len(list(yield_layouts(next(Space(half).yield_blocks())))) < len(found[0])
    few = Space(one, {"training.micro_batch": (1,)})
    assert {
        layout["training.micro_batch"] for layout in yield_layouts(next(few.yield_blocks()))
    } == {1}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("model", "accelerator", "node", "fixed"), read_data("questions")["groups_over_nodes"]
)
def test_groups_in_a_node_and_over_nodes_are_ranked_as_they_are_evaluated(
    model: str, accelerator: str, node: int, fixed: dict[str, Any]
) -> None:
    """Experts, trees, switches that add up and replicas: over arrays as exactly."""
    plan = loading.load({
        "model": model,
        "cluster": {"accelerator": accelerator, "devices": 32, "devices_per_node": node},
        "training": {"sequence_length": 2048, "global_batch": 64, "micro_batch": 1},
    })  # fmt: skip
    found = searching.search(plan, top=5, fixed=fixed)
    assert found.best
    for layout in (*found.best, *found.front):
        for name, value in layout.approximate.items():
            assert value == pytest.approx(float(layout.values[name]), rel=1e-9)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("held", read_data("questions")["arrays_against_exact"])
def test_arrays_agree_with_exact_evaluation_whatever_is_held(
    held: dict[str, tuple[Any, ...]],
) -> None:
    """Keys that have one value, or two: all layouts of the space are then alike in something."""
    plan, chance = small("llama2-7b", model__layers=30), random.Random(4)
    walk = searching.Walk(plan, QUANTITIES, held)
    asked, exactly = 0, InTurn()
    for chunk in walk:
        valid = np.flatnonzero(chunk.valid).tolist()
        for place in chance.sample(valid, min(40, len(valid))):
            changes = chunk.build_changes(place)
            assert all(changes[key] in values for key, values in held.items())
            exact = exactly(variant(plan, changes), QUANTITIES)
            for name in QUANTITIES:
                assert chunk.values[name].ravel()[place] == pytest.approx(
                    float(exact[name]), rel=1e-9
                ), changes
            asked += 1
    assert asked >= 40


@pytest.mark.slow
def test_pipelines_of_a_wider_model_are_its_own() -> None:
    """Cut by what layers compute, a head of 32,000 weighs as much as several narrow layers and less
    than one wide one, so that models of as many layers are cut differently."""
    held = {"parallelism.cut": ("compute",), "parallelism.pipeline": (4,)}
    for wide in (1024, 44_032):
        plan = small("llama2-7b", model__layers=30, model__mlp__intermediate=wide)
        for chunk in islice(searching.Walk(plan, QUANTITIES, held), 2):
            for place in np.flatnonzero(chunk.valid)[::50].tolist():
                exact = compute_values(variant(plan, chunk.build_changes(place)), QUANTITIES)
                found = [chunk.values[name].ravel()[place] for name in QUANTITIES]
                assert found == pytest.approx([float(exact[name]) for name in QUANTITIES])


def test_values_that_are_asked_for_are_all_tried() -> None:
    """Experts' matrices are sensibly divided as all others or not at all, but if asked for
    otherwise."""
    held = {"parallelism.tensor": (4,), "parallelism.expert_tensor": (1, 2)}
    space = Space(small("mixtral-8x7b"), held)
    assert {degrees.named["expert_tensor"] for degrees in space.degrees} == {1, 2}
    free = Space(small("mixtral-8x7b"), {"parallelism.tensor": (4,)})
    assert {degrees.named["expert_tensor"] for degrees in free.degrees} == {1, 4}


def test_what_no_layout_has_is_nothing_in_every_chunk() -> None:
    """Without prices there is no cost, of as many layouts as there are."""
    plan = small("gpt2-small")
    chunks = 0
    for chunk in islice(searching.Walk(plan, ("time.step_seconds", "cost.total"), full=True), 3):
        assert chunk.values["cost.total"].shape == chunk.valid.shape
        assert np.isnan(chunk.values["cost.total"]).all()
        chunks += 1
    assert chunks > 1
