"""Documents: files, what they extend, what they name, and `--set` on top of it.

`load` turns a path or a mapping into a Document: plain data in which every name of a model,
a cluster or an accelerator is replaced by what it stands for, and which knows for every
value where it was written and who decided it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from planner import nodes, resources
from planner.errors import Fault, Place, PlanError, nearest
from planner.nodes import Node, Origin

__all__ = ["Document", "Origin", "Path_", "load", "preset_names", "read"]

Path_ = tuple[str | int, ...]

# Keys whose text names another document, by the kind of the document that holds them.
REFERENCES = {
    "plan": {"model": "model", "cluster": "cluster"},
    "cluster": {"accelerator": "accelerator"},
}
FOLDERS = {"model": "models", "cluster": "clusters", "accelerator": "accelerators"}


@dataclass(frozen=True)
class Document:
    """Resolved data with the place and origin of each value.

    A path is a tuple of keys and list indices; () is the whole document.
    """

    node: Node
    kind: str = "plan"
    overrides: tuple[tuple[str, str], ...] = field(default=())

    @cached_property
    def data(self) -> dict[str, Any]:
        """Plain dicts, lists, str, int, Fraction, bool and None."""
        return self.node.plain()  # type: ignore[no-any-return]

    def find(self, path: Sequence[str | int]) -> Node:
        """The node at `path`, or the nearest one around it."""
        node = self.node
        for step in path:
            inner = _child(node, step)
            if inner is None:
                break
            node = inner
        return node

    def has(self, path: Sequence[str | int]) -> bool:
        """Whether a value stands at `path`."""
        node: Node | None = self.node
        for step in path:
            node = None if node is None else _child(node, step)
        return node is not None

    def place(self, path: Sequence[str | int]) -> Place:
        """Where the value was written; the nearest one around it, where it is absent."""
        return self.find(path).place

    def key_place(self, path: Sequence[str | int]) -> Place:
        """Where the key of the value was written."""
        node = self.find(path)
        return node.key_place or node.place

    def origin(self, path: Sequence[str | int]) -> Origin:
        """Who decided the value: a file and line, a preset, --set, a default, an argument."""
        return self.find(path).origin

    def text(self, path: Sequence[str | int]) -> str | None:
        """A scalar as written, such as 15T."""
        return self.find(path).text

    def reference(self, path: Sequence[str | int]) -> str | None:
        """The name that the mapping at `path` was looked up by, such as llama2-70b."""
        return self.find(path).reference

    def walk(self) -> Iterator[tuple[Path_, Node]]:
        """Every scalar and empty collection with its path, in document order."""
        stack: list[tuple[Path_, Node]] = [((), self.node)]
        while stack:
            path, node = stack.pop()
            inner = list(node.children())
            if not inner:
                yield path, node
            stack.extend(((*path, step), child) for step, child in reversed(inner))


def _child(node: Node, step: str | int) -> Node | None:
    if isinstance(node.value, dict) and isinstance(step, str):
        return node.value.get(step)
    if isinstance(node.value, list) and isinstance(step, int) and 0 <= step < len(node.value):
        return node.value[step]
    return None


# Reading -----------------------------------------------------------------------------------


def read(path: str | Path, origin: Origin | None = None) -> Node:
    """The tree of one YAML file (`-` is standard input), nothing resolved.

    Raises:
        PlanError: missing, unreadable, too large, not UTF-8, not a mapping, or not the YAML
            that nodes.compose accepts.
    """
    name = "<stdin>" if str(path) == "-" else _shown(Path(path))
    raw = _bytes(path, name)
    if len(raw) > nodes.MAX_BYTES:
        raise PlanError(Fault("the file is too large", Place(name),
                              f"at most {nodes.MAX_BYTES // 10**6} MB"))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1:].decode("utf-8", "replace")) + 1
        raise PlanError(Fault("not UTF-8 text", Place(name, before.count(b"\n") + 1, column),
                              "a YAML file in UTF-8")) from None
    root = nodes.compose(text, name, origin)
    return _mapping(root, name)


def _mapping(root: Node | None, name: str) -> Node:
    if root is None or root.value is None:
        raise PlanError(Fault("the document is empty", Place(name, 1, 1), "a mapping of keys"))
    if not isinstance(root.value, dict):
        what = "a list" if isinstance(root.value, list) else "a single value"
        raise PlanError(Fault(f"the document is {what}", root.place, "a mapping of keys"))
    return root


def _bytes(path: str | Path, name: str) -> bytes:
    limit = nodes.MAX_BYTES + 1
    if str(path) == "-":
        return sys.stdin.buffer.read(limit)
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except FileNotFoundError:
        problem, allowed = "no such file", None
        folder = Path(path).parent
        hint = nearest(Path(path).name, _yaml_files(folder)) if folder.is_dir() else None
        hint = hint and _shown(folder / hint)
        raise PlanError(Fault(problem, Place(name), allowed, hint)) from None
    except IsADirectoryError:
        raise PlanError(Fault("this is a folder", Place(name), "a YAML file")) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise PlanError(Fault(f"cannot be read: {reason}", Place(name))) from None


def _yaml_files(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.glob("*.y*ml") if p.suffix in (".yaml", ".yml"))


def _shown(path: Path) -> str:
    """The path as a user would type it: relative where it lies below the current folder."""
    if path.is_absolute():
        try:
            return str(path.relative_to(os.getcwd()))
        except (ValueError, OSError):
            return str(path)
    return str(path)


# Names -------------------------------------------------------------------------------------


def preset_names(kind: str, presets: Path | None = None) -> list[str]:
    """The names of the shipped documents of a kind: plan, model, cluster, accelerator."""
    return [name.rsplit(".", 1)[0] for name in _yaml_files(_preset_folder(kind, presets))]


def _preset_folder(kind: str, presets: Path | None) -> Path:
    root = presets if presets is not None else resources.folder("presets")
    return root / FOLDERS.get(kind, "")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


@dataclass(frozen=True)
class _Resolver:
    """Replaces `extends` and names by what they stand for."""

    presets: Path | None
    base: Path  # of what was not written in a file

    def locate(self, node: Node, kind: str) -> tuple[Path, bool]:
        """The file that a name means, and whether it ships as a preset."""
        name = str(node.value)
        place = node.place
        names_path = "/" in name or os.sep in name or name.endswith((".yaml", ".yml"))
        base = Path(place.file).parent if node.origin.kind in ("file", "preset") else self.base
        near = [base / name, base / f"{name}.yaml"]
        if node.origin.kind == "set":
            near += [Path(name), Path(f"{name}.yaml")]
        found = [path for path in near if name.strip(" .") and _is_file(path)]
        folder = _preset_folder(kind, self.presets)
        shipped = [path for path in (folder / f"{name}.yaml", folder / name)
                   if name and _inside(path, folder) and _is_file(path)]
        # A file that extends its own name means the preset of that name.
        own = Path(place.file).resolve() if node.origin.kind in ("file", "preset") else None
        self_named = [path for path in found if path.resolve() == own]
        if not names_path and self_named and shipped:
            found = [path for path in found if path not in self_named]
        if found:
            return found[0], _inside(found[0], folder)
        if shipped:
            return shipped[0], True
        known = preset_names(kind, self.presets)
        allowed = "a path" if not known else f"a path or one of {_listed(known)}"
        message = f"no such file '{name}'" if names_path else f"unknown {kind} '{name}'"
        raise PlanError(Fault(message, place, allowed, nearest(name, known)))

    def fetch(self, node: Node, kind: str, chain: tuple[Path, ...]) -> Node:
        """The resolved document that the text of `node` names."""
        path, shipped = self.locate(node, kind)
        full = path.resolve()
        if full in chain:
            names = " -> ".join(p.stem for p in (*chain[chain.index(full):], full))
            raise PlanError(Fault(f"extends goes in a circle: {names}", node.place))
        origin = Origin("preset", f"preset {path.stem}") if shipped else None
        return self.extend(read(path, origin), kind, (*chain, full))

    def extend(self, node: Node, kind: str, chain: tuple[Path, ...]) -> Node:
        """A mapping merged over what it extends, and so for the mappings it holds."""
        assert isinstance(node.value, dict)
        entries = dict(node.value)
        parent = entries.pop("extends", None)
        changed: list[str] = []  # inner mappings that change the parent's,
        replaced: list[str] = []  # and those that stand alone
        for key, inner in REFERENCES.get(kind, {}).items():
            value = entries[key].value if key in entries else None
            if isinstance(value, dict):
                (replaced if "extends" in value else changed).append(key)
                entries[key] = self.extend(entries[key], inner, chain)
        reference = node.reference
        if parent is not None:
            if not isinstance(parent.value, str):
                raise PlanError(Fault("extends takes one name", parent.place,
                                      "the name or path of one document"))
            base = self.fetch(parent, kind, chain)
            reference = parent.value
            # Changing keys of a model that the parent names needs the model itself.
            base = self.names(base, kind, chain, only=changed)
            assert isinstance(base.value, dict)
            below = {key: value for key, value in base.value.items() if key not in replaced}
            entries = _merge(below, entries)
        return replace(node, value=entries, reference=reference)

    def names(
        self, node: Node, kind: str, chain: tuple[Path, ...], only: Iterable[str] | None = None
    ) -> Node:
        """A mapping whose references to other documents are replaced by these."""
        if not isinstance(node.value, dict):
            return node
        entries = dict(node.value)
        for key, inner in REFERENCES.get(kind, {}).items():
            if key in entries and (only is None or key in only):
                entries[key] = self.names(self.name(entries[key], inner, chain), inner, chain)
        return replace(node, value=entries)

    def name(self, node: Node, kind: str, chain: tuple[Path, ...] = ()) -> Node:
        """The mapping that a text names; anything else as it is."""
        if not isinstance(node.value, str):
            return node
        found = self.fetch(node, kind, chain)
        return replace(found, key_place=node.key_place, reference=node.value)


def _inside(path: Path, folder: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError):
        return False


def _listed(names: list[str], most: int = 12) -> str:
    if len(names) <= most:
        return ", ".join(names)
    return f"{', '.join(names[:most])}, and {len(names) - most} more"


def _merge(parent: dict[str, Node], child: dict[str, Node]) -> dict[str, Node]:
    """Mappings key by key, anything else whole; a null takes the key away."""
    merged = dict(parent)
    for key, node in child.items():
        below = parent.get(key)
        if node.value is None and below:
            del merged[key]
        elif below and isinstance(below.value, dict) and isinstance(node.value, dict):
            merged[key] = replace(node, value=_merge(below.value, node.value),
                                  reference=node.reference or below.reference)
        else:
            merged[key] = node
    return merged


# --set -------------------------------------------------------------------------------------

_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


def _override(key: str, value: object) -> tuple[list[str], Node]:
    """The steps and the value of one `--set KEY=VALUE`."""
    key = key.strip()
    shown = f"--set {key}={value}"
    if not _KEY.fullmatch(key):
        raise PlanError(Fault(f"'{key}' is not a key", Place(shown[:200]), "--set a.b=value"))
    origin = Origin("set", "--set")
    if isinstance(value, str):
        if not value.strip():
            raise PlanError(Fault("no value", Place(shown[:200]), "--set a.b=value"))
        node = nodes.compose(value, shown[:200], origin)
    else:
        node = nodes.from_data(value, shown[:200], origin)
    if node is None:  # a comment only
        raise PlanError(Fault("no value", Place(shown[:200]), "--set a.b=value"))
    return key.split("."), replace(node, key_place=node.place)


def _pairs(
    overrides: Mapping[str, object] | Sequence[str],
) -> Iterator[tuple[str, object]]:
    if isinstance(overrides, Mapping):
        yield from overrides.items()
        return
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals:
            raise PlanError(Fault("no value", Place(f"--set {text}"), "--set a.b=value"))
        yield key, value


def _set(node: Node, steps: list[str], value: Node, kind: str | None, names: _Resolver) -> Node:
    """`node` with the value at `steps` replaced, following names on the way."""
    step, rest = steps[0], steps[1:]
    if isinstance(node.value, list):
        if not step.isdigit() or int(step) >= len(node.value):
            last = len(node.value) - 1
            raise PlanError(Fault(f"'{step}' is not an item of this list", value.place,
                                  f"0 to {last}" if last >= 0 else "the list is empty"))
        items = list(node.value)
        inner = _set(items[int(step)], rest, value, None, names) if rest else value
        items[int(step)] = inner
        return replace(node, value=items)
    if node.value is not None and not isinstance(node.value, dict):
        raise PlanError(Fault(f"'{step}' is set inside '{node.text}'", value.place,
                              "a key inside a mapping"))
    entries = dict(node.value or {})
    if not rest and value.value is None and step in entries:
        del entries[step]
    elif not rest:
        old = entries.get(step)
        entries[step] = replace(value, key_place=value.key_place if old is None else value.place)
    else:
        below = REFERENCES.get(kind or "", {}).get(step)
        inner = entries.get(step) or Node(None, value.place, value.origin, value.place)
        if below:
            inner = names.name(inner, below)
        entries[step] = _set(inner, rest, value, below, names)
    return replace(node, value=entries)


def load(
    source: str | Path | Mapping[str, Any],
    overrides: Mapping[str, object] | Sequence[str] = (),
    kind: str = "plan",
    presets: Path | None = None,
) -> Document:
    """Read a document and resolve `extends`, names and overrides.

    Args:
        source: a path, `-` for standard input, or a mapping.
        overrides: `{"training.tokens": "2T"}` or `["training.tokens=2T"]`, applied in order.
        kind: plan, model, cluster, accelerator, or another kind without names of its own.
        presets: the folder of shipped documents, where it is not the program's own.

    Raises:
        PlanError: with places; nothing is checked against a schema yet.
    """
    chain: tuple[Path, ...] = ()
    base = Path(".")
    if isinstance(source, Mapping):
        root = nodes.from_data(source, "<mapping>", Origin("argument", "argument"))
    else:
        root = read(source)
        if str(source) != "-":
            chain, base = (Path(source).resolve(),), Path(source).parent
    resolver = _Resolver(presets, base)
    # Faults of independent overrides are reported together.
    changes: list[tuple[tuple[list[str], Node], tuple[str, str]]] = []
    faults: list[Fault] = []
    for key, text in _pairs(overrides):
        try:
            changes.append((_override(key, text), (key.strip(), str(text))))
        except PlanError as error:
            faults.extend(error.faults)
    if faults:
        raise PlanError(faults)
    root = resolver.extend(root, kind, chain)
    for (steps, value), _ in changes:
        root = _set(root, steps, value, kind, resolver)
    root = resolver.extend(root, kind, chain) if changes else root
    root = resolver.names(root, kind, ())
    return Document(root, kind, tuple(shown for _, shown in changes))
