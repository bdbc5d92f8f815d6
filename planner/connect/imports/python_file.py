"""A configuration that is written in Python, read without running it."""

from __future__ import annotations

import ast
import operator
from collections.abc import Container
from types import NoneType
from typing import Any, NamedTuple

from planner.base import numbers
from planner.base.errors import Fault, Place, PlanError

LONGEST = 400_000  # characters of a file
LARGEST = 10**18  # of a number that is worked out
MOST = 200_000  # values that are looked at, each time that they are named
LITERALS = (str, int, float, bool, NoneType)
#: The key of the one argument that a call has by its place.
FIRST = "0"
#: What a statement sets is not known where it runs on a condition.
CONDITIONAL = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match)


class Unread(NamedTuple):
    """A value that is not a literal: where it stands, and its text.

    Attributes:
        line: its line in the file.
        text: its source.
    """

    line: int
    text: str


def read_python(
    text: str, place: Place, calls: Container[str], function: str = ""
) -> dict[str, Any]:
    """Read a configuration, by dotted keys of the object that it makes: values, calls as text
    (``Name()``, or as one of ``calls``) with their arguments below them, and what is no literal as
    ``Unread``.

    Args:
        text: the file.
        place: where faults are.
        calls: calls that are taken as they are written.
        function: the function that makes it, where there are several.

    Returns:
        Values by dotted keys.

    Raises:
        PlanError: no Python, or no such configuration in it.
    """
    if len(text) > LONGEST:
        allowed = f"at most {numbers.text(LONGEST)} characters"
        raise PlanError("too long for a configuration", place, allowed)
    try:
        body = ast.parse(text).body
        reader = _PythonReader(body, calls)
        made = [
            name
            for name, function_of in reader.functions.items()
            if any(isinstance(one, ast.Return) and one.value for one in ast.walk(function_of))
        ]
        if function and function not in made:
            raise PlanError(Fault.from_pool(f"no function {function}", function, made, place))
        if len(made) > 1 and not function:
            fault = f"several configurations in it ({', '.join(made[:4])}, …)"
            raise PlanError(fault, place, f"{place.file}:{made[0]}")
        found = reader.run_body(body)
        reader.globals = {name: one for name, one in reader.names.items() if len(one) == 1}
        for name in [function] if function else made:
            found = reader.run_body(reader.functions[name].body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise PlanError("not valid Python", place._replace(line=line)) from None
    if not found:
        allowed = "one function that returns it, or assignments to `config`"
        raise PlanError("no configuration in it", place, allowed)
    return found


class _PythonReader:
    """Functions and names of a file."""

    def __init__(self, body: list[ast.stmt], calls: Container[str]) -> None:
        self.calls, self.steps = calls, 0
        self.functions = {one.name: one for one in body if isinstance(one, ast.FunctionDef)}
        self.names: dict[str, dict[str, Any]] = {}
        self.globals: dict[str, dict[str, Any]] = {}
        self.modules = {
            each.asname or each.name: "." * one.level + (one.module or "")
            for one in body
            if isinstance(one, ast.ImportFrom)
            for each in one.names
        }

    def run_body(self, body: list[ast.stmt]) -> dict[str, Any]:
        """Follow assignments; return what they make of `config`, or what is returned."""
        found: dict[str, Any] = {}
        for one in body:
            if isinstance(one, ast.Assign) and len(one.targets) == 1:
                self.assign_value(one.targets[0], self.read_value(one.value))
            elif isinstance(one, ast.AnnAssign) and one.value is not None:
                self.assign_value(one.target, self.read_value(one.value))
            elif isinstance(one, ast.Return) and one.value is not None:
                return self.read_value(one.value)
            else:
                for inner in ast.walk(one) if isinstance(one, CONDITIONAL) else [one]:
                    for target in _list_targets(inner):
                        self.assign_value(target, {"": Unread(target.lineno, "set on a condition")})
        return next((self.names[name] for name in ("config", "cfg") if name in self.names), found)

    def assign_value(self, target: ast.expr, found: dict[str, Any]) -> None:
        """Assign to a name or to its attribute; keys set before under that attribute are dropped,
        unless the new value refers to it."""
        name, _, key = ast.unparse(target).partition(".")
        if not isinstance(target, (ast.Name, ast.Attribute)) or "(" in key or "[" in key:
            return
        if not key:
            self.names[name] = found
        elif name in self.names:
            held = self.names[name]
            if f"{name}.{key}" not in str(found.get("")):  # else it goes on from what there was
                for old in [one for one in held if f"{one}.".startswith(f"{key}.")]:
                    del held[old]
            held |= _join_keys(key, found)

    def read_value(self, node: ast.expr) -> dict[str, Any]:
        """Read a value (below the empty key) and what stands below it."""
        self.steps += 1
        if self.steps > MOST:
            raise ValueError
        text = ast.unparse(node).replace("'", '"')
        if text in self.calls:
            return {"": text}
        if isinstance(node, ast.Name) and node.id in self.names:
            return self.names[node.id]
        if isinstance(node, ast.Call):
            return self.read_call(node)
        if isinstance(node, (ast.List, ast.Tuple)):
            listed = [one for one in node.elts if not isinstance(one, ast.Name)]
            return {"": [self.read_value(one).get("") for one in listed]}
        if isinstance(node, ast.BinOp):
            return {"": self.work_out(node)}
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = node.operand.value if isinstance(node.operand, ast.Constant) else None
            if isinstance(value, (int, float)):
                return {"": -value}
        if isinstance(node, ast.Constant) and isinstance(node.value, LITERALS):
            return {"": node.value}
        return {"": Unread(node.lineno, text[:80])}

    def work_out(self, node: ast.BinOp) -> Any:
        """Work out sums of whole numbers, and join or repeat lists, as ``[0] * 3 + [1] * 58``."""
        left, right = (self.read_value(one).get("") for one in (node.left, node.right))
        sums = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
        if type(left) is type(right) is int and type(node.op) in sums:
            found = sums[type(node.op)](left, right)
            return found if abs(found) < LARGEST else Unread(node.lineno, ast.unparse(node)[:80])
        if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
            made = left + right
        elif isinstance(node.op, ast.Mult) and isinstance(left, list) and type(right) is int:
            if len(left) * right > MOST:
                raise ValueError
            made = left * right
        else:
            return Unread(node.lineno, ast.unparse(node)[:80])
        self.steps += len(made)
        return made

    def read_call(self, node: ast.Call) -> dict[str, Any]:
        """Read a call: of a function of the file, by running its body; of another one, as its name,
        its module and its arguments."""
        name = ast.unparse(node.func)
        if name in self.functions and not node.args and not node.keywords:
            outer, self.names = self.names, dict(self.globals)
            made = self.run_body(self.functions[name].body)
            self.names = outer
            return made
        found: dict[str, Any] = {"": f"{name}()"}
        found[MODULE] = self.modules.get(name, "")
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Call):
            before = self.read_call(node.func.value)  # X("page").model() is of the page
            found |= {FIRST: before[FIRST]} if FIRST in before else {}
        if len(node.args) == 1:
            found |= _join_keys(FIRST, self.read_value(node.args[0]))
        for each in node.keywords:
            if each.arg:
                found |= _join_keys(each.arg, self.read_value(each.value))
        self.steps += len(found)
        return found


#: The key of the module that a function which is called comes from.
MODULE = "module of"


def _join_keys(key: str, found: dict[str, Any]) -> dict[str, Any]:
    """Put a key in front of each key."""
    return {f"{key}.{inner}" if inner else key: value for inner, value in found.items()}


def _list_targets(statement: ast.AST) -> list[ast.expr]:
    """List the targets of an assignment; none for other statements."""
    if isinstance(statement, ast.Assign):
        return statement.targets
    return [statement.target] if isinstance(statement, (ast.AugAssign, ast.AnnAssign)) else []
