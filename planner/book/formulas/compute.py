"""How many FLOPs: matmuls counted exactly, and the field's other conventions beside them."""

from planner.book.formulas.parameters import active
from planner.book.language import *

MATMUL = "one multiply-add is 2 FLOP (Goto & van de Geijn 2008; Narayanan et al. 2021, appendix)"
#: Blocks whose kernels are their own, and those that do next to nothing.
OTHERS = ("mamba", "delta_net", "short_conv", "recurrence", "rwkv", "lightning")
NOTHING = ("positions", "pooler", "classifier")
#: Blocks beside mixer and feed-forward, narrow or about the residual stream itself.
SIDES = ("per_layer_embedding", "altup", "hyper", "laurel")

flops = partial(Quantity, unit="FLOP")
of_component = partial(flops, per="component", coefficient="FLOP")

#: Tokens that meet those of their own stack, or of one of the same length.
IN_FULL = ("", "cross", "tower")

keys = Quantity(
    "compute.keys",
    r"s_k",
    "keys that a query meets, on average",
    source="training.attention_count",
    per="component",
)
keys.where(attention_count="full", side=IN_FULL).equals(
    s, "All of them: masked scores are computed and counted too."
)
for _count, _sees, _why in (
    (("causal", "window", "causal-window"), "all", "nothing is masked"),
    ("causal", "window", "windows are not discounted"),
    ("window", "past", "causality is not discounted"),
):
    keys.where(attention_count=_count, sees=_sees, side=IN_FULL).equals(s, f"All of them: {_why}.")
keys.where(attention_count=("causal", "causal-window"), sees="past", side=IN_FULL).equals(
    (s + 1) / 2, "Query i meets the i keys up to itself: 1 to s, on average half of s + 1."
)
keys.where(attention_count="causal", sees="past window", side=IN_FULL).equals(
    (s + 1) / 2, "Query i meets the i keys up to itself; the window is not discounted."
)
_reach = minimum(s, w)
for _counts, _sees in ((("window", "causal-window"), "window"), ("window", "past window")):
    keys.where(attention_count=_counts, sees=_sees, side=IN_FULL).equals(
        _reach, "As many keys as the window holds, or the sequence where it is shorter."
    )
keys.where(attention_count="causal-window", sees="past window", side=IN_FULL).equals(
    _reach - _reach * (_reach - 1) / (2 * s),
    "A full window for every query, less what the first queries lack: the i-th meets i keys.",
)
keys.where(attention_count=("full", "window"), side="decoder").equals(
    s_dec, "All of the decoder's own."
)
keys.where(attention_count=("causal", "causal-window"), side="decoder").equals(
    (s_dec + 1) / 2, "Query i of the decoder meets the i keys up to itself."
)

CHUNKED = "the chunked form in plain PyTorch of transformers: "
ENDS = CHUNKED + "the first state is zero, the last is not used"

component = of_component("compute.component", r"C_c", "forward FLOPs of one component, per token")
component.by(MATMUL, type="linear", side="").equals(
    2 * applied * n_in * n_out,
    "Each weight is multiplied and added once: 2 FLOP for each weight that a token uses.",
)
component.by(MATMUL, type="linear", side="first").equals(
    2 * applied * n_in * n_out / s, "2 FLOP for each weight, on one of the s tokens of a sequence."
)
component.by(MATMUL, type="linear", side="decoder").equals(
    2 * applied * n_in * n_out * s_dec / s,
    "2 FLOP for each weight that a token of the decoder uses, of which there are s_dec for s.",
)
component.by(
    "Narayanan et al. 2021, appendix; Korthikanti et al. 2022, section 5",
    type=("core", "index"),
    side="",
).equals(
    2 * keys * (n_in + n_out),
    "A query meets its keys over n_in, and the scores weigh values over n_out.",
)
component.by(
    "Raffel et al. 2019 (arXiv 1910.10683), section 2.1", type="core", side=("decoder", "cross")
).equals(
    2 * keys * (n_in + n_out) * s_dec / s,
    "As for any core, for the s_dec queries of the decoder instead of s.",
)
component.by(MATMUL, type="linear", side="tower").equals(
    2 * applied * n_in * n_out * x_tok,
    "2 FLOP for each weight that a token of the tower uses, of which there are so many for each "
    "token of the model.",
)
component.by(
    "Narayanan et al. 2021, appendix; Dosovitskiy et al. 2020 (arXiv 2010.11929)",
    type="core",
    side="tower",
).equals(
    2 * keys * (n_in + n_out) * x_tok,
    "As for any core, for the tokens of the tower, of which there are so many for each token of "
    "the model.",
)
component.by(f"{GU_DAO}, section 3.2", type="scan", scan="mamba1").equals(
    2 * n_in * n_out,
    "Each state of each channel is read once; how states come to be is not a matmul.",
)

component.by("Baykal et al. 2023 (arXiv 2301.13310)", type="scan", scan="mix").equals(
    2 * n_in * n_out, "Each part of the residual stream is a mix of all parts, token by token."
)

_chunks = ceil(s / c_m)
_within = a_m * c_m * n_out + c_m * n_in + 2 * n_in * n_out
component.by(
    "DeepSeek-V4 (transformers 5.23, modeling_deepseek_v4.py)",
    type="scan",
    scan=("compressed", "indexed"),
).equals(
    2 * floor(s / r_c) * (n_in + n_out),
    "A query meets the compressed keys of the sequence as it meets keys.",
)

component.by(
    "GLM-5.3 (transformers 5.23, modeling_glm5_next.py)", type="scan", scan="pooled"
).equals(
    2 * floor(s / p_i) * (n_in + n_out),
    "A query meets the pooled keys of the sequence, and the heads are weighed.",
)
component.by(CHUNKED + f"{DAO_GU}, section 6", type="scan", scan="mamba2").equals(
    (2 * _chunks * c_m * _within + 2 * (_chunks + 1) ** 2 * n_in * n_out) / s,
    "Within a chunk C with B over the state and the result with x; into and out of the states of "
    "chunks; and every chunk's state from all before it. n_in is the inner width, n_out the state.",
)

#: Tokens of a sequence in whole chunks.
_in_chunks = ceil(s / c_d) * c_d
_each = 2 * c_d * d_dk + c_d * d_dv + 3 * d_dk * d_dv
component.by(CHUNKED + f"{YANG}, section 3.3", type="scan", scan=("delta", "kda")).equals(
    2 * a_dv * _in_chunks * _each / s,
    "Within a chunk keys with keys, queries with keys, and scores with values; three products with "
    "the state for each chunk.",
)

_full = floor(s / c_l)
component.by(
    CHUNKED + "MiniMax-01 (arXiv 2501.08313), section 2.2", type="scan", scan="lightning"
).equals(
    4 * n_in * (_full * c_l**2 + (s - _full * c_l) ** 2 + s * d_l) / s,
    "Two products within a chunk, and two with the state; the last chunk may be shorter.",
)

backward_component = of_component(
    "compute.component_backward", r"C_c'", "backward FLOPs of one component, per token"
)
_TWICE = "One product for the gradient of each factor: twice the forward pass."
backward_component.by(MATMUL, type="core", frozen=False).equals(2 * component, _TWICE)
backward_component.by(MATMUL, type="linear", frozen=False, lora=False).equals(2 * component, _TWICE)
backward_component.by(LORA, type="linear", frozen=False, lora=True, adapted=False).equals(
    component, "The weight is frozen: one product, for the gradient of the input."
)
backward_component.by(
    LORA, type="linear", frozen=False, lora=True, adapted=True, side="tower"
).equals(
    component + 6 * applied * k_l * (n_in + n_out) * x_tok,
    "As for other projections, for the tokens of the tower.",
)
backward_component.by(
    LORA,
    type="linear",
    frozen=False,
    lora=True,
    adapted=True,
    side=("", "decoder", "cross", "first"),
).equals(
    component + 6 * applied * k_l * (n_in + n_out),
    "One product for the gradient of the frozen weight's input; and the adapter's two narrow "
    "products, forward once and backward twice: 2 FLOP for each of their weights and passes.",
)
backward_component.by(
    "DeepSeek-V3.2 (arXiv 2512.02556), section 2.1; a frozen tower",
    type=("linear", "core", "index"),
    frozen=True,
).equals(0, "The loss sends no gradient here.")
backward_component.by(MATMUL, type="scan", scan=("indexed", "pooled")).equals(
    0, "The loss sends no gradient to what an indexer scores."
)
backward_component.by(MATMUL, type="scan", scan=("mamba1", "mamba2", "mix", "compressed")).equals(
    2 * component, _TWICE
)
backward_component.by(ENDS, type="scan", scan="delta").equals(
    2 * component + 2 * a_dv * c_d * (_in_chunks * (d_dk + d_dv) - 4 * d_dk * d_dv) / s,
    "Twice the forward pass; the gradient of the two triangular solves besides, less the products "
    "with the first and the last state, which need no gradient.",
)
backward_component.by(ENDS, type="scan", scan="kda").equals(
    2 * component - 8 * a_dv * c_d * d_dk * d_dv / s,
    "Twice the forward pass, less the products with the first and the last state; the triangular "
    "systems are solved row by row, which multiplies no matrices.",
)

_first, _last = minimum(s, c_l), s - (ceil(s / c_l) - 1) * c_l
backward_component.by(ENDS, type="scan", scan="lightning").equals(
    2 * component - 2 * n_in * d_l * (_first + 2 * _last) / s,
    "Twice the forward pass, less the products with the first and the last state.",
)

layer = flops(
    "compute.layer", r"C_{\ell}", "forward FLOPs of one layer, per token", source=MATMUL, per="part"
).equals(
    Sum(component, "component", matmul=True),
    "The sum over the matmuls of the layer; norms, softmax and rotary are not counted.",
)

forward = flops(
    "compute.forward_flops_per_token", "C_fwd", "matmul FLOPs of one forward pass, per token"
)
forward.by(MATMUL, shape=True).equals(Sum(L_k * layer, "part"), "Each part as often as it occurs.")
forward.by(
    KAPLAN,
    shape=False,
    title="FLOPs of one forward pass, per token, without attention scores",
    exact=False,
    coefficient="FLOP",
).equals(2 * active, "Without a shape only the rule remains: 2 FLOP for each parameter.")

backward = flops(
    "compute.backward_flops_per_token", "C_bwd", "matmul FLOPs of one backward pass, per token"
)
backward.by(MATMUL, shape=True).equals(
    Sum(L_k * Sum(backward_component, "component", matmul=True), "part"),
    "Each part as often as it occurs; nothing recomputed.",
)
backward.by(KAPLAN, shape=False, exact=False).equals(
    2 * forward, "Backward multiplies twice, for the input's and for the weight's gradient."
)

per_token = flops(
    "compute.flops_per_token",
    "C_tok",
    "FLOPs of forward and backward, per token",
    source="Narayanan et al. 2021, appendix: backward is twice forward",
).equals(forward + backward, "One forward and one backward pass; nothing recomputed.")

training = flops(
    "compute.training_flops", "C", "training FLOPs, exact count", source=MATMUL
).equals(T * per_token, "Every token passes forward and backward once.")

training_6nd = flops(
    "compute.training_flops_6nd",
    r"C_{6ND}",
    "training FLOPs by the 6ND rule",
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1; Hoffmann et al. 2022",
    exact=False,
    coefficient="FLOP",
).equals(
    6 * active * T,
    "2 FLOP per parameter and token forward, 4 backward; counts embeddings as if multiplied and "
    "leaves the attention scores out. N is what one token uses.",
)

training_megatron = flops(
    "compute.training_flops_megatron",
    "C_Meg",
    "training FLOPs as Megatron-LM 2021 counts them",
    source=f"{NARAYANAN}, equation 3",
    shape=True,
).equals(
    T * (Sum(4 * L_k * layer, "part", layers=True) + Sum(3 * layer, "part", layers=False)),
    "Layers run forward twice (full recomputation counts) and backward, the head once. For a GPT "
    "this is 96 B s L h^2 (1 + s/6h + V/16Lh) for each step.",
)

training_palm = flops(
    "compute.training_flops_palm",
    "C_PaLM",
    "training FLOPs as PaLM counts them",
    source=f"{CHOWDHERY}, appendix B",
    coefficient="FLOP",
    shape=True,
).equals(
    T * (6 * active + Sum(3 * L_k * Sum(component, "component", type="core"), "part")),
    "6 for each parameter that a token uses, and the attention scores: 12 L H Q s for a GPT, which "
    "is 3 times their forward pass.",
)

again = flops(
    "compute.recomputed_flops_per_token",
    "C_again",
    "FLOPs that recomputation runs again, per token",
)
again.by("the plan (training.recompute)", recompute="none").equals(0, "Nothing is computed again.")

#: Blocks of which nothing can be chosen to be computed again.
ELSE = ("embedding", "head", "projection", "matrix", "learned", "stream", *OTHERS, *NOTHING, *SIDES)

block_again = flops(
    "compute.block.again",
    "C_re",
    "FLOPs of a block that selective recomputation runs again, per token",
    per="block",
)
block_again.by(CHECKPOINTED_CORE, block="attention", again_core_attention=True).equals(
    Sum(component, "component", type="core"), "The attention core runs forward once more."
)
block_again.by(
    f"{DAO}, section 3.1; {MODULES}", block="attention", again_core_attention=False
).equals(0, "Its core is kept, or is a fused one of an implementation that does not run it again.")

for _kind in ("mlp", "moe"):
    block_again.by(MODULES, block=_kind, **{f"again_{_kind}": True}).equals(
        Sum(component, "component"), "The whole block runs forward once more."
    )
    block_again.by(MODULES, block=_kind, **{f"again_{_kind}": False}).equals(
        0, "No product of it runs again."
    )

block_again.by(MODULES, block=("norm", *ELSE)).equals(0, "No product of it can be chosen.")

for _towers, _which, _but in (
    (("none", "trained"), {}, ""),
    ("frozen", {"fixed": False}, " Of a tower that is not trained nothing is."),
):
    _where = {"layers": True, **_which}
    again.by(
        MODULES, recompute="selective", shape=True, again_operations=False, towers=_towers
    ).equals(
        Sum(L_k * Sum(block_again, "block"), "part", **_where),
        f"The chosen modules (training.recompute_modules) of every layer.{_but}",
    )
    again.by(
        PER_OPERATION, recompute="selective", shape=True, again_operations=True, towers=_towers
    ).equals(
        Sum(L_k * Sum(component, "component", type="linear") / 2, "part", **_where),
        f"Every second product; attention is kept.{_but}",
    )
    again.by(
        "Chen et al. 2016 (arXiv 1604.06174)",
        recompute="full",
        early_stop=False,
        shape=True,
        towers=_towers,
    ).equals(
        Sum(L_k * layer, "part", **_where),
        f"Every layer runs forward once more; the head does not.{_but}",
    )
    again.by(
        "torch.utils.checkpoint of PyTorch 2.13, early stop",
        recompute="full",
        early_stop=True,
        shape=True,
        towers=_towers,
    ).equals(
        Sum(L_k * (layer - Sum(component, "component", final=True)), "part", **_where),
        "Every layer runs once more up to the last tensor that its backward needs: its last matmul "
        f"is left out where nothing keeps its output.{_but}",
    )
again.by(KAPLAN, recompute=("selective", "full"), shape=False, exact=False).equals(
    forward, "Without a shape, the whole forward pass once more: an upper bound for selective."
)

executed_per_token = flops(
    "compute.executed_flops_per_token",
    "C_hw",
    "FLOPs of forward and backward with what is computed again, per token",
    source=f"{KORTHIKANTI}, section 5 and appendix A",
).equals(
    per_token + again,
    "What hardware runs: the two passes, and the forward pass of what was not kept.",
)

# -- as PyTorch's counter counts ---------------------------------------------------------------

# Beside matmuls it counts convolutions with their padding, attention kernels' own recomputation
# and whatever activation checkpointing runs again: to compare plans with measurements.
COUNTER = "torch.utils.flop_counter of PyTorch 2.13"

counted = partial(flops, source=COUNTER)
counted_of_shape = partial(counted, shape=True)

convolution = of_component(
    "compute.convolution",
    "C_conv,c",
    "forward FLOPs of one depthwise convolution, per token",
    source=COUNTER,
    type="conv",
).equals(
    2 * n_in * n_out * (s + n_in - 1) / s,
    "Each channel has one multiply-add for each position of the kernel; padding on both sides "
    "makes n_in - 1 more outputs, which are cut off.",
)

convolutions = counted_of_shape(
    "compute.convolution_flops_per_token",
    "C_conv",
    "forward FLOPs of depthwise convolutions, per token",
).equals(
    Sum(L_k * Sum(convolution, "component", type="conv"), "part"),
    "Each part as often as it occurs.",
)

convolutions_backward = counted_of_shape(
    "compute.convolution_backward_flops_per_token",
    "C_conv'",
    "backward FLOPs of depthwise convolutions as the counter has them, per token",
).equals(
    Sum(L_k * Sum(convolution * (1 + n_out), "component", type="conv"), "part"),
    "As much again for the gradient of the input; that of the kernel is counted as if the "
    "convolution were dense, once for each of the n_out channels.",
)

scores_again = counted(
    "compute.scores_again_flops_per_token",
    "C_qk",
    "FLOPs of attention scores that the kernel computes again in backward, per token",
)
scores_again.where(training_attention="eager").equals(0, "The scores were kept.")
_FUSED: dict[str, Any] = {"training_attention": ("flash", "efficient"), "shape": True}
_FIVE = "Backward makes the scores anew from queries and keys: five products instead of four"
scores_again.by(f"{DAO}, algorithm 4", **_FUSED, towers="none", coefficient="FLOP").equals(
    Sum(L_k * Sum(2 * keys * n_in, "component", type="core"), "part"), f"{_FIVE}."
)
scores_again.by(
    f"{DAO}, algorithm 4", **_FUSED, towers=("trained", "frozen"), coefficient="FLOP"
).equals(
    Sum(L_k * Sum(2 * keys * n_in, "component", type="core"), "part", tower=False)
    + Sum(
        L_k * Sum(2 * keys * n_in * x_tok, "component", type="core", frozen=False),
        "part",
        tower=True,
    ),
    f"{_FIVE}; in towers for their own tokens, where they are trained.",
)

convolutions_again = counted(
    "compute.convolution_again_flops_per_token",
    "C_conv^ckpt",
    "FLOPs of convolutions that activation checkpointing runs again, per token",
)
convolutions_again.where(recompute=("none", "selective")).equals(0, "None runs again.")
convolutions_again.where(recompute="full", shape=True).equals(
    convolutions, "Every layer runs forward once more."
)

counter_forward = counted_of_shape(
    "compute.counter_forward_flops",
    "C_fwd^count",
    "forward pass of one micro-batch as PyTorch's counter counts it",
).equals(b * s * (forward + convolutions), "All tokens of the micro-batch.")

counter_backward = counted_of_shape(
    "compute.counter_backward_flops",
    "C_bwd^count",
    "backward pass of one micro-batch as PyTorch's counter counts it",
).equals(
    b * s * (backward + convolutions_backward + scores_again + again + convolutions_again),
    "The products of the backward pass and all that is computed again for it.",
)
