"""What a team says of all its plans, as the reader of documents takes it; see ``defaults``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from planner.base import files
from planner.base.errors import PlanError
from planner.documents.yaml_nodes import Node


@dataclass(frozen=True)
class Defaults:
    """The checked content of a trainplan.yaml.

    Attributes:
        file: its path.
        node: with quantities read.
        stated: as written, by key.
        cluster: keys of every cluster.
        rates: what runs of one's own give for built-in accelerators, by name.
    """

    file: Path
    node: Node
    stated: Mapping[str, Node]
    cluster: Mapping[str, Node]
    rates: Mapping[str, Mapping[str, Node]] = field(default_factory=dict)

    @property
    def margin(self) -> str | None:
        """The memory safety margin, as ``--margin`` takes it."""
        said = self.node.plain().get("margin")
        return None if said is None else said if isinstance(said, str) else str(float(said))

    @property
    def reports(self) -> list[Path]:
        """Folders of committed reports.

        Raises:
            PlanError: one of them is not there.
        """
        stated = self.stated.get("reports") or replace(self.node, value=None)
        return [self._resolve_path(node) for _, node in stated.iter_children()]

    def _resolve_path(self, node: Node) -> Path:
        """Return a folder that the file names, relative to itself.

        Raises:
            PlanError: it is no folder, or outside the root.
        """
        found = self.file.parent / str(node.value)
        if not files.is_inside(found):
            raise files.refuse_path(node.place)
        if not os.path.isdir(found):  # also where no folder can be called so
            raise PlanError(f"no such folder '{node.value}'", node.place, "a folder")
        return found
