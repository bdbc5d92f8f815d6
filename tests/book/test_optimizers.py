"""Optimizers: states and traffic counted by hand, Muon's products as its papers count them."""

from __future__ import annotations

from copy import deepcopy
from fractions import Fraction
from typing import Any

import pytest

import planner
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.conftest import read_data

OPTIMIZERS = ("adamw", "adam-8bit", "sgd", "sgd-momentum", "adafactor", "lion", "muon", "soap")
PLAN: dict[str, Any] = read_data("plans")["optimizers"]


def document(**changes: Any) -> dict[str, Any]:
    """The plan with some dotted keys changed; a dot is written as two underscores."""
    found = deepcopy(PLAN)
    for dotted, value in changes.items():
        section, key = dotted.split("__")
        found.setdefault(section, {})[key] = value
    return found


def evaluation(**changes: Any) -> Evaluation:
    return Evaluation(case.build(loading.load(document(**changes))))


def of(found: Evaluation, identifier: str, name: str) -> Any:
    """A quantity of the first component of that name."""
    component = next(e for e in found.case.axes["component"] if e.name == name)
    return found.value(identifier, {"component": component})


HEADLINES = read_data("book")["optimizer_headlines"]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("zero", [0, 1, 3])
def test_every_optimizer_answers_what_people_ask(optimizer: str, zero: int) -> None:
    changes = {"training__optimizer": optimizer, "parallelism__zero": zero}
    result = planner.load(document(**changes)).evaluate()
    assert not {name: result[name].absent for name in HEADLINES if result[name].absent}


def test_states_that_rest_on_a_shape_say_so() -> None:
    size = {**document(training__optimizer="adafactor"), "model": {"parameters": "7B"}}
    result = planner.load(size).evaluate()
    assert "by its size only" in str(result["memory.optimizer"].absent)


#: Bytes that the update of a parameter reads and writes in fp32, fused and one operation after
#: another: weights and states of 4 bytes read and written, a gradient of 4 read, and as PyTorch and
#: the authors' code write the operations.
FP32 = read_data("plans")["fp32"]


@pytest.mark.parametrize("optimizer", FP32)
def test_an_update_moves_what_its_operations_read_and_write(optimizer: str) -> None:
    for kernel, expected in zip(("fused", "foreach"), FP32[optimizer], strict=True):
        found = evaluation(
            training__optimizer=optimizer,
            training__optimizer_kernel=kernel,
            training__precision="fp32",
            training__implementation="pytorch",
        )
        assert of(found, "time.update", "up") == expected


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("precision", ["fp32", "bf16", "bf16-pure"])
@pytest.mark.parametrize("name", ["up", "token"])
def test_one_kernel_never_moves_more_than_many(optimizer: str, precision: str, name: str) -> None:
    fused, foreach = (
        of(
            evaluation(
                training__optimizer=optimizer,
                training__optimizer_kernel=kernel,
                training__precision=precision,
            ),
            "time.update",
            name,
        )
        for kernel in ("fused", "foreach")
    )
    assert 0 < fused <= foreach


def test_adafactor_moves_what_its_operations_read_and_write() -> None:
    """transformers, optimization.py, of a matrix in fp32: norm(p); g**2, + eps; two means; product
    of rows and columns, mul_(g); norm, div_, mul_(lr); -update; p.add_: of values as large as the
    matrix 1, 2 + 2, 1 + 1, 1 + 3, 1 + 2 + 2, 2 and 3 accesses; rows and columns there and back."""
    found = evaluation(
        training__optimizer="adafactor",
        training__optimizer_kernel="foreach",
        training__precision="fp32",
        training__implementation="pytorch",
    )
    accesses = 1 + 4 + 2 + 4 + 5 + 2 + 3
    small = Fraction(2 * 4 * (4096 + 11008), 4096 * 11008)
    assert of(found, "time.update", "up") == 4 * accesses + small


def test_adafactor_keeps_rows_and_columns() -> None:
    """Llama-2 7B by hand (Shazeer & Stern 2018, section 3): of 32 layers four matrices of 4096 x
    4096 and three of 4096 x 11008, of embedding and head 32000 x 4096; 65 norms in full."""
    layer = 4 * (4096 + 4096) + 3 * (4096 + 11008)
    numbers = 32 * layer + 2 * (32000 + 4096) + 65 * 4096
    found = evaluation(training__optimizer="adafactor", parallelism__zero=0)
    saved = found.value("memory.optimizer.per_parameter") * found.value("parameters.total")
    assert saved == 4 * numbers  # a state has 4 bytes
    # Weights are fp32 under PyTorch's mixed precision; each of 9 x 32 + 3 tensors counts its steps.
    assert found.value("memory.optimizer") == saved + 4 * 291


@pytest.mark.parametrize(
    ("sides", "expected"),
    [
        # m n (2 of a multiply-add): X X^T is m m n, its square m m m, times X m m n; 5 times.
        ((4096, 4096), 5 * 2 * (4096**3 + 4096**3 + 4096**3)),
        ((4096, 11008), 5 * 2 * (2 * 4096**2 * 11008 + 4096**3)),
    ],
)
def test_muon_counts_five_iterations(sides: tuple[int, int], expected: int) -> None:
    name = "output" if sides[0] == sides[1] else "up"
    found = evaluation(training__optimizer="muon", parallelism__zero=0)
    assert of(found, "time.orthogonal.flops", name) == expected


@pytest.mark.parametrize(("width", "batch"), [(768, 524288), (16384, 16_000_000)])
def test_muon_costs_as_its_author_says(width: int, batch: int) -> None:
    """Jordan et al. 2024, section Runtime: the products of T iterations are at most T m / B of the
    6 n m B FLOP of a step, 0.7 % for NanoGPT and 0.5 % for Llama 405B at T = 5; a square matrix
    reaches it."""
    model = {
        "layers": 1,
        "hidden": width,
        "vocab": 512,
        "max_sequence": 1024,
        "attention": {"heads": width // 64},
        "mlp": {"intermediate": 4 * width},
    }
    more = {"training__optimizer": "muon", "training__sequence_length": 1024}
    e = Evaluation(case.build(loading.load({**document(**more), "model": model})))
    square = of(e, "time.orthogonal.flops", "output")
    assert Fraction(square, 6 * width * width * batch) == Fraction(5 * width, batch)
    wide = of(e, "time.orthogonal.flops", "up")
    assert Fraction(wide, 6 * 4 * width * width * batch) < Fraction(5 * width, batch)
    assert float(Fraction(5 * width, batch)) < 0.0074


def states_of_soap(rows: int, columns: int, largest: int = 10_000) -> int:
    """Numbers that soap.py keeps of a matrix, as its init_preconditioner makes them: exp_avg and
    exp_avg_sq of its shape; of each side that is not too long GG and Q, square."""
    return 2 * rows * columns + sum(2 * side**2 for side in (rows, columns) if side <= largest)


def test_soap_keeps_two_squares_of_each_side() -> None:
    """Llama-2 7B by hand: of 32 layers four matrices of 4096 x 4096 and three of 4096 x 11008, a
    side that is beyond 10,000 as the vocabulary's 32,000 is; 65 norms with two moments. With both
    sides it is the paper's 2 m m + 2 n n + 3 m n, less the m n of the gradient."""
    assert states_of_soap(4096, 512) == 2 * 4096**2 + 2 * 512**2 + 2 * 4096 * 512
    layer = 4 * states_of_soap(4096, 4096) + 3 * states_of_soap(4096, 11008)
    numbers = 32 * layer + 2 * states_of_soap(32000, 4096) + 65 * 2 * 4096
    found = evaluation(training__optimizer="soap", parallelism__zero=0)
    saved = found.value("memory.optimizer.per_parameter") * found.value("parameters.total")
    assert saved == 4 * numbers
    # A checkpoint holds them once, instead of AdamW's two moments.
    size = found.value("parameters.total")
    adamw = evaluation(training__optimizer="adamw", parallelism__zero=0).value("checkpoint.bytes")
    assert found.value("checkpoint.bytes") - adamw == saved - 2 * 4 * size
    longer = {"training__optimizer": "soap", "training__soap": {"largest_side": 11008}}
    more = evaluation(**longer, parallelism__zero=0)
    grown = more.value("memory.optimizer.per_parameter") * size - saved
    assert grown == 4 * 32 * 3 * 2 * 11008**2


def test_soap_asks_for_the_rate_of_32_bit_products() -> None:
    changes = {"training__optimizer": "soap", "cluster__accelerator": "tpu-v5e"}
    link = {"bandwidth": "100 Gb/s"}  # none of its datasheets prints that rate
    found = planner.load(document(**changes, cluster__network=link)).evaluate()
    assert "cluster.accelerator.peaks.fp32" in str(found["time.step_seconds"].absent)
    assert found["memory.optimizer"].value is not None


@pytest.mark.slow
def test_soap_costs_some_percent_as_in_its_paper() -> None:
    """Vyas et al. 2024: 40 % fewer steps than AdamW were 35 % less time, so that a step took 8 %
    more; models of 360m with batches of 2 million tokens of 1,024, bases renewed in 10 steps. What
    a decomposition reaches is assumed, and on what devices is not said: it is of that order."""
    model = read_data("plans")["sophia_gpt2"]

    def step(optimizer: str, **more: Any) -> float:
        changes = document(
            cluster__devices=1,
            training__sequence_length=1024,
            training__global_batch=2048,
            training__micro_batch=32,
            training__optimizer=optimizer,
            **more,
        )
        changes["parallelism"] = {"zero": 0}
        evaluated = planner.load({**changes, "model": model}).evaluate()
        return float(evaluated["time.step_seconds"].value)

    adamw, soap = step("adamw"), step("soap")
    assert 1.02 < soap / adamw < 1.16
    # Figure 3: the overhead falls as the bases are renewed more seldom, and does not go away.
    often, seldom = (step("soap", training__soap={"frequency": f}) for f in (1, 100))
    assert often > soap > seldom > adamw


@pytest.mark.parametrize(
    ("model", "devices", "layout", "batch", "adamw", "muon"), read_data("book")["muon_of_nvidia"]
)
def test_muon_takes_a_few_percent_as_nvidia_measured(
    model: str,
    devices: int,
    layout: dict[str, Any],
    batch: tuple[int, int],
    adamw: int,
    muon: int,
) -> None:
    if model == "kimi-k2":
        layout = {**layout, "stages": "Et*4|(t*4|)*14tL"}

    def step(optimizer: str) -> float:
        training: dict[str, Any] = {"sequence_length": 4096}
        training |= {"global_batch": batch[0], "micro_batch": batch[1]}
        training |= {"precision": "mxfp8", "implementation": "megatron", "optimizer": optimizer}
        cluster = {"accelerator": "gb300", "devices": devices, "devices_per_node": 4}
        e = Evaluation(
            case.build(
                loading.load(
                    {
                        "model": model,
                        "cluster": {**cluster, "network": {"bandwidth": "800 Gb/s"}},
                        "training": training,
                        "parallelism": {"zero": 1, **layout},
                    }
                )
            )
        )
        return float(e.value("time.step_seconds"))

    more = step("muon") / step("adamw")
    if model == "kimi-k2":
        assert more == pytest.approx(adamw / muon, abs=0.01)
    else:  # what the host takes to launch the update of each small matrix is not counted
        assert 1.01 < more < adamw / muon


def test_kernels_of_symmetric_products_save_half_of_two_of_three() -> None:
    """Of a square matrix a third of all: Dao-AILab's and Megatron-Core's symmetric kernels."""
    plain, half = (
        of(
            evaluation(training__optimizer="muon", training__muon={"symmetric": symmetric}),
            "time.orthogonal.flops",
            "output",
        )
        for symmetric in (False, True)
    )
    assert half * 3 == plain * 2


def test_megatron_makes_gate_and_up_orthogonal_as_one_matrix() -> None:
    """Megatron-Core's linear_fc1 of Llama-2 7B is 22016 x 4096, and no half of it is set apart as
    queries, keys and values are (muon_split_qkv)."""
    found = evaluation(training__optimizer="muon", training__implementation="megatron")
    for name in ("gate", "up"):
        assert of(found, "time.orthogonal.flops", name) == 10 * (2 * 4096**2 * 22016 + 4096**3)
        assert of(found, "time.orthogonal.matrices", name) == Fraction(1, 2)
    assert of(found, "time.orthogonal.matrices", "down") == 1
    assert found.value("time.momentum") == 0  # a device owns whole matrices


@pytest.mark.parametrize("devices", [2, 8, 64])
def test_sharded_muon_sends_at_most_a_quarter_more(devices: int) -> None:
    """Liu et al. 2025 (arXiv 2502.16982), section 2.3: 1 to 1.25 times AdamW's traffic, gradients
    and weights of 4 bytes and a momentum of 2; close to 1 where many devices share it."""
    found = evaluation(
        cluster__devices=devices,
        training__optimizer="muon",
        time__efficiency={"network": 1},
        cluster__network={"bandwidth": "400 Gb/s", "latency": 0},
        cluster__accelerator={
            "extends": "h100-sxm-80gb",
            "link": {"bandwidth": "900 GB/s", "convention": "bidirectional", "latency": 0},
        },
    )
    adamw = 8 * found.value("time.ring")  # 4 of a gradient, 4 of a weight
    more = found.value("time.momentum") / adamw
    assert 0 < more <= Fraction(1, 4) / devices * 1.001
