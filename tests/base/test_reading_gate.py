"""One gate for reading: regular files, of bounded size, inside the folder that was asked for."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from planner.base import files
from planner.base.errors import PlanError
from planner.cli.main import main
from tests.conftest import read_data

ROOT = Path(__file__).resolve().parents[2]
PLAN = ROOT / "presets" / "gpt2small_hgx-h100.yaml"
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]

#: What reads or writes by itself, and why it may.
OWN = read_data("base")["readers_of_their_own"]
METHODS = {
    "open", "read_text", "read_bytes", "write_text", "write_bytes", "safe_load", "full_load",
    "load_all", "compose", "fdopen", "symlink_to", "copyfile", "mkstemp", "NamedTemporaryFile",
}  # fmt: skip
#: Names of modules, whose functions of these names read or write.
MODULES = {"json": {"load", "loads"}, "yaml": {"load", "parse", "safe_load", "compose"},
           "os": {"open", "fdopen"}, "io": {"open"}}  # fmt: skip


def readers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where code opens, reads, writes or parses a file by itself."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id == "open":
            yield node.lineno, "open"
        if isinstance(called, ast.Attribute):
            owner = called.value.id if isinstance(called.value, ast.Name) else ""
            through_gate = owner in ("files", "resources", "yaml_nodes", "nodes", "_opened")
            if called.attr in MODULES.get(owner, ()) or (
                called.attr in METHODS and not through_gate
            ):
                yield node.lineno, f"{owner}.{called.attr}"


@pytest.mark.slow
def test_nothing_else_reads_or_writes_files() -> None:
    found = [
        f"planner/{path.relative_to(ROOT / 'planner').as_posix()}:{line}: {what}"
        for path in sorted((ROOT / "planner").rglob("*.py"))
        if path.relative_to(ROOT / "planner").as_posix() not in OWN
        for line, what in readers(ast.parse(path.read_text("utf-8")))
    ]
    assert found == []


def test_the_search_for_readers_finds_them() -> None:
    text = "open(x)\nPath(x).read_text()\nyaml.safe_load(t)\njson.loads(t)\nfiles.read_text(x)\n"
    assert [line for line, _ in readers(ast.parse(text))] == [1, 2, 3, 4]


# What is no regular file ----------------------------------------------------------------------


def lines(file: Path) -> list[list[str]]:
    """Every way in which a file reaches the program."""
    plan = str(PLAN)
    return [
        ["report", str(file)],
        ["validate", str(file)],
        ["report", plan, "--set", f"model={file}"],
        ["sweep", str(file), "-o", str(file.parent / "made.csv")],
        ["compare", plan, "--log", str(file)],
        ["explain-oom", plan, "--text", str(file)],
        ["explain-oom", plan, "--snapshot", str(file)],
        ["calibrate", plan, "--log", str(file)],
        ["import", str(file)],
        ["import", str(file), "--from", "megatron"],
        ["check", str(file)],
        ["check", str(file.parent / "none.md"), "--plans", str(file)],
        ["diff", str(file), plan],
        ["collective", "all-reduce", "--bytes", "1GiB", "--on", str(file)],
        ["fit-table", "--device", str(file)],
    ]


def test_lines_name_every_command_that_reads() -> None:
    from planner.cli.main import COMMANDS

    others = {"explain", "sensitivity", "solve", "search", "advise", "export"}  # as report does
    others |= {"serve", "mcp", "site"}
    nothing = {"list", "completion", "measure", "tensor", "matmul", "schema"}
    assert {line[0] for line in lines(PLAN)} | others | nothing >= set(COMMANDS) - {"quick"}


KINDS = ("pipe", "device", "link to a device", "socket", "folder", "link to nothing", "circle")


def made(kind: str, path: Path) -> Path:
    """A file that is none."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        import socket

        socket.socket(socket.AF_UNIX).bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        return Path("/dev/zero")
    else:
        target = {"link to a device": "/dev/zero", "link to nothing": "none", "circle": path.name}
        path.symlink_to(target[kind])
    return path


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="the system has no /dev/zero")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", [".yaml", ".json"])
def test_what_is_no_file_is_refused_at_once(
    kind: str, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.chdir(ROOT)
    (tmp_path / "none.md").write_text("")
    file = made(kind, tmp_path / f"x{ending}")
    started = time.process_time()
    for line in lines(file):
        status, said = main(line), capsys.readouterr()
        if kind == "folder" and line[0] == "check" and "--plans" not in line:
            assert "no reports found" in said.err
        assert status == 2, line
        assert len(said.err.splitlines()) == 1, (line, said.err)
        assert "internal error" not in said.err
    assert time.process_time() - started < 20


def test_a_folder_with_traps_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in (".md", ".html", ".json", ".yaml"):
        os.mkfifo(tmp_path / f"pipe{ending}")
        (tmp_path / f"zero{ending}").symlink_to("/dev/zero")
        (tmp_path / f"nothing{ending}").symlink_to("nothing")
    (tmp_path / "bool.yaml").write_text("model: !!bool maybe\n")
    (tmp_path / "int.yaml").write_text('model: !!int ""\n')
    os.mkdir(os.fsencode(tmp_path) + b"/\xff")
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff")) / "\udcfe.json").write_text("{}")
    assert main(["check", str(tmp_path), "--plans", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"{tmp_path}: no reports found")


@pytest.mark.skipif(not Path("/proc/kmsg").exists(), reason="the system has no /proc/kmsg")
def test_what_the_kernel_makes_up_on_reading_is_empty(
    run_process: RunCli, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run_process("validate", "-", stdin="extends: gpt2small_hgx-h100\nmodel: /proc/kmsg\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("/proc/kmsg")
    assert main(["report", "/proc/self/environ"]) == 2
    assert "/proc/self/environ:1:1: the document is empty" in capsys.readouterr().err


def test_a_pipe_that_the_shell_made_is_read() -> None:
    line = f"{sys.executable} plan.py validate <(cat {PLAN})"
    done = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_too_large_is_refused_without_reading(tmp_path: Path) -> None:
    """A sparse file of a terabyte takes no space, and no time."""
    file = tmp_path / "large.yaml"
    with file.open("wb") as made:
        made.truncate(10**12)
    with pytest.raises(PlanError, match="the file is too large"):
        files.read_bytes(file, 10**6)


def test_standard_input_is_bounded_like_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(b"0123456789")))
    with pytest.raises(PlanError, match="the file is too large"):
        files.read_bytes("-", 9)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=BytesIO(b"0123456789\n1")))
    with files.open_bounded("-", 12) as file:
        assert (
            list(file.iter_chunks(8)) == [b"01234567", b"89\n1"]
            and file.read_all() == b"0123456789\n1"
        )


def test_a_missing_file_names_its_neighbour(tmp_path: Path) -> None:
    (tmp_path / "losses.csv").touch()
    with pytest.raises(
        PlanError, match=r"losses\.cvs: no such file \(did you mean '.*losses\.csv'"
    ):
        files.read_text(tmp_path / "losses.cvs", 100)


def test_a_file_that_grows_ends_where_it_ended(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"one\ntwo\n")
    with files.open_bounded(file, 100) as log, file.open("ab") as more:
        more.write(b"three\n")
        more.flush()
        assert list(log.iter_chunks(6)) == [b"one\ntw", b"o\n"] == list(log.iter_chunks(6))
        assert log.read_all() == b"one\ntwo\n"


# The folder that nothing leaves ---------------------------------------------------------------

SECRET = "hidden-7d1f"


@pytest.fixture
def bound(tmp_path: Path) -> Path:
    """A folder of plans, and beside it what must not be read."""
    (tmp_path / "secret.yaml").write_text(f"name: {SECRET}\n{SECRET}: [{SECRET}\n")
    (tmp_path / "secret.json").write_text(f'{{"{SECRET}": 1}}')
    root = tmp_path / "root"
    root.mkdir()
    (root / "plan.yaml").write_text(PLAN.read_text("utf-8"))
    (root / "link.yaml").symlink_to("../secret.yaml")
    (root / "up").symlink_to("..")
    return root


WAYS = ("../secret.yaml", "{outside}/secret.yaml", "link.yaml", "up/secret.yaml", "../secret",
        "./../root/../secret.yaml", "link", "../none.yaml", "/etc/passwd")  # fmt: skip
DOCUMENTS = read_data("base")["gated_documents"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("document", DOCUMENTS)
def test_no_document_leaves_the_root(
    document: str, way: str, bound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = bound / "own.yaml"
    file.write_text(document.format(way=way.format(outside=bound.parent)))
    assert main(["validate", str(file), "--root", str(bound)]) == 2
    said = capsys.readouterr()
    assert SECRET not in said.err + said.out
    assert "outside the folder of --root" in said.err or "unknown" in said.err, said.err


@pytest.mark.slow
def test_no_argument_leaves_the_root(bound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, secret = str(bound / "plan.yaml"), str(bound / "link.yaml")
    (bound / "report.json").symlink_to("../secret.json")
    for line in (
        ["report", secret],
        ["report", plan, "--set", f"model={secret}"],
        ["report", plan, "--set", "model=../secret.yaml"],
        ["compare", plan, "--log", secret],
        ["calibrate", plan, "--log", secret],
        ["import", str(bound / "report.json")],
        ["diff", plan, str(bound / "report.json")],
        ["check", str(bound / "report.json")],
    ):
        assert main([*line, "--root", str(bound)]) == 2, line
        said = capsys.readouterr()
        assert SECRET not in said.err + said.out, line


def test_inside_the_root_presets_and_neighbours_are_read(
    bound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (bound / "own.yaml").write_text("extends: plan.yaml\nmodel: gpt2-small\n")
    assert main(["--root", str(bound), "validate", str(bound / "own.yaml")]) == 0
    assert main(["--root", str(bound), str(bound / "own.yaml")]) == 0
    assert main(["report", str(bound / "own.yaml"), "--root", str(bound / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert files.is_inside("/etc/passwd")  # the bound ends with the command


@pytest.mark.slow
def test_a_forged_report_leads_nowhere(bound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["report", str(bound / "plan.yaml"), "-o", str(bound / "report.json")])
    data = json.loads((bound / "report.json").read_text())
    for plan, overrides in (("../secret.yaml", []), ("plan.yaml", ["model=../secret.yaml"])):
        data["plan"] |= {"document": plan, "set": overrides}
        (bound / "report.json").write_text(json.dumps(data))
        capsys.readouterr()
        assert main(["check", str(bound / "report.json"), "--root", str(bound)]) == 1
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err
        assert "does not exist" in said.out or "outside the folder" in said.out


@pytest.mark.slow
def test_a_link_of_the_folder_is_not_written_through(
    bound: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = bound.parent / "victim.md"
    victim.write_text("precious")
    (bound / "report.md").symlink_to(victim)
    line = ["report", str(bound / "plan.yaml"), "-o", str(bound / "report.md")]
    assert main([*line, "--root", str(bound)]) == 2
    assert victim.read_text() == "precious"
    assert main(line) == 0  # without the bound a link is the user's own


# Depth, forgery, damage -----------------------------------------------------------------------


def test_a_chain_of_documents_has_an_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1500):
        (tmp_path / f"p{number}.yaml").write_text(f"extends: p{number + 1}.yaml\n")
    (tmp_path / "p1500.yaml").write_text(PLAN.read_text("utf-8"))
    assert main(["validate", str(tmp_path / "p0.yaml")]) == 2
    said = capsys.readouterr().err
    assert said.endswith(
        "p50.yaml:1:10: more than 50 documents extend one another (fewer of them)\n"
    )
    assert main(["validate", str(tmp_path / "p1460.yaml")]) == 0


def forged(random: Random, data: object) -> object:
    """A result with some values replaced by what has no business there."""
    if isinstance(data, dict):
        return {
            key: forged(random, value) if random.random() < 0.995 else random.choice(ODD)
            for key, value in data.items()
        }
    if isinstance(data, list) and random.random() < 0.99:
        return [forged(random, value) for value in data]
    return data if random.random() < 0.995 else random.choice(ODD)


ODD: tuple[object, ...] = (
    None, True, [], {}, "", "x", -1, 0, 10**400, -(10**400), 1e308, [[1]], {"id": []}, "=1+1",
    "\ud800", float("inf"), float("nan"),
)  # fmt: skip


@pytest.mark.slow
def test_a_forged_result_is_drift_or_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, log = tmp_path / "report.json", ROOT / "tests/data/logs/steps.csv"
    assert main(["compare", str(PLAN), "--log", str(log), "-o", str(file)]) == 0
    whole, random = json.loads(file.read_text()), Random(1)
    whole["plan"]["document"] = str(PLAN)
    whole["comparison"]["log"] = str(log)
    for part in ("quantities", "inputs"):
        whole[part] = dict(list(whole[part].items())[:30])
    for number in range(30):
        file.write_text(json.dumps(forged(random, whole)))
        capsys.readouterr()
        assert main(["check", str(file)]) in (0, 1, 2), number
        assert "internal error" not in capsys.readouterr().err, number


@pytest.mark.parametrize(
    "command",
    ["python plan.py", "python plan.py ", "python plan.py compare", "python plan.py -o --set",
     "python plan.py x --warm-up " + "9" * 5000, "python plan.py 'x", 'python plan.py "\0"'],
)  # fmt: skip
def test_a_forged_command_is_no_report_or_lost(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.md"
    file.write_text(f"{command}\ntrainplan 0; of a resolved input\n")
    assert main(["check", str(file)]) in (1, 2)
    assert "internal error" not in capsys.readouterr().err


# What the program says of itself --------------------------------------------------------------


def test_a_fault_of_the_program_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.cli import listing

    def broken(what: str | None) -> str:
        raise ValueError("two\nlines")

    monkeypatch.setattr(listing, "format_listing", broken)
    assert main(["list"]) == 70
    said = capsys.readouterr()
    assert said.err == "internal error: ValueError: two\\nlines (--debug shows where)\n"
    assert main(["list", "--debug"]) == main(["--debug", "list"]) == 70
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.slow
def test_without_docstrings_the_bytes_are_the_same() -> None:
    line = ["plan.py", str(PLAN), "--format", "md"]
    plain, stripped = (
        subprocess.run([sys.executable, *flags, *line], cwd=ROOT, capture_output=True, timeout=120)
        for flags in ([], ["-OO"])
    )
    assert (stripped.returncode, stripped.stdout) == (0, plain.stdout), stripped.stderr[-300:]


@pytest.mark.slow
def test_an_interrupt_while_starting_is_quiet() -> None:
    """At every moment from the first line of the program on; before, it is Python's."""
    chance = Random(1)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "plan.py", str(PLAN)], cwd=ROOT, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        time.sleep(0.04 + chance.random() * 0.8)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1].decode()
        assert process.returncode in (0, 1, 130, -signal.SIGINT), said
        assert "planner/" not in said, said  # no line of the package


# Left behind ----------------------------------------------------------------------------------


def studied(folder: Path, points: int = 3) -> Path:
    """A study that takes a while: its plans are evaluated one after another."""
    study = folder / "study.yaml"
    study.write_text(
        f"base: {{extends: {PLAN}}}\naxes:\n"
        f"  training.tokens: {{from: 1B, to: 9B, steps: {points}}}\n"
        "  parallelism: [{tensor: 1}, {tensor: 2}]\nrecord: [memory.process, memory.stage]\n"
    )
    return study


def sweeping(study: Path, table: Path, *more: str) -> list[str]:
    return ["sweep", str(study), "--workers", "1", "-o", str(table), *more]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", ["out.csv.pieces", "study.json", "000000.csv", "000000.json"])
@pytest.mark.parametrize("way", ["link", "hard link", "link to nothing", "pipe"])
def test_a_planted_name_is_not_written_through(
    name: str, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "out.csv.pieces"
    victim.write_text("precious\n")
    planted = folder / name
    if name == folder.name:
        planted = folder
    else:
        folder.mkdir()
        (folder / "study.json").touch()
        planted.unlink(missing_ok=True)
    if way == "hard link":
        planted.hardlink_to(victim)
    elif way == "pipe":
        os.mkfifo(planted)
    else:
        planted.symlink_to(victim if way == "link" else tmp_path / "none")
    kind = "your folder" if planted == folder else "a regular file"
    # A name of a piece is not written to: a new file takes it.
    refused = way != "hard link" or not name.startswith("000000")
    for more in ([], ["--restart"]):
        status, said = main(sweeping(studied(tmp_path), tmp_path / "out.csv", *more)), capsys
        err = said.readouterr().err
        assert status == (2 if refused else 0)
        assert err == (f"{planted}: this is a link or not {kind} (remove it)\n" if refused else "")
    assert victim.read_text() == "precious\n"
    assert not (tmp_path / "none").exists() and (tmp_path / "out.csv").exists() != refused


def damaged(random: Random, raw: bytes) -> bytes:
    """A file with a few bytes of it changed, cut, doubled or swapped."""
    for _ in range(random.choice((1, 2, 5))):
        at, length = random.randrange(len(raw) + 1), random.choice((1, 5, 80))
        raw = random.choice(
            (
                raw[:at] + random.randbytes(length) + raw[at + length :],
                raw[:at] + raw[at + length :],
                raw[: at + length] + raw[at:],
                raw[:at],
                raw.replace(b'"points"', b'"Points"', 1),
                raw[:at] + b"[" * 5000 + raw[at:],
                b"\n".join(raw.split(b"\n")[::-1]),
            )
        )
    return raw


@pytest.mark.slow
def test_a_damaged_piece_is_worked_on_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from planner.questions.studies import run, work

    study, table = studied(tmp_path, 12), tmp_path / "out.csv"
    monkeypatch.setattr(work, "ONE_BY_ONE", 2)
    assert main(sweeping(study, table)) == 0
    whole = table.read_bytes()
    table.unlink()

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run.PieceFolder, "finish_table", stopped)
    assert main(sweeping(study, table)) == 130
    monkeypatch.undo()
    monkeypatch.setattr(work, "ONE_BY_ONE", 2)
    folder, random = table.with_name("out.csv.pieces"), Random(1)
    before = {file: file.read_bytes() for file in folder.iterdir()}
    assert len(before) > 20
    for turn in range(3):
        folder.mkdir(exist_ok=True)
        for file, raw in before.items():
            file.write_bytes(damaged(random, raw) if random.random() < 0.2 else raw)
        assert main(sweeping(study, table)) == 0, turn
        assert table.read_bytes() == whole, turn
        table.unlink()
