"""A table on its way: a folder of its pieces beside it, so that a study that was stopped goes on.

Of each piece that is done the folder TABLE.pieces has a file of its rows, in the format of the
table, and then a file of facts: a checksum of both, and what the comparison needs. Each is written
whole. A piece counts as done whose checksum agrees; any other is worked on again.
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
from planner.base.errors import Fault, Place, PlanError

#: The file that says whose pieces these are; the study that is at them holds a lock on it.
STUDY = "study.json"
#: Bytes of a file of facts at most.
LONGEST = 1 << 26


class PieceFolder:
    """The pieces of one table, for one process at a time."""

    def __init__(self, table: Path, about: Mapping[str, Any], restart: bool = False) -> None:
        """Begin a table, or go on with it.

        Args:
            about: what two runs must have in common to go on with each other: ``format``, the
                ending of its files, and ``pieces``, how many there are, are among it.
            restart: throw away what an earlier run left.

        Raises:
            PlanError: another study left something else there, or is being written there now.
        """
        self.table = files.resolved(table)
        self.folder = self.table.with_name(self.table.name + ".pieces")
        self.ending, self.count = about["format"], about["pieces"]
        with files.writing(self.table), contextlib.ExitStack() as stack:
            self._lock = stack.enter_context(self._hold())
            self._begin(about, restart)
            stack.pop_all()

    def _hold(self) -> IO[bytes]:
        """The file that says whose pieces these are, held for this process."""
        while True:
            with contextlib.suppress(FileExistsError):
                self.folder.mkdir()
            # A study that finishes removes the folder: then a lock is on nothing.
            with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
                self._checked()
                lock = stack.enter_context(files.beside(self.folder / STUDY))
                try:
                    import fcntl

                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except ImportError:  # not everywhere
                    pass
                except BlockingIOError:
                    what = "another sweep is writing this"
                    raise _refused(what, self.table, "another file") from None
                if os.path.samestat(os.fstat(lock.fileno()), os.stat(self.folder / STUDY)):
                    stack.pop_all()
                    return lock

    def _checked(self) -> None:
        """That the folder is ours, and has nothing in it through which something else is reached.

        Raises:
            PlanError: it is not, or has.
        """
        own = not hasattr(os, "getuid") or self.folder.lstat().st_uid == os.getuid()
        if not self.folder.is_dir() or self.folder.is_symlink() or not own:
            raise _refused("this is a link or no folder of yours", self.folder, "remove it")
        entries = list(os.scandir(self.folder))
        for entry in entries:
            if not entry.is_file(follow_symlinks=False):
                raise _refused("this is a link or no regular file", entry.path, "remove it")
        if entries and not any(entry.name == STUDY for entry in entries):
            raise _refused("this folder holds no pieces of a table", self.folder, "move it")

    def _begin(self, about: Mapping[str, Any], restart: bool) -> None:
        self._lock.seek(0)
        found = None
        with contextlib.suppress(PlanError):  # damaged
            found = files.parse_json(self._lock.read(LONGEST))
        if not restart and found is not None and found != about:
            what = "an unfinished table of another study, or of another version of it"
            raise _refused(what, self.folder, "--restart to begin afresh, or another file")
        if restart or found is None:
            self._empty()
            self._lock.truncate(0)
            self._lock.write(json.dumps(about).encode())
            self._lock.flush()
        self.done = set()
        for number in range(self.count):
            with contextlib.suppress(PlanError, ValueError):
                self.read(number)
                self.done.add(number)

    def _paths(self, number: int) -> tuple[Path, Path]:
        """The files of the rows of a piece and of its facts."""
        rows, facts = (f"{number:06}.{ending}" for ending in (self.ending, "json"))
        return self.folder / rows, self.folder / facts

    def read(self, number: int) -> tuple[bytes, str]:
        """The rows of a piece that is done, and as JSON what the comparison needs of it.

        Raises:
            PlanError, ValueError: it is not there, or not what was written.
        """
        of_rows, of_facts = self._paths(number)
        said, _, facts = files.read_bytes(of_facts, LONGEST).partition(b"\n")
        checksum, size = said.split()
        rows = files.read_bytes(of_rows, int(size))
        if int(checksum, 16) != zlib.crc32(rows, zlib.crc32(facts)):
            raise ValueError("a damaged piece")
        return rows, facts.decode()

    def add(self, number: int, rows: bytes, summary: str) -> None:
        """A piece, done.

        Raises:
            PlanError: it cannot be written.
        """
        facts = summary.encode()
        sealed = b"%08x %d\n%s" % (zlib.crc32(rows, zlib.crc32(facts)), len(rows), facts)
        for path, data in zip(self._paths(number), (rows, sealed), strict=True):
            with files.replacing(path) as file:
                file.write(data)

    def finish(self, join: Callable[[Iterable[bytes], IO[bytes]], object]) -> None:
        """The table takes its name; the pieces go.

        Args:
            join: writes one table of the rows of each piece.

        Raises:
            PlanError: it cannot.
        """
        whole = self.folder / f"whole.{self.ending}"  # there, a killed one is found and removed
        with files.replacing(whole) as file:
            join((self.read(number)[0] for number in range(self.count)), file)
        with files.writing(self.table):
            os.chmod(whole, files.mode(self.table))
            os.replace(whole, self.table)
            self._empty()
            if os.name == "nt":
                self._lock.close()  # an open file cannot be removed there
            os.unlink(self.folder / STUDY)  # until here all names are this study's
            with contextlib.suppress(OSError):  # another one has begun
                self.folder.rmdir()
        self.close()

    def _empty(self) -> None:
        for entry in os.scandir(self.folder):
            if entry.name != STUDY:
                os.unlink(entry.path)

    def close(self) -> None:
        """Leave what is there for the next run."""
        with contextlib.suppress(OSError):  # a full disk was told already
            self._lock.close()


def _refused(what: str, path: Path | str, allowed: str) -> PlanError:
    return PlanError(Fault(what, Place(str(path)), allowed))
