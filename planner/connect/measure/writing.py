"""An accelerator document from what was measured, as YAML with comments."""

from __future__ import annotations

from planner.base.display import one_line, quote_json
from planner.base.numbers import plain_text
from planner.connect.measure.machine import Measurements
from planner.connect.measure.rates import Share
from planner.documents.editing import Tree, write_document


def write_device(found: Measurements, name: str | None = None) -> str:
    """Write the YAML text. It validates, holds no date, and its keys stand in a fixed order.

    Args:
        found: the measurements.
        name: its name; that of the device if None.

    Raises:
        PlanError: `name` is none that a document can have.
    """
    machine = found.machine
    where = f"PyTorch {machine.torch} on {one_line(machine.name)}"
    head = [f"# Written by plan.py measure: {where}."]
    keys, tree = ["efficiency"], Tree()
    if found.extends is None:
        head += [
            "# A peak is the fastest run of its kind, with what small sizes cost divided out;",
            "# efficiency holds the median as a share of it, and where 5 to 95 % of the runs lie.",
        ]
    else:
        said = f"# Shares are of the figures of {found.extends}: the median, and where 5 to 95 % of"
        head += [said, "# the runs lie, with what small sizes cost divided out."]
        tree["extends"] = _quote_line(found.extends)
    tree["name"] = _quote_line(name or machine.name)
    if found.extends is None:
        tree |= {"architecture": machine.architecture} if machine.architecture else {}
        tree["memory"] = f"{machine.memory // 2**20} MiB"
        tree["memory_bandwidth"] = _scale_value(found.bandwidth, "B/s")
        keys = ["memory", "memory_bandwidth", *keys]
        for key, value in found.list_facts().items():
            tree[key] = _scale_value(value, "Hz") if key == "clock" else value
    peaks = [form for form in found.peaks if form not in found.base.get("peaks", ())]
    if peaks:
        keys.append("peaks")
        rates = {form: _scale_value(found.peaks[form], "FLOP/s") for form in peaks}
        tree["peaks"] = {k: f"{{value: {v}, convention: dense}}" for k, v in rates.items()}
    if found.link is not None:
        link = tree["link"] = Tree()
        if found.base.get("link") is None:
            keys.append("link")
            host = f"gloo, {found.backend.processes} processes of one host"
            link["name"] = _quote_line("NCCL" if found.gpu else host)
            link["bandwidth"] = _scale_value(found.link[0], "B/s")
            link["convention"] = "per-direction"
            link |= {} if found.gpu else {"topology": "host"}
        link["latency"] = f"{plain_text(found.link[1] * 1e6, 4)} us"
    shares = tree["efficiency"] = Tree()
    for key, share in found.efficiency.items():
        shares |= {f"# {key} {i}": remark for i, remark in enumerate(share.remarks)}
        shares[key] = {"value": _format_value(share, share.value)}
        if share.interval is not None:
            ends = ", ".join(_format_value(share, end) for end in share.interval)
            shares[key]["interval"] = f"[{ends}]"
        shares[key]["rows"] = _quote_line(share.rows)
    said = _quote_line(f"measured with plan.py measure, {where}")
    tree["sources"] = [f"keys: [{', '.join(keys)}]\n    text: {said}\n    confirmed: true"]
    return write_document(head, tree, "accelerator")


def _format_value(share: Share, value: float) -> str:
    """Format a value to four digits, seconds in µs."""
    return f"{plain_text(value * 1e6, 4)} us" if share.unit == "s" else plain_text(value, 4)


def _quote_line(text: str) -> str:
    """Quote a YAML scalar: JSON's strings are YAML's."""
    return quote_json(one_line(text))


def _scale_value(value: float, unit: str) -> str:
    """Format a value to four digits with a decimal prefix."""
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{plain_text(value / size, 4)} {prefix}{unit}"
    return f"{plain_text(value, 4)} {unit}"
