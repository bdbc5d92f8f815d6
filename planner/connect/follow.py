"""A plan beside the log of a job that still runs: what changes is told as it is logged.

Of each quantity the last records count, after the warm-up; memory counts by its peak. A quantity
that leaves the interval of its prediction, or comes back, is one event; so is a job that falls
silent. What could explain it is worked out once for each event (planner/connect/causes.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner.base import files
from planner.base.display import format_value, plain
from planner.base.errors import Place, PlanError
from planner.connect import causes, logs
from planner.connect.compare import STEP, WARM_UP, Comparison, Row, compare_log, rows_of, unlike
from planner.plans.document import Plan
from planner.results.result import Result, evaluate

#: Records that count: few enough to see a change, enough that one slow step is none.
RECENT = 10
#: Records from which on a quantity is judged.
LEAST = 3
#: A job is silent for so many times what its records are apart, and this many seconds at least.
SILENT, PATIENCE = 10, 60
#: Seconds between two looks at the file.
EVERY = 1.0
#: What is told of a quantity by where it lies, upper case for a terminal.
WORDS = {
    "time": ("FASTER", "SLOWER"),
    "rate": ("SLOWER", "FASTER"),
    "memory": ("EMPTIER", "FULLER"),
}


@dataclass(frozen=True)
class Event:
    """Something that changed. `kind` is waiting, reading, note, again, silent, inside, below or
    above."""

    kind: str
    text: str
    step: float | None = None
    row: Row | None = None
    explained: tuple[str, ...] = ()
    at: float = field(default_factory=time.time)

    def line(self) -> str:
        """One line for a terminal."""
        step = "" if self.step is None else f"  step {self.step:,.0f}"
        why = f": {self.explained[0]}" if self.explained else ""
        return f"{time.strftime('%H:%M:%S', time.localtime(self.at))}{step}  {self.text}{why}"

    def to_json(self) -> dict[str, Any]:
        """Plain data: one line for a program."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.at))
        tree: dict[str, Any] = {
            "event": self.kind,
            "time": stamp,
            "step": self.step,
            "text": self.text,
        }
        if self.row is not None:
            low, high = self.row.interval or (None, None)
            tree |= {**self.row.to_json(), "low": low, "high": high}
            tree["explained"] = self.explained
        return plain(tree)  # type: ignore[no-any-return]


class Follower:
    """A log that grows beside a plan; ``look`` gives what changed since it was called before."""

    def __init__(self, plan: Plan, path: str | Path, warm_up: int | None = None) -> None:
        self.plan, self.path = plan, path
        self.warm_up = WARM_UP if warm_up is None else max(0, warm_up)
        self.result: Result = evaluate(plan)
        self.states: dict[str, str] = {}
        self.reading = logs.Reading(Place(str(path)))
        self._growing = files.Growing(path)
        self._told = set[str]()
        self._turns, self._records, self._is_silent = 0, 0, False
        self._heard, self._gap = time.monotonic(), 0.0

    def __enter__(self) -> Follower:
        self._growing.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._growing.__exit__(*error)

    @property
    def log(self) -> logs.Log | None:
        """What is known of the run so far."""
        return self.reading.log

    @property
    def has_ended(self) -> bool:
        """Whether nothing can follow: standard input was closed."""
        return self._growing.has_ended

    @property
    def is_inside(self) -> bool:
        """Whether nothing is outside of its interval, nor silent."""
        return not self._is_silent and not {"above", "below"} & {*self.states.values()}

    def look(self) -> Iterator[Event]:
        """What changed since the last look.

        Raises:
            PlanError: the log cannot be read, or what it says cannot be believed.
        """
        while chunk := self._growing.chunk(logs.CHUNK):
            self.reading.feed(chunk)
            yield from self._judge()
        if self._growing.turns > self._turns:
            self._turns = self._growing.turns
            self.reading.again()
            yield Event("again", "the log begins anew")
        if self.has_ended:
            self.reading.finish()
            yield from self._judge()
        log = self.log
        if log is None:
            kind = self.reading.kind
            if kind == "document":
                raise PlanError(self.reading.unknown())
            if "waiting" not in self._told:
                self._told.add("waiting")
                yield Event("waiting", f"waits for the first record in {self.path}")
        elif not self._is_silent and self._quiet > max(PATIENCE, SILENT * self._apart(log)):
            self._is_silent = True
            often = (
                f"records came every {format_value(Fraction(str(round(self._apart(log), 2))), 's')}"
            )
            text = f"SILENT  nothing for {self._quiet:,.0f} s; {often}"
            yield Event("silent", text, log.step)

    @property
    def _quiet(self) -> float:
        return time.monotonic() - self._heard

    def _apart(self, log: logs.Log) -> float:
        """Seconds between two records: as they came, or as their steps take."""
        steps = next((series for series in log.series(STEP)), None)
        if steps is None or len(steps.steps) < 2:
            return self._gap
        passed = steps.steps[-1] - steps.steps[-2]
        return max(self._gap, float(steps.exact(steps.doubles[-1])) * (passed if passed > 1 else 1))

    def _judge(self) -> Iterator[Event]:
        log = self.log
        records = sum(len(s.doubles) for q in log.columns for s in log.series(q)) if log else 0
        if log is None or records == self._records:
            return
        if self._records:
            self._gap = max(self._gap, self._quiet if not self._is_silent else 0)
        self._records, self._heard = records, time.monotonic()
        if self._is_silent:
            self._is_silent = False
            yield Event("reading", "goes on", log.step)
        if "reading" not in self._told:
            self._told.add("reading")
            yield Event("reading", f"reads {self.path} ({log.format})", log.step)
        for _, wrong in unlike(self.plan, log):
            if wrong not in self._told:
                self._told.add(wrong)
                yield Event("note", wrong, log.step)
        recent = log.recent(self.warm_up, RECENT)
        enough = {q: named for q, named in recent.columns.items()
                  if any(len(s.doubles) >= LEAST for s in named.values())}  # fmt: skip
        if not enough:
            return
        for row in rows_of(self.result, logs.Log(log.file, log.format, enough), 0)[0]:
            if row.judged:
                yield from self._state(row, log.step)

    def _state(self, row: Row, step: float | None) -> Iterator[Event]:
        """Whether a quantity went in or out of its interval."""
        state = "inside" if row.inside else "above" if row.gap > 0 else "below"
        if state == self.states.get(row.id):
            return
        self.states[row.id] = state
        kind = "memory" if row.id.startswith("memory.") else row.quantity.declared.scales_with
        word = "INSIDE" if state == "inside" else WORDS[kind][state == "above"]
        why: tuple[str, ...] = ()
        if state != "inside":
            why = tuple(causes.explained(self.result.predicted or self.result, row.id, row.gap))
        yield Event(state, f"{word}  {row.sentence}", step, row, why)


def follow(
    follower: Follower,
    until_step: int | None = None,
    timeout: float | None = None,
    every: float = EVERY,
) -> Iterator[Event]:
    """What changes, until a step is logged, so many seconds passed, or standard input ended."""
    begun = time.monotonic()
    while True:
        yield from follower.look()
        log = follower.log
        if until_step is not None and log is not None and (log.step or 0) >= until_step:
            return
        left = float("inf") if timeout is None else timeout - (time.monotonic() - begun)
        if left <= 0 or follower.has_ended:
            return
        time.sleep(min(every, left))


def summary(follower: Follower, warm_up: int | None = None) -> Comparison | None:
    """The plan beside all of the log, None where nothing is known of the run."""
    log = follower.log
    if log is None:
        return None
    return compare_log(follower.plan, log, follower.path, warm_up)
