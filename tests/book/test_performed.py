"""Laws of what kernels perform: no convention of counting moves it, no utilisation is above 1, and
sparse attention is dense attention with fewer keys and an index."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.base import resources
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.changed import changed
from tests.conftest import leave_to_night, read_data

MODELS = sorted(path.stem for path in (resources.folder("presets") / "models").glob("*.yaml"))
SPARSE = read_data("plans")["sparse_attention"]
WINDOWED = ("gemma3-27b", "gpt-oss-120b", "llama4-scout", "mistral-7b")
#: Of each kind of model one or two, and those whose scores are most of their FLOPs.
QUICK = {*SPARSE, *WINDOWED, "bert-base", "dit-xl-2", "jamba-52b", "seed-oss-36b", "t5-small"}
COUNTS = ("full", "causal", "window", "causal-window")


def evaluation(
    model: Any, length: int | None = None, like: Evaluation | None = None, **more: Any
) -> Evaluation:
    """Of a plan of 64 H100 with kernels that reach most of their peak, over the graph of one
    ``like`` it. ``more`` are keys of training, or of the parallelism."""
    training: dict[str, Any] = {"implementation": "megatron", "global_batch": 64, **more}
    layout = {"zero": 1, **training.pop("parallelism", {})}
    if length is not None:
        training["sequence_length"] = length
    plan = {
        "model": deepcopy(model),
        "cluster": {
            "accelerator": "h100-sxm-80gb",
            "devices": 64,
            "network": {"bandwidth": "400 Gb/s"},
        },
        "training": training,
        "parallelism": layout,
    }
    return Evaluation(case.build(loading.load(plan)), like=like)


def lengths(model: str) -> Sequence[int]:
    """4k, 64k, 128k and the longest, as far as positions are not a table of fewer."""
    document = loading.load({**PLAIN, "model": model})
    longest = document.get("model.max_sequence")
    table = document.get("model.positions") == "learned"
    found = {4096, 65536, 131072, longest or 4096}
    return sorted(found if not table else {min(each, longest) for each in found})


#: Of which no layout is searched.
PLAIN = {
    "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64},
    "training": {},
    "parallelism": {},
}


@pytest.mark.parametrize("model", leave_to_night(MODELS, QUICK))
def test_no_utilisation_is_above_one(model: str) -> None:
    """MFU is absent where the convention counts a masked half that nobody performs."""
    e = None
    for length in lengths(model):
        e = evaluation(model, length, like=e)
        performed = e.value("time.hfu")
        assert 0 < performed <= 1, (length, float(performed))
        assert e.value("time.floor") < 1, length  # the peak does not decide the time
        per_second = e.value("time.tokens_per_second_per_device") / e.value("time.peak")
        counted = per_second * e.value("compute.model_flops_per_token")
        attended = per_second * e.value("compute.attended_flops_per_token")
        assert 0 < attended <= 1, (length, float(attended))
        if counted <= 1:
            assert float(e.value("time.mfu")) == pytest.approx(float(counted))
            continue
        # By causality alone: no window or pick makes it so.
        assert attended < counted <= 2 * attended
        with pytest.raises(planner.engine.lower.Absent, match="attention_count"):
            e.value("time.mfu")


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("model", ["deepseek-v3.2", "mistral-7b", "llama3-8b", "t5-small"])
@pytest.mark.parametrize("recompute", ["none", "full"])
def test_a_convention_of_counting_moves_no_more_than_counts(model: str, recompute: str) -> None:
    changes = {"model": model, "training.recompute": recompute}
    plan = changed(read_data("plans")["counted"], changes)

    def printed(count: str) -> dict[str, Any]:
        result = planner.load(plan, set={"training.attention_count": count}).evaluate()
        found = {}
        for name, quantity in result.quantities.items():
            value = None if quantity.absent else quantity.value
            found[name] = (value, quantity.interval, quantity.absent)
        return found

    full, *others = (printed(count) for count in COUNTS)
    moved = {name for other in others for name in full if other[name] != full[name]}
    allowed = ("compute.", "time.mfu", "time.tflops_per_device", "scaling.")
    assert {name for name in moved if not name.startswith(allowed)} == set()
    assert "compute.flops_per_token" in moved
    performed = {name for name in moved if "performed" in name or "attended" in name}
    assert performed == set()


def sparse(top_k: int | None, **attention: Any) -> dict[str, Any]:
    index = {"index_heads": 4, "index_head_dim": 64}
    picked = {} if top_k is None else {"index_top_k": top_k}
    return {
        "layers": 4,
        "hidden": 1024,
        "vocab": 32000,
        "attention": {"heads": 16, "query_rank": 256, **index, **picked, **attention},
        "mlp": {"gated": True},
    }


LATENT = {"kv_rank": 128, "nope_dim": 64, "rope_dim": 32}
KINDS: dict[str, dict[str, Any]] = {
    "latent": LATENT,
    "pooled": {**LATENT, "index_pool": 4},
    "blocks": {},
    "compressed": {"compress": 4, "kv_heads": 1, "value_from_key": True, "window": 128},
    "in a window": {"window": 1024},
}
LENGTH = 8192


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("attention", ["flash", "eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_more_keys_never_take_less_time_and_all_are_dense_with_an_index(
    kind: str, attention: str
) -> None:
    def of(top_k: int | None) -> Evaluation:
        return evaluation(sparse(top_k, **KINDS[kind]), LENGTH, like=dense, attention=attention)

    dense = None
    dense = of(None)
    times, keys = [], []
    for top_k in (1, 64, 100, 512, 1000, 2048, 5000, LENGTH, 2 * LENGTH):
        e = of(top_k)
        times.append(e.value("time.step_seconds"))
        name = "compressed_core" if kind == "compressed" else "core"  # that has picked keys
        core = next(x for x in e.case.axes["component"] if x.name == name)
        keys.append(e.value("compute.performed_keys", {"component": core}))
        if attention == "flash":
            assert keys[-1] <= top_k
    assert times == sorted(times)
    assert keys == sorted(keys)
    for name in ("time.step_seconds", "time.hfu", "compute.performed_flops_per_token"):
        assert e.value(name) == dense.value(name)
    if attention == "flash" and kind != "in a window":
        assert times[0] < times[-1]
    alone = evaluation(without_index(sparse(None, **KINDS[kind])), LENGTH, attention=attention)
    if kind != "compressed":  # without an indexer neighbouring keys do not overlap there
        assert alone.value("time.step_seconds") < dense.value("time.step_seconds")
        whole = "compute.performed_flops_per_token"
        index = [x for x in e.case.axes["component"] if x.settings["group"] == "indexer"]
        products = [x for x in index if x.settings["matmul"]]
        done = sum(e.value("compute.performed_component", {"component": x}) for x in products)
        assert e.value(whole) == alone.value(whole) + 4 * done  # of each of the layers


def without_index(model: dict[str, Any]) -> dict[str, Any]:
    kept = {k: v for k, v in model["attention"].items() if not k.startswith("index_")}
    return {**model, "attention": kept}


@pytest.mark.slow
def test_wider_windows_never_take_less_time_and_the_widest_is_none() -> None:
    def of(window: int | None) -> Evaluation:
        attention = {"heads": 16} if window is None else {"heads": 16, "window": window}
        return evaluation({**sparse(None), "attention": attention}, LENGTH)

    names = ("time.step_seconds", "compute.performed_flops_per_token", "time.hfu", "time.mfu")
    found = [[of(w).value(name) for name in names] for w in (1, 128, 129, 1000, 4096, LENGTH)]
    assert [row[:2] for row in found] == sorted(row[:2] for row in found)
    assert found[-1] == [of(None).value(name) for name in names]
    assert found[0][0] < found[-1][0]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("model", SPARSE)
def test_what_an_indexer_picks_moves_time_flops_and_memory(model: str) -> None:
    """Of each shipped sparse model, with a fourth of the keys and with all."""
    document = loading.load({**PLAIN, "model": model})
    kinds = document.document.data["model"].get("kinds") or {}
    names = [n for n, kind in kinds.items() if (kind or {}).get("attention", {}).get("index_top_k")]
    paths = [f"kinds.{name}.attention" for name in names] or ["attention"]

    def of(top_k: int) -> Evaluation:
        own: dict[str, Any] = {"extends": model}
        for path in paths:
            inner = own
            for key in path.split("."):
                inner = inner.setdefault(key, {})
            inner["index_top_k"] = top_k
        return evaluation(own, 65536, micro_batch=1, recompute="none")

    few, many = of(512), of(16384)
    moved = ["time.step_seconds", "compute.performed_flops_per_token", "time.core.forward"][:2]
    for name in (*moved, "compute.model_flops_per_token"):
        assert few.value(name) < many.value(name), name
    if model != "minimax-m3":  # which keeps blocks, of which there are few
        assert few.value("memory.activations") < many.value("memory.activations")


@pytest.mark.parametrize(("model", "pool"), [("deepseek-v3.2", 1), ("glm5.3-flash", 4)])
def test_an_indexers_keys_are_in_the_cache(model: str, pool: int) -> None:
    """128 values for each token or pool beside 512 of the latent key and 64, or none, that turn."""
    e = evaluation(
        model, 65536, mode="inference", output_tokens=0, parallelism={"zero": 0}, micro_batch=1
    )
    blocks = list(e.entries("block", {}, {"block": "attention"}))
    found = {e.value("memory.cache.block", point) for point in blocks if "stack" not in point}
    turned = 64 if model == "deepseek-v3.2" else 0
    each = Fraction(2 * (512 + turned) + Fraction(2 * 128, pool))
    assert found == {each * 65536 * e.value("layout.micro_batches")}
