"""How many FLOPs: matmuls counted exactly, and the field's other conventions beside them."""

from planner.formulas.parameters import active
from planner.folds import Total
from planner.notation import L_k, T, applied, n_in, n_out, s
from planner.quantity import quantity

MATMUL = "one multiply-add is 2 FLOP (Goto & van de Geijn 2008; Narayanan et al. 2021, appendix)"
PER_TOKEN = "FLOP"


@quantity(
    "compute.component",
    symbol=r"C_c",
    unit=PER_TOKEN,
    title="forward FLOPs of one component, per token",
    source=MATMUL,
    per=("component",),
    when={"type": "linear"},
    coefficient="FLOP",
)
def component():
    """Each weight is multiplied and added once: 2 FLOP for each of the weights that a token uses."""
    return 2 * applied * n_in * n_out


@quantity(
    "compute.component",
    symbol=r"C_c",
    unit=PER_TOKEN,
    title="forward FLOPs of one component, per token",
    source="Narayanan et al. 2021, appendix; Korthikanti et al. 2022, section 5",
    per=("component",),
    when={"type": "core"},
    coefficient="FLOP",
)
def component_core():
    """A query meets s keys, and its s scores weigh s values; not halved for causality."""
    return 2 * s * (n_in + n_out)


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


@quantity(
    "compute.flops_per_token",
    symbol=r"C_{\mathrm{tok}}",
    unit=PER_TOKEN,
    title="FLOPs of forward and backward, per token",
    source="Narayanan et al. 2021, appendix: backward is twice forward",
)
def per_token():
    """Backward multiplies twice, for the input's and for the weight's gradient; nothing recomputed."""
    return 3 * forward


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
    """Layers run forward twice (full recomputation counts) and backward; the head is not recomputed.
    For a GPT this is 96 B s L h^2 (1 + s/6h + V/16Lh) for each step."""
    return T * (Total(4 * L_k * layer, "part", layers=True) + Total(3 * layer, "part", layers=False))


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
    """6 for each parameter that a token uses, and the attention scores in full: 12 L H Q s for a GPT,
    which is 3 times their forward pass."""
    return T * (6 * active + Total(3 * L_k * Total(component, "component", type="core"), "part"))


EXECUTED = {
    "identifier": "compute.executed_flops_per_token",
    "symbol": r"C_{\mathrm{hw}}",
    "unit": PER_TOKEN,
    "title": "FLOPs of forward and backward with what is computed again, per token",
    "source": "Korthikanti et al. 2022 (arXiv 2205.05198), section 5 and appendix A",
}


@quantity(**EXECUTED, when={"training.recompute": "none"})
def executed_per_token():
    """Nothing is computed again."""
    return per_token


@quantity(**EXECUTED, when={"training.recompute": "selective", "model.shape": True})
def executed_per_token_selective():
    """The attention core runs forward once more in every layer."""
    return per_token + Total(L_k * Total(component, "component", type="core"), "part")


@quantity(**EXECUTED, when={"training.recompute": "full", "model.shape": True})
def executed_per_token_full():
    """Every layer runs forward once more; the head does not."""
    return per_token + Total(L_k * layer, "part", layers=True)


@quantity(
    **EXECUTED, exact=False, when={"training.recompute": ("selective", "full"), "model.shape": False}
)
def executed_per_token_of_size():
    """Without a shape, the whole forward pass once more: an upper bound for selective."""
    return per_token + forward
