"""What PyTorch's FLOP counter counts, to compare plans with measurements of real software.

Beside matmuls it counts convolutions with their padding, attention kernels' own recomputation and
whatever activation checkpointing runs again.
"""

from functools import partial

from planner.book.formulas.compute import again, backward, forward, keys
from planner.book.notation import *
from planner.book.quantity import Quantity
from planner.book.reductions import Sum

COUNTER = "torch.utils.flop_counter of PyTorch 2.13"

flops = partial(Quantity, unit="FLOP", source=COUNTER)
of_shape = partial(flops, shape=True)

convolution = Quantity(
    "compute.convolution",
    r"C_{\mathrm{conv},c}",
    "forward FLOPs of one depthwise convolution, per token",
    unit="FLOP",
    source=COUNTER,
    per="component",
    coefficient="FLOP",
    type="conv",
).equals(
    2 * n_in * n_out * (s + n_in - 1) / s,
    "Each channel has one multiply-add for each position of the kernel; padding on both sides "
    "makes n_in - 1 more outputs, which are cut off.",
)

convolutions = of_shape(
    "compute.convolution_flops_per_token",
    r"C_{\mathrm{conv}}",
    "forward FLOPs of depthwise convolutions, per token",
).equals(
    Sum(L_k * Sum(convolution, "component", type="conv"), "part"),
    "Each part as often as it occurs.",
)

convolutions_backward = of_shape(
    "compute.convolution_backward_flops_per_token",
    r"C_{\mathrm{conv}}'",
    "backward FLOPs of depthwise convolutions as the counter has them, per token",
).equals(
    Sum(L_k * Sum(convolution * (1 + n_out), "component", type="conv"), "part"),
    "As much again for the gradient of the input; that of the kernel is counted as if the "
    "convolution were dense, once for each of the n_out channels.",
)

scores_again = Quantity(
    "compute.scores_again_flops_per_token",
    r"C_{\mathrm{qk}}",
    "FLOPs of attention scores that the kernel computes again in backward, per token",
    unit="FLOP",
)
scores_again.where(training_attention="eager", source=COUNTER).equals(0, "The scores were kept.")
scores_again.where(
    training_attention=("flash", "efficient"),
    shape=True,
    source="Dao et al. 2022 (arXiv 2205.14135), algorithm 4",
    coefficient="FLOP",
).equals(
    Sum(L_k * Sum(2 * keys * n_in, "component", type="core"), "part"),
    "Backward makes the scores anew from queries and keys: five products instead of four.",
)

convolutions_again = flops(
    "compute.convolution_again_flops_per_token",
    r"C_{\mathrm{conv}}^{\mathrm{ckpt}}",
    "FLOPs of convolutions that activation checkpointing runs again, per token",
)
convolutions_again.where(recompute=("none", "selective")).equals(0, "None runs again.")
convolutions_again.where(recompute="full", shape=True).equals(
    convolutions, "Every layer runs forward once more."
)

counter_forward = of_shape(
    "compute.counter_forward_flops",
    r"C_{\mathrm{fwd}}^{\mathrm{count}}",
    "forward pass of one micro-batch as PyTorch's counter counts it",
).equals(b * s * (forward + convolutions), "All tokens of the micro-batch.")

_recomputed = scores_again + again + convolutions_again
counter_backward = of_shape(
    "compute.counter_backward_flops",
    r"C_{\mathrm{bwd}}^{\mathrm{count}}",
    "backward pass of one micro-batch as PyTorch's counter counts it",
).equals(
    b * s * (backward + convolutions_backward + _recomputed),
    "The products of the backward pass and all that is computed again for it.",
)
