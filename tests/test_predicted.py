"""Predictions that were committed before the measured values were read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import measured, predicted, tables
from tests.conftest import read_data

DATA = Path(__file__).parent / "data"
PAGE = Path(__file__).parent.parent / "docs" / "accuracy" / "runs.md"

#: Sets of predictions, by their dates; and how the page names their tables.
SETS = {"2026-11": "predicted", "2026-11-30": "predicted again"}
SETS |= {"2026-11-30-adapters": "predicted adapters", "2026-12-01-a100": "predicted a100"}
#: Readings of memory, which the page shows in a table of its own.
MEMORY = "2026-12-01-memory"

PLAN = read_data("plans")["predicted"]


def rows(folder: Path, **changes: Any) -> list[measured.Row]:
    row = {"id": "a", "source": "s", "kind": "dense", "use": "yes", "plan": PLAN}
    row |= {"quantity": "time.step_seconds", "value": None, "unit": "s"}
    file = folder / "rows.jsonl"
    file.write_text(json.dumps(row | changes), "utf-8")
    return list(measured.read(file))


def test_what_is_scored_is_what_was_committed(tmp_path: Path) -> None:
    (made,) = predicted.predict(rows(tmp_path))
    assert made["predicted"] > 0 and "error" not in made
    made |= {"predicted": 2.0, "interval": [1.5, 3.0]}  # as an earlier program may have said
    (record,) = predicted.score(rows(tmp_path, value=1.6), [made])
    assert record["error"] == pytest.approx(2.0 / 1.6 - 1)  # too slow
    made |= {"quantity": "time.tokens_per_second", "unit": "1/s", "predicted": 100.0}
    rate = {"quantity": "time.tokens_per_second", "unit": "1/s", "value": 80.0}
    made["plan"] = predicted.digest(rows(tmp_path, **rate)[0])
    (record,) = predicted.score(rows(tmp_path, **rate), [made])
    assert record["error"] == pytest.approx(80 / 100 - 1)  # a rate too high is a time too short


def test_a_plan_that_changed_after_its_prediction_is_refused(tmp_path: Path) -> None:
    made = predicted.predict(rows(tmp_path))
    other = PLAN | {"parallelism": {"zero": 2}}
    with pytest.raises(SystemExit, match="a: its plan is not the one that was predicted"):
        predicted.score(rows(tmp_path, value=1.0, plan=other), made)
    with pytest.raises(SystemExit, match="b: it was not predicted"):
        predicted.score(rows(tmp_path, value=1.0, id="b"), made)
    (again,) = predicted.score(rows(tmp_path, value=1.0, notes=["a note"], publication="p"), made)
    assert "error" in again  # what a prediction does not rest on may be mended


@pytest.mark.parametrize("date", [*SETS, MEMORY])
def test_the_page_names_the_hash_of_what_was_predicted(date: str) -> None:
    """The predictions are those that were committed before their values were read, and the plans
    are those that were predicted."""
    page, file = PAGE.read_text("utf-8"), DATA / f"predicted_{date}.jsonl"
    assert hashlib.sha256(file.read_bytes()).hexdigest() in page
    made = predicted.read(file)
    records = predicted.score(measured.read(DATA / f"runs_{date}.jsonl"), made)
    assert {record["id"] for record in records} <= {one["id"] for one in made}
    assert len(records) >= (len(made) - 4 if date == MEMORY else len(made))  # four give no reading


@pytest.mark.slow
@pytest.mark.parametrize(("date", "title"), SETS.items())
def test_the_page_shows_the_score_of_what_was_predicted(date: str, title: str) -> None:
    """Every run that was predicted is on the page, with the value that was read afterwards."""
    known = list(measured.read(DATA / f"runs_{date}.jsonl"))
    records = predicted.score(known, predicted.read(DATA / f"predicted_{date}.jsonl"))
    assert all("error" in record for record in records)
    page = PAGE.read_text("utf-8")
    for name, text in predicted.pages(title, known, records).items():
        assert tables.rewritten(page, text, name) == page
