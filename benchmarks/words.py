"""How readable names and sentences are: `python -m benchmarks.words`.

Prints, for functions of planner/ that are neither properties, dunder methods nor formulas: the
share named by one word, the share that begins with a verb, the number named by a bare participle;
for functions and classes at the top of modules the share whose name stands in several modules; for
public functions of three arguments the share with ``Args:``; for docstrings of functions the share
that begins with a verb; the share of lines that are docstring; imports under another name. Exit
status 1 where a figure is worse than ``BOUNDS`` or a phrase of banned_words.yaml is printed by the
program or stands in the docs.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
BANNED = yaml.safe_load((ROOT / "benchmarks/banned_words.yaml").read_text("utf-8"))
#: Folders whose text is printed or read, and generated or historical parts of them.
SCREEN = ("planner", "templates", "schemas", "docs", "README.md")
LEFT_OUT = re.compile(r"docs/formulas|docs/commands/|docs/pictures/|\.png$")
VERBS = frozenset((ROOT / "benchmarks/verbs.txt").read_text("utf-8").split())
PARTICIPLE = re.compile(r"(ed|ought|ound|iven|own|aken|made|said|told|kept|held|left|laid)$")
#: The worst value that each figure may have, and whether a larger value is better.
BOUNDS = {
    "named by one word, %": (15.0, False),
    "begin with a verb, %": (86.0, True),
    "one bare participle": (0.0, False),
    "top-level names in more than one module, %": (2.0, False),
    "public with three arguments and Args:, %": (98.0, True),
    "docstrings that begin with a verb, %": (98.0, True),
    "docstring lines, %": (15.0, True),
    "imports under another name": (0.0, False),
}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_functions(tree: ast.Module) -> Iterator[Function]:
    """Yield the functions that are neither properties nor dunder methods."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and not node.name.startswith("__"):
            marks = {getattr(one, "id", getattr(one, "attr", "")) for one in node.decorator_list}
            if not marks & {"property", "cached_property", "computed_field", "setter"}:
                yield node


def measure_names(package: Path) -> dict[str, float]:
    """Return the figures of a package."""
    count: dict[str, int] = defaultdict(int)
    places: dict[str, set[Path]] = defaultdict(set)
    for path in sorted(package.rglob("*.py")):
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        count["lines"] += text.count("\n")
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function):
                docstring = ast.get_docstring(node, clean=False)
                count["docstring lines"] += docstring.count("\n") + 1 if docstring else 0
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("planner"):
                renamed = (a for a in node.names if a.asname and a.asname != a.name)
                count["renamed"] += sum(alias.name[:1].islower() for alias in renamed)
        for statement in tree.body:
            if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                places[statement.name].add(path)
        for function in () if "formulas" in path.parts else list_functions(tree):
            words = function.name.strip("_").split("_")
            docstring = ast.get_docstring(function) or ""
            first = (re.match(r"[A-Za-z]*", docstring) or [""])[0].lower()
            parts = function.args
            arguments = [*parts.posonlyargs, *parts.args, *parts.kwonlyargs]
            several = sum(each.arg not in ("self", "cls") for each in arguments) >= 3
            public = several and not function.name.startswith("_")
            count["functions"] += 1
            count["one word"] += len(words) == 1
            count["participle"] += len(words) == 1 and bool(PARTICIPLE.search(words[0]))
            count["verb"] += words[0] in VERBS
            count["documented"] += bool(docstring)
            count["imperative"] += bool({first, first.removesuffix("s")} & VERBS)
            count["public"] += public
            count["arguments"] += public and "Args:" in docstring
    tops = sum(map(len, places.values()))
    twice = sum(len(paths) for paths in places.values() if len(paths) > 1)
    shares = {
        "named by one word, %": (count["one word"], count["functions"]),
        "begin with a verb, %": (count["verb"], count["functions"]),
        "top-level names in more than one module, %": (twice, tops),
        "public with three arguments and Args:, %": (count["arguments"], count["public"]),
        "docstrings that begin with a verb, %": (count["imperative"], count["documented"]),
        "docstring lines, %": (count["docstring lines"], count["lines"]),
    }
    figures = {name: 100 * part / max(1, whole) for name, (part, whole) in shares.items()}
    figures["one bare participle"] = count["participle"]
    figures["imports under another name"] = count["renamed"]
    return {name: figures[name] for name in BOUNDS}


def read_screen(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield line numbers and texts of a file that users see; of Python the strings."""
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), start=1)
        return
    tree = ast.parse(text)
    statements = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docstrings = {id(one.value) for one in statements}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def find_banned(root: Path, names: list[str]) -> Iterator[str]:
    """Yield each banned phrase in the files of these names: file, line, phrase, what to write."""
    rows = [(re.compile(row["not"], re.IGNORECASE), row["write"]) for row in BANNED]
    for name in names:
        if LEFT_OUT.search(name):
            continue
        whole = (root / name).read_text("utf-8")
        if name.endswith(".jinja"):  # comments of templates are not printed
            whole = re.sub(r"{#.*?#}", lambda it: "\n" * it[0].count("\n"), whole, flags=re.DOTALL)
        for line, text in read_screen(root / name, whole):
            for pattern, better in rows:
                if match := pattern.search(text):
                    yield f"{name}:{line}: {match[0]!r}, write {better!r}"


def main() -> int:
    """Print the figures and the banned phrases; return 1 where one is out of bounds."""
    worse = False
    for name, value in measure_names(ROOT / "planner").items():
        bound, larger = BOUNDS[name]
        out = value < bound if larger else value > bound
        worse |= out
        print(f"{value:8.1f}  {name}{f' (bound {bound:g})' if out else ''}")
    listed = subprocess.run(["git", "ls-files", *SCREEN], cwd=ROOT, capture_output=True, text=True)
    phrases = list(find_banned(ROOT, listed.stdout.split()))
    print(*phrases, sep="\n")
    return worse or bool(phrases)


if __name__ == "__main__":
    sys.exit(main())
