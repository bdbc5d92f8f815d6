"""The arrangement of quantities in a report, which layout.yaml states: a quantity that is not named
there is shown in the section of its prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from planner.base import resources

_SAID = resources.load_beside(__file__)
Pairs = Sequence[tuple[str, str]]
#: Label and id of headline quantities in order; the first four are large.
NUMBERS: Pairs = _SAID["numbers"]
SERVING: Pairs = _SAID["serving"]
REINFORCEMENT: Pairs = _SAID["reinforcement"]
PHASES: Pairs = _SAID["phases"]
#: Ids of the headline quantities of all plans, each once.
HEADLINE_IDS = [*dict.fromkeys(i for _, i in (*NUMBERS, *SERVING, *REINFORCEMENT))]
#: Parts of a step by the names of ``Result.step_parts``: the group of each and its short name.
PARTS_OF_STEP: Mapping[str, tuple[str, str]] = _SAID["parts_of_step"]
#: The groups of these in order, each with the looks of its parts.
GROUP_LOOKS: Mapping[str, Sequence[str]] = _SAID["group_looks"]
#: The look of each kind of work over time; all else is communication. Later looks are on top.
LOOKS: Mapping[str, str] = _SAID["looks"]
#: Titles of prefixes of ids, if not the word itself.
PREFIXES: Mapping[str, str] = _SAID["prefixes"]
#: Inverse questions that a report answers by itself: by name, with the words of the table.
ANSWERS: Mapping[str, str] = _SAID["answers"]
#: What the looks of a timeline are called, and work on the critical path that is not its own word.
LEGEND: Mapping[str, str] = _SAID["legend"]
CALLED: Mapping[str, str] = _SAID["path"]
#: Quantities of a model alone, and of one matmul, by the title of their lines.
MODEL_LINES: Mapping[str, Mapping[str, str]] = _SAID["model"]
MATMUL_LINES: Mapping[str, str] = _SAID["matmul"]
COLLECTIVE_LINES: Mapping[str, str] = _SAID["collective"]
#: What several values of a key are called, and how a sentence begins, by how a plan was chosen.
SEVERAL: Mapping[str, str] = _SAID["several"]
HEADS: Mapping[str, str] = _SAID["heads"]
#: The moments of a step as a panel names them, on two lines.
MOMENTS: Mapping[str, tuple[str, str]] = _SAID["moments"]
#: What the range beside a prediction is.
BETWEEN = "90 % interval from published runs of this kind"

#: What sensitivities are about.
DAYS = "time.training_days"
STEP = "time.step_seconds"


def trim_key(key: str) -> str:
    """Shorten a key: drop the name of its section."""
    return key.removeprefix("parallelism.").removeprefix("training.").removeprefix("cluster.")


class Beside(NamedTuple):
    """A table with a row per entry of an axis and a column per quantity.

    Attributes:
        axis: the name of the axis.
        head: the head of the first column.
        caption: the title of the table.
        columns: the bases of the quantities.
        one_unit: whether all values have one unit, in the caption; otherwise each has its own.
    """

    axis: str
    head: str
    caption: str
    columns: Sequence[str]
    one_unit: bool = False


class Section(NamedTuple):
    """A section: sums as tables with bars, conventions side by side, then all other rows.

    Attributes:
        id: the anchor.
        title: its heading.
        prefixes: the first parts of the ids of its quantities.
        sums: bases whose terms are tables, for each of their instances.
        side_by_side: ids that count the same by different conventions; the first is the reference.
        first: ids of the rows at the top.
        beside: tables by the entries of an axis.
        told: label and id of each number in the section's head.
        lacking: the same of a plan of which a device is too small for the allocator's cache.
        open: whether pages show it unfolded.
    """

    id: str
    title: str
    prefixes: Sequence[str]
    sums: Sequence[str] = ()
    side_by_side: Sequence[str] = ()
    first: Sequence[str] = ()
    beside: Sequence[Beside] = ()
    told: Pairs = ()  # label and id of numbers in the section's head
    lacking: Pairs = ()
    open: bool = False


SECTIONS = tuple(
    Section(**{**row, "beside": [Beside(**table) for table in row.get("beside", ())]})
    for row in _SAID["sections"]
)
#: Sums whose terms a section shows; their derivations omit them.
SHOWN = frozenset(base for section in SECTIONS for base in section.sums)


def get_prefix(identifier: str) -> str:
    """Return the first part of an id or a key."""
    return identifier.partition(".")[0]


def by_prefix(items: Iterable[Any]) -> list[tuple[str, str, list[Any]]]:
    """Group items by the prefix of their ids: prefix, title and items."""
    groups: dict[str, list[Any]] = {}
    for item in items:
        groups.setdefault(get_prefix(item.id), []).append(item)
    return [(start, PREFIXES.get(start, start.capitalize()), g) for start, g in groups.items()]
