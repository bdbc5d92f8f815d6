"""Writing files so that a reader sees the old one or the new one, never a mixture."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from planner.errors import Fault, Place, PlanError


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with LF line ends: to a temporary file beside the target, then renamed.

    Raises:
        PlanError: the folder is missing or not writable, the disk is full, the target a folder.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()
    temporary: str | None = None
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, _mode(target))
        os.replace(temporary, target)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PlanError(Fault(f"cannot be written: {reason}", Place(str(path)))) from None
    finally:
        if temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def _mode(target: Path) -> int:
    """The mode of the file that is replaced; that of a new file otherwise."""
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
