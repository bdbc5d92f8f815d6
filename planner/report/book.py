"""The book of formulas as a page of the documentation: every formula, by id.

`python -m planner.report.book` prints docs/formulas.md; the site prints the same with MathML.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.quantity import BOOK, Formula, Notation, Quantity
from planner.engine.evaluate import Case, Evaluation
from planner.typeset import LATEX, MATHML, Box, Typesetter

HEAD = """\
# Formulas

Every quantity of the program, printed from the declarations that it computes with:
{quantities} quantities, {formulas} formulas.
Of several formulas of one quantity exactly one holds; the settings under which it does stand above
it. A quantity *per* layer kind, block or component has a value for each; Σ runs over them.
An estimate says so, all else is exact. `plan.py explain PLAN.yaml ID` prints the same with the
numbers of a plan put in.

This page is made by `python -m planner.report.book`; edit planner/book/formulas instead.
"""

TITLES = {
    "parameters": "Parameters",
    "compute": "FLOPs",
    "layout": "Layout",
    "memory": "Memory",
    "network": "Network",
    "time": "Time",
    "cost": "Cost",
    "energy": "Energy",
    "checkpoint": "Checkpoints",
    "scaling": "Scaling laws",
    "optimal": "Compute-optimal training",
}


def page(mathml: bool = False) -> str:
    """The whole page in Markdown, its formulas in LaTeX for GitHub or in MathML for a browser."""
    setter = Typesetter(Evaluation(Case({}, {}, {})))
    found = sorted(BOOK.quantities.items(), key=lambda item: _order(item[0]))
    lines = HEAD.format(
        quantities=len(found), formulas=sum(1 for _ in BOOK.formulas())
    ).splitlines()
    for prefix, group in groupby(found, key=lambda item: item[0].split(".")[0]):
        lines += ["", f"## {TITLES.get(prefix, prefix.capitalize())}"]
        for _, quantity in group:
            lines += _quantity(quantity, setter, mathml)
    lines += ["", "## Symbols", "", "| symbol | meaning | unit | key |"]
    lines.append("| --- | --- | --- | --- |")
    lines += [_symbol(note, setter, mathml) for note in BOOK.notation.values()]
    return "\n".join(lines) + "\n"


def _order(identifier: str) -> int:
    """Sections in the order of TITLES; within one, the order of the book (sorting is stable)."""
    names = list(TITLES)
    prefix = identifier.split(".")[0]
    return names.index(prefix) if prefix in names else len(names)


def _quantity(quantity: Quantity, setter: Typesetter, mathml: bool) -> Iterator[str]:
    per = f", per {' and '.join(quantity.per)}" if quantity.per else ""
    yield from (
        "",
        f'<a id="{quantity.id}"></a>',
        "",
        f"### {quantity.id}",
        "",
        f"{_sentence(quantity.title)} In {_unit(quantity.unit)}{per}.",
    )
    name = setter.name(quantity.symbol)
    for formula in quantity.formulas:
        box = setter.symbolic(formula.expression, None)
        if formula.when:
            yield from ("", f"**Where** {_where(formula.when)}:")
        yield from ("", *_display(name, box, mathml), "", f"{_sentence(formula.why)}")
        notes = [] if formula.exact else ["An estimate."]
        used = _uses(formula)
        if used:
            links = ", ".join(f"[{other}](#{other})" for other in used)
            notes.append(f"Uses {links}.")
        notes.append(f"Source: {_sentence(formula.source)}")
        yield from ("", " ".join(notes))


def _display(name: Box, box: Box, mathml: bool) -> list[str]:
    if mathml:
        left, right = MATHML.write(name), MATHML.write(box)
        return [f'<math display="block"><mrow>{left}<mo>=</mo>{right}</mrow></math>']
    return ["```math", f"{LATEX.write(name)} = {LATEX.write(box)}", "```"]


def _symbol(note: Notation, setter: Typesetter, mathml: bool) -> str:
    name = setter.name(note.symbol)
    shown = f"<math>{MATHML.write(name)}</math>" if mathml else f"$`{LATEX.write(name)}`$"
    key = f"`{note.key}`" if note.key else ""
    return f"| {shown} | {_cell(note.meaning)} | {_unit(note.unit)} | {key} |"


def _uses(formula: Formula) -> list[str]:
    """The quantities in a formula, in the order of the book."""
    symbols = formula.expression.symbols
    return [name for symbol, name in BOOK.symbols.items() if symbol in symbols]


def _where(when: Any) -> str:
    return "; ".join(f"`{key}` is {_values(value)}" for key, value in when.items())


def _values(value: Any) -> str:
    values: Iterable[Any] = value if isinstance(value, (tuple, list, set, frozenset)) else (value,)
    words = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
    return " or ".join(f"`{word}`" for word in words)


def _unit(unit: str) -> str:
    return {"1": "no unit", "–": "words"}.get(unit, unit)


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
