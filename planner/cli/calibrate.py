"""The command `plan.py calibrate`: matches logs to plans, prints and writes the fitted rates."""

from __future__ import annotations

import argparse
import sys
from datetime import date
from pathlib import Path

from planner.base import files
from planner.base.errors import Fault, PlanError, collect_faults
from planner.connect.calibrate import laboratory, writing
from planner.questions import loading


def run_calibrate(options: argparse.Namespace) -> int:
    """Fit the rates of a cluster to the logs of runs; return the exit status.

    Args:
        options: plans, logs, records to skip, and the output.

    Raises:
        PlanError: a document or a log is wrong, or they do not go together.
    """
    plans, logs = options.plans, options.log
    if len(plans) > 1 and len(logs) != len(plans):
        wrong = f"{len(plans)} plans, {len(logs)} logs"
        raise PlanError(wrong, None, "PLAN.yaml --log FILE for each run, or one plan for all")
    loaded = [loading.load(plan, options.set) for plan in plans]
    inputs = [*logs, *(file for plan in loaded for file in plan.document.list_files())]
    output = options.output
    if output not in (None, "-"):
        files.format_of(output, {".yaml": "yaml", ".yml": "yaml"}, "cluster document")
        files.refuse_overwrite(output, inputs)
    faults, given = list[Fault](), list[laboratory.LoggedRun]()
    for place, log in enumerate(logs):
        with collect_faults(faults):
            given.append(laboratory.read_run(loaded[place % len(loaded)], log, options.warm_up))
    if faults:
        raise PlanError(faults)
    found = laboratory.fit_devices(given)
    if output is not None:
        name = "my-cluster.yaml" if output == "-" else Path(output).name
        text = writing.write_cluster(found, name, date.today().isoformat())
        files.write_output(text, output, inputs)
    if output != "-":
        writer = laboratory.dump_fit if options.format == "json" else laboratory.render_fit
        sys.stdout.write(writer(found))
    return 0
