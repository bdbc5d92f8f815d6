"""Facts of Stanford's CS336 (spring 2025), lecture 2, that concern single components."""

from __future__ import annotations

from typing import Any

from planner.base import units
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading


def evaluation(model: str | dict[str, Any]) -> Evaluation:
    document = {
        "model": model,
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
        "training": {"tokens": "1B", "sequence_length": 1024},
    }
    return Evaluation(case.build(loading.load(document)))


def component(evaluated: Evaluation, path: str) -> dict[str, Any]:
    """The point of a component such as layer.mlp.up."""
    entries = evaluated.case.axes["component"]
    assert isinstance(entries, tuple)
    return {"component": next(entry for entry in entries if entry.path == path)}


def test_a_feed_forward_matrix_of_gpt3_takes_2304_mebibytes_in_fp32() -> None:
    evaluated = evaluation("gpt3-175b")
    trace = evaluated.trace_quantity("parameters.component", component(evaluated, "layer.mlp.up"))
    weights = int(trace.value) - 49152  # the biases stand beside the matrix
    assert weights == 12288 * 49152
    assert weights * 4 == units.parse("2304 MiB", "bytes")


def test_a_linear_layer_takes_2BDK_forward_and_twice_that_backward() -> None:
    points, width_in, width_out = 16384, 32768, 8192
    evaluated = evaluation(
        {
            "layers": 1,
            "hidden": width_in,
            "vocab": width_out,
            "attention": {"heads": 256},
            "positions": "rope",
        }
    )
    forward = evaluated.value("compute.component", component(evaluated, "head.head.output"))
    assert points * int(forward) == 2 * points * width_in * width_out
    total = evaluated.value("compute.flops_per_token")
    assert total == 3 * evaluated.value("compute.forward_flops_per_token")


def test_gpt2_small_component_by_component() -> None:
    evaluated = evaluation("gpt2-small")

    def count(path: str) -> Any:
        return evaluated.value("parameters.component", component(evaluated, path))

    part = {entry.path: entry for entry in evaluated.case.axes["part"]}
    assert count("embedding.embedding.token") == 38_597_376
    assert count("embedding.positions.position") == 786_432
    assert evaluated.value("parameters.layer", {"part": part["layer"]}) == 7_087_872
    assert count("head.final_norm.weight") == 1_536
    total = evaluated.value("parameters.total")
    assert total == 124_439_808
    # A widely copied notebook gets 124,438,272: it leaves the final norm out.
    assert total - count("head.final_norm.weight") == 124_438_272
