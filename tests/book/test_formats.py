"""Number formats against what their standards, papers and PyTorch's finfo print."""

import pytest

from planner.cli.listing import formats

FORMATS = {one.format: one for one in formats()}


@pytest.mark.parametrize(
    ("key", "size", "largest", "smallest_normal", "epsilon"),
    [
        ("fp32", 4, 3.4028234663852886e38, 1.1754943508222875e-38, 1.1920928955078125e-07),
        ("fp16", 2, 65504, 6.103515625e-05, 0.0009765625),
        ("bf16", 2, 3.3895313892515355e38, 1.1754943508222875e-38, 0.0078125),
        ("fp8-e4m3", 1, 448, 0.015625, 0.125),
        ("fp8-e5m2", 1, 57344, 6.103515625e-05, 0.25),
    ],
)
def test_limits(key: str, size: int, largest: float, smallest_normal: float, epsilon: float):
    one = FORMATS[key]
    assert one.bytes == size
    assert float(one.largest) == largest
    assert float(one.smallest_normal) == smallest_normal
    assert float(one.epsilon) == epsilon
