"""One matrix product: work, traffic and roof by hand, its time as a plan predicts it."""

from __future__ import annotations

import contextlib
import io
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.cli.main import main
from tests.conftest import read_data
from tests.typeset.test_typeset import arithmetic

#: The H100's datasheet: 1,979 TFLOP/s in bf16 with sparsity, 3.35 TB/s.
PEAK, BANDWIDTH = 1979e12 / 2, 3.35e12


def matmul(shape: str, *more: str) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["matmul", shape, *more, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def of(found: dict[str, Any], name: str) -> float:
    return float(found["quantities"][name]["value"])


def test_the_lecture_s_product_by_hand() -> None:
    """CS336 2025, lecture 2: X of B by D times W of D by K takes 2BDK FLOPs; a timing of it stands
    for a utilisation of the promised peak."""
    b, d, k = 16384, 32768, 8192
    found = matmul(f"{b}x{d}x{k}", "--on", "h100-sxm-80gb", "--took", "60ms")
    flops, moved = 2 * b * d * k, 2 * (b * d + d * k + b * k)
    assert of(found, "roofline.product.flops") == flops
    assert of(found, "roofline.product.bytes") == moved
    assert of(found, "roofline.product.intensity") == pytest.approx(flops / moved)
    assert of(found, "roofline.ridge") == pytest.approx(PEAK / BANDWIDTH)
    assert of(found, "roofline.product.arithmetic") == pytest.approx(flops / PEAK)
    assert of(found, "roofline.product.traffic") == pytest.approx(moved / BANDWIDTH)
    assert of(found, "roofline.product.seconds") == pytest.approx(flops / PEAK)
    assert found["bound"] == "compute-bound"
    assert found["took"]["utilisation"] == pytest.approx(flops / PEAK / 0.060)
    assert found["quantities"]["roofline.product.flops"]["kind"] == "exact"


def test_one_row_is_bound_by_memory() -> None:
    """A weight that meets one token is read for 2 FLOPs a parameter."""
    found = matmul("1x8192x28672", "--on", "h100")
    assert found["bound"] == "memory-bound"
    assert of(found, "roofline.product.intensity") == pytest.approx(1, rel=1e-3)
    seconds = 2 * (8192 + 8192 * 28672 + 28672) / BANDWIDTH
    assert of(found, "roofline.product.seconds") == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("precision", "size", "on"),
    [
        ("fp32", Fraction(4), "h100"),
        ("half", Fraction(2), "h100"),
        ("fp8", Fraction(1), "h100"),
        ("mxfp8", Fraction(33, 32), "b200"),
        ("nvfp4", Fraction(9, 16), "b200"),
    ],
)
def test_bytes_are_those_of_the_precision(precision: str, size: Fraction, on: str) -> None:
    found = matmul("64x128x32", "--on", on, "--precision", precision)
    moved = size * (64 * 128 + 128 * 32 + 64 * 32)
    assert of(found, "roofline.product.bytes") == float(moved)


def test_the_predicted_time_is_that_of_the_same_product_in_a_plan() -> None:
    """The down projection of Llama-2 7B, under kernels of the same implementation."""
    result = planner.load(read_data("plans")["one_matmul"]).evaluate()
    found = matmul("8192x11008x4096", "--on", "h100-sxm-80gb")
    for name in ("time.product.forward", "roofline.product.intensity"):
        there = float(result[f"{name}[layer.mlp.down]"].value)
        assert of(found, name) == pytest.approx(there)


def test_a_batch_has_the_work_and_traffic_of_its_products() -> None:
    """PyTorch's FLOP counter gives a batched product 2 b m n k; each has inputs of its own."""
    one, many = (matmul(f"{b}4096x128x4096", "--on", "h100") for b in ("", "32x"))
    assert (one["shape"]["batch"], many["shape"]["batch"]) == (1, 32)
    assert of(many, "roofline.product.flops") == 32 * 2 * 4096 * 128 * 4096
    assert of(many, "roofline.product.bytes") == 32 * of(one, "roofline.product.bytes")
    assert of(many, "roofline.product.intensity") == of(one, "roofline.product.intensity")
    assert of(one, "time.product.forward") < of(many, "time.product.forward")
    assert of(many, "time.product.forward") <= 32 * of(one, "time.product.forward")


def test_the_backward_pass_is_two_products_as_a_plan_predicts_them() -> None:
    """dX = dY times W transposed, dW = X transposed times dY: 2BDK FLOPs each."""
    found = matmul("8192x11008x4096", "--on", "h100-sxm-80gb", "--backward")
    plan = {
        "model": "llama2-7b",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
        "training": {"sequence_length": 4096, "micro_batch": 2, "implementation": "pytorch"},
    }
    result = planner.load(plan).evaluate()
    for name in ("time.product.input", "time.product.weight"):
        assert of(found, name) == pytest.approx(float(result[f"{name}[layer.mlp.down]"].value))
        assert of(found, name) >= of(found, "roofline.product.seconds")
    both = of(found, "time.product.input") + of(found, "time.product.weight")
    assert found["backward"] == {"products": 2, "seconds": pytest.approx(both)}
    exchanged = matmul("8192x4096x11008", "--on", "h100-sxm-80gb")
    assert of(found, "time.product.input") == pytest.approx(of(exchanged, "time.product.forward"))


@settings(max_examples=12, deadline=None)
@given(st.lists(st.integers(1, 50_000), min_size=3, max_size=3), st.sampled_from(["h100", "a100"]))
def test_no_product_is_predicted_faster_than_its_roof(sides: list[int], on: str) -> None:
    found = matmul("x".join(map(str, sides)), "--on", on)
    assert of(found, "time.product.forward") >= of(found, "roofline.product.seconds")
    assert 0 < of(found, "roofline.product.utilisation") <= 1
    bound = of(found, "roofline.product.intensity") > of(found, "roofline.ridge")
    assert (found["bound"] == "compute-bound") is bound


def test_formulas_with_numbers_are_worth_the_values() -> None:
    both = [
        *matmul("4096x4096x11008", "--on", "h100", "--backward")["quantities"].items(),
        *matmul("3x512x4096x11008", "--on", "h100")["quantities"].items(),
    ]
    for name, said in both:
        assert arithmetic(said["substituted"]) == pytest.approx(said["value"], rel=1e-4), name


@pytest.mark.parametrize(
    ("words", "said"),
    read_data("faults")["matmul"],
)
def test_what_is_wrong_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matmul", *words]) == 2
    out, faults = capsys.readouterr()
    assert not out and said in faults and len(faults.splitlines()) == 1
    assert "<mapping>" not in faults


@pytest.mark.parametrize("took", [[], ["--took", "60ms"], ["--took", "1us"]])
def test_the_answer_comes_first_and_fits_a_screen(
    took: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["matmul", "16384x32768x8192", "--on", "h100", *took]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("compute-bound: 8.89 ms at least")
    assert len(lines) <= 40 and max(map(len, lines)) <= 80
    assert any("faster than the device can be" in line for line in lines) is ("1us" in took)


def test_an_accelerator_of_one_s_own_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("{extends: h100-sxm-80gb, memory_bandwidth: 6.7 TB/s}", "utf-8")
    found = matmul("4096x4096x4096", "--on", str(file))
    assert of(found, "roofline.ridge") == pytest.approx(PEAK / 6.7e12)
