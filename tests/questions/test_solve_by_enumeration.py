"""How inverse questions look for an answer, on functions whose answer is counted out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.base.errors import Fault, PlanError
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.domains import Domain
from planner.questions.search.selection import Sample
from planner.questions.solve import evaluations, families, references, solve_with_layout
from planner.questions.solve.evaluations import Goal, Probes, narrow_bounds
from planner.questions.solve.optimum import _scan_domain, find_optimum
from planner.questions.solve.solve import Answer, find_direction, solve_domain, yield_strides

#: Quantities of plans that the functions stand for; only their names are used.
TIME, BYTES = "time.step_seconds", "memory.total"


class Functions:
    """Quantities that are functions of the unknown, which has no valid value in the holes."""

    def __init__(
        self, of: Mapping[str, Callable[[int], Any]], holes: Callable[[int], bool]
    ) -> None:
        self.of, self.holes = of, holes

    def build_variants(self, plan: Any, changes: Mapping[str, Any]) -> Sequence[Any]:
        if self.holes(changes["x"]):
            raise PlanError(Fault("a hole"))
        return (changes["x"],)

    def evaluate_best(self, plans: Sequence[Any], exact: bool) -> tuple[Any, Mapping[str, Any]]:
        return plans[0], {name: function(plans[0]) for name, function in self.of.items()}


def domain(start: int, last: int, endless: bool = False) -> Domain:
    return Domain("x", "1", lambda i: i, lambda v: {"x": v}, start, 1, last, "", endless)


def no_holes(index: int) -> bool:
    return False


# -- the last value that holds -----------------------------------------------------------------


@settings(max_examples=60)
@given(
    st.integers(1, 3000),
    st.integers(0, 3000),
    st.sampled_from((1, 2, 3)),
    st.sampled_from((1, 7, 100)),
    st.sampled_from((1, 2, 6)),
    st.sampled_from((1, -1)),
)
def test_the_last_value_that_holds_is_that_of_an_enumeration(
    start: int, edge: int, degree: int, stair: int, step: int, direction: int
) -> None:
    """Powers and stairs that rise with the unknown, valid at multiples of a step."""

    def rising(index: int) -> int:
        return (index // stair) ** degree

    relation = "<=" if direction > 0 else ">="
    limit = Limit(BYTES, relation, rising(edge))
    over = domain(start, 3000)
    functions = Functions({BYTES: rising}, lambda index: index % step != 0)
    search = Probes(None, over, (limit,), (), functions)  # type: ignore[arg-type]
    found = solve_domain(search, direction)
    valid = range(step, 3001, step)
    holds = [index for index in valid if limit.is_met(rising(index))]
    if not holds:
        assert found.holds is None and found.miss is not None
        return
    last = max(holds) if direction > 0 else min(holds)
    beyond = [index for index in valid if (index - last) * direction > 0]
    assert found.holds is not None and found.holds.index == last
    assert not any("monotone" in note for note in found.notes)
    assert (None if found.fails is None else found.fails.index) == (
        min(beyond, key=lambda index: abs(index - last)) if beyond else None
    )


@pytest.mark.parametrize("direction", [1, -1])
def test_what_holds_again_twice_as_far_on_is_found(direction: int) -> None:
    """From 1,000 on the limit is broken, but between 1,900 and 2,100, or 450 and 550."""
    low, high = (1900, 2100) if direction > 0 else (450, 550)
    limit = Limit(BYTES, "<=", 0)
    over = domain(1000, 10**4)

    def missed(index: int) -> int:
        return int((index - 1000) * direction > 0 and not low <= index <= high)

    search = Probes(None, over, (limit,), (), Functions({BYTES: missed}, no_holes))  # type: ignore[arg-type]
    found = solve_domain(search, direction)
    assert found.holds is not None and found.holds.index == (high if direction > 0 else low)
    assert found.notes == ("not monotone: the limits break and hold again on the way",)


@pytest.mark.parametrize(("jumps", "last"), [(1, 1006), (7, 1042), (8, 1048), (9, 1048)])
def test_limits_that_break_again_and_again_are_followed_eight_times(jumps: int, last: int) -> None:
    """Every second value holds, up to the one so many times six further on; of the odd ones 1, 3
    and 6 beyond one that holds the even one is where the walk goes on."""
    limit = Limit(BYTES, "<=", 0)
    over = domain(1000, 10**4)

    def missed(index: int) -> int:
        return index if index % 2 or index > 1000 + 6 * jumps else 0

    search = Probes(None, over, (limit,), (), Functions({BYTES: missed}, no_holes))  # type: ignore[arg-type]
    found = solve_domain(search, 1)
    assert found.holds is not None and found.holds.index == last
    where = " on the way" if jumps < 8 else ", perhaps further on too"
    assert found.notes == (f"not monotone: the limits break and hold again{where}",)


@pytest.mark.parametrize("rounding", [-1, 1])
def test_exact_numbers_decide_where_estimates_are_wrong(rounding: int) -> None:
    """Estimates are one too low or one too high: 500 is the last that holds by the exact ones."""

    class Estimates(Functions):
        def evaluate_best(self, plans: Sequence[Any], exact: bool) -> Any:
            return plans[0], {BYTES: plans[0] + (0 if exact else rounding)}

    limit = Limit(BYTES, "<=", 500)
    over = domain(100, 1000)
    search = Probes(None, over, (limit,), (), Estimates({}, no_holes))  # type: ignore[arg-type]
    found = solve_domain(search, 1)
    assert found.holds is not None and found.fails is not None
    assert (found.holds.index, found.fails.index) == (500, 501)
    assert found.holds.exact and found.fails.exact and found.holds.values[BYTES] == 500


def searched(over: Domain, *limits: Limit, **of: Callable[[int], Any]) -> Probes:
    """The values of a domain at which ``bytes`` and ``time`` are what functions say."""
    names = {"bytes": BYTES, "time": TIME}
    functions = Functions({names[name]: function for name, function in of.items()}, no_holes)
    return Probes(None, over, limits, evaluator=functions)  # type: ignore[arg-type]


def test_strides_grow_to_the_end_of_a_domain() -> None:
    """Half of 1,000 further on, then once, twice, four times as much; and such shares of it."""
    search = searched(domain(1000, 10**4), Limit(BYTES, "<=", 0), bytes=lambda index: 0)
    start = search.evaluate_index(1000)
    assert start is not None
    further = [probe.index for probe in yield_strides(search, start, 1)]
    assert further == [1500, 2000, 3000, 5000, 9000, 10**4]
    less = [probe.index for probe in yield_strides(search, start, -1)]
    assert less == [1000 * 2 // (2 + 2**stride) for stride in range(10)] + [1]
    last = search.evaluate_index(1)
    assert last is not None and not list(yield_strides(search, last, -1))
    assert [probe.index for probe in yield_strides(search, last, 1)][:5] == [2, 3, 4, 5, 9]
    few = Functions({BYTES: lambda index: 0}, lambda index: 44 < index < 100)
    over = domain(100, 100)
    search = Probes(None, over, (Limit(BYTES, "<=", 0),), evaluator=few)  # type: ignore[arg-type]
    beside = [probe.index for probe in yield_strides(search, search.find_start(), -1)]
    assert beside == [44, 43, 33, 20, 11, 5, 3, 1]  # what is passed over is not tried again
    none = searched(replace(domain(0, 100), first=0), bytes=lambda index: 0).evaluate_index(0)
    assert none is not None
    assert [probe.index for probe in yield_strides(search, none, 1)][:6] == [1, 2, 3, 4, 8, 16]


@pytest.mark.parametrize("side", [1, -1])
def test_a_walk_turns_back_where_limits_are_missed_by_more_and_more(side: int) -> None:
    """Three strides on which the one limit is further off, and the other no nearer."""
    limits = Limit(BYTES, "<=", -1), Limit(TIME, "<=", -1)

    def strode(missed: Callable[[int], int], other: Callable[[int], int]) -> int:
        search = searched(domain(1000, 10**5), *limits, bytes=missed, time=other)
        start = search.evaluate_index(1000)
        assert start is not None
        return len(list(yield_strides(search, start, side)))

    def worse(index: int) -> int:
        return 10**6 + side * index

    def better(index: int) -> int:
        return 10**6 - side * index

    whole = strode(lambda index: 0, lambda index: 0)  # nothing changes: it may further on
    assert whole == (9 if side > 0 else 11)
    assert strode(worse, lambda index: -1) == strode(worse, lambda index: 0) == 3
    assert strode(worse, worse) == 3 and strode(worse, better) == whole
    nears = {1500: 10, 2000: 9, 666: 10, 500: 9}  # the second stride comes nearer than the first
    assert strode(lambda index: nears.get(index, worse(index)), lambda index: -1) == 5


def test_an_edge_is_aimed_at_by_a_straight_line_and_by_halves_in_turns() -> None:
    """The line through 1 and 10,001 is at 3,001 after 3,000, and at 4,002 after 2,000, which is
    nearer. Of what is left half is tried; then the line is at its end, so the next is."""
    limits = Limit(BYTES, "<=", 3001), Limit(TIME, "<=", 4002)
    for order, aim in ((limits[:1], 3001), (limits, 2001), (limits[::-1], 2001)):
        over = domain(1, 10**5)
        search = searched(over, *order, bytes=lambda index: index, time=lambda index: 2 * index)
        inside, outside = search.evaluate_index(1), search.evaluate_index(10_001)
        assert inside is not None and outside is not None
        inside, outside = narrow_bounds(search, inside, outside)
        assert (inside.index, outside.index) == (aim, aim + 1)
        assert [*search.probes][2:] == [aim, (aim + 10_001) // 2, aim + 1]


@settings(max_examples=40)
@given(st.integers(1, 10**9), st.floats(0.3, 3))
def test_an_edge_is_met_in_a_few_dozen_trials(edge: int, power: float) -> None:
    """Halving alone would take 30 of a thousand million values, after as many strides."""
    limit = Limit(BYTES, "<=", float(edge) ** power)
    over = domain(1, 10**12)
    functions = Functions({BYTES: lambda index: float(index) ** power}, no_holes)
    search = Probes(None, over, (limit,), (), functions)  # type: ignore[arg-type]
    found = solve_domain(search, 1)
    assert found.holds is not None and found.holds.index == edge
    assert found.tried <= 64


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize("side", [1, -1])
def test_what_holds_behind_a_stride_that_comes_no_nearer_is_found(
    direction: int, side: int
) -> None:
    """At first more is missed, by and by less, in the end nothing: values from 400 on hold."""

    def missed(index: int) -> float:
        away = (index - 1000) * side
        if away < 0:
            return 9 - away
        return 5 + away if away < 100 else max(0.0, 4 - away / 100)

    limit = Limit(BYTES, "<=", 0)
    over = domain(1000, 2000)
    search = Probes(None, over, (limit,), (), Functions({BYTES: missed}, no_holes))  # type: ignore[arg-type]
    found = solve_domain(search, direction)
    assert found.holds is not None
    assert found.holds.index == (
        1000 + side * 400 if direction * side < 0 else (2000 if side > 0 else 1)
    )


@settings(max_examples=60)
@given(st.integers(1, 60), st.integers(-100, 200), st.integers(-100, 200), st.booleans())
def test_without_an_answer_the_nearest_miss_of_all_values_is_told(
    last: int, most: int, least: int, bounded: bool
) -> None:
    """One limit asks for less, one for more, a third for what all or no values have."""
    limits = [Limit(BYTES, "<=", most), Limit(BYTES, ">=", least), Limit(TIME, "<=", 0)]
    over = domain(1, last)
    search = searched(over, *limits, bytes=lambda index: index, time=lambda index: int(bounded))
    found = solve_domain(search)

    def missed(limit: Limit, index: int) -> float:
        value = index if limit.quantity == BYTES else int(bounded)
        short = value - limit.value if limit.relation == "<=" else limit.value - value
        return float(short / (max(abs(limit.value), abs(value)) or 1))

    worst = {i: max(missed(limit, i) for limit in limits) for i in range(1, last + 1)}
    if min(worst.values()) <= 0:
        assert found.holds is not None and worst[found.holds.index] <= 0
        return
    assert found.holds is None and found.miss is not None
    assert worst[found.miss.index] == pytest.approx(min(worst.values()))
    alone = [limit for limit in limits if all(missed(limit, i) > 0 for i in worst)]
    assert found.together == (not alone)
    assert list(found.unmet) == (alone or limits[:2])


@settings(max_examples=60)
@given(st.lists(st.booleans(), min_size=1, max_size=64), st.data(), st.sampled_from((1, -1)))
def test_of_few_values_the_furthest_that_holds_is_the_answer(
    holds: list[bool], data: st.DataObject, direction: int
) -> None:
    """Whatever breaks before it, which a note tells."""
    over = domain(data.draw(st.integers(1, len(holds))), len(holds))
    limit = Limit(BYTES, "<=", 0)
    search = searched(over, limit, bytes=lambda index: int(not holds[index - 1]))
    found = solve_domain(search, direction)
    held = [index for index, kept in enumerate(holds, start=1) if kept]
    if not held:
        assert found.holds is None
        return
    assert found.holds is not None
    assert found.holds.index == (max(held) if direction == 1 else min(held))
    stretches = sum(index - 1 not in held for index in held)
    assert bool(found.notes) == (stretches > 1)


@pytest.mark.parametrize("first", [0, 1, 7, 1000])
@pytest.mark.parametrize("count", [1, 63, 64, 65, 10**30])
def test_a_domain_of_sixty_four_values_is_tried_in_full(first: int, count: int) -> None:
    over = replace(domain(first, first + count - 1), first=first)
    search = searched(over, bytes=lambda index: index)
    assert search.evaluate_all() == (count <= 64)
    every = range(first, first + count) if count <= 64 else ()
    assert [*search.probes] == [*every] == [probe.index for probe in search.known]


def test_what_holds_at_any_value_is_unbounded_upwards() -> None:
    """The smallest is the first of the domain."""
    over, limit = domain(1000, 10**30, endless=True), Limit(BYTES, "<=", 0)
    search = searched(over, limit, bytes=lambda index: 0)
    with pytest.raises(PlanError, match=r"x is unbounded: memory\.total still within limits"):
        solve_domain(search, 1)
    found = solve_domain(search, -1)
    assert found.holds is not None and found.holds.index == 1 and found.fails is None


# -- values that differ in two ways ------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=150)
@given(
    start=st.integers(0, 39),
    share=st.floats(-0.1, 1.1),
    deepest=st.integers(1, 90),
    steepness=st.sampled_from((0, 3, 1000)),
    period=st.sampled_from((100, 3, 7)),
)
def test_the_largest_of_many_rows_is_that_of_an_enumeration(
    start: int, share: float, deepest: int, steepness: int, period: int
) -> None:
    """Forty widths with up to ninety layers each: what a size costs rises with both, not in
    proportion, so that the widest row that holds anything need not hold the largest. Of several
    kinds of layers every so-manieth is as large as five."""
    sizes = {
        100 * width + depth: width**2 * (depth + 4 * (depth // period))
        for width in range(40)
        for depth in range(1, deepest + 1)
    }
    costs = {
        index: size + steepness * (index // 100) * (1 + index % 100)
        for index, size in sizes.items()
    }
    limit = Limit(BYTES, "<=", share * max(costs.values()))
    rows = tuple(range(100 * width + 1, 100 * width + deepest + 1) for width in range(40))
    over = replace(
        domain(rows[start][0], rows[-1][-1]),
        first=rows[0][0],
        endless=True,
        rows=rows,
        measure="parameters.total",
    )
    functions = Functions(
        {BYTES: costs.__getitem__, "parameters.total": sizes.__getitem__}, lambda i: i not in sizes
    )
    search = Probes(None, over, (limit,), (over.measure,), functions)  # type: ignore[arg-type]
    held = [index for index, cost in costs.items() if limit.is_met(cost)]
    if len(held) == len(costs):
        with pytest.raises(PlanError, match="unbounded"):
            solve_domain(search)
        return
    found = solve_domain(search)
    if not held:
        assert found.holds is None
        return
    assert found.holds is not None and found.direction == 1
    assert sizes[found.holds.index] == max(sizes[index] for index in held)
    # Of each row that might have a larger one the first that is larger, which does not hold.
    largest = sizes[found.holds.index]
    for beyond in found.beyond:
        row = range(beyond.index // 100 * 100 + 1, beyond.index + 1)
        assert beyond.broken and [i for i in row if sizes[i] > largest] == [beyond.index]
    # Rows behind one whose first breaks the limit have none: what is first grows from row to row.
    widest = next((w for w in range(40) if costs[100 * w + 1] > limit.value), 40)
    assert all(probe.index // 100 <= widest for probe in found.beyond)
    assert min(sizes[p.index] for p in found.beyond) == min(
        size for index, size in sizes.items() if size > largest and index // 100 <= widest
    )


@pytest.mark.parametrize("again", [True, False])
def test_a_larger_value_beyond_one_that_breaks_is_found_and_said_to_be(again: bool) -> None:
    """The wide row holds up to 20, the narrow one up to 60; of the wide one 70 to 90 hold again."""
    rows = (range(1, 11), range(11, 21))
    over = replace(domain(1, 20), rows=rows, measure="parameters.total")
    broken = {13, 14, 15, 16, 20} | (set() if again else {17, 18, 19})
    functions = {
        BYTES: lambda index: int(index in broken),
        "parameters.total": lambda index: 6 * index if index < 11 else 10 * (index - 10),
    }
    limit = Limit(BYTES, "<=", 0)
    search = Probes(None, over, (limit,), evaluator=Functions(functions, no_holes))  # type: ignore[arg-type]
    found = solve_domain(search)
    assert found.holds is not None and found.holds.number == (90 if again else 60)
    assert bool(found.notes) == again
    assert [probe.number for probe in found.beyond] == ([100] if again else [70])
    assert found.fails == found.beyond[0]


def test_where_only_the_first_of_a_row_holds_the_next_of_each_row_is_told() -> None:
    """It is compared by exact numbers with what is next; what is larger yet is an estimate."""

    class Sizes(Functions):
        def evaluate_best(self, plans: Sequence[Any], exact: bool) -> Any:
            index = plans[0]
            size = 6 * index if index < 11 else 10 * (index - 10)
            return index, {BYTES: size if exact else size * 1.001, "parameters.total": size}

    rows = (range(1, 11), range(11, 21))
    over = replace(domain(20, 20), rows=rows, measure="parameters.total")
    search = Probes(None, over, (Limit(BYTES, "<=", 11),), evaluator=Sizes({}, no_holes))  # type: ignore[arg-type]
    found = solve_domain(search)
    assert found.holds is not None and found.holds.index == 11 and found.holds.exact
    assert [(probe.number, probe.exact) for probe in found.beyond] == [(12, True), (20, False)]


def test_a_question_starts_at_the_valid_value_nearest_to_the_plans_own() -> None:
    """Of two that are as near, at the larger."""
    for valid, nearest in (((4, 10), 10), ((5, 10), 5), ((3, 10), 10), ((3, 8), 8)):
        functions = Functions({BYTES: lambda x: x}, lambda x, valid=valid: x not in valid)
        search = Probes(None, domain(7, 20), (), evaluator=functions)  # type: ignore[arg-type]
        assert search.find_start().index == nearest


def test_a_graph_that_served_last_is_tried_first_and_the_oldest_are_dropped() -> None:
    """A graph serves plans of one kind; of more kinds than are kept the first is built anew."""

    class Graph:
        def __init__(self, kind: int) -> None:
            self.kind = kind

        def rerun(self, built: int, exact: bool) -> Any:
            tried.append(self.kind)
            return self if self.kind == built else None

        def instance(self, name: str, point: Any) -> None:
            made.append(self.kind)

    def asked(*kinds: int) -> tuple[list[int], list[int]]:
        tried.clear()
        made.clear()
        for kind in kinds:
            assert evaluator._find_evaluation(kind, False).kind == kind  # type: ignore[arg-type, attr-defined]
        return tried[:], made[:]

    tried, made = list[int](), list[int]()
    evaluator = evaluations.AsItIs(["no quantity but this test's"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluations, "Evaluation", lambda built, exact: Graph(built))
        patch.setattr(evaluations, "MOST_GRAPHS", 3)
        assert asked(1, 2, 3) == ([1, 2, 1], [1, 2, 3])
        assert asked(1, 1, 3) == ([3, 2, 1, 1, 1, 3], [])
        assert asked(4, 2) == ([3, 1, 2, 4, 3, 1], [4, 2])


# -- the best value ----------------------------------------------------------------------------


def best(function: Callable[[int], Any], over: Domain) -> Any:
    functions = Functions({TIME: function}, no_holes)
    search = Probes(None, over, (), evaluator=functions)  # type: ignore[arg-type]
    return find_optimum(search, Goal(TIME, 1))


@settings(max_examples=40)
@given(st.integers(1, 5000), st.integers(1, 5000), st.sampled_from((1, 2)))
def test_the_top_of_a_hill_is_that_of_an_enumeration(start: int, top: int, power: int) -> None:
    found = best(lambda index: -(abs(index - top) ** power), domain(start, 5000))
    assert found.holds.index == top and found.notes == ()
    assert [probe.index for probe in found.beside] == [
        index for index in (top - 1, top + 1) if 1 <= index <= 5000
    ]


@pytest.mark.parametrize(("most", "least"), [(900, 100), (700, 300)])
def test_round_values_between_the_ends_of_what_holds_are_scanned(most: int, least: int) -> None:
    """A 32nd of what holds is 25 or 12 wide: multiples of 16, or of 8, besides strides."""
    limits = Limit(BYTES, "<=", most), Limit(BYTES, ">=", least)
    over = replace(domain(500, 900), first=100)
    search = searched(over, *limits, bytes=lambda index: index)
    _scan_domain(search)
    tried = {probe.index for probe in search.known if least <= probe.index <= most}
    round_values = set(range(112, 900, 16)) if least == 100 else set(range(304, 700, 8))
    strode = {500, 750, 900, 333, 250, 166, 100}
    near = {least - 1, least, least + 1, most - 1, most, most + 1}  # where limits begin to hold
    assert round_values <= tried
    assert len(tried - round_values - strode - near) <= (0 if least == 100 else 12)


def test_where_values_are_few_or_not_all_valid_a_scan_tries_the_next() -> None:
    """Each of twenty-one that hold; of odd ones the next after every eighth."""
    over = replace(domain(500, 900), first=100)
    for low, high, step in ((490, 510, 1), (301, 699, 8)):
        limits = Limit(BYTES, "<=", high), Limit(BYTES, ">=", low)
        functions = Functions({BYTES: lambda i: i}, lambda i, step=step: step > 1 and i % 2 == 0)
        search = Probes(None, over, limits, evaluator=functions)  # type: ignore[arg-type]
        _scan_domain(search)
        first = range(low + -low % step, high, step)
        assert {index + (step > 1) for index in first} <= {probe.index for probe in search.known}


def test_valid_values_that_no_stride_meets_are_climbed() -> None:
    """500 to 510 are valid, the nearest others tried are 250 further on."""
    for start, top in ((500, 510), (510, 500)):
        functions = Functions(
            {TIME: lambda i, up=top - start: up * i}, lambda i: not 500 <= i <= 510
        )
        search = Probes(None, domain(start, 10**4), (), evaluator=functions)  # type: ignore[arg-type]
        found = find_optimum(search, Goal(TIME, 1))
        assert found.holds is not None and found.holds.index == top


@pytest.mark.parametrize("top", [410, 640, 790])
def test_a_hill_as_wide_as_a_few_parts_of_a_domain_is_not_passed_over(top: int) -> None:
    """A lower hill stands at the start; the other is 60 wide among 600 values."""

    def hills(index: int) -> int:
        return max(60 - abs(index - 300), 3 * (30 - abs(index - top)), 0)

    found = best(hills, replace(domain(300, 900), first=300))
    assert found.holds.index == top
    many = f"{TIME} rises and falls more than once; other peaks are worse"
    assert found.notes == (many,)


@pytest.mark.parametrize("heights", [[0, 5, 0, 4, 0], [0, 4, 5, 3, 0]])
def test_a_second_peak_is_told_and_one_alone_is_not(heights: list[int]) -> None:
    found = best(lambda index: heights[index - 1], domain(1, 5))
    assert found.holds.values[TIME] == 5
    many = f"{TIME} rises and falls more than once; other peaks are worse"
    assert (many in found.notes) is (heights[2] == 0)


def test_the_one_valid_value_is_the_best_also_where_others_have_no_end() -> None:
    only = Functions({TIME: lambda index: index}, lambda index: index != 5)
    over = domain(5, 10**6, endless=True)
    search = Probes(None, over, (), evaluator=only)  # type: ignore[arg-type]
    found = find_optimum(search, Goal(TIME, 1))
    assert found.holds is not None and found.holds.index == 5 and not found.beside


@pytest.mark.parametrize("plateau", [0, 1, 4])
def test_other_values_that_are_as_good_are_told(plateau: int) -> None:
    found = best(lambda index: -max(0, abs(index - 20) - plateau), domain(40, 60))
    assert abs(found.holds.index - 20) <= plateau
    same = f"other values give the same {TIME}"
    assert found.notes == ((same,) if plateau else ())


@settings(max_examples=60)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=64), st.integers(0, 9), st.data())
def test_the_best_of_few_values_is_that_of_an_enumeration(
    heights: list[int], most: int, data: st.DataObject
) -> None:
    """Large and small, within a limit on another quantity that some break."""
    start, sense = data.draw(st.integers(1, len(heights))), data.draw(st.sampled_from((1, -1)))
    weights = data.draw(st.permutations([index % 10 for index in range(len(heights))]))
    functions = Functions(
        {TIME: lambda i: heights[i - 1], BYTES: lambda i: weights[i - 1]}, no_holes
    )
    over, limit = domain(start, len(heights)), Limit(BYTES, "<=", most - 1)
    held = [h for h, weight in zip(heights, weights, strict=True) if weight < most]
    search = Probes(None, over, (limit,), evaluator=functions)  # type: ignore[arg-type]
    if len(heights) > 1 and len(set(heights)) == 1:
        with pytest.raises(PlanError, match="does not change"):
            find_optimum(search, Goal(TIME, sense))
        return
    found = find_optimum(search, Goal(TIME, sense))
    assert (found.holds is not None) == bool(held)
    if found.holds is not None:
        assert found.holds.values[TIME] == (max(held) if sense == 1 else min(held))


@pytest.mark.slow
@example(start=1, low=1, width=1, tops=(0.5, 0.5), heights=(1, 1), high_is_limited=False)
@settings(max_examples=150)
@given(
    start=st.integers(1, 40_000),
    low=st.integers(1, 20_000),
    width=st.integers(1, 20_000),
    tops=st.tuples(st.floats(0.05, 0.95), st.floats(0.05, 0.95)),
    heights=st.tuples(st.integers(1, 9), st.integers(1, 9)),
    high_is_limited=st.booleans(),
)
def test_of_two_hills_within_the_limits_the_higher_is_the_answer(
    start: int,
    low: int,
    width: int,
    tops: tuple[float, float],
    heights: tuple[int, int],
    high_is_limited: bool,
) -> None:
    """Wherever the plan's own value is, strides may jump over the stretch that holds the limits.
    Each hill is a quarter as wide as what holds; beyond the limits the ground is higher. Tops
    nearer than half a hill are one hill with a dent, of which a coarse scan may see one side."""
    last = low + width
    foot = max(1, width / 8)

    def hills(index: int) -> float:
        inside = [
            height * (foot - abs(index - (low + top * width))) / foot
            for top, height in zip(tops, heights, strict=True)
        ]
        return max(*inside, 0.0) if low <= index <= last else 20 + index / 1000

    over = domain(start, last if not high_is_limited else 40_000)
    if not over.first <= start <= (over.last or start):
        over = replace(over, start=last)
    limits = [Limit(BYTES, ">=", low)] + [Limit(BYTES, "<=", last)] * high_is_limited
    functions = Functions({TIME: hills, BYTES: lambda index: index}, no_holes)

    def found_by() -> Any:
        search = Probes(None, over, tuple(limits), evaluator=functions)  # type: ignore[arg-type]
        return find_optimum(search, Goal(TIME, 1))

    if over.first == low and over.last == last and len(set(map(hills, range(low, last + 1)))) == 1:
        with pytest.raises(PlanError, match="does not change with x"):
            found_by()
        return
    found = found_by()
    highest = max(map(hills, range(low, last + 1)))
    assert found.holds is not None
    if abs(tops[0] - tops[1]) * width >= foot:
        assert found.holds.values[TIME] == highest
    else:
        lower = min(heights) * (1 - 1 / foot)  # at the whole number beside the lower top
        assert lower <= found.holds.values[TIME] <= highest


@pytest.mark.parametrize("start", [0, 1, 3])
def test_what_is_best_a_million_times_as_far_on_has_no_best_value(start: int) -> None:
    """It only comes nearer and nearer to one; or its top is further on than 2**20 times."""
    over = replace(domain(start, 10**12, endless=True), first=0)
    most = 2**20 * max(start, 1)
    for function in (lambda index: 1 - 1 / (index + 1), lambda index: -abs(index - 2 * most)):
        with pytest.raises(PlanError, match="unbounded"):
            best(function, over)
    for top in (most // 2, most if start == 0 else 17):
        assert best(lambda index, top=top: -abs(index - top), over).holds.index == top


# -- models and layouts ------------------------------------------------------------------------


@settings(max_examples=100)
@given(st.integers(1, 10**6))
def test_rounder_numbers_are_the_next_multiples_of_powers_of_two(index: int) -> None:
    """Up to an eighth further on, the roundest first."""
    powers = [2**k for k in range(1, 24)]
    up = [(index // power + 1) * power for power in powers]
    down = [-(-index // power) * power - power for power in powers]
    for direction, steps in ((1, up), (-1, down)):
        near = [step for step in steps if 8 * abs(step - index) <= index]
        assert solve_with_layout._list_rounder(index, direction) == [*reversed(dict.fromkeys(near))]


@pytest.mark.parametrize("rows", [(), (range(4), range(4, 8), range(8, 12))])
def test_what_fails_says_so_of_what_lies_further_on_in_its_row(
    rows: tuple[range, ...],
) -> None:
    """Of rows of four values each, and of a domain that has no rows: other layouts are looked for
    at values of which nothing is proven, and where there is none, that is."""
    over = replace(domain(1, 11), first=0, rows=rows, measure=BYTES)
    limit = Limit(BYTES, "<=", -1)
    functions = Functions({BYTES: lambda index: index}, no_holes)
    search = Probes(None, over, (limit,), evaluator=functions)  # type: ignore[arg-type]
    for index, other in product(range(12), repeat=2):
        asked, proven = list[Any](), [index]
        layouts = SimpleNamespace(extend_layouts=lambda plan, *_, into=asked: into.append(plan))
        edge = search.evaluate_index(other)
        assert edge is not None
        assert not solve_with_layout._try_further(search, layouts, 1, proven, other)  # type: ignore[arg-type]
        covered = index <= other and (index // 4 == other // 4 if rows else index == other)
        assert asked == ([] if covered else [other])
        assert proven == ([index] if covered else [index, other])


@pytest.mark.parametrize("relation", ["<=", ">="])
@pytest.mark.parametrize("grows", [True, False])
@pytest.mark.parametrize("valid", [(6, 12), (3, 6)])
def test_a_question_goes_to_where_its_limit_comes_nearer(
    relation: str, grows: bool, valid: tuple[int, int]
) -> None:
    """Told by the other value that is valid, above the plan's own or below it."""

    def size(x: int) -> Fraction:
        return Fraction(x if grows else 100 - x, 100)

    search = Probes(
        None,  # type: ignore[arg-type]
        domain(6, 12),
        (Limit(TIME, "<=", 1), Limit(BYTES, relation, 1)),
        evaluator=Functions({TIME: lambda x: 1, BYTES: size}, lambda x: x not in valid),
    )
    nearer_above = grows == (relation == "<=")
    assert find_direction(search, search.find_start()) == (1 if nearer_above else -1)
    search.limits = search.limits[:1]
    assert find_direction(search, search.find_start()) == 1  # nothing changes


def test_a_limit_that_is_just_met_is_kept() -> None:
    """Of layouts that keep the limits the fastest is first, then what misses them least."""
    layouts = SimpleNamespace(limits=(Limit(BYTES, "<=", 100),), by=TIME)
    ranked = [(50, 1.0), (100, 2.0), (50, 3.0), (101, 0.5), (200, 0.1)]

    def rank(pair: tuple[int, float]) -> Any:
        values = {BYTES: pair[0], TIME: pair[1]}
        return solve_with_layout.FreeLayout._rank_layout(layouts, (None, values))  # type: ignore[arg-type]

    assert sorted(ranked, key=rank, reverse=True) == ranked
    assert [rank(pair)[0] for pair in ranked] == [True, True, True, False, False]


def test_a_layout_whose_ranks_divide_the_batch_is_found_where_the_plans_own_is_not_valid() -> None:
    """Three stages leave two ranks for data, which three sequences do not divide; without a batch
    of its own a plan needs to divide nothing."""
    own = {"parallelism.pipeline": 3, "parallelism.zero": 0, "training.micro_batch": 1}
    tiny = {"cluster.devices": 6, "cluster.devices_per_node": 6, "model.layers": 12, **own}
    plan = variant(
        loading.load("presets/gpt2small_hgx-h100.yaml"), {**tiny, "training.global_batch": 6}
    )
    assert solve_with_layout.find_valid_plan(plan, {}).get("parallelism.pipeline") == 3
    found = solve_with_layout.find_valid_plan(plan, {"training.global_batch": 3})
    assert 3 % found.get("parallelism.data") == 0
    for batch in (30, None):
        plan = variant(plan, {"training.global_batch": batch})
        found = solve_with_layout.find_valid_plan(plan, {"model.layers": 2})  # fewer than stages
        assert found.get("parallelism.pipeline") == 2  # the nearest that they fill


def layouts(**given: Any) -> solve_with_layout.FreeLayout:
    return solve_with_layout.FreeLayout((Limit(BYTES, "<=", 100),), **given)


def test_where_no_layout_is_known_what_is_fixed_stays() -> None:
    """Of a key with several values the plan's own is kept; searches are counted down."""
    plan = loading.load("presets/gpt2small_hgx-h100.yaml", {"parallelism.zero": 2})
    space = {"parallelism.tensor": (2,), "parallelism.zero": (0, 1)}
    one = layouts(space=space, searches=2)
    asked = list[Any]()
    one.find_fastest = lambda base, changes, within=True: asked.append((base, within))  # type: ignore[assignment, method-assign, func-returns-value]
    (found,) = one.build_variants(plan, {"model.layers": 6})
    assert [found.get(f"parallelism.{key}") for key in ("tensor", "zero")] == [2, 2]
    assert found.get("model.layers") == 6 and found.get("time.mfu") is None
    assert asked == [(found, True), (found, False)] and one.searches == 1
    one.build_variants(plan, {})
    one.build_variants(plan, {})
    assert one.searches == 0 and len(asked) == 4


@pytest.mark.parametrize(("hasty", "taken"), [(True, 2), (False, 1)])
def test_in_haste_the_last_known_layout_that_keeps_the_limits_is_taken(
    hasty: bool, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four with 50, 60, 70 and 200 bytes, in 4, 1, 2 and 3 seconds, else the fastest."""
    every = [{BYTES: 50, TIME: 4.0}, {BYTES: 60, TIME: 1.0}, {BYTES: 70, TIME: 2.0},
             {BYTES: 200, TIME: 3.0}]  # fmt: skip
    of_each = staticmethod(lambda plans, exact: (plans[0], every[plans[0]]))
    monkeypatch.setattr(evaluations.AsItIs, "evaluate_best", of_each)
    one = layouts()
    one.hasty = hasty
    assert one.evaluate_best([0, 1, 2, 3], False) == (taken, every[taken])  # type: ignore[list-item]


@pytest.mark.parametrize("sense", [1, -1])
def test_layouts_are_ranked_by_a_goal_to_make_small(
    sense: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One to make large is that of the fastest layout."""
    by = list[str]()

    def noted(search: Any, goal: Goal) -> Answer:
        by.append(search.evaluator.by)
        return Answer(search.domain, goal.sense, search.limits)

    monkeypatch.setattr(solve_with_layout, "find_optimum", noted)
    plan, limits = loading.load("presets/gpt2small_hgx-h100.yaml"), (Limit(BYTES, "<=", 100),)
    solve_with_layout.find_free_optimum(
        plan, domain(1, 9), limits, Goal("memory.process", sense), {}
    )
    assert by == ["memory.process" if sense == -1 else TIME]


@pytest.mark.parametrize("heads", [1, 3, 4, 5, 48])
def test_widths_are_whole_heads_in_quarters_of_powers_of_two(heads: int) -> None:
    """Between a power of two and the next at most four widths, none below a multiple of 64."""
    whole = 128 * heads
    widths = families._list_widths(whole)
    assert all(width % whole == 0 and width % 64 == 0 for width in widths)
    assert widths[0] == whole and list(widths) == sorted(set(widths))
    for power in range(8, 17):
        between = [width for width in widths if 2**power <= width < 2 ** (power + 1)]
        assert len(between) <= 4
        if heads in (1, 4) and whole <= 2 ** (power - 2):
            assert len(between) == 4
    assert widths[-1] == 2**17 if heads in (1, 4) else 2**16 <= widths[-1] < 2**17
    if heads == 1:
        quarters = [each * 2**power for power in range(7, 15) for each in (4, 5, 6, 7)]
        assert list(widths) == [128, 256, 384, *quarters, 2**17]


@settings(max_examples=200)
@given(st.fractions(min_value=0, max_value=1000, max_denominator=12))
def test_scales_are_rounded_to_the_nearest_whole_number(value: Fraction) -> None:
    """Halves up."""
    assert -Fraction(1, 2) < families._round_size(value) - value <= Fraction(1, 2)


def test_where_the_layout_is_free_every_number_of_layers_is_a_candidate() -> None:
    """Whole chunks for every stage are asked for where the plan's own layout stays."""
    for changes, free, step in (({}, True, 1), ({"parallelism.pipeline": 2}, False, 2)):
        plan = loading.load("presets/largest_on_8xh100.yaml", {"model": "llama2-7b", **changes})
        _, family = families.build_family(plan, free=free)
        low = family.domain.rows[0][0]
        layers = [family.build_changes(low + index)["model.layers"] for index in range(3)]
        assert layers == [step * index for index in range(1, 4)]
        own, *others = (index // families.ROW for index in family.yield_indices())
        assert len(others) == len(family.widths)  # those nearest to its own width first
        assert others == sorted(others, key=lambda row: abs(row - own))
        assert {*[*family.yield_indices()][1:]} == {row[0] for row in family.domain.rows}
        place, last = divmod(family.domain.last or 0, families.ROW)
        assert place == len(family.widths) - 1 and last == family.bound_depths(place)[1]
        layered = "any number of layers" if free else "layers in multiples of 2"
        assert layered in family.domain.step and "key/value" not in family.domain.step


@pytest.mark.parametrize("unit", [1, 2, 3, 8])
def test_depths_are_those_of_which_the_width_is_a_usual_multiple(unit: int) -> None:
    """From 64 to 160 times; or one unit, where that is more layers."""
    widths = tuple(range(64, 4096, 64))
    family = families.Family({}, widths, unit, together=1)
    for place, width in enumerate(widths):
        tried = [depth for depth in range(1, 99) if 64 <= Fraction(width, depth * unit) <= 160]
        assert family.bound_depths(place) == ((tried[0], tried[-1]) if tried else (1, 1))


def test_what_grows_with_the_width_stays_whole() -> None:
    """Heads of a size of their own come by eights, feed-forward widths by what they share with
    128, at least one of either."""
    plan = loading.load("presets/largest_on_8xh100.yaml")
    attention = {"heads": 64, "head_dim": 128, "kv_heads": 64}
    model = {"hidden": 4096, "layers": 8, "attention": attention, "mlp": {"intermediate": 256}}
    family = families._make_family(plan, model, True)
    assert family.together == 8 and "key/value" not in family.domain.step
    for width, heads, intermediate in ((64, 8, 128), (4096, 64, 256), (8192, 128, 512)):
        changes = family.build_changes(family.widths.index(width) * families.ROW + 1)
        assert changes["model.attention.heads"] == heads == changes["model.attention.kv_heads"]
        assert (changes["model.mlp.intermediate"], changes["model.layers"]) == (intermediate, 1)
    own = families._make_family(plan, {**model, "attention": {"heads": 32, "head_dim": 128}}, True)
    assert own.together == 1 and own.widths[:2] == (128, 256)
    for spelled, layers in (({"mixer": "mamba"}, 1), ({"pattern": ["a", "b", "c"]}, 3)):
        assert families._make_family(plan, {**model, **spelled}, True).unit == layers


def test_ends_that_count_as_layers_are_left_out_of_whole_chunks() -> None:
    """Two stages of two chunks each hold 4, 8, … layers, of which two are embedding and head."""
    ends = {"parallelism.pipeline": 2, "parallelism.virtual_pipeline": 2, "parallelism.cut": "ends"}
    open_plan = loading.load("presets/largest_on_8xh100.yaml", {"model": "llama2-7b"})
    plan = variant(open_plan, {**ends, "model.layers": 30, "training.global_batch": 16})
    _, family = families.build_family(plan)
    row = family.domain.rows[family.nearest // families.ROW]
    layers = [family.build_changes(index)["model.layers"] for index in row]
    assert layers == [
        count for count in range(2, 100) if (count + 2) % 4 == 0 and 4096 / 160 <= count + 2 <= 64
    ]
    assert family.build_changes(family.nearest)["model.layers"] == 30
    for count in layers:
        variant(plan, {"model.layers": count})


def test_heads_that_share_nothing_come_one_at_a_time() -> None:
    """Llama-2 7B has 32 heads of 128 with keys and values of their own: three of them are 384."""
    plan = loading.load("presets/largest_on_8xh100.yaml", {"model": "llama2-7b"})
    _, family = families.build_family(plan, free=True)
    assert family.together == 1 and 384 in family.widths
    grouped = loading.load("presets/largest_on_8xh100.yaml", {"model": "llama3-8b"})
    _, family = families.build_family(grouped, free=True)
    assert family.together == 8  # 8 heads of keys and values


def test_the_model_just_at_a_size_is_named_first() -> None:
    """Llama-2 (arXiv 2307.09288): 6,738,415,616 parameters; OPT-125M 125,239,296."""
    plan = loading.load("presets/largest_on_8xh100.yaml")
    assert 6_738_415_616 in [size for _, size in references.list_smaller(plan, 6_738_415_616)]
    assert ("llama2-7b", 6_738_415_616) not in references.list_smaller(plan, 6_738_415_615)
    assert ("opt-125m", 125_239_296) in references.list_smaller(plan, 125_239_296)


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.sampled_from((80, 90, 100, 110, 125)), st.booleans()),
             unique_by=lambda row: row[0]),
    st.integers(1, 75),
)  # fmt: skip
def test_the_published_models_next_below_a_size_are_the_largest_that_are_no_larger(
    models: list[tuple[int, int, bool]], size: int
) -> None:
    """Whatever their names say, up to a quarter more or less than they have: three of the kind."""
    totals = {f"some-{n}b": (n * 10**7 * share, kind) for n, share, kind in models}
    totals["eight-8x2b"] = (14 * 10**9, False)  # sixteen, of which some are shared
    totals["small-4m"] = (4 * 10**6, False)
    counted = {name: ["", size, size - kind, None] for name, (size, kind) in totals.items()}
    plan: Any = SimpleNamespace(get={"model.moe": None}.get)
    with pytest.MonkeyPatch.context() as patch:
        known = {**counted, "nameless": ["", 10**9, 10**9, None]}
        patch.setattr(references.resources, "read_json", lambda _: known)
        found = references.list_smaller(plan, size * 10**9)
    below = [total for total, kind in totals.values() if not kind and total <= size * 10**9]
    assert [total for _, total in found] == sorted(below, reverse=True)[:3]
    assert all(totals[name] == (total, False) for name, total in found)


# -- points of a scatter plot ------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 100, 199])
def test_a_plot_of_few_layouts_has_each_of_them(size: int) -> None:
    """Ten points are wanted: up to two hundred are collected before any is left out."""
    sample = Sample(10, size)
    for first in range(0, size, 7):
        part = np.arange(first, min(first + 7, size), dtype=np.float64) + 1
        sample.add(part, part, np.ones(len(part), dtype=bool), part > 3)
    collected = np.concatenate(sample._parts, axis=1)
    assert collected[0].tolist() == [index + 1 for index in range(size)]


@pytest.mark.parametrize(
    ("last", "held", "direction", "expected"),
    [
        (257, 250, 1, [257, 256, 255, 254, 253, 252, 251]),  # 256 steps from the first: listed
        (257, 4, -1, [1, 2, 3]),
        (257, None, -1, [*range(1, 258)]),
        (258, 250, 1, []),  # one more than may be listed
    ],
)
def test_values_beyond_an_answer_are_listed_the_furthest_first(
    last: int, held: int | None, direction: int, expected: list[int]
) -> None:
    over = Domain("cluster.devices", "1", lambda i: i, lambda v: {}, 1, 1, last)
    search = SimpleNamespace(domain=over, plan=None)
    layouts = SimpleNamespace(is_possible=lambda plan, changes: True)
    holds = None if held is None else SimpleNamespace(index=held)
    answer = SimpleNamespace(holds=holds, direction=direction)
    assert [*solve_with_layout._yield_beyond(search, layouts, answer)] == expected  # type: ignore[arg-type]
