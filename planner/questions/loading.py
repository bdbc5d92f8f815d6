"""From a file to a plan: read, checked, completed, its layout found where it leaves it open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.base import resources
from planner.base.errors import Fault, PlanError
from planner.documents import defaults, schema, source
from planner.documents.source import Document
from planner.documents.yaml_nodes import Node
from planner.plans import plan
from planner.plans.document import Plan


def load(
    document: str | Path | Mapping[str, Any] | Node,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    margin: str | None = None,
    launcher: str | None = None,
    presets: Path | None = None,
    team: defaults.Asked = None,
) -> Plan:
    """The plan of a YAML file, of a mapping or of a tree, with ``--set`` overrides. A layout that
    it leaves open is found with a ``margin`` of memory, and of those that a ``launcher`` can start.
    ``presets`` is the folder of shipped documents, where it is not the program's own; ``team`` a
    file of a team's defaults in the place of the one that is found, False for none.

    Raises:
        PlanError: every fault; where there is one of names or of the schema, those of the checks
            across keys that it does not reach; a launcher for a layout that is spelled out.
    """
    unknown: dict[source.Path_, tuple[Fault, ...]] = {}
    ours = defaults.of(document, team)
    read = source.load(document, overrides, presets=presets, unknown=unknown, defaults=ours)
    if defaults.is_left_out(team) and defaults.around(document) is not None:
        read = replace(read, left_out=True)
    try:
        found = plan.opened(schema.validate(read, "plan", unknown))
    except schema.Invalid as error:
        raise PlanError([*error.faults, *plan.further(error.document, error.faults)]) from None
    if not (found.data.get("parallelism") or {}).get("auto"):
        margin = None  # it is asked of the plan as it is, not of how its layout is found
    asked = {"parallelism.margin": margin, "parallelism.for": launcher}
    said = {key: value for key, value in asked.items() if value is not None}
    if said:
        found = found.changed(said)
        if found.origin(("parallelism",)).kind == "default":
            said = {"parallelism.auto": "true", **said}
        found = replace(found, overrides=(*found.overrides, *said.items()))
    return planned(found)


def planned(document: Document) -> Plan:
    """A plan from a document that agrees with the schema; a layout that it leaves open is found.

    Raises:
        PlanError: every fault that was found, or no valid layout.
    """
    layout = document.data.get("parallelism") or {}
    if not layout.get("auto"):
        return plan.planned(document)
    from planner.questions.search import automatic

    try:
        return automatic.planned(document)
    except PlanError:
        if document.has(("parallelism", "auto")):
            raise
        # Nobody asked for it.
        return plan.complete(document.changed({"parallelism.auto": None}))


#: The kinds of documents, in the order in which they are told apart.
_KINDS = ("study", "schedule", "plan", "accelerator", "cluster", "model")


def kind_of(keys: Collection[str]) -> str:
    """The kind of a document by its keys: the first of which it has a key that no other kind knows;
    a plan where nothing tells."""
    # As they are written: to put what they refer to in its place takes longer than all the rest.
    known = dict[str, set[str]]()
    for kind in _KINDS:
        read = resources.read_json(resources.folder("schemas") / f"{kind}.schema.json")
        known[kind] = set(read.get("definitions", {}).get("keys", read)["properties"])
    for kind in _KINDS:
        others = set[str]().union(*(known[other] for other in _KINDS if other != kind))
        if not (known[kind] - others).isdisjoint(keys):
            return kind
    # A plan has that key too, but is rarely known by it alone.
    return "accelerator" if "memory" in keys else "plan"


def check(
    file: str | Path,
    overrides: Sequence[str] = (),
    further: Callable[[Plan], object] = lambda plan: None,
    study: Callable[[str | Path, Sequence[str]], object] = lambda file, overrides: None,
) -> str:
    """Validate a document of any kind, a plan ``further`` too, a study by how one is loaded;
    returns its kind.

    Raises:
        PlanError: every fault of the first stage that found one.
    """
    if defaults.is_defaults(file):
        ours = defaults.load(Path(file))
        _ = ours.reports, ours.templates  # told where they are missing
        return "file of defaults"
    kinds = (kind for kind in source.FOLDERS if str(file) in source.preset_names(kind))
    file, _ = source.located(file, next(kinds, "plan"))
    kind = kind_of(source.read(file).plain())
    if kind == "plan":
        further(load(file, overrides))
        return kind
    if kind == "study":
        study(file, overrides)
        return kind
    unknown: dict[source.Path_, tuple[Fault, ...]] = {}
    document = schema.validate(source.load(file, overrides, kind, unknown=unknown), kind, unknown)
    if kind == "model":
        plan.begun(replace(document, held={"model": document.data}))
    return kind
