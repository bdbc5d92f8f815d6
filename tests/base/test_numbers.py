"""One module writes numbers: nothing else formats them, and what it writes is read again."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.base import numbers, units
from tests.conftest import ROOT, read_data

#: Functions that format a number by themselves, by file, with the reason.
EXCEPTIONS = {
    place: reason for reason, places in read_data("base")["own_formats"].items() for place in places
}
#: Ends of format specifications that round or group.
_SPEC = re.compile(r"[,_]|[eEfFgGn%]$")


def formats(tree: ast.AST) -> Iterator[int]:
    """The lines that make text of a number by a format of their own."""
    for node in ast.walk(tree):
        match node:
            case ast.FormattedValue(format_spec=ast.JoinedStr() as spec):
                how = (
                    part.value if isinstance(part, ast.Constant) else "0" for part in spec.values
                )
                found = bool(_SPEC.search("".join(map(str, how))))
            case ast.FormattedValue(value=value):
                found = _rounds(value)
            case ast.Call(func=ast.Name("format")):
                found = True
            case ast.Call(func=ast.Name("str"), args=[value]):
                found = _rounds(value)
            case ast.Call(func=ast.Attribute(value=ast.Constant(str() as text), attr="format")):
                found = any(
                    _SPEC.search(spec) for spec in re.findall(r"\{[^{}:]*:([^{}]*)\}", text)
                )
            case ast.BinOp(left=ast.Constant(str() | bytes()), op=ast.Mod()):
                found = True
            case _:
                found = False
        if found:
            yield node.lineno  # type: ignore[attr-defined]


def _rounds(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "round"
    )


def places() -> set[str]:
    """The functions of planner/ that format numbers, each by its file."""
    found = set()
    for path in sorted((ROOT / "planner").rglob("*.py")):
        name = path.relative_to(ROOT / "planner").as_posix()
        if name == "base/numbers.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
        for line in formats(tree):
            around = [f for f in functions if f.lineno <= line <= (f.end_lineno or 0)]
            inner = max(around, key=lambda f: f.lineno).name if around else "module"
            found.add(f"{name}: {inner}")
    return found


@pytest.mark.slow
def test_nothing_else_formats_numbers() -> None:
    found = places()
    assert found - EXCEPTIONS.keys() == set(), "numbers are written by planner/base/numbers.py"
    assert EXCEPTIONS.keys() - found == set(), "no exception is needed any longer"


@pytest.mark.parametrize("line", read_data("base")["formats"])
def test_a_format_is_found(line: str) -> None:
    assert list(formats(ast.parse(line)))


VALUES = st.fractions(Fraction(1, 10**6), 10**15, max_denominator=10**6)
UNITS = ("1", "bytes", "s", "days", "h", "USD", "tokens", "parameters", "FLOP", "tokens/s", "kWh")


@pytest.mark.slow
@given(VALUES, st.sampled_from(UNITS), st.booleans())
def test_a_headline_is_read_as_its_value_to_half_a_digit(
    value: Fraction, unit: str, below: bool
) -> None:
    value = -value if below else value
    text = numbers.text(value, unit)
    assert "-" not in text and text.startswith("−") == below
    number, read = re.match(r"−?([\d.,]+)", text), Fraction(units.parse(text, unit))
    assert number is not None
    assert abs(read - value) <= abs(value) / 199, "three digits"


@given(st.fractions(-3, 40, max_denominator=10**6))
def test_a_change_never_reads_as_nothing_or_as_all_where_it_is_neither(change: Fraction) -> None:
    text = numbers.text(change, style="change")
    read = Fraction(text[:-2].replace("−", "-").replace(",", "")) / 100
    assert abs(read - change) <= Fraction(1, 2000)
    assert (read == 0) == (abs(change) < Fraction(1, 10**6))
    if change != -1 and abs(1 + change) >= Fraction(1, 10**6):
        assert read != -1
    assert text.startswith("+" if change > 0 else "−" if read else "0")


def test_gibibytes_that_become_mebibytes_are_not_gone() -> None:
    assert numbers.text(Fraction(261, 327 * 1024) - 1, style="change") == "−99.92 %"


@given(
    st.fractions(0, 10**7), st.fractions(0, 10**7), st.sampled_from(["s", "bytes", "USD", "tokens"])
)
def test_each_end_of_an_interval_is_read_in_the_unit_that_stands_with_it(
    one: Fraction, other: Fraction, unit: str
) -> None:
    low, value, high = (numbers.text(each, unit) for each in sorted((one, other, one + other)))
    for beside, to in (("", "–"), (value, "–"), (value, " to ")):
        least, most = re.split(" ?– ?| to ", numbers.between((low, high), beside, to))
        ends = []
        for written, whole in ((least, low), (most, high)):
            # An end alone has the unit of the one behind it, and both that of what is beside them.
            own = written.partition(" ")[2] or most.partition(" ")[2] or beside.partition(" ")[2]
            assert own == whole.partition(" ")[2]
            ends.append(f"{written.partition(' ')[0]} {own}")
        assert ends == [low, high]
