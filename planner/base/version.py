"""The version of the program; the packaging and the reports read it here."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

_DIGITS = 8  # of the hash; enough to tell two states of one repository apart


def formulas() -> str:
    """The formula set: what the book, its symbols, sums and inventory say, as a short hash."""
    book = Path(__file__).resolve().parent.parent / "book"
    pages = (book / f"{name}.py" for name in ("inventory", "notation", "reductions"))
    files = [*book.glob("formulas/**/*.py"), *pages]
    return _hash(files, book)


def presets() -> str:
    """The preset set: every shipped document, as a short hash."""
    from planner.base import resources

    folder = resources.folder("presets")
    return _hash(folder.glob("**/*.yaml"), folder)


@cache
def full() -> str:
    """Program, formula set and preset set, on one line."""
    return f"trainplan {__version__} (formulas {formulas()}, presets {presets()})"


def _hash(files: Iterable[Path], root: Path) -> str:
    from hashlib import sha256

    from planner.base import resources

    total = sha256()
    for name, file in sorted((file.relative_to(root).as_posix(), file) for file in files):
        # A checkout may have changed the ends of lines.
        text = resources.read_bytes(file).replace(b"\r\n", b"\n")
        total.update(f"{name}\0{len(text)}\0".encode() + text)
    return total.hexdigest()[:_DIGITS]
