"""Measured values as plans: what a row says, the plan documents it allows, and what they predict.

A row is one line of a ``.jsonl`` file: ``id``, ``run`` (values of one run share it), ``source``,
``kind`` (dense, experts, inference), ``use`` (yes; offset: judged after its source's median ratio
is removed; no), ``quantity``, ``value`` in ``unit``, ``convention`` (how the source counts FLOPs,
which peak it divides by, or against which settings it states a share; null where nothing needs
saying), ``plan`` (a whole plan document) and ``unstated`` (keys that the source leaves open, with
candidates). A reading of memory may be in another unit than bytes; what a report leaves out is
taken as dense and to be used, ``weak`` evidence apart. The quantity ``verdict`` is whether the run
went out of memory ("OOM") or not ("fits").

Nothing here knows a row, a model or a source.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import planner.book.formulas  # noqa: F401  (registers the quantities)
from benchmarks.tables import Record
from planner.base import units
from planner.base.errors import PlanError
from planner.base.resources import read_yaml
from planner.book.quantity import BOOK
from planner.engine import instance as case
from planner.engine.evaluate import Absent, Evaluation
from planner.plans import error_bands as bands
from planner.questions import loading
from planner.results import intervals

Document = dict[str, Any]

#: Values that state the speed of a run, the most direct first: a run is judged by one of them.
SPEED = (
    "time.step_seconds",
    "time.tokens_per_second_per_device",
    "time.tokens_per_second",
    "time.training_days",
    "time.device_hours",
    "time.tflops_per_device",
    "time.mfu",
    "time.hfu",
    "time.latency_seconds",
    "time.decode_seconds",
)
#: What says, besides the workload, of which kind a run is.
KIND = dict(zip(("architecture", "software"), bands.PAIR, strict=True))
KIND["stack"] = "training.stack"
#: Values of a source that its own median may be taken of.
FEWEST_OF_AN_OFFSET = 3


class LeftOut(Exception):
    """A row that cannot be judged, with the reason."""


class Row(NamedTuple):
    """A measured value (not a number where nobody read it yet) and the plan of its run. ``kind`` is
    dense, experts, lora or inference."""

    id: str
    run: str
    source: str
    kind: str
    use: str
    quantity: str
    value: float
    unit: str
    convention: Mapping[str, Any]
    plan: Document
    unstated: Sequence[Mapping[str, Any]]
    publication: str
    url: str

    @property
    def group(self) -> str:
        """The heading under which its error counts: dense runs and experts are never averaged."""
        return self.source if self.kind == "dense" else f"{self.source} {self.kind}"

    @property
    def title(self) -> str:
        return str(self.plan.get("name", self.id))


def read(*files: Path) -> Iterator[Row]:
    """The rows of files that are meant to be used. A table (.yaml) among them has the stack of
    publications, by how their names begin, which decides what a row's plan does not."""
    stacks = {k: v for one in files if one.suffix == ".yaml" for k, v in read_yaml(one).items()}
    for file in (one for one in files if one.suffix != ".yaml"):
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
            if line.strip():
                try:
                    row = _row(_named(json.loads(line), stacks))
                except (ValueError, KeyError) as problem:
                    raise SystemExit(f"{file}:{number}: no row of JSON lines: {problem}") from None
                if row.use in ("yes", "offset"):
                    yield row


#: What a run that went out of memory, or did not, reads as the headroom of its device.
VERDICTS = {"OOM": -math.inf, "fits": math.inf}


def _row(data: Mapping[str, Any]) -> Row:
    document, unit, value = data["plan"], data["unit"], data["value"]
    if data["quantity"] == "verdict":
        value = VERDICTS[value]
    elif (
        value
        and data["quantity"].startswith("memory.")
        and units.find_dimension(unit) == units.find_dimension("B")
    ):
        value, unit = units.parse(f"{value} {unit}", "B"), "bytes"
    return Row(
        data["id"],
        data.get("run") or data["id"],
        data["source"],
        bands.LORA if (document.get("training") or {}).get("lora") else data.get("kind", "dense"),
        data.get("use") or ("no" if data.get("weak") else "yes"),
        data["quantity"],
        math.nan if value is None else float(value),
        unit,
        data.get("convention") or {},
        document,
        data.get("unstated") or (),
        data.get("publication") or "",
        data.get("url") or "",
    )


def _named(data: Record, stacks: Mapping[str, str]) -> Record:
    """A row whose plan names the stack of its publication or source, if the table has one."""
    names = (str(data.get("publication") or ""), data["source"])
    fits = [one for one in stacks if any(name.startswith(one) for name in names)]
    own = (data["plan"].get("training") or {}).get("stack")
    stack = {"training.stack": own or stacks[max(fits, key=len)]} if fits else {}
    return {**data, "plan": changed(data["plan"], stack)}


def changed(document: Mapping[str, Any], change: Mapping[str, Any]) -> Document:
    """A plan document with other values at some keys (``training.bytes.reduce``); None takes a key
    out."""
    made = deepcopy(dict(document))
    for key, value in change.items():
        *path, last = key.split(".")
        inner = made
        for name in path:
            below = inner.get(name, {})
            inner[name] = below if isinstance(below, dict) else {"extends": below}
            inner = inner[name]
        inner.pop(last, None)
        if value is not None:
            inner[last] = deepcopy(value)
    return made


class Plans:
    """Evaluations by document, the last ones kept: the values of one run share theirs, and the
    nearest shares its graph with the next."""

    def __init__(self, kept: int = 12) -> None:
        self.found: dict[str, Evaluation | str] = {}
        self.kept = kept

    def evaluation(self, document: Mapping[str, Any]) -> Evaluation:
        """Raises LeftOut, with what is wrong, where the document is no valid plan."""
        key = json.dumps({**document, "name": ""}, sort_keys=True)
        if key not in self.found:
            try:
                built = case.build(loading.load(document))
                others = [one for one in self.found.values() if not isinstance(one, str)]
                like = min(others, key=lambda other: other.count_changes(built), default=None)
                self.found[key] = Evaluation(built, like=like)
            except PlanError as problem:
                self.found[key] = str(problem).partition(": ")[2] or str(problem)
            if len(self.found) > self.kept:
                del self.found[next(iter(self.found))]
        found = self.found[key]
        if isinstance(found, str):
            raise LeftOut(found)
        return found

    def allowed(self, row: Row) -> list[Evaluation]:
        """The plans that a row allows. Of keys left open with ``choose: range`` each combination
        is one; with ``fits``, in each of them the first candidate that may fit in memory (the last
        where none may): the run did."""
        open_, deciding = (
            [u for u in row.unstated if (u["choose"] == "fits") == fits] for fits in (False, True)
        )
        found = []
        for some in _combinations(open_):
            for rest in _combinations(deciding):
                evaluation = self.evaluation(changed(row.plan, {**some, **rest}))
                if not deciding or may_fit(evaluation):
                    break
            found.append(evaluation)
        return found


def _combinations(unstated: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """A value for each open key, in each combination of candidates."""
    for chosen in product(*(entry["candidates"] for entry in unstated)):
        yield {
            key: value
            for entry, values in zip(unstated, chosen, strict=True)
            for key, value in zip(entry["keys"], values, strict=True)
        }


def may_fit(evaluation: Evaluation) -> bool:
    """Whether published measurements of memory leave open that the process fits in the device."""
    try:
        process, capacity = (evaluation.value(f"memory.{name}") for name in ("process", "capacity"))
    except Absent:
        return True
    bounds = intervals.compute_interval("memory.process", process, evaluation)
    return bool((bounds[0] if bounds else process) <= capacity)


def value(row: Row, evaluation: Evaluation, plans: Plans) -> float:
    """What the row should read, in its unit, as its source counts."""
    if row.quantity.startswith("memory."):
        return _memory(row, evaluation, plans)
    if row.quantity not in ("time.tflops_per_device", "time.mfu", "time.hfu"):
        return float(evaluation.value(row.quantity))
    says = row.convention
    flops = says.get("flops_per_token", says.get("implied"))
    if flops is None and not says:
        return float(evaluation.value(row.quantity))
    if flops is None:
        done = "executed_flops_per_token" if row.quantity == "time.hfu" else "flops_per_token"
        flops = evaluation.value(f"compute.{done}")
    reached = float(evaluation.value("time.tokens_per_second_per_device")) * float(flops)
    if row.quantity == "time.tflops_per_device":
        return reached / 1e12
    return reached / float(says.get("peak") or evaluation.value("time.peak"))


def _memory(row: Row, evaluation: Evaluation, plans: Plans) -> float:
    """Bytes, or the share of what the same run takes with other settings."""
    base, _, place = row.quantity.partition("[")
    point = {}
    if place:  # of one pipeline stage
        stages = evaluation.case.entries("stage")
        point = {"stage": stages[int(place.rstrip("]"))]}
    read = Fraction(evaluation.value(base, point))
    if "baseline" in row.convention:
        other = row._replace(convention={}, plan=changed(row.plan, row.convention["baseline"]))
        return float(read) / value(other, plans.allowed(other)[0], plans)
    return float(read)


def slower(quantity: str, expected: float, predicted: float) -> float:
    """Predicted over measured seconds (bytes), less 1."""
    return (expected / predicted if _is_rate(quantity) else predicted / expected) - 1


def _is_rate(quantity: str) -> bool:
    return BOOK.quantities[quantity.partition("[")[0]].scales_with == "rate"


def compare(
    rows: Iterable[Row],
    plans: Plans | None = None,
    more: Callable[[Evaluation], Record] = lambda evaluation: {},
) -> list[Record]:
    """One record for each row: expected, predicted, their error (of seconds, or of bytes), the
    interval that the prediction carries, all in the row's unit; or why it was left out. ``judged``
    marks the one value of a run that tables count."""
    plans, rows, records = plans or Plans(), list(rows), []
    for row in rows:
        records.append(
            {"id": row.id, "run": row.run, "source": row.source, "kind": row.kind}
            | {"group": row.group, "quantity": row.quantity, "offset": row.use == "offset"}
            | _compared(row, plans, more)
        )
    _judge(records)
    _remove_offsets(records)
    return records


def pair(*files: Path) -> tuple[list[Row], list[Record]]:
    """The rows of files and their records, in their order."""
    rows = list(read(*files))
    return rows, compare(rows)


def _compared(row: Row, plans: Plans, more: Callable[[Evaluation], Record]) -> Record:
    try:
        if row.convention.get("count") and "implied" not in row.convention:
            count = {"training.attention_count": row.convention["count"]}
            row = row._replace(plan=changed(row.plan, count))
        found = plans.allowed(row)
        values = [value(row, evaluation, plans) for evaluation in found]
        interval = _interval(row, found, values)
    except (Absent, LeftOut) as problem:
        return {"left_out": str(problem)}
    low, high = min(values), max(values)
    middle = (low + high) / 2
    record: Record = {
        "expected": row.value,
        "predicted": middle,
        "workload": bands.classify_time(row.quantity, found[0].case.settings),
        **{k: found[0].case.settings.get(key) for k, key in KIND.items()},
        **more(found[-1]),
    }
    if not math.isnan(row.value):
        record["error"] = slower(row.quantity, row.value, middle)
    if interval is not None:
        record["interval"] = interval
    if len(found) > 1:
        record["range"] = [low, high]
    return record


def _interval(row: Row, found: Sequence[Evaluation], values: Sequence[float]) -> list[float] | None:
    """From the lowest end to the highest of what a row allows; None where no published run is held
    against its quantity."""
    base = row.quantity.partition("[")[0]
    base = {"memory.peak": "memory.total"}.get(base, base)  # of one stage
    ends = [
        intervals.compute_interval(base, read, evaluation)
        for evaluation, read in zip(found, values, strict=True)
    ]
    known = [(float(low), float(high)) for low, high in filter(None, ends)]
    return [min(low for low, _ in known), max(high for _, high in known)] if known else None


def _judge(records: Sequence[Record]) -> None:
    """Mark one value of each run: the one that states its speed most directly, and each reading of
    memory."""
    best: dict[tuple[str, str], tuple[int, Record]] = {}
    for record in records:
        record["judged"] = False
        if "error" not in record:
            continue
        speed = record["quantity"] in SPEED
        key = (record["run"], "speed" if speed else record["quantity"])
        rank = SPEED.index(record["quantity"]) if speed else 0
        if key not in best or rank < best[key][0]:
            best[key] = (rank, record)
    for _, record in best.values():
        record["judged"] = True


def _remove_offsets(records: Sequence[Record]) -> None:
    """Judge rows marked `offset` after the median ratio of their source is removed."""
    groups: dict[tuple[str, bool], list[Record]] = {}
    for record in records:
        speed = record["quantity"] in SPEED
        groups.setdefault((record["group"], speed), []).append(record)
    for group in groups.values():
        marked = [record for record in group if record["offset"] and "error" in record]
        if not marked:
            continue
        ratios = [1 + record["error"] for record in group if record["judged"]]
        if len(ratios) < FEWEST_OF_AN_OFFSET:
            for record in marked:
                reason = "its source's common offset rests on fewer than three runs"
                record.update(left_out=reason, judged=False)
                del record["error"]
            continue
        ratio = median(ratios)
        for record in marked:
            _divide(record, ratio)


def _divide(record: Record, ratio: float) -> None:
    """The record of a source that is slower by a common factor."""
    factor = ratio if _is_rate(record["quantity"]) else 1 / ratio
    record["removed"] = ratio - 1
    record["error"] = (1 + record["error"]) / ratio - 1
    record["predicted"] *= factor
    for key in ("interval", "range"):
        if key in record:
            record[key] = [bound * factor for bound in record[key]]
