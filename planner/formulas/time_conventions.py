"""Utilisation by the conventions of others: half of all disputes are about these."""

from typing import Any

from sympy import Rational

from planner.folds import Total
from planner.formulas.compute import component, executed_per_token, per_token
from planner.formulas.time import mfu, tokens_per_second
from planner.formulas.time_peak import peak
from planner.notation import L_k, n
from planner.notation_hardware import P_listed
from planner.quantity import quantity

CAUSAL: dict[str, Any] = {
    "identifier": "time.mfu_causal",
    "symbol": r"u_{\mathrm{causal}}",
    "unit": "1",
    "title": "model FLOPs utilisation, attention counted as far as it is causal",
    "source": "Dao 2023 (arXiv 2307.08691), section 4; Megatron-Core since 2024",
}


@quantity(**CAUSAL, when={"training.attention_count": ("full", "window"), "model.shape": True})
def mfu_causal():
    """Half of the scores are masked: half of attention's FLOPs, forward and backward, do not
    count."""
    scores = Total(L_k * Total(component, "component", type="core"), "part")
    return tokens_per_second * (per_token - Rational(3, 2) * scores) / (n * peak)


@quantity(
    **CAUSAL, when={"training.attention_count": ("causal", "causal-window"), "model.shape": True}
)
def mfu_causal_counted():
    """The plan counts attention so already."""
    return mfu


@quantity(
    "time.mfu_listed",
    symbol=r"u_{\mathrm{sheet}}",
    unit="1",
    title="model FLOPs utilisation against the peak as the datasheet prints it",
    source="datasheet of the accelerator",
)
def mfu_listed():
    """A peak with sparsity halves the utilisation."""
    return tokens_per_second * per_token / (n * P_listed)


@quantity(
    "time.hfu_listed",
    symbol=r"u_{\mathrm{hw,sheet}}",
    unit="1",
    title="hardware FLOPs utilisation against the peak as the datasheet prints it",
    source="datasheet of the accelerator",
)
def hfu_listed():
    """Recomputed work counted, against the printed peak."""
    return tokens_per_second * executed_per_token / (n * P_listed)
