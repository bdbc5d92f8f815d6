"""Which models can be trained on some devices, by which method and at which length, how fast and
for how much.

Every cell is a plan of the study presets/studies/fit_table.yaml whose layout is searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from planner.base import files, resources
from planner.base.errors import PlanError
from planner.documents import schema_files
from planner.documents.source import change_keys, is_within
from planner.documents.stacks import SOFTWARE, choose_stack
from planner.documents.yaml_nodes import parse_plain
from planner.plans.document import Plan
from planner.questions.solve.priced_devices import find_listed_price, get_payment
from planner.questions.studies.axes import collect_keys
from planner.questions.studies.engines import choose_engine
from planner.questions.studies.study import StudySpec, read_study
from planner.questions.studies.work import Job
from planner.results.inputs import find_origin

#: The study, and keys of it that options of the command take the place of.
FIT_STUDY = "studies/fit_table"
TOKENS_LONG = "training.sequence_length"
RATE, PROCESS_BYTES, DEVICE_BYTES = "time.tokens_per_second", "memory.process", "memory.capacity"
PRICE, COST = "cluster.price", "cost.total"
#: Most devices of the table: beyond them a plan of one's own says what the machine is.
MOST_DEVICES = 8


@dataclass(frozen=True)
class FitCell:
    """One model, method and length.

    Attributes:
        document: its plan, as a user would write it.
        row: the row of the study's table.
    """

    document: Mapping[str, Any]
    row: Mapping[str, Any]

    @property
    def model(self) -> str:
        """The model."""
        return str(self.row["model"])

    @property
    def method(self) -> str:
        """The method, as the study names it."""
        return str(self.row["method"])

    @property
    def length(self) -> int:
        """Tokens of a sequence."""
        return int(self.row[TOKENS_LONG])

    @property
    def state(self) -> str:
        """The state of the verdict; open where nothing is valid."""
        return self.row["verdict"] or "open"

    @property
    def hours(self) -> list[float | None]:
        """The hours of the examples, and their interval."""
        days = (self.row.get(f"time.training_days{end}") for end in ("", ".low", ".high"))
        return [one and one * 24 for one in days]


@dataclass(frozen=True)
class FitTable:
    """The cells, in the order of models, methods and lengths.

    Attributes:
        study: what was evaluated.
        cells: one for each of its points.
        examples: how many examples the hours and the cost are for.
    """

    study: StudySpec
    cells: tuple[FitCell, ...]
    examples: int

    @cached_property
    def plan(self) -> Plan:
        """The plan of the first cell that is valid, whose devices and stack all have."""
        point = next((n for n, cell in enumerate(self.cells) if cell.row["verdict"]), 0)
        return self.study.build_plan(point)

    @cached_property
    def price(self) -> tuple[Any, str]:
        """The price of an hour of a device, None where it is unknown, and whose it is, and when."""
        return self.plan.get(PRICE), find_origin(self.plan, PRICE)[1]

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The lengths, each once."""
        return tuple(dict.fromkeys(cell.length for cell in self.cells))

    @cached_property
    def rows(self) -> list[tuple[FitCell, ...]]:
        """The cells of each model and method."""
        size = len(self.lengths)
        return [self.cells[n : n + size] for n in range(0, len(self.cells), size)]


def evaluate_fit_table(
    device: str,
    devices: int = 1,
    models: Sequence[str] = (),
    lengths: Sequence[str] = (),
    examples: int = 10_000,
    changes: Sequence[str] = (),
) -> FitTable:
    """Evaluate models, methods and lengths on some devices of one node.

    Args:
        device: a built-in accelerator, or the file of one.
        devices: how many.
        models: built-in models or files; those of the study by default.
        lengths: tokens of a sequence; those of the study by default.
        examples: how many examples the hours and the cost are for.
        changes: further keys of the plans, each KEY=VALUE.

    Raises:
        PlanError: an unknown device, model or key, or a value that it cannot have.
    """
    if not 1 <= devices <= MOST_DEVICES:
        raise PlanError(f"--devices {devices}", None, f"1 to {MOST_DEVICES}, of one node")
    if examples < 1:
        raise PlanError(f"--examples {examples}", None, "at least 1")
    document = deepcopy(resources.load_preset(FIT_STUDY))
    base, axes = document["base"], document["axes"]
    base["cluster"] = {"accelerator": device, "devices": devices, "devices_per_node": devices}
    axes["model"] = [*models] or axes["model"]
    axes[TOKENS_LONG] = [*lengths] or axes[TOKENS_LONG]
    base["training"]["examples"] = examples
    asked = [f"base.{change}" for change in changes]
    study = read_study(document, asked)
    pairs = (change.partition("=") for change in changes)
    given = {key.strip(): parse_plain(value, "--set") for key, _, value in pairs}
    taken = (*collect_keys(study.axes), "training.examples", "training.tokens")
    for key in [k for k in given if any(is_within(one, (k,)) for one in taken)]:
        raise PlanError(f"--set {key}: the methods, lengths and examples set it")
    get = study.bases[0].get
    if "bf16" not in get("cluster.accelerator.peaks") and "training.precision" not in given:
        given["training.precision"] = base["training"]["precision"] = "fp16"
    own = {**dict.fromkeys(SOFTWARE), "training.lora": "each method's"}
    chosen = choose_stack(lambda key: own[key] if key in own else get(key))
    if chosen and "training.stack" not in given:
        base["training"]["stack"] = chosen["stack"]
    listed = find_listed_price(get("cluster.accelerator"), None, get_payment(study.bases[0]))
    if listed and get(PRICE) is None and get("cluster.provider") is None:
        base["cluster"]["provider"] = listed["provider"]
    study = read_study(document, asked)
    said = change_keys(base, given)
    points = (
        {"model": model, **method["set"], TOKENS_LONG: length.label}
        for model in axes["model"]
        for method in axes["method"]
        for length in study.axes[-1].choices
    )
    cells = tuple(
        FitCell(change_keys(said, point), row)
        for point, row in zip(points, _iter_study_rows(study), strict=True)
    )
    return FitTable(study, cells, examples)


def _iter_study_rows(study: StudySpec) -> Iterator[dict[str, Any]]:
    """Evaluate a study on all cores, and yield the rows of its table."""
    job = Job(study, "jsonl")
    with closing(choose_engine(None, None)(job, range(len(job.pieces)))) as made:
        for piece in made:
            yield from map(files.parse_json, piece.data.splitlines())


def write_cell_plans(table: FitTable, folder: str) -> list[str]:
    """Write the plan of each cell that fits, and return the files.

    Args:
        table: the table.
        folder: made if it does not exist; files of the same names are replaced.
    """
    written = []
    for cell in table.cells:
        if cell.state in ("fits", "tight"):
            name = f"{Path(cell.model).name.removesuffix('.yaml')}-{cell.method}-{cell.length}"
            file = str(Path(folder) / f"{name.lower()}.yaml")
            with files.convert_errors(file):
                files.resolve_target(file).parent.mkdir(parents=True, exist_ok=True)
            text = yaml.safe_dump({"name": name, **cell.document}, sort_keys=False)
            files.write_text(file, f"{schema_files.make_schema_line('plan', file)}\n{text}")
            written.append(file)
    return written
