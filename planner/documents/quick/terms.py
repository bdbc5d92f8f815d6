"""The words of a line: the table of phrases, values and their places, and what is asked."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

from planner.base import numbers, resources, units
from planner.base.errors import Fault, Place, PlanError
from planner.documents import aliases, source
from planner.documents.source import Document
from planner.documents.yaml_nodes import Origin

TEXT = "<text>"  # stands for a file in the places of faults
START = Place(TEXT)
STATED = Origin("argument", "quick")
ASSUMED = "assumed: "  # start of the origin of assumptions
SHAPE = f"{ASSUMED}shape"  # and of a model's that stands for a size
COUNTS = ("training.global_batch", "training.micro_batch", "training.gradient_accumulation")
SMALLEST = (COUNTS[1], "training.recompute")  # what the least memory decides
DEGREES = ("data", "tensor", "pipeline", "context")
LENGTH, BATCH, RANK = "training.sequence_length", "training.global_batch", "training.lora.rank"
EXAMPLES, EPOCHS, EACH = "training.examples", "training.epochs", "training.example_tokens"
RUN = ("training.tokens", "each", EXAMPLES, "pairs", "steps", "text")  # what gives a run's length
USUAL_SEQUENCE = 8192  # tokens; default of models with longer sequences
NAMED = {"model", "family", "size"}  # values of a phrase that name a model
NUMBER = rf"(?:{aliases.WHOLE}(?:\.\d+)?(?:e\d+)?)(?!\d|[.,]\d)"


class Said(NamedTuple):
    """A value that a text gives or that is assumed.

    Attributes:
        value: the value, as a document would have it.
        place: where the text gives it; its start for an assumption.
        why: how the value follows, if the text does not give it; an assumption begins with
            ``ASSUMED``.
    """

    value: Any
    place: Place = START
    why: str = ""

    @property
    def is_assumed(self) -> bool:
        """Whether the text does not give it."""
        return self.why.startswith(ASSUMED)

    def assume(self, reason: str, value: Any = None, *words: Any) -> Said:
        """Return this value, or another in its place, as one that is assumed.

        Args:
            reason: why, as one of the reasons of phrases.yaml.
            value: the value, if it is another.
            *words: what fills the words of the reason.
        """
        why = ASSUMED + load_phrases()["reasons"][reason].format(*words)
        return self._replace(value=self.value if value is None else value, why=why)


class LineValues(dict[str, Said]):
    """Values by key: of a plan with a dot, of phrases without."""

    def take(self, *keys: str) -> list[Said | None]:
        """Remove keys and return their values, None for those that are missing."""
        return [self.pop(key, None) for key in keys]

    def read(self, key: str, default: Any = None) -> Any:
        """Read the value of a key alone; the default where it is missing."""
        return self[key].value if key in self else default

    def add_note(self, place: Place, note: str) -> None:
        """Add a note on what of a text is not counted to the others."""
        before = self.get("notes")
        if before is None or note not in before.value:
            self["notes"] = Said(f"{before.value}; {note}" if before else note, place)

    def assume(self, *keys: str) -> None:
        """Add the usual value of each key that has none, that of the accelerator if it has its
        own."""
        usual, kind = load_phrases()["assumptions"], self.get("cluster.accelerator")
        for key in keys:
            value, why = usual.get(f"{key} of {kind.value}" if kind else key) or usual[key]
            self.setdefault(key, assume_value(value, why))


def get_usual(row: str) -> Said:
    """Get a value that nobody states, with why, from a row of the assumptions."""
    return assume_value(*load_phrases()["assumptions"][row])


def assume_value(value: Any, why: str) -> Said:
    """Make a value that no text gives, with why it is assumed."""
    return Said(value, START, ASSUMED + why)


def as_mapping(preset: Any) -> Any:
    """Return a document of a preset that may be given by its name."""
    return preset if isinstance(preset, dict) else {"extends": preset}


def load_like(kind: str, preset: Any) -> Document:
    """Load a document of a kind that is given as a mapping or by its name."""
    return source.load(as_mapping(preset), kind=kind)


def format_size(parameters: int) -> str:
    """Format a number of parameters as tables do."""
    return numbers.text(parameters, "parameters", "table")


def is_near(one: str, other: str, unit: str = "parameters", limit: str = "near") -> bool:
    """Decide whether two texts are about the same amount, as GB and GiB are.

    Args:
        one, other: amounts with or without a prefix.
        unit: the unit of both.
        limit: the name of the largest ratio, in the limits of phrases.yaml.
    """
    share = float(units.parse(one, unit) / units.parse(other, unit))
    return max(share, 1 / share) <= float(get_limit(limit))


def ask_for(about: str, place: Place | None = None, *values: Any) -> PlanError:
    """Make the error that asks for what is missing or unclear.

    Args:
        about: the question in phrases.yaml.
        place: where it arises; the text as a whole if None.
        *values: what fills its words.
    """
    message, allowed = (words.format(*values) for words in load_phrases()["asks"][about])
    return PlanError(Fault(message, place or START, allowed))


def is_harmless(word: str) -> bool:
    """Return whether a word is listed as one that changes no answer, in this form or another."""
    stems = [word.removesuffix(ending) for ending in ("s", "es", "ed", "d", "ing", "ly")]
    long = [one for one in stems if one != word and len(one) > 2]
    short = [one[:-1] for one in long if one[-1] == one[-2]]  # planning, plan
    return not _list_harmless().isdisjoint((word, *long, *short, *(f"{one}e" for one in long)))


@cache
def _list_harmless() -> frozenset[str]:
    """List the words that change no answer."""
    return aliases.list_publishers().union(list_words("ignored"), list_words("fillers"))


@cache
def load_phrases() -> Any:
    """Load the table of phrases."""
    return resources.load_preset("aliases/phrases")


@cache
def get_pattern(name: str) -> re.Pattern[str]:
    """Get a pattern of phrases.yaml, compiled."""
    return re.compile(load_phrases()["patterns"][name].replace("<number>", NUMBER))


def list_words(kind: str) -> list[str]:
    """List the words of a row of phrases.yaml."""
    return [*load_phrases()[kind].split()]


def get_limit(name: str) -> Any:
    """Get a limit of phrases.yaml."""
    return load_phrases()["limits"][name]


def is_filler(word: str) -> bool:
    """Decide whether a word says nothing of a run, whatever its case and separators."""
    return aliases.to_letters(word) in list_words("fillers")


def parse_integer(text: str) -> int | str:
    """Convert text such as `1,024` to an int; text that is no integer only loses its commas."""
    digits = text.replace(",", "")
    return int(digits) if digits.isdigit() else digits


def expand_binary(number: Fraction, many: str) -> int:
    """Expand tokens of a batch: k is 1024, where 131k is 131,072; M is 2^20 after a power of two
    (4M, 0.5M)."""
    parts = int(number * 64)
    even = number * 64 == parts and parts & (parts - 1) == 0
    step = 1000 if many == "m" and not even else 1024
    value = number * step ** (" kmbt".index(many) if many else 0)
    count = int(value) * 1000 // step if many == "k" else 0
    power = 1 << (count - 1).bit_length() if count else 0
    return power if count and 0 <= power - count <= count / 100 else round(value)
