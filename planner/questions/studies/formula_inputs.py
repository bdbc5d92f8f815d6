"""Keys that are inputs of formulas and nothing else.

Completing a plan reads none of them, so plans that differ in such keys differ in the values of
these symbols only, and are evaluated together over arrays. tests/questions/test_sweep.py holds
them against what completing a plan does.
"""

from __future__ import annotations

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.book.expressions import Symbol
from planner.book.quantity import BOOK
from planner.questions.batch_graph import below

PLAIN = frozenset(str(n.key) for n in BOOK.notation.values() if n.only_formulas)
#: Keys that completing a plan holds against another key, where that is given.
LIMITED = {
    "cluster.network.bandwidth": "cluster.network.sustained",
    "cluster.accelerator.power": "cluster.accelerator.idle_power",
}
#: The symbol of each key.
SYMBOLS = {n.key: n.symbol for n in BOOK.notation.values() if n.key and not n.per}


def rests_on(quantities: tuple[str, ...]) -> frozenset[Symbol]:
    """Every input symbol that any formula below these quantities has, whatever the plan."""
    formulas = (f for identifier in below(quantities) for f in BOOK.quantities[identifier].formulas)
    return frozenset(s for f in formulas for s in f.expression.symbols if s not in BOOK.symbols)
