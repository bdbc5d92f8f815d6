"""Limits on quantities, and the quantities that a question may be about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from planner.base import units
from planner.base.display import one_line
from planner.base.errors import PlanError, nearest
from planner.book import notation
from planner.book.quantity import BOOK, Book
from planner.engine.evaluate import Number
from planner.plans.document import Plan
from planner.results.verdict import FITS, SURE

#: Symbols of a stage that sums over all stages read.
OF_ALL_STAGES = {notation.alike, notation.in_flight_on_run, notation.recomputed_on_run}


@dataclass(frozen=True)
class Limit:
    """``quantity <= value`` or ``quantity >= value``, in the quantity's own unit.

    Attributes:
        quantity: id of the quantity.
        relation: ``<=`` or ``>=``.
        value: the bound, in the quantity's own unit.
        book: the book that defines the quantity.
        written: the value as it was written, if that has a unit; else empty.
    """

    quantity: str
    relation: str
    value: Number
    book: Book = field(default=BOOK, compare=False, repr=False)
    written: str = field(default="", compare=False, repr=False)

    @property
    def unit(self) -> str:
        """The unit of the quantity."""
        return self.book.quantities[self.quantity].unit

    def format_value(self, value: Any) -> str:
        """Format a value of the quantity for people, a count in full."""
        return self.book.quantities[self.quantity].text(value, full=True)

    @property
    def scales_with(self) -> str:
        """How the quantity scales with the time of a step."""
        return self.book.quantities[self.quantity].scales_with

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the value unchanged."""
        said = {"quantity": self.quantity, "relation": self.relation, "value": self.value}
        return {**said, "unit": self.unit}

    def is_met(self, value: Any) -> Any:
        """Decide whether a value, or each of an array of any shape, satisfies the limit."""
        return self.compute_slack(value) >= 0

    def compute_slack(self, value: Any) -> Any:
        """Return how far a value (or each of an array) is inside the limit; negative outside."""
        # Arrays do not support fractions.
        bound = float(self.value) if hasattr(value, "dtype") else self.value
        return bound - value if self.relation == "<=" else value - bound

    def compute_share(self, value: Any) -> float:
        """Return the slack as a share of the limit or of the value, whichever is larger."""
        size = max(abs(self.value), abs(value)) or 1
        return float(self.compute_slack(value) / size)

    def __str__(self) -> str:
        return f"{self.quantity} {self.relation} {self.written or self.format_value(self.value)}"


def parse_limit(text: str, plan: Plan | None = None, book: Book = BOOK) -> Limit:
    """Parse a limit such as ``memory.process<=70 GiB``.

    Args:
        text: quantity, relation and value; the value may have a unit.
        plan: with it, the quantity may have any name that explain accepts: ``headroom``, ``training
            time``.
        book: without a plan, the quantity is one of this book, by id.

    Returns:
        The limit, with its value in the quantity's own unit.

    Raises:
        PlanError: unknown quantity or relation, or a value in the wrong unit.
    """
    found = re.fullmatch(r"\s*([^<>=]+?)\s*(<=|>=)\s*([^<>=]+?)\s*", text)
    if not found:
        raise PlanError(f"not a limit: {text!r}", None, "QUANTITY<=VALUE or QUANTITY>=VALUE")
    name, relation, value = found.groups()
    if plan is not None:
        name, book = find_quantity(plan, name), plan.book
    numeric(name, book)
    declared = book.quantities[name]
    # The plan's own quantities have their unit in the same document.
    plain = declared.own and units.NUMBER.fullmatch(value)
    with units.name_faults(name):
        number = units.parse_number(value) if plain else units.parse(value, declared.unit)
    written = one_line(value) if re.search("[A-Za-z]{2}|%", value) else ""
    return Limit(name, relation, number, book, written)


def find_quantity(plan: Plan, name: str) -> str:
    """Find the id of the quantity of a plan that has a name.

    Raises:
        PlanError: none is called so, or several are.
    """
    import planner.book.formulas  # noqa: F401  (registers the quantities)

    if name in plan.book.quantities:
        return name
    from planner.results.lookup import look_up
    from planner.results.result import evaluate_plan

    return look_up(evaluate_plan(plan), name).id


#: The default safety margin.
MARGIN = "p95"


def margin_of(plan: Plan, asked: str | None = None) -> str:
    """Return the safety margin: the one requested, else the team's, else the default."""
    team = plan.document.defaults
    return asked or (team and team.margin) or MARGIN


#: The limit that a plan fits as predicted, on the device and on the host.
PREDICTED = Limit(FITS, ">=", 0)


def list_fit_limits(margin: str, plan: Plan) -> tuple[Limit, ...]:
    """Return the limits that a plan must satisfy in order to fit with a margin: the one of the
    margin first, and one on the host if the plan states its memory."""
    host = (PREDICTED,) if plan.settings["memory.host_stated"] else ()
    return (fit_limit(margin, plan), *host)


def fit_limit(margin: str, plan: Plan) -> Limit:
    """Return the limit that the device of a plan must satisfy in order to fit with a margin.

    Args:
        margin: ``p95``: the 95th percentile of published measurements fits, not only what is
            predicted; a share such as ``5%`` (or ``0.05``): so much more than predicted fits;
            ``0``: what is predicted fits.
        plan: gives the capacity of a device.

    Returns:
        A limit on headroom, on its 95th percentile, or on memory in use.

    Raises:
        PlanError: any other text; a share under which the capacity is unknown.
    """
    text = margin.strip()
    if text == MARGIN:
        return Limit(SURE, ">=", 0)
    allowed = "p95, a share such as 5%, or 0"
    try:
        share = Fraction(units.parse(text, "1"))
    except units.UnitError:
        raise PlanError(f"{margin!r} is not a margin", None, allowed) from None
    if share < 0:
        raise PlanError(f"a margin of {text} is negative", None, allowed)
    if share == 0:
        return Limit("memory.headroom", ">=", 0)
    capacity = plan.get("cluster.accelerator.memory_usable")
    if capacity is None:
        raise PlanError("memory of a device is not given (cluster.accelerator.memory)")
    return Limit("memory.process", "<=", capacity / (1 + share))


def check_quantity(quantity: str, book: Book = BOOK) -> None:
    """Check that a book has a quantity, and that it has one value for the whole plan.

    Raises:
        PlanError: it does not; with the nearest id.
    """
    import planner.book.formulas  # noqa: F401  (registers the quantities)

    if quantity not in book.quantities or book.quantities[quantity].per:
        pool = [i for i, q in book.quantities.items() if not q.per]
        raise PlanError(f"unknown quantity {quantity}", None, None, nearest(quantity, pool))


def is_stage_sum(quantity: str, book: Book = BOOK) -> bool:
    """Decide whether a quantity depends on all stages of a pipeline; a batch has only the
    fullest."""
    used = (book.quantities[name] for name in book.collect_inputs([quantity]))
    formulas = (formula for one in used for formula in one.formulas)
    return any(OF_ALL_STAGES.intersection(formula.written.symbols) for formula in formulas)


def check_batchable(quantity: str, book: Book = BOOK) -> None:
    """Check that a quantity exists and that a batch of plans can evaluate it.

    Raises:
        PlanError: it does not exist, or is a sum over all stages of a pipeline.
    """
    check_quantity(quantity, book)
    if is_stage_sum(quantity, book):
        wrong = f"{quantity} is a sum over all stages; searches and studies have the fullest only"
        raise PlanError(wrong, None, "memory.total; of one plan: report, explain, solve")


def numeric(quantity: str, book: Book = BOOK) -> None:
    """Check that a quantity exists and is a number.

    Raises:
        PlanError: it does not exist, or is a name.
    """
    check_quantity(quantity, book)
    if not book.quantities[quantity].unit:
        raise PlanError(f"{quantity} is a name, not a number")
