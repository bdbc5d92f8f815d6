"""Expressions against SymPy, and their canonical forms with and without the data that ships."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.canonical import SHIPPED, hash_tree, order_operands, read_forms, to_canonical
from planner.book.expressions import (
    Expression,
    Symbol,
    add,
    ceil,
    exp,
    make_fraction,
    make_number,
    maximum,
    product,
    sqrt,
)
from planner.book.language import Sum
from planner.book.quantity import BOOK
from planner.book.symbolic import from_sympy, to_sympy

#: What writes the forms that ship.
COMMAND = "python -m benchmarks.canonical_forms"

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: 2 * (a + b) - a,
        lambda a, b: a * b / a + b,
        lambda a, b: 1 - a / (3 * b),
        lambda a, b: -a * (b - 1) ** 2 / 4,
        lambda a, b: 2**a * b**2 / b,
        lambda a, b: (a - b) + (b - a),
    ],
    ids=range(6),
)
def test_operators_mean_what_they_mean_in_sympy(build: Callable[[Any, Any], Any]) -> None:
    made = build(sympy.Symbol("a", positive=True), sympy.Symbol("b", positive=True))
    ours = build(Symbol("a", positive=True), Symbol("b", positive=True))
    assert to_sympy(ours) == made
    assert to_canonical(ours) is from_sympy(made)


def test_functions_mean_what_they_mean_in_sympy() -> None:
    a = Symbol("a", positive=True)
    x = sympy.Symbol("a", positive=True)
    assert to_sympy(sqrt(a) + exp(-a) * make_fraction(1, 3)) == sympy.sqrt(x) + sympy.exp(-x) / 3
    assert to_sympy(ceil(a)).func is sympy.ceiling
    assert to_sympy(maximum(a, 2)) == sympy.Max(x, 2)


@pytest.mark.slow
def test_every_formula_survives_the_way_through_sympy() -> None:
    """Its canonical form has nothing that SymPy would still move."""
    for formula in BOOK.list_formulas():
        tree = formula.expression
        assert from_sympy(to_sympy(tree)) is tree, formula.id


def test_equal_expressions_are_one_object() -> None:
    a, b = Symbol("a"), Symbol("b")
    assert a is Symbol("a") and a is not Symbol("a", positive=True)
    assert Sum(a * b, "part", layers=True) is Sum(a * b, "part", layers=True)
    assert Sum(a * b, "part") is not Sum(a * b, "stage")


def test_what_ships_has_every_formula_of_the_book() -> None:
    trees = {
        formula.written: formula.id for formula in BOOK.list_formulas() if formula.written.args
    }
    asked = [tree for tree in trees if order_operands(tree) is None]
    missing = [trees[tree] for tree in asked if hash_tree(tree) not in read_forms()]
    assert not missing, f"{missing[:5]} and more: make it anew with {COMMAND}"


@pytest.mark.nightly
def test_what_ships_is_what_sympy_makes(tmp_path: Path) -> None:
    made = tmp_path / "forms.txt"
    subprocess.run([sys.executable, *COMMAND.split()[1:], "-o", made], cwd=ROOT, check=True)
    same = made.read_bytes() == SHIPPED.read_bytes()
    assert same, f"make it anew with {COMMAND}"


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("plan", sorted(path.name for path in (ROOT / "presets").glob("*.yaml")))
def test_the_first_report_of_a_shipped_plan_needs_no_sympy(plan: str, tmp_path: Path) -> None:
    run = (
        "import sys, planner.cli.main as main\n"
        f"main.main(['presets/{plan}', '-o', {str(tmp_path / 'r.md')!r}])\n"
        "print('sympy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", run], cwd=ROOT, check=True, capture_output=True, encoding="utf-8"
    )
    assert done.stdout.splitlines()[-1] == "False"


def test_what_does_not_ship_is_put_in_order_by_sympy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a line of the data each formula has the same form."""
    formulas = list(BOOK.list_formulas())[::40]
    shipped = [to_canonical(formula.written) for formula in formulas]
    monkeypatch.setattr("planner.book.canonical.read_forms", dict[str, str]().copy)
    for formula in formulas:
        monkeypatch.setattr(formula.written, "canonical", None)
    assert [to_canonical(formula.written) for formula in formulas] == shipped


NUMBERS = st.fractions(-3, 3, max_denominator=3).map(make_number)


@given(st.sampled_from((add, product)), st.lists(NUMBERS, max_size=3), st.booleans(), st.data())
def test_numbers_beside_one_symbol_are_ordered_as_by_sympy(
    operation: Callable[..., Expression],
    numbers: list[Expression],
    positive: bool,
    data: st.DataObject,
) -> None:
    symbols = [Symbol("a", positive)] * data.draw(st.integers(0 if numbers else 1, 1))
    tree = operation(*data.draw(st.permutations([*numbers, *symbols])))
    assert to_canonical(tree) is from_sympy(to_sympy(tree))


def test_what_ships_is_found_by_content() -> None:
    """An expression that was changed is another one, whatever ships of the old."""
    a: Expression = Symbol("a", positive=True)
    assert to_canonical(a + a + 1) is to_canonical(2 * a + 1)
    assert to_canonical(a + a + 2) is not to_canonical(2 * a + 1)
    assert to_canonical(a * 0) is make_number(0)
