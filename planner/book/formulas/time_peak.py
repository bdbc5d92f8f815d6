"""Dense peaks: a datasheet's figure in its convention, halved once where it assumes sparsity."""

from typing import Any

from planner.book.notation_hardware import P_16, P_listed
from planner.book.quantity import quantity

DENSE = "datasheet of the accelerator; it prints the dense rate"
SPARSE = "datasheet of the accelerator; it prints the rate with 2:4 sparsity"
PEAK: dict[str, Any] = {
    "identifier": "time.peak",
    "symbol": "R",
    "unit": "FLOP/s",
    "title": "dense peak rate of one device in the training precision",
}
CONVENTION = "cluster.accelerator.peak.convention"


@quantity(**PEAK, source=DENSE, when={CONVENTION: "dense"})
def peak():
    """The datasheet's figure as it stands."""
    return P_listed


@quantity(**PEAK, source=SPARSE, when={CONVENTION: "sparse"})
def peak_of_sparse():
    """Two of four weights are taken as zero in the printed rate, so the dense rate is half."""
    return P_listed / 2


PEAK_16: dict[str, Any] = {
    "identifier": "time.peak_16",
    "symbol": "R_{16}",
    "unit": "FLOP/s",
    "title": "dense peak rate of one device in 16 bit",
}
CONVENTION_16 = "cluster.accelerator.peak_16.convention"


@quantity(**PEAK_16, source=DENSE, when={CONVENTION_16: "dense"})
def peak_16():
    """The datasheet's figure as it stands."""
    return P_16


@quantity(**PEAK_16, source=SPARSE, when={CONVENTION_16: "sparse"})
def peak_16_of_sparse():
    """Two of four weights are taken as zero in the printed rate, so the dense rate is half."""
    return P_16 / 2
