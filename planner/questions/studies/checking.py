"""The plan's own checks for many layouts at once.

Each step that completes a plan (``plan.STEPS``, ``plan.list_checks``) is run once for each
combination of what it reads: rows that agree in the keys that a step reads get the same values and
the same faults from it. These keys are listed nowhere: reads are recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from planner.base.errors import Fault
from planner.engine.arrays.table import Array, Codes, Table
from planner.plans.document import Draft, Model, copy_mappings
from planner.plans.plan import STEPS, list_checks

#: Sections of a plan whose keys are recorded one by one; any other is read as a whole.
SECTIONS = ("parallelism", "training")
#: The value in a column of a key that is absent.
MISSING = object()


class KeyColumn:
    """The distinct values of a key, and the index of each row's value, (rows,)."""

    def __init__(self, of_row: Array) -> None:
        """Begin with the index of each row's value, (rows,), and no values yet."""
        self.values: list[Any] = []
        self.of_row = of_row
        self._known: dict[Any, int] = {}

    def code(self, value: Any) -> int:
        """Return the index of a value; a new one is added."""
        nested = isinstance(value, (dict, list))
        key = type(value), repr(value) if nested else value
        place = self._known.setdefault(key, len(self.values))
        if place == len(self.values):
            self.values.append(value)
        return place

    def at(self, row: int) -> Any:
        """Return the value of a row."""
        return self.values[self.of_row[row]]

    def encode_rows(self, rows: Array | slice = slice(None)) -> Codes:
        """Return some rows (rows,), by default all, as a column of a table."""
        return Codes(self.of_row[rows], len(self.values))


class Drafts:
    """The drafts of many plans of one document, which differ in keys of ``SECTIONS``.

    Args:
        draft: their common draft, after its model was built.
        model: its model.
        size: their number.
    """

    def __init__(self, draft: Draft, model: Model | None, size: int) -> None:
        """Begin with drafts that agree in every key."""
        self.document, self.model, self.size = draft.document, model, size
        #: The keys that are the same for all rows, and the columns of the others.
        self.shared: dict[str, Any] = {}
        self.columns: dict[str, KeyColumn] = {}
        for name, held in draft.data.items():
            if name in SECTIONS:
                self.shared |= {f"{name}.{key}": value for key, value in held.items()}
            else:
                self.shared[name] = held
        #: For each step with faults: the run of each row, (rows,), and the faults of each run.
        self._blamed: list[tuple[Array, list[list[Fault]]]] = []

    def run_steps(self) -> None:
        """Run all steps.

        Raises:
            PlanError: a step cannot go on, whatever the layout.
        """
        for step in STEPS:
            self.run_step(step)
        for check in list_checks(self.model):
            self.run_step(partial(check, model=self.model))

    @property
    def faults(self) -> tuple[list[list[Fault]], Array]:
        """The distinct lists of faults, and the index of each row's list, (rows,)."""
        runs = {str(n): Codes(of_rows, len(f)) for n, (of_rows, f) in enumerate(self._blamed)}
        group = (table := Table(self.size, runs)).build_group(table.all.mask)
        found = [
            [fault for of_rows, faults in self._blamed for fault in faults[of_rows[row]]]
            for row in group.first
        ]
        return found, group.of_rows

    def get_column(self, key: str) -> KeyColumn:
        """Return the column of a key over all rows, (rows,), even if it is the same for all."""
        if key in self.columns:
            return self.columns[key]
        column = KeyColumn(np.zeros(self.size, dtype=np.int64))
        column.code(self.shared.get(key, MISSING))
        return column

    def assign_changes(self, of_rows: Array, changes: Sequence[Mapping[str, Any]]) -> None:
        """Assign to each row the changes at its index in ``of_rows``, (rows,)."""
        for key in dict.fromkeys(key for changed in changes for key in changed):
            column = self.columns[key] = self.get_column(key)
            codes = np.array([column.code(c[key]) if key in c else -1 for c in changes])[of_rows]
            column.of_row = np.where(codes >= 0, codes, column.of_row)
            if (column.of_row == column.of_row[0]).all():
                self.shared[key] = self.columns.pop(key).at(0)

    def run_step(self, step: Callable[[Draft], None]) -> None:
        """Run one step, once for each combination of the keys that it reads."""
        told: set[str] = set()
        while True:
            table = Table(self.size, {key: self.columns[key].encode_rows() for key in told})
            group, seen = table.build_group(table.all.mask), set[str]()
            drafts = [self._build_draft(row, seen) for row in group.first.tolist()]
            for draft in drafts:
                step(draft)
            seen &= self.columns.keys()
            if seen <= told:
                break
            told |= seen
        self.assign_changes(group.of_rows, [draft.data.list_changes() for draft in drafts])
        if any(draft.faults for draft in drafts):
            self._blamed.append((group.of_rows, [draft.faults for draft in drafts]))

    def _build_draft(self, row: int, seen: set[str]) -> Draft:
        """Build the draft of a row, which records in ``seen`` the keys that are read."""
        trees = {name: _Watched(f"{name}.", {}, seen) for name in SECTIONS}
        trees[""] = _Watched("", dict(trees), seen)
        own = {key: column.at(row) for key, column in self.columns.items()}
        for key, value in {**self.shared, **own}.items():
            section, _, name = key.rpartition(".")
            if value is not MISSING:
                trees[section].source[name] = value
        return Draft(self.document, trees[""])


class _Watched(MutableMapping[str, Any]):
    """A mapping that records which of its keys are read; values are copied when they are."""

    def __init__(self, before: str, source: dict[str, Any], seen: set[str]) -> None:
        """Begin without reads.

        Args:
            before: the dotted section of its keys, with the last dot.
            source: the values.
            seen: collects the dotted keys that are read.
        """
        self._before, self.source, self._seen = before, source, seen
        self._own: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        self._seen.add(f"{self._before}{key}")
        if key not in self._own:
            self._own[key] = copy_mappings(self.source[key])
        return self._own[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._own[key] = value

    def __delitem__(self, key: str) -> None:
        raise TypeError("no step takes a key away")

    def __iter__(self) -> Iterator[str]:
        keys = {**self.source, **self._own}
        self._seen.update(f"{self._before}{key}" for key in keys)
        return iter(keys)

    def __len__(self) -> int:
        return len(list(self))

    def list_changes(self) -> dict[str, Any]:
        """Return the keys that got another value, by dotted key."""
        found: dict[str, Any] = {}
        for key, value in self._own.items():
            given = self.source.get(key, MISSING)
            same = value is given or (type(value) is type(given) and bool(value == given))
            if isinstance(value, _Watched):
                found |= value.list_changes()
            elif not same:
                found[self._before + key] = value
        return found
