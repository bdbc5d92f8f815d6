"""A table that is being written, and the journal of it, so that a killed sweep goes on.

Beside the table lie TABLE.partial with the rows so far and TABLE.journal with a line for each
piece: where its bytes end, their checksum and what the comparison needs, behind a checksum of the
line itself. On the way back in, a piece counts whose line is undamaged and whose bytes agree with
it; what follows is cut off.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.base import files
from planner.base.errors import Fault, Place, PlanError

#: Seconds between two forced writes to the disk, and what share of the time they take at most.
EVERY, SHARE = 0.5, 0.05
#: Bytes read at once.
BLOCK = 1 << 22
#: Bytes of a line of the journal at most.
LONGEST = 1 << 26


@dataclass(frozen=True)
class Entry:
    """What the journal knows of one piece."""

    end: int  # of its bytes in the table
    checksum: int
    summary: str  # as JSON; kept of pieces of an earlier run alone


class Journal:
    """One table on its way."""

    def __init__(self, target: Path, about: dict[str, Any], afresh: bool = False) -> None:
        """Open or go on with a table.

        Args:
            about: what two runs must have in common to go on with each other.
            afresh: throw away what an earlier run left.

        Raises:
            PlanError: another sweep left something else there, or writes there now.
        """
        self.target = target
        self.partial = target.with_name(target.name + ".partial")
        self.log = target.with_name(target.name + ".journal")
        self.entries: list[Entry] = []
        self._next = time.monotonic() + EVERY
        self._locked = False
        try:
            with _writing(target):
                self._lock()
                self._open(about, afresh)
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        """Opens the journal for this process alone, until it is closed."""
        try:
            import fcntl
        except ImportError:  # not everywhere
            self._log = files.beside(self.log)
            return
        while not self._locked:
            self._log = files.beside(self.log)
            try:
                fcntl.flock(self._log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise PlanError(
                    Fault("another sweep is writing this", Place(str(self.target)), "another file")
                ) from None
            # A sweep that finished since it was opened has removed it: the lock is on nothing.
            with contextlib.suppress(FileNotFoundError):
                self._locked = os.path.samestat(os.fstat(self._log.fileno()), os.stat(self.log))
            if not self._locked:
                self._log.close()

    def _open(self, about: dict[str, Any], afresh: bool) -> None:
        self._log.seek(0)
        first = b"" if afresh else self._log.readline(LONGEST)
        found = _opened(first)
        if found is not None and found != about:
            raise PlanError(
                Fault(
                    "an unfinished table of another study, or of another version of it",
                    Place(str(self.partial)),
                    "--restart to begin afresh, or another file",
                )
            )
        self._table = files.beside(self.partial)
        self.end = 0
        kept = len(first) + self._agreeing() if found is not None else 0
        self._log.seek(0)
        self._log.truncate(kept)
        self._log.seek(0, os.SEEK_END)
        self._table.truncate(self.end)
        self._table.seek(0, os.SEEK_END)
        if found is None:
            self._log.write(_sealed(json.dumps(about, separators=(",", ":"))))
            self._log.flush()

    def _agreeing(self) -> int:
        """Takes over the pieces whose bytes are in the table; returns how many bytes of the journal
        tell of them."""
        self._table.seek(0)
        kept = 0
        while (data := _opened(line := self._log.readline(LONGEST))) is not None:
            if self._checksum(data["end"] - self.end) != data["checksum"]:
                break
            self.end = data["end"]
            summary = json.dumps(data["summary"], separators=(",", ":"))
            self.entries.append(Entry(data["end"], data["checksum"], summary))
            kept += len(line)
        return kept

    def _checksum(self, length: int) -> int | None:
        found = 0
        while length > 0:
            block = self._table.read(min(length, BLOCK))
            if not block:
                return None
            found = zlib.crc32(block, found)
            length -= len(block)
        return found

    def add(self, data: bytes | memoryview, checksum: int, summary: str) -> None:
        """The next piece, with the checksum of its bytes and its summary as JSON.

        Raises:
            PlanError: it cannot be written.
        """
        with _writing(self.target):
            self._table.write(data)
            self._table.flush()
            self.end += len(data)
            line = f'{{"end":{self.end},"checksum":{checksum},"summary":{summary}}}'
            self._log.write(_sealed(line))
            self._log.flush()
            self.entries.append(Entry(self.end, checksum, ""))
            if time.monotonic() > self._next:
                self.sync()

    def sync(self) -> None:
        """Force what was written to the disk: the rows, then the journal of them."""
        start = time.monotonic()
        os.fsync(self._table.fileno())
        os.fsync(self._log.fileno())
        end = time.monotonic()
        self._next = end + max(EVERY, (end - start) / SHARE)

    def spans(self) -> Iterator[tuple[int, int]]:
        """Where each piece begins and ends."""
        start = 0
        for entry in self.entries:
            yield start, entry.end
            start = entry.end

    def read(self, start: int, end: int) -> bytes:
        """What lies there."""
        self._table.seek(start)
        return self._table.read(end - start)

    def finish(self, ending: bytes = b"", made: bool = False) -> None:
        """The table takes its name; the journal goes.

        Args:
            ending: what the table ends with.
            made: the table was made of the pieces and has its name already.

        Raises:
            PlanError: it cannot.
        """
        with _writing(self.target):
            self._table.write(ending)
            self._table.flush()
            self.sync()
            self._table.close()  # an open file cannot be renamed everywhere
            if made:
                self.partial.unlink()
            else:
                os.chmod(self.partial, files.mode(self.target))
                os.replace(self.partial, self.target)
            if not self._locked:
                self._log.close()  # nor removed
            self.log.unlink()
            self.close()  # the lock last: until here all names are this sweep's

    def close(self) -> None:
        """Leave what is there for the next run."""
        for name in ("_table", "_log"):  # the first may not be open yet
            with contextlib.suppress(OSError, AttributeError):  # a full disk was told already
                getattr(self, name).close()


def _sealed(text: str) -> bytes:
    """A line with its own checksum in front, by which a damaged one is known."""
    body = text.encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _opened(line: bytes) -> dict[str, Any] | None:
    """What a line says; None where it is damaged."""
    seal, _, body = line.removesuffix(b"\n").partition(b" ")
    if not line.endswith(b"\n") or seal != b"%08x" % zlib.crc32(body):
        return None
    data = files.parse_json(body)
    return data if isinstance(data, dict) else None


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """What the system refuses is a fault of the table's file."""
    try:
        yield
    except OSError as error:
        raise files.unwritable(path, error) from None
