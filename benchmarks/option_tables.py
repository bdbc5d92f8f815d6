"""Print the options of a framework with their defaults, as planner/connect/imports/options holds
them, from its sources, which are read and never run:

    python -m benchmarks.option_tables megatron DIR
    python -m benchmarks.option_tables maxtext DIR
    python -m benchmarks.option_tables torchtitan DIR
    python -m benchmarks.option_tables nanotron DIR
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

#: The longest default that a table holds; a longer one is null.
LONGEST = 90
#: Where the configuration classes of Megatron-Core and Megatron-LM are.
CORE = ("megatron/core", "megatron/training")


def read_literal(node: ast.expr | None) -> Any:
    """Read a literal; an enumeration is its member's name, all else is None."""
    if isinstance(node, ast.Attribute):
        return node.attr
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        return None


class DataClasses:
    """The configuration classes of a source tree, by name."""

    def __init__(self, *folders: Path) -> None:
        self.classes: dict[str, ast.ClassDef] = {}
        for folder in folders:
            for file in sorted(folder.rglob("*.py")):
                for node in ast.parse(file.read_text("utf-8")).body:
                    if isinstance(node, ast.ClassDef) and any(
                        isinstance(one, ast.AnnAssign) for one in node.body
                    ):
                        self.classes.setdefault(node.name, node)

    def list_fields(self, name: str) -> Iterator[tuple[str, str, ast.expr | None]]:
        """Yield the fields of a class and of its bases: name, type and default."""
        if name not in self.classes:
            return
        for base in self.classes[name].bases:
            yield from self.list_fields(ast.unparse(base).rpartition(".")[2])
        for one in self.classes[name].body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                yield one.target.id, ast.unparse(one.annotation), one.value


def read_default(value: ast.expr | None) -> tuple[Any, dict[str, Any]]:
    """Read the default of a field and what its metadata tell the parser."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func).endswith("field")):
        return read_literal(value), {}
    words = {one.arg: one.value for one in value.keywords}
    about: dict[str, Any] = {}
    for node in ast.walk(value):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            about |= {str(read_literal(key)): read_literal(one) for key, one in pairs}
    factory = ast.unparse(words["default_factory"]) if "default_factory" in words else ""
    empty: Any = {"list": [], "dict": {}}.get(factory)
    return (read_literal(words["default"]) if "default" in words else empty), about


def list_megatron(root: Path) -> Iterator[tuple[str, Any]]:
    """Yield the options of Megatron-LM's parser; a flag is false."""
    classes = DataClasses(*(root / folder for folder in CORE))
    tree = ast.parse((root / "megatron/training/arguments.py").read_text("utf-8"))
    for function in [one for one in tree.body if isinstance(one, ast.FunctionDef)]:
        lists = {
            one.targets[0].id: read_literal(one.value)
            for one in ast.walk(function)
            if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)
        }
        for call in [one for one in ast.walk(function) if isinstance(one, ast.Call)]:
            words = {one.arg: one.value for one in call.keywords}
            if ast.unparse(call.func).endswith("add_argument"):
                flag = str(read_literal(words.get("action"))).startswith("store_")
                for name in map(read_literal, call.args):
                    if str(name).startswith("--"):
                        yield str(name), False if flag else read_literal(words.get("default"))
            elif ast.unparse(call.func) == "ArgumentGroupFactory":
                left = words.get("exclude")
                named = lists.get(left.id) if isinstance(left, ast.Name) else read_literal(left)
                for field, kind, value in classes.list_fields(ast.unparse(call.args[0])):
                    if field not in (named or ()):
                        yield from list_field_options(field, kind, value)


def list_field_options(field: str, kind: str, value: ast.expr | None) -> Iterator[tuple[str, Any]]:
    """Yield the options that the parser makes of a field: one that is on has those against it."""
    default, about = read_default(value)
    default = about.get("default", default)
    flag = "bool" in kind and "type" not in about
    prefixes = ("no_", "disable_") if flag and default is True else ("",)
    names = about.get("arg_names") or [f"--{before}{field}" for before in prefixes]
    for name in names:
        yield name.replace("_", "-"), False if flag else default


def list_sections(root: Path, sections: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of configuration classes, below the section that each is in."""
    classes = DataClasses(root)
    for section, names in sections.items():
        for name in names:
            for field, _, value in classes.list_fields(name):
                yield f"{section}.{field}", read_default(value)[0]


#: Folder of the classes and their sections, by framework.
SECTIONS: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text("utf-8")
)["sections"]


def write_table(options: dict[str, Any]) -> str:
    """Write a table as lines of at most 100 characters."""
    lines, line = [], " "
    for key, value in sorted(options.items()):
        shown = json.dumps(value)
        item = f" {key}: {shown if len(shown) <= LONGEST else 'null'},"
        if len(line) + len(item) > 100:
            lines.append(line)
            line = " "
        line += item
    return "defaults: {\n" + "\n".join([*lines, line]) + "\n}\n"


def read_options(name: str, root: Path) -> dict[str, Any]:
    """Read the options of a framework from its source tree."""
    if name == "maxtext":
        base = yaml.safe_load((root / "src/maxtext/configs/base.yml").read_text("utf-8"))
        none = {key: None if value == "None" else value for key, value in base.items()}
        types = (root / "src/maxtext/configs/types.py").read_text("utf-8")
        more = re.findall(r"^  (vision_encoder_block|log_moe_bias_norms)\b", types, re.MULTILINE)
        return {**dict.fromkeys(more), **none}
    folder, sections = SECTIONS.get(name, {"folder": "", "classes": {}}).values()
    found = list_sections(root / folder, sections) if sections else list_megatron(root)
    return {key.removeprefix("--"): value for key, value in found}


if __name__ == "__main__":
    print(write_table(read_options(sys.argv[1], Path(sys.argv[2]))), end="")
