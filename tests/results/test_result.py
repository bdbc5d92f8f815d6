"""Results: ids, entries, absence, exactness, and the JSON that others rely on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import planner
from planner.results.result import Result
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
LLAMA = "presets/llama70b_h100x1024.yaml"
MIXTRAL = "presets/mixtral8x7b_h100x1024.yaml"
SIZE_ONLY = read_data("plans")["a_size"]


@pytest.fixture(scope="module", params=[LLAMA, MIXTRAL, "size"])
def result(request: pytest.FixtureRequest) -> Result:
    return planner.load(SIZE_ONLY if request.param == "size" else request.param).evaluate()


@pytest.fixture(scope="module")
def llama() -> Result:
    return planner.load(LLAMA).evaluate()


def test_an_unknown_id_is_told_its_nearest_spelling(llama: Result) -> None:
    with pytest.raises(KeyError, match=r"parameters\.total"):
        llama["parameters.totl"]
    assert "parameters.totl" not in llama


def test_an_entry_is_named_in_brackets(llama: Result) -> None:
    query = llama["parameters.component[layer.attention.query]"]
    assert query.value == 8192 * 64 * 128
    assert query.id == "parameters.component[layer.attention.query]"
    assert (query.formula, query.substituted) == (
        "h · a · d_h",
        "8,192 × 64 × 128",
    )
    with pytest.raises(KeyError, match="query"):
        llama["parameters.component[layer.attention.qery]"]


def test_the_entries_of_what_is_folded(llama: Result) -> None:
    """memory.activations.layer is the largest over the layer kinds; [KIND] is each of them."""
    each = llama["memory.activations.layer[layer]"]
    assert each.value == llama["memory.activations.layer"].value


def test_what_is_absent_says_why() -> None:
    result = planner.load(SIZE_ONLY).evaluate()
    layers = result["parameters.per_layer"]
    assert layers.value is None
    assert "size" in (layers.absent or "")
    assert "parameters.per_layer" not in result
    assert result.absent["parameters.per_layer"] == layers.absent
    assert result["parameters.total"].value == 70 * 10**9


def test_what_rests_on_an_estimate_is_one(result: Result) -> None:
    for quantity in result.quantities.values():
        if quantity.exact:
            assert all(used.exact for used in quantity.uses), quantity.id
    assert not result["compute.training_flops_6nd"].exact


def test_used_by_is_uses_backwards(result: Result) -> None:
    known = set(result.quantities)
    for quantity in result.quantities.values():
        for used in quantity.uses:
            assert used.id in known, f"{quantity.id} rests on {used.id}, which has no value"
            assert quantity.id in [user.id for user in used.used_by]


def test_terms_add_up(result: Result) -> None:
    for quantity in result.quantities.values():
        if quantity.terms and not isinstance(quantity.value, str):
            values = [term.value for term in quantity.terms]
            if any(isinstance(value, float) for value in values):  # below a root
                total = sum(map(Fraction, values))  # type: ignore[arg-type]
                assert float(quantity.number) == pytest.approx(float(total), rel=1e-12), quantity.id
                continue
            total = sum(values)  # type: ignore[arg-type]
            assert 0 <= quantity.number - total < 1, quantity.id  # a sum may be rounded up


def test_the_json_is_what_its_schema_says(result: Result) -> None:
    schema = json.loads((ROOT / "schemas" / "result.schema.json").read_text())
    data = json.loads(json.dumps(result.to_json(), allow_nan=False))
    faults = [
        f"{list(e.path)}: {e.message}" for e in jsonschema.Draft7Validator(schema).iter_errors(data)
    ]
    assert faults == []
    assert list(data["quantities"]) == list(result)


@pytest.mark.slow
def test_integers_are_exact_in_json(llama: Result) -> None:
    data = json.loads(json.dumps(llama.to_json()))["quantities"]
    assert data["compute.training_flops"]["value"] == llama["compute.training_flops"].value
    assert isinstance(data["compute.training_flops"]["value"], int)
    assumed = (
        planner.load(LLAMA, {"time.mfu": 0.5, "time.use": "assumed"})
        .evaluate()
        .to_json()["quantities"]
    )
    assert assumed["time.mfu"]["value"] == 0.5


@pytest.mark.slow
def test_the_json_does_not_depend_on_what_was_asked_before() -> None:
    asked = planner.load(LLAMA).evaluate()
    for identifier in ("time.training_days", "memory.total", "compute.component[layer.mlp.up]"):
        assert asked[identifier].formula
    assert asked.to_json() == planner.load(LLAMA).evaluate().to_json()


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_process(tmp_path: Path) -> None:
    def run(seed: str) -> list[bytes]:
        environment = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "TZ": "Asia/Tokyo" if seed == "1" else "UTC",
            "LC_ALL": "C" if seed == "1" else "C.UTF-8",
            "PYTHONUTF8": "1",
        }
        files = [tmp_path / f"report.{kind}" for kind in ("json", "md", "html")]
        done = subprocess.run(
            [sys.executable, "plan.py", MIXTRAL, *(f"-o{file}" for file in files)],
            cwd=ROOT,
            capture_output=True,
            env=environment,
            check=True,
        )
        return [done.stdout, *(file.read_bytes() for file in files)]

    assert run("1") == run("2")


def test_the_verdict_is_the_sign_of_the_headroom(llama: Result) -> None:
    headroom = llama["memory.headroom"]
    assert llama.verdict == {"fits": headroom.number >= 0, "state": "fits", "reason": None}
    tight: dict[str, Any] = {
        "parallelism.tensor": 1,
        "parallelism.pipeline": 1,
        "parallelism.sequence": False,
    }
    assert planner.load(LLAMA, set=tight).evaluate().verdict["fits"] is False
    unknown = planner.load(SIZE_ONLY).evaluate().verdict
    assert (unknown["fits"] is None) == bool(unknown["reason"])


def test_inputs_say_who_decided() -> None:
    result = planner.load(LLAMA, set={"training.tokens": "2T"}).evaluate()
    assert result.inputs["training.tokens"].origin == "--set"
    assert result.inputs["training.tokens"].value == 2 * 10**12
    assert result.inputs["model.hidden"].origin == "preset llama2-70b"
    assert result.inputs["training.micro_batch"].origin.endswith("llama70b_h100x1024.yaml:9")
    assert result.inputs["parallelism.data"].kind == "derived"
    assert result.hash_input() != planner.load(LLAMA).evaluate().hash_input()
