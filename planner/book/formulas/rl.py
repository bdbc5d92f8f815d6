"""Reinforcement learning: the phases of a step, and what a run of steps takes."""

from planner.book.formulas.cost import bill_hours, price_storage
from planner.book.formulas.layout import micro_batches
from planner.book.formulas.memory import (
    capacity,
    left,
    needed,
    optimizer,
    process,
    reserved,
    weights,
)
from planner.book.formulas.network import fabric, link, send
from planner.book.formulas.parameters import component, parameters_total
from planner.book.formulas.time_part import forward
from planner.book.formulas.time_step import step
from planner.book.language import *

CONTINUOUS = "Yu et al. 2022, Orca (OSDI), section 3.2: requests join and leave at each iteration"
HYBRID = "Sheng et al. 2024, HybridFlow (arXiv 2409.19256), section 5"
NEMO = "NeMo RL, nemo_rl/algorithms/grpo.py: phases in this order"
ASYNC = "NeMo RL 0.4, async GRPO (in_flight_weight_updates); PipelineRL (arXiv 2509.19128)"

of_rl = partial(estimate, rl=True, assumed=False)
defined = partial(of_rl, source="definition")
defined_time = partial(defined, scales_with="time")
phase = partial(of_rl, unit="s", scales_with="time")
passes = partial(phase, source=f"{NARAYANAN}, section 2.2")

prefill = phase(
    "rl.prefill_seconds", "t_read", "the engine reads the prompts", source=CONTINUOUS
).equals(
    n_pr * s_pr / r_read,
    "Each prompt once: its responses share what was read of it (prefix caching).",
)

accepted = of_rl(
    "rl.accepted_tokens",
    "n_acc",
    "tokens of a request that a step of the engine yields, on average",
    unit="tokens",
    source="Leviathan et al. 2023, speculative decoding (arXiv 2211.17192), equation 1",
).equals(
    (1 - x_acc ** (n_dr + 1)) / (1 - x_acc),
    "Drafted tokens up to the first that is refused, each accepted alike, and one of the model's.",
)

decode = phase(
    "rl.decode_seconds", "t_gen", "the engine generates the responses", source=CONTINUOUS
).equals(
    Sum(n_tok_r * (t_tok_r + t_over), "rung") / accepted,
    "First all slots are busy; then, when no request waits, responses end one after another up to "
    "the longest. Each stretch has its own number of requests, and so its own time of a token.",
)

rollout = phase("rl.rollout_seconds", "t_roll", "rollout", source="sum of its parts").equals(
    prefill + decode, "Prompts are read, then responses are generated."
)

#: Passes of all responses through the trainer's layout, forward only.
_forward = (
    x_lp
    * n_upd
    * (
        micro_batches * (Max(sum_on_stage(forward), "stage") + v * send)
        + (p - 1) / v * (Sum(L_k * forward, "part") / p + v * send) / n_upd
    )
)
logprob = passes("rl.logprob_seconds", "t_old", "log-probabilities before the update").equals(
    n_old * _forward,
    "The forward pass of all micro-batches, at the pace of the slowest stage; the pipeline fills "
    "once. Logits in 32 bit, their entropy and the way back to the host take as much as verl "
    "measured.",
)

reference = passes(
    "rl.reference_seconds", "t_ref", "log-probabilities of the reference model"
).equals(n_ref * _forward, "As before the update, with other weights.")

phase(
    "rl.forward_seconds",
    "t_fwd",
    "log-probabilities of policy and reference",
    source="sum of its parts",
).equals(logprob + reference, "Both are passes over all responses.")

values = phase(
    "rl.value_seconds", "t_v", "values of the responses by the critic", source=HYBRID
).equals(t_val, "A forward pass of the critic over all responses.")

reward = phase("rl.reward_seconds", "t_rew", "scoring the responses", source=HYBRID).equals(
    t_ver + t_rm, "The verifier, or a forward pass of the reward model over all responses."
)

update = phase("rl.update_seconds", "t_upd", "updating the weights", source=HYBRID).equals(
    n_ep * n_upd * step + t_crit,
    "The optimizer steps of a step, each epoch; the critic is updated after the policy.",
)

devices = Quantity(
    "rl.devices", "n_rl,dev", "devices of trainer and engine", source="layout", rl=True
)
devices.where(placement="colocated").equals(1 * n, "They work in turn on the same devices.")
devices.where(placement="split").equals(n + n_ro, "Those of the trainer and those of the engine.")

tensors = Quantity(
    "rl.sync_tensors", "n_ten", "tensors of the weights", source="files of transformers", rl=True
).equals(
    Sum(L_k * Sum(copies * minimum(1, component), "component"), "part"),
    "Each matrix of each expert is one.",
)
sync = phase("rl.sync_seconds", "t_sync", "bringing new weights to the engine", source=HYBRID)
_joined = minimum(1, floor(n_node / devices))  # whether one link joins all of them
sync.where(sync=("nccl", "ipc", "rdma")).equals(
    k_roll * parameters_total * (_joined / link + (1 - _joined) / minimum(link, fabric * n_node))
    + t_ten * tensors,
    "All weights reach each node over all of its cards; each tensor is gathered and loaded.",
)
sync.where(sync="disk").equals(
    2 * k_roll * parameters_total / B_sto, "All weights are written, then read."
)

switch = phase(
    "rl.switch_seconds", "t_swi", "moving states to the host, the engine's back", source=HYBRID
)
switch.where(placement="split").equals(0, "Each side keeps its devices.")
switch.where(placement="colocated").equals(
    (weights + optimizer + M_cst) / R_swi + 2 * M_eng / B_host,
    "Weights and optimizer states go to pages that the host provides anew, while the engine "
    "generates; gradients are freed. Asleep, the engine keeps its weights there, pinned.",
)
around = phase(
    "rl.around_seconds", "t_aro", "the framework's work beside all phases", source=NEMO
).equals(t_host, "Data is prepared, workers are called, results gathered and logged.")
trainer = phase("rl.trainer_seconds", "t_tr", "the trainer's part of a step", source=NEMO).equals(
    logprob + reference + values + update + around,
    "Log-probabilities, values and updates, one after another, and the framework's work.",
)

whole = phase("rl.step_seconds", "t_rl", "time of one step of reinforcement learning")
whole.by(NEMO, overlapped=False).equals(
    rollout + reward + trainer + sync + switch, "On policy each phase waits for the one before."
)
whole.by(ASYNC, overlapped=True).equals(
    maximum(rollout + reward, trainer) + sync,
    "The engine generates for a later step while the trainer works on this one; the longer of both "
    "decides. Neither works while weights are sent: the engine takes them between two tokens.",
)

token_rate_per_device = defined(
    "rl.tokens_per_second_per_device",
    "r_rl",
    "tokens of prompts and responses per second and device",
    unit="tokens/s",
    scales_with="rate",
).equals(
    n_pr * n_smp * (s_pr + s_rsp) / (whole * devices),
    "Tokens of all responses and of the prompt of each, over all devices.",
)

share_of_step = partial(of_rl, share=True, within=SHARE, source="definition")
trainer_idle = share_of_step(
    "rl.trainer_idle_share", "u_tr", "share of a step that the trainer waits"
)
engine_idle = share_of_step(
    "rl.rollout_idle_share", "u_roll", "share of a step that the engine waits"
)
idle = share_of_step(
    "rl.idle_share", "u_idle", "share of device time that waits for the other side"
)
for _idle in (trainer_idle, engine_idle, idle):
    _idle.where(placement="colocated").equals(0, "The same devices do each phase in turn.")
trainer_idle.where(placement="split").equals(
    1 - (trainer + sync) / whole, "Of a step what is neither its work nor the weights' transfer."
)
engine_idle.where(placement="split").equals(
    1 - (rollout + reward + sync) / whole, "Of a step what is neither its work nor the transfer."
)
idle.where(placement="split").equals(
    (n * trainer_idle + n_ro * engine_idle) / devices, "Both sides, by their devices."
)

balanced = defined(
    "rl.balanced_devices", "n_bal", "devices of the engine at which neither side would wait"
)
balanced.where(placement="split", overlapped=True).equals(
    devices * n_ro * (rollout + reward) / (n_ro * (rollout + reward) + n * trainer),
    "Both sides taken to be as much faster as they have more devices.",
)
staleness = defined(
    "rl.staleness",
    "x_off",
    "optimizer steps by which the weights that generated a response are older, on average",
).equals(
    n_ep * n_upd * x_st + (n_ep * n_upd - 1) / 2,
    "Those of the steps in between, and half of the optimizer steps of its own step that come "
    "before a response's last use.",
)

run_days = defined_time("rl.days", "t_rl,days", "days of all steps", unit="days").equals(
    n_rl * whole / 86400, "A day has 86400 seconds."
)
device_hours = defined_time(
    "rl.device_hours", "t_rl,dev", "GPU hours of all steps", unit="h"
).equals(24 * devices * run_days, "Every device for all days; a day has 24 hours.")
cost = defined_time("rl.cost", r"\pi_rl", "cost of all steps", unit="USD")
cost.where(billed=False).equals(device_hours * price, "Every GPU hour at the price of the cluster.")
cost.where(billed=True).equals(
    bill_hours(devices, run_days) * price + price_storage(run_days),
    "The GPU hours that are billed at the price of the cluster, and storage and data sent out.",
)
energy = defined_time(
    "rl.energy", "E_rl", "energy of the accelerators over all steps", unit="kWh"
).equals(device_hours * power / 1000, "Every GPU hour at the rated power; 1000 turns W into kW.")


# -- memory of each phase ----------------------------------------------------------------------

held = partial(Quantity, unit="bytes", exact=False, rl=True, source=HYBRID)
engine_states = held("rl.memory.engine", "M_e", "the engine's weights and cache").equals(
    f_roll * capacity, "The engine fills its share of a device."
)
engine_weights = held("rl.memory.engine_weights", "M_e,w", "the engine's weights").equals(
    1 * M_eng, "Without a cache."
)
trainer_context = held(
    "rl.memory.trainer_context", "M_t,c", "the trainer's context and communicators"
).equals(process - reserved, "What its process keeps while its states are elsewhere.")
engine_context = held(
    "rl.memory.engine_context", "M_e,c", "the engine's context and communicators, asleep"
).equals(process - reserved, "As large as the trainer's.")
critic_states = held("rl.memory.critic", "M_c", "weights and states of the critic").equals(
    1 * M_crit, "None without a critic."
)

generating = held("rl.memory.rollout", "M_roll", "a device of the engine while it generates")
generating.where(placement="split").equals(
    1 * engine_states, "The engine fills its share with weights and cache."
)
generating.where(placement="colocated").equals(
    engine_states + trainer_context,
    "The engine fills its share with weights and cache; of the trainer its context and "
    "communicators stay, its states are on the host.",
)
syncing = held("rl.memory.sync", "M_sync", "a device of the trainer while weights move")
syncing.where(placement="split").equals(
    weights + trainer_context, "The trainer's weights; the engine receives them where its own are."
)
syncing.where(placement="colocated").equals(
    weights + engine_weights + trainer_context + engine_context,
    "The weights in both layouts, and the contexts of both; the engine has no cache yet.",
)
updating = held("rl.memory.update", "M_upd", "a device of the trainer while it updates")
updating.where(placement="split").equals(
    process + critic_states, "As a training run takes; and the states of the critic."
)
updating.where(placement="colocated").equals(
    process + critic_states + engine_context,
    "As a training run takes; the states of the critic; of the engine, asleep, its context stays.",
)
peak_memory = held("rl.memory.peak", "M_rl", "the fullest device in its fullest phase").equals(
    maximum(generating, syncing, updating), "Phases come one after another on a device."
)
free = held(
    "rl.memory.headroom", "M_rl,free", "memory that the fullest phase leaves", within=SIGNED
).equals(capacity - peak_memory, "Of the memory of a device.")
of_host = held("rl.memory.host", "M_rl,host", "memory of a node's host that states of the run take")
of_host.where(placement="split").equals(
    n_ref * n_host * weights, "The weights of the reference model, while the policy trains."
)
of_host.where(placement="colocated").equals(
    n_host * (n_ref * weights + maximum(weights + optimizer + M_cst, M_eng)),
    "Weights and optimizer states while the engine generates, or the engine's weights while the "
    "policy trains, whichever is more; the weights of the reference model.",
)

engine_free = held(
    "rl.memory.engine_headroom",
    "M_roll,free",
    "memory that the engine's share leaves beside its weights and one longest sequence",
    within=SIGNED,
).equals(f_roll * capacity - M_one, "Negative: the engine does not start.")
_least = minimum(capacity - needed, free, engine_free)
_WITH_ENGINE = (
    "The phase with the least decides: the fullest one, what the trainer needs at least, "
)
left.by(HYBRID, rl=True, host_stated=False).equals(_least, f"{_WITH_ENGINE}and the engine.")
left.by(HYBRID, rl=True, host_stated=True).equals(
    minimum(_least, M_node - of_host), f"{_WITH_ENGINE}the engine, and a node's host."
)
