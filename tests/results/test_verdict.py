"""What is said of a number: whether it fits, surely or just, and how it is known."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import planner
from planner import PlanError
from planner import report as render
from planner.questions.constraints import Limit, fit_limit
from planner.questions.studies.points import _CODES, STATES
from planner.report.answer import answer_of, gib
from planner.results.result import Result
from planner.results.verdict import VERDICTS, decide_state
from tests.conftest import ROOT, read_data

PLAN = ROOT / "presets" / "llama70b_h100x1024.yaml"
SIZE = read_data("plans")["size_of_7b"]


def evaluated(**changes: Any) -> Result:
    return planner.load(PLAN, {key.replace("__", "."): v for key, v in changes.items()}).evaluate()


def with_capacity(capacity: int, margin: str = "20%") -> Result:
    return evaluated(cluster__accelerator__memory_usable=capacity, memory__margin=margin)


PROCESS, NEEDED = (int(evaluated()[f"memory.{name}"].number) for name in ("process", "needed"))
AT_WORST = -(-NEEDED * 12 // 10)  # above the process, which has 5 % of cache


@pytest.mark.parametrize(
    ("capacity", "state", "fits"),
    [
        (NEEDED - 1, "no", False),
        (NEEDED, "tight", True),  # the cache of PyTorch's allocator is given back
        (PROCESS - 1, "tight", True),
        (PROCESS, "tight", True),
        (AT_WORST - 1, "tight", True),
        (AT_WORST, "fits", True),
    ],
)
def test_a_plan_fits_is_tight_or_does_not_fit_to_the_byte(
    capacity: int, state: str, fits: bool
) -> None:
    result = with_capacity(capacity)
    assert result.verdict == {"fits": fits, "state": state, "reason": None}
    assert result["memory.at_worst"].number == AT_WORST
    assert result["memory.headroom_p95"].number == capacity - AT_WORST
    assert result["memory.headroom"].number == capacity - PROCESS
    assert state != "fits" or result["memory.process"].interval[1] <= capacity
    # The verdict, the row and the bar say one number; the bar's parts sum to it.
    needs = PROCESS if capacity >= PROCESS else NEEDED
    answer = answer_of(result)
    row = next(row for row in answer.numbers if row.id.startswith("memory."))
    assert gib(needs) in "".join(words for words, _ in answer.sentence)
    assert row.number == gib(needs) == answer.memory.total
    assert answer.memory.id == row.id
    assert answer.memory.free == gib(abs(capacity - needs))
    widths = sum(float(part.width) for part in answer.memory.segments)
    whole = max(capacity, needs, int(result[row.id].interval[1]))
    assert widths == pytest.approx(100 * needs / whole, abs=0.1)


@pytest.mark.parametrize(
    ("document", "changes", "missing"),
    [
        (SIZE, {}, "model shape"),
        (SIZE, {"model": "llama3-8b", "model.max_sequence": None,
                "training.sequence_length": None}, "sequence length"),
    ],
)  # fmt: skip
def test_an_open_verdict_names_what_is_missing(
    document: dict[str, Any], changes: dict[str, Any], missing: str
) -> None:
    result = planner.load(document, changes).evaluate()
    verdict = json.loads(render.as_text(result, "json"))["verdict"]
    assert verdict["state"] == "open"
    assert verdict["reason"].startswith(f"memory: {missing}")
    for how in ("text", "md", "html"):
        text = render.as_text(result, how)
        word = "NOT ENOUGH INPUT" if how == "text" else "Not enough input"
        assert f"{word} ({verdict['reason']})" in text


def test_without_a_shape_it_is_open_whether_it_fits_unless_the_states_alone_do_not() -> None:
    small = planner.load(SIZE).evaluate()
    assert small.verdict["state"] == "open"
    assert "shape" in small.verdict["reason"]
    large = planner.load(SIZE, {"model.parameters": "700B"}).evaluate()
    assert large.verdict == {"fits": False, "state": "no", "reason": None}


def test_without_a_margin_a_plan_is_tight_where_its_cache_does_not_fit() -> None:
    assert with_capacity(PROCESS - 1, "0").verdict["state"] == "tight"
    assert with_capacity(PROCESS, "0").verdict["state"] == "fits"


def test_a_margin_in_words_is_a_limit() -> None:
    plan = planner.load(PLAN).plan
    capacity = Fraction(plan.get("cluster.accelerator.memory_usable"))
    assert fit_limit("p95", plan) == Limit("memory.headroom_p95", ">=", 0)
    assert fit_limit("0", plan) == fit_limit(" 0% ", plan) == Limit("memory.headroom", ">=", 0)
    assert fit_limit("5%", plan) == Limit("memory.process", "<=", capacity / Fraction(105, 100))
    assert fit_limit("0.05", plan) == fit_limit("5%", plan)


@pytest.mark.parametrize("text", ["p96", "-5%", "", "5 GiB", "tight"])
def test_anything_else_is_no_margin(text: str) -> None:
    with pytest.raises(PlanError, match="margin") as raised:
        fit_limit(text, planner.load(PLAN).plan)
    assert "p95, a share such as 5%, or 0" in str(raised.value)


def test_the_question_of_the_lecture_is_answered_by_hand() -> None:
    """CS336 2025, lecture 2: 6 x 70e9 x 15e12 FLOP at half of 1,024 dense peaks of 1,979 / 2
    TFLOP/s."""
    days = 6 * 70e9 * 15e12 / (1024 * 1979e12 / 2 * 0.5) / 86400
    assert f"{days:.2f}" == "143.93"
    found = planner.load(ROOT / "presets" / "cs336_70b_h100x1024.yaml").evaluate()
    assert float(found["time.training_days"].number) == pytest.approx(days, rel=1e-12)
    assert found["time.training_days"].kind == "assumed"
    assert found["time.training_days"].alternative is None
    assert found.verdict["state"] == "open"


def test_the_first_plan_that_ships_predicts_and_fits_at_worst() -> None:
    found = planner.load(PLAN).evaluate()
    assert found.plan.get("time.mfu") is None
    assert found["time.training_days"].kind == "estimate"
    assert found.verdict["state"] == "fits"


# -- how a number is known ----------------------------------------------------------------------

PLANS = sorted((ROOT / "presets").glob("*.yaml"))
#: What a plan may say about a run that has not been, with two values.
ASSUMPTIONS = read_data("plans")["assumptions"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("key", ASSUMPTIONS)
@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_nothing_that_moves_with_an_assumption_is_called_exact(path: Path, key: str) -> None:
    base: dict[str, Any] = {} if key == "time.mfu" else {"time.mfu": None}
    first, second = (
        planner.load(path, base | {key: value}).evaluate().quantities for value in ASSUMPTIONS[key]
    )
    for identifier, quantity in first.items():
        assert quantity.exact is (quantity.kind == "exact")
        if quantity.value != second[identifier].value:
            assert quantity.kind == "assumed", identifier


def test_a_prediction_is_an_estimate_and_arithmetic_on_facts_is_exact() -> None:
    found = evaluated(time__mfu=None)
    for identifier, kind in read_data("results")["kinds_of_quantities"].items():
        assert found[identifier].kind == kind, identifier
    # Experts that get equal shares are what is counted; another share is somebody's assumption.
    equal = planner.load(PLAN.with_name("mixtral8x7b_h100x1024.yaml")).evaluate()
    assert equal["memory.process"].kind == "estimate"


def test_what_was_read_off_is_measured_and_restating_a_default_assumes_nothing() -> None:
    plan = planner.load(PLAN, {"time.mfu": None}).plan
    default = plan.get("time.efficiency.matmul")
    again = evaluated(time__mfu=None, time__efficiency__matmul=float(default))
    assert again["time.step_seconds"].kind == "estimate"
    sustained = evaluated(time__mfu=None, cluster__network__sustained="300 Gb/s")
    assert sustained["network.fabric"].kind == "measured"
    assert sustained["network.fabric"].exact is False
    assert evaluated(time__mfu=None)["network.fabric"].kind == "estimate"
    assert sustained["time.step_seconds"].kind == "estimate"


@pytest.mark.slow
def test_every_result_is_what_its_schema_says() -> None:
    for changes in ({"time.mfu": 0.5, "time.use": "assumed"}, {"time.mfu": None}):
        result = planner.load(PLAN, changes).evaluate().to_json()
        kinds = {quantity["kind"] for quantity in result["quantities"].values()}
        assert kinds <= {"exact", "measured", "estimate", "assumed"}
        assert ("assumed" in kinds) is (changes["time.mfu"] is not None)
        assert result["verdict"]["state"] in ("fits", "tight", "no", "open")


def test_one_rule_decides_for_a_plan_and_for_the_rows_of_a_study() -> None:
    """By what is known of its memory; nothing else distinguishes two points."""
    for fits in (None, False, True):
        for shaped in (False, True):
            for safe in (False, True):
                state = decide_state(fits, shaped, safe)
                code = _CODES[0 if fits is None else fits + 1, int(shaped), int(safe)]
                assert STATES[code] == state and state in VERDICTS
    assert decide_state(True, True, True) == "fits"
    assert decide_state(True, True, False) == "tight"
    assert decide_state(False, False, True) == "no"  # the states alone are too large
    assert decide_state(True, False, True) == decide_state(None, True, True) == "open"


def test_all_outputs_have_a_word_for_every_verdict() -> None:
    words = [verdict.word for verdict in VERDICTS.values()]
    assert {*VERDICTS} == {*STATES} - {None} and len({*words}) == len(VERDICTS)
    for verdict in VERDICTS.values():
        assert all(verdict.word.upper() in said or "FIT" in said for said in verdict.still)
