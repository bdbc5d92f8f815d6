"""What a checkpoint holds and how long it takes to write."""

from planner.book.formulas.memory_states import each, per_parameter
from planner.book.formulas.parameters import component, parameters_total
from planner.book.language import *

ADAPTERS = "Hu et al. 2021 (arXiv 2106.09685), section 4.2: the checkpoint is that of the adapters"

of_writing = partial(seconds, source="cluster.storage")

size = in_bytes("checkpoint.bytes", "M_ckpt", "size of a checkpoint")
_ONCE = "weights, master weights and optimizer states, each once"
size.by(_ONCE, lora=False, towers=("none", "trained")).equals(
    (k_w + k_m + per_parameter) * parameters_total,
    "Bytes of a weight, its master copy and its optimizer states for each parameter; gradients are "
    "not saved.",
)
size.by(_ONCE, lora=False, towers="frozen").equals(
    k_w * parameters_total
    + Sum(L_k * Sum((k_m + each) * component, "component"), "part", fixed=False),
    "Bytes of a weight for each parameter; master copies and optimizer states of those that are "
    "trained.",
)

_pair = copies * (k_l * (n_in + n_out) + p_dora * n_out)
#: Both matrices and the magnitudes of every adapter, with what training keeps of them.
_adapters = Sum(L_k * Sum((k_w + k_m + each) * _pair, "component", adapted=True), "part")
#: Whole weights that are trained beside the adapters.
_adapters += Sum(L_k * Sum((k_w + k_m + each) * component, "component", lora=False), "part")
size.by(
    ADAPTERS, lora=True, lora_checkpoint="adapters", title="size of a checkpoint of the adapters"
).equals(
    _adapters,
    "Two matrices of rank r (and magnitudes) beside each projection that has an adapter, and "
    "weights trained in full, with their optimizer states; frozen weights stay where they came "
    "from (training.lora.checkpoint: adapters).",
)
size.by(
    ADAPTERS, lora=True, lora_checkpoint="merged", title="size of a checkpoint with merged weights"
).equals(
    _adapters + k_a * parameters_total,
    "Adapters and their optimizer states, and all weights with the adapters added to them, in the "
    "format of the matmuls (training.lora.checkpoint: merged).",
)

write = of_writing("checkpoint.write_seconds", "t_ckpt", "time to write a checkpoint").equals(
    size / B_sto, "All devices together write it once."
)

stall = of_writing(
    "checkpoint.stall_seconds", "t_stall", "time that training stands still for a checkpoint"
).equals(
    write * x_blk,
    "All of the writing, or the share of it that is not done beside training "
    "(cluster.storage.blocking).",
)
