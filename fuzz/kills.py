"""Commands killed at random moments: what they write is the old file or the new one.

    python -m fuzz.kills [--kills 200] [--seed 1]
    python -m fuzz.kills --trees 100        # a sweep with several workers, as a tree of processes

Prints for each command how many kills came before its files were there, after, and between them;
exit status 1 where a file was neither the old one nor the new one. A tree of processes dies in one
of several ways; none of its processes may outlive it, and the same sweep goes on to the same table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Any

import yaml

from fuzz import clusters

ROOT = Path(__file__).resolve().parent.parent
PLAN = str(ROOT / "presets" / "gpt2small_hgx-h100.yaml")
#: What a command leaves beside its file when it is killed, to go on or to throw away.
BESIDE = (".pieces",)
Words = list[str]


#: For each command that writes: what it reads, a line that writes something, and another.
WRITERS: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text("utf-8")
)


def prepare(command: str, folder: Path) -> tuple[Words, Words]:
    """Write what a command reads; return two lines that write different things into a folder."""
    row, names = WRITERS[command], {"folder": str(folder), "plan": PLAN, "root": str(ROOT)}
    for name, text in row.get("files", {}).items():
        (folder / name).write_text(Template(text).substitute(names), "utf-8")
    line, other = (
        [Template(word).substitute(names) for word in shlex.split(row[key])]
        for key in ("line", "other")
    )
    return line, other if other[0] == command else [*line, *other]


def start(words: Words, memory: int | None = None) -> subprocess.Popen[bytes]:
    """A command in a group of processes of its own, each with so many bytes of memory at most."""

    def limited() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell ignores it for what it puts behind
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.Popen(
        [sys.executable, str(ROOT / "plan.py"), *words], start_new_session=True, preexec_fn=limited,
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(words: Words, again: int = 0) -> None:
    process = start(words)
    _, said = process.communicate()
    if process.returncode and again and UNANSWERED in said:
        time.sleep(GONE)
        finish(words, again - 1)
    elif process.returncode:
        raise RuntimeError(said.decode(errors="replace"))


def outputs(folder: Path) -> dict[Path, bytes]:
    """The files that a command wrote, without what lies beside them."""
    found = sorted(folder.glob("out.*"))
    return {path: path.read_bytes() for path in found if path.suffix not in BESIDE}


def killed(command: str, kills: int, chance: random.Random) -> Counter[str]:
    """Kill a command so often; counts of ``old``, ``new``, ``some new`` and ``broken`` ends."""
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        words, changed = prepare(command, folder)
        finish(words)
        old = outputs(folder)
        before = time.monotonic()
        finish(changed)
        lasts = time.monotonic() - before
        new = outputs(folder)
        assert old.keys() == new.keys()
        assert all(old[path] != new[path] for path in old), command
        for _ in range(kills):
            for path, held in old.items():
                path.write_bytes(held)
            process = start(changed)
            time.sleep(lasts * chance.uniform(0.5, 1.1))
            process.send_signal(chance.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGINT)))
            process.communicate()
            ends[_end(outputs(folder), old, new)] += 1
            for left in folder.glob(".out.*"):
                left.unlink()
                ends["interrupted while writing"] += 1
        finish(changed)  # whatever was left behind, the next run comes through
        ends["broken"] += outputs(folder) != new
    return ends


def _end(found: dict[Path, bytes], old: dict[Path, bytes], new: dict[Path, bytes]) -> str:
    if any(found.get(path) not in (old[path], new[path]) for path in old):
        return "broken"
    changed = sum(found[path] == new[path] for path in old)
    return "old" if not changed else "new" if changed == len(old) else "some new"


# Trees of processes ---------------------------------------------------------------------------

#: How a tree dies: which of its processes, and of what.
DEATHS = (
    "parent killed", "parent terminated", "parent interrupted", "all killed", "all terminated",
    "a worker killed", "out of memory",
)  # fmt: skip
#: What a sweep says where a cluster is busy with the end of the one before.
UNANSWERED = b"the cluster does not answer"
#: Seconds within which nothing of a tree is left.
GONE = 10.0
#: Seconds after which a killed sweep that goes on hangs, on a machine that does much else too.
PATIENCE = 600.0
#: Bytes that a process may have, where memory is what it dies of: too few to load, or to work.
MEMORY = {
    "pool": (60_000_000, 260_000_000),
    "dask": (60_000_000, 240_000_000),
    "ray": (100_000_000, 1_400_000_000),
}


@contextlib.contextmanager
def engine(name: str) -> Iterator[tuple[Words, Callable[[], list[int]]]]:
    """The options of a sweep on two workers of an engine, and the workers that are not its own."""
    if name == "pool":
        yield ["--workers", "2"], list
    else:
        with {"dask": clusters.dask, "ray": clusters.ray}[name](2) as (address, workers):
            yield ["--on", address], workers


def engines() -> list[str]:
    """Those that are installed."""
    packages = {"dask": "distributed", "ray": "ray"}
    return ["pool", *(name for name, package in packages.items() if find_spec(package))]


def trees(
    name: str, kills: int, chance: random.Random, deaths: Sequence[str] = DEATHS
) -> Counter[str]:
    """Kill the tree of a sweep so often; counts of its deaths, and of what went wrong.

    After one death in three the same command goes on alone and must come to the same table; after
    the others it is killed again on its way.
    """
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, engine(name) as (on, elsewhere):
        folder = Path(place)
        study = folder / "study.config"
        study.write_text(
            f"base: {{extends: {PLAN}}}\naxes:\n"
            "  training.tokens: {from: 1B, to: 9B, steps: 30}\n"
            "  training.micro_batch: [1, 2, 4, 8]\nrecord: [memory.process, memory.stage]\n",
            "utf-8",
        )
        table, whole = folder / "out.csv", folder / "whole.csv"
        before = time.monotonic()
        finish(["sweep", str(study), *on, "-o", str(whole)], again=3)
        lasts = time.monotonic() - before
        line = ["sweep", str(study), *on, "-o", str(table)]

        def resumed() -> None:
            finish(line, again=3)
            ends["resumed"] += 1
            ends["broken: another table"] += table.read_bytes() != whole.read_bytes()
            left = [path.name for path in folder.iterdir() if path.suffix in BESIDE]
            ends["broken: something left beside the table"] += bool(left)
            table.unlink()

        for number in range(1, kills + 1):
            if number % 10 == 0:
                print(f"{name}, {number} kills: {dict(+ends)}", flush=True)
            death = chance.choice(deaths)
            process = start(
                line, chance.randint(*MEMORY[name]) if death == "out of memory" else None
            )
            if death != "out of memory":
                time.sleep(lasts * chance.uniform(0.05, 0.7))
                _kill(process.pid, death, chance, elsewhere())
            try:
                said = process.communicate(timeout=PATIENCE)[1].decode(errors="replace")
            except subprocess.TimeoutExpired:
                ends["broken: it hangs"] += 1
                print(f"{name}, {death}: hangs", flush=True)
                os.killpg(process.pid, signal.SIGKILL)
                said = process.communicate()[1].decode(errors="replace")
            unanswered = UNANSWERED.decode() in said and death != "out of memory"
            end = "no answer of the cluster" if unanswered else death
            ends["finished" if process.returncode == 0 else end] += 1
            for wrong in ("Traceback", "another sweep"):
                if wrong in said and death != "all terminated":
                    ends[f"broken: {wrong}"] += 1
                    print(f"{name}, {death}: {said[-600:]}", flush=True)
            if not _gone(process.pid):
                ends["broken: processes are left"] += 1
                os.killpg(process.pid, signal.SIGKILL)
            if process.returncode == 0:
                ends["broken: another table"] += table.read_bytes() != whole.read_bytes()
                table.unlink()
            elif chance.random() < 1 / 3:
                resumed()
        resumed()
    return +ends


def _kill(parent: int, death: str, chance: random.Random, elsewhere: list[int]) -> None:
    sent = signal.SIGTERM if "terminated" in death else signal.SIGKILL
    sent = signal.SIGINT if "interrupted" in death else sent
    with contextlib.suppress(ProcessLookupError):
        if death.startswith("all"):
            os.killpg(parent, sent)
        elif death.startswith("parent"):
            os.kill(parent, sent)
        else:
            workers = elsewhere or [pid for pid in _group(parent) if pid != parent]
            os.kill(chance.choice(workers or [parent]), sent)


def _group(leader: int) -> list[int]:
    """The processes of a group that are alive, on Linux."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            state, _, group = file.read_text().rpartition(")")[2].split()[:3]
            if int(group) == leader and state != "Z":
                found.append(int(file.parent.name))
    return found


def _gone(leader: int) -> bool:
    """Whether nothing of a tree is left, after a while."""
    until = time.monotonic() + GONE
    while _group(leader) and time.monotonic() < until:
        time.sleep(0.05)
    return not _group(leader)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--trees", type=int, help="of a sweep's processes, on each engine")
    parser.add_argument("--death", choices=DEATHS, help="of trees: this one only")
    parser.add_argument("--on", choices=("pool", "dask", "ray"), help="of one engine only")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, broken = random.Random(options.seed), 0
    for name in ([options.on] if options.on else engines()) if options.trees else ():
        ends = trees(name, options.trees, chance, [options.death] if options.death else DEATHS)
        broken += sum(count for end, count in ends.items() if end.startswith("broken"))
        print(f"{name}: " + ", ".join(f"{n} {end}" for end, n in sorted(ends.items())), flush=True)
    if options.trees:
        print(f"{broken} broken")
        return int(bool(broken))
    for command in WRITERS:
        ends = killed(command, -(-options.kills // len(WRITERS)), chance)
        broken += ends["broken"]
        counts = ", ".join(f"{n} {end}" for end, n in sorted(ends.items()) if n)
        print(f"{command}: {counts}", flush=True)
    print(f"{broken} broken")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
