"""A few keys of every schema with what is no value of them, and with far too much of it; `python -m
fuzz.schema_walk` tries all."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import planner
from fuzz.schema_walk import BASES, PLAN, WRONG, defaulted, large, paths, tried


def some(kind: str, many: int) -> list[tuple[str, ...]]:
    """A few keys of a kind, the same each time."""
    every = paths(kind)
    return Random(kind).sample(every, min(many, len(every)))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", BASES)
def test_nothing_stands_for_the_default_or_is_a_fault(kind: str, tmp_path: Path) -> None:
    for path in {*defaulted(kind), *some(kind, 12)}:
        tried(kind, path, "null", tmp_path)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", BASES)
def test_a_value_of_another_type_is_a_fault_with_its_place(kind: str, tmp_path: Path) -> None:
    for number, path in enumerate(some(kind, 2 * len(WRONG))):
        tried(kind, path, WRONG[number % len(WRONG)], tmp_path)


def test_nothing_for_a_quantity_is_its_default(tmp_path: Path) -> None:
    plain = planner.load(PLAN).evaluate()
    for path in ("parallelism.context", "training.micro_batch", "training.dropout"):
        result = planner.load(PLAN, set={path: None}).evaluate()
        default = planner.load({**PLAN, "training": {**PLAN["training"], "micro_batch": 1}})
        assert result["memory.process"].value == plain["memory.process"].value, path
        assert default.evaluate()["time.step_seconds"].value == result["time.step_seconds"].value


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", BASES)
def test_far_too_much_of_a_key_takes_no_time(kind: str, tmp_path: Path) -> None:
    every = [*large(kind)]
    for path, value in Random(kind).sample(every, min(5, len(every))):
        tried(kind, path, value, tmp_path)
