"""Predicted time of matrix products: a roofline with whole tiles, whole waves and small widths."""

from planner.book.formulas.layout import routed, sequence_ranks, tokens
from planner.book.formulas.memory_states import QLORA, frozen_bytes
from planner.book.formulas.time_peak import peak, peak_16
from planner.book.language import *

GUIDE = "NVIDIA, Matrix multiplication background user's guide"
TILES = f"{GUIDE} (tile and wave quantization)"
WIDTHS = f"{GUIDE} (tensor-core requirements); bounded by the cost of padding"
SYSTOLIC = "Austin et al. 2025, How to Scale Your Model, TPUs (matrix units)"
GROUPS = "MaxText, kernels/megablox (make_group_metadata); tokamax, ragged_dot (tuned tiles)"

of_product = partial(estimate, per="product")
width = partial(of_product, source=WIDTHS)
product_time = partial(of_product, unit="s")
roofline = partial(product_time, source=ROOFLINE, coefficient="FLOP")


#: Rows, columns and depth of a product.
Shape = tuple[Operand, Operand, Operand]
Factor = Operand | int


def loaded(width: Operand) -> Expression:
    """Pad a width as kernels do: loads of 128 and of 16 bytes are whole for multiples of 64 and of
    8 (elements of 2 bytes). The slowdown of other widths is bounded by the cost of padding them, so
    that a wider matmul never takes less time."""
    padded_8, padded_64 = 8 * ceil(width / 8), 64 * ceil(width / 64)
    return minimum(k_64 * k_8 * width, k_64 * padded_8, padded_64)


def padded(width: Operand) -> Expression:
    """Round a width up to whole systolic tiles."""
    return n_mxu * ceil(width / n_mxu)


def waves(shape: Shape, count: Factor, half: Operand) -> Expression:
    """Return the work of whole tiles in whole waves over the multiprocessors, relative to that of
    the matmul: tiles of 128 x 256 either way, or of 128 x 128, which load more for each product and
    may split the depth into 2 or 4 pieces, with the penalty of a small depth for each."""
    rows, columns, depth = shape

    def cut(high: int, wide: int, pieces: int = 1) -> Expression:
        """Return the work of full waves over that of the product, with tiles of so many rows and
        columns; each tile is cut into pieces along its depth."""
        tiles = ceil(rows / high) * ceil(columns / wide) * count * pieces
        return ceil(tiles / n_sm) * n_sm * high * wide / (rows * columns * count * pieces)

    def split(pieces: int) -> Expression:
        """Return the same of tiles of 128 x 128 whose depth is split, so that more of them run at
        once."""
        return k_128 * cut(128, 128, pieces) * (depth + pieces * half) / (depth + half)

    return minimum(cut(128, 256), cut(256, 128), k_128 * cut(128, 128), split(2), split(4))


def kernel(
    run: Shape,
    plain: Shape,
    count: Factor,
    waste: Factor,
    rate: Operand,
    half: Operand,
    element: Operand = k_x,
) -> Expression:
    """Return the time of a kernel: arithmetic over the padded shape, at the matmul efficiency and
    with the penalty of a small depth; or reading both inputs and writing the output, if longer."""
    rows, columns, depth = run
    high, wide, deep = plain
    arithmetic = 2 * rows * columns * count * (depth + half) * waste / rate
    moved = element * (high * deep + deep * wide + high * wide) * count
    return maximum(arithmetic, moved / (W * e_mem))


def shallow(rate: Operand) -> Expression:
    """Return the penalty of a small depth, as rows of depth: between two waves of tiles a
    multiprocessor loads and stores, in a time in which a faster one computes more rows."""
    return d_min * rate / (10**12 * n_sm)


#: How products are divided that are no experts'.
APART = ("column", "row", "vocabulary", "none")

# -- shapes ------------------------------------------------------------------------------------

rows = Quantity(
    "time.product.rows", r"M_x", "rows of a product on one device", source="layout", per="product"
)
rows.where(split=("column", "row", "vocabulary")).equals(
    tokens, "All tokens of the micro-batch on this device."
)
rows.where(split="none").equals(
    tokens / sequence_ranks,
    "A product that is not divided runs on this device's part of the residual stream.",
)
rows.where(split="experts").equals(
    routed * e / E,
    "With even routing, each of the device's E/e experts gets its share of the routed rows.",
)

count = Quantity(
    "time.product.count", r"n_x", "such products, run as one kernel", source="layout", per="product"
)
count.where(split=APART).equals(applied, "As many as a token uses.")
count.where(split="experts").equals(E / e, "One for each expert on the device (a grouped product).")

_LOADED = (
    "A multiple of 64 as it is; another for what odd widths cost, or as if it were padded to a "
    "multiple of 8 or 64, whichever costs least."
)
columns = width("time.product.columns", r"\hat N_x", "columns of a product as kernels run them")
depth = width("time.product.depth", r"\hat K_x", "depth of a product as kernels run it")
rows_summed = width(
    "time.product.rows_summed",
    r"\hat M_x",
    "rows of a product as kernels run them where they are summed over",
)
for _width, _plain in ((columns, N_x), (depth, K_x)):
    _width.where(systolic=False).equals(loaded(_plain), _LOADED)
    _width.by(SYSTOLIC, systolic=True).equals(padded(_plain), "As if it filled arrays.")
#: Rows of an expert's share of the tiles in which one expert ends and the next begins.
_shared_tiles = 128 * n_prog * (count - 1) / count
_SUMMED = "As a depth: the weight's gradient sums over the rows"
rows_summed.where(systolic=False).equals(loaded(rows), f"{_SUMMED}.")
rows_summed.by(SYSTOLIC, systolic=True, split=APART).equals(padded(rows), f"{_SUMMED}.")
rows_summed.by(GROUPS, systolic=True, split="experts").equals(
    padded(rows) + _shared_tiles,
    f"{_SUMMED}; a tile of 128 in which an expert ends and the next begins is summed for both.",
)

rate = of_product(
    "time.product.rate",
    r"R_x",
    "rate that a large product sustains",
    unit="FLOP/s",
    source=CALIBRATED,
)
_NARROW_RATE = "A share of the dense peak of the training precision: clocks fall under load."
_WIDE_RATE = "Logits and router stay in 16 bit: a share of that peak."
rate.where(wide=False, split=APART).equals(e_mm * peak, _NARROW_RATE)
rate.where(wide=True, split=APART).equals(e_16 * peak_16, _WIDE_RATE)
_GROUPED_RATE = "Efficiency of grouped matmuls relative to that of other large matmuls"
rate.where(wide=False, split="experts").equals(q_grp * e_mm * peak, f"{_GROUPED_RATE}.")
rate.where(wide=True, split="experts").equals(
    q_grp * e_16 * peak_16, f"{_GROUPED_RATE}, in 16 bit."
)

half = of_product("time.product.half", r"d_x", "depth at which a product runs at half of its rate")
half.by(CALIBRATED, tiles=True, coefficient="s/FLOP").equals(
    shallow(rate),
    "Between two waves of tiles a multiprocessor loads and stores for a while; the faster it is, "
    "the more of the depth it would have worked off meanwhile. For each TFLOP/s of its rate.",
)
half.by("no multiprocessors are known", tiles=False).equals(
    d_min, "As if each multiprocessor did 1 TFLOP/s."
)

# -- waste -------------------------------------------------------------------------------------


def _waste(name: str, symbol: str, title: str, shape: Shape) -> Quantity:
    """Declare the tile and wave waste of one of the three matmuls of a weight."""
    waste = of_product(f"time.product.{name}_waste", symbol, title, source=TILES)
    waste.where(tiles=True).equals(
        waves(shape, count, half),
        "Whole tiles of 128 x 256, 256 x 128 or 128 x 128 (which load more for each product), in "
        "whole waves over the multiprocessors, over what the product needs: the best of the three. "
        "The smallest may be cut in 2 or 4 pieces of the depth, each of which is the shallower.",
    )
    waste.where(tiles=False, systolic=False).equals(
        1, "How the device cuts products is not known: nothing is wasted."
    )
    return waste.where(tiles=False, systolic=True, split=APART).equals(
        1, "Rows stream through the arrays; their widths are padded already."
    )


FORWARD = (rows, columns, depth)
INPUT = (rows, depth, columns)
WEIGHT = (depth, columns, rows_summed)
waste_forward = _waste("forward", "q_x", "tiles and waves, forward", FORWARD)
waste_input = _waste("input", "q_x'", "tiles and waves, gradient of the input", INPUT)
waste_weight = _waste("weight", "q_x''", "tiles and waves, gradient of the weight", WEIGHT)
_GROUPED = {"tiles": False, "systolic": True, "split": "experts"}
for _streamed in (waste_forward, waste_input):
    _streamed.by(GROUPS, **_GROUPED).equals(
        1 + _shared_tiles / rows,
        "Rows of all experts follow one another in tiles of 128; one in which an expert ends and "
        "the next begins is worked off for both.",
    )
waste_weight.where(**_GROUPED).equals(1, "The rows that are summed over have the shared tiles.")

# -- time --------------------------------------------------------------------------------------

forward = roofline(
    "time.product.forward", r"t_x", "forward pass of a product", attribution="matrix products"
).equals(
    kernel(FORWARD, (rows, N_x, K_x), count, waste_forward, rate, half),
    "2 FLOP for each of rows, columns and depth as kernels run them, the depth with what shallow "
    "products lack, times what tiles and waves waste; or the traffic of inputs and output.",
)

gradient_of_input = roofline(
    "time.product.input", "t_x^in", "gradient of a product's input", attribution="matrix products"
).equals(
    kernel(INPUT, (rows, K_x, N_x), count, waste_input, rate, half),
    "The output's gradient with the weight: the forward product, with columns and depth exchanged.",
)

gradient_of_weight = roofline(
    "time.product.weight", r"t_x^{\mathrm{w}}", "gradient of a product's weight"
).equals(
    kernel(WEIGHT, (K_x, N_x, rows), count, waste_weight, rate, half),
    "The input with the output's gradient: the rows are what is summed over.",
)

bias = product_time("time.product.bias", r"t_x^{\mathrm{b}}", "gradient of a product's bias")
bias.by("definition", bias=False).equals(0, "There is no bias.")
bias.by("TransformerEngine", bias=True, time_bias="fused").equals(
    0, "The kernel before or after sums it up on its way."
)
bias.by(
    "PyTorch, tools/autograd/derivatives.yaml (addmm); Megatron-LM, core/tensor_parallel/layers.py",
    bias=True,
    time_bias="separate",
    coefficient="bytes",
).equals(
    k_a * rows * count * N_x / (W * e_mem),
    "A kernel reads the output's gradient and sums it over the rows.",
)

backward = product_time(
    "time.product.backward", r"t_x'", "backward pass of a product", attribution="matrix products"
)
backward.by(ROOFLINE, frozen=False, lora=False).equals(
    gradient_of_input + gradient_of_weight + bias,
    "Two products: the gradient of the input and that of the weight; and that of the bias.",
)
backward.by(LORA, frozen=False, lora=True).equals(
    gradient_of_input, "The weight is frozen: the gradient of the input only."
)
backward.by("DeepSeek-AI 2025 (arXiv 2512.02556)", frozen=True).equals(
    0, "The loss sends it no gradient."
)

# -- adapters -----------------------------------------------------------------------------------

ADAPTER = "Megatron-Bridge, peft/utils.py (ParallelLinearAdapter) and peft/lora_layers.py"
FUSED_ADAPTER = (
    "Transformer Engine, pytorch/ops/fused: forward_linear_scale_add, backward_linear_add"
)
_SEPARATE = {"adapted": True, "lora_kernels": "separate"}
_FUSED = {"adapted": True, "lora_kernels": "fused"}

adapter_casts = of_product(
    "time.product.adapter_casts",
    r"n_{\mathrm{pa}}",
    "casts of an adapter's input to the format of its matrices and back, forward",
)
adapter_bytes = of_product(
    "time.product.adapter_bytes",
    r"k_{\mathrm{pa}}",
    "bytes of a value that an adapter's dropout has",
    unit="bytes",
    coefficient="bytes",
)
for _forms, _peft, _turns, _wide, _why in (
    (("plain", "cloned"), "training.bytes", 0, k_a, "It needs none."),
    ("cast", "layer.py (Linear.forward)", 2, k_w, "To the adapter's format, back for its product."),
    ("apart", "layer.py (Linear.forward)", 1, k_w, "To its format, also that of its products."),
    ("prepared", "bnb.py (Linear4bit.forward)", 1, 4, "From fp32, for its product."),
):
    _source = _peft if _turns == 0 else f"PEFT 0.21.2, tuners/lora/{_peft}"
    adapter_casts.by(_source, time_adapters=_forms).equals(_turns, _why)
    adapter_bytes.by(_source, time_adapters=_forms).equals(_wide, "It drops what enters it.")
#: Dropout reads a value and writes one and a mask of 1 byte, or backward reads both and writes one;
#: gradients are cast as their values were.
_on_input = (p_lora * (2 * adapter_bytes + 1) + adapter_casts * (k_a + adapter_bytes)) * K_x * n_ad

of_adapter = partial(product_time, attribution="adapters", coefficient="bytes")

narrow = product_time(
    "time.product.narrow", r"t_{\mathrm{AB}}", "the two products of a product's adapter, forward"
)
narrow.by(ROOFLINE, adapted=True, coefficient="FLOP").equals(
    n_ad * kernel((rows, k_l, K_x), (rows, k_l, K_x), 1, 1, rate, half, k_a)
    + kernel((rows, N_ad, k_l), (rows, N_ad, k_l), 1, 1, rate, half, k_a),
    "Of each adapter from inputs to rank, and from rank to outputs, on values of the activations' "
    "width whatever the format of the frozen product: far below the rate of wide products, or "
    "memory traffic.",
)

DORA = "PEFT 0.21.2, tuners/lora/dora.py (DoraLinearLayer) and variants.py (DoraLinearVariant)"
norms = product_time(
    "time.product.norms", r"t_{\mathrm{dora}}", "norms of the weights that an adapter changes"
)
norms.by(DORA, adapted=True, coefficient="FLOP").equals(
    p_dora
    * (
        n_ad * kernel((K_x, k_l, K_x), (K_x, k_l, K_x), 1, 1, rate, half, k_a)
        + kernel((K_x, N_ad, k_l), (K_x, N_ad, k_l), 1, 1, rate, half, k_a)
        + K_x * (n_ad * K_x * (2 * k_w + k_a) + N_ad * (k_a + frozen_bytes + 8 * k_w)) / (W * e_mem)
    ),
    "An identity as wide as the input passes both matrices, which makes their product; it is cast "
    "to the adapter's format, as the frozen weight is (2 accesses of each), scaled (2), added (3) "
    "and read.",
)

adapter = of_adapter("time.product.adapter", r"t_a", "forward pass of a product's adapter")
adapter.by(FUSED_ADAPTER, **_FUSED).equals(
    narrow + rows * (k_a * N_ad + _on_input) / (W * e_mem),
    "Two narrow products, of which the second scales and adds to what the frozen weight gave, "
    "which it reads; the input goes through the adapter's dropout.",
)

adapter_backward = of_adapter(
    "time.product.adapter_backward", r"t_a'", "backward pass of a product's adapter"
)
adapter_backward.by(FUSED_ADAPTER, **_FUSED).equals(
    2 * narrow + rows * (k_a * K_x * n_ad + _on_input) / (W * e_mem),
    "Each narrow product twice, scaling on its way and adding to the frozen weight's gradient of "
    "the input, which one of them reads; dropout comes between.",
)

adapter_launches = of_product(
    "time.product.adapter_launches",
    r"n_a",
    "kernels that the host launches for a product's adapter, forward and backward",
)
for _none in (narrow, norms, adapter, adapter_backward, adapter_launches):
    _none.by(LORA, adapted=False).equals(0, "No adapter stands beside this product.")
#: How PEFT runs it; copies of the frozen product; bytes of the sum, and of its gradient's way back.
for _form, _copies, _added, _back in (
    (("plain", "cast"), 0, 3 * k_a, 2 * k_a),
    ("cloned", 1, 5 * k_a, 2 * k_a),
    ("apart", 0, 5 * k_w, 3 * k_w + k_a),
    ("prepared", 1, k_a + 16, 3 * k_a + 4),
):
    adapter.by(ADAPTER, time_adapters=_form, **_SEPARATE).equals(
        narrow
        + rows * ((2 * k_a + _added) * N_ad + _on_input) / (W * e_mem)
        + norms
        + p_dora * (p_lora * forward * N_ad / N_x + 7 * rows * k_w * N_ad / (W * e_mem)),
        "Two narrow products; their output is scaled (2 accesses) and added to that of the frozen "
        "weight (3), of which PEFT makes a copy first (2) where it has 4 bits: in 4 bytes in a "
        "prepared model or without autocast. The input goes through casts and dropout. DoRA "
        "multiplies both outputs by magnitudes over norms; where its input is dropped, the frozen "
        "product runs once more.",
    )
    adapter_backward.by(ADAPTER, time_adapters=_form, **_SEPARATE).equals(
        2 * narrow
        + rows * (_back * N_ad + 3 * k_a * K_x * n_ad + _on_input) / (W * e_mem)
        + p_dora
        * (
            p_lora * gradient_of_input * N_ad / N_x
            + rows * (12 * k_w + 3 * k_a) * N_ad / (W * e_mem)
        ),
        "Each narrow product twice, for its input and for its weight; the incoming gradient is "
        "cast to their format and scaled (2 accesses), that of the input passes dropout and is "
        "added to the frozen weight's (3). Of DoRA both outputs and the magnitudes get gradients, "
        "the frozen product's input once more where it is dropped.",
    )
    adapter_launches.by(ADAPTER, time_adapters=_form, **_SEPARATE).equals(
        n_ad * (10 + _copies + 2 * p_lora + 2 * adapter_casts + p_dora * (20 + 2 * p_lora)),
        "Forward two products, scaling and sum, and a copy where PEFT makes one; backward four "
        "products, scaling and the sum of two gradients; casts and dropout in each. DoRA adds "
        "eleven forward and nine backward, and two products where its input is dropped.",
    )
adapter_launches.by(FUSED_ADAPTER, **_FUSED).equals(
    n_ad * (6 + 2 * p_lora), "Two products forward and four backward; dropout in each."
)

cast_width = of_product(
    "time.product.cast_width",
    r"w_x",
    "values of a row that are cast for a product, of its input and of its output's gradient",
)
for _apart in ({"split": APART}, {"split": "experts", "expert_kernels": ("loop", "grouped")}):
    cast_width.by("definition", **_apart).equals(K_x + N_x, "All of both.")
cast_width.by(FUSED_EXPERTS, split="experts", expert_kernels="fused").equals(
    minimum(h, K_x + N_x),
    "What comes to the experts, tokens or gradients, is cast; what one product hands to the next "
    "is cast on its way.",
)

cast_launches = of_product(
    "time.product.cast_launches",
    r"n_{\mathrm{cast}}",
    "kernels that the host launches for a product's casts, in each of three passes",
)
casts = product_time(
    "time.product.casts",
    "t_cast",
    "casts of a product's inputs to its format, forward and backward",
    attribution="casts to the matmul format",
)
QUANTIZER = "TransformerEngine, csrc/quantizer.cpp: row-wise and column-wise copies of each input"
for _of, _source in ((casts, "TransformerEngine"), (cast_launches, "definition")):
    _of.by(_source, casts=False, quantised=False).equals(0, "Inputs are in its format already.")
    _of.by(_source, casts=True, wide=True, quantised=False).equals(0, "It stays in 16 bit.")
    _of.by(QLORA, quantised=True, hidden_matrix=False).equals(0, "Only hidden matrices are packed.")
_TWO = "The input forward and the gradient backward, each by two kernels: its scales, and the cast"
_NARROW: dict[str, Any] = {"casts": True, "wide": False, "quantised": False}
for _kernel in ({"split": APART}, {"split": "experts", "expert_kernels": "grouped"}):
    cast_launches.by(QUANTIZER, **_NARROW, **_kernel).equals(make_fraction(4, 3), f"{_TWO}.")
cast_launches.by(QUANTIZER, **_NARROW, split="experts", expert_kernels="loop").equals(
    make_fraction(4, 3) * E / e, f"{_TWO}, for each expert."
)
cast_launches.by(FUSED_EXPERTS, **_NARROW, split="experts", expert_kernels="fused").equals(
    make_fraction(2, 3), "What comes to the experts, by two kernels."
)

#: Values of a product's input forward and of its output's gradient backward, over the bandwidth.
_cast = rows * count * cast_width / (W * e_mem)
_CASTS = {"coefficient": "bytes", **_NARROW}
casts.by(QUANTIZER, **_CASTS, lora=False).equals(
    2 * (n_cast + k_x) * _cast,
    "Values of 2 bytes are read, and two copies written with the scales of their blocks, along the "
    "rows and along the columns: of the input forward, of the output's gradient backward.",
)
casts.by(f"{QUANTIZER}, the latter where a weight is trained", **_CASTS, lora=True).equals(
    (2 * n_cast + k_x) * _cast,
    "Values of 2 bytes are read, and one copy written: the one along the columns is for the "
    "gradient of the weight, which is frozen.",
)

#: Time for each byte of a packed weight, which is read, and written in the compute format.
_unpacked = count * K_x * N_x / (W * e_mem)
BITSANDBYTES = "bitsandbytes 0.43.3, autograd/_functions.py and nn/modules.py (Linear4bit)"
GPTQ = "AutoGPTQ 0.7.1, qlinear_cuda_old.py (forward)"
unpacked = product_time(
    "time.product.unpacked", r"t_{\mathrm{unp}}", "unpacking a frozen weight once"
)
_traffic = (frozen_bytes + k_c) * _unpacked
unpacked.by(QLORA, time_unpack="traffic").equals(
    _traffic, "It is read as it is stored, and written in the compute format."
)
unpacked.by(
    "bitsandbytes 0.39 to 0.47, csrc/kernels.cu (dDequantizeNF4); pull request 1747",
    time_unpack="branches",
).equals(
    maximum(_traffic, 23 * count * K_x * N_x / (64 * n_sm * f_clk)),
    "A value is found by 4 tests and 15 choices, as both sides of branches are run, shifted, "
    "scaled and converted (4): 64 of these a multiprocessor and clock.",
)
for _recompute, _times, _until in (
    (("none", "selective"), 1, "The frozen weight is unpacked for the forward product"),
    (("full",), 2, "The frozen weight is unpacked for the forward product, for that once more"),
):
    _when: dict[str, Any] = {"quantised": True, "hidden_matrix": True, "recompute": _recompute}
    _packed = {"lora_base": ("int8", "nf4", "nf4-double"), "coefficient": "bytes", **_when}
    for _prepared, _around in ((False, 0), (True, 8 * rows * count * (K_x + N_x) / (W * e_mem))):
        casts.by(BITSANDBYTES, lora_prepared=_prepared, **_packed).equals(
            (_times + 1) * (unpacked + _around),
            f"{_until}, and for the backward product. In a prepared model what enters and leaves "
            "a product is cast from fp32 and back (6), and 4 bytes where kernels around have it.",
        )
    casts.by(GPTQ, lora_base="int4", **_when).equals(
        _times * k_ew * (frozen_bytes + 14 + k_c) * _unpacked,
        f"{_until}, by five operations that move 14 bytes more; the backward product has it.",
    )
    for _source, _bases, _kernels, _why in (
        (BITSANDBYTES, ("int8", "nf4"), _times + 1, "One kernel unpacks a weight, at each reading"),
        (BITSANDBYTES, "nf4-double", 3 * _times + 3, "Scales, their mean, and the weight by them"),
        (GPTQ, "int4", 9 * _times, "Five operations unpack a weight, four its zeros: forward"),
    ):
        cast_launches.by(_source, lora_base=_bases, **_when).equals(
            make_fraction(_kernels, _times + 2) * count, f"{_why}, over the passes of a layer."
        )
