"""From a launch file to a plan: the rows that write it (connect/exports), read backwards."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import lcm, prod
from pathlib import Path
from typing import Any, NamedTuple

from planner.base.display import one_line
from planner.base.errors import Fault, Place, PlanError
from planner.connect.exports import READ_TRAINERS, Framework, fields, load_framework
from planner.connect.exports.rules import (
    CONDITIONS,
    Row,
    is_possible,
    lift_key,
    list_options,
    walk_rows,
)
from planner.connect.imports import hf, megatron, primus, python_file, trainers
from planner.connect.imports.arguments import parse_word
from planner.connect.imports.bases import flatten_options, open_named
from planner.connect.imports.commands import (
    TrainingCommand,
    is_command,
    read_command,
    split_changes,
)
from planner.connect.imports.option_table import judge_file, load_options
from planner.connect.imports.python_file import FIRST, MODULE, Unread
from planner.connect.imports.tidy import place_faults
from planner.documents import aliases, references, schema, source, yaml_nodes
from planner.documents.quick import terms
from planner.documents.quick.models import pick_length
from planner.documents.source import expand_keys
from planner.plans.document import Plan
from planner.plans.plan import build_plan

SEQUENCE, ZERO = "training.sequence_length", "parallelism.zero"
#: Changes of a configuration as they stand on a line: `train.micro_batch_size=2`.
OVERRIDE = re.compile(r"([a-z_]+(?:\.[a-z_0-9]+)+)=(.*)", re.DOTALL)
#: How Megatron-Bridge takes a model from the Hub.
HUB = "AutoBridge.from_hf_pretrained("
#: Where the comments of exports, and of torchtune's files, say how many processes there are.
PROCESSES = re.compile(
    r"^#(?: Processes:|[\s#]+tune run (?:--nnodes 1 )?--nproc_per_node) ([0-9]{1,9})", re.MULTILINE
)
#: Tokens of a micro-batch and of a sequence that torchtitan has where a file does not say them.
TOKEN_BUDGET = (16384, 2048)
#: Another way of Megatron-LM to say how many virtual stages there are.
LAYERS_EACH = "num-layers-per-virtual-pipeline-stage"
ACCELERATOR = "h100-sxm-80gb"
#: Whose models have names without a publisher too.
FIRST_PUBLISHER = "openai-community"
#: What a pattern has, and a list of names does not; one that may take long: a repeated group.
PATTERN, SLOW = re.compile(r"[\\\[(|*?]"), re.compile(r"\)[*+{]|\{|\\[1-9]")
#: Where transformers has the layers of a decoder, their blocks, and how many layers are tried.
ABOVE = ("model.", "model.language_model.", "language_model.model.", "model.text_model.")
BLOCKS, FEW = ("self_attn", "mlp"), 8
#: Projections that no key names, the first that of no model: a pattern of any name takes it.
OTHERS = (
    *("any_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "qkv_proj"),
    *("gate_up_proj", "in_proj", "out_proj", "fc1", "fc2", "experts.0.gate_proj"),
)
#: Whose weights a file of their launcher may divide (`accelerate launch --config_file`).
WITH_LAUNCHER = ("transformers", "trl", "axolotl", "llama-factory", "ms-swift")
#: What the sequences of a step are made of.
BATCH = ("training.micro_batch", "training.gradient_accumulation", "parallelism.data")


class LaunchPlan(NamedTuple):
    """A plan; what its file leaves open, a line each; for dotted keys, what said them.

    Attributes:
        document: the document.
        said: lines on what the file does not decide.
        came_from: for dotted keys, the options that gave them.
    """

    document: dict[str, Any]
    said: list[str]
    came_from: dict[str, tuple[str, ...]]


class LaunchValues(dict[str, Any]):
    """The values of a file by dotted key.

    Attributes:
        place: the file.
        names: the names in the file, by option, where another framework's options stand for fields.
        given: what the file itself has; all others are defaults.
        own: the same, with sections and the function that a configuration begins with.
        command: of a script.
    """

    place: Place
    names: Mapping[str, str] = {}
    given: Mapping[str, Any]
    own: Mapping[str, Any]
    command = TrainingCommand({}, None, [])

    def get(self, key: str, default: Any = None) -> Any:
        """Return a value.

        Raises:
            PlanError: it is not a literal in the file, at its line.
        """
        value = super().get(key, default)
        if isinstance(value, Unread):
            where = self.place._replace(line=value.line)
            raise PlanError(f"{self.names.get(key, key)} is not a literal: {value.text}", where)
        return value


def read_launch(
    text: str, name: str, place: Place, function: str = "", changes: Sequence[str] = ()
) -> LaunchPlan:
    """Read the plan of a launch file.

    Args:
        text: the file.
        name: its framework.
        place: where faults are.
        function: of a Python file with several configurations, the function that makes it.
        changes: keys that the file leaves open, and variables of a script, as ``--set`` has them.

    Returns:
        The plan, what the file leaves open, and what said each key.

    Raises:
        PlanError: the file is malformed, or says what is not modelled.
    """
    known = load_framework(name)
    variables, fixed = split_changes(changes)
    said = _load_values(text, known, place, function, variables)
    if known.form == "flags":
        of_model = megatron.find_model_options(fixed)
        said |= of_model
        said.given = {**said.given, **of_model}
        fixed = {key: value for key, value in fixed.items() if not key.startswith("model.")}
    start = _read_mesh(said) if name == "maxtext" else {}
    model: dict[str, Any] | str | None = None
    if known.form == "flags" or known.options:
        model = _find_model(said, place)
        shape = source.load(model, kind="model").data
        start = {"model.moe.experts": (shape.get("moe") or {}).get("experts")}
    keys, came_from = _derive_keys(said, known, name, place, start=start)
    keys |= {key: value for key, value in fixed.items() if not key.startswith("cluster")}
    tensor, context, expert, pipeline = (
        _get_degree(keys, one) for one in ("tensor", "context", "expert", "pipeline")
    )
    if known.kernels == "megatron":  # whose experts are divided as the other matrices are
        expert *= _get_degree({"parallelism.expert_tensor": tensor, **keys}, "expert_tensor")
    least = lcm(tensor * context, expert) * pipeline  # the fewest devices
    if _get_degree(keys, "data") > 1:
        least = tensor * context * pipeline * _get_degree(keys, "data")
    one_each: dict[str, int] = {}
    if known.form == "python" and "training.global_batch" not in keys:  # its batch is one of each
        chosen = fixed.get("cluster.devices")
        count = chosen if isinstance(chosen, int) and chosen > 0 else least
        replicas = max(count // (tensor * context * pipeline), 1)
        one_each = {"training.gradient_accumulation": 1, "parallelism.data": replicas}
    of_batch = [keys.get(key, one_each.get(key)) for key in BATCH]
    if "training.global_batch" not in keys and all(isinstance(size, int) for size in of_batch):
        keys["training.global_batch"] = prod(size or 1 for size in of_batch)
    for row in walk_rows(known.rows):
        if (
            row.get("rule") in ("quotient", "read_back")
            and row["of"] not in keys
            and row["to"] in said
        ):
            sizes = [keys.get(key) for key in row["by"]]
            whole = parse_word(said[row["to"]], place.file)
            if isinstance(whole, int) and all(isinstance(size, int) for size in sizes):
                keys[row["of"]] = whole * prod(size or 1 for size in sizes)
    routed = keys.get("model.moe.experts") is not None
    kept = {k: v for k, v in keys.items() if routed or not k.startswith("model.moe.")}
    document: dict[str, Any] = {"model": {}, "cluster": {}, "training": {}, "parallelism": {}}
    document |= expand_keys({key: value for key, value in kept.items() if value is not None})
    if named := next((option for option in known.models if option in said.given), None):
        flavors, weights = known.flavors[named], str(said.given[named])
        if weights not in flavors:
            fault = f"{weights} is no known model"
            raise PlanError(Fault.from_pool(fault, weights, [*flavors], place))
        document["model"] = flavors[weights]
    elif model is not None:
        document["model"] = model
        whole = [_get_degree(keys, one) for one in ("pipeline", "virtual_pipeline")]
        each = parse_word(said.get(LAYERS_EACH), place.file)
        if isinstance(each, int) and 0 < each * whole[0] <= shape["layers"]:
            whole[1] = shape["layers"] // (each * whole[0])
            document["parallelism"]["virtual_pipeline"] = whole[1]
        segments = (megatron.read_hybrid(said, True) or "").count("|") + 1
        if segments > whole[0]:
            whole[1] = document["parallelism"]["virtual_pipeline"] = segments // whole[0]
        stages = _read_stages(said, shape["layers"], *whole)
        document["parallelism"] |= {"stages": stages} if stages else {}
    elif known.form == "python":
        document["parallelism"] |= _read_chunks(said, keys)
        if "layers" not in document["model"]:
            flavor = _find_flavor(said, known, place.file, function)
            if flavor is None:
                allowed = (
                    "a flavor of torchtitan's registries, or layers by its families' functions"
                )
                named = one_line(str(said.get("model.flavor") or ""))[:60]
                raise PlanError("no known model" + f": {named}" * bool(named), place, allowed)
            document["model"] = flavor
    stated, counted = _count_processes(text, said.command, fixed, place)
    cluster = {"accelerator": ACCELERATOR, "devices": stated or least}
    cluster |= {k.partition(".")[2]: v for k, v in fixed.items() if k.startswith("cluster.")}
    document["cluster"] = fixed.get("cluster", cluster)
    guessed = {"cluster.accelerator": "", "cluster.devices": ", the fewest that it takes"}
    for key in ("cluster.devices",) if stated else ():
        del guessed[key]
    open_ = [f"{k}{v}" for k, v in guessed.items() if k not in fixed and "cluster" not in fixed]
    of_launcher = said.command.devices and not fixed
    with place_faults(place, "--set cluster.devices=…" if of_launcher else ""):
        plan = build_plan(schema.validate(source.load(document), "plan"))
    by_name = any(option in said.own for option in known.models)  # which sets what has defaults
    # A flag that is left out is as the plan has it.
    usual = {} if by_name or known.options else {**load_options(name).defaults, **known.defaults}
    usual = {option: value for option, value in usual.items() if value is not False}
    lines = judge_file(said.own, usual, plan, known, place, said.names)
    came_from["cluster.accelerator"] = ("no key says it",)
    came_from["cluster.devices"] = (counted,)
    came_from |= dict.fromkeys(fixed, ("--set",))
    lines = [*said.command.lines, *(f"no key says {what}: an assumption" for what in open_), *lines]
    return LaunchPlan(document, lines, came_from)


def _count_processes(
    text: str, command: TrainingCommand | None, fixed: Mapping[str, Any], place: Place
) -> tuple[int | None, str]:
    """Count the devices that a file's comments or its command say, and return what said so.

    Raises:
        PlanError: a command in the script counts them, which is not run.
    """
    told = PROCESSES.search(text)
    devices = int(told[1]) if told else command and command.devices
    printed = command.printed if command and not devices else ""
    if printed and not fixed.keys() & {"cluster", "cluster.devices"}:
        wrong = f"the number of processes is what {printed} prints, which is not run"
        raise PlanError(wrong, place, "--set cluster.devices=…")
    by = "the processes that its comments say" if told else "its launcher"
    return devices, by if devices else "the fewest"


def read_trainer(text: str, name: str, place: Place, changes: Sequence[str] = ()) -> LaunchPlan:
    """Read the plan of a trainer's file, which has no model.

    Args:
        text: the file.
        name: its framework.
        place: where faults are.
        changes: what it leaves open, as ``--set`` has it: the model and its sequences at least.

    Returns:
        The plan, what the file leaves open, and what said each key.

    Raises:
        PlanError: the file is malformed, or says what is not modelled or no model is set.
    """
    known, command = load_framework(name), None
    if is_command(text, place):
        variables, fixed = split_changes(changes)
        command = read_command(text, place, variables, name, fixed)
        tree: Mapping[str, Any] = command.options
    else:
        fixed, tree = trainers.parse_changes(changes), _parse_mapping(text, place, known.form)
        tree = open_named(flatten_options(tree), place)
    options = trainers.Options(tree, text, known, fixed)
    start = _take_program_keys(command, options, fixed) if command else {}
    # The first time for the keys that conditions are about.
    first, _ = _derive_keys(options, known, name, place, start=start)
    above = {"parallelism.zero": 0, **first, **fixed}
    keys, came_from = _derive_keys(options, known, name, place, above, start)
    came_from |= dict.fromkeys(start, ("its command",))
    keys = {ZERO: 0, **keys, **fixed}
    if "model" not in keys and not any(key.startswith("model.") for key in keys):
        option = next((key for key in known.models if key in options), "")
        named = str(options.get(option, ""))
        shipped = aliases.find_preset("model", named, references.preset_names("model"))
        if option in known.flavors:
            shipped = known.flavors[option].get(named)
        elif "/" not in named:  # a folder, but for names of before there were publishers
            shipped = aliases.on_the_hub().get(f"{FIRST_PUBLISHER}/{named}")
        if shipped is None:
            shown = f"; {one_line(named)} is its weights" if named else ""
            raise PlanError(f"no key has the model{shown}", place, trainers.NO_MODEL)
        keys["model"], came_from["model"] = shipped, (option,)
    for option in known.models:  # it is read, or another was chosen
        options.given.pop(option, None)
    if known.builds and isinstance(base := keys.get("model"), str):
        shape = source.load({"extends": base}, kind="model").data
        changed = {
            key: value for key, value in known.builds.items() if shape.get(key, value) != value
        }
        keys["model"] = {"extends": base, **changed} if changed else base
    if options.dense and source.load(keys["model"], kind="model").data.get("moe"):
        wrong = f"{options.dense} takes paths of dense layers, none of experts"
        raise PlanError(wrong, place, "a list of the names of projections")
    devices, counted = _count_processes(text, command, fixed, place)
    keys = trainers.derive_sizes(options, keys, [*walk_rows(known.rows)], devices)
    if SEQUENCE not in keys and "model" in keys:
        keys[SEQUENCE] = pick_length(keys["model"], terms.get_usual("tuned length").value)
    if "cluster" in keys:
        keys = {key: value for key, value in keys.items() if not key.startswith("cluster.")}
    else:
        keys.setdefault("cluster.accelerator", ACCELERATOR)
    document: dict[str, Any] = {"model": None, "cluster": None, "training": {}}
    document |= expand_keys({key: value for key, value in keys.items() if value is not None})
    with place_faults(place):
        plan = build_plan(schema.validate(source.load(document), "plan"))
    usual = {k: v for k, v in known.defaults.items() if trainers.is_same(options.get(k), v)}
    lines = judge_file(options.given, usual, plan, known, place, fixed={**start, **fixed})
    lines += [f"left to the trainer: {', '.join(options.open)}"] if options.open else []
    open_ = [
        f"no key says {key}: {what}"
        for key, what in (
            ("cluster.accelerator", "an assumption"),
            ("cluster.devices", "the fewest that it takes"),
            (SEQUENCE, "an assumption"),
        )
        if key not in fixed and "cluster" not in fixed and key not in came_from
        if not (key == "cluster.devices" and devices)
    ]
    whole = command is None and not keys[ZERO] and plan.get("cluster.devices") > 1
    if whole and ZERO not in fixed and known.name in WITH_LAUNCHER:
        open_.append(
            f"no key says {ZERO}: whole copies, unless a file of its launcher divides them"
        )
    lines = [*(command.lines if command else ()), *open_, *lines]
    came_from = {
        **dict.fromkeys(("cluster.accelerator", SEQUENCE), ("no key says it",)),
        "cluster.devices": (counted,),
        **came_from,
        **dict.fromkeys(fixed, ("--set",)),
    }
    return LaunchPlan(document, lines, came_from)


def _take_program_keys(
    command: TrainingCommand, options: trainers.Options, fixed: Mapping[str, Any]
) -> dict[str, Any]:
    """Take the keys of a plan that the program of a command decides, or reads by options of its
    own, which are read then; what is chosen beside it comes first."""
    keys = dict(command.program.plan)
    for option, key in command.program.reads.items():
        if options.given.get(option) is not None:
            keys[key] = options.given.pop(option)
    return {key: fixed.get(key, value) for key, value in keys.items()}


def add_stack(document: dict[str, Any], name: str) -> dict[str, Any]:
    """Name the stack of a framework in a plan read from its file, if there is one and it runs what
    the file says; keys of the file come before those of the stack, and a file says how weights are
    sharded."""
    stack = aliases.find_preset("stack", name, references.preset_names("stack"))
    zero = build_plan(schema.validate(source.load(document), "plan")).get("parallelism.zero")
    named = {**document, "training": {"stack": stack, **document["training"]}}
    named["parallelism"] = {"zero": zero, **document.get("parallelism", {})}
    try:
        build_plan(schema.validate(source.load(named), "plan"))
    except PlanError:
        return document
    return named


def read_keys(text: str, name: str, plan: Plan) -> dict[str, Any]:
    """Read the keys of a file which was made of a plan, under the conditions of that plan.

    Args:
        text: the file.
        name: its framework.
        plan: the plan.

    Returns:
        Dotted keys with the file's values.
    """
    known, place = load_framework(name), Place(name)
    said: LaunchValues | trainers.Options
    if name in READ_TRAINERS:
        said = trainers.Options(_parse_mapping(text, place, known.form), text, known)
    else:
        said = _load_values(text, known, place)
    above = {lift_key(key): plan.get(lift_key(key)) for key in _list_conditions(known.rows)}
    before = {key: value for key, value in above.items() if value is not None}
    return _derive_keys(said, known, name, place, before)[0]


def _list_conditions(rows: Iterable[Row]) -> Iterator[str]:
    """List the keys that conditions are about."""
    for row in rows:
        yield from _list_conditions(row.get("rows", ()))
        inner = [one for one in row.values() if isinstance(one, Mapping)]
        for about in (each[name] for each in (row, *inner) for name in CONDITIONS if name in each):
            yield from [about] if isinstance(about, str) else about


def _load_values(
    text: str, known: Framework, place: Place, function: str = "", variables: Mapping[str, str] = {}
) -> LaunchValues:
    """Parse a launch file and add the defaults for what it leaves out.

    Args:
        text: the file.
        known: its framework, which decides how it is parsed.
        place: where faults are.
        function: of a Python file, the function that makes the configuration.
        variables: of a script, what the environment and its arguments have.

    Returns:
        Values by key; fields of another framework also by the options that they stand for.
    """
    if known.form == "flags":
        read = primus.read_primus if primus.is_primus(text) else read_command
        command = read(text, place, variables)
        found: Mapping[str, Any] = command.options
    elif known.options and (changes := _parse_changes(text)):
        found = changes
    elif place.file.endswith(".toml"):
        said_there = flatten_options(_parse_toml(text, place)).items()
        found = {trainers.rename_option(known, key): value for key, value in said_there}
    elif known.form == "python" and not place.file.endswith((".yaml", ".yml")):
        found = python_file.read_python(text, place, known.calls, function)
    elif known.name in ("maxtext", "torchtitan") and primus.is_primus(text):
        found = primus.read_primus_settings(text, place, variables, known.name)
    else:
        found = flatten_options(_parse_mapping(text, place))
    said = LaunchValues(found)
    if known.form == "flags":
        said |= megatron.find_vocabulary(found)
        said.command = command
    said.place, held = place, known.defaults
    fields.resolve_synonyms(said, known.also, FIRST)
    given = dict(said)
    if known.options:
        for key in [key for key in said if not fields.is_field(key)]:
            del said[key]  # a section, and what the function calls
        hub = str(dict.get(said, "model")).startswith(HUB)
        if hub:  # whose converter decides what a model has by default
            own = {key for key in held if f"{key}.".startswith(fields.MODEL)}
            held = {k: v for k, v in held.items() if fields.is_field(k) and k not in own}
        shown = {k: v for k, v in said.items() if k != "model" or not hub}
        options, said.names = fields.find_options(
            known.options, known.besides, held, {**held, **shown}, place
        )
        said |= options
        calls = (FIRST, MODULE)  # what a call is made of stands for no option
        said.names = {k: v for k, v in said.names.items() if not v.endswith(calls)}
        given |= {option: options[option] for option, key in said.names.items() if key in given}
    if known.form == "python" and not known.options:
        _read_token_budget(said)
    said.given = dict(said)
    said.own = given if known.options else said.given
    for key, value in held.items():
        said.setdefault(key, value)
    return said


def _find_model(said: LaunchValues, place: Place) -> dict[str, Any] | str:
    """Convert the model of Megatron-LM's options, or find the built-in one of a page on the Hub."""
    found = {key: said.get(key) for key in said.given if not fields.is_field(key)}
    if not str(dict.get(said, "model")).startswith(HUB):
        if said.names and "num-layers" not in found:
            raise PlanError("no known model", place, "its fields, or the page of a built-in model")
        return megatron.convert_options(found, place, said.names)
    page = said.get(f"model.{FIRST}")
    shipped = aliases.find_preset("model", str(page), references.preset_names("model"))
    if shipped is None:
        fault = f"{one_line(str(page))} is no known model"
        raise PlanError(fault, place, "the page of a built-in model")
    if changed := megatron.find_shaper(found):
        raise PlanError(f"{said.names[changed]} changes a model of the Hub, and is not read", place)
    return shipped


def _parse_changes(text: str) -> dict[str, Any]:
    """Parse changes as on the line of a script; none where the text is another."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        return {}
    found = [OVERRIDE.fullmatch(word) for word in words]
    if not all(found):
        return {}
    return {one[1]: yaml_nodes.parse_plain(one[2], "changes") for one in found if one}


def _derive_keys(
    said: LaunchValues | trainers.Options,
    known: Framework,
    name: str,
    place: Place,
    before: Mapping[str, Any] | None = None,
    start: Mapping[str, Any] = {},
) -> tuple[dict[str, Any], dict[str, tuple[str, ...]]]:
    """Derive the keys of a plan from a file by the rows of its framework.

    Args:
        said: the options of the file.
        known: the framework.
        name: its name, the source of keys that are defaults.
        place: where faults are.
        before: the keys that conditions read, if known already; otherwise those derived so far, and
            a condition on a key that no row has read counts as met.
        start: keys to start with, which no row changes.

    Returns:
        The keys with their values, and for each key derived here the options that gave it.
    """
    flags, keys, asked = known.form == "flags", dict(start), set(start)
    came_from: dict[str, tuple[str, ...]] = {}
    names = said.names if isinstance(said, LaunchValues) else {}
    of_plan, of_asked = (keys, asked) if before is None else (before, None)

    def hear(rows: Iterable[Mapping[str, Any]]) -> None:
        """Read rows in order; those below a condition only if it holds or may hold."""
        for row in rows:
            key, about = next(iter(row.items()))
            if key in CONDITIONS:
                if is_possible(of_plan, of_asked, key, about):
                    hear(row["rows"])
                continue
            key = lift_key(key)
            if key.partition(".")[0] not in known.decides or key in keys:
                continue
            about = {"to": about} if isinstance(about, str) else about
            where = [(one, about[one]) for one in about if one in CONDITIONS and about[one] != key]
            if not all(is_possible(of_plan, of_asked, *one) for one in where):
                continue
            value = _match_option(about, said, place)
            asked.add(key)
            if isinstance(said, trainers.Options) and said.is_left_out(
                key, value, list_options(about)
            ):
                continue
            if value not in (None, -1) and not (
                value in (0, False) and lift_key(about.get("given", "")) == key
            ):
                own = said.given
                options = dict.fromkeys(one for one in list_options(about) if one in own)
                shown = tuple(names.get(one, f"--{one}" if flags else one) for one in options)
                came_from[key] = shown or (f"the default of {name}",)
                keys[key] = parse_word(value, place.file) if flags else value

    hear(known.rows)
    return keys, came_from


def _read_mesh(said: LaunchValues) -> dict[str, Any]:
    """Read the sizes of a layout and of a batch from the axes of MaxText's mesh."""

    def size(axis: str) -> int:
        """Multiply the sizes of an axis within and between slices; 1 where neither is a number."""
        both = (said.get(f"{where}_{axis}_parallelism", 1) for where in ("ici", "dcn"))
        return prod(one for one in both if isinstance(one, int) and one > 0)

    sequence, sharded, pipe = size("tensor_sequence"), size("fsdp"), size("pipeline")
    tensor, data = size("tensor") * sequence, sharded * size("data") * size("expert")
    found = {"tensor": tensor, "context": size("context"), "expert": size("expert")}
    found |= {"pipeline": pipe, "data": data, "sequence": sequence > 1}
    if sharded > 1:
        found |= {"zero": 3, "replicate": size("data")}
    share = said.get("per_device_batch_size", 12)
    devices = data * tensor * found["context"] * pipe
    if not isinstance(share, (int, float, Fraction)) or not 0 < share < 1e9:
        raise PlanError(f"per_device_batch_size is {share}", said.place, "above 0")
    steps = said.get("num_pipeline_microbatches" if pipe > 1 else "gradient_accumulation_steps", 1)
    batch = Fraction(share) * devices * (1 if pipe > 1 else steps)
    run = {"global_batch": int(batch), "micro_batch": int(batch) // (data * steps)}
    run |= {"schedule": "gpipe"} if pipe > 1 else {}
    return {f"parallelism.{key}": value for key, value in found.items()} | {
        f"training.{key}": value for key, value in run.items()
    }


def _read_token_budget(said: LaunchValues) -> None:
    """Add the batch in sequences where torchtitan, since 2026-08, has it in tokens.

    Raises:
        PlanError: a micro-batch is not a whole number of sequences.
    """
    names = (
        "num_tokens_per_microbatch_per_dp_rank",
        "max_context_length",
        "num_tokens_per_train_step",
    )
    tokens, length, whole = (said.get(f"training.{name}") for name in names)
    if tokens is length is None:
        return
    tokens, length = TOKEN_BUDGET[0] if tokens is None else tokens, length or TOKEN_BUDGET[1]
    steps = said.get("parallelism.num_pp_microbatches", 1)
    if not all(isinstance(one, int) and one > 0 for one in (tokens, length, steps)):
        raise PlanError(f"training.{names[0]} is {tokens}", said.place, "a whole number")
    if tokens % length:
        fault = f"training.{names[0]} {tokens} is no whole number of sequences of {length}"
        raise PlanError(fault, said.place)
    budget = {
        "training.seq_len": (length, f"training.{names[1]}"),
        "training.local_batch_size": (tokens // length * steps, f"training.{names[0]}"),
        "parallelism.pipeline_parallel_microbatch_size": (tokens // length, f"training.{names[0]}"),
    }
    if isinstance(whole, int) and whole > 0:
        budget["training.global_batch_size"] = (whole // length, f"training.{names[2]}")
    said.names = {key: name for key, (_, name) in budget.items()}
    for key, (value, _) in budget.items():
        said[key] = value


def _read_chunks(said: LaunchValues, keys: Mapping[str, Any]) -> dict[str, Any]:
    """Read virtual stages, and layers of each, where torchtitan's modules of a stage say them."""
    modules = said.get("parallelism.module_fqns_per_model_part")
    each = said.get("parallelism.pipeline_parallel_layers_per_stage")
    layers = keys.get("model.layers")
    size = keys.get("parallelism.pipeline") or 1
    if isinstance(modules, list) and all(isinstance(one, list) for one in modules):
        held = [sum(str(one).startswith("layers.") for one in part) for part in modules]
        virtual = len(held) // size
        return {"virtual_pipeline": virtual} | ({"stages": held} if virtual == 1 else {})
    if isinstance(each, int) and isinstance(layers, int) and each > 0 and size > 1:
        return {"virtual_pipeline": max(layers // each // size, 1)}
    return {}


def _find_flavor(said: LaunchValues, known: Framework, file: str, function: str) -> str | None:
    """Find the built-in model of a flavor that a file calls in a registry.

    Args:
        said: the values of the file.
        known: the framework, with its flavors by family.
        file: the file, whose folder is the family where it is in the framework itself.
        function: the function of the file, whose name may have family and flavor.

    Returns:
        The name of the model; None if the registry is of another family, or has no such flavor.
    """
    named = (f"model_spec.{FIRST}", "model_spec.flavor", "model.flavor")
    flavor = next((str(said.get(key)) for key in named if said.get(key)), "")
    registry = str(said.get("model_spec")).removesuffix("()").rpartition(".")[0]
    module = str(said.get(f"model_spec.{MODULE}") or "").rpartition(".")[2]
    family = registry or module or Path(file).parent.name
    begun = f"_{flavor}".lower().replace("-", "_").replace(".", "_")
    made = [held for family, held in known.flavors.items() if f"{family}{begun}" in function]
    own = known.flavors.get(family) or next(iter(made), {})
    return own.get(flavor)


def _get_degree(keys: Mapping[str, Any], name: str) -> int:
    """Return a parallel size, 1 where it is unknown or no number."""
    size = keys.get(f"parallelism.{name}")
    return size if isinstance(size, int) and size > 0 else 1


def _parse_mapping(text: str, place: Place, form: str = "yaml") -> Mapping[str, Any]:
    """Parse YAML, or JSON.

    Raises:
        PlanError: it is no mapping.
    """
    as_json = form == "json"
    found = hf.parse_config(text, place) if as_json else yaml_nodes.parse_plain(text, place.file)
    if not isinstance(found, Mapping):
        raise PlanError("not a launch file: not a mapping", place)
    return found


def _parse_toml(text: str, place: Place) -> Mapping[str, Any]:
    """Parse TOML, whose fractions are exact.

    Raises:
        PlanError: it is none, at its line.
    """
    try:
        return tomllib.loads(text, parse_float=Fraction)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"line (\d+), column (\d+)", str(error))
        where = place._replace(line=int(at[1]), column=int(at[2])) if at else place
        raise PlanError(f"not TOML: {str(error).partition(' (at')[0]}", where) from None


def _match_option(about: Mapping[str, Any], said: Mapping[str, Any], place: Place) -> Any:
    """Match the value of a key by the options that stand for it.

    Args:
        about: the row of the key.
        said: the options of the file.
        place: where faults are.

    Returns:
        The value of the option itself if the row has no words. Otherwise the value whose words are
        all in the file, the one with most of them if several are; else the one that needs no words;
        else None.

    Raises:
        PlanError: the option has a value that no word of the row matches.
    """
    to, words = about.get("to"), about.get("words")
    if to and "each" in about and said.get(to) is not None:
        several = _match_each(said.get(to), to, about["each"], place)
        if isinstance(said, trainers.Options) and to in said.given:
            said.dense = to if "mlp" in str(said[to]) else ""
            said.given[to] = [about["each"][one] for one in several]
        return several
    if "each" in about and not to:
        pairs = about["each"].items()
        agree = [one for one, word in pairs if all(said.get(k) == v for k, v in word.items())]
        return agree or None
    if words is None:
        value = said.get(to, about.get("otherwise")) if to else about.get("only")
        return value * about["times"] if "times" in about and isinstance(value, int) else value
    found, silent = [], []
    for value, word in words.items():
        if isinstance(word, Mapping) and "elsewhere" in word:
            continue
        near = isinstance(word, Mapping) and "near" in word
        options = word["near"] if near else word
        options = options if isinstance(options, Mapping) else {to: options}
        if isinstance(said, trainers.Options):
            options = {k: one for k, one in options.items() if not said.is_ignored(k)}
        if not options:
            silent += [] if near else [value]
        elif all(trainers.is_same(said.get(key), option) for key, option in options.items()):
            found.append((len(options), not near, value))
    if found:
        return max(found, key=lambda one: one[:2])[2]
    if to and said.get(to) is not None:
        known = [str(word) for word in words.values() if not isinstance(word, Mapping)]
        raise PlanError(Fault.from_pool(f"{to} is {said.get(to)}", str(said.get(to)), known, place))
    return silent[0] if len(silent) == 1 else None


def _match_each(given: Any, option: str, names: Mapping[str, str], place: Place) -> list[str]:
    """Translate the names that an option lists to those of a key; of a path through a block of a
    layer its last name.

    Args:
        given: a list, text with commas, or a pattern of paths of modules, as PEFT takes it.
        option: the option, for the error.
        names: their names by ours.
        place: where faults are.

    Raises:
        PlanError: a name that is not among them.
    """
    ours = {theirs: name for name, theirs in names.items()}
    if isinstance(given, str) and PATTERN.search(given):
        listed: list[str] = _match_modules(given, option, list(ours), place)
    else:
        whole = given if isinstance(given, list) else re.split(r"[,\s]+", str(given).strip())
        ends = (str(one).rpartition(".") for one in whole)
        listed = [end[2] if end[0] in BLOCKS else "".join(end) for end in ends]
    for one in listed:
        if one not in ours:
            raise PlanError(Fault.from_pool(f"{option} has {one}", one, list(ours), place))
    return [ours[one] for one in listed]


def _match_modules(pattern: str, option: str, names: Sequence[str], place: Place) -> list[str]:
    """Match a pattern against the paths of the modules of a decoder.

    Raises:
        PlanError: it may take long, or it takes other modules or those of some layers alone.
    """
    wrong = f"{option} is {one_line(pattern)[:80]}"
    if len(pattern) > 300 or SLOW.search(pattern) or len(re.findall("[*+]", pattern)) > 6:
        raise PlanError(f"{wrong}, which is not matched", place, f"a list of {', '.join(names)}")
    try:
        takes = re.compile(pattern).fullmatch
    except re.error as error:
        raise PlanError(f"{wrong}: {error}", place, f"a list of {', '.join(names)}") from None
    found: dict[str, set[int]] = {}
    for above, block, layer in product(ABOVE, BLOCKS, range(FEW)):
        for name in (*names, *OTHERS):
            if takes(f"{above}layers.{layer}.{block}.{name}"):
                found.setdefault(name, set()).add(layer)
    others = [] if OTHERS[0] in found else [name for name in OTHERS if name in found]
    some = f"{others[0]} too" if others else "" if found else "no projection of a decoder's layers"
    if any(len(layers) < FEW for layers in found.values()):
        some = "some layers alone"
    if some:
        raise PlanError(f"{wrong}, which takes {some}", place, f"a list of {', '.join(names)}")
    return [name for name in names if name in found]


def _read_stages(said: LaunchValues, layers: int, count: int, virtual: int) -> Sequence[int] | None:
    """Read how many layers each pipeline stage has.

    Args:
        said: the options of the file.
        layers: layers of the model.
        count: pipeline stages.
        virtual: virtual stages on each.

    Returns:
        Layers by stage, virtual ones one by one where embedding and loss count as layers; None if
        the file does not state them.

    Raises:
        PlanError: the layers do not divide over the stages.
    """
    hybrid = megatron.read_hybrid(said, True) or ""
    if "|" in hybrid:
        held = [*map(len, hybrid.split("|"))]
        return held if len({*held}) > 1 else None
    apart = [
        bool(said.get(f"account-for-{end}-in-pipeline-split")) for end in ("embedding", "loss")
    ]
    if any(apart) and count > 1:
        each, left = divmod(layers + sum(apart), count * virtual)
        if left:
            fault = f"{layers} layers and what counts as one do not divide over the stages"
            raise PlanError(fault, said.place)
        return [each - apart[0], *[each] * (count * virtual - 2), each - apart[1]]
    ends = [said.get(f"decoder-{end}-pipeline-num-layers") for end in ("first", "last")]
    if count > 2 and all(re.fullmatch("[0-9]{1,9}", str(end)) for end in ends):
        first, last = (int(str(end)) for end in ends)
        return [first, *[(layers - first - last) // (count - 2)] * (count - 2), last]
    layout = said.get("pipeline-model-parallel-layout")
    if not isinstance(layout, str) or len(layout) > 10_000:
        return None
    whole = re.sub(r"\(([^()]*)\)\*([0-9]{1,4})", lambda found: found[1] * int(found[2]), layout)
    held = [
        sum(int(times or 1) for times in re.findall(r"t(?:\*([0-9]{1,6}))?", stage))
        for stage in whole.split("|")
    ]
    return held if len(held) == count else None
