"""From a Hugging Face configuration to a model document."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.base import files, resources
from planner.base.errors import Place, PlanError, nearest
from planner.connect.imports import diffusion, families, towers
from planner.connect.imports.config import Config
from planner.connect.imports.families import DOCUMENT, FAMILIES, HARMLESS, Axis, FamilyRow, Traits
from planner.connect.imports.rules import (
    check_depth,
    check_values,
    read_traits,
    run_rule,
    trace_traits,
)
from planner.connect.imports.tidy import (
    drop_defaults,
    fill_defaults,
    fold_pattern,
    match_experts,
    match_windows,
)
from planner.documents.source import expand_keys, lookup

#: What the configuration classes of the library assume: defaults, names, harmless keys.
CLASSES: Mapping[str, Any] = resources.load_beside(__file__, "classes.json")

DEEPEST = 40

#: Keys that hold a language model inside a multimodal configuration.
INNER = ("text_config", "llm_config", "language_config", "thinker_config")


@dataclass
class HfDocument:
    """A model document, of dotted keys until it is finished, and for each of these the
    configuration keys that it came from.

    Attributes:
        document: values by dotted key.
        came_from: for each of these keys, the configuration keys that gave it.
        notes: lines on what was left out.
        family: the model type.
    """

    document: dict[str, Any]
    came_from: dict[str, tuple[str, ...]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    family: str = ""


def convert_config(config: Any, place: Place | None = None) -> HfDocument:
    """Convert a configuration to a model document.

    Raises:
        PlanError: an unknown type, a key that is missing, malformed, contradictory or changes the
            architecture in a way that is not modelled.
    """
    if isinstance(config, Mapping) and diffusion.NAME in config and "model_type" not in config:
        name, document, came_from = diffusion.convert_diffuser(config, place)
        return HfDocument(drop_defaults(document, place), came_from, family=name)
    given, notes, named, wrapper = _extract_text(config, place)
    outer = str(wrapper.get("model_type"))
    flat = outer in CLASSES["wrappers"] and not any(k in wrapper for k in INNER)
    kind = str(given["model_type"])
    if kind not in FAMILIES:
        raise _refuse_type(kind, FAMILIES, place)
    said = CLASSES["types"].get(kind, {})
    c = Config(given, said.get("defaults", {}), said.get("names", {}), place)
    family = families.row(kind)
    check_values(c, family.refused, kind)
    made = HfDocument({}, notes=notes, family=kind)
    own = _of_class(named, (str(config["model_type"]), outer, kind), family, made, c)
    made.document, made.came_from = trace_traits({**family.traits, **own}, c)
    check_depth(c, made.document["layers"])
    _add_layers(c, family.axes, made)
    _drop_assumed_length(c, made.document)
    c.judge({*said.get("harmless", ()), *CLASSES["harmless"], *said.get("defaults", ())}, HARMLESS)
    _note_further(c, made)
    made.notes += [said for key, said in family.notes.items() if made.document.get(key)]
    if outer in towers.WRAPPERS:
        _add_towers(wrapper, set(given) | set(c.defaults), flat, made, place)
    made.document = drop_defaults(made.document, place)
    return made


def _add_towers(
    wrapper: Mapping[str, Any],
    text: Collection[str],
    flat: bool,
    made: HfDocument,
    place: Place | None,
) -> None:
    """Add the towers of a wrapper that are known whole; otherwise extend the note on what is left
    out.

    Args:
        wrapper: the configuration that has the towers.
        text: keys of the language model; older files repeat them in the wrapper.
        flat: whether they are not in a mapping of their own.
        made: the document, which this changes.
        place: the file.
    """
    outer = str(wrapper["model_type"])
    at = next(i for i, note in enumerate(made.notes) if f" of a {outer} configuration" in note)
    try:
        found = towers.read_towers(wrapper, text, made.document["hidden"], flat, place)
        fill_defaults({**made.document, **found}, place)
    except PlanError as error:
        made.notes[at] += f" ({'; '.join(fault.message for fault in error.faults)})"
        return
    if found:
        made.document |= found
        for name, tower in found.items():
            where = towers.WRAPPERS[outer][name]["of"]
            made.came_from |= {f"{name}.{key}": (where,) for key in tower}
        made.notes[at] = f"{outer}: {' and '.join(found)} tower and projector are counted too"


def _of_class(
    named: str, types: Sequence[str], family: FamilyRow, made: HfDocument, c: Config
) -> Traits:
    """Return the traits that a class has otherwise than its type.

    Args:
        named: the class that the configuration names; empty for none.
        types: the types of the whole and of its language model.
        family: the family of the type.
        made: the document, to which this may add a note.
        c: the configuration.

    Returns:
        Rules by key; none where no class is named.

    Raises:
        PlanError: a class that is not modelled.
    """
    classes = family.classes or families.CLASSES
    fits = [ending for ending in classes if named.endswith(ending)]
    ending = max(fits, key=len, default="")
    traits = classes.get(ending, {})
    if ending == "Model" and {**family.traits, **traits}.get("head") is False:
        # Other programs call a class with a head so too; the library's are called as the type.
        stem, *known = (re.sub("[^a-z0-9]", "", n.lower()) for n in (named[: -len(ending)], *types))
        fits = [one for one in known if one.startswith(stem)]
        made.notes.append(f"{named} has no output head")
    drafts = named and re.search(families.DRAFTS, named)
    if named and (drafts or not fits):
        why = f"the class {named} is not modelled"
        if drafts:
            why += ": a draft model reads the states of the model that it drafts for"
        raise c.fault(why, f"…{', …'.join(classes)}")
    return traits


def _refuse_type(kind: str, known: Iterable[str], place: Place | None) -> PlanError:
    """Make the error for a model type that is not modelled: the reason, where it is known; else the
    nearest known type."""
    for reason, types in families.REFUSALS.items():
        if kind in types:
            return PlanError(f"model type {kind!r} is not modelled: {reason}", place)
    return PlanError(f"model type {kind!r} is not known", place, None, nearest(kind, known))


def _extract_text(
    config: Any, place: Place | None
) -> tuple[dict[str, Any], list[str], str, Mapping[str, Any]]:
    """Extract the language model's keys of a configuration, multimodal or not; return them with
    notes on what is left out, the class of the whole, and the mapping that has its towers."""
    if not isinstance(config, Mapping):
        raise PlanError("a configuration is a mapping of keys", place)
    _check_depth(config, place)
    given, notes, named = dict(config), list[str](), ""
    wrapper = given
    for _ in range(4):
        classes = given.get("architectures")
        if not named and isinstance(classes, list) and classes and isinstance(classes[0], str):
            named = classes[0][:200]
        inner = next((k for k in INNER if isinstance(given.get(k), Mapping)), None)
        if inner is None:
            break
        outer = str(given.get("model_type"))
        if outer not in CLASSES["wrappers"]:
            raise _refuse_type(outer, [*CLASSES["wrappers"], *FAMILIES], place)
        text = {"model_type": CLASSES["wrappers"][outer]}
        tie = "tie_word_embeddings"  # the head is the outer class's
        text |= {key: v for key, v in towers.DEFAULTS.get(outer, {}).items() if key == tie}
        text |= given[inner] | {key: v for key, v in given.items() if key == tie}
        part = inner.removesuffix("_config")
        notes.append(f"{part} part of a {outer} configuration; its other parts are left out")
        wrapper, given = given, text
    outer = CLASSES["wrappers"].get(str(given.get("model_type")))
    if outer in FAMILIES and given["model_type"] not in FAMILIES:  # an older, flat spelling
        notes.append(f"text part of a {given['model_type']} configuration")
        given = {k: v for k, v in given.items() if not isinstance(v, Mapping)}
        given["model_type"] = outer
    if given.get("model_type") is None:
        raise PlanError("the configuration has no key 'model_type'", place)
    if not isinstance(given["model_type"], str):
        raise PlanError("model_type is not text", place, "such as llama")
    return given, notes, named, wrapper


def _check_depth(node: Any, place: Place | None) -> None:
    """Refuse a configuration that is nested more than ``DEEPEST`` levels deep.

    Raises:
        PlanError: the configuration has more levels.
    """
    level = [node]
    for _ in range(DEEPEST):
        inner = (each.values() if isinstance(each, Mapping) else each for each in level)
        level = [one for many in inner for one in many if isinstance(one, (Mapping, list))]
        if not level:
            return
    raise PlanError("the configuration is nested too deeply", place, f"at most {DEEPEST} levels")


def _add_layers(c: Config, axes: tuple[Axis, ...], made: HfDocument) -> None:
    """Add the layer kinds: one key where all layers are alike, else a pattern.

    Args:
        c: the configuration.
        axes: rules that label the layers, each with the traits of its labels.
        made: the document, which this changes.
    """
    differing: list[tuple[list[str], Mapping[str, Traits]]] = []
    sources: set[str] = set()
    for said, meaning in axes:
        c.noted.clear()
        labels = list(run_rule(said, c))
        sources |= c.noted
        if len(set(labels)) == 1:
            made.document |= read_traits(meaning.get(labels[0], {}), c)
        else:
            differing.append((labels, meaning))
    keys = _collapse_axes(c, differing)
    if keys is None:
        layers = list(zip(*(labels for labels, _ in differing), strict=True))
        c.noted.clear()
        kinds: dict[str, Any] = {}
        for layer in dict.fromkeys(layers):
            kind: dict[str, Any] = {}
            for label, (_, meaning) in zip(layer, differing, strict=True):
                kind |= read_traits(meaning.get(label, {}), c)
            kinds["-".join(layer)] = expand_keys(kind)
        sources |= c.noted
        keys = {"kinds": kinds, "pattern": fold_pattern(["-".join(layer) for layer in layers])}
    made.document |= keys
    kinds = keys.get("kinds") or {"": made.document}
    if {one.get("feed_forward") for one in kinds.values()} <= {"none", "mlp"}:  # and no experts
        made.document = {k: v for k, v in made.document.items() if not k.startswith("moe.")}
    # All patterns need the depth.
    named = tuple(c.name(key) for key in sorted(sources - {"num_hidden_layers"}))
    made.came_from |= dict.fromkeys(keys, named)


def _collapse_axes(
    c: Config, differing: Sequence[tuple[list[str], Mapping[str, Traits]]]
) -> dict[str, Any] | None:
    """Collapse common patterns to single keys; None where one is not common."""
    keys: dict[str, Any] = {}
    for labels, meaning in differing:
        kinds = set(labels)
        rule = match_experts(labels) if kinds == {"dense", "sparse"} else None
        step = match_windows(labels) if kinds == {"sliding", "full"} else None
        plain = {key for label in kinds for key in meaning.get(label, ())} == {"attention.window"}
        if rule is not None:
            keys |= {f"moe.{key}": value for key, value in rule.items()}
        elif step is not None and plain:
            keys |= read_traits(meaning["sliding"], c) | {"attention.global_every": step}
        else:
            return None
    return keys


def _drop_assumed_length(c: Config, document: dict[str, Any]) -> None:
    """Drop a length that only the class assumes where a given window is longer."""
    longest = document.get("max_sequence")
    assumed = c.defaults.get("max_position_embeddings", c.defaults.get("max_seq_len"))
    if not longest or longest != assumed or document.get("positions") == "learned":
        return
    kinds = (document.get("kinds") or {}).values()
    windows = [document.get("attention.window"), *(lookup(k, "attention.window") for k in kinds)]
    if any(window and window > longest for window in windows):
        del document["max_sequence"]


def _note_further(c: Config, made: HfDocument) -> None:
    """Note modules that predict further tokens: they are published beside the model; the library
    that reads the configuration leaves them out, and so does the document."""
    for key in DOCUMENT["further"]:
        count = c.given.get(key)
        if isinstance(count, int) and count > 0:
            left = f"{c.name(key)} {count} is left out, as in transformers"
            made.notes.append(f"{left}; mtp: {count} adds what it names")
            return


def parse_config(text: str, place: Place | None = None) -> Any:
    """Parse the JSON text of a configuration; its faults become ours."""
    return files.parse_json(text, place, object_pairs_hook=files.refuse_twice, parse_constant=str)
