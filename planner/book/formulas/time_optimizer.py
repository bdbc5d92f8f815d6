"""Predicted time of the optimizer: what its update reads and writes, the matrix products of Muon
and SOAP, what its sharding sends, or the way to the host's memory and back."""

from planner.book.formulas.layout import state_ranks
from planner.book.formulas.memory import evicted
from planner.book.formulas.memory_states import (
    ALIKE,
    SOAP,
    basis_columns,
    basis_rows,
    each,
    inputs,
    outputs,
    trained,
)
from planner.book.formulas.network import fabric, hops, link, passed
from planner.book.formulas.time_core import half
from planner.book.formulas.time_peak import peak_16
from planner.book.formulas.time_product import TILES, kernel, waves
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
    3 * (k_w + k_m) + 2 * each + 16 * k_o + 2 * k_g,
    "The weight's mean square (1 access of it); the gradient's square (1 access of the gradient "
    "and 1), its offset (2), the sums of rows and columns (2), their product (1) with the gradient "
    "(1 of it and 2), its mean square (1), two scalings (4), its negative (2) and the step (1, and "
    "2 of the weight); the states are read and written.",
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
update.by(f"{SOAP} (soap.py)", optimizer="soap", matrix=True).equals(
    5 * (k_w + k_m) + 20 * k_o + k_g,
    "However it is asked for, operations on whole tensors: of the weight step (2 accesses) and "
    "decay (3); first moment (5), second moment with the square (7), its root and offset (4), "
    "their quotient (3) and what the step reads (1); and the gradient.",
)
for _vectors in (
    {"optimizer": "soap", "matrix": False},
    {"optimizer": "muon", "hidden_matrix": False},
):
    update.by(ONE_KERNEL, **_vectors, optimizer_kernel="fused").equals(
        _once, "As AdamW: weights, master weights and states are read and written, gradients read."
    )
    update.by(ADAMW, **_vectors, optimizer_kernel=OPERATIONS).equals(
        _adamw_operations, "As AdamW's operations."
    )

# -- the products of Muon and SOAP --------------------------------------------------------------

MODES = "Megatron-Core, muon-tp-mode; emerging_optimizers, muon_utils.py (newton_schulz_tp)"

matrices = Quantity(
    "time.orthogonal.matrices",
    r"n_{\perp}",
    "matrices of a component on one tensor and expert rank",
    source="layout",
    per="component",
)
_SIDE_BY_SIDE = "what lies side by side is one matrix."
matrices.where(split=("none", "column", "row", "vocabulary")).equals(
    copies / n_side, f"Its copies; {_SIDE_BY_SIDE}"
)
matrices.where(split="experts").equals(
    copies / (e * n_side), f"One for each expert on the device; {_SIDE_BY_SIDE}"
)

of_muon = partial(Quantity, per="component", optimizer="muon", hidden_matrix=True)
#: Rows and columns that a device holds, with what lies beside them.
_rows, _columns = inputs, outputs * n_side
_shorter = minimum(_rows, _columns)

square = of_muon(
    "time.orthogonal.square",
    r"m_{\perp}",
    "side of the square products that make the update of a matrix orthogonal",
    source=MODES,
)
square.where(tensor="none").equals(_shorter, "The shorter side of the matrix.")
square.where(tensor=DIVIDED, tensor_mode="blockwise").equals(
    _shorter, "The shorter side of what the device has."
)
_GATHERED, _SPREAD = ("duplicated", "distributed")
square.where(tensor=DIVIDED, tensor_mode=(_GATHERED, _SPREAD), split="none").equals(
    _shorter, "The matrix is not divided: its shorter side."
)
square.where(tensor=DIVIDED, tensor_mode=_GATHERED, split=("column", "row")).equals(
    minimum(n_in, n_out * n_side), "The shorter side of the whole matrix."
)
square.where(tensor=DIVIDED, tensor_mode=_GATHERED, split="experts").equals(
    minimum(_rows, _columns * t_e), "The shorter side of the whole expert."
)
_UNDIVIDED = "The side that is not divided, whether or not it is the shorter one."
square.where(tensor=DIVIDED, tensor_mode=_SPREAD, split=("column", "experts")).equals(
    _rows, _UNDIVIDED
)
square.where(tensor=DIVIDED, tensor_mode=_SPREAD, split="row").equals(_columns, _UNDIVIDED)

size = of_muon(
    "time.orthogonal.size",
    r"N_{\perp}",
    "values of the matrix that a device makes orthogonal",
    source=MODES,
)
_HELD = "Those that it holds."
size.where(tensor="none").equals(_rows * _columns, _HELD)
size.where(tensor=DIVIDED, tensor_mode=("blockwise", _SPREAD)).equals(_rows * _columns, _HELD)
size.where(tensor=DIVIDED, tensor_mode=_GATHERED).equals(
    n_in * n_out * n_side, "Those of the whole matrix."
)

flops = of_muon(
    "time.orthogonal.flops",
    r"C_{\perp}",
    "FLOPs that make the update of one matrix orthogonal",
    unit="FLOP",
    source=JORDAN,
    coefficient="FLOP",
)
_PRODUCTS = (
    "Newton-Schulz iterations of X with m rows and n columns: A = X X^T (2 m m n), A A (2 m m m) "
    "and their sum times X (2 m m n)"
)
flops.where(symmetric=False).equals(n_ns * (4 * square * size + 2 * square**3), f"{_PRODUCTS}.")
flops.by(f"{JORDAN}; Megatron-Core, muon-use-syrk", symmetric=True).equals(
    n_ns * (3 * square * size + square**3),
    f"{_PRODUCTS}; of the first two, which are symmetric, half is worked out.",
)

ways = seconds(
    "time.orthogonal.exchange",
    r"t_{\perp,x}",
    "what tensor-parallel ranks exchange to make the update of one matrix orthogonal",
    source=MODES,
    per="component",
    optimizer="muon",
    hidden_matrix=True,
)
_ALONE = "Each does its own part, or there is one."
ways.where(tensor="none").equals(0, _ALONE)
ways.where(tensor=DIVIDED, tensor_mode="blockwise").equals(0, _ALONE)
ways.where(tensor=DIVIDED, tensor_mode=(_GATHERED, _SPREAD), split="none").equals(
    0, "The matrix is not divided."
)
_CUT = ("column", "row", "experts")
#: Values of the matrix that other ranks hold.
_elsewhere = n_in * n_out * n_side - _rows * _columns
#: Rate, and hops, of a ring over the tensor-parallel ranks.
_RINGS = {
    "node": (link, (t - 1) * a_link),
    "nodes": (minimum(link, fabric * n_node), (t / n_node - 1) * a_net + (t - t / n_node) * a_link),
}
for _place, (_pace, _hops) in _RINGS.items():
    ways.where(tensor=_place, tensor_mode=_GATHERED, split=_CUT).equals(
        k_o * _elsewhere / _pace + _hops,
        "The momentum of all is gathered: what others hold passes each device once.",
    )
    ways.where(tensor=_place, tensor_mode=_SPREAD, split=_CUT).equals(
        n_ns * (2 * k_c * square**2 * _elsewhere / (n_in * n_out * n_side * _pace) + 2 * _hops),
        "In each iteration A is summed over the ranks, in the compute format: a ring passes twice "
        "what others hold of it.",
    )

of_matrix = partial(seconds, per="component")
matrix = of_matrix(
    "time.orthogonal.matrix",
    r"t_{\perp,c}",
    "the optimizer's products for the update of one matrix",
    source=JORDAN,
)


def _product(name: str, symbol: str, title: str, shape: tuple[Operand, Operand, Operand]) -> Any:
    """Declare one of the three matmuls of an iteration: its tile and wave waste, and its time."""
    waste = estimate(
        f"time.orthogonal.{name}_waste",
        f"q_{{{symbol}}}",
        f"tiles and waves of {title}",
        source=TILES,
        per="component",
        optimizer="muon",
        hidden_matrix=True,
    )
    waste.where(tiles=True).equals(
        waves(shape, 1, half), "As of other products: whole tiles in whole waves, the best way."
    )
    waste.where(tiles=False).equals(
        1, "How the device cuts products is not known: nothing is wasted."
    )
    return of_matrix(
        f"time.orthogonal.{name}",
        f"t_{{{symbol}}}",
        title,
        source=ROOFLINE,
        coefficient="FLOP",
        optimizer="muon",
        hidden_matrix=True,
    ).equals(
        kernel(shape, shape, 1, waste, e_16 * peak_16, half, k_c),
        "2 FLOP for each of rows, columns and depth, that with what shallow products lack, at the "
        "rate of 16-bit products; or the traffic of three matrices.",
    )


_long = size / square
gram = _product("gram", "XX", "a matrix times itself, X X^T", (square, square, _long))
squared = _product("squared", "AA", "the square of that, A A", (square, square, square))
applied_to = _product("applied", "BX", "their sum times the matrix", (square, _long, square))
_ITERATION = "The three products of each iteration, and what tensor ranks exchange for them"
matrix.where(optimizer="muon", hidden_matrix=True, symmetric=False).equals(
    n_ns * (gram + squared + applied_to) + ways, f"{_ITERATION}."
)
matrix.where(optimizer="muon", hidden_matrix=True, symmetric=True).equals(
    n_ns * ((gram + squared) / 2 + applied_to) + ways,
    f"{_ITERATION}; of the first two, which are symmetric, half is worked out.",
)
matrix.where(optimizer="muon", hidden_matrix=False).equals(
    0, "AdamW updates embeddings, head and vectors."
)
_cubes = basis_rows**3 + basis_columns**3
matrix.by(f"{SOAP} (soap.py)", optimizer="soap", matrix=True, coefficient="FLOP").equals(
    (10 * _rows * _columns * (basis_rows + basis_columns) + 6 * _cubes / n_basis) / (e_16 * P_32)
    + make_fraction(8, 3) * _cubes / (n_basis * e_qr * P_32),
    "For each side with a basis: gradient and update go through it once, the momentum back and "
    "forth, and the gradient is multiplied with itself (2 m m n each, in fp32); every so many "
    "steps the basis is renewed, by three products of 2 m m m and a QR decomposition (8/3 m m m).",
)
matrix.by(SOAP, optimizer="soap", matrix=False).equals(0, "As AdamW.")

NO_PRODUCTS = (*ALIKE, "adafactor")
OF_MATRICES = ("muon", "soap")

orthogonal = seconds(
    "time.orthogonal", r"t_{\perp}", "the optimizer's matrix products", attribution="optimizer"
)
orthogonal.by("definition", optimizer=NO_PRODUCTS).equals(0, "None.")
orthogonal.by(f"{JORDAN}; {SOAP}", optimizer=OF_MATRICES, zero=0).equals(
    max_over_stages(matrices * matrix, matrix=True), "Every device does all matrices of its stage."
)
orthogonal.by(MOONLIGHT, optimizer=OF_MATRICES, zero=(1, 2, 3)).equals(
    maximum(
        max_over_stages(matrices * matrix / state_ranks, matrix=True),
        Max(matrix, "component", matrix=True),
    ),
    "Whole matrices are divided over the devices that share them (Megatron-Core's layer-wise "
    "distributed optimizer); the device that does most does one at least.",
)

momentum = seconds(
    "time.momentum", "t_mom", "gathering momentum, so that a device has the whole of its matrices"
)
momentum.by("definition", optimizer=NO_PRODUCTS).equals(
    0, "A parameter's update needs no other parameter."
)
momentum.by(MOONLIGHT, optimizer=OF_MATRICES, zero=0).equals(
    0, "Every device has the whole momentum."
)
momentum.by(
    "Megatron-Core, layer_wise_optimizer.py",
    optimizer=OF_MATRICES,
    zero=(1, 2),
    optimizer_matrices="whole",
).equals(0, "A device owns whole matrices, and their gradients are summed where they are updated.")
for _stages, _shares in (((1, 2), {"optimizer_matrices": "parts"}), ((3,), {})):
    momentum.by(MOONLIGHT, optimizer=OF_MATRICES, zero=_stages, **_shares).equals(
        k_c * max_over_stages(trained * passed / state_ranks, hidden_matrix=True) + hops,
        "In the compute format, from all that share a matrix to the one that does it: a share of "
        "what gathering everything on every device would pass.",
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
paging = seconds("time.paging", "t_pag", "paged optimizer states on their way to the host and back")
paging.by("definition", optimizer_paged=False).equals(0, "None are paged.")
paging.by(
    "bitsandbytes, optim/optimizer.py (prefetch_state: one weight after the other)",
    optimizer_paged=True,
).equals(2 * evicted / B_host, "What has no room leaves and returns once a step.")
_ways = {0: 1, (1, 2, 3): state_ranks}
for _zero, _owners in _ways.items():
    optimizer.where(zero=_zero, host_update=False).equals(
        max_over_stages(trained * update / _owners) / (W * e_mem) + orthogonal + momentum + paging,
        "The update of all parameters that the device owns, the optimizer's products, the momentum "
        "that it gathers, and states that have no room.",
    )

#: Seconds on the host for each parameter that a device owns.
_in_dram = _once * minimum(n, n_host) / B_dram
_READS = (
    "On the host weights, master weights and states are read and written, gradients read, at the "
    "rate of its memory, which the devices share. The device updates the others."
)
for _source, _kept, _on_host, _why in (
    (
        "Megatron-Core, optimizer/cpu_offloading/hybrid_optimizer.py",
        "persistent",
        (k_g + k_c) / B_host + _in_dram,
        "Gradients go to the host before it, weights come back after it.",
    ),
    (
        f"{REN}, section 4; torchao, optim/cpu_offload.py",
        ("fresh", "passing"),
        maximum(_in_dram, k_c / B_host),
        "Beside it the weights that are done go to the device.",
    ),
):
    _each = f_o * _on_host + (1 - f_o) * update / (W * e_mem)
    for _zero, _owners in _ways.items():
        optimizer.by(
            _source, zero=_zero, host_update=True, optimizer=NO_PRODUCTS, gradients=_kept
        ).equals(max_over_stages(trained * _each / _owners), f"{_READS} {_why}")
