"""From a file to a plan: read, check and complete it, and find a layout that it leaves open."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from planner.base import files, resources
from planner.base.errors import Fault, Place, PlanError
from planner.documents import aliases, defaults, references, schema, source
from planner.documents.source import Document
from planner.documents.yaml_nodes import Node, Origin, from_data
from planner.plans import plan
from planner.plans.document import Plan


def load(
    document: str | Path | Mapping[str, Any] | Node,
    overrides: Mapping[str, Any] | Sequence[str] = (),
    margin: str | None = None,
    launcher: str | None = None,
    presets: Path | None = None,
    team: defaults.Asked = None,
    searched: bool = False,
) -> Plan:
    """Load the plan of a YAML file, of a mapping or of a tree.

    Args:
        document: a path or the name of a built-in plan, ``-`` for standard input, a mapping, or a
            parsed tree.
        overrides: values by dotted key, or ``KEY=VALUE`` texts as of ``--set``.
        margin: memory margin of the search for a layout that the plan leaves open.
        launcher: the framework that must be able to start that layout.
        presets: folder of shipped documents, if not the program's own.
        team: file of a team's defaults, in place of the one that is found; False for none.
        searched: whether a search for a layout follows, so that an invalid one may be replaced by
            one near it (``Plan.invalid``).

    Returns:
        The completed plan, with a layout.

    Raises:
        PlanError: every fault; where there is one of names or of the schema, those of the checks
            across keys that it does not reach; a launcher for a layout that is spelled out.
    """
    unknown: dict[source.Path_, tuple[Fault, ...]] = {}
    ours = defaults.find_defaults(document, team)
    try:
        read = source.load(document, overrides, presets=presets, unknown=unknown, defaults=ours)
        if defaults.is_left_out(team) and defaults.locate_defaults(document) is not None:
            read = replace(read, left_out=True)
        found = plan.validate_plan(read, unknown, launcher)
    except PlanError as error:
        if run := _import_run(document, overrides):
            node, remarks, rest = run
            made = load(node, rest, margin, launcher, presets, team, searched)
            return replace(made, document=replace(made.document, remarks=remarks))
        refuse_other_kind(document, "plan")
        if not isinstance(error, schema.Invalid):
            raise
        raise PlanError(
            [*error.faults, *plan.check_despite_faults(error.document, error.faults)]
        ) from None
    if not (found.data.get("parallelism") or {}).get("auto"):
        margin = None  # it applies to the plan as it is, not to a search for its layout
    asked = {"parallelism.margin": margin, "parallelism.for": launcher}
    said = {key: value for key, value in asked.items() if value is not None}
    if said:
        found = found.change_keys(said)
        if found.find_origin(("parallelism",)).kind == "default":
            said = {"parallelism.auto": "true", **said}
        found = replace(found, overrides=(*found.overrides, *said.items()))
    if not searched or (found.data.get("parallelism") or {}).get("auto"):
        return complete_document(found)
    from planner.questions import healing

    return healing.build_near_plan(found)


def _import_run(
    document: str | Path | Mapping[str, Any] | Node, overrides: Mapping[str, Any] | Sequence[str]
) -> tuple[Node, tuple[str, ...], list[str]] | None:
    """Import the launch file of a framework that stands in place of a plan.

    Args:
        document: as of ``load``.
        overrides: as of ``load``; variables of a script are among them.

    Returns:
        The plan, what is to be told of it, and the overrides that are keys of a plan; None if no
        framework is known by the file.

    Raises:
        PlanError: the file says what is not modelled, or leaves open what a plan needs.
    """
    if not isinstance(document, str | Path) or not files.is_file(str(document)):
        return None
    from planner.connect import imports

    pairs = overrides.items() if isinstance(overrides, Mapping) else ()
    changes = [f"{key}={value}" for key, value in pairs] or [*overrides]
    if (found := imports.import_run(str(document), changes)) is None:
        return None
    named, origin = {"name": Path(document).name, **found.document}, Origin("file", str(document))
    keys = [one for one in changes if "." in one.partition("=")[0]]
    return from_data(named, found.place, origin), tuple(found.said), keys


def complete_document(document: Document) -> Plan:
    """Complete a document that conforms to the schema; an open layout is searched for.

    Raises:
        PlanError: every fault that was found, or no valid layout.
    """
    if document.data["training"]["mode"] == "rl":
        from planner.questions.search import split

        return split.complete_rollout(document, _complete_layout)
    return _complete_layout(document)


def _complete_layout(document: Document) -> Plan:
    """Complete a document; an open layout is searched for."""
    layout = document.data.get("parallelism") or {}
    if not layout.get("auto"):
        return plan.build_plan(document)
    from planner.questions.search import automatic

    try:
        return automatic.add_best_layout(document)
    except PlanError:
        if document.has_value(("parallelism", "auto")):
            raise
        # The layout is open by default, not by request.
        return plan.complete_plan(document.change_keys({"parallelism.auto": None}))


#: The kinds of documents, in the order in which they are tested.
_KINDS = ("study", "schedule", "stack", "plan", "accelerator", "cluster", "model")


def find_doc_type(keys: Collection[str]) -> str:
    """Return the kind of a document: the first that alone has one of its keys, else a plan."""
    # References stay unresolved: resolving them takes longer than all the rest.
    known = dict[str, set[str]]()
    for kind in _KINDS:
        read = resources.read_json(resources.folder("schemas") / f"{kind}.schema.json")
        known[kind] = set(read.get("definitions", {}).get("keys", read)["properties"])
    if not {"model_type", "architectures"}.isdisjoint(keys):
        return CONFIGURATION
    for kind in _KINDS:
        others = set[str]().union(*(known[other] for other in _KINDS if other != kind))
        if not (known[kind] - others).isdisjoint(keys):
            return kind
    # A plan has that key too, but rarely without others.
    return "accelerator" if "memory" in keys else "plan"


#: The kind of a Hugging Face configuration, in messages.
CONFIGURATION = "Hugging Face configuration"
#: How to use a document that is of another kind than expected.
_USES: Mapping[str, str] = resources.load_beside(__file__)


class OtherKind(PlanError):
    """A document of another kind than expected."""

    def __init__(self, kind: str, wanted: str, place: Place, name: str) -> None:
        """Describe which kind the document is, and how to use it.

        Args:
            kind: the kind of the document.
            wanted: the kind that is expected.
            place: where the document is.
            name: its name in the suggested command.
        """
        self.kind = kind
        article = "an" if kind[0] in "aeiou" else "a"
        wrong = f"{article} {kind}, where a {wanted} is expected"
        super().__init__(Fault(wrong, place, _USES[kind].format(name)))


def refuse_other_kind(document: object, wanted: str) -> None:
    """Refuse a document, or a shipped one of that name, that is of another kind than expected.

    Raises:
        OtherKind: it is not of the ``wanted`` kind.
    """
    name, place, kind = "FILE", Place("<mapping>"), wanted
    with contextlib.suppress(PlanError):
        if isinstance(document, Node):
            place, kind = document.place, find_doc_type(document.plain())
        elif isinstance(document, Mapping):
            kind = find_doc_type(document)
        elif isinstance(document, (str, Path)) and str(document) != "-":
            name, place = str(document), Place(str(document))
            kind, file = find_document(document, wanted)
            root = references.read_document(file)
            place = root.place if files.is_file(name) else place
            if kind == wanted and Path(file).name == defaults.NAME:
                kind = "file of defaults"
            elif kind == wanted:
                kind = find_doc_type(root.plain())
    if kind != wanted:
        raise OtherKind(kind, wanted, place, name)


def find_document(name: str | Path, wanted: str = "plan") -> tuple[str, Path]:
    """Return the kind and the file of a shipped document's name, ``wanted`` first; for a path,
    ``wanted`` and the path.

    Raises:
        PlanError: a name that nothing has.
    """
    text = str(name)
    for kind in () if files.is_file(text) else (wanted, *references.FOLDERS):
        meant = aliases.find_preset(kind, text, references.preset_names(kind))
        if meant is not None:
            return kind, references.locate_file(meant, kind)[0]
    return wanted, references.locate_file(text, wanted)[0]


def check_file(
    file: str | Path,
    overrides: Sequence[str] = (),
    further: Callable[[Plan], object] = lambda plan: None,
    study: Callable[[str | Path, Sequence[str]], object] = lambda file, overrides: None,
) -> str:
    """Validate a document of any kind.

    Args:
        file: a path, or the name of a shipped document.
        overrides: ``KEY=VALUE`` texts, as of ``--set``.
        further: checks a loaded plan.
        study: loads a study from its file and the overrides.

    Returns:
        The kind of the document.

    Raises:
        PlanError: every fault of the first stage that found one.
    """
    if Path(file).name == defaults.NAME:
        _ = defaults.load_defaults(Path(file)).reports  # raises faults about missing folders
        return "file of defaults"
    kinds = (kind for kind in references.FOLDERS if str(file) in references.preset_names(kind))
    file, _ = references.locate_file(file, next(kinds, "plan"))
    kind = find_doc_type(references.read_document(file).plain())
    if kind == CONFIGURATION and _import_run(file, overrides) is None:
        refuse_other_kind(file, "plan")
    kind = "plan" if kind == CONFIGURATION else kind
    if kind == "plan":
        further(load(file, overrides))
        return kind
    if kind == "study":
        study(file, overrides)
        return kind
    unknown: dict[source.Path_, tuple[Fault, ...]] = {}
    document = schema.validate(source.load(file, overrides, kind, unknown=unknown), kind, unknown)
    if kind == "model":
        plan.begin_plan(replace(document, held={"model": document.data}))
    return kind
