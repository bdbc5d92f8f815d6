"""torchtitan: the TOML file of a job (`--job.config_file`), with the keys of torchtitan 0.2.

Later versions configure jobs in Python; sections and keys kept their names as options there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from planner.base.display import one_line, quoted
from planner.connect.exports.table import (
    FOLLOWS,
    TRAINS,
    Draft,
    Near,
    Row,
    Rule,
    elsewhere,
    exchange,
    heard,
    nested,
    stack,
    steps,
)
from planner.plans import pipeline

TITLE = "torchtitan job configuration"
SUFFIX = ".toml"
KERNELS = "torchtitan"
BY_HAND = ("model.name and model.flavor", "data set, learning rate and checkpoints")
USE = "run_train.sh with CONFIG_FILE=FILE (torchtitan 0.2)"

SCHEDULES = {"1f1b": "1F1B", "interleaved": "Interleaved1F1B", "gpipe": "GPipe"}
PRECISIONS = {
    "bf16": {"training.mixed_precision_param": "bfloat16"},
    "fp32": {"training.mixed_precision_param": "float32"},
    "fp8": {
        "training.mixed_precision_param": "bfloat16",
        "model.converters": ["quantize.linear.float8"],
    },
    "bf16-pure": {"training.dtype": "bfloat16"},
}


def _job(draft: Draft) -> None:
    draft.say({"job.description": one_line(str(draft.plan.name))})


def _batch(draft: Draft) -> None:
    """A pipeline takes the micro-batches of a step at once, else they are accumulated."""
    micro, count = draft.get("training.micro_batch"), draft.get("training.gradient_accumulation")
    if draft.get("parallelism.pipeline") > 1:
        draft.say(
            {
                "training.local_batch_size": micro * count,
                "parallelism.pipeline_parallel_microbatch_size": micro,
            }
        )
    else:
        draft.say({"training.local_batch_size": micro})


def _sharding(draft: Draft) -> None:
    """No resharding after forward is ZeRO 2: weights are gathered once a step."""
    stage, data = draft.get("parallelism.zero"), draft.get("parallelism.data")
    copies = draft.get("parallelism.replicate") if stage else data
    draft.say(
        {
            "parallelism.data_parallel_replicate_degree": copies,
            "parallelism.data_parallel_shard_degree": data // copies,
        }
    )
    if stage:
        draft.say({"parallelism.fsdp_reshard_after_forward": "always" if stage == 3 else "never"})
    if stage == 1:
        draft.cannot("parallelism.zero", "said as 2: gradients are divided too")


def _tensor(draft: Draft) -> None:
    size, loss = draft.get("parallelism.tensor"), draft.get("training.loss")
    draft.say({"parallelism.tensor_parallel_degree": size})
    if loss not in ("full", "vocab-parallel"):
        draft.cannot("training.loss", "the loss is full, or over a divided vocabulary")
    if size > 1:
        draft.say({"parallelism.disable_loss_parallel": loss == "full"})
        if not draft.get("parallelism.sequence"):
            draft.cannot("parallelism.sequence", "always on beside tensor parallelism")


def _pipeline(draft: Draft) -> None:
    size, chunks = draft.get("parallelism.pipeline"), draft.get("parallelism.virtual_pipeline")
    schedule, stages = draft.get("training.schedule"), draft.get("parallelism.stages")
    draft.say({"parallelism.pipeline_parallel_degree": size})
    if size == 1:
        return
    if schedule in SCHEDULES:
        draft.say({"parallelism.pipeline_parallel_schedule": SCHEDULES[schedule]})
    else:
        draft.cannot(
            "training.schedule",
            "ZBVZeroBubble and DualPipeV differ from it: both have two virtual stages per device",
        )
    layers, model = len(stack(draft)), draft.plan.model
    draft.heard.add("parallelism.cut")
    if model is not None and (stages or layers % (size * chunks)):
        held = pipeline.chunks(model, draft.plan.data["parallelism"], draft.plan.get("model.vocab"))
        draft.say({"parallelism.module_fqns_per_model_part": _modules(held)})
    elif layers and layers % (size * chunks) == 0:
        draft.say(
            {
                "parallelism.pipeline_parallel_layers_per_stage": layers // (size * chunks),
                "parallelism.pipeline_parallel_first_stage_less_layers": 0,
                "parallelism.pipeline_parallel_last_stage_less_layers": 0,
            }
        )


def _modules(stages: list[int]) -> list[list[str]]:
    """The modules of each stage by name, as torchtitan's decoders call them."""
    starts = [sum(stages[:i]) for i in range(len(stages))]
    parts = [
        [f"layers.{i}" for i in range(first, first + count)]
        for first, count in zip(starts, stages, strict=True)
    ]
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "output"]
    return parts


TABLE: tuple[Row | Rule, ...] = (
    _job,
    elsewhere("model", "choose model.name and model.flavor of this shape"),
    Row("training.precision", words=PRECISIONS, why="mixed precision is bfloat16"),
    Row(
        "training.optimizer",
        words={"adamw": {"optimizer.name": "AdamW"}},
        why="its optimizers are Adam and AdamW",
    ),
    Row("training.sequence_length", "training.seq_len"),
    Row("training.global_batch", "training.global_batch_size"),
    _batch,
    steps("training.steps"),
    _sharding,
    _tensor,
    _pipeline,
    Row("parallelism.context", "parallelism.context_parallel_degree"),
    exchange("parallelism.context_parallel_rotate_method", ring="alltoall", gather="allgather"),
    Row("parallelism.expert", "parallelism.expert_parallel_degree"),
    Row("parallelism.expert_tensor", "parallelism.expert_tensor_parallel_degree"),
    Row(
        "training.recompute",
        words={
            "none": {"activation_checkpoint.mode": "none"},
            "full": {"activation_checkpoint.mode": "full"},
            "selective": Near(
                {
                    "activation_checkpoint.mode": "selective",
                    "activation_checkpoint.selective_ac_option": "op",
                },
                "said as op: matmuls and attention are kept, cheap operations recomputed",
            ),
        },
    ),
    Row(
        "training.attention",
        words={"flash": {}, "efficient": Near({}, "PyTorch chooses the kernel of its attention")},
        why="attention never keeps the scores",
    ),
    Row("training.dropout", words={0: {}}, why="the models have no dropout"),
    heard("parallelism.vocab_multiple"),
    TRAINS,
    FOLLOWS,
)


def write(said: Mapping[str, Any], head: str) -> str:
    """TOML: one table for each section, in the order of the table."""
    lines = [head.rstrip("\n")]
    for section, keys in nested(said).items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {quoted(value)}" for key, value in keys.items()]
    return "\n".join(lines) + "\n"
