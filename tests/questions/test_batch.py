"""Many layouts as one: what is said of their columns, counted out."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.engine.instance import build
from planner.plans.document import Draft
from planner.plans.hardware import settings as settings_of_hardware
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.batch import Batch, _coded
from planner.questions.batch_graph import deciding
from planner.questions.search.layouts import REPLICAS, Space


def batch(model: str, node: int, devices: int = 16) -> Batch:
    plan = loading.load({
        "model": model,
        "cluster": {
            "accelerator": "h100-sxm-80gb", "devices": devices, "devices_per_node": node,
        },
        "training": {"sequence_length": 1024, "global_batch": 32},
        "parallelism": {"zero": 0},
    })  # fmt: skip
    return Batch(Space(plan))


@given(st.lists(st.integers(-9, 9) | st.integers(-(10**12), 10**12), max_size=20))
def test_a_column_is_its_values_and_the_place_of_each(column: list[int]) -> None:
    found, codes = _coded(np.array(column, dtype=np.int64))
    assert found.tolist() == sorted(set(column))
    assert found[codes].tolist() == column


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
            for name in deciding() & settings_of_hardware(Draft(plan.document, plan.data)).keys():
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
