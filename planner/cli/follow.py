"""`plan.py compare --follow`: a line for each change, and the summary when it ends."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from planner.base import units
from planner.base.display import quoted
from planner.base.errors import Fault, PlanError
from planner.connect import compare
from planner.connect.follow import Event, Follower, follow, summary
from planner.plans.document import Plan


def run(options: argparse.Namespace, plan: Plan) -> tuple[compare.Comparison | None, bool]:
    """Follow a log until it is told to end, by an option, Ctrl-C or SIGTERM. Gives the summary and
    whether all that is asked for holds: the run is inside its intervals, and came as far as asked.

    Raises:
        PlanError: an option is wrong, or the log cannot be read or believed.
    """
    timeout = _seconds(options.timeout)
    is_json = options.format == "json"

    def tell(event: Event) -> None:
        line = quoted(event.to_json()) if is_json else event.line()
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    with Follower(plan, options.log, options.warm_up) as follower:
        came = options.until_step is None
        with contextlib.suppress(KeyboardInterrupt), _terminable():
            for event in follow(follower, options.until_step, timeout):
                tell(event)
            log = follower.log
            came = came or (log is not None and (log.step or 0) >= options.until_step)
        found = summary(follower, options.warm_up)
        if found is None:
            tell(Event("end", f"ends; no record was read from {options.log}"))
        elif is_json:
            end = {"event": "end", **compare.verdict(found)}
            sys.stdout.write(json.dumps(end) + "\n")
        elif options.format is None:
            sys.stdout.write("\n")
    return found, found is not None and came and follower.is_inside


def _seconds(text: str | None) -> float | None:
    """A time such as `30m`; None for none.

    Raises:
        PlanError: it is none above 0.
    """
    if text is None:
        return None
    try:
        seconds = Fraction(units.parse(text, "s"))
    except units.UnitError as error:
        fault = Fault(f"--timeout: {error.message}", None, error.allowed, error.hint)
        raise PlanError(fault) from None
    if seconds <= 0:
        raise PlanError(Fault(f"--timeout {text}", None, "a time above 0, such as 30m"))
    return float(seconds)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends what stands inside as Ctrl-C does."""

    def end(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, end)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
