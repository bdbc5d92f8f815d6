"""How large the house is: `python -m benchmarks.rooms`, for every room of planner/ and for all.

Lines of its .py files; of these, what is no docstring; the share of all that are comments,
docstrings or what a formula says in words (the sentence that `equals` is given beside its value);
the lines of the median function (from `def` to its end); and of the public functions that take or
give arrays how many say their shape. Then the lines of the folders beside it.

Exit status 1 where a figure of ``CEILINGS`` is passed: who passes it deletes something. Only an
issue raises one. Docstrings are not counted in planner/: more of them are asked for.
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

CHECKOUT = Path(__file__).resolve().parent.parent
ROOT = CHECKOUT / "planner"
#: Lines of planner/ that are no docstrings (48,534 when they were first counted apart), and of the
#: files of folders beside it, by pattern. What is asked for: 39,100; 35,000, 2,900 and 6,500.
#: 1,200 of them are for the bytes of stacks, 800 for their seconds, 900 for what experts practise,
#: 700 for reading foreign files whole, 900 for fine-tuning and 2,800 for reinforcement learning.
CEILINGS = {
    "planner": 55_840,
    "tests/**/*.py": 41_650,
    "templates/**/*": 3_150,
    "fuzz/*.py benchmarks/*.py": 9_310,
}
#: Names of types by which a function passes arrays, and a shape as docstrings write it: a tuple of
#: the names of axes, or that it may be any. A parenthesis with one word in it is none.
ARRAYS = re.compile(r"\b(NDArray|ndarray|Array|Floats|Integers|Booleans|Column|Columns)\b")
SHAPE = re.compile(r"\(\w+(,|(, \w+)+|(, \w+)*, …)\)|\b(any|one|same) shape\b")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass
class Room:
    """What is counted of the files of one folder."""

    lines: int = 0
    docstrings: int = 0  # lines of them
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
                self.docstrings += (said.end_lineno or said.lineno) - said.lineno + 1
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
        code, words = self.lines - self.docstrings, self.words / self.lines
        return f"{name:10} {self.lines:7,} {code:7,} {words:7.1%} {median:7g} {shapes:>12}"


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
    print(f"{'room':10} {'lines':>7} {'code':>7} {'said':>7} {'median':>7} {'shapes':>12}")
    for name, room in rooms.items():
        print(room.row(name))
    print(whole.row("all"))
    passed = False
    for what, most in CEILINGS.items():
        lines = whole.lines - whole.docstrings if what == "planner" else count_lines(what)
        print(f"{what}: {lines:,} of at most {most:,} lines")
        passed = passed or lines > most
    if passed:
        print("more lines than the ceiling: delete some")
    return passed


def count_lines(patterns: str) -> int:
    """Count the lines of the checkout's files that match one of the patterns."""
    files = {path for each in patterns.split() for path in CHECKOUT.glob(each) if path.is_file()}
    return sum(one.read_bytes().count(b"\n") for one in files if "__pycache__" not in one.parts)


if __name__ == "__main__":
    sys.exit(main())
