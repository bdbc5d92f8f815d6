"""Finds and reads the files that ship with the program: presets, schemas, templates."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent


def folder(name: str) -> Path:
    """The folder `presets`, `schemas` or `templates`.

    A checkout keeps it beside the package, a wheel inside it (`_data`). The checkout is
    asked first, because an editable install may leave a stale copy elsewhere.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    inside = _PACKAGE / "_data"
    # A foreign folder of that name beside site-packages/planner must not win.
    is_checkout = (_PACKAGE.parent / "pyproject.toml").is_file() or not inside.is_dir()
    for around in (_PACKAGE.parent, inside) if is_checkout else (inside,):
        if (around / name).is_dir():
            return around / name
    raise FileNotFoundError(f"the folder {name} is missing from this installation")


def cache() -> Path:
    """Where the program keeps data that it can make again: where byte code lies, or, where none
    may be written beside the sources, where a user's caches are."""
    beside = _PACKAGE / "__pycache__"
    if not sys.dont_write_bytecode and not sys.pycache_prefix and os.access(beside, os.W_OK):
        return beside
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "trainplan")


# Files of the program itself are trusted; what users name goes through planner.base.files.


def read_bytes(path: Path) -> bytes:
    """The bytes of a file that ships."""
    return path.read_bytes()


def read_text(path: Path) -> str:
    """The text of a file that ships."""
    return path.read_text("utf-8")


def read_json(path: Path, **how: Any) -> Any:
    """The data of a JSON file that ships; ``how`` goes to the parser."""
    return json.loads(read_text(path), **how)


def read_yaml(path: Path) -> Any:
    """The data of a YAML file that ships, with numbers as YAML itself reads them."""
    import yaml

    return yaml.load(read_text(path), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


@functools.cache
def preset(name: str) -> Any:
    """The data of a YAML file below presets/, named without its ending, as ``read_yaml`` reads it;
    nobody may change it."""
    return read_yaml(folder("presets") / f"{name}.yaml")
