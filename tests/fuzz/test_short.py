"""A short run of the fuzzer; `make fuzz` is the long one."""

from __future__ import annotations

import itertools
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import planner
from fuzz import campaign, documents, judge, judged, lines, ranges, readers, tricks, watch
from tests.strategies import whole_plans

KINDS = ("plan", "model", "cluster", "accelerator", "config", "study")


def tried(raw: bytes, random: Random, kind: str, folder: Path) -> None:
    """One mutated document; memory is that of all tests here, so the campaign watches it."""
    file = folder / ("config.json" if kind == "config" else f"{kind}.yaml")
    file.write_bytes(raw)
    line = campaign.arguments(random, kind, file)
    outcome = watch.run(line)
    known = outcome.problem is None or outcome.problem.startswith("over 500 MB")
    assert known, f"{outcome.problem}\n{outcome.detail}\n{line}\n{raw[:2000]!r}"


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", KINDS)
def test_a_mutated_document_is_evaluated_or_refused_at_its_place(
    kind: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")

    @settings(
        max_examples=20,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(documents.documents(kind), st.randoms(use_true_random=False))
    def run(raw: bytes, random: Random) -> None:
        tried(raw, random, kind, folder)

    run()


@pytest.mark.slow
def test_seeded_documents(tmp_path: Path) -> None:
    for number in range(10):
        line, raw, outcome = campaign.one(11, number, tmp_path)
        assert outcome.problem is None, f"{number}: {outcome}\n{line}\n{raw[:2000]!r}"


@pytest.mark.slow
def test_too_much_is_refused(tmp_path: Path) -> None:
    """Expansion, depth, breadth and size, each many times in a second."""
    file = tmp_path / "plan.yaml"
    for make, parts in itertools.product(documents.GIANTS, (100, 90_000)):
        file.write_bytes(make(parts))
        outcome = watch.run(["validate", str(file)])
        assert outcome.problem is None, outcome
        assert outcome.status == 2


@pytest.mark.slow
def test_every_command_is_tried(tmp_path: Path) -> None:
    random = Random(1)
    tried = {lines.line(random, tmp_path)[0] for _ in range(300)}
    assert tried == {*lines.commands()} - {*lines.LEFT_OUT}


@pytest.mark.slow
@pytest.mark.parametrize("target", readers.TARGETS)
def test_the_readers_under_random_text(target: str) -> None:
    assert readers.with_hypothesis(target, 1) > 20


@pytest.mark.slow
def test_the_watch_sees_what_it_watches_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from planner.cli import main as cli

    def main(arguments: list[str]) -> int:
        word = arguments[-1]
        if word == "raise":
            raise ValueError("x")
        while word == "hang":
            pass
        if word == "nan":
            print("NaN")
            return 0
        print("a fault without its place", file=__import__("sys").stderr)
        return 2

    monkeypatch.setattr(cli, "run_command", main)
    problems = [watch.run(["report", "json", word], 0.05).problem for word in
                ("raise", "hang", "place")]  # fmt: skip
    assert problems[0] is not None and problems[0].startswith("ValueError")
    assert problems[1] is not None and problems[1].startswith("over 0.05 s")
    assert problems[2] == "a fault without a place"
    assert watch.run(["report", "json", "nan"]).problem == "its JSON cannot be read"


@pytest.mark.slow
def test_tricks_with_files_lead_nowhere() -> None:
    for number in range(12):
        name, line, outcome = tricks.played(3, number)
        assert outcome.problem is None, f"{number}: {name}\n{line}\n{outcome}"


LLAMA = "presets/llama70b_h100x1024.yaml"


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"time.step_seconds": -1}, "time.step_seconds is below zero"),
        ({"parameters.active": 10**12}, "parameters.active is above parameters.total"),
        ({"memory.headroom": 10**12}, "memory.headroom is not capacity less process"),
        ({"memory.weights": 10**15}, "memory.weights is above memory.total"),
        ({"time.goodput": 1.01}, "time.goodput is above one"),
        ({"time.step_seconds": float("inf")}, "time.step_seconds is not finite"),
        ({}, None),
    ],
)
def test_absurd_values_are_seen(changes: dict[str, float], said: str | None) -> None:
    result = planner.load(LLAMA).evaluate().to_json()
    for name, value in changes.items():
        result["quantities"][name] = {"value": value}
    assert judge.result(result) == said


def test_a_law_that_is_broken_is_seen() -> None:
    key, name = "training.tokens", "time.training_days"
    few, many = ({name: days} for days in (100, 200))
    assert judge.order(key, few, many) is None
    assert judge.order(key, many, few) == f"more {key} lowers {name}"
    assert judge.order("time.mfu", few, many) == f"more time.mfu raises {name}"


def test_laws_name_keys_and_quantities_that_there_are() -> None:
    assert {*judge.LAWS} <= {*ranges.numeric()}
    named = {name for _, names in judge.LAWS.values() for name in names}
    named |= {name for pair in judge.ORDERS for name in pair} | {*judge.SIGNED, *judge.SHARES}
    assert named <= {*judged.scalars()}


@pytest.mark.slow
def test_most_plans_that_are_made_evaluate() -> None:
    evaluated = 0
    for number in range(12):
        try:
            plan = planner.load(documents.draw_one(whole_plans(), number))
            evaluated += plan.evaluate()["parameters.total"].value > 0
        except planner.PlanError:
            continue
    assert evaluated >= 10


@pytest.mark.slow
def test_grids_of_corners_are_judged() -> None:
    tally = judged.Tally()
    for number in range(2):
        judged.grid(7, number, tally)
    assert not +tally.problems, tally.first
    assert tally.judged > 200 and tally.exact > 5 and tally.commands == 2


@pytest.mark.slow
def test_the_judged_campaign_sees_a_broken_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a higher price to lower the cost, a grid over prices would tell."""
    keys = ("cluster.price", "cluster.pue", "cluster.stragglers")
    monkeypatch.setattr(judged, "keys", lambda result: keys)
    monkeypatch.setitem(judge.LAWS, "cluster.price", (-1, ("cost.total",)))
    tally = judged.Tally()
    for number in (1, 2):
        judged.grid(7, number, tally)
    assert tally.problems["more cluster.price raises cost.total"] > 5


def test_grids_ask_for_every_number_by_turns() -> None:
    """As many grids as half of the numbers, rounded up, whatever the first."""
    names = {*ranges.numeric()}
    for first in (0, 7, 1000):
        grids = range(first, first + -(-len(names) // 2))
        assert {name for number in grids for name in judged.asked(number)} == names


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("start", range(5))
def test_a_plan_is_made_that_has_any_number_of_the_schema(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "SIMPLEST", 0)
    names = [*ranges.numeric()][start::5]
    assert not [name for name in names if ranges.draw_plan(name, [name]) is None]
