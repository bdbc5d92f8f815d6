"""Arithmetic intensity of the kernels of a layer: how much work each byte of memory traffic buys.

Counts of one device and one micro-batch, forward, from shapes alone; no efficiency enters.
"""

from planner.book.formulas.compute import FUSED_KERNELS, performed_keys
from planner.book.formulas.layout import tokens
from planner.book.formulas.time_peak import peak, peak_16
from planner.book.formulas.time_product import count, forward, rows
from planner.book.language import *

FLASH = f"{DAO}, section 3"

of_product = partial(Quantity, source=ROOFLINE, per="product", coefficient="FLOP")
of_core = partial(Quantity, unit="FLOP", source=FLASH, per="block", coefficient="FLOP")
intensity_of = partial(Quantity, unit="FLOP/bytes", source=ROOFLINE)

product_flops = of_product(
    "roofline.product.flops", "F_x", "FLOPs of a product on one device, forward", unit="FLOP"
).equals(
    2 * rows * N_x * K_x * count,
    "A multiplication and an addition for each of rows, columns and depth.",
)

product_bytes = Quantity(
    "roofline.product.bytes",
    "D_x",
    "least memory traffic of a product on one device, forward",
    unit="bytes",
    source=ROOFLINE,
    per="product",
).equals(
    k_c * (rows * K_x + K_x * N_x + rows * N_x) * count,
    "Both inputs are read and the output is written, each once, in the compute format.",
)

product_intensity = of_product(
    "roofline.product.intensity", "I_x", "FLOPs for each byte of a product", unit="FLOP/bytes"
).equals(
    product_flops / product_bytes,
    "Work over least traffic. Above the ridge of the device arithmetic decides the time, below it "
    "the memory.",
)

core_flops = of_core(
    "roofline.core.flops", "F_core", "FLOPs of an attention core on one device, forward"
)
core_flops.where(training_attention=FUSED_KERNELS).equals(
    2 * tokens * Sum(performed_keys * (n_in + n_out), "component", type="core") / t,
    "Queries with the keys that they meet, and scores with values.",
)
core_flops.where(training_attention="eager").equals(
    2 * tokens * s * a * (d_h + d_v) / t, "Queries with all keys, and scores with values."
)

core_intensity = of_core(
    "roofline.core.intensity",
    "I_core",
    "FLOPs for each byte of an attention core",
    unit="FLOP/bytes",
)
core_intensity.where(training_attention=FUSED_KERNELS).equals(
    core_flops * t / (k_a * tokens * (a + c * a_kv) * (d_h + d_v)),
    "Queries, keys and values are read and the output is written; scores never leave the chip, so "
    "it grows with the sequence.",
)

_with_scores = k_a * tokens * (a + c * a_kv) * (d_h + d_v) + 4 * k_a * b * a * s * s / c
core_intensity.where(training_attention="eager").equals(
    2 * tokens * s * a * (d_h + d_v) / _with_scores,
    "Besides queries, keys, values and output, scores are written, read and written by the "
    "softmax, and read again.",
)

ridge = intensity_of(
    "roofline.ridge",
    r"I^{*}",
    "FLOPs for each byte at which arithmetic and memory take the same time",
).equals(peak / W, "The dense peak of the training precision over the bandwidth of the memory.")

of_roof = partial(Quantity, unit="s", source=ROOFLINE, per="product")

at_peak = of_roof(
    "roofline.product.arithmetic", r"t_x^{R}", "arithmetic of a product at the peak, forward"
)
at_peak.where(wide=False).equals(product_flops / peak, "Every FLOP at the dense peak.")
at_peak.where(wide=True).equals(
    product_flops / peak_16, "Logits and router stay in 16 bit: at that peak."
)

at_bandwidth = of_roof(
    "roofline.product.traffic", r"t_x^{W}", "memory traffic of a product at the full bandwidth"
).equals(product_bytes / W, "Every byte at the bandwidth of the datasheet.")

under_roof = of_roof(
    "roofline.product.seconds", r"t_x^{*}", "least time of a product, forward"
).equals(maximum(at_peak, at_bandwidth), "Arithmetic and traffic overlap; the longer one decides.")

reached = estimate(
    "roofline.product.utilisation",
    "u_x",
    "share of the peak that a product is predicted to reach, forward",
    source=ROOFLINE,
    per="product",
    share=True,
).equals(at_peak / forward, "What its arithmetic takes at the peak, over what it takes.")

_flops = Sum(product_flops, "product") + Sum(core_flops, "block", block="attention")
_moved = Sum(product_bytes, "product") + Sum(
    core_flops / core_intensity, "block", block="attention"
)
intensity = intensity_of(
    "roofline.intensity",
    r"\bar I",
    "FLOPs for each byte of all products and attention cores, forward",
).equals(
    Sum(L_k * _flops, "part") / Sum(L_k * _moved, "part"),
    "Work over least traffic of all layers, embedding and head; a kernel moves its work over its "
    "intensity.",
)
