"""From a launch file to a plan: the rows that write it (connect/exports), read backwards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

from planner.base.errors import Fault, Place, PlanError
from planner.connect.exports import framework
from planner.connect.imports import megatron
from planner.connect.imports.arguments import parse
from planner.connect.imports.tidy import placed
from planner.documents import schema, source, yaml_nodes
from planner.documents.source import nested
from planner.plans.plan import planned

#: Sections that a launch file decides; of nanotron's the model as well.
SECTIONS = {
    "megatron": ("training.", "parallelism."),
    "nanotron": ("training.", "parallelism.", "model."),
}
#: Where exports say how many processes there are.
PROCESSES = re.compile(r"^# Processes: ([0-9]{1,9})", re.MULTILINE)
ACCELERATOR = "h100-sxm-80gb"
#: What the sequences of a step are made of.
BATCH = ("training.micro_batch", "training.gradient_accumulation", "parallelism.data")


class Read(NamedTuple):
    """A plan; what its file leaves open, a line each; for dotted keys, what said them."""

    document: dict[str, Any]
    said: list[str]
    came_from: dict[str, tuple[str, ...]]


def read(text: str, name: str, place: Place) -> Read:
    """The plan that a launch file says.

    Raises:
        PlanError: the file is malformed, or says what is not modelled.
    """
    flags = name == "megatron"
    said = parse(text, place) if flags else _flat(_yaml(text, place))
    rows = [*_each(framework(name).rows)]
    keys: dict[str, Any] = {}
    came_from: dict[str, tuple[str, ...]] = {}
    for row in rows:
        key, about = next(iter(row.items()))
        key = key.replace("layer.", "model.", 1) if key.startswith("layer.") else key
        if key.startswith(SECTIONS[name]) and key not in keys:
            about = {"to": about} if isinstance(about, str) else about
            value = _meant(about, said)
            if value is not None:
                options = dict.fromkeys(one for one in _options(about) if one in said)
                shown = tuple(f"--{one}" if flags else one for one in options)
                came_from[key] = shown or (f"the default of {name}",)
                keys[key] = _typed(value, place) if flags else value
    of_batch = [keys.get(key) for key in BATCH]
    if "training.global_batch" not in keys and all(isinstance(size, int) for size in of_batch):
        keys["training.global_batch"] = prod(size or 1 for size in of_batch)
    for row in rows:
        if row.get("rule") == "quotient" and row["of"] not in keys and row["to"] in said:
            sizes = [keys.get(key) for key in row["by"]]
            whole = _typed(said[row["to"]], place)
            if isinstance(whole, int) and all(isinstance(size, int) for size in sizes):
                keys[row["of"]] = whole * prod(size or 1 for size in sizes)
    routed = keys.get("model.moe.experts") is not None
    kept = {k: v for k, v in keys.items() if routed or not k.startswith("model.moe.")}
    document: dict[str, Any] = {"model": {}, "cluster": {}, "training": {}, "parallelism": {}}
    document |= nested({key: value for key, value in kept.items() if value is not None})
    if flags:
        document["model"] = megatron.read(text, place)
        stages = _stages(said, document["model"]["layers"], keys.get("parallelism.pipeline") or 1)
        document["parallelism"] |= {"stages": stages} if stages else {}
    told = PROCESSES.search(text)
    sizes = [keys.get(f"parallelism.{key}") for key in ("tensor", "pipeline", "context")]
    least = prod(size for size in sizes if isinstance(size, int) and size > 0)
    document["cluster"] = {"accelerator": ACCELERATOR, "devices": int(told[1]) if told else least}
    open_ = ["cluster.accelerator"] + (
        [] if told else ["cluster.devices, the fewest that it takes"]
    )
    with placed(place):
        planned(schema.validate(source.load(document), "plan"))
    came_from["cluster.accelerator"] = ("no key says it",)
    came_from["cluster.devices"] = (
        "the processes that its comments say" if told else "the fewest",
    )
    return Read(document, [f"no key says {what}: an assumption" for what in open_], came_from)


def _yaml(text: str, place: Place) -> Mapping[str, Any]:
    root = yaml_nodes.compose(text, place.file)
    found = root.plain() if root is not None else None
    if not isinstance(found, Mapping):
        raise PlanError(Fault("no launch file: it is no mapping", place))
    return found


def _flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The keys of mappings in mappings, dotted."""
    found: dict[str, Any] = {}
    for key, value in tree.items():
        inner = isinstance(value, Mapping)
        found |= _flat(value, f"{before}{key}.") if inner else {f"{before}{key}": value}
    return found


def _each(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """All rows, whatever condition they stand under: what they say is said, or is not."""
    for row in rows:
        yield from _each(row["rows"]) if "rows" in row else [row]


def _options(about: Mapping[str, Any]) -> Iterator[str]:
    """The options that a row may write."""
    if "to" in about:
        yield about["to"]
    for word in about.get("words", {}).values():
        if isinstance(word, Mapping):
            yield from word.get("near", word)


def _meant(about: Mapping[str, Any], said: Mapping[str, Any]) -> Any:
    """The value of a key whose words a file has: of several the one with most of them; the one that
    goes without saying where none is there."""
    to, words = about.get("to"), about.get("words")
    if words is None:
        return said.get(to) if to else about.get("only")
    found, silent = [], []
    for value, word in words.items():
        near = isinstance(word, Mapping) and "near" in word
        options = word["near"] if near else word
        options = options if isinstance(options, Mapping) else {to: options}
        if not options:
            silent.append(value)
        elif all(_same(said.get(key), option) for key, option in options.items()):
            found.append((len(options), not near, value))
    if found:
        return max(found, key=lambda one: one[:2])[2]
    return silent[0] if len(silent) == 1 else None


def _same(given: Any, option: Any) -> bool:
    if isinstance(option, list):
        return [str(one) for one in option] == (str(given).split() if given is not None else None)
    return given == option or (given is not None and str(given) == str(option))


def _typed(value: Any, place: Place) -> Any:
    """The argument of an option as a document has it."""
    if not isinstance(value, str):
        return value
    node = yaml_nodes.compose(value, place.file)
    return None if node is None else node.plain()


def _stages(said: Mapping[str, Any], layers: int, count: int) -> Sequence[int] | None:
    """Layers of each stage, where they are said."""
    ends = [said.get(f"decoder-{end}-pipeline-num-layers") for end in ("first", "last")]
    if count > 2 and all(isinstance(end, str) and end.isdigit() for end in ends):
        first, last = (int(str(end)[:9]) for end in ends)
        return [first, *[(layers - first - last) // (count - 2)] * (count - 2), last]
    layout = said.get("pipeline-model-parallel-layout")
    if not isinstance(layout, str) or len(layout) > 10_000:
        return None
    whole = re.sub(r"\(([^()]*)\)\*([0-9]{1,4})", lambda found: found[1] * int(found[2]), layout)
    held = [
        sum(int(times or 1) for times in re.findall(r"t(?:\*([0-9]{1,6}))?", stage))
        for stage in whole.split("|")
    ]
    return held if len(held) == count else None
