"""One plan as a program: its document, the facts that its rules look up, and the engine.

The program completes the plan for other values of its keys, lowers its quantities to the one graph
and runs that: all of it the planner's own Python, translated. What is read from files is data in
it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.book import expressions
from planner.book.canonical import canonical
from planner.book.expressions import Expression
from planner.book.quantity import BOOK, Book, Formula, Notation, Quantity
from planner.engine import flop_conventions, instance, scaling_laws
from planner.engine.evaluate import Evaluation
from planner.engine.graph import UNKNOWN
from planner.engine.lower import Absent
from planner.engine.run import run, tidy
from planner.plans import error_bands, hardware, kernels, model, plan, schedules, shapes
from planner.plans.document import Plan
from planner.report.facts import unborne
from planner.report.what_if import controls
from planner.report.what_if.rules import Program, literal, quoted
from planner.results import intervals
from planner.results.result import Result
from planner.typeset import TEXT, Typesetter

#: Keys that no rule reads.
LEFT_OUT = frozenset({"sources", "source"})
#: What the page makes, and asks of an evaluation.
ASKED: tuple[type | str, ...] = (*Evaluation.__mro__, "value", "compute", "instance", "entries")
#: What rules and evaluation ask of the rows of the book.
ROWS = {
    Formula: "when expression exact",
    Quantity: "id symbol unit per stacked within beyond share scales_with reading formulas",
    Notation: "symbol key per kind neutral meaning",
}
#: What is there in JavaScript: exceptions, numbers, expressions, and the graph's back end.
LIBRARY: dict[Any, str] = {
    Fault: "$.Fault",
    PlanError: "$.PlanError",
    Absent: "$.Absent",
    TypeError: "TypeError",
    KeyError: "$.Never",
    ZeroDivisionError: "$.Never",
    Mapping: "$.Dict",
    Fraction: "$.ratio",
    accumulate: "$.accumulate",
    UNKNOWN: "$.UNKNOWN",
    replace: "$.replace",
    Expression: "$.Tree",
    expressions.number: "(value=>value)",
    expressions.add: '((...terms)=>$.operation("add",...terms))',
    canonical: "(tree=>tree)",
    run: "GRAPH.run",
    tidy: "(value=>value)",
    # What laws and conventions say stands in the report; no control asks for it.
    scaling_laws.axis: "(()=>[])",
    flop_conventions.axis: "(()=>[])",
    hardware._value: '(fact=>$.at(fact,"value"))',
    BOOK: "BOOK",
    plan.book: "(()=>BOOK)",  # that of the page's plan
    # No page moves a plan whose schedule is one's own.
    schedules.adopt: "(()=>null)",
    schedules.check: "(()=>null)",
    schedules.alive: "(()=>null)",
    schedules.returns: "(()=>false)",
}


def program(result: Result, sums: Iterable[str]) -> str:
    """JavaScript that defines ``planned(changes)``, an evaluation of the changed plan.

    ``TERMS`` has the terms of ``sums``, under the titles of the quantities that they are.

    Raises:
        Untranslated: a rule says something that has no JavaScript yet.
    """
    facts = _facts(result.plan)
    given = {**LIBRARY, **{read: f"FACTS.{read.__name__}" for read in facts}}
    if result.plan.model is None:
        given[model.lower] = "(()=>null)"
    rules = Program(given, ASKED)
    used = (plan.complete, instance.build, Evaluation, intervals.around, unborne)
    complete, build, evaluation, around, warning = map(rules.reference, used)
    offered = controls.accelerators() if controls.accelerator_of(result.plan) else {}
    tables = ",".join(f"{read.__name__}:{text}" for read, text in facts.items())
    lines = (
        f"const DOCUMENT={literal(_without(result.plan.document.data))};",
        f"const ACCELERATORS={literal(_without(offered))};",
        f"const FACTS={{{tables}}};",
        _book(rules, result.plan.book),
        f"const TERMS={_terms(rules, result.typesetter, sums)};",
        f"const intervalOf={around};",
        f"const warningOf={warning};",
        f"const planned=changes=>new {evaluation}({build}({complete}(changedDocument(changes))));",
    )
    return "\n".join((rules.text(), *lines))


def _facts(made: Plan) -> dict[Callable[..., Any], str]:
    """What functions of the planner read from files, as functions that have it."""
    given = made.document.data["training"].get("implementation")
    names = [given] if given else ["megatron", "pytorch"]
    offered = controls.accelerators().values() if controls.accelerator_of(made) else ()
    devices = (*offered, made.data["cluster"]["accelerator"])
    read: dict[Callable[..., Any], Any] = {
        kernels.load: {name: kernels.load(name) for name in names},
        shapes._constants: {kind: shapes._constants(kind) for kind in shapes._COMPLETE},
        hardware.measured: {one["name"]: _exact(hardware.measured(one)) for one in devices},
        hardware.calibration: _exact(hardware.calibration()),
        hardware.elements: hardware.elements(),
        error_bands.above: error_bands.above(),
        error_bands.kinds: error_bands.kinds(),
        error_bands.memory: error_bands.memory(),
    }
    return {function: f"$.table({literal(value)})" for function, value in read.items()}


def _without(node: Any) -> Any:
    if isinstance(node, Mapping):
        return {k: _without(v) for k, v in node.items() if k not in LEFT_OUT}
    return [_without(item) for item in node] if isinstance(node, list) else node


def _exact(node: Any) -> Any:
    """Facts whose values are read as hardware.py reads them: `26 us` is a number of seconds."""
    if isinstance(node, Mapping):
        unit = "bytes/s" if str(node.get("value")).endswith("/s") else "s"
        value = {"value": hardware._value(node, unit)} if "value" in node else {}
        return {k: _exact(v) for k, v in node.items()} | value
    return node


def _book(rules: Program, book: Book) -> str:
    """The book of a plan, as far as rules and evaluation ask it, and what makes its rows."""

    def written(value: Any) -> str:
        kind = next((cls for cls in type(value).__mro__ if cls in ROWS), None)
        if kind is None:
            return rules.reference(value)
        fields = (literal(getattr(value, name), written) for name in ROWS[kind].split())
        return f"{kind.__name__}({','.join(fields)})"

    makers = (
        f"const {cls.__name__}=$.row({rules.reference(cls)},{quoted(names.split())});"
        for cls, names in ROWS.items()
    )
    rows = (literal([*table.values()], written) for table in (book.quantities, book.notation))
    return f"{''.join(makers)}const BOOK=$.book({rules.reference(Book)},{','.join(rows)});"


def _terms(rules: Program, typesetter: Typesetter, sums: Iterable[str]) -> str:
    """The labelled summands of sums, by their expressions."""
    found = []
    for formula in (formula for name in sums for formula in BOOK.quantities[name].formulas):
        expression = formula.expression
        while expression.op in ("ceil", "floor"):
            expression = expression.args[0]
        if expression.op == "add":
            terms = []
            for term in typesetter.terms(expression):
                named = BOOK.quantities.get(BOOK.carrier(term, formula.quantity.unit) or "")
                label = named and (named.short or named.title)
                label = label or TEXT.write(typesetter.box(term, None))
                terms.append(f"[{quoted(label)},{rules.tree(term)}]")
            found.append(f"[{rules.tree(expression)},[{','.join(terms)}]]")
    return f"new Map([{','.join(found)}])"
