"""The rooms: a module imports from its own room or one before it, and never in a circle."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "planner"
PLAN = "presets/llama70b_h100x1024.yaml"

# The folders of planner/ in the order in which a plan passes them (docs/design.md).
ROOMS = (
    "base",
    "book",
    "documents",
    "plans",
    "engine",
    "typeset",
    "results",
    "connect",
    "questions",
    "report",
    "review",
    "serve",
    "cli",
)
#: The faces at the top of planner/: nothing inside imports from them.
FACES = {"__init__", "__main__", "api", "as_trainplan"}

# What a command that evaluates nothing must not pay for.
HEAVY = ("sympy", "mpmath", "numpy", "torch")
LIGHT_MODULES = (
    "base.errors",
    "base.units",
    "base.resources",
    "base.version",
    "documents.source",
    "documents.schema",
    "plans.document",
)


def module_name(path: Path) -> str:
    """planner/typeset/boxes.py is `planner.typeset.boxes`; a package is its `__init__`."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imported_modules(name: str, path: Path) -> set[str]:
    """The modules of the planner that the file imports anywhere, in functions too."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    if name == "planner.__init__":
        package = ["planner"]
    targets: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            targets += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            members = [f"{base}.{alias.name}" for alias in node.names]
            targets += [member if member in MODULES else base for member in members]
    faces = ["planner.__init__" if target == "planner" else target for target in targets]
    return {target for target in faces if target.split(".")[0] == "planner"} - {name}


@cache
def imports() -> dict[str, set[str]]:
    """The modules that each module imports."""
    return {name: imported_modules(name, path) for name, path in MODULES.items()}


def test_every_module_stands_in_a_room() -> None:
    rooms = {name.split(".")[1] for name in MODULES} - FACES
    assert rooms == set(ROOMS)
    assert len([path for path in PACKAGE.iterdir() if path.is_file()]) <= 8


def test_a_module_imports_only_from_its_room_and_those_before() -> None:
    order = {room: number for number, room in enumerate(ROOMS)}

    def place(module: str) -> int:
        return order.get(module.split(".")[1], len(ROOMS))

    late = {
        (name, target) for name in MODULES for target in imports()[name]
        if place(target) > place(name)
    }  # fmt: skip
    assert not late


def test_no_module_imports_itself_through_others() -> None:
    TopologicalSorter(imports()).prepare()  # CycleError names the circle


@pytest.mark.slow
def test_no_own_module_is_imported_by_a_string() -> None:
    """A name in a string would hide an import from the tests above. One list of names is loaded
    late: what the package offers. A framework's parser is loaded in a process of its own."""
    allowed = {"planner.__init__", "planner.connect.imports.foreign"}
    for name, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            called = getattr(node, "func", None)
            word = getattr(called, "id", getattr(called, "attr", ""))
            assert word not in ("import_module", "__import__") or name in allowed, name


def heavy_after(code: str) -> list[str]:
    """The heavy packages that a fresh interpreter has loaded after running `code`."""
    report = f"import json, sys; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    loaded: list[str] = json.loads(done.stdout.splitlines()[-1])
    return loaded


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["list"], ["list", "models"], ["validate", PLAN]],
    ids=" ".join,
)
def test_a_command_that_evaluates_nothing_loads_nothing_heavy(arguments: list[str]) -> None:
    run = (
        "import runpy, sys\n"
        f"sys.argv = ['plan.py', *{arguments!r}]\n"
        "try:\n"
        "    runpy.run_path('plan.py', run_name='__main__')\n"
        "except SystemExit as end:\n"
        "    assert not end.code, end.code\n"
    )
    assert heavy_after(run) == []


def test_documents_are_read_without_anything_heavy() -> None:
    assert heavy_after("\n".join(f"import planner.{name}" for name in LIGHT_MODULES)) == []


def test_the_probe_sees_a_heavy_package() -> None:
    assert "sympy" in heavy_after("import sympy")


@pytest.mark.slow
def test_what_is_imported_is_a_declared_dependency() -> None:
    """What only tests or developers install is not there where the program is installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    groups = [v for name, v in extras.items() if name not in ("test", "dev", "docs")]
    declared = {
        re.match(r"[\w-]+", word)[0].lower()  # type: ignore[index]
        for word in (*project["dependencies"], *(word for group in groups for word in group))
    }
    imported = set()
    for file in (ROOT / "planner").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    foreign = imported - set(sys.stdlib_module_names) - {"planner"}
    called = {"yaml": "pyyaml", "google": "protobuf"}
    assert {called.get(name, name.lower()) for name in foreign} <= declared | {"_signal"}
