"""What a search says in words, and by which shares it ranks, by arithmetic done here."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import cache
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from planner.base import numbers
from planner.book.quantity import BOOK
from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.domains import yield_starts
from planner.questions.search import engine, ranking
from planner.questions.search.bounded_search import BoundedSearch
from planner.questions.search.layouts import COMMON, KERNELS
from planner.report import searched
from tests.conftest import read_data

STEP = "time.step_seconds"
PLAN: dict[str, Any] = read_data("plans")["ranking"]


@cache
def found() -> engine.SearchResult:
    return engine.search(loading.load(PLAN), 10, choices=True)


@pytest.mark.slow
def test_the_best_of_all_has_the_best_value_of_each_choice() -> None:
    keys = dict(ranking.choose_columns(found()))
    rows = ranking.compare_choices(found())
    assert len(rows) > 6
    best = found().best[0]
    for heading, value, others in rows:
        assert value == ranking.format_choice(best.get(keys[heading])), heading
        behind = [float(share) for share in re.findall(r": \+([\d.]+) %", others)]
        assert behind == sorted(behind)


@pytest.mark.parametrize(("room", "said"), [(-1, "does not fit into memory"), (0, ""), (1, "")])
def test_a_plan_that_fills_the_device_exactly_fits(room: int, said: str) -> None:
    own = SimpleNamespace(values={engine.FITS: room})
    asked = SimpleNamespace(own=own, margin=Limit(engine.FITS, ">=", 0))
    assert said in searched.explain_misfit(asked) and bool(said) is bool(
        searched.explain_misfit(asked)
    )  # type: ignore[arg-type]


@pytest.mark.slow
def test_an_open_layout_says_how_much_faster_the_fastest_is() -> None:
    plan = loading.load({**PLAN, "parallelism": "auto"})
    of_all = engine.search(plan, 1, vary={"training.schedule": COMMON})
    assert of_all.plain is not None
    behind = 100 * (of_all.plain.values[STEP] / of_all.best[0].values[STEP] - 1)
    (why,) = {why for why in plan.derived.values() if "parallelism: auto" in why}
    share = re.search(r"\(([\d.]+) % faster\)", why)
    assert (float(share[1]) if share else 0) == pytest.approx(float(behind), rel=0.05, abs=1e-9)


def test_a_search_starts_from_all_degrees_whose_product_divides_the_devices() -> None:
    found = [tuple(each.values()) for each in yield_starts(4)]
    assert len(set(found)) == len(found)
    assert all(4 % prod(degrees) == 0 for degrees in found)
    assert max(map(prod, found)) == 4 and prod(found[0]) == 1


@pytest.mark.parametrize(
    ("seconds", "most", "share"),
    [(9.0, 10, 0.1), (2.0, 10, 0.25), (5.0, 10, 0.25), (0.0, 0, 0), (0.5, 0, -1)],
)
def test_the_tightest_limit_is_the_one_of_which_the_smallest_share_is_left(
    seconds: float, most: int, share: float
) -> None:
    """A quarter of the memory is free, and of 10 s what a step does not take."""
    values = {
        engine.HEADROOM: np.array([20.0]),
        engine.MEMORY: np.array([60.0]),
        STEP: np.array([seconds]),
    }
    asked = SimpleNamespace(limits=(Limit(STEP, "<=", most),))
    chunk = SimpleNamespace(of=lambda name, places: values[name][places])
    (left,) = BoundedSearch._compute_share(asked, chunk, np.array([0]))  # type: ignore[arg-type]
    assert left == pytest.approx(share)


@pytest.mark.slow
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
    assert "the simplest" in why and "faster" not in why


def test_a_further_key_that_is_varied_has_its_name_for_a_heading() -> None:
    varied = SimpleNamespace(varied=("training.global_batch", "parallelism.tensor"))
    *layout, further = ranking.choose_columns(varied)  # type: ignore[arg-type]
    assert further == ("global batch", "training.global_batch")
    assert ("tensor", "parallelism.tensor") in layout


@pytest.mark.parametrize(("seconds", "said"), [(102, "2.0 %"), (100.5, "0.50 %"), (100, "0.0 %")])
def test_the_plainest_says_how_far_behind_the_best_it_is(seconds: float, said: str) -> None:
    plain, best = (
        SimpleNamespace(changes={"tensor": tensor}, values={STEP: value})
        for tensor, value in ((1, seconds), (2, 100.0))
    )
    asked = SimpleNamespace(by=STEP, plain=plain, best=(best,))
    assert ranking.describe_simplest(asked).endswith(f"({said} slower).")  # type: ignore[arg-type]
    asked.plain = best
    assert not ranking.describe_simplest(asked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("margin", "said"),
    [
        (Limit("memory.headroom_p95", ">=", 0), " (at the 95th percentile of published"),
        (Limit(engine.MEMORY, "<=", 30 * 2**30), " (with a margin: memory.process <= "),
        (Limit(engine.HEADROOM, ">=", 0), ""),
        (None, ""),
    ],
)
def test_layouts_that_fit_are_counted_with_what_they_have_to_spare(
    margin: Limit | None, said: str
) -> None:
    one = SimpleNamespace(
        size=12_000, fitting=3, narrowed={}, launcher=None, limits=(), margin=margin, tight=False
    )
    counted = ranking.describe_count(one)  # type: ignore[arg-type]
    assert counted.startswith("12,000 layouts, 3 fit into memory")
    assert said in counted and ("(" in counted) is bool(said)


# -- of layouts whose numbers are given --------------------------------------------------------

TENSOR, PIPELINE, CONTEXT = (f"parallelism.{key}" for key in ("tensor", "pipeline", "context"))


def layout(
    step: float = 10, parts: Any = None, interval: Any = None, **changes: Any
) -> engine.Layout:
    """One that was evaluated: ``tensor`` and so on are changed, the kernels follow."""
    keys = {"micro_batch": "training.micro_batch", "recompute": "training.recompute"}
    values = {STEP: step, engine.MEMORY: 2**30, engine.HEADROOM: 0, engine.FITS: 0}
    named = {keys.get(key, f"parallelism.{key}"): value for key, value in changes.items()}
    one = engine.Layout(named, {KERNELS: "pytorch"}, values, values, evaluated=(None, STEP))  # type: ignore[arg-type]
    vars(one).update(parts=parts or {}, interval=interval)
    return one


def of(*best: engine.Layout, **options: Any) -> engine.SearchResult:
    given: dict[str, Any] = {"front": (), "own": None, **options}
    return engine.SearchResult(SimpleNamespace(book=BOOK), STEP, 9, 9, best, **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("step", "more", "gone", "said"),
    [
        (10, 8, 4, True),  # half of what is lost is gained
        (10, 8, 3, False),
        (10**6, 1, 4, None),  # a millionth of the step is too little to tell
        (10**6, 2, 1, True),
    ],
)
def test_a_layout_loses_most_where_it_has_most_more_than_the_best(
    step: int, more: int, gone: int, said: bool | None
) -> None:
    """A part that only one of the two has is nothing in the other."""
    best = layout(1, {"same": 10, "gone": gone, "less": 0.75})
    other = layout(step, {"same": 10, "more": more, "less": 0.5})
    gains = f", −{numbers.text(gone, 's')} gone" if said else ""
    expected = "" if said is None else f"+{numbers.text(more, 's')} more{gains}"
    assert ranking.describe_loss(other, best, STEP) == expected
    assert (
        ranking.describe_loss(best, best, STEP) == ranking.describe_loss(layout(), best, STEP) == ""
    )


def test_choices_are_told_by_how_far_they_are_behind() -> None:
    """A quarter more is 25 %, twice as much is × 2.0; six values are told; of nothing none is a
    share."""
    taken = {TENSOR: (10, 12.5, 20, 30, 40, 50), PIPELINE: (0.5, *[0.6] * 6), CONTEXT: (0, 5)}
    choices, best = [], []
    for key, steps in taken.items():
        for place, step in enumerate(steps):
            one = layout(step, {"sums": step}, **{key.split(".")[1]: 2**place})
            choices.append(engine.BestByValue(key, 2**place, one))
            best.append(one)
    nothing = [engine.BestByValue(PIPELINE, value, None) for value in (128, None)]
    choices[13:13] = nothing
    choices.append(engine.BestByValue("parallelism.zero", 0, None))
    assert ranking.compare_choices(of(*best, choices=tuple(choices))) == [
        ("tensor", "1", "2: +25.0 % (sums); 4: × 2.0; 8: × 3.0; 16: × 4.0; 32: × 5.0"),
        ("pipeline", "1", "; ".join([*(f"{2**n}: +20.0 %" for n in range(1, 6)), "1 more",
                                     "fits with nothing: 128, default"])),
        ("context", "1", "2: same"),
    ]  # fmt: skip


def test_the_table_of_choices_has_their_values_on_the_right() -> None:
    rows = ranking.compare_choices(found(), reasons=False)
    first, second = (max(len(row[place]) for row in rows) for place in (0, 1))
    lines = searched.format_search(found()).splitlines()
    for heading, value, others in rows:
        assert f"  {heading:<{first}}  {value:>{second}}  {others}".rstrip()[:80].rpartition(" ")[
            0
        ] in " ".join(lines)


@pytest.mark.parametrize(("room", "said"), [(-1, "nearest lacks "), (0, "breaks a limit")])
def test_what_lacks_nothing_breaks_another_limit(room: int, said: str) -> None:
    near = layout(tensor=2)
    near.values[engine.FITS] = room  # type: ignore[index]
    assert said in ranking.describe_closest(of(nearest=near))


def test_a_column_is_left_out_where_it_goes_without_saying() -> None:
    """One tensor rank does, two stages and a mode do not; nor what layouts differ in."""
    one = layout(tensor=1, pipeline=2, recompute="none", interval=(9, 12))
    head, row = ranking.build_ranking(of(one))[0]
    between = f"{numbers.text(9, 's')} to {numbers.text(12, 's')}"
    assert head[:3] == ("", "pipeline", "recompute") and head[4:] == ("5 to 95 %", "memory")
    assert BOOK.quantities[STEP].title.partition(" (")[0] == head[3]
    assert row == ("1", "2", "none", numbers.text(10, "s"), between, numbers.text(2**30, "bytes"))
    assert f"interval of the best: {between}." in ranking.leeway(of(one))
    data = ranking.encode_search(of(one))
    assert json.loads(data)["interval"] == [9, 12] and data.startswith('{\n  "by"')
    (read,) = csv.DictReader(io.StringIO(ranking.to_csv(of(one))))
    assert (read[PIPELINE], float(read[STEP])) == ("2", 10)
    other = layout(tensor=2, pipeline=2, recompute="none")
    assert ranking.build_ranking(of(one, other))[0][0][1:4] == ("tensor", "pipeline", "recompute")


@pytest.mark.parametrize("same", [True, False])
def test_the_plainest_comes_first_and_the_plans_own_last(same: bool) -> None:
    best, plain = layout(10, {"sums": 10}, tensor=4), layout(11, {"sums": 11}, tensor=2)
    own = layout(10 if same else 13, {"sums": 13}, tensor=4 if same else 8)
    rows, reasons = ranking.build_ranking(of(best, plain, own=own, plain=plain))
    said = [row[0] for row in rows]
    assert said == ["", "simplest", *(["own, 1"] if same else ["1", "own"])]
    assert [row[1] for row in rows] == ["tensor", "2", "4", *([] if same else ["8"])]
    more = f"+{numbers.text(1, 's')} sums", "", f"+{numbers.text(3, 's')} sums"
    assert reasons == ["", *more[: len(rows) - 1]]
