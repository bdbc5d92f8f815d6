"""DeepSpeed: the JSON configuration that `deepspeed.initialize` and the launcher take.

JSON has no comments; what stays unsaid is returned beside the text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from planner.connect.exports.table import (
    FOLLOWS,
    TRAINS,
    Draft,
    Elsewhere,
    Near,
    Row,
    Rule,
    elsewhere,
    heard,
    nested,
)

TITLE = "DeepSpeed configuration"
SUFFIX = ".json"
KERNELS = None  # of the model that the script builds
BY_HAND = ("learning rate and other parameters of the optimizer",)
USE = "deepspeed … --deepspeed_config FILE"

SCRIPT = Elsewhere("the training script decides it")
OPTIMIZERS = {"adamw": "AdamW", "lion": "Lion", "muon": "Muon"}


def _context(draft: Draft) -> None:
    size = draft.get("parallelism.context")
    if size > 1:
        draft.say({"sequence_parallel_size": size})
        draft.cannot("parallelism.context", "said as Ulysses: heads are divided for attention")


def _tensor(draft: Draft) -> None:
    if draft.get("parallelism.tensor") > 1:
        draft.say({"tensor_parallel.autotp_size": draft.get("parallelism.tensor")})


TABLE: tuple[Row | Rule, ...] = (
    Row("training.global_batch", "train_batch_size"),
    Row("training.micro_batch", "train_micro_batch_size_per_gpu"),
    Row("training.gradient_accumulation", "gradient_accumulation_steps"),
    Row(
        "training.precision",
        words={
            "bf16": {"bf16.enabled": True},
            "fp16": {"fp16.enabled": True},
            "fp32": {},
            "fp8": Near({"bf16.enabled": True}, "said as bf16: the model's kernels choose fp8"),
            "bf16-pure": {
                "bf16.enabled": True,
                "bf16.bf16_master_weights_and_grads": True,
                "bf16.bf16_optimizer_states": True,
            },
        },
    ),
    Row(
        "training.optimizer",
        words={key: {"optimizer.type": value} for key, value in OPTIMIZERS.items()},
        why="build it in the training script and hand it to deepspeed.initialize",
    ),
    Row("parallelism.zero", "zero_optimization.stage"),
    Row(
        "parallelism.replicate",
        words={1: {}},
        why="shards lie on the whole data-parallel group; ZeRO++ keeps a second copy per node",
    ),
    _tensor,
    Row(
        "parallelism.sequence",
        words={False: {}},
        why=Elsewhere("the model divides its norms itself"),
    ),
    Row(
        "parallelism.pipeline",
        words={1: {}},
        why=Elsewhere("PipelineModule(num_stages=…) in the training script"),
    ),
    Row("parallelism.virtual_pipeline", words={1: {}}, why="stages are not interleaved"),
    Row("training.schedule", words={"1f1b": {}}, why="pipelines run 1F1B"),
    _context,
    Row("parallelism.expert", words={1: {}}, why=Elsewhere("ep_size of each MoE layer")),
    Row("parallelism.expert_tensor", words={1: {}}, why=Elsewhere("each MoE layer decides it")),
    heard("parallelism.vocab_multiple"),
    elsewhere("model", SCRIPT),
    *(
        Row(f"training.{key}", why=SCRIPT)
        for key in ("sequence_length", "tokens", "attention", "dropout", "loss")
    ),
    Row("training.recompute", words={"none": {}}, why=SCRIPT),
    TRAINS,
    FOLLOWS,
)


def write(said: Mapping[str, Any], head: str) -> str:
    return json.dumps(nested(said), indent=2) + "\n"
