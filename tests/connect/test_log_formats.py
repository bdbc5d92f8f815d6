"""Logs of trainers as they print them: a few lines of each, and what they say."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from planner.base.errors import PlanError
from planner.connect import compare, logs
from planner.plans.document import Plan
from planner.questions import loading

ROOT = Path(__file__).resolve().parents[2]
GIB = 2**30
STEP, RATE, FLOPS = (
    f"time.{name}" for name in ("step_seconds", "tokens_per_second_per_device", "tflops_per_device")
)


def plan() -> Plan:
    changes = ["training.global_batch=512", "training.sequence_length=1024"]
    return loading.load(ROOT / "presets" / "gpt2small_hgx-h100.yaml", changes)


NANOTRON = (
    "08/31/2024 14:37:31 [INFO|DP=0|PP=0|TP=0]: iteration: {n} / 15 | consumed_tokens: 512 | "
    "elapsed_time_per_iteration_ms: 4.71K | tokens_per_sec: 109 | tokens_per_sec_per_gpu: 109 | "
    "global_batch_size: 2 | lm_loss: 5.32 | lr: 0.00015 | model_tflops_per_gpu: 1.87e-05 | "
    "hardware_tflops_per_gpu: 1.87e-05 | grad_norm: 2.96 | cuda_memory_allocated: 67.4M | "
    "cuda_max_memory_reserved: 520M | hd_total_memory_tb: 2.13T | hd_used_memory_tb: 952G"
)
DEEPSPEED = (
    "[2024-03-07 15:27:02,646] [INFO] [timer.py:260:stop] epoch=0/micro_step={n}/global_step={n}, "
    "RunningAvgSamplesPerSec=58.730622229657506, CurrSamplesPerSec=64.0, MemAllocated=6.01GB, "
    "MaxMemAllocated=19.5GB"
)
NEMO = (
    "Training epoch 0, iteration {n}/249 | lr: 3.922e-06 | global_batch_size: 8 | global_step: {n} "
    "| reduced_train_loss: 1.653 | train_step_timing in s: 2.505 | consumed_samples: 16"
)
PROGRESS = (
    "Epoch 0: : 100%|█████| {n}/100 [10:48<00:00, reduced_train_loss=0.0172, global_step=99.00, "
    "consumed_samples=25600.0, train_step_timing in s=3.130]"
)
MAXTEXT = (
    "completed step: {n}, seconds: 13.360, TFLOP/s/device: 305.127, Tokens/s/device: 3679.158, "
    "total_weights: 12582912, loss: 10.565"
)
FOUNDRY = """[batch={n}/20]:
\t Train memory/peak_reserved_mem: 14.7660
\t Train throughput/batches_per_sec: 0.1250
\t Train throughput/samples_per_sec: 0.2170
\t Train throughput/device/batches_per_sec: 0.1085
\t Train throughput/tokens_per_sec: 1777.7552
\t Train throughput/device/tokens_per_sec: 222.2194"""
OLMO = """2025-06-01 10:00:00.000\tolmo:0\t[step={n}/100,epoch=1/1,eta=1:00:00]
    throughput/device/TPS=12,345
    throughput/device/TPS (actual avg)=11,000
    throughput/device/MFU=57.1
    gpu_memory/GPU active mem (GiB)=40.5
    gpu_memory/GPU reserved mem (GiB)=44.0"""
TUNE = (
    "Step {n} | loss:1.2 lr:2e-05 tokens_per_second_per_gpu:2345.5 grad_norm:1.0 "
    "peak_memory_active:30.5 peak_memory_alloc:30.25 peak_memory_reserved:33.5 "
)
LITGPT = (
    "Epoch 1 | iter {n} step {n} | loss train: 10.923, val: n/a | iter time: 431.95 ms (step) "
    "remaining time: 2 days, 1:00:00"
)
VERL = (
    "step:{n} - actor/grad_norm:0.11 - perf/mfu/actor:0.25 - "
    "perf/max_memory_allocated_gb:39.5 - perf/max_memory_reserved_gb:43.0 - timing_s/step:90.0"
)
BRIDGE = "Step Time : 5.25s GPU utilization: 512.5MODEL_TFLOP/s/GPU"
NANOGPT = "iter {n}: loss 10.9891, time 412.5ms, mfu 17.21%"
TRAINER = (
    "{{'train_runtime': '21.5', 'train_steps_per_second': '1.25', 'train_loss': 1.0, 'n': {n}}}"
)

#: By format: a line of a step, and the quantities that it says.
LINES = {
    "nanotron": (
        NANOTRON,
        {STEP: "4.71", RATE: 109, "memory.reserved": 520_000_000, FLOPS: "0.0000187"},
    ),
    "DeepSpeed": (DEEPSPEED, {STEP: 8, "memory.total": Fraction("19.5") * GIB}),
    "NeMo": (NEMO, {STEP: "2.505"}),
    "MaxText": (MAXTEXT, {STEP: "13.36", FLOPS: "305.127", RATE: "3679.158"}),
    "LLM Foundry": (
        FOUNDRY,
        {STEP: 8, RATE: "222.2194", "memory.reserved": 14_766_000_000},
    ),
    "OLMo-core": (
        OLMO,
        {RATE: 12345, "memory.total": Fraction("40.5") * GIB, "memory.reserved": 44 * GIB},
    ),
    "torchtune": (
        TUNE,
        {
            RATE: "2345.5",
            "memory.total": Fraction("30.25") * GIB,
            "memory.reserved": Fraction("33.5") * GIB,
        },
    ),
    "litgpt": (LITGPT, {STEP: "0.43195"}),
    "verl": (
        VERL,
        {"time.mfu": "0.25", "memory.total": Fraction("39.5") * GIB, "memory.reserved": 43 * GIB},
    ),
    "Megatron-Bridge": (BRIDGE, {STEP: "5.25", FLOPS: "512.5"}),
    "nanoGPT": (NANOGPT, {STEP: "0.4125"}),
    "transformers": (TRAINER, {STEP: "0.8"}),
}


def measured(path: Path) -> dict[str, Fraction]:
    return {row.id: row.measured for row in compare.compare(plan(), path).rows}


def test_every_trainer_that_is_known_has_lines_here() -> None:
    assert {*LINES, "Megatron-LM", "torchtitan"} == {*logs.TRAINERS}


@pytest.mark.parametrize("name", LINES)
def test_lines_of_a_trainer_are_read(name: str, tmp_path: Path) -> None:
    line, said = LINES[name]
    path = tmp_path / "log"
    path.write_text("".join(f"{line.format(n=n)}\nsomething else\n" for n in range(1, 9)), "utf-8")
    assert logs.read(path).format == name
    found = measured(path)
    assert {key: found[key] for key in said} == {key: Fraction(v) for key, v in said.items()}


def test_a_progress_bar_says_the_time_of_its_step(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\r".join(PROGRESS.format(n=n) for n in range(1, 9)), "utf-8")
    assert measured(path)[STEP] == Fraction("3.13")


def test_the_state_of_a_trainer_says_how_long_its_steps_took(tmp_path: Path) -> None:
    """transformers' trainer_state.json: 32 steps in 21.5 s are 0.67 s a step; its
    train_batch_size is of one device, and evaluation has rates of its own."""
    state = {
        "best_metric": None, "epoch": 1.0, "eval_steps": 500, "global_step": 32,
        "log_history": [
            {"epoch": 0.5, "grad_norm": 1.0, "learning_rate": 1e-4, "loss": 2.0, "step": 16},
            {"epoch": 1.0, "eval_loss": 2.0, "eval_runtime": 1.5, "eval_steps_per_second": 20.0,
             "eval_samples_per_second": 80.0, "step": 32},
            {"epoch": 1.0, "step": 32, "total_flos": 1.0e15, "train_loss": 1.5,
             "train_runtime": 21.5, "train_samples_per_second": 11.907,
             "train_steps_per_second": 1.488},
        ],
        "logging_steps": 16, "max_steps": 32, "num_train_epochs": 1, "save_steps": 500,
        "stateful_callbacks": {"TrainerControl": {"args": {"should_log": False}}},
        "total_flos": 1.0e15, "train_batch_size": 4, "trial_name": None,
    }  # fmt: skip
    path = tmp_path / "trainer_state.json"
    path.write_text(json.dumps(state, indent=2), "utf-8")
    assert measured(path)[STEP] == 1 / Fraction("1.488")
    assert not logs.read(path).series("batch")
    path.write_text(json.dumps(state["log_history"][-1]), "utf-8")  # type: ignore[index]
    assert measured(path)[STEP] == 1 / Fraction("1.488")  # train_results.json


def test_a_clock_and_a_counter_are_a_rate(tmp_path: Path) -> None:
    path = tmp_path / "log"
    rows = (
        {"current_steps": 10 * n, "total_steps": 100, "loss": 1.0, "lr": 1e-5, "epoch": 0.1,
         "percentage": 10.0 * n, "elapsed_time": f"0:00:{5 * n:02}", "remaining_time": "0:10:00"}
        for n in range(1, 9)
    )  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")  # LLaMA-Factory
    assert measured(path)[STEP] == Fraction("0.5")
    lines = [f"{1700000000 + 3 * n},{2 * n},{1.5}" for n in range(9)]
    path.write_text("\n".join(["Wall time,Step,Value", *lines]), "utf-8")  # TensorBoard
    assert measured(path)[STEP] == Fraction("1.5")


def test_columns_of_an_export_have_a_run_before_their_name(tmp_path: Path) -> None:
    """W&B writes the run, and the least and the most of what it draws, for each column."""
    name = '"fluffy-cloud-7 - perf/step_time_seconds"'
    head = f'"Step",{name},{name[:-1]}__MIN",{name[:-1]}__MAX"'
    path = tmp_path / "log"
    path.write_text("\n".join([head, *(f'"{n}","2.5","1","9"' for n in range(8))]), "utf-8")
    assert measured(path)[STEP] == Fraction("2.5")


def test_results_of_mlperf_say_how_long_blocks_took(tmp_path: Path) -> None:
    """mlcommons/training_results: 384 sequences of Llama 2 70B with LoRA in 199.434 s, which the
    file's own throughput says too (1.9258 a second)."""
    begin = (
        '0: :::MLLOG {"namespace": "", "time_ms": %d, "event_type": "INTERVAL_%s", "key": '
        '"block_%s", "value": null, "metadata": {"file": "c.py", "lineno": 1, "samples_count": %d}}'
    )
    lines = [
        '0: :::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": '
        '"global_batch_size", "value": 512, "metadata": {"file": "c.py", "lineno": 9}}',
        "something else",
    ]
    for n in range(8):
        start = 1721026606541 + n * 300_000  # 100.566 s of each are evaluation
        lines.append(begin % (start, "START", "start", 384 * n))
        lines.append(begin % (start + 199_434, "END", "stop", 384 * (n + 1)))
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join(lines), "utf-8")
    log = logs.read(path)
    assert log.format == "MLPerf" and log.series("batch")[0].doubles[0] == 512
    assert float(measured(path)[STEP]) == pytest.approx(512 * 199.434 / 384, rel=1e-6)


@pytest.mark.parametrize(
    "text",
    [
        "completed step: 1, seconds: 0.000, TFLOP/s/device: 1",
        "iteration: 1 / 2 | elapsed_time_per_iteration_ms: 0K",
        ':::MLLOG {"key": ' * 3000,
        ":::MLLOG " + "[" * 100_000,
        "Step Time : 9e999s GPU utilization: 1.0MODEL_TFLOP/s/GPU",
        '{"current_steps": 1, "elapsed_time": "99999999999999999999999:00:00"}\n' * 3,
        '{"current_steps": 1, "elapsed_time": "0:00:00"}\n{"current_steps": 1e400}\n',
        "Wall time,Step,Value\n1,1,1\n1,1,1\n",
    ],
)
def test_hostile_lines_are_one_fault(text: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text, "utf-8")
    with pytest.raises(PlanError) as error:
        compare.compare(plan(), path)
    assert len(str(error.value).splitlines()) == 1
