"""Argument lists of other programs: the arguments of a shell line, and typed access to them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from planner.base import numbers
from planner.base.errors import Place, PlanError
from planner.connect.imports.config import LARGEST, Config
from planner.documents import yaml_nodes

LONGEST = 200_000  # characters of an argument list


def is_arguments(text: str) -> bool:
    """Check whether a text is arguments, and not the name of a file of them."""
    return re.search(r"(^|\s)--?[a-z]", text) is not None


def parse_arguments(text: str, place: Place | None = None, short: bool = False) -> dict[str, Any]:
    """Parse the arguments of a shell line, a script's array or a file with one on each line.

    Args:
        text: the arguments.
        place: where they are read.
        short: whether names with one dash are arguments too; they keep it.

    Returns:
        Text by name, or true without a value.
    """
    found = collect_arguments(split_arguments(text, place), short)
    if not found:
        raise PlanError("no argument of the form --num-layers 32 in it", place)
    return found


def split_arguments(text: str, place: Place | None = None) -> list[str]:
    """Split arguments into words, as a shell does; lines of comments are left out.

    Raises:
        PlanError: they are too long, or a quote is open.
    """
    if len(text) > LONGEST:
        allowed = f"at most {numbers.text(LONGEST)} characters"
        raise PlanError("too long for an argument list", place, allowed)
    lines = text.replace("\\\n", " ").splitlines()
    told = " ".join(line for line in lines if not line.lstrip().startswith("#"))
    try:
        return shlex.split(told, comments=False)
    except ValueError as error:
        raise PlanError(f"not an argument list: {error}", place) from None


def collect_arguments(given: Sequence[str], short: bool = False) -> dict[str, Any]:
    """Collect the arguments of words, as ``parse_arguments``."""
    found: dict[str, Any] = {}
    name = None
    for each in given:
        if re.match(r"--?[a-z]" if short else r"--[A-Za-z]", each):
            name, equals, value = each.partition("=")
            name = name.removeprefix("--").replace("_", "-")
            found[name] = value if equals else True
        elif re.fullmatch("-[A-Za-z]", each):  # an option of one letter, which has no name here
            name = None
        elif name is not None:
            found[name] = each if found[name] is True else f"{found[name]} {each}"
    return found


def parse_word(word: Any, option: str) -> Any:
    """Parse a word of a command as YAML has it; text where it is none."""
    if not isinstance(word, str):
        return word
    try:
        node = yaml_nodes.parse_yaml(word, option)
    except PlanError:
        return word
    return word if node is None else node.plain()


class Arguments(Config):
    """Typed access to the arguments, which are text or, without a value, true."""

    ABSENT = "there is no argument {}"

    def name(self, key: str) -> str:
        """Return the argument as the user writes it."""
        return self._outside.get(key, f"--{key}")

    def read_int(self, key: str, least: int = 1, otherwise: Any = None) -> int | None:
        """Read a whole number; ``otherwise`` where the argument is absent.

        Args:
            key: the name of the argument.
            least: the least that it can be.
            otherwise: the value of an absent one.
        """
        value = self.get(key)
        if value is None:
            return None if otherwise is None else int(otherwise)
        digits = re.fullmatch(r"[0-9]{1,15}", str(value))
        if not digits or int(value) < least:
            raise self.fault(f"{self.name(key)} is {value!r}", f"a whole number, at least {least}")
        return int(value)

    def read_share(self, key: str) -> Fraction | None:
        """Read a number above zero, exactly as it is written; None where the argument is absent."""
        value = self.get(key)
        if value is None:
            return None
        digits = re.fullmatch(r"[0-9]{1,15}(\.[0-9]{0,15})?(e\+?[0-9]{1,2})?", str(value))
        if not digits or not 0 < Fraction(str(value)) <= LARGEST:
            raise self.fault(
                f"{self.name(key)} is {value!r}",
                f"a number above 0, at most {numbers.text(LARGEST)}",
            )
        return Fraction(str(value))

    def read_flag(self, key: str, otherwise: bool | None = False) -> bool | None:
        """Read an argument without a value.

        Args:
            key: its name inside.
            otherwise: what an absent one is.

        Raises:
            PlanError: it has a value.
        """
        value = self.get(key, otherwise)
        if value not in (True, False, None):
            raise self.fault(f"--{key} takes no value, not {value!r}")
        return bool(value)
