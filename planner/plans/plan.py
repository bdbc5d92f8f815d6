"""From a document to a plan: schema, defaults that depend on other keys, checks across keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache, partial
from math import prod
from typing import Any

from planner.base import units
from planner.base.display import flatten, one_line
from planner.base.errors import Fault, Place, PlanError, format_divisors, nearest
from planner.book.quantity import BOOK, Book
from planner.documents import aliases, schema, source, stacks
from planner.documents.json_schema import accepts
from planner.documents.yaml_nodes import Node
from planner.plans import hardware, kernels, pipeline, placement, reinforcement, schedules
from planner.plans.document import STACK, Draft, Model, Plan, Unknown, copy_mappings
from planner.plans.examples import apply_examples
from planner.plans.layout import (
    AFTER_EXPERTS,
    FOLLOWING,
    OUTER_DEGREES,
    OWN_CHOICE,
    QUOTIENTS,
    filter_keys,
)
from planner.plans.model import build_model

#: Sections whose scalars are inputs, or decide which formula holds, by dotted key.
DECIDING = ("training", "parallelism", "time", "cluster", "model", "memory", "rl")
#: Sections of a plan that hold keys of a layout.
OF_LAYOUTS = ("parallelism", "training")
#: Keys that are given only with a known layout.
_OF_LAYOUT = ("gradient_accumulation", "distributed_optimizer", "schedule")


def set_auto_layout(document: source.Document) -> source.Document:
    """Set ``parallelism: auto`` in a checked document that says nothing of a layout, if it trains a
    model of known shape on several devices."""
    data = document.data
    training, model = data["training"], data["model"]
    said = document.find_origin(("parallelism",)).kind not in ("default", stacks.KIND) or any(
        document.has_value(("training", key)) for key in _OF_LAYOUT
    )
    alone = data["cluster"]["devices"] == 1
    if said or alone or training["mode"] == "inference" or not model.get("layers"):
        return document
    return document.change_keys({"parallelism.auto": True})


def validate_plan(
    document: source.Document,
    unknown: Mapping[source.Path_, Sequence[Fault]] | None = None,
    launcher: str | None = None,
) -> source.Document:
    """Check a document by the schema of plans. If it leaves its layout open, set
    ``parallelism: auto``, and the stack that is most used for such a plan unless it names software.

    Args:
        document: as ``source.load`` returns it.
        unknown: the faults of names that it left as they are, by path.
        launcher: the framework that must be able to start the layout, if one is asked for.

    Raises:
        Invalid: every fault of the document.
    """
    found = set_auto_layout(schema.validate(document, "plan", unknown))
    return found if launcher else apply_practice(found, {}, unknown)


def apply_practice(
    document: source.Document,
    changes: Mapping[str, Any],
    unknown: Mapping[source.Path_, Sequence[Fault]] | None = None,
) -> source.Document:
    """Change some keys of a valid document, and set the stack that is most used for the plan that
    this makes, if it leaves its layout open and names no software.

    Args:
        document: of a plan; it is not changed.
        changes: values by dotted key that were checked, None for what removes a key.
        unknown: the faults of names that it left as they are, by path.

    Returns:
        The changed document.
    """
    changed = change_document(document, changes)
    if not changed.get("parallelism.auto") or changed.get("training.mode") != "train":
        return changed
    if (row := stacks.choose_stack(changed.get_stated)) is None:
        return changed
    node = stacks.set_stack(document.node.drop_defaults(), row)
    merged = schema.validate(replace(document, node=node, held=None, changed={}), "plan", unknown)
    return change_document(set_auto_layout(merged), changes)


def _resolve_stages(document: source.Document) -> tuple[source.Document, Mapping[str, str]]:
    """Resolve stages in Megatron-LM's notation to a list, with the virtual stages that follow; also
    return the reason for these.

    Raises:
        PlanError: a text that says no layout, or one of another model.
    """
    layout = document.data.get("parallelism") or {}
    text, place = layout.get("stages"), document.find_place(("parallelism", "stages"))
    if not isinstance(text, str):
        return document, {}
    allowed = "E, t, m, L, |, x*n and (…)*n as in Et*3|(tt|)*29,m|L, or a list of layers"
    try:
        held, further = pipeline.parse_chunks(text)
    except ValueError as error:
        raise PlanError(f"{one_line(text)}: {error}", place, allowed) from None
    modules = document.data["model"].get("mtp") or 0
    if further != modules:
        wrong = f"{further} multi-token prediction modules (m), but the model has {modules}"
        raise PlanError(wrong, place, "as many m as model.mtp")
    size = layout["pipeline"]
    if len(held) % size:
        wrong = f"{len(held)} stages are not divisible by pipeline {size}"
        raise PlanError(wrong, place, f"a multiple of {size} stages")
    changes: dict[str, Any] = {"parallelism.stages": held}
    if document.find_origin(("parallelism", "virtual_pipeline")).kind != "default":
        return document.change_keys(changes), {}
    virtual = "parallelism.virtual_pipeline"
    why = {virtual: "as many as parallelism.stages says"}
    return document.change_keys({**changes, virtual: len(held) // size}), why


def build_plan(document: source.Document) -> Plan:
    """Build the plan of a valid document with a given layout.

    Raises:
        PlanError: every fault that was found.
    """
    document, why = _resolve_stages(document)
    layout = document.data.get("parallelism") or {}
    for key in ("margin", "for"):
        if layout.get(key) is not None:
            wrong = f"parallelism.{key} needs parallelism: auto; this plan gives a layout"
            place = document.find_key_place(("parallelism", key))
            raise PlanError(wrong, place, "auto: true beside it")
    try:
        plan = complete_plan(document)
    except PlanError as error:
        # A changed document's nodes are those of the one that it was.
        raise error if document.held is not None else _add_faults(document, error) from None
    return replace(plan, derived={**plan.derived, **why})


def complete_plan(document: source.Document) -> Plan:
    """Complete a valid document to a plan."""
    draft, model = begin_plan(document)
    for step in STEPS:
        step(draft)
    for held in list_checks(model):
        held(draft, model)
    own = get_book(draft)
    _check_measured(draft, own)
    draft.raise_faults()
    settings = flatten({section: draft.data.get(section) for section in DECIDING})
    settings["model.shape"] = model is not None
    settings.update(hardware.pick_settings(draft))
    name, defaults = draft.get("name"), draft.defaults
    derived = draft.derived
    made = Plan(name, document, draft.data, model, settings, derived, defaults, book=own)
    several = draft.get("rl") or draft.get(placement.TEACHER)
    return replace(made, others=_build_others(made)) if several else made


def _build_others(plan: Plan) -> dict[str, Plan]:
    """Build the plans of the other roles of reinforcement learning, or of a teacher.

    Raises:
        PlanError: what is wrong with one of them, at the key of its role.
    """
    found = {}
    for role, key, changes in reinforcement.list_roles(plan.data):
        try:
            named = {k: v for k, v in changes.items() if k in NAMED and isinstance(v, str)}
            changes |= {key: check_value(key, name) for key, name in named.items()}
            found[role] = complete_plan(plan.document.change_keys(changes))
            own, other = (one.get("model.vocab") for one in (plan, found[role]))
            if role in ("teacher", "draft") and None not in (own, other) and own != other:
                wrong = f"a vocabulary of {other} entries; the model's own has {own}"
                raise PlanError(wrong, allowed="a model with the same vocabulary")
        except PlanError as error:
            place = plan.document.find_place(key.split("."))
            faults = [Fault(f"{role}: {one.message}", place, one.allowed) for one in error.faults]
            raise PlanError(faults) from None
    return found


def build_trainer(plan: Plan) -> Plan:
    """Build the plan of training alone out of one of reinforcement learning; another one is its
    own."""
    if not plan.reinforced:
        return plan
    return complete_plan(plan.document.change_keys(reinforcement.list_trainer_changes(plan.data)))


def get_book(draft: Draft) -> Book:
    """Return the book, with the quantities that the document defines, if any."""
    if not draft.get("quantities"):
        return BOOK
    from planner.plans import own_quantities  # which few plans need

    return own_quantities.extend_book(draft)


def _check_measured(draft: Draft, book: Book) -> None:
    """Check that each measurement is a value of a quantity of the book."""
    if not (rows := draft.get("measured")):
        return
    import planner.book.formulas  # noqa: F401  (registers the quantities)

    for index, row in enumerate(rows):
        at, name = f"measured.{index}", row["quantity"]
        if (quantity := book.quantities.get(name)) is None:
            known = nearest(name, book.quantities)
            draft.fault(
                f"{at}.quantity", f"unknown quantity {name}", known or "plan.py list quantities"
            )
            continue
        try:
            units.parse(row["value"], quantity.unit)
        except units.UnitError as error:
            draft.fault(f"{at}.value", str(error), f"a value in {quantity.unit}")


def check_despite_faults(document: source.Document, told: Sequence[Fault]) -> list[Fault]:
    """Run the cross-key checks on a document that already has faults; each check that reads a
    faulty value stops there.

    Args:
        document: as far as it could be read.
        told: its faults. At the place of each is a value, or a key that may mean its hint.
    """
    hints = {fault.place: fault.hint for fault in told}
    draft = Draft(document, _replace_faulty(document.node, hints))
    if isinstance(draft.data, Unknown):
        return []  # the document itself is faulty
    for hint in filter(None, hints.values()):
        section, _, key = hint.partition(".")
        held = draft.data.get(section)
        if key and isinstance(held, dict) and not isinstance(held, Unknown):
            draft.data[section] = {**draft.data[section], key: Unknown()}
    if not document.has_value(("parallelism",)) or document.get("parallelism.auto"):
        return []  # no size of the layout is stated
    model: Model | None = None
    with suppress(Exception):  # what meets a faulty value stops, and says no more
        model = build_model(draft)
    for check in CROSS_CHECKS:
        with suppress(Exception):
            check(draft)
    with suppress(Exception):
        if model is not None:
            _check_divisions(draft, model)
    return draft.faults


def _add_faults(document: source.Document, error: PlanError) -> PlanError:
    """Add the faults of cross-key checks, which a faulty model hides, to those of a plan."""
    try:
        begin_plan(document)
    except PlanError:
        model = Fault("", document.find_key_place(("model",)))
        return PlanError([*error.faults, *check_despite_faults(document, [model])])
    return error


def _replace_faulty(
    node: Node, hints: Mapping[Place | None, str | None], path: tuple[str, ...] = ()
) -> Any:
    """Return plain data with an Unknown for each faulty value, and for each key that an unknown key
    may have meant."""
    # In block style a mapping begins where its first key does.
    begins = all(inner.key_place != node.place for inner in node.entries.values())
    if node.place in hints and begins:
        return Unknown()
    if not isinstance(node.value, dict):
        return node.plain()
    data = {key: _replace_faulty(inner, hints, (*path, key)) for key, inner in node.value.items()}
    for key, inner in node.value.items():
        if inner.key_place not in hints:
            continue
        hint = hints[inner.key_place]
        if schema.describe("plan", (*path, key)) is not None:
            data[key] = Unknown()
        elif hint is not None and "." not in hint:
            data[hint] = Unknown()
        elif hint is None and path:
            return Unknown()
    return data


def begin_plan(document: source.Document) -> tuple[Draft, Model | None]:
    """Begin a plan: copy its document to a draft and build its model.

    Raises:
        PlanError: what is wrong with the model.
    """
    draft = Draft(document, copy_mappings(document.data))
    model = build_model(draft)
    draft.raise_faults()
    return draft, model


def is_own_choice(plan: Plan, key: str) -> bool:
    """Return whether a plan gives a key of ``OWN_CHOICE`` (kernels, loss) itself."""
    section, name = key.split(".")
    return key in OWN_CHOICE and plan.document.data[section].get(name) is not None


def _set_choices(draft: Draft) -> None:
    """Set the choices that follow from other choices."""
    layout = draft.get("parallelism")
    megatron = layout["tensor"] > 1 or layout["pipeline"] > 1
    virtual = layout["virtual_pipeline"] > 1
    for key, holds, yes, no, when in (
        ("implementation", megatron, "megatron", "pytorch", "tensor or pipeline is above 1"),
        ("loss", layout["tensor"] > 1, "vocab-parallel", "full", "tensor is above 1"),
        ("schedule", virtual, "interleaved", "1f1b", "virtual_pipeline is above 1"),
    ):
        draft.default(f"training.{key}", yes if holds else no, f"{yes} where {when}, else {no}")
    if draft.get("training.mode") == "inference":
        draft.default("training.engine", "vllm", "most people run it")
    elif (engine := draft.get("training.engine")) is not None:
        wrong = f"{engine} serves, and this plan does not"
        draft.fault("training.engine", wrong, "left out, or mode: inference")


def _set_lengths(draft: Draft) -> None:
    """Set sequence lengths that are not given: the longest that the model reads."""
    training = draft.get("training")
    longest = draft.get("model.max_sequence")
    if longest is not None:
        draft.default("training.sequence_length", longest, "equals model.max_sequence")
    length, why = training.get("sequence_length"), "equals training.sequence_length"
    if draft.get("model.encoder") and length:
        draft.default("training.decoder_sequence_length", length, why)


def _check_choices(draft: Draft) -> None:
    """Check choices that may contradict each other."""
    placement.fill_shares(draft)
    layout, training = draft.get("parallelism"), draft.get("training")
    stage, why = layout["zero"], "true where parallelism.zero is above 0"
    given = draft.default("training.distributed_optimizer", stage >= 1, why)
    if given and not stage:
        layout["zero"] = 1
        draft.derived["parallelism.zero"] = "1 under training.distributed_optimizer"
    elif stage and not given:
        wrong = f"false contradicts parallelism.zero {stage}"
        draft.fault("training.distributed_optimizer", wrong, "true, or zero: 0", stacks.ZERO)
        stage = draft.get(stacks.ZERO)
    live = "memory.live_parameters"
    if stage != 3 and draft.get(live):
        wrong = f"weights are not sharded with parallelism.zero {stage}"
        draft.fault(live, wrong, "0, or zero: 3")
    _set_offload(draft)
    placement.check_step(draft)
    placement.fill_reference(draft)
    if training["attention_precision"] == "fp8" and training.get("attention") == "eager":
        wrong = "eager attention runs in 16 bit"
        draft.fault("training.attention_precision", wrong, "16-bit, or attention: flash")
    schedule, virtual = training["schedule"], layout["virtual_pipeline"] > 1
    if schedule == "dualpipev" and layout["virtual_pipeline"] != 2:
        wrong = "dualpipev needs two chunks on each device"
        draft.fault("training.schedule", wrong, "virtual_pipeline: 2")
    elif virtual and schedule not in ("interleaved", "dualpipev", "own"):
        wrong = f"{schedule} has no virtual stages"
        draft.fault("training.schedule", wrong, "interleaved, or virtual_pipeline: 1")


def _set_offload(draft: Draft) -> None:
    """Set the share of activations on the host: as given, or that of the offloaded layers."""
    share, key = "training.offload.activations", "training.offload.layers"
    away, layers = draft.get(key), draft.get("model.layers")
    if away is None:
        draft.default(share, 0, "none without training.offload")
    elif layers is None or away > layers:
        wrong = f"{away} layers of a model with {layers or 'no layers yet'}"
        draft.fault(key, wrong, f"at most {layers}" if layers else "a model of known shape")
    else:
        of_layers, why = Fraction(away, layers), "training.offload.layers of model.layers"
        if draft.default(share, of_layers, why) != of_layers:
            draft.fault(key, f"{share} contradicts {away} of {layers}", "one of the two", share)
            draft.default(share, of_layers, why)


def _check_stack(draft: Draft) -> None:
    """Check that the stack, and any stack on these devices, can run what the plan asks of it."""
    for key, wrong, allowed in stacks.iter_faults(draft.get("training.stack"), draft.get):
        draft.fault(key, wrong, allowed)


def _check_positions(draft: Draft) -> None:
    """Check that no sequence is longer than a table of learned positions."""
    longest = draft.get("model.max_sequence")
    if draft.get("model.positions") != "learned" or longest is None:
        return
    for key in ("sequence_length", "decoder_sequence_length"):
        length = draft.get(f"training.{key}")
        if length is not None and length > longest:
            wrong = f"{length} tokens are more than the model's {longest} learned positions"
            allowed = f"at most {longest}, or a larger model.max_sequence"
            draft.fault(f"training.{key}", wrong, allowed)


def _compute_product(layout: Mapping[str, Any], names: Sequence[str]) -> tuple[int, str]:
    """Return the product of some sizes of a layout, and its text."""
    return prod(layout[name] for name in names), " × ".join(names)


def _derive_size(draft: Draft, name: str) -> int | None:
    """Derive a size as devices over the product of other sizes; None where another size is given,
    or where they do not divide."""
    inner, others = _compute_product(draft.get("parallelism"), QUOTIENTS[name])
    devices = draft.get("cluster.devices")
    if devices % inner:
        return None
    size: int = draft.default(f"parallelism.{name}", devices // inner, f"devices / ({others})")
    if size * inner == devices:
        return size
    product = f"{name} {size} × {others} {inner} is {size * inner}"
    wrong = f"{product}, not the {devices} devices of the cluster"
    draft.fault(f"parallelism.{name}", wrong, f"{devices // inner}")
    return None


def _derive_sizes(draft: Draft) -> None:
    """Derive data parallelism, batch and accumulation; check that they fit the devices."""
    layout, training = draft.get("parallelism"), draft.get("training")
    devices = draft.get("cluster.devices")
    inner, names = _compute_product(layout, OUTER_DEGREES)
    if devices % inner:
        sizes = " × ".join(str(layout[name]) for name in OUTER_DEGREES)
        wrong = f"{devices} devices are not a multiple of {names} = {sizes} = {inner}"
        draft.fault("cluster.devices", wrong, f"a multiple of {inner}")
        return
    data = _derive_size(draft, "data")
    if data is None:
        return
    per_pass = data * training["micro_batch"]
    of = f"data {data} × micro_batch {training['micro_batch']}"
    passes, why = training.get("gradient_accumulation"), "gradient_accumulation"
    if passes is None and training["mode"] == "inference":
        passes, why = layout["pipeline"], "pipeline: sequences served at once"
    why = f"data × micro_batch × {why}"
    batch = draft.default("training.global_batch", per_pass * (passes or 1), why)
    if batch % per_pass:
        wrong = f"global_batch {batch} is not divisible by {of}"
        draft.fault("training.global_batch", wrong, f"a multiple of {per_pass}")
        return
    steps, why = batch // per_pass, "global_batch / (data × micro_batch)"
    given = draft.default("training.gradient_accumulation", steps, why)
    if given != steps:
        wrong = f"{given} × {of} is {given * per_pass}, not the global batch {batch}"
        draft.fault("training.gradient_accumulation", wrong, f"{steps}")


def _derive_experts(draft: Draft) -> None:
    """Derive the sizes that depend on how an expert is divided."""
    for name in AFTER_EXPERTS:
        if draft.get("model.moe") is not None:
            _derive_size(draft, name)
        elif draft.get(f"parallelism.{name}") is not None:
            draft.fault(f"parallelism.{name}", "the model has no experts", "left out")


#: Why a plan does not use a degree or a stage that its document gives.
IDLE = "this layout has nothing for it to divide"


def _reset_idle(draft: Draft, model: Model | None) -> None:
    """Reset what has nothing to divide: ZeRO where no two devices hold the same weights, replicas
    of what is not sharded, schedule and chunks of a single stage."""
    layout, training = draft.get("parallelism"), draft.get("training")
    if layout.get("data") is None:
        return
    copies = max(layout["data"] * layout["context"], layout.get("expert_data") or 1)
    idle: dict[str, Any] = {}
    alone = copies == layout["replicate"] and not draft.get(placement.PARAMETERS)
    if layout["zero"] == 0 or alone:
        idle["zero"], idle["replicate"] = 0, 1
    if layout["pipeline"] == 1 and training["schedule"] != "own" and not layout.get("stages"):
        idle["virtual_pipeline"], idle["schedule"] = 1, "1f1b"
    for key, value in idle.items():
        section = "training" if key in training else "parallelism"
        if draft.data[section][key] != value:
            draft.data[section][key] = value
            draft.derived[f"{section}.{key}"] = IDLE


def _check_divisions(draft: Draft, model: Model) -> None:
    """Check that heads, experts and layers divide by the degrees of the layout."""
    layout = draft.get("parallelism")
    tensor, expert = layout["tensor"], layout["expert"]
    blocks = {block.kind: block.values for part in model.parts for block in part.blocks}
    heads = blocks["attention"]["heads"] if "attention" in blocks else 0
    experts = blocks["moe"]["experts"] if "moe" in blocks else 0
    if heads % tensor:
        wrong = f"{heads} attention heads are not divisible by tensor {tensor}"
        draft.fault("parallelism.tensor", wrong, format_divisors(heads))
    elif heads and layout.get("context_exchange") == "ulysses":
        keys, ranks = blocks["attention"]["kv_heads"], tensor * layout["context"]
        fits = [n for n in range(1, heads + 1) if not heads % n and not (keys % n and n % keys)]
        if ranks not in fits:
            wrong = f"ulysses cannot divide {heads} heads, {keys} of keys, by tensor × context"
            allowed = ", ".join(str(n // tensor) for n in fits if not n % tensor)
            draft.fault("parallelism.context", f"{wrong} = {ranks}", f"one of {allowed}")
    if expert > 1 and not experts:
        draft.fault("parallelism.expert", "the model has no experts to divide", "1")
    elif experts % expert:
        wrong = f"{experts} experts are not divisible by expert {expert}"
        draft.fault("parallelism.expert", wrong, format_divisors(experts))
    layers, stages = len(model.sequence), layout.get("stages")
    chunks = pipeline.count_chunks(layout)
    if stages is None:
        if pipeline.count_cut_layers(layers, pipeline.cut_rule(layers, layout), chunks) < chunks:
            wrong = f"{layers} layers cannot fill {chunks} pipeline stages"
            draft.fault("parallelism.pipeline", wrong, f"at most {layers} stages")
    elif len(stages) != chunks or sum(stages) != layers:
        wrong = f"{len(stages)} stages with {sum(stages)} layers in all"
        allowed = f"{chunks} stages that sum to the model's {layers} layers"
        draft.fault("parallelism.stages", wrong, allowed)


#: What completes a draft, then what holds it against a model of known shape. Each asks for few keys
#: of a layout, so that a study checks what each can tell apart
#: (planner.questions.studies.checking).
CROSS_CHECKS = (
    reinforcement.apply_reinforcement,
    _set_choices,
    _set_lengths,
    apply_examples,
    _check_choices,
    _check_stack,
    _check_positions,
    _derive_sizes,
)  # they need no other step
STEPS = (
    schedules.apply_schedule,
    *CROSS_CHECKS,
    hardware.fill_hardware,
    kernels.fill_kernels,
    _derive_experts,
)
CHECKS = (_check_divisions, *pipeline.CHECKS, schedules.check_table, _reset_idle)


def list_checks(model: Model | None) -> Sequence[Any]:
    """Return the checks of a draft against its model, and the reset of what divides nothing; a
    model given by its size has groups only."""
    return (pipeline.check_groups, _reset_idle) if model is None else CHECKS


def collect_devices(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of devices, all that checks of a layout may read of the cluster."""
    return {key: data["cluster"].get(key) for key in ("devices", "devices_per_node")}


def build_draft(plan: Plan, changes: Mapping[str, Any], whole: bool = True) -> Draft:
    """Return the draft of a plan with another layout, and the faults of this layout.

    A search asks about thousands of layouts of one model, and what is wrong with most of them shows
    before kernels and hardware are looked at.

    Args:
        plan: with a model of known shape; it is not changed.
        changes: dotted keys of ``parallelism`` and ``training``, None for their default.
        whole: whether all is checked, else only what the model divides by.
    """
    assert plan.model is not None
    # Sections within are filled too, and the document stays as it is.
    sections = {name: copy_mappings(plan.document.data[name]) for name in OF_LAYOUTS}
    for dotted, value in changes.items():
        if dotted.startswith(OF_LAYOUTS):
            section, _, key = dotted.partition(".")
            sections[section][key] = about(dotted).get("default") if value is None else value
    data = {**plan.data, "cluster": collect_devices(plan.data), **sections}
    draft = Draft(plan.document, data)
    if whole:
        for step in CROSS_CHECKS:
            step(draft)
        kernels.fill_layout(draft)
    _check_divisions(draft, plan.model)
    if whole and not draft.faults:
        pipeline.check_pipeline(draft, plan.model)
    return draft


def variant(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """Build the same plan with some dotted keys changed; None resets a key to its default.

    Values that the first plan derived (data-parallel size, accumulation) are derived again. The
    document is neither read nor checked anew, only what changes: inverse questions ask for
    hundreds of variants. A mapping replaces a whole section, such as the model.

    Raises:
        PlanError: where the changed document is no valid plan.
    """
    values = {key: check_value(key, value) for key, value in changes.items()}
    return build_plan(change_document(plan.document, values))


def change_document(document: source.Document, changes: Mapping[str, Any]) -> source.Document:
    """Change some dotted keys of a plan's document, and what its stack then sets otherwise.

    Args:
        document: of a plan; it is not changed.
        changes: values that were checked, None for what removes a key.
    """
    if not changes:
        return document
    for around in {key.rpartition(".")[0] for key in changes}:
        if isinstance(mean := document.get(around), (int, float, Fraction)):  # a mean by itself
            document = document.change_keys({around: {"mean": mean}})
    changed = document.change_keys(changes)
    before, stack = (one.get(STACK) for one in (document, changed))
    if stack == before and (
        stack is None
        or not any(
            source.is_within(key, changes) or source.is_within(other, (key,))
            for keys in stacks.list_conditions(stack)
            for key in keys
            for other in changes
        )
    ):
        return changed
    follows = {}
    own = partial(changed.get_stated, unless=("default", stacks.KIND))
    settings = dict.fromkeys(stacks.list_settable(before)) if before else {}
    settings |= stacks.yield_settings(stack, own) if stack else {}
    for key, value in settings.items():
        if own(key) is not None or (value is None and changed.get(key) is None):
            continue
        if isinstance(value, str) and "unit" in about(key):
            value = units.parse(value, about(key)["unit"])
        value = about(key).get("default") if value is None else value
        if value != changed.get(key):
            follows[key] = value
    held = source.change_keys(changed.data, follows)
    return replace(changed, held=held) if follows else changed


def use_utilisation(share: Any) -> dict[str, Any]:
    """Return the changes after which times follow from a utilisation, not a prediction."""
    return {"time.mfu": share, "time.use": "assumed"}


def reset_derived(plan: Plan) -> dict[str, None]:
    """Return changes for a variant with another layout: they reset the given keys that otherwise
    follow from the layout and would contradict it."""
    return {key: None for key in filter_keys(FOLLOWING) if plan.document.get(key) is not None}


@cache
def about(key: str) -> Mapping[str, Any]:
    """Return what the schema of plans says about a dotted key.

    Raises:
        PlanError: there is no such key.
    """
    said = schema.describe("plan", key)
    if said is None:
        allowed = "a dotted key of a plan such as training.tokens"
        raise PlanError(f"unknown key {key}", None, allowed, find_near_key(key))
    return said


def find_near_key(key: str) -> str | None:
    """Suggest the key of a plan that is most similar to an unknown key or to its last part."""
    pool = schema.list_key_paths("plan")
    by_last = {path.rpartition(".")[2]: path for path in reversed(pool) if "." in path}
    return (
        by_last.get(key)
        or aliases.suggest_key(key)
        or nearest(key, pool)
        or by_last.get(nearest(key, by_last) or "")
    )


#: Keys of a plan whose value may be a name, with the kind of the named document.
NAMED = {"model": "model", "cluster": "cluster", "cluster.accelerator": "accelerator"}


def check_value(key: str, value: Any) -> Any:
    """Check a value against the schema of its key; return it in the unit of the key.

    Raises:
        PlanError: the key cannot have it.
    """
    if value is None:
        return about(key).get("default")
    if isinstance(value, str) and key in NAMED:
        value = {"extends": value}
    if isinstance(value, Mapping):
        kind = NAMED.get(key, key)
        return schema.validate(source.load(value, kind=kind), kind).data
    if not accepts(about(key), value):
        raise PlanError(f"{key}: {value} is not allowed", None)
    return value
