"""A plan from one line of text: `llama3-8b on 64 h100, 2T tokens`.

The text is split into phrases (presets/aliases/yaml), names of what is built in, and keys
with a value, such that the fewest characters are left over. What is left over ends the answer,
but words without which the plan is the same: these are named. If two such splits describe
different plans, the user is asked which. Nothing of the text is run. It becomes a document that a
file could hold, each value at its column of the text; values that the answer depends on and the
text does not give are assumed, and printed as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from planner.base.display import format_flow, one_line
from planner.base.errors import Fault, Place, PlanError
from planner.documents.quick import splits, terms
from planner.documents.quick.plans import build_document, complete_values
from planner.documents.quick.runs import find_few_tokens, name_family
from planner.documents.quick.splits import correct_spelling
from planner.documents.quick.terms import ASSUMED, RUN, LineValues, Said, get_pattern, load_phrases
from planner.documents.source import SEARCHED, lookup
from planner.documents.yaml_nodes import Node


def parse_quick(text: str) -> Node:
    """Parse a line of text into the plan document that it describes.

    Args:
        text: the line, at most ``LONGEST`` characters.

    Returns:
        The document, each value at its column of the text.

    Raises:
        PlanError: what is not understood, is said twice, is missing or may mean two things, at its
            column.
    """
    corrected = correct_spelling(text)[0]
    documents: list[Node] = []
    errors: list[PlanError] = []
    for pieces in splits.list_splits(corrected):
        try:
            said = _collect_values(corrected, pieces)
            documents.append(build_document(text, LineValues(complete_values(said))))
        except PlanError as error:
            errors.append(error)
    if not documents:
        raise errors[0]
    plans = [document.plain() for document in documents]
    if (other := next((one for one in plans if one != plans[0]), None)) is not None:
        keys = [key for key, one in _iter_values(documents[0]) if one.plain() != lookup(other, key)]
        raise terms.ask_for("two", None, ", ".join(keys))
    left = splits.list_left_out(corrected)  # words that stand inside of a phrase are no such
    bare = parse_quick(splits.blank(corrected, left)) if left else documents[0]
    if bare.plain() | {"name": ""} != plans[0] | {"name": ""}:
        raise PlanError([splits.refuse_words(corrected, one, ()) for one in left])
    return documents[0]


def list_ignored(text: str) -> tuple[list[str], list[str], list[str]]:
    """List the words of a text that have no effect on the plan, those that are not understood and
    left out, and numbers that decide nothing that is computed."""
    text = correct_spelling(text)[0]
    pieces = splits.list_splits(text)[0]
    ignored, unused = (
        [one.cut(text) for one in pieces if kind in (one.values or ())]
        for kind in ("ignored", "unused")
    )
    return ignored, [one.cut(text) for one in splits.list_left_out(text)], unused


def split_alternatives(text: str) -> list[str]:
    """Split a text that compares models, devices or values, such as ``A vs B on 8 h100``, or gives
    a range where a number belongs, into the texts that it means; other texts stay whole."""
    text, table = correct_spelling(text)[0], load_phrases()
    compared = re.search(rf"\b(?:{table['compared']})\b", text, re.I)
    words = f"{table['between']} {table['between when compared'] if compared else ''}".split()
    pieces = splits.list_splits(text)[0]
    unread = any(re.search(r"(?<![\w.-])\d", one.cut(text)) for one in splits.list_left_out(text))
    word = rf"\b(?:{'|'.join(words)})\b\.?"
    joins = [] if unread else [*re.finditer(rf"{word}|,(?=[^,.?]*{word})", text, re.I)]
    ends = [*(one.start() for one in joins[1:]), len(text)]
    for join, end in zip(joins, ends, strict=False):
        sides = (
            [one for one in pieces if one.end <= join.start()],
            [one for one in pieces if join.end() <= one.begin < end],
        )
        left, right = map(_map_kinds, sides)
        differing = {kind for kind in left.keys() & right.keys() if left[kind] != right[kind]}
        single = all(len(of[kind]) == 1 for of in (left, right) for kind in differing)
        held = [[one for one in of if differing & {*_map_kinds([one])}] for of in sides]
        kinds = [_map_kinds(one).keys() - ({"software"} - differing) for one in held]
        more = kinds[0] - kinds[1]
        if (
            differing
            and single
            and kinds[1] <= kinds[0]
            and more <= {"cluster.devices", "cluster.devices_per_node"}
        ):
            without = splits.Piece(join.start(), join.end(), None)
            first, rest = (splits.blank(text, [without, *side]) for side in held[::-1])
            counts = left.get("cluster.devices", ()) if more else ()  # of both: 8 a100 vs h100
            rest += "".join(f" {one.rpartition(' ')[2]} gpus" for one in counts)
            return [*split_alternatives(first)[:1], *split_alternatives(rest)]
    pairs = []
    for found in get_pattern("range").finditer(text):
        sign, first, many, second, last = found.group("sign", "first", "many", "second", "last")
        pairs.append((found, f"{sign}{first}{many or last}", f"{sign}{second}{last}"))
    between = re.finditer(rf"(\S+)\s+(?:{'|'.join(words)})\s+(\S+)", text, re.I)
    pairs += [(found, found[1], found[2]) for found in between if found[2][:3].lower() != "oom"]
    whole = None if compared or unread else _read_values(text)
    for found, *each in pairs if whole is None else ():
        texts = [f"{text[: found.start()]}{one}{text[found.end() :]}" for one in each]
        plans = [*map(_read_values, texts)]
        if None not in plans and plans[0] != plans[1]:
            return texts
    return [text]


def _map_kinds(pieces: Iterable[splits.Piece]) -> dict[str, set[str]]:
    """Map what may be compared, a model, a device or another key, to its values in pieces."""
    found: dict[str, set[str]] = {}
    values = ((key, value) for piece in pieces for key, value in (piece.values or {}).items())
    for key, value in values:
        if key not in load_phrases()["unread"] and key not in load_phrases()["uncompared"]:
            layout = key.startswith("parallelism.") or key == "data alone"
            kind = "layout" if layout else load_phrases()["same kind"].get(key, key)
            found.setdefault(kind, set()).add(str(value) if kind == key else f"{key} {value}")
    for kind in {"model", "layout", "method"} & found.keys():  # a family and its size are one
        found[kind] = {" ".join(sorted(found[kind]))}
    return found


def _read_values(text: str) -> Any:
    """Return the plan of a text but its name; None where it asks."""
    with suppress(PlanError):
        return parse_quick(text).plain() | {"name": ""}
    return None


def list_asked(text: str, phases: bool = False) -> list[str]:
    """List the quantities that a text asks for, such as ``time.device_hours``; where its plan is of
    reinforcement learning, with ``phases``, those of all phases."""
    pieces = splits.list_splits(correct_spelling(text)[0])[0]
    shown = [one.values["show"] for one in pieces if one.values and "show" in one.values]
    names = load_phrases()["reinforcement"]["shown"] if phases else {}
    return [*dict.fromkeys(names.get(one, one) for one in shown)]


def _collect_values(text: str, pieces: Iterable[splits.Piece]) -> LineValues:
    """Collect the values of all pieces.

    Raises:
        PlanError: pieces that are not understood, and second values of a key.
    """
    said = LineValues()
    faults: list[Fault] = []
    left: list[splits.Piece] = []
    fast = "cluster.network.bandwidth"  # which instances have, whose device holds
    for piece in sorted(pieces, key=lambda one: "unless" in (one.values or ())):
        place, values = Place(terms.TEXT, 1, piece.begin + 1), piece.values
        if values is None:
            left.append(piece)
            continue
        if {*values.get("unless", ())} & said.keys():
            continue
        if "fault" in values:
            faults.append(Fault(values["fault"], place))
        if "notes" in values:
            said.add_note(place, values["notes"])
        why = values.get("why", {})
        for key, value in values.items():
            one = Said(value, place, ASSUMED + why[key] if key in why else "")
            key = f"{key} {value}" if key == "question" else key
            instance = key == "cluster.accelerator" and fast in {*said, *values}
            before = said.get(key) if instance else None
            if before and name_family(before.value) == name_family(value):
                said[key] = one if fast in values else before
            elif key not in load_phrases()["unread"] and not _keep_value(text, said, key, one):
                wrong = f"a second {key}: {format_flow(value)}"
                faults.append(Fault(wrong, place, "one of them"))
    named = {*terms.NAMED, "shape.layers", "question largest-model"} & said.keys()
    placed = {"cluster", "cluster.accelerator", "memory"} & said.keys()
    sized = {"cluster", "cluster.devices", "nodes"} & said.keys()
    ran = {*RUN, "lora", "tuned"} & said.keys() or any("question " in key for key in said)
    whole = named and placed and sized and ran and not {"money", "budget", "price"} & said.keys()
    for piece in left:
        device = not placed and get_pattern("before a device").search(text[: piece.begin])
        alone = not named or len(left) > len(said) or device
        if alone or not splits.may_leave_out(text, piece, bool(whole)):
            faults.append(splits.refuse_words(text, piece, faults))
    if faults:
        raise PlanError(faults)
    return said


def _keep_value(text: str, said: LineValues, key: str, other: Said) -> bool:
    """Keep a value of a key, and return whether a text may give it: the same as before, or another
    thing. Of two sizes that are near one that is joined to a name is a label, of two amounts of
    money the smaller may be a price."""
    pair = said.setdefault(key, other), other
    if pair[0].value == other.value:
        return True
    if pair[0].why != other.why:  # what is stated holds, not what another word assumes
        said[key] = min(pair, key=lambda one: one.is_assumed)
        return True
    few = (
        [find_few_tokens(LineValues({key: one})) for one in pair]
        if key == "training.tokens"
        else []
    )
    if sum(map(bool, few)) == 1:  # 100B tokens, 1024 tokens
        said[key] = pair[few[0] is not None]
        length = next(filter(None, few))
        said.setdefault(terms.LENGTH, length.assume("few tokens"))
        return True
    if key == "size" and terms.is_near(pair[0].value, other.value, limit="label"):
        before = (text[: (one.place.column or 1) - 1] for one in pair)
        joined = [bool(re.search(r"[a-z][-_]$", each, re.I)) for each in before]
        rounded = [isinstance(one.value, str) for one in pair]  # 500M (570,658,176 parameters)
        joined = rounded if rounded[0] != rounded[1] else joined
        if joined[0] != joined[1]:
            label, said[key] = pair if joined[0] else pair[::-1]
            said.add_note(other.place, f"{label.value}: a name; the size is {said[key].value}")
            return True
    if key == "money" and "price" not in said:
        price, said[key] = sorted(pair, key=lambda one: Fraction(one.value))
        said["price"] = price.assume("smaller price")
        return bool(Fraction(price.value) < terms.get_limit("hourly"))
    return False


def write_quick(text: str, document: Node) -> str:
    """Write the YAML of a document made by ``parse_quick``, with assumptions as comments."""
    rows: list[tuple[str, Node | None]] = [(f"# quick: {one_line(text)}", None)]
    for key, node in document.iter_children():
        inner = [*node.iter_children()] if isinstance(node.value, dict) else []
        if key != "training" and not any(_format_reason(one) for _, one in inner):
            rows.append((f"{key}: ", node))
        elif inner:
            rows += [(f"{key}:", None), *((f"  {name}: ", one) for name, one in inner)]
    bare = get_pattern("quantity")
    flows = (
        f"{format_flow(one.plain(), bare=bare)}{_format_reason(one, '  # ')}" if one else ""
        for _, one in rows
    )
    return "".join(f"{key}{value}\n" for (key, _), value in zip(rows, flows, strict=True))


def list_assumptions(
    document: Node, get: Callable[[str], Any], reasons: Mapping[str, str]
) -> list[str]:
    """List the values that an answer depends on and the text does not give.

    Args:
        document: the document of the text.
        get: reads a key of the plan that was made from it.
        reasons: for keys of the plan, why they have their values.

    Returns:
        Keys with values, each with its reason where there is one.
    """
    every = dict(_iter_values(document))
    why = {key: _format_reason(node).removeprefix(ASSUMED) for key, node in every.items()}
    rest = [key for key in load_phrases()["told"] if key not in every and get(key) is not None]
    why |= {key: reasons.get(key, "") for key in rest}
    return [
        f"{key} {format_flow(every[key].plain() if key in every else get(key))}"
        + (f": {because.removesuffix(SEARCHED)}" if because else "")
        for key, because in why.items()
        if (because or key not in every)
        and (not because or why.get(key.rpartition(".")[0]) != because)
    ]


def _iter_values(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield all values of a document by dotted key, mappings before their contents."""
    for key, inner in node.iter_children() if isinstance(node.value, dict) else ():
        dotted = f"{path}.{key}" if path else str(key)
        yield dotted, inner
        yield from _iter_values(inner, dotted)


def _format_reason(node: Node, before: str = "") -> str:
    """Return why a value is assumed or derived, after a text; empty for one that the user gave."""
    return f"{before}{node.origin.text}" if node.origin != terms.STATED else ""
