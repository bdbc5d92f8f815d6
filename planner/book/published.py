"""Equations of papers, as they print them, in the symbols of the notation.

Whether a plan's quantity is one of them is decided by algebra: its closed form less the equation is
nought (``results/closed_form.py``). The equations assume what their papers do: a GPT block, of
which the feed-forward is four times as wide as the rest and every head has its own keys, so that
a_kv = a, d_h = h/a and f = 4h. Bytes of an element are numbers here, 2 of a 16-bit value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.base import resources
from planner.book import sources
from planner.book.expressions import Expression, Symbol, make_number
from planner.book.formula_text import FormulaTerm, make_term, parse_formula, resolve_name
from planner.book.formulas.memory_states import trained
from planner.book.formulas.network import RING
from planner.book.language import Sum
from planner.book.notation import copies_on_stage
from planner.book.quantity import BOOK, Notation


class Equation(NamedTuple):
    """A published equation of some quantities.

    ``besides`` is a term that the paper omits and the book has, with the words for it. ``remark``
    explains how to read the equation.
    """

    quantities: tuple[str, ...]
    source: str
    value: Expression
    besides: tuple[Expression, str] = (make_number(0), "")
    remark: str = ""


#: The letter of the ZeRO paper: the trained parameters of a device of a stage.
Psi = Symbol("Psi", positive=True)
PARAMETERS = Notation(
    Psi,
    "parameters that one tensor and expert rank of the stage trains",
    r"\Psi",
    len(BOOK.notation),
    per=("stage",),
    unit="parameters",
)
#: Its value on a stage.
OF_STAGE = Sum(copies_on_stage * trained, "component")


def _resolve_name(name: str, at: int) -> FormulaTerm:
    """Return the term of a symbol, also of the papers' own, or of a quantity."""
    return make_term(Psi, "1") if name == Psi.name else resolve_name(name, at)


def _read_equation(row: Mapping[str, Any]) -> Equation:
    """Read a row of published.yaml."""
    paper = {**vars(sources), "RING": RING}[row["paper"]]
    omitted, words = row.get("besides", ("0", ""))
    value, besides = (parse_formula(text, _resolve_name).tree for text in (row["value"], omitted))
    remark = row.get("remark", "")
    return Equation(tuple(row["of"]), paper + row["where"], value, (besides, words), remark)


#: Of similar equations the simplest comes first.
EQUATIONS = tuple(map(_read_equation, resources.load_beside(__file__)))
