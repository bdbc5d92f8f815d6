"""Predicted time of an attention core: fused or not, and over context-parallel ranks."""

from planner.book.formulas.compute import FUSED_KERNELS, performed_keys
from planner.book.formulas.layout import sequence_ranks, tokens
from planner.book.formulas.network import ULYSSES, context, heads
from planner.book.formulas.time_peak import peak_16
from planner.book.formulas.time_product import SYSTOLIC, kernel, loaded, padded, shallow, waves
from planner.book.language import *

FLASH = f"{DAO}, section 3; Dao 2023 (arXiv 2307.08691)"
FLASH_3 = "Shah et al. 2024 (arXiv 2407.08608), section 4"
SCALED = "Vaswani et al. 2017 (arXiv 1706.03762), section 3.2.1"
KERNELS = (
    "what each kernel reads and writes; softmax and dropout run apart, as what they leave behind "
    "shows (Korthikanti et al. 2022, arXiv 2205.05198, section 4.1)"
)
RING = "Liu et al. 2023 (arXiv 2310.01889), section 3; Transformer Engine, context parallelism"
GATHER = "Grattafiori et al. 2024 (arXiv 2407.21783), section 3.3.2"

of_core = partial(seconds_of_block, attribution="attention")
of_scores = partial(seconds_of_block, source=KERNELS, coefficient="bytes")
of_context = partial(seconds_of_block, attribution="context-parallel exchange")
of_block = partial(estimate, per="block", source=FLASH)

ranks = Quantity(
    "time.core.ranks",
    r"t_{\mathrm{sc}}",
    "tensor-parallel ranks that share the scores of a component",
    source="layout",
    per="component",
)
ranks.where(split="column").equals(t, "Each has a part of the heads.")
ranks.where(split="none").equals(
    sequence_ranks, "Each scores keys for its part of the residual stream, with all heads."
)
#: For each token of the device, keys by the widths of queries and values.
_scored, _core = (
    Sum(performed_keys * (n_in + n_out) / ranks, "component", scored=True, **which)
    for which in ({}, {"frozen": False})
)

#: Heads below 128 fill the products of a fused kernel less well.
_filled = minimum(1, d_h / 128) ** x_head
faster = estimate(
    "time.core.faster", "q_core", "rate of fused attention, relative to 16 bit", source=FLASH
)
faster.where(attention_precision="16-bit").equals(1, "It multiplies in 16 bit.")
faster.by(FLASH_3, attention_precision="fp8").equals(q_8, "It multiplies in 8 bit.")

rate = of_block("time.core.rate", "R_att", "rate of fused attention", unit="FLOP/s")
rate.by(CALIBRATED, time_attention="vendor").equals(
    faster * e_att * peak_16 * _filled,
    "A share of the 16-bit peak; heads below 128 fill the products less well.",
)
rate.by(CALIBRATED, time_attention="open", coefficient="FLOP").equals(
    faster * e_att * minimum(2048 * n_sm * f_clk, peak_16) * _filled,
    "Open kernels issue instructions of the Ampere generation: 2048 FLOP for each multiprocessor "
    "and clock (312 TFLOP/s on an A100), where these do as many (those of an L40S do half); heads "
    "below 128 fill the products less well.",
)
rate.by("no published calibration", time_attention="unknown", systolic=False).equals(
    faster * e_att * peak_16 * _filled,
    "Without multiprocessors and clock, and on accelerators of other vendors, the share of open "
    "kernels is taken of the 16-bit peak.",
)
rate.by(SYSTOLIC, time_attention="unknown", systolic=True).equals(
    faster * e_att * peak_16 * (d_h + d_v) / (padded(d_h) + padded(d_v)),
    "A share of the 16-bit peak; heads that are narrower than the arrays leave the rest of them "
    "idle, in the product that sums over their width as in the one that gives it.",
)

forward = of_core(
    "time.core.forward", "t_core", "forward pass of an attention core", coefficient="FLOP"
)
forward.by(FLASH, training_attention=FUSED_KERNELS).equals(
    2 * tokens * _scored / rate,
    "2 FLOP for each query, key and width of query and value, heads divided over the "
    "tensor-parallel ranks; an indexer scores its keys beside it.",
)

backward = of_core(
    "time.core.backward", "t_core'", "backward pass of an attention core", coefficient="FLOP"
)
backward.by(FLASH, training_attention=FUSED_KERNELS).equals(
    2 * tokens * _core / rate * make_fraction(5, 2) / e_back,
    "Five products instead of two, at a share of the forward rate; none for an indexer.",
)

half = estimate(
    "time.core.half",
    "d_core",
    "depth at which the products of an unfused core run at half of their rate",
)
half.by(CALIBRATED, tiles=True, coefficient="s/FLOP").equals(
    shallow(e_16 * peak_16), "As for other products (time.product.half), at the 16-bit rate."
)
half.by("no multiprocessors are known", tiles=False).equals(
    d_min, "As if each multiprocessor did 1 TFLOP/s."
)


def _product(m: Any, n: Any, k: Any, tiled: bool, systolic: bool) -> Expression:
    """Return the time of one batched matmul of an unfused core, at the 16-bit rate; with tile and
    wave waste if the tiling of the device is known."""
    as_run = padded if systolic else loaded
    heads, widths = b * a / t, (m, as_run(n), as_run(k))
    waste = waves(widths, heads, half) if tiled else 1
    return kernel(widths, (m, n, k), heads, waste, e_16 * peak_16, half)


scores = of_scores(
    "time.core.scores", "t_sc", "softmax and dropout of unfused scores, forward"
).equals(
    b * a * s * s / (c * t) * (2 * k_a + (2 * k_a + 1) * p_drop) / (W * e_mem),
    "Softmax and dropout each read and write every score, dropout a mask of a byte too.",
)

scores_backward = of_scores(
    "time.core.scores_backward", "t_sc'", "softmax and dropout of unfused scores, backward"
).equals(
    b * a * s * s / (c * t) * (3 * k_a + (2 * k_a + 1) * p_drop) / (W * e_mem),
    "Softmax reads its output and its gradient and writes another; dropout reads and writes a "
    "gradient and reads its mask of a byte.",
)


for _cut in (True, False), (False, False), (False, True):
    _as: dict[str, Any] = {"training_attention": "eager", "tiles": _cut[0]}
    _as |= {} if _cut[0] else {"systolic": _cut[1]}
    _alike = "The same on systolic arrays, whose widths are padded." if _cut[1] else (
        "The same where it is not known how the device cuts products: nothing is wasted."
    )  # fmt: skip
    forward.by(SCALED, **_as).equals(
        _product(s / c, s, d_h, *_cut) + _product(s / c, d_v, s, *_cut) + scores,
        "Queries with keys and scores with values, in full, and the kernels on the scores."
        if _cut[0]
        else _alike,
    )
    backward.by(SCALED, **_as, coefficient="FLOP").equals(
        _product(s / c, d_h, s, *_cut)
        + _product(s, d_h, s / c, *_cut)
        + _product(s / c, s, d_v, *_cut)
        + _product(s, d_v, s / c, *_cut)
        + scores_backward,
        "Four products of the transposed shapes, and the kernels on the scores."
        if _cut[0]
        else _alike,
    )


context_forward = of_context(
    "time.core.context", "t_cp", "keys and values of other context-parallel ranks, forward"
)
context_forward.by(RING, context="none").equals(0, "The device holds whole sequences.")

context_backward = of_context(
    "time.core.context_backward",
    "t_cp'",
    "keys and values of other context-parallel ranks, backward",
)
context_backward.by(RING, context="none").equals(0, "The device holds whole sequences.")

_outputs_summed = (k_a + 8) * c * tokens * a * d_v / (t * W * e_mem)
context_forward.by(RING, context=DIVIDED, context_exchange="ring", coefficient="bytes").equals(
    (c - 1) * maximum(0, context - forward / c) + _outputs_summed,
    "Keys and values travel round the ring while the block before is worked on: what takes longer "
    "than a block shows. Each rank holds a piece from either end of the sequence, so that all "
    "blocks of a causal sequence are alike. Outputs of the c blocks are read and summed in fp32 "
    "(8).",
)

_gradients_summed = 3 * k_a * c * tokens * (a * d_h + a_kv * (d_h + d_v)) / (t * W * e_mem)
context_backward.by(RING, context=DIVIDED, context_exchange="ring", coefficient="bytes").equals(
    (c - 1) * maximum(0, 2 * context - backward / c) + context + _gradients_summed,
    "Keys and values travel again, and their gradients with them, which go one hop further, home. "
    "Gradients of each block are added up: two values read and one written.",
)

context_forward.by(GATHER, context=DIVIDED, context_exchange="gather").equals(
    (c - 1) * context,
    "Keys and values of all ranks are gathered before attention starts, beside no work.",
)

context_backward.by(GATHER, context=DIVIDED, context_exchange="gather").equals(
    2 * (c - 1) * context, "They are gathered again, and their gradients reduced and scattered."
)

for _pass in (context_forward, context_backward):
    _pass.by(ULYSSES, context=DIVIDED, context_exchange="ulysses").equals(
        heads, "Queries, keys, values and outputs, or their gradients, beside no work."
    )
