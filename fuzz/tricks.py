"""Files that are none, and names that mislead: links, pipes, devices, sockets, folders, odd names.

    python -m fuzz.tricks [--tricks 2000] [--seed 1] [--only 17]

Each trick is put where a command reads or writes. Exit status 1 where a command hung, failed in
itself, wrote outside its folder, or told anything of a file outside ``--root``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

from fuzz import kills, watch
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
    "not readable": lambda path, _: (path.write_bytes(b"{}"), path.chmod(0)),
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
    outcome = watch.run(line, 10.0, by_option=True)
    if outcome.problem is None:
        # A second name of a file is as good as the first: it lies inside.
        told = bound and name != "second name outside"
        outcome = _judged(outcome, _seen(outside) != before, told)
    return name, line, outcome


def _judged(outcome: Outcome, moved: bool, bound: bool) -> Outcome:
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
