"""Laws of time: more work never takes less, whatever the widths; and counts made by hand."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from copy import deepcopy
from fractions import Fraction
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.book.expressions import Symbol
from planner.book.notation import (
    P_16,
    B_dram,
    B_host,
    B_link,
    B_net,
    B_sus,
    P_listed,
    W,
    a_link,
    a_meet,
    a_net,
    c_ov,
    d_min,
    e_16,
    e_a2a,
    e_att,
    e_back,
    e_disp,
    e_link,
    e_mem,
    e_mm,
    e_net,
    f_clk,
    k_8,
    k_64,
    k_128,
    k_ew,
    n_emb,
    n_ends,
    n_la,
    n_mix,
    n_ring,
    o_net,
    price,
    q_back,
    t_la,
    x_head,
)
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.questions import loading
from tests.changed import changed, evaluation_of
from tests.conftest import leave_to_night, read_data

PLAN: dict[str, Any] = read_data("plans")["laws_of_time"]


def evaluation(**changes: Any) -> Evaluation:
    """The plan with some dotted keys changed; a dot is written as two underscores."""
    return evaluation_of(PLAN, changes)


def step(**changes: Any) -> float:
    return float(evaluation(**changes).value("time.step_seconds"))


# -- attention windows -------------------------------------------------------------------------


def blocks_met(length: int, window: int, block: int) -> Fraction:
    """Keys of the blocks that a causal fused kernel visits for a query, on average: those that hold
    at least one key which at least one query of the block may see."""
    visited = 0
    for first in range(0, length, block):
        queries = range(first, first + block)
        seen = {key // block for q in queries for key in range(max(0, q - window + 1), q + 1)}
        visited += len(seen) * block * block
    return Fraction(visited, length)


@pytest.mark.slow
@pytest.mark.parametrize("block", [4, 8])
def test_a_window_meets_the_blocks_that_a_kernel_visits(block: int) -> None:
    """Counted block by block, in blocks of 4 and 8 keys instead of 128."""
    length = 16 * block
    before = Fraction(0)
    for window in range(1, length + 1):
        found = evaluation(
            model={
                **deepcopy(SMALL),
                "max_sequence": length,
                "attention": {"heads": 4, "window": window},
            },
            training__sequence_length=length,
            time={"efficiency": {"attention_block": block}},
        )
        core = next(e for e in found.case.axes["component"] if e.settings["type"] == "core")
        keys = found.value("compute.performed_keys", {"component": core})
        assert keys == blocks_met(length, window, block)
        assert keys >= before
        before = keys
    assert before == Fraction(length + block, 2)  # as without a window


SMALL: dict[str, Any] = {"layers": 2, "hidden": 256, "vocab": 512, "mlp": {"intermediate": 512}}


# -- more work ---------------------------------------------------------------------------------


def test_longer_sequences_of_experts_never_take_less_time() -> None:
    """Rows of an expert are seldom a multiple of 64; twice the tokens are twice the work."""
    times = [
        step(
            model="llama4-maverick",
            cluster__devices=512,
            parallelism={"tensor": 8, "expert": 16, "sequence": True, "zero": 1},
            training__global_batch=512,
            training__sequence_length=length,
        )
        for length in (1024, 2048, 4096, 8192)
    ]
    assert times == sorted(times)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("accelerator", ["h100-sxm-80gb", "tpu-v5e"])
@pytest.mark.parametrize("key", ["mlp__intermediate", "vocab", "hidden"])
def test_a_wider_product_never_takes_less_time(accelerator: str, key: str) -> None:
    """Each width just around the multiples of 8 and 64; hidden sizes stay multiples of the heads'
    8, so that heads stay alike."""
    widths = range(448, 523) if key != "hidden" else range(448, 584, 8)
    before = 0.0
    for width in widths:
        more = {f"model__{key}": width}
        if key == "hidden":
            more["model__attention"] = {"heads": 8, "head_dim": 32}
        taken = step(
            model={**deepcopy(SMALL), "attention": {"heads": 8}, "max_sequence": 4096},
            cluster__accelerator=accelerator,
            parallelism__vocab_multiple=1,
            **more,
        )
        assert taken >= before
        before = taken


# -- formats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["opt-1.3b", "mixtral-8x7b", "jamba-52b"])
def test_traffic_of_activations_is_linear_in_the_bytes_of_their_format(model: str) -> None:
    """Without dropout (masks of a byte) and rotary positions (turned in fp32), values of 4 bytes
    move twice what values of 2 do."""

    def moved(precision: str) -> list[Any]:
        found = evaluation(
            model={"extends": model, "positions": "learned"},
            training__precision=precision,
            training__loss="fused",
            training__sequence_length=1024,
        )
        blocks = found.case.axes["block"]
        return [found.value("time.elementwise.bytes", {"block": block}) for block in blocks]

    narrow, wide = moved("bf16"), moved("fp32")
    assert sum(narrow) > 0
    assert wide == [2 * each for each in narrow]


# -- recomputation -----------------------------------------------------------------------------


@pytest.mark.parametrize(("implementation", "attention", "again"), read_data("book")["runs_again"])
def test_time_and_flops_agree_on_what_runs_again(
    implementation: str, attention: str, again: int
) -> None:
    found = evaluation(
        training__recompute="selective",
        training__implementation=implementation,
        training__attention=attention,
    )
    core = 4 * 4096 * 4096 * 32  # 4 s h of each of 32 layers: scores in full, and values
    assert found.value("compute.recomputed_flops_per_token") == again * core
    layer = next(e for e in found.case.axes["part"] if e.settings["layers"])
    block = next(e for e in found.case.axes["block"] if e.settings["block"] == "attention")
    repeated = found.value("time.part.repeated", {"part": layer})
    assert repeated == again * found.value("time.core.forward", {"block": block})


def test_whole_blocks_run_again_where_they_are_chosen() -> None:
    """A SwiGLU feed-forward of Llama-2 7B: three matrices of 4096 x 11008, 2 FLOP a weight."""
    found = evaluation(training__recompute="selective", training__recompute_modules=["mlp"])
    assert found.value("compute.recomputed_flops_per_token") == 32 * 2 * 3 * 4096 * 11008


@pytest.mark.parametrize("tensor", [1, 4])
@pytest.mark.parametrize(("less", "more"), read_data("book")["spared_by_kernels"])
def test_what_kernels_spare_takes_no_longer(
    less: dict[str, Any], more: dict[str, Any], tensor: int
) -> None:
    assert step(**less, parallelism__tensor=tensor) <= step(**more, parallelism__tensor=tensor)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
def test_what_leaves_the_device_makes_room_and_costs_time(zero: int) -> None:
    places: list[dict[str, Any]] = [{}, {"optimizer": 0.5}, {"optimizer": True}]
    places += [{"gradients": True}] + [{"parameters": 0.5}, {"parameters": True}] * (zero == 3)
    own = {"parallelism__zero": zero, "training__implementation": "pytorch"}
    away = [evaluation(training__offload=place, **own) for place in places]
    kept = [float(each.value("memory.total")) for each in away]
    assert kept == sorted(kept, reverse=True) and len(set(kept)) == len(places)
    times = [float(each.value("time.step_seconds")) for each in away]
    assert times == sorted(times) and times[0] < times[1] < times[2]
    own |= {"training__global_batch": 8, "training__recompute": "full"}
    steps = [evaluation(training__optimizer_step=s, **own) for s in ("in-backward", "whole")]
    for name, less in (("memory.total", operator.le), ("memory.gradients.most", operator.lt)):
        assert less(*(each.value(name) for each in steps)), name


def test_activations_on_their_way_hide_beside_the_host_too() -> None:
    """Where the host launches for longer than the device works, two more tokens add traffic and
    hide none of it."""
    away = read_data("plans")["everything_offloaded"]
    times = [step(**away, training__sequence_length=length) for length in (62, 64, 66, 68)]
    assert times == sorted(times)


# -- every shipped model and accelerator -------------------------------------------------------

PRESETS = Path(__file__).parents[2] / "presets"
MODELS = sorted(path.stem for path in (PRESETS / "models").glob("*.yaml"))
ACCELERATORS = sorted(path.stem for path in (PRESETS / "accelerators").glob("*.yaml"))
#: Ways to train, taken in turn with models and accelerators.
WAYS: list[dict[str, Any]] = read_data("book")["ways_of_time"]


def shipped() -> Iterator[tuple[str, dict[str, Any]]]:
    """A plan for each model: the n-th with the n-th accelerator and way, which meet all others in
    turn, for 88 and 7 have no common divisor with each other."""
    for number, (model, accelerator) in enumerate(zip(MODELS, cycle(ACCELERATORS), strict=False)):
        way = WAYS[number % len(WAYS)]
        own = {"model": {"extends": model}, "cluster.accelerator": accelerator}
        own |= {f"training.{key}": value for key, value in way.get("training", {}).items()}
        own["parallelism"] = way["parallelism"]
        yield f"{model} on {accelerator}", changed(read_data("plans")["shipped"], own)


def evaluated(document: dict[str, Any], kind: type[Evaluation] = Evaluation) -> Evaluation | None:
    """A plan's evaluation; None for a document that is no plan, such as an odd number of heads over
    two ranks, or whose step has no time."""
    try:
        found = kind(case.build(loading.load(document)))
        found.value("time.step_seconds")
    except (PlanError, Absent):
        return None
    return found


def larger(document: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """What makes a step more work, each as a list of ever larger changes."""
    lengths = (500, 503, 504, 505, 511, 512, 513, 1024)
    yield "longer sequences", [{"training.sequence_length": s} for s in lengths]
    batches = ((64, 2), (96, 3), (128, 4))
    yield (
        "larger micro-batches",
        [{"training.global_batch": g, "training.micro_batch": b} for g, b in batches],
    )
    yield "larger batches", [{"training.global_batch": g} for g in (64, 128, 256)]
    data = loading.load(document).data["model"]
    rank = {"parallelism.vocab_multiple": 1}
    if words := data.get("vocab"):  # a model of images has none
        more = (0, 2, 4, 6, 8, 64, 128)
        yield "larger vocabularies", [{"model.vocab": words + n, **rank} for n in more]
    yield "more layers", [{"model.layers": data["layers"] + more} for more in (0, 2, 4)]
    for key in ("mlp", "moe"):
        width = (data.get(key) or {}).get("intermediate")
        if width:
            wider = (0, 4, 8, 12, 32, 60, 64, 68, 128)
            changes = [{f"model.{key}.intermediate": width + more} for more in wider]
            yield f"wider {key}", changes


def disordered(document: dict[str, Any]) -> list[str]:
    """The laws that the plan breaks."""
    wrong = []
    for law, steps in larger(document):
        before, first = 0.0, ""
        for changes in steps:
            found = evaluated(changed(document, changes), Evaluation)
            if found is None:
                continue
            taken = float(found.value("time.step_seconds"))
            if taken < before * (1 - 1e-12):
                wrong.append(f"{law}: {first} {before}, {changes} {taken}")
            before, first = taken, str(changes)
    return wrong


#: Symbols of which more is never slower, and of which more is never faster.
FASTER = (P_listed, P_16, W, B_link, B_net, B_sus, B_host, B_dram, e_mm, e_16, e_att, e_mem)
FASTER += (e_link, e_net, e_a2a, e_disp, e_back, f_clk)
SLOWER = (a_link, a_net, o_net, d_min, k_64, k_8, k_128, k_ew, n_la, t_la, n_ends, n_ring, n_mix)
SLOWER += (n_emb, q_back, x_head, c_ov, a_meet)
#: Of their value: little, just below and above, twice, and much; of a share at most all.
TIMES = (Fraction(1, 10**6), Fraction(1, 2), Fraction(999, 1000), 1, Fraction(1001, 1000), 2, 10**6)
SHARES = (e_mm, e_16, e_att, e_mem, e_link, e_net, e_a2a, e_disp, c_ov, x_head)
AT_LEAST_1 = (k_64, k_8, k_128, o_net)


def corners(symbol: Symbol, value: Any) -> list[Any]:
    found = [value * times for times in TIMES]
    if symbol in SHARES:
        found = [min(each, 1) for each in found]
    if symbol in AT_LEAST_1:
        found = [max(each, 1) for each in found]
    return found


def misdirected(found: Evaluation) -> list[str]:
    """The rates and shares that move the step in the wrong direction, or leave it without one."""
    wrong = []
    for symbol in (*FASTER, *SLOWER):
        value = found.case.bindings.get(symbol)
        if isinstance(value, Absent) or not value:
            continue
        taken = []
        for each in corners(symbol, Fraction(value)):
            try:
                taken.append(float(found.change_input(symbol, each).value("time.step_seconds")))
            except Absent as absent:
                wrong.append(f"{symbol} at {float(each)}: {absent.reason}")
        ordered = sorted(taken, reverse=symbol in FASTER)
        near = all(abs(a - b) <= 1e-12 * b for a, b in zip(taken, ordered, strict=True))
        if not near:
            wrong.append(f"{symbol}: {taken}")
    dearer = found.change_input(price, 2 * found.case.bindings[price])
    if not dearer.value("cost.total") > found.value("cost.total"):
        wrong.append("a price twice as high costs no more")
    return wrong


def outside(found: Evaluation) -> list[str]:
    """Quantities that the engine refused to print."""
    values = ((key[0], found.evaluate_node(place)) for key, place in found.nodes.items())
    return [
        f"{name}: {value.reason}"
        for name, value in values
        if isinstance(value, Absent) and "outside its range" in value.reason
    ]


def broken(cases: Iterable[tuple[str, dict[str, Any]]]) -> dict[str, list[str]]:
    found = {}
    for name, document in cases:
        evaluation_ = evaluated(document)
        if evaluation_ is None:
            continue
        wrong = [*disordered(document), *misdirected(evaluation_), *outside(evaluation_)]
        if wrong:
            found[name] = wrong
    return found


#: One in so many of the shipped models is a group, of which one is tried each time.
PARTS = 36


@pytest.mark.slow
@pytest.mark.parametrize("first", leave_to_night(range(PARTS), [0]))
def test_more_is_never_less_for_every_model(first: int) -> None:
    assert not broken(islice(shipped(), first, None, PARTS))
