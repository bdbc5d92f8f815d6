"""The model types that configurations name: the rows of families.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from planner.base import resources
from planner.connect.exports.table import walk_texts

Said = Any  # a constant, or a rule as a row writes it
Traits = Mapping[str, Said]
#: One respect in which layers differ: a label for each layer, and what each label means.
Axis = tuple[Said, Mapping[str, Traits]]

_SAID = resources.load_beside(__file__)
#: Model types and what their rows say.
FAMILIES: Mapping[str, Mapping[str, Any]] = _SAID["families"]
#: What the words of lists with a word for each layer mean, by their key.
WORDS: Mapping[str, Mapping[str, str]] = _SAID["words"]

#: Model types that are known and not modelled, by the reason; and how classes of draft models,
#: which are not either, are called, as a regular expression.
REFUSALS: Mapping[str, list[str]] = _SAID["refusals"]
DRAFTS: str = _SAID["drafts"]

#: What classes have where no row says otherwise.
CLASSES: Mapping[str, Traits] = _SAID["classes"]

#: Names of keys that change no tensor, as regular expressions.
HARMLESS: Sequence[str] = _SAID["harmless"]
#: Which arguments of Megatron-LM are known, and which change no tensor.
ARGUMENTS: Mapping[str, Sequence[str]] = _SAID["arguments"]
#: The rows that arguments of Megatron-LM are read by.
MEGATRON_ROWS = tuple(name for name in _SAID["parts"] if name.startswith("megatron"))
#: Tokenizers of Megatron-LM that have one vocabulary.
TOKENIZERS: Mapping[str, int] = _SAID["tokenizers"]
#: The arguments of EleutherAI's scripts: by script their short names, what it takes where one is
#: left out, and others; and which of them are of the model.
SCRIPTS: Mapping[str, Any] = _SAID["scripts"]
#: How a model document is written: lists of its keys.
DOCUMENT: Mapping[str, list[str]] = _SAID["document"]


@dataclass
class FamilyRow:
    """A family with all that it has of those that it is like.

    Attributes:
        traits: rules by key of the model document.
        axes: rules that label the layers, each with the traits of its labels.
        refused: the values that a configuration key may have, all others being refused.
        classes: traits by the ending of the class that the configuration names.
        notes: what to print where the document has a key.
    """

    traits: dict[str, Said] = field(default_factory=dict)
    axes: tuple[Axis, ...] = ()
    refused: dict[str, list[Any]] = field(default_factory=dict)
    classes: Mapping[str, Traits] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)


def inherit_row(rows: Mapping[str, Mapping[str, Any]], name: str) -> dict[str, Any]:
    """Merge a row with those that it is like: later ones over earlier ones, its own keys over all.

    Args:
        rows: rows by name.
        name: the row that is asked for.

    Returns:
        Its keys, without ``like``.
    """
    like, found = rows[name].get("like", ()), dict[str, Any]()
    for base in [like] if isinstance(like, str) else like:
        found |= inherit_row(rows, base)
    return found | {key: value for key, value in rows[name].items() if key != "like"}


@cache
def row(kind: str) -> FamilyRow:
    """Collect what a model type has: keys of the document, in what its layers differ, the keys that
    change the architecture unless they have one of the values listed, what its classes have
    otherwise, and where the library builds another model than what is published."""
    said = dict(FAMILIES[kind] if kind in FAMILIES else _SAID["parts"][kind])
    like, axes, refused, classes, notes = (
        said.pop(key, None) for key in ("like", "axes", "refused", "classes", "notes")
    )
    made = FamilyRow()
    for base in map(row, [like] if isinstance(like, str) else like or ()):
        made.traits |= base.traits
        made.axes = base.axes or made.axes
        made.refused |= base.refused
        made.classes = base.classes or made.classes
    made.classes, made.notes = classes or made.classes, notes or {}
    made.traits |= said
    made.refused |= refused or {}
    if axes is not None:
        made.axes = ()
    for name, about in (axes or {}).items():
        # A rule for the labels alone where all of these mean what they usually do.
        usual = _SAID["axes"].get(name, {})
        labels, kinds = (about["labels"], about["kinds"]) if "labels" in about else (about, {})
        made.axes += ((labels, {**usual, **kinds}),)
    return made


def list_model_options() -> set[str]:
    """List the options of Megatron-LM that the rows of a model read."""
    traits = [list(row(kind).traits.values()) for kind in MEGATRON_ROWS]
    return {*ARGUMENTS["others"], *walk_texts(traits)}
