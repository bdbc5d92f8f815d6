"""The canonical form of an expression, which evaluation and print walk.

SymPy puts an expression in order: what is added up, what cancels, which factor comes first. Its
answer depends on nothing but what was written, so it is kept as data beside the byte code, and
SymPy is imported only for an expression that is met for the first time.
"""

from __future__ import annotations

import atexit
import json

# The module `hashlib` loads OpenSSL as well, which takes milliseconds.
from _blake2 import blake2b
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from planner.base import files, resources
from planner.base.errors import PlanError
from planner.book.expressions import (
    OPERATIONS,
    REDUCTIONS,
    Expression,
    Symbol,
    in_order,
    number,
    rational,
)


def _plain(tree: Expression, texts: bool = False) -> Any:
    """A tree as JSON has it: an integer, the name of an input, or a list, each with its text."""
    if tree.op == "number":
        value = tree.data
        return value if isinstance(value, int) else ["/", value.numerator, value.denominator]
    if isinstance(tree, Symbol):
        return tree.name if tree.positive else ["$", tree.name]
    inner = [_plain(argument, texts) for argument in tree.args]
    found = [tree.op, *inner] if tree.data is None else [tree.op, tree.data, *inner]
    return {"text": tree.text, "of": found} if texts and tree.text else found


def _parsed(plain: Any) -> Expression:
    """The tree of what ``_plain`` gave."""
    if isinstance(plain, int):
        return number(plain)
    if isinstance(plain, str):
        return Symbol(plain, positive=True)
    if isinstance(plain, dict):
        tree = _parsed(plain["of"])
        tree.text = plain["text"]
        return tree
    op, *rest = plain
    if op == "/":
        return rational(*rest)
    if op == "$":
        return Symbol(*rest)
    data = None
    if op not in OPERATIONS:
        raise ValueError(f"unknown operation {op}")
    if op in REDUCTIONS:
        axis, pairs = rest.pop(0)
        data = (axis, tuple(map(tuple, pairs)))
    return in_order(op, tuple(map(_parsed, rest)), data)


#: What this process adds to the canonical forms that are kept.
_NEW: dict[str, Any] = {}
#: Files of other versions that stay.
MOST_KEPT = 4


def canonical(tree: Expression) -> Expression:
    """What SymPy makes of a tree: sums and products flat and in order, numbers first."""
    if tree.canonical is None and tree.args:
        tree.canonical = _made(tree)
    return tree.canonical or tree


def factored(tree: Expression) -> Expression:
    """The same with what all terms of a sum have in common before the sum."""
    return _made(tree, "factor_terms")


def _made(tree: Expression, function: str = "") -> Expression:
    """A tree in order, perhaps after one of SymPy's functions."""
    text = function + json.dumps(_plain(tree), separators=(",", ":"))
    key = blake2b(text.encode(), digest_size=12).hexdigest()
    try:
        return _parsed(_kept()[key])
    except (KeyError, TypeError, ValueError):
        import sympy

        from planner.book.symbolic import from_sympy, to_sympy

        found = to_sympy(tree)
        if function:
            found = to_sympy(from_sympy(getattr(sympy, function)(found)))
        made = from_sympy(found)
        if not _NEW:
            atexit.register(_write)
        _NEW[key] = _kept()[key] = _plain(made, texts=True)
        return made


@cache
def _file() -> Path:
    """Where canonical forms are kept, under a hash of SymPy's version and of what turns trees into
    SymPy's and back: checkouts of different versions have a file each."""
    spec = find_spec("sympy")
    made_by = [Path(__file__), Path(__file__).with_name("symbolic.py")]
    if spec is not None and spec.origin is not None:
        made_by.append(Path(spec.origin).with_name("release.py"))
    made = blake2b(digest_size=12)
    for file in made_by:
        with suppress(OSError):
            made.update(resources.read_bytes(file))
    return resources.cache() / f"expressions-{made.hexdigest()}.json"


def _read() -> dict[str, Any]:
    """Canonical forms as JSON has them, by hashes of what they are of."""
    with suppress(PlanError):
        found = files.parse_json(files.read_bytes(_file(), files.MAX_JSON))
        if isinstance(found, dict):
            return found
    return {}


_kept = cache(_read)


def _write() -> None:
    """Add what is new to what other processes have written meanwhile."""
    with suppress(OSError, PlanError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        files.write_text(_file(), json.dumps(_read() | _NEW, separators=(",", ":")))
        every = _file().parent.glob("expressions*.json")
        for old in sorted(every, key=lambda file: file.stat().st_mtime)[: -1 - MOST_KEPT]:
            old.unlink()
