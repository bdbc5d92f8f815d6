"""Whole numbers worked out from text: Python's grammar, walked node by node and never run."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

Operations = Mapping[type[ast.operator], Callable[[int, int], int]]
WHOLE: Operations = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
#: Functions of two numbers or more that a text may call, where its names have them.
EXTREMES: Mapping[str, Any] = {"min": min, "max": max}
LARGEST = 10**18
#: Text that no whole number is written in; Python warns of a digit before a letter.
_OTHER = re.compile(r"[^\w\s+*/%(),-]|\d[^\W\d]", re.ASCII)


def evaluate_whole(text: str, names: Mapping[str, Any] = {}, operations: Operations = WHOLE) -> int:
    """Evaluate an expression of whole numbers, names, operations and parentheses.

    Args:
        text: the expression.
        names: a number or a function by name.
        operations: what each operation does; any other has no meaning.

    Raises:
        ValueError: with what is wrong.
    """

    def walk(node: ast.expr) -> int:
        """Evaluate a node; raise a ValueError where it is no whole number."""
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        if isinstance(node, ast.Name) and isinstance(names.get(node.id), int):
            return int(names[node.id])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -walk(node.operand)
        if isinstance(node, ast.BinOp) and type(node.op) in operations:
            found = operations[type(node.op)](walk(node.left), walk(node.right))
            if abs(found) < LARGEST:
                return found
            raise ValueError(f"'{text}': a number of {LARGEST} or more")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
            function, values = names.get(node.func.id), [*map(walk, node.args)]
            if callable(function):
                return int(function(*values) if len(values) > 1 else values[0])
        known = ", ".join(name for name, value in names.items() if not callable(value))
        shown = f"'{ast.unparse(node)}' is not a number"
        raise ValueError(f"'{text}': {shown}{' or one of ' if known else ''}{known}")

    if other := _OTHER.search(text):
        raise ValueError(f"'{text}': {other[0]!r} is not allowed in a number")
    try:
        return walk(ast.parse(text.strip(), mode="eval").body)
    except ZeroDivisionError:
        raise ValueError(f"'{text}': a division by 0") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError(f"'{text}' is no whole number") from None
