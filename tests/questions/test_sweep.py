"""Studies: what they evaluate, that rows are those of single plans, and that nothing is lost."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from fuzz import ranges
from planner.base import resources
from planner.base.errors import Fault, Place, PlanError
from planner.base.progress import send_progress
from planner.book.quantity import BOOK
from planner.cli import main as cli
from planner.documents import source
from planner.plans import plan as plans
from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.studies import (
    engines,
    evaluator,
    parquet,
    pieces,
    points,
    run,
    study,
    table,
    work,
)
from planner.questions.studies import summary as summaries
from planner.questions.studies.dimensions import LIMITED, PLAIN, SYMBOLS
from planner.questions.studies.work import Pieces
from planner.results.result import evaluate_plan
from tests.conftest import leave_to_night, read_data

FAULTS = read_data("faults")

LLAMA = {"extends": "llama70b_h100x1024", "time": {"mfu": None}}
NEEDED = "memory.needed"
STUDIES = sorted((resources.folder("presets") / "studies").glob("*.yaml"))
SMALL: dict[str, Any] = {
    "base": LLAMA,
    "axes": read_data("questions")["axes_of_a_study"],
}


@pytest.fixture
def little_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few points, so that a small study has many."""
    monkeypatch.setattr(work, "OVER_ARRAYS", 7)
    monkeypatch.setattr(work, "ONE_BY_ONE", 3)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# The grid --------------------------------------------------------------------------------------


@given(st.lists(st.integers(1, 5), max_size=4), st.integers(1, 60))
def test_pieces_hold_every_point_once_and_in_order(shape: list[int], most: int) -> None:
    pieces = Pieces(tuple(shape), most)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    found: list[int] = []
    for piece in range(len(pieces)):
        ranges = pieces.list_ranges(piece)
        inside = numbers[np.ix_(*ranges)] if shape else numbers
        assert inside.size <= max(most, 1)
        found += inside.ravel().tolist()
    assert found == list(range(math.prod(shape)))


def values(key: str, axis: Any) -> list[Any]:
    read = study.read_study({"base": LLAMA, "axes": {key: axis}})
    return [choice.label for choice in read.axes[0].choices]


@pytest.mark.parametrize(
    ("key", "axis", "expected"),
    [
        ("cluster.devices", {"from": 64, "to": 4096, "steps": 7, "scale": "log"},
         [64, 128, 256, 512, 1024, 2048, 4096]),
        ("cluster.devices", {"from": 8, "to": 24, "step": 8}, [8, 16, 24]),
        ("cluster.devices", {"from": 1, "to": 9, "factor": 3}, [1, 3, 9]),
        ("cluster.devices", {"from": 1, "to": 3, "steps": 9}, [1, 2, 3]),
        ("training.tokens", {"from": "1T", "to": "2T", "steps": 3},
         [10**12, 15 * 10**11, 2 * 10**12]),
        ("cluster.price", {"from": "1 USD/h", "to": "2 USD/h", "step": "0.5 USD/h"},
         [1, Fraction(3, 2), 2]),
        ("training.tokens", "3T", [3 * 10**12]),
        ("time.mfu", ["40%", None], [Fraction(2, 5), "default"]),
        ("parallelism", ["llama70b_h100x1024", {"name": "wide", "tensor": 8}, {"pipeline": 2}],
         ["llama70b_h100x1024", "wide", "pipeline=2"]),
        ("model", ["llama2-7b", {"extends": "llama2-7b", "layers": 8}], ["llama2-7b", "llama2-7b"]),
        ("parallelism.sequence", [True, False], ["true", "false"]),
    ],
)  # fmt: skip
def test_an_axis_has_the_values_that_it_names(key: str, axis: Any, expected: list[Any]) -> None:
    assert values(key, axis) == expected


@pytest.mark.slow
@settings(max_examples=20)
@given(st.integers(1, 10**6), st.integers(0, 10**6), st.integers(2, 40))
def test_a_logarithmic_range_ends_where_it_says_and_grows(low: int, more: int, steps: int) -> None:
    axis = {"from": low, "to": low + more, "steps": steps, "scale": "log"}
    found = values("training.tokens", axis)
    assert found[0] == low and found[-1] == low + more
    assert found == sorted(found)
    if more > low * steps:
        ratios = [float(b / a) for a, b in pairwise(found)]
        assert max(ratios) == pytest.approx(min(ratios), rel=1e-6)


def test_several_keys_change_together_and_sections_come_before_their_keys() -> None:
    read = study.read_study(
        {
            "base": LLAMA,
            "axes": {
                "parallelism.zero": [3],
                "size": [{"name": "big", "set": {"cluster.devices": 512, "model.layers": 40}}],
                "parallelism": [{"tensor": 2}],
            },
        }
    )
    plan = read.build_plan(0)
    assert (plan.get("cluster.devices"), plan.get("model.layers")) == (512, 40)
    assert (plan.get("parallelism.tensor"), plan.get("parallelism.zero")) == (2, 3)
    assert read.label_point(0) == {"parallelism.zero": 3, "size": "big", "parallelism": "tensor=2"}


def test_zipped_axes_move_together_and_plans_are_an_axis() -> None:
    read = study.read_study(
        {
            "plans": ["llama70b_h100x1024", "gpt3_a100x1024"],
            "combine": "zip",
            "axes": {
                "training.tokens": ["1T", "2T", "3T"],
                "cluster.price": [f"{i} USD/h" for i in (1, 2, 3)],
            },
        }
    )
    assert read.shape == (2, 3)
    assert read.label_point(4) == {
        "plan": "gpt3_a100x1024", "training.tokens": 2 * 10**12, "cluster.price": 2
    }  # fmt: skip
    assert read.build_plan(4).name == loading.load("presets/gpt3_a100x1024.yaml").name


METHODS = (
    {"training.lora.rank": 16},
    {"training.optimizer": "sgd"},
    {"training.lora.rank": 16, "training.lora.base": "nf4"},
)


@pytest.mark.parametrize("several", [METHODS, [{"parallelism.zero": n} for n in (3, 0, 1)]])
@pytest.mark.parametrize("stack", [None, "transformers-trainer"])
def test_a_value_is_the_plan_that_says_it_and_no_other(several: Any, stack: str | None) -> None:
    """Nothing of the other values, and what the stack sets beside this one."""
    training = {"sequence_length": 1024, "global_batch": 16} | ({"stack": stack} if stack else {})
    base = {"model": "llama3.1-8b", "cluster": "hgx-h100", "training": training}
    read = study.read_study({"base": base, "axes": {"way": [{"set": one} for one in several]}})
    for point, one in enumerate(several):
        alone = evaluate_plan(loading.load(source.change_keys(base, one)))
        assert evaluate_plan(read.build_plan(point))[NEEDED].value == alone[NEEDED].value


# Values ----------------------------------------------------------------------------------------

SIZE: dict[str, Any] = {
    "model": {"parameters": "7B"},
    "cluster": "hgx-h100",
    "training": {"tokens": "1T", "sequence_length": 4096, "global_batch": 64},
}


def test_sums_over_the_layers_of_a_model_of_which_only_its_size_is_known_are_absent() -> None:
    sizes = {
        "base": {**SIZE, "time": {"mfu": 0.4, "use": "assumed"}},
        "axes": {"model.parameters": ["1B", "7B"], "time.mfu": [0.3, 0.5]},
        "record": ["time.model", "parameters.total", "time.training_days"],
    }
    read = study.read_study(sizes)
    found = evaluator.Evaluator(read).evaluate_points([range(n) for n in read.shape])
    assert np.isnan(found.numbers["time.model"]).all()
    totals = found.numbers["parameters.total"] + 0 * found.numbers["time.training_days"]
    assert totals.tolist() == [[1e9, 1e9], [7e9, 7e9]]


PLANS = ("llama70b_h100x1024", "gpt3_a100x1024", "mixtral8x7b_h100x1024", "gpt2small_hgx-h100")


def bound(plan: Plan) -> dict[str, Any]:
    """What evaluations of a plan begin with, apart from its document."""
    from planner.engine import instance as case

    built = case.build(plan)
    asked = {n for d in BOOK.list_formulas() for n in d.when}
    entries = [
        [(e.path, dict(e.bindings), dict(e.settings)) for e in axis]
        for axis in built.axes.values()
        if isinstance(axis, tuple)
    ]
    return {
        "bindings": {s: v for s, v in built.bindings.items() if not isinstance(v, Exception)},
        "settings": {n: v for n, v in built.settings.items() if n in asked or "." not in n},
        "entries": repr(entries),
        "crossed": list(built.pair_values.values()),
    }


@pytest.mark.parametrize("key", sorted(PLAIN))
@pytest.mark.parametrize("name", PLANS)
def test_a_plain_key_changes_its_own_symbol_and_nothing_else(key: str, name: str) -> None:
    plan = loading.load(f"presets/{name}.yaml", {"time.mfu": None} if key != "time.mfu" else {})
    assert "accelerator.link" not in key or plan.get("cluster.accelerator.link") is not None
    # The first value is given too, so that nothing else changes from given to not given.
    low, high = (Fraction(1, 5), Fraction(3, 5)) if key == "time.mfu" else (3 * 10**9, 10**12)
    if key == "training.expert_imbalance":
        low, high = Fraction(6, 5), Fraction(2)
    before, after = (
        bound(plans.build_plan(plan.document.change_keys({key: v}))) for v in (low, high)
    )
    own = SYMBOLS[key]
    assert before["bindings"].pop(own) == low and after["bindings"].pop(own) == high
    assert before == after
    # Nor does a check refuse any value that the schema takes.
    if key in LIMITED and plan.get(LIMITED[key]) is not None:
        return
    for end in ranges.bounds(ranges.numeric()[key]):
        plans.build_plan(plan.document.change_keys({key: end}))


@pytest.mark.slow
def test_rows_are_what_the_plans_themselves_say(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    found = run.sweep(study.read_study(SMALL), out, workers=1)
    table_rows = rows(out)
    assert len(table_rows) == found.summary.points == 3 * 3 * 5 * 2
    assert found.summary.invalid == 30  # 1,024 sequences divide over no 96 devices
    for row in random.Random(2).sample(table_rows, 12):
        changes = {key: row[key] for key in SMALL["axes"]}
        changes["cluster.price"] += " USD/h"
        try:
            result = planner.load(LLAMA, set=changes).evaluate()
        except PlanError as error:
            assert row["reason"] == "; ".join(fault.message for fault in error.faults)
            assert row["fits"] == row["memory.process"] == ""
            continue
        assert row["reason"] == ""
        assert row["fits"] == str(result.verdict["fits"]).lower()
        for quantity in ("parameters.total", "memory.process", "memory.headroom"):
            assert row[quantity] == str(result[quantity].value)  # whole numbers stay whole
        for quantity in ("time.step_seconds", "cost.total", "time.training_days"):
            assert float(row[quantity]) == pytest.approx(float(result[quantity].number), rel=1e-9)


def test_what_breaks_a_limit_is_left_out_and_counted(tmp_path: Path) -> None:
    limited = {
        **SMALL,
        "where": ["memory.headroom >= 0", "time.training_days <= 150 days"],
        "invalid": "drop",
    }
    out = tmp_path / "out.csv"
    found = run.sweep(study.read_study(limited), out, workers=1).summary
    kept = rows(out)
    assert 0 < len(kept) == found.rows == found.fit < found.points - found.invalid
    assert found.points == found.rows + found.outside + found.invalid
    for row in kept:
        assert int(row["memory.headroom"]) >= 0 and float(row["time.training_days"]) <= 150
    every = [row for row in study_rows(SMALL) if row["reason"] is None]
    fitting = [r for r in every if r["fits"] and r["time.training_days"] <= 150]
    assert len(fitting) == len(kept)


def study_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(planner.load_study(document))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "document",
    [
        SMALL,
        {**SMALL, "axes": {**SMALL["axes"], "parallelism.zero": [0, 1], "training.recompute":
         ["none", "full"], "training.tokens": ["1T"], "cluster.price": ["1 USD/h"]}},
        {**SMALL, "axes": {"parallelism.tensor": [1, 2, 4, 8], "parallelism.pipeline": [1, 2, 4, 8],
         "training.micro_batch": [1, 2, 4, 8], "parallelism.zero": [0, 1],
         "time.efficiency.matmul": [0.6, 0.8]}},
        {"base": LLAMA, "axes": {"model": ["mixtral-8x7b", {"parameters": "7B"}]}},
        {"base": {**LLAMA, "time": {"use": "assumed"}}, "axes": {"time.mfu": [0.3, 0.4]}},
        {"base": LLAMA, "axes": {"cluster.accelerator": ["tpu-v4", "a100-sxm-80gb"]},
         "record": ["memory.stage", "memory.total", "memory.headroom", "time.step_seconds"]},
    ],
    ids=["plain", "layouts", "many layouts", "models", "assumed", "one by one"],
)  # fmt: skip
def test_rows_have_the_intervals_and_the_verdict_of_the_plans(document: Mapping[str, Any]) -> None:
    read = study.read_study(document)
    found = study_rows(document)
    chance, states = random.Random(2), set()
    for number in sorted(chance.sample(range(read.size), min(read.size, 12))):
        row = found[number]
        if row["reason"] and row["fits"] is None and row["verdict"] is None:
            continue  # no plan
        said = evaluate_plan(read.build_plan(number))
        assert row["verdict"] == said.verdict["state"]
        states.add(row["verdict"])
        for name in read.record:
            if f"{name}.low" in row:
                quantity = said.find(name)
                interval = quantity.interval if quantity else None
                ends = row[f"{name}.low"], row[f"{name}.high"]
                if interval is None:
                    assert ends == (None, None), name
                else:
                    assert ends == pytest.approx(tuple(map(float, interval)), rel=1e-9), name
        if row.get("memory.headroom.low") is not None and row["verdict"] != "open":
            safe, least = row["memory.headroom.low"] >= 0, row["memory.headroom"]
            assert row["verdict"] == ("no" if least < 0 else "fits" if safe else "tight")
    assert states


def test_each_layer_that_is_computed_again_keeps_as_much_less() -> None:
    """Llama 2 70B has 80 layers, all alike; on one stage they add up."""
    document = {
        "base": LLAMA,
        "axes": {
            "training.recompute": ["full"],
            "training.recompute_layers": [2, 8, None],
            "parallelism.pipeline": [1],
        },
        "record": ["memory.activations", "time.step_seconds"],
    }
    rows = study_rows(document)
    two, eight, every = (Fraction(str(row["memory.activations"])) for row in rows)
    assert (two - eight) / 6 == (two - every) / 78 > 0
    times = [row["time.step_seconds"] for row in rows]
    assert times == sorted(set(times))


def test_names_are_columns_too_and_absent_values_have_reasons() -> None:
    named = {**SMALL, "record": ["memory.stage", "memory.process", "energy.total"]}
    named["axes"] = {"parallelism.tensor": [8], "cluster.accelerator.power": [None]}
    (row,) = study_rows(named)
    assert isinstance(row["memory.stage"], str) and isinstance(row["memory.process"], int)
    result = planner.load(LLAMA, set={"cluster.accelerator.power": None}).evaluate()
    assert row["energy.total"] is None
    assert row["reason"] == f"energy.total: {result['energy.total'].absent}"


def test_the_best_points_are_the_best_rows() -> None:
    found = planner.load_study(SMALL).sweep()
    every = [row for row in study_rows(SMALL) if row["fits"]]
    assert {entry["question"] for entry in found.best} == {
        "shortest run", "lowest cost", "least memory", "highest MFU"
    }  # fmt: skip
    for entry in found.best:
        tokens = entry["point"]["training.tokens"]
        of_task = [row for row in every if row["training.tokens"] == tokens]
        best = (max if entry["question"] == "highest MFU" else min)(
            row[entry["quantity"]] for row in of_task
        )
        assert entry["value"] == best
        assert any(
            row[entry["quantity"]] == best and all(row[k] == v for k, v in entry["point"].items())
            for row in of_task
        )


@pytest.mark.slow
def test_the_best_layout_of_each_point_is_that_of_the_plan_by_itself() -> None:
    base = {"extends": "gpt2small_hgx-h100", "time": {"mfu": None}}
    axes = {
        "parallelism": ["auto", {"tensor": 1}],
        "cluster.devices": [2, 4],
        "training.tokens": ["10B", "20B"],
    }
    found = study_rows({"base": base, "axes": axes})
    for auto, own in zip(found[:4], found[4:], strict=True):
        assert auto["layout"] and own["layout"] is None
        assert auto["time.step_seconds"] <= own["time.step_seconds"] * (1 + 1e-9)
    alone = planner.load(base, set={"parallelism": "auto", "cluster.devices": 4}).evaluate()
    assert found[2]["time.step_seconds"] == pytest.approx(float(alone["time.step_seconds"].number))
    assert f"micro_batch={alone.plan.get('training.micro_batch')}" in found[2]["layout"]


# The table -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("little_pieces")
def test_rows_come_in_order_whoever_works(tmp_path: Path) -> None:
    read = study.read_study(SMALL)
    files = []
    for workers in (1, 3):
        files.append(tmp_path / f"{workers}.csv")
        run.sweep(read, files[-1], workers=workers)
    assert files[0].read_bytes() == files[1].read_bytes()
    keys = list(SMALL["axes"])
    order = [tuple(float(row[key]) for key in keys) for row in rows(files[0])]
    assert order == sorted(order)
    assert list(tmp_path.iterdir()) and {p.name for p in tmp_path.iterdir()} == {"1.csv", "3.csv"}


@pytest.mark.slow
@pytest.mark.usefixtures("little_pieces")
def test_lines_of_json_and_parquet_hold_the_same_as_csv(tmp_path: Path) -> None:
    read = study.read_study(SMALL)
    run.sweep(read, tmp_path / "t.csv", workers=1)
    run.sweep(read, tmp_path / "t.jsonl", workers=1)
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    for line, row in zip(lines, rows(tmp_path / "t.csv"), strict=True):
        assert list(line) == list(row)
        for name, value in line.items():
            words = {"None": "", "True": "true", "False": "false"}
            assert words.get(str(value), str(value)) == row[name]
    pytest.importorskip("pyarrow")
    from pyarrow import parquet as reader

    run.sweep(read, tmp_path / "t.parquet", workers=1)
    held = reader.read_table(tmp_path / "t.parquet")
    assert held.to_pylist() == lines
    assert str(held.schema.field("memory.process").type) == "int64"
    assert str(held.schema.field("cost.total").type) == "double"


GRID: dict[str, Any] = {
    "base": LLAMA,
    "axes": read_data("questions")["axes_of_models"],
}


@pytest.mark.slow
@settings(max_examples=8)
@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([(), ("memory.process <= 3",)]))
def test_what_is_said_of_a_grid_is_what_is_said_of_its_points(
    seed: int, keep: bool, limits: tuple[str, ...]
) -> None:
    """Arrays that vary along some dimensions only, with many equals, and every point by itself."""
    read = study.read_study({**GRID, "invalid": "keep" if keep else "drop", "where": list(limits)})
    chance = np.random.default_rng(seed)

    def made(values: list[Any]) -> Any:
        return chance.choice(values, tuple(n if chance.random() < 0.5 else 1 for n in read.shape))

    ends = [f"{name}.{end}" for name in points.list_bounded(read) for end in ("low", "high")]
    assert "memory.process.low" in ends
    numbers = {name: made([math.nan, 1, 2.5, 4, 4]) for name in (*points.list_needed(read), *ends)}
    valid, reasons = made([True, True, False]), made(["", "one", "two, or more"]).astype(object)
    whole = points.Points(read, [range(n) for n in read.shape], numbers, {"reason": reasons}, valid)
    merged, lines = summaries.Summary(), {"csv": b"", "jsonl": b""}
    for place in np.ndindex(*read.shape):

        def alone(array: Any, place: tuple[int, ...] = place) -> Any:
            return np.broadcast_to(array, read.shape)[tuple(slice(i, i + 1) for i in place)]

        one = points.Points(
            read,
            [range(i, i + 1) for i in place],
            {q: alone(a) for q, a in numbers.items()},
            {"reason": alone(reasons)},
            alone(valid),
        )
        merged.merge_summary(summaries.summarise_piece(one))
        for kind in lines:
            lines[kind] += table.encode_table(one, kind)
    at_once = summaries.Summary()
    at_once.merge_summary(summaries.summarise_piece(whole))
    assert at_once == merged
    for kind, expected in lines.items():
        assert table.encode_table(whole, kind) == expected
    pytest.importorskip("pyarrow")
    from pyarrow import parquet as reader

    held = reader.read_table(io.BytesIO(parquet.encode_parquet(whole))).to_pylist()
    assert held == [json.loads(line) for line in lines["jsonl"].splitlines()]


@given(st.data())
@settings(max_examples=60)
def test_the_lowest_score_is_that_of_the_first_of_equal_points(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    held = tuple(n if data.draw(st.booleans()) else 1 for n in shape)
    few = st.sampled_from([1.0, 2.0, 3.0, math.inf])
    values = data.draw(st.lists(few, min_size=math.prod(held), max_size=math.prod(held)))
    scores = np.array(values).reshape(held)
    several = data.draw(st.lists(st.sampled_from(range(len(shape))), unique=True))
    keep = tuple(several)
    best: dict[tuple[int, ...], tuple[float, int]] = {}
    for number, (point, score) in enumerate(np.ndenumerate(np.broadcast_to(scores, shape))):
        place = tuple(point[i] for i in keep)
        if score < best.get(place, (math.inf,))[0]:
            best[place] = (float(score), number)
    numbers = np.arange(math.prod(shape)).reshape(shape)
    ranges = [range(n) for n in shape]
    piece: Any = SimpleNamespace(shape=shape, of_study=numbers, ranges=ranges)
    found = summaries.Summary()
    summaries._keep_best(found, piece, "view", keep, {"score": scores})
    told = {place: tuple(said["score"]) for place, said in found.best["view"].items()}
    assert told == {summaries.join_places(place): said for place, said in best.items()}


def test_parquet_without_pyarrow_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(PlanError, match=r"Parquet needs pyarrow \(pip install"):
        run.sweep(study.read_study(SMALL), tmp_path / "t.parquet", workers=1)
    assert not list(tmp_path.iterdir())
    assert parquet.GROUP > 1


@pytest.mark.slow
@given(st.text())
def test_a_cell_of_any_text_is_read_back_on_one_line(text: str) -> None:
    cell = table._format_csv(text)
    (row,) = csv.reader(io.StringIO(f"{cell},x\n", newline=""))
    assert row[1] == "x" and row[0].removeprefix("'").split() == text.removeprefix("'").split()


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", '=HYPERLINK("x","y")'])
def test_no_cell_of_text_begins_like_a_formula(text: str) -> None:
    """OWASP, CSV injection: an apostrophe in front. A number is a number."""
    (row,) = csv.reader(io.StringIO(table._format_csv(text)))
    assert row == [f"'{text}"]
    assert [table._format_csv(value) for value in (-1, -0.5, None, True)] == [
        "-1",
        "-0.5",
        "",
        "true",
    ]


# Going on --------------------------------------------------------------------------------------


def _killed(read: study.StudySpec, out: Path, after: int) -> bool:
    """Sweep in a process of its own that is killed after so many lines of the code that writes;
    whether it was."""
    child = os.fork()
    if child == 0:  # pragma: no cover
        left = after

        def traced(frame: Any, event: str, argument: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename not in (pieces.__file__, run.__file__):
                return None
            left -= event == "line"
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return traced

        try:
            sys.settrace(traced)
            run.sweep(read, out, workers=1)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked here")
@pytest.mark.usefixtures("little_pieces")
@pytest.mark.parametrize("kind", leave_to_night(["csv", "parquet"], ["csv"]))
def test_a_sweep_killed_at_random_goes_on_without_a_row_lost_or_doubled(
    tmp_path: Path, kind: str
) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    read = study.read_study({**SMALL, "axes": {**SMALL["axes"], "training.micro_batch": [1, 2]}})
    whole, out = tmp_path / f"whole.{kind}", tmp_path / f"out.{kind}"
    folder = tmp_path / f"{out.name}.pieces"
    run.sweep(read, whole, workers=1)
    chance, kills, done = random.Random(3), 0, [0]
    while kills < 12:
        # Half of them after what is there is read, when something new is done.
        least = chance.choice((1, 600 + 25 * done[-1]))
        if _killed(read, out, chance.randrange(least, 740 + 28 * done[-1])):
            kills += 1
            done.append(len(list(folder.glob("*.json"))))
            assert done[-1] >= done[-2] or out.exists()
        else:
            assert out.read_bytes() == whole.read_bytes()
            out.unlink()
            done.append(0)
    run.sweep(read, out, workers=1)
    assert out.read_bytes() == whole.read_bytes()
    assert len(set(done)) > 5
    assert {p.name for p in tmp_path.iterdir()} == {whole.name, out.name}


class Stopped(Exception):
    """A sweep that stops in the middle."""


def _stopped(read: study.StudySpec, out: Path, points_done: int) -> None:
    def hear(line: str) -> None:
        if int(line.partition(" of ")[0].replace(",", "")) >= points_done:
            raise Stopped

    with pytest.raises(Stopped), send_progress(hear):
        run.sweep(read, out, workers=1)


@pytest.mark.slow
@pytest.mark.usefixtures("little_pieces")
@pytest.mark.parametrize("kind", leave_to_night(["csv", "jsonl", "parquet"], ["csv"]))
def test_whatever_a_crash_leaves_of_the_files_the_table_is_whole(tmp_path: Path, kind: str) -> None:
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    read = study.read_study(SMALL)
    whole, out = tmp_path / f"whole.{kind}", tmp_path / f"out.{kind}"
    run.sweep(read, whole, workers=1)
    chance = random.Random(4)
    for trial in range(3):
        _stopped(read, out, 50)
        for left in chance.sample(sorted((tmp_path / f"{out.name}.pieces").iterdir()), 4):
            data = bytearray(left.read_bytes())
            if trial % 3 == 0:  # the end never reached the disk
                del data[chance.randrange(len(data)) :]
            elif trial % 3 == 1 and left.name != pieces.STUDY:  # a block of it did not
                at = chance.randrange(len(data))
                data[at : at + 40] = bytes(len(data[at : at + 40]))
            left.write_bytes(data)
        run.sweep(read, out, workers=1)
        assert out.read_bytes() == whole.read_bytes()
        out.unlink()


@pytest.mark.slow
@pytest.mark.usefixtures("little_pieces")
def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, out = study.read_study(SMALL), tmp_path / "out.csv"
    worked: list[int] = []
    whole = work.Job.run_piece

    def counted(job: work.Job, number: int) -> work.StudyPiece:
        worked.append(number)
        return whole(job, number)

    monkeypatch.setattr(work.Job, "run_piece", counted)
    _stopped(read, out, 50)
    before = len(worked)
    assert 1 < before < len(work.Job(read, "csv").pieces)
    lost = tmp_path / "out.csv.pieces" / "000001.csv"
    lost.unlink()
    run.sweep(read, out, workers=1)
    assert sorted(worked) == sorted([1, *range(len(work.Job(read, "csv").pieces))])
    _stopped(read, out, 50)
    worked.clear()
    run.sweep(read, out, workers=1, restart=True)
    assert worked == list(range(len(work.Job(read, "csv").pieces)))


@pytest.mark.slow
@pytest.mark.usefixtures("little_pieces")
def test_an_unfinished_table_of_another_study_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    _stopped(study.read_study(SMALL), out, 50)
    folder = tmp_path / "out.csv.pieces"
    left = {path: path.read_bytes() for path in folder.iterdir()}
    other = study.read_study({**SMALL, "record": ["memory.process"]})
    with pytest.raises(PlanError, match=r"of another study.*--restart"):
        run.sweep(other, out, workers=1)
    assert {path: path.read_bytes() for path in folder.iterdir()} == left
    run.sweep(other, out, workers=1, restart=True)
    assert "memory.headroom" not in rows(out)[0]


@pytest.mark.slow
def test_a_table_keeps_the_mode_of_the_one_before(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.touch(0o640)
    out.chmod(0o640)
    run.sweep(study.read_study(SMALL), out, workers=1)
    assert out.stat().st_mode & 0o777 == 0o640 and len(rows(out)) == 90


def test_an_axis_is_not_called_as_a_column_of_the_table() -> None:
    with pytest.raises(PlanError, match="the table has a column of that name"):
        study.read_study({**SMALL, "axes": {"fits": [{"set": {"parallelism.tensor": 8}}]}})


ABOUT = {"study": "x", "format": "csv", "pieces": 1}


def joined(pieces: Iterable[bytes], into: Any) -> None:
    into.writelines(pieces)


def test_two_sweeps_do_not_write_one_table(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    (tmp_path / "other.csv").symlink_to(tmp_path / "out.csv")
    first = pieces.PieceFolder(tmp_path / "out.csv", ABOUT)
    for name in ("out.csv", "other.csv"):
        with pytest.raises(PlanError, match="another sweep is writing this"):
            pieces.PieceFolder(tmp_path / name, ABOUT)
    first.close()


def test_a_table_is_one_sweeps_until_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("fcntl")
    out = tmp_path / "out.csv"
    first = pieces.PieceFolder(out, ABOUT)
    first.add_piece(0, b"1", "{}")
    refused = []

    def another(call: Any) -> Any:
        def made(*args: Any) -> None:
            call(*args)
            with pytest.raises(PlanError, match="another sweep is writing this"):
                pieces.PieceFolder(out, {**ABOUT, "study": "y"})
            refused.append(call.__name__)

        return made

    for name in ("chmod", "replace"):
        monkeypatch.setattr(os, name, another(getattr(os, name)))
    first.finish_table(joined)
    assert refused == ["chmod", "replace"] * 2 and out.read_bytes() == b"1"


def test_a_folder_that_was_removed_meanwhile_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")
    out = tmp_path / "out.csv"
    first = pieces.PieceFolder(out, ABOUT)
    first.add_piece(0, b"1", "{}")
    lock = fcntl.flock
    locked: list[int] = []

    def late(file: Any, how: int) -> None:
        if not locked:  # the first finishes between the opening and the locking of the second
            first.finish_table(joined)
        locked.append(os.fstat(file.fileno()).st_nlink)
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    second = pieces.PieceFolder(out, {**ABOUT, "study": "y"})
    assert locked == [0, 1] and out.read_bytes() == b"1"
    second.add_piece(0, b"2", "{}")
    second.finish_table(joined)
    assert out.read_bytes() == b"2" and os.listdir(tmp_path) == ["out.csv"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "out.csv.pieces"
    folder.mkdir()
    (folder / "thesis.tex").write_text("years of work")
    for restart in (False, True):
        with pytest.raises(PlanError, match="this folder has no pieces of a table"):
            run.sweep(study.read_study(SMALL), tmp_path / "out.csv", workers=1, restart=restart)
    assert os.listdir(folder) == ["thesis.tex"]


def test_a_table_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    for path in (tmp_path / "no" / "folder.csv", Path("/proc/none.csv")):
        with pytest.raises(PlanError, match="cannot be written"):
            run.sweep(study.read_study(SMALL), path, workers=1)


# The command line ------------------------------------------------------------------------------


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(["sweep", *words])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps({"name": "Small", **SMALL}), encoding="utf-8")
    return path


@pytest.mark.slow
def test_the_command_writes_table_and_comparison(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = [tmp_path / name for name in ("o.csv", "o.html", "o.md")]
    words = [word for path in outputs for word in ("-o", str(path))]
    status, out, err = called(capsys, str(document), *words, "--workers", "1")
    assert (status, err) == (0, "")
    assert (
        out.startswith("Cheapest for 2T tokens: 128 × H100 as tensor 4, pipeline 4, zero 1")
        and "\n90 plans" in out
    )
    assert all(path.stat().st_size > 1000 for path in outputs)


@pytest.mark.parametrize(
    ("words", "message"),
    FAULTS["sweep"],
)  # fmt: skip
def test_bad_usage_is_one_line(
    words: list[str],
    message: str,
    document: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(document.parent)
    status, out, err = called(capsys, document.name, *words)
    place = err.partition(": ")[0] if "{study}" in message else ""
    assert (status, out) == (2, "")
    assert err == message.replace("{study}:1:16", place) + "\n"
    assert not place or place.startswith("study.yaml:1:")


def test_an_input_is_not_written_over(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = document.read_bytes()
    copy = document.with_suffix(".md")
    copy.hardlink_to(document)
    status, _, err = called(capsys, str(document), "-o", str(copy))
    assert status == 2 and "this is an input" in err
    assert document.read_bytes() == text


def test_a_study_that_keeps_nothing_exits_with_1(
    document: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit = "where=[time.training_days <= 1 s]"
    out = str(tmp_path / "o.csv")
    status, said, _ = called(capsys, str(document), "-o", out, "--set", limit, "--workers", "1")
    assert status == 1 and "60 break a limit of the study" in said


def test_an_engine_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for package, engine in (("distributed", "dask"), ("ray", "ray")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(PlanError, match=rf"needs {engine} \(pip install '\.\[{engine}\]'"):
            run.sweep(study.read_study(SMALL), on=f"{engine}://localhost:1")


def test_a_cluster_whose_library_waits_for_ever_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As Ray's client does where memory ends, for threads of its own that it could not begin: when
    it connects, and when it disconnects."""
    waited: list[str] = []

    def waits(name: str) -> None:
        waited.append(name)
        threading.Event().wait()

    def remote(function: Any) -> Any:
        def begun(*words: Any) -> Any:
            found: Future[Any] = Future()
            found.set_result(function(*words))
            return SimpleNamespace(future=lambda: found)

        return SimpleNamespace(remote=begun)

    ray = SimpleNamespace(
        init=lambda *_, **__: waits("init"),
        shutdown=lambda: waits("shutdown"),
        cluster_resources=lambda: {"CPU": 2},
        remote=lambda **_: remote,
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(engines, "BEGINNING", 0.1)
    monkeypatch.setattr(engines, "PATIENCE", 0.1)
    with pytest.raises(PlanError, match="ray://x:1: the cluster does not answer: TimeoutError"):
        run.sweep(study.read_study(SMALL), on="ray://x:1")
    ray.init = lambda *_, **__: None
    assert run.sweep(study.read_study(SMALL), on="ray://x:1").summary.points == 90
    assert waited == ["init", "shutdown"]


@pytest.mark.parametrize(
    ("debug", "said"),
    [((), r"internal error: RuntimeError: no new thread \(--debug shows where\)\n"),
     (("--debug",), r"Unexpected.*\nTraceback (.|\n)*RuntimeError: no new thread\n")],
)  # fmt: skip
def test_a_thread_of_a_librarys_that_ends_by_an_error_ends_the_program(
    debug: tuple[str, ...], said: str, document: Path, tmp_path: Path
) -> None:
    (tmp_path / "ray.py").write_text(
        "import logging, threading\n"
        "def ended(): raise RuntimeError('no new thread')\n"
        "def init(*_, **__):\n"
        "    logging.getLogger('ray').error('Unexpected exception:')\n"
        "    threading.Thread(target=ended).start()\n"
        "    threading.Event().wait()\n"
        "shutdown = init\n"
    )
    line = [sys.executable, "plan.py", "sweep", str(document), "-o", str(tmp_path / "o.csv")]
    done = subprocess.run(
        [*line, "--on", "ray://x:1", *debug], cwd=resources.folder("presets").parent, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (70, "")
    assert re.fullmatch(said, done.stderr), done.stderr


def test_a_library_that_cannot_be_loaded_is_not_called_absent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError('libarrow.so: failed to map segment')")
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PlanError, match=r"does not answer: libarrow\.so: failed to map segment"):
        run.sweep(study.read_study(SMALL), on="ray://x:1")


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", leave_to_night(STUDIES, [path for path in STUDIES if path.stem != "fit_table"]), ids=str
)
def test_a_shipped_study_runs_and_something_fits(path: Path) -> None:
    found = planner.load_study(path).sweep()
    assert found.counts["fit"] > 0
    assert path.read_text("utf-8").startswith(
        "# yaml-language-server: $schema=../../schemas/study.schema.json\n"
    )


def test_faults_travel_between_processes() -> None:

    error = PlanError([Fault("a", Place("f", 1, 2), "b", "c"), Fault("d")])
    assert pickle.loads(pickle.dumps(error)).faults == error.faults


# The comparison --------------------------------------------------------------------------------

HOSTILE = "<script>alert(1)</script>|`*&\"'"


@pytest.mark.slow
@settings(max_examples=5)
@given(st.text(min_size=1, max_size=40))
def test_text_of_a_study_is_never_markup(words: str) -> None:
    from planner.report import study as pages

    for text in (HOSTILE, words):
        document = {
            "name": text,
            "notes": text,
            "base": LLAMA,
            "axes": {
                "training.tokens": ["1T", "2T"],
                "x": [
                    {"name": text, "set": {"parallelism.tensor": 8}},
                    {"set": {"parallelism.tensor": 7}},
                ],
            },
        }
        outcome = planner.load_study(document).sweep().outcome
        page, note = pages.render_study(outcome), pages.render_study(outcome, "md")
        assert "<script" not in page and "<script" not in note
        assert "alert(1)|" not in note
        assert page == pages.render_study(outcome)


@pytest.mark.slow
def test_the_page_draws_a_chart_for_each_question(tmp_path: Path) -> None:
    from html.parser import HTMLParser

    from planner.report import study as pages

    path = resources.folder("presets") / "studies" / "llama70b_devices.yaml"
    found = planner.load_study(path).sweep()
    page = pages.render_study(found.outcome)
    tags: list[str] = []
    reader = HTMLParser()
    reader.handle_starttag = lambda tag, attributes: tags.append(tag)  # type: ignore[method-assign,assignment]
    reader.feed(page)
    assert tags.count("figure") == 2 and "script" not in tags and "://" not in page
    # The answer, from the rows of the table: safe, in 120 days, the cheapest.
    rows = [r for r in planner.load_study(path) if r["training.tokens"] == 15 * 10**12]
    safe = [r for r in rows if r["verdict"] == "fits"]
    best = min((r for r in safe if r["time.training_days"] <= 120), key=lambda r: r["cost.total"])
    lead = re.sub(r"<[^>]*>", "", page.split("<h1")[1].split("</h1>")[0]).partition(">")[2]
    devices = f"{best['cluster.devices']:,} × H100"
    assert lead.startswith(f"Cheapest within 120 days for 15T tokens: {devices}")
    for end in ("", ".low", ".high"):
        assert f"{best[f'time.training_days{end}']:#.3g}".rstrip(".") in lead
        assert f"{best[f'cost.total{end}'] / 1e6:#.3g}" in lead
    half = min((r for r in safe if 2 * r["cluster.devices"] == best["cluster.devices"]),
               key=lambda r: r["cost.total"])  # fmt: skip
    cheaper = f"{100 * (1 - half['cost.total'] / best['cost.total']):.1f}"
    assert f"<b>{cheaper} % cheaper</b>" in page and page.count('class="deadline" ') == 2
    assert page.count('class="win">') == 2  # one in the table of each task
    text = str(found)
    assert " ".join(text.split("\n  ")[0].split()) == " ".join(lead.split())
    found.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page


def test_the_page_says_how_its_numbers_are_known() -> None:
    """6ND over an assumed half of the peak: 143.93 days (Stanford CS336, lecture 2), assumed; bytes
    of states exact; predicted days an estimate, beside the assumed ones too."""
    from planner.report import study as pages

    lecture = {"base": "cs336_70b_h100x1024", "axes": {"training.tokens": ["15T", "30T"]}}
    found = planner.load_study(lecture).sweep()
    for page in (pages.render_study(found.outcome, "md"), pages.render_study(found.outcome)):
        assert "those of an assumed utilisation" in page
        assert "144 | " in page or (">144<" in page and "redicted" not in page)
    half = {**LLAMA, "time": {"mfu": 0.5, "use": "assumed"}}
    assumed = {"base": half, "axes": {"cluster.devices": [512, 1024]}}
    page = pages.render_study(planner.load_study(assumed).sweep().outcome, "md")
    assert "those of an assumed utilisation" in page and "Predicted instead of assumed" in page
    alone = [planner.load(LLAMA, set=[f"cluster.devices={n}"]).evaluate()["time.training_days"]
             for n in (512, 1024)]  # fmt: skip
    assert all(one.kind == "estimate" for one in alone)
    assert any(f"Predicted instead of assumed: **{float(one.number):.0f} days**" in page
               for one in alone)  # fmt: skip


# Ranges ----------------------------------------------------------------------------------------


def _range(tmp_path: Path, text: str, key: str = "training.tokens") -> list[Fraction]:
    document = tmp_path / "range.yaml"
    document.write_text(f"base: gpt2small_hgx-h100\naxes: {{{key}: {text}}}\n")
    (axis,) = study.read_study(document).axes
    return [choice.label for choice in axis.choices]


def test_a_range_is_counted_before_it_is_made(tmp_path: Path) -> None:
    """30 ln 10 / ln 1.0000001 = 690,775,562.3 steps; none of them is made."""
    for factor, count in (("1.0000001", 690_775_563), ("1." + "0" * 150 + "1", 10**150)):
        with pytest.raises(PlanError) as caught:
            _range(tmp_path, f"{{from: 1, to: 1e30, factor: {factor}}}")
        said = re.fullmatch(r".*:2:25: .* has (\d+) values \(.*\)", str(caught.value))
        assert said is not None and int(said[1]) >= count


def test_values_of_a_factor_are_rounded_as_on_a_logarithmic_scale(tmp_path: Path) -> None:
    found = _range(tmp_path, "{from: 1B, to: 10B, factor: 1.001}")
    # ln 10 / ln 1.001 = 2303.7 steps.
    assert len(found) == 2304
    assert found[1] == 1_001_000_000 and found[3] == round(Fraction("1.001") ** 3 * 10**9)
    assert all(abs(found[i] / 1e9 / 1.001**i - 1) < 1e-9 for i in range(len(found)))


@pytest.mark.parametrize(("text", "expected"), read_data("questions")["ranges"])
def test_the_end_of_a_range_is_a_value_where_a_step_meets_it(
    text: str, expected: list[int], tmp_path: Path
) -> None:
    assert _range(tmp_path, text) == expected


def test_powers_of_a_whole_factor_stay_exact(tmp_path: Path) -> None:
    assert _range(tmp_path, "{from: 1, to: 1e19, factor: 2}")[-1] == 2**63


def test_all_faults_of_a_study_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "base: {extends: llama70b_h100x1024, cluster: nix}\n"
        "axes:\n  training.micro_batchh: [1, 2]\n  cluster.devices: {from: 8, to: 1, factor: 2}\n"
        "limit: lots\ndeadlin: 3\n"
    )
    with pytest.raises(PlanError) as caught:
        planner.load_study(file)
    told = [(fault.place.line, fault.message) for fault in caught.value.faults if fault.place]
    assert [line for line, _ in told] == [1, 3, 4, 5, 6]
    assert "unknown cluster 'nix'" in told[0][1] and "deadlin" in told[-1][1]
