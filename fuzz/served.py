"""The server under documents and settings that nobody means well, compared with the command line.

    python -m fuzz.served [--settings 1000] [--documents 200] [--seed 1]

Each setting changes some keys of a plan that ships; what `POST /v1/evaluate` answers is what the
command line prints, every quantity of it, and faults are the same. Each document is a mutated one,
or one of a kind that is known to hurt. Exit status 1 where an answer differs, tells of a traceback
or of a file, is late, or where the server does not answer any more.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import yaml

from fuzz import documents
from planner.base.errors import PlanError
from planner.cli import main as command_line
from tests.strategies import settings

ROOT = Path(__file__).resolve().parent.parent
PRESETS = ROOT / "presets"
LATE = 30.0  # seconds; the server ends a quick question after ten


class Server:
    """`plan.py serve` as a user starts it, at a port that is free, with its processes in a group of
    their own."""

    def __init__(self, *options: str, files: int | None = None) -> None:
        words = [sys.executable, "plan.py", "serve", "--port", "0", *options]
        if files is not None:
            words = ["sh", "-c", f'ulimit -n {files}; exec "$@"', "sh", *words]
        self.process = subprocess.Popen(
            words,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline()  # where it listens
        assert self.first.startswith("http"), self.first + self.stopped()
        self.port = int(self.first.split("/")[2].rpartition(":")[2])

    def ask(
        self, method: str, path: str, body: Any = None, headers: Any = None, seconds: float = 60
    ) -> tuple[int, Any, dict[str, str]]:
        """The status of an answer, its body (JSON as data, else bytes) and its headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        with contextlib.closing(connection):
            connection.request(method, path, raw, headers or {})
            answer = connection.getresponse()
            said, data = {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(data) if is_json else data, said

    def group(self) -> list[int]:
        """The processes that belong to the server, itself too."""
        words = ["ps", "-o", "pid=", "-g", str(self.process.pid)]
        found = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
        return [int(word) for word in found.stdout.split()]

    def left(self) -> list[int]:
        """The processes that are there a moment after its end."""
        until = time.monotonic() + 5
        while self.group() and time.monotonic() < until:
            time.sleep(0.05)
        return self.group()

    def stopped(self, how: signal.Signals = signal.SIGTERM) -> str:
        """End it as a terminal or a container does; returns what it printed after its first
        line."""
        if self.process.poll() is None:
            if how is signal.SIGINT:  # a terminal sends it to all
                os.killpg(self.process.pid, how)
            else:
                self.process.send_signal(how)
        try:
            return self.process.communicate(timeout=20)[0]
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise


@contextlib.contextmanager
def serving(*options: str, files: int | None = None) -> Iterator[Server]:
    """A server until the end, when nothing of it may be left."""
    one = Server(*options, files=files)
    try:
        yield one
    finally:
        said = one.stopped()
    assert "Traceback" not in said, said
    assert not one.left()


# What is set --------------------------------------------------------------------------------


def setting(random: Random) -> tuple[str, dict[str, Any]]:
    """The name of a plan that ships, and other values of some of its keys, most of which agree with
    each other."""
    name = random.choice(sorted(path.stem for path in PRESETS.glob("*.yaml")))
    known = settings()
    keys = random.sample(sorted(known), random.choice((1, 1, 1, 2, 3)))
    return name, {key: random.choice(known[key]) for key in keys}


def printed(name: str, values: dict[str, Any]) -> tuple[int, Any]:
    """What the command line prints, with the status that a server gives it."""
    words = (f"--set={k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in values.items())
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            command_line.run_words(["report", name, *words, "--format=json"])
    except PlanError as error:
        return 422, [str(fault) for fault in error.faults]
    return 200, json.loads(out.getvalue())


def differs(server: Server, name: str, values: dict[str, Any]) -> str | None:
    """Where the server says something else than the command line."""
    status, answer, _ = server.ask("POST", "/v1/evaluate", {"plan": name, "set": values})
    if status == 422:
        answer = [": ".join(filter(None, (f["place"], f["message"]))) for f in answer["faults"]]
    if (status, answer) == printed(name, values):
        return None
    return f"{name} {values}: {status} {str(answer)[:300]}"


# What hurts ---------------------------------------------------------------------------------

SECRET = "root:x:0"
_TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
#: Documents that name files, expand, nest, or hold numbers that no machine has.
HOSTILE = (
    *(f"extends: {path}\n" for path in _TABLES["extends"]),
    *(f"extends: llama70b_h100x1024\n{line}\n" for line in (
        *_TABLES["lines"], f"training: {{tokens: {'9' * 5000}}}", f"name: {'x' * 100_000}",
        f"training: {{micro_batch: {10**30}}}", f"model: {{layers: {10**9}}}",
        f"quantities: {{x: {'(' * 2000}}}",
    )),
    "a: &a [1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n" + "".join(
        f"{chr(i + 1)}: &{chr(i + 1)} [{', '.join([f'*{chr(i)}'] * 9)}]\n" for i in range(98, 110)
    ),
    "[" * 50_000, "{a: " * 20_000, "- " * 50_000, "a: &x {b: *x}\n", "? " * 10_000,
    "!!python/object/apply:os.system ['id']", "!!binary aGk=", "%YAML 9.9\n---\na: b\n", "\t",
    "a\0b", "\ud83d", "---\n---\n", "# nothing", "", "null", "5", "[]", "a: " + "b" * 900_000,
)  # fmt: skip


def hostile(random: Random) -> Any:
    """A document of a request: a known one, a mutated one, or a giant."""
    way = random.random()
    if way < 0.3:
        return random.choice(HOSTILE)
    made = documents.giants if way < 0.4 else documents.documents("plan")
    raw = documents.draw_one(made, random.random()) or b""
    return raw[:900_000].decode("utf-8", "replace")


def hurts(server: Server, path: str, body: Any) -> str | None:
    """What is wrong with an answer to a document of that kind."""
    start = time.monotonic()
    try:
        status, answer, headers = server.ask("POST", path, body, seconds=LATE)
    except OSError as error:
        return f"no answer: {error!r}"
    text = json.dumps(answer) if not isinstance(answer, bytes) else answer.decode()
    if time.monotonic() - start > LATE / 2:
        return "late"
    if status not in (200, 400, 413, 422, 504):
        return f"status {status}: {text[:300]}"
    if "Traceback" in text or SECRET in text or 'File \\"' in text:
        return f"tells too much: {text[:300]}"
    if "content-security-policy" not in headers:
        return "no policy"
    faults = answer.get("faults", []) if isinstance(answer, dict) else []
    if status != 200 and not faults:
        return "no fault"
    if any("\n" in fault["message"] or not fault["message"] for fault in faults):
        return f"a fault on several lines: {faults}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--settings", type=int, default=1000)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    random, found = Random(options.seed), Counter[str]()
    with serving() as server:
        for number in range(options.settings):
            wrong = differs(server, *setting(random))
            found["settings that differ" if wrong else "settings"] += 1
            if wrong:
                print(f"{number}: {wrong}")
        for number in range(options.documents):
            path = random.choice(("/v1/evaluate", "/v1/explain", "/page/answer", "/page/change"))
            document = hostile(random)
            wrong = hurts(server, path, {"plan": document, "quantity": "mfu"}
                          if path.startswith("/v1") else {"text": document})  # fmt: skip
            found["documents that hurt" if wrong else "documents"] += 1
            if wrong:
                print(f"{number}: {path} {wrong}\n{document[:500]!r}")
    print(", ".join(f"{count:,} {what}" for what, count in found.items()))
    return 1 if found["settings that differ"] or found["documents that hurt"] else 0


if __name__ == "__main__":
    sys.exit(main())
