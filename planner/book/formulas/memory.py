"""What one device holds at its peak: states, activations, buffers, and whether that fits.

A stage passes through phases (the loss, the backward pass of a layer, the end of the backward
pass, the optimizer step). Its peak is the largest of them; the plan's peak is that of the fullest
stage. Three totals: live tensors, with the allocator's cache, with context and communicators.
"""

from planner.book.formulas import memory_activations, memory_buffers, memory_states
from planner.book.formulas.layout import data, micro_batches
from planner.book.formulas.memory_cache import cache_stage
from planner.book.formulas.parameters import parameters_total
from planner.book.language import *

PEAK = "the fullest stage at its peak"

predicted = partial(in_bytes, exact=False)
remainder = partial(predicted, within=SIGNED)

# -- gradients by phase -------------------------------------------------------------------------

gradients_live = in_bytes(
    "memory.gradients.live",
    r"M_{g,\sigma\varphi}",
    "gradients on one device of a stage in a phase",
    attribution="gradients",
    per="stage phase",
)
gradients_live.by("nothing is trained", phase="serving").equals(0, "None.")

_each, _all = memory_states.gradients_component, memory_states.gradients_stage
#: What the micro-batches before left: nothing in the first one.
_summed = minimum(1, micro_batches - 1) * _all
_of_head = sum_on_stage(Sum(_each, "component"), part="head")
_of_layers = Sum(copies_on_stage * _each, "component", layers=True)
_summed_or_both = maximum(_summed, _of_layers + _of_head)
_of_root = sum_on_stage(Sum(_each, "component"), layers=False)
#: A tied matrix has its gradient when the embedding has added its part.
_of_tied = sum_on_stage(Sum(_each, "component", shared=True))
_of_weight = max_on_stage(Max(_each, "component"), layers=True)
_of_layer = max_on_stage(Sum(_each, "component"), layers=True)
_FIRST = "in the first micro-batch; all of them from the second one on."
_GONE = "Others leave, to the update or to the host, as soon as they are made."
_WHOLE, _ANY = (0, 1, 2), (0, 1, 2, 3)
_PHASES = ("loss", "backward", "first", "gradients", "step")
#: Whether one buffer holds them for the whole run, or they are made anew and kept, or leave.
_SOURCES = {
    "persistent": "Megatron-LM (one gradient buffer for the whole run)",
    "fresh": "PyTorch (gradients are set to none after each step)",
    "passing": "torchtune, training/memory.py (OptimizerInBackwardWrapper); DeepSpeed, "
    "stage_1_and_2.py (cpu_offload); PyTorch FSDP2, _fsdp_param.py (CPUOffloadPolicy)",
}
_rows: tuple[tuple[str, Any, Any, Any, str], ...] = (
    ("persistent", _PHASES, _ANY, _all, "The buffer is there in every phase."),
    ("fresh", "loss", _ANY, _summed, f"None yet {_FIRST}"),
    ("fresh", "backward", 3, _summed, f"None yet (the head's are whole, in the buffers) {_FIRST}"),
    ("fresh", "backward", _WHOLE, maximum(_summed, _of_head), f"Those of the head {_FIRST}"),
    ("fresh", "first", _WHOLE, _summed_or_both, f"Those of layers and head {_FIRST}"),
    ("fresh", ("first", "gradients"), 3, maximum(_summed, _of_layers), f"Of layers {_FIRST}"),
    ("fresh", "gradients", _WHOLE, _all, "All of them."),
    ("fresh", "step", _ANY, _all, "All of them."),
    ("passing", "loss", _ANY, 0, "None yet, and none of micro-batches before."),
    ("passing", "backward", _WHOLE, _of_tied, f"A tied head's, which waits for more. {_GONE}"),
    ("passing", "first", _WHOLE, _of_tied + _of_weight, f"One weight's, a tied head's. {_GONE}"),
    ("passing", "gradients", _WHOLE, max_on_stage(Max(_each, "component"), layers=False), _GONE),
    ("passing", "step", _WHOLE, 0, "None."),
    ("passing", ("backward", "gradients"), 3, 0, f"Whole ones are in the buffers. {_GONE}"),
    ("passing", "first", 3, _of_layer, f"The shards of one layer. {_GONE}"),
    ("passing", "step", 3, _of_root, f"Shards of embedding and head, reduced last. {_GONE}"),
)
for _kept, _phase, _zero, _value, _why in _rows:
    gradients_live.by(_SOURCES[_kept], gradients=_kept, phase=_phase, zero=_zero).equals(
        _value, _why
    )

# -- the peak -----------------------------------------------------------------------------------

live = in_bytes(
    "memory.live",
    r"M_{\sigma\varphi}",
    "live tensors on one device of a stage in a phase",
    source="sum of what is alive",
    per="stage phase",
)
live.where(mode="train").equals(
    memory_states.weights_stage
    + memory_states.optimizer_stage
    + gradients_live
    + memory_activations.live
    + memory_buffers.live,
    "States, activations and buffers.",
)
live.where(mode="inference").equals(
    memory_states.weights_stage + cache_stage + memory_activations.live + memory_buffers.live,
    "Weights, the cache of the sequences that are served, activations and buffers.",
)

peak = in_bytes(
    "memory.peak",
    r"M_{\sigma}",
    "live tensors on one device of a stage at its peak",
    short="at the peak",
    source="the phase with most",
    per="stage",
).equals(Max(live, "phase"), "The largest over the phases.")


def _at_peak(
    name: str, latex: str, title: str, term: Quantity, short: str = "", **when: Any
) -> Quantity:
    """Declare a share of the peak: a quantity per stage and phase, where both together are largest.

    Args:
        name: end of its id.
        latex: its symbol.
        title: start of its title.
        term: per stage and phase, in bytes.
        short: title in tables; the name by default.
        when: further settings.
    """
    title += " on the fullest device at its peak"
    found = in_bytes(f"memory.{name}", latex, title, short=short or name)
    value = AtArgmax(AtArgmax(term, "phase", live), "stage", peak)
    return found.by(PEAK, shape=True, **when).equals(value, "At the peak of the fullest stage.")


weights = _at_peak("weights", "M_w", "weights", memory_states.weights_stage)
gradients = _at_peak("gradients", "M_g", "gradients", gradients_live)
optimizer = _at_peak(
    "optimizer", "M_o", "master weights and optimizer states", memory_states.optimizer_stage
)
activations = _at_peak("activations", "M_act", "activations", memory_activations.live)
buffers = _at_peak("buffers", "M_buf", "buffers", memory_buffers.live)
cache = _at_peak(
    "cache",
    "M_kv",
    "keys, values and states of the served sequences (KV cache)",
    cache_stage,
    short="cache of keys and values",
    mode="inference",
)

#: What comes and goes has a peak of its own, which need not be that of the device.
for _name, _of, _symbol, _term in (
    ("gradients", "gradient", "M_g^max", gradients_live),
    ("activations", "activation", "M_act^max", memory_activations.live),
    ("buffers", "buffer", "M_buf^max", memory_buffers.live),
):
    in_bytes(
        f"memory.{_name}.most",
        _symbol,
        f"{_of} memory, the most that a device has in any phase",
        source="the phase and the stage with most",
        shape=True,
    ).equals(
        Max(Max(_term, "phase"), "stage"),
        f"The largest over phases and stages; memory.{_name} is what is left at the device's peak.",
    )

total = predicted(
    "memory.total",
    "M",
    "live tensors on the fullest device at its peak (max_memory_allocated)",
    reading="live tensors (the allocator's peak)",
    source=PEAK,
)
total.where(shape=True, mode="train").equals(
    ceil(weights + gradients + optimizer + activations + buffers),
    "The sum of its five parts, in whole bytes.",
)
total.where(shape=True, mode="inference").equals(
    ceil(weights + cache + activations + buffers),
    "The sum of its parts, in whole bytes; there are neither gradients nor optimizer states.",
)

fullest = partial(Quantity, unit="", source=PEAK, shape=True)

fullest_stage = fullest("memory.stage", r"\sigma^{*}", "the fullest pipeline stage").equals(
    Argmax(peak, "stage"), "The stage with the largest peak."
)

fullest_phase = fullest("memory.phase", r"\varphi^{*}", "the phase of the peak").equals(
    AtArgmax(Argmax(live, "phase"), "stage", peak),
    "The phase with the largest sum, on the fullest stage.",
)

# -- a model given by its size ------------------------------------------------------------------


def _from_size(
    quantity: Quantity, title: str, whole: Any, divided: Any, each: Any, more: Any = 0, **when: Any
) -> None:
    """Declare the states of a model without a shape: an even share of all parameters, for the ZeRO
    stages that keep it ``whole`` and those that shard it; and ``more``. With LoRA a shape is
    needed."""
    of_size = partial(quantity.by, ZERO, title=title, shape=False, lora=False, exact=False, **when)
    why = "An even share of the parameters"
    of_size(zero=whole).equals(each * parameters_total / (t * p) + more, f"{why}.")
    of_size(zero=divided).equals(
        each * parameters_total * r / (t * p * data * c) + more,
        f"{why}, divided over the data-parallel devices too.",
    )


_of_weights: dict[str, Any]
for _of_weights, _each_weight, _more in (
    ({"reference": memory_states.NO_SECOND}, k_w, 0),
    ({"reference": "held", "teacher": False}, k_w + k_ref, 0),
    ({"reference": "held", "teacher": True}, k_w, (1 - f_w) * memory_states.teacher_weights),
):
    _from_size(weights, "weights on one device", (0, 1, 2), 3, _each_weight, _more, **_of_weights)
_from_size(gradients, "gradients on one device", (0, 1), (2, 3), k_g)
_from_size(
    optimizer,
    "master weights and optimizer states on one device",
    0,
    (1, 2, 3),
    (1 - f_o) * (k_m + k_G + memory_states.per_parameter),
)

total.by(
    ZERO, shape=False, title="model states on one device; activations and buffers need a shape"
).equals(
    ceil(weights + gradients + optimizer),
    "Weights, gradients and optimizer states only, in whole bytes.",
)

# -- what the device shows ----------------------------------------------------------------------

_layers = memory_activations.layers + Max(
    minimum(1, recomputed_in_flight) * memory_activations.again, "part"
)
blocks = in_bytes(
    "memory.blocks",
    r"M_blk,\sigma",
    "what each kind of tensor holds at its own peak on a stage, added up",
    source=f"{ALLOCATOR}: a freed block serves others of its size",
    per="stage",
    mode="train",
    shape=True,
).equals(
    memory_states.weights_stage
    + memory_states.optimizer_stage
    + Max(gradients_live, "phase")
    + maximum(_layers, max_on_stage(memory_activations.whole, layers=True))
    + Sum(in_flight * memory_activations.whole, "part", layers=False)
    + memory_activations.held / 2
    + memory_buffers.loss
    + memory_buffers.layer
    + Max(memory_buffers.gathered, "phase")
    + Max(memory_buffers.reduced, "phase")
    + memory_buffers.step
    + memory_buffers.unpacked
    + memory_buffers.fetched
    + memory_buffers.constant,
    "Kinds peak at different moments of a step: kept activations and logits at the loss, a layer "
    "that is computed again in its backward pass, gradients on their way near its end. Their "
    "blocks differ in size, so none serves another kind. Where the layers keep less than one of "
    "them in full, as on the host, it is that one, before its backward pass.",
)

allocator = predicted(
    "memory.allocator",
    "M_all",
    "what the allocator keeps beyond live tensors",
    attribution="allocator's cache",
    source=ALLOCATOR,
)
allocator.by(f"{ALLOCATOR}; measured runs (docs/accuracy.md)", shape=True, mode="train").equals(
    ceil(Max(blocks, "stage") - (1 - f_all) * total),
    "Blocks of kinds that are not alive at the peak stay in the cache; and blocks that came and "
    "went leave gaps, unless segments can grow.",
)
allocator.where(shape=True, mode="inference").equals(
    ceil(f_all * total), "Gaps between blocks that came and went."
)
allocator.where(shape=False).equals(0, "States stay where they are and leave no gaps.")

reserved = predicted(
    "memory.reserved",
    "M_res",
    "memory that the allocator reserves (max_memory_reserved)",
    reading="the allocator's cache",
    source=ALLOCATOR,
).equals(total + allocator, "Live tensors and the allocator's cache.")

NCCL = "NCCL 2.30.7, src/transport/p2p.cc (p2pRecvSetup) and src/graph/paths.cc"

exchanged = predicted(
    "memory.communicators.exchange",
    "M_a2a",
    "buffers of collectives for the all-to-all of tokens",
    source=NCCL,
)
#: 1 where the expert-parallel group lies in a node, else 0.
_inside = minimum(1, floor(n_node / (e * t_e)))
exchanged.where(shape=True, experts=True, dispatcher=("all-gather", "deepep", "hybridep")).equals(
    0, "These dispatchers do not use the library's all-to-all."
)
exchanged.where(shape=True, experts=True, dispatcher="all-to-all").equals(
    M_ch * minimum(n_ch, 2 + n_ch * _inside) * maximum(0, minimum(e, floor(n_node / t_e)) - 1),
    "Each pair of devices of a node has channels and buffers of its own: all channels in a group "
    "inside the node, 2 in one that leaves it, whose messages to other nodes share a buffer.",
)

communicators = predicted(
    "memory.communicators",
    "M_coll",
    "buffers of the collective library",
    attribution="buffers of collectives",
    source="NCCL: channels and their buffers for each communicator",
)
_of_groups = M_com * (
    sum(minimum(1, size - 1) for size in (n, data, t, c, e)) + n_pc * minimum(1, p - 1)
)
_GROUPS = (
    "One communicator for each group that a device belongs to with others: all devices, data, "
    "tensor, context, expert; under pipeline parallelism as many as the implementation opens."
)
communicators.where(shape=False).equals(_of_groups, _GROUPS)
communicators.where(shape=True, experts=False).equals(_of_groups, _GROUPS)
communicators.where(shape=True, experts=True).equals(_of_groups + exchanged, _GROUPS)

process = predicted(
    "memory.process",
    "M_proc",
    "memory of the process (what nvidia-smi shows)",
    reading="the process (as the driver shows it)",
    source="device context, collective library and reserved memory",
).equals(
    reserved + M_ctx + communicators,
    "What is predicted; published measurements lie on both sides of it.",
)

needed = predicted(
    "memory.needed",
    "M_need",
    "memory that the process cannot give back",
    reading="live tensors (the allocator's peak)",
    source="live tensors, device context and collective library",
).equals(
    total + M_ctx + communicators,
    "PyTorch gives its cache back and tries again before it raises an out-of-memory error.",
)

shared = in_bytes(
    "memory.paged",
    "M_pag",
    "optimizer states of the fullest stage in memory that device and host share (not in the total)",
    source="bitsandbytes, paged optimizers (unified memory)",
    shape=True,
    mode="train",
).equals(max_over_stages(memory_states.paged), "They leave the device where it has no room.")

capacity = in_bytes(
    "memory.capacity", "M_cap", "memory of one device", source="the accelerator's document"
).equals(M_dev, "What the driver reports, where the document says it.")

evicted = predicted(
    "memory.evicted",
    "M_evi",
    "paged optimizer states that the fullest device has no room for",
    source="bitsandbytes, paged optimizers (unified memory)",
).equals(
    minimum(shared, maximum(0, needed + shared - capacity)),
    "What exceeds the capacity at the peak is moved to the host.",
)

_on_host = (
    f_w * memory_states.held_weights
    + f_o * (memory_states.held_states + memory_states.updated_gradients)
)  # fmt: skip
host = predicted(
    "memory.host",
    "M_host",
    "memory of the host of a node that the plan fills",
    source="sum of what lies there",
    shape=True,
    mode="train",
)
_weights = Sum(copies_on_stage * _on_host, "component")
_with_second = Sum(copies_on_stage * (_on_host + f_w * memory_states.held_reference), "component")
for _of_weights, _held, _too in (
    ({"reference": memory_states.NO_SECOND}, _weights, ""),
    ({"reference": "held", "teacher": False}, _with_second, " the reference model's too,"),
    (
        {"reference": "held", "teacher": True},
        _weights + f_w * memory_states.teacher_weights,
        " the teacher's too,",
    ),
):
    host.where(**_of_weights).equals(
        minimum(n, n_host) * Max(_held + f_off * memory_activations.of_layers, "stage"),
        f"Of each device of the node as much as of the fullest stage: weights,{_too} master "
        "weights and optimizer states, gradients where the update runs, activations.",
    )
host_headroom = remainder(
    "memory.host.headroom",
    r"\Delta M_host",
    "memory that is left on the host of a node",
    source="memory of the node less what the plan fills",
).equals(M_node - host, "Negative: the plan does not fit.")

left = remainder(
    "memory.left", r"\Delta M_need", "memory that is left on device or host, whichever has less"
)
_LESS_NEEDED = "capacity less what is needed"
left.by(_LESS_NEEDED, host_stated=False, rl=False).equals(
    capacity - needed, "Negative: the plan does not fit."
)
left.by(
    f"{_LESS_NEEDED}; memory of a node less what the plan fills", host_stated=True, rl=False
).equals(
    minimum(capacity - needed, host_headroom),
    "Negative: the plan does not fit, whichever of the two is too small.",
)

headroom = remainder(
    "memory.headroom",
    r"\Delta M",
    "memory that is left on the fullest device",
    source="capacity less process",
).equals(
    capacity - process, "Negative: the allocator has to give cache back, or the plan does not fit."
)

at_worst = predicted(
    "memory.at_worst",
    "M_95",
    "memory that is needed at worst (95th percentile of live tensors)",
    source="published measurements of training runs (presets/efficiency/memory.yaml)",
).equals(
    maximum(process, ceil(needed * (1 + f_95))),
    "Of 100 published measurements of live tensors 95 lie no further above their prediction than "
    "this; the allocator gives its cache back for them.",
)

headroom_p95 = remainder(
    "memory.headroom_p95",
    r"\Delta M_{95}",
    "memory that is left on the fullest device at worst (95th percentile of live tensors)",
    source="capacity less what is needed at worst",
).equals(
    capacity - at_worst,
    "Below zero the plan may run out of memory, though less than that is predicted.",
)
