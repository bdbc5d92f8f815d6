"""What completes, lowers and evaluates a plan, as JavaScript: the planner's own Python, translated.

Which values follow from others, which layouts are possible, what each pipeline stage holds, which
formula holds where: this is written once, as Python. A page that recomputes a plan needs it too,
so its source is translated here, statement by statement, for the part of Python that it uses. What
the translation does not know it refuses (Untranslated), when the page is written and not when it is
read. Of a class only those methods are translated that something names.

The JavaScript leans on a small library, ``$`` (templates/interactive/python.js), for what means
something else there: truth of empty lists, equality by value, dictionaries with any key.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from fractions import Fraction
from functools import cache, cached_property
from types import FunctionType, ModuleType
from typing import Any

from planner.book.canonical import canonical
from planner.book.expressions import Expression, Operand, expression

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitOr: "union",
    ast.BitAnd: "intersection",
    ast.BitXor: "difference",
}
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Lt: "({0}<{1})",
    ast.LtE: "({0}<={1})",
    ast.Gt: "({0}>{1})",
    ast.GtE: "({0}>={1})",
    ast.Eq: "$.eq({0},{1})",
    ast.NotEq: "!$.eq({0},{1})",
    ast.Is: "$.is({0},{1})",
    ast.IsNot: "!$.is({0},{1})",
    ast.In: "$.in({0},{1})",
    ast.NotIn: "!$.in({0},{1})",
}
#: What is made of nothing but its parts: expressions, or what a method named here says of them.
_FORMS: dict[type[ast.AST], str] = {
    ast.Continue: "continue;",
    ast.Break: "break;",
    ast.Expr: "{value};",
    ast.Return: "return {value};",
    ast.Raise: "throw {exc};",
    ast.If: "if({test:truth}){body:block}else{orelse:block}",
    ast.For: "for({target:target} of $.iter({iter})){body:block}",
    ast.While: "while({test:truth}){body:block}",
    ast.IfExp: "({test:truth}?{body}:{orelse})",
    ast.Yield: "yield {value}",
    ast.YieldFrom: "yield* $.iter({value})",
    ast.Name: "{id:name}",
    ast.Subscript: "$.at({value},{slice})",
    ast.BinOp: "$.{op:operator}({left},{right})",
    ast.Not: "!{operand:truth}",
    ast.USub: "(-{operand})",
    ast.List: "[{elts:items}]",
    ast.Tuple: "[{elts:items}]",
    ast.Set: "new $.Set_([{elts:items}])",
}
_PART = re.compile(r"\{(\w+)(?::(\w+))?\}")
#: The functions of Python that ``$`` has.
BUILTINS = frozenset(
    name
    for names in (
        "abs all any bool dict divmod enumerate float frozenset int iter len list map max min next",
        "range reversed round set sorted str sum tuple zip",
    )
    for name in names.split()
)
_SCOPES = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_METHODS = (FunctionType, property, cached_property)


class Program:
    """Translated functions, classes and constants, in an order in which they can be run.

    Args:
        given: objects of this program, with the JavaScript that stands in their place.
        asked: names of methods that JavaScript written by hand calls.
    """

    def __init__(self, given: Mapping[Any, str], asked: Collection[str] = ()) -> None:
        self.given = {id(_unwrapped(key)): text for key, text in given.items()}
        self.called, self.read = {"__init__", *asked}, set[str]()
        self._kept: list[Any] = list(given)  # so that no id is used again
        self._names: dict[int, str] = {}
        self._lines: list[str] = []
        self._classes: dict[str, type] = {}
        self._trees: dict[Expression, int] = {}
        self._nodes: list[str] = []

    def text(self) -> str:
        """All that was referred to: expressions, classes, then functions and constants."""
        bodies: dict[tuple[type, str], str] = {}
        while missing := [
            (cls, name)
            for cls in self._classes.values()
            for name in _members(cls)
            if name in (self.read if _is_property(cls, name) else self.called)
            and (cls, name) not in bodies
        ]:
            for cls, name in missing:
                bodies[cls, name] = self._member(cls, name)
        classes = []
        for label, cls in self._classes.items():
            own = "\n".join(text for (of, _), text in bodies.items() if of is cls)
            base = self._base(cls)
            classes.append(f"class {label}{f' extends {base}' if base else ''} {{\n{own}\n}}")
        trees = f"const X=$.trees([{','.join(self._nodes)}]);"
        return "\n".join((trees, *classes, *self._lines))

    # -- what is referred to --------------------------------------------------------------------

    def reference(self, value: Any, name: str = "", module: str = "") -> str:
        """How JavaScript calls an object, by default a function or class; what it stands for is
        translated at need. A constant has a name in a module."""
        plain = _unwrapped(value)
        known = self.given.get(id(plain)) or self._names.get(id(plain))
        if known is not None:
            return known
        if isinstance(plain, Operand):
            return self.tree(plain)
        if plain is None or isinstance(plain, (bool, int, str)):
            return literal(plain)
        if callable(plain) and getattr(builtins, name, None) is plain and name in BUILTINS:
            return "$.iterator" if name == "iter" else f"$.{name}"
        owner = getattr(plain, "__module__", None) or module
        if not owner.startswith("planner."):
            raise Untranslated(f"{module}: no JavaScript for {name}")
        name = name or plain.__name__
        label = f"{owner.removeprefix('planner.').replace('.', '_')}__{name}"
        self._names[id(plain)] = label
        self._kept.append(plain)
        if isinstance(plain, FunctionType):
            node = _parsed(plain)
            assert isinstance(node, ast.FunctionDef)
            text = _Function(self, plain).define(node, label)
            if plain is not value and _yields(node):  # what is decorated keeps what it yields
                text = f"const {label}=(...given)=>[...({text})(...given)];"
            self._lines.append(text)
        elif isinstance(plain, type):
            self._base(plain)
            self._classes[label] = plain
        else:
            self._lines.append(f"const {label}={self._constant(plain, name, module)};")
        return label

    def literal(self, value: Any) -> str:
        """Data in which expressions may stand."""
        return literal(value, self.tree)

    def tree(self, value: Any) -> str:
        """An expression, in canonical form, as the page reads it from one list of nodes."""
        if not isinstance(value, Operand):
            raise Untranslated(f"no JavaScript for {type(value).__name__}: {value!r}")
        return f"X[{self._node(canonical(expression(value)))}]"

    def _node(self, tree: Expression) -> int:
        if tree not in self._trees:
            places = ",".join(str(self._node(argument)) for argument in tree.args)
            data = tree.data[0] if tree.op == "symbol" else tree.data
            self._trees[tree] = len(self._nodes)
            self._nodes.append(f"[{quoted(tree.op)},[{places}],{literal(data)}]")
        return self._trees[tree]

    def _constant(self, value: Any, name: str, module: str) -> str:
        """Data as it is; a table that holds functions, from its source."""
        try:
            return self.literal(value)
        except Untranslated:
            owner = sys.modules[module]
            for node in ast.parse(inspect.getsource(owner)).body:
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                if any(isinstance(t, ast.Name) and t.id == name for t in targets):
                    return _Function(self, owner).expression(getattr(node, "value", None))
            raise

    def _base(self, cls: type) -> str:
        bases = [base for base in cls.__bases__ if base.__module__.startswith("planner.")]
        return self.reference(bases[0]) if bases else ""

    def _member(self, cls: type, name: str) -> str:
        """A method or a property; of a dataclass or tuple what sets its fields."""
        members = _members(cls)
        if members[name] is None:
            taken = inspect.signature(cls).parameters.values()
            sets = "".join(f"this.{p.name}={identifier(p.name)};" for p in taken)
            return f"constructor({','.join(map(self._field, taken))}){{{sets}}}"
        member = inspect.getattr_static(cls, name)
        node, function = members[name], _unwrapped(member)
        text = _Function(self, function, cls).method(node)
        if isinstance(member, cached_property):
            body = text.removeprefix(f"{name}()")
            return f"get {name}(){{return $.kept(this,{quoted(name)},()=>{body});}}"
        return f"get {text}" if isinstance(member, property) else text

    def _field(self, field: inspect.Parameter) -> str:
        """A field with its default; those that a factory makes are dictionaries."""
        name = identifier(field.name)
        if field.default is field.empty:
            return name
        made = str(field.default) == "<factory>"
        return f"{name}={'new $.Dict()' if made else self.literal(field.default)}"


def identifier(name: str) -> str:
    """A local name: none that JavaScript keeps for itself, or that a translated global has."""
    return f"{name}_"


def _unwrapped(value: Any) -> Any:
    """What a decorator wraps."""
    value = getattr(value, "fget", None) or getattr(value, "func", None) or value
    return inspect.unwrap(value) if callable(value) else value


@cache
def _parsed(value: Any) -> ast.stmt:
    return ast.parse(textwrap.dedent(inspect.getsource(value))).body[0]


@cache
def _members(cls: type) -> dict[str, Any]:
    """What a class itself defines, as syntax; None for the fields of a dataclass or tuple."""
    node = _parsed(cls)
    assert isinstance(node, ast.ClassDef)
    found: dict[str, Any] = {
        n.name: n
        for n in node.body
        if isinstance(n, ast.FunctionDef)
        and isinstance(inspect.getattr_static(cls, n.name), _METHODS)
    }
    fields = is_dataclass(cls) or hasattr(cls, "_fields")
    return {"__init__": None, **found} if fields else found


def _is_property(cls: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name), (property, cached_property))


class _Function:
    """Translates one function in the world of its globals."""

    def __init__(
        self, program: Program, where: FunctionType | ModuleType, cls: type | None = None
    ) -> None:
        self.program, self.cls = program, cls
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
        taken = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        own = _assigned(node.body) - taken
        self.locals = outer | taken | own
        head = self._arguments(node.args, skip)
        body = "".join(self._statement(statement) for statement in node.body)
        names = ",".join(sorted(identifier(name) for name in own - _defined(node.body)))
        self.locals = outer
        return f"({head}) {{{f'let {names};' if names else ''}{body}}}"

    def _arguments(self, arguments: ast.arguments, skip: int = 0) -> str:
        """The parameters; those that ``**`` takes come last, as a dictionary."""
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
            texts.append(f"{identifier(arguments.kwarg.arg)}=new $.Dict()")
        return ",".join(texts)

    # -- statements ---------------------------------------------------------------------------

    def _block(self, body: list[ast.stmt]) -> str:
        return f"{{{''.join(self._statement(node) for node in body)}}}"

    def _form(self, node: ast.AST) -> str:
        """What is made of nothing but its parts; an operator may say how."""
        how: ast.AST = getattr(node, "op", node)
        form = _FORMS.get(type(node)) or _FORMS.get(type(how))
        if form is None or (getattr(node, "orelse", None) and "orelse" not in form):
            text = ast.unparse(node)
            raise Untranslated(f"{self.module}: no JavaScript for {type(node).__name__}: {text}")

        def part(found: re.Match[str]) -> str:
            write = getattr(self, f"_{found[2]}") if found[2] else self.expression
            return str(write(getattr(node, found[1])))

        return _PART.sub(part, form).removesuffix("else{}")

    def _operator(self, op: ast.operator) -> str:
        return _BINARY[type(op)]

    def _statement(self, node: ast.stmt) -> str:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Pass() | ast.ImportFrom():
                return ""
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, self.expression(value))
            case ast.Assign(targets=targets, value=value):
                rest = "".join(self._assign(target, "$v") for target in targets)
                return f"{{const $v={self.expression(value)};{rest}}}"
            case ast.AnnAssign(target=target, value=value):
                return self._assign(target, self.expression(value)) if value else ""
            case ast.AugAssign(target=target, op=ast.Add(), value=value):
                grown = f"$.grown({self.expression(target)},{self.expression(value)})"
                return self._assign(target, grown)
            case ast.AugAssign(target=target, op=op, value=value):
                return self._assign(target, self._form(ast.BinOp(target, op, value)))
            case ast.Try(body=body, handlers=handlers, orelse=[], finalbody=[]):
                caught = "".join(map(self._handler, handlers))
                return f"try{self._block(body)}catch($e){{{caught}throw $e;}}"
            case ast.FunctionDef():
                return self.define(node, identifier(node.name))
        return self._form(node)

    def _handler(self, node: ast.ExceptHandler) -> str:
        """What is done about an exception; if it does not leave the function, what follows is."""
        assert node.type is not None
        name = f"{identifier(node.name)}=$e;" if node.name else ""
        if not isinstance(node.body[-1], (ast.Return, ast.Raise)):
            raise Untranslated(f"{self.module}: no JavaScript for {ast.unparse(node)}")
        body = self._block(node.body)
        return f"if($.isinstance($e,{self._types(node.type)})){{{name}{body}}}"

    def _assign(self, target: ast.expr, value: str) -> str:
        if isinstance(target, ast.Subscript):
            owner, place = self.expression(target.value), self.expression(target.slice)
            return f"$.put({owner},{place},{value});"
        if not isinstance(target, ast.Tuple):
            return f"{self._target(target)}={value};"
        if not any(isinstance(part, ast.Subscript) for part in target.elts):
            return f"{self._target(target)}=$.list({value});"
        rest = "".join(self._assign(part, f"$l[{i}]") for i, part in enumerate(target.elts))
        return f"{{const $l=$.list({value});{rest}}}"

    def _target(self, target: ast.expr) -> str:
        match target:
            case ast.Name(id="_"):
                return ""
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return f"[{','.join(self._target(part) for part in parts)}]"
            case ast.Starred(value=value):
                return f"...{self._target(value)}"
        return self.expression(target)

    # -- expressions --------------------------------------------------------------------------

    def expression(self, node: ast.expr | None) -> str:
        match node:
            case None:
                return "null"
            case ast.Constant(value=value):
                return literal(value)
            case ast.Attribute():
                return self._attribute(node)
            case ast.Subscript(value=value, slice=ast.Slice(lower=low, upper=high, step=step)):
                ends = (self.expression(end) for end in (low, high, step))
                return f"$.slice({self.expression(value)},{','.join(ends)})"
            case ast.Call():
                return self._call(node)
            case ast.BoolOp(op=op, values=values):
                name = "$.and" if isinstance(op, ast.And) else "$.or"
                return f"{name}({','.join(f'()=>({self.expression(v)})' for v in values)})"
            case ast.Compare(left=left, ops=ops, comparators=rights):
                return self._compare([left, *rights], ops)
            case ast.Dict(keys=keys, values=values):
                return f"new $.Dict([{self._pairs(keys, values)}])"
            case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
                return self._comprehend(node.generators, element)
            case ast.SetComp(elt=element):
                return f"new $.Set_({self._comprehend(node.generators, element)})"
            case ast.DictComp(key=key, value=value):
                pair = ast.Tuple([key, value], ast.Load())
                return f"new $.Dict({self._comprehend(node.generators, pair)})"
            case ast.Lambda(args=arguments, body=body):
                outer, self.locals = self.locals, self.locals | {a.arg for a in arguments.args}
                text = f"(({self._arguments(arguments)})=>({self.expression(body)}))"
                self.locals = outer
                return text
            case ast.JoinedStr(values=values):
                return f"({'+'.join(self._piece(value) for value in values) or quoted('')})"
        return self._form(node)

    def _items(self, items: list[ast.expr]) -> str:
        return ",".join(
            f"...$.iter({self.expression(item.value)})"
            if isinstance(item, ast.Starred)
            else self.expression(item)
            for item in items
        )

    def _pairs(self, keys: Sequence[ast.expr | None], values: list[ast.expr]) -> str:
        return ",".join(
            f"...$.pairs({self.expression(value)})"
            if key is None
            else f"[{self.expression(key)},{self.expression(value)}]"
            for key, value in zip(keys, values, strict=True)
        )

    def _piece(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(value)):
                return quoted(value)
            case ast.FormattedValue(value=value, conversion=-1, format_spec=None):
                return f"$.str({self.expression(value)})"
            case ast.FormattedValue(value=value, conversion=114, format_spec=None):  # !r
                return f"$.repr({self.expression(value)})"
            case ast.FormattedValue(value=value, conversion=-1, format_spec=ast.JoinedStr() as how):
                return f"$.format({self.expression(value)},{self.expression(how)})"
        return self._form(node)

    def _truth(self, node: ast.expr) -> str:
        match node:
            case ast.BoolOp(op=op, values=values):
                sign = "&&" if isinstance(op, ast.And) else "||"
                return f"({sign.join(map(self._truth, values))})"
            case ast.Compare() | ast.UnaryOp(op=ast.Not()):
                return self.expression(node)
        return f"$.bool({self.expression(node)})"

    def _compare(self, sides: list[ast.expr], ops: list[ast.cmpop]) -> str:
        match sides, ops:
            case [ast.Call(func=ast.Name(id="type"), args=[value]), kind], [ast.Is() | ast.IsNot()]:
                sign = "!" if isinstance(ops[0], ast.IsNot) else ""
                return f"{sign}$.isinstance({self.expression(value)},{self._types(kind)})"
        texts = [self.expression(side) for side in sides]
        parts = [
            _COMPARISONS[type(op)].format(left, right)
            for op, left, right in zip(ops, texts, texts[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else f"({'&&'.join(parts)})"

    def _comprehend(self, generators: list[ast.comprehension], element: ast.expr) -> str:
        """The list of what is comprehended; its names are its own."""
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
        text = f"(()=>{{const $c=[];{head}$c.push({self.expression(element)});{tail}return $c;}})()"
        self.locals = outer
        return text

    # -- names and calls ----------------------------------------------------------------------

    def _name(self, name: str) -> str:
        if name == self.me:
            return "this"
        if name in self.locals:
            return identifier(name)
        return self.program.reference(self._global(name), name, self.module)

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
        text = f"{self.expression(node.value)}.{node.attr}"
        if self._is_me(node.value) and isinstance(getattr(self.cls, node.attr, None), FunctionType):
            self.program.called.add(node.attr)
            return f"{text}.bind(this)"
        self.program.read.add(node.attr)
        return text

    def _call(self, node: ast.Call) -> str:
        target = self._static(node.func)
        match node.func:
            case ast.Name(id="isinstance"):
                return f"$.isinstance({self.expression(node.args[0])},{self._types(node.args[1])})"
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
                base = self.cls.__bases__[0] if self.cls else None
                return f"super({self._ordered(node, base)})"
            case ast.Attribute(value=value, attr=name) if target is None:
                self.program.called.add(name)
                called = getattr(self.cls, name, None) if self._is_me(value) else None
                arguments = self._ordered(node, called, skip=1)
                if called is not None:
                    return f"this.{name}({arguments})"
                return f"$.call({self.expression(value)},{quoted(name)},[{arguments}])"
        new = isinstance(target, type) and target.__module__.startswith("planner")
        called = self.expression(node.func)
        if target is not None and self._by_name(node, target):
            made = f"(...given)=>new {called}(...given)" if new else called
            names = ",".join(quoted(name) for name in _parameters(target))
            names_given = [ast.Constant(k.arg) if k.arg else None for k in node.keywords]
            pairs = self._pairs(names_given, [k.value for k in node.keywords])
            return f"$.named_call({made},[{names}],[{self._items(node.args)}],[{pairs}])"
        return f"{'new ' if new else ''}{called}({self._ordered(node, target)})"

    def _is_me(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.me

    def _by_name(self, node: ast.Call, target: Callable[..., Any]) -> bool:
        """Whether only a run tells which arguments are given, or ``**`` takes some."""
        if not node.keywords or not _ours(target):
            return False
        taken = inspect.signature(target).parameters.values()
        return any(k.arg is None for k in node.keywords) or any(
            p.kind is p.VAR_KEYWORD for p in taken
        )

    def _ordered(self, node: ast.Call, target: Callable[..., Any] | None, skip: int = 0) -> str:
        """Arguments by position, those by name in their places."""
        texts = [self._items([argument]) for argument in node.args]
        if not node.keywords:
            return ",".join(texts)
        if target is None or not _ours(target):
            pairs = (f"{k.arg}:{self.expression(k.value)}" for k in node.keywords)
            return ",".join([*texts, f"$.named({{{','.join(pairs)}}})"])
        order = _parameters(target)[skip:]
        named = {k.arg: self.expression(k.value) for k in node.keywords}
        last = max(order.index(str(name)) for name in named)
        texts += [named.get(name, "undefined") for name in order[len(texts) : last + 1]]
        return ",".join(texts)

    def _types(self, node: ast.expr) -> str:
        """Types to compare with: classes of this program, and names that the library knows."""
        types = node.elts if isinstance(node, ast.Tuple) else [node]
        found = (
            self.expression(t) if _ours(self._static(t)) else quoted(ast.unparse(t)) for t in types
        )
        return f"[{','.join(found)}]"


def _ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("planner.")


def _parameters(value: Any) -> list[str]:
    """The names of the parameters of what is called."""
    return list(inspect.signature(value).parameters)


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
    caught = {str(n.name) for n in _walk(body) if isinstance(n, ast.ExceptHandler) and n.name}
    return stored | caught | _defined(body)


def _defined(body: list[ast.stmt]) -> set[str]:
    return {n.name for n in _walk(body) if isinstance(n, ast.FunctionDef)}


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
