"""Predicted time of one optimizer step: micro-batches, pipeline, data parallelism, optimizer."""

from typing import Any

from planner.book.formulas.layout import micro_batches
from planner.book.formulas.layout import shards as owners
from planner.book.formulas.memory_states import trained
from planner.book.formulas.network import (
    fabric,
    hops,
    link,
    passed,
    reduce_hops,
    replicas,
    send,
    shards,
)
from planner.book.formulas.time_optimizer import optimizer
from planner.book.formulas.time_part import part, repeated
from planner.book.notation import (
    A_ks,
    L_k,
    L_ks,
    R_ks,
    held_sc,
    k_c,
    k_g,
    k_gat,
    k_red,
    p,
    r,
    v,
)
from planner.book.notation_hardware import W, e_mem, f_back, hidden_t
from planner.book.quantity import quantity
from planner.book.reductions import Largest, Total, largest, smallest

PIPELINE = "Narayanan et al. 2021 (arXiv 2104.04473), section 2.2"
ZERO = "Rajbhandari et al. 2020 (arXiv 1910.02054), section 7"
EACH = (
    "DeepSpeed, runtime/zero/stage_1_and_2.py (partition_gradients); PyTorch, fully_shard: both "
    "reduce in the backward pass of each micro-batch"
)
OVERLAP = "Li et al. 2020 (arXiv 2006.15704), section 3.2.3; Megatron-LM (distributed optimizer)"
SECONDS: dict[str, Any] = {"unit": "s", "exact": False}


STAGE: dict[str, Any] = {
    "identifier": "time.stage",
    "symbol": r"t_\sigma",
    "title": "one micro-batch on one pipeline stage",
    "per": ("stage",),
    **SECONDS,
}


IN_TURN: dict[str, Any] = {"training.schedule": ("1f1b", "interleaved", "gpipe", "zero-bubble")}


@quantity(**STAGE, source=PIPELINE, when={**IN_TURN, "time.again.some": False})
def stage():
    """The layers of the stage, and the embedding or the head where it holds them."""
    return Total(L_ks * part, "part")


@quantity(**STAGE, source=PIPELINE, when={**IN_TURN, "time.again.some": True})
def stage_of_some():
    """The layers of the stage, and the embedding or the head where it holds them; layers beyond
    training.recompute_layers compute nothing again."""
    return Total(L_ks * (part - (1 - R_ks / largest(1, A_ks)) * repeated), "part")


@quantity(
    **STAGE,
    source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.1",
    when={"training.schedule": "dualpipe"},
)
def stage_of_two():
    """A device holds a chunk from each end, and a micro-batch passes one of them."""
    return Total(L_ks * part, "part") / 2


@quantity(
    "time.model",
    symbol=r"t_{\mathrm{model}}",
    title="one micro-batch through the whole model",
    source=PIPELINE,
    **SECONDS,
)
def model():
    """All layers, the embedding and the head, one after another."""
    return Total(L_k * part, "part")


@quantity(
    "time.micro_batch",
    symbol=r"t_m",
    title="one micro-batch in the steady state of the pipeline",
    source=PIPELINE,
    **SECONDS,
)
def micro_batch():
    """The slowest stage sets the pace; activations and gradients are sent once for each of its v
    chunks."""
    return Largest(stage, "stage") + 2 * v * send


BUBBLE: dict[str, Any] = {
    "identifier": "time.bubble",
    "symbol": r"t_{\mathrm{bub}}",
    "title": "filling and draining the pipeline",
    **SECONDS,
}


@quantity(**BUBBLE, source=PIPELINE, when={"training.schedule": ("1f1b", "gpipe", "interleaved")})
def bubble():
    """p - 1 passes of an average stage, which v chunks for each device shorten v-fold."""
    return (p - 1) / v * (model / p + 2 * v * send)


@quantity(
    **BUBBLE,
    source="Qi et al. 2023 (arXiv 2401.10241), table 2: ZB-H1 (table 1 counts FLOPs and memory)",
    when={"training.schedule": "zero-bubble"},
)
def bubble_zero():
    """ZB-H1 waits p - 1 times for a forward pass and the gradients of inputs, less those of
    weights, which fill it; both gradients are half of the backward pass, so a forward pass is
    left."""
    return (p - 1) * ((1 - f_back) * model / p + 2 * send)


@quantity(
    **BUBBLE,
    source="DeepSeek-AI 2024 (arXiv 2412.19437), table 2",
    when={"training.schedule": "dualpipe"},
)
def bubble_dualpipe():
    """p/2 - 1 slots of a forward and backward pass that overlap, and of a backward pass, less three
    times the gradients of weights, half of a backward pass each."""
    return (p / 2 - 1) * ((1 - f_back / 2) * model / p + 2 * send)


@quantity(
    "time.parameters",
    symbol=r"N_\sigma",
    unit="parameters",
    title="trained parameters of the fullest stage on one tensor and expert rank",
    source="layout",
)
def resident():
    """What a device has gradients for, before any sharding over data parallelism; a tied matrix at
    most once."""
    return Largest(Total(held_sc * trained, "component"), "stage")


@quantity(
    "time.owned",
    symbol=r"N_{\mathrm{own}}",
    unit="parameters",
    title="trained parameters of the fullest stage that one device owns",
    source=ZERO,
    exact=False,
)
def owned():
    """Each weight is divided over the devices that share it; experts over fewer."""
    return Largest(Total(held_sc * trained / owners, "component"), "stage")


@quantity(
    "time.ring",
    symbol=r"\tau_{\mathrm{ring}}",
    unit="s/bytes",
    title="time in which rings pass each byte of the trained parameters of the fullest stage",
    source=ZERO,
    exact=False,
)
def ring():
    """Every component in its own group."""
    return Largest(Total(held_sc * trained * passed, "component"), "stage")


ACCUMULATION: dict[str, Any] = {
    "identifier": "time.accumulation",
    "symbol": r"t_{\mathrm{acc}}",
    "title": "adding gradients up over micro-batches",
    "source": "Megatron-LM (gradient accumulation fusion)",
    **SECONDS,
}


@quantity(**ACCUMULATION, when={"time.accumulation": "fused"})
def accumulation_fused():
    """The product of the weight gradient adds to what is there."""
    return 0


@quantity(
    **ACCUMULATION,
    when={"time.accumulation": "separate", "parallelism.zero": (0, 1)},
)
def accumulation():
    """After each micro-batch a gradient is read in the compute format, and the sum read and
    written."""
    return (k_c + 2 * k_g) * micro_batches * resident / (W * e_mem)


@quantity(
    **ACCUMULATION,
    when={"time.accumulation": "separate", "parallelism.zero": (2, 3)},
)
def accumulation_sharded():
    """As without sharding, for the part that the device keeps."""
    return (k_c + 2 * k_g) * micro_batches * owned / (W * e_mem)


BUCKETS: dict[str, Any] = {
    "identifier": "time.buckets",
    "symbol": r"n_{\mathrm{rings}}",
    "unit": "1",
    "title": "messages that gradients are reduced in",
    "exact": False,
}


def _growing():
    """Messages of 40 million values, or of 1 million for each rank where that is more."""
    return largest(1, resident / largest(40 * 10**6, 10**6 * shards))


@quantity(
    **BUCKETS,
    source="Megatron-LM (bucket size: 40 million parameters, or 1 million for each rank)",
    when={"time.buckets": "growing"},
)
def buckets():
    """At least one; large groups take larger messages."""
    return _growing()


@quantity(
    **BUCKETS,
    source="PyTorch, DistributedDataParallel (bucket_cap_mb: 25)",
    when={"time.buckets": "fixed", "parallelism.zero": (0, 1)},
)
def buckets_fixed():
    """At least one; messages of 25 MiB, which hold 13,107,200 values of 2 bytes, however many
    devices there are."""
    return largest(1, resident / 13107200)


@quantity(
    **BUCKETS,
    source="Zhao et al. 2023 (arXiv 2304.11277), section 3: a unit for each layer",
    when={"time.buckets": "fixed", "parallelism.zero": (2, 3)},
)
def buckets_of_layers():
    """One for each layer, and for embedding and head, where the stage holds them."""
    return Largest(Total(L_ks, "part"), "stage")


REDUCE: dict[str, Any] = {
    "identifier": "time.data.reduce",
    "symbol": r"t_{\mathrm{red}}",
    "title": "reducing gradients over data parallelism, in one step",
    **SECONDS,
}
GATHER: dict[str, Any] = {
    "identifier": "time.data.gather",
    "symbol": r"t_{\mathrm{gat}}",
    "title": "gathering updated weights over data parallelism",
    **SECONDS,
}


REPLICATED: dict[str, Any] = {"time.replicas": ("node", "nodes")}


def _between_replicas():
    """All-reduce of the shards' gradients over r replicas."""
    return 2 * k_red * owned * (1 - 1 / r) / replicas


@quantity(**REDUCE, source=ZERO, when={"parallelism.zero": 0})
def reduce():
    """An all-reduce: each gradient passes twice."""
    return 2 * k_red * ring + buckets * reduce_hops


@quantity(**REDUCE, source=ZERO, when={"parallelism.zero": 1, "time.replicas": "none"})
def reduce_sharded():
    """Gradients are reduced and scattered: each passes once."""
    return k_red * ring + buckets * hops


@quantity(**REDUCE, source=EACH, when={"parallelism.zero": 2, "time.replicas": "none"})
def reduce_each():
    """A device keeps its share of the sum only, so that gradients are reduced and scattered after
    each of m micro-batches."""
    return micro_batches * (k_red * ring + buckets * hops)


@quantity(**REDUCE, source=ZERO, when={"parallelism.zero": 1, **REPLICATED})
def reduce_replicated():
    """As without replicas, inside each; then the shards' gradients over the r replicas."""
    return k_red * ring + buckets * hops + _between_replicas()


@quantity(**REDUCE, source=EACH, when={"parallelism.zero": 2, **REPLICATED})
def reduce_each_replicated():
    """As without replicas, inside each; after the last micro-batch the shards' gradients over the r
    replicas."""
    return micro_batches * (k_red * ring + buckets * hops) + _between_replicas()


@quantity(**REDUCE, source=ZERO, when={"parallelism.zero": 3, "time.replicas": "none"})
def reduce_none():
    """Layers scatter for themselves (time.part.gathers)."""
    return 0


@quantity(
    **REDUCE,
    source="PyTorch, fully_shard (set_requires_all_reduce)",
    when={"parallelism.zero": 3, **REPLICATED},
)
def reduce_between():
    """Layers scatter inside a replica; after the last micro-batch the shards' gradients go over the
    r replicas."""
    return _between_replicas()


@quantity(**GATHER, source=ZERO, when={"parallelism.zero": (0, 3)})
def gather_none():
    """Every device updates all that it needs, or layers gather for themselves."""
    return 0


@quantity(**GATHER, source=ZERO, when={"parallelism.zero": (1, 2)})
def gather():
    """Each device gets the weights that the g - 1 others updated."""
    return k_gat * ring + buckets * hops


DATA: dict[str, Any] = {
    "identifier": "time.data",
    "symbol": r"t_d",
    "title": "traffic of data parallelism that nothing hides",
    **SECONDS,
}


def _shown(traffic, beside):
    """What overlap leaves of it: it hides a share, as far as there is work beside."""
    return traffic - smallest(hidden_t * traffic, beside)


@quantity(**DATA, source=ZERO, when={"time.data_overlap": "none"})
def data():
    """Gradients are reduced when the last one is there; weights are gathered before the next
    step starts."""
    return reduce + gather


ONCE: dict[str, Any] = {"parallelism.zero": (0, 1, 3)}


@quantity(**DATA, source=OVERLAP, when={"time.data_overlap": "gradients", **ONCE})
def data_beside_backward():
    """Gradients are reduced beside the backward pass of the last micro-batch, which hides a share
    of the traffic; weights are gathered before the next step starts."""
    return _shown(reduce, f_back * micro_batch) + gather


@quantity(**DATA, source=OVERLAP, when={"time.data_overlap": "all", **ONCE})
def data_beside_both():
    """Gradients are reduced beside the backward pass of the last micro-batch, and weights gathered
    beside the forward pass of the first: both hide a share."""
    return _shown(reduce, f_back * micro_batch) + _shown(gather, (1 - f_back) * micro_batch)


@quantity(
    **DATA,
    source="Zhao et al. 2023 (arXiv 2304.11277), section 3",
    when={"time.data_overlap": ("gradients", "all"), "parallelism.zero": 2},
)
def data_beside_each():
    """Gradients are reduced beside the backward passes of all m micro-batches, and layers gathered
    one ahead beside the forward pass of the first: both hide a share."""
    return _shown(reduce, f_back * micro_batch * micro_batches) + _shown(
        gather, (1 - f_back) * micro_batch
    )


TIED: dict[str, Any] = {
    "identifier": "time.tied",
    "symbol": r"t_{\mathrm{tied}}",
    "title": "adding up the gradients of tied embeddings on the first and the last stage",
    "source": "Narayanan et al. 2021: the first and the last stage each hold tied embeddings",
    **SECONDS,
}


def _tied():
    """Bytes of the copy that the last stage holds: in a ring of two, each passes once."""
    return k_red * Largest(Total(L_ks * Total(trained, "component", shared=True), "part"), "stage")


@quantity(**TIED, when={"time.pipeline": "none"})
def tied_none():
    """One stage holds one matrix."""
    return 0


@quantity(
    **{**TIED, "source": "DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.3"},
    when={"time.pipeline": ("node", "nodes"), "training.schedule": "dualpipe"},
)
def tied_on_one_device():
    """The first and the last stage lie on one device, which holds one matrix."""
    return 0


@quantity(**TIED, when={"time.pipeline": "node", **IN_TURN})
def tied():
    """The two copies' gradients pass over the link once each way."""
    return _tied() / link


@quantity(**TIED, when={"time.pipeline": "nodes", **IN_TURN})
def tied_of_nodes():
    """The two copies' gradients pass once each way, over the network card of a device."""
    return _tied() / fabric


@quantity(
    "time.step_seconds",
    symbol=r"t_{\mathrm{step}}",
    title="predicted time of one optimizer step",
    source="sum of its parts",
    when={"time.assumed": False, "model.shape": True, "training.mode": "train"},
    **SECONDS,
)
def step_predicted():
    """m micro-batches at the pace of the slowest stage, the pipeline's filling and draining, then
    gradients and weights over data parallelism, and the update."""
    return micro_batches * micro_batch + bubble + accumulation + data + tied_none + optimizer
