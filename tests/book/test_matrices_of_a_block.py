"""Feed-forward blocks of one matrix to eight: parameters, FLOPs, what is kept and time, by hand."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.base.errors import PlanError
from planner.connect import exports, imports
from planner.questions import loading
from planner.results.result import Result, evaluate_plan
from tests.changed import merged
from tests.conftest import read_data

PLAN: dict[str, Any] = read_data("plans")["linears"]
LAYERS, HIDDEN = PLAN["model"]["layers"], PLAN["model"]["hidden"]
WIDE, LENGTH = 4096, PLAN["training"]["sequence_length"]
MATRIX = HIDDEN * WIDE


def load(linears: int | None, implementation: str = "pytorch", **mlp: Any) -> Any:
    given = {} if linears is None else {"linears": linears}
    model = {"mlp": {"intermediate": WIDE, **given, **mlp}}
    kernels = {"implementation": implementation}
    return loading.load(merged(PLAN, model=model, training=kernels))


def result(linears: int | None, implementation: str = "pytorch", **mlp: Any) -> Result:
    return evaluate_plan(load(linears, implementation, **mlp))


def grows(name: str, linears: int, **more: Any) -> Fraction:
    """By how much a quantity grows with a matrix more."""
    return result(linears + 1, **more)[name].number - result(linears, **more)[name].number


@pytest.mark.parametrize("linears", range(1, 8))
def test_a_matrix_more_is_its_parameters_and_its_flops(linears: int) -> None:
    """n matrices of h by f, each with a multiplication and an addition for a token forward."""
    assert grows("parameters.total", linears) == LAYERS * MATRIX
    assert grows("compute.forward_flops_per_token", linears) == 2 * LAYERS * MATRIX
    assert grows("compute.flops_per_token", linears) == 6 * LAYERS * MATRIX
    # Two moments of 2 bytes each, and a step counter of 4 bytes for each matrix.
    assert grows("memory.optimizer", linears) == LAYERS * (2 * 2 * MATRIX + 4)


def test_two_are_plain_and_three_are_gated() -> None:
    for linears, gated in ((2, False), (3, True)):
        one, other = result(linears), result(None, gated=gated)
        for name in ("parameters.total", "memory.total", "time.step_seconds"):
            assert one[name].value == other[name].value


@pytest.mark.parametrize("linears", range(3, 8))
def test_a_further_gate_keeps_its_output_and_the_product_that_it_meets(linears: int) -> None:
    """Of u · v autograd keeps both factors (PyTorch, derivatives.yaml, mul): values of 2 bytes for
    each token and channel. A fused kernel keeps what comes in alone."""
    kept = 2 * LENGTH * WIDE
    assert grows("memory.activations.layer", linears) == 2 * kept
    assert grows("memory.activations.layer", linears, implementation="megatron") == kept


def test_a_single_matrix_keeps_its_input_and_its_output() -> None:
    """Without a second matrix nothing keeps that one's input, f values of 2 bytes a token."""
    assert grows("memory.activations.layer", 1) == 2 * LENGTH * WIDE


@pytest.mark.parametrize("linears", range(1, 8))
def test_more_matrices_take_longer(linears: int) -> None:
    assert grows("time.part.forward[layer]", linears) > 0


def test_gates_run_as_one_product_with_the_projection_beside_them() -> None:
    found = result(5)
    names = [entry.name for entry in found.list_entries("product") if entry.parent.name == "mlp"]
    assert names == ["gate+gate_2+gate_3+up", "down"]
    flops = found["roofline.product.flops[layer.mlp.gate+gate_2+gate_3+up]"].number
    assert flops == 2 * LENGTH * 4 * MATRIX


@pytest.mark.parametrize(("mlp", "said"), read_data("faults")["no_block"])
def test_what_is_no_block_is_refused(mlp: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as fault:
        load(**{"linears": None, **mlp})
    assert said in str(fault.value)


def test_experts_say_how_many_they_have_where_the_dense_block_has_others() -> None:
    with pytest.raises(PlanError, match=r"experts have 2 or 3 matrices, where mlp\.linears is 4"):
        planner.load(
            {
                "model": {
                    **PLAN["model"],
                    "mlp": {"linears": 4},
                    "moe": {"experts": 8, "top_k": 2},
                },
                "cluster": {"accelerator": "h100", "devices": 8},
                "training": {"tokens": "1B", "sequence_length": LENGTH, "global_batch": 64},
            }
        )


@pytest.mark.parametrize("linears", [1, 4])
@pytest.mark.parametrize("framework", ["megatron", "nanotron"])
def test_a_framework_without_such_blocks_does_not_say_them(framework: str, linears: int) -> None:
    unsaid = exports.build_config(load(linears), framework).unsaid
    assert any(each.key == "model.mlp.linears" for each in unsaid)
    plain = exports.build_config(load(3), framework).unsaid
    assert not any(each.key == "model.mlp.linears" for each in plain)


@pytest.mark.parametrize("linears", [1, 2, 3, 4])
def test_the_scripts_of_eleutherai_count_as_many_matrices(linears: int) -> None:
    """calc_transformer_params.py: num_mlp_linears × ffn_expansion_factor × h² a layer."""
    text = f"--num-layers 12 --hidden-size 768 -ff 4 --num-mlp-linears {linears}"
    document = imports.import_file(text, "eleuther").document
    made = planner.load(
        {
            "model": {**document, "vocab": 512},
            "cluster": {"accelerator": "h100", "devices": 8},
            "training": {"tokens": "1B", "sequence_length": 128, "global_batch": 64},
            "parallelism": {},
        }
    ).evaluate()
    matrices = [entry for entry in made.list_entries("component") if entry.parent.name == "mlp"]
    total = sum(made[f"parameters.component[{entry.path}]"].number for entry in matrices)
    assert total == linears * 4 * 768**2
