"""The functions of the page: a document as text in, the contents of the page out.

The text of the plan is the page's only state. A control changes a key in it, and everything shown
is computed from it here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import chdir, suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

from planner.base import files, numbers, resources, units
from planner.base.display import clean, one_line, plain, quote_json
from planner.base.errors import Fault, Place, PlanError
from planner.base.sandbox import Record
from planner.documents import references, source, yaml_nodes
from planner.documents.editing import change_values
from planner.engine.evaluate import Absent
from planner.plans.document import Plan
from planner.plans.layout import KEYS, format_option
from planner.plans.plan import NAMED, about, validate_plan, variant
from planner.questions import healing, loading, write_back
from planner.questions.plan_questions import check_questions, evaluate
from planner.report.answer import (
    COST,
    NEEDED,
    PROCESS,
    Overview,
    Segment,
    answer_of,
    build_segments,
    format_share,
    gib,
)
from planner.report.layout import DAYS, STEP, trim_key
from planner.report.report import render_page
from planner.results.moves import evaluate_near
from planner.results.result import Result
from planner.results.verdict import FITS, UNFIT
from planner.serve import controls

Body = Mapping[str, Any]


class WrongField(PlanError):
    """Faults of one field of the page."""

    def __init__(self, faults: Iterable[Fault], field: str) -> None:
        """Keep the field of the page that the faults belong to."""
        super().__init__(faults)
        self.field = field


#: The name of the document in faults, and the plan at start.
NAME, FIRST = "plan.yaml", "llama70b_h100x1024"
#: What the page may load: nothing from elsewhere.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data: blob:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
#: Of the name of a dropped file.
MOST_LETTERS = 80
#: Kinds of controls whose choices are all visible; those that would not fit are marked.
BESIDE = ("segments", "sizes")


def load_from_text(text: str, name: str = NAME, searched: bool = False) -> Plan:
    """Load a plan from text.

    Args:
        text: YAML.
        name: of the file, in the places of faults.
        searched: whether the layout may be left to a search.

    Raises:
        PlanError: all faults, with their places.
    """
    root = yaml_nodes.parse_yaml(text, name, None)
    if root is None or not isinstance(root.value, dict):
        wrong = "is empty" if root is None else "is not a mapping"
        raise PlanError(f"the document {wrong}", Place(name, 1, 1), "a mapping of keys")
    return check_questions(loading.load(root, team=False, searched=searched))


def render_part(template: str, **given: Any) -> str:
    """Render a part of the page; links to derivations of a report open them in the page."""
    return render_page(f"serve/{template}.jinja", **given).replace('href="#', 'href="#why=')


def render_shell(text: str | None = None, site: Mapping[str, Any] | None = None) -> str:
    """Render the page.

    Args:
        text: the plan at start.
        site: of a page without a server: where the files are that run the planner.
    """
    settings = controls.list_settings()
    usual = [(t, [settings[key] for key in keys]) for t, keys in controls.USUAL.items()]
    named = [one for one in settings.values() if one.kind == "named"]
    return render_page(
        "serve/index.html.jinja",
        text=read_preset(FIRST) if text is None else text,
        usual=usual,
        more=controls.list_sections(),
        named=[(one.id, [name for name, _ in one.options]) for one in named],
        plans=references.preset_names("plan"),
        site=site,
    )


@cache
def render_style() -> str:
    """Render the style sheet of the page, with the rules of all its parts."""
    return render_page("serve/style.css.jinja")


def read_preset(name: str) -> str:
    """Read the text of a built-in plan."""
    return resources.load_own_text(resources.folder("presets") / f"{name}.yaml")


def change_text(body: Body) -> dict[str, Any]:
    """Set keys in the text (``set``: the typed value, or null for the default), and return it with
    its answer. ``followed`` lists other keys that had to change. Where the model is set, keys that
    only followed the model before (``brought``, with what the text stated until then) are first put
    back; the answer's ``brought`` has what the next model needs for this."""
    changes = body.get("set", {})
    given = body.get("brought") or {} if "model" in changes else {}
    brought = {key: value for key, value in given.items() if key not in changes}
    renamed = _rename_plan(body["text"], changes)
    text = write_keys(body["text"], {**renamed, **brought, **changes})
    text, followed = make_valid(text, changes, body["text"], brought)
    own = {**{one["key"]: one["undo"][one["key"]] for one in followed}, **brought}
    node = yaml_nodes.parse_yaml(text, NAME)
    left = {key: value for key, value in own.items() if value != controls.read_stated(node, key)}
    answer = answer_plan({**body, "text": text})
    return {
        "text": text,
        "followed": followed,
        "brought": left if "model" in changes else {},
        **answer,
    }


def _rename_plan(text: str, changes: Mapping[str, Any]) -> dict[str, str]:
    """Return the change of a plan's name that another model needs, as "Take it" makes it."""
    root, model = yaml_nodes.parse_yaml(text, NAME, None), changes.get("model")
    name = root.value.get("name") if root and isinstance(root.value, dict) else None
    if name is None or not isinstance(name.value, str) or not isinstance(model, str):
        return {}
    return {"name": f"{name.value.partition(' · ')[0]} · {model}"}


def make_valid(
    text: str, held: Mapping[str, Any], before: str, brought: Mapping[str, Any]
) -> tuple[str, list[dict[str, Any]]]:
    """Return the text of the nearest valid plan, and each key that followed: label, values, reason,
    and the keys that undo it.

    Args:
        text: with the keys that somebody set.
        held: these keys, which stay.
        before: the text before they were set.
        brought: keys in ``text`` that were put back because they only followed another model.
    """
    root, known = yaml_nodes.parse_yaml(text, NAME), controls.list_settings()
    assert root is not None  # a key of it was just written
    try:
        document = validate_plan(source.load(root))
        found = healing.heal(document, held)
        values = {one.key: write_back.format_setting(one.key, one.after) for one in found}
        gone = [key for key, value in values.items() if value is None]
        text = change_values(text, NAME, {k: v for k, v in values.items() if v is not None}, gone)
    except PlanError:
        return text, []  # whose faults the answer names
    moved = {
        key: (None, value, "it only followed the model before") for key, value in brought.items()
    }
    moved |= {one.key: (one.before, values[one.key], one.why) for one in found}
    followed, (old, new) = [], (yaml_nodes.parse_yaml(each, NAME) for each in (before, text))
    for key, (value, after, why) in moved.items():
        stated = controls.read_stated(old, key)
        if key in brought and stated == controls.read_stated(new, key):
            continue
        shown = map(format_option, (stated if key in brought else value, after))
        label = known[key].label if key in known else trim_key(key)
        one = {"key": key, "label": label, "changed": " → ".join(shown)}
        followed.append({**one, "why": clean(why, 200), "undo": {**held, key: stated}})
    return text, followed


def write_keys(text: str, changes: Mapping[str, Any]) -> str:
    """Set keys in the text as ``--set`` does; if a key of an automatic layout is set, the layout is
    written out first."""
    given = {key: value for key, value in changes.items() if value is not None}
    values = {key: parse_typed(key, value) for key, value in given.items()}
    root = yaml_nodes.parse_yaml(text, NAME, None)
    layout = root.value.get("parallelism") if root and isinstance(root.value, dict) else None
    if layout is not None and layout.value == "auto" and any(
        key.startswith("parallelism.") for key in changes
    ):  # fmt: skip
        found = load_from_text(text)
        stated = {key: plain(found.get(key)) for key in KEYS if found.get(key) is not None}
        text = change_values(change_values(text, NAME, {"parallelism": {}}), NAME, stated)
    return change_values(text, NAME, values, [key for key in changes if key not in given])


def parse_typed(key: str, value: Any) -> Any:
    """What somebody typed, as a document says it: a name, YAML, or a number as the field shows it,
    in the unit beside it."""
    if not isinstance(value, str) or key in NAMED:
        return value
    kinds, unit = str(about(key).get("type")), about(key).get("unit")
    try:
        if "integer" in kinds or unit not in (None, "1"):
            number = units.parse(value, unit or "1")
            if unit is None:
                return number
    except units.UnitError as error:
        if error.hint is not None and error.hint.endswith(f" {unit}"):
            return error.hint
    if "array" in kinds and not value.startswith("["):
        value = f"[{value}]"
    node = yaml_nodes.parse_yaml(value, key, None)
    if node is None:
        raise PlanError(f"{key} is empty", None, "a value, or none to follow the rule")
    return node.plain()


def open_file(body: Body) -> dict[str, Any]:
    """Return the text for a built-in plan (``name``) or a dropped file (``file``, ``called`` so): a
    plan as it is, the launch file of a framework as a plan, with the current model where it names
    none, a config.json as the model of the current plan."""
    name, file = body.get("name"), body.get("file")
    if isinstance(name, str):
        if name not in (known := references.preset_names("plan")):
            raise PlanError(Fault.from_pool(f"no plan '{name}'", name, known))
        return {"text": read_preset(name)}
    from planner.connect.imports import import_config, import_run

    if not isinstance(file, str):
        raise PlanError("nothing to open", None, "a plan, a launch file, or a config.json")
    called = re.sub(r"[^\w.-]", "_", str(body.get("called") or NAME))[-MOST_LETTERS:]
    current: Any = None
    with suppress(PlanError):
        current = yaml_nodes.parse_plain(body["text"], NAME)
    model = current.get("model") if isinstance(current, dict) else None
    with TemporaryDirectory() as folder, chdir(folder), files.restrict_reading(folder):
        files.write_text(called, file)
        try:
            run = import_run(called)
        except PlanError:  # the model of a file comes before the current one
            run = import_run(called, [f"model={model}"] if isinstance(model, str) else [])
    if run is not None:
        remarks = "".join(f"# {one_line(line)}\n" for line in run.said)
        return {"text": f"{remarks}name: {quote_json(called)}\n{run.text}"}
    if not file.lstrip().startswith("{") or ('"architectures"' not in file and (
        '"model_type"' not in file
    )):  # fmt: skip
        return {"text": file}
    config = files.parse_json(file, Place("config.json"))
    said = str(config.get("_name_or_path") or config.get("model_type") or "a model")
    document = {"name": clean(said, 200), **import_config(config)}
    return {"text": change_values(body["text"], NAME, {"model": document})}


def answer_plan(body: Body) -> dict[str, Any]:
    """Return the answer of a plan, compared with another one (``textA``) if given, and the state of
    the controls."""
    text, other = body["text"], body.get("textA")
    try:
        plan = load_from_text(text)
    except PlanError as error:
        faults = [describe_fault(fault) for fault in error.faults]
        return {"faults": faults, "controls": _get_controls(text, None, body.get("keys"))}
    result, earlier, before = evaluate(plan), None, None
    first, rows, differ = answer_of(result), list[ComparedRow](), dict[str, tuple[str, str]]()
    if isinstance(other, str):
        with suppress(PlanError):
            earlier = evaluate(load_from_text(other))
    if earlier is not None:
        before, differ = answer_of(earlier), _compare_keys(str(other), earlier.plan, text, plan)
        rows = _compare_answers((earlier, result), (before, first))
    changes = [f"{trim_key(key)} {old}→{new}" for key, (old, new) in differ.items()]
    shown = render_part(
        "answer.html",
        answer=first,
        stages=_list_stages(result),
        before=before,
        rows=rows,
        changes=[clean(one, 90) for one in changes][:8],
    )
    return {
        "title": clean(plan.name or "A plan", 80),
        "status": first.status,
        "verdict": first.word,
        "sentence": first.text,
        "html": shown,
        "strip": render_part("strip.html", answer=first),
        "model": first.plan_line[0][2].removeprefix(", "),
        "controls": _get_controls(text, plan, body.get("keys")),
        "differ": [*differ],
    }


def _get_controls(text: str, plan: Plan | None, keys: Any) -> dict[str, Any]:
    """Return the state of controls: the usual ones, and those that the user opened."""
    known = controls.list_settings()
    asked = [key for key in keys if key in known] if isinstance(keys, list) else []
    usual = [key for each in controls.USUAL.values() for key in each]
    try:
        root = yaml_nodes.parse_yaml(text, NAME, None)
    except PlanError:
        return {}
    found = controls.shown_in(root, plan, [*usual, *asked])
    return {key: one._asdict() for key, one in found.items()}


def _compare_keys(one: str, first: Plan, other: str, second: Plan) -> dict[str, tuple[str, str]]:
    """Return the keys whose values differ between two plans, as written or by default."""
    keys, sides = [*controls.list_settings()], []
    for text, plan in ((one, first), (other, second)):
        shown = controls.shown_in(yaml_nodes.parse_yaml(text, NAME), plan, keys)
        sides.append({key: (each.value, each.value or each.rule) for key, each in shown.items()})
    before, after = sides
    return {
        key: (before[key][1] or "none", after[key][1] or "none")
        for key in keys
        if key not in ("name", "notes")
        and (before[key][0], after[key][0]) != (None, None)
        and before[key][1] != after[key][1]
        and first.get(key) != second.get(key)
    }


def _list_stages(result: Result) -> list[tuple[str, list[Segment], str, str]]:
    """Return the live tensors at the peak of each distinct stage: its name, the parts of its bar,
    their sum in GiB, and where the capacity is, in per cent."""
    from planner.report import pictures

    capacity, groups = result.get("memory.capacity"), pictures.group_stages(result)
    if len(result.list_entries("stage")) < 2 or capacity is None:
        return []
    rows = []
    for one in groups:
        size, parts = one.peak
        whole = max(capacity.number, size)
        sizes = [(name, part, "") for name, part in parts.items() if part]
        segments = [
            replace(each, label=f"{each.label} {gib(parts[each.look])} GiB")
            for each in build_segments(sizes, whole)
        ]
        title, at = pictures.format_stages(one.stages), format_share(capacity.number, whole)
        rows.append((title, segments, gib(size), at))
    return rows


#: The rows of a comparison, and those of which more is better.
ROWS = (DAYS, COST, PROCESS, "time.mfu", STEP)
MORE = frozenset(("time.mfu", "time.hfu", "time.decode_tokens_per_second"))


class ComparedRow(Record):
    """A quantity of two plans.

    Attributes:
        id, label, unit: the quantity, and what its row is called.
        values, between: both values and intervals as printed.
        change, word: the relative change, and whether it is better or worse.
        whiskers: of each plan, on one scale in per cent: the left end of its interval, the width
            of that, the value, and the interval in words.
    """

    id: str
    label: str
    unit: str
    values: list[str]
    between: list[str]
    change: str
    word: str
    whiskers: list[tuple[str, str, str, str]]


def _compare_answers(results: Sequence[Result], answers: Sequence[Overview]) -> list[ComparedRow]:
    """Compare two answers: numbers, their change, intervals on one scale."""
    rows = []
    figures = [
        {PROCESS if one.id == NEEDED else one.id: one for one in answer.numbers}
        for answer in answers
    ]
    ids = [one for one in figures[1] if one in figures[0] and one in ROWS] or [
        one for one in figures[1] if one in figures[0]
    ][:4]
    for one in ids:
        shown = [figures[i][one] for i in (0, 1)]
        sides = [result[number.id] for result, number in zip(results, shown, strict=True)]
        old, new = (Fraction(side.number) for side in sides)
        relative = (new - old) / old if old else Fraction(0)
        word = ("better" if (relative > 0) == (one in MORE) else "worse") if relative else ""
        ends = [side.interval or (side.number, side.number) for side in sides]
        low = min(Fraction(end[0]) for end in ends) * Fraction(4, 5)
        high = max(Fraction(end[1]) for end in ends) * Fraction(6, 5)
        span = (high - low) or Fraction(1)

        def at(value: Any, low: Fraction = low, span: Fraction = span) -> str:
            """Return where a value lies between the ends of a row, as a percentage.

            Args:
                value: in the unit of the row.
                low: the left end.
                span: from the left to the right end, above 0.
            """
            return format_share(Fraction(value) - low, span)

        whiskers = [
            (at(end[0]), f"{float(at(end[1])) - float(at(end[0])):.2f}", at(side.number),
             f"{number.low} to {number.high}")
            for side, end, number in zip(sides, ends, shown, strict=True)
        ]  # fmt: skip
        units = [number.unit for number in shown]
        rows.append(
            ComparedRow(
                id=one,
                label=re.split(r",| at ", shown[1].label)[0],
                unit=units[1],
                values=[
                    number.number + ("" if units[0] == units[1] else f" {number.unit}")
                    for number in shown
                ],
                between=[f"{n.low}–{n.high}" if n.low else "" for n in shown],
                change=numbers.text(relative, style="change") if relative else "same",
                word=word,
                whiskers=whiskers,
            )
        )
    return rows


def compute_more(body: Body) -> dict[str, Any]:
    """Compute what takes longer: alternatives, sensitivity, and the choices of the usual settings
    that do not fit or are invalid."""
    result = evaluate(load_from_text(body["text"]))
    answer = answer_of(result)
    return {
        "advice": render_part("advice.html", answer=answer),
        "html": render_part("more.html", answer=answer),
        "refused": dict(_find_refused(result)),
    }


def _find_refused(result: Result) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the keys with choices that the plan refuses, with the fault of each of these."""
    plan, known = result.plan, controls.list_settings()
    keys = [key for each in controls.USUAL.values() for key in each if known[key].kind in BESIDE]
    for key, one in controls.shown_in(None, plan, keys).items():
        options = one.sizes if one.sizes is not None else [value for value, _ in known[key].options]
        said = {}
        for option in options if not one.idle else ():
            if option == plan.get(key):
                continue
            try:
                other = evaluate_near(result.evaluation, variant(plan, {key: option}), (FITS,))
                if other.value(FITS) < 0:
                    lacking = gib(-other.value(FITS))
                    said[format_option(option)] = f"{UNFIT}: {lacking} GiB too little"
            except Absent:
                continue  # nothing is known of its memory
            except PlanError as error:
                said[format_option(option)] = clean(error.faults[0].words, 200)
        yield key, said


#: Functions of the page, by the last part of the address.
FUNCTIONS: Mapping[str, Callable[[Body], dict[str, Any]]] = {
    "answer": answer_plan,
    "change": change_text,
    "more": compute_more,
    "open": open_file,
}


def call_page(
    name: str, body: Body, functions: Mapping[str, Callable[[Body], dict[str, Any]]] = FUNCTIONS
) -> dict[str, Any]:
    """Call a function of the page; return faults of the document as data.

    Args:
        name: of the function.
        body: of the request.
        functions: by name.

    Returns:
        the answer, or ``faults``, each with the ``field`` of the page that it belongs to.

    Raises:
        KeyError: there is no such function, or the body lacks a key.
    """
    try:
        return functions[name](body)
    except PlanError as error:
        field = error.field if isinstance(error, WrongField) else ""
        return {"faults": [{**describe_fault(one), "field": field} for one in error.faults]}


def describe_fault(fault: Any) -> dict[str, Any]:
    """Return a fault as data."""
    place = fault.place
    # Built-in documents are named relative to the project, not by this machine's path.
    said = str(place or "").removeprefix(f"{resources.folder('presets').parent}{os.sep}")
    where = {} if place is None else {"line": place.line, "column": place.column}
    words = re.sub(r"--[a-z-]+:? ", "", fault.words)  # an option of a command is a field here
    return {"place": said, "message": words, **where}
