"""Other names of what ships, and the words of other programs for our keys and values.

Names of things are understood wherever a preset may be named; keys are understood by ``--set``,
which is typed once, and suggested in documents, which are kept. One table says them all:
presets/aliases/names.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from planner.base import files, resources
from planner.base.units import LONGEST

_BETWEEN = re.compile(r"[-_\s]+")
#: A whole number, whose digits may stand in groups.
WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
#: So many devices of an accelerator.
_COUNTED = re.compile(rf"({WHOLE})(?![\d,])(?:\s*[x×*]\s*|\s*)(\S.*)")


def _read_aliases(section: str) -> Any:
    """Return a section of presets/aliases/names."""
    return resources.load_preset("aliases/names")[section]


def to_letters(word: str) -> str:
    """Normalise a word: lower case, without hyphens, underscores and spaces."""
    return _BETWEEN.sub("", word.casefold())


def _normalise_name(name: str) -> str:
    """Normalise the name of a model or device: lower case, without separators, publisher, and the
    prefixes and suffixes (such as `-hf`) that do not change what is meant."""
    publisher, slash, rest = name.rpartition("/")
    if slash and publisher.casefold() in list_publishers():
        name = rest
    words = [word for word in _BETWEEN.split(name.casefold()) if word]
    while len(words) > 1 and words[0] in _read_aliases("in_front"):
        del words[0]
    while len(words) > 1 and words[-1] in _read_aliases("behind"):
        del words[-1]
    return "".join(words)


#: A model's page on the Hugging Face Hub, as the sources of its document give it.
_PAGE = re.compile(r"huggingface\.co/([\w.-]+/[\w.-]+)")
_LARGEST = 1_000_000  # bytes; documents of models have hundreds


@cache
def on_the_hub() -> Mapping[str, str]:
    """Map names on the Hugging Face Hub to built-in models, by the pages in their sources."""
    found: dict[str, str] = {}
    for file in sorted((resources.folder("presets") / "models").glob("*.yaml")):
        for name in _PAGE.findall(files.read_text(file, _LARGEST)):
            found.setdefault(name, file.stem)
    return found


@cache
def list_publishers() -> frozenset[str]:
    """List the publishers of built-in models on the Hub and those who mirror them."""
    owners = (name.partition("/")[0] for name in on_the_hub())
    return frozenset(map(str.casefold, (*owners, *_read_aliases("mirrors"))))


@cache
def map_presets(kind: str, known: tuple[str, ...]) -> Mapping[str, str]:
    """Map normalised names, aliases included, to the presets of a kind that are in ``known``."""
    table = resources.load_preset("aliases/names").get(kind, {})
    others = {_normalise_name(alias): name for name, aliases in table.items() for alias in aliases}
    if kind == "model":
        others = {**{_normalise_name(page): name for page, name in on_the_hub().items()}, **others}
    others = {alias: name for alias, name in others.items() if name in known}
    return {**others, **{_normalise_name(name): name for name in known}}


def find_preset(kind: str, name: str, known: Sequence[str]) -> str | None:
    """Find the built-in document that a name or an alias means: `h100`, `Llama 3 8B`,
    `meta-llama/Llama-2-70b-hf`.

    Args:
        kind: of the document, such as ``model`` or ``accelerator``.
        name: as it is written; case, separators and endings such as `-hf` do not matter.
        known: names of the built-in documents of that kind.

    Returns:
        one of ``known``, or None.
    """
    if len(name) > 100:
        return None
    if kind == "model" and "/" in name:
        same = (key for page, key in on_the_hub().items() if page.casefold() == name.casefold())
        if (found := next(same, None)) in known:
            return found
    return map_presets(kind, tuple(known)).get(_normalise_name(name))


def iter_aliases(kind: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each preset of a kind that has aliases, with these."""
    yield from _read_aliases(kind).items()


def parse_count(text: str) -> tuple[int, str] | None:
    """Parse a device count: `64 x h100` gives 64 and `h100`. Excess digits of the count are cut."""
    found = _COUNTED.fullmatch(text.strip())
    return (int(found[1].replace(",", "")[:LONGEST]), found[2]) if found else None


@cache
def _map_keys(section: str) -> Mapping[str, str]:
    """Map each word of a section, letters only, to the key that it means."""
    return {
        to_letters(word): key for key, words in _read_aliases(section).items() for word in words
    }


def find_key(word: str) -> str | None:
    """Return the dotted key of a plan that another program's word means: `tp` is
    `parallelism.tensor`; None where there is none."""
    return _map_keys("keys").get(to_letters(word))


def suggest_key(word: str, kind: str = "plan") -> str | None:
    """Suggest the dotted key that an unknown key of a kind of document may mean."""
    found = find_key(word) or _map_keys("suggested").get(to_letters(word))
    if found is None or kind == "plan":
        return found
    section, _, rest = found.partition(".")
    return rest if section == kind else None


#: Words that are ignored in phrases.
_FILLING = frozenset(
    ("a", "an", "the", "of", "in", "for", "per", "is", "are", "my", "what", "whole")
)


def words_of(text: str) -> frozenset[str]:
    """Normalise a phrase to the set of its words, without plural s and filling words."""
    words = re.split(r"[\W_]+", text.casefold())
    return frozenset(word.removesuffix("s") for word in words if word and word not in _FILLING)


@cache
def _map_quantities() -> Mapping[frozenset[str], list[str]]:
    """Map sets of words to the quantities that they name, in any order of words."""
    found: dict[frozenset[str], list[str]] = {}
    for name, several in _read_aliases("quantities").items():
        for words in several:
            found.setdefault(words_of(words), []).append(name)
    return found


def find_quantities(words: str) -> Sequence[str]:
    """Return the ids of the quantities with that common name, the most likely one first."""
    return _map_quantities().get(words_of(words), ())


def match_value(dotted: str, word: object) -> str | None:
    """Return our word for a value of a key that other programs call otherwise."""
    for ours, words in _read_aliases("values").get(dotted, {}).items():
        if to_letters(str(word)) in map(to_letters, map(str, words)):
            return str(ours)
    return None


def list_aliases() -> list[tuple[str, str, str]]:
    """List every alias: where it is understood, what it means, and its spellings."""
    rows = [
        (kind, name, ", ".join(map(str, words)))
        for kind in ("accelerator", "cluster", "model", "precision", "stack")
        for name, words in iter_aliases(kind)
    ]
    rows += [("model on the Hub", name, page) for page, name in on_the_hub().items()]
    for title, section in (("key, also in --set", "keys"), ("key, suggested", "suggested")):
        rows += [(title, name, ", ".join(words)) for name, words in _read_aliases(section).items()]
    named = _read_aliases("quantities").items()
    rows += [("quantity", name, ", ".join(several)) for name, several in named]
    for dotted, values in _read_aliases("values").items():
        for ours, words in values.items():
            others = ", ".join(str(word).lower() for word in words)
            rows.append(("value, suggested", f"{dotted}: {ours}", others))
    return rows
