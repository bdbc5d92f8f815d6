"""Number formats against what their standards, papers and PyTorch's finfo print."""

from fractions import Fraction

import pytest

from planner.base.formats import named
from planner.base.resources import preset


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
    one = named(key)
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
    assert (named(key).block, named(key).bytes * block * 8) == (block, bits)
    # TransformerEngine keeps a copy along the rows and one along the columns, each with its scales.
    recipes = preset("implementations/megatron")["recipes"]
    assert Fraction(recipes[key]["quantized"]) == 2 * named(key).bytes
