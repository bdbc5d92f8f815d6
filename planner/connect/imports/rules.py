"""What the rows of families.yaml compute of a configuration: values, and a label for each layer.

A rule is written as a mapping, ``{rule: argument, option: value}``; anything else is a constant.
Its function takes the configuration, the argument and the options, of which some are rules again.
What only one class does is a function that takes the configuration alone, ``{rule: name}``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import getmembers, isfunction
from math import gcd, prod
from typing import Any

from planner.base.numbers import plain_text
from planner.connect.imports.arguments import Arguments
from planner.connect.imports.config import Config
from planner.connect.imports.families import WORDS, Said, Traits
from planner.connect.imports.tidy import fold_pattern, match_experts


def run_rule(said: Said, c: Config) -> Any:
    """What a row says of a configuration."""
    if not isinstance(said, Mapping):
        return said
    (name, argument), *options = said.items()
    return RULES[name](c, argument, **dict(options))


def read_traits(traits: Traits, c: Config) -> dict[str, Any]:
    """What some keys of the document say of a configuration, those that say nothing left out."""
    found = {dotted: run_rule(said, c) for dotted, said in traits.items()}
    return {dotted: value for dotted, value in found.items() if value is not None}


def count_layers(c: Config) -> int:
    return c.need_int("num_hidden_layers")


# Values ---------------------------------------------------------------------------------------


def word(c: Config, key: str, means: Mapping[str, Any], otherwise: Said) -> Any:
    """What the word of an argument means."""
    value = str(c.get(key, run_rule(otherwise, c)))
    if value not in means:
        raise c.fault(f"{c.name(key)} is {value!r}, which is not modelled", ", ".join(means))
    return means[value]


def number_of(c: Config, term: Said) -> Any:
    """Find a number: itself, what a key holds, or what a rule finds."""
    return c.need_int(term) if isinstance(term, str) else run_rule(term, c)


def labels(c: Config) -> int:
    """Outputs of a classifier; files of the library list their names, and leave two out."""
    names = c.get("id2label")
    count = len(names) if isinstance(names, Mapping) and names else 2
    return c.read_int("num_labels") or count


def first(c: Config, keys: Sequence[str]) -> int | None:
    """The whole number of the first of those keys that is there."""
    given = [c.read_int(key) for key in keys]
    return next((value for value in given if value is not None), None)


def number(c: Config, keys: Sequence[str]) -> int | float | None:
    """The first of some numbers that describe and shape nothing, also among those of rotary
    positions; what is no number, or several, is left out."""
    inner = c.get("rope_parameters")
    held = inner if isinstance(inner, Mapping) else {}
    for said in (str(one.get(key)) for one in (c, held) for key in keys):
        if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{0,15})?(e[+-]?[0-9]{1,2})?", said):
            value = float(said)
            if 0 < value < 1e12:
                return int(value) if value.is_integer() else value
    return None


def pick_first(c: Config, rules: Sequence[Said]) -> Any:
    """The first of these that is neither absent nor 0; the last."""
    *tried, last = rules
    for rule in tried:
        value = run_rule(rule, c)
        if value:
            return value
    return run_rule(last, c)


def mamba_head_dim(c: Config, inner: Said) -> int:
    """The width of a Mamba head; `auto` is what the inner width leaves for each head."""
    if c.get("mamba_d_head") == "auto":
        return int(run_rule(inner, c)) // c.need_int("mamba_n_heads")
    return c.need_int("mamba_d_head")


def tied_head(c: Config) -> bool:
    """BERT: the library's classes hold the bias of a head twice where its matrix is not tied."""
    if c.read_flag("tie_word_embeddings") is False:
        raise c.fault(
            "a head of its own, whose bias the class holds twice, is not modelled", "tied"
        )
    return True


# Labels ---------------------------------------------------------------------------------------


def _label_layers(c: Config, holds: Callable[[int], object], are: str, others: str) -> list[str]:
    """One label for the layers (counted from 0) for which something holds, one for the others."""
    return [are if holds(i) else others for i in range(count_layers(c))]


def listed(
    c: Config, key: str, otherwise: Said, words: Mapping[str, str] | None = None
) -> Sequence[str]:
    """A list with a word for each layer, which stands for a label (without ``words``, as the words
    of that key do); where the list is absent, as the class makes it."""
    given = c.list_of(key, str)
    if given is None:
        return list(run_rule(otherwise, c))
    c.read |= _find_keys(otherwise)  # which the class then leaves aside
    known, layers = words or WORDS[key], count_layers(c)
    if len(given) < layers:
        raise c.fault(f"{c.name(key)} names {len(given)} of {layers} layers")
    for word in given:
        if word not in known:
            fault = f"{c.name(key)} holds {word!r}, which is not modelled"
            raise c.fault(fault, "one of: " + ", ".join(known))
    return [known[word] for word in given[:layers]]


def _find_keys(said: Said) -> set[str]:
    """The keys that a rule, and rules in it, may read."""
    inner = said.values() if isinstance(said, Mapping) else said if isinstance(said, list) else ()
    return {said} if isinstance(said, str) else {key for one in inner for key in _find_keys(one)}


def of_full(c: Config, key: str, otherwise: Said = None) -> Any:
    """What layers that see all tokens have, where layers state what they have otherwise."""
    given = c.get("per_layer_config")
    if given is None:
        return run_rule(otherwise, c)
    full = [
        i for i, word in enumerate(c.list_of("layer_types", str) or ()) if word.startswith("full")
    ]
    known = {"head_dim", "num_key_value_heads"}
    layers = [*given.values()] if isinstance(given, Mapping) else []
    good = layers and all(isinstance(layer, Mapping) and known >= {*layer} for layer in layers)
    if not good or sorted(map(str, full)) != sorted(str(i).lstrip("0") or "0" for i in given):
        raise c.fault(
            "per_layer_config is not modelled", "head_dim of the layers of full attention"
        )
    if any(layer != layers[0] for layer in layers):
        raise c.fault("per_layer_config differs between layers of full attention", "all alike")
    return c.read_inner("per_layer_config").read_inner(next(iter(given))).read_int(key)


def repeated(c: Config, key: str, words: Mapping[str, str]) -> list[str]:
    """A list of words that is repeated over the layers."""
    given = c.list_of(key, str) or []
    if not given or not set(given) <= set(words):
        raise c.fault(f"{key} is not modelled: {given}", "one of: " + ", ".join(words))
    return [words[given[i % len(given)]] for i in range(count_layers(c))]


def every(c: Config, step: Said, are: str, others: str, shift: Said = 1) -> list[str]:
    """Layer i is special where (i + shift) is a multiple: of a number, a key's or a rule's."""
    size = (c.read_int(step, 0) if isinstance(step, str) else run_rule(step, c)) or 0
    ahead = run_rule(shift, c)
    return _label_layers(c, lambda i: size and (i + ahead) % size == 0, are, others)


def cycle(
    c: Config, labels: Sequence[str], first: Sequence[str] = (), last: Sequence[str] = ()
) -> list[str]:
    """Repeat labels over the layers, between those of the first and those of the last ones."""
    layers = count_layers(c)
    inner = (labels[i % len(labels)] for i in range(layers))
    return [*[*first, *inner][: layers - len(last)], *last]


def period(c: Config, step: str, offset: str, are: str, others: str) -> list[str]:
    """Layer i is special where i leaves the remainder ``offset`` on division by ``step``."""
    size, rest = c.need_int(step), c.read_int(offset, 0) or 0
    return _label_layers(c, lambda i: i % size == rest, are, others)


def up_to(c: Config, count: Said, are: str, others: str, unsaid: int = 0) -> list[str]:
    """The first so many layers are of one kind, the others of another: a number, a key's or a
    rule's."""
    most = (c.read_int(count, 0, unsaid) if isinstance(count, str) else run_rule(count, c)) or 0
    return _label_layers(c, lambda i: i < most, are, others)


def at(c: Config, key: str, are: str, others: str, otherwise: Said = None) -> Sequence[str]:
    """The layers of a list of indices are special."""
    indices = c.list_of(key, int)
    if indices is None and otherwise is not None:
        return list(run_rule(otherwise, c))
    return _label_layers(c, frozenset(indices or ()).__contains__, are, others)


def marked(c: Config, key: str, are: str, others: str, otherwise: Said) -> Sequence[str]:
    """A list with a number for each layer, which is special where that is not 0; an empty or absent
    list is as the class makes it."""
    numbers = c.list_of(key, int)
    if not numbers:
        return list(run_rule(otherwise, c))
    if len(numbers) < count_layers(c):
        raise c.fault(f"{c.name(key)} names {len(numbers)} of {count_layers(c)} layers")
    return _label_layers(c, lambda i: numbers[i], are, others)


# What one class does --------------------------------------------------------------------------


def head_dim(c: Config) -> int | None:
    """As given; where the class's own heads do not divide its width, the class rounds down."""
    given = c.read_int("head_dim")
    if given is not None or {"hidden_size", "num_attention_heads"} <= set(c.given):
        return given
    hidden, heads = c.need_int("hidden_size"), c.need_int("num_attention_heads")
    return hidden // heads if hidden % heads else None


def helium_head_dim(c: Config) -> int | None:
    """Helium: the class makes its output projection as if the heads filled the hidden width."""
    width, heads, hidden = (
        c.read_int("head_dim"),
        c.need_int("num_attention_heads"),
        c.need_int("hidden_size"),
    )
    if width is not None and width * heads != hidden:
        raise c.fault(f"helium: {heads} heads of {width} are not hidden_size {hidden}")
    return width


def long_window(c: Config) -> int | None:
    """Phi-3: published long-context configurations write a window beyond the context for none."""
    window, longest = c.read_int("sliding_window"), c.read_int("max_position_embeddings")
    return None if window and longest and window >= longest else window


def mpt_positions(c: Config) -> str:
    """MPT: its attention has its own mapping; the class makes no table of positions."""
    attention = c.read_inner("attn_config")
    if attention.read_flag("qk_ln"):
        raise c.fault("mpt: attn_config.qk_ln is not modelled", "false")
    return "none" if attention.read_flag("alibi") is False else "alibi"


def falcon_shared_norm(c: Config) -> bool:
    norms = c.read_int("num_ln_in_parallel_attn", 0)
    if c.read_flag("new_decoder_architecture"):
        return norms == 1
    return bool(c.read_flag("parallel_attn"))


def lfm_width(c: Config) -> int:
    """LFM2: the width of a SwiGLU with as many weights, rounded up to a multiple."""
    width = c.read_int("block_ff_dim") or c.need_int("intermediate_size")
    if c.read_flag("block_auto_adjust_ff_dim", True):
        multiplier, step = c.number("block_ffn_dim_multiplier"), c.need_int("block_multiple_of")
        width = 2 * width // 3
        if multiplier is not None:
            width = int(multiplier * width)
        width = -(-width // step) * step
    return width


def qwen_windows(c: Config) -> list[str]:
    """With use_sliding_window, layers from max_window_layers on have the window."""
    start = c.read_int("max_window_layers", 0) or 0
    on = c.read_flag("use_sliding_window") and c.read_int("sliding_window", 0)
    return _label_layers(c, lambda i: on and i >= start, "sliding", "full")


def neo_windows(c: Config) -> list[str]:
    """GPT-Neo: attention_types [[[global, local], 12]] repeats a list so many times."""
    labels: list[str] = []
    try:
        for names, count in c.get("attention_types") or [[["global", "local"], 12]]:
            labels += list(names) * min(count, count_layers(c) + 1)
    except (TypeError, ValueError):
        raise c.fault("attention_types is malformed", "[[[global, local], 12]]") from None
    if len(labels) != count_layers(c):
        raise c.fault(f"attention_types names {len(labels)} of {count_layers(c)} layers")
    return ["sliding" if label == "local" else "full" for label in labels]


def exaone_windows(c: Config) -> list[str]:
    """Every so many layers one has full attention, or as letters say, LLLG; null or 0: all."""
    if c.get("sliding_window") is None:
        return ["full"] * count_layers(c)
    pattern = c.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        return _label_layers(c, lambda i: pattern[i % len(pattern)] == "G", "full", "sliding")
    return every(c, "sliding_window_pattern", "full", "sliding")


def indexers(c: Config) -> Sequence[str]:
    """GLM-5: layers that reuse the keys that an earlier layer's indexer picked have none."""
    pattern = c.get("index_topk_pattern")
    if isinstance(pattern, str):
        return ["full" if letter == "F" else "shared" for letter in pattern]
    step, skip = c.read_int("index_topk_freq", 0) or 1, c.read_int("index_skip_topk_offset", 0)
    start = 1 if skip is None else skip - 1
    return _label_layers(c, lambda i: max(i - start, 0) % step == 0, "full", "shared")


def v4_layers(c: Config) -> list[str]:
    """DeepSeek-V4: as the ratios of checkpoints say; as the class has them, two with many tokens to
    a key, then many and few in turn."""
    ratios, words = c.list_of("compress_ratios", int), {0: "sliding", 4: "few", 128: "many"}
    if ratios is None:
        return _label_layers(c, lambda i: i < 2 or i % 2 == 0, "many", "few")
    if len(ratios) < count_layers(c) or not set(ratios) <= words.keys():
        raise c.fault(f"compress_ratios is {str(ratios)[:60]}", "0, 4 or 128 for each layer")
    return [words[ratio] for ratio in ratios[: count_layers(c)]]


def m3_layers(c: Config) -> list[str]:
    """MiniMax-M3: which layers have an indexer; a mapping of checkpoints says 1 for these."""
    marks = c.read_inner("sparse_attention_config").list_of("sparse_attention_freq", int)
    if marks and len(marks) < count_layers(c):
        raise c.fault(f"sparse_attention_freq names {len(marks)} of {count_layers(c)} layers")
    return _label_layers(c, lambda i: marks and marks[i], "indexed", "full")


def qwen_experts(c: Config) -> list[str]:
    """Every decoder_sparse_step-th layer, unless listed in mlp_only_layers."""
    step, dense = c.read_int("decoder_sparse_step", 0) or 1, c.list_of("mlp_only_layers", int) or []
    count = c.read_int("num_experts", 0) or 0
    return _label_layers(
        c, lambda i: count > 0 and (i + 1) % step == 0 and i not in dense, "sparse", "dense"
    )


def ernie_experts(c: Config) -> list[str]:
    start, end = c.read_int("moe_layer_start_index", 0) or 0, c.get("moe_layer_end_index")
    step = c.read_int("moe_layer_interval") or 1
    last = count_layers(c) - 1 if end in (None, -1) else c.need_int("moe_layer_end_index")
    return _label_layers(c, lambda i: (i + 1) % step == 0 and start <= i <= last, "sparse", "dense")


def kimi_layers(c: Config) -> list[str]:
    said = c.read_inner("linear_attn_config")
    full = said.list_of("full_attn_layers", int)
    said.list_of("kda_layers", int)
    if said.read_flag("use_full_rank_gate"):
        raise c.fault("use_full_rank_gate is not modelled", "false")
    if full is not None:  # counted from 1
        return _label_layers(c, lambda i: i + 1 in full, "full", "linear")
    return _label_layers(c, lambda i: i and i % 4 == 0, "full", "linear")


def uniform(c: Config, key: str, otherwise: Said = None) -> Any:
    """A number, or a list with the same number for each layer."""
    value = c.get(key)
    if isinstance(value, list):
        numbers = c.list_of(key, int) or []
        if len(set(numbers)) != 1:
            raise c.fault(f"{c.name(key)} differs from layer to layer, which is not modelled")
        return Config({"model_type": c.type, key: numbers[0]}, {}, {}, c.place).need_int(key)
    return c.read_int(key) if value is not None else run_rule(otherwise, c)


def zamba_layers(c: Config) -> list[str]:
    """Zamba: so many hybrid layers hold a block, and those behind them apply these in turn."""
    words, left = zamba_words(c), c.read_int("num_mem_blocks") or 1
    labels = []
    for word in words:
        labels.append("linear" if word != "hybrid" else "hybrid" if left > 0 else "again")
        left -= word == "hybrid"
    return labels


def zamba_words(c: Config) -> Sequence[str]:
    """A word for each layer, as given or as the class makes it."""
    if c.type == "zamba":
        size, rest = c.need_int("attn_layer_period"), c.read_int("attn_layer_offset", 0) or 0
        hybrid = {2, *(i for i in range(3, count_layers(c)) if (i - 3) % size == rest)}
    else:
        hybrid = {6, 12, 18, 24, 30, 36, 42, 47, 51}
    if c.get("layer_types") is not None:
        c.read |= {"attn_layer_period", "attn_layer_offset"}
        return listed(c, "layer_types", {"all": "linear"}, {**WORDS["layers_block_type"]})
    if c.type == "zamba2" and count_layers(c) != 54:
        raise c.fault(f"num_hidden_layers is {count_layers(c)}, where the class means 54 layers")
    return _label_layers(c, hybrid.__contains__, "hybrid", "linear")


def olmo_hybrid_layers(c: Config) -> list[str]:
    labels = every(c, 4, "full", "linear")
    return labels if "full" in labels else [*labels[:-1], "full"]


def nemotron_layers(c: Config) -> Sequence[str]:
    """Nemotron-H: each layer is one block, named by a letter or a word."""
    letters = c.read_word("hybrid_override_pattern")
    given = letters or c.list_of("layers_block_type", str) or c.list_of("layer_types", str)
    given = given or ["linear_attention", "moe", "full_attention", "mlp"]
    known = WORDS["layers_block_type" if letters is None else "hybrid_override_pattern"]
    unknown = [word for word in given if word not in known]
    if unknown and letters is None:
        raise c.fault(f"layers_block_type holds {unknown[0]!r}, which is not modelled")
    if unknown:
        allowed = "the letters M (Mamba), * (attention), - (MLP) and E (experts)"
        raise c.fault(f"hybrid_override_pattern is {letters!r}", allowed)
    layers = c.read_int("num_hidden_layers")
    if layers is not None and layers != len(given):
        raise c.fault(f"num_hidden_layers is {layers}, but {len(given)} layers are named")
    return [known[word] for word in given]


def nemotron_latent(c: Config) -> int | None:
    width = c.read_int("moe_latent_size")
    if width and c.read_flag("mlp_bias"):
        raise c.fault("moe_latent_size with mlp_bias is not modelled", "one of them")
    return width


def less(c: Config, keys: Sequence[str]) -> int:
    """What one key holds, less what another does."""
    whole, part = c.need_int(keys[0]), c.read_int(keys[1], 0) or 0
    if part > whole:
        raise c.fault(f"{c.name(keys[1])} is {part}", f"at most {whole}")
    return whole - part


# Arguments of Megatron-LM -----------------------------------------------------------------------


def megatron_vocabulary(c: Config) -> int:
    """The vocabulary without padding, which belongs to the layout (parallelism.vocab_multiple)."""
    padded = c.read_int("padded-vocab-size")
    c.read_int("make-vocab-size-divisible-by")
    return c.need_int("vocab-size") if c.read_int("vocab-size") or padded is None else padded


def megatron_window(c: Config) -> int | None:
    """Tokens before a token and the token itself; -1 is no window."""
    text = c.get("window-size")
    if text is None:
        return None
    before = re.fullmatch(r"[(\[]?([0-9]{1,9}), *0[)\]]?", str(text))
    if before is None:
        raise c.fault(f"{c.name('window-size')} is {text}", "(tokens before a token,0)")
    return int(before[1]) + 1


def megatron_biases(c: Config) -> bool:
    """Whether linears have biases."""
    biased = not c.read_flag("disable-bias-linear")
    if biased and c.read_flag("multi-latent-attention"):
        raise c.fault("latent attention with biases is not modelled", "--disable-bias-linear")
    return biased


def megatron_experts(c: Config) -> dict[str, int]:
    """Which layers have experts. `2`: every second one from the first on; `([0]*3+[1]*58)`:
    spelled out."""
    layers, given = c.need_int("num-layers"), c.get("moe-layer-freq", "1")
    name = c.name("moe-layer-freq")
    text = str(given).replace(" ", "").strip("()")
    if re.fullmatch("0*[1-9][0-9]{0,8}", text):
        pattern = [int(i % int(text) == 0) for i in range(layers)]
    else:
        pattern = []
        for term in text.split("+"):
            match = re.fullmatch(r"\(?\[([01](?:,[01])*)\](?:\*([0-9]{1,5}))?\)?", term)
            if match is None:
                raise c.fault(f"{name} is {text!r}", "2, or ([0]*3+[1]*58)")
            pattern += [int(digit) for digit in match[1].split(",")] * int(match[2] or 1)
    if len(pattern) != layers:
        raise c.fault(f"{name} names {len(pattern)} of {layers} layers")
    if 1 not in pattern:
        raise c.fault(f"{name} has no layer with experts")
    rule = match_experts(["sparse" if sparse else "dense" for sparse in pattern])
    if rule is None:
        raise c.fault(f"{name} {text!r} is not periodic", "a period")
    return rule


# Arguments of EleutherAI's scripts ---------------------------------------------------------------


def eleuther_heads(c: Arguments) -> int:
    """As given or taken by the script; two of the three know none, as no count depends on them."""
    return c.read_int("num-attention-heads") or gcd(64, c.need_int("hidden-size"))


def eleuther_kv_heads(c: Arguments) -> int:
    """The share of the heads that have keys and values of their own."""
    ratio, heads = c.read_share("kv-size-ratio") or 1, eleuther_heads(c)
    if (ratio * heads).denominator != 1:
        said = c.get("kv-size-ratio")
        fault = f"--kv-size-ratio is {said}: {plain_text(float(ratio * heads), 6)} of {heads} heads"
        raise c.fault(fault, f"a whole number of heads, as {plain_text(1 / heads, 6)}")
    return int(ratio * heads)


def eleuther_width(c: Arguments) -> int:
    """The width of a feed-forward block, as a multiple of the hidden width."""
    hidden, given = c.need_int("hidden-size"), c.read_int("ffn-hidden-size")
    width = (c.read_share("ffn-expansion-factor") or 4) * hidden
    if width.denominator != 1:
        said = c.get("ffn-expansion-factor")
        raise c.fault(
            f"--ffn-expansion-factor is {said}: {plain_text(float(width), 6)} wide", "a whole width"
        )
    return given or int(width)


def eleuther_interval(c: Arguments) -> int:
    """One layer of so many has experts; a script stops where they do not divide the layers."""
    layers, step = c.need_int("num-layers"), c.read_int("expert-interval") or 1
    if layers % step:
        allowed = f"a divisor of {layers} layers"
        raise c.fault(f"--expert-interval is {step}, which does not divide the layers", allowed)
    return step


def eleuther_batch(c: Arguments) -> int:
    """Sequences of one step: as given, or one micro-batch on each replica."""
    shares = (c.read_int(f"{key}-parallel-size") or 1 for key in ("tensor", "pipeline"))
    replicas = max(1, (c.read_int("num-gpus") or 1) // prod(shares))
    return c.read_int("batch-size") or replicas * (c.read_int("batch-size-per-gpu") or 1)


def eleuther_tokens(c: Arguments) -> int | None:
    tokens = c.read_share("tokens")
    if tokens is not None and tokens.denominator != 1:
        raise c.fault(f"--tokens is {c.get('tokens')}", "a whole number")
    return None if tokens is None else int(tokens)


def eleuther_recompute(c: Arguments) -> str | None:
    """What is counted as recomputed: by the script of memory, the scores of attention where asked;
    by the script of FLOPs, whole layers unless told not to."""
    if "tokens" in c.defaults:
        return (
            "none" if c.read_flag("no-checkpoint-activations") or c.read_flag("infer") else "full"
        )
    return "selective" if c.read_flag("checkpoint-activations") else "none"


def eleuther_live(c: Arguments) -> int | None:
    """Parameters that ZeRO-3 keeps gathered, on more than one device."""
    given = c.read_int("zero3-max-live-params", 0, 10**9)
    return given if c.read_int("zero-stage", 0) == 3 and c.need_int("num-gpus") > 1 else None


def eleuther_other(c: Arguments) -> str | None:
    """What the script adds for everything that it does not know."""
    given = c.read_int("misc-mem-gib", 0)
    return f"{given} GiB" if given else None


# Towers -----------------------------------------------------------------------------------------


def matrices(c: Config, listed: Sequence[Traits]) -> list[dict[str, Any]]:
    """Matrices one behind another, each with its keys; what is 1 or false is left unsaid."""
    return [
        {key: value for key, value in read_traits(one, c).items() if value not in (False, "none")}
        for one in listed
    ]


def read_sides(c: Config, key: str) -> list[int]:
    """The height and the width that a key holds, as one number or as two."""
    if isinstance(c.get(key), (list, tuple)):
        both = c.list_of(key, int) or []
        if len(both) != 2 or min(both) < 1:
            raise c.fault(f"{c.name(key)} is {both}", "a height and a width")
        return both
    return [c.need_int(key)] * 2


def patches(c: Config, image: int | None = None) -> int:
    """Patches of an image, of the size that the configuration states or of a square one."""
    whole = [image, image] if image else read_sides(c, "image_size")
    return prod(
        size // patch for size, patch in zip(whole, read_sides(c, "patch_size"), strict=True)
    )


def patch_values(c: Config) -> int:
    """Values of a patch: pixels of all colours, of several frames where frames are joined."""
    colours = c.read_int("num_channels") or c.read_int("in_channels") or 3
    return colours * (c.read_int("temporal_patch_size") or 1) * prod(read_sides(c, "patch_size"))


# Diffusion --------------------------------------------------------------------------------------


def volume(c: Config) -> int:
    """Values of a patch for each channel: of two sides, or of frames, height and width."""
    if not isinstance(c.get("patch_size"), (list, tuple)):
        return c.need_int("patch_size") ** 2
    sizes = c.list_of("patch_size", int) or []
    if len(sizes) != 3 or min(sizes) < 1:
        raise c.fault(f"patch_size is {sizes}", "frames, height and width")
    return prod(sizes)


def sample_patches(c: Config) -> int:
    """Patches of the square that the class is made for."""
    patches = (c.need_int("sample_size") // c.need_int("patch_size")) ** 2
    if not patches:
        raise c.fault(f"sample_size is {c.need_int('sample_size')}", "at least patch_size")
    return patches


def more_conditions(c: Config) -> bool:
    """PixArt: resolution and ratio are conditions too, unsaid of models for 1024 x 1024 pixels."""
    said = c.read_flag("use_additional_conditions")
    return c.need_int("sample_size") == 128 if said is None else said


def sd3_layers(c: Config) -> dict[str, Any]:
    """Layer kinds and pattern: some layers attend to the image once more by itself, the last one
    hands no text on."""
    twice, layers = set(c.list_of("dual_attention_layers", int) or ()), c.need_int("num_layers")
    named = ["dual" if i in twice else "double" for i in range(min(layers, 10_000))]
    named[-1] += "-last"
    kinds: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(named):
        dual = name.startswith("dual")
        kinds[name] = {"streams": "double", "modulation": 9 if dual else 6, "context_modulation": 6}
        if dual:
            kinds[name]["mixer"] = ["attention", "attention"]
        if name.endswith("last"):
            kinds[name] |= {"streams": "last", "context_modulation": 2}
    return {"kinds": kinds, "pattern": fold_pattern(named)}


def flux_layers(c: Config) -> dict[str, Any]:
    """Layer kinds and pattern: of two streams first, then of both as one, whose attention and
    feed-forward stand side by side and share the bias of their outputs."""
    single = {"streams": "joint", "modulation": 3, "parallel": True, "shared_norm": True}
    kinds = {
        "double": {"streams": "double", "modulation": 6},
        "single": {**single, "attention": {"output_bias": False}},
    }
    keys = {"double": "num_layers", "single": "num_single_layers"}
    counts = {kind: c.need_int(key, 0) for kind, key in keys.items() if c.need_int(key, 0)}
    pattern = [{"kind": kind, "count": count} for kind, count in counts.items()]
    return {"kinds": {kind: kinds[kind] for kind in counts}, "pattern": pattern}


def features(c: Config) -> int:
    """The width of what a projector reads: that of one layer, or of several side by side."""
    layers = c.get("wrapper.vision_feature_layer")
    c.get("wrapper.vision_feature_select_strategy")
    return c.need_int("hidden_size") * (len(layers) if isinstance(layers, list) else 1)


def gemma_merge(c: Config) -> int:
    """Gemma 3: patches are averaged until so many tokens are left, as many either way."""
    side = read_sides(c, "image_size")[0] // read_sides(c, "patch_size")[0]
    left = int(c.need_int("wrapper.mm_tokens_per_image") ** 0.5)
    if side < left or side % left:
        raise c.fault(f"{side} patches a side do not divide into {left} tokens")
    return (side // left) ** 2


def shuffled(c: Config) -> int:
    """Tokens that a pixel shuffle puts side by side."""
    ratio = c.number("wrapper.downsample_ratio") or c.number("pixel_shuffle_ratio") or 0.5
    return int(1 / ratio) ** 2


def deepstack(c: Config) -> list[dict[str, Any]]:
    """Qwen3-VL: a merger, and one more for each layer whose output is handed on too."""
    hidden, out = c.need_int("hidden_size"), c.need_int("out_hidden_size")
    wide = c.need_int("spatial_merge_size") ** 2 * hidden
    many = len(c.list_of("deepstack_visual_indexes", int) or ())
    made = []
    for width, copies in ((hidden, 1), (wide, many)):
        first = {"inputs": wide, "outputs": wide, "norm": "layernorm", "norm_width": width}
        last = {"inputs": wide, "outputs": out}
        more = {"bias": True, **({"copies": copies} if copies > 1 else {})}
        made += [{**one, **more} for one in (first, last) if copies]
    return made


def label_qwen_tower(c: Config) -> list[str]:
    """Qwen2.5-VL: which layers of its tower see all patches, and which a window."""
    full = c.list_of("fullatt_block_indexes", int) or []
    return ["full" if i in full else "window" for i in range(c.need_int("depth"))]


def qwen_tower_kinds(c: Config) -> dict[str, Any] | None:
    """Its windows are squares of so many pixels, in whole merged tokens."""
    merge, patch = c.need_int("spatial_merge_size"), c.need_int("patch_size")
    side = c.need_int("window_size") // merge // patch
    if side < 1:
        raise c.fault(f"a window of {c.need_int('window_size')} pixels has no patch")
    window = {"attention": {"window": (side * merge) ** 2}}
    kinds = {"window": window, "full": {}}
    return {kind: kinds[kind] for kind in dict.fromkeys(label_qwen_tower(c))}


def internvl_final(c: Config) -> bool:
    """It ends with a LayerNorm, whatever its norms are, unless its tokens are averaged."""
    if c.read_flag("use_mean_pooling"):
        return False
    if c.read_word("norm_type") != "layer_norm":
        raise c.fault("use_mean_pooling false is not modelled beside norm_type rms_norm", "true")
    return True


#: The rules by the names that rows write, each with its argument and options: the functions above,
#: and these.
RULES: dict[str, Callable[..., Any]] = {
    **dict(getmembers(sys.modules[__name__], isfunction)),
    # What a key holds.
    "need": lambda c, key, least=1: c.need_int(key, least),
    "whole": lambda c, key, least=1, otherwise=None: c.read_int(key, least, otherwise),
    "text": lambda c, key: c.read_word(key),
    "flag": lambda c, key, otherwise=None: c.read_flag(key, run_rule(otherwise, c)),
    # Of numbers, each itself, what a key holds or what a rule finds: sum, product, whole times that
    # one goes into another; of a height and a width the product.
    "sum": lambda c, terms: sum(number_of(c, term) for term in terms),
    "times": lambda c, terms: prod(number_of(c, term) for term in terms),
    "quotient": lambda c, terms: number_of(c, terms[0]) // number_of(c, terms[1]),
    "area": lambda c, key: prod(read_sides(c, key)),
    "unless_auto": lambda c, key: None if c.get(key) == "auto" else c.read_int(key),
    # Whether keys hold the same number, a key says a word, one of some flags is set, or there are
    # several of something.
    "same": lambda c, keys: len({c.read_int(key) for key in keys}) == 1,
    "says": lambda c, key, word: c.read_word(key) == word,
    "any": lambda c, keys: any(c.read_flag(key) for key in keys),
    "several": lambda c, key: c.need_int(key) > 1,
    # One thing where a condition is met, else another; the first of several; of the mapping that a
    # key holds; of several that a rule finds.
    "if": lambda c, condition, then, otherwise=None: run_rule(
        then if run_rule(condition, c) else otherwise, c
    ),
    "or": pick_first,
    "inside": lambda c, key, of: run_rule(of, c.read_inner(key)),
    "part": lambda c, name, of: run_rule(of, c).get(name),
    # A label for each layer.
    "all": lambda c, label: [label] * count_layers(c),
    # 1 for the layers that have a label, 0 for the others; the places of the former; other words.
    "marks": lambda c, label, of: [int(one == label) for one in run_rule(of, c)],
    "places": lambda c, label, of: [i for i, one in enumerate(run_rule(of, c)) if one == label],
    "called": lambda c, words, of: [words[one] for one in run_rule(of, c)],
    # What one class does.
    "rule": lambda c, name: RULES[name](c),
    "longcat_halves": lambda c: ["shortcut", "dense"] * c.need_int("num_layers"),
    "mlp_of_ratio": lambda c: int(c.need_int("embed_dim") * (c.number("mlp_ratio") or 4)),
    "qwen_tower_pattern": lambda c: fold_pattern(label_qwen_tower(c)),
    "mamba1_inner": lambda c: int((c.number("expand") or 2) * c.need_int("hidden_size")),
    # Behind a gate as many weights as without it, in multiples of 64.
    "megatron_gated_width": lambda c: int(4 * c.need_int("hidden-size") * 2 / 3 / 64) * 64,
    "nemotron_depth": lambda c: len(nemotron_layers(c)),
    "t5_activation": lambda c: (c.read_word("feed_forward_proj") or "relu").removeprefix("gated-"),
    "t5_gated": lambda c: (c.read_word("feed_forward_proj") or "").startswith("gated"),
    "tied_unless_said": lambda c: c.read_flag("tie_word_embeddings") is not False,
}
