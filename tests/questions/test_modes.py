"""Modes of recomputation that are the same step: what a search leaves out loses nothing."""

from __future__ import annotations

import json
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import sympy

from planner.book.notation import recomputed_in_flight
from planner.book.quantity import BOOK
from planner.book.symbolic import to_sympy
from planner.plans.document import Plan
from planner.plans.layout import ROW
from planner.questions import loading
from planner.questions.search import engine, modes, ranking
from planner.questions.search.engine import FITS, MEMORY, STEP, Walk, search
from planner.questions.search.layouts import Space
from planner.report import searched
from tests.changed import merged
from tests.conftest import read_data
from tests.layouts import find_best

KEY = modes.RECOMPUTE
MODES = ROW[KEY].values


def plan(model: str = "llama2-7b", **training: Any) -> Plan:
    """A plan on 16 devices."""
    document = {"model": model, **read_data("plans")["on_two_nodes"]}
    return loading.load(merged(document, training=training))


#: Plans, and which modes stand for which. Megatron-Core computes a fused core again under selective
#: recomputation (core/transformer/attention.py, checkpoint_core_attention), PyTorch has none to.
CASES: list[tuple[dict[str, Any], dict[str, str]]] = read_data("questions")["modes"]


@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_which_modes_stand_for_others(changes: dict[str, Any], expected: dict[str, str]) -> None:
    space = Space(plan(**changes))
    assert modes.find_equivalents(space, ()) == expected
    of_two = Space(plan(**changes), {KEY: MODES[:2]})
    assert modes.find_equivalents(of_two, ()) == {
        mode: other for mode, other in expected.items() if {mode, other} <= {*MODES[:2]}
    }


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("changes", "expected"), CASES)
def test_a_mode_stands_for_another_where_all_layouts_are_as_fast_and_hold_no_more(
    changes: dict[str, Any], expected: dict[str, str]
) -> None:
    """Every layout with every mode, over arrays: what is left out is as fast to the last digit and
    needs as much memory or more; what is not left out differs in time, or holds more somewhere."""
    whole = Walk(plan(**changes), (FITS, MEMORY, STEP), {KEY: MODES})
    assert not whole.same
    faster, roomier = np.zeros((3, 3), dtype=bool), np.zeros((3, 3), dtype=bool)
    for chunk in whole:
        step, memory = (np.moveaxis(chunk.values[name], 1, 0) for name in (STEP, MEMORY))
        for one in range(3):
            faster[one] |= [bool((step[one] < other).any()) for other in step]
            roomier[one] |= [bool((memory[one] < other * (1 - 1e-12)).any()) for other in memory]
    for one, mode in enumerate(MODES):
        for other, by in enumerate(MODES):
            same = not faster[one, other] and not faster[other, one]
            if mode in expected and by == expected[mode]:
                assert same and not roomier[one, other]
            elif mode != by and not {mode, by} & expected.keys():
                assert not same or (roomier[one, other] and roomier[other, one])


@pytest.mark.parametrize("own", MODES[:2])
def test_of_modes_that_are_one_step_that_stands_for_all_which_holds_least(
    own: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of those that hold the same the plan's own, else the first."""
    space = Space(plan(recompute=own))
    monkeypatch.setattr(modes, "_has_same_value", lambda *_: True)
    for amounts in product((1, 2), repeat=3):
        held = dict(zip(MODES, amounts, strict=True))
        monkeypatch.setattr(
            modes,
            "_is_no_larger",
            lambda *pair, held=held: (
                held[pair[0].read_setting(KEY, {})] <= held[pair[1].read_setting(KEY, {})]
            ),
        )
        best = min(MODES, key=lambda mode, held=held: (held[mode], mode != own))  # type: ignore[misc]
        expected = {mode: best for mode in MODES if mode != best}
        assert modes.find_equivalents(space, ()) == expected


def test_a_layer_holds_no_more_while_it_waits_and_while_it_is_computed_again() -> None:
    def under(kept: int, again: int) -> Any:
        values = {modes.KEPT: kept, modes.AGAIN: again}
        return SimpleNamespace(
            entries=lambda *_: [{}],
            read_setting=lambda *_: True,
            value=lambda name, _: values[name],
        )

    for kept, again, most, then in product(range(3), repeat=4):
        expected = kept <= most and kept + again <= most + then
        assert modes._is_no_larger(under(kept, again), under(most, then)) == expected


def test_every_way_from_the_mode_to_the_time_of_a_step_is_asked() -> None:
    """A formula between which the mode decides is compared; how many layers are recomputed counts
    in time only with what is computed again of one."""
    times = {"time.part.host", "time.part.repeated", "time.product.casts"}
    times |= {f"time.part.busy.{each}" for each in ("forward", "backward", "kept", "weights")}
    times |= {"time.part.exchanged", "time.product.cast_launches"}
    assert set(modes.find_affected((STEP,))) == times
    assert times < set(modes.find_affected(("time.hfu",)))
    told = {d.id for d in BOOK.list_formulas() if recomputed_in_flight in d.expression.symbols}
    assert {name for name in told if not name.startswith("memory.")} == {"time.stage"}
    (some,) = (
        d
        for d in BOOK.quantities["time.stage"].formulas
        if recomputed_in_flight in d.expression.symbols
    )
    again, kept = (
        to_sympy(next(s for s, name in BOOK.symbols.items() if name == wanted))
        for wanted in ("time.part", "time.part.kept")
    )
    left = sympy.simplify(to_sympy(some.expression.body).subs(again, kept))
    assert to_sympy(recomputed_in_flight) not in left.free_symbols


def test_of_several_plans_a_mode_is_left_out_where_it_is_of_all() -> None:
    """Both batches run on PyTorch, whose selective recomputation is none; Megatron's is some."""
    small = plan(model="gpt2-small")
    both = {"training.global_batch": (16, 32), "training.implementation": ("pytorch",)}
    assert Walk(small, (STEP,), both).same == {"selective": "none"}
    assert not Walk(small, (STEP,), {"training.implementation": ("pytorch", "megatron")}).same


@pytest.mark.slow
def test_the_plans_own_layout_is_found_whichever_mode_it_says() -> None:
    """Its degrees alone are left: three layouts, of which two are one step."""
    fixed = {
        key: value for key, value in plan().data["parallelism"].items()
        if f"parallelism.{key}" in engine.KEYS and key != "cut"
    }  # fmt: skip
    for mode, label in (("none", "own, 1"), ("selective", "own, 1"), ("full", "own, 2")):
        own = plan(model="gpt2-small", recompute=mode, micro_batch=1, implementation="pytorch")
        left, asked = ("none", "selective") if mode == "selective" else ("selective", "none")
        held = {f"parallelism.{key}": value for key, value in fixed.items()}
        held |= {"training.micro_batch": 1, "training.schedule": "1f1b"}
        found = search(own, fixed=held, choices=True)
        assert found.size == 2 and found.same == {left: asked}
        text = searched.format_search(found)
        assert [line for line in text.splitlines() if line.strip().startswith(label)]
        assert text.count(left) == 1 and ranking.describe_modes(found) in " ".join(text.split())
        assert json.loads(ranking.encode_search(found))["same"] == {KEY: {left: asked}}
        assert {c.value for c in found.choices if c.key == KEY} == {asked, "full"}


@pytest.mark.slow
def test_modes_that_are_asked_for_are_all_searched() -> None:
    """A mode that is given stays, and so does each that is to be compared."""
    small = plan(model="gpt2-small")
    assert not search(small, 1, fixed={KEY: "none"}).same
    for values in ((), ("none", "selective")):
        found = search(small, 1, vary={KEY: values}, choices=True)
        assert not found.same and "same step" not in searched.format_search(found)
        assert {c.value for c in found.choices if c.key == KEY} >= {"none", "selective"}
    both = search(small, 1, vary={"training.attention": ("flash", "eager")})
    assert not both.same  # eager attention tells them apart
    assert not search(small, 1, full=True).same
    assert not search(small, 1, "compute.executed_flops_per_token").same


@pytest.mark.slow
def test_the_best_layout_is_as_fast_as_the_best_of_all_modes() -> None:
    small = plan(model="gpt2-small", global_batch=64)
    every = search(small, 1, vary={KEY: MODES})
    best = find_best(small)
    assert best is not None and best.values[STEP] == every.best[0].values[STEP]
    assert search(small, 1).best[0].values[MEMORY] == every.best[0].values[MEMORY]
