"""Documents that nobody means well, as strategies of hypothesis: what ships and what the tests hold
a few changes away, by what the schemas allow; and rows of scalars and giants that once hurt."""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Callable, Hashable
from copy import deepcopy
from functools import cache
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import yaml
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import HypothesisWarning, NoSuchExample

from fuzz.tree import Tree, at, block, flow, from_data, paths
from planner.documents import json_schema

ROOT = Path(__file__).resolve().parent.parent
T = TypeVar("T")
#: Values that are tried; before them hypothesis makes some that are as simple as can be.
TRIES, SIMPLEST = 64, 4
#: By kind, where documents of it lie.
FOLDERS: dict[str, tuple[str, ...]] = {
    "plan": ("presets/*.yaml", "tests/documents/*/*.yaml"),
    "model": ("presets/models/*.yaml",),
    "cluster": ("presets/clusters/*.yaml",),
    "accelerator": ("presets/accelerators/*.yaml",),
    "study": ("presets/studies/*.yaml", "fuzz/studies/*.yaml"),
    "config": (),
    "log": ("tests/data/logs/*.log", "tests/data/logs/*.csv", "tests/data/logs/*.jsonl"),
    "arguments": (),
    "result": (),
}
SHAPED = ("plan", "model", "cluster", "accelerator", "study")  # those with a schema
_TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
# fmt: off
#: Scalars as written in YAML that once broke a program; JSON takes those that are JSON.
SCALARS: tuple[str, ...] = (
    *_TABLES["scalars"], "9" * 200, "9" * 201, "9" * 5000, "0." + "3" * 150, "a" * 5000, "a/" * 3000
)
NAMES: tuple[str, ...] = (*_TABLES["names"], "a" * 3000)
TOKENS = (
    b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\t", b"\r", b"\n---\n", b"\n...\n",
    b"%YAML 9.9\n", b"%TAG ! tag:x,2000:\n", b"? ", b"- ", b": ", b"{", b"}", b"[", b"]", b"&a ",
    b"*a", b"!!x ", b"|\n", b">+9\n", b"#", b"'", b'"', b"\\", b"\\x", b"<<: *a\n", b"\x85",
    b"\xe2\x80\xa8", b"\x7f", b"\x1b[0m", b"@", b"`", b"%", b",", b"~", b"=", b"e", b"9" * 300,
)
# fmt: on
#: Documents that are too much, of so many parts: expansion, depth, size, breadth.
GIANTS: tuple[Callable[[int], bytes], ...] = (
    lambda n: (
        b"a0: &a0 [x]\n"
        + b"".join(  # each line stands for nine of the one before
            b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 30)
        )
    ),
    *(
        lambda n, part=part: part * n
        for part in (b"[", b"{a: ", b"- ", b"a: 1\n", b"? ", b"&a ", b"!")
    ),
    lambda n: b"".join(b" " * i + b"a:\n" for i in range(min(n, 5000))),
    lambda n: b"a: " + b"[" * n + b"]" * n,
    lambda n: b'{"model_type": "llama", "x": ' + b'{"a":' * n + b"1" + b"}" * n + b"}",
    lambda n: b"name: " + b"x" * {100: 4_900_000, 5_000: 5_100_000}.get(n, 50_000_000),
    lambda n: b"".join(b"k%d: 1\n" % i for i in range(n)),
    lambda n: (
        b"model: {layers: 2, kinds: {"
        + b", ".join(b"k%d: {}" % i for i in range(min(n, 30_000)))
        + b"}}"
    ),
    lambda n: b"#" * 4_000_000,
    lambda n: b"\n" * 4_000_000 + b"a: [",
    lambda n: b'"' + b"\\n" * n,
    lambda n: b"a: " + b"9" * n,
    lambda n: b"[" + b"1e400," * n + b"]",
    lambda n: b'{"model_type": "llama", "num_hidden_layers": ' + b"9" * n + b"}",
    lambda n: b"",
)  # fmt: skip
giants: st.SearchStrategy[bytes] = st.builds(
    lambda make, parts: make(parts),
    st.sampled_from(GIANTS), st.sampled_from((100, 5_000, 10_000, 90_000)),
)  # fmt: skip
scalars = st.one_of(
    st.sampled_from(SCALARS), st.sampled_from(SCALARS), st.integers(-2, 2**40).map(str),
    st.integers(0, 70).map(lambda power: str(2**power)),
)  # fmt: skip


def draw_one(
    strategy: st.SearchStrategy[T], seed: Hashable, accept: Callable[[T], bool] = lambda _: True
) -> T | None:
    """Draw one value, the same for the same seed.

    Args:
        strategy: what to draw from.
        seed: text or a number.
        accept: whether a value is good enough; others are drawn until one is.

    Returns:
        The value; None where ``TRIES`` were not accepted.
    """
    once = settings(
        max_examples=TRIES + SIMPLEST, phases=[Phase.generate], database=None, deadline=None,
        suppress_health_check=list(HealthCheck), report_multiple_bugs=False,
    )  # fmt: skip
    tried, accepted = count(), list[T]()

    def wanted(value: T) -> bool:
        if not accepted and next(tried) >= SIMPLEST and accept(value):
            accepted.append(value)
        return bool(accepted)  # hypothesis asks twice

    with contextlib.suppress(NoSuchExample), warnings.catch_warnings():
        warnings.simplefilter("ignore", HypothesisWarning)  # that a value is long
        find(strategy, wanted, settings=once, random=Random(str(seed)))
    return accepted[0] if accepted else None


@cache
def texts(kind: str) -> tuple[str, ...]:
    """Return whole documents of a kind, as written."""
    files = [file for pattern in FOLDERS[kind] for file in sorted(ROOT.glob(pattern))]
    found = [file.read_text("utf-8")[:20_000] for file in files if file.is_file()]
    if kind in ("arguments", "result"):
        found = [_write(kind, file) for file in sorted(ROOT.glob("presets/*.yaml"))]
    if kind == "config":
        found = [json.dumps(config, indent=2) for config in _configs()]
    return tuple(found)


@cache
def trees(kind: str) -> tuple[Tree, ...]:
    """Return the same as trees, those that can be read; aliases may stand for far too much."""
    found = []
    for text in (text for text in texts(kind) if "*" not in text):
        try:
            data = json.loads(text) if kind == "result" else yaml.load(text, yaml.CSafeLoader)
            json.dumps(data)
        except (yaml.YAMLError, TypeError, ValueError):
            continue
        if isinstance(data, dict):
            found.append(from_data(data))
    return tuple(found)


def _write(kind: str, file: Path) -> str:
    """Write what the program makes of a plan and reads again: Megatron-LM's arguments, a result."""
    import planner
    from planner import report as render
    from planner.connect import exports

    plan = planner.load(file)
    try:
        if kind == "arguments":
            return exports.build_config(plan.plan, "megatron").text
    except planner.PlanError:
        return "--num-layers 12 --hidden-size 768 --num-attention-heads 12 --bf16"
    result = json.loads(render.as_text(plan.evaluate(), "json"))
    for key, most in (("quantities", 12), ("inputs", 8)):
        result[key] = dict(list(result[key].items())[:most])
    return json.dumps(result)


def _configs() -> list[dict[str, Any]]:
    """Return one configuration for each known class: what the class assumes."""
    folder = ROOT / "planner/connect/imports"
    known = json.loads((folder / "classes.json").read_text("utf-8"))
    found = []
    for kind, about in known["types"].items():
        names = about.get("names", {})
        keys = {names.get(key, key): value for key, value in about.get("defaults", {}).items()}
        found.append({"model_type": kind, **keys})
    for outer, inner in list(known["wrappers"].items())[:20]:
        found.append({"model_type": outer, "text_config": {"model_type": inner}})
    rows = yaml.safe_load((folder / "diffusion.yaml").read_text("utf-8"))["types"]
    for name, row in rows.items():
        found.append({"_class_name": name, "caption_channels": 64, **row["defaults"]})
    return found


@cache
def keys(kind: str) -> tuple[tuple[tuple[str, ...], Any], ...]:
    """Return every key that a schema knows, by path, with what the schema says about it."""
    found: list[tuple[tuple[str, ...], Any]] = []

    def visit(said: Any, path: tuple[str, ...]) -> None:
        if not isinstance(said, dict) or len(path) > 6:
            return
        for part in (*said.get("allOf", ()), *said.get("anyOf", ())):
            visit(part, path)
        for keyword in ("then", "else"):
            visit(said.get(keyword), path)
        for key, inner in said.get("properties", {}).items():
            found.append(((*path, key), inner))
            visit(inner, (*path, key))

    visit(json.loads(json.dumps(json_schema.read_schema(kind), default=float)), ())
    return tuple(found)


@cache
def config_keys() -> tuple[str, ...]:
    """Return the words of configurations that the rules of import name."""
    words = set[str]()
    for file in (ROOT / "planner/connect/imports").iterdir():
        if file.suffix in (".py", ".json", ".yaml"):
            quoted = "" if file.suffix == ".yaml" else '"'
            pattern = f"{quoted}([a-z0-9]+(?:_[a-z0-9]+)+){quoted}"
            words.update(re.findall(pattern, file.read_text("utf-8")))
    return tuple(sorted(words))


def values(said: Any) -> st.SearchStrategy[Tree]:
    """Build a strategy of what the schema of a key allows, its ends and beyond; or of scalars."""
    ways: list[st.SearchStrategy[Tree]] = [scalars]
    if isinstance(said, dict):
        if listed := [*said.get("examples", ()), *said.get("enum", ())]:
            ways += [st.sampled_from(listed).map(from_data)] * 3
        for end in ("minimum", "maximum"):
            if end in said:
                ways.append(st.sampled_from([str(said[end] + by) for by in (-1, 0, 1)]))
        if said.get("type") == "boolean":
            ways.append(st.sampled_from(("true", "false")))
        if {"number", "integer"} & {*str(said.get("type")).replace("'", " ").split()}:
            ways.append(st.sampled_from(("1", "2", "4", "8", "64", "1000", "1e6", "1e12")))
    return st.one_of(ways)


#: A list with an item for each layer, more or less, as configurations have it.
layer_lists = st.one_of(
    *(st.lists(st.sampled_from(words), max_size=33) for words in (
        ("0", "1", "-1", "0.5"), ('"full_attention"', '"sliding_attention"', '"mamba"', '"moe"'),
        ("true", "false", "null", "[]", "{}"),
    )),
    st.text("MG*-FLE", max_size=33).map(json.dumps),
)  # fmt: skip


def _put(tree: Tree, path: tuple[Any, ...], value: Tree) -> Tree:
    """Put a value at a path; mappings are made on the way, a name on it is extended."""
    if not path or not isinstance(tree, dict | list):
        return value
    node = tree
    for step in path[:-1]:
        if isinstance(node, list) and isinstance(step, str):
            break  # a list where the schema has a mapping
        if isinstance(node, dict) and not isinstance(node.get(step), dict | list):
            text = node.get(step)
            node[step] = {"extends": text} if str(text).startswith('"') else {}
        node = node[step]
    if isinstance(node, dict) or isinstance(path[-1], int):
        node[path[-1]] = value
    return tree


def _change(draw: st.DrawFn, way: str, tree: Tree, kind: str) -> Tree:
    """Change one place of a tree in one of the ways of ``WAYS``."""
    if way == "key" or not isinstance(tree, dict | list):
        if kind not in SHAPED:
            return _put(tree, (draw(st.sampled_from(config_keys())),), draw(scalars | layer_lists))
        path, said = draw(st.sampled_from(keys(kind)))
        return _put(tree, path, draw(values(said)))
    path = draw(st.sampled_from([*islice(paths(tree), 1, 3000)] or [()]))
    value, last = at(tree, path), path[-1] if path else None
    if way == "value":
        return _put(tree, path, draw(scalars))
    if way == "remove" and path:
        del at(tree, path[:-1])[last]
    elif way == "rename" and isinstance(last, str):
        holder, spot = at(tree, path[:-1]), draw(st.integers(0, len(last)))
        near = last[:spot] + draw(st.sampled_from("axz_-\u00e9")) + last[spot + 1 :]
        holder[draw(st.sampled_from((near, *NAMES)))] = holder.pop(last)
    elif way == "wrap":
        for _ in range(draw(st.sampled_from((1, 1, 2, 50, 99, 101, 150)))):
            value = [value] if draw(st.booleans()) else {"a": value}
        return _put(tree, path, value)
    elif way == "repeat":
        times = draw(st.sampled_from((0, 2, 3, 100, 3000)))
        if times * len(str(value)) < 200_000:
            return _put(tree, path, [value] * times)
    elif way == "alias":
        tree = _put(tree, path, "&x " + flow(value))
        for _ in range(draw(st.sampled_from((1, 2, 5)))):
            tree = _put(tree, draw(st.sampled_from([*islice(paths(tree), 3000)])), "*x")
    elif way == "scale" and str(value).isdecimal() and len(value) < 60:
        by = draw(st.sampled_from((2, 2, 4, 4, 3, 10, 1000, 10**6, 10**12, -2, -4, -(10**4))))
        return _put(tree, path, str(int(value) * by if by > 0 else max(1, int(value) // -by)))
    return tree


WAYS = ("key",) * 5 + ("value",) * 4 + ("scale",) * 2 + ("remove", "rename", "wrap", "repeat",
                                                         "alias")  # fmt: skip
#: Those that leave many documents valid, so that evaluation is reached.
GENTLE = ("key", "key", "key", "scale", "remove")


@st.composite
def edited(draw: st.DrawFn, raw: bytes) -> bytes:
    """Bytes changed without regard to what they mean."""
    for _ in range(draw(st.sampled_from((1, 1, 2, 4, 16)))):
        spot, other = (draw(st.integers(0, len(raw))) for _ in range(2))
        length = draw(st.sampled_from((0, 1, 1, 4, 40, len(raw))))
        piece = raw[other : other + 40]
        more = draw(st.sampled_from((b"", piece, *TOKENS)) | st.binary(max_size=2))
        raw = raw[:spot] + more + raw[spot + length :]
    return raw


@st.composite
def documents(draw: st.DrawFn, kind: str) -> bytes:
    """A document of a kind: a giant, or one that ships, changed as text or as a tree."""
    roll = draw(st.integers(0, 199))
    if roll == 199:
        return draw(giants)
    if roll < 30 or not trees(kind):
        return draw(edited(draw(st.sampled_from(texts(kind))).encode()))
    tree = deepcopy(draw(st.sampled_from(trees(kind))))
    ways = GENTLE if draw(st.integers(0, 9)) < 4 else WAYS
    for _ in range(draw(st.sampled_from((1, 1, 1, 2, 2, 3, 5, 8)))):
        way = draw(st.sampled_from(ways))
        tree = _change(draw, way, tree, kind)
        if way == "wrap" or sum(1 for _ in islice(paths(tree), 5000)) == 5000:
            break
    on_a_line = kind in ("config", "result") or draw(st.integers(0, 9)) < 3
    raw = (flow(tree) if on_a_line else block(tree)).encode("utf-8", "surrogatepass")
    return draw(edited(raw)) if draw(st.integers(0, 9)) == 0 else raw
