"""How large the house is: `python -m benchmarks.rooms`, for every room of planner/ and for all.

Lines of its .py files, the share of them that are comments, docstrings or what a formula says in
words (the sentence that `equals` is given beside its value), the lines of the median
function (from `def` to its end), and of the public functions that take or give arrays how many
say their shape. Exit status 1 where planner/ has grown past ``MOST``, or fuzz/ and benchmarks/ past
``MOST_BESIDE``: who adds a capability that needs more raises it in the same change, and says what
for.
"""

from __future__ import annotations

import ast
import io
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "planner"
#: The lines reached and 5 %; closed forms, published equations and explaining took 1,500, answers,
#: deadlines and scatters of studies and searches 900, plans from a line of text, other names, all
#: faults at once and what runs 850; number formats in full, tensors and products alone 900;
#: the arguments of another planner as a plan 250; the plans of a branch, and faults
#: for programs, 550; answers put into plans 450, defaults of a team and templates 700;
#: questions and requirements of a plan 650; quantities that a plan defines 750; patterns of
#: units and schemas for programs of others 300; what a batch cannot sum, deadlines of a line 50;
#: the server of the page and its interface for programs 1,600, its
#: controls, answers and what it finds 1,450; event files, logs as they grow and what explains them
#: 1,200; launch files in Python, written and read, 400; files of trainers, read and judged, and
#: jobs around them, 500; towers in front of a decoder and their import 600; recipes of
#: Megatron-Bridge and what a framework runs in a plan's place 400; diffusion transformers and their
#: import 450, where three judges of keys that nobody read became one; a layer in pieces 100;
#: compressed keys, hyper-connections and indexers of DeepSeek-V4 and MiniMax-M3 200; lines of text
#: read whole, with families, shapes, spelling and comparisons 500.
MOST = 54_950
#: Lines of fuzz/ and benchmarks/ together; only an issue raises it, which asks for 6,500.
MOST_BESIDE = 9_280
#: Names of types by which a function passes arrays, and a shape as docstrings write it: a tuple of
#: the names of axes, or that it may be any. A parenthesis with one word in it is none.
ARRAYS = re.compile(r"\b(NDArray|ndarray|Array|Floats|Integers|Booleans|Column|Columns)\b")
SHAPE = re.compile(r"\(\w+(,|(, \w+)+|(, \w+)*, …)\)|\b(any|one|same) shape\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Room:
    """What is counted of the files of one folder."""

    lines: int = 0
    words: int = 0  # lines of comments, docstrings and sentences on formulas
    functions: list[int] = field(default_factory=list)  # lines of each
    arrays: list[bool] = field(default_factory=list)  # whether each that passes arrays says shapes

    def add(self, text: str) -> None:
        """Count one file."""
        tree = ast.parse(text)
        self.lines += text.count("\n")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        rows = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node):
                said: ast.stmt | ast.expr = node.body[0]
                rows.update(range(said.lineno, (said.end_lineno or said.lineno) + 1))
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "equals":
                said = node.args[-1]
                rows.update(range(said.lineno, (said.end_lineno or said.lineno) + 1))
            if isinstance(node, Function):
                self.functions.append((node.end_lineno or node.lineno) - node.lineno + 1)
                if not node.name.startswith("_") and ARRAYS.search(" ".join(_types(node))):
                    self.arrays.append(bool(SHAPE.search(ast.get_docstring(node) or "")))
        self.words += len(rows)

    def row(self, name: str) -> str:
        """The counts as one line of the table."""
        shapes = f"{sum(self.arrays)} of {len(self.arrays)}" if self.arrays else ""
        median = statistics.median(self.functions) if self.functions else 0
        return f"{name:10} {self.lines:7,} {self.words / self.lines:7.1%} {median:7g} {shapes:>12}"


def _types(node: Function) -> Iterator[str]:
    for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
        if each.annotation is not None:
            yield ast.unparse(each.annotation)
    if node.returns is not None:
        yield ast.unparse(node.returns)


def main() -> int:
    rooms: dict[str, Room] = {}
    whole = Room()
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        text = path.read_text("utf-8")
        rooms.setdefault(parts[0] if len(parts) > 1 else "(top)", Room()).add(text)
        whole.add(text)
    print(f"{'room':10} {'lines':>7} {'said':>7} {'median':>7} {'shapes':>12}")
    for name, room in rooms.items():
        print(room.row(name))
    print(whole.row("all"))
    beside = sum(
        path.read_text("utf-8").count("\n")
        for folder in ("fuzz", "benchmarks")
        for path in (ROOT.parent / folder).rglob("*.py")
    )
    print(f"fuzz and benchmarks: {beside:,} lines")
    if whole.lines > MOST:
        print(f"more than {MOST:,} lines: raise MOST with what needs them, or delete")
    if beside > MOST_BESIDE:
        print(f"fuzz and benchmarks have more than {MOST_BESIDE:,} lines: delete some")
    return whole.lines > MOST or beside > MOST_BESIDE


if __name__ == "__main__":
    sys.exit(main())
