"""Documents: files, what they extend, what they name, and `--set` on top of it.

`load` turns a path or a mapping into a Document: plain data in which every name of a model,
a cluster or an accelerator is replaced by what it stands for, and which knows for every
value where it was written and who decided it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from planner.base import numbers, units
from planner.base.errors import Fault, Place, PlanError, collect_faults
from planner.documents import aliases, stacks, yaml_nodes
from planner.documents.references import (
    REFERENCES,
    Resolver,
    locate_file,
    read_document,
    scale_usable,
)
from planner.documents.team import Defaults
from planner.documents.yaml_nodes import Node, Origin

Path_ = tuple[str | int, ...]
#: The end of the reason for a value that a search for a layout found.
SEARCHED = " (parallelism: auto)"
#: And that of a split of devices (``rl.rollout: auto``).
SPLIT = " (rl.rollout: auto)"
#: Objectives whose sequences come in pairs.
PAIRED = ("dpo", "orpo", "reward")
#: Tokens of a step of training where a plan leaves its batch open: 4M, rounded to a power of two.
TOKENS = 2**22
#: Sequences of a step of fine-tuning where a plan leaves its batch open.
SEQUENCES = 64


def assume_batch(get: Callable[[str], Any], devices: int) -> tuple[int, str]:
    """Assume the global batch of a plan that leaves it open: as many whole sequences as ``TOKENS``
    fill, of fine-tuning ``SEQUENCES``, the same number for each device; one micro-batch of each
    where the optimizer steps inside the backward pass.

    Args:
        get: returns the value of a dotted key of the plan or of its document; None without one.
        devices: how many train.

    Returns:
        The batch in sequences, and the reason for it.
    """
    objective, micro = get("training.objective"), get("training.micro_batch")
    each = micro or 1 + (objective in PAIRED)
    if get("training.optimizer_step") == "in-backward":
        why = "one micro-batch for each device, as the optimizer steps inside the backward pass"
        return devices * each, why
    whole = "in whole sequences for each device"
    if get("training.lora.rank") or objective not in (None, "pretrain"):
        batch = devices * each * -(-SEQUENCES // (devices * each))
        return batch, f"as Llama 2 was fine-tuned (arXiv 2307.09288, section 3.1), {whole}"
    length = get("training.sequence_length") or get("model.max_sequence")
    trained = "as Llama 2 was trained with (arXiv 2307.09288, section 2.2)"
    why = f"at least {numbers.exact_text(TOKENS)} tokens a step, {trained}, {whole}"
    return devices * -(-TOKENS // (length * devices)), why


def lookup(data: Any, dotted: str) -> Any:
    """Return the value of a dotted key in nested mappings, None where there is none."""
    for step in dotted.split("."):
        if not isinstance(data, (dict, Mapping)) or step not in data:  # a plain one is told sooner
            return None
        data = data[step]
    return data


def is_within(dotted: str, sections: Iterable[str]) -> bool:
    """Decide whether a dotted key is one of some, or inside one."""
    return any(f"{dotted}.".startswith(f"{section}.") for section in sections)


def change_keys(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain data with other values of some dotted keys; None removes a key. Mappings that do
    not change are shared."""
    changed = dict(data)
    for dotted, value in changes.items():
        key, _, rest = dotted.partition(".")
        if rest:
            changed[key] = change_keys(changed.get(key) or {}, {rest: value})
        elif value is None:
            changed.pop(key, None)
        else:
            changed[key] = value
    return changed


def expand_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert dotted keys to nested mappings."""
    tree: dict[str, Any] = {}
    for dotted, value in values.items():
        *around, last = dotted.split(".")
        node = tree
        for step in around:
            node = node.setdefault(step, {})
        node[last] = value
    return tree


@dataclass(frozen=True)
class Document:
    """Resolved data with the place and origin of each value.

    A path is a tuple of keys and list indices; () is the whole document. ``name`` is that of a
    shipped document that was asked for by it, ``defaults`` what a team says of its plans, which
    is ``left_out`` where the document lies in its reach and does not have it. ``changed`` has the
    keys that were changed since it was read, with whether they were given a value, ``remarks``
    what is to be told of a launch file that stood in its place.
    """

    node: Node
    kind: str = "plan"
    overrides: tuple[tuple[str, str], ...] = field(default=())
    name: str | None = None
    defaults: Defaults | None = field(default=None, compare=False, repr=False)
    left_out: bool = field(default=False, compare=False)
    held: dict[str, Any] | None = field(default=None, repr=False)
    changed: Mapping[str, bool] = field(default_factory=dict, repr=False)
    remarks: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def data(self) -> dict[str, Any]:
        """Plain dicts, lists, str, int, Fraction, bool and None."""
        return self.node.plain() if self.held is None else self.held

    def get(self, dotted: str) -> Any:
        """Return the value of a dotted key, None where the document gives none."""
        return lookup(self.data, dotted)

    def get_stated(self, dotted: str, unless: Collection[str] = ("default",)) -> Any:
        """Return the value of a dotted key unless its origin is of one of some kinds; else None."""
        for key, given in reversed([*self.changed.items()]):
            if is_within(dotted, (key,)) or (given and is_within(key, (dotted,))):
                return self.get(dotted) if given else None
        path = dotted.split(".")
        stated = self.has_value(path) and self.find_origin(path).kind not in unless
        return self.get(dotted) if stated else None

    def change_keys(self, changes: Mapping[str, Any]) -> Document:
        """Return the document with other values of some dotted keys, already checked; None removes
        a key. Its nodes and places stay those of the original."""
        given = {key: value is not None for key, value in changes.items()}
        earlier = {key: was for key, was in self.changed.items() if key not in given}
        return replace(self, held=change_keys(self.data, changes), changed={**earlier, **given})

    def _list_nodes(self, path: Sequence[str | int]) -> list[Node]:
        """List the nodes on the path to a value, the whole document first, as far as they exist."""
        way = [self.node]
        for step in path:
            held = way[-1].value
            known = range(len(held)) if isinstance(held, list) else held
            if not isinstance(known, (range, dict)) or step not in known:
                break
            way.append(held[step])  # type: ignore[index, arg-type]
        return way

    def find_node(self, path: Sequence[str | int]) -> Node:
        """Find the node at `path`, or the nearest one around it."""
        return self._list_nodes(path)[-1]

    def has_value(self, path: Sequence[str | int]) -> bool:
        """Return whether there is a value at `path`."""
        return len(self._list_nodes(path)) == len(path) + 1

    def find_place(self, path: Sequence[str | int]) -> Place:
        """Return where the value was written; where it is absent, the nearest one around it."""
        return self.find_node(path).place

    def find_key_place(self, path: Sequence[str | int]) -> Place:
        """Return where the key of the value was written."""
        node = self.find_node(path)
        return node.key_place or node.place

    def find_origin(self, path: Sequence[str | int]) -> Origin:
        """Return the origin of the value: file and line, preset, --set, default, argument."""
        return self.find_node(path).origin

    def list_files(self) -> list[str]:
        """List the files that the values and the mappings around them were read from."""
        read = (node for _, node in self.node.walk() if node.origin.kind in ("file", "preset"))
        return sorted({node.place.file for node in read})

    def walk_values(self) -> Iterator[tuple[Path_, Node]]:
        """Yield every scalar and empty collection with its path, in document order."""
        for path, node in self.node.walk():
            if not node.value or not isinstance(node.value, (dict, list)):
                yield path, node


def expand_auto(root: Node, kind: str, path: Sequence[str] = ()) -> Node:
    """Expand ``parallelism: auto`` of a plan, and ``rl.rollout: auto``, to the mappings that they
    abbreviate.

    Args:
        root: a document, or a part of one.
        kind: of the document; others than plans stay as they are.
        path: leads to what may be abbreviated; by default to both.

    Returns:
        The document with the mappings.
    """
    if kind != "plan":
        return root
    if not path:
        return expand_auto(expand_auto(root, kind, ("parallelism",)), kind, ("rl", "rollout"))
    inner = root.entries.get(path[0])
    if inner is None:
        return root
    if path[1:]:
        found = expand_auto(inner, kind, path[1:])
    elif inner.value == "auto":
        auto = replace(inner, value=True, text="true")
        found = replace(inner, value={"auto": auto}, text=None)
    else:
        return root
    return replace(root, value={**root.entries, path[0]: found})


_KEY = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*")


def _parse_override(key: str, value: object, shown: str) -> tuple[list[str], Node]:
    """Parse one `--set KEY=VALUE` into the steps of its key and a node; faults quote ``shown``."""
    place, origin = Place(f"--set {shown}"[:200]), Origin("set", "--set")
    if not _KEY.fullmatch(key):
        raise PlanError(f"'{key}' is not a key", place, "--set a.b=value")
    node = None
    if "." not in key:
        key = aliases.find_key(key) or key
    if not isinstance(value, str):
        node = yaml_nodes.from_data(value, place, origin)
    elif value.strip():
        node = yaml_nodes.parse_yaml(value, place.file, origin)  # nothing of a comment
    if node is None:
        raise PlanError("no value", place, "--set a.b=value")
    return key.split("."), replace(node, key_place=node.place)


def _set(node: Node, steps: list[str], value: Node, kind: str | None, names: Resolver) -> Node:
    """Return `node` with the value at `steps` replaced; names on the path are resolved."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(node.value, list):
        if not step.isdigit() or len(step) > 9 or int(step) >= len(node.value):
            last = len(node.value) - 1
            allowed = f"0 to {last}" if last >= 0 else "the list is empty"
            raise PlanError(f"'{step}' is not an item of this list", value.place, allowed)
        items = list(node.value)
        items[int(step)] = _set(items[int(step)], rest, value, None, names)
        return replace(node, value=items)
    if node.value is not None and not isinstance(node.value, dict):
        wrong = f"'{step}' is set inside '{node.text}'"
        raise PlanError(wrong, value.place, "a key inside a mapping")
    entries = dict(node.value or {})
    if not rest and value.value is None and step in entries:
        del entries[step]
    else:
        if step == "memory":
            scale_usable(kind, entries, value)
        below = REFERENCES.get(kind or "", {}).get(step)
        inner = entries.get(step) or Node(None, value.place, value.origin, value.place)
        if below and rest:
            inner = names.name(inner, below)
        entries[step] = _set(inner, rest, value, below, names)
    return replace(node, value=entries)


def load(
    source: str | Path | Mapping[str, Any] | Node,
    overrides: Mapping[str, object] | Sequence[str] = (),
    kind: str = "plan",
    presets: Path | None = None,
    unknown: dict[Path_, tuple[Fault, ...]] | None = None,
    defaults: Defaults | None = None,
) -> Document:
    """Read a document and resolve `extends`, names and overrides.

    Args:
        source: a path, the name of a shipped document, `-` for standard input, a mapping, or a tree
            that was read already.
        overrides: `{"training.tokens": "2T"}` or `["training.tokens=2T"]`, applied in order.
        kind: plan, model, cluster, accelerator, or another kind without names of its own.
        presets: the folder of shipped documents, where it is not the program's own.
        unknown: takes the faults of names that mean nothing by their paths, where the names stay
            as they are; by default they are raised.
        defaults: of a team, where they hold.

    Raises:
        PlanError: with places; nothing is checked against a schema yet.
    """
    chain: tuple[Path, ...] = ()
    base, name = Path("."), None
    if isinstance(source, Node):
        root = source
    elif isinstance(source, Mapping):
        root = yaml_nodes.from_data(source, Place("<mapping>"), Origin("argument", "argument"))
    else:
        path, name = locate_file(source, kind, presets)
        root = read_document(path)
        if str(source) != "-":
            chain, base = (path.resolve(),), path.parent
    root = expand_auto(root, kind)
    resolver = Resolver(presets, base, unknown, defaults)
    if isinstance(overrides, Mapping):
        given = [(key.strip(), value, f"{key}={value}") for key, value in overrides.items()]
    else:
        pairs = ((text.partition("="), text) for text in overrides)
        given = [(key.strip(), value, text) for (key, _, value), text in pairs]
    # Faults of independent overrides are reported together.
    changes: list[tuple[list[str], Node]] = []
    faults: list[Fault] = []
    for key, text, shown in given:
        with collect_faults(faults):
            changes.append(_parse_override(key, text, shown))
    if faults:
        raise PlanError(faults)
    root = resolver.extend_node(root, kind, chain)
    cluster = defaults.stated.get("cluster") if defaults and kind == "plan" else None
    if cluster is not None and "cluster" not in root.entries:
        if isinstance(cluster.value, dict):
            cluster = resolver.extend_node(cluster, "cluster", chain)
        root = replace(root, value={**root.entries, "cluster": cluster})
    for steps, value in changes:
        root = expand_auto(_set(root, steps, value, kind, resolver), kind)
    if changes:
        root = replace(resolver, again=True).extend_node(root, kind, chain)
    root = resolver.resolve_names(root, kind, ())
    if kind == "plan":
        try:
            root = stacks.merge_stack(root)
        except PlanError as error:
            if further := resolver.record_faults(("training", "stack"), error):
                raise PlanError(further) from None
    return Document(root, kind, tuple((key, str(value)) for key, value, _ in given), name, defaults)


def list_prices(
    accelerator: Mapping[str, Any], purchase: str | None, term: str | None = None
) -> list[Mapping[str, Any]]:
    """List the prices of an accelerator for a way to pay. First are spot devices of which it is
    known how often they are taken back; then prices that nobody assumed, without a term or with the
    shortest; of those the lowest.

    Args:
        accelerator: its document.
        purchase: as ``cluster.purchase``.
        term: as ``cluster.term``; None for any.
    """

    def rank(row: Mapping[str, Any]) -> tuple[bool, bool, str, Any]:
        """Rank a price; it is text until its document is completed.

        Args:
            row: of the prices of the accelerator.
        """
        price = row["price"]
        parsed = units.parse(price, "USD/h") if isinstance(price, str) else price
        known = row["kind"] != "spot" or "interruptions" in row
        return not known, row["kind"] == "assumed", row.get("term", ""), parsed

    committed = ("reserved", "spot")
    rows = sorted(accelerator.get("prices") or (), key=rank)
    if purchase in committed:
        return [r for r in rows if r["kind"] == purchase and term in (None, r.get("term"))]
    return [row for row in rows if row["kind"] not in committed]


def name_price(row: Mapping[str, Any]) -> str:
    """Return whose a listed price is, for which term, and when."""
    term = f" for {row['term']}" if "term" in row else ""
    return f"{row['kind']} price of {row['provider']}{term}, {row['date']}"
