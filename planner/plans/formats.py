"""Number formats: what follows from the bits of sign, exponent and fraction.

The bits are facts (presets/formats); everything else is derived, exactly. Values are in the
format's own unit; the bias of an exponent of e bits is 2^(e-1) - 1 (IEEE 754-2019, section 3.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from planner.base import resources

TWO = Fraction(2)


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    key: str
    name: str
    sign: int
    exponent: int
    fraction: int
    infinities: bool  # without them, the top exponent holds numbers but for one pattern (NaN)
    source: str
    storage: int | None = None  # bits in memory where they are more than those of the number

    @property
    def bits(self) -> int:
        return self.storage or self.sign + self.exponent + self.fraction

    @property
    def bytes(self) -> Fraction:
        return Fraction(self.bits, 8)

    @cached_property
    def bias(self) -> int:
        return int(2 ** (self.exponent - 1) - 1)

    @cached_property
    def largest(self) -> Fraction:
        """The largest finite number: the highest exponent with the highest fraction."""
        highest = 2**self.exponent - 1 - self.bias
        if self.infinities:
            return Fraction((2 - self.epsilon) * TWO ** (highest - 1))
        return Fraction((2 - 2 * self.epsilon) * TWO**highest)

    @cached_property
    def smallest_normal(self) -> Fraction:
        """The smallest number with a leading one."""
        return TWO ** (1 - self.bias)

    @cached_property
    def epsilon(self) -> Fraction:
        """From 1 to the next number."""
        return TWO**-self.fraction


def load() -> list[Format]:
    """The formats that ship, wide ones first."""
    files = (resources.folder("presets") / "formats").glob("*.yaml")
    formats = [Format(key=path.stem, **resources.read_yaml(path)) for path in files]
    return sorted(formats, key=lambda f: (-f.bits, -f.exponent - f.fraction, f.exponent, f.key))


def table() -> list[tuple[str, ...]]:
    """The rows of ``plan.py list precisions``, with a heading."""
    names = ("bytes", "sign", "exponent", "fraction", "largest", "smallest_normal", "epsilon")
    rows = [("format", *(name.replace("_", " ") for name in names))]
    for one in load():
        rows.append((one.key, *(f"{float(getattr(one, name)):.6g}" for name in names)))
    return rows
