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

_BETWEEN = re.compile(r"[-_\s]+")
#: A whole number, whose digits may stand in groups.
WHOLE = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
#: So many devices of an accelerator.
_COUNTED = re.compile(rf"({WHOLE})(?![\d,])(?:\s*[x×*]\s*|\s*)(\S.*)")


def _table(section: str) -> Any:
    return resources.preset("aliases/names")[section]


def letters(word: str) -> str:
    """What two spellings of a word have in common."""
    return _BETWEEN.sub("", word.casefold())


def _plain(name: str) -> str:
    """What two names of one thing have in common: nothing of case, of what stands between words, of
    its maker and of endings that leave it as it is."""
    publisher, slash, rest = name.rpartition("/")
    if slash and publisher.casefold() in _publishers():
        name = rest
    words = [word for word in _BETWEEN.split(name.casefold()) if word]
    while len(words) > 1 and words[0] in _table("in_front"):
        del words[0]
    while len(words) > 1 and words[-1] in _table("behind"):
        del words[-1]
    return "".join(words)


#: A model's page on the Hugging Face Hub, as the sources of its document give it.
_PAGE = re.compile(r"huggingface\.co/([\w.-]+/[\w.-]+)")
_LARGEST = 1_000_000  # bytes; documents of models have hundreds


@cache
def on_the_hub() -> Mapping[str, str]:
    """The shipped models by their names on the Hugging Face Hub: the pages that the sources of
    their documents give."""
    found: dict[str, str] = {}
    for file in sorted((resources.folder("presets") / "models").glob("*.yaml")):
        for name in _PAGE.findall(files.read_text(file, _LARGEST)):
            found.setdefault(name, file.stem)
    return found


def shipped(page: str) -> str | None:
    """The shipped model of a name on the Hub, capital letters aside; None where none has it."""
    found = on_the_hub()
    return next((name for one, name in found.items() if one.casefold() == page.casefold()), None)


@cache
def _publishers() -> frozenset[str]:
    """Who publishes shipped models on the Hub, and who copies them."""
    owners = (name.partition("/")[0] for name in on_the_hub())
    return frozenset(map(str.casefold, (*owners, *_table("mirrors"))))


@cache
def _presets(kind: str, known: tuple[str, ...]) -> Mapping[str, str]:
    """The presets of a kind by what their names have in common with others of theirs."""
    table = resources.preset("aliases/names").get(kind, {})
    others = {_plain(alias): name for name, aliases in table.items() for alias in aliases}
    if kind == "model":
        others = {**{_plain(page): name for page, name in on_the_hub().items()}, **others}
    others = {alias: name for alias, name in others.items() if name in known}
    return {**others, **{_plain(name): name for name in known}}


def preset(kind: str, name: str, known: Sequence[str]) -> str | None:
    """The preset, one of those ``known``, that another name means: `h100`, `Llama 3 8B`,
    `meta-llama/Llama-2-70b-hf`; None where it is the name of none."""
    if len(name) > 100:
        return None
    if kind == "model" and "/" in name:
        found = shipped(name)
        if found in known:
            return found
    return _presets(kind, tuple(known)).get(_plain(name))


def names(kind: str) -> Iterator[tuple[str, list[str]]]:
    """Each preset of a kind that goes by other names, with these."""
    yield from _table(kind).items()


def counted(text: str) -> tuple[int, str] | None:
    """`64 x h100` as 64 of `h100`."""
    found = _COUNTED.fullmatch(text.strip())
    return (int(found[1].replace(",", "")), found[2]) if found else None


@cache
def _keys(section: str) -> Mapping[str, str]:
    return {letters(word): key for key, words in _table(section).items() for word in words}


def key(word: str) -> str | None:
    """The dotted key of a plan that a word of another program means: `tp` is
    `parallelism.tensor`."""
    return _keys("keys").get(letters(word))


def suggested(word: str, kind: str = "plan") -> str | None:
    """The dotted key of a document of some kind that another one may have meant."""
    found = key(word) or _keys("suggested").get(letters(word))
    if found is None or kind == "plan":
        return found
    section, _, rest = found.partition(".")
    return rest if section == kind else None


def value(dotted: str, word: object) -> str | None:
    """What a value of a key of a plan is called here that others call otherwise."""
    for ours, words in _table("values").get(dotted, {}).items():
        if letters(str(word)) in map(letters, map(str, words)):
            return str(ours)
    return None


def table() -> list[tuple[str, str, str]]:
    """Every alias: where it is understood, what it means, and its spellings."""
    rows = [
        (kind, name, ", ".join(map(str, words)))
        for kind in ("accelerator", "model", "precision")
        for name, words in names(kind)
    ]
    rows += [("model on the Hub", name, page) for page, name in on_the_hub().items()]
    for title, section in (("key, also in --set", "keys"), ("key, suggested", "suggested")):
        rows += [(title, name, ", ".join(words)) for name, words in _table(section).items()]
    for dotted, values in _table("values").items():
        for ours, words in values.items():
            others = ", ".join(str(word).lower() for word in words)
            rows.append(("value, suggested", f"{dotted}: {ours}", others))
    return rows
