"""From a Megatron-LM argument list to a model document, by the `megatron` rows of families.yaml."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from planner.base.errors import Fault, Place, PlanError, nearest
from planner.connect.imports.config import Config
from planner.connect.imports.families import ARGUMENTS, row
from planner.connect.imports.rules import values
from planner.connect.imports.tidy import without_defaults

LONGEST = 200_000  # characters of an argument list


def parse(text: str, place: Place | None = None) -> dict[str, Any]:
    """The arguments of a shell line, a script's array or a file with one on each line."""
    if len(text) > LONGEST:
        allowed = f"at most {LONGEST:,} characters"
        raise PlanError(Fault("too long for an argument list", place, allowed))
    lines = text.replace("\\\n", " ").splitlines()
    told = " ".join(line for line in lines if not line.lstrip().startswith("#"))
    try:
        words = shlex.split(told, comments=False)
    except ValueError as error:
        raise PlanError(Fault(f"not an argument list: {error}", place)) from None
    found: dict[str, Any] = {}
    name = None
    for each in words:
        if re.match(r"--[a-z]", each):
            name, equals, value = each[2:].partition("=")
            name = name.replace("_", "-")
            found[name] = value if equals else True
        elif name is not None:
            found[name] = each if found[name] is True else f"{found[name]} {each}"
    if not found:
        raise PlanError(Fault("no argument of the form --num-layers 32 in it", place))
    return found


class Arguments(Config):
    """Typed access to the arguments, which are text or, without a value, true."""

    ABSENT = "there is no argument {}"

    def name(self, key: str) -> str:
        return f"--{key}"

    def whole(self, key: str, least: int = 1, otherwise: Any = None) -> int | None:
        value = self.get(key)
        if value is None:
            return None if otherwise is None else int(otherwise)
        digits = isinstance(value, str) and re.fullmatch(r"[0-9]{1,15}", value)
        if not digits or int(value) < least:
            raise self.fault(f"--{key} is {value!r}", f"a whole number, at least {least}")
        return int(value)

    def flag(self, key: str, otherwise: bool | None = False) -> bool | None:
        value = self.get(key, otherwise)
        if value not in (True, False, None):
            raise self.fault(f"--{key} takes no value, not {value!r}")
        return bool(value)


#: Rows of families.yaml that arguments are read by.
ROWS = ("megatron", "megatron_heads", "megatron_latent", "megatron_experts")


def read(text: str, place: Place | None = None) -> dict[str, Any]:
    """The model document of an argument list, defaults left out.

    Raises:
        PlanError: an argument is missing, malformed or changes the architecture unmodelled.
    """
    found = parse(text, place)
    _judge_unknown(found, place)
    c = Arguments({"model_type": "megatron", **found}, {}, {}, place)
    latent = c.flag("multi-latent-attention")
    left_out = {"megatron_heads" if latent else "megatron_latent"}
    if "num-experts" not in found:
        left_out.add("megatron_experts")
    document: dict[str, Any] = {}
    for kind in ROWS:
        if kind not in left_out:
            document |= values(row(kind).traits, c)
    return without_defaults(document, place)


def _judge_unknown(found: Mapping[str, Any], place: Place | None) -> None:
    """An argument that no row names is harmless, or refused."""
    known = {*ARGUMENTS["others"], *_words([list(row(kind).traits.values()) for kind in ROWS])}
    shaped, harmless = (re.compile("|".join(ARGUMENTS[key])) for key in ("shaped", "harmless"))
    for name, value in found.items():
        if name in known or harmless.search(name) or not shaped.search(name) or value == "0":
            continue
        fault = f"--{name} could change the architecture and is not modelled"
        raise PlanError(Fault(fault, place, None, nearest(name, known)))


def _words(said: Any) -> Iterator[str]:
    """All text in the values of a row."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, (list, dict)):
        for inner in said.values() if isinstance(said, dict) else said:
            yield from _words(inner)
