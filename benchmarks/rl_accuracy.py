"""How well predicted steps of reinforcement learning agree with published ones, by phase, by model,
by kind and by source: `python -m benchmarks.rl_accuracy --runs FILE`, as for time_accuracy."""

from __future__ import annotations

from benchmarks import measured, tables, time_accuracy
from planner.plans import error_bands


def main() -> None:
    options = tables.make_parser(__doc__).parse_args()
    rows = [row for row in measured.read(*options.runs) if row.quantity.startswith("rl.")]
    of = error_bands.workload  # as training of the model has it
    records = measured.compare(rows, more=lambda one: {"kind": of(one.case.settings)})
    for record, model in zip(records, (row.plan["model"] for row in rows), strict=True):
        record["model"] = model if isinstance(model, str) else model["extends"]
    for key in ("quantity", "model", "kind", "source"):
        some = records if key == "source" else [{**one, "group": one[key]} for one in records]
        by = "phase" if key == "quantity" else key
        tables.publish(options, f"rl {key}", time_accuracy.lines(some, by), records)
        print()


if __name__ == "__main__":
    main()
