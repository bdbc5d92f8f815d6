"""Of layouts that are nearly as fast as the fastest, the plainest is what people run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import planner
from planner.questions import loading
from planner.questions.search import ranking
from planner.questions.search.engine import FITS, HEADROOM, MEMORY, STEP, Walk, search
from planner.questions.search.layouts import SCHEDULES, Space, SpaceRows
from planner.report import searched
from planner.results.improvements import find_faster
from tests.layouts import yield_layouts

KINDS = ("tensor", "pipeline", "context", "expert", "expert_tensor", "replicate")
WORST = "memory.headroom_p95"


def document(
    model: str, accelerator: str, devices: int, sequence: int, batch: int, **training: Any
) -> dict[str, Any]:
    return {
        "name": "plain",
        "model": model,
        "cluster": {"accelerator": accelerator, "devices": devices, "devices_per_node": 8},
        "training": {
            "tokens": "10B", "sequence_length": sequence, "global_batch": batch, **training,
        },
        "parallelism": "auto",
    }  # fmt: skip


SMALL = document("gpt2-small", "h100-sxm-80gb", 8, 1024, 512)
EIGHT = document("llama3-8b", "h100-sxm-80gb", 64, 8192, 512)
ADAPTED = document("llama2-70b", "a100-sxm-80gb", 8, 4096, 64, lora={"rank": 16})
EXPERTS = document("mixtral-8x7b", "h100-sxm-80gb", 16, 4096, 256)


def kinds(plan: Any) -> dict[str, int]:
    """The degrees above 1."""
    return {key: plan.get(f"parallelism.{key}") for key in KINDS
            if plan.get(f"parallelism.{key}") > 1}  # fmt: skip


def test_a_model_that_fits_on_a_device_is_not_divided() -> None:
    """Data parallelism alone is the plainest and, where the states of an optimizer fit (124M
    parameters of 18 bytes are 2.2 GB of 80), also the fastest (Narayanan et al. 2021, section 3:
    model parallelism only as far as the model does not fit)."""
    plan = loading.load(SMALL)
    assert kinds(plan) == {} and plan.get("training.recompute") in ("none", "selective")


@pytest.mark.slow
def test_eight_billion_parameters_take_one_kind_of_parallelism_at_most() -> None:
    """Below 10B parameters one technique is enough, sharding or tensor parallelism (the
    Ultra-Scale Playbook, Hugging Face 2025, on finding a configuration)."""
    assert len(kinds(loading.load(EIGHT))) <= 1


@pytest.mark.slow
def test_adapters_of_seventy_billion_on_one_node_take_no_exotic_layout() -> None:
    """The frozen weights, 138 GB in 16 bits, need a division over a few devices of a node; a
    division of the sequence or ten virtual stages gain less than one per cent."""
    for margin, most in (("p95", 10), (0, 5)):  # more chunks leave more room
        run, auto = {**ADAPTED["training"], "stack": "trl"}, {"auto": True, "margin": margin}
        plan = loading.load({**ADAPTED, "training": run, "parallelism": auto})
        assert set(kinds(plan)) <= {"tensor", "pipeline"}
        assert plan.get("parallelism.virtual_pipeline") <= most
        assert plan.get("parallelism.zero") in (0, 3)  # sharded weights are what Trainer runs
        assert plan.get("training.schedule") in ("1f1b", "interleaved")


def order(changes: dict[str, Any]) -> tuple[Any, ...]:
    """What is said to make a layout plain, what counts most first."""
    layout = {key.split(".")[1]: value for key, value in changes.items()}
    product = 1
    for key in KINDS:
        product *= layout[key]
    uncommon = layout["schedule"] not in ("1f1b", "interleaved")
    return (
        sum(layout[key] > 1 for key in KINDS), uncommon, product, layout["virtual_pipeline"],
        layout["zero"], SCHEDULES.index(layout["schedule"]), layout.get("cut") is not None,
        layout["tensor"] > 1 and not layout["sequence"],
    )  # fmt: skip


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("open_ended", [SMALL, ADAPTED, EXPERTS], ids=lambda d: d["model"])
def test_the_plainest_is_near_the_best_and_none_near_it_is_plainer(
    open_ended: dict[str, Any],
) -> None:
    plan = loading.load({**open_ended, "parallelism": {"zero": 0}})
    found = search(plan, top=20)
    assert found.plain is not None and not found.tight
    least = found.best[0].values[STEP]
    assert least <= found.plain.values[STEP] <= least * 1.02
    assert found.plain.values[WORST] >= 0 and found.best[0].values[WORST] >= 0
    steps = {(float(x.values[STEP]), float(x.values[MEMORY])) for x in found.best}
    assert len(steps) == len(found.best)  # no step is listed twice
    near = []
    for chunk in Walk(plan, (STEP, FITS, WORST)):
        score, room = chunk.values[STEP].ravel(), chunk.values[WORST].ravel()
        fits = chunk.valid.ravel() & (room >= 0) & (score <= float(least) * 1.02 * (1 - 1e-9))
        near += [chunk.build_changes(place) for place in fits.nonzero()[0]]
    assert order(dict(found.plain.changes)) == min(map(order, near))
    rows, _ = ranking.build_ranking(found)
    first = 1 if ranking.describe_simplest(found) else 0
    assert first == 0 or "simplest" in rows[1][0]
    numbers = [int(row[0].split(", ")[-1]) for row in rows[1 + first :] if row[0] != "own"]
    assert numbers == sorted(set(numbers)) and len(numbers) >= len(found.best) - 1


@pytest.mark.slow
@pytest.mark.parametrize("zero", [1, 3])
def test_layouts_are_as_plain_as_is_said(zero: int) -> None:
    """In any space, also where parameters or gradients are shared among some replicas only, and
    with schedules that are never sensible."""
    plan = loading.load({**EXPERTS, "parallelism": {"zero": 1}})
    kept = {"parallelism.replicate": (1, 2, 4), "parallelism.zero": (zero,)}
    kept["training.schedule"] = SCHEDULES
    said = []
    for chunk in Walk(plan, (STEP,), {**kept, "training.recompute": ("none",)}):
        places = chunk.valid.ravel().nonzero()[0][::2]
        plain = chunk.score_simplicity(places)
        said += [
            (int(p), order(chunk.build_changes(int(x)))) for p, x in zip(plain, places, strict=True)
        ]
    assert len(said) > 100 and len({each[0] for _, each in said}) > 2
    ordered = [each for _, each in sorted(said)]
    assert ordered == sorted(ordered)
    # A double holds 53 bits; the first three count the kinds, of which there are six at most.
    assert all(plain >> 50 == each[0] for plain, each in said)


def test_what_is_too_large_for_its_bits_counts_as_the_most_that_they_hold() -> None:
    space = SimpleNamespace(
        plain=np.array([[2], [16], [0]]),
        runs=[(virtual, "interleaved", None) for virtual in (2, 255, 256, 300, 600)],
        degrees=[SimpleNamespace(named={"tensor": 2}, said=False)],
        said=(True,),
        zero=(1,),
        recompute=("none",),
    )

    def plain(run: int, batch: int) -> int:
        columns = (np.array([number]) for number in (0, run, 1, 1, batch))
        return int(SpaceRows(space, *columns).score_simplicity(np.array([0]))[0])  # type: ignore[arg-type]

    batches = (1, 4095, 4096, 5000, 9000)
    assert [plain(0, batch) - plain(0, 1) for batch in batches] == [0, *[4094] * 4]
    assert plain(0, 1) < plain(1, 1) == plain(2, 1) == plain(3, 1) == plain(4, 1)


@pytest.mark.slow
def test_what_auto_takes_is_the_plainest_of_the_same_search() -> None:
    plan = loading.load(ADAPTED)
    found = search(plan, top=1, vary={"training.schedule": ("1f1b", "interleaved")})
    assert found.plain is not None
    for key, value in found.plain.changes.items():
        if not key.startswith(("time", "parallelism.data", "training.gradient")):
            assert plan.get(key) == value, key
    assert "the fastest that somebody ran" in plan.derived["parallelism.tensor"]


@pytest.mark.parametrize(("model", "layout"), [
    ("llama2-7b", {"tensor": 8}), ("llama2-7b", {"tensor": 2, "pipeline": 4}),
    ("mixtral-8x7b", {"tensor": 8, "expert": 8, "expert_tensor": 1}),
    ("mixtral-8x7b", {"tensor": 4, "pipeline": 2, "expert": 4, "expert_tensor": 1}),
])  # fmt: skip
def test_where_no_two_devices_hold_the_same_weights_zero_is_listed_once(
    model: str, layout: dict[str, int]
) -> None:
    """ZeRO divides what several devices hold alike (Rajbhandari et al. 2020); of one there is
    nothing to divide, so its stages are one and the same step and stage 3 gains nothing."""
    plan = document(model, "h100-sxm-80gb", 8, 4096, 64)
    values = []
    for zero in (0, 1, 2, 3):
        plan["parallelism"] = {**layout, "zero": zero}
        result = planner.load(plan).evaluate()
        values.append([result[name].value for name in (STEP, MEMORY)])
    assert values[0] == values[1] == values[2]
    assert all(value >= first for value, first in zip(values[3], values[0], strict=True))
    held = {f"parallelism.{key}": (value,) for key, value in layout.items()}
    space = Space(
        loading.load({**plan, "parallelism": layout}), {**held, "parallelism.context": (1,)}
    )
    listed = [changes for rows in space.yield_blocks() for changes in yield_layouts(rows)]
    assert {changes["parallelism.zero"] for changes in listed} == {0}
    assert len(listed) == space.size


@pytest.mark.slow
def test_a_margin_is_kept_or_its_lack_is_told() -> None:
    """A margin of half as much again as predicted leaves a third of the capacity."""
    plan = loading.load({**ADAPTED, "parallelism": {"tensor": 8}})
    kept = search(plan, top=1, margin="50%").best[0].values
    capacity = kept[HEADROOM] + kept[MEMORY]
    assert 3 * kept[MEMORY] <= 2 * capacity
    few = {f"parallelism.{key}": 1 for key in ("tensor", "pipeline", "context")}
    one = loading.load(
        {**document("llama2-7b", "a100-sxm-80gb", 1, 4096, 8), "parallelism": {"tensor": 1}}
    )
    none = search(one, fixed=few)
    assert not none.best and not none.tight  # 7B parameters of 16 bytes are 108 GB
    held = {"parallelism.tensor": 2, "parallelism.pipeline": 4, "parallelism.virtual_pipeline": 2,
            "training.micro_batch": 1, "training.schedule": "interleaved"}  # fmt: skip
    tight = search(plan, fixed=held)
    assert tight.tight == (tight.fitting == 0) and bool(tight.best) == (tight.nearest is None)
    if tight.tight:
        assert "tight" in searched.format_search(tight)
        assert tight.best[0].values[WORST] < 0 <= tight.best[0].values[FITS]


@pytest.mark.slow
def test_the_flagship_states_the_layout_that_its_search_recommends() -> None:
    """Whoever reads its report meets no plan beside it that fits and is much faster."""
    path = "presets/llama70b_h100x1024.yaml"
    stated = loading.load(path)
    found = {"parallelism": "auto", "training.recompute": None}
    taken = loading.load(path, {**found, "training.implementation": "megatron"})
    for key in (*(f"parallelism.{name}" for name in (*KINDS, "virtual_pipeline", "zero")),
                "training.recompute", "training.schedule"):  # fmt: skip
        assert stated.get(key) == taken.get(key), key
    own = planner.load(path).evaluate()
    step = own["time.step_seconds"].value
    assert all(near.values["time.step_seconds"] * 1.02 >= step for near in find_faster(own.plan))
