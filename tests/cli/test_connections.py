"""The commands that connect a plan to frameworks, logs and shells, run as a user runs them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.conftest import read_data

RunCli = Callable[..., "CompletedProcess[str]"]
PLAN = "presets/gpt3_a100x1024.yaml"
LOG = "tests/data/logs/megatron.log"


def test_an_export_is_written_and_what_it_cannot_say_is_told(
    run_cli: RunCli, tmp_path: Path
) -> None:
    file = tmp_path / "deepspeed.json"
    done = run_cli("export", PLAN, "--to", "deepspeed", "-o", file, "--set", "parallelism.zero=2")
    assert (done.returncode, done.stdout) == (0, "")
    assert json.loads(file.read_text(encoding="utf-8"))["zero_optimization"]["stage"] == 2
    assert "deepspeed: parallelism.pipeline 8: PipelineModule" in done.stderr


def test_standard_output_holds_the_configuration_alone(run_cli: RunCli) -> None:
    assert json.loads(run_cli("export", PLAN, "--to", "deepspeed").stdout)


def test_an_unknown_framework_is_bad_usage(run_cli: RunCli) -> None:
    done = run_cli("export", PLAN, "--to", "fairseq")
    assert done.returncode == 2 and "torchtitan" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "start"), [("text", "DIFFERS  GPT-3"), ("md", "## "), ("json", "{")]
)
def test_a_plan_beside_a_log(run_cli: RunCli, form: str, start: str) -> None:
    done = run_cli("compare", PLAN, "--log", LOG, "--format", form)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(start) and LOG in done.stdout


def test_a_log_that_is_none_is_bad_input(run_cli: RunCli) -> None:
    done = run_cli("compare", PLAN, "--log", "README.md")
    assert done.returncode == 2
    assert done.stderr.startswith("README.md: no log of a training run")


def test_the_version_names_formulas_and_presets(run_cli: RunCli) -> None:
    done = run_cli("--version")
    assert re.fullmatch(
        r"trainplan \d+\.\d+\.\d+ \(formulas [0-9a-f]{8}, presets [0-9a-f]{8}\)\n", done.stdout
    )


def test_a_completion_script_is_the_same_each_time(run_process: RunCli) -> None:
    pytest.importorskip("argcomplete")
    first, second = (run_process("completion", "zsh").stdout for _ in range(2))
    assert first == second and first.startswith("#compdef trainplan")


def test_an_export_gives_each_reason_once(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("export", PLAN, "--force", "--to", "accelerate", "-o", tmp_path / "out.yaml")
    reasons = [line.rpartition(": ")[2] for line in done.stderr.splitlines()]
    assert len(reasons) == len(set(reasons)) > 1
    for each in ("training.micro_batch 1", "training.sequence_length 2048"):
        assert done.stderr.count(each) == 1


def test_an_import_says_what_it_found_and_what_it_left_out(run_cli: RunCli, tmp_path: Path) -> None:
    """Mixtral's size is that of its model card: 46.7B parameters, 12.9B used for a token."""
    mixtral = read_data("connect")["mixtral_config"]
    file = tmp_path / "config.json"
    file.write_text(json.dumps(mixtral))
    done = run_cli("import", file, "-o", tmp_path / "model.yaml")
    assert (done.returncode, done.stdout) == (0, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        f"{file}: mixtral: 46.7B parameters, 12.9B active for a token; 32 layers"
    )
    assert "8 experts of which a token takes 2" in line
    file.write_text(json.dumps({"model_type": "gemma3", "text_config": {}, "vision_config": {}}))
    done = run_cli("import", file)
    assert done.stdout.startswith("# yaml-language-server")
    assert "its other parts are left out" in done.stderr.splitlines()[1]
