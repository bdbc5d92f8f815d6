"""The book of formulas as pages of the documentation: every formula, by chapter and id.

The repository holds them with LaTeX, which GitHub draws; the site prints the same with MathML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.quantity import BOOK, Quantity
from planner.engine.evaluate import Case, Evaluation
from planner.report.derivations import format_options
from planner.report.report import render_md
from planner.typeset.typesetter import Typesetter

#: What units are called that are none.
UNITS = {"1": "no unit", "–": "words"}


class Chapter(NamedTuple):
    """A page of formulas, and how the ids begin that stand there and in no chapter that says more
    of them."""

    title: str
    beginnings: tuple[str, ...]
    quantities: list[Quantity]


def _chapter(title: str, *beginnings: str) -> Chapter:
    return Chapter(title, beginnings, [])


def chapters() -> dict[str, Chapter]:
    """The chapters that have quantities, by the name of their file, in their order."""
    found = {
        "parameters": _chapter("Parameters", "parameters"),
        "flops": _chapter("FLOPs", "compute"),
        "layout": _chapter("Layout", "layout"),
        "memory": _chapter("Memory", "memory"),
        "memory_activations": _chapter("Memory of activations", "memory.activations"),
        "network": _chapter("Network", "network"),
        "time_products": _chapter("Time of products", "time.peak", "time.product", "time.core"),
        "time_passes": _chapter(
            "Time of passes", "time.elementwise", "time.permutation", "time.exchange", "time.part",
            "time.block", "time.stage", "time.model", "time.forward", "time.backward",
        ),
        "time_optimizer": _chapter(
            "Time of the optimizer", "time.update", "time.orthogonal", "time.momentum",
            "time.optimizer", "time.parameters",
        ),
        "time_serving": _chapter("Time of serving", "time.prefill", "time.decode", "time.latency"),
        "time": _chapter("Time of steps and runs", "time"),
        "cost": _chapter("Cost", "cost"),
        "energy": _chapter("Energy", "energy"),
        "checkpoints": _chapter("Checkpoints", "checkpoint"),
        "scaling": _chapter("Scaling laws and optimal training", "scaling", "optimal"),
        "roofline": _chapter("Roofline", "roofline"),
        "reinforcement": _chapter("Reinforcement learning", "rl"),
        "further": _chapter("Further", ""),
    }  # fmt: skip
    begun = {beginning: each for each in found.values() for beginning in each.beginnings}
    for quantity in BOOK.quantities.values():  # in the order of the book
        begun[max(filter(quantity.id.startswith, begun), key=len)].quantities.append(quantity)
    return {file: each for file, each in found.items() if each.quantities}


def pages(mathml: bool = False) -> dict[str, str]:
    """The pages in Markdown by their path, ``formulas.md`` the list of all quantities; formulas in
    LaTeX for GitHub or in MathML for a browser."""
    every, setter = chapters(), Typesetter(Evaluation(Case({}, {}, {})))
    of = {quantity.id: file for file, each in every.items() for quantity in each.quantities}
    chapters_shown = {
        file: {"title": each.title, "quantities": [_shown(q, of, setter) for q in each.quantities]}
        for file, each in every.items()
    }
    count, formulas = len(BOOK.quantities), sum(1 for _ in BOOK.list_formulas())
    notation = [
        {
            "name": setter.make_name(note.symbol),
            "meaning": _cell(note.meaning),
            "unit": UNITS.get(note.unit, note.unit),
            "key": note.key,
        }
        for note in BOOK.notation.values()
    ]
    return {
        "formulas.md": render_md(
            "formulas/index.md.jinja", chapters=chapters_shown, count=count, formulas=formulas
        ),
        "formulas/symbols.md": render_md(
            "formulas/symbols.md.jinja", notation=notation, mathml=mathml
        ),
        **{
            f"formulas/{file}.md": render_md(
                "formulas/chapter.md.jinja", file=file, chapter=chapter, mathml=mathml
            )
            for file, chapter in chapters_shown.items()
        },
    }


def _shown(quantity: Quantity, of: Mapping[str, str], setter: Typesetter) -> dict[str, Any]:
    """What the template reads of a quantity; ``of`` are the files of all by their ids."""
    return {
        "id": quantity.id,
        "cell": _cell(quantity.id),
        "title": _cell(quantity.title),
        "sentence": _sentence(quantity.title),
        "unit": UNITS.get(quantity.unit, quantity.unit),
        "per": quantity.per,
        "name": setter.make_name(quantity.symbol),
        "formulas": [
            {
                "when": [
                    (key, f"`{format_options(value).replace(' or ', '` or `')}`")
                    for key, value in formula.when.items()
                ],
                "box": setter.box(formula.expression, None),
                "why": _sentence(formula.why),
                "exact": formula.exact,
                "source": _sentence(formula.source),
                "uses": [
                    {"id": used, "cell": _cell(used), "file": of[used]}
                    for symbol, used in BOOK.symbols.items()
                    if symbol in formula.expression.symbols
                ],
            }
            for formula in quantity.formulas
        ],
    }


def _sentence(text: str) -> str:
    text = _cell(" ".join(text.split()))
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else text + "."


def _cell(text: str) -> str:
    """Text that Markdown and HTML leave alone."""
    for char in "\\`*_[]|":
        text = text.replace(char, "\\" + char)
    return text.replace("<", "&lt;").replace(">", "&gt;")
