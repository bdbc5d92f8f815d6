"""What the page finds for somebody: layouts, answers to inverse questions, a chart of one result
over one control; and what stands behind a number: its derivation, the report, what changed.

Each function takes what the page sent and returns plain data with fragments of HTML. What a search,
a question and a chart find they say with the keys that put it into the plan's text (``take``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import wraps
from typing import Any, NamedTuple

from planner.base.display import flow, plain, plain_text
from planner.base.errors import Fault, Place, PlanError
from planner.documents import schema, yaml_nodes
from planner.documents.references import preset_names
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS, KEYS
from planner.plans.plan import NAMED, about, checked
from planner.report.layout import STATUS
from planner.report.numbers import Data, clean, headline
from planner.report.what_if.controls import settings
from planner.serve import page
from planner.serve.page import NAME, fault_of, plan_of

Body = Mapping[str, Any]
Function = Callable[[Body], dict[str, Any]]

#: Layouts that a search draws and lists, and those of its table.
DRAWN, LISTED = 60, 10
#: Values of an axis of a chart at most, characters of a field, and of a sentence.
MOST_VALUES, MOST_TEXT, LONGEST = 40, 300, 2000
#: What a search may make small, and with how much to spare what it finds fits.
SMALL = {"time.step_seconds": "time", "cost.total": "cost", "memory.process": "memory"}
MARGINS = {
    "": "95 % of published runs", "5%": "5 % more than predicted", "0": "what is predicted",
}  # fmt: skip


class Ask(NamedTuple):
    """A question as a button; one that needs a value has the option that takes it, and an example
    of it."""

    question: str
    label: str
    option: str = ""
    example: str = ""


ASKED = (
    Ask("longest-context", "Longest context"),
    Ask("largest-batch", "Largest micro-batch"),
    Ask("fewest-devices", "Fewest devices"),
    Ask("largest-model", "Largest model"),
    Ask("cheapest", "Cheapest accelerator …", "deadline", "90 days"),
    Ask("tokens-by-deadline", "Most tokens by …", "deadline", "30 days"),
    Ask("largest-model-by-deadline", "Largest model by …", "deadline", "30 days"),
    Ask("compute-optimal", "What a budget buys …", "budget", "2M USD"),
)
#: Reports as files, by kind: what a button says, how the file's name ends, its media type.
REPORTS = {
    "html": ("Full report", ".html", "text/html"),
    "md": ("Markdown", ".md", "text/markdown"),
    "json": ("JSON", ".json", "application/json"),
    "trace": ("Timeline (Perfetto)", ".trace.json", "application/json"),
    "interactive": ("Page for offline use", ".html", "text/html"),
}


class _Wrong(PlanError):
    """Faults of what stands in one field of the page."""

    field = ""


@contextmanager
def _field(name: str) -> Iterator[None]:
    """Until the end, faults are told beside a field."""
    try:
        yield
    except PlanError as error:
        wrong = _Wrong(error.faults)
        wrong.field = name
        raise wrong from None


def _told(function: Function) -> Function:
    """A function whose faults are part of what it returns, with the field that they are about."""

    @wraps(function)
    def told(body: Body) -> dict[str, Any]:
        try:
            return function(body)
        except PlanError as error:
            field = error.field if isinstance(error, _Wrong) else ""
            faults = [{**fault_of(one), "field": field} for one in error.faults]
            for one in faults:  # what is an option of a command is a field here
                one["message"] = re.sub(r"--[a-z-]+:? ", "", one["message"])
            return {"faults": faults}

    return told


def _text(body: Body, name: str) -> str:
    """What stands in a field, as one line.

    Raises:
        PlanError: it is too long, or no text.
    """
    value = body.get(name) or ""
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        with _field(name):
            raise PlanError(Fault(f"{name} is no line of text", None, f"{MOST_TEXT} characters"))
    return " ".join(value.split())


def _plan(body: Body, name: str = "text") -> Plan:
    if not isinstance(body.get(name), str):
        raise PlanError(Fault(f"{name} is missing", None, "the text of a plan"))
    return plan_of(body[name])


def _html(template: str, view: Any) -> str:
    from planner.report import report

    return report.page(f"serve/{template}.jinja", view=view)


# search --------------------------------------------------------------------------------------


@_told
def search(body: Body) -> dict[str, Any]:
    """The best layouts, as ``plan.py search`` ranks them: a picture of those near the best, a table
    of the first, and for each the keys that take it.

    The body may say ``by``, ``margin``, ``fixed`` (keys of the layout) and ``limit``.
    """
    from planner.questions.constraints import fit_limit, parse_limit
    from planner.questions.search import choices, engine, ranking
    from planner.questions.write_back import of_searched
    from planner.report import searched

    plan, margin = _plan(body), _text(body, "margin") or None
    by, limit = _text(body, "by") or engine.STEP, _text(body, "limit")
    with _field("fixed"):
        fixed = choices.fixed(plan, map(str, body.get("fixed") or ()))
    with _field("limit"):
        limits = [parse_limit(limit, plan)] if limit else []
    with _field("margin"):
        if margin is not None:
            fit_limit(margin, plan)
    found = engine.search(plan, DRAWN, by, fixed, limits=limits, margin=margin)
    listed = [*found.best] or [one for one in (found.nearest,) if one]
    first, known = listed[:LISTED], [one.changes for one in listed]
    listed += [one for one in found.front if one.changes not in known]
    marks, other = {"this plan": found.own}, body.get("textA")
    if other:
        own = engine.own_layout(_plan(body, "textA"), engine.wanted(by, ()), by)
        marks = {"A": own, "B": found.own}
    marked = {name: layout for name, layout in marks.items() if layout is not None}
    heads, cells = searched.columns_of(found, first)
    assumed = plan.get("time.mfu") is not None and (
        "Time is predicted for each layout; a plan that takes one keeps the utilisation that it "
        "assumes."
    )
    view = Data(
        title=plan.book.quantities[by].title,
        lead=searched.lead(found),
        counted=ranking.counted(found),
        notes=[note for note in (ranking.leeway(found), assumed) if note],
        picture=searched.close(found, marked, listed),
        heads=heads,
        rows=[
            Data(
                take=n,
                label=str(n + 1) if found.best else "nearest",
                numbers=numbers,
                words=searched.differences(one, found) if n else ranking.words(one),
                marks=[name for name, own in marked.items() if _keys(own) == _keys(one)],
            )
            for n, (one, numbers) in enumerate(zip(first, cells, strict=True))
        ],
    )  # fmt: skip
    takes = [{"set": plain(of_searched(plan, one)), "label": ranking.words(one)} for one in listed]
    return {"html": _html("search", view), "takes": takes}


def _keys(layout: Any) -> list[Any]:
    return [layout.get(key) for key in KEYS]


# inverse questions ---------------------------------------------------------------------------


@_told
def solve(body: Body) -> dict[str, Any]:
    """The answer to an inverse question, as ``plan.py solve`` says it, and the keys that take it.

    The body says ``question`` with ``deadline`` or ``budget``, or ``vary`` and ``until``.
    """
    from planner.questions import write_back
    from planner.questions.plan_questions import PlanAnswer, PlanQuestion
    from planner.questions.solve import questions
    from planner.questions.solve.solve import Answer

    plan, question = _plan(body), _text(body, "question") or None
    asked = {ask.question: ask for ask in ASKED}.get(question or "", Ask("", "", "until"))
    given = {name: _text(body, name) for name in ("deadline", "budget", "vary", "until")}
    said: dict[str, Any] = {name: text for name, text in given.items() if text}
    if question is None:
        with _field("vary"):
            about(given["vary"])
        if not given["until"]:
            with _field("until"):
                raise PlanError(Fault("a limit is missing", None, "memory.process <= 70 GiB"))
    with _field(asked.option):
        ready = questions.prepare(plan, question, **said)
    found = ready()
    name = asked.label.removesuffix(" …") or f"{given['vary']} until {given['until']}"
    answer = PlanAnswer(PlanQuestion(name, said, Place(NAME), ready), found)
    changes: dict[str, Any] = {}
    if isinstance(found, Answer) and found.holds is not None:
        changes = plain(write_back.of_answer(plan, found))
    view = Data(
        name=clean(name, LONGEST),
        sentence=clean(answer.sentence, LONGEST),
        tables=[[[clean(cell) for cell in row] for row in table] for table in answer.tables],
        remarks=[clean(remark, LONGEST) for remark in answer.remarks],
        changes=[f"{k}: {flow(v)}" for k, v in changes.items() if v is not None],
    )
    takes = [{"set": changes, "label": name}] if changes else []
    return {"html": _html("asked", view), "takes": takes}


# a chart -------------------------------------------------------------------------------------


@_told
def chart(body: Body) -> dict[str, Any]:
    """One result over one control: a study of one axis, evaluated, drawn and as a document.

    The body says ``quantity``, ``key`` and perhaps ``values``, with commas between them.
    """
    import yaml

    from planner.questions.constraints import known_to_batch, numeric
    from planner.questions.studies import study as studies
    from planner.report.study_api import Study

    plan, key, quantity = _plan(body), _text(body, "key"), _text(body, "quantity")
    with _field("quantity"):
        numeric(quantity, plan.book)
        known_to_batch(quantity, plan.book)
    with _field("key"):
        about(key)
    with _field("values"):
        values = _values(plan, key, _text(body, "values"))
        root = yaml_nodes.compose(body["text"], NAME)
        assert root is not None  # it is a plan
        document = {
            "name": f"{plan.name or 'A plan'}: {plan.book.quantities[quantity].title} over {key}",
            "base": plain(root.plain()),
            "axes": {key: values},
            "record": list(dict.fromkeys((quantity, "memory.process"))),
            "invalid": "keep",
        }
        study = studies.load(document)
        rows = list(Study(study).rows())
    saved = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    takes = [{"set": {key: value}, "label": f"{key}: {value}"} for value in values]
    html = _html("chart", _view(plan, quantity, study, rows))
    points = [{"value": row[quantity], "verdict": row["verdict"]} for row in rows]
    return {"html": html, "points": points, "takes": takes, "study": saved}


def _values(plan: Plan, key: str, text: str) -> list[Any]:
    """The values of an axis: those given, or what is allowed, or halves and doubles of the plan's.

    Raises:
        PlanError: too many, or none can be proposed.
    """
    from planner.questions.write_back import as_written

    node = yaml_nodes.compose(f"[{text}]", "values")
    given = node.plain() if node is not None else []
    if len(given) > MOST_VALUES:
        raise PlanError(Fault(f"{len(given)} values", None, f"at most {MOST_VALUES}"))
    said, now = about(key), plan.get(key)
    if given or said.get("enum"):
        return given or [one for one in said["enum"] if one is not None]
    if said.get("type") == "boolean":
        return [False, True]
    if key in NAMED:
        return preset_names(NAMED[key])[:MOST_VALUES]
    if not isinstance(now, (int, Fraction)) or not now:
        raise PlanError(Fault(f"{key}: which values?", None, "values with commas between them"))

    def allowed(value: Any) -> bool:
        try:
            return bool(checked(key, value))
        except PlanError:
            return False

    tried = (now * Fraction(2) ** power for power in range(-3, 4))
    whole = (int(value) if value.denominator == 1 else value for value in tried)
    written = [as_written(key, value) for value in whole if allowed(value)]
    return [plain_text(one) if isinstance(one, Fraction) else one for one in written]


def _view(plan: Plan, quantity: str, study: Any, rows: Sequence[Mapping[str, Any]]) -> Data:
    """The points of a study of one axis, for the template."""
    from planner.report import chart as charts
    from planner.report.numbers import scale, shown
    from planner.report.searched import TALL
    from planner.report.study import label_of

    axis, declared = study.axes[0], plan.book.quantities[quantity]
    values = [study.document_of(n).get(axis.name) for n in range(study.size)]
    body = [
        Data(
            take=n,
            label=label_of(axis, axis.choices[n].label),
            x=float(values[n]) if axis.numeric else float(n),
            value=row[quantity],
            text="–" if row[quantity] is None
            else shown(Fraction(row[quantity]), declared.unit, declared.share),
            state=row["verdict"] or "open",
            word=STATUS[row["verdict"]][1] if row["verdict"] else "",
            why=clean(row["reason"] or "", LONGEST),
            own=values[n] == plan.document.get(axis.name),
        )
        for n, row in enumerate(rows)
    ]  # fmt: skip
    view = Data(title=headline(declared.title), key=axis.name, chart=None, rows=body)
    known = [row for row in body if row.value is not None]
    if len(known) < 2:
        return view
    unit, size = scale(max(abs(Fraction(row.value)) for row in known) or 1, declared.unit)
    if declared.share:
        unit, size = "%", Fraction(1, 100)
    at = {row.take: (row.x, float(Fraction(row.value) / size)) for row in known}
    words, own = {row.x: row.label for row in body}, [at[row.take] for row in known if row.own]
    names = axis.name, view.title + (f", {unit}" if unit not in ("1", "–", "") else "")
    ticks = [row.x for row in known]
    plane = charts.Plane([*at.values()], names, (lambda x: words[x], charts.tick), ticks, TALL)
    plane.keep_free(at.values())
    shapes = {"no": charts.CROSS, "tight": charts.TRIANGLE, "open": "h0", "fits": "h0"}
    kept = {state: [at[row.take] for row in known if row.state == state] for state in shapes}
    view.chart = Data(
        plane=plane,
        marks={state: plane.dots(some, shapes[state]) for state, some in kept.items() if some},
        line=plane.line(sorted(at.values())) if axis.numeric else "",
        chosen=plane.at(own[0]) if own else None,
        best=plane.labels([(point, "this plan") for point in own], far=True),
        dots=[
            Data(x=x, y=y, r=10, take=row.take, look="hit",
                 text=", ".join(filter(None, (f"{row.label}: {row.text}", row.word.lower()))))
            for row in known for x, y in [plane.at(at[row.take])]
        ],
        states=[(state, STATUS[state][1].lower()) for state in ("tight", "no") if kept[state]],
        late=None, ends=[], whisker=None, labels=[],
    )  # fmt: skip
    return view


# what stands behind a number -----------------------------------------------------------------


@_told
def why(body: Body) -> dict[str, Any]:
    """How a quantity is made, as the report derives it; of an input its value, who decided it and
    what uses it. The body says its ``id``."""
    from planner.questions.plan_questions import evaluate
    from planner.report.derivations import Derivations, grouped, inputs_of
    from planner.report.facts import brief, with_interval
    from planner.report.view import input_text
    from planner.results.lookup import input_called, look_up

    plan, asked = _plan(body), _text(body, "id")
    result = evaluate(plan)
    key = input_called(result, asked)
    view = Data(id=key, about="", origin="", kind="", item=None, inputs=[], uses=[], line=None)
    if key is not None:
        one, notes = result.inputs[key], result.evaluation.book.notation.values()
        symbols = {note.symbol for note in notes if note.dotted == key}
        users = (
            q for q in result.quantities.values() if symbols & {use[0] for use in q.trace.uses}
        )
        view.title, view.value, view.origin = key, input_text(one), clean(one.origin)
        view.about = clean((schema.describe("plan", key) or {}).get("description", ""), LONGEST)
        view.uses, view.line = grouped(users), _line(plan, key)
        return {"html": _html("why", view), "id": view.id}
    alike = [one for one in result.quantities.values() if asked in (one.id, one.base)]
    quantity = alike[0] if alike else look_up(result, asked)
    view.id, view.title, view.kind = quantity.id, headline(quantity.title), quantity.kind
    if quantity.absent is not None:
        view.value, view.about = "not answered", clean(quantity.absent, LONGEST)
        return {"html": _html("why", view), "id": view.id}
    items = Derivations(result, quantity.base)
    heading = items.headings.get(quantity.id, quantity.id)
    view.id = quantity.base if len(alike) > 1 else quantity.id
    view.item = next(item for item in items.items if item.id == heading)
    view.item.shown = ""  # that is a table elsewhere in a report
    view.value = f"{len(alike)} values" if view.id != quantity.id else with_interval(quantity)
    view.uses = grouped(quantity.used_by)
    several = {used.base for used in quantity.uses if used.entries}
    view.inputs = [
        Data(name=used.symbol_name, key=used.id, meaning=headline(used.title),
             value=brief(used, False), origin=used.kind, line=None)
        for used in quantity.uses if used.base not in several
    ]  # fmt: skip
    for row in inputs_of(quantity):
        view.inputs.append(Data(**vars(row), line=_line(plan, row.key)))
    return {"html": _html("why", view), "id": view.id}


def _line(plan: Plan, key: str) -> int | None:
    """The line of the text that states a key; None where it does not."""
    path = key.split(".")
    place = plan.document.place(path) if key and plan.document.has(path) else None
    return place.line if place is not None and place.file == NAME else None


@_told
def report(body: Body) -> dict[str, Any]:
    """The report of a plan as a file of some ``kind`` (``REPORTS``)."""
    from planner import report as reports
    from planner.questions.plan_questions import evaluate

    plan, kind = _plan(body), _text(body, "kind") or "html"
    if kind not in REPORTS:
        raise PlanError(Fault.among(f"unknown kind of report {kind}", kind, REPORTS))
    _, ending, media = REPORTS[kind]
    name = "".join(c if c.isalnum() else "-" for c in (plan.name or "").lower())[:60].strip("-")
    text = reports.as_text(evaluate(plan), kind)
    return {"file": f"{name or 'plan'}{ending}", "type": media, "text": text}


@_told
def diff(body: Body) -> dict[str, Any]:
    """What changed from plan A (``textA``) to plan B, in the words of ``plan.py diff``."""
    from planner.questions.plan_questions import evaluate
    from planner.review import diff as changes
    from planner.review import writing

    before, after = (evaluate(_plan(body, name)).to_json() for name in ("textA", "text"))
    found = changes.between("A", "B", before, after)
    view = Data(
        verdict=writing.verdict(found),
        told=writing.told(found),
        changes=found.changes,
        parts=[writing.by_part(parts) for parts in found.parts],
        asked=writing.asked(found),
        also=writing.also(found, LONGEST),
    )
    return {"html": _html("diff", view), "sentence": writing.sentence(found)}


@_told
def take(body: Body) -> dict[str, Any]:
    """The text with the keys of a layout or of an answer (``set``), no more of them than say it,
    and what became of each."""
    from planner.questions import write_back

    _plan(body)  # whose faults are told first
    root = yaml_nodes.compose(body["text"], NAME)
    assert root is not None
    made, lines = write_back.put(body["text"], root, body.get("set") or {}, NAME)
    return {"text": made, "changed": lines}


def panel(body: Body) -> dict[str, Any]:
    """The controls of all this, and what their lists offer."""
    from planner.questions.plan_questions import evaluate

    try:
        quantities = list(evaluate(_plan(body)).evaluation.book.quantities.values())
    except PlanError:  # what they are called is known once there is a plan
        quantities = []
    view = Data(
        small=SMALL,
        margins=MARGINS,
        fixed=[(row.key, row.heading) for row in COLUMNS if row.key in KEYS],
        asked=ASKED,
        reports=[(kind, label) for kind, (label, _, _) in REPORTS.items()],
        quantities=[(q.id, headline(q.title)) for q in quantities if q.unit],
        controls=[(one.key, one.label) for one in settings().values() if _varies(one)],
    )
    return {"find": _html("find", view), "chart": _html("charts", view)}


def _varies(setting: Data) -> bool:
    """Whether a chart can be drawn over a control."""
    kinds = about(setting.key).get("type", ())
    numeric = {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}
    return setting.kind != "field" or bool(numeric)


#: What takes a while: told step by step, and ended when the page goes away.
FUNCTIONS: Mapping[str, Function] = {
    "search": search, "solve": solve, "chart": chart, "report": report,
}  # fmt: skip
#: What is there at once.
QUICK: Mapping[str, Function] = {"why": why, "diff": diff, "take": take, "panel": panel}


def call(name: str, body: Body) -> dict[str, Any]:
    """What the page looks for by name; faults are part of what it shows."""
    return FUNCTIONS[name](body)


#: What the page asks for that is answered at once, by the last part of its address.
AT_ONCE: Mapping[str, Function] = {**page.FUNCTIONS, **QUICK}


def at_once(name: str, body: Body) -> dict[str, Any]:
    """What the page asks for by name."""
    return page.call(name, body, AT_ONCE)
