"""What a search says in words, and by which shares it ranks, by arithmetic done here."""

from __future__ import annotations

import re
from functools import cache
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.search import engine, ranking
from planner.questions.search.bounded_search import BoundedSearch
from planner.questions.search.layouts import COMMON, starts

STEP = "time.step_seconds"
PLAN: dict[str, Any] = {
    "name": "small",
    "model": "gpt2-medium",
    "cluster": {"accelerator": "a100-sxm-40gb", "devices": 16, "devices_per_node": 8},
    "training": {"tokens": "1B", "sequence_length": 1024, "global_batch": 64},
    "parallelism": {},
}


@cache
def found() -> engine.Found:
    return engine.search(loading.load(PLAN), 10, choices=True)


def test_the_best_of_all_has_the_best_value_of_each_choice() -> None:
    keys = dict(ranking.columns(found()))
    rows = ranking.costs(found())
    assert len(rows) > 6
    best = found().best[0]
    for heading, value, others in rows:
        assert value == ranking._word(best.get(keys[heading])), heading
        behind = [float(share) for share in re.findall(r": \+([\d.]+) %", others)]
        assert behind == sorted(behind)


@pytest.mark.parametrize(("room", "said"), [(-1, "does not fit into memory"), (0, ""), (1, "")])
def test_a_plan_that_fills_the_device_exactly_fits(room: int, said: str) -> None:
    own = SimpleNamespace(values={engine.FITS: room})
    asked = SimpleNamespace(own=own, margin=Limit(engine.FITS, ">=", 0))
    assert said in ranking._own_fits(asked) and bool(said) is bool(ranking._own_fits(asked))  # type: ignore[arg-type]


def test_an_open_layout_says_how_much_faster_the_fastest_is() -> None:
    plan = loading.load({**PLAN, "parallelism": "auto"})
    of_all = engine.search(plan, 1, vary={"training.schedule": COMMON})
    assert of_all.plain is not None
    behind = 100 * (of_all.plain.values[STEP] / of_all.best[0].values[STEP] - 1)
    (why,) = {why for why in plan.derived.values() if "parallelism: auto" in why}
    share = re.search(r"\(([\d.]+) % faster\)", why)
    assert (float(share[1]) if share else 0) == pytest.approx(float(behind), rel=0.05, abs=1e-9)


def test_a_search_starts_from_all_degrees_whose_product_divides_the_devices() -> None:
    found = [tuple(each.values()) for each in starts(4)]
    assert len(set(found)) == len(found)
    assert all(4 % prod(degrees) == 0 for degrees in found)
    assert max(map(prod, found)) == 4 and prod(found[0]) == 1


@pytest.mark.parametrize(("seconds", "share"), [(9.0, 0.1), (2.0, 0.25), (5.0, 0.25)])
def test_the_tightest_limit_is_the_one_of_which_the_smallest_share_is_left(
    seconds: float, share: float
) -> None:
    """A quarter of the memory is free, and of 10 s what a step does not take."""
    values = {
        engine.FITS: np.array([20.0]),
        engine.MEMORY: np.array([60.0]),
        STEP: np.array([seconds]),
    }
    asked = SimpleNamespace(limits=(Limit(STEP, "<=", 10),))
    chunk = SimpleNamespace(of=lambda name, places: values[name][places])
    (left,) = BoundedSearch._share(asked, chunk, np.array([0]))  # type: ignore[arg-type]
    assert left == pytest.approx(share)


def test_a_search_is_narrowed_where_there_are_more_layouts_than_it_may_take() -> None:
    size = found().size
    assert not engine.search(loading.load(PLAN), 1, most=size).narrowed
    narrower = engine.search(loading.load(PLAN), 1, most=size - 1)
    assert narrower.narrowed and narrower.size < size == narrower.every


def test_where_the_plainest_is_the_fastest_none_is_faster() -> None:
    """One device has one layout but for the micro-batch."""
    one = {**PLAN, "cluster": {"extends": "hgx-a100", "devices": 1, "devices_per_node": 1}}
    training = {**PLAN["training"], "global_batch": 1}
    plan = loading.load({**one, "training": training, "parallelism": "auto"})
    (why,) = {why for why in plan.derived.values() if "parallelism: auto" in why}
    assert "the plainest" in why and "faster" not in why


def test_a_further_key_that_is_varied_has_its_name_for_a_heading() -> None:
    varied = SimpleNamespace(varied=("training.global_batch", "parallelism.tensor"))
    *layout, further = ranking.columns(varied)  # type: ignore[arg-type]
    assert further == ("global batch", "training.global_batch")
    assert ("tensor", "parallelism.tensor") in layout


@pytest.mark.parametrize(("seconds", "said"), [(102, "2 %"), (100.5, "0.5 %"), (100, "0 %")])
def test_the_plainest_says_how_far_behind_the_best_it_is(seconds: float, said: str) -> None:
    plain, best = (
        SimpleNamespace(changes={"tensor": tensor}, values={STEP: value})
        for tensor, value in ((1, seconds), (2, 100.0))
    )
    asked = SimpleNamespace(by=STEP, plain=plain, best=(best,))
    assert ranking.plainest(asked).endswith(f"({said} behind).")  # type: ignore[arg-type]
    asked.plain = best
    assert not ranking.plainest(asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("margin", "said"),
    [
        (Limit("memory.headroom_p95", ">=", 0), " (in the worst case: the 95th percentile"),
        (Limit(engine.MEMORY, "<=", 30 * 2**30), " (with a margin: memory.process <= "),
        (Limit(engine.FITS, ">=", 0), ""),
        (None, ""),
    ],
)
def test_layouts_that_fit_are_counted_with_what_they_have_to_spare(
    margin: Limit | None, said: str
) -> None:
    one = SimpleNamespace(
        size=12_000, fitting=3, narrowed={}, launcher=None, limits=(), margin=margin, tight=False
    )
    counted = ranking.counted(one)  # type: ignore[arg-type]
    assert counted.startswith("12\u202f000 layouts, 3 fit into memory")
    assert said in counted and ("(" in counted) is bool(said)
