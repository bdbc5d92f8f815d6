"""The one best layout, found by asking few of them, against a search that asks all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from planner.base.errors import PlanError
from planner.engine.instance import compute_values
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.constraints import Limit, fit_limit
from planner.questions.search import bounded_search, engine, layouts
from planner.questions.search.bounded_search import FEWER, BoundedSearch
from tests.conftest import leave_to_night
from tests.in_turn import InTurn
from tests.layouts import find_best, yield_layouts

MEMORY, STEP = "memory.process", "time.step_seconds"
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "one node": ("presets/gpt2small_hgx-h100.yaml", {}),
    "dense": ("presets/llama70b_h100x1024.yaml", {"cluster.devices": 32}),
    "experts": ("presets/mixtral8x7b_h100x1024.yaml", {"cluster.devices": 64}),
}


@pytest.fixture(params=leave_to_night(PLANS, ["one node", "dense"]))
def plan(request: pytest.FixtureRequest) -> Plan:
    path, changes = PLANS[request.param]
    return loading.load(path, changes)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("by", [STEP, MEMORY])
def test_it_is_the_first_of_all(plan: Plan, by: str) -> None:
    """With the same limit to fit: a margin of 0 counts what the allocator keeps for later, which
    what a plan needs does not."""
    fits = fit_limit("0", plan)
    first = compute_values(engine.search(plan, 1, by, margin="0").best[0].of(plan), (MEMORY, STEP))
    for limits in (
        [],
        [Limit(MEMORY, "<=", first[MEMORY] * 2), Limit(STEP, "<=", first[STEP] * 3)],
        [Limit(MEMORY, "<=", first[MEMORY] // 2)],
        [Limit(STEP, "<=", first[STEP] / 2)],
    ):
        known = engine.search(plan, 1, by, limits=limits, margin="0")
        bounded = BoundedSearch(plan, by, limits, fits=fits)
        fastest = bounded.run_question(BoundedSearch.find_best)
        assert (fastest is None) == (not known.best)
        if fastest is not None:
            assert variant(plan, fastest[2].changes).data == known.best[0].of(plan).data
        plainest = bounded.run_question(BoundedSearch.find_simplest)
        assert (plainest is None) == (known.plain is None)
        if plainest is not None:
            assert variant(plan, plainest[2].changes).data == known.plain.of(plan).data


@pytest.mark.slow(every=5)
def test_in_which_portions_rows_are_asked_decides_nothing(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = [Limit(MEMORY, "<=", 40 * 2**30)]
    known = BoundedSearch(plan, STEP, limits).run_question(BoundedSearch.find_simplest)
    for name, value in (("FIRST", 16), ("MORE", 2)):
        monkeypatch.setattr(bounded_search, name, value)
    found = BoundedSearch(plan, STEP, limits).run_question(BoundedSearch.find_simplest)
    assert found is not None and known is not None and found[2] == known[2]


@pytest.mark.slow
def test_the_roomiest_stays_furthest_from_all_limits() -> None:
    """By shares worked out from every layout's own values: of a limit what is left of it over the
    larger of limit and value, of memory what is free of what is there."""
    few = {"cluster.devices": 2, "training.global_batch": 2, "training.micro_batch": 1}
    plan = loading.load("presets/gpt2small_hgx-h100.yaml", few)
    every = [c for rows in layouts.Space(plan).yield_blocks() for c in yield_layouts(rows)]
    exactly = InTurn()
    values = [
        exactly(variant(plan, c), (MEMORY, engine.HEADROOM, engine.FITS, STEP)) for c in every
    ]
    fastest, slowest = (f(v[STEP] for v in values) for f in (min, max))
    for factor in (0.9, 0.3, 0.1):
        limit = fastest + factor * (slowest - fastest)
        shares = [
            min(
                v[engine.HEADROOM] / (v[engine.HEADROOM] + v[MEMORY]),
                (limit - v[STEP]) / max(limit, v[STEP]),
            )
            for v in values
            if v[engine.FITS] >= 0 and v[STEP] <= limit
        ]
        limits = [Limit(STEP, "<=", limit)]
        found = BoundedSearch(plan, limits=limits).run_question(BoundedSearch.find_max_slack)
        assert found is not None
        assert -found[0] == pytest.approx(float(max(shares)), rel=1e-9)


@pytest.mark.slow(every=5)
def test_the_roomiest_leaves_most_of_what_is_scarcest(plan: Plan) -> None:
    fastest, slimmest = (engine.search(plan, 1, by, margin="0").best[0] for by in (STEP, MEMORY))
    found = BoundedSearch(plan).run_question(BoundedSearch.find_max_slack)
    assert found is not None and found[1] == pytest.approx(float(slimmest.values[MEMORY]))
    limits = [Limit(STEP, "<=", fastest.values[STEP] * 3)]
    between = BoundedSearch(plan, limits=limits).run_question(BoundedSearch.find_max_slack)
    assert between is not None
    assert float(slimmest.values[MEMORY]) <= between[1] * (1 + 1e-9)
    none = [Limit(STEP, "<=", fastest.values[STEP] / 2)]
    assert BoundedSearch(plan, limits=none).run_question(BoundedSearch.find_max_slack) is None


@pytest.mark.slow
def test_a_few_are_some_of_all_unless_their_key_is_held(plan: Plan) -> None:
    whole = BoundedSearch(plan)
    few = whole.walk.narrow_layouts(FEWER)
    assert 0 < few.size < whole.walk.size
    found = whole.run_question(BoundedSearch.find_best, FEWER)
    assert found is not None
    assert all(found[2].changes[key] in values for key, values in FEWER.items())
    held = BoundedSearch(plan, options={"training.micro_batch": (4,)})
    found = held.run_question(BoundedSearch.find_best, FEWER)
    assert found is not None and found[2].changes["training.micro_batch"] == 4


def test_a_quantity_that_no_layout_has_says_why() -> None:
    plan = loading.load("presets/gpt2small_hgx-h100.yaml", {"cluster.provider": None})
    with pytest.raises(PlanError, match="cost"):
        find_best(plan, "cost.total")
    with pytest.raises(PlanError, match="cost"):
        BoundedSearch(plan, "cost.total").run_question(BoundedSearch.find_best)


# -- layouts whose numbers are given -----------------------------------------------------------


class Rows:
    """Rows of given layouts (zero, recompute, rows), by their numbers, with what was asked for."""

    of, within = layouts.SpaceRows.of, layouts.SpaceRows.within

    def __init__(self, every: dict[str, Any], rows: Any, names: Sequence[str] = ()) -> None:
        self.every, self.rows = every, rows
        self.values = {name: every[name][:, :, rows] for name in names}
        self.valid, self.number = every["valid"][:, :, rows], every["number"][:, :, rows]
        self.shape = self.valid.shape

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, places: Any) -> Rows:
        assert (places >= 0).all()
        return Rows(self.every, self.rows[places])

    def build_setting(self, place: int) -> Any:
        return self.number.flat[place]

    def score_simplicity(self, places: Any) -> Any:
        return self.every["plain"].ravel()[self.number.ravel()[places]]

    def find_untried(self, places: Any) -> Any:
        return ~self.every["tried"].ravel()[self.number.ravel()[places]]


class Given:
    """What a walk offers, in three blocks; of a block rows come three at a time."""

    def __init__(self, every: dict[str, Any]) -> None:
        self.every, self.absent = every, dict[str, str]()

    def yield_rows(self) -> Iterator[Rows]:
        for rows in np.split(np.arange(self.every["valid"].shape[2]), (3, 7)):
            yield Rows(self.every, rows)

    def evaluate_rows(self, rows: Rows, *groups: tuple[str, ...]) -> Iterator[Rows]:
        for part in np.array_split(rows.rows, -(-len(rows) // 3)):
            yield Rows(self.every, part, [name for names in groups for name in names])


@pytest.mark.parametrize("seed", range(25))
def test_of_given_layouts_it_is_that_of_an_enumeration(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some are not valid, some have no step time, and of several that take as long the one with
    less memory is first."""
    monkeypatch.setattr(bounded_search, "FIRST", 1)
    monkeypatch.setattr(bounded_search, "MORE", 2)
    chance, shape = np.random.default_rng(seed), (3, 2, 16)
    every = {name: chance.integers(100, 120, shape).astype(float) for name in (STEP, MEMORY)}
    every |= {"valid": chance.random(shape) < 0.7, "plain": chance.integers(0, 9, shape)}
    every |= {"tried": chance.random(shape) < seed % 3 / 3}
    every |= {"number": np.arange(96).reshape(shape)}
    every[STEP] += np.arange(16) // 4  # the best rows do not stand together
    if seed % 5 == 0:  # only the slowest may have room
        every[STEP][:, :, -1] += 20
        every[MEMORY][:, :, :-1] += 20
    every[STEP][chance.random(shape) < 0.1] = np.nan
    every["valid"][:, :, 5] = False
    capacity = (101, 105, 118, 99)[seed % 4]
    every[engine.FITS] = every[engine.HEADROOM] = capacity - every[MEMORY]
    limits = ((), (Limit(STEP, "<=", 112),), (Limit(MEMORY, "<=", 110),))[seed % 3]
    flat = {name: values.ravel().tolist() for name, values in every.items()}
    fit = [n for n in flat["number"] if flat["valid"][n] and flat[engine.FITS][n] >= 0]
    kept = [n for n in fit if all(limit.is_met(flat[limit.quantity][n]) for limit in limits)]
    timed = [(flat[STEP][n], flat[MEMORY][n]) for n in kept if flat[STEP][n] > 0]

    search = BoundedSearch(None, STEP, limits, walk=Given(every))  # type: ignore[arg-type]
    first, plainest, roomiest = search.find_best(), search.find_simplest(), search.find_max_slack()
    assert (first and first[:2]) == min(timed, default=None)
    assert (plainest is None) == (first is None)
    if first is not None and plainest is not None:
        known = [n for n in kept if flat["tried"][n] and flat[STEP][n] > 0] or kept
        least = min(flat[STEP][n] for n in known if flat[STEP][n] > 0)
        most = 1.02 * (least if least > first[0] * 1.02 else first[0])
        near = [n for n in known if flat[STEP][n] <= most]
        assert plainest[1] == min(flat["plain"][n] for n in near)
        assert flat["plain"][plainest[2]] == plainest[1]  # type: ignore[call-overload]
    if not any(limit.quantity == STEP for limit in limits):
        shares = [
            min([(capacity - used) / capacity, *[(110 - used) / 110 for _ in limits]])
            for used in (flat[MEMORY][n] for n in kept)
        ]
        assert (roomiest and -roomiest[0]) == (pytest.approx(max(shares)) if shares else None)
        if not fit:
            lacking = -every[engine.FITS][every["valid"]].max()
            assert search.nearest.first is not None and search.nearest.first[0] == lacking
    else:
        assert (roomiest is None) == (not timed)
    within = search.find_best(within=False)
    assert (within and within[0]) == min(
        (flat[STEP][n] for n in fit if flat[STEP][n] > 0), default=None
    )
