"""A server as a user starts it: a process of its own, at a port that is free."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Server:
    """`plan.py serve` in a process group of its own."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        words = [sys.executable, "plan.py", "serve", "--port", str(self.port), *options]
        self.process = subprocess.Popen(
            words,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"the server did not begin: {self.stopped()}")

    def ask(
        self, method: str, path: str, body: Any = None, headers: Any = None, seconds: float = 60
    ) -> tuple[int, Any, dict[str, str]]:
        """The status of an answer, its body (JSON as data, else bytes) and its headers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        try:
            connection.request(method, path, raw, headers or {})
            answer = connection.getresponse()
            said, data = dict(answer.getheaders()), answer.read()
        finally:
            connection.close()
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(data) if is_json else data, said

    def left(self) -> list[int]:
        """The processes that are there a moment after its end."""
        until = time.monotonic() + 5
        while self.group() and time.monotonic() < until:
            time.sleep(0.05)
        return self.group()

    def group(self) -> list[int]:
        """The processes that belong to the server, itself too."""
        found = subprocess.run(
            ["ps", "-o", "pid=", "-g", str(self.process.pid)],
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        return [int(word) for word in found.stdout.split()]

    def stopped(self, how: signal.Signals = signal.SIGTERM) -> str:
        """End it as a terminal or a container does; returns what it printed."""
        if self.process.poll() is None:
            if how is signal.SIGINT:  # a terminal sends it to all
                os.killpg(self.process.pid, how)
            else:
                self.process.send_signal(how)
        try:
            out, errors = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        return out + errors


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    one = Server()
    yield one
    said = one.stopped()
    assert "Traceback" not in said, said
    assert not one.left()
