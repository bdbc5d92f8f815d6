"""A study on a cluster of several worker processes, one of which is killed on the way.

Run where Dask or Ray is installed (extras `dask` and `ray`); skipped elsewhere.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.questions.studies import engines, run, study, work

ROOT = Path(__file__).resolve().parents[2]
# Values in words are evaluated plan by plan, in many small pieces.
STUDY: dict[str, Any] = {
    "base": "gpt2small_hgx-h100",
    "record": ["memory.stage", "memory.process", "cost.total"],
    "axes": {
        "training.tokens": {"from": "1T", "to": "2T", "steps": 40},
        "training.micro_batch": [1, 2, 4],
        "cluster.devices": [2, 4, 8, 7],
    },
}

pytestmark = pytest.mark.slow


def compared(address: str, tmp_path: Path, kill: Callable[[], int]) -> None:
    """The table of a cluster is that of one process, though a worker is killed on the way."""
    read = study.load(STUDY)
    alone, spread = tmp_path / "alone.csv", tmp_path / "spread.csv"
    run.sweep(read, alone, workers=1)
    killed: list[int] = []

    def progress(done: int, total: int, seconds: float) -> None:
        if done > total // 4 and not killed:
            killed.append(kill())

    run.sweep(read, spread, on=address, progress=progress)
    assert killed
    assert spread.read_bytes() == alone.read_bytes()


def dask_cluster(workers: int, threads: int = 1) -> Any:
    """A cluster of some processes, as a context."""
    return pytest.importorskip("distributed").LocalCluster(
        n_workers=workers, threads_per_worker=threads, processes=True, dashboard_address=None
    )


def test_a_dask_cluster_loses_a_worker_and_nothing_else(tmp_path: Path) -> None:
    with dask_cluster(3) as cluster:
        address = cluster.scheduler_address.replace("tcp://", "dask://")
        workers = [worker.pid for worker in cluster.workers.values()]

        def kill() -> int:
            os.kill(workers[0], signal.SIGKILL)
            return int(workers[0])

        compared(address, tmp_path, kill)


def test_an_executor_of_the_callers_serves_several_sweeps(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as executor:
        for tokens in ("1T", "2T"):
            read = study.load({**STUDY, "axes": {**STUDY["axes"], "training.tokens": [tokens]}})
            alone, spread = tmp_path / "alone.csv", tmp_path / "spread.csv"
            run.sweep(read, alone, workers=1)
            run.sweep(read, spread, workers=2, on=executor)
            assert spread.read_bytes() == alone.read_bytes()


def test_a_dask_cluster_that_is_not_there_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(engines, "PATIENCE", 1)
    with pytest.raises(PlanError, match="the cluster does not answer"):
        run.sweep(study.load(STUDY), on="dask://127.0.0.1:1")


def test_a_scheduler_loads_nothing_that_works_on_pieces() -> None:
    code = (
        "import pickle, sys; pickle.loads(sys.stdin.buffer.read());"
        "print(*{'numpy', 'sympy', 'pyarrow', 'planner.questions.studies.work'} & set(sys.modules))"
    )
    sent = pickle.dumps((engines.work, pickle.dumps(work.Job(study.load(STUDY), "csv")), 0))
    loaded = subprocess.run([sys.executable, "-c", code], input=sent, cwd=ROOT, capture_output=True)
    assert (loaded.stdout.strip(), loaded.stderr) == (b"", b"")


def free_port(first: int) -> int:
    for port in range(first, first + 500):
        with socket.socket() as held:
            if held.connect_ex(("127.0.0.1", port)):
                return port
    raise OSError("no free port")


@pytest.fixture
def ray_cluster() -> Iterator[str]:
    """A Ray head of two workers in processes of its own."""
    pytest.importorskip("ray")
    program = shutil.which("ray", path=f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}")
    if program is None:
        pytest.skip("the program ray is not there")
    client = free_port(23001)
    command = [
        *(program, "start", "--head", "--block", "--num-cpus=2", "--disable-usage-stats"),
        *(f"--port={free_port(26001)}", f"--ray-client-server-port={client}"),
        *("--include-dashboard=false", "--object-store-memory=100000000"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    head = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while free_port(client) == client and time.monotonic() < deadline:
            time.sleep(0.2)
        yield f"ray://127.0.0.1:{client}"
    finally:
        os.killpg(head.pid, signal.SIGTERM)
        try:
            head.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(head.pid, signal.SIGKILL)
            head.wait(20)


def ray_workers() -> list[int]:
    """The processes that work on our pieces."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if command.startswith((b"ray::work", b"ray::IDLE")):  # between two pieces
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="workers are found in /proc")
def test_a_ray_cluster_loses_a_worker_and_nothing_else(ray_cluster: str, tmp_path: Path) -> None:
    def kill() -> int:
        worker = ray_workers()[0]
        os.kill(worker, signal.SIGKILL)
        return worker

    compared(ray_cluster, tmp_path, kill)


def test_a_killed_process_of_this_machine_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker that reaches a piece in the middle dies of it."""
    mark = tmp_path / "killed"
    whole = work.Job.work

    def fatal(job: work.Job, number: int) -> work.Piece:
        if number == 3 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return whole(job, number)

    monkeypatch.setattr(work.Job, "work", fatal)
    read = study.load(STUDY)
    run.sweep(read, tmp_path / "spread.csv", workers=2)
    assert mark.exists()
    monkeypatch.setattr(work.Job, "work", whole)
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
    while not ray_workers() and process.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    process.terminate()
    said = process.communicate(timeout=60)[1].decode(errors="replace")
    assert "Traceback" not in said, said
