"""What ships: presets by kind with what tells them apart, number formats, quantities.

The bits of a number format are facts (presets/formats); everything else of it is derived, exactly.
Values are in the format's own unit; the bias of an exponent of e bits is 2^(e-1) - 1 (IEEE
754-2019, section 3.3).
"""

from __future__ import annotations

import contextlib
from fractions import Fraction
from typing import NamedTuple

from planner.base import resources
from planner.base.display import columns
from planner.base.errors import PlanError
from planner.documents import source

#: Kinds of presets as they are listed, and the kind of a document of each.
KINDS = {folder or "plans": kind for kind, folder in source.FOLDERS.items()}
#: What else than its name tells documents of a kind apart: a key, and what its value counts.
FACTS = {"cluster": {"devices": " devices"}, "accelerator": {"memory": ""}}


def listing(what: str | None = None) -> str:
    """The table of one kind; without a kind, of every kind of preset."""
    if what is not None:
        return "".join(f"{line}\n" for line in columns(_rows(what)))
    sections = ([kind, *columns(_rows(kind), indent="  "), ""] for kind in KINDS)
    return "\n".join(line for section in sections for line in section)


def _rows(what: str) -> list[tuple[str, ...]]:
    if what == "precisions":
        heading = tuple(name.replace("_", " ") for name in Format._fields)
        found = ((one.format, *(f"{float(value):.6g}" for value in one[1:])) for one in formats())
        return [heading, *found]
    if what == "quantities":
        import planner.book.formulas  # noqa: F401  (registers the quantities)
        from planner.book.quantity import BOOK

        return [
            (i, q.unit, q.title, f"per {', '.join(q.per)}" if q.per else "")
            for i, q in sorted(BOOK.quantities.items())
        ]
    kind = KINDS[what]
    folder = resources.folder("presets") / source.FOLDERS[kind]
    rows = []
    for name in source.preset_names(kind):
        with contextlib.suppress(PlanError):
            # What a plan names is not looked up.
            data = source.load(folder / f"{name}.yaml", kind="" if kind == "plan" else kind).data
            facts = [f"{data.get(key, '')}{unit}" for key, unit in FACTS.get(kind, {}).items()]
            rows.append((name, str(data.get("name", "")), *facts))
    return rows


# number formats ----------------------------------------------------------------------------

TWO = Fraction(2)


class Format(NamedTuple):
    """A binary floating-point format, as ``plan.py list precisions`` has it in columns."""

    format: str
    bytes: Fraction
    #: Bits.
    sign: int
    exponent: int
    fraction: int
    #: The largest finite number: the highest exponent with the highest fraction.
    largest: Fraction
    #: The smallest number with a leading one.
    smallest_normal: Fraction
    #: From 1 to the next number.
    epsilon: Fraction


def formats() -> list[Format]:
    """The formats that ship, wide ones first."""
    found = []
    for path in (resources.folder("presets") / "formats").glob("*.yaml"):
        said = resources.read_yaml(path)
        sign, exponent, fraction = said["sign"], said["exponent"], said["fraction"]
        # In memory a number may take more bits than it has.
        bits = said.get("storage", sign + exponent + fraction)
        bias, epsilon = 2 ** (exponent - 1) - 1, TWO**-fraction
        largest = (2 - epsilon) * TWO**bias
        if not said["infinities"]:  # the top exponent holds numbers but for one pattern (NaN)
            largest = (2 - 2 * epsilon) * TWO ** (bias + 1)
        limits = largest, TWO ** (1 - bias), epsilon
        found.append(Format(path.stem, Fraction(bits, 8), sign, exponent, fraction, *limits))
    return sorted(found, key=lambda f: (-f.bytes, -f.exponent - f.fraction, f.exponent, f.format))
