"""The layers: a module imports from its own stage or an earlier one, and never in a circle."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "planner"
PLAN = "presets/llama70b_h100x1024.yaml"

# A value travels down this list and never up. A new module gets its place here.
STAGES = (
    {"errors", "display", "files", "progress", "recent", "units", "resources", "version"},
    {"nodes", "references", "complaints", "source", "schema"},
    {"bands", "document", "hardware", "profile", "pipeline", "shapes", "model", "plan"},
    {"folds", "quantity", "notation", "notation_hardware", "notation_scaling"},
    {"inventory", "formulas"},
    {
        "arithmetic",
        "evaluate",
        "arrays",
        "tape",
        "tensors",
        "products",
        "laws",
        "conventions",
        "case",
    },
    {"typeset", "inputs", "intervals", "evaluated", "exports"},
    {
        "untraced",
        "loading",
        "limits",
        "inverse",
        "gradient",
        "elasticity",
        "parts",
        "domains",
        "remedies",
        "search",
        "sweep",
    }
    | {"notebook", "result", "sensitivity"},
    {
        "formats",
        "listing",
        "render",
        "imports",
        "check",
        "diff",
        "completion",
        "revisions",
    }
    | {"logs", "compare", "javascript", "sweep"},
    {"measure"},
    {"measure_command"},
    {"cli", "api", "__init__", "__main__"},  # the faces: nothing inside imports from them
)
STAGE_OF = {name: number for number, stage in enumerate(STAGES) for name in stage}

# What a command that evaluates nothing must not pay for.
HEAVY = ("sympy", "mpmath", "numpy", "torch")
LIGHT_MODULES = ("errors", "units", "resources", "version", "source", "schema", "document")


def module_name(path: Path) -> str:
    """planner/render/latex.py is `planner.render.latex`; a package is its `__init__`."""
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


IMPORTS = {name: imported_modules(name, path) for name, path in MODULES.items()}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_imports_only_from_earlier_stages(name: str) -> None:
    def stage(module: str) -> int:
        part = module.split(".")[1]
        assert part in STAGE_OF, f"planner/{part} has no place in STAGES"
        return STAGE_OF[part]

    late = {target for target in IMPORTS[name] if stage(target) > stage(name)}
    assert not late, f"{name} imports from later stages: {sorted(late)}"


def test_no_module_imports_itself_through_others() -> None:
    TopologicalSorter(IMPORTS).prepare()  # CycleError names the circle


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


@pytest.mark.skipif(not (PACKAGE / "cli.py").is_file(), reason="planner/cli.py is missing")
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
    present = [name for name in LIGHT_MODULES if f"planner.{name}" in MODULES]
    assert heavy_after("\n".join(f"import planner.{name}" for name in present)) == []


def test_the_probe_sees_a_heavy_package() -> None:
    assert "sympy" in heavy_after("import sympy")
