"""Defaults of a team: the trainplan.yaml at the root of a repository, found upwards from a plan.

What it says comes before what ships and after what plans say. A plan that is given as data, as
text or by the name of one that ships has none unless it is asked for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path

from planner.base import files
from planner.base.errors import PlanError
from planner.documents import references, schema, source
from planner.documents.references import preset_names
from planner.documents.team import Defaults
from planner.documents.yaml_nodes import Node

NAME = "trainplan.yaml"
#: Folders that mark the root of a repository.
ROOTS = (".git", ".hg")
#: Keys of a cluster that do not describe its devices; they apply to every cluster.
OF_CLUSTERS = (
    "price", "reserved_price", "provider", "purchase", "term", "pue", "carbon_intensity",
    "host_power", "storage", "failures", "stragglers",
)  # fmt: skip
#: Keys of an accelerator that ``plan.py calibrate`` writes.
RATES = ("efficiency", "calibration")

#: Explicit defaults, which replace those around a document.
Asked = str | Path | Defaults | bool | None

_OFF: ContextVar[bool] = ContextVar("off", default=False)


@contextlib.contextmanager
def ignore_defaults() -> Iterator[None]:
    """Ignore every trainplan.yaml inside the block (a server passes its defaults explicitly)."""
    with files.set_variable(_OFF, True):
        yield


def find_defaults(document: object, asked: Asked = None) -> Defaults | None:
    """Return the team defaults of a document, None where there are none.

    Args:
        document: a path; anything else has none, nor has a shipped plan that is named.
        asked: defaults, or a file of them, in the place of what is found, or False for none.

    Raises:
        PlanError: a file of defaults that is not as it should be.
    """
    if isinstance(asked, Defaults):
        return asked
    if is_left_out(asked):
        return None
    if asked not in (None, True):
        return load_defaults(Path(str(asked)))
    found = locate_defaults(document)
    return None if found is None else load_defaults(found)


def is_left_out(asked: object) -> bool:
    """Return whether a trainplan.yaml around a document is ignored; ``asked`` as for ``of``."""
    return asked is False or (_OFF.get() and asked in (None, True))


def locate_defaults(document: object) -> Path | None:
    """Find the trainplan.yaml in whose repository a document is; None for built-in plans."""
    if not isinstance(document, (str, Path)) or str(document) == "-":
        return None
    if not files.is_file(document) and str(document) in preset_names("plan"):
        return None
    return find_trainplan(Path(document).parent)


def find_trainplan(folder: Path) -> Path | None:
    """Find the trainplan.yaml in a folder or in those around it, up to the root of the repository
    or of what may be read."""
    here = Path(os.path.abspath(folder))
    for around in (here, *here.parents):
        if not files.is_inside(around):
            return None
        if os.path.lexists(around / NAME):
            here = Path.cwd()  # people name a folder above or below it relatively
            near = files.is_within(around, here) or files.is_within(here, around)
            return Path(os.path.relpath(around / NAME)) if near else around / NAME
        if any((around / root).exists() for root in ROOTS) or files.is_top(around):
            return None
    return None


def load_defaults(file: Path) -> Defaults:
    """Load and check a file of defaults and the rates that it names.

    Raises:
        PlanError: every fault.
    """
    raw = source.load(file, kind="defaults")
    if (templates := raw.node.find("templates")) is not None:
        where = "--templates DIR, on the command line"
        raise PlanError("no file can choose templates", templates.place, where)
    document = schema.validate(raw, "defaults")
    entries = raw.node.entries
    cluster = {key: entries[key] for key in OF_CLUSTERS if key in entries}
    rates: dict[str, Mapping[str, Node]] = {}
    named = raw.node.find("rates")
    several = [] if named is None else named.value if isinstance(named.value, list) else [named]
    for node in several:
        name, found = _read_rates(node, file.parent)
        if name in rates:
            raise PlanError(f"two documents have rates of {name}", node.place, "one of them")
        rates[name] = found
    return Defaults(file, document.node, entries, cluster, rates)


def _read_rates(node: Node, folder: Path) -> tuple[str, Mapping[str, Node]]:
    """Read what ``plan.py calibrate`` wrote: the built-in accelerator and its rates."""
    path = folder / str(node.value)
    if not files.is_file(path):
        raise PlanError(f"no such file '{node.value}'", node.place, "a document of calibrate")
    schema.validate(source.load(path, kind="cluster"), "cluster")
    root = references.read_document(path)
    extends, accelerator = root.find("accelerator.extends"), root.find("accelerator")
    own = accelerator.entries if accelerator else {}
    found = {key: own[key] for key in RATES if key in own}
    if extends is None or extends.value not in preset_names("accelerator") or not found:
        what = f"'{node.value}' has no rates of a built-in accelerator"
        raise PlanError(what, node.place, "what plan.py calibrate -o FILE wrote")
    return str(extends.value), found
