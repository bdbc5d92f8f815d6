"""Activations: what the implementation's profile keeps, of each layer and micro-batch."""

from typing import Any

from planner.book.formulas.layout import sequence_ranks, tokens
from planner.book.notation import (
    A_ks,
    L_ks,
    R_ks,
    bytes_j,
    f_off,
    h,
    k_a,
    ranks_j,
    rows_j,
    t,
    width_j,
)
from planner.book.quantity import SHARE, quantity
from planner.book.reductions import Largest, Total, smallest

PROFILE = "the implementation's profile (presets/implementations)"
KORTHIKANTI = "Korthikanti et al. 2022 (arXiv 2205.05198)"


@quantity(
    "memory.tensor",
    symbol="M_j",
    unit="bytes",
    title="one tensor of a layer, of one micro-batch on one device",
    source=PROFILE,
    per=("tensor",),
)
def tensor():
    """Rows times width times bytes of an element, shared by some devices."""
    return rows_j * width_j * bytes_j / ranks_j


RANKS: dict[str, Any] = {
    "identifier": "memory.activations.input_ranks",
    "symbol": r"t_{\mathrm{in}}",
    "unit": "1",
    "title": "devices that share the kept input of a recomputed layer",
}


@quantity(**RANKS, source=KORTHIKANTI, when={"training.partition_activations": False})
def input_ranks():
    """As the residual stream is divided."""
    return sequence_ranks


@quantity(
    **RANKS,
    source="Rajbhandari et al. 2020, section 6.1; Megatron-LM (distribute-saved-activations)",
    when={"training.partition_activations": True},
)
def input_ranks_partitioned():
    """Divided over the tensor-parallel ranks and gathered again before use."""
    return t


LAYER: dict[str, Any] = {
    "identifier": "memory.activations.part",
    "symbol": r"M_{\mathrm{act}}^{k}",
    "unit": "bytes",
    "title": "activations that one layer keeps of one micro-batch",
    "per": ("part",),
}


@quantity(
    **LAYER,
    source=f"{PROFILE}; {KORTHIKANTI}, equations 1 to 4",
    when={"training.recompute": "none"},
)
def layer():
    """Everything that the profile lists; tensors that several operations read are listed once."""
    return Total(tensor, "tensor", moment="kept")


@quantity(
    **LAYER,
    source=f"{PROFILE}; {KORTHIKANTI}, section 5 and equation 6",
    when={"training.recompute": "selective"},
)
def layer_selective():
    """What belongs to a recomputed module (training.recompute_modules) is computed again."""
    return Total(tensor, "tensor", moment="kept", recomputed="no")


@quantity(
    **LAYER,
    source=f"{KORTHIKANTI}, section 5: 2sbh",
    when={"training.recompute": "full"},
)
def layer_input():
    """The layer's input only; the rest is computed again."""
    return k_a * tokens * h / input_ranks


@quantity(
    "memory.activations.layer",
    symbol=r"M_{\mathrm{act}}^{\ell}",
    unit="bytes",
    title="activations that one layer keeps of one micro-batch on one device",
    source="the layer kind that keeps most",
)
def largest_layer():
    """The largest over the layer kinds."""
    return Largest(layer, "part", layers=True)


AGAIN: dict[str, Any] = {
    "identifier": "memory.activations.again",
    "symbol": r"M_{\mathrm{re}}^{k}",
    "unit": "bytes",
    "title": "activations of one layer while it is computed again",
    "source": f"{KORTHIKANTI}, section 5",
    "per": ("part",),
}


@quantity(**AGAIN, when={"training.recompute": "full", "layers": True})
def again():
    """Before its backward pass a layer's activations exist once, whatever was kept."""
    return Total(tensor, "tensor", moment="kept")


@quantity(**AGAIN, when={"training.recompute": "selective", "layers": True})
def again_selective():
    """The attention core of one layer."""
    return Total(tensor, "tensor", moment="kept", recomputed="selective")


@quantity(**AGAIN, when={"training.recompute": "none", "layers": True})
def again_none():
    """Nothing is computed again."""
    return 0


@quantity(**AGAIN, when={"layers": False})
def again_outside():
    """Embedding and head are not computed again."""
    return 0


@quantity(
    "memory.activations.whole",
    symbol=r"M_{\mathrm{act}}^{k,0}",
    unit="bytes",
    title="activations that one layer would keep without recomputation",
    source=PROFILE,
    per=("part",),
)
def whole():
    """Everything that the profile lists."""
    return Total(tensor, "tensor", moment="kept")


@quantity(
    "memory.activations.offloaded",
    symbol=r"f_{\mathrm{dev}}",
    unit="1",
    title="share of the activations that stays on the device",
    within=SHARE,
    source="training.offload.activations",
)
def stays():
    """The rest lies in the host's memory until the backward pass."""
    return 1 - f_off


@quantity(
    "memory.activations.layers",
    symbol=r"M_{\mathrm{act},\sigma}^{L}",
    unit="bytes",
    title="activations that the layers of a stage keep, without embedding and head",
    source=f"Narayanan et al. 2021, section 2.2; {KORTHIKANTI}, equation 5 and section 4.2.3",
    per=("stage",),
)
def layers():
    """Each layer kind as often as the stage holds it, for each micro-batch that is alive there;
    layers that are not recomputed keep everything."""
    return stays * Total(R_ks * layer + (A_ks - R_ks) * whole, "part", layers=True)


@quantity(
    "memory.activations.stage",
    symbol=r"M_{\mathrm{act},\sigma}",
    unit="bytes",
    title="activations that one device of a stage keeps, of all micro-batches in flight",
    source="layers, embedding and head",
    per=("stage",),
)
def stage():
    """What the layers keep, and embedding and head for each micro-batch that is alive there."""
    return layers + Total(A_ks * whole, "part", layers=False)


LIVE: dict[str, Any] = {
    "identifier": "memory.activations.live",
    "symbol": r"M_{\mathrm{act},\sigma\varphi}",
    "unit": "bytes",
    "title": "activations on one device of a stage in a phase",
    "per": ("stage", "phase"),
}


@quantity(**LIVE, source="end of the forward pass", when={"phase": "loss"})
def live_loss():
    """Everything that is kept, logits included."""
    return stage


@quantity(**LIVE, source=f"{KORTHIKANTI}, section 5", when={"phase": "backward"})
def live_backward():
    """The head has let go of its tensors; a layer that was not kept is computed again."""
    return (
        layers
        + Total(A_ks * whole, "part", part="embedding")
        + Largest(smallest(1, R_ks) * again, "part")
    )


@quantity(**LIVE, source="last layer of the backward pass", when={"phase": "first"})
def live_first():
    """One layer is left, in full, and the embedding's tensors."""
    return Largest(smallest(1, L_ks) * whole, "part", layers=True) + Total(
        A_ks * whole, "part", part="embedding"
    )


@quantity(**LIVE, source="end of the backward pass", when={"phase": "gradients"})
def live_gradients():
    """The embedding's tensors are left."""
    return Total(A_ks * whole, "part", part="embedding")


@quantity(**LIVE, source="forward pass without gradients", when={"phase": "serving"})
def live_serving():
    """The tensors of one layer at a time; what sequences keep is the cache."""
    return Largest(smallest(1, L_ks) * whole, "part", layers=True)


@quantity(**LIVE, source="optimizer step", when={"phase": "step"})
def live_step():
    """No activation survives the backward pass."""
    return 0
