"""The keys of a layout, a row of layout.yaml each.

A key that divides devices or experts is searched, shown in tables and by ``solve``, kept by
``parallelism: auto`` and set on the page by its row alone; the formulas that use its symbol decide
its effect on memory and time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from planner.base import resources

#: How the search finds the values of a key: the places of rows.
OUTER, INNER, OF_PIPELINE, OF_ROW, CROSSED, FOLLOWING, OTHERWISE, OF_KERNELS = (
    "outer", "inner", "pipeline", "row", "crossed", "following", "otherwise", "kernels",
)  # fmt: skip
#: What a degree may divide, of which some rules ask.
LAYERS, EXPERTS = "layers", "experts"


class LayoutKey(NamedTuple):
    """One key of a layout: a row of layout.yaml, which says what each attribute is."""

    key: str
    place: str
    heading: str = ""
    neutral: Any = None
    divides: str = ""
    size: str = ""
    values: tuple[Any, ...] = ()
    refines: str = ""
    like: str = ""
    over: tuple[str, ...] = ()
    title: str = ""
    stated: bool = False
    kept: bool = False

    @property
    def name(self) -> str:
        """The key within its section."""
        return self.key.partition(".")[2]

    def step_value(self, value: Any, up: bool) -> Any:
        """Return the next value up or down: of those that a search tries, else the double or the
        half; None where there is none."""
        if self.values:
            place = self.values.index(value) + (1 if up else -1)
            return self.values[place] if 0 <= place < len(self.values) else None
        return 2 * value if up else value // 2 if value % 2 == 0 else None


_GIVEN: list[dict[str, Any]] = resources.load_beside(__file__)
ROWS = tuple(
    LayoutKey(**{**row, **{k: tuple(v) for k, v in row.items() if isinstance(v, list)}})
    for row in _GIVEN
)
ROW = {row.key: row for row in ROWS}


def filter_keys(*places: str) -> tuple[str, ...]:
    """List the keys whose values the search finds in one of some ways, by way and then by row."""
    return tuple(row.key for place in places for row in ROWS if row.place == place)


#: What divides devices, by name: all of them, and with those that divide the devices of a stage.
OUTER_DEGREES = tuple(ROW[key].name for key in filter_keys(OUTER))
DEGREES = tuple(ROW[key].name for key in filter_keys(OUTER, INNER))
#: Of each size that follows, what it takes together with it to make all devices; and those that
#: follow only once it is known how an expert is divided.
QUOTIENTS = {"data": OUTER_DEGREES, **{row.name: row.over for row in ROWS if row.over}}
AFTER_EXPERTS = tuple(name for name in QUOTIENTS if name != "data")
#: What goes with the stages of a pipeline, with each layout, and with all layouts.
RUN, OWN, AXES = filter_keys(OF_PIPELINE), filter_keys(OF_ROW), filter_keys(CROSSED)
#: Keys that a search chooses, or that are fixed to a value.
KEYS = (
    *filter_keys(OUTER, INNER),
    *(row.key for row in ROWS if row.place in (OF_PIPELINE, OF_ROW, CROSSED)),
)
#: Whose kernels run, and their loss: what follows from the degrees where the plan says nothing.
OWN_CHOICE = filter_keys(OF_KERNELS)
KERNELS = OWN_CHOICE[0]
#: What follows from the keys of ``KEYS``, and what a search of these must not keep.
FOLLOWS = filter_keys(FOLLOWING, OF_KERNELS)
CLEARED = filter_keys(FOLLOWING, OTHERWISE)
#: The layout that divides nothing.
UNDIVIDED = {key: ROW[key].neutral for key in KEYS if not isinstance(ROW[key].neutral, str)}
#: Keys that decide, besides the axes, which tensors a layer saves.
KEPT = tuple(row.key for row in ROWS if row.kept)


#: The rows that tables print, each with those that refine it.
COLUMNS = tuple(
    row
    for first in ROWS
    if not first.refines
    for row in (first, *(other for other in ROWS if other.refines == first.name))
    if row.heading
)


def pick_shown(
    get: Callable[[str], Any], keys: Collection[str] = ROW
) -> Iterator[tuple[LayoutKey, Any]]:
    """Yield those of some keys whose values must be shown (not neutral, or always ``stated``), with
    their values; ``get`` returns the value of a key."""
    for row in COLUMNS:
        value = get(row.key)
        if row.key in keys and value is not None and (row.stated or value != row.neutral):
            yield row, value


def label_layout(get: Callable[[str], Any], keys: Collection[str] = ROW) -> str:
    """Describe a layout in a few words, by the values that ``stated`` yields."""
    shown = (f"{row.heading} {format_option(value)}" for row, value in pick_shown(get, keys))
    return ", ".join(shown) or "nothing divided"


def format_option(value: Any) -> str:
    """Format a value as it is shown: yes or no, or itself."""
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
