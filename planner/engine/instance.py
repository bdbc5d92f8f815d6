"""From a plan to what the engine evaluates: bound symbols, settings and the entries of each axis.

Axes: ``part`` (embedding, layer kinds, head), ``block`` and ``component`` inside a part,
``product`` (matrix products as kernels run them), ``stage`` (distinct pipeline stages), ``tensor``
(what the implementation keeps of a block), ``phase`` (moments of a step), ``law`` (published
scaling laws) and ``convention`` (of utilisation). ``layers_on_stage``, ``in_flight`` and
``recomputed_in_flight`` have a value per stage and part, ``copies_on_stage`` and ``first_on_stage``
per stage and component; a stage stands for ``alike`` ones, which
keep ``in_flight_on_run``, ``recomputed_on_run`` of them computed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple

import planner.book.formulas  # noqa: F401  (registers the quantities)
from planner.base import resources
from planner.base.recent import cache_last
from planner.book import inventory, notation
from planner.book.expressions import Symbol, floor, minimum
from planner.book.inventory import MATMULS, ONE, Component, list_components
from planner.book.quantity import BOOK
from planner.documents.source import list_prices
from planner.engine import flop_conventions, matmuls, rollout, scaling_laws, tensors
from planner.engine.evaluate import SIZE_ONLY, Absent, Case, Entry, Evaluation
from planner.plans import kernels, pipeline
from planner.plans.blocks import TOWERS
from planner.plans.document import Model, Part, Plan, Stack
from planner.plans.model import WIDE

PairValues = dict[tuple[Symbol, Entry, Entry], Any]
#: Keys that a provider's price list can set.
PRICES = ("cluster.price", "cluster.reserved_price")


#: What a component says of itself that is a setting.
OF_COMPONENTS = (
    *("type", "group", "split", "bias", "shared"),
    *("again", "frozen", "scan", "final", "side"),
)


class Adapters(NamedTuple):
    """What LoRA trains: projections with adapters, and modules in full beside them."""

    targets: frozenset[str]
    trained: frozenset[str]


def build(plan: Plan) -> Case:
    """Build the case of a plan. Raises nothing: a missing value is bound to an Absent."""
    bindings, kinds = _bind_inputs(plan)
    bindings[notation.n_q] = 1
    profile = kernels.load_profile(plan.settings["training.implementation"])
    parts = () if plan.model is None else plan.model.parts
    held = (s for part in parts for s in (part.stack, *(block.stack for block in part.blocks)))
    stacks = tuple(dict.fromkeys(stack for stack in held if stack is not None))
    leaving = plan.settings["training.optimizer_step"] == "in-backward"
    leaving = leaving or plan.settings["training.offload.gradients"]
    names = ("training.lora.targets", "training.lora.trained")
    adapters = Adapters(*(frozenset(plan.get(name) or ()) for name in names))
    settings = {
        **plan.settings,
        "towers": "frozen" if any(s.frozen for s in stacks) else "trained" if stacks else "none",
        "gradients": "passing" if leaving else profile["gradients"],
        "dummies": profile["dummies"] and plan.settings["training.mode"] == "train",
        "lora": plan.get("training.lora") is not None,
        "patches": bool(plan.get("model.stem")),
        "padded": plan.get("training.padding") == "longest",
        "tuned": plan.get("training.lora") is not None
        or plan.get("training.objective") not in (None, "pretrain"),
        "bucketed": bool(plan.get("memory.buckets")),
        "copied": bool(plan.get("memory.update_group")),
        "reads": bool(plan.get("training.read_passes")),
        "quantised": plan.get("training.lora.base") not in (None, "bf16"),
        "modules": profile.get("selective") or plan.get("training.recompute_modules") or (),
        "targets": tuple(sorted(adapters.targets)),
        "fused": tuple(plan.get("training.fused_kernels") or ()),
        "trained": tuple(sorted(adapters.trained)),
        "head_workspace": profile["head_workspace"],
        "copies": plan.get("training.bytes.weight") > plan.get("training.bytes.compute"),
        "wide_stream": _find_wide_stream(plan),
        "casts_logits": plan.get("training.bytes.logit") > plan.get("training.bytes.activation"),
    }
    axes: dict[str, Any] = {"phase": _list_phases(plan.settings["training.mode"]), "rung": ()}
    settings["rl"], settings["teacher"] = (plan.reinforced, "teacher" in plan.others)
    settings["rl.overlapped"] = bool(plan.get("rl.staleness"))
    if settings["rl"]:
        own, axes["rung"] = rollout.bind_rollout(plan, build)
        bindings |= own
    axes["collective"] = ()  # but for the one that is asked about
    lawful = settings["training.mode"] == "train" and not settings["tuned"]
    lawful = lawful and not settings["patches"]  # they were fitted on words
    axes["law"] = scaling_laws.list_laws() if lawful else ()
    axes["convention"] = flop_conventions.list_conventions(settings)
    pair_values: PairValues = {}
    if plan.model is None:
        for axis in ("part", "block", "component", "product", "tensor", "stage"):
            axes[axis] = Absent(SIZE_ONLY)
    else:
        joined = profile["time"]["gates"] == "joined"
        axes.update(_model_axes(plan.model, adapters, joined))
        settings["experts"] = any(part.settings["experts"] for part in axes["part"])
        chosen = tensors.list_choices(settings, axes["component"])
        axes["tensor"] = list_saved_tensors(plan.model, axes["block"], profile, chosen)
        axes["product"] = matmuls.list_matmuls(axes["component"], joined)
        axes["stage"], pair_values = _build_stage_axis(plan, axes["part"], axes["component"])
        axes["stack"] = tuple(_make_stack(stack) for stack in stacks)
    case = Case(bindings, settings, axes, pair_values, kinds, plan.book)
    if settings["teacher"]:
        bindings |= rollout.bind_teacher(
            Evaluation(case), Evaluation(build(plan.others["teacher"]))
        )
    return case


def _find_wide_stream(plan: Plan) -> str:
    """Find what makes embedding and norms, and so the residual stream, wider than matmuls:
    ``prepared``, ``autocast`` (but for ZeRO-3, which gathers weights in another format) or
    ``none``."""
    if plan.get("training.lora") is not None:
        return "prepared" if plan.get("training.lora.prepared") else "none"
    wider = plan.get("training.bytes.weight") > plan.get("training.bytes.compute")
    return "autocast" if wider else "none"


#: Certainty of a default, by the prefix of its reason.
FOUND = {"calibrated:": "estimate", "measured:": "measured", "assumed:": "assumed"}


def _bind_inputs(plan: Plan) -> tuple[dict[Symbol, Any], dict[Symbol, str]]:
    """Return the plan's values by symbol, and the certainty of each value that is not exact: of a
    default (stated or not) that of its source; of another stated value, that of its input."""
    bindings: dict[Symbol, Any] = {}
    kinds: dict[Symbol, str] = {}
    for note in plan.book.notation.values():
        if note.key is None or note.per:
            continue
        value, kind = plan.settings.get(note.key), "exact"
        if note.key in plan.defaults:
            found, colon, _ = plan.defaults[note.key].partition(":")
            kind = FOUND.get(found + colon, kind)
        elif value != note.neutral:
            kind = note.kind
        if kind != "exact":
            kinds[note.symbol] = kind
        if value is None:
            value = Absent(_explain_unbound(plan, note.key, note.meaning))
        bindings[note.symbol] = int(value) if isinstance(value, bool) else value
    return bindings, kinds


def _explain_unbound(plan: Plan, key: str, meaning: str) -> str:
    """Explain why an input has no value; for a price, name the providers that have one."""
    if plan.model is None and key.startswith("model."):
        return SIZE_ONLY
    others = ""
    if key in PRICES:
        paid = "reserved" if key == "cluster.reserved_price" else plan.get("cluster.purchase")
        rows = list_prices(plan.get("cluster.accelerator") or {}, paid, plan.get("cluster.term"))
        found = {row["provider"] for row in rows}
        names, asked = ", ".join(sorted(found)), plan.get("cluster.provider")
        if asked is not None:
            known = names or "nobody"
            others = f"; {asked} has none for this accelerator, known are those of: {known}"
        elif names:
            others = f", or cluster.provider: {names}"
    return f"{meaning} is not given ({key}{others})"


#: Items of a sequence, and their tokens, by the towers that they pass; and what a sequence has of
#: a context beside it, of both together, of a condition (one vector), and of its own.
ITEMS = {
    "vision": (notation.n_img, notation.s_img),
    "audio": (notation.n_clip, notation.s_clip),
    "context": (ONE, notation.s_ctx),
    "joint": (ONE, notation.s + notation.s_ctx),
    "condition": (ONE, ONE),
    "own": (ONE, notation.s),
}


@cache
def _make_stack(stack: Stack) -> Entry:
    """Make the entry of a stack in front of the decoder, in symbols of the plan. Its sequences are
    its items, or windows of them; each context-parallel rank works on all of these, for the
    sequence is divided behind the towers (Megatron-LM, LLaVAModel)."""
    items, each = ITEMS[stack.tower]
    rows = stack.rows * each + stack.extra
    length = rows if stack.window is None else minimum(rows, stack.window)
    tokens = rows if stack.queries is None else stack.queries
    tokens = notation.s if stack.crosses else tokens
    bindings = {
        notation.h: stack.hidden,
        notation.s: length,
        notation.b: notation.b * notation.c * items * tokens / length,
        notation.s_max: stack.longest,
        notation.s_off: 0,
        notation.p_rope: int(stack.positions == "rope"),
        notation.x_tok: items * tokens / notation.s,
    }
    if stack.streams > 1:
        bindings[notation.n_la] = stack.streams * notation.n_la
    settings = {"time.context": "none"}
    if stack.frozen:
        settings["training.recompute"] = "none"
    title = stack.tower if stack.tower in TOWERS else ""
    return Entry("stack", stack.name, title, None, bindings, settings)


@cache
def _make_stage(name: str, first: int, last: int, count: int) -> Entry:
    """Make the entry of identical stages ``first`` to ``last``, which print counts from 1."""
    title = f"stages {first + 1} to {last + 1} of {count}"
    if first == last:
        title = "the only stage" if count == 1 else f"stage {first + 1} of {count}"
    bindings = {notation.alike: last - first + 1}
    return Entry("stage", name, title, bindings=bindings, settings={"stage": True})


@cache
def _list_phases(mode: str) -> tuple[Entry, ...]:
    """List the moments of a step at which a stage's memory can peak."""
    if mode == "inference":
        return (Entry("phase", "serving", "serving", settings={"phase": "serving"}),)
    titles: Mapping[str, str] = resources.load_beside(__file__, "phases.yaml")
    return tuple(Entry("phase", k, v, settings={"phase": k}) for k, v in titles.items())


@cache_last(8)
def list_saved_tensors(
    model: Model,
    blocks: tuple[Entry, ...],
    profile: kernels.Profile,
    chosen: Mapping[str, Any],
) -> Iterator[Entry]:
    """Yield the tensors that the implementation saves of each block for the backward pass.

    Args:
        model: whose blocks come in the order of ``blocks``.
        blocks: the entry of each block.
        profile: of the implementation, as ``kernels.load_profile`` reads it.
        chosen: as ``tensors.list_choices`` returns them.
    """
    entries = iter(blocks)
    for part in model.parts:
        before = None
        frozen = part.stack is not None and part.stack.frozen  # nothing passes it backward
        own = chosen
        if part.stack is not None:
            own = {**chosen, "positions": part.stack.positions, "context": False}
        for block in part.blocks:
            if frozen:
                next(entries)
                continue
            second = before == block.kind == "norm"  # two norms read one input
            yield from tensors.list_tensors(next(entries), block, second, profile, own)
            before = block.kind


def _build_stage_axis(
    plan: Plan, parts: tuple[Entry, ...], components: tuple[Entry, ...]
) -> tuple[tuple[Entry, ...], PairValues]:
    """Build the distinct pipeline stages, with what each has of each part and component."""
    assert plan.model is not None
    stages = pipeline.build_stages(
        plan.model,
        plan.data["parallelism"],
        plan.settings["training.schedule"],
        plan.get("training.gradient_accumulation") or 1,
        plan.get("model.vocab"),
    )
    entries: list[Entry] = []
    pair_values: PairValues = {}
    most = limit_recompute(plan, plan.settings["training.recompute"])
    count = plan.settings["parallelism.pipeline"]
    for stage in stages:
        entry = _make_stage(stage.name, stage.index, stage.last, count)
        entries.append(entry)
        pair_values.update(bind_parts(stage.holds, stage.alive, entry, parts, most))
        pair_values.update(bind_components(stage.holds, entry, components))
        for part in parts:
            alive, first = stage.of_run.get(part.name, 0), stage.alive.get(part.name, 0)
            again = pair_values[notation.recomputed_in_flight, entry, part]
            pair_values[notation.in_flight_on_run, entry, part] = alive
            pair_values[notation.recomputed_on_run, entry, part] = (
                Fraction(alive * again) / first if first else 0
            )
    return tuple(entries), pair_values


def limit_recompute(plan: Plan, recompute: str) -> int:
    """Return the limit on the recomputed layers of a stage."""
    assert plan.model is not None
    most = 0 if recompute == "none" else plan.get("training.recompute_layers")
    return len(plan.model.sequence) if most is None else int(most)


def bind_parts(
    holds: Mapping[str, int],
    living: Mapping[str, int],
    entry: Entry,
    parts: tuple[Entry, ...],
    most: int,
) -> PairValues:
    """Bind how many layers of each part a stage has, keeps and recomputes.

    Args:
        holds: layers on the stage, by name of the part.
        living: layers times micro-batches in flight at the peak, by name of the part.
        entry: of the stage.
        parts: the entries of the axis ``part``.
        most: layers of a part that are recomputed at most; the first and last parts never are.

    Returns:
        values by symbol, stage and part; a recomputed share of an uneven division is a Fraction.
    """
    pair_values: PairValues = {}
    for part in parts:
        held, alive = holds.get(part.name, 0), living.get(part.name, 0)
        again = min(held, most) if part.settings["layers"] else 0
        pair_values[notation.layers_on_stage, entry, part] = held
        pair_values[notation.in_flight, entry, part] = alive
        pair_values[notation.recomputed_in_flight, entry, part] = (
            Fraction(alive * again, held) if held else 0
        )
    return pair_values


def bind_components(
    holds: Mapping[str, int], entry: Entry, components: tuple[Entry, ...]
) -> PairValues:
    """Bind how many copies of each component a stage has, and which is the first of its shape.

    Args:
        holds: layers on the stage, by name of the part.
        entry: of the stage.
        components: the entries of the axis ``component``.

    Returns:
        values by symbol, stage and component. A component has as many copies as its layer; a tied
        matrix has none where the embedding is, which has it.
    """
    pair_values: PairValues = {}
    embedding, seen = holds.get(pipeline.FIRST, 0) > 0, dict[Any, list[Any]]()
    for component in components:
        block = component.parent
        assert block is not None and block.parent is not None
        held = holds.get(block.parent.name, 0)
        # Compared, not hashed: widths may be lanes (planner.base.lockstep).
        known = seen.setdefault((block.settings["block"], component.name), [])
        shape = tuple(block.bindings.values())
        there = component.settings["shared"] and embedding
        pair_values[notation.copies_on_stage, entry, component] = 0 if there else held
        pair_values[notation.first_on_stage, entry, component] = int(
            held > 0 and shape not in known
        )
        if held:
            known.append(shape)
    return pair_values


#: Projections that some implementations keep as one matrix (Megatron-LM's linear_fc1).
SIDE_BY_SIDE = tuple(name for names in matmuls.JOINED[1:] for name in names)


@cache_last(4)
def _model_axes(model: Model, adapters: Adapters, joined: bool) -> dict[str, tuple[Entry, ...]]:
    """Return the axes of a model: its parts, their blocks, and the components of these, in order.

    Args:
        adapters: what LoRA trains.
        joined: whether the implementation keeps gate and up projection as one matrix.
    """
    found = [_make_part(part, adapters, joined) for part in model.parts]
    return {
        "part": tuple(part for part, _, _ in found),
        "block": tuple(block for _, blocks, _ in found for block in blocks),
        "component": tuple(piece for _, _, pieces in found for piece in pieces),
    }


@cache_last(24)
def _make_part(
    part: Part, adapters: Adapters, joined: bool
) -> tuple[Entry, tuple[Entry, ...], tuple[Entry, ...]]:
    """Return the entry of a part, those of its blocks and those of their components."""
    by_block = _map_symbols()
    part_entry = Entry(
        "part",
        part.name,
        part.title,
        bindings={notation.L_k: part.count},
        settings={
            "part": part.place,
            "layers": part.place not in ("embedding", "head"),
            "head": part.place == "head",
            "experts": any(block.kind == "moe" for block in part.blocks),
            "streamed": any(block.kind in ("altup", "hyper") for block in part.blocks),
            "tower": part.stack is not None,
            "fixed": part.stack is not None and part.stack.frozen,
        },
        stack=None if part.stack is None else _make_stack(part.stack),
    )
    blocks, pieces = [], []
    for block in part.blocks:
        values = {
            symbol: block.values[key]
            for symbol, key in by_block.get(block.kind, ())
            if block.values.get(key) is not None
        }
        if block.kind == "moe":
            values.setdefault(notation.h_l, notation.h)
        settings = {f"block.{key}": value for key, value in block.values.items()}
        settings["block"] = block.kind
        settings["latent"] = block.values.get("kv_rank") is not None
        settings["windowed"] = block.values.get("window") is not None
        settings["picked"] = bool(block.values.get("index_top_k"))
        settings["grouped"] = (
            block.kind == "moe"
            and block.values["router_group_top_k"] < block.values["router_groups"]
        )
        settings["remembers"] = block.kind in inventory.REMEMBERING and part.stack is None
        own = None if block.stack is None else _make_stack(block.stack)
        entry = Entry("block", block.name, block.name, part_entry, values, settings, own)
        blocks.append(entry)
        pieces += [
            _component(c, entry, adapters, joined)
            for c in list_components(block.kind, block.values)
        ]
    return part_entry, tuple(blocks), tuple(pieces)


@cache
def _map_symbols() -> dict[str, list[tuple[Symbol, str]]]:
    """Map each kind of block to the symbols that it binds, with the key of their value."""
    found: dict[str, list[tuple[Symbol, str]]] = {}
    for note in BOOK.notation.values():
        if note.per == ("block",) and note.key:
            kind, _, key = note.key.partition(".")
            found.setdefault(kind, []).append((note.symbol, key))
    return {**found, "stream": found["attention"]}  # whose projections it has


def _bind_keys(component: Component) -> dict[Symbol, Any]:
    """Bind the numbers of keys that queries meet in a core or an indexer; all in a decoder."""
    if component.type not in ("core", "index"):
        return {}
    every = notation.s if component.each is ONE else floor(notation.s / component.each)
    most, run = component.most, component.run
    if component.side == "decoder":
        every, most = notation.s_dec, None
    most = every if most is None else minimum(every, most)
    run = most if run is None or component.side == "decoder" else minimum(every, run)
    return {
        notation.c_key: component.each,
        notation.n_key: every,
        notation.m_key: most,
        notation.m_run: run,
    }


def _component(component: Component, block: Entry, adapters: Adapters, joined: bool) -> Entry:
    """Return the entry of a component: widths and copies as bindings, the rest as settings.

    Args:
        block: its entry, which has the choices of the layer kind.
        adapters: what LoRA trains.
        joined: whether the implementation keeps gate and up projection as one matrix.
    """
    beside = joined and component.name in SIDE_BY_SIDE and block.settings.get("block.gated")
    at_head = block.settings["block"] == "head"
    fixed = bool(block.settings.get("block.frozen"))
    own = inventory.name_targets(block.settings["block"], component.name)
    adapted = not adapters.targets.isdisjoint(own)
    ends = "head" if at_head else "embedding" if component.type == "table" else component.type
    trained = bool(adapters.trained & {ends, "embedding" if component.shared else ends})
    # PEFT trains a new head over labels in full (TaskType.SEQ_CLS).
    trained = trained or block.settings["block"] == "classifier"
    # Weight tensors are the matrix and its bias; fused projections are one matrix.
    without = component.shared or fixed or component.type in ("core", "index", "scan")
    fused = block.settings.get("block.fused") and component.name in ("key", "value")
    return Entry(
        "component",
        component.name,
        component.name,
        block,
        bindings={
            **_bind_keys(component),
            notation.n_in: component.n_in,
            notation.n_out: component.n_out,
            notation.copies: component.copies,
            notation.applied: component.applied,
            notation.n_side: 2 + (block.settings.get("block.further") or 0) if beside else 1,
            notation.tensors_c: 0 if without or fused else 2 if component.bias else 1,
        },
        settings={
            **{name: getattr(component, name) for name in OF_COMPONENTS},
            "matmul": component.type in MATMULS,
            "scored": component.type in ("core", "index"),
            "matrix": component.type in ("linear", "table"),
            "table": component.type == "table",
            **({"lora": False} if trained and not fixed else {}),  # as without adapters
            "adapted": adapted and not fixed,
            "routed": component.split == "experts",
            # Logits, the router and some layers stay in 16 bit under 8-bit and 4-bit recipes.
            "wide": component.group == "router" or bool(block.settings.get(f"block.{WIDE}")),
            "hidden matrix": component.type == "linear" and component.split != "vocabulary",
        },
    )


def compute_values(plan: Plan, quantities: Iterable[str]) -> dict[str, Any]:
    """Return the values of some quantities of a plan; only what they need is evaluated.

    Raises:
        PlanError: one of them cannot be computed, with the reason.
    """
    return Evaluation(build(plan)).get_values(quantities)
