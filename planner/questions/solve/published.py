"""Shipped models by size: what an answer is near to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from planner.base.errors import PlanError
from planner.documents import schema, source
from planner.engine.instance import evaluated
from planner.plans.document import Plan
from planner.plans.layout import CLEARED, RUN, UNDIVIDED
from planner.plans.plan import variant
from planner.questions.solve.families import SIZE

#: One short sequence on one device: what any model can be counted on.
ALONE: Mapping[str, Any] = {
    "cluster.devices": 1,
    "training.sequence_length": 8,
    "training.decoder_sequence_length": None,
    "training.global_batch": None,
    **dict.fromkeys((*RUN, *CLEARED)),
    **UNDIVIDED,
}
#: A size in the name of a shipped model: 7b, 1.5b, 125m, 8x7b.
NAMED = re.compile(r"(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])")
#: How far the size in a name may be from that of the weights, as a share.
LOOSE = Fraction(1, 4)


def below(plan: Plan, size: int, most: int = 3) -> list[tuple[str, int]]:
    """Shipped models next below a size, the largest first, with their parameters.

    Of the plan's kind: dense, or with experts. Only names that carry a size are looked at, since
    every other model would have to be read and counted.
    """
    named = []
    for name in source.preset_names("model"):
        match = NAMED.search(name)
        if match:
            each = Fraction(match[2]) * {"b": 10**9, "m": 10**6}[match[3]]
            named.append((each * int(match[1] or 1), name))
    sparse, found = bool(plan.get("model.moe")), list[tuple[str, int]]()
    for nominal, name in sorted(named, reverse=True):
        if nominal > size * (1 + LOOSE):
            continue
        if len(found) >= most and nominal * (1 + LOOSE) < min(total for _, total in found):
            break
        model = schema.validate(source.load({"extends": name}, kind="model"), "model").data
        if bool(model.get("moe")) != sparse:
            continue
        with suppress(PlanError):
            counted = variant(plan, {**ALONE, "model": model})
            total = int(evaluated(counted, [SIZE])[SIZE])
            if total <= size:
                found.append((name, total))
    return sorted(found, key=lambda pair: -pair[1])[:most]
