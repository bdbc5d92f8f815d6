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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import pairwise
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


def parse_quick(text: str, least: bool = False) -> Node:
    """Parse a line of text into the plan document that it describes.

    Args:
        text: the line, at most ``LONGEST`` characters.
        least: whether what it leaves open is what takes the least memory.

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
            if least:
                said["least"] = Said(True)
            documents.append(build_document(text, LineValues(complete_values(said))))
        except PlanError as error:
            errors.append(error)
    if not documents:
        raise errors[0]
    first, *rest = (document.plain() for document in documents)
    if (other := next((one for one in rest if one != first), None)) is not None:
        keys = [
            key for key in _map_values(documents[0]) if lookup(first, key) != lookup(other, key)
        ]
        raise terms.ask_for("two", None, ", ".join(keys))
    left = splits.list_left_out(corrected)  # words that stand inside of a phrase are no such
    bare = parse_quick(splits.blank(corrected, left), least) if left else documents[0]
    if bare.plain() | {"name": ""} != first | {"name": ""}:
        raise PlanError([splits.refuse_words(corrected, one, ()) for one in left])
    return documents[0]


def list_ignored(text: str) -> tuple[list[str], list[str], list[str]]:
    """List the words of a text that have no effect on the plan, those that are not understood and
    left out, and numbers that decide nothing that is computed."""
    text = correct_spelling(text)[0]
    held = [(one.cut(text), one.values or ()) for one in splits.list_splits(text)[0]]
    ignored, unused = ([one for one, of in held if kind in of] for kind in ("ignored", "unused"))
    return ignored, [one.cut(text) for one in splits.list_left_out(text)], unused


def parse_compared(texts: Sequence[str]) -> list[Node]:
    """Parse lines that are compared; ways to fine-tune with the least memory of each, so that they
    differ in nothing that a search chose of one alone."""
    found = [parse_quick(one) for one in texts]
    ways = [lookup(one.plain(), "training.lora") for one in found]
    return [parse_quick(one, True) for one in texts] if ways != ways[:1] * len(ways) else found


def split_alternatives(text: str) -> list[str]:
    """Split a text that compares models, devices or values, such as ``A vs B on 8 h100``, or gives
    a range or a list where a number belongs, into the texts that it means; others stay whole."""
    text, table = correct_spelling(text)[0], load_phrases()
    compared = re.search(rf"\b(?:{table['compared']})\b", text, re.I)
    words = f"{table['between']} {table['between when compared'] if compared else ''}".split()
    if not compared and _read_values(text):
        return [text]
    several = [_split_values(text, rf"(?:(?:{'|'.join(words)})\b\.?\s*)+")]
    for found in get_pattern("list").finditer(text):
        parts = get_pattern("listed").findall(found[0])
        each = [f"{parts[0][0]}{number}{many or parts[-1][2]}" for _, number, many in parts]
        several.insert(0, [text.replace(found[0], one, 1) for one in each])
    for texts in several:
        plans = [*map(_read_values, texts)]
        if None not in plans and any(one != plans[0] for one in plans):
            return texts
    return [text]


def _split_values(text: str, joins: str) -> list[str]:
    """Split a text that gives several values of what is compared into a text for each of them.
    What a device has goes with the one before it.

    Args:
        text: the line.
        joins: the pattern of words between two alternatives.
    """
    pieces = [*splits.list_splits(text)[0]]
    kinds = [_map_kinds([one]) for one in pieces]
    for i, (of, after) in enumerate(pairwise(kinds)):
        joined = not text[pieces[i].end : pieces[i + 1].begin].strip(" -_")
        for kind in of.keys() & after.keys() if joined else ():  # llama 70b, 30b-a3b
            of[kind] |= after[kind]
            after[kind] = of[kind]
    values = {kind: [of[kind] for of in kinds if kind in of] for of in kinds for kind in of}
    several = [kind for kind, each in values.items() if any(one != each[0] for one in each)]
    most = max(several, key=lambda kind: len(values[kind]), default="")
    gone = [one for one in splits.list_left_out(text) if re.fullmatch(joins, one.cut(text), re.I)]
    heads: list[int] = []  # where the sides begin: behind a word between them, else with a value
    for i, of in enumerate(kinds):
        if most in of and not (i and of[most] is kinds[i - 1].get(most)):
            since = range(heads[-1] + 1, i) if heads else ()
            heads.append(next((at for at in since if pieces[at] in gone), i))
    near = load_phrases()["of a device"] if most == "cluster.accelerator" else []
    rows = [
        (one, max(0, sum(head <= i for head in heads) - 1))
        for i, (one, of) in enumerate(zip(pieces, kinds, strict=True))
        if {*several} & of.keys() or (heads and heads[0] <= i < heads[-1] and of.keys() <= {*near})
    ]
    own = {"model", "cluster.accelerator"} - {*several}  # which no side may lack
    named = {side for one, side in rows if own & _map_kinds([one]).keys()}
    if 0 < len(named) < len(heads):
        return []
    return [
        splits.blank(text, [*gone, *(one for one, other in rows if other != side)])
        for side in range(len(heads))
    ][: terms.get_limit("compared")]


def _map_kinds(pieces: Iterable[splits.Piece]) -> dict[str, set[str]]:
    """Map what may be compared, a model, a device or another key, to its values in pieces."""
    found: dict[str, set[str]] = {}
    rows = [piece.values for piece in pieces if piece.values]
    for key, value in ((key, value) for row in rows for key, value in row.items()):
        if key == "tuned" and any("training.objective" in row for row in rows):
            continue  # the objective says it
        if key not in load_phrases()["unread"] and key not in load_phrases()["uncompared"]:
            layout = key.startswith("parallelism.") or key == "data alone"
            kind = "layout" if layout else load_phrases()["same kind"].get(key, key)
            alone = kind in (key, "cluster.provider")
            found.setdefault(kind, set()).add(str(value) if alone else f"{key} {value}")
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
        alone = not named or (len(left) > len(said) and not placed) or device
        inert = named and placed and splits.is_inert(text, piece, pieces)
        if alone or not (inert or splits.may_leave_out(text, piece, bool(whole))):
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
    runs = pair if key == "training.tokens" else ()
    few = [find_few_tokens(LineValues({key: one})) for one in runs]
    if sum(map(bool, few)) == 1:  # 100B tokens, 1024 tokens
        said[key] = pair[few[0] is not None]
        said.setdefault(terms.LENGTH, next(filter(None, few)).assume("few tokens"))
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
    every = _map_values(document)
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


def _map_values(document: Node) -> dict[str, Node]:
    """Map the dotted keys of a document to their values, mappings before their contents."""
    return {".".join(map(str, path)): node for path, node in document.walk() if path}


def _format_reason(node: Node, before: str = "") -> str:
    """Return why a value is assumed or derived, after a text; empty for one that the user gave."""
    return f"{before}{node.origin.text}" if node.origin != terms.STATED else ""
