"""One document through the command line, in this process, under watch."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fuzz import judge

SECONDS = 2.0  # of processor time for one document
SLACK = 1  # times that: what does not end is a fault on a slow machine too, what is slow is not
MEGABYTES = 500  # resident at the peak, beyond what the process held before
PLACE = re.compile(r"[^:]+(:\d+){0,2}: .|--set [^ ].*: .", re.DOTALL)
# A file that is none, or is too large to be looked into, is the place.
EXACT_PLACE = re.compile(r"[^:]+:(\d+:\d+:| the file is too large) .|--set [^ ].*: .", re.DOTALL)

STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Hang(BaseException):
    """The document took too long. No Exception, so that no handler of ours takes it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a document: the exit status, and what is wrong with how it went."""

    status: int | None
    problem: str | None  # a line by which like problems are counted together
    detail: str = ""
    seconds: float = 0.0
    megabytes: int = 0
    shown: str = ""  # on standard output, where that is a result as JSON
    said: str = ""  # on standard error


def _alarm(signum: int, frame: Any) -> None:
    raise Hang


def run(arguments: list[str], limit: float = SECONDS, *, by_option: bool = False) -> Outcome:
    """Run the command line on a document; nothing of it is printed. A fault has the place in the
    document, or ``by_option`` names what was wrong on the command line."""
    from planner.cli.main import run_command as main

    out, err = io.StringIO(), io.StringIO()
    before = signal.signal(signal.SIGPROF, _alarm)
    _reset_peak()
    held = _peak()  # of what ran before in this process
    started = time.process_time()
    status, problem, detail = None, None, ""
    signal.setitimer(signal.ITIMER_PROF, limit * SLACK)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(arguments)
    except Hang as error:
        problem, detail = f"over {limit:g} s in {_where(error)}", traceback.format_exc()
    except BaseException as error:
        problem = f"{type(error).__name__} in {_where(error)}"
        detail = traceback.format_exc()[-3000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    seconds, megabytes = time.process_time() - started, _peak() - held
    if problem is None:
        problem, detail = _judged(arguments, status, out.getvalue(), err.getvalue(), by_option)
    if problem is None and megabytes > MEGABYTES:
        problem = f"over {MEGABYTES} MB"
    result = out.getvalue() if _is_result(arguments, status) and problem is None else ""
    if result:
        problem = judge.result(json.loads(result))
        detail = result[:300] if problem else ""
    return Outcome(status, problem, detail, seconds, megabytes, result, err.getvalue())


def _is_result(arguments: list[str], status: int | None) -> bool:
    json_alone = arguments[:1] == ["report"] and arguments[-2:] == ["--format", "json"]
    return status == 0 and json_alone and "--print" not in arguments


def _judged(
    arguments: list[str], status: int | None, out: str, err: str, by_option: bool
) -> tuple[str | None, str]:
    """Whether the program kept its word: faults on standard error with places, numbers else."""
    if status not in (0, 1, 2):
        return f"exit status {status}", err[:300]
    if steers := STEERS.search(out + err):
        return "a character that steers the terminal", repr(steers[0])
    if status != 2:
        # What the framework cannot be told, and what was found in a configuration.
        unsaid = arguments[0] in ("export", "import")
        if err and not unsaid:
            return "words on standard error without a fault", err[:300]
        if "json" in arguments and out and "--print" not in arguments:
            try:
                json.loads(out, parse_constant=_refuse)
            except ValueError as error:
                return "its JSON cannot be read", str(error)
        return None, ""
    if out and arguments[0] == "report":
        return "output in spite of a fault", out[:300]
    pattern = PLACE if arguments[0] in ("import", "compare", "calibrate", "diff") else EXACT_PLACE
    lines = err.splitlines()
    if not lines:
        return "refused without a word", ""
    for line in lines:
        if not (pattern.match(line) or (by_option and len(line) > 10)):
            return "a fault without a place", line[:300]
        if len(line) > 2000 + max(map(len, arguments)):  # a file is called as it was called
            return "a fault of more than 2000 characters", line[:300]
    return None, ""


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _where(error: BaseException) -> str:
    """The innermost function of the planner that the error passed through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "/planner/" in frame.filename] or list(frames)
    last = ours[-1]
    return f"{'/'.join(Path(last.filename).parts[-2:])}:{last.name}"


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """Peak resident megabytes since the reset; 0 where the system does not tell."""
    with contextlib.suppress(OSError, StopIteration, ValueError):
        lines = Path("/proc/self/status").read_text().splitlines()
        line = next(line for line in lines if line.startswith("VmHWM"))
        return int(line.split()[1]) // 1024
    return 0
