"""nanotron: the YAML file of `run_train.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.base.display import one_line
from planner.connect.exports.table import (
    FOLLOWS,
    TRAINS,
    Draft,
    Near,
    Row,
    Rule,
    nested,
    stack,
    steps,
    yaml_text,
)

TITLE = "nanotron configuration"
SUFFIX = ".yaml"
KERNELS = "nanotron"
BY_HAND = (
    "data_stages, tokenizer, checkpoints and model.init_method",
    "optimizer.learning_rate_scheduler and the parameters of optimizer_factory",
)
USE = "torchrun … run_train.py --config-file FILE"

MODEL = "model.model_config"
#: The architecture of its Llama and Qwen2 models: dotted key of a model document, fixed value.
FIXED = {
    "model.norm": "rmsnorm",
    "model.norm_placement": "pre",
    "model.positions": "rope",
    "model.bias": False,
    "model.parallel": False,
    "model.attention.qk_norm": "none",
    "model.mlp.gated": True,
}
SHAPE = {
    "layers": "num_hidden_layers",
    "hidden": "hidden_size",
    "vocab": "vocab_size",
    "max_sequence": "max_position_embeddings",
    "tied_embeddings": "tie_word_embeddings",
    "attention.heads": "num_attention_heads",
    "attention.kv_heads": "num_key_value_heads",
    "attention.bias": "attention_bias",
    "mlp.activation": "hidden_act",
}


def _general(draft: Draft) -> None:
    draft.say({"general.project": one_line(str(draft.plan.name))})


def _architecture(draft: Draft) -> None:
    """Llama's shape; Qwen2's where there are experts or a window."""
    if not draft.get("model.layers"):
        return
    routed, window = draft.get("model.moe"), draft.get("model.attention.window")
    kind = "is_qwen2_config" if routed or window else "is_llama_config"
    draft.say({f"{MODEL}.{kind}": True})
    for ours, theirs in SHAPE.items():
        value = draft.get(f"model.{ours}")
        if value is not None:
            draft.say({f"{MODEL}.{theirs}": value})
    for key, value in FIXED.items():
        if draft.get(key) not in (value, None):
            draft.cannot(key, f"its models have {value}".lower())
    draft.heard |= {
        "model.attention.output_bias",
        "model.attention.key_bias",
        "model.mlp.bias",
        "model.norm_bias",
        "model.attention.value_head_dim",
    }
    heads, head = draft.get("model.attention.heads"), draft.get("model.attention.head_dim")
    if heads and head and heads * head != draft.get("model.hidden"):
        draft.cannot("model.attention.head_dim", "heads divide the hidden size")
    if window:
        draft.say({f"{MODEL}.sliding_window_size": window})
    width = draft.get("model.mlp.intermediate")
    draft.heard |= {"model.mlp.expansion", "model.mlp.linears"}
    if routed:
        width = _experts(draft, width)
    if width:
        draft.say({f"{MODEL}.intermediate_size": width})


def _experts(draft: Draft, dense: int | None) -> int:
    model, width = draft.plan.model, int(draft.get("model.moe.intermediate"))
    assert model is not None
    has = {part.name: any(b.kind == "moe" for b in part.blocks) for part in model.parts}
    kinds = stack(draft)
    layers = [index for index, name in enumerate(kinds) if has[name]]
    shared = draft.get("model.moe.shared_experts")
    draft.heard |= {
        f"model.moe.{key}"
        for key in (
            "first_dense_layers",
            "every",
            "offset",
            "activation",
            "gated",
            "shared_intermediate",
        )
    }
    draft.heard.discard("model.moe")
    draft.say(
        {
            f"{MODEL}.moe_config": {
                "num_experts": draft.get("model.moe.experts"),
                "top_k": draft.get("model.moe.top_k"),
                "layers": layers if len(layers) < len(kinds) else [-1],
                "enable_shared_expert": bool(shared),
            }
        }
    )
    if shared and shared > 1:
        draft.cannot("model.moe.shared_experts", "one shared expert, as wide as the others")
    if dense not in (None, width) and len(layers) < len(kinds):
        draft.cannot("model.moe.intermediate", "experts are as wide as the dense layers")
    return width


def _tensor(draft: Draft) -> None:
    sequence = draft.get("parallelism.sequence")
    draft.say(
        {
            "parallelism.tp": draft.get("parallelism.tensor"),
            "parallelism.tp_mode": "REDUCE_SCATTER" if sequence else "ALL_REDUCE",
        }
    )


def _cut(draft: Draft) -> None:
    cut, stages = draft.get("parallelism.cut"), draft.get("parallelism.stages")
    if draft.get("parallelism.pipeline") > 1 and (stages or cut != "compute"):
        key = "parallelism.stages" if stages else "parallelism.cut"
        draft.cannot(key, "layers are cut by their matmul weights")


TABLE: tuple[Row | Rule, ...] = (
    _general,
    Row("parallelism.data", "parallelism.dp"),
    Row("parallelism.pipeline", "parallelism.pp"),
    Row(
        "training.schedule",
        "parallelism.pp_engine",
        {"1f1b": "1f1b", "gpipe": "afab"},
        why="its engines are 1f1b and afab",
    ),
    _tensor,
    Row("parallelism.context", "parallelism.context_parallel_size"),
    Row("parallelism.expert", "parallelism.expert_parallel_size"),
    Row("parallelism.expert_tensor", words={1: {}}, why="an expert is whole on its device"),
    Row("parallelism.virtual_pipeline", words={1: {}}, why="stages are not interleaved"),
    _cut,
    Row(
        "training.recompute",
        "parallelism.recompute_layer",
        {
            "none": False,
            "full": True,
            "selective": Near(
                {"parallelism.recompute_layer": False}, "whole layers are recomputed or none"
            ),
        },
    ),
    Row("training.sequence_length", "tokens.sequence_length"),
    Row("training.micro_batch", "tokens.micro_batch_size"),
    Row("training.gradient_accumulation", "tokens.batch_accumulation_per_replica"),
    steps("tokens.train_steps"),
    Row(
        "training.precision",
        words={
            "bf16": {"model.dtype": "bfloat16", "optimizer.accumulate_grad_in_fp32": True},
            "bf16-pure": {"model.dtype": "bfloat16", "optimizer.accumulate_grad_in_fp32": False},
            "fp16": {"model.dtype": "float16", "optimizer.accumulate_grad_in_fp32": True},
            "fp32": {"model.dtype": "float32", "optimizer.accumulate_grad_in_fp32": False},
        },
        why="no stable recipe for it",
    ),
    _architecture,
    Row("parallelism.vocab_multiple", "model.make_vocab_size_divisible_by"),
    Row(
        "training.optimizer",
        "optimizer.optimizer_factory.name",
        {"adamw": "adamW", "sgd": "sgd"},
        why="its optimizers are adamW and sgd",
    ),
    Row("parallelism.zero", "optimizer.zero_stage", {0: 0, 1: 1}, why="its stages are 0 and 1"),
    Row("parallelism.replicate", words={1: {}}, why="shards lie on the whole group"),
    Row(
        "training.attention",
        f"{MODEL}._attn_implementation",
        {"flash": "flash_attention_2", "efficient": "sdpa"},
        why="no kernel keeps the scores",
    ),
    Row("training.dropout", words={0: {}}, why="the models have no dropout"),
    Row(
        "training.loss",
        words={"full": {}, "vocab-parallel": {}},
        why="the loss is over a divided vocabulary",
    ),
    TRAINS,
    FOLLOWS,
)


def write(said: Mapping[str, Any], head: str) -> str:
    return head + yaml_text(nested(said))
