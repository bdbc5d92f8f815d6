"""A study document: a base plan, the values that some of its keys take, and what to record."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from planner.base.errors import Fault, PlanError
from planner.base.version import full
from planner.documents import schema, source
from planner.documents import yaml_nodes as nodes
from planner.documents.references import Resolver
from planner.documents.source import Document
from planner.documents.yaml_nodes import Node, Origin
from planner.plans import plan
from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.constraints import Limit, known, parse_limit
from planner.questions.studies.axes import (
    AUTO,
    ITEM,
    LAYOUT,
    Axis,
    Choice,
    is_item,
    is_numeric,
    is_range,
    items,
    key_known,
    label,
    number,
    only,
    spread,
)

#: The axis of several plans, and what else a table calls its own columns.
PLANS = "plan"
OWN_COLUMNS = (PLANS, "layout", "fits", "verdict", "reason")
T = TypeVar("T")
Setting = tuple[str, Node]  # a dotted key and its value
#: Values other than numbers, of all axes; each is read as a plan.
ONE_BY_ONE = 250


@dataclass(frozen=True)
class Study:
    """A checked study. Nothing of it is evaluated yet; it travels to workers as it is."""

    name: str
    notes: str | None
    document: str | None  # as it was named; None for a mapping or standard input
    files: tuple[str, ...]  # that it was read from
    bases: tuple[Document, ...]
    several: bool  # the first axis says which of the bases
    axes: tuple[Axis, ...]
    zipped: bool
    record: tuple[str, ...]
    where: tuple[Limit, ...]
    keep_invalid: bool

    @cached_property
    def dimensions(self) -> tuple[tuple[Axis, ...], ...]:
        """What is combined as a grid: each with the axes that move together along it. The first
        one turns slowest."""
        plans = [self.axes[:1]] if self.several else []
        rest = self.axes[len(plans) :]
        return (*plans, *([rest] if self.zipped and rest else [(axis,) for axis in rest]))

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """How many places each dimension has."""
        return tuple(len(axes[0].choices) for axes in self.dimensions)

    @cached_property
    def size(self) -> int:
        """How many points there are."""
        return math.prod(self.shape)

    def places(self, point: int) -> tuple[int, ...]:
        """The place of a point along each dimension."""
        found = []
        for length in reversed(self.shape):
            point, place = divmod(point, length)
            found.append(place)
        return tuple(reversed(found))

    def choices(self, places: Sequence[int]) -> Iterator[tuple[Axis, Choice]]:
        """The value of each axis at the places of a point."""
        for axes, place in zip(self.dimensions, places, strict=True):
            for axis in axes:
                yield axis, axis.choices[place]

    def labels(self, point: int) -> dict[str, Any]:
        """The values of a point by axis, as a table calls them."""
        return {axis.name: choice.label for axis, choice in self.choices(self.places(point))}

    def plan(self, point: int, changes: Mapping[str, Any] | None = None) -> Plan:
        """The plan of a point, ``changes`` on top of it.

        Raises:
            PlanError: the values do not go together.
        """
        return self.plan_at(self.places(point), changes)

    def plan_at(self, places: Sequence[int], changes: Mapping[str, Any] | None = None) -> Plan:
        """As ``plan``, for the place along each dimension."""
        merged = {**self.changes(places), **(changes or {})}
        return loading.planned(plan.changed(self.base_at(places), in_order(merged)))

    def changes(self, places: Sequence[int]) -> dict[str, Any]:
        """What the values at some places change in the base."""
        return {k: v for _, choice in self.choices(places) for k, v in choice.changes.items()}

    def base_at(self, places: Sequence[int]) -> Document:
        """The plan that the point at some places changes."""
        return self.bases[places[0]] if self.several else self.bases[0]

    def value_at(self, places: Sequence[int], key: str) -> Any:
        """The value of a dotted key at some places as it is given; None where it is not."""
        changes = self.changes(places)
        steps = key.split(".")
        for end in range(len(steps), -1, -1):
            around = ".".join(steps[:end])
            if around in changes or not around:
                value = changes[around] if around else self.base_at(places).data
                for step in steps[end:]:
                    value = value.get(step) if isinstance(value, Mapping) else None
                return value
        return None

    @cached_property
    def searches(self) -> bool:
        """Whether the layout of some point is to be found."""
        layouts = [c.changes.get(LAYOUT) for axis in self.axes for c in axis.choices]
        layouts += [base.data.get(LAYOUT) for base in self.bases]
        given = any(c.changes.get(f"{LAYOUT}.{AUTO}") for axis in self.axes for c in axis.choices)
        return given or any(layout and layout.get(AUTO) for layout in layouts)

    @cached_property
    def digest(self) -> str:
        """What two runs must have in common to write the same table."""
        data = [
            full(),
            [base.data for base in self.bases],
            [[axis.name, [[c.label, c.changes] for c in axis.choices]] for axis in self.axes],
            [self.zipped, self.record, list(map(str, self.where)), self.keep_invalid],
        ]
        return hashlib.sha256(json.dumps(data, default=str).encode()).hexdigest()


def load(
    document: str | Path | Mapping[str, Any],
    overrides: Mapping[str, Any] | Sequence[str] = (),
) -> Study:
    """The study of a YAML file or of a mapping, ``overrides`` as for plans.

    Raises:
        PlanError: every fault of the first stage (reading, schema, values) that found one.
    """
    checked = schema.validate(source.load(document, overrides, "study"), "study")
    return _Reader(checked, document).study()


@dataclass
class _Reader:
    """Turns a study document that agrees with its schema into a study."""

    document: Document
    origin: str | Path | Mapping[str, Any]
    faults: list[Fault] = field(default_factory=list)

    @cached_property
    def resolver(self) -> Resolver:
        known_file = isinstance(self.origin, (str, Path)) and str(self.origin) != "-"
        return Resolver(None, Path(self.origin).parent if known_file else Path("."))  # type: ignore[arg-type]

    def study(self) -> Study:
        data = self.document.data
        most = data["limit"]
        for index, name in enumerate(data["record"]):
            self._collect(partial(known, name), ("record", index))
        where: list[Limit] = []
        for index, text in enumerate(data["where"]):
            where += self._collect(partial(parse_limit, text), ("where", index))
        bases = self._bases()
        written = self._axes(most)
        self._set_once(written)
        self.finish()
        zipped = data["combine"] == "zip"
        self._lengths([(a.name, len(a.values)) for a in written], len(bases), zipped, most)
        spelled = sum(len(axis.values) for axis in written if not axis.numeric)
        if spelled > ONE_BY_ONE:
            what = f"the axes have {spelled} values that are no numbers"
            place = self.document.find(("axes",)).place
            raise PlanError(Fault(what, place, f"at most {ONE_BY_ONE}, each is a plan to read"))
        self.first = [setting for axis in written for setting in axis.settings(0)]
        documents: list[Document] = []
        for base in bases:
            documents += self._collect(partial(self._checked, base, []), ())
        axes = [axis.resolved(self, bases[0]) for axis in written]
        self.finish()
        several = "plans" in data
        if several:
            names = [self._plan_label(base, index) for index, base in enumerate(bases)]
            axes.insert(0, Axis(PLANS, tuple(Choice(name, {}) for name in names)))
        files = {*self.document.files(), *(f for base in documents for f in base.files())}
        return Study(
            data["name"],
            data.get("notes"),
            self._named(),
            tuple(sorted(files)),
            tuple(documents),
            several,
            tuple(axes),
            zipped,
            tuple(data["record"]),
            tuple(where),
            data["invalid"] == "keep",
        )

    def _named(self) -> str | None:
        file = self.document.node.place.file
        if file.startswith("<"):
            return None
        path = Path(file)
        return path.name if path.is_absolute() else path.as_posix()

    # -- faults -------------------------------------------------------------------------------

    def _collect(self, ask: Callable[[], T], path: tuple[str | int, ...]) -> list[T]:
        """The one answer, or none and its faults; those that know no place stand at the key."""
        try:
            return [ask()]
        except PlanError as error:
            place = self.document.place(path)
            self.faults += [replace(f, place=f.place or place) for f in error.faults]
            return []

    def finish(self) -> None:
        if self.faults:
            raise PlanError(self.faults)

    # -- plans --------------------------------------------------------------------------------

    def _bases(self) -> list[Node]:
        root = self.document.find(())
        given = [key for key in ("base", "plans") if self.document.has((key,))]
        if len(given) != 1:
            what = "both base and plans" if given else "neither base nor plans"
            self.faults.append(Fault(f"the study has {what}", root.place, "one of them"))
            return []
        node = self.document.find((given[0],))
        found = []
        for base in node.value if isinstance(node.value, list) else [node]:
            try:
                found.append(self._base(base))
            except PlanError as error:
                self.faults += error.faults
        return found

    def _base(self, node: Node) -> Node:
        if isinstance(node.value, str):
            fetched = self.resolver.fetch(node, "plan", ())
            return replace(fetched, reference=node.value)
        return self.resolver.extend(node, "plan", ())

    def _plan_label(self, base: Node, index: int) -> str:
        return base.reference or label(base, index)

    def _checked(self, base: Node, settings: Sequence[Setting]) -> Document:
        """The base with the first value of every axis and then some settings, as the schema of
        plans completes it.

        Raises:
            PlanError: the schema does not allow one of them.
        """
        root = base
        latest = {**dict(self.first), **dict(settings)}
        for key, node in sorted(latest.items(), key=lambda item: item[0].count(".")):
            root = source._set(root, key.split("."), node, "plan", self.resolver)
        root = self.resolver.extend(source.spelled_out(root, "plan"), "plan", ())
        root = self.resolver.names(root, "plan", ())
        return plan.opened(schema.validate(Document(root, "plan"), "plan"))

    # -- axes ---------------------------------------------------------------------------------

    def _axes(self, most: int) -> list[_Written]:
        node = self.document.find(("axes",)) if self.document.has(("axes",)) else None
        found = []
        for name, child in node.value.items() if node and isinstance(node.value, dict) else ():
            try:
                found.append(self._axis(name, child, most))
            except PlanError as error:
                self.faults += error.faults
        return found

    def _set_once(self, axes: Sequence[_Written]) -> None:
        """Two axes that set one key would contradict each other."""
        owner: dict[str, str] = {}
        for axis in axes:
            for key in sorted({key for _, settings in axis.values for key, _ in settings}):
                first = owner.setdefault(key, axis.name)
                if first != axis.name:
                    message = f"axes.{axis.name} sets {key}, and so does axes.{first}"
                    place = self.document.key_place(("axes", axis.name))
                    self.faults.append(Fault(message, place, "one of them"))

    def _axis(self, name: str, node: Node, most: int) -> _Written:
        if name in OWN_COLUMNS:
            raise PlanError(
                Fault(f"axes.{name}: the table has a column of that name", node.key_place)
            )
        if not is_range(node):
            several = items(name, node)
            if all(map(is_item, several)):
                return _Written(name, tuple(self._item(name, item) for item in several))
        said = key_known(name, node.key_place)
        if is_range(node):
            low_to_high = spread(name, node, said, most)
            origin = Origin("study", f"axes.{name}")
            made = [
                replace(nodes.from_data(value, "", origin), place=node.place, unit=said.get("unit"))
                for value in low_to_high
            ]
            return _Written(name, tuple((None, ((name, one),)) for one in made), is_numeric(said))
        if name == LAYOUT:
            several = [self._layout(item) for item in several]
        numbers = is_numeric(said) and all(not isinstance(i.value, (dict, list)) for i in several)
        return _Written(name, tuple(self._named_value(name, item) for item in several), numbers)

    def _named_value(self, key: str, node: Node) -> tuple[str | None, tuple[Setting, ...]]:
        """A value; a mapping for a section that has no name of its own may bring one."""
        called = node.value.get("name") if isinstance(node.value, dict) else None
        if (
            called is None
            or not isinstance(called.value, str)
            or schema.knows("plan", f"{key}.name")
        ):
            return None, ((key, node),)
        assert isinstance(node.value, dict)
        rest = {name: child for name, child in node.value.items() if name != "name"}
        return called.value, ((key, replace(node, value=rest)),)

    def _layout(self, node: Node) -> Node:
        """The layout of a plan that is named; anything else as it is."""
        if not isinstance(node.value, str) or node.value == AUTO:
            return node
        fetched = self.resolver.fetch(node, "plan", ())
        assert isinstance(fetched.value, dict)
        found = fetched.value.get(LAYOUT)
        if found is None or not isinstance(found.value, dict):
            raise PlanError(Fault(f"the plan {node.value} gives no layout", node.place))
        return replace(found, place=node.place, reference=node.value)

    def _item(self, name: str, node: Node) -> tuple[str | None, tuple[Setting, ...]]:
        """The settings of ``{name, set}``."""
        assert isinstance(node.value, dict)
        only(f"axes.{name}", node.value, ITEM)
        inner = node.value["set"]
        if not isinstance(inner.value, dict) or not inner.value:
            raise PlanError(Fault(f"axes.{name}: set is no mapping", inner.place, "KEY: VALUE"))
        settings = []
        for key, child in inner.value.items():
            key_known(key, child.key_place)
            settings.append((key, self._layout(child) if key == LAYOUT else child))
        called = node.value.get("name")
        text = called.text if called and isinstance(called.value, str) else None
        return text or " ".join(f"{k}={label(n, 0)}" for k, n in settings), tuple(settings)

    def _lengths(
        self, axes: Sequence[tuple[str, int]], plans: int, zipped: bool, most: int
    ) -> None:
        node = self.document.find(("axes",))
        if zipped and len({count for _, count in axes}) > 1:
            counts = ", ".join(f"{name} {count}" for name, count in axes)
            raise PlanError(
                Fault(f"axes of different lengths cannot be zipped: {counts}", node.place)
            )
        product = [count for _, count in axes[:1]] if zipped else [count for _, count in axes]
        size = math.prod([plans, *product])
        if size > most:
            counted = " × ".join(str(n) for n in ([plans] if plans > 1 else []) + product)
            raise PlanError(
                Fault(
                    f"the study has {counted} = {size} points",
                    node.place,
                    f"at most {most}; the key limit allows more",
                )
            )


def in_order(changes: Mapping[str, Any]) -> dict[str, Any]:
    """A section before the keys inside it, whichever axis comes first."""
    return dict(sorted(changes.items(), key=lambda item: item[0].count(".")))


#: Written values of a numeric axis that the schema reads in full; it bounds the others alike.
READ = 2


@dataclass
class _Written:
    """An axis as written: for each value its name, where it has one, and what it sets."""

    name: str
    values: tuple[tuple[str | None, tuple[Setting, ...]], ...]
    numeric: bool = False

    def settings(self, index: int) -> tuple[Setting, ...]:
        return self.values[index][1]

    def resolved(self, reader: _Reader, base: Node) -> Axis:
        """The axis with its values as plans hold them; faults go to the reader."""
        if self.numeric:
            return self._numbers(reader, base)
        choices = []
        for index, (text, settings) in enumerate(self.values):
            try:
                found = reader._checked(base, settings)
            except PlanError as error:
                reader.faults += error.faults
                continue
            changes = {key: found.get(key) for key, node in settings}
            value = settings[0][1]
            shown: Any = text or value.reference or label(value, index)
            if text is None and isinstance(value.value, int) and not isinstance(value.value, bool):
                shown = value.value
            choices.append(Choice(shown, changes))
        return Axis(self.name, tuple(choices))

    def _numbers(self, reader: _Reader, base: Node) -> Axis:
        """Numbers are read in the unit of their key; the smallest and the largest are held against
        the schema, which allows what lies between."""
        unit = str(key_known(self.name, None).get("unit", "1"))
        found: list[tuple[Any, Node]] = []
        for _, settings in self.values:
            node = settings[0][1]
            try:
                found.append((None if node.value is None else number(self.name, node, unit), node))
            except PlanError as error:
                reader.faults += error.faults
        numbers = [pair for pair in found if pair[0] is not None]
        ends = [min(numbers, key=_first), max(numbers, key=_first)] if numbers else []
        fractions = islice((p for p in numbers if not isinstance(p[0], int)), 1)
        for _, node in [*ends, *fractions]:
            try:
                reader._checked(base, ((self.name, node),))
            except PlanError as error:
                reader.faults += error.faults
        default = plan.about(self.name).get("default")
        choices = [
            Choice("default" if v is None else v, {self.name: default if v is None else v})
            for v, _ in found
        ]
        return Axis(self.name, tuple(choices))


def _first(pair: tuple[Any, Node]) -> Any:
    return pair[0]
