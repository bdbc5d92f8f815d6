"""An accelerator document from what was measured, as YAML with comments."""

from __future__ import annotations

from collections.abc import Iterator

from planner.base.display import one_line, quote_json
from planner.base.numbers import plain_text
from planner.connect.measure.machine import Measurements
from planner.connect.measure.rates import Share
from planner.documents import schema, source, yaml_nodes


def write_device(found: Measurements, name: str | None = None) -> str:
    """Write the YAML text. It validates, holds no date, and its keys stand in a fixed order.

    Raises:
        PlanError: `name` is none that a document can have.
    """
    text = "".join(f"{line}\n" for line in _write_lines(found, name))
    data = yaml_nodes.parse_plain(text, "<measured>")
    schema.validate(source.load(data, kind="accelerator"), "accelerator")
    return text


def _write_lines(found: Measurements, name: str | None) -> Iterator[str]:
    """Yield the lines of an accelerator document.

    Args:
        found: the measurements.
        name: its name; that of the device if None.
    """
    machine = found.machine
    where = f"PyTorch {machine.torch} on {one_line(machine.name)}"
    yield f"# Written by plan.py measure: {where}."
    if found.extends is None:
        yield "# A peak is the fastest run of its kind, with what small sizes cost divided out;"
        yield "# efficiency holds the median as a share of it, and where 5 to 95 % of the runs lie."
    else:
        yield f"# Shares are of the figures of {found.extends}: the median, and where 5 to 95 % of"
        yield "# the runs lie, with what small sizes cost divided out."
        yield f"extends: {_quote_line(found.extends)}"
    yield f"name: {_quote_line(name or machine.name)}"
    keys = ["efficiency"]
    if found.extends is None:
        if machine.architecture:
            yield f"architecture: {machine.architecture}"
        yield f"memory: {machine.memory // 2**20} MiB"
        yield f"memory_bandwidth: {_scale_value(found.bandwidth, 'B/s')}"
        keys = ["memory", "memory_bandwidth", *keys]
        for key, value in found.list_facts().items():
            yield f"{key}: {_scale_value(value, 'Hz') if key == 'clock' else value}"
    peaks = [form for form in found.peaks if form not in found.base.get("peaks", ())]
    if peaks:
        keys.append("peaks")
        yield "peaks:"
        for form in peaks:
            rate = _scale_value(found.peaks[form], "FLOP/s")
            yield f"  {form}: {{value: {rate}, convention: dense}}"
    if found.link is not None:
        yield "link:"
        if found.base.get("link") is None:
            keys.append("link")
            host = f"gloo, {found.backend.processes} processes of one host"
            yield f"  name: {_quote_line('NCCL' if found.gpu else host)}"
            yield f"  bandwidth: {_scale_value(found.link[0], 'B/s')}"
            yield "  convention: per-direction"
            if not found.gpu:
                yield "  topology: host"
        yield f"  latency: {plain_text(found.link[1] * 1e6, 4)} us"
    yield "efficiency:"
    for key, share in found.efficiency.items():
        yield from _write_share(key, share)
    yield "sources:"
    yield f"  - keys: [{', '.join(keys)}]"
    yield f"    text: {_quote_line(f'measured with plan.py measure, {where}')}"
    yield "    confirmed: true"


def _write_share(key: str, share: Share) -> Iterator[str]:
    """Yield the lines of one share, with its remarks as comments."""
    for remark in share.remarks:
        yield f"  # {remark}"

    def format_value(value: float) -> str:
        return f"{plain_text(value * 1e6, 4)} us" if share.unit == "s" else plain_text(value, 4)

    yield f"  {key}:"
    yield f"    value: {format_value(share.value)}"
    if share.interval is not None:
        yield f"    interval: [{', '.join(map(format_value, share.interval))}]"
    yield f"    rows: {_quote_line(share.rows)}"


def _quote_line(text: str) -> str:
    """Quote a YAML scalar: JSON's strings are YAML's."""
    return quote_json(one_line(text))


def _scale_value(value: float, unit: str) -> str:
    """Format a value to four digits with a decimal prefix."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{plain_text(value / size, 4)} {prefix}{unit}"
    return f"{plain_text(value, 4)} {unit}"
