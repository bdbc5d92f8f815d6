"""An answer from a line of text, and the plan that it says."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from tests.conftest import RunCli

TEXT = "llama3-8b on 64 h100, 2T tokens"


@pytest.mark.slow
def test_the_summary_and_the_plan_that_was_understood(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("quick", TEXT, "-o", str(tmp_path / "plan.yaml"))
    assert done.returncode == 0 and not done.stderr
    saved = (tmp_path / "plan.yaml").read_text()
    assert done.stdout.endswith(saved.partition("\n")[2])
    again = run_cli(str(tmp_path / "plan.yaml"))
    answer, assumed, _ = done.stdout.split("\n\n", 2)  # assumptions do not lead
    assert again.stdout == done.stdout.replace(f"{assumed}\n\n", "").partition("\n# What was")[0]
    assert answer.startswith("FITS  ") and assumed.startswith("Assumed:\n  training.global_batch")


@pytest.mark.slow
def test_words_need_no_quotes_and_reports_are_written(run_cli: RunCli, tmp_path: Path) -> None:
    report = tmp_path / "r.json"
    words = ["gpt2-small", "on", "1", "a100", "10B", "tokens"]
    done = run_cli("quick", *words, "-o", str(report), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stdout == report.read_text()


def test_what_is_not_understood_is_bad_input(run_cli: RunCli) -> None:
    done = run_cli("quick", "llama3-8b on 64 h1000")
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.startswith("<text>:1:14: not understood: '64 h1000'")


@pytest.mark.slow
def test_a_deadline_that_is_missed_leads_and_so_does_an_answer(run_cli: RunCli) -> None:
    done = run_cli("quick", "gpt2-small on 8 h100, 100B tokens, in 1 hour, please")
    assert done.returncode == 1
    assert done.stdout.startswith("MISSED  time.training_days <= 1 hour does not hold")
    assert "\nIgnored: please\n" in done.stdout
    done = run_cli("quick", "how many h100 for gpt2-small with 1T tokens in 5 days?")
    assert done.stdout.startswith("ANSWER  fewest-devices: ")
    answer = done.stdout.split()[2].lstrip("~")
    assert f"{answer} × NVIDIA H100" in done.stdout  # the plan that is shown is the answer's


@pytest.mark.slow
def test_a_budget_buys_the_tokens_of_the_plan_that_is_shown(run_cli: RunCli) -> None:
    """One A100 at half its peak does 22 billion tokens of a 1B model, at 6 FLOP a parameter and
    token, in 213 hours, which are 256 USD at 1.2; the question keeps the length of the plan."""
    said = run_cli("quick", "how many tokens of a 1B for $315 with one A100 at $1.2/h").stdout
    assert said.startswith("ANSWER  tokens-by-deadline: ~22B tokens")


@pytest.mark.slow
def test_ways_to_fine_tune_are_compared_at_one_micro_batch(run_cli: RunCli) -> None:
    # Each side of its own takes what fills its device, so that QLoRA seemed to need more than LoRA.
    done = run_cli("quick", "qlora vs lora vs full llama3.1-8b on h100")
    first = done.stdout.splitlines()[0]
    memory = [Fraction(one) for one in re.findall(r"([\d.]+)\sGiB", first)][:3]
    assert memory == sorted(memory) and "full: does not fit" in first
    assert "Assumed for each:" in done.stdout and "training.micro_batch 1" in done.stdout


@pytest.mark.slow
def test_what_is_asked_for_is_not_assumed_as_well(run_cli: RunCli) -> None:
    """The devices of 'how many' and the length of 'longest' are answers, not what a search began
    with."""
    for line, key in (
        ("how many h100 for gpt2-xl on 100B tokens in 3 days", "cluster.devices"),
        ("longest context of gpt2-xl on 8 h100", "training.sequence_length"),
    ):
        shown = run_cli("quick", line).stdout
        assumed = shown.partition("Assumed:\n")[2].partition("\n\n")[0]
        assert shown.startswith("ANSWER") and "training.optimizer" in assumed
        assert key not in assumed
