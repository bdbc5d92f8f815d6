"""A study over any number of a model or of its hardware says of each value what the plan with this
value says alone: the same numbers, or the same refusal."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import planner
from fuzz import ranges
from planner.engine.evaluate import Absent, Evaluation
from planner.questions import loading
from tests.changed import evaluation_of
from tests.conftest import leave_to_night

RUN = {"tokens": 10**9, "sequence_length": 1024, "global_batch": 256, "micro_batch": 1}
ON = {"accelerator": "h100-sxm-80gb", "devices": 8, "price": "2 USD/h"}
ROW = {"accelerator": "tpu-v5p", "devices": 256, "price": "2 USD/h"}
#: Small models of every structure: what its numbers are is of no matter.
SMALL: dict[str, Any] = {
    "layers": 4, "hidden": 256, "vocab": 512, "max_sequence": 8192, "attention": {"heads": 8},
    "mlp": {"gated": True, "intermediate": 512},
}  # fmt: skip
TOWER = {
    "layers": 2, "hidden": 128, "tokens": 64, "merge": 4, "attention": {"heads": 4, "window": 128},
    "mlp": {"intermediate": 256}, "stem": [{"inputs": 588}], "projector": [{"inputs": 512}],
    "positions": "learned",
}  # fmt: skip
PATCHES: dict[str, Any] = {
    **SMALL, "vocab": None, "stem": [{"inputs": 16}], "output": [{"outputs": 16}], "modulation": 6,
    "conditioning": {"rows": 10, "width": 128, "output": 2, "matrices": [{"inputs": 64}]},
}  # fmt: skip
ENCODED = {
    "encoder": {"layers": 2}, "mixer": ["attention", "cross_attention"],
    "cross_attention": {"heads": 8, "head_dim": 64},
}  # fmt: skip
STRUCTURES: dict[str, tuple[Any, dict[str, Any]]] = {
    "patches": (PATCHES, ON),
    "two streams": ({**PATCHES, "context": {"tokens": 64}, "streams": "double"}, ON),
    "a tower": ({**SMALL, "vision": TOWER}, ON),
    "an encoder": ({**SMALL, **ENCODED}, ON),
    "experts": ({**SMALL, "moe": ranges.EXPERTS}, ROW),
    "a hybrid": ({**SMALL, "mixer": "mamba", "mamba": ranges.MIXERS["mamba"]}, ON),
    "latents": ({**SMALL, "attention": {"heads": 8, **ranges.LATENT}}, ON),
}
#: What the others rest on.
RECORD = (
    "parameters.total", "parameters.active", "compute.executed_flops_per_token", "memory.process",
    "checkpoint.bytes", "time.step_seconds", "energy.devices",
)  # fmt: skip
#: Of this the numbers of what conditions it alone, and what these move first.
QUICK = "patches"


def document(structure: str) -> dict[str, Any]:
    model, cluster = STRUCTURES[structure]
    device = {"extends": cluster["accelerator"]}
    return {"name": "a plan", "model": model, "cluster": {**cluster, "accelerator": device},
            "training": RUN, "parallelism": {"tensor": 1}}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("structure", "quick"),
    leave_to_night(
        [(QUICK, True), *((one, False) for one in STRUCTURES)], [(QUICK, True), ("patches", False)]
    ),
)
def test_a_number_is_the_same_in_a_study_and_in_a_plan(structure: str, quick: bool) -> None:
    base, said = document(structure), ranges.numeric()
    plan, checked = loading.load(base), 0
    sections = ("model.conditioning.",) if quick else ("model.", "cluster.")
    record = RECORD[:2] if quick else RECORD
    own = {k: plan.get(k) for k in said if k.startswith(sections)}
    own = {k: v for k, v in own.items() if isinstance(v, (int, Fraction)) and type(v) is not bool}
    plain = {key: ranges.written(value, said[key]) for key, value in own.items()}
    twice = {key: near(2 * value, said[key]) for key, value in own.items()}
    points = [{**plain, key: ranges.written(value, said[key])} for key, value in twice.items()]
    axes = {key: [point[key] for point in points] for key in own}
    study = {"base": base, "combine": "zip", "record": list(record), "axes": axes}
    for point, row in zip(points, planner.load_study(study).rows(), strict=True):
        told = {key: value for key, value in point.items() if value != plain[key]}
        try:
            alone = evaluation_of(base, {**plain, **told})
        except planner.PlanError as error:
            assert row["reason"] == "; ".join(fault.message for fault in error.faults), told
            continue
        for name in record:
            wanted = worth(alone, name)
            assert row[name] == (wanted and pytest.approx(wanted, rel=1e-9)), (name, told)
        checked += 1
    assert checked > len(own) / 2


def near(value: Any, said: Any) -> Any:
    """The value that a schema allows nearest to one."""
    low, high = ranges.bounds(said)
    value = min(max(value, low), high)
    return int(value) if "integer" in str(said.get("type")) else value


def worth(evaluation: Evaluation, name: str) -> Any:
    try:
        return float(evaluation.value(name))
    except Absent:
        return None
