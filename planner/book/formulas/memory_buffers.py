"""Buffers: what is neither state nor kept activation, each by its name."""

from planner.book.formulas.layout import state_ranks
from planner.book.formulas.memory_activations import tensor
from planner.book.formulas.memory_states import (
    QLORA,
    device_parameters,
    gathered_component,
    held_weights,
    inputs,
    outputs,
    trained,
)
from planner.book.language import *

FSDP = "PyTorch FSDP2 (fully_shard on each layer and on the root)"

of_stage = partial(bytes_of_stage, source=PROFILE)
of_phase = partial(in_bytes, per="stage phase", source=FSDP)

# -- tensors of a moment -------------------------------------------------------------------------

_alive = partial(Sum, tensor, "tensor")

loss = of_stage(
    "memory.buffers.loss",
    r"M_loss,\sigma",
    "temporary tensors of the loss and of the head's backward pass",
)
_of_loss = sum_on_stage(_alive(moment="loss"), part="head")
loss.where(training_loss=("full", "vocab-parallel", "in-place", "chunked", "fused")).equals(
    _of_loss, "Only the stage with the head has them."
)
loss.where(training_loss=("chunked-cast", "chunked-linear")).equals(
    maximum(_of_loss, sum_on_stage(_alive(moment="head"), part="head")),
    "Of the loss, or of the backward pass of the head's matmuls, which comes later.",
)

layer = of_stage(
    "memory.buffers.layer", r"M_bwd,\sigma", "temporary tensors of the backward pass of one block"
).equals(
    max_on_stage(Max(_alive(moment="backward"), "block"), head=False),
    "The block with most: of a layer of any kind, or the embedding.",
)

# -- weights gathered and gradients reduced ------------------------------------------------------

gathered_part = bytes_of_part(
    "memory.buffers.gathered_part", r"G_k", "weights of one layer, gathered", source=FSDP
).equals(
    Sum(gathered_component, "component", shared=False),
    "The whole weights, trained and frozen, each in its format.",
)

gathered = of_phase(
    "memory.buffers.gathered",
    r"M_gat,\sigma\varphi",
    "weights in the compute format on one device of a stage",
)
_root = sum_on_stage(gathered_part, layers=False)
_layer = max_on_stage(gathered_part, layers=True)
_units = partial(gathered.where, zero=3, bucketed=False)
_units(reshard=True, split_root=False, phase="loss").equals(
    _root + _layer, "The root's group (embedding and head) and the last layer."
)
_units(reshard=True, split_root=False, phase="backward").equals(
    _root + 2 * _layer,
    "The root's group stays gathered; of the layers, one is worked on and the next one is on its "
    "way.",
)
_units(split_root=False, phase="first").equals(_root + _layer, "The root's group and this layer.")
#: Embedding and head are let go of as layers are: one of them at a time lies beside a layer.
OF_OWN = "torchtune, training/_distributed.py (shard_model); PyTorch FSDP2, _fsdp_param_group.py"
_own = max_on_stage(gathered_part, layers=False)
_apart = partial(gathered.by, OF_OWN, zero=3, bucketed=False, split_root=True)
_apart(reshard=True, phase="loss").equals(
    _own + _layer, "The head, and the last layer, which its backward pass fetches ahead."
)
_apart(reshard=True, phase="backward").equals(
    2 * _layer, "The layer that is worked on, and the next one, which is on its way."
)
_apart(phase="first").equals(
    _own + _layer, "This layer, and the embedding, which its backward pass fetches ahead."
)
_units(reshard=False, phase=("loss", "backward")).equals(
    sum_on_stage(gathered_part), "All of them: nothing is let go of between forward and backward."
)
_units(phase="gradients").equals(
    sum_on_stage(k_c * Sum(trained, "component", shared=False), part="embedding"),
    "The root's weights are let go of; the embedding's gradient, if it is trained, is as large as "
    "its table.",
)
#: DeepSpeed gathers modules one by one and reduces gradients one by one, through a bucket.
ONE_BY_ONE = "DeepSpeed 0.19.5, runtime/zero/partitioned_param_coordinator.py and stage3.py"
_module = max_on_stage(Max(gathered_component, "component"))
_ones = partial(gathered.by, ONE_BY_ONE, zero=3, bucketed=True)
_ones(phase=("loss", "backward")).equals(
    minimum(sum_on_stage(gathered_part), maximum(N_live * k_c, _module)),
    "Modules that the backward pass uses again soon stay gathered, up to N_live parameters; at "
    "least the largest one.",
)
_ones(phase=("first", "gradients")).equals(
    _module, "The largest module: in the backward pass each is let go of after its use."
)
gathered.by(
    "PyTorch autocast (copies are kept until the end of the forward pass)",
    zero=(0, 1, 2),
    copies=True,
    phase="loss",
).equals(
    sum_on_stage(k_c * Sum(trained, "component", type="linear")),
    "Weights are kept wider than the matmuls take them: a copy of every matrix that is trained. "
    "Frozen ones are used as they lie.",
)
gathered.by(
    "the matmuls take the weights as they lie", zero=(0, 1, 2), copies=False, phase="loss"
).equals(0, "No copy.")
gathered.by(
    "the backward pass makes no copies", zero=(0, 1, 2), phase=("backward", "first", "gradients")
).equals(0, "No copy.")
gathered.by("the optimizer works on shards", phase="step").equals(0, "No copy.")

fetched = (
    of_stage(
        "memory.buffers.fetched",
        r"M_fet,\sigma",
        "weights of one layer that were fetched from the host, before they are gathered",
    )
    .by("PyTorch FSDP2, _fsdp_param.py (all_gather_inputs)")
    .equals(
        f_w * max_on_stage(Sum(held_weights, "component")),
        "A layer's shard passes through the device.",
    )
)

reduced = of_phase(
    "memory.buffers.reduced", r"M_red,\sigma\varphi", "whole gradients on their way to their shards"
)
_of_head = sum_on_stage(k_c * Sum(trained, "component"), part="head")
_of_matrix = max_on_stage(k_c * Max(trained, "component"), layers=True)
#: Trained, without those that are counted elsewhere.
_own_parameters = Sum(trained, "component", shared=False)
_in_units = partial(reduced.where, zero=3, bucketed=False)
_in_units(phase="backward").equals(
    _of_head + _of_matrix,
    "The head's gradient, which waits for the rest of the root's group, and that of one matrix.",
)
_in_units(phase="first").equals(
    _of_head + _of_matrix + max_on_stage(k_red * _own_parameters, layers=True),
    "The same, and the layer before on its way to its shards.",
)
_of_root = (k_c + k_red) * _own_parameters
_in_units(split_root=False, phase="gradients").equals(
    sum_on_stage(_of_root, layers=False),
    "The root's group (embedding and head): gradients as they are made and as they are summed.",
)
_in_units(split_root=True, phase="gradients").equals(
    max_on_stage(_of_root, layers=False),
    "The embedding's gradient as it is made and as it is summed.",
)
reduced.by(ONE_BY_ONE, zero=3, bucketed=True, phase=("backward", "first", "gradients")).equals(
    k_c * max_on_stage(Max(trained, "component")),
    "The gradient of one matrix as it is made; what is summed lies in the buckets.",
)
reduced.by("nothing is reduced", zero=3, phase=("loss", "step")).equals(
    0, "No gradient is on its way."
)
reduced.by("gradients are summed where they lie", zero=(0, 1, 2)).equals(0, "No further buffer.")

step = of_stage("memory.buffers.step", r"M_step,\sigma", "temporary tensors of the optimizer step")
step.by(
    "PyTorch (torch.optim, fused): weights are updated in place",
    optimizer_kernel="fused",
    copied=False,
).equals(0, "None.")
#: Whole, or the device's shards of them.
for _zero, _each in (((0, 1, 2), trained), (3, trained / state_ranks)):
    step.by(
        "PyTorch (torch.optim, foreach): the denominator of the update, for all weights at once",
        optimizer_kernel="foreach",
        optimizer_step="whole",
        zero=_zero,
        copied=False,
    ).equals(
        (1 - f_o) * k_o * Sum(copies_on_stage * _each, "component"),
        "One number in the format of a state for each trained weight that the device holds.",
    )
    for _one_by_one in (
        {"optimizer_kernel": "loop", "optimizer_step": "whole"},
        {"optimizer_kernel": ("foreach", "loop"), "optimizer_step": "in-backward"},
    ):
        step.by(
            "PyTorch (torch.optim, one tensor after the other)",
            zero=_zero,
            copied=False,
            **_one_by_one,
        ).equals(
            (1 - f_o) * k_o * max_on_stage(Max(_each, "component")),
            "One number in the format of a state for each trained weight of the largest tensor.",
        )

for _zero, _each in ((0, trained), ((1, 2, 3), trained / state_ranks)):
    step.by(
        "DeepSpeed 0.9.5 and 0.19.5, runtime/zero/stage_1_and_2.py (step) and stage3.py "
        "(_prepare_fp32_grad_for_sub_group)",
        zero=_zero,
        copied=True,
    ).equals(
        (1 - f_o) * (k_g + k_m) * minimum(N_upd, Sum(copies_on_stage * _each, "component")),
        "Gradients are laid side by side and then cast to the format of the master weights, while "
        "they are there themselves.",
    )

# -- what is there for the whole run -----------------------------------------------------------

dummies = of_stage(
    "memory.buffers.dummies",
    r"M_dum,\sigma",
    "placeholder gradients of the weights",
    source="TransformerEngine (get_dummy_wgrad), Megatron-LM (gradient-accumulation fusion)",
)
_placeholder = k_c * first_on_stage * trained
dummies.where(dummies=True).equals(
    Sum(_placeholder, "component", type="linear", routed=False)
    + Sum(_placeholder * e / copies, "component", type="linear", routed=True),
    "Gradients are added to the fp32 buffer where they are made; autograd gets a placeholder in "
    "the compute format, one for each distinct trained shape (of one expert), kept for ever.",
)
dummies.where(dummies=False).equals(0, "Autograd hands the gradients over.")

workspace = of_stage(
    "memory.buffers.workspace", r"M_ws,\sigma", "workspaces of the matmul libraries"
)
workspace.by(
    "PyTorch (CUBLAS_WORKSPACE_CONFIG: 32 MiB from Hopper on)", head_workspace=False
).equals(n_ws * M_work, "One for each thread that starts matmuls.")
workspace.by(
    "PyTorch and TransformerEngine: one workspace each", head_workspace=True, experts=False
).equals(
    M_work + sum_on_stage(M_work, part="head"),
    "TransformerEngine has one for the layers, PyTorch one for the head.",
)
workspace.by(
    "PyTorch and TransformerEngine (grouped matmuls run on four streams)",
    head_workspace=True,
    experts=True,
).equals(
    M_work + sum_on_stage(M_work, part="head") + max_on_stage(4 * M_work, experts=True),
    "As for a dense model; with experts, four more for the streams of grouped matmuls.",
)

buckets = in_bytes(
    "memory.buffers.buckets",
    "M_bk",
    "buckets in which gradients are reduced and weights gathered",
    source="DeepSpeed (reduce_bucket_size, allgather_bucket_size)",
).equals(
    n_bk * N_bk * k_red,
    "So many buckets of so many parameters, in the format in which gradients are summed.",
)

live_parameters = in_bytes(
    "memory.buffers.live_parameters",
    "M_lp",
    "weights kept gathered besides the layers at work",
    source="DeepSpeed (stage3_max_live_parameters)",
)
live_parameters.where(zero=3, bucketed=False).equals(
    N_live * k_c, "So many parameters in the format that the matmuls take; none under FSDP2."
)
live_parameters.by(ONE_BY_ONE, zero=3, bucketed=True).equals(0, "They are among the gathered.")
live_parameters.where(zero=(0, 1, 2)).equals(0, "Weights are not divided.")

quantized = of_stage(
    "memory.buffers.quantized", r"M_quant,\sigma", "weights in the format of quantized products"
)
quantized.by(
    "TransformerEngine, module/base.py (get_weight_workspace); on Hopper a transposed copy "
    "for the backward pass too (github.com/NVIDIA/TransformerEngine/issues/1880)",
    zero=(0, 1, 2),
).equals(
    sum_on_stage(
        k_quant * Sum(device_parameters, "component", type="linear", wide=False), layers=True
    ),
    "Cast in the first micro-batch and kept for the others, beside the weights themselves.",
)
quantized.by("PyTorch, torchao.float8: a gathered weight is cast for each product", zero=3).equals(
    0, "Casts of gathered weights do not outlive their product."
)

unpacked = of_stage("memory.buffers.unpacked", r"M_unp,\sigma", "frozen weights being unpacked")
unpacked.by("weights are as the matmuls take them", quantised=False).equals(0, "None.")
unpacked.by(f"{QLORA} (bitsandbytes, MatMul4Bit)", quantised=True).equals(
    k_c * max_on_stage(Max(inputs * outputs, "component", hidden_matrix=True), layers=True),
    "One matrix at a time is written in the compute format for its product.",
)

constant = of_stage(
    "memory.buffers.constant", r"M_con,\sigma", "buffers that are there for the whole run"
).equals(
    dummies + quantized + buckets + live_parameters + workspace + M_oth,
    "Placeholder gradients, quantized weights, buckets, live parameters, workspaces, and what the "
    "plan adds.",
)

# -- what lives in which phase -------------------------------------------------------------------

live = of_phase(
    "memory.buffers.live",
    r"M_buf,\sigma\varphi",
    "buffers on one device of a stage in a phase",
    attribution="buffers",
    source=PROFILE,
)
live.where(phase="loss").equals(
    loss + gathered + fetched + constant,
    "Temporary tensors of the loss, weights in the compute format, workspace.",
)
_at_end = gathered + reduced + constant
_in_layer = _at_end + layer + unpacked + fetched
_IN_LAYER = "Temporary tensors of a layer, weights in the compute format, gradients on their way"
live.where(phase="backward").equals(_in_layer, f"{_IN_LAYER}.")
for _step, _more, _too in (("whole", 0, "."), ("in-backward", step, ", the update of a weight.")):
    live.where(phase="first", optimizer_step=_step).equals(_in_layer + _more, _IN_LAYER + _too)
    live.where(phase="gradients", optimizer_step=_step).equals(
        _at_end + _more, "Weights in the compute format, gradients on their way, workspace" + _too
    )
live.where(phase="serving").equals(constant, "Buffers of the whole run.")
live.where(phase="step").equals(step + constant, "Temporary tensors of the optimizer, workspace.")
