"""The sizes of a model alone: parameters, FLOPs of a token, bytes to train and to serve."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from planner.base import files, numbers
from planner.base.display import as_json, clean, one_line, plain
from planner.base.errors import PlanError
from planner.base.numbers import exact_text
from planner.connect.imports import found, import_file
from planner.documents import references, schema, source
from planner.documents.quick import terms
from planner.questions import loading
from planner.report.layout import MODEL_LINES
from planner.report.matmul import dump_quantities
from planner.results.result import Quantity, Result, evaluate_plan

#: Quantities that need no cluster, by the title of their lines.
Lines = Mapping[str, str]
SIZES, FLOPS, STATES, SERVED = (
    MODEL_LINES[name] for name in ("sizes", "flops", "states", "served")
)
#: Columns of the titles and of the values.
TITLE, VALUE, WIDTH = 30, 12, 80


class Sizes(NamedTuple):
    """A model in training and in serving, each with one sequence and no parallelism.

    Attributes:
        name: the model's name.
        training: the result of its training plan.
        serving: that of its inference plan; None for a model that does not generate.
    """

    name: str
    training: Result
    serving: Result | None

    def list_quantities(self, lines: Lines) -> dict[str, Quantity]:
        """Return the quantities of some lines by title, those that the model has."""
        result = self.serving if lines is SERVED else self.training
        if result is None:
            return {}
        asked = {title: f"{id_}[0]" if ".stage" in id_ else id_ for title, id_ in lines.items()}
        return {title: result[id_] for title, id_ in asked.items() if id_ in result}

    @property
    def cache_of_token(self) -> Fraction | None:
        """Bytes of KV cache per token, averaged over the sequence; None without a cache."""
        cache = self.list_quantities(SERVED).get("KV cache of a sequence")
        length: int = self.training.plan.get("training.sequence_length")
        return Fraction(cache.number, length) if cache is not None and cache.number else None


def measure_model(name: str, changes: Sequence[str] = ()) -> Sizes:
    """Compute the sizes of a model, given a preset, the file of a document or a Hugging Face
    config.json; ``changes`` as ``--set`` of a plan.

    Raises:
        PlanError: no such model, an invalid document, or a change of a key that a model lacks.
    """
    kind, file = loading.find_document(name)
    model: Any = name
    if kind == "plan" and loading.find_doc_type(references.read_document(file).plain()) != "model":
        model = import_file(name).document
    run: dict[str, Any] = {"micro_batch": 1}
    if not any(change.startswith("training.sequence_length") for change in changes):
        run["sequence_length"] = _pick_length(model)
    plan = {"model": model, **found.AROUND, "training": run}
    training = loading.load(plan, changes, team=False)
    serving = None
    if training.get("model.causal") is not False:
        with contextlib.suppress(PlanError):  # a valid model that cannot be served
            served = [*changes, "training.mode=inference"]
            serving = evaluate_plan(loading.load(plan, served, team=False))
    return Sizes(name, evaluate_plan(training), serving)


def _pick_length(model: Any) -> int:
    """Return the default sequence length: the model's maximum, at most the usual length."""
    read = source.load(model if isinstance(model, dict) else {"extends": model}, kind="model")
    longest = schema.validate(read, "model").get("max_sequence")
    return min(longest or terms.USUAL_SEQUENCE, terms.USUAL_SEQUENCE)


def format_sizes(sizes: Sizes) -> str:
    """Format the sizes for a terminal, with the next command."""
    plan, name = sizes.training.plan, sizes.name
    length, precision = plan.get("training.sequence_length"), plan.get("training.precision")
    shape = found.list_shape(plan) if plan.model is not None else ["a size without a shape"]
    lines = [clean(plan.get("model.name") or name), *textwrap.wrap(", ".join(shape), WIDTH)]
    tables = {
        "": SIZES,
        f"FLOPs of a token, in a sequence of {exact_text(length)}": FLOPS,
        f"Bytes to train, nothing divided ({precision}, {plan.get('training.optimizer')})": STATES,
        f"Bytes to serve ({precision})": SERVED if sizes.serving is not None else None,
    }
    for head, table in tables.items():
        if table is not None:
            lines += ["", *filter(None, [head]), *_list_size_rows(sizes, table)]
    if (cache := sizes.cache_of_token) is not None:
        said = numbers.text(cache, "bytes")
        lines.append(_format_size_row("KV cache of a token", said, "on average"))
    return "".join(f"{one_line(line.rstrip())}\n" for line in [*lines, "", _suggest_next(name)])


def _list_size_rows(sizes: Sizes, lines: Lines) -> list[str]:
    """List quantities of a model as rows of a terminal's table."""
    return [
        _format_size_row(title, one.text().removesuffix(" parameters"), one.base)
        for title, one in sizes.list_quantities(lines).items()
    ]


def _format_size_row(title: str, value: str, said: str) -> str:
    """Format a row: title, value at the right of its column, and the id behind it."""
    return f"  {title:{TITLE}}{value:>{VALUE}}  {said}"


def _suggest_next(name: str) -> str:
    """Suggest the command for what needs devices."""
    if not files.is_file(name):
        return f'Memory, time and cost: plan.py quick "{name} on 64 h100"'
    if name.endswith(".json"):
        return f"A model document, which a plan names: plan.py import {name} -o model.yaml"
    return f"Memory, time and cost: a plan with `model: {name}`, a cluster and a training run"


def encode_sizes(sizes: Sizes) -> str:
    """Return the same as JSON, with the quantities as in a result."""
    runs = {"training": (SIZES, FLOPS, STATES), "serving": (SERVED,)}
    tree: dict[str, Any] = {
        "model": sizes.training.plan.get("model.name") or sizes.name,
        "sequence_length": sizes.training.plan.get("training.sequence_length"),
    }
    for run, tables in runs.items():
        found = (dump_quantities(sizes.list_quantities(table)) for table in tables)
        tree[run] = {key: said for each in found for key, said in each.items()}
    if sizes.cache_of_token is not None:
        tree["serving"]["cache_bytes_per_token"] = plain(sizes.cache_of_token)
    return as_json(tree)
