"""What campaigns of the fuzzer found, each a document that once hung or broke the program."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import watch

STUDY = "base: gpt2small_hgx-h100\n"


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".md", ".html"])
def test_a_study_of_one_plan_has_one_point(tmp_path: Path, ending: str) -> None:
    study, table = tmp_path / "study.yaml", tmp_path / f"out{ending}"
    study.write_text(STUDY)
    outcome = watch.run(["sweep", str(study), "--workers", "1", "-o", str(table)])
    assert (outcome.status, outcome.problem) == (0, None), outcome
    assert table.stat().st_size


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
        f"{study}:2:7: the axes have 3000 values that are no numbers "
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


def test_many_layouts_are_listed_without_evaluating_each(tmp_path: Path) -> None:
    """The first of a long list are evaluated exactly, the others over arrays."""
    table = tmp_path / "layouts.csv"
    line = ["search", "presets/llama70b_h100x1024.yaml", "--top", "2000", "-o", str(table)]
    outcome = watch.run(line)
    assert (outcome.status, outcome.problem) == (0, None), outcome
    assert len(table.read_text().splitlines()) == 2001 and outcome.seconds < 8


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
