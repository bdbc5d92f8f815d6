"""torchtitan: what no row of torchtitan.yaml can say of a plan."""

from __future__ import annotations

from itertools import islice
from typing import Any

from planner.connect.exports.table import Draft, with_experts
from planner.plans import pipeline


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
