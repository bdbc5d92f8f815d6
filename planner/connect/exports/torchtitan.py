"""torchtitan: what no row of torchtitan.yaml can say of a plan."""

from __future__ import annotations

from itertools import islice
from typing import Any

from planner.connect.exports.table import Draft, with_experts
from planner.plans import pipeline


def batch(draft: Draft) -> dict[str, Any]:
    """A pipeline takes the micro-batches of a step at once, else they are accumulated."""
    micro, count = draft.get("training.micro_batch"), draft.get("training.gradient_accumulation")
    if draft.get("parallelism.pipeline") == 1:
        return {"training.local_batch_size": micro}
    return {
        "training.local_batch_size": micro * count,
        "parallelism.pipeline_parallel_microbatch_size": micro,
    }


def sharding(draft: Draft) -> dict[str, Any]:
    """No resharding after forward is ZeRO 2: weights are gathered once a step."""
    stage, data = draft.get("parallelism.zero"), draft.get("parallelism.data")
    copies = draft.get("parallelism.replicate") if stage else data
    if stage == 1:
        draft.cannot("parallelism.zero", "said as 2: gradients are divided too")
    said = {
        "parallelism.data_parallel_replicate_degree": copies,
        "parallelism.data_parallel_shard_degree": data // copies,
    }
    if stage:
        said["parallelism.fsdp_reshard_after_forward"] = "always" if stage == 3 else "never"
    return said


def stages(draft: Draft) -> dict[str, Any]:
    """As many layers on each stage, or the modules of each by name."""
    size, chunks = draft.get("parallelism.pipeline"), draft.get("parallelism.virtual_pipeline")
    given, layers = draft.get("parallelism.stages"), len(with_experts(draft))
    model = draft.plan.model
    if size == 1:
        return {}
    draft.heard.add("parallelism.cut")
    if model is not None and (given or layers % (size * chunks)):
        layout = draft.plan.data["parallelism"]
        held = pipeline.chunks(model, layout, draft.plan.get("model.vocab"))
        # The modules of each stage by name, as torchtitan's decoders call them.
        left = iter(range(sum(held)))
        modules = [[f"layers.{i}" for i in islice(left, count)] for count in held]
        modules[0].insert(0, "tok_embeddings")
        modules[-1] += ["norm", "output"]
        return {"parallelism.module_fqns_per_model_part": modules}
    if not layers or layers % (size * chunks):
        return {}
    return {
        "parallelism.pipeline_parallel_layers_per_stage": layers // (size * chunks),
        "parallelism.pipeline_parallel_first_stage_less_layers": 0,
        "parallelism.pipeline_parallel_last_stage_less_layers": 0,
    }
