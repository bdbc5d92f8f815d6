"""Measuring through PyTorch, on the CPU; left out where PyTorch is not installed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.cli import main as cli
from planner.connect import compare
from planner.connect.measure import step
from planner.connect.measure.jobs import (
    Attention,
    Collective,
    Elementwise,
    Launches,
    Product,
    Traffic,
)
from planner.questions import loading

torch = pytest.importorskip("torch")
engine = pytest.importorskip("planner.connect.measure.engine")
training = pytest.importorskip("planner.connect.measure.training")

GPT = {
    "layers": 3,
    "hidden": 64,
    "vocab": 500,
    "max_sequence": 64,
    "attention": {"heads": 4},
    "mlp": {"activation": "gelu"},
    "norm": "layernorm",
    "positions": "learned",
    "bias": True,
    "tied_embeddings": True,
}
LLAMA = {
    **GPT,
    "attention": {"heads": 4, "kv_heads": 2},
    "mlp": {"gated": True, "activation": "silu", "intermediate": 96},
    "positions": "rope",
    "bias": False,
    "tied_embeddings": False,
}
MOE = {**LLAMA, "moe": {"experts": 4, "top_k": 2, "intermediate": 32, "shared_experts": 1}}
MODELS = {
    "gpt": GPT,
    "llama": LLAMA,
    "experts": MOE,
    "query-norms": {**LLAMA, "attention": {"heads": 4, "kv_heads": 2, "qk_norm": "head"}},
    "parallel": {**GPT, "parallel": True, "positions": "rope"},
    "sandwich": {**LLAMA, "norm_placement": "sandwich"},
    "post": {**GPT, "norm_placement": "post", "mlp": {"activation": "gelu_new"}},
}


def document(model: dict[str, Any], **run: Any) -> dict[str, Any]:
    return {
        "model": model,
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
        "training": {"sequence_length": 64, "micro_batch": 2, "precision": "fp32", **run},
    }


@pytest.fixture
def run(tmp_path: Path) -> Any:
    def go(model: dict[str, Any], **training_keys: Any) -> step.Beside:
        file = tmp_path / "plan.json.yaml"
        file.write_text(json.dumps(document(model, **training_keys)), encoding="utf-8")
        return step.step(loading.load(file), device="cpu", steps=1)

    return go


def row(found: step.Beside, identifier: str) -> compare.Row:
    return next(each for each in found.rows if each.quantity.id == identifier)


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_of_the_plan_is_trained(run: Any, name: str) -> None:
    found = run(MODELS[name])
    one = row(found, "parameters.total")
    assert one.measured == one.planned
    assert row(found, "time.step_seconds").measured > 0
    assert (
        row(found, "time.tokens_per_second").measured
        == 128 / row(found, "time.step_seconds").measured
    )


@pytest.mark.parametrize("activation", ["gelu", "gelu_new", "silu", "relu"])
@pytest.mark.parametrize("attention", ["flash", "eager"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_layer_keeps_the_bytes_that_are_planned(
    run: Any, precision: str, attention: str, activation: str
) -> None:
    model = {**GPT, "mlp": {"activation": activation}}
    found = run(model, precision=precision, attention=attention)
    one = row(found, "memory.activations.layer")
    assert one.measured == one.planned
    # The loss keeps one number besides.
    every = row(found, "memory.activations.stage[0]")
    assert 0 <= every.measured - every.planned <= 8


def test_gated_layers_with_rotary_positions_keep_the_bytes_that_are_planned(run: Any) -> None:
    found = run({**LLAMA, "norm": "layernorm"})
    one = row(found, "memory.activations.layer")
    assert one.measured == one.planned


def test_live_tensors_come_near_the_plan(run: Any) -> None:
    found = row(run({**GPT, "vocab": 5000}), "memory.total")
    assert found.ratio == pytest.approx(1, abs=0.05)


def test_recomputing_keeps_less_alive(run: Any) -> None:
    wide = {**GPT, "layers": 8, "vocab": 64}
    whole, again = run(wide), run(wide, recompute="full")
    assert row(again, "memory.total").measured < row(whole, "memory.total").measured
    selective = run(wide, recompute="selective", attention="eager")
    assert row(selective, "parameters.total").ratio == 1


def test_the_table_and_its_json_hold_the_same(run: Any) -> None:
    found = run(GPT)
    tree = json.loads(step.data(found))
    assert [row["id"] for row in tree["quantities"]] == [row.quantity.id for row in found.rows]
    assert tree["layers"] == 3 and tree["torch"] == torch.__version__
    text = step.text(found)
    assert "predicted/measured" in text and "3 of the model's 3 layers" in text


def test_experts_and_rmsnorm_on_a_cpu_are_remarked(run: Any) -> None:
    notes = " ".join(run({**MOE, "norm": "rmsnorm"}).notes)
    assert "experts run one after another" in notes and "RMSNorm" in notes


def test_the_command_prints_a_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text(json.dumps(document(GPT)), encoding="utf-8")
    options = ["measure", "--step", str(plan), "--device", "cpu", "--layers", "1", "--steps", "1"]
    assert cli.main([*options, "--format", "json", "--set", "training.micro_batch=1"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["layers"] == 1 and tree["training"]["micro_batch"] == 1


@pytest.mark.parametrize(
    "job",
    [
        Product("fp32", 64, 64, 64),
        Product("bf16", 64, 72, 64),
        Traffic("read", 2**16),
        Traffic("copy", 2**16),
        Traffic("triad", 2**16),
        Attention("fp32", "flash", 1, 2, 32, 64),
        Attention("fp32", "math", 1, 2, 32, 64, False),
        Elementwise("bf16", 16, 32),
        Launches(1),
    ],
    ids=str,
)
def test_a_benchmark_takes_its_time(job: Any) -> None:
    times = engine.Engine("cpu").times(job, 0)
    assert len(times) >= 3 and all(0 < each < 10 for each in times)


def test_a_benchmark_that_cannot_run_is_left_out() -> None:
    assert engine.Engine("cpu").times(Attention("fp32", "efficient", 1, 2, 32, 64), 0) == []


def test_what_the_cpu_says_about_itself() -> None:
    machine = engine.Engine("cpu").machine()
    assert machine.device == "cpu" and machine.memory > 2**20 and "fp32" in machine.formats
    assert machine.torch == torch.__version__ and "thread" in machine.name


def test_devices_that_are_not_there_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(PlanError, match="--device cuda: PyTorch sees no such device"):
        engine.Engine("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(PlanError, match="there are 2 GPUs"):
        engine.Engine("cuda", processes=4)
    assert engine.Engine("cuda").processes == 2


def test_what_a_gpu_says_about_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """No GPU is needed: PyTorch's answers are stood in for."""
    given = SimpleNamespace(
        major=9, minor=0, multi_processor_count=132, clock_rate=1980000, total_memory=85_000_000_000
    )
    for name, answer in {
        "is_available": lambda: True,
        "device_count": lambda: 8,
        "get_device_properties": lambda where: given,
        "get_device_capability": lambda where: (9, 0),
        "get_device_name": lambda where: "NVIDIA H100 80GB HBM3",
        "is_bf16_supported": lambda: True,
    }.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(engine.Engine, "_formats", lambda self: iter(("fp32", "bf16")))
    machine = engine.Engine().machine()
    assert (machine.device, machine.architecture) == ("cuda", "hopper")
    assert (machine.multiprocessors, machine.clock) == (132, 1_980_000_000)
    assert machine.name == "NVIDIA H100 80GB HBM3" and machine.memory == 85_000_000_000


@pytest.mark.slow
def test_two_processes_exchange() -> None:
    jobs = [
        Collective(kind, 2**14, 2) for kind in ("all-reduce", "all-gather", "all-to-all", "none")
    ]
    found = engine.Engine("cpu", 2).collectives(jobs[:3], 0.1)
    assert set(found) == set(jobs[:3])
    assert all(0 < each < 10 for each in found[jobs[0]])
    with pytest.raises(PlanError, match=r"a process of collectives failed: .*KeyError: 'none'"):
        engine.Engine("cpu", 2).collectives(jobs[3:], 0.1)


@pytest.mark.slow
def test_a_document_of_this_machine_predicts_a_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, plan = tmp_path / "mine.yaml", tmp_path / "plan.yaml"
    plan.write_text(json.dumps(document({**GPT, "hidden": 256})), encoding="utf-8")
    both = ["-o", str(file), "--step", str(plan), "--device", "cpu", "--seconds", "1"]
    assert cli.main(["measure", *both, "--format", "json"]) == 0
    rows = {row["id"]: row for row in json.loads(capsys.readouterr().out)["quantities"]}
    assert rows["time.step_seconds"]["predicted"] > 0
    read = loading.load(document(GPT), [f"cluster.accelerator={file}"])
    assert read.get("cluster.accelerator.name") == engine.Engine("cpu").machine().name
