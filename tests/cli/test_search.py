"""`plan.py search` as a user meets it."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from pathlib import Path
from typing import NamedTuple

import pytest

from planner.cli import main as cli
from tests.conftest import RunCli, read_data

FAULTS = read_data("faults")


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


PLAN = "presets/gpt2small_hgx-h100.yaml"


@pytest.mark.slow
def test_the_best_layouts_as_text_json_and_csv(run_cli: RunCli) -> None:
    text = run_cli("search", PLAN, "--top", "3")
    assert text.returncode == 0, text.stderr
    assert "layouts" in text.stdout and "\r" not in text.stderr
    found = json.loads(run_cli("search", PLAN, "--top", "3", "--format", "json").stdout)
    assert len(found["best"]) == 3
    times = [layout["quantities"]["time.step_seconds"] for layout in found["best"]]
    assert times == sorted(times)
    rows = list(
        csv.reader(io.StringIO(run_cli("search", PLAN, "--top", "3", "--format", "csv").stdout))
    )
    assert len(rows) >= 4


def test_a_wrong_quantity_is_one_line(run_cli: RunCli) -> None:
    done = run_cli("search", PLAN, "--by", "time.step_secnds")
    assert done.returncode == 2 and "did you mean 'time.step_seconds'?" in done.stderr


def run(*words: str) -> Done:
    """The same in this process, which starts faster."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        status = cli.main(list(words))
    return Done(status, out.getvalue(), errors.getvalue())


@pytest.mark.slow
def test_what_may_be_chosen() -> None:
    """Keys held at a value, keys with several, limits, and the front."""
    words = ("--fix", "parallelism.zero=1", "--vary", "training.precision=bf16,fp8")
    found = json.loads(run("search", PLAN, *words, "--format", "json").stdout)
    chosen = [layout["set"] for layout in found["best"]]
    assert {layout["parallelism.zero"] for layout in chosen} == {1}
    assert {layout["training.precision"] for layout in chosen} <= {"bf16", "fp8"}
    every = json.loads(run("search", PLAN, "--full", "--format", "json").stdout)
    assert every["layouts"] > found["layouts"]
    fastest = every["best"][0]["quantities"]["time.step_seconds"]
    limit = f"time.step_seconds<={fastest * 1.01} s"
    near = json.loads(run("search", PLAN, "--limit", limit, "--format", "json").stdout)
    assert 0 < near["fitting"] < every["fitting"]
    rows = csv.DictReader(io.StringIO(run("search", PLAN, "--front", "--format", "csv").stdout))
    memory = [int(row["memory.process"]) if row["memory.process"].isdigit()
              else float(row["memory.process"]) for row in rows]  # fmt: skip
    assert memory == sorted(memory, reverse=True) and len(memory) > 3


@pytest.mark.slow
def test_accelerators_may_be_chosen_by_name() -> None:
    words = ("--vary", "cluster.accelerator=a100-sxm-40gb,h100-sxm-80gb")
    found = json.loads(run("search", PLAN, *words, "--format", "json").stdout)
    alone = json.loads(run("search", PLAN, "--format", "json").stdout)
    assert found["layouts"] == 2 * alone["layouts"]
    assert found["best"][0]["set"]["cluster.accelerator"] == "h100-sxm-80gb"
    wrong = run("search", PLAN, "--vary", "cluster.accelerator=a100-sxm-40g")
    assert wrong.returncode == 2 and "did you mean 'a100-sxm-40gb'" in wrong.stderr


@pytest.mark.slow
def test_files(tmp_path: Path) -> None:
    data, table = tmp_path / "out.json", tmp_path / "out.csv"
    done = run("search", PLAN, "--top", "2", "-o", str(data), "-o", str(table))
    assert done.returncode == 0 and "layouts" in done.stdout
    assert len(json.loads(data.read_text("utf-8"))["best"]) == 2
    assert len(table.read_text("utf-8").splitlines()) == 3


def test_where_nothing_fits_the_nearest_is_named() -> None:
    tight = ("--set", "cluster.devices=1", "--set", "model=llama2-70b")
    done = run("search", PLAN, *tight)
    assert done.returncode == 1 and done.stdout.startswith("No layout fits.")
    assert "The nearest lacks" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    FAULTS["search"],
)
def test_bad_input_is_one_line(words: tuple[str, ...], said: str) -> None:
    done = run("search", PLAN, *words)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and done.stdout == ""


@pytest.mark.slow
def test_a_page_draws_the_space_with_the_plans_own_layout_ringed(
    run_cli: RunCli, tmp_path: Path
) -> None:
    page, text = tmp_path / "layouts.html", tmp_path / "layouts.md"
    done = run_cli("search", PLAN, "--top", "3", "-o", str(page), "-o", str(text))
    assert done.returncode == 0, done.stderr
    drawn = page.read_text("utf-8")
    # Two planes; in that of the best each stands at its place with its number.
    close = drawn.split("</svg>")[1]
    assert [f">{number}</text>" in close for number in ("1", "2", "3", "4")] == [True] * 3 + [False]
    assert close.count('<circle class="end" ') in (3, 4)  # and the plainest, where it is another
    assert drawn.count('class="front" ') == 2 and "beyond the axes" in drawn
    own = [plane for plane in drawn.split("</svg>") if 'class="own" ' in plane]
    assert len(own) == 2 or "The ring is the plan" in drawn
    assert "<script" not in drawn and "default-src 'none'" in drawn
    table = text.read_text("utf-8")
    assert table.count("\n| own |") == 2 and "## The front" in table
    again = run_cli("search", PLAN, "--top", "3", "--format", "html")
    assert again.stdout == drawn


@pytest.mark.slow
def test_a_page_says_what_comes_nearest_where_nothing_fits(run_cli: RunCli, tmp_path: Path) -> None:
    page = tmp_path / "layouts.html"
    crowded = "cluster.accelerator.memory_usable=1 GB"
    done = run_cli("search", PLAN, "--set", crowded, "-o", str(page))
    assert done.returncode == 1
    assert "No layout fits" in page.read_text("utf-8") and "The nearest lacks" in done.stdout
