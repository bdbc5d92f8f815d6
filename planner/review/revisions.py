"""Documents of a git revision, copied to a folder: all of them, since a plan names others.

Git only lists and prints the contents of a revision, so nothing that a repository configures is
run.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from planner.base import files
from planner.base.errors import Place, PlanError
from planner.documents.references import ENDINGS
from planner.documents.yaml_nodes import MAX_BYTES

_LINK = b"120000"  # mode of a link in a tree
#: What a repository may configure that runs: a monitor of files, hooks; and a repository without a
#: working tree, which somebody committed to another, is none. No object is fetched either, which
#: runs programs that a repository names.
QUIET = (
    *("-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"),
    *("-c", "safe.bareRepository=explicit"),
)
#: A file that says that a tree is one of this program, whose presets are then its own.
PROGRAM = "planner/base/resources.py"


class Tree(NamedTuple):
    """The documents of a revision, in a folder of their own.

    Attributes:
        folder: where they are.
        here: the current folder, from the top of the repository.
        regular: objects of all files by path, also of those that were not copied.
        presets: their folder, if the revision is one of this program.
    """

    folder: Path
    here: str
    regular: Mapping[str, bytes]
    presets: Path | None

    @property
    def current(self) -> Path:
        """The current folder in the copy."""
        return Path(os.path.normpath(self.folder / self.here))


def find_top() -> tuple[Path, str]:
    """Return the top of the repository, and the current folder relative to it.

    Raises:
        PlanError: there is no repository here.
    """
    place = Place("git")
    folder, here = (
        os.fsdecode(_git(place, "rev-parse", of).rstrip(b"\n"))
        for of in ("--show-toplevel", "--show-prefix")
    )
    return Path(folder), here


def is_revision(revision: str) -> bool:
    """Decide whether a word names a revision."""
    return bool(_find_tree(revision, Place(revision)))


def trim_commit(revision: str) -> str:
    """Shorten a revision: a whole commit to its first digits."""
    return revision[:10] if re.fullmatch("[0-9a-f]{40,64}", revision) else revision


def _find_tree(revision: str, place: Place) -> str:
    """Return the id of the tree of a revision; empty if there is none. A word that looks like an
    option is none."""
    if revision.startswith("-"):
        return ""
    asked = ("rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}")
    return _git(place, *asked, may_fail=True).strip().decode()


def copy_tree(revision: str, folder: Path, place: Place | None = None) -> Tree:
    """Copy all documents and links of a revision to a folder. Links that lead out of it are left
    out.

    Args:
        revision: a branch, a tag or a commit of the repository around the current folder.
        folder: empty.
        place: of faults; the revision by default.

    Raises:
        PlanError: there is no such revision or repository, or a document is not in this clone.
    """
    place, folder = place or Place(revision), Path(os.path.realpath(folder))
    whole, here = find_top()
    tree = _find_tree(revision, place)
    if not tree:
        raise PlanError("no such revision", place, "a branch, a tag or a commit")
    regular: dict[str, bytes] = {}  # objects by path
    documents: dict[str, bytes] = {}
    links: dict[str, bytes] = {}
    listed = _git(place, "-C", str(whole), "ls-tree", "-r", "-z", "--long", tree)
    for entry in listed.split(b"\0")[:-1]:
        about, _, raw = entry.partition(b"\t")
        mode, kind, sha, size = about.split()
        name = os.fsdecode(raw)  # a name that is no UTF-8 keeps its bytes
        if kind == b"blob":
            (links if mode == _LINK else regular)[name] = sha
        if name in regular and name.endswith(ENDINGS):
            if not size.isdigit():  # of a clone without it
                missing = f"{name} is not in this clone, and nothing is fetched"
                raise PlanError(missing, place, "a clone without a filter")
            if int(size) <= MAX_BYTES:
                documents[name] = sha
    _lay(place, documents, folder)
    _lay(place, links, folder, as_links=True)
    for name in links:
        if not files.is_within(folder / name, folder):
            (folder / name).unlink(missing_ok=True)
    own = folder / "presets" if PROGRAM in regular else None
    return Tree(folder, here, regular, own)


def copy_file(revision: str, path: str, folder: Path) -> tuple[Path, Path | None]:
    """Copy a file of a revision, with all documents and links of it, to a folder.

    Args:
        revision: of git, such as HEAD, a branch or a commit.
        path: of the file, from the current folder, or from the top as git means it.
        folder: an empty one.

    Returns:
        The copy, and the folder of presets of that revision, if it is one of this program.

    Raises:
        PlanError: there is no such revision, file or repository.
    """
    place = Place(f"{revision}:{path}")
    tree = copy_tree(revision, folder, place)
    for base in (tree.here, ""):
        copy = Path(os.path.normpath(tree.folder / base / path))
        name = os.path.relpath(os.path.realpath(copy), tree.folder)
        if name in tree.regular:
            _lay(place, {name: tree.regular[name]}, tree.folder)
            return copy, tree.presets
    raise PlanError("no such file in that revision", place, "REVISION:PATH")


def _git(place: Place, *words: str, given: bytes | None = None, may_fail: bool = False) -> bytes:
    """Run git and return its output; nothing if it fails and ``may_fail``.

    Raises:
        PlanError: git is missing, or reports an error.
    """
    command, environment = ["git", *QUIET, *words], {**os.environ, "GIT_ALLOW_PROTOCOL": ""}
    try:
        done = subprocess.run(
            command, input=given, capture_output=True, check=False, env=environment
        )
    except FileNotFoundError:
        raise PlanError("git is not installed", place) from None
    if done.returncode and not may_fail:
        said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        raise PlanError(said.splitlines()[0] if said else "git failed", place, "REVISION:PATH")
    return b"" if done.returncode else done.stdout


def _lay(place: Place, objects: Mapping[str, bytes], folder: Path, as_links: bool = False) -> None:
    """Write git objects to their paths in a folder, except paths outside it, as a crafted tree may
    have."""
    named = b"".join(sha + b"\n" for sha in objects.values())
    data, at = _git(place, "cat-file", "--batch", given=named), 0
    for name in objects:
        start = data.index(b"\n", at) + 1
        end = start + int(data[at:start].split()[2])
        to, content, at = folder / name, data[start:end], end + 1
        if not files.is_within(to, folder):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if as_links:
            with contextlib.suppress(OSError, ValueError):  # where no path can be called so
                to.symlink_to(os.fsdecode(content))
        else:
            to.write_bytes(content)
