"""The axes of a study: keys of a plan with the values that they take.

A value is read once, in the unit of its key, and checked by the schema of plans; points only
combine values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property
from typing import Any

from planner.base import units
from planner.base.errors import Place, PlanError, nearest
from planner.base.numbers import plain_text
from planner.base.units import Exact
from planner.documents import schema
from planner.documents.yaml_nodes import Node
from planner.plans.plan import find_near_key

AUTO = "auto"
LAYOUT = "parallelism"
RANGE = ("from", "to", "step", "steps", "factor", "scale")
ITEM = ("name", "set")
#: Significant digits of the inner values of a logarithmic range.
DIGITS = 12
#: Precision of a power before it is rounded to ``DIGITS``, for any exponent and any factor.
CONTEXT = Context(prec=50 + units.LONGEST)
#: The most values of one axis, whatever the limit of the study.
MOST_VALUES = 10**6


@dataclass(frozen=True)
class Choice:
    """One value of an axis.

    Attributes:
        label: in tables: text, or an exact number in the unit of the key; of an axis as written,
            text or None.
        changes: the keys of the plan that it changes, with their values.
    """

    label: Any
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class StudyAxis:
    """A key of the plan, or several that change together.

    Attributes:
        name: the key, or the name of the axis.
        choices: its values in order.
    """

    name: str
    choices: tuple[Choice, ...]

    @cached_property
    def keys(self) -> frozenset[str]:
        """The dotted keys that some value changes."""
        return frozenset(key for choice in self.choices for key in choice.changes)

    @cached_property
    def numeric(self) -> bool:
        """Whether every value is a number."""
        return all(schema.is_number(choice.label) for choice in self.choices)


def collect_keys(axes: Iterable[StudyAxis]) -> set[str]:
    """Return the dotted keys that some value of some axes changes."""
    return {key for axis in axes for key in axis.keys}


def find_key_schema(key: str, place: Place | None) -> Mapping[str, Any]:
    """Return the schema of the key of an axis.

    Raises:
        PlanError: a plan has no such key.
    """
    said = schema.describe("plan", key)
    if said is None:
        what, close = f"unknown key '{key}' in axes", find_near_key(key)
        allowed = "a dotted key of a plan such as training.tokens, or items {name, set}"
        raise PlanError(what, place, allowed, close)
    return said


def check_axis_keys(where: str, given: Mapping[str, Node], allowed: Sequence[str]) -> None:
    """Check that the keys of a mapping are among the allowed ones.

    Args:
        where: the mapping, as faults name it.
        given: the mapping.
        allowed: the allowed keys.

    Raises:
        PlanError: one is not; at its place, with the nearest allowed key.
    """
    for name, child in given.items():
        if name not in allowed:
            what, said = f"unknown key '{name}' in {where}", f"allowed keys: {', '.join(allowed)}"
            raise PlanError(what, child.key_place, said, nearest(name, allowed))


def is_numeric(said: Mapping[str, Any]) -> bool:
    """Decide whether a key takes numbers and nothing else."""
    kinds = {said["type"]} if isinstance(said.get("type"), str) else set(said.get("type", ()))
    return bool(kinds & {"integer", "number"}) and "enum" not in said


def read_axis_number(key: str, node: Node, unit: str) -> Exact:
    """Read a number in a unit.

    Args:
        key: of the axis, for faults.
        node: the number as written, with or without a unit.
        unit: the unit of the result.

    Returns:
        The exact number.

    Raises:
        PlanError: it is no number, or has another unit.
    """
    if node.unit == unit:  # read before
        return node.value  # type: ignore[return-value]
    with units.name_faults(f"axes.{key}", node.place):
        return units.parse(node.value, unit)  # type: ignore[arg-type]


def expand_range(key: str, node: Node, said: Mapping[str, Any], most: int) -> list[Exact]:
    """List the values of a range, in the unit of the key and increasing.

    Args:
        key: the key of the axis.
        node: the range as written.
        said: the schema of the key, which has its unit, and whether values are whole.
        most: the most values that are allowed.

    Returns:
        The distinct values; of a key with whole numbers they are rounded.

    Raises:
        PlanError: the range is invalid, or has more values.
    """
    written = _Range(key, node, said)
    count, value = written.build_values()
    if count > min(most, MOST_VALUES):
        more = "; the key limit allows more" if count <= MOST_VALUES else ""
        raise written.make_fault(f" has {count} values", f"at most {min(most, MOST_VALUES)}{more}")
    kinds = said.get("type", ())
    whole = "integer" in kinds and "number" not in kinds
    made = (
        v if type(v) is int else units.to_whole(round(Fraction(v)) if whole else v)
        for v in map(value, range(count))
    )
    return list(dict.fromkeys(made))  # rounding may make neighbours equal


#: The number of values of a range, and the function from index to value.
Values = tuple[int, Callable[[int], Exact]]


class _Range:
    """A range ``{from, to}`` with one of ``step``, ``steps`` (and ``scale``) and ``factor``."""

    def __init__(self, key: str, node: Node, said: Mapping[str, Any]) -> None:
        """Read the ends of a range.

        Args:
            key: the key of the axis.
            node: the range as written, a mapping.
            said: the schema of the key.

        Raises:
            PlanError: the key takes no numbers, an end is missing, or the range starts above its
                end.
        """
        self.key, self.node, self.given = key, node, node.entries
        if not is_numeric(said):
            raise self.make_fault(" is a range, but the key is not a number", "a list")
        self.unit = str(said.get("unit", "1"))
        check_axis_keys(f"axes.{key}", self.given, RANGE)
        for name in ("from", "to"):
            if name not in self.given:
                raise self.make_fault(f" has no key '{name}'")
        self.low, self.high = self.read_number("from", self.unit), self.read_number("to", self.unit)
        if self.low > self.high:
            raise self.make_fault(" starts above its end", "from at most to", "from")

    def make_fault(self, what: str, allowed: str | None = None, at: str | None = None) -> PlanError:
        """Make a fault of the range.

        Args:
            what: follows the name of the axis in the message.
            allowed: what would be valid.
            at: the key of the range that is wrong; None for the range as a whole.

        Returns:
            The error, for the caller to raise.
        """
        place = self.given[at].place if at in self.given else self.node.place
        return PlanError(f"axes.{self.key}{what}", place, allowed)

    def read_number(self, name: str, unit: str) -> Exact:
        """Read the number of one of the range's keys, in a unit."""
        return read_axis_number(f"{self.key}.{name}", self.given[name], unit)

    def build_values(self) -> Values:
        """Build the values by the key that the range gives: step, steps or factor.

        Returns:
            Their number, and the function from an index to its value.

        Raises:
            PlanError: none or several of these are given, or one is invalid.
        """
        ways = [name for name in ("step", "steps", "factor") if name in self.given]
        if len(ways) != 1:
            said_so = " and ".join(ways) if ways else "neither step, steps nor factor"
            raise self.make_fault(f" has {said_so}", "exactly one of step, steps, factor")
        scale = self.given["scale"].value if "scale" in self.given else "linear"
        if scale not in ("linear", "log"):
            close = nearest(str(scale), ("linear", "log"))
            what, place = f"axes.{self.key}.scale is '{scale}'", self.given["scale"].place
            raise PlanError(what, place, "linear or log", close)
        if scale == "log" and ways != ["steps"]:
            raise self.make_fault(": scale log needs steps", "steps, or factor without scale")
        if ways == ["factor"]:
            return self._build_by_factor()
        if ways == ["steps"]:
            return self._build_by_steps(scale == "log")
        step = self.read_number("step", self.unit)
        if step <= 0:
            raise self.make_fault(f".step is {plain_text(step)}", "above 0", "step")
        return int((self.high - self.low) // step) + 1, lambda index: self.low + index * step

    def _build_by_factor(self) -> Values:
        """Return values that grow by a factor: exact where start and factor are whole, else rounded
        to the digits of a logarithmic range, because their digits would grow without end."""
        factor = self.read_number("factor", "1")
        if factor <= 1 or self.low <= 0:
            what = f" never grows by a factor of {plain_text(factor)}"
            raise self.make_fault(what, "a factor above 1, from above 0", "factor")

        def power(index: int) -> Exact:
            """Return the value at an index."""
            if isinstance(factor, int) and isinstance(self.low, int):
                return units.to_whole(self.low * factor**index)
            with localcontext(CONTEXT):
                value = _to_decimal(self.low) * _to_decimal(factor) ** index
            return units.parse_number(f"{value:.{DIGITS}g}")

        # Counted before any is computed: they may exceed memory.
        with localcontext(CONTEXT):
            ratio = _to_decimal(self.high) / _to_decimal(self.low)
            count = int(ratio.ln() / _to_decimal(factor).ln()) + 1
        # The end is included where rounding reaches it.
        return count + (power(count) <= self.high), power

    def _build_by_steps(self, log: bool) -> Values:
        """Return as many values as ``steps`` says, evenly spaced or, with ``log``, in equal ratios;
        both ends are exact."""
        count = self.read_number("steps", "1")
        least = 1 if self.low == self.high else 2
        if not isinstance(count, int) or count < least:
            allowed = f"a whole number, at least {least}"
            raise self.make_fault(f".steps is {plain_text(count)}", allowed, "steps")
        if not log:
            step = Fraction(self.high - self.low, max(1, count - 1))
            return count, lambda index: self.low + index * step
        if self.low <= 0:
            raise self.make_fault(" is logarithmic", "from above 0", "from")
        ends = {0: self.low, count - 1: self.high}

        def power(index: int) -> Exact:
            """Return the inner value at an index, rounded to the digits of a logarithmic range."""
            ratio = float(Fraction(self.high) / self.low) ** (index / (count - 1))
            return units.parse_number(f"{float(self.low) * ratio:.{DIGITS}g}")

        return count, lambda index: ends[index] if index in ends else power(index)


def _to_decimal(value: Exact) -> Decimal:
    """Convert an exact number to a decimal, in the precision of the present context."""
    return Decimal(Fraction(value).numerator) / Fraction(value).denominator


def label(node: Node, index: int) -> str:
    """Return the label in tables of a value that is not a number."""
    value = node.value
    if isinstance(value, dict):
        named = value.get("name") or value.get("extends")
        if named is not None and isinstance(named.value, str):
            return named.value
        return " ".join(_yield_settings(value, "")) or f"value {index + 1}"
    if isinstance(value, list):
        return f"value {index + 1}"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "default"}[value]
    return str(value) if isinstance(value, str) else node.text or str(value)


def _yield_settings(entries: Mapping[str, Node], before: str) -> Iterator[str]:
    """Yield the values of a mapping as ``key=value``, with dotted keys."""
    for key, node in entries.items():
        if isinstance(node.value, dict):
            yield from _yield_settings(node.value, f"{before}{key}.")
        else:
            yield f"{before}{key}={label(node, 0)}"
