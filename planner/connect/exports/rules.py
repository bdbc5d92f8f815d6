"""How the rows of a framework's document are read: each says something of a plan in the words of
the framework, or hears of its keys.

A row is ``{KEY: option}``, or ``{KEY: {…}}`` with these:
    to          their key; alone it takes the value as it is
    words       a word for each value: a value of ``to``, or a mapping of their keys (an empty one
                where nothing needs saying), or what is ``near``, and ``why`` it differs, or
                where it is decided ``elsewhere``
    only        the one value that goes without saying
    why         why a value without a word is unsaid, or said ``elsewhere``, which hinders nothing
    near        why what is said is not quite it
    times       how many of ours are one of theirs; a rest has no word, for the reason in ``why``
    each        a word for each of the values that the key lists, of which some are there
                ``together`` or not at all; without ``to`` mappings of keys,
                and ``why`` others of these values may come with them
    otherwise   what a file means that does not say it
What is said to ``env.NAME`` is a variable of the environment. A row may stand under a condition, by
itself or with others below ``rows``: that a key, or one of some, is ``given`` and not 0, ``unless``
it is, that there are ``several`` or a ``single`` one, that of two keys the values ``differ``, or
that of the first is ``less``, ``where`` keys have one of the values named for each, or all but
those (``unlike``). Other rows name
a ``rule`` with its arguments, a ``section`` that is stated elsewhere, or what the framework
``hears`` of: keys that follow from others, change nothing in a launch configuration, or are said by
a rule; as a mapping, by the key that they stand under.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from inspect import getmembers, isfunction
from itertools import islice
from math import gcd, prod
from typing import Any

from planner.base.display import one_line
from planner.connect.exports.table import Elsewhere, ExportDraft, Nearly, Unsaid, mark_experts
from planner.plans import pipeline
from planner.plans.document import STACK
from planner.plans.layout import FOLLOWING, KERNELS, filter_keys

Row = Mapping[str, Any]


def quotient(draft: ExportDraft, to: str, of: str, by: Sequence[str]) -> dict[str, int]:
    """Divide one key of the plan, where it is given, by others, rounded up (the last step begun
    counts); 1 where these are not given.

    Args:
        draft: the configuration being made.
        to: the option that takes it.
        of: the key that is divided.
        by: the keys that divide it.
    """
    whole, sizes = draft.get(of), [draft.get(key) for key in by]
    if not whole:
        return {}
    return {to: int(-(-whole // (prod(sizes) if all(sizes) else whole)))}


# Megatron-LM -------------------------------------------------------------------------------------


def feed_forward(draft: ExportDraft, activations: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Export width and activation of the dense layers; report a gap where experts have another
    activation, or the framework has no option for it."""
    blocks = draft.list_blocks("mlp") + draft.list_blocks("moe")
    if not blocks:
        return {}
    kinds = {(b.values["gated"], b.values["activation"]) for b in blocks}
    gated, activation = sorted(kinds)[-1]
    name = f"{'gated ' * gated}{activation}"
    word = activations.get(name)
    if len(kinds) > 1:
        draft.add_gap("model.moe.activation", "experts have the activation of the dense layers")
    if word is None:
        draft.add_gap("model.mlp.activation", f"no option for {name}")
    # The width of a dense layer is asked for even where there is none.
    return {"ffn-hidden-size": blocks[0].values["intermediate"], **(word or {})}


def biases(draft: ExportDraft) -> dict[str, Any]:
    """Export which linears have biases; report a gap where they are neither all nor none."""
    bias, query, *rest = (
        draft.get(f"model.{key}")
        for key in ("bias", "attention.bias", "attention.output_bias", "mlp.bias", "moe.bias")
    )
    inner = {each for each in rest if each is not None} or {bias}
    query = bias if query is None else query
    if inner == {False}:
        return {"disable-bias-linear": True} | ({"add-qkv-bias": True} if query else {})
    if inner != {True} or not query:
        draft.add_gap("model.bias", "linears have biases all or none, but for query, key and value")
    return {}


def longest(draft: ExportDraft, to: str, of: Sequence[str]) -> dict[str, int]:
    """Take the largest of some keys of a model with a shape.

    Args:
        draft: the configuration being made.
        to: the option that takes it.
        of: the keys.
    """
    known = [value for value in map(draft.get, of) if value is not None]
    return {to: max(known)} if draft.get("model.layers") and known else {}


def layers_with_experts(draft: ExportDraft) -> dict[str, list[int]]:
    """Write for each layer 1 where it has experts, where not all do."""
    layers = [int(one) for one in mark_experts(draft)]
    return {"moe-layer-freq": layers} if any(layers) and not all(layers) else {}


def layers_on_stages(draft: ExportDraft) -> dict[str, Any]:
    """Write layers that do not divide evenly: the ends alone where that is enough, else the whole
    layout. Further-token modules stand on the last stage unless a layout says more."""
    model, further = draft.plan.model, draft.get("model.mtp") or 0
    size, chunks = draft.get("parallelism.pipeline"), draft.get("parallelism.virtual_pipeline")
    if model is None or size * chunks == 1:
        return {}
    layout, vocab = draft.plan.data["parallelism"], draft.plan.get("model.vocab")
    held = pipeline.divide_layers(model, layout, vocab)
    plain = [*held[:-1], held[-1] - further]
    if plain[-1] >= 0 and len(set(plain)) == 1:
        return {}
    if plain[-1] >= 0 and chunks == 1 and len(plain) > 2 and len(set(plain[1:-1])) == 1:
        return {
            "decoder-first-pipeline-num-layers": plain[0],
            "decoder-last-pipeline-num-layers": plain[-1],
        }
    text = pipeline.write_chunks(held, further)
    if text is None:
        draft.add_gap("parallelism.stages", "one stage holds all modules of model.mtp")
        return {}
    draft.said.pop("num-virtual-stages-per-pipeline-rank", None)  # which follow from it
    return {"pipeline-model-parallel-layout": text}


def hybrid_layers(
    draft: ExportDraft, letters: Mapping[str, str], instead_of: Sequence[str], **options: Any
) -> dict[str, Any]:
    """Write a letter for each layer where each is one block and some have states, with a sign
    between stages.

    Args:
        draft: the configuration being made.
        letters: the letter of each kind of block.
        instead_of: other options that divide layers.
        **options: what such a model has besides.
    """
    model = draft.plan.model
    parts = [part for part in model.parts if part.name in model.sequence] if model else []
    blocks = {part.name: [b.kind for b in part.blocks if b.kind != "norm"] for part in parts}
    if model is None or ["mamba"] not in blocks.values():
        return {}
    if any(len(kinds) != 1 or kinds[0] not in letters for kinds in blocks.values()):
        draft.add_gap("model.kinds", "each of its hybrid layers is one block")
        return {}
    draft.heard |= {"model.kinds", "model.pattern"}
    layout, vocab = draft.plan.data["parallelism"], draft.plan.get("model.vocab")
    each = (letters[blocks[name][0]] for name in model.sequence)
    held = pipeline.divide_layers(model, layout, vocab)
    for name in instead_of:
        draft.said.pop(name, None)
    return {"hybrid-layer-pattern": "|".join("".join(islice(each, n)) for n in held), **options}


# nanotron and torchtitan --------------------------------------------------------------------------


def head_width(draft: ExportDraft) -> None:
    """Report a gap if the width of a head times their number is not the hidden size."""
    heads, head = draft.get("model.attention.heads"), draft.get("model.attention.head_dim")
    if heads and head and heads * head != draft.get("model.hidden"):
        draft.add_gap("model.attention.head_dim", "heads divide the hidden size")


def experts_on_layers(draft: ExportDraft, to: str) -> dict[str, list[int]]:
    """List the layers that have experts; -1 stands for all."""
    has = mark_experts(draft)
    return {to: [-1] if all(has) else [index for index, one in enumerate(has) if one]}


def modules_on_stages(draft: ExportDraft) -> dict[str, Any]:
    """Write as many layers on each stage, or the modules of each by name."""
    model = draft.plan.model
    if model is None:
        return {}
    layout = draft.plan.data["parallelism"]
    held = pipeline.divide_layers(model, layout, draft.plan.get("model.vocab"))
    if draft.get("parallelism.stages") or len(set(held)) > 1:
        # The modules of each stage by name, as torchtitan's decoders call them.
        left = iter(range(sum(held)))
        modules = [[f"layers.{i}" for i in islice(left, count)] for count in held]
        modules[0].insert(0, "tok_embeddings")
        modules[-1] += ["norm", "lm_head"]
        return {"parallelism.module_fqns_per_model_part": modules}
    return {
        "parallelism.pipeline_parallel_layers_per_stage": held[0],
        "parallelism.pipeline_parallel_first_stage_less_layers": 0,
        "parallelism.pipeline_parallel_last_stage_less_layers": 0,
    }


# MaxText ------------------------------------------------------------------------------------------


def mesh(draft: ExportDraft) -> dict[str, Any]:
    """Divide devices over the axes within a node (``ici``) and across nodes (``dcn``), the
    innermost first, and find the batch of a device. Experts lie on an axis of their own beside
    data."""
    get = draft.get
    tensor, context, pipe = (get(f"parallelism.{key}") for key in ("tensor", "context", "pipeline"))
    expert, data, replicate = (get(f"parallelism.{key}") for key in ("expert", "data", "replicate"))
    devices, room = get("cluster.devices"), get("cluster.devices_per_node") or 1
    if data % expert:
        draft.add_gap("parallelism.expert", "experts divide the data-parallel group")
        return {}
    sharded = get("parallelism.zero") == 3
    copies = replicate if sharded else data // expert
    axes = {
        "tensor_sequence" if get("parallelism.sequence") else "tensor": tensor,
        "context": context,
        "expert": expert,
        "fsdp": data // expert // copies,
        "data": copies,
        "pipeline": pipe,
    }
    said: dict[str, Any] = {}
    for axis, size in axes.items():
        inner = gcd(size, room)
        room //= inner
        said |= {f"ici_{axis}_parallelism": inner, f"dcn_{axis}_parallelism": size // inner}
    steps, micro = get("training.gradient_accumulation"), get("training.micro_batch")
    layers = len(mark_experts(draft))
    if pipe > 1:  # a pipeline takes the micro-batches of a step at once
        held = pipe * get("parallelism.virtual_pipeline")
        if layers % held or steps % pipe:
            draft.add_gap("parallelism.pipeline", "stages divide layers and micro-batches evenly")
            return said
        said |= {
            "num_pipeline_microbatches": steps,
            "num_layers_per_pipeline_stage": layers // held,
        }
        micro, steps = micro * steps, 1
    share = Fraction(micro * data, devices)
    said["per_device_batch_size"] = int(share) if share.denominator == 1 else float(share)
    return {**said, "gradient_accumulation_steps": steps}


#: The rules by the names that rows write, the functions above and these; what else such a row says
#: are their arguments.
RULES: Mapping[str, Callable[..., Mapping[str, Any] | None]] = {
    **dict(getmembers(sys.modules[__name__], isfunction)),
    "named": lambda draft, to: {to: one_line(str(draft.plan.name))},
    "says": lambda draft, **options: options,
    # A quotient that files of others have, and exports say in another way.
    "read_back": lambda draft, **options: {},
    "squared": lambda draft, **options: {},  # the hidden size of a model, for "auto"
    "at_least": lambda draft, **options: {},  # of examples in a step that no key says
    # Of our window of so many tokens one is the token itself.
    "before": lambda draft, to, of: {to: (draft.get(of) - 1, 0)},
}
#: Of these, the ones that ask how large degrees are; all else asks whether they are above 1.
OF_SIZES = frozenset(("mesh",))

# Rows -------------------------------------------------------------------------------------------

#: Under which values of a key, or of several, a row or a group of rows is heard.
CONDITIONS: Mapping[str, Callable[..., object]] = {
    "given": lambda *values: any(values),
    "unless": lambda *values: not any(values),
    "several": lambda *values: any(value > 1 for value in values),
    "single": lambda value: value == 1,
    "differ": operator.ne,
    "less": lambda first, second: None not in (first, second) and first < second,
    "where": lambda *among: all(among),
    "unlike": lambda *among: not all(among),
}


def is_met(get: Callable[[str], Any], name: str, about: str | Sequence[str] | Row) -> object:
    """Check whether a condition holds.

    Args:
        get: the value of a key.
        name: the condition, one of ``CONDITIONS``.
        about: its key, its keys, or their values.
    """
    if isinstance(about, Mapping):
        return CONDITIONS[name](*(get(key) in values for key, values in about.items()))
    keys = [about] if isinstance(about, str) else about
    return CONDITIONS[name](*map(get, keys))


def is_possible(
    keys: Mapping[str, Any],
    asked: Container[str] | None,
    name: str,
    about: str | Sequence[str] | Row,
) -> bool:
    """Check whether a condition holds, or may hold as its keys have not been read yet.

    Args:
        keys: values by key.
        asked: the keys that were read so far; None if all are known.
        name: the condition, one of ``CONDITIONS``.
        about: the key or keys that it reads.
    """
    over = [about] if isinstance(about, str) else about
    if asked is not None and not all(lift_key(key) in asked for key in over):
        return True
    neutral = {"several": 1, "single": 1}.get(name)
    try:
        return bool(is_met(lambda key: keys.get(lift_key(key), neutral), name, about))
    except TypeError:  # no number, which the plan's schema will say
        return True


def lift_key(key: str) -> str:
    """Return the key of a model that a key of its layers is said by."""
    return key.replace("layer.", "model.", 1) if key.startswith("layer.") else key


def follow_rows(draft: ExportDraft, rows: Iterable[Row]) -> None:
    """Follow rows one after another."""
    for row in rows:
        key, about = next(iter(row.items()))
        if "." in key:
            _export_key(draft, key, {"to": about} if isinstance(about, str) else about)
        elif key in CONDITIONS:
            if is_met(draft.get, key, about):
                follow_rows(draft, row["rows"])
        elif key == "rule":
            options = {name: value for name, value in row.items() if name != key}
            draft.said |= RULES[about](draft, **options) or {}
        elif key == "section":
            draft.heard.add(about)
            names = (draft.plan.get(f"{about}.{key}") for key in ("name", "parameters"))
            shown = next((str(name) for name in names if name is not None), "as given")
            draft.unsaid.append(Unsaid(about, one_line(shown), _get_why(row)))
        elif isinstance(about, Mapping):
            draft.heard |= {f"{above}.{key}" for above, keys in about.items() for key in keys}
        else:
            draft.heard.update(about)


def walk_rows(rows: Iterable[Row], keys: Mapping[str, Any] | None = None) -> Iterator[Row]:
    """Yield all rows, whatever condition they stand under; with the keys of a plan that are known,
    without those whose conditions these keys, and a stack that is not among them, do not meet."""
    for row in rows:
        name, about = next(iter(row.items()))
        asked = None if keys is None or name not in CONDITIONS else {*keys, STACK}
        if asked and not is_possible(keys or {}, asked, name, about):
            continue
        yield from walk_rows(row["rows"], keys) if "rows" in row else [row]


def list_options(about: Row) -> Iterator[str]:
    """Yield the options that a row may write."""
    if "to" in about:
        yield about["to"]
    yield from (key for word in _list_mappings(about) for key in word)
    for word in about.get("words", {}).values():
        if isinstance(word, Mapping) and "elsewhere" not in word:
            yield from word.get("near", word)


def list_written(rows: Sequence[Row]) -> Iterator[str]:
    """Yield all options that rows may write."""
    for row in walk_rows(rows):
        key, about = next(iter(row.items()))
        if row.get("rule") == "says":
            yield from (name for name in row if name != "rule")
        elif "." in key:
            yield from list_options({"to": about} if isinstance(about, str) else about)
        else:
            yield from list_options(row)


def pick_inherited(rows: Iterable[Row], own: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of another framework whose subjects, or keys below them, its own rows do not
    cover."""
    about = {
        (kind, ".".join(steps[:end]))
        for row in own
        for kind, subject in _list_subjects(row)
        for steps in [subject.split(".")]
        for end in range(1, len(steps) + 1)
    }
    for row in rows:
        if "rows" in row:
            yield {**row, "rows": [*pick_inherited(row["rows"], own)]}
        elif about.isdisjoint(_list_subjects(row)):
            yield row


def _list_subjects(row: Row) -> Iterator[tuple[str, str]]:
    """Yield what a row is about: a key, or a section."""
    for inner in row.get("rows", ()):
        yield from _list_subjects(inner)
    key, said = next(iter(row.items()))
    if "." in key:
        yield "", key
    elif key == "section":
        yield key, said


def _export_key(draft: ExportDraft, key: str, row: Row) -> None:
    """Export one key of the plan; it counts as heard, whatever its row's condition."""
    value, to, words = draft.get(key), row.get("to"), row.get("words")
    if key == "training.sequence_length" and draft.get("training.padding"):
        value = draft.plan.document.get(key) or value  # what no example is longer than
    if not all(is_met(draft.get, name, row[name]) for name in CONDITIONS if name in row):
        return
    if value is None:
        return
    near = row.get("near")
    if "times" in row and isinstance(value, int):
        value, rest = divmod(value, row["times"])
        words = {} if rest else words
    if "each" in row and to:
        apart = any(0 < len({*many} & {*value}) < len(many) for many in row.get("together", ()))
        if apart or not {*value} <= row["each"].keys():
            draft.add_gap(key, _get_why(row))
            return
        value = [row["each"][one] for one in value]
    said, why = {to: value} if to else {}, (Nearly(near) if near else None) if to else _get_why(row)
    if "only" in row:
        words = {row["only"]: {}}
    if words is not None:
        word = words.get(value)
        if word is None:
            said, why = {}, _get_why(row)
        elif isinstance(word, Mapping) and "elsewhere" in word:
            said, why = {}, Elsewhere(word["elsewhere"])
        elif isinstance(word, Mapping) and "near" in word:
            said, why = word["near"], Nearly(word["why"])
        else:
            said, why = {**word} if isinstance(word, Mapping) else {to: word}, None
    if _list_mappings(row):
        said = {k: option for one in value for k, option in row["each"][one].items()}
        brings = {one for one, word in row["each"].items() if word.items() <= said.items()}
        why = None if brings == {*value} else Nearly(row["why"])
    if why is not None:
        draft.add_gap(key, why)
    draft.said |= said


def _list_mappings(row: Row) -> list[Row]:
    """List the words of each value that a key may list, where these are mappings."""
    return [word for word in row.get("each", {}).values() if isinstance(word, Mapping)]


def _get_why(row: Row) -> str:
    """Return why a row has no option: its text, or the other place where the key is set."""
    return Elsewhere(row["elsewhere"]) if "elsewhere" in row else row.get("why", "no key for it")


#: What holds of all: a configuration is of a training run, whoever makes it. Which kernels or
#: stack a plan counts with is an assumption; what follows from others is no key.
OF_ALL: tuple[Row, ...] = (
    {"training.mode": {"only": "train", "why": "the configuration is of a training run"}},
    {
        "hears": [
            KERNELS,
            "training.stack",
            "training.distributed_optimizer",
            "training.output_tokens",
            *("training.examples", "training.epochs", "training.example_tokens", "training.packed"),
            *filter_keys(FOLLOWING),
        ]
    },
)
