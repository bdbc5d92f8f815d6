"""Nothing half-written: whatever happens, a file is the old one or the new one."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planner.base.errors import PlanError
from planner.base.files import write_text

ROOT = Path(__file__).resolve().parents[2]
PLAN = "presets/gpt2small_hgx-h100.yaml"


def whole(path: Path) -> bool:
    """Whether a file is what one writer wrote, to the last byte."""
    digest, _, body = path.read_bytes().partition(b"\n")
    return hashlib.sha256(body).hexdigest().encode() == digest


def write_whole(path: Path) -> None:
    write_text(path, hashlib.sha256(b"old").hexdigest() + "\nold")


def sealed(mark: str) -> str:
    """A megabyte under its own digest."""
    body = mark + "\u00e9\n" * 350_000
    return hashlib.sha256(body.encode()).hexdigest() + "\n" + body


def endless_writer(path: Path, bodies: list[str]) -> int:
    """A process that writes one body after the other to a file."""
    child = os.fork()
    if child:
        return child
    try:
        for number in itertools.count():
            write_text(path, bodies[number % len(bodies)])
    finally:
        os._exit(0)


@pytest.mark.slow
def test_60_kills_leave_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    """Some between two files, many in the midst of one; more where a loaded machine begins late."""
    path, chance = tmp_path / "out.txt", random.Random(1)
    bodies, new, interrupted = [sealed(mark) for mark in "abc"], 0, 0
    for turn in range(600):
        if turn >= 60 and min(new, interrupted) > 5:
            break
        write_whole(path)
        child = endless_writer(path, bodies)
        time.sleep(chance.random() * 0.04)
        os.kill(child, chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)))
        os.waitpid(child, 0)
        assert whole(path), f"kill {turn} left a mixture"
        new += not path.read_bytes().endswith(b"old")
        for left in tmp_path.glob(f".{path.name}.*"):
            interrupted += 1
            left.unlink()
    assert min(new, interrupted) > 5


def test_two_processes_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_whole(path)
    both = [endless_writer(path, [sealed(mark)]) for mark in "ab"]
    marks, until = set(), time.monotonic() + 30
    try:
        while not marks >= {b"a", b"b"} and time.monotonic() < until:
            assert whole(path)
            marks.add(path.read_bytes().partition(b"\n")[2][:1])
    finally:
        for child in both:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert marks >= {b"a", b"b"}


def limited_write(path: Path, text: str, limit: int) -> str:
    """What writing says where files may not grow beyond `limit` bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        with pytest.raises(PlanError) as caught:
            write_text(path, text)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    return str(caught.value)


def test_a_file_that_cannot_grow_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_whole(path)
    assert limited_write(path, "x" * 100_000, 10_000) == (
        f"{path}: cannot be written: file too large"
    )
    assert whole(path)
    assert os.listdir(tmp_path) == ["out.txt"]


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A disk of a size; needs the right to mount one."""
    folder.mkdir()
    try:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)],
            capture_output=True,
        )
    except FileNotFoundError:
        pytest.skip("there is no mount")
    if done.returncode:
        pytest.skip("may not mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "64k") as folder:
        yield folder


def test_a_full_disk_leaves_the_old_file(small_disk: Path) -> None:
    path = small_disk / "out.txt"
    write_whole(path)
    with pytest.raises(PlanError) as caught:
        write_text(path, "x" * 200_000)
    assert str(caught.value) == f"{path}: cannot be written: no space left on device"
    assert whole(path)
    assert os.listdir(small_disk) == ["out.txt"]
    write_text(path, "new")
    assert path.read_text() == "new"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.slow
def test_a_full_disk_behind_standard_output_is_a_fault() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "plan.py", PLAN], cwd=ROOT, stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 2
    assert done.stderr.decode() == "standard output: No space left on device\n"


def test_a_missing_or_wrong_folder_is_a_fault(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "no" / "out.txt", "no such file or directory"),
        (tmp_path, "it is a folder"),
        (tmp_path / ("x" * 300), "file name too long"),
        (tmp_path / "nul\0", "embedded null byte"),
    ):
        with pytest.raises(PlanError, match=reason):
            write_text(path, "text")
    assert os.listdir(tmp_path) == []


@contextlib.contextmanager
def no_rights() -> Iterator[None]:
    """Root may write anywhere, so be somebody else for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_read_only_folder_is_a_fault() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_whole(folder / "out.txt")
        folder.chmod(0o555)
        with no_rights(), pytest.raises(PlanError) as caught:
            write_text(folder / "out.txt", "text")
        folder.chmod(0o755)
        assert str(caught.value) == f"{folder}/out.txt: cannot be written: permission denied"
        assert os.listdir(folder) == ["out.txt"]
        assert whole(folder / "out.txt")


def test_a_link_stays_a_link_and_a_mode_stays(tmp_path: Path) -> None:
    path, link = tmp_path / "out.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


@pytest.mark.slow
def test_a_pipe_or_a_device_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    write_text(pipe, "text")
    assert reader.communicate(timeout=10)[0] == b"text"
    assert pipe.is_fifo()
    with pytest.raises(PlanError, match="cannot be written: nobody reads this pipe"):
        write_text(pipe, "text")
    ends = os.pipe()  # as the shell names what is behind >(command)
    write_text(f"/dev/fd/{ends[1]}", "more")
    assert os.read(ends[0], 10) == b"more"
    for end in ends:
        os.close(end)
    write_text(os.devnull, "nothing")
    assert Path(os.devnull).is_char_device()
    assert os.listdir(tmp_path) == ["pipe"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
def test_a_full_device_is_a_fault() -> None:
    with pytest.raises(PlanError, match="cannot be written: no space left on device"):
        write_text("/dev/full", "text")
    assert Path("/dev/full").is_char_device()


def test_links_in_a_circle_are_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(PlanError):
        write_text(tmp_path / "a" / "out.txt", "text")
    assert (tmp_path / "a").is_symlink()


@pytest.mark.parametrize("way", ["its own name", "a link", "another path"])
@pytest.mark.parametrize("which", ["plan", "model"])
def test_a_report_never_replaces_what_it_was_made_from(
    tmp_path: Path, way: str, which: str
) -> None:
    from planner.cli.main import main

    model, plan = tmp_path / "model.json", tmp_path / "plan.json"
    model.write_text('{"extends": "gpt2-small", "layers": 6}')
    plan.write_text('{"extends": "gpt2small_hgx-h100", "model": "model.json"}')
    target = {"plan": plan, "model": model}[which]
    before = target.read_bytes()
    (tmp_path / "inner").mkdir()
    (tmp_path / "link.json").symlink_to(target)
    output = {
        "its own name": target,
        "a link": tmp_path / "link.json",
        "another path": tmp_path / "inner" / ".." / target.name,
    }[way]
    assert main(["report", str(plan), "-o", str(output)]) == 2
    assert target.read_bytes() == before
