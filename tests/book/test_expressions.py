"""Expressions against SymPy, and their canonical forms with and without what is kept of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sympy

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.base import files, resources
from planner.book.canonical import canonical
from planner.book.expressions import (
    Expression,
    Symbol,
    ceil,
    exp,
    maximum,
    number,
    rational,
    sqrt,
)
from planner.book.language import Sum
from planner.book.quantity import BOOK
from planner.book.symbolic import from_sympy, to_sympy

ROOT = Path(__file__).resolve().parents[2]
PLAN = "presets/gpt2small_hgx-h100.yaml"


@pytest.mark.parametrize(
    "build",
    [
        lambda a, b: 2 * (a + b) - a,
        lambda a, b: a * b / a + b,
        lambda a, b: 1 - a / (3 * b),
        lambda a, b: -a * (b - 1) ** 2 / 4,
        lambda a, b: 2**a * b**2 / b,
        lambda a, b: (a - b) + (b - a),
    ],
    ids=range(6),
)
def test_operators_mean_what_they_mean_in_sympy(build: Callable[[Any, Any], Any]) -> None:
    made = build(sympy.Symbol("a", positive=True), sympy.Symbol("b", positive=True))
    ours = build(Symbol("a", positive=True), Symbol("b", positive=True))
    assert to_sympy(ours) == made
    assert canonical(ours) is from_sympy(made)


def test_functions_mean_what_they_mean_in_sympy() -> None:
    a = Symbol("a", positive=True)
    x = sympy.Symbol("a", positive=True)
    assert to_sympy(sqrt(a) + exp(-a) * rational(1, 3)) == sympy.sqrt(x) + sympy.exp(-x) / 3
    assert to_sympy(ceil(a)).func is sympy.ceiling
    assert to_sympy(maximum(a, 2)) == sympy.Max(x, 2)


@pytest.mark.slow
def test_every_formula_survives_the_way_through_sympy() -> None:
    """Its canonical form has nothing that SymPy would still move."""
    for formula in BOOK.formulas():
        tree = formula.expression
        assert from_sympy(to_sympy(tree)) is tree, formula.id


def test_equal_expressions_are_one_object() -> None:
    a, b = Symbol("a"), Symbol("b")
    assert a is Symbol("a") and a is not Symbol("a", positive=True)
    assert Sum(a * b, "part", layers=True) is Sum(a * b, "part", layers=True)
    assert Sum(a * b, "part") is not Sum(a * b, "stage")


def summary(cache: Path, code: str = "", *options: str) -> str:
    """A summary by a process of its own, whose kept expressions lie in a folder."""
    run = (
        "import runpy, sys\n"
        f"sys.argv = ['plan.py', {PLAN!r}, *{options!r}]\n"
        "try:\n    runpy.run_path('plan.py', run_name='__main__')\n"
        f"except SystemExit:\n    print({code or 'None'})\n"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": str(cache)}
    done = subprocess.run(
        [sys.executable, "-c", run],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A cache as one summary leaves it, to be copied, and the summary."""
    folder = tmp_path_factory.mktemp("filled")
    return folder, summary(folder)


@pytest.mark.slow
def test_the_second_run_needs_no_sympy_and_says_the_same(tmp_path: Path) -> None:
    loaded = "'sympy' in sys.modules"
    first, second = summary(tmp_path, loaded), summary(tmp_path, loaded)
    assert first.splitlines()[-1] == "True" and second.splitlines()[-1] == "False"
    assert first.splitlines()[:-1] == second.splitlines()[:-1]


@pytest.mark.slow
def test_byte_code_that_may_not_lie_beside_the_sources_lies_in_the_cache(
    filled: tuple[Path, str],
) -> None:
    kept = {file.name.split(".")[0] for file in filled[0].rglob("*.pyc")}
    assert {"lower", "schema", "main"} <= kept


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["cut", "list", "deep", "nowhere"])
def test_what_is_kept_may_be_damaged_or_missing(
    tmp_path: Path, filled: tuple[Path, str], damage: str
) -> None:
    folder, whole = filled
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    (file,) = tmp_path.rglob("expressions-*.json")
    if damage == "cut":
        file.write_text(file.read_text()[:1000])
    elif damage == "list":
        file.write_text(json.dumps([[7]]))
    elif damage == "deep":
        file.write_text("[" * 100_000)
    else:
        shutil.rmtree(file.parent)
        file.parent.write_text("no folder")
    assert summary(tmp_path) == whole
    # What is written replaces it whole, and leaves nothing beside it.
    assert damage == "nowhere" or list(tmp_path.rglob("*expressions*.json*")) == [file]


@pytest.mark.slow
def test_under_a_root_what_is_kept_is_read(filled: tuple[Path, str]) -> None:
    folder, _ = filled
    with files.within(ROOT / "presets"):
        assert not files.inside(folder)
        assert files.inside(resources.cache() / "expressions-0.json")
    assert summary(folder, "'sympy' in sys.modules", "--root", "presets")[-6:] == "False\n"


def test_what_is_kept_is_found_by_content() -> None:
    """An expression that was changed is another one, whatever is kept of the old."""
    a: Expression = Symbol("a", positive=True)
    assert canonical(a + a + 1) is canonical(2 * a + 1)
    assert canonical(a + a + 2) is not canonical(2 * a + 1)
    assert canonical(a * 0) is number(0)
