"""How many FLOPs: matmuls counted exactly, and the field's other conventions beside them."""

from typing import Any

from planner.book.formulas.parameters import active
from planner.book.notation import (
    L_k,
    T,
    a_dv,
    a_m,
    applied,
    c_d,
    c_l,
    c_m,
    d_dk,
    d_dv,
    d_l,
    k_l,
    n_in,
    n_out,
    s,
    s_dec,
    w,
)
from planner.book.quantity import quantity
from planner.book.reductions import Total, ceil, smallest, whole

MATMUL = "one multiply-add is 2 FLOP (Goto & van de Geijn 2008; Narayanan et al. 2021, appendix)"
PER_TOKEN = "FLOP"
#: Blocks whose kernels are their own, and those that do next to nothing.
OTHERS = ("mamba", "delta_net", "short_conv", "recurrence", "lightning")
NOTHING = ("positions", "pooler")


KEYS: dict[str, Any] = {
    "identifier": "compute.keys",
    "symbol": r"s_k",
    "unit": "1",
    "title": "keys that a query meets, on average",
    "source": "training.attention_count",
    "per": ("component",),
}
COUNT = "training.attention_count"
SEES = "block.sees"


@quantity(**KEYS, when={COUNT: "full", "side": ("", "cross")})
def keys():
    """All of them: masked scores are computed and counted too."""
    return s


@quantity(
    **KEYS,
    when={COUNT: ("causal", "window", "causal-window"), SEES: "all", "side": ("", "cross")},
)
def keys_unmasked():
    """All of them: nothing is masked."""
    return s


@quantity(**KEYS, when={COUNT: "causal", SEES: "window", "side": ("", "cross")})
def keys_window_in_full():
    """All of them: windows are not discounted."""
    return s


@quantity(**KEYS, when={COUNT: "window", SEES: "past", "side": ("", "cross")})
def keys_past_in_full():
    """All of them: causality is not discounted."""
    return s


@quantity(**KEYS, when={COUNT: ("causal", "causal-window"), SEES: "past", "side": ("", "cross")})
def keys_past():
    """Query i meets the i keys up to itself: 1 to s, on average half of s + 1."""
    return (s + 1) / 2


@quantity(**KEYS, when={COUNT: "causal", SEES: "past window", "side": ("", "cross")})
def keys_past_without_window():
    """Query i meets the i keys up to itself; the window is not discounted."""
    return (s + 1) / 2


@quantity(**KEYS, when={COUNT: ("window", "causal-window"), SEES: "window", "side": ("", "cross")})
def keys_window():
    """As many keys as the window holds, or the sequence where it is shorter."""
    return smallest(s, w)


@quantity(**KEYS, when={COUNT: "window", SEES: "past window", "side": ("", "cross")})
def keys_window_not_past():
    """As many keys as the window holds, or the sequence where it is shorter."""
    return smallest(s, w)


@quantity(**KEYS, when={COUNT: "causal-window", SEES: "past window", "side": ("", "cross")})
def keys_past_window():
    """A full window for every query, less what the first queries lack: the i-th meets i keys."""
    reach = smallest(s, w)
    return reach - reach * (reach - 1) / (2 * s)


@quantity(**KEYS, when={COUNT: ("full", "window"), "side": "decoder"})
def keys_decoder():
    """All of the decoder's own."""
    return s_dec


@quantity(**KEYS, when={COUNT: ("causal", "causal-window"), "side": "decoder"})
def keys_decoder_past():
    """Query i of the decoder meets the i keys up to itself."""
    return (s_dec + 1) / 2


COMPONENT: dict[str, Any] = {
    "identifier": "compute.component",
    "symbol": r"C_c",
    "unit": PER_TOKEN,
    "title": "forward FLOPs of one component, per token",
    "per": ("component",),
    "coefficient": "FLOP",
}
CHUNKED = "the chunked form in plain PyTorch of transformers: "


@quantity(**COMPONENT, source=MATMUL, when={"type": "linear", "side": ""})
def component():
    """Each weight is multiplied and added once: 2 FLOP for each weight that a token uses."""
    return 2 * applied * n_in * n_out


@quantity(**COMPONENT, source=MATMUL, when={"type": "linear", "side": "first"})
def component_first_token():
    """2 FLOP for each weight, on one of the s tokens of a sequence."""
    return 2 * applied * n_in * n_out / s


@quantity(**COMPONENT, source=MATMUL, when={"type": "linear", "side": "decoder"})
def component_decoder():
    """2 FLOP for each weight that a token of the decoder uses, of which there are s_dec for s."""
    return 2 * applied * n_in * n_out * s_dec / s


@quantity(
    **COMPONENT,
    source="Narayanan et al. 2021, appendix; Korthikanti et al. 2022, section 5",
    when={"type": ("core", "index"), "side": ""},
)
def component_core():
    """A query meets its keys over n_in, and the scores weigh values over n_out."""
    return 2 * keys * (n_in + n_out)


@quantity(
    **COMPONENT,
    source="Raffel et al. 2019 (arXiv 1910.10683), section 2.1",
    when={"type": "core", "side": ("decoder", "cross")},
)
def component_core_decoder():
    """As for any core, for the s_dec queries of the decoder instead of s."""
    return 2 * keys * (n_in + n_out) * s_dec / s


@quantity(
    **COMPONENT,
    source="Gu & Dao 2023 (arXiv 2312.00752), section 3.2",
    when={"type": "scan", "scan": "mamba1"},
)
def component_mamba1():
    """Each state of each channel is read once; how states come to be is not a matmul."""
    return 2 * n_in * n_out


@quantity(
    **COMPONENT,
    source=CHUNKED + "Dao & Gu 2024 (arXiv 2405.21060), section 6",
    when={"type": "scan", "scan": "mamba2"},
)
def component_mamba2():
    """Within a chunk C with B over the state and the result with x; into and out of the states of
    chunks; and every chunk's state from all before it. n_in is the inner width, n_out the state."""
    chunks = ceil(s / c_m)
    within = a_m * c_m * n_out + c_m * n_in + 2 * n_in * n_out
    return (2 * chunks * c_m * within + 2 * (chunks + 1) ** 2 * n_in * n_out) / s


@quantity(
    **COMPONENT,
    source=CHUNKED + "Yang et al. 2024 (arXiv 2412.06464), section 3.3",
    when={"type": "scan", "scan": ("delta", "kda")},
)
def component_delta():
    """Within a chunk keys with keys, queries with keys, and scores with values; three products
    with the state for each chunk."""
    tokens = ceil(s / c_d) * c_d
    each = 2 * c_d * d_dk + c_d * d_dv + 3 * d_dk * d_dv
    return 2 * a_dv * tokens * each / s


@quantity(
    **COMPONENT,
    source=CHUNKED + "MiniMax-01 (arXiv 2501.08313), section 2.2",
    when={"type": "scan", "scan": "lightning"},
)
def component_lightning():
    """Two products within a chunk, and two with the state; the last chunk may be shorter."""
    full = whole(s / c_l)
    rest = s - full * c_l
    return 4 * n_in * (full * c_l**2 + rest**2 + s * d_l) / s


LORA = "Hu et al. 2021 (arXiv 2106.09685), section 4.1"
BACKWARD: dict[str, Any] = {
    "identifier": "compute.component_backward",
    "symbol": r"C_c'",
    "unit": PER_TOKEN,
    "title": "backward FLOPs of one component, per token",
    "per": ("component",),
    "coefficient": "FLOP",
}


@quantity(**BACKWARD, source=MATMUL, when={"type": "core", "frozen": False})
def backward_core():
    """One product for the gradient of each factor: twice the forward pass."""
    return 2 * component


@quantity(**BACKWARD, source=MATMUL, when={"type": "linear", "frozen": False, "lora": False})
def backward_component():
    """One product for the gradient of each factor: twice the forward pass."""
    return 2 * component


@quantity(
    **BACKWARD,
    source=LORA,
    when={"type": "linear", "frozen": False, "lora": True, "adapted": False},
)
def backward_of_base():
    """The weight is frozen: one product, for the gradient of the input."""
    return component


@quantity(
    **BACKWARD,
    source=LORA,
    when={"type": "linear", "frozen": False, "lora": True, "adapted": True},
)
def backward_with_adapter():
    """One product for the gradient of the frozen weight's input; and the adapter's two narrow
    products, forward once and backward twice: 2 FLOP for each of their weights and passes."""
    return component + 6 * applied * k_l * (n_in + n_out)


@quantity(
    **BACKWARD,
    source="DeepSeek-V3.2 (arXiv 2512.02556), section 2.1",
    when={"type": ("linear", "index"), "frozen": True},
)
def backward_frozen():
    """The loss sends no gradient here."""
    return 0


@quantity(**BACKWARD, source=MATMUL, when={"type": "scan", "scan": ("mamba1", "mamba2")})
def backward_mamba():
    """One product for the gradient of each factor: twice the forward pass."""
    return 2 * component


@quantity(
    **BACKWARD,
    source=CHUNKED + "the first state is zero, the last is not used",
    when={"type": "scan", "scan": "delta"},
)
def backward_delta():
    """Twice the forward pass; the gradient of the two triangular solves besides, less the products
    with the first and the last state, which need no gradient."""
    chunks = ceil(s / c_d)
    solves = chunks * c_d * (d_dk + d_dv)
    return 2 * component + 2 * a_dv * c_d * (solves - 4 * d_dk * d_dv) / s


@quantity(
    **BACKWARD,
    source=CHUNKED + "the first state is zero, the last is not used",
    when={"type": "scan", "scan": "kda"},
)
def backward_kda():
    """Twice the forward pass, less the products with the first and the last state; the triangular
    systems are solved row by row, which multiplies no matrices."""
    return 2 * component - 8 * a_dv * c_d * d_dk * d_dv / s


@quantity(
    **BACKWARD,
    source=CHUNKED + "the first state is zero, the last is not used",
    when={"type": "scan", "scan": "lightning"},
)
def backward_lightning():
    """Twice the forward pass, less the products with the first and the last state."""
    first, last = smallest(s, c_l), s - (ceil(s / c_l) - 1) * c_l
    return 2 * component - 2 * n_in * d_l * (first + 2 * last) / s


@quantity(
    "compute.layer",
    symbol=r"C_{\ell}",
    unit=PER_TOKEN,
    title="forward FLOPs of one layer, per token",
    source=MATMUL,
    per=("part",),
)
def layer():
    """The sum over the matmuls of the layer; norms, softmax and rotary are not counted."""
    return Total(component, "component", matmul=True)


@quantity(
    "compute.forward_flops_per_token",
    symbol=r"C_{\mathrm{fwd}}",
    unit=PER_TOKEN,
    title="matmul FLOPs of one forward pass, per token",
    source=MATMUL,
    when={"model.shape": True},
)
def forward():
    """Each part as often as it occurs."""
    return Total(L_k * layer, "part")


@quantity(
    "compute.forward_flops_per_token",
    symbol=r"C_{\mathrm{fwd}}",
    unit=PER_TOKEN,
    title="FLOPs of one forward pass, per token, without attention scores",
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1",
    exact=False,
    when={"model.shape": False},
    coefficient="FLOP",
)
def forward_from_size():
    """Without a shape only the rule remains: 2 FLOP for each parameter."""
    return 2 * active


BACKWARD_TOKEN: dict[str, Any] = {
    "identifier": "compute.backward_flops_per_token",
    "symbol": r"C_{\mathrm{bwd}}",
    "unit": PER_TOKEN,
    "title": "matmul FLOPs of one backward pass, per token",
}


@quantity(**BACKWARD_TOKEN, source=MATMUL, when={"model.shape": True})
def backward():
    """Each part as often as it occurs; nothing recomputed."""
    return Total(L_k * Total(backward_component, "component", matmul=True), "part")


@quantity(
    **BACKWARD_TOKEN,
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1",
    exact=False,
    when={"model.shape": False},
)
def backward_from_size():
    """Backward multiplies twice, for the input's and for the weight's gradient."""
    return 2 * forward


@quantity(
    "compute.flops_per_token",
    symbol=r"C_{\mathrm{tok}}",
    unit=PER_TOKEN,
    title="FLOPs of forward and backward, per token",
    source="Narayanan et al. 2021, appendix: backward is twice forward",
)
def per_token():
    """One forward and one backward pass; nothing recomputed."""
    return forward + backward


@quantity(
    "compute.training_flops",
    symbol="C",
    unit="FLOP",
    title="training FLOPs, exact count",
    source=MATMUL,
)
def training():
    """Every token passes forward and backward once."""
    return T * per_token


@quantity(
    "compute.training_flops_6nd",
    symbol=r"C_{6ND}",
    unit="FLOP",
    title="training FLOPs by the 6ND rule",
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1; Hoffmann et al. 2022",
    exact=False,
    coefficient="FLOP",
)
def training_6nd():
    """2 FLOP per parameter and token forward, 4 backward; counts embeddings as if multiplied and
    leaves the attention scores out. N is what one token uses."""
    return 6 * active * T


@quantity(
    "compute.training_flops_megatron",
    symbol=r"C_{\mathrm{Meg}}",
    unit="FLOP",
    title="training FLOPs as Megatron-LM 2021 counts them",
    source="Narayanan et al. 2021 (arXiv 2104.04473), equation 3",
    when={"model.shape": True},
)
def training_megatron():
    """Layers run forward twice (full recomputation counts) and backward, the head once.
    For a GPT this is 96 B s L h^2 (1 + s/6h + V/16Lh) for each step."""
    layers = Total(4 * L_k * layer, "part", layers=True)
    return T * (layers + Total(3 * layer, "part", layers=False))


@quantity(
    "compute.training_flops_palm",
    symbol=r"C_{\mathrm{PaLM}}",
    unit="FLOP",
    title="training FLOPs as PaLM counts them",
    source="Chowdhery et al. 2022 (arXiv 2204.02311), appendix B",
    when={"model.shape": True},
    coefficient="FLOP",
)
def training_palm():
    """6 for each parameter that a token uses, and the attention scores: 12 L H Q s for a GPT, which
    is 3 times their forward pass."""
    return T * (6 * active + Total(3 * L_k * Total(component, "component", type="core"), "part"))


AGAIN: dict[str, Any] = {
    "identifier": "compute.recomputed_flops_per_token",
    "symbol": r"C_{\mathrm{again}}",
    "unit": PER_TOKEN,
    "title": "FLOPs that recomputation runs again, per token",
}


@quantity(**AGAIN, source="the plan (training.recompute)", when={"training.recompute": "none"})
def again():
    """Nothing is computed again."""
    return 0


BLOCK_AGAIN: dict[str, Any] = {
    "identifier": "compute.block.again",
    "symbol": r"C_{\mathrm{re}}",
    "unit": PER_TOKEN,
    "title": "FLOPs of a block that selective recomputation runs again, per token",
    "per": ("block",),
}
MODULES = "Megatron-LM (recompute-modules)"
#: Blocks of which nothing can be chosen to be computed again.
ELSE = ("embedding", "head", "projection", *OTHERS, *NOTHING)


@quantity(
    **BLOCK_AGAIN,
    source="Korthikanti et al. 2022 (arXiv 2205.05198), section 5; Megatron-Core, "
    "transformer/attention.py (checkpoint_core_attention)",
    when={"block": "attention", "time.again.core_attention": True},
)
def block_again_core():
    """The attention core runs forward once more."""
    return Total(component, "component", type="core")


@quantity(
    **BLOCK_AGAIN,
    source="Dao et al. 2022 (arXiv 2205.14135), section 3.1; Megatron-LM (recompute-modules)",
    when={"block": "attention", "time.again.core_attention": False},
)
def block_again_core_none():
    """Its core is kept, or is a fused one of an implementation that does not run it again."""
    return 0


def _declare_feed_forward(kind: str) -> None:
    @quantity(**BLOCK_AGAIN, source=MODULES, when={"block": kind, f"time.again.{kind}": True})
    def block_again():
        """The whole block runs forward once more."""
        return Total(component, "component")

    @quantity(**BLOCK_AGAIN, source=MODULES, when={"block": kind, f"time.again.{kind}": False})
    def block_again_none():
        """No product of it runs again."""
        return 0


_declare_feed_forward("mlp")
_declare_feed_forward("moe")


@quantity(**BLOCK_AGAIN, source=MODULES, when={"block": ("norm", *ELSE)})
def block_again_nothing():
    """No product of it can be chosen."""
    return 0


SELECTIVE: dict[str, Any] = {"training.recompute": "selective", "model.shape": True}


@quantity(**AGAIN, source=MODULES, when={**SELECTIVE, "time.again.operations": False})
def again_selective():
    """The chosen modules (training.recompute_modules) of every layer."""
    return Total(L_k * Total(block_again_core, "block"), "part", layers=True)


@quantity(
    **AGAIN,
    source="torchtitan, models/common (per-operation selective checkpointing)",
    when={**SELECTIVE, "time.again.operations": True},
)
def again_operations():
    """Every second product; attention is kept."""
    return Total(L_k * Total(component, "component", type="linear") / 2, "part", layers=True)


@quantity(
    **AGAIN,
    source="Chen et al. 2016 (arXiv 1604.06174)",
    when={"training.recompute": "full", "training.early_stop": False, "model.shape": True},
)
def again_full():
    """Every layer runs forward once more; the head does not."""
    return Total(L_k * layer, "part", layers=True)


@quantity(
    **AGAIN,
    source="torch.utils.checkpoint of PyTorch 2.13, early stop",
    when={"training.recompute": "full", "training.early_stop": True, "model.shape": True},
)
def again_early_stop():
    """Every layer runs once more up to the last tensor that its backward needs: its last matmul is
    left out where nothing keeps its output."""
    return Total(L_k * (layer - Total(component, "component", final=True)), "part", layers=True)


@quantity(
    **AGAIN,
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1",
    exact=False,
    when={"training.recompute": ("selective", "full"), "model.shape": False},
)
def again_of_size():
    """Without a shape, the whole forward pass once more: an upper bound for selective."""
    return forward


@quantity(
    "compute.executed_flops_per_token",
    symbol=r"C_{\mathrm{hw}}",
    unit=PER_TOKEN,
    title="FLOPs of forward and backward with what is computed again, per token",
    source="Korthikanti et al. 2022 (arXiv 2205.05198), section 5 and appendix A",
)
def executed_per_token():
    """What hardware runs: the two passes, and the forward pass of what was not kept."""
    return per_token + again
