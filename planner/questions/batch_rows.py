"""The rows of a batch: layouts as combinations of degrees and what these are crossed with."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from planner.plans import layout
from planner.plans.layout import KERNELS
from planner.questions.batch_graph import Kind

Array = NDArray[Any]
#: Degrees that divide all devices, and those that divide the devices of a stage once more.
OUTER, INNER = (layout.at(place) for place in (layout.OUTER, layout.INNER))
#: Virtual stages and schedule of a pipeline, and how its layers are cut where that is a choice.
Run = tuple[int, str, str | None]
#: Sequence parallelism, replicas, and as (n, 2) the pipelines (place in ``runs``) with their
#: micro-batches, of which those for as many stages and as many sequences of one kind are the same.
Crossed = tuple[tuple[bool, ...], tuple[int, ...], Array]


@dataclass(frozen=True, eq=False)
class Degrees:
    """One combination of degrees that the plan's checks accept, and what follows from it.

    ``share`` are the sequences of a batch for each data-parallel rank; ``others`` says which of
    the plans that differ in more than their layout these are degrees of.
    """

    values: tuple[int, ...]
    data: int
    share: int
    implementation: str
    loss: str
    said: bool = False  # the implementation is a choice, and does not follow from the degrees
    others: int = 0

    @property
    def kind(self) -> Hashable:
        """What its layouts have in common besides degrees."""
        return self.others, self.implementation, self.loss

    @cached_property
    def kernels(self) -> dict[str, str]:
        """What the plan of such a layout says of its kernels."""
        return {KERNELS: self.implementation} if self.said else {}

    @cached_property
    def changes(self) -> dict[str, int]:
        """The degrees as changes of a plan."""
        return dict(zip((*OUTER, *INNER), self.values, strict=True))

    @cached_property
    def named(self) -> dict[str, int]:
        return dict(zip(layout.DEGREES, self.values, strict=True))


class Layouts(Protocol):
    """The layouts of a batch. ZeRO stage and recomputation go with every row, so they are axes of
    their own; each combination of degrees is crossed with the rest."""

    zero: tuple[int, ...]
    recompute: tuple[str, ...]

    @property
    def degrees(self) -> tuple[Degrees, ...]: ...

    @property
    def runs(self) -> tuple[Run, ...]: ...

    @property
    def crossed(self) -> tuple[Crossed, ...]: ...

    def kind(self, degrees: Degrees) -> Kind:
        """A plan with some degrees, with its case."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Layouts without ZeRO stage and recomputation, as columns (rows,): places in ``degrees`` and
    in ``runs`` of their space, and values."""

    space: Layouts
    of_degrees: Array
    of_run: Array
    of_sequence: Array
    of_replicate: Array
    of_batch: Array

    def __len__(self) -> int:
        return len(self.of_degrees)

    @property
    def columns(self) -> tuple[Array, ...]:
        """All columns, each (rows,), in the order of the fields."""
        return self.of_degrees, self.of_run, self.of_sequence, self.of_replicate, self.of_batch

    @property
    def own(self) -> dict[str, Array]:
        """What each layout says itself, as (rows,) by key."""
        return dict(zip(layout.OWN, self.columns[2:], strict=True))


def chosen(values: Iterable[Any], places: Array) -> tuple[list[Any], Array]:
    """Values without those that repeat others, and of each row the place of its own among them, as
    (rows,); from the place (rows,) of each row's among all."""
    codes: dict[Any, int] = {}
    of_values = [codes.setdefault(value, len(codes)) for value in values]
    return [*codes], np.array(of_values)[places]
