"""The measuring command with a stand-in for the machine: what is written and refused."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from planner.base import files
from planner.base.errors import PlanError
from planner.cli import main as cli
from planner.connect.measure import expected, machine, rates, writing
from planner.connect.measure.jobs import (
    Attention,
    Collective,
    Elementwise,
    Job,
    Launches,
    Machine,
    Product,
    Traffic,
)
from planner.documents import schema, source
from planner.questions import loading
from planner.results.result import evaluate_plan
from tests.conftest import read_data

CPU = Machine("cpu", 'A "fast": CPU', 2**34, "2.13.0", ("fp32", "bf16"))
GPU = Machine("cuda", "GPU", 80 * 2**30, "2.13.0", ("bf16",), "hopper", 132, 1830000000)
# What the stand-in sustains: FLOP/s, bytes/s, seconds.
RATES = {"fp32": 50e9, "bf16": 200e9}
BANDWIDTH = {"read": 40e9, "copy": 20e9, "triad": 30e9}
ATTENTION, HOP, LINK, LAUNCH = 80e9, 20e-6, 2e9, 15e-6


class Ideal:
    """A machine that takes exactly as long as its rates say, but for one slow repetition."""

    def __init__(self, facts: Machine = CPU, processes: int = 1) -> None:
        self.facts, self.processes = facts, processes

    def read_machine(self) -> Machine:
        return self.facts

    def time_job(self, job: Job, seconds: float) -> list[float]:
        once = self._once(job)
        return [] if once is None else [once, once, once, once * 1.25]

    def _once(self, job: Job) -> float | None:
        match job:
            case Product():
                # A wider one by 8 takes half as long again; none wastes anything otherwise.
                uneven = 1.5 if job.columns % 64 else 1
                return 2 * job.rows * job.columns * job.depth * uneven / RATES[job.form]
            case Traffic():
                return job.moved / BANDWIDTH[job.kind]
            case Attention(kernel="flash"):
                # Two products forward, five backward at 4/5 of the rate; a causal kernel skips
                # whole blocks of 128 keys.
                seen = (job.length + 128) / 2 if job.causal else job.length
                pairs = job.batch * job.heads * job.length * seen
                work = 2 * pairs * 2 * job.width * (1 + 2.5 / 0.8)
                return work / (ATTENTION * min(1, job.width / 128) ** 0.1)
            case Elementwise():
                return 0.01
            case Launches():
                return job.layers * 3 * 24 * LAUNCH  # as PyTorch's profile counts them
        return None

    def time_group(self, jobs: list[Collective], seconds: float) -> dict[Collective, list[float]]:
        return {job: [self._exchange(job)] * 3 for job in jobs}

    @staticmethod
    def _exchange(job: Collective) -> float:
        others = job.processes - 1
        ring = 2 * others / job.processes * job.size / LINK + 2 * others * HOP
        return {"all-reduce": ring, "all-gather": ring / 2}.get(
            job.kind, others / job.processes * job.size / (LINK / 2)
        )


def measured(backend: Any, **more: Any) -> dict[str, Any]:
    text = writing.write_device(machine.measure_machine(backend, **more))
    return yaml.safe_load(text)


@pytest.mark.slow
def test_what_the_machine_sustains_is_written() -> None:
    found = measured(Ideal(processes=4))
    assert found["name"] == CPU.name and found["memory"] == "16384 MiB"
    assert found["memory_bandwidth"] == "40 GB/s"  # the fastest of all passes
    assert found["peaks"]["bf16"] == {"value": "200 GFLOP/s", "convention": "dense"}
    assert found["peaks"]["fp32"] == {"value": "50 GFLOP/s", "convention": "dense"}
    shares = {key: fact["value"] for key, fact in found["efficiency"].items()}
    assert shares["matmul"] == shares["matmul_fp32"] == 1
    assert shares["attention_open"] == pytest.approx(80 / 200, rel=1e-3)
    assert shares["attention_open_fp32"] == pytest.approx(80 / 50, rel=1e-3)
    assert shares["alignment"] == pytest.approx(1.5, rel=0.02)
    assert shares["launch"] == "15 us"
    assert shares["memory"] == pytest.approx(0.625, abs=0.126)  # copies half, triads three quarters
    assert found["link"]["bandwidth"] == "2 GB/s" and found["link"]["convention"] == "per-direction"
    assert shares["link"] == 1 and shares["all_to_all"] == pytest.approx(0.5, rel=1e-3)
    assert found["link"]["latency"] == "20 us"
    low, high = found["efficiency"]["matmul"]["interval"]
    assert low < 0.85 and high == 1  # one repetition of four was a quarter slower
    assert "measured with plan.py measure" in found["sources"][0]["text"]


@pytest.mark.slow
def test_the_document_is_the_same_each_time_and_without_a_date() -> None:
    first, second = (
        writing.write_device(machine.measure_machine(Ideal(processes=2))) for _ in range(2)
    )
    assert first == second
    assert not re.search(r"\b20\d\d-\d\d", first)
    assert "1024" in first and "runs" in first  # comments say the sizes


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_plan_on_the_document_predicts_the_times_that_were_measured(
    tmp_path: Path, precision: str
) -> None:
    files.write_text(tmp_path / "mine.yaml", writing.write_device(machine.measure_machine(Ideal())))
    (tmp_path / "plan.yaml").write_text(
        "model: {layers: 1, hidden: 1024, vocab: 1024, max_sequence: 1024, norm: layernorm,\n"
        "  positions: none, attention: {heads: 8, head_dim: 128}, mlp: {intermediate: 2048}}\n"
        "cluster: {accelerator: mine.yaml, devices: 1}\n"
        "training: {sequence_length: 1024, micro_batch: 1, implementation: pytorch, precision: "
        f"{precision}}}\n",
        encoding="utf-8",
    )
    result = evaluate_plan(loading.load(tmp_path / "plan.yaml"))
    machine_ = Ideal()
    product = machine_._once(Product(precision, 1024, 2048, 1024))
    predicted = result["time.product.forward[layer.mlp.up]"].value
    assert float(predicted) == pytest.approx(product, rel=1e-3)
    core = machine_._once(Attention(precision, "flash", 1, 8, 128, 1024))
    both = [result[f"time.core.{way}[layer.attention]"].value for way in ("forward", "backward")]
    assert float(sum(both)) == pytest.approx(core, rel=0.04)  # the median of two widths
    assert result["time.step_seconds"].value > 0


@pytest.mark.slow
def test_beside_a_datasheet_only_shares_are_written() -> None:
    RATES["bf16"], before = 600e12, RATES["bf16"]
    try:
        found = measured(Ideal(GPU), extends="h100-sxm-80gb")
    finally:
        RATES["bf16"] = before
    assert "peaks" not in found and "memory" not in found and "memory_bandwidth" not in found
    assert found["extends"] == "h100-sxm-80gb"
    # 600 of 989.5 TFLOP/s, and what tiles and shallow products waste besides.
    assert 0.6 < found["efficiency"]["matmul"]["value"] < 0.95
    read = schema.validate(source.load(found, kind="accelerator"), "accelerator").data
    preset = schema.validate(
        source.load({"extends": "h100-sxm-80gb"}, kind="accelerator"), "accelerator"
    )
    assert read["peaks"] == preset.data["peaks"]


def test_figures_of_datasheets_are_read_in_their_convention() -> None:
    """NVIDIA prints 4.5 PFLOP/s of bf16 with sparsity for a B200, 2.25 without; and 900 GB/s of
    NVLink for an H100, which is 450 each way."""
    assert expected.to_dense({"value": "4500 TFLOP/s", "convention": "sparse"}) == 2.25e15
    assert expected.to_dense({"value": "989.5 TFLOP/s", "convention": "dense"}) == 989.5e12
    assert expected.to_direction({"bandwidth": "900 GB/s", "convention": "bidirectional"}) == 450e9
    assert expected.to_direction({"bandwidth": "25 GB/s", "convention": "per-direction"}) == 25e9


def test_shares_of_one_format_hold_for_it_alone() -> None:
    own = {"value": "100 TFLOP/s", "convention": "dense"}
    accelerator = {
        "memory": "80 GB",
        "memory_bandwidth": "1 TB/s",
        "peaks": {"fp32": own, "bf16": own},
        "efficiency": {
            "matmul": {"value": 0.5, "rows": "a"},
            "matmul_fp32": {"value": 0.25, "rows": "b"},
            "launch": {"value": "3 us", "rows": "c"},
        },
    }
    document = {
        "model": "gpt2-small",
        "cluster": {"accelerator": accelerator, "devices": 1},
        "training": {"sequence_length": 1024, "micro_batch": 1},
    }
    half = loading.load(document, ["training.precision=bf16"])
    full = loading.load(document, ["training.precision=fp32"])
    assert half.get("time.efficiency.matmul") == Fraction(1, 2)
    assert full.get("time.efficiency.matmul") == full.get("time.efficiency.matmul_16") == 0.25
    assert full.get("time.efficiency.launch") == Fraction(3, 10**6)


def test_a_misspelt_share_is_told() -> None:
    text = {"extends": "h100-sxm-80gb", "efficiency": {"matmull": {"value": 1, "rows": "x"}}}
    with pytest.raises(PlanError, match="matmull"):
        schema.validate(source.load(text, kind="accelerator"), "accelerator")
    like = {"extends": "h100-sxm-80gb", "efficiency": {"like": "h100-sxm-80g"}}
    plan = {"model": "gpt2-small", "cluster": {"accelerator": like, "devices": 1}}
    plan["training"] = {"sequence_length": 1024, "micro_batch": 1}
    with pytest.raises(PlanError, match=r"like: unknown accelerator 'h100-sxm-80g'.*h100-sxm-80gb"):
        loading.load(plan)


def test_what_small_widths_cost_is_divided_out() -> None:
    """Times made with a width of 50 give the width and the rate back, whatever the sizes."""
    facts = {"multiprocessors": 132}
    jobs = [Product("bf16", 4096, 4096, 4096 // part) for part in (1, 2, 4, 8)]
    models = {job: expected.ProductTime(job, facts) for job in jobs}
    small = models[jobs[0]].small_dimension / 2
    times = {job: [models[job].predict_time(5e14, small)] * 3 for job in jobs}
    sustained, width = rates.fit_products(times, models)
    assert width == small
    assert all(each == pytest.approx([5e14] * 3) for each in sustained.values())
    assert len(sustained) == 4


def test_a_format_or_kernel_that_does_not_run_is_left_out() -> None:
    class Poor(Ideal):
        def time_job(self, job: Job, seconds: float) -> list[float]:
            missing = isinstance(job, Attention) or getattr(job, "form", "") == "fp32"
            return [] if missing else super().time_job(job, seconds)

    found = measured(Poor())
    assert set(found["peaks"]) == {"bf16"}
    assert not any(key.startswith("attention") for key in found["efficiency"])
    with pytest.raises(PlanError, match="no benchmark runs"):
        machine.measure_machine(
            SimpleNamespace(read_machine=lambda: CPU, time_job=lambda *_: [], processes=1)
        )


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command runs on the stand-in; PyTorch is not asked for."""
    module: Any = ModuleType("planner.connect.measure.engine")
    module.Engine = lambda device, processes: Ideal(processes=processes or 1)
    monkeypatch.setitem(sys.modules, "planner.connect.measure.engine", module)
    monkeypatch.setattr("planner.connect.measure.engine", module, raising=False)
    monkeypatch.setattr("planner.cli.measure.need_torch", lambda: None)
    return module


@pytest.mark.slow
def test_a_file_is_written_that_validates(
    engine: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "my-gpu.yaml"
    assert cli.main(["measure", "-o", str(file), "--name", "Mine", "--processes", "2"]) == 0
    assert capsys.readouterr() == ("", "")
    assert cli.main(["validate", str(file)]) == 0
    assert yaml.safe_load(file.read_text("utf-8"))["name"] == "Mine"
    assert cli.main(["measure"]) == 0  # to standard output
    assert "efficiency:" in capsys.readouterr().out


def test_an_interruption_leaves_no_file(
    engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: Any) -> list[float]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Ideal, "time_job", stop)
    assert cli.main(["measure", "-o", str(tmp_path / "my.yaml")]) == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "said"),
    read_data("faults")["measure"],
)
def test_wrong_options_are_told_in_a_line(
    engine: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Ideal, "time_job", lambda *_: pytest.fail("told after the benchmarks"))
    assert cli.main(["measure", *options]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_read_only(
    engine: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refused(**_: Any) -> None:  # root writes all
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkstemp", refused)
    monkeypatch.setattr(Ideal, "time_job", lambda *_: pytest.fail("told after the benchmarks"))
    assert cli.main(["measure", "-o", str(tmp_path / "my.yaml")]) == 2
    assert "permission denied" in capsys.readouterr().err


def test_without_pytorch_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cli.main(["measure"]) == 2
    error = capsys.readouterr().err
    assert error == "plan.py measure: PyTorch is not installed (pip install '.[measure]')\n"


@pytest.mark.slow
def test_two_gpus_of_a_kind_say_so() -> None:
    found = measured(Ideal(replace(GPU, formats=("bf16",)), processes=2))
    assert found["multiprocessors"] == 132 and found["clock"] == "1.83 GHz"
    assert found["architecture"] == "hopper" and found["link"]["name"] == "NCCL"
