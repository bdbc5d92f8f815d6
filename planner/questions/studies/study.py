"""A study document: a base plan, the values that some of its keys take, and what to record."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from planner.base import units
from planner.base.errors import Fault, PlanError
from planner.base.version import format_versions
from planner.book.quantity import BOOK, Book
from planner.documents import defaults, schema, source, stacks, yaml_nodes
from planner.documents.references import Resolver
from planner.documents.source import Document
from planner.documents.yaml_nodes import Node, Origin
from planner.plans import plan
from planner.plans.document import Draft, Plan
from planner.questions import loading
from planner.questions.constraints import Limit, check_batchable, parse_limit
from planner.questions.studies.axes import (
    AUTO,
    ITEM,
    LAYOUT,
    Choice,
    StudyAxis,
    check_axis_keys,
    collect_keys,
    expand_range,
    find_key_schema,
    is_numeric,
    label,
    read_axis_number,
)

#: Keys that define the task: what is trained, on how much.
TASK = re.compile(r"model|training\.(tokens|sequence_length)$")
T = TypeVar("T")
R = TypeVar("R")
#: The quantity that a deadline limits.
DAYS = "time.training_days"
#: The axis of several plans, and the names of a table's own columns.
PLANS = "plan"
OWN_COLUMNS = (PLANS, "layout", "fits", "verdict", "reason")
#: The most values other than numbers, over all axes; each is read as a plan.
ONE_BY_ONE = 250


@dataclass(frozen=True)
class StudySpec:
    """A checked study, not evaluated yet; it is sent to workers as it is.

    Attributes:
        name: its name.
        notes: its notes, if any.
        document: its file as it was named; None for a mapping or standard input.
        files: all files that it was read from.
        bases: the plans that the axes change.
        several: whether the first axis chooses one of the bases.
        axes: the axes, with their values.
        zipped: whether all axes change together, in place of a grid.
        record: the quantities that the table has.
        where: limits that the rows of the table satisfy.
        keep_invalid: whether points that make no valid plan stay in the table, with the reason.
        deadlines: days within which a plan is to be done: none, one for all, or one for each place
            of the first dimension.
        book: the quantities, with those that the plans define, all of them the same.
    """

    name: str
    notes: str | None
    document: str | None
    files: tuple[str, ...]
    bases: tuple[Document, ...]
    several: bool
    axes: tuple[StudyAxis, ...]
    zipped: bool
    record: tuple[str, ...]
    where: tuple[Limit, ...]
    keep_invalid: bool
    deadlines: tuple[units.Exact, ...] = ()
    book: Book = BOOK

    @cached_property
    def dimensions(self) -> tuple[tuple[StudyAxis, ...], ...]:
        """The dimensions of the grid, each with the axes that change together along it. The first
        one changes slowest."""
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

    def locate_point(self, point: int) -> tuple[int, ...]:
        """Return the place of a point along each dimension."""
        import numpy as np

        return tuple(map(int, np.unravel_index(point, self.shape)))

    def label_point(self, point: int) -> dict[str, Any]:
        """Return the labels of a point's values by axis, as in tables."""
        both = zip(self.dimensions, self.locate_point(point), strict=True)
        return {axis.name: axis.choices[place].label for axes, place in both for axis in axes}

    def build_plan(self, point: int) -> Plan:
        """Build the plan of a point.

        Raises:
            PlanError: the values do not go together.
        """
        return loading.complete_document(self.build_document(point))

    def build_document(self, point: int, without: Collection[int] = ()) -> Document:
        """Return the document of a point's plan, without the changes of some dimensions."""
        places, changes = self.locate_point(point), dict[str, Any]()
        for dimension, axes in enumerate(self.dimensions):
            if dimension not in without:
                changes |= merge_changes(axes, places[dimension])
        base = self.bases[places[0] if self.several else 0]
        return plan.apply_practice(base, sort_changes(changes))

    @cached_property
    def searches(self) -> bool:
        """Whether the layout of some point is searched."""
        changes = (choice.changes for axis in self.axes for choice in axis.choices)
        given = (*changes, *(base.data for base in self.bases))
        return any(g.get(f"{LAYOUT}.{AUTO}") or (g.get(LAYOUT) or {}).get(AUTO) for g in given)

    @cached_property
    def digest(self) -> str:
        """A hash of what two runs must have in common to write the same table."""
        data = [
            format_versions(),
            [base.data for base in self.bases],
            [[axis.name, [[c.label, c.changes] for c in axis.choices]] for axis in self.axes],
            [self.zipped, self.record, list(map(str, self.where)), self.keep_invalid],
            list(map(str, self.deadlines)),
        ]
        return hashlib.sha256(json.dumps(data, default=str).encode()).hexdigest()


def read_study(
    document: str | Path | Mapping[str, Any], overrides: Mapping[str, Any] | Sequence[str] = ()
) -> StudySpec:
    """Load the study of a YAML file or of a mapping, ``overrides`` as for plans.

    Raises:
        PlanError: every fault; where a key disagrees with the schema, those of the others too.
    """
    read = source.load(document, overrides, "study")
    try:
        return _StudyReader(schema.validate(read, "study"), document).build_study()
    except schema.Invalid as error:
        loading.refuse_other_kind(document, "study")
        raise PlanError(dict.fromkeys([*error.faults, *_collect_faults(read, document)])) from None


def _collect_faults(read: Document, origin: str | Path | Mapping[str, Any]) -> Sequence[Fault]:
    """Return the faults of a study's keys that agree with its schema, where others do not."""

    def alone(entries: dict[str, Node]) -> Document:
        """Validate the document with only some of its entries."""
        return schema.validate(replace(read, node=replace(read.node, value=entries)), "study")

    entries, given = dict[str, Node](), read.node.value
    for key, node in given.items() if isinstance(given, dict) else ():
        with suppress(schema.Invalid):
            alone({key: node})
            entries[key] = node
    if not {"base", "plans"} & set(entries):
        return ()
    try:
        _StudyReader(alone(entries), origin).build_study()
    except PlanError as error:
        return error.faults
    return ()


class _StudyReader:
    """Turns a study document that agrees with its schema into a study."""

    def __init__(self, document: Document, origin: str | Path | Mapping[str, Any]) -> None:
        """Begin to read a study.

        Args:
            document: the study, which agrees with its schema.
            origin: what it was read from; names of files are relative to a file's folder.
        """
        self.document = document
        self.faults: list[Fault] = []
        is_file = isinstance(origin, (str, Path)) and str(origin) != "-"
        base = Path(origin).parent if is_file else Path(".")  # type: ignore[arg-type]
        self.resolver = Resolver(None, base, defaults=defaults.find_defaults(origin))

    def each(self, read: Callable[[T], R], items: Iterable[T], key: str | None = None) -> list[R]:
        """Read some items and collect their faults.

        Args:
            read: reads one item, or raises its faults.
            items: the items; after too many faults the rest is not read.
            key: the list of the document that has them; a fault without a place gets that of its
                item.

        Returns:
            What was read, without items that have faults.
        """
        found = []
        for index, item in enumerate(items):
            if len(self.faults) > schema.ENOUGH:
                break
            try:
                found.append(read(item))
            except PlanError as error:
                place = self.document.find_place(() if key is None else (key, index))
                self.faults += [replace(f, place=f.place or place) for f in error.faults]
        return found

    def raise_faults(self) -> None:
        """Raise the faults collected so far.

        Raises:
            PlanError: there are some.
        """
        if self.faults:
            raise PlanError(dict.fromkeys(self.faults))

    def build_study(self) -> StudySpec:
        """Build the study.

        Raises:
            PlanError: every fault that was found.
        """
        data = self.document.data
        bases = self._read_bases()
        node = self.document.node.find("axes")
        written = self.each(
            lambda item: self._read_axis(*item), node.entries.items() if node else ()
        )
        self._set_once(written)
        try:
            self._check_counts(written, len(bases))
        except PlanError as error:
            self.faults += error.faults
            self.raise_faults()
        self.first = {k: node for axis in written for k, node in axis.choices[0].changes.items()}
        documents = self.each(lambda base: self._complete_base(base, {}), bases)
        self._check_conditions(written, documents)
        self.keys = collect_keys(written)
        axes = [self._resolve_axis(axis, bases[0]) for axis in written if bases]
        if not self.faults:
            self._set_once(axes)
        book = self._find_book(documents)
        self.each(partial(check_batchable, book=book), data["record"], "record")
        where = self.each(partial(parse_limit, book=book), data["where"], "where")
        self.each(lambda limit: check_batchable(limit.quantity, book), where, "where")
        self.raise_faults()
        if "plans" in data:
            names = [base.reference or label(base, index) for index, base in enumerate(bases)]
            axes.insert(0, StudyAxis(PLANS, tuple(Choice(name, {}) for name in names)))
        files = {*self.document.list_files(), *(f for base in documents for f in base.list_files())}
        file = self.document.name or self.document.node.place.file
        path = Path(file).name if Path(file).is_absolute() else Path(file).as_posix()
        return self._add_deadlines(
            StudySpec(
                name=data["name"],
                notes=data.get("notes"),
                document=None if file.startswith("<") else path,
                files=tuple(sorted(files)),
                bases=tuple(documents),
                several="plans" in data,
                axes=tuple(axes),
                zipped=data["combine"] == "zip",
                record=tuple(data["record"]),
                where=tuple(where),
                keep_invalid=data["invalid"] == "keep",
                book=book,
            )
        )

    def _find_book(self, documents: Sequence[Document]) -> Book:
        """Return the book of all plans, with their own quantities if all define the same."""
        books = []
        for document in documents:
            draft = Draft(document, document.data)
            books.append(plan.get_book(draft))
            self.faults += draft.faults
        return books[0] if books and all(one is books[0] for one in books) else BOOK

    def _add_deadlines(self, study: StudySpec) -> StudySpec:
        """Add the deadlines to a study; without any, a limit on the days of training is one.

        Raises:
            PlanError: one is no time, or their number is not that of the first axis's values.
        """
        limits = [
            Fraction(x.value) for x in study.where if (x.quantity, x.relation) == (DAYS, "<=")
        ]
        if not self.document.has_value(("deadline",)):
            return replace(study, deadlines=(min(limits),)) if limits else study
        node = self.document.find_node(("deadline",))
        several = node.value if isinstance(node.value, list) else [node]

        def days(one: Node) -> units.Exact:
            """Read one deadline, in days."""
            with units.name_faults("deadline", one.place):
                return units.parse(one.value, "days")  # type: ignore[arg-type]

        found = self.each(days, several)
        self.raise_faults()
        if len(found) != 1:
            first = study.dimensions[0] if study.axes else ()
            names = " and ".join(axis.name for axis in first)
            tasks = not collect_keys(first) or any(map(TASK.match, collect_keys(first)))
            if not tasks or (len(found),) != study.shape[:1]:
                what = f"deadline has {len(found)} values"
                said = "one time, or one for each value of the first axis"
                said += (
                    f", {names}: {study.shape[0]}"
                    if tasks and first
                    else (
                        " where that says what is trained: a plan, a model, tokens or their length"
                    )
                )
                raise PlanError(what, node.place, said)
        return replace(study, deadlines=tuple(found))

    # -- plans --------------------------------------------------------------------------------

    def _read_bases(self) -> list[Node]:
        """Read the plan of ``base`` or the plans of ``plans``, with the documents that they
        extend."""
        given = [key for key in ("base", "plans") if self.document.has_value((key,))]
        if len(given) != 1:
            what = "both base and plans" if given else "neither base nor plans"
            place = self.document.find_node(()).place
            self.faults.append(Fault(f"the study has {what}", place, "one of them"))
            return []
        node, names = self.document.find_node((given[0],)), self.resolver
        several = node.value if isinstance(node.value, list) else [node]
        return self.each(
            lambda base: names.extend_node(names.name(base, "plan"), "plan", ()), several
        )

    def _complete_base(
        self, base: Node, settings: Mapping[str, Node], without: Collection[str] = ()
    ) -> Document:
        """Complete the base with the first value of every axis, but for some keys, and then some
        settings, by the schema of plans.

        Raises:
            PlanError: the schema does not allow one of them.
        """
        root = base
        first = {key: node for key, node in self.first.items() if key not in without}
        for key, node in sort_changes({**first, **settings}).items():
            root = source._set(root, key.split("."), node, "plan", self.resolver)
        root = self.resolver.extend_node(source.expand_auto(root, "plan"), "plan", ())
        root = stacks.merge_stack(self.resolver.resolve_names(root, "plan", ()))
        read = Document(root, "plan", defaults=self.resolver.defaults)
        return plan.set_auto_layout(schema.validate(read, "plan"))

    # -- axes as written ----------------------------------------------------------------------

    def _read_axis(self, name: str, node: Node) -> StudyAxis:
        """Read an axis as written: its changes are nodes; named values have a label."""
        if name in OWN_COLUMNS:
            raise PlanError(f"axes.{name}: the table has a column of that name", node.key_place)
        if {"from", "to"} & {*node.entries}:
            said = find_key_schema(name, node.key_place)
            origin, unit = Origin("study", f"axes.{name}"), said.get("unit")
            values = expand_range(name, node, said, self.document.data["limit"])
            made = (
                Node(value, node.place, origin, text=str(value), unit=unit)
                if type(value) is int  # most are; as ``from_data`` makes it
                else replace(yaml_nodes.from_data(value, node.place, origin), unit=unit)
                for value in values
            )
            return StudyAxis(name, tuple(Choice(None, {name: one}) for one in made))
        several = node.value if isinstance(node.value, list) else [node]
        if not several:
            raise PlanError(f"axes.{name} has no values", node.place, "at least one")
        if all("set" in item.entries for item in several):
            return StudyAxis(name, tuple(self._read_item(name, item) for item in several))
        find_key_schema(name, node.key_place)
        if name == LAYOUT:
            several = [self._resolve_layout(item) for item in several]
        return StudyAxis(name, tuple(_read_axis_value(name, item) for item in several))

    def _resolve_layout(self, node: Node) -> Node:
        """Return the layout of a plan that is named; anything else as it is."""
        if not isinstance(node.value, str) or node.value == AUTO:
            return node
        fetched = self.resolver.fetch_document(node, "plan", ())
        found = fetched.entries.get(LAYOUT)
        if found is None or not isinstance(found.value, dict):
            raise PlanError(f"the plan {node.value} has no layout", node.place)
        return replace(found, place=node.place, reference=node.value)

    def _read_item(self, name: str, node: Node) -> Choice:
        """Read the settings of ``{name, set}``."""
        check_axis_keys(f"axes.{name}", node.entries, ITEM)
        inner = node.entries["set"]
        if not inner.entries:
            raise PlanError(f"axes.{name}: set is not a mapping", inner.place, "KEY: VALUE")
        settings = {}
        for key, child in inner.entries.items():
            find_key_schema(key, child.key_place)
            settings[key] = self._resolve_layout(child) if key == LAYOUT else child
        called = node.entries.get("name")
        text = called.text if called and isinstance(called.value, str) else None
        return Choice(text or " ".join(f"{k}={label(n, 0)}" for k, n in settings.items()), settings)

    def _set_once(self, axes: Sequence[StudyAxis]) -> None:
        """Report keys that two axes set, which would contradict each other."""
        owner: dict[str, str] = {}
        for axis in axes:
            for key in sorted(axis.keys):
                first = owner.setdefault(key, axis.name)
                if first != axis.name:
                    message = f"axes.{axis.name} sets {key}, and so does axes.{first}"
                    place = self.document.find_key_place(("axes", axis.name))
                    self.faults.append(Fault(message, place, "one of them"))

    def _check_counts(self, axes: Sequence[StudyAxis], plans: int) -> None:
        """Check that axes go together, and that there are not too many values and points.

        Raises:
            PlanError: they do not, or there are.
        """
        data, place = self.document.data, self.document.find_node(("axes",)).place
        lengths = [len(axis.choices) for axis in axes]
        if data["combine"] == "zip":
            if len(set(lengths)) > 1:
                counts = ", ".join(f"{axis.name} {len(axis.choices)}" for axis in axes)
                raise PlanError(f"axes of different lengths cannot be zipped: {counts}", place)
            del lengths[1:]
        counted = [plans, *lengths] if plans > 1 else lengths
        if math.prod(counted) > data["limit"]:
            what = f"{' × '.join(map(str, counted))} = {math.prod(counted)} points"
            allowed = f"at most {data['limit']}; the key limit allows more"
            raise PlanError(f"the study has {what}", place, allowed)
        spelled = sum(len(axis.choices) for axis in axes if not _has_numbers(axis))
        if spelled > ONE_BY_ONE:
            what = f"the axes have {spelled} values that are not numbers"
            raise PlanError(what, place, f"at most {ONE_BY_ONE}, each is a plan to read")

    def _check_conditions(self, axes: Sequence[StudyAxis], documents: Sequence[Document]) -> None:
        """Collect the keys that decide what the stacks of the plans set, and the keys that are set;
        two axes that decide together are reported, as each is read by itself."""
        named = {found.get("training.stack") for found in documents} - {None}
        self.settable = {key for stack in named for key in stacks.list_settable(stack)}
        conditions = [keys for stack in sorted(named) for keys in stacks.list_conditions(stack)]
        self.conditions = {key for keys in conditions for key in keys}
        for keys in conditions:
            both = [one.name for one in axes if any(source.is_within(k, one.keys) for k in keys)]
            if len(both) > 1:
                what = f"axes.{both[0]} and axes.{both[1]} decide together what the stack sets"
                place = self.document.find_key_place(("axes", both[1]))
                self.faults.append(Fault(what, place, "one axis of both, its values {name, set}"))
                return

    # -- axes as plans hold them --------------------------------------------------------------

    def _resolve_axis(self, axis: StudyAxis, base: Node) -> StudyAxis:
        """Return an axis with its values as plans hold them, checked by the schema of plans."""
        if _has_numbers(axis) and not axis.keys & self.conditions:
            return StudyAxis(axis.name, self._read_numbers(axis, base))

        def complete(choice: Choice) -> tuple[Choice, Document]:
            """Complete the plan of one value, without what the others set."""
            return choice, self._complete_base(base, choice.changes, axis.keys)

        made = self.each(complete, axis.choices)
        plans = [found for _, found in made]
        keys = {_find_section(key, plans) for key in axis.keys}
        for key in self.settable:
            differs = any(found.get(key) != plans[0].get(key) for found in plans)
            keys |= {key} if differs and not source.is_within(key, self.keys) else set()

        def read(index: int, choice: Choice, found: Document) -> Choice:
            """Label one value, with what all keys of the axis are in its plan."""
            value = next(iter(choice.changes.values()))
            shown: Any = choice.label or value.reference or label(value, index)
            if choice.label is None and type(value.value) is int:
                shown = value.value
            return Choice(shown, {key: found.get(key) for key in sorted(keys)})

        return StudyAxis(axis.name, tuple(read(n, *pair) for n, pair in enumerate(made)))

    def _read_numbers(self, axis: StudyAxis, base: Node) -> tuple[Choice, ...]:
        """Read numbers in the unit of their key. The smallest, the largest and one that is not
        whole are checked by the schema, which allows all between them."""
        said, key = plan.about(axis.name), axis.name
        unit = str(said.get("unit", "1"))

        def read(choice: Choice) -> tuple[Any, Node]:
            """Read one value, None for the default, and keep its node."""
            node = choice.changes[key]
            return None if node.value is None else read_axis_number(key, node, unit), node

        found = self.each(read, axis.choices)
        numbers = [pair for pair in found if pair[0] is not None]
        tried = [choose(numbers, key=itemgetter(0)) for choose in (min, max) if numbers]
        tried += [pair for pair in numbers if not isinstance(pair[0], int)][:1]
        self.each(lambda pair: self._complete_base(base, {key: pair[1]}), tried)
        default = said.get("default")
        return tuple(
            Choice("default", {key: default}) if value is None else Choice(value, {key: value})
            for value, _ in found
        )


def _find_section(key: str, documents: Sequence[Document]) -> str:
    """Return the outermost section around a key that some of the documents do not have, which the
    others have as a whole; else the key."""
    *around, _ = itertools.accumulate(key.split("."), "{}.{}".format)
    lacking = (one for one in around if any(found.get(one) is None for found in documents))
    return next(lacking, key)


def _has_numbers(axis: StudyAxis) -> bool:
    """Decide whether an axis has numbers or no value, for a key that takes only numbers."""
    values = [choice.changes.get(axis.name) for choice in axis.choices if choice.label is None]
    plain = [node for node in values if node and not isinstance(node.value, (dict, list))]
    return len(plain) == len(axis.choices) and is_numeric(plan.about(axis.name))


def _read_axis_value(key: str, node: Node) -> Choice:
    """Read a value; a mapping may have a label as ``name`` where its section has no such key."""
    called = node.entries.get("name")
    text = called.value if called else None
    if not isinstance(text, str) or schema.describe("plan", f"{key}.name"):
        return Choice(None, {key: node})
    rest = {name: child for name, child in node.entries.items() if name != "name"}
    return Choice(text, {key: replace(node, value=rest)})


def merge_changes(axes: Sequence[StudyAxis], place: int) -> dict[str, Any]:
    """Return the changes of a dimension's axes at a place."""
    return {k: v for axis in axes for k, v in axis.choices[place].changes.items()}


def sort_changes(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Sort changes so that a section comes before the keys inside it."""
    return dict(sorted(changes.items(), key=lambda item: item[0].count(".")))
