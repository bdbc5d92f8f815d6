"""The book of formulas as a page of the documentation: every formula, by id.

`python -m planner.report.book` prints docs/formulas.md; the site prints the same with MathML.
"""

from __future__ import annotations

import sys

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.quantity import BOOK
from planner.engine.evaluate import Case, Evaluation
from planner.report.derivations import either
from planner.report.layout import by_prefix, prefix
from planner.report.report import words
from planner.typeset import Typesetter

#: Sections in their order.
SECTIONS = (
    "parameters", "compute", "layout", "memory", "network", "time", "cost", "energy", "checkpoint",
    "scaling", "optimal",
)  # fmt: skip
#: What a section is called here, where it is not what it is called in reports.
TITLES = {"compute": "FLOPs"}


def page(mathml: bool = False) -> str:
    """The whole page in Markdown, its formulas in LaTeX for GitHub or in MathML for a browser."""
    order = {start: place for place, start in enumerate(SECTIONS)}
    # Within a section, the order of the book.
    found = sorted(BOOK.quantities.values(), key=lambda q: order.get(prefix(q.id), len(order)))
    return words(
        "formulas.md.jinja",
        mathml=mathml,
        quantities=found,
        count=sum(1 for _ in BOOK.formulas()),
        sections=[(TITLES.get(start, title), group) for start, title, group in by_prefix(found)],
        notation=BOOK.notation.values(),
        setter=Typesetter(Evaluation(Case({}, {}, {}))),
        symbols=BOOK.symbols,
        either=either,
        sentence=_sentence,
        cell=_cell,
        units={"1": "no unit", "–": "words"},
    )


def _sentence(text: str) -> str:
    text = _cell(" ".join(text.split()))
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def _cell(text: str) -> str:
    """Text that Markdown and HTML leave alone."""
    for char in "\\`*_[]|":
        text = text.replace(char, "\\" + char)
    return text.replace("<", "&lt;").replace(">", "&gt;")


if __name__ == "__main__":
    sys.stdout.write(page())
