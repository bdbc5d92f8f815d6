"""Rows that differ in a few columns, and which of them agree in some of those columns.

What depends on few columns is computed once for each distinct combination of their values: a
``Group`` has one place for each combination, and says for each row of the table which one is its.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: A group of no more places serves every set of columns that it tells apart.
FEW = 512
#: A group with more than this share of its parent's places is not worth having.
SHARE = 0.7
#: Combinations are numbered by a table of flags where that is no larger than so many rows.
FLAGS = 16


@dataclass(frozen=True, eq=False)
class Codes:
    """A column (rows,): for each row the place of its value among ``count`` values."""

    of_row: Array
    count: int


class Group:
    """The distinct combinations of some columns, its places.

    ``first`` is (places,), a row that has each; ``of_parent`` (places of the parent,).
    """

    def __init__(
        self, mask: int, first: Array, parent: Group | None = None, of_parent: Array | None = None
    ) -> None:
        self.mask, self.first = mask, first
        self.parent, self.of_parent = parent, of_parent
        self.count = len(first)

    def of(self, rows: Array) -> Array:
        """The places (rows,) of some rows (rows,) of the table."""
        if self.parent is None or self.of_parent is None:
            return rows
        return self.of_parent[self.parent.of(rows)]

    @cached_property
    def of_rows(self) -> Array:
        """The places of all rows, as (rows,)."""
        if self.parent is None or self.of_parent is None:
            return self.first
        return self.of_parent[self.parent.of_rows]


class Table:
    """Rows with named columns.

    ``determined`` says which columns follow from which others, so that two sets of columns that
    tell the same apart share a group. What follows from it is looked up in ``like``, another table
    of the same columns.
    """

    def __init__(
        self,
        size: int,
        columns: Mapping[str, Codes],
        determined: Sequence[tuple[Sequence[str], str]] = (),
        like: Table | None = None,
    ) -> None:
        self.size, self.columns = size, columns
        self.bits = {name: 1 << place for place, name in enumerate(columns)}
        self._rules = [(self.mask(names), self.bits[name]) for names, name in determined]
        # Which columns follow is the same in a table of the same columns.
        alike = like is not None and like.bits == self.bits and like._rules == self._rules
        self._closed: dict[int, int] = like._closed if like is not None and alike else {}
        self.all = Group((1 << len(columns)) - 1, np.arange(size))
        self._groups: dict[int, Group] = {self.all.mask: self.all}
        self._distinct: list[Group] = [self.all]
        self._places: dict[tuple[Group, Group], Array] = {}

    def mask(self, names: Sequence[str]) -> int:
        """A set of columns as one number."""
        found = 0
        for name in names:
            found |= self.bits[name]
        return found

    def closed(self, mask: int) -> int:
        """Some columns and all that follow from them."""
        found = self._closed.get(mask)
        if found is None:
            found, before = mask, -1
            while found != before:
                before = found
                for names, bit in self._rules:
                    if names & found == names:
                        found |= bit
            self._closed[mask] = found
        return found

    def group(self, mask: int) -> Group:
        """The group of the columns of a mask, or a little larger one that tells more apart."""
        mask = self.closed(mask)
        found = self._groups.get(mask)
        if found is None:
            found = self._groups[mask] = self._found(mask)
        return found

    def places(self, of: Group, at: Group) -> Array | None:
        """For each place of a group that tells more apart (``at``), the place in another (``of``),
        as (places,); None where they are the same."""
        if of is at:
            return None
        if (of, at) not in self._places:
            self._places[of, at] = of.of(at.first)
        return self._places[of, at]

    def _found(self, mask: int) -> Group:
        parent = min(
            (group for group in self._distinct if group.mask & mask == mask),
            key=lambda group: group.count,
        )
        if parent.count <= FEW:
            return parent
        made = self._made(mask, parent)
        if made.count > SHARE * parent.count:
            return parent
        self._distinct.append(made)
        return made

    def exact(self, mask: int) -> Group:
        """The group of the columns of a mask, with no two places alike."""
        return self._made(mask, self.all)

    def _names(self, mask: int) -> list[str]:
        """As few columns of a mask as tell the same apart, those with few values first."""
        for bit in sorted(self.bits.values(), key=self._counts.__getitem__, reverse=True):
            if mask & bit and self.closed(mask & ~bit) & bit:
                mask &= ~bit
        names = [name for name, bit in self.bits.items() if mask & bit]
        return sorted(names, key=lambda name: self.columns[name].count)

    @cached_property
    def _counts(self) -> dict[int, int]:
        return {bit: self.columns[name].count for name, bit in self.bits.items()}

    def _made(self, mask: int, parent: Group) -> Group:
        codes: Array = np.zeros(parent.count, dtype=np.int64)
        size = 1
        for name in self._names(mask):
            column = self.columns[name]
            if size * column.count > FLAGS * parent.count + FEW:
                codes, first = numbered(codes, size)
                size = len(first)
            codes = codes * np.int64(column.count) + column.of_row[parent.first]
            size *= column.count
        codes, first = numbered(codes, size)
        return Group(mask, parent.first[first], parent, codes)


def numbered(codes: Array, size: int) -> tuple[Array, Array]:
    """Codes below a size without gaps, in the same order, and for each the first place that has
    it."""
    if size <= FLAGS * len(codes) + FEW:
        first: Array = np.full(size, -1, dtype=np.int32)
        first[codes] = np.arange(len(codes), dtype=np.int32)
        there = np.flatnonzero(first >= 0)
        first_of: Array = first[there]
        first[there] = np.arange(len(there), dtype=np.int32)
        return first[codes], first_of
    _, places, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return inverse.ravel(), places
