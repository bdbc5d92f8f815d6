"""The controls of the page: which keys of a plan it shows, and which values it offers.

What a control may hold comes from the schema; the few sizes that are beside each other are a choice
of looks only, since the text takes any allowed number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from planner.base import numbers, resources
from planner.base.display import clean, headline
from planner.base.sandbox import Record
from planner.documents import json_schema, references, schema
from planner.documents.yaml_nodes import Node
from planner.plans import layout
from planner.plans.document import Plan
from planner.plans.plan import NAMED, about
from planner.questions.domains import divisors

#: What they are called, where no row of a table and no schema says it in few words.
_SAID = resources.load_beside(__file__)
#: What stands first on the planner's page, by the title of its group; all other keys of the schema
#: are behind "More settings". The layout has the degrees that search varies too.
USUAL: dict[str, Sequence[str]] = _SAID["usual"]
USUAL["Layout"] = (
    *(row.key for row in layout.ROWS if row.place in (layout.OUTER, layout.INNER) and row.title),
    *USUAL["Layout"],
)
LABELS = {
    **{row.key: row.heading.capitalize() for row in layout.ROWS if row.heading},
    **_SAID["labels"],
}  # fmt: skip
#: Keys whose values are names of what is built in, with its kind.
LISTED = {**NAMED, "training.stack": "stack"}
#: Keys that no single value states, or that say only what others rest on; titles of sections.
LEFT_OUT = re.compile(
    r"training\.schedule\.|cluster\.accelerator\.calibration|(parallelism|questions|require)$"
    r"|.*\.(interval|rows|sources|extends)$|extends$"
)
TITLES: Mapping[str, str] = _SAID["titles"]
CHUNKS = "parallelism.virtual_pipeline"
#: How many sizes stand beside each other, and how long choices are that do.
SIZES, BESIDE, LETTERS = 5, 4, 20
#: Sizes of a degree that divides nothing in particular.
POWERS = tuple(2**i for i in range(7))


class Control(Record):
    """A control of the page.

    Attributes:
        key, id: the key of the plan, and the id of the control.
        section: the group of keys.
        kind: how a value is chosen: named, segments, choice, sizes, field.
        label, help: what it is called, and what the schema says of it.
        options: values that can be chosen, each as printed.
        unit: of a number; empty without one.
    """

    key: str
    id: str
    section: str
    kind: str
    label: str
    help: str
    options: list[tuple[Any, str]]
    unit: str


class ShownValue(NamedTuple):
    """What a control shows.

    Attributes:
        value: the value in the document, or None.
        rule: its default.
        sizes: neighbouring sizes that can be chosen; None if there are none.
        idle: whether the plan has no use for the key.
    """

    value: str | None
    rule: str
    sizes: list[Any] | None
    idle: bool


@cache
def list_settings() -> Mapping[str, Control]:
    """Return the control of every key of the schema of plans that holds no mapping."""
    found = {key: _make_setting(key) for key in LISTED}
    for key in _list_scalars("", json_schema.read_schema("plan")):
        if key not in found and not LEFT_OUT.match(key):
            found[key] = _make_setting(key)
    return found


def _list_scalars(prefix: str, said: Any) -> Iterator[str]:
    """The keys below a schema that hold something else than a mapping."""
    parts = schema.walk_schema(said) if isinstance(said, Mapping) else ()
    for name, inner in chain.from_iterable(part.get("properties", {}).items() for part in parts):
        key, kinds, items = f"{prefix}{name}", inner.get("type", ()), inner.get("items")
        yield from _list_scalars(f"{key}.", inner)
        plain = not isinstance(items, Mapping) or items.get("type") != "object"
        if kinds != "object" and ("enum" in inner or kinds) and plain:
            yield key


def _make_setting(key: str) -> Control:
    """Return the control of a key: its kind, its choices and what it is called."""
    said = about(key)
    section = ".".join(key.split(".")[:-1][:2])
    name = key.removeprefix(f"{section}.").replace(".", " ").replace("_", " ")
    options = tuple(said.get("enum") or ((False, True) if said.get("type") == "boolean" else ()))
    options = tuple(option for option in options if option is not None)
    words = [layout.format_option(option) for option in options]
    few = 0 < len(words) <= BESIDE and sum(map(len, words)) <= LETTERS
    row = layout.ROW.get(key)
    sized = row is not None and row.place in (layout.OUTER, layout.INNER, layout.OF_PIPELINE)
    kind = "segments" if few else "choice" if options else "field"
    if key in LISTED:
        kind, options = "named", tuple(references.preset_names(LISTED[key]))
        words = [*options]
    elif not options and (sized or key == "training.micro_batch"):
        kind = "sizes"
    unit = said.get("unit", "")
    return Control(
        key=key, id="set-" + key.replace(".", "-"), section=section, kind=kind,
        label=LABELS.get(key) or headline(said.get("title") or name),
        help=clean(said.get("description", ""), 300), options=[*zip(options, words, strict=True)],
        unit="" if unit in ("1", "") else unit,
    )  # fmt: skip


def list_sections() -> list[tuple[str, list[Control]]]:
    """Every setting that is not among the usual ones, by the title of its section."""
    usual = {key for keys in USUAL.values() for key in keys}
    order = {"training": 0, "parallelism": 1, "memory": 2, "time": 3, "cluster": 4, "model": 5}
    found: dict[str, list[Control]] = {}
    for key, one in list_settings().items():
        if key not in usual:
            found.setdefault(one.section, []).append(one)
    ranked = sorted(found, key=lambda name: (order.get(name.partition(".")[0], 9), name))
    said = {name: headline(name.replace("_", " ").replace(".", ", ")) for name in ranked}
    return [(TITLES.get(name) or said[name], found[name]) for name in ranked]


def shown_in(text: Node | None, plan: Plan | None, keys: Sequence[str]) -> dict[str, ShownValue]:
    """Return what the controls of some keys show.

    Args:
        text: the document, as it is written.
        plan: the completed plan; None where the document has faults.
        keys: dotted keys.

    Returns:
        what each control shows, by key.
    """
    experts = plan is None or plan.get("model.moe.experts") is not None
    found = {}
    for key in keys:
        one = list_settings()[key]
        value = read_stated(text, key)
        rule = "" if plan is None else _by_rule(plan, one)
        own = plan.get(key) if plan is not None else None
        sizes = _list_values(plan, one, own) if one.kind == "sizes" and plan is not None else None
        idle = not experts and (key.startswith("model.moe.") or key.startswith("parallelism.exp"))
        found[key] = ShownValue(value, rule, sizes, idle and value is None)
    return found


def read_stated(text: Node | None, key: str) -> str | None:
    """Return the value of a key as the document has it; of a mapping the document that it
    extends."""
    node = text
    for step in key.split("."):
        if node is None or not isinstance(node.value, dict):
            auto = node is not None and node.value == "auto"
            return "yes" if auto and key == "parallelism.auto" else None
        node = node.value.get(step)
    if node is not None and isinstance(node.value, dict):
        node = node.value.get("extends")
    if node is None or isinstance(node.value, dict):
        return None
    if isinstance(node.value, list):
        return "[" + ", ".join(str(each.plain()) for each in node.value) + "]"
    boolean = isinstance(node.value, bool)
    return layout.format_option(node.value if boolean else node.text or node.value)


def _by_rule(plan: Plan, one: Control) -> str:
    """The value that a key has where the text does not state it, in words."""
    value = plan.get(one.key)
    if value is None or isinstance(value, Mapping):
        name = value.get("name") if isinstance(value, Mapping) else None
        return clean(name or "", 60)
    if isinstance(value, (list, tuple)):
        return clean(", ".join(map(str, value)), 60)
    if isinstance(value, (bool, str)):
        return clean(layout.format_option(value), 60)
    return numbers.text(value, one.unit or "1").removesuffix(f" {one.unit}")


def _list_values(plan: Plan, one: Control, value: Any) -> list[Any]:
    """The sizes of a degree around the one that it has, few enough to stand beside each other."""
    steps = sorted({*_list_sizes(plan, one.key), value} - {None})
    place = steps.index(value) if value in steps else 0
    first = max(0, min(place - 2, len(steps) - SIZES))
    return steps[first : first + SIZES]


def _list_sizes(plan: Plan, key: str) -> Sequence[int]:
    """List the sizes that a degree may have, of those that divide what it divides."""
    model, row = plan.model, layout.ROW[key]
    layers = len(model.sequence) if model is not None else 1
    if key == CHUNKS:  # of which a stage has a whole number of layers
        return divisors(max(layers // (plan.get("parallelism.pipeline") or 1), 1))
    if row.divides == layout.LAYERS:
        return [size for size in {*divisors(layers), *POWERS} if size <= min(layers, POWERS[-1])]
    blocks = [block for part in (model.parts if model else ()) for block in part.blocks]
    experts = max((b.values["experts"] for b in blocks if b.kind == "moe"), default=1)
    return divisors(experts) if row.divides == layout.EXPERTS and experts > 1 else POWERS
