"""Each formula against a number that was worked out beside the book: tests/data/worked_values.yaml
says how."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.conftest import read_data

DATA = read_data("worked_values")
DEFAULTS = DATA["defaults"]


def evaluate_plan(row: dict[str, Any]) -> Evaluation:
    plan = {key: part for key, part in row.items() if key != "values"}
    for section in ("cluster", "training"):
        plan[section] = DEFAULTS[section] | plan.get(section, {})
    return Evaluation(case.build(loading.load(plan)))


def read_values(evaluation: Evaluation, quantity: str, wanted: Any) -> Iterator[tuple[Any, float]]:
    """The value at each entry that the table names, beside the table's."""
    axes = BOOK.quantities[quantity].per
    for path, worked in wanted.items() if axes else [("", wanted)]:
        point = {
            axis: next(entry for entry in evaluation.case.axes[axis] if entry.path == name)
            for axis, name in zip(axes, str(path).split("/"), strict=False)
        }
        yield float(evaluation.value(quantity, point)), worked


@pytest.mark.parametrize("row", DATA["cases"], ids=lambda row: row["name"])
def test_a_formula_gives_what_was_worked_out_by_hand(row: dict[str, Any]) -> None:
    evaluation = evaluate_plan(row)
    for quantity, wanted in row["values"].items():
        for value, worked in read_values(evaluation, quantity, wanted):
            assert value == pytest.approx(worked, rel=1e-9), quantity
