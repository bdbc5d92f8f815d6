"""Shell scripts that start a run: what is read of them, and that nothing of them is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import Place, PlanError
from planner.connect.exports import READ_TRAINERS
from planner.connect.imports import commands, import_file, launch, megatron
from planner.questions import loading
from planner.results.result import evaluate_plan
from tests.conftest import read_data


@pytest.mark.parametrize("row", read_data("scripts"), ids=lambda row: row["source"])
def test_a_script_is_read_or_says_what_it_leaves_open(row: dict[str, Any]) -> None:
    place, name = Place(row.get("file", "run.sh")), row.get("from", "megatron")
    reader = launch.read_trainer if name in READ_TRAINERS else launch.read_launch
    if "refused" in row:
        with pytest.raises(PlanError, match=row["refused"]) as error:
            reader(row["script"], name, place, changes=row["set"])
        assert all("\n" not in str(fault) for fault in error.value.faults)
        return
    read = reader(row["script"], name, place, changes=row["set"])
    plan, named = loading.load(read.document), row.get("named")
    assert named is None or named in read.said
    for key, value in row["read"].items():
        if key == "parameters":
            count = evaluate_plan(plan)["parameters.total"].number
            assert count == pytest.approx(value, rel=0.01)
        else:
            assert plan.get(key) == value, key


@pytest.mark.parametrize(
    ("script", "name"),
    read_data("connect")["frameworks_of_scripts"],
)
def test_the_program_names_the_framework(script: str, name: str) -> None:
    place = Place("run")
    assert commands.is_command(script, place)
    if " " not in name:
        assert commands.find_framework(script, place) == name
        return
    with pytest.raises(PlanError, match=name):
        commands.find_framework(script, place)


@pytest.mark.parametrize(
    "text", ["\n" * 200_000, "model: x\nargs: --a 1\n", '{"a": "x --b"}', "a/b", "x.yaml"]
)
def test_a_file_of_settings_is_no_command(text: str) -> None:
    assert not commands.is_command(text, Place("run"))


@pytest.mark.parametrize("script", read_data("faults")["scripts"])
@pytest.mark.parametrize("name", ["megatron", "", *READ_TRAINERS])
def test_a_hostile_script_is_one_fault_a_line(script: str, name: str) -> None:
    text = script.replace("$M", "A=1; x $A --num-layers " + '"$(' * 30_000)
    with pytest.raises(PlanError) as error:
        if name in READ_TRAINERS:
            launch.read_trainer(text, name, Place("run.sh"))
        elif name:
            launch.read_launch(text, name, Place("run.sh"))
        else:
            megatron.read_megatron(text, Place("run.sh"))
    assert all("\n" not in str(fault) and "\0" not in str(fault) for fault in error.value.faults)


BESIDE = [*read_data("primus"), *read_data("files_beside")]


@pytest.mark.parametrize("row", BESIDE, ids=lambda row: row["source"])
def test_a_file_is_read_over_those_that_it_names(
    row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in row["files"].items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    path = row.get("run", "examples/run.yaml")
    if "refused" in row:
        with pytest.raises(PlanError, match=row["refused"]):
            import_file(path, row.get("from", ""))
        return
    read = import_file(
        path,
        row.get("from", ""),
        changes=row.get("set", [] if "run" in row else ["cluster.devices=8"]),
    )
    plan = loading.load(read.document)
    assert {key: plan.get(key) for key in row["read"]} == row["read"]
    assert row.get("named", read.said[0]) in read.said
