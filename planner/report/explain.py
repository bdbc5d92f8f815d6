"""The derivation of one quantity for a terminal: formula, numbers, result and inputs, two levels
deep by default; or its closed form; or all quantities whose id matches a pattern."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from planner.base import numbers
from planner.base.display import clean, format_flow
from planner.base.errors import PlanError
from planner.base.numbers import PLAIN, format_column
from planner.book.expressions import Symbol
from planner.book.quantity import KINDS, Notation
from planner.report.derivations import InputRow, describe_inputs, label_entry
from planner.report.facts import describe_allocator, format_interval, left_open
from planner.report.sentences import wrap_text
from planner.results.closed_form import derive_form
from planner.results.collapse import LETTERS
from planner.results.lookup import find_input, is_pattern, look_up, matching
from planner.results.result import Quantity, Result
from planner.typeset.boxes import read_latex
from planner.typeset.styles import TEXT

WIDTH = 80
#: Levels that are shown: a quantity and its inputs.
DEPTH = 2
#: Instances of one formula up to which each is shown by itself.
MANY = 3
SHORT = 16  # characters of a value in a list that others are aligned with
LONG = 24  # characters of a value or an id that others are aligned with


class OperandRow(NamedTuple):
    """An operand of a formula, which is a quantity or an input.

    Attributes:
        name: its symbol.
        value: its value as printed.
        id: the id of a quantity, or the key of an input.
        known: the certainty of a quantity, or the origin of an input.
        quantity: the quantity; None for an input.
    """

    name: str
    value: str
    id: str
    known: str
    quantity: Quantity | None = None


def explain(result: Result, asked: str, depth: int | None = DEPTH, symbolic: bool = False) -> str:
    """Explain how a quantity is computed; list the matches if the text ends in a dot or has a
    ``*``.

    Args:
        asked: an id, its end or beginning, a label, a symbol.
        depth: levels of inputs; 1 is the quantity itself, None all.
        symbolic: the closed form in the plan's symbols instead.

    Raises:
        PlanError: no quantity matches, or several do; or a negative depth.
    """
    if depth is not None and depth < 0:
        raise PlanError(f"a depth of {depth}", None, "0 or more, or all")
    if is_pattern(asked):
        return _list_matches(matching(result, asked))
    given = find_input(result, asked)
    if given is not None:
        return _describe_input(result, given)
    quantity = look_up(result, asked)
    lines = _format_head(quantity)
    if quantity.absent is not None:
        lines += ["", f"  absent: {clean(quantity.absent)}"]
    elif symbolic:
        lines += ["", *_format_symbolic(quantity)]
    else:
        lines += ["", *_format_formula(quantity)]
        left = None if depth is None else max(0, depth - 1)
        below = _format_below(quantity, "", left, {quantity.id})
        lines += ["", *below] if below else []
        lines += _suggest_depth(quantity, depth)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def explain_as_data(
    result: Result, asked: str, depth: int | None = DEPTH, symbolic: bool = False
) -> dict[str, Any]:
    """Explain a quantity or an input as plain data, with the contents that ``explain`` prints.

    Args:
        result: the result.
        asked: the id of a quantity, a pattern of ids, or a key of the plan.
        depth: the levels of inputs below the quantity; None for all.
        symbolic: whether to add the closed form, in place of the inputs.

    Returns:
        One entry: ``quantity`` with the ``inputs`` of its formula, each expanded once;
        ``quantities``, all that match the pattern; or ``input``, with the quantities that use it.

    Raises:
        PlanError: a negative depth, or a name or pattern that matches nothing.
    """
    if depth is not None and depth < 0:
        raise PlanError(f"a depth of {depth}", None, "0 or more, or all")
    if is_pattern(asked):
        return {
            "quantities": {one.id: _dump_quantity(one, 0, set()) for one in matching(result, asked)}
        }
    given = find_input(result, asked)
    if given is not None:
        entry, (unit, meaning, users) = result.inputs[given], _look_up_key(result, given)
        about = {"key": given, "value": entry.value, "unit": unit, "title": meaning}
        return {"input": {**about, "origin": entry.origin, "used_by": users}}
    quantity = look_up(result, asked)
    left = None if depth is None else max(0, depth - 1)
    data = _dump_quantity(quantity, 0 if symbolic else left, {quantity.id})
    if quantity.absent is None and (simulated := _describe_run(quantity)):
        data["simulated"] = simulated
    found = derive_form(quantity) if symbolic else None
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


def _dump_quantity(quantity: Quantity, depth: int | None, seen: set[str]) -> dict[str, Any]:
    """Convert a quantity to plain data.

    Args:
        quantity: the quantity.
        depth: the levels of inputs to add; None for all. A maximum of others is not counted as a
            level.
        seen: ids that are expanded already, to which this adds.
    """
    if quantity.absent is not None:
        return {"id": quantity.id, "title": quantity.title, "absent": quantity.absent}
    data = {"id": quantity.id, **quantity.to_json(users=False)}
    if depth == 0:
        return data
    deeper = depth if depth is None or _find_selected(quantity) else depth - 1
    data["inputs"] = []
    for row in _list_operands(quantity):
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
            one = _dump_quantity(used, deeper, seen)
        data["inputs"].append(one)
    return data


def _list_matches(quantities: Sequence[Quantity]) -> str:
    """List ids with values and titles, each cut to one line."""
    values = [_format_plain(one) for one in quantities]
    wide = max(len(one.id) for one in quantities)
    width = max((len(value) for value in values if len(value) <= SHORT), default=0)
    lines = [
        f"{one.id.ljust(wide)}  {value.rjust(width)}  {clean(one.title)}"
        for one, value in zip(quantities, values, strict=True)
    ]
    return "".join(f"{line if len(line) <= WIDTH else line[: WIDTH - 1] + '…'}\n" for line in lines)


def _describe_input(result: Result, key: str) -> str:
    """Describe an input: value, key, meaning, origin, and the quantities that use it."""
    given, value = result.inputs[key], result.inputs[key].value
    unit, meaning, users = _look_up_key(result, key)
    if not isinstance(value, (int, Fraction)) or isinstance(value, bool):
        text = format_flow(value)
    elif key in result:  # a quantity that the plan states
        text = result[key].text()
    else:
        text = numbers.text(value, "1", "exact") if unit in PLAIN else numbers.text(value, unit)
    lines = _align_right(f"{text}   {key}   {meaning}", clean(given.origin))
    if users:
        lines += ["", *_fill_lines(f"used by {', '.join(users)}", "  ")]
    return "\n".join(lines) + "\n"


def _look_up_key(result: Result, key: str) -> tuple[str, str, list[str]]:
    """Return the unit of an input, its meaning, and the quantities whose formulas have it."""
    notes = [note for note in result.evaluation.book.notation.values() if note.dotted == key]
    users = dict.fromkeys(quantity.base for quantity in result.list_users(key))
    unit = (notes[0].unit if notes else result.inputs[key].unit) or "1"
    return unit, clean(notes[0].meaning) if notes else "", list(users)


# -- the quantity itself ----------------------------------------------------------------------


def _format_head(quantity: Quantity) -> list[str]:
    """Format value, id, title and certainty on one line, or the title below."""
    known = quantity.absent is None
    kind, value = (quantity.kind, format_interval(quantity)) if known else ("", "absent")
    first, title = f"{value}   {quantity.id}", clean(quantity.title)
    if len(first) + len(title) + len(kind) + 6 <= WIDTH:
        return _align_right(f"{first}   {title}", kind)
    return [*_align_right(first, kind), *_fill_lines(title, "")]


def _format_formula(quantity: Quantity) -> list[str]:
    """Format the closed form, if it is published or in inputs alone; then `symbol = formula`, the
    numbers, the explanation, the source, and what qualifies the value."""
    value, found = quantity.text("exact"), derive_form(quantity)
    steps, lines = [*_build_steps(quantity), value], []
    # An input is a symbol of the document, or a size of its layout.
    plain = found and all(one.id is None or one.id in LETTERS for one in found.inputs)
    if found is not None and (found.recognised or plain):
        closed = [TEXT.write(found.symbolic), TEXT.write(found.numeric), value]
        lines = _list_equations(quantity, closed)
        if found.recognised:
            lines += _fill_lines(f"Recognised: {clean(found.recognised, 2000)}", "  ")
        steps = [step for step in steps if step not in closed]
    if steps:
        lines += _list_equations(quantity, steps)
    lines += _fill_lines(clean(quantity.why, 2000), "  ")
    lines += [f"  {line}" for line in _source(quantity, "source: ", WIDTH - 2)]
    if quantity.interval is not None:
        lines += _fill_lines(f"in parentheses: {left_open(quantity.result, quantity.base)}", "  ")
    if quantity.assumption:
        lines += _fill_lines(f"rests on {quantity.assumption}", "  ")
    other = quantity.alternative
    if other is not None:
        use = "predicted" if quantity.result.assumes_utilisation else "at the assumed utilisation"
        lines += [f"  {use}: {format_interval(other)}"]
    return lines + _fill_lines(_describe_run(quantity), "  ")


def _describe_run(quantity: Quantity) -> str:
    """Describe the simulated allocator beside reserved memory; empty for other quantities."""
    return describe_allocator(quantity.result) if quantity.id == "memory.reserved" else ""


def _list_equations(quantity: Quantity, steps: Sequence[str]) -> list[str]:
    """Format `symbol = …` with each further step below, without repetitions."""
    name = quantity.symbol
    pad = " " * len(name)
    formula, *others = steps
    lines = _fill_lines(f"{name} = {formula}", "  ", f"  {pad}   ")
    for step in others:
        if step not in (formula, others[-1].split(" ")[0]) or step is others[-1] != formula:
            lines += _fill_lines(f"{pad} = {step}", "  ", f"  {pad}   ")
    return lines


def _source(quantity: Quantity, before: str = "", width: int = WIDTH) -> list[str]:
    """Format the source of the formula; nothing for a definition.

    Args:
        quantity: the quantity.
        before: text in front of it.
        width: characters of a line.
    """
    if quantity.source == "definition":
        return []
    return textwrap.wrap(before + clean(quantity.source, 2000), max(width, WIDTH // 4))


def _format_numbers(quantity: Quantity) -> str:
    """Format the formula with numbers: a sum over entries by name; empty if too many instances have
    no names."""
    formula, terms = quantity.chosen, quantity.terms
    if formula is not None and formula.expression.op == "total" and terms:
        unit, texts = format_column([term.value for term in terms], quantity.unit)
        named = zip(terms, texts, strict=True)
        summed = " + ".join(f"{clean(term.label)} {text}" for term, text in named)
        return f"{summed} {unit if unit not in (*PLAIN, 'parameters') else ''}".rstrip()
    return "" if _find_repeated(quantity) else quantity.substituted


def _find_repeated(quantity: Quantity) -> set[str]:
    """Return the quantities with many instances in the formula."""
    counted = Counter(used.base for used in quantity.uses)
    return {base for base, count in counted.items() if count > MANY}


# -- what it rests on -------------------------------------------------------------------------


def _format_below(quantity: Quantity, trunk: str, depth: int | None, seen: set[str]) -> list[str]:
    """Format the inputs of a quantity, each with its own formula.

    Args:
        quantity: the quantity.
        trunk: the start of each line, with the lines of the tree so far.
        depth: the levels to print; None for all.
        seen: ids that are printed already, to which this adds.
    """
    if depth == 0:
        return []
    rows, taken = _list_operands(quantity), _find_selected(quantity)  # selected from the others
    compared = [used for used in quantity.uses if used is not taken] if taken else []
    rows = [row for row in rows if row.quantity not in compared]
    lines = _list_compared(compared, trunk)
    many = _find_repeated(quantity) if depth == 1 else set()
    widths = [
        max((len(cell) for cell in cells if len(cell) <= LONG), default=0)
        for cells in zip(*(row[:3] for row in rows), strict=True)
    ]
    # The first of many instances of one quantity represents all.
    items: dict[str | int, OperandRow] = {}
    for place, row in enumerate(rows):
        base = row.quantity.base if row.quantity is not None else ""
        items.setdefault(base if base in many else place, row)
    rows = [*items.values()]
    for row in rows:
        used = row.quantity
        branch, below = ("└─ ", "   ") if row is rows[-1] else ("├─ ", "│  ")
        if used is not None and used.base in many:
            group = [one for one in quantity.uses if one.base == used.base]
            lines += _format_group(group, trunk + branch, trunk + below)
            continue
        cells = "  ".join(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True))
        known = row.known if used is None or used.id not in seen else "above"
        lines += _align_right(trunk + branch + cells, known, f"{trunk}{below}  ")
        if used is None or used.id in seen:
            continue
        seen.add(used.id)
        rest = f"{trunk}{below}  "
        lines += _format_compact(used, rest)
        # A maximum of others is not a level of its own.
        deeper = depth if depth is None or _find_selected(quantity) else depth - 1
        lines += _format_below(used, trunk + below, deeper, seen)
    return lines


def _find_selected(quantity: Quantity) -> Quantity | None:
    """Return the operand that a max formula selected, or None."""
    formula = quantity.chosen
    if formula is None or formula.expression.op not in ("largest", "at_largest"):
        return None
    return next((used for used in quantity.uses[::-1] if used.value == quantity.value), None)


def _list_compared(quantities: Sequence[Quantity], trunk: str) -> list[str]:
    """List the operands that a maximum compared: entries with values, one line per quantity."""
    by_base: dict[str, list[str]] = {}
    for one in quantities:
        entry = ", ".join(map(label_entry, one.entries)) or one.symbol
        by_base.setdefault(one.base, []).append(f"{entry}: {_format_plain(one)}")
    lines = []
    for base, values in by_base.items():
        text = f"compared, each {base}: {'; '.join(values)}"
        lines += _fill_lines(text, f"{trunk}├─ ", f"{trunk}│    ")
    return lines


def _format_compact(quantity: Quantity, before: str) -> list[str]:
    """Format formula and numbers on a line or two, and the source; nothing for a zero."""
    steps = _build_steps(quantity)
    if steps[0] == "0":
        return []
    lines = [f"{before}= {' = '.join(dict.fromkeys(steps))}"]
    if len(lines[0]) > WIDTH:
        lines = [line for step in steps for line in _fill_lines(f"= {step}", before, f"{before}  ")]
    return lines + [before + line for line in _source(quantity, width=WIDTH - len(before))]


def _build_steps(quantity: Quantity) -> list[str]:
    """Return the formula and the same with numbers; for a maximum, the selected operand and the
    closed form."""
    taken = _find_selected(quantity)
    if isinstance(quantity.value, str):
        most = {one.base: TEXT.write(read_latex(one.declared.latex)) for one in quantity.uses}
        return [f"where {' and '.join(most.values())} is largest"]
    formula = quantity.chosen
    if taken is None and formula is not None and formula.expression.op == "at_largest":
        body, result = formula.expression.body, quantity.result
        best = result.collapse.find_best(formula.expression, quantity.trace.point)
        titles = [entry.title or entry.path for entry in best.values()]
        said = TEXT.write(result.typesetter.box(body, None))
        return [f"{said} of {clean(', '.join(titles))}", quantity.substituted]
    if taken is None:
        return [text for text in (quantity.formula, _format_numbers(quantity)) if text]
    named = {entry.axis: entry.title or entry.path for entry in taken.entries}
    where = ", ".join(clean(title) for axis, title in named.items()
                      if len(quantity.result.list_entries(axis)) > 1)  # fmt: skip
    symbol = TEXT.write(read_latex(taken.declared.latex))
    steps = [f"{symbol} of {where}" if where else symbol]
    found = derive_form(quantity)
    if found is not None:
        steps += [TEXT.write(found.symbolic), TEXT.write(found.numeric)]
    return steps


def _list_operands(quantity: Quantity) -> list[OperandRow]:
    """Return the operands in the order in which the formula uses them."""
    inputs = {row.symbol: row for row in describe_inputs(quantity)}
    used = {one.key: one for one in quantity.uses}
    kinds = quantity.result.evaluation.case.kinds
    rows = []
    for key in quantity.trace.uses:
        if not isinstance(key[0], Symbol):
            one = used[key]
            rows.append(OperandRow(one.symbol, _format_plain(one), one.id, one.kind, one))
        elif row := inputs.pop(str(key[0]), None):
            note = quantity.result.evaluation.book.notation[key[0]]
            kind = kinds.get(key[0]) if row.stated else None
            who = ", ".join(filter(None, (kind, row.origin)))
            called = row.key or clean(row.meaning)
            rows.append(OperandRow(TEXT.write(row.name), _format_operand(row, note), called, who))
    formula = f" {quantity.formula} "

    def place(row: OperandRow) -> int:
        found = re.search(rf"(?<![\w,^]){re.escape(row.name)}(?![\w,^])", formula)
        return found.start() if found else len(formula)

    return sorted(rows, key=place)


def _format_operand(row: InputRow, note: Notation) -> str:
    """Format the value of an input, or its first ones, with the unit if there is one."""
    given = row.given
    if note.unit in PLAIN or len(given) > 1 or isinstance(given[0], str):
        return str(row.value)
    return numbers.text(given[0], note.unit)


def _format_plain(quantity: Quantity) -> str:
    """Format the value of a quantity, or the word absent."""
    return quantity.text() if quantity.absent is None else "absent"


def _format_group(quantities: Sequence[Quantity], first: str, rest: str) -> list[str]:
    """Format many instances of one quantity: entry, value and formula, one line each.

    Args:
        quantities: the instances, all of one base.
        first, rest: the start of the first line, and of the others.
    """
    one = quantities[0]
    values = [_format_plain(each) for each in quantities]
    title = f"{len(quantities)} of {one.base}: {clean(one.title)}"
    lines = _fill_lines(title, first, rest)
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


def _suggest_depth(quantity: Quantity, depth: int | None) -> list[str]:
    """Suggest the next depth."""
    if depth is None:
        return []
    level, seen = [quantity], {quantity.id}
    left = max(1, depth) + (_find_selected(quantity) is not None)
    while level and left:
        left -= 1
        level = [used for one in level for used in one.uses if used.id not in seen]
        seen.update(one.id for one in level)
    names = list({one.base: TEXT.write(read_latex(one.declared.latex)) for one in level}.values())
    if not names:
        return []
    few = ", ".join(names[:4]) + (" …" if len(names) > 4 else "")
    deeper = f"--depth {max(1, depth) + 1} goes on with {few}"
    return ["", *_fill_lines(f"{deeper} · --symbolic in the plan's symbols", "  ")]


# -- the closed form --------------------------------------------------------------------------


def _format_symbolic(quantity: Quantity) -> list[str]:
    """Format the closed form, the equation that it was recognised as, its terms and its symbols."""
    found, name = derive_form(quantity), quantity.symbol
    pad = " " * len(name)
    if found is None:
        lines = _fill_lines(f"{name} = {quantity.formula}", "  ", f"  {pad}   ")
        why = (
            "Its formula is in such symbols, or is too long in them: --depth shows it step by step."
        )
        return [*lines, "", *_fill_lines(why, "  ")]
    lines = []
    for step, lead in ((TEXT.write(found.symbolic), name), (TEXT.write(found.numeric), pad)):
        lines += _fill_lines(f"{lead} = {step}", "  ", f"  {pad}   ")
    lines.append(f"  {pad} = {numbers.text(found.value, quantity.unit, 'exact')}")
    if found.recognised:
        lines += ["", *_fill_lines(f"Recognised: {clean(found.recognised, 2000)}", "  ")]
    if found.terms:
        values = [clean(quantity.declared.text(term.value)) for term in found.terms]
        labels, width = [clean(term.label) for term in found.terms], max(map(len, values))
        wide = max(map(len, labels))
        marked = f", × for times {TEXT.write(found.factor)}" if found.factor else ""
        lines += ["", *_fill_lines(f"{name} is the sum of{marked}", "  ")]
        for term, label, value in zip(found.terms, labels, values, strict=True):
            lines += _append_text(
                f"  {value.rjust(width)}  {label.ljust(wide)}",
                f"{'×' if term.times else '='} {TEXT.write(term.factor)}",
            )
    lines.append("")
    for one in found.inputs:
        said = f"{TEXT.write(one.name)} = {numbers.text(one.value, '1', 'exact')}"
        meaning = clean(one.id or one.meaning)
        lines += _align_right(f"  {said.ljust(SHORT)}  {meaning}", clean(one.origin), " " * 6)
    if found.others:
        lines += ["", "  As papers print it, for what they assume"]
        wide = max(len(TEXT.write(box)) for box, _ in found.others)
        for box, source in found.others:
            lines += _append_text(f"  {TEXT.write(box).ljust(wide)}", clean(source))
    return lines


def _append_text(cells: str, text: str) -> list[str]:
    """Append text to cells, or put it below if there is no room."""
    whole = f"{cells}  {text}"
    if len(whole) <= WIDTH:
        return [whole]
    return [*_fill_lines(cells, "", " " * 6), *_fill_lines(text, " " * 6, " " * 8)]


# -- lines ------------------------------------------------------------------------------------


def _align_right(text: str, end: str, rest: str = "") -> list[str]:
    """Put a text at the right end of a line, or below it if there is no room.

    Args:
        text: the line.
        end: the text at its end; empty for none.
        rest: the start of further lines.
    """
    text = text.rstrip()
    if len(text) > WIDTH:
        return [*_fill_lines(text, "", rest), *(_fill_lines(end, rest) if end else [])]
    room = WIDTH - len(text) - len(end)
    if room < 2 and end:
        return [text, *_fill_lines(end, rest)] if end != KINDS[0] else [text]
    return [f"{text}{' ' * room}{end}" if end else text]


def _fill_lines(text: str, first: str, rest: str | None = None) -> list[str]:
    """Wrap text to the width of the terminal; words are never broken.

    Args:
        text: the text.
        first: the start of the first line.
        rest: the start of the others; by default the same.
    """
    return wrap_text(text, first, rest, break_long_words=False) or [first]
