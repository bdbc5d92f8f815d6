"""Many layouts as one: what is said of their columns, counted out."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from planner.engine.instance import build
from planner.plans.document import Draft, Stage
from planner.plans.hardware import pick_settings as settings_of_hardware
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.batch import OF_ROWS, Batch
from planner.questions.batch_graph import _sort, list_deciders
from planner.questions.batch_pipelines import _filter_stages
from planner.questions.search.layouts import REPLICAS, Space
from tests.changed import merged
from tests.conftest import read_data


def batch(model: str, node: int, devices: int = 16) -> Batch:
    document = {"model": model, **read_data("plans")["on_two_nodes"]}
    plan = loading.load(merged(document, cluster={"devices": devices, "devices_per_node": node}))
    return Batch(Space(plan))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "node"), [("llama2-7b", 8), ("mixtral-8x7b", 4)])
def test_what_the_hardware_decides_of_a_layout_is_what_its_plan_says(model: str, node: int) -> None:
    """Whether a group leaves its node, and the like; what is the same everywhere is not listed.
    What always comes with the same value of one column is read from that column."""
    found = batch(model, node)
    columns, space = found.of_hardware, found.layouts
    assert isinstance(space, Space)
    seen: dict[str, set[Any]] = {}
    alone: dict[tuple[str, str], dict[Any, set[Any]]] = {}  # values beside each of one column
    for place, degrees in enumerate(space.degrees):
        layout = {**space.start, **degrees.changes, **degrees.kernels, "parallelism.zero": 1}
        for replicas in space.crossed[place][1]:
            plan = variant(space.plan, {**layout, REPLICAS: replicas})
            said = build(plan).settings
            for name in (
                list_deciders() & settings_of_hardware(Draft(plan.document, plan.data)).keys()
            ):
                seen.setdefault(name, set()).add(said[name])
            for name, (codes, values) in columns.items():
                code = codes[place, found.replicas.index(replicas)]
                assert values[code] == said[name], (name, layout, replicas)
            told = {key: column[place] for key, column in found.of_degrees.items()}
            told[REPLICAS] = replicas
            for name, key in product(columns, told):
                alone.setdefault((name, key), {}).setdefault(told[key], set()).add(said[name])
    for name in columns:
        follows = {key for key in told if all(len(v) == 1 for v in alone[name, key].values())}
        assert (name in found.following) == bool(follows)
        if follows:
            key, places = found.following[name]
            values = [found.varying[name][place] for place in places.tolist()]
            assert [{value} for value in values] == [v for _, v in sorted(alone[name, key].items())]
    assert columns.keys() == {name for name, values in seen.items() if len(values) > 1}


def test_spaces_of_a_kind_are_compiled_once() -> None:
    """Another number of devices, or of devices in a node, changes no formula."""
    assert batch("llama2-7b", 8).graph is batch("llama2-7b", 8).graph


@pytest.mark.parametrize("most", [1, 100, 600])
def test_rows_are_worked_out_in_stretches_of_so_many_values(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many rows as fill a core's cache with their stages, modes and further values, or one. A
    further axis is there as far as it counts: the operations of a run grow with its tokens; its
    cost is absent everywhere."""
    space, tokens = batch("llama2-7b", 8).layouts, np.array([1e9, 3e9]).reshape(1, 1, 1, 2)
    assert isinstance(space, Space)
    found, rows = Batch(space, None, {"training.tokens": tokens}), next(space.yield_blocks(30))
    asked, each = ("memory.process", "compute.training_flops", "cost.total"), 4 * 3 * 2
    ((_, whole),) = found.evaluate_rows(rows, asked)
    memory, operations, cost = (whole[name] for name in asked)
    assert memory.shape[3] == cost.shape[3] == 1 and cost.shape[:3] == (4, 3, len(rows))
    assert np.isnan(cost).all() and (operations[..., 1] == 3 * operations[..., 0]).all()
    monkeypatch.setattr("planner.questions.batch.CHUNK", most)
    end = 0
    for part, values in found.evaluate_rows(rows, asked):
        size = part.stop - part.start
        assert part.start == end and (size == 1 or size * each <= most)
        assert part.stop == len(rows) or (size + 1) * each > most
        assert (values[asked[0]] == memory[:, :, part]).all()
        assert values[asked[2]].shape == (4, 3, size, 1)
        end = part.stop
    assert end == len(rows)


def test_kinds_differ_in_what_their_settings_say() -> None:
    found = batch("llama2-7b", 8)
    several = [kind.case.settings for kind in found.kinds]
    others = list_deciders() - {*OF_ROWS, *found.of_hardware}
    differ = {name for name in others if len({repr(one.get(name)) for one in several}) > 1}
    assert found.of_kinds.keys() == differ and len(several) > 1
    for name, values in found.of_kinds.items():
        assert values == tuple(one.get(name) for one in several)


def test_of_a_number_a_graph_rests_on_whether_it_is_above_zero_and_above_one() -> None:
    """As profiles of kernels ask of devices that divide a tensor, and of chunks."""
    none, one, *more = (_sort(number) for number in (0, 1, 2, 3, 8))
    assert none != one and one not in more and none not in more and len(set(more)) == 1
    assert _sort("full") == "full" != _sort("none")


def test_of_stages_those_count_that_no_earlier_one_stands_for() -> None:
    """One stands for another that holds the same parts and keeps no more of any."""
    every = [
        Stage(0, 0, {"head": heads, "layers": 2}, {"head": heads, "layers": alive}, {})
        for heads, alive in product((1, 2), (1, 2, 3))
    ]
    every += [Stage(0, 0, {"head": 1, "layers": 2}, {"head": 3, "layers": 1}, {})]
    for stages in product(every, repeat=3):
        kept = [
            (tuple(stage.holds.items()), tuple(stage.alive.items()))
            for place, stage in enumerate(stages)
            if not any(
                stage.holds == other.holds
                and stage.alive["head"] <= other.alive["head"]
                and stage.alive["layers"] <= other.alive["layers"]
                for other in stages[:place]
            )
        ]
        assert _filter_stages(stages) == kept
