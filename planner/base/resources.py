"""Finds and reads the files that ship with the program: presets, schemas, templates."""

from __future__ import annotations

import functools
import json
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).resolve().parent.parent


@functools.cache
def folder(name: str) -> Path:
    """Find the folder `presets`, `schemas`, `templates` or `docs`; cached.

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


def make_code_folder(name: str) -> Path | None:
    """Create a private folder for what the program compiles: where Python keeps byte code, or among
    the user's caches if Python writes none there. Return None if anyone but this user or root could
    write to it, since its files are executed."""
    folder = _PACKAGE / "__pycache__" / name  # of which Python executes what it finds as well
    around: Iterable[Path] = ()
    if sys.dont_write_bytecode or sys.pycache_prefix or not os.access(folder.parent, os.W_OK):
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = Path(caches, "trainplan", name)
        around = folder.parents
    with suppress(OSError):
        if folder.is_absolute():
            folder.parent.mkdir(0o700, parents=True, exist_ok=True)
            folder.mkdir(0o700, exist_ok=True)
            return folder if _is_own(folder, around) else None
    return None


def _is_own(folder: Path, around: Iterable[Path]) -> bool:
    """Return whether a folder is private to this user, is reached by no link, and cannot be
    replaced by anyone else but root."""
    user, found = getattr(os, "geteuid", int)(), os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077:
        return False
    return all(
        stat.S_ISDIR(outer.st_mode)
        and outer.st_uid in (0, user)
        and (not outer.st_mode & 0o022 or bool(outer.st_mode & stat.S_ISVTX))
        for outer in map(os.lstat, around)
    )


# Files of the program itself are trusted; what users name goes through planner.base.files.


def load_own_bytes(path: Path) -> bytes:
    """Read the bytes of a built-in file."""
    return path.read_bytes()


def load_own_text(path: Path) -> str:
    """Read the text of a built-in file."""
    return path.read_text("utf-8")


def read_json(path: Path, **how: Any) -> Any:
    """Read a built-in JSON file; ``how`` goes to the parser."""
    return json.loads(load_own_text(path), **how)


def read_yaml(path: Path) -> Any:
    """Read a built-in YAML file; numbers are what YAML makes of them (floats, not exact)."""
    import yaml

    return yaml.load(load_own_text(path), getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def load_beside(module: str, name: str = "") -> Any:
    """Read the YAML or JSON file of a name beside a module; by default YAML of the module's own."""
    path = Path(module).parent / (name or f"{Path(module).stem}.yaml")
    return (read_json if path.suffix == ".json" else read_yaml)(path)


@functools.cache
def load_preset(name: str) -> Any:
    """Read a YAML file below presets/, named without its ending, as ``read_yaml`` does. The result
    is cached and must not be changed."""
    return read_yaml(folder("presets") / f"{name}.yaml")
