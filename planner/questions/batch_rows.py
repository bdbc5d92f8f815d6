"""The rows of a batch: layouts as combinations of degrees and what these are crossed with."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from planner.engine.arrays.table import Array
from planner.plans import layout
from planner.plans.layout import KERNELS
from planner.questions.batch_graph import Kind

#: Degrees that divide all devices, and those that divide the devices of a stage once more.
OUTER, INNER = (layout.filter_keys(place) for place in (layout.OUTER, layout.INNER))
#: Virtual stages and schedule of a pipeline, and how its layers are cut where that is a choice.
Run = tuple[int, str, str | None]
#: Sequence parallelism, replicas, and as (n, 2) the pipelines (index in ``runs``) with their
#: micro-batches; one array for all combinations with equal stages, sequences and kind.
Crossed = tuple[tuple[bool, ...], tuple[int, ...], Array]


@dataclass(frozen=True, eq=False)
class Degrees:
    """One combination of degrees that passes the plan's checks, and what follows from it.

    Attributes:
        values: the degrees, in the order of ``OUTER`` and ``INNER``.
        data: the data-parallel degree.
        share: sequences of a batch for each data-parallel rank.
        implementation: the kernels.
        loss: the implementation of the loss.
        said: whether the implementation is a choice; otherwise it follows from the degrees.
        others: index of the plan among those that differ in more than their layout.
    """

    values: tuple[int, ...]
    data: int
    share: int
    implementation: str
    loss: str
    said: bool = False
    others: int = 0

    @property
    def kind(self) -> Hashable:
        """What its layouts have in common besides degrees."""
        return self.others, self.implementation, self.loss

    @cached_property
    def kernels(self) -> dict[str, str]:
        """The plan's key for the implementation, where that is a choice."""
        return {KERNELS: self.implementation} if self.said else {}

    @cached_property
    def changes(self) -> dict[str, int]:
        """The degrees as changes of a plan."""
        return dict(zip((*OUTER, *INNER), self.values, strict=True))

    @cached_property
    def named(self) -> dict[str, int]:
        """The degrees by their names without the section, such as ``tensor``."""
        return dict(zip(layout.DEGREES, self.values, strict=True))


class Layouts(Protocol):
    """The layouts of a batch. Every row is combined with every ZeRO stage and recomputation mode,
    so these are axes of their own; each combination of degrees is crossed with the rest.

    Attributes:
        recompute: the recomputation modes.
        zero: the ZeRO stages.
        degrees: the combinations of degrees.
        runs: virtual stages, schedule and cut of the pipelines that occur.
        crossed: for each combination of degrees, what it is crossed with.
    """

    recompute: tuple[str, ...]

    @property
    def zero(self) -> tuple[int, ...]: ...

    @property
    def degrees(self) -> tuple[Degrees, ...]: ...

    @property
    def runs(self) -> tuple[Run, ...]: ...

    @property
    def crossed(self) -> tuple[Crossed, ...]: ...

    def get_kind(self, degrees: Degrees) -> Kind:
        """Build a plan with some degrees, and its case."""
        ...


@dataclass(frozen=True, eq=False)
class Rows:
    """Layouts without ZeRO stage and recomputation, as columns (rows,).

    Attributes:
        space: the layouts that the indices refer to.
        of_degrees: index among the degrees of the space.
        of_run: index among the runs of the space.
        of_sequence: whether sequence parallelism is on, as 0 or 1.
        of_replicate: number of replicas.
        of_batch: micro-batch, in sequences.
        of_lane: index among the lanes of the row's kind; None without lanes.
    """

    space: Layouts
    of_degrees: Array
    of_run: Array
    of_sequence: Array
    of_replicate: Array
    of_batch: Array
    of_lane: Array | None = None

    def __len__(self) -> int:
        return len(self.of_degrees)

    @property
    def columns(self) -> tuple[Array, ...]:
        """All columns but the lanes, each (rows,), in the order of the fields."""
        return self.of_degrees, self.of_run, self.of_sequence, self.of_replicate, self.of_batch

    @property
    def own(self) -> dict[str, Array]:
        """Values of the keys that each layout sets itself, as (rows,) by key."""
        return dict(zip(layout.OWN, self.columns[2:], strict=True))


def encode_values(values: Iterable[Any], places: Array) -> tuple[list[Any], Array]:
    """Return the distinct values, and for each row the index of its value among them, as (rows,);
    ``places`` (rows,) are indices into ``values``."""
    codes: dict[Any, int] = {}
    of_values = [codes.setdefault(value, len(codes)) for value in values]
    return [*codes], np.array(of_values)[places]
