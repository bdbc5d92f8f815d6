"""Quantities that a document defines: what their formulas come to, judged by Python's fractions,
and what is said of those that are wrong."""

from __future__ import annotations

import csv
import json
import pickle
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.base.errors import PlanError
from planner.report.explain import explain
from tests.conftest import RunCli, read_data

PLAN: dict[str, Any] = read_data("plans")["own_quantities"]


def result(**formulas: Any) -> Any:
    """The result of the plan with own quantities, each a formula or a whole definition."""
    said = {k: v if isinstance(v, dict) else {"formula": v} for k, v in formulas.items()}
    return planner.load({**PLAN, "quantities": said}).evaluate()


def fault(**formulas: Any) -> str:
    """The one line that is said of a plan with own quantities."""
    with pytest.raises(PlanError) as raised:
        result(**formulas)
    text = str(raised.value)
    assert "\n" not in text and len(text) < 1500
    return text


# -- worked out by hand ---------------------------------------------------------------------------


def test_values_by_hand() -> None:
    found = result(
        batch_tokens="training.global_batch * training.sequence_length",  # 32 * 128
        steps="training.tokens / batch_tokens",  # 1e9 / 4096
        share="parallelism.tensor / cluster.devices",  # 2 / 4
        per_head="model.hidden / model.attention.heads",  # 64 / 4
        rounded="ceil(steps / 1000) * 2^3 - -1",  # ceil(244.140625) * 8 + 1
        low="min(3, 1/2, 7) + max(1, 2) + abs(2 - 5) + floor(7/2)",  # 1/2 + 2 + 3 + 3
    )
    assert found["batch_tokens"].value == 4096
    assert found["steps"].value == Fraction(10**9, 4096)
    assert found["share"].value == Fraction(1, 2)
    assert found["per_head"].value == 16
    assert found["rounded"].value == 1961
    assert found["low"].value == Fraction(17, 2)
    names = ("batch_tokens", "steps", "share", "per_head", "rounded", "low")
    assert all(found[name].kind == "exact" for name in names)


def test_a_unit_is_one_of_the_dimension_and_values_are_converted() -> None:
    """4 devices at 3 USD an hour for 10 days of 24 hours are 2,880 USD; 1 GiB is 2^30 bytes."""
    found = result(
        rent={"formula": "cluster.price * cluster.devices * 10 days", "unit": "USD"},
        rent_anyhow="cluster.price * cluster.devices * 10 days",
        gib={"formula": "5 GiB + 1 MiB", "unit": "MiB"},
        hours={"formula": "1.5 days", "unit": "h"},
        seconds="1.5 days",
        per_million={"formula": "7 USD / training.tokens", "unit": "USD/Mtoken"},
        rate="90 GB / 3 s",
        root="sqrt(9 days^2)",
        nothing_less="max(0, memory.total - memory.total)",
    )
    assert found["rent"].value == found["rent_anyhow"].value == 2880
    assert found["rent_anyhow"].unit == "USD"
    assert found["gib"].value == 5 * 1024 + 1
    assert found["hours"].value == 36
    assert (found["seconds"].value, found["seconds"].unit) == (129600, "s")
    assert found["per_million"].value == Fraction(7, 1000)
    assert (found["rate"].value, found["rate"].unit) == (30 * 10**9, "bytes/s")
    assert found["root"].value == 777600 and found["root"].kind == "estimate"
    assert found["nothing_less"].value == 0


def test_it_is_as_sure_as_what_it_rests_on() -> None:
    found = result(sure="memory.weights / 2", assumed="cost.total / training.tokens * 1e9")
    assert found["memory.weights"].kind == "exact" == found["sure"].kind
    assert found["time.training_days"].kind == "assumed" == found["assumed"].kind
    assert found["assumed"].value == found["cost.total"].value


def test_an_interval_is_carried_through() -> None:
    """What is proportional to a time has the time's interval, times the factor; what falls with it
    has the ends the other way round."""
    document = {**PLAN, "time": {}, "quantities": read_data("plans")["own_of_days"]}
    found = planner.load(document).evaluate()
    low, high = found["time.training_days"].interval
    assert found["double"].interval == pytest.approx((2 * low, 2 * high))
    day = 86400
    assert found["inverse"].interval == pytest.approx((1 / (high * day), 1 / (low * day)))
    # A rate is what a step takes the reciprocal of: their product is sure.
    value = float(found["pace"].value)
    assert [float(end) for end in found["pace"].interval] == pytest.approx([value, value])
    assert found["sure"].interval is None


# -- random formulas, judged by Python's fractions ------------------------------------------------

VALUES = {
    "training.global_batch": 32,
    "parallelism.tensor": 2,
    "cluster.devices": 4,
    "model.attention.heads": 4,
    "training.tokens": 10**9,
}


@dataclass(frozen=True)
class Judged:
    """The text of a formula, and what it comes to: None where that is divided by nothing."""

    text: str
    value: Fraction | None


def _two(pair: tuple[str, Judged, Judged]) -> Judged:
    sign, one, other = pair
    text = f"({one.text}) {sign} ({other.text})"
    a, b = one.value, other.value
    if a is None or b is None or (sign == "/" and b == 0):
        return Judged(text, None)
    if sign == "/":
        return Judged(text, a / b)
    return Judged(text, {"+": a + b, "-": a - b, "*": a * b}[sign])


def _called(pair: tuple[str, list[Judged]]) -> Judged:
    name, inner = pair
    inner = inner if name in ("min", "max") else inner[:1]
    text = f"{name}({', '.join(one.text for one in inner)})"
    values = [one.value for one in inner]
    if any(value is None for value in values):
        return Judged(text, None)
    known = [value for value in values if value is not None]
    one = known[0]
    found: Fraction | int = {
        "min": min(known), "max": max(known), "abs": abs(one),
        "floor": one.numerator // one.denominator, "ceil": -(-one.numerator // one.denominator),
    }[name]  # fmt: skip
    return Judged(text, Fraction(found))


def _power(pair: tuple[Judged, int]) -> Judged:
    base, exponent = pair
    text = f"({base.text})^{exponent}" if exponent >= 0 else f"({base.text})**-{-exponent}"
    if base.value is None or (base.value == 0 and exponent <= 0):
        return Judged(text, None)
    return Judged(text, base.value**exponent)


LEAVES = st.one_of(
    st.integers(0, 9999).map(lambda n: Judged(f"{n / 1000:.3f}", Fraction(n, 1000))),
    st.sampled_from([Judged(name, Fraction(value)) for name, value in VALUES.items()]),
)
FORMULAS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from("+-*/"), inner, inner).map(_two),
        st.tuples(
            st.sampled_from(("min", "max", "abs", "floor", "ceil")),
            st.lists(inner, min_size=1, max_size=3),
        ).map(_called),
        st.tuples(inner, st.integers(-3, 3)).map(_power),
        inner.map(lambda one: Judged(f"-({one.text})", None if one.value is None else -one.value)),
    ),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(FORMULAS)
def test_random_formulas_come_to_what_fractions_come_to(formula: Judged) -> None:
    try:
        found = result(x=formula.text)["x"]
    except PlanError as error:
        told = str(error)
        assert "at most" in told or (formula.value is None and ("zero" in told or "0^0" in told))
        return
    small = formula.value is not None and (
        formula.value == 0 or Fraction(1, 10**300) <= abs(formula.value) <= 10**300
    )
    if not small:
        assert found.value is None and found.absent
    elif isinstance(found.value, float):  # a power of very many digits
        assert found.value == pytest.approx(float(formula.value or 0))
    else:
        assert found.value == formula.value
    assert isinstance(found.formula, str) and isinstance(found.substituted, str)


# -- what is wrong ----------------------------------------------------------------------------

NO = {
    "(" * 10_000: "at most 1000 characters",
    "(" * 400: "nested too deeply",
    **read_data("faults")["formulas"],
}


@pytest.mark.parametrize(("text", "said"), NO.items())
def test_a_formula_that_means_nothing_is_one_line(text: str, said: str) -> None:
    assert said in fault(x=text)


def test_a_very_long_formula_is_refused_at_once() -> None:
    before = time.process_time()
    assert "1000 characters" in fault(x="1+" * 1_000_000 + "1")
    assert time.process_time() - before < 5


@pytest.mark.parametrize(
    ("said", "wanted"),
    read_data("plans")["refused_quantities"],
)
def test_a_definition_that_means_nothing_is_one_line(said: Any, wanted: str) -> None:
    assert wanted in fault(x=said)


@pytest.mark.parametrize("name", ["a-b", "1a", "a b", "é", "хx", "cost.total", "max", "x" * 61, ""])
def test_a_name_that_is_taken_or_none_is_one_line(name: str) -> None:
    assert "name" in fault(**{name: "1"}) or "built-in name" in fault(**{name: "1"})


def test_a_circle_is_told_with_its_way() -> None:
    assert "a circle: a → b → c → a" in fault(a="b + 1", b="c", c="2 * a")
    assert "a circle: a → a" in fault(a="a")


def test_the_longest_chain_is_no_deeper_than_python_goes() -> None:
    """Up to the bound own quantities rest on each other; beyond it that is said."""
    most = 40
    chain = {f"x{n}": f"sqrt(x{n - 1})" if n else "cluster.devices" for n in range(most)}
    found = result(**chain)[f"x{most - 1}"]
    assert found.value == pytest.approx(1) and found.to_json()["kind"] == "estimate"
    copies = {f"x{n}": f"x{n - 1}" if n else "cost.total" for n in range(96)}
    found = result(**copies)
    assert found["x95"].value == found["cost.total"].value
    assert explain(found, "x95", depth=200).count("\n") > 90
    longer = {f"x{n}": f"x{n - 1} * 2" if n else "1" for n in range(100)}
    assert "written out" in fault(**longer)
    doubled = {f"x{n}": f"x{n - 1} * x{n - 1}" if n else "cluster.devices" for n in range(90)}
    assert "written out" in fault(**doubled)


def test_what_has_no_value_says_why() -> None:
    found = result(
        zero="1 / (cluster.devices - 4)",
        below="sqrt(0 - cluster.devices)",
        beyond="(training.tokens^32)^2",
        none="cluster.network.bandwidth / 1 GB * 1 s + energy.carbon / 1 gCO2e",
        upon="zero + 1",
    )
    assert found["zero"].absent == found["upon"].absent == "division by zero"
    assert "root of a negative" in found["below"].absent
    assert "10^±300" in found["beyond"].absent
    assert found["none"].absent
    assert "zero" not in found and found["zero"].value is None
    assert found.to_json()["absent"]["zero"] == "division by zero"


TEXT = read_data("plans")["faulty_quantities"]


@pytest.mark.parametrize(
    ("name", "place"),
    [("plain", "5:33"), ("quoted", "8:33"), ("folded", "12:7"), ("single", "13:37")],
)
def test_a_fault_stands_at_its_place_inside_the_formula(
    tmp_path: Path, name: str, place: str
) -> None:
    kept = TEXT.splitlines()
    start = next(i for i, line in enumerate(kept) if line.startswith(f"  {name}:"))
    others = ("plain", "quoted", "folded", "single")
    end = next((i for i in range(start + 1, len(kept)) if kept[i].strip().startswith(others)), 99)
    # Lines before it stay as comments, so that numbers of lines do.
    lines = [line if i < 4 or start <= i < end else f"# {line}" for i, line in enumerate(kept)]
    file = tmp_path / "plan.yaml"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(PlanError) as raised:
        planner.load(file)
    assert str(raised.value).startswith(f"{file}:{place}: quantities.{name}: "), raised.value


# -- documents do not meet ------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=2, max_size=5))
def test_one_name_means_what_each_document_says(factors: list[int]) -> None:
    """Several plans in one process, each with a formula of its own under one name, evaluated in
    turn and again, alone and after each other's graph."""
    plans = [
        planner.load({**PLAN, "quantities": {"x": {"formula": f"{n} * cluster.devices"}}})
        for n in factors
    ]
    from planner.results.result import evaluate_plan

    last = None
    for plan, factor in [*zip(plans, factors, strict=True), *zip(plans, factors, strict=True)]:
        last = evaluate_plan(plan.plan, like=last)
        assert last["x"].value == 4 * factor
        assert pickle.loads(pickle.dumps(plan.plan)).book.quantities["x"].own
    without = evaluate_plan(planner.load(PLAN).plan, like=last)
    assert "x" not in without and "x" not in without.evaluation.book.quantities


@pytest.mark.slow
def test_extends_merges_definitions_and_takes_some_away(tmp_path: Path) -> None:
    base = tmp_path / "base.yaml"
    base.write_text(
        "model: llama2-7b\ncluster: {accelerator: h100-sxm-80gb, devices: 8}\n"
        "training: {tokens: 1B, sequence_length: 4096}\n"
        "quantities:\n  one: {formula: '1 + 1', title: the first}\n  two: {formula: one + 1}\n"
    )
    own = tmp_path / "own.yaml"
    own.write_text("extends: base.yaml\nquantities:\n  one: {formula: '10'}\n")
    found = planner.load(own).evaluate()
    assert (found["one"].value, found["two"].value) == (10, 11)
    assert found["one"].title == "the first"
    own.write_text("extends: base.yaml\nquantities: {two: null, three: {formula: one * 5}}\n")
    found = planner.load(own).evaluate()
    assert found["three"].value == 10 and "two" not in found
    changed = planner.load(own, set={"quantities.one.formula": "7"}).evaluate()
    assert changed["three"].value == 35


# -- whole runs -----------------------------------------------------------------------------------

OWN = read_data("plans")["own_quantities_text"]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A plan with two quantities of its own."""
    file = tmp_path / "own.yaml"
    file.write_text(OWN)
    return file


@pytest.mark.slow
def test_reports_tell_it(run_cli: RunCli, own: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"own.{ending}" for ending in ("json", "md", "html")]
    run = run_cli(own, *(word for path in paths for word in ("-o", path)))
    assert run.returncode == 0
    assert "Cost of a billion tokens" in run.stdout and "usd_per_btok" in run.stdout
    said = json.loads(paths[0].read_text())["quantities"]["usd_per_btok"]
    cost = json.loads(paths[0].read_text())["quantities"]["cost.total"]["value"]
    assert said["value"] == pytest.approx(cost / 1e12 * 1e9)
    assert said["unit"] == "USD" and said["kind"] == "assumed" and not said["exact"]
    assert said["latex"] == r"\frac{1 \times 10^{9}\,\pi}{T}"
    assert said["uses"] == ["cost.total"]
    for path in paths[1:]:
        assert "Quantities of this plan" in path.read_text()
    assert run_cli("check", paths[1]).returncode == 0
    own.write_text(OWN.replace("* 1e9", "* 2e9"))
    moved = run_cli("check", paths[1])
    assert moved.returncode == 1 and "usd_per_btok" in moved.stdout


@pytest.mark.slow
def test_questions_take_it(run_cli: RunCli, own: Path, tmp_path: Path) -> None:
    """At 0.5 of its peak a run costs so much for an hour of a device; 5 USD for a billion tokens
    are reached at the price that is in the same proportion."""
    plan = planner.load(own)
    now = plan.evaluate()["usd_per_btok"].number
    found = plan.solve(vary="cluster.price", until=["usd_per_btok<=5"])
    assert float(found.holds.value) == pytest.approx(float(2 * 5 / now), rel=1e-4)
    assert found.holds.value <= 2 * 5 / now < found.fails.value
    run = run_cli("solve", own, "--vary", "cluster.price", "--until", "usd_per_btok<=5 USD")
    assert run.returncode == 0 and "usd_per_btok <= 5 USD" in run.stdout
    for asked, said in {
        "usd_per_btk<=5": "did you mean 'usd_per_btok'",
        "usd_per_btok<=5 GiB": "is bytes",
        "usd_per_btok<=banana": "is not a quantity",
    }.items():
        wrong = run_cli("solve", own, "--vary", "cluster.price", "--until", asked)
        assert wrong.returncode == 2 and said in wrong.stderr
        assert wrong.stderr.count("\n") == 1
    assert "usd_per_btok" in run_cli("explain", own, "usd_per_btok").stdout
    elasticity = run_cli("sensitivity", own, "usd_per_btok", "--top", "3").stdout
    assert "+1.0 %  cluster.price" in elasticity
    less = run_cli("diff", own, own, "--format", "md")
    assert less.returncode == 0


@pytest.mark.slow
def test_a_search_ranks_by_it_as_by_what_it_is_a_multiple_of(own: Path) -> None:
    """Of one run the cost of a token and the cost are the same order of layouts, by factor."""
    plan = planner.load(own, set={"time.mfu": None, "cluster.devices": 16})
    by_cost = plan.search(top=5, by="cost.total")
    by_own = plan.search(top=5, by="usd_per_btok")
    assert [layout.values["usd_per_btok"] for layout in by_own.best] == pytest.approx(
        [layout.values["cost.total"] / 1000 for layout in by_cost.best]
    )


def test_a_study_records_it(run_cli: RunCli, own: Path, tmp_path: Path) -> None:
    study, table = tmp_path / "study.yaml", tmp_path / "out.csv"
    study.write_text(
        "base: own.yaml\naxes: {cluster.price: [1 USD/h, 3 USD/h], parallelism.tensor: [1, 2]}\n"
        "record: [usd_per_btok, cost.total, share]\nwhere: ['usd_per_btok <= 1000']\n"
        "invalid: keep\n"
    )
    assert run_cli("sweep", study, "-o", table).returncode == 0
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    for row in rows:
        assert float(row["usd_per_btok"]) == pytest.approx(float(row["cost.total"]) / 1000)
    study.write_text(study.read_text().replace("usd_per_btok,", "usd_per_btk,"))
    wrong = run_cli("sweep", study, "-o", table)
    assert wrong.returncode == 2 and "did you mean 'usd_per_btok'" in wrong.stderr


def test_validate_says_where(run_cli: RunCli, own: Path) -> None:
    own.write_text(OWN.replace("cost.total /", "cost.totl /"))
    run = run_cli("validate", own)
    assert run.returncode == 2
    assert run.stderr.startswith(f"{own}:9:14: quantities.usd_per_btok: unknown name 'cost.totl'")
