"""Activations: what the implementation's profile keeps, of each layer and micro-batch."""

from planner.book.formulas.layout import sequence_ranks, tokens
from planner.book.language import *

tensor = in_bytes(
    "memory.tensor",
    "M_j",
    "one tensor of a layer, of one micro-batch on one device",
    source=PROFILE,
    per="tensor",
).equals(
    rows_j * width_j * bytes_j / ranks_j,
    "Rows times width times bytes of an element, shared by some devices.",
)

input_ranks = Quantity(
    "memory.activations.input_ranks",
    "t_in",
    "devices that share the kept input of a recomputed layer",
)
input_ranks.by(KORTHIKANTI, partition_activations=False).equals(
    sequence_ranks, "As the residual stream is divided."
)
input_ranks.by(
    "Rajbhandari et al. 2020, section 6.1; Megatron-LM (distribute-saved-activations)",
    partition_activations=True,
).equals(t, "Divided over the tensor-parallel ranks and gathered again before use.")

kept_layer = bytes_of_part(
    "memory.activations.part", "M_act^{k}", "activations that one layer keeps of one micro-batch"
)
kept_layer.by(f"{PROFILE}; {KORTHIKANTI}, equations 1 to 4", recompute="none").equals(
    Sum(tensor, "tensor", moment="kept"),
    "Everything that the profile lists; tensors that several operations read are listed once.",
)
kept_layer.by(f"{PROFILE}; {KORTHIKANTI}, section 5 and equation 6", recompute="selective").equals(
    Sum(tensor, "tensor", moment="kept", recomputed="no"),
    "What belongs to a recomputed module (training.recompute_modules) is computed again.",
)
stream_bytes = in_bytes(
    "memory.activations.stream_bytes",
    "k_h",
    "bytes of an element of the residual stream",
    coefficient="bytes",
)
stream_bytes.by("training.bytes.activation", wide_stream="none").equals(
    k_a, "As another activation."
)
stream_bytes.by("training.bytes.gather", wide_stream="autocast", zero=3).equals(
    k_a, "As another activation: embedding and norms are gathered in the format of matmuls."
)
for _wide, _zero in {"autocast": (0, 1, 2), "prepared": (0, 1, 2, 3)}.items():
    stream_bytes.by(
        "PyTorch autocast, which casts for matmuls alone; PEFT, prepare_model_for_kbit_training",
        wide_stream=_wide,
        zero=_zero,
    ).equals(4, "Embedding and norms are fp32, and so are the sums of what they give.")
_INPUT = "The layer's input only; the rest is computed again."
_ONE_STREAM = {"recompute": "full", "streamed": False}
kept_layer.by(f"{KORTHIKANTI}, section 5: 2sbh", padded=False, **_ONE_STREAM).equals(
    stream_bytes * tokens * h / input_ranks, _INPUT
)
kept_layer.by(f"{KORTHIKANTI}, section 5: 2sbh", padded=True, **_ONE_STREAM).equals(
    stream_bytes * tokens * h / input_ranks * s_cap / s, f"{_INPUT} Of the longest micro-batch."
)
kept_layer.by(f"{KORTHIKANTI}, section 5: 2sbh", recompute="full", streamed=True).equals(
    stream_bytes
    * tokens
    * h
    * (Sum(n_alt, "block", block="altup") + Sum(n_hyp, "block", block="hyper"))
    / input_ranks,
    f"{_INPUT} It has all parts of the residual stream.",
)

largest_layer = in_bytes(
    "memory.activations.layer",
    r"M_act^{\ell}",
    "activations that one layer keeps of one micro-batch on one device",
    source="the layer kind that keeps most",
).equals(Max(kept_layer, "part", layers=True), "The largest over the layer kinds.")

again = bytes_of_part(
    "memory.activations.again",
    "M_re^{k}",
    "activations of one layer while it is computed again",
    source=f"{KORTHIKANTI}, section 5",
)
again.where(recompute="full", layers=True).equals(
    Sum(tensor, "tensor", moment="kept"),
    "Before its backward pass a layer's activations exist once, whatever was kept.",
)
again.where(recompute="selective", layers=True).equals(
    Sum(tensor, "tensor", moment="kept", recomputed="selective"), "The attention core of one layer."
)
again.where(recompute="none", layers=True).equals(0, "Nothing is computed again.")
again.where(layers=False).equals(0, "Embedding and head are not computed again.")

whole = bytes_of_part(
    "memory.activations.whole",
    "M_act^{k,0}",
    "activations that one layer would keep without recomputation",
    source=PROFILE,
).equals(Sum(tensor, "tensor", moment="kept"), "Everything that the profile lists.")

stays = Quantity(
    "memory.activations.offloaded",
    "f_dev",
    "share of the activations that stays on the device",
    source="training.offload.activations",
    within=SHARE,
).equals(1 - f_off, "The rest lies in the host's memory until the backward pass.")

_kept = recomputed_in_flight * kept_layer + (in_flight - recomputed_in_flight) * whole
layers = bytes_of_stage(
    "memory.activations.layers",
    r"M_act,\sigma^{L}",
    "activations that the layers of a stage keep, without embedding and head",
)
of_layers = Sum(_kept, "part", layers=True)
_EACH = (
    "Each layer kind as often as the stage holds it, for each micro-batch that is alive there; "
    "layers that are not recomputed keep everything."
)
_STAGES = f"Narayanan et al. 2021, section 2.2; {KORTHIKANTI}, equation 5 and section 4.2.3"
layers.by(_STAGES, offload=False).equals(of_layers, _EACH)
layers.by(f"{_STAGES}; TransformerEngine, cpu_offload.py", offload=True).equals(
    stays * of_layers + minimum((1 - stays) * of_layers, max_on_stage(kept_layer, layers=True)),
    f"{_EACH} Of what goes to the host one layer is still on its way.",
)

stage = bytes_of_stage(
    "memory.activations.stage",
    r"M_act,\sigma",
    "activations that one device of a stage keeps, of all micro-batches in flight",
    short="activations",
    source="layers, embedding and head",
).equals(
    layers + Sum(in_flight * whole, "part", layers=False),
    "What the layers keep, and embedding and head for each micro-batch that is alive there.",
)

#: Inputs of recomputed layers and their gradients, which FSDP1 holds beside adapters.
held = Sum(recomputed_in_flight * Sum(tensor, "tensor", moment="held"), "part", layers=True)
live = in_bytes(
    "memory.activations.live",
    r"M_act,\sigma\varphi",
    "activations on one device of a stage in a phase",
    attribution="activations",
    per="stage phase",
)
_embedding = Sum(in_flight * whole, "part", part="embedding")
live.by("end of the forward pass", phase="loss").equals(
    stage, "Everything that is kept, logits included."
)
live.by(f"{KORTHIKANTI}, section 5", phase="backward").equals(
    layers + _embedding + Max(minimum(1, recomputed_in_flight) * again, "part"),
    "The head has let go of its tensors; a layer that was not kept is computed again.",
)
live.by("last layer of the backward pass", phase="first").equals(
    max_on_stage(whole, layers=True) + _embedding + held,
    "One layer is left, in full, the embedding's tensors, and inputs that stay, each with its "
    "gradient.",
)
live.by("end of the backward pass", phase="gradients").equals(
    _embedding + held, "The embedding's tensors are left, and inputs that stay."
)
live.by("forward pass without gradients", phase="serving").equals(
    max_on_stage(whole, layers=True),
    "The tensors of one layer at a time; what sequences keep is the cache.",
)
live.by("optimizer step", phase="step").equals(0, "No activation survives the backward pass.")
