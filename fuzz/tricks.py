"""Files that are none, and names that mislead: links, pipes, devices, sockets, folders, odd names;
repositories in odd states; reports and results that are forged; cells that a spreadsheet would run.

    python -m fuzz.tricks [--tricks 2000] [--seed 1] [--only 17]

Each trick is put where a command reads or writes. Exit status 1 where a command hung, failed in
itself, wrote outside its folder, or told anything of a file outside ``--root``.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from fuzz import documents, kills, watch
from fuzz.watch import Outcome

ROOT = kills.ROOT
PLAN = Path(kills.PLAN)
SECRET = "a-secret-5c2e"
ENDINGS = (".yaml", ".json", ".md", ".html", ".log", ".csv", ".txt", "")
#: Names of files, as bytes: no UTF-8, what looks like an option, what steers a terminal.
NAMES = (
    b"x", b"\xff\xfe", b"-o", b"--set=a", b" ", b"a\nb", b"\x1b[2J", b"x" * 200, b"a:1:2", b"=1",
    "\u202ex".encode(), b"..x", b"a*b", b"~", b"$HOME", b"HEAD:x", b"%s",
)  # fmt: skip


def _link(path: Path, target: str | Path) -> None:
    path.symlink_to(target)


def _grown(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _socket(path: Path, _: Path) -> None:
    one = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError), contextlib.closing(one):  # its name may be too long
        one.bind(str(path))


#: What may stand in the place of a file: made at a path, with the folder outside beside it.
TRICKS: dict[str, Callable[[Path, Path], object]] = {
    "pipe": lambda path, _: os.mkfifo(path),
    "socket": _socket,
    "folder": lambda path, _: path.mkdir(),
    "link to a device": lambda path, _: _link(path, "/dev/zero"),
    "link to a terminal": lambda path, _: _link(path, "/dev/tty"),
    "link to the kernel's log": lambda path, _: _link(path, "/proc/kmsg"),
    "link to memory": lambda path, _: _link(path, "/proc/self/mem"),
    "link to nothing": lambda path, _: _link(path, "nothing"),
    "link to itself": lambda path, _: _link(path, path.name),
    "link outside": lambda path, outside: _link(path, outside / "secret.yaml"),
    "link to a folder outside": lambda path, outside: _link(path, outside),
    "second name outside": lambda path, outside: path.hardlink_to(outside / "secret.yaml"),
    "a terabyte": lambda path, _: _grown(path, 10**12),
    "zeros": lambda path, _: _grown(path, 100_000),
    "empty": lambda path, _: path.write_bytes(b""),
    "no UTF-8": lambda path, _: path.write_bytes(b"name: \xff\xfe\n"),
    "tag of a bool": lambda path, _: path.write_bytes(b"model: !!bool maybe\n"),
    "tag of an int": lambda path, _: path.write_bytes(b'model: !!int ""\n'),
    "a plan": lambda path, _: shutil.copyfile(PLAN, path),
    "not readable": lambda path, _: path.touch(0),
}


def trick(seed: int, number: int, base: Path) -> tuple[str, list[str], Outcome]:
    """Play one trick; the same for the same number."""
    random = Random(f"{seed}:{number}")
    outside, inside = base / "outside", base / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret.yaml").write_text(f"name: {SECRET}\n{SECRET}: {SECRET}\n")
    before = _seen(outside)
    shutil.copyfile(PLAN, inside / "plan.yaml")
    name = random.choice(list(TRICKS))
    stem = random.choice(NAMES) + random.choice(ENDINGS).encode()
    planted = inside / os.fsdecode(stem)
    TRICKS[name](planted, outside)
    line = random.choice(WAYS)(random, inside, planted)
    bound = random.random() < 0.7
    line += ["--root", str(inside)] if bound else []
    with contextlib.chdir(inside):
        outcome = watch.run(line, 10.0, by_option=True)
    if outcome.problem is None:
        # A second name of a file is as good as the first: it lies inside.
        told = bound and name != "second name outside"
        outcome = _judged(outcome, outside, _seen(outside) != before, told)
        if _runs(inside / "cells.csv"):
            outcome = replace(outcome, problem="a cell that a spreadsheet runs")
    return name, line, outcome


def _judged(outcome: Outcome, outside: Path, moved: bool, bound: bool) -> Outcome:
    if (outside / "ran").exists():
        return replace(outcome, problem="a command of the repository ran")
    if moved and bound:  # without it, a link that is named is the user's own
        return replace(outcome, problem="a file outside its folder changed")
    if bound and SECRET in outcome.said:
        return replace(outcome, problem="told of a file outside the root", detail=outcome.said)
    return outcome


def _seen(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def _reference(random: Random, inside: Path, planted: Path) -> list[str]:
    """A document that names the planted file."""
    name = planted.name
    way = random.choice((
        name, f"./{name}", str(planted), f"../inside/{name}", "../outside/secret.yaml",
        "/proc/kmsg", "/dev/zero", "/etc/passwd",
    ))  # fmt: skip
    quoted = json.dumps(way)
    document = random.choice((
        "extends: {}\n", "extends: plan.yaml\nmodel: {}\n",
        "extends: plan.yaml\ncluster: {{accelerator: {}}}\n",
        "base: plan.yaml\naxes: {{model: [{}]}}\n", "plans: [{}]\n",
    ))  # fmt: skip
    own = inside / "own.yaml"
    own.write_bytes(document.format(quoted).encode("utf-8", "surrogateescape"))
    return [random.choice(("validate", "report")), str(own)]


def _over(random: Random, inside: Path, planted: Path) -> list[str]:
    """The planted file is what is written."""
    target = planted
    if random.random() < 0.5 and os.path.lexists(planted):  # or lies beside a table that is written
        target = inside / "out.csv"
        beside = inside / "out.csv.pieces"
        if random.random() < 0.5:
            beside.mkdir(exist_ok=True)
            (beside / "study.json").touch()
            beside /= random.choice(("study.json", "000000.csv", "000000.json"))
        planted.rename(beside)
    study = inside / "study.config"
    study.write_text("base: plan.yaml\naxes: {training.micro_batch: [1, 2]}\n")
    if target.suffix == ".csv" and random.random() < 0.8:
        return ["sweep", str(study), "--workers", "1", "-o", str(target)]
    return ["report", str(inside / "plan.yaml"), "-o", str(target)]


def _checked(random: Random, inside: Path, planted: Path) -> list[str]:
    """A folder, or a report that leads to the planted file."""
    if random.random() < 0.5:
        return ["check", str(inside), "--plans", str(inside)]
    report = inside / "report.md"
    report.write_bytes(
        b"python plan.py '"
        + os.fsencode(planted.name)
        + b"' --set 'model=../outside/secret.yaml'\n"
        b"trainplan 0; of a resolved input\n"
    )
    return ["check", str(report)]


# Repositories ------------------------------------------------------------------------------


def _git(folder: Path, *words: str) -> object:
    """Run git, whatever comes of it: a state that it refuses is a state too."""
    who = ("-c", "user.name=x", "-c", "user.email=x", "-c", "init.defaultBranch=main")
    return subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, check=False, timeout=20,
        stdin=subprocess.DEVNULL, env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
    )  # fmt: skip


def _removed(folder: Path, pattern: str) -> None:
    for file in list((folder / ".git").glob(pattern)):
        if file.is_file():
            file.chmod(0o600)
            file.unlink()


def _without(folder: Path) -> Path:
    """Delete the folder that git keeps; return where it was."""
    shutil.rmtree(folder / ".git")
    return folder / ".git"


def _ran(outside: Path) -> str:
    """A command that leaves a trace where nothing may change."""
    return f"touch '{outside}/ran'; cat"


#: What may have become of a repository that holds a plan; made in it, with the folder outside.
STATES: dict[str, Callable[[Path, Path], object]] = {
    "as it is": lambda folder, _: None,
    "no commit": lambda folder, _: _removed(folder, "refs/heads/*"),
    "no objects": lambda folder, _: _removed(folder, "objects/*/*"),
    "detached": lambda folder, _: _git(folder, "checkout", "--detach"),
    "a broken HEAD": lambda folder, _: (folder / ".git/HEAD").write_bytes(b"\xff\n"),
    "an empty index": lambda folder, _: (folder / ".git/index").write_bytes(b""),
    "a lock": lambda folder, _: (folder / ".git/index.lock").touch(),
    "a branch like a file": lambda folder, _: _git(folder, "branch", "plan.yaml"),
    "a tag like a branch": lambda folder, _: _git(folder, "tag", "main"),
    "shallow": lambda folder, _: (folder / ".git/shallow").write_bytes(b"x\n"),
    "elsewhere": lambda folder, outside: _without(folder).write_text(f"gitdir: {outside}\n"),
    "replaced by a link": lambda folder, outside: _without(folder).symlink_to(outside),
    "a pager": lambda folder, outside: _git(folder, "config", "core.pager", _ran(outside)),
    "a monitor": lambda folder, outside: _git(folder, "config", "core.fsmonitor", _ran(outside)),
    "another diff": lambda folder, outside: _git(
        folder, "config", "diff.external", _ran(outside)
    ),
    "an alias": lambda folder, outside: _git(
        folder, "config", "alias.rev-parse", f"!{_ran(outside)}"
    ),
    "a filter": lambda folder, outside: (
        (folder / ".gitattributes").write_text("*.yaml filter=x diff=x\n"),
        _git(folder, "config", "filter.x.smudge", _ran(outside)),
        _git(folder, "config", "diff.x.textconv", _ran(outside)),
    ),
    "a submodule": lambda folder, outside: (
        _git(folder, "update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub"),
        _git(folder, "commit", "-m", "x"),
    ),
    "an object that is missing": lambda folder, _: (
        _git(folder, "update-index", "--add", "--cacheinfo", f"100644,{'1' * 40},plan.yaml"),
        _git(folder, "commit", "-m", "x"),
    ),
    "two of a case": lambda folder, _: (
        _git(folder, "update-index", "--add", "--cacheinfo", f"120000,{'2' * 40},PLAN.yaml"),
        _git(folder, "commit", "-m", "x"),
    ),
}  # fmt: skip
REVISIONS = (
    "HEAD", "main", "HEAD~1", "HEAD^{tree}", "@{-1}", ":0", "", "-h", "--all", "main..HEAD",
    "HEAD@{yesterday}", "\x1b[2J", "\udcff", "0" * 40, "HEAD\n", ":/x", "^HEAD",
)  # fmt: skip
WITHIN = (
    "plan.yaml", "./plan.yaml", "../inside/plan.yaml", "../outside/secret.yaml", "sub", "sub/x",
    ".git/config", "", "/etc/passwd", "plan.yaml/..", "link.yaml",
)  # fmt: skip


def _revision(random: Random, inside: Path, planted: Path) -> list[str]:
    """A plan of a repository in an odd state, beside the one that lies there."""
    _git(inside, "init")
    target = random.choice(("plan.yaml", "../outside/secret.yaml", "/dev/zero", "link.yaml", "sub"))
    (inside / "link.yaml").symlink_to(target)
    if planted.is_file() and planted.stat().st_size < 10**6:
        _git(inside, "add", "--", planted.name)
    _git(inside, "add", "plan.yaml", "link.yaml")
    _git(inside, "commit", "-m", "x")
    STATES[random.choice(list(STATES))](inside, inside.parent / "outside")
    within = random.choice((*WITHIN, planted.name))
    sides = [f"{random.choice(REVISIONS)}:{within}", str(inside / "plan.yaml")]
    return ["diff", *random.sample(sides, 2)]


# Forged documents, and too much ------------------------------------------------------------


def _forged(random: Random, inside: Path, planted: Path) -> list[str]:
    """A report, a result or a log that a stranger wrote, full of what its readers look for."""
    odd = random.choice((*documents.SCALARS, "../outside/secret.yaml", "=1+1", SECRET))
    line = (
        f"python plan.py {odd} --set model={odd} --root /\ntrainplan {odd}; of a resolved input\n"
    )
    forms: dict[str, tuple[str, str, list[str]]] = {
        "md": ("report.md", line, ["check"]),
        "html": ("report.html", f"<!-- {line} --><pre>{line}</pre>", ["check"]),
        "json": (
            "result.json",
            json.dumps({
                "version": odd, "plan": {"name": odd, "document": odd, "set": [f"model={odd}"]},
                "inputs": {odd: {"value": odd}}, "verdict": {"fits": odd}, "absent": {},
                "quantities": {"memory.total": {"value": odd, "unit": odd}, odd: None},
            }),
            random.choice((["check"], ["diff", str(inside / "plan.yaml")])),
        ),
        "log": ("run.log", f"step,loss,{odd}\n1,{odd},{odd}\n" * 3,
                [random.choice(("compare", "calibrate")), str(inside / "plan.yaml"), "--log"]),
    }  # fmt: skip
    name, text, command = forms[random.choice(list(forms))]
    file = inside / name
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    return [*command, str(file)]


def _giant(random: Random, inside: Path, planted: Path) -> list[str]:
    """A document that is too deep, too long, or expands without end, wherever one is read."""
    file = inside / f"giant{random.choice(ENDINGS)}"
    file.write_bytes(documents.draw_one(documents.giants, random.random()) or b"")
    plan = str(inside / "plan.yaml")
    return random.choice((
        ["validate", str(file)], ["report", str(file)], ["import", str(file)], ["check", str(file)],
        ["diff", plan, str(file)], ["compare", plan, "--log", str(file)],
        ["report", plan, "--set", f"model={file}"], ["sweep", str(file), "--workers", "1"],
    ))  # fmt: skip


#: Names that a spreadsheet would run as formulas.
CELLS = ("=1+1", "+1+cmd", "-2+3", "@SUM(1)", "\t=1", "\r=1", "=HYPERLINK(1)", '"=1', "'=1", ";=1")


def _cells(random: Random, inside: Path, planted: Path) -> list[str]:
    """A table whose cells a stranger names."""
    names = random.sample(CELLS, 2)
    models = [{"extends": "gpt2-small", "name": name} for name in names]
    runs = [{"name": name, "set": {"training.micro_batch": 1}} for name in names]
    axes = random.choice(({"model": models}, {"run": runs}, {"model": models, "run": runs}))
    study = inside / "cells.yaml"
    study.write_text(json.dumps({"name": names[0], "base": "plan.yaml", "axes": axes}))
    return ["sweep", str(study), "--workers", "1", "-o", str(inside / "cells.csv")]


def _runs(table: Path) -> bool:
    """Whether a cell of a table would be run by a spreadsheet."""
    if not table.is_file():
        return False
    with table.open(newline="", encoding="utf-8") as lines:
        cells = [cell for row in csv.reader(lines) for cell in row]
    texts = [cell for cell in cells if cell[:1] in ("=", "+", "-", "@", "\t", "\r")]
    return any(not cell[1:2].isdigit() or "+" in cell[1:] for cell in texts)


WAYS: tuple[Callable[[Random, Path, Path], list[str]], ...] = (
    lambda random, inside, planted: ["report", str(planted)],
    lambda random, inside, planted: ["validate", str(planted)],
    lambda random, inside, planted: ["import", str(planted)],
    lambda random, inside, planted: ["import", str(planted), "--from", "megatron"],
    lambda random, inside, planted: ["compare", str(inside / "plan.yaml"), "--log", str(planted)],
    lambda random, inside, planted: ["diff", str(inside / "plan.yaml"), str(planted)],
    lambda random, inside, planted: ["check", str(planted)],
    lambda random, inside, planted: ["check", "--plans", str(planted), str(inside)],
    _reference, _reference, _reference, _over, _over, _checked,
    _revision, _revision, _revision, _forged, _forged, _giant, _cells,
)  # fmt: skip


def played(seed: int, number: int) -> tuple[str, list[str], Outcome]:
    """A trick in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="tricks-") as folder:
        return trick(seed, number, Path(folder))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tricks", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int)
    options = parser.parse_args()
    os.chdir(ROOT)
    numbers = range(options.tricks) if options.only is None else [options.only]
    statuses: Counter[int | None] = Counter()
    problems: Counter[str] = Counter()
    for number in numbers:
        if number and number % 200 == 0:
            print(f"{number} tricks, {problems.total()} problems", flush=True)
        name, line, outcome = played(options.seed, number)
        statuses[outcome.status] += 1
        if outcome.problem or options.only is not None:
            problems[str(outcome.problem)] += 1
            if problems[str(outcome.problem)] == 1:
                print(f"[{number}] {name}: {line}\n{outcome}", flush=True)
    print(f"{len(numbers)} tricks; exit status: {dict(statuses)}; problems: {dict(problems)}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
