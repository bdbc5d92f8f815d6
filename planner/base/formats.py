"""Number formats: what their bits and block scales say (presets/formats), everything else derived.

Values are exact. The bias of an exponent of e bits is 2^(e-1) - 1 (IEEE 754-2019, section 3.3). A
block-scaled format (OCP Microscaling Formats v1.0) has elements in one format and, for each block
of them, a scale in another.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import NamedTuple

from planner.base import resources

TWO = Fraction(2)


class Format(NamedTuple):
    """A binary floating-point format, as ``plan.py list precisions`` has it in columns."""

    format: str
    #: Of one number in memory; where blocks have a scale, with its share of that.
    bytes: Fraction
    #: Bits of one number.
    sign: int
    exponent: int
    fraction: int
    #: The largest finite number, under the largest scale.
    largest: Fraction
    #: The smallest number with a leading one, under the smallest scale.
    smallest_normal: Fraction
    #: From 1 to the next number.
    epsilon: Fraction
    #: Numbers that share a scale; 1 without.
    block: int


@cache
def named(name: str) -> Format:
    """The format of that name (presets/formats)."""
    said = resources.preset(f"formats/{name}")
    if "elements" in said:
        one, scale, block = named(said["elements"]), named(said["scale"]), said["block"]
        return one._replace(
            format=name,
            bytes=one.bytes + scale.bytes / block,
            largest=one.largest * scale.largest,
            smallest_normal=one.smallest_normal * scale.smallest_normal,
            block=block,
        )
    sign, exponent, fraction = said["sign"], said["exponent"], said["fraction"]
    # In memory a number may take more bits than it has.
    bits = said.get("storage", sign + exponent + fraction)
    bias = 2 ** (exponent - 1) - 1
    # Of all patterns in order, the last ones are infinities and NaN.
    special = 2**fraction if said["infinities"] else int(said.get("nan", True))
    top, last = divmod(2 ** (exponent + fraction) - 1 - special, 2**fraction)
    largest = (1 + last / TWO**fraction) * TWO ** (top - bias)
    smallest = TWO ** (int(said.get("subnormals", True)) - bias)
    limits = largest, smallest, TWO**-fraction
    return Format(name, Fraction(bits, 8), sign, exponent, fraction, *limits, 1)


def shipped() -> list[Format]:
    """The formats that ship, wide ones first."""
    paths = (resources.folder("presets") / "formats").glob("*.yaml")
    found = (named(path.stem) for path in paths)
    return sorted(found, key=lambda f: (-f.bytes, -f.exponent - f.fraction, f.exponent, f.format))
