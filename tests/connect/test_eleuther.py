"""The arguments of EleutherAI's three scripts, which become model documents and plans.

What the scripts print is of their commit 827ee3b293a63f14403f1467d08c91fda213f4e6, run unchanged.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.base.errors import PlanError
from planner.connect import imports
from planner.connect.imports.families import SCRIPTS as TABLES
from tests.conftest import read_data

FAULTS = read_data("faults")

#: Their own example, which calc_transformer_mem.py prints.
PYTHIA = (
    "python calc_transformer_mem.py --num-layers=32 --sequence-length=2048 "
    "--num-attention-heads=32 --hidden-size=4096 --batch-size-per-gpu=8 --checkpoint-activations "
    "--zero-stage=1 --partition-activations --pipeline-parallel-size=1 --tensor-parallel-size=2 "
    "--num-gpus=128"
)
DEVICE = {"cluster": {"accelerator": "h100-sxm-80gb", "devices": 1}, "training": {}}


def made(arguments: str) -> dict[str, object]:
    """What stands in the document that is written."""
    found = imports.import_file(arguments, "eleuther")
    assert yaml.safe_load(found.text) == found.document
    return found.document


def total(arguments: str) -> int:
    document = made(arguments)
    plan = document if "model" in document else {**DEVICE, "model": document}
    return int(planner.load(plan).evaluate()["parameters.total"].value)


def test_arguments_of_a_run_become_a_plan() -> None:
    assert made(PYTHIA) == read_data("connect")["megatron_neox_model"]


@pytest.mark.parametrize(
    ("arguments", "printed", "norms"),
    [
        # What the scripts count, and their second count of the norms of a layer, 4 hidden.
        (PYTHIA, 6_871_326_720, 4 * 32 * 4096),
        ("--num-layers 44 --hidden-size 6144", 20_575_236_096, 4 * 44 * 6144),
        ("calc_transformer_params.py -l 96 -hs 12288", 175_239_094_272, 4 * 96 * 12288),
        ("calc_transformer_params.py -l 12 -hs 768 --moe -e 512", 29_104_350_720, 4 * 12 * 768),
        (
            "calc_transformer_params.py -l 32 -hs 4096 -kv 0.25 -ff 3 -nl 3 --tied-embeddings",
            6_393_176_064,
            4 * 32 * 4096,
        ),
    ],
)
def test_parameters_are_those_of_the_scripts_less_norms_counted_twice(
    arguments: str, printed: int, norms: int
) -> None:
    assert total(arguments) == printed - norms


def test_short_names_are_those_of_the_script() -> None:
    """-ca asks the script of memory to recompute, and the script of FLOPs not to."""
    training = {name: made(f"calc_transformer_{name}.py -ca -b 4")["training"] for name in SCRIPTS}
    assert [training[name]["recompute"] for name in SCRIPTS] == ["selective", "none"]
    assert [training[name]["global_batch"] for name in SCRIPTS] == [4, 4]
    assert [training[name]["micro_batch"] for name in SCRIPTS] == [4, 1]


SCRIPTS = ("mem", "flops")


def test_arguments_that_several_scripts_know_make_the_same_model() -> None:
    given = "--num-layers 24 --hidden-size 2048 --vocab-size 50304 --kv-size-ratio 0.5"
    assert made(given) == made(f"calc_transformer_params.py {given}") | {
        "attention": {"heads": 64, "kv_heads": 32}
    }


def test_what_a_plan_has_no_shape_for_is_still_said() -> None:
    plan = made("--num-gpus 64 -z 3 -zmlp 0 -zbs 1000 --misc-mem-gib 5 --bytes-per-grad-ele 2")
    assert plan["memory"] == {"bucket_size": 1000, "live_parameters": 0, "other": "5 GiB"}
    assert plan["training"]["bytes"] == {"gradient": 2}
    assert made("-z 3 --num-gpus 64")["memory"] == {"live_parameters": 10**9}
    inference = made("--infer -o 128 -b 2 --disable-mixed-precision")["training"]
    assert inference["mode"] == "inference" and inference["output_tokens"] == 128
    assert inference["precision"] == "fp32" and "tokens" not in inference


def test_a_file_of_arguments_reads_as_the_arguments_do(tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text("# Pythia\n" + PYTHIA.replace(" --", " \\\n  --"))
    assert imports.import_file(str(file), "eleuther").document == made(PYTHIA)


def test_a_name_on_the_hub_is_the_shipped_model() -> None:
    name = "--hf_model_name_or_path meta-llama/Llama-2-7b-hf"
    assert imports.import_file(name, "eleuther").document == {"extends": "llama2-7b"}
    plan = imports.import_file(f"{name} --num-gpus 8 -z 3 -b 2", "eleuther").document
    assert plan["model"] == {"extends": "llama2-7b"}
    result = planner.load(plan).evaluate()
    assert result["parameters.total"].value == 6_738_415_616  # as its page on the Hub counts them
    assert result.plan.get("training.sequence_length") == 4096  # max_position_embeddings
    own = imports.import_file(f"{name} --num-gpus 8 -s 1024 -z 3", "eleuther").document
    assert own["training"]["sequence_length"] == 1024


@pytest.mark.parametrize(
    ("arguments", "message"),
    FAULTS["arguments"],
)
def test_bad_arguments_give_a_line_each(arguments: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        imports.import_file(arguments, "eleuther")
    first, *others = str(caught.value).splitlines()
    assert first.startswith(f"arguments: {message}")
    assert all(line.startswith("arguments: ") for line in others)


FLAGS = [f"--{flag}" for flag in TABLES["model"]] + ["-l", "-hs", "-ca", "-tp", "--num-gpus"]
VALUES = st.sampled_from(
    ["1", "2", "64", "0.5", "1e15", "-1", "$(id)", "'", "\0", "!!python/x", ""]
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(FLAGS), VALUES | st.text(max_size=8)), max_size=5))
def test_any_arguments_are_a_document_or_faults(pairs: list[tuple[str, str]]) -> None:
    text = " ".join(f"{flag} {value}" for flag, value in [("-s", "128"), *pairs])
    try:
        found = imports.import_file(text, "eleuther")
    except PlanError as error:
        assert all(line.startswith("arguments: ") for line in str(error).splitlines())
    else:
        assert yaml.safe_load(found.text) == found.document


def test_arguments_of_megatron_may_stand_on_the_command_line_too(tmp_path: Path) -> None:
    text = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --vocab-size 9 --seq-length 8"
    file = tmp_path / "arguments"
    file.write_text(text)
    assert (
        imports.import_file(text, "megatron").text
        == imports.import_file(str(file), "megatron").text
    )
