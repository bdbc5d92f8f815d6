"""Kinds of documents and of command lines that once stopped the program, each kind whole."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import planner
from fuzz import watch
from fuzz.tree import block, from_data
from planner.base import files
from planner.cli.main import COMMANDS
from tests.conftest import leave_to_night, read_data

ROOT = Path(__file__).resolve().parents[2]
GPT2 = "presets/gpt2small_hgx-h100.yaml"
DIGITS = "9" * 6001


# A stage without layers -------------------------------------------------------------------


def staged(stages: list[int], schedule: str = "1f1b", **layout: Any) -> dict[str, Any]:
    size = len(stages) // layout.get("virtual_pipeline", 1)
    return {
        "model": "gpt2-small",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": size},
        "training": {
            "tokens": "1B", "sequence_length": 1024, "global_batch": 32 * size, "micro_batch": 1,
            "schedule": schedule,
        },
        "parallelism": {"pipeline": size, "stages": stages, **layout},
    }  # fmt: skip


EMPTY: dict[str, dict[str, Any]] = {
    "between": staged([6, 0, 6]),
    "first": staged([0, 6, 6]),
    "last": staged([6, 6, 0]),
    "gpipe": staged([6, 0, 6], "gpipe"),
    "zero-bubble": staged([6, 0, 6], "zero-bubble"),
    "dualpipe": staged([0, 12], "dualpipe"),
    "dualpipev": staged([0, 6, 0, 0, 6, 0], "dualpipev", virtual_pipeline=2),
    "nothing at all": staged([6, 0, 0, 6, 0, 0], "interleaved", virtual_pipeline=2),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_stage_without_layers_takes_no_time_in_a_step(name: str) -> None:
    plan = planner.load(EMPTY[name])
    step = planner.simulate(plan)
    assert 0 < plan.evaluate()["time.step_seconds"].value < float("inf")
    assert 0 < step.seconds < float("inf")


@pytest.mark.slow
@pytest.mark.parametrize("name", leave_to_night(EMPTY, ["between", "dualpipev"]))
def test_a_stage_without_layers_is_written_and_asked_about(name: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(block(from_data(EMPTY[name])))
    asked = [
        *(["report", str(file), "--format", form] for form in ("text", "md", "html", "json")),
        ["report", str(file), "-o", str(tmp_path / "a.trace.json")],
        ["search", str(file), "--top", "2"],
        ["sensitivity", str(file), "time.training_days"],
        ["explain", str(file), "time.mfu"],
        ["solve", str(file), "largest-batch"],
    ]
    for line in asked:
        outcome = watch.run(line, 30.0)
        assert (outcome.problem, outcome.status in (0, 1)) == (None, True), (line, outcome)


# Closed streams ---------------------------------------------------------------------------

#: Small runs of commands; the others fail for want of words, as they do with open streams.
RUNS = {
    "report": [GPT2], "validate": ["-"], "compare": [GPT2, "--log", "-"], "import": ["-"],
    "list": ["accelerators"], "schema": ["study"], "tensor": ["2x3", "--precision", "bf16"],
    "quick": ["gpt2-small on 8 h100, 1B tokens"], "completion": ["bash"],
}  # fmt: skip


def closed(words: list[str], streams: str) -> subprocess.CompletedProcess[str]:
    shell = f'exec "$@" {streams}'
    line = ["sh", "-c", shell, "sh", sys.executable, "plan.py", *words]
    return subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("streams", ["<&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_are_empty(streams: str) -> None:
    done = closed(["validate", "-"], streams)
    assert done.returncode == 2
    assert done.stderr in ("", "<stdin>:1:1: the document is empty (a mapping of keys)\n")
    assert closed(["validate", GPT2], streams).returncode == 0


@pytest.mark.slow
def test_what_is_written_with_closed_streams_is_whole(tmp_path: Path) -> None:
    """No file takes the number of a stream, which words would be written to."""
    file = tmp_path / "a.json"
    assert closed(["report", GPT2, "-o", str(file)], "<&- >&- 2>&-").returncode == 0
    assert json.loads(file.read_text())["plan"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("command", [name for name in COMMANDS if name not in ("serve", "check")])
@pytest.mark.parametrize(
    "streams", leave_to_night(["<&-", ">&-", "2>&-", "<&- >&- 2>&-"], ["<&- >&- 2>&-"])
)
def test_every_command_with_closed_streams(command: str, streams: str) -> None:
    done = closed([command, *RUNS.get(command, [])], streams)
    assert done.returncode in (0, 1, 2), done.stderr
    assert "internal error" not in done.stderr + done.stdout


# Numbers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        ["report", GPT2, "--set", f"cluster.devices={DIGITS}"],
        ["report", GPT2, "--set", f"cluster={DIGITS} x h100"],
        ["report", GPT2, "--set", f"parallelism.stages.{DIGITS}=1"],
        ["report", GPT2, "--set", f"parallelism.stages=Et*{DIGITS}|L"],
        ["report", GPT2, "--set", f"training.tokens={DIGITS}/{DIGITS}"],
        ["quick", f"llama3-8b on {DIGITS} h100"],
        ["quick", f"llama3-8b on {'9' * 900} h100"],
        ["solve", GPT2, "--vary", "cluster.devices", "--until", f"time.training_days<={DIGITS}"],
        ["matmul", f"{DIGITS}x2x3", "--on", "h100-sxm-80gb"],
        ["search", GPT2, "--top", DIGITS],
    ],
)
def test_thousands_of_digits_are_refused(line: list[str]) -> None:
    outcome = watch.run(line, by_option=True)
    assert (outcome.status, outcome.problem) == (2, None), outcome


@pytest.mark.parametrize("key", ["cluster", "axes", "limit", "where"])
def test_thousands_of_digits_in_a_document_are_refused(key: str, tmp_path: Path) -> None:
    file = tmp_path / "document.yaml"
    study = {"base": "gpt2small_hgx-h100", "axes": "{training.micro_batch: [1]}"}
    said = {
        "cluster": {"model": "gpt2-small", "cluster": f"{DIGITS} x h100-sxm-80gb",
                    "training": "{tokens: 1B, sequence_length: 1024, global_batch: 8}"},
        "axes": {**study, "axes": f"{{cluster.devices: [{DIGITS}, 8]}}"},
        "limit": {**study, "limit": DIGITS},
        "where": {**study, "where": f"['cost.total <= {DIGITS}']"},
    }[key]  # fmt: skip
    file.write_text("".join(f"{name}: {value}\n" for name, value in said.items()))
    outcome = watch.run(["validate", str(file)])
    assert (outcome.status, outcome.problem) == (2, None), outcome


@pytest.mark.parametrize("number", [DIGITS, "1e999", "-1e999", "[[1e400]]"])
def test_json_has_no_number_out_of_range(number: str) -> None:
    with pytest.raises(planner.PlanError, match=r"more than 4300 digits|out of range"):
        files.parse_json(f'{{"plan": {{"a": {number}}}}}')
    from planner.serve import bodies

    status, body = bodies.compute_answer(
        lambda *_: {}, "evaluate", f'{{"plan": {number}}}'.encode()
    )
    assert status == 400 and json.loads(body)["faults"]


def test_a_superscript_is_no_number(tmp_path: Path) -> None:
    file = tmp_path / "arguments.sh"
    text = "--num-layers 2 --hidden-size 64 --num-attention-heads 2 --num-experts 2"
    for given in ("\u00b2", DIGITS):
        file.write_text(f"{text} --moe-layer-freq {given}\n")
        outcome = watch.run(["import", "--from", "megatron", str(file)])
        assert (outcome.status, outcome.problem) == (2, None), outcome


# A layout that cannot be found -------------------------------------------------------------


@pytest.mark.slow
def test_memory_is_known_where_each_layer_kind_has_its_own_attention() -> None:
    """OLMo-hybrid: rotary tables of the whole model, attention of one layer kind."""
    model = planner.import_config({"model_type": "olmo_hybrid"})
    plan = {
        "model": model,
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
        "training": {"tokens": "1B", "sequence_length": 4096, "global_batch": 64},
        "parallelism": "auto",
    }
    assert planner.load(plan).evaluate()["memory.headroom"].value > 0


@pytest.mark.slow
def test_a_quantity_that_no_layout_has_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no layout's memory can be worked out, the reason is told."""
    from planner.plans.document import Draft

    plain = Draft.default

    def default(self: Draft, dotted: str, value: Any, why: str) -> Any:
        given = plain(self, dotted, value, why)
        if dotted == "model.attention.head_dim":
            self.data["model"]["attention"].pop("head_dim")
        return given

    monkeypatch.setattr(Draft, "default", default)
    model = planner.import_config({"model_type": "olmo_hybrid"})
    with pytest.raises(planner.PlanError, match=r"memory\.left cannot be computed: head size"):
        planner.load(
            {
                "model": model,
                "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
                "training": read_data("plans")["crash_training"],
                "parallelism": "auto",
            }
        )


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", leave_to_night(["a,b", "a, b", ",", "a]b", "a[b", "a.b", "z,z"], ["a, b", "a]b"])
)
def test_a_layer_kind_may_have_any_sign_in_its_name(name: str) -> None:
    plan = {
        "model": {"extends": "gpt2-small", "kinds": {name: {}, "z": {}}, "pattern": [name, "z"]},
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 8},
        "training": {"tokens": "1B", "sequence_length": 1024, "global_batch": 64},
    }
    result = planner.load(plan).evaluate()
    ids = [id for id in result.to_json()["quantities"] if id.endswith("]")]
    assert any(name in id for id in ids)
    assert all(result[id].id == id for id in ids)


# What is written is read ------------------------------------------------------------------


def shipped() -> dict[str, Any]:
    """Every shipped plan, and every shipped model on one device."""
    plans: dict[str, Any] = {file.stem: file for file in (ROOT / "presets").glob("*.yaml")}
    for file in (ROOT / "presets" / "models").glob("*.yaml"):
        training = {"tokens": "1B", "sequence_length": 64, "global_batch": 1}
        cluster = {"accelerator": "h100-sxm-80gb", "devices": 1}
        plans[file.stem] = {"model": file.stem, "cluster": cluster, "training": training}
    return dict(sorted(plans.items()))


#: Layer kinds without a key of their own, and one shipped plan.
AT_ONCE = ("deepseek-v4-flash", "gemma3n-e4b", "llama4-scout", "modernbert-base", "qwen2.5-vl-7b",
           "gpt2small_hgx-h100")  # fmt: skip


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", leave_to_night(shipped(), AT_ONCE))
def test_a_resolved_plan_loads_to_the_same_digits(name: str, tmp_path: Path) -> None:
    from planner.report.resolved import format_resolved

    plan, file = planner.load(shipped()[name]), tmp_path / "resolved.yaml"
    file.write_text(format_resolved(plan.plan))
    first, second = plan.evaluate(), planner.load(file).evaluate()
    for quantity in ("parameters.total", "compute.training_flops", "memory.process",
                     "time.step_seconds", "checkpoint.bytes"):  # fmt: skip
        assert first[quantity].value == second[quantity].value, quantity


# Far too many layouts ---------------------------------------------------------------------

MANY = 735_134_400  # devices, with 1,344 divisors


def test_layouts_to_start_from_come_in_order_without_listing_all() -> None:
    import math
    from itertools import islice, product

    from planner.questions.domains import divisors, yield_starts
    from planner.questions.search.layouts import OUTER

    for devices in (1, 6, 60, 1024):
        every = product(divisors(devices), repeat=len(OUTER))
        valid = [found for found in every if devices % math.prod(found) == 0]
        ordered = sorted(valid, key=lambda found: (math.prod(found), found))
        assert [tuple(start.values()) for start in yield_starts(devices)] == ordered
    assert len([*islice(yield_starts(MANY), 100)]) == 100


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("length", [8192, 7_207_200])
def test_a_layout_for_far_too_many_devices_is_found_in_time(length: int, tmp_path: Path) -> None:
    """Of a length with few divisors all layouts are searched; else it is said which."""
    file = tmp_path / "plan.yaml"
    file.write_text(
        f"model: llama3-8b\ncluster: {{accelerator: h100-sxm-80gb, devices: {MANY}}}\n"
        f"training: {{tokens: 15T, sequence_length: {length}, global_batch: {MANY}}}\n"
        "parallelism: auto\n"
    )
    outcome = watch.run(["validate", str(file)], 20.0)
    assert (outcome.status, outcome.problem) == (0, None), outcome
    assert outcome.seconds < 20 and outcome.megabytes < watch.MEGABYTES
    why = planner.load(file).plan.derived["parallelism.pipeline"]
    assert ("only those with parallelism.context" in why) == (length > 8192)
