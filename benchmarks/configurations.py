"""Model types of transformers, imported and counted beside the library's own classes.

`python -m benchmarks.configurations` builds each text model of the installed library on the meta
device, from the defaults of its class, and compares its parameters with those of the file that it
saves: exact, refused by name, or different. `--variations N` changes keys of accepted types at
random (sizes, heads, biases, ties, norms, experts, patterns, the class), N times altogether, and
`--flops N` counts forward passes of small configurations with torch's counter. Needs torch and
transformers; `--write FILE` keeps what was found for docs/connections.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import counts
from planner.base.errors import PlanError
from planner.base.resources import read_yaml
from planner.connect.imports import families, hf
from planner.connect.imports.config import Config

#: Tables of the library's classes that are text models by what they predict, the first that has a
#: type is its main class.
MAIN = ("SEQ_TO_SEQ_CAUSAL_LM", "CAUSAL_LM", "MASKED_LM", "SEQUENCE_CLASSIFICATION")
#: Further classes of a type, for variations.
OTHERS = ("TOKEN_CLASSIFICATION", "QUESTION_ANSWERING", "MULTIPLE_CHOICE")
#: Layers that a model has at most when it is built, so that many are built soon.
DEEP = 6
WORDS = {
    "hidden_act": ("silu", "gelu", "relu", "gelu_new"),
    "position_embedding_type": ("absolute", "rope", "relative_key"),
}


def library() -> Any:
    """The library, silent."""
    import transformers

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    return transformers


def classes() -> dict[str, list[str]]:
    """The names of the classes of each text model type, its main class first."""
    from transformers.models.auto import modeling_auto as auto

    found: dict[str, list[str]] = {}
    for name in (*MAIN, *OTHERS, ""):
        table = getattr(auto, f"MODEL_FOR_{name}_MAPPING_NAMES" if name else "MODEL_MAPPING_NAMES")
        for kind, named in table.items():
            text = kind in found or name in MAIN or kind in families.FAMILIES or "text" in kind
            if text and kind not in hf.CLASSES["wrappers"]:
                found.setdefault(kind, []).extend([named] if isinstance(named, str) else named)
    return dict(sorted(found.items()))


def built(config: Any, named: str) -> Any:
    """The library's model of that class on the meta device."""
    import torch

    transformers = library()
    with torch.device("meta"):
        return getattr(transformers, named)(config)


def size(model: Any) -> int:
    """Parameters, tied ones once."""
    model.tie_weights()
    return sum(p.numel() for p in {id(p): p for p in model.parameters()}.values())


def saved(config: Any, named: str, diff: bool = False) -> dict[str, Any]:
    """The file that the library writes of a configuration."""
    config.architectures = [named]
    made: dict[str, Any] = json.loads(config.to_json_string(use_diff=diff))
    return made


def imported(config: Mapping[str, Any]) -> int | str:
    """The parameters of a configuration, or why it is refused."""
    try:
        row = {"config": config}
        return int(counts.evaluation(row, {"sequence_length": 1}).value("parameters.total"))
    except PlanError as error:
        return str(error).splitlines()[0]


def default(kind: str) -> Any:
    return library().AutoConfig.for_model(kind)


def compare(config: Any, named: str) -> tuple[str, Any, Any]:
    """What became of a configuration: exact, refused, wrong or unbuilt; the library's count, ours
    or the reason."""
    try:
        expected = size(built(config, named))
    except Exception as error:  # what the library cannot build is no model
        return "unbuilt", None, f"{type(error).__name__}: {str(error)[:150]}"
    held = [imported(saved(config, named, diff)) for diff in (False, True)]
    for one in held:
        if isinstance(one, int) and one != expected:
            return "wrong", expected, one
    if isinstance(held[0], str):
        return "refused", expected, held[0]
    return "exact", expected, held[0]


# Small models that run ------------------------------------------------------------------------

TABLES = read_yaml(Path(__file__).with_suffix(".yaml"))
#: Widths of a small model, by the keys of configurations.
SMALL = {key: width for width, keys in TABLES["small"].items() for key in keys}
#: What a type needs besides.
BESIDES: dict[str, dict[str, Any]] = TABLES["besides"]


def small(kind: str) -> Any:
    """A configuration of a type that runs in no time; no two of its widths are alike by need."""
    base = default(kind)
    there = base.to_dict()
    changes = {key: value for key, value in SMALL.items() if key in there}
    return library().AutoConfig.for_model(kind, **{**changes, **BESIDES.get(kind, {})})


def counted(kind: str, named: str, batch: int, length: int) -> dict[str, Any]:
    """A row as in tests/data/counts/flops.json: a forward and a backward pass of a small model."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    config = small(kind)
    config._attn_implementation = "eager"
    config._experts_implementation = "batched_mm"
    model = getattr(library(), named)(config).float().train()
    tokens = torch.ones(batch, length, dtype=torch.long)
    inputs = {"input_ids": tokens}
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = tokens
    with FlopCounterMode(display=False) as forward:
        found = model(**inputs, use_cache=False) if _caches(model) else model(**inputs)
    loss = next(v for v in found.values() if isinstance(v, torch.Tensor) and v.requires_grad).sum()
    with FlopCounterMode(display=False) as backward:
        loss.backward()
    without = [
        sum(n for op, n in mode.get_flop_counts()["Global"].items() if "convolution" not in str(op))
        for mode in (forward, backward)
    ]
    return {
        "name": f"{kind}-small",
        "config": saved(config, named, diff=True),
        "batch": batch,
        "seq": length,
        "attention": "eager",
        "activation_checkpointing": None,
        "forward_flops": forward.get_total_flops(),
        "backward_flops": backward.get_total_flops(),
        "total_flops": forward.get_total_flops() + backward.get_total_flops(),
        "forward_flops_without_convolution": without[0],
        "backward_flops_without_convolution": without[1],
    }


def _caches(model: Any) -> bool:
    import inspect

    return "use_cache" in inspect.signature(model.forward).parameters


def sizes(only: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows as in tests/data/counts/saved.json: the class's defaults, and a small configuration with
    every key that the library writes."""
    for kind, names in classes().items():
        if kind not in families.FAMILIES or (only and kind not in only):
            continue
        for label, make, diff in (("default", default, True), ("small", small, False)):
            try:
                config = make(kind)
                total = size(built(config, names[0]))
            except Exception as error:
                print(f"{kind}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
                continue
            config = saved(config, names[0], diff)
            yield {"name": f"{kind}-{label}", "config": config, "params_total": total}


def passes(only: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Rows of counted passes, of each accepted type or of those named."""
    for kind, names in classes().items():
        if kind in families.FAMILIES and (not only or kind in only):
            try:
                yield counted(kind, names[0], 2, 24)
            except Exception as error:
                print(f"{kind}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)


# Variations ------------------------------------------------------------------------------------


def varied(kind: str, chance: random.Random) -> tuple[Any, dict[str, Any]]:
    """A configuration of a type with some keys changed, and which."""
    base = default(kind).to_dict()
    changes: dict[str, Any] = {}
    for key in [key for key in base if key.endswith("layers") and isinstance(base[key], int)]:
        changes[key] = chance.randint(1, DEEP)
    keys = [key for key in base if key not in changes and not key.startswith("_")]
    chance.shuffle(keys)
    for key in keys[: chance.randint(1, max(2, len(keys) // 3))]:
        other = _other(key, base[key], chance)
        if other is not None:
            changes[key] = other
    return library().AutoConfig.for_model(kind, **changes), changes


def _other(key: str, value: Any, chance: random.Random) -> Any:
    """Another value of a key; None where none is tried."""
    if "token_id" in key or key in ("model_type", "dtype", "chunk_size_feed_forward"):
        return None
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        if "vocab" in key:
            return value + chance.randint(-100, 100)
        return max(1, chance.choice((value // 4, value // 2, value - 1, value * 2, value * 3)))
    if isinstance(value, float):
        return chance.choice((value / 2, value, value * 2))
    if isinstance(value, list) and value and isinstance(value[0], str):
        return [chance.choice(value) for _ in value]
    if value is None:
        if "layer_types" in key or "list" in key or "pattern" in key:
            return None
        if any(part in key for part in ("dim", "rank", "size", "heads", "inter", "window")):
            return chance.choice((1, 2, 4, 8, 16, 32, 64, 128))
        return None
    return chance.choice(WORDS[key]) if key in WORDS else None


def variations(count: int, seed: int, only: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """So many configurations that the library builds, of types in turn: what became of each."""
    chance, known = random.Random(seed), classes()
    kinds = [kind for kind in known if kind in families.FAMILIES and (not only or kind in only)]
    done = tried = 0
    while done < count and tried < 20 * count:
        kind = kinds[tried % len(kinds)]
        tried += 1
        named = chance.choice(known[kind])
        try:
            config, changes = varied(kind, chance)
        except Exception:  # the class refuses the combination
            continue
        outcome, expected, ours = compare(config, named)
        if outcome == "unbuilt":
            continue
        done += 1
        row = {"type": kind, "class": named, "changes": changes}
        yield outcome, row | {"expected": expected, "ours": ours}


def census(only: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What becomes of each text type with the defaults of its class."""
    for kind, names in classes().items():
        if only and kind not in only:
            continue
        try:
            outcome, expected, ours = compare(default(kind), names[0])
        except Exception:
            outcome, expected, ours = "unbuilt", None, traceback.format_exc(limit=0)[-150:]
        row = {"type": kind, "class": names[0], "outcome": outcome}
        yield row | {"expected": expected, "ours": ours}


def entry(kind: str, names: Sequence[str]) -> dict[str, Any]:
    """What classes.json says of a type: the defaults of the class's own keys that its row reads,
    and other names of keys; keys that change no tensor stay as they were written."""
    import dataclasses

    kind_class = type(default(kind))
    fields = {
        f.name: f.default
        for f in dataclasses.fields(kind_class)
        if f.default is not dataclasses.MISSING
    }
    mapped = {v: k for k, v in getattr(kind_class, "attribute_map", {}).items()}
    row = families.row(kind)
    said = dict(hf.CLASSES["types"].get(kind, {}))
    seen = {
        mapped.get(key, key) for part in (row.traits, row.classes, row.axes) for key in _words(part)
    }
    # What is derived from other keys has no default of its own.
    derived = {
        mapped.get(key, key)
        for key, allowed in row.refused.items()
        if any(isinstance(one, Mapping) for one in allowed)
    } | {"id2label"}
    raw = {mapped.get(key, key): value for key, value in fields.items()}
    raw = {key: value for key, value in raw.items() if key not in derived}
    trial = {"defaults": raw, "names": {v: k for k, v in mapped.items()}, "harmless": [*raw]}
    judged, types = Config.judge, hf.CLASSES["types"]
    types[kind] = trial
    vars_of: Any = Config  # whose method is another for a while
    vars_of.judge = lambda c, *_, **__: seen.update(c.read)
    try:
        for named in names:
            try:
                hf.convert_config({"model_type": kind, "architectures": [named]})
            except PlanError:  # a class that is not modelled
                continue
    finally:
        vars_of.judge = judged
        types[kind] = said
    keys = sorted(key for key in seen if key in raw and "token_id" not in key)
    made: dict[str, Any] = {"defaults": {key: raw[key] for key in keys}}
    others = {v: k for k, v in mapped.items() if v in keys}
    made |= {"names": others} if others else {}
    return made | ({"harmless": said["harmless"]} if said.get("harmless") else {})


def _words(node: Any) -> Iterator[str]:
    """Every text in a row."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, Mapping):
        for key, value in node.items():
            yield from (*_words(key), *_words(value))
    elif isinstance(node, (list, tuple)):
        for item in node:
            yield from _words(item)


def write_entries(kinds: Sequence[str]) -> None:
    """The entries of these types in classes.json, anew."""
    path, known = Path(hf.__file__).with_name("classes.json"), classes()
    said = json.loads(path.read_text("utf-8"))
    said["types"] |= {kind: entry(kind, known[kind]) for kind in kinds}
    types = ",\n".join(
        f"    {json.dumps(kind)}: {json.dumps(about)}"
        for kind, about in sorted(said["types"].items())
    )
    head = ",\n".join(
        f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in said.items() if k != "types"
    )
    path.write_text(f'{{\n{head},\n  "types": {{\n{types}\n  }}\n}}\n', "utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variations", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="*", default=[], metavar="TYPE")
    parser.add_argument("--write", type=Path, metavar="FILE")
    parser.add_argument(
        "--entries", nargs="*", metavar="TYPE", help="write the defaults of these types' classes"
    )
    parser.add_argument("--rows", action="store_true", help="rows of counted parameters")
    parser.add_argument("--flops", action="store_true", help="run small models, count their FLOPs")
    options = parser.parse_args(arguments)
    if options.rows:
        made = list(sizes(options.only))
        (options.write or Path("/dev/stdout")).write_text(
            json.dumps({"models": made}) + "\n", "utf-8"
        )
        return 0
    if options.flops:
        made = list(passes(options.only))
        for row in made:
            try:
                wrong = [found for found in counts.flops(row) if found[1] != found[2]]
            except PlanError as error:
                wrong = [("refused", str(error), None)]
            print(f"{row['name']:34} {wrong or 'exact'}")
        if options.write:
            options.write.write_text(json.dumps({"cases": made}) + "\n", "utf-8")
        return 0
    if options.entries:
        write_entries(options.entries)
        return 0
    if options.variations:
        found = Counter[str]()
        for outcome, row in variations(options.variations, options.seed, options.only):
            found[outcome] += 1
            if outcome != "exact":
                print(outcome, json.dumps(row), flush=True)
        print(dict(found), file=sys.stderr)
        return 1 if found["wrong"] else 0
    rows = []
    for row in census(options.only):
        rows.append(row)
        print(
            f"{row['type']:28} {row['class']:40} {row['outcome']:8} {row['expected']} {row['ours']}"
        )
    print(dict(Counter(row["outcome"] for row in rows)), file=sys.stderr)
    if options.write:
        options.write.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    return 1 if any(row["outcome"] == "wrong" for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
