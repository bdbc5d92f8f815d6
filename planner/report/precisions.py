"""Number formats for people: as a table, as a page of the documentation, and tensors in them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod

from planner.base import units
from planner.base.display import as_json, columns, digits, exact_text, scientific
from planner.base.errors import Fault, PlanError, nearest
from planner.base.formats import Format, named, shipped
from planner.documents import aliases

#: A number below the reach of half precision: the epsilon that AdamW adds, unless told otherwise.
SMALL = Fraction(1, 10**8)
MIB, MB = 2**20, 10**6
MOST_SIDES, LONGEST_SIDE = 16, 10**12
_BETWEEN = re.compile(r"\s*[x×*,]\s*")
_RUN = re.compile(r"f{24,}")


def format_called(name: str) -> Format:
    """The format of a name, its own or another that people use: `bf16`, `half`, `e4m3`.

    Raises:
        PlanError: no format is called so.
    """
    known = [one.format for one in shipped()]
    found = aliases.preset("precision", name, known)
    if found is None:
        words = {word: of for of, several in aliases.names("precision") for word in several}
        near = nearest(name, [*known, *words])
        allowed = f"one of {', '.join(known)}; see plan.py list precisions"
        raise PlanError(Fault(f"unknown precision '{name}'", None, allowed, near))
    return named(found)


def formats_called(names: Sequence[str]) -> list[Format]:
    """The formats of some names, of which one text may hold several; where there are none, all
    that numbers with a sign are kept in.

    Raises:
        PlanError: no format is called so.
    """
    words = [word for name in names for word in name.replace(",", " ").split(" ") if word]
    found = map(format_called, words) if words else (one for one in shipped() if one.sign)
    return list(dict.fromkeys(found))


def sides(text: str, means: str = "") -> list[int]:
    """The sides of a shape such as `49152x12288`, each of which may have a suffix (`16k`, `4Ki`).

    Args:
        text: numbers with an x, ×, * or comma between them.
        means: what each side is, one letter a side, where there must be so many (`BDK`).

    Raises:
        PlanError: a side is no whole number above 0, or there are too many or too few.
    """
    such = f"such as {'x'.join(means)} = 16384x32768x8192" if means else "such as 49152x12288"
    words = _BETWEEN.split(text.strip()) if len(text) <= units.LONGEST else []
    if len(words) != len(means) if means else not 1 <= len(words) <= MOST_SIDES:
        wanted = str(len(means)) if means else f"1 to {MOST_SIDES}"
        raise PlanError(Fault(f"'{text[:80]}' is no shape of {wanted} sides", None, such))
    found = []
    for word in words:
        try:
            side = units.parse(word)
        except units.UnitError as error:
            raise PlanError(Fault(f"a side of '{text}': {error.message}", None, such)) from None
        if side.denominator != 1 or not 1 <= side <= LONGEST_SIDE:
            raise PlanError(Fault(f"a side of {word}", None, "a whole number from 1 to 1e12"))
        found.append(int(side))
    if prod(found) > units.LARGEST:
        raise PlanError(Fault(f"'{text}' has too many elements", None, "at most 1e30"))
    return found


# Tensors --------------------------------------------------------------------------------------


def tensor(shape: Sequence[int], formats: Sequence[Format]) -> str:
    """What a tensor takes in some formats, each with the formula that says so."""
    count, written = exact_text(prod(shape)), " × ".join(map(exact_text, shape))
    head = ("precision", "bytes", "MiB", "MB", "n × bytes + scales × bytes")
    rows = [
        (
            one.format,
            exact_text(one.size(shape)),
            *(_decimal(Fraction(one.size(shape), unit)) for unit in (MIB, MB)),
            _formula(one, shape, "n" if len(formats) > 1 else count),
        )
        for one in formats
    ]
    lines = [f"n = {written} = {count} elements", "", *columns([head, *rows], right=(1, 2, 3))]
    if len(formats) == 1:
        name = formats[0].format
        lines[:0] = [f"{rows[0][2]} MiB   {written} in {name}, {formats[0].name}", ""]
    lines += _of_blocks(formats, shape)
    return "\n".join(lines) + "\n"


def _decimal(value: Fraction) -> str:
    text, power = digits(value)
    return text if power is None else f"{text}e{power}"


def _formula(one: Format, shape: Sequence[int], count: str) -> str:
    found = f"{count} × {exact_text(one.element_bytes)}"
    if not one.scale:
        return found
    return f"{found} + {exact_text(one.scales(shape))} × {exact_text(one.scale_bytes)}"


def _of_blocks(formats: Sequence[Format], shape: Sequence[int]) -> list[str]:
    """How many scales there are, where formats have some."""
    rows, last = exact_text(prod(shape[:-1])), exact_text(shape[-1])
    found = [
        f"scales of {one.format}: {rows} × ⌈{last} / {one.block}⌉ = "
        f"{exact_text(one.scales(shape))}, each in {one.scale}"
        for one in formats
        if one.scale
    ]
    return ["", *found] if found else []


def tensor_json(shape: Sequence[int], formats: Sequence[Format]) -> str:
    """The same as JSON."""
    found = {
        one.format: {
            "bytes": one.size(shape),
            "MiB": Fraction(one.size(shape), MIB),
            "MB": Fraction(one.size(shape), MB),
            "bytes_per_element": one.bytes,
            "scales": one.scales(shape),
            "formula": "elements * bytes" + " + scales * bytes" * (one.scale is not None),
            "substituted": _formula(one, shape, exact_text(prod(shape)))
            .replace("×", "*")
            .replace(",", ""),
        }
        for one in formats
    }
    return as_json({"shape": list(shape), "elements": prod(shape), "precisions": found})


# Tables ---------------------------------------------------------------------------------------


def listing() -> list[str]:
    """The formats for a terminal: what they reach, their bits, and what else they are called."""
    head = ("format", "bytes", "largest", "normal", "subnormal", "epsilon", "1e-8 becomes")
    rows = [
        (
            one.format,
            exact_text(one.bytes),
            *map(_short, (one.largest, one.smallest_normal, one.smallest_subnormal, one.epsilon)),
            _rounded(one.nearest(SMALL), 6),
        )
        for one in shipped()
    ]
    others = dict(aliases.names("precision"))
    bits = [
        (one.format, _RUN.sub(lambda run: f"f…f ({len(run[0])})", one.picture), others)
        for one in shipped()
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


def _short(value: Fraction) -> str:
    """A number in nine letters."""
    text = exact_text(value) if value.denominator <= 2**20 else "/" * 10
    return text if len(text) <= 9 else scientific(value)


def _rounded(value: Fraction | None, figures: int) -> str:
    return "infinite" if value is None else scientific(value, figures)


def _power(value: Fraction, figures: int = 6) -> str:
    """A number in full, as a multiple of a power of two where that is shorter, and rounded."""
    text = exact_text(value)
    if value.denominator == 1 and len(text) <= 10:
        return text
    low = (value.denominator & -value.denominator).bit_length() - 1
    odd, up = value.numerator, -low
    while odd % 2 == 0:
        odd, up = odd // 2, up + 1
    factor = "" if odd == 1 else f"{exact_text(odd)} × "
    near = _decimal(value) if value.denominator <= 2**10 else scientific(value, figures)
    return f"{factor}2^{up} = {near}"


def page() -> str:
    """The page of the documentation: every format in full."""
    formats = shipped()
    others = dict(aliases.names("precision"))
    lines = [PAGE_HEAD, "", "## What a number becomes", ""]
    lines += ["| format | bytes | epsilon | 1e-8 becomes | off by | also called |"]
    lines += ["| --- | --: | --- | --- | --: | --- |"]
    lines += [
        f"| [{one.format}](#{one.format}) | {exact_text(one.bytes)} | {_power(one.epsilon)} | "
        f"{_becomes(one.nearest(SMALL))} | {_off(one.nearest(SMALL))} | "
        f"{', '.join(others.get(one.format, ()))} |"
        for one in formats
    ]
    lines += ["", BLOCKS, "", "| format | 1e-8 as the largest of its block | beside a 1 |"]
    lines += ["| --- | --- | --- |"]
    lines += [
        f"| {one.format} | {_becomes(one.nearest(SMALL))} | "
        f"{_becomes(one.nearest(SMALL, Fraction(1)))} |"
        for one in formats
        if one.scale
    ]
    for one in formats:
        lines += ["", f"## {one.format}", "", f"{one.name}.", "", *_in_full(one)]
        lines += ["", f"Source: {one.source}."]
    return "\n".join(lines) + "\n"


def _becomes(value: Fraction | None) -> str:
    return _power(value, 9) if value else "0"


def _off(value: Fraction | None) -> str:
    """By how much of it 1e-8 is missed."""
    share = abs((value or Fraction(0)) - SMALL) / SMALL * 100
    return f"{_decimal(share) if share.denominator == 1 else scientific(share)} %"


def _in_full(one: Format) -> Iterator[str]:
    yield "```text"
    yield one.picture
    if one.scale is None:
        numbers = [
            ("smallest subnormal", one.smallest_subnormal),
            ("smallest normal", one.smallest_normal),
            ("one", Fraction(1)),
            ("the next one", 1 + one.epsilon),
            ("largest", one.largest),
        ]
        for name, value in numbers if one.zero else numbers[1:]:
            more = f"1 + {_power(one.epsilon)}" if name == "the next one" else _power(value)
            yield f"{one.pattern(value)}  {name} = {more}"
    else:
        yield f"{exact_text(one.bytes * 8)} bits a number: {one.unscaled.format} and {one.scale}"
        for name, value in (
            ("smallest subnormal", one.smallest_subnormal),
            ("smallest normal", one.smallest_normal),
            ("largest", one.largest),
        ):
            yield f"{name}, under the {name.split()[0]} scale = {_power(value)}"
    yield "```"


PAGE_HEAD = """\
# Number formats

Made from presets/formats by `make pages`; `plan.py list precisions` prints it for a terminal, and
`plan.py tensor 49152x12288 --precision bf16` what a tensor takes. A format is a file that says its
bits, or its elements, block and scale; limits, rounding and bits below are derived from that,
exactly. s is the sign, e the exponent, f the fraction."""

BLOCKS = """\
Rounded to the nearest, a tie to the even one. 1e-8 is what AdamW adds to the root of the second
moment unless told otherwise: where it becomes 0, nothing keeps that division from one by 0.

In a block with a scale, what is left of a number depends on its neighbours: a scale that is a power
of two puts the largest of them into the largest power of two of an element (OCP Microscaling v1.0,
section 6.3), one in E4M3 puts it at the largest element (its further scale of the whole tensor is
taken as 1)."""
