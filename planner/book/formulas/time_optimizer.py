"""Predicted time of the optimizer: what its update reads and writes, Muon's matrix products, what
its sharding sends, or the way to the host's memory and back."""

from planner.book.formulas.layout import shards as owners
from planner.book.formulas.memory_states import ALIKE, each, inputs, outputs, trained
from planner.book.formulas.network import hops, passed
from planner.book.formulas.time_core import half
from planner.book.formulas.time_peak import peak_16
from planner.book.language import *

JORDAN = "Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks"
OPERATIONS = ("foreach", "loop")
WHOLE_TENSORS = "operations on whole tensors"
ADAMW = f"PyTorch, torch.optim.adamw: {WHOLE_TENSORS}"

# -- memory traffic ----------------------------------------------------------------------------

_once = 2 * (k_w + k_m + each) + k_g
update = bytes_of_component(
    "time.update", "D_upd", "memory traffic of the update, for each parameter of a component"
)
update.by(ONE_KERNEL, optimizer=("adamw", "sgd-momentum", "lion"), optimizer_kernel="fused").equals(
    _once, "Weights, master weights and states are read and written, gradients read."
)
update.by(
    "PyTorch, torch.optim.sgd: one operation; bitsandbytes: one kernel",
    optimizer=("sgd", "adam-8bit"),
).equals(
    _once,
    "However it is asked for, one kernel: weights, master weights and states are read and written, "
    "gradients read.",
)

_adamw_operations = 4 * (k_w + k_m) + 16 * k_o + k_g
update.by(ADAMW, optimizer="adamw", optimizer_kernel=OPERATIONS).equals(
    _adamw_operations,
    "Each operation reads and writes for itself: of the weight decay (2 accesses) and step (2), of "
    "a state's width first moment (3), second moment (5), its root, correction and offset (6) and "
    "what the step reads (2), and the gradient.",
)
update.by(
    f"PyTorch, torch.optim.sgd: {WHOLE_TENSORS}",
    optimizer="sgd-momentum",
    optimizer_kernel=OPERATIONS,
).equals(
    2 * (k_w + k_m) + 5 * k_o + k_g,
    "The momentum is scaled (2 accesses), the gradient added (2 and the gradient), and the step "
    "reads it (1) and reads and writes the weight (2).",
)
update.by(
    f"google/automl, lion_pytorch.py: {WHOLE_TENSORS}",
    optimizer="lion",
    optimizer_kernel=OPERATIONS,
).equals(
    4 * (k_w + k_m) + 13 * k_o + 2 * k_g,
    "Decay (2 accesses of the weight); momentum and gradient are scaled and added (7, of which 1 "
    "of the gradient), the sign taken (2) and the step made (3, of which 2 of the weight); the "
    "momentum is scaled and the gradient added (5, of which 1 of the gradient).",
)

ADAFACTOR = f"transformers, optimization.py (Adafactor); {SHAZEER}"

update.by(ADAFACTOR, optimizer="adafactor", optimizer_kernel="fused").equals(
    _once + k_g,
    "Gradients are read for the sums of rows and columns and once more for the step, which reads "
    "and writes weights and master weights; the states are read and written.",
)
update.by(ADAFACTOR, optimizer="adafactor", optimizer_kernel=OPERATIONS).equals(
    2 * (k_w + k_m + each) + 14 * k_o + 2 * k_g,
    "The gradient's square (1 access of the gradient and 1), its offset (2), the sums of rows and "
    "columns (2), their product (1) with the gradient (1 of it and 2), its mean square (1), two "
    "scalings (4) and the step (1, and 2 of the weight); the states are read and written.",
)
update.by(JORDAN, optimizer="muon", hidden_matrix=True, optimizer_kernel="fused").equals(
    _once + 3 * k_c,
    "Weights, master weights and momentum are read and written, gradients read; the momentum's "
    "copy in the compute format is written, read for its norm, and read again as the update.",
)
update.by(JORDAN, optimizer="muon", hidden_matrix=True, optimizer_kernel=OPERATIONS).equals(
    4 * (k_w + k_m) + 5 * k_o + 2 * k_g + 5 * k_c,
    "Of the weight decay (2 accesses) and step (2); the momentum's mean (2 and the gradient), "
    "Nesterov's step (2 and the gradient) and its copy (1); in the compute format that copy (1), "
    "its norm (1), its scaling (2) and what the step reads (1).",
)
update.by(ONE_KERNEL, optimizer="muon", hidden_matrix=False, optimizer_kernel="fused").equals(
    _once, "As AdamW: weights, master weights and states are read and written, gradients read."
)
update.by(ADAMW, optimizer="muon", hidden_matrix=False, optimizer_kernel=OPERATIONS).equals(
    _adamw_operations, "As AdamW's operations."
)

# -- Muon's products ---------------------------------------------------------------------------

matrices = Quantity(
    "time.orthogonal.matrices",
    r"n_{\perp}",
    "matrices of a component on one tensor and expert rank",
    source="layout",
    per="component",
)
matrices.where(split=("none", "column", "row")).equals(copies, "Its copies.")
matrices.where(split="experts").equals(copies / e, "One for each expert on the device.")

_short, _long = minimum(inputs, outputs), maximum(inputs, outputs)
flops = Quantity(
    "time.orthogonal.flops",
    r"C_{\perp}",
    "FLOPs that make the update of one matrix orthogonal",
    unit="FLOP",
    source=JORDAN,
    per="component",
    coefficient="FLOP",
    optimizer="muon",
    hidden_matrix=True,
).equals(
    5 * (4 * _short**2 * _long + 2 * _short**3),
    "Each tensor-parallel rank makes its own part orthogonal (Megatron-Core's blockwise mode), in "
    "five Newton-Schulz iterations of X with m rows and n columns, m the shorter side: A = X X^T "
    "(2 m m n), A A (2 m m m) and their sum times X (2 m m n).",
)

matrix = seconds(
    "time.orthogonal.matrix",
    r"t_{\perp,c}",
    "making the update of one matrix orthogonal",
    source=JORDAN,
    per="component",
)

_lacking = 5 * 2 * half * (2 * _short**2 + _short * _long)
matrix.where(optimizer="muon", hidden_matrix=True, coefficient="FLOP").equals(
    (flops + _lacking) / (e_16 * peak_16),
    "At the rate of 16-bit products, the depth of each of three (n, m and m) with what shallow "
    "ones lack.",
)
matrix.where(optimizer="muon", hidden_matrix=False).equals(
    0, "AdamW updates embeddings, head and vectors."
)

NOT_MUON = (*ALIKE, "adafactor")

orthogonal = seconds("time.orthogonal", r"t_{\perp}", "Muon's products")
orthogonal.by("definition", optimizer=NOT_MUON).equals(0, "None.")
orthogonal.by(JORDAN, optimizer="muon", zero=0).equals(
    on_fullest_stage(matrices * matrix, hidden_matrix=True),
    "Every device does all matrices of its stage.",
)
orthogonal.by(MOONLIGHT, optimizer="muon", zero=(1, 2, 3)).equals(
    maximum(
        on_fullest_stage(matrices * matrix / owners, hidden_matrix=True),
        Max(matrix, "component", hidden_matrix=True),
    ),
    "Whole matrices are divided over the devices that share them (Megatron-Core's layer-wise "
    "distributed optimizer); the device that does most does one at least.",
)

momentum = seconds(
    "time.momentum", "t_mom", "gathering momentum, so that a device has the whole of its matrices"
)
momentum.by("definition", optimizer=NOT_MUON).equals(
    0, "A parameter's update needs no other parameter."
)
momentum.by(MOONLIGHT, optimizer="muon", zero=0).equals(0, "Every device has the whole momentum.")
momentum.by(MOONLIGHT, optimizer="muon", zero=(1, 2, 3)).equals(
    k_c * on_fullest_stage(trained * passed / owners, hidden_matrix=True) + hops,
    "In the compute format, from all that share a matrix to the one that does it: a share of what "
    "gathering everything on every device would pass.",
)

# -- the update --------------------------------------------------------------------------------

optimizer = seconds(
    "time.optimizer",
    "t_opt",
    "the optimizer's update",
    short="update of the weights",
    attribution="optimizer",
    source="bytes read and written over the memory's bandwidth",
)
optimizer.where(zero=0, offload_optimizer=False).equals(
    on_fullest_stage(trained * update) / (W * e_mem) + orthogonal + momentum,
    "The update of all parameters that the device holds, and Muon's products.",
)
optimizer.where(zero=(1, 2, 3), offload_optimizer=False).equals(
    on_fullest_stage(trained * update / owners) / (W * e_mem) + orthogonal + momentum,
    "As without sharding, for the part that the device keeps, and what Muon gathers.",
)

#: Seconds for each parameter that a device owns.
_on_host = (k_g + k_c) / B_host + _once * minimum(n, n_host) / B_dram
optimizer.by(f"{REN}, section 4", zero=0, offload_optimizer=True, optimizer=NOT_MUON).equals(
    on_fullest_stage(trained * _on_host),
    "Gradients go to the host and weights come back; there weights, master weights and states are "
    "read and written, gradients read, at the rate of its memory, which the devices share.",
)
optimizer.by(
    f"{REN}, section 4", zero=(1, 2, 3), offload_optimizer=True, optimizer=NOT_MUON
).equals(
    on_fullest_stage(trained * _on_host / owners),
    "As without sharding, for the part that the device keeps.",
)
