"""From a model document to its stack of layer kinds.

A model is a sequence of layer kinds; a kind is a short list of blocks: norms, mixers over tokens
and channel mixers (feed-forwards), each with its own widths. Common patterns are single keys
(``moe.every``, ``moe.first_dense_layers``, ``attention.window`` with ``attention.global_every``);
the uncommon ones name their kinds and spell the ``pattern`` out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from planner.book.inventory import list_components, name_targets
from planner.plans import patches
from planner.plans.blocks import TOWERS, Kind, chain, mark_block, of_tower
from planner.plans.document import Block, Draft, Model, Part, Stack, copy_mappings, merge_mappings
from planner.plans.hardware import is_narrow
from planner.plans.shapes import CHANNEL_MIXERS, TOKEN_MIXERS, fill_block

#: The part of modules that predict further tokens.
FURTHER = "mtp"
#: Projections that an adapter may be added to.
ADAPTED = ("query", "key", "value", "output", "gate", "up", "down", "head")
#: What takes the place of the head over the vocabulary, by ``training.objective``: the head over
#: labels of transformers (GenericForSequenceClassification, on each token), as TRL's RewardTrainer
#: loads it; none for embeddings, which are pooled.
HEADS: Mapping[str, Kind | None] = {
    "reward": {"labels": 1, "output_bias": False, "dense": False, "norm": False, "tokens": "all"},
    "embed": None,
}
#: Marks layers and blocks whose matmuls stay in 16 bits.
WIDE = "wide"
MOST_BLOCKS = 600  # each is evaluated on its own; published models have up to a hundred


def build_model(draft: Draft) -> Model | None:
    """Build the model of a document, None where only its size is given; add faults to the draft."""
    data: dict[str, Any] = draft.get("model")
    if data.get("parameters") is not None:
        if data.get("layers") is not None:
            said = "parameters are counted from the model's shape"
            draft.fault("model.parameters", said, "either parameters or layers, hidden and so on")
        return None
    _replace_head(draft, data)
    patches.check_inputs(draft, data)
    encoder = _encoder(data) if data.get("encoder") else None  # before defaults are filled in
    plain, order = _read_kinds(draft, data, data["layers"])
    kinds, sequence = _separate_ends(draft, plain, order)
    stack, layers = _layers(draft, kinds, sequence, data), list(sequence)
    mixers = [one.values for part in stack for one in part.blocks if one.kind == "attention"]
    if mixers and data.get("attention") and data["attention"].get("head_dim") is None:
        # Every layer kind has an attention of its own: what the whole model shares fits the first.
        draft.default("model.attention.head_dim", mixers[0]["head_dim"], "of the first attention")
    ends = _build_embedding(draft, data, kinds[sequence[0]])
    if encoder is not None:
        inner, before = _read_kinds(draft, encoder, encoder["layers"])
        names = {name: "encoder" if name == "layer" else f"encoder-{name}" for name in inner}
        inner, before = {names[k]: inner[k] for k in names}, [names[k] for k in before]
        stack = [*_layers(draft, inner, before, data), *map(_mark_decoder, stack)]
        layers = before + layers
        ends += _build_ends(encoder, inner[before[0]])
    modules = _count_modules(draft, data)
    if modules:
        stack.append(_build_modules(draft, plain[order[-1]], data, modules))
        layers += [FURTHER] * modules
    embedding = Part("embedding", "embedding", 1, tuple(ends))
    head = _build_head(draft, data, 0 if encoder is not None else modules)
    head = head if encoder is None else _mark_decoder(head)
    front = [part for name in TOWERS for part in _build_tower(draft, data, name)]
    blocks = sum(len(part.blocks) for part in (*front, *stack))
    if blocks > MOST_BLOCKS:
        draft.fault("model", f"the layer kinds have {blocks} blocks", f"at most {MOST_BLOCKS}")
        draft.raise_faults()
    at_front = tuple(part.name for part in front for copy in range(part.count))
    model = Model((embedding, *front, *stack, head), tuple(layers), at_front)
    _check_adapters(draft, model)
    return model


def _replace_head(draft: Draft, data: Kind) -> None:
    """Replace the head over the vocabulary by that of the objective; a classifier that the model
    has stays."""
    objective = draft.get("training.objective")
    if objective not in HEADS or data.get("stem"):
        return
    data["head"], own = False, HEADS[objective]
    draft.derived["model.head"] = f"false under objective: {objective}"
    if own and not data.get("classifier"):
        data["classifier"] = dict(own)
        draft.derived["model.classifier"] = f"one output under objective: {objective}"


def _check_adapters(draft: Draft, model: Model) -> None:
    """Check that the model has a projection which the adapters may stand beside."""
    targets = (draft.get("training.lora") or {}).get("targets")
    if not targets:
        return
    names = {
        name
        for part in model.parts
        for block in part.blocks
        for piece in list_components(block.kind, block.values)
        for name in name_targets(block.kind, piece.name)
    }
    if "head" in targets and "head" in (draft.get("training.lora.trained") or ()):
        draft.fault("training.lora.trained", "head has an adapter already", "one of them")
    if names.isdisjoint(targets):
        has = ", ".join(name for name in ADAPTED if name in names)
        said = f"no layer of the model has a projection called {' or '.join(targets)}"
        draft.fault("training.lora.targets", said, f"some of: {has}")


def _mark_decoder(part: Part) -> Part:
    """Mark the blocks of a part as running on the decoder's tokens."""
    return replace(part, blocks=tuple(mark_block(block, "decoder") for block in part.blocks))


def _layers(draft: Draft, kinds: Mapping[str, Kind], sequence: list[str], data: Kind) -> list[Part]:
    """Build a part for each layer kind, with the number of its layers."""
    return [
        Part(
            name,
            "layers" if name == "layer" else f"{name} layers",
            sequence.count(name),
            patches.add_modulation(draft, kind, data, _build_blocks(draft, kind, data)),
            patches.join_streams(data, kind),
        )
        for name, kind in kinds.items()
    ]


def _read_kinds(draft: Draft, data: Kind, layers: int) -> tuple[dict[str, Kind], list[str]]:
    """Return the layer kinds by name (each a mapping like a model's) and the kind of each layer."""
    if data.get("kinds"):
        return _expand_kinds(draft, data, layers)
    moe, attention = data.get("moe") or {}, data.get("attention") or {}
    every, first = moe.get("every", 1), moe.get("first_dense_layers", 0)
    offset = moe.get("offset")
    offset = every - 1 if offset is None else offset
    window, global_every = attention.get("window"), attention.get("global_every")
    sequence: list[str] = []
    kinds: dict[str, Kind] = {}
    for layer in range(layers):
        names: list[str] = []
        own: Kind = {}
        if moe and data.get("feed_forward") is None:
            routed = layer >= first and layer % every == offset % every
            names.append("moe" if routed else "dense")
            own["feed_forward"] = "moe" if routed else "mlp"
        if window and global_every:
            wide = layer % global_every == global_every - 1
            names.append("global" if wide else "local")
            if wide:
                own["attention"] = {**attention, "window": None}
        name = "-".join(names) or "layer"
        if name not in kinds:
            kinds[name] = {**data, **own}
        sequence.append(name)
    if len(kinds) == 1:
        return {"layer": next(iter(kinds.values()))}, ["layer"] * layers
    return kinds, sequence


def _separate_ends(
    draft: Draft, kinds: dict[str, Kind], sequence: list[str]
) -> tuple[dict[str, Kind], list[str]]:
    """Separate the layers whose matmuls stay in 16 bits (training.bf16_layers) as kinds of their
    own; without effect if the recipe has no narrower matmuls."""
    ends = draft.get("training.bf16_layers") or {}
    first, last = ends.get("first", 0), ends.get("last", 0)
    if not first + last or not is_narrow(draft.get("training.precision")):
        return kinds, sequence
    count = len(sequence)
    if first + last > count:
        wrong = f"{first} first and {last} last of {count} layers"
        draft.fault("training.bf16_layers", wrong, f"{count} together at most")
        return kinds, sequence
    names = {}
    for name in kinds:
        wide = "bf16" if name == "layer" else f"{name}-bf16"
        while wide in kinds:
            wide += "-bf16"
        names[name] = wide
    ordered = [
        names[name] if layer < first or layer >= count - last else name
        for layer, name in enumerate(sequence)
    ]
    both = {**kinds, **{names[name]: {**kind, WIDE: True} for name, kind in kinds.items()}}
    return {name: kind for name, kind in both.items() if name in ordered}, ordered


def _expand_kinds(draft: Draft, data: Kind, layers: int) -> tuple[dict[str, Kind], list[str]]:
    """Return the layer kinds that the pattern uses, and the kind of each layer from first to last.

    Args:
        draft: receives the faults of names.
        data: the section of the model or of a tower; each kind overrides its keys.
        layers: how many; the pattern repeats as often as it takes.
    """
    place = data.get("place", "model")
    for name in data["kinds"]:
        if name in ("embedding", "head") or (name in TOWERS and data.get(name)):
            wrong = f"a layer kind cannot be called {name}"
            draft.fault(f"{place}.kinds.{name}", wrong, "a name that no end of the model has")
    own = {key: value for key, value in data.items() if key not in ("kinds", "pattern")}
    kinds = {name: merge_mappings(own, changes or {}) for name, changes in data["kinds"].items()}
    pattern: list[str] = []
    for index, item in enumerate(data.get("pattern") or list(kinds)):
        name, count = (item, 1) if isinstance(item, str) else (item["kind"], item.get("count", 1))
        if name not in kinds:
            unknown = f"unknown layer kind {name!r}"
            draft.fault(f"{place}.pattern.{index}", unknown, f"one of: {', '.join(kinds)}")
        pattern += [name] * min(count, layers - len(pattern))  # what is beyond is never reached
    draft.raise_faults()
    sequence = [pattern[i % len(pattern)] for i in range(layers)]
    return {k: v for k, v in kinds.items() if k in sequence}, sequence


def _split_groups(value: Any) -> list[list[str]]:
    """Split mixers into groups: items of a list are consecutive, `a+b` parallel, `none` empty."""
    items = [value] if isinstance(value, str) else list(value)
    return [item.replace(" ", "").split("+") for item in items if item != "none"]


def _has_norm_bias(data: Mapping[str, Any]) -> bool:
    """Return whether norms have a bias: as given, else those of type ``layernorm``."""
    given = data.get("norm_bias")
    return bool(data["norm"] == "layernorm" if given is None else given)


def _build_norm(
    data: Mapping[str, Any],
    name: str,
    narrow: bool = False,
    cast: bool = False,
    doubled: bool = False,
) -> Block:
    """Return the block of a norm.

    Args:
        data: the section of the model.
        name: of the block.
        narrow: whether its width is that of the embedding, not of the layers.
        cast: whether its output is an input of matmuls, which is saved in their format.
        doubled: whether it reads two hidden states side by side.
    """
    values = {
        "type": data["norm"],
        "weight": data.get("norm_weight", True),
        "bias": _has_norm_bias(data),
        "offset": data.get("norm_offset", False),
        "narrow": narrow,
        "doubled": doubled,
        "cast": cast,  # whether products alone read its output, and no router
        "scaled": False,  # and shifted, by a condition
    }
    return Block("norm", name, values)


def _build_blocks(draft: Draft, kind: Kind, data: Kind) -> tuple[Block, ...]:
    """Return the blocks of one layer kind in the order of the forward pass."""
    labels: list[str] = []  # of the places of a layer; a second mixer is called after its block
    groups: list[list[Block]] = []
    for label, role, known, otherwise in (
        ("mixer", "mixer", TOKEN_MIXERS, "attention"),
        ("mlp", "feed_forward", CHANNEL_MIXERS, "moe" if kind.get("moe") else "mlp"),
    ):
        for names in _split_groups(kind.get(role) or otherwise):
            labels.append(names[0] if label in labels else label)
            groups.append([_build_block(draft, kind, name, data, known, role) for name in names])
    blocks: list[Block] = []
    shared = kind.get("shared_block")
    if shared and (kind.get("parallel") or groups[0][0].kind != "attention"):
        wrong = "a shared block must start with attention after its norm"
        draft.fault("model.mixer", wrong, "attention, or a list that begins with it")
        draft.raise_faults()
    if kind.get("parallel"):
        count = 1 if kind.get("shared_norm") else len(labels)
        routed = [_has_router(group) for group in groups]
        blocks = [
            _build_norm(kind, f"{label}_norm", cast=not (any(routed) if count == 1 else routes))
            for label, routes in zip(labels[:count], routed[:count], strict=True)
        ]
        blocks += [block for group in groups for block in group]
    else:
        placement = kind.get("norm_placement", "pre")
        for label, group in zip(labels, groups, strict=True):
            mine: list[Block] = []
            bare = label == labels[0] and kind.get("mixer_norm") is False
            if placement in ("pre", "sandwich") and not bare:
                doubled = bool(shared) and label == labels[0]
                cast = not _has_router(group)
                mine.append(_build_norm(kind, f"{label}_norm", cast=cast, doubled=doubled))
            mine += group
            if placement != "pre":
                suffix = "_post_norm" if placement == "sandwich" else "_norm"
                mine.append(_build_norm(kind, f"{label}{suffix}"))
            again = shared == "again" and label in (labels[0], "mlp")
            blocks += [mark_block(block, "reused") for block in mine] if again else mine
    if shared:
        blocks.append(Block("projection", "shared_projection", {"lone": True}))
    if kind.get("altup"):
        blocks += [_build_altup(kind, "altup", "layer")]
    if kind.get("hyper"):
        blocks.append(Block("hyper", "hyper", {**kind["hyper"], "at": "layer"}))
    if kind.get("laurel"):
        blocks.append(Block("laurel", "laurel", kind["laurel"]))
    if kind.get("per_layer_embedding"):
        blocks.append(_build_per_layer(draft, kind, data, table=False))
    if kind.get("layer_scale"):
        blocks = [b if b.kind == "norm" else mark_block(b, "layer_scale") for b in blocks]
    if blocks:
        blocks[-1] = mark_block(blocks[-1], "last")
    for key, mark in (("reuse", "reused"), (WIDE, WIDE)):
        blocks = [mark_block(block, mark) for block in blocks] if kind.get(key) else blocks
    return tuple(blocks)


def _has_router(group: list[Block]) -> bool:
    """Return whether parallel blocks contain experts, whose router reads the norm uncast."""
    return any(block.kind == "moe" for block in group)


def _build_block(
    draft: Draft, kind: Kind, name: str, data: Kind, known: Collection[str], role: str
) -> Block:
    """Return a block of a layer with all its values.

    Args:
        kind: the layer kind.
        name: of the block, such as ``attention``; the attention to an encoder is one under another
            name.
        data: the section of the model.
        known: names that are allowed.
        role: ``mixer`` or ``feed_forward``, the key that says the name.

    Raises:
        PlanError: the name is unknown, or values of the block contradict each other.
    """
    if name not in known:
        unknown = f"unknown {role.replace('_', '-')} {name!r}"
        draft.fault(f"model.{role}", unknown, f"one of: {', '.join(known)}")
        draft.raise_faults()
    block = "attention" if name == "cross_attention" else name
    return Block(block, name, fill_block(draft, kind, name, data))


def _build_embedding(draft: Draft, data: Kind, first: Kind) -> list[Block]:
    """Return the blocks before the layers: tables or a stem, positions, and what is normalised.

    Args:
        data: the section of the model.
        first: the first layer kind, whose heads positions fit.
    """
    blocks = (
        patches.build_stem(draft, data) if data.get("stem") else [_build_table(data, "embedding")]
    )
    blocks += _build_positions(draft, first, data["positions"], "positions")
    if data["embedding_norm"]:
        blocks.append(_build_norm(data, "embedding_norm", _has_narrow_width(data)))
    if data.get("per_layer_embedding"):
        blocks.append(_build_per_layer(draft, data, data, table=True))
    if data.get("altup"):
        blocks.append(_build_altup(data, "altup", "ends"))
    return blocks


def _build_table(data: Kind, name: str) -> Block:
    """Return the block of a token table, with the keys that give it another width or more rows."""
    keys = ("embedding_dim", "embedding_projection", "token_types")
    return Block("embedding", name, {key: data.get(key) for key in keys})


def _build_per_layer(draft: Draft, kind: Kind, data: Kind, table: bool) -> Block:
    """Return the embedding that each layer adds: its table with the embedding, its gate in a
    layer."""
    values = fill_block(draft, kind, "per_layer_embedding", data)
    return Block("per_layer_embedding", "per_layer_embedding", {**values, "table": table})


def _build_altup(data: Kind, name: str, at: str) -> Block:
    """Return the predict or the correct step of alternating updates (Gemma 3n), by ``at``."""
    return Block("altup", name, {**data["altup"], "at": at})


def _has_narrow_width(data: Kind) -> bool:
    """Return whether positions and norm of the embedding have its own, narrower width."""
    return bool(data.get("embedding_dim")) and data["embedding_projection"] == "all"


def _build_positions(draft: Draft | None, first: Kind, positions: str, name: str) -> list[Block]:
    """Build the tables of positions and of biases by distance; MPNet has both."""
    attention = first.get("attention") or {}
    buckets, own = attention.get("relative_buckets"), attention.get("relative_each")
    alone = positions == "learned" or (positions == "relative" and not own)
    tables = {name: positions} if alone else {}
    if positions == "learned" and buckets and not own:
        tables[name.replace("positions", "distances")] = "relative"
    values = {
        "relative_buckets": buckets,
        "heads": attention.get("heads"),
        "narrow": draft is not None and _has_narrow_width(first),
    }
    if draft is not None and positions in ("learned", "relative"):
        key = "max_sequence" if positions == "learned" else "relative_buckets"
        where = "model" if positions == "learned" else "model.attention"
        if draft.get(f"{where}.{key}") is None:
            draft.fault(where, f"{positions} positions need {where}.{key}")
    return [
        Block("positions", name, {**values, "positions": kind}) for name, kind in tables.items()
    ]


def _encoder(data: Kind) -> Kind:
    """Return the encoder's keys: the decoder's, without those that only it has, and its own."""
    own = {k: v for k, v in data["encoder"].items() if v is not None}
    without = {
        k: copy_mappings(v) for k, v in data.items() if k not in ("encoder", "kinds", "pattern")
    }
    without["mixer"], without["causal"] = "attention", False
    return merge_mappings(without, own)


def _build_ends(encoder: Kind, first: Kind) -> list[Block]:
    """Build the blocks around the encoder's layers; it shares the token embedding."""
    blocks = _build_positions(None, first, encoder["positions"], "encoder_positions")
    if encoder["embedding_norm"]:
        blocks.append(_build_norm(encoder, "encoder_embedding_norm"))
    if encoder["final_norm"]:
        blocks.append(_build_norm(encoder, "encoder_final_norm"))
    return blocks


def _build_tower(draft: Draft, data: Kind, name: str) -> list[Part]:
    """Build the parts of a tower in front of the layers: the matrices of its stem, its ends, its
    layers, and the projector after them."""
    tower, run = data.get(name), f"training.{name}"
    if tower is None:
        if draft.get(run) is not None:
            draft.fault(run, f"the model has no {name} tower", f"a model with the key {name}")
        return []
    if data.get("encoder"):
        draft.fault(f"model.{name}", "a tower is not modelled beside an encoder", "one of them")
    draft.default(f"{run}.items", 1, "one in each sequence")
    draft.default(f"{run}.tokens", tower["tokens"], f"equals model.{name}.tokens")
    still = draft.default(f"{run}.frozen", False, "towers are trained unless a run says otherwise")
    first = tower["class_tokens"]
    longest = tower.get("max_sequence") or tower["tokens"] + first
    own = Stack(
        f"{name}-ends",
        name,
        tower["hidden"],
        tower["positions"],
        longest,
        extra=first,
        frozen=still,
    )
    data = {**tower, "place": f"model.{name}", "causal": False}
    parts = _build_matrices(draft, data, "stem", replace(own, extra=0), 0, own.hidden)
    learned = first + tower["learned_rows"]
    ends = [Block("learned", "learned", {"rows": learned})]
    if own.positions == "learned":
        ends.append(Block("positions", "positions", {"positions": "learned", "narrow": False}))
    ends += [_build_norm(data, key) for key in ("embedding_norm", "final_norm") if data[key]]
    around = tuple(of_tower(block, still) for block in ends)
    parts.append(Part(own.name, f"{name} ends", 1, around, own, "embedding"))
    kinds, sequence = _read_kinds(draft, data, data["layers"])
    for kind, values in kinds.items():
        attention = values["attention"]
        label = name if kind == "layer" else f"{name}-{kind}"
        stack = replace(own, name=label, window=attention.get("window"))
        plain = {**values, "attention": {**attention, "window": None}}  # a window is a sequence
        blocks = [of_tower(block, still) for block in _build_blocks(draft, plain, data)]
        parts.append(Part(label, f"{label} layers", sequence.count(kind), tuple(blocks), stack))
    if tower["pool"]:
        parts += _build_pool(draft, data, own)
    on = replace(own, rows=Fraction(1, tower["merge"]), extra=0, frozen=False)
    hidden = draft.get("model.hidden")
    parts += _build_matrices(draft, data, "projector", on, own.hidden, hidden)
    if tower["output_rows"]:
        block = of_tower(Block("learned", "learned", {"rows": tower["output_rows"]}), False)
        last = replace(on, name=f"{name}-output", hidden=hidden)
        parts.append(Part(last.name, f"{name} output", 1, (block,), last, "embedding"))
    return parts


def _build_pool(draft: Draft, data: Kind, own: Stack) -> list[Part]:
    """Build a pooling head: one learned token attends to all of the tower's (Zhai et al. 2022,
    arXiv 2106.04560). One part makes keys and values of these, the other is the rest of a layer."""
    label = f"{own.tower}-pool"
    values = {"inputs": own.hidden, "outputs": 2 * own.hidden, "bias": True, "norm": "none"}
    values |= {"copies": 1, "norm_width": own.hidden, "group": "pool", "split": "none"}
    keys = Block("matrix", "pool_keys_values", {**values, "activated": False})
    kind = {**data, "attention": {**data["attention"], "shared_kv": True, "window": None}}
    rest = [block for block in _build_blocks(draft, kind, data) if block.name != "mixer_norm"]
    blocks = [Block("learned", "learned", {"rows": 1}), *rest]
    one = replace(own, name=label, queries=1)
    return [
        Part(
            part.name,
            part.name.replace("-", " "),
            1,
            tuple(of_tower(block, own.frozen) for block in inside),
            part,
            "embedding",
        )
        for part, inside in ((replace(own, name=f"{label}-keys"), [keys]), (one, blocks))
    ]


def _build_matrices(
    draft: Draft, data: Kind, key: str, stack: Stack, first: int, last: int
) -> list[Part]:
    """Build the matrices of a stem or a projector, in parts of equal rows."""
    parts: list[Part] = []
    before = 0
    for rows, block in chain(draft, data, key, first, stack.hidden, last):
        block = of_tower(block, stack.frozen)
        if rows == before:
            parts[-1] = replace(parts[-1], blocks=(*parts[-1].blocks, block))
            continue
        label = f"{stack.tower}-{key}" + (f"-{len(parts) + 1}" if parts else "")
        own = replace(stack, name=label, rows=stack.rows * rows, hidden=last)
        parts.append(Part(label, label.replace("-", " "), 1, (block,), own, "embedding"))
        before = rows
    return parts


def _count_modules(draft: Draft, data: Kind) -> int:
    """Count the modules that predict further tokens; 0 in inference, which leaves them out."""
    count = data.get("mtp") or 0
    if not count or draft.get("training.mode") == "inference":
        return 0
    beside = {
        "an encoder": data.get("encoder"),
        f"a layer kind {FURTHER}": FURTHER in (data.get("kinds") or {}),
        "LoRA": draft.get("training.lora"),
    }
    for what, there in beside.items():
        if there:
            draft.fault("model.mtp", f"multi-token prediction is not modelled with {what}", "0")
    draft.raise_faults()
    return int(count)


def _build_modules(draft: Draft, last: Kind, data: Kind, count: int) -> Part:
    """Build the modules that predict further tokens: norms of the hidden state and of the next
    token's embedding, their projection, and a layer like the last."""
    blocks = [
        _build_norm(data, "hidden_norm"),
        mark_block(_build_table(data, "next_embedding"), "reused"),
        _build_norm(data, "next_norm"),
        Block("projection", "projection", {"lone": False}),
        *_build_blocks(draft, last, data),
    ]
    return Part(FURTHER, "modules that predict further tokens", count, tuple(blocks))


def _build_head(draft: Draft, data: Kind, modules: int) -> Part:
    """Build the final norm and head, repeated for each module that predicts further tokens."""
    blocks = [_build_altup(data, "altup_sum", "ends")] if data.get("altup") else []
    if data.get("hyper") and not data["hyper"].get("averaged"):
        blocks.append(Block("hyper", "hyper_sum", {**data["hyper"], "at": "ends"}))
    if data["final_norm"]:
        blocks.append(_build_norm(data, "final_norm"))
    if data["pooler"]:
        blocks.append(Block("pooler", "pooler", {}))
    if data.get("classifier"):
        also = {"norm_bias": _has_norm_bias(data)}
        blocks.append(Block("classifier", "classifier", {**data["classifier"], **also}))
    values = {
        "tied": data["tied_embeddings"],
        "bias": data["head_bias"],
        "transform": data["head_transform"],
        "transform_bias": data["bias"],
        "norm_bias": _has_norm_bias(data),
        "embedding_dim": data.get("embedding_dim"),
        WIDE: not draft.get("training.narrow_logits"),
    }
    if data.get("stem"):
        return Part(
            "head",
            "head",
            1,
            (*patches.build_last_norm(draft, data), *blocks, *patches.build_output(draft, data)),
        )
    if data["head"]:
        blocks.append(Block("head", "head", values))
    for number in range(modules):
        label = f"{FURTHER}_{number + 1}"
        if data["final_norm"]:
            blocks.append(_build_norm(data, f"{label}_norm"))
        if data["head"]:
            once_more = {**values, "reused": True, "again": True}
            blocks.append(Block("head", f"{label}_head", once_more))
    return Part("head", "head", 1, tuple(blocks))
