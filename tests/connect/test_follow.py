"""`compare --follow` beside a job that writes: a process of its own, or bytes that arrive."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from planner.base import files
from planner.base.errors import PlanError
from planner.connect import follow
from planner.connect.follow import Event, Follower
from planner.questions import loading

ROOT = Path(__file__).resolve().parents[2]
PLAN = (
    ROOT / "presets" / "llama70b_h100x1024.yaml"
)  # less than 4 s a step, and less than 6 s at worst
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]
LINE = (
    " [2025-08-01 07:19:50] iteration {n:8}/    5000 | consumed samples: 256 | elapsed time per "
    "iteration (ms): {ms} | throughput per GPU (TFLOP/s/GPU): 480.2 | global batch size:  1024 |\n"
)
MEMORY = "[Rank 0] (after {n} iterations) memory (MB) | allocated: 1 | max allocated: {mb}.5\n"


def line(n: int, ms: float = 3700) -> str:
    return LINE.format(n=n, ms=ms)


@pytest.fixture
def follower(tmp_path: Path) -> Iterator[Follower]:
    with Follower(loading.load(PLAN), tmp_path / "log") as made:
        yield made


def write(follower: Follower, text: str, how: str = "a") -> list[Event]:
    with open(follower.path, how) as file:
        file.write(text)
    return list(follower.look())


def test_each_change_of_state_is_one_event(follower: Follower) -> None:
    (event,) = follower.look()
    assert event.kind == "waiting" and not list(follower.look())  # the file may be missing yet
    events = write(follower, "".join(map(line, range(1, 9))))
    assert [event.kind for event in events] == ["reading", "inside"]
    assert not write(follower, "".join(map(line, range(9, 20)))) and follower.is_inside
    # One slow step is none; ten are.
    assert not write(follower, line(20, 9000))
    slow = write(follower, "".join(line(n, 6000) for n in range(21, 33)))
    assert [event.kind for event in slow] == ["above"] and not follower.is_inside
    row = slow[0].row
    assert row is not None and row.interval is not None and row.measured == 6 > row.interval[1]
    assert slow[0].text.startswith("SLOWER  one step 6.00 s, predicted 3.")
    assert " would cost " in slow[0].explained[0]
    assert slow[0].step == 32 and not write(follower, line(33, 6000))
    back = write(follower, "".join(map(line, range(34, 50))))
    assert [event.kind for event in back] == ["inside"] and follower.is_inside


def test_the_warm_up_is_no_change(follower: Follower) -> None:
    events = write(follower, "".join(line(n, 60_000) for n in range(1, 6)))
    assert [event.kind for event in events] == ["reading"]
    assert [e.kind for e in write(follower, "".join(map(line, range(6, 12))))] == ["inside"]


def test_memory_names_what_could_take_it(follower: Follower) -> None:
    """Its peak counts, though it is logged a few times only."""
    events = write(follower, "".join(MEMORY.format(n=n, mb=49_000) for n in range(1, 10)))
    assert [event.kind for event in events] == ["reading", "inside"]
    (event,) = write(follower, MEMORY.format(n=10, mb=66_000))
    assert event.text.startswith("FULLER  live tensors, peak 64.5 GiB")
    assert "sequence parallelism does not divide would cost" in event.explained[0]


def test_a_line_that_is_not_whole_yet_waits(follower: Follower) -> None:
    text = "".join(map(line, range(1, 12)))
    events: list[Event] = []
    for at in range(0, len(text), 37):
        events += write(follower, text[at : at + 37])
    assert [event.kind for event in events] == ["waiting", "reading", "inside"]
    assert follower.log is not None
    assert {*follower.log.series(follow.STEP)[0].doubles} == {3700}


def test_a_log_that_is_rotated_or_cut_goes_on(follower: Follower) -> None:
    path = Path(follower.path)
    write(follower, "".join(map(line, range(1, 9))))
    with path.open("a") as old:  # what is written before the name is taken is read
        old.write(line(9))
        path.rename(path.with_suffix(".1"))
    events = write(follower, line(10), "w") + list(follower.look())
    assert [event.kind for event in events] == ["again"]
    events = write(follower, line(11), "w") + list(follower.look())
    assert [event.kind for event in events] == ["again"]
    assert follower.log is not None
    assert [*follower.log.series(follow.STEP)[0].steps] == list(range(1, 12))


def test_a_table_whose_header_comes_again_goes_on(follower: Follower) -> None:
    head = "step,step_time,loss\n"
    write(follower, head + "".join(f"{n},3.7,1.0\n" for n in range(1, 9)))
    write(follower, head + "9,3.7,1.0\n", "w")
    list(follower.look())
    assert follower.log is not None and follower.log.step == 9


def test_event_files_are_followed(tmp_path: Path) -> None:
    data = (ROOT / "tests" / "data" / "logs" / "torchtitan.tfevents").read_bytes()
    plan = loading.load(ROOT / "presets" / "gpt2small_hgx-h100.yaml")
    with Follower(plan, tmp_path / "log") as follower:
        kinds = []
        for at in range(0, len(data), 999):
            with open(follower.path, "ab") as file:
                file.write(data[at : at + 999])
            kinds += [(event.kind, event.row and event.row.id) for event in follower.look()]
    assert ("above", "time.step_seconds") in kinds and ("inside", "memory.total") in kinds


def test_a_silent_job_is_told_once(follower: Follower, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    follower._heard = now
    write(follower, "".join(map(line, range(1, 12))))
    now += 59
    assert not list(follower.look())
    now += 2
    (event,) = follower.look()
    assert event.kind == "silent" and not follower.is_inside and not list(follower.look())
    assert [event.kind for event in write(follower, line(12))] == ["reading"]
    assert follower.is_inside


def test_another_run_than_planned_is_told(follower: Follower) -> None:
    events = write(follower, "".join(map(line, range(1, 12))).replace("1024", "1536"))
    assert [event.kind for event in events] == ["reading", "note", "inside"]
    assert "global batch of 1536 sequences, the plan has 1024" in events[1].text


def test_what_does_not_grow_or_cannot_be_believed_is_a_fault(follower: Follower) -> None:
    with pytest.raises(PlanError, match="a step takes no time"):
        write(follower, line(1, 0))
    with pytest.raises(PlanError, match="no log of a training run"):
        write(Follower(follower.plan, f"{follower.path}.json"), '{"log_history": [\n1,\n2]}\n')


def test_a_folder_that_is_not_there_is_not_waited_for(tmp_path: Path) -> None:
    growing = files.Growing(tmp_path / "nothing" / "log")
    with growing, pytest.raises(PlanError, match="no such file"):
        growing.chunk(9)


# The command ----------------------------------------------------------------------------------

WRITER = """
import sys, time
with open(sys.argv[1], "a") as file:
    for n in range(1, 10_000):
        text = sys.argv[2].format(n=n, ms=3700 if n < 30 else 6000)
        file.write(text[:50]); file.flush(); file.write(text[50:]); file.flush()
        time.sleep(0.02)
"""


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Path]:
    """A job that writes a log, from its 30th step on with slow steps."""
    path = tmp_path / "train.log"
    job = subprocess.Popen([sys.executable, "-c", WRITER, str(path), LINE])
    try:
        yield path
    finally:
        job.kill()
        job.wait()


@pytest.mark.slow
def test_a_running_job_is_followed_to_a_step(writer: Path, run_cli: RunCli) -> None:
    words = ("--log", writer, "--follow", "--until-step", "60", "--timeout", "50s")
    done = run_cli("compare", PLAN, *words, "--format", "json")
    assert done.returncode == 1, done.stderr
    lines = [json.loads(each) for each in done.stdout.splitlines()]
    kinds = [each["event"] for each in lines if each["event"] != "waiting"]
    assert kinds[0] == "reading" and kinds[-2:] == ["above", "end"]
    above = lines[-2]
    assert above["id"] == "time.step_seconds" and above["measured"] > above["high"]
    assert above["explained"] and lines[-1]["verdict"]["state"] in ("inside", "outside")
    assert writer.exists()


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_it_leaves_its_summary_and_nothing_running(how: int, writer: Path) -> None:
    command = [sys.executable, str(ROOT / "plan.py"), "compare", str(PLAN), "--log", str(writer)]
    process = subprocess.Popen(
        [*command, "--follow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # Whoever runs the tests in the background of a shell has Ctrl-C ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    while "SLOWER" not in said:
        said += process.stdout.readline()
    process.send_signal(how)
    rest, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and not errors  # outside when it ended
    assert rest.lstrip().split("\n")[0].endswith("  Llama-2 70B on 1,024 H100s")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


def test_a_log_on_standard_input_ends_with_it(run_cli: RunCli) -> None:
    text = "".join(map(line, range(1, 30)))
    command = [
        sys.executable,
        str(ROOT / "plan.py"),
        "compare",
        str(PLAN),
        "--log",
        "-",
        "--follow",
    ]
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "INSIDE  one step 3.70 s" in done.stdout and "AS PREDICTED  Llama-2" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--follow", "--step-time", "4s"], "--follow goes with --log"),
        (["--log", "x.log", "--follow", "--format", "md"], "--follow goes with --log, as text or"),
        (["--log", "x.log", "--until-step", "5"], "--until-step and --timeout go with --follow"),
        (["--log", "x.log", "--follow", "--timeout", "5 GB"], "--timeout: '5 GB' is bytes"),
        (["--log", "x.log", "--follow", "--timeout", "0s"], "--timeout 0s (a time above 0"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(
    words: list[str], said: str, run_cli: RunCli
) -> None:
    done = run_cli("compare", PLAN, *words)
    assert done.returncode == 2 and not done.stdout
    assert said in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_timeout_without_a_log_does_not_hold(tmp_path: Path, run_cli: RunCli) -> None:
    done = run_cli("compare", PLAN, "--log", tmp_path / "log", "--follow", "--timeout", "0.2s")
    assert done.returncode == 1 and "no record was read" in done.stdout, done.stderr
