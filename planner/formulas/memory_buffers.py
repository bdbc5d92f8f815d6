"""Buffers: what is neither state nor kept activation, each by its name."""

from planner.folds import Largest, Total, smallest
from planner.formulas.memory_activations import PROFILE, tensor
from planner.formulas.memory_states import device_whole
from planner.notation import L_ks, M_work, k_c, k_red
from planner.quantity import quantity

FSDP = "PyTorch FSDP2 (fully_shard on each layer and on the root)"


# -- tensors of a moment -------------------------------------------------------------------------


@quantity(
    "memory.buffers.loss",
    symbol=r"M_{\mathrm{loss},\sigma}",
    unit="bytes",
    title="temporary tensors of the loss and of the head's backward pass",
    source=PROFILE,
    per=("stage",),
)
def loss():
    """Only the stage with the head has them."""
    return Total(L_ks * Total(tensor, "tensor", moment="loss"), "part", part="head")


@quantity(
    "memory.buffers.layer",
    symbol=r"M_{\mathrm{bwd},\sigma}",
    unit="bytes",
    title="temporary tensors of the backward pass of one layer",
    source=PROFILE,
    per=("stage",),
)
def layer():
    """The layer kind with most."""
    return Largest(
        smallest(1, L_ks) * Total(tensor, "tensor", moment="backward"), "part", layers=True
    )


# -- weights gathered and gradients reduced ------------------------------------------------------


@quantity(
    "memory.buffers.gathered_part",
    symbol=r"G_k",
    unit="bytes",
    title="weights of one layer, gathered",
    source=FSDP,
    per=("part",),
)
def gathered_part():
    """The whole weights in the format that the matmuls take."""
    return k_c * Total(device_whole, "component")


GATHERED = {
    "identifier": "memory.buffers.gathered",
    "symbol": r"M_{\mathrm{gat},\sigma}",
    "unit": "bytes",
    "title": "weights in the compute format on one device of a stage",
    "per": ("stage",),
}


@quantity(
    **GATHERED,
    source=FSDP,
    when={"parallelism.zero": 3},
)
def gathered_sharded():
    """The root's group (embedding and head) stays gathered; of the layers, one is worked on and the
    next one is on its way."""
    return Total(L_ks * gathered_part, "part", layers=False) + 2 * Largest(
        smallest(1, L_ks) * gathered_part, "part", layers=True
    )


@quantity(
    **GATHERED,
    source="autocast keeps its copies until the end of the forward pass",
    when={"parallelism.zero": (0, 1, 2)},
)
def gathered_copies():
    """Where weights are kept wider than the matmuls take them, a copy of all of them."""
    return Total(L_ks * gathered_part, "part")


REDUCED = {
    "identifier": "memory.buffers.reduced",
    "symbol": r"M_{\mathrm{red},\sigma}",
    "unit": "bytes",
    "title": "gradients of one layer on their way to their shards",
    "per": ("stage",),
}


@quantity(**REDUCED, source=FSDP, when={"parallelism.zero": 3})
def reduced_sharded():
    """The whole gradients of the largest layer, in the format in which they are summed."""
    return Largest(
        smallest(1, L_ks) * k_red * Total(device_whole, "component"), "part", layers=True
    )


@quantity(
    **REDUCED,
    source="gradients are summed where they lie",
    when={"parallelism.zero": (0, 1, 2)},
)
def reduced_in_place():
    """No further buffer."""
    return 0


# -- what lives in which phase -------------------------------------------------------------------

LIVE = {
    "identifier": "memory.buffers.live",
    "symbol": r"M_{\mathrm{buf},\sigma\varphi}",
    "unit": "bytes",
    "title": "buffers on one device of a stage in a phase",
    "source": PROFILE,
    "per": ("stage", "phase"),
}


@quantity(**LIVE, when={"phase": "loss"})
def buffers_live():
    """Temporary tensors of the loss, weights in the compute format, workspace."""
    return loss + gathered_copies + M_work


@quantity(**LIVE, when={"phase": "backward"})
def buffers_live_backward():
    """Temporary tensors of a layer, weights in the compute format, gradients on their way."""
    return layer + gathered_copies + reduced_in_place + M_work


@quantity(**LIVE, when={"phase": "gradients"})
def buffers_live_gradients():
    """Gradients on their way."""
    return reduced_in_place + M_work


@quantity(**LIVE, when={"phase": "step"})
def buffers_live_step():
    """The workspace only."""
    return M_work
