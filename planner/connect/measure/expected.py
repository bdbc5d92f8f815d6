"""What benchmarks should take, by the formulas that predict times: ordinary plan documents whose
one interesting rate is set to 1, so that the rate that a time stands for can be read off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from planner.base import resources
from planner.book.notation import D_X, P_listed, d_min, k_8, k_64
from planner.connect.measure.jobs import Attention, Collective, Elementwise, Launches, Product
from planner.documents import schema, source
from planner.engine import instance
from planner.engine.evaluate import Entry, Evaluation, Point
from planner.plans import kernels, plan
from planner.plans.document import Plan
from planner.results.result import Result, evaluate_entry, evaluate_plan

#: A rate at which nothing takes time beside what is looked at.
ENDLESS = 10**24
#: Precision recipes whose products run in a format.
PRECISIONS = {"fp32": "fp32", "tf32": "fp32", "bf16": "bf16", "fp16": "fp16", "fp8": "fp8"}
#: A plan of one small layer, but for what it runs on.
LAYER = resources.load_beside(__file__)
PASSES = ("forward", "backward")
Document = Mapping[str, Any]
Number = int | Fraction | float


def build_device(peak: Number, bandwidth: Number, more: Document | None = None) -> Document:
    """Build the document of an accelerator whose every format runs at one rate.

    Args:
        peak: dense FLOP/s.
        bandwidth: bytes/s of memory.
        more: further keys of its document.
    """
    figure = {"value": peak, "convention": "dense"}
    peaks = dict.fromkeys(("fp32", "bf16", "fp16", "fp8"), figure)
    return {"memory": 1, "memory_bandwidth": bandwidth, "peaks": peaks, **(more or {})}


def make_plan(accelerator: Document | str, changes: Document) -> Plan:
    """Make a plan of one layer on one node of accelerators, with other values of some keys."""
    devices = changes.get("parallelism.tensor", 1) * changes.get("parallelism.data", 1)
    node = {"accelerator": accelerator, "devices": devices, "devices_per_node": devices}
    return load_layer({"cluster": node, **changes})


def load_layer(changes: Document, overrides: Sequence[str] = ()) -> Plan:
    """Load a plan of one layer with other values of some keys, then each KEY=VALUE."""
    document = source.load(source.change_keys(LAYER, changes), overrides)
    return plan.build_plan(schema.validate(document, "plan"))


def find_value(made: Plan, identifier: str) -> Any:
    """Find the value of one quantity of a plan."""
    return evaluate_plan(made)[identifier].value


def to_dense(peak: Document) -> float:
    """Convert a figure of a datasheet to the dense rate that it stands for, FLOP/s."""
    facts = {**build_device(ENDLESS, ENDLESS), "peaks": {"fp32": peak}}
    return float(find_value(make_plan(facts, {}), "time.peak"))


def to_direction(link: Document) -> float:
    """Convert a figure of a datasheet's link to that of one direction, bytes/s."""
    pair = {"model.attention.heads": 2, "parallelism.tensor": 2, "time.efficiency.link": 1}
    return float(
        find_value(make_plan(build_device(ENDLESS, ENDLESS, {"link": link}), pair), "network.link")
    )


class ProductTime:
    """Predict the time of a product at any rate, by one evaluation in which few inputs change.

    Args:
        job: the product.
        more: further facts of the accelerator.

    Attributes:
        flops: FLOPs of the product.
        small_dimension: the built-in depth at which products run at half of their rate, for each
            TFLOP/s of a multiprocessor.
    """

    def __init__(self, job: Product, more: Document) -> None:
        made = make_plan(
            build_device(1, ENDLESS, more),
            {
                "model.hidden": job.depth,
                "model.mlp.intermediate": job.columns,
                "training.sequence_length": job.rows,
                "training.precision": PRECISIONS[job.form],
                "time.efficiency.matmul": 1,
            },
        )
        self.flops = job.flops
        self.small_dimension = made.get("time.efficiency.small_dimension")
        self.evaluation = Evaluation(instance.build(made))
        entries: Any = self.evaluation.case.axes["product"]
        self.point = {"product": next(entry for entry in entries if entry.name == "up")}

    def predict_time(self, rate: float, small: Number) -> float:
        """Predict the time, s, where large products run at `rate` FLOP/s, whatever their widths."""
        inputs = {P_listed: Fraction(rate), d_min: small, k_64: 1, k_8: 1}
        varied = self.evaluation
        for symbol, given in inputs.items():
            varied = varied.change_input(symbol, given)
        return float(varied.value("time.product.forward", self.point))

    def rate(self, seconds: float, small: Number) -> float:
        """Find the rate of large products, FLOP/s, at which it takes so long."""
        rate = self.flops / seconds
        for _ in range(3):
            once, twice = self.predict_time(rate, small), self.predict_time(2 * rate, small)
            falls = 2 * (once - twice)  # a in a/x + b, x in units of `rate`
            rest = once - falls
            if falls <= 0 or rest >= seconds:
                return 0.0
            rate *= falls / (seconds - rest)
        return rate


def predict_core(job: Attention, accelerator: Document) -> float:
    """Predict seconds of attention, both passes, at the whole of the kernel's rate."""
    vendor = job.kernel == "vendor"
    given = {**accelerator, "efficiency": {"attention": {"value": 1, "rows": "looked for"}}}
    made = make_plan(
        given if vendor else accelerator,
        {
            "model.hidden": job.heads * job.width,
            "model.attention.heads": job.heads,
            "model.attention.head_dim": job.width,
            "model.causal": job.causal,
            "training.sequence_length": job.length,
            "training.micro_batch": job.batch,
            "training.precision": PRECISIONS[job.form],
            "training.attention": "flash",
            "training.implementation": "megatron" if vendor else "pytorch",
            "time.efficiency.attention": 1,
        },
    )
    return sum(float(find_value(made, f"time.core.{way}[layer.attention]")) for way in PASSES)


def predict_pass(job: Elementwise, bandwidth: Number, share: Number) -> float:
    """Predict elementwise kernels of a layer and the loss, both passes in plain PyTorch, s.

    Args:
        job: tokens, width and format.
        bandwidth: bytes/s of memory.
        share: of it that kernels sustain.
    """

    def passes(factor: Number) -> float:
        made = make_plan(
            build_device(ENDLESS, bandwidth),
            {
                "model.hidden": job.hidden,
                "model.vocab": job.wide,
                "model.mlp.intermediate": job.wide,
                "training.sequence_length": job.tokens,
                "training.precision": PRECISIONS[job.form],
                "time.efficiency": {"memory": share, "elementwise": factor},
            },
        )
        parts = [f"time.part.{way}[{part}]" for way in PASSES for part in ("layer", "head")]
        return sum(float(find_value(made, part)) for part in parts)

    return passes(kernels.load_profile("pytorch")["time"]["elementwise"]) - passes(0)


def make_tiny(job: Launches) -> Plan:
    """Make the plan of layers that take no time but to be launched."""
    layers = {"model.layers": job.layers, "time.efficiency.launch": 1}
    return make_plan(build_device(ENDLESS, ENDLESS), layers)


def evaluate_group_collective(made: Plan, operation: str, size: Number) -> tuple[Result, Point]:
    """Evaluate one collective over the data-parallel group of a plan.

    Args:
        made: the plan.
        operation: one of ``OPERATIONS`` of the book's collectives.
        size: bytes, as nccl-tests counts them.

    Returns:
        The plan's result with the collective, and the point at which its quantities have values.
    """
    bindings, settings = {D_X: Fraction(size)}, {"operation": operation}
    entry = Entry("collective", operation, operation, bindings=bindings, settings=settings)
    return evaluate_entry(made, entry), {"collective": entry}


def predict_comm(job: Collective, bandwidth: Number, latency: Number) -> float:
    """Predict a collective, s, that sustains all of a link.

    Args:
        job: the collective.
        bandwidth: bytes/s in one direction.
        latency: seconds of a hop.
    """
    link = {"bandwidth": bandwidth, "convention": "per-direction", "latency": latency}
    accelerator = build_device(ENDLESS, ENDLESS, {"link": link})
    whole = {"parallelism.data": job.processes, "time.efficiency": {"link": 1, "all_to_all": 1}}
    result, point = evaluate_group_collective(make_plan(accelerator, whole), job.kind, job.size)
    return float(result.get_quantity("network.collective.seconds", point).number)
