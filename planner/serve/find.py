"""The page's searches, inverse questions and charts of one result over one control; and the
background of a number: its derivation, the report, what changed.

Each function takes the body that the page sent and returns plain data with fragments of HTML.
Results of a search, a question or a chart include the keys that put them into the plan's text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import Any, NamedTuple

from planner.base import resources
from planner.base.display import clean, format_flow, headline
from planner.base.errors import Fault, Place, PlanError
from planner.base.numbers import choose_unit, plain_text
from planner.documents import schema, yaml_nodes
from planner.documents.editing import format_entries
from planner.documents.references import preset_names
from planner.plans.document import Plan
from planner.plans.layout import COLUMNS, KEYS
from planner.plans.plan import NAMED, about, check_value
from planner.questions.constraints import check_batchable, fit_limit, numeric, parse_limit
from planner.questions.plan_questions import PlanAnswer, evaluate
from planner.questions.search import choices
from planner.questions.solve.solve import Answer
from planner.questions.write_back import (
    format_setting,
    list_answer_keys,
    list_path_keys,
    of_searched,
    put_values,
)
from planner.report import as_text
from planner.report.facts import format_interval
from planner.report.report import render_page
from planner.results.lookup import find_input, look_up
from planner.results.verdict import VERDICTS
from planner.serve import page
from planner.serve.controls import Control, list_settings
from planner.serve.page import NAME, Body, load_from_text

Function = Callable[[Body], dict[str, Any]]

#: Layouts that a search draws and lists, and those of its table.
DRAWN, LISTED = 60, 10
#: Values of an axis of a chart at most, characters of a field, and of a sentence.
MOST_VALUES, MOST_TEXT, LONGEST = 40, 300, 2000


class Ask(NamedTuple):
    """A question as a button; one that needs a value has the option for it, and an example."""

    question: str
    label: str
    option: str = ""
    example: str = ""


#: The words of buttons and lists.
_SAID = resources.load_beside(__file__)
SMALL, MARGINS, REPORTS = (_SAID[name] for name in ("small", "margins", "reports"))
ASKED = tuple(Ask(*one) for one in _SAID["asked"])


@contextmanager
def _attach_field(name: str) -> Iterator[None]:
    """Attribute faults inside the block to a field."""
    try:
        yield
    except PlanError as error:
        raise page.WrongField(error.faults, name) from None


def _read_field(body: Body, name: str) -> str:
    """Return the text of a field, as one line.

    Raises:
        PlanError: it is too long, or no text.
    """
    value = body.get(name) or ""
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        with _attach_field(name):
            raise PlanError(Fault(f"{name} is not a line of text", None, f"{MOST_TEXT} characters"))
    return " ".join(value.split())


def _load_field(body: Body, name: str = "text", searched: bool = False) -> Plan:
    """Load the plan in a field of the body.

    Args:
        name: of the field.
        searched: whether the layout may be left to a search.

    Raises:
        PlanError: the field is missing, or the plan has faults.
    """
    if not isinstance(body.get(name), str):
        raise PlanError(Fault(f"{name} is missing", None, "the text of a plan"))
    return load_from_text(body[name], searched=searched)


def _render_fragment(template: str, **given: Any) -> str:
    """Render a fragment of the page."""
    return render_page(f"serve/{template}.jinja", **given)


def answer_search(body: Body) -> dict[str, Any]:
    """Return the best layouts, as ``plan.py search`` ranks them: a plot of those near the best, a
    table of the first, and for each its keys.

    Keys of the body: ``by``, ``margin``, ``fixed`` (keys of the layout) and ``limit``, all
    optional.
    """
    from planner.questions.search import engine, ranking
    from planner.report import searched

    plan, margin = _load_field(body, searched=True), _read_field(body, "margin") or None
    by, limit = _read_field(body, "by") or engine.STEP, _read_field(body, "limit")
    with _attach_field("fixed"):
        fixed = choices.parse_fixed(plan, map(str, body.get("fixed") or ()))
    with _attach_field("limit"):
        limits = [parse_limit(limit, plan)] if limit else []
    with _attach_field("margin"):
        if margin is not None:
            fit_limit(margin, plan)
    found = engine.search(plan, DRAWN, by, fixed, limits=limits, margin=margin)
    listed = [*found.best] or [one for one in (found.nearest,) if one]
    first, known = listed[:LISTED], [one.changes for one in listed]
    listed += [one for one in found.front if one.changes not in known]
    marks, other = {"this plan": found.own}, body.get("textA")
    if other:
        own = engine.find_own_layout(_load_field(body, "textA"), engine.list_criteria(by, ()), by)
        marks = {"A": own, "B": found.own}
    marked = {name: layout for name, layout in marks.items() if layout is not None}
    heads, cells = searched.columns_of(found, first)
    assumed = plan.settings["time.assumed"] and (
        "Time is predicted for each layout; a plan that takes one keeps the utilisation that it "
        "assumes."
    )
    html = _render_fragment(
        "search",
        title=plan.book.quantities[by].title,
        lead=searched.describe_best(found),
        counted=ranking.describe_count(found),
        notes=[note for note in (ranking.leeway(found), assumed) if note],
        picture=searched.close(found, marked, listed),
        heads=heads,
        rows=[
            (
                n,
                str(n + 1) if found.best else "nearest",
                [name for name, own in marked.items() if _list_keys(own) == _list_keys(one)],
                numbers,
                searched.list_differences(one, found) if n else ranking.name_layout(one),
            )
            for n, (one, numbers) in enumerate(zip(first, cells, strict=True))
        ],
    )
    takes = [
        {"set": _sent(of_searched(plan, one)), "label": ranking.name_layout(one)} for one in listed
    ]
    return {"html": html, "takes": takes}


def _list_keys(layout: Any) -> list[Any]:
    """Return what identifies a layout: the values of its keys, in order."""
    return [layout.get(key) for key in KEYS]


def answer_solve(body: Body) -> dict[str, Any]:
    """Return the answer to an inverse question, as ``plan.py solve`` prints it, and its keys.

    Keys of the body: ``question`` with ``deadline`` or ``budget``, or ``vary`` and ``until``.
    """
    from planner.questions.solve import questions
    from planner.report.view import build_answer

    plan, question = _load_field(body), _read_field(body, "question") or None
    if question == "fit-table":  # a study, which needs NumPy: other questions do not
        from planner.questions.fit_table import MOST_DEVICES, evaluate_fit_table
        from planner.report.fit_table import render_fit_page

        device = str(plan.document.find_node(("cluster", "accelerator")).reference)
        keys = ("cluster.provider", "cluster.purchase", "cluster.term")
        paid = [f"{key}={plan.get(key)}" for key in keys if plan.get(key)]
        count, length = plan.get("cluster.devices"), plan.get("training.sequence_length")
        lengths = [str(length)] if length else []
        table = evaluate_fit_table(device, min(MOST_DEVICES, count), lengths=lengths, changes=paid)
        return {"html": render_fit_page(table, "serve/fit_table.jinja"), "takes": []}
    if question == "advise":  # it searches, which needs NumPy too
        from planner.questions.expert_path import find_expert_path
        from planner.report.expert_path import render_path_fragment

        path = find_expert_path(plan)
        kept = [_sent(list_path_keys(path, number)) for number in range(1, len(path.steps))]
        taken = [f"changes 1 to {number}" for number in range(1, len(path.steps))]
        takes = [{"set": keys, "label": label} for keys, label in zip(kept, taken, strict=True)]
        return {"html": render_path_fragment(path), "takes": takes}
    asked = {ask.question: ask for ask in ASKED}.get(question or "", Ask("", "", "until"))
    names = ("deadline", "budget", "vary", "until", "unbounded")
    given = {name: _read_field(body, name) for name in names}
    said: dict[str, Any] = {name: text for name, text in given.items() if text}
    if question is None:
        with _attach_field("vary"):
            about(given["vary"])
        if not given["until"]:
            with _attach_field("until"):
                raise PlanError(Fault("a limit is missing", None, "memory.process <= 70 GiB"))
    with _attach_field(asked.option):
        ready = questions.prepare(plan, question, **said)
    found = ready()
    name = asked.label.removesuffix(" …") or f"{given['vary']} until {given['until']}"
    answer = PlanAnswer(name, said, Place(NAME), lambda: found)
    changes: dict[str, Any] = {}
    if isinstance(found, Answer) and found.holds is not None:
        changes = _sent(list_answer_keys(plan, found))
    taken = [_format_setting(key, value) for key, value in changes.items() if value is not None]
    html = _render_fragment(
        "asked", answer=build_answer(clean(name, LONGEST), answer), changes=taken
    )
    if changes and plan.name:  # the old name no longer fits
        changes["name"] = f"{plan.name.partition(' · ')[0]} · {name}"
    takes = [{"set": changes, "label": name}] if changes else []
    return {"html": html, "takes": takes}


def answer_chart(body: Body) -> dict[str, Any]:
    """Return one result over one control: a study of one axis, evaluated, drawn and as a document.

    Keys of the body: ``quantity``, ``key`` and optionally ``values``, with commas between them.
    """
    from planner.questions.studies.study import read_study
    from planner.report.study_api import Study

    plan, key, quantity = _load_field(body), _read_field(body, "key"), _read_field(body, "quantity")
    with _attach_field("quantity"):
        quantity = look_up(evaluate(plan), quantity).base
        numeric(quantity, plan.book)
        check_batchable(quantity, plan.book)
    with _attach_field("key"):
        about(key)
    with _attach_field("values"):
        values = _pick_values(plan, key, _read_field(body, "values"))
        document = {
            "name": f"{plan.name or 'A plan'}: {plan.book.quantities[quantity].title} over {key}",
            "base": yaml_nodes.parse_plain(body["text"], NAME),
            "axes": {key: values},
            "record": list(dict.fromkeys((quantity, "memory.process"))),
            "invalid": "keep",
        }
        study = read_study(document)
        rows = list(Study(study).rows())
    saved = "\n".join([*format_entries(document), ""])
    takes = [{"set": _sent({key: value}), "label": _format_setting(key, value)} for value in values]
    html = _render_fragment("chart", **_build_chart(plan, quantity, study, rows))
    points = [{"value": row[quantity], "verdict": row["verdict"]} for row in rows]
    return {"html": html, "points": points, "takes": takes, "study": saved}


def _pick_values(plan: Plan, key: str, text: str) -> list[Any]:
    """Return the values of an axis: the given ones, or all allowed ones, or halves and doubles of
    the plan's.

    Raises:
        PlanError: too many, or none can be proposed.
    """
    if re.search(r"[][{}'\"]", text):  # values that are lists or texts themselves, as in YAML
        given = yaml_nodes.parse_plain(f"[{text}]", "values")
    else:
        given = [page.parse_typed(key, one) for one in choices.split_values(text) if one]
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

    def is_allowed(value: Any) -> bool:
        """Decide whether a key may have a value, by its schema."""
        try:
            return bool(check_value(key, value))
        except PlanError:
            return False

    tried = (now * Fraction(2) ** power for power in range(-3, 4))
    whole = (int(value) if value.denominator == 1 else value for value in tried)
    return [format_setting(key, value) for value in whole if is_allowed(value)]


def _format_setting(key: str, value: Any) -> str:
    """Format a key with its value as YAML has it."""
    return f"{key}: {value if isinstance(value, str) else format_flow(value)}"


def _sent(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return keys as the page sends them back: numbers exact, with units."""
    written = ((key, format_setting(key, value)) for key, value in changes.items())
    return {k: plain_text(one) if isinstance(one, Fraction) else one for k, one in written}


def _build_chart(
    plan: Plan, quantity: str, study: Any, rows: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the points of a study of one axis, for the template."""
    from planner.report import chart
    from planner.report.elements import Label, Plot
    from planner.report.searched import TALL
    from planner.report.study import label_of

    axis, declared = study.axes[0], plan.book.quantities[quantity]
    values = [study.build_document(n).get(axis.name) for n in range(study.size)]
    body, marks = list[tuple[Any, ...]](), dict[int, str]()
    for n, row in enumerate(rows):
        text = "–" if row[quantity] is None else declared.text(Fraction(row[quantity]))
        word = VERDICTS[row["verdict"]].word if row["verdict"] else ""
        label, why = label_of(axis, axis.choices[n].label), clean(row["reason"] or "", LONGEST)
        own = values[n] == plan.document.get(axis.name)
        body.append((n, label, text, row["verdict"] or "open", why or word, own))
        marks[n] = ", ".join(filter(None, (f"{label}: {text}", word.lower())))
    title = headline(declared.title)
    view = {"title": title, "key": axis.name, "chart": None, "rows": body}
    sizes = {n: Fraction(row[quantity]) for n, row in enumerate(rows) if row[quantity] is not None}
    if len(sizes) < 2:
        return view
    unit, size = choose_unit(max(map(abs, sizes.values())) or 1, declared.unit)
    if declared.share:
        unit, size = "%", Fraction(1, 100)
    x = [float(values[n]) if axis.numeric else float(n) for n in range(len(rows))]
    at = {n: (x[n], float(value / size)) for n, value in sizes.items()}
    words, own = {x[n]: body[n][1] for n in range(len(rows))}, [at[n] for n in at if body[n][-1]]
    names = axis.name, title + (f", {unit}" if unit not in ("1", "–", "") else "")
    ticks = [x[n] for n in at]
    plane = chart.Plane([*at.values()], names, lambda x: words[x], ticks, TALL)
    plane.keep_free(at.values())
    shapes = {"no": chart.CROSS, "tight": chart.TRIANGLE, "open": "h0", "fits": "h0"}
    kept = {state: [at[n] for n in at if body[n][3] == state] for state in shapes}
    view["chart"] = Plot(
        plane.axes,
        marks={state: plane.dots(some, shapes[state]) for state, some in kept.items() if some},
        line=plane.draw_line(sorted(at.values())) if axis.numeric else "",
        chosen=plane.at(own[0]) if own else None,
        best=plane.place_labels([(point, "this plan") for point in own], far=True),
        dots=[(Label(*plane.at(at[n]), marks[n], "hit"), n) for n in at],
        states=[(state, VERDICTS[state].word.lower()) for state in ("tight", "no") if kept[state]],
    )  # fmt: skip
    return view


def answer_why(body: Body) -> dict[str, Any]:
    """Explain a quantity as the report derives it, or an input by its value, its origin and the
    quantities that use it. Key of the body: ``id``."""
    from planner.report.derivations import Derivations, describe_inputs, group_links
    from planner.report.view import format_input

    plan, asked = _load_field(body), _read_field(body, "id")
    result = evaluate(plan)
    key = find_input(result, asked)
    if key is not None:
        one = result.inputs[key]
        about = clean((schema.describe("plan", key) or {}).get("description", ""), LONGEST)
        html = _render_fragment("why", id=key, title=key, value=format_input(one), about=about,
                                known=clean(one.origin), line=_find_line(plan, key),
                                uses=group_links(result.list_users(key)))  # fmt: skip
        return {"html": html, "id": key}
    alike = [one for one in result.quantities.values() if asked in (one.id, one.base)]
    quantity = alike[0] if alike else look_up(result, asked)
    title, several = headline(quantity.title), {q.base for q in quantity.uses if q.entries}
    if quantity.absent is not None:
        why = clean(quantity.absent, LONGEST)
        html = _render_fragment("why", id=quantity.id, title=title, known=quantity.kind,
                                value="not answered", about=why)  # fmt: skip
        return {"html": html, "id": quantity.id}
    items = Derivations(result, quantity.base)
    heading = items.headings.get(quantity.id, quantity.id)
    name = quantity.base if len(alike) > 1 else quantity.id
    item = next(item for item in items.items if item.id == heading)
    # Name, place, meaning, value and origin of each, with its line in the text.
    inputs = [
        (used.symbol_name, used.id, headline(used.title), used.text(), used.kind, None)
        for used in quantity.uses
        if used.base not in several
    ] + [
        (row.name, row.key, row.meaning, row.value, row.origin, _find_line(plan, row.key))
        for row in describe_inputs(quantity)
    ]
    html = _render_fragment(
        "why",
        id=name,
        title=title,
        known=quantity.kind,
        value=f"{len(alike)} values" if name != quantity.id else format_interval(quantity),
        item=item,
        inputs=inputs,
        uses=group_links(quantity.used_by),
    )
    return {"html": html, "id": name}


def _find_line(plan: Plan, key: str) -> int | None:
    """Return the line of the text with a key; None without it."""
    path = key.split(".")
    place = plan.document.find_place(path) if key and plan.document.has_value(path) else None
    return place.line if place is not None and place.file == NAME else None


def answer_report(body: Body) -> dict[str, Any]:
    """Return the report of a plan as a file of some ``kind`` (``REPORTS``)."""
    plan, kind = _load_field(body), _read_field(body, "kind") or "html"
    if kind not in REPORTS:
        raise PlanError(Fault.from_pool(f"unknown kind of report {kind}", kind, REPORTS))
    _, ending, media = REPORTS[kind]
    name = "".join(c if c.isalnum() else "-" for c in (plan.name or "").lower())[:60].strip("-")
    text = as_text(evaluate(plan), kind)
    return {"file": f"{name or 'plan'}{ending}", "type": media, "text": text}


def answer_diff(body: Body) -> dict[str, Any]:
    """Compare plan A (``textA``) with plan B, in the words of ``plan.py diff``."""
    from planner.review import writing
    from planner.review.diff import diff_results

    before, after = (evaluate(_load_field(body, name)).to_json() for name in ("textA", "text"))
    found = diff_results("A", "B", before, after)
    html = _render_fragment(
        "diff",
        verdict=writing.state_verdict(found),
        told=writing.explain_diff(found),
        changes=found.changes,
        parts=[writing.split_by_part(parts) for parts in found.parts],
        asked=writing.list_answers(found),
        also=writing.join_figures(found, LONGEST),
    )
    return {"html": html, "sentence": writing.format_sentence(found)}


def take_keys(body: Body) -> dict[str, Any]:
    """Put the keys of a layout or of an answer (``set``) into the text, as few as needed; return
    each change."""
    _load_field(body, searched=True)  # whose faults are told first
    root = yaml_nodes.parse_yaml(body["text"], NAME)
    assert root is not None
    made, lines = put_values(body["text"], root, body.get("set") or {}, NAME)
    return {"text": made, "changed": lines}


def list_controls(body: Body) -> dict[str, Any]:
    """Return the controls of these functions, with the choices of their lists."""
    try:
        quantities = list(evaluate(_load_field(body)).evaluation.book.quantities.values())
    except PlanError:  # what they are called is known once there is a plan
        quantities = []
    find = _render_fragment(
        "find",
        small=SMALL,
        margins=MARGINS,
        fixed=[(row.key, row.heading) for row in COLUMNS if row.key in KEYS],
        asked=ASKED,
        reports=[(kind, label) for kind, (label, _, _) in REPORTS.items()],
        quantities=[(q.id, headline(q.title)) for q in quantities if q.unit],
        controls=[(one.key, one.label) for one in list_settings().values() if _can_vary(one)],
    )
    return {"find": find, "chart": _render_fragment("charts")}


def _can_vary(setting: Control) -> bool:
    """Decide whether a chart can be drawn over a control."""
    kinds = about(setting.key).get("type", ())
    numeric = {"integer", "number"} & {*([kinds] if isinstance(kinds, str) else kinds)}
    return setting.kind != "field" or bool(numeric)


#: Functions that take a while: their progress is streamed; they end when the client disconnects.
FUNCTIONS: Mapping[str, Function] = {
    "search": answer_search, "solve": answer_solve, "chart": answer_chart, "report": answer_report,
}  # fmt: skip
QUICK: Mapping[str, Function] = {
    "why": answer_why,
    "diff": answer_diff,
    "take": take_keys,
    "panel": list_controls,
}


#: All functions of the page that answer at once, by the last part of the address.
AT_ONCE: Mapping[str, Function] = {**page.FUNCTIONS, **QUICK}


def call_function(name: str, body: Body) -> dict[str, Any]:
    """Call a function of the page by name."""
    return page.call_page(name, body, {**FUNCTIONS, **AT_ONCE})
