"""`plan.py search` as a user meets it."""

from __future__ import annotations

import csv
import io
import json

from tests.conftest import RunCli

PLAN = "presets/gpt2small_hgx-h100.yaml"


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
