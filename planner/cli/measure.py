"""The command `plan.py measure`: what its options mean together."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from planner.base import files
from planner.base.errors import Fault, Place, PlanError, nearest
from planner.base.progress import tell
from planner.connect.measure import need_torch
from planner.documents import aliases, source
from planner.questions import loading

#: Options that go with --step only.
STEP_ONLY = ("set", "accelerator", "layers")


def run(options: argparse.Namespace) -> int:
    """Measure the machine (-o), a step (--step) or one after the other; the exit status.

    Raises:
        PlanError: an option is wrong, PyTorch is missing, or nothing can be measured.
    """
    _check(options)
    inputs = _inputs(options)
    need_torch()
    accelerator, output = options.accelerator, options.output
    if output not in (None, "-"):
        files.format_of(output, {".yaml": "yaml", ".yml": "yaml"}, "accelerator document")
        files.spare(output, inputs)
        with files.replacing(output) as file:  # what cannot be written is told before benchmarks
            file.write(_machine(options).encode())
        accelerator = accelerator or output
    elif output == "-" or options.step is None:
        sys.stdout.write(_machine(options))
    if options.step is not None:
        _step(options, accelerator)
    return 0


def _check(options: argparse.Namespace) -> None:
    def fault(option: str, allowed: str) -> Fault:
        value = getattr(options, option)
        shown = f" {value}" if not isinstance(value, list) else ""
        return Fault(f"plan.py measure: --{option}{shown}", None, allowed)

    faults = []
    if options.step is None:
        faults += [fault(key, "with --step") for key in STEP_ONLY if getattr(options, key)]
        if options.format != "text":
            faults.append(fault("format", "with --step"))
    elif options.step == "-":
        faults.append(fault("step", "a file"))
    elif options.output == "-":
        faults.append(fault("output", "a file, where --step prints too"))
    for key, most in (("seconds", 600), ("processes", 64), ("steps", 1000)):
        value = getattr(options, key)
        if value is not None and not 1 <= value <= most:
            faults.append(fault(key, f"1 to {most}"))
    names = source.preset_names("accelerator")
    if options.extends is not None:
        options.extends = aliases.preset("accelerator", options.extends, names) or options.extends
    if options.extends is not None and options.extends not in names:
        unknown = f"plan.py measure: --extends {options.extends}"
        faults.append(
            Fault(unknown, None, "see plan.py list accelerators", nearest(options.extends, names))
        )
    if options.name is not None and not options.name.strip():
        faults.append(fault("name", "a name"))
    if faults:
        raise PlanError(faults)


def _inputs(options: argparse.Namespace) -> list[str]:
    """The files that are read; plans are checked before anything takes its time."""
    given = [path for path in (options.step, options.accelerator) if path]
    if options.accelerator is not None:
        kind = loading.check(options.accelerator)
        if kind != "accelerator":
            raise PlanError(Fault(f"this is a {kind}", Place(options.accelerator), "accelerator"))
    if options.step is not None:
        given += loading.load(options.step, options.set).document.files()
    return given


def _machine(options: argparse.Namespace) -> str:
    from planner.connect.measure import engine, machine, writing

    backend = engine.Engine(options.device, options.processes)
    seconds = options.seconds or machine.SECONDS
    found = machine.measure(backend, seconds, options.extends, tell)
    return writing.document(found, options.name)


def _step(options: argparse.Namespace, accelerator: str | None) -> None:
    from planner.connect.measure import step

    overrides = list(options.set)
    if accelerator is not None:
        overrides.append(f"cluster.accelerator={Path(accelerator).resolve()}")
    plan = loading.load(options.step, overrides)
    found = step.step(
        plan,
        device=options.device,
        layers=options.layers,
        steps=options.steps,
        seconds=options.seconds or step.SECONDS,
        tell=tell,
    )
    writer = step.data if options.format == "json" else step.text
    sys.stdout.write(writer(found))
