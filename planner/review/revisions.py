"""Documents of a git revision, copied to a folder: a plan with all that it may name.

One process of git lists what there is, and one gives the contents, of the documents that the plan
names, of what these name, and of the presets that the repository ships.
"""

from __future__ import annotations

import os
import posixpath
import subprocess
from collections.abc import Iterable
from pathlib import Path

from planner.base.errors import Fault, Place, PlanError
from planner.documents import yaml_nodes as nodes
from planner.documents.references import ENDINGS

__all__ = ["copied"]

#: Modes of a tree's entries: regular files and links.
_LINK = b"120000"
#: Documents of one revision at most; links are followed as often.
_MOST, _LINKS = 2000, 40
LONGEST_NAME = 4096


def copied(revision: str, path: str, folder: Path) -> tuple[Path, Path | None]:
    """Copies a document of a revision, with what it names, to a folder.

    Args:
        revision: of git, such as HEAD, a branch or a commit.
        path: of the document, from the current folder.

    Returns:
        The copy, and the folder of presets of that revision, where it has one.

    Raises:
        PlanError: there is no such revision, document or repository.
    """
    tree = _Tree(revision, path)
    # From the current folder, as other paths; else from the top, as git means it.
    here = os.fsdecode(tree.git("rev-parse", "--show-prefix").rstrip(b"\n"))
    asked = path.replace(os.sep, "/")
    near = [posixpath.normpath(posixpath.join(base, asked)) for base in (here, "")]
    wanted = next((name for name in near if tree.target(name) is not None), None)
    if wanted is None:
        raise tree.fault("no such file in that revision")
    tree.copy(wanted, folder)
    presets = folder / "presets"
    return folder / wanted, presets if presets.is_dir() else None


class _Tree:
    """The files of a revision by path, and their contents once they were asked for; faults name it
    as it was asked for."""

    def __init__(self, revision: str, path: str) -> None:
        self.place = Place(f"{revision}:{path}")
        if revision.startswith("-"):
            raise self.fault("no such revision")
        self.top = os.fsdecode(self.git("rev-parse", "--show-toplevel").rstrip(b"\n"))
        tree = f"{revision}^{{tree}}"
        commit = self.git("rev-parse", "--verify", "--quiet", tree, failing=True).strip().decode()
        if not commit:
            raise self.fault("no such revision")
        self.blobs: dict[str, bytes] = {}  # path -> object
        self.links: dict[str, bytes] = {}
        self.contents: dict[bytes, bytes] = {}
        for entry in self.git("-C", self.top, "ls-tree", "-r", "-z", commit).split(b"\0"):
            about, tab, name = entry.partition(b"\t")
            if tab:
                mode, kind, sha = about.split()
                if kind == b"blob":
                    # A name that is no UTF-8 keeps its bytes.
                    (self.links if mode == _LINK else self.blobs)[os.fsdecode(name)] = sha

    def fault(self, message: str) -> PlanError:
        return PlanError(Fault(message, self.place, "REVISION:PATH"))

    def git(self, *words: str, given: bytes | None = None, failing: bool = False) -> bytes:
        """What git prints; nothing where it fails and may.

        Raises:
            PlanError: git is not there, or says why not.
        """
        try:
            done = subprocess.run(["git", *words], input=given, capture_output=True, check=False)
        except FileNotFoundError:
            raise PlanError(Fault("git is not installed", self.place)) from None
        if done.returncode and not failing:
            said = done.stderr.decode(errors="replace").strip().removeprefix("fatal: ")
            raise self.fault(said.splitlines()[0] if said else "git failed")
        return b"" if done.returncode else done.stdout

    def fetch(self, objects: Iterable[bytes]) -> None:
        """The contents of some objects, by one process."""
        asked = [sha for sha in dict.fromkeys(objects) if sha not in self.contents]
        if not asked:
            return
        lines = b"".join(sha + b"\n" for sha in asked)
        data = self.git("-C", self.top, "cat-file", "--batch", given=lines)
        at = 0
        for sha in asked:
            end = data.index(b"\n", at)
            size = int(data[at:end].split()[2])
            self.contents[sha] = data[end + 1 : end + 1 + size]
            at = end + size + 2

    def target(self, path: str) -> str | None:
        """The file that a path leads to, through links in it; None where there is none inside."""
        for _ in range(_LINKS):
            if path in self.blobs:
                return path
            parts = path.split("/")
            heads = ("/".join(parts[:i]) for i in range(1, len(parts) + 1))
            link = next((head for head in heads if head in self.links), None)
            if link is None:
                return None
            self.fetch([self.links[link]])
            to = os.fsdecode(self.contents[self.links[link]])
            if posixpath.isabs(to):
                return None
            rest = path[len(link) :].lstrip("/")
            path = posixpath.normpath(posixpath.join(posixpath.dirname(link), to, rest))
            if path.startswith("../"):
                return None
        return None

    def copy(self, first: str, folder: Path) -> None:
        """Copies a document and all that it names, and that these name, to a folder."""
        shipped = [p for p in self.blobs if p.startswith("presets/") and p.endswith(ENDINGS)]
        waiting, done = [first], set[str]()
        while waiting and len(done) < _MOST:
            found = {path: target for path in waiting if (target := self.target(path)) is not None}
            self.fetch(self.blobs[target] for target in found.values())
            waiting = []
            for path, target in found.items():
                done.add(path)
                content = self.contents[self.blobs[target]]
                to = folder / path
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(content)
                if path.endswith(ENDINGS):
                    named = self.named(content, posixpath.dirname(path))
                    waiting += [name for name in named if name not in done]
            waiting = list(dict.fromkeys(waiting))
            if shipped:
                waiting, shipped = [*waiting, *(p for p in shipped if p not in done)], []

    def named(self, content: bytes, base: str) -> Iterable[str]:
        """The paths beside a document that its words may mean: a document is a name or a path."""
        try:
            root = nodes.compose(content.decode("utf-8-sig"), "")
        except (PlanError, UnicodeDecodeError):
            return  # reading it says what is wrong with it
        waiting = [root] if root is not None else []
        while waiting:
            node = waiting.pop()
            waiting += [inner for _, inner in node.children()]
            word = node.value
            if not isinstance(word, str) or not 0 < len(word) < LONGEST_NAME:
                continue
            name = posixpath.normpath(posixpath.join(base, word.replace(os.sep, "/")))
            for path in (name, *(name + ending for ending in ENDINGS)):
                if path.endswith(ENDINGS) and self.target(path) is not None:
                    yield path
