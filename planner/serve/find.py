"""What the page finds for somebody: layouts, answers to inverse questions, a chart of one result
over one control; and what stands behind a number: its derivation, the report, what changed.

Each function takes what the page sent and returns plain data with fragments of HTML. What a search,
a question and a chart find they say with the keys that put it into the plan's text (``take``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from functools import wraps
from typing import Any, NamedTuple

from planner.base.display import flow, plain
from planner.base.errors import Fault, Place, PlanError
from planner.documents import schema, yaml_nodes
from planner.documents.references import preset_names
from planner.plans.document import Plan
from planner.plans.layout import KEYS, ROW
from planner.plans.plan import NAMED, about, checked
from planner.report.layout import STATUS
from planner.report.numbers import Data, clean
from planner.serve.page import NAME, fault_of, plan_of

Body = Mapping[str, Any]
Function = Callable[[Body], dict[str, Any]]

#: Layouts that a search draws and lists, and those of its table.
DRAWN, LISTED = 60, 10
#: Values of an axis of a chart at most, and characters of a field.
MOST_VALUES, MOST_TEXT = 40, 300
#: What a search may make small, and with how much to spare what it finds fits.
SMALL = (
    ("time.step_seconds", "Time"),
    ("cost.total", "Cost"),
    ("memory.process", "Memory"),
)
MARGINS = (
    ("", "95 % of published runs"),
    ("5%", "5 % more than predicted"),
    ("0", "what is predicted"),
)
#: Short heads of columns where there is no room for the whole word.
SHORT = {
    "pipeline": "pipe", "virtual": "virt.", "context": "ctx", "expert": "exp", "zero": "ZeRO",
    "expert tensor": "exp. tensor", "sequence": "seq.", "replicas": "repl.", "micro-batch": "micro",
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


class Kind(NamedTuple):
    """A report as a file: its name's ending and its media type."""

    label: str
    ending: str
    media: str


REPORTS = {
    "html": Kind("Full report", ".html", "text/html"),
    "md": Kind("Markdown", ".md", "text/markdown"),
    "json": Kind("JSON", ".json", "application/json"),
    "trace": Kind("Timeline (Perfetto)", ".trace.json", "application/json"),
    "interactive": Kind("Page for offline use", ".html", "text/html"),
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
            for one in faults:
                one["message"] = one["message"].removeprefix(f"--{field}: ")
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
    text = body.get(name)
    if not isinstance(text, str):
        raise PlanError(Fault(f"{name} is missing", None, "the text of a plan"))
    return plan_of(text)


def _html(template: str, **given: Any) -> str:
    from planner.report.report import page

    return page(f"serve/{template}.jinja", **given)


# search --------------------------------------------------------------------------------------


@_told
def search(body: Body) -> dict[str, Any]:
    """The best layouts, as ``plan.py search`` ranks them: a picture of those near the best, a table
    of the first, and for each the keys that take it.

    The body may say ``by``, ``margin``, ``fixed`` (keys of the layout) and ``limit``.
    """
    from planner.questions.constraints import fit_limit, parse_limit
    from planner.questions.search import choices, engine, ranking
    from planner.questions.write_back import of_layout
    from planner.report import searched

    plan = _plan(body)
    by, limit = _text(body, "by") or engine.STEP, _text(body, "limit")
    with _field("fixed"):
        fixed = choices.fixed(plan, map(str, body.get("fixed") or ()))
    with _field("limit"):
        limits = [parse_limit(limit, plan)] if limit else []
    margin = _text(body, "margin") or None
    with _field("margin"):
        if margin is not None:
            fit_limit(margin, plan)
    found = engine.search(plan, DRAWN, by, fixed, limits=limits, margin=margin)
    first = found.best or ((found.nearest,) if found.nearest else ())
    listed = [
        *first,
        *(one for one in found.front if one.changes not in [x.changes for x in first]),
    ]
    marks = {"B" if body.get("textA") else "this plan": found.own}
    if body.get("textA"):
        marks["A"] = engine.own_layout(_plan(body, "textA"), engine.wanted(by, ()), by)
    others = {name: layout for name, layout in marks.items() if layout is not None}
    heads = [
        (SHORT.get(heading, heading), key)
        for heading, key in ranking.columns(found)
        if len({ranking.word(layout.get(key)) for layout in first[:LISTED]}) > 1
    ]
    view = Data(
        title=found.plan.book.quantities[found.by].title,
        lead=searched.lead(found),
        counted=ranking.counted(found),
        notes=[note for note in (ranking.leeway(found), _assumed(plan)) if note],
        picture=searched.close(found, others, listed),
        heads=[head for head, _ in heads],
        answers=_columns(found, first[:LISTED]),
        rows=[
            Data(
                take=number,
                label=str(number + 1) if found.best else "nearest",
                cells=[
                    (word := ranking.word(layout.get(key)), word != ranking.word(first[0].get(key)))
                    for _, key in heads
                ],
                marks=[n for n, one in others.items() if _same(one, layout)],
            )
            for number, layout in enumerate(first[:LISTED])
        ],
    )
    return {
        "html": _html("search", view=view),
        "counted": view.counted,
        "layouts": [
            {"set": plain(of_layout(one.changes)), "label": ranking.words(one)} for one in listed
        ],
    }


def _columns(found: Any, layouts: Sequence[Any]) -> list[tuple[str, list[str]]]:
    """What is made small and the memory of some layouts, each with its head."""
    from planner.questions.search.engine import MEMORY
    from planner.report.numbers import GIB, column

    said = []
    if found.by != MEMORY:
        values = [Fraction(layout.values[found.by]) for layout in layouts]
        unit, texts = column(values, found.plan.book.quantities[found.by].unit)
        if unit == "s":
            texts = [f"{float(value):.2f}" for value in values]
        said.append((unit, texts))
    return [*said, ("GiB", [f"{float(layout.values[MEMORY] / GIB):.1f}" for layout in layouts])]


def _same(one: Any, layout: Any) -> bool:
    return all(one.get(key) == layout.get(key) for key in KEYS)


def _assumed(plan: Plan) -> str:
    """That a search predicts the time where the plan assumes it."""
    if plan.get("time.mfu") is None:
        return ""
    return "Time is predicted for each layout; the utilisation that this plan assumes stays in it."


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
    how = {name: _text(body, name) or None for name in ("deadline", "budget", "vary")}
    until = _text(body, "until")
    with _field("vary" if how["vary"] else "question"):
        if how["vary"]:
            about(how["vary"])
        elif question not in questions.NAMES:
            raise PlanError(
                Fault.among(f"unknown question {question}", question or "", questions.NAMES)
            )
    option = next((ask.option for ask in ASKED if ask.question == question and ask.option), "until")
    with _field(option):
        given = {name: value for name, value in how.items() if value is not None}
        ready = questions.prepare(plan, question, until=[until] if until else [], **given)
    found = ready()
    label = {ask.question: ask.label.removesuffix(" …") for ask in ASKED}.get(question or "")
    name = label or f"{how['vary']} until {until}"
    answer = PlanAnswer(PlanQuestion(name, {}, Place(NAME), ready), found)
    changes = {}
    if isinstance(found, Answer) and found.holds is not None:
        changes = plain(write_back.of_answer(plan, found))
    said = Data(
        name=name,
        sentence=clean(answer.sentence, 2000),
        tables=[[[clean(cell) for cell in row] for row in table] for table in answer.tables],
        remarks=[clean(remark, 2000) for remark in answer.remarks],
        takes=", ".join(
            f"{key}: {flow(value)}" for key, value in changes.items() if value is not None
        ),
    )
    return {"html": _html("asked", answer=said), "set": changes, "label": name}


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

    plan, key = _plan(body), _text(body, "key")
    with _field("quantity"):
        quantity = _text(body, "quantity")
        numeric(quantity, plan.book)
        known_to_batch(quantity, plan.book)
    with _field("key"):
        about(key)
    with _field("values"):
        values = _values(plan, key, _text(body, "values"))
        base = yaml_nodes.compose(body["text"], NAME)
        assert base is not None
        title = plan.book.quantities[quantity].title
        document = {
            "name": f"{plan.name or 'A plan'}: {title} over {key}",
            "base": plain(base.plain()),
            "axes": {key: values},
            "record": list(dict.fromkeys((quantity, "memory.process"))),
            "invalid": "keep",
        }
        study = studies.load(document)
        rows = list(Study(study).rows(workers=1))
    view = _drawn(plan, quantity, study, rows)
    return {
        "html": _html("chart", view=view),
        "values": ", ".join(map(str, values)),
        "layouts": [{"set": {key: value}, "label": f"{key}: {value}"} for value in values],
        "study": yaml.safe_dump(document, sort_keys=False, allow_unicode=True),
    }


def _values(plan: Plan, key: str, text: str) -> list[Any]:
    """The values of an axis: those given, or what is allowed, or halves and doubles of the plan's.

    Raises:
        PlanError: too many, or none can be proposed.
    """
    given = [part.strip() for part in text.split(",") if part.strip()]
    if len(given) > MOST_VALUES:
        raise PlanError(Fault(f"{len(given)} values", None, f"at most {MOST_VALUES}"))
    if given:
        return list(dict.fromkeys(given))
    said, now = about(key), plan.get(key)
    if said.get("enum"):
        return [value for value in said["enum"] if value is not None]
    if said.get("type") == "boolean":
        return [False, True]
    if key in NAMED:
        return preset_names(NAMED[key])[:MOST_VALUES]
    from planner.questions.write_back import as_written

    if not isinstance(now, (int, Fraction)) or isinstance(now, bool) or not now:
        raise PlanError(Fault(f"{key}: which values?", None, "values with commas between them"))
    tried = [now * Fraction(2) ** power for power in range(-3, 4)]
    return [plain(as_written(key, value)) for value in tried if _allowed(key, value)]


def _allowed(key: str, value: Fraction) -> bool:
    try:
        checked(key, value)
    except PlanError:
        return False
    return value.denominator == 1 or "integer" not in about(key).get("type", ())


def _drawn(plan: Plan, quantity: str, study: Any, rows: Sequence[Mapping[str, Any]]) -> Data:
    """The points of a study of one axis, for the template."""
    from planner.report.numbers import shown
    from planner.report.study import label_of

    axis, declared = study.axes[0], plan.book.quantities[quantity]
    values = [study.document_of(n).get(axis.name) for n in range(study.size)]
    labels = [label_of(axis, choice.label) for choice in axis.choices]
    body = []
    for n, (row, value) in enumerate(zip(rows, values, strict=True)):
        found, state = row[quantity], str(row["verdict"] or "open")
        text = "–" if found is None else shown(Fraction(found), declared.unit, declared.share)
        body.append(
            Data(
                take=n,
                label=labels[n],
                value=found,
                text=text,
                state=state,
                word=STATUS[state][1] if row["verdict"] else "",
                why=clean(row["reason"] or "", 300),
                own=value == plan.document.get(axis.name),
            )
        )
    xs = [Fraction(v) if axis.numeric else n for n, v in enumerate(values)]
    drawn = _chart(plan, quantity, axis, list(zip(xs, body, strict=True)), labels)
    return Data(title=clean(declared.title), key=axis.name, chart=drawn, rows=body)


def _chart(
    plan: Plan, quantity: str, axis: Any, points: Sequence[tuple[Any, Data]], labels: Sequence[str]
) -> Data | None:
    """A plane with some points, x and row each; None with fewer than two."""
    from planner.report import chart as charts
    from planner.report.numbers import scale
    from planner.report.searched import TALL

    declared = plan.book.quantities[quantity]
    known = [(x, row) for x, row in points if row.value is not None]
    if len(known) < 2:
        return None
    unit, size = scale(max(abs(Fraction(row.value)) for _, row in known) or 1, declared.unit)
    if declared.share:
        unit, size = "%", Fraction(1, 100)
    at = {row.take: (float(x), float(Fraction(row.value) / size)) for x, row in known}
    words = {float(x): label for (x, _), label in zip(points, labels, strict=True)}
    names = axis.name, clean(declared.title) + (f", {unit}" if unit not in ("1", "–", "") else "")
    xs = [x for x, _ in at.values()]
    plane = charts.Plane(list(at.values()), names, (lambda x: words[x], charts.tick), xs, TALL)
    shapes = {"no": charts.CROSS, "tight": charts.TRIANGLE, "open": "h0", "fits": "h0"}
    kept = {state: [at[row.take] for _, row in known if row.state == state] for state in shapes}
    own = [at[row.take] for _, row in known if row.own]
    plane.keep_free(at.values())
    return Data(
        plane=plane,
        late=None,
        marks={state: plane.dots(some, shapes[state]) for state, some in kept.items() if some},
        line=plane.line(sorted(at.values())) if axis.numeric else "",
        ends=[],
        whisker=None,
        chosen=plane.at(own[0]) if own else None,
        best=plane.labels([(point, "this plan") for point in own], far=True),
        labels=[],
        states=[(state, STATUS[state][1].lower()) for state in ("tight", "no") if kept[state]],
        dots=[
            Data(x=x, y=y, r=10, take=row.take, look="hit",
                 text=", ".join(filter(None, (f"{row.label}: {row.text}", row.word.lower()))))
            for _, row in known for x, y in [plane.at(at[row.take])]
        ],
    )  # fmt: skip


# what stands behind a number -----------------------------------------------------------------


@_told
def why(body: Body) -> dict[str, Any]:
    """How a quantity is made, as the report derives it; of an input its value, who decided it and
    what uses it. The body says its ``id``."""
    from planner.questions.plan_questions import evaluate
    from planner.report.derivations import Derivations, grouped, inputs_of
    from planner.report.facts import brief
    from planner.report.view import input_text
    from planner.results.lookup import input_called, look_up

    plan, asked = _plan(body), _text(body, "id")
    result = evaluate(plan)
    key = input_called(result, asked)
    if key is not None:
        one = result.inputs[key]
        symbols = {n.symbol for n in result.evaluation.book.notation.values() if n.dotted == key}
        using = [
            q for q in result.quantities.values() if any(u[0] in symbols for u in q.trace.uses)
        ]
        said = schema.describe("plan", key) or {}
        view = Data(
            id=key,
            title=key,
            value=input_text(one),
            about=clean(str(said.get("description", "")), 2000),
            origin=clean(one.origin),
            item=None,
            inputs=[],
            uses=grouped(using),
            line=_line(plan, key),
        )
    else:
        quantity = look_up(result, asked)
        there = quantity.absent is None
        items = Derivations(result, quantity.base) if there else None
        name = "" if items is None else items.headings.get(quantity.id, quantity.id)
        item = next((one for one in items.items if one.id == name), None) if items else None
        if item is not None:
            item.shown = ""  # the table that a report has elsewhere
        rows = inputs_of(quantity) if there else []
        for row in rows:
            row.line = _line(plan, row.key)
        view = Data(
            id=quantity.id,
            title=clean(quantity.title),
            value=brief(quantity, False) if there else "not answered",
            about="" if there else clean(quantity.absent, 2000),
            origin="",
            item=item,
            inputs=rows,
            uses=grouped(quantity.used_by) if there else [],
            line=None,
        )
    return {"html": _html("why", view=view), "id": view.id, "title": view.title}


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
    name = "".join(c if c.isalnum() else "-" for c in (plan.name or "plan").lower()).strip("-")
    file = f"{name[:60] or 'plan'}{REPORTS[kind].ending}"
    return {"file": file, "type": REPORTS[kind].media,
            "text": reports.as_text(evaluate(plan), kind)}  # fmt: skip


@_told
def diff(body: Body) -> dict[str, Any]:
    """What changed from plan A (``textA``) to plan B, in the words of ``plan.py diff``."""
    from planner.questions.plan_questions import evaluate
    from planner.review import diff as changes
    from planner.review import writing

    before, after = (evaluate(_plan(body, name)).to_json() for name in ("textA", "text"))
    found = changes.between("A", "B", plain(before), plain(after))
    view = Data(
        verdict=writing.verdict(found),
        told=writing.told(found),
        keys=found.changes,
        parts=[writing.by_part(parts) for parts in found.parts],
        asked=writing.asked(found),
        also=writing.also(found, 1000),
    )
    return {"html": _html("diff", view=view), "sentence": writing.sentence(found)}


@_told
def take(body: Body) -> dict[str, Any]:
    """The text with the keys of a layout or of an answer (``set``), no more of them than say it,
    and what became of each."""
    from planner.questions import write_back

    text, changes = body.get("text"), body.get("set")
    if not isinstance(text, str) or not isinstance(changes, Mapping):
        raise PlanError(Fault("text or set is missing", None, "the text of a plan, and keys"))
    root = yaml_nodes.compose(text, NAME)
    if root is None:
        raise PlanError(Fault("the document is empty", Place(NAME, 1, 1), "a mapping of keys"))
    made, lines = write_back.put(text, root, changes, NAME)
    return {"text": made, "changed": lines}


def panel(body: Body) -> dict[str, Any]:
    """The controls of all this, and what their lists offer."""
    from planner.plans.layout import COLUMNS
    from planner.questions.plan_questions import evaluate as result_of

    try:
        quantities = list(result_of(_plan(body)).evaluation.book.quantities.values())
    except PlanError:  # what they are called is known once there is a plan
        quantities = []
    view = Data(
        small=SMALL,
        margins=MARGINS,
        keys=[(row.key, row.heading) for row in COLUMNS if row.key in KEYS],
        asked=ASKED,
        reports=[(kind, one.label) for kind, one in REPORTS.items()],
        quantities=[(q.id, clean(q.title)) for q in quantities if q.unit],
        controls=[(key, _description(key)) for key in schema.paths("plan") if _varies(key)],
    )
    return {"find": _html("find", view=view), "chart": _html("charts", view=view)}


def _varies(key: str) -> bool:
    """Whether a key has values that a chart can be drawn over."""
    said = about(key)
    kinds = {said["type"]} if isinstance(said.get("type"), str) else set(said.get("type", ()))
    return key in NAMED or bool(said.get("enum") or kinds & {"integer", "number", "boolean"})


def _description(key: str) -> str:
    """What a key means, in its first sentence."""
    title = ROW[key].title if key in ROW else ""
    return title or str(about(key).get("description", "")).partition(". ")[0].rstrip(".")


#: What takes a while: told step by step, and ended when the page goes away.
FUNCTIONS: Mapping[str, Function] = {
    "search": search,
    "solve": solve,
    "chart": chart,
    "report": report,
}
#: What is there at once.
QUICK: Mapping[str, Function] = {"why": why, "diff": diff, "take": take, "panel": panel}


def call(name: str, body: Body) -> dict[str, Any]:
    """What the page looks for by name; faults are part of what it shows."""
    return FUNCTIONS[name](body)
