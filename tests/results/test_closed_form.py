"""Closed forms: against the papers' equations, written out here, and against the plans' values."""

import subprocess
import sys
from fractions import Fraction

import pytest
import sympy
from sympy import Rational, simplify, symbols

import planner
from planner.results.closed_form import derive_form
from planner.typeset.styles import TEXT
from tests.changed import changed
from tests.conftest import read_data

s, b, h, a, t, c, L, V, T, p, v, f, d, Psi = symbols("s b h a t c L V T p v f d Ψ", positive=True)
a_kv, s_max = symbols("a_kv s_max", positive=True)


def gpt(**changes):
    """A GPT of 24 layers as the papers have it, on 64 devices."""
    return planner.load(changed(read_data("plans")["gpt_of_papers"], changes)).evaluate()


def same(quantity, equation):
    """Whether a quantity is an equation, symbol by symbol."""
    return simplify(quantity.expression.subs(c, 1) - equation) == 0


KORTHIKANTI = {  # Korthikanti et al. 2022, equations 1, 2, 4 and 6 and table 2
    (False, "none", 1): (s * b * h * (34 + 5 * a * s / h), "equation 1"),
    (False, "none", 4): (s * b * h * (10 + 24 / t + 5 * a * s / (h * t)), "equation 2"),
    (True, "none", 4): (s * b * h / t * (34 + 5 * a * s / h), "equation 4"),
    (True, "selective", 4): (34 * s * b * h / t, "equation 6 for one layer"),
    (False, "selective", 4): (s * b * h * (10 + 24 / t), "table 2: selective recomputation"),
    (False, "full", 4): (2 * s * b * h, "table 2: full recomputation"),
}


@pytest.mark.parametrize("choices", KORTHIKANTI, ids=str)
def test_activations_of_a_layer_are_korthikantis_equation(choices):
    sequence, recompute, tensor = choices
    equation, name = KORTHIKANTI[choices]
    result = gpt(
        training__recompute=recompute, parallelism__tensor=tensor, parallelism__sequence=sequence
    )
    quantity = result["memory.activations.layer"]
    ones = {c: 1, t: 1} if tensor == 1 else {c: 1}
    assert simplify(quantity.expression.subs(ones) - equation) == 0
    found = derive_form(quantity)
    assert found.recognised == f"Korthikanti et al. 2022 (arXiv 2205.05198), {name}"


@pytest.mark.parametrize(("chunks", "name"), [(1, "5"), (3, "5 and section 4.2.3")])
def test_activations_of_the_first_stage_are_equation_5(chunks, name):
    """s b h L/t (34 + 5as/h), and under interleaving 1 + (p - 1)/(pv) of it."""
    result = gpt(
        parallelism__pipeline=4, parallelism__virtual_pipeline=chunks, parallelism__sequence=True,
        training__recompute="none",
    )  # fmt: skip
    quantity = result["memory.activations.layers[0]"]
    more = 1 + (p - 1) / (p * v) if chunks > 1 else 1
    assert same(quantity, s * b * h * L / t * (34 + 5 * a * s / h) * more)
    assert derive_form(quantity).recognised.endswith(f"equation {name}")


def test_the_general_form_of_a_layer():
    """Grouped heads, any width, context parallel: sbh/(ct) (12 + 4k/a + 6f/h + 8/h)."""
    plan = planner.load("presets/llama70b_h100x1024.yaml", set={"training.recompute": "selective"})
    quantity = plan.evaluate()["memory.activations.layer"]
    general = s * b * h / (c * t) * (12 + 4 * a_kv / a + 6 * f / h + 8 / h)
    assert simplify(quantity.expression - general) == 0
    found = derive_form(quantity)
    assert found.recognised is None
    assert TEXT.write(found.factor) == "b · s · h / (t · c)"
    terms = {term.label: TEXT.write(term.factor) for term in found.terms}
    assert terms["attention: key"] == "2 · a_kv / a"
    assert terms["MLP: gate and up projection output"] == "4 · f / h"
    assert terms["norms: reciprocal deviation"] == "8 / h"
    assert sum(term.value for term in found.terms) == quantity.value
    assert " ".join(TEXT.write(each.name) for each in found.inputs) == "b s h a a_kv f t c"
    assert found.inputs[0].origin == "llama70b_h100x1024.yaml:9"


def test_parameters_and_flops_of_a_gpt():
    """Narayanan et al. 2021, equations 2 and 3; Korthikanti et al. 2022, appendix A; Chowdhery et
    al. 2022, appendix B. The last norm, 2h, is in none of the papers' counts."""
    result = gpt()
    parameters = 12 * L * h**2 * (1 + 13 / (12 * h) + (V + s_max) / (12 * L * h))
    assert same(result["parameters.total"], parameters + 2 * h)
    name = derive_form(result["parameters.total"]).recognised
    assert name.startswith("Narayanan et al. 2021 (arXiv 2104.04473), equation 2; ")
    assert "2h" in name
    megatron = 96 * T * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h))
    assert same(result["compute.training_flops_megatron"], megatron)
    assert "equation 3" in derive_form(result["compute.training_flops_megatron"]).recognised
    token = 72 * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))
    assert same(result["compute.flops_per_token"], token)
    assert "appendix A" in derive_form(result["compute.flops_per_token"]).recognised
    assert same(result["compute.training_flops"], T * token)
    palm, used = result["compute.training_flops_palm"], result["parameters.active"].expression
    assert same(palm, T * (6 * used + 12 * L * h * s))
    assert "appendix B" in derive_form(palm).recognised


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_states_are_the_table_of_zero(zero):
    """Rajbhandari et al. 2020, figure 1: weights 2Ψ, gradients 2Ψ, and KΨ with K = 12, each divided
    over N devices from its stage on."""
    result = gpt(
        training__bytes={"gradient": 2, "step": 0},
        parallelism__zero=zero,
        training__implementation="megatron-2022",
        parallelism__tensor=1,
    )
    for part, each, first in (("weights", 2, 3), ("gradients", 2, 2), ("optimizer", 12, 1)):
        found = derive_form(result[f"memory.{part}"])
        text = f"{each} · Ψ / (c · d)" if zero >= first else f"{each} · Ψ"
        assert TEXT.write(found.symbolic) == text
        assert found.recognised.startswith("Rajbhandari et al. 2020 (arXiv 1910.02054), section 5")
        (psi,) = (x for x in found.inputs if TEXT.write(x.name) == "Ψ")
        assert result[f"memory.{part}"].value == psi.value * Fraction(
            each, 64 if "d" in text else 1
        )


def test_gradients_of_four_bytes_are_not_in_the_table_of_zero():
    found = derive_form(gpt()["memory.gradients"])
    assert (TEXT.write(found.symbolic), found.recognised) == ("4 · Ψ", None)


def test_the_bubble_and_the_ring():
    """Narayanan et al. 2021, section 2.2: p - 1 passes of an average stage, m of which are the
    ideal time. A ring of n devices passes 2 (n - 1)/n of what it reduces."""
    result = gpt(parallelism__pipeline=4)
    bubble = result["time.bubble"]
    each = result["time.model"].value / 4 + 2 * result["network.pipeline"].value
    assert float(bubble.value) == pytest.approx(3 * float(each))
    model, send = symbols("t_model t_send", positive=True)
    assert simplify(bubble.expand(0) - (p - 1) * (model / p + 2 * send)) == 0
    assert "(p − 1)/(vm) of the ideal time" in derive_form(bubble).recognised
    ring = result["network.tensor"]
    bandwidth, share, hops, tokens = symbols("β_ℓ λ_t α_t n_tok", positive=True)
    volume = 2 * tokens * h  # bytes of the residual stream, 16 bits a value
    expected = 2 * (t - 1) / t * volume / bandwidth + hops
    assert simplify(ring.expand(0).subs(share, 1) - expected) == 0
    assert "2(n − 1)/n" in derive_form(ring).recognised


def test_what_is_no_published_equation_is_not_called_one():
    """A gated feed-forward, or a width that is not 4h, is nobody's equation of a GPT."""
    result = planner.load("presets/llama70b_h100x1024.yaml").evaluate()
    for name in ("memory.activations.layer", "parameters.total", "compute.flops_per_token"):
        assert derive_form(result[name]).recognised is None


MODELS = ("llama3-8b", "mixtral-8x7b", "deepseek-v3", "gpt2-small", "gemma3-27b", "jamba-52b")


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("model", [*MODELS[1::2], "t5-base", "qwen3-30b-a3b"])
def test_every_closed_form_comes_to_the_value(model):
    """Put into its form, the symbols' values give the quantity, to the last digit where it is
    exact."""
    result = planner.load(
        {
            "model": model,
            "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64},
            "training": {"tokens": "1T", "sequence_length": 512, "global_batch": 256},
        }
    ).evaluate()
    collapse, some = result.collapse, 0
    for quantity in result.quantities.values():
        found = derive_form(quantity)
        if found is None:
            continue
        some += 1
        assert _number(found.numeric) == pytest.approx(float(quantity.value), rel=1e-9), quantity.id
        if found.terms:
            whole = sum(float(term.value) for term in found.terms)
            assert whole == pytest.approx(float(quantity.value), rel=1e-9), quantity.id
        for term in found.terms:
            assert term.label
            assert not term.label[0].isdigit()
    assert some > 40
    assert collapse is result.collapse


def _number(box):
    """What a box of numbers comes to."""
    parts = [_number(part) for part in box.parts]
    match box.kind:
        case "value" | "number":
            return float(box.data)
        case "sum":
            return sum(-x if minus else x for x, minus in zip(parts, box.data, strict=True))
        case "product":
            return float(sympy.prod(parts))
        case "fraction":
            return parts[0] / parts[1]
        case "power":
            return parts[0] ** parts[1]
        case "root":
            return parts[0] ** 0.5
        case "negative":
            return -parts[0]
    raise AssertionError(box.kind)


def test_expanded_puts_formulas_in_level_by_level():
    result = planner.load("presets/llama70b_h100x1024.yaml").evaluate()
    mfu = result["time.mfu"]
    n, R, r_tok, C_mod, B, t_step, sheet = symbols(
        "n R r_tok C_mod B t_step R_sheet", positive=True
    )
    assert simplify(mfu.expand(0) - C_mod * r_tok / (n * R)) == 0
    rate = result["time.tokens_per_second_per_device"]
    assert simplify(rate.expand(0) - r_tok / n) == 0
    assert simplify(rate.expand() - B * s / t_step / n) == 0
    assert Rational(1, 2) * sheet == result["time.peak"].expression
    assert mfu.formula == "C_mod · r_tok / (n · R)"
    with pytest.raises(ValueError, match="levels"):
        mfu.expand(-1)


def test_an_expression_has_the_value():
    result = planner.load("presets/llama70b_h100x1024.yaml").evaluate()
    for name in ("parameters.total", "memory.activations", "compute.training_flops"):
        quantity = result[name]
        found, collapse = quantity.expression, result.collapse
        name = collapse.typesetter.make_name
        values = {TEXT.write(name(each)): value for each, value in collapse.values.items()}
        assert (
            found.subs({each: values[str(each)] for each in found.free_symbols}) == quantity.value
        )


def test_what_is_absent_or_a_name_has_no_form():
    result = planner.load("presets/llama70b_h100x1024.yaml").evaluate()
    assert derive_form(result["memory.stage"]) is None
    with pytest.raises(ValueError, match="no form"):
        _ = result["memory.stage"].expression


@pytest.mark.slow
def test_closed_forms_need_no_sympy():
    """Its import takes longer than all closed forms of a report together."""
    code = (
        "import sys, planner\n"
        "from planner.results.closed_form import derive_form\n"
        "r = planner.load('presets/llama70b_h100x1024.yaml').evaluate()\n"
        "assert derive_form(r['memory.activations.layer'])\n"
        "print('sympy' in sys.modules)\n"
    )
    for _ in range(2):  # the first run may fill the cache of canonical forms
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
