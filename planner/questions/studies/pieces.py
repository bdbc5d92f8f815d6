"""An unfinished table: a folder of its pieces, so that a study that was stopped can continue.

For each finished piece the folder TABLE.pieces has a file of its rows, in the format of the table,
and a file of facts: a checksum of both, and the summary for the comparison. Each is written
atomically. A piece is finished if its checksum agrees; any other is evaluated again.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any

from planner.base import files
from planner.base.errors import Place, PlanError

#: The file that identifies the study of the pieces; a running sweep holds a lock on it.
STUDY = "study.json"
#: The most bytes of a file of facts.
LONGEST = 1 << 26


class PieceFolder:
    """The pieces of one table, for one process at a time."""

    def __init__(self, table: Path, about: Mapping[str, Any], restart: bool = False) -> None:
        """Start a table, or continue it.

        Args:
            table: the file of the table; its pieces lie beside it.
            about: what a run must have in common with an earlier one to continue it, including
                ``format``, the ending of its files, and ``pieces``, their number.
            restart: discard the pieces of an earlier run.

        Raises:
            PlanError: the folder belongs to another study, or another sweep is writing there.
        """
        self.table = files.resolve_target(table)
        self.folder = self.table.with_name(self.table.name + ".pieces")
        self.ending, self.count = about["format"], about["pieces"]
        with files.convert_errors(self.table), contextlib.ExitStack() as stack:
            self._lock = stack.enter_context(self._lock_folder())
            self._start_study(about, restart)
            stack.pop_all()

    def _lock_folder(self) -> IO[bytes]:
        """Lock the file that identifies the study, for this process."""
        while True:
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir()
            # A study that finishes removes the folder: then the lock is on a removed file.
            with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
                self._check_folder()
                lock = stack.enter_context(files.open_beside(self.folder / STUDY))
                try:
                    import fcntl

                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except ImportError:  # not everywhere
                    pass
                except BlockingIOError:
                    what = "another sweep is writing this"
                    raise _refuse_folder(what, self.table, "another file") from None
                if os.path.samestat(os.fstat(lock.fileno()), os.stat(self.folder / STUDY)):
                    stack.pop_all()
                    return lock

    def _check_folder(self) -> None:
        """Check that the folder is the user's own and has regular files of a study only.

        Raises:
            PlanError: it is a link, of another user, or has other entries.
        """
        own = not hasattr(os, "getuid") or self.folder.lstat().st_uid == os.getuid()
        if not self.folder.is_dir() or self.folder.is_symlink() or not own:
            raise _refuse_folder("this is a link or not your folder", self.folder, "remove it")
        entries = list(os.scandir(self.folder))
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                raise _refuse_folder(
                    "this is a link or not a regular file", entry.path, "remove it"
                )
        if entries and not any(entry.name == STUDY for entry in entries):
            raise _refuse_folder("this folder has no pieces of a table", self.folder, "move it")

    def _start_study(self, about: Mapping[str, Any], restart: bool) -> None:
        """Find the finished pieces of this study, or begin without any.

        Raises:
            PlanError: the pieces belong to another study.
        """
        self._lock.seek(0)
        found = None
        with contextlib.suppress(PlanError):  # damaged
            found = files.parse_json(self._lock.read(LONGEST))
        if not restart and found is not None and found != about:
            what = "an unfinished table of another study, or of another version of it"
            raise _refuse_folder(what, self.folder, "--restart to begin afresh, or another file")
        if restart or found is None:
            self._clear_folder()
            self._lock.truncate(0)
            self._lock.write(json.dumps(about).encode())
            self._lock.flush()
        self.done = set()
        for number in range(self.count):
            with contextlib.suppress(PlanError, ValueError):
                self.read_piece(number)
                self.done.add(number)

    def _locate_piece(self, number: int) -> tuple[Path, Path]:
        """Return the files of the rows and of the facts of a piece."""
        rows, facts = (f"{number:06}.{ending}" for ending in (self.ending, "json"))
        return self.folder / rows, self.folder / facts

    def read_piece(self, number: int) -> tuple[bytes, str]:
        """Read the rows of a finished piece, and its summary as JSON.

        Raises:
            PlanError, ValueError: it is missing or damaged.
        """
        of_rows, of_facts = self._locate_piece(number)
        said, _, facts = files.read_bytes(of_facts, LONGEST).partition(b"\n")
        checksum, size = said.split()
        rows = files.read_bytes(of_rows, int(size))
        if int(checksum, 16) != zlib.crc32(rows, zlib.crc32(facts)):
            raise ValueError("a damaged piece")
        return rows, facts.decode()

    def add_piece(self, number: int, rows: bytes, summary: str) -> None:
        """Store a finished piece.

        Args:
            number: of the piece, from 0.
            rows: its rows, in the format of the table.
            summary: its facts, as JSON.

        Raises:
            PlanError: it cannot be written.
        """
        facts = summary.encode()
        sealed = b"%08x %d\n%s" % (zlib.crc32(rows, zlib.crc32(facts)), len(rows), facts)
        for path, data in zip(self._locate_piece(number), (rows, sealed), strict=True):
            with files.replace_file(path) as file:
                file.write(data)

    def finish_table(self, join: Callable[[Iterable[bytes], IO[bytes]], object]) -> None:
        """Join the pieces into the table and remove them.

        Args:
            join: writes one table of the rows of each piece.

        Raises:
            PlanError: the table cannot be written.
        """
        whole = self.folder / f"whole.{self.ending}"  # there, a killed one is found and removed
        with files.replace_file(whole) as file:
            join((self.read_piece(number)[0] for number in range(self.count)), file)
        with files.convert_errors(self.table):
            os.chmod(whole, files.find_mode(self.table))
            os.replace(whole, self.table)
            self._clear_folder()
            if os.name == "nt":
                self._lock.close()  # an open file cannot be removed there
            os.unlink(self.folder / STUDY)  # until here all names are this study's
            with contextlib.suppress(OSError):  # another one has begun
                self.folder.rmdir()
        self.close()

    def _clear_folder(self) -> None:
        """Remove all pieces."""
        for entry in os.scandir(self.folder):
            if entry.name != STUDY:
                os.unlink(entry.path)

    def close(self) -> None:
        """Close the lock file; the pieces remain for the next run."""
        with contextlib.suppress(OSError):  # a full disk was reported already
            self._lock.close()


def _refuse_folder(what: str, path: Path | str, allowed: str) -> PlanError:
    """Return the fault of a path that is not used, with what would be allowed."""
    return PlanError(what, Place(str(path)), allowed)
