"""Families of models: an architecture, the plan's own or another, in every width and depth.

Widths and depths are those that published models have: hidden sizes in quarters of a power of two,
and layers within a range of hidden size over layers (``ASPECT``). Head size, the ratios of
feed-forward and embedding width to hidden size, and experts are those of the model; query heads
that share keys and values keep the number of key/value heads, as published families do, and are
then not always as wide together as the hidden size (as in Qwen3 4B: 32 heads of 128 beside 2,560).
So the answer does not depend on the member of the family from which the question starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, gcd, lcm
from typing import Any

from planner.base.errors import PlanError
from planner.documents import schema, source
from planner.documents.source import lookup
from planner.plans.document import Plan
from planner.plans.pipeline import count_chunks, count_cut_layers
from planner.plans.plan import variant
from planner.questions.domains import MOST_LAYERS, Domain
from planner.questions.solve.priced_devices import NODE

#: Widths that grow with the hidden size, where the document gives them.
WIDTHS = (
    "mlp.intermediate", "moe.intermediate", "moe.shared_intermediate", "moe.latent",
    "embedding_dim",
)  # fmt: skip
#: Keys of models whose layers are listed one by one or have widths of their own.
SPELLED = ("kinds", "pattern", "mixer", "encoder", "decoder")
#: Range of hidden size over layers; nine in ten built-in models from 1e9 parameters are within.
ASPECT = (64, 160)
#: Steps from a hidden size to its double (4096, 5120, 6144, 7168, 8192, 10240, …), as in published
#: models, each of at least ``FINEST``.
STEPS, FINEST = 4, 64
WIDEST = 2**17
#: Feed-forward widths keep their greatest common divisor with this.
ROUND = 128
#: Indices of one width in a domain.
ROW = MOST_LAYERS + 1
#: The quantity by which models of several widths are compared.
SIZE = "parameters.total"


@dataclass(frozen=True)
class Family:
    """The models of a family, each identified by its width and its depth in units of layers.

    Args:
        model: the model whose shape is scaled.
        widths: hidden sizes, in increasing order; the model's own only where its stack is spelled
            out layer by layer.
        unit: layers are a multiple of this.
        together: heads are a multiple of this; 0 where only the layers change.
        ends: the layers as which the layout counts embedding and head, part of the whole units.
        fixed: whether the layout states the layers of each stage, so that a unit is all of them.
    """

    model: Mapping[str, Any]
    widths: tuple[int, ...]
    unit: int
    together: int = 0
    ends: int = 0
    fixed: bool = False

    def bound_depths(self, place: int) -> tuple[int, int]:
        """Return the least and the largest depth, in units, of a width by its index."""
        if self.fixed:
            return 1, 1
        if not self.together:
            return 1, MOST_LAYERS // self.unit
        width, unit = self.widths[place], self.unit
        low, high = ceil(Fraction(width, ASPECT[1] * unit)), width // (ASPECT[0] * unit)
        if low > high:  # too narrow for even one unit of layers
            low = high = 1
        return low, high

    def build_changes(self, index: Any) -> dict[str, Any]:
        """Return the changed keys of a plan for a model of the family, by its index."""
        width, layers = self.widths[index // ROW], index % ROW * self.unit - self.ends
        named = self._name_shape(width, layers)
        if not self.together:
            return {"model.layers": layers, **named}
        model, attention = self.model, self.model["attention"]
        hidden, heads = model["hidden"], attention["heads"]
        shared = attention.get("kv_heads") or heads
        count = max(1, _round_size(Fraction(width * heads, hidden * self.together))) * self.together
        changed = {"model.attention.heads": count, "model.hidden": width, "model.layers": layers}
        if attention.get("kv_heads") is not None:
            changed["model.attention.kv_heads"] = shared if shared < heads else count
        if count * hidden != heads * width and not attention.get("kv_rank"):
            changed["model.attention.head_dim"] = attention.get("head_dim") or hidden // heads
        for key in WIDTHS:
            given = lookup(model, key)
            if given:
                whole = gcd(given, ROUND)
                scaled = _round_size(Fraction(given * width, hidden * whole)) * whole
                changed[f"model.{key}"] = max(whole, scaled)
        return changed | named

    def _name_shape(self, width: int, layers: int) -> dict[str, str]:
        """Name a model of the family, if its own has a name, which is for its own size alone."""
        name, own = self.model.get("name"), (self.model["hidden"], self.model["layers"])
        if name is None:
            return {}
        return {"model.name": name if (width, layers) == own else f"shape of {name}"}

    @cached_property
    def nearest(self) -> int:
        """The index of the model nearest to the family's own."""
        hidden, layers = self.model["hidden"], self.model["layers"]
        place = min(range(len(self.widths)), key=lambda i: abs(self.widths[i] - hidden))
        low, high = self.bound_depths(place)
        return place * ROW + min(
            max(_round_size(Fraction(layers + self.ends, self.unit)), low), high
        )

    def yield_indices(self) -> Iterator[int]:
        """Yield indices: the nearest model, then the shallowest of every width, nearest first."""
        yield self.nearest
        rows = self.domain.rows
        for place in sorted(range(len(rows)), key=lambda i: abs(i - self.nearest // ROW)):
            yield rows[place][0]

    @cached_property
    def domain(self) -> Domain:
        """Every width with its depths, one after another."""
        depths = [self.bound_depths(place) for place in range(len(self.widths))]
        rows = tuple(range(i * ROW + a, i * ROW + b + 1) for i, (a, b) in enumerate(depths))
        return Domain(
            "model",
            "parameters",
            lambda index: index,
            self.build_changes,
            self.nearest,
            rows[0][0],
            rows[-1][-1],
            self._describe_steps(),
            not self.fixed,
            rows,
            SIZE,
        )

    def _describe_steps(self) -> str:
        """Describe which widths and depths the family has, for people."""
        layers = f"layers in multiples of {self.unit}" if self.unit > 1 else "any number of layers"
        layers += f" less {self.ends}" if self.ends else ""
        shape = f"{layers} from hidden / {ASPECT[1]} to hidden / {ASPECT[0]}"
        if self.fixed:
            layers = shape = f"{self.unit} layers as in parallelism.stages"
        if not self.together:
            return f"width kept, {layers}"
        attention = self.model["attention"]
        heads = attention["heads"]
        kept = ["feed-forward ratio"]
        if attention.get("kv_heads") and attention["kv_heads"] < heads:
            kept.insert(0, f"{attention['kv_heads']} key/value heads")
        size = attention.get("head_dim") or Fraction(self.model["hidden"], heads)
        return (
            f"hidden sizes in quarters of powers of two, {shape}; "
            f"heads of {size}, {' and '.join(kept)} kept"
        )


def build_family(plan: Plan, family: str | None = None, free: bool = False) -> tuple[Plan, Family]:
    """Build a family of models.

    Args:
        plan: its own model's shape is scaled unless ``family`` names another model.
        family: a name or path of a model document.
        free: whether the layout is free; otherwise it has to divide heads and layers.

    Returns:
        A valid plan with one of the models, and the family.

    Raises:
        PlanError: the model is given by its size only, there is no model of that name, or no size
            of its shape agrees with the plan's layout.
    """
    if family is None:
        if plan.model is None:
            size_only = "the model has only a size, no shape to scale"
            needed = "a model with layers, hidden and so on, or --family NAME"
            raise PlanError(size_only, plan.document.find_place(("model",)), needed)
        return plan, _make_family(plan, plan.document.data["model"], free)
    # Read like a plan's `model: NAME`: a built-in name, or a path.
    document = source.load({"extends": family}, kind="model")
    model = schema.validate(document, "model").data
    if not model.get("layers"):
        raise PlanError(f"--family {family} has no shape to scale", None, "another model")
    found = _make_family(plan, model, free)
    tried = ({"model": model, **found.domain.changes(index)} for index in found.yield_indices())
    errors = list[PlanError]()
    for changes in tried:
        try:
            return variant(plan, changes), found
        except PlanError as error:
            errors.append(error)
    raise errors[0]


def _make_family(plan: Plan, model: Mapping[str, Any], free: bool) -> Family:
    """Make the family of a model: of every width where heads and widths can be scaled, else of its
    own width."""
    layout = plan.data["parallelism"]
    stages = None if free else layout.get("stages")
    unit = 1 if free else count_chunks(layout)
    ends = 0 if stages else count_cut_layers(0, layout.get("cut"), unit)
    if stages:  # they count the encoder's layers too
        unit = sum(stages) - (lookup(model, "encoder.layers") or 0)
    fixed = bool(stages)
    attention = model.get("attention")
    if attention and not any(model.get(key) for key in SPELLED):
        heads = attention["heads"]
        shared = attention.get("kv_heads") or heads
        tensor = 1 if free else plan.get("parallelism.tensor")
        together = lcm(tensor, shared if shared < heads else 1)
        size = attention.get("head_dim")
        if attention.get("kv_rank") or (size and size * heads != model["hidden"]):
            # Heads of a size of their own are no part of the hidden size.
            whole, together = FINEST, lcm(together, gcd(heads, NODE))
        else:
            whole = Fraction(model["hidden"] * tensor, heads).numerator
        widths = _list_widths(whole)
        if fixed:
            widths = tuple(width for width in widths if width <= ASPECT[1] * unit)
        return Family(model, widths or (model["hidden"],), unit, together, ends, fixed)
    # Depth alone, in whole patterns and whole stages.
    pattern = model.get("pattern") or model.get("mixer")
    unit = lcm(unit, len(pattern) if isinstance(pattern, list) and not fixed else 1)
    return Family(model, (model["hidden"],), unit, ends=ends, fixed=fixed)


def _list_widths(whole: int) -> tuple[int, ...]:
    """List the hidden sizes that are multiples of ``whole``, which whole heads need."""
    found, width = list[int](), lcm(whole, FINEST)
    while width <= WIDEST:
        found.append(width)
        step = lcm(whole, max(FINEST, (1 << (width // STEPS).bit_length()) // 2))
        width = (width // step + 1) * step
    return tuple(found)


def _round_size(value: Fraction) -> int:
    """Round to the nearest whole number, halves up: a larger scale is never rounded lower."""
    return floor(value + Fraction(1, 2))
