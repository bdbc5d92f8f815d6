"""Quantities are read exactly, printed with fixed rounding, and faults say what to write."""

from __future__ import annotations

import re
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.schemas import build_pattern
from planner.base import numbers
from planner.base.display import plain
from planner.base.numbers import exact_text, plain_text, round_digits, scientific
from planner.base.units import (
    LONGEST,
    Dimension,
    UnitError,
    find_dimension,
    parse,
    parse_number,
    to_whole,
)
from tests.conftest import read_data

F = Fraction
GROUP = ","
TABLES = read_data("units")


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        *TABLES["read"],
        (4096, "tokens", 4096),
        (80, "bytes", 80),
        (F(1, 3), "s", F(1, 3)),
        (0.1, "1", F(1, 10)),
        (0, "W", 0),
    ],
)
def test_reads_exactly(text: str, unit: str, value: str | Fraction) -> None:
    found = parse(text, unit)
    assert found == F(value)
    assert type(found) is (int if F(value).denominator == 1 else F)


@pytest.mark.parametrize(
    ("text", "unit", "hint"),
    [
        *TABLES["refused"],
        (float("nan"), "1", None),
        (float("inf"), "s", None),
        (10**1000, "1", None),
        ("9" * 10_000, "1", None),
    ],
)
def test_refuses_and_suggests(text: object, unit: str, hint: str | None) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text, unit)  # type: ignore[arg-type]
    assert caught.value.hint == hint
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("unit", read_data("base")["written_prices"])
def test_a_price_as_people_write_it(unit: str) -> None:
    assert parse(f"2.5 {unit}", "USD/h") == F(5, 2)


@pytest.mark.parametrize("unit", ["USD/GPU", "USD*h", "USD//h", "USD/", "USD/token", "GPU-hour"])
def test_what_is_no_price(unit: str) -> None:
    with pytest.raises(UnitError):
        parse(f"2.5 {unit}", "USD/h")


def test_only_prices_are_per_device_by_themselves() -> None:
    """Storage that all devices write to together has no rate per device."""
    assert parse("48 USD/device-day", "USD/h") == 2
    with pytest.raises(UnitError):
        parse("2 TB/s per device", "bytes/s")


@given(st.text(max_size=300), st.sampled_from(["bytes", "tokens", "1", "FLOP/s", "USD/h", "s"]))
def test_any_text_is_read_or_refused(text: str, unit: str) -> None:
    with suppress(UnitError):
        assert type(parse(text, unit)) in (int, F)


NUMBERS_AND_UNITS = st.from_regex(
    r"[-+]?[0-9_.,]{1,8}(e[-+]?[0-9]{1,4})? ?[kMGTPBbsdhiW/%^*1-]{0,6}", fullmatch=True
)


@given(NUMBERS_AND_UNITS, st.sampled_from(["bytes", "tokens", "1", "FLOP/s", "W", "bytes/s"]))
def test_nearly_right_text_is_read_or_refused(text: str, unit: str) -> None:
    with suppress(UnitError):
        assert type(parse(text, unit)) in (int, F)


@given(
    st.integers(-(10**30), 10**30),
    st.integers(0, 12),
    st.sampled_from(
        ["bytes", "GiB", "Gb/s", "TFLOP/s", "ms", "days", "kWh", "USD/h", "tokens", "kgCO2e/kWh"]
    ),
)
def test_what_is_written_in_a_unit_is_read_back(digits: int, decimals: int, unit: str) -> None:
    value = F(digits, 10**decimals)
    sign = "-" if value < 0 else ""
    whole, part = divmod(abs(digits), 10**decimals)
    text = f"{sign}{whole}.{part:0{decimals}d}" if decimals else str(digits)
    assert parse(f"{text} {unit}", unit) == value


@given(st.fractions())
def test_plain_text_is_read_back(value: Fraction) -> None:
    text = plain_text(value)
    if "/" not in text and len(text) < 200:
        assert parse_number(text) == value


def test_dimensions_multiply() -> None:
    power = find_dimension("W")
    assert power * find_dimension("s") == find_dimension("J") == find_dimension("kWh")
    assert (
        find_dimension("GB/s") / find_dimension("GB")
        == find_dimension("Hz")
        == find_dimension("s") ** -1
    )
    assert (find_dimension("bytes") ** 2) ** F(1, 2) == find_dimension("bytes")
    assert find_dimension("USD/h per device") == find_dimension("USD") / find_dimension("h*device")
    assert not find_dimension("GB") / find_dimension("bit")
    assert find_dimension("tokens") != find_dimension("parameters")
    assert str(find_dimension("FLOP/s")) == "FLOP/s"
    with pytest.raises(KeyError):
        Dimension.from_powers(furlong=1)


DIMENSIONS = st.dictionaries(
    st.sampled_from(["byte", "s", "J", "token", "FLOP"]), st.integers(-3, 3)
).map(lambda powers: Dimension.from_powers(**powers))


@given(DIMENSIONS, DIMENSIONS, st.integers(-3, 3))
def test_dimensions_form_a_group(one: Dimension, two: Dimension, power: int) -> None:
    assert one * two == two * one
    assert one / one == Dimension()
    assert (one * two) ** power == one**power * two**power
    assert one * two / two == one
    assert hash(one * two) == hash(two * one)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    TABLES["printed"],
)
def test_prints_for_people(value: str, unit: str, text: str) -> None:
    assert numbers.text(to_whole(F(value)), unit) == text


def test_prints_the_other_ways() -> None:
    assert numbers.text(70_553_706_496, "parameters") == "70.6B parameters"
    assert numbers.text(F(12345, 1000), "1", digits=2) == "12"
    assert exact_text(3_556_769_792) == f"3{GROUP}556{GROUP}769{GROUP}792"
    assert exact_text(3_556_769_792, ",") == "3,556,769,792"
    assert exact_text(-1234) == f"-1{GROUP}234"
    assert exact_text(F(1, 3)) == "1/3"
    assert exact_text(F(1, 80)) == "0.0125"


def test_prints_numbers_of_any_size() -> None:
    assert numbers.text(10**5000) == exact_text(10**5000) == "1.00e5000"
    assert numbers.text(F(1, 10**5000)) == "1.00e−5000"


@given(st.fractions(), st.integers(1, 9))
def test_rounding_is_within_half_a_digit(value: Fraction, digits: int) -> None:
    found = round_digits(value, digits)
    step = F(10) ** (found.adjusted() - digits + 1)
    assert abs(F(found) - value) <= step / 2
    assert F(found) % step == 0
    assert F(scientific(value, digits)) == F(found)


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**6))
def test_json_has_whole_numbers_as_they_are_and_others_as_floats(above: int, below: int) -> None:
    whole, part = plain({"a": [Fraction(above), Fraction(above, below)]})["a"]
    assert isinstance(whole, int) and whole == above
    assert part == above / below and isinstance(part, float) == (above % below != 0)


def test_a_share_without_a_decimal_is_a_fraction() -> None:
    assert parse("2/3") == Fraction(2, 3) and parse("20/132") == Fraction(5, 33)
    for wrong in ("1/0", "1/", "2/3/4", "2/3 GiB"):
        with pytest.raises(UnitError):
            parse(wrong)


KEYS = ["1", "tokens", "bytes", "bytes/s", "s", "Hz", "W", "USD/h", "FLOP/s", "kgCO2e/kWh"]
PIECES = read_data("base")["pieces_of_units"]
LIKELY = st.tuples(
    st.sampled_from(["5", "0", "2.5", "1e9", "1_000", "3/4", "0/1", "-1.", ".5e-3", "1__0", "1_"]),
    st.sampled_from(["", " ", "\u202f"]),
    st.sampled_from(["", "", "M ", "T", "million ", "k"]),
    st.sampled_from(
        ["", "GB", "tokens", "USD", "TFLOP", "TFLOPS", "kg", "g", "Gbps", "W", "Hz", "h", "%"]
    ),
    st.sampled_from(["", "/", " / ", " per ", "/(", "-", " ", "*"]),
    st.sampled_from(["", "s", "h", "kWh", "GPU", "hour", "1", "per"]),
    st.sampled_from(["", "/", " per ", "-", " ", "*", " · "]),
    st.sampled_from(["", "GPU", "hour", "h", "s"]),
    st.sampled_from(["", "", "", ")", ") per GPU", ")/h"]),
).map("".join)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=400)
@given(LIKELY | st.lists(st.sampled_from(PIECES), max_size=9).map("".join), st.sampled_from(KEYS))
def test_a_pattern_is_true_of_what_is_read_and_of_nothing_else(text: str, unit: str) -> None:
    """So that a validator of somebody else refuses the units that the program refuses."""
    try:
        parse(text, unit)
        is_read = True
    except UnitError:
        is_read = False
    assert bool(re.search(build_pattern(unit), text)) == is_read, (text, unit)


@pytest.mark.slow
@given(st.data(), st.sampled_from(KEYS))
def test_what_a_pattern_makes_is_read(data: st.DataObject, unit: str) -> None:
    """The bound on its length is apart from what a pattern says."""
    made = st.from_regex(build_pattern(unit)).filter(lambda text: len(text.strip()) <= LONGEST)
    parse(data.draw(made), unit)


@pytest.mark.parametrize("path", ["llama70b_h100x1024", "mixtral8x7b_h100x1024"])
def test_every_number_that_is_printed_is_read(path: str) -> None:
    """What a report, an explanation or a summary prints may be copied into a requirement."""
    import planner

    seen = 0
    for quantity in planner.load(path).evaluate().quantities.values():
        if isinstance(quantity.value, str) or quantity.unit == "–":
            continue
        value = F(quantity.number)
        for text, digits in (
            (quantity.text(), 3),
            (quantity.text("exact"), 6),
        ):
            close = 10 ** -(digits - 1) / 2 + (1e-3 / abs(value) if quantity.declared.share else 0)
            assert parse(text, quantity.unit) == pytest.approx(float(value), rel=close), text
            seen += 1
    assert seen > 150
