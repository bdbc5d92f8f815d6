"""What is kept of layouts that come in chunks, against a look at all of them at once."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.questions.search.selection import (
    COLLECTED,
    SPARE,
    Best,
    ByChoice,
    Front,
    Plain,
    Sample,
    round_numbers,
)

#: Scores, which may be below 0 (what is made large), and a second number of each.
LAYOUTS = st.lists(st.tuples(st.integers(-3, 60), st.integers(0, 4)), min_size=1, max_size=40)
Chunk = tuple[Any, Any, Any, Any]


def chunks(rows: list[tuple[int, int]], size: int) -> Iterator[Chunk]:
    """Scores, second numbers, what says which layout it is, and places in the chunk."""
    for start in range(0, len(rows), size):
        part = np.array(rows[start : start + size], dtype=np.float64)
        yield part[:, 0], part[:, 1], lambda place, start=start: start + place, np.arange(len(part))


@pytest.mark.slow
@settings(max_examples=200)
@given(LAYOUTS, st.integers(1, 6), st.integers(1, 15), st.booleans())
def test_the_best_are_the_first_of_all_in_order(
    rows: list[tuple[int, int]], count: int, size: int, distinct: bool
) -> None:
    """The smallest score, of equal ones the smaller second number, then the first to come; of
    equal pairs all, or the first."""
    kept = Best(count, distinct)
    for chunk in chunks(rows, size):
        kept.add(*chunk)
    order = sorted(range(len(rows)), key=lambda place: (*rows[place], place))
    if distinct:
        order = [place for place in order if rows.index(rows[place]) == place]
    assert kept.list_items() == [(*rows[place], place) for place in order[:count]]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("score", [3.0, -3.0])
def test_of_scores_that_differ_by_rounding_alone_less_memory_wins(
    score: float, first: bool
) -> None:
    """A sum in another order differs in the last of 53 binary digits; a billionth is a difference,
    and so is one of some digits more."""
    near, far = score * (1 + 2**-52), (score - 2**-30, 9.0)
    for better in ((score, 1.0), (near, 1.0)):
        worse = (score + near - better[0], 2.0)
        rows = [better, worse] if first else [worse, better]
        for kept, expected in ((rows, better), ([*rows, far], far)):
            best, by_choice, front = Best(1), ByChoice(), Front()
            said: Any = str  # which layout it is
            for value, memory in kept:
                numbers, at = (np.array([value]), np.array([memory])), np.array([0])
                best.add(*numbers, said, at)
                front.add(*numbers, said, at)
                by_choice.add_layouts(*numbers, np.array([True]), [[("tensor", (1,), at)]], said)
            assert best.first is not None and best.first[:2] == expected
            ((_, item),) = by_choice.list_items()["tensor"]
            assert item is not None and item[:2] == expected
            assert [item[:2] for item in front.list_items()] == sorted({better, expected})


@settings(max_examples=200)
@given(LAYOUTS, st.integers(1, 15))
def test_the_front_has_what_no_other_beats(rows: list[tuple[int, int]], size: int) -> None:
    kept = Front()
    for chunk in chunks(rows, size):
        kept.add(*chunk)
    beaten = {(a, b) for a, b in rows for c, d in rows if (c, d) != (a, b) and c <= a and d <= b}
    assert [item[:2] for item in kept.list_items()] == sorted(set(rows) - beaten)
    assert all(rows[item[2]] == item[:2] for item in kept.list_items())


@pytest.mark.slow
@settings(max_examples=200)
@given(LAYOUTS, st.integers(1, 15), st.sampled_from([("memory.process", SPARE), ("time", 0.77)]))
def test_the_plainest_is_within_a_fiftieth_of_the_best(
    rows: list[tuple[int, int]], size: int, goal: tuple[str, float]
) -> None:
    """Of those whose score is at most 2 % behind the smallest; of equally plain ones the best. Of
    those that somebody ran if there is one, else, by time, the best of these."""
    rows = [(10 * score, plain) for score, plain in rows]
    rows += [(score + abs(score) // 50, plain) for score, plain in rows[::2]]
    kept = Plain(goal[0])
    for score, plain, settings_of, places in chunks(rows, size):
        chunk: Any = SimpleNamespace(
            score_simplicity=plain.__getitem__,
            find_untried=lambda at, plain=plain: plain[at] % 2 > 0,
            build_setting=settings_of,
        )
        kept.add_layouts(score, chunk, places)
    least = min(score for score, _ in rows)
    run = min((score for score, plain in rows if plain % 2 == 0), default=np.inf)
    untried = run > least + abs(least) * goal[1]
    most = least + abs(least) * SPARE if untried else max(run, least + abs(least) * SPARE)
    near = [(plain, score) for score, plain in rows if score <= most]
    near = [row for row in near if row[0] % 2 == untried]
    assert kept.first is not None
    assert (kept.first[1], kept.first[0]) == min(near)


@settings(max_examples=100)
@given(st.data())
def test_each_choice_has_the_best_layout_that_has_it(data: st.DataObject) -> None:
    """Layouts over two stages of sharding, two modes and rows with a degree; some are not kept."""
    rows = data.draw(st.integers(1, 6))
    shape = (2, 2, rows)
    numbers = st.lists(st.integers(0, 9), min_size=4 * rows, max_size=4 * rows)
    score, memory = (np.array(data.draw(numbers), dtype=float).reshape(shape) for _ in range(2))
    kept = np.array(data.draw(numbers)).reshape(shape) > 3
    degree = np.array(data.draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)))
    choices = (
        [("zero", (0, 3), np.array([0, 1]))],
        [("recompute", ("none", None), np.array([0, 1]))],
        [("tensor", (1, 2, 4), degree)],
    )
    found = ByChoice()
    for start in range(0, rows, 2):
        part = slice(start, start + 2)
        cut = (*choices[:2], [("tensor", (1, 2, 4), degree[part])])
        width = len(degree[part])

        def setting(place: int, start: int = start, width: int = width) -> Any:
            first, second, third = np.unravel_index(place, (2, 2, width))
            return int(first), int(second), int(third) + start

        found.add_layouts(score[:, :, part], memory[:, :, part], kept[:, :, part], cut, setting)
    items = found.list_items()
    assert items.keys() == {"zero", "recompute", "tensor"}
    for axis, keys in enumerate(choices):
        (name, values, places) = keys[0]
        said = dict(items[name])
        assert said.keys() == {values[place] for place in places.tolist()}
        for value, item in said.items():
            pairs = [
                (score[at], memory[at])
                for at in np.ndindex(shape)
                if kept[at] and values[places[at[axis]]] == value
            ]
            assert (item is None) == (not pairs)
            if item is not None:
                assert item[:2] == min(pairs) == (score[item[2]], memory[item[2]])
        order = [item[:2] for _, item in items[name] if item is not None]
        assert order == sorted(order)


@pytest.mark.parametrize("size", [1, 7, 10, 64, 400])
def test_a_sample_has_every_so_manieth_layout_that_is_there(size: int) -> None:
    """However they come in chunks: of 400 that are there, where 40 are collected, every tenth."""
    score = np.arange(1, 500.0)
    there = score % 5 != 0  # 400 of 499
    sample = Sample(40 // COLLECTED, 400)
    for start in range(0, len(score), size):
        part = slice(start, start + size)
        sample.add(score[part], 1000 - score[part], there[part], score[part] > 250)
    taken = np.concatenate(sample._parts, axis=1)
    assert taken[0].tolist() == score[there][::10].tolist()
    assert taken[1].tolist() == (1000 - taken[0]).tolist()
    assert taken[2].tolist() == (taken[0] > 250).tolist()


@pytest.mark.parametrize("score", [3.0, -3.0, 1.0])
def test_numbers_are_rounded_by_less_than_what_counts_as_a_difference(score: float) -> None:
    """To 38 binary digits: the last is at most 2**-37 of a number. What is further behind the worst
    that is kept is not looked at."""
    assert round_numbers(np.array([score, score * 2.0**90])).tolist() == [score, score * 2.0**90]
    best = Best()
    best.add(np.array([score]), np.ones(1), lambda place: Any, np.zeros(1))
    assert score < best.most <= score + abs(score) * 2**-37


#: Sides of grids, each a quarter wider than the one before, or by one field.
SIDES = (2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 33, 41, 51, 63, 78, 97, 121)


@pytest.mark.parametrize("count", range(1, 31))
def test_of_a_sample_each_field_of_the_finest_grid_has_its_first_point(count: int) -> None:
    """Of the finest that has no more occupied fields than points are wanted, of at most four times
    as many fields a side. Powers of two lie evenly on both scales."""
    chance = np.random.default_rng(count)
    inside = [place for place in range(1000) if place % 2 and place % 5]  # never between two fields
    where = chance.permutation(inside)[: 2 * (4 + 2 * count)].reshape(2, -1)
    where[:, :2] = (0, 1000), (1000, 0)  # the corners
    if count == 3:
        where = np.array([[0, 90, 1000]] * 2)  # told apart from the first by twelve fields
    if count == 4:
        where = np.array(
            [[0, 64, 1000]] * 2
        )  # by sixteen fields, but fifteen and eighteen are tried
    score, memory = 2.0 ** (5 + where / 10)
    sample = Sample(count, score.size)
    sample.add(score, memory, np.ones(score.size, dtype=bool), where[0] > 500)
    expected: list[int] = []
    for side in (side for side in SIDES if side <= 4 * count):
        fields = [tuple(min(p * side // 1000, side - 1) for p in pair) for pair in where.T.tolist()]
        first = [place for place, field in enumerate(fields) if field not in fields[:place]]
        if len(first) > count:
            break
        expected = first
    points = [*zip(score, memory, where[0] > 500, strict=True)]
    assert [*sample.yield_points()] == [points[place] for place in expected]


def test_a_sample_of_equal_scores_is_spread_by_memory_alone() -> None:
    sample = Sample(2, 3)
    sample.add(np.ones(3), np.array([1.0, 1.5, 9.0]), np.ones(3, dtype=bool), np.ones(3))
    assert [*sample.yield_points()] == [(1.0, 1.0, True), (1.0, 9.0, True)]
    assert not [*Sample(2, 3).yield_points()]
