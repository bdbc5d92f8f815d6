"""A plan beside the log of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest

from planner.base.errors import PlanError
from planner.connect import causes, compare, logs
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.results.result import evaluate_plan
from planner.review import check
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
LOGS = ROOT / "tests" / "data" / "logs"
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def gpt3() -> Plan:
    return loading.load(ROOT / "presets" / "gpt3_a100x1024.yaml")


def gpt2(*changes: str) -> Plan:
    return loading.load(ROOT / "presets" / "gpt2small_hgx-h100.yaml", changes)


def rows(plan: Plan, log: Path, warm_up: int | None = None) -> dict[str, compare.Row]:
    return {row.quantity.id: row for row in compare.compare(plan, log, warm_up).rows}


@pytest.mark.parametrize(("file", "form"), read_data("logs")["formats_by_content"])
def test_formats_are_told_by_content(file: str, form: str, tmp_path: Path) -> None:
    unnamed = tmp_path / "log"
    unnamed.write_bytes((LOGS / file).read_bytes())
    assert logs.read_log(unnamed).format == form


def test_a_megatron_log_gives_the_typical_step_and_the_fullest_rank() -> None:
    found = rows(gpt3(), LOGS / "megatron.log")
    step = found["time.step_seconds"].measured
    # Its steps take 31.1 s, but for a first one of 41.9 s and an interruption of 55.2 s.
    assert abs(step - Fraction("31.1")) < Fraction("0.06")
    # MB there are 2^20 bytes; rank 0 allocates most, and its line runs into the next rank's.
    assert found["memory.total"].measured == Fraction("52100.25") * 2**20
    assert found["memory.reserved"].measured == 54018 * 2**20
    assert found["time.tflops_per_device"].measured == pytest.approx(140, rel=0.01)


def test_throughput_follows_from_the_step_time() -> None:
    found = rows(gpt3(), LOGS / "megatron.log")
    rate = found["time.tokens_per_second"].measured
    assert rate * found["time.step_seconds"].measured == 1536 * 2048
    assert found["time.tokens_per_second_per_device"].measured * 1024 == rate


@pytest.mark.slow
def test_utilisation_is_that_of_the_published_run() -> None:
    """Narayanan et al. 2021, section 5.1: 140 TFLOP/s of 312, 44 %, a forward pass done again
    counted; without it 3 of 4 passes are left, 33 to 34 %."""
    assert Fraction("0.33") < rows(gpt3(), LOGS / "megatron.log")["time.mfu"].measured < 0.345


def test_a_torchtitan_log_gives_throughput_and_reserved_memory() -> None:
    found = rows(gpt2(), LOGS / "torchtitan.log")
    assert found["time.tokens_per_second_per_device"].measured == pytest.approx(9800, rel=0.005)
    # Validation keeps more memory, but is no step of training.
    assert found["memory.reserved"].measured == Fraction("41.37") * 2**30
    assert found["time.mfu"].measured == pytest.approx(9800 * 0.0487 / 989, rel=0.01)


@pytest.mark.parametrize("file", ["steps.csv", "steps.jsonl"])
def test_tables_are_read_with_their_units(file: str) -> None:
    found = rows(gpt2(), LOGS / file)
    assert found["time.step_seconds"].measured == Fraction("0.251")
    assert found["memory.reserved"].measured == Fraction("9.75") * 2**30


def test_the_warm_up_may_be_told() -> None:
    assert rows(gpt2(), LOGS / "steps.csv", 0)["time.step_seconds"].how == "median of 10"
    assert rows(gpt2(), LOGS / "steps.csv", 9)["time.step_seconds"].measured == Fraction("0.251")
    with pytest.raises(PlanError, match="all of them warm-up"):
        compare.compare(gpt2(), LOGS / "steps.csv", 10)


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("step_time", ("time.step_seconds", 1)),
        ("step time (ms)", ("time.step_seconds", Fraction(1, 1000))),
        ("time.step_seconds", ("time.step_seconds", 1)),
        ("memory/max_reserved(GiB)", ("memory.reserved", 2**30)),
        ("max_memory_allocated", ("memory.total", 1)),
        ("nvidia_smi_mib", ("memory.process", 2**20)),
        ("mfu(%)", ("time.mfu", Fraction(1, 100))),
        ("throughput(tps)", ("time.tokens_per_second_per_device", 1)),
        ("step_time_gib", None),
        ("loss", ("loss", 1)),
        ("learning_rate", None),
        ("memory/max_reserved(%)", None),  # of the device, not of a quantity of ours
    ],
)
def test_a_column_is_known_by_name_and_unit(label: str, expected: object) -> None:
    assert logs.find_column(label) == expected


def test_another_batch_than_planned_is_said() -> None:
    plan = loading.load(ROOT / "presets" / "gpt3_a100x1024.yaml", ["training.global_batch=768"])
    notes = compare.compare(plan, LOGS / "megatron.log").notes
    assert any("1536 sequences, the plan has 768" in note for note in notes)


def test_the_loss_of_a_log_is_shown_and_judges_nothing() -> None:
    found = compare.compare(gpt2(), LOGS / "torchtitan.log")
    assert any(note.endswith("and 9.9 at the last") for note in found.notes)
    assert not any("loss" in row.id for row in found.rows)


def test_a_ratio_is_planned_over_measured() -> None:
    for row in compare.compare(gpt3(), LOGS / "megatron.log").rows:
        if row.planned is not None:
            assert row.ratio == Fraction(row.planned) / row.measured


def test_tables_hold_every_row() -> None:
    found = compare.compare(gpt3(), LOGS / "megatron.log")
    tree = json.loads(compare.dump_rows(found))
    assert [row["id"] for row in tree["quantities"]] == [row.quantity.id for row in found.rows]
    body = [line for line in compare.render_section(found).splitlines() if line.startswith("| ")][
        2:
    ]
    assert len(body) == len(found.rows)
    for row in found.rows:
        assert compare.SHORT[row.id] in compare.render_table(found)
    assert {*compare.SHORT} <= {*compare.QUANTITIES}
    verdict = tree["verdict"]
    assert verdict["state"] == "outside" and verdict["text"] == found.sentence
    assert 0 < len(verdict["explained"]) <= 3


@pytest.mark.slow
def test_a_verdict_leads_and_what_could_explain_the_difference_follows() -> None:
    """On a screen, at most 25 lines of 80 columns."""
    for plan, log in (
        (gpt3(), LOGS / "megatron.log"),
        (gpt2(), LOGS / "torchtitan.tfevents"),
        (gpt2("training.global_batch=1024"), LOGS / "torchtitan.log"),
    ):
        lines = compare.render_table(compare.compare(plan, log)).splitlines()
        assert len(lines) <= 25 and max(map(len, lines)) <= 80
        assert lines[0].startswith(("DIFFERS  ", "AS PREDICTED  ", "ANOTHER RUN  "))


@pytest.mark.slow
def test_what_a_run_does_otherwise_explains_it() -> None:
    """Each thing that a run may do otherwise is found again from what it costs."""
    plan = loading.load(ROOT / "presets" / "llama70b_h100x1024.yaml")
    result = evaluate_plan(plan)
    for says, key, value in (
        ("data-parallel traffic without overlap", "parallelism.data_overlap", "none"),
        ("attention without a fused kernel", "training.attention", "eager"),
        ("full recomputation", "training.recompute", "full"),
        ("sharded gradients (ZeRO 2)", "parallelism.zero", 2),
    ):
        other = evaluate_plan(variant(plan, {key: value}))
        for name in ("time.step_seconds", "memory.total"):
            gap = Fraction(other[name].number) - Fraction(result[name].number)
            if abs(gap) * 100 > result[name].number:
                found = causes.find_causes(result, name, gap)
                assert found[0].says == says, (name, found)
                assert f"is about what {says} would" in causes.explain_gap(result, name, gap)[0]


def test_what_no_setting_explains_is_said() -> None:
    result = evaluate_plan(loading.load(ROOT / "presets" / "llama70b_h100x1024.yaml"))
    (line,) = causes.explain_gap(result, "time.step_seconds", Fraction(10**6))
    assert line.startswith("no setting of the plan explains +") and "slow clocks" in line


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nothing of interest\n", "no log of a training run"),
        (b"", "no log of a training run"),
        (b"\x00\x01\x02", "not a text file"),
        (b"step,step_time\n1,2\n2\n", ":3: 1 columns"),
        (b"step,step_time\n1,fast\n", ":2: step_time is 'fast'"),
        (b"step,step_time\n1,-2\n", ":2: step_time is -2"),
        (b'{"step_time": 1}\n{"step_time": \n', ":2:"),
        (b'[{"step_time": 1},', ":1:"),
        (b'{"lr": 1}', "no log of a training run"),
    ],
)
def test_what_is_no_log_is_a_fault_with_its_place(
    content: bytes, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "run.log"
    file.write_bytes(content)
    with pytest.raises(PlanError) as error:
        logs.read_log(file)
    assert message in str(error.value) and str(file) in str(error.value)


def test_a_missing_log_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such file"):
        logs.read_log(tmp_path / "nothing.log")


def test_hostile_names_stay_in_their_cells(tmp_path: Path) -> None:
    file = tmp_path / "a`|\u2028b.csv"
    file.write_text("step_time\n1\n2\n")
    for table in (compare.render_table, compare.render_section):
        assert "\u2028" not in table(compare.compare(gpt2(), file))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("ending", ["html", "json"])
def test_a_report_holds_the_comparison_and_can_be_checked(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_cli: RunCli
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.log").write_bytes((LOGS / "megatron.log").read_bytes())
    (tmp_path / "plan.yaml").write_bytes((ROOT / "presets" / "gpt3_a100x1024.yaml").read_bytes())
    words = ("compare", "plan.yaml", "--log", "runs/a.log", "--warm-up", "4")
    done = run_cli(*words, "--set", "time.mfu=null", "-o", f"r.{ending}", cwd=tmp_path)
    assert done.returncode == 0 and done.stdout.startswith("DIFFERS  "), done.stderr
    text = Path(f"r.{ending}").read_text("utf-8")
    assert "runs/a.log" in text
    if ending == "json":
        data = json.loads(text)
        rows = {row["id"]: row for row in data["comparison"]["quantities"]}
        schema = json.loads((ROOT / "schemas" / "result.schema.json").read_text())
        jsonschema.Draft7Validator(schema).validate(data)
        assert rows["time.step_seconds"]["planned"] == pytest.approx(
            data["quantities"]["time.step_seconds"]["value"]
        )
        assert isinstance(rows["time.step_seconds"]["inside"], bool)
        assert isinstance(rows["memory.reserved"]["inside"], bool)
    else:
        assert "Plan and reality" in text and "Model FLOPs utilisation" in text
    assert [f.kind for f in check.check_reports([Path(f"r.{ending}")])] == ["same"]
    (tmp_path / "runs" / "a.log").write_bytes((LOGS / "torchtitan.log").read_bytes())
    assert [f.kind for f in check.check_reports([Path(f"r.{ending}")])] == ["numbers"]
    (tmp_path / "runs" / "a.log").unlink()
    assert [f.kind for f in check.check_reports([Path(f"r.{ending}")])] == ["lost"]


@pytest.mark.slow
def test_a_table_alone_is_written_where_its_format_is_named(
    tmp_path: Path, run_cli: RunCli
) -> None:
    plan, log = ROOT / "presets" / "gpt3_a100x1024.yaml", LOGS / "megatron.log"
    file = tmp_path / "section.md"
    done = run_cli("compare", plan, "--log", log, "-o", file, "--format", "md")
    assert done.returncode == 0 and done.stdout == ""
    assert file.read_text("utf-8").startswith("## Plan and reality")
    done = run_cli("compare", plan, "--log", log, "-o", tmp_path / "table.txt")
    assert (tmp_path / "table.txt").read_text("utf-8") == done.stdout
    done = run_cli("compare", plan, "--log", log, "-o", tmp_path / "table.doc")
    assert done.returncode == 2 and "no report has the ending" in done.stderr


@pytest.mark.slow(every=5)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("form", ["CSV", "JSON lines", "JSON"])
def test_a_long_log_is_read_in_little_memory(form: str, tmp_path: Path) -> None:
    """10 MB of steps, each kept in eight bytes; JSON in one piece is held as objects too."""
    log = tmp_path / "log"
    between = {"CSV": "\n", "JSON lines": "\n", "JSON": ",\n"}[form]
    count = 10**7 // 33
    steps = (f"0.{200_000 + i % 100_000}" for i in range(count))
    row = "{}" + " " * 23 if form == "CSV" else '{{"step_seconds": {}}}' + " " * 5
    body = between.join(map(row.format, steps))
    log.write_text({"CSV": f"step_seconds\n{body}", "JSON": f"[{body}]"}.get(form, body))
    code = (
        "import sys\nfrom planner.connect import logs\nlog = logs.read_log(sys.argv[1])\n"
        "lines = open('/proc/self/status').read().splitlines()\n"
        "peak = next(int(x.split()[1]) for x in lines if x.startswith('VmHWM')) / 1000\n"
        "(steps,) = log.list_series('time.step_seconds')\n"
        "print(log.format, len(steps.doubles), steps.find_median(0), peak, sep=';')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(log)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    said, length, median, peak = done.stdout.strip().split(";")
    assert (said, int(length)) == (form, count)
    numbers = sorted(Fraction(200_000 + i % 100_000, 10**6) for i in range(count))
    assert Fraction(median) == (numbers[(count - 1) // 2] + numbers[count // 2]) / 2
    assert float(peak) < (120 if form == "JSON" else 40)


def test_a_column_that_is_there_twice_is_a_fault(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("# a run\nstep,step_time,step_time\n1,0.5,0.7\n")
    with pytest.raises(PlanError, match=r"log\.csv:2: duplicate column step_time"):
        logs.read_log(log)


def test_columns_of_one_quantity_are_not_mixed(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "step_time,step_time_ms,max_allocated,max_memory_allocated_gib\n" + "2,9,5e8,1\n" * 9
    )
    found = rows(gpt2(), log)
    assert found["time.step_seconds"].measured == 2
    assert found["memory.total"].measured == 2**30


@pytest.mark.parametrize(("text", "said"), read_data("faults")["broken_json"])
def test_what_is_no_json_is_told_where(text: str, said: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    with pytest.raises(PlanError) as caught:
        logs.read_log(log)
    assert said in str(caught.value)


@pytest.mark.parametrize(("text", "says"), read_data("faults")["unbelievable_logs"])
def test_a_log_that_cannot_be_believed_is_one_line(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(text)
    with pytest.raises(PlanError) as caught:
        logs.read_log(tmp_path / "log.txt")
    assert says in str(caught.value) and "\n" not in str(caught.value)


# A step time without a log ---------------------------------------------------------------------


def test_a_step_time_alone_gives_the_utilisation_of_the_published_run() -> None:
    """Narayanan et al. 2021, table 1 and section 5.1: 175B on 1,024 A100s, batch 1536 of 2,048
    tokens, 140 TFLOP/s a GPU of 312 with a forward pass done again; a step is 31.1 s by the log."""
    found = {row.id: row for row in compare.compare_step(gpt3(), "31.1s").rows}
    of_log = rows(gpt3(), LOGS / "megatron.log")
    assert found["time.mfu"].measured == pytest.approx(of_log["time.mfu"].measured, rel=2e-3)
    assert found["time.tokens_per_second"].measured == Fraction(1536 * 2048 * 10, 311)
    # 8 of 6 FLOPs a parameter and token where the forward pass is done again; masked scores are
    # counted there, and not performed.
    counted, performed = (found[name].measured for name in ("time.utilisation[hfu]", "time.hfu"))
    assert counted / found["time.mfu"].measured == pytest.approx(4 / 3, rel=1e-3)
    assert 0.97 * counted < performed < counted
    assert found["time.tflops_per_device"].measured == pytest.approx(140 * 3 / 4, rel=0.02)


def test_what_follows_from_a_step_time_agrees_with_itself() -> None:
    plan = loading.load(ROOT / "presets" / "llama70b_h100x1024.yaml")
    found = {row.id: row for row in compare.compare_step(plan, "4.2 s").rows}
    assert found["time.step_seconds"].measured == Fraction("4.2")
    batch, tokens, devices = 1024 * 4096, 15 * 10**12, 1024
    assert found["time.training_days"].measured == Fraction(tokens, batch) * Fraction("4.2") / 86400
    rate = Fraction(batch * 10, 42)
    assert found["time.tokens_per_second_per_device"].measured * devices == rate
    # 989.5 TFLOP/s dense; a scale of the same FLOPs by the same peak.
    flops = found["time.tflops_per_device"].measured * 10**12
    assert found["time.mfu"].measured == flops / (Fraction(1979, 2) * 10**12)
    ratio = found["time.step_seconds"].ratio
    for name in ("time.mfu", "time.hfu", "time.utilisation[mfu-causal]"):
        assert float(found[name].ratio) == pytest.approx(float(1 / ratio))


def test_the_six_n_rule_is_enough_for_a_model_by_its_size() -> None:
    plan = loading.load(
        {
            "model": {"parameters": "70B"},
            "cluster": {"accelerator": "h100", "devices": 1024},
            "training": {"tokens": "15T", "sequence_length": 4096, "global_batch": 1024},
        }
    )
    found = {row.id: row for row in compare.compare_step(plan, "4.2s").rows}
    mfu = 6 * 70e9 * 1024 * 4096 / 4.2 / (1024 * 989.5e12)
    assert found["time.mfu"].measured == pytest.approx(mfu)
    assert found["time.mfu"].planned is None


@pytest.mark.parametrize(
    ("words", "said"),
    read_data("faults")["step_times"],
)
def test_a_step_time_that_is_none_is_one_line(words: list[str], said: str, run_cli: RunCli) -> None:
    done = run_cli("compare", "presets/llama70b_h100x1024.yaml", *words)
    assert done.returncode == 2 and not done.stdout
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_a_report_beside_a_step_time_is_made_again_by_check(
    tmp_path: Path, run_cli: RunCli
) -> None:
    plan = "presets/llama70b_h100x1024.yaml"
    files = [tmp_path / f"report.{end}" for end in ("md", "html", "json")]
    words = [word for file in files for word in ("-o", str(file))]
    done = run_cli("compare", plan, "--step-time", "4.2s", *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("4.20 s a step: MFU 43.8 %, 433 TFLOP/s a device, 174 days\n")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert run_cli("check", *map(str, files)).returncode == 0
    schema = json.loads((ROOT / "schemas" / "result.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads(files[2].read_text("utf-8")), schema)
