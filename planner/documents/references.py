"""Reads files, and replaces `extends` and names of documents by what they stand for."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from planner.base import files, resources, units
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.documents import aliases, yaml_nodes
from planner.documents.team import Defaults
from planner.documents.yaml_nodes import Node, Origin

#: Below presets/, where the documents of each kind ship.
FOLDERS = {"plan": "", "study": "studies"} | {
    kind: f"{kind}s" for kind in ("model", "cluster", "accelerator", "schedule", "stack")
}
#: What the names of plans of published runs begin with: their folder below presets/.
OF_RUNS = "runs/"
#: The same of other plans that ship in folders of their own.
OF_OTHERS = ("fine_tuning/", "reinforcement/")
#: Keys whose text names another document, by the kind of the document that holds them.
REFERENCES = {
    "plan": {"model": "model", "cluster": "cluster"},
    "cluster": {"accelerator": "accelerator"},
}
ENDINGS = (".yaml", ".yml")
#: Keys that a provider's price list sets where a cluster does not.
PRICES = ("price", "reserved_price")
#: The memory of an accelerator that its driver reports.
USABLE = "memory_usable"
#: Documents of which each extends the next, at most.
MOST_LINKS = 50
#: Names of documents that a fault lists, at most.
MOST_LISTED = 12
#: Characters of a name or a path, as of Linux.
LONGEST = 4096


def scale_usable(kind: str | None, entries: dict[str, Node], given: Node | None) -> None:
    """Give an accelerator of another memory the same share of it that its driver reports of its
    own, if nobody sets that.

    Args:
        kind: of the document.
        entries: its keys before, of which this changes one.
        given: the other memory.
    """
    own, usable = entries.get("memory"), entries.get(USABLE)
    if kind == "accelerator" and given and own and usable and usable.origin.kind != "set":
        with contextlib.suppress(units.UnitError):  # which is told where quantities are read
            size, whole, of = (units.parse(one.plain(), "bytes") for one in (usable, own, given))
            if of > 0:
                reported = f"{of * size // whole} bytes"
                entries[USABLE] = replace(usable, value=reported, origin=given.origin)


def read_document(path: str | Path, origin: Origin | None = None) -> Node:
    """Read one YAML file (`-` is standard input) as a tree; names in it are not resolved.

    Raises:
        PlanError: missing, unreadable, too large, not UTF-8, not a mapping, or not the YAML
            that nodes.compose accepts.
    """
    name = "<stdin>" if str(path) == "-" else files.format_path(Path(path))
    text = files.read_text(path, yaml_nodes.MAX_BYTES, Place(name), "a YAML file in UTF-8")
    root = yaml_nodes.parse_yaml(text, name, origin)
    if root is None or root.value is None:
        raise PlanError("the document is empty", Place(name, 1, 1), "a mapping of keys")
    if not isinstance(root.value, dict):
        what = "a list" if isinstance(root.value, list) else "a single value"
        raise PlanError(f"the document is {what}", root.place, "a mapping of keys")
    return root


def read_shipped(path: Path, origin: Origin) -> Node:
    """Read a built-in document; its tree is cached until the file changes."""
    if files.is_recording():
        return read_document(path, origin)
    state = os.stat(path)
    return _read_cached(path, origin, files.format_path(path), state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _read_cached(path: Path, origin: Origin, *state: object) -> Node:
    """Read a document, once for each state of the file (name as typed, time of change, size)."""
    return read_document(path, origin)


def preset_names(kind: str, presets: Path | None = None) -> list[str]:
    """List the names of the built-in documents of a kind: plan, model, cluster, accelerator."""
    folder, names = _locate_presets(kind, presets), []
    with contextlib.suppress(FileNotFoundError):
        names = [name for name in sorted(os.listdir(folder)) if name.endswith(ENDINGS)]
    return [Path(n).stem for n in names if not presets or files.is_file(folder / n)]


def _locate_presets(kind: str, presets: Path | None) -> Path:
    """Return the folder of the built-in documents of a kind."""
    root = presets if presets is not None else resources.folder("presets")
    return root / FOLDERS.get(kind, "")


def locate_file(
    name: str | Path, kind: str, presets: Path | None = None
) -> tuple[Path, str | None]:
    """Find the file of a document that is given by a path or a name; an existing file wins.

    Args:
        name: a path, a name or `-`.
        kind: of the document.
        presets: in place of the built-in folder.

    Returns:
        its path, and its name if the document is built in. A path may not exist: who reads it
            tells.

    Raises:
        PlanError: no document of the kind has that name.
    """
    text = str(name)
    if kind == "plan" and text.startswith((OF_RUNS, *OF_OTHERS)) and not files.is_file(text):
        return _locate_in_folder(text, presets)
    is_path = text == "-" or not {"/", os.sep, "\0"}.isdisjoint(text) or "." in text
    if files.is_file(text) or (
        text not in preset_names(kind, presets) and (is_path or os.path.exists(text))
    ):
        return Path(text), None
    asked = Node(text, Place(text), Origin("set", "the command"))
    path, shipped = Resolver(presets, Path()).locate_name(asked, kind)
    return path, path.stem if shipped else None


def list_runs() -> list[str]:
    """List the names of the plans of published runs, each with its folder."""
    return list_folder(OF_RUNS)


def list_plans() -> list[str]:
    """List the names of the plans that ship, but those of published runs."""
    return [*preset_names("plan"), *(name for of in OF_OTHERS for name in list_folder(of))]


def list_folder(of: str, presets: Path | None = None) -> list[str]:
    """List the names of the plans of one folder below presets/, each with the folder.

    Args:
        of: the folder, with a slash at its end.
        presets: in place of the built-in folder.
    """
    folder = _locate_presets("plan", presets) / of
    return sorted(f"{of}{file.stem}" for file in folder.glob("*.yaml"))


def _locate_in_folder(name: str, presets: Path | None) -> tuple[Path, str]:
    """Find the file of a plan that ships in a folder of its own; return it with the name.

    Raises:
        PlanError: there is none of that name.
    """
    of = name[: name.index("/") + 1]
    known = list_folder(of, presets)
    if name not in known:
        what, shown = ("published run", "runs") if of == OF_RUNS else ("plan", "plans")
        wrong = f"unknown {what} '{name}'"
        allowed = f"a name that plan.py list {shown} shows"
        raise PlanError(wrong, Place(name), allowed, nearest(name, known))
    return _locate_presets("plan", presets) / f"{name}.yaml", name


#: Keys that every plan has, itself or by what it extends; and keys that only plans have.
STATED, OWN = frozenset(("model", "cluster", "training")), frozenset(("training", "parallelism"))
_TOP = re.compile(r"^(\w+)[ \t]*:", re.MULTILINE)


def is_plan(file: Path) -> bool:
    """Return whether a document has all keys that a plan must have."""
    with contextlib.suppress(PlanError):
        return set(read_document(file).plain()) >= STATED
    return False


def is_plan_like(file: Path, links: int = MOST_LINKS) -> bool:
    """Return whether a document is meant as a plan: also if it extends a plan, names a file that is
    missing, or is invalid YAML."""
    try:
        text = files.read_text(file, yaml_nodes.MAX_BYTES)
        if not ("training" in text or "extends" in text):
            return False
        entries = read_document(file).entries
    except PlanError:
        with contextlib.suppress(PlanError):
            return set(_TOP.findall(files.read_text(file, yaml_nodes.MAX_BYTES))) >= STATED
        return False
    if entries.keys() >= STATED:
        return True
    parent = entries.get("extends")
    if parent is None or not isinstance(parent.value, str) or not links:
        return False
    try:
        base, _ = Resolver(None, file.parent).locate_name(parent, "plan")
    except PlanError:
        return bool(entries.keys() & OWN)
    return is_plan_like(base, links - 1)


@dataclass(frozen=True)
class Resolver:
    """Replaces `extends` and names by the documents that they stand for.

    Attributes:
        presets: folder of built-in documents; None for the program's own.
        base: folder of what was not written in a file.
        unknown: receives the faults of references that do not resolve, by path; None raises them.
        defaults: of a team.
        again: whether the defaults are in already, except below overrides.
    """

    presets: Path | None
    base: Path
    unknown: dict[tuple[str | int, ...], tuple[Fault, ...]] | None = None
    defaults: Defaults | None = None
    again: bool = False

    def locate_name(self, node: Node, kind: str) -> tuple[Path, bool]:
        """Find the file that a name means, and whether it is a preset."""
        name = str(node.value)
        place = node.place
        if len(name) > LONGEST:
            raise PlanError(f"a name of {len(name)} characters", place, f"at most {LONGEST}")
        names_path = "/" in name or os.sep in name or name.endswith(ENDINGS)
        base = Path(place.file).parent if node.origin.kind in ("file", "preset") else self.base
        paths = [base / name, base / f"{name}.yaml"]
        if node.origin.kind == "set":
            paths += [Path(name), Path(f"{name}.yaml")]
        folder = _locate_presets(kind, self.presets)
        shipped = [folder / f"{name}.yaml", folder / name]
        found = [path for path in paths if name.strip(" .") and files.is_file(path)]
        found += [path for path in shipped if files.is_file(path) and files.is_within(path, folder)]
        if len(found) > 1 and not names_path:
            # The preset is meant where the file near by is the one that names it, or a plan.
            own = Path(place.file).resolve() if node.origin.kind in ("file", "preset") else None
            found.sort(key=lambda path: path.resolve() == own or is_plan(path))
        if found:
            return found[0], files.is_within(found[0], folder)
        known = preset_names(kind, self.presets)
        meant = aliases.find_preset(kind, name, known)
        if meant is not None:
            return folder / f"{meant}.yaml", True
        if names_path and not all(map(files.is_inside, paths)):
            raise files.refuse_path(place)
        near = self.suggest_name(name, kind, known)
        listed = known[:MOST_LISTED]
        if len(known) > MOST_LISTED:
            listed = [*listed, f"and {len(known) - MOST_LISTED} more"]
        allowed = f"a path or one of {', '.join(listed)}" if known else "a path"
        if near is not None:
            allowed = f"a path or a name that plan.py list {FOLDERS[kind] or 'plans'} shows"
        message = f"no such file '{name}'" if names_path else f"unknown {kind} '{name}'"
        raise PlanError(message, place, allowed, near)

    def suggest_name(self, name: str, kind: str, known: Sequence[str]) -> str | None:
        """Suggest the built-in document whose name, or its first words, is most similar to an
        unknown name.

        Args:
            name: as it is written.
            kind: of the document; an accelerator in place of a cluster gives `8 x NAME`.
            known: names of the built-in documents of that kind.
        """
        device = kind == "cluster" and aliases.find_preset(
            "accelerator", name, preset_names("accelerator", self.presets)
        )
        if device:
            return f"8 x {name}"
        words = re.split(r"[-_\s]+", name)
        begun = ("-".join(words[:count]) for count in range(len(words) - 1, 0, -1))
        meant = (aliases.find_preset(kind, beginning, known) for beginning in begun)
        if kind == "model" and "/" in name:
            page = nearest(name, aliases.on_the_hub())
            if page is not None:
                return page
        return nearest(name, known) or next(filter(None, meant), None)

    def fetch_document(self, node: Node, kind: str, chain: tuple[Path, ...]) -> Node:
        """Read and resolve the document that a node names.

        Args:
            node: text, a name or a path.
            kind: of the document.
            chain: real paths of the documents that led here, outermost first.

        Raises:
            PlanError: there is none, it extends itself, or the chain is too long.
        """
        path, shipped = self.locate_name(node, kind)
        full = path.resolve()
        if full in chain:
            names = " -> ".join(p.stem for p in (*chain[chain.index(full) :], full))
            raise PlanError(f"extends is circular: {names}", node.place)
        if len(chain) > MOST_LINKS:
            message = f"more than {MOST_LINKS} documents extend one another"
            raise PlanError(message, node.place, "fewer of them")
        origin = Origin("preset", f"preset {path.stem}") if shipped else None
        root = read_document(path) if origin is None else read_shipped(path, origin)
        found = self.extend_node(root, kind, (*chain, full))
        return replace(found, reference=path.stem if shipped else str(node.value))

    def extend_node(self, node: Node, kind: str, chain: tuple[Path, ...]) -> Node:
        """Merge a mapping over the document that it extends, and likewise the mappings in it.

        Args:
            node: a mapping.
            kind: of the document.
            chain: real paths of the documents that led here, outermost first.

        Raises:
            PlanError: of ``extends``, or of the document that it names.
        """
        entries = dict(node.entries)
        parent = entries.pop("extends", None)
        inner = {
            key: below
            for key, below in REFERENCES.get(kind, {}).items()
            if key in entries and isinstance(entries[key].value, dict)
        }
        # Of the mappings that it holds, those that extend a name of their own stand alone.
        alone = {key for key in inner if "extends" in entries[key].entries}
        for key, below in inner.items():
            entries[key] = self.extend_node(entries[key], below, chain)
        if parent is None:
            return replace(node, value=self.add_defaults(node, entries, kind, chain))
        if not isinstance(parent.value, str):
            wanted = "the name or path of one document"
            raise PlanError("extends takes one name", parent.place, wanted)
        base = self.fetch_document(parent, kind, chain)
        # Changing keys of a model that the parent names needs the model itself.
        base = self.resolve_names(base, kind, chain, only=inner.keys() - alone)
        kept = {key: value for key, value in base.entries.items() if key not in alone}
        if self.defaults is not None and kind == "cluster" and "provider" in entries:
            ours = self.defaults.cluster.values()  # of which the price is no longer asked
            kept = {k: v for k, v in kept.items() if k not in PRICES or v not in ours}
        scale_usable(kind, kept, entries.get("memory"))
        return replace(node, value=merge_nodes(kept, entries), reference=base.reference)

    def add_defaults(
        self, node: Node, entries: dict[str, Node], kind: str, chain: tuple[Path, ...]
    ) -> dict[str, Node]:
        """Add the team's defaults to the entries of a document that extends none: they override
        presets and are overridden by plans.

        Args:
            node: the mapping, whose origin tells a preset from a plan.
            entries: its keys.
            kind: of the document.
            chain: real paths of the documents that led here; the last one is its own.
        """
        if self.defaults is None or (self.again and node.origin.kind != "set"):
            return entries
        shipped = node.origin.kind == "preset"
        if kind == "accelerator" and shipped and chain:
            return merge_nodes(entries, dict(self.defaults.rates.get(chain[-1].stem, {})))
        if kind != "cluster":
            return entries
        ours = dict(self.defaults.cluster)
        if shipped:
            kept = {k: v for k, v in entries.items() if k not in PRICES or "provider" not in ours}
            return merge_nodes(kept, ours)
        if "provider" in entries:
            ours = {key: value for key, value in ours.items() if key not in PRICES}
        return merge_nodes(ours, entries)

    def resolve_names(
        self,
        node: Node,
        kind: str,
        chain: tuple[Path, ...],
        only: Iterable[str] | None = None,
        around: tuple[str, ...] = (),
    ) -> Node:
        """Replace every reference to another document by that document. With ``unknown``, record
        references that do not resolve there instead of raising.

        Args:
            node: a mapping; anything else is returned as it is.
            kind: of the document.
            chain: real paths of the documents that led here, outermost first.
            only: keys to resolve; all by default.
            around: keys that lead to the node, for ``unknown``.

        Raises:
            PlanError: the faults of all references.
        """
        if not isinstance(node.value, dict):
            return node
        entries = dict(node.value)
        faults: list[Fault] = []
        for key, inner in REFERENCES.get(kind, {}).items():
            if key in entries and (only is None or key in only):
                try:
                    named = self.name(entries[key], inner, chain)
                    entries[key] = self.resolve_names(named, inner, chain, around=(*around, key))
                except PlanError as error:
                    faults.extend(self.record_faults((*around, key), error))
        if kind == "plan" and "training" in entries and only is None:
            try:
                entries["training"] = self.resolve_schedule(entries["training"], chain)
            except PlanError as error:
                faults.extend(self.record_faults(("training", "schedule"), error))
        if faults:
            raise PlanError(faults)
        return replace(node, value=entries)

    def record_faults(self, path: tuple[str, ...], error: PlanError) -> tuple[Fault, ...]:
        """Record the faults of a reference in ``unknown``; if that is None, return them."""
        if self.unknown is None:
            return error.faults
        self.unknown[path] = error.faults
        return ()

    def resolve_schedule(self, training: Node, chain: tuple[Path, ...]) -> Node:
        """Replace the schedule of a training run that names or extends a file by its table."""
        if (node := training.find("schedule")) is None:
            return training
        if isinstance(node.value, dict):
            node = self.extend_node(node, "schedule", chain)
        elif str(node.value).endswith(ENDINGS):
            node = self.name(node, "schedule", chain)
        return replace(training, value={**training.entries, "schedule": node})

    def name(self, node: Node, kind: str, chain: tuple[Path, ...] = ()) -> Node:
        """Return the mapping that a text names; anything else as it is.

        Args:
            node: text such as a name, a path or `8 x h100`.
            kind: of the document.
            chain: real paths of the documents that led here, outermost first.

        Raises:
            PlanError: nothing has that name.
        """
        if not isinstance(node.value, str):
            return node
        counted = aliases.parse_count(node.value) if kind == "cluster" else None
        if counted is not None:
            devices, device = (replace(node, value=value) for value in counted)
            made = replace(node, value={"accelerator": device, "devices": devices}, text=None)
            return self.extend_node(made, kind, chain)
        found = self.fetch_document(node, kind, chain)
        return replace(found, key_place=node.key_place)


def merge_nodes(parent: dict[str, Node], child: dict[str, Node]) -> dict[str, Node]:
    """Merge mappings key by key; other values are replaced, and a null removes the key, which a
    stack may do where there is none."""
    merged = dict(parent)
    for key, node in child.items():
        below = parent.get(key)
        if node.value is None and (below or node.origin.kind == "stack"):
            merged.pop(key, None)
        elif below and isinstance(below.value, dict) and isinstance(node.value, dict):
            merged[key] = replace(
                node,
                value=merge_nodes(below.value, node.value),
                reference=node.reference or below.reference,
            )
        else:
            merged[key] = node
    return merged
