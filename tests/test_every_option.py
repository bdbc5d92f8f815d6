"""Every choice of the schema, with every headline figure: each has a value, or a reason that is
listed here. What a plan can say, the program can work out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from planner.book.quantity import BOOK
from planner.engine.evaluate import Absent, Evaluation
from tests.book.test_laws_time import FASTER, SLOWER
from tests.changed import evaluation_of
from tests.conftest import read_data

SCHEMA = Path(__file__).resolve().parent.parent / "schemas" / "plan.schema.json"
#: What the first pages of a report stand on.
HEADLINES = read_data("every_option")["headlines"]
SERVING = read_data("plans")["serving_options"]
#: Absent on purpose: key and value, the quantity, and what its reason says.
LISTED: dict[tuple[str, Any], dict[str, str]] = {}

#: A plan that leaves nothing open: prices, power, failures, storage.
PLAN: dict[str, Any] = read_data("plans")["every_option"]
#: What lets gradients leave as they are made: one micro-batch, and nobody's buffer for all.
PASSING = read_data("every_option")["passing"]
#: What a choice needs beside itself.
BESIDE: dict[tuple[str, Any], dict[str, Any]] = {
    (key, value): needs for key, value, needs in read_data("every_option")["beside"]
}
#: What a key needs, or all keys of a section, whatever the value.
WITH: dict[str, dict[str, Any]] = read_data("every_option")["with"]
#: Layouts under which each choice is tried: each ZeRO stage, degrees on one node and on several.
LAYOUTS: dict[str, dict[str, Any]] = read_data("every_option")["layouts"]


def choices() -> Iterator[tuple[str, Any]]:
    """Every key of a plan that has a few values, with each of them."""

    def walk(node: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
        for name, said in node.get("properties", {}).items():
            kinds = said.get("type", ())
            values = said.get("enum") or ((True, False) if kinds == "boolean" else ())
            yield from ((before + name, value) for value in values)
            yield from walk(said, f"{before}{name}.")

    read = json.loads(SCHEMA.read_text("utf-8"))
    whole = {**read["properties"], **read["definitions"]}
    for section in ("training", "parallelism"):
        yield from walk(whole[section], f"{section}.")


# What a layout is found by (test_automatic.py and test_launchers.py of tests/questions), not what
# one is.
FOUND_BY = ("parallelism.auto", "parallelism.for")
CHOICES = [c for c in choices() if c[0] not in FOUND_BY]


def evaluation(*changes: Mapping[str, Any]) -> Evaluation:
    return evaluation_of(PLAN, {key: value for some in changes for key, value in some.items()})


def absent(e: Evaluation, wanted: tuple[str, ...]) -> dict[str, str]:
    """The figures that have no value, with their reasons; one that makes no sense is none."""
    found = {}
    for name in wanted:
        try:
            worth = float(e.value(name))
        except Absent as reason:
            found[name] = reason.reason
        else:
            assert worth == worth and (name == "memory.headroom" or worth >= 0), (name, worth)
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_has_every_figure(layout: str) -> None:
    assert absent(evaluation(LAYOUTS[layout]), HEADLINES) == {}


@pytest.mark.parametrize(("key", "value"), CHOICES, ids=[f"{k}={v}" for k, v in CHOICES])
def test_every_choice_has_every_figure_or_a_listed_reason(key: str, value: Any) -> None:
    section = key.rpartition(".")[0]
    needs = {**WITH.get(section, {}), **WITH.get(key, {}), **BESIDE.get((key, value), {})}
    e = evaluation(needs, {key: value})
    serves = "inference" in (value, needs.get("training.mode"))
    wanted = SERVING if serves else HEADLINES
    reasons = LISTED.get((key, value), {})
    found = absent(e, wanted)
    assert found.keys() == reasons.keys(), found
    for name, pattern in reasons.items():
        assert re.search(pattern, found[name])


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("mode", ["none", "selective", "full"])
@pytest.mark.parametrize(
    "schedule", ["1f1b", "interleaved", "gpipe", "zero-bubble", "dualpipe", "dualpipev"]
)
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_modes_schedules_and_stages_of_sharding_go_together(
    zero: int, schedule: str, mode: str
) -> None:
    beside = BESIDE.get(("training.schedule", schedule), {})
    changes = {
        "parallelism.zero": zero,
        "training.schedule": schedule,
        "training.recompute": mode,
    }
    assert absent(evaluation(beside, changes), HEADLINES) == {}


#: What nothing else hides, quicker work hiding less, a part of a time by its share of the passes,
#: and what is left of a capacity.
LEFT = read_data("every_option")["without_effect"]
PAIRED = ("time.part.busy.forward", "time.part.busy.backward", "time.forward", "time.backward")
FORMATS = "training.bytes."
#: Choices that together with ``LAYOUTS`` ask nearly every formula of a time.
ASKED: dict[str, dict[str, Any]] = {**LAYOUTS, **read_data("every_option")["asked"]}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("layout", ASKED)
def test_slower_hardware_and_wider_formats_make_no_time_shorter_and_no_memory_smaller(
    layout: str,
) -> None:
    """Every time and every size that a step is made of, not their sums alone."""
    serving = ASKED[layout].get("training.mode") == "inference"
    wanted = ["time.latency_seconds" if serving else "time.step_seconds", "memory.process"]
    e = evaluation(ASKED[layout])
    [e.value(each) for each in wanted]
    # A pair of passes is shared out between them, so that a longer one leaves the other less.
    left = (*LEFT, *PAIRED) if e.case.settings["training.schedule"].startswith("dual") else LEFT
    wider = [n.symbol for n in BOOK.notation.values() if (n.key or "").startswith(FORMATS)]
    for symbol in (*FASTER, *SLOWER, *wider):
        value = e.case.bindings.get(symbol)
        if isinstance(value, Absent) or not value:
            continue
        slower = e.change_input(symbol, value * Fraction(1, 2) if symbol in FASTER else value * 2)
        [slower.value(each) for each in wanted]
        for key, place in e.nodes.items():
            if key not in slower.nodes or key[0] in left:
                continue
            before, after = e.evaluate_node(place), slower.evaluate_node(slower.nodes[key])
            if BOOK.quantities[key[0]].unit in ("s", "bytes") and not isinstance(before, Absent):
                assert float(after) >= float(before) * (1 - 1e-9), (key[0], symbol)
