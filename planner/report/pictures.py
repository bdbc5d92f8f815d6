"""The data of figures of memory and time: pipeline stages, and kernels under the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Any, NamedTuple

from planner.base import numbers
from planner.base.display import clean, headline
from planner.base.numbers import format_column
from planner.base.sandbox import Record
from planner.book.notation import L_k
from planner.engine.lower import Entry
from planner.report.chart import list_steps, make_axis, tick
from planner.report.derivations import label_entry
from planner.report.elements import Axes, Label, Link
from planner.report.layout import MOMENTS
from planner.report.roofline import Roofline, place_kernels
from planner.results.result import Result

#: Parts of a column, from the bottom up.
LIVE = ("weights", "cache", "gradients", "optimizer", "activations", "buffers")
MOST = 8  # panels
#: The box of a panel of memory, where its columns stand, how high a part is that has its
#: name, how wide a letter of that is, a column at most, and the height of a line of text.
PANEL = Axes(width=372, height=196, left=30, right=372, top=24, bottom=162)
NAMED, LETTER, WIDEST, TEXT = 14, 5.6, 90, 12


class Held(NamedTuple):
    """The bytes on a device of some pipeline stages, by moment and part.

    Attributes:
        stages: numbers of the stages, counted from 1.
        parts: bytes by part, for each moment of a step.
    """

    stages: tuple[int, ...]
    parts: tuple[dict[str, Fraction], ...]

    @property
    def sizes(self) -> list[Fraction]:
        """The sum of each moment."""
        return [sum(parts.values(), Fraction(0)) for parts in self.parts]

    @property
    def peak(self) -> tuple[Fraction, dict[str, Fraction]]:
        """The sum of the fullest moment, and its parts."""
        return max(zip(self.sizes, self.parts, strict=True), key=lambda pair: pair[0])


class Panel(Record):
    """The columns of a pipeline stage, one for each moment of a step.

    Attributes:
        shapes: the path of each part by its name.
        labels: the names of parts that are high enough.
        tops: the sum of each column; the fullest has the style b.
        sizes: the sums as they are printed.
        title, note: the stages, and what is said of them.
        text: the panel in words.
    """

    shapes: dict[str, str]
    labels: list[Label]
    tops: list[Label]
    sizes: Sequence[str]
    title: str = ""
    note: str = ""
    text: str = ""


class MemoryFigure(Record):
    """The memory of devices at each moment of a step.

    Attributes:
        axes: the box of a panel.
        panels: one for each distinct stage.
        limit: the height of the capacity; None if columns are far from it.
        named: the height of its name.
        thin: parts without a label in any panel.
        title, said: what it shows, and sentences below it.
        capacity: of a device, as printed.
        moments: what the columns are called, on two lines.
    """

    axes: Axes
    panels: Sequence[Panel]
    limit: float | None
    named: float
    thin: list[str]
    title: str = ""
    said: str = ""
    capacity: str = ""
    moments: Sequence[tuple[str, str]] = ()


def plot_memory(result: Result) -> MemoryFigure | None:
    """Return the memory of devices at each moment of a step: one panel for each distinct pipeline
    stage, at most eight, on one scale. None if the model has no shape."""
    phases, groups = result.list_entries("phase"), group_stages(result)
    capacity = result.get("memory.capacity")
    if not groups or capacity is None:
        return None
    count = max(number for one in groups for number in one.stages)
    fullest = max(groups, key=lambda one: max(one.sizes))
    sizes = [size for one in groups for size in one.sizes]
    unit, texts = format_column([*sizes, capacity.number], "bytes")
    most = format_column([max(sizes)], "bytes")[1][0]
    scale = Fraction(max(sizes) / Fraction(most.replace(",", "")))
    figure = build_panels(
        [[list(held.items()) for held in one.parts] for one in groups],
        [texts[i * len(phases) : (i + 1) * len(phases)] for i in range(len(groups))],
        float(capacity.number),
        float(scale),
    )
    panels = []
    for one, panel in zip(groups, figure.panels, strict=True):
        title = format_stages(one.stages) if count > 1 else "Each device"
        note = "at most" if len(one.stages) > 1 else ""
        if one is fullest and len(groups) > 1:
            note = "fullest"
        moments = zip(map(label_entry, phases), panel.sizes, strict=True)
        heard = ", ".join(f"{name} {text}" for name, text in moments)
        panels.append(replace(panel, title=title, note=note, text=f"{title}: {heard} {unit}"))
    said = [f"a device has {numbers.text(capacity.value, 'bytes')}"]
    if len(phases) > 1:
        said.insert(0, "Live tensors at the fullest moments of a step, on one scale")
    process, total = result.get("memory.process"), result.get("memory.total")
    if process is not None and total is not None:
        beyond = numbers.text(process.number - total.number, "bytes")
        live, whole = total.text(), process.text()
        said.append(f"allocator and runtime add {beyond} to the peak, {live} live and {whole} used")
    words = headline("; ".join(said)) + "."
    if any(len(one.stages) > 1 for one in groups):
        words += " Similar stages share a panel; the fullest is shown."
    return replace(
        figure,
        panels=panels,
        title=f"Live tensors of a device, {unit}",
        said=words,
        capacity=texts[-1],
        moments=[MOMENTS.get(phase.name, (label_entry(phase), "")) for phase in phases],
    )


def build_panels(
    stages: Sequence[Sequence[Sequence[tuple[str, Any]]]],
    sizes: Sequence[Sequence[str]],
    capacity: float,
    scale: float,
) -> MemoryFigure:
    """Return columns of parts, a panel for each stage, all on one scale.

    Args:
        stages: of each stage, at each moment, parts by name in bytes, lowest first.
        sizes: the sums as they are printed.
        capacity: bytes of a device, a line where columns come near it.
        scale: bytes of the unit of the axis.

    Returns:
        Panels with the paths and labels of their parts, the ticks, and the place of the capacity.
    """
    of, moments = PANEL, len(stages[0])
    most = max(float(sum(v for _, v in held)) for stage in stages for held in stage)
    limit = capacity if capacity < 1.4 * most else None
    top = max(most, limit or 0)
    y = make_axis(0, top, of.bottom, of.top)
    line = y(limit or 0)
    wide = min(WIDEST, (of.right - of.left) / moments)
    named, found = set[str](), []
    for number, (stage, texts) in enumerate(zip(stages, sizes, strict=True)):
        shapes: dict[str, str] = {}
        labels, tops = [], []
        whole = [sum(value for _, value in held) for held in stage]
        for column, held in enumerate(stage):
            left, below = round(of.left + column * wide + 1, 1), 0.0
            for name, value in held:
                low, below = y(below), below + float(value)
                high = round(low - y(below), 1)
                if not high:
                    continue
                shapes[name] = (
                    shapes.get(name, "") + f"M{left} {low}v-{high:g}h{wide - 2:g}v{high:g}z"
                )
                fits = high >= NAMED and len(name) * LETTER < wide - 6
                if not number and name not in named and fits:
                    named.add(name)
                    place = round(low - high / 2 + 4, 1)
                    labels.append(Label(left + 5, place, name))
            look = "b" if column == whole.index(max(whole)) else "q"
            middle, above = round(left - 1 + wide / 2, 1), round(y(below) - 5, 1)
            if above - TEXT < line < above + 4:  # which would strike the number out
                above = line - 4
            tops.append(Label(middle, above, texts[column], look))
        found.append(Panel(shapes, labels, tops, texts))
    marks = [mark for mark in list_steps(top / scale) if mark * scale <= top]
    ticks = [(y(mark * scale), tick(mark)) for mark in marks]
    names = dict.fromkeys(name for one in found for name in one.shapes)
    beside = [each.y for each in found[0].tops if each.x > of.right - WIDEST]
    near = [height for height in beside if abs(height - line + 5) < TEXT]
    return MemoryFigure(
        replace(of, y_ticks=ticks),
        found,
        limit=None if limit is None else line,
        named=min(near, default=line + TEXT - 5) - TEXT,
        thin=[name for name in names if name not in named],
    )


def group_stages(result: Result) -> list[Held]:
    """Return the memory of each distinct pipeline stage, at most eight groups; empty if the model
    has no shape."""
    phases, found = result.list_entries("phase"), list[Held]()
    for entry in result.list_entries("stage"):
        first, _, last = entry.name.partition("-")
        held = tuple(_read_live_bytes(result, entry, phase) for phase in phases)
        found.append(Held(tuple(range(int(first) + 1, int(last or first) + 2)), held))
    return _merge_alike(found) if all(size > 0 for one in found for size in one.sizes) else []


def _read_live_bytes(result: Result, stage: Entry, phase: Entry) -> dict[str, Fraction]:
    """Read the live bytes on a stage in a phase.

    Args:
        result: the result.
        stage, phase: entries of the axes ``stage`` and ``phase``.

    Returns:
        Bytes by part, in the order of ``LIVE``; empty if the result lacks the quantity.
    """
    live = result.get(f"memory.live[{stage.path},{phase.path}]")
    values = {
        term.id.split(".")[1]: Fraction(term.value)
        for term in (live.terms if live is not None else [])
        if term.id is not None and not isinstance(term.value, str)
    }
    return {name: values[name] for name in LIVE if name in values}


def _merge_alike(found: Sequence[Held]) -> list[Held]:
    """Merge stages that print alike; then merge the most similar neighbours, the ends apart, until
    there are few enough. The fuller one represents both."""
    alike: dict[tuple[str, ...], Held] = {}
    for one in found:
        key = tuple(numbers.text(size, "bytes") for size in one.sizes)
        alike[key] = _merge_groups(alike[key], one) if key in alike else one
    groups = list(alike.values())
    while len(groups) > MOST:
        pairs = list(pairwise(groups))
        apart = [
            max(abs(a - b) for a, b in zip(one.sizes, other.sizes, strict=True))
            for one, other in pairs[1:-1]
        ]
        at = 1 + apart.index(min(apart))
        groups[at : at + 2] = [_merge_groups(*pairs[at])]
    return groups


def _merge_groups(one: Held, other: Held) -> Held:
    """Merge two groups; the fuller one represents both."""
    fuller = max(one, other, key=lambda held: max(held.sizes))
    return Held((*one.stages, *other.stages), fuller.parts)


def format_stages(stages: Sequence[int]) -> str:
    """Format the numbers of stages, neighbours as a range."""
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(sorted(stages)), key=lambda pair: pair[1] - pair[0])
    ]
    said: list[str] = []
    for run in runs:
        said += [f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run)
    words = " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said)
    return f"Stage{'s' if len(stages) > 1 else ''} {words}"


def kernels(result: Result) -> Roofline | None:
    """Return the roofline of the most frequent kind of layer: its kernels and the step as a whole.
    None if the roof or the kernels are unknown, or if utilisation is assumed."""
    if result.assumes_utilisation:
        return None
    known, peak, ridge = result.quantities, result.get("time.peak"), result.get("roofline.ridge")
    if peak is None or ridge is None or not ridge.number:
        return None
    layers = [part for part in result.list_entries("part") if part.settings.get("layers")]
    value = result.evaluation.compute
    layer = max(layers, key=lambda part: float(value(L_k, {"part": part})), default=None)
    if layer is None:
        return None
    dots, said = list[Label](), list[str]()
    for quantity in known.values():
        base, _, name = quantity.base.rpartition(".")
        inside = (within for entry in quantity.entries[:1] for within in entry.around.values())
        if name != "intensity" or layer not in inside:
            continue
        path, kind = quantity.entries[0].path, base.rpartition(".")[2]
        flops, spent = known[f"{base}.flops[{path}]"], known.get(f"time.{kind}.forward[{path}]")
        names = quantity.entries[0].path.split(".")[1:]  # without the layer: attention output
        label = clean(" ".join(names).replace("_", " ")) + (" core" if kind == "core" else "")
        said.append(f"{label} {quantity.text()}")
        if spent is not None and spent.number:
            rate = float(flops.number / spent.number)
            dots.append(Label(float(quantity.number), rate, label))
    if not dots:
        return None
    # The step as a whole: its model FLOP/s, at the intensity of all its kernels.
    intensity, tflops = result.get("roofline.intensity"), result.get("time.tflops_per_device")
    if intensity is not None and tflops is not None and tflops.number:
        rate = float(tflops.number) * 1e12
        dots.append(Label(float(intensity.number), rate, "whole step", "own"))
    return replace(
        place_kernels(float(peak.number), float(peak.number / ridge.number), dots),
        ridge=Link(ridge.id, ridge.text()),
        text=", ".join(said),
        layer=label_entry(layer),
    )
