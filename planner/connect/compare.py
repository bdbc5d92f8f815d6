"""Plan against reality: what a plan says and what a run measured, quantity by quantity. Of a run
the log is read, or its step time is told."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from planner.base import numbers, units
from planner.base.display import as_json, columns, format_md_table, one_line, plain
from planner.base.errors import Fault, Place, PlanError
from planner.book.quantity import BOOK
from planner.connect import causes, logs
from planner.plans.document import Plan
from planner.plans.plan import use_utilisation, variant
from planner.results.result import Quantity, Result, evaluate_plan

#: Quantities in the order of the table; of memory the peak counts, of time the typical step.
QUANTITIES = tuple(name for name in logs.COLUMNS if "." in name)
STEP, ALL_PHASES, ROLLOUT = "time.step_seconds", "rl.step_seconds", "rl.rollout_seconds"
#: Records that are left out unless told otherwise: compilation, autotuning, first allocations.
WARM_UP = 5
#: How a rate was measured that follows from the time of a step.
FROM_STEP = "from the step time"
#: What stands for the format of a log where a step time was told.
TOLD = "step time"
#: What the first line says of it.
HEADLINE = (STEP, "time.mfu", "time.tflops_per_device", "time.training_days")
#: What follows from a step time, besides utilisation by the conventions of others.
PACE = (
    *(STEP, "time.tokens_per_second", "time.tokens_per_second_per_device"),
    *("time.tflops_per_device", "time.mfu", "time.hfu", "time.training_days"),
)


#: What is judged, by what it is called in a line: its interval is that of published runs, and it
#: is measured as it is defined here, which utilisation counted by others is not.
JUDGED = {
    **{name: BOOK.quantities[name].title for name in QUANTITIES if name.startswith("rl.")},
    **dict.fromkeys((STEP, ALL_PHASES), "one step"),
    "time.tokens_per_second": "tokens per second",
    "time.tokens_per_second_per_device": "tokens/s of a device",
    "memory.total": "live tensors, peak",
    "memory.reserved": "reserved memory",
    "memory.process": "memory of a process",
}
#: What else stands in the table.
SHORT = {**JUDGED, "time.tflops_per_device": "TFLOP/s of a device", "time.mfu": "utilisation, MFU"}
#: The words of a verdict, by its state.
VERDICTS = {
    **{"inside": "AS PREDICTED", "outside": "DIFFERS", "open": "OPEN"},
    "another": "ANOTHER RUN",
}
#: A difference of the time of a step that is worth an explanation inside its interval, too.
WORTH = Fraction(1, 20)


@dataclass(frozen=True)
class Row:
    """A quantity as planned and as measured.

    Attributes:
        quantity: the planned quantity.
        measured: the measured value, in the quantity's unit.
        how: how the log gives the value, such as the column or the step time that it follows from.
    """

    quantity: Quantity
    measured: Fraction
    how: str

    @property
    def id(self) -> str:
        """Return the id of the quantity."""
        return self.quantity.id

    @property
    def planned(self) -> Any:
        """Return the exact value; None where the plan has none."""
        value = self.quantity.value
        return Fraction(value) if isinstance(value, float) else value

    @property
    def inside(self) -> bool | None:
        """Check whether the measured value lies in the interval; None without one."""
        interval = self.quantity.interval
        return None if interval is None else bool(interval[0] <= self.measured <= interval[1])

    @property
    def gap(self) -> Fraction:
        """Return measured less predicted."""
        return self.measured - Fraction(self.quantity.number)

    @property
    def judged(self) -> bool:
        """Check whether the row alone can show another run: what follows from the step time
        cannot."""
        return self.id in JUDGED and self.how != FROM_STEP and self.inside is not None

    @property
    def between(self) -> str:
        """Format the interval, in one unit where both ends have the same."""
        return numbers.between(map(self.text, self.quantity.interval or ("", "")))

    @property
    def difference(self) -> str:
        """Format by how much the measured value is above or below the planned one."""
        if not self.ratio:
            return ""
        return numbers.text(1 / self.ratio - 1, style="change")

    @property
    def title(self) -> str:
        """Return the title, with the convention of a utilisation."""
        entries = ", ".join(entry.name for entry in self.quantity.entries)
        return f"{entries} {self.quantity.declared.short}" if entries else self.quantity.title

    @property
    def ratio(self) -> Fraction | None:
        """Return planned over measured; None if the plan has no value or the measured one is 0."""
        if self.planned is None or not self.measured:
            return None
        return Fraction(self.planned) / self.measured

    def to_json(self) -> dict[str, Any]:
        """Return the row by the names of its columns; ``inside`` only with an interval."""
        row = {
            "id": self.id,
            "unit": self.quantity.unit,
            "planned": self.planned,
            "measured": self.measured,
            "ratio": self.ratio,
            "how": self.how,
        }
        return row if self.inside is None else {**row, "inside": self.inside}

    def list_cells(self) -> tuple[str, ...]:
        """Format the row: title, planned, measured, their ratio, how it was measured."""
        planned = "absent" if self.planned is None else self.text(self.planned)
        ratio = "" if self.ratio is None else numbers.text(self.ratio, style="table")
        return self.title, planned, self.text(self.measured), ratio, self.how

    def text(self, value: Any) -> str:
        """Format a value of the quantity."""
        return self.quantity.declared.text(value)


@dataclass(frozen=True)
class RunComparison:
    """A plan beside the log of its run.

    Attributes:
        log: the file as it was named, or its name alone where the path was absolute; or the step
            time that was given instead.
        format: the format of the log.
        rows: the quantities that the log gives.
        notes: sentences on what was read and left out.
        result: the result of the plan.
        warm_up: records left out at the start, where the user gave a number.
        unlike: sentences on settings that the log states and the plan has with other values.
    """

    log: str
    format: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    result: Result
    warm_up: int | None = None
    #: What the log states of its run that the plan has otherwise.
    unlike: tuple[str, ...] = ()

    @property
    def state(self) -> str:
        """Return the verdict: `inside` or `outside` the interval of published runs, `open` without
        one, `another` where the run is not the one that was planned."""
        if self.unlike:
            return "another"
        inside = [row.inside for row in self.rows if row.judged]
        return "open" if not inside else "inside" if all(inside) else "outside"

    @cached_property
    def sentence(self) -> str:
        """Write the verdict in words."""
        rows = {row.id: row for row in self.rows}
        lead = rows.get(STEP) or next((row for row in self.rows if row.judged), None)
        pieces = [f"{each[0].upper()}{each[1:]}." for each in self.unlike]
        if lead is not None and lead.inside is not None:
            where = "inside" if lead.inside else "outside"
            pieces.append(
                f"{SHORT[lead.id].capitalize()}: {lead.text(lead.measured)} measured, "
                f"{lead.text(lead.quantity.value)} predicted, {where} the interval of published "
                f"runs of this kind ({lead.between})."
            )
        others = [row for row in self.rows if row.judged and row is not lead and not row.inside]
        if others:
            said = "; ".join(
                f"{SHORT[row.id]}, {row.text(row.measured)} for {row.text(row.quantity.value)} "
                f"({row.between})"
                for row in others
            )
            pieces.append(f"{'Outside' if lead and lead.inside else 'So are'}: {said}.")
        other = self.result.alternative
        if lead is not None and other is not None and not self.result.assumes_utilisation:
            share, step = other["time.mfu"].text(), other[STEP].text()
            pieces.append(f"The plan assumes a utilisation of {share}, {step} a step.")
        return " ".join(pieces) or "No interval of published runs holds for what was measured."

    @cached_property
    def explained(self) -> list[str]:
        """Explain the differences, the time of a step first."""
        lines: list[str] = []
        for row in () if self.unlike else self.rows:
            far = row.id == STEP and row.judged and abs(row.gap) > WORTH * row.measured
            if (row.judged and not row.inside and row.id[:7] in ("time.st", "memory.")) or far:
                lines += causes.explain_gap(self.result, row.id, row.gap, 2)
        return lines[:3]

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as a result holds it under ``comparison``."""
        tree = {
            "log": self.log,
            "format": self.format,
            "warm_up": self.warm_up,
            "quantities": [row.to_json() for row in self.rows],
            "notes": self.notes,
        }
        return plain(tree)  # type: ignore[no-any-return]


def compare(plan: Plan, path: str | Path, warm_up: int | None = None) -> RunComparison:
    """Compare the plan's quantities with those in the log of a run.

    Args:
        plan: what was planned.
        path: the log; its format is told by its content.
        warm_up: records left out at the start; 5, or half of a shorter log, unless given.

    Returns:
        The rows, the verdict and notes; the plan's result holds it, too.

    Raises:
        PlanError: the log cannot be read, or holds no more than the warm-up.
    """
    log, result = logs.read_log(path), evaluate_plan(plan)
    rows, notes = compare_rows(result, log, warm_up)
    wrong = tuple(said for _, said in find_conflicts(plan, log))
    notes += wrong
    file = Path(path)
    name = file.name if file.is_absolute() else file.as_posix()
    found = RunComparison(name, log.format, rows, tuple(notes), result, warm_up, wrong)
    result.comparison = found  # its reports show it
    return found


def compare_rows(
    result: Result, log: logs.Log, warm_up: int | None = None
) -> tuple[tuple[Row, ...], list[str]]:
    """Compare a result with what a log holds.

    Args:
        result: of the plan.
        log: what was measured.
        warm_up: as for ``compare``.

    Returns:
        A row for each quantity that is logged or follows from one, and notes for the reader.

    Raises:
        PlanError: the log holds no more than the warm-up.
    """
    measured, notes = _measure_log(log, warm_up)
    derive = _derive_phases if result.plan.reinforced else _derive_pace
    derive(measured, result.plan)
    _derive_mfu(measured, result)
    if result.plan.reinforced and sum(key.startswith("rl.") for key in measured) < 2:
        notes.append("no phase of a step is logged by a known name, such as timing_s/ref")
    if "time.mfu" in measured and measured["time.mfu"][0] > 1:
        notes.append(
            "no device runs faster than its peak: the log is of other devices, another model, "
            "batch or length than the plan"
        )
    rows = tuple(
        Row(result[key], *measured[key]) for key in QUANTITIES if key in measured and key in result
    )
    if not rows:
        what = "phases of reinforcement learning alone are logged"
        raise PlanError(what, Place(log.file), "training.mode: rl")
    return rows, notes


def compare_step(plan: Plan, text: str) -> RunComparison:
    """Compare the plan's quantities with what they are at a measured step time, by the same
    formulas: the plan at the utilisation that this time means.

    Args:
        plan: what was planned, a training run.
        text: the time of one optimizer step, such as `1.4s`.

    Raises:
        PlanError: no time above 0, less than the FLOPs of a step take at the peak, or a plan whose
            steps have no time.
    """
    result = evaluate_plan(plan)
    such = "a time above 0, such as 1.4s"
    seconds = units.parse_option("--step-time", text, "s", such)
    least = _time_at_peak(plan)
    if seconds < least:
        said = f"a step of {text} is faster than its FLOPs at the peak of all devices"
        raise PlanError(said, None, f"{numbers.text(least, 's')} or more")
    paced = evaluate_plan(variant(plan, use_utilisation(least / seconds)))
    ids = [name for name in PACE if name in paced]
    entries = [entry.path for entry in result.list_entries("convention")]
    ids += [f"time.utilisation[{path}]" for path in entries if path != "mfu"]
    ids = [name for name in ids if paced[name].absent is None]
    ways = {STEP: "as told"}
    rows = [Row(result[name], paced[name].number, ways.get(name, "at that pace")) for name in ids]
    found = RunComparison(text, TOLD, tuple(rows), (), result)
    result.comparison = found
    return found


def _time_at_peak(plan: Plan) -> Fraction:
    """Compute the seconds that the model FLOPs of a step take at the peak of all devices."""
    if plan.settings["training.mode"] != "train":
        raise PlanError("--step-time needs a training plan", None, "training.mode: train")
    step = evaluate_plan(variant(plan, use_utilisation(1)))[STEP]
    if step.absent is not None:
        raise PlanError(f"{STEP} cannot be computed: {step.absent}")
    return step.number


def find_conflicts(plan: Plan, log: logs.Log) -> Iterator[tuple[str, str]]:
    """Yield the keys that a log states otherwise than the plan, with a sentence for each."""
    for column, key, of in (
        ("batch", "training.global_batch", "a global batch of {} sequences"),
        ("length", "training.sequence_length", "sequences of {} tokens"),
        ("devices", "cluster.devices", "{} devices"),
    ):
        planned = plan.get(key)
        for series in log.list_series(column)[:1]:
            logged = series.to_exact(series.doubles[-1])
            if planned and logged != planned:
                yield (
                    key,
                    f"the run ends with {of.format(int(logged))}, the plan has {planned}: "
                    "their steps are not the same work",
                )


def measure_step(plan: Plan, path: str | Path, warm_up: int | None = None) -> Fraction:
    """Measure the typical step, s, of a run that a plan describes.

    Args:
        plan: the plan of the run.
        path: its log.
        warm_up: as for ``compare``.

    Raises:
        PlanError: the log cannot be read or holds no step time, or its run is another one.
    """
    log = logs.read_log(path)
    faults = [
        Fault(wrong, plan.document.find_place(tuple(key.split("."))), f"the plan of {log.file}")
        for key, wrong in find_conflicts(plan, log)
    ]
    if faults:
        raise PlanError(faults)
    measured, _ = _measure_log(log, warm_up)
    _derive_pace(measured, plan)
    found, _ = measured.get(STEP, (Fraction(0), ""))
    if not found:
        allowed = "seconds of a step, or tokens per second"
        raise PlanError("no time of a step is logged", Place(log.file), allowed)
    return found


Measured = dict[str, tuple[Fraction, str]]


def _measure_log(log: logs.Log, warm_up: int | None) -> tuple[Measured, list[str]]:
    """Take the median after the warm-up of what varies, and the peak of memory."""
    found: Measured = {}
    notes = [
        f"{one_line(label)} is {numbers.text(Fraction(value))} in the log: above 1 and not in "
        "percent by its name, it is left out"
        for label, value in log.unread.items()
    ]
    for identifier in (*QUANTITIES, *logs.RATES, logs.WAIT):
        columns = log.list_series(identifier)
        if not columns:
            continue
        if identifier.startswith("memory."):
            peak = max(values.to_exact(max(values.doubles)) for values in columns)
            count = sum(len(values.doubles) for values in columns)
            found[identifier] = peak, f"highest of {count}"
            continue
        if not identifier.startswith("rl."):
            columns = columns[:1]  # one quantity, though some logs have it in several units
        values, total = columns[0], Fraction(0)
        if identifier in (STEP, ALL_PHASES) and values.is_clock:
            what = "step times grow with each record, like a clock"
            raise PlanError(what, Place(log.file), "the time of each step by itself")
        told = min(WARM_UP, len(values.doubles) // 2) if warm_up is None else max(0, warm_up)
        for values in columns:
            count = len(values.doubles)
            skipped = values.skip_steps(told)
            if skipped >= count and warm_up is None:  # of few steps, of which many ranks wrote
                skipped = count // 2
            if skipped >= count:
                fault = f"{count} records, all of them warm-up"
                raise PlanError(fault, Place(log.file), f"--warm-up below {count}")
            total += values.find_median(skipped)
        several = f"sum of {len(columns)} columns" if columns[1:] else ""
        found[identifier] = total, several or f"median of {count - skipped}"
        note = f"the first {skipped} of {count} records are left out as warm-up"
        if skipped and note not in notes:
            notes.append(note)
    for identifier in ("time.tflops_per_device", "time.mfu"):
        if identifier in found and log.format in logs.TRAINERS:
            notes.append(f"{identifier} is measured by {log.format}'s own count of FLOPs")
    if not found:
        raise PlanError("no step, throughput or memory is logged", Place(log.file))
    for losses in log.list_series(logs.LOSS)[:1]:
        ends = (numbers.text(losses.to_exact(losses.doubles[at]), style="exact") for at in (0, -1))
        notes.append("the loss is {} at the first record and {} at the last".format(*ends))
    run, paused = (
        sum(map(values.to_exact, values.doubles), Fraction(0))
        for name in ("run_seconds", "evaluation_seconds")
        for values in log.list_series(name)[:1] or [logs.Series()]
    )
    if 0 < paused < run and "steps_per_second" in found:
        rate, how = found["steps_per_second"]
        found["steps_per_second"] = rate * run / (run - paused), how
        share = numbers.text(paused / run, style="share")
        notes.append(f"evaluations are taken out of the run's time, {share} of it")
    return found, notes


def _derive_phases(measured: Measured, plan: Plan) -> None:
    """Derive the rollout, or the share that the trainer waits, from its wait for responses; what a
    log calls a step has all phases."""
    if STEP in measured:
        measured.setdefault(ALL_PHASES, measured.pop(STEP))
    wait = measured.pop(logs.WAIT, None)
    if wait and not plan.data["rl"]["staleness"]:
        measured.setdefault(ROLLOUT, wait)
    elif wait and ALL_PHASES in measured:
        share = wait[0] / measured[ALL_PHASES][0]
        measured["rl.trainer_idle_share"] = share, "from the wait and the step time"


def _derive_pace(measured: Measured, plan: Plan) -> None:
    """Derive step time and throughput from each other."""
    steps, samples, each = (measured.pop(rate, (Fraction(0), ""))[0] for rate in logs.RATES)
    sequences = plan.get("training.global_batch")
    if STEP not in measured and steps:
        measured[STEP] = 1 / steps, "from the steps per second"
    if STEP not in measured and sequences and samples + each:
        measured[STEP] = sequences * (each or 1 / samples), "from the sequences per second"
    batch, length = plan.get("training.global_batch"), plan.get("training.sequence_length")
    devices, work = plan.get("cluster.devices"), dict[str, Fraction]()
    if batch and length and devices:  # tokens of a step, by the quantity that is their rate
        work["time.tokens_per_second_per_device"] = Fraction(batch * length, devices)
        work["time.tokens_per_second"] = Fraction(batch * length)
    for rate, done in work.items():
        if STEP not in measured and rate in measured and measured[rate][0]:
            measured[STEP] = done / measured[rate][0], "from the tokens per second"
    if STEP in measured and measured[STEP][0]:
        for rate, done in work.items():
            measured.setdefault(rate, (done / measured[STEP][0], FROM_STEP))


def _derive_mfu(measured: Measured, result: Result) -> None:
    """Derive utilisation from the step time: only the time differs on both sides."""
    planned, mfu = result.get(STEP), result.get("time.mfu")
    if STEP in measured and measured[STEP][0] and planned and mfu:
        share = mfu.number * planned.number / measured[STEP][0]
        measured.setdefault("time.mfu", (share, "from the step time and the plan's FLOPs"))


# Tables ---------------------------------------------------------------------------------------


HEADER = ("quantity", "planned", "measured", "planned/measured", "measured as")


def _format_notes(notes: Iterable[str]) -> list[str]:
    """Notes below a table, a blank line before them."""
    found = [f"- {note}" for note in notes]
    return ["", *found] if found else []


def _join_lines(*lines: str) -> str:
    """Join texts as lines, each with its own line breaks removed."""
    return "".join(one_line(line) + "\n" for line in lines)


def render_table(comparison: RunComparison) -> str:
    """Render the comparison as a table for a terminal."""
    if comparison.format == TOLD:
        return _render_step(comparison)
    word = VERDICTS[comparison.state]
    indent = " " * (len(word) + 2)
    said = _wrap_text(indent + comparison.sentence, indent)
    cells: list[tuple[str, ...]] = [("", "planned", "measured", "", "5 to 95 %", "")]
    for row in comparison.rows:
        # Beside the names of the rows, rates need no word for what they count.
        measured, planned, between = (
            words.replace(" tokens/s", "/s")
            for words in (
                row.text(row.measured),
                "absent" if row.planned is None else row.text(row.planned),
                row.between if row.inside is not None else "",
            )
        )
        unit = measured.partition(" ")[2]
        cells.append(
            (
                SHORT[row.id],
                planned.removesuffix(f" {unit}"),
                measured,
                row.difference,
                between if " – " in between else between.removesuffix(f" {unit}"),
                "outside" if row.inside is False and row.id in JUDGED else "",
            )
        )
    of = f"{comparison.log} ({comparison.format})"
    notes = [note for note in comparison.notes if note not in comparison.unlike]
    return _join_lines(
        f"{word}  {comparison.result.plan.name}",
        *said,
        "",
        *columns(cells, right=(1, 2, 3, 4)),
        *(line for each in _format_notes(comparison.explained) for line in _wrap_text(each)),
        *(line for each in _format_notes([of, *notes]) for line in _wrap_text(each)),
    )


def _wrap_text(text: str, indent: str = "  ") -> list[str]:
    """Wrap a text to the lines of a terminal; a number is never parted from its unit."""
    joined = re.sub(r"(?<=\d) (?=[^\W\d]|%)", "\N{NO-BREAK SPACE}", text)
    lines = textwrap.wrap(joined, 80, subsequent_indent=indent, break_on_hyphens=False)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines] or [""]


def _render_step(comparison: RunComparison) -> str:
    """Render what follows from a step time, and the plan beside it, by ids."""
    rows = {row.id: row for row in comparison.rows}
    said = [rows[name].text(rows[name].measured) for name in HEADLINE if name in rows]
    lead = f"{said[0]} a step: {', '.join([f'MFU {said[1]}', f'{said[2]} a device', *said[3:]])}"
    cells: list[tuple[str, ...]] = [("quantity", "planned", "at this pace", "ratio")]
    cells += [(row.id, *row.list_cells()[1:4]) for row in comparison.rows]
    return _join_lines(lead, comparison.result.plan.name, "", *columns(cells, right=(1, 2, 3)))


def render_section(comparison: RunComparison) -> str:
    """Render the comparison as a section of a report."""
    lines = [
        "## Plan and reality",
        "",
        f"Measured: `{one_line(comparison.log).replace('`', '')}` ({comparison.format}).",
        "",
        *([] if comparison.format == TOLD else [one_line(comparison.sentence), ""]),
        *format_md_table([HEADER, *(row.list_cells() for row in comparison.rows)], right=(1, 2, 3)),
    ]
    if comparison.notes:
        lines += ["", *(f"- {one_line(note)}" for note in comparison.notes)]
    return "\n".join(lines) + "\n"


def dump_rows(comparison: RunComparison) -> str:
    """Format the rows as JSON, with the verdict and its explanation."""
    tree = {"plan": comparison.result.plan.name, **comparison.to_json()}
    if comparison.format != TOLD:
        said = {"state": comparison.state, "text": comparison.sentence}
        tree["verdict"] = {**said, "explained": comparison.explained}
    return as_json(tree)
