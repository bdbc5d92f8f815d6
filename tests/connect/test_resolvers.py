"""`import --run`: a framework's own parser reads options, without devices, network, secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.base.errors import PlanError
from planner.connect.imports import import_file

#: A package in Megatron-LM's place, whose parser looks around.
STUB = """
import os, socket

def add_megatron_arguments(parser):
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "" and "TOKEN" not in os.environ
    assert not os.listdir()
    try:
        socket.create_connection(("127.0.0.1", 9))
    except OSError as error:
        assert "no network here" in str(error)
    else:
        raise SystemExit("connected")
    print("noise on standard output")
    sizes = "num-layers hidden-size num-attention-heads vocab-size max-position-embeddings"
    for name in f"{sizes} micro-batch-size seq-length global-batch-size".split():
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--bf16", action="store_true")
"""
SCRIPT = """#!/bin/bash
export SIZE=64
torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 2 --hidden-size $SIZE --vocab-size 512 \\
  --num-attention-heads 4 --micro-batch 1 --global-batch-size 8 --seq-len 32 --bf16 \\
  --max-position-embeddings 32 {}
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "installed" / "megatron" / "training"
    folder.mkdir(parents=True)
    (folder / "arguments.py").write_text(STUB, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    monkeypatch.setenv("TOKEN", "secret")
    return tmp_path / "run.sh"


@pytest.mark.slow
def test_a_parser_resolves_what_the_words_leave_to_it(script: Path) -> None:
    script.write_text(SCRIPT.format(""), "utf-8")
    read = import_file(str(script), "megatron", plan=True, run=True)
    assert (
        read.document["training"] | {"sequence_length": 32, "micro_batch": 1}
        == (read.document["training"])
    )
    assert read.document["cluster"]["devices"] == 4 and read.document["model"]["vocab"] == 512
    assert not any("unknown" in line for line in read.said)
    alone = import_file(str(script), "megatron", plan=True)
    assert any("unknown" in line and "seq-len" in line for line in alone.said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "fault"),
    [
        ("--num-layers two", "megatron's own parser: .*invalid int value: 'two'"),
        ("--num 3", "ambiguous option: --num could match"),
        ("--num-layers $(touch run) --lr 1", r"not set \$\(touch_run\)$"),
    ],
)
def test_what_a_parser_refuses_is_one_line(script: Path, words: str, fault: str) -> None:
    script.write_text(SCRIPT.format(words), "utf-8")
    with pytest.raises(PlanError, match=fault) as error:
        import_file(str(script), "megatron", plan=True, run=True)
    assert "\n" not in str(error.value) and not (script.parent / "run").exists()


@pytest.mark.slow
def test_a_framework_has_to_be_there(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script.write_text(SCRIPT.format(""), "utf-8")
    monkeypatch.delenv("PYTHONPATH")
    with pytest.raises(PlanError, match="megatron is not installed beside this program"):
        import_file(str(script), "megatron", plan=True, run=True)
    with pytest.raises(PlanError, match="--run is not for axolotl"):
        import_file(str(script), "axolotl", run=True)
