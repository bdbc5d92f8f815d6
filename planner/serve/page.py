"""What the page asks for: a document as text in, what stands on the page out.

The text of the plan is all that the page holds. A control changes a key in it, and whatever is
shown is made of it here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from planner.base import files, resources
from planner.base.display import plain
from planner.base.errors import Fault, Place, PlanError
from planner.documents import source, yaml_nodes
from planner.documents.editing import edited
from planner.plans.document import Plan
from planner.plans.layout import KEYS
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.plan_questions import checked, evaluate
from planner.report.answer import CAPACITY, COST, PROCESS, Answer, gib, segmented, share_text
from planner.report.layout import DAYS, STEP, short_key
from planner.report.numbers import Data, clean, signed
from planner.report.what_if import controls
from planner.results.result import Result
from planner.results.result import evaluate as evaluated

Body = Mapping[str, Any]

#: How the document is called in faults, and the plan that the page begins with.
NAME, FIRST = "plan.yaml", "llama70b_h100x1024"
#: Of the usual settings those whose choices stand beside each other: which would not fit is shown.
BESIDE = ("segments", "sizes")


def plan_of(text: str, name: str = NAME) -> Plan:
    """The plan that a text is.

    Raises:
        PlanError: every fault that was found, with its place.
    """
    root = yaml_nodes.compose(text, name, None)
    if root is None or not isinstance(root.value, dict):
        wrong = "is empty" if root is None else "is no mapping"
        raise PlanError(Fault(f"the document {wrong}", Place(name, 1, 1), "a mapping of keys"))
    return checked(loading.load(root, team=False))


def html(template: str, **given: Any) -> str:
    """A part of the page; what leads to a derivation in a report asks for it here."""
    from planner.report.report import page

    return page(f"serve/{template}.jinja", **given).replace('href="#', 'href="#why=')


@cache
def shell(text: str | None = None) -> str:
    """The page, with the plan that it begins with."""
    from planner.report.report import page

    settings = controls.settings()
    usual = [(t, [settings[key] for key in keys]) for t, keys in controls.USUAL.items()]
    named = [one for one in settings.values() if one.kind == "named"]
    return page(
        "serve/index.html.jinja",
        text=preset(FIRST) if text is None else text,
        usual=usual,
        more=controls.sections(),
        named=[(one.id, [name for name, _ in one.options]) for one in named],
        plans=source.preset_names("plan"),
    )


@cache
def style() -> str:
    """The style of the page, whose parts come and go."""
    from planner.report.report import page

    return page("serve/style.css.jinja")


def preset(name: str) -> str:
    """The text of a plan that ships."""
    return resources.read_text(resources.folder("presets") / f"{name}.yaml")


# -- the text ---------------------------------------------------------------------------------


def change(body: Body) -> dict[str, Any]:
    """The text with other values of some keys (``set``: what somebody typed, or null for what
    follows by rule), and its answer."""
    text = written(body["text"], body.get("set", {}))
    return {"text": text, **answer({**body, "text": text})}


def written(text: str, changes: Mapping[str, Any]) -> str:
    """The text with keys changed as ``--set`` takes them; a layout that was left open is spelled
    out where one of its keys is changed."""
    given = {key: value for key, value in changes.items() if value is not None}
    values = {key: _typed(key, value) for key, value in given.items()}
    root = yaml_nodes.compose(text, NAME, None)
    layout = root.value.get("parallelism") if root and isinstance(root.value, dict) else None
    if layout is not None and layout.value == "auto" and any(
        key.startswith("parallelism.") for key in changes
    ):  # fmt: skip
        found = plan_of(text)
        stated = {key: plain(found.get(key)) for key in KEYS if found.get(key) is not None}
        text = edited(edited(text, NAME, {"parallelism": {}}), NAME, stated)
    return edited(text, NAME, values, [key for key in changes if key not in given])


def _typed(key: str, value: Any) -> Any:
    if not isinstance(value, str):
        return plain(value)
    node = yaml_nodes.compose(value, key, None)
    if node is None:
        raise PlanError(Fault(f"{key} is empty", None, "a value, or none to follow the rule"))
    return plain(node.plain())


def opened(body: Body) -> dict[str, Any]:
    """The text that a plan of ours (``name``), or a file that was dropped (``file``) makes: a plan
    is taken as it is, a config.json becomes the model of the plan that is shown."""
    name, file = body.get("name"), body.get("file")
    if isinstance(name, str):
        if name not in source.preset_names("plan"):
            raise PlanError(Fault.among(f"no plan '{name}'", name, source.preset_names("plan")))
        return {"text": preset(name)}
    if not isinstance(file, str):
        raise PlanError(Fault("nothing to open", None, "a plan, or a config.json"))
    if not file.lstrip().startswith("{") or ('"architectures"' not in file and (
        '"model_type"' not in file
    )):  # fmt: skip
        return {"text": file}
    from planner.connect.imports import import_config

    config = files.parse_json(file, Place("config.json"))
    said = str(config.get("_name_or_path") or config.get("model_type") or "a model")
    document = {"name": clean(said, 200), **plain(import_config(config))}
    return {"text": edited(body["text"], NAME, {"model": document})}


# -- the answer -------------------------------------------------------------------------------


def answer(body: Body) -> dict[str, Any]:
    """The answer of a plan, beside another one (``textA``) where there is one, and what the
    controls show."""
    text, other = body["text"], body.get("textA")
    try:
        plan = plan_of(text)
    except PlanError as error:
        faults = [fault_of(fault) for fault in error.faults]
        return {"faults": faults, "controls": _controls(text, None, body.get("keys"))}
    first = Answer(evaluate(plan))
    before = None
    if isinstance(other, str):
        try:
            before = Answer(evaluate(plan_of(other)))
        except PlanError:
            before = None
    differ = {} if before is None else _differing(str(other), before.result.plan, text, plan)
    compared = None if before is None else _compared(before, first, differ)
    shown = html("answer.html", answer=first, compared=compared, stages=_stages(first.result))
    return {
        "title": clean(plan.name or "A plan", 80),
        "status": first.status,
        "verdict": first.word,
        "sentence": first.text,
        "html": shown,
        "strip": html("strip.html", answer=first),
        "model": first.plan_line[0][2].removeprefix(", "),
        "controls": _controls(text, plan, body.get("keys")),
        "differ": [*differ],
    }


def _controls(text: str, plan: Plan | None, keys: Any) -> dict[str, Any]:
    """What controls show: the usual ones, and those that somebody opened."""
    known = controls.settings()
    asked = [key for key in keys if key in known] if isinstance(keys, list) else []
    usual = [key for each in controls.USUAL.values() for key in each]
    try:
        root = yaml_nodes.compose(text, NAME, None)
    except PlanError:
        return {}
    found = controls.shown_in(root, plan, [*usual, *asked])
    return {key: vars(one) for key, one in found.items()}


def _differing(one: str, first: Plan, other: str, second: Plan) -> dict[str, tuple[str, str]]:
    """What two plans state otherwise, by key, as it is written or follows by rule."""
    keys, sides = [*controls.settings()], []
    for text, plan in ((one, first), (other, second)):
        shown = controls.shown_in(yaml_nodes.compose(text, NAME), plan, keys)
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


def _stages(result: Result) -> list[Data]:
    """Live tensors at the peak of each distinct stage, as shares of what a device has."""
    from planner.report import pictures

    capacity, groups = result.get(CAPACITY), pictures.stages(result)
    if len(result.entries("stage")) < 2 or capacity is None:
        return []
    rows = []
    for one in groups:
        size, parts = one.peak
        whole = max(capacity.number, size)
        segments = segmented([(name, part, "") for name, part in parts.items() if part], whole)
        for segment in segments:
            segment.label += f" {gib(parts[segment.look])} GiB"
        title, at = pictures.title_of(one.stages), share_text(capacity.number, whole)
        rows.append(Data(name=title, segments=segments, total=gib(size), at=at))
    return rows


#: The rows of a comparison, and those of which more is better.
ROWS = (DAYS, COST, PROCESS, "time.mfu", STEP)
MORE = frozenset(("time.mfu", "time.hfu", "time.decode_tokens_per_second"))


def _compared(before: Answer, after: Answer, differ: Mapping[str, tuple[str, str]]) -> Data:
    """Two answers beside each other: numbers, their change, whiskers on one scale."""
    rows = []
    numbers = [{one.id: one for one in side.numbers} for side in (before, after)]
    ids = [one for one in numbers[1] if one in numbers[0] and one in ROWS] or [
        one for one in numbers[1] if one in numbers[0]
    ][:4]
    for one in ids:
        sides = [side.result[one].predicted or side.result[one] for side in (before, after)]
        old, new = (Fraction(side.number) for side in sides)
        shown = [numbers[i][one] for i in (0, 1)]
        relative = (new - old) / old if old else Fraction(0)
        word = ("better" if (relative > 0) == (one in MORE) else "worse") if relative else ""
        ends = [side.interval or (side.number, side.number) for side in sides]
        low = min(Fraction(end[0]) for end in ends) * Fraction(4, 5)
        high = max(Fraction(end[1]) for end in ends) * Fraction(6, 5)
        span = (high - low) or Fraction(1)

        def at(value: Any, low: Fraction = low, span: Fraction = span) -> str:
            return share_text(Fraction(value) - low, span)

        whiskers = [
            Data(low=at(end[0]), width=f"{float(at(end[1])) - float(at(end[0])):.2f}",
                 at=at(side.number), said=f"{number.low} to {number.high}")
            for side, end, number in zip(sides, ends, shown, strict=True)
        ]  # fmt: skip
        units = [number.unit for number in shown]
        rows.append(
            Data(
                id=one,
                label=re.split(r",| at ", shown[1].label)[0],
                unit=units[1],
                values=[
                    number.number + ("" if units[0] == units[1] else f" {number.unit}")
                    for number in shown
                ],
                between=[f"{n.low}–{n.high}" if n.low else "" for n in shown],
                change=signed(relative) if relative else "same",
                word=word,
                whiskers=whiskers,
            )
        )
    changes = [f"{short_key(key)} {old}→{new}" for key, (old, new) in differ.items()]
    return Data(rows=rows, changes=[clean(one, 90) for one in changes][:8], before=before)


def more(body: Body) -> dict[str, Any]:
    """What takes longer: what would be better, what moves the answer, and which choices of the
    usual settings would not fit, or are refused."""
    plan = plan_of(body["text"])
    first = Answer(evaluate(plan))
    return {
        "advice": html("advice.html", answer=first),
        "html": html("more.html", answer=first),
        "refused": dict(_refused(plan)),
    }


def _refused(plan: Plan) -> Iterator[tuple[str, dict[str, str]]]:
    known = controls.settings()
    keys = [key for each in controls.USUAL.values() for key in each if known[key].kind in BESIDE]
    for key, one in controls.shown_in(None, plan, keys).items():
        options = one.sizes if one.sizes is not None else [value for value, _ in known[key].options]
        said = {}
        for option in options if not one.idle else ():
            if option == plan.get(key):
                continue
            try:
                other = evaluated(variant(plan, {key: option}))
                if other.verdict["state"] == "no" and CAPACITY in other:
                    said[controls.word(option)] = f"does not fit: {gib(other[PROCESS].value)} GiB"
            except PlanError as error:
                said[controls.word(option)] = clean(error.faults[0].words, 200)
        yield key, said


#: What the page may ask for, by the last part of its address.
FUNCTIONS: Mapping[str, Callable[[Body], dict[str, Any]]] = {
    "answer": answer,
    "change": change,
    "more": more,
    "open": opened,
}


def call(
    name: str, body: Body, functions: Mapping[str, Callable[[Body], dict[str, Any]]] = FUNCTIONS
) -> dict[str, Any]:
    """What the page asks for by name; faults of the document are part of what it shows."""
    try:
        return functions[name](body)
    except PlanError as error:
        return {"faults": [fault_of(fault) for fault in error.faults]}


def fault_of(fault: Any) -> dict[str, Any]:
    """A fault as data."""
    place = fault.place
    # Documents that ship are told as they lie in the project, not where this machine has them.
    said = str(place or "").removeprefix(f"{resources.folder('presets').parent}{os.sep}")
    where = {} if place is None else {"line": place.line, "column": place.column}
    return {"place": said, "message": fault.words, **where}
