"""Equations of papers, as they print them, in the symbols of the notation.

Whether a plan's quantity is one of them is decided by algebra: its closed form less the equation is
nought (``results/closed_form.py``). The equations assume what their papers do: a GPT block, of
which the feed-forward is four times as wide as the rest and every head has its own keys, so that
a_kv = a, d_h = h/a and f = 4h. Bytes of an element are numbers here, 2 of a 16-bit value.
"""

from __future__ import annotations

from typing import NamedTuple

from planner.book.expressions import Expression, Symbol, make_number, to_expression
from planner.book.formulas import network, time_step
from planner.book.formulas.layout import data, tokens
from planner.book.formulas.memory_states import per_parameter, trained
from planner.book.formulas.parameters import active
from planner.book.language import *
from planner.book.quantity import BOOK, Notation


class Equation(NamedTuple):
    """A published equation of some quantities.

    ``besides`` is a term that the paper omits and the book has, with the words for it. ``remark``
    explains how to read the equation.
    """

    quantities: tuple[str, ...]
    source: str
    value: Expression
    besides: tuple[Expression, str] = (make_number(0), "")
    remark: str = ""


#: The letter of the ZeRO paper: the trained parameters of a device of a stage.
Psi = Symbol("Psi", positive=True)
PARAMETERS = Notation(
    Psi,
    "parameters that one tensor and expert rank of the stage trains",
    r"\Psi",
    len(BOOK.notation),
    per=("stage",),
    unit="parameters",
)
#: Its value on a stage.
OF_STAGE = Sum(copies_on_stage * trained, "component")
LAYER = ("memory.activations.layer", "memory.activations.part")
STAGE = ("memory.activations.layers",)
_sbh = s * b * h
_scores = 5 * a * s / h
_of_token = 72 * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))
_table = f"{KORTHIKANTI}, table 2"
_of_run = "for the T tokens of the run instead of the Bs of a step"

#: Of similar equations the simplest comes first.
EQUATIONS = (
    Equation(LAYER, f"{KORTHIKANTI}, equation 1", _sbh * (34 + _scores)),
    Equation(LAYER, f"{KORTHIKANTI}, equation 2", _sbh * (10 + 24 / t + 5 * a * s / (h * t))),
    Equation(LAYER, f"{KORTHIKANTI}, equation 4", _sbh / t * (34 + _scores)),
    Equation(LAYER, f"{_table}: selective recomputation", _sbh * (10 + 24 / t)),
    Equation(LAYER, f"{KORTHIKANTI}, equation 6 for one layer", 34 * _sbh / t),
    Equation(LAYER, f"{_table}: full recomputation", 2 * _sbh),
    Equation(STAGE, f"{KORTHIKANTI}, equation 5", _sbh * L / t * (34 + _scores)),
    Equation(STAGE, f"{KORTHIKANTI}, equation 6", 34 * _sbh * L / t),
    Equation(
        STAGE,
        f"{KORTHIKANTI}, equation 5 and section 4.2.3",
        _sbh * L / t * (1 + (p - 1) / (p * v)) * (34 + _scores),
    ),
    Equation(
        STAGE,
        f"{KORTHIKANTI}, equation 6 and section 4.2.3",
        34 * _sbh * L / t * (1 + (p - 1) / (p * v)),
    ),
    Equation(
        ("parameters.total",),
        f"{NARAYANAN}, equation 2",
        12 * L * h**2 * (1 + 13 / (12 * h) + (V + s_max) / (12 * L * h)),
        (2 * h, "the paper leaves out the last norm, 2h"),
    ),
    Equation(
        ("compute.training_flops_megatron",),
        f"{NARAYANAN}, equation 3",
        96 * T * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h)),
        remark=_of_run,
    ),
    Equation(
        ("compute.flops_per_token",),
        f"{KORTHIKANTI}, appendix A",
        _of_token,
        remark="for a token instead of the Bs of a step",
    ),
    Equation(
        ("compute.training_flops",),
        f"{KORTHIKANTI}, appendix A",
        T * _of_token,
        remark=_of_run,
    ),
    Equation(
        ("compute.training_flops_palm",),
        f"{CHOWDHERY}, appendix B",
        T * (6 * active + 12 * L * h * s),
        remark="H Q of the paper, heads times their size, is h",
    ),
    Equation(("compute.training_flops_6nd",), f"{KAPLAN}: C = 6ND", 6 * active * T),
    *(
        Equation(
            (quantity, f"{quantity}.stage"),
            f"{RAJBHANDARI}, section 5 and figure 1",
            to_expression(each * Psi / share),
            remark=words,
        )
        for quantity, each in (
            ("memory.weights", 2),
            ("memory.gradients", 2),
            ("memory.optimizer", k_m + k_G + per_parameter),
        )
        for share, words in ((1, ""), (data * c, "data- and context-parallel ranks share them"))
    ),
    Equation(
        ("time.bubble",),
        f"{NARAYANAN}, section 2.2",
        (p - 1) / v * (time_step.model / p + 2 * v * network.send),
        remark="(p − 1)/(vm) of the ideal time, that of m passes without a bubble",
    ),
    Equation(
        ("network.tensor",),
        f"{network.RING}: a ring passes 2(n − 1)/n of what it reduces",
        2 * (t - 1) / t * k_a * tokens * h / (network.link * network.links_tensor)
        + network.tensor_hops,
    ),
    Equation(
        ("network.passed",),
        f"{network.RING}: a ring passes (n − 1)/n of what it gathers or scatters",
        (network.shards - 1) / (network.shards * network.group),
    ),
)
