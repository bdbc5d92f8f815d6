"""The report with sliders: the same page, and a program in it that computes its numbers anew.

The program is planner.report.what_if's translation of this plan's rules and formulas; the page
first computes the plan as it is and says so if it does not find the numbers of the report.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from planner.base import resources
from planner.base.display import plain
from planner.base.errors import Fault, PlanError
from planner.plans.document import Plan
from planner.plans.plan import about
from planner.report import facts
from planner.report.figures import COLOURS
from planner.report.layout import KEY_FIGURES, PREFIXES, prefix
from planner.report.numbers import Data, clean, headline
from planner.report.report import page
from planner.report.view import view_of
from planner.report.what_if import controls
from planner.results.result import Quantity, Result

#: Sums that are drawn as bars.
BARS = (
    "memory.total",
    "time.step_seconds",
    "parameters.total",
    "compute.forward_flops_per_token",
)
#: What a change of layout moves, beside the key figures.
FURTHER = (
    "memory.headroom",
    "memory.headroom_p95",
    "layout.data",
    "layout.micro_batches",
    "time.device_hours",
)


def html(result: Result) -> str:
    """The interactive report as one file; its only script is named by a hash in its policy.

    Raises:
        PlanError: a rule or a formula of the plan has no JavaScript.
    """
    listed = _listed(result)
    text = _script(result, listed)
    policy = b64encode(sha256(text.encode()).digest()).decode()
    labels = {row.id: row.label for row in KEY_FIGURES}
    every: dict[str, list[Data]] = {}
    for quantity in listed:
        start = prefix(quantity.id)
        row = _row(quantity, headline(quantity.title))
        every.setdefault(PREFIXES.get(start, start.capitalize()), []).append(row)
    known = {quantity.id: quantity for quantity in listed}
    first = [known[name] for name in (*labels, *FURTHER) if name in known]
    return page(
        "interactive.html.jinja",
        view=view_of(result),
        script=text,
        policy=policy,
        figures=[_row(q, labels.get(q.id, headline(q.title))) for q in first],
        every=every,
        bars=[_row(known[base], headline(known[base].title)) for base in BARS if base in known],
        groups=controls.groups(result.plan),
    )


def _row(quantity: Quantity, label: str) -> Data:
    """A quantity of the plan as it stands."""
    absent = quantity.absent is not None
    text = "–" if absent else facts.brief(quantity).removesuffix(" parameters")
    return Data(id=quantity.id, label=label, title=label, text=text)


def _listed(result: Result) -> list[Quantity]:
    """Every quantity of the plan that has no axes; those of another choice may be absent now."""
    book = result.evaluation.book.quantities
    return [result.find(base) for base, quantity in book.items() if not quantity.per]


def _script(result: Result, listed: list[Quantity]) -> str:
    """The whole program of the page, without empty lines."""
    from planner.report.what_if.program import program
    from planner.report.what_if.rules import Untranslated, quoted

    folder = resources.folder("templates") / "interactive"
    parts = {
        name: resources.read_text(folder / f"{name}.js") for name in ("python", "graph", "page")
    }
    try:
        made = program(result, BARS)
    except Untranslated as error:
        raise PlanError(Fault(f"this plan has no interactive page: {error}")) from error
    data = f"const PAGE={quoted(plain(_page(result, listed)))};"
    lines = "\n".join((parts["python"], parts["graph"], made, data, parts["page"]))
    return "\n" + "\n".join(line for line in lines.splitlines() if line.strip()) + "\n"


def _page(result: Result, listed: list[Quantity]) -> Mapping[str, Any]:
    """What the page needs beside the program: its controls and the numbers of the report."""
    return {
        "plan": clean(result.document or "PLAN.yaml"),
        "overrides": [
            *(f"{key}={clean(text)}" for key, text in result.plan.document.overrides),
            *(f"{key}={value}" for key, value in settled(result.plan)),
        ],
        "controls": [
            {"id": control.id, **vars(control)}
            for _, found in controls.groups(result.plan)
            for control in found
        ],
        "quantities": {q.id: [q.unit, q.declared.share] for q in listed},
        "planned": {q.id: q.value for q in listed if q.absent is None},
        "bars": [base for base in BARS if base in {q.id for q in listed}],
        "colours": COLOURS,
        "shape": result.plan.model is not None,
    }


def settled(plan: Plan) -> Iterator[tuple[str, str]]:
    """What a search decided of a plan that left its layout open, as overrides: with them the plan
    keeps this layout, where without them another might be found for other values, such as several
    devices for one."""
    if plan.searched is None:
        if not plan.document.has(("parallelism",)):
            yield "parallelism.auto", "false"
        return
    yield "parallelism.auto", "false"
    for key in sorted(plan.derived):
        given = plan.document.get(key)  # as the search completed it
        if given is not None and given != about(key).get("default"):
            yield key, str(given).lower()
