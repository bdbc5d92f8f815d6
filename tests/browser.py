"""A headless Chromium over its debugging pipe: JSON messages, each ended by a zero byte."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: The browser reads from descriptor 3 and writes to 4, whichever the pipes have here.
_START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
for end, wanted in zip(ends, (3, 4)):
    os.dup2(end, wanted)
os.execvp(sys.argv[3], sys.argv[3:])
"""


def executable() -> str | None:
    """Where a Chromium is; None where there is none."""
    given = os.environ.get("CHROMIUM")
    return given or next((found for found in map(shutil.which, NAMES) if found), None)


class Browser:
    """One browser with one page at a time."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs, self._out = os.pipe()
        self._in, back = os.pipe()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                _START,
                str(theirs),
                str(back),
                program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                f"--user-data-dir={profile}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            pass_fds=(theirs, back),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(back)
        self._number, self._buffer = 0, b""
        self._session: str | None = None
        self._target: str | None = None
        self.problems: list[str] = []  # what the page's console complained about

    def close(self) -> None:
        os.close(self._out)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file and wait until it stands."""
        self.visit(page.as_uri() + fragment)

    def visit(self, address: str) -> None:
        """Load what is at an address and wait until it stands."""
        self._session = None
        if self._target:
            self.send("Target.closeTarget", targetId=self._target)
        self._target = self.send("Target.createTarget", url="about:blank")["targetId"]
        said = self.send("Target.attachToTarget", targetId=self._target, flatten=True)
        self._session = said["sessionId"]
        self.problems.clear()
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        self.send("Page.navigate", url=address)
        wanted = f"{address.partition(':')[0]}:complete"
        self.wait(f"location.protocol + document.readyState === '{wanted}'")

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, script: str, seconds: float = 120) -> Any:
        """The value of an expression in the page as soon as it is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if value := self.run(script):
                return value
            time.sleep(0.02)
        raise AssertionError(f"{script}: {self.problems}")

    def resize(self, width: int, height: int = 800, mobile: bool = False) -> None:
        """Give the page a window of so many pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.send("Emulation.setDeviceMetricsOverride", **size)

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._number:
                assert "error" not in found, found["error"]
                result: dict[str, Any] = found["result"]
                return result
            if found.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(json.dumps(found["params"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], 60)
            read = os.read(self._in, 1 << 16) if ready else b""
            assert read, "the browser does not answer"
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found
