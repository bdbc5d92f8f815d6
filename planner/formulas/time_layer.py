"""Predicted time of one layer (or of embedding or head) for one micro-batch on one device."""

from typing import Any

from sympy import Rational

from planner.folds import Total, smallest
from planner.formulas.layout import routed, sequence_ranks, tokens, vocabulary
from planner.formulas.memory_states import device_whole
from planner.formulas.network import experts as experts_exchange
from planner.formulas.network import group, hops, shards, tensor
from planner.formulas.time_core import (
    EAGER,
    FLASH,
    FUSED,
    KORTHIKANTI,
    context_backward,
    context_forward,
    core_backward,
    core_forward,
)
from planner.formulas.time_product import backward as product_backward
from planner.formulas.time_product import casts
from planner.formulas.time_product import forward as product_forward
from planner.notation import a, a_kv, c, d_h, f, f_e, f_s, h, k_c, t, t_e
from planner.notation_hardware import W, e_mem, hidden_t, k_ew, n_la, p_drop, p_rope, t_la
from planner.quantity import quantity

CALIBRATED = "calibrated on published runs (presets/efficiency)"

# -- elementwise kernels -----------------------------------------------------------------------

TRAFFIC: dict[str, Any] = {
    "identifier": "time.elementwise.bytes",
    "symbol": r"D_{\mathrm{ew}}",
    "unit": "bytes",
    "title": "memory traffic of fused elementwise kernels, forward",
    "source": "bytes read and written, 2 for a value",
    "exact": False,
    "per": ("block",),
    "coefficient": "bytes",
}


@quantity(**TRAFFIC, when={"block": "norm"})
def traffic_norm():
    """Reads and writes its values."""
    return 4 * tokens * h / sequence_ranks


def _residual():
    return (6 + p_drop) * tokens * h / sequence_ranks


@quantity(**TRAFFIC, when={"block": "attention"})
def traffic_attention():
    """The residual sum reads two values and writes one, dropout a mask; rotary positions read, turn
    and write queries and keys in 4 bytes, the two halves of each apart (24)."""
    return _residual() + 24 * p_rope * tokens * (a + a_kv) * d_h / t


@quantity(**TRAFFIC, when={"block": "mlp", "block.gated": False})
def traffic_mlp():
    """The residual sum; the activation reads and writes f values."""
    return _residual() + 4 * tokens * f / t


@quantity(**TRAFFIC, when={"block": "mlp", "block.gated": True})
def traffic_mlp_gated():
    """The residual sum; the gated activation reads 2 f values and writes f."""
    return _residual() + 6 * tokens * f / t


@quantity(**TRAFFIC, when={"block": "moe"})
def traffic_moe():
    """The residual sum; activations of routed rows and of shared experts, as if gated; tokens are
    permuted there and back (8)."""
    return _residual() + routed * (6 * f_e / t_e + 8 * h) + 6 * tokens * f_s / t


OTHERS = ("mamba", "delta_net", "short_conv", "recurrence", "lightning")
NOTHING = ("positions", "pooler")


@quantity(**TRAFFIC, when={"block": OTHERS})
def traffic_other():
    """The residual sum, and 24 for convolution, scan and gate over about twice the hidden size; no
    published run calibrates it."""
    return _residual() + 24 * 2 * tokens * h / t


@quantity(**TRAFFIC, when={"block": NOTHING})
def traffic_nothing():
    """Too little to count."""
    return 0


@quantity(**TRAFFIC, when={"block": "embedding"})
def traffic_embedding():
    """Looks rows up and adds positions: 10 with the backward pass in view."""
    return 10 * tokens * h


LOSS = "training.loss"


@quantity(**TRAFFIC, when={"block": "head", LOSS: ("fused", "chunked")})
def traffic_head():
    """One kernel reads the logits and writes their gradient, 4 each with the maximum and the
    sum."""
    return 8 * tokens * vocabulary / t


@quantity(**TRAFFIC, when={"block": "head", LOSS: ("full", "vocab-parallel")})
def traffic_head_unfused():
    """Logits become 4 bytes wide; maximum, exponential and sum each pass over them."""
    return 14 * tokens * vocabulary / t


@quantity(
    "time.elementwise",
    symbol=r"t_{\mathrm{ew}}",
    unit="s",
    title="elementwise kernels of a block, forward",
    source=CALIBRATED,
    exact=False,
    per=("block",),
)
def elementwise():
    """Traffic over the bandwidth that kernels sustain, times what unfused kernels move."""
    return k_ew * traffic_norm / (W * e_mem)


# -- exchanges ---------------------------------------------------------------------------------

EXCHANGES: dict[str, Any] = {
    "identifier": "time.exchanges",
    "symbol": r"n_{\mathrm{ex}}",
    "unit": "1",
    "title": "tensor-parallel exchanges of a block in one pass",
    "source": "Shoeybi et al. 2019 (arXiv 1909.08053), section 3",
    "per": ("block",),
}
QUIET = ("norm", "embedding", "head", *NOTHING)


@quantity(**EXCHANGES, when={"block": ("attention", "mlp", *OTHERS)})
def exchanges():
    """One in each direction: a column-parallel product followed by a row-parallel one."""
    return 1


@quantity(**EXCHANGES, when={"block": (*QUIET, "moe")})
def exchanges_none():
    """None."""
    return 0


EXCHANGE: dict[str, Any] = {
    "identifier": "time.exchange",
    "symbol": r"t_{\mathrm{ex}}",
    "unit": "s",
    "title": "exchanges of a block with other devices in one pass",
    "exact": False,
    "per": ("block",),
}


@quantity(
    **EXCHANGE,
    source=CALIBRATED,
    when={"block": ("attention", "mlp", *QUIET, *OTHERS), "time.tensor_overlap": False},
)
def exchange():
    """The products wait for the exchange."""
    return exchanges * tensor


@quantity(
    **EXCHANGE,
    source=CALIBRATED,
    when={"block": ("attention", "mlp", *QUIET, *OTHERS), "time.tensor_overlap": True},
)
def exchange_overlapped():
    """A part runs beside the products (parallelism.tensor_overlap)."""
    return exchanges * tensor * (1 - hidden_t)


IN_TURN = ("1f1b", "interleaved", "gpipe", "zero-bubble")


@quantity(
    **EXCHANGE,
    source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1",
    when={"block": "moe", "training.schedule": "dualpipe"},
)
def exchange_experts_hidden():
    """DualPipe pairs a forward with a backward pass, so that the exchanges of one run beside the
    products of the other; they are taken as hidden, as the report says."""
    return 0


@quantity(
    **EXCHANGE,
    source="Lepikhin et al. 2020 (arXiv 2006.16668)",
    when={"block": "moe", "training.schedule": IN_TURN},
)
def exchange_experts():
    """Tokens go to their experts and come back."""
    return 2 * experts_exchange


# -- a layer -----------------------------------------------------------------------------------

PART: dict[str, Any] = {"unit": "s", "exact": False, "per": ("part",)}


@quantity(
    "time.part.forward",
    symbol=r"t_F",
    title="forward pass of a layer on the device",
    source="sum of its kernels",
    **PART,
)
def forward():
    """Products, attention, elementwise kernels and exchanges, one after another."""
    return (
        Total(product_forward, "product")
        + Total(core_forward + context_forward, "block", block="attention")
        + Total(elementwise, "block")
        + Total(exchange, "block")
    )


@quantity(
    "time.part.backward",
    symbol=r"t_B",
    title="backward pass of a layer on the device",
    source="sum of its kernels",
    **PART,
)
def backward():
    """The same backward; elementwise kernels move half as much again. Casts of both passes are
    here."""
    return (
        Total(product_backward + casts, "product")
        + Total(core_backward + context_backward, "block", block="attention")
        + Total(elementwise * 3 / 2, "block")
        + Total(exchange, "block")
    )


REPEATED: dict[str, Any] = {
    "identifier": "time.part.repeated",
    "symbol": r"t_R",
    "title": "what the backward pass of a layer computes again",
    **PART,
}


@quantity(**REPEATED, source=KORTHIKANTI, when={"training.recompute": "none"})
def repeated_none():
    """Nothing."""
    return 0


@quantity(**REPEATED, source=FLASH, when={"training.recompute": "selective", **FUSED})
def repeated_fused():
    """Nothing: the fused kernel computes its scores again by itself."""
    return 0


@quantity(**REPEATED, source=KORTHIKANTI, when={"training.recompute": "selective", **EAGER})
def repeated_core():
    """The attention core."""
    return Total(core_forward, "block", block="attention")


@quantity(**REPEATED, source=KORTHIKANTI, when={"training.recompute": "full", "layers": True})
def repeated_layer():
    """The whole forward pass of the layer, with its exchanges."""
    return forward


@quantity(**REPEATED, source=KORTHIKANTI, when={"training.recompute": "full", "layers": False})
def repeated_ends():
    """Embedding and head are not computed again."""
    return 0


@quantity(
    "time.part.launches",
    symbol=r"n_\ell",
    unit="1",
    title="kernels that the host launches for one pass of a layer",
    source=CALIBRATED,
    exact=False,
    per=("part",),
    when={"layers": True},
)
def launches():
    """Those of the layer, one more for each exchange with tensor-parallel ranks, and 6 for each
    further block of keys and values (send, receive, attention, and the sum of its outputs)."""
    return n_la + Total(exchanges, "block") * (t - 1) / 2 + 6 * (c - 1)


HOST: dict[str, Any] = {
    "identifier": "time.part.host",
    "symbol": r"t_H",
    "title": "host time of a layer: launches of its kernels",
    "source": CALIBRATED,
    **PART,
}


@quantity(**HOST, when={"layers": False})
def host_ends():
    """60 launches forward and backward, for lookup, logits and loss."""
    return 60 * t_la


@quantity(**HOST, when={"layers": True, "training.recompute": ("none", "selective")})
def host():
    """Launches once forward and twice backward."""
    return 3 * launches * t_la


@quantity(**HOST, when={"layers": True, "training.recompute": "full"})
def host_repeated():
    """Launches twice forward and twice backward."""
    return 4 * launches * t_la


GATHERS: dict[str, Any] = {
    "identifier": "time.part.gathers",
    "symbol": r"t_G",
    "title": "gathering a layer's weights and scattering its gradients",
    **PART,
}


@quantity(
    **GATHERS,
    source="Rajbhandari et al. 2020 (arXiv 1910.02054), section 5",
    when={"parallelism.zero": (0, 1, 2)},
)
def gathers_none():
    """Every device holds its weights."""
    return 0


@quantity(
    **GATHERS, source="Zhao et al. 2023 (arXiv 2304.11277), section 3", when={"parallelism.zero": 3}
)
def gathers():
    """Weights are gathered for the forward and for the backward pass, gradients reduced and
    scattered, all in the compute format: three rings over the group."""
    return 3 * (k_c * Total(device_whole, "component") * (shards - 1) / (shards * group) + hops)


@quantity(
    "time.part",
    symbol=r"t_\ell",
    title="a layer, forward and backward, of one micro-batch",
    source=CALIBRATED,
    **PART,
)
def part():
    """The device waits for the host where kernels are short: the longer of the two, rounded
    where they are alike; and the gathers."""
    device = forward + backward + repeated_none
    busy = (device**4 + host**4) ** Rational(1, 4)
    return busy + gathers - smallest(hidden_t * gathers, busy)
