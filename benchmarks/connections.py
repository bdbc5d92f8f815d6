"""The tables of docs/connections.md, from what the program reads: logs, configurations."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from benchmarks import launch_files
from benchmarks.tables import rewritten
from planner.connect import logs
from planner.connect.imports import diffusion, families, hf, towers

COUNTS = Path(__file__).parents[1] / "tests" / "data" / "counts"
#: What `python -m benchmarks.configurations --write FILE` found, the types by what became of them.
CENSUS = COUNTS / "census.json"
#: Columns of the table of logs, with the quantities that each stands for.
SAYS = {
    "step time": ("time.step_seconds", *logs.RATES),
    "tokens/s": ("time.tokens_per_second", "time.tokens_per_second_per_device"),
    "TFLOP/s": ("time.tflops_per_device",),
    "MFU": ("time.mfu",),
    "allocated": ("memory.total",),
    "reserved": ("memory.reserved",),
    "batch": ("batch",),
}


def page(text: str) -> str:
    """The page with its tables as the program has them."""
    text = rewritten(rewritten(text, _logs(), "logs"), _configurations(), "configurations")
    return rewritten(text, _launch_files(), "launch")


def _logs() -> str:
    lines = [f"| log | {' | '.join(SAYS)} |", "| --- |" + " --- |" * len(SAYS)]
    for name, held in logs.TRAINERS.items():
        marks = ("yes" if {*held} & {*ids} else "" for ids in SAYS.values())
        lines.append(f"| {name} | {' | '.join(marks)} |")
    marks = ("yes" if {*logs.COLUMNS} & {*ids} else "" for ids in SAYS.values())
    lines.append(f"| event files of TensorBoard, CSV, JSON | {' | '.join(marks)} |")
    return "\n".join(lines)


def _launch_files() -> str:
    """What benchmarks.launch_files wrote: a row for each plan, a column for each framework."""
    results = json.loads(launch_files.RESULTS.read_text("utf-8"))
    plans = dict.fromkeys(name for held in results.values() for name in held["plans"])
    lines = [
        f"| plan | {' | '.join(held['version'] for held in results.values())} |",
        "| --- |" + " --- |" * len(results),
    ]
    for name in plans:
        said = (held["plans"].get(name, "") for held in results.values())
        lines.append(f"| {name} | {' | '.join(said)} |")
    return "\n".join(lines)


def _configurations() -> str:
    """Model types by what their classes are, each counted against the library in the tests."""
    saved, towered, built_of = (
        len(json.loads((COUNTS / f"{name}.json").read_text("utf-8"))["models"])
        for name in ("saved", "towers", "diffusion")
    )

    def listed(names: Iterable[str]) -> str:
        return ", ".join(f"`{name}`" for name in sorted(names, key=str.casefold))

    whole = towers.WRAPPERS
    wrappers = {*hf.CLASSES["wrappers"]} - {*whole}
    census = json.loads(CENSUS.read_text("utf-8"))
    refused = [name for name in census["refused"] if name not in families.FAMILIES]
    reasons = ((k, [n for n in refused if n in known]) for k, known in families.REFUSALS.items())
    rows = [
        (
            f"{len(census['exact'])} of {len(census['exact'] + census['refused'])} text model "
            f"types that transformers {census['transformers']} builds from its defaults",
            f"parameters equal to its own count; refused by name are {len(refused)}: "
            + "; ".join(f"{why} ({listed(names)})" for why, names in reasons),
        ),
        (f"{len(families.FAMILIES)} model types", listed(families.FAMILIES)),
        (f"{len(whole)} wrappers, read whole: tower, projector and language model", listed(whole)),
        (
            f"{len(wrappers)} wrappers, of which the language model alone is read",
            listed(wrappers),
        ),
        (
            f"{len(diffusion.CLASSES)} classes of diffusers",
            listed(diffusion.CLASSES)
            + f": parameters and FLOPs of a sample equal to its own count, all {built_of} built",
        ),
        (
            f"{saved} saved files and classes in the tests, and {towered} wrappers built for them",
            "parameters equal to transformers' own count, all of them",
        ),
    ]
    return "\n".join(
        ["| accepted | which |", "| --- | --- |", *(f"| {a} | {b} |" for a, b in rows)]
    )
