"""Towers of multimodal configurations: the stacks in front of a language model (towers.yaml)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from planner.base import resources
from planner.base.errors import Place
from planner.connect.imports.config import Config
from planner.connect.imports.families import HARMLESS, Traits, inherit_row
from planner.connect.imports.rules import read_traits
from planner.documents.source import expand_keys

_SAID = resources.load_beside(__file__)
#: Wrappers whose towers are known: what each tower is read from, and what leads behind it.
WRAPPERS: Mapping[str, Mapping[str, Mapping[str, Any]]] = _SAID["wrappers"]
#: What the classes of the library assume of wrappers and towers, by their types.
DEFAULTS: Mapping[str, Mapping[str, Any]] = resources.load_beside(__file__, "towers.json")
#: Of a wrapper, keys that are no tower's.
_OUTER = ("model_type", "architectures", "tie_word_embeddings")
#: Keys of a wrapper's row that are no key of the document.
_ABOUT = ("of", "is", "as", "harmless")


@cache
def _row(kind: str) -> Traits:
    """Return the keys of a tower's document that its type gives."""
    return inherit_row({**_SAID["parts"], **_SAID["types"]}, kind)


def read_towers(
    wrapper: Mapping[str, Any], text: Collection[str], hidden: int, flat: bool, place: Place | None
) -> dict[str, Any]:
    """Read the towers of a wrapper by the key of the model document.

    Args:
        wrapper: the configuration that has them.
        text: keys of the language model; where the wrapper repeats them they are no tower's.
        hidden: width of the language model.
        flat: whether the language model's keys stand in it alone.
        place: where faults are.

    Returns:
        Documents of towers by their keys.

    Raises:
        PlanError: a tower that is not modelled, with what keeps it from being so.
    """
    found, kind = {}, str(wrapper["model_type"])
    assumed = DEFAULTS[kind]
    seen = {said["of"] for said in WRAPPERS[kind].values()}
    for name, said in WRAPPERS[kind].items():
        given = wrapper.get(said["of"], assumed.get(said["of"]))
        if given is None:
            continue
        if not isinstance(given, Mapping):
            fault = f"{said['of']} is not a mapping"
            raise Config({"model_type": kind}, {}, {}, place).fault(fault, "a mapping of keys")
        own = said.get("is") or str(given.get("model_type") or said["as"])
        if own not in _SAID["types"]:
            fault = f"the tower {own!r} is not modelled"
            raise Config({"model_type": kind}, {}, {}, place).fault(fault)
        outer = {key: value for key, value in wrapper.items() if key not in seen}
        keys = {**given, **{f"wrapper.{key}": value for key, value in outer.items()}}
        keys |= {"model_type": own, "text.hidden_size": hidden}
        defaults = {**DEFAULTS[own], **{f"wrapper.{key}": v for key, v in assumed.items()}}
        c = Config(keys, defaults, _row(own).get("names", {}), place)
        row = {key: value for key, value in _row(own).items() if key not in ("harmless", "names")}
        leads = {key: value for key, value in said.items() if key not in _ABOUT}
        found[name] = expand_keys(read_traits({**row, **leads}, c))
        known = {*_row(own).get("harmless", ()), *said.get("harmless", ()), *_SAID["harmless"]}
        known |= {*_OUTER, "text.hidden_size", *(f"wrapper.{key}" for key in text)}
        # Where the wrapper is flat, its keys are judged as the language model's.
        c.judge(known, HARMLESS, "wrapper.", flat)
    return found
