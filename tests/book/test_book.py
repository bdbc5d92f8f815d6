"""Every formula in the book: exact numbers only, units that agree, symbols that exist."""

from __future__ import annotations

import ast
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

import planner
import planner.book.formulas
from planner.base import units
from planner.book import language, settings
from planner.book.expressions import REDUCTIONS, Symbol
from planner.book.quantity import BOOK, Book, Formula, Quantity, typeset_symbol
from tests.conftest import read_data

#: Those whose ids begin alike are one test: thousands of their own would take longer to start.
FORMULAS = {
    prefix: [*those]
    for prefix, those in groupby(
        sorted(BOOK.list_formulas(), key=lambda one: one.id), lambda one: one.id.partition(".")[0]
    )
}
FOLDER = Path(planner.book.formulas.__file__).parent

#: What is counted rather than measured: a formula may turn layers into bytes, but not into FLOP.
COUNTS = {"token", "parameter", "sequence", "device"}


class Mismatch(Exception):
    pass


def measured(unit: str) -> units.Dimension:
    """The dimension of a unit, counts left out."""
    powers = units.find_dimension(unit).powers
    return units.Dimension(tuple(p for p in powers if p[0] not in COUNTS))


def dimension_of(expression: Any, carried: units.Dimension | None = None) -> units.Dimension | None:
    """The dimension of an expression without counts; None for a plain number."""
    op = expression.op
    if op == "number":
        return None
    if isinstance(expression, Symbol):
        return measured(unit_of(expression))
    if op == "mul":
        found = [d for a in expression.args if (d := dimension_of(a, carried)) is not None]
        product = units.find_dimension("1")
        for dimension in found:
            product = product * dimension
        return product if found else None
    if op == "pow":
        base = dimension_of(expression.args[0], carried)
        exponent = expression.args[1]
        if base is None:
            return None
        if exponent.op != "number":
            if base:
                raise Mismatch(f"{expression}: a power of a value with a unit")
            return base
        return base**exponent.data
    if op == "at_largest":
        dimension_of(expression.by, carried)
    if op == "which":
        return None
    if op in ("add", "max", "min"):
        return same(expression, carried)
    if op in ("ceil", "floor", "total", "largest", "at_largest"):
        return dimension_of(expression.args[0], carried)
    if op in ("exp", "log", "tanh"):
        if dimension_of(expression.args[0], carried):
            raise Mismatch(f"{expression}: a function of a value with a unit")
        return units.find_dimension("1")
    raise AssertionError(f"no dimension rule for {op}")


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


def find_mismatch(formula: Formula) -> str | None:
    """What is wrong with the unit of a formula; a plain number has the declared one."""
    carried = measured(formula.coefficient)
    try:
        found = dimension_of(formula.expression, carried or None)
    except Mismatch as mismatch:
        return str(mismatch)
    if found is None:
        return None
    wanted = measured(formula.quantity.unit)
    agrees = found == wanted or (carried and found * carried == wanted)
    return None if agrees else f"{found}, not {wanted}"


@pytest.mark.parametrize("prefix", FORMULAS)
def test_units_agree(prefix: str) -> None:
    wrong = [(f.id, dict(f.when), found) for f in FORMULAS[prefix] if (found := find_mismatch(f))]
    assert not wrong


@pytest.mark.parametrize("prefix", FORMULAS)
def test_an_expression_has_exact_numbers_and_known_symbols(prefix: str) -> None:
    for formula in FORMULAS[prefix]:
        expression = formula.expression
        numbers = [node.data for node in expression.walk_tree() if node.op == "number"]
        assert all(type(value) in (int, Fraction) for value in numbers), formula.id
        assert not expression.symbols - BOOK.symbols.keys() - BOOK.notation.keys(), formula.id


def test_a_number_that_is_not_exact_is_refused() -> None:
    with pytest.raises(TypeError, match=r"0\.5 is not exact"):
        Symbol("x") * 0.5


def test_every_quantity_says_what_it_is() -> None:
    for d in BOOK.list_formulas():
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


def declared(book: Book, **settings: Any) -> Quantity:
    """A quantity that is 1 where the settings are so."""
    one = Quantity("a.one", symbol="a", unit="1", title="one", source="definition", book=book)
    return one.where(**settings).equals(1, "It is one.")


def test_a_quantity_is_declared_once() -> None:
    book = Book()
    declared(book)
    with pytest.raises(TypeError, match=r"a\.one is declared twice"):
        declared(book)


def test_a_condition_on_no_setting_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(TypeError, match="no setting is called optimiser; optimizer"):
        declared(Book(), optimiser="adamw")


def test_a_formula_holds_where_each_setting_has_its_value_or_one_of_several() -> None:
    one = declared(Book(), zero=(1, 2), reshard=True)
    for zero in range(4):
        for reshard in (True, False):
            plan = {"parallelism.zero": zero, "parallelism.reshard": reshard}
            assert (one.choose_formula(plan.get) is None) == (zero in (0, 3) or not reshard)


def test_every_setting_has_a_keyword_and_a_formula_that_asks_for_it() -> None:
    asked = {name for d in BOOK.list_formulas() for name in d.when}
    asked |= {
        name
        for d in BOOK.list_formulas()
        for node in d.expression.walk_tree()
        if node.op in REDUCTIONS
        for name in node.where
    }
    assert sorted(asked) == sorted(settings.NAMES)
    assert set(settings.KEYWORDS.values()) == asked


def test_what_scales_with_time_grows_as_the_step_and_rates_fall() -> None:
    """Half the assumed utilisation is, by definition, twice the step: each is held against that."""
    changes = {"cluster.price": "2 USD/h", "cluster.carbon_intensity": "0.4 kgCO2e/kWh"}
    changes["time.use"] = "assumed"
    fast, slow = (
        planner.load("presets/gpt3_a100x1024.yaml", set={**changes, "time.mfu": mfu}).evaluate()
        for mfu in (0.4, 0.2)
    )
    seen = set()
    for identifier, quantity in BOOK.quantities.items():
        if not quantity.scales_with or fast[identifier].absent is not None:
            continue
        ratio = slow[identifier].number / fast[identifier].number
        assert ratio > 1 if quantity.scales_with == "time" else ratio < 1, identifier
        if "run" not in identifier and "failure" not in identifier:  # interruptions are no multiple
            assert ratio == (2 if quantity.scales_with == "time" else Fraction(1, 2)), identifier
        seen.add(identifier)
    assert {"time.step_seconds", "time.mfu", "cost.total", "energy.carbon"} <= seen


@pytest.mark.slow
def test_symbols_rank_the_same_whichever_page_is_read_first() -> None:
    """Products are printed by rank: a report and its check must agree in every process."""
    import subprocess
    import sys

    last = (
        "import planner.book.formulas; "
        "from planner.book.quantity import BOOK; print([*BOOK.notation])"
    )
    pages = ("book.notation", "base.units")
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


@pytest.mark.parametrize(
    ("typed", "latex"),
    read_data("book")["index_letters"],
)
def test_the_letters_of_an_index_are_a_word(typed: str, latex: str) -> None:
    """Words are upright, as typesetting has it (ISO 80000-2, 7.1); what varies stays as it is."""
    assert typeset_symbol(typed) == latex


@pytest.mark.parametrize("page", sorted(FOLDER.glob("*.py")), ids=lambda page: page.stem)
def test_no_formula_gives_a_letter_of_the_notation_another_meaning(page: Path) -> None:
    """All of the language is imported at once, so that the linter would not see it."""
    given = set()
    for node in ast.walk(ast.parse(page.read_text("utf-8"))):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            given.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            given.add(node.name)
        elif isinstance(node, ast.alias):
            given.add(node.asname or node.name)
    assert not given & vars(language).keys()
