"""The one gate to files.

What is read is a regular file of a bounded size, inside the folder that was asked for. What is
written is the old file or the new one, never a mixture, and no link that somebody planted is
followed to it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
import sys
import time
from collections import Counter
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
#: Receives the real paths of the files that are opened.
_NOTED: ContextVar[set[str] | None] = ContextVar("noted", default=None)
#: The folder of copied files.
_TOP: ContextVar[str | None] = ContextVar("top", default=None)
#: The content of standard input and of the shell's pipes, which can be read only once.
_ONCE: ContextVar[dict[str, bytes]] = ContextVar("once")


@contextlib.contextmanager
def set_variable(variable: ContextVar[Any], value: Any) -> Iterator[Any]:
    """Set a variable inside the block, which receives the value."""
    token = variable.set(value)
    try:
        yield value
    finally:
        variable.reset(token)


@contextlib.contextmanager
def restrict_reading(folder: str | Path | None) -> Iterator[None]:
    """Restrict reading to a folder and to the files of the program inside the block. Standard input
    and pipes, which can be read only once, are cached.

    Args:
        folder: None for no bound.

    Raises:
        PlanError: there is no such folder.
    """
    root = None
    if folder is not None:
        if not os.path.isdir(folder):
            raise PlanError("no such folder", Place(f"--root {folder}"))
        root = os.path.realpath(folder)
    with set_variable(_ROOT, root), set_variable(_ONCE, {}):
        yield


@contextlib.contextmanager
def record_reads() -> Iterator[set[str]]:
    """Record the real paths of the files that are opened for reading inside the block."""
    with set_variable(_NOTED, set[str]()) as opened_files:
        yield opened_files


def is_recording() -> bool:
    """Return whether opened files are recorded; if so, a cached file must be opened again."""
    return _NOTED.get() is not None


@contextlib.contextmanager
def use_copy(folder: str | Path) -> Iterator[None]:
    """Use a folder of copied files as the root inside the block, bounded as the originals were:
    nothing around the folder belongs to the files."""
    bounded = restrict_reading(folder if _ROOT.get() is not None else None)
    with set_variable(_TOP, os.path.realpath(folder)), bounded:
        yield


def is_top(folder: str | Path) -> bool:
    """Return whether a folder is the root, so that nothing around it belongs to its files."""
    return os.path.realpath(folder) in (_ROOT.get(), _TOP.get())


def is_inside(path: str | Path) -> bool:
    """Return whether a path, with all links resolved, is inside the root or the presets."""
    root = _ROOT.get()
    return root is None or is_within(path, root) or is_within(path, resources.folder("presets"))


def is_within(path: str | Path, folder: str | Path) -> bool:
    """Return whether a path, with all links resolved, is a folder or is inside it."""
    try:
        full, top = os.path.realpath(path), os.path.realpath(folder)
    except (OSError, ValueError):
        return False
    return full == top or full.startswith(os.path.join(top, ""))


def refuse_path(place: Place) -> PlanError:
    """Return the error of a path outside the root; it does not reveal what is there."""
    return PlanError("is outside the folder of --root", place, "a path inside it")


def is_file(path: str | Path) -> bool:
    """Return whether a path is a regular file inside the root; `-` never is one."""
    try:
        return str(path) != "-" and is_inside(path) and stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):  # a name too long, or with a zero byte
        return False


#: Folders of programs, which hold no reports or documents.
SKIPPED = frozenset((".git", ".hg", ".svn", ".tox", ".nox", "node_modules", "__pycache__"))
#: A file that marks a folder as a virtual environment.
ENVIRONMENT = "pyvenv.cfg"


def walk_files(paths: Iterable[Path], endings: tuple[str, ...]) -> Iterator[tuple[Path, bool]]:
    """Yield the files of some paths, and whether each was named itself: a named file always, of a
    folder the readable files with one of the ``endings``, sorted, without those of version control,
    packages and virtual environments.

    Raises:
        PlanError: a path does not exist, or is a file that cannot be read.
    """
    for path in paths:
        if not path.exists():
            raise PlanError("no such file or folder", Place(str(path)))
        if not path.is_dir():
            with open_bounded(path, MAX_JSON):  # raises where it cannot be read
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
#: Paths of pipes that shells make for <(command).
_SHELL = ("/dev/fd/", "/dev/stdin")


@contextlib.contextmanager
def open_bounded(
    path: str | Path, most: int, place: Place | None = None, allowed: str | None = None
) -> Iterator[Opened]:
    """Open a file to read as many bytes as it has now: bytes appended later are ignored, and files
    of /proc are empty. `-` is standard input.

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
            file: IO[bytes] = (
                sys.stdin.buffer
                if name == "-"
                else stack.enter_context(os.fdopen(os.open(path, flags), "rb"))
            )
            if piped:
                kept = _ONCE.get({})  # a command may read it again
                if name not in kept:
                    kept[name] = file.read(most + 1)
                file = BytesIO(kept[name])
            reads = _NOTED.get()
            if reads is not None and not piped:
                reads.add(os.path.realpath(path))
            size = file.seek(0, os.SEEK_END) if piped else os.fstat(file.fileno()).st_size
            if size > most:
                raise PlanError("the file is too large", where, f"at most {most // 10**6} MB")
            yield Opened(file, size)
    except FileNotFoundError:
        raise PlanError("no such file", where, None, _find_similar(Path(path))) from None
    except OSError as error:
        raise PlanError(f"cannot be read: {error.strerror or str(error)}", where, allowed) from None


def _is_pipe(path: str | Path, place: Place, allowed: str | None) -> bool:
    """Return whether a path is a pipe that the shell made (True) or a regular file (False).

    Raises:
        PlanError: it is anything else, or outside the bound.
    """
    if "\0" in str(path):
        raise OSError("embedded null byte")
    if not is_inside(path):
        raise refuse_path(place)
    # Opening some devices does something, so they are not opened to see what they are.
    kind = os.stat(path).st_mode
    piped = stat.S_ISFIFO(kind) and str(path).startswith(_SHELL)
    if not stat.S_ISREG(kind) and not piped:
        what = next((said for is_it, said in _KINDS if is_it(kind)), "this is a device")
        raise PlanError(what, place, allowed or "a regular file")
    return piped


class Opened(NamedTuple):
    """A file as far as it went when it was opened."""

    file: IO[bytes]
    size: int

    def read_all(self) -> bytes:
        """Read the whole file."""
        self.file.seek(0)
        return self.file.read(self.size)

    def iter_chunks(self, most: int) -> Iterator[bytes]:
        """Yield the file in chunks of at most ``most`` bytes; each call starts at its beginning."""
        self.file.seek(0)
        left = self.size
        while chunk := self.file.read(min(left, most)):
            left -= len(chunk)
            yield chunk


def _find_similar(path: Path) -> str | None:
    """Find a file beside a missing one whose name is similar."""
    try:
        found = nearest(path.name, sorted(os.listdir(path.parent)))
    except (OSError, ValueError):
        return None
    return found and format_path(path.parent / found)


def format_path(path: Path) -> str:
    """Return the path as a user would type it: relative where it is below the current folder."""
    if path.is_absolute():
        with contextlib.suppress(ValueError, OSError):
            return str(path.relative_to(os.getcwd()))
    return str(path)


def read_bytes(
    path: str | Path, most: int, place: Place | None = None, allowed: str | None = None
) -> bytes:
    """Read the bytes of a file. Arguments and errors are those of ``open_bounded``.

    Args:
        path: of a regular file, or `-` for standard input.
        most: bytes of the file.
        place: of faults; the path by default.
        allowed: what faults say that should be there.
    """
    with open_bounded(path, most, place, allowed) as file:
        return file.read_all()


def read_text(
    path: str | Path, most: int, place: Place | None = None, allowed: str = "text in UTF-8"
) -> str:
    """Read the text of a file in UTF-8, with or without a byte order mark.

    Args:
        path: of a regular file, or `-` for standard input.
        most: bytes of the file.
        place: of faults; by default the path, and of a byte that is not UTF-8 its line and column.
        allowed: what faults say that should be there.

    Raises:
        PlanError: as for ``open_bounded``, or it is not UTF-8.
    """
    raw = read_bytes(path, most, place, allowed)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        name = str(path) if place is None else place.file
        where = Place(name, before.count(b"\n") + 1, column)
        raise PlanError("not UTF-8 text", where, allowed) from None


def refuse_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of JSON of pairs; raise a ValueError for a key that stands twice."""
    if len(found := dict(pairs)) < len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"duplicate key {twice!r}")
    return found


def parse_json(
    text: str | bytes, place: Place | None = None, allowed: str | None = None, **how: Any
) -> Any:
    """Parse JSON text; a number is an int or a finite float.

    Args:
        place: of faults; an error of syntax is at its own line and column of that file.
        allowed: what faults say that should be there.
        how: options of ``json.loads``, such as ``object_pairs_hook=refuse_twice``.

    Raises:
        PlanError: it is no JSON, nested too deeply, or has a number of thousands of digits or one
            that no float reaches.
    """

    def finite(digits: str) -> float:
        """Parse a float; raise a ValueError if it overflows, which JSON has no word for."""
        number = float(digits)
        if number in (math.inf, -math.inf):
            raise ValueError(f"the number {digits[:40]} is out of range")
        return number

    try:
        return json.loads(text, **{"parse_float": finite, **how})
    except json.JSONDecodeError as error:
        where = Place(place.file, error.lineno, error.colno) if place else None
        raise PlanError(f"not JSON: {error.msg}", where, allowed) from None
    except (RecursionError, ValueError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        if "integer string conversion" in reason:
            reason = f"a number of more than {sys.get_int_max_str_digits()} digits"
        raise PlanError(f"not readable as JSON: {reason}", place, allowed) from None


# Writing ------------------------------------------------------------------------------------


@contextlib.contextmanager
def convert_errors(path: str | Path) -> Iterator[None]:
    """Convert errors of the system inside the block to the fault of a file that is written."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PlanError(f"cannot be written: {reason}", Place(str(path))) from None


@contextlib.contextmanager
def replace_file(path: str | Path) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` once it is complete; if it never is, the old file
    stays. Its name cannot be planted in advance. A device or a pipe is written to directly, since
    renaming would replace it by a file.

    Raises:
        PlanError: the folder is missing or not writable, the disk is full, the target a folder.
    """
    import tempfile

    with convert_errors(path):
        if "\0" in str(path):
            raise OSError("embedded null byte")
        target = Path(path)
        if target.exists() and not (target.is_file() or target.is_dir()):
            with _open_device(target) as file:
                yield file
            return
        target = resolve_target(path)
        if target.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, find_mode(target))
            os.replace(temporary, target)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)


def write_text(path: str | Path, text: str) -> None:
    """Write UTF-8 text with LF line ends, whole or not at all.

    Raises:
        PlanError: as for ``replace_file``.
    """
    with replace_file(path) as file:
        # A name of a file that is no UTF-8 may stand in the text.
        file.write(text.encode("utf-8", "backslashreplace"))


def write_output(text: str, path: str | None = None, inputs: Iterable[str | Path] = ()) -> None:
    """Write text to a file, or to standard output.

    Args:
        path: None and `-` are standard output.
        inputs: files that were read, none of which may be overwritten.

    Raises:
        PlanError: as for ``refuse_overwrite`` and ``write_text``.
    """
    if path is None or path == "-":
        sys.stdout.write(text)
    else:
        refuse_overwrite(path, inputs)
        write_text(path, text)


def _open_device(target: Path) -> IO[bytes]:
    """Open a device or a pipe to write to; wait a short time for the reader of a pipe."""
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


def resolve_target(path: str | Path) -> Path:
    """Return the target of a path to write: a link is followed, unless it leads from inside the
    root to a place outside.

    Raises:
        PlanError: it does.
    """
    target = Path(path)
    root = _ROOT.get()
    lies = root is not None and is_within(os.path.dirname(os.path.abspath(path)), root)
    if target.is_symlink():
        target = Path(os.path.realpath(target))
        if lies and not is_inside(target):
            raise refuse_path(Place(str(path)))
    return target


def open_beside(path: Path) -> IO[bytes]:
    """Open our own file beside one that is being written, to read and append; create it if missing.
    Its name can be guessed, so a link or a second name of another file is refused.

    Raises:
        OSError: it cannot be opened.
        PlanError: it is a link, a device or a pipe.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"):
        flags |= getattr(os, name, 0)
    fault = Fault("this is a link or not a regular file", Place(str(path)), "remove it")
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
    """Pick the format of an output by the ending of its path.

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
        raise PlanError(Fault.from_pool(said, ending, formats, Place(str(path))))
    return formats[ending]


def refuse_overwrite(path: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse to write over what was read.

    Raises:
        PlanError: `path` is one of the inputs, by whatever name.
    """
    for given in inputs:
        with contextlib.suppress(OSError):  # what is not there is no input
            if os.path.samefile(path, given):
                raise PlanError("this is an input", Place(str(path)), "another file")


def find_mode(target: Path) -> int:
    """Return the mode of the file that is replaced, or that of a new file."""
    try:
        return target.stat().st_mode & 0o7777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
