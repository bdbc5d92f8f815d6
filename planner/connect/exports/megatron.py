"""Megatron-LM: the argument list of pretrain_gpt.py.

Names from megatron/training/arguments.py and the configuration classes of Megatron Core 0.16.
"""

from __future__ import annotations

from typing import Any

from planner.connect.exports.table import FOLLOWS, TRAINS, Draft, Near, Row, Rule, exchange, stack
from planner.plans import pipeline
from planner.plans.document import Block

TITLE = "Megatron-LM arguments"
SUFFIX = ".args"
KERNELS = "megatron"
BY_HAND = ("data, tokenizer, learning rate and checkpoints",)
USE = "torchrun … pretrain_gpt.py $(grep -v '^#' FILE)"


def _blocks(draft: Draft, kind: str) -> list[Block]:
    """The different blocks of a kind among the layers."""
    model = draft.plan.model
    found: list[Block] = []
    for part in model.parts if model else ():
        found += [b for b in part.blocks if b.kind == kind and b not in found]
    return found


def _vocabulary(draft: Draft) -> None:
    """Megatron-LM pads the vocabulary to a multiple of this number times tensor."""
    vocab, multiple = draft.get("model.vocab"), draft.get("parallelism.vocab_multiple")
    if vocab is not None:
        draft.say({"vocab-size": vocab})
        if multiple is not None:
            draft.say({"make-vocab-size-divisible-by": multiple})


def _positions(draft: Draft) -> None:
    longest = draft.get("model.max_sequence") or draft.get("training.sequence_length")
    if longest is not None and draft.get("model.layers"):
        draft.say({"max-position-embeddings": longest})


def _attention(draft: Draft) -> None:
    blocks = _blocks(draft, "attention")
    if not blocks:
        return
    draft.heard.update(
        f"model.attention.{key}"
        for key in (
            "heads",
            "kv_heads",
            "head_dim",
            "value_head_dim",
            "query_rank",
            "kv_rank",
            "nope_dim",
            "rope_dim",
            "latent_norm",
        )
    )
    values = blocks[0].values
    draft.say({"num-attention-heads": values["heads"]})
    if values.get("kv_rank"):
        draft.say({"multi-latent-attention": True})
        if values.get("query_rank"):
            draft.say({"q-lora-rank": values["query_rank"]})
        draft.say(
            {
                "kv-lora-rank": values["kv_rank"],
                "qk-head-dim": values["nope_dim"],
                "qk-pos-emb-head-dim": values["rope_dim"],
                "v-head-dim": values["value_head_dim"],
            }
        )
        return
    if values["kv_heads"] != values["heads"]:
        draft.say({"group-query-attention": True, "num-query-groups": values["kv_heads"]})
    draft.say({"kv-channels": values["head_dim"]})
    if values["value_head_dim"] != values["head_dim"]:
        draft.cannot("model.attention.value_head_dim", "value heads are as wide as the others")


def _window(draft: Draft) -> None:
    window, every = draft.get("model.attention.window"), draft.get("model.attention.global_every")
    if window:
        # Of our window of so many tokens one is the token itself.
        draft.say({"window-size": f"({window - 1},0)"})
        if every:
            draft.say({"window-attn-skip-freq": every})


def _feed_forward(draft: Draft) -> None:
    dense, routed = _blocks(draft, "mlp"), _blocks(draft, "moe")
    draft.heard.update(
        f"model.mlp.{key}"
        for key in ("gated", "intermediate", "expansion", "activation", "linears")
    )
    if dense:
        draft.say({"ffn-hidden-size": dense[0].values["intermediate"]})
    elif routed:  # the width of a dense layer is asked for even where there is none
        draft.say({"ffn-hidden-size": routed[0].values["intermediate"]})
    kinds = {(b.values["gated"], b.values["activation"]) for b in dense + routed}
    if not kinds:
        return
    gated, activation = sorted(kinds)[-1]
    word = ACTIVATIONS.get((bool(gated), str(activation)))
    if len(kinds) > 1:
        draft.cannot("model.moe.activation", "experts have the activation of the dense layers")
    if word is None:
        draft.cannot("model.mlp.activation", f"no option for {'gated ' * gated}{activation}")
    else:
        draft.say(word)


ACTIVATIONS: dict[tuple[bool, str], dict[str, Any]] = {
    (True, "silu"): {"swiglu": True},
    (True, "swish"): {"swiglu": True},
    (False, "gelu"): {},
    (False, "gelu_new"): {},
    (False, "gelu_fast"): {},
    (False, "gelu_pytorch_tanh"): {},
    (False, "relu2"): {"squared-relu": True},
}


def _biases(draft: Draft) -> None:
    if not draft.get("model.layers"):
        return
    keys = (
        "bias",
        "attention.bias",
        "attention.key_bias",
        "attention.output_bias",
        "mlp.bias",
        "moe.bias",
    )
    values = {key: draft.get(f"model.{key}") for key in keys}
    rest = [values["attention.output_bias"], values["mlp.bias"], values["moe.bias"]]
    inner = {v for v in rest if v is not None} or {values["bias"]}
    query = values["attention.bias"]
    query = values["bias"] if query is None else query
    if inner == {False}:
        draft.say({"disable-bias-linear": True})
        if query:
            draft.say({"add-qkv-bias": True})
    elif inner != {True} or not query:
        draft.cannot("model.bias", "linears have biases all or none, but for query, key and value")


def _norm(draft: Draft) -> None:
    norm, bias = draft.get("model.norm"), draft.get("model.norm_bias")
    if norm is None:
        return
    draft.say({"normalization": {"rmsnorm": "RMSNorm", "layernorm": "LayerNorm"}[norm]})
    if bias is not None and bias != (norm == "layernorm"):
        draft.cannot("model.norm_bias", "LayerNorm has biases, RMSNorm has none")


def _experts(draft: Draft) -> None:
    moe, model = _blocks(draft, "moe"), draft.plan.model
    draft.heard.update(
        f"model.moe.{key}"
        for key in (
            "experts",
            "top_k",
            "router_groups",
            "router_group_top_k",
            "intermediate",
            "shared_experts",
            "shared_intermediate",
            "gated",
            "activation",
            "first_dense_layers",
            "every",
            "offset",
        )
    )
    if not moe or model is None:
        return
    values = moe[0].values
    draft.say(
        {
            "num-experts": values["experts"],
            "moe-router-topk": values["top_k"],
            "moe-ffn-hidden-size": values["intermediate"],
        }
    )
    if values["router_group_top_k"] < values["router_groups"]:
        draft.say(
            {
                "moe-router-num-groups": values["router_groups"],
                "moe-router-group-topk": values["router_group_top_k"],
            }
        )
    if values.get("shared_intermediate"):
        draft.say({"moe-shared-expert-intermediate-size": values["shared_intermediate"]})
    if draft.get("model.moe.shared_gate"):
        draft.say({"moe-shared-expert-gate": True})
    if draft.get("model.moe.correction_bias"):
        draft.say({"moe-router-enable-expert-bias": True})
    if draft.get("model.moe.capacity_factor"):
        draft.say({"moe-expert-capacity-factor": draft.get("model.moe.capacity_factor")})
    has = {part.name: any(b.kind == "moe" for b in part.blocks) for part in model.parts}
    layers = [int(has[name]) for name in stack(draft)]
    if not all(layers):
        draft.say({"moe-layer-freq": _runs(layers)})


def _runs(layers: list[int]) -> str:
    """``[0]*3+[1]*58``: the expression that the option takes."""
    runs: list[list[int]] = []
    for value in layers:
        if runs and runs[-1][0] == value:
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    if len(runs) > 8:
        return "[" + ",".join(map(str, layers)) + "]"
    return "+".join(f"[{value}]*{count}" for value, count in runs)


def _samples(draft: Draft) -> None:
    tokens, length = draft.get("training.tokens"), draft.get("training.sequence_length")
    if tokens and length:
        draft.say({"train-samples": int(-(-tokens // length))})


def _dropout(draft: Draft) -> None:
    share = draft.get("training.dropout")
    draft.say({"attention-dropout": share, "hidden-dropout": share})


def _pipeline(draft: Draft) -> None:
    size, chunks = draft.get("parallelism.pipeline"), draft.get("parallelism.virtual_pipeline")
    draft.say({"pipeline-model-parallel-size": size})
    schedule = draft.get("training.schedule")
    if schedule not in ("1f1b", "interleaved") and size > 1:
        draft.cannot("training.schedule", "pipelines run 1F1B, interleaved with virtual stages")
    if chunks > 1:
        draft.say({"num-virtual-stages-per-pipeline-rank": chunks})
    _cut(draft, size, chunks)


def _cut(draft: Draft, size: int, chunks: int) -> None:
    """Layers that do not divide evenly: the ends said apart where that is enough, else the whole
    layout. Further-token modules stand on the last stage unless a layout says more."""
    model, further = draft.plan.model, draft.get("model.mtp") or 0
    draft.heard |= {"parallelism.stages", "parallelism.cut"}
    if model is None or size * chunks == 1:
        return
    layout, vocab = draft.plan.data["parallelism"], draft.plan.get("model.vocab")
    held = pipeline.chunks(model, layout, vocab)
    plain = [*held[:-1], held[-1] - further]
    if plain[-1] >= 0 and len(set(plain)) == 1:
        return
    if plain[-1] >= 0 and chunks == 1 and len(plain) > 2 and len(set(plain[1:-1])) == 1:
        draft.say(
            {
                "decoder-first-pipeline-num-layers": plain[0],
                "decoder-last-pipeline-num-layers": plain[-1],
            }
        )
        return
    text = pipeline.written(held, further)
    if text is None:
        draft.cannot("parallelism.stages", "one stage holds all modules of model.mtp")
    else:
        draft.said.pop("num-virtual-stages-per-pipeline-rank", None)  # which follow from it
        draft.say({"pipeline-model-parallel-layout": text})


def _sharding(draft: Draft) -> None:
    """ZeRO 1 is the distributed optimizer; 2 and 3 are those of Megatron FSDP."""
    stage, replicas = draft.get("parallelism.zero"), draft.get("parallelism.replicate")
    if stage:
        draft.say({"use-distributed-optimizer": True})
    if stage > 1:
        draft.say(
            {
                "use-megatron-fsdp": True,
                "data-parallel-sharding-strategy": {2: "optim_grads", 3: "optim_grads_params"}[
                    stage
                ],
            }
        )
    if replicas > 1:
        draft.say({"num-distributed-optimizer-instances": replicas})


def flag(ours: str, theirs: str) -> Row:
    """A choice that an option without a value switches on."""
    return Row(ours, words={True: {theirs: True}, False: {}})


PRECISIONS = {
    "bf16": {"bf16": True},
    "fp16": {"fp16": True},
    "fp8": {"bf16": True, "fp8-format": "hybrid"},
    "fp32": {},
    "bf16-pure": Near({"bf16": True}, "main weights and gradients stay in 32 bits"),
}
OPTIMIZERS = {
    "adamw": "adam",
    "sgd-momentum": "sgd",
    "muon": "muon",
    "sgd": Near({"optimizer": "sgd"}, "--sgd-momentum is 0.9 unless set to 0"),
}

TABLE: tuple[Row | Rule, ...] = (
    Row("model.layers", "num-layers"),
    Row("model.hidden", "hidden-size"),
    Row("model.mtp", "mtp-num-layers"),
    _attention,
    _window,
    Row(
        "model.attention.qk_norm",
        words={"none": {}, "head": {"qk-layernorm": True}},
        why="queries and keys are normalised per head",
    ),
    _feed_forward,
    _experts,
    _norm,
    _biases,
    Row("model.norm_placement", words={"pre": {}}, why="norms stand before each block"),
    _vocabulary,
    _positions,
    Row(
        "model.positions",
        "position-embedding-type",
        {"rope": "rope", "learned": "learned_absolute", "none": "none", "relative": "relative"},
    ),
    Row(
        "model.tied_embeddings",
        words={True: {}, False: {"untie-embeddings-and-output-weights": True}},
    ),
    Row("training.sequence_length", "seq-length"),
    Row("training.micro_batch", "micro-batch-size"),
    Row("training.global_batch", "global-batch-size"),
    _samples,
    Row("training.precision", words=PRECISIONS),
    Row(
        "training.optimizer",
        words={
            key: word if isinstance(word, Near) else {"optimizer": word}
            for key, word in OPTIMIZERS.items()
        },
    ),
    Row(
        "training.recompute",
        words={
            "none": {},
            "selective": {"recompute-granularity": "selective"},
            "full": {
                "recompute-granularity": "full",
                "recompute-method": "uniform",
                "recompute-num-layers": 1,
            },
        },
    ),
    Row(
        "training.attention",
        "attention-backend",
        {"flash": "flash", "eager": "unfused"},
        why="its backends are flash, fused and unfused",
    ),
    _dropout,
    Row(
        "training.loss",
        words={"vocab-parallel": {}, "full": {}, "fused": {"cross-entropy-loss-fusion": True}},
        why="the loss is computed over all positions at once",
    ),
    Row("parallelism.tensor", "tensor-model-parallel-size"),
    flag("parallelism.sequence", "sequence-parallel"),
    _pipeline,
    Row("parallelism.context", "context-parallel-size"),
    exchange("cp-comm-type", ring="p2p", gather="all_gather"),
    Row("parallelism.expert", "expert-model-parallel-size"),
    Row("parallelism.expert_tensor", "expert-tensor-parallel-size"),
    Row(
        "parallelism.dispatcher",
        words={
            "all-to-all": {},
            "deepep": {"moe-token-dispatcher-type": "flex", "moe-enable-deepep": True},
        },
    ),
    _sharding,
    TRAINS,
    FOLLOWS,
)


def write(said: dict[str, Any], head: str) -> str:
    """One option a line, after comments."""
    lines = [f"--{key}" if value is True else f"--{key} {value}" for key, value in said.items()]
    return head + "\n".join(lines) + "\n"
