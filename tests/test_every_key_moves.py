"""Every key of a plan moves some number of some plan, or stands in a table with a reason: a key
that the schema takes and no number follows would be one that is read and forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.documents import schema
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.plans.document import Plan
from planner.questions import loading
from tests.changed import changed
from tests.conftest import read_data
from tests.test_every_option import ASKED, BESIDE, WITH
from tests.test_every_option import PLAN as GIVEN

#: What all others end in.
NUMBERS = (
    "parameters.total", "compute.executed_flops_per_token", "memory.at_worst", "checkpoint.bytes",
    "time.mfu", "time.run_days", "cost.total", "energy.carbon", "time.latency_seconds",
)  # fmt: skip
#: Keys that move nothing, with the reason; one that ends in a dot is all that begins so.
#: Layouts of ``ASKED`` under which a key is tried.
LAYOUTS = ("sharded weights", "experts on two nodes", "activations on the host", "served")
SECTIONS = ("memory.", "parallelism.", "time.", "training.")
STILL: dict[str, str] = read_data("every_key_moves")["still"]
#: Keys that move numbers in another test, with the test.
ELSEWHERE: dict[str, str] = read_data("every_key_moves")["elsewhere"]
#: What a key, or what begins so, needs beside it, where no layout of ``ASKED`` has it.
DENSE = read_data("every_key_moves")["dense"]
NEEDS: dict[str, dict[str, Any]] = read_data("every_key_moves")["needs"]
VALUES: dict[str, list[Any]] = read_data("every_key_moves")["values"]
PLAN = changed(
    GIVEN,
    {
        "cluster.accelerator": {"extends": "h100-sxm-80gb"},
        "cluster.price": None,
        "cluster.provider": "lambda",
    },
)


@cache
def leaves() -> tuple[str, ...]:
    """Keys of these sections that hold no others."""
    paths = schema.list_key_paths("plan")
    within = {path.rpartition(".")[0] for path in paths}
    return tuple(p for p in paths if p not in within and p.startswith(SECTIONS))


KNOWN: dict[str, dict[str, Any] | None] = {}
EVALUATED: dict[str, Evaluation] = {}


def numbers(changes: dict[str, Any], base: dict[str, Any] | None = None) -> dict[str, Any] | None:
    """The numbers of the plan with changes, on the graph of that with ``base``; None where there is
    no such plan."""
    if isinstance(device := changes.get("cluster.accelerator"), str):
        changes = {**changes, "cluster.accelerator": {"extends": device}}
    if (told := repr(changes)) not in KNOWN:
        try:
            built = case.build(loading.load(changed(PLAN, changes)))
            like = EVALUATED.get(repr(base)) or plain()[1]
            evaluation = Evaluation(built, like=like)
        except planner.PlanError:
            KNOWN[told] = None
        else:
            KNOWN[told] = {name: worth(evaluation, name) for name in NUMBERS}
            if base is None:
                EVALUATED[told] = evaluation
    return KNOWN[told]


def worth(evaluation: Evaluation, name: str) -> Any:
    """The value of a quantity, or why it has none."""
    try:
        return evaluation.value(name)
    except Absent as absent:
        return absent.reason


@cache
def plain() -> tuple[Plan, Evaluation]:
    """The plan as it is, and its evaluation, whose graph others use."""
    plan = loading.load(PLAN)
    return plan, Evaluation(case.build(plan))


def values(key: str) -> Iterator[Any]:
    """Some values that a key may have."""
    said = schema.describe("plan", key) or {}
    yield from VALUES.get(key, ())
    yield from said.get("enum", ())
    if said.get("type") == "boolean":
        yield from (True, False)
    now = plain()[0].get(key)
    if isinstance(now, (int, Fraction)) and not isinstance(now, bool):
        yield from (2 * now, now / 2 if isinstance(now, Fraction) else now // 2)
    yield from said.get("examples", ())
    yield from (1, 2, 8)


def still(key: str) -> bool:
    """Whether no value of a key moves anything, under any of the layouts that others need."""
    needs = {**WITH.get(key.rpartition(".")[0], {}), **WITH.get(key, {})}
    for begins, beside in NEEDS.items():
        needs |= beside if key.startswith(begins) else {}
    for layout in ({}, *(ASKED[name] for name in LAYOUTS)):
        for value in values(key):
            beside = BESIDE.get((key, value), {}) if isinstance(value, (str, bool, int)) else {}
            base = {**layout, **needs, **beside}
            told = numbers(base)
            found = numbers({**base, key: value}, base)
            if found is not None and told is not None and found != told:
                return False
    return True


def listed(key: str, table: dict[str, str]) -> bool:
    return any(key == name or (name[-1] == "." and key.startswith(name)) for name in table)


def test_the_table_names_keys_that_there_are() -> None:
    paths = schema.list_key_paths("plan")
    for name in (*STILL, *ELSEWHERE, *NEEDS, *VALUES):
        assert any(path.startswith(name) for path in paths), name
    for file in ELSEWHERE.values():
        assert (Path(__file__).parents[1] / file).is_file(), file


@pytest.mark.slow
def test_every_key_moves_a_number_or_is_listed() -> None:
    keys = [key for key in leaves() if not listed(key, STILL) and not listed(key, ELSEWHERE)]
    assert [key for key in keys if still(key)] == []


@pytest.mark.slow
def test_what_is_listed_moves_nothing() -> None:
    assert [key for key in leaves() if listed(key, STILL) and not still(key)] == []


@pytest.mark.parametrize("decoder", [False, True])
def test_what_an_encoder_says_of_itself_holds_for_it(decoder: bool) -> None:
    """Defaults that the decoder's keys fill in are the decoder's."""

    def size(**own: bool) -> Any:
        model = {**DENSE["model"], "bias": decoder, "encoder": {"layers": 2, **own}}
        model |= {"mixer": ["attention", "cross_attention"], "cross_attention": {"heads": 8}}
        alone = {"parallelism.pipeline": 1, "parallelism.tensor": 1}
        found = numbers({**DENSE, **alone, "model": model})
        return found and found["parameters.total"]

    assert size(bias=False) < size(bias=True)
    assert size(bias=decoder) == size()
