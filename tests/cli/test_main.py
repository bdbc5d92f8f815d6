"""The command line as a user meets it: commands, exit codes, streams, files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import planner
from tests.conftest import ROOT, RunCli, read_data

PLAN = "presets/llama70b_h100x1024.yaml"
SMALL = """
name: a small plan
model: gpt2-small
cluster: {accelerator: h100-sxm-80gb, devices: 8}
training: {tokens: 1B, sequence_length: 1024, global_batch: 64}
time: {mfu: 0.4}
"""


def test_the_summary_fits_a_screen_and_says_the_verdict_first(run_process: RunCli) -> None:
    done = run_process(PLAN)
    assert done.returncode == 0 and not done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "FITS  Llama-2 70B on 1,024 H100s"
    assert len(lines) <= 45
    assert "\x1b" not in done.stdout, "a pipe gets no colour"


@pytest.mark.slow
def test_reports_are_written_by_suffix_and_twice_the_same(run_cli: RunCli, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    for folder in (first, second):
        folder.mkdir()
        outputs = [
            word
            for suffix in ("md", "html", "json")
            for word in ("-o", str(folder / f"r.{suffix}"))
        ]
        assert run_cli(PLAN, *outputs).returncode == 0
    for suffix in ("md", "html", "json"):
        one, two = (folder / f"r.{suffix}" for folder in (first, second))
        assert one.read_bytes() == two.read_bytes()
        assert one.read_bytes().endswith(b"\n")
    assert sorted(path.name for path in first.iterdir()) == ["r.html", "r.json", "r.md"]


@pytest.mark.slow
def test_json_on_standard_output_has_the_promised_ids(run_cli: RunCli) -> None:
    result = json.loads(run_cli(PLAN, "--format", "json").stdout)
    assert result["quantities"]["parameters.total"]["value"] == 68_976_648_192
    assert result["verdict"]["fits"] is True
    for identifier in read_data("cli")["promised_quantities"]:
        assert identifier in result["quantities"], identifier


@pytest.mark.slow
def test_set_overrides_a_key_and_doubling_tokens_doubles_the_run(run_cli: RunCli) -> None:
    def flops(*extra: str) -> int:
        done = run_cli(PLAN, "--format", "json", *extra)
        assert done.returncode == 0, done.stderr
        value = json.loads(done.stdout)["quantities"]["compute.training_flops"]["value"]
        assert isinstance(value, int)
        return value

    assert flops("--set", "training.tokens=30T") == 2 * flops()


@pytest.mark.slow
def test_a_plan_comes_from_standard_input(run_process: RunCli) -> None:
    done = run_process("-", stdin=SMALL)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("  a small plan")


@pytest.mark.slow
def test_require_fit_fails_where_it_does_not_fit(run_cli: RunCli) -> None:
    assert run_cli(PLAN, "--require-fit").returncode == 0
    tight = run_cli(
        PLAN,
        "--require-fit",
        "--set",
        "parallelism.tensor=1",
        "--set",
        "parallelism.pipeline=1",
        "--set",
        "parallelism.sequence=false",
    )
    assert tight.returncode == 1, tight.stderr
    assert "DOES NOT FIT" in tight.stdout


@pytest.mark.slow
def test_require_fit_keeps_the_margin_that_is_asked_for(run_cli: RunCli) -> None:
    """A device with a tenth more than is predicted, and a margin of a fifth: tight."""
    process = planner.load(ROOT / PLAN).evaluate()["memory.process"].number
    usable = f"cluster.accelerator.memory_usable={process * 11 // 10} B"
    tight = ("--require-fit", "--set", usable, "--set", "memory.margin=20%")
    assert run_cli(PLAN, *tight).stdout.startswith("TIGHT")
    for margin, status in (("p95", 1), ("20%", 1), ("9%", 0), ("0", 0), ("p96", 2)):
        assert run_cli(PLAN, *tight, "--margin", margin).returncode == status, margin
    assert run_cli(PLAN, *tight).returncode == 1
    assert run_cli(PLAN, *tight[1:]).returncode == 0


def test_require_fit_fails_where_what_decides_is_not_stated(run_cli: RunCli) -> None:
    size = ("--set", 'model={"parameters": "7B"}', "--require-fit", "--margin", "0")
    done = run_cli(PLAN, *size)
    assert done.returncode in (1, 2), done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        *read_data("cli")["wrong_calls"],
        pytest.param(
            (PLAN, "-o", "no/such/folder/r.md"), "no/such/folder/r.md", marks=pytest.mark.slow
        ),
    ],
)
def test_a_wrong_call_gives_one_line_and_exit_2(
    run_cli: RunCli, arguments: tuple[str, ...], complaint: str
) -> None:
    done = run_cli(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not done.stdout


def test_resolved_prints_every_default(run_cli: RunCli) -> None:
    done = run_cli(PLAN, "--print", "resolved")
    assert done.returncode == 0, done.stderr
    assert "precision: bf16" in done.stdout and "kv_heads: 8" in done.stdout


def test_explain_shows_formula_numbers_and_source(run_cli: RunCli) -> None:
    done = run_cli("explain", PLAN, "compute.training_flops_6nd")
    assert done.returncode == 0, done.stderr
    assert "6 · " in done.stdout and "68,976,648,192" in done.stdout
    assert "source: Kaplan et al. 2020" in done.stdout


def test_options_stand_anywhere(run_cli: RunCli) -> None:
    question = ("largest-batch", "--set", "training.recompute=full")
    before = run_cli("solve", PLAN, *question)
    after = run_cli("solve", PLAN, *question[1:], question[0])
    assert before.returncode == after.returncode == 0, after.stderr
    assert before.stdout == after.stdout
