"""A model in the place of a plan: its sizes, or one line that says what to do with it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from planner.base import resources
from planner.cli import main as cli
from planner.connect import imports
from planner.documents.references import preset_names
from planner.questions import loading
from tests.conftest import ROOT, read_data

#: Elements of all tensors of the published checkpoints, as their pages on the Hugging Face Hub
#: count them.
CHECKPOINTS = {
    "llama3-8b": 8_030_261_248,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-30b-a3b": 30_532_122_624,
}
#: Every kind of document but a plan, by one that ships.
OTHERS = read_data("cli")["other_models"]
#: Commands whose first word is a plan, with what each needs besides.
TAKE_A_PLAN: dict[str, list[str]] = read_data("cli")["take_a_plan"]


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = cli.main(list(words))
    return status, *capsys.readouterr()


def sizes(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    status, out, error = answer(capsys, *words, "--format", "json")
    assert (status, error) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_parameters_are_those_of_the_checkpoint(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = sizes(capsys, name)
    assert found["training"]["parameters.total"]["value"] == CHECKPOINTS[name]
    assert found["serving"]["memory.weights.stage"]["value"] == 2 * CHECKPOINTS[name]


def test_a_model_of_eleuther_has_the_states_that_their_script_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pythia 6.9B of calc_transformer_mem.py, nothing divided: 2, 4 and 12 bytes a parameter. They
    count norms twice, 4 L h parameters (tests/data/coming_from/eleuther.yaml)."""
    words = "calc_transformer_mem.py --num-layers=32 --sequence-length=2048 --hidden-size=4096"
    words += " --num-attention-heads=32"
    file = tmp_path / "model.yaml"
    file.write_text(json.dumps(imports.import_file(words, "eleuther").document))
    found = sizes(capsys, str(file), "--set", "training.implementation=megatron-2022")["training"]
    total = 6_871_326_720 - 4 * 32 * 4096
    assert found["parameters.total"]["value"] == total
    for state, each in {"weights": 2, "gradients": 4, "optimizer": 12}.items():
        assert found[f"memory.{state}.stage"]["value"] == each * total


def test_flops_and_cache_of_a_token_are_those_of_its_matrices(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Llama-3 8B by hand: 2 FLOPs for each weight that multiplies and 4 s d for each layer; two
    bytes for 8 keys and 8 values of 128 numbers in each of 32 layers."""
    found = sizes(capsys, "llama3-8b", "--set", "training.sequence_length=4096")
    layer = 4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336
    forward = 2 * (32 * layer + 4096 * 128256) + 32 * 4 * 4096 * 4096
    assert found["training"]["compute.forward_flops_per_token"]["value"] == forward
    assert found["training"]["compute.flops_per_token"]["value"] == 3 * forward
    assert found["serving"]["cache_bytes_per_token"] == 2 * 2 * 8 * 128 * 32


@pytest.mark.parametrize("name", ["gpt2-small", "bert-base", "dit-xl-2", "flux.1-dev",
                                  "codestral-mamba-7b", "gemma3-27b", "deepseek-v4-pro",
                                  "nemotron3-ultra-550b-a55b"])  # fmt: skip
def test_a_model_fits_on_a_screen_and_says_what_is_next(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status, out, error = answer(capsys, name)
    assert (status, error) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    assert f'plan.py quick "{name} on 64 h100"' in lines[-1]
    clusters = ("time.", "cost.", "memory.total", "memory.process", "DOES NOT FIT", "H100 SXM")
    assert not [word for word in clusters if word in out]


def test_the_accelerator_that_stands_in_changes_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    other = ("--set", "cluster.accelerator=a100-sxm-40gb")
    assert sizes(capsys, "mixtral-8x7b") == sizes(capsys, "mixtral-8x7b", *other)


def test_names_files_and_configurations_are_one_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(read_data("connect")["llama3_8b_config"]))
    file = ROOT / "presets/models/llama3-8b.yaml"
    words = ["llama3-8b", "meta-llama/Meta-Llama-3-8B", str(file), str(config)]
    found = [sizes(capsys, word) for word in words]
    assert [each.pop("model") for each in found][:3] == ["Llama-3 8B"] * 3
    assert all(each == found[0] for each in found)


def test_a_report_needs_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["-o", str(tmp_path / "x.md")], ["--require-fit"], ["--format", "md"]):
        status, out, error = answer(capsys, "llama3-8b", *words)
        assert (status, out, error.count("\n")) == (2, "", 1)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", OTHERS)
@pytest.mark.parametrize("command", TAKE_A_PLAN)
def test_another_kind_of_document_is_one_fault(
    command: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "given.yaml"
    shutil.copy(resources.folder("presets") / OTHERS[kind], file)
    status, out, error = answer(capsys, command, str(file), *TAKE_A_PLAN[command])
    assert (status, out) == (2, "")
    assert error.startswith(f"{file}:") and error.count("\n") == 1
    assert f"{kind}, where a plan is expected (" in error


def test_a_plan_is_no_study(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(ROOT / "presets/gpt2small_hgx-h100.yaml")
    status, _, error = answer(capsys, "sweep", plan, "-o", str(tmp_path / "out.csv"))
    assert (status, error.count("\n")) == (2, 1)
    assert "a plan, where a study is expected" in error


@pytest.mark.parametrize("kind", ["model", "cluster", "accelerator", "study", "plan"])
def test_every_shipped_document_is_told_by_its_name(kind: str) -> None:
    for name in preset_names(kind)[:5]:
        assert loading.find_document(name, kind)[0] == kind
