"""What mutation starts from: what ships, what the tests hold, and what the schemas allow."""

from __future__ import annotations

import ast
import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fuzz import values
from fuzz.tree import Tree, from_data
from planner.documents import json_schema

ROOT = Path(__file__).resolve().parent.parent
KINDS = (
    "plan", "model", "cluster", "accelerator", "config", "log", "arguments", "result", "study",
)  # fmt: skip


@cache
def texts(kind: str) -> tuple[str, ...]:
    """Whole documents of a kind, as written."""
    folders = {
        "plan": ["presets/*.yaml", "tests/documents/*/*.yaml"],
        "model": ["presets/models/*.yaml"],
        "cluster": ["presets/clusters/*.yaml"],
        "accelerator": ["presets/accelerators/*.yaml"],
        "config": [],
        "log": [f"tests/data/logs/*.{end}" for end in ("log", "csv", "jsonl")],
        "arguments": [],
        "result": [],
        "study": ["presets/studies/*.yaml"],
    }[kind]
    files = [file for pattern in folders for file in sorted(ROOT.glob(pattern)) if file.is_file()]
    found = [file.read_text("utf-8")[:20_000] for file in files]
    if kind in ("arguments", "result"):
        found = [_made(kind, file) for file in sorted(ROOT.glob("presets/*.yaml"))]
    if kind == "study":
        found += _STUDIES
    if kind == "plan":
        from fuzz import valid

        found += [valid.text(Random(number)).decode() for number in range(60)]
    if kind == "config":
        found = [json.dumps(config, indent=2) for config in _configs()]
    return tuple(found)


@cache
def trees(kind: str) -> tuple[Tree, ...]:
    """The same as trees, those that can be read."""
    import yaml

    found = []
    for text in texts(kind):
        if len(text) > 20_000 or "*" in text:  # aliases may stand for far more than they show
            continue
        try:
            data = json.loads(text) if kind == "result" else yaml.load(text, yaml.CSafeLoader)
            json.dumps(data)
        except (yaml.YAMLError, TypeError, ValueError):
            continue
        if isinstance(data, dict):
            found.append(from_data(data))
    return tuple(found)


#: Small studies with every form that a study has.
_STUDIES = [
    """\
name: a grid
base: gpt2small_hgx-h100
axes:
  training.micro_batch: [1, 2]
  training.sequence_length: {from: 256, to: 1024, factor: 2}
record: [memory.process, time.step_seconds, memory.stage]
where: ["memory.headroom >= 0", "time.training_days <= 90 days"]
""",
    """\
plans: [gpt2small_hgx-h100, {extends: gpt2small_hgx-h100, model: pythia-160m}]
combine: zip
axes:
  cluster.devices: {from: 8, to: 64, steps: 3, scale: log}
  training.tokens: [1B, 2B, 10 T]
invalid: drop
by: cost.total
limit: 1000
""",
    """\
base: {extends: gpt2small_hgx-h100, time: {mfu: null}}
axes:
  model: [gpt2-small, {extends: gpt2-small, layers: 6}, {parameters: 1B}]
  parallelism: [{tensor: 2, sequence: true}, {zero: 3}, llama70b_h100x1024]
  run:
    - {name: short, set: {training.tokens: 1B, training.precision: fp8}}
    - {name: long, set: {training.tokens: 3B, cluster.accelerator: a100-sxm-80gb}}
""",
    """\
notes: The best layout of each point.
base: gpt2small_hgx-h100
axes:
  parallelism: auto
  training.recompute: [none, full]
  time.mfu: {from: 0.1, to: 0.5, step: 0.2}
""",
]


def _made(kind: str, file: Path) -> str:
    """What the program writes for a plan and reads again: arguments of Megatron-LM, a result."""
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
    """One configuration per known class: what the class assumes."""
    said = json.loads((ROOT / "planner/connect/imports/classes.json").read_text("utf-8"))
    found = []
    for kind, about in said["types"].items():
        names = about.get("names", {})
        keys = {names.get(key, key): value for key, value in about.get("defaults", {}).items()}
        found.append({"model_type": kind, **keys})
    wrapped = [
        {"model_type": outer, "text_config": {"model_type": inner}}
        for outer, inner in list(said["wrappers"].items())[:20]
    ]
    rows = yaml.safe_load((ROOT / "planner/connect/imports/diffusion.yaml").read_text("utf-8"))
    patches = [
        {"_class_name": name, "caption_channels": 64, **row["defaults"]}
        for name, row in rows["types"].items()
    ]
    return found + wrapped + patches


# Documents from the schemas ----------------------------------------------------------------


@cache
def keys(kind: str) -> tuple[tuple[tuple[str, ...], Any], ...]:
    """Every key that a schema knows, by path, with what the schema says about it."""
    found: list[tuple[tuple[str, ...], Any]] = []

    def visit(said: Any, path: tuple[str, ...]) -> None:
        if not isinstance(said, dict) or len(path) > 6:
            return
        for keyword in ("allOf", "anyOf"):
            for part in said.get(keyword, ()):
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
    """Every word of the importer that could be a key of a configuration."""
    folder, words = ROOT / "planner" / "connect" / "imports", set[str]()
    for file in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
    for name in ("families", "diffusion"):
        words.update(re.findall(r"[a-z0-9_]+", (folder / f"{name}.yaml").read_text("utf-8")))
    return tuple(sorted(word for word in words if re.fullmatch(r"[a-z0-9]+(_[a-z0-9]+)+", word)))


def listed(random: Random) -> Tree:
    """A scalar, or as configurations have it a list with an item for each layer, more or less."""
    if random.random() < 0.5:
        return values.scalar(random)
    layers = random.choice((0, 1, 2, 12, 24, 32, 33))
    words = random.choice(
        (
            ("0", "1"),
            ("1", "2", "3"),
            ('"full_attention"', '"sliding_attention"'),
            ("true", "false"),
            ('"attention"', '"mamba"', '"moe"'),
            ("[]", "{}", "null"),
            ('"*"', '"M"', '"-"'),
            ("-1", "0.5"),
        )
    )
    items = [random.choice(words) for _ in range(layers)]
    if random.random() < 0.2:
        return '"' + "".join(random.choice("MG*-FLE") for _ in range(layers)) + '"'
    return items


def sample(random: Random, said: Any) -> Tree:
    """A value that the schema of a key suggests, or nearly so."""
    if not isinstance(said, dict):
        return values.scalar(random)
    roll = random.random()
    if roll < 0.35 and said.get("examples"):
        return from_data(random.choice(said["examples"]))
    if roll < 0.6 and said.get("enum"):
        return from_data(random.choice(said["enum"]))
    if roll < 0.7 and "minimum" in said:
        return str(said["minimum"] + random.choice((-1, 0, 0, 1)))
    if roll < 0.8 and "maximum" in said:
        return str(said["maximum"] + random.choice((-1, 0, 0, 1)))
    if said.get("type") == "boolean":
        return random.choice(("true", "false"))
    if "number" in str(said.get("type")) or "integer" in str(said.get("type")):
        return random.choice(
            ("1", "2", "4", "8", "64", "1000", "1e6", "1e12", values.scalar(random))
        )
    return values.scalar(random)
