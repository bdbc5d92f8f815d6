"""Measured runs: reads step times, throughput and peak memory from the logs of a training run.

Formats are told apart by what stands in them: the lines of trainers (logs.yaml), event files of
TensorBoard, MLPerf's events, JSON or JSON lines, or a table with a header (CSV). A log is read
piece by piece; one that is still written may end in the middle of a line.
"""

from __future__ import annotations

import contextlib
import csv
import json
import math
import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from planner.base import files, resources
from planner.base.display import flatten, one_line
from planner.base.errors import Fault, Place, PlanError
from planner.connect import events

MAX_BYTES = 256 * 10**6
#: Bytes of a line at most; a longer one is no record of a log.
LONGEST = 1 << 20
#: Letters of the header of a table at most.
LONGEST_HEADER = 1 << 16
#: Bytes of a device that no run has so few of: a unit was left out.
LEAST_MEMORY = 1 << 20
#: Bytes that are read at once.
CHUNK = 1 << 20

#: What steers a terminal: colours, and what progress bars write.
_STEERING = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_NUMBER = r"(?P<number>[0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
#: Behind a number that no unit follows: not the rest of it, nor a unit of another.
_END = r"(?![0-9A-Za-z]|[.,][0-9])"
#: What a number may go on with, where a line was cut off in it.
_GOES_ON = "0123456789.,eE+-"
#: What stands behind a number that is written short.
_SUFFIXES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}

_SAID = resources.load_beside(__file__)
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
#: The column of what a trainer of reinforcement learning waits for responses.
WAIT = "response_wait"
#: The column of the loss, which is shown and compared with nothing.
LOSS = "loss"
#: The column of a step time that no column says, but a clock and a counter.
CLOCK = "clock"
#: What begins an event of MLPerf's logging, and a mapping as Python prints it.
MLLOG, PRINTED = ":::MLLOG", "{'"
#: The words by which the lines of trainers are told; most of a log is of no interest.
_WORDS = {word for said in _SAID["trainers"] for word in said["containing"]} | {MLLOG, PRINTED}
#: A pair of such a mapping whose value is a number, quoted or not; a count may go `of/all`.
_PAIR = re.compile(rf"'([^'\n]{{1,80}})': (?:np\.\w+\()?'?{_NUMBER}(?P<all>/[0-9]+)?\)?'?(?=[,}}])")
#: What begins a document of JSON: an object with a key, or a list of some.
_OPENING = re.compile(r'\s*(?:\{\s*(?:["}]|$)|\[\s*(?:[]{["]|$))')


@dataclass
class Series:
    """What one column logged, in the order of the log: as doubles, so that a log of millions of
    steps fits, each with `worth` of the quantity's unit. The shortest text of a double is the
    decimal that was logged, up to its 15 digits. `steps` are those of the records, NaN where the
    log does not say."""

    worth: Fraction = Fraction(1)
    doubles: array[float] = field(default_factory=lambda: array("d"))
    steps: array[float] = field(default_factory=lambda: array("d"))

    def to_exact(self, double: float) -> Fraction:
        """Convert a logged value to SI units or bytes."""
        return Fraction(repr(double)) * self.worth

    def skip_steps(self, warm_up: int) -> int:
        """Find the first record behind those of so many steps, of however many ranks."""
        seen = set[float]()
        for place, step in enumerate(self.steps):
            seen.add(-1 - place if math.isnan(step) else step)
            if len(seen) > warm_up:
                return place
        return len(self.steps)

    @property
    def is_clock(self) -> bool:
        """Check whether each record is above the one before, far beyond what steps differ by."""
        values = self.doubles
        rises = all(before < after for before, after in pairwise(values))
        return len(values) > 5 and rises and values[-1] > 3 * values[0]

    def find_median(self, begin: int) -> Fraction:
        """Find the median of the records from one on."""
        kept = sorted(self.doubles[begin:])
        return (self.to_exact(kept[(len(kept) - 1) // 2]) + self.to_exact(kept[len(kept) // 2])) / 2


@dataclass
class Log:
    """A measured run: for each quantity the columns that logged it."""

    file: str
    format: str
    columns: dict[str, dict[str, Series]] = field(default_factory=dict)
    #: Columns with a utilisation above 1, of which nothing says that it is in percent.
    unread: dict[str, float] = field(default_factory=dict)

    def add(
        self,
        quantity: str,
        double: float,
        worth: Fraction = Fraction(1),
        label: str = "",
        step: float = math.nan,
    ) -> None:
        """Add a record; one of 0 says that nothing was measured.

        Args:
            quantity: what was measured.
            double: the value, in the unit of the column.
            worth: what one of the unit is worth.
            label: the column.
            step: the number of the step; NaN where the log does not say.
        """
        if double:
            columns = self.columns.setdefault(quantity, {})
            series = columns.get(label) or columns.setdefault(label, Series(worth))
            series.doubles.append(double)
            series.steps.append(step)

    def list_series(self, quantity: str) -> list[Series]:
        """List the columns of a quantity, the first that was logged first."""
        return list(self.columns.get(quantity, {}).values())


def read_log(path: str | Path) -> Log:
    """Read the log of a run.

    Raises:
        PlanError: it cannot be read, or nothing in it is a log that we know.
    """
    place = Place(str(path))
    with files.open_bounded(path, MAX_BYTES, allowed="the log of a run") as file:
        reading = LogReader(place)
        for chunk in file.iter_chunks(CHUNK):
            reading.read_chunk(chunk)
        reading.finish_log()
        log = reading.log
    if log is None and reading.kind in ("JSON", "document"):
        with files.open_bounded(path, MAX_BYTES // 8, allowed="JSON lines, for a long log") as file:
            log = _read_json_log(file, place)
    if log is not None:
        return log
    raise PlanError(reading.report_unknown())


class LogReader:
    """A log as far as it was read; its format is told by what came so far."""

    def __init__(self, place: Place) -> None:
        self.place = place
        #: What its first line makes of it, besides lines of trainers: `CSV`, `JSON lines`,
        #: `events`, `JSON` where it may be lines or one `document`, or `text`.
        self.kind = ""
        self._trainers = [_Trainer(said, place) for said in _SAID["trainers"]]
        self._of_words: dict[tuple[str, ...], list[_Trainer]] = {}
        self._mlperf, self._rows = _Rows(place, "MLPerf"), _Rows(place, "")
        self._printed = _Rows(place, "mappings of Python")
        self._fault: PlanError | None = None  # of a table, which lines of a trainer may follow
        self._table: _Table | None = None
        self._events = events.Records(place)
        self._tags: dict[str, None] = {}
        self._left, self._number, self._too_long, self._held = b"", 0, False, ""

    def read_chunk(self, chunk: bytes) -> None:
        """Read the next bytes of the log; what is not whole yet waits.

        Raises:
            PlanError: what they say cannot be believed.
        """
        data, self._left = self._left + chunk, b""
        if not self.kind and not self._number:
            if len(data) < events.HEAD:
                self._left = data
                return
            if events.is_record(data[: events.HEAD]):
                self.kind, self._rows.log.format = "events", "TensorBoard"
            data = data.removeprefix(b"\xef\xbb\xbf")
        if self.kind == "events":
            self._read_events(data)
            return
        # What ends with \r may go on with \n.
        end = 1 + max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1))
        self._left = data[end:]
        self._read_lines(data[:end])
        if len(self._left) > LONGEST:
            self._too_long, self._left = True, b""
            if self.kind in ("", "JSON"):
                self.kind = "document"

    def finish_log(self) -> None:
        """Read what is left as a last line without its end, maybe cut off.

        Raises:
            PlanError: as for ``read_chunk``.
        """
        data, self._left = self._left, b""
        if self.kind != "events":
            self._read_lines(data)

    @property
    def log(self) -> Log | None:
        """Return what is known of the run so far, None for nothing.

        Raises:
            PlanError: a table is broken.
        """
        logs = [each.log for each in self._trainers if each.log.columns]
        found = logs[0] if logs else self._mlperf.build_log()
        printed = self._printed.build_log()
        if printed is not None:
            columns = printed.columns | (found.columns if found else {})
            found = Log(printed.file, (found or printed).format, columns, printed.unread)
        if found is None and self._fault is not None:
            raise self._fault
        return found or self._rows.build_log()

    def report_unknown(self) -> Fault:
        """Report why nothing is known of the run."""
        if self.kind == "events":
            tags = ", ".join(map(one_line, list(self._tags)[:8])) or "none"
            what = f"no step time, throughput or memory among its scalars: {tags}"
            return Fault(what, self.place, "scalars of training")
        columns = "columns such as step_seconds and memory_reserved_gib"
        allowed = f"lines of {', '.join(TRAINERS)} or MLPerf, or CSV or JSON with {columns}"
        return Fault("no log of a training run", self.place, allowed)

    def _read_lines(self, raw: bytes) -> None:
        """Read lines with their ends; the last one may be without."""
        clean = _STEERING.sub(b"", raw) if b"\x1b" in raw else raw
        text = clean.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
        words = [word for word in _WORDS if word in text]
        *lines, last = text.split("\n")
        for line in lines:
            self._read_line(line, words)
        if last:
            self._read_line(last, words, is_whole=False)

    def _read_line(self, text: str, words: Sequence[str], is_whole: bool = True) -> None:
        """Read one line, in which some of these words may be."""
        self._number += 1
        if self._too_long:
            self._too_long = False
            return
        if self._number <= 100 and "\0" in text:
            raise PlanError("not a text file", self.place, "the log of a run")
        if words and (in_it := tuple([word for word in words if word in text])):
            if in_it not in self._of_words:
                said = [each for each in self._trainers if not each.words.isdisjoint(in_it)]
                self._of_words[in_it] = said
            for trainer in self._of_words[in_it]:
                trainer.read_line(text, is_whole)
            if MLLOG in in_it:
                self._mlperf.add_object(self._number, _parse_event(text))
            if PRINTED in in_it:
                self._printed.add_object(self._number, _parse_printed(text))
        if self.kind in ("text", "document"):
            return
        if self._fault is None and text and not text.isspace():
            try:
                self._read_row(text, is_whole)
            except PlanError as error:
                self._fault = error

    def _read_row(self, text: str, is_whole: bool) -> None:
        """Read a line of what may be a table or JSON."""
        if self.kind == "CSV" and self._table is not None:
            cells = self._table.read_cells(text, self._number, is_whole)
            if cells is not None:
                self._rows.add_row(self._number, self._table.labels, cells)
        elif not self.kind and not self._held and _OPENING.match(text):
            self.kind, self._held = "JSON", text
        elif self.kind == "JSON":
            self.kind = "document"
            with contextlib.suppress(json.JSONDecodeError, RecursionError):
                if isinstance(_DECODER.decode(self._held), dict):
                    self.kind = self._rows.log.format = "JSON lines"
                    self._read_object(self._held, self._number - 1, True)
            if self.kind == "JSON lines":
                self._read_object(text, self._number, is_whole)
        elif self.kind == "JSON lines":
            self._read_object(text, self._number, is_whole)
        elif not self.kind and (self._held or not text.startswith("#")):
            self._held += text
            if self._held.count('"') % 2 and len(self._held) < LONGEST_HEADER:
                self._held += "\n"  # a quoted name that goes on in the next line
                return
            self._table = _Table(self._held, self.place.file, self._number)
            self.kind = "CSV" if any(_find_columns(self._table.labels)) else "text"
            self._rows.log.format = self.kind

    def _read_object(self, text: str, line: int, is_whole: bool) -> None:
        """Read a line of JSON; a part of a line that is no JSON yet is skipped.

        Args:
            text: the line.
            line: its number, counted from 1.
            is_whole: whether the line is complete, so that an error is one of the log.

        Raises:
            PlanError: a complete line is not JSON, or it is nested too deeply.
        """
        try:
            row = _DECODER.decode(text)
        except json.JSONDecodeError as error:
            if is_whole:
                raise _refuse_json(error, self.place, line) from None
            return
        except RecursionError:
            raise _refuse_depth(self.place) from None
        if isinstance(row, dict):
            self._rows.add_object(line, flatten(row, "_"))

    def _read_events(self, data: bytes) -> None:
        """Read a part of a TensorBoard event file; each scalar of a known tag becomes a record."""
        for scalar in self._events.read_chunk(data):
            if scalar.tag not in self._tags and len(self._tags) < 100:
                self._tags[scalar.tag] = None
            if (counter := _counter(scalar.tag)) is None:
                continue
            row: dict[str, Any] = {scalar.tag: scalar.value}
            if counter:
                row["wall_time"] = scalar.wall_time
            self._rows.add_object(0, row | {counter or "step": scalar.step})


# Lines of trainers ----------------------------------------------------------------------------


class _Trainer:
    """The records of a trainer that logs.yaml describes, line by line."""

    def __init__(self, said: Mapping[str, Any], place: Place) -> None:
        self.place = place
        self.log = Log(place.file, said["name"])
        self.words = {*said["containing"]}
        between = said.get("between")
        self._between = re.compile("|".join(between)) if between else None
        self._step, self._is_between = math.nan, False
        short = "[KMGBT]?" if said.get("suffixes") else ""
        self._records = [
            (
                re.compile(record["begins"].replace("STEP", r"(?P<step>[0-9]+)")),
                "STEP" in record["begins"],
                [
                    (quantity, _compile_field(pattern, short), Fraction(worth))
                    for quantity, (pattern, worth) in record["holds"].items()
                ],
                _compile_field(record["pairs"], short) if "pairs" in record else None,
                record.get("label", ""),
            )
            for record in said["records"]
        ]

    def read_line(self, text: str, is_whole: bool) -> None:
        """Read the records of a line; of one without its end a number at the end may be cut off."""
        if self._between is not None and self._between.search(text):
            self._is_between = True
        for begins, says_step, fields, pairs, named in self._records:
            match = begins.search(text)
            while match is not None:
                behind = begins.search(text, match.end())
                end = len(text) if behind is None else behind.start()
                if says_step:
                    self._step = float(match["step"])
                values = [
                    (quantity, "", worth, value)
                    for quantity, pattern, worth in fields
                    if (value := pattern.search(text, match.start(), end)) is not None
                ]
                for value in pairs.finditer(text, match.start(), end) if pairs else ():
                    name = named.replace("NAME", value["name"])
                    if (column := find_column(name)) is not None:
                        values.append((column[0], name, column[1], value))
                is_rate = False
                for quantity, name, worth, value in values:
                    if not (is_whole or text[value.end() :].strip(_GOES_ON)):
                        continue
                    is_timed = quantity in _TIMES
                    is_rate = is_rate or is_timed
                    digits, suffix = value.group("number", "suffix")
                    digits, many = digits.replace(",", ""), _SUFFIXES[suffix]
                    number = float(digits) if many == 1 else float(Decimal(digits) * many)
                    if not 0 < number < math.inf:
                        label = text[match.start() :][:40].strip()
                        _judge(quantity, number, number, label, self.place)
                    if not (is_timed and self._is_between):
                        self.log.add(quantity, number, worth, name, self._step)
                self._is_between = self._is_between and not is_rate
                match = behind


def _compile_field(pattern: str, short: str) -> re.Pattern[str]:
    """Compile the pattern of a quantity, with the number and the suffix that it may have."""
    number = f"{_NUMBER}(?P<suffix>{short})"
    return re.compile(pattern.replace("NUMBER", number) + _END * pattern.endswith("NUMBER"))


# JSON and tables ------------------------------------------------------------------------------

_GROUP = re.compile(rf"^(?:(?:{_SAID['groups']})[/_.])+")

Column = tuple[str, Fraction]  # quantity, and what one unit of the column is worth


@lru_cache(4096)
def find_column(label: str) -> Column | None:
    """Find the quantity that a column holds, by its name and the unit behind it."""
    said = _strip_label(label)
    plain = _GROUP.sub("", said)
    if said in _SAID["others"] or said.endswith(("__min", "__max")):
        return None
    for quantity, names in COLUMNS.items():
        units = UNITS.get("mfu" if quantity == "time.mfu" else quantity.split(".")[0], {})
        for known, name in product((quantity, *names), (said, plain)):
            unit = name.removeprefix(known).strip("_()[]") if name.startswith(known) else None
            if unit is not None and (name == known or unit in units):
                return quantity, Fraction(_SAID["worth"].get(said, units.get(unit, 1)))
    return None


def _strip_label(label: str) -> str:
    """Strip what is before a label, the name of a run (exports of W&B) or of verl's file logger,
    and write it in small letters."""
    plain = label.rpartition(" - ")[2].strip().casefold().replace(" ", "_").replace("-", "_")
    return plain.removeprefix("data_")


#: What says how long a step takes.
_TIMES = {name for name in COLUMNS if name.startswith(("time.", "rl.")) or "per_s" in name}
#: What clocks are called, and what counts beside them.
_OF_CLOCKS = {said[part] for said in _SAID["clocks"] for part in ("clock", "counter")}
#: Scalars of event files beside which a clock says how long a step takes, by what they count.
_CLOCKED = {counter: {*map(_strip_label, tags)} for counter, tags in _SAID["clocked"].items()}


@lru_cache(4096)
def _counter(tag: str) -> str | None:
    """Return what the steps of a scalar count where a clock goes with it, else nothing; None for a
    scalar of which no record is kept."""
    said = _strip_label(tag)
    for counter, tags in _CLOCKED.items():
        if said in tags:
            return str(counter)
    return "" if find_column(tag) or said in _OF_CLOCKS else None


@lru_cache(256)
def _find_columns(
    labels: tuple[str, ...],
) -> tuple[list[int], list[tuple[int, str, Fraction, float, float]], dict[str, int]]:
    """Find the places of columns in records: of those that count steps; of those that hold a
    quantity, each with what one unit is worth, and the least and the most that it can be; of those
    of clocks, by what clocks call them."""
    known = [(place, *found) for place, label in enumerate(labels) if (found := find_column(label))]
    counters = [place for place, quantity, _ in known if quantity == "step"]
    said = enumerate(map(_strip_label, labels))
    clocked = {label: place for place, label in said if label in _OF_CLOCKS}
    bounded = [
        (*one, float(LEAST_MEMORY * one[1].startswith("memory.") / one[2]),
         float(1 / one[2]) if one[1] == "time.mfu" else math.inf)
        for one in known if one[1] != "step"
    ]  # fmt: skip
    return counters, bounded, clocked


class _Rows:
    """Records by the names of their columns."""

    def __init__(self, place: Place, form: str) -> None:
        self.log = Log(place.file, form)
        self._clocks = [_Clock(**said) for said in _SAID["clocks"]]

    def add_object(self, line: int, row: Mapping[str, Any]) -> None:
        """Add a record with the names of its values; as ``add_row``."""
        self.add_row(line, tuple(row), list(row.values()))

    def add_row(self, line: int, labels: tuple[str, ...], values: Sequence[Any]) -> None:
        """Add a record.

        Args:
            line: where it stands, 0 for no line.
            labels: the names of its values.
            values: text or numbers, None for none.

        Raises:
            PlanError: a number is none, or cannot be believed.
        """
        counters, known, clocked = _find_columns(labels)
        step: float | None = None
        for place in counters:
            if (step := _parse_number(values[place])) is not None:
                break
        if self.log.columns.keys().isdisjoint(_TIMES):  # else nobody asks for a clock
            plain = {said: values[place] for said, place in clocked.items()}
            for clock in self._clocks:
                clock.record_row(plain)
        for place, quantity, worth, least, most in known:
            value = values[place]
            number = _parse_number(value)
            if number is None or (quantity == LOSS and not 0 < number < math.inf):
                continue
            if number > most:
                # A share of percent that does not say so is that of another peak, too.
                self.log.unread.setdefault(labels[place], number)
                continue
            if not 0 < number < math.inf:
                _judge(quantity, number, value, labels[place], Place(self.log.file, line or None))
            elif number < least:
                label, where = labels[place], Place(self.log.file, line or None)
                what, unit = f"{label} is {value} bytes by its name", f"a unit, as in {label}_gib"
                raise PlanError(what, where, unit)
            self.log.add(quantity, number, worth, labels[place], math.nan if step is None else step)

    def build_log(self) -> Log | None:
        """Build the log; a clock counts where nothing says how long a step takes."""
        columns = dict(self.log.columns)
        if not columns.keys() & _TIMES:
            columns |= {c.gives: {CLOCK: c.passed} for c in self._clocks if c.passed.doubles}
        return Log(self.log.file, self.log.format, columns, self.log.unread) if columns else None


@dataclass
class _Clock:
    """What a clock gains for each that a counter does (``passed``), record by record."""

    clock: str
    counter: str
    gives: str
    worth: int | str
    passed: Series = field(default_factory=Series)
    last: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._seconds = float(Fraction(self.worth))

    def record_row(self, row: Mapping[str, Any]) -> None:
        """Record the gain of the clock since the last record, for each that the counter gained.

        A counter that went back, as after a restart, is skipped until it reaches the largest one
        seen."""
        if self.clock not in row or self.counter not in row:
            return
        time, count = _parse_clock(row[self.clock]), _parse_number(row[self.counter])
        if time is None or count is None or not math.isfinite(time) or not math.isfinite(count):
            return
        if self.last is not None and time > self.last[0] and count > self.last[1]:
            gained = (time - self.last[0]) * self._seconds
            self.passed.doubles.append(gained / (count - self.last[1]))
            self.passed.steps.append(count)
        if self.last is None or count >= self.last[1]:
            self.last = time, count


def _parse_clock(value: Any) -> float | None:
    """Parse a time as a number, or as a day, hours, minutes and seconds."""
    if isinstance(value, str) and re.fullmatch(r"(?:\d+ days?, )?\d+:\d\d:\d\d(?:\.\d+)?", value):
        days, _, rest = value.rpartition(", ")
        hours, minutes, seconds = rest.split(":")
        return 86400 * int(days.split()[0] if days else 0) + 3600 * int(hours) + (
            60 * int(minutes) + float(seconds)
        )  # fmt: skip
    return None if isinstance(value, bool) else _parse_number(value)


def _parse_number(value: Any) -> float | None:
    """Parse a logged value; None where nothing was measured, infinite where it is no number."""
    if value is None or value == "":
        return None
    try:
        number = math.inf if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        nothing = isinstance(value, str) and value.strip().casefold() in ("none", "null", "-", "")
        return None if nothing else math.inf
    return None if number != number else number


def _judge(quantity: str, number: float, value: Any, label: str, place: Place) -> None:
    """Refuse what is no number, below 0, or a step without time: rates would be infinite."""
    if number < 0:
        raise PlanError(f"{label} is {value}", place, "a number of at least 0")
    if number == math.inf:
        raise PlanError(f"{label} is {str(value)[:40]!r}", place, "a number")
    if quantity == "time.step_seconds" and not number:
        raise PlanError(f"{label}: a step takes no time", place, "a time above 0")


# A number may be longer than Python turns into an int; as a float it is judged like those of CSV.
_NUMBERS: Mapping[str, Any] = {"parse_int": float, "parse_constant": lambda _: None}


def _read_json_log(file: files.Opened, place: Place) -> Log | None:
    """Read one document of JSON that holds records, in ten times its size of memory."""
    rows = _Rows(place, "JSON")
    try:
        for row in _parse_records(file.read_all().decode("utf-8-sig", errors="replace")):
            rows.add_object(1, row)
    except json.JSONDecodeError as error:
        raise _refuse_json(error, place, error.lineno) from None
    except RecursionError:
        raise _refuse_depth(place) from None
    return rows.build_log()


def _refuse_json(error: json.JSONDecodeError, place: Place, line: int) -> PlanError:
    """Make the error for text that is not JSON, at its line and column."""
    where = Place(place.file, line, error.colno)
    return PlanError(f"not JSON: {error.msg}", where, "one object a line")


def _refuse_depth(place: Place) -> PlanError:
    """Make the error for JSON that is nested too deeply."""
    return PlanError("nested too deeply", Place(place.file, 1, 1), "a list of records")


def _parse_event(text: str) -> Mapping[str, Any]:
    """Parse the event of MLPerf's logging in a line; nothing where none is."""
    with contextlib.suppress(json.JSONDecodeError, RecursionError):
        event = _DECODER.decode(text.partition(MLLOG)[2])
        if isinstance(event, dict):
            key, value = event.get("key"), event.get("value")
            named = {str(key): value} if key == "global_batch_size" else {}
            return flatten({**event, "value": None, **named}, "_")
    return {}


def _parse_printed(text: str) -> dict[str, str]:
    """Parse the numbers of a mapping that Python printed in a line; nested names are left out."""
    found = {}
    for pair in _PAIR.finditer(text):
        name = pair[1].partition("/")[0] if pair["all"] else pair[1]
        found[name] = pair["number"].replace(",", "")
    return found


def _parse_records(text: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a JSON document: of a list, under a key or not, or one object.

    Raises:
        json.JSONDecodeError: it is none.
    """
    tree = _DECODER.decode(text)
    several = [tree] if isinstance(tree, list) else [v for v in tree.values() if type(v) is list]
    yield from (flatten(row, "_") for rows in several for row in rows if isinstance(row, dict))
    yield flatten({} if isinstance(tree, list) else tree, "_")


_DECODER = json.JSONDecoder(**_NUMBERS)


class _Table:
    """A table with a header, line by line."""

    def __init__(self, header: str, file: str, line: int) -> None:
        self._file, self._delimiter = file, max(",;\t", key=header.count)
        self.labels = tuple(label.strip() for label in self._split_row(header, line))
        self.open_lines: list[str] = []  # lines of a row in which a quoted cell goes on,
        self._quotes = self._length = 0  # with the quotation marks and letters in them
        counters, known, clocked = _find_columns(self.labels)
        places = {*counters, *clocked.values(), *(place for place, *_ in known)}
        for label in (self.labels[place] for place in sorted(places)):
            if self.labels.count(label) > 1:
                raise PlanError(f"duplicate column {label}", Place(file, line))

    def read_cells(self, text: str, line: int, is_whole: bool) -> list[str] | None:
        """Split a row into cells; None where it goes on in the next line, or was cut off.

        Args:
            text: the line.
            line: its number.
            is_whole: whether it has its end.
        """
        if self.open_lines or '"' in text:
            self.open_lines.append(text)
            self._quotes += text.count('"')
            self._length += len(text)
            if self._quotes % 2 and self._length < LONGEST:
                return None
            text = "\n".join(self.open_lines)
            self.open_lines, self._quotes, self._length = [], 0, 0
        cells = self._split_row(text, line)
        begins = cells and cells[0].strip() == self.labels[0]
        if begins and tuple(cell.strip() for cell in cells) == self.labels:
            return None  # of a file that began anew
        if len(cells) != len(self.labels):
            if not is_whole and len(cells) < len(self.labels):
                return None
            allowed = f"{len(self.labels)}, as in the header"
            raise PlanError(f"{len(cells)} columns", Place(self._file, line), allowed)
        return cells

    def _split_row(self, text: str, line: int) -> list[str]:
        """Split a line at its delimiter, with quoted cells as CSV has them."""
        if '"' not in text:  # as csv does, in a fifth of its time
            return text.split(self._delimiter)
        try:
            return next(csv.reader([text], delimiter=self._delimiter), [])
        except csv.Error as error:
            raise PlanError(f"not a table: {error}", Place(self._file, line), "CSV") from None
