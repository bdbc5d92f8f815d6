"""The one gate to files.

What is read is a regular file of a bounded size, inside the folder that was asked for. What is
written is the old file or the new one, never a mixture, and no link that somebody planted is
followed to it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

from planner.base import resources
from planner.base.errors import Fault, Place, PlanError, nearest

#: Seconds until a pipe that is written has a reader.
PATIENCE = 3
#: Bytes of a JSON document at most; results with a section for every layer have some.
MAX_JSON = 50_000_000

# Where files may lie ------------------------------------------------------------------------

_ROOT: ContextVar[str | None] = ContextVar("root", default=None)
#: What takes note of the files that are opened.
_NOTED: ContextVar[set[str] | None] = ContextVar("noted", default=None)
#: The folder of files that were copied.
_TOP: ContextVar[str | None] = ContextVar("top", default=None)
#: What a command has read of standard input and of the shell's pipes, which can be read once only.
_ONCE: ContextVar[dict[str, bytes]] = ContextVar("once")


@contextlib.contextmanager
def within(folder: str | Path | None) -> Iterator[None]:
    """Until the end, nothing is read outside a folder but what ships with the program and what it
    keeps for itself, and what can be read once only is kept.

    Args:
        folder: None for no bound.

    Raises:
        PlanError: there is no such folder.
    """
    root = None
    if folder is not None:
        if not os.path.isdir(folder):
            raise PlanError(Fault("no such folder", Place(f"--root {folder}")))
        root = os.path.realpath(folder)
    token, once = _ROOT.set(root), _ONCE.set({})
    try:
        yield
    finally:
        _ROOT.reset(token)
        _ONCE.reset(once)


@contextlib.contextmanager
def noted() -> Iterator[set[str]]:
    """Until the end, the files that are opened to be read, by their real paths."""
    opened_files = set[str]()
    token = _NOTED.set(opened_files)
    try:
        yield opened_files
    finally:
        _NOTED.reset(token)


def are_noted() -> bool:
    """Whether somebody takes note of the files that are opened, so that none may be left closed."""
    return _NOTED.get() is not None


@contextlib.contextmanager
def copied_to(folder: str | Path) -> Iterator[None]:
    """Files that were copied to a folder of their own are bound to it where the originals were
    bound; nothing around it belongs to them."""
    top = _TOP.set(os.path.realpath(folder))
    try:
        with within(folder if _ROOT.get() is not None else None):
            yield
    finally:
        _TOP.reset(top)


def is_top(folder: str | Path) -> bool:
    """Whether nothing around a folder belongs to what lies in it."""
    return os.path.realpath(folder) in (_ROOT.get(), _TOP.get())


def inside(path: str | Path) -> bool:
    """Whether a path may be read: it leads nowhere outside the bound, whatever links it has."""
    root = _ROOT.get()
    own = (resources.folder("presets"), resources.cache())
    return root is None or any(below(path, folder) for folder in (root, *own))


def below(path: str | Path, folder: str | Path) -> bool:
    """Whether a path leads to a folder or to something in it, whatever links it has."""
    try:
        full, top = os.path.realpath(path), os.path.realpath(folder)
    except (OSError, ValueError):
        return False
    return full == top or full.startswith(os.path.join(top, ""))


def outside(place: Place) -> PlanError:
    """The fault of a path that leaves the bound; it tells nothing of what is there."""
    return PlanError(Fault("lies outside the folder of --root", place, "a path inside it"))


def is_file(path: str | Path) -> bool:
    """Whether a path can be read: a regular file inside the bound."""
    try:
        return inside(path) and stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


#: Folders that hold the files of programs, not reports or documents.
SKIPPED = frozenset((".git", ".hg", ".svn", ".tox", ".nox", "node_modules", "__pycache__"))
#: What lies in a folder that is a virtual environment.
ENVIRONMENT = "pyvenv.cfg"


def found(paths: Iterable[Path], endings: tuple[str, ...]) -> Iterator[tuple[Path, bool]]:
    """The files of some paths, with whether each was named outright: those named, and below folders
    those of some endings that can be read, in order; what belongs to version control, packages and
    virtual environments is left out.

    Raises:
        PlanError: a path does not exist, or is a file that cannot be read.
    """
    for path in paths:
        if not path.exists():
            raise PlanError(Fault("no such file or folder", Place(str(path))))
        if not path.is_dir():
            with opened(path, MAX_JSON):  # told where it cannot be read
                pass
            yield path, True
        for base, folders, names in os.walk(path):  # which finds nothing below a file
            here = Path(base)
            if ENVIRONMENT in names and here != path:
                folders.clear()
                continue
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            for name in sorted(names):
                if name.endswith(endings) and is_file(here / name):
                    yield here / name, False


# Reading ------------------------------------------------------------------------------------

_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "this is a folder"),
    (stat.S_ISFIFO, "this is a pipe"),
    (stat.S_ISSOCK, "this is a socket"),
)
#: As shells name what is behind <(command).
_SHELL = ("/dev/fd/", "/dev/stdin")


@contextlib.contextmanager
def opened(
    path: str | Path, most: int, place: Place | None = None, allowed: str | None = None
) -> Iterator[Opened]:
    """A file to read, of as many bytes as it has now: one that grows meanwhile does not matter, and
    what the system makes up on reading (/proc) is empty. `-` is standard input.

    Args:
        most: bytes of the file.
        place: of faults; the path by default.
        allowed: what faults say that should be there.

    Raises:
        PlanError: it is missing, outside the bound, a folder, a device, a pipe (but one that the
            shell made) or too large, or it cannot be read.
    """
    name, where = str(path), place or Place(str(path))
    try:
        piped = name == "-" or _is_pipe(path, where, allowed)
        flags = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
        if not piped:  # nor wait for what took its name since
            flags |= getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
        with contextlib.ExitStack() as stack:
            file: IO[bytes] = sys.stdin.buffer
            if name != "-":
                file = stack.enter_context(os.fdopen(os.open(path, flags), "rb"))
            if piped:
                kept = _ONCE.get({})  # for when a command asks for it again
                if name not in kept:
                    kept[name] = file.read(most + 1)
                file = BytesIO(kept[name])
            reads = _NOTED.get()
            if reads is not None and not piped:
                reads.add(os.path.realpath(path))
            size = file.seek(0, os.SEEK_END) if piped else os.fstat(file.fileno()).st_size
            if size > most:
                raise PlanError(
                    Fault("the file is too large", where, f"at most {most // 10**6} MB")
                )
            yield Opened(file, size)
    except FileNotFoundError:
        raise PlanError(Fault("no such file", where, None, _near(Path(path)))) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise PlanError(Fault(f"cannot be read: {reason}", where, allowed)) from None


def _is_pipe(path: str | Path, place: Place, allowed: str | None) -> bool:
    """Whether a path is a pipe that the shell made, or a regular file.

    Raises:
        PlanError: it is anything else, or outside the bound.
    """
    if "\0" in str(path):
        raise OSError("embedded null byte")
    if not inside(path):
        raise outside(place)
    # Opening some devices does something, so they are not opened to see what they are.
    kind = os.stat(path).st_mode
    piped = stat.S_ISFIFO(kind) and str(path).startswith(_SHELL)
    if not stat.S_ISREG(kind) and not piped:
        what = next((said for is_it, said in _KINDS if is_it(kind)), "this is a device")
        raise PlanError(Fault(what, place, allowed or "a regular file"))
    return piped


class Opened(NamedTuple):
    """A file as far as it went when it was opened."""

    file: IO[bytes]
    size: int

    def read(self) -> bytes:
        """All of it."""
        self.file.seek(0)
        return self.file.read(self.size)

    def chunks(self, most: int) -> Iterator[bytes]:
        """All of it in pieces of so many bytes at most; again from the first each time."""
        self.file.seek(0)
        left = self.size
        while chunk := self.file.read(min(left, most)):
            left -= len(chunk)
            yield chunk


#: Bytes by which a file is known again that grows.
_KEPT = 1024


class Growing:
    """A file that somebody writes to, as it grows, or standard input (`-`), as it comes.

    A file that took its name since (a rotated log) is read from its beginning after the rest of
    the old one, and so is one that was cut to less than was read. One that is not there yet is
    waited for.
    """

    def __init__(self, path: str | Path) -> None:
        self.path, self.turns, self.has_ended = path, 0, False
        self._stack = contextlib.ExitStack()
        self._file: IO[bytes] | None = None
        self._last = b""  # of what was read, by which a file is known that was cut

    def __enter__(self) -> Growing:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def chunk(self, most: int) -> bytes:
        """The next bytes, so many at most; none where nothing was written since. `turns` grows
        where they begin a file anew, `has_ended` says that nothing can follow.

        Raises:
            PlanError: as for ``opened``, but for a file that is missing in a folder.
        """
        if str(self.path) == "-":
            return self._piped(most)
        if self._file is None:
            folder = os.path.dirname(os.path.abspath(self.path))
            if os.path.isdir(folder) and not os.path.lexists(self.path):
                return b""
            self._file = self._stack.enter_context(opened(self.path, sys.maxsize)).file
        self._file.seek(-len(self._last), os.SEEK_CUR)
        if self._file.read(len(self._last)) != self._last:  # it was cut, and written to since
            self._file.seek(0)
            self.turns, self._last = self.turns + 1, b""
            return b""
        data = self._file.read(most)
        if data:
            self._last = data[-_KEPT:]
            return data
        with contextlib.suppress(OSError):  # moved away, and nothing has its name yet
            if not os.path.samestat(os.stat(self.path), os.fstat(self._file.fileno())):
                self._stack.close()
                self._file, self.turns, self._last = None, self.turns + 1, b""
        return b""

    def _piped(self, most: int) -> bytes:
        import select

        handle = sys.stdin.fileno()
        if not select.select([handle], [], [], 0)[0]:
            return b""
        data = os.read(handle, most)
        self.has_ended = not data
        return data


def _near(path: Path) -> str | None:
    """The file beside a missing one that was probably meant."""
    try:
        found = nearest(path.name, sorted(os.listdir(path.parent)))
    except (OSError, ValueError):
        return None
    return found and shown(path.parent / found)


def shown(path: Path) -> str:
    """The path as a user would type it: relative where it lies below the current folder."""
    if path.is_absolute():
        with contextlib.suppress(ValueError, OSError):
            return str(path.relative_to(os.getcwd()))
    return str(path)


def read_bytes(
    path: str | Path, most: int, place: Place | None = None, allowed: str | None = None
) -> bytes:
    """The bytes of a file; bounds and faults as of ``opened``."""
    with opened(path, most, place, allowed) as file:
        return file.read()


def read_text(
    path: str | Path, most: int, place: Place | None = None, allowed: str = "text in UTF-8"
) -> str:
    """The text of a file in UTF-8, with or without a byte order mark.

    Raises:
        PlanError: as for ``opened``, or it is not UTF-8.
    """
    raw = read_bytes(path, most, place, allowed)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        name = str(path) if place is None else place.file
        where = Place(name, before.count(b"\n") + 1, column)
        raise PlanError(Fault("not UTF-8 text", where, allowed)) from None


def parse_json(
    text: str | bytes, place: Place | None = None, allowed: str | None = None, **how: Any
) -> Any:
    """JSON text as data; ``how`` goes to the parser.

    Raises:
        PlanError: it is no JSON, nested too deeply, or has a number of thousands of digits.
    """
    try:
        return json.loads(text, **how)
    except json.JSONDecodeError as error:
        where = Place(place.file, error.lineno, error.colno) if place else None
        raise PlanError(Fault(f"not JSON: {error.msg}", where, allowed)) from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise PlanError(Fault(f"not readable as JSON: {reason}", place, allowed)) from None


# Writing ------------------------------------------------------------------------------------


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Until the end, what the system refuses is a fault of a file that is written."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PlanError(Fault(f"cannot be written: {reason}", Place(str(path)))) from None


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that takes the name of `path` when it is whole: until then, and where it never is,
    the old one stays. It is made under a name that nobody can have planted. A device or a pipe is
    written to as it is: renaming would put a file in its place.

    Raises:
        PlanError: the folder is missing or not writable, the disk is full, the target a folder.
    """
    import tempfile

    with writing(path):
        if "\0" in str(path):
            raise OSError("embedded null byte")
        target = Path(path)
        if target.exists() and not (target.is_file() or target.is_dir()):
            with _poured(target) as file:
                yield file
            return
        target = resolved(path)
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, mode(target))
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with LF line ends, whole or not at all.

    Raises:
        PlanError: as for ``replacing``.
    """
    with replacing(path) as file:
        # A name of a file that is no UTF-8 may stand in the text.
        file.write(text.encode("utf-8", "backslashreplace"))


def put(text: str, path: str | None = None, inputs: Iterable[str | Path] = ()) -> None:
    """To a file, none of the inputs, or to standard output (no path, or `-`).

    Raises:
        PlanError: as for ``spare`` and ``write_text``.
    """
    if path is None or path == "-":
        sys.stdout.write(text)
    else:
        spare(path, inputs)
        write_text(path, text)


def _poured(target: Path) -> IO[bytes]:
    """A device or a pipe to write to. Somebody has to read a pipe, now or soon."""
    flags = os.O_WRONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
    until = time.monotonic() + PATIENCE
    while True:
        try:
            handle = os.open(target, flags)
            break
        except OSError as error:
            if error.errno != errno.ENXIO or not target.is_fifo():
                raise
            if time.monotonic() > until:
                raise OSError(errno.ENXIO, "nobody reads this pipe") from None
        time.sleep(0.02)
    os.set_blocking(handle, True)
    return os.fdopen(handle, "wb")


def resolved(path: str | Path) -> Path:
    """What a name stands for: a link of the user's stays one, but does not lead out of the bound
    that it lies in.

    Raises:
        PlanError: it does.
    """
    target = Path(path)
    root = _ROOT.get()
    lies = root is not None and below(os.path.dirname(os.path.abspath(path)), root)
    if target.is_symlink():
        target = Path(os.path.realpath(target))
        if lies and not inside(target):
            raise outside(Place(str(path)))
    return target


def beside(path: Path) -> IO[bytes]:
    """A file of ours beside one that is being written, to read and to append to; it is made where
    it is missing. Its name can be guessed, so it is no link, nor a second name of something else.

    Raises:
        OSError: it cannot be opened.
        PlanError: it is a link, a device or a pipe.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    fault = Fault("this is a link or no regular file", Place(str(path)), "remove it")
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO) or path.is_symlink():
            raise PlanError(fault) from None
        raise
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise PlanError(fault)
    return os.fdopen(handle, "a+b")


def format_of(path: str | Path, formats: Mapping[str, str], what: str) -> str:
    """The format of an output, picked by its ending.

    Args:
        formats: those that there are, by ending: a suffix, or the last letters of a whole name.
        what: is written, as a fault calls it.

    Raises:
        PlanError: none has that ending.
    """
    ending = os.path.splitext(path)[1].lower()
    name = os.path.basename(path).lower()
    longer = [whole for whole in formats if not whole.startswith(".") and name.endswith(whole)]
    if longer:
        return formats[longer[0]]
    if ending not in formats:
        said = f"no {what} has the ending '{ending}'"
        raise PlanError(Fault.among(said, ending, formats, Place(str(path))))
    return formats[ending]


def spare(path: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse to write over what was read.

    Raises:
        PlanError: `path` is one of the inputs, by whatever name.
    """
    for given in inputs:
        with contextlib.suppress(OSError):  # what is not there is no input
            if os.path.samefile(path, given):
                raise PlanError(Fault("this is an input", Place(str(path)), "another file"))


def mode(target: Path) -> int:
    """The mode of the file that is replaced; that of a new file otherwise."""
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
