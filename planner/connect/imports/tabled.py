"""Configurations of trainers that have a table of rows, read as plans: those of reinforcement
learning, and trainers whose files are read and not written.

The tables are in the folder ``options``: ``keys`` has a row for each key of a plan, the other lists
say what becomes of all other options (planner/connect/imports/option_table.py).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from fractions import Fraction
from math import lcm, prod
from typing import Any

from planner.base.display import one_line
from planner.base.errors import Place, PlanError
from planner.connect.exports import TABLED
from planner.connect.imports.arguments import collect_arguments, parse_word
from planner.connect.imports.bases import MOST_BASES, flatten_options, read_configuration
from planner.connect.imports.commands import count_launched, is_command, split_changes, take_unknown
from planner.connect.imports.launch import ACCELERATOR, LaunchPlan
from planner.connect.imports.option_table import OptionTable, judge_options, load_options
from planner.connect.imports.shell import list_commands
from planner.connect.imports.tidy import place_faults
from planner.connect.imports.trainers import NO_MODEL, split_parts
from planner.documents import aliases, references, schema, source
from planner.documents.source import expand_keys
from planner.plans.plan import build_plan

#: What one configuration refers to in another, or in a key of its own.
INTERPOLATION = re.compile(r"\$\{(?:oc\.select:)?([A-Za-z_][\w.]*)(?:,[^}]*)?\}")
HYDRA_WORD = re.compile(r"\+{0,2}([A-Za-z_][\w.]*)=(.*)", re.DOTALL)
BASES = "defaults"
#: Keys of a plan that lengths are of, and their share of the cap where a file has no mean.
LENGTHS, MEAN_SHARE = ("rl.prompt_tokens", "rl.response_tokens"), Fraction(1, 2)
#: The devices that a command is started on, and the word that names its program, as options.
DEVICES, PROGRAM = "launch.devices", "launch.program"
PROMPT = 256  # tokens of a prompt, where a file has no limit of its own for them


def find_tabled_trainer(text: str, place: Place) -> str:
    """Find the trainer with a table whose configuration a text is; empty if none."""
    for name in TABLED:
        table = load_options(name)
        if is_command(text, place):
            if table.program and re.search(table.program, text):
                return name
        elif table.sections and all(
            re.search(rf'(^|^[ \t]*"|[{{,]\s*"){one}"?:\s', text, re.MULTILINE)
            for one in table.sections
        ):
            return name
    return ""


def read_tabled_trainer(
    text: str, name: str, place: Place, changes: Sequence[str] = ()
) -> LaunchPlan:
    """Read the plan of a configuration.

    Args:
        text: a configuration in YAML, or a script with the command that trains.
        name: the trainer.
        place: where faults are.
        changes: keys that it leaves open, and variables of a script, as ``--set`` has them.

    Returns:
        The plan, what the file leaves open, and what said each key.

    Raises:
        PlanError: the file is malformed, or says what is not modelled or no model is known.
    """
    table = load_options(name)
    variables, fixed = split_changes(changes)
    if is_command(text, place):
        given = own = dict(_read_words(text, table, variables, fixed, place))
    else:
        merged, itself = read_configuration(text, place, BASES)
        given, own = flatten_options(merged), flatten_options(itself)
    if "cluster.devices" in fixed:
        given[DEVICES] = fixed["cluster.devices"]
    options = resolve_references({**table.defaults, **_imply(given, table), **given})
    options |= {k: parse_word(part, k) for k, part in split_parts(options, table.parts)}
    keys, came_from = apply_rows(options, table, place)
    lines = _list_unread(own, options, table, fixed, place)
    of_rl = keys.get("training.mode") == "rl"
    if of_rl and LENGTHS[0] not in keys and not any(key.startswith(LENGTHS[0]) for key in fixed):
        keys[LENGTHS[0]] = 2 * PROMPT
    for length in LENGTHS:
        if isinstance(cap := keys.get(length), int):
            keys[length] = {"mean": max(1, int(cap * MEAN_SHARE)), "cap": cap}
            if not any(key.startswith(length) for key in fixed):
                lines.append(f"no key says the mean of {length}: half of its cap, an assumption")
    if "model" in fixed:
        keys = {key: value for key, value in keys.items() if not key.startswith("model.")}
    elif not any(key.startswith("model.") for key in keys):
        keys["model"] = _find_policy(str(keys.get("model", "")), place)
    for key, value in fixed.items():
        outer, _, inner = key.rpartition(".")
        if outer in LENGTHS and outer in keys:
            keys[outer] = {**keys[outer], inner: value}
        else:
            keys[key] = value
    if "cluster" in fixed:
        keys = {key: value for key, value in keys.items() if not key.startswith("cluster.")}
    elif "cluster.accelerator" not in fixed:
        keys["cluster.accelerator"] = ACCELERATOR
        lines.append("no key says cluster.accelerator: an assumption")
    if "cluster" not in keys and "cluster.devices" not in keys:
        degrees = ["tensor", "context", "data", "expert", "pipeline"]
        sizes = (keys.get(f"parallelism.{one}", 1) for one in degrees)
        *within, expert, pipeline = (one if isinstance(one, int) else 1 for one in sizes)
        keys["cluster.devices"] = lcm(prod(within), expert) * pipeline
        lines.append("no key says cluster.devices: the fewest that it takes")
    document = {"model": None, "cluster": None, "training": None, **expand_keys(keys)}
    with place_faults(place):
        build_plan(schema.validate(source.load(document), "plan"))
    return LaunchPlan(document, lines, {**came_from, **dict.fromkeys(fixed, ("--set",))})


def _read_words(
    text: str, table: OptionTable, variables: Mapping[str, str], fixed: Container[str], place: Place
) -> Iterator[tuple[str, Any]]:
    """Yield the options of the command that trains: overrides as Hydra has them, or arguments; and
    the devices that it is started on.

    Raises:
        PlanError: there is no such command, or an option of a row has a value that it does not set.
    """
    found = [
        (one, at)
        for one in list_commands(text, variables, place)
        for at in range(len(one.words))
        if re.search(table.program, " ".join(one.words[max(at - 1, 0) : at + 1]))
    ]
    if not found:
        raise PlanError("no command that trains", place, f"one of {table.program}")
    command, at = next(one for one in found if one[0] is found[-1][0])
    rest = command.words[at + 1 :]
    set_fields = {one: HYDRA_WORD.fullmatch(one) for one in rest}
    arguments = collect_arguments([one for one in rest if not set_fields[one]])
    pairs = {k.replace("-", "_"): v for k, v in arguments.items()}
    pairs |= {m[1]: m[2] for m in set_fields.values() if m}
    if any(word.rpartition("/")[2] == "accelerate" for word in command.words[:at]):
        launcher = collect_arguments(command.words[:at])
        pairs |= {f"launch.{k.replace('-', '_')}": v for k, v in launcher.items()}
    yield PROGRAM, command.words[at]
    rows = {name: row["key"] for row in table.keys for name in list_row_options(row)}

    def decide(name: str) -> bool | None:
        if table.defaults.get(name) is False:
            return None
        return name in rows and rows[name] not in fixed

    for option, value in take_unknown(pairs, decide, place)[0].items():
        yield option, parse_word(value, option)
    if devices := count_launched(command.words[:at], command):
        yield DEVICES, devices


def resolve_references(options: dict[str, Any]) -> dict[str, Any]:
    """Replace values that are those of other options."""
    for option, value in options.items():
        for _ in range(MOST_BASES):
            other = INTERPOLATION.fullmatch(value) if isinstance(value, str) else None
            if other is None:
                break
            value = options.get(other[1])
        options[option] = value
    return options


def _imply(given: Mapping[str, Any], table: OptionTable) -> dict[str, Any]:
    """Return the options that others imply, as the name of a configuration does."""
    return {
        k: v
        for row in table.implied
        if match_options(row["when"], given)
        for k, v in row["means"].items()
    }


def match_options(when: Mapping[str, Any], options: Mapping[str, Any]) -> bool:
    """Check whether options have the values of a condition: patterns, or words of YAML."""
    return all(
        re.fullmatch(str(wanted).lower(), str(options.get(option)).lower())
        for option, wanted in when.items()
    )


def apply_rows(
    options: Mapping[str, Any], table: OptionTable, place: Place
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Derive the keys of the plan: of several rows of a key the first that applies.

    Args:
        options: with their values.
        table: of the trainer.
        place: where faults are.

    Returns:
        The keys with their values, and the options that gave them.

    Raises:
        PlanError: an option has a value that its row does not have.
    """
    keys: dict[str, Any] = {}
    came_from: dict[str, tuple[str, ...]] = {}
    for row in table.keys:
        key, names = row["key"], list_row_options(row)
        options = {**options, **keys}  # a row may read what one before it has made
        values = [options.get(name) for name in names]
        if key in keys or not match_options(row.get("when", {}), options):
            continue
        if "value" in row:
            keys[key] = row["value"]
            continue
        if "any" in row:
            keys[key] = any(value not in (None, False, 0) for value in values)
        elif None in values:
            continue
        elif "words" in row:
            word = {str(k).lower(): v for k, v in row["words"].items()}
            shown = str(values[0]).lower()
            if shown not in word:
                fault = f"{names[0]} is {one_line(str(values[0]))[:60]}, which is not modelled"
                raise PlanError(fault, place, ", ".join(word))
            keys[key] = word[shown]
        elif "each" in row:
            listed = values[0] if isinstance(values[0], list) else [values[0]]
            for one in listed:
                if one not in row["each"]:
                    fault = f"{names[0]} has {one_line(str(one))[:60]}, which is not modelled"
                    raise PlanError(fault, place, ", ".join(row["each"]))
            keys[key] = [row["each"][one] for one in listed]
        elif "option" not in row:
            sizes = [_need_whole(options, name, place) for name in names]
            over = prod(_need_whole(options, name, place, 1) for name in row.get("over", ()))
            keys[key], rest = divmod(prod(sizes) if "product" in row else sum(sizes), over)
            if "multiple" in row:
                unit = _need_whole(options, row["multiple"], place, 1)
                keys[key], rest = -(-keys[key] // unit) * unit, 0
            if rest:
                fault = f"{' × '.join(names)} is not a multiple of {' × '.join(row['over'])}"
                raise PlanError(fault, place)
        else:
            keys[key] = values[0]
        came_from[key] = tuple(names)
    return {key: value for key, value in keys.items() if value is not None}, came_from


def _need_whole(options: Mapping[str, Any], name: str, place: Place, least: int = 0) -> int:
    """Return a whole number.

    Raises:
        PlanError: the option has another value.
    """
    value = options.get(name)
    if isinstance(value, str) and re.fullmatch(r"[0-9 ]{1,200}", value):  # one for each node
        value = sum(map(int, value.split()))
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise PlanError(f"{name} is {one_line(str(value))[:60]}", place, "a whole number")
    return value


def list_row_options(row: Mapping[str, Any]) -> list[str]:
    """List the options that a row reads."""
    several: Sequence[str] = next((row[k] for k in ("product", "sum", "any") if k in row), ())
    return [row["option"]] if "option" in row else list(several)


def _find_policy(named: str, place: Place) -> str:
    """Find the built-in model of a page or a folder.

    Raises:
        PlanError: there is none.
    """
    known = references.preset_names("model")
    for name in (named[:200], named[:200].rstrip("/").rpartition("/")[2]):
        if name and (shipped := aliases.find_preset("model", name, known)):
            return shipped
    raise PlanError(f"{one_line(named)[:80] or 'its model'} is no known model", place, NO_MODEL)


def _list_unread(
    own: Mapping[str, Any],
    options: Mapping[str, Any],
    table: OptionTable,
    fixed: Container[str],
    place: Place,
) -> list[str]:
    """List the options of a file that its plan has no key for, a line each.

    Args:
        own: what the file itself says.
        options: the same with what it is based on, and defaults.
        table: the options of the trainer.
        fixed: keys that were chosen beside it.
        place: where faults are.

    Raises:
        PlanError: an option that is refused has another value than its default.
    """
    read = {DEVICES, PROGRAM}
    read |= {name for row in (*table.keys, *table.implied) for name in row.get("when", {})}
    read |= {name for row in table.keys for name in (*list_row_options(row), *row.get("over", ()))}
    rest = {option: value for option, value in options.items() if option not in read}
    return judge_options(rest, {}, table, own, place, fixed=fixed)
