"""Whether the tests notice a wrong formula: one operator or constant is changed, the tests run.

``python -m benchmarks.mutation [--count 60] [--seed 1] [--record FILE]`` works in a copy of the
checkout. It runs the tests of ``TESTS`` once as they are and notes, for each test that passes, how
long it takes and which statements of the book's formulas, of the search and of the inverse
questions it reaches (``--record`` keeps that for a second call). Then it changes one place at a
time, a third of them in each group, and runs the tests of those files that reach the place: first
the tests that do so themselves, among them first those that speak of the quantity or of the module,
and the quick before the slow, up to ``--seconds`` of their time, to the first that fails. Each
change is printed with the test that noticed it; without one, it survives. Exit status 1 where more
survive than ``--most``. ``--start 20`` goes on behind the first twenty, ``--only 3,17`` tries those
two again. A sample does not move when another line of the code does.

All changes are tried by forks of one process that has read the tests and imported the program: a
fork puts the changed functions in the place of the old ones (and the file on disk, for tests that
start the program), so that nothing of one change reaches the next. After a change of a module of
formulas all of them are declared anew. What else a module computes when it is imported stays as it
was: a change that is seen there alone survives.

Golden pages, and everything else that compares with what the program once printed, do not run,
so they cannot notice anything. A run that does not end counts as noticed: it has ``PATIENCE``
times the processor time that the same tests took unchanged, and a minute.

Not drawn, because no value can depend on them: texts (docstrings, titles, words of an error, also
numbers in their places), raised errors, assertions, annotations, decorators and default values;
sizes of caches and of pieces of work at the top of a module; and what Python does not compile. Nor
are thresholds of the search outside functions, since a fork exchanges functions and formulas.
Everything else is drawn, also values that several formulas share (``_name = …``), and what only
makes the program slower: such a change survives, and is counted.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import functools
import gc
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TypeGuard

ROOT = Path(__file__).resolve().parent.parent
FORMULAS = "planner/book/formulas"
GROUPS = {
    "formulas": (f"{FORMULAS}/*.py",),
    "search": ("planner/questions/search/*.py", "planner/questions/batch*.py"),
    "solve": ("planner/questions/solve/*.py",),
}
#: Tests against facts from outside, and of properties; no page that the program printed.
TESTS = (
    "tests/book",
    "tests/plans",
    "tests/results/test_parts.py",
    "tests/results/test_improvements.py",
    "tests/results/test_result.py",
    "tests/results/test_verdict.py",
    "tests/connect/test_configurations.py",
    *(
        f"tests/questions/test_{name}.py"
        for name in (
            *(
                "search",
                "search_by_enumeration",
                "selection",
                "batch",
                "bounded_search",
                "modes",
                "narrowed",
                "automatic",
                "published_layouts",
                "ranking",
                "sweep_layouts",
            ),
            *("plain_layouts", "launchers", "sensitivity"),
            *("solve", "solve_by_enumeration", "closed_forms", "goals", "answers"),
            "answers_by_enumeration",
        )
    ),
    "tests/cli/test_search.py",
    "tests/test_edges.py",
    "tests/test_every_option.py",
    "tests/test_memory_accuracy.py",
    "tests/test_time_accuracy.py",
    "tests/test_whole_space.py",
)
#: Names of tests among them that compare a page with what the program prints.
GOLDEN = ("_current", "_what_the_program_prints")
#: Of the unchanged tests' time: how much runs for one change, and the longest single test of it.
SECONDS, LONGEST = 150.0, 25.0
PATIENCE = 5.0
PASSED = "no test fails"
BINARY: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Pow: ("**", "*"),
}
COMPARED: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}
CALLED = {"maximum": "minimum", "minimum": "maximum", "min": "max", "max": "min"}
#: What no value depends on.
SILENT = (ast.JoinedStr, ast.Raise, ast.Assert, ast.arguments)


@dataclass(frozen=True)
class Change:
    """One place of a file, from ``start`` to ``end`` in its text, and what stands there instead."""

    group: str
    file: str
    function: str
    statement: int  # the line that it begins in
    text: str
    start: int
    end: int
    new: str

    @property
    def line(self) -> int:
        return self.text.count("\n", 0, self.start) + 1

    @property
    def row(self) -> str:
        return self.text.splitlines()[self.line - 1].strip()

    def applied(self) -> str:
        return self.text[: self.start] + self.new + self.text[self.end :]

    def place(self, seed: int) -> str:
        """Its place in a sample: the same wherever its line and its file move."""
        row = self.text.rindex(self.row, 0, self.text.index("\n", self.start))
        name = (seed, Path(self.file).name, self.function, self.row, self.start - row, self.new)
        return hashlib.sha256(repr(name).encode()).hexdigest()

    def __str__(self) -> str:
        old = self.text[self.start : self.end]
        return f"{self.file}:{self.line} {self.function}: {self.row} [{old} -> {self.new}]"


def changes(group: str, file: Path) -> Iterator[Change]:
    """Every change of one operator, comparison or whole number inside a function of the file, or
    of a formula in a line."""
    text = file.read_text("utf-8")
    rows = [0, *(match.end() for match in re.finditer("\n", text))]

    def at(line: int | None, column: int | None) -> int:
        start = rows[(line or 0) - 1]
        return start + len(text[start:].encode()[:column].decode())

    def sign(left: ast.expr, right: ast.expr, old: str, new: str) -> tuple[int, int, str]:
        after = at(left.end_lineno, left.end_col_offset)
        start = text.index(old, after, at(right.lineno, right.col_offset))
        return start, start + len(old), new

    def places(node: ast.AST) -> Iterator[tuple[int, int, str]]:
        if isinstance(node, ast.BinOp) and type(node.op) in BINARY:
            if not any(map(is_text, (node.left, node.right))):
                yield sign(node.left, node.right, *BINARY[type(node.op)])
        elif isinstance(node, ast.Compare):
            for left, kind, right in zip(
                [node.left, *node.comparators], node.ops, node.comparators, strict=False
            ):
                if type(kind) in COMPARED:
                    yield sign(left, right, *COMPARED[type(kind)])
        elif isinstance(node, ast.Constant) and type(node.value) is int:
            start, end = (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)
            yield at(*start), at(*end), str(node.value + 1)
        elif isinstance(node, ast.Call) and len(node.args) > 1:
            called = node.func.id if isinstance(node.func, ast.Name) else ""
            if called in CALLED and (hasattr(builtins, called) or f"{CALLED[called]}(" in text):
                start = at(node.lineno, node.col_offset)
                yield start, start + len(called), CALLED[called]

    def inside(node: ast.AST, function: str, statement: int) -> Iterator[Change]:
        if isinstance(node, SILENT):
            return
        parts = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.FunctionDef):
            function, parts = f"{function}.{node.name}".strip("."), list(node.body)
        elif isinstance(node, ast.AnnAssign):
            parts = [node.value] if node.value else []
        elif is_equal(node):
            function, parts = ast.unparse(node.func.value), node.args[:1]
        if isinstance(node, ast.stmt):
            statement = node.lineno
        if not function and group == "formulas" and (shared := shared_name(node)):
            function, statement = shared, first_use(tree, shared)
        if function:
            name = file.relative_to(ROOT).as_posix()
            for place in places(node):
                yield Change(group, name, function, statement, text, *place)
        for part in parts:
            yield from inside(part, function, statement)

    tree = ast.parse(text)
    yield from inside(tree, "", 0)


def files(root: Path, *groups: str) -> list[Path]:
    """The modules of some groups, or of all."""
    globs = (glob for group in groups or GROUPS for glob in GROUPS[group])
    return [file for glob in globs for file in sorted(root.glob(glob))]


def is_python(text: str) -> bool:
    with suppress(SyntaxError):
        return bool(ast.parse(text))
    return False


def is_equal(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it declares a formula (``equals``)."""
    named = node.func if isinstance(node, ast.Call) else None
    return isinstance(named, ast.Attribute) and named.attr == "equals"


def shared_name(node: ast.AST) -> str:
    """The name of a value that several formulas of a module share: ``_name = …``."""
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) and target.id.startswith("_") else ""


def first_use(tree: ast.Module, name: str) -> int:
    """The first statement of a formula that such a value stands in, by itself or in another."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For):  # over several formulas that are declared alike
            read, place = node.iter, node.body[0].lineno
        elif isinstance(node, ast.Return | ast.Expr | ast.Assign):
            read, place = node.value or node, node.lineno
        else:
            continue
        if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(read)):
            return first_use(tree, shared) if (shared := shared_name(node)) else place
    return 0


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def sample(count: int, seed: int) -> list[Change]:
    """As many changes of each group, drawn evenly, the same for the same seed."""
    chosen: list[Change] = []
    for group in GROUPS:
        found = [one for file in files(ROOT, group) for one in changes(group, file)]
        ordered = sorted(found, key=lambda one: one.place(seed))
        valid = (one for one in ordered if is_python(one.applied()))
        chosen += islice(valid, count // len(GROUPS))
    return chosen


# -- which tests reach which statement ---------------------------------------------------------

REACHED = """
import atexit, builtins, os
builtins.__reached__ = getattr(builtins, "__reached__", set())
def _declared(quantity, place):
    formula = quantity.formulas[-1]
    if not PLACES:
        canonical = type(formula).expression
        expression = canonical.func
        def noted(self):
            __reached__.update(PLACES.get(self, ()))
            return expression(self)
        canonical.func = noted
    PLACES[formula] = {place, *__reached__}  # and what of other functions wrote it
    __reached__.clear()
    return quantity
PLACES = {}
builtins.__declared__ = _declared
def _tell():
    with open(os.environ["MUTATION_REACHED"], "a") as file:
        file.writelines(f"{place}\\n" for place in builtins.__reached__)
atexit.register(_tell)
"""


def marked(file: Path, name: str) -> str:
    """The file's text, where each statement of a function first says that it is reached, and each
    formula says so when it is read."""

    class Constants(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            self.statement = node.lineno if isinstance(node, ast.stmt) else self.statement
            if is_equal(node):
                place = ast.Constant(f"{name}:{self.statement}")
                return ast.Call(ast.Name("__declared__"), [node, place], [])
            return self.generic_visit(node)

        statement = 0

    def mark(node: ast.AST, within: bool) -> None:
        within = within or isinstance(node, ast.FunctionDef)
        for field, value in ast.iter_fields(node):
            parts = [part for part in value if isinstance(part, ast.AST)] if (
                isinstance(value, list)) else []  # fmt: skip
            for part in parts:
                mark(part, within)
            if within and parts and all(isinstance(part, ast.stmt) for part in parts):
                noted = []
                for part in parts:
                    if not (isinstance(part, ast.Expr) and is_text(part.value)):
                        text = f"__reached__.add('{name}:{part.lineno}')"  # type: ignore[attr-defined]
                        noted += ast.parse(text).body
                    noted.append(part)
                setattr(node, field, noted)

    tree = ast.parse(file.read_text("utf-8"))
    mark(tree, False)
    return ast.unparse(Constants().visit(tree))


class Recorder:
    """A plugin of pytest: what each test reaches and how much time of the processor it takes."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.reached, self.out = Path(os.environ["MUTATION_REACHED"]), Path(told["out"])
        self.seconds: dict[str, float] = {}  # of each test that passed
        self.places: dict[str, int] = {}  # the tests that reach it, as bits
        self.fixtures: dict[str, float] = {}  # file -> what the dearest of them takes
        self.prepared: dict[str, set[str]] = {}  # file -> reached by its fixtures
        self.now: set[str] = builtins.__dict__.setdefault("__reached__", set())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        forget()
        self.now.clear()
        self.reached.write_text("")
        self.began = sum(os.times()[:4])

    def pytest_runtest_logreport(self, report: Any) -> None:
        taken = sum(os.times()[:4]) - self.began
        file = report.nodeid.split("::")[0]
        prepared = self.prepared.setdefault(file, set())
        if report.when == "setup":
            prepared |= self.now
            self.fixtures[file] = max(taken, self.fixtures.get(file, 0))
        elif report.when == "call" and report.passed:
            for place in prepared | self.now | set(self.reached.read_text().split()):
                self.places[place] = self.places.get(place, 0) | 1 << len(self.seconds)
            self.seconds[report.nodeid] = taken
        elif report.when == "teardown" and report.nodeid in self.seconds:
            self.seconds[report.nodeid] = taken

    def pytest_sessionfinish(self) -> None:
        places = {place: hex(tests) for place, tests in self.places.items()}
        found = {"seconds": self.seconds, "fixtures": self.fixtures, "places": places}
        self.out.write_text(json.dumps(found))


class Forks:
    """A plugin of pytest: in the place of its loop over all tests one over changes, each in a fork
    of this process."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_runtestloop(self, session: Any) -> bool:
        for file in files(ROOT):
            import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
        collected = {item.nodeid: item for item in session.items}
        record = json.loads(Path(self.told["record"]).read_text())
        drawn = sample(self.told["count"], self.told["seed"])
        gc.collect()
        gc.freeze()  # a fork shares what is there, which its collector would copy
        for number in self.told["numbers"]:
            one = drawn[number - 1]
            names, seconds = chosen(one, record, self.told["seconds"])
            items = [collected[name] for name in names if name in collected]
            began = time.monotonic()
            by = self.noticed(one, session, items, 60 + PATIENCE * seconds) if items else PASSED
            took = f"{time.monotonic() - began:4.0f} s"
            state = "SURVIVES" if by == PASSED else "noticed "
            with Path(self.told["out"]).open("a", encoding="utf-8") as out:
                out.write(f"{number:3} {state} {took}  {one}  {by}\n")
        return True

    def noticed(self, one: Change, session: Any, items: list[Any], limit: float) -> str:
        """The first test that fails with the change, run in a fork."""
        from _pytest.main import pytest_runtestloop

        file = ROOT / one.file
        read, write = os.pipe()
        file.write_text(one.applied(), "utf-8")
        child = os.fork()
        if not child:
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
                exchange(file, one.applied())
                session.items = items
                with suppress(session.Failed):
                    pytest_runtestloop(session)
                os.write(write, (self.failed or [PASSED])[0].encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as told:
            by = told.read()
        _, status = os.waitpid(child, 0)
        file.write_text(one.text, "utf-8")
        endless = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU
        return by or (f"more than {limit:.0f} s" if endless else f"ends with status {status}")


def exchange(file: Path, text: str) -> None:
    """Other code for every function of a file, and nothing kept of what they returned."""
    found: dict[tuple[str, int], CodeType] = {}

    def walk(code: CodeType) -> None:
        found[code.co_qualname, code.co_firstlineno] = code
        for inner in code.co_consts:
            if isinstance(inner, CodeType):
                walk(inner)

    walk(compile(text, str(file), "exec"))
    gc.unfreeze()
    for each in gc.get_objects():
        if isinstance(each, FunctionType) and each.__code__.co_filename == str(file):
            each.__code__ = found[each.__code__.co_qualname, each.__code__.co_firstlineno]
        elif isinstance(each, functools._lru_cache_wrapper):
            each.cache_clear()
    gc.freeze()
    if file.is_relative_to(ROOT / FORMULAS):
        exchange_formulas()
    forget()


def exchange_formulas() -> None:
    """The formulas that the book's modules declare now: a function of one may write another's."""
    from planner.book.quantity import BOOK

    book, package = sys.modules["planner.book"], FORMULAS.replace("/", ".")
    before, BOOK.quantities = BOOK.quantities, {}
    loaded = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith(package)}
    import_module(package)
    for identifier, quantity in before.items():
        made = BOOK.quantities[identifier].formulas
        for old, new in zip(quantity.formulas, made, strict=True):
            object.__setattr__(old, "written", new.written)
    sys.modules.update(loaded)
    book.formulas, BOOK.quantities = loaded[package], before  # type: ignore[attr-defined]


def forget() -> None:
    """So that a formula makes its canonical form anew."""
    from planner.book.quantity import BOOK

    for formula in BOOK.list_formulas():
        formula.__dict__.pop("expression", None)


def pytest_configure(config: Any) -> None:
    """This module is a plugin of the runs that it starts."""
    from hypothesis import HealthCheck, Phase, settings

    whatever: dict[str, Any] = {"suppress_health_check": list(HealthCheck), "database": None}
    whatever["phases"] = (Phase.explicit, Phase.generate)  # one example is enough, however long
    settings.register_profile("mutation", deadline=None, derandomize=True, **whatever)
    settings.load_profile("mutation")
    told = json.loads(Path(os.environ["MUTATION"]).read_text())
    plugin = Forks(told) if "numbers" in told else Recorder(told)
    config.pluginmanager.register(plugin)


def started(copy: Path, told: dict[str, Any]) -> subprocess.Popen[bytes]:
    """pytest over all the tests in the copy, with this module as a plugin."""
    (copy.parent / "told").write_text(json.dumps(told))
    environment = {
        **os.environ,
        "MUTATION": str(copy.parent / "told"),
        "MUTATION_REACHED": str(copy.parent / "reached"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    plugins = ["-p", "benchmarks.mutation", "-p", "no:cacheprovider"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        *plugins,
        "-m",
        "slow or not slow",
        "--tb=no",
        "--maxfail",
    ]
    command += ["1" if "numbers" in told else "0", f"--basetemp={copy.parent / 'temporary'}"]
    with (copy.parent / "printed").open("w") as out:
        return subprocess.Popen(
            [*command, *TESTS], cwd=copy, stdout=out, stderr=out, env=environment
        )


def recorded(copy: Path, out: Path) -> None:
    """Which tests pass, how long each takes and which statements it reaches."""
    drawn = files(copy)
    texts = {file: file.read_text("utf-8") for file in [*drawn, copy / "planner/__init__.py"]}
    for file in drawn:
        file.write_text(marked(file, file.relative_to(copy).as_posix()), "utf-8")
    with (copy / "planner/__init__.py").open("a", encoding="utf-8") as first:
        first.write(REACHED)
    started(copy, {"out": str(out)}).wait()
    for file, text in texts.items():
        file.write_text(text, "utf-8")


# -- one change --------------------------------------------------------------------------------


def words(one: Change) -> set[str]:
    """What a test that speaks of the changed place says: the quantity, the module, the function."""
    function = one.function.split(".")[0]
    said = {one.file.removesuffix(".py").replace("/", "."), function} - {"_"}
    named: dict[str, str] = {}  # quantities by the names of the module
    for node in ast.parse(one.text).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            first = (*node.value.args, None)[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                named[ast.unparse(node.targets[0])] = first.value
        elif isinstance(node, ast.FunctionDef):
            for call in node.decorator_list:
                if isinstance(call, ast.Call) and call.args and is_text(call.args[0]):
                    named[node.name] = ast.literal_eval(call.args[0])
                if node.lineno <= one.statement <= (node.end_lineno or 0):
                    said.add(named.get(ast.unparse(call).split(".")[0], named.get(node.name, "")))
    return (said | {named.get(function, "")}) - {""}


def chosen(one: Change, record: dict[str, Any], most: float) -> tuple[list[str], float]:
    """The tests that run for a change, in order, and how long they take unchanged."""
    seconds: dict[str, float] = record["seconds"]
    bits = int(record["places"].get(f"{one.file}:{one.statement}", "0"), 16)
    reaching = {name for number, name in enumerate(seconds) if bits >> number & 1}
    files = {name.split("::")[0] for name in reaching}
    said = words(one)
    speaking = set()
    for file in files:
        text = (ROOT / file).read_text("utf-8")
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                source = ast.get_source_segment(text, node) or ""
                decorated = " ".join(map(ast.unparse, node.decorator_list))
                if any(word in source + decorated for word in said):
                    speaking.add(f"{file}::{node.name}")

    def cost(name: str) -> float:
        """With the fixtures of its file, which it may be the first to use."""
        return seconds[name] + record["fixtures"].get(name.split("::")[0], 0)

    def rank(name: str) -> tuple[Any, ...]:
        slow = sum(cost(name) > step for step in (0.02, 0.05, 0.1, 0.3, 1, 3))
        speaks = name.split("[")[0] in speaking
        return name not in reaching, not speaks, slow, name.split("::")[0]

    candidates = (
        name
        for name in seconds
        if name.split("::")[0] in files and not any(golden in name for golden in GOLDEN)
    )
    names, total = [], 0.0
    for name in sorted(candidates, key=rank):
        if cost(name) <= LONGEST and total + cost(name) <= most:
            names.append(name)
            total += seconds[name]
    return names, total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60, help="changes in all, spread evenly")
    parser.add_argument("--seed", type=int, default=1, help="which ones")
    parser.add_argument("--start", type=int, default=0, help="go on behind so many of them")
    parser.add_argument("--only", help="numbers of changes of the sample: 3,17")
    parser.add_argument("--record", type=Path, help="what tests reach: read, or written here")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of tests for one change")
    parser.add_argument("--list", action="store_true", help="print the sample, run nothing")
    parser.add_argument("--most", type=int, default=5, help="survivors that are accepted")
    options = parser.parse_args()
    drawn = list(enumerate(sample(options.count, options.seed), 1))[options.start :]
    if options.only:
        drawn = [(n, one) for n, one in drawn if str(n) in options.only.split(",")]
    if options.list:
        print(*(f"{number:3} {one}" for number, one in drawn), sep="\n")
        return 0
    survived = 0
    with tempfile.TemporaryDirectory() as work:
        copy, out = Path(work) / "checkout", Path(work) / "out"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".git", "__pycache__", ".*_cache")
        )
        record = (options.record or Path(work) / "record").absolute()
        if not record.exists():
            recorded(copy, record)
        out.touch()
        told = {key: getattr(options, key) for key in ("count", "seed", "seconds")}
        told |= {"numbers": [n for n, _ in drawn], "record": str(record), "out": str(out)}
        process = started(copy, told)
        with out.open(encoding="utf-8") as rows:
            running = True
            while running:
                running = process.poll() is None
                for row in rows:
                    print(row, end="", flush=True)
                    survived += " SURVIVES " in row
                time.sleep(1)
        if process.returncode:
            print((Path(work) / "printed").read_text()[-2000:])
            return 2
    print(f"{survived} of {len(drawn)} survive (at most {options.most} are accepted)")
    return int(survived > options.most)


if __name__ == "__main__":
    sys.exit(main())
