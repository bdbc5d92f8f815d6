"""Number formats for people: tables of formats, and the size of tensors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from math import prod

from planner.base import units
from planner.base.display import as_json, columns
from planner.base.errors import PlanError, nearest
from planner.base.formats import Format, load_format, sort_formats
from planner.base.numbers import exact_text, format_compact, scientific
from planner.documents import aliases

#: A number below the reach of half precision: the epsilon that AdamW adds, unless told otherwise.
SMALL = Fraction(1, 10**8)
MIB, MB = 2**20, 10**6
MOST_SIDES, LONGEST_SIDE = 16, 10**12
_BETWEEN = re.compile(r"\s*[x×*,]\s*")
_RUN = re.compile(r"f{24,}")


def format_called(name: str) -> Format:
    """Return the format of a name or alias: `bf16`, `half`, `e4m3`.

    Raises:
        PlanError: no format has this name.
    """
    known = [one.format for one in sort_formats()]
    found = aliases.find_preset("precision", name, known)
    if found is None:
        words = {word: of for of, several in aliases.iter_aliases("precision") for word in several}
        near = nearest(name, [*known, *words])
        allowed = f"one of {', '.join(known)}; see plan.py list precisions"
        raise PlanError(f"unknown precision '{name}'", None, allowed, near)
    return load_format(found)


def find_formats(names: Sequence[str]) -> list[Format]:
    """Return the formats of some names, several in one text allowed; without names all signed
    formats.

    Raises:
        PlanError: no format has this name.
    """
    words = [word for name in names for word in name.replace(",", " ").split(" ") if word]
    found = map(format_called, words) if words else (one for one in sort_formats() if one.sign)
    return list(dict.fromkeys(found))


def parse_sides(text: str, allowed: Sequence[int] = (), wanted: str = "") -> list[int]:
    """Parse the sizes of a shape such as `49152x12288`; suffixes are allowed (`16k`, `4Ki`).

    Args:
        text: numbers with an x, ×, * or comma between them.
        allowed: permitted numbers of sizes, 1 to ``MOST_SIDES`` by default.
        wanted: the sizes in words, for an error.

    Raises:
        PlanError: a size is no whole number above 0, or there are too many or too few.
    """
    such = "such as 16384x32768x8192" if allowed else "such as 49152x12288"
    words = _BETWEEN.split(text.strip()) if len(text) <= units.LONGEST else []
    if len(words) not in (allowed or range(1, MOST_SIDES + 1)):
        said = f"'{text[:80]}': expected {wanted or f'1 to {MOST_SIDES} sizes'}"
        raise PlanError(said, None, such)
    found = []
    for word in words:
        with units.name_faults(f"a side of '{text}'"):
            side = units.parse(word)
        if side.denominator != 1 or not 1 <= side <= LONGEST_SIDE:
            raise PlanError(f"a side of {word}", None, "a whole number from 1 to 1e12")
        found.append(int(side))
    if prod(found) > units.LARGEST:
        raise PlanError(f"'{text}' has too many elements", None, "at most 1e30")
    return found


def tensor(shape: Sequence[int], formats: Sequence[Format]) -> str:
    """Format the size of a tensor in some formats, each with its formula."""
    count, written = exact_text(prod(shape)), " × ".join(map(exact_text, shape))
    head = ("precision", "bytes", "MiB", "MB", "n × bytes + scales × bytes")
    rows = [
        (
            one.format,
            exact_text(one.count_bytes(shape)),
            *(format_compact(Fraction(one.count_bytes(shape), unit)) for unit in (MIB, MB)),
            _format_bytes(one, shape, "n" if len(formats) > 1 else count),
        )
        for one in formats
    ]
    lines = [f"n = {written} = {count} elements", "", *columns([head, *rows], right=(1, 2, 3))]
    if len(formats) == 1:
        name = formats[0].format
        lines[:0] = [f"{rows[0][2]} MiB   {written} in {name}, {formats[0].name}", ""]
    lines += _format_scales(formats, shape)
    return "\n".join(lines) + "\n"


def _format_bytes(one: Format, shape: Sequence[int], count: str) -> str:
    """Format the bytes of a tensor as a product, with those of its scales if it has any."""
    found = f"{count} × {exact_text(one.element_bytes)}"
    if not one.scale:
        return found
    return f"{found} + {exact_text(one.count_scales(shape))} × {exact_text(one.scale_bytes)}"


def _format_scales(formats: Sequence[Format], shape: Sequence[int]) -> list[str]:
    """Format the number of scales, if formats have some."""
    rows, last = exact_text(prod(shape[:-1])), exact_text(shape[-1])
    found = [
        f"scales of {one.format}: {rows} × ⌈{last} / {one.block}⌉ = "
        f"{exact_text(one.count_scales(shape))}, each in {one.scale}"
        for one in formats
        if one.scale
    ]
    return ["", *found] if found else []


def tensor_json(shape: Sequence[int], formats: Sequence[Format]) -> str:
    """Return the same as JSON."""
    found = {
        one.format: {
            "bytes": one.count_bytes(shape),
            "MiB": Fraction(one.count_bytes(shape), MIB),
            "MB": Fraction(one.count_bytes(shape), MB),
            "bytes_per_element": one.bytes,
            "scales": one.count_scales(shape),
            "formula": "elements * bytes" + " + scales * bytes" * (one.scale is not None),
            "substituted": _format_bytes(one, shape, exact_text(prod(shape)))
            .replace("×", "*")
            .replace(",", ""),
        }
        for one in formats
    }
    return as_json({"shape": list(shape), "elements": prod(shape), "precisions": found})


def render_formats() -> list[str]:
    """Format the table of formats: range, bits and aliases."""
    head = ("format", "bytes", "largest", "normal", "subnormal", "epsilon", "1e-8 becomes")
    rows = [
        (
            one.format,
            exact_text(one.bytes),
            *map(
                _format_limit,
                (one.largest, one.smallest_normal, one.smallest_subnormal, one.epsilon),
            ),
            "infinite" if (near := one.round_value(SMALL)) is None else scientific(near, 6),
        )
        for one in sort_formats()
    ]
    others = dict(aliases.iter_aliases("precision"))
    bits = [
        (one.format, _RUN.sub(lambda run: f"f…f ({len(run[0])})", one.picture), others)
        for one in sort_formats()
    ]
    pictures = [(name, bit, ", ".join(words.get(name, ())[:3])) for name, bit, words in bits]
    return [
        *columns([head, *rows], right=range(1, len(head))),
        "",
        *columns([("format", "sign, exponent, fraction", "also called"), *pictures]),
        "",
        "normal, subnormal: the smallest number with a leading one, and without;",
        "epsilon: from 1 to the next number; of blocks with a scale, 1e-8 is what it",
        "becomes where it is the block's largest, and the limits are under any scale.",
        "docs/precisions.md has every digit and the sources.",
    ]


def _format_limit(value: Fraction) -> str:
    """Format a number in at most nine characters."""
    text = exact_text(value) if value.denominator <= 2**20 else "/" * 10
    return text if len(text) <= 9 else scientific(value)
