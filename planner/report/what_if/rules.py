"""The rules that complete a plan, as JavaScript: Python functions of this program, translated.

Which values follow from others, which layouts are possible, what each pipeline stage holds: these
rules are written once, as Python. A page that recomputes a plan needs them too, so their source is
translated here, statement by statement, for the part of Python that they use. What it does not
know it refuses (Untranslated), when the page is written and not when it is read.

The JavaScript leans on a small library, ``$`` (templates/interactive/python.js), for what means
something else there: truth of empty lists, equality by value, dictionaries with any key.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from types import FunctionType, ModuleType
from typing import Any

from planner.book.expressions import Expression
from planner.report.what_if.words import Formulas, Untranslated, identifier, literal, quoted

__all__ = ["Program"]

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "$.add",
    ast.Mult: "$.mul",
    ast.FloorDiv: "$.floordiv",
    ast.Mod: "$.mod",
    ast.BitOr: "$.union",
    ast.BitAnd: "$.intersection",
}
_SIGNS: dict[type[ast.AST], str] = {ast.Sub: "-", ast.Div: "/", ast.Pow: "**"}
_ORDER: dict[type[ast.AST], str] = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
#: The functions of Python that ``$`` has.
BUILTINS = frozenset(
    (
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "divmod",
        "enumerate",
        "frozenset",
        "int",
        "iter",
        "len",
        "list",
        "map",
        "max",
        "min",
        "next",
        "range",
        "reversed",
        "round",
        "set",
        "sorted",
        "str",
        "sum",
        "tuple",
        "zip",
    )
)
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Program:
    """Translated functions, classes and constants, in an order in which they can be run.

    ``given`` maps objects of this program to the JavaScript that stands in their place.
    """

    def __init__(self, formulas: Formulas, given: Mapping[Any, str]) -> None:
        self.formulas = formulas
        self.given = {
            id(inspect.unwrap(key) if callable(key) else key): text for key, text in given.items()
        }
        self._kept = list(given)  # so that no id is used again
        self.lines: list[str] = []
        self._names: dict[int, str] = {}

    def text(self) -> str:
        return "\n".join(self.lines)

    def reference(self, value: Any, name: str, module: str) -> str:
        """How JavaScript calls a global of a module; what it stands for is translated at need."""
        value = inspect.unwrap(value) if callable(value) else value
        if id(value) in self.given:
            return self.given[id(value)]
        if id(value) in self._names:
            return self._names[id(value)]
        if isinstance(value, Expression):
            return self.formulas.bound(value)
        if value is None or isinstance(value, (bool, int, str)):
            return literal(value)
        if callable(value) and getattr(builtins, name, None) is value and name in BUILTINS:
            return "$.iterator" if name == "iter" else f"$.{name}"
        if not str(getattr(value, "__module__", "planner.")).startswith("planner."):
            raise Untranslated(f"{module}: no JavaScript for {name}")
        owner = getattr(value, "__module__", module) or module
        label = f"{owner.removeprefix('planner.').replace('.', '_')}__{name}"
        self._names[id(value)] = label
        self._kept.append(value)
        if isinstance(value, FunctionType):
            node = _parsed(value)
            assert isinstance(node, ast.FunctionDef)
            self.lines.append(_Function(self, value).define(node, label))
        elif isinstance(value, type):
            self.lines.append(self._class(value, label))
        else:
            self.lines.append(f"const {label} = {self._constant(value, name, module)};")
        return label

    def _constant(self, value: Any, name: str, module: str) -> str:
        """Data as it is; a table that holds functions, from its source."""
        try:
            return literal(value, self.formulas.bound)
        except Untranslated:
            owner = sys.modules[module]
            for node in ast.parse(inspect.getsource(owner)).body:
                targets = (
                    node.targets
                    if isinstance(node, ast.Assign)
                    else [getattr(node, "target", None)]
                )
                if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    return _Function(self, owner).expression(getattr(node, "value", None))
            raise

    def _class(self, cls: type, label: str) -> str:
        """A class: what its fields or its ``__init__`` set, its methods and properties."""
        body = []
        if is_dataclass(cls) and "__init__" not in _own(cls):
            arguments = []
            for field in fields(cls):
                text = identifier(field.name)
                if field.default_factory is not MISSING:
                    text += "=new $.Dict()"
                elif field.default is not MISSING:
                    text += f"={literal(field.default)}"
                arguments.append(text)
            sets = "".join(f"this.{f.name}={identifier(f.name)};" for f in fields(cls))
            body.append(f"constructor({','.join(arguments)}){{{sets}}}")
        for name, node in _own(cls).items():
            member = inspect.getattr_static(cls, name)
            kind = ""
            if isinstance(member, (property, cached_property)):
                kind = "get "
                member = member.fget if isinstance(member, property) else member.func
            translator = _Function(self, inspect.unwrap(member))
            body.append(kind + translator.method(node))
        return f"class {label} {{\n" + "\n".join(body) + "\n}"


def _own(cls: type) -> dict[str, ast.FunctionDef]:
    node = _parsed(cls)
    assert isinstance(node, ast.ClassDef)
    return {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}


def _parsed(value: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


def _signature(value: Any) -> list[str]:
    """The names of positional parameters of what is called."""
    return list(inspect.signature(value).parameters)


class _Function:
    """Translates one function in the world of its globals."""

    def __init__(self, program: Program, where: FunctionType | ModuleType) -> None:
        self.program = program
        self.globals: Mapping[str, Any] = (
            where.__globals__ if isinstance(where, FunctionType) else vars(where)
        )
        self.module = self.globals["__name__"]
        self.locals: set[str] = set()
        self.me: str | None = None

    # -- functions ----------------------------------------------------------------------------

    def define(self, node: ast.FunctionDef, label: str) -> str:
        star = "*" if _yields(node) else ""
        return f"function{star} {label}{self._rest(node)}"

    def method(self, node: ast.FunctionDef) -> str:
        name = "constructor" if node.name == "__init__" else node.name
        self.me = node.args.args[0].arg
        star = "*" if _yields(node) else ""
        return f"{star}{name}{self._rest(node, skip=1)}"

    def _rest(self, node: ast.FunctionDef, skip: int = 0) -> str:
        outer = self.locals
        taken = {a.arg for a in (*node.args.args, *node.args.kwonlyargs)}
        if node.args.vararg:
            taken.add(node.args.vararg.arg)
        own = _assigned(node.body) - taken
        self.locals = outer | taken | own
        head = self._arguments(node.args, skip)
        body = self._block(node.body)
        names = ",".join(sorted(identifier(name) for name in own - _defined(node.body)))
        self.locals = outer
        return f"({head}) {{{f'let {names};' if names else ''}{body}}}"

    def _arguments(self, arguments: ast.arguments, skip: int = 0) -> str:
        names = [*arguments.args, *arguments.kwonlyargs]
        defaults: list[ast.expr | None] = [
            *[None] * (len(arguments.args) - len(arguments.defaults)),
            *arguments.defaults,
            *arguments.kw_defaults,
        ]
        texts = [
            identifier(name.arg) + ("" if default is None else f"={self.expression(default)}")
            for name, default in zip(names, defaults, strict=True)
        ][skip:]
        if arguments.vararg:
            texts.append(f"...{identifier(arguments.vararg.arg)}")
        if arguments.kwarg:
            raise Untranslated(f"{self.module}: **{arguments.kwarg.arg}")
        return ",".join(texts)

    # -- statements ---------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> str:
        return "".join(self._statement(node) for node in body)

    def _statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Return(value=value):
                return f"return {self.expression(value) if value else 'null'};"
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Pass() | ast.ImportFrom():
                return ""
            case ast.Expr(value=value):
                return f"{self.expression(value)};"
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, self.expression(value))
            case ast.Assign(targets=targets, value=value):
                rest = "".join(self._assign(target, "$v") for target in targets)
                return f"{{const $v={self.expression(value)};{rest}}}"
            case ast.AnnAssign(target=target, value=value):
                return self._assign(target, self.expression(value)) if value else ""
            case ast.AugAssign(target=target, op=op, value=value):
                before = self._load(target)
                return self._assign(target, self._operate(op, before, self.expression(value)))
            case ast.If(test=test, body=body, orelse=rest):
                text = f"if({self._truth(test)}){{{self._block(body)}}}"
                return text + (f"else{{{self._block(rest)}}}" if rest else "")
            case ast.For(target=target, iter=items, body=body, orelse=[]):
                values = f"$.iter({self.expression(items)})"
                return f"for({self._target(target)} of {values}){{{self._block(body)}}}"
            case ast.While(test=test, body=body, orelse=[]):
                return f"while({self._truth(test)}){{{self._block(body)}}}"
            case ast.Raise(exc=value) if value is not None:
                return f"throw {self.expression(value)};"
            case ast.Continue():
                return "continue;"
            case ast.Break():
                return "break;"
            case ast.FunctionDef():
                return self.define(node, identifier(node.name))
        raise self._unknown(node)

    def _assign(self, target: ast.expr, value: str) -> str:
        if isinstance(target, ast.Subscript):
            return f"$.put({self.expression(target.value)},{self._index(target)},{value});"
        if not isinstance(target, ast.Tuple):
            return f"{self._target(target)}={value};"
        if not any(isinstance(part, ast.Subscript) for part in target.elts):
            return f"{self._target(target)}=$.list({value});"
        rest = "".join(self._assign(part, f"$l[{i}]") for i, part in enumerate(target.elts))
        return f"{{const $l=$.list({value});{rest}}}"

    def _target(self, target: ast.expr) -> str:
        match target:
            case ast.Name(id=name):
                return identifier(name)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return f"[{','.join(self._target(part) for part in parts)}]"
            case ast.Starred(value=value):
                return f"...{self._target(value)}"
            case ast.Attribute():
                return self.expression(target)
        raise self._unknown(target)

    def _load(self, target: ast.expr) -> str:
        """The value of what is about to be assigned to."""
        return self.expression(target)

    # -- expressions --------------------------------------------------------------------------

    def expression(self, node: ast.expr | None) -> str:
        match node:
            case ast.Constant(value=value):
                return literal(value)
            case ast.Name(id=name):
                return self._name(name)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript(value=value, slice=ast.Slice(lower=low, upper=high, step=None)):
                ends = (self.expression(end) if end else "null" for end in (low, high))
                return f"$.slice({self.expression(value)},{','.join(ends)})"
            case ast.Subscript(value=value):
                return f"$.at({self.expression(value)},{self._index(node)})"
            case ast.Call():
                return self._call(node)
            case ast.BinOp(left=left, op=op, right=right):
                return self._operate(op, self.expression(left), self.expression(right))
            case ast.BoolOp(op=op, values=values):
                name = "$.and" if isinstance(op, ast.And) else "$.or"
                return f"{name}({','.join(f'()=>{self._lazy(v)}' for v in values)})"
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return f"!{self._truth(operand)}"
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return f"(-{self.expression(operand)})"
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compare([left, *rights], ops)
            case ast.IfExp(test=test, body=body, orelse=rest):
                yes, no = self.expression(body), self.expression(rest)
                return f"({self._truth(test)}?{yes}:{no})"
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return f"[{self._items(items)}]"
            case ast.Set(elts=items):
                return f"new $.Set_([{self._items(items)}])"
            case ast.Dict(keys=keys, values=values):
                pairs = [
                    f"...$.pairs({self.expression(value)})"
                    if key is None
                    else f"[{self.expression(key)},{self.expression(value)}]"
                    for key, value in zip(keys, values, strict=True)
                ]
                return f"new $.Dict([{','.join(pairs)}])"
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                return f"[...{self._comprehend(node.generators, element)}]"
            case ast.SetComp(elt=element):
                return f"new $.Set_({self._comprehend(node.generators, element)})"
            case ast.DictComp(key=key, value=value):
                pair = ast.Tuple([key, value], ast.Load())
                return f"new $.Dict({self._comprehend(node.generators, pair)})"
            case ast.Lambda(args=arguments, body=body):
                outer, self.locals = self.locals, self.locals | {a.arg for a in arguments.args}
                text = f"({self._arguments(arguments)})=>{self._lazy(body)}"
                self.locals = outer
                return f"({text})"
            case ast.JoinedStr(values=values):
                return f"({'+'.join(self._piece(value) for value in values) or quoted('')})"
            case ast.Yield(value=value):
                return f"yield {self.expression(value) if value else 'null'}"
            case ast.YieldFrom(value=value):
                return f"yield* $.iter({self.expression(value)})"
        raise self._unknown(node)

    def _lazy(self, node: ast.expr) -> str:
        return f"({self.expression(node)})"

    def _items(self, items: list[ast.expr]) -> str:
        return ",".join(
            f"...$.iter({self.expression(item.value)})"
            if isinstance(item, ast.Starred)
            else self.expression(item)
            for item in items
        )

    def _piece(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(value)):
                return quoted(value)
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return f"$.str({self.expression(value)})"
            case ast.FormattedValue(value=value, conversion=114, format_spec=None):  # !r
                return f"$.repr({self.expression(value)})"
        raise self._unknown(node)

    def _truth(self, node: ast.expr) -> str:
        return f"$.bool({self.expression(node)})"

    def _index(self, node: ast.Subscript) -> str:
        return self.expression(node.slice)

    def _operate(self, op: ast.operator, left: str, right: str) -> str:
        if type(op) in _BINARY:
            return f"{_BINARY[type(op)]}({left},{right})"
        if type(op) in _SIGNS:
            return f"({left}{_SIGNS[type(op)]}{right})"
        raise self._unknown(op)

    def _compare(self, sides: list[ast.expr], ops: list[ast.cmpop]) -> str:
        texts = [self.expression(side) for side in sides]
        parts = []
        for op, left, right in zip(ops, texts, texts[1:], strict=False):
            match op:
                case ast.Eq():
                    parts.append(f"$.eq({left},{right})")
                case ast.NotEq():
                    parts.append(f"!$.eq({left},{right})")
                case ast.Is():
                    parts.append(f"$.is({left},{right})")
                case ast.IsNot():
                    parts.append(f"!$.is({left},{right})")
                case ast.In():
                    parts.append(f"$.in({left},{right})")
                case ast.NotIn():
                    parts.append(f"!$.in({left},{right})")
                case _:
                    parts.append(f"({left}{_ORDER[type(op)]}{right})")
        return parts[0] if len(parts) == 1 else f"({'&&'.join(parts)})"

    def _comprehend(self, generators: list[ast.comprehension], element: ast.expr) -> str:
        """A generator that is run at once; its names are its own."""
        outer = self.locals
        head, tail = "", ""
        for generator in generators:
            items = self.expression(generator.iter)
            self.locals = self.locals | _names(generator.target)
            head += f"for(const {self._target(generator.target)} of $.iter({items})){{"
            for condition in generator.ifs:
                head += f"if({self._truth(condition)}){{"
                tail += "}"
            tail += "}"
        text = f"(function*(){{{head}yield {self.expression(element)};{tail}}}).call(this)"
        self.locals = outer
        return text

    # -- names and calls ----------------------------------------------------------------------

    def _name(self, name: str) -> str:
        if name == self.me:
            return "this"
        if name in self.locals:
            return identifier(name)
        value = self._global(name)
        return self.program.reference(value, name, self.module)

    def _global(self, name: str) -> Any:
        if name in self.globals:
            return self.globals[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise Untranslated(f"{self.module}: unknown name {name}")

    def _static(self, node: ast.expr) -> Any:
        """The object that a name or a member of a module stands for; None where only a run of it
        would tell."""
        if isinstance(node, ast.Name) and node.id not in self.locals and node.id != self.me:
            return self._global(node.id)
        if isinstance(node, ast.Attribute):
            owner = self._static(node.value)
            if isinstance(owner, ModuleType):
                return getattr(owner, node.attr)
        return None

    def _attribute(self, node: ast.Attribute) -> str:
        owner = self._static(node.value)
        if isinstance(owner, ModuleType):
            return self.program.reference(getattr(owner, node.attr), node.attr, owner.__name__)
        return f"{self.expression(node.value)}.{node.attr}"

    def _call(self, node: ast.Call) -> str:
        target = self._static(node.func)
        if target is isinstance:
            return f"$.isinstance({self.expression(node.args[0])},{self._types(node.args[1])})"
        arguments = self._ordered(node, target)
        if target is None and isinstance(node.func, ast.Attribute):
            owner = self.expression(node.func.value)
            return f"$.call({owner},{quoted(node.func.attr)},[{arguments}])"
        new = "new " if isinstance(target, type) and target.__module__.startswith("planner") else ""
        return f"{new}{self.expression(node.func)}({arguments})"

    def _ordered(self, node: ast.Call, target: Callable[..., Any] | None) -> str:
        """Arguments by position, those by name in their places."""
        texts = [self._items([argument]) for argument in node.args]
        if not node.keywords:
            return ",".join(texts)
        if target is None or getattr(target, "__module__", "") == "builtins":
            pairs = (f"{k.arg}:{self.expression(k.value)}" for k in node.keywords)
            return ",".join([*texts, f"$.named({{{','.join(pairs)}}})"])
        order = _signature(target)
        named = {k.arg: self.expression(k.value) for k in node.keywords}
        last = max(order.index(str(name)) for name in named)
        texts += [named.get(name, "undefined") for name in order[len(texts) : last + 1]]
        return ",".join(texts)

    def _types(self, node: ast.expr) -> str:
        types = node.elts if isinstance(node, ast.Tuple) else [node]
        return f"[{','.join(quoted(ast.unparse(t)) for t in types)}]"

    def _unknown(self, node: Any) -> Untranslated:
        text = ast.unparse(node) if isinstance(node, ast.AST) else node
        return Untranslated(f"{self.module}: no JavaScript for {type(node).__name__}: {text}")


def _walk(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """All nodes of a body but those of scopes inside it."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack += ast.iter_child_nodes(node)


def _yields(node: ast.FunctionDef) -> bool:
    return any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in _walk(node.body))


def _names(target: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def _assigned(body: list[ast.stmt]) -> set[str]:
    """The names that a body gives values to."""
    stored = {n.id for n in _walk(body) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | _defined(body)


def _defined(body: list[ast.stmt]) -> set[str]:
    return {n.name for n in _walk(body) if isinstance(n, ast.FunctionDef)}
