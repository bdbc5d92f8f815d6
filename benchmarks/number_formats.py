"""The page of number formats, every one in full."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from planner.base.formats import Format, find_exponent, sort_formats
from planner.base.numbers import exact_text, format_compact, scientific
from planner.documents import aliases
from planner.report.precisions import SMALL


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
    near = format_compact(value) if value.denominator <= 2**10 else scientific(value, figures)
    return f"{factor}2^{up} = {near}"


def page() -> str:
    """The page of the documentation: every format in full."""
    formats = sort_formats()
    others = dict(aliases.iter_aliases("precision"))
    lines = [PAGE_HEAD, "", "## What a number becomes", ""]
    lines += ["| format | bytes | epsilon | 1e-8 becomes | off by | also called |"]
    lines += ["| --- | --: | --- | --- | --: | --- |"]
    lines += [
        f"| [{one.format}](#{one.format}) | {exact_text(one.bytes)} | {_power(one.epsilon)} | "
        f"{_becomes(one.round_value(SMALL))} | {_off(one.round_value(SMALL))} | "
        f"{', '.join(others.get(one.format, ()))} |"
        for one in formats
    ]
    lines += ["", BLOCKS, "", "| format | 1e-8 as the largest of its block | beside a 1 |"]
    lines += ["| --- | --- | --- |"]
    lines += [
        f"| {one.format} | {_becomes(one.round_value(SMALL))} | "
        f"{_becomes(one.round_value(SMALL, Fraction(1)))} |"
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
    return f"{format_compact(share) if share.denominator == 1 else scientific(share)} %"


def format_bits(one: Format, value: Fraction) -> str:
    """Format the bits of a number of a format, 0 or above: sign, exponent and fraction, apart."""
    smallest = find_exponent(one.smallest_normal)
    exponent = max(find_exponent(value), smallest) if value else smallest
    biased, rest = exponent + 2 ** (one.exponent - 1) - 1, value / Fraction(2) ** exponent - 1
    if rest < 0:  # no leading one
        biased, rest = 0, rest + 1
    bits = int(rest * 2**one.fraction)
    found = "0" * one.sign, f"{biased:0{one.exponent}b}", f"{bits:0{one.fraction}b}"
    return " ".join(found[: 3 if one.fraction else 2]).strip()


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
            yield f"{format_bits(one, value)}  {name} = {more}"
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

`plan.py list precisions` prints these formats, `plan.py tensor 49152x12288 --precision bf16` the
size of a tensor. A file of presets/formats has the bits of a format, or its elements, block and
scale; all values below are derived exactly (`make pages`). s: sign, e: exponent, f: fraction."""

BLOCKS = """\
Rounded to nearest, ties to even. 1e-8 is AdamW's default epsilon: where it becomes 0, the update
can divide by 0.

In a block with a scale, rounding depends on the largest number of the block: a power-of-two scale
maps it into the largest power of two of an element (OCP Microscaling v1.0, section 6.3), an E4M3
scale to the largest element (with a tensor scale of 1)."""
