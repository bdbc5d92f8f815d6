"""Many mutated documents through the command line.

    python -m fuzz.campaign --documents 100000 [--seed 1] [--workers 2] [--keep FOLDER]
    python -m fuzz.campaign --seed 1 --only 4711      # one document again, with its output

Document number i of a seed is always the same. Exit status 1 where any document gave a traceback,
took more than two seconds (of a search: twenty) or 500 MB, was refused without a place, ended
with another status, or gave a number that cannot be right (fuzz/judge.py).
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import resource
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Any, cast

from fuzz import documents, lines, ranges, watch
from fuzz.watch import Outcome

ROOT = documents.ROOT
PLAN = str(ROOT / "presets" / "gpt2small_hgx-h100.yaml")
KINDS = (
    ("plan",) * 6
    + ("model",) * 4
    + ("cluster", "accelerator", "set")
    + ("values",) * 6
    + ("config",) * 4
    + ("log", "arguments", "result", "study", "line")
)
ENDINGS = {"config": ".json", "result": ".json", "log": ".log", "arguments": ".sh"}
FORMATS = ("json",) * 6 + ("text",) * 2 + ("md", "html")
STUCK = 60.0  # seconds without a sign of life that make a worker suspicious,
IDLE, BUSY = 0.2, 40.0  # and what of them it worked: it waits for ever, or no signal ends it
ADDRESS_SPACE = 3 * 10**9  # bytes; beyond, allocation fails with a MemoryError
BATCH = 250  # documents of one worker process


def arguments(random: Random, kind: str, file: Path) -> list[str]:
    """The command line for a document of a kind."""
    if kind == "values":
        return ["report", str(file), "--format", "json"]
    if kind == "config":
        return ["import", str(file)]
    if kind == "arguments":
        return ["import", str(file), "--from", "megatron"]
    if kind == "log":
        if random.random() < 0.3:
            return ["calibrate", PLAN, "--log", str(file)]
        return ["compare", PLAN, "--log", str(file), "--format", random.choice(FORMATS[5:9])]
    if kind == "result":
        return ["diff", *random.sample([str(file), PLAN], 2)]
    if kind == "study":
        if random.random() < 0.3:
            return ["validate", str(file)]
        return _sweep(random, file)
    if kind == "plan" and random.random() < 0.06:
        if random.random() < 0.3:
            return ["diff", str(file), PLAN]
        return [
            "export",
            str(file),
            "--to",
            random.choice(("megatron", "torchtitan", "deepspeed", "nanotron", "maxtext")),
        ]
    if kind == "plan" and random.random() < 0.15:
        return ["validate", str(file)]
    if kind in ("model", "cluster", "accelerator") and random.random() < 0.3:
        return ["validate", str(file)]
    plan, extra = PLAN, []
    if kind == "plan":
        plan = str(file)
    elif kind == "set":
        for _ in range(random.choice((1, 1, 2, 3))):
            extra += ["--set", lines.override(random)]
    else:
        key = "cluster.accelerator" if kind == "accelerator" else kind
        extra = ["--set", f"{key}={file}"]
    if random.random() < 0.05:
        return ["explain", plan, "memory.total", *extra]
    return ["report", plan, *extra, "--format", random.choice(FORMATS)]


def _sweep(random: Random, file: Path) -> list[str]:
    """A study to its table and comparison: few points, in this process."""
    endings = random.sample(
        (random.choice((".csv", ".jsonl")), ".md", ".html"), random.choice((1, 1, 2))
    )
    outputs = [word for ending in endings for word in ("-o", str(file.with_name("out" + ending)))]
    limit = ["--set", f"limit={random.choice((1, 20, 60, 60))}"]
    return ["sweep", str(file), "--workers", "1", "--restart", *limit, *outputs]


def one(
    seed: int, number: int, folder: Path, kind: str | None = None
) -> tuple[list[str], bytes, Outcome]:
    """Make, write and run one document."""
    random = Random(f"{seed}:{number}")
    kind = kind or random.choice(KINDS)
    raw = b""
    if kind not in ("set", "line"):
        made = ranges.free_plans() if kind == "values" else documents.documents(kind)
        raw = documents.draw_one(made, f"{seed}:{number}") or b""
    file = folder / f"{kind}{ENDINGS.get(kind, '.yaml')}"
    file.write_bytes(raw)
    free = kind == "line"
    line = lines.line(random, folder) if free else arguments(random, kind, file)
    limit = lines.PATIENCE.get(line[0], watch.SECONDS)
    if kind in ("plan", "values") and (b"parallelism" not in raw or b"auto" in raw):
        limit = lines.PATIENCE["search"]  # a layout that is left open is searched for
    return line, raw, watch.run(line, limit, by_option=free)


def _work(pipe: Connection, seed: int, numbers: range, folder: str, kind: str | None) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    for number in numbers:
        line, raw, outcome = one(seed, number, Path(folder), kind)
        judged = replace(outcome, shown="judged" if outcome.shown else "", said="")
        pipe.send((number, line, raw if outcome.problem else b"", judged))
    pipe.close()


def _sign(process: int) -> tuple[float, float]:
    """Now, and the processor time that a process has taken; 0 where the system does not tell."""
    spent = 0.0
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        spent = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return time.monotonic(), spent


def _stuck(before: tuple[float, float], now: tuple[float, float]) -> bool:
    """Whether a worker hangs, on a machine that may have little time for it."""
    worked = now[1] - before[1]
    return now[0] - before[0] > STUCK and not IDLE < worked < BUSY


class Campaign:
    """Workers that take batches of documents, and the tally of what became of these."""

    def __init__(
        self, seed: int, first: int, documents: int, keep: Path | None, kind: str | None = None
    ) -> None:
        self.seed, self.keep, self.kind = seed, keep, kind
        last = first + documents
        self.batches = [range(i, min(i + BATCH, last)) for i in range(first, last, BATCH)][::-1]
        self.statuses: Counter[int | None] = Counter()
        self.problems: Counter[str] = Counter()
        self.examples: dict[str, tuple[int, str]] = {}
        self.slowest = self.largest = 0.0
        self.done = self.judged = 0

    def record(self, number: int, line: list[str], raw: bytes, outcome: Outcome) -> None:
        self.done += 1
        self.judged += bool(outcome.shown)
        if self.done % 10_000 == 0:
            print(f"{self.done} documents, {sum(self.problems.values())} problems", flush=True)
        self.statuses[outcome.status] += 1
        self.slowest = max(self.slowest, outcome.seconds)
        self.largest = max(self.largest, outcome.megabytes)
        if outcome.problem is None:
            return
        self.problems[outcome.problem] += 1
        if outcome.problem not in self.examples:
            self.examples[outcome.problem] = (number, outcome.detail)
            print(f"[{number}] {outcome.problem}\n{outcome.detail}", flush=True)
            if self.keep is not None:
                self.keep.mkdir(parents=True, exist_ok=True)
                (self.keep / f"{self.seed}-{number}").write_bytes(raw)

    def run(self, workers: int, until: float | None = None) -> None:
        context = multiprocessing.get_context("fork")
        active: dict[Any, tuple[Any, range, int, tuple[float, float], Any]] = {}
        started = time.monotonic()
        while self.batches or active:
            while self.batches and len(active) < workers:
                self._start(context, active, self.batches.pop())
            for pipe in cast(list[Connection], wait(list(active), timeout=1)):
                process, numbers, at, _, folder = active[pipe]
                try:
                    number, line, raw, outcome = pipe.recv()
                except EOFError:
                    process.join()
                    del active[pipe]
                    folder.cleanup()
                    if at < numbers.stop:
                        self._lost(numbers, at, f"the process died ({process.exitcode})")
                    continue
                active[pipe] = (process, numbers, number + 1, _sign(process.pid), folder)
                self.record(number, line, raw, outcome)
            for pipe, (process, numbers, at, seen, folder) in list(active.items()):
                if _stuck(seen, _sign(process.pid)):
                    process.kill()
                    process.join()
                    del active[pipe]
                    folder.cleanup()
                    self._lost(numbers, at, f"no sign of life for {STUCK:g} s")
            if until is not None and time.monotonic() - started > until:
                self.batches.clear()

    def _start(self, context: Any, active: dict[Any, Any], numbers: range) -> None:
        ours, theirs = context.Pipe(duplex=False)
        folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        arguments = (theirs, self.seed, numbers, folder.name, self.kind)
        process = context.Process(target=_work, args=arguments)
        process.start()
        theirs.close()
        active[ours] = (process, numbers, numbers.start, _sign(process.pid), folder)

    def _lost(self, numbers: range, at: int, problem: str) -> None:
        self.record(at, [], b"", Outcome(None, problem, f"document {at}"))
        if at + 1 < numbers.stop:
            self.batches.append(range(at + 1, numbers.stop))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=sorted({*KINDS}), help="of this kind only")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, help="begin no batch after this time")
    parser.add_argument("--keep", type=Path, help="folder for the first document of each problem")
    parser.add_argument("--only", type=int, help="one document, with its output")
    options = parser.parse_args()
    os.chdir(ROOT)
    if options.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            line, raw, outcome = one(options.seed, options.only, Path(folder), options.kind)
        sys.stdout.write(raw[:20_000].decode("utf-8", "backslashreplace"))
        print(f"\n{' '.join(line)}\n{outcome}")
        return int(outcome.problem is not None)
    started = time.monotonic()
    import planner.report
    import planner.results.result  # noqa: F401

    campaign = Campaign(options.seed, options.first, options.documents, options.keep, options.kind)
    campaign.run(options.workers, options.minutes and options.minutes * 60)
    print(
        f"{campaign.done} documents in {time.monotonic() - started:.0f} s, "
        f"slowest {campaign.slowest:.2f} s, largest process {campaign.largest:.0f} MB"
    )
    print(f"{campaign.judged} results whose values were judged")
    print(
        "exit status: "
        + ", ".join(f"{s}: {n}" for s, n in sorted(campaign.statuses.items(), key=str))
    )
    for problem, count in campaign.problems.most_common():
        print(f"{count:6d}  {problem}  (document {campaign.examples[problem][0]})")
    return int(bool(campaign.problems))


if __name__ == "__main__":
    sys.exit(main())
