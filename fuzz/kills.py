"""Commands killed at random moments: what they write is the old file or the new one.

    python -m fuzz.kills [--kills 200] [--seed 1]

Prints for each command how many kills came before its files were there, after, and between them;
exit status 1 where a file was neither the old one nor the new one.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLAN = str(ROOT / "presets" / "gpt2small_hgx-h100.yaml")
CHANGED = ("--set", "training.tokens=77B")
#: What a command leaves beside its file when it is killed, to go on or to throw away.
BESIDE = (".partial", ".journal")
Words = list[str]


def _report(folder: Path) -> tuple[Words, Words]:
    old = ["report", PLAN, *(f"-o{folder}/out.{kind}" for kind in ("html", "md", "json", "txt"))]
    return old, [*old, *CHANGED]


def _import(folder: Path) -> tuple[Words, Words]:
    for name, layers in (("a", 12), ("b", 24)):
        text = f'{{"model_type": "gpt2", "n_layer": {layers}}}'
        (folder / f"{name}.config").write_text(text, "utf-8")
    out = ["-o", str(folder / "out.yaml")]
    return (
        ["import", str(folder / "a.config"), *out],
        ["import", str(folder / "b.config"), *out],
    )


def _export(folder: Path) -> tuple[Words, Words]:
    old = ["export", PLAN, "--to", "megatron", "-o", str(folder / "out.sh")]
    return old, [*old, "--set", "training.micro_batch=2"]


def _compare(folder: Path) -> tuple[Words, Words]:
    log = str(ROOT / "tests/data/logs/megatron.log")
    old = ["compare", PLAN, "--log", log, "-o", str(folder / "out.txt")]
    return old, [*old, "--set", "training.micro_batch=2"]


def _search(folder: Path) -> tuple[Words, Words]:
    outputs = [f"-o{folder}/out.{kind}" for kind in ("json", "csv")]
    old = ["search", PLAN, *outputs]
    return old, [*old, "--set", "training.sequence_length=512"]


def _sweep(folder: Path) -> tuple[Words, Words]:
    study = folder / "study.config"
    study.write_text(
        f"base: {{extends: {PLAN}}}\naxes:\n  training.micro_batch: [1, 2, 4]\n"
        "  training.sequence_length: [256, 512, 1024]\n",
        "utf-8",
    )
    old = ["sweep", str(study), "--workers", "1", "--restart", "-o", str(folder / "out.csv")]
    return old, [*old, "--set", "base.training.tokens=77B"]


#: For each command that writes: a line that writes something, and one that writes something else.
WRITERS: dict[str, Callable[[Path], tuple[Words, Words]]] = {
    "report": _report,
    "import": _import,
    "export": _export,
    "compare": _compare,
    "search": _search,
    "sweep": _sweep,
}


def start(words: Words) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, str(ROOT / "plan.py"), *words],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def finish(words: Words) -> None:
    process = start(words)
    _, said = process.communicate()
    if process.returncode:
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
        words, changed = WRITERS[command](folder)
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chance, broken = random.Random(options.seed), 0
    for command in WRITERS:
        ends = killed(command, -(-options.kills // len(WRITERS)), chance)
        broken += ends["broken"]
        counts = ", ".join(f"{n} {end}" for end, n in sorted(ends.items()) if n)
        print(f"{command}: {counts}", flush=True)
    print(f"{broken} broken")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
