"""Writes schemas/units.schema.json and names.schema.json anew: `python -m benchmarks.schemas`.

They say as JSON Schema which texts `planner.base.units.parse` reads as a quantity of each unit, and
which names have a built-in document.
"""

from __future__ import annotations

import re
from itertools import permutations
from typing import Any

from planner.base import files, units
from planner.documents import schema_files
from planner.documents.references import FOLDERS, preset_names

UNITS = (
    "1", "tokens", "parameters", "sequences", "bytes", "bytes/s", "FLOP/s", "Hz", "s", "days", "W",
    "USD/h", "USD/kWh", "USD/GB", "USD/GB/month", "kgCO2e/kWh",
)  # fmt: skip


def derive_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas that are derived from the units and the built-in documents, by kind."""
    quantities = {
        unit: {
            "description": re.sub("^.", lambda first: first[0].upper(), units.describe_unit(unit))
            + ".",
            "type": ["string", "null"],
            "maxLength": units.LONGEST,
            "pattern": build_pattern(unit),
        }
        for unit in UNITS
    }
    names: dict[str, Any] = {
        kind: {
            "description": f"A {kind} that ships, by its name, or "
            + ("NAME@YEAR-MONTH, as it was then." if kind == "stack" else "any by its path."),
            "anyOf": [{"enum": preset_names(kind)}, {"type": "string", "minLength": 1}],
        }
        for kind in FOLDERS
    }
    names["file"] = {"type": "string", "pattern": r"\.ya?ml$"}
    taken = "Takes away what the extended document gives."
    names["nothing"] = {"description": taken, "type": "null"}
    titles = {
        "units": ("Quantities", "Quantities as text, by unit.", quantities),
        "names": ("Names", "Names and paths of documents, by kind.", names),
    }
    return {
        kind: {
            "$schema": schema_files.DRAFT,
            "title": title,
            "description": text,
            "definitions": definitions,
        }
        for kind, (title, text, definitions) in titles.items()
    }


def build_pattern(unit: str) -> str:
    """Build the regular expression of all texts that `parse` reads as a quantity of a unit; Python
    and ECMAScript (with its flag u) read it alike."""
    names: dict[units.Dimension, list[str]] = {}
    for name, (_, dim) in units._UNITS.items():
        if name != "1":
            names.setdefault(dim, []).append(name)
    words = {dim: f"(?:{'|'.join(found)})" for dim, found in names.items()}
    slash, line = (
        f"{units._GAP}/{units._GAP}",
        f"(?:{units._GAP}/{units._GAP}|{units._SPACE}per{units._SPACE})",
    )
    joint = f"(?:{units._JOINT}|[ -])"

    def below_line(dims: tuple[units.Dimension, ...], first: str) -> str:
        ways = [""] if not dims else []
        for way in permutations([words[dim] for dim in dims] if dims else []):
            ways += [first + f"(?:{line}|[ -])".join(way)] if way else []
            ways += [rf"{slash}\({joint.join(way)}\)"] if len(way) > 1 else []
        return f"(?:{'|'.join(ways)})"

    named, alone = [], []
    for above, below in sorted(units._list_forms(unit), key=str):
        if above:
            upper = "|".join(joint.join(words[dim] for dim in way) for way in permutations(above))
            named.append(f"(?:{upper}){below_line(below, line)}")
        else:
            alone.append(below_line(below, slash))
    target = units._parse_unit(unit)[1]
    magnitude = f"(?:{'|'.join(units.MAGNITUDES)})"
    if units._is_bytes(target):
        after = [units._GAP + each for each in named]
    else:
        after = [f"{units._GAP}(?:{magnitude}{units._SPACE})?{each}" for each in named]
        after += [units._GAP + magnitude] if not target.drop_counts() else []
    after += alone
    suffix = f"(?:{'|'.join(after)})"
    digits = f"(?:[0-9]{{1,3}}(?:{units._GROUP}[0-9]{{3}})+|[0-9]+(?:_[0-9]+)*)"
    power = "(?:[eE][+-]?0*(?:[0-3]?[0-9]{1,2}|400))?"
    fraction = "[0-9]+(?:_[0-9]+)*"
    share = "[0-9]{1,18}/(?!0+(?![0-9]))[0-9]{1,18}(?![0-9])"
    number = rf"(?:{digits}(?:\.(?:{fraction})?)?|\.{fraction}){power}"
    amount = rf"[+\-\u2212]?(?:{share}|{number})"
    if units._is_plain(target):
        read = f"{amount}{suffix}?"
    else:  # nothing is the same in every unit
        zero = amount.replace("[0-9]+", "0+").replace("(?:[0-9]{", "(?:0{")
        zero = zero.replace("[0-9]{3}", "0{3}")
        read = f"{zero}|{amount}{suffix}"
    hour = "" if unit != "USD/h" else f"(?:{units._GAP}/{units._GAP}h(?:our)?)?"
    dollars = rf"\${units._GAP}{amount}{units._GAP}(?:{'|'.join(units.MAGNITUDES)})?{hour}"
    money = f"|{dollars}" if "USD" in unit else ""
    return f"^{units._GAP}(?:{read}{money}){units._GAP}$"


def main() -> None:
    """Write units.schema.json and names.schema.json."""
    for kind, schema in derive_schemas().items():
        files.write_text(schema_files.find_schema(kind), schema_files.format_schema(schema))


if __name__ == "__main__":
    main()
