"""The plan's own checks for many layouts at once.

Each step that completes a plan (``plan.STEPS``, ``plan.CHECKS``) is run once for each combination
of what it reads: rows that agree in the keys that a step was seen to read get the same values and
the same faults from it. Which keys those are is not written down anywhere: they are watched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.base.errors import Fault
from planner.engine.arrays.table import Codes, Group, Table
from planner.plans.document import Draft, Model
from planner.plans.plan import CHECKS, STEPS, copied

Array = NDArray[Any]
#: Sections of a plan whose keys are told apart; any other one is read as a whole.
SECTIONS = ("parallelism", "training")
#: What a key that is not given holds in a column.
MISSING = object()


class Column:
    """The values of a key, and the place of each row's, as (rows,)."""

    def __init__(self, of_row: Array) -> None:
        self.values: list[Any] = []
        self.of_row = of_row
        self._known: dict[Any, int] = {}

    def code(self, value: Any) -> int:
        """The place of a value, which is added where it is new."""
        try:
            key = (type(value), value)
            found = self._known.get(key)
        except TypeError:  # a mapping or a list
            same = (i for i, known in enumerate(self.values) if known == value)
            found, key = next(same, None), None
        if found is None:
            found = len(self.values)
            self.values.append(value)
            if key is not None:
                self._known[key] = found
        return found

    def at(self, row: int) -> Any:
        """The value of a row."""
        return self.values[self.of_row[row]]


@dataclass(frozen=True, eq=False)
class _Outcome:
    """What a step did to one row."""

    changed: Mapping[str, Any]
    faults: tuple[Fault, ...]


class Drafts:
    """The drafts of many plans of one document, which differ in keys of ``SECTIONS``.

    Args:
        draft: their common draft, its model lowered.
        model: its model.
        columns: the keys in which they differ.
        size: how many they are.
    """

    def __init__(
        self, draft: Draft, model: Model | None, columns: Mapping[str, Column], size: int
    ) -> None:
        self.document, self.model, self.size = draft.document, model, size
        #: What is the same for all rows, where no column says otherwise.
        self.sections = {name: dict(draft.data[name]) for name in SECTIONS}
        self.whole = {name: held for name, held in draft.data.items() if name not in SECTIONS}
        self.columns = dict(columns)
        self.faults = Column(np.zeros(size, dtype=np.int64))
        self.faults.code(())

    def complete(self) -> None:
        """Run all steps.

        Raises:
            PlanError: a step cannot go on, whatever the layout.
        """
        for step in STEPS:
            self.run(step)
        if self.model is not None:
            for check in CHECKS:
                self.run(partial(check, model=self.model))

    @property
    def valid(self) -> Array:
        """Which rows have no fault, as (rows,)."""
        faultless = np.array([not faults for faults in self.faults.values])
        found: Array = faultless[self.faults.of_row]
        return found

    def column(self, key: str) -> Column:
        """A key over all rows, (rows,), which may be the same for all."""
        if key in self.columns:
            return self.columns[key]
        column = Column(np.zeros(self.size, dtype=np.int64))
        section, dot, name = key.partition(".")
        column.code(
            self.sections[section].get(name, MISSING) if dot else self.whole.get(key, MISSING)
        )
        return column

    def _share(self, key: str, value: Any) -> None:
        self.columns.pop(key, None)
        section, dot, name = key.partition(".")
        if dot:
            self.sections[section][name] = value
        else:
            self.whole[key] = value

    def run(self, step: Callable[[Draft], None]) -> None:
        """One step, once for each combination of what it reads."""
        told: set[str] = set()
        while True:
            group, seen = self._group(told), set[str]()
            outcomes = [self._tried(step, row, seen) for row in group.first.tolist()]
            seen &= self.columns.keys()
            if seen <= told:
                return self._take(group.of_rows, outcomes)
            told |= seen

    def _group(self, told: set[str]) -> Group:
        columns = {
            key: Codes(self.columns[key].of_row, len(self.columns[key].values)) for key in told
        }
        table = Table(self.size, columns)
        return table.exact(table.mask(list(columns)))

    def _tried(self, step: Callable[[Draft], None], row: int, seen: set[str]) -> _Outcome:
        tree = _Tree(self, row, seen)
        draft = Draft(self.document, tree)
        step(draft)
        return _Outcome(tree.changed(), tuple(draft.faults))

    def _take(self, of_rows: Array, outcomes: list[_Outcome]) -> None:
        """What a step did, to every row that is like the one that it was tried on."""
        for key in dict.fromkeys(key for outcome in outcomes for key in outcome.changed):
            column = self.column(key)
            codes = np.array(
                [column.code(o.changed[key]) if key in o.changed else -1 for o in outcomes]
            )[of_rows]
            column.of_row = np.where(codes >= 0, codes, column.of_row)
            if (column.of_row == column.of_row[0]).all():
                self._share(key, column.at(0))
            else:
                self.columns[key] = column
        if any(outcome.faults for outcome in outcomes):
            before, new = self.faults, Column(of_rows)
            pairs = before.of_row * len(outcomes) + of_rows
            distinct, places = np.unique(pairs, return_inverse=True)
            both = (divmod(int(pair), len(outcomes)) for pair in distinct)
            codes = np.array([new.code(before.values[a] + outcomes[b].faults) for a, b in both])
            new.of_row = codes[places.ravel()]
            self.faults = new


class _Watched(dict[str, Any]):
    """A mapping that says which of its keys are read."""

    def __init__(self, values: Mapping[str, Any], before: str, seen: set[str]) -> None:
        super().__init__(values)
        self._before, self._seen = before, seen

    def __getitem__(self, key: str) -> Any:
        self._seen.add(self._before + key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._seen.add(self._before + key)
        return super().get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._seen.add(self._before + key)
        return super().setdefault(key, default)

    def __contains__(self, key: object) -> bool:
        self._seen.add(f"{self._before}{key}")
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        self._seen.update(self._before + key for key in super().__iter__())
        return super().__iter__()

    def keys(self) -> Any:
        return list(self)

    def values(self) -> Any:
        return [self[key] for key in self]

    def items(self) -> Any:
        return [(key, self[key]) for key in self]


class _Tree(dict[str, Any]):
    """The tree of one row's draft: keys of ``SECTIONS`` are watched, other sections are copied when
    they are asked for."""

    def __init__(self, drafts: Drafts, row: int, seen: set[str]) -> None:
        super().__init__()
        self._drafts, self._row, self._seen = drafts, row, seen
        self._before: dict[str, Any] = {}
        for name, shared in drafts.sections.items():
            held = dict(shared)
            for key, column in drafts.columns.items():
                section, dot, inner = key.partition(".")
                if dot and section == name:
                    held[inner] = column.at(row)
            held = {key: value for key, value in held.items() if value is not MISSING}
            self._before[name] = held
            super().__setitem__(name, _Watched(copied(held), f"{name}.", seen))

    def get(self, key: str, default: Any = None) -> Any:
        self._fetch(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._fetch(key)
        return super().__getitem__(key)

    def setdefault(self, key: str, default: Any = None) -> Any:
        self._fetch(key)
        return super().setdefault(key, default)

    def _fetch(self, key: str) -> None:
        if super().__contains__(key):
            return
        self._seen.add(key)
        column = self._drafts.columns.get(key)
        value = self._drafts.whole.get(key, MISSING) if column is None else column.at(self._row)
        if value is not MISSING:
            self._before[key] = value
            super().__setitem__(key, copied(value))

    def changed(self) -> dict[str, Any]:
        """What the step gave another value."""
        found: dict[str, Any] = {}
        for name in super().__iter__():
            held = super().__getitem__(name)
            if name in SECTIONS:
                before = self._before[name]
                found |= {
                    f"{name}.{key}": value
                    for key, value in dict.items(held)
                    if key not in before or not _same(value, before[key])
                }
            elif name not in self._before or not _same(held, self._before[name]):
                found[name] = held
        return found


def _same(one: Any, other: Any) -> bool:
    return one is other or (type(one) is type(other) and bool(one == other))
