"""Predicted time of one optimizer step: micro-batches, pipeline, data parallelism, optimizer."""

from planner.book.formulas import network, time_product
from planner.book.formulas.layout import layer_micro_batches, micro_batches, state_ranks
from planner.book.formulas.memory_states import trained
from planner.book.formulas.time_optimizer import optimizer
from planner.book.formulas.time_part import (
    busy,
    busy_backward,
    busy_forward,
    busy_weights,
    kept_part,
    part,
)
from planner.book.language import *

PIPELINE = f"{NARAYANAN}, section 2.2"
ZERO_TRAFFIC = f"{RAJBHANDARI}, section 7"
EACH = (
    "DeepSpeed, runtime/zero/stage_1_and_2.py (partition_gradients); PyTorch, fully_shard: both "
    "reduce in the backward pass of each micro-batch"
)
SENDS = "Megatron Bridge documentation, communication overlap (overlap_p2p_comm, virtual stages)"
#: Schedules in which a device's layers are one chunk.
ONE_CHUNK = ("1f1b", "gpipe", "zero-bubble")
OVERLAP = "Li et al. 2020 (arXiv 2006.15704), section 3.2.3; Megatron-LM (distributed optimizer)"

stage = seconds("time.stage", r"t_\sigma", "one micro-batch on one pipeline stage", per="stage")
stage.by(PIPELINE, schedule=(*IN_TURN, "dualpipev"), again_some=False).equals(
    sum_on_stage(part),
    "The layers of the stage, and the embedding or the head where it holds them.",
)
stage.by(PIPELINE, schedule=(*IN_TURN, "dualpipev"), again_some=True).equals(
    sum_on_stage(kept_part + recomputed_in_flight / maximum(1, in_flight) * (part - kept_part)),
    "The layers of the stage, and the embedding or the head where it holds them; layers beyond "
    "training.recompute_layers compute nothing again.",
)
stage.by(DUALPIPE, schedule="dualpipe").equals(
    sum_on_stage(part) / 2,
    "A device holds a chunk from each end, and a micro-batch passes one of them.",
)

model = seconds(
    "time.model", "t_model", "one micro-batch through the whole model", source=PIPELINE
).equals(Sum(L_k * part, "part"), "All layers, the embedding and the head, one after another.")

all_backward = seconds(
    "time.model.backward",
    "t_model,B",
    "backward pass of one micro-batch through the whole model",
    source=PIPELINE,
).equals(
    Sum(L_k * part * busy_backward / busy, "part"),
    "Of the time of each layer the share of its backward pass, recomputation too.",
)

all_weights = seconds(
    "time.model.weights",
    "t_model,W",
    "gradients of weights of one micro-batch through the whole model",
    source=ZERO_BUBBLE,
).equals(
    Sum(L_k * part * busy_weights / busy, "part"),
    "Of the time of each layer the share of the gradients of weights.",
)

of_passes = partial(seconds, source="sum of its passes")
forward_window = of_passes(
    "time.forward", "t_pace,F", "forward pass of a micro-batch on the stage that sets the pace"
).equals(
    AtArgmax(sum_on_stage(busy_forward), "stage", stage),
    "Work on the layers that this stage holds.",
)
backward_window = of_passes(
    "time.backward", "t_pace,B", "backward pass of a micro-batch on the stage that sets the pace"
).equals(
    AtArgmax(sum_on_stage(busy_backward), "stage", stage),
    "Work on the layers that this stage holds, with what is computed again.",
)

micro_batch = seconds(
    "time.micro_batch",
    r"t_m",
    "one micro-batch in the steady state of the pipeline",
    short="micro-batches, one after another",
)
for _alone in ({"send_overlap": False}, {"send_overlap": True, "schedule": ONE_CHUNK}):
    micro_batch.by(PIPELINE, **_alone).equals(
        Max(stage, "stage") + 2 * v * network.send,
        "The slowest stage sets the pace; activations and gradients are sent once for each of its "
        "v chunks.",
    )
micro_batch.by(SENDS, send_overlap=True, schedule=("interleaved", *PAIRED)).equals(
    Max(stage, "stage") + c_ov * 2 * v * network.send,
    "The slowest stage sets the pace; while a chunk's activations or gradients travel, another "
    "chunk is worked on.",
)

micro_batch.by(SENDS, send_overlap=True, schedule="own").equals(
    Max(stage, "stage") + (1 - (1 - c_ov) * minimum(1, v - 1)) * 2 * v * network.send,
    "The slowest stage sets the pace; activations and gradients travel while another chunk is "
    "worked on, where a device holds several.",
)

bubble = seconds(
    "time.bubble",
    "t_bub",
    "filling and draining the pipeline",
    short="filling and draining the pipeline",
    attribution="pipeline bubble",
)
bubble.by(PIPELINE, schedule=("1f1b", "gpipe", "interleaved")).equals(
    (p - 1) / v * (model / p + 2 * v * network.send),
    "p - 1 passes of an average stage, which v chunks for each device shorten v-fold.",
)
bubble.by("the table of the schedule (training.schedule)", schedule="own").equals(
    n_bub * (model / p + 2 * v * network.send),
    "What a stage waits for others, in forward and backward passes of a stage.",
)
#: Gradients of weights, which fill bubbles as far as the rest of the backward pass leaves some.
_fills = minimum(all_weights, all_backward / 2)
bubble.by(
    f"{ZERO_BUBBLE}, table 2: ZB-H1 (table 1 counts FLOPs and memory)", schedule="zero-bubble"
).equals(
    (p - 1) * ((model - 2 * _fills) / p + 2 * network.send),
    "ZB-H1 waits p - 1 times for a forward pass and the gradients of inputs, less those of "
    "weights, which fill it, up to those of inputs.",
)
bubble.by(f"{DEEPSEEK_V3}, table 2", schedule="dualpipe").equals(
    (p / 2 - 1) * ((model + all_backward - 3 * _fills) / p + 2 * network.send),
    "p/2 - 1 slots of a forward and backward pass that overlap, and of a backward pass, less three "
    "times the gradients of weights, half of a backward pass each at most.",
)
bubble.by(
    "github.com/deepseek-ai/DualPipe, README: as DualPipe over twice as many stages of half the "
    "layers",
    schedule="dualpipev",
).equals(
    (p - 1) * ((model + all_backward - 3 * _fills) / (2 * p) + 2 * network.send),
    "p - 1 slots of a forward and backward pass of half a stage that overlap, and of a backward "
    "pass, less three times the gradients of weights, half of a backward pass each at most.",
)

resident = Quantity(
    "time.parameters",
    r"N_\sigma",
    "trained parameters of the fullest stage on one tensor and expert rank",
    unit="parameters",
    source="layout",
).equals(
    max_over_stages(trained),
    "What a device has gradients for, before any sharding over data parallelism; a tied matrix at "
    "most once.",
)

owned = estimate(
    "time.owned",
    "N_own",
    "trained parameters of the fullest stage that one device owns",
    unit="parameters",
    source=ZERO_TRAFFIC,
).equals(
    max_over_stages(trained / state_ranks),
    "Each weight is divided over the devices that share it; experts over fewer.",
)

ring = estimate(
    "time.ring",
    r"\tau_ring",
    "time in which rings pass each byte of the trained parameters of the fullest stage",
    unit="s/bytes",
    source=ZERO_TRAFFIC,
).equals(max_over_stages(trained * network.passed), "Every component in its own group.")

accumulation = seconds(
    "time.accumulation",
    "t_acc",
    "adding gradients up over micro-batches",
    short="adding gradients up",
    attribution="gradient accumulation",
    source="Megatron-LM (gradient accumulation fusion)",
)
accumulation.where(accumulation="fused").equals(
    0, "The product of the weight gradient adds to what is there."
)
accumulation.where(accumulation="separate", zero=(0, 1)).equals(
    (k_c + 2 * k_g) * layer_micro_batches * resident / (W * e_mem),
    "After each micro-batch a gradient is read in the compute format, and the sum read and "
    "written.",
)
accumulation.where(accumulation="separate", zero=(2, 3)).equals(
    (k_c + 2 * k_g) * layer_micro_batches * owned / (W * e_mem),
    "As without sharding, for the part that the device keeps.",
)

buckets = estimate("time.buckets", "n_rings", "messages that gradients are reduced in")
buckets.by(
    "Megatron-LM (bucket size: 40 million parameters, or 1 million for each rank)",
    buckets="growing",
).equals(
    maximum(1, resident / maximum(40 * 10**6, 10**6 * network.shards)),
    "At least one; large groups take larger messages.",
)
buckets.by(
    "PyTorch, DistributedDataParallel (bucket_cap_mb: 25)", buckets="fixed", zero=(0, 1)
).equals(
    maximum(1, resident / 13107200),
    "At least one; messages of 25 MiB, which hold 13,107,200 values of 2 bytes, however many "
    "devices there are.",
)
buckets.by(f"{ZHAO}, section 3: a unit for each layer", buckets="fixed", zero=(2, 3)).equals(
    Max(Sum(layers_on_stage, "part"), "stage"),
    "One for each layer, and for embedding and head, where the stage holds them.",
)

#: Each gradient passes once round the ring that divides them.
_scattered = k_red * ring + buckets * network.hops
#: All-reduce of the shards' gradients over r replicas.
_between_replicas = 2 * k_red * owned * (1 - 1 / r) / network.replicas
reduce = seconds(
    "time.data.reduce", "t_red", "reducing gradients over data parallelism, in one step"
)
reduce.by(ZERO_TRAFFIC, zero=0).equals(
    2 * k_red * ring + buckets * network.reduce_hops, "An all-reduce: each gradient passes twice."
)
reduce.by(ZERO_TRAFFIC, zero=1, replicas="none").equals(
    _scattered, "Gradients are reduced and scattered: each passes once."
)
reduce.by(EACH, zero=2, replicas="none").equals(
    layer_micro_batches * _scattered,
    "A device keeps its share of the sum only, so that gradients are reduced and scattered after "
    "each micro-batch.",
)
reduce.by(ZERO_TRAFFIC, zero=1, replicas=DIVIDED).equals(
    _scattered + _between_replicas,
    "As without replicas, inside each; then the shards' gradients over the r replicas.",
)
reduce.by(EACH, zero=2, replicas=DIVIDED).equals(
    layer_micro_batches * _scattered + _between_replicas,
    "As without replicas, inside each; after the last micro-batch the shards' gradients over the r "
    "replicas.",
)
reduce.by(ZERO_TRAFFIC, zero=3, replicas="none").equals(
    0, "Layers scatter for themselves (time.part.gathers)."
)
reduce.by("PyTorch, fully_shard (set_requires_all_reduce)", zero=3, replicas=DIVIDED).equals(
    _between_replicas,
    "Layers scatter inside a replica; after the last micro-batch the shards' gradients go over the "
    "r replicas.",
)

gather = seconds(
    "time.data.gather",
    "t_gat",
    "gathering updated weights over data parallelism",
    source=ZERO_TRAFFIC,
)
gather.where(zero=(0, 3)).equals(
    0, "Every device updates all that it needs, or layers gather for themselves."
)
gather.where(zero=(1, 2)).equals(
    k_gat * ring + buckets * network.hops,
    "Each device gets the weights that the g - 1 others updated.",
)


#: Buckets of one chunk; the last one travels when its passes are over.
_pieces = maximum(1, buckets / v)


def _left(traffic: Operand, window: Operand, times: time_product.Factor = 1) -> Expression:
    """Return the communication that the passes of the last (or first) micro-batches do not hide; it
    starts bucket by bucket, as these become ready."""
    last = traffic / (times * _pieces)
    return maximum(traffic - times * window * (1 - 1 / _pieces), last)


def _left_by_chunk(traffic: Operand, window: Operand) -> Expression:
    """Return the same with v chunks of layers: each is sent whole after its last micro-batch, p
    micro-batches after the one before; the last one in buckets beside its own pass."""
    chunk, apart = traffic / v, minimum(p, micro_batches) * window / v
    late = chunk - apart  # of each chunk before the last one, behind the passes
    own = window / v * (1 - 1 / _pieces)
    before = minimum(1, v - 1)  # whether there are any
    after = before * maximum(late + own, (v - 1) * late + own, 0) - own
    return maximum(after + chunk, chunk / _pieces)


unhidden = partial(seconds, source=OVERLAP)
reduce_left = unhidden(
    "time.data.reduce.left", "t_red'", "reducing gradients, what is left when the passes are over"
)
gather_left = unhidden(
    "time.data.gather.left", "t_gat'", "gathering weights, what is left when passes wait for them"
)
reduce_left.by(ZERO_TRAFFIC, data_overlap="none").equals(
    reduce, "All of it: gradients are reduced when the last one is there."
)
gather_left.by(ZERO_TRAFFIC, data_overlap="none").equals(
    gather, "All of it: weights are gathered before the next step starts."
)
gather_left.by(ZERO_TRAFFIC, data_overlap="gradients", zero=(0, 1, 3)).equals(
    gather, "All of it: weights are gathered before the next step starts."
)
for _schedules, _rest in (((*ONE_CHUNK, *PAIRED), _left), (("interleaved", "own"), _left_by_chunk)):
    reduce_left.where(
        data_overlap=("gradients", "all"), zero=(0, 1, 3), schedule=_schedules
    ).equals(
        _rest(reduce, backward_window),
        "Gradients are reduced beside the backward pass of the last micro-batch.",
    )
    gather_left.where(data_overlap="all", zero=(0, 1, 3), schedule=_schedules).equals(
        _rest(gather, forward_window),
        "Weights are gathered beside the forward pass of the first micro-batch.",
    )
reduce_left.by(f"{ZHAO}, section 3", data_overlap=("gradients", "all"), zero=2).equals(
    _left(reduce, backward_window, layer_micro_batches),
    "Gradients are reduced beside the backward passes of all micro-batches.",
)
gather_left.by(f"{ZHAO}, section 3", data_overlap=("gradients", "all"), zero=2).equals(
    _left(gather, forward_window),
    "Layers are gathered one ahead beside the forward pass of the first micro-batch.",
)

data = seconds(
    "time.data",
    r"t_d",
    "traffic of data parallelism that a step waits for",
    short="data parallelism",
    attribution="data-parallel exchange",
    source=OVERLAP,
).equals(
    reduce_left + gather_left + c_ov * (reduce - reduce_left + gather - gather_left),
    "What is left when the passes are over; and what is hidden still costs a share of its time, "
    "since collectives take multiprocessors and bandwidth from the products.",
)

#: Bytes of the copy that the last stage holds: in a ring of two, each passes once.
_tied = k_red * Max(sum_on_stage(Sum(trained, "component", shared=True)), "stage")
tied = seconds(
    "time.tied",
    "t_tied",
    "adding up the gradients of tied embeddings on the first and the last stage",
    attribution="tied embeddings' exchange",
    source=TIED,
)
tied.where(pipeline="none").equals(0, "One stage holds one matrix.")
tied.by(DUALPIPE_EMBEDDING, pipeline=("node", "nodes"), schedule=PAIRED).equals(
    0, "The first and the last stage lie on one device, which holds one matrix."
)
tied.where(pipeline="node", schedule=IN_TURN).equals(
    _tied / network.link, "The two copies' gradients pass over the link once each way."
)
tied.where(pipeline="nodes", schedule=IN_TURN).equals(
    _tied / network.fabric,
    "The two copies' gradients pass once each way, over the network card of a device.",
)

step = Quantity(
    "time.step_seconds",
    "t_step",
    "predicted time of one optimizer step",
    unit="s",
    scales_with="time",
)
step.by("sum of its parts", assumed=False, shape=True, mode="train", exact=False).equals(
    micro_batches * micro_batch + bubble + accumulation + data + tied + optimizer,
    "m micro-batches at the pace of the slowest stage, the pipeline's filling and draining, then "
    "gradients and weights over data parallelism, and the update.",
)
