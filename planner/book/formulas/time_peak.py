"""Dense peaks: a datasheet's figure in its convention, halved once where it assumes sparsity."""

from planner.book.language import *

of_device = partial(Quantity, unit="FLOP/s")
peak = of_device("time.peak", "R", "dense peak rate of one device in the training precision")
peak_16 = of_device("time.peak_16", "R_16", "dense peak rate of one device in 16 bit")

for _peak, _listed, _convention in (
    (peak, P_listed, "peak_convention"),
    (peak_16, P_16, "peak_16_convention"),
):
    _peak.by(
        "datasheet of the accelerator; it prints the dense rate", **{_convention: "dense"}
    ).equals(_listed, "The datasheet's figure as it stands.")
    _peak.by(
        "datasheet of the accelerator; it prints the rate with 2:4 sparsity",
        **{_convention: "sparse"},
    ).equals(
        _listed / 2,
        "Two of four weights are taken as zero in the printed rate, so the dense rate is half.",
    )
