"""Results that are kept are those that asking again would give."""

from __future__ import annotations

from typing import Any

import pytest

from planner.base.recent import cache_last
from planner.engine import instance as case
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.search.engine import NARROWER
from planner.questions.search.layouts import Space, SpaceRows

PLANS = ("presets/gpt3_a100x1024.yaml", "presets/mixtral8x7b_h100x1024.yaml")


def test_the_last_results_are_kept_and_older_ones_forgotten() -> None:
    asked: list[int] = []

    @cache_last(2)
    def chosen(size: int) -> Any:
        asked.append(size)
        yield size

    assert [chosen(size) for size in (1, 1, 2, 1, 3, 1)] == [(n,) for n in (1, 1, 2, 1, 3, 1)]
    assert asked == [1, 2, 3, 1]


@pytest.mark.parametrize("path", PLANS)
def test_plans_share_the_entries_of_a_model_and_no_others(path: str) -> None:
    plan = loading.load(path)
    first, again, deeper = (
        case.build(variant(plan, changes)).axes
        for changes in (
            {},
            {"training.tokens": 10**9},
            {"model.layers": 2 * plan.get("model.layers")},
        )
    )
    for axis in ("part", "block", "component", "product", "tensor"):
        assert again[axis] == first[axis]  # entries are equal where they are the same
    assert deeper["part"] != first["part"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("path", PLANS)
@pytest.mark.parametrize(("key", "values"), NARROWER)
def test_a_narrowed_space_is_the_one_with_that_option(
    path: str, key: str, values: tuple[Any, ...]
) -> None:
    plan = loading.load(path)
    whole, made = list(Space(plan).yield_blocks()), list(Space(plan, {key: values}).yield_blocks())

    def rows(blocks: list[SpaceRows]) -> list[tuple[Any, ...]]:
        return [
            (block.space.degrees[d].values, block.space.runs[run], *rest)
            for block in blocks
            for d, run, *rest in zip(*(column.tolist() for column in block.columns), strict=True)
        ]

    narrowed = rows([block.filter_rows({key: values}) for block in whole])
    assert narrowed == rows(made) and 0 < len(narrowed) <= len(rows(whole))
