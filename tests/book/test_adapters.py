"""Which parameters a sum is over: all of them, those that are trained, or those that are frozen.

The book is walked for sums that rest on all parameters where adapters are trained, and laws hold
each part of memory, over models that ship, to what follows from that: what exists for a weight
because it is trained (gradients, master copies, states, casts under autocast, buffers of reductions
and of the update) is there for adapters alone; frozen weights take the bytes of their format.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from benchmarks import measured, memory_accuracy, tables
from benchmarks.memory_accuracy import evaluated
from planner.base.errors import PlanError
from planner.book import notation
from planner.book.expressions import Expression, Symbol
from planner.book.quantity import BOOK, Formula
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from planner.results.verdict import VERDICTS
from tests.conftest import read_data

# -- the walk ----------------------------------------------------------------------------------

#: All parameters of a component: as they are, on one rank, and by the widths of its matrix.
ALL = ("parameters.component", "parameters.device")
#: What says which of a component's parameters it is: beside adapters no sum needs another.
OF_THOSE = read_data("book")["adapters_of_those"]
#: Sums that mean all parameters whatever is trained, with the reason.
MEANT = read_data("book")["adapter_targets"]


def beside_adapters(formula: Formula) -> bool:
    """Whether a formula may hold where adapters are trained."""
    wanted = formula.when.get("lora", True)
    return bool(True in wanted if isinstance(wanted, tuple) else wanted)


def symbols(tree: Any) -> Iterator[Symbol]:
    if isinstance(tree, Symbol):
        yield tree
    elif isinstance(tree, Expression):
        for below in tree.args:
            yield from symbols(below)


def test_sums_over_parameters_say_which_they_mean() -> None:
    names = {BOOK.quantities[name].symbol: name for name in (*ALL, *OF_THOSE)}
    of_all, used = set(), set()
    for quantity in BOOK.quantities.values():
        for formula in filter(beside_adapters, quantity.formulas):
            uses = {names[one] for one in symbols(formula.written) if one in names}
            used |= uses
            if uses & set(ALL) and quantity.id not in {*ALL, *OF_THOSE}:
                of_all.add(quantity.id)
    assert of_all == MEANT.keys()
    assert used >= OF_THOSE.keys(), "a name that no sum uses"


# -- laws over models that ship ------------------------------------------------------------------

RANK = 8
#: Bytes of a trained weight and of all that training keeps of it.
STATES = (notation.k_w, notation.k_g, notation.k_m, notation.k_G, notation.k_o, notation.k_o,
          notation.k_o, notation.k_c, notation.k_red)  # fmt: skip
SHIPPED = sorted(file.stem for file in Path("presets/models").glob("*.yaml"))
BYTES = {"bf16": Fraction(2), "int8": Fraction(1), "nf4": Fraction(9, 16)}
#: What is there for a weight because it is trained.
OF_TRAINED = (
    "memory.gradients.stage",
    "memory.optimizer.stage",
    "memory.buffers.step",
    "memory.buffers.dummies",
)


def plan(model: str, base: str | None, zero: int = 0, **training: Any) -> dict[str, Any]:
    lora = {"lora": {"rank": RANK, "base": base}} if base else {}
    own = {"tokens": "1B", "sequence_length": 512, "global_batch": 8, "micro_batch": 1}
    layout = {"data": 8, "zero": zero}
    return {
        "model": model,
        "cluster": "8 x h100",
        "training": {**own, "optimizer_kernel": "foreach", **training, **lora},
        "parallelism": layout,
    }


def on_stage(e: Evaluation, name: str) -> Fraction:
    (stage,) = e.case.axes["stage"]
    return Fraction(e.value(name, {"stage": stage}))


def by_phase(e: Evaluation, name: str) -> dict[str, Fraction]:
    (stage,) = e.case.axes["stage"]
    phases = e.case.axes["phase"]
    return {x.name: Fraction(e.value(name, {"stage": stage, "phase": x})) for x in phases}


def total(e: Evaluation, name: str, **settings: Any) -> Fraction:
    """The sum of a value of components, as often as their layers occur."""
    found = Fraction(0)
    for component in e.case.axes["component"]:
        if all(component.settings[key.replace("_", " ")] == v for key, v in settings.items()):
            copies = e.compute(notation.L_k, {"part": component.around["part"]})
            found += copies * Fraction(e.value(name, {"component": component}))
    return found


def evaluations(model: str, **training: Any) -> dict[str | None, Evaluation]:
    return {base: evaluated(plan(model, base, **training)) for base in (None, *BYTES)}


def adaptable(model: str) -> bool:
    """Whether it is a decoder whose layers have a query and a value of their own."""
    try:
        loading.load(plan(model, "bf16"))
    except PlanError as problem:
        assert "no layer of the model has a projection" in str(problem)
        return False
    return True


#: Every ninth, and what adapters meet besides: tied embeddings, experts, towers, a fused matrix.
MODELS = [*SHIPPED[::9], "llama3.1-8b", "gemma-2b", "mixtral-8x7b", "gpt2-small"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("precision", ["bf16", "bf16-pure"])
@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("model", MODELS)
def test_memory_follows_from_what_is_trained(model: str, zero: int, precision: str) -> None:
    if not adaptable(model):
        pytest.skip("it has no projections that adapters stand beside by default")
    found = evaluations(model, zero=zero, precision=precision)
    full, lora = found.pop(None), found["bf16"]
    trained = total(lora, "parameters.trained")
    hidden = total(lora, "parameters.device", hidden_matrix=True)
    assert 0 < trained < total(full, "parameters.trained")
    each = sum(lora.compute(k, {}) for k in STATES)
    shares = 8 if zero else 1

    for base, e in found.items():
        # Never more than full training, but for the adapters themselves.
        assert e.value("memory.total") <= full.value("memory.total") + each * trained
        # What exists because a weight is trained does not know how the frozen ones are stored.
        for name in OF_TRAINED:
            assert on_stage(e, name) == on_stage(lora, name) < on_stage(full, name) or not (
                on_stage(full, name)
            )
        assert by_phase(e, "memory.buffers.reduced") == by_phase(lora, "memory.buffers.reduced")
        # Frozen weights take the bytes of their format, here and nowhere else.
        less = (BYTES["bf16"] - BYTES[base]) * hidden / shares
        weights = on_stage(lora, "memory.weights.stage") - on_stage(e, "memory.weights.stage")
        assert weights == less
        if not zero:
            at_loss = by_phase(lora, "memory.live")["loss"] - by_phase(e, "memory.live")["loss"]
            assert at_loss == less
        # They are gathered as they are stored.
        parts = e.case.axes["part"]
        gathered = sum(
            lora.value(name, {"part": part}) * lora.compute(notation.L_k, {"part": part})
            - e.value(name, {"part": part}) * e.compute(notation.L_k, {"part": part})
            for name in ("memory.buffers.gathered_part",)
            for part in parts
        )
        assert gathered == less * shares
    if not zero:
        copies = by_phase(lora, "memory.buffers.gathered")["loss"]
        assert copies == (2 * trained if precision == "bf16" else 0)
    assert on_stage(lora, "memory.gradients.stage") * shares == trained * lora.compute(
        notation.k_g, {}
    )
    order = [on_stage(found[base], "memory.weights.stage") for base in ("nf4", "int8", "bf16")]
    assert order == sorted(order) and order[0] < order[-1]


@pytest.mark.parametrize(("model", "targets", "count"), read_data("book")["latent_adapters"])
def test_latent_attention_has_the_adapters_of_peft(
    model: str, targets: list[str], count: int
) -> None:
    lora = {"lora": {"rank": 16, "targets": targets}}
    assert total(evaluated(plan(model, None, **lora)), "parameters.trained") == count


# -- what was done ---------------------------------------------------------------------------------

#: Dettmers et al. 2023: adapters in 16 bit beside every projection, states in paged memory.
OF_QLORA = read_data("book")["qlora_memory"]
SMALL = {"recompute": "full", "lora": {"rank": 16, "base": "nf4"}}


@pytest.mark.parametrize(
    ("model", "card", "length", "training"),
    [
        ("llama-65b", "rtx-a6000", 512, OF_QLORA),  # 48 GB, as the paper's title says
        ("llama3.1-8b", "rtx-4090", 1024, SMALL),
        ("llama3.1-8b", "rtx-4090", 2048, SMALL),
    ],
)
def test_packed_bases_fit_where_people_train_them(
    model: str, card: str, length: int, training: dict[str, Any]
) -> None:
    own = {"tokens": "10M", "sequence_length": length, "micro_batch": 1, "global_batch": 16}
    e = evaluated({"model": model, "cluster": f"1 x {card}", "training": {**own, **training}})
    assert e.value("memory.headroom") > 0
    # The base alone takes half a byte of each weight, and something more.
    assert e.value("memory.weights") > e.value("parameters.total") / 2


@pytest.mark.slow
def test_published_readings_of_adapters_are_met() -> None:
    """44 runs of A100 with 80 GB (QwenLM/Qwen, README: profiling of memory and speed), which
    all ran; GB as they print it, of which they do not say what it is."""
    file = Path("tests/data/memory_adapters.jsonl")
    found = tables.grouped(memory_accuracy.runs(file), "held")
    assert {kind: len(rows) for kind, rows in found.items()} == {
        "adapters": 23,
        "quantised": 15,
        "all": 6,
    }
    # A copy of each frozen weight in 16 bit would be two thirds more, or twice as much again.
    for kind, most in (("adapters", 0.10), ("quantised", 0.20)):
        assert median(abs(row["error"]) for row in found[kind]) < most
    assert all(row["ran"] and row["state"] != "no" for row in memory_accuracy.verdicts(file))
    for packed, most in ((False, 0.10), (True, 0.15)):  # seconds of a step
        rows = (row for row in measured.read(file) if row.plan["training"].get("lora"))
        seconds = measured.compare(
            row for row in rows
            if row.quantity in measured.SPEED and ("base" in row.plan["training"]["lora"]) == packed
        )  # fmt: skip
        assert median(abs(row["error"]) for row in seconds) < most


@pytest.mark.slow
def test_published_runs_that_ran_are_not_refused() -> None:
    """One laboratory's sweep of one to four A100 with 80 GB (fms-acceleration, benchmark tables),
    and what people report: 127 runs that ran, 43 that ran out of memory."""
    files = (Path(f"tests/data/memory_{name}.jsonl") for name in ("fms", "reports"))
    found = memory_accuracy.verdicts(*files, Path("tests/data/publications.yaml"))
    states = Counter((row["ran"], row["state"]) for row in found)
    ran, failed = (sum(states[ran, state] for state in VERDICTS) for ran in (True, False))
    assert (ran, failed) == (127, 43)
    assert states[True, "no"] <= 0.03 * ran and states[False, "fits"] <= 0.05 * failed


KEPT = json.loads(Path("tests/data/adapters_kept.json").read_text("utf-8"))["cases"]


@pytest.mark.parametrize("case", KEPT)
def test_a_layer_keeps_what_pytorch_keeps_of_it(case: dict[str, Any]) -> None:
    assert evaluated(case["plan"]).value("memory.activations.layer") == case["bytes"]


def hold_loss(training: dict[str, Any], vocab: int) -> Fraction:
    """What head and loss hold at their peak, and the embedding's activations, of 64 tokens."""
    shape = {"hidden": 32, "layers": 1, "max_sequence": 64, "mlp": {"intermediate": 64}}
    model = {**shape, "vocab": vocab, "attention": {"heads": 2}}
    own = {"sequence_length": 64, "micro_batch": 1, "global_batch": 1, "recompute": "none"}
    e = evaluated({"model": model, "cluster": "1 x h100", "training": {**own, **training}})
    return on_stage(e, "memory.activations.stage") + on_stage(e, "memory.buffers.loss")


@pytest.mark.parametrize(("bytes_each", "training"), read_data("book")["logits_held"])
def test_a_loss_holds_what_pytorch_holds(bytes_each: float, training: dict[str, Any]) -> None:
    more = hold_loss(training, 8192) - hold_loss(training, 4096)
    assert more == 64 * 4096 * bytes_each
