"""A study on a cluster of several worker processes, two of which are killed on the way.

Run where Dask or Ray is installed (extras `dask` and `ray`); skipped elsewhere.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fuzz import clusters
from planner.base.errors import PlanError
from planner.questions.studies import engines, run, study, work
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
# Values in words are evaluated plan by plan, in many small pieces.
STUDY: dict[str, Any] = read_data("questions")["study"]

pytestmark = pytest.mark.slow


def compared(address: str, workers: clusters.Workers, tmp_path: Path) -> None:
    """The table of a cluster is that of one process, though two workers are killed on the way."""
    alone, spread = tmp_path / "alone.csv", tmp_path / "spread.csv"
    run.sweep(study.read_study(STUDY), alone, workers=1)
    assert len({*clusters.swept(STUDY, spread, address, workers)}) == clusters.DEATHS
    assert spread.read_bytes() == alone.read_bytes()


def test_a_dask_cluster_loses_two_workers_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    with clusters.dask(3) as (address, workers):
        compared(address, workers, tmp_path)


def test_an_executor_of_the_callers_serves_several_sweeps(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as executor:
        for tokens in ("1T", "2T"):
            read = study.read_study(
                {**STUDY, "axes": {**STUDY["axes"], "training.tokens": [tokens]}}
            )
            alone, spread = tmp_path / "alone.csv", tmp_path / "spread.csv"
            run.sweep(read, alone, workers=1)
            run.sweep(read, spread, workers=2, on=executor)
            assert spread.read_bytes() == alone.read_bytes()


def test_a_dask_cluster_that_is_not_there_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "PATIENCE", 1)
    with pytest.raises(PlanError, match="the cluster does not answer"):
        run.sweep(study.read_study(STUDY), on="dask://127.0.0.1:1")


def test_a_scheduler_loads_nothing_that_works_on_pieces() -> None:
    code = (
        "import pickle, sys; pickle.loads(sys.stdin.buffer.read());"
        "print(*{'numpy', 'sympy', 'pyarrow', 'planner.questions.studies.work'} & set(sys.modules))"
    )
    sent = pickle.dumps(
        (engines.evaluate_piece, pickle.dumps(work.Job(study.read_study(STUDY), "csv")), 0)
    )
    loaded = subprocess.run([sys.executable, "-c", code], input=sent, cwd=ROOT, capture_output=True)
    assert (loaded.stdout.strip(), loaded.stderr) == (b"", b"")


@pytest.fixture
def ray_cluster() -> Iterator[str]:
    """A Ray head of two workers in processes of its own."""
    pytest.importorskip("ray")
    try:
        with clusters.ray(2) as (address, _):
            yield address
    except FileNotFoundError:
        pytest.skip("the program ray is not there")


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="workers are found in /proc")
def test_a_ray_cluster_loses_two_workers_and_nothing_else(ray_cluster: str, tmp_path: Path) -> None:
    compared(ray_cluster, clusters.ray_workers, tmp_path)


def test_a_killed_process_of_this_machine_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker that reaches a piece in the middle dies of it."""
    mark = tmp_path / "killed"
    whole = work.Job.run_piece

    def fatal(job: work.Job, number: int) -> work.StudyPiece:
        if number == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(job, number)

    monkeypatch.setattr(work.Job, "run_piece", fatal)
    read = study.read_study(STUDY)
    run.sweep(read, tmp_path / "spread.csv", workers=2)
    assert mark.exists()
    monkeypatch.setattr(work.Job, "run_piece", whole)
    run.sweep(read, tmp_path / "alone.csv", workers=1)
    assert (tmp_path / "spread.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()


def test_a_study_that_is_stopped_leaves_ray_nothing_to_complain_of(
    ray_cluster: str, tmp_path: Path
) -> None:
    """Ray sets the result of a task that the end of a study cancelled, and printed a traceback."""
    file, command = tmp_path / "study.json", [sys.executable, str(ROOT / "plan.py"), "sweep"]
    file.write_text(json.dumps(STUDY))
    process = subprocess.Popen(
        [*command, str(file), "--on", ray_cluster, "-o", str(tmp_path / "out.csv")],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    until = time.monotonic() + 120
    while not clusters.ray_workers() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.terminate()
    said = process.communicate(timeout=60)[1].decode(errors="replace")
    assert "Traceback" not in said, said
