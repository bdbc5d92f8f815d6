"""Mutation: a document from a seed, a few steps away from what ships."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice
from random import Random

from fuzz import seeds, values
from fuzz.tree import Path, Tree, at, block, copied, flow, from_data, paths, somewhere

_WITH_SCHEMA = ("plan", "model", "cluster", "accelerator", "study")
_NUMBER = re.compile(r"[0-9]{1,60}")
Change = Callable[[Random, Tree, str], Tree]


def document(random: Random, kind: str) -> bytes:
    """One document of a kind: mutated as a tree, as text, or made to be too much."""
    roll = random.random()
    if roll < 0.004:
        return giant(random)
    if roll < 0.15 or not seeds.trees(kind):
        return text(random, random.choice(seeds.texts(kind)).encode())
    tree = copied(random.choice(seeds.trees(kind)))
    changes = GENTLE if random.random() < 0.4 else CHANGES
    try:
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5, 8))):
            tree = random.choice(changes)(random, tree, kind)
            if sum(1 for _ in islice(paths(tree), 5000)) == 5000:
                break
        written = (
            flow(tree) if kind in ("config", "result") or random.random() < 0.3 else block(tree)
        )
    except RecursionError:  # ours: the tree was wrapped again and again
        return giant(random)
    raw = written.encode("utf-8", "surrogatepass")
    return text(random, raw) if random.random() < 0.1 else raw


# Trees -------------------------------------------------------------------------------------


def _put(tree: Tree, path: Path, value: Tree) -> Tree:
    if not path:
        return value
    at(tree, path[:-1])[path[-1]] = value
    return tree


def _scalar_paths(tree: Tree) -> list[Path]:
    return [path for path in paths(tree) if isinstance(at(tree, path), str)] or [()]


def replace(random: Random, tree: Tree, kind: str) -> Tree:
    return _put(tree, random.choice(_scalar_paths(tree)), values.scalar(random))


def any_node(random: Random, tree: Tree, kind: str) -> Tree:
    return _put(tree, somewhere(random, tree), values.scalar(random))


def suggest(random: Random, tree: Tree, kind: str) -> Tree:
    """Add or change a key that the schema knows, mappings made on the way."""
    if kind in ("config", "result", "log", "arguments"):
        return _add(random, tree, (random.choice(seeds.config_keys()),), seeds.listed(random))
    path, said = random.choice(seeds.keys(kind))
    return _add(random, tree, path, seeds.sample(random, said))


def allowed(random: Random, tree: Tree, kind: str) -> Tree:
    """Add or change a key to a value that the schema allows or shows as an example."""
    known = seeds.keys(kind) if kind in _WITH_SCHEMA else ()
    said: list[tuple[Path, list[Tree]]] = [
        (path, said.get("enum", said.get("examples", [])))
        for path, said in random.sample(known, min(8, len(known)))
    ]
    path, values_ = next(((path, v) for path, v in said if v), ((), []))
    return _add(random, tree, path, from_data(random.choice(values_))) if path else tree


def _add(random: Random, tree: Tree, path: Path, value: Tree) -> Tree:
    if not isinstance(tree, dict):
        return tree
    node = tree
    for step in path[:-1]:
        if not isinstance(node.get(step), dict):
            text = node.get(step)
            named = isinstance(text, str) and text.startswith('"') and random.random() < 0.8
            node[step] = {"extends": text} if named else {}
        node = node[step]
    node[path[-1]] = value
    return tree


def remove(random: Random, tree: Tree, kind: str) -> Tree:
    path = somewhere(random, tree)
    if path:
        del at(tree, path[:-1])[path[-1]]
    return tree


def rename(random: Random, tree: Tree, kind: str) -> Tree:
    path = somewhere(random, tree)
    if path and isinstance(path[-1], str):
        holder, key = at(tree, path[:-1]), path[-1]
        spot = random.randrange(len(key) + 1)
        near = key[:spot] + random.choice("axz_-\u00e9") + key[spot + 1 :]
        holder[values.name(random) if random.random() < 0.5 else near] = holder.pop(key)
    return tree


def transplant(random: Random, tree: Tree, kind: str) -> Tree:
    other = random.choice(seeds.trees(random.choice(seeds.KINDS[:5])))
    return _put(tree, somewhere(random, tree), copied(at(other, somewhere(random, other))))


def wrap(random: Random, tree: Tree, kind: str) -> Tree:
    path = somewhere(random, tree)
    value = at(tree, path)
    for _ in range(random.choice((1, 1, 2, 50, 99, 101, 300))):
        value = [value] if random.random() < 0.5 else {"a": value}
    return _put(tree, path, value)


def repeat(random: Random, tree: Tree, kind: str) -> Tree:
    path = somewhere(random, tree)
    times = random.choice((0, 2, 3, 100, 3000))
    value = at(tree, path)
    if times * len(str(value)) < 200_000:
        value = [value] * times if random.random() < 0.5 else {f"k{i}": value for i in range(times)}
    return _put(tree, path, value)


def alias(random: Random, tree: Tree, kind: str) -> Tree:
    """An anchor on one node, and aliases of it elsewhere: before it, inside it, after it."""
    path = somewhere(random, tree)
    tree = _put(tree, path, "&x " + flow(at(tree, path)))
    for _ in range(random.choice((1, 2, 5))):
        tree = _put(tree, somewhere(random, tree), "*x")
    return tree


def scale(random: Random, tree: Tree, kind: str) -> Tree:
    """A number times a power: the shapes of the seed at other sizes."""
    numbers = [
        path
        for path in _scalar_paths(tree)
        if str(at(tree, path)).isdecimal() and len(at(tree, path)) < 60
    ]
    if not numbers:
        return tree
    path = random.choice(numbers)
    value = int(at(tree, path)) * random.choice((2, 2, 4, 4, 3, 10, 1000, 10**6, 10**12))
    smaller = max(1, int(at(tree, path)) // random.choice((2, 4, 10**4)))
    return _put(tree, path, str(value if random.random() < 0.6 else smaller))


CHANGES: tuple[Change, ...] = (
    replace,
    replace,
    replace,
    any_node,
    suggest,
    suggest,
    suggest,
    suggest,
    suggest,
    remove,
    rename,
    transplant,
    wrap,
    repeat,
    alias,
    scale,
    scale,
)


#: Those that leave many documents valid, so that evaluation is reached.
GENTLE: tuple[Change, ...] = (allowed, allowed, allowed, scale, remove)


# Text --------------------------------------------------------------------------------------

TOKENS = (
    b"\0",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\t",
    b"\r",
    b"\n---\n",
    b"\n...\n",
    b"%YAML 9.9\n",
    b"%TAG ! tag:x,2000:\n",
    b"? ",
    b"- ",
    b": ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&a ",
    b"*a",
    b"!!x ",
    b"|\n",
    b">+9\n",
    b"#",
    b"'",
    b'"',
    b"\\",
    b"\\x",
    b"<<: *a\n",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\x7f",
    b"\x1b[0m",
    b"@",
    b"`",
    b"%",
    b",",
    b"~",
    b"=",
    b"e",
    b"9" * 300,
)


def text(random: Random, raw: bytes) -> bytes:
    """Bytes changed without regard to what they mean."""
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        spot = random.randrange(len(raw) + 1)
        length = random.choice((1, 1, 4, 40))
        roll = random.randrange(6)
        if roll == 0:
            raw = raw[:spot] + raw[spot + length :]
        elif roll == 1:
            raw = raw[:spot] + bytes([random.randrange(256)]) + raw[spot + 1 :]
        elif roll == 2:
            raw = raw[:spot] + random.choice(TOKENS) + raw[spot:]
        elif roll == 3:
            raw = raw[:spot] + raw[spot : spot + length] * 2 + raw[spot + length :]
        elif roll == 4:
            raw = raw[:spot]
        else:
            other = random.randrange(len(raw) + 1)
            raw = raw[:spot] + raw[other : other + length] + raw[spot:]
    return raw


def _laughs() -> bytes:
    """Each of thirty lines stands for nine of the line before."""
    lines = (
        b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 30)
    )
    return b"a0: &a0 [x]\n" + b"".join(lines)


def giant(random: Random) -> bytes:
    """Documents that are too much: expansion, depth, size, breadth."""
    count = random.choice((100, 5_000, 10_000, 90_000))
    make: tuple[Callable[[], bytes], ...] = (
        lambda: (
            b"a0: &a0 [x]\n"
            + b"".join(
                b"a%d: &a%d [%s]\n" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9))
                for i in range(1, 30)
            )
        ),
        lambda: b"[" * count,
        lambda: b"{a: " * count,
        lambda: b"- " * count,
        lambda: b"".join(b" " * i + b"a:\n" for i in range(min(count, 5000))),
        lambda: b"a: " + b"[" * count + b"]" * count,
        lambda: b'{"model_type": "llama", "x": ' + b'{"a":' * count + b"1" + b"}" * count + b"}",
        lambda: b"name: " + b"x" * random.choice((4_900_000, 5_100_000, 50_000_000)),
        lambda: b"a: 1\n" * count,
        lambda: b"".join(b"k%d: 1\n" % i for i in range(count)),
        lambda: (
            b"model: {layers: 2, kinds: {"
            + b", ".join(b"k%d: {}" % i for i in range(min(count, 30_000)))
            + b"}}"
        ),
        lambda: b"#" * 4_000_000,
        lambda: b"\n" * 4_000_000 + b"a: [",
        lambda: b"? " * count,
        lambda: b"&a " * count,
        lambda: b"!" * count,
        lambda: b'"' + b"\\n" * count,
        lambda: b"a: " + b"9" * count,
        lambda: b"[" + b"1e400," * min(count, 90_000) + b"]",
        lambda: b'{"model_type": "llama", "num_hidden_layers": ' + b"9" * count + b"}",
        lambda: b"",
    )
    return random.choice(make)()
