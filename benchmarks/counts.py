"""Parameters and FLOPs against counts of real software: `python -m benchmarks.counts --truth DIR`.

Each configuration in params*.json and flops*.json goes through the importer into an ordinary plan
document, and its quantities are compared with the row, digit by digit. Tensors and modules are
told apart by their names alone; no model is known by its own.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from planner.base.resources import read_yaml

Row = Mapping[str, Any]
Compared = tuple[str, Any, Any]  # quantity, expected, predicted

_TABLES = read_yaml(Path(__file__).with_suffix(".yaml"))
KINDS: list[list[str]] = _TABLES["kinds"]
GROUPS: dict[str, str] = _TABLES["groups"]
DEVICE = {"accelerator": "h100-sxm-80gb", "devices": 1}


def kind(name: str) -> str:
    """What a tensor or module of that name belongs to."""
    short = re.sub(r"^(model|transformer|gpt_neox|backbone)\.", "", name)
    return next((found for found, pattern in KINDS if re.search(pattern, short, re.I)), "other")


def evaluation(row: Row, training: Mapping[str, Any]) -> Any:
    """The evaluation of the plan that a row's own columns make."""
    from planner import import_config
    from planner.book import formulas as _book  # noqa: F401  registers the quantities
    from planner.engine import evaluate
    from planner.engine import instance as case
    from planner.questions import loading

    document = {
        "model": import_config(row["config"]),
        "cluster": DEVICE,
        "training": {"tokens": 1, **training},
    }
    return evaluate.Evaluation(case.build(loading.load(document)))


def by_group(found: Any, identifier: str, forward: bool) -> dict[str, int]:
    """A quantity of components, summed over the groups of the inventory and the layers."""
    from planner.book.notation import L_k

    sums: dict[str, int] = {}
    for point in found.entries("component", {}, {}):
        if forward and not found.read_setting("matmul", point):
            continue
        group = found.read_setting("group", point)
        count = found.compute(L_k, point) * found.value(identifier, point)
        name = GROUPS.get(group, group)
        sums[name] = sums.get(name, 0) + count
    return {name: value for name, value in sums.items() if value}


def parameters(row: Row) -> Iterator[Compared]:
    found = evaluation(row, {"sequence_length": 1})
    for column, identifier in (
        ("params_total", "parameters.total"),
        ("params_embedding", "parameters.embedding"),
        ("params_output_head_if_untied", "parameters.head"),
        ("params_non_embedding", "parameters.non_embedding"),
        ("params_active_per_token", "parameters.active"),
        ("params_routed_experts", "parameters.routed_experts"),
    ):
        if row.get(column) is not None:
            yield identifier, row[column], found.value(identifier)
    if "tied" in row:
        yield (
            "tied",
            row["tied"],
            bool(found.entries("component", {}, {"shared": "True", "group": "head"})),
        )
    expected: dict[str, int] = {}
    tables = {name for name, *_ in row["embedding_tables"]}
    for label, _, elements in row["breakdown"]:
        name = label.rsplit(" ", 1)[0]
        table = any(_same(name, table) for table in tables)
        group = "embedding" if table else kind(name)
        expected[group] = expected.get(group, 0) + elements
    predicted = by_group(found, "parameters.component", forward=False)
    for group in sorted({*expected, *predicted}):
        yield f"parameters of {group}", expected.get(group, 0), predicted.get(group, 0)


def _same(tensor: str, table: str) -> bool:
    """Whether a tensor of the breakdown is the weight of an embedding table."""
    return tensor == re.sub(r"\.\d+(?=\.|$)", ".*", table) + ".weight"


def flops(row: Row) -> Iterator[Compared]:
    checkpointing = row.get("activation_checkpointing")
    training = {
        "sequence_length": row["seq"],
        "micro_batch": row["batch"],
        "attention": "flash" if row["attention"] == "flash" else "eager",
        "recompute": "full" if checkpointing else "none",
        "early_stop": checkpointing == "early_stop",
    }
    if row.get("seq_decoder"):
        training["decoder_sequence_length"] = row["seq_decoder"]
    found = evaluation(row, training)
    tokens = row["batch"] * row["seq"]
    forward = found.value("compute.counter_forward_flops")
    backward = found.value("compute.counter_backward_flops")
    yield "compute.counter_forward_flops", row["forward_flops"], forward
    yield "compute.counter_backward_flops", row["backward_flops"], backward
    yield "forward and backward", row["total_flops"], forward + backward
    if "forward_flops_without_convolution" in row:
        matmuls = tokens * found.value("compute.forward_flops_per_token")
        back = tokens * found.value("compute.backward_flops_per_token")
        yield "compute.forward_flops", row["forward_flops_without_convolution"], matmuls
        if not checkpointing and training["attention"] == "eager":
            expected = row["backward_flops_without_convolution"]
            yield "compute.backward_flops", expected, back
    if row.get("forward_by_module"):
        modules = by_module(row["forward_by_module"])
        predicted = by_group(found, "compute.component", forward=True)
        for group in sorted({*modules, *predicted}):
            ours = tokens * predicted.get(group, 0)
            yield f"forward FLOPs of {group}", modules.get(group, 0), ours


def by_module(modules: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """Matmul FLOPs of each group of modules: of each module what its own modules do not have."""
    names = [name for name in modules if name != "Global"]
    total = {
        name: sum(v for op, v in modules[name].items() if "convolution" not in op) for name in names
    }
    own = dict(total)
    for name in names:
        parents = [other for other in names if name.startswith(other + ".")]
        if parents:
            own[max(parents, key=len)] -= total[name]
    sums: dict[str, int] = {}
    for name, value in own.items():
        if value:
            group = kind(name.partition(".")[2])
            sums[group] = sums.get(group, 0) + value
    return sums


def compared(truth: Path) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """For each file the rows: id, quantity, expected, predicted, error; or the reason."""
    from planner.base.errors import PlanError

    for file in sorted([*truth.glob("params*.json"), *truth.glob("flops*.json")]):
        rows = []
        loaded = json.loads(file.read_text("utf-8"))
        compare = parameters if file.name.startswith("params") else flops
        for case in loaded["models" if compare is parameters else "cases"]:
            identity = {
                key: case[key]
                for key in ("name", "batch", "seq", "attention", "activation_checkpointing")
                if case.get(key) is not None
            }
            label = " ".join(map(str, identity.values()))
            try:
                for quantity, expected, predicted in compare(case):
                    rows.append(
                        {
                            "id": label,
                            "quantity": quantity,
                            "expected": expected,
                            "predicted": predicted,
                            "error": predicted - expected,
                        }
                    )
            except PlanError as error:
                rows.append({"id": label, "reason": str(error)})
        yield file.name, rows


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--truth", required=True, type=Path, metavar="DIR")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every comparison")
    options = parser.parse_args(arguments)
    started, everything, exact = time.perf_counter(), {}, True
    for name, rows in compared(options.truth):
        everything[name] = rows
        cases = {row["id"] for row in rows}
        wrong = {row["id"] for row in rows if row.get("error", 1)}
        worst = max((abs(row["error"]) for row in rows if "error" in row), default=0)
        left_out = sum("reason" in row for row in rows)
        exact = exact and not wrong
        print(
            f"{name:18} cases {len(cases):4}  exact {len(cases) - len(wrong):4}  "
            f"worst difference {worst}  left out {left_out}"
        )
        for row in rows:
            if row.get("error", 1):
                print(
                    f"  {row['id']}: "
                    + (
                        row.get("reason")
                        or f"{row['quantity']} is {row['predicted']}, not {row['expected']}"
                    )
                )
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n", "utf-8")
    print(f"{time.perf_counter() - started:.2f} s", file=sys.stderr)
    return 0 if exact else 1


if __name__ == "__main__":
    raise SystemExit(main())
