"""A cluster document with the rates that one's own runs sustained, as YAML with comments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from planner.base import numbers
from planner.base.display import format_flow, one_line
from planner.base.numbers import plain_text
from planner.base.version import format_versions
from planner.connect.calibrate.fit import NORMAL, Rate
from planner.connect.calibrate.laboratory import Calibration, describe_rate
from planner.documents import references
from planner.documents.editing import Tree, write_document
from planner.documents.yaml_nodes import Node

#: A number with its unit, which needs no quotes.
_BARE = re.compile(r"[0-9][0-9A-Za-z .%/]*(?<! )")


def write_cluster(found: Calibration, name: str, date: str) -> str:
    """Write the cluster of the first run with the rates that were fitted, as YAML that validates.

    Args:
        found: the fit and its runs.
        name: what reports call it, the file's.
        date: of today, YYYY-MM-DD.
    """
    tree = _build_cluster(found, name, date)
    return write_document(_write_fit_head(found, date), tree, "cluster")


def _write_fit_head(found: Calibration, date: str) -> Iterator[str]:
    """Yield the comments at the top of a file: how far predictions are from each run's measured
    step."""
    yield f"# Written by plan.py calibrate on {date}, {format_versions()}."
    yield "# A step as measured; how far off predictions are by shipped rates, by those"
    yield "# below, by a fit without the run. A plan that extends this says its own devices."
    for run, seconds in found.list_predictions():
        changes = (each / float(run.seconds) - 1 for each in seconds.values())
        shares = [numbers.text(each, style="change") for each in changes]
        yield f"#   {one_line(run.name)}: {numbers.text(run.seconds, 's')}, {', '.join(shares)}"
    errors = (numbers.text(each, style="share") for each in found.list_errors().values())
    yield f"#   mean error: {', '.join(errors)}"


def _build_cluster(found: Calibration, name: str, date: str) -> Tree:
    """Build the cluster document of the runs, with fitted rates, intervals and a source.

    Args:
        found: the calibration.
        name: the name of the calibration.
        date: the date of the source.
    """
    cluster = found.given[0].plan.document.find_node(("cluster",))
    tree, fit = _build_tree(cluster), found.fit
    accelerator = tree["accelerator"]
    rates = accelerator.setdefault("efficiency", {})
    for place, rate in enumerate(fit.rates):
        ends = (_format_digits(rate, fit.find_rate(place, by)) for by in (-NORMAL, NORMAL))
        shipped = f"shipped {_format_digits(rate, rate.value)}"
        by_runs = f"{numbers.text(fit.weigh_runs(place), style='share')} said by the runs"
        rates[f"# {rate.name}"] = f"{describe_rate(rate)}; {shipped}, {by_runs}"
        rates[rate.name] = {
            "value": _format_digits(rate, fit.find_rate(place)),
            "interval": f"[{', '.join(ends)}]",
            "rows": format_flow(found.describe_runs(name)),
        }
    calibration: Tree = {"name": format_flow(name)}
    for band in found.bands:
        low, high = plain_text(band.low, 4), plain_text(band.high, 4)
        said = {"low": low, "high": high, "runs": str(len(found.given))}
        calibration.setdefault(band.workload, {})[band.scale] = said
    accelerator["calibration"] = calibration
    own = {
        "keys": ["accelerator.efficiency", "accelerator.calibration"],
        "text": f"plan.py calibrate on {found.describe_runs(name)}",
        "date": date,
        "confirmed": True,
    }
    tree["sources"] = [*tree.get("sources", ()), format_flow(own)]
    return tree


def _build_tree(node: Node, shipped: bool = False) -> Tree:
    """Collect what a document says: of a built-in accelerator its name and what differs, else
    all."""
    tree: Tree = {}
    if node.reference in references.preset_names("accelerator"):
        tree["extends"], shipped = node.reference, True
    for key, below in node.iter_children():
        whole = not isinstance(below.value, dict)
        if below.origin.kind == "default" or (shipped and whole and below.origin.kind == "preset"):
            continue
        inner = _format_leaf(below) if whole else _build_tree(below, shipped)
        if inner != {}:
            tree[str(key)] = inner
    return tree


def _format_leaf(node: Node) -> Any:
    """Format a value as a YAML flow; a quantity keeps its unit as it was written."""
    if isinstance(node.value, list) and any(isinstance(item.value, dict) for item in node.value):
        return [format_flow(item.plain()) for item in node.value]
    written = node.text if node.unit else None
    return written if written and _BARE.fullmatch(written) else format_flow(node.plain())


def _format_digits(rate: Rate, value: float) -> str:
    """Format four significant digits without an exponent; launch times in µs."""
    if rate.name == "launch":
        return f"{_format_digits(rate._replace(name=''), value * 1e6)} us"
    return plain_text(value, 4)
