"""What campaigns of the fuzzer found, each a document that once hung or broke the program."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

import planner
from fuzz import lines, watch
from planner.book.quantity import BOOK
from tests.conftest import read_data

STUDY = "base: gpt2small_hgx-h100\n"


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".md", ".html"])
def test_a_study_of_one_plan_has_one_point(tmp_path: Path, ending: str) -> None:
    study, table = tmp_path / "study.yaml", tmp_path / f"out{ending}"
    study.write_text(STUDY)
    outcome = watch.run(["sweep", str(study), "--workers", "1", "-o", str(table)])
    assert (outcome.status, outcome.problem) == (0, None), outcome
    assert table.stat().st_size


@pytest.mark.slow
def test_values_that_are_read_one_by_one_are_few(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.cli.main import main

    study = tmp_path / "study.yaml"
    study.write_text(STUDY + "axes: {parallelism: [" + "auto, " * 3000 + "]}\n")
    outcome = watch.run(["validate", str(study)])
    assert (outcome.status, outcome.problem) == (2, None), outcome
    assert main(["validate", str(study)]) == 2
    assert capsys.readouterr().err == (
        f"{study}:2:7: the axes have 3000 values that are not numbers "
        "(at most 250, each is a plan to read)\n"
    )


def test_a_log_nested_deeply_is_a_fault_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.cli.main import main

    log = tmp_path / "run.log"
    for text in ("[" * 10_000, '{"a": ' * 10_000, "{}\n" + '{"a":' * 10_000):
        log.write_text(text)
        assert main(["compare", "presets/gpt2small_hgx-h100.yaml", "--log", str(log)]) == 2
        assert f"{log}:1:1: nested too deeply" in capsys.readouterr().err


@pytest.mark.slow
def test_many_layouts_are_listed_without_evaluating_each(tmp_path: Path) -> None:
    """The first of a long list are evaluated exactly, the others over arrays."""
    table = tmp_path / "layouts.csv"
    line = ["search", "presets/gpt2small_hgx-h100.yaml", "--top", "2000", "-o", str(table)]
    outcome = watch.run(line, lines.PATIENCE["search"])
    assert (outcome.status, outcome.problem) == (0, None), outcome
    assert len(table.read_text().splitlines()) == 2001


@pytest.mark.slow
def test_a_name_that_turns_the_direction_is_escaped_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import json

    from planner.cli.main import main

    plan = "presets/gpt2small_hgx-h100.yaml"
    assert main(["report", plan, "--set", 'name="a\\u202eb"', "--format", "json"]) == 0
    shown = capsys.readouterr().out
    assert "\u202e" not in shown and json.loads(shown)["plan"]["name"]
    assert main(["report", plan, "--set", "model.name=a\u202eb", "--format", "json"]) == 0
    shown = capsys.readouterr().out
    assert "\u202e" not in shown and "a\u202eb" in json.dumps(json.loads(shown), ensure_ascii=False)


SMALL = read_data("plans")["small_found"]


def rows(key: str, values: list[str], *record: str) -> list[dict[str, Any]]:
    return list(planner.load_study({"base": SMALL, "axes": {key: values}, "record": [*record]}))


def test_what_one_point_divides_by_zero_others_do_not() -> None:
    """Activations of no bytes have no intensity; the order of the values decides nothing."""
    values = ["0 B", "2 B"]
    found = rows("training.bytes.activation", values, "roofline.intensity")
    turned = rows("training.bytes.activation", values[::-1], "roofline.intensity")
    assert found == turned[::-1]
    assert found[0]["roofline.intensity"] is None and found[0]["reason"]
    exact = planner.load(SMALL).evaluate()["roofline.intensity"]
    assert found[1]["roofline.intensity"] == pytest.approx(float(exact.number), rel=1e-12)


@pytest.mark.parametrize(("key", "values", "beside"), read_data("faults")["refused_values"])
def test_a_value_that_is_refused_refuses_no_other(
    key: str, values: list[str], beside: dict[str, Any]
) -> None:
    study = planner.load_study(
        {"base": SMALL, "axes": {key: values}, "record": ["time.step_seconds"]},
        set={f"base.{name}": value for name, value in beside.items()},
    )
    refused, kept = study
    assert refused["time.step_seconds"] is None and refused["reason"]
    assert kept["time.step_seconds"] > 0 and not kept["reason"]


def test_the_allocator_holds_no_less_than_what_lives() -> None:
    """Where all activations lie on the host, a layer is back in full for its backward pass."""
    study = planner.load(SMALL, set={
        "training.offload.activations": 1, "training.micro_batch": 8, "model.layers": 2,
        "training.bytes.activation": "200 B",
    })  # fmt: skip
    result = study.evaluate()
    reserved, live = (result[f"memory.{name}"].value for name in ("reserved", "total"))
    assert isinstance(reserved, int) and isinstance(live, int) and reserved >= live


def test_traffic_that_all_hides_is_none_and_not_less() -> None:
    """Doubles of a sum that cancels lay a hair below zero."""
    base = read_data("plans")["opt_on_a10g"]
    axes = {
        "time.efficiency.contention": [0, 0.5],
        "cluster.network.latency": ["1 us", "2 us", "7 us"],
    }
    study = planner.load_study({"base": base, "axes": axes, "record": ["time.data"]})
    assert all(row["time.data"] >= 0 for row in study)


def test_what_divides_by_zero_at_all_points_is_absent_in_a_study_too() -> None:
    """Of checkpoints of no bytes none is lost: Python says that the largest of 0 and NaN is 0."""
    base = {
        **SMALL,
        "cluster": {**SMALL["cluster"], "storage": {"bandwidth": "1 GB/s"}, "failures": FAILURES},
        "time": {"restart": "15 min"},
    }
    none = dict.fromkeys(("weight", "master", "state"), "0 B")
    training = {**SMALL["training"], "optimizer": "sgd", "bytes": none}
    study = {
        "base": {**base, "training": training},
        "axes": {"cluster.carbon_intensity": ["0 kg/kWh", "1 kg/kWh"]},
        "record": ["checkpoint.bytes", "time.failure_days"],
    }
    exact = planner.load(study["base"]).evaluate()
    for row in planner.load_study(study):
        assert row["checkpoint.bytes"] == 0 and row["time.failure_days"] is None
        assert exact["time.failure_days"].absent in row["reason"]


FAILURES = {"count": 419, "devices": 16384, "period": "54 days"}


@pytest.mark.slow
def test_a_value_outside_its_range_is_absent_in_a_study_as_in_a_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Were no step possible above a second, longer ones and what rests on them would be a fault of
    the program, which a study tells as a plan does."""
    base = {**SMALL, "training": {**SMALL["training"], "micro_batch": 1, "global_batch": 512}}
    alone = planner.load(base).evaluate()["time.step_seconds"].number
    most = math.ceil(alone)
    monkeypatch.setattr(BOOK.quantities["time.step_seconds"], "within", (0, most))
    tokens = "training.tokens"
    found = list(planner.load_study({
        "base": base,
        "axes": {
            "cluster.accelerator.memory_bandwidth": ["1 TB/s", "3.35 TB/s", "10 GB/s", "9 GB/s"],
            tokens: ["1B", "2B"],
        },
        "record": ["time.step_seconds", "time.training_days"],
    }))  # fmt: skip
    for row in found:
        keys = ("cluster.accelerator.memory_bandwidth", tokens)
        exact = planner.load(base, set={keys[0]: f"{row[keys[0]]} B/s", tokens: row[tokens]})
        quantity = exact.evaluate()["time.step_seconds"]
        assert (row["time.step_seconds"] is None) == (quantity.value is None)
        assert (row["time.training_days"] is None) == (quantity.value is None)
        said = (quantity.absent or "").partition(":")[0]  # and then the first such value
        assert said in (row["reason"] or "") and (said == "outside its range" or not said)
    assert {row["time.step_seconds"] is None for row in found} == {True, False}


@pytest.mark.slow
def test_a_value_outside_its_range_is_absent_in_a_study_of_layouts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    axes = {
        "parallelism.tensor": [1, 2, 4, 8], "parallelism.pipeline": [1, 2, 3, 4],
        "parallelism.zero": [0, 1, 2, 3], "training.recompute": ["none", "full"],
    }  # fmt: skip
    study = {"base": {**SMALL, "parallelism": {}}, "axes": axes, "record": ["time.step_seconds"]}

    def seconds() -> list[Any]:
        return [row["time.step_seconds"] for row in planner.load_study(study)]

    every = seconds()
    known = sorted(value for value in every if value is not None)
    most = math.ceil(1e6 * known[len(known) // 2]) / 1e6
    monkeypatch.setattr(BOOK.quantities["time.step_seconds"], "within", (0, most))
    assert seconds() == [None if value is None or value > most else value for value in every]
    assert known[-1] > most
    said = {row["reason"] for row in planner.load_study(study) if not row["time.step_seconds"]}
    assert any("outside its range" in reason for reason in said)


@pytest.mark.parametrize(
    ("model", "changes", "name"),
    [
        ({"parameters": "1B"}, {}, "roofline.intensity"),  # a sum of nothing over another
        # held by the fullest stage, which is not known
        ({"extends": "mamba-130m", "positions": "rope"}, {}, "memory.weights"),
        ("gpt2-small", {"training.bytes": dict.fromkeys(("weight", "master", "state"), "0 B"),
                        "training.optimizer": "sgd"}, "checkpoint.write_seconds"),
    ],
)  # fmt: skip
def test_what_a_plan_has_no_value_for_a_study_has_none(
    model: Any, changes: dict[str, Any], name: str
) -> None:
    """None over none is not one, none times zero not zero, and the largest of none no choice."""
    base = {**SMALL, "model": model}
    exact = planner.load(base, set=changes).evaluate()[name]
    axes = {"cluster.carbon_intensity": ["0 kg/kWh", "1 kg/kWh"]}
    study = {"base": base, "axes": axes, "record": [name]}
    for row in planner.load_study(study, set={f"base.{key}": v for key, v in changes.items()}):
        assert exact.absent and exact.absent in row["reason"]
        assert row[name] is None


def test_deadlines_of_a_study_without_axes_are_a_fault_at_their_place(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text("base: gpt2small_hgx-h100\naxes: link\ndeadline: [30 days, 120 days]\n")
    outcome = watch.run(["validate", str(file)])
    assert outcome.problem is None and outcome.status == 2 and "deadline has 2" in outcome.said
