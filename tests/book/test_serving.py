"""Serving: what a step of decoding reads, when arithmetic decides, and published measurements."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import planner
from benchmarks import measured, serving_accuracy, tables
from planner.base import resources
from planner.base.errors import PlanError
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.changed import evaluation_of
from tests.conftest import read_data

#: Of Qwen's tables: 1 / 311.55 and 1 / 47.40 s with 2.2 ms of vLLM's host, 0.88 ms of each layer.
ENGINES = [("vllm", "2024-10", 1 / 311.55), ("transformers", "2024-10", 1 / 47.4)]
PAGE = Path(__file__).parents[2] / "docs" / "accuracy" / "runs.md"


def serving(model: str = "llama2-7b", devices: int = 1, **changes: Any) -> Evaluation:
    of = {"model": model, "cluster.devices": devices}
    return evaluation_of(read_data("plans")["served"], {**of, **changes})


def seconds(evaluation: Evaluation, what: str = "time.decode_seconds") -> float:
    return float(evaluation.value(what))


def test_a_step_reads_the_weights_once_and_the_cache_of_each_sequence() -> None:
    """Llama-2 7B: 6.74 billion parameters less the 131 million of the table that is looked up, in
    2 bytes; keys and values of 32 layers of 4096 wide, for 1,000 tokens and half of 200."""
    evaluation = serving(training__micro_batch=4)
    (stage,) = evaluation.case.axes["stage"]  # type: ignore[misc]
    read = evaluation.value("time.decode.bytes", {"stage": stage})
    assert read == 2 * (6_738_415_616 - 32000 * 4096) + 4 * 1100 * 32 * 2 * 4096 * 2
    fitted = resources.read_yaml(resources.folder("presets") / "efficiency/training.yaml")
    share = float(fitted["shared"]["memory"]["value"])
    assert seconds(evaluation) == pytest.approx(float(read) / 3.35e12 / share, rel=0.05)


def test_a_table_is_looked_up_however_long_it_is() -> None:
    """A token looks up one row of each table, so how many rows there are moves nothing; over
    arrays of doubles too, in which 1e30 rows would swallow what is read."""
    table, step = "model.attention.relative_buckets", "time.decode_seconds"
    data: dict[str, Any] = read_data("plans")["served_relative"]
    study = {"base": data, "axes": {table: [32, 10**30]}, "record": [step, "parameters.total"]}
    short, long = planner.load_study(study).rows()
    assert long["parameters.total"] > 10**30 > short["parameters.total"]
    expected = float(planner.load(data).evaluate()[step].number)
    assert [short[step], long[step]] == pytest.approx([expected, expected], rel=1e-12)


@pytest.mark.slow
def test_grouped_queries_and_narrow_weights_read_less() -> None:
    many, few = serving("llama2-13b", training__micro_batch=16), serving("llama2-13b")
    assert seconds(many) > 1.3 * seconds(few)
    grouped = (serving("llama3-8b", training__micro_batch=b) for b in (1, 16))
    first, last = map(seconds, grouped)
    assert last < 1.2 * first  # 8 of 32 heads keep keys and values
    half = seconds(serving(training__bytes={"weight": 1}))
    assert half == pytest.approx(seconds(serving()) / 2, rel=0.05)


def test_large_batches_wait_for_arithmetic() -> None:
    """Beyond peak over bandwidth (here about 240 tokens) a step takes as long as its products."""
    small, large = (
        serving(training__micro_batch=b, training__sequence_length=1) for b in (64, 4096)
    )
    rate = [64 / seconds(small), 4096 / seconds(large)]
    (stage,) = large.case.axes["stage"]  # type: ignore[misc]
    flops = float(large.value("time.decode.flops", {"stage": stage}))
    assert flops == pytest.approx(2 * 4096 * 6.6e9, rel=0.01)
    assert seconds(large) >= flops / 989.5e12
    assert rate[0] < rate[1] < 64 * rate[0]


def test_ten_million_sequences_at_once_read_all_experts() -> None:
    """(6/8)^(10^7) would have forty million digits; it is 0 as far as a float goes."""
    plan = serving("mixtral-8x7b", 8, parallelism__tensor=8, training__micro_batch=10**7)
    block = next(b for b in plan.case.axes["block"] if b.settings["block"] == "moe")  # type: ignore[union-attr]
    assert plan.value("time.decode.touched", {"block": block}) == 1


def test_a_batch_touches_more_experts_the_larger_it_is() -> None:
    """One token of Mixtral reads 2 of 8 experts; many read all."""
    one = serving("mixtral-8x7b", 2, parallelism__tensor=2, parallelism__expert_tensor=2)
    all_of_them = serving(
        "mixtral-8x7b",
        2,
        parallelism__tensor=2,
        parallelism__expert_tensor=2,
        training__micro_batch=64,
        training__sequence_length=1,
    )
    block = next(b for b in one.case.axes["block"] if b.settings["block"] == "moe")  # type: ignore[union-attr]
    assert one.value("time.decode.touched", {"block": block}) == pytest.approx(2 / 8)
    ratio = seconds(all_of_them) / seconds(one)
    assert 46.7 / 12.9 * 0.85 < ratio < 46.7 / 12.9  # billions of parameters, all and used by one


def test_more_devices_read_faster_and_pay_for_their_hops() -> None:
    times = [seconds(serving("llama2-70b", n, parallelism__tensor=n)) for n in (2, 4, 8)]
    assert times[0] > times[1] > times[2] > times[0] / 4
    stages = serving("llama2-70b", 2, parallelism__pipeline=2)
    whole = serving("llama2-70b")
    assert seconds(stages) == pytest.approx(seconds(whole), rel=0.02)  # one token, stage by stage
    assert seconds(stages, "time.decode_tokens_per_second") > 1.9 * seconds(
        whole, "time.decode_tokens_per_second"
    )


def test_prompts_are_read_at_the_rate_of_a_forward_pass() -> None:
    evaluation = serving(training__micro_batch=8)
    rate = seconds(evaluation, "time.prefill_tokens_per_second")
    assert rate == pytest.approx(8 * 1000 / seconds(evaluation, "time.prefill_seconds"))
    assert 0.4 < rate * 2 * 6.6e9 / 989.5e12 < 0.75


@pytest.mark.slow
def test_the_page_states_what_the_program_prints() -> None:
    rows, records = measured.pair(serving_accuracy.RUNS)
    page, mark = PAGE.read_text("utf-8"), serving_accuracy.MARK
    table = tables.markdown(serving_accuracy.lines(rows, records), serving_accuracy.means(records))
    assert tables.rewritten(page, table, mark) == page
    # Of sources that gave no constant, newest engines first.
    judged = {row.source: [] for row in rows}  # type: ignore[var-annotated]
    for row, record in zip(rows, records, strict=True):
        judged[row.source].append(serving_accuracy.speed(record))
    for name in ("InferenceX, SGLang", "InferenceX, vLLM", "TensorRT-LLM 1", "vLLM", "vLLM 0.2"):
        assert 0.85 < fmean(judged[name]) < 1.15, name


@pytest.mark.parametrize(("engine", "date", "step"), ENGINES)
def test_the_host_of_an_engine_takes_what_was_measured(engine: str, date: str, step: float) -> None:
    """A token of a model whose weights take 0.6 ms, and 24 layers: what waits is the host."""
    plan = serving(
        "qwen2-0.5b", training__engine=engine, training__kernels=date, time__efficiency={}
    )
    assert seconds(plan) == pytest.approx(step, rel=0.15)


def test_a_graph_takes_the_launches_off_the_host() -> None:
    eager, graph = (serving(training__engine=one) for one in ("vllm-eager", "vllm"))
    assert float(graph.value("time.decode.launches")) == 0
    per_layer = float(eager.value("time.decode.launches")) / 32
    assert per_layer == pytest.approx(11 * 34e-6, rel=0.1)
    with pytest.raises(PlanError, match="vllm serves, and this plan does not"):
        serving(training__mode="train", training__engine="vllm")


# what is kept and paid for the sequences that are served


def result(model: str, **changes: Any) -> Any:
    document = {"model": model, **read_data("plans")["served_in_two"]}
    return loading.load(document, {key.replace("__", "."): value for key, value in changes.items()})


def values(model: str, **changes: Any) -> Any:
    evaluation = Evaluation(case.build(result(model, **changes)))
    return lambda name: float(evaluation.value(name))


def test_the_cache_has_its_row_and_holds_every_sequence_that_is_served() -> None:
    """Llama-3 8B: a key and a value of 8 heads of 128 in 2 bytes, for 16 layers of a stage."""
    each = 1200 * 2 * 8 * 128 * 2 * 16
    of = values("llama3-8b")
    assert of("memory.cache") == 2 * 4 * each  # a micro-batch of four on each of two stages
    parts = ("weights", "cache", "activations", "buffers")
    assert of("memory.total") == sum(of(f"memory.{part}") for part in parts)
    served = values("llama3-8b", training__global_batch=64)  # 32 for each of two replicas
    assert served("memory.cache") == 32 * each
    assert served("memory.total") - of("memory.total") == 24 * each


def test_the_global_batch_is_how_many_are_served_at_once() -> None:
    few, usual, many = (values("llama3-8b", training__global_batch=n) for n in (8, 16, 64))
    rates = [of("time.decode_tokens_per_second") for of in (few, usual, many)]
    assert rates[0] == pytest.approx(rates[1] / 2)  # one of two stages has nothing to do
    assert rates[2] == pytest.approx(rates[1])  # no more than both stages busy
    steps = [of("time.decode_seconds") for of in (few, usual, many)]
    assert steps[0] == pytest.approx(steps[1]) and steps[2] == pytest.approx(4 * steps[1])
    for of, sequences in ((few, 8), (usual, 16), (many, 64)):
        rate = of("time.decode_tokens_per_second")
        assert rate * of("time.decode_seconds") == pytest.approx(sequences)
    with pytest.raises(PlanError, match="is not divisible by"):
        result("llama3-8b", training__global_batch=12)


def test_a_million_tokens_cost_what_the_devices_cost_meanwhile() -> None:
    of = values("llama3-8b")
    for cost, rate in (("input", "prefill"), ("output", "decode")):
        seconds = 1e6 / of(f"time.{rate}_tokens_per_second")
        paid = seconds / 3600 * 4 * 3
        assert of(f"cost.million_{cost}_tokens") == pytest.approx(paid)


@pytest.mark.parametrize("window", [256, 1000, 1100, 1200, 5000])
def test_decoding_reads_what_a_window_keeps(window: int) -> None:
    """Mistral 7B: with each token that is generated the cache grows to the window, no further."""
    keys = {"model.attention.window": window, "parallelism.pipeline": 1}
    one = {key.replace(".", "__"): value for key, value in keys.items()}
    built = Evaluation(case.build(result("mistral-7b", cluster__devices=1, **one)))
    (stage,) = built.case.axes["stage"]  # type: ignore[misc]
    tokens = sum(min(window, 1000 + (i + 0.5)) for i in range(200)) / 200
    weights = 2 * (7_241_732_096 - 32000 * 4096)
    read = float(built.value("time.decode.bytes", {"stage": stage}))
    assert read - weights == pytest.approx(4 * tokens * 32 * 2 * 8 * 128 * 2, rel=1e-3)
    held = float(built.value("memory.cache"))
    assert held == 4 * min(window, 1200) * 32 * 2 * 8 * 128 * 2
