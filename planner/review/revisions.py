"""Documents of a git revision, copied to a folder: a plan with all that it may name.

git itself writes them, with the links among them, by an index of its own: the repository's index
and working tree stay as they are.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from pathlib import Path

from planner.base import files
from planner.base.errors import Fault, Place, PlanError
from planner.documents.references import ENDINGS

__all__ = ["copied"]

#: The mode of a link in a tree of git.
_LINK = b"120000"
_DOCUMENTS = tuple(map(os.fsencode, ENDINGS))


def copied(revision: str, path: str, folder: Path) -> tuple[Path, Path | None]:
    """Copies a document of a revision, with every document beside it, to a folder.

    Args:
        revision: of git, such as HEAD, a branch or a commit.
        path: of the document, from the current folder.

    Returns:
        The copy, and the folder of presets of that revision, where it has one.

    Raises:
        PlanError: there is no such revision, document or repository.
    """
    side = _Side(revision, path)
    if revision.startswith("-"):
        raise side.fault("no such revision")
    top = os.fsdecode(side.git("rev-parse", "--show-toplevel").rstrip(b"\n"))
    here = os.fsdecode(side.git("rev-parse", "--show-prefix").rstrip(b"\n"))
    commit = side.git("rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}", failing=True)
    if not commit:
        raise side.fault("no such revision")
    # From the current folder, as other paths; else from the top, as git means it.
    asked = path.replace(os.sep, "/")
    near = [posixpath.normpath(posixpath.join(base, asked)) for base in (here, "")]
    tree = _Tree(side, top, commit.strip().decode(), folder)
    wanted = next((name for name in near if tree.holds(name)), None)
    if wanted is None:
        raise side.fault("no such file in that revision")
    presets = folder / "presets"
    return folder / wanted, presets if presets.is_dir() else None


class _Side:
    """One side of a comparison, as it is named in faults."""

    def __init__(self, revision: str, path: str) -> None:
        self.place = Place(f"{revision}:{path}")
        self.setting: dict[str, str] = {}  # of git's surroundings

    def fault(self, message: str) -> PlanError:
        return PlanError(Fault(message, self.place, "REVISION:PATH"))

    def git(self, *words: str, given: bytes | None = None, failing: bool = False) -> bytes:
        """What git prints; nothing where it fails and may.

        Raises:
            PlanError: git is not there, or says why not.
        """
        command = ["git", "-c", f"core.hooksPath={os.devnull}", *words]
        surroundings = {**os.environ, **self.setting}
        try:
            done = subprocess.run(
                command, input=given, capture_output=True, check=False, env=surroundings
            )
        except FileNotFoundError:
            raise PlanError(Fault("git is not installed", self.place)) from None
        if done.returncode and not failing:
            said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
            raise self.fault(said.splitlines()[0] if said else "git failed")
        return b"" if done.returncode else done.stdout


class _Tree:
    """The files of a revision, of which the documents are written to a folder, and the links that
    stay inside it."""

    def __init__(self, side: _Side, top: str, tree: str, folder: Path) -> None:
        self.side, self.top, self.folder = side, top, folder
        self.names, links = set[bytes](), set[bytes]()
        for entry in side.git("-C", top, "ls-tree", "-r", "-z", tree).split(b"\0"):
            about, _, name = entry.partition(b"\t")
            (links if about.startswith(_LINK) else self.names).add(name)
        side.setting["GIT_INDEX_FILE"] = str(folder / ".index")
        side.git("-C", top, "read-tree", tree)
        self.write(*links.union(name for name in self.names if name.endswith(_DOCUMENTS)))
        for link in (folder / os.fsdecode(name) for name in links):
            if not files.below(link, folder):
                link.unlink(missing_ok=True)

    def write(self, *names: bytes) -> None:
        """Write some files, by one process."""
        words = ("checkout-index", "-q", "-z", "--stdin", f"--prefix={self.folder}/")
        self.side.git("-C", self.top, *words, given=b"\0".join(names))

    def holds(self, name: str) -> bool:
        """Whether there is a file of that name, if need be through links; it is written."""
        path = self.folder / name
        if not files.below(path, self.folder):
            return False
        real = os.path.relpath(os.path.realpath(path), os.path.realpath(self.folder))
        found = os.fsencode(real.replace(os.sep, "/"))
        if found in self.names and not found.endswith(_DOCUMENTS):
            self.write(found)
        return found in self.names
