"""Every key of every schema with what is no value of it, and with far too much of it: the document
is evaluated, or refused on lines with their places, in two seconds: `python -m fuzz.schema_walk`
tries all, tests/fuzz/test_schema_walk.py a few."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import planner
from fuzz import documents, watch
from fuzz.tree import Tree, block, from_data

PLAN: dict[str, Any] = {
    "model": "mixtral-8x7b",
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 16},
    "training": {"tokens": "1T", "sequence_length": 4096, "global_batch": 64, "micro_batch": 1},
    "parallelism": {"tensor": 2, "expert": 4, "zero": 1},
}
#: Of each kind of document one, and the plan that names it as FILE; a trainplan.yaml lies beside.
BASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plan": (PLAN, {}),
    "model": ({"extends": "mixtral-8x7b"}, {**PLAN, "model": "FILE"}),
    "cluster": (PLAN["cluster"], {**PLAN, "cluster": "FILE"}),
    "accelerator": (
        {"extends": "h100-sxm-80gb"},
        {**PLAN, "cluster": {"accelerator": "FILE", "devices": 16}},
    ),
    "schedule": (
        {"extends": "zero-bubble"},
        {
            **PLAN,
            "training": {**PLAN["training"], "schedule": "FILE"},
            "parallelism": {"pipeline": 2},
        },
    ),
    "defaults": ({}, PLAN),
    "study": ({"base": "gpt2small_hgx-h100", "axes": {"training.micro_batch": [1, 2]}}, {}),
}
DEEP = "[" * 60 + "]" * 60
#: What some key does not take, as written: each type of YAML.
WRONG = (
    "null", "[]", "{}", "[null]", "[[1]]", "{a: 1}", "{a: {b: []}}", "text", '""', "true", "-1",
    "0", "0.5", "7", "1e30", "2024-01-01", "[1, x]", DEEP,
)  # fmt: skip
#: Far too much, as written: words, a path, digits, items, keys.
MUCH = (  # more than 20,000 values are refused
    "ab " * 40_000 + "x", "a/" * 50_000 + "x", "9" * 6001, "[" + "1, " * 18_000 + "1]",
    "[" + "ab, " * 18_000 + "ab]", "{" + ", ".join(f"k{i}: 1" for i in range(9_000)) + "}",
    "64 x " * 20_000 + "h100",
)  # fmt: skip
HEADLINES = ("memory.process", "time.step_seconds", "checkpoint.bytes")


def paths(kind: str) -> list[tuple[str, ...]]:
    return sorted({path for path, _ in documents.keys(kind)})


def defaulted(kind: str) -> Iterator[tuple[str, ...]]:
    """The quantities that have a value where nobody gives one."""
    for path, said in documents.keys(kind):
        if isinstance(said, dict) and "unit" in said and said.get("default") is not None:
            yield path


def with_value(tree: Tree, path: tuple[str, ...], value: str) -> Tree:
    """A copy of a document with the value of a key; a name on the way to it is extended."""
    inner = {"extends": tree} if isinstance(tree, str) else dict(tree or {})
    step, *rest = path
    inner[step] = with_value(inner.get(step), tuple(rest), value) if rest else value
    return inner


def tried(kind: str, path: tuple[str, ...], value: str, folder: Path) -> None:
    """One document with one value, read in bounded time, and evaluated where it is valid."""
    base, plan = BASES[kind]
    file = folder / ("trainplan.yaml" if kind == "defaults" else f"{kind}.yaml")
    file.write_text(block(with_value(from_data(base), path, value)))
    asked = file
    if plan:
        asked = folder / "asked.yaml"
        asked.write_text(block(from_data(plan)).replace('"FILE"', f'"{file.name}"'))
    outcome = watch.run(["validate", str(asked)])
    shown = f"{kind} {'.'.join(path)}: {value[:60]}"
    assert outcome.problem is None, f"{shown}\n{outcome}"
    assert outcome.seconds < 2 * watch.SECONDS, shown  # twice, on a slow machine
    if outcome.status == 0 and kind != "study":
        try:
            result = planner.load(asked).evaluate()
            for name in HEADLINES:
                assert result[name].value is not None or result[name].absent, shown
        except planner.PlanError:
            pass  # some faults are found on the way


def large(kind: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Keys with what is too much of what they take: texts of texts, lists of lists."""
    for path, said in documents.keys(kind):
        kinds = str(said.get("type", "")) + str(said.get("anyOf", "")) if said else ""
        for word, values in (("string", (0, 1, 2, 6)), ("array", (3, 4)), ("object", (5,))):
            if word in kinds or not kinds:
                yield from ((path, MUCH[number]) for number in values)


def main() -> int:
    """Try every value for every key; exit status 1 where one is an internal error."""
    parser = argparse.ArgumentParser(prog="python -m fuzz.schema_walk", description=__doc__)
    parser.add_argument("--kind", choices=sorted(BASES), action="append", help="of documents")
    parser.add_argument("--part", default="0/1", help="every Nth from the Ith on, as I/N")
    options = parser.parse_args()
    wrong = seen = 0
    first, step = map(int, options.part.split("/"))
    for kind in options.kind or BASES:
        every = [(path, value) for path in paths(kind) for value in WRONG]
        for path, value in [*every, *large(kind)][first::step]:
            seen += 1
            with tempfile.TemporaryDirectory() as folder:
                try:
                    tried(kind, path, value, Path(folder))
                except AssertionError as error:
                    wrong += 1
                    print(f"{kind} {'.'.join(path)}: {value[:60]}: {error}")
        print(f"{kind}: {seen} tried so far, {wrong} wrong", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
