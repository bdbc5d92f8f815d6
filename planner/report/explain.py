"""The derivation of one quantity for a terminal: formula, numbers, result, and what it rests on,
two levels deep by default; or its closed form; or all quantities that begin alike."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from planner.base.display import flow
from planner.base.errors import Fault, PlanError
from planner.book.expressions import Symbol
from planner.book.quantity import KINDS, Notation
from planner.report.derivations import inputs_of
from planner.report.facts import brief, left_open, with_interval
from planner.report.numbers import PLAIN, Data, clean, column, exactly, shown
from planner.results.closed_form import Basic, closed_form
from planner.results.collapse import LETTERS
from planner.results.lookup import input_called, is_pattern, look_up, matching
from planner.results.result import Quantity, Result
from planner.typeset import TEXT, parse

WIDTH, INDENT = 80, 5
#: Levels that are shown: a quantity, and what it rests on.
DEPTH = 2
#: Instances of one formula below one quantity up to which each stands alone.
MANY = 3
SHORT = 16  # characters of a value in a list that others are aligned with
LONG = 24  # characters of a value or an id that others are aligned with


class Row(NamedTuple):
    """What a formula uses: its name, its value, its id or key, how it is known or who said it."""

    name: str
    value: str
    id: str
    known: str
    quantity: Quantity | None = None


def explain(result: Result, asked: str, depth: int | None = DEPTH, symbolic: bool = False) -> str:
    """How a quantity is made; what begins like the text, or fits it, where it ends in a dot or has
    a ``*``.

    Args:
        asked: an id, its end or beginning, a label, a symbol.
        depth: levels shown, 1 is itself only; None for all.
        symbolic: in the plan's basic symbols instead.

    Raises:
        PlanError: no quantity is called so, or several are; or a negative depth.
    """
    if depth is not None and depth < 0:
        raise PlanError(Fault(f"a depth of {depth}", None, "0 or more, or all"))
    if is_pattern(asked):
        return _listed(matching(result, asked))
    given = input_called(result, asked)
    if given is not None:
        return _input(result, given)
    quantity = look_up(result, asked)
    lines = _head(quantity)
    if quantity.absent is not None:
        lines += ["", f"  absent: {clean(quantity.absent)}"]
    elif symbolic:
        lines += ["", *_symbolic(quantity)]
    else:
        lines += ["", *_formula(quantity)]
        left = None if depth is None else max(0, depth - 1)
        below = _below(quantity, "", left, {quantity.id})
        lines += ["", *below] if below else []
        lines += _onwards(quantity, depth)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def as_data(
    result: Result, asked: str, depth: int | None = DEPTH, symbolic: bool = False
) -> dict[str, Any]:
    """The same as plain data: ``quantity``, each as in a result with the ``inputs`` of its formula,
    so many levels deep and each quantity once; or ``quantities`` that begin so, or an ``input``.

    Args, Raises:
        as ``explain``.
    """
    if depth is not None and depth < 0:
        raise PlanError(Fault(f"a depth of {depth}", None, "0 or more, or all"))
    if is_pattern(asked):
        return {"quantities": {one.id: _data(one, 0, set()) for one in matching(result, asked)}}
    given = input_called(result, asked)
    if given is not None:
        entry, (unit, meaning, users) = result.inputs[given], _of_key(result, given)
        about = {"key": given, "value": entry.value, "unit": unit, "title": meaning}
        return {"input": {**about, "origin": entry.origin, "used_by": users}}
    quantity = look_up(result, asked)
    left = None if depth is None else max(0, depth - 1)
    data = _data(quantity, 0 if symbolic else left, {quantity.id})
    found = closed_form(quantity) if symbolic else None
    if found is not None:
        data["closed_form"] = {
            "formula": TEXT.write(found.symbolic),
            "substituted": TEXT.write(found.numeric),
            "recognised": found.recognised,
            "terms": [
                {"label": term.label, "formula": TEXT.write(term.factor), "value": term.value}
                for term in found.terms
            ],
            "inputs": [
                {"symbol": TEXT.write(one.name), "value": one.value, "title": one.meaning}
                | ({"id": one.id} if one.id else {"origin": one.origin})
                for one in found.inputs
            ],
        }
    return {"quantity": data}


def _data(quantity: Quantity, depth: int | None, seen: set[str]) -> dict[str, Any]:
    """A quantity as plain data, with the inputs of its formula so many levels deep."""
    if quantity.absent is not None:
        return {"id": quantity.id, "title": quantity.title, "absent": quantity.absent}
    data = {"id": quantity.id, **quantity.to_json(users=False)}
    if depth == 0:
        return data
    deeper = depth if depth is None or _taken(quantity) else depth - 1
    data["inputs"] = []
    for row in _rows(quantity):
        used = row.quantity
        if used is None:
            one: dict[str, Any] = {
                "symbol": row.name,
                "key": row.id,
                "value": row.value,
                "origin": row.known,
            }
        elif used.id in seen:  # stands above
            one = {"id": used.id, "symbol": used.symbol, "value": used.value, "unit": used.unit}
        else:
            seen.add(used.id)
            one = _data(used, deeper, seen)
        data["inputs"].append(one)
    return data


def _listed(quantities: Sequence[Quantity]) -> str:
    """Ids with values and titles, as much of these as a line holds."""
    values = [_plain_value(one) for one in quantities]
    wide = max(len(one.id) for one in quantities)
    width = max((len(value) for value in values if len(value) <= SHORT), default=0)
    lines = [
        f"{one.id.ljust(wide)}  {value.rjust(width)}  {clean(one.title)}"
        for one, value in zip(quantities, values, strict=True)
    ]
    return "".join(f"{line if len(line) <= WIDTH else line[: WIDTH - 1] + '…'}\n" for line in lines)


def _input(result: Result, key: str) -> str:
    """An input: its value, its key, what it means, who decided it, and what uses it."""
    given, value = result.inputs[key], result.inputs[key].value
    unit, meaning, users = _of_key(result, key)
    if not isinstance(value, (int, Fraction)) or isinstance(value, bool):
        text = flow(value)
    else:
        text = exactly(value, "1") if unit in PLAIN else shown(value, unit)
    lines = _ended(f"{text}   {key}   {meaning}", clean(given.origin))
    if users:
        lines += ["", *_filled(f"used by {', '.join(users)}", "  ")]
    return "\n".join(lines) + "\n"


def _of_key(result: Result, key: str) -> tuple[str, str, list[str]]:
    """The unit of an input, what it means, and the quantities in whose formulas it is."""
    notes = [note for note in result.evaluation.book.notation.values() if note.dotted == key]
    symbols = {note.symbol for note in notes}
    users = dict.fromkeys(
        quantity.base
        for quantity in result.quantities.values()
        if any(used[0] in symbols for used in quantity.trace.uses)
    )
    unit = (notes[0].unit if notes else result.inputs[key].unit) or "1"
    return unit, clean(notes[0].meaning) if notes else "", list(users)


# -- the quantity itself ----------------------------------------------------------------------


def _value(quantity: Quantity) -> str:
    return with_interval(quantity) if quantity.absent is None else "absent"


def _head(quantity: Quantity) -> list[str]:
    """Value, id, title and kind on one line, or the title below."""
    kind = quantity.kind if quantity.absent is None else ""
    first, title = f"{_value(quantity)}   {quantity.id}", clean(quantity.title)
    if len(first) + len(title) + len(kind) + 6 <= WIDTH:
        return _ended(f"{first}   {title}", kind)
    return [*_ended(first, kind), *_filled(title, "")]


def _formula(quantity: Quantity) -> list[str]:
    """The closed form first, where it stands in inputs or is a published equation, with its numbers
    and the value in full; then `symbol = formula` and the numbers; why; whence; how sure."""
    value, found = exactly(quantity.value, quantity.unit), closed_form(quantity)
    steps, lines = [*_steps(quantity), value], []
    if found is not None and (found.recognised or all(_is_input(one) for one in found.inputs)):
        closed = [TEXT.write(found.symbolic), TEXT.write(found.numeric), value]
        lines = _equations(quantity, closed)
        if found.recognised:
            lines += _filled(f"Recognised: {clean(found.recognised, 2000)}", "  ")
        steps = [step for step in steps if step not in closed]
    if steps:
        lines += _equations(quantity, steps)
    lines += _filled(clean(quantity.why, 2000), "  ")
    lines += [f"  {line}" for line in _source(quantity, "source: ", WIDTH - 2)]
    if quantity.interval is not None:
        lines += _filled(f"in parentheses: {left_open(quantity.result, quantity.base)}", "  ")
    if quantity.predicted is not None:
        lines += [f"  predicted: {with_interval(quantity.predicted)}"]
    return lines


def _equations(quantity: Quantity, steps: Sequence[str]) -> list[str]:
    """`symbol = …`, each further step below; none that says the same as another."""
    name = quantity.symbol
    pad = " " * len(name)
    formula, *others = steps
    lines = _filled(f"{name} = {formula}", "  ", f"  {pad}   ")
    for step in others:
        if step not in (formula, others[-1].split(" ")[0]) or step is others[-1] != formula:
            lines += _filled(f"{pad} = {step}", "  ", f"  {pad}   ")
    return lines


def _is_input(basic: Basic) -> bool:
    """Whether a symbol is one of the document, or a size of its layout."""
    return basic.id is None or basic.id in LETTERS


#: Sources that say nothing of where a formula is from.
_NO_SOURCE = frozenset(("definition",))


def _source(quantity: Quantity, before: str = "", width: int = WIDTH) -> list[str]:
    """Where its formula is from, as lines; none where it says what the words mean."""
    if quantity.source in _NO_SOURCE:
        return []
    return textwrap.wrap(before + clean(quantity.source, 2000), max(width, WIDTH // 4))


def _numbers(quantity: Quantity) -> str:
    """The formula with numbers; of a sum over entries each with its name. Nothing where numbers of
    many entries would have no names."""
    formula, terms = quantity.chosen, quantity.terms
    if formula is not None and formula.expression.op == "total" and terms:
        unit, texts = column([term.value for term in terms], quantity.unit)
        named = zip(terms, texts, strict=True)
        summed = " + ".join(f"{clean(term.label)} {text}" for term, text in named)
        return f"{summed} {unit if unit not in (*PLAIN, 'parameters') else ''}".rstrip()
    return "" if _many(quantity) else quantity.substituted


def _many(quantity: Quantity) -> set[str]:
    """The quantities of which it uses many instances."""
    counted = Counter(used.base for used in quantity.uses)
    return {base for base, count in counted.items() if count > MANY}


# -- what it rests on -------------------------------------------------------------------------


def _below(quantity: Quantity, trunk: str, depth: int | None, seen: set[str]) -> list[str]:
    """The inputs, each with its own formula, and so many levels below."""
    if depth == 0:
        return []
    rows, compared = _rows(quantity), _compared(quantity)
    rows = [row for row in rows if row.quantity not in compared]
    lines = _of_compared(compared, trunk)
    many = _many(quantity) if depth == 1 else set()
    widths = [
        max((len(cell) for cell in cells if len(cell) <= LONG), default=0)
        for cells in zip(*(row[:3] for row in rows), strict=True)
    ]
    # Of many instances of one quantity the first stands for all.
    items: dict[str | int, Row] = {}
    for place, row in enumerate(rows):
        base = row.quantity.base if row.quantity is not None else ""
        items.setdefault(base if base in many else place, row)
    rows = [*items.values()]
    for row in rows:
        used = row.quantity
        branch, below = ("└─ ", "   ") if row is rows[-1] else ("├─ ", "│  ")
        if used is not None and used.base in many:
            group = [one for one in quantity.uses if one.base == used.base]
            lines += _group(group, trunk + branch, trunk + below)
            continue
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True))
        known = row.known if used is None or used.id not in seen else "above"
        lines += _ended(trunk + branch + cells, known, f"{trunk}{below}  ")
        if used is None or used.id in seen:
            continue
        seen.add(used.id)
        rest = f"{trunk}{below}  "
        lines += _short_formula(used, rest)
        # What only takes the largest of others is no level of its own.
        deeper = depth if depth is None or _taken(quantity) else depth - 1
        lines += _below(used, trunk + below, deeper, seen)
    return lines


def _taken(quantity: Quantity) -> Quantity | None:
    """Of several quantities the one whose value it is, as at a peak; None where it is none's."""
    formula = quantity.chosen
    if formula is None or formula.expression.op not in ("largest", "at_largest"):
        return None
    return next((used for used in quantity.uses[::-1] if used.value == quantity.value), None)


def _compared(quantity: Quantity) -> list[Quantity]:
    """Of what it takes one of, the others, by which that is decided."""
    taken = _taken(quantity)
    return [used for used in quantity.uses if used is not taken] if taken else []


def _of_compared(quantities: Sequence[Quantity], trunk: str) -> list[str]:
    """What was compared, a line for each quantity: the entries with their values."""
    by_base: dict[str, list[str]] = {}
    for one in quantities:
        entry = ",".join(entry.path for entry in one.entries)
        by_base.setdefault(one.base, []).append(f"{entry or one.symbol} {_plain_value(one)}")
    lines = []
    for base, values in by_base.items():
        text = f"compared by {base}: {', '.join(values)}"
        lines += _filled(text, f"{trunk}├─ ", f"{trunk}│    ")
    return lines


def _short_formula(quantity: Quantity, before: str) -> list[str]:
    """Formula and numbers on a line or two, and the source; nothing of what is nought."""
    steps = _steps(quantity)
    if steps[0] == "0":
        return []
    lines = [f"{before}= {' = '.join(dict.fromkeys(steps))}"]
    if len(lines[0]) > WIDTH:
        lines = [line for step in steps for line in _filled(f"= {step}", before, f"{before}  ")]
    return lines + [before + line for line in _source(quantity, width=WIDTH - len(before))]


def _steps(quantity: Quantity) -> list[str]:
    """Its formula, and the same with numbers; of what takes the value of one of others, which one
    that is, and the closed form."""
    taken = _taken(quantity)
    if isinstance(quantity.value, str):
        most = {one.base: TEXT.write(parse(one.declared.latex)) for one in quantity.uses}
        return [f"where {' and '.join(most.values())} is largest"]
    formula = quantity.chosen
    if taken is None and formula is not None and formula.expression.op == "at_largest":
        body, result = formula.expression.body, quantity.result
        best = result.collapse.best(formula.expression, quantity.trace.point)
        titles = [entry.title or entry.path for entry in best.values()]
        said = TEXT.write(result.typesetter.box(body, None))
        return [f"{said} of {clean(', '.join(titles))}", quantity.substituted]
    if taken is None:
        return [text for text in (quantity.formula, _numbers(quantity)) if text]
    named = {entry.axis: entry.title or entry.path for entry in taken.entries}
    where = ", ".join(clean(title) for axis, title in named.items()
                      if len(quantity.result.entries(axis)) > 1)  # fmt: skip
    symbol = TEXT.write(parse(taken.declared.latex))
    steps = [f"{symbol} of {where}" if where else symbol]
    found = closed_form(quantity)
    if found is not None:
        steps += [TEXT.write(found.symbolic), TEXT.write(found.numeric)]
    return steps


def _rows(quantity: Quantity) -> list[Row]:
    """Quantities and inputs in the order in which the formula uses them."""
    inputs = {row.symbol: row for row in inputs_of(quantity)}
    used = {one.key: one for one in quantity.uses}
    kinds = quantity.result.evaluation.case.kinds
    rows = []
    for key in quantity.trace.uses:
        if not isinstance(key[0], Symbol):
            one = used[key]
            rows.append(Row(one.symbol, _plain_value(one), one.id, one.kind, one))
        elif key[0] in inputs:
            row = inputs.pop(key[0])
            note = quantity.result.evaluation.book.notation[row.symbol]
            kind = kinds.get(row.symbol) if row.stated else None
            who = ", ".join(filter(None, (kind, row.origin)))
            called = row.key or clean(row.meaning)
            rows.append(Row(TEXT.write(row.name), _of_input(row, note), called, who))
    formula = f" {quantity.formula} "

    def place(row: Row) -> int:
        found = re.search(rf"(?<![\w,^]){re.escape(row.name)}(?![\w,^])", formula)
        return found.start() if found else len(formula)

    return sorted(rows, key=place)


def _of_input(row: Data, note: Notation) -> str:
    """The value of an input, or its first ones; with its unit where it has one."""
    given = row.given
    if note.unit in PLAIN or len(given) > 1 or isinstance(given[0], str):
        return str(row.value)
    return shown(given[0], note.unit)


def _plain_value(quantity: Quantity) -> str:
    return brief(quantity, False) if quantity.absent is None else "absent"


def _group(quantities: Sequence[Quantity], first: str, rest: str) -> list[str]:
    """Many instances of one quantity, one a line: what each is of, its value and its formula."""
    one = quantities[0]
    values = [_plain_value(each) for each in quantities]
    title = f"{len(quantities)} of {one.base}: {clean(one.title)}"
    lines = _filled(title, first, rest)
    paths = [",".join(entry.path for entry in each.entries) for each in quantities]
    around = {path.partition(".")[0] for path in paths}
    if len(around) == 1:  # all of one part of the model
        paths = [path.partition(".")[2] or path for path in paths]
    wide, width = max(map(len, paths)), max(map(len, values))
    for each, path, value in zip(quantities, paths, values, strict=True):
        cells = f"{rest}  {path.ljust(wide)}  {value.rjust(width)}"
        formula = f"  = {each.formula}"
        if each.value and len(cells) + len(formula) <= WIDTH:
            cells += formula
        lines.append(cells)
    return [*lines, *(f"{rest}  {line}" for line in _source(one, width=WIDTH - len(rest) - 2))]


def _onwards(quantity: Quantity, depth: int | None) -> list[str]:
    """How to go deeper."""
    if depth is None:
        return []
    level, seen = [quantity], {quantity.id}
    left = max(1, depth) + (_taken(quantity) is not None)
    while level and left:
        left -= 1
        level = [used for one in level for used in one.uses if used.id not in seen]
        seen.update(one.id for one in level)
    names = list({one.base: TEXT.write(parse(one.declared.latex)) for one in level}.values())
    if not names:
        return []
    few = ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
    deeper = f"--depth {max(1, depth) + 1} goes on with {few}"
    return ["", *_filled(f"{deeper} · --symbolic in the plan's symbols", "  ")]


# -- the closed form --------------------------------------------------------------------------


def _symbolic(quantity: Quantity) -> list[str]:
    """The closed form, what it was recognised as, its terms and its symbols."""
    found, name = closed_form(quantity), quantity.symbol
    pad = " " * len(name)
    if found is None:
        lines = _filled(f"{name} = {quantity.formula}", "  ", f"  {pad}   ")
        return [*lines, "", *_filled("Its formula stands in such symbols, or is too long in them: "
                                     "--depth shows it step by step.", "  ")]  # fmt: skip
    lines = []
    for step, lead in ((TEXT.write(found.symbolic), name), (TEXT.write(found.numeric), pad)):
        lines += _filled(f"{lead} = {step}", "  ", f"  {pad}   ")
    lines.append(f"  {pad} = {exactly(found.value, quantity.unit)}")
    if found.recognised:
        lines += ["", *_filled(f"Recognised: {clean(found.recognised, 2000)}", "  ")]
    if found.terms:
        values = [_shown(term.value, quantity) for term in found.terms]
        labels, width = [clean(term.label) for term in found.terms], max(map(len, values))
        wide = max(map(len, labels))
        marked = f", × for times {TEXT.write(found.factor)}" if found.factor else ""
        lines += ["", *_filled(f"{name} is the sum of{marked}", "  ")]
        for term, label, value in zip(found.terms, labels, values, strict=True):
            lines += _beside(
                f"  {value.rjust(width)}  {label.ljust(wide)}",
                f"{'×' if term.times else '='} {TEXT.write(term.factor)}",
            )
    lines.append("")
    for one in found.inputs:
        said = f"{TEXT.write(one.name)} = {_shown(one.value, None)}"
        meaning = clean(one.id or one.meaning)
        lines += _ended(f"  {said.ljust(SHORT)}  {meaning}", clean(one.origin), " " * 6)
    if found.others:
        lines += ["", "  As papers print it, for what they assume"]
        wide = max(len(TEXT.write(box)) for box, _ in found.others)
        for box, source in found.others:
            lines += _beside(f"  {TEXT.write(box).ljust(wide)}", clean(source))
    return lines


def _beside(cells: str, text: str) -> list[str]:
    """Text behind cells, or below them where it has no room."""
    whole = f"{cells}  {text}"
    if len(whole) <= WIDTH:
        return [whole]
    return [*_filled(cells, "", " " * 6), *_filled(text, " " * 6, " " * 8)]


def _shown(value: object, quantity: Quantity | None) -> str:
    if quantity is None:
        return exactly(value, "1")
    return shown(value, quantity.unit, quantity.declared.share)


# -- lines ------------------------------------------------------------------------------------


def _ended(text: str, end: str, rest: str = "") -> list[str]:
    """A line with something at its right end, or below where it has no room."""
    text = text.rstrip()
    if len(text) > WIDTH:
        return [*_filled(text, "", rest), *(_filled(end, rest) if end else [])]
    room = WIDTH - len(text) - len(end)
    if room < 2 and end:
        return [text, *_filled(end, rest)] if end != KINDS[0] else [text]
    return [f"{text}{' ' * room}{end}" if end else text]


def _filled(text: str, first: str, rest: str | None = None) -> list[str]:
    """Text as lines of the width, each behind what begins it."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=first if rest is None else rest,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [first]
