"""Number formats against what their standards, papers and PyTorch's finfo print."""

import contextlib
import io
import json
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.number_formats import format_bits
from planner.base.formats import find_exponent, load_format, sort_formats
from planner.base.resources import load_preset
from planner.cli.main import main
from planner.documents import aliases
from tests.conftest import read_data


@pytest.mark.parametrize(
    ("key", "size", "largest", "smallest_normal", "epsilon"),
    [
        ("fp32", 4, 3.4028234663852886e38, 1.1754943508222875e-38, 1.1920928955078125e-07),
        ("fp16", 2, 65504, 6.103515625e-05, 0.0009765625),
        ("bf16", 2, 3.3895313892515355e38, 1.1754943508222875e-38, 0.0078125),
        ("fp8-e4m3", 1, 448, 0.015625, 0.125),
        ("fp8-e5m2", 1, 57344, 6.103515625e-05, 0.25),
        # OCP Microscaling Formats (MX) Specification v1.0, tables 5 and 6: the largest number of
        # E2M1 is 6 and its smallest normal one 1; E8M0 reaches from 2**-127 to 2**127.
        ("fp4-e2m1", Fraction(1, 2), 6, 1, 0.5),
        ("e8m0", 1, 2.0**127, 2.0**-127, 1),
    ],
)
def test_limits(key: str, size: int, largest: float, smallest_normal: float, epsilon: float):
    one = load_format(key)
    assert one.bytes == size
    assert float(one.largest) == largest
    assert float(one.smallest_normal) == smallest_normal
    assert float(one.epsilon) == epsilon


@pytest.mark.parametrize(
    ("key", "block", "bits"),
    [
        # OCP specification, table 1: k elements of d bits share a scale of w = 8 bits, so that a
        # block is w + k d bits.
        ("mxfp8", 32, 8 + 32 * 8),
        ("mxfp4", 32, 8 + 32 * 4),
        # NVIDIA 2025 (arXiv 2509.25149), section 2: 16 elements of 4 bits and a scale in E4M3.
        ("nvfp4", 16, 8 + 16 * 4),
    ],
)
def test_blocks_carry_their_scale(key: str, block: int, bits: int):
    assert (load_format(key).block, load_format(key).bytes * block * 8) == (block, bits)
    # TransformerEngine keeps a copy along the rows and one along the columns, each with its scales.
    recipes = load_preset("implementations/megatron")["recipes"]
    assert Fraction(recipes[key]["quantized"]) == 2 * load_format(key).bytes
    # Megatron-Core gathers weights of block formats in bf16 and casts them where they arrive
    # (reuse_grad_buf_for_mxfp8_param_ag), those of fp8 as products take them.
    gathered = {name: recipe.get("gather", recipe["compute"]) for name, recipe in recipes.items()}
    assert (gathered[key], gathered["fp8"]) == (2, 1)


# Every limit, bit and rounding, by IEEE 754, the OCP specifications, NumPy and ml_dtypes ---------


@pytest.mark.parametrize(
    ("key", "subnormal", "normal", "largest"),
    [
        ("fp64", -1074, -1022, (2 - Fraction(1, 2**52)) * 2**1023),  # IEEE 754-2019, table 3.5
        ("fp32", -149, -126, (2 - Fraction(1, 2**23)) * 2**127),
        ("fp16", -24, -14, 65504),
        ("bf16", -133, -126, (2 - Fraction(1, 2**7)) * 2**127),
        # OCP 8-bit Floating Point Specification (OFP8) v1.0, table 2.
        ("fp8-e4m3", -9, -6, 448),
        ("fp8-e5m2", -16, -14, 57344),
        ("fp4-e2m1", -1, 0, 6),  # OCP Microscaling Formats v1.0, table 5
        ("e8m0", -127, -127, 2**127),
    ],
)
def test_the_smallest_and_the_largest_numbers_are_exact(
    key: str, subnormal: int, normal: int, largest: int
):
    one, two = load_format(key), Fraction(2)
    assert one.smallest_subnormal == two**subnormal
    assert one.smallest_normal == two**normal
    assert one.largest == largest


#: Formats by the types of NumPy and of ml_dtypes, which round by themselves.
TYPES = {"fp64": "float64", "fp32": "float32", "fp16": "float16"}
SMALL_TYPES = read_data("book")["small_types"]


def judge(key: str) -> Any:
    if key in TYPES:
        return np.dtype(TYPES[key]).type
    return getattr(pytest.importorskip("ml_dtypes"), SMALL_TYPES[key])


@pytest.mark.parametrize("key", [*TYPES, *SMALL_TYPES])
def test_a_number_is_rounded_as_others_round_it(key: str):
    """From far below the smallest number to beyond the largest, ties and their neighbours too."""
    one, its = load_format(key), judge(key)
    rng = random.Random(0)
    values = [0.1, 1e-8, 1 / 3, 2.5e-8, 3e-8, 5e-8, 448.0, 463.9, 464.1, 65519.0, 65521.0, 5.0, 7.1]
    values += [2.0 ** rng.uniform(-152, 129) for _ in range(2000)]
    values += [2.0 ** rng.uniform(-12, 12) for _ in range(2000)]
    for step in (one.smallest_subnormal, one.smallest_normal * one.epsilon, one.epsilon):
        values += [float(step * Fraction(n, 4)) for n in range(1, 40) if step > Fraction(1, 2**900)]
    if key == "e8m0":  # beyond its ends, where it has neither 0 nor infinity, ml_dtypes 0.6 errs
        values = [value for value in values if 2.0**-126 <= value <= 2.0**127]
    for value in values:
        with np.errstate(over="ignore"):
            theirs = float(its(value))
        ours = one.round_value(Fraction(value))
        if ours is None:  # those without infinities say NaN, or stay at the largest
            assert not math.isfinite(theirs) or theirs == one.largest, value
        else:
            assert Fraction(theirs) == ours, value


@pytest.mark.parametrize("key", [*TYPES, *SMALL_TYPES])
def test_the_bits_of_a_number_are_those_that_others_keep(key: str):
    one, its = load_format(key), judge(key)
    size = one.sign + one.exponent + one.fraction
    stored = np.dtype(its).itemsize
    values = [
        one.smallest_subnormal,
        one.smallest_normal,
        Fraction(1),
        1 + one.epsilon,
        one.largest,
    ]
    for value in dict.fromkeys(values):
        bits = int(format_bits(one, value).replace(" ", ""), 2)
        theirs = np.array([float(value)]).astype(its).view(f"u{stored}")[0]
        assert bits == int(theirs) & (2**size - 1), value
        assert one.round_value(value) == value


@pytest.mark.parametrize("key", ["fp8-e4m3", "fp8-e5m2", "fp4-e2m1"])
def test_every_pattern_of_a_small_format_is_the_number_that_others_read(key: str):
    one, its = load_format(key), judge(key)
    count = 2 ** (one.exponent + one.fraction)
    for pattern in range(1, count):
        theirs = float(np.array([pattern], "u1").view(its)[0])
        if math.isfinite(theirs):
            bits = format_bits(one, Fraction(theirs)).replace(" ", "")
            assert int(bits, 2) == pattern and one.round_value(Fraction(theirs)) == Fraction(theirs)


@pytest.mark.slow
@settings(max_examples=200)
@given(st.fractions(min_value=Fraction(1, 2**160), max_value=2**16), st.sampled_from(sorted(TYPES)))
def test_no_number_of_a_format_is_nearer_than_the_one_that_a_value_becomes(
    value: Fraction, key: str
):
    one = load_format(key)
    found = one.round_value(value)
    if found is None:
        assert value > one.largest
        return
    quantum = max(Fraction(2) ** find_exponent(value), one.smallest_normal) * one.epsilon
    assert found % one.smallest_subnormal == 0
    assert abs(found - value) <= quantum / 2


def test_a_scale_saves_a_small_number_unless_its_neighbours_are_large():
    """OCP Microscaling v1.0, section 6.3: of a block whose largest number is 1e-8 the scale is
    2^(-27 - 8) for E4M3; 1e-8 is 343.6 of those, between 320 and 352."""
    small = Fraction(1, 10**8)
    assert load_format("mxfp8").round_value(small) == Fraction(352, 2**35)
    assert load_format("mxfp8").round_value(small, Fraction(1)) == 0
    # The largest element of E2M1 is 6 = 1.5 × 2^2: the scale is 2^(-27 - 2), of which 1e-8 is 5.4.
    assert load_format("mxfp4").round_value(small) == Fraction(6, 2**29)
    # NVFP4 with a scale of the whole tensor of 1: its smallest scale is 2^-9.
    assert load_format("nvfp4").round_value(small) == 0
    assert load_format("nvfp4").round_value(Fraction(6)) == 6
    # What the largest power of two of an element would be exceeded by stays at the largest one.
    assert load_format("mxfp8").round_value(Fraction(511)) == 448


def test_a_scale_that_has_no_zero_stays_at_its_smallest():
    assert load_format("e8m0").round_value(Fraction(1, 2**200)) == Fraction(1, 2**127)


# Tensors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "precision", "size"),
    read_data("book")["bytes_of_tensors"],
)
def test_a_tensor_takes_its_numbers_and_their_scales(shape: str, precision: str, size: int):
    done = cli("tensor", shape, "--precision", precision, "--format", "json")
    ((_, said),) = json.loads(done)["precisions"].items()
    assert said["bytes"] == size
    assert said["MiB"] * 2**20 == pytest.approx(size, rel=1e-15)
    assert eval_by_hand(said["substituted"]) == pytest.approx(size, abs=0.5)


def eval_by_hand(text: str) -> Fraction:
    """A sum of products of numbers."""
    products = (math.prod(map(Fraction, each.split("*"))) for each in text.split("+"))
    return sum(products, Fraction(0))


@pytest.mark.parametrize(
    ("shape", "precision", "said"),
    [
        ("49152x12288", "singel", "unknown precision 'singel'"),
        ("49152x", "fp32", "a side of '49152x'"),
        ("0x12288", "fp32", "a side of 0 (a whole number from 1 to 1e12)"),
        ("1.5x12288", "fp32", "a side of 1.5"),
        ("x".join(["2"] * 17), "fp32", "expected 1 to 16 sizes"),
        ("1e12x1e12x1e12", "fp32", "too many elements"),
    ],
)
def test_a_shape_or_a_precision_that_is_none_is_one_line(
    shape: str, precision: str, said: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["tensor", shape, "--precision", precision]) == 2
    out, faults = capsys.readouterr()
    assert not out and said in faults and len(faults.splitlines()) == 1


@pytest.mark.parametrize("words", [["list", "precisions"], ["tensor", "49152x12288"]])
def test_tables_fit_a_screen(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 80


def cli(*words: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(words) == 0
    return out.getvalue()


def test_other_names_mean_one_format_each():
    known = [one.format for one in sort_formats()]
    for name, words in load_preset("aliases/names")["precision"].items():
        assert [aliases.find_preset("precision", word, known) for word in (name, *words)] == [
            name
        ] * (len(words) + 1)
