"""Measured runs: reads step times, throughput and peak memory from the logs of a training run.

Formats are told apart by what stands in them: the lines of Megatron-LM, the lines of torchtitan,
JSON or JSON lines, or a table with a header (CSV).
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import re
from array import array
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from statistics import median_high, median_low
from typing import Any

from planner.base import files, resources
from planner.base.errors import Fault, Place, PlanError

MAX_BYTES = 256 * 10**6

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"

_SAID = resources.read_yaml(Path(__file__).with_suffix(".yaml"))
#: Columns of tables and keys of JSON, by quantity; a unit may follow the name.
COLUMNS: Mapping[str, Sequence[str]] = _SAID["columns"]
#: What one of a unit is worth, by what is measured in it.
UNITS: Mapping[str, Mapping[str, int | str]] = _SAID["units"]
#: Trainers whose lines are known, with the quantities that they say. Each counts FLOPs in its way.
TRAINERS: Mapping[str, Sequence[str]] = {
    said["name"]: [name for record in said["records"] for name in record["holds"]]
    for said in _SAID["trainers"]
}
#: What a log may have in the place of its step time.
RATES = ("steps_per_second", "samples_per_second", "seconds_per_sample")
#: What stands behind a number that is written short.
_SUFFIXES = {"K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
#: What begins an event of MLPerf's logging.
MLLOG = ":::MLLOG"
#: The words by which logs are told apart.
_MARKS = {
    mark: mark.encode() for said in (*_SAID["trainers"], {"containing": [MLLOG]})
    for mark in said["containing"]
}  # fmt: skip
_MARKED = re.compile(b"|".join(map(re.escape, _MARKS.values())))


@dataclass
class Series:
    """What one column logged, in the order of the log: as doubles, so that a log of millions of
    steps fits, each with `worth` of the quantity's unit. The shortest text of a double is the
    decimal that was logged, up to its 15 digits."""

    worth: Fraction = Fraction(1)
    doubles: array[float] = field(default_factory=lambda: array("d"))

    def exact(self, double: float) -> Fraction:
        """A logged value in SI units or bytes."""
        return Fraction(repr(double)) * self.worth

    def median(self, skipped: int) -> Fraction:
        """Of what comes after so many records."""
        kept = self.doubles[skipped:]
        return (self.exact(median_low(kept)) + self.exact(median_high(kept))) / 2


@dataclass
class Log:
    """A measured run: for each quantity the columns that logged it."""

    file: str
    format: str
    columns: dict[str, dict[str, Series]] = field(default_factory=dict)

    def add(self, quantity: str, double: float, worth: Fraction, label: str = "") -> None:
        known = self.columns.setdefault(quantity, {})
        if label not in known:
            known[label] = Series(worth)
        known[label].doubles.append(double)

    def series(self, quantity: str) -> list[Series]:
        """The columns of a quantity, the first that was logged first."""
        return list(self.columns.get(quantity, {}).values())


def read(path: str | Path) -> Log:
    """The log of a run, line by line.

    Raises:
        PlanError: it cannot be read, or nothing in it is a log that we know.
    """
    place = Place(str(path))
    with files.opened(path, MAX_BYTES, allowed="the log of a run") as file:
        marks = _marks(file)
        asked = (each for each in _SAID["trainers"] if marks & {*each["containing"]})
        of_trainers = filter(None, (_trainer(each, file, place) for each in asked))
        log = next(of_trainers, None)
        if log is None and MLLOG in marks:
            log = _rows(_events(file, place), place, "MLPerf")
        log = log or _json(file, place) or _table(file, place)
    if log is not None:
        return log
    columns = "columns such as step_seconds and memory_reserved_gib"
    allowed = f"lines of {', '.join(TRAINERS)} or MLPerf, or CSV or JSON with {columns}"
    raise PlanError(Fault("no log of a training run", place, allowed))


def _marks(file: files.Opened) -> set[str]:
    """Which words of logs that are known stand in a file, in one look over it."""
    found: set[str] = set()
    for line in file.lines():
        if _MARKED.search(line):
            found |= {mark for mark, raw in _MARKS.items() if raw in line}
    return found


def _lines(file: files.Opened, place: Place) -> Iterator[str]:
    """The lines of a log, again from the first each time, without colours and ends of lines."""
    for number, raw in enumerate(file.lines()):
        if number == 0:
            raw = raw.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in raw and number < 100:
            raise PlanError(Fault("not a text file", place, "the log of a run"))
        yield from _decoded(raw).splitlines()


def _decoded(raw: bytes) -> str:
    """Text without colours. A log cut off in the middle of a character is still a log."""
    text = raw.decode("utf-8", errors="replace")
    return _COLOUR.sub("", text) if "\x1b" in text else text


# Lines of trainers ----------------------------------------------------------------------------


def _trainer(said: Mapping[str, Any], file: files.Opened, place: Place) -> Log | None:
    """The records of a trainer that logs.yaml describes."""
    log, short = Log(place.file, said["name"]), "[KMGBT]?" if said.get("suffixes") else ""
    records = [
        (
            re.compile(record["pattern"].replace("NUMBER", f"(?:{_NUMBER})" + short)),
            [
                (quantity, re.compile(f"(?:{before}){_NUMBER}([KMGBT]?)"), Fraction(worth))
                for quantity, (before, worth) in record["holds"].items()
            ],
        )
        for record in said["records"]
    ]
    words = [word.encode() for word in said["containing"]]  # most of a log is of no interest
    for line in (_decoded(raw) for raw in file.lines() if any(word in raw for word in words)):
        for record, fields in records:
            for match in record.finditer(line):
                for quantity, pattern, worth in fields:
                    found = pattern.search(match[0])
                    if found:
                        number = float(found[1].replace(",", ""))
                        if short:
                            number *= _SUFFIXES.get(found[2], 1)
                        _judge(quantity, number, number, match[0][:40].strip(), place)
                        log.add(quantity, number, worth)
    return log if log.columns else None


# JSON and tables ------------------------------------------------------------------------------

_GROUP = re.compile(r"^(?:train|training|perf|performance)[/_.]")

Column = tuple[str, Fraction]  # quantity, and what one unit of the column is worth


@lru_cache
def column(label: str) -> Column | None:
    """The quantity that a column holds, by its name and the unit behind it."""
    said = _said(label)
    plain = _GROUP.sub("", said)
    if said in _SAID["others"] or said.endswith(("__min", "__max")):
        return None
    for quantity, names in COLUMNS.items():
        units = UNITS.get("mfu" if quantity == "time.mfu" else quantity.split(".")[0], {})
        for known in (quantity, *names):
            if plain == known:
                return quantity, Fraction(1)
            rest = plain.removeprefix(known) if plain.startswith(known) else ""
            unit = rest.strip("_()[]")
            if unit in units:
                return quantity, Fraction(units[unit])
    return None


def _said(label: str) -> str:
    """A label without the name of a run before it (exports of W&B), in small letters."""
    return label.rpartition(" - ")[2].strip().casefold().replace(" ", "_")


def _rows(rows: Iterable[tuple[int, Mapping[str, Any]]], place: Place, form: str) -> Log | None:
    log = Log(place.file, form)
    clocks = [_Clock(**said) for said in _SAID["clocks"]]
    for line, row in rows:
        if not log.columns.keys() & _TIMES:
            plain = {_said(label): value for label, value in row.items()}
            for clock in clocks:
                clock.look(plain)
        for label, value in row.items():
            known = column(label)
            if known is None or known[0] == "step" or value is None or value == "":
                continue
            number = _number(value)
            if number is not None:
                if not 0 < number < math.inf:
                    _judge(known[0], number, value, label, Place(place.file, line))
                log.add(known[0], number, known[1], label)
    for clock in clocks:
        for passed in clock.passed if not log.columns.keys() & _TIMES else ():
            log.add(clock.gives, passed, Fraction(1))
    return log if log.columns else None


#: What says how long a step takes.
_TIMES = {name for name in COLUMNS if name.startswith("time.") or "per_s" in name}


@dataclass
class _Clock:
    """What a clock gains for each that a counter does (``passed``), record by record."""

    clock: str
    counter: str
    gives: str
    worth: int | str
    passed: list[float] = field(default_factory=list)
    last: tuple[float, float] | None = None

    def look(self, row: Mapping[str, Any]) -> None:
        time, count = _seconds(row.get(self.clock)), _number(row.get(self.counter, ""))
        if time is None or count is None or not math.isfinite(time) or not math.isfinite(count):
            return
        if self.last is not None and time > self.last[0] and count > self.last[1]:
            gained = (time - self.last[0]) * float(Fraction(self.worth))
            self.passed.append(gained / (count - self.last[1]))
        if self.last is None or count >= self.last[1]:
            self.last = time, count


def _seconds(value: Any) -> float | None:
    """A time as a number, or as a day, hours, minutes and seconds."""
    if isinstance(value, str) and re.fullmatch(r"(?:\d+ days?, )?\d+:\d\d:\d\d(?:\.\d+)?", value):
        days, _, rest = value.rpartition(", ")
        hours, minutes, seconds = rest.split(":")
        return 86400 * int(days.split()[0] if days else 0) + 3600 * int(hours) + (
            60 * int(minutes) + float(seconds)
        )  # fmt: skip
    return None if value is None or isinstance(value, bool) else _number(value)


def _number(value: Any) -> float | None:
    """A logged value; None where nothing was measured, infinite where it is no number."""
    try:
        number = math.inf if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        nothing = isinstance(value, str) and value.strip().casefold() in ("none", "null", "-", "")
        return None if nothing else math.inf
    return None if math.isnan(number) else number


def _judge(quantity: str, number: float, value: Any, label: str, place: Place) -> None:
    """A fault where a number is none, is below 0, or says that a step takes no time: rates would be
    infinite."""
    if number < 0:
        raise PlanError(Fault(f"{label} is {value}", place, "a number of at least 0"))
    if number == math.inf:
        raise PlanError(Fault(f"{label} is {str(value)[:40]!r}", place, "a number"))
    if quantity == "time.step_seconds" and not number:
        raise PlanError(Fault(f"{label}: a step takes no time", place, "a time above 0"))


# A number may be longer than Python turns into an int; as a float it is judged like those of CSV.
_NUMBERS: Mapping[str, Any] = {"parse_int": float, "parse_constant": lambda _: None}


def _json(file: files.Opened, place: Place) -> Log | None:
    """An object on each line, or one document that holds records."""
    some = list(islice((line for line in _lines(file, place) if line.strip()), 2))
    if not some or some[0].lstrip()[0] not in "{[":
        return None
    try:
        is_lines = False
        with contextlib.suppress(json.JSONDecodeError):
            is_lines = len(some) == 2 and isinstance(json.loads(some[0], **_NUMBERS), dict)
        log = _rows(_objects(file, place), place, "JSON lines") if is_lines else None
        whole = _decoded(file.read()).lstrip("\ufeff")
        return log or _rows(((1, row) for row in _records(whole)), place, "JSON")
    except json.JSONDecodeError as error:
        where = Place(place.file, error.lineno, error.colno)
        raise PlanError(Fault(f"not JSON: {error.msg}", where, "one object a line")) from None
    except RecursionError:
        fault = Fault("nested too deeply", Place(place.file, 1, 1), "a list of records")
        raise PlanError(fault) from None


def _objects(file: files.Opened, place: Place) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The object on each line, with its line."""
    for number, line in enumerate(_lines(file, place), 1):
        try:
            row = json.loads(line, **_NUMBERS) if line.strip() else None
        except json.JSONDecodeError as error:
            error.lineno = number
            raise
        if isinstance(row, dict):
            yield number, _flat(row)


def _events(file: files.Opened, place: Place) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The events of MLPerf's logging, with their lines, whatever stands before or between them."""
    for number, line in enumerate(_lines(file, place), 1):
        _, mark, said = line.partition(MLLOG)
        with contextlib.suppress(json.JSONDecodeError, RecursionError):
            event = json.loads(said, **_NUMBERS) if mark else None
            if isinstance(event, dict):
                key, value = event.get("key"), event.get("value")
                named = {str(key): value} if key == "global_batch_size" else {}
                yield number, _flat({**event, "value": None, **named})


def _records(text: str) -> Iterator[dict[str, Any]]:
    """The records of a JSON document one by one: a list of objects, under a key or not, or one
    object.

    Raises:
        json.JSONDecodeError: it is none.
    """
    own: dict[str, Any] = {}
    end = yield from _value(text, _skipped(text, 0), own)
    if _skipped(text, end) < len(text):
        raise json.JSONDecodeError("Extra data", text, _skipped(text, end))
    yield _flat(own)


_DECODER = json.JSONDecoder(**_NUMBERS)
_SPACE = re.compile(r"[ \t\n\r]*")


def _skipped(text: str, at: int) -> int:
    """Where the next word begins."""
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, own: dict[str, Any]) -> Generator[dict[str, Any], None, int]:
    """Gives the records of the list or object that begins somewhere, and where it ends; what else
    the object holds goes to ``own``."""
    close = {"[": "]", "{": "}"}[text[at]]
    at = _skipped(text, at + 1)
    first = True
    while text[at : at + 1] != close:
        if not first:
            if text[at : at + 1] != ",":
                raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
            at = _skipped(text, at + 1)
        first, key = False, ""
        if close == "}":
            key, at = _DECODER.raw_decode(text, at)
            at = _skipped(text, at)
            if not isinstance(key, str) or text[at : at + 1] != ":":
                raise json.JSONDecodeError("Expecting ':' delimiter", text, at)
            at = _skipped(text, at + 1)
        if close == "}" and text[at : at + 1] == "[":
            at = yield from _value(text, at, {})
        else:
            value, at = _DECODER.raw_decode(text, at)
            if close == "}":
                own[key] = value
            elif isinstance(value, dict):
                yield _flat(value)
        at = _skipped(text, at)
    return at + 1


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}_")
        elif not isinstance(value, list):
            found[f"{before}{key}"] = value
    return found


def _table(file: files.Opened, place: Place) -> Log | None:
    lines = _lines(file, place)
    start, first = next(
        ((i, x) for i, x in enumerate(lines) if x.strip() and not x.startswith("#")), (0, "")
    )
    reader = csv.reader(chain([first], lines), delimiter=max(",;\t", key=first.count))

    def rows() -> Iterator[tuple[int, Mapping[str, str]]]:
        for row in filter(None, reader):
            line = start + reader.line_num
            if len(row) != len(header):
                where, allowed = Place(place.file, line), f"{len(header)}, as in the header"
                raise PlanError(Fault(f"{len(row)} columns", where, allowed))
            yield line, {label: row[index] for index, label in known.items()}

    try:
        header = [label.strip() for label in next(reader, [])]
        of_clocks = {said[part] for said in _SAID["clocks"] for part in ("clock", "counter")}
        known = {
            index: label
            for index, label in enumerate(header)
            if column(label) or _said(label) in of_clocks
        }
        twice = next((label for label in known.values() if header.count(label) > 1), None)
        if twice is not None:
            where = Place(place.file, start + 1)
            raise PlanError(Fault(f"the column {twice} is there twice", where))
        return _rows(rows(), place, "CSV") if known else None
    except csv.Error as error:
        raise PlanError(Fault(f"not a table: {error}", place, "CSV")) from None
