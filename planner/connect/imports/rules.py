"""What the rows of families.yaml compute of a configuration: values, and a label for each layer.

A rule is written as a mapping, ``{rule: argument, option: value}``; anything else is a constant.
Its function takes the configuration, the argument and the options, of which some are rules again.
What only one class does is a function that takes the configuration alone, ``{rule: name}``.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import getmembers, isfunction
from math import gcd, inf, prod
from typing import Any

from planner.base import numbers
from planner.connect.imports.arguments import Arguments
from planner.connect.imports.config import Config
from planner.connect.imports.families import TOKENIZERS, WORDS, Said, Traits
from planner.connect.imports.tidy import fold_pattern, match_experts
from planner.documents.source import expand_keys

#: No model has more.
MOST_LAYERS = 100_000


def run_rule(said: Said, c: Config) -> Any:
    """Evaluate what a row says of a configuration."""
    if not isinstance(said, Mapping):
        return said
    (name, argument), *options = said.items()
    return RULES[name](c, argument, **dict(options))


def read_traits(traits: Traits, c: Config) -> dict[str, Any]:
    """Evaluate some keys of the document for a configuration, those without a value left out."""
    found = {dotted: run_rule(said, c) for dotted, said in traits.items()}
    return {dotted: value for dotted, value in found.items() if value is not None}


def trace_traits(traits: Traits, c: Config) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Read traits one by one, and note which keys of the configuration gave each.

    Args:
        traits: rules by the dotted keys of the document.
        c: the configuration; what it noted before is forgotten.

    Returns:
        The values of ``read_traits``, and for dotted keys the names of the given keys, sorted.
    """
    document, came_from = dict[str, Any](), dict[str, tuple[str, ...]]()
    for dotted, trait in traits.items():
        c.noted.clear()
        document |= read_traits({dotted: trait}, c)
        if c.noted:
            came_from[dotted] = tuple(c.name(key) for key in sorted(c.noted))
    return document, came_from


def check_values(
    c: Config, refused: Mapping[str, Sequence[Said]], kind: str, derive: bool = False
) -> None:
    """Refuse values that would change the architecture in a way that is not modelled.

    Args:
        c: the configuration.
        refused: by key the values, or rules that find them, that are modelled.
        kind: what faults call the configuration.
        derive: whether rules are followed for keys that are not given, too.

    Raises:
        PlanError: a key has another value.
    """
    for key, allowed in refused.items():
        value = c.get(key)
        known = [run_rule(one, c) for one in allowed] if derive or key in c.given else allowed
        if value not in known:
            fault = f"{kind}: {c.name(key)} {value!r} is not modelled"
            raise c.fault(fault, "one of: " + ", ".join(map(str, known)))


def kinds(c: Config, meaning: Mapping[str, Traits], of: Said) -> dict[str, Any]:
    """Build the layer kinds that a rule for labels names, in its order.

    Args:
        c: the configuration.
        meaning: the traits of each label, all of which are read.
        of: the rule.
    """
    known = {label: expand_keys(read_traits(one, c)) for label, one in meaning.items()}
    return {label: known[label] for label in dict.fromkeys(run_rule(of, c))}


def count_layers(c: Config) -> int:
    """Return the number of layers."""
    return check_depth(c, c.need_int("num_hidden_layers"))


def check_depth(c: Config, layers: int) -> int:
    """Return a number of layers, of which none has too many."""
    if layers > MOST_LAYERS:
        raise c.fault(f"{layers} layers", f"at most {numbers.text(MOST_LAYERS)}")
    return layers


# Values ---------------------------------------------------------------------------------------


def word(c: Config, key: str, means: Mapping[str, Any], otherwise: Said) -> Any:
    """Translate the word of a key.

    Args:
        c: the configuration.
        key: the key.
        means: what each word means.
        otherwise: a rule for the word of an absent key.

    Raises:
        PlanError: a word that has no meaning here.
    """
    value = str(c.get(key, run_rule(otherwise, c)))
    if value not in means:
        raise c.fault(f"{c.name(key)} is {value!r}, which is not modelled", ", ".join(means))
    return means[value]


def number_of(c: Config, term: Said, needed: bool = True) -> Any:
    """Find a number.

    Args:
        c: the configuration.
        term: a key, or a rule, which may be the number itself.
        needed: whether a key must have a value.

    Returns:
        The number; None where a key that is not needed has none.
    """
    if isinstance(term, str):
        return c.need_int(term) if needed else c.read_int(term)
    return run_rule(term, c)


def refuse(c: Config, condition: Said, fault: str, then: Said, allowed: str = "") -> Any:
    """Return a value unless a condition is met, which is a fault of the configuration.

    Args:
        c: the configuration.
        condition: the rule of the condition.
        fault: the message; keys in braces stand for their values.
        then: the rule of the value.
        allowed: what would be allowed.
    """
    if run_rule(condition, c):
        raise c.fault(_fill_keys(c, fault), _fill_keys(c, allowed) or None)
    return run_rule(then, c)


def _fill_keys(c: Config, text: str) -> str:
    """Replace keys in braces by their values."""
    return re.sub(r"{([\w-]+)}", lambda key: str(c.get(key[1])), text)


def labels(c: Config) -> int:
    """Count the outputs of a classifier; the library writes no names where there are two."""
    names = c.get("id2label")
    count = len(names) if isinstance(names, Mapping) and names else 2
    return c.read_int("num_labels") or count


def first(c: Config, keys: Sequence[str]) -> int | None:
    """Read the whole number of the first of those keys that is there."""
    given = [c.read_int(key) for key in keys]
    return next((value for value in given if value is not None), None)


def number(c: Config, keys: Sequence[str]) -> int | float | None:
    """Find the first of some numbers that describe and shape nothing, also among those of rotary
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
    """Return the first of these that is neither absent nor 0; else the last."""
    *tried, last = rules
    for rule in tried:
        value = run_rule(rule, c)
        if value:
            return value
    return run_rule(last, c)


# Labels ---------------------------------------------------------------------------------------


def _label_layers(c: Config, holds: Callable[[int], object], are: str, others: str) -> list[str]:
    """Label each layer by whether something holds for it.

    Args:
        c: the configuration, whose number of layers is read.
        holds: called with the index of a layer, counted from 0.
        are, others: the label where it holds, and where not.
    """
    return [are if holds(i) else others for i in range(count_layers(c))]


def label_list(
    c: Config,
    key: str,
    otherwise: Said = None,
    words: Mapping[str, str] | None = None,
    **form: bool,
) -> Sequence[str]:
    """Translate a list with a word or a number for each layer to labels.

    Args:
        c: the configuration.
        key: the list.
        otherwise: the labels where it is absent, as the class makes it.
        words: labels by word; those of ``WORDS`` for the key unless given.
        **form: whether a ``text`` holds a letter for each layer, where it is one; whether the list
            ``repeats``.
    """
    known, layers = words or WORDS[key], count_layers(c)
    text = form.get("text", False)
    given = c.get(key) if text else c.list_of(key, type(next(iter(known))))
    absent = not given or not isinstance(given, str) if text else given is None
    if absent and otherwise is not None:
        return list(run_rule(otherwise, c))
    c.read |= _find_keys(otherwise)  # which the class then leaves aside
    named, least = given or (), 1 if form.get("repeats") else layers
    if len(named) < least:
        raise c.fault(f"{c.name(key)} names {len(named)} of {layers} layers")
    for word in named:
        if word not in known:
            fault = f"{c.name(key)} holds {word!r}, which is not modelled"
            raise c.fault(fault, "one of: " + ", ".join(map(str, known)))
    return [known[named[i % len(named)]] for i in range(layers)]


def _find_keys(said: Said) -> set[str]:
    """Find the keys that a rule, and rules in it, may read."""
    inner = said.values() if isinstance(said, Mapping) else said if isinstance(said, list) else ()
    return {said} if isinstance(said, str) else {key for one in inner for key in _find_keys(one)}


def of_full(c: Config, key: str, otherwise: Said = None) -> Any:
    """Read a key of the layers with full attention from ``per_layer_config``, where layers have
    values of their own.

    Args:
        c: the configuration.
        key: the key, head_dim or num_key_value_heads.
        otherwise: a rule for a configuration without ``per_layer_config``.

    Raises:
        PlanError: it has other keys or other layers, or differs between layers.
    """
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


def every(c: Config, step: Said, are: str, others: str, shift: Said = 1) -> list[str]:
    """Label each layer i for which (i + ``shift``) is a multiple of ``step``.

    Args:
        c: the configuration.
        step: a key, or a rule for the number; 0 or absent labels none.
        are: their label.
        others: the label of the other layers.
        shift: a rule for the number added to indices from 0.
    """
    size = (c.read_int(step, 0) if isinstance(step, str) else run_rule(step, c)) or 0
    ahead = run_rule(shift, c)
    return _label_layers(c, lambda i: size and (i + ahead) % size == 0, are, others)


def cycle(
    c: Config, labels: Sequence[str], first: Sequence[str] = (), last: Sequence[str] = ()
) -> list[str]:
    """Repeat labels over the layers.

    Args:
        c: the configuration.
        labels: the labels to repeat, from the first layer behind ``first``.
        first, last: labels of the first and of the last layers.
    """
    layers = count_layers(c)
    inner = (labels[i % len(labels)] for i in range(layers))
    return [*[*first, *inner][: layers - len(last)], *last]


def period(c: Config, step: str, offset: str, are: str, others: str, begin: int = 0) -> list[str]:
    """Label one layer in each group of ``step`` layers.

    Args:
        c: the configuration.
        step: the key of the size of a group.
        offset: the key of the layer's index in its group; 0 where it is absent.
        are: their label.
        others: the label of the other layers.
        begin: the index of the first layer of the first group.
    """
    size, rest = c.need_int(step), c.read_int(offset, 0) or 0
    return _label_layers(c, lambda i: i >= begin and (i - begin) % size == rest, are, others)


def up_to(c: Config, count: Said, are: str, others: str, unsaid: int = 0) -> list[str]:
    """Label the first so many layers.

    Args:
        c: the configuration.
        count: a number, a key's or a rule's.
        are: their label.
        others: the label of the other layers.
        unsaid: the number of an absent key.
    """
    most = (c.read_int(count, 0, unsaid) if isinstance(count, str) else run_rule(count, c)) or 0
    return _label_layers(c, lambda i: i < most, are, others)


def at(
    c: Config, key: str | list[int], are: str, others: str, otherwise: Said = None, **where: Any
) -> Sequence[str]:
    """Label the layers of a list of indices.

    Args:
        c: the configuration.
        key: the list, or its key.
        are: their label.
        others: the label of the other layers.
        otherwise: the labels of an absent list.
        **where: ``inside`` which key's mapping; at which number indices ``begin`` (0).
    """
    indices = (
        key if isinstance(key, list) else _read_inside(c, where.get("inside")).list_of(key, int)
    )
    if indices is None and otherwise is not None:
        return list(run_rule(otherwise, c))
    special = {index - where.get("begin", 0) for index in indices or ()}
    return _label_layers(c, special.__contains__, are, others)


def _read_inside(c: Config, key: str | None) -> Config:
    """Read the mapping that a key holds; without a key the configuration itself."""
    return c.read_inner(key) if key else c


def meet(c: Config, rules: Sequence[Said], are: str, others: str) -> list[str]:
    """Label the layers to which several rules all give one label.

    Args:
        c: the configuration.
        rules: rules that label each layer.
        are: the label that all must give, and that these layers get.
        others: the label of the other layers.
    """
    found = [run_rule(one, c) for one in rules]
    return _label_layers(c, lambda i: all(labels[i] == are for labels in found), are, others)


def label_reuse(c: Config, label: str, of: Said, after: Said, then: str) -> list[str]:
    """Relabel the layers that use the blocks of earlier layers again.

    Args:
        c: the configuration.
        label: the label that repeats.
        of: a rule that labels each layer.
        after: a rule for the number of layers with this label that have blocks of their own.
        then: the new label of those behind them.
    """
    left, found = run_rule(after, c), []
    for one in run_rule(of, c):
        found.append(then if one == label and left <= 0 else one)
        left -= one == label
    return found


def label_marks(
    c: Config, key: str, are: str, others: str, otherwise: Said, inside: str | None = None
) -> Sequence[str]:
    """Label the layers whose number in a list is not 0.

    Args:
        c: the configuration.
        key: the key of the list, a number for each layer.
        are: their label.
        others: the label of the other layers.
        otherwise: a rule for the labels where the list is empty or absent.
        inside: the key of the mapping that has the list; None for the configuration itself.

    Raises:
        PlanError: the list has fewer numbers than there are layers.
    """
    numbers = _read_inside(c, inside).list_of(key, int)
    if not numbers:
        return list(run_rule(otherwise, c))
    if len(numbers) < count_layers(c):
        raise c.fault(f"{c.name(key)} names {len(numbers)} of {count_layers(c)} layers")
    return _label_layers(c, lambda i: numbers[i], are, others)


# What one class does --------------------------------------------------------------------------


def head_dim(c: Config) -> int | None:
    """Read the width of a head; where heads do not divide the width, round down as the class
    does."""
    given = c.read_int("head_dim")
    if given is not None or {"hidden_size", "num_attention_heads"} <= set(c.given):
        return given
    hidden, heads = c.need_int("hidden_size"), c.need_int("num_attention_heads")
    return hidden // heads if hidden % heads else None


def neo_windows(c: Config) -> list[str]:
    """Label layers of GPT-Neo: attention_types repeats lists of labels so many times."""
    labels: list[str] = []
    try:
        for names, count in c.get("attention_types") or [[["global", "local"], 12]]:
            labels += list(names) * min(count, count_layers(c) + 1)
    except (TypeError, ValueError):
        raise c.fault("attention_types is malformed", "[[[global, local], 12]]") from None
    if len(labels) != count_layers(c):
        raise c.fault(f"attention_types names {len(labels)} of {count_layers(c)} layers")
    return ["sliding" if label == "local" else "full" for label in labels]


def uniform(c: Config, key: str, otherwise: Said = None) -> Any:
    """Read a number, or a list with the same number for each layer.

    Args:
        c: the configuration.
        key: the key.
        otherwise: a rule for an absent key.

    Raises:
        PlanError: the numbers of the list differ.
    """
    value = c.get(key)
    if isinstance(value, list):
        numbers = c.list_of(key, int) or []
        if len(set(numbers)) != 1:
            raise c.fault(f"{c.name(key)} differs from layer to layer, which is not modelled")
        return Config({"model_type": c.type, key: numbers[0]}, {}, {}, c.place).need_int(key)
    return c.read_int(key) if value is not None else run_rule(otherwise, c)


def nemotron_layers(c: Config) -> Sequence[str]:
    """Label layers of Nemotron-H: each is one block, named by a letter or a word."""
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


def less(c: Config, keys: Sequence[str]) -> int:
    """Subtract what one key holds from what another does."""
    whole, part = c.need_int(keys[0]), c.read_int(keys[1], 0) or 0
    if part > whole:
        raise c.fault(f"{c.name(keys[1])} is {part}", f"at most {whole}")
    return whole - part


# Arguments of Megatron-LM -----------------------------------------------------------------------


def megatron_vocabulary(c: Config) -> int:
    """Read the vocabulary without padding, which is parallelism.vocab_multiple's."""
    c.read_int("make-vocab-size-divisible-by")
    size = c.read_int("vocab-size") or c.read_int("padded-vocab-size")
    size = size or TOKENIZERS.get(str(c.get("tokenizer-type")))
    if size is None:
        fault = f"there is no argument {c.name('vocab-size')}"
        raise c.fault(fault, "it; or --set model.vocab=… where the tokenizer decides it")
    return size


def megatron_window(c: Config) -> int | None:
    """Count the tokens before a token and the token itself; -1 is no window."""
    text = c.get("window-size")
    if text is None:
        return None
    before = re.fullmatch(r"[(\[]?([0-9]{1,9}), *0[)\]]?", str(text))
    if before is None:
        raise c.fault(f"{c.name('window-size')} is {text}", "(tokens before a token,0)")
    return int(before[1]) + 1


def megatron_experts(c: Config) -> dict[str, int]:
    """Find the layers with experts. `2`: every second one; `([0]*3+[1]*58)`: spelled out."""
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


def share(c: Arguments, key: str, of: Said, unsaid: int | None, are: str) -> int | None:
    """Multiply a number by the share of it that an argument has.

    Args:
        c: the arguments.
        key: the argument.
        of: the number, by its key or a rule.
        unsaid: the share where the argument is absent; None for no number.
        are: what it is a number of, for the error.

    Raises:
        PlanError: the product is not a whole number.
    """
    part = c.read_share(key) or unsaid
    if part is None:
        return None
    found = part * number_of(c, of)
    if found != int(found):
        shown = f"--{key} is {c.get(key)}: {numbers.plain_text(float(found), 6)} {are}"
        raise c.fault(shown, "a whole number")
    return int(found)


# Towers -----------------------------------------------------------------------------------------


def matrices(c: Config, listed: Sequence[Traits]) -> list[dict[str, Any]]:
    """List matrices one behind another, each with its keys; what is false, and one copy, is left
    unsaid, and what there is no copy of left out."""
    found = [read_traits(one, c) for one in listed]
    return [
        {
            key: value
            for key, value in one.items()
            if value not in (False, "none") and (key, value) != ("copies", 1)
        }
        for one in found
        if one.get("copies") != 0
    ]


def read_sides(c: Config, key: str) -> list[int]:
    """Read the height and the width that a key holds, as one number or as two."""
    if isinstance(c.get(key), (list, tuple)):
        both = c.list_of(key, int) or []
        if len(both) != 2 or min(both) < 1:
            raise c.fault(f"{c.name(key)} is {both}", "a height and a width")
        return both
    return [c.need_int(key)] * 2


def patches(c: Config, image: int | None = None) -> int:
    """Count the patches of an image, of the stated size or of a square one."""
    whole = [image, image] if image else read_sides(c, "image_size")
    return prod(
        size // patch for size, patch in zip(whole, read_sides(c, "patch_size"), strict=True)
    )


# Diffusion --------------------------------------------------------------------------------------


def volume(c: Config) -> int:
    """Count the values of a patch for each channel, from a side or from three sizes."""
    if not isinstance(c.get("patch_size"), (list, tuple)):
        return c.need_int("patch_size") ** 2
    sizes = c.list_of("patch_size", int) or []
    if len(sizes) != 3 or min(sizes) < 1:
        raise c.fault(f"patch_size is {sizes}", "frames, height and width")
    return prod(sizes)


def features(c: Config) -> int:
    """Compute the width of what a projector reads: of one layer or of several."""
    layers = c.get("wrapper.vision_feature_layer")
    c.get("wrapper.vision_feature_select_strategy")
    return c.need_int("hidden_size") * (len(layers) if isinstance(layers, list) else 1)


def gemma_merge(c: Config) -> int:
    """Count how many patches Gemma 3 averages to a token, to reach a given number."""
    side = read_sides(c, "image_size")[0] // read_sides(c, "patch_size")[0]
    left = int(c.need_int("wrapper.mm_tokens_per_image") ** 0.5)
    if side < left or side % left:
        raise c.fault(f"{side} patches a side do not divide into {left} tokens")
    return (side // left) ** 2


def count_shuffled(c: Config) -> int:
    """Count the tokens that a pixel shuffle puts side by side."""
    ratio = c.number("wrapper.downsample_ratio") or c.number("pixel_shuffle_ratio") or 0.5
    return int(1 / ratio) ** 2


#: The rules by the names that rows write, each with its argument and options: the functions above,
#: and these.
RULES: dict[str, Callable[..., Any]] = {
    **dict(getmembers(sys.modules[__name__], isfunction)),
    # What a key holds.
    "need": lambda c, key, least=1: c.need_int(key, least),
    "whole": lambda c, key, least=1, otherwise=None: c.read_int(key, least, otherwise),
    "text": lambda c, key: c.read_word(key),
    "written": lambda c, text, of: text.format(run_rule(of, c)),
    "flag": lambda c, key, otherwise=None: c.read_flag(key, run_rule(otherwise, c)),
    # Of numbers, each itself, what a key holds or what a rule finds: sum, product, greatest common
    # divisor, whole times that one goes into another; of a height and a width the product.
    "sum": lambda c, terms: sum(number_of(c, term) for term in terms),
    "times": lambda c, terms: prod(number_of(c, term) for term in terms),
    "common": lambda c, terms: gcd(*(number_of(c, term) for term in terms)),
    "quotient": lambda c, terms: number_of(c, terms[0]) // number_of(c, terms[1]),
    "area": lambda c, key: prod(read_sides(c, key)),
    # A whole number by a factor, rounded down; one rounded up to whole steps; what a
    # division leaves; how long a list is.
    "scaled": lambda c, term, by, unsaid=1: int((c.number(by) or unsaid) * number_of(c, term)),
    "stepped": lambda c, term, to: -(-number_of(c, term) // number_of(c, to)) * number_of(c, to),
    "remainder": lambda c, terms: number_of(c, terms[0]) % number_of(c, terms[1]),
    "count": lambda c, key: len(c.list_of(key, int) or ()),
    "unless_auto": lambda c, key: None if c.get(key) == "auto" else c.read_int(key),
    # Whether keys hold the same number, a key says a word, one of some flags is set, there are
    # several of something, a key holds one of some values, a flag is not false, something is not
    # so, or of two numbers that are both there the first is the smaller.
    "same": lambda c, terms: len({number_of(c, term, needed=False) for term in terms}) == 1,
    "says": lambda c, key, word: c.read_word(key) == word,
    "any": lambda c, keys: any(c.read_flag(key) for key in keys),
    "several": lambda c, key: c.need_int(key) > 1,
    "among": lambda c, key, of: c.get(key) in of,
    "unless_false": lambda c, key: c.read_flag(key) is not False,
    "not": lambda c, condition: not run_rule(condition, c),
    "below": lambda c, keys: operator.lt(*(c.read_int(key) or inf for key in keys)),
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
    # Labels one behind another, so many of each; with a name of its own for the last; as a pattern.
    "runs": lambda c, counts: [
        label for label, term in counts.items() for _ in range(min(run_rule(term, c), MOST_LAYERS))
    ],
    "ended": lambda c, labels: [*(one := run_rule(labels, c))[:-1], f"{one[-1]}-last"],
    "fold": lambda c, labels: fold_pattern(run_rule(labels, c)),
    # What one class does.
    "rule": lambda c, name: RULES[name](c),
    "longcat_halves": lambda c: ["shortcut", "dense"] * c.need_int("num_layers"),
    # Behind a gate as many weights as without it, in multiples of 64.
    "megatron_gated_width": lambda c: int(4 * c.need_int("hidden-size") * 2 / 3 / 64) * 64,
    "nemotron_depth": lambda c: len(nemotron_layers(c)),
    "t5_activation": lambda c: (c.read_word("feed_forward_proj") or "relu").removeprefix("gated-"),
    "t5_gated": lambda c: (c.read_word("feed_forward_proj") or "").startswith("gated"),
}
