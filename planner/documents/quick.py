"""A plan from one line of text: `llama3-8b on 64 h100, 2T tokens`.

The text is split into phrases (presets/aliases/phrases.yaml), names of what is built in, and keys
with a value, such that the fewest characters are left over. What is left over ends the answer,
but words without which the plan is the same: these are named. If two such splits describe
different plans, the user is asked which. Nothing of the text is run. It becomes a document that a
file could hold, each value at its column of the text; values that the answer depends on and the
text does not give are assumed, and printed as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from contextlib import suppress
from datetime import date, datetime
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, lru_cache, reduce
from itertools import pairwise, product
from math import gcd, log, prod
from typing import Any, NamedTuple

from planner.base import numbers, resources, units
from planner.base.display import format_flow, one_line
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.base.numbers import exact_text, plain_text
from planner.documents import aliases, schema, source
from planner.documents.source import SEARCHED, lookup
from planner.documents.yaml_nodes import Node, Origin, from_data

TEXT = "<text>"  # stands for a file in the places of faults
LONGEST, NAME = 1000, 200  # characters of a line, and of the name of a plan
STATED = Origin("argument", "quick")
ASSUMED = "assumed: "  # start of the origin of assumptions
SECTIONS = ("parallelism", "training", "cluster", "time")  # whose keys may stand with a value
COUNTS = ("training.global_batch", "training.micro_batch", "training.gradient_accumulation")
DEGREES = ("data", "tensor", "pipeline", "context")
LENGTH, BATCH, RANK = "training.sequence_length", "training.global_batch", "training.lora.rank"
SPENT = ("energy", "carbon", "cost")  # questions
EXAMPLES, EPOCHS, EACH = "training.examples", "training.epochs", "training.example_tokens"
RUN = ("training.tokens", "each", EXAMPLES, "pairs", "steps", "text")  # what gives a run's length
USUAL_SEQUENCE = 8192  # tokens; default of models with longer sequences

MOST_SPLITS = 8  # of a text that cost the same
SIMILAR = 0.8  # of a misspelt word and the right one, from 0 to 1
ALIKE = 0.85  # where the right one is a family of models
SWITCHES = {"true": True, "false": False, "on": True, "off": False}
NAMED = {"model", "family", "size"}  # values of a phrase that name a model
#: Values of a phrase, none of the plan.
UNREAD = ("fault", "ignored", "unused", "show", "why", "notes", "unless", "times")
#: Values of a phrase that say nothing alone, so that texts are not compared by them.
SAME_KIND = {**dict.fromkeys((*NAMED, "experts", "active"), "model"), "length alone": LENGTH}
SAME_KIND |= dict.fromkeys(("launcher", "training.stack", "training.implementation"), "software")
SAME_KIND |= dict.fromkeys(("tuned", "lora", "training.lora.base", "double"), "method")
#: Questions of a text that the solver answers.
ANSWERED = ("fewest-devices", "largest-model", "largest-batch", "longest-context", "cheapest")

Understood = tuple[int, Mapping[str, Any]]  # what fits at a place: where it ends, and values
Cost = tuple[int, ...]  # characters not understood, words without effect, pieces

_END = r"(?![^\W_]|[%$€£]|_\d|[.,]\d)"
#: Characters of no text, which stand for those of a name, and of one that is a number.
MARK, BARE = "\ue000", "\ue001"
_NAME_BEGIN = re.compile(r"(?:(?<![A-Za-z])|(?<=\dx)|(?<=\dX))[A-Za-z]|(?<!\d)\d")
_NAME_END = re.compile(r"(?![a-rt-wyz\d%$]|[.,]\d)", re.I)
_SIZED = re.compile(r"(?<=[a-z])\d+(?:\.\d+)?b(?![a-z\d])", re.I)  # the size in `Qwen7B`
_NUMBER = rf"(?:{aliases.WHOLE}(?:\.\d+)?(?:e\d+)?)(?!\d|[.,]\d)"
_SEPARATOR = re.compile(
    r"(?:[-=]+>|[\s,;:(){}\[\]?!&+=|~≈·•–—→]|[.'’\"-](?=\s|$)|(?<![\w.])['’\"-])+"
)
_GLUE = re.compile(r"(?<=\w)[-_/@](?=\w)")  # between names that are written as one word
_LETTERS = re.compile(r"(?<![A-Za-z])[A-Za-z]{4,}(?![A-Za-z])")
_WORD = re.compile(r"(?:[^\s,;:?!()\[\]=|~]|(?<=\d),(?=\d))+|.")
_NAME = r"((?:[A-Za-z]+-)*[A-Za-z]{2,})(?:[-_ ]?v?\d[\d.]*o?)?"  # of a model that is not built in
#: What stands before the name of a device.
_BEFORE_DEVICE = re.compile(
    r"\b(on|with|using|type)\s+((a|an|the|my|our|one|single|some)\s+)*$", re.I
)
_KEY = re.compile(r"[A-Za-z]+(?:[\s_.-]+[A-Za-z]+){0,3}")
#: A key with a value that is none of a plan, and a label such as `d20`.
_ASSIGNED = re.compile(
    r"(?<![\w-])(?:--[A-Za-z][\w-]*(?:[= ]-?\d[\w.-]*)?|-?[A-Za-z][\w.]*=[^\s,;]+"
    r"|[a-z]+(?:_[a-z]+)+(?:[ :]+-?\d[\w.-]*|(?!\w)))"
)
_LABEL = re.compile(r"_?(?!x\d)[a-z]+[-_]?\d[\w.]*")
_BARE_NUMBER = r"\d[\d.,]*[kx]?"
_VALUE = re.compile(
    rf"(\s*[=:]\s*|\s+(?:at|of|to|is)\s+|[\s_-]*)(-?{_NUMBER}(?:[kKMBGT]i?|%)?{_END}|[A-Za-z][\w.-]*)"
)
#: Two numbers of one unit: `8-16 GPUs`, `$2 to $3`, `between 32 and 64`.
_MANY = r"(?:\s?[kKmMbBtT](?![A-Za-z]))?"
_RANGE = re.compile(
    rf"(?<![\w.])(?<![a-z]-)(?P<between>between\s+)?(?P<sign>(?:\$\s*)?)(?P<first>{_NUMBER})(?P<many>{_MANY})"
    r"(?:\s+(?P<noun>[a-z]+?)s?)?\s*(?:-+>|[-–—/→]|\.\.|to|or|(?(between)and|vs\.?))\s*\$?\s*"
    rf"(?P<second>{_NUMBER})(?P<last>{_MANY})(?(noun)(?=\s+(?P=noun)))",
    re.I,
)
#: Quantities that YAML reads as text without quotes.
_QUANTITY = re.compile(rf"{_NUMBER}(?:[kKMBGT]i?|%| USD/h)?")


class Said(NamedTuple):
    """A value that a text gives or that is assumed.

    Attributes:
        value: the value, as a document would have it.
        place: where the text gives it; its start for an assumption.
        why: how the value follows, if the text does not give it; an assumption begins with
            ``ASSUMED``.
    """

    value: Any
    place: Place
    why: str = ""


class Piece(NamedTuple):
    """A part of a text with its values, ``None`` where it is not understood, and its cost.

    Attributes:
        begin, end: its characters.
        values: values by key; empty for separators and fillers.
        cost: characters not understood, words without effect, and the number of pieces.
    """

    begin: int
    end: int
    values: Mapping[str, Any] | None
    cost: Cost = (0, 0, 0)


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
    for pieces in _list_splits(corrected):
        try:
            said = _collect_values(corrected, pieces)
            documents.append(_build_document(text, _complete_values(said)))
        except PlanError as error:
            errors.append(error)
    if not documents:
        raise errors[0]
    plans = [document.plain() for document in documents]
    if (other := next((one for one in plans if one != plans[0]), None)) is not None:
        keys = [key for key, one in _iter_values(documents[0]) if one.plain() != lookup(other, key)]
        raise _ask_for("two", None, ", ".join(keys))
    left = _list_left_out(corrected)  # words that stand inside of a phrase are no such
    bare = parse_quick(_blank(corrected, left)) if left else documents[0]
    if bare.plain() | {"name": ""} != plans[0] | {"name": ""}:
        raise PlanError([_refuse_words(corrected, one, ()) for one in left])
    return documents[0]


def correct_spelling(text: str) -> tuple[str, list[str]]:
    """Correct misspelt technical words; return the text, and each correction in words.

    Raises:
        PlanError: the text is longer than ``LONGEST``.
    """
    if len(text) > LONGEST:
        raise PlanError(Fault("too much text", Place(TEXT), f"at most {LONGEST} characters"))
    corrections: list[str] = []
    technical, families = (
        _load_phrases()[kind].split() for kind in ("spelled", "spelled families")
    )

    def correct(found: re.Match[str]) -> str:
        word = found[0].lower()
        if word in _collect_letters() or _is_harmless(word):
            return found[0]
        pool = [one for one in technical if one[0] == word[0]]
        near = get_close_matches(word, pool, n=1, cutoff=SIMILAR)
        near = near or get_close_matches(word, families, n=1, cutoff=ALIKE)
        if not near:
            return found[0]
        corrections.append(f"'{found[0]}' read as '{near[0]}'")
        return str(near[0])

    for pattern, plain in _load_phrases()["rewritten"].items():
        text = re.sub(pattern, plain, text, flags=re.I)
    return _LETTERS.sub(correct, text), corrections


def list_ignored(text: str) -> tuple[list[str], list[str], list[str]]:
    """List the words of a text that have no effect on the plan, those that are not understood and
    left out, and numbers that decide nothing that is computed."""
    text = correct_spelling(text)[0]
    pieces = _choose_phases([*_list_splits(text)[0]])
    of_kind = ([p for p in pieces if kind in (p.values or ())] for kind in ("ignored", "unused"))
    ignored, unused, left = (
        [text[p.begin : p.end] for p in each] for each in (*of_kind, _list_left_out(text))
    )
    return ignored, left, unused


def _list_left_out(text: str) -> list[Piece]:
    """List the pieces of a text that are not understood and no name of a model."""
    return [one for one in _name_sizes(text, [*_list_splits(text)[0]]) if one.values is None]


def _refuse_words(text: str, piece: Piece, others: Sized) -> Fault:
    """Make the fault of a piece of a text that is not understood; with what would be, if there are
    no others."""
    words, place = text[piece.begin : piece.end], Place(TEXT, 1, piece.begin + 1)
    allowed = None if others else _load_phrases()["asks"]["understood"][1]
    return Fault(f"not understood: '{words}'", place, allowed, _suggest_words(words))


def split_alternatives(text: str) -> list[str]:
    """Split a text that compares models, devices or values, such as ``A vs B on 8 h100``, or gives
    a range where a number belongs, into the texts that it means; other texts stay whole."""
    text, table = correct_spelling(text)[0], _load_phrases()
    compared = re.search(rf"\b(?:{table['compared']})\b", text, re.I)
    words = f"{table['between']} {table['between when compared'] if compared else ''}".split()
    pieces = _name_sizes(text, [*_list_splits(text)[0]])
    unread = any(
        re.search(r"(?<![\w.-])\d", text[one.begin : one.end]) for one in _list_left_out(text)
    )
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
        if differing and single and kinds[1] <= kinds[0] and more <= {"cluster.devices"}:
            without = Piece(join.start(), join.end(), None)
            first, rest = (_blank(text, [without, *side]) for side in held[::-1])
            counts = left["cluster.devices"] if more else ()  # of both: 8 a100 vs h100
            rest += "".join(f" {one.rpartition(' ')[2]} gpus" for one in counts)
            return [*split_alternatives(first)[:1], *split_alternatives(rest)]
    pairs = []
    for found in _RANGE.finditer(text):
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


def _map_kinds(pieces: Iterable[Piece]) -> dict[str, set[str]]:
    """Map what may be compared, a model, a device or another key, to its values in pieces."""
    found: dict[str, set[str]] = {}
    values = ((key, value) for piece in pieces for key, value in (piece.values or {}).items())
    for key, value in values:
        if key not in UNREAD and key not in _load_phrases()["uncompared"]:
            layout = key.startswith("parallelism.") or key == "data alone"
            kind = "layout" if layout else SAME_KIND.get(key, key)
            found.setdefault(kind, set()).add(str(value) if kind == key else f"{key} {value}")
    for kind in {"model", "layout", "method"} & found.keys():  # a family and its size are one
        found[kind] = {" ".join(sorted(found[kind]))}
    return found


def _read_values(text: str) -> Any:
    """Return the plan of a text but its name; None where it asks."""
    with suppress(PlanError):
        return parse_quick(text).plain() | {"name": ""}
    return None


def _blank(text: str, pieces: Iterable[Piece]) -> str:
    """Replace pieces of a text by spaces."""
    for one in pieces:
        text = f"{text[: one.begin]}{' ' * (one.end - one.begin)}{text[one.end :]}"
    return text


def list_asked(text: str, phases: bool = False) -> list[str]:
    """List the quantities that a text asks for, such as ``time.device_hours``; where its plan is of
    reinforcement learning, with ``phases``, those of all phases."""
    pieces = _list_splits(correct_spelling(text)[0])[0]
    shown = [one.values["show"] for one in pieces if one.values and "show" in one.values]
    names = _load_phrases()["reinforcement"]["shown"] if phases else {}
    return [*dict.fromkeys(names.get(one, one) for one in shown)]


def _collect_values(text: str, pieces: Iterable[Piece]) -> dict[str, Said]:
    """Collect the values of all pieces.

    Raises:
        PlanError: pieces that are not understood, and second values of a key.
    """
    said: dict[str, Said] = {}
    faults: list[Fault] = []
    left: list[Piece] = []
    pieces = _choose_phases([*pieces])
    fast = "cluster.network.bandwidth"  # which instances have, whose device holds
    in_order = sorted(_name_sizes(text, [*pieces]), key=lambda one: "unless" in (one.values or ()))
    for piece in in_order:
        place, values = Place(TEXT, 1, piece.begin + 1), piece.values
        if values is None:
            left.append(piece)
            continue
        if {*values.get("unless", ())} & said.keys():
            continue
        if "fault" in values:
            faults.append(Fault(values["fault"], place))
        if "notes" in values:
            _add_note(said, place, values["notes"])
        why = values.get("why", {})
        for key, value in values.items():
            one = Said(value, place, ASSUMED + why[key] if key in why else "")
            key = f"{key} {value}" if key == "question" else key
            instance = key == "cluster.accelerator" and fast in {*said, *values}
            before = said.get(key) if instance else None
            if before and _name_family(before.value) == _name_family(value):
                said[key] = one if fast in values else before
            elif key not in UNREAD and not _keep_value(text, said, key, one):
                wrong = f"a second {key}: {format_flow(value)}"
                faults.append(Fault(wrong, place, "one of them"))
    named = {*NAMED, "shape.layers", "question largest-model"} & said.keys()
    placed = {"cluster", "cluster.accelerator", "memory"} & said.keys()
    sized = {"cluster", "cluster.devices", "nodes"} & said.keys()
    ran = {*RUN, "lora", "tuned"} & said.keys() or any("question " in key for key in said)
    whole = named and placed and sized and ran and not {"money", "budget", "price"} & said.keys()
    for piece in left:
        device = not placed and _BEFORE_DEVICE.search(text[: piece.begin])
        alone = not named or len(left) > len(said) or device
        if alone or not _may_leave_out(text, piece, bool(whole)):
            faults.append(_refuse_words(text, piece, faults))
    if faults:
        raise PlanError(faults)
    return said


def _choose_phases(pieces: list[Piece]) -> list[Piece]:
    """Choose of each piece that also means a key of ``rl`` these keys alone in a line that names an
    algorithm of reinforcement learning, else the others."""
    planned = any("rl.algorithm" in (one.values or ()) for one in pieces)
    chosen: list[Piece] = []
    for one in pieces:
        values = one.values or {}
        own = {key for key in values if key.startswith("rl.")}
        if planned and not own and "training.objective" in values:  # of a reward model
            one = one._replace(values={})
        kept = own | {"why", "unless"} if planned else values.keys() - own
        fitting = {key: value for key, value in values.items() if key in kept}
        chosen.append(one._replace(values=fitting) if own else one)
    return chosen


def _keep_value(text: str, said: dict[str, Said], key: str, other: Said) -> bool:
    """Keep a value of a key, and return whether a text may give it: the same as before, or another
    thing. Of two sizes that are near one that is joined to a name is a label, of two amounts of
    money the smaller may be a price."""
    pair = said.setdefault(key, other), other
    if pair[0].value == other.value:
        return True
    if pair[0].why != other.why:  # what is stated holds, not what another word assumes
        said[key] = min(pair, key=lambda one: one.why.startswith(ASSUMED))
        return True
    few = [_find_few_tokens({key: one}) for one in pair] if key == "training.tokens" else []
    if sum(map(bool, few)) == 1:  # 100B tokens, 1024 tokens
        said[key] = pair[few[0] is not None]
        length = next(filter(None, few))
        why = f"{ASSUMED}so few tokens beside others are the length"
        said.setdefault(LENGTH, length._replace(why=why))
        return True
    if key == "size" and _is_near(pair[0].value, other.value, limit="label"):
        before = (text[: (one.place.column or 1) - 1] for one in pair)
        joined = [bool(re.search(r"[a-z][-_]$", each, re.I)) for each in before]
        rounded = [isinstance(one.value, str) for one in pair]  # 500M (570,658,176 parameters)
        joined = rounded if rounded[0] != rounded[1] else joined
        if joined[0] != joined[1]:
            label, said[key] = pair if joined[0] else pair[::-1]
            _add_note(said, other.place, f"{label.value}: a name; the size is {said[key].value}")
            return True
    if key == "money" and "price" not in said:
        price, said[key] = sorted(pair, key=lambda one: Fraction(one.value))
        why = f"{ASSUMED}the smaller of two amounts is the price of a device for an hour"
        said["price"] = price._replace(why=why)
        return bool(Fraction(price.value) < _load_phrases()["limits"]["hourly"])
    return False


def _add_note(said: dict[str, Said], place: Place, note: str) -> None:
    """Add a note on what of a text is not counted to the others."""
    before = said.get("notes")
    if before is None or note not in before.value:
        said["notes"] = Said(f"{before.value}; {note}" if before else note, place)


def _may_leave_out(text: str, piece: Piece, whole: bool) -> bool:
    """Decide whether what is not understood may be left out of a plan: words, labels, keys with
    their values, and numbers without a unit that belong to a word (``wikitext-103``) or, of a
    ``whole`` plan, stand alone between commas, but no word that turns the meaning of others: a
    negation, of what is understood."""
    words, before = text[piece.begin : piece.end].lower(), text[: piece.begin]
    joined = before.endswith("-") or text[piece.end : piece.end + 1] == "-"
    single = joined and bool(re.fullmatch("[a-z]", words))  # Nemotron-H, e-Llama
    counted = re.search(r"(?<![\w.])\d[\d.,]*\s*$", before)  # what may be its unit
    shortest = 1 if single else 3 if counted else 2
    table = _load_phrases()
    each = re.findall(r"[^\s,;:()?!&+=|/-]+", _ASSIGNED.sub(" ", words))
    plain = [len(one) >= shortest and re.sub("[.'’]", "", one).isalpha() for one in each]
    joined = any(plain) or re.search(r"\w[-_]$", before) is not None
    listed = re.search(r"[,;(/]\s*$", before) and re.match(r"\s*($|[,;)/.?])", text[piece.end :])
    alone = joined or (whole and listed)
    known = (
        one or _LABEL.fullmatch(word) or (alone and re.fullmatch(_BARE_NUMBER, word))
        for one, word in zip(plain, each, strict=True)
    )
    refused = {*table["turning"].split(), *table["words"]} - ({"one"} if whole else set())
    turned = [one for one in each if one in refused]
    denied = len(turned) == 1 and turned[0] in table["negations"].split() and turned[0] != each[-1]
    rest = re.split(r"[,;.:!?)]", text[piece.end :], maxsplit=1)[0].lower().split()
    if turned and each == turned and turned[0] in table["negations"].split():
        return bool(rest) and all(map(_is_harmless, rest))  # no good card
    return (not turned or (denied and not rest)) and all(known)


def _name_sizes(text: str, pieces: list[Piece]) -> list[Piece]:
    """Take a word that is not understood before a size for the name of a model that is not built
    in: ``codellama 34b``, ``gpt-4 1.8T``."""
    totals = sum("training.tokens" in (piece.values or ()) for piece in pieces)
    refused = f"{_load_phrases()['no names']} {_load_phrases()['turning']}".split()
    for at, (piece, after) in enumerate(pairwise(pieces)):
        begin, kinds = piece.begin, {*(after.values or ())}
        if totals > 1 and re.fullmatch(r"[\d.]+ ?T", text[after.begin : after.end], re.I):
            kinds = {"size"} if kinds == {"training.tokens"} else kinds
        if piece.values is not None or "size" not in kinds or kinds - {"size", "experts"}:
            continue
        before = pieces[at - 1] if at else piece  # of gpt-4, gpt
        if before.values is None or "family" in before.values:
            joined = re.fullmatch(r"[A-Za-z]+[-_ ]?v?\d[\d.]*o?", text[before.begin : piece.end])
            begin = before.begin if joined else begin
        words = text[begin : piece.end]
        beside = re.fullmatch(r"[\s_:(-]{0,2}", text[piece.end : after.begin])
        named = re.fullmatch(_NAME, words) if beside else None
        if named and not {*named[1].lower().split("-")} & {*refused}:
            pieces[at - 1] = before._replace(values={}) if begin < piece.begin else pieces[at - 1]
            pieces[at] = Piece(begin, piece.end, {"model name": words})
            size = next(iter((after.values or {}).values()))
            pieces[at + 1] = after._replace(values={**dict.fromkeys(kinds, True), "size": size})
    return pieces


def write_quick(text: str, document: Node) -> str:
    """Write the YAML of a document made by ``parse_quick``, with assumptions as comments."""
    rows: list[tuple[str, Node | None]] = [(f"# quick: {one_line(text)}", None)]
    for key, node in document.iter_children():
        inner = [*node.iter_children()] if isinstance(node.value, dict) else []
        if key != "training" and not any(_format_reason(one) for _, one in inner):
            rows.append((f"{key}: ", node))
        elif inner:
            rows += [(f"{key}:", None), *((f"  {name}: ", one) for name, one in inner)]
    flows = (
        f"{format_flow(one.plain(), bare=_QUANTITY)}{_format_reason(one, '  # ')}" if one else ""
        for _, one in rows
    )
    return "".join(f"{key}{value}\n" for (key, _), value in zip(rows, flows, strict=True))


def list_assumptions(document: Node, get: Callable[[str], Any], reasons: Mapping[str, str]) -> str:
    """List the values that an answer depends on and the text does not give.

    Args:
        document: the document of the text.
        get: reads a key of the plan that was made from it.
        reasons: for keys of the plan, why they have their values.

    Returns:
        Keys with values, each with its reason where there is one, separated by semicolons.
    """
    every = dict(_iter_values(document))
    why = {key: _format_reason(node).removeprefix(ASSUMED) for key, node in every.items()}
    rest = [key for key in _load_phrases()["told"] if key not in every and get(key) is not None]
    why |= {key: reasons.get(key, "") for key in rest}
    return "; ".join(
        f"{key} {format_flow(every[key].plain() if key in every else get(key))}"
        + (f" ({because.removesuffix(SEARCHED)})" if because else "")
        for key, because in why.items()
        if (because or key not in every)
        and (not because or why.get(key.rpartition(".")[0]) != because)
    )


def _iter_values(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield all values of a document by dotted key, mappings before their contents."""
    for key, inner in node.iter_children() if isinstance(node.value, dict) else ():
        dotted = f"{path}.{key}" if path else str(key)
        yield dotted, inner
        yield from _iter_values(inner, dotted)


def _format_reason(node: Node, before: str = "") -> str:
    """Return why a value is assumed or derived, after a text; empty for one that the user gave."""
    return f"{before}{node.origin.text}" if node.origin != STATED else ""


def _complete_values(said: dict[str, Said]) -> dict[str, Said]:
    """Convert parsed values to keys of a plan, with assumptions for what is missing.

    Raises:
        PlanError: what is missing, or may mean two things.
    """
    asked = [said.pop(key).value for key in [*said] if key.startswith("question ")]
    spent = said.pop("flop", None)
    _assume_offload(said)
    if "rl.algorithm" in said:
        said.setdefault("tuned", said["rl.algorithm"]._replace(value=True))
    trained = {*RUN}
    named = any(key in NAMED or key.startswith("shape.") for key in said)
    if spent and not named and "largest-model" not in asked:
        asked, why = [*asked, "largest-model"], "a budget of compute asks for the model size"
        spent = spent._replace(why=f"{ASSUMED}{why}")
    elif not asked and not named and not trained & said.keys():
        limits = {"deadline", "budget", "money", "hours"} & said.keys()
        asked = ["largest-model"] if limits else []
    spending = bool(asked) and {*asked} <= {*SPENT} and not trained & said.keys()
    timed = {"deadline", "cluster.devices"} <= said.keys() or "hours" in said
    if spending and timed:  # what is spent in this time
        asked = [*asked, "tokens-by-deadline"]
        _add_assumptions(said, *([] if named else ["model"]))
    if sized := "largest-model" in asked:
        _add_assumptions(said, "model")
        if (spent or {"budget", "money"} & said.keys()) and "cluster.accelerator" not in said:
            _add_assumptions(said, "cluster.accelerator", "cluster.devices")
        if said.pop("each", None):  # tokens in proportion to a size that is asked for
            asked.append("compute-optimal")
    _choose_teacher(said)
    if "model" not in said:
        raise _ask_for("model")
    _assume_devices(said, asked, bool(spent or trained & said.keys()))
    _choose_device(said)
    _add_price(said, asked)
    if said.pop("least", None):
        _add_assumptions(said, COUNTS[1])
    layout = {key for key in said if key.startswith(("parallelism.", "cluster.accelerator"))}
    whole = layout == {"parallelism.zero", "cluster.accelerator"} and "largest-batch" in asked
    if whole and _count_holding(said, 1, "kept") == 1:
        said.setdefault("data alone", said["parallelism.zero"]._replace(value=True))
    if "carbon" in asked and "cluster" not in said:
        _add_assumptions(said, "cluster.carbon_intensity")
    _add_network(said, asked)
    if "rl.algorithm" in said and _assume_phases(said, asked):
        known = {*_load_phrases()["order"].split(), "launcher"}
        return {key: one for key, one in said.items() if key.partition(".")[0] in known}
    if (hybrid := said.pop("hybrid", None)) and "parallelism.replicate" not in said:
        if "cluster" in said or "cluster.devices" not in said:
            raise _ask_for("hybrid", hybrid.place)
        count = said["cluster.devices"].value // _count_holding(said)
        why = f"{ASSUMED}as many as hold the model, each in whole nodes"
        said["parallelism.replicate"] = Said(max(1, count), hybrid.place, why)
    adapted = said.pop("lora", None) or any(key.startswith("training.lora.") for key in said)
    if bits := said.pop("weight format", None):
        base, why = _load_phrases()["formats"][bits.value]
        pretrained = trained & said.keys() and "tuned" not in said
        if not adapted and ("whole" in said or (pretrained and "training.stack" not in said)):
            raise _ask_for("bits", bits.place, bits.value)
        if said.get("training.lora.base", bits).value not in (bits.value, base):
            raise _ask_for("bits", bits.place, bits.value)
        why += "" if adapted else ", which are not trained themselves: adapters (LoRA) are"
        frozen = bits._replace(value=base, why=ASSUMED + why)
        adapted = said.setdefault("training.lora.base", frozen)
    if double := said.pop("double", None):  # scales of the 4-bit weights in 8 bits
        adapted = said["training.lora.base"] = double._replace(value="nf4-double")
    if adapted:
        _add_assumptions(said, RANK)
        if "training.dropout" in said:
            said["training.lora.dropout"] = said.pop("training.dropout")
    tuned = bool(said.pop("tuned", None) or adapted or {EXAMPLES, "pairs"} & said.keys())
    every, other = said.pop("whole", None), said.pop("other objective", None)
    if tuned and not adapted and not other:
        _add_assumptions(said, "training.objective")
    if tuned and not (every or adapted) and {"fewest-devices", "largest-model"} & {*asked}:
        _add_note(said, Place(TEXT), "fine-tuning of all weights; LoRA or QLoRA needs less")
    free = not {LENGTH, "length alone", EACH} & said.keys()
    usual, why = _load_phrases()["assumptions"]["tuned length"]
    if free and (few := _find_few_tokens(said)):
        said[LENGTH] = few
        del said["training.tokens"]
    elif free and tuned and (_find_longest(said) or 0) > usual and "longest-context" not in asked:
        said[LENGTH] = Said(usual, Place(TEXT), ASSUMED + why)
    for key in {"batch", BATCH, COUNTS[1]} & said.keys() if _is_paired(said) else ():
        size = said[key].value  # k and M count tokens
        twice = 2 * size if key != "batch" else size if size[1] else (2 * size[0], "")
        said[key] = said[key]._replace(value=twice)
    _convert_tokens(said, tuned)
    _share_batch(said, tuned)
    follow = {BATCH, "training.gradient_accumulation"} & said.keys()
    if tuned and not follow and not {"largest-batch", "fewest-devices", "cheapest"} & {*asked}:
        _assume_batch(said)
    if spent and not sized and "training.tokens" not in said and (size := _count_parameters(said)):
        why = f"{ASSUMED}{spent.value} FLOP at 6 a parameter and token"
        count = int(Fraction(spent.value) / (6 * size))
        said["training.tokens"], spent = spent._replace(value=count, why=why), None
    _convert_rate(said, bool(adapted), asked)
    _replicate_whole(said)
    mfu, busy = said.get("time.mfu"), said.pop("busy", None)
    if mfu and units.parse(str(mfu.value), "1") > _load_phrases()["limits"]["mfu"]:
        if not busy:
            raise _ask_for("mfu", mfu.place, mfu.value)
        _add_note(said, mfu.place, f"utilisation {mfu.value}: not used; no run reaches it as MFU")
        del said["time.mfu"], said["time.use"]
    if sized and spent:
        for key in {"deadline", "budget", "money", "hours"} & said.keys():
            _add_note(said, said[key].place, f"{said.pop(key).value}: not used beside FLOP")
        said["questions"] = spent._replace(value=[{"compute-optimal": f"{spent.value} FLOP"}])
    elif spent:
        raise _ask_for("flop", spent.place, spent.value)
    else:
        _add_questions(said, asked, sized, not tuned)
    if (_find_longest(said) or 0) > USUAL_SEQUENCE:
        _add_assumptions(said, LENGTH)
    elif isinstance(said["model"].value, str) and _find_longest(said) is None:
        length, why = _load_phrases()["assumptions"]["no longest"]
        said.setdefault(LENGTH, Said(length, Place(TEXT), ASSUMED + why))
    return {key: one for key, one in said.items() if key not in ("sized", "used", "shape.layers")}


def _assume_phases(said: dict[str, Said], asked: list[str]) -> bool:
    """Complete a plan of reinforcement learning; return False where only the training of the policy
    can be planned, which then has a note.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text.
    """
    rows, algorithm = _load_phrases()["reinforcement"], said["rl.algorithm"]
    sized = isinstance(said["model"].value, dict) and "parameters" in said["model"].value
    cap = said.pop("rl.response_tokens", None)
    few = said.pop("length alone", None) or _find_few_tokens(said)
    long = "training.tokens" in said and few is None
    if sized or long or {*asked} & {*rows["unplanned"]} or said.keys() & {*rows["unplanned"]}:
        prompt = said.get("rl.prompt_tokens")
        for key in [key for key in said if key.startswith("rl.")]:
            del said[key]
        if cap and LENGTH not in said:
            said[LENGTH] = cap._replace(value=cap.value + (prompt.value if prompt else 0))
        _add_note(said, algorithm.place, rows["note"].format(algorithm.value))
        said["other objective"] = algorithm
        return False
    for role in ("rl.critic", "rl.reward"):
        if size := said.pop(f"{role} size", None):
            said[role] = _choose_shape(size, {})
    keys = (EXAMPLES, EPOCHS, "training.tokens", EACH)
    examples, epochs, *_ = (said.pop(key, None) for key in keys)
    if batch := said.pop("batch", None):
        said[BATCH] = batch._replace(value=int(batch.value[0] * 1024 ** " km".find(batch.value[1])))
    if steps := said.pop("steps", None):
        said["rl.steps"] = steps
    said["training.mode"] = algorithm._replace(value="rl", why="")
    for key, (value, why) in rows["assumed"].items():
        plain, _, of = key.partition(" of ")
        if of in ("", algorithm.value, *asked):
            said.setdefault(plain, Said(value, Place(TEXT), ASSUMED + why))
    if examples and ("rl.steps" not in said or said["rl.steps"].why):
        whole = examples.value * (epochs.value if epochs else 1)
        why = f"{whole} prompts, {said['rl.prompts'].value} in a step"
        said["rl.steps"] = examples._replace(value=-(-whole // said["rl.prompts"].value), why=why)
    elif unused := examples or epochs:
        what = "examples" if examples else "epochs"
        _add_note(said, unused.place, f"{unused.value} {what}: not used")
    usual, why = rows["length"]
    longest = _find_longest(said)
    part = said["rl.prompt_tokens"]
    whole = max(min(usual, longest or usual), 0 if part.why else 2 * part.value)
    whole = said[LENGTH].value if LENGTH in said else whole
    prompt = min(part.value, whole // 2)
    said["rl.prompt_tokens"] = part._replace(value=prompt)
    why = rows["mean"] if cap or few or LENGTH in said else why
    cap = cap or few or Said(whole - prompt, Place(TEXT))
    lengths = {"mean": max(1, cap.value // 2), "cap": cap.value}
    said["rl.response_tokens"] = cap._replace(value=lengths, why=ASSUMED + why)
    both = prompt + cap.value
    both = min(both, longest) if longest and longest >= cap.value else both
    said.setdefault(LENGTH, Said(both, Place(TEXT), f"{ASSUMED}prompt and response together"))
    responses = said["rl.prompts"].value * said["rl.samples"].value
    each, why = rows["batch"]
    part = responses // each if responses % each == 0 else responses
    _share_batch(said, True)
    if more := said.pop(COUNTS[2], None):
        _add_note(said, more.place, f"{more.value} accumulation steps: not used")
    said.setdefault(BATCH, Said(part, Place(TEXT), ASSUMED + why))
    if not any(key.startswith("parallelism.") for key in said):
        value, why = rows["zero"]
        said["parallelism.zero"] = Said(value, Place(TEXT), ASSUMED + why)
    return True


def _assume_devices(said: dict[str, Said], asked: list[str], trained: bool) -> None:
    """Derive the devices, and assume what a question needs of them.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text, to which one is added that a limit without devices asks.
        trained: whether the length of the run is given.
    """
    without, several = _load_phrases()["without devices"], said.pop("several", None)
    kind_only = _derive_devices(said)
    one, limits = said.get("cluster.devices"), {"deadline", "budget", "money"} & said.keys()
    bare = kind_only and one is not None and bool(one.why)
    bought = limits and bare and "largest-model" not in asked
    if bought and trained and not asked:
        del said["cluster.devices"]
    paid = {"hours", "price"} & said.keys()
    counted = {*without["counted"]} & {*asked} or paid or several or bought
    if {"cluster", "cluster.devices"} & said.keys():
        pass
    elif not asked and trained and "deadline" in limits:
        asked.append("fewest-devices")
    elif not asked and limits and not bare and (trained or "cluster.accelerator" not in said):
        asked.append("cheapest")
    elif asked == ["memory"]:
        whole = _multiply_degrees(said)
        said["cluster.devices"] = Said(whole, Place(TEXT), ASSUMED + without["alone"])
        if not {"batch", "batch_tokens", *COUNTS} & {*said}:  # not as many as fill a device
            _add_assumptions(said, COUNTS[1])
    one = said.get("cluster.devices")
    if {*without["found"]} & {*asked} and "cluster" not in said:
        if one and one.why:
            del said["cluster.devices"]
        _add_assumptions(said, "cluster.accelerator", "cluster.devices")
    elif "cluster" not in said and ((counted and bare) or one is None):
        _add_assumptions(said, "cluster.accelerator", "cluster.devices")
        least, degrees = said["cluster.devices"], _multiply_degrees(said)
        many = _count_holding(said, degrees if degrees > 1 else least.value)
        hours = Fraction(said["hours"].value) if "hours" in said else _estimate_hours(said)
        many = max(many, 1 << int(hours / 720).bit_length() >> 1)  # as many as take 30 days
        if "parallelism.data" in said:
            said["cluster.devices"] = least._replace(value=degrees)
        elif many != least.value or several:
            why = ASSUMED + without["why"]
            said["cluster.devices"] = least._replace(value=many, why=why)


def _assume_offload(said: dict[str, Said]) -> None:
    """Assume of what an offload is of which nobody says it: of the optimizer, and where the weights
    are divided (FSDP, ZeRO-3) of these too."""
    vague, zero = said.pop("offload", None), said.get("parallelism.zero")
    if vague and not {"training.offload.optimizer", "training.offload.parameters"} & {*said}:
        parts = ("optimizer", "parameters")[: 2 if zero and zero.value == 3 else 1]
        why = f"{ASSUMED}nobody says of what; of the {' and the '.join(parts)}"
        said |= {f"training.offload.{part}": vague._replace(why=why) for part in parts}


def _choose_teacher(said: dict[str, Said]) -> None:
    """Choose the teacher that a size means, of the student's family; and the family of a student
    of which only the size is given, which is the teacher's."""
    size, family = said.pop("teacher size", None), said.pop("teacher family", None)
    teacher = _choose_member(family, size, False) if family else said.get("training.teacher")
    if family and teacher:
        said["training.teacher"] = teacher
    if teacher and "size" in said and not {"model", "family"} & {*said}:
        said["family"] = teacher._replace(value=teacher.value.split("-")[0])
    _choose_model(said)
    if size and not teacher and "model" in said:
        own = said["model"].value if isinstance(said["model"].value, str) else ""
        family = size._replace(value=own.split("-")[0])
        known = family.value in _list_families()
        if (teacher := _choose_member(family, size, False) if known else None) is None:
            raise _ask_for("teacher", size.place, size.value)
        said["training.teacher"] = teacher._replace(why=f"{ASSUMED}of the student's family")


def _choose_model(said: dict[str, Said]) -> None:
    """Choose the model that a name, a family, a size or several of them mean.

    Raises:
        PlanError: they mean several models, or none that is built in.
    """
    if (shape := _build_shape(said)) is not None:
        said["model"] = shape
    keys = ("size", "family", "model name", "active", "experts", "trait")
    size, family, named, active, experts, trait = (said.pop(key, None) for key in keys)
    routed, chosen = (said.pop(key, None) for key in ("routed", "top k"))
    given, copies, gated = size is not None, said.pop("copies", None), False
    if copies and "model" in said:
        moe = source.load({"extends": said["model"].value}, kind="model").get("moe") or {}
        size = None if moe.get("experts") == copies.value else size
    divided = said.get("parallelism.expert")
    if divided and divided.value != 1 and not family and "model" not in said:
        experts = experts or divided  # which no dense model has
    if family is not None:
        if "model" in said and said["model"].value in _list_families()[family.value]:
            family = None
        elif (member := _choose_member(family, size, bool(experts or active))) is not None:
            said["model"], size = member, None
            if named and not _is_harmless(named.value.lower()):
                _add_note(said, named.place, f"{named.value}: not understood, and left out")
        elif family.value not in _load_phrases()["plain_families"].split():
            named = family
        gated = family is not None and family.value in _load_phrases()["gated_families"].split()
    if size is not None and "model" in said and not said["model"].why:
        sizes = _find_sizes(said["model"].value)
        about = [_is_near(own, size.value, limit="ratio") for own in sizes[:1]]
        if not any((*about, *(_is_near(own, size.value) for own in sizes))):
            others = tuple(_load_phrases()["other_families"].split())
            if str(said["model"].value).startswith(others):
                raise _ask_for("second", size.place, size.value)
            _take_as_tokens(said, size, float(sizes[0]) if sizes else 0)
        elif not any(_is_near(own, size.value) for own in sizes):
            own = numbers.text(int(sizes[0]), "parameters", "table")
            _add_note(said, size.place, f"{size.value}: {said['model'].value} has {own}")
    elif size is not None:
        some = (experts or active) and not copies
        shape = _choose_experts(size, active) if some else _choose_shape(size, said, gated)
        if routed and chosen and not copies:
            shape, routed, chosen = _divide_experts(shape, size, routed, chosen), None, None
        like = {**shape.value} if isinstance(shape.value, dict) else {"extends": shape.value}
        shown = f"{copies.value}x{size.value}" if copies else size.value
        if copies:
            like["moe"] = {"experts": copies.value, "top_k": 2}
            shape = shape._replace(why=f"{shape.why}; {copies.value} experts, 2 for each token")
            each, unit = Fraction(size.value[:-1]), size.value[-1]
            active = size._replace(value=f"{2 * each}{unit}")
            size = size._replace(value=f"{copies.value * each}{unit}")
        name, why = "", shape.why.removeprefix(ASSUMED) or "its size alone"
        if named:
            name, known = f"{named.value} ", named.value in _list_families()
            absent = f"no {named.value} of {size.value} is" if known else f"{named.value} is not"
            why = f"{absent} built in; {why}"
        if named or "layers" in like or "moe" in like:
            like["name"] = f"{name}{shown} (shape: {like.get('extends', 'unknown')})"
            shape = shape._replace(value=like, why=ASSUMED + why)
        said["model"] = shape
        said["sized"] = size
        said |= {"used": active} if active else {}
    if vocab := said.pop("shape.vocab", None):
        like = said["model"].value
        like = like if isinstance(like, dict) else {"extends": like}
        said["model"] = said["model"]._replace(value={**like, "vocab": vocab.value})
    if (routed or chosen) and "model" in said:
        model = said["model"].value
        like = model if isinstance(model, dict) else {"extends": model}
        layer = source.load(dict(like), kind="model").data.get("moe", {})
        counts = {key: one for key, one in (("experts", routed), ("top_k", chosen)) if one}
        if routed and "hidden" in like and not layer:  # a shape of its own
            layer = {"top_k": 2, **{key: one.value for key, one in counts.items()}}
            said["model"] = said["model"]._replace(value={**like, "moe": layer})
            said.pop("sized", None)
        for key, one in counts.items():
            if layer.get(key) != one.value:
                _add_note(said, one.place, f"{key} {one.value}: not used; that of the model is")
    alone = str(said["model"].value) if trait and "model" in said and not given else ""
    if (
        trait
        and alone
        and not re.search(r"\d[bm]\b", alone)
        and trait.value not in re.split(r"[-.\d]", alone)
    ):
        raise _ask_for("trait", trait.place, trait.value, alone)
    if (active or experts) and "model" in said and not said["model"].why:
        sizes = _find_sizes(said["model"].value)
        if len({*sizes}) < 2 or (active and not _is_near(sizes[1], active.value, limit="ratio")):
            raise _ask_for("experts", (active or experts).place)  # type: ignore[union-attr]


@cache
def _load_sizes() -> Mapping[str, Any]:
    """Return title, parameters, those that a token uses, and context of the built-in models."""
    found = resources.read_json(resources.folder("presets") / "aliases" / "sizes.json")
    assert isinstance(found, dict)
    return found


def _find_sizes(model: Any) -> tuple[str, ...]:
    """Return all parameters of a built-in model and those that a token uses; empty for others."""
    if isinstance(model, dict) and "layers" not in model:
        model = model.get("extends")
    found = _load_sizes().get(model) if isinstance(model, str) else None
    return tuple(map(str, found[1:3])) if found else ()


def _count_parameters(said: Mapping[str, Said]) -> int | None:
    """Count the parameters of which a token makes use; None where they are unknown."""
    sizes = _find_sizes(said["model"].value)
    if "sized" in said and len({*sizes}) < 2:
        return int(units.parse(said.get("used", said["sized"]).value, "parameters"))
    return int(sizes[1]) if sizes else None


@cache
def _list_families() -> Mapping[str, tuple[str, ...]]:
    """Map families to their built-in models: beginnings of names, with a version and without."""
    families: dict[str, list[str]] = {}
    for name in _load_sizes():
        parts = name.split("-")
        begins = ["-".join(parts[: i + 1]) for i in range(len(parts) - 1)] or [name]
        for family in {re.sub(r"(?<=[a-z])[\d.]+$", "", parts[0]), *begins}:
            families.setdefault(family, []).append(name)
    for name in {*families} & {*_load_sizes()}:  # of whose name others are longer forms
        families[name].append(name)
    unusable = _load_phrases()["words_not_families"].split()
    return {one: tuple(names) for one, names in families.items() if one not in unusable}


def _choose_member(family: Said, size: Said | None, experts: bool) -> Said | None:
    """Choose the model of a family that has a size, one with ``experts`` where the text has them,
    the newest where several have it; None where a shape of this size stands for it.

    Raises:
        PlanError: the family has several models and the size is not given, or none of this size
            and other parts than a decoder of text.
    """
    names = _list_families()[family.value]
    if size is None:
        known = aliases.find_preset("model", family.value, source.preset_names("model"))
        if known is None and len(names) > 1:
            raise _ask_for("family", family.place, family.value, ", ".join(names[:8]))
        why = "" if known else f"{ASSUMED}no other is built in"
        return Said(known or names[0], family.place, why)
    spelt = [one for one in names if f"-{size.value.lower()}" in f"{one}-"]
    near = [one for one in names if _is_near(_find_sizes(one)[0], size.value, limit="shape")]
    near = spelt or near
    near = [one for one in near if not experts or len({*_find_sizes(one)}) > 1]
    near = [one for one in near if experts or "moe" not in one.split("-")]
    if not near and family.value not in _load_phrases()["other_families"].split():
        return None
    if not near:
        wanted = f"{family.value} of {size.value}"
        raise _ask_for("family", size.place, wanted, ", ".join(names[:8]))
    newest = max(map(_read_version, near))
    near = [one for one in near if _read_version(one) == newest]
    near.sort(key=lambda one: one.count("-"))  # a text model before one with images
    if len(near) > 1 and near[0].count("-") == near[1].count("-"):
        if family.value in _load_phrases()["plain_families"].split():
            return None
        raise _ask_for("family", family.place, f"{family.value} {size.value}", ", ".join(near))
    alone = newest == () or bool(re.search(r"\d", family.value))
    whole, *used = (numbers.text(int(one), "parameters", "table") for one in _find_sizes(near[0]))
    own = whole
    if used and used[0] != whole and not (spelt or experts):  # which nobody says
        alone, own = False, f"{whole}, with experts: {used[0]} of a token"
    why = "" if alone else f"{ASSUMED}the newest {family.value} of {size.value}, of {own}"
    return Said(near[0], family.place, why)


def _read_version(name: str) -> tuple[int, ...]:
    """Read the version in the name of a model; empty where it has none."""
    found = re.match(r"[a-z]+-?v?(\d+(?:\.\d+)?)(?![\d.bmx])", name)
    return tuple(map(int, found[1].split("."))) if found else ()


def _is_near(one: str, other: str, unit: str = "parameters", limit: str = "near") -> bool:
    """Decide whether two texts are about the same amount, as GB and GiB are.

    Args:
        one, other: amounts with or without a prefix.
        unit: the unit of both.
        limit: the name of the largest ratio, in the limits of phrases.yaml.
    """
    share = float(units.parse(one, unit) / units.parse(other, unit))
    return max(share, 1 / share) <= float(_load_phrases()["limits"][limit])


def _choose_shape(size: Said, said: dict[str, Said], gated: bool = False) -> Said:
    """Choose the published dense model that reads the length, whose heads can be split, whose
    feed-forward is ``gated`` if that is wanted, and whose shape a size gets: with more or fewer
    layers where it is not near, of another width where its layers are given or its vocabulary
    alone is larger; the size alone where all are much smaller or larger."""
    wanted, names = units.parse(size.value, "parameters"), _load_phrases()["shapes"].split()
    keys = (LENGTH, "rl.response_tokens", "shape.layers")
    *lengths, deep = (said[key].value if key in said else 0 for key in keys)
    length = max(lengths)
    split = said["parallelism.tensor"].value if "parallelism.tensor" in said else 1
    ratios = {name: _load_sizes()[name][1] / wanted for name in names}
    near = sorted(names, key=lambda one: max(ratios[one], 1 / ratios[one]))
    shapes = ((one, resources.load_preset(f"models/{one}")) for one in near)
    fitting = (
        one
        for one, shape in shapes
        if (_load_sizes()[one][3] or length) >= length or shape.get("positions") != "learned"
        if shape["attention"]["heads"] % split == 0
        if not gated or shape.get("mlp", {}).get("gated")
    )
    name = next(fitting, near[0])
    total = exact_text(_load_sizes()[name][1])
    shown = numbers.text(_load_sizes()[name][1], "parameters", "table")
    why = f"{ASSUMED}shape: the published dense model nearest to {size.value}, of {shown}"
    vocab = said.pop("shape.vocab", None)
    if _is_near(total, size.value, limit="shape") and not (deep or vocab):
        return Said(name, size.place, why)
    model = source.load({"extends": name}, kind="model").data
    word = model["hidden"] * (1 if model.get("tied_embeddings") else 2)
    inner = (_load_sizes()[name][1] - word * model["vocab"]) / model["layers"]
    own = {"vocab": vocab.value} if vocab else {}
    ends = word * own.get("vocab", model["vocab"])
    layers, step = deep or round((wanted - ends) / inner), 2 * model["attention"]["heads"]
    if deep or layers < 1:  # ends grow with the width, layers with its square
        layers = deep or model["layers"]
        root = ((ends**2 + 4 * layers * inner * wanted) ** 0.5 - ends) / (2 * layers * inner)
        wide = round(root * model["hidden"] / step) * step
        factor = wide / model["hidden"]
        if wide < 4 * step:
            return Said({"parameters": size.value}, size.place)
        why += f", with {layers} layers of {wide}, not {model['layers']} of {model['hidden']}"
        like = {"extends": name, "layers": layers, "hidden": wide, **own}
        if inside := model.get("mlp", {}).get("intermediate"):
            like |= {"mlp": {"intermediate": max(1, round(inside * factor / 64)) * 64}}
        return Said(like, size.place, why)
    if max(ratios[name], 1 / ratios[name]) > _load_phrases()["limits"]["scaled"]:
        return Said({"parameters": size.value}, size.place)
    why += f", with {layers} layers in place of {model['layers']}"
    return Said({"extends": name, "layers": layers, **own}, size.place, why)


def _build_shape(said: dict[str, Said]) -> Said | None:
    """Build a model of the widths and layers that a text gives; None where it gives none.

    Raises:
        PlanError: some of them are missing, or there is a name or a size beside them.
    """
    keys, family = [key for key in said if key.startswith("shape.")], said.get("family")
    if keys and family and family.value in _load_phrases()["plain_families"].split():
        del said["family"]
    like = ""
    if {"shape.layers", "shape.hidden"} <= {*keys}:
        own, of = said.pop("model", None), said.pop("family", None)
        like = own.value if own else _list_families()[of.value][0] if of else ""
    named = {*NAMED, "experts", "active"} & {*said}
    if not keys or ("shape.hidden" not in keys and named):
        for key in {*keys} - {"shape.vocab", *(["shape.layers"] if named == {"size"} else [])}:
            note = f"{key.removeprefix('shape.')} {said[key].value}: not used beside a model's name"
            _add_note(said, said.pop(key).place, note)
        return None
    given = {key: said.pop(key) for key in keys}
    place = next(iter(given.values())).place
    if not {"shape.layers", "shape.hidden"} <= {*given} or {*NAMED} - {"size"} & {*said}:
        raise _ask_for("shape", place)
    sizes = {key.removeprefix("shape."): one.value for key, one in given.items()}
    name, why = _load_phrases()["assumptions"]["shape"]
    name, hidden = like or name, sizes["hidden"]
    base = source.load({"extends": name}, kind="model").data
    usual = isinstance(base["layers"], int) and "mlp" in base and "moe" not in base
    if not usual or not hidden or not sizes["layers"]:
        raise _ask_for("shape", place)
    attention = {"heads": sizes.get("heads", max(1, hidden // 128))}
    attention |= {"kv_heads": sizes["kv_heads"]} if "kv_heads" in sizes else {}
    gated = base["mlp"].get("gated")
    wide = sizes.get("intermediate", max(1, round(hidden * (8 / 3 if gated else 4) / 256)) * 256)
    shared = attention.get("kv_heads", attention["heads"]) / attention["heads"]
    vocab, matrices = sizes.get("vocab", base["vocab"]), 3 if gated else 2
    ends = (1 if base.get("tied_embeddings") else 2) * vocab * hidden
    blocks, inner = sizes["layers"] * hidden, (2 + 2 * shared) * hidden
    whole = ends + blocks * (inner + matrices * wide)
    if size := said.pop("size", None):  # what it leaves of the layers is the feed-forward's
        said["sized"] = size
        wanted = float(units.parse(size.value, "parameters"))
        if "intermediate" in sizes:
            several = {count: ends + blocks * (inner + count * wide) for count in (2, 3)}
            matrices = min(several, key=lambda count: abs(several[count] - wanted))
            whole = several[matrices]
        fills = round(((wanted - ends) / blocks - inner) / matrices / 64) * 64
        if hidden <= fills <= 8 * hidden and "intermediate" not in sizes:
            why, wide = f"{why}; the feed-forward fills {size.value}", fills
        elif _is_near(size.value, str(whole), limit="ratio"):
            if not _is_near(size.value, str(whole)):
                _add_note(said, size.place, f"{size.value}: not used beside layers and widths")
            del said["sized"]
        else:
            _take_as_tokens(said, said.pop("sized"), whole)
            size = None
    said.setdefault("sized", Said(exact_text(int(whole)), place))
    model = {"extends": name, "layers": sizes["layers"], "hidden": hidden, "attention": attention}
    other = {} if bool(gated) == (matrices == 3) else {"gated": matrices == 3}
    mlp = {"intermediate": wide, **other}
    model |= {"mlp": mlp} | {k: v for k, v in sizes.items() if k == "vocab"}
    beside = f"{size.value} in " if size else ""
    model["name"] = f"{beside}{sizes['layers']} layers of {hidden} (shape: {name})"
    return Said(model, place, ASSUMED + why)


def _take_as_tokens(said: dict[str, Said], size: Said, parameters: float) -> None:
    """Take a size beside a model of another as the tokens, where it is that many times larger and
    no others are given.

    Raises:
        PlanError: it may be a second model.
    """
    many = float(units.parse(size.value, "parameters")) / (parameters or float("inf"))
    if "training.tokens" in said or many < _load_phrases()["limits"]["data"]:
        raise _ask_for("second", size.place, size.value)
    said["training.tokens"] = size._replace(why=f"{ASSUMED}{size.value} alone is the tokens")


def _choose_experts(size: Said, active: Said | None) -> Said:
    """Choose the built-in model with experts that is nearest to a size, in all parameters and in
    those that a token uses; with other layers and experts where it is not near.

    Raises:
        PlanError: all are much smaller or larger.
    """
    wanted, used = (units.parse(one.value, "parameters") if one else 0 for one in (size, active))
    factors = {
        name: (float(wanted / total), float(used / own if active else wanted / total))
        for name, (_, total, own, _) in _load_sizes().items()
        if own < total
    }
    limits = _load_phrases()["limits"]
    for name in sorted(factors, key=lambda one: sum(abs(log(factor)) for factor in factors[one])):
        whole, deep = factors[name]
        shown = [numbers.text(one, "parameters", "table") for one in _load_sizes()[name][1:3]]
        why = f"{ASSUMED}the built-in model with experts nearest to it: "
        why += f"{' with '.join(shown)} active"
        if all(1 / limits["ratio"] <= factor <= limits["ratio"] for factor in factors[name]):
            return Said(name, size.place, why)
        model = source.load({"extends": name}, kind="model").data
        experts = model.get("moe", {}).get("experts", 0) * whole / deep
        experts = 8 * round(experts / 8) or round(experts)  # which devices can share
        if isinstance(model.get("layers"), int) and experts >= model["moe"].get("top_k", 1):
            if max(deep, 1 / deep) > limits["scaled"]:
                break
            layers = max(1, round(model["layers"] * deep))
            why += f", with {layers} layers and {experts} experts"
            like = {"extends": name, "layers": layers, "moe": {"experts": experts}}
            return Said(like, size.place, why)
    shape = _choose_shape(active, {}) if active else None
    if shape is None or "parameters" in shape.value:
        raise _ask_for("experts", size.place)
    like = {**shape.value} if isinstance(shape.value, dict) else {"extends": shape.value}
    model = source.load(dict(like), kind="model").data
    wide = model["mlp"].get("intermediate", 4 * model["hidden"])
    inside = model["layers"] * model["hidden"] * wide
    experts = round(float(1 + (wanted - used) / (inside * (3 if model["mlp"].get("gated") else 2))))
    why = f"{shape.why}, its feed-forward {experts} times as experts, one for each token"
    like |= {"layers": model["layers"], "moe": {"experts": experts, "top_k": 1}}
    return Said(like, size.place, why)


def _divide_experts(shape: Said, size: Said, routed: Said, chosen: Said) -> Said:
    """Divide a model with experts into so many of them, none of which is shared, as wide as leaves
    it its size; the shape as it is where it has so many, has none or is smaller without them."""
    like = shape.value if isinstance(shape.value, dict) else {"extends": shape.value}
    model = source.load({"extends": like["extends"]}, kind="model").data
    own, (total, least) = model.get("moe"), map(float, _find_sizes(like["extends"]))
    if not own or total == least or not isinstance(model["layers"], int):
        return shape
    same = (own["experts"], own.get("top_k", 1)) == (routed.value, chosen.value)
    if same and like != shape.value:
        return shape
    scale = like.get("layers", model["layers"]) / model["layers"]
    each = (total - least) / (own["experts"] - own.get("top_k", 1))
    rest = total - (own["experts"] + own.get("shared_experts", 0)) * each
    wanted = float(units.parse(size.value, "parameters")) / scale - rest
    inside = own.get("intermediate") or model["mlp"]["intermediate"]
    wide = round(inside * wanted / routed.value / each / 64) * 64
    moe = {"experts": routed.value, "top_k": chosen.value, "intermediate": wide}
    moe |= {"shared_experts": 0} if own.get("shared_experts") else {}
    why = f"{shape.why}; {routed.value} experts of width {wide}, as the text has them"
    return Said({**like, "moe": moe}, size.place, why) if wide > 0 else shape


def _choose_device(said: dict[str, Said]) -> None:
    """Choose the accelerator that a name, a memory and a variant such as PCIe mean together.

    Raises:
        PlanError: there is none.
    """
    memory, variant, ram = (said.pop(key, None) for key in ("memory", "variant", "ram"))
    name, many = said.get("cluster.accelerator"), said.get("cluster.devices")
    kinds = source.preset_names("accelerator") if name else _load_phrases()["cards"].split()
    if name:
        kinds = [kind for kind in kinds if _name_family(kind) == _name_family(name.value)]

    def has_memory(kind: str, amount: Said, limit: str = "near") -> bool:
        own = source.load({"extends": kind}, kind="accelerator").get("memory")
        same = name and not name.why and kind == name.value and limit == "near"
        every = many.value if many and same else 1  # `4x3090, 96 GB` of all
        each = (plain_text(Fraction(amount.value) / count) for count in (1, every))
        return any(_is_near(own, f"{one} GB", "bytes", limit) for one in each)

    if ram and (memory or (name and not any(has_memory(kind, ram) for kind in kinds))):
        said["cluster.node_memory"] = ram._replace(value=f"{ram.value} GiB")
        ram = None
    memory = memory or ram
    if (about := memory or variant) and "cluster" not in said:
        fitting = [
            kind
            for kind in kinds
            if variant is None or variant.value in kind.split("-")
            if memory is None or has_memory(kind, memory)
        ]
        if name:
            fitting.sort(key=lambda one: "sxm" not in one)  # the usual form, where there is one
        if name and memory and not fitting and has_memory(name.value, memory, "memory"):
            said["own memory"], fitting = memory, [name.value]
        if not fitting or (variant and not name):
            raise _ask_for("memory" if memory else "variant", about.place, about.value)
        if name is None:
            why = f"{ASSUMED}a device of {about.value} GB"
            why += f", as are {', '.join(fitting[1:])}" if fitting[1:] else ""
            said["cluster.accelerator"] = Said(fitting[0], about.place, why)
        elif name.value not in fitting:
            said["cluster.accelerator"] = name._replace(value=fitting[0])
    elif name is None and "cluster.devices" in said and "cluster" not in said:
        _add_assumptions(said, "cluster.accelerator")
    kind = said.get("cluster.accelerator")
    stated = said.get("training.precision")
    if kind and (stated is None or stated.value == "bf16"):
        peaks = source.load({"extends": kind.value}, kind="accelerator").get("peaks")
        if "bf16" not in peaks:
            if said.pop("training.precision", None) and stated:
                _add_note(said, stated.place, "bf16: not used; the device has no bf16 rate")
            _add_assumptions(said, "training.precision")


def _name_family(accelerator: str) -> str:
    """Return the name of an accelerator up to its number, which its other forms share."""
    return re.match(r"\D*\d*[^-]*(-(pro|max|ultra)\b)?", accelerator)[0]  # type: ignore[index]


def _add_assumptions(said: dict[str, Said], *keys: str) -> None:
    """Add the usual value of each key that has none, that of the accelerator if it has its own."""
    usual, kind = _load_phrases()["assumptions"], said.get("cluster.accelerator")
    for key in keys:
        value, why = usual.get(f"{key} of {kind.value}" if kind else key) or usual[key]
        said.setdefault(key, Said(value, Place(TEXT), ASSUMED + why))


def _ask_for(about: str, place: Place | None = None, *values: Any) -> PlanError:
    """Make the error that asks for what is missing or unclear.

    Args:
        about: the question in phrases.yaml.
        place: where it arises; the text as a whole if None.
        *values: what fills its words.
    """
    message, allowed = (words.format(*values) for words in _load_phrases()["asks"][about])
    return PlanError(Fault(message, place or Place(TEXT), allowed))


def _count_holding(said: dict[str, Said], least: int = 8, taken: str = "bytes") -> int:
    """Count the devices that hold a model and what is ``taken`` for each of its parameters:
    ``least``, twice that and so on."""
    model, limits = said["model"].value, _load_phrases()["limits"]
    sizes = [said["sized"].value] if "sized" in said else [*_find_sizes(model)[:1]]
    if not sizes or any("lora" in key for key in said):
        return least
    device = source.load({"extends": said["cluster.accelerator"].value}, kind="accelerator")
    memory = units.parse(device.get("memory"), "bytes") * Fraction(str(limits["share"]))
    needed = units.parse(sizes[0], "parameters") * limits[taken] / memory
    return next(least << i for i in range(64) if least << i >= needed)


def _estimate_hours(said: Mapping[str, Said]) -> Fraction:
    """Estimate the device-hours of a run by 6 FLOPs a parameter and token at a usual utilisation;
    0 where parameters, tokens or the rate of the device are unknown."""
    size, run = _count_parameters(said), said.get("training.tokens")
    device = source.load({"extends": said["cluster.accelerator"].value}, kind="accelerator")
    peak = device.get("peaks.bf16.value")
    if size is None or run is None or peak is None:
        return Fraction(0)
    rate = units.parse(peak, "FLOP/s") * Fraction(str(_load_phrases()["limits"]["utilisation"]))
    return 6 * size * units.parse(str(run.value), "tokens") / rate / 3600


def _derive_devices(said: dict[str, Said]) -> bool:
    """Derive the number of devices from nodes and devices per node, or the reverse; return whether
    only their kind is said."""
    nodes, alone = said.pop("nodes", None), said.pop("alone", None)
    if (some := said.pop("some nodes", None)) and not nodes and "cluster.devices" not in said:
        nodes = Said(1, some.place, f"{ASSUMED}one node; nobody says how many")
    each, devices = said.get("cluster.devices_per_node"), said.get("cluster.devices")
    if nodes and devices and each and each.value == devices.value:  # 96 dgx-a100 (8 x 40 GB)
        devices = said.pop("cluster.devices")
    if nodes and devices and each is None:
        if devices.value % nodes.value or (devices.value <= 8 and nodes.value > 1):
            raise _ask_for("nodes", devices.place, nodes.value, devices.value)
        said["cluster.devices_per_node"] = Said(devices.value // nodes.value, nodes.place)
    elif nodes is not None:
        _add_assumptions(said, "cluster.devices_per_node")
        whole = nodes.value * said["cluster.devices_per_node"].value
        if said.setdefault("cluster.devices", Said(whole, nodes.place, nodes.why)).value != whole:
            raise _ask_for("number", nodes.place, "devices", whole)
    elif each or alone or "memory" in said:
        one = Said(_multiply_degrees(said), Place(TEXT), ASSUMED + "nobody says how many")
        said.setdefault("cluster.devices", each or one)
    return bool(some if alone is None else not alone.value)


def _multiply_degrees(said: Mapping[str, Said]) -> int:
    """Multiply the degrees that a text gives, which is the least number of devices."""
    keys = (f"parallelism.{key}" for key in DEGREES)
    return prod(max(1, int(said[key].value)) for key in keys if key in said)


def _find_few_tokens(said: Mapping[str, Said]) -> Said | None:
    """Find tokens that are too few for a run, as the length of a sequence; None for others."""
    tokens, limits = said.get("training.tokens"), _load_phrases()["limits"]
    found = re.fullmatch(r"(\d+)(k?)", str(tokens.value)) if tokens else None
    count = int(found[1]) * (1024 if found[2] else 1) if found else 0
    if not found or not tokens or not limits["length"] <= count <= limits["run"]:
        return None
    why = f"{ASSUMED}{found[0]} tokens are too few for a run"
    return tokens._replace(value=count, why=why)


def _convert_tokens(said: dict[str, Said], tuned: bool) -> None:
    """Convert steps and epochs to tokens, and a batch in tokens to sequences; runs that are
    ``tuned`` may be short.

    Args:
        said: values by key, which this changes.
        tuned: whether it is a fine-tuning, which may have few tokens.

    Raises:
        PlanError: numbers that contradict each other, or of which something is missing.
    """
    bare, pairs = (said.pop(key, None) for key in ("length alone", "pairs"))
    if pairs:
        said[EXAMPLES] = pairs._replace(value=(1 if _is_paired(said) else 2) * pairs.value)
    if bare and LENGTH in said:
        raise _ask_for("bare", bare.place, bare.value // 1024)
    if bare:
        said[LENGTH] = bare._replace(why=f"{ASSUMED}{bare.value // 1024}k alone is the length")
    of, length, packed = said.pop(EACH, None), said.get(LENGTH), said.pop("packed", None)
    if of and length is None:
        length = said[LENGTH] = of._replace(why=f"{ASSUMED}as long as an example")
    each = length.value if length else min(_find_longest(said) or USUAL_SEQUENCE, USUAL_SEQUENCE)
    if length and each < _load_phrases()["limits"]["length"]:
        raise _ask_for("length", length.place, each)
    if (batch := said.pop("batch", None)) is not None:
        number, many = batch.value
        whole = _expand_binary(number, many)
        limits = _load_phrases()["limits"]
        counted = many or whole >= limits["batch"]
        few = counted and whole < limits["tokens"]
        if (few and whole * each > limits["step"]) or (not counted and whole >= limits["tokens"]):
            raise _ask_for("batch", batch.place, exact_text(whole))
        counted = counted and not few
        why = f"{ASSUMED}{number}{many} sequences, as so many tokens are few" if few else ""
        said["batch_tokens" if counted else BATCH] = batch._replace(value=whole, why=why)
        if not counted and "training.gradient_accumulation" in said:
            why = f"{ASSUMED}a batch beside accumulation is that of each device"
            said["training.micro_batch"] = said.pop(BATCH)._replace(why=why)
    if step := said.pop("batch_tokens", None):
        if step.value < _load_phrases()["limits"]["tokens"] and not tuned:
            raise _ask_for("batch", step.place, exact_text(step.value))
        if step.value < each and (not length or length.why):
            each = min(each, step.value)
            said[LENGTH] = step._replace(value=each, why=f"{ASSUMED}the batch as one sequence")
        count, devices = max(1, round(step.value / each)), said.get("cluster.devices")
        rest = devices.value // gcd(devices.value, count) if devices else 0
        if devices and (count > devices.value or rest > _load_phrases()["limits"]["split"]):
            shares = (devices.value >> i for i in range(64) if devices.value % 2**i == 0)
            near = (max(1, round(count / share)) * share for share in shares)
            count = next((one for one in near if _is_near(str(one), str(count), "1")), count)
        why = f"{exact_text(step.value)} tokens in sequences of {exact_text(each)}"
        said[BATCH] = Said(count, step.place, why)
    if (steps := said.pop("steps", None)) is not None:
        _share_batch(said, tuned)
        if BATCH not in said and (run := said.get("training.tokens")):
            count = round(units.parse(str(run.value), "tokens") / steps.value / each)
            why = f"{ASSUMED}{run.value} tokens in {steps.value} steps"
            if 0 < count * each <= _load_phrases()["limits"]["step"]:
                said[BATCH], steps = Said(count, steps.place, why), None
        elif BATCH not in said and tuned:
            _assume_batch(said)
    if steps is not None:
        if BATCH not in said:
            usual, why = _load_phrases()["assumptions"]["batch_tokens"]
            said[BATCH] = Said(max(1, usual // each), Place(TEXT), ASSUMED + why)
        made = steps.value * (step.value if step else said[BATCH].value * each)
        why = f"{ASSUMED if said[BATCH].why.startswith(ASSUMED) else ''}{steps.value} steps"
        told = said.setdefault("training.tokens", Said(made, steps.place, why))
        if told.value != made:
            raise _ask_for("number", steps.place, "tokens", made)
    if of and of.value < each:
        said |= {EACH: of, **({"training.packed": packed} if packed else {})}
    if text := said.pop("text", None):
        size, why = _load_phrases()["assumptions"]["text"]
        one = text._replace(value=int(Fraction(text.value) / size), why=ASSUMED + why)
        said.setdefault("training.tokens", one)
    tokens = said.get("training.tokens")
    count = tokens and units.parse(str(tokens.value), "tokens")
    sure = tuned and length and not length.why
    if tokens and count < _load_phrases()["limits"]["run"] and not sure:
        raise _ask_for("run", tokens.place, tokens.value)
    if (times := said.pop("each", None)) is not None:
        size = _count_parameters(said)
        if size is None:
            raise _ask_for("each", times.place)
        why = f"{times.value} tokens a parameter"
        if tokens and not _is_near(str(tokens.value), str(size * times.value), "tokens"):
            raise _ask_for("number", times.place, "tokens", size * times.value)
        said.setdefault("training.tokens", Said(size * times.value, times.place, why))
    if tokens and (examples := said.pop(EXAMPLES, None)):
        _add_note(said, examples.place, f"{examples.value} examples: not used beside tokens")
    if EXAMPLES not in said and (epochs := said.pop(EPOCHS, None)) and epochs.value != 1:
        if (tokens := said.get("training.tokens")) is None:
            note = f"{epochs.value} epochs, of how many tokens is not said: not used"
            return _add_note(said, epochs.place, note)
        whole = int(units.parse(str(tokens.value), "tokens") * epochs.value)
        why = f"{epochs.value} epochs of {tokens.why.removeprefix(ASSUMED) or tokens.value}"
        why = ASSUMED + why if tokens.why.startswith(ASSUMED) else why
        said["training.tokens"] = Said(whole, tokens.place, why)


def _add_price(said: dict[str, Said], asked: Iterable[str]) -> None:
    """Convert a price of a node to that of a device; assume the first listed price if cost matters
    and no price is given.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text.

    Raises:
        PlanError: it may be the price of a device or of a node.
    """
    money = said.get("money")
    solved = {*asked} & {*ANSWERED, "tokens-by-deadline"}
    spent = (solved and "cost" not in asked) or "price" in said
    if money and not spent and Fraction(money.value) < _load_phrases()["limits"]["hourly"]:
        why = f"{ASSUMED}${money.value} alone is the price of a device for an hour"
        said["price"] = said.pop("money")._replace(why=why)
    price, whole = said.pop("price", None), said.pop("node price", None)
    cloud, each = said.pop("cloud", None), said.get("cluster.devices_per_node")
    kind = said.get("cluster.accelerator")
    extended = {"extends": kind.value} if kind else {}
    paid = said["cluster.purchase"].value if "cluster.purchase" in said else None
    device = source.load(extended, kind="accelerator").data if kind else {}
    term = said["cluster.term"].value if "cluster.term" in said else None
    listed = source.list_prices(device, paid, term)
    most = 2 * max((units.parse(one["price"], "USD/h") for one in listed), default=0)
    if price and Fraction(price.value) > (most or _load_phrases()["limits"]["price"]):
        many = said.get("cluster.devices")
        each = each or (many if many and 1 < many.value <= 8 else None)
        if each is None:
            raise _ask_for("node price", price.place, price.value)
        price, whole = None, price
    if whole:
        if each is None:
            _add_assumptions(said, "cluster.devices_per_node")
            each = said["cluster.devices_per_node"]
        amount = plain_text(round(Fraction(whole.value) / each.value, 4))
        why = f"${whole.value} for {each.value} devices"
        said["cluster.price"] = Said(f"{amount} USD/h", whole.place, why)
    elif price:
        said["cluster.price"] = Said(f"{price.value} USD/h", price.place, price.why)
    if "cluster.price" in said:  # which is what is paid, however it is called
        said.pop("cluster.purchase", None)
    if {"cluster", "cluster.price", "cluster.provider"} & said.keys():
        return
    if not ({"budget", "money", "cluster.purchase"} & said.keys() or "cost" in asked):
        return
    sold = [one for one in listed if cloud is None or cloud.value == one["provider"]]
    sold.sort(key=lambda one: paid == "spot" and "interruptions" not in one)
    if sold:
        why = ASSUMED + "nobody states a price; the first that is listed"
        key = "price" if "deadline" in said and "largest-model" in asked else "provider"
        said[f"cluster.{key}"] = Said(sold[0][key], Place(TEXT), why)
    elif "time" not in asked and (spent or {"budget", "money"} & said.keys()):
        place = cloud.place if cloud else Place(TEXT)
        raise _ask_for("price", place, cloud.value if cloud else said["cluster.accelerator"].value)
    else:
        unsold = f"{said['cluster.accelerator'].value}{f' at {cloud.value}' if cloud else ''}"
        note = f"no price of {unsold} is listed, so that no cost is computed; write one as $2.5/h"
        _add_note(said, Place(TEXT), note)


def _add_network(said: dict[str, Said], asked: Iterable[str]) -> None:
    """Convert the bandwidth of a network, of a device or of a node, to that of a device; assume one
    for several nodes of devices that come without, also where a question may take several."""
    of = said.pop("network of", None)
    if (rate := said.pop("network", None)) is None:
        device, count = said.get("cluster.accelerator"), said.get("cluster.devices")
        known = source.load({"extends": device.value}, kind="accelerator").data if device else {}
        each = said.get("cluster.devices_per_node")
        many = count.value if count else 0
        grown = many and {"fewest-devices", "cheapest"} & {*asked}
        several = (grown or many > (each.value if each else 8)) and "network" not in known
        slow = several and known["link"]["topology"] in ("host", "switch")
        if slow or (many > 4096 and several):
            _add_assumptions(said, "cluster.network.bandwidth")
        return
    kind, value = of.value if of else "card", units.parse(rate.value, "bytes/s")
    whole, limit = kind == "node", _load_phrases()["limits"].get(kind)
    if limit:  # nobody says whose
        whole = (value > units.parse(limit, "bytes/s")) != (kind == "ethernet")
        why = f"{ASSUMED}{rate.value} of each {'node' if whole else 'device'}; nobody says of which"
        rate = rate._replace(why=why)
    if whole:
        _add_assumptions(said, "cluster.devices_per_node")
        each = value / said["cluster.devices_per_node"].value * 8 / 10**9
        rate = rate._replace(value=f"{plain_text(each)} Gb/s")
    said["cluster.network.bandwidth"] = rate


def _is_paired(said: Mapping[str, Said]) -> bool:
    """Decide whether an objective compares pairs, of two sequences, which people count as one."""
    return "training.objective" in said and said["training.objective"].value in source.PAIRED


def _assume_batch(said: dict[str, Said]) -> None:
    """Assume the batch of a fine-tuning."""
    values = {"training.objective": "sft"} | {key: one.value for key, one in said.items()}
    batch, why = source.assume_batch(values.get, values.get("cluster.devices") or 1)
    said[BATCH] = Said(batch, Place(TEXT), ASSUMED + why)


def _share_batch(said: dict[str, Said], tuned: bool) -> None:
    """Convert a batch of each device and its accumulation to that of all devices, which are data
    parallel as far as the text does not split the model; a fine-tuning that accumulates a batch
    that is not given has one sequence at a time."""
    steps, micro, count = (
        said.get(key) for key in ("training.gradient_accumulation", COUNTS[1], "cluster.devices")
    )
    keys = [f"parallelism.{key}" for key in DEGREES[1:]]
    split, few = prod(said[key].value for key in keys if key in said), said.get(BATCH)
    alone = tuned or _find_data_alone(said)
    if few and alone and not micro and count and few.value * split < count.value:
        why = f"{ASSUMED}a batch below the number of devices is that of each"
        said[COUNTS[1]] = said.pop(BATCH)._replace(why=why)
    if not steps or not count or BATCH in said or not (micro or tuned):
        return
    if micro is None:
        one, why = _load_phrases()["assumptions"]["accumulated"]
        micro = said[COUNTS[1]] = Said(one, steps.place, ASSUMED + why)
    why, data = f"{ASSUMED}the text says the batch of a device", said.get("parallelism.data")
    if "ring" in said and not data:
        why = f"{ASSUMED}context parallelism over all devices"
        said.setdefault(keys[2], Said(count.value // max(1, split), steps.place, why))
    if not data:
        split = prod(said.setdefault(key, Said(1, steps.place, why)).value for key in keys)
    copies = data.value if data else Fraction(count.value, max(1, split))
    if copies.denominator == 1:
        whole = micro.value * steps.value * copies.numerator
        why = f"{micro.value} sequences, {steps.value} times, {copies} data parallel"
        said[BATCH] = said.pop("training.gradient_accumulation")._replace(value=whole, why=why)


def _convert_rate(said: dict[str, Said], adapted: bool, asked: Iterable[str]) -> None:
    """Convert a measured rate, in FLOP or tokens, to a share of the devices' peak; so the device
    hours of a run whose share is asked for.

    Raises:
        PlanError: it is not known of which model or devices.
    """
    if "mfu" in asked and {"hours", "training.tokens"} <= said.keys():
        hours, whole = said.pop("hours"), said["training.tokens"].value
        seconds = Fraction(hours.value) * 3600
        each = round(units.parse(str(whole), "tokens") / seconds, 1)
        said["token rate"] = said["rate of"] = hours._replace(value=plain_text(each))
        said["time.use"] = hours._replace(value="assumed")
    flop, tokens, of = (said.pop(key, None) for key in ("flop rate", "token rate", "rate of"))
    if (rate := flop or tokens) is None:
        return
    kind, count = said.get("cluster.accelerator"), said.get("cluster.devices")
    size = _count_parameters(said)
    if kind is None or count is None or (tokens and (adapted or size is None)):
        raise _ask_for("rate", rate.place, rate.value)
    if tokens:
        usual, why = _load_phrases()["assumptions"]["rated length"]
        length = min(_find_longest(said) or usual, usual)
        said.setdefault(LENGTH, Said(length, Place(TEXT), ASSUMED + why))
    peaks = source.load({"extends": kind.value}, kind="accelerator").get("peaks")
    precision = said["training.precision"].value if "training.precision" in said else "bf16"
    peak = next(peaks[one] for one in (precision, "bf16", "fp16") if one in peaks)
    whole = units.parse(peak["value"], "FLOP/s") / (2 if peak["convention"] == "sparse" else 1)
    each = Fraction(rate.value) * (10**12 if flop else _count_flop(said, size or 0))
    least = _load_phrases()["limits"]["least mfu"]
    total = tokens and not of and each / count.value / whole >= least
    each /= count.value if total else 1
    shown = f"{rate.value} {'TFLOP/s' if flop else 'tokens/s, attention counted,'}"
    shown += " of each device" if tokens and not of and not total else ""
    why = f"{ASSUMED}{shown} of a peak of {plain_text(whole / 10**12)} TFLOP/s"
    said["time.mfu"] = rate._replace(value=f"{plain_text(round(each / whole * 100, 1))}%", why=why)


def _count_flop(said: Mapping[str, Said], parameters: int) -> int:
    """Count the FLOP of training on a token: 6 a parameter and 12 a layer for each of the length
    and of the width of its attention (arXiv 2204.02311, appendix B)."""
    model = said["model"].value
    known = source.load({"extends": model} if isinstance(model, str) else dict(model), kind="model")
    layers, wide = known.get("layers"), known.get("hidden")
    length = said[LENGTH].value
    return 6 * parameters + (12 * layers * wide * length if isinstance(layers, int) else 0)


def _find_data_alone(said: Mapping[str, Said]) -> Said | None:
    """Find what says that the data alone is split, not the model: FSDP, ZeRO-3, DDP."""
    found, launcher = said.get("data alone") or said.get("parallelism.zero"), said.get("launcher")
    least = 2 if launcher and launcher.value == "deepspeed" else 3
    return found if found and (found.value is True or found.value >= least) else None


def _replicate_whole(said: dict[str, Said]) -> None:
    """Keep layers whole where only the data is said to be split; convert what a text says of
    failures and links."""
    if alone := _find_data_alone(said):
        why = f"{ASSUMED}the text splits the data over all devices"
        for key in DEGREES[1 : -1 if "ring" in said else None]:
            said.setdefault(f"parallelism.{key}", Said(1, alone.place, why))
    said.pop("data alone", None)
    said.pop("ring", None)
    if period := said.pop("failures", None):
        if "cluster.devices" not in said:
            raise _ask_for("devices")
        seen = {"count": 1, "devices": said["cluster.devices"].value, "period": period.value}
        said["cluster.failures"] = period._replace(value=seen)
    bare, memory = said.pop("no link", None), said.pop("own memory", None)
    if (kind := said.get("cluster.accelerator")) and (bare or memory):
        known = source.load({"extends": kind.value}, kind="accelerator")
        changed, why = {"extends": kind.value}, kind.why and f"; {kind.why.removeprefix(ASSUMED)}"
        if bare and (link := known.get("host_link")):
            changed |= {"link": {**link, "topology": "host"}}
            why += f"; devices of a node exchange over {link['name']}"
        if memory:
            own, size = known.get("memory"), f"{memory.value} GB"
            share = units.parse(known.get("memory_usable") or own, "MiB") / units.parse(own, "MiB")
            usable = round(share * units.parse(size, "MiB"))
            changed |= {"memory": size, "memory_usable": f"{usable} MiB"}
            why += f"; {kind.value} with {memory.value} GB in place of its own"
        if why:
            said["cluster.accelerator"] = kind._replace(value=changed, why=f"{ASSUMED}{why[2:]}")


def _add_questions(said: dict[str, Said], asked: list[str], sized: bool, trained: bool) -> None:
    """Collect the questions and requirements of a plan from what is asked, deadline and budget.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text.
        sized: whether they ask for a size of model.
        trained: whether all weights are trained from their start, so that a number of tokens may
            be assumed.

    Raises:
        PlanError: a question lacks a limit or tokens.
    """
    if (money := said.pop("money", None)) is not None:
        paid = "cluster.price" in said or "tokens-by-deadline" in asked
        if Fraction(money.value) < _load_phrases()["limits"]["budget"] and not paid:
            raise _ask_for("money", money.place, money.value)
        said.setdefault("budget", money)
    if "cheapest" in asked and "deadline" not in said:
        _add_assumptions(said, "deadline")
    deadline, budget, hours, start = (
        said.pop(key, None) for key in ("deadline", "budget", "hours", "start")
    )
    if start and deadline and deadline.why.endswith("from today"):
        left = units.parse(deadline.value, "s") - units.parse(start.value, "s")
        if left > 0:
            why = deadline.why.replace("from today", f"{start.value} after today")
            deadline = deadline._replace(value=f"{left // 86400} days", why=why)
    elif start:
        _add_note(said, start.place, "the day of the start: not used")
    if hours and (many := said.get("cluster.devices")) and not many.why:
        each = numbers.text(float(Fraction(hours.value) / many.value), "h", "table")
        whole = exact_text(Fraction(hours.value))
        note = f"{whole} GPU hours on {exact_text(many.value)} devices are {each} h"
        _add_note(said, hours.place, note)
    limits: dict[str, Any] = {"deadline": deadline.value} if deadline else {}
    until = [f"cost.total <= {budget.value} USD"] if budget else []
    until += [f"time.device_hours <= {hours.value} h"] if hours else []
    limits |= {"until": until} if until else {}
    tokens = bool({"training.tokens", EXAMPLES} & said.keys())
    if sized and not tokens and (limits or "compute-optimal" in asked):
        usual = Said(_load_phrases()["assumptions"]["deadline"][0], Place(TEXT))
        if budget and not hours and {"cluster.price", "cluster.devices"} <= said.keys():
            deadline = deadline if _buy_devices(said, budget, deadline or usual) else None
        elif len([*filter(None, (deadline, budget, hours))]) != 1:
            raise _ask_for("each")
        spent = deadline.value if deadline else f"{budget.value} USD" if budget else ""
        if hours:
            count = said["cluster.devices"].value if "cluster.devices" in said else 1
            spent = f"{plain_text(Fraction(hours.value) / count)} h"
        said["questions"] = Said([{"compute-optimal": spent}], Place(TEXT))
        return
    names = [one for one in asked if one in ANSWERED]
    depends = {"time", "cost", "hours", "energy", "carbon"} & {*asked} or (names and limits)
    if depends and not tokens and "tokens-by-deadline" not in asked:
        many, why = _load_phrases()["assumptions"]["training.tokens" if trained else "tuned tokens"]
        if trained and (count := _count_parameters(said)) is None:
            raise _ask_for("tokens", None, names[0] if names else asked[0])
        many = many * count if trained else many
        said["training.tokens"] = Said(many, Place(TEXT), ASSUMED + why)
        tokens = True
    questions: list[Any] = []
    for name in names:
        if name == "largest-model" and deadline:
            name = "largest-model-by-deadline"
        kept = _keep_devices(said) if name == "cheapest" else {}
        questions.append({name: limits | kept} if limits or kept else name)
    if "tokens-by-deadline" in asked or (not tokens and not questions and limits):
        if not limits:
            raise _ask_for("limit")
        said.pop(EPOCHS if EXAMPLES in said else "training.tokens", None)
        limits["set"] = {"training.tokens": "1T"}  # where it starts
        questions.append({"tokens-by-deadline": limits})
    if questions:
        said["questions"] = Said(questions, Place(TEXT), deadline.why if deadline else "")
    elif (first := deadline or budget or hours) is not None:
        days = [f"time.training_days <= {deadline.value}"] if deadline else []
        said["require"] = Said([*days, *until], first.place, first.why)


def _keep_devices(said: dict[str, Said]) -> dict[str, str]:
    """Return the accelerators among which the cheapest is asked for, where a text names one; note a
    number of devices, which the answer changes."""
    kind, many = said.get("cluster.accelerator"), said.get("cluster.devices")
    if many and not many.why:
        _add_note(said, many.place, f"{many.value} devices: not kept; the cheapest number is found")
    named = kind and not kind.why and isinstance(kind.value, str)
    return {"accelerators": kind.value} if kind and named else {}


def _buy_devices(said: dict[str, Said], budget: Said, deadline: Said) -> bool:
    """Assume the devices that a budget pays for until a deadline, in whole nodes, where nobody says
    how many; return whether the budget lasts until then."""
    devices, price = said["cluster.devices"], said["cluster.price"]
    cost = units.parse(price.value, "USD/h") * units.parse(deadline.value, "h")
    many = int(Fraction(budget.value) / cost)
    if devices.why and many:
        why = f"{ASSUMED}so many {budget.value} USD pay for in {deadline.value}"
        said["cluster.devices"] = devices._replace(value=many - many % 8 or many, why=why)
    return bool(many >= devices.value)


def _find_longest(said: Mapping[str, Said]) -> int | None:
    """Return the longest sequence of a built-in model, None for a model given by its size."""
    model = said["model"].value
    name = model.get("extends") if isinstance(model, dict) else model
    known = source.load({"extends": name}, kind="model").data if name else {}
    longest: int | None = known.get("max_sequence")
    return longest


def _build_document(text: str, said: dict[str, Said]) -> Node:
    """Build the document from parsed values; what they do not fix of the layout is searched.

    Args:
        text: the line, which becomes the name of the plan.
        said: values by dotted key, which this changes.

    Returns:
        The document, its sections in the order of phrases.yaml.
    """
    start = Place(TEXT)
    title = from_data(one_line(" ".join(text.split()))[:NAME], start, STATED)
    tree: dict[str, Any] = {"name": title, "cluster": {}, "training": {}}
    launcher, data = said.pop("launcher", None), said.get("parallelism.data")
    launcher = None if "training.stack" in said else launcher
    if data and "cluster.devices" in said:
        degrees = [f"parallelism.{key}" for key in DEGREES[1:]]
        count = prod(said[key].value for key in ("parallelism.data", *degrees) if key in said)
        rest = Fraction(said["cluster.devices"].value, count)
        if "parallelism.tensor" not in said and 1 < rest <= 8 and rest.denominator == 1:
            why = f"{ASSUMED}what data {data.value} leaves of the devices"
            said["parallelism.tensor"] = Said(int(rest), data.place, why)
            count *= int(rest)
        if count == said["cluster.devices"].value:  # the search makes it of these
            del said["parallelism.data"]
            said = {**{key: Said(1, data.place, "what data leaves") for key in degrees}, **said}
    parts = [said.get(f"parallelism.{key}") for key in ("expert", "tensor")]
    if (count := said.get("cluster.devices")) and all(parts):
        stages = said["parallelism.pipeline"].value if "parallelism.pipeline" in said else 1
        if count.value % (max(1, stages * prod(one.value for one in parts if one))):
            why = f"{ASSUMED}the devices of a stage are too few to split each expert too"
            said.setdefault("parallelism.expert_tensor", Said(1, start, why))
    follow = {"parallelism.data", "training.gradient_accumulation"} & said.keys()
    sized = isinstance(said["model"].value, dict) and "parameters" in said["model"].value
    if not sized and not follow and "rl.algorithm" not in said:
        said |= {"parallelism.for": launcher} if launcher else {}
        alone = not any(key.startswith("parallelism.") for key in said)
        opened = ("parallelism", "auto") if alone else ("parallelism.auto", True)
        said = {opened[0]: Said(opened[1], start), **said}
    if launcher is not None:
        said["training.stack"] = launcher
    kind = said.get("cluster.accelerator")
    sizes = _load_phrases()["unsized"].get(str(kind.value)) if kind and not kind.why else None
    if kind and sizes and not re.search(rf"(?<!\d){sizes[0]}(?!\d)", text):
        why = f"{ASSUMED}nobody says which size; also made with {sizes[1]} GB"
        said["cluster.accelerator"] = kind._replace(why=why)
    if "cluster" in said and any(key.startswith("cluster.") for key in said):
        said["cluster.extends"] = said.pop("cluster")
    for key, (value, place, why) in said.items():
        node = from_data(value, place, Origin("argument", why) if why else STATED)
        *sections, last = key.split(".")
        reduce(lambda held, section: held.setdefault(section, {}), sections, tree)[last] = node

    def whole(held: Any) -> Node:
        if isinstance(held, Node):
            return held
        return Node({key: whole(one) for key, one in held.items()}, start, STATED)

    order = _load_phrases()["order"].split()
    assert tree.keys() <= {*order}, tree.keys()
    return whole({key: tree[key] for key in order if key in tree})


@lru_cache(maxsize=4)
def _list_splits(text: str) -> tuple[list[Piece], ...]:
    """List the splits of a text into pieces that cost least, a few at most."""
    options: dict[int, list[Piece]] = {}
    reached = [0]
    for at in reached:  # grows
        if at < len(text) and at not in options:
            options[at] = _list_pieces(text, at)
            reached += [piece.end for piece in options[at]]
    costs: dict[int, Cost] = {len(text): (0, 0, 0)}
    best: dict[int, list[Piece]] = {}
    for at in sorted(options, reverse=True):
        sums = [tuple(map(sum, zip(one.cost, costs[one.end], strict=True))) for one in options[at]]
        costs[at] = min(sums)
        pairs = zip(options[at], sums, strict=True)
        best[at] = [piece for piece, cost in pairs if cost == costs[at]]
    begun: list[list[Piece]] = [[]]
    splits: list[list[Piece]] = []
    while begun and len(splits) < MOST_SPLITS:
        pieces = begun.pop()
        while (at := pieces[-1].end if pieces else 0) < len(text):
            begun += [[*pieces, other] for other in reversed(best[at][1:])]
            pieces.append(best[at][0])
        splits.append(_join_unknown(text, pieces))
    return tuple(splits)


def _join_unknown(text: str, pieces: Iterable[Piece]) -> list[Piece]:
    """Join pieces in a row that are not understood, and drop what is between pieces."""
    joined: list[Piece] = []
    for piece in pieces:
        before = joined[-1] if joined and joined[-1].values is None else None
        if before and piece.values is None and not text[before.end : piece.begin].strip(" \t-"):
            joined[-1] = before._replace(end=piece.end)
            continue
        if piece.values is None or piece.values:
            joined.append(piece)
    return joined


def _list_pieces(text: str, at: int) -> list[Piece]:
    """List what may begin at a position, one piece for each end: phrases first, then words without
    effect, then a word that is not understood."""
    if found := _SEPARATOR.match(text, at) or _GLUE.match(text, at):
        glued = 0 if text[found.end() - 1].isspace() or at == 0 else 1
        return [Piece(at, found.end(), {}, (0, 0, glued if found[0] in "-_/@" else 0))]
    pieces = [
        Piece(at, end, values, (int("unused" in values), 0, 2 if "alone" in values else 1))
        for end, values in (*_match_phrases(text, at), *_match_pair(text, at))
    ]
    pieces.sort(key=lambda one: one.cost[0])  # what is not used is the last choice
    found = _WORD.match(text, at)
    assert found is not None
    word = found[0].lower().rstrip(".'’:").replace("’", "'")
    word = re.sub(r"'(?:s|d|m|ll|re|ve)$", "", word)
    if _is_listed(word, "fillers") or _is_listed(word.removesuffix("s"), "fillers"):
        pieces.append(Piece(at, found.end(), {}, (0, 1, 1)))
    elif _is_harmless(word):
        pieces.append(Piece(at, found.end(), {"ignored": True}, (0, 1, 1)))
    glue, assigned = _GLUE.search(text, at, found.end()), _ASSIGNED.match(text, at)
    ends = [glue.start(), found.end()] if glue else [found.end()]
    if glue and glue[0] == "_" and _is_harmless(text[at : glue.start()].lower()):
        pieces.append(Piece(at, glue.start(), {"ignored": True}, (0, 1, 1)))
    valued = assigned and re.search(r"[=\d]", assigned[0])
    if assigned and valued and _is_harmless(re.split(r"\W", assigned[0].lstrip("-"))[0].lower()):
        pieces.append(Piece(at, assigned.end(), {"ignored": True}, (1, 1, 1)))
    elif assigned:
        pieces.append(Piece(at, assigned.end(), None, (assigned.end() - at - 1, 0, 1)))
    keys = (one for one in _ASSIGNED.finditer(text) if "_" in one[0])
    key = next((one[0] for one in keys if one.start() <= at < one.end()), "")
    pieces += [Piece(at, end, None, (max(end - at, len(key)), 0, 1)) for end in ends]
    return list({piece.end: piece for piece in reversed(pieces)}.values())[::-1]


def _is_harmless(word: str) -> bool:
    """Return whether a word is listed as one that changes no answer, in this form or another."""
    if word in _list_harmless():
        return True
    for ending in ("s", "es", "ed", "d", "ing", "ly"):
        stem = word.removesuffix(ending)
        short = stem[:-1] if stem[-1:] == stem[-2:-1] else stem  # planning, plan
        if stem != word and len(stem) > 2 and {stem, f"{stem}e", short} & _list_harmless():
            return True
    return False


@cache
def _list_harmless() -> frozenset[str]:
    """List the words that change no answer."""
    words = (*_load_phrases()["ignored"].split(), *_load_phrases()["fillers"].split())
    return aliases.list_publishers().union(words)


@cache
def _load_phrases() -> Any:
    """Load the table of phrases."""
    return resources.load_preset("aliases/phrases")


def _is_listed(word: str, kind: str) -> bool:
    """Decide whether a word is in a list of phrases.yaml, whatever its case and separators."""
    return aliases.to_letters(word) in _load_phrases()[kind].split()


def _suggest_words(words: str) -> str | None:
    """Suggest what words may mean: uses of a number, the models of a family, the nearest name."""
    if re.fullmatch(rf"{_NUMBER}\s?[kKmMbBtT]?", words):
        return f"{words} h100, batch {words}, sequence {words}, tp {words}, {words} tokens"
    if re.fullmatch(r"\d+,\d+[kKmMbBtT]?", words):
        return words.replace(",", ".")
    plain = [aliases.to_letters(word) for word in words.split() if len(word) > 2]
    of = [name for name in source.preset_names("model") if name.startswith(tuple(plain))]
    close = (nearest(word, _collect_words()) for word in (words, *words.split()) if len(word) > 3)
    return " or ".join(of[:4]) if of else next(filter(None, close), None)


@cache
def _collect_words() -> list[str]:
    """Collect the names, keys and technical words that a suggestion may be."""
    kinds = ("model", "accelerator")
    pool = [name for kind in kinds for name in source.preset_names(kind)]
    pool += [word for kind in kinds for _, also in aliases.iter_aliases(kind) for word in also]
    pool += _load_phrases()["spelled families"].split()
    return [*pool, *_index_keys(), *aliases.on_the_hub(), *_load_phrases()["spelled"].split()]


@cache
def _collect_letters() -> frozenset[str]:
    """Collect the words of phrases, names and keys, which are spelled right."""
    texts = [str(row["say"]) for row in _load_phrases()["phrases"]]
    texts += [*_load_phrases()["refused"], *_load_phrases()["fillers"].split(), *_collect_words()]
    for name, names in _map_names().items():
        texts += [name, *names, *names.values()]
    return frozenset(word.lower() for text in texts for word in re.findall("[A-Za-z]{4,}", text))


@cache
def _index_keys() -> Mapping[str, str]:
    """Map keys that may be given with a value, by their letters without the section."""
    every = (key for key in reversed([*schema.list_key_paths("plan")]) if key.startswith(SECTIONS))
    types = {key: (schema.describe("plan", key) or {}).get("type") for key in every if "." in key}
    known = [key for key, kind in types.items() if kind != "object"]
    flat = {aliases.to_letters(key.partition(".")[2]): key for key in known if key.count(".") == 1}
    deep = {aliases.to_letters("".join(key.split(".")[1:])): key for key in known}
    return {**deep, **{aliases.to_letters(key.replace(".", "")): key for key in known}, **flat}


def _match_key(letters: str) -> str | None:
    """Match letters to a key of a plan, by its own name or another program's; None if there is
    none."""
    return _index_keys().get(letters.replace(".", "")) or aliases.find_key(letters)


def _parse_integer(text: str) -> int | str:
    """Convert text such as `1,024` to an int; text that is no integer only loses its commas."""
    digits = text.replace(",", "")
    return int(digits) if digits.isdigit() else digits


@lru_cache(maxsize=4)
def _list_patterns(text: str) -> list[tuple[re.Pattern[str], list[str], Any, str]]:
    """List what a text may match, phrases before those that are refused: a pattern, the kinds of
    its slots, its values, and the text with its names marked."""
    rows = [(str(row["say"]), row["set"]) for row in _load_phrases()["phrases"]]
    rows += [(str(say), {"fault": fault}) for say, fault in _load_phrases()["refused"].items()]
    low, marked = text.lower(), {kind: _mark_names(text, kind) for kind in _map_names()}
    found = []
    for say, says in rows:
        kind = next((one for one in marked if f"{{{one}}}" in say), "")
        needed = _list_needed(say)
        if (not needed or any(word in low for word in needed)) and marked.get(kind) != text:
            found.append((*_compile_phrase(say), says, marked.get(kind, text)))
    return found


@cache
def _list_needed(say: str) -> tuple[str, ...]:
    """List texts of which each match of a phrase has one; empty if it may have none."""
    plain = _insert_parts(f"({say})").lower()
    plain = re.sub(r"\\.|\[[^]]*\]|\?p<word>|\?-i:|\?:|\{[\w,]+\}|[a-z\d]\?", " ", plain)
    while found := re.search(r"\(([^()]*)\)([?*]?)", plain):
        each = [re.findall(r"[a-z\d]{2,}", one) for one in found[1].split("|")]
        each = each if all(each) and not found[2] and found[1][0] != "?" else []
        inner = " ".join(word for words in each for word in words)
        plain = f"{plain[: found.start()]} {inner} {plain[found.end() :]}"
    return tuple(plain.split())


def _mark_names(text: str, kind: str) -> str:
    """Replace each character of the names of a kind by a mark, which one pattern matches for all
    names; of several that begin at a place the longest."""
    names, marked = _map_names()[kind], text
    held = [(at, letter) for at, letter in enumerate(text.lower()) if letter not in "-_ "]
    longest, letters, after = max(map(len, names)), "".join(letter for _, letter in held), 0
    for i, (at, _) in enumerate(held):
        if at < after or not _NAME_BEGIN.match(text, at):
            continue
        for count in range(min(longest, len(held) - i), 0, -1):
            end = held[i + count - 1][0] + 1
            ends = _NAME_END.match(text, end) or (kind == "family" and _SIZED.match(text, end))
            if (name := letters[i : i + count]) in names and ends:
                mark = BARE if name.isdigit() else MARK
                marked, after = f"{marked[:at]}{mark * (end - at)}{marked[end:]}", end
                break
    return marked


@cache
def _compile_phrase(say: str) -> tuple[re.Pattern[str], list[str]]:
    """Compile a phrase to a regular expression; return it and the kinds of its slots in order."""
    slots: list[str] = []

    def slot(found: re.Match[str]) -> str:
        name, pattern = _load_phrases()["slots"][found[1]]
        slots.append(name)
        return f"(?P<s{len(slots) - 1}>{pattern or f'(?:{MARK}|{BARE})+'})"

    pattern = _insert_parts(re.sub(r"\{([a-z]+)\}", slot, say.replace(" ", r"[\s_=:-]*")))
    return re.compile(rf"(?:{pattern}){_END}", re.I | re.ASCII), slots


def _insert_parts(pattern: str) -> str:
    """Put the pattern of each part into a phrase where it is named."""
    for name, part in reversed(_load_phrases()["parts"].items()):  # later ones hold earlier ones
        pattern = pattern.replace(f"<{name}>", part)
    return pattern


def _match_phrases(text: str, at: int) -> Iterator[Understood]:
    """Match the phrases of the table at a position, also without their last word.

    Args:
        text: the line.
        at: the position.

    Yields:
        Where each match ends, and its values.
    """
    for pattern, slots, says, marked in _list_patterns(text):
        found = pattern.match(marked, at)
        if found is None or found.end() == at:
            continue
        yield from _fill_phrase(text, found, slots, says)
        last = re.search(r"\s+\S+$", text[at : found.end()])
        if last and (less := pattern.match(marked, at, at + last.start())):
            yield from _fill_phrase(text, less, slots, says)


def _fill_phrase(
    text: str, found: re.Match[str], slots: list[str], says: Any
) -> Iterator[Understood]:
    """Fill the slots of a phrase.

    Args:
        text: the line.
        found: the match of its expression.
        slots: the kinds of its slots.
        says: its values; a slot's name in braces is replaced.

    Yields:
        Where the phrase ends and its values; nothing where a slot has no value.
    """
    groups = {name: text[slice(*found.span(name))] for name in found.re.groupindex}
    words = {name: groups[f"s{i}"] for i, name in enumerate(slots) if groups[f"s{i}"]}
    values = {name: _parse_slot(name, one) for name, one in words.items()}
    if None in values.values():
        return
    if name := values.get("instance"):
        node = resources.load_preset(f"clusters/{name}")
        values |= {"each": node["devices_per_node"], "of": node["accelerator"]}
        values["net"] = node.get("network", {}).get("bandwidth")
    values |= {"all": text[slice(*found.span())].lower(), "word": groups.get("word", "").lower()}
    with suppress(KeyError):  # a slot of another alternative
        filled = {
            key: values.get(one[1:-1], one.format(**values)) if isinstance(one, str) else one
            for key, one in says.items()
            if one != "{net}" or values["net"]
        }
        filled |= {key: one * values["count"] for key, one in says.get("times", {}).items()}
        why = {key: text.format(**values) for key, text in says.get("why", {}).items()}
        for cloud, begins in _load_phrases()["clouds"].items() if name else ():
            if re.match(begins, str(name)):
                filled["cloud"], why["cloud"] = cloud, f"who rents {name} out"
        if any(sign in words.get("money", "").lower() for sign in _load_phrases()["rates"]):
            dollars = numbers.text(Fraction(values["money"]), "USD")
            filled["notes"] = _load_phrases()["rated"].format(words["money"], dollars)
        if aliases.to_letters(words.get("device", "")) in _map_names()["absent"]:
            why["cluster.accelerator"] = f"{words['device']} is not built in; the nearest that is"
        yield found.end(), {**filled, "why": why} if why else filled


def _parse_slot(name: str, text: str) -> Any:
    """Parse the text of a slot to its value; None where it has none.

    Args:
        name: the kind of the slot, such as tokens, time or batch.
        text: what it matched.

    Returns:
        An int, a text with its unit, a name, or for a batch its number and suffix.
    """
    said = text = text.lower().replace(",", "").strip()
    text = re.sub(_insert_parts("<coin>"), "", text).strip(" -")
    if name in _map_names():
        meant = _map_names()[name].get(aliases.to_letters(text))
        return int(meant) if meant and name == "collection" else meant
    if name in ("date", "span"):
        *first, last = map(_count_days, re.findall(_insert_parts("<date>"), text))
        days = last - sum(first)
        return f"{days + 365 * (days < 0)} days" if last and all(first) else None
    if not re.search(r"\d", text):
        numbers_of, words = _load_phrases()["words"], re.findall("[a-z]+", text)
        total = 0
        for part in (numbers_of[word] for word in words if word in numbers_of):
            total += part if part < 100 else max(1, total % 1000) * part - total % 1000
        unit = "" if words[-1] in {*numbers_of, "single", "an", "a", "of"} else words[-1]
        text = f"{total or 1} {unit}"
    if name == "time":
        return " ".join(re.fullmatch(r"(.+?)[\s-]*([a-z]+)", text).groups())  # type: ignore[union-attr]
    if name == "percent":
        return text if Fraction(text) <= 1 else f"{text}%"
    if name == "power":
        front, power = re.fullmatch(r"(?:(.+?)\s*[x×*·]\s*)?10\s*\D+(\d+)", text).groups()  # type: ignore[union-attr]
        return f"{front or 1}e{power}"
    if name == "half":
        return int(text) // 2 or None
    number, many = re.fullmatch(r"([\d.]*(?:e\d+)?)[\s-]*(.?).*", text).groups()  # type: ignore[union-attr]
    if name == "size" and not Fraction(number):
        return None
    if name in ("tokens", "size"):
        suffix = many.upper().replace("K", "k")
        whole = f"{number}{suffix}" if "e" not in number else str(int(Fraction(number)))
        return _parse_integer(whole)
    if name == "batch":
        return Fraction(number), many
    if name in ("binary", "length"):
        return _expand_binary(Fraction(number), many)
    value = Fraction(number) * 1000 ** (" kmbt".index(many) if many else 0)
    rates = _load_phrases()["rates"].items()
    value *= next((Fraction(str(rate)) for sign, rate in rates if sign in f"{name} {said}"), 1)
    if name in ("money", "daily"):
        return plain_text(value)
    return round(value) if value.denominator == 1 else None


def _expand_binary(number: Fraction, many: str) -> int:
    """Expand tokens of a batch: k is 1024, where 131k is 131,072; M is 2^20 after a power of two
    (4M, 0.5M)."""
    parts = int(number * 64)
    even = number * 64 == parts and parts & (parts - 1) == 0
    step = 1000 if many == "m" and not even else 1024
    value = number * step ** (" kmbt".index(many) if many else 0)
    count = int(value) * 1000 // step if many == "k" else 0
    power = 1 << (count - 1).bit_length() if count else 0
    return power if count and 0 <= power - count <= count / 100 else round(value)


def _count_days(text: str) -> int:
    """Count the days from today to a date, the next one if it has no year; 0 if it is none."""
    today, days = date.today(), _load_phrases()["days"]
    text = next((day for name, day in days.items() if name in text), text)
    text = re.sub(r"(?<=\d)(st|nd|rd|th)|\b(the|of)\b|,", "", text)
    year = re.search(r"20\d\d", text)
    for several, form in product((0, 1), _load_phrases()["date formats"]):
        dated = text if year else f"{text} {today.year + several}"
        with suppress(ValueError):
            until = datetime.strptime(" ".join(dated.split()), form).date()
            if until > today:
                return (until - today).days
    return 0


@cache
def _map_names() -> Mapping[str, Mapping[str, str]]:
    """Map the names that slots match, by letters, to presets; others to the nearest preset."""
    kinds = {"device": "accelerator", "cluster": "cluster", "model": "model"}
    known = {slot: tuple(source.preset_names(kind)) for slot, kind in kinds.items()}
    ship = {slot: aliases.map_presets(kinds[slot], names) for slot, names in known.items()}
    rows = [(other, name) for name, others in aliases.iter_aliases("cluster") for other in others]
    nodes = {aliases.to_letters(other): name for other, name in rows}
    whole = {other: name for other, name in ship["cluster"].items() if other not in nodes}
    absent = {aliases.to_letters(str(n)): v for n, v in _load_phrases()["absent"].items()}
    families = {aliases.to_letters(name): name for name in _list_families()}
    device = {"device": {**absent, **ship["device"]}, "absent": absent}
    for slot, table in (("dataset", "data sets"), ("collection", "collections")):
        ship[slot] = {aliases.to_letters(k): str(n) for k, n in _load_phrases()[table].items()}
    return {**ship, **device, "cluster": whole, "instance": nodes, "family": families}


def _match_pair(text: str, at: int) -> Iterator[Understood]:
    """Match a key of a plan, or another program's word, with its value: `tp8`, `optimizer=muon`.

    Args:
        text: the line.
        at: the position.

    Yields:
        Where the value ends, and the value by key; at most one pair, that with the longest key.
    """
    found = _KEY.match(text, at)
    ends = [part.end() for part in re.finditer("[A-Za-z]+", found[0])] if found else []
    for end in reversed(ends):
        key = aliases.to_letters(text[at : at + end])
        dotted = _match_key(key)
        value = _VALUE.match(text, at + end)
        if dotted is None or dotted.partition(".")[0] not in SECTIONS or value is None:
            continue
        if dotted == "cluster.accelerator":  # names are phrases
            continue
        counted = dotted.startswith("parallelism.") or dotted in COUNTS
        number = _parse_integer(value[2])
        if counted and value[2][0].isdigit() and isinstance(number, str):
            continue
        word = aliases.match_value(dotted, value[2].lower()) or value[2]
        about = schema.describe("plan", dotted) or {}
        known = SWITCHES if about.get("type") == "boolean" else about.get("enum", ())
        named = value[2][0].isalpha() or bool(known)
        vague = _is_listed(key, "fillers") or (named and word.lower() not in known)
        if vague and (counted or "=" not in value[1]):
            continue
        yield value.end(), {dotted: SWITCHES.get(word.lower(), _parse_integer(word))}
        return
