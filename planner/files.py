"""Writing files so that a reader sees the old one or the new one, never a mixture."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from planner.errors import Fault, Place, PlanError


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with LF line ends: to a temporary file beside the target, then renamed.
    A device or a pipe is written to as it is: renaming would put a file in its place.

    Raises:
        PlanError: the folder is missing or not writable, the disk is full, the target a folder.
    """
    target = Path(path)
    temporary: str | None = None
    # A name of a file that is no UTF-8 may stand in the text.
    data = text.encode("utf-8", "backslashreplace")
    try:
        if target.exists() and not (target.is_file() or target.is_dir()):
            target.write_bytes(data)
            return
        if target.is_symlink():
            target = Path(os.path.realpath(target))
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode(target))
        os.replace(temporary, target)
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise PlanError(Fault(f"cannot be written: {reason}", Place(str(path)))) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def spare(path: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse to write over what was read.

    Raises:
        PlanError: `path` is one of the inputs, by whatever name.
    """
    for given in inputs:
        same = os.path.realpath(path) == os.path.realpath(given)
        with contextlib.suppress(OSError):
            same = same or os.path.samefile(path, given)
        if same:
            raise PlanError(Fault("this is an input", Place(str(path)), "another file"))


def mode(target: Path) -> int:
    """The mode of the file that is replaced; that of a new file otherwise."""
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
