"""What differs along each dimension of a study: inputs, layouts, other numbers or whole plans.

Completing a plan does not read keys that are only inputs of formulas. So plans that differ in such
keys differ only in the values of these symbols, and are evaluated together over arrays.
tests/questions/test_sweep.py compares them with completed plans.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.documents.source import lookup
from planner.plans.layout import KEYS
from planner.questions.batch_graph import collect_inputs
from planner.questions.studies.axes import LAYOUT, StudyAxis, collect_keys
from planner.questions.studies.study import StudySpec

#: What differs: inputs of formulas only, layouts only, other numbers, or anything else.
INPUTS, LAYOUTS, NUMBERS, PLANS = "inputs", "layouts", "numbers", "plans"
#: The fewest other numbers for which layouts are completed one by one.
MANY = 64
PLAIN = frozenset(str(n.key) for n in BOOK.notation.values() if n.only_formulas)
#: Keys that completing a plan compares with another key, where that is present.
LIMITED = {
    "cluster.network.bandwidth": "cluster.network.sustained",
    "cluster.accelerator.power": "cluster.accelerator.idle_power",
}
#: The symbol of each key.
SYMBOLS = {n.key: n.symbol for n in BOOK.notation.values() if n.key and not n.per}
#: Quantities that decide which layout a search returns.
DECIDING = ("memory.headroom", "memory.process", "time.step_seconds")


def classify_axes(study: StudySpec) -> tuple[str, ...]:
    """Return what differs between plans along each dimension. Layouts are completed one by one if
    one is searched, if one dimension sets the whole layout and another one keys of it, or if there
    are more other numbers."""
    formulas = (f for name in collect_inputs(DECIDING) for f in BOOK.quantities[name].formulas)
    decides = {s for f in formulas for s in f.expression.symbols} if study.searches else set()
    varied = collect_keys(study.axes)

    def is_given(key: str) -> bool:
        """Decide whether a base plan sets a key, or an axis varies it or a section around it."""
        around = {key.rsplit(".", steps)[0] for steps in range(key.count(".") + 1)}
        bases = (lookup(base.data, key) for base in study.bases)
        return bool(varied & around) or any(value is not None for value in bases)

    checked = {key for key, other in LIMITED.items() if is_given(other)}
    plain = {key for key in PLAIN - checked if SYMBOLS[key] not in decides}

    def difference(axes: Sequence[StudyAxis]) -> str:
        """Return what differs along one dimension, by the keys and values of its axes."""
        changed = collect_keys(axes)
        values = (choice.changes.get(k) for a in axes for choice in a.choices for k in a.keys)
        if not changed:  # which of several plans
            return PLANS
        if changed <= plain and all(map(schema.is_number, values)):
            return INPUTS
        if all(map(_is_layout_key, changed)):
            return LAYOUTS
        return NUMBERS if all(axis.numeric for axis in axes) else PLANS

    found = tuple(map(difference, study.dimensions))
    several = list(zip(found, study.dimensions, strict=True))
    in_layouts, in_others = (
        collect_keys(axis for one, axes in several if (one == LAYOUTS) is wanted for axis in axes)
        for wanted in (True, False)
    )
    alone = {LAYOUTS} if LAYOUT in in_layouts and any(map(_is_layout_key, in_others)) else set()
    if study.searches:
        alone = {LAYOUTS, NUMBERS}
    elif {LAYOUTS, NUMBERS} <= {*found}:  # those that are fewer are completed one by one
        pairs = [*zip(found, study.shape, strict=True)]
        layouts, others = (
            math.prod(length for one, length in pairs if one == wanted)
            for wanted in (LAYOUTS, NUMBERS)
        )
        alone.add(LAYOUTS if max(layouts, MANY) <= others else NUMBERS)
    return tuple(PLANS if one in alone else one for one in found)


def _is_layout_key(key: str) -> bool:
    """Decide whether a key is the layout as a whole, one of its keys, or another key that belongs
    to layouts."""
    return key == LAYOUT or key.startswith(f"{LAYOUT}.") or key in KEYS
