"""What PyTorch's FLOP counter counts, to compare plans with measurements of real software.

Beside matmuls it counts convolutions with their padding, attention kernels' own recomputation and
whatever activation checkpointing runs again.
"""

from functools import partial

from planner.book.formulas.compute import again, backward, forward, keys
from planner.book.notation import L_k, b, n_in, n_out, s
from planner.book.quantity import Quantity
from planner.book.reductions import Sum

COUNTER = "torch.utils.flop_counter of PyTorch 2.13"

flops = partial(Quantity, unit="FLOP", source=COUNTER)
of_shape = partial(flops, shape=True)


@Quantity(
    "compute.convolution",
    r"C_{\mathrm{conv},c}",
    "forward FLOPs of one depthwise convolution, per token",
    unit="FLOP",
    source=COUNTER,
    per="component",
    coefficient="FLOP",
    type="conv",
)
def convolution():
    """Each channel has one multiply-add for each position of the kernel; padding on both sides
    makes n_in - 1 more outputs, which are cut off."""
    return 2 * n_in * n_out * (s + n_in - 1) / s


@of_shape(
    "compute.convolution_flops_per_token",
    r"C_{\mathrm{conv}}",
    "forward FLOPs of depthwise convolutions, per token",
)
def convolutions():
    """Each part as often as it occurs."""
    return Sum(L_k * Sum(convolution, "component", type="conv"), "part")


@of_shape(
    "compute.convolution_backward_flops_per_token",
    r"C_{\mathrm{conv}}'",
    "backward FLOPs of depthwise convolutions as the counter has them, per token",
)
def convolutions_backward():
    """As much again for the gradient of the input; that of the kernel is counted as if the
    convolution were dense, once for each of the n_out channels."""
    return Sum(L_k * Sum(convolution * (1 + n_out), "component", type="conv"), "part")


scores_again = Quantity(
    "compute.scores_again_flops_per_token",
    r"C_{\mathrm{qk}}",
    "FLOPs of attention scores that the kernel computes again in backward, per token",
    unit="FLOP",
)
scores_again.where(training_attention="eager", source=COUNTER).equals(0, "The scores were kept.")


@scores_again.where(
    training_attention=("flash", "efficient"),
    shape=True,
    source="Dao et al. 2022 (arXiv 2205.14135), algorithm 4",
    coefficient="FLOP",
)
def _():
    """Backward makes the scores anew from queries and keys: five products instead of four."""
    return Sum(L_k * Sum(2 * keys * n_in, "component", type="core"), "part")


convolutions_again = flops(
    "compute.convolution_again_flops_per_token",
    r"C_{\mathrm{conv}}^{\mathrm{ckpt}}",
    "FLOPs of convolutions that activation checkpointing runs again, per token",
)
convolutions_again.where(recompute=("none", "selective")).equals(0, "None runs again.")
convolutions_again.where(recompute="full", shape=True).equals(
    convolutions, "Every layer runs forward once more."
)


@of_shape(
    "compute.counter_forward_flops",
    r"C_{\mathrm{fwd}}^{\mathrm{count}}",
    "forward pass of one micro-batch as PyTorch's counter counts it",
)
def counter_forward():
    """All tokens of the micro-batch."""
    return b * s * (forward + convolutions)


@of_shape(
    "compute.counter_backward_flops",
    r"C_{\mathrm{bwd}}^{\mathrm{count}}",
    "backward pass of one micro-batch as PyTorch's counter counts it",
)
def counter_backward():
    """The products of the backward pass and all that is computed again for it."""
    recomputed = scores_again + again + convolutions_again
    return b * s * (backward + convolutions_backward + recomputed)
