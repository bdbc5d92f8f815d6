"""Predicted time of the optimizer: what its update reads and writes, Muon's matrix products, what
its sharding sends, or the way to the host's memory and back."""

from typing import Any

from planner.book.formulas.layout import shards as owners
from planner.book.formulas.memory_states import ALIKE, each, inputs, outputs, trained
from planner.book.formulas.network import hops, passed
from planner.book.formulas.time_core import half
from planner.book.formulas.time_peak import peak_16
from planner.book.notation import (
    copies,
    e,
    held_sc,
    k_c,
    k_g,
    k_m,
    k_o,
    k_w,
    n,
    n_node,
)
from planner.book.notation_hardware import B_dram, B_host, W, e_16, e_mem
from planner.book.quantity import quantity
from planner.book.reductions import Largest, Total, largest, smallest

SECONDS: dict[str, Any] = {"unit": "s", "exact": False}
JORDAN = "Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks"
MOONLIGHT = "Liu et al. 2025 (arXiv 2502.16982), section 2.3"
OPTIMIZER_KEY, KERNEL = "training.optimizer", "training.optimizer_kernel"
ONE_KERNEL: dict[str, Any] = {KERNEL: "fused"}
OPERATIONS: dict[str, Any] = {KERNEL: ("foreach", "loop")}
MATRIX: dict[str, Any] = {"hidden matrix": True}
HIDDEN: dict[str, Any] = {OPTIMIZER_KEY: "muon", **MATRIX}
OUTSIDE: dict[str, Any] = {OPTIMIZER_KEY: "muon", "hidden matrix": False}

# -- memory traffic ----------------------------------------------------------------------------

UPDATE: dict[str, Any] = {
    "identifier": "time.update",
    "symbol": r"D_{\mathrm{upd}}",
    "unit": "bytes",
    "title": "memory traffic of the update, for each parameter of a component",
    "per": ("component",),
}
ONCE: dict[str, Any] = {**UPDATE, "source": "one kernel: every value is read and written once"}


def _once():
    return 2 * (k_w + k_m + each) + k_g


@quantity(**ONCE, when={OPTIMIZER_KEY: ("adamw", "sgd-momentum", "lion"), **ONE_KERNEL})
def update():
    """Weights, master weights and states are read and written, gradients read."""
    return _once()


@quantity(
    **{**UPDATE, "source": "PyTorch, torch.optim.sgd: one operation; bitsandbytes: one kernel"},
    when={OPTIMIZER_KEY: ("sgd", "adam-8bit")},
)
def update_of_one_kernel():
    """However it is asked for, one kernel: weights, master weights and states are read and written,
    gradients read."""
    return _once()


def _adamw_operations():
    return 4 * (k_w + k_m) + 16 * k_o + k_g


ADAMW_SOURCE = "PyTorch, torch.optim.adamw: operations on whole tensors"


@quantity(**UPDATE, source=ADAMW_SOURCE, when={OPTIMIZER_KEY: "adamw", **OPERATIONS})
def update_of_operations():
    """Each operation reads and writes for itself: of the weight decay (2 accesses) and step (2), of
    a state's width first moment (3), second moment (5), its root, correction and offset (6) and
    what the step reads (2), and the gradient."""
    return _adamw_operations()


@quantity(
    **UPDATE,
    source="PyTorch, torch.optim.sgd: operations on whole tensors",
    when={OPTIMIZER_KEY: "sgd-momentum", **OPERATIONS},
)
def update_of_momentum():
    """The momentum is scaled (2 accesses), the gradient added (2 and the gradient), and the step
    reads it (1) and reads and writes the weight (2)."""
    return 2 * (k_w + k_m) + 5 * k_o + k_g


@quantity(
    **UPDATE,
    source="google/automl, lion_pytorch.py: operations on whole tensors",
    when={OPTIMIZER_KEY: "lion", **OPERATIONS},
)
def update_of_lion():
    """Decay (2 accesses of the weight); momentum and gradient are scaled and added (7, of which 1
    of the gradient), the sign taken (2) and the step made (3, of which 2 of the weight); the
    momentum is scaled and the gradient added (5, of which 1 of the gradient)."""
    return 4 * (k_w + k_m) + 13 * k_o + 2 * k_g


ADAFACTOR = "transformers, optimization.py (Adafactor); Shazeer & Stern 2018 (arXiv 1804.04235)"


@quantity(**UPDATE, source=ADAFACTOR, when={OPTIMIZER_KEY: "adafactor", **ONE_KERNEL})
def update_of_adafactor():
    """Gradients are read for the sums of rows and columns and once more for the step, which reads
    and writes weights and master weights; the states are read and written."""
    return _once() + k_g


@quantity(**UPDATE, source=ADAFACTOR, when={OPTIMIZER_KEY: "adafactor", **OPERATIONS})
def update_of_adafactor_operations():
    """The gradient's square (1 access of the gradient and 1), its offset (2), the sums of rows and
    columns (2), their product (1) with the gradient (1 of it and 2), its mean square (1), two
    scalings (4) and the step (1, and 2 of the weight); the states are read and written."""
    return 2 * (k_w + k_m + each) + 14 * k_o + 2 * k_g


@quantity(**UPDATE, source=JORDAN, when={**HIDDEN, **ONE_KERNEL})
def update_of_muon():
    """Weights, master weights and momentum are read and written, gradients read; the momentum's
    copy in the compute format is written, read for its norm, and read again as the update."""
    return _once() + 3 * k_c


@quantity(**UPDATE, source=JORDAN, when={**HIDDEN, **OPERATIONS})
def update_of_muon_operations():
    """Of the weight decay (2 accesses) and step (2); the momentum's mean (2 and the gradient),
    Nesterov's step (2 and the gradient) and its copy (1); in the compute format that copy (1), its
    norm (1), its scaling (2) and what the step reads (1)."""
    return 4 * (k_w + k_m) + 5 * k_o + 2 * k_g + 5 * k_c


@quantity(**ONCE, when={**OUTSIDE, **ONE_KERNEL})
def update_outside():
    """As AdamW: weights, master weights and states are read and written, gradients read."""
    return _once()


@quantity(**UPDATE, source=ADAMW_SOURCE, when={**OUTSIDE, **OPERATIONS})
def update_outside_of_operations():
    """As AdamW's operations."""
    return _adamw_operations()


# -- Muon's products ---------------------------------------------------------------------------

MATRICES: dict[str, Any] = {
    "identifier": "time.orthogonal.matrices",
    "symbol": r"n_{\perp}",
    "unit": "1",
    "title": "matrices of a component on one tensor and expert rank",
    "source": "layout",
    "per": ("component",),
}


@quantity(**MATRICES, when={"split": ("none", "column", "row")})
def matrices():
    """Its copies."""
    return copies


@quantity(**MATRICES, when={"split": "experts"})
def matrices_of_experts():
    """One for each expert on the device."""
    return copies / e


@quantity(
    "time.orthogonal.flops",
    symbol=r"C_{\perp}",
    unit="FLOP",
    title="FLOPs that make the update of one matrix orthogonal",
    source=JORDAN,
    per=("component",),
    coefficient="FLOP",
    when=HIDDEN,
)
def flops():
    """Each tensor-parallel rank makes its own part orthogonal (Megatron-Core's blockwise mode), in
    five Newton-Schulz iterations of X with m rows and n columns, m the shorter side: A = X X^T
    (2 m m n), A A (2 m m m) and their sum times X (2 m m n)."""
    short, long = smallest(inputs, outputs), largest(inputs, outputs)
    return 5 * (4 * short**2 * long + 2 * short**3)


@quantity(
    "time.orthogonal.matrix",
    symbol=r"t_{\perp,c}",
    title="making the update of one matrix orthogonal",
    source=JORDAN,
    per=("component",),
    coefficient="FLOP",
    when=HIDDEN,
    **SECONDS,
)
def matrix():
    """At the rate of 16-bit products, the depth of each of three (n, m and m) with what shallow
    ones lack."""
    short, long = smallest(inputs, outputs), largest(inputs, outputs)
    lacking = 5 * 2 * half * (2 * short**2 + short * long)
    return (flops + lacking) / (e_16 * peak_16)


@quantity(
    "time.orthogonal.matrix",
    symbol=r"t_{\perp,c}",
    title="making the update of one matrix orthogonal",
    source=JORDAN,
    per=("component",),
    when=OUTSIDE,
    **SECONDS,
)
def matrix_outside():
    """AdamW updates embeddings, head and vectors."""
    return 0


ORTHOGONAL: dict[str, Any] = {
    "identifier": "time.orthogonal",
    "symbol": r"t_{\perp}",
    "title": "Muon's products",
    **SECONDS,
}
NOT_MUON = (*ALIKE, "adafactor")


@quantity(**ORTHOGONAL, source="definition", when={OPTIMIZER_KEY: NOT_MUON})
def orthogonal_none():
    """None."""
    return 0


@quantity(**ORTHOGONAL, source=JORDAN, when={OPTIMIZER_KEY: "muon", "parallelism.zero": 0})
def orthogonal():
    """Every device does all matrices of its stage."""
    return Largest(Total(held_sc * matrices * matrix, "component", **MATRIX), "stage")


@quantity(
    **ORTHOGONAL, source=MOONLIGHT, when={OPTIMIZER_KEY: "muon", "parallelism.zero": (1, 2, 3)}
)
def orthogonal_divided():
    """Whole matrices are divided over the devices that share them (Megatron-Core's layer-wise
    distributed optimizer); the device that does most does one at least."""
    even = Total(held_sc * matrices * matrix / owners, "component", **MATRIX)
    return largest(Largest(even, "stage"), Largest(matrix, "component", **MATRIX))


MOMENTUM: dict[str, Any] = {
    "identifier": "time.momentum",
    "symbol": r"t_{\mathrm{mom}}",
    "title": "gathering momentum, so that a device has the whole of its matrices",
    **SECONDS,
}


@quantity(**MOMENTUM, source="definition", when={OPTIMIZER_KEY: NOT_MUON})
def momentum_none():
    """A parameter's update needs no other parameter."""
    return 0


@quantity(**MOMENTUM, source=MOONLIGHT, when={OPTIMIZER_KEY: "muon", "parallelism.zero": 0})
def momentum_whole():
    """Every device has the whole momentum."""
    return 0


@quantity(**MOMENTUM, source=MOONLIGHT, when={OPTIMIZER_KEY: "muon", "parallelism.zero": (1, 2, 3)})
def momentum():
    """In the compute format, from all that share a matrix to the one that does it: a share of what
    gathering everything on every device would pass."""
    shares = Total(held_sc * trained * passed / owners, "component", **MATRIX)
    return k_c * Largest(shares, "stage") + hops


# -- the update --------------------------------------------------------------------------------

OPTIMIZER: dict[str, Any] = {
    "identifier": "time.optimizer",
    "symbol": r"t_{\mathrm{opt}}",
    "title": "the optimizer's update",
    "source": "bytes read and written over the memory's bandwidth",
    **SECONDS,
}


STAYS: dict[str, Any] = {"training.offload.optimizer": False}
LEAVES: dict[str, Any] = {"training.offload.optimizer": True, OPTIMIZER_KEY: NOT_MUON}
ON_HOST: dict[str, Any] = {**OPTIMIZER, "source": "Ren et al. 2021 (arXiv 2101.06840), section 4"}


@quantity(**OPTIMIZER, when={"parallelism.zero": 0, **STAYS})
def optimizer():
    """The update of all parameters that the device holds, and Muon's products."""
    bytes_moved = Largest(Total(held_sc * trained * update, "component"), "stage")
    return bytes_moved / (W * e_mem) + orthogonal_none + momentum_none


@quantity(**OPTIMIZER, when={"parallelism.zero": (1, 2, 3), **STAYS})
def optimizer_sharded():
    """As without sharding, for the part that the device keeps, and what Muon gathers."""
    bytes_moved = Largest(Total(held_sc * trained * update / owners, "component"), "stage")
    return bytes_moved / (W * e_mem) + orthogonal_none + momentum_none


def _on_host():
    """Seconds for each parameter that a device owns."""
    return (k_g + k_c) / B_host + _once() * smallest(n, n_node) / B_dram


@quantity(**ON_HOST, when={"parallelism.zero": 0, **LEAVES})
def optimizer_on_host():
    """Gradients go to the host and weights come back; there weights, master weights and states are
    read and written, gradients read, at the rate of its memory, which the devices share."""
    return Largest(Total(held_sc * trained * _on_host(), "component"), "stage")


@quantity(**ON_HOST, when={"parallelism.zero": (1, 2, 3), **LEAVES})
def optimizer_on_host_sharded():
    """As without sharding, for the part that the device keeps."""
    return Largest(Total(held_sc * trained * _on_host() / owners, "component"), "stage")
