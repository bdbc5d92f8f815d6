"""Arithmetic intensity of the kernels of a layer: how much work each byte of memory traffic buys.

Counts of one device and one micro-batch, forward, from shapes alone; no efficiency enters.
"""

from typing import Any

from planner.book.formulas.layout import tokens
from planner.book.formulas.time_core import keys
from planner.book.formulas.time_peak import peak
from planner.book.formulas.time_product import count, rows
from planner.book.notation import K_x, L_k, N_x, W, a, a_kv, b, c, d_h, d_v, k_a, k_c, s, t
from planner.book.quantity import Quantity
from planner.book.reductions import Sum

WILLIAMS = "Williams et al. 2009, Roofline: an insightful visual performance model"
FLASH = "Dao et al. 2022 (arXiv 2205.14135), section 3"
FUSED = ("flash", "efficient")


@Quantity(
    "roofline.product.flops",
    symbol="F_x",
    unit="FLOP",
    title="FLOPs of a product on one device, forward",
    source=WILLIAMS,
    per="product",
    coefficient="FLOP",
)
def product_flops():
    """A multiplication and an addition for each of rows, columns and depth."""
    return 2 * rows * N_x * K_x * count


INTENSITY: dict[str, Any] = {"unit": "FLOP/bytes", "source": WILLIAMS}


@Quantity(
    "roofline.product.intensity",
    symbol="I_x",
    title="FLOPs for each byte of a product",
    per="product",
    coefficient="FLOP",
    **INTENSITY,
)
def product_intensity():
    """Both inputs are read and the output is written, each once, in the compute format. Above the
    ridge of the device arithmetic decides the time, below it the memory."""
    return 2 * rows * N_x * K_x / (k_c * (rows * K_x + K_x * N_x + rows * N_x))


core_flops = Quantity(
    "roofline.core.flops",
    symbol=r"F_{\mathrm{core}}",
    unit="FLOP",
    title="FLOPs of an attention core on one device, forward",
    source=FLASH,
    per="block",
    coefficient="FLOP",
)


@core_flops.where(training_attention=FUSED)
def _():
    """Queries with the keys that they meet, and scores with values."""
    return 2 * tokens * keys * a * (d_h + d_v) / t


core_flops.where(training_attention="eager").equals(
    2 * tokens * s * a * (d_h + d_v) / t, "Queries with all keys, and scores with values."
)

core_intensity = Quantity(
    "roofline.core.intensity",
    symbol=r"I_{\mathrm{core}}",
    unit="FLOP/bytes",
    title="FLOPs for each byte of an attention core",
    source=FLASH,
    per="block",
    coefficient="FLOP",
)


@core_intensity.where(training_attention=FUSED)
def _():
    """Queries, keys and values are read and the output is written; scores never leave the chip, so
    it grows with the sequence."""
    return 2 * keys * a / (k_a * (a + c * a_kv))


@core_intensity.where(training_attention="eager")
def _():
    """Besides queries, keys, values and output, scores are written, read and written by the
    softmax, and read again."""
    moved = k_a * tokens * (a + c * a_kv) * (d_h + d_v) + 4 * k_a * b * a * s * s / c
    return 2 * tokens * s * a * (d_h + d_v) / moved


@Quantity(
    "roofline.ridge",
    symbol=r"I^{*}",
    title="FLOPs for each byte at which arithmetic and memory take the same time",
    **INTENSITY,
)
def ridge():
    """The dense peak of the training precision over the bandwidth of the memory."""
    return peak / W


@Quantity(
    "roofline.intensity",
    symbol=r"\bar I",
    title="FLOPs for each byte of all products and attention cores, forward",
    **INTENSITY,
)
def intensity():
    """Work over least traffic of all layers, embedding and head; a kernel moves its work over its
    intensity."""
    flops = Sum(product_flops, "product") + Sum(core_flops, "block", block="attention")
    moved = Sum(product_flops / product_intensity, "product") + Sum(
        core_flops / core_intensity, "block", block="attention"
    )
    return Sum(L_k * flops, "part") / Sum(L_k * moved, "part")
