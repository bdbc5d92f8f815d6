"""Predicted time of one layer (or of embedding or head) for one micro-batch on one device."""

from functools import partial

from planner.book.formulas import time_core as core
from planner.book.formulas import time_product as product
from planner.book.formulas.compute import NOTHING, OTHERS
from planner.book.formulas.layout import IN_TURN, routed, sequence_ranks, tokens, vocabulary
from planner.book.formulas.network import experts as experts_exchange
from planner.book.formulas.network import experts_gather, tensor
from planner.book.notation import *
from planner.book.quantity import Quantity
from planner.book.reductions import Sum

CALIBRATED = "calibrated on published runs (presets/efficiency)"

of_block = partial(Quantity, unit="s", exact=False, per="block")
of_part = partial(Quantity, unit="s", exact=False, per="part")

# -- elementwise kernels -----------------------------------------------------------------------

traffic = Quantity(
    "time.elementwise.bytes",
    r"D_{\mathrm{ew}}",
    "memory traffic of fused elementwise kernels, forward",
    unit="bytes",
    source="values read and written, in the format of activations",
    exact=False,
    per="block",
    coefficient="bytes",
)
traffic.where(block="norm").equals(
    2 * k_a * tokens * h / sequence_ranks, "Reads and writes its values."
)

_residual = (3 * k_a + p_drop) * tokens * h / sequence_ranks

traffic.where(block="attention").equals(
    _residual + 24 * p_rope * tokens * (a + a_kv) * d_h / t,
    "The residual sum reads two values and writes one, dropout a mask; rotary positions read, turn "
    "and write queries and keys in 4 bytes, the two halves of each apart (24).",
)
traffic.where(block="mlp", gated=False).equals(
    _residual + 2 * k_a * tokens * f / t,
    "The residual sum; the activation reads and writes f values.",
)
traffic.where(block="mlp", gated=True).equals(
    _residual + 3 * k_a * tokens * f / t,
    "The residual sum; the gated activation reads 2 f values and writes f.",
)
traffic.where(block="moe").equals(
    _residual + k_a * (routed * (3 * f_e / t_e + 4 * h) + 3 * tokens * f_s / t),
    "The residual sum; activations of routed rows and of shared experts, as if gated; tokens are "
    "permuted there and back (4 accesses).",
)
traffic.where(block=OTHERS).equals(
    _residual + n_mix * k_a * 2 * tokens * h / t,
    "The residual sum, and what convolution, scan and gate read and write over about twice the "
    "hidden size; no published run calibrates it.",
)
traffic.where(block=NOTHING).equals(0, "Too little to count.")
traffic.where(block="projection").equals(
    4 * k_a * tokens * h / sequence_ranks,
    "Hidden state and embedding are read and written side by side.",
)
traffic.where(block="embedding").equals(
    n_emb * k_a * tokens * h, "Looks rows up and adds positions, with the backward pass in view."
)
traffic.where(block="head", training_loss=("fused", "chunked")).equals(
    4 * k_a * tokens * vocabulary / t,
    "One kernel reads the logits and writes their gradient, two passes with the maximum and the "
    "sum.",
)
traffic.where(block="head", training_loss=("full", "vocab-parallel")).equals(
    (k_a + 12) * tokens * vocabulary / t,
    "Logits are read and written 4 bytes wide; maximum and sum of exponentials each pass over them "
    "(12 bytes).",
)

elementwise = of_block(
    "time.elementwise",
    r"t_{\mathrm{ew}}",
    "elementwise kernels of a block, forward",
    attribution="elementwise kernels",
    source=CALIBRATED,
).equals(
    k_ew * traffic / (W * e_mem),
    "Traffic over the bandwidth that kernels sustain, times what unfused kernels move.",
)

# -- exchanges ---------------------------------------------------------------------------------

QUIET = ("norm", "embedding", "head", *NOTHING)

exchanges = Quantity(
    "time.exchanges",
    r"n_{\mathrm{ex}}",
    "tensor-parallel exchanges of a block in one pass",
    unit="1",
    source="Shoeybi et al. 2019 (arXiv 1909.08053), section 3",
    per="block",
)
exchanges.where(block=("attention", "mlp", "projection", *OTHERS)).equals(
    1, "One in each direction: a column-parallel product followed by a row-parallel one."
)
exchanges.where(block=(*QUIET, "moe")).equals(0, "None.")

ALONE = ("attention", "mlp", "projection", *QUIET, *OTHERS)

exchange = of_block(
    "time.exchange", r"t_{\mathrm{ex}}", "exchanges of a block with other devices in one pass"
)
exchange.where(block=ALONE, tensor_overlap=False, source=CALIBRATED).equals(
    exchanges * tensor, "The products wait for the exchange."
)
exchange.where(block=ALONE, tensor_overlap=True, source=CALIBRATED).equals(
    exchanges * tensor * (1 - hidden_t),
    "A part runs beside the products (parallelism.tensor_overlap).",
)
exchange.where(
    block="moe", schedule="dualpipe", source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1"
).equals(
    0,
    "DualPipe pairs a forward with a backward pass, so that the exchanges of one run "
    "beside the products of the other; they are taken as hidden, as the report says.",
)
exchange.where(
    block="moe", schedule=IN_TURN, source="Lepikhin et al. 2020 (arXiv 2006.16668)"
).equals(
    2 * (experts_exchange + experts_gather),
    "Tokens go to their experts, and to all devices that share one, and come back.",
)

gathered = of_block(
    "time.exchange.again",
    r"t_{\mathrm{ag}}",
    "gathering the inputs of a block again for its backward pass",
    source="Korthikanti et al. 2022 (arXiv 2205.05198), section 4.2.2",
)
gathered.where(inputs_again=False).equals(
    0, "They are kept whole, or come in pieces beside a product (parallelism.tensor_overlap)."
)
gathered.where(inputs_again=True, sequence=False).equals(
    0, "Without sequence parallelism every rank has them whole."
)
gathered.where(inputs_again=True, sequence=True).equals(
    exchanges * tensor / 2 * (1 - hidden_t),
    "Under sequence parallelism each rank keeps its part: an all-gather, half of an exchange, runs "
    "beside the product of the input's gradient, which hides a share of it.",
)

# -- a layer -----------------------------------------------------------------------------------

forward = of_part(
    "time.part.forward",
    r"t_F",
    "forward pass of a layer on the device",
    source="sum of its kernels",
).equals(
    Sum(product.forward, "product")
    + Sum(core.forward + core.context_forward, "block", block="attention")
    + Sum(elementwise, "block")
    + Sum(exchange, "block"),
    "Products, attention, elementwise kernels and exchanges, one after another.",
)

backward = of_part(
    "time.part.backward",
    r"t_B",
    "backward pass of a layer on the device",
    source="sum of its kernels",
).equals(
    Sum(product.backward + product.casts, "product")
    + Sum(core.backward + core.context_backward, "block", block="attention")
    + Sum(elementwise * q_back, "block")
    + Sum(exchange + gathered, "block"),
    "The gradients of products, attention and elementwise kernels, which move more than forward; "
    "as many exchanges, and inputs gathered again. Casts of both passes are here.",
)
