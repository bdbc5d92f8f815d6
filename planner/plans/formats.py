"""Number formats: what follows from the bits of sign, exponent and fraction.

The bits are facts (presets/formats); everything else is derived, exactly. Values are in the
format's own unit; the bias of an exponent of e bits is 2^(e-1) - 1 (IEEE 754-2019, section 3.3).
"""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from planner.base import resources

TWO = Fraction(2)


class Format(NamedTuple):
    """A binary floating-point format, as ``plan.py list precisions`` has it in columns."""

    format: str
    bytes: Fraction
    #: Bits.
    sign: int
    exponent: int
    fraction: int
    #: The largest finite number: the highest exponent with the highest fraction.
    largest: Fraction
    #: The smallest number with a leading one.
    smallest_normal: Fraction
    #: From 1 to the next number.
    epsilon: Fraction


def load() -> list[Format]:
    """The formats that ship, wide ones first."""
    formats = []
    for path in (resources.folder("presets") / "formats").glob("*.yaml"):
        said = resources.read_yaml(path)
        sign, exponent, fraction = said["sign"], said["exponent"], said["fraction"]
        # In memory a number may take more bits than it has.
        bits = said.get("storage", sign + exponent + fraction)
        bias, epsilon = 2 ** (exponent - 1) - 1, TWO**-fraction
        largest = (2 - epsilon) * TWO**bias
        if not said["infinities"]:  # the top exponent holds numbers but for one pattern (NaN)
            largest = (2 - 2 * epsilon) * TWO ** (bias + 1)
        limits = largest, TWO ** (1 - bias), epsilon
        formats.append(Format(path.stem, Fraction(bits, 8), sign, exponent, fraction, *limits))
    return sorted(formats, key=lambda f: (-f.bytes, -f.exponent - f.fraction, f.exponent, f.format))


def table() -> list[tuple[str, ...]]:
    """The rows of ``plan.py list precisions``, with a heading."""
    heading = tuple(name.replace("_", " ") for name in Format._fields)
    rows = ((one.format, *(f"{float(value):.6g}" for value in one[1:])) for one in load())
    return [heading, *rows]
