"""Pipeline stages: which layers each device of a pipeline holds, and what is in flight there.

Layers are cut into chunks in the order of the model: one for each stage, ``virtual`` of them under
the interleaved schedule, two under DualPipe (one from each end) and DualPipeV (there and back).
Chunk 0 also holds the embedding and the towers in front of the layers (as Megatron-LM's LLaVAModel
does), the last one the head. How many micro-batches are alive follows
from the schedule's order of forward and backward passes (planner/plans/schedules.py):

1f1b         stage i of p keeps p - i, at most m (Narayanan et al. 2021, section 2.2)
interleaved  2(p - i - 1) + (v - 1)p + 1 chunk passes (Narayanan et al. 2021; Megatron-LM's
             schedule), which makes 1 + (p - 1)/(pv) of a whole model on the first stage
             (Korthikanti et al. 2022, section 4.2.3); one pass more where experts' rows travel
             beside another micro-batch (Megatron Core, get_pp_rank_microbatches)
gpipe        all m (Huang et al. 2019)
zero-bubble  p on every stage: ZB-H1 keeps the activations of a weight gradient that it puts off
             (Qi et al. 2023, arXiv 2401.10241, table 1)
dualpipe     p + 1, parameters of two stages (DeepSeek-V3, arXiv 2412.19437, table 2): p - i of
             those that run down the stages, i + 1 of those that run up (deepseek-ai/DualPipe)
dualpipev    2 p + 1 of its half stages: 2 p - i on their way down, i + 1 on their way up (the same)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

from planner.base import resources
from planner.base.errors import format_divisors
from planner.plans import schedules
from planner.plans.document import Block, Draft, Model, Stage

#: The parts before and after the layers.
FIRST, LAST = "embedding", "head"
MOST_DISTINCT = 400  # stages times kinds


def build_stages(
    model: Model, layout: Mapping[str, Any], schedule: str, micro_batches: int, vocab: int
) -> tuple[Stage, ...]:
    """Return the distinct stages: of equal neighbours the first, which has most in flight.

    Args:
        model: of known shape.
        layout: the section ``parallelism``, completed.
        schedule: its name; ``own`` for a table of the document.
        micro_batches: of one optimizer step.
        vocab: size of the vocabulary, by which the head counts where layers are divided by compute.
    """
    size = layout["pipeline"]
    virtual = 2 if schedule == "dualpipe" else layout["virtual_pipeline"]
    own = schedules.list_in_flight(layout, micro_batches) if schedule == "own" else None
    parts = list_chunk_parts(model, layout, vocab)
    found: list[Stage] = []
    for index in range(size):
        held = [index + size * turn for turn in range(virtual)]
        if schedule == "dualpipe":
            held = [index, size - 1 - index]
        if schedule == "dualpipev" or (
            own and layout["passes"]["path"] == schedules.THERE_AND_BACK
        ):
            held = [index, 2 * size - 1 - index]
        ahead = 1 if layout["expert_overlap"] else 0
        counted = size, virtual, micro_batches, schedule, ahead
        alive = own[index] if own else _count_in_flight(index, *counted)
        holds: dict[str, int] = {}
        living: dict[str, int] = {}
        for place, chunk in enumerate(held):
            for part in parts[chunk]:
                holds[part] = holds.get(part, 0) + 1
                living[part] = living.get(part, 0) + alive[place]
        if found and found[-1].holds == holds:
            first = found[-1]
            of_run = {part: count + living[part] for part, count in first.of_run.items()}
            found[-1] = Stage(first.index, index, holds, first.alive, of_run)
        else:
            found.append(Stage(index, index, holds, living, living))
    return tuple(found)


def list_chunk_parts(model: Model, layout: Mapping[str, Any], vocab: int) -> list[list[str]]:
    """Return the names of the parts of each chunk, in the order of the model. A name stands as
    often as the chunk has its layer; towers and the embedding are in the first chunk, the head in
    the last.

    Args:
        model: of known shape.
        layout: the section ``parallelism``, completed.
        vocab: size of the vocabulary, as for ``build_stages``.
    """
    cuts = _find_cuts(model, layout, vocab)
    found: list[list[str]] = []
    for chunk in range(len(cuts) - 1):
        first = [FIRST, *model.front] if chunk == 0 else []
        last = [LAST] * (chunk == len(cuts) - 2)
        found.append([*first, *model.sequence[cuts[chunk] : cuts[chunk + 1]], *last])
    return found


def _find_cuts(model: Model, layout: Mapping[str, Any], vocab: int) -> list[int]:
    """Return the layers at which chunks begin: as given, else by a rule. Under `ends` the first
    chunks hold one more where it does not divide (torchtitan, generate_llm_fqn_per_model_part)."""
    given: Sequence[int] | None = layout.get("stages")
    if given is not None:
        return [0, *accumulate(given)]
    layers, chunks = len(model.sequence), count_chunks(layout)
    cut = cut_rule(layers, layout)
    if cut == "compute" and chunks > 1:
        return _cut_by_compute(model, chunks, vocab)
    cuts = [layers * i // chunks for i in range(chunks + 1)]
    if cut == "ends" and chunks > 1:
        held, more = divmod(layers + 2, chunks)
        cuts = [held * i + min(i, more) - 1 for i in range(chunks + 1)]
    return [0, *cuts[1:-1], layers]


def cut_rule(layers: int, layout: Mapping[str, Any]) -> str:
    """Return the rule that cuts the layers: ``parallelism.cut``, but `ends` in the place of `even`
    under virtual stages that the layers do not divide over."""
    cut = str(layout.get("cut") or "even")
    uneven = layout["virtual_pipeline"] > 1 and layers % count_chunks(layout) > 0
    return "ends" if cut == "even" and uneven else cut


def count_chunks(layout: Mapping[str, Any]) -> int:
    """Count the chunks of the layers: one for each stage and virtual stage."""
    return int(layout["pipeline"] * layout["virtual_pipeline"])


def divide_layers(model: Model, layout: Mapping[str, Any], vocab: int) -> list[int]:
    """Return the number of layers of each chunk, in the order of the model.

    Args:
        model: of known shape.
        layout: the section ``parallelism``, completed.
        vocab: size of the vocabulary, as for ``build_stages``.
    """
    return [stop - start for start, stop in pairwise(_find_cuts(model, layout, vocab))]


#: Letters of a layout as Megatron-LM writes it: embedding, layer, further-token module, loss.
EMBEDDING, LAYER, MODULE, LOSS = "EtmL"
MOST_WRITTEN = 100_000  # letters of a layout
#: Patterns of invalid layouts with their faults; then those of repeated letters and groups.
_WRONG: Sequence[tuple[str, str]] = resources.load_beside(__file__)
_REPEATED = (r"([EtmL|])\*(\d+)", r"\(([EtmL|]*)\)\*(\d+)")


def parse_chunks(text: str) -> tuple[list[int], int]:
    """Parse Megatron-LM's `--pipeline-model-parallel-layout`, such as `Et*3|(tt|)*29,m|L`: the
    layers of each chunk, including modules that predict further tokens, and the number of these.

    `|` stands between chunks, `x*n` and `(…)*n` repeat, commas say nothing (Megatron Core,
    docs/user-guide/features/pipeline_parallel_layout.md).

    Raises:
        ValueError: with what is wrong.
    """
    text = text.replace(",", "")
    for pattern, wrong in _WRONG:
        found = re.search(pattern, text)
        if found:
            raise ValueError(wrong.format(found[0]))
    for pattern in _REPEATED:
        if sum(len(one[1]) * int(one[2]) for one in re.finditer(pattern, text)) > MOST_WRITTEN:
            raise ValueError(f"more than {MOST_WRITTEN} letters")
        text = re.sub(pattern, lambda one: one[1] * int(one[2]), text)
    layers = text.replace("|", "")[1:-1]
    if text[:1] != EMBEDDING or text[-1:] != LOSS or {EMBEDDING, LOSS} & set(layers):
        raise ValueError("E must be first in the first stage and L last in the last, once each")
    if LAYER in layers.lstrip(LAYER):
        raise ValueError("a layer (t) follows a multi-token prediction module (m)")
    held = [chunk.count(LAYER) + chunk.count(MODULE) for chunk in text.split("|")]
    return held, layers.count(MODULE)


def write_chunks(held: Sequence[int], further: int) -> str | None:
    """Write chunks in Megatron-LM's notation, the last ``further`` layers as further-token modules;
    None where these are in several chunks, which it does not support."""
    starts, plain = [0, *accumulate(held)], sum(held) - further
    texts = []
    for number, count in enumerate(held):
        layers = max(0, min(count, plain - starts[number]))
        if 0 < count - layers < further:
            return None
        repeated = LAYER * layers if layers < 4 else f"{LAYER}*{layers}"
        texts.append(repeated + MODULE * (count - layers))
    texts[0] = EMBEDDING + texts[0]
    texts[-1] += LOSS
    runs = [(text, len(list(same))) for text, same in groupby(f"{text}|" for text in texts)]
    return "".join(text * many if many < 3 else f"({text})*{many}" for text, many in runs)[:-1]


def count_cut_layers(layers: int, cut: str, chunks: int) -> int:
    """Count the layers that a division into chunks is made of.

    Args:
        layers: of the model.
        cut: how the implementation divides; `ends` counts embedding and head as one layer each.
        chunks: of all stages together.
    """
    return layers + 2 if cut == "ends" and chunks > 1 else layers


def _cut_by_compute(model: Model, chunks: int, vocab: int) -> list[int]:
    """Cut the layers so that a chunk ends with the layer that exceeds its share of all matmul
    weights, those of the head included (nanotron 2024)."""
    costs = {part.name: sum(map(_count_weights, part.blocks)) for part in model.parts}
    steps = list(accumulate([costs[name] for name in model.sequence]))
    total = steps[-1] + vocab
    cuts, chunk = [0], 0
    for layer, reached in enumerate(steps):
        while chunk < chunks - 1 and reached * chunks > total * (chunk + 1):
            cuts.append(layer + 1)
            chunk += 1
    return [*cuts, *[len(steps)] * (chunks + 1 - len(cuts))]


def _count_weights(block: Block) -> int:
    """Count the matmul weights of a block as nanotron does, per unit of the hidden size."""
    values = block.values
    if block.kind == "attention":
        return 4 * int(values["heads"] * values["head_dim"])
    if block.kind == "mlp":
        plain = 1 if values["lone"] else 2
        matrices = 3 + values["further"] if values["gated"] else plain
        return int(matrices * values["intermediate"])
    return 0


def _count_in_flight(
    index: int, size: int, virtual: int, micro_batches: int, schedule: str, ahead: int
) -> list[int]:
    """Return the micro-batches in flight at the peak, for each chunk of the stage."""
    if schedule == "gpipe":
        return [micro_batches] * virtual
    if schedule == "zero-bubble":
        return [min(micro_batches, size)]
    if schedule == "dualpipe":
        return [size - index, index + 1]
    if schedule == "dualpipev":
        return [2 * size - index, index + 1]
    if virtual == 1:
        return [min(micro_batches, size - index)]
    passes = 2 * (size - index - 1) + (virtual - 1) * size + 1 + ahead
    passes = min(micro_batches * virtual, passes)
    # Each chunk passes `size` micro-batches, then the next one.
    rounds, rest = divmod(passes, size * virtual)
    return [rounds * size + min(max(rest - size * chunk, 0), size) for chunk in range(virtual)]


def max_in_flight(size: int, schedule: str) -> int | None:
    """Return the number of micro-batches from which on the number in flight is constant; None if
    all are in flight."""
    if schedule in ("gpipe", "own"):
        return None
    return 2 * size if schedule == "interleaved" else size


def suits(schedule: str, virtual: int) -> bool:
    """Return whether a schedule runs so many chunks on each device."""
    if schedule == "interleaved":
        return virtual > 1
    return virtual == (2 if schedule == "dualpipev" else 1)


def check_schedule(draft: Draft, model: Model) -> None:
    """Check that the schedule can run these stages and micro-batches."""
    layout, training = draft.get("parallelism"), draft.get("training")
    size, virtual = layout["pipeline"], layout["virtual_pipeline"]
    steps = training.get("gradient_accumulation")
    if training["optimizer_step"] == "in-backward" and steps and steps > 1:
        wrong = f"in-backward uses each gradient at once, but {steps} micro-batches add theirs up"
        draft.fault("training.optimizer_step", wrong, "whole, or gradient_accumulation: 1")
    if training["schedule"] == "interleaved" and virtual > 1 and steps and steps % size:
        wrong = f"{steps} micro-batches are not a multiple of pipeline {size}"
        wrong = f"{wrong}, which the interleaved schedule needs"
        draft.fault("training.gradient_accumulation", wrong, f"a multiple of {size}")
    # Without a weight gradient for each stage the bubble stays open (Qi et al. 2023).
    least = {"zero-bubble": size, "dualpipev": 2 * size}.get(training["schedule"], 0)
    if steps and steps < least:
        wrong = f"{training['schedule']} over {size} stages: {steps} micro-batches are too few"
        draft.fault("training.gradient_accumulation", wrong, f"at least {least}")
    # Half of them enter at either end (DeepSeek-V3, section 3.2.1; deepseek-ai/DualPipe).
    if training["schedule"] == "dualpipe" and steps and (steps % 2 or steps < 2 * size):
        wrong = f"dualpipe over {size} stages does not work with {steps} micro-batches"
        draft.fault("training.gradient_accumulation", wrong, f"an even number, at least {2 * size}")
    if training["schedule"] == "dualpipe" and size % 2:
        wrong = f"dualpipe pairs the stages, so {size} stages do not work"
        draft.fault("parallelism.pipeline", wrong, "an even size")


def check_context(draft: Draft, model: Model) -> None:
    """Check that the sequence divides into two pieces for each context-parallel device; into one
    where heads are exchanged."""
    length = draft.get("training.sequence_length")
    context = draft.get("parallelism.context")
    pieces = 1 if draft.get("parallelism.context_exchange") == "ulysses" else 2
    if context > 1 and length and length % (pieces * context):
        wrong = f"{length} tokens are not divisible by {pieces} × context {context}"
        sizes = [str(size) for size in range(1, 65) if size == 1 or length % (pieces * size) == 0]
        draft.fault("parallelism.context", wrong, f"one of {', '.join(sizes)}")


def _check_distinct(draft: Draft, model: Model) -> None:
    """Limit the distinct stages, each of which is evaluated for each layer kind."""
    size, parts = draft.get("parallelism.pipeline"), len(model.parts)
    # One layer kind makes few distinct stages, however many there are.
    if parts <= 3 or size * parts <= MOST_DISTINCT or size > len(model.sequence):
        return
    layout, schedule = draft.get("parallelism"), draft.get("training.schedule")
    found = len(build_stages(model, layout, schedule, 1, draft.get("model.vocab")))
    if found * parts > MOST_DISTINCT:
        said = f"{found} distinct pipeline stages of a model with {parts} kinds of layers and ends"
        allowed = f"at most {MOST_DISTINCT // parts} distinct stages"
        draft.fault("parallelism.pipeline", said, allowed)


def check_groups(draft: Draft, model: Model | None) -> None:
    """Check that groups divide: experts, replicas, the sequence."""
    layout, length = draft.get("parallelism"), draft.get("training.sequence_length")
    tensor, context, data = layout["tensor"], layout["context"], layout.get("data")
    if data is None:
        return
    expert, inner, replicas = layout["expert"], layout["expert_tensor"], layout["replicate"]
    ranks, shards = tensor * context * data, data * context
    alike, rest = divmod(ranks, expert * inner)
    if rest:
        wrong = f"expert {expert} × expert_tensor {inner} does not divide tensor × context × data"
        allowed = format_divisors(ranks // inner, 4096)
        draft.fault("parallelism.expert", f"{wrong} = {ranks} devices", allowed)
    wrong = f"{replicas} replicas do not divide"
    if shards % replicas:
        allowed = format_divisors(shards, 4096)
        draft.fault("parallelism.replicate", f"{wrong} data × context = {shards} devices", allowed)
    # Experts are sharded within a replica too (Megatron-LM: partial expert data-parallel groups).
    elif not rest and alike % replicas:
        of = "hold the same experts (tensor × context × data over expert × expert_tensor)"
        wrong = f"{wrong} the {alike} devices that {of}"
        draft.fault("parallelism.replicate", wrong, format_divisors(alike, 4096))
    if layout["sequence"] and length and length % (tensor * context):
        wrong = f"{length} tokens are not divisible by tensor {tensor} × context {context}"
        allowed = "a sequence_length that is, or sequence: false"
        draft.fault("parallelism.sequence", wrong, allowed)


def _check_patches(draft: Draft, model: Model) -> None:
    """Check a model that reads patches: no token-by-token inference, and with a context neither
    pipeline nor context parallelism."""
    if not draft.get("model.stem"):
        return
    if draft.get("training.mode") == "inference":
        wrong = "a model with a stem has no token-by-token inference"
        draft.fault("training.mode", wrong, "train")
    for key in ("pipeline", "context"):
        if draft.get("model.context") and draft.get(f"parallelism.{key}") > 1:
            wrong = f"a model with a context is not modelled with {key} parallelism"
            draft.fault(f"parallelism.{key}", wrong, "1")


#: In the order of their faults; each reads few keys of a layout.
CHECKS = (check_schedule, check_groups, _check_distinct, check_context, _check_patches)


def check_pipeline(draft: Draft, model: Model) -> None:
    """Check a layout against its schedule and model."""
    for held in CHECKS:
        held(draft, model)
