"""The command `plan.py measure`: checks its options together and writes the measurements."""

from __future__ import annotations

import argparse
import sys

from planner.base import files
from planner.base.errors import Fault, PlanError, nearest
from planner.base.progress import report_progress
from planner.connect.measure import need_torch
from planner.documents import aliases, references


def run_measure(options: argparse.Namespace) -> int:
    """Measure the machine; return the exit status.

    Raises:
        PlanError: an option is wrong, PyTorch is missing, or nothing can be measured.
    """
    _check_options(options)
    need_torch()
    if options.output in (None, "-"):
        sys.stdout.write(_write_machine(options))
        return 0
    files.format_of(options.output, {".yaml": "yaml", ".yml": "yaml"}, "accelerator document")
    with files.replace_file(options.output) as file:  # fails first where it cannot be written
        file.write(_write_machine(options).encode())
    return 0


def _check_options(options: argparse.Namespace) -> None:
    """Check the options that argparse cannot, and replace an alias of the extended accelerator by
    its name.

    Raises:
        PlanError: every option that is wrong.
    """

    def fault(option: str, allowed: str) -> Fault:
        """Return the fault of an option."""
        return Fault(f"plan.py measure: --{option} {getattr(options, option)}", None, allowed)

    faults = []
    for key, most in (("seconds", 600), ("processes", 64)):
        value = getattr(options, key)
        if value is not None and not 1 <= value <= most:
            faults.append(fault(key, f"1 to {most}"))
    names = references.preset_names("accelerator")
    if options.extends is not None:
        options.extends = (
            aliases.find_preset("accelerator", options.extends, names) or options.extends
        )
    if options.extends is not None and options.extends not in names:
        unknown = f"plan.py measure: --extends {options.extends}"
        faults.append(
            Fault(unknown, None, "see plan.py list accelerators", nearest(options.extends, names))
        )
    if options.name is not None and not options.name.strip():
        faults.append(fault("name", "a name"))
    if faults:
        raise PlanError(faults)


def _write_machine(options: argparse.Namespace) -> str:
    """Measure the machine and return its accelerator document."""
    from planner.connect.measure import engine, machine, writing

    backend = engine.Engine(options.device, options.processes)
    seconds = options.seconds or machine.SECONDS
    found = machine.measure_machine(backend, seconds, options.extends, report_progress)
    return writing.write_device(found, options.name)
