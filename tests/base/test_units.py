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
)

F = Fraction
GROUP = ","


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("15T", "tokens", 15 * 10**12),
        ("15T tokens", "tokens", 15 * 10**12),
        ("300 Btokens", "tokens", 300 * 10**9),
        ("4M", "tokens", 4_000_000),
        ("4Mi", "tokens", 2**22),
        ("2.5k", "1", 2500),
        ("70B", "parameters", 70 * 10**9),
        ("70 billion", "parameters", 70 * 10**9),
        ("1_000", "1", 1000),
        ("1024 GPUs", "devices", 1024),
        ("80 GB", "bytes", 80 * 10**9),
        ("80GiB", "bytes", 80 * 2**30),
        ("81559 MiB", "bytes", 81559 * 2**20),
        ("80 B", "bytes", 80),
        ("16 bits", "bytes", 2),
        ("400 Gb/s", "bytes/s", 50 * 10**9),
        ("400 Gbps", "bytes/s", 50 * 10**9),
        ("3.35 TB/s", "bytes/s", 3_350 * 10**9),
        ("989 TFLOP/s", "FLOP/s", 989 * 10**12),
        ("989.5 TFLOPS", "FLOP/s", 9895 * 10**11),
        ("6.3e24 FLOP", "FLOP", 63 * 10**23),
        ("3.14 ZFLOP", "FLOP", 314 * 10**19),
        ("30 days", "s", 30 * 24 * 3600),
        ("90 min", "s", 5400),
        ("2 h", "s", 7200),
        ("36 h", "days", F(3, 2)),
        ("5 us", "s", F(5, 10**6)),
        ("5 µs", "s", F(5, 10**6)),
        ("1.83 GHz", "1/s", 183 * 10**7),
        ("10/s", "1/s", 10),
        ("700 W", "W", 700),
        ("0.7 kW", "W", 700),
        ("1 kWh", "J", 3_600_000),
        ("2.5 USD/h", "USD/h", F(5, 2)),
        ("2.5 USD/h", "USD/h per device", F(5, 2)),
        ("2.5 USD per GPU-hour", "USD/h per device", F(5, 2)),
        ("60 USD/day", "USD/h", F(5, 2)),
        ("0.4 kg/kWh", "kgCO2e/kWh", F(2, 5)),
        ("400 gCO2e/kWh", "kgCO2e/kWh", F(2, 5)),
        ("40%", "1", F(2, 5)),
        ("-1.5e-3", "1", F(-3, 2000)),
        (".5", "1", F(1, 2)),
        (4096, "tokens", 4096),
        (80, "bytes", 80),
        (F(1, 3), "s", F(1, 3)),
        (0.1, "1", F(1, 10)),
        (0, "W", 0),
        ("1,000", "tokens", 1000),
        ("1,000,000 GB", "bytes", 10**15),
        ("10 000", "tokens", 10000),
        ("2,306,778.1 USD", "USD", F(23067781, 10)),
        ("\u22125", "1", -5),
        ("48.9\u00a0%", "1", F(489, 1000)),
        ("$5,000", "USD", 5000),
        ("$2.5", "USD/h", F(5, 2)),
        ("$2.5/h", "USD/h", F(5, 2)),
        ("$5M", "USD", 5 * 10**6),
        ("0.5 years", "days", F(365, 2)),
        ("3 months", "days", F(365, 4)),
    ],
)
def test_reads_exactly(text: str, unit: str, value: Fraction) -> None:
    found = parse(text, unit)
    assert found == value
    assert type(found) is (int if F(value).denominator == 1 else F)


@pytest.mark.parametrize(
    ("text", "unit", "hint"),
    [
        ("1,5T", "tokens", "1.5T"),
        ("4,09 GB", "bytes", "4.09 GB"),
        ("80G", "bytes", "80 GB"),
        ("80 Gi", "bytes", "80 GiB"),
        ("80 KB", "bytes", "80 kB"),
        ("80 gb", "bytes", "80 GB"),
        ("3.35 Tb", "bytes/s", None),
        ("128K", "tokens", "128k"),
        ("70b", "parameters", "70B"),
        ("15t", "tokens", "15T"),
        ("989 TFLOPs", "FLOP/s", "989 TFLOP/s"),
        ("989T", "FLOP/s", "989 TFLOP/s"),
        ("30 dayz", "s", "30 day"),
        ("30 days", "bytes", None),
        ("700", "W", "700 W"),
        (700, "W", "700 W"),
        ("2.5", "USD/h", "2.5 USD/h"),
        ("5 tokens", "devices", None),
        ("5 tokens", "1", None),
        ("80 GB", "1", None),
        ("1__0", "1", "10"),
        ("nan", "1", None),
        ("-inf", "1", None),
        (float("nan"), "1", None),
        (float("inf"), "s", None),
        ("1e401", "1", None),
        ("1e-401", "1", None),
        (10**1000, "1", None),
        ("9" * 10_000, "1", None),
        ("", "1", None),
        ("GB", "bytes", None),
        ("5 s s", "s", None),
        ("5 s/", "s", None),
        ("5 // s", "1/s", None),
        ("٣", "1", None),
        (True, "1", None),
        (None, "1", None),
        ([1], "tokens", None),
    ],
)
def test_refuses_and_suggests(text: object, unit: str, hint: str | None) -> None:
    with pytest.raises(UnitError) as caught:
        parse(text, unit)  # type: ignore[arg-type]
    assert caught.value.hint == hint
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "unit",
    [
        "USD/h", "USD/hr", "USD per hour", "USD/device-hour", "USD/GPU-hour", "USD/gpu-hour",
        "USD/GPU-h", "USD/device/hour", "USD/h/GPU", "USD/h per GPU", "USD per GPU hour",
        "USD/GPU hour", "USD/(GPU h)", "USD/(GPU*h)", "USD/chip-hour", "USD / device hour",
    ],
)  # fmt: skip
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
    [
        (3_556_769_792, "bytes", "3.31 GiB"),
        (2**30, "bytes", "1.00 GiB"),
        (2**30 - 1, "bytes", "1.00 GiB"),
        (1023, "bytes", f"1{GROUP}023 bytes"),
        (6_300_000_000_000_000_000_000_000, "FLOP", "6.30e24 FLOP"),
        (9_999 * 10**20, "FLOP", "1.00e24 FLOP"),
        (0, "FLOP", "0 FLOP"),
        (989_500_000_000_000, "FLOP/s", "990 TFLOP/s"),
        (988_500_000_000_000, "FLOP/s", "988 TFLOP/s"),
        (3_350_000_000_000, "bytes/s", "3.35 TB/s"),
        (700, "W", "700 W"),
        (F(1, 200_000), "s", "5.00 µs"),
        (F(1, 3), "s", "333 ms"),
        (119, "s", "119 s"),
        (121, "s", "2.02 min"),
        (7200, "s", "2.00 h"),
        (F(14393, 100), "days", "144 days"),
        (F(3), "days", "3.00 days"),
        (24_407_182, "USD", "24.4 million USD"),
        (1_840_000_000, "USD", "1.84 billion USD"),
        (1234, "USD", f"1{GROUP}234 USD"),
        (F(1234, 1000), "USD", "1.23 USD"),
        (F(125, 1000), "USD", "0.125 USD"),
        (4_772_836, "kWh", "4.77 GWh"),
        (999, "kWh", "999 kWh"),
        (859_375, "tokens/s", "859 k tokens/s"),
        (1_139_784, "tokens/s", "1.14 M tokens/s"),
        (1_113, "tokens/s", "1.11 k tokens/s"),
        (999, "tokens/s", "999 tokens/s"),
        (F(2, 5), "1", "0.400"),
        (-F(2, 5), "1", "−0.400"),
        (8, "devices", "8 devices"),
    ],
)
def test_prints_for_people(value: Fraction, unit: str, text: str) -> None:
    assert numbers.text(value, unit) == text


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
PIECES = [
    "0", "1", "400", "401", "007", "1_0", "_", ".", "e", "E", "-", "+", "/", "per", "*", "·", "(",
    ")", "^", "^-1", "%", " ", "  ", "\t", "\u00a0", ",", "'", "k", "M", "T", "Ki", "m", "t", "B",
    "GB", "GiB", "Gb", "Gbps", "byte", "bits", "s", "us", "µs", "h", "day", "Hz", "GHz", "W", "kW",
    "kWh", "J", "USD", "EUR", "kUSD", "GPU", "devices", "token", "Mtokens", "FLOP", "TFLOPS",
    "TFLOPs", "kg", "gCO2e", "million", "x", "1e400", "0.0", "2.5", "3/4", "0/2", "1/0",
]  # fmt: skip
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
