"""Predicted time of a layer of one micro-batch: what is computed again, what the host launches,
what travels beside."""

from typing import Any

from planner.book.formulas.compute import ELSE, MODULES
from planner.book.formulas.memory_activations import layer as kept
from planner.book.formulas.memory_states import device_whole
from planner.book.formulas.network import hops, passed
from planner.book.formulas.time_core import context_forward, core_forward
from planner.book.formulas.time_layer import (
    CALIBRATED,
    IN_TURN,
    PART,
    backward,
    elementwise,
    exchange,
    exchanges,
    forward,
)
from planner.book.formulas.time_product import forward as product_forward
from planner.book.notation import c, f_off, k_gat, k_red, t
from planner.book.notation_hardware import (
    B_host,
    f_back,
    f_disp,
    hidden_t,
    n_ends,
    n_la,
    n_ring,
    t_la,
    x_busy,
)
from planner.book.quantity import quantity
from planner.book.reductions import Total, largest, smallest

# -- what is computed again --------------------------------------------------------------------

AGAIN: dict[str, Any] = {
    "identifier": "time.block.again",
    "symbol": r"t_{\mathrm{re}}",
    "unit": "s",
    "title": "what the backward pass computes again of a block",
    "exact": False,
    "per": ("block",),
}


@quantity(
    **AGAIN,
    source="Korthikanti et al. 2022 (arXiv 2205.05198), section 5; Megatron-Core, "
    "transformer/attention.py (checkpoint_core_attention)",
    when={"block": "attention", "time.again.core_attention": True},
)
def again_core():
    """The attention core, with the keys and values of other ranks: what backward needs of it was
    not kept."""
    return core_forward + context_forward


@quantity(
    **AGAIN,
    source="Dao et al. 2022 (arXiv 2205.14135), section 3.1: the backward kernel computes the "
    "scores again by itself; Megatron-LM (recompute-modules)",
    when={"block": "attention", "time.again.core_attention": False},
)
def again_core_none():
    """Nothing: its core is kept, or is a fused one of an implementation that does not run it
    again."""
    return 0


@quantity(**AGAIN, source=MODULES, when={"block": "norm", "time.again.norm": True})
def again_norm():
    """The norm."""
    return elementwise


@quantity(**AGAIN, source=MODULES, when={"block": "norm", "time.again.norm": False})
def again_norm_none():
    """It is kept."""
    return 0


def declare_feed_forward(kind: str) -> None:
    """Dense and routed feed-forwards are chosen by their own names."""
    whole, activation = f"time.again.{kind}", "time.again.activation"

    @quantity(**AGAIN, source=MODULES, when={"block": kind, whole: True})
    def again_block():
        """The whole block: products, elementwise kernels and exchanges."""
        return Total(product_forward, "product") + elementwise + exchange

    @quantity(**AGAIN, source=MODULES, when={"block": kind, whole: False, activation: True})
    def again_activation():
        """The activation between its products."""
        return elementwise

    @quantity(**AGAIN, source=MODULES, when={"block": kind, whole: False, activation: False})
    def again_nothing():
        """It is kept."""
        return 0


declare_feed_forward("mlp")
declare_feed_forward("moe")


@quantity(**AGAIN, source=MODULES, when={"block": ELSE})
def again_else():
    """Nothing of it can be chosen."""
    return 0


REPEATED: dict[str, Any] = {
    "identifier": "time.part.repeated",
    "symbol": r"t_R",
    "title": "what the backward pass of a layer computes again",
    **PART,
}
CHECKPOINTS = "Chen et al. 2016 (arXiv 1604.06174); Megatron-LM (recompute-granularity full)"
SELECTIVE: dict[str, Any] = {"training.recompute": "selective"}


@quantity(**REPEATED, source="definition", when={"training.recompute": "none"})
def repeated():
    """Nothing."""
    return 0


@quantity(**REPEATED, source=MODULES, when={**SELECTIVE, "time.again.operations": False})
def repeated_modules():
    """The chosen modules (training.recompute_modules) of its blocks."""
    return Total(again_core, "block")


@quantity(
    **REPEATED,
    source="torchtitan, models/common (per-operation selective checkpointing)",
    when={**SELECTIVE, "time.again.operations": True},
)
def repeated_operations():
    """Every second product and all elementwise kernels; attention and exchanges are kept."""
    return Total(product_forward, "product") / 2 + Total(elementwise, "block")


@quantity(**REPEATED, source=CHECKPOINTS, when={"training.recompute": "full", "layers": True})
def repeated_layer():
    """The whole forward pass of the layer, with its exchanges."""
    return forward


@quantity(**REPEATED, source=CHECKPOINTS, when={"training.recompute": "full", "layers": False})
def repeated_ends():
    """Embedding and head are not computed again."""
    return 0


# -- host ------------------------------------------------------------------------------------


@quantity(
    "time.part.launches",
    symbol=r"n_\ell",
    unit="1",
    title="kernels that the host launches for one pass of a layer",
    source=CALIBRATED,
    exact=False,
    per=("part",),
    when={"layers": True},
)
def launches():
    """Those of the layer, one more for each exchange with tensor-parallel ranks, and some for each
    further block of keys and values (send, receive, attention, and the sum of its outputs)."""
    return n_la + Total(exchanges, "block") * (t - 1) / 2 + n_ring * (c - 1)


HOST: dict[str, Any] = {
    "identifier": "time.part.host",
    "symbol": r"t_H",
    "title": "host time of a layer: launches of its kernels",
    "source": CALIBRATED,
    **PART,
}


@quantity(**HOST, when={"layers": False})
def host_ends():
    """Launches forward and backward, for lookup, logits and loss."""
    return n_ends * t_la


@quantity(**HOST, when={"layers": True, "training.recompute": ("none", "selective")})
def host():
    """Launches once forward and twice backward."""
    return 3 * launches * t_la


@quantity(**HOST, when={"layers": True, "training.recompute": "full"})
def host_repeated():
    """Launches twice forward and twice backward."""
    return 4 * launches * t_la


GATHERS: dict[str, Any] = {
    "identifier": "time.part.gathers",
    "symbol": r"t_G",
    "title": "gathering a layer's weights and scattering its gradients",
    **PART,
}


@quantity(
    **GATHERS,
    source="Rajbhandari et al. 2020 (arXiv 1910.02054), section 5: weights stay whole",
    when={"parallelism.zero": (0, 1, 2)},
)
def gathers_none():
    """Every device holds its weights."""
    return 0


FSDP = "Zhao et al. 2023 (arXiv 2304.11277), section 3"


@quantity(**GATHERS, source=FSDP, when={"parallelism.zero": 3, "parallelism.reshard": True})
def gathers():
    """Weights are gathered (training.bytes.gather) for the forward and for the backward pass,
    gradients reduced and scattered in theirs: three rings over the group."""
    return (2 * k_gat + k_red) * Total(device_whole * passed, "component") + 3 * hops


@quantity(
    **GATHERS,
    source="PyTorch, fully_shard (reshard_after_forward)",
    when={"parallelism.zero": 3, "parallelism.reshard": False},
)
def gathers_once():
    """Weights stay gathered from the forward to the backward pass of a micro-batch: two rings."""
    return (k_gat + k_red) * Total(device_whole * passed, "component") + 2 * hops


# -- host memory -------------------------------------------------------------------------------

OFFLOAD: dict[str, Any] = {
    "identifier": "time.part.offload",
    "symbol": r"t_{\mathrm{off}}",
    "title": "activations of a layer on their way to the host and back",
    **PART,
}
ZERO_INFINITY = "Rajbhandari et al. 2021 (arXiv 2104.07857), section 5.1.2"


@quantity(**OFFLOAD, source=ZERO_INFINITY, when={"time.offload": False})
def offload_none():
    """They stay on the device."""
    return 0


@quantity(**OFFLOAD, source=ZERO_INFINITY, when={"time.offload": True})
def offload():
    """They leave beside the forward pass and return beside the backward pass, whichever of device
    and host is at work: what takes longer than the pass shows."""
    way = f_off * kept / B_host
    return largest(0, way - (1 - f_back) * busy) + largest(0, way - f_back * busy)


# -- a layer -----------------------------------------------------------------------------------

BUSY: dict[str, Any] = {
    "identifier": "time.part.busy",
    "symbol": r"t_{\mathrm{busy}}",
    "title": "device or host at work on a layer",
    **PART,
}


@quantity(
    "time.part.device",
    symbol=r"t_D",
    title="device time of a layer: forward, backward and what is computed again",
    source="sum of its passes",
    **PART,
)
def device():
    """One pass after another."""
    return forward + backward + repeated


def _longer():
    """The length of two sides at a right angle, were the power 2; with a higher one the corner is
    sharper."""
    longer, shorter = largest(device, host_ends), smallest(device, host_ends)
    return longer * (1 + (shorter / longer) ** x_busy) ** (1 / x_busy)


@quantity(**BUSY, source=CALIBRATED, when={"training.schedule": IN_TURN})
def busy():
    """The device waits for the host where kernels are short: the longer of the two, rounded where
    they are alike."""
    return _longer()


@quantity(**BUSY, source=CALIBRATED, when={"training.schedule": "dualpipe", "time.expert": "none"})
def busy_without_exchange():
    """The device waits for the host where kernels are short: the longer of the two, rounded where
    they are alike."""
    return _longer()


@quantity(
    **BUSY,
    source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.2",
    when={"training.schedule": "dualpipe", "time.expert": ("node", "nodes")},
)
def busy_beside_exchange():
    """The exchanges that run beside the products take multiprocessors from them."""
    return _longer() / (1 - f_disp)


@quantity(
    "time.part",
    symbol=r"t_\ell",
    title="a layer, forward and backward, of one micro-batch",
    source=CALIBRATED,
    **PART,
)
def part():
    """What device or host are at work on; the gathers, less the share that this hides; and what
    shows of the way to the host."""
    return busy + gathers_none - smallest(hidden_t * gathers_none, busy) + offload_none
