"""Dense peaks: a datasheet's figure in its convention, halved once where it assumes sparsity."""

from planner.book.notation import P_16, P_listed
from planner.book.quantity import Quantity

DENSE = "datasheet of the accelerator; it prints the dense rate"
SPARSE = "datasheet of the accelerator; it prints the rate with 2:4 sparsity"

peak = Quantity(
    "time.peak",
    symbol="R",
    unit="FLOP/s",
    title="dense peak rate of one device in the training precision",
)
peak.equals(P_listed, "The datasheet's figure as it stands.", peak_convention="dense", source=DENSE)


@peak.where(peak_convention="sparse", source=SPARSE)
def _():
    """Two of four weights are taken as zero in the printed rate, so the dense rate is half."""
    return P_listed / 2


peak_16 = Quantity(
    "time.peak_16", symbol="R_{16}", unit="FLOP/s", title="dense peak rate of one device in 16 bit"
)
peak_16.equals(
    P_16, "The datasheet's figure as it stands.", peak_16_convention="dense", source=DENSE
)


@peak_16.where(peak_16_convention="sparse", source=SPARSE)
def _():
    """Two of four weights are taken as zero in the printed rate, so the dense rate is half."""
    return P_16 / 2
