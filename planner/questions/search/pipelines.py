"""What the pipelines of a space hold and keep: each distinct stage once, whoever has it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.base.recent import recent
from planner.book import notation
from planner.engine import instance as case
from planner.engine.evaluate import Entry
from planner.plans import pipeline
from planner.plans.document import Plan, Stage
from planner.plans.layout import RUN
from planner.plans.plan import with_keys
from planner.questions.search.layouts import Space

Array = NDArray[Any]
#: What a stage holds and what it keeps, by part.
Line = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]
#: Crossed symbols of a stage with each part, and with each component, in the order of a line.
OF_PART = (notation.layers_on_stage, notation.in_flight, notation.recomputed_in_flight)
OF_COMPONENT = (notation.copies_on_stage, notation.first_on_stage)


class Pipelines:
    """The pipelines of a space; ``plans`` are one for each set of kernels, ``kernels`` the place in
    them of each combination of degrees."""

    def __init__(self, space: Space, plans: Sequence[Plan], kernels: Sequence[int]) -> None:
        self.space, self.plans, self.kernels = space, plans, kernels
        self._lines: dict[Line, int] = {}
        model = space.plan.model
        assert model is not None
        self._known = _known(model.sequence, space.plan.get("model.vocab"))

    def _pipeline(self, stages: int, run: int, micro_batches: int, kernels: int) -> tuple[int, ...]:
        """The distinct stages of a pipeline, as places in ``lines``."""
        virtual, schedule, chosen = self.space.runs[run]
        most = pipeline.most_alive(stages, schedule)
        micro_batches = micro_batches if most is None else min(micro_batches, most)
        plan = self.plans[kernels]
        cut, given = (plan.data["parallelism"].get(key) for key in ("cut", "stages"))
        cut = chosen or cut
        assert plan.model is not None
        costs = str(pipeline.weights(plan.model)) if cut == "compute" else ""
        key = (stages, virtual, schedule, micro_batches, cut, str(given), costs)
        if key not in self._known:
            chosen_keys = dict(zip(RUN, (virtual, schedule, cut), strict=True))
            data = with_keys(plan.data, {**chosen_keys, "parallelism.pipeline": stages})
            layout = data["parallelism"]
            found = pipeline.stages(
                plan.model, layout, schedule, micro_batches, plan.get("model.vocab")
            )
            self._known[key] = tuple(_line(found[i]) for i in _fullest(found))
        lines = self._lines
        return tuple(lines.setdefault(line, len(lines)) for line in self._known[key])

    @cached_property
    def all(self) -> dict[tuple[int, int, int, int], tuple[int, ...]]:
        """Every pipeline of the space: stages, run, micro-batches, kernels."""
        found: dict[tuple[int, int, int, int], tuple[int, ...]] = {}
        seen = set()
        for degrees, place, (_, _, batches) in zip(
            self.space.degrees, self.kernels, self.space.crossed, strict=True
        ):
            share = self.space.batch // degrees.data
            key = (degrees.values[1], share, int(place))
            if key in seen:
                continue
            seen.add(key)
            for run, size in batches.tolist():
                at = (degrees.values[1], run, share // size, int(place))
                if at not in found:
                    found[at] = self._pipeline(*at)
        return found

    @cached_property
    def slots(self) -> int:
        """Distinct stages of the pipeline that has most."""
        return max(map(len, self.all.values()))

    @cached_property
    def shapes(self) -> dict[tuple[int, ...], int]:
        """The pipelines that differ in what their stages hold and keep."""
        found: dict[tuple[int, ...], int] = {}
        for lines in self.all.values():
            found.setdefault(lines, len(found))
        return found

    def of_slots(self, slots: int) -> Array:
        """The line of each slot of each shape; a pipeline with fewer stages repeats its first."""
        return np.array([[*shape, *shape[:1] * (slots - len(shape))] for shape in self.shapes])

    def lines(self, parts: tuple[Entry, ...], components: tuple[Entry, ...]) -> Array:
        """What each distinct stage binds the crossed symbols to: over recomputation, lines and
        places in a line."""
        modes = self.space.recompute
        most = [case.recomputed_at_most(self.space.plan, mode) for mode in modes]
        entry = Entry("stage", "")
        of_components: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        table = []
        for holds, alive in self._lines:
            counts = dict(holds), dict(alive)
            kept = [case.on_stage(*counts, entry, parts, m) for m in most]
            of_parts = [[float(k[s, entry, p]) for s in OF_PART for p in parts] for k in kept]
            if holds not in of_components:
                crossed, *_ = kept  # what a stage holds is the same in every mode
                held = case.held_on_stages((entry,), components, crossed)
                first = case.first_of_shape((entry,), components, crossed)
                of_components[holds] = (
                    *(held[notation.copies_on_stage, entry, c] for c in components),
                    *(first[notation.first_on_stage, entry, c] for c in components),
                )
            table.append([[*line, *of_components[holds]] for line in of_parts])
        return np.array(table, dtype=np.float64).transpose(1, 0, 2)


@recent(4)
def _known(layers: Any, vocab: Any) -> dict[tuple[Any, ...], tuple[Line, ...]]:
    """What is known of the pipelines of models that have the same layers in the same order, however
    wide; to be filled, for further searches."""
    return {}


def _line(stage: Stage) -> Line:
    return tuple(sorted(stage.holds.items())), tuple(sorted(stage.alive.items()))


def _fullest(stages: Sequence[Stage]) -> list[int]:
    """Without stages that hold the same as an earlier one and keep no more: uneven cuts repeat
    themselves."""
    kept: dict[tuple[Any, ...], list[int]] = {}
    for index, stage in enumerate(stages):
        same = kept.setdefault(tuple(sorted(stage.holds.items())), [])
        if not any(
            all(stages[i].alive.get(part, 0) >= count for part, count in stage.alive.items())
            for i in same
        ):
            same.append(index)
    return sorted(index for same in kept.values() for index in same)
