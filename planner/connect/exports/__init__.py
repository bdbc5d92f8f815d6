"""Launch configurations of training frameworks, from a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.base.errors import Fault, PlanError

# The command line asks for the names of the frameworks at each start; the rest waits.
if TYPE_CHECKING:
    from planner.connect.exports.fields import Fields
    from planner.connect.exports.rules import Row
    from planner.connect.exports.table import LaunchConfig, Unsaid
    from planner.plans.document import Plan

#: The frameworks, each a document of this folder.
FORMATS = (
    *("megatron", "torchtitan", "deepspeed", "nanotron", "accelerate", "maxtext"),
    *("transformers", "trl", "axolotl", "llama-factory", "megatron-bridge"),
)
#: Whose files are read as runs: with their model, and without one.
LAUNCHED = ("megatron", "nanotron", "torchtitan", "maxtext", "megatron-bridge")
TRAINERS = tuple(name for name in FORMATS if name not in LAUNCHED)
#: Trainers whose files are read, and not written; and all whose files are read without a model.
IMPORTED = ("ms-swift", "torchtune", "litgpt")
READ_TRAINERS = (*TRAINERS, *IMPORTED)
#: Trainers by reinforcement learning: their configurations are read (planner/connect/imports).
RL_TRAINERS = ("verl", "nemo-rl", "openrlhf")
#: Those whose scripts are written too (planner/connect/exports/scripts.py).
SCRIPTED = ("verl", "nemo-rl")
#: These, and others whose configurations have a table of rows there.
TABLED = (
    *(*RL_TRAINERS, "llm-foundry", "open-instruct", "trl-grpo", "nemo-automodel", "olmo-core"),
    *("gpt-neox", "olmo"),
)
#: Whose files say nothing of a model.
WITHOUT_MODEL = ("deepspeed", "accelerate")
#: Whose job files can hold one of them.
SCHEDULERS = ("slurm", "kubernetes", "skypilot")
#: Before the name of a variable of the environment, among the options that rows say.
VARIABLES = "env."


class Framework(NamedTuple):
    """A framework, as its document describes it: how its files are written and read.

    Attributes:
        name: its name in commands.
        title: the title of its files.
        use: the command that uses a file.
        form: flags, json, yaml or python.
        kernels: the kernels that its models run.
        by_hand: what the user adds to a file.
        rows: the options of each key of a plan.
        version: of a trainer, the version that its names and defaults are from.
        environment: whether its file contains environment variables.
        frame: the text around the options of a Python file.
        imports: modules by the name that a Python file uses.
        options: options of another framework, with the fields of this one that they stand for.
        defaults: values of options that a file leaves out.
        flavors: by family, the built-in model of each name in the registry of models.
        renamed: for patterns of its options, the names that rows use.
        also: options with another spelling: where ``when`` all have such values, it ``means``
            these, and ``adds`` to lists.
        members: of options that are lists, the members that other options decide.
        parts: patterns of values, whose named groups are options too.
        besides: patterns of options that change nothing in a plan.
        named: patterns of options that change little and have no key: they are named in the answer.
        refused: patterns of options that are refused, unless the key that they would decide is set.
        models: options that name weights.
        builds: keys of a model that its own code decides, whatever the published one has.
        decides: sections of a plan that a file determines.
    """

    name: str
    title: str
    use: str
    form: str
    kernels: str | None
    by_hand: Sequence[str]
    rows: tuple[Row, ...]
    version: str = ""
    environment: bool = False
    frame: str = ""
    imports: Mapping[str, str] = {}
    options: Mapping[str, Fields] = {}
    defaults: Mapping[str, Any] = {}
    flavors: Mapping[str, Mapping[str, str]] = {}
    renamed: Mapping[str, str] = {}
    also: Sequence[Mapping[str, Mapping[str, Any]]] = ()
    members: Mapping[str, Sequence[str]] = {}
    parts: Mapping[str, str] = {}
    besides: Sequence[str] = ()
    named: Sequence[str] = ()
    refused: Mapping[str, str | None] = {}
    models: Sequence[str] = ()
    builds: Mapping[str, Any] = {}
    decides: Sequence[str] = ("training", "parallelism", "cluster", "memory")

    @property
    def calls(self) -> frozenset[str]:
        """Calls and members that its document writes; all else in a Python file is a literal."""
        from planner.connect.exports.table import WRITTEN, walk_texts

        said = walk_texts([self.rows, self.options, self.also, self.defaults])
        return frozenset(text for text in said if WRITTEN.fullmatch(text))


def build_config(plan: Plan, to: str) -> LaunchConfig:
    """Build the launch configuration of a framework: its text, what it says and what it cannot say.

    Raises:
        PlanError: an unknown framework, or a plan whose layout is still to be searched.
    """
    from planner.connect.exports import fields
    from planner.connect.exports.rules import follow_rows
    from planner.connect.exports.table import ExportDraft, LaunchConfig, write_config, write_python

    known = load_framework(to)
    if not isinstance(plan.data.get("parallelism"), dict):
        where = plan.document.find_place(("parallelism",))
        allowed = "sizes under parallelism; plan.py search ranks layouts"
        raise PlanError("a launch configuration needs a layout", where, allowed)
    if plan.reinforced:
        where, allowed = plan.document.find_place(("training", "mode")), " or ".join(SCRIPTED)
        raise PlanError(f"no reinforcement learning is written for {to}", where, allowed)
    check_model(plan, to)
    draft = ExportDraft(plan, to)
    follow_rows(draft, known.rows)
    draft.add_rest()
    if known.options:
        draft.said = fields.write_fields(known.options, draft.said)
    unsaid = tuple(dict.fromkeys(draft.unsaid))
    variables = {
        key.removeprefix(VARIABLES): str(value)
        for key, value in draft.said.items()
        if key.startswith(VARIABLES)
    }
    if not known.environment:
        draft.said = {k: v for k, v in draft.said.items() if not k.startswith(VARIABLES)}
    head = _write_head(plan, known, unsaid, variables)
    if known.form == "python":
        text = head + write_python(known.frame, known.imports, known.calls, draft.said)
    else:
        text = write_config(known.form, draft.said, head)
    return LaunchConfig(text, draft.said, unsaid, known.form != "json", variables)


def check_model(plan: Plan, to: str) -> None:
    """Check that the framework has models of this kind.

    Raises:
        PlanError: a model of a kind that the framework has none of.
    """
    if plan.get("model.stem") and to in FORMATS and to not in WITHOUT_MODEL:
        where, allowed = plan.document.find_place(("model", "stem")), " or ".join(WITHOUT_MODEL)
        raise PlanError(f"{to} has no diffusion models", where, allowed)


@cache
def load_framework(name: str) -> Framework:
    """Load a framework with its rows.

    Raises:
        PlanError: an unknown framework.
    """
    from planner.base import resources
    from planner.connect.exports import rules

    if name not in (*FORMATS, *IMPORTED):
        raise PlanError(Fault.from_pool(f"unknown framework {name}", name, FORMATS))
    said = resources.load_beside(__file__, f"{name}.yaml")
    said["name"], own, like = name, said["rows"], said.pop("like", None)
    if like is None:
        return Framework(**{**said, "rows": (*own, *rules.OF_ALL)})
    base = load_framework(like)
    rows = (*rules.pick_inherited(base.rows, own), *own)
    for key in ("also", "besides", "named"):  # its own first
        said[key] = [*said.get(key, ()), *getattr(base, key)]
    for key in ("defaults", "renamed", "refused"):
        said[key] = {**getattr(base, key), **said.get(key, {})}
    return Framework(**{**base._asdict(), **said, "rows": rows})


def caveats(unsaid: Sequence[Unsaid]) -> list[str]:
    """List the keys that a framework has no words for, each reason once."""
    keys: dict[str, list[str]] = {}
    for each in unsaid:
        keys.setdefault(each.why, []).append(f"{each.key} {each.value}")
    return [f"{', '.join(said)}: {why}" for why, said in keys.items()]


def _write_head(
    plan: Plan, known: Framework, unsaid: tuple[Unsaid, ...], environment: Mapping[str, Any]
) -> str:
    """Write the comments that open the file.

    Args:
        plan: the plan.
        known: the framework.
        unsaid: keys of the plan that the file has no option for.
        environment: variables to set, with their values.
    """
    from planner.base.display import one_line

    devices, node = plan.get("cluster.devices"), plan.get("cluster.devices_per_node")
    per_node = f", {node} per node" if node else ""
    lines = [
        f"{known.title} of the plan: {plan.name}",
        f"Use: {known.use}",
        f"Processes: {devices}{per_node}; data parallel {plan.get('parallelism.data')}, "
        f"{plan.get('training.gradient_accumulation')} micro-batches per step.",
    ]
    if environment and not known.environment:
        lines.append("Environment: " + " ".join(f"{k}={v}" for k, v in environment.items()))
    if unsaid:
        lines += ["Not said here, or not quite:", *(f"  {each}" for each in caveats(unsaid))]
    lines.append("To be added by hand: " + "; ".join(known.by_hand) + ".")
    return "".join(f"# {one_line(line)}\n" for line in lines)
