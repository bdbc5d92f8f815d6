"""What the pipelines of a batch hold and keep: each distinct stage once, whichever has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planner.engine import instance
from planner.engine.arrays.table import Array
from planner.engine.evaluate import Entry
from planner.plans import pipeline
from planner.plans.document import Stage
from planner.questions.batch_graph import OF_COMPONENT, OF_PART, Kind
from planner.questions.batch_rows import Layouts

#: What a stage holds and what it keeps, by part.
Line = tuple[tuple[tuple[str, int], ...], tuple[tuple[str, int], ...]]


class Pipelines:
    """The pipelines of a batch, each as the indices of its distinct stages."""

    def __init__(self, layouts: Layouts, kinds: Sequence[Kind], of_degrees: Sequence[int]) -> None:
        """Find the distinct stages of all pipelines.

        Args:
            layouts: the layouts of the batch.
            kinds: the kinds of plans.
            of_degrees: index in ``kinds`` of each combination of degrees, (degrees,).
        """
        self.layouts, self.kinds = layouts, kinds
        self._lines: dict[tuple[int, Line], int] = {}
        self._known: dict[tuple[Any, ...], tuple[int, ...]] = {}  # pipelines, by what decides
        decide = [(kind.layers, kind.plan.get("training.recompute_layers")) for kind in kinds]
        #: For each kind, the first one with the same layers and the same recomputation.
        self.alike = [decide.index(one) for one in decide]
        #: The pipelines that differ in what their stages hold and keep.
        self.shapes: dict[tuple[int, ...], int] = {}
        #: Index among these of every pipeline (stages, run, micro-batches, kind).
        self.places: dict[tuple[int, int, int, int], int] = {}
        every = zip(layouts.degrees, of_degrees, layouts.crossed, strict=True)
        shares = {(d.named["pipeline"], d.share, kind): batches for d, kind, (*_, batches) in every}
        for (stages, share, kind), batches in shares.items():
            for run, size in batches.tolist():
                at = (stages, run, share // size, kind)
                if at not in self.places:
                    self.places[at] = self.shapes.setdefault(self._pipeline(*at), len(self.shapes))

    def _pipeline(self, stages: int, run: int, micro_batches: int, kind: int) -> tuple[int, ...]:
        """Return the distinct stages of a pipeline.

        Args:
            stages: number of stages.
            run: index of its virtual stages, schedule and cut among ``layouts.runs``.
            micro_batches: micro-batches of a step; more than can be in flight count as that many.
            kind: index of the kind.

        Returns:
            Indices of lines (``build_lines``).
        """
        virtual, schedule, chosen = self.layouts.runs[run]
        most = pipeline.max_in_flight(stages, schedule)
        micro_batches = micro_batches if most is None else min(micro_batches, most)
        plan, alike, lines = self.kinds[kind].plan, self.alike[kind], self._lines
        layout, vocab = plan.data["parallelism"], plan.get("model.vocab")
        cut, given = chosen or layout.get("cut"), str(layout.get("stages"))
        key = (alike, vocab, stages, virtual, schedule, micro_batches, cut, given)
        if key not in self._known:
            layout = {**layout, "pipeline": stages, "virtual_pipeline": virtual, "cut": cut}
            layers = self.kinds[kind].layers
            found = _filter_stages(
                pipeline.build_stages(layers, layout, schedule, micro_batches, vocab)
            )
            self._known[key] = tuple(lines.setdefault((alike, s), len(lines)) for s in found)
        return self._known[key]

    def build_lines(self) -> Array:
        """Return what each distinct stage binds the crossed symbols to, as (recompute, lines,
        positions in a line)."""
        entry = Entry("stage", "")
        table = []
        for number, (holds, alive) in self._lines:
            kind = self.kinds[number]
            parts, components = kind.case.entries("part"), kind.case.entries("component")
            most = [instance.limit_recompute(kind.plan, mode) for mode in self.layouts.recompute]
            counts = dict(holds), dict(alive)
            kept = [instance.bind_parts(*counts, entry, parts, m) for m in most]
            of_parts = [[float(k[s, entry, p]) for s in OF_PART for p in parts] for k in kept]
            held = instance.bind_components(dict(holds), entry, components)
            of_components = [held[s, entry, c] for s in OF_COMPONENT for c in components]
            table.append([[*line, *of_components] for line in of_parts])
        return np.array(table, dtype=np.float64).transpose(1, 0, 2)


def _filter_stages(stages: Sequence[Stage]) -> list[Line]:
    """Return what stages hold and keep, without stages that hold the same as an earlier one and
    keep no more: uneven cuts repeat themselves."""
    found: list[Stage] = []
    for stage in stages:
        if not any(
            stage.holds == other.holds
            and all(other.alive[part] >= count for part, count in stage.alive.items())
            for other in found
        ):
            found.append(stage)
    return [(tuple(sorted(s.holds.items())), tuple(sorted(s.alive.items()))) for s in found]
