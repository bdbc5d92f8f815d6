"""How well predicted steps of reinforcement learning agree with published ones, by source, by model
and by kind: `python -m benchmarks.rl_accuracy --runs FILE`, as benchmarks.time_accuracy says."""

from __future__ import annotations

from benchmarks import measured, tables, time_accuracy
from planner.plans import error_bands


def main() -> None:
    options = tables.make_parser(__doc__).parse_args()
    rows = [row for row in measured.read(*options.runs) if row.quantity.startswith("rl.")]
    of = error_bands.workload  # as training of the model has it
    records = measured.compare(rows, more=lambda one: {"kind": of(one.case.settings)})
    for row, record in zip(rows, records, strict=True):
        record["model"] = str(row.plan["model"])
    for key in ("model", "kind"):
        some = [{**record, "group": record[key]} for record in records]
        print(tables.text(time_accuracy.lines(some)), end="\n\n")
    tables.publish(options, "rl", time_accuracy.lines(records), records)


if __name__ == "__main__":
    main()
