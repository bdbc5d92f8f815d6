"""Serving: time to the first token, and of each further one, by roofline with the cache."""

from planner.folds import Largest, Total
from planner.formulas.layout import data
from planner.formulas.memory import weights
from planner.formulas.memory_cache import cache_stage
from planner.formulas.network import send
from planner.formulas.time_layer import exchanges, forward
from planner.notation import L_k, b, p, s_o, t
from planner.notation_hardware import W, a_link, e_mem
from planner.quantity import quantity

POPE = "Pope et al. 2022 (arXiv 2211.05102), section 2"
SERVING = {"training.mode": "inference", "time.assumed": False}


@quantity(
    "time.prefill_seconds",
    symbol=r"t_{\mathrm{pre}}",
    unit="s",
    title="time to the first token",
    source=POPE,
    exact=False,
    when=SERVING,
)
def prefill():
    """The forward pass of all layers over the prompts of a micro-batch, through the p stages."""
    return Total(L_k * forward, "part") + (p - 1) * send


@quantity(
    "time.decode_seconds",
    symbol=r"t_{\mathrm{dec}}",
    unit="s",
    title="time of one further token",
    source=POPE,
    exact=False,
    when=SERVING,
)
def decode():
    """Weights and cache are read once on each of the p stages; small batches wait for the
    memory, not for arithmetic. Each layer's exchanges are too small for bandwidth: they cost
    their hops."""
    hops = 2 * (t - 1) * a_link * Total(L_k * Total(exchanges, "block"), "part")
    return p * (weights + Largest(cache_stage, "stage")) / (W * e_mem) + hops + (p - 1) * send


@quantity(
    "time.decode_tokens_per_second",
    symbol=r"r_{\mathrm{dec}}",
    unit="tokens/s",
    title="tokens generated per second, all devices",
    source=POPE,
    exact=False,
    when=SERVING,
    coefficient="tokens",
)
def decode_rate():
    """Each of the d replicas has p micro-batches of b sequences under way, one on each stage."""
    return data * p * b / decode


@quantity(
    "time.latency_seconds",
    symbol=r"t_{\mathrm{lat}}",
    unit="s",
    title="time of a whole answer",
    source=POPE,
    exact=False,
    when=SERVING,
)
def latency():
    """The first token, then each of the rest."""
    return prefill + s_o * decode
