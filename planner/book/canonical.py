"""The canonical form of an expression, which evaluation and print walk.

SymPy puts an expression in order: what is added up, what cancels, which factor comes first. Its
answer depends on nothing but what was written, so the answers for the formulas of the book and for
what shipped plans meet are data that ships, and SymPy is imported for other expressions only. No
cache is read: these forms decide every number.
"""

from __future__ import annotations

import json

# The module `hashlib` loads OpenSSL as well, which takes milliseconds.
from _blake2 import blake2b
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

from planner.base import resources
from planner.book.expressions import (
    REDUCTIONS,
    Expression,
    Symbol,
    make_fraction,
    make_in_order,
    make_number,
)

#: What `python -m benchmarks.canonical_forms` writes, a line each: a hash of the tree as it was
#: written, and the form as JSON.
SHIPPED = Path(__file__).with_name("canonical_forms.txt")
_NEUTRAL = {"add": 0, "mul": 1}


def _encode_tree(tree: Expression, texts: bool = False) -> Any:
    """Encode a tree as JSON data (int, name of an input, or list), with its ``texts`` if wanted."""
    if tree.op == "number":
        value = tree.data
        return value if isinstance(value, int) else ["/", value.numerator, value.denominator]
    if isinstance(tree, Symbol):
        return tree.name if tree.positive else ["$", tree.name]
    inner = [_encode_tree(argument, texts) for argument in tree.args]
    found = [tree.op, *inner] if tree.data is None else [tree.op, tree.data, *inner]
    return {"text": tree.text, "of": found} if texts and tree.text else found


def _decode_tree(plain: Any) -> Expression:
    """Decode a tree from JSON data."""
    if isinstance(plain, int):
        return make_number(plain)
    if isinstance(plain, str):
        return Symbol(plain, positive=True)
    if isinstance(plain, dict):
        tree = _decode_tree(plain["of"])
        tree.text = plain["text"]
        return tree
    op, *rest = plain
    if op == "/":
        return make_fraction(*rest)
    if op == "$":
        return Symbol(*rest)
    data = None
    if op in REDUCTIONS:
        axis, pairs = rest.pop(0)
        data = (axis, tuple(map(tuple, pairs)))
    return make_in_order(op, tuple(map(_decode_tree, rest)), data)


def to_canonical(tree: Expression) -> Expression:
    """Return the canonical form of a tree: sums and products flat and in order, numbers first."""
    if tree.canonical is None and tree.args:
        tree.canonical = _put_in_order(tree)
    return tree.canonical or tree


def hash_tree(tree: Expression) -> str:
    """Hash a tree as written."""
    text = json.dumps(_encode_tree(tree), separators=(",", ":"))
    return blake2b(text.encode(), digest_size=12).hexdigest()


def _put_in_order(tree: Expression) -> Expression:
    """Put a tree in canonical order."""
    if (plain := order_operands(tree)) is not None:
        return plain
    key = hash_tree(tree)
    if key in read_forms():
        return _decode_tree(json.loads(read_forms()[key]))
    from planner.book.symbolic import from_sympy, to_sympy

    made = from_sympy(to_sympy(tree))
    read_forms()[key] = json.dumps(_encode_tree(made, texts=True), separators=(",", ":"))
    return made


def order_operands(tree: Expression) -> Expression | None:
    """Put numbers and at most one other operand in order; return None for other trees. Plans write
    such trees with numbers of their own, which no shipped data can contain."""
    others = [part for part in tree.args if part.op != "number"]
    if tree.op not in _NEUTRAL or len(others) > 1:
        return None
    numbers = [part.data for part in tree.args if part.op == "number"]
    value = make_number(sum(numbers) if tree.op == "add" else prod(numbers))
    if not others or (tree.op == "mul" and value.data == 0):
        return value
    inner = to_canonical(others[0])
    if value.data == _NEUTRAL[tree.op]:
        return inner
    return make_in_order(tree.op, (value, inner)) if isinstance(inner, Symbol) else None


@cache
def read_forms() -> dict[str, str]:
    """Return canonical forms as JSON by the hash of their tree: the shipped ones and those made by
    this process."""
    lines = resources.load_own_text(SHIPPED).splitlines()
    return dict(line.split(" ", 1) for line in lines)
