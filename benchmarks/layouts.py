"""Where published layouts stand among all layouts of their own runs, under our model.

    python -m benchmarks.layouts [--runs FILE] [--markdown PAGE]

For each published layout: its rank by predicted step time among the layouts that fit and that its
authors could choose from, as a share of them, and how much longer its step takes than the best.
What the source leaves open (a micro-batch, say) takes its best value. A layout that does not fit by
our model has no rank; what it lacks is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks import tables
from planner.base import numbers
from planner.base.errors import PlanError
from planner.plans.document import Plan
from planner.questions.domains import yield_starts
from planner.questions.loading import load
from planner.questions.search import engine
from planner.results.verdict import FITS

LAYOUTS = Path(__file__).parent.parent / "tests" / "data" / "published_layouts.yaml"
QUANTITIES = (FITS, engine.MEMORY, engine.STEP)
Row = dict[str, Any]
HEADS = ("run", "layouts that fit", "rank", "best", "step against the best")


def rows(path: Path) -> Iterator[Row]:
    """Each published layout with its figures."""
    data = yaml.safe_load(path.read_text("utf-8"))
    for layout in data["layouts"]:
        yield row(layout, data["kinds"][layout["kind"]])


def row(layout: Mapping[str, Any], kind: Mapping[str, Any]) -> Row:
    plan = some_plan(layout["plan"])
    given = {key: (value,) for key, value in layout["given"].items()}
    own, missing, _ = _steps(plan, {**kind["open"], **given})
    every, _, fitting = _steps(plan, kind["open"])
    found: Row = {
        "name": layout["name"],
        "source": kind["source"],
        "layouts": fitting,
        "best": float(every.min()) if fitting else None,
    }
    if not len(own):
        return {**found, "lacks": missing}
    time = float(own.min())
    faster = int(np.count_nonzero(every < time * (1 - 1e-9)))
    return {**found, "step": time, "rank": faster + 1, "share": (faster + 1) / fitting}


def _steps(plan: Plan, options: Mapping[str, Any]) -> tuple[Any, float, int]:
    """Step times of the layouts that fit, what the nearest lacks, and how many fit."""
    found, least = [], -np.inf
    for chunk in engine.Walk(plan, QUANTITIES, options):
        room, step = chunk.values[FITS], chunk.values[engine.STEP]
        there = chunk.valid & np.isfinite(step)
        found.append(step[there & (room >= 0)])
        if there.any():
            least = max(least, float(room[there].max()))
    steps = np.concatenate(found) if found else np.empty(0)
    return steps, -least, len(steps)


def some_plan(document: Mapping[str, Any]) -> Plan:
    """The plan with some valid layout, for a search to start from."""
    devices = document["cluster"]["devices"]
    own = {f"parallelism.{key}": value for key, value in document.get("parallelism", {}).items()}
    failure: PlanError | None = None
    for changes in yield_starts(devices):
        try:
            return load({**document, "name": "a published run"}, {**own, **changes})
        except PlanError as error:
            failure = error
    assert failure is not None
    raise failure


def lines(found: Iterable[Row]) -> list[tuple[str, ...]]:
    """A row for each published layout."""
    table: list[tuple[str, ...]] = [HEADS]
    for one in found:
        cells = f"lacks {numbers.text(one['lacks'], 'bytes')}" if "lacks" in one else "", "", ""
        if "step" in one:
            behind = max(0.0, one["step"] / one["best"] - 1)  # rounding
            cells = f"{one['rank']:,}", f"{100 * one['share']:.1f} %", f"+{100 * behind:.1f} %"
        table.append((one["name"], f"{one['layouts']:,}", *cells))
    return table


def main() -> None:
    parser = tables.make_parser(__doc__, needs=False)  # whose rows are documents of layouts
    options = parser.parse_args()
    found = [one for file in options.runs or [LAYOUTS] for one in rows(file)]
    tables.publish(options, "published layouts", lines(found), found)


if __name__ == "__main__":
    main()
