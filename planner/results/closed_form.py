"""The closed form of a quantity: in the plan's symbols, with its numbers, term by term, and the
published equation that it equals.

A form is expanded down to the inputs if it stays short, else to the letters of the field, such as N
and t_step. It equals a published equation if their difference is zero by algebra, however they are
written.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.book.canonical import to_canonical
from planner.book.expressions import Expression, Symbol, make_in_order
from planner.book.normal_form import Form, atom, flatten_tree, to_form
from planner.book.published import EQUATIONS, OF_STAGE, PARAMETERS, Equation, Psi
from planner.results.collapse import (
    LETTERS,
    Collapse,
    NoForm,
    Stops,
    at_letters,
    briefly,
    find_factor,
    is_brief,
)
from planner.typeset.styles import TEXT

if TYPE_CHECKING:
    from planner.engine.evaluate import Entry, Point, Value
    from planner.results.result import Quantity
    from planner.typeset.boxes import Box


class ClosedTerm(NamedTuple):
    """A summand: its name, its expression, its value; ``times``: whether the expression is to be
    multiplied by the common factor."""

    label: str
    factor: Box
    value: Value
    times: bool = False


class Basic(NamedTuple):
    """A symbol of a closed form: its name, meaning, value and origin (a place in a document, a
    preset, a default), or the id if it is a quantity."""

    name: Box
    meaning: str
    value: Value
    origin: str
    id: str | None = None


class ClosedForm(NamedTuple):
    """``symbol = symbolic = numeric = value``.

    ``factor`` is the common factor of ``terms``, or None. ``recognised`` names the published
    equation that it equals, with remarks; ``others`` are what papers print for the same quantity
    under other settings or for a GPT, with their sources.
    """

    symbol: Box
    symbolic: Box
    numeric: Box
    value: Value
    factor: Box | None
    terms: tuple[ClosedTerm, ...]
    inputs: tuple[Basic, ...]
    recognised: str | None
    others: tuple[tuple[Box, str], ...]


def derive_form(quantity: Quantity) -> ClosedForm | None:
    """Return the closed form of a quantity; None if it is absent, a name or zero, or if its formula
    already shows as much."""
    if quantity.absent is not None or isinstance(quantity.value, str) or not quantity.value:
        return None
    collapse = quantity.result.collapse
    collapse.book.notation.setdefault(Psi, PARAMETERS)
    try:
        found = _match_equation(quantity, collapse)
        form = found[1] if found else _pick_shortest(quantity, collapse)
        if form is None:
            return None
        factor = find_factor(form)
        tree = _print_equation(found[0], found[2], collapse) if found else form.to_tree(factor)
        symbolic = collapse.build_box(tree)
        terms = tuple(_yield_terms(quantity, collapse, form, factor)) if len(form.terms) > 1 else ()
        terms = terms if len(terms) > 1 else ()
    except NoForm:
        return None
    if found is None and quantity.boxes and symbolic == quantity.boxes[0]:
        return None
    return ClosedForm(
        quantity.symbol_name,
        symbolic,
        collapse.build_box(tree, numbers=True),
        quantity.value,
        collapse.build_box(factor.to_tree()) if factor is not None else None,
        terms,
        tuple(_yield_symbols(quantity, collapse, tree)),
        _explain_source(*found) if found else None,
        tuple(
            (collapse.build_box(_print_equation(other, True, collapse)), other.source)
            for other in EQUATIONS
            if quantity.base in other.quantities and not (found and other is found[0])
        ),
    )


def _pick_shortest(quantity: Quantity, collapse: Collapse) -> Form | None:
    """Return the form in inputs if that is short, else in letters; None if neither is."""
    multiple = _find_multiple(quantity, collapse)
    if multiple is not None:
        return multiple
    return next(filter(is_brief, _yield_forms(quantity, collapse)), None)


def _yield_forms(quantity: Quantity, collapse: Collapse) -> Iterator[Form]:
    """Yield a quantity's form in inputs, unless it is long, and in letters."""
    for stops in (briefly, at_letters):
        with suppress(NoForm):
            yield collapse.expand_quantity(quantity.base, quantity.trace.point, stops)


def _find_multiple(quantity: Quantity, collapse: Collapse) -> Form | None:
    """Express a quantity of a stage as a multiple of the parameters there, as papers write
    optimizer states; return None if it is none."""
    if not any(
        quantity.base in each.quantities and Psi in each.value.symbols for each in EQUATIONS
    ):
        return None
    chosen, point = quantity.chosen, quantity.trace.point
    if "stage" not in point:
        if chosen is None or chosen.expression.op != "at_largest":
            return None
        point = collapse.find_best(chosen.expression, point)
    ratio = collapse.expand_quantity(quantity.base, quantity.trace.point).divide_by(
        collapse.expand_tree(to_canonical(OF_STAGE), point)
    )
    if ratio is None:
        return None
    collapse.values[Psi] = collapse.evaluation.compute(to_canonical(OF_STAGE), point)
    return ratio * atom(Psi)


def _match_equation(quantity: Quantity, collapse: Collapse) -> tuple[Equation, Form, bool] | None:
    """Return the published equation that a quantity equals, the quantity's form, and whether they
    agree without ``besides``."""
    equations = [each for each in EQUATIONS if quantity.base in each.quantities]
    if not equations:
        return None
    for form in (_find_multiple(quantity, collapse), *_yield_forms(quantity, collapse)):
        if form is None:
            continue
        for equation in equations:
            theirs, besides = _convert_equation(equation.value, collapse), equation.besides[0]
            if theirs is None:
                continue
            # A degree of 1 that the paper does not have is left out.
            more = (each for each in form.atoms - theirs.atoms if isinstance(each, Symbol))
            same = form.drop_atoms({each for each in more if collapse.values.get(each) == 1})
            left = same - theirs
            if not left:
                return equation, same, True
            if besides.data != 0 and left == _convert_equation(besides, collapse):
                return equation, same, False
    return None


def _print_equation(equation: Equation, all_of_it: bool, collapse: Collapse) -> Expression:
    """Return an equation as its paper prints it, plus the term that the paper omits; symbols that
    the plan fixes, as bytes of an element, become numbers."""
    tree = equation.value if all_of_it else equation.value + equation.besides[0]
    forms = {each: _convert_equation(each, collapse) for each in tree.symbols}
    return flatten_tree(
        tree.put(
            {
                each: form.to_tree()
                for each, form in forms.items()
                if form is not None and not form.atoms
            }
        )
    )


def _convert_equation(tree: Expression, collapse: Collapse) -> Form | None:
    """Convert a paper's equation to a form under the plan: symbols that the plan fixes become
    numbers, and letters of the field stay."""

    def leaf(part: Expression) -> Form | None:
        """Return the form of a symbol or a reduction of a published equation; None for an
        operation."""
        if not isinstance(part, Symbol):
            return None
        identifier = collapse.book.symbols.get(part)
        note = collapse.book.notation.get(part)
        if identifier is None and note is not None and note.per:
            return atom(part)  # of a block: each has the same, or the plan's form names its entry
        return collapse.expand_tree(part, {}, at_letters) if part is not Psi else atom(Psi)

    try:
        return to_form(tree, leaf)
    except (NoForm, ZeroDivisionError, KeyError):
        return None


def _explain_source(equation: Equation, form: Form, all_of_it: bool) -> str:
    """Return the source of an equation with its remark, and what the paper leaves out.

    Args:
        form: of the plan's quantity, which the caller has beside the equation.
        all_of_it: whether the equation covers the quantity without further terms.
    """
    notes = [equation.remark, "" if all_of_it else equation.besides[1]]
    return "; ".join([equation.source, *filter(None, notes)])


def _yield_terms(
    quantity: Quantity, collapse: Collapse, whole: Form, factor: Form | None
) -> Iterator[ClosedTerm]:
    """Yield the named summands, in the symbols of the whole; equal labels (norms) are merged."""
    stops = at_letters if any(_is_letter(each, collapse) for each in whole.symbols) else briefly
    rows: dict[str, tuple[Form, Any]] = {}
    for label, body, point in _yield_summands(quantity, collapse):
        form = _expand_term(body, point, collapse, stops)
        value = quantity.result.evaluation.compute(body, point)
        if label in rows:
            form, value = rows[label][0] + form, rows[label][1] + value
        rows[label] = form, value
    for label, (form, value) in rows.items():
        if form:
            inside, outside = (Form(), form) if factor is None else form.split_terms(factor)
            times = not outside
            part = inside if times else form
            yield ClosedTerm(
                label, collapse.build_box(part.to_tree(find_factor(part))), value, times
            )


def _is_letter(symbol: Symbol, collapse: Collapse) -> bool:
    """Decide whether this symbol is a quantity at which a form stopped."""
    base = symbol.name.partition("[")[0]
    return base in collapse.book.quantities and base not in LETTERS


def _expand_term(body: Expression, point: Point, collapse: Collapse, stops: Stops) -> Form:
    """Return a short form in basic symbols, or one that keeps quantities which papers have letters
    for."""
    with suppress(NoForm):
        form = collapse.expand_tree(body, point, stops)
        if is_brief(form):
            return form
    return collapse.expand_tree(body, point, at_letters)


def _yield_summands(
    quantity: Quantity, collapse: Collapse
) -> Iterator[tuple[str, Expression, Point]]:
    """Yield the summands of the first sum below a quantity, with their names; below a maximum,
    those of its largest operand."""
    result, book = quantity.result, collapse.book
    chosen, point = quantity.chosen, quantity.trace.point
    tree = chosen.expression if chosen is not None else None
    while tree is not None and tree.op not in ("total", "add"):
        if tree.op in ("largest", "at_largest"):
            tree, point = tree.body, collapse.find_best(tree, point)
        elif isinstance(tree, Symbol) and tree in book.symbols:
            base = book.symbols[tree]
            below = result.get_quantity(base, point)
            tree = below.chosen.expression if below.chosen is not None else None
            point = below.trace.point
        elif tree.op in ("ceil", "floor"):
            tree = tree.args[0]
        else:
            return
    if tree is None:
        return
    if tree.op == "add":
        for term in collapse.typesetter.sort_terms(tree):
            known = book.find_carrier(term, quantity.unit)
            yield book.quantities[known].title if known else _name_term(term, collapse), term, point
        return
    for below_point in collapse.evaluation.entries(tree.axis, point, tree.where):
        yield name_entry(below_point[tree.axis]), tree.body, below_point


def _name_term(term: Expression, collapse: Collapse) -> str:
    """Name a term that is no multiple of one quantity in its unit: by its only quantity or input,
    else by how it is written."""
    book = collapse.book
    quantities = [each for each in term.symbols if each in book.symbols]
    if len(quantities) == 1:
        return book.quantities[book.symbols[quantities[0]]].title
    if len(term.symbols) == 1:
        (symbol,) = term.symbols
        return book.notation[symbol].meaning
    if term.op == "mul" and term.args[0].op == "number":
        term = make_in_order("mul", term.args[1:])
    return TEXT.write(collapse.build_box(term)) if term.op != "number" else "constant"


def name_entry(entry: Entry) -> str:
    """Name an entry among others of its axis: a tensor or a component with its block too, the norms
    of a layer together."""
    block, name = entry.parent, (entry.title or entry.name).replace("_", " ")
    if block is None or entry.axis not in ("tensor", "component"):
        return name
    kind = str(block.settings.get("block", block.name))
    return f"{_OF.get(kind, kind.replace('_', ' '))}: {name}"


#: Names of blocks that differ from their kind.
_OF = {"norm": "norms", "mlp": "MLP", "moe": "experts"}


def _yield_symbols(quantity: Quantity, collapse: Collapse, tree: Expression) -> Iterator[Basic]:
    """Yield the symbols of a form in the order of the notation, quantities last."""
    result, book = quantity.result, collapse.book
    order = {symbol: place for place, symbol in enumerate([*book.notation, *book.symbols])}
    for symbol in sorted(tree.symbols, key=lambda one: order.get(one, len(order))):
        name, value = collapse.typesetter.make_name(symbol), collapse.get_value(symbol)
        base = symbol.name.partition("[")[0]
        if base in book.quantities:
            yield Basic(name, book.quantities[base].title, value, "", symbol.name)
            continue
        note = book.notation[symbol]
        given = result.inputs.get(note.dotted or "")
        yield Basic(name, note.meaning, value, given.origin if given is not None else "")
