"""Measured runs: reads step times, throughput and peak memory from the logs of a training run.

Formats are told apart by what stands in them: the lines of Megatron-LM, the lines of torchtitan,
JSON or JSON lines, or a table with a header (CSV).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from planner import files
from planner.errors import Fault, Place, PlanError

__all__ = ["Log", "Series", "read"]

MAX_BYTES = 256 * 10**6

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER = r"([0-9][0-9,]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"

#: Columns of tables and keys of JSON, by quantity; a unit may follow the name.
COLUMNS: dict[str, tuple[str, ...]] = {
    "time.step_seconds": (
        "step_seconds",
        "step_time",
        "seconds_per_step",
        "iteration_time",
        "time_per_iteration",
        "elapsed_time_per_iteration",
        "time_metrics/end_to_end",
        "seconds",
    ),
    "time.tokens_per_second": ("tokens_per_second", "tokens/s", "total_tokens_per_second"),
    "time.tokens_per_second_per_device": (
        "tokens_per_second_per_device",
        "tokens_per_second_per_gpu",
        "tokens/s/gpu",
        "tps",
        "throughput(tps)",
        "tgs",
    ),
    "time.tflops_per_device": ("tflops_per_device", "tflops_per_gpu", "tflops", "tflop/s/gpu"),
    "time.mfu": ("mfu",),
    "memory.total": (
        "memory_allocated",
        "max_memory_allocated",
        "peak_allocated",
        "max_allocated",
        "memory/max_active",
        "memory_total",
        "peak_memory",
    ),
    "memory.reserved": (
        "memory_reserved",
        "max_memory_reserved",
        "peak_reserved",
        "max_reserved",
        "memory/max_reserved",
    ),
    "memory.process": ("memory_process", "process_memory", "device_memory_used", "nvidia_smi"),
    "step": ("step", "iteration", "global_step", "_step"),
    "batch": ("global_batch", "global_batch_size", "batch_size"),
}
UNITS: dict[str, tuple[str, Fraction]] = {
    "s": ("time", Fraction(1)),
    "sec": ("time", Fraction(1)),
    "seconds": ("time", Fraction(1)),
    "ms": ("time", Fraction(1, 1000)),
    "%": ("mfu", Fraction(1, 100)),
    "percent": ("mfu", Fraction(1, 100)),
    "bytes": ("memory", Fraction(1)),
    "b": ("memory", Fraction(1)),
    "kib": ("memory", Fraction(2**10)),
    "mib": ("memory", Fraction(2**20)),
    "gib": ("memory", Fraction(2**30)),
    "mb": ("memory", Fraction(10**6)),
    "gb": ("memory", Fraction(10**9)),
}


@dataclass
class Series:
    """What was logged of one quantity, in the order of the log."""

    values: list[Fraction] = field(default_factory=list)


@dataclass
class Log:
    """A measured run: for each quantity what was logged, in SI units and bytes."""

    file: str
    format: str
    series: dict[str, Series] = field(default_factory=dict)

    def add(self, quantity: str, value: Fraction) -> None:
        self.series.setdefault(quantity, Series()).values.append(value)

    def values(self, quantity: str) -> list[Fraction]:
        return self.series[quantity].values if quantity in self.series else []


def read(path: str | Path) -> Log:
    """The log of a run.

    Raises:
        PlanError: it cannot be read, or nothing in it is a log that we know.
    """
    text, name = _text(path), str(path)
    for reader in (_megatron, _torchtitan, _json, _table):
        log = reader(text, name)
        if log is not None:
            return log
    raise PlanError(
        Fault(
            "no log of a training run",
            Place(name),
            "lines of Megatron-LM or torchtitan, or CSV or JSON with columns such "
            "as step_seconds and memory_reserved_gib",
        )
    )


def _text(path: str | Path) -> str:
    place = Place(str(path))
    raw = files.read_bytes(path, MAX_BYTES, place, "the log of a run")
    if b"\0" in raw[:4096]:
        raise PlanError(Fault("not a text file", place, "the log of a run"))
    # A log cut off in the middle of a character is still a log.
    return _COLOUR.sub("", raw.decode("utf-8", errors="replace")).lstrip("\ufeff")


# Megatron-LM: megatron/training/training.py, training_log; utils.py, report_memory ------------

_ITERATION = re.compile(
    r"iteration\s+\d+\s*/\s*\d+ \|[^\n]*?elapsed time per iteration \(ms\): " + _NUMBER + r"[^\n]*"
)
_TFLOPS = re.compile(r"throughput per GPU \(TFLOP/s/GPU\): " + _NUMBER)
_BATCH = re.compile(r"global batch size:\s*" + _NUMBER)
_MEMORY = re.compile(r"memory \(MB\)((?:\s*\|\s*[a-z ]+: [0-9.]+)+)")
_FIELD = re.compile(r"\|\s*([a-z ]+): ([0-9.]+)")
#: What it prints as MB are 2^20 bytes.
_PEAKS = {
    "max allocated": "memory.total",
    "max reserved": "memory.reserved",
    "total device memory used": "memory.process",
}


def _megatron(text: str, name: str) -> Log | None:
    log = Log(name, "Megatron-LM")
    for match in _ITERATION.finditer(text):
        log.add("time.step_seconds", _number(match[1]) / 1000)
        for pattern, quantity in ((_TFLOPS, "time.tflops_per_device"), (_BATCH, "batch")):
            found = pattern.search(match[0])
            if found:
                log.add(quantity, _number(found[1]))
    for match in _MEMORY.finditer(text):
        for label, value in _FIELD.findall(match[1]):
            if label in _PEAKS:
                log.add(_PEAKS[label], _number(value) * 2**20)
    return log if log.series else None


# torchtitan: components/metrics.py, MetricsProcessor.log --------------------------------------

_STEP = re.compile(
    r"(?<!validate )step:\s*\d+\s+loss:[^\n]*?memory:\s*" + _NUMBER + r"GiB\([^)\n]*\)\s+"
    r"(?:tps|wps):\s*"
    + _NUMBER
    + r"(?:\s+tflops:\s*"
    + _NUMBER
    + r")?(?:\s+mfu:\s*"
    + _NUMBER
    + "%)?"
)


def _torchtitan(text: str, name: str) -> Log | None:
    log = Log(name, "torchtitan")
    for match in _STEP.finditer(text):
        memory, tokens, tflops, mfu = match.groups()
        log.add("memory.reserved", _number(memory) * 2**30)
        log.add("time.tokens_per_second_per_device", _number(tokens))
        if tflops:
            log.add("time.tflops_per_device", _number(tflops))
        if mfu:
            log.add("time.mfu", _number(mfu) / 100)
    return log if log.series else None


def _number(text: str) -> Fraction:
    return Fraction(text.replace(",", ""))


# JSON and tables ------------------------------------------------------------------------------

_GROUP = re.compile(r"^(?:train|training|perf|performance)[/_.]")

Column = tuple[str, Fraction]  # quantity, and what one unit of the column is worth


def column(label: str) -> Column | None:
    """The quantity that a column holds, by its name and the unit behind it."""
    plain = label.strip().casefold().replace(" ", "_")
    plain = _GROUP.sub("", plain)
    for quantity, names in COLUMNS.items():
        kind = "mfu" if quantity == "time.mfu" else quantity.split(".")[0]
        for known in (quantity, *names):
            if plain == known:
                return quantity, Fraction(1)
            rest = plain.removeprefix(known) if plain.startswith(known) else ""
            unit = rest.strip("_()[]")
            if unit in UNITS and UNITS[unit][0] == kind:
                return quantity, UNITS[unit][1]
    return None


def _rows(rows: Iterable[tuple[int, Mapping[str, Any]]], name: str, form: str) -> Log | None:
    log = Log(name, form)
    columns: dict[str, Column | None] = {}
    for line, row in rows:
        for label, value in row.items():
            if label not in columns:
                columns[label] = column(label)
            known = columns[label]
            if known is not None and known[0] != "step" and value not in (None, ""):
                measured = _measured(value, label, Place(name, line))
                if measured is not None:
                    log.add(known[0], measured * known[1])
    return log if log.series else None


def _measured(value: Any, label: str, place: Place) -> Fraction | None:
    """A positive number; not-a-number stands for nothing measured."""
    try:
        if isinstance(value, bool):
            raise ValueError
        text = str(value).strip()
        if text.casefold() in ("nan", "none", "null", "-", ""):
            return None
        number = Fraction(text) if len(text) < 100 else Fraction(float(text))
    except (ValueError, ZeroDivisionError, OverflowError):
        raise PlanError(Fault(f"{label} is {str(value)[:40]!r}", place, "a number")) from None
    if number < 0:
        raise PlanError(Fault(f"{label} is {value}", place, "a number of at least 0"))
    return number


def _whole(text: str) -> int | str:
    return int(text) if len(text) < 100 else text


def _json(text: str, name: str) -> Log | None:
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return _records(text, name)
    except RecursionError:
        fault = Fault("nested too deeply", Place(name, 1, 1), "a list of records")
        raise PlanError(fault) from None


def _records(text: str, name: str) -> Log | None:
    import json

    # A number may be longer than Python turns into an int; as text it is judged like those of CSV.
    load: Callable[[str], Any] = lambda s: json.loads(  # noqa: E731
        s, parse_int=_whole, parse_float=str, parse_constant=lambda _: None
    )
    try:
        tree = load(text)
    except json.JSONDecodeError as whole:
        rows: list[tuple[int, Mapping[str, Any]]] = []
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip():
                continue
            try:
                row = load(line)
            except json.JSONDecodeError as error:
                at = error if rows else whole
                place = Place(name, number if rows else whole.lineno, at.colno)
                raise PlanError(Fault(f"not JSON: {at.msg}", place, "one object a line")) from None
            if isinstance(row, dict):
                rows.append((number, _flat(row)))
        return _rows(rows, name, "JSON lines")
    return _rows([(1, row) for row in _objects(tree)], name, "JSON")


def _objects(tree: Any) -> list[Mapping[str, Any]]:
    """The records of a JSON document: a list of objects, under a key or not, or one object."""
    if isinstance(tree, list):
        return [_flat(row) for row in tree if isinstance(row, dict)]
    lists = [v for v in tree.values() if isinstance(v, list) and v and isinstance(v[0], dict)]
    own = _flat({k: v for k, v in tree.items() if not isinstance(v, list)})
    return [own, *(row for rows in lists for row in _objects(rows))]


def _flat(row: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{before}{key}_")
        elif not isinstance(value, list):
            found[f"{before}{key}"] = value
    return found


def _table(text: str, name: str) -> Log | None:
    import csv

    lines = text.splitlines()
    start = next(
        (i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), None
    )
    if start is None:
        return None
    separator = max(",;\t", key=lines[start].count)
    try:
        cells = list(csv.reader(lines[start:], delimiter=separator))
    except csv.Error as error:
        raise PlanError(Fault(f"not a table: {error}", Place(name), "CSV")) from None
    header = [label.strip() for label in cells[0]]
    if not any(column(label) for label in header):
        return None
    rows = []
    for number, row in enumerate(cells[1:], start + 2):
        if not row:
            continue
        if len(row) != len(header):
            raise PlanError(
                Fault(
                    f"{len(row)} columns", Place(name, number), f"{len(header)}, as in the header"
                )
            )
        rows.append((number, dict(zip(header, row, strict=True))))
    return _rows(rows, name, "CSV")
