"""One collective: times by hand, as a plan has them, and as nccl-tests publishes them."""

from __future__ import annotations

import contextlib
import io
import json
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.book.formulas.time_collective import OPERATIONS
from planner.cli.main import main
from planner.report.collective import evaluate_collective
from tests.conftest import read_data
from tests.typeset.test_typeset import arithmetic

CLUSTER = "h100x1024"


def collective(*words: str) -> dict[str, Any]:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        assert main(["collective", *words, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def seconds(operation: str, size: str, *more: str, on: str = CLUSTER) -> float:
    found = collective(operation, "--bytes", size, "--on", on, *more)
    return float(found["quantities"]["network.collective.seconds"]["value"])


def test_a_ring_over_nodes_by_hand() -> None:
    """128 nodes of 8, a card of 50 GB/s each: 1023/1024 of the bytes cross all eight cards, after
    127 hops between nodes and 896 inside (Patarasu & Yuan 2009)."""
    found = collective(
        "all-gather", "--bytes", "1GiB", "--on", CLUSTER, "--set", "time.efficiency.network=1"
    )
    value = {name: float(each["value"]) for name, each in found["quantities"].items()}
    assert value["network.collective.network"] == pytest.approx(2**30 * 1023 / 1024 / 400e9)
    hops = 127 * 5e-6 + 896 * 3.4e-6
    assert value["network.collective.latency"] == pytest.approx(hops)
    assert found["bound"] == "latency" and found["algorithm"] == "ring"


def test_gradients_take_what_a_plan_says() -> None:
    """An all-reduce of the gradients of a plan that keeps all weights on each device."""
    plan = {
        "model": "gpt2-small",
        "cluster": {"extends": CLUSTER, "devices": 64},
        "training": {"sequence_length": 1024, "micro_batch": 1, "implementation": "megatron"},
        "parallelism": {"zero": 0},
    }
    result = planner.load(plan, set={"training.bytes.reduce": 4}).evaluate()
    size = 4 * float(result["time.parameters"].value)
    rings = float(result["time.buckets"].value)
    one = seconds("all-reduce", f"{round(size / rings)}", "--devices", "64")
    assert rings * one == pytest.approx(float(result["time.data.reduce"].value), rel=1e-6)


def test_published_bandwidths_are_met() -> None:
    """Calibrated on training runs, held against benchmarks of the library by itself."""
    errors = list[float]()
    for row in read_data("collectives"):
        cluster = {"accelerator": row["accelerator"], "devices": row["devices"]}
        found = evaluate_collective(row["operation"], row["bytes"], cluster, None, ())
        rate = float(found.answers["bus rate"].number) / 1e9
        assert rate < row["link"] * 2 * 7 / 8
        errors.append(abs(rate / row["rate"] - 1))
    assert fmean(errors) < 0.2 and max(errors) < 0.4


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(OPERATIONS), st.integers(1, 10**10), st.sampled_from([8, 16, 64]))
def test_more_bytes_take_no_less_time(operation: str, size: int, devices: int) -> None:
    times = [
        evaluate_collective(operation, f"{size * by} bytes", CLUSTER, devices, ())
        .answers["time"]
        .number
        for by in (1, 2)
    ]
    assert times[0] <= times[1] <= 2 * times[0]


@pytest.mark.parametrize("operation", ["all-to-all", "all-gather"])
def test_more_devices_are_never_cheaper_at_equal_bytes_for_each(operation: str) -> None:
    times = [
        seconds(operation, f"{devices}MiB", "--devices", str(devices))
        for devices in (2, 4, 8, 16, 64, 256)
    ]
    assert times == sorted(times)


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("devices", ["8", "64"])
def test_formulas_with_numbers_are_worth_the_values(operation: str, devices: str) -> None:
    words = (operation, "--bytes", "64MiB", "--on", CLUSTER, "--devices", devices)
    for name, said in collective(*words)["quantities"].items():
        assert arithmetic(said["substituted"]) == pytest.approx(said["value"], rel=1e-4), name


@pytest.mark.parametrize(("words", "said"), read_data("faults")["collective"])
def test_what_is_wrong_is_one_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collective", *words]) == 2
    out, faults = capsys.readouterr()
    assert not out and said in faults and len(faults.splitlines()) == 1


def test_the_answer_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collective", "all-reduce", "--bytes", "1GiB", "--on", CLUSTER]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("9.19 ms: all-reduce of 1.00 GiB over 1,024")
    assert lines[1] == "tree; bound by network"
