"""Job files: what a scheduler's node does with them is start the framework with the plan's file."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.base.errors import PlanError
from planner.connect.exports import FORMATS, SCHEDULERS, build_config
from planner.connect.exports.jobs import write_job
from planner.plans.document import Plan
from planner.questions import loading
from tests.conftest import RunCli, read_data

#: What stands in for the programs of a cluster: each node says how its launcher was called.
PROGRAMS = {
    "scontrol": 'echo "first\nsecond"',
    "srun": 'shift; for SLURM_NODEID in 0 1; do export SLURM_NODEID; "$@"; done',
    **dict.fromkeys(("torchrun", "accelerate"), 'echo "$(basename "$0") $*"'),
    # MaxText's process reads where all meet from its environment.
    "python3": 'echo "$NNODES rank $NODE_RANK $JAX_COORDINATOR_IP:$JAX_COORDINATOR_PORT $*"',
}
LIMIT = 15  # seconds


def plan(**changes: Any) -> Plan:
    """Zero 3 on two nodes; with a name that no shell should read."""
    document = read_data("plans")["hostile_name"]
    return loading.load({**document, **changes})


def run(script: str, folder: Path, *handed: str, **variables: str) -> list[str]:
    """The lines that a script prints in an empty folder, among such programs."""
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    for name, text in PROGRAMS.items():
        path = folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
    environment = {"PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", **variables}
    called = ["bash", "-c", script, "launch", *handed]
    done = subprocess.run(
        called, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT
    )
    assert done.returncode == 0, done.stderr
    assert not (folder / "oops").exists()
    return done.stdout.splitlines()


def written(folder: Path) -> str:
    (found,) = (path for path in folder.iterdir() if path.is_file())
    return found.read_text(encoding="utf-8")


@pytest.mark.parametrize("to", FORMATS)
def test_slurm_starts_the_framework_once_on_each_node(to: str, tmp_path: Path) -> None:
    made = build_config(plan(), to)
    text = write_job(plan(), to, made, "slurm")
    for option in ("--nodes=2", "--gpus-per-node=8", "--ntasks-per-node=1"):
        assert f"#SBATCH {option}\n" in text
    lines = run(text, tmp_path, "--lr", "1e-4", SLURM_JOB_NODELIST="n[1-2]")
    assert len(lines) == 2 and written(tmp_path).rstrip() == made.text.rstrip()
    for rank, line in enumerate(lines):
        assert str(rank) in line.split("rank")[1][:4] and "first" in line
        assert line.endswith("--lr 1e-4")
    assert all(f"export {name}={value}\n" in text for name, value in made.environment.items())


@pytest.mark.parametrize("to", FORMATS)
def test_a_jobset_has_a_pod_for_each_node(to: str, tmp_path: Path) -> None:
    """jobset.x-k8s.io/v1alpha2: pods of an indexed job know their rank, and reach the first by
    its name."""
    made = build_config(plan(), to)
    held, jobs = yaml.safe_load_all(write_job(plan(), to, made, "kubernetes"))
    name = jobs["metadata"]["name"]
    assert (jobs["apiVersion"], jobs["kind"]) == ("jobset.x-k8s.io/v1alpha2", "JobSet")
    (each,) = jobs["spec"]["replicatedJobs"]
    batch = each["template"]["spec"]
    assert (batch["parallelism"], batch["completions"], batch["completionMode"]) == (
        2,
        2,
        "Indexed",
    )
    (container,) = batch["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    told = {each["name"]: each["value"] for each in container["env"]}
    assert told["MASTER_ADDR"] == f"{name}-node-0-0.{name}" and len(f"{name}-node-0-0") <= 63
    assert told.items() >= made.environment.items()
    ((file, text),) = held["data"].items()
    assert text.rstrip() == made.text.rstrip()
    script = container["command"][2].replace("/plan/", f"{tmp_path}/plan/")
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / file).write_text(text, encoding="utf-8")
    (line,) = run(script, tmp_path, JOB_COMPLETION_INDEX="1", **told)
    assert told["MASTER_ADDR"] in line and "rank" in line


@pytest.mark.parametrize("to", FORMATS)
def test_skypilot_starts_each_node(to: str, tmp_path: Path) -> None:
    made = build_config(plan(), to)
    task = yaml.safe_load(write_job(plan(), to, made, "skypilot"))
    assert task["num_nodes"] == 2 and task["resources"] == {"accelerators": "H100:8"}
    assert task["envs"].items() >= made.environment.items()
    (line,) = run(
        task["run"],
        tmp_path,
        SKYPILOT_NODE_IPS="10.0.0.1\n10.0.0.2",
        SKYPILOT_NODE_RANK="1",
        **task["envs"],
    )
    assert "10.0.0.1" in line and written(tmp_path).rstrip() == made.text.rstrip()


@pytest.mark.parametrize(
    ("cluster", "said"),
    read_data("faults")["jobs"],
)
def test_what_a_scheduler_cannot_start_is_one_fault(cluster: dict[str, Any], said: str) -> None:
    odd = plan(cluster=cluster, training={"global_batch": 48}, parallelism={"zero": 1})
    with pytest.raises(PlanError, match=said):
        write_job(odd, "trl", build_config(odd, "trl"), "skypilot")


@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_the_command_line_writes_a_job(scheduler: str, run_cli: RunCli, tmp_path: Path) -> None:
    given = ["export", "gpt2small_hgx-h100", "--to", "megatron", "--job", scheduler]
    done = run_cli(*given, "-o", str(tmp_path / "job"))
    assert done.returncode == 0
    assert "pretrain_gpt.py" in (tmp_path / "job").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["math", "torch", "1"])
def test_a_module_of_a_job_is_no_other_module(name: str, tmp_path: Path) -> None:
    """`--module` is imported where the job runs: torchtitan/config/manager.py."""
    named = plan(name=name)
    text = write_job(named, "torchtitan", build_config(named, "torchtitan"), "slurm")
    lines = run(text, tmp_path, SLURM_JOB_NODELIST="n[1-2]")
    (file,) = (path for path in tmp_path.iterdir() if path.is_file())
    assert file.name.startswith("run_") and file.suffix == ".py"
    assert f"-m torchtitan.train --module {file.stem} --config plan" in lines[0]


def test_maxtext_is_one_process_of_each_node(tmp_path: Path) -> None:
    """MaxText's initialize_jax_for_gpu reads these four from the environment."""
    text = write_job(plan(), "maxtext", build_config(plan(), "maxtext"), "slurm")
    first, second = run(text, tmp_path, "run_name=x", SLURM_JOB_NODELIST="n[1-2]")
    assert first.startswith("2 rank 0 first:29500 -m maxtext.trainers.pre_train.train ")
    assert second.startswith("2 rank 1 first:29500 ") and second.endswith(".yaml run_name=x")
