"""`import --run`: a framework's own parser reads options, without devices, network, secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.base.errors import PlanError
from planner.connect.imports import import_file
from tests.conftest import read_data

DATA = read_data("connect")


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "installed" / "megatron" / "training"
    folder.mkdir(parents=True)
    (folder / "arguments.py").write_text(DATA["resolver_stub"], "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    monkeypatch.setenv("TOKEN", "secret")
    (tmp_path / "run.sh").write_text(DATA["resolver_script"], "utf-8")
    return tmp_path / "run.sh"


@pytest.mark.slow
def test_a_parser_resolves_what_the_words_leave_to_it(script: Path) -> None:
    read = import_file(str(script), "megatron", plan=True, run=True)
    training = read.document["training"]
    assert (training["sequence_length"], training["micro_batch"]) == (32, 1)
    assert read.document["cluster"]["devices"] == 4 and read.document["model"]["vocab"] == 512
    assert not any("unknown" in line for line in read.said)
    (script.parent / "values.yaml").write_text("mbs: 2", "utf-8")
    text = script.read_text("utf-8").replace("--mbs 1", "--config values.yaml")
    (script.parent / "beside.sh").write_text(text, "utf-8")
    beside = import_file(str(script.parent / "beside.sh"), "megatron", plan=True, run=True)
    assert beside.document["training"]["micro_batch"] == 2
    alone = import_file(str(script), "megatron", plan=True)
    assert any("unknown" in line and "seq" in line for line in alone.said)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "fault"), DATA["resolver_faults"])
def test_what_a_parser_refuses_is_one_line(script: Path, words: str, fault: str) -> None:
    script.write_text(f"{DATA['resolver_script'].rstrip()} {words}\n", "utf-8")
    with pytest.raises(PlanError, match=fault) as error:
        import_file(str(script), "megatron", plan=True, run=True)
    assert "\n" not in str(error.value) and not (script.parent / "run").exists()


@pytest.mark.slow
def test_a_framework_has_to_be_there(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(PlanError, match="megatron is not installed beside this program"):
        import_file(str(script), "megatron", plan=True, run=True)
    with pytest.raises(PlanError, match="--run is not for axolotl"):
        import_file(str(script), "axolotl", run=True)
