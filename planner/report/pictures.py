"""What the figures of memory and time show: pipeline stages, and kernels under the roof."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from planner.book.notation import L_k
from planner.report import facts
from planner.report.derivations import place
from planner.report.figures import bar_of, roofline
from planner.report.numbers import Data, shown
from planner.results.result import Result

PARTS = ("weights", "gradients", "optimizer", "activations")


def stages(result: Result, mark: Callable[[str, Fraction], Data]) -> Data | None:
    """A bar for each kind of pipeline stage, on the scale of a device's memory; None of one kind.

    Args:
        mark: a part of a bar by its label, which keeps its colour and pattern throughout a report.
    """
    entries, known = result.entries("stage"), result.quantities
    peaks = [known.get(f"memory.peak[{entry.path}]") for entry in entries]
    sizes = [peak.number for peak in peaks if peak is not None]
    if len(entries) < 2 or len(sizes) < len(entries):
        return None
    whole = max(*sizes, result["memory.capacity"].number)
    rows, said = [], []
    for entry, size in zip(entries, sizes, strict=True):
        found = [known.get(f"memory.{base}.stage[{entry.path}]") for base in PARTS]
        values = [quantity.number for quantity in found if quantity is not None]
        # What lives at the peak may be less than the parts where some are gone by then.
        while values and sum(values) > size:
            values.pop()
        labels = [*PARTS[: len(values)], "buffers" if len(values) == len(PARTS) else "the rest"]
        marks = list(map(mark, labels, [*values, size - sum(values)]))
        bar = bar_of("", "", marks, whole)
        rows.append(Data(label=place(entry), segments=bar.segments if bar else []))
        said.append(f"{place(entry)} {shown(size, 'bytes')}")
    title = "Live tensors by pipeline stage, on the scale of a device's memory"
    return Data(title=title, text=", ".join(said), rows=rows)


def roof(result: Result) -> Data | None:
    """The kernels of the layer kind that there is most of, against the roof of the device, and the
    step as a whole; None where the roof or the kernels are not known."""
    known, peak, ridge = result.quantities, result.get("time.peak"), result.get("roofline.ridge")
    if peak is None or ridge is None or not ridge.number:
        return None
    layers = [part for part in result.entries("part") if part.settings.get("layers")]
    value = result.evaluation.compute
    layer = max(layers, key=lambda part: float(value(L_k, {"part": part})), default=None)
    if layer is None:
        return None
    rows: list[Data] = []
    kernels: list[Data] = []
    for quantity in known.values():
        base, _, name = quantity.base.rpartition(".")
        inside = (within for entry in quantity.entries[:1] for within in entry.around.values())
        if name != "intensity" or layer not in inside:
            continue
        path, kind = quantity.entries[0].path, base.rpartition(".")[2]
        flops, spent = known[f"{base}.flops[{path}]"], known.get(f"time.{kind}.forward[{path}]")
        row = Data(
            mark=str(len(rows) + 1),
            label=place(quantity.entries[0]) + (" core" if kind == "core" else ""),
            cells=[Data(id=q.id, text=facts.brief(q)) for q in (flops, quantity, spent) if q],
            bound="arithmetic" if quantity.number >= ridge.number else "memory",
        )
        rows.append(row)
        rate = float(flops.number / spent.number) if spent is not None and spent.number else None
        kernels.append(Data(mark=row.mark, intensity=float(quantity.number), rate=rate))
    if not rows:
        return None
    timed = any(kernel.rate is not None for kernel in kernels)
    # The step as a whole works at its model FLOP/s, at the intensity of all its kernels.
    intensity, tflops = result.get("roofline.intensity"), result.get("time.tflops_per_device")
    if intensity is not None and tflops is not None and tflops.number:
        rate = float(tflops.number) * 1e12
        kernels.append(Data(mark="step", intensity=float(intensity.number), rate=rate))
    return Data(
        rows=rows,
        columns=["FLOPs", "For each byte", *(["Predicted"] if timed else [])],
        ridge=Data(id=ridge.id, text=facts.brief(ridge)),
        timed=timed,
        step=kernels[-1].mark == "step",
        text=", ".join(f"{row.mark} {row.label} {row.cells[1].text}" for row in rows),
        layer=place(layer),
        figure=roofline(float(peak.number), float(peak.number / ridge.number), kernels),
    )
