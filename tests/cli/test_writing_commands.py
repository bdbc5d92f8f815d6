"""Every command that writes: killed, on a full disk, in a read-only folder, over its own input, two
at once. The commands are those of fuzz/kills.py."""

from __future__ import annotations

import contextlib
import random
import re
import tempfile
from pathlib import Path

import pytest

from fuzz import kills, lines
from planner.cli.main import main
from tests.base.test_writing import mounted, no_rights
from tests.conftest import leave_to_night

WRITERS = sorted(kills.WRITERS)
#: One of each kind of file: a document, a report, a table that grows.
DAILY = ("quick", "report", "sweep")
#: Writes what it measured on this machine, with the same `_put` as import and export.
MEASURES = {"measure"}
#: Writes a folder, which tests/serve/test_site.py reads.
WRITES_FOLDER = {"site"}


def test_every_command_that_writes_is_here() -> None:
    takes = {
        name
        for name, actions in lines.commands().items()
        if any(action.dest == "output" for action in actions)
    }
    assert takes - MEASURES - WRITES_FOLDER - {"schema"} == set(WRITERS)  # which reads nothing


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", leave_to_night(["report", "calibrate", "search", "sweep"], ["report"])
)
def test_a_killed_command_leaves_the_old_files_or_the_new_ones(command: str) -> None:
    """One of each kind of file; `make fuzz` kills all commands, hundreds of times."""
    ends = kills.killed(command, 2, random.Random(command))
    assert ends["broken"] == 0
    assert ends["old"] + ends["new"] + ends["some new"] == 2


@pytest.mark.nightly
@pytest.mark.parametrize("engine", kills.engines())
def test_a_killed_tree_of_processes_leaves_nothing_behind(engine: str) -> None:
    ends = kills.trees(engine, 2, random.Random(2))
    assert not [end for end in ends if end.startswith("broken")], ends


def written(command: str, folder: Path) -> tuple[list[str], dict[Path, bytes]]:
    """The line that would change what the command wrote into the folder, and what that was."""
    words, changed = kills.prepare(command, folder)
    assert main(words) == 0
    return changed, kills.outputs(folder)


def told(capsys: pytest.CaptureFixture[str], reason: str) -> None:
    """One clear line on standard error, with the name of the file."""
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1, said
    assert re.search(rf"out\.\w+[^:]*: (cannot be written: )?{reason}", said[0]), said


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("command", leave_to_night(WRITERS, DAILY))
def test_a_full_disk_leaves_the_old_files(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mounted(tmp_path / "disk", "2m") as folder:
        changed, old = written(command, folder)
        capsys.readouterr()
        fill(folder / "filler")
        assert main(changed) == 2
        told(capsys, "no space left on device")
        assert kills.outputs(folder) == old
        (folder / "filler").unlink()
        assert main(changed) == 0
        assert kills.outputs(folder) != old


def fill(path: Path) -> None:
    """A file that takes what space is left."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("command", leave_to_night(WRITERS, DAILY))
def test_a_read_only_folder_is_a_fault(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        changed, old = written(command, folder)
        capsys.readouterr()
        folder.chmod(0o555)
        with no_rights():
            assert main(changed) == 2
        folder.chmod(0o755)
        told(capsys, "permission denied")
        assert kills.outputs(folder) == old
        assert not list(folder.glob(".out.*"))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("command", leave_to_night(WRITERS, DAILY))
def test_a_missing_folder_is_a_fault(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, _ = kills.prepare(command, tmp_path)
    missing = [word.replace(f"{tmp_path}/out.", f"{tmp_path}/no/out.") for word in words]
    assert missing != words
    assert main(missing) == 2
    told(capsys, "no such file or directory")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("command", [name for name in WRITERS if name != "quick"])  # reads no file
def test_an_input_is_never_replaced(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By whatever name: itself, a link, a way around."""
    _, changed = kills.prepare(command, tmp_path)
    given = next(word for word in changed[1:] if "/" in word and "out." not in word)
    suffix = next(Path(word).suffix for word in changed if "out." in word)
    source = tmp_path / f"given{suffix}"
    source.write_bytes(Path(given).read_bytes())
    before = source.read_bytes()
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / f"given{suffix}").symlink_to(source)
    for name in (source, tmp_path / "link" / source.name, tmp_path / "link" / ".." / source.name):
        line = [str(source) if word == given else word for word in changed if "out." not in word]
        while "-o" in line:
            line.remove("-o")
        assert main([*line, "-o", str(name)]) == 2, name
        said = capsys.readouterr().err
        assert "this is an input" in said, (name, said)
        assert source.read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize("command", leave_to_night(["report", "search", "sweep"], ["report"]))
def test_two_at_once_leave_whole_files(command: str, tmp_path: Path) -> None:
    words, changed = kills.prepare(command, tmp_path)
    kills.finish(words)
    first = kills.outputs(tmp_path)
    kills.finish(changed)
    second = kills.outputs(tmp_path)
    both = [kills.start(line) for line in (words, changed)]
    for process in both:
        _, said = process.communicate()
        refused = b"another sweep is writing this" in said
        assert process.returncode == (2 if refused else 0), said
    found = kills.outputs(tmp_path)
    assert found.keys() == first.keys()
    assert all(found[path] in (first[path], second[path]) for path in found)
