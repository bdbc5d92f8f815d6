"""Rates fitted to runs: laboratories made up from known rates, logs on the command line, and what
later plans make of the document that is written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

import numpy as np
import pytest

import planner
from planner.cli.main import main
from planner.connect.calibrate import fit, laboratory
from planner.connect.calibrate.fit import Fit, Rate, Run
from planner.plans import error_bands as bands
from planner.questions import loading
from planner.report import as_text
from planner.report.elements import Link
from planner.report.view import view_of
from tests.conftest import read_data

#: Model, devices, tensor, pipeline, micro-batch: what ten runs of a laboratory may be, and others.
LAYOUTS = read_data("connect")["calibrated_layouts"]
OWN = 10


def document(model: str, devices: int, tensor: int, pipeline: int, micro: int) -> dict[str, object]:
    return {
        "name": f"{model} on {devices}",
        "model": model,
        "cluster": {"extends": "h100x1024", "devices": devices},
        "training": {"tokens": "1B", "sequence_length": 2048, "global_batch": 256,
                     "micro_batch": micro, "precision": "bf16", "implementation": "megatron"},
        "parallelism": {"tensor": tensor, "pipeline": pipeline, "zero": 1,
                        "sequence": tensor > 1},
    }  # fmt: skip


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    """Runs whose measured time is yet to be made up."""
    return [fit.run_of(loading.load(document(*layout)), 1.0) for layout in LAYOUTS]


@pytest.fixture(scope="module")
def rates(runs: list[Run]) -> list[Rate]:
    return laboratory.list_rates(runs)


def measured(
    runs: Sequence[Run], factors: dict[Rate, float], noise: Callable[[], float]
) -> list[Run]:
    """What a laboratory with such rates measures."""
    return [replace(run, measured=run.predict_step(factors) * math.exp(noise())) for run in runs]


def fitted(runs: Sequence[Run], rates: Sequence[Rate]) -> Fit:
    return fit.fit_rates(runs, [laboratory.find_scatter(run.evaluation) for run in runs], rates)


def test_slopes_are_those_of_differences(runs: list[Run], rates: list[Rate]) -> None:
    """The derivative of the graph against two evaluations, one per mille apart. A step time scales
    as one over all rates of work together, so shares of rates (time in no rate aside) are at most
    1."""
    for run in runs[:4]:
        seconds, slopes = run.find_slopes({})
        for rate in rates:
            by = 1.0005
            up, down = run.predict_step({rate: by}), run.predict_step({rate: 1 / by})
            assert slopes.get(rate, 0.0) == pytest.approx(
                math.log(up / down) / 2 / math.log(by), abs=2e-3
            ), rate.name
        assert seconds == pytest.approx(run.predict_step({}))


def test_known_factors_are_found_again(runs: list[Run], rates: list[Rate]) -> None:
    """A laboratory whose large products and whose network run at 0.8 of what ships."""
    by = {"matmul": 0.8, "network": 0.8}
    truth = {rate: by[rate.name] for rate in rates if rate.name in by}
    random = Random(1)
    own = measured(runs[:OWN], truth, lambda: random.gauss(0, 0.02))
    found = fitted(own, rates)
    for place, rate in enumerate(found.rates):
        low, high = found.find_rate(place, -fit.NORMAL), found.find_rate(place, fit.NORMAL)
        assert low <= rate.value * by.get(rate.name, 1) <= high, rate.name
    chosen = {rate.name: place for place, rate in enumerate(found.rates)}
    assert len(chosen) <= 5 and set(by) <= set(chosen)
    place = chosen["matmul"]
    assert found.find_rate(place) == pytest.approx(found.rates[place].value * 0.8, rel=0.06)

    def error(predicted: np.ndarray) -> float:
        return float(np.abs(predicted / np.array([run.measured for run in own]) - 1).mean())

    assert error(found.after) < error(found.without) < error(found.before) / 2
    rest = measured(runs[OWN:], truth, lambda: 0.0)
    factors = {rate: found.find_rate(place) / rate.value for place, rate in enumerate(found.rates)}
    assert fmean(abs(run.predict_step(factors) / run.measured - 1) for run in rest) < 0.05


def test_a_single_run_is_drawn_to_what_ships(runs: list[Run], rates: list[Rate]) -> None:
    """One step a tenth slower than predicted. Laboratories lie about 12 % apart and runs of one
    9 %: 0.12^2 / (0.12^2 + 0.09^2), two thirds of it, are the laboratory's. The interval of each
    rate holds the shipped one, and left out, the run is predicted by that."""
    row = bands.row("dense", runs[0].evaluation.case.settings)
    # The shipped interval is 1.73 standard deviations wide to either side (Student's t).
    whole = math.log((1 + row["high"]) / (1 + row["low"])) / 2 / 1.73
    theirs = 1 - float(row["within"]) ** 2 / whole**2
    found = fitted(measured(runs[:1], {}, lambda: 0.1), rates)
    assert found.without[0] == pytest.approx(found.before[0])
    assert math.log(found.after[0] / found.before[0]) == pytest.approx(0.1 * theirs, rel=0.1)
    for place, rate in enumerate(found.rates):
        assert found.find_rate(place, -1) < rate.value < found.find_rate(place, 1)
        assert found.weigh_runs(place) < theirs * 1.05
    more = fitted(measured(runs[:OWN], {}, lambda: 0.1), rates)
    assert np.log(more.after / more.before).mean() > 0.085
    matmul = [rate.name for rate in more.rates].index("matmul")
    assert more.weigh_runs(matmul) > 0.75


def test_runs_of_one_plan_count_as_one(runs: list[Run], rates: list[Rate]) -> None:
    """Four logs of one layout say what one of their mean says; two layouts say more."""
    misses = (0.04, 0.08, 0.12, 0.16)
    several = [replace(runs[1], measured=runs[1].predict_step({}) * math.exp(by)) for by in misses]
    mean = replace(runs[1], measured=runs[1].predict_step({}) * math.exp(fmean(misses)))
    one, four = fitted([mean], rates), fitted(several, rates)
    assert four.layouts == 1 and four.rates == one.rates
    assert four.moves == pytest.approx(one.moves, rel=0.05)
    assert four.without == pytest.approx(four.before)
    assert four.weigh_runs(0) == pytest.approx(one.weigh_runs(0), rel=0.05)
    two = fitted([mean, replace(runs[4], measured=runs[4].predict_step({}) * math.exp(0.1))], rates)
    assert max(map(two.weigh_runs, range(len(two.rates)))) > max(
        map(one.weigh_runs, range(len(one.rates)))
    )


@pytest.mark.slow
def test_intervals_hold_as_often_as_they_say(runs: list[Run], rates: list[Rate]) -> None:
    """Laboratories whose rates lie around the shipped ones as the prior says, and whose runs
    scatter as those of others do: nine of ten rates lie in their interval, and nine of ten further
    runs in theirs, which is narrower than that of published runs."""
    random, kind = Random(0), laboratory.find_scatter(runs[0].evaluation)
    prior = fitted(runs[:OWN], rates)
    within = math.sqrt(kind.within)
    held: list[bool] = []
    inside: list[bool] = []
    for _ in range(20):
        truth = {
            rate: min(math.exp(random.gauss(0, math.sqrt(var))), rate.most / rate.value)
            for rate, var in zip(prior.rates, prior.prior, strict=True)
        }
        found = fitted(measured(runs[:OWN], truth, lambda: random.gauss(0, within)), rates)
        for place, rate in enumerate(found.rates):
            low, high = found.find_rate(place, -fit.NORMAL), found.find_rate(place, fit.NORMAL)
            held.append(low <= rate.value * truth.get(rate, 1.0) <= high)
        factors = {
            rate: found.find_rate(place) / rate.value for place, rate in enumerate(found.rates)
        }
        reach = fit.find_quantile(0.95, kind.freedom + OWN) * math.sqrt(found.open.mean())
        for run in measured(runs[OWN:], truth, lambda: random.gauss(0, within)):
            inside.append(abs(math.log(run.measured / run.predict_step(factors))) <= reach)
        assert reach >= fit.NORMAL * within
    assert 0.85 <= fmean(held) <= 0.97
    assert 0.86 <= fmean(inside) <= 0.97


# -- the command -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plans and logs of a laboratory whose steps take 1.2 times what is predicted."""
    folder = tmp_path_factory.mktemp("laboratory")
    for place, layout in enumerate(LAYOUTS[:6]):
        data = document(*layout)
        (folder / f"{place}.yaml").write_text(json.dumps(data), "utf-8")
        seconds = float(planner.load(data).evaluate()["time.step_seconds"].number) * 1.2
        rows = "".join(f"{step},{seconds},{256},{layout[1]}\n" for step in range(12))
        header = "step,step_time_s,global_batch_size,world_size\n"
        (folder / f"{place}.csv").write_text(header + rows, "utf-8")
    return folder


def words(folder: Path, *places: int) -> list[str]:
    files = [(str(folder / f"{i}.yaml"), "--log", str(folder / f"{i}.csv")) for i in places]
    return ["calibrate", *(word for each in files for word in each)]


@pytest.mark.slow
def test_a_log_becomes_a_cluster_that_later_plans_extend(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Runs that take 1.2 times as long: a plan that extends what is written takes about as much
    longer, within a narrower interval that says whose runs it rests on; on other devices none of it
    holds."""
    out = folder / "my-cluster.yaml"
    assert main([*words(folder, *range(6)), "-o", str(out)]) == 0
    assert "5.yaml, 5.csv" in capsys.readouterr().out
    assert main(["validate", str(out)]) == 0
    text = out.read_text("utf-8")
    assert "trainplan" in text and "matmul:" in text and "6 runs of yours" in text
    before = planner.load(document(*LAYOUTS[3])).evaluate()
    changed = {**document(*LAYOUTS[3]), "cluster": {"extends": str(out), "devices": 64}}
    after = planner.load(changed).evaluate()
    one, other = before["time.step_seconds"], after["time.step_seconds"]
    assert 1.1 < other.number / one.number < 1.25
    # Narrower than what laboratories leave open, no narrower than the scatter within one.
    width, narrower = (math.log(step.interval[1] / step.interval[0]) for step in (one, other))
    within = 2 * fit.NORMAL * math.sqrt(laboratory.find_scatter(before.evaluation).within)
    assert within < narrower < width
    assert other.kind == "estimate" and "6 runs of yours, my-cluster.yaml" in str(
        after.inputs["time.efficiency.matmul"].origin
    )
    accuracy = view_of(after).accuracy
    assert accuracy is not None
    rows = {row[0].id: row[1] for row in accuracy.rows if isinstance(row[0], Link)}
    basis = rows["time.step_seconds"]
    assert "calibrated on 6 runs of yours, my-cluster.yaml" in basis
    assert "6 runs of yours (my-cluster.yaml)" in " ".join(as_text(after, "text").split())
    swapped = {**changed, "cluster": {**changed["cluster"], "accelerator": "a100-sxm-80gb"}}
    plain = {**changed, "cluster": {"extends": "h100x1024", "devices": 64,
                                    "accelerator": "a100-sxm-80gb"}}  # fmt: skip
    ours, theirs = (planner.load(each).evaluate()["time.step_seconds"] for each in (swapped, plain))
    assert ours.value == theirs.value and ours.interval == theirs.interval


@pytest.mark.parametrize(
    ("accelerator", "precision"),
    [("mi300x", "fp8"), ("mi300x", "bf16"), ("tpu-v5p", "bf16"), ("gb300", "fp8")],
)
def test_what_is_written_predicts_what_was_fitted(
    accelerator: str, precision: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether a share is calibrated, measured alone or assumed, shared by formats or one's own:
    the plan on the cluster that was written takes as long as the fit says, to its four digits."""
    data = document("llama3-8b", 32, 2, 1, 1)
    data["cluster"] = {"accelerator": accelerator, "devices": 32}
    data["training"] = {**data["training"], "precision": precision}  # type: ignore[dict-item]
    plan, log, out = (tmp_path / name for name in ("plan.yaml", "log.csv", "mine.yaml"))
    plan.write_text(json.dumps(data), "utf-8")
    step = planner.load(data).evaluate()["time.step_seconds"]
    log.write_text(f"seconds\n{float(step.number) * 1.3}\n", "utf-8")
    assert (
        main(["calibrate", str(plan), "--log", str(log), "-o", str(out), "--format", "json"]) == 0
    )
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    again = planner.load({**data, "cluster": str(out)}).evaluate()["time.step_seconds"]
    assert run["fitted"] == pytest.approx(float(again.number), rel=5e-4)
    assert run["fitted"] > 1.05 * run["shipped"]


@pytest.mark.slow
def test_json_has_what_the_tables_have(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words(folder, 0, 3), "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["run"] for run in found["runs"]] == ["0.yaml, 0.csv", "3.yaml, 3.csv"]
    first = found["runs"][0]
    assert first["measured"] == pytest.approx(1.2 * first["shipped"], rel=1e-6)
    assert first["shipped"] < first["left_out"] < first["fitted"] < first["measured"]
    assert found["mean_error"]["shipped"] == pytest.approx(1 - 1 / 1.2, rel=1e-3)
    assert {band["scale"] for band in found["further_runs"]} == {"node", "nodes"}
    assert all(0 <= rate["said_by_runs"] < 1 for rate in found["rates"])
    assert any("few layouts" in note for note in found["notes"])


def test_faults_name_their_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is one line with the place: another batch or number of devices than the log states, a
    log without times, plans and logs that do not pair, devices that are calibrated already."""
    plan, log = str(folder / "0.yaml"), str(folder / "0.csv")
    (folder / "none.csv").write_text("step,memory_reserved_gib\n1,40\n2,40\n", "utf-8")
    (folder / "far.csv").write_text("step,step_time_s\n1,1e-300\n2,1e-300\n", "utf-8")
    other = str(folder / "0.csv")
    cases = [
        ([plan, "--log", log, "--set", "training.global_batch=512"], "256 sequences", "--set"),
        ([str(folder / "1.yaml"), "--log", other], "8 devices, the plan has 32", "1.yaml:1:"),
        ([plan, "--log", str(folder / "none.csv")], "no time of a step", "none.csv"),
        ([plan, "--log", str(folder / "far.csv")], "where its plan predicts", "far.csv"),
        ([plan, str(folder / "1.yaml"), "--log", log], "2 plans, 1 logs", "2 plans"),
        ([plan, "--log", log, "-o", log], "ending", "0.csv"),
        ([plan, "--log", log, "-o", plan], "input", "0.yaml"),
        ([plan, "--log", log, "--set", "training.mode=inference"], "no step", "--set"),
    ]
    for given, said, place in cases:
        assert main(["calibrate", *given]) == 2
        error = capsys.readouterr().err
        assert said in error and place in error, error
        assert error.count("\n") == 1, error
    out = folder / "twice.yaml"
    assert main([*words(folder, 0), "-o", str(out)]) == 0
    again = ["--set", f"cluster={out}"]
    assert main([*words(folder, 0), *again]) == 2
    assert "calibrated already" in capsys.readouterr().err


def test_megatron_and_torchtitan_state_what_they_run(tmp_path: Path) -> None:
    """The lines of Megatron-LM's arguments.py and torchtitan's train.py that say it once."""
    from planner.connect import logs

    megatron = tmp_path / "megatron.log"
    megatron.write_text(
        "using world size: 64, data-parallel size: 8, context-parallel size: 1, "
        "tensor-model-parallel size: 8, pipeline-model-parallel size: 1\n", "utf-8"
    )  # fmt: skip
    assert logs.read_log(megatron).list_series("devices")[0].doubles[0] == 64
    titan = tmp_path / "titan.log"
    titan.write_text(
        "[titan] 2025-10-01 10:00:00,000 - root - INFO - Trainer is initialized with local batch "
        "size 2, global batch size 128, gradient accumulation steps 1, sequence length 8192, "
        "total steps 1000 (warmup 200).\n"
        "[titan] root - INFO - step:  1  loss: 12.2  grad_norm: 1.4  memory: 40.1GiB(50.7%)  "
        "tps: 5,762  tflops: 300.1  mfu: 30.3%\n", "utf-8"
    )  # fmt: skip
    found = logs.read_log(titan)
    assert found.format == "torchtitan"
    assert found.list_series("batch")[0].doubles[0] == 128
    assert found.list_series("length")[0].doubles[0] == 8192
