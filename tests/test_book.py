"""Every formula in the book: exact numbers only, units that agree, symbols that exist."""

from __future__ import annotations

from typing import Any

import pytest
from sympy import (
    Add,
    Float,
    Integer,
    Max,
    Min,
    Mul,
    Number,
    Pow,
    Rational,
    Symbol,
    ceiling,
    exp,
    floor,
    log,
    tanh,
)

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.base import units
from planner.book.quantity import BOOK, Formula
from planner.book.reductions import AtLargest, Fold, Which

DECLARATIONS = [pytest.param(d, id=f"{d.id} {dict(d.when) or ''}".strip()) for d in BOOK.formulas()]


#: What is counted rather than measured: a formula may turn layers into bytes, but not into FLOP.
COUNTS = {"token", "parameter", "sequence", "device"}


class Mismatch(Exception):
    pass


def measured(unit: str) -> units.Dimension:
    """The dimension of a unit, counts left out."""
    powers = units.dimension(unit).powers
    return units.Dimension(tuple(p for p in powers if p[0] not in COUNTS))


def dimension_of(expression: Any, carried: units.Dimension | None = None) -> units.Dimension | None:
    """The dimension of an expression without counts; None for a plain number."""
    if isinstance(expression, Number):
        return None
    if isinstance(expression, Symbol):
        return measured(unit_of(expression))
    if isinstance(expression, Mul):
        found = [d for a in expression.args if (d := dimension_of(a, carried)) is not None]
        product = units.dimension("1")
        for dimension in found:
            product = product * dimension
        return product if found else None
    if isinstance(expression, Pow):
        base = dimension_of(expression.args[0], carried)
        exponent = expression.args[1]
        if base is None:
            return None
        if not isinstance(exponent, (Integer, Rational)):
            if base:
                raise Mismatch(f"{expression}: a power of a value with a unit")
            return base
        power: Any = int(exponent) if isinstance(exponent, Integer) else None
        if power is None:
            from fractions import Fraction

            power = Fraction(int(exponent.p), int(exponent.q))
        return base**power
    if isinstance(expression, Fold):
        if isinstance(expression, AtLargest):
            dimension_of(expression.by, carried)
        return None if isinstance(expression, Which) else dimension_of(expression.body, carried)
    if isinstance(expression, (Add, Max, Min)):
        return same(expression, carried)
    if isinstance(expression, (ceiling, floor)):
        return dimension_of(expression.args[0], carried)
    if isinstance(expression, (exp, log, tanh)):
        if dimension_of(expression.args[0], carried):
            raise Mismatch(f"{expression}: a function of a value with a unit")
        return units.dimension("1")
    raise AssertionError(f"no dimension rule for {type(expression).__name__}")


def same(expression: Any, carried: units.Dimension | None) -> units.Dimension | None:
    """Terms that are added or compared have one dimension; plain numbers stand for any."""
    found: units.Dimension | None = None
    for term in expression.args:
        dimension = dimension_of(term, carried)
        if dimension is None:
            continue
        if found is not None and dimension != found:
            # In a sum, the plain number of one term may carry the declared coefficient unit.
            if carried and dimension == found * carried:
                found = dimension
                continue
            if carried and dimension * carried == found:
                continue
            raise Mismatch(f"{expression}: {dimension or 'a number'} beside {found or 'a number'}")
        found = dimension
    return found


def unit_of(symbol: Symbol) -> str:
    identifier = BOOK.symbols.get(symbol)
    if identifier is not None:
        return BOOK.quantities[identifier].unit
    return BOOK.notation[symbol].unit


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_units_agree(declaration: Formula) -> None:
    carried = measured(declaration.coefficient)
    found = dimension_of(declaration.expression, carried or None)
    if found is None:  # a plain number has the declared unit
        return
    wanted = measured(declaration.quantity.unit)
    assert found == wanted or (carried and found * carried == wanted), f"{found}, not {wanted}"


@pytest.mark.parametrize("declaration", DECLARATIONS)
def test_an_expression_has_exact_numbers_and_known_symbols(declaration: Formula) -> None:
    expression = declaration.expression
    assert not expression.atoms(Float), "a Float is not exact: write a Rational"
    unknown = {
        s
        for s in expression.free_symbols
        if s not in BOOK.symbols and s not in BOOK.notation and not is_fold_name(expression, s)
    }
    assert not unknown


def is_fold_name(expression: Any, symbol: Symbol) -> bool:
    """Axis and filter names inside a fold are symbols too, but stand for no value."""
    return any(
        symbol in {fold.args[1]} or str(symbol) in {*fold.where, *fold.where.values()}
        for fold in expression.atoms(Fold)
    )


def test_every_quantity_says_what_it_is() -> None:
    for d in BOOK.formulas():
        assert d.title and d.source and d.why.endswith((".", ")")), d.id
        assert d.title[0].islower() or d.title.split()[0].isupper() or d.title[0].isupper(), d.id


def test_alternatives_never_hold_together() -> None:
    """Two formulas of one quantity name a common setting with no common value."""

    def values(wanted: Any) -> set[Any]:
        return set(wanted) if isinstance(wanted, (tuple, set, frozenset)) else {wanted}

    for quantity in BOOK.quantities.values():
        for i, one in enumerate(quantity.formulas):
            for two in quantity.formulas[i + 1 :]:
                apart = any(
                    not (values(one.when[name]) & values(two.when[name]))
                    for name in one.when.keys() & two.when.keys()
                )
                assert apart, f"{one.id}: {dict(one.when)} and {dict(two.when)} may both hold"


def test_symbols_rank_the_same_whichever_page_is_read_first() -> None:
    """Products are printed by rank: a report and its check must agree in every process."""
    import subprocess
    import sys

    last = (
        "import planner.book.formulas; "
        "from planner.book.quantity import BOOK; print([*BOOK.notation])"
    )
    pages = ("book.notation", "book.notation_hardware", "book.notation_scaling", "base.units")
    printed = {
        subprocess.run(
            [sys.executable, "-c", f"import planner.{page}; {last}"],
            capture_output=True,
            encoding="utf-8",
            check=True,
        ).stdout
        for page in pages
    }
    assert len(printed) == 1
