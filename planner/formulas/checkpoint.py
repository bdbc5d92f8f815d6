"""What a checkpoint holds and how long it takes to write."""

from planner.formulas.memory_states import per_parameter
from planner.formulas.parameters import total
from planner.notation import k_m, k_w
from planner.notation_hardware import B_sto, x_blk
from planner.quantity import quantity


@quantity(
    "checkpoint.bytes",
    symbol=r"M_{\mathrm{ckpt}}",
    unit="bytes",
    title="size of a checkpoint",
    source="weights, master weights and optimizer states, each once",
)
def size():
    """Bytes of a weight, its master copy and its optimizer states for each parameter; gradients are
    not saved."""
    return (k_w + k_m + per_parameter) * total


@quantity(
    "checkpoint.write_seconds",
    symbol=r"t_{\mathrm{ckpt}}",
    unit="s",
    title="time to write a checkpoint",
    source="cluster.storage",
    exact=False,
)
def write():
    """All devices together write it once."""
    return size / B_sto


@quantity(
    "checkpoint.stall_seconds",
    symbol=r"t_{\mathrm{stall}}",
    unit="s",
    title="time that training stands still for a checkpoint",
    source="cluster.storage",
    exact=False,
)
def stall():
    """All of the writing, or the share of it that is not done beside training
    (cluster.storage.blocking)."""
    return write * x_blk
