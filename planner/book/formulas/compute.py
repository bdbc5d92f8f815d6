"""How many FLOPs: matmuls counted exactly, and the field's other conventions beside them."""

from planner.book.expressions import make_number
from planner.book.formulas.parameters import active
from planner.book.language import *

FLASH_PASSES = f"{DAO}, algorithm 4"
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

#: Which keys a query meets: those up to itself, or those of the whole sequence.
PAST, BOTH_WAYS = ("past", "past window"), ("all", "window")


def _up_to_itself(most: Operand) -> Expression:
    """Return the mean number of keys (of c_key tokens) that queries 1 to s meet under causality,
    each query at most ``most``: key j is met by the s + 1 - j c_key queries from its last token
    on."""
    return most * (s + 1) / s - c_key * most * (most + 1) / (2 * s)


of_keys = partial(Quantity, source="which keys the mask leaves to a query", per="component")
attended = of_keys(
    "compute.attended_keys",
    r"\hat s_k",
    "keys that mask, window and indexer leave to a query, on average",
)
attended.where(sees=BOTH_WAYS, side=IN_FULL).equals(
    m_key, "As many as there are, at most those of its window or those that an indexer picks."
)
attended.where(sees=PAST, side=IN_FULL).equals(
    _up_to_itself(m_key),
    "Query i meets the keys up to itself, at most those of its window or those that an indexer "
    "picks: the j-th key is met by s + 1 - j c_key of the s queries.",
)
attended.where(side="decoder").equals(
    (s_dec + 1) / 2, "Query i of the decoder meets the i keys up to itself."
)

keys = Quantity(
    "compute.keys",
    r"s_k",
    "keys that a query meets, on average, by the stated convention",
    source="training.attention_count",
    per="component",
)
keys.where(attention_count="full").equals(
    n_key, "All of them: masked scores are counted, and those beyond a window or of no pick."
)
keys.where(attention_count="window").equals(
    m_key, "Those of the window, or those that an indexer picks; causality is not discounted."
)
keys.where(attention_count="causal", sees=BOTH_WAYS, side=IN_FULL).equals(
    n_key, "All of them: nothing is masked, and windows are not discounted."
)
keys.where(attention_count="causal", sees=PAST, side=IN_FULL).equals(
    _up_to_itself(n_key), "Query i meets the keys up to itself; windows are not discounted."
)
keys.where(attention_count="causal", side="decoder").equals(attended, "Those up to itself.")
keys.where(attention_count="causal-window").equals(
    attended, "Those that mask, window and indexer leave."
)

FUSED_KERNELS = ("flash", "efficient")
performed_keys = of_keys(
    "compute.performed_keys",
    r"\bar s",
    "keys that a kernel multiplies a query with, on average",
    source=f"{DAO}, section 3; Dao 2023 (arXiv 2307.08691)",
    exact=False,
)
performed_keys.where(training_attention="eager").equals(
    n_key, "All of them: scores are masked when they are there."
)
_FUSED_KEYS: dict[str, Any] = {"training_attention": FUSED_KERNELS}
performed_keys.where(**_FUSED_KEYS, sees=BOTH_WAYS, side=IN_FULL).equals(
    m_run, "Those of the window in whole blocks, or those that an indexer picks."
)
performed_keys.where(**_FUSED_KEYS, sees=PAST, side=IN_FULL).equals(
    minimum(m_run, _up_to_itself(m_run) + (n_blk - 1) * m_run / (2 * s)),
    "Blocks above the diagonal are skipped, those on it are not: besides the keys up to itself, of "
    "the window in whole blocks or of what an indexer picks, half a block less one half.",
)
performed_keys.where(**_FUSED_KEYS, side="decoder").equals(
    minimum(s_dec, (s_dec + n_blk) / 2), "As for any sequence, over the decoder's own keys."
)

CHUNKED = "the chunked form in plain PyTorch of transformers: "
ENDS = CHUNKED + "the first state is zero, the last is not used"

per_key = of_component(
    "compute.per_key", r"C_1", "forward FLOPs of scores for each key that a query meets, per token"
)
for _side, _queries, _why in (
    ("", make_number(1), ""),
    (("decoder", "cross"), s_dec / s, " For the s_dec queries of the decoder instead of s."),
    ("tower", x_tok, " For the tower's tokens, of which there are so many for one of the model."),
):
    per_key.by(
        "Narayanan et al. 2021, appendix; Raffel et al. 2019 (arXiv 1910.10683), section 2.1; "
        "Dosovitskiy et al. 2020 (arXiv 2010.11929)",
        scored=True,
        side=_side,
    ).equals(
        2 * (n_in + n_out) * _queries,
        f"A query meets a key over n_in, and its score weighs a value over n_out.{_why}",
    )

component_flops = of_component(
    "compute.component", r"C_c", "forward FLOPs of one component, per token"
)
component_flops.by(MATMUL, type="linear", side="").equals(
    2 * applied * n_in * n_out,
    "Each weight is multiplied and added once: 2 FLOP for each weight that a token uses.",
)
component_flops.by(MATMUL, type="linear", side="first").equals(
    2 * applied * n_in * n_out / s, "2 FLOP for each weight, on one of the s tokens of a sequence."
)
component_flops.by(MATMUL, type="linear", side="decoder").equals(
    2 * applied * n_in * n_out * s_dec / s,
    "2 FLOP for each weight that a token of the decoder uses, of which there are s_dec for s.",
)
component_flops.by(
    "Narayanan et al. 2021, appendix; Korthikanti et al. 2022, section 5", type=("core", "index")
).equals(keys * per_key, "A query meets its keys, each as often as FLOPs are counted.")
component_flops.by(MATMUL, type="linear", side="tower").equals(
    2 * applied * n_in * n_out * x_tok,
    "2 FLOP for each weight that a token of the tower uses, of which there are so many for each "
    "token of the model.",
)
component_flops.by(f"{GU_DAO}, section 3.2", type="scan", scan="mamba1").equals(
    2 * n_in * n_out,
    "Each state of each channel is read once; how states come to be is not a matmul.",
)

component_flops.by("Baykal et al. 2023 (arXiv 2301.13310)", type="scan", scan="mix").equals(
    2 * n_in * n_out, "Each part of the residual stream is a mix of all parts, token by token."
)

_chunks = ceil(s / c_m)
_within = a_m * c_m * n_out + c_m * n_in + 2 * n_in * n_out
component_flops.by(CHUNKED + f"{DAO_GU}, section 6", type="scan", scan="mamba2").equals(
    (2 * _chunks * c_m * _within + 2 * (_chunks + 1) ** 2 * n_in * n_out) / s,
    "Within a chunk C with B over the state and the result with x; into and out of the states of "
    "chunks; and every chunk's state from all before it. n_in is the inner width, n_out the state.",
)

#: Tokens of a sequence in whole chunks.
_in_chunks = ceil(s / c_d) * c_d
_each = 2 * c_d * d_dk + c_d * d_dv + 3 * d_dk * d_dv
component_flops.by(CHUNKED + f"{YANG}, section 3.3", type="scan", scan=("delta", "kda")).equals(
    2 * a_dv * _in_chunks * _each / s,
    "Within a chunk keys with keys, queries with keys, and scores with values; three products with "
    "the state for each chunk.",
)

_full = floor(s / c_l)
component_flops.by(
    CHUNKED + "MiniMax-01 (arXiv 2501.08313), section 2.2", type="scan", scan="lightning"
).equals(
    4 * n_in * (_full * c_l**2 + (s - _full * c_l) ** 2 + s * d_l) / s,
    "Two products within a chunk, and two with the state; the last chunk may be shorter.",
)

backward_component = of_component(
    "compute.component_backward", r"C_c'", "backward FLOPs of one component, per token"
)
_TWICE = "One product for the gradient of each factor: twice the forward pass."
backward_component.by(MATMUL, type="core", frozen=False).equals(2 * component_flops, _TWICE)
_trained_linear = partial(backward_component.by, type="linear", frozen=False)
_trained_linear(MATMUL, lora=False).equals(2 * component_flops, _TWICE)
_trained_linear(LORA, lora=True, adapted=False).equals(
    component_flops, "The weight is frozen: one product, for the gradient of the input."
)
_trained_linear(LORA, lora=True, adapted=True, side="tower").equals(
    component_flops + 6 * applied * k_l * (n_in + n_out) * x_tok,
    "As for other projections, for the tokens of the tower.",
)
_trained_linear(LORA, lora=True, adapted=True, side=("", "decoder", "cross", "first")).equals(
    component_flops + 6 * applied * k_l * (n_in + n_out),
    "One product for the gradient of the frozen weight's input; and the adapter's two narrow "
    "products, forward once and backward twice: 2 FLOP for each of their weights and passes.",
)
backward_component.by(
    "DeepSeek-V3.2 (arXiv 2512.02556), section 2.1; a frozen tower",
    type=("linear", "core", "index"),
    frozen=True,
).equals(0, "The loss sends no gradient here.")
backward_component.by(MATMUL, type="scan", scan=("mamba1", "mamba2", "mix")).equals(
    2 * component_flops, _TWICE
)
backward_component.by(ENDS, type="scan", scan="delta").equals(
    2 * component_flops + 2 * a_dv * c_d * (_in_chunks * (d_dk + d_dv) - 4 * d_dk * d_dv) / s,
    "Twice the forward pass; the gradient of the two triangular solves besides, less the products "
    "with the first and the last state, which need no gradient.",
)
backward_component.by(ENDS, type="scan", scan="kda").equals(
    2 * component_flops - 8 * a_dv * c_d * d_dk * d_dv / s,
    "Twice the forward pass, less the products with the first and the last state; the triangular "
    "systems are solved row by row, which multiplies no matrices.",
)

_first, _last = minimum(s, c_l), s - (ceil(s / c_l) - 1) * c_l
backward_component.by(ENDS, type="scan", scan="lightning").equals(
    2 * component_flops - 2 * n_in * d_l * (_first + 2 * _last) / s,
    "Twice the forward pass, less the products with the first and the last state.",
)

layer = flops(
    "compute.layer", r"C_{\ell}", "forward FLOPs of one layer, per token", source=MATMUL, per="part"
).equals(
    Sum(component_flops, "component", matmul=True),
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
    T * (6 * active + Sum(3 * L_k * Sum(component_flops, "component", type="core"), "part")),
    "6 for each parameter that a token uses, and the attention scores: 12 L H Q s for a GPT, which "
    "is 3 times their forward pass.",
)

#: Blocks of which nothing can be chosen to be computed again.
ELSE = ("embedding", "head", "projection", "matrix", "learned", "stream", *OTHERS, *NOTHING, *SIDES)

reruns = Quantity(
    "compute.reruns",
    r"n_re",
    "how often recomputation runs a component again",
    per="component",
    within=SHARE,
)
reruns.by("the plan (training.recompute)", recompute="none").equals(0, "Nothing runs again.")
reruns.by(MODULES, recompute=("selective", "full"), layers=False).equals(0, "It is in no layer.")
_SELECTIVE: dict[str, Any] = {"recompute": "selective", "layers": True}
_CHOSEN = {**_SELECTIVE, "again_operations": False}
_WHOLE = {**_CHOSEN, "block": "attention", "scored": False, "latent": True}
for _runs in (True, False):
    _how = "It is chosen to run once more." if _runs else "It is kept."
    reruns.by(
        f"{CHECKPOINTED_CORE}; {DAO}, section 3.1; {MODULES}",
        **_CHOSEN,
        block="attention",
        scored=True,
        again_core_attention=_runs,
    ).equals(int(_runs), _how)
    for _kind in ("mlp", "moe"):
        reruns.by(MODULES, **_CHOSEN, block=_kind, **{f"again_{_kind}": _runs}).equals(
            int(_runs), _how
        )
    reruns.by(MODULES, **_WHOLE, split="column", again_mla_up_projection=_runs).equals(
        int(_runs), _how
    )
reruns.by(MODULES, **_WHOLE, split=("none", "row")).equals(0, "It is kept.")
reruns.by(MODULES, **{**_WHOLE, "latent": False}).equals(0, "It is kept.")
reruns.by(MODULES, **_CHOSEN, block=("norm", *ELSE)).equals(0, "Nothing of it can be chosen.")
_OPERATIONS = {**_SELECTIVE, "again_operations": True}
reruns.by(PER_OPERATION, **_OPERATIONS, type="linear").equals(
    make_fraction(1, 2), "Every second product."
)
reruns.by(PER_OPERATION, **_OPERATIONS, type=("core", "index", "scan")).equals(
    0, "Attention is kept."
)
reruns.by(
    "Chen et al. 2016 (arXiv 1604.06174)", recompute="full", layers=True, early_stop=False
).equals(1, "Every layer runs forward once more.")
for _final in (True, False):
    reruns.by(
        "torch.utils.checkpoint of PyTorch 2.13, early stop",
        recompute="full",
        layers=True,
        early_stop=True,
        final=_final,
    ).equals(
        int(not _final),
        "A layer runs once more up to the last tensor that its backward needs: its last matmul is "
        "left out where nothing keeps its output.",
    )

again = flops(
    "compute.recomputed_flops_per_token",
    "C_again",
    "FLOPs that recomputation runs again, per token",
)
again.by("the plan (training.recompute)", recompute="none").equals(0, "Nothing is computed again.")
again.by(MODULES, recompute=("selective", "full"), shape=True).equals(
    Sum(L_k * Sum(reruns * component_flops, "component", matmul=True), "part"),
    "Each component as often as it runs again.",
)
again.by(KAPLAN, recompute=("selective", "full"), shape=False, exact=False).equals(
    forward, "Without a shape, the whole forward pass once more: an upper bound for selective."
)

executed_per_token = flops(
    "compute.executed_flops_per_token",
    "C_exec",
    "FLOPs of forward and backward with what is computed again, per token",
    source=f"{KORTHIKANTI}, section 5 and appendix A",
)
_BOTH = "The two passes, and the forward pass of what was not kept, with scores as they are counted"
executed_per_token.where(reads=False).equals(per_token + again, f"{_BOTH}.")
executed_per_token.where(reads=True).equals(
    per_token + again + n_read * forward, f"{_BOTH}; and passes that are only read."
)


#: What is not computed again.
NEVER = make_number(0)


def count_scores(met: Operand, rerun: Operand = NEVER) -> Expression:
    """Count the FLOPs of a token, forward and backward (plus ``rerun`` forward passes), if queries
    meet ``met`` keys: the common part of all conventions of utilisation."""
    scores = per_key * met
    return Sum(
        L_k
        * (
            Sum((1 + rerun) * component_flops + backward_component, "component", **_PRODUCTS)
            + Sum((3 + rerun) * scores, "component", scored=True, frozen=False)
            + Sum((1 + rerun) * scores, "component", scored=True, frozen=True)
        ),
        "part",
    )


_PRODUCTS = {"matmul": True, "scored": False}
_THRICE = "Products with weights, forward and backward, and 3 times the forward pass of scores"

attended_per_token = flops(
    "compute.attended_flops_per_token",
    "C_att",
    "FLOPs of forward and backward, per token, masked scores left out",
    source=MATMUL,
)
attended_per_token.where(shape=True).equals(
    count_scores(attended), f"{_THRICE}, of the keys that mask, window and indexer leave."
)
attended_per_token.where(shape=False).equals(per_token, "A size has no scores.")

model_per_token = flops(
    "compute.model_flops_per_token",
    "C_mod",
    "FLOPs of forward and backward, per token, that a model utilisation counts",
    source=f"{CHOWDHERY}, appendix B",
)
model_per_token.where(shape=True, attention_count=("full", "window")).equals(
    count_scores(m_key),
    f"{_THRICE}, of all keys of the sequence, but those of the window or those that an indexer "
    "picks where the model has one: it asks for no others.",
)
model_per_token.where(shape=True, attention_count=("causal", "causal-window")).equals(
    attended_per_token, "Causality is discounted as windows are."
)
model_per_token.where(shape=False).equals(per_token, "A size has no scores.")

performed_component = of_component(
    "compute.performed_component",
    r"\bar C_c",
    "FLOPs of one component that kernels perform in all passes, per token",
    exact=False,
    source=FLASH_PASSES,
)
_met = per_key * performed_keys
for _reads, _more, _too in ((False, 0, "."), (True, n_read, "; and passes that are only read.")):
    performed_component.by(MATMUL, scored=False, reads=_reads).equals(
        (1 + _more + reruns) * component_flops + backward_component,
        f"Forward, backward and what runs again{_too}",
    )
    performed_component.where(scored=True, frozen=True, reads=_reads).equals(
        (1 + _more + reruns) * _met,
        f"Forward, and where it runs again; the loss sends it no gradient{_too}",
    )
    _alive = partial(performed_component.where, scored=True, frozen=False, reads=_reads)
    _alive(training_attention="eager").equals(
        (3 + _more + reruns) * _met,
        f"Two products forward and four backward, and what runs again{_too}",
    )
    _alive(training_attention=FUSED_KERNELS).equals(
        (make_fraction(7, 2) + _more + reruns) * _met,
        "Two products forward and five backward, one of which makes the scores anew; and what "
        f"runs again{_too}",
    )

performed_per_token = flops(
    "compute.performed_flops_per_token",
    "C_hw",
    "FLOPs that kernels perform in all passes, per token",
    exact=False,
)
performed_per_token.by(MATMUL, shape=True).equals(
    Sum(L_k * Sum(performed_component, "component", matmul=True), "part"),
    "Each part as often as it occurs; no convention of counting moves it.",
)
performed_per_token.by(KAPLAN, shape=False).equals(
    executed_per_token, "Without a shape, forward, backward and what is computed again."
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
