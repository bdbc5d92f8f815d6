"""Measuring through PyTorch, on the CPU; left out where PyTorch is not installed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.cli import main as cli
from planner.connect.measure import expected
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
    times = engine.Engine("cpu").time_job(job, 0)
    assert len(times) >= 3 and all(0 < each < 10 for each in times)


def test_a_benchmark_that_cannot_run_is_left_out() -> None:
    assert engine.Engine("cpu").time_job(Attention("fp32", "efficient", 1, 2, 32, 64), 0) == []


def test_what_the_cpu_says_about_itself() -> None:
    machine = engine.Engine("cpu").read_machine()
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
    monkeypatch.setattr(engine.Engine, "_list_formats", lambda self: iter(("fp32", "bf16")))
    machine = engine.Engine().read_machine()
    assert (machine.device, machine.architecture) == ("cuda", "hopper")
    assert (machine.multiprocessors, machine.clock) == (132, 1_980_000_000)
    assert machine.name == "NVIDIA H100 80GB HBM3" and machine.memory == 85_000_000_000


@pytest.mark.slow
def test_two_processes_exchange() -> None:
    jobs = [
        Collective(kind, 2**14, 2) for kind in ("all-reduce", "all-gather", "all-to-all", "none")
    ]
    found = engine.Engine("cpu", 2).time_group(jobs[:3], 0.1)
    assert set(found) == set(jobs[:3])
    assert all(0 < each < 10 for each in found[jobs[0]])
    with pytest.raises(PlanError, match=r"a process of collectives failed: .*KeyError: 'none'"):
        engine.Engine("cpu", 2).time_group(jobs[3:], 0.1)


def test_the_layers_that_are_launched_are_those_that_the_count_of_launches_is_of() -> None:
    plan = expected.make_tiny(Launches())
    weights = sum(weight.numel() for weight in engine.Layer(plan).parameters())
    assert weights == expected.find_value(plan, "parameters.per_layer")


@pytest.mark.slow
def test_a_document_of_this_machine_predicts_a_step(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    assert cli.main(["measure", "-o", str(file), "--device", "cpu", "--seconds", "1"]) == 0
    document = {
        "model": "gpt2-small",
        "cluster": {"accelerator": str(file), "devices": 1},
        "training": {"sequence_length": 64, "micro_batch": 2, "precision": "fp32"},
    }
    read = loading.load(document)
    assert read.get("cluster.accelerator.name") == engine.Engine("cpu").read_machine().name
    assert expected.find_value(read, "time.step_seconds") > 0
