"""Formulas in print: every formula of the book, in three styles, with symbols and with numbers."""

from __future__ import annotations

import ast
import math
import re
import xml.etree.ElementTree as ElementTree
from fractions import Fraction
from typing import Any

import pytest

import planner
import planner.book.formulas  # the whole book, for its names
from planner.book.canonical import to_canonical
from planner.book.expressions import Symbol, ceil, make_fraction, make_number, maximum
from planner.book.quantity import BOOK, Book, Notation
from planner.documents.references import preset_names
from planner.engine.evaluate import Case, Evaluation
from planner.results.result import Quantity
from planner.typeset.boxes import read_latex
from planner.typeset.styles import LATEX, MATHML, TEXT
from planner.typeset.typesetter import Typesetter
from tests.conftest import read_data
from tests.test_every_option import HEADLINES

PLANS = (
    "presets/llama70b_h100x1024.yaml",
    "presets/mixtral8x7b_h100x1024.yaml",
    "presets/gpt2small_hgx-h100.yaml",
)
CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2}
FORBIDDEN = ("operatorname", "mbox", "phantom", "|")


@pytest.fixture(scope="module")
def quantities() -> list[Quantity]:
    results = [planner.load(plan).evaluate() for plan in PLANS]
    return [quantity for result in results for quantity in result.quantities.values()]


def names() -> list[str]:
    declared = [quantity.latex for quantity in BOOK.quantities.values()]
    return sorted({*declared, *(note.latex for note in BOOK.notation.values())})


def test_names_survive_the_way_through_their_trees() -> None:
    for latex in names():
        name = read_latex(latex)
        assert read_latex(LATEX.write(name)) == name
        well_formed(MATHML.write(name))


@pytest.mark.parametrize("latex", [r"\frac{a}{b}", "a_", "{a", r"\operatorname{x}", "a}"])
def test_what_is_no_name_is_refused(latex: str) -> None:
    with pytest.raises(ValueError, match=re.escape(latex)):
        read_latex(latex)


def well_formed(mathml: str) -> None:
    root = ElementTree.fromstring(f"<math>{mathml}</math>")
    for element in root.iter():
        assert len(element) == CHILDREN.get(element.tag, len(element)), mathml
        if element.tag in ("mi", "mn", "mo", "mtext"):
            # MathML trims white space of ASCII alone; a thin space separates factors.
            assert (element.text or "").strip(" \t\r\n") and not len(element), mathml


@pytest.mark.slow
def test_every_formula_is_well_formed_in_every_style(quantities: list[Quantity]) -> None:
    assert len(quantities) > 100
    for quantity in quantities:
        for numbers in (False, True):
            well_formed(quantity.print(MATHML, numbers))
            latex = quantity.print(LATEX, numbers)
            assert not [word for word in FORBIDDEN if word in latex], quantity.id
            assert latex.count("{") == latex.count("}"), quantity.id
            assert latex.count(r"\left") == latex.count(r"\right"), quantity.id


def arithmetic(text: str) -> float:
    """What a printed line of numbers is worth, computed without our engine."""
    text = re.sub(r"(?<=\d),(?=\d)", "", text)
    for ours, theirs in (
        ("×", "*"),
        ("−", "-"),
        ("·", "*"),
        ("^", "**"),
        ("⌈", "ceil("),
        ("⌉", ")"),
        ("⌊", "floor("),
        ("⌋", ")"),
        ("√", "sqrt"),
    ):
        text = text.replace(ours, theirs)
    return float(_worth(ast.parse(text, mode="eval").body))


def _worth(node: ast.expr) -> Fraction | float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return Fraction(str(value))
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_worth(inner)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _worth(left), _worth(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.Div():
                    return a / b
                case ast.Pow():
                    return a**b
        case ast.Call(func=ast.Name(id=name), args=arguments):
            functions = {
                "max": max,
                "min": min,
                "ceil": math.ceil,
                "floor": math.floor,
                "sqrt": math.sqrt,
                "ln": math.log,
                "exp": math.exp,
                "tanh": math.tanh,
            }
            return Fraction(functions[name](*map(_worth, arguments)))  # type: ignore[operator]
    raise AssertionError(ast.dump(node))


@pytest.mark.slow
def test_the_numbers_put_in_make_the_value(quantities: list[Quantity]) -> None:
    """A reader with a calculator gets what the report says, to the digits that are printed."""
    checked = 0
    for quantity in quantities:
        if isinstance(quantity.value, str):
            continue
        found = arithmetic(quantity.substituted)
        assert found == pytest.approx(float(quantity.number), rel=2e-5), quantity.id
        checked += 1
    assert checked > 100


#: What a plan needs so that each headline has a value.
AROUND: dict[str, Any] = read_data("book")["around"]


@pytest.mark.parametrize("plan", preset_names("plan"))
def test_a_headline_can_be_redone_from_its_printed_digits(plan: str) -> None:
    """Differences of nearly equal numbers too, such as what goodput leaves for interruptions."""
    result, names = planner.load(plan, set=AROUND).evaluate(), (*HEADLINES, "time.failure_days")
    for quantity in map(result.find, (*names, "time.checkpoint_days")):
        assert quantity.absent is None, (quantity.id, quantity.absent)
        found = arithmetic(quantity.substituted)
        assert found == pytest.approx(float(quantity.number), rel=2e-5), quantity.id


def test_formula_and_numbers_have_the_same_terms(quantities: list[Quantity]) -> None:
    for quantity in quantities:
        symbolic, numeric = quantity.boxes
        folded = re.search(r"Σ|max\[|arg max|\[", quantity.formula)
        if not folded and numeric is not None:
            assert shape(symbolic) == shape(numeric), quantity.id


def shape(box: object) -> object:
    kind, parts = box.kind, box.parts  # type: ignore[attr-defined]
    if kind in ("name", "value", "words"):
        return "leaf"
    return (kind, tuple(map(shape, parts)))


# -- small expressions, by hand -----------------------------------------------------------------


@pytest.fixture
def setter() -> tuple[Typesetter, dict[str, Symbol]]:
    book = Book()
    symbols = {}
    for rank, (letter, value) in enumerate({"a": 3, "b": 5, "c": 1000000}.items()):
        symbols[letter] = Symbol(letter, positive=True)
        book.notation[symbols[letter]] = Notation(symbols[letter], letter, letter, rank)
        symbols[letter + "_value"] = value
    case = Case({symbols[k]: symbols[k + "_value"] for k in "abc"}, {}, {})
    return Typesetter(Evaluation(case, book)), symbols


@pytest.mark.parametrize(
    ("build", "latex", "text", "numbers"),
    [
        (lambda a, b, c: c * b * a, r"a\,b\,c", "a · b · c", "3 × 5 × 1,000,000"),
        (lambda a, b, c: a - b, "a - b", "a − b", "3 − 5"),
        (lambda a, b, c: (a + b) * c, r"c\,\left(a + b\right)", "c · (a + b)", None),
        (lambda a, b, c: -a * b, r"-a\,b", "−a · b", "−3 × 5"),
        (lambda a, b, c: 1 - a / b, r"1 - \frac{a}{b}", "1 − a / b", "1 − 3 / 5"),
        (lambda a, b, c: a - 1, "a - 1", "a − 1", "3 − 1"),
        (lambda a, b, c: make_fraction(3, 2) * a, r"\frac{3\,a}{2}", "3 · a / 2", None),
        (lambda a, b, c: (a + b) ** 2, r"\left(a + b\right)^{2}", "(a + b)^2", "(3 + 5)^2"),
        (lambda a, b, c: a / (b * c), r"\frac{a}{b\,c}", "a / (b · c)", None),
        (lambda a, b, c: ceil(a), r"\left\lceil a \right\rceil", "⌈a⌉", "⌈3⌉"),
        (lambda a, b, c: maximum(b, a), r"\max\left(a, b\right)", "max(a, b)", "max(3, 5)"),
        (lambda a, b, c: make_number(7) + 0 * a, "7", "7", "7"),
    ],
    ids=range(12),
)
def test_small_expressions(
    setter: tuple[Typesetter, dict[str, Symbol]],
    build: object,
    latex: str,
    text: str,
    numbers: str | None,
) -> None:
    typesetter, symbols = setter
    expression = to_canonical(build(symbols["a"], symbols["b"], symbols["c"]))  # type: ignore[operator]
    box = typesetter.box(expression, {})
    assert LATEX.write(box) == latex
    assert TEXT.write(box) == text
    if numbers is not None:
        assert TEXT.write(typesetter.box(expression, {}, numbers=True)) == numbers
