"""What a part of memory is at the peak, and what times rest on where nobody assumed anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner import report as render
from planner.book.quantity import BOOK
from planner.report.answer import answer_of
from planner.report.explain import explain
from planner.report.terminal import format_summary
from planner.results.result import DEFAULT_RATES, Result

OF_TIME = ("time.step_seconds", "time.training_days", "time.mfu", "energy.total")


def result(card: str = "rtx-4090", **more: Any) -> Result:
    training = {"tokens": "1B", "sequence_length": 1024, "micro_batch": 1, "global_batch": 8}
    return planner.load({
        "name": "x", "model": "gpt2-small", "cluster": f"8 x {card}",
        "training": {**training, "implementation": "pytorch", **more.pop("training", {})}, **more,
    }).evaluate()  # fmt: skip


# -- parts of the peak -----------------------------------------------------------------------------


@pytest.mark.parametrize("plan", sorted(Path("presets").glob("*.yaml")), ids=lambda file: file.stem)
def test_a_part_of_the_peak_is_never_more_than_the_most_that_there_is(plan: Path) -> None:
    found = planner.load(plan).evaluate()
    for part in ("gradients", "activations", "buffers"):
        now, most = found.get(f"memory.{part}"), found.get(f"memory.{part}.most")
        if most is not None:
            assert now is not None and now.number <= most.number


@pytest.mark.slow
def test_gradient_memory_is_what_gradients_take() -> None:
    """None are there at the loss of the only micro-batch; four bytes for each weight later."""
    found = result(training={"global_batch": 8}, parallelism={"zero": 0})
    assert found["memory.gradients"].value == 0
    assert "at its peak" in found["memory.gradients"].title
    assert found["memory.gradients.most"].value == 4 * found["parameters.total"].value
    assert explain(found, "gradient memory").split()[2] == "memory.gradients.most"


def test_titles_say_which_parts_are_those_of_the_peak() -> None:
    for part in ("weights", "gradients", "optimizer", "activations", "buffers", "cache"):
        assert BOOK.quantities[f"memory.{part}"].title.endswith("at its peak")


# -- what times rest on ----------------------------------------------------------------------------


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("card", "calibrated"), [("rtx-4090", False), ("h100", True)])
def test_default_rates_are_called_so_and_nothing_that_nobody_assumed(
    card: str, calibrated: bool
) -> None:
    found = result(card)
    text = [render.as_text(found, kind=kind) for kind in ("md", "html")]
    text.append(format_summary(found))
    text += [explain(found, name) for name in OF_TIME]
    assert not any("assumed utilisation" in one for one in text)
    notes = {row.id: row.note for row in answer_of(found).numbers if row.id in OF_TIME}
    assert notes and set(notes.values()) == {"" if calibrated else "default rates"}
    assert all((DEFAULT_RATES in " ".join(one.split())) != calibrated for one in text)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("use", ["predicted", "assumed"])
@pytest.mark.parametrize("card", ["rtx-4090", "h100"])
def test_the_other_time_is_called_by_its_name(card: str, use: str) -> None:
    """A prediction by default rates is no assumption, and what is assumed no prediction."""
    found = result(card, time={"mfu": 0.31, "use": use})
    row = next(row for row in answer_of(found).numbers if row.id == "time.mfu")
    note = row.note.replace("\N{NO-BREAK SPACE}", " ")
    assert note.startswith("assumed; predicted: " if use == "assumed" else "assumed: 31.0 %")
    data = json.loads(json.dumps(found.to_json()))["quantities"]["time.mfu"]
    assert ("predicted" in data, "assumed" in data) == (use == "assumed", use == "predicted")
