"""Finds the files that ship with the program: presets, schemas, templates."""

from __future__ import annotations

from pathlib import Path

__all__ = ["folder"]

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `presets`, `schemas` or `templates`.

    A checkout keeps it beside the package, a wheel inside it (`_data`). The checkout is
    asked first, because an editable install may leave a stale copy elsewhere.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    beside = _PACKAGE.parent / name
    # A foreign folder of that name beside site-packages/planner must not win.
    is_checkout = (_PACKAGE.parent / "pyproject.toml").is_file() or not (
        _PACKAGE / "_data"
    ).is_dir()
    for candidate in (
        (beside, _PACKAGE / "_data" / name) if is_checkout else (_PACKAGE / "_data" / name,)
    ):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"the folder {name} is missing from this installation")
