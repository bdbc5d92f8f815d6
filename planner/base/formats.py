"""Number formats: what their bits and block scales say (presets/formats), everything else derived.

Values are exact. The bias of an exponent of e bits is 2^(e-1) - 1 (IEEE 754-2019, section 3.3). A
block-scaled format (OCP Microscaling Formats v1.0) has elements in one format and, for each block
of them, a scale in another.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from math import prod
from typing import NamedTuple

from planner.base import resources

TWO = Fraction(2)


class Format(NamedTuple):
    """A binary floating-point format, alone or in blocks that share a scale.

    Attributes:
        format: the name in documents.
        name: what its standard or maker calls it.
        source: where that says what it is.
        bytes: of one number in memory, with its share of the block's scale.
        sign: bits.
        exponent: bits.
        fraction: bits.
        largest: the largest finite number, under the largest scale.
        smallest_normal: the smallest number with a leading one, under the smallest scale.
        smallest_subnormal: the smallest number above 0, under the smallest scale; the smallest
            normal one of a format whose numbers all have the leading one.
        epsilon: from 1 to the next number.
        block: numbers that share a scale; 1 without.
        scale: the format of the scale.
        scale_bytes: of the scale.
    """

    format: str
    name: str
    source: str
    bytes: Fraction
    sign: int
    exponent: int
    fraction: int
    largest: Fraction
    smallest_normal: Fraction
    smallest_subnormal: Fraction
    epsilon: Fraction
    block: int = 1
    scale: str | None = None
    scale_bytes: Fraction = Fraction(0)

    @property
    def element_bytes(self) -> Fraction:
        """Of one number in memory, without its share of a scale."""
        return self.bytes - self.scale_bytes / self.block

    @property
    def unscaled(self) -> Format:
        """The format of its elements: itself, where blocks have no scale."""
        said = resources.load_preset(f"formats/{self.format}")
        return load_format(said["elements"]) if self.scale else self

    @property
    def zero(self) -> bool:
        """Whether 0 is one of its numbers: without subnormal ones, the smallest stands there."""
        return self.smallest_subnormal < self.smallest_normal

    def round_value(self, value: Fraction, largest: Fraction | None = None) -> Fraction | None:
        """Round a number above 0 to the nearest number of the format, ties to even (IEEE 754-2019,
        section 4.3.1); None where it is beyond the largest.

        Args:
            value: exact.
            largest: the largest number of its block, which decides the scale; itself by default.
                What is beyond the largest element stays at it (OCP Microscaling, section 6.3).
        """
        if self.scale:
            element, scale = self.unscaled, load_format(self.scale)
            times = _choose_scale(largest or value, element, scale)
            if not times:
                return Fraction(0)
            inside = min(value / times, element.largest)
            return (element.round_value(inside) or Fraction(0)) * times
        exponent = max(find_exponent(value), find_exponent(self.smallest_normal))
        step = TWO ** (exponent - self.fraction)
        found = round(value / step) * step
        if not found and not self.zero:
            return self.smallest_normal
        return None if found > self.largest else found

    @property
    def picture(self) -> str:
        """Its bits by what they say, s for sign, e for exponent, f for fraction."""
        one = " ".join(filter(None, ("s" * self.sign, "e" * self.exponent, "f" * self.fraction)))
        return f"{self.block} × ({one}) + {load_format(self.scale).picture}" if self.scale else one

    def count_scales(self, shape: Sequence[int]) -> int:
        """Count the scales of a tensor of that shape: blocks lie along its last dimension, and the
        last block of a row may be smaller."""
        return prod(shape[:-1]) * -(-shape[-1] // self.block) if self.scale else 0

    def count_bytes(self, shape: Sequence[int]) -> int:
        """Count the bytes of a tensor of that shape, with its scales, rounded up."""
        numbers = prod(shape) * self.element_bytes
        return -(-numbers // 1) + int(self.count_scales(shape) * self.scale_bytes)


def find_exponent(value: Fraction) -> int:
    """Return the exponent of the largest power of two that is at most a number above 0."""
    found = value.numerator.bit_length() - value.denominator.bit_length()
    return found if TWO**found <= value else found - 1


def _choose_scale(largest: Fraction, element: Format, scale: Format) -> Fraction:
    """Choose the scale of a block by its largest number. A scale that is a power of two puts this
    into the largest power of two of an element (OCP Microscaling, section 6.3); another one puts it
    at the largest element, rounded (NVIDIA 2025, arXiv 2509.25149, section 2; its scale of the
    whole tensor is taken as 1)."""
    if not scale.fraction:
        exponent = find_exponent(largest) - find_exponent(element.largest)
        return min(max(TWO**exponent, scale.smallest_normal), scale.largest)
    return scale.round_value(min(largest / element.largest, scale.largest)) or Fraction(0)


@cache
def load_format(name: str) -> Format:
    """Return the format of that name (presets/formats)."""
    said = resources.load_preset(f"formats/{name}")
    if "elements" in said:
        one, scale, block = load_format(said["elements"]), load_format(said["scale"]), said["block"]
        return one._replace(
            format=name,
            name=said["name"],
            source=said["source"],
            bytes=one.bytes + scale.bytes / block,
            largest=one.largest * scale.largest,
            smallest_normal=one.smallest_normal * scale.smallest_normal,
            smallest_subnormal=one.smallest_subnormal * scale.smallest_subnormal,
            block=block,
            scale=scale.format,
            scale_bytes=scale.bytes,
        )
    sign, exponent, fraction = said["sign"], said["exponent"], said["fraction"]
    # In memory a number may take more bits than it has.
    bits = said.get("storage", sign + exponent + fraction)
    bias = 2 ** (exponent - 1) - 1
    # Of all patterns in order, the last ones are infinities and NaN.
    special = 2**fraction if said["infinities"] else int(said.get("nan", True))
    top, last = divmod(2 ** (exponent + fraction) - 1 - special, 2**fraction)
    largest = (1 + last / TWO**fraction) * TWO ** (top - bias)
    subnormals = bool(said.get("subnormals", True))
    smallest = TWO ** (int(subnormals) - bias)
    least = smallest / 2**fraction if subnormals else smallest
    limits = largest, smallest, least, TWO**-fraction
    known = name, said["name"], said["source"]
    return Format(*known, Fraction(bits, 8), sign, exponent, fraction, *limits)


def sort_formats() -> list[Format]:
    """List the built-in formats, wide ones first."""
    paths = (resources.folder("presets") / "formats").glob("*.yaml")
    found = (load_format(path.stem) for path in paths)
    return sorted(found, key=lambda f: (-f.bytes, -f.exponent - f.fraction, f.exponent, f.format))
