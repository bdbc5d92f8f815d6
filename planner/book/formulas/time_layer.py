"""Predicted time of one layer (or of embedding or head) for one micro-batch on one device."""

from typing import Any

from planner.book.formulas.compute import NOTHING, OTHERS
from planner.book.formulas.layout import routed, sequence_ranks, tokens, vocabulary
from planner.book.formulas.network import experts as experts_exchange
from planner.book.formulas.network import experts_gather, tensor
from planner.book.formulas.time_core import (
    context_backward,
    context_forward,
    core_backward,
    core_forward,
)
from planner.book.formulas.time_product import backward as product_backward
from planner.book.formulas.time_product import casts
from planner.book.formulas.time_product import forward as product_forward
from planner.book.notation import a, a_kv, d_h, f, f_e, f_s, h, k_a, t, t_e
from planner.book.notation_hardware import (
    W,
    e_mem,
    hidden_t,
    k_ew,
    n_emb,
    n_mix,
    p_drop,
    p_rope,
    q_back,
)
from planner.book.quantity import quantity
from planner.book.reductions import Total

CALIBRATED = "calibrated on published runs (presets/efficiency)"

# -- elementwise kernels -----------------------------------------------------------------------

TRAFFIC: dict[str, Any] = {
    "identifier": "time.elementwise.bytes",
    "symbol": r"D_{\mathrm{ew}}",
    "unit": "bytes",
    "title": "memory traffic of fused elementwise kernels, forward",
    "source": "values read and written, in the format of activations",
    "exact": False,
    "per": ("block",),
    "coefficient": "bytes",
}


@quantity(**TRAFFIC, when={"block": "norm"})
def traffic_norm():
    """Reads and writes its values."""
    return 2 * k_a * tokens * h / sequence_ranks


def _residual():
    return (3 * k_a + p_drop) * tokens * h / sequence_ranks


@quantity(**TRAFFIC, when={"block": "attention"})
def traffic_attention():
    """The residual sum reads two values and writes one, dropout a mask; rotary positions read, turn
    and write queries and keys in 4 bytes, the two halves of each apart (24)."""
    return _residual() + 24 * p_rope * tokens * (a + a_kv) * d_h / t


@quantity(**TRAFFIC, when={"block": "mlp", "block.gated": False})
def traffic_mlp():
    """The residual sum; the activation reads and writes f values."""
    return _residual() + 2 * k_a * tokens * f / t


@quantity(**TRAFFIC, when={"block": "mlp", "block.gated": True})
def traffic_mlp_gated():
    """The residual sum; the gated activation reads 2 f values and writes f."""
    return _residual() + 3 * k_a * tokens * f / t


@quantity(**TRAFFIC, when={"block": "moe"})
def traffic_moe():
    """The residual sum; activations of routed rows and of shared experts, as if gated; tokens are
    permuted there and back (4 accesses)."""
    return _residual() + k_a * (routed * (3 * f_e / t_e + 4 * h) + 3 * tokens * f_s / t)


@quantity(**TRAFFIC, when={"block": OTHERS})
def traffic_other():
    """The residual sum, and what convolution, scan and gate read and write over about twice the
    hidden size; no published run calibrates it."""
    return _residual() + n_mix * k_a * 2 * tokens * h / t


@quantity(**TRAFFIC, when={"block": NOTHING})
def traffic_nothing():
    """Too little to count."""
    return 0


@quantity(**TRAFFIC, when={"block": "projection"})
def traffic_projection():
    """Hidden state and embedding are read and written side by side."""
    return 4 * k_a * tokens * h / sequence_ranks


@quantity(**TRAFFIC, when={"block": "embedding"})
def traffic_embedding():
    """Looks rows up and adds positions, with the backward pass in view."""
    return n_emb * k_a * tokens * h


LOSS = "training.loss"


@quantity(**TRAFFIC, when={"block": "head", LOSS: ("fused", "chunked")})
def traffic_head():
    """One kernel reads the logits and writes their gradient, two passes with the maximum and the
    sum."""
    return 4 * k_a * tokens * vocabulary / t


@quantity(**TRAFFIC, when={"block": "head", LOSS: ("full", "vocab-parallel")})
def traffic_head_unfused():
    """Logits are read and written 4 bytes wide; maximum and sum of exponentials each pass over
    them (12 bytes)."""
    return (k_a + 12) * tokens * vocabulary / t


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


@quantity(**EXCHANGES, when={"block": ("attention", "mlp", "projection", *OTHERS)})
def exchanges():
    """One in each direction: a column-parallel product followed by a row-parallel one."""
    return 1


@quantity(**EXCHANGES, when={"block": (*QUIET, "moe")})
def exchanges_none():
    """None."""
    return 0


ALONE = ("attention", "mlp", "projection", *QUIET, *OTHERS)
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
    when={"block": ALONE, "time.tensor_overlap": False},
)
def exchange():
    """The products wait for the exchange."""
    return exchanges * tensor


@quantity(
    **EXCHANGE,
    source=CALIBRATED,
    when={"block": ALONE, "time.tensor_overlap": True},
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
    """Tokens go to their experts, and to all devices that share one, and come back."""
    return 2 * (experts_exchange + experts_gather)


GATHERED: dict[str, Any] = {
    "identifier": "time.exchange.again",
    "symbol": r"t_{\mathrm{ag}}",
    "unit": "s",
    "title": "gathering the inputs of a block again for its backward pass",
    "source": "Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2",
    "exact": False,
    "per": ("block",),
}


@quantity(**GATHERED, when={"time.inputs_again": False})
def gathered():
    """They are kept whole, or come in pieces beside a product (parallelism.tensor_overlap)."""
    return 0


@quantity(**GATHERED, when={"time.inputs_again": True, "parallelism.sequence": False})
def gathered_nothing():
    """Without sequence parallelism every rank has them whole."""
    return 0


@quantity(**GATHERED, when={"time.inputs_again": True, "parallelism.sequence": True})
def gathered_again():
    """Under sequence parallelism each rank keeps its part: an all-gather, half of an exchange, runs
    beside the product of the input's gradient, which hides a share of it."""
    return exchanges * tensor / 2 * (1 - hidden_t)


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
    """The gradients of products, attention and elementwise kernels, which move more than forward;
    as many exchanges, and inputs gathered again. Casts of both passes are here."""
    return (
        Total(product_backward + casts, "product")
        + Total(core_backward + context_backward, "block", block="attention")
        + Total(elementwise * q_back, "block")
        + Total(exchange + gathered, "block")
    )
