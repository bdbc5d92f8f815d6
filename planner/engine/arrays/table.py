"""Rows that differ in a few columns, grouped by their values in some of those columns.

What depends on few columns is computed once for each distinct combination of their values: a
``Group`` has one place for each combination, and maps each row of the table to its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
#: A group of at most so many places serves all subsets of its columns.
FEW = 512
#: A group with more than this share of its parent's places is not built.
SHARE = 0.7
#: Combinations are numbered by a table of flags where that is no larger than so many rows.
FLAGS = 16


@dataclass(frozen=True, eq=False)
class Codes:
    """A column (rows,): for each row the index of its value among ``count`` values."""

    of_row: Array
    count: int


class Group:
    """The distinct combinations of some columns, its places.

    ``first`` is (places,), a row that has each; ``of_parent`` (places of the parent,).
    """

    def __init__(
        self, mask: int, first: Array, parent: Group | None = None, of_parent: Array | None = None
    ) -> None:
        """Keep the places of a group.

        Args:
            mask: bits of the columns that decide the group.
            first: the first row of each place, shape (places,).
            parent: a finer group that it was made from.
            of_parent: the place here of each place there, shape (places of the parent,).
        """
        self.mask, self.first = mask, first
        self.parent, self.of_parent = parent, of_parent
        self.count = len(first)

    def find_places(self, rows: Array) -> Array:
        """Return the places (rows,) of some rows (rows,) of the table."""
        if self.parent is None or self.of_parent is None:
            return rows
        return self.of_parent[self.parent.find_places(rows)]

    @cached_property
    def of_rows(self) -> Array:
        """The places of all rows, as (rows,)."""
        if self.parent is None or self.of_parent is None:
            return self.first
        return self.of_parent[self.parent.of_rows]


class Table:
    """Rows with named columns."""

    def __init__(self, size: int, columns: Mapping[str, Codes]) -> None:
        """Make the table of so many rows.

        Args:
            size: rows.
            columns: codes by name; a code numbers the distinct values of the column.
        """
        self.size, self.columns = size, columns
        self.bits = {name: 1 << place for place, name in enumerate(columns)}
        self.all = Group((1 << len(columns)) - 1, np.arange(size))
        self._groups: dict[int, Group] = {self.all.mask: self.all}
        self._distinct: list[Group] = [self.all]
        self._places: dict[tuple[Group, Group], Array] = {}

    def encode_mask(self, names: Sequence[str]) -> int:
        """Encode a set of columns as a bit mask."""
        return sum({self.bits[name] for name in names})

    def find_group(self, mask: int) -> Group:
        """Return the group of the columns of a mask, or a slightly larger one of more columns."""
        found = self._groups.get(mask)
        if found is None:
            found = parent = min(
                (group for group in self._distinct if group.mask & mask == mask),
                key=lambda group: group.count,
            )
            if parent.count > FEW:
                made = self.build_group(mask, parent)
                if made.count <= SHARE * parent.count:
                    self._distinct.append(made)
                    found = made
            self._groups[mask] = found
        return found

    def map_places(self, of: Group, at: Group) -> Array:
        """Map each place of the finer group ``at`` to its place in ``of``, as (places,)."""
        if (of, at) not in self._places:
            self._places[of, at] = of.find_places(at.first)
        return self._places[of, at]

    def build_group(self, mask: int, parent: Group | None = None) -> Group:
        """Build the group of exactly the columns of a mask, without duplicate places, from a
        ``parent`` that distinguishes at least as much."""
        parent = parent or self.all
        codes: Array = np.zeros(parent.count, dtype=np.int64)
        size = 1
        columns = (self.columns[name] for name, bit in self.bits.items() if mask & bit)
        for column in sorted(columns, key=lambda column: column.count):
            if size * column.count > FLAGS * parent.count + FEW:
                codes, first = number_codes(codes, size)
                size = len(first)
            codes = codes * np.int64(column.count) + column.of_row[parent.first]
            size *= column.count
        codes, first = number_codes(codes, size)
        return Group(mask, parent.first[first], parent, codes)


def number_codes(codes: Array, size: int) -> tuple[Array, Array]:
    """Renumber codes below ``size`` without gaps, in the same order; also return the first index of
    each."""
    if size <= FLAGS * len(codes) + FEW:
        first: Array = np.full(size, -1, dtype=np.int32)
        first[codes] = np.arange(len(codes), dtype=np.int32)
        there = np.flatnonzero(first >= 0)
        first_of: Array = first[there]
        first[there] = np.arange(len(there), dtype=np.int32)
        return first[codes], first_of
    _, places, inverse = np.unique(codes, return_index=True, return_inverse=True)
    return inverse.ravel(), places
