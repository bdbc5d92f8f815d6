"""All valid layouts of a plan, as columns of numbers and choices.

Which degrees a cluster and a model allow is asked of the plan's own checks, once for each
combination of degrees; micro-batch, virtual stages, ZeRO stage, recomputation and schedule are
crossed with them as arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

from planner import pipeline
from planner.document import Draft, Plan
from planner.domains import divisors
from planner.errors import Fault, PlanError
from planner.plan import variant

#: Degrees in the order in which they are nested.
DEGREES = ("tensor", "pipeline", "context", "expert", "expert_tensor")
#: What the other choices may be.
ZERO = (0, 1, 2, 3)
RECOMPUTE = ("none", "selective", "full")
SCHEDULES = ("1f1b", "interleaved", "zero-bubble", "dualpipe")
#: What follows from the layout and must not be kept from the plan that the search starts from.
FOLLOWS: dict[str, None] = dict.fromkeys(
    (
        "parallelism.data",
        "parallelism.stages",
        "training.gradient_accumulation",
        "training.distributed_optimizer",
        "training.schedule",
        "training.loss",
        "training.implementation",
        "time.mfu",
    )
)


@dataclass(frozen=True, eq=False)
class Degrees:
    """One combination of degrees that the plan's checks accept, with the plan that has it."""

    plan: Plan
    values: tuple[int, ...]

    @cached_property
    def data(self) -> int:
        return int(self.plan.get("parallelism.data"))

    @cached_property
    def changes(self) -> dict[str, int]:
        return dict(zip((f"parallelism.{key}" for key in DEGREES), self.values, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """One combination of degrees with micro-batch, virtual stages and schedule."""

    degrees: Degrees
    virtual: int
    schedule: str
    micro_batch: int
    micro_batches: int


class Space:
    """The layouts of one plan; ``fixed`` holds keys at a value."""

    def __init__(self, plan: Plan, fixed: Mapping[str, Any] | None = None) -> None:
        self.fixed = dict(fixed or {})
        kept = {
            key: None
            for key in FOLLOWS
            if key not in self.fixed and plan.document.data.get(key.split(".")[0]) is not None
        }
        for key in ("training.implementation", "training.loss"):
            section, name = key.split(".")
            if plan.document.data[section].get(name) is not None:
                kept.pop(key, None)  # the plan's own choice of kernels stays
        batch = plan.get("training.global_batch")
        ones = {f"parallelism.{k}": 1 for k in (*DEGREES, "virtual_pipeline", "replicate")}
        self.plan = plan
        self.base = {
            **kept,
            **ones,
            "training.global_batch": batch,
            "training.micro_batch": 1,
            "parallelism.zero": 0,
        }
        self.batch = int(batch)
        #: What the stages of a pipeline hold and keep, found once for all groups.
        self.pipelines: dict[tuple[Any, ...], list[Any]] = {}

    def _options(self, key: str, free: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.fixed[key],) if key in self.fixed else free

    @cached_property
    def degrees(self) -> tuple[Degrees, ...]:
        """Every combination of degrees that makes a valid plan."""
        devices = self.plan.get("cluster.devices")
        experts = self.plan.get("model.moe.experts") or 1
        whole = divisors(devices)
        free = (whole, whole, whole, divisors(experts), whole if experts > 1 else (1,))
        options = [
            self._options(f"parallelism.{key}", values)
            for key, values in zip(DEGREES, free, strict=True)
        ]
        found: list[Degrees] = []
        faults: list[Fault] = []
        for values in product(*options):
            tensor, stages, context, _, inner = values
            if devices % (tensor * stages * context) or inner > tensor:
                continue
            changes = dict(zip((f"parallelism.{key}" for key in DEGREES), values, strict=True))
            try:
                found.append(Degrees(variant(self.plan, {**self.base, **changes}), values))
            except PlanError as error:
                faults += error.faults
        if not found:
            raise PlanError(faults or Fault("no layout is valid", None))
        return tuple(found)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """Every combination of degrees, micro-batch, virtual stages and schedule that is valid."""
        found = []
        for degrees in self.degrees:
            stages = degrees.values[1]
            share = self.batch // degrees.data
            micro = [
                b for b in self._options("training.micro_batch", divisors(share)) if share % b == 0
            ]
            for virtual, schedule in self._schedules(stages):
                found += [
                    Row(degrees, virtual, schedule, b, share // b)
                    for b in micro
                    if self.runs(stages, virtual, schedule, share // b)
                ]
        return tuple(found)

    def choices(self, tensor: int) -> tuple[tuple[Any, ...], ...]:
        """What each row is crossed with: sequence parallelism, ZeRO stage, recomputation."""
        sequence = self._options("parallelism.sequence", (False, True) if tensor > 1 else (False,))
        zero = self._options("parallelism.zero", ZERO)
        return tuple(product(sequence, zero, self._options("training.recompute", RECOMPUTE)))

    @cached_property
    def size(self) -> int:
        """How many layouts there are."""
        crossed = {t: len(self.choices(t)) for t in (1, 2)}
        return sum(crossed[min(2, row.degrees.values[0])] for row in self.rows)

    def changes(self, row: Row, choice: tuple[Any, ...]) -> dict[str, Any]:
        """One layout as changes of the plan."""
        sequence, zero, recompute = choice
        return {
            **self.base,
            **row.degrees.changes,
            "training.micro_batch": row.micro_batch,
            "parallelism.virtual_pipeline": row.virtual,
            "training.schedule": row.schedule,
            "parallelism.zero": zero,
            "parallelism.sequence": sequence,
            "training.recompute": recompute,
        }

    def _schedules(self, stages: int) -> list[tuple[int, str]]:
        """Virtual stages and schedules that go together for a number of stages."""
        assert self.plan.model is not None
        layers = len(self.plan.model.sequence)
        virtual = self._options(
            "parallelism.virtual_pipeline",
            divisors(max(1, layers // stages)) if stages > 1 else (1,),
        )
        schedules = self._options("training.schedule", SCHEDULES)
        return [
            (v, s)
            for v in virtual
            for s in schedules
            if (v > 1) == (s == "interleaved") and (stages > 1 or s == "1f1b")
        ]

    def runs(self, stages: int, virtual: int, schedule: str, micro_batches: int) -> bool:
        """Whether a schedule can run that many micro-batches: the plan's own check."""
        key = (stages, virtual, schedule, micro_batches)
        if key not in self._runs:
            data = {
                "parallelism": {
                    **self.plan.data["parallelism"],
                    "pipeline": stages,
                    "virtual_pipeline": virtual,
                    "context": 1,
                    "stages": None,
                },
                "training": {
                    **self.plan.data["training"],
                    "schedule": schedule,
                    "gradient_accumulation": micro_batches,
                },
            }
            draft = Draft(self.plan.document, data)
            assert self.plan.model is not None
            pipeline.check(draft, self.plan.model)
            self._runs[key] = not draft.faults
        return self._runs[key]

    @cached_property
    def _runs(self) -> dict[tuple[int, int, str, int], bool]:
        return {}
