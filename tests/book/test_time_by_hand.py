"""Times and traffic of a step, each worked out by hand from the sizes of a published model."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.base.errors import PlanError
from planner.book.canonical import to_canonical
from planner.book.expressions import make_number
from planner.book.formulas import time_product
from planner.engine.evaluate import Evaluation
from planner.plans.plan import variant
from planner.questions import loading
from tests.changed import evaluation_of
from tests.conftest import ROOT

#: Mixtral 8x7B (arXiv 2401.04088, table 1): 32 layers of 4,096, 8 experts of 14,336, two a token.
PLAN: dict[str, Any] = {
    "model": {"extends": "mixtral-8x7b"},
    "cluster": {
        "accelerator": "h100-sxm-80gb",
        "devices": 64,
        "network": {"bandwidth": "10 GB/s", "latency": "10 us"},
    },
    "training": {
        "tokens": "1T",
        "sequence_length": 4096,
        "global_batch": 512,
        "micro_batch": 1,
        "implementation": "megatron",
    },
    "time": {"efficiency": {"network": 1}},
}
TOKENS, HIDDEN, WIDE = 4096, 4096, 14336


def evaluation(**changes: Any) -> Evaluation:
    return evaluation_of(PLAN, changes)


def first(
    e: Evaluation, identifier: str, axis: str, beside: dict[str, Any] | None = None, **settings: Any
) -> Any:
    """A quantity at the first entry of an axis that has these settings, and entries ``beside``."""
    entry = next(
        x for x in e.case.axes[axis] if all(x.settings.get(k) == v for k, v in settings.items())
    )
    return e.value(identifier, {axis: entry, **(beside or {})})


@pytest.mark.parametrize("shared", [0, 2])
@pytest.mark.parametrize("split", [1, 2])
def test_tokens_go_to_experts_and_back_through_memory(shared: int, split: int) -> None:
    """In 2 bytes: the residual sum reads two values of a token and writes one. A rank's tokens are
    read and two rows of each written, rows sorted once more where they come in, and as much on
    their way back (Megatron-Core's all-to-all). The gated activation reads two values and writes
    one of the expert's width; of a shared expert for every token."""
    layout = {"expert": 4, "tensor": split, "expert_tensor": split}
    e = evaluation(
        parallelism=layout,
        model__moe={"experts": 8, "top_k": 2, "shared_experts": shared, "intermediate": WIDE},
        training={**PLAN["training"], "permute_fusion": True},
    )
    rows = 2 * TOKENS
    moved = TOKENS / split + rows + 2 * rows
    expected = 3 * TOKENS * HIDDEN + 2 * moved * HIDDEN
    expected += 3 * (rows * WIDE + TOKENS * shared * WIDE) / split
    assert first(e, "time.elementwise.bytes", "block", block="moe") == 2 * expected


@pytest.mark.parametrize(("tensor", "nodes"), [(8, False), (16, True)])
def test_a_hop_of_decoding_sends_its_share_of_a_token_of_each_sequence(
    tensor: int, nodes: bool
) -> None:
    """4 sequences of 4,096 values of 2 bytes, a t-th of them a hop, after 1 us or 10 us."""
    serving = {"mode": "inference", "output_tokens": 100, "global_batch": 4, "micro_batch": 4}
    e = evaluation(
        model={"extends": "llama2-7b"},
        training={**PLAN["training"], **serving},
        parallelism={"tensor": tensor},
        cluster__devices=tensor,
        cluster__accelerator={
            "extends": "h100-sxm-80gb",
            "link": {"bandwidth": "200 GB/s", "convention": "bidirectional", "latency": "1 us"},
        },
        time__efficiency={"network": 1, "link": 1},
    )
    sent = Fraction(4 * HIDDEN * 2, tensor)
    rate, wait = (10**10, Fraction(1, 10**5)) if nodes else (10**11, Fraction(1, 10**6))
    assert e.value("time.decode.hop") == wait + sent / rate
    # A ring passes all but one of its ranks twice, after attention and after the network of each
    # of 32 layers.
    assert e.value("time.decode.exchange") == 32 * 2 * 2 * (tensor - 1) * (wait + sent / rate)


@pytest.mark.parametrize(("expert", "split"), [(2, 1), (8, 1), (4, 2)])
def test_a_token_waits_for_every_group_of_experts_on_its_way_there_and_back(
    expert: int, split: int
) -> None:
    """A step of decoding waits, in each of 32 layers and on both ways, once for each of the other
    groups and of the devices that share an expert; and with two ranks of a tensor in the two hops
    of a ring after attention. Every microsecond of latency is as many more."""

    def wait(latency: str) -> Any:
        serving = {"mode": "inference", "output_tokens": 100, "global_batch": 8, "micro_batch": 1}
        e = evaluation(
            training={**PLAN["training"], **serving},
            parallelism={"tensor": split, "expert": expert, "expert_tensor": split},
            cluster__devices=8,
            cluster__accelerator={
                "extends": "h100-sxm-80gb",
                "link": {
                    "bandwidth": "450 GB/s",
                    "convention": "bidirectional",
                    "latency": latency,
                },
            },
            time__efficiency={"network": 1, "link": 1},
        )
        return e.value("time.decode.exchange")

    hops = 2 * (expert + split - 2) + 2 * (split - 1)
    # What devices that share an expert gather waits once for all 4,096 tokens of a pass.
    assert float(wait("3 us") - wait("1 us")) == pytest.approx(32 * hops * 2e-6, rel=1 / TOKENS)


@pytest.mark.parametrize("expert", [1, 2, 8])
def test_muon_makes_the_matrices_of_a_devices_own_experts_orthogonal(expert: int) -> None:
    """Of the 8 experts of a layer 8/e lie on each device; Megatron-Core's linear_fc1 of each is one
    matrix, gate and up projection side by side, and its linear_fc2 another."""
    e = evaluation(training__optimizer="muon", parallelism={"expert": expert, "zero": 0})
    found = {
        entry.name: e.value("time.orthogonal.matrices", {"component": entry})
        for entry in e.case.axes["component"]
        if entry.settings["split"] == "experts"
    }
    assert found["expert_gate"] + found["expert_up"] == Fraction(8, expert)
    assert found["expert_down"] == Fraction(8, expert)


@pytest.mark.parametrize(("zero", "kept"), [(0, 1), (1, 1), (2, 64), (3, 64)])
def test_gradients_are_added_up_where_they_are_kept(zero: int, kept: int) -> None:
    """8 micro-batches of Llama-2 7B: of each parameter a gradient of 2 bytes is read, a sum of 4
    read and written; with sharded gradients a 64th of them. Of 3.35 TB/s half is sustained."""
    e = evaluation(
        model={"extends": "llama2-7b"},
        parallelism={"zero": zero},
        training__implementation="pytorch",
        time__efficiency={"network": 1, "memory": "0.5"},
    )
    moved = 8 * 6_738_415_616 * (2 + 4 + 4) / kept
    assert float(e.value("time.accumulation")) == pytest.approx(moved / (3.35e12 / 2))


@pytest.mark.parametrize("width", [64, 128, 256])
def test_heads_of_128_and_more_fill_the_products_of_attention(width: int) -> None:
    """Below that they do less well; above, no better."""

    def rate(size: int) -> Any:
        return first(
            evaluation(model__attention={"heads": 32, "head_dim": size}),
            "time.core.rate",
            "block",
            block="attention",
        )

    assert (rate(width) < rate(128)) == (width < 128)
    assert rate(width) <= rate(128)


@pytest.mark.parametrize(("context", "replicate"), [(1, 1), (2, 1), (2, 4), (1, 8)])
def test_what_is_sharded_lies_on_all_devices_that_hold_the_same_part(
    context: int, replicate: int
) -> None:
    """64 devices, 2 ranks of a tensor: over data and context, but not over replicas."""
    layout = {"tensor": 2, "context": context, "replicate": replicate, "zero": 3}
    e = evaluation(parallelism=layout)
    assert e.value("network.shards") == Fraction(64, 2 * replicate)
    assert e.value("layout.data") == Fraction(64, 2 * context)


@pytest.mark.parametrize("devices", [8, 64])
def test_messages_hold_forty_million_values_or_a_million_for_each_rank(devices: int) -> None:
    """Megatron-LM, distributed_data_parallel_config.py: bucket_size."""
    e = evaluation(
        model={"extends": "llama2-7b"}, parallelism={"zero": 1}, cluster__devices=devices
    )
    each = max(40_000_000, 1_000_000 * devices)
    assert e.value("time.buckets") == Fraction(6_738_415_616, each)


def test_energy_is_power_times_hours() -> None:
    """700 W of a device and 300 W of its host, a tenth more for the building, in kWh."""
    e = evaluation(cluster__host_power="300 W", cluster__pue="1.1")
    hours = e.value("time.device_hours")
    assert float(e.value("energy.total")) == pytest.approx(float(hours * (700 + 300)) * 1.1 / 1000)


@pytest.mark.parametrize(("expert", "split"), [(2, 1), (8, 1), (2, 2), (4, 2), (8, 2)])
def test_copies_of_experts_meet_over_the_cards_that_they_have(expert: int, split: int) -> None:
    """64 devices, so 64/(e t_e) copies of an expert, of which a ring passes all but one share, each
    as large as a copy's; 8/(e t_e) of them are in a node and use so many cards of 10 GB/s, or one
    card where a copy reaches over nodes."""
    layout = {"expert": expert, "tensor": split, "expert_tensor": split, "zero": 1}
    e = evaluation(parallelism=layout)
    copies, cards = 64 // (expert * split), max(1, 8 // (expert * split))
    found = first(e, "network.passed", "component", split="experts")
    assert float(found) == pytest.approx((copies - 1) / copies / (cards * 10**10))


@pytest.mark.parametrize("share", [Fraction(1, 2), 1])
def test_activations_that_leave_and_return_show_what_passes_do_not_hide(share: Any) -> None:
    """Over a link of 1 GB/s both ways take longer than the passes beside them, which are all the
    time that a device or its host works on a layer: the rest shows."""
    e = evaluation(
        model={"extends": "llama2-7b"},
        training__offload={"activations": str(float(share))},
        time={"host_link": "1 GB/s"},
    )
    layer = {"part": next(x for x in e.case.axes["part"] if x.settings.get("layers"))}
    way = share * e.value("memory.activations.layer", layer) / 10**9
    passes = e.value("time.part.busy", layer)
    assert passes < way
    assert float(e.value("time.part.offload", layer)) == pytest.approx(float(2 * way - passes))


@pytest.mark.slow
@pytest.mark.parametrize(("recompute", "again"), [("none", 1), ("full", 4 / 3)])
@pytest.mark.parametrize("count", ["full", "causal"])
def test_a_step_takes_no_less_than_its_flops_at_the_peak_and_its_products_as_they_run(
    recompute: str, again: float, count: str
) -> None:
    """Of a model computed forwards and twice as much backwards a third more runs again under full
    recomputation: (1 + 1/3) at the peak is less than 1 at 0.7 of it, so that products decide, and
    more than 1 at 0.9 of it. What fused kernels perform is less by the masked blocks and more by
    scores made anew: of 4,096 keys a query meets 2,048.5, a kernel 2,112."""
    plan = {"model": {"extends": "llama2-7b"}, "training__recompute": recompute}
    for rate in (Fraction(7, 10), Fraction(9, 10)):
        e = evaluation(**plan, training__attention_count=count, time__efficiency__matmul=rate)
        mfu, hfu = e.value("time.mfu"), e.value("time.hfu")
        layers, length, hidden, vocabulary, inner = 32, 4096, 4096, 32000, 11008
        layer = 2 * (4 * hidden**2 + 3 * hidden * inner)
        score = 2 * 2 * hidden  # of a key
        met, performed = (length + 1) / 2, (length + 128) / 2
        head = 3 * 2 * hidden * vocabulary
        needed = 3 * layers * (layer + met * score) + head
        done = layers * ((2 + again * 3 - 2) * layer + (3.5 + again * 3 - 3) * performed * score)
        second = float(e.value("time.tokens_per_second_per_device")) / float(e.value("time.peak"))
        assert float(hfu) == pytest.approx(second * (done + head), rel=1e-9)
        assert float(e.value("time.floor")) == pytest.approx(
            max(float(hfu), second * needed / float(rate))
        )
        counted = 3 * layers * (layer + (length if count == "full" else met) * score) + head
        assert float(mfu) == pytest.approx(second * counted)


@pytest.mark.parametrize("deep", [64, 8192])
def test_a_single_tile_is_cut_along_its_depth_where_that_pays(deep: int) -> None:
    """One tile of 128 x 128 keeps one of 132 multiprocessors busy, its pieces as many; each pays
    for being shallow, here as if it were deeper by 512, and a tile of 128 costs a tenth more."""
    shape = (make_number(128), make_number(128), make_number(deep))
    taken = to_canonical(time_product.waves(shape, 1, make_number(512)))
    ways = [
        Fraction(11, 10) * Fraction(132, pieces) * Fraction(deep + pieces * 512, deep + 512)
        for pieces in (1, 2, 4)
    ]
    half_used = Fraction(132 * 128 * 256, 128 * 128)  # of a tile of 128 x 256
    e = evaluation(time__efficiency__small_tile=Fraction(11, 10))  # on an H100
    assert e.compute(taken, {}) == min(*ways, half_used)


@pytest.mark.parametrize(
    ("accelerator", "rate"),
    # As printed, both ways together, a superchip's for two GPUs; 0.8 of it sustained.
    [
        ("gb300", Fraction(8, 10) * 900 * 10**9 / 2 / 2),
        ("h100-sxm-80gb", Fraction(8, 10) * 128 * 10**9 / 2),
        ("tpu-v5e", 25 * 10**9),
    ],
)
def test_activations_travel_on_the_accelerators_own_link_to_the_host(
    accelerator: str, rate: Fraction
) -> None:
    assert loading.load(on_the_host(accelerator)).get("time.host_link") == rate


def on_the_host(accelerator: str, **offload: int) -> dict[str, Any]:
    return {
        "model": "llama3-70b",
        "cluster": {
            "accelerator": accelerator,
            "devices": 64,
            "devices_per_node": 4,
            "network": {"bandwidth": "400 Gb/s"},
        },
        "training": {"sequence_length": 8192, "global_batch": 64, "offload": offload},
        "parallelism": {"zero": 3},
    }


def test_twenty_of_eighty_layers_leave_sixty_and_one_on_its_way() -> None:
    """TransformerEngine's cpu_offload spreads the layers that it moves over all of them, and waits
    for one before it moves the next."""
    whole, part = (planner.load(on_the_host("gb300", **o)).evaluate() for o in ({}, {"layers": 20}))
    name = "memory.activations.layers[0]"
    assert part[name].value * 80 == whole[name].value * 61
    # Over NVLink-C2C a quarter of the activations takes less time than the passes that hide it.
    step = "time.step_seconds"
    assert part[step].value == whole[step].value


@pytest.mark.parametrize(("layers", "fits"), [(10, False), (20, True)])
def test_a_published_script_keeps_as_many_layers_on_the_host_as_it_must(
    layers: int, fits: bool
) -> None:
    """Megatron-Bridge v0.4.1: Llama 3 70B on 64 GB300, fully sharded, two sequences of 8,192 a
    device, with 20 of 80 layers on the host."""
    rows = (ROOT / "tests/data/runs.jsonl").read_text("utf-8").splitlines()
    row = next(row for row in map(json.loads, rows) if row["id"] == "bridge-gb300-l3-70b-0001a")
    assert row["plan"]["training"]["offload"] == {"layers": 20}
    row["plan"]["training"]["offload"] = {"layers": layers}
    found = planner.load(row["plan"]).evaluate()
    assert (found["memory.process"].value <= found["memory.capacity"].value) is fits


def test_another_layout_keeps_as_many_layers_on_the_host() -> None:
    plan = loading.load(on_the_host("gb300", layers=20))
    other = variant(plan, {"parallelism.zero": 2})
    assert other.get("training.offload.activations") == Fraction(20, 80)


@pytest.mark.parametrize(
    ("offload", "said"),
    [({"layers": 81}, "a model with 80"), ({"layers": 8, "activations": 1}, "one of the two")],
)
def test_layers_on_the_host_are_layers_of_the_model(offload: dict[str, int], said: str) -> None:
    with pytest.raises(PlanError, match=said):
        loading.load(on_the_host("gb300", **offload))
