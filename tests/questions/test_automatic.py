"""`parallelism: auto`: every command sees the layout that the search finds."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from planner.base.errors import PlanError
from planner.cli import main as cli
from planner.documents.schema import validate
from planner.documents.source import load as read
from planner.plans import plan as plans
from planner.questions import loading
from planner.questions.search import automatic, ranking
from planner.questions.search.engine import search
from planner.questions.search.layouts import COMMON
from planner.questions.solve.questions import ask
from planner.results.result import evaluate_plan
from tests.conftest import read_data

PLAN: dict[str, Any] = read_data("plans")["automatic"]
SPELLED = ("tensor", "pipeline", "context", "zero", "virtual_pipeline", "replicate", "sequence")


def run(*words: str) -> tuple[int, str, str]:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = cli.main(list(words))
    return status, out.getvalue(), errors.getvalue()


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "open.yaml"
    path.write_text(yaml.safe_dump(PLAN), "utf-8")
    return str(path)


@pytest.mark.slow
def test_the_layout_is_the_plainest_of_the_best_that_a_search_finds() -> None:
    plan = loading.load(PLAN)
    best = search(plan, top=1, vary={"training.schedule": COMMON}).plain
    assert best is not None
    for key, value in best.changes.items():
        if key.split(".")[1] in (*SPELLED, "micro_batch", "recompute", "schedule"):
            assert plan.get(key) == value, key
    assert plan.get("parallelism.auto") is None and not plan.document.has_value(
        ("parallelism", "auto")
    )
    other = loading.load(PLAN, {"training.schedule": "zero-bubble", "parallelism.pipeline": 2})
    assert other.get("training.schedule") == "zero-bubble"


@pytest.mark.parametrize(
    ("seconds", "said"), [(101.5, " (1.5 % faster)"), (100.5, " (0.50 % faster)"), (100, "")]
)
def test_the_plainest_is_chosen_with_how_much_faster_the_fastest_is(
    seconds: float, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, fastest = (
        SimpleNamespace(values={automatic.STEP: s}, changes={}) for s in (seconds, 100)
    )
    counts = {"size": 7, "every": 7, "narrowed": {}, "launcher": None, "tight": False}
    found = SimpleNamespace(plain=plain, best=(fastest,), **counts)
    monkeypatch.setattr(automatic, "search", lambda *_, **__: found)
    layout, why, _ = automatic._find_layout(validate(read(PLAN), "plan"))
    assert layout is plain
    assert f"the simplest within {ranking.SPARED} of the fastest that fits{said} of " in why


def test_what_is_given_stays() -> None:
    layout = {"auto": True, "tensor": 4, "zero": 1}
    training = {**PLAN["training"], "micro_batch": 2, "recompute": "full"}
    plan = loading.load({**PLAN, "parallelism": layout, "training": training})
    given = ("parallelism.tensor", "parallelism.zero", "training.micro_batch")
    assert [plan.get(key) for key in given] == [4, 1, 2]
    assert plan.get("training.recompute") == "full"
    assert not set(given) & set(plan.derived)
    assert "found" in plan.derived["parallelism.pipeline"]


@pytest.mark.slow
def test_by_set_as_in_the_document() -> None:
    spelled = {**PLAN, "parallelism": {"tensor": 2}}
    assert loading.load(spelled, {"parallelism": "auto"}).data == loading.load(PLAN).data
    kept = loading.load(PLAN, {"parallelism.tensor": "2"})
    assert kept.get("parallelism.tensor") == 2 and "parallelism.pipeline" in kept.derived
    assert read(PLAN).data["parallelism"] == {"auto": True}


def test_a_variant_is_searched_anew_until_its_layout_is_known() -> None:
    open_ended = validate(read(PLAN), "plan")
    for devices in (8, 32):
        plan = plans.build_plan(open_ended.change_keys({"cluster.devices": devices}))
        layout = [
            plan.get(f"parallelism.{key}") for key in ("tensor", "pipeline", "context", "data")
        ]
        assert math.prod(layout) == devices
    plan = loading.load(PLAN)
    wider = plans.variant(plan, {"training.global_batch": 128})
    assert wider.get("parallelism.tensor") == plan.get("parallelism.tensor")


@pytest.mark.slow
def test_every_command_sees_the_layout(file: str, tmp_path: Path) -> None:
    status, first, _ = run(file, "--format", "json")
    assert status == 0 and first == run(file, "--format", "json")[1]
    result = json.loads(first)
    said = result["inputs"]["parallelism.tensor"]
    assert "parallelism: auto" in said["origin"]
    resolved = run(file, "--print", "resolved")[1]
    again = tmp_path / "resolved.yaml"
    again.write_text(resolved, "utf-8")
    assert "auto" not in yaml.safe_load(resolved)["parallelism"]
    spelled = json.loads(run(str(again), "--format", "json")[1])
    for key in ("memory.process", "time.step_seconds"):
        assert spelled["quantities"][key]["value"] == result["quantities"][key]["value"]
    assert run("explain", file, "memory.process")[0] == 0
    assert run("validate", file)[0] == 0
    assert run("diff", file, str(again))[0] == 0


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("layout", [{"parallelism": "auto"}, {}])
def test_commands_agree_on_the_layout(layout: dict[str, Any], tmp_path: Path) -> None:
    """Asked for, or left open by saying nothing: the step of a study's point, of an export's
    degrees, of a report that is checked again and of a plan held against its result is one."""
    plan = tmp_path / "plan.yaml"
    spelled = {key: value for key, value in PLAN.items() if key != "parallelism"}
    plan.write_text(yaml.safe_dump({**spelled, **layout}), "utf-8")
    study = tmp_path / "study.yaml"
    step, table = "time.step_seconds", tmp_path / "table.csv"
    axes = {"axes": {"training.tokens": ["1B", "2B"]}, "record": [step]}
    study.write_text(yaml.safe_dump({"name": "two", "base": "plan.yaml", **axes}), "utf-8")
    saved, words = tmp_path / "plan.json", tmp_path / "plan.md"
    assert run(str(plan), "-o", str(saved), "-o", str(words))[0] == 0
    result = json.loads(saved.read_text("utf-8"))
    assert run("sweep", str(study), "-o", str(table), "--workers", "1")[0] == 0
    with table.open(encoding="utf-8", newline="") as lines:
        points = list(csv.DictReader(lines))
    expected = result["quantities"][step]["value"]
    assert [float(point[step]) for point in points] == pytest.approx([expected] * 2, rel=1e-12)
    assert "NOTHING CHANGED" in run("diff", str(plan), str(saved))[1]
    assert run("check", str(words))[0] == 0
    exported = run("export", str(plan), "--to", "megatron")[1].split()
    for key, option in (("tensor", "--tensor-model"), ("pipeline", "--pipeline-model")):
        size = exported[exported.index(f"{option}-parallel-size") + 1]
        assert int(size) == result["inputs"][f"parallelism.{key}"]["value"]
    derived = run("explain", str(plan), step)
    assert derived[0] == 0 and f"{expected:.3g}"[:4] in derived[1]


@pytest.mark.slow
def test_the_report_shows_the_search_that_found_the_layout(file: str, tmp_path: Path) -> None:
    page, words = tmp_path / "open.html", tmp_path / "open.md"
    assert run(file, "-o", str(page), "-o", str(words))[0] == 0
    for text in (page.read_text("utf-8"), words.read_text("utf-8")):
        assert "Layouts considered" in text and ("own, 1" in text or "own, simplest" in text)
        assert "layouts, " in text and "fit into memory" in text
    assert '<circle class="own"' in page.read_text("utf-8")  # the ring around the plan's own


@pytest.mark.slow
def test_a_report_holds_a_plan_against_all_layouts(tmp_path: Path) -> None:
    words, plan = tmp_path / "report.md", "presets/gpt2small_hgx-h100.yaml"
    assert run(plan, "-o", str(words))[0] == 0
    assert "Layouts considered" not in words.read_text("utf-8")
    assert run(plan, "--set", "report.alternatives=search", "-o", str(words))[0] == 0
    for part in ("Layouts considered", "| own. ", "| kernels |"):
        assert part in words.read_text("utf-8")
    assert run("check", str(words))[0] == 0


def test_a_report_says_why_there_is_no_search(tmp_path: Path) -> None:
    plan, words = tmp_path / "size.yaml", tmp_path / "report.md"
    layout = {"parallelism": {"tensor": 2}, "report": {"alternatives": "search"}}
    plan.write_text(yaml.safe_dump({**PLAN, **layout, "model": {"parameters": "7B"}}), "utf-8")
    assert run(str(plan), "-o", str(words))[0] == 0
    assert "There is no search: a search needs the shape of the model" in words.read_text("utf-8")


@pytest.mark.slow
def test_where_nothing_fits_the_nearest_is_shown(file: str) -> None:
    tight = ("--set", "cluster.devices=1", "--set", "model=llama2-70b")
    status, text, _ = run(file, *tight, "--require-fit")
    assert status == 1 and "DOES NOT FIT" in text
    resolved = run(file, *tight, "--print", "resolved")[1]
    assert "lacks least" in resolved


THREE: dict[str, Any] = {
    "model": "llama3-8b",
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64, "devices_per_node": 8},
    "training": {"tokens": "1T"},
}


@pytest.mark.slow
def test_three_lines_are_a_plan() -> None:
    """The longest sequence of the model, 4M tokens a step as Llama 2, and a layout that fits."""
    plan = loading.load(THREE)
    assert plan.get("training.sequence_length") == 8192
    assert plan.derived["training.sequence_length"] == "equals model.max_sequence"
    assert plan.get("training.global_batch") * 8192 == 2**22
    assert "Llama 2" in plan.derived["training.global_batch"]
    assert plan.data == loading.load({**THREE, "parallelism": "auto"}).data
    assert loading.load({**THREE, "cluster": {**THREE["cluster"], "devices": 96}}).get(
        "training.global_batch"
    ) == 96 * math.ceil(512 / 96)


def test_a_layout_is_left_open_only_where_nothing_is_said_of_it() -> None:
    """What is said of a layout spells it out; one device has none; what no search can answer runs
    on the defaults, as a size alone does."""
    spelled: tuple[dict[str, Any], ...] = (
        {"parallelism": {"zero": 0}},
        {"training": {"tokens": "1T", "gradient_accumulation": 2}},
        {"cluster": {**THREE["cluster"], "devices": 1}},
        {"model": {"parameters": "7B"}},
        {"training": {"tokens": "1T", "mode": "inference"}},
    )
    for changes in spelled:
        plan = loading.load({**THREE, **changes})
        assert plan.searched is None and plan.get("parallelism.zero") == 0, changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        *read_data("faults")["automatic"],
        ({"training": {**PLAN["training"], "mode": "inference"}}, "training step"),
    ],
)
def test_what_auto_cannot_do(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        loading.load({**PLAN, **changes})


@pytest.mark.slow
def test_a_batch_that_is_left_open_follows_the_devices_of_an_answer() -> None:
    left_open = {k: v for k, v in PLAN["training"].items() if k != "global_batch"}
    stated = {**left_open, "tokens": "300B", "implementation": "pytorch"}
    holds = ask(
        loading.load({**PLAN, "training": stated}), "fewest-devices", deadline="10 days"
    ).holds
    assert holds is not None
    again = loading.load(
        {**PLAN, "training": stated, "cluster": {**PLAN["cluster"], "devices": holds.value}}
    )
    assert holds.plan.get("training.global_batch") == again.get("training.global_batch")
    days = evaluate_plan(again)["time.training_days"].number
    assert days <= 10 and abs(days / holds.values["time.training_days"] - 1) <= 0.02
