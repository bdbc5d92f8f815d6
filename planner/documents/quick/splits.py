"""Splits of a text into phrases, keys with a value, and words that are not understood."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import suppress
from datetime import date, datetime
from difflib import get_close_matches
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise, product
from typing import Any, NamedTuple

from planner.base import numbers, resources
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.base.numbers import plain_text
from planner.documents import aliases, references, schema
from planner.documents.quick import terms
from planner.documents.quick.models import list_families
from planner.documents.quick.terms import START, get_pattern, is_harmless, list_words, load_phrases

SECTIONS = ("parallelism", "training", "cluster", "time")  # whose keys may stand with a value
SWITCHES = {"true": True, "false": False, "on": True, "off": False}
Understood = tuple[int, Mapping[str, Any]]  # what fits at a place: where it ends, and values
_END = r"(?![^\W_]|[%$€£]|_\d|[.,]\d)"
#: Characters of no text, which stand for those of a name, and of one that is a number.
MARK, BARE = "\ue000", "\ue001"


@cache
def index_keys() -> Mapping[str, str]:
    """Map keys that may be given with a value, by their letters without the section."""
    every = (key for key in reversed([*schema.list_key_paths("plan")]) if key.startswith(SECTIONS))
    types = {key: (schema.describe("plan", key) or {}).get("type") for key in every if "." in key}
    known = [key for key, kind in types.items() if kind != "object"]
    flat = {aliases.to_letters(key.partition(".")[2]): key for key in known if key.count(".") == 1}
    deep = {aliases.to_letters("".join(key.split(".")[1:])): key for key in known}
    return {**deep, **{aliases.to_letters(key.replace(".", "")): key for key in known}, **flat}


@lru_cache(maxsize=4)
def _list_patterns(text: str) -> list[tuple[re.Pattern[str], list[str], Any, str]]:
    """List what a text may match, phrases before those that are refused: a pattern, the kinds of
    its slots, its values, and the text with its names marked."""
    rows = [(str(row["say"]), row["set"]) for row in load_phrases()["phrases"]]
    rows += [(str(say), {"fault": fault}) for say, fault in load_phrases()["refused"].items()]
    low, marked = text.lower(), {kind: _mark_names(text, kind) for kind in map_names()}
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
    names, marked = map_names()[kind], text
    held = [(at, letter) for at, letter in enumerate(text.lower()) if letter not in "-_ "]
    longest, letters, after = max(map(len, names)), "".join(letter for _, letter in held), 0
    for i, (at, _) in enumerate(held):
        if at < after or not get_pattern("name begins").match(text, at):
            continue
        for count in range(min(longest, len(held) - i), 0, -1):
            end = held[i + count - 1][0] + 1
            ends = get_pattern("family ends" if kind == "family" else "name ends").match(text, end)
            if (name := letters[i : i + count]) in names and ends:
                size = kind == "model" and get_pattern("size apart").search(text[at:end])
                sizes = get_pattern("sizes of a name").findall(names[name]) if size else []
                if size and sizes and size[1] not in sizes:
                    continue  # `llama 38b` is of 38B, not llama3-8b
                mark = BARE if name.isdigit() else MARK
                marked, after = f"{marked[:at]}{mark * (end - at)}{marked[end:]}", end
                break
    return marked


@cache
def _compile_phrase(say: str) -> tuple[re.Pattern[str], list[str]]:
    """Compile a phrase to a regular expression; return it and the kinds of its slots in order."""
    slots: list[str] = []

    def slot(found: re.Match[str]) -> str:
        name, pattern = load_phrases()["slots"][found[1]]
        slots.append(name)
        return f"(?P<s{len(slots) - 1}>{pattern or f'[{MARK}{BARE}]+(?![{MARK}{BARE}])'})"

    pattern = _insert_parts(re.sub(r"\{([a-z]+)\}", slot, say.replace(" ", r"[\s_=:-]*")))
    return re.compile(rf"(?:{pattern}){_END}", re.I | re.ASCII), slots


def _insert_parts(pattern: str) -> str:
    """Put the pattern of each part into a phrase where it is named."""
    for name, part in reversed(load_phrases()["parts"].items()):  # later ones hold earlier ones
        pattern = pattern.replace(f"<{name}>", part)
    return pattern


def match_phrases(text: str, at: int) -> Iterator[Understood]:
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
    values = {name: parse_slot(name, one) for name, one in words.items()}
    if None in values.values():
        return
    if name := values.get("instance"):
        node = resources.load_preset(f"clusters/{name}")
        values |= {"each": node["devices_per_node"], "of": node["accelerator"]}
        values["net"] = node.get("network", {}).get("bandwidth")
    mean = map_names()["mean"].get(aliases.to_letters(words.get("collection", "")))
    values["mean"] = int(mean) if mean else None
    values["full"] = "" if mean else load_phrases()["full"]
    values |= {"all": text[slice(*found.span())].lower(), "word": groups.get("word", "").lower()}
    with suppress(KeyError):  # a slot of another alternative
        filled = {
            key: values.get(one[1:-1], one.format(**values)) if isinstance(one, str) else one
            for key, one in says.items()
            if not isinstance(one, str) or values.get(one[1:-1], one) is not None
        }
        filled |= {key: filled[key] * values["count"] for key in says.get("times", ())}
        why = {key: text.format(**values) for key, text in says.get("why", {}).items()}
        for cloud, begins in load_phrases()["clouds"].items() if name else ():
            if re.match(begins, str(name)):
                filled["cloud"], why["cloud"] = cloud, f"who rents {name} out"
        if any(sign in words.get("money", "").lower() for sign in load_phrases()["rates"]):
            dollars = numbers.text(Fraction(values["money"]), "USD")
            filled["notes"] = load_phrases()["rated"].format(words["money"], dollars)
        if aliases.to_letters(words.get("device", "")) in map_names()["absent"]:
            why["cluster.accelerator"] = f"{words['device']} is not built in; the nearest that is"
        yield found.end(), {**filled, "why": why} if why else filled


def parse_slot(name: str, text: str) -> Any:
    """Parse the text of a slot to its value; None where it has none.

    Args:
        name: the kind of the slot, such as tokens, time or batch.
        text: what it matched.

    Returns:
        An int, a text with its unit, a name, or for a batch its number and suffix.
    """
    said = text = text.lower().replace(",", "").strip()
    text = re.sub(_insert_parts("<coin>"), "", text).strip(" -")
    if name in map_names():
        meant = map_names()[name].get(aliases.to_letters(text))
        return int(meant) if meant and name == "collection" else meant
    if name in ("date", "span"):
        *first, last = map(_count_days, re.findall(_insert_parts("<date>"), text))
        days = last - sum(first)
        return f"{days + 365 * (days < 0)} days" if last and all(first) else None
    if not re.search(r"\d", text):
        numbers_of, words = load_phrases()["words"], re.findall("[a-z]+", text)
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
    text = text.replace("thousand", "k")  # whose first letter is that of a trillion
    number, many = re.fullmatch(r"([\d.]*(?:e\d+)?)[\s-]*(.?).*", text).groups()  # type: ignore[union-attr]
    if name == "size" and not Fraction(number):
        return None
    if name in ("tokens", "size"):
        suffix = many.upper().replace("K", "k")
        whole = f"{number}{suffix}" if "e" not in number else str(int(Fraction(number)))
        return terms.parse_integer(whole)
    if name == "batch":
        return Fraction(number), many
    if name in ("binary", "length"):
        return terms.expand_binary(Fraction(number), many)
    value = Fraction(number) * 1000 ** (" kmbt".index(many) if many else 0)
    rates = load_phrases()["rates"].items()
    value *= next((Fraction(str(rate)) for sign, rate in rates if sign in f"{name} {said}"), 1)
    if name in ("money", "daily"):
        return plain_text(value)
    return round(value) if value.denominator == 1 else None


def _count_days(text: str) -> int:
    """Count the days from today to a date, the next one if it has no year; 0 if it is none."""
    today, days = date.today(), load_phrases()["days"]
    text = next((day for name, day in days.items() if name in text), text)
    text = re.sub(r"(?<=\d)(st|nd|rd|th)|\b(the|of)\b|,", "", text)
    year = re.search(r"20\d\d", text)
    for several, form in product((0, 1), load_phrases()["date formats"]):
        dated = text if year else f"{text} {today.year + several}"
        with suppress(ValueError):
            until = datetime.strptime(" ".join(dated.split()), form).date()
            if until > today:
                return (until - today).days
    return 0


@cache
def map_names() -> Mapping[str, Mapping[str, str]]:
    """Map the names that slots match, by letters, to presets; others to the nearest preset."""
    kinds = {"device": "accelerator", "cluster": "cluster", "model": "model"}
    known = {slot: tuple(references.preset_names(kind)) for slot, kind in kinds.items()}
    ship = {slot: aliases.map_presets(kinds[slot], names) for slot, names in known.items()}
    rows = [(other, name) for name, others in aliases.iter_aliases("cluster") for other in others]
    nodes = {aliases.to_letters(other): name for other, name in rows}
    whole = {other: name for other, name in ship["cluster"].items() if other not in nodes}
    absent = {aliases.to_letters(str(n)): v for n, v in load_phrases()["absent"].items()}
    families = {aliases.to_letters(name): name for name in list_families()}
    device = {"device": {**absent, **ship["device"]}, "absent": absent}
    for slot, table in load_phrases()["tables"].items():
        ship[slot] = {aliases.to_letters(k): str(n) for k, n in load_phrases()[table].items()}
    return {**ship, **device, "cluster": whole, "instance": nodes, "family": families}


def match_pair(text: str, at: int) -> Iterator[Understood]:
    """Match a key of a plan, or another program's word, with its value: `tp8`, `optimizer=muon`.

    Args:
        text: the line.
        at: the position.

    Yields:
        Where the value ends, and the value by key; at most one pair, that with the longest key.
    """
    found = get_pattern("key").match(text, at)
    ends = [part.end() for part in re.finditer("[A-Za-z]+", found[0])] if found else []
    for end in reversed(ends):
        key = aliases.to_letters(text[at : at + end])
        dotted = index_keys().get(key.replace(".", "")) or aliases.find_key(key)
        value = get_pattern("value").match(text, at + end)
        if dotted == "cluster.accelerator" or value is None:  # whose names are phrases
            continue
        if dotted is None or dotted.partition(".")[0] not in SECTIONS:
            continue
        counted = dotted.startswith("parallelism.") or dotted in (*terms.COUNTS, terms.LENGTH)
        number = terms.parse_integer(value[2])
        if counted and value[2][0].isdigit() and isinstance(number, str):
            continue
        word = aliases.match_value(dotted, value[2].lower()) or value[2]
        about = schema.describe("plan", dotted) or {}
        known = SWITCHES if about.get("type") == "boolean" else about.get("enum", ())
        named = value[2][0].isalpha() or bool(known)
        vague = terms.is_filler(key) or (named and word.lower() not in known)
        if vague and (counted or "=" not in value[1]):
            continue
        yield value.end(), {dotted: SWITCHES.get(word.lower(), terms.parse_integer(word))}
        return


LONGEST = 1000  # characters of a line
Cost = tuple[int, ...]  # characters not understood, words without effect, pieces


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

    def cut(self, text: str) -> str:
        """Cut the characters out of a text."""
        return text[self.begin : self.end]


def correct_spelling(text: str) -> tuple[str, list[str]]:
    """Correct misspelt technical words; return the text, and each correction in words.

    Raises:
        PlanError: the text is longer than ``LONGEST``.
    """
    if len(text) > LONGEST:
        raise PlanError(Fault("too much text", START, f"at most {LONGEST} characters"))
    corrections: list[str] = []
    technical, families = (list_words(kind) for kind in ("spelled", "spelled families"))

    def correct(found: re.Match[str]) -> str:
        word = found[0].lower()
        if word in _collect_letters() or is_harmless(word):
            return found[0]
        pool = [one for one in technical if one[0] == word[0]]
        near = get_close_matches(word, pool, n=1, cutoff=terms.get_limit("similar"))
        near = near or get_close_matches(word, families, n=1, cutoff=terms.get_limit("alike"))
        if not near:
            return found[0]
        corrections.append(f"'{found[0]}' read as '{near[0]}'")
        return str(near[0])

    for pattern, plain in load_phrases()["rewritten"].items():
        text = re.sub(pattern, plain, text, flags=re.I)
    if (translated := _translate(text)) != text:
        corrections.append(f"'{text}' read as '{translated}'")
    return get_pattern("letters").sub(correct, translated), corrections


def _translate(text: str) -> str:
    """Translate a text to English, if two of its words at least are of another language: of the
    one that has most of them, where dots part thousands. Commas before one or two digits and a
    unit part fractions in any language."""
    most, text = 1, get_pattern("decimal comma").sub(r"\1.\2", text)
    for table in load_phrases()["languages"].values():
        words = "|".join(map(re.escape, sorted(table, key=len, reverse=True)))
        pattern = re.compile(rf"(?<![\w-])(?:{words})(?!\w)", re.I)
        own = [one for one in pattern.findall(text) if not is_harmless(one.lower())]
        if len(own) > most:
            most, best, plain = len(own), pattern, table
    if most == 1:
        return text
    text = re.sub(r"(?<![\w.,])(\d{1,3})\.(\d{3})(?=\s+[^\W\d])", r"\1\2", text)
    return best.sub(lambda one: plain[one[0].lower()], text)


def list_left_out(text: str) -> list[Piece]:
    """List the pieces of a text that are not understood and no name of a model."""
    return [one for one in list_splits(text)[0] if one.values is None]


def refuse_words(text: str, piece: Piece, others: Sized) -> Fault:
    """Make the fault of a piece of a text that is not understood.

    Args:
        text: the line.
        piece: what is not understood.
        others: earlier faults; the first one lists what would be understood.
    """
    words, place = piece.cut(text), Place(terms.TEXT, 1, piece.begin + 1)
    allowed = None if others else load_phrases()["asks"]["understood"][1]
    return Fault(f"not understood: '{words}'", place, allowed, _suggest_words(words))


def blank(text: str, pieces: Iterable[Piece]) -> str:
    """Replace pieces of a text by spaces."""
    for one in pieces:
        text = f"{text[: one.begin]}{' ' * (one.end - one.begin)}{text[one.end :]}"
    return text


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
        kept = own | {*load_phrases()["phases"]} if planned else values.keys() - own
        fitting = {key: value for key, value in values.items() if key in kept}
        chosen.append(one._replace(values=fitting) if own else one)
    return chosen


def find_words(text: str, kind: str = "turning") -> list[str]:
    """Find the words of a text that stand in a row: those that turn the meaning of others."""
    return [one for one in re.split(r"[^a-z'’]+", text.lower()) if one in load_phrases()[kind]]


def is_inert(text: str, piece: Piece, pieces: Iterable[Piece]) -> bool:
    """Decide whether nothing that a plan has is understood between the punctuation around what is
    not understood, as in `prof says no`; a number belongs to another word that is not.

    Args:
        text: the line.
        piece: what is not understood.
        pieces: all pieces of the line.
    """
    ends = [one.span() for one in get_pattern("clause").finditer(text)]
    begin = max((end for _, end in ends if end <= piece.begin), default=0)
    end = min((start for start, _ in ends if start >= piece.end), default=len(text))
    beside = [one for one in pieces if begin <= one.begin < end]
    unread = " ".join(one.cut(text) for one in beside if one.values is None)
    known = {key for one in beside for key in one.values or ()}
    whole = find_words(unread, "scaling") or not re.search(r"[^\W\d]{3}", unread)
    return not whole and end - begin < len(text) and known <= {*load_phrases()["inert"]}


def may_leave_out(text: str, piece: Piece, whole: bool) -> bool:
    """Decide whether what is not understood may be left out of a plan: words, labels, keys with
    their values, and numbers without a unit that belong to a word (``wikitext-103``), but no word
    that turns the meaning of others, such as a negation of what is understood.

    Args:
        text: the line.
        piece: what is not understood.
        whole: whether the rest is a whole plan, of which numbers alone between commas, and before
            a word that is not understood, may be left out too.
    """
    words, before = piece.cut(text).lower(), text[: piece.begin]
    joined = before.endswith("-") or text[piece.end : piece.end + 1] == "-"
    counted = re.search(r"(?<![\w.])\d[\d.,]*\s*$", before)  # what may be its unit
    shortest = 1 if joined and len(words) == 1 else 3 if counted else 2  # Nemotron-H, e-Llama
    each = re.findall(r"[^\s,;:()?!&+=|/-]+", get_pattern("assigned").sub(" ", words))
    plain = [len(one) >= shortest and re.sub("[.'’]", "", one).isalpha() for one in each]
    joined = any(plain) or re.search(r"\w[-_]$", before) is not None
    listed = re.search(r"[,;(/]\s*$", before) and re.match(r"\s*($|[,;)/.?])", text[piece.end :])
    what = get_pattern("counted").match(text, piece.begin)
    noun = what and not any(map(is_harmless, what["noun"].lower().split()))
    alone = joined or (whole and (listed or noun))
    label = get_pattern("label or number" if alone else "label")
    known = (one or label.fullmatch(word) for one, word in zip(plain, each, strict=True))
    turned = find_words(words) or ([] if whole else find_words(words, "words"))
    negations = load_phrases()["negations"]
    denied = len(turned) == 1 and turned[0] in negations and turned[0] != each[-1]
    rest = re.split(r"[,;.:!?)]", text[piece.end :], maxsplit=1)[0].lower().split()
    if turned and each == turned and turned[0] in negations:
        return bool(rest) and all(map(is_harmless, rest))  # no good card
    return (not turned or (denied and not rest)) and all(known)


def _name_sizes(text: str, pieces: list[Piece]) -> list[Piece]:
    """Take a word that is not understood before a size for the name of a model that is not built
    in: ``codellama 34b``, ``gpt-4 1.8T``."""
    totals = sum("training.tokens" in (piece.values or ()) for piece in pieces)
    refused = [*list_words("no names"), *load_phrases()["turning"]]
    for at, (piece, after) in enumerate(pairwise(pieces)):
        begin, kinds = piece.begin, {*(after.values or ())}
        if totals > 1 and re.fullmatch(r"[\d.]+ ?T", after.cut(text), re.I):
            kinds = {"size"} if kinds == {"training.tokens"} else kinds
        if piece.values is not None or "size" not in kinds or kinds - {"size", "experts"}:
            continue
        before = pieces[at - 1] if at else piece  # of gpt-4, gpt
        if before.values is None or "family" in before.values:
            joined = re.fullmatch(r"[A-Za-z]+[-_ ]?v?\d[\d.]*o?", text[before.begin : piece.end])
            begin = before.begin if joined else begin
        words = text[begin : piece.end]
        beside = re.fullmatch(r"[\s_(-]{0,2}|:", text[piece.end : after.begin])
        named = get_pattern("name").fullmatch(words) if beside else None
        if named and not {*named[1].lower().split("-")} & {*refused}:
            pieces[at - 1] = before._replace(values={}) if begin < piece.begin else pieces[at - 1]
            pieces[at] = Piece(begin, piece.end, {"model name": words})
            size = next(iter((after.values or {}).values()))
            pieces[at + 1] = after._replace(values={**dict.fromkeys(kinds, True), "size": size})
    return pieces


@lru_cache(maxsize=4)
def list_splits(text: str) -> tuple[list[Piece], ...]:
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
        best[at] = [one for one, cost in zip(options[at], sums, strict=True) if cost == costs[at]]
    begun: list[list[Piece]] = [[]]
    splits: list[list[Piece]] = []
    while begun and len(splits) < terms.get_limit("splits"):
        pieces = begun.pop()
        while (at := pieces[-1].end if pieces else 0) < len(text):
            begun += [[*pieces, other] for other in reversed(best[at][1:])]
            pieces.append(best[at][0])
        splits.append(_name_sizes(text, _choose_phases(_join_unknown(text, pieces))))
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
    if found := get_pattern("separator").match(text, at) or get_pattern("glue").match(text, at):
        glued = 0 if text[found.end() - 1].isspace() or at == 0 else 1
        return [Piece(at, found.end(), {}, (0, 0, glued if found[0] in "-_/@" else 0))]
    pieces = [
        Piece(at, end, values, (int("unused" in values), 0, 2 if "alone" in values else 1))
        for end, values in (*match_phrases(text, at), *match_pair(text, at))
    ]
    pieces.sort(key=lambda one: one.cost[0])  # what is not used is the last choice
    found = get_pattern("word").match(text, at)
    assert found is not None
    word = found[0].lower().rstrip(".'’:").replace("’", "'")
    word = re.sub(r"'(?:s|d|m|ll|re|ve)$", "", word)
    if terms.is_filler(word) or terms.is_filler(word.removesuffix("s")):
        pieces.append(Piece(at, found.end(), {}, (0, 1, 1)))
    elif is_harmless(word):
        pieces.append(Piece(at, found.end(), {"ignored": True}, (0, 1, 1)))
    glue = get_pattern("glue").search(text, at, found.end())
    assigned = get_pattern("assigned").match(text, at)
    ends = [glue.start(), found.end()] if glue else [found.end()]
    if glue and glue[0] == "_" and is_harmless(text[at : glue.start()].lower()):
        pieces.append(Piece(at, glue.start(), {"ignored": True}, (0, 1, 1)))
    valued = assigned and re.search(r"[=\d]", assigned[0])
    if assigned and valued and is_harmless(re.split(r"\W", assigned[0].lstrip("-"))[0].lower()):
        pieces.append(Piece(at, assigned.end(), {"ignored": True}, (1, 1, 1)))
    elif assigned:
        pieces.append(Piece(at, assigned.end(), None, (assigned.end() - at - 1, 0, 1)))
    keys = (one for one in get_pattern("assigned").finditer(text) if "_" in one[0])
    key = next((one[0] for one in keys if one.start() <= at < one.end()), "")
    pieces += [Piece(at, end, None, (max(end - at, len(key)), 0, 1)) for end in ends]
    return list({piece.end: piece for piece in reversed(pieces)}.values())[::-1]


def _suggest_words(words: str) -> str | None:
    """Suggest what words may mean: uses of a number, the models of a family, the nearest name."""
    if re.fullmatch(rf"{terms.NUMBER}\s?[kKmMbBtT]?", words):
        return f"{words} h100, batch {words}, sequence {words}, tp {words}, {words} tokens"
    plain = [aliases.to_letters(word) for word in words.split() if len(word) > 2]
    said = (None, words, *words.split())  # which no suggestion may be
    of = [name for name in references.preset_names("model") if name.startswith(tuple(plain))]
    close = (nearest(word, _collect_words()) for word in (words, *words.split()) if len(word) > 3)
    return " or ".join(of[:4]) if of else next((one for one in close if one not in said), None)


@cache
def _collect_words() -> list[str]:
    """Collect the names, keys and technical words that a suggestion may be."""
    kinds = ("model", "accelerator")
    pool = [name for kind in kinds for name in references.preset_names(kind)]
    pool += [word for kind in kinds for _, also in aliases.iter_aliases(kind) for word in also]
    pool += list_words("spelled families")
    return [*pool, *index_keys(), *aliases.on_the_hub(), *list_words("spelled")]


@cache
def _collect_letters() -> frozenset[str]:
    """Collect the words of phrases, names and keys, which are spelled right."""
    texts = [str(row["say"]) for row in load_phrases()["phrases"]]
    texts += [*load_phrases()["refused"], *list_words("fillers"), *_collect_words()]
    for name, names in map_names().items():
        texts += [name, *names, *names.values()]
    return frozenset(word.lower() for text in texts for word in re.findall("[A-Za-z]{4,}", text))
