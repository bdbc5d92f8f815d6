"""A team's trainplan.yaml: found upwards, below what plans say, told as an origin."""

from __future__ import annotations

import json
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.base.errors import PlanError
from tests.conftest import ROOT, RunCli, read_data

PLAN = """\
model: gpt2-small
cluster: hgx-h100
training: {tokens: 10B, sequence_length: 1024, global_batch: 512, micro_batch: 32}
parallelism: {zero: 0}
"""
TEAM = "# ours\nprice: 2 USD/h\ncarbon_intensity: 0.2 kg/kWh\npue: 1.1\n"


@pytest.fixture
def team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a plan two folders below its root, which is the current folder."""
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "plans" / "deep").mkdir(parents=True)
    (tmp_path / "plans" / "deep" / "a.yaml").write_text(PLAN)
    (tmp_path / "trainplan.yaml").write_text(TEAM)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def inputs(plan: Any) -> dict[str, tuple[Any, str]]:
    said = planner.load(plan) if not isinstance(plan, planner.Plan) else plan
    found = said.evaluate().to_json()["inputs"]
    return {key: (one["value"], one["origin"]) for key, one in found.items()}


def test_each_value_says_the_line_that_it_comes_from(team: Path) -> None:
    found = inputs("plans/deep/a.yaml")
    assert found["cluster.price"] == (2, "trainplan.yaml:2")
    assert found["cluster.carbon_intensity"] == (0.2, "trainplan.yaml:3")
    assert found["cluster.host_power"] == (575, "preset hgx-h100")


@pytest.mark.slow
def test_a_plan_and_set_say_otherwise(team: Path) -> None:
    path = team / "plans" / "deep" / "a.yaml"
    own = "cluster: {extends: hgx-h100, price: 3 USD/h}"
    path.write_text(PLAN.replace("cluster: hgx-h100", own))
    assert inputs(path)["cluster.price"] == (3, "a.yaml:2")
    assert inputs(path)["cluster.pue"] == (1.1, "trainplan.yaml:4")
    by_set = planner.load(path, {"cluster.price": "4 USD/h"})
    assert inputs(by_set)["cluster.price"] == (4, "--set")
    none = planner.load(path, ["cluster.carbon_intensity=null"])
    assert "cluster.carbon_intensity" not in inputs(none)
    path.write_text(PLAN.replace("hgx-h100", "{extends: hgx-h100, provider: lambda}"))
    assert inputs(path)["cluster.price"][1].startswith("on-demand price of lambda")


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("cluster", ["hgx-h100", "8 x h100-sxm-80gb", "{extends: hgx-h100}",
                                     "{accelerator: h100-sxm-80gb, devices: 8}"])  # fmt: skip
def test_every_way_to_name_a_cluster_has_them(cluster: str, team: Path) -> None:
    path = team / "plans" / "b.yaml"
    path.write_text(PLAN.replace("hgx-h100", cluster))
    assert inputs(path)["cluster.price"] == (2, "trainplan.yaml:2")
    changed = planner.load(path, {"cluster.devices": 4})
    assert inputs(changed)["cluster.price"] == (2, "trainplan.yaml:2")


@pytest.mark.slow
def test_a_plan_without_a_cluster_has_the_teams(team: Path) -> None:
    (team / "ours.yaml").write_text("extends: hgx-h100\ndevices: 4\n")
    (team / "trainplan.yaml").write_text("cluster: ours.yaml\n")
    path = team / "plans" / "b.yaml"
    path.write_text(PLAN.replace("cluster: hgx-h100\n", ""))
    assert inputs(path)["cluster.devices"] == (4, "ours.yaml:2")
    with pytest.raises(PlanError, match="cluster"):
        planner.load(path, defaults=False)


@pytest.mark.slow
def test_they_can_be_left_out_and_asked_for(team: Path, run_cli: RunCli) -> None:
    from planner.documents import defaults

    path = "plans/deep/a.yaml"
    assert "cluster.pue" not in inputs(planner.load(path, defaults=False))
    with defaults.ignore_defaults():
        assert "cluster.pue" not in inputs(path)
    mapping = {"extends": path}
    assert "cluster.pue" not in inputs(planner.load(mapping))
    asked = planner.load(mapping, defaults="trainplan.yaml")
    assert inputs(asked)["cluster.pue"] == (1.1, "trainplan.yaml:4")
    assert "cluster.pue" not in inputs("gpt2small_hgx-h100")
    done = run_cli("--no-defaults", path, "--format", "json", cwd=team)
    assert "trainplan.yaml" not in done.stdout
    done = run_cli(path, "--format", "json", cwd=team / "plans" / "..")
    assert "trainplan.yaml:2" in done.stdout


@pytest.mark.slow
def test_nothing_outside_the_repository_or_the_root_is_found(team: Path, run_cli: RunCli) -> None:
    inner = team / "inner"
    inner.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=inner, check=True)
    (inner / "a.yaml").write_text(PLAN)
    assert "cluster.pue" not in inputs(inner / "a.yaml")
    done = run_cli("--root", "plans", "plans/deep/a.yaml", "--format", "json", cwd=team)
    assert done.returncode == 0 and "trainplan.yaml" not in done.stdout


@pytest.mark.slow
def test_a_committed_report_is_evaluated_with_those_of_its_place(
    team: Path, run_cli: RunCli
) -> None:
    (team / "reports").mkdir()
    out = [word for end in ("md", "html", "json") for word in ("-o", f"reports/a.{end}")]
    assert run_cli("plans/deep/a.yaml", *out, cwd=team).returncode == 0
    with (team / "trainplan.yaml").open("a") as file:
        file.write("reports: [reports]\n")
    done = run_cli("check", cwd=team)
    assert (done.returncode, done.stdout) == (0, "3 reports, none drifted\n")
    again = run_cli("check", cwd=team / "plans")
    assert again.stdout.endswith("3 reports, none drifted\n"), again.stderr
    (team / "trainplan.yaml").write_text(TEAM.replace("2 USD", "3 USD"))
    done = run_cli("check", "reports", cwd=team)
    assert done.returncode == 1 and "cost.total" in done.stdout


@pytest.mark.slow
def test_a_report_without_them_says_so_and_is_checked_without_them(
    team: Path, run_cli: RunCli
) -> None:
    out = [word for end in ("md", "html", "json") for word in ("-o", f"a.{end}")]
    assert run_cli("--no-defaults", "plans/deep/a.yaml", *out, cwd=team).returncode == 0
    assert "plan.py plans/deep/a.yaml --no-defaults" in (team / "a.md").read_text()
    assert json.loads((team / "a.json").read_text())["plan"]["no_defaults"] is True
    done = run_cli("check", cwd=team)
    assert (done.returncode, done.stdout) == (0, "3 reports, none drifted\n")


def test_answers_of_a_plan_keep_the_margin_of_the_team(team: Path) -> None:
    (team / "trainplan.yaml").write_text("margin: 0\nprice: 3 USD/h\n")
    path = team / "plans" / "deep" / "a.yaml"
    asked = "questions: [{largest-batch: {set: {training.sequence_length: 512}}}]\n"
    path.write_text(PLAN + asked)
    (answer,) = planner.load(path).evaluate().questions.answers
    assert [str(limit) for limit in answer.found.limits] == ["memory.headroom >= 0 bytes"]
    assert answer.found.holds.plan.get("cluster.price") == 3


@pytest.mark.parametrize(
    ("text", "said"),
    read_data("faults")["defaults"],
)
def test_what_is_wrong_with_them_is_one_line_at_its_place(
    text: str, said: str, team: Path, run_cli: RunCli
) -> None:
    (team / "trainplan.yaml").write_text(text)
    for words in (("plans/deep/a.yaml",), ("validate", "trainplan.yaml")):
        done = run_cli(*words, cwd=team)
        assert done.returncode == 2 and said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_calibrated_rates_hold_for_their_accelerator_alone(team: Path) -> None:
    rate = "memory: {value: 0.5, interval: [0.4, 0.6], rows: ours}"
    rates = f"accelerator:\n  extends: h100-sxm-80gb\n  efficiency:\n    {rate}\n"
    (team / "h100.yaml").write_text(rates + "devices: 8\n")
    (team / "trainplan.yaml").write_text("rates: h100.yaml\n")
    path = team / "plans" / "deep" / "a.yaml"
    found = inputs(path)
    assert found["cluster.accelerator.efficiency.memory.value"][1] == "h100.yaml:4"
    other = inputs(planner.load(path, {"cluster": "ec2-p4d-a100x8"}))
    assert "h100.yaml" not in " ".join(origin for _, origin in other.values())


@pytest.mark.slow
def test_the_margin_is_the_teams_until_another_is_asked_for(team: Path) -> None:
    (team / "trainplan.yaml").write_text("margin: 0\n")
    plan = planner.load("plans/deep/a.yaml")
    assert str(plan.search(top=1).margin) == "memory.headroom >= 0 bytes"
    assert "p95" in str(plan.search(top=1, margin="p95").margin)


@pytest.mark.slow
@settings(max_examples=10)  # each evaluates three plans
@given(
    price=st.integers(1, 900), pue=st.integers(100, 300), carbon=st.integers(0, 900),
)  # fmt: skip
def test_defaults_that_say_what_the_plan_says_change_no_number(
    tmp_path_factory: pytest.TempPathFactory, price: int, pue: int, carbon: int
) -> None:
    folder = tmp_path_factory.mktemp("team")
    (folder / ".git").mkdir()
    said = {
        "price": f"{float(Fraction(price, 100))} USD/h",
        "pue": float(Fraction(pue, 100)),
        "carbon_intensity": f"{float(Fraction(carbon, 1000))} kg/kWh",
    }
    keys = "".join(f"{key}: {value}\n" for key, value in said.items())
    own = "{extends: hgx-h100, " + ", ".join(f"{k}: {v}" for k, v in said.items()) + "}"
    (folder / "full.yaml").write_text(PLAN.replace("hgx-h100", own))
    alone = planner.load(folder / "full.yaml").evaluate()
    (folder / "trainplan.yaml").write_text(keys)
    (folder / "short.yaml").write_text(PLAN)
    for name in ("full.yaml", "short.yaml"):
        found = planner.load(folder / name).evaluate()
        assert {k: q.value for k, q in found.quantities.items()} == {
            k: q.value for k, q in alone.quantities.items()
        }
        assert found.hash_input() == alone.hash_input()


@pytest.mark.slow
def test_templates_replace_ours_in_the_sandbox(team: Path, run_cli: RunCli) -> None:
    own = team / "own"
    own.mkdir()
    short = own / "report.md.jinja"
    short.write_text("# {{ view.name | md }} of our team\n")
    asked = ("--templates", "own")
    words = ("plans/deep/a.yaml", "--format", "md", *asked)
    assert " of our team\n" in run_cli(*words, cwd=team).stdout
    html = ("plans/deep/a.yaml", "--format", "html", *asked)
    assert run_cli(*html, cwd=team).stdout.startswith("<!doctype")
    (own / "study.md.jinja").write_text("# {{ view.plans }} of our team\n")
    study = "base: {extends: plans/deep/a.yaml}\naxes: {training.micro_batch: [8, 16]}\n"
    (team / "study.yaml").write_text(study)
    assert run_cli("sweep", "study.yaml", "-o", "s.md", *asked, cwd=team).returncode == 0
    assert (team / "s.md").read_text().endswith(" of our team\n")
    (own / "report.html.jinja").write_text("<p>{{ view.name }}\n")
    plain = run_cli(*html, "--set", "name=<b>", cwd=team)
    assert plain.stdout == "<p>&lt;b&gt;\n"
    (team / "secret.jinja").write_text("secret")
    for text, said in (
        ("# x\n{% if %}\n", "own/report.md.jinja:2: "),
        ("a\n\n{{ view.nothing.more }}\n", "own/report.md.jinja:3: "),
        ("a\n{% include '../secret.jinja' %}\n", "own/report.md.jinja:2: "),
    ):
        short.write_text(text)
        done = run_cli(*words, cwd=team)
        assert done.returncode == 2 and done.stderr.startswith(said), (text, done.stderr)
        assert done.stderr.count("\n") == 1 and "secret" not in done.stdout
    short.unlink()
    short.symlink_to(team / "secret.jinja")
    assert "secret" not in run_cli(*words, cwd=team).stdout
    done = run_cli(*words[:3], "--templates", "nix", cwd=team)
    assert done.returncode == 2 and "nix: no such folder" in done.stderr


def test_every_key_is_described() -> None:
    data = json.loads((ROOT / "schemas" / "defaults.schema.json").read_text("utf-8"))
    assert set(data["properties"]) >= {
        "cluster",
        "price",
        "margin",
        "rates",
        "reports",
    }
