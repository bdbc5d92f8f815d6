"""Time: definitions that must hold, directions that must hold, and published steps."""

from __future__ import annotations

import math
from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.base import resources
from planner.base.errors import PlanError
from planner.book.notation import e_mem, e_mm
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.questions import loading
from tests.changed import evaluation_of
from tests.conftest import read_data

PLAN: dict[str, Any] = read_data("plans")["time"]


def evaluation(**changes: Any) -> Evaluation:
    return evaluation_of(PLAN, changes)


def seconds(**changes: Any) -> float:
    return float(evaluation(**changes).value("time.step_seconds"))


@pytest.mark.parametrize("model", ["gpt2-small", "llama2-7b"])
def test_one_device_has_gradients_for_every_parameter_once(model: str) -> None:
    own = {"training__sequence_length": 1024, "training__implementation": "pytorch"}
    e = evaluation(model=model, parallelism={"zero": 0}, **own)
    assert e.value("time.parameters") == e.value("parameters.total")  # tied or not


#: QLoRA, section 3: scales quantized again take 8/64 + 32/(64 · 256) = 0.127 bits, not 0.5.
DOUBLE = (4 + Fraction(8, 64) + Fraction(32, 64 * 256)) / 8


@pytest.mark.parametrize(
    ("base", "size"),
    [("bf16", None), ("int8", 1), ("nf4", Fraction(9, 16)), ("nf4-double", DOUBLE)],
)
@pytest.mark.parametrize(("recompute", "passes"), [("none", 2), ("full", 3)])
def test_packed_weights_are_unpacked_for_each_product(
    base: str, size: Fraction | None, recompute: str, passes: int
) -> None:
    """QLoRA (arXiv 2305.14314), equation 5: each product has its weight in bf16 first."""
    lora = {"training__lora": {"rank": 16, "base": base}, "training__recompute": recompute}
    e = evaluation(**lora, parallelism={}, training__implementation="pytorch")
    casts = sum(e.value("time.product.casts", {"product": x}) for x in e.case.axes["product"])
    hidden = 4 * 4096**2 + 3 * 4096 * 11008  # of a layer of Llama-2 7B
    sustained = 3350 * 10**9 * Fraction(e.compute(e_mem, {}))
    expected = 0 if size is None else passes * (2 + size) * hidden / sustained
    assert casts == expected


def test_utilisation_rate_and_step_agree() -> None:
    e = evaluation()
    step, mfu = e.value("time.step_seconds"), e.value("time.mfu")
    flops = 512 * 4096 * e.value("compute.flops_per_token")
    assert float(mfu) == pytest.approx(float(flops / (step * 64 * e.value("time.peak"))))
    assert float(e.value("time.tokens_per_second")) == pytest.approx(512 * 4096 / float(step))


def test_the_parts_of_a_step_make_the_step() -> None:
    e = evaluation(parallelism__pipeline=4)
    parts = ("time.bubble", "time.accumulation", "time.data", "time.tied", "time.optimizer")
    total = e.value("layout.micro_batches") * e.value("time.micro_batch")
    assert float(total + sum(e.value(p) for p in parts)) == pytest.approx(
        float(e.value("time.step_seconds"))
    )


FASTER = read_data("book")["faster"]


@pytest.mark.parametrize("what", FASTER)
def test_faster_hardware_never_takes_longer(what: str) -> None:
    assert seconds(**FASTER[what]) <= seconds()


def test_a_network_that_was_measured_needs_no_share() -> None:
    """2 nodes of 8: 85 Gb/s out of a node over four cards of 100 Gb/s (Jean Zay, Omni-Path)."""
    network = {"bandwidth": "50 Gb/s", "sustained": "10.625 Gb/s"}
    e = evaluation(cluster__network=network)
    assert e.value("network.fabric") == Fraction(10625, 8) * 10**6
    shared = evaluation(
        cluster__network={"bandwidth": "50 Gb/s"}, time__efficiency={"network": "0.2125"}
    )
    assert float(e.value("time.step_seconds")) == pytest.approx(
        float(shared.value("time.step_seconds"))
    )


SLOWER = read_data("book")["slower"]


@pytest.mark.parametrize("what", SLOWER)
def test_more_work_takes_longer(what: str) -> None:
    assert seconds(**SLOWER[what]) > seconds()


def test_the_bubble_shrinks_with_virtual_stages() -> None:
    plain = evaluation(parallelism__pipeline=4)
    virtual = evaluation(parallelism__pipeline=4, parallelism__virtual_pipeline=4)
    assert virtual.value("time.bubble") < plain.value("time.bubble")


def test_a_step_is_never_faster_than_the_peak() -> None:
    for devices in (8, 64, 512):
        e = evaluation(cluster__devices=devices)
        assert 0 < e.value("time.mfu") < 1


def test_one_device_exchanges_nothing() -> None:
    e = evaluation(cluster__devices=1, parallelism={"tensor": 1}, training__global_batch=2)
    assert e.value("network.tensor") == 0
    assert e.value("time.bubble") == 0
    assert e.value("time.data") == 0


def test_an_accelerator_without_calibration_is_predicted_with_the_defaults() -> None:
    e = evaluation(cluster__accelerator="mi300x")
    assert e.value("time.step_seconds") > 0
    # Bekman's table of products measured alone: 668.4 of the datasheet's 1,307.4 TFLOP/s.
    assert float(e.case.bindings[e_mm]) == pytest.approx(668.4 / 1307.4, rel=1e-3)


def test_only_predictions_carry_an_interval() -> None:
    result = planner.load({**PLAN, "time": {"mfu": "0.4", "use": "assumed"}}).evaluate()
    assert result["time.step_seconds"].interval is None
    low, high = planner.load(PLAN).evaluate()["time.mfu"].interval
    assert low < planner.load(PLAN).evaluate()["time.mfu"].value < high


def test_dense_peaks_are_half_of_sparse_ones() -> None:
    # NVIDIA's datasheets print 1,979 TFLOP/s with sparsity for the H100, 312 dense for the A100.
    assert evaluation().value("time.peak") == Fraction(1979, 2) * 10**12
    assert evaluation(cluster__accelerator="a100-sxm-80gb").value("time.peak") == 312 * 10**12


#: Korthikanti et al. 2022 (arXiv 2205.05198), table 5: seconds of a step with sequence parallelism
#: and selective recomputation on A100s: 22B, 175B, 530B, 1T.
TABLE_5 = [
    (48, 6144, 64, 8, 1, 1, 4, 4, 1.10),
    (96, 12288, 96, 8, 8, 3, 1, 64, 13.75),
    (105, 20480, 128, 8, 35, 3, 1, 280, 37.83),
    (128, 25600, 160, 8, 64, 1, 1, 512, 71.49),
]


@pytest.mark.parametrize("row", TABLE_5, ids=["22B", "175B", "530B", "1T"])
def test_published_steps_are_met_within_a_tenth(row: tuple[Any, ...]) -> None:
    layers, hidden, heads, t, p, v, micro, batch, published = row
    model = {"layers": layers, "hidden": hidden, "attention.heads": heads}
    layout = {"tensor": t, "pipeline": p, "virtual_pipeline": v}
    changes = {f"model.{key}": value for key, value in model.items()}
    changes |= {f"parallelism.{key}": value for key, value in layout.items()}
    changes |= {"training.micro_batch": micro, "training.global_batch": batch}
    document = read_data("plans")["gpt_of_table_5"]
    e = evaluation_of(document, {"cluster.devices": t * p, **changes})
    assert float(e.value("time.step_seconds")) == pytest.approx(published, rel=0.1)


def test_a_peak_that_no_datasheet_prints_is_told() -> None:
    """A TPU v6e runs no fp32 products at a rate that its maker prints."""
    with pytest.raises(Absent, match="no peak of the training precision is known"):
        seconds(cluster__accelerator="tpu-v6e", training__precision="fp32")


def test_goodput_follows_daly() -> None:
    """419 interruptions of 16,384 devices in 54 days are one in 3.09 hours (Llama 3, table 5), and
    the paper's effective training time is above 90 %. The interval is Daly's (2006, eq. 37)."""
    document = {**PLAN, "model": "llama2-70b", "cluster": "meta-h100x16384"}
    document["training"] = {**PLAN["training"], "global_batch": 16384, "micro_batch": 1}
    document["parallelism"] = {"tensor": 8, "sequence": True, "zero": 1}
    e = Evaluation(case.build(loading.load(document)))
    assert float(e.value("time.between_failures")) / 3600 == pytest.approx(3.09, abs=0.01)
    interval, write = e.value("checkpoint.interval_seconds"), e.value("checkpoint.write_seconds")
    between = e.value("time.between_failures")
    young = math.sqrt(2 * float(write * between))
    ratio = math.sqrt(float(write / (2 * between)))
    assert float(interval) == pytest.approx(young * (1 + ratio / 3 + ratio**2 / 9) - float(write))
    assert 0.9 < float(e.value("time.goodput")) < 1


def test_without_interruptions_counted_goodput_is_absent() -> None:
    with pytest.raises(Absent, match=r"cluster\.storage|cluster\.failures"):
        evaluation().value("time.goodput")


def test_adapters_train_faster_than_all_weights() -> None:
    """LoRA needs no gradient of the frozen weights: about a third of the products' work less."""
    lora = seconds(training__lora={"rank": 16, "targets": ["query", "value"]})
    assert 0.6 * seconds() < lora < 0.9 * seconds()


def test_decoding_reads_weights_and_cache_from_memory() -> None:
    """Llama-2 7B in 16 bit: 13.5 GB at 3.35 TB/s take 4 ms, 355 kernels 1 more."""

    def decode(length: int) -> float:
        length_of = {"training.sequence_length": length}
        e = evaluation_of(read_data("plans")["one_served"], length_of)
        assert float(e.value("time.latency_seconds")) == pytest.approx(
            float(e.value("time.prefill_seconds") + 100 * e.value("time.decode_seconds"))
        )
        return float(e.value("time.decode_seconds"))

    least = 6.74e9 * 2 / 3.35e12
    assert least < decode(128) < 1.05 * least / fitted("memory") + 355 * 2.8e-6
    assert decode(4096) > decode(128)


LONG: dict[str, Any] = read_data("plans")["long_time"]


def block_values(e: Evaluation, identifier: str) -> list[float]:
    """A quantity of every attention block of the layers."""
    return [
        float(e.value(identifier, {"part": block.parent, "block": block}))
        for block in e.case.axes["block"]
        if block.settings["block"] == "attention"
    ]


def test_one_rank_of_a_sequence_waits_for_nobody() -> None:
    assert set(block_values(evaluation(**LONG), "time.core.context")) == {0.0}


@pytest.mark.parametrize("bandwidth", ["4000 Gb/s", "1 Gb/s"])
def test_a_ring_of_keys_and_values_shows_what_attention_does_not_hide(bandwidth: str) -> None:
    e = evaluation(**LONG, parallelism__context=8, cluster__network={"bandwidth": bandwidth})
    hop, core = (block_values(e, i)[0] for i in ("network.context", "time.core.forward"))
    shown = 7 * max(0.0, hop - core / 8)
    assert (shown > 0) == (bandwidth == "1 Gb/s")
    assert block_values(e, "time.core.context")[0] > shown  # the sum of the outputs
    # 2 bytes of keys and of values of 16,384 tokens, 8 of 32 heads of 128.
    size = 2 * 2 * 16384 * 8 * 128
    rate = min(float(e.value("network.fabric")), float(e.value("network.link")))
    assert hop == pytest.approx(size / rate, rel=0.15)


@pytest.mark.parametrize(
    ("implementation", "way"), [("megatron", "ring"), ("nanotron", "ring"), ("pytorch", "gather")]
)
def test_how_context_parallel_ranks_exchange_follows_from_the_implementation(
    implementation: str, way: str
) -> None:
    long = {**LONG, "parallelism__context": 8, "training__implementation": implementation}
    assert seconds(**long) == seconds(**long, parallelism__context_exchange=way)
    assert len({seconds(**long, parallelism__context_exchange=w) for w in ("ring", "gather")}) == 2
    document = {**deepcopy(PLAN), "parallelism": {"context": 8}}
    document["training"]["implementation"] = implementation
    derived = loading.load(document)
    assert derived.get("parallelism.context_exchange") == way
    assert derived.derived["parallelism.context_exchange"] == f"under {implementation}"


def test_what_is_computed_again_takes_its_time() -> None:
    plain, full = seconds(), seconds(training__recompute="full")
    found = [plain]
    for modules in (["norm"], ["norm", "activation"], ["norm", "mlp"]):
        found.append(seconds(training__recompute="selective", training__recompute_modules=modules))
    assert found == sorted(found) and len(set(found)) == len(found)
    assert found[-1] < full
    half = seconds(training__recompute="full", training__recompute_layers=16)
    assert half == pytest.approx((plain + full) / 2, rel=0.02)


def test_optimizer_states_on_the_host_are_updated_there() -> None:
    """Ren et al. 2021 (arXiv 2101.06840), table 4: 2.4 s for 8e9 parameters on one host's
    processors; the way there and back comes on top."""
    one: dict[str, Any] = {"cluster__devices": 1, "parallelism": {"tensor": 1, "zero": 0}}
    e = evaluation(**one, training__global_batch=2, training__offload={"optimizer": True})
    each = float(e.value("time.optimizer")) / float(e.value("parameters.total"))
    assert 2.4 / 8e9 < each < 2 * 2.4 / 8e9
    assert seconds(training__offload={"optimizer": True}) > seconds()


def test_activations_on_the_host_show_where_the_link_is_slow() -> None:
    away = {"training__offload": {"activations": 1}}
    assert seconds(**away, time={"host_link": "1 TB/s"}) == pytest.approx(seconds())
    assert seconds(**away, time={"host_link": "5 GB/s"}) > 1.2 * seconds()


def total(e: Evaluation, identifier: str, axis: str) -> float:
    return sum(float(e.value(identifier, {axis: entry})) for entry in e.case.axes[axis])


def attention(e: Evaluation) -> list[Any]:
    return [b for b in e.case.axes["block"] if b.settings["block"] == "attention"]


def fitted(name: str) -> float:
    """A constant that was fitted to published runs, as it ships."""
    facts = resources.read_yaml(resources.folder("presets") / "efficiency/training.yaml")
    return float(facts["shared"][name]["value"])


def test_a_token_of_grouped_experts_reaches_a_few_nodes() -> None:
    """DeepSeek-V3: 8 experts of 4 of 8 groups, a group on each of 8 nodes; at most 4 of them."""

    def exchange(groups: int, kept: int, expert: int = 64) -> float:
        e = evaluation(
            model={
                "extends": "deepseek-v3",
                "moe": {"router_groups": groups, "router_group_top_k": kept},
            },
            cluster__devices=64,
            training__cuda_graphs="full",
            parallelism={"zero": 1, "expert": expert, "dispatcher": "deepep"},
        )
        blocks = [b for b in e.case.axes["block"] if b.settings["block"] == "moe"]
        return max(float(e.value("network.experts", {"block": b})) for b in blocks)

    def moved(reached: float) -> float:
        return 2 * 2 * 4096 * 7168 * reached * (1 - (1 - 1 / reached) ** 8) * (1 - 1 / 8)

    assert exchange(8, 4) == pytest.approx(moved(4) / (0.89 * 50e9), rel=1e-3)
    assert exchange(8, 8) == exchange(1, 1) == pytest.approx(moved(8) / (0.89 * 50e9), rel=1e-3)
    # Two nodes hold four groups each: four groups may lie on both.
    assert exchange(8, 4, 16) == exchange(1, 1, 16)
    with pytest.raises(PlanError, match="5 of 4 groups"):
        exchange(4, 5)
    with pytest.raises(PlanError, match="3 groups do not divide 256 experts"):
        exchange(3, 1)


@pytest.mark.parametrize("name", ["l40s", "rtx-3090", "mi250x", "v100-sxm-32gb", "a30"])
def test_fused_attention_sustains_no_more_than_its_share_of_the_peak(name: str) -> None:
    e = evaluation(
        cluster={"accelerator": name, "devices": 1},
        training__implementation="pytorch",
        training__attention="flash",
        parallelism={"tensor": 1},
    )
    rate = max(float(e.value("time.core.rate", {"block": b})) for b in attention(e))
    assert rate <= fitted("attention_open") * float(e.value("time.peak_16")) * 1.001


def test_instructions_of_one_vendor_bound_no_other() -> None:
    """An MI355X does 4,096 FLOP for each unit and clock, twice what open kernels issue."""
    e = evaluation(
        cluster={"accelerator": "mi355x", "devices": 1},
        training__implementation="pytorch",
        training__attention="flash",
        parallelism={"tensor": 1},
    )
    rate = max(float(e.value("time.core.rate", {"block": b})) for b in attention(e))
    assert rate == pytest.approx(fitted("attention_open") * 2516e12)
