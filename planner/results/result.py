"""What a plan gives: every quantity with its value, its formula and how it was found.

``result["memory.total"]`` is a quantity; one with axes is named by its entry too, as in
``memory.activations.layer[moe]``. Values are exact (int, or Fraction, which becomes a decimal
number in JSON only). Formulas are printed when they are asked for: a summary never pays for them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.base.display import plain
from planner.base.errors import Fault, PlanError, nearest
from planner.base.version import __version__
from planner.engine.evaluate import SIZE_ONLY, Absent, Evaluation, Key, Point
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.results import inputs as _inputs
from planner.results.evaluated import Quantity, Term
from planner.results.inputs import Input

if TYPE_CHECKING:
    from planner.results.remedies import Advice
    from planner.typeset import Typesetter

__all__ = ["Quantity", "Result", "Term", "evaluate"]


def evaluate(plan: Plan, like: Result | None = None) -> Result:
    """The result of a plan, perhaps one ``like`` another. Nothing is computed before it is asked
    for."""
    from planner.engine import instance as case

    return Result(plan, Evaluation(case.build(plan), like=like.evaluation if like else None))


class Result:
    """The quantities of one plan, by id."""

    def __init__(self, plan: Plan, evaluation: Evaluation) -> None:
        self.plan = plan
        self.evaluation = evaluation
        self._quantities: dict[Key, Quantity] = {}
        self.comparison: Any = None  # a planner.connect.compare.Comparison, beside the log of a run

    # -- access -------------------------------------------------------------------------------

    def __getitem__(self, identifier: str) -> Quantity:
        """The quantity of an id or of ``ID[ENTRY]``; its value is None where it is absent.

        Raises:
            KeyError: the book has no such quantity.
        """
        try:
            return self.find(identifier)
        except PlanError as error:
            raise KeyError(str(error)) from None

    def __contains__(self, identifier: object) -> bool:
        try:
            return isinstance(identifier, str) and self.find(identifier).absent is None
        except PlanError:
            return False

    def __iter__(self) -> Iterator[str]:
        """The ids of all quantities that have a value, in the order of the book."""
        return iter(self.quantities)

    def __repr__(self) -> str:
        return f"<Result of {self.plan.name!r}>"

    def _repr_html_(self) -> str:
        """The quantities as a table, for notebooks."""
        from planner.results.notebook import html

        return html(self)

    def to_pandas(self) -> Any:
        """The quantities as a data frame with their ids as index.

        Raises:
            ImportError: pandas is not installed.
        """
        from planner.results.notebook import frame

        return frame(self)

    def get(self, identifier: str) -> Quantity | None:
        """The quantity, or None where it is unknown or absent."""
        if identifier not in self:
            return None
        return self.find(identifier)

    def find(self, identifier: str) -> Quantity:
        """As ``result[identifier]``, but an unknown id is a fault with a near spelling.

        Raises:
            PlanError: the book has no such quantity, or it has no such entry.
        """
        base, bracket, path = identifier.partition("[")
        known = self.evaluation.book.quantities
        if base not in known:
            raise PlanError(
                Fault(
                    f"unknown quantity '{identifier}'",
                    None,
                    "see plan.py list quantities",
                    nearest(base, known),
                )
            )
        if bracket:
            return self.quantity(*self._instance(base, path.rstrip("]"), identifier))
        if known[base].per:
            entries = self.evaluation.case.axes.get(known[base].per[0], ())
            names = [q.id for q in self.quantities.values() if q.base == base]
            if not names and base.startswith("optimal.") and not isinstance(entries, Absent):
                names = [f"{base}[{entry.path}]" for entry in entries]
            some = f"one of {', '.join(names[:8])}" if names else "this plan uses none of it"
            raise PlanError(Fault(f"{base} holds per {', '.join(known[base].per)}", None, some))
        return self.quantity(base, {})

    def _instance(self, base: str, path: str, asked: str) -> tuple[str, Point]:
        """The id and the point of ``BASE[PATH]``. A quantity that folds another one over an axis,
        such as the largest over the layer kinds, stands for that one's entries too."""
        evaluation = self.evaluation
        per = evaluation.book.quantities[base].per
        if not per:
            formula = self.quantity(base, {}).chosen
            fold = formula.expression if formula else None
            identifier = None
            if fold is not None and fold.op in ("largest", "total", "at_largest"):
                identifier = evaluation.book.symbols.get(fold.body)
            if identifier is not None:
                return self._instance(identifier, path, asked)
            raise PlanError(Fault(f"{base} has no entries", None, base))
        point: Point = {}
        for axis, name in zip(per, path.split(","), strict=False):
            entries = evaluation.case.axes.get(axis, ())
            entries = () if isinstance(entries, Absent) else entries
            found = next((e for e in entries if name in (e.path, str(e.path))), None)
            if found is None:
                names = [e.path for e in entries]
                raise PlanError(
                    Fault(
                        f"unknown quantity '{asked}'",
                        None,
                        f"a {axis} such as {', '.join(names[:8])}",
                        nearest(name, names),
                    )
                )
            point[axis] = found
        if len(point) < len(per):
            raise PlanError(
                Fault(f"unknown quantity '{asked}'", None, f"one entry each of {', '.join(per)}")
            )
        return base, point

    def quantity(self, base: str, point: Point) -> Quantity:
        """The quantity of an id at a point."""
        trace = self.evaluation.trace(base, point)
        per = self.evaluation.book.quantities[base].per
        key = (base, tuple(trace.point[axis] for axis in per))
        if key not in self._quantities:
            self._quantities[key] = Quantity(self, key, trace)
        return self._quantities[key]

    # -- everything ---------------------------------------------------------------------------

    @cached_property
    def _all(self) -> dict[Key, Quantity]:
        """Every id of the book without axes, and of those with axes what these rest on."""
        book = self.evaluation.book
        found: dict[Key, None] = {}
        stack = [
            quantity
            for base, first in book.quantities.items()
            for quantity in self._roots(base, first.per)
        ]
        while stack:
            quantity = stack.pop()
            if quantity.key not in found:
                found[quantity.key] = None
                stack += quantity.uses
        order = {base: i for i, base in enumerate(book.quantities)}
        place = {
            entry: i
            for axis in self.evaluation.case.axes.values()
            if not isinstance(axis, Absent)
            for i, entry in enumerate(axis)
        }
        keys = sorted(found, key=lambda key: (order[key[0]], [place[e] for e in key[1]]))
        return {key: self._quantities[key] for key in keys}

    def _roots(self, base: str, per: tuple[str, ...]) -> list[Quantity]:
        """A quantity without axes; what each convention and each scaling law says of the plan. What
        laws say of a budget (``optimal.``) is made when it is asked for."""
        if not per:
            return [self.quantity(base, {})]
        if per not in (("law",), ("convention",)) or base.startswith("optimal."):
            return []
        entries = self.evaluation.case.axes[per[0]]
        if isinstance(entries, Absent):
            return []
        found = [self.quantity(base, {per[0]: entry}) for entry in entries]
        return [quantity for quantity in found if quantity.chosen is not None]

    @cached_property
    def quantities(self) -> dict[str, Quantity]:
        """Every quantity that has a value, by id, in the order of the book."""
        return {q.id: q for q in self._all.values() if q.absent is None}

    @cached_property
    def absent(self) -> dict[str, str]:
        """What has no value, with the reason."""
        return {q.id: q.absent for q in self._all.values() if q.absent is not None}

    @cached_property
    def inputs(self) -> dict[str, Input]:
        """Every resolved value by dotted key."""
        return {entry.key: entry for entry in _inputs.inputs(self.plan)}

    @cached_property
    def advice(self) -> Advice | None:
        """What would make a plan safe that does not fit, or only tightly; None where it fits."""
        if self.verdict["state"] not in ("no", "tight"):
            return None
        from planner.results.remedies import remedies

        return remedies(self.plan)

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """Whether the plan fits into the memory of a device: ``fits`` by what is predicted, None
        where that is unknown, and ``state`` by how sure that is.

        ``fits``: the 95th percentile of published readings is within capacity; ``tight``: what is
        predicted is, the percentile is not; ``no``: what is predicted is not; ``open``: what
        decides is not stated, as the shape of a model given by its size.
        """
        book = self.evaluation.book.quantities
        if "memory.headroom" not in book:
            reason = "memory.headroom is not in the book"
            return {"fits": None, "state": "open", "reason": reason}
        headroom = self["memory.headroom"]
        if headroom.absent is not None:
            return {"fits": None, "state": "open", "reason": headroom.absent}
        fits = bool(headroom.number >= 0)
        if not fits:
            state = "no"
        elif self.plan.model is None:
            state = "open"  # the states fit; activations and buffers need a shape
        else:
            state = "fits" if self["memory.headroom_p95"].number >= 0 else "tight"
        return {"fits": fits, "state": state, "reason": SIZE_ONLY if state == "open" else None}

    @cached_property
    def predicted(self) -> Result | None:
        """The same plan with its time predicted, to stand beside an assumed utilisation; None where
        none is assumed, or where nothing predicts it."""
        if self.plan.get("time.mfu") is None:
            return None
        try:
            result = evaluate(variant(self.plan, {"time.mfu": None}), like=self)
        except PlanError:
            return None
        return result if "time.step_seconds" in result else None

    @cached_property
    def step_parts(self) -> dict[str, float]:
        """Seconds of a predicted step by what they are spent on, most first, to nine digits; what
        other work hides does not count, so that they add up. Nothing where time is assumed."""
        step = "time.step_seconds"
        if self.plan.get("time.mfu") is not None or step not in self:
            return {}
        from planner.results.attribution import taken_apart

        found = taken_apart(self.evaluation, step)
        order = sorted(found, key=lambda name: -found[name])
        return {name: float(f"{float(found[name]):.9g}") for name in order}

    @cached_property
    def used_by(self) -> dict[Key, list[Quantity]]:
        """Which quantities rest on a quantity directly."""
        users: dict[Key, list[Quantity]] = {}
        for quantity in self._all.values():
            if quantity.absent is None:
                for used in quantity.uses:
                    users.setdefault(used.key, []).append(quantity)
        return users

    @cached_property
    def typesetter(self) -> Typesetter:
        from planner.typeset import Typesetter

        return Typesetter(self.evaluation)

    @property
    def document(self) -> str | None:
        """The plan file as it was named; None for a mapping or standard input."""
        file = self.plan.document.node.place.file
        if file.startswith("<"):
            return None
        path = Path(file)
        return path.name if path.is_absolute() else path.as_posix()

    def fingerprint(self) -> str:
        """A hash of the resolved input, the same wherever it is computed."""
        text = json.dumps([[i.key, plain(i.value)] for i in self.inputs.values()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain data as schemas/result.schema.json describes it. Equal for equal input."""
        data = {
            "version": __version__,
            "plan": {
                "name": self.plan.name,
                "document": self.document,
                "set": [f"{key}={text}" for key, text in self.plan.document.overrides],
                "fingerprint": self.fingerprint(),
            },
            "verdict": dict(self.verdict),
            "inputs": {
                entry.key: {"value": plain(entry.value), "origin": entry.origin}
                for entry in self.inputs.values()
            },
            "quantities": {q.id: q.to_json() for q in self.quantities.values()},
            "absent": dict(self.absent),
        }
        if self.advice is not None:
            data["advice"] = self.advice.to_json()
        if self.step_parts:
            data["step_parts"] = dict(self.step_parts)
        if self.comparison is not None:
            data["comparison"] = self.comparison.to_json()
        return data
