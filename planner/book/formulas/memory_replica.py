"""Memory of one whole replica: of all devices that run one copy of the model, together.

They are tensor times pipeline times context devices. What ZeRO or experts divide over further
devices counts here as far as these hold it, so that as many replicas as there are data-parallel
ranks hold what all devices do.
"""

from planner.book.formulas import memory_activations, memory_states
from planner.book.formulas.layout import GROUPS, data
from planner.book.formulas.memory import gradients_live
from planner.book.formulas.memory_cache import cache_stage
from planner.book.formulas.memory_states import per_parameter
from planner.book.formulas.parameters import parameters_total
from planner.book.language import *

SUM = "sum over the devices of a replica"
of_replica = partial(in_bytes, source=SUM)

devices = Quantity(
    "layout.replica_devices", "n_rep", "devices that run one copy of the model", source=GROUPS
).equals(t * p * c, "Tensor ranks of each stage and part of the sequence.")


def _states(
    name: str, title: str, stage: Any, whole: Any, divided: Any, each: Any, **when: Any
) -> Quantity:
    """Declare the states on the devices of all stages; without a shape those of all parameters,
    which ZeRO keeps ``whole`` or shards over the replicas too. With LoRA a shape is needed."""
    found = of_replica(f"memory.replica.{name}", rf"M_{{{name[0]}}}^rep", title)
    found.by(SUM, shape=True, **when).equals(
        t * c * Sum(alike * stage, "stage"), "Of all devices of all stages."
    )
    of_size = partial(found.by, ZERO, shape=False, lora=False, exact=False, **when)
    of_size(zero=whole).equals(each * parameters_total * c, "Once on the devices of each stage.")
    return of_size(zero=divided).equals(
        each * parameters_total * r / data,
        "The part that its devices hold of what all replicas hold together.",
    )


_trained = partial(_states, mode="train")
weights = _states("weights", "weights of a replica", memory_states.weights_stage, (0, 1, 2), 3, k_w)
gradients = _trained(
    "gradients", "gradients of a replica", Max(gradients_live, "phase"), (0, 1), (2, 3), k_g
)
optimizer = _trained(
    "optimizer",
    "master weights and optimizer states of a replica",
    memory_states.optimizer_stage,
    0,
    (1, 2, 3),
    (1 - f_o) * (k_m + k_G + per_parameter),
)

_layers = (
    recomputed_on_run * memory_activations.kept_layer
    + (in_flight_on_run - recomputed_on_run) * memory_activations.whole
)
activations = of_replica(
    "memory.replica.activations",
    r"M_{a}^rep",
    "activations of a replica, each stage when it keeps most",
    shape=True,
    mode="train",
).equals(
    t
    * c
    * Sum(
        memory_activations.stays * Sum(_layers, "part", layers=True)
        + Sum(in_flight_on_run * memory_activations.whole, "part", layers=False),
        "stage",
    ),
    "Of each micro-batch that is alive; nothing of what goes to the host.",
)

cache = of_replica(
    "memory.replica.cache",
    r"M_{kv}^rep",
    "keys, values and states of the sequences that a replica serves (KV cache)",
    shape=True,
    mode="inference",
).equals(t * c * Sum(alike * cache_stage, "stage"), "Of all layers and sequences.")

total = of_replica("memory.replica.total", r"M^rep", "memory of one whole replica", exact=False)
total.by(SUM, shape=True, mode="train").equals(
    weights + gradients + optimizer + activations,
    "Without buffers, allocator and runtime; devices peak at different moments.",
)
total.by(SUM, shape=True, mode="inference").equals(weights + cache, "Weights and the cache.")
total.by(ZERO, shape=False, mode="train", title="model states of one whole replica").equals(
    weights + gradients + optimizer, "Activations need a shape."
)
total.by(ZERO, shape=False, mode="inference", title="weights of one whole replica").equals(
    weights, "The cache needs a shape."
)
