"""What inverse questions answer, held to every valid value of small domains, each evaluated as a
plan of its own: the answer and its neighbours, what binds, the words, what errors leave open."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import pytest

import planner
from planner.base import numbers
from planner.base.errors import PlanError
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import domains, loading
from planner.questions.constraints import Limit, parse_limit
from planner.questions.search.engine import search
from planner.questions.solve import questions
from tests.in_turn import InTurn

STEP, MEMORY, FITS, DAYS, COST = (
    "time.step_seconds", "memory.process", "memory.headroom", "time.training_days", "cost.total",
)  # fmt: skip


def document(devices: int, layers: int, batch: int, **training: Any) -> dict[str, Any]:
    return {
        "name": "small",
        "model": {
            "layers": layers, "hidden": 384, "vocab": 1000, "max_sequence": 4096,
            "attention": {"heads": 6}, "mlp": {"intermediate": 1536},
        },
        "cluster": {
            "accelerator": "a100-sxm-40gb", "devices": devices, "devices_per_node": 3,
            "price": "2 USD/h", "network": {"bandwidth": "100 Gb/s"},
        },
        "training": {"tokens": "1B", **{"sequence_length": 384, "global_batch": batch, **training}},
        "parallelism": {"zero": 1},
    }  # fmt: skip


PLANS: dict[str, dict[str, Any]] = {
    "dense": document(6, 6, 360),
    "kept scores": document(3, 2, 36, attention="eager", recompute="full", sequence_length=24),
    "a pipeline": {**document(6, 12, 72), "parallelism": {"pipeline": 3, "zero": 0}},
    "turns": {
        **document(6, 12, 72),
        "parallelism": {"pipeline": 3, "virtual_pipeline": 2, "zero": 0},
    },
    "turns with ends": {
        **document(6, 16, 72),
        "parallelism": {"pipeline": 3, "virtual_pipeline": 2, "zero": 0, "cut": "ends"},
    },
    "experts": {
        **document(6, 3, 36, micro_batch=2),
        "model": {
            **document(6, 3, 36)["model"],
            "moe": {"experts": 6, "top_k": 2, "intermediate": 768},
        },
    },
    "long": document(6, 2, 12, sequence_length=3072),
}


@cache
def plan(name: str) -> Plan:
    return loading.load(PLANS[name])


class Value(NamedTuple):
    """A valid value of the key with what its plan comes to."""

    value: int
    values: Mapping[str, Any]

    def broken(self, limits: Iterable[Limit]) -> list[Limit]:
        return [limit for limit in limits if self.slack(limit) < 0]

    def slack(self, limit: Limit) -> Any:
        found, bound = self.values[limit.quantity], limit.value
        return bound - found if limit.relation == "<=" else found - bound

    def share(self, limit: Limit) -> float:
        """Of the limit or of the value, whichever is larger."""
        return float(self.slack(limit) / (max(abs(limit.value), abs(self.values[limit.quantity]))))


def scanned(
    name: str, key: str, candidates: Iterable[int], quantities: Sequence[str]
) -> list[Value]:
    found, exactly = [], InTurn()
    for candidate in candidates:
        try:
            made = variant(plan(name), {key: candidate})
            found.append(Value(candidate, exactly(made, quantities)))
        except PlanError:
            continue
    return found


def plainly(text: str) -> str:
    return re.sub(r"(?<=\d),(?=\d)", "", text)


def told(value: Any, quantity: str) -> str:
    return plainly(parse_limit(f"{quantity}>=0").format_value(value))


#: A key, the values that it may have, and a quantity that is limited.
KEYS: tuple[tuple[str, str, Sequence[int], str], ...] = (
    ("dense", "training.micro_batch", range(1, 61), MEMORY),
    ("dense", "training.micro_batch", range(1, 61), "layout.micro_batches"),
    ("dense", "model.layers", range(1, 25), "parameters.total"),
    ("turns", "model.layers", range(1, 60), "parameters.total"),
    ("turns with ends", "model.layers", range(1, 60), "parameters.total"),
    ("kept scores", "training.sequence_length", range(1, 40), "memory.activations"),
    ("kept scores", "training.global_batch", range(1, 60), "layout.micro_batches"),
    ("a pipeline", "parallelism.pipeline", range(1, 7), "memory.weights"),
    ("a pipeline", "parallelism.tensor", range(1, 7), "memory.weights"),
    ("experts", "parallelism.expert", range(1, 7), "memory.weights"),
    ("experts", "parallelism.zero", range(4), MEMORY),
    ("long", "parallelism.context", range(1, 7), "memory.activations"),
    ("long", "model.vocab", range(960, 1060), "parameters.embedding"),
)


@pytest.mark.parametrize(("name", "steps"), [("turns", 1), ("turns with ends", 1), ("dense", 1)])
def test_candidates_of_layers_leave_out_only_what_does_not_divide(name: str, steps: int) -> None:
    """Three stages of two turns each: with embedding and head, six or more to divide."""
    domain = domains.build_domain(plan(name), "model.layers")
    candidates = [domain.value(index) for index in range(domain.first, 60 // steps + 1)]
    assert candidates == [*range(steps, 61, steps)]
    valid = [each.value for each in scanned(name, "model.layers", range(1, 61), ())]
    assert valid == [*range(1 if name == "dense" else 4, 61)]
    free = domains.build_domain(plan(name), "model.layers", free=True)
    assert free.value(free.first + 1) == 2


#: Those that have values beyond the candidates.
ENDLESS = (
    "model.layers", "model.vocab", "training.global_batch", "training.sequence_length",
)  # fmt: skip


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("name", "key", "candidates", "quantity"), KEYS)
@pytest.mark.parametrize("relation", ["<=", ">="])
def test_the_answer_is_the_last_value_that_holds_and_the_next_one_does_not(
    name: str, key: str, candidates: Sequence[int], quantity: str, relation: str
) -> None:
    """Limits between two values, at one of them, and beyond all."""
    every = scanned(name, key, candidates, (quantity,))
    assert len(every) > 1, key
    numbers = sorted({value.values[quantity] for value in every})
    middle = len(numbers) // 2
    bounds = {numbers[middle], (numbers[middle - 1] + numbers[middle]) / Fraction(2)}
    if key not in ENDLESS:
        bounds |= {numbers[0], numbers[-1]}
    for bound in sorted(bounds):
        limit = Limit(quantity, relation, Fraction(bound))
        text = f"{quantity}{relation}{float(bound)!r} {limit.unit if limit.unit != '1' else ''}"
        limit = parse_limit(text)  # which tells its bound as it was written
        if Fraction(limit.value) != bound:
            continue
        check(questions.ask(plan(name), vary=key, until=[text]), every, [limit])


def check(answer: questions.Answer, every: Sequence[Value], limits: Sequence[Limit]) -> None:
    """An answer, as text and as data, against what was counted out."""
    (limit,) = limits
    data, text = json.loads(questions.to_json(answer)), plainly(questions.text(answer))
    holding = [value for value in every if not value.broken(limits)]
    assert data["solved"] and holding
    own = next(v for v in every if v.value == answer.domain.value(answer.domain.start))
    # Towards which the limit comes nearer: the first change from the plan's own value.
    after = [v.slack(limit) - own.slack(limit) for v in every if v.value > own.value]
    before = [v.slack(limit) - own.slack(limit) for v in reversed(every) if v.value < own.value]
    nearer = next((c < 0 for c in after if c), None)
    if nearer is None:
        nearer = next((c > 0 for c in before if c), True)
    direction = 1 if nearer else -1
    assert data["direction"] == ("largest" if direction == 1 else "smallest")
    last = max(holding, key=lambda value: direction * value.value)
    beyond = [v for v in every if (v.value - last.value) * direction > 0]
    assert data["holds"]["value"] == last.value
    assert data["holds"]["quantities"] == {limit.quantity: last.values[limit.quantity]}
    assert data["holds"]["slack"] == {limit.quantity: pytest.approx(float(last.slack(limit)))}
    said = plainly(numbers.text(last.value, answer.domain.unit, digits=6))
    at_once = " at once on a copy of the model" if "micro_batch" in answer.domain.key else ""
    which = f"{said}{at_once} is the {data['direction']} with {plainly(str(limit))}"
    assert text.startswith(f"{answer.domain.key}: {which}")
    if not beyond:
        assert "fails" not in data and data["binding"] is None
        assert "No limit is reached: this is the last value that makes a valid plan." in text
        return
    following = min(beyond, key=lambda v: direction * v.value)
    assert data["fails"]["value"] == following.value and data["binding"] == limit.quantity
    left, short = (
        told(last.slack(limit), limit.quantity),
        told(-following.slack(limit), limit.quantity),
    )
    assert f"; {left} to spare here, the next value is {short} short." in text


# -- best values -------------------------------------------------------------------------------

#: Keys of few values, a quantity to be made large or small, and perhaps a limit at the n-th least
#: value of another one.
GOALS: tuple[tuple[str, str, Sequence[int], str, str, int | None], ...] = (
    ("dense", "training.micro_batch", range(1, 61), STEP, MEMORY, None),
    ("dense", "training.micro_batch", range(1, 61), STEP, MEMORY, 4),
    ("dense", "training.micro_batch", range(1, 61), "time.mfu", MEMORY, 3),
    ("dense", "parallelism.tensor", range(1, 7), MEMORY, STEP, 2),
    ("a pipeline", "parallelism.pipeline", range(1, 7), COST, MEMORY, 2),
    ("a pipeline", "parallelism.pipeline", range(1, 7), "memory.weights", STEP, None),
    ("experts", "parallelism.expert", range(1, 7), STEP, MEMORY, None),
    ("experts", "parallelism.zero", range(4), MEMORY, STEP, 2),
    ("experts", "parallelism.zero", range(4), "parameters.total", "memory.gradients", 1),
    ("long", "parallelism.context", range(1, 7), MEMORY, STEP, None),
)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("name", "key", "candidates", "quantity", "other", "place"), GOALS)
@pytest.mark.parametrize("sense", [1, -1])
def test_the_best_value_is_the_best_of_all_that_keep_the_limits(
    name: str,
    key: str,
    candidates: Sequence[int],
    quantity: str,
    other: str,
    place: int | None,
    sense: int,
) -> None:
    every = scanned(name, key, candidates, (quantity, other))
    limits, until = list[Limit](), list[str]()
    if place is not None:
        ordered = sorted(value.values[other] for value in every)
        bound = (Fraction(ordered[place - 1]) + Fraction(ordered[place])) / 2
        unit = parse_limit(f"{other}>=0").unit
        until = [f"{other}<={float(bound)!r} {'' if unit == '1' else unit}"]
        limits = [parse_limit(until[0])]
    option = {"maximize" if sense == 1 else "minimize": quantity}
    if len({value.values[quantity] for value in every}) == 1:
        with pytest.raises(PlanError, match=f"{quantity} does not change with {key}"):
            questions.ask(plan(name), vary=key, until=until, **option)
        return
    answer = questions.ask(plan(name), vary=key, until=until, **option)
    holding = [value for value in every if not value.broken(limits)]
    assert holding and (not limits or len(holding) == place)
    best = max(sense * value.values[quantity] for value in holding)
    data, text = json.loads(questions.to_json(answer)), plainly(questions.text(answer))
    at = next(i for i, value in enumerate(every) if value.value == data["holds"]["value"])
    assert every[at] in holding and sense * every[at].values[quantity] == best
    assert data["goal"]["which"] == ("largest" if sense == 1 else "smallest")
    assert data["goal"]["quantity"] == quantity
    several = sum(sense * value.values[quantity] == best for value in holding) > 1
    assert (f"other values give the same {quantity}" in text) == several
    beside = [every[i] for i in (at - 1, at + 1) if 0 <= i < len(every)]
    assert [each["value"] for each in data["beside"]] == [value.value for value in beside]
    for value in beside:
        where = "One step less" if value.value < every[at].value else "One step more"
        change = value.values[quantity] - every[at].values[quantity]
        if broken := value.broken(limits):
            short = told(-value.slack(broken[0]), other)
            said = f"{where}: {plainly(str(broken[0]))} is missed by {short}."
        elif 0 < 1000 * abs(change) < abs(every[at].values[quantity]):
            said = f"{where}: {quantity} is the same within 0.1 %."
        elif change:
            way = "more" if change > 0 else "less"
            assert way == ("less" if sense == 1 else "more")
            said = f"{where}: {quantity} is {told(abs(change), quantity)} {way}."
        else:
            said = f"{where}: {quantity} is the same."
        assert said in text, text
    assert "\n  best " in text


def test_a_goal_within_limits_that_none_keeps_names_the_nearest_miss() -> None:
    every = scanned("dense", "training.micro_batch", range(1, 61), (STEP, MEMORY))
    least = min(every, key=lambda value: value.values[MEMORY])
    limit = f"{MEMORY}<={int(least.values[MEMORY]) - 5000} bytes"
    answer = questions.ask(plan("dense"), vary="training.micro_batch", until=[limit], minimize=STEP)
    data, text = json.loads(questions.to_json(answer)), plainly(questions.text(answer))
    assert not data["solved"] and data["misses"]["value"] == least.value
    assert data["binding"] == MEMORY and [each["quantity"] for each in data["unmet"]] == [MEMORY]
    assert "cannot be met; the nearest value misses it by" in text
    short = least.values[MEMORY] - parse_limit(limit).value
    assert f"misses it by {told(short, MEMORY)}." in text


# -- what published runs leave open ------------------------------------------------------------


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", ["dense", "experts"])
@pytest.mark.parametrize("quantity", [DAYS, "time.tokens_per_second", COST])
def test_the_ends_of_an_answer_are_those_of_a_slow_and_a_fast_run(name: str, quantity: str) -> None:
    """Every number of devices or of steps of accumulation at which the limit would hold if all
    runs took as long as the slowest of those published, and as short as the fastest."""
    key, candidates = "training.micro_batch", range(1, 61)
    every = scanned(name, key, candidates, (quantity, MEMORY))
    ordered = sorted(every, key=lambda value: value.values[quantity])
    middle = ordered[len(ordered) // 2].values[quantity]
    rate = quantity == "time.tokens_per_second"
    relation = ">=" if rate else "<="
    unit = parse_limit(f"{quantity}>=0").unit
    limit = parse_limit(f"{quantity}{relation}{float(middle)!r} {unit}")
    # What memory holds does not hang on how long a run takes.
    most = max(value.values[MEMORY] for value in every)
    until = [f"{quantity}{relation}{float(middle)!r} {unit}", f"{MEMORY}<={int(most) + 1} bytes"]
    data = json.loads(questions.to_json(questions.ask(plan(name), vary=key, until=until)))
    holds = data["holds"]["value"]
    made = planner.load(PLANS[name], set={key: holds}).evaluate()
    low, high = made[quantity].interval
    value = made[quantity].value
    direction = 1 if data["direction"] == "largest" else -1
    # A slow run has the high end of a time and the low end of a rate.
    shares = [Fraction(end) / Fraction(value) for end in ((low, high) if rate else (high, low))]
    expected = []
    for share in shares:
        kept = [v.value for v in every if limit.is_met(Fraction(v.values[quantity]) * share)]
        expected.append(max(kept, key=lambda n: direction * n, default=None))
    assert [data["interval"]["slowest"], data["interval"]["fastest"]] == expected


# -- any layout --------------------------------------------------------------------------------


def best_of(name: str, key: str, value: int, by: str, *limits: Limit) -> Any:
    """The least of a quantity over all layouts with one value of a key; None where none fits."""
    try:
        made = variant(plan(name), {key: value})
    except PlanError:
        made = variant(plan(name), {key: value, "parallelism.pipeline": 1, "parallelism.zero": 0})
    found = search(made, 1, by, limits=limits, margin="0").best
    return found[0].values[by] if found else None


#: With the layout free, values of a key from the furthest on, and one whose best layout is the
#: limit. Steps rise again where more devices fill nodes less evenly; lengths that three divides
#: leave context parallelism to nodes of three.
FREE: tuple[tuple[str, str, str, Sequence[int], str, int], ...] = (
    ("fewest-devices", "dense", "cluster.devices", (3, 6, 9, 12), STEP, 12),
    ("fewest-devices", "dense", "cluster.devices", (3, 6, 9, 12), MEMORY, 12),
    ("longest-context", "long", "training.sequence_length", range(2304, 0, -256), MEMORY, 1536),
)


#: Every layout of an enumeration, without the bounds of good sense.
ANYHOW: dict[str, Any] = {"with_layout": "auto", "margin": "0", "unbounded": True}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(("question", "name", "key", "values", "quantity", "at"), FREE)
def test_with_any_layout_the_answer_is_the_furthest_value_at_which_one_holds(
    question: str, name: str, key: str, values: Sequence[int], quantity: str, at: int
) -> None:
    best = {value: best_of(name, key, value, quantity) for value in values}
    bound = float(best[at]) * (1 + 1e-9)
    until = [f"{quantity}<={bound!r} {parse_limit(f'{quantity}>=0').unit}"]
    answer = questions.ask(plan(name), question, until=until, **ANYHOW)
    assert answer.holds is not None
    assert answer.holds.value == next(value for value in values if best[value] <= bound)
    assert not any("known layouts only" in note for note in answer.notes)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("quantity", [MEMORY, STEP])
def test_with_any_layout_the_best_value_has_the_best_layout(quantity: str) -> None:
    name, key, lengths = "long", "training.sequence_length", range(256, 4097, 512)
    scanned_out = {n: best_of(name, key, n, quantity) for n in lengths}
    answer = questions.ask(plan(name), vary=key, minimize=quantity, **ANYHOW)
    data = json.loads(questions.to_json(answer))
    found = data["holds"]["quantities"][quantity]
    assert found == pytest.approx(float(min(v for v in scanned_out.values() if v)), rel=1e-9)
