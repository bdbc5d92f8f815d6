"""Closed forms: the root lies where bisection found the answer, in symbols as in numbers."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from fractions import Fraction
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
import sympy
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from planner.book.expressions import Symbol, make_number
from planner.book.quantity import BOOK
from planner.book.symbolic import to_sympy
from planner.engine.graph import Graph
from planner.engine.instance import compute_values
from planner.engine.run import run_graph
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.solve import questions
from planner.questions.solve.expression import (
    Coefficient,
    NoForm,
    Ratio,
    _solve_linear,
    _solve_quadratic,
    _Solver,
    derive_equation,
)

GPT2 = "presets/gpt2small_hgx-h100.yaml"
LLAMA = "tests/documents/llama70b_assumed.yaml"
PREDICTED = "presets/llama70b_h100x1024.yaml"


def asked(path: str, changes: dict[str, Any] | None = None, **options: Any) -> questions.Answer:
    return questions.ask(variant(loading.load(path), changes or {}), unbounded=True, **options)


def test_tokens_of_a_deadline_are_the_rate_times_the_time() -> None:
    answer = asked(LLAMA, question="tokens-by-deadline", deadline="30 days")
    form = derive_equation(answer)
    rate = compute_values(answer.holds.plan, ["time.tokens_per_second"])["time.tokens_per_second"]
    assert form.value == 30 * 86_400 * Fraction(rate)
    assert form.degree == 1 and form.unknown == "T"
    assert form.formula == "86,400 · t_days,max · r_tok"


def test_tokens_of_an_energy_are_the_rate_times_the_energy_over_the_power() -> None:
    """kWh are 3.6e6 J; the site draws no more than devices and their host, in one sum."""
    answer = asked(GPT2, vary="training.tokens", until=["energy.total<=1000 kWh"])
    form, plan = derive_equation(answer), answer.holds.plan
    rate = Fraction(compute_values(plan, ["time.tokens_per_second"])["time.tokens_per_second"])
    power = plan.get("cluster.accelerator.power") + plan.get("cluster.host_power")
    drawn = plan.get("cluster.devices") * power
    assert form.value == pytest.approx(3_600_000 * 1000 * rate / drawn, rel=1e-9)
    assert form.formula == "3,600,000 · E_run,max · r_tok / (n · (P_dev + P_host))"


def test_the_longest_context_in_symbols() -> None:
    """Memory is linear in the sequence length: what is left, over what each token takes."""
    form = derive_equation(asked(LLAMA, question="longest-context"))
    above, below = form.formula.split(" / ")
    assert "M_cap" in above and "M_act,1" in below
    # What no token adds to has its own name.
    assert {"M_w", "M_g", "M_o", "M_ctx", "M_coll"} < set(re.findall(r"[^ ()]+", above))
    assert dict(form.where)["M_act,1"] == "activations on the fullest device at its peak: per s"
    assert form.latex.startswith(r"\frac{M_{\mathrm{cap}}")


def test_parameters_are_of_second_degree_in_the_width() -> None:
    """12 L h² and what the embeddings add: the width of 10⁹ parameters by the root of a square."""
    answer = asked(GPT2, vary="model.hidden", until=["parameters.total<=1e9"])
    form = derive_equation(answer)
    assert form.degree == 2 and "√" in form.formula
    square, linear = 12 * 12, (1_000_000_000 - float(form.value) ** 2 * 144) / float(form.value)
    assert linear == pytest.approx(50257 + 1024 + 12 * 13 + 2)  # vocabulary, positions, biases
    assert square == 144


def test_eager_attention_takes_memory_of_second_degree_in_the_sequence() -> None:
    """The scores, s × s for each head, are kept; what is kept on the way to them is linear."""
    changes = {"model.positions": "rope", "training.attention": "eager"}
    limit = ["memory.process<=70 GiB"]
    form = derive_equation(asked(GPT2, changes, vary="training.sequence_length", until=limit))
    assert form.degree == 2
    meanings = dict(form.where)
    assert meanings["M_act,2"] == "activations on the fullest device at its peak: per s squared"
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
        (
            GPT2,
            {
                "changes": {"time.mfu": Fraction(7, 20), "time.use": "assumed"},
                "vary": "model.vocab",
                "until": ["time.step_seconds<=1 s"],
            },
        ),
    ],
)
def test_the_numbers_that_are_put_in_come_to_the_value(path: str, options: Any) -> None:
    form = derive_equation(asked(path, **options))
    words = {"−": "-", "·": "*", "×": "*", "^": "**", "√": "sqrt", "min": "Min"}
    text = re.sub(r"(?<=\d),(?=\d)", "", form.substituted)
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
        answer = questions.ask(plan, vary=key, until=[text], unbounded=True)
        form = derive_equation(answer)
        assert answer.holds.value <= form.value <= answer.fails.value, text


@pytest.mark.parametrize(
    ("path", "options", "why"),
    [
        (GPT2, {"question": "largest-model"}, "width and depth change together"),
        (LLAMA, {"question": "fewest-devices"}, "no limit is reached"),
        (
            LLAMA,
            {"vary": "model.layers", "until": ["memory.process<=70 GiB"]},
            "a step function",
        ),
        (GPT2, {"vary": "training.micro_batch", "maximize": "memory.process"}, "trying values"),
    ],
)
def test_none_is_claimed_where_there_is_none(path: str, options: Any, why: str) -> None:
    with pytest.raises(NoForm, match=why):
        derive_equation(asked(path, **options))


def test_text_and_data_show_it() -> None:
    answer = asked(GPT2, vary="model.layers", until=["parameters.total<=1e9"])
    text, data = questions.text(answer), json.loads(questions.to_json(answer))
    assert "In closed form, of first degree in L (model.layers):" in text
    assert "L = (N_max − N_0) / N_1" in text and "N_0: parameters: the part without L" in text
    assert data["expression"]["degree"] == 1
    assert data["expression"]["value"] == pytest.approx((10**9 - 39_385_344) / 7_087_872)
    stepped = asked(LLAMA, vary="model.layers", until=["memory.process<=70 GiB"])
    assert "No closed form: it is a step function" in questions.text(stepped)
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

    (root,) = _solve_linear(second, third)
    assert root.value == Fraction(-c, b) and told(root) == pytest.approx(-c / b)
    roots = _solve_quadratic(first, second, third)
    if b * b < 4 * a * c:
        assert not roots
        return
    one, other = map(told, roots)
    assert one + other == pytest.approx(-b / a, abs=1e-9)
    assert one * other == pytest.approx(c / a, abs=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_root_is_written_over_a_positive_divisor(sign: int) -> None:
    """What is left over what each takes, however little that is: no minus before the fraction."""
    room, first, second, each, more = (Symbol(name, positive=True) for name in "mabcd")
    above, below = (first + second - room) * sign, (each + more) * sign
    written = (to_sympy(room) - to_sympy(first + second)) / to_sympy(each + more)
    for value in (Fraction(1, 3), Fraction(1), Fraction(9)):
        (root,) = _solve_linear(
            Coefficient(sign * value, below), Coefficient(Fraction(-5 * sign), above)
        )
        assert root.value == 5 / value and root.symbols is not None
        assert to_sympy(root.symbols) == written


# -- rational functions ------------------------------------------------------------------------


def ratio(above: Mapping[int, Any], below: Mapping[int, int] | None = None) -> Ratio:
    made = [
        {power: Coefficient(Fraction(v), make_number(v)) for power, v in terms.items()}
        for terms in (above, below or {0: 1})
    ]
    return Ratio(*made)


def at(found: Ratio, x: int, symbols: Mapping[Any, int] | None = None) -> Fraction:
    """What a rational function is at a point, in numbers as in symbols."""

    def terms(of: Mapping[int, Coefficient]) -> Fraction:
        for each in of.values():
            if symbols is not None and each.symbols is not None:
                assert to_sympy(each.symbols).subs(symbols) == sympy.Rational(each.value)
        return sum((each.value * Fraction(x) ** power for power, each in of.items()), Fraction(0))

    return terms(found.above) / terms(found.below)


def test_sums_products_and_quotients_are_those_at_every_point() -> None:
    few = (
        ratio({0: 2, 1: 3}),
        ratio({1: -3}),
        ratio({0: 5, 2: 1}, {0: 1, 1: 1}),
        ratio({3: 4}, {0: 1, 1: 1}),
        ratio({0: 1}, {0: 3, 1: -1}),
        ratio({0: 6, 1: 2}, {2: 4}),
    )
    for one, other in product(few, repeat=2):
        for x in (2, 5, -4):
            assert at(one + other, x, {}) == at(one, x) + at(other, x)
            assert at(one * other, x, {}) == at(one, x) * at(other, x)
            assert at(one / other, x, {}) == at(one, x) / at(other, x)
    assert (few[2] + few[3]).below == few[2].below  # one divisor is not multiplied by itself


@pytest.mark.parametrize("count", [2, 3, 4])
def test_an_input_that_follows_the_unknown_is_a_line_through_three_values_or_more(
    count: int,
) -> None:
    """Two values lie on some line whatever they are."""
    inputs = {0: lambda x: 7, 1: lambda x: 5 + 2 * x, 2: lambda x: 3 * x}
    points = [(Fraction(x), SimpleNamespace(evaluate_node=lambda i, x=x: inputs[i](x)))
              for x in (4, 1, 9, 7)[:count]]  # fmt: skip
    graph = SimpleNamespace(inputs=inputs)
    solver = SimpleNamespace(_yield_points=lambda: points, evaluation=SimpleNamespace(graph=graph))
    if count < 3:
        with pytest.raises(NoForm, match="too few values"):
            _Solver._fit_inputs(solver)  # type: ignore[arg-type]
        return
    found = _Solver._fit_inputs(solver)  # type: ignore[arg-type]
    assert {place: form.above for place, form in found.items()} == {
        1: ratio({0: 5, 1: 2}).above,
        2: ratio({1: 3}).above,
    }
    inputs[2] = lambda x: x * x
    with pytest.raises(NoForm, match="a step function"):
        _Solver._fit_inputs(solver)  # type: ignore[arg-type]


def test_every_operation_of_a_graph_is_that_of_the_function_of_the_unknown() -> None:
    """Each node worked out at four values of x; of y, which stands still, the symbol is kept, and
    that of no entry of an axis."""
    graph, (x, y, z) = Graph(), (Symbol(name, positive=True) for name in "xyz")
    places = [
        graph.add_input(x, (), None),
        graph.add_input(y, (), None),
        graph.add_input(z, ("entry",), None),
    ]
    unknown, still, entry = places
    two, half = graph.add_constant(2), graph.add_constant(Fraction(1, 2))
    total = graph.add_quantity(still, ("parameters.total", ()))
    each = graph.add_quantity(still, ("parameters.total", ("entry",)))
    more = graph.add_node("div", graph.add_sum([still, two]), graph.add_product([still, half]))
    picked = graph.add_pick([two, half], [still, more])
    made = [
        graph.add_sum([unknown, still, two]),
        graph.add_product([unknown, unknown, total]),
        graph.add_product([still, more], [unknown, two]),
        graph.add_sum([graph.add_product([each, unknown]), entry]),
        graph.add_product([unknown, graph.add_sum([entry, two])]),
        *(graph.add_power(unknown, graph.add_constant(power)) for power in (1, 2, 3, -1, -2)),
        graph.add_power(graph.add_sum([unknown, two]), graph.add_constant(-1)),
        graph.add_extreme("max", [unknown, half]),
        graph.add_extreme("min", [unknown, half, graph.add_constant(100)]),
        graph.add_product([graph.add_pick([half, two], [still, unknown]), picked]),
        graph.add_node("ceil", graph.add_product([unknown, two])),
        graph.add_node("floor", graph.add_product([unknown, two])),
    ]
    beyond = [
        graph.add_power(unknown, half),
        graph.add_power(two, unknown),
        graph.add_node("exp", unknown),
    ]
    count = len(graph.nodes)
    forms = []
    for value in (5, 3, 12, 8):
        given = {unknown: value, still: 11, entry: 13}
        values = [None] * count
        run_graph(graph, range(count), values, given.__getitem__, lambda key, value: value)
        solver = object.__new__(_Solver)
        solver.nodes, solver.values = graph.nodes, values
        solver.book = SimpleNamespace(notation={}, quantities=BOOK.quantities)
        solver.unknown, solver.numbers = "x", {}
        solver.case = SimpleNamespace(settings={})
        solver.forms = {unknown: ratio({1: 1})}
        for place in graph.list_dependents([unknown])[1:]:
            if place in beyond:
                with pytest.raises(NoForm, match="below a root or in an exponent"):
                    solver._build_ratio(*graph.nodes[place])
                continue
            solver.forms[place] = solver._build_ratio(*graph.nodes[place])
        names = {to_sympy(y): 11, to_sympy(BOOK.quantities["parameters.total"].symbol): 11}
        for place in made:
            assert at(solver.forms[place], value, names) == values[place], graph.nodes[place]
        forms.append([(solver.forms[place].above, solver.forms[place].below) for place in made])
        spelled = [
            all(term.symbols for term in solver.forms[place].above.values()) for place in made
        ]
        assert spelled == [place not in made[3:5] for place in made]
        assert to_sympy(solver.forms[made[1]].above[2].symbols) == to_sympy(
            BOOK.quantities["parameters.total"].symbol
        )
    # One function, whichever value it was found at, but for the extreme that another is of.
    assert all(form == forms[0] for form in forms)


@pytest.mark.parametrize(
    ("form", "ends", "degree", "root"),
    [
        (ratio({1: 5}), (0, 1), 1, 0),  # the limit is met at zero
        (ratio({0: -6, 1: 2}), (3, 4), 1, 3),
        (ratio({0: -6, 1: 2}), (2, 3), 1, 3),
        (ratio({-1: -6, 0: 2}), (2, 4), 1, 3),
        (ratio({0: -9, 2: 1}), (2, 4), 2, 3),
        (ratio({0: -9, 2: 1}), (-4, -2), 2, -3),
        (ratio({0: 9, 1: -6, 2: 1}), (2, 4), 2, 3),
        (ratio({0: Fraction(6, 25), 1: -1, 2: 1}), (0, Fraction(1, 2)), 2, Fraction(2, 5)),
        (ratio({-1: 10, 0: -7, 1: 1}), (4, 6), 2, 5),
        (ratio({-1: 10, 0: -7, 1: 1}), (1, 3), 2, 2),
        (ratio({0: -6, 1: 2}), (4, 5), None, "roundings or another branch"),
        (ratio({0: 9, 2: 1}), (2, 4), None, "roundings or another branch"),
        (ratio({0: -8, 3: 1}), (1, 3), None, "is of degree 3"),
        (ratio({-1: -8, 2: 1}), (1, 3), None, "is of degree 3"),
        (Ratio({}), (1, 3), None, "does not change here"),
    ],
)
def test_the_root_of_a_limit_lies_between_what_holds_and_what_fails(
    form: Ratio, ends: tuple[Any, Any], degree: int | None, root: Any
) -> None:
    holds, fails = (SimpleNamespace(value=value) for value in ends)
    solver = SimpleNamespace(
        forms={0: form}, result=0, limit=Limit("cost.total", "<=", 0), holds=holds, fails=fails
    )
    solver._write_equation = lambda degree, value, symbols: (degree, value, to_sympy(symbols))
    if degree is None:
        with pytest.raises(NoForm, match=root):
            _Solver.solve_unknown(solver)  # type: ignore[arg-type]
        return
    assert _Solver.solve_unknown(solver) == (degree, root, sympy.Rational(root))  # type: ignore[arg-type, comparison-overlap]


def test_a_limit_of_nothing_is_met_at_nothing() -> None:
    """What costs its price takes nothing where that is nothing."""
    form = derive_equation(asked(GPT2, vary="cluster.price", until=["cost.total<=0 USD"]))
    assert (form.degree, form.value, form.formula) == (1, 0, "0")
