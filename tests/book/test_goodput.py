"""The run around the step against Daly's formula, written out again, and its laws."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.documents import references, source
from planner.engine.instance import compute_values
from planner.plans.plan import variant
from planner.questions.loading import load
from tests.changed import changed
from tests.conftest import read_data

VALID = Path(__file__).parents[1] / "documents" / "valid" / "run_around_the_step.yaml"
META: dict[str, Any] = read_data("book")["goodput_of_meta"]


def daly(between: float, write: float, restart: float, interval: float) -> float:
    """Daly 2006: days of the run over days of solving, for an interval between dumps."""
    return (
        between
        * math.exp(restart / between)
        * (math.exp((interval + write) / between) - 1)
        / interval
    )


def best(between: float, write: float) -> float:
    """The interval of the fewest days, by ternary search."""
    low, high = between / 1e9, 3 * between
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        if daly(between, write, 0, a) < daly(between, write, 0, b):
            high = b
        else:
            low = a
    return low


def values(changes: dict[str, Any], document: Any = META) -> Any:
    result = planner.load(document, set=changes).evaluate()
    return lambda name: float(result[name].number)


@pytest.mark.parametrize("devices", [256, 16384, 65536, 262144])
@pytest.mark.parametrize("storage", ["1 GB/s", "50 GB/s", "2 TB/s"])
@pytest.mark.parametrize("restart", ["0 s", "15 min"])
def test_days_are_dalys(devices: int, storage: str, restart: str) -> None:
    keys = {
        "cluster.devices": devices,
        "cluster.storage.bandwidth": storage,
        "time.restart": restart,
    }
    of = values(keys)
    between, write = of("time.between_failures"), of("checkpoint.write_seconds")
    assert between == pytest.approx(54 * 86400 * 16384 / (419 * devices))
    wait = 0 if restart == "0 s" else 900
    slower = daly(between, write, wait, of("checkpoint.interval_seconds"))
    assert of("time.run_days") == pytest.approx(of("time.training_days") * slower, rel=1e-9)
    assert of("time.goodput") == pytest.approx(1 / slower, rel=1e-9)
    # No interval has clearly fewer days than the one that is taken.
    least = daly(between, write, wait, best(between, write))
    assert least <= slower * (1 + 1e-9) and slower <= least * 1.01
    parts = ("time.training_days", "time.checkpoint_days", "time.failure_days")
    assert of("time.run_days") == pytest.approx(sum(map(of, parts)))
    assert all(of(part) >= 0 for part in parts)


def test_young_is_the_limit_of_few_interruptions() -> None:
    of = values({"cluster.devices": 16, "cluster.storage.bandwidth": "100 TB/s"})
    between, write = of("time.between_failures"), of("checkpoint.write_seconds")
    assert of("checkpoint.interval_seconds") == pytest.approx(math.sqrt(2 * write * between), 1e-3)
    interval = of("checkpoint.interval_seconds")
    first_order = 1 - write / interval - (interval / 2 + 900) / between
    assert of("time.goodput") == pytest.approx(first_order, abs=1e-5)


def test_a_run_that_cannot_finish_says_so() -> None:
    long = {"cluster.devices": 262144, "time.restart": "4 h", "cluster.price": "2 USD/h"}
    result = planner.load(META, set=long).evaluate()
    for name in ("time.goodput", "time.run_days", "cost.run"):
        assert result[name].value is None and "cannot finish" in (result[name].absent or "")
    assert result["time.training_days"].value
    never = planner.load(META, set={"cluster.failures.count": 0}).evaluate()
    assert "no interruption" in (never["time.goodput"].absent or "")


def test_checkpoints_in_the_background_cost_less_and_lose_what_is_not_written() -> None:
    slow = {"cluster.storage.bandwidth": "20 GB/s"}
    waiting, beside = values(slow), values({**slow, "cluster.storage.blocking": "5%"})
    stalls = [of("checkpoint.stall_seconds") for of in (beside, waiting)]
    assert stalls[0] == pytest.approx(stalls[1] / 20)
    assert beside("time.run_days") < waiting("time.run_days")
    between, write = waiting("time.between_failures"), waiting("checkpoint.write_seconds")
    interval = beside("checkpoint.interval_seconds")
    assert interval >= write * 0.95
    slower = daly(between, write / 20, 900 + write * 0.95, interval)
    assert beside("time.run_days") == pytest.approx(beside("time.training_days") * slower)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("blocking", [0, 0.25, 1])
@pytest.mark.parametrize("storage", ["1 GB/s", "0.3 GB/s"])
def test_slow_checkpoints_are_as_a_run_with_drawn_interruptions(
    storage: str, blocking: float
) -> None:
    """A run is played whose checkpoints take half of the time between interruptions, or 1.7 times
    that: restart, train, write beside training what does not block, train on. The
    first stretch of training is the one of which the most is kept."""
    import numpy as np

    of = values({"cluster.storage.bandwidth": storage, "cluster.storage.blocking": blocking})
    between, write = of("time.between_failures"), of("checkpoint.write_seconds")
    interval, stall = of("checkpoint.interval_seconds"), of("checkpoint.stall_seconds")
    lasted = np.random.default_rng(1).exponential(between, 400_000)

    def kept(first: float) -> float:
        """Seconds of training that checkpoints hold when the next interruption comes, on average"""
        after = np.floor((lasted - 900 - first - write) / (interval + stall))
        return float(np.where(after >= 0, first + after * interval, 0).mean())

    most = max(kept(share * interval) for share in np.linspace(0, 1, 41))
    assert of("time.goodput") * between == pytest.approx(most, rel=0.02)


def test_a_background_that_takes_long_is_no_worse_than_standing_still() -> None:
    """Whoever may train while a checkpoint is written can also stand still."""
    for storage in ("20 GB/s", "1 GB/s", "0.3 GB/s", "0.1 GB/s"):
        days = [
            values({"cluster.storage.bandwidth": storage, "cluster.storage.blocking": share})(
                "time.run_days"
            )
            for share in (0, Fraction(1, 100), Fraction(1, 2), Fraction(99, 100), 1)
        ]
        assert days == sorted(days) and days[0] < days[-1]


def test_where_no_number_is_small_enough_the_run_cannot_finish() -> None:
    never = planner.load(META, set={"cluster.storage.bandwidth": "1 B/s"}).evaluate()
    for name in ("time.goodput", "time.run_days"):
        assert "the run cannot finish" in (never[name].absent or "")


SHIPPED = [
    name
    for name in references.preset_names("cluster")
    if "failures" in source.load({"cluster": name}, kind="plan").data["cluster"]
]
QUANTITIES = ("time.goodput", "time.run_days", "cost.run")
#: By key: values in the order in which a run can only become longer and dearer.
WORSE = {
    "cluster.failures.count": st.integers(1, 10**9),
    "cluster.failures.period": st.floats(-3e9, -1e-3),
    "time.restart": st.floats(0, 1e7),
    "cluster.storage.bandwidth": st.floats(-1e15, -1e3),
    "cluster.storage.blocking": st.floats(0, 1),
    "cluster.price": st.floats(0, 1e4),
}


def told(plan: Any) -> list[float] | None:
    try:
        return [float(value) for value in compute_values(plan, QUANTITIES).values()]
    except planner.PlanError as error:
        assert "cannot finish" in str(error)
        return None


def keyed(key: str, value: Any) -> Any:
    return Fraction(abs(value)) if key != "cluster.failures.count" else value


@pytest.mark.slow
@pytest.mark.parametrize("cluster", SHIPPED)
@settings(max_examples=40)
@given(data=st.data())
def test_what_is_worse_never_makes_a_run_shorter_or_cheaper(cluster: str, data: Any) -> None:
    """Failures, restarts, storage and prices over the whole domain of the schema."""
    base = load({**META, "cluster": {"extends": cluster, "price": "2 USD/h"}})
    start = {key: keyed(key, data.draw(values)) for key, values in WORSE.items()}
    start["cluster.devices"] = 16 * 2 ** data.draw(st.integers(0, 10))
    key = data.draw(st.sampled_from(sorted(WORSE)))
    low, high = sorted((data.draw(WORSE[key]), data.draw(WORSE[key])))
    better = told(variant(base, {**start, key: keyed(key, low)}))
    worse = told(variant(base, {**start, key: keyed(key, high)}))
    for found in (better, worse):
        if found is not None:
            goodput, days, cost = found
            assert 0 < goodput <= 1 and days > 0 and cost >= 0
    if better is None:
        assert worse is None or key == "cluster.price"
    elif worse is not None:
        slack = 1 + 1e-9
        assert worse[0] <= better[0] * slack
        assert worse[1] >= better[1] / slack and worse[2] >= better[2] / slack


@pytest.mark.parametrize("cluster", SHIPPED)
def test_more_devices_lose_more_and_cost_more(cluster: str) -> None:
    base = load({**META, "cluster": {"extends": cluster, "price": "2 USD/h"}})
    found = [
        told(variant(base, {"cluster.devices": 16 * 2**i, "training.global_batch": 16384}))
        for i in range(15)
    ]
    rows = [row for row in found if row is not None]
    assert len(rows) >= 12 and None not in found[: len(rows)]
    for (good, _, cost), (better, _, dearer) in pairwise(rows):
        assert better <= good and dearer >= cost * (1 - 1e-9)


def test_every_way_to_evaluate_agrees() -> None:
    """Exactly, over floats, over arrays, and by its slope."""
    import numpy as np

    from planner.engine import instance as case
    from planner.engine.evaluate import Evaluation
    from planner.engine.run import slopes
    from tests.over_arrays import over_column

    plan = load(META, {"cluster.price": "2 USD/h"})
    built = case.build(plan)
    evaluation, floats = Evaluation(built), Evaluation(built, exact=False)
    nodes, goodput = evaluation.graph.nodes, evaluation.get_values(QUANTITIES)["time.goodput"]
    symbol = next(symbol for symbol in built.bindings if symbol.name == "t_res")
    moved = [Fraction(value) for value in (0, 900, 3600)]
    column = np.array([float(value) for value in moved])
    many = {name: over_column(evaluation, name, symbol, column) for name in QUANTITIES}
    for place, restart in enumerate(moved):
        for name, wanted in compute_values(
            variant(plan, {"time.restart": restart}), QUANTITIES
        ).items():
            for one in (evaluation, floats):
                run = one.change_input(symbol, restart).value(name)
                assert float(run) == pytest.approx(float(wanted), rel=1e-12)
            assert float(many[name][place]) == pytest.approx(float(wanted), rel=1e-12)
    found = slopes(nodes, evaluation.values, evaluation.instance("time.goodput", {}))
    slope = float(found[nodes.index(("input", (symbol,)))])
    between = float(compute_values(plan, ["time.between_failures"])["time.between_failures"])
    # Goodput falls by e to the power of the restart over the time between interruptions.
    assert slope == pytest.approx(-float(goodput) / between, rel=1e-9)


@pytest.mark.slow
def test_a_search_says_that_the_run_cannot_finish() -> None:
    slow = {"cluster.devices": 262144, "time": {"restart": "4 h"}}
    with pytest.raises(planner.PlanError, match="cannot finish"):
        planner.load(META, set=slow).search(by="time.run_days")


@pytest.mark.parametrize("period", ["9790 days", "320000000 days", "8040000000000 days"])
def test_hardly_any_interruption_leaves_all_of_the_time(period: str) -> None:
    """A share near 1 is one, however roots and exponentials are rounded."""
    document = changed(read_data("plans")["hardly_fails"], {"cluster.failures.period": period})
    goodput = compute_values(load(document), ["time.goodput"])["time.goodput"]
    assert 1 - 1e-12 <= goodput <= 1
