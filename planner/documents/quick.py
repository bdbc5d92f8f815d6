"""A plan from one line of text: `llama3-8b on 64 h100, 2T tokens`.

The text is read from left to right: of the phrases (presets/aliases/phrases.yaml), the names of
what ships and the keys with a value that fit at a place, the longest holds. Nothing of it is run.
What it says becomes a document that a file could hold, each value at its column of the text; what
nobody says and the answer rests on is assumed, and told as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache, reduce
from math import prod
from typing import Any, NamedTuple

from planner.base import resources, units
from planner.base.display import format_flow, one_line
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.base.numbers import exact_text, plain_text
from planner.documents import aliases, schema, source
from planner.documents.yaml_nodes import Node, Origin, from_data

TEXT = "<text>"  # stands for a file in the places of faults
LONGEST = 1000  # characters
STATED = Origin("argument", "quick")
ASSUMED = "assumed: "  # start of the origin of assumptions
SECTIONS = ("parallelism", "training", "cluster", "time")  # whose keys may stand with a value
ORDER = ("name", "model", "cluster", "training", "parallelism", "time", "questions", "require")
LENGTH, BATCH, RANK = "training.sequence_length", "training.global_batch", "training.lora.rank"
USUAL_SEQUENCE = 8192  # tokens; default of models with longer sequences

Understood = tuple[int, Mapping[str, Any]]  # what fits at a place: where it ends, and values

_END = r"(?![\w%$]|[.,]\d)"
_NUMBER = rf"(?:{aliases.WHOLE}(?:\.\d+)?(?:e\d+)?)(?!\d|[.,]\d)"
_SEPARATOR = re.compile(r"(?:[\s,;:()?!&+]|[.'\"-](?=\s|$)|(?<![\w.])['\"-])+")
_WORD = re.compile(r"(?:[^\s,;?!()]|(?<=\d),(?=\d))+|.")
_KEY = re.compile(r"[A-Za-z]+(?:[\s_.-]+[A-Za-z]+){0,3}")
_VALUE = re.compile(rf"(\s*[=:]\s*|[\s_-]*)(-?{_NUMBER}(?:[kKMBGT]i?|%)?{_END}|[A-Za-z][\w.-]*)")
#: Quantities that YAML reads as text without quotes.
_QUANTITY = re.compile(rf"{_NUMBER}(?:[kKMBGT]i?|%| USD/h)?")


class Said(NamedTuple):
    """A value, its place, and the reason for it where the text does not give it."""

    value: Any
    place: Place
    why: str = ""


def parse_quick(text: str) -> Node:
    """Parse a line of text into the plan document that it describes.

    Raises:
        PlanError: what is not understood, is said twice or is missing, at its column.
    """
    if len(text) > LONGEST:
        raise PlanError(Fault("too much text", Place(TEXT), f"at most {LONGEST} characters"))
    said: dict[str, Said] = {}
    faults: list[Fault] = []
    for begin, end, values in _split_pieces(text):
        place, words = Place(TEXT, 1, begin + 1), text[begin:end]
        if values is None:
            if _is_relevant(words):
                allowed = None if faults else _load_phrases()["asks"]["understood"][1]  # once
                faults.append(
                    Fault(f"not understood: '{words}'", place, allowed, _suggest_words(words))
                )
            continue
        if "fault" in values:
            faults.append(Fault(values["fault"], place))
        for key, value in values.items():
            key = f"{key} {value}" if key == "question" else key
            if said.setdefault(key, Said(value, place)).value != value:
                faults.append(Fault(f"a second {key}: {format_flow(value)}", place, "one of them"))
    if faults:
        raise PlanError(faults)
    return _build_document(text, _complete_values(said))


def list_ignored(text: str) -> list[str]:
    """List the words of a text that have no effect on the plan."""
    return [text[begin:end] for begin, end, values in _split_pieces(text) if values is None]


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
    """List the values that an answer depends on and the text does not give, each with its reason
    where there is one; ``get`` reads keys of the plan that was made."""
    every = dict(_iter_values(document))
    why = {key: _format_reason(node).removeprefix(ASSUMED) for key, node in every.items()}
    rest = [key for key in _load_phrases()["told"] if key not in every and get(key) is not None]
    why |= {key: reasons.get(key, "") for key in rest}
    return "; ".join(
        f"{key} {format_flow(every[key].plain() if key in every else get(key))}"
        + (f" ({because.removesuffix(' (parallelism: auto)')})" if because else "")
        for key, because in why.items()
        if because or key not in every
    )


def _iter_values(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    for key, inner in node.iter_children() if isinstance(node.value, dict) else ():
        dotted = f"{path}.{key}" if path else str(key)
        yield dotted, inner
        yield from _iter_values(inner, dotted)


def _format_reason(node: Node, before: str = "") -> str:
    return f"{before}{node.origin.text}" if node.origin != STATED else ""


def _complete_values(said: dict[str, Said]) -> dict[str, Said]:
    """Convert parsed values to keys of a plan, with assumptions for what is missing.

    Raises:
        PlanError: what is missing, or may mean two things.
    """
    asked = [said.pop(key).value for key in [*said] if key.startswith("question ")]
    if (size := said.pop("size", None)) is not None:
        own = _load_phrases()["shapes"].get(said["model"].value) if "model" in said else size.value
        if own is None or not _near_to(own, size.value, "parameters"):
            raise _ask_for("second", size.place, size.value)
        said.setdefault("model", _choose_shape(size))
    if "largest-model" in asked:
        if each := said.get("each"):  # of a size that is asked for
            raise _ask_for("each", each.place)
        _add_assumptions(said, "model")
    if "model" not in said:
        raise _ask_for("model")
    _derive_devices(said)
    if {"fewest-devices", "cheapest", "memory"} & {*asked} and "cluster" not in said:
        if "cluster.devices" in said and said["cluster.devices"].why:
            del said["cluster.devices"]
        _add_assumptions(said, "cluster.accelerator", "cluster.devices")
    for about, key in (("devices", "cluster.devices"), ("kind", "cluster.accelerator")):
        if not {"cluster", key} & said.keys():
            raise _ask_for(about)
    if memory := said.pop("memory", None):
        kind = source.load({"extends": said["cluster.accelerator"].value}, kind="accelerator")
        if not _near_to(kind.get("memory"), f"{memory.value} GB", "bytes"):
            raise _ask_for("memory", memory.place, memory.value)
    if said.pop("lora", None) or any(key.startswith("training.lora.") for key in said):
        _add_assumptions(said, RANK)
        if "training.dropout" in said:
            said["training.lora.dropout"] = said.pop("training.dropout")
    _convert_tokens(said)
    if (money := said.pop("money", None)) is not None:
        if Fraction(money.value) < _load_phrases()["limits"]["budget"]:
            raise _ask_for("money", money.place, money.value)
        said.setdefault("budget", money)
    if "budget" in said or "cost" in asked:
        _add_price(said)
    _add_questions(said, asked)
    if (_find_longest(said) or 0) > USUAL_SEQUENCE:
        _add_assumptions(said, LENGTH)
    return said


def _near_to(one: str, other: str, unit: str) -> bool:
    """Return whether two texts are about the same amount, as GB and GiB are."""
    share = float(units.parse(one, unit) / units.parse(other, unit))
    return abs(share - 1) < float(_load_phrases()["limits"]["near"])


def _add_assumptions(said: dict[str, Said], *keys: str) -> None:
    for key in keys:
        value, why = _load_phrases()["assumptions"][key]
        said.setdefault(key, Said(value, Place(TEXT), ASSUMED + why))


def _ask_for(about: str, place: Place | None = None, *values: Any) -> PlanError:
    message, allowed = (words.format(*values) for words in _load_phrases()["asks"][about])
    return PlanError(Fault(message, place or Place(TEXT), allowed))


def _choose_shape(size: Said) -> Said:
    """Choose the published model whose shape a size gets; the size alone where none is near."""
    wanted, shapes = units.parse(size.value, "parameters"), _load_phrases()["shapes"]
    ratios = {name: units.parse(one, "parameters") / wanted for name, one in shapes.items()}
    name = min(ratios, key=lambda one: max(ratios[one], 1 / ratios[one]))
    if max(ratios[name], 1 / ratios[name]) > _load_phrases()["limits"]["ratio"]:
        return Said({"parameters": size.value}, size.place)
    why = f"shape: the published dense model nearest to {size.value}, of {shapes[name]}"
    return Said(name, size.place, ASSUMED + why)


def _derive_devices(said: dict[str, Said]) -> None:
    """Derive the number of devices from nodes and devices per node, or the reverse."""
    nodes, alone = said.pop("nodes", None), said.pop("alone", None)
    each, devices = said.get("cluster.devices_per_node"), said.get("cluster.devices")
    if nodes and devices and each is None:
        if devices.value % nodes.value or (devices.value <= 8 and nodes.value > 1):
            raise _ask_for("nodes", devices.place, nodes.value, devices.value)
        said["cluster.devices_per_node"] = Said(devices.value // nodes.value, nodes.place)
    elif nodes is not None:
        _add_assumptions(said, "cluster.devices_per_node")
        whole = nodes.value * said["cluster.devices_per_node"].value
        if said.setdefault("cluster.devices", Said(whole, nodes.place)).value != whole:
            raise _ask_for("number", nodes.place, "devices", whole)
    elif each or alone:
        one = Said(1, Place(TEXT), ASSUMED + "nobody says how many")
        said.setdefault("cluster.devices", each or one)


def _convert_tokens(said: dict[str, Said]) -> None:
    """Convert steps and epochs to tokens, and a batch in tokens to sequences."""
    length = said.get(LENGTH)
    each = length.value if length else min(_find_longest(said) or USUAL_SEQUENCE, USUAL_SEQUENCE)
    if length and each < _load_phrases()["limits"]["length"]:
        raise _ask_for("length", length.place, each)
    if (batch := said.pop("batch", None)) is not None:
        number, many = batch.value
        whole = int(number * (1024 if many == "k" else 1024**2 if many else 1))
        if bool(many) == (whole < _load_phrases()["limits"]["tokens"]):
            raise _ask_for("batch", batch.place, exact_text(whole))
        said["batch_tokens" if many else BATCH] = batch._replace(value=whole)
        if not many and (steps := said.get("training.gradient_accumulation")):
            if "cluster.devices" in said and whole >= steps.value * said["cluster.devices"].value:
                raise _ask_for("share", batch.place, whole)
            said["training.micro_batch"] = said.pop(BATCH)  # less than a sequence for each
    if step := said.pop("batch_tokens", None):
        count, devices = max(1, round(step.value / each)), said.get("cluster.devices")
        if devices is not None and count > devices.value:
            count = round(count / devices.value) * devices.value
        why = f"{exact_text(step.value)} tokens in sequences of {exact_text(each)}"
        said[BATCH] = Said(count, step.place, why)
    if (steps := said.pop("steps", None)) is not None:
        if BATCH not in said:
            raise _ask_for("steps", steps.place)
        made = steps.value * (step.value if step else said[BATCH].value * each)
        told = said.setdefault("training.tokens", Said(made, steps.place, f"{steps.value} steps"))
        if told.value != made:
            raise _ask_for("number", steps.place, "tokens", made)
    tokens = said.get("training.tokens")
    if tokens and units.parse(str(tokens.value), "tokens") < _load_phrases()["limits"]["run"]:
        raise _ask_for("run", tokens.place, tokens.value)
    if (times := said.pop("each", None)) is not None:
        size = _load_phrases()["shapes"].get(said["model"].value)
        if size is None:
            raise _ask_for("each", times.place)
        amount = units.parse(size, "parameters") * times.value
        why = f"{times.value} tokens a parameter"
        said["training.tokens"] = Said(int(amount), times.place, why)
    if (epochs := said.pop("epochs", None)) is not None and epochs.value != 1:
        if (tokens := said.get("training.tokens")) is None:
            raise _ask_for("epochs", epochs.place)
        whole = int(units.parse(str(tokens.value), "tokens") * epochs.value)
        why = f"{epochs.value} epochs of {tokens.value}"
        said["training.tokens"] = Said(whole, tokens.place, why)


def _add_price(said: dict[str, Said]) -> None:
    """Assume the first listed price if cost matters and no price is given."""
    if {"cluster", "cluster.price", "cluster.provider"} & said.keys():
        return
    name = said["cluster.accelerator"].value
    listed = source.load({"extends": name}, kind="accelerator").get("prices")
    if listed:
        why = ASSUMED + "nobody states a price; the first that is listed"
        said["cluster.provider"] = Said(listed[0]["provider"], Place(TEXT), why)
    elif "budget" in said:
        raise _ask_for("price", said["budget"].place, name)


def _add_questions(said: dict[str, Said], asked: list[str]) -> None:
    """Collect the questions and requirements of a plan from what is asked, deadline and budget."""
    tokens = "training.tokens" in said
    if "cheapest" in asked and "deadline" not in said:
        _add_assumptions(said, "deadline")
    deadline, budget = said.pop("deadline", None), said.pop("budget", None)
    until = [f"cost.total <= {budget.value} USD"] if budget else []
    limits: dict[str, Any] = {"deadline": deadline.value} if deadline else {}
    limits |= {"until": until} if until else {}
    questions: list[Any] = []
    if "time" in asked and not tokens:
        raise _ask_for("time")
    for name in [
        one for one in asked if one not in ("cost", "time", "memory", "tokens-by-deadline")
    ]:
        if limits and not tokens:
            raise _ask_for("tokens", None, name)
        if name == "largest-model" and deadline:
            name = "largest-model-by-deadline"
        questions.append({name: limits} if limits else name)
    if "tokens-by-deadline" in asked or (not tokens and not questions and limits):
        if not limits:
            raise _ask_for("limit")
        said.pop("training.tokens", None)
        limits["set"] = {"training": {"tokens": "1T"}}  # where it starts
        questions.append({"tokens-by-deadline": limits})
    if questions:
        said["questions"] = Said(questions, Place(TEXT), deadline.why if deadline else "")
    elif (first := deadline or budget) is not None:
        until[:0] = [f"time.training_days <= {deadline.value}"] if deadline else []
        said["require"] = Said(until, first.place)


def _find_longest(said: Mapping[str, Said]) -> int | None:
    """Return the longest sequence of a built-in model, None for a model given by its size."""
    name = said["model"].value
    known = source.load({"extends": name}, kind="model").data if isinstance(name, str) else {}
    return known.get("max_sequence")


def _build_document(text: str, said: dict[str, Said]) -> Node:
    """Build the document from parsed values; what they do not fix of the layout is searched."""
    start = Place(TEXT)
    tree: dict[str, Any] = {"name": from_data(one_line(" ".join(text.split())), start, STATED)}
    tree |= {"cluster": {}, "training": {}}
    launcher, data = said.pop("launcher", None), said.get("parallelism.data")
    if data and "cluster.devices" in said:
        degrees = [f"parallelism.{key}" for key in ("tensor", "pipeline", "context")]
        count = prod(said[key].value for key in ("parallelism.data", *degrees) if key in said)
        if count == said["cluster.devices"].value:  # the search makes it of these
            del said["parallelism.data"]
            said = {**{key: Said(1, data.place, "what data leaves") for key in degrees}, **said}
    follow = {"parallelism.data", "training.gradient_accumulation"} & said.keys()
    if isinstance(said["model"].value, str) and not follow:
        said |= {"parallelism.for": launcher} if launcher else {}
        alone = not any(key.startswith("parallelism.") for key in said)
        opened = ("parallelism", "auto") if alone else ("parallelism.auto", True)
        said = {opened[0]: Said(opened[1], start), **said}
    elif launcher is not None:
        said["training.implementation"] = launcher
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

    return whole({key: tree[key] for key in ORDER if key in tree})


def _split_pieces(text: str) -> Iterator[tuple[int, int, Mapping[str, Any] | None]]:
    """Split a text into pieces with their values; unknown words in a row are one, with None."""
    strange = (0, 0)  # where words in a row begin and end that are not understood
    at = 0
    while at < len(text):
        between = _SEPARATOR.match(text, at)
        word = between or _WORD.match(text, at)
        assert word is not None
        understood = None if between else _match_longest(text, at)
        if not understood and _is_listed(word[0].rstrip(".'"), "fillers"):
            understood = (word.end(), {})
        apart = set(between[0]) - {" "} if between else understood
        if strange[1] and (apart or not _is_relevant(text[strange[0] : word.end()])):
            yield *strange, None
            strange = (0, 0)
        if understood is not None:
            yield at, *understood
        elif not between:
            strange = (strange[0] if strange[1] else at, word.end())
        at = understood[0] if understood else word.end()
    if strange[1]:
        yield *strange, None


def _match_longest(text: str, at: int) -> Understood | None:
    """Match the longest phrase or pair at a position, without the count of devices after it."""
    fits = sorted([*_phrase(text, at), *_match_pair(text, at)], key=lambda made: -made[0])
    number = re.search(r"(?<![\w.,])\d+$", text[at : fits[0][0]] if fits else "")
    if number and (begins := at + number.start()) > at:
        devices = [end for end, says in _phrase(text, begins) if "cluster.accelerator" in says]
        if max(devices, default=0) > fits[0][0]:
            fits = [made for made in fits if made[0] <= begins]
    return next(iter(fits), None)


@cache
def _load_phrases() -> Any:
    return resources.load_preset("aliases/phrases")


def _is_listed(word: str, kind: str) -> bool:
    return aliases.to_letters(word) in _load_phrases()[kind].split()


def _is_relevant(words: str) -> bool:
    """Return whether unknown words may matter: digits, negations, words similar to names."""
    for word in words.split():
        bare = aliases.to_letters(word.strip(".,'\""))
        if re.search(r"[\d_=%$<>{}\[\]\\|@#*/]", word) or _is_listed(bare, "takes_away"):
            return True
        if bare and not _is_listed(bare, "ignored") and (_match_key(bare) or _suggest_words(word)):
            return True
    return False


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
    kinds = ("model", "accelerator")
    pool = [name for kind in kinds for name in source.preset_names(kind)]
    pool += [word for kind in kinds for _, also in aliases.iter_aliases(kind) for word in also]
    return [*pool, *_index_keys(), *aliases.on_the_hub(), *_load_phrases()["spelled"].split()]


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
    return _index_keys().get(letters.replace(".", "")) or aliases.find_key(letters)


def _parse_integer(text: str) -> int | str:
    """Convert text such as `1,024` to an int; text that is no integer only loses its commas."""
    digits = text.replace(",", "")
    return int(digits) if digits.isdigit() else digits


@cache
def _list_patterns() -> list[tuple[re.Pattern[str], list[str], Any]]:
    rows = [(row["say"], row["set"]) for row in _load_phrases()["phrases"]]
    rows += [(say, {"fault": message}) for say, message in _load_phrases()["refused"].items()]
    return [_compile_phrase(str(say), says) for say, says in rows]


def _compile_phrase(say: str, says: Any) -> tuple[re.Pattern[str], list[str], Any]:
    slots: list[str] = []

    def slot(found: re.Match[str]) -> str:
        name, pattern = _load_phrases()["slots"][found[1]]
        slots.append(name)
        each = sorted(_map_names().get(name, ()), key=len, reverse=True)
        pattern = pattern or "|".join("[-_ ]?".join(map(re.escape, one)) for one in each)
        return f"(?P<s{len(slots) - 1}>{pattern})"

    pattern = re.sub(r"\{([a-z]+)\}", slot, say.replace(" ", r"[\s_=:-]*"))
    for name, part in reversed(_load_phrases()["parts"].items()):  # later ones hold earlier ones
        pattern = pattern.replace(f"<{name}>", part)
    return re.compile(rf"(?:{pattern}){_END}", re.I | re.ASCII), slots, says


def _phrase(text: str, at: int) -> Iterator[Understood]:
    """Match the phrases of the table at a position."""
    for pattern, slots, says in _list_patterns():
        found = pattern.match(text, at)
        if found is None or found.end() == at:
            continue
        groups = found.groupdict()
        words = {name: groups[f"s{i}"] for i, name in enumerate(slots) if groups[f"s{i}"]}
        values = {name: _parse_slot(name, one) for name, one in words.items()}
        if None in values.values():
            continue
        each, _, values["of"] = values.get("instance", "0").partition(" ")
        values["each"] = int(each)
        values |= {"all": found[0].lower(), "word": (groups.get("word") or "").lower()}
        filled = {
            key: values.get(one[1:-1], one.format(**values)) if isinstance(one, str) else one
            for key, one in says.items()
        }
        yield found.end(), filled


def _parse_slot(name: str, text: str) -> Any:
    """Parse the text of a slot to its value; None where it has none."""
    text = text.lower().lstrip("$ ").replace(",", "")
    if name in _map_names():
        return _map_names()[name][aliases.to_letters(text)]
    if name == "time":
        count, unit = re.fullmatch(r"(.+?)[\s-]*([a-z]+)", text).groups()  # type: ignore[union-attr]
        return f"{_load_phrases()['words'].get(count, 1 if count in ('a', 'an') else count)} {unit}"
    if name == "percent":
        return text if Fraction(text) <= 1 else f"{text}%"
    number, many = re.fullmatch(r"([\d.]*(?:e\d+)?)\s*(.?).*", text).groups()  # type: ignore[union-attr]
    if not number:
        return _load_phrases()["words"].get(text, 1)
    if name in ("tokens", "size"):
        suffix = many.upper().replace("K", "k")
        return _parse_integer(
            f"{number}{suffix}" if "e" not in number else str(int(Fraction(number)))
        )
    if name == "batch":
        return Fraction(number), many
    step = 1024 if name in ("length", "binary") else 1000
    value = Fraction(number) * step ** (" kmbt".index(many) if many else 0)
    if name == "money":
        return plain_text(value)
    return int(value) if value.denominator == 1 else None


@cache
def _map_names() -> Mapping[str, Mapping[str, str]]:
    """Map the names that slots match, by letters, to presets; others to the nearest preset."""
    kinds = {"device": "accelerator", "cluster": "cluster", "model": "model"}
    known = {slot: tuple(source.preset_names(kind)) for slot, kind in kinds.items()}
    ship = {slot: aliases.map_presets(kinds[slot], names) for slot, names in known.items()}
    held = {slot: _load_phrases()[slot].items() for slot in ("instance", "absent")}
    more = {k: {aliases.to_letters(str(n)): str(v) for n, v in rows} for k, rows in held.items()}
    return {**ship, **more}


def _match_pair(text: str, at: int) -> Iterator[Understood]:
    """Match a key of a plan, or another program's word, with its value: `tp8`, `optimizer=muon`."""
    found = _KEY.match(text, at)
    ends = [part.end() for part in re.finditer("[A-Za-z]+", found[0])] if found else []
    for end in reversed(ends):
        key = aliases.to_letters(text[at : at + end])
        dotted = _match_key(key)
        value = _VALUE.match(text, at + end)
        if dotted is None or dotted.partition(".")[0] not in SECTIONS or value is None:
            continue
        word = aliases.match_value(dotted, value[2].lower()) or value[2]
        known = (schema.describe("plan", dotted) or {}).get("enum", ())
        vague = _is_listed(key, "fillers") or (value[2][0].isalpha() and word.lower() not in known)
        if vague and not value[1].strip():
            continue
        told = {"true": True, "false": False}
        yield value.end(), {dotted: told.get(word.lower(), _parse_integer(word))}
        return
