"""One plan as a program: its document, its rules and its formulas in JavaScript.

The program recomputes the plan for other values of its keys. What no key of training, layout,
cluster or time can change (the model's parts, blocks and components) is written out as data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.book.expressions import REDUCTIONS, Symbol
from planner.book.quantity import BOOK, Formula
from planner.engine import (
    flop_conventions as conventions,
)
from planner.engine import (
    instance as case,
)
from planner.engine import (
    matmuls as products,
)
from planner.engine import (
    scaling_laws as laws,
)
from planner.engine.evaluate import Absent, Entry
from planner.plans import error_bands as bands
from planner.plans import hardware, model, plan, shapes
from planner.plans import kernels as profile
from planner.plans.document import Plan
from planner.report.what_if import accelerators
from planner.report.what_if.rules import Program
from planner.report.what_if.words import Formulas, literal, quoted
from planner.results import intervals
from planner.results.result import Result
from planner.typeset import TEXT, Typesetter

__all__ = ["program"]

#: Axes of the model, which stay as they are whatever the layout; the others follow from rules.
FIXED = ("part", "block", "component", "product")
#: Keys that no rule reads.
LEFT_OUT = frozenset({"sources", "source"})


def program(result: Result, wanted: Iterable[str], sums: Iterable[str]) -> str:
    """JavaScript that defines ``planned(changes)``, an evaluation of the changed plan.

    ``wanted`` are the quantities that it can evaluate; those of ``sums`` know their terms,
    under the titles of the quantities that they are.

    Raises:
        Untranslated: a rule or a formula says something that has no JavaScript yet.
    """
    formulas = Formulas(BOOK)
    rules = Program(
        formulas,
        {
            **({} if result.plan.model is not None else {model.lower: "(()=>null)"}),
            shapes._constants: "blockDefaults",
            case._model_axes: "modelAxes",
            products.axis: "productAxis",
            # What laws and conventions say stands in the report; no control asks for it.
            laws.axis: "(()=>[])",
            conventions.axis: "(()=>[])",
            profile.load: "profileOf",
            hardware.calibration: "calibration",
            hardware.measured: "measured",
            bands.above: "above",
            # Which runs a plan is held against follows from what no control changes, and from the
            # accelerator.
            intervals.basis: "basis",
            intervals.scales_with: "scalesWith",
            intervals.known: "known",
            hardware._value: '(fact=>$.at(fact,"value"))',
            BOOK: "NOTES",
            Fault: "$.Fault",
            PlanError: "$.PlanError",
            Absent: "$.Absent",
            Fraction: "$.ratio",
            accumulate: "$.accumulate",
        },
    )
    complete = rules.reference(plan.complete, "complete", "planner.plans.plan")
    build = rules.reference(case.build, "build", "planner.engine.instance")
    around = rules.reference(intervals.around, "around", "planner.results.intervals")
    entry = rules.reference(Entry, "Entry", "planner.engine.evaluate")
    fixed = _fixed(result, formulas, entry)
    errors = _errors(result)
    wanted = [*wanted, *(name for quantity in wanted for name in intervals.rests_on(quantity))]
    book = _book(formulas, result.typesetter, wanted, frozenset(sums))
    return "\n".join(
        (
            _notes(),
            formulas.shared(),
            rules.text(),
            _facts(result.plan),
            fixed,
            errors,
            book,
            f"const intervalOf={around};",
            "const planned=changes=>"
            f"new Evaluation({build}({complete}(changedDocument(changes))));",
        )
    )


def _notes() -> str:
    """The notation, as far as rules and evaluation ask it."""
    notes = (
        f"[$.sym({quoted(note.symbol.name)}),{{symbol:$.sym({quoted(note.symbol.name)}),"
        f"key:{literal(note.key)},per:{literal(note.per)},kind:{literal(note.kind)},"
        f"neutral:{literal(note.neutral)},meaning:{quoted(note.meaning)}}}]"
        for note in BOOK.notation.values()
    )
    crossed = {n.symbol.name: n.per for n in BOOK.notation.values() if len(n.per) == 2}
    pairs = (f"{quoted(name)}:{literal(per)}" for name, per in crossed.items())
    return (
        f"const NOTES={{notation:new $.Dict([{','.join(notes)}])}};\n"
        f"const CROSSED={{{','.join(pairs)}}};"
    )


def _facts(made: Plan) -> str:
    """The document, and the fact sheets that its rules look up."""
    data = made.document.data
    given = made.document.data["training"].get("implementation")
    names = [given] if given else ["megatron", "pytorch"]
    sheets = {name: profile.load(name) for name in names}
    accelerator = made.data["cluster"]["accelerator"]
    offered = accelerators.presets() if accelerators.name_of(made) else {}
    offered = {name: _without(data) for name, data in offered.items()}
    shares = {
        one["name"]: _exact(hardware.measured(one)) for one in (*offered.values(), accelerator)
    }
    kinds = sorted(shapes._COMPLETE)
    return "\n".join(
        (
            f"const DOCUMENT={literal(_without(data))};",
            f"const PROFILES={literal(sheets)};",
            "const profileOf=name=>$.at(PROFILES,name);",
            f"const CALIBRATION={literal(_exact(hardware.calibration()))};",
            "const calibration=()=>CALIBRATION;",
            f"const above=()=>{literal(bands.above())};",
            f"const MEASURED={literal(shares)};",
            'const measured=accelerator=>$.at(MEASURED,accelerator.get("name"));',
            f"const ACCELERATORS={literal(offered)};",
            f"const BLOCK_DEFAULTS={literal({kind: shapes._constants(kind) for kind in kinds})};",
            "const blockDefaults=kind=>$.at(BLOCK_DEFAULTS,kind);",
        )
    )


def _errors(result: Result) -> str:
    """What intervals rest on: how far predictions were off."""
    settings = result.evaluation.case.settings
    known = accelerators.presets() if accelerators.name_of(result.plan) else {}
    own = settings.get("cluster.accelerator.architecture")
    kinds = {own, *(data.get("architecture") for data in known.values())}
    times = {
        str(kind): bands.of_settings(
            {**settings, "time.assumed": False, "cluster.accelerator.architecture": kind}
        )
        for kind in kinds
    }
    scaling = {i: found for i in BOOK.quantities if (found := intervals.scales_with(i))}
    read = [intervals.HEADROOM, *(name for name, how in scaling.items() if how == "memory")]
    readings = {name: intervals.basis(name, settings) for name in read}
    return "\n".join(
        (
            "const known=(name,e)=>{try{return e.value(name,{});}catch(error)"
            "{if(error instanceof $.Absent)return 0;throw error;}};",
            f"const TIMES={_shares(times)},READINGS={_shares(readings)};",
            f"const SCALING={literal(scaling)},scalesWith=id=>SCALING.get(id)??'';",
            "const basis=(id,settings)=>id in READINGS?READINGS[id]"
            ":scalesWith(id)==='memory'?null"
            ":!scalesWith(id)||settings.get('time.assumed')!==false?null"
            ":TIMES[settings.get('cluster.accelerator.architecture')??'None']??null;",
        )
    )


def _shares(found: Mapping[str, bands.Basis | None]) -> str:
    """How far measured values were from predicted ones, by name."""
    pairs = (
        f"{quoted(name)}:{{low:{literal(one.low)},high:{literal(one.high)}}}"
        for name, one in sorted(found.items())
        if one is not None
    )
    return f"{{{','.join(pairs)}}}"


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


def _of_blocks() -> list[tuple[str, ...]]:
    """Symbols of blocks, with the kind and the key that they are values of."""
    return [
        (note.symbol.name, *note.key.split(".", 1))
        for note in BOOK.notation.values()
        if note.per == ("block",) and note.key
    ]


def _fixed(result: Result, formulas: Formulas, entry: str) -> str:
    """The entries of the fixed axes, each with its parent."""
    names: dict[Entry, str] = {}
    lines = []

    def write(value: Any) -> str:
        if isinstance(value, Absent):
            return f"new $.Absent({quoted(value.reason)})"
        return formulas.bound(value)

    for axis in FIXED:
        entries = result.evaluation.case.axes[axis]
        if isinstance(entries, Absent):
            return "const AXES={},ENTRY=null,OF_BLOCKS=[];"
        made = []
        for number, one in enumerate(entries):
            names[one] = f"AXES.{axis}[{number}]"
            made.append(
                f"new {entry}({literal(axis)},{literal(one.name)},{literal(one.title)},"
                f"{names[one.parent] if one.parent else 'null'},"
                f"{literal(one.bindings, write)},{literal(one.settings)})"
            )
        lines.append(f"AXES.{axis}=[{','.join(made)}];")
    return "\n".join(
        (
            "const AXES={};",
            *lines,
            f"const ENTRY=(...given)=>new {entry}(...given);",
            f"const OF_BLOCKS={literal(_of_blocks())};",
        )
    )


def _book(
    formulas: Formulas,
    typesetter: Typesetter,
    wanted: Iterable[str],
    sums: frozenset[str],
) -> str:
    """Every formula that a wanted quantity may come to need, under its conditions."""
    lines, done = [], set()
    waiting = [*wanted, *formulas.used]
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        done.add(name)
        found = BOOK.quantities[name]
        made = []
        for formula in found.formulas:
            text = _formula(formulas, formula)
            if name in sums:
                text += ",terms:" + _terms(formulas, typesetter, formula)
            made.append(f"{{{text}}}")
        lines.append(f"{quoted(name)}:{{per:{literal(found.per)},formulas:[{','.join(made)}]}}")
        waiting += [used for used in formulas.used if used not in done]
    return "const BOOK={\n" + ",\n".join(lines) + "\n};"


def _formula(formulas: Formulas, formula: Formula) -> str:
    when = {
        key: list(wanted) if isinstance(wanted, (tuple, set, frozenset)) else [wanted]
        for key, wanted in formula.when.items()
    }
    pairs = ",".join(f"[{quoted(key)},{literal(wanted)}]" for key, wanted in when.items())
    exact = literal(formula.exact)
    return f"when:[{pairs}],exact:{exact},run:(e,p)=>{formulas.write(formula.expression)}"


def _terms(formulas: Formulas, typesetter: Typesetter, of: Formula) -> str:
    """The summands of a sum: of each, its label and its value."""
    expression = of.expression
    while expression.op in ("ceil", "floor"):
        expression = expression.args[0]
    if expression.op == "total":
        return (
            f"(e,p)=>e.entries({quoted(expression.axis)},{formulas.where(expression)},p)"
            f".map(p=>[p[{quoted(expression.axis)}].title,{formulas.write(expression.body)}])"
        )
    if expression.op != "add":
        return "()=>[]"
    terms = (
        f"[{quoted(_label(typesetter, term, of.quantity.unit))},{formulas.write(term)}]"
        for term in typesetter.terms(expression)
    )
    return f"(e,p)=>[{','.join(terms)}]"


def _carrier(term: Any, unit: str) -> str | None:
    """The quantity that a term is, or is a multiple of, as planner.results.evaluated finds it."""
    factors = term.args if term.op == "mul" else (term,)
    ids = [BOOK.symbols[f] for f in factors if isinstance(f, Symbol) and f in BOOK.symbols]
    if len(ids) > 1:
        ids = [i for i in ids if BOOK.quantities[i].unit == unit]
    plain = not any(f.op == "add" or f.op in REDUCTIONS for f in factors)
    return ids[0] if len(ids) == 1 and plain else None


def _label(typesetter: Typesetter, term: Any, unit: str) -> str:
    carrier = _carrier(term, unit)
    if carrier is None:
        return TEXT.write(typesetter.symbolic(term, None))
    return BOOK.quantities[carrier].short or BOOK.quantities[carrier].title
