"""The pictures of docs/gallery.md: `python -m benchmarks.pictures [NAME…]` takes them anew.

A picture below a command is the first screen of the page that the command writes; a name that ends
in `_dark` or `_phone` says how it is looked at. It needs Chromium on the PATH (or its path in
CHROMIUM).
"""

from __future__ import annotations

import base64
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.browser import Browser, executable

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "gallery.md"
SCREEN, PHONE = (1300, 900), (390, 844)


def pictures() -> Iterator[tuple[Path, list[str]]]:
    """Each picture of the gallery with the words of the command above it."""
    words: list[str] = []
    for line in GALLERY.read_text("utf-8").splitlines():
        if line.startswith("python plan.py"):
            words = shlex.split(line)
        elif found := re.match(r"!\[.*\]\((.*)\)", line):
            yield GALLERY.parent / found[1], words


def main(names: Sequence[str]) -> int:
    program = executable()
    if program is None:
        print("no Chromium: the pictures stay as they are", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        browser = Browser(program, folder / "profile")
        for picture, words in pictures():
            if names and picture.stem not in names:
                continue
            (page,) = (folder / word for word in words if word.endswith(".html"))
            if not page.exists():
                there = [str(page) if word == page.name else word for word in words[1:]]
                subprocess.run([sys.executable, *there], cwd=ROOT, check=True, capture_output=True)
            _take(browser, page, picture)
            print(picture.relative_to(ROOT))
        browser.close()
    return 0


def _take(browser: Browser, page: Path, picture: Path) -> None:
    browser.open(page)
    width, height = PHONE if picture.stem.endswith("_phone") else SCREEN
    scheme = "dark" if picture.stem.endswith("_dark") else "light"
    browser.send(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": scheme}],
    )
    browser.resize(width, height, mobile=width < 600)
    browser.run("document.documentElement.style.scrollbarWidth = 'none'")
    picture.parent.mkdir(exist_ok=True)
    picture.write_bytes(base64.b64decode(browser.send("Page.captureScreenshot")["data"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
