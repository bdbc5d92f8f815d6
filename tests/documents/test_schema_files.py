"""The schemas by themselves: programs of others read them, and accept every document that ours
accepts, as it was written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

import pytest
import yaml
from jsonschema import Draft7Validator
from referencing import Registry, Resource

from benchmarks import schemas
from planner.documents import schema_files
from tests.conftest import read_data

ROOT = Path(__file__).parents[2]
SCHEMAS = {
    file.name.removesuffix(".schema.json"): json.loads(file.read_text("utf-8"))
    for file in (ROOT / "schemas").glob("*.json")
}
FOLDERS = read_data("documents")["folders_of_schemas"]
BAD = {"training": {"tokens": "many"}, "model": {"layers": "banana"}, "cluster": {"price": "5 EUR"}}


def kind_of(file: Path, kind: str) -> str:
    """The kind of a document: that of its folder, or of a test document its own."""
    keys = yaml.safe_load(file.read_text("utf-8")).keys()
    return "study" if "axes" in keys else "accelerator" if "memory_bandwidth" in keys else kind


@cache
def documents() -> dict[str, tuple[str, Any]]:
    """Every document that ships or is tested, with its kind, as written, and parts of plans."""
    found = {
        file.relative_to(ROOT).as_posix(): (
            kind_of(file, kind) if kind == "plan" else kind,
            yaml.safe_load(file.read_text("utf-8")),
        )
        for kind, folders in FOLDERS.items()
        for folder in folders
        for file in sorted((ROOT / folder).glob("*.yaml"))
    }
    for change in PARTIAL:
        found[json.dumps(change)] = ("plan", {"extends": "llama70b_h100x1024", **change})
    return found


#: Of plans that extend another, what changes a part of what that one has.
PARTIAL: list[dict[str, Any]] = read_data("documents")["partial_schemas"]
#: What a plan that extends none leaves out.
MISSING: list[dict[str, Any]] = read_data("documents")["missing_keys"]
#: What is wrong in any plan.
UNKNOWN: list[dict[str, Any]] = read_data("documents")["unknown_keys"]


def refused() -> Iterator[tuple[str, Any]]:
    """What no validator may accept, with its kind."""
    whole = documents()["presets/llama70b_h100x1024.yaml"][1]
    for section, change in BAD.items():
        inner = whole[section] if isinstance(whole[section], dict) else {"extends": "llama2-70b"}
        yield "plan", {**whole, section: {**inner, **change}}
    yield "plan", {**whole, "parallelism": "fast"}
    yield "cluster", {"accelerator": "h100", "devices": 8, "price": 2.5}
    small = {"model": "llama2-7b", "cluster": "8 x h100", "training": {}}
    yield from (("plan", {**small, **change}) for change in MISSING)
    yield from (("plan", {"extends": "llama70b_h100x1024", **change}) for change in UNKNOWN)
    yield "model", {"layers": 40}
    yield "cluster", {"devices": 64}
    yield "accelerator", {"memory": "80 GiB"}


def references(node: Any) -> Iterator[str]:
    """What a schema refers to, wherever it does."""
    if isinstance(node, dict) and isinstance(node.get("$ref"), str):
        yield node["$ref"]
    for inner in node.values() if isinstance(node, dict) else node:
        if isinstance(inner, (dict, list)):
            yield from references(inner)


@pytest.mark.parametrize("kind", sorted(SCHEMAS))
def test_a_schema_refers_to_files_beside_it(kind: str) -> None:
    """By their names, and has no name of its own: no address that somebody would have to serve."""
    assert "$id" not in SCHEMAS[kind]
    made = schemas.derive_schemas().get(kind)
    assert made is None or made == SCHEMAS[kind], "python -m benchmarks.schemas"
    for reference in references(SCHEMAS[kind]):
        name, _, pointer = reference.partition("#")
        target = SCHEMAS[name.removesuffix(".schema.json") or kind]
        for step in filter(None, pointer.split("/")):
            target = target[step.replace("~1", "/")]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", sorted(schema_files.KINDS))
def test_jsonschema_accepts_what_we_accept(kind: str, tmp_path: Path) -> None:
    """By the files as they lie, in any folder, and by one file that holds them all. What a schema
    refers to is looked for by its `$id`, or without one beside it, as check-jsonschema does."""
    folder = shutil.copytree(ROOT / "schemas", tmp_path / "a folder")
    path = folder / f"{kind}.schema.json"
    base = SCHEMAS[kind].get("$id") or path.as_uri()

    def beside(uri: str) -> Resource[Any]:
        """Read a file, and nothing else."""
        parts = urlsplit(urljoin(base, uri))
        assert parts.scheme == "file", uri
        return Resource.from_contents(json.loads(Path(url2pathname(parts.path)).read_text()))

    registry: Any = Registry(retrieve=beside)  # type: ignore[call-arg]
    alone = json.loads(schema_files.format_schema(schema_files.build_bundle(kind)))
    assert alone["$id"] == schema_files.get_schema_url(kind)
    assert all(reference.startswith("#") for reference in references(alone))
    by_path = {"$ref": path.as_uri()}
    checks = [Draft7Validator(schema, registry=registry) for schema in (SCHEMAS[kind], by_path)]
    for check in (*checks, Draft7Validator(alone)):
        for name, (its, data) in documents().items():
            if its == kind:
                assert not [error.message for error in check.iter_errors(data)], name
        for its, data in refused():
            if its == kind:
                assert not check.is_valid(data), data


AJV = """
const Ajv = require("ajv").default, fs = require("fs");
const {sets, documents, refused} = JSON.parse(fs.readFileSync(0, "utf-8"));
const wrong = [];
let checked = 0;
for (const schemas of sets) {
  const ajv = new Ajv({strict: true, allErrors: true});
  for (const [name, schema] of schemas) ajv.addSchema(schema, name);
  const named = schemas.map(([name]) => name);
  for (const name of named) ajv.getSchema(name);
  const of = kind => named.find(name => name.endsWith(`${kind}.schema.json`));
  for (const [name, kind, data] of documents.filter(([_, kind]) => of(kind))) {
    const check = ajv.getSchema(of(kind));
    checked += 1;
    if (!check(data)) wrong.push([name, check.errors]);
  }
  for (const [kind, data] of refused.filter(([kind]) => of(kind)))
    if (ajv.getSchema(of(kind))(data)) wrong.push(["accepted", data]);
}
console.log(JSON.stringify({checked, wrong}));
"""


@cache
def node_modules() -> str | None:
    """The folder of npm's packages that has ajv: NODE_PATH, or npm's global one."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None:
        return None
    folders = os.environ.get("NODE_PATH", "").split(os.pathsep)
    if npm is not None:
        found = subprocess.run([npm, "root", "-g"], capture_output=True, text=True, check=False)
        folders += [line for line in found.stdout.splitlines() if line.startswith(os.sep)]
    return next((f for f in folders if f and (Path(f) / "ajv/package.json").is_file()), None)


def test_ajv_in_strict_mode_accepts_what_we_accept() -> None:
    modules = node_modules()
    if modules is None:
        pytest.skip("node with ajv is not there (CONTRIBUTING.md)")
    whole = [(kind, schema_files.build_bundle(kind)) for kind in schema_files.KINDS]
    bundles = [[(schema_files.get_schema_url(kind), schema)] for kind, schema in whole]
    files = [(f"{kind}.schema.json", schema) for kind, schema in SCHEMAS.items()]
    given = {
        "sets": [files, *bundles],
        "documents": [[name, kind, data] for name, (kind, data) in documents().items()],
        "refused": list(refused()),
    }
    found = subprocess.run(
        ["node", "-e", AJV],
        input=json.dumps(given, default=str),
        capture_output=True,
        text=True,
        env={**os.environ, "NODE_PATH": modules},
        check=False,
    )
    assert found.returncode == 0, found.stderr[-2000:]
    assert json.loads(found.stdout) == {"checked": 2 * len(documents()), "wrong": []}


@pytest.mark.slow
def test_a_line_is_the_way_to_a_schema(tmp_path: Path) -> None:
    inside = schema_files.make_schema_line("plan", ROOT / "presets" / "new.yaml")
    assert inside == "# yaml-language-server: $schema=../schemas/plan.schema.json"
    assert schema_files.make_schema_line("plan", tmp_path / "plan.yaml").endswith(
        schema_files.get_schema_url("plan")
    )
    beside = tmp_path / "plan.schema.json"
    beside.write_text(schema_files.format_schema(schema_files.build_bundle("plan")), "utf-8")
    assert schema_files.make_schema_line("plan", tmp_path / "plan.yaml").endswith(
        "$schema=plan.schema.json"
    )
    for name in documents():
        if name.startswith("presets/"):
            first = (ROOT / name).read_text("utf-8").partition("\n")[0]
            target = first.partition("$schema=")[2]
            assert target and ((ROOT / name).parent / target).is_file(), name


def test_the_entry_for_a_catalogue_names_this_version() -> None:
    entry = json.loads((ROOT / "docs/schemastore.json").read_text("utf-8"))
    assert entry["url"] == schema_files.get_schema_url("plan") == [*entry["versions"].values()][-1]
