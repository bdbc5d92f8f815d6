"""Numbers at the edges; what must hold for every plan is in test_whole_space.py."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import planner
from planner.results.result import Result
from tests.conftest import read_data
from tests.strategies import Document, plans

SLOW = settings(
    max_examples=settings.default.max_examples // 8,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip

DENSE: Document = read_data("plans")["edges"]


def evaluated(document: Document, changes: dict[str, Any] | None = None) -> Result:
    return planner.load(document, set=changes or {}).evaluate()


def number(result: Result, key: str) -> Any:
    """The value of a quantity that must be there."""
    value = result[key].value
    assert isinstance(value, (int, Fraction, float)), f"{key} is {value}"
    return value


def faults(document: Document, changes: dict[str, Any]) -> str:
    with pytest.raises(planner.PlanError) as caught:
        evaluated(document, changes)
    return str(caught.value)


# Edges -------------------------------------------------------------------------------------


def test_everything_is_one() -> None:
    """One layer, head, device, token, word: 12 h^2 + 13 h of a layer, h of word and 2h of norm."""
    result = evaluated(DENSE, {
        "model.layers": 1, "model.hidden": 1, "model.vocab": 1, "model.attention.heads": 1,
        "cluster.devices": 1, "training.sequence_length": 1, "training.global_batch": 1,
        "training.tokens": 1,
    })  # fmt: skip
    # Attention 4 + 4, MLP 8 + 5, norms 4: 25; the embedding 1; the final norm 2.
    assert number(result, "parameters.total") == 28
    # Matmul weights 4 + 8 and the head's 1, six times; scores and values: 12 * s * h.
    assert number(result, "compute.flops_per_token") == 6 * 13 + 12
    assert number(result, "compute.training_flops") == 6 * 13 + 12
    each = planner.load(DENSE).plan.get("training.bytes.weight")
    assert number(result, "memory.weights") == each * 28
    assert number(result, "time.step_seconds") > 0


def test_a_million_devices() -> None:
    result = evaluated(DENSE, {"cluster.devices": 10**6, "training.global_batch": 10**6})
    one = evaluated(DENSE, {"cluster.devices": 1, "training.global_batch": 1})
    assert number(result, "time.step_seconds") == number(one, "time.step_seconds")
    assert number(result, "memory.weights") == number(one, "memory.weights")
    for key in ("time.tokens_per_second", "cost.total"):
        if result[key].value is not None and one[key].value is not None:
            factor = 10**6 if key != "cost.total" else 1
            assert number(result, key) == factor * number(one, key)


def test_a_quadrillion_parameters_by_size_and_by_shape() -> None:
    size = {**DENSE, "model": {"parameters": 10**15}}
    assert number(evaluated(size), "parameters.total") == 10**15
    shape = {
        "model.layers": 1000, "model.hidden": 288_000, "model.attention.heads": 2250,
        "model.vocab": 10**6, "cluster.devices": 10**6, "training.global_batch": 10**6,
        "parallelism.tensor": 1,
    }  # fmt: skip
    result = evaluated(DENSE, shape)
    h, layers = 288_000, 1000
    assert number(result, "parameters.total") == (
        layers * (12 * h * h + 13 * h) + 10**6 * h + 2 * h
    )
    assert result.verdict["fits"] is False


def test_a_price_of_zero_is_a_cost_of_zero_and_no_price_is_no_cost() -> None:
    result = evaluated(DENSE, {"cluster.price": "0 USD/h"})
    assert number(result, "cost.total") == 0
    unpriced = {"accelerator": "h100-sxm-80gb", "devices": 8}
    cost = evaluated({**DENSE, "cluster": unpriced})["cost.total"]
    assert cost.value is None


@pytest.mark.parametrize(("key", "value"), [
    ("model.layers", 0), ("model.hidden", 0), ("model.vocab", 0), ("cluster.devices", 0),
    ("training.sequence_length", 0), ("training.global_batch", 0), ("training.micro_batch", 0),
    ("parallelism.tensor", 0), ("training.tokens", 0), ("time.mfu", 0), ("model.layers", -1),
    ("model.layers", 1.5), ("model.layers", 10**6), ("model.hidden", 10**31),
    ("training.tokens", "1e400"), ("cluster.price", "-1 USD/h"), ("training.tokens", "1e-31"),
    ("cluster.price", "1e-300 USD/h"), ("training.dropout", 2), ("parallelism.zero", 4),
])  # fmt: skip
def test_beyond_the_edge_is_refused_at_its_place(key: str, value: Any) -> None:
    assert faults(DENSE, {key: value}).startswith(f"--set {key}=")


def test_a_name_of_layers_is_no_end_of_the_model() -> None:
    kinds = {"model.kinds": {"head": {}, "plain": {"mlp": {"intermediate": 8}}}}
    assert "cannot be called head" in faults(DENSE, kinds)


def test_floating_point_overflow_is_absence() -> None:
    """Where an estimate leaves what floats can hold, it is absent with the reason."""
    from planner.book.expressions import make_fraction, make_in_order, make_number
    from planner.book.quantity import Book, Quantity
    from planner.engine.evaluate import Absent, Case, Evaluation

    book, power = Book(), make_in_order("pow", (make_number(10**400), make_fraction(3, 2)))
    huge = Quantity("test.huge", symbol="x", unit="1", title="huge", book=book)
    huge.equals(power, "Beyond what floats can hold.")
    value = Evaluation(Case({}, {}, {}), book).trace_quantity("test.huge").value
    assert isinstance(value, Absent)
    assert "cannot be computed" in value.reason


@pytest.mark.slow
@SLOW
@given(plans())
def test_sharding_keeps_no_more_states(document: Document) -> None:
    states = [
        number(evaluated(document, {"parallelism.zero": stage}), "memory.optimizer")
        for stage in (0, 1)
    ]
    assert states[0] >= states[1]
    layout = document["parallelism"]
    ranks = document["cluster"]["devices"] // (layout["tensor"] * layout["pipeline"])
    assert states[1] * ranks >= states[0]
