"""Predicted time of one layer (or of embedding or head) for one micro-batch on one device: its
kernels and exchanges, what is computed again, what the host launches, what travels beside."""

from planner.book.formulas import time_core, time_product
from planner.book.formulas.compute import ELSE, NOTHING, OTHERS, SIDES
from planner.book.formulas.layout import micro_batches, routed, sequence_ranks, tokens, vocabulary
from planner.book.formulas.memory_activations import kept_layer
from planner.book.formulas.memory_states import (
    STILL,
    device_parameters,
    frozen,
    held_weights,
    trained,
    updated_gradients,
)
from planner.book.formulas.network import (
    GATHERED,
    KERNELS,
    ONCE,
    experts_exchange,
    experts_gather,
    hops,
    passed,
    places,
    reach,
    tensor,
    uneven,
)
from planner.book.language import *

GRAPHS = "Megatron-Core, docs/user-guide/features/cuda_graph.md"
BESIDE = (
    "Megatron-Core, pipeline_parallel/combined_1f1b.py (overlap_moe_expert_parallel_comm); "
    f"{DUALPIPE}"
)

of_kernels = partial(seconds_of_part, source="sum of its kernels")

# -- elementwise kernels -----------------------------------------------------------------------

PERMUTED = "Megatron-Core, moe/token_dispatcher.py and moe_utils.py (permute, unpermute)"
accesses = of_experts(
    "time.permutation",
    r"D_\pi",
    "values that are read and written to put tokens in the order of experts, and back",
)
#: Values of a device's own tokens, and of the rows that its experts work on.
_own, _rows = tokens * h_l / t, routed * h_l
#: Rows as kernels receive them that send a token once to each device, for all experts on it.
_received = uneven * _own * t_e * places(reach)
#: Without one kernel for it, outputs are added up in a tensor of zeros, which is read and written.
_UNFUSED = "an unfused scatter writes zeros, and reads and writes what it adds to"
for _fused in (True, False):
    _and = "." if _fused else f"; {_UNFUSED}."
    accesses.by(PERMUTED, dispatcher="all-to-all", permute_fusion=_fused).equals(
        2 * _own + 6 * _rows if _fused else _own + 9 * _rows,
        "Tokens are read and their copies written in the order of experts before they travel, and "
        "sorted by expert once more where they arrive; and the same on their way back, where "
        f"copies of a token are added up{_and}",
    )
    accesses.by(KERNELS, dispatcher=ONCE, permute_fusion=_fused).equals(
        2 * _received + 2 * _rows if _fused else _received + 5 * _rows,
        "What arrived is read once and copied for each expert; outputs are read, and the sum of "
        f"each token's written, before they travel back{_and}",
    )
    accesses.by(GATHERED, dispatcher="all-gather", permute_fusion=_fused).equals(
        3 * _rows + e * t_e * _own if _fused else 5 * _rows + e * t_e * _own,
        "Of all gathered tokens those of the device's experts are read and copied; outputs are "
        f"added up in a tensor of all gathered tokens{_and}",
    )

traffic = estimate(
    "time.elementwise.bytes",
    "D_ew",
    "memory traffic of fused elementwise kernels, forward",
    source="values read and written, in the format of activations",
    unit="bytes",
    per="block",
    coefficient="bytes",
)
traffic.where(block="norm", scaled=False).equals(
    2 * k_a * tokens * h / sequence_ranks, "Reads and writes its values."
)
traffic.by("Peebles & Xie 2022 (arXiv 2212.09748), section 3.2", block="norm", scaled=True).equals(
    6 * k_a * tokens * h / sequence_ranks,
    "Reads and writes its values, which are then scaled and shifted, and the output of what reads "
    "them is weighed: each reads and writes once more.",
)

_residual = (3 * k_a + p_drop) * tokens * h / sequence_ranks
traffic.where(block="attention", latent=False).equals(
    _residual + 24 * p_rope * tokens * (a + a_kv) * d_h / t,
    "The residual sum reads two values and writes one, dropout a mask; rotary positions read, turn "
    "and write queries and keys in 4 bytes, the two halves of each apart (24).",
)
traffic.by(f"{DEEPSEEK_V3}, section 2.1.1", block="attention", latent=True).equals(
    _residual + (24 * p_rope * (a + 1) * d_r + 2 * k_a * a * (d_h + d_v)) * tokens / t,
    "As otherwise, but of each query head and of the one key that all share only d_r values have "
    "positions; keys of all heads are put together with it, and values apart (read and written).",
)
traffic.where(block="mlp", gated=False, lone=False).equals(
    _residual + 2 * k_a * tokens * f / t,
    "The residual sum; the activation reads and writes f values.",
)
traffic.where(block="mlp", gated=False, lone=True).equals(
    _residual + k_a * tokens * (f + h) / t,
    "The residual sum; the largest of each piece reads f values and writes h.",
)
traffic.where(block="mlp", gated=True, multiplied=True).equals(
    _residual + (3 + n_gates) * k_a * tokens * f / t,
    "The residual sum; the gated activation reads f values for each gate and f more, and writes f.",
)
traffic.where(block="mlp", gated=True, multiplied=False).equals(
    _residual + 3 * k_a * tokens * f / t,
    "The residual sum; the gated activation reads 2 f values and writes f.",
)
_apart = _residual + k_a * (3 * routed * f_e / t_e + accesses + 3 * tokens * f_s / t)
_APART = (
    "The residual sum; activations of routed rows and of shared experts, as if gated; tokens are "
    "permuted there and back."
)
traffic.where(block="moe", expert_kernels="grouped").equals(_apart, _APART)
traffic.where(block="moe", expert_kernels="loop").equals(
    _apart + 3 * k_a * routed * h_l * Sum(1, "product", bias=True, split="experts"),
    f"{_APART} Where the two products of an expert have biases, that of the second is weighed and "
    "added expert by expert, whose rows are then put together (6).",
)
traffic.by(FUSED_EXPERTS, block="moe", expert_kernels="fused").equals(
    _residual + k_a * (accesses + 3 * tokens * f_s / t),
    "As otherwise, but activations of routed rows are worked out in the products around them.",
)
traffic.where(block=OTHERS).equals(
    _residual + n_mix * k_a * 2 * tokens * h / t,
    "The residual sum, and what convolution, scan and gate read and write over about twice the "
    "hidden size; no published run calibrates it.",
)
traffic.where(block=NOTHING).equals(0, "Too little to count.")
traffic.by("Gemma 3n (transformers 5.23, modeling_gemma3n.py)", block="altup").equals(
    8 * k_a * tokens * n_alt * h,
    "Each part of the residual stream is read, predicted and written, the prediction is read "
    "again, and the correction read, repeated, scaled and written.",
)
traffic.by("DeepSeek-V4 (transformers 5.23, modeling_deepseek_v4.py)", block="hyper").equals(
    10 * k_a * tokens * n_hyp * h,
    "Before attention and before the feed-forward the parts are read for their norm and again for "
    "their mix; behind each they are read, what is added is spread, and the sums are written.",
)
traffic.where(block="laurel").equals(
    5 * k_a * tokens * h, "The norm reads and writes its values, and two are added to a third."
)
traffic.where(block="per_layer_embedding").equals(
    _residual + k_a * tokens * (5 * h_p + 2 * h),
    "The residual sum; the gate's activation and its product with the embedding, and a norm.",
)
traffic.by("Esser et al. 2024 (arXiv 2403.03206)", block="stream").equals(
    0, "Counted with the attention in which its tokens meet others."
)
traffic.where(block="learned").equals(
    3 * k_a * tokens * h, "Rows and what is learned of them are read, and their sum written."
)
traffic.where(block="matrix").equals(
    2 * k_a * tokens * n_mat * (w_in + w_out),
    "A norm reads and writes what goes in, an activation what comes out.",
)
traffic.where(block="projection").equals(
    4 * k_a * tokens * h / sequence_ranks,
    "Hidden state and embedding are read and written side by side.",
)
traffic.where(block="embedding").equals(
    n_emb * k_a * tokens * h, "Looks rows up and adds positions, with the backward pass in view."
)
traffic.where(block="head", training_loss=("fused", "chunked", "in-place")).equals(
    4 * k_a * tokens * vocabulary / t,
    "One kernel reads the logits and writes their gradient, two passes with the maximum and the "
    "sum.",
)
traffic.where(
    block="head", training_loss=("full", "vocab-parallel", "chunked-cast", "chunked-linear")
).equals(
    (k_a + 12) * tokens * vocabulary / t,
    "Logits are read and written 4 bytes wide; maximum and sum of exponentials each pass over them "
    "(12 bytes).",
)

elementwise = seconds_of_block(
    "time.elementwise",
    "t_ew",
    "elementwise kernels of a block, forward",
    attribution="elementwise kernels",
    source=CALIBRATED,
).equals(
    k_ew * traffic / (W * e_mem),
    "Traffic over the bandwidth that kernels sustain, times what unfused kernels move.",
)

# -- exchanges ---------------------------------------------------------------------------------

QUIET = ("norm", "embedding", "head", "learned", "stream", *NOTHING, *SIDES)

exchanges = Quantity(
    "time.exchanges",
    "n_ex",
    "tensor-parallel exchanges of a block in one pass",
    source="Shoeybi et al. 2019 (arXiv 1909.08053), section 3",
    per="block",
)
exchanges.where(block=("attention", "mlp", "projection", *OTHERS)).equals(
    1, "One in each direction: a column-parallel product followed by a row-parallel one."
)
exchanges.where(block=(*QUIET, "moe")).equals(0, "None.")
exchanges.where(block="matrix").equals(
    Sum(1, "component", split="row"), "One behind two matrices that are divided as a feed-forward."
)

ALONE = ("attention", "mlp", "projection", "matrix", *QUIET, *OTHERS)

#: What products of a block can hide of an exchange that is cut into t pieces: of the half before
#: them those that are divided by columns, of the half behind them those that are by rows.
_beside = (1 - 1 / t) * sum(
    minimum(exchanges * tensor / 2, Sum(time_product.forward, "product", split=split))
    for split in ("column", "row")
)
exchange = seconds_of_block(
    "time.exchange", "t_ex", "exchanges of a block with other devices in one pass"
)
exchange.by(CALIBRATED, block=ALONE, tensor_overlap=False).equals(
    exchanges * tensor, "The products wait for the exchange."
)
exchange.by(CALIBRATED, block=ALONE, tensor_overlap=True).equals(
    exchanges * tensor - (1 - c_ov) * _beside,
    "Half before the products and half behind them, each in t pieces, all but one of which travel "
    "beside another piece's product (parallelism.tensor_overlap); what is hidden still costs a "
    "share of its time.",
)
_exchanged = 2 * (experts_exchange + experts_gather)
#: Whether tokens travel before and after the work on them, or beside that on another micro-batch.
APART: dict[str, Any] = {"experts_beside": False, "schedule": IN_TURN}
BESIDE_WORK: tuple[dict[str, Any], ...] = (
    {"experts_beside": True, "schedule": IN_TURN},
    {"schedule": PAIRED},
)
exchange.by(LEPIKHIN, block="moe", **APART).equals(
    _exchanged, "Tokens go to their experts, and to all devices that share one, and come back."
)
for _beside_work in BESIDE_WORK:
    exchange.by(BESIDE, block="moe", **_beside_work).equals(
        0, "Tokens travel beside the work on another micro-batch (time.part.beside)."
    )

gathered = seconds_of_block(
    "time.exchange.again",
    "t_ag",
    "gathering the inputs of a block again for its backward pass",
    source=SEQUENCE,
)
gathered.where(inputs_again=False).equals(
    0, "They are kept whole, or come in pieces beside a product (parallelism.tensor_overlap)."
)
gathered.where(inputs_again=True, sequence=False).equals(
    0, "Without sequence parallelism every rank has them whole."
)
gathered.where(inputs_again=True, sequence=True).equals(
    exchanges * tensor / 2
    - (1 - c_ov) * minimum(exchanges * tensor / 2, Sum(time_product.gradient_of_input, "product")),
    "Under sequence parallelism each rank keeps its part: an all-gather, half of an exchange, runs "
    "beside the product of the input's gradient; what is hidden still costs a share of its time.",
)

# -- its passes -----------------------------------------------------------------------------------

forward = of_kernels("time.part.forward", r"t_F", "forward pass of a layer on the device").equals(
    Sum(time_product.forward + time_product.adapter, "product")
    + Sum(time_core.forward + time_core.context_forward, "block", block="attention")
    + Sum(elementwise, "block")
    + Sum(exchange, "block"),
    "Products and adapters, attention, elementwise kernels and exchanges, one after another.",
)

backward = of_kernels("time.part.backward", r"t_B", "backward pass of a layer on the device")
backward.by(STILL, fixed=True).equals(0, "No gradient passes a tower that is left as it is.")
backward.where(fixed=False).equals(
    Sum(time_product.backward + time_product.adapter_backward + time_product.casts, "product")
    + Sum(time_core.backward + time_core.context_backward, "block", block="attention")
    + Sum(elementwise * q_back, "block")
    + Sum(exchange + gathered, "block"),
    "The gradients of products, adapters, attention and elementwise kernels, which move more than "
    "forward; as many exchanges, and inputs gathered again. Casts of both passes are here.",
)

weights = of_kernels(
    "time.part.weights", "t_W", "gradients of a layer's weights, a part of its backward pass"
)
weights.by(ZERO_BUBBLE, lora=False).equals(
    Sum(time_product.gradient_of_weight + time_product.bias, "product", frozen=False),
    "The products of inputs and outputs' gradients, and what sums biases' gradients up: no other "
    "stage waits for them.",
)
weights.by(ZERO_BUBBLE, lora=True).equals(
    0, "Weights are frozen; the narrow products of adapters stay where they are."
)

# -- experts' exchanges beside the work on another micro-batch -------------------------------------

exchanged = seconds_of_part(
    "time.part.exchanged",
    r"t_X'",
    "exchanges of tokens with experts in all passes of a layer",
    source=LEPIKHIN,
)
_TWICE = "There and back in the forward pass, and their gradients there and back."
_AGAIN = "There and back in the forward pass, once more for what is computed again, and backward."
_each = Sum(_exchanged, "block", block="moe")
for _other in ({"recompute": "none"}, {"recompute": "selective", "again_moe": False}):
    exchanged.where(**_other).equals(2 * _each, _TWICE)
for _other in ({"recompute": "full"}, {"recompute": "selective", "again_moe": True}):
    exchanged.where(**_other).equals(3 * _each, _AGAIN)

beside = seconds_of_part(
    "time.part.beside", r"t_X", "exchanges of tokens that run beside another micro-batch"
)
beside.by("definition", **APART).equals(0, "Products wait for them.")
for _beside_work in BESIDE_WORK:
    beside.by(BESIDE, **_beside_work).equals(exchanged, "All of them.")

# -- what is computed again --------------------------------------------------------------------

again = seconds_of_block(
    "time.block.again", "t_re", "what the backward pass computes again of a block"
)
_CORE = time_core.forward + time_core.context_forward
_UP = Sum(time_product.forward + time_product.adapter, "product", split="column") + elementwise
_KEPT = "Nothing else: a fused core is kept, or not run again by its implementation."
for _core, _text in ((_CORE, "The core, with other ranks' keys and values."), (0, _KEPT)):
    _of_both = {"block": "attention", "again_core_attention": _core is _CORE}
    _source = f"{CHECKPOINTED_CORE}; {DAO}, section 3.1; {MODULES}"
    again.by(_source, **_of_both, latent=False).equals(_core, _text)
    for _up, _further in ((_UP, "Projections up to the heads of latent attention. "), (0, "")):
        _of_latent = {"latent": True, "again_mla_up_projection": _up is _UP}
        again.by(_source, **_of_both, **_of_latent).equals(_core + _up, _further + _text)
again.by(MODULES, block="norm", again_norm=True).equals(elementwise, "The norm.")
again.by(MODULES, block="norm", again_norm=False).equals(0, "It is kept.")

for _kind in ("mlp", "moe"):  # dense and routed feed-forwards are chosen by their own names
    _LEFT = {"block": _kind, f"again_{_kind}": False}
    again.by(MODULES, block=_kind, **{f"again_{_kind}": True}).equals(
        Sum(time_product.forward + time_product.adapter, "product") + elementwise + exchange,
        "The whole block: products, elementwise kernels and exchanges.",
    )
    again.by(MODULES, **_LEFT, again_activation=True).equals(
        elementwise, "The activation between its products."
    )
    again.by(MODULES, **_LEFT, again_activation=False).equals(0, "It is kept.")

again.by(MODULES, block=ELSE).equals(0, "Nothing of it can be chosen.")

EARLY_STOP = "torch.utils.checkpoint of PyTorch 2.13, early stop; jax.checkpoint runs what is used"
CHECKPOINTS = "Chen et al. 2016 (arXiv 1604.06174); Megatron-LM (recompute-granularity full)"

repeated = seconds_of_part(
    "time.part.repeated",
    r"t_R",
    "what the backward pass of a layer computes again",
    attribution="recomputation",
)
repeated.by("definition", recompute="none").equals(0, "Nothing.")
repeated.by(MODULES, recompute="selective", again_operations=False).equals(
    Sum(again, "block"), "The chosen modules (training.recompute_modules) of its blocks."
)
repeated.by(PER_OPERATION, recompute="selective", again_operations=True).equals(
    Sum(time_product.forward, "product") / 2 + Sum(elementwise, "block"),
    "Every second product and all elementwise kernels; attention and exchanges are kept.",
)
repeated.by(CHECKPOINTS, recompute="full", early_stop=False, layers=True).equals(
    forward, "The whole forward pass of the layer, with its exchanges."
)
repeated.by(EARLY_STOP, recompute="full", early_stop=True, layers=True).equals(
    forward - Sum(time_product.forward, "product", final=True),
    "The forward pass of the layer up to the last tensor that its backward needs: its last product "
    "is left out where nothing keeps its output.",
)
repeated.by(CHECKPOINTS, recompute="full", layers=False).equals(
    0, "Embedding and head are not computed again."
)

# -- host ------------------------------------------------------------------------------------

COUNTED = "Megatron-Core, moe/router.py, token_dispatcher.py and experts.py, kernels counted"

moving = of_experts(
    "time.block.dispatch_launches",
    r"n_\pi",
    "kernels that the host launches to move tokens to experts and back",
)
moving.by(COUNTED, dispatcher="all-to-all").equals(
    18,
    "Rows of each expert are counted, told to all and copied to the host (7), tokens permuted, "
    "sent with their weights and sorted (6); outputs sorted, sent and added up (5).",
)
moving.by(COUNTED, dispatcher="all-gather").equals(
    15,
    "Tokens, routes and weights are gathered (3), rows counted and copied to the host (4), tokens "
    "permuted (4); outputs added up, reduced and scattered (4).",
)
moving.by(COUNTED, dispatcher="deepep").equals(
    12,
    "Routes are laid out and told (3), tokens sent (1), indices turned and tokens permuted (5); "
    "outputs added up and sent (3).",
)
moving.by(COUNTED, dispatcher="hybridep").equals(
    8,
    "Routes are gathered and scanned (2), tokens sent and permuted (3); outputs added up and sent "
    "(3).",
)

expert_launches = of_experts(
    "time.block.expert_launches",
    r"n_e",
    "kernels that the host launches for the experts of a device",
)
GROUPED_LINEAR = (
    "TransformerEngine, csrc/extensions/gemm.cpp (te_general_grouped_gemm); Megatron-Core, "
    "moe/experts.py (_apply_bias)"
)
#: Products with a bias, whose rows are added up expert by expert.
_biased = Sum(E / e, "product", bias=True, split="experts")
expert_launches.by(GROUPED_LINEAR, expert_kernels="loop").equals(
    1 + n_one * E / e + _biased,
    "What runs once for all, the activation or the search for experts that have tokens; for each "
    "expert two products in a pass (two forward, four backward), or all that Python runs for its "
    "module; and what adds biases.",
)
expert_launches.by("PyTorch, torch._grouped_mm", expert_kernels="grouped").equals(
    3, "Two grouped products and the activation, however many experts there are."
)
expert_launches.by(FUSED_EXPERTS, expert_kernels="fused").equals(
    2, "Two grouped products, which do the rest on their way."
)

#: Kernels of the router: gate, choice, its loss, and what counts them.
_ROUTER = 8
_of_experts = Sum(_ROUTER + moving + expert_launches, "block", block="moe")

launches = estimate(
    "time.part.launches",
    r"n_\ell",
    "kernels that the host launches for one pass of a layer",
    source=CALIBRATED,
    per="part",
    layers=True,
)
#: Kernels of a layer but for its experts.
_of_layer = (
    n_la
    + Sum(exchanges, "block") * (t - 1) / 2
    + n_ring * (c - 1)
    + Sum(time_product.adapter_launches, "product") / 3
    + Sum(time_product.cast_launches, "product")
)
launches.where(cuda_graphs="none").equals(
    _of_layer + _of_experts,
    "Those of the layer, one more for each exchange with tensor-parallel ranks, some for each "
    "further block of keys and values (send, receive, attention, and the sum of its outputs), "
    "those of adapters, of which forward and backward pass count as three passes, those of casts, "
    "and with experts those of router (8), dispatcher and experts.",
)
launches.by(GRAPHS, cuda_graphs="partial").equals(
    2
    + Sum(moving + expert_launches, "block", block="moe")
    + Sum(time_product.cast_launches, "product", split="experts"),
    "Two graphs are replayed (attention, and the router or the feed-forward); how many tokens an "
    "expert gets is not known when they are captured, so what follows is launched kernel by "
    "kernel.",
)
launches.by(GRAPHS, cuda_graphs="full").equals(
    0, "The whole iteration is one graph, launched once a step."
)

host = seconds_of_part(
    "time.part.host",
    r"t_H",
    "host time of a layer: launches of its kernels",
    attribution="kernel launches",
    source=CALIBRATED,
)
host.where(layers=False, cuda_graphs=("none", "partial")).equals(
    n_ends * t_la, "Launches forward and backward, for lookup, logits and loss."
)
host.by(GRAPHS, layers=False, cuda_graphs="full").equals(0, "Captured with the layers.")
host.by(STILL, layers=True, fixed=True).equals(launches * t_la, "Launches once, forward.")
for _recompute, _turns, _often in ((("none", "selective"), 3, "once"), ("full", 4, "twice")):
    host.where(layers=True, fixed=False, recompute=_recompute).equals(
        _turns * launches * t_la, f"Launches {_often} forward and twice backward."
    )

sent = bytes_of_component(
    "time.part.gathered",
    r"D_{g,c}",
    "weights of one component on their way to those that lack them",
    source="training.bytes.gather",
)
sent.where(lora=False).equals(k_gat * device_parameters, "All of them in one format.")
sent.by(LORA, lora=True).equals(
    k_gat * trained + frozen, "Of the adapters; and the frozen ones as they are stored."
)

gathers = seconds_of_part(
    "time.part.gathers",
    r"t_G",
    "gathering a layer's weights and scattering its gradients",
    attribution="sharded weights' exchange",
)
gathers.by(f"{RAJBHANDARI}, section 5: weights stay whole", zero=(0, 1, 2)).equals(
    0, "Every device holds its weights."
)

FSDP = f"{ZHAO}, section 3"

#: What a ring passes of the weights on their way to those that lack them, and of gradients.
_gathered = Sum(sent * passed, "component")
_scattered = k_red * Sum(trained * passed, "component")
gathers.by(STILL, zero=3, fixed=True).equals(
    _gathered + hops, "Weights are gathered for the forward pass alone: one ring."
)
for _reads, _more, _too in ((False, 0, "."), (True, n_read, ", and one for each read pass.")):
    gathers.by(FSDP, zero=3, reshard=True, fixed=False, reads=_reads).equals(
        (2 + _more) * _gathered + _scattered + (3 + _more) * hops,
        "Weights are gathered (training.bytes.gather) for the forward and for the backward pass, "
        f"gradients reduced and scattered in theirs: three rings over the group{_too}",
    )
    gathers.by(
        "PyTorch, fully_shard (reshard_after_forward)",
        zero=3,
        reshard=False,
        fixed=False,
        reads=_reads,
    ).equals(
        (1 + _more) * _gathered + _scattered + (2 + _more) * hops,
        "Weights stay gathered from the forward to the backward pass of a micro-batch: two rings"
        f"{_too}",
    )

# -- host memory -------------------------------------------------------------------------------

SENT = "DeepSpeed, stage3.py (partition_grads); torchao, cpu_offload.py (backward_hook)"
INFINITY = "Rajbhandari et al. 2021 (arXiv 2104.07857)"
offload = seconds_of_part(
    "time.part.offload",
    "t_off",
    "a layer's activations, weights and gradients on their way to the host and back",
    attribution="offloading",
    source=f"{INFINITY}, section 5.1.2",
)
offload.where(offload=False).equals(0, "They stay on the device.")

of_link = partial(seconds_of_part, source=f"{INFINITY}; PyTorch, CPUOffloadPolicy")
#: The device's shard of a layer's weights on its way from the host, for one pass.
_fetch = f_w * Sum(held_weights, "component") / B_host
away = of_link(
    "time.part.offload.away", "t_off^F", "copies to and from the host beside the forward pass"
).equals(
    maximum(f_off * kept_layer / B_host, _fetch),
    "Activations leave, weights arrive; the link has its rate in each direction.",
)
back = of_link(
    "time.part.offload.back", "t_off^B", "copies to and from the host beside the backward pass"
)
leaving = of_link(
    "time.part.offload.gradients", "t_off^G", "a layer's gradients leave for the host"
)
leaving.by("Megatron-Core, hybrid_optimizer.py", gradients="persistent").equals(
    0, "They wait for the update."
)
leaving.by(SENT, gradients=("fresh", "passing")).equals(
    f_o * Sum(updated_gradients, "component") / B_host,
    "Those of weights that are updated there leave as soon as they are made, whether or not "
    "the device keeps them too.",
)
#: Gradients that only the host keeps are added up on the device; of m micro-batches one has none.
_sums = f_g * (1 - 1 / micro_batches) * leaving
for _again, _fetched, _why in (
    ({"reshard": True, "fixed": False}, _fetch, "and weights once more"),
    ({"reshard": False, "fixed": False}, 0, "weights are still there"),
    ({"fixed": True}, 0, "weights need no second pass"),
):
    back.where(**_again).equals(
        maximum(f_off * kept_layer / B_host + _fetched + _sums, leaving),
        f"Activations return, {_why}, and from the second micro-batch on the sums of gradients "
        "that the host keeps, for the device to add to; gradients leave.",
    )

# -- a layer -----------------------------------------------------------------------------------

passes = seconds_of_part(
    "time.part.passes",
    r"t_P",
    "passes of a layer: forward, backward and what is computed again",
    source="sum of its passes",
).equals(forward + backward + repeated, "One pass after another.")

device = seconds_of_part(
    "time.part.device", r"t_D", "device time of a layer: its passes, and exchanges beside them"
)
device.by("sum of its passes", **APART).equals(passes, "Nothing runs beside them.")
#: Of m micro-batches one has none beside it.
_paired = beside * (1 - 1 / micro_batches)
for _beside_work in BESIDE_WORK:
    device.by(DUALPIPE_EXCHANGE, **_beside_work).equals(
        maximum(passes, _paired) + f_disp * minimum(passes, _paired) + beside / micro_batches,
        "A forward pass runs beside the backward pass of another micro-batch, the exchanges of "
        "one beside the products of the other, from which they take multiprocessors: the longer "
        "of work and exchanges, and that share of the shorter. One of m micro-batches has none "
        "beside it.",
    )

at_work = partial(seconds_of_part, source="PyTorch: kernels are launched ahead of the device")
busy_forward = at_work(
    "time.part.busy.forward", "t_busy^F", "device or host at work on the forward pass of a layer"
)
busy_backward = at_work(
    "time.part.busy.backward", "t_busy^B", "device or host at work on the backward pass of a layer"
)
busy_kept = at_work(
    "time.part.busy.kept", "t_busy^K", "the backward pass where nothing is computed again"
)
busy_weights = at_work(
    "time.part.busy.weights", "t_busy^W", "what gradients of weights add to the backward pass"
)
_WAITS = "The device waits for the host where its kernels are shorter than their launches."
_TWICE = f"{_WAITS} A third of the launches are the forward pass's."
_AGAIN = f"{_WAITS} A quarter of the launches are the forward pass's, which runs once more."
_WITHOUT = "The backward pass, less one without them, which launches as much less as a forward pass"
for _work in (APART, *BESIDE_WORK):
    _pair = 1 if _work is APART else device / passes  # of which each pass has its share
    for _runs, _launched, _why in (
        ({"layers": False, "fixed": False}, 3, _TWICE),
        ({"layers": True, "fixed": False, "recompute": ("none", "selective")}, 3, _TWICE),
        ({"layers": True, "fixed": False, "recompute": "full"}, 4, _AGAIN),
    ):
        for _pass, _seconds, _times in (
            (busy_backward, backward + repeated, _launched - 1),
            (busy_kept, backward, 2),
        ):
            _pass.where(**_work, **_runs).equals(
                maximum(_pair * _seconds, host * _times / _launched), _why
            )
        _once = maximum(_pair * forward, host / _launched)
        busy_forward.where(**_work, **_runs, reads=False).equals(_once, _why)
        busy_forward.where(**_work, **_runs, reads=True).equals(
            (1 + n_read) * _once, f"{_why} So is each pass that is only read."
        )
        _rest = maximum(
            _pair * (backward + repeated - weights), host * (1 - make_fraction(2, _launched))
        )
        busy_weights.where(**_work, **_runs, lora=False).equals(
            busy_backward - _rest, f"{_WITHOUT}."
        )
busy_forward.where(fixed=True, reads=False).equals(maximum(forward, host), _WAITS)
busy_forward.where(fixed=True, reads=True).equals(
    (1 + n_read) * maximum(forward, host), f"{_WAITS} So with each pass that is only read."
)
for _pass in (busy_backward, busy_kept):
    _pass.by(STILL, fixed=True).equals(0, "None.")
busy_weights.by(STILL, fixed=True, lora=False).equals(0, "None.")
busy_weights.by(ZERO_BUBBLE, lora=True).equals(0, "Weights are frozen.")

busy = seconds_of_part(
    "time.part.busy", "t_busy", "device or host at work on a layer", source="sum of its passes"
).equals(busy_forward + busy_backward, "One pass after the other.")

part = seconds_of_part(
    "time.part", r"t_\ell", "a layer, forward and backward, of one micro-batch", source=CALIBRATED
)
kept_part = seconds_of_part(
    "time.part.kept",
    r"t_\ell^K",
    "a layer that keeps all activations, forward and backward, of one micro-batch",
    source=CALIBRATED,
)
offload.where(offload=True).equals(
    maximum(0, away - busy_forward) + maximum(0, back - busy_backward),
    "They travel beside the forward and the backward pass, whichever of device and host is at "
    "work: what takes longer than the pass shows.",
)
part.equals(
    busy + gathers - (1 - c_ov) * minimum(gathers, busy) + offload,
    "What device or host are at work on; the gathers of the next layer beside it, which still cost "
    "a share of their time; and what shows of the way to the host.",
)
_busy = busy_forward + busy_kept
_kept = _busy + gathers - (1 - c_ov) * minimum(gathers, _busy)
for _away, _shows in (
    (False, 0),
    (True, maximum(0, away - busy_forward) + maximum(0, back - busy_kept)),
):
    kept_part.where(offload=_away).equals(_kept + _shows, "As a layer that is computed again.")
