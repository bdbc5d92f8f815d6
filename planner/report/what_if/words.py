"""Plain Python data as JavaScript."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

__all__ = ["Untranslated", "literal", "quoted"]


class Untranslated(TypeError):
    """A rule or a value that has no JavaScript."""


def quoted(data: Any) -> str:
    """JSON, such as a string literal, that may stand inside a script element."""
    return json.dumps(data, ensure_ascii=True).replace("<", "\\u003c")


def literal(value: Any, other: Callable[[Any], str] | None = None) -> str:
    """Plain data: dictionaries become ``$.Dict``, lists and tuples arrays, numbers doubles.

    ``other`` writes what is not plain data.

    Raises:
        Untranslated: a value that has no counterpart.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, int) and abs(value) < 2**53:
        return str(value)
    if isinstance(value, (int, float, Fraction)):
        return repr(float(value))
    if isinstance(value, Mapping):
        pairs = (f"[{literal(k, other)},{literal(v, other)}]" for k, v in value.items())
        return f"new $.Dict([{','.join(pairs)}])"
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return f"[{','.join(literal(item, other) for item in value)}]"
    if isinstance(value, (set, frozenset)):
        items = (literal(item, other) for item in sorted(value, key=str))
        return f"new $.Set_([{','.join(items)}])"
    if other is not None:
        return other(value)
    raise Untranslated(f"no JavaScript for {type(value).__name__}: {value!r}")
