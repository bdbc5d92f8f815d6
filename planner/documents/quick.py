"""A plan from one line of text: `llama3-8b on 64 h100, 2T tokens, tp8 zero1`.

A small grammar of our own, read from left to right; the text is compared with names and keys that
are known, and nothing of it is run. What it says becomes a document that a file could hold, each
value at its column of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from planner.base.display import flow, one_line
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.documents import aliases, schema, source
from planner.documents.aliases import WHOLE
from planner.documents.yaml_nodes import Node, Origin, from_data

TEXT = "<text>"  # stands for a file in the places of faults
LONGEST = 1000  # characters
#: Where nobody states a length and the model reads more, sequences have so many tokens.
USUAL_SEQUENCE = 8192
ASSUMED = Origin("default", "nobody states a length; the model reads more")
STATED = Origin("argument", "quick")
UNDERSTOOD = (
    "a model: llama3-8b, meta-llama/Llama-3.1-8B or 70B; devices: 64 h100; 2T tokens; "
    "sequence 8k; batch 1024; bf16; tp8 pp4 zero1; full recompute; $2.5/h; 40% mfu; "
    "in 30 days; KEY=VALUE"
)
#: Sections of a plan whose keys may stand with a value.
SECTIONS = ("parallelism", "training", "cluster", "time")
DEADLINE = "deadline"  # which is no key of a plan
#: Keys whose values are words that say by themselves what they are.
TELLING = ("training.precision", "training.optimizer")

#: What a rule understands: values by dotted key, and where in the text it ends.
Understood = tuple[Mapping[str, Any], int]
Rule = Callable[[re.Match[str]], Understood | None]

_END = r"(?![\w.%/-])"
_NUMBER = rf"(?:{WHOLE}(?:\.\d+)?)"
_WORD = re.compile(r"[^\s,;]+|.")
_BETWEEN = re.compile(
    r"(?:[\s,;:+()]|(?:on|with|for|of|in|within|at|an?|the|and|using|to|train|training|over|model"
    rf"|layout|gpus?|devices|chips){_END})*",
    re.I,
)
_NAME = re.compile(r"[\w./-]+(?: +[\w./-]+){0,3}")
_KEY = re.compile(r"[A-Za-z]+(?:[\s_-]+[A-Za-z]+){0,3}")
_VALUE = re.compile(rf"[\s=:_-]*({_NUMBER}(?:[kKMBGT]i?|%)?{_END}|[A-Za-z][\w.-]*)")
#: Text that YAML reads as such without quotes.
_QUANTITY = re.compile(rf"{_NUMBER}(?:[kKMBGT]i?|%| USD/h)?")


def read(text: str) -> Node:
    """The plan document that a text says.

    Raises:
        PlanError: what is not understood, is said twice or is missing, at its column.
    """
    if len(text) > LONGEST:
        raise PlanError(Fault("too much text", Place(TEXT), f"at most {LONGEST} characters"))
    said: dict[str, tuple[Any, Place]] = {}
    faults: list[Fault] = []
    for place, words, values in _pieces(text):
        if values is None:
            allowed = None if faults else UNDERSTOOD  # once
            faults.append(Fault(f"not understood: '{words}'", place, allowed, _near(words)))
        for key, value in (values or {}).items():
            if said.setdefault(key, (value, place))[0] != value:
                faults.append(Fault(f"a second {key}: {flow(value)}", place, "one of them"))
    if not faults and "model" not in said:
        faults.append(Fault("no model", Place(TEXT), "such as llama3-8b or 70B"))
    if not faults and not {"cluster", "cluster.devices"} & set(said):
        faults.append(Fault("no devices", Place(TEXT), "such as 64 h100"))
    if faults:
        raise PlanError(faults)
    return _document(text, said)


def write(text: str, document: Node) -> str:
    """The YAML of a document that ``read`` made of a text."""
    lines = [f"# quick: {one_line(text)}"]
    for key, node in document.children():
        if key != "training" or not node.value:
            lines.append(f"{key}: {flow(node.plain(), bare=_QUANTITY)}")
            continue
        lines.append("training:")
        for inner, told in node.children():
            why = f"  # {told.origin.text}" if told.origin == ASSUMED else ""
            lines.append(f"  {inner}: {flow(told.plain(), bare=_QUANTITY)}{why}")
    return "\n".join(lines) + "\n"


def _document(text: str, said: Mapping[str, tuple[Any, Place]]) -> Node:
    """The tree of what was said, with the layout left open where nothing was said of it."""
    start = Place(TEXT)
    tree: dict[str, Node] = {"name": from_data(one_line(" ".join(text.split())), start, STATED)}
    sections: dict[str, dict[str, Node]] = {"cluster": {}, "training": {}}
    for key, (value, place) in said.items():
        if key == DEADLINE:  # which is required of a run that is stated; else what does it buy?
            stated = "training.tokens" in said
            key = "require" if stated else "questions"
            asked = {"deadline": value, "set": {"training": {"tokens": "1T"}}}  # where it starts
            value = [f"time.training_days <= {value}" if stated else {"tokens-by-deadline": asked}]
        section, _, inner = key.partition(".")
        node = from_data(value, place, STATED)
        if inner:
            sections.setdefault(section, {})[inner] = node
        else:
            tree[section] = node
    length = "sequence_length"
    if length not in sections["training"] and (_longest(said["model"][0]) or 0) > USUAL_SEQUENCE:
        sections["training"][length] = from_data(USUAL_SEQUENCE, start, ASSUMED)
    known = isinstance(said["model"][0], str)
    alone = tree.get("cluster") is None and said["cluster.devices"][0] == 1
    if "parallelism" not in sections and known and not alone:
        tree["parallelism"] = from_data("auto", start, STATED)
    if "cluster" in tree and sections["cluster"]:
        sections["cluster"]["extends"] = tree.pop("cluster")
    nodes = {key: Node(held, start, STATED) for key, held in sections.items()}
    made = {key: node for key, node in nodes.items() if node.value or key not in tree}
    order = ("name", "model", "cluster", "training", "parallelism", "time", "questions", "require")
    whole = {**tree, **made}
    return Node({key: whole[key] for key in order if key in whole}, start, STATED)


def _longest(model: Any) -> int | None:
    """The longest sequence of a model by its name."""
    if not isinstance(model, str):
        return None
    found: int | None = source.load({"extends": model}, kind="model").get("max_sequence")
    return found


# Reading -----------------------------------------------------------------------------------------


def _pieces(text: str) -> Iterator[tuple[Place, str, Mapping[str, Any] | None]]:
    """Each piece of a text that a rule understands, with its values; words in a row that none
    understands, with None."""
    strange: list[tuple[int, int]] = []  # where it begins and ends
    at = 0
    while at < len(text) or strange:
        between = _BETWEEN.match(text, at)
        here = between.end() if between else at
        understood = _understood(text, here) if here < len(text) else ({}, here)
        if strange and (understood is not None or text[at:here].strip(" ")):
            begin, end = strange[0][0], strange[-1][1]
            yield Place(TEXT, 1, begin + 1), text[begin:end], None
            strange = []
        if understood is not None:
            if understood[0]:
                yield Place(TEXT, 1, here + 1), text[here : understood[1]], understood[0]
            at = max(understood[1], at) if here < len(text) else len(text)
            continue
        word = _WORD.match(text, here)
        assert word is not None
        strange.append((here, word.end()))
        at = word.end()


def _understood(text: str, at: int) -> Understood | None:
    """What the first rule that fits understands from a place on."""
    for pattern, rule in RULES:
        found = pattern.match(text, at)
        made = rule(found) if found else None
        if made is not None:
            return made
    return None


def _near(words: str) -> str | None:
    """The name or key that is spelled most like one of some words."""
    pool = [*_known("model"), *_known("accelerator"), *_keys(), "tokens", "batch", "sequence"]
    pool += aliases.on_the_hub()
    pool += [
        word
        for kind in ("accelerator", "model")
        for _, also in aliases.names(kind)
        for word in also
    ]
    each = (word for word in (words, *words.split()) if len(word) > 3)
    return next(filter(None, (nearest(word, pool) for word in each)), None)


@cache
def _known(kind: str) -> list[str]:
    return source.preset_names(kind)


@cache
def _keys() -> Mapping[str, str]:
    """The keys that may stand with a value, by the letters of their last part."""
    inner = (key for key in schema.paths("plan") if key.count(".") == 1)
    known = [key for key in inner if key.startswith(SECTIONS) and not _holds_others(key)]
    return {aliases.letters(key.partition(".")[2]): key for key in reversed(known)}


def _holds_others(key: str) -> bool:
    return (schema.describe("plan", key) or {}).get("type") == "object"


def _number(text: str) -> int | str:
    """`1,024` as a number; what is no whole number as it stands, its digits not grouped."""
    digits = text.replace(",", "")
    return int(digits) if digits.isdigit() else digits


def _named(kind: str, text: str, at: int) -> tuple[str, int] | None:
    """The preset that the words from a place on name, as many of them as can be; and their end."""
    found = _NAME.match(text, at)
    ends = [space.start() for space in re.finditer(r" +|$", found[0])] if found else []
    for end in reversed(ends):
        words = text[at : at + end].rstrip(".")
        for name in (words, words.removesuffix("s")):
            preset = aliases.preset(kind, name, _known(kind))
            if preset is not None:
                return preset, at + len(words)
    return None


# Rules -------------------------------------------------------------------------------------------


def _counted(found: re.Match[str]) -> Understood | None:
    """`64 h100`, `8 nodes of 8 x h100`."""
    device = _named("accelerator", found.string, found.end())
    if device is None:
        return None
    nodes, count = found["nodes"], int(found["count"].replace(",", ""))
    said: dict[str, Any] = {"cluster.accelerator": device[0], "cluster.devices": count}
    if nodes is not None:
        said["cluster.devices"] = count * int(nodes)
        said["cluster.devices_per_node"] = count
    return said, device[1]


def _times(found: re.Match[str]) -> Understood | None:
    """`h100 x 64`."""
    device = aliases.preset("accelerator", found[1], _known("accelerator"))
    count = int(found[2].replace(",", ""))
    said = {"cluster.accelerator": device, "cluster.devices": count}
    return (said, found.end()) if device is not None else None


def _tokens(found: re.Match[str]) -> Understood:
    words = {"thousand": "k", "million": "M", "billion": "B", "trillion": "T"}
    suffix = found["suffix"] or ""
    suffix = words.get(suffix.lower(), suffix.upper().replace("K", "k"))
    return {"training.tokens": _number(f"{found['count']}{suffix}")}, found.end()


def _length(found: re.Match[str]) -> Understood:
    """Of a length k is 1024."""
    length, suffix = _number(found["count"]), found["suffix"]
    if suffix:
        length = length * 1024 if isinstance(length, int) else f"{length}{suffix}"
    return {"training.sequence_length": length}, found.end()


def _name(found: re.Match[str]) -> Understood | None:
    """A model or a cluster that ships."""
    for kind in ("cluster", "model"):
        named = _named(kind, found.string, found.start())
        if named is not None:
            return {kind: named[0]}, named[1]
    return None


def _word(found: re.Match[str]) -> Understood | None:
    """A word that says by itself what it is, such as a precision."""
    for dotted in TELLING:
        said = schema.describe("plan", dotted)
        if said is not None and found[0].lower() in said["enum"]:
            return {dotted: found[0].lower()}, found.end()
    return None


def _pair(found: re.Match[str]) -> Understood | None:
    """A key of a plan, by its last part or another program's word, with its value: `tp8`,
    `micro batch 2`, `optimizer=muon`."""
    ends = [part.end() for part in re.finditer("[A-Za-z]+", found[0])]
    for end in reversed(ends):
        key = found[0][:end]
        dotted = _keys().get(aliases.letters(key)) or aliases.key(key)
        value = _VALUE.match(found.string, found.start() + end)
        if dotted is None or dotted.partition(".")[0] not in SECTIONS or value is None:
            continue
        said: Any = _number(value[1])
        return {dotted: {"true": True, "false": False}.get(said, said)}, value.end()
    return None


def _always(said: Mapping[str, Any]) -> Rule:
    return lambda found: (said, found.end())


def _as(key: str, form: str = "{}") -> Rule:
    """The first group as the value of a key."""

    def rule(found: re.Match[str]) -> Understood:
        value = found[1].lower()
        return {key: _number(form.format({"no": "none"}.get(value, value)))}, found.end()

    return rule


#: What may stand in a text, in the order in which it is tried.
RULES: tuple[tuple[re.Pattern[str], Rule], ...] = tuple(
    (re.compile(pattern, re.I | re.ASCII), rule)
    for pattern, rule in (
        (
            rf"(?:(?P<nodes>\d+)\s*nodes?\s*(?:of|with|x|×)?\s*)?(?P<count>{WHOLE})(?!\d)\s*(?:[x×*]\s*)?",
            _counted,
        ),
        (
            rf"(?P<count>{_NUMBER})\s*(?P<suffix>[kMBT]|thousand|million|billion|trillion)?\s*"
            rf"tokens?{_END}",
            _tokens,
        ),
        (rf"(?P<count>{_NUMBER})\s*(?P<suffix>T|trillion){_END}(?!\s*param)", _tokens),
        (
            rf"(?:sequences?|seq|context|ctx)(?:[\s_-]*(?:length|len))?(?:\s*of)?[\s=:]*"
            rf"(?P<count>{_NUMBER})(?P<suffix>k)?{_END}",
            _length,
        ),
        (
            rf"(?P<count>{_NUMBER})(?P<suffix>k)?[\s-]*(?:context|ctx|seq|sequence)"
            rf"(?:[\s_-]*(?:length|len))?{_END}",
            _length,
        ),
        (rf"({_NUMBER})\s*sequences{_END}", _as("training.global_batch")),
        (
            rf"(full|selective|no)\s+(?:activation\s+)?(?:recompute|recomputation|checkpointing)"
            rf"{_END}",
            _as("training.recompute"),
        ),
        (
            rf"(?:\$\s*)({_NUMBER})(?:\s*(?:/|per|an?)\s*(?:(?:gpu|device)[\s-]*)?h(?:our|r)?)?"
            rf"{_END}",
            _as("cluster.price", "{} USD/h"),
        ),
        (rf"({_NUMBER})\s*USD/h(?:our)?{_END}", _as("cluster.price", "{} USD/h")),
        (rf"({_NUMBER}%)\s*(?:mfu|utili[sz]ation){_END}", _as("time.mfu")),
        (rf"({_NUMBER}\s*(?:hours?|days?|weeks?)){_END}", _as(DEADLINE)),
        (rf"fsdp{_END}", _always({"parallelism.zero": 3})),
        (
            rf"(?:sp|sequence[\s_-]parallel){_END}(?!\s*[=:])",
            _always({"parallelism.sequence": True}),
        ),
        (rf"([A-Z][\w.-]*?)\s*[x×*]\s*({WHOLE})(?![\w.-])", _times),
        (r"(?=[A-Z0-9])", _name),
        (
            rf"({_NUMBER}[MBT])(?:[\s-]*(?:parameters?|params?|model|dense))?{_END}",
            lambda found: ({"model": {"parameters": found[1].upper()}}, found.end()),
        ),
        (_KEY.pattern, _pair),
        (rf"[\w-]+{_END}", _word),
    )
)
