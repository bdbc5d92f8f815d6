"""What must hold for every plan: any shipped model on any shipped hardware, run and laid out in any
way that a schema lists. `--hypothesis-profile=long` tries fifty times as many (make fuzz)."""

from __future__ import annotations

import itertools
import json
import math
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

import planner
from planner.base import resources
from planner.book import formulas
from planner.book.quantity import BOOK
from planner.questions.constraints import sums_stages
from planner.report.what_if.page import settled
from planner.results.result import Result
from tests.strategies import Document, wide_plans
from tests.strategies import settings as every_setting

NODE = shutil.which("node")
Wide = tuple[Document, dict[str, Any]]
#: Ten by default, three hundred in the long profile.
MANY = settings(
    max_examples=settings.default.max_examples // 10,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # to shrink an example takes minutes
)  # fmt: skip
assert formulas  # what fills the book
SCALARS = [name for name, first in BOOK.quantities.items() if not first.per]
RECORDED = [name for name in SCALARS if not sums_stages(name)]
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
@given(wide_plans())
def test_every_number_is_finite_and_of_its_kind(plan: Wide) -> None:
    result = evaluated(plan)
    found = numbers(result)
    for identifier, number in found.items():
        assert math.isfinite(number), identifier
        if identifier not in ("memory.headroom", "memory.headroom_p95"):  # none where it is short
            assert number >= 0, f"{identifier} is {number}"
        if BOOK.quantities[identifier].unit == "bytes" and result[identifier].exact:
            assert not isinstance(number, float), identifier
    assert found.get("time.mfu", 0) <= 1
    if "time.mfu" not in plan[1]:  # an assumed one may leave too little for what is recomputed
        assert found.get("time.hfu", 0) <= 1


@MANY
@given(wide_plans())
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
    assert result.verdict["fits"] is (found["memory.headroom"] >= 0)
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
@given(wide_plans(), st.integers(2, 9))
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
    "training.bytes.master": (2, ("memory.optimizer", "memory.total")),
    "memory.other": (10**9, ("memory.process",)),
    "memory.allocator_share": (0.1, ("memory.reserved", "memory.process")),
    "memory.margin": (0.5, ("memory.at_worst",)),
}


@pytest.mark.slow
@MANY
@given(wide_plans(), st.sampled_from(sorted(GROWS)))
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
@given(wide_plans())
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


@pytest.mark.slow
@MANY
@given(wide_plans(), axes())
def test_a_study_computes_what_each_plan_gives(plan: Wide, varied: dict[str, list[Any]]) -> None:
    """The compiled form, over arrays: the exact numbers to double precision, nothing where one is
    absent, a reason where there is no such plan."""
    from planner.questions.studies import study as studies
    from planner.questions.studies.run import sweep

    try:
        study = studies.load({"base": with_changes(plan, {}), "axes": varied, "record": RECORDED})
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
@given(wide_plans(), st.data())
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
        anew, varied = Evaluation(other, whole.book), whole.varied(symbol, more)
        for identifier in ids:
            assert found(varied, identifier) == found(anew, identifier), (symbol, identifier)


# The page's program under Node ---------------------------------------------------------------

ASK = """
const changed = (data, [step, ...below], value) => {
  const copy = new $.Dict(data.items());
  copy.put(step, below.length ? changed(data.get(step) || new $.Dict(), below, value) : value);
  return copy;
};
globalThis.changedDocument = changes => ({
  data: changes.reduce((data, [key, value]) => changed(data, key.split("."),
    key === "cluster.accelerator" ? ACCELERATORS.get(value) : value), DOCUMENT),
  place: () => null,
});
const answer = changes => {
  const evaluation = planned(changes), found = {};
  for (const id of IDS) {
    try {
      found[id] = evaluation.value(id);
      if (found[id] === Infinity) found[id] = "infinite";
    } catch (error) {
      if (!(error instanceof $.Absent)) throw error;
      found[id] = null;
    }
  }
  return found;
};
process.stdout.write(JSON.stringify(CHANGES.map(changes => {
  try { return answer(changes); }
  catch (error) {
    if (!(error instanceof $.PlanError)) throw error;
    return error.faults.map(fault => fault.message);
  }
})));
"""


def in_node(result: Result, folder: Path, several: list[dict[str, Any]]) -> list[Any]:
    """What the page's program finds for each set of changes: numbers, or a list of faults."""
    from planner.report.what_if.program import program

    shown = resources.folder("templates") / "interactive"
    pairs = [[[key, value] for key, value in one.items()] for one in several]
    parts = (
        (shown / "python.js").read_text("utf-8"),
        (shown / "graph.js").read_text("utf-8"),
        program(result, ()),
        f"const CHANGES={json.dumps(pairs)},IDS={json.dumps(SCALARS)};",
        ASK,
    )
    file = folder / "program.js"
    file.write_text("\n".join(parts), "utf-8")
    done = subprocess.run(
        [NODE or "", str(file)], capture_output=True, encoding="utf-8", timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return list(json.loads(done.stdout))


@st.composite
def moves(draw: st.DrawFn, result: Result) -> dict[str, tuple[Any, str]]:
    """Some controls of the page, each at one of its positions, with its unit."""
    from planner.report.what_if.controls import groups

    controls = [control for _, group in groups(result.plan) for control in group]
    moved = draw(st.lists(st.sampled_from(controls), max_size=4, unique_by=lambda c: c.key))
    found = {}
    for control in moved:
        position = draw(st.sampled_from(control.options or control.steps or (None,)))
        if position is not None:
            plain = float(position) if isinstance(position, Fraction) else position
            found[control.key] = (plain, control.unit)
    return found


def same(
    result: Result, shown: dict[str, Any], told: Any = None, names: Sequence[str] = SCALARS
) -> None:
    """Whether doubles are the exact numbers, and nothing is where one is absent."""
    for identifier in names:
        wanted, found = value(result, identifier), shown.get(identifier)
        if isinstance(wanted, PLAIN) and wanted:
            assert found == pytest.approx(float(wanted), rel=1e-9, abs=0), (identifier, told)
        else:
            assert found == wanted, (identifier, told)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="there is no Node")
@MANY
@given(wide_plans(), st.data())
def test_the_what_if_page_computes_what_set_gives(plan: Wide, data: st.DataObject) -> None:
    result = evaluated(plan)
    several = [{}, *(data.draw(moves(result)) for _ in range(6))]
    with tempfile.TemporaryDirectory() as folder:
        answers = in_node(
            result, Path(folder), [{k: v for k, (v, _) in one.items()} for one in several]
        )
    for one, shown in zip(several, answers, strict=True):
        said = {key: f"{at} {unit}" if unit else at for key, (at, unit) in one.items()}
        try:
            kept = dict(settled(result.plan))  # as the page's command says
            anew = planner.load(plan[0], set={**kept, **plan[1], **said}).evaluate()
        except planner.PlanError as error:
            assert isinstance(shown, list), (one, str(error))
            assert {fault.message for fault in error.faults} <= set(shown), one
        else:
            assert isinstance(shown, dict), (one, shown)
            same(anew, shown)


@pytest.mark.slow
@pytest.mark.skipif(NODE is None, reason="there is no Node")
def test_the_what_if_page_follows_a_shape_to_other_kinds_of_layers(tmp_path: Path) -> None:
    """Of DeepSeek-V3's layers the first three are dense: a model of these has no experts."""
    plan = {
        "model": "deepseek-v3",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64},
        "training": {"tokens": "1B", "sequence_length": 4096, "global_batch": 64},
        "parallelism": {"expert": 64},
    }
    moved = {"model.layers": 3, "parallelism.expert": 1}
    [shown] = in_node(planner.load(plan).evaluate(), tmp_path, [moved])
    assert shown["parameters.active"] == shown["parameters.total"] < 10e9
    same(planner.load(plan, set=moved).evaluate(), shown)
