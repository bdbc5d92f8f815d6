"""Families of models: an architecture, the plan's own or another, in every width and depth.

Widths and depths are those that published models have: a hidden size in quarters of a power
of two, and layers in a range of its shares (``ASPECT``). Head size, the ratios of feed-forward and
embedding width to hidden size, and experts are those of the model; query heads that share keys and
values keep as many key/value heads, as the published families do. So what is asked of a family does
not depend on which of its members the question starts from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from math import ceil, floor, gcd, lcm
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.documents import schema, source
from planner.documents.source import lookup
from planner.plans.document import Plan
from planner.plans.pipeline import chunk_count, counted
from planner.plans.plan import variant
from planner.questions.domains import MOST_LAYERS, Domain

#: Widths that grow with the hidden size, where the document gives them.
WIDTHS = (
    "mlp.intermediate",
    "moe.intermediate",
    "moe.shared_intermediate",
    "moe.latent",
    "embedding_dim",
)
#: Ways in which a stack is spelled out layer by layer or in which widths are not the layers' own.
SPELLED = ("kinds", "pattern", "mixer", "encoder", "decoder")
#: Hidden size over layers: nine in ten of the shipped models from 1e9 parameters on lie in between.
ASPECT = (64, 160)
#: A hidden size has so many steps to its double (4096, 5120, 6144, 7168, 8192, 10240, …), as
#: published ones do, of at least ``FINEST``.
STEPS, FINEST = 4, 64
WIDEST = 2**17
#: What heads are multiples of where the hidden size does not say how many there are: devices of a
#: node, which tensor parallelism spans.
NODE = 8
#: Feed-forward widths keep what they have in common with this.
ROUND = 128
#: Indices of one width in a domain.
ROW = MOST_LAYERS + 1
#: What models of several widths are compared by.
SIZE = "parameters.total"


@dataclass(frozen=True)
class Family:
    """The models of a family; one is known by its width and its depth, in units of layers.

    Args:
        model: whose shape the models have.
        widths: hidden sizes, in increasing order; the model's own only where its stack is spelled
            out layer by layer.
        unit: what layers are multiples of.
        together: what heads are multiples of; 0 where only the layers change.
        ends: how many layers the layout counts embedding and head as: whole units hold these too.
    """

    model: Mapping[str, Any]
    widths: tuple[int, ...]
    unit: int
    together: int = 0
    ends: int = 0

    def depths(self, place: int) -> tuple[int, int]:
        """The least and the largest depth of a width, by the place of that."""
        if not self.together:
            return 1, MOST_LAYERS // self.unit
        width, unit = self.widths[place], self.unit
        low, high = ceil(Fraction(width, ASPECT[1] * unit)), width // (ASPECT[0] * unit)
        if low > high:  # so narrow that one unit is more layers than its share
            low = high = 1
        return low, high

    def changes(self, index: Any) -> dict[str, Any]:
        """The keys of a plan for a model of the family, by its index."""
        width, layers = self.widths[index // ROW], index % ROW * self.unit - self.ends
        if not self.together:
            return {"model.layers": layers}
        model, attention = self.model, self.model["attention"]
        hidden, heads = model["hidden"], attention["heads"]
        shared = attention.get("kv_heads") or heads
        count = max(1, _round(Fraction(width * heads, hidden * self.together))) * self.together
        changed = {"model.attention.heads": count, "model.hidden": width, "model.layers": layers}
        if attention.get("kv_heads") is not None:
            changed["model.attention.kv_heads"] = shared if shared < heads else count
        for key in WIDTHS:
            given = lookup(model, key)
            if given:
                whole = gcd(given, ROUND)
                scaled = _round(Fraction(given * width, hidden * whole)) * whole
                changed[f"model.{key}"] = max(whole, scaled)
        return changed

    @cached_property
    def nearest(self) -> int:
        """The index of the model that is nearest to the family's own."""
        hidden, layers = self.model["hidden"], self.model["layers"]
        place = min(range(len(self.widths)), key=lambda i: abs(self.widths[i] - hidden))
        low, high = self.depths(place)
        return place * ROW + min(max(_round(Fraction(layers + self.ends, self.unit)), low), high)

    def around(self) -> Iterator[int]:
        """The shallowest model of every width, those nearest to the family's own first."""
        yield self.nearest
        rows = self.domain.rows
        for place in sorted(range(len(rows)), key=lambda i: abs(i - self.nearest // ROW)):
            yield rows[place][0]

    @cached_property
    def domain(self) -> Domain:
        """Every width with its depths, one after another."""
        depths = [self.depths(place) for place in range(len(self.widths))]
        rows = tuple(range(i * ROW + a, i * ROW + b + 1) for i, (a, b) in enumerate(depths))
        return Domain(
            "model",
            "parameters",
            lambda index: index,
            self.changes,
            self.nearest,
            rows[0][0],
            rows[-1][-1],
            self._steps(),
            True,
            rows,
            SIZE,
        )

    def _steps(self) -> str:
        layers = f"layers in multiples of {self.unit}" if self.unit > 1 else "any number of layers"
        layers += f" less {self.ends}" if self.ends else ""
        if not self.together:
            return f"width kept, {layers}"
        attention = self.model["attention"]
        heads = attention["heads"]
        kept = ["feed-forward ratio"]
        if attention.get("kv_heads") and attention["kv_heads"] < heads:
            kept.insert(0, f"{attention['kv_heads']} key/value heads")
        size = attention.get("head_dim") or Fraction(self.model["hidden"], heads)
        return (
            f"hidden sizes in quarters of powers of two, {layers} from hidden / {ASPECT[1]} to "
            f"hidden / {ASPECT[0]}; heads of {size}, {' and '.join(kept)} kept"
        )


def of_plan(plan: Plan, family: str | None = None, free: bool = False) -> tuple[Plan, Family]:
    """The models of a family, and a plan that has one of them.

    Args:
        plan: its own model's shape is scaled unless ``family`` names another model.
        family: a name or path of a model document.
        free: whether the layout is, which otherwise has to divide heads and layers.

    Raises:
        PlanError: the model is given by its size only, there is no model of that name, or no size
            of its shape agrees with the plan's layout.
    """
    if family is None:
        if plan.model is None:
            size_only = "a family of models scales a shape, and the model is given by its size only"
            needed = "a model with layers, hidden and so on, or --family NAME"
            raise PlanError(Fault(size_only, plan.document.place(("model",)), needed))
        return plan, _family(plan, plan.document.data["model"], free)
    from planner.questions.search.layouts import first_valid

    # As a plan's `model: NAME` would be read: a shipped name, or a path.
    document = source.load({"extends": family}, kind="model")
    model = schema.validate(document, "model").data
    if not model.get("layers"):
        raise PlanError(Fault(f"--family {family} has no shape to scale", None, "another model"))
    found = _family(plan, model, free)
    tried = ({"model": model, **found.domain.changes(index)} for index in found.around())
    return first_valid(partial(variant, plan), tried), found


def _family(plan: Plan, model: Mapping[str, Any], free: bool) -> Family:
    layout = plan.data["parallelism"]
    unit = 1 if free else chunk_count(layout)
    ends = counted(0, layout.get("cut"), unit)
    attention = model.get("attention")
    if attention and not any(model.get(key) for key in SPELLED):
        heads = attention["heads"]
        shared = attention.get("kv_heads") or heads
        tensor = 1 if free else plan.get("parallelism.tensor")
        together = lcm(tensor, shared if shared < heads else 1)
        size = attention.get("head_dim")
        if attention.get("kv_rank") or (size and size * heads != model["hidden"]):
            # Heads of a size of their own are no part of the hidden size.
            return Family(model, _widths(FINEST), unit, lcm(together, gcd(heads, NODE)), ends)
        whole = Fraction(model["hidden"] * together, heads).numerator
        return Family(model, _widths(whole) or (model["hidden"],), unit, together, ends)
    # Depth alone, in whole patterns and whole stages.
    pattern = model.get("pattern") or model.get("mixer")
    unit = lcm(unit, len(pattern) if isinstance(pattern, list) else 1)
    return Family(model, (model["hidden"],), unit, ends=ends)


def _widths(whole: int) -> tuple[int, ...]:
    """Hidden sizes, multiples of what a whole number of heads takes."""
    found, width = list[int](), lcm(whole, FINEST)
    while width <= WIDEST:
        found.append(width)
        step = lcm(whole, max(FINEST, (1 << (width // STEPS).bit_length()) // 2))
        width = (width // step + 1) * step
    return tuple(found)


def _round(value: Fraction) -> int:
    """To the nearest whole number, halves up, so that a larger scale is never rounded lower."""
    return floor(value + Fraction(1, 2))
