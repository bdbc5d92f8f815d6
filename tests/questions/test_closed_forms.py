"""Closed forms: the root lies where bisection found the answer, in symbols as in numbers."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.book.expressions import Symbol
from planner.book.symbolic import to_sympy
from planner.engine.instance import evaluated
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.solve import questions
from planner.questions.solve.expression import (
    Coefficient,
    NoForm,
    _linear,
    _quadratic,
    closed_form,
)

GPT2 = "presets/gpt2small_hgx-h100.yaml"
LLAMA = "tests/documents/llama70b_assumed.yaml"
PREDICTED = "presets/llama70b_h100x1024.yaml"


def asked(path: str, changes: dict[str, Any] | None = None, **options: Any) -> questions.Answer:
    return questions.ask(variant(loading.load(path), changes or {}), **options)


def test_tokens_of_a_deadline_are_the_rate_times_the_time() -> None:
    answer = asked(LLAMA, question="tokens-by-deadline", deadline="30 days")
    form = closed_form(answer)
    rate = evaluated(answer.holds.plan, ["time.tokens_per_second"])["time.tokens_per_second"]
    assert form.value == 30 * 86_400 * Fraction(rate)
    assert form.degree == 1 and form.unknown == "T"
    assert form.formula == "86\u202f400 · t_days,max · r_tok"


def test_tokens_of_an_energy_are_the_rate_times_the_energy_over_the_power() -> None:
    """kWh are 3.6e6 J; the site draws no more than devices and their host, in one sum."""
    answer = asked(GPT2, vary="training.tokens", until=["energy.total<=1000 kWh"])
    form, plan = closed_form(answer), answer.holds.plan
    rate = Fraction(evaluated(plan, ["time.tokens_per_second"])["time.tokens_per_second"])
    power = plan.get("cluster.accelerator.power") + plan.get("cluster.host_power")
    drawn = plan.get("cluster.devices") * power
    assert form.value == pytest.approx(3_600_000 * 1000 * rate / drawn, rel=1e-9)
    assert form.formula == "3\u202f600\u202f000 · E_run,max · r_tok / (n · (P_dev + P_host))"


def test_the_longest_context_in_symbols() -> None:
    """Memory is linear in the sequence length: what is left, over what each token takes."""
    form = closed_form(asked(LLAMA, question="longest-context"))
    above, below = form.formula.split(" / ")
    assert "M_cap" in above and "M_act,1" in below
    # What no token adds to has its own name.
    assert {"M_w", "M_g", "M_o", "M_ctx", "M_coll"} < set(re.findall(r"[^ ()]+", above))
    assert dict(form.where)["M_act,1"] == "activations on the fullest device: per s"
    assert form.latex.startswith(r"\frac{M_{\mathrm{cap}}")


def test_parameters_are_of_second_degree_in_the_width() -> None:
    """12 L h² and what the embeddings add: the width of 10⁹ parameters by the root of a square."""
    answer = asked(GPT2, vary="model.hidden", until=["parameters.total<=1e9"])
    form = closed_form(answer)
    assert form.degree == 2 and "√" in form.formula
    square, linear = 12 * 12, (1_000_000_000 - float(form.value) ** 2 * 144) / float(form.value)
    assert linear == pytest.approx(50257 + 1024 + 12 * 13 + 2)  # vocabulary, positions, biases
    assert square == 144


def test_eager_attention_takes_memory_of_second_degree_in_the_sequence() -> None:
    """The scores, s × s for each head, are kept; what is kept on the way to them is linear."""
    changes = {"model.positions": "rope", "training.attention": "eager"}
    limit = ["memory.process<=70 GiB"]
    form = closed_form(asked(GPT2, changes, vary="training.sequence_length", until=limit))
    assert form.degree == 2
    meanings = dict(form.where)
    assert meanings["M_act,2"] == "activations on the fullest device: per s squared"
    assert meanings["M_all,2"].endswith("live tensors: per s squared")


@pytest.mark.parametrize(
    ("path", "options"),
    [
        (LLAMA, {"question": "longest-context"}),
        (LLAMA, {"vary": "model.hidden", "until": ["memory.process<=70 GiB"]}),
        (GPT2, {"vary": "model.hidden", "until": ["memory.process<=60 GiB"]}),
        (GPT2, {"vary": "model.vocab", "until": ["memory.process<=60 GiB"]}),
        (GPT2, {"vary": "training.tokens", "until": ["energy.total<=1000 kWh"]}),
        (PREDICTED, {"vary": "cluster.network.latency", "until": ["time.step_seconds<=5 s"]}),
        (GPT2, {"vary": "model.vocab", "until": ["time.step_seconds<=1 s"]}),
    ],
)
def test_the_numbers_that_are_put_in_come_to_the_value(path: str, options: Any) -> None:
    form = closed_form(asked(path, **options))
    words = {"\u202f": "", "−": "-", "·": "*", "×": "*", "^": "**", "√": "sqrt", "min": "Min"}
    text = form.substituted
    for word, other in words.items():
        text = text.replace(word, other)
    assert float(sympy.sympify(text)) == pytest.approx(float(form.value), rel=1e-4)


QUESTIONS: tuple[tuple[str, str, str, int, int], ...] = (
    ("model.layers", "parameters.total", "<=", 60_000_000, 10**9),
    ("model.hidden", "parameters.total", "<=", 10**8, 10**10),
    ("model.vocab", "parameters.total", "<=", 2 * 10**8, 10**9),
    ("training.tokens", "cost.total", "<=", 100, 10**6),
    ("training.tokens", "time.training_days", "<=", 1, 100),
    ("training.sequence_length", "compute.forward_flops_per_token", "<=", 260_000_000, 10**9),
    ("cluster.price", "cost.total", "<=", 10, 1000),
)


@pytest.mark.parametrize(("key", "quantity", "relation", "low", "high"), QUESTIONS)
def test_random_limits_are_met_at_the_root(
    key: str, quantity: str, relation: str, low: int, high: int
) -> None:
    plan = variant(loading.load(GPT2), {"model.positions": "rope"})
    chance = random.Random(key + quantity)
    units = {"cost": " USD", "time": " days", "compute": " FLOP"}
    for _ in range(4):
        bound = chance.randint(low, high)
        text = f"{quantity}{relation}{bound}{units.get(quantity.partition('.')[0], '')}"
        answer = questions.ask(plan, vary=key, until=[text])
        form = closed_form(answer)
        assert answer.holds.value <= form.value <= answer.fails.value, text


@pytest.mark.parametrize(
    ("path", "options", "why"),
    [
        (GPT2, {"question": "largest-model"}, "width and depth change together"),
        (LLAMA, {"question": "fewest-devices"}, "no limit binds"),
        (
            LLAMA,
            {"vary": "model.layers", "until": ["memory.process<=70 GiB"]},
            "changes in steps",
        ),
        (GPT2, {"vary": "training.micro_batch", "maximize": "memory.process"}, "trying values"),
    ],
)
def test_none_is_claimed_where_there_is_none(path: str, options: Any, why: str) -> None:
    with pytest.raises(NoForm, match=why):
        closed_form(asked(path, **options))


def test_text_and_data_show_it() -> None:
    answer = asked(GPT2, vary="model.layers", until=["parameters.total<=1e9"])
    text, data = questions.text(answer), json.loads(questions.to_json(answer))
    assert "In closed form, of first degree in L (model.layers):" in text
    assert "L = (N_max − N_0) / N_1" in text and "N_0: parameters: the part without L" in text
    assert data["expression"]["degree"] == 1
    assert data["expression"]["value"] == pytest.approx((10**9 - 39_385_344) / 7_087_872)
    stepped = asked(LLAMA, vary="model.layers", until=["memory.process<=70 GiB"])
    assert "No closed form: what the plan derives" in questions.text(stepped)
    assert "none" in json.loads(questions.to_json(stepped))["expression"]


WHOLE = st.integers(-50, 50)


@settings(max_examples=60)
@given(WHOLE, WHOLE, WHOLE)
def test_roots_make_the_equation_zero_in_numbers_and_in_symbols(a: int, b: int, c: int) -> None:
    """By Vieta the two roots of a x² + b x + c sum to -b/a and multiply to c/a."""
    assume(a and b)
    names = {
        Symbol(name, positive=False): value for name, value in zip("abc", (a, b, c), strict=True)
    }
    first, second, third = (Coefficient(Fraction(v), s) for s, v in names.items())
    numbers = {to_sympy(symbol): value for symbol, value in names.items()}

    def told(root: Coefficient) -> float:
        assert root.symbols is not None
        found = float(to_sympy(root.symbols).subs(numbers))
        assert found == pytest.approx(float(root.value), abs=1e-9)
        return found

    (root,) = _linear(second, third)
    assert root.value == Fraction(-c, b) and told(root) == pytest.approx(-c / b)
    roots = _quadratic(first, second, third)
    if b * b < 4 * a * c:
        assert not roots
        return
    one, other = map(told, roots)
    assert one + other == pytest.approx(-b / a, abs=1e-9)
    assert one * other == pytest.approx(c / a, abs=1e-9)
