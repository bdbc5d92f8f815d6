"""The report with sliders: the same page, and a program in it that computes its numbers anew.

The program is planner.report.what_if's translation of this plan's rules and formulas; the page
first computes the plan as it is and says so if it does not find the numbers of the report.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256

from planner.base import resources
from planner.base.display import clean, headline, plain
from planner.base.errors import Fault, PlanError
from planner.plans.document import Plan
from planner.plans.plan import about
from planner.plans.schedules import OWN
from planner.report import facts
from planner.report.layout import Data, by_prefix
from planner.report.report import page
from planner.report.view import view_of
from planner.report.what_if import controls
from planner.report.what_if.program import program
from planner.report.what_if.rules import Untranslated, quoted
from planner.results.figures import KEY_FIGURES
from planner.results.result import Quantity, Result

COLOURS = 6  # that the parts of a bar take in turn
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
    if result.plan.settings["training.schedule"] == OWN:
        place = result.plan.document.place(("training", "schedule"))
        wrong = "no page with sliders knows a schedule of one's own"
        raise PlanError(Fault(wrong, place, "a schedule that ships, or a report without sliders"))
    # Every quantity that has no axes; those of another choice may be absent now.
    book = result.evaluation.book.quantities
    listed = {base: result.find(base) for base, quantity in book.items() if not quantity.per}
    labels = {row.id: row.label for row in KEY_FIGURES}
    groups = controls.groups(result.plan)
    text = _script(result, listed, [control for _, several in groups for control in several])
    return page(
        "interactive.html.jinja",
        view=view_of(result).to_data(drawn=True),
        script=text,
        policy=b64encode(sha256(text.encode()).digest()).decode(),
        figures=[_row(listed[i], labels.get(i)) for i in (*labels, *FURTHER) if i in listed],
        every=by_prefix(map(_row, listed.values())),
        bars=[_row(listed[base]) for base in BARS if base in listed],
        groups=groups,
    )


def _row(quantity: Quantity, label: str | None = None) -> Data:
    """A quantity of the plan as it stands."""
    absent, label = quantity.absent is not None, label or headline(quantity.title)
    text = "–" if absent else facts.brief(quantity).removesuffix(" parameters")
    return Data(id=quantity.id, label=label, title=label, text=text)


def _script(result: Result, listed: Mapping[str, Quantity], offered: Sequence[Data]) -> str:
    """The whole program of the page, without empty lines, and what it needs beside the rules: the
    controls, and the numbers of the report."""
    folder = resources.folder("templates") / "interactive"
    library, graph, own = (
        resources.read_text(folder / f"{name}.js") for name in ("python", "graph", "page")
    )
    try:
        rules = program(result, BARS)
    except Untranslated as error:
        raise PlanError(Fault(f"this plan has no interactive page: {error}")) from error
    data = {
        "plan": clean(result.document or "PLAN.yaml"),
        "overrides": [
            *(f"{key}={clean(text)}" for key, text in result.plan.document.overrides),
            *(f"{key}={value}" for key, value in settled(result.plan)),
        ],
        "controls": [vars(control) for control in offered],
        "quantities": {q.id: [q.unit, q.declared.share] for q in listed.values()},
        "planned": {q.id: q.value for q in listed.values() if q.absent is None},
        "bars": [base for base in BARS if base in listed],
        "colours": COLOURS,
        "shape": result.plan.model is not None,
    }
    text = "\n".join((library, graph, rules, f"const PAGE={quoted(plain(data))};", own))
    return "\n" + "\n".join(line for line in text.splitlines() if line.strip()) + "\n"


def settled(plan: Plan) -> Iterator[tuple[str, str]]:
    """What a search decided of a plan that left its layout open, as overrides: with them the plan
    keeps this layout, where without them another might be found for other values, such as several
    devices for one."""
    if plan.searched is not None or not plan.document.has(("parallelism",)):
        yield "parallelism.auto", "false"
    for key in sorted(plan.derived) if plan.searched is not None else ():
        given = plan.document.get(key)  # as the search completed it
        if given is not None and given != about(key).get("default"):
            yield key, str(given).lower()
