"""The version of the program; the packaging and the reports read it here."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from planner.base import resources

__version__ = "0.1.0"
#: The public address of the program, by which its schemas are named. Nothing is read there.
HOME = "https://trainplan.github.io/trainplan"

_DIGITS = 8  # of the hash; enough to tell two states of one repository apart


@cache
def format_versions() -> str:
    """Return the versions of program, formulas and presets on one line: those of the formulas (with
    symbols, language, inventory and sources) and of the built-in documents are short hashes."""
    book, shipped = Path(__file__).resolve().parent.parent / "book", resources.folder("presets")
    names = ("inventory.py", "inventory.yaml", "notation.py", "language.py", "sources.py")
    formulas = _hash_files([*book.glob("formulas/**/*.py"), *(book / name for name in names)], book)
    presets = _hash_files(shipped.glob("**/*.yaml"), shipped)
    return f"trainplan {__version__} (formulas {formulas}, presets {presets})"


def _hash_files(files: Iterable[Path], root: Path) -> str:
    """Hash names below a root and contents, with LF line ends; the hash is the same in every
    checkout."""
    from hashlib import sha256

    total = sha256()
    for name, file in sorted((file.relative_to(root).as_posix(), file) for file in files):
        # A checkout may have changed the ends of lines.
        text = resources.load_own_bytes(file).replace(b"\r\n", b"\n")
        total.update(f"{name}\0{len(text)}\0".encode() + text)
    return total.hexdigest()[:_DIGITS]
