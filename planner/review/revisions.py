"""Documents of a git revision, copied to a folder: all of them, since a plan names others.

Git only lists and prints what a revision holds, so nothing that a repository configures is run.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from planner.base import files
from planner.base.errors import Fault, Place, PlanError
from planner.documents.references import ENDINGS
from planner.documents.yaml_nodes import MAX_BYTES

_LINK = b"120000"  # mode of a link in a tree


def copied(revision: str, path: str, folder: Path) -> tuple[Path, Path | None]:
    """Copies a file of a revision, with all documents and links of it, to a folder.

    Args:
        revision: of git, such as HEAD, a branch or a commit.
        path: of the file, from the current folder, or from the top as git means it.
        folder: an empty one.

    Returns:
        The copy, and the folder of presets of that revision, where it has one.

    Raises:
        PlanError: there is no such revision, file or repository.
    """
    place, folder = Place(f"{revision}:{path}"), Path(os.path.realpath(folder))
    git = partial(_git, place)
    here, top = (
        os.fsdecode(git("rev-parse", of).rstrip(b"\n"))
        for of in ("--show-prefix", "--show-toplevel")
    )
    tree = b""
    if not revision.startswith("-"):
        asked = ("rev-parse", "--verify", "--quiet", f"{revision}^{{tree}}")
        tree = git(*asked, may_fail=True).strip()
    if not tree:
        raise PlanError(Fault("no such revision", place, "REVISION:PATH"))
    regular: dict[str, bytes] = {}  # objects by path
    documents: dict[str, bytes] = {}
    links: dict[str, bytes] = {}
    for entry in git("-C", top, "ls-tree", "-r", "-z", "--long", tree.decode()).split(b"\0")[:-1]:
        about, _, raw = entry.partition(b"\t")
        mode, kind, sha, size = about.split()
        name = os.fsdecode(raw)  # a name that is no UTF-8 keeps its bytes
        if kind == b"blob":
            (links if mode == _LINK else regular)[name] = sha
        if name in regular and name.endswith(ENDINGS) and int(size) <= MAX_BYTES:
            documents[name] = sha
    _lay(place, documents, folder)
    _lay(place, links, folder, as_links=True)
    for name in links:
        if not files.below(folder / name, folder):
            (folder / name).unlink(missing_ok=True)
    for base in (here, ""):
        copy = Path(os.path.normpath(folder / base / path))
        name = os.path.relpath(os.path.realpath(copy), folder)
        if name in regular:
            _lay(place, {name: regular[name]}, folder)
            presets = folder / "presets"
            return copy, presets if presets.is_dir() else None
    raise PlanError(Fault("no such file in that revision", place, "REVISION:PATH"))


def _git(place: Place, *words: str, given: bytes | None = None, may_fail: bool = False) -> bytes:
    """What git prints; nothing where it fails and may.

    Raises:
        PlanError: git is not there, or says why not.
    """
    try:
        done = subprocess.run(["git", *words], input=given, capture_output=True, check=False)
    except FileNotFoundError:
        raise PlanError(Fault("git is not installed", place)) from None
    if done.returncode and not may_fail:
        said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
        fault = said.splitlines()[0] if said else "git failed"
        raise PlanError(Fault(fault, place, "REVISION:PATH"))
    return b"" if done.returncode else done.stdout


def _lay(place: Place, objects: Mapping[str, bytes], folder: Path, as_links: bool = False) -> None:
    """Writes what git holds of some objects to their paths in a folder; what a crafted tree would
    put outside is left out."""
    named = b"".join(sha + b"\n" for sha in objects.values())
    data, at = _git(place, "cat-file", "--batch", given=named), 0
    for name in objects:
        start = data.index(b"\n", at) + 1
        end = start + int(data[at:start].split()[2])
        to, content, at = folder / name, data[start:end], end + 1
        if not files.below(to, folder):
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if as_links:
            with contextlib.suppress(OSError):
                to.symlink_to(os.fsdecode(content))
        else:
            to.write_bytes(content)
