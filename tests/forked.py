"""The command line in processes of their own, forked from one that has its modules loaded: what a
run reads, keeps and changes is gone with it, and starting the program is paid for once."""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 120
#: What most commands load, and schemas, which all of them read.
_LOADED = (
    "planner.cli.commands",
    "planner.report.report",
    "planner.report.terminal",
    "planner.report.view",
    "planner.questions.search",
    "planner.questions.solve.answers",
    "planner.review.check",
)


class Forks:
    """Runs of ``plan.py``, one after another."""

    def __init__(self) -> None:
        self._parent = subprocess.Popen(
            [sys.executable, str(Path(__file__))],
            cwd=ROOT,
            env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # a fork takes no threads along
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
        )

    def close(self) -> None:
        assert self._parent.stdin and self._parent.stdout
        self._parent.stdin.close()
        self._parent.wait(SECONDS)
        self._parent.stdout.close()

    def run(
        self, arguments: Sequence[str], cwd: Path, stdin: str | None, env: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        assert self._parent.stdin and self._parent.stdout
        with tempfile.TemporaryDirectory() as name:
            streams = [Path(name, each) for each in ("in", "out", "err")]
            streams[0].write_text(stdin or "", encoding="utf-8")
            asked = (arguments, str(cwd), dict(env), list(map(str, streams)))
            self._parent.stdin.write(json.dumps(asked) + "\n")
            self._parent.stdin.flush()
            code = int(self._parent.stdout.readline())
            out, err = (stream.read_text(encoding="utf-8") for stream in streams[1:])
        return subprocess.CompletedProcess(arguments, code, out, err)


def _main() -> None:
    """Fork a process for each line of standard input; answer with its exit status."""
    sys.path[0] = str(ROOT)
    from importlib import import_module

    for name in _LOADED:
        import_module(name)
    from planner.documents import json_schema

    for kind in ("plan", "cluster", "accelerator"):
        json_schema.read_schema(kind)
    atexit._clear()
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _run(*json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(arguments: list[str], cwd: str, env: dict[str, str], streams: list[str]) -> None:
    """The command in this process, which ends with it."""
    signal.alarm(SECONDS)
    code: Any = 1
    try:
        for number, (path, mode) in enumerate(zip(streams, ("r", "w", "w"), strict=True)):
            flags = os.O_RDONLY if mode == "r" else os.O_WRONLY | os.O_CREAT
            os.dup2(os.open(path, flags, 0o600), number)
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            for number, mode in enumerate(("r", "w", "w"))
        )
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = [str(ROOT / "plan.py"), *arguments]
        from planner.__main__ import run

        code = run()
    except SystemExit as end:
        code = end.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)


if __name__ == "__main__":
    _main()
