"""Models that read patches of images instead of words: a stem and an output in the place of a
vocabulary, one condition for each sequence that its layers' norms are shifted and scaled by, and a
context beside it, which layers attend to or work on as on a second stream."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from planner.plans.blocks import TOWERS, Kind, chain, mark_block, of_tower
from planner.plans.document import Block, Draft, Stack

#: Keys that exclude a stem, and keys that need one.
WORDS_ONLY = ("encoder", *TOWERS, "mtp", "altup", "per_layer_embedding", "embedding_dim")
PATCHES_ONLY = ("output", "context", "conditioning")
#: Keys of a layer kind that need a stem.
KIND_ONLY = ("streams", "modulation", "modulation_rows", "modulation_shared", "context_modulation")
_WHOLE = {"bias": True, "norm": "none", "copies": 1, "split": "none", "activated": False}


def check_inputs(draft: Draft, data: Kind) -> None:
    """Check that a model reads either words by a vocabulary or patches by a stem, without keys of
    the other kind. Attention between patches is never causal."""
    context, tokens = data.get("context"), "training.context_tokens"
    if data.get("stem"):
        if data.get("vocab"):
            draft.fault("model.vocab", "a model with a stem has no vocabulary", "vocab or stem")
        for key in WORDS_ONLY:
            if data.get(key):
                draft.fault(f"model.{key}", f"{key} is not modelled beside a stem", "left out")
        data["causal"] = False
    else:
        _refuse_keys(draft, data, PATCHES_ONLY)
    if context:
        draft.default(tokens, context["tokens"], "equals model.context.tokens")
    elif draft.get(tokens) is not None:
        draft.fault(tokens, "the model has no context", "a model with the key context")
    draft.raise_faults()


def _refuse_keys(draft: Draft, data: Kind, keys: Iterable[str]) -> None:
    """Refuse keys that need a stem in a model that reads words."""
    for key in keys:
        if data.get(key):
            draft.fault(f"model.{key}", f"{key} needs a stem", "stem, the matrices of it")


def _build_stream(data: Kind, tower: str, hidden: int | None = None) -> Stack:
    """Return the stream of tokens beside those of the sequence, or of both together."""
    wide = hidden or data["hidden"]
    return Stack(
        tower, tower, wide, data["positions"], (data.get("conditioning") or {}).get("rows") or 0
    )


def join_streams(data: Kind, kind: Kind) -> Stack | None:
    """Return the stream of sequence and context together; None if the layer has no streams."""
    if not kind.get("streams"):
        return None
    own = 1 if kind["streams"] == "joint" else 2
    return replace(_build_stream(data, "joint"), streams=own, name=f"joint-{own}")


def _place_blocks(blocks: Iterable[Block], stack: Stack, name: str = "") -> list[Block]:
    """Return blocks that run on the tokens of a stack, under a name prefix."""
    return [
        replace(of_tower(block, False), name=f"{name}{block.name}", stack=stack) for block in blocks
    ]


def _place_matrices(matrices: list[tuple[int, Block]], stack: Stack, name: str = "") -> list[Block]:
    """Return matrices that run on the tokens of a stack, some on several rows of each token."""
    made: list[Block] = []
    for rows, block in matrices:
        several = replace(stack, name=f"{stack.name}-{rows}", rows=Fraction(rows))
        plain = rows == 1 and stack.tower == "own"
        made += [block] if plain else _place_blocks([block], stack if rows == 1 else several, name)
    return made


def build_stem(draft: Draft, data: Kind) -> list[Block]:
    """Build the stem: the blocks that bring patches, context and condition to the layers."""
    whole, given = {**data, "place": "model"}, data["hidden"]
    blocks = _place_matrices(
        chain(draft, whole, "stem", 0, given, given), _build_stream(data, "own")
    )
    if data.get("context"):
        inside = {**data["context"], "place": "model.context"}
        made = chain(draft, inside, "stem", 0, given, given)
        blocks += _place_matrices(made, _build_stream(data, "context"), "context_")
    own = data.get("conditioning") or {}
    return [*blocks, *([] if own.get("each_layer") else _build_condition(draft, data))]


def _build_condition(draft: Draft, data: Kind) -> list[Block]:
    """Build the blocks that make the conditioning vector of each sequence, from the time step and a
    class or a text."""
    own = data.get("conditioning") or {}
    wide = own.get("width") or data["hidden"]
    inside = {**own, "place": "model.conditioning"}
    stack, table = _build_stream(data, "condition", wide), {"positions": "learned", "narrow": False}
    blocks = _place_matrices(chain(draft, inside, "matrices", 0, wide, None), stack, "condition_")
    rows = [Block("positions", "rows", table)] if own.get("rows") else []
    return [*blocks, *_place_blocks(rows, stack, "condition_")]


def _build_modulation(data: Kind, vectors: int, rows: int, name: str) -> list[Block]:
    """Build the matrix from the conditioning vector to ``vectors`` of the model's width."""
    own, hidden = data.get("conditioning") or {}, data["hidden"]
    wide = own.get("width") or hidden
    values = {**_WHOLE, "inputs": wide, "outputs": vectors * hidden, "norm_width": wide}
    values |= {"bias": own.get("bias", True), "group": "modulation"}
    made = [Block("matrix", name, values)] if vectors else []
    made += [Block("learned", f"{name}_rows", {"rows": rows})] if rows else []
    return _place_blocks(made, _build_stream(data, "condition"))


def build_last_norm(draft: Draft, data: Kind) -> list[Block]:
    """Build the modulation of the norm after the layers. A conditioning vector that each layer
    makes for itself is made once more, with the weights of the first."""
    own = data.get("conditioning") or {}
    again = _build_condition(draft, data) if own.get("each_layer") and own.get("output") else []
    vectors, rows = own.get("output") or 0, own.get("output_rows") or 0
    once_more = [mark_block(block, "reused") for block in again if block.kind == "matrix"]
    return [*once_more, *_build_modulation(data, vectors, rows, "output_modulation")]


def build_output(draft: Draft, data: Kind) -> list[Block]:
    """Build the matrices from the hidden width to patches."""
    whole, given = {**data, "place": "model"}, data["hidden"]
    return _place_matrices(
        chain(draft, whole, "output", given, given, None), _build_stream(data, "own")
    )


def add_modulation(
    draft: Draft, kind: Kind, data: Kind, blocks: tuple[Block, ...]
) -> tuple[Block, ...]:
    """Return the blocks of a layer with those that a diffusion transformer adds: modulation, a
    second stream, and attention to a context, whose keys and values have their own projections.

    Args:
        kind: the layer kind.
        data: the section of the model.
        blocks: of a plain layer; norms and blocks with a gate are marked ``scaled``.
    """
    _check_kind(draft, kind, data, blocks)
    if not data.get("stem"):
        return blocks
    made: list[Block] = []
    vectors, rows = kind.get("modulation") or 0, kind.get("modulation_rows") or 0
    streams, conditioned = kind.get("streams"), data.get("conditioning") or {}
    if conditioned.get("each_layer"):
        made += _build_condition(draft, data)
    made += _build_modulation(data, vectors, rows, "modulation")
    # Norms are scaled and shifted, and where there are gates, outputs of blocks are weighed; of
    # blocks side by side their sum.
    taken = vectors + rows + (kind.get("modulation_shared") or 0)
    plain, gates = list(blocks), taken > 2
    for place, block in enumerate(blocks):
        weighed = gates and (not kind.get("parallel") or block is blocks[-1])
        scaled = bool(taken) if block.kind == "norm" else weighed
        plain[place] = replace(block, values={**block.values, "scaled": scaled})
    seen: set[str] = set()
    for place, block in enumerate(plain):
        if block.name in seen:
            plain[place] = replace(block, name=f"{block.name}_2")
        seen.add(block.name)
    if streams == "joint":
        return (*made, *(of_tower(block, False) for block in plain))
    if not streams:
        return (*made, *_replace_cross(data, plain))
    ends, others = streams == "last", kind.get("context_modulation")
    made += _build_modulation(data, vectors if others is None else others, 0, "context_modulation")
    first = next(place for place, block in enumerate(plain) if block.kind == "attention")
    # The context has one mixer alone, and behind the last layer nobody reads it.
    second = [block for block in plain if not block.name.startswith("attention_")]
    second = second[: first + 1] if ends else second
    met = plain[first].values
    values = {**met, "scaled": False}
    plain[first] = Block("stream", "stream", {**values, "without": ()})
    second[first] = Block("stream", "stream", {**values, "without": ("output",) if ends else ()})
    made += [replace(block, stack=_build_stream(data, "own")) for block in plain]
    made += _place_blocks(second, _build_stream(data, "context"), "context_")
    return (*made, of_tower(Block("attention", "attention", {**met, "joined": True}), False))


def _check_kind(draft: Draft, kind: Kind, data: Kind, blocks: Iterable[Block]) -> None:
    """Check that the model has what the streams and conditions of a layer kind need."""
    words, streams = not data.get("stem"), kind.get("streams")
    if words:
        _refuse_keys(draft, kind, KIND_ONLY)
    crosses = any(block.name == "cross_attention" for block in blocks) and not words
    if (streams or crosses) and not words and not data.get("context"):
        key = "streams" if streams else "mixer"
        draft.fault(f"model.{key}", "the model has no context", "context, its tokens")
    if streams and crosses:
        wrong = "streams and cross_attention exclude each other"
        draft.fault("model.mixer", wrong, "streams or cross_attention")
    if streams and not any(block.kind == "attention" for block in blocks):
        draft.fault("model.mixer", "streams need attention", "attention among the mixers")
    draft.raise_faults()


def _replace_cross(data: Kind, blocks: list[Block]) -> list[Block]:
    """Replace cross-attention by attention to the context: keys and values are projected from the
    context's tokens, queries from the sequence's."""
    made: list[Block] = []
    for block in blocks:
        if block.name not in ("cross_attention", "cross_attention_norm"):
            made.append(block)
            continue
        plain = {**block.values, "scaled": False}
        if block.kind == "norm":
            word = data["context"]["attention_norm"]
            own = {"type": word, "weight": True, "bias": word == "layernorm"}
            made += [] if word == "none" else [replace(block, values={**plain, **own})]
            continue
        left = {**plain, "crosses": True, "without": ("query", "query_norm", "output")}
        made += _place_blocks(
            [Block("stream", "projection", left)], _build_stream(data, "context"), "context_"
        )
        crossing = replace(
            _build_stream(data, "context"), name="crossing", positions="none", crosses=True
        )
        own = {**plain, "crosses": True, "shared_kv": True}
        made.append(replace(block, values=own, stack=crossing))
    return made
