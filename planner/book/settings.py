"""What decides which formula of a quantity holds: the settings of a plan, and those of the entries
of its axes (a block, a component, a stage, a phase), by the keywords that formulas use for them.

A keyword is the end of a setting's name, its words joined by ``_``: ``zero=3`` asks for
``parallelism.zero``, ``again_mlp=True`` for ``time.again.mlp``. Where two names end alike the
shorter one has the keyword; names of one length need more of their words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from planner.base.errors import nearest

#: Names of settings, by what they begin with: those without are of the entries of axes, or of what
#: a plan and its implementation come to together.
_NAMES = {
    "": "adapted again bias block copies dummies experts final fixed frozen gradients group "
    "grouped head head_workspace latent layers lora matmul matrix moment part phase picked "
    "quantised recomputed remembers routed scan scored shared side split "
    "streamed table tower towers type wide windowed",
    "block.": "capped gated lone multiplied scaled sees",
    "cluster.accelerator.": "link.convention peak.convention peak_16.convention",
    "energy.": "hosts_given pue_given",
    "hidden ": "matrix",
    "law.": "loss",
    "model.": "shape",
    "network.": "measured",
    "parallelism.": "context_exchange data_overlap dispatcher reshard send_overlap sequence zero",
    "run.": "finishes interrupted",
    "time.": "accumulation assumed attention bias buckets casts context expert expert_tensor "
    "experts_beside gathering host_update inputs_again offload pipeline replicas shards "
    "stragglers_given switched systolic tensor tensor_overlap tiles torus",
    "time.again.": "activation core_attention mlp moe norm operations some",
    "training.": "attention attention_count attention_precision cuda_graphs early_stop "
    "expert_kernels loss mode optimizer optimizer_kernel optimizer_matrices "
    "optimizer_paged optimizer_step "
    "partition_activations permute_fusion recompute schedule",
    "training.muon.": "symmetric tensor_mode",
    "training.lora.": "base checkpoint kernels",
}
NAMES = tuple(start + end for start, ends in _NAMES.items() for end in ends.split())


def _map_keywords() -> Mapping[str, str]:
    """Map each keyword to the one setting that it means."""
    claims: dict[str, list[tuple[int, str]]] = {}
    for name in NAMES:
        words = re.split(r"[. ]", name)
        for start in range(len(words)):
            claims.setdefault("_".join(words[start:]), []).append((len(words), name))
    nearest = {keyword: sorted(names) for keyword, names in claims.items()}
    return {
        keyword: first[1]
        for keyword, (first, *others) in nearest.items()
        if not others or others[0][0] > first[0]
    }


KEYWORDS = _map_keywords()


def expand_keywords(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the keywords of conditions by the full names of their settings."""
    for keyword in conditions:
        if keyword not in KEYWORDS:
            near = nearest(keyword, KEYWORDS)
            raise TypeError(f"no setting is called {keyword}" + (f"; {near}?" if near else ""))
    return {KEYWORDS[keyword]: wanted for keyword, wanted in conditions.items()}
