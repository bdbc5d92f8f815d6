"""What completes, lowers and evaluates a plan, as JavaScript: the planner's own Python, translated.

Which values follow from others, which layouts are possible, what each pipeline stage holds, which
formula holds where: this is written once, as Python. A page that recomputes a plan needs it too,
so its source is translated here, statement by statement, for the part of Python that it uses. What
the translation does not know it refuses (Untranslated), when the page is written and not when it is
read. Of a class only those members are translated that something names.

The JavaScript leans on a small library, ``$`` (templates/interactive/python.js), for what means
something else there: truth of empty lists, equality by value, dictionaries with any key.
"""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import json
import re
import textwrap
from collections import ChainMap, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property
from types import CodeType, FunctionType, ModuleType
from typing import Any

from planner.book.canonical import canonical
from planner.book.expressions import Expression, Operand, expression

#: Each piece of syntax by its parts: expressions, or what a method named here says of them (of the
#: piece itself where no part is named).
_FORMS: dict[type[ast.AST], str] = {
    ast.Assert: "",
    ast.Continue: "continue;",
    ast.Expr: "{value:effect}",
    ast.Return: "return {value};",
    ast.Raise: "throw {exc};",
    ast.Assign: "{:assignment}",
    ast.AnnAssign: "{target:target}={value};",
    ast.AugAssign: "{target:target}={:grown};",
    ast.If: "if($.bool({test})){{body}}else{{orelse}}",
    ast.For: "for({target:target} of $.each({iter})){{body}}",
    ast.While: "while($.bool({test})){{body}}",
    ast.Try: "try{{body}}catch($e){{handlers}throw $e;}",
    ast.ExceptHandler: "if($.isinstance($e,{type})){{name:caught}{body}}else ",
    ast.FunctionDef: "{:define}",
    ast.Constant: "{value:literal}",
    ast.Name: "{id:name}",
    ast.Attribute: "{:attribute}",
    ast.Call: "{:call}",
    ast.Starred: "...$.each({value})",
    ast.Subscript: "$.at({value},{slice})",
    ast.Slice: "$.slice({lower},{upper},{step})",
    ast.Compare: "{:compare}",
    ast.IfExp: "($.bool({test})?{body}:{orelse})",
    ast.And: "$.and({values:lazily})",
    ast.Or: "$.or({values:lazily})",
    ast.Not: "!$.bool({operand})",
    ast.USub: "(-{operand})",
    ast.List: "[{elts}]",
    ast.Tuple: "[{elts}]",
    ast.Set: "new $.Set_([{elts}])",
    ast.Dict: "new $.Dict([{:pairs}])",
    ast.ListComp: "{:comprehension}",
    ast.GeneratorExp: "{:comprehension}",
    ast.SetComp: "new $.Set_({:comprehension})",
    ast.DictComp: "new $.Dict({:comprehension})",
    ast.Lambda: "(({args:parameters})=>({body}))",
    ast.JoinedStr: '[{values}].join("")',
    ast.FormattedValue: "$.format({value},{:format})",
    ast.Yield: "yield {value}",
    ast.YieldFrom: "yield* $.each({value})",
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
    ast.Add: "$.add({left},{right})",
    ast.Sub: "$.sub({left},{right})",
    ast.Mult: "$.mul({left},{right})",
    ast.Div: "$.div({left},{right})",
    ast.FloorDiv: "$.floordiv({left},{right})",
    ast.Mod: "$.mod({left},{right})",
    ast.Pow: "$.pow({left},{right})",
    ast.BitOr: "$.union({left},{right})",
    ast.BitAnd: "$.intersection({left},{right})",
    ast.BitXor: "$.difference({left},{right})",
}
_PART = re.compile(r"\{(\w+|(?=:))(?::(\w+))?\}")
#: The functions of Python that ``$`` has.
BUILTINS = frozenset(
    name
    for names in (
        "abs all any bool dict divmod enumerate float frozenset int isinstance iter len list map",
        "max min next range reversed round set sorted str sum tuple type zip",
    )
    for name in names.split()
)
_METHODS = (FunctionType, property, cached_property)


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
    if value is None or isinstance(value, (bool, str)):
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


class Program:
    """Translated functions, classes and constants, in an order in which they can be run.

    Args:
        given: objects of this program, with the JavaScript that stands in their place.
        asked: classes of which JavaScript written by hand makes objects, and names of methods that
            it calls.
    """

    def __init__(self, given: Mapping[Any, str], asked: Collection[type | str] = ()) -> None:
        self.named = {*asked}  # what something names of classes, and those that it makes
        self._names = {id(_unwrapped(key)): text for key, text in given.items()}
        self._kept: list[Any] = list(given)  # so that no id is used again
        self._lines: list[str] = []
        self._classes: dict[str, tuple[type, str]] = {}  # with what each extends
        self._trees: dict[Expression, int] = {}
        self._nodes: list[str] = []

    def text(self) -> str:
        """All that was referred to: expressions, classes, then functions and constants."""
        bodies: dict[str, dict[str, str]] = defaultdict(dict)
        while missing := [
            (label, cls, name)
            for label, (cls, _) in self._classes.items()
            for name in _members(cls)
            if (cls if name == "__init__" else name) in self.named and name not in bodies[label]
        ]:
            for label, cls, name in missing:
                bodies[label][name] = self._member(cls, name)
        classes = []
        for label, (_, extends) in self._classes.items():
            members = "\n".join(bodies[label].values())
            classes.append(f"class {label}{extends} {{\n{members}\n}}")
        trees = f"const X=$.trees([{','.join(self._nodes)}]);"
        return "\n".join((trees, *classes, *self._lines))

    # -- what is referred to --------------------------------------------------------------------

    def reference(self, value: Any, name: str = "", module: str = "") -> str:
        """How JavaScript calls an object, by default a function or class; what it stands for is
        translated at need. A constant has a name in a module."""
        plain = _unwrapped(value)
        if id(plain) in self._names:
            return self._names[id(plain)]
        if isinstance(plain, Operand):
            return self.tree(plain)
        if plain is None or isinstance(plain, (bool, int, str)):
            return literal(plain)
        if callable(plain) and getattr(builtins, name, None) is plain and name in BUILTINS:
            return f"$.{name}"
        owner = getattr(plain, "__module__", None) or module
        name = name or getattr(plain, "__name__", "")
        if not owner.startswith("planner.") or not name:
            raise Untranslated(f"{module}: no JavaScript for {name or repr(value)}")
        label = f"{owner.removeprefix('planner.').replace('.', '_')}__{name}"
        self._names[id(plain)] = label
        self._kept.append(plain)
        if isinstance(plain, FunctionType):
            text = _Function(self, plain).text(label)
            if plain is not value and inspect.isgeneratorfunction(plain):
                # What is decorated keeps what it yields.
                text = f"const {label}=(...given)=>[...({text})(...given)];"
            self._lines.append(text)
        elif isinstance(plain, type):
            bases = [f" extends {self.reference(base)}" for base in filter(_ours, plain.__bases__)]
            self._classes[label] = plain, "".join(bases)
        else:
            self._lines.append(f"const {label}={literal(value, self.reference)};")
        return label

    def tree(self, value: Operand) -> str:
        """An expression, in canonical form, as the page reads it from one list of nodes."""
        return f"X[{self._node(canonical(expression(value)))}]"

    def _node(self, tree: Expression) -> int:
        if tree not in self._trees:
            places = ",".join(str(self._node(argument)) for argument in tree.args)
            data = tree.data[0] if tree.op == "symbol" else tree.data
            self._trees[tree] = len(self._nodes)
            self._nodes.append(f"[{quoted(tree.op)},[{places}],{literal(data)}]")
        return self._trees[tree]

    def _member(self, cls: type, name: str) -> str:
        """A method or a property; of a dataclass or tuple what sets its fields."""
        member = _members(cls)[name]
        if member is None:
            taken = inspect.signature(cls).parameters.values()
            sets = "".join(f"this.{p.name}={identifier(p.name)};" for p in taken)
            return f"constructor({','.join(map(self._field, taken))}){{{sets}}}"
        label = "constructor" if name == "__init__" else name
        text = _Function(self, _unwrapped(member), cls).text(label)
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
        return f"{name}={'new $.Dict()' if made else literal(field.default, self.reference)}"


def identifier(name: str) -> str:
    """A local name: none that JavaScript keeps for itself, or that a translated global has."""
    return f"{name}_"


def _unwrapped(value: Any) -> Any:
    """What a decorator wraps."""
    value = getattr(value, "fget", None) or getattr(value, "func", None) or value
    return inspect.unwrap(value) if callable(value) else value


@cache
def _members(cls: type) -> dict[str, Any]:
    """What a class itself defines; None for what sets the fields of a dataclass or tuple."""
    own = {name: value for name, value in vars(cls).items() if isinstance(value, _METHODS)}
    fields = {"__dataclass_fields__", "_fields"} & vars(cls).keys()
    return {**own, "__init__": None} if fields else own


def _ours(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).startswith("planner.")


class _Function:
    """Translates one function in the world of its globals, as a method where it is one of ``cls``.

    A name that it, or a function inside it, gives a value to must be no global anywhere in it.
    """

    def __init__(self, program: Program, function: FunctionType, cls: type | None = None) -> None:
        self.program, self.function, self.cls = program, function, cls
        self.globals = ChainMap(function.__globals__, vars(builtins))
        self.module = function.__module__
        codes = [function.__code__]
        for code in codes:  # those of what is defined inside join the list
            codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
        self.codes = {code.co_name: code for code in codes}
        self.locals = {name for c in codes for name in (*c.co_varnames, *c.co_cellvars)}
        self.me = function.__code__.co_varnames[0] if cls else None
        read = (i for code in codes for i in dis.get_instructions(code))
        both = self.locals & {i.argval for i in read if i.opname == "LOAD_GLOBAL"}
        if both:
            raise Untranslated(f"{self.module}: two things are called {', '.join(both)}")

    def text(self, label: str) -> str:
        """The function under a name."""
        node = ast.parse(textwrap.dedent(inspect.getsource(self.function))).body[0]
        assert isinstance(node, ast.FunctionDef)
        return self._define(node, label)

    def write(self, node: ast.AST | Sequence[ast.AST] | None) -> str:
        """A statement or an expression, by its form; an operator may say how. Several statements
        stand behind each other, several expressions have commas between them."""
        if node is None:
            return "null"
        if not isinstance(node, ast.AST):
            comma = "," if all(isinstance(each, ast.expr) for each in node) else ""
            return comma.join(map(self.write, node))
        how: ast.AST = getattr(node, "op", node)
        form = _FORMS.get(type(node), _FORMS.get(type(how)))
        further = [name for name in ("orelse", "finalbody") if getattr(node, name, None)]
        if form is None or not all(name in form for name in further):
            text = ast.unparse(node)
            raise Untranslated(f"{self.module}: no JavaScript for {type(node).__name__}: {text}")

        def part(found: re.Match[str]) -> str:
            write = getattr(self, f"_{found[2]}") if found[2] else self.write
            return str(write(getattr(node, found[1]) if found[1] else node))

        return _PART.sub(part, form).removesuffix("else{}")

    _literal = staticmethod(literal)

    # -- functions ----------------------------------------------------------------------------

    def _define(self, node: ast.FunctionDef, label: str = "") -> str:
        code = self.codes[node.name]
        taken = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        inside = {c.co_name for c in code.co_consts if isinstance(c, CodeType)}
        own = {*code.co_varnames, *code.co_cellvars} - taken - inside
        names = f"let {','.join(sorted(map(identifier, own)))};" if own else ""
        head = "*" if code.co_flags & inspect.CO_GENERATOR else ""
        if not self.cls or not label:
            head = f"function{head} "
        head += f"{label or identifier(node.name)}({self._parameters(node.args)})"
        return f"{head} {{{names}{self.write(node.body)}}}"

    def _parameters(self, arguments: ast.arguments) -> str:
        """The parameters; those that ``**`` takes come last, as a dictionary."""
        names = [*arguments.args, *arguments.kwonlyargs]
        defaults = [*arguments.defaults, *arguments.kw_defaults]  # of the last ones
        none: list[Any] = [None] * (len(names) - len(defaults))
        texts = [
            identifier(name.arg) + ("" if default is None else f"={self.write(default)}")
            for name, default in zip(names, none + defaults, strict=True)
            if name.arg != self.me
        ]
        if arguments.vararg:
            texts.append(f"...{identifier(arguments.vararg.arg)}")
        if arguments.kwarg:
            texts.append(f"{identifier(arguments.kwarg.arg)}=new $.Dict()")
        return ",".join(texts)

    # -- statements ---------------------------------------------------------------------------

    def _effect(self, value: ast.expr) -> str:
        """An expression as a statement; a docstring is none."""
        return "" if isinstance(value, ast.Constant) else f"{self.write(value)};"

    def _assignment(self, node: ast.Assign) -> str:
        """A value for each of some targets; names side by side take the parts of it."""
        value, targets = self.write(node.value), "=".join(map(self._target, node.targets))
        parts = any(isinstance(target, ast.Tuple) for target in node.targets)
        return f"{targets}={f'$.list({value})' if parts else value};"

    def _grown(self, node: ast.AugAssign) -> str:
        """What a value becomes; a list that grows stays the one that it is."""
        if isinstance(node.op, ast.Add):
            return f"$.grown({self.write(node.target)},{self.write(node.value)})"
        return self.write(ast.BinOp(node.target, node.op, node.value))

    def _target(self, target: ast.expr) -> str:
        match target:
            case ast.Name(id="_"):
                return ""
            case ast.Tuple(elts=[*parts, ast.Starred(value=rest)]):
                return f"[{','.join([*map(self._target, parts), f'...{self._target(rest)}'])}]"
            case ast.Tuple(elts=parts):
                return f"[{','.join(map(self._target, parts))}]"
            case ast.Subscript(value=owner, slice=place):
                return f"$.place({self.write(owner)},{self.write(place)}).value"
            case ast.Starred():  # what is left can only come last
                raise Untranslated(f"{self.module}: no JavaScript for {ast.unparse(target)}, …")
        return self.write(target)

    def _caught(self, name: str | None) -> str:
        return f"{identifier(name)}=$e;" if name else ""

    # -- expressions --------------------------------------------------------------------------

    def _lazily(self, items: Sequence[ast.expr]) -> str:
        return ",".join(f"()=>({self.write(item)})" for item in items)

    def _pairs(self, node: ast.Dict) -> str:
        return ",".join(
            f"...$.pairs({self.write(value)})"
            if key is None
            else f"[{self.write(key)},{self.write(value)}]"
            for key, value in zip(node.keys, node.values, strict=True)
        )

    def _format(self, node: ast.FormattedValue) -> str:
        """How a value in a text is written: as ``!r`` or a format says, or plainly."""
        return quoted("r") if node.conversion == ord("r") else self.write(node.format_spec)

    def _compare(self, node: ast.Compare) -> str:
        texts = [self.write(side) for side in (node.left, *node.comparators)]
        parts = [
            _FORMS[type(op)].format(left, right)
            for op, left, right in zip(node.ops, texts, texts[1:], strict=False)
        ]
        return parts[0] if len(parts) == 1 else f"({'&&'.join(parts)})"

    def _comprehension(self, node: Any) -> str:
        """The list of what is comprehended."""
        pair = isinstance(node, ast.DictComp)
        element = ast.Tuple([node.key, node.value], ast.Load()) if pair else node.elt
        text = f"$c.push({self.write(element)});"
        for generator in reversed(node.generators):
            for condition in reversed(generator.ifs):
                text = f"if($.bool({self.write(condition)})){{{text}}}"
            items = self.write(generator.iter)
            text = f"for(const {self._target(generator.target)} of $.each({items})){{{text}}}"
        return f"(()=>{{const $c=[];{text}return $c;}})()"

    # -- names and calls ----------------------------------------------------------------------

    def _name(self, name: str) -> str:
        if name == self.me:
            return "this"
        if name in self.locals:
            return identifier(name)
        return self.program.reference(self.globals[name], name, self.module)

    def _static(self, node: ast.expr) -> Any:
        """The object that a name or a member of a module stands for; None where only a run of it
        would tell."""
        if isinstance(node, ast.Attribute):
            owner = self._static(node.value)
            return getattr(owner, node.attr) if isinstance(owner, ModuleType) else None
        if isinstance(node, ast.Name) and node.id not in self.locals:
            return self.globals[node.id]
        return None

    def _attribute(self, node: ast.Attribute) -> str:
        owner, name = self._static(node.value), node.attr
        if isinstance(owner, ModuleType):
            return self.program.reference(getattr(owner, name), name, owner.__name__)
        self.program.named.add(name)
        text = f"{self.write(node.value)}.{name}"
        method = isinstance(getattr(self.cls, name, None), FunctionType)
        return f"{text}.bind(this)" if method and text == f"this.{name}" else text

    def _call(self, node: ast.Call) -> str:
        target = self._static(node.func)
        match node.func:
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__"):
                base = self.cls.__bases__[0] if self.cls else None
                return f"super({self._given(node, base)})"
            case ast.Attribute(value=owner, attr=name) if target is None:
                self.program.named.add(name)
                on, given = self.write(owner), self._given(node, None)
                own = f"this.{name}({given})"  # a method of ours needs no search
                return own if on == "this" else f"$.call({on},{quoted(name)},[{given}])"
        new = ""
        if isinstance(target, type) and _ours(target):
            self.program.named.update(target.__mro__)
            new = "new "
        return f"{new}{self.write(node.func)}({self._given(node, target)})"

    def _given(self, node: ast.Call, target: Callable[..., Any] | None) -> str:
        """The arguments of a call; those by name in their places, or as a function of ``$`` takes
        them."""
        texts = self.write(node.args)
        if not node.keywords:
            return texts
        if target is None:
            raise Untranslated(f"{self.module}: whose arguments? {ast.unparse(node)}")
        names = (ast.Constant(k.arg) if k.arg else None for k in node.keywords)
        pairs = self._pairs(ast.Dict([*names], [k.value for k in node.keywords]))
        if not _ours(target):
            return f"{texts},$.named([{pairs}])"
        order = ",".join(map(quoted, inspect.signature(target).parameters))
        return f"...$.ordered([{order}],[{texts}],[{pairs}])"
