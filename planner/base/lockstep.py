"""Run code once for many values of a number: the lanes of a run go in step.

``Lanes`` stand for one exact number in the code, an array in truth. Where the code branches on
them, all lanes go where the first one does, and those that would go elsewhere leave the run
(``Lockstep.active``). What the code makes of the number is an array again, exact for each lane that
is still active; in a text a mark stands for it. Whatever else an array cannot do (a hash, an index,
a float) is done with the first lane's number, and lanes with another one leave.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: Numerators below are exact, also as floats.
EXACT = 2**53
#: Around the index of a number in a text; no document has it.
MARK = "\0"


class Lockstep:
    """A run of some code for many values at once.

    Args:
        size: number of lanes.
        first: index of the lane that the code follows.
    """

    def __init__(self, size: int, first: int) -> None:
        self.first = first
        #: Which lanes go where the first one does, (lanes,).
        self.active = np.ones(size, dtype=bool)
        self.ended = False
        self._written: list[Lanes] = []

    def make_lanes(self, values: Sequence[int | Fraction]) -> Lanes:
        """Return exact numbers, one for each lane, as one number.

        Raises:
            OverflowError: one of them is too large, or has too many digits.
        """
        if all(type(value) is int for value in values):
            return Lanes(self, multiply(np.array(values, dtype=np.int64), 1))
        below = math.lcm(*{value.denominator for value in values})
        above = [value.numerator * (below // value.denominator) for value in values]
        return Lanes(self, multiply(np.array(above, dtype=np.int64), 1), below)

    def mark_text(self, lanes: Lanes) -> str:
        """Return what stands for the number in a text, until ``write_texts``."""
        self._written.append(lanes)
        return f"{MARK}{len(self._written) - 1}{MARK}"

    def write_texts(self, text: str) -> list[str]:
        """Return a text for each active lane, with its numbers in the places of the marks."""
        parts = text.split(MARK)
        columns = [
            self._written[int(part)].above[self.active].tolist() if odd % 2 else repeat(part)
            for odd, part in enumerate(parts)
        ]
        lanes = zip(self.active.nonzero()[0], *columns, strict=False)
        return ["".join(map(str, pieces)) for _, *pieces in lanes]

    def follow_first(self, outcomes: Array) -> Any:
        """Return the first lane's outcome, (lanes,); lanes with another one leave."""
        outcome = outcomes[self.first]
        if not self.ended:
            self.active &= outcomes == outcome
        return outcome


def multiply(values: Array, by: Array | int) -> Array:
    """Multiply whole numbers (lanes,) by others.

    Raises:
        OverflowError: the product of some lane is not exact as a float.
    """
    if np.any(np.abs(values.astype(np.float64) * by) >= EXACT):
        raise OverflowError("numerators of lanes are below 2**53")
    found: Array = values * by
    return found


def _make_comparison(function: Callable[..., Array]) -> Callable[[Lanes, Any], Any]:
    """Make a comparison; lanes of a run that has ended are equal to themselves only."""

    def compare(self: Lanes, other: Any) -> Any:
        terms = None if self.run.ended else self.match_terms(other)
        return NotImplemented if terms is None else bool(self.run.follow_first(function(*terms)))

    return compare


def _make_operation(function: Callable[..., Array], swap: bool = False) -> Callable[..., Any]:
    """Make an operation on numerators over one denominator, which a quotient loses.

    Args:
        swap: whether the other number comes first.
    """
    divides = function in (np.floor_divide, np.mod)

    def combine(self: Lanes, other: Any) -> Any:
        terms = self.match_terms(other)
        if terms is None:
            return NotImplemented
        first, second = terms[::-1] if swap else terms
        if divides:
            if self.run.follow_first(np.broadcast_to(second == 0, self.above.shape)):
                raise ZeroDivisionError
            second = np.where(second == 0, 1, second)  # of lanes that left
        below = self.below * _read_number(other)[1]  # type: ignore[index]
        return Lanes(self.run, function(first, second), 1 if function is np.floor_divide else below)

    return combine


def _read_number(value: Any) -> tuple[Array, int] | None:
    """Return numerators and denominator of a number; None if it is not exact."""
    if isinstance(value, Lanes):
        return value.above, value.below
    if isinstance(value, (int, Fraction)):
        return np.asarray(value.numerator), value.denominator
    return None


class Lanes:
    """A number that differs between lanes: whole numerators (lanes,) over one denominator."""

    def __init__(self, run: Lockstep, above: Array, below: int = 1) -> None:
        self.run, self.above, self.below = run, above, below

    @property
    def numbers(self) -> Array:
        """The values, (lanes,), as floats."""
        found: Array = self.above / self.below
        return found

    def settle(self) -> Any:
        """Return the first lane's number; lanes with another one leave."""
        value = Fraction(int(self.run.follow_first(self.above)), self.below)
        return int(value) if value.denominator == 1 else value

    def match_terms(self, other: Any) -> tuple[Array, Array] | None:
        """Return the numerators of both over one denominator; None if the other is not exact."""
        found = _read_number(other)
        return found and (multiply(self.above, found[1]), multiply(found[0], self.below))

    def __mul__(self, other: Any) -> Any:
        found = _read_number(other)
        if found is None:  # a list repeated, a float
            return NotImplemented
        return Lanes(self.run, multiply(self.above, found[0]), self.below * found[1])

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, (int, Fraction)) and other > 0:
            return self * Fraction(1, other)
        return self.settle() / (other.settle() if isinstance(other, Lanes) else other)

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.settle()

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self

    def __neg__(self) -> Any:
        return self * -1

    __rmul__ = __mul__
    __add__ = __radd__ = _make_operation(np.add)
    __sub__, __rsub__ = _make_operation(np.subtract), _make_operation(np.subtract, True)
    __floordiv__ = _make_operation(np.floor_divide)
    __rfloordiv__ = _make_operation(np.floor_divide, True)
    __mod__, __rmod__ = _make_operation(np.mod), _make_operation(np.mod, True)
    __lt__, __le__ = _make_comparison(np.less), _make_comparison(np.less_equal)
    __gt__, __ge__ = _make_comparison(np.greater), _make_comparison(np.greater_equal)
    __eq__, __ne__ = _make_comparison(np.equal), _make_comparison(np.not_equal)

    def __bool__(self) -> bool:
        return bool(self.run.follow_first(self.above != 0))

    def __hash__(self) -> int:
        return hash(self.settle())

    def __int__(self) -> int:
        return int(self.settle())

    __index__ = __int__

    def __float__(self) -> float:
        return float(self.settle())

    def __format__(self, spec: str) -> str:
        if spec or self.below != 1 or self.run.ended:
            return str(self.settle().__format__(spec))  # as the number itself is written
        return self.run.mark_text(self)

    def __str__(self) -> str:
        return self.__format__("")
