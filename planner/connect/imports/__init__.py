"""Model documents from the configurations of other programs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from planner.base import files
from planner.base.errors import Place, PlanError, nearest
from planner.connect.exports import LAUNCHED, READ_TRAINERS, TABLED, load_framework
from planner.connect.imports import arguments, eleuther, hf, megatron, tidy
from planner.documents import aliases, references

#: Where faults of arguments are that stand on the command line.
ARGUMENTS = Place("arguments")
LARGEST_FILE = 10_000_000  # bytes; configurations have thousands


def import_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a Hugging Face configuration to a model document, defaults left out.

    Raises:
        PlanError: what is missing, malformed, contradictory or not modelled.
    """
    return hf.convert_config(config).document


def _find_shipped(name: str) -> ImportResult | None:
    """Find a built-in model by one of its names, also those of the Hub; None where there is none.

    Raises:
        PlanError: a name that is spelled nearly as one on the Hub.
    """
    from planner.connect.imports.found import describe_doc

    known = references.preset_names("model")
    preset = name if name in known else aliases.find_preset("model", name, known)
    near = nearest(name, aliases.on_the_hub()) if "/" in name else None
    if preset is None and near is not None:
        raise PlanError("no such file", Place(name), None, near)
    if preset is None:
        return None
    path, _ = references.locate_file(preset, "model")
    text, document = files.read_text(path, LARGEST_FILE), references.read_document(path).plain()
    said = [describe_doc({"extends": preset}, preset), f"{name} ships as {preset}"]
    return ImportResult(text, document, said, Place(name))


class ImportResult(NamedTuple):
    """An imported document.

    Attributes:
        text: the document as YAML.
        document: the same as data.
        said: lines about it: the size and shape of the model first, then what was left out.
        place: the file that was read.
    """

    text: str
    document: dict[str, Any]
    said: Sequence[str]
    place: Place


def import_file(
    path: str, source: str = "", plan: bool = False, changes: Sequence[str] = (), run: bool = False
) -> ImportResult:
    """Import the model of a file; of arguments that say a run, a plan.

    Args:
        path: a config.json, a launch file, a file of arguments, or the arguments themselves; of a
            Python file the function after a colon, where it has several configurations.
        source: huggingface, eleuther, or one of ``LAUNCHED`` and ``READ_TRAINERS``; empty: of a
            command or a script that of its program, of settings by what they have, else
            huggingface.
        plan: of a launch file the whole run, and not its model alone; of a trainer's always.
        changes: keys that the file leaves open, and variables of a script, as ``--set`` has them.
        run: let the framework's own parser read the options first, where it is installed.

    Returns:
        The document as YAML and as data, a description and notes.

    Raises:
        PlanError: the file cannot be read, or as for the functions above.
    """
    source = source or find_source(path)
    runs = (*LAUNCHED, *READ_TRAINERS, *TABLED)
    if (plan or changes) and source not in runs:
        fault = f"{'--plan' if plan else '--set'} is only for launch files"
        raise PlanError(fault, None, f"--from {', '.join(runs)}")
    function = ""
    if (
        source in LAUNCHED
        and load_framework(source).form == "python"
        and not files.is_file(path)
        and path.rpartition(".py:")[2].isidentifier()
    ):
        path, function = path.rpartition(":")[::2]
    place, text = Place(path), path
    if source == "huggingface" and not files.is_file(path):
        shipped = _find_shipped(path)
        if shipped is not None:
            return shipped
    changes_alone = source == "megatron-bridge" and "=" in path
    said_there = source != "huggingface" and (arguments.is_arguments(path) or changes_alone)
    if said_there and not files.is_file(path):
        place = ARGUMENTS
    else:
        text = files.read_text(path, LARGEST_FILE, place, "a configuration: text in UTF-8")
    if run:
        from planner.connect.imports.resolvers import resolve_text

        text = resolve_text(text, source, place, changes)
    if source == "huggingface":
        return _write_model(hf.parse_config(text, place), place)
    if source == "eleuther":
        made = eleuther.read_script(text, place)
        kind = "plan" if "model" in made.document else "model"
        names = "the script's default", f"{made.script}.py"
        return _write_document(made.document, made.came_from, kind, names, made.said, place)
    from planner.connect.imports import launch, primus, tabled

    plan = plan or (source in ("megatron", "maxtext", "torchtitan") and primus.is_primus(text))
    if source == "megatron" and not plan:
        names = "Megatron-LM argument", "Megatron-LM arguments"
        return _write_document(
            megatron.read_megatron(text, place, changes), {}, "model", names, (), place
        )
    if source in TABLED:
        found, plan = tabled.read_tabled_trainer(text, source, place, changes), True
    elif source in READ_TRAINERS:
        found, plan = launch.read_trainer(text, source, place, changes), True
    else:
        found = launch.read_launch(text, source, place, function, changes)
    names = f"{source} file", source
    if plan:
        document = found.document
        if source not in TABLED:
            document = launch.add_stack(document, source)
        return _write_document(document, found.came_from, "plan", names, found.said, place)
    model = found.document["model"]
    model = {"extends": model} if isinstance(model, str) else model
    return _write_document(model, {}, "model", names, (), place)


def find_source(path: str) -> str:
    """Find what wrote a file, or arguments: of a command the framework of its program.

    A file in JSON that no framework is known by is a model's configuration, whatever its name.

    Raises:
        PlanError: a command whose program is not known.
    """
    from planner.connect.imports import commands, primus, shell, tabled

    place, text = Place(path), path
    if files.is_file(path):
        text = files.read_text(path, LARGEST_FILE, place, "a configuration: text in UTF-8")
    elif not arguments.is_arguments(path):
        return "huggingface"
    place = place if text is not path else ARGUMENTS
    if found := tabled.find_tabled_trainer(text, place):
        return found
    if primus.is_primus(text):
        return primus.find_primus_framework(text)
    for name, row in shell.LAUNCHERS["others"].items():
        if all(re.search(one, text, re.MULTILINE) for one in row["has"]):
            by_hand = f"; by hand: {row['write']}" if "write" in row else ""
            allowed = f"plan.py quick and its keys{by_hand}"
            raise PlanError(f"a file of {name}, which is not read", place, allowed)
    if commands.is_command(text, place):
        return commands.find_framework(text, place)
    for row in shell.LAUNCHERS["files"]:
        if all(re.search(one, text, re.MULTILINE) for one in row["has"]):
            return str(row["framework"])
    if place.file.endswith((".yaml", ".yml", ".toml", ".py")) and text.lstrip()[:1] != "{":
        allowed = f"--from {', '.join((*LAUNCHED, *READ_TRAINERS, *TABLED))}"
        raise PlanError("no framework is known by what the file has", place, allowed)
    return "huggingface"


def import_run(path: str, changes: Sequence[str] = ()) -> ImportResult | None:
    """Import the run of a file that a framework is known by, given in place of a plan.

    Args:
        path: the file.
        changes: as those of ``import_file``, which needs them only of what a file leaves open.

    Returns:
        The plan; None of a file that no framework is known by.

    Raises:
        PlanError: as for ``import_file``, and of a script whose program is not known.
    """
    try:
        source = find_source(path)
    except PlanError:
        if path.endswith(references.ENDINGS):
            return None
        raise
    if source == "huggingface":
        return None
    try:  # what a file leaves open, as devices, decides other keys
        return import_file(path, source, True, changes)
    except PlanError:  # changes of what was read, which are made to the plan
        return import_file(path, source, True)


def _write_model(config: Any, place: Place) -> ImportResult:
    """Write the model of a Hugging Face configuration, with its name and notes."""
    imported = hf.convert_config(config, place)
    given = config.get("_name_or_path") or config.get("model_type") or imported.family
    head: dict[str, Any] = {"name": str(given)[:200]}
    if imported.notes:
        head["notes"] = "; ".join(imported.notes)
    names = f"the {imported.family} architecture", imported.family
    document = {**head, **imported.document}
    return _write_document(document, imported.came_from, "model", names, imported.notes, place)


def _write_document(
    document: dict[str, Any],
    came_from: Mapping[str, tuple[str, ...]],
    kind: str,
    names: tuple[str, str],
    said: Sequence[str],
    place: Place,
) -> ImportResult:
    """Write a document as YAML and describe its model.

    Args:
        document: a model or a plan, which ``kind`` says.
        came_from: for its dotted keys, the keys that gave them.
        kind: model or plan.
        names: what comments call the source of other keys, and the first line that of the model.
        said: further lines.
        place: where it was read.
    """
    from planner.connect.imports.found import describe_doc

    written = tidy.write_import(document, came_from, names[0], kind)
    model = document["model"] if kind == "plan" else document
    model = {"extends": model} if isinstance(model, str) else model
    return ImportResult(written, document, [describe_doc(model, names[1]), *said], place)
