"""What must hold for every plan: any shipped model on any shipped hardware, run and laid out in any
way that a schema lists. `--hypothesis-profile=long` tries fifty times as many (make fuzz)."""

from __future__ import annotations

import itertools
import json
import math
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import planner
from planner.book import formulas
from planner.book.quantity import BOOK
from planner.questions.constraints import is_stage_sum
from planner.results.result import Result
from tests.strategies import Document, plans, wide_plans
from tests.strategies import settings as every_setting

Wide = tuple[Document, dict[str, Any]]
#: Some by default, thirty times as many in the long profile.
MANY = settings(
    max_examples=settings.default.max_examples // 8,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # to shrink an example takes minutes
)  # fmt: skip
#: Half of the examples are small plans, which take less time.
PLANS = wide_plans() | plans().map(
    lambda plan: (plan, {"time.mfu": 0.4, "training.tokens": plan["training"]["tokens"]})
)
assert formulas  # what fills the book
SCALARS = [name for name, first in BOOK.quantities.items() if not first.per]
RECORDED = [name for name in SCALARS if not is_stage_sum(name)]
PLAIN = (int, Fraction, float)


def evaluated(plan: Wide, **more: Any) -> Result:
    """The result; a plan that is refused, as a fault, is no example."""
    document, chosen = plan
    try:
        return planner.load(document, set={**chosen, **more}).evaluate()
    except planner.PlanError as error:
        assert error.faults
        assume(False)
        raise


def value(result: Result, identifier: str) -> Any:
    """The value; None where it is absent, which has a reason."""
    quantity = result.find(identifier)
    assert (quantity.absent is None) == (quantity.value is not None), identifier
    assert quantity.absent is None or quantity.absent.strip(), identifier
    return quantity.value


def numbers(result: Result) -> dict[str, Any]:
    return {i: v for i in SCALARS if isinstance(v := value(result, i), PLAIN)}


@pytest.mark.slow
@MANY
@given(PLANS)
def test_every_number_is_finite_and_of_its_kind(plan: Wide) -> None:
    result = evaluated(plan)
    found = numbers(result)
    for identifier, number in found.items():
        assert math.isfinite(number), identifier
        if not identifier.startswith(("memory.headroom", "memory.left")):  # none where it is short
            assert number >= 0, f"{identifier} is {number}"
        if BOOK.quantities[identifier].unit == "bytes" and result[identifier].exact:
            assert not isinstance(number, float), identifier
    assert found.get("time.mfu", 0) <= 1
    if "time.mfu" not in plan[1]:  # an assumed one may leave too little for what is recomputed
        assert found.get("time.hfu", 0) <= 1


@pytest.mark.slow
@MANY
@given(PLANS)
def test_nothing_is_lost_or_made(plan: Wide) -> None:
    result = evaluated(plan)
    found = numbers(result)
    assert found["parameters.total"] == sum(
        found[f"parameters.{part}"] for part in ("embedding", "head", "non_embedding")
    )
    assert found["parameters.active"] <= found["parameters.total"]
    if "compute.training_flops" in found:
        assert found["compute.training_flops"] == (
            plan[1].get("training.tokens", 10**9) * found["compute.flops_per_token"]
        )
    live = [found.get(f"memory.{part}", 0) for part in
            ("weights", "gradients", "optimizer", "cache", "activations", "buffers")]  # fmt: skip
    assert found["memory.weights"] <= found["memory.total"] <= math.ceil(sum(live))
    assert found["memory.total"] <= found["memory.reserved"] <= found["memory.process"]
    assert found["memory.headroom"] == found["memory.capacity"] - found["memory.process"]
    assert found["memory.headroom_p95"] == found["memory.capacity"] - found["memory.at_worst"]
    assert found["memory.process"] <= found["memory.at_worst"]
    assert result.verdict["fits"] is (found["memory.left"] >= 0)
    safe = found["memory.headroom_p95"] >= 0
    states = {True: ("fits",) if safe else ("tight",), False: ("no",)}
    assert result.verdict["state"] in states[result.verdict["fits"]]
    if "time.tokens_per_second" in found:
        each = found["time.tokens_per_second_per_device"]
        assert float(found["time.tokens_per_second"]) == pytest.approx(
            float(each * plan[0]["cluster"]["devices"]), rel=1e-12
        )


@pytest.mark.slow
@MANY
@given(PLANS, st.integers(2, 9))
def test_a_longer_run_takes_and_costs_in_proportion(plan: Wide, times: int) -> None:
    tokens = plan[1].get("training.tokens", 10**9)
    short = numbers(evaluated(plan))
    long = numbers(evaluated(plan, **{"training.tokens": tokens * times}))
    assert short.keys() == long.keys()
    for identifier, number in long.items():
        factor = Fraction(number) / Fraction(short[identifier]) if short[identifier] else 1
        assert factor in (1, times) or float(factor) == pytest.approx(times, rel=1e-12), identifier
    for identifier in ("compute.training_flops", "time.training_days", "cost.total"):
        if short.get(identifier):
            assert long[identifier] != short[identifier], identifier


#: A value of a key that is then doubled, and what does not shrink with it.
GROWS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "training.micro_batch": (1, ("memory.total", "memory.process")),
    "training.sequence_length": (128, ("compute.training_flops",)),
    "training.bytes.master": (2, ("memory.optimizer", "memory.total")),
    "memory.other": (10**9, ("memory.process",)),
    "memory.allocator_share": (0.1, ("memory.reserved", "memory.process")),
    "memory.margin": (0.5, ("memory.at_worst",)),
}


@pytest.mark.slow
@MANY
@given(PLANS, st.sampled_from(sorted(GROWS)))
def test_more_of_it_takes_no_less(plan: Wide, key: str) -> None:
    least, ids = GROWS[key]
    batch = plan[0]["training"]["global_batch"]
    # As many steps of accumulation: with one only, gradients come when activations go.
    larger = {"training.global_batch": 2 * batch} if key == "training.micro_batch" else {}
    small = numbers(evaluated(plan, **{key: least}))
    large = numbers(evaluated(plan, **{key: 2 * least, **larger}))
    for identifier in ids:
        if identifier in small:
            assert large[identifier] >= small[identifier], identifier


@pytest.mark.slow
@MANY
@given(PLANS)
def test_more_recomputation_keeps_no_more(plan: Wide) -> None:
    for key in ("training.recompute_layers", "training.recompute_modules"):
        plan[1].pop(key, None)
    kept = [
        value(evaluated(plan, **{"training.recompute": mode}), "memory.activations")
        for mode in ("none", "selective", "full")
    ]
    assert kept == sorted(kept, reverse=True)


def with_changes(plan: Wide, more: dict[str, Any]) -> Document:
    """The document with the changes written into it."""
    document = json.loads(json.dumps(plan[0]))
    for key, changed in {**plan[1], **more}.items():
        *sections, last = key.split(".")
        node = document
        for section in sections:
            node = node.setdefault(section, {})
        node[last] = changed
    return dict(document)


@st.composite
def axes(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Two keys of a plan, each with some values."""
    known = {key: values for key, values in every_setting().items() if len(values) > 1}
    keys = draw(st.lists(st.sampled_from(sorted(known)), min_size=1, max_size=2, unique=True))
    several = st.lists(st.integers(0, 9), min_size=2, max_size=3, unique=True)
    return {
        key: [known[key][at] for at in sorted({n % len(known[key]) for n in draw(several)})]
        for key in keys
    }


def same(result: Result, shown: dict[str, Any], told: Any, names: list[str]) -> None:
    """Whether doubles are the exact numbers, and nothing is where one is absent."""
    for identifier in names:
        wanted, found = value(result, identifier), shown.get(identifier)
        if isinstance(wanted, PLAIN) and wanted:
            assert found == pytest.approx(float(wanted), rel=1e-9, abs=0), (identifier, told)
        else:
            assert found == wanted, (identifier, told)


@pytest.mark.slow
@MANY
@given(PLANS, axes())
def test_a_study_computes_what_each_plan_gives(plan: Wide, varied: dict[str, list[Any]]) -> None:
    """The compiled form, over arrays: the exact numbers to double precision, nothing where one is
    absent, a reason where there is no such plan."""
    from planner.questions.studies import study as studies
    from planner.questions.studies.run import sweep

    try:
        study = studies.read_study(
            {"base": with_changes(plan, {}), "axes": varied, "record": RECORDED}
        )
    except planner.PlanError as error:
        assert error.faults
        assume(False)
        raise
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "out.jsonl"
        sweep(study, table, workers=1)
        rows = [json.loads(line) for line in table.read_text("utf-8").splitlines()]
    points = list(itertools.product(*varied.values()))
    assert len(rows) == len(points)
    for row, point in zip(rows, points, strict=True):
        changed = dict(zip(varied, point, strict=True))
        try:
            exact = planner.load(with_changes(plan, changed)).evaluate()
        except planner.PlanError as error:
            assert row["reason"], (changed, str(error))
            assert all(row.get(identifier) is None for identifier in RECORDED), changed
        else:
            same(exact, row, (changed,), RECORDED)


@pytest.mark.slow
@MANY
@given(PLANS, st.data())
def test_a_varied_input_gives_what_a_new_evaluation_gives(plan: Wide, data: st.DataObject) -> None:
    from planner.engine.evaluate import Absent, Evaluation

    whole = evaluated(plan).evaluation
    ids = ("time.training_days", "memory.process", "cost.total", "compute.training_flops")

    def found(evaluation: Evaluation, identifier: str) -> Any:
        try:
            return evaluation.value(identifier)
        except Absent as absent:
            return absent.reason

    for identifier in ids:
        found(whole, identifier)
    numeric = {
        symbol: bound
        for symbol, bound in whole.case.bindings.items()
        if isinstance(bound, (int, Fraction)) and not isinstance(bound, bool) and bound
    }
    for symbol in data.draw(st.lists(st.sampled_from(list(numeric)), min_size=3, max_size=3)):
        more = numeric[symbol] * Fraction(11, 10)
        other = replace(whole.case, bindings={**whole.case.bindings, symbol: more})
        anew, varied = Evaluation(other, whole.book), whole.change_input(symbol, more)
        for identifier in ids:
            assert found(varied, identifier) == found(anew, identifier), (symbol, identifier)
