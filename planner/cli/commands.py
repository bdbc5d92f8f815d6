"""The commands: what each takes, and what it does.

Each imports what it needs, so that a short one starts quickly.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.base import files
from planner.base.display import as_json, one_line
from planner.base.errors import Fault, Place, PlanError, needed
from planner.cli.completion import SHELLS
from planner.connect.exports import FORMATS, LAUNCHED, SCHEDULERS, TRAINERS

if TYPE_CHECKING:
    from planner.plans.document import Plan

OK, FAILED, BAD_INPUT = 0, 1, 2
BROKEN = 70  # an internal error; sysexits.h calls it EX_SOFTWARE

#: The names of an argument, and its other options for argparse.
Argument = tuple[tuple[str, ...], dict[str, Any]]
#: Returns the exit status, or what is printed where all went well.
Handler = Callable[[argparse.Namespace], int | str]


class Command(NamedTuple):
    """A command: its help, its arguments and the function that runs it."""

    help: str
    arguments: tuple[Argument, ...]
    handler: Handler
    #: Examples that help prints, without the program's name.
    examples: tuple[str, ...] = ()

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to a parser."""
        if self.examples:
            parser.formatter_class = argparse.RawDescriptionHelpFormatter
            parser.epilog = "\n".join(["examples:", *(f"  plan.py {e}" for e in self.examples)])
        for names, how in (*self.arguments, *EVERYWHERE):
            parser.add_argument(*names, **how)
        parser.set_defaults(handler=self.handler)


#: The commands by name, in the order in which help lists them.
COMMANDS: dict[str, Command] = {}


def command(
    name: str, help: str, *arguments: Argument, examples: tuple[str, ...] = ()
) -> Callable[[Handler], Handler]:
    """Register a function as the command of that name."""

    def add(handler: Handler) -> Handler:
        COMMANDS[name] = Command(help, arguments, handler, examples)
        return handler

    return add


def broken(error: BaseException | None, debug: bool) -> int:
    """Report an internal error on one line; return the exit status."""
    if debug:
        import traceback

        traceback.print_exception(error)
    elif isinstance(error, MemoryError):
        print("out of memory", file=sys.stderr)
    else:
        shown = one_line(f"{type(error).__name__}: {str(error)[:300]}")
        print(f"internal error: {shown} (--debug shows where)", file=sys.stderr)
    return BROKEN


def faults_text(faults: Sequence[Fault], how: str) -> str:
    """Format faults of documents for another program."""
    from planner.base import fault_formats

    return fault_formats.WRITERS[how](fault_formats.of_documents(faults), fault_formats.RULES)


def argument(names: str, help: str | None = None, **how: Any) -> Argument:
    """Build an argument from its names and value as help prints them (`-o, --output FILE`) and its
    help text."""
    words = names.split()
    flags = [word.rstrip(",") for word in words if word.startswith("-")] or words[:1]
    metavar = " ".join(words[len(flags) :]) or None
    return tuple(flags), {"metavar": metavar, "help": help, **how}


def many(names: str, help: str, **how: Any) -> Argument:
    """Build an option that may be repeated."""
    return argument(names, f"{help}; repeatable", action="append", default=[], **how)


def flag(name: str, help: str) -> Argument:
    return (name,), {"action": "store_true", "help": help}


def formats(*names: str, help: str = "output format") -> Argument:
    """Build the option ``--format``, whose default is the first name."""
    return argument("--format", help, choices=names, default=names[0])


#: The format of faults: a line each on standard error, or for programs on standard output.
FAULTS = argument(
    "--format",
    "errors as lines, GitHub annotations, SARIF 2.1.0 or JSON, each with its file and line",
    dest="faults",
    choices=("text", "github", "sarif", "json"),
    default="text",
)
#: The file that a command writes instead of standard output, or files whose endings pick formats.
OUTPUT = "-o, --output FILE"
EVERYWHERE = (
    argument(
        "--root DIR", "read no file outside this folder, whatever documents, links and reports name"
    ),
    flag("--no-defaults", "ignore the trainplan.yaml of the plan's folders"),
    flag(
        "--progress",
        "report progress on standard error after two seconds, even if it is not a terminal",
    ),
    flag("--debug", "print a traceback if the program itself fails"),
)
PLAN = (
    argument(
        "plan PLAN.yaml", "a plan document, or the name of a built-in plan; -: standard input"
    ),
    many("--set KEY=VALUE", "override a key of the plan"),
)
#: Options of a layout search.
FINDING = (
    argument(
        "--for",
        "only search layouts that this framework can start",
        dest="launcher",
        choices=FORMATS,
    ),
    argument(
        "--margin p95|SHARE|0",
        "memory margin of a layout search and of --require-fit: the 95th percentile of published "
        "measurements (p95, default), a share above the prediction, or the prediction (0)",
    ),
)


TEMPLATES = argument(
    "--templates DIR", "a folder of Jinja templates, each in the place of ours of the same name"
)


def _loaded(options: argparse.Namespace, searched: bool = False) -> Plan:
    from planner.questions import loading
    from planner.questions.plan_questions import checked

    return checked(loading.load(options.plan, options.set, searched=searched))


def _outputs(
    paths: Sequence[str], formats: Mapping[str, str], what: str, inputs: Sequence[str] = ()
) -> dict[str, str]:
    """Return the format of each output file but ``-``; refuse to overwrite inputs."""
    kinds = {path: files.format_of(path, formats, what) for path in paths if path != "-"}
    for path in kinds:
        files.spare(path, inputs)
    return kinds


def _at_least_one(top: int | None) -> None:
    if top is not None and top < 1:
        raise PlanError(Fault(f"--top {top} shows nothing", None, "at least 1"))


@command(
    "report",
    "evaluate a plan, print a summary, write reports",
    *PLAN,
    many(
        OUTPUT,
        "write a report; .md, .html, .json or .txt picks the format; trace.json is the timeline of "
        "a step, which Perfetto opens",
    ),
    argument(
        "--format",
        "print the report in this format",
        choices=("text", "md", "html", "json", "trace"),
    ),
    many(
        "--only QUANTITY",
        "a result in JSON of this quantity alone, by id or as explain takes it: time.mfu, mfu; "
        "memory. is all that begin so",
    ),
    argument(
        "--print",
        "print the plan with all names and defaults resolved",
        choices=("resolved",),
        dest="show",
    ),
    flag(
        "--require-fit", "exit with status 1 if the plan does not fit into memory (with --margin)"
    ),
    *FINDING,
    TEMPLATES,
)
def _report(options: argparse.Namespace) -> int | str:
    from planner.questions import loading
    from planner.questions.plan_questions import checked

    try:
        plan = checked(loading.load(options.plan, options.set, options.margin, options.launcher))
    except loading.OtherKind as error:
        if error.kind not in ("model", loading.CONFIGURATION):
            raise
        return _model_sizes(options)
    if options.show:
        from planner.report.resolved import resolved

        return resolved(plan)
    from planner import report as render
    from planner.questions.constraints import fit_limit, margin_of
    from planner.questions.plan_questions import evaluate, outcome

    kinds = _outputs(options.output, render.SUFFIXES, "report", plan.document.files())
    if options.only and options.format != "json":
        raise PlanError(Fault("--only needs a result in JSON", None, "--format json"))
    limit = fit_limit(margin_of(plan, options.margin), plan) if options.require_fit else None
    result = evaluate(plan)
    for path in kinds:
        render.write(result, path)
    sys.stdout.write(render.as_text(result, options.format or "text", options.only))
    missed = _missed(result)
    fit = limit and outcome(result, "--require-fit", Place(options.plan), limit, fits=True)
    return FAILED if missed or (fit and not fit.holds) else OK


def _model_sizes(options: argparse.Namespace) -> str:
    """Return the report of a model in place of a plan."""
    from planner.report import model

    whole = ("output", "only", "show", "require_fit", "margin", "launcher")
    asked = [name for name in whole if getattr(options, name)]
    if asked or options.format not in (None, "text", "json"):
        told = "such as -o, --only and --format md need a plan; a model alone has its sizes"
        raise PlanError(Fault(f"options {told}", None, "--set KEY=VALUE, --format text or json"))
    found = model.measure_model(options.plan, options.set)
    return (model.to_json if options.format == "json" else model.text)(found)


def _missed(result: Any) -> bool:
    """Print the requirements that a plan misses, a line each; return whether there are any."""
    for fault in result.questions.missed:
        print(fault, file=sys.stderr)
    return bool(result.questions.missed)


@command(
    "quick",
    "answer a line of text and print the plan that it describes",
    argument(
        "text TEXT",
        'such as "llama3-8b on 64 h100, 2T tokens, tp8 zero1"; see docs/quick.md',
        nargs="+",
    ),
    many(
        OUTPUT,
        "write the plan (.yaml), or a report (.md, .html, .json, .txt, trace.json)",
    ),
    formats("text", "md", "html", "json"),
)
def _quick(options: argparse.Namespace) -> int:
    from planner import report as render
    from planner.documents import quick, schema_files
    from planner.questions import loading
    from planner.questions.plan_questions import checked, evaluate

    text = " ".join(options.text)
    document = quick.read(text)
    said, plans = quick.write(text, document), {".yaml": "plan", ".yml": "plan"}
    kinds = _outputs(options.output, {**plans, **render.SUFFIXES}, "plan or report")
    for path in [path for path, kind in kinds.items() if kind == "plan"]:
        files.write_text(path, f"{schema_files.line('plan', path)}\n{said}")
        del kinds[path]
    result = evaluate(checked(loading.load(document)))
    for path in kinds:
        render.write(result, path)
    if options.format != "text":
        sys.stdout.write(render.as_text(result, options.format))
        return FAILED if _missed(result) else OK
    asked = result.questions
    lead = [f"MISSED  {one.sentence}" for one in asked.requirements if not one.holds]
    lead += [f"ANSWER  {one.name}: {one.sentence}" for one in asked.answers]
    for found in filter(None, (getattr(one.found, "holds", None) for one in asked.answers)):
        result = evaluate(found.plan)  # the plan that answers, not where the search started
    lead += [f"Assumed: {quick.assumptions(document, result.plan.get, result.plan.derived)}"]
    lead += [f"Ignored: {', '.join(words)}" for words in [quick.ignored(text)] if words]
    told = "\n".join(fill(one_line(line), 80, subsequent_indent="  ") for line in lead)
    said = f"# What was understood; -o plan.yaml writes it.\n{said}"
    sys.stdout.write(f"{told}\n\n{render.as_text(result, options.format)}\n{said}")
    return FAILED if _missed(result) else OK


def _study(file: str | Path, overrides: Sequence[str]) -> Any:
    from planner.questions.studies import study  # a heavy module

    return study.load(file, overrides)


@command(
    "validate",
    "check documents against schema and cross-field rules",
    argument("files FILE", "documents of any kind; folders are searched for plans", nargs="+"),
    many("--set KEY=VALUE", "override a key of a plan"),
    FAULTS,
)
def _validate(options: argparse.Namespace) -> int:
    from planner.documents import references
    from planner.questions import loading
    from planner.questions.plan_questions import checked

    faults: list[Fault] = []
    valid = 0
    for given in options.files:
        names = [given]
        if os.path.isdir(given):
            below = files.found([Path(given)], references.ENDINGS)
            names = [str(file) for file, _ in below if references.meant_as_plan(file)]
            if not names:
                known = "documents with model, cluster and training"
                faults.append(Fault("no plans found", Place(given), known))
        for name in names:
            try:
                kind = loading.check(name, options.set, checked, _study)
                valid += 1
                if options.faults == "text":
                    print(one_line(f"{name}: a valid {kind}"))
            except PlanError as error:
                faults += error.faults
    if faults:
        raise PlanError(faults)
    if options.faults != "text":
        sys.stdout.write(faults_text([], options.faults))
    if options.faults == "github":  # no name of a file stands in a line of the log
        print(f"valid documents: {valid}")
    return OK


@command(
    "explain",
    "print the derivation of one quantity",
    *PLAN,
    argument(
        "quantity QUANTITY",
        "an id, part of one, or a label: time.mfu, mfu, days, training time; memory. lists all "
        "that start with memory.",
        nargs="+",
    ),
    argument("--depth N", "levels to print: 1 is the quantity alone; all (default: 2)"),
    flag("--symbolic", "in the plan's basic symbols, term by term, with the published equation"),
    formats("text", "json"),
)
def _explain(options: argparse.Namespace) -> str:
    from planner.report.explain import DEPTH, as_data, explain
    from planner.results.result import evaluate

    asked, text = " ".join(options.quantity), options.depth
    if text is not None and text != "all" and not re.fullmatch("-?[0-9]{1,9}", text):
        raise PlanError(Fault(f"--depth {text}", None, "a number of levels, or all"))
    depth = DEPTH if text is None else None if text == "all" else int(text)
    result = evaluate(_loaded(options))
    if options.format == "json":
        return as_json(as_data(result, asked, depth, options.symbolic))
    return explain(result, asked, depth, options.symbolic)


@command(
    "sensitivity",
    "print the sensitivity of a quantity to every input",
    *PLAN,
    argument("quantity QUANTITY", "such as time.training_days"),
    argument("--top N", "inputs of each kind to print; all", type=int),
    formats("text", "json"),
)
def _sensitivity(options: argparse.Namespace) -> str:
    from planner.questions import sensitivity

    _at_least_one(options.top)
    found = sensitivity.hangs_on(_loaded(options), options.quantity)
    writer = sensitivity.to_json if options.format == "json" else sensitivity.text
    return writer(found, options.top)


@command(
    "solve",
    "answer an inverse question",
    *PLAN,
    argument(
        "question QUESTION",
        "largest-model, largest-model-by-deadline, largest-batch, longest-context, "
        "fewest-devices, tokens-by-deadline, cheapest or compute-optimal; omit it with --vary",
        nargs="?",
    ),
    argument("--vary KEY", "the key to vary"),
    many("--until 'QUANTITY<=VALUE'", "a limit (<= or >=)"),
    argument("--maximize QUANTITY", "maximise this quantity within the limits"),
    argument("--minimize QUANTITY", "minimise this quantity within the limits"),
    argument("--deadline TIME", "such as '30 days'"),
    argument(
        "--with-layout auto",
        "auto searches for the best layout at each value, own keeps the plan's; by default "
        "auto for largest-model and where the plan leaves its layout open",
    ),
    argument(
        "--margin p95|SHARE|0",
        "memory margin: p95, the 95th percentile of published measurements (default); a share "
        "above the prediction such as 5%%; 0, none",
    ),
    argument(
        "--family MODEL", "the model whose shape largest-model scales; the plan's own by default"
    ),
    argument(
        "--accelerators NAME[=PRICE],…",
        "accelerators for cheapest (default: all built-in ones with a price)",
    ),
    argument(
        "--budget AMOUNT",
        "of compute-optimal: such as '1e24 FLOP', '2M USD' or '30 days'; default: what the "
        "plan spends",
    ),
    flag(
        "--unbounded",
        "lift the default bounds: tensor parallelism within a node, the context that the model "
        "was trained for, the critical batch, a run of three years",
    ),
    formats("text", "json"),
    argument("-o, --output PLAN.yaml", "write the plan with the answer"),
    flag("--write", "edit the plan file in place: only the key of the answer changes"),
)
def _solve(options: argparse.Namespace) -> int | str:
    from planner.questions.solve import budgets, questions

    if options.plan in questions.NAMES and not os.path.exists(options.plan):
        known = f"solve PLAN {options.plan}"
        raise PlanError(Fault(f"{options.plan} is a question, not a plan", None, known))
    plan = _loaded(options)
    names = "vary until maximize minimize deadline with_layout family margin accelerators budget"
    how = {name: getattr(options, name) for name in (*names.split(), "unbounded")}
    asked = questions.prepare(plan, options.question, **how)
    if options.write or options.output:
        from planner.questions import write_back

        if options.question == budgets.QUESTION or (options.write and options.output):
            said = "--write or -o FILE, for a question whose answer is a value of the plan's keys"
            raise PlanError(Fault("--write and -o do not apply", None, said))
        write_back.target(options.plan, options.output)
    answer = asked()
    writers: Any = budgets if isinstance(answer, budgets.Spending) else questions
    sys.stdout.write((writers.to_json if options.format == "json" else writers.text)(answer))
    if isinstance(answer, budgets.Spending):
        return OK
    if answer.holds and (options.write or options.output):
        changes = write_back.of_answer(plan, answer)
        sys.stderr.write(write_back.write(options.plan, changes, options.output))
    return OK if answer.holds else FAILED


@command(
    "search",
    "rank the layouts of a plan",
    *PLAN,
    argument("--top N", "layouts shown (10)", type=int, default=10),
    argument(
        "--by QUANTITY",
        "quantity to minimise: time.step_seconds, cost.total, memory.process, …",
        default="time.step_seconds",
    ),
    many(
        "--fix KEY[=VALUE]",
        "fix a key of the layout, at the plan's value or at the given one",
    ),
    many(
        "--vary KEY[=V1,V2]",
        "values to try for a key of the layout or another one such as training.precision; "
        "without values: all",
    ),
    many(
        "--limit 'QUANTITY<=VALUE'", "a limit besides memory that a layout must satisfy (<= or >=)"
    ),
    *FINDING,
    flag("--full", "include layouts that another layout beats in every respect"),
    flag("--front", "list the Pareto front of memory and the minimised quantity"),
    argument(
        "--apply PLAN.yaml",
        "write the best layout into this plan; nothing else changes",
    ),
    argument("--rank N", "with --apply: another layout, by its number, or simplest"),
    formats("text", "md", "html", "json", "csv"),
    many(
        OUTPUT,
        "write the result; .html (with a chart of the search space), .md, .json, .csv or .txt "
        "picks the format",
    ),
    TEMPLATES,
)
def _search(options: argparse.Namespace) -> int:
    from planner.questions.constraints import parse_limit
    from planner.questions.search import choices
    from planner.questions.search.engine import POINTS, search
    from planner.report import searched

    _at_least_one(options.top)
    plan = _loaded(options, searched=True)
    inputs = plan.document.files()
    kinds = _outputs(options.output, searched.SUFFIXES, "list of layouts", inputs)
    if options.rank is not None and not options.apply:
        raise PlanError(Fault("--rank needs --apply", None, "--apply PLAN.yaml"))
    if options.apply:
        from planner.questions import write_back

        write_back.target(options.apply)
    drawn = searched.DRAWN & {options.format, *kinds.values()}
    fixed = choices.fixed(plan, options.fix)
    found = search(
        plan,
        options.top,
        options.by,
        fixed,
        limits=[parse_limit(limit, plan) for limit in options.limit],
        vary=choices.varied(options.vary, fixed),
        full=options.full,
        choices=True,
        points=POINTS if drawn else 0,
        margin=options.margin,
        launcher=options.launcher,
    )
    for path, kind in kinds.items():
        files.write_text(path, searched.WRITERS[kind](found, options.front))
    sys.stdout.write(searched.WRITERS[options.format](found, options.front))
    if options.apply and found.best:
        changes = write_back.of_found(found, options.rank)
        sys.stderr.write(write_back.write(options.apply, changes))
    return OK if found.best else FAILED


@command(
    "sweep",
    "evaluate a grid of plans into a table",
    argument("study STUDY.yaml", "a study document; - is standard input"),
    many(OUTPUT, "the table (.csv, .jsonl, .parquet), a comparison (.html, .md)"),
    argument("--workers N", "processes on this machine; all cores by default", type=int),
    argument(
        "--on ADDRESS",
        "a cluster to run on: dask://HOST:PORT or ray://HOST:PORT",
    ),
    flag("--restart", "start again instead of continuing a sweep that was stopped"),
    # Of a study, whose keys are others than a plan's.
    many("--set KEY=VALUE", "override a key of the study", dest="changes"),
    TEMPLATES,
)
def _sweep(options: argparse.Namespace) -> int:
    from planner.questions.studies import COMPARISONS, TABLES
    from planner.questions.studies.engines import chosen

    if not options.output:
        raise PlanError(Fault("a sweep needs an output", None, "-o FILE.csv, .parquet or .html"))
    formats = {**TABLES, **COMPARISONS}
    kinds = _outputs(options.output, formats, "table and no comparison")
    tables = [path for path, kind in kinds.items() if kind in TABLES.values()]
    reports = [path for path in kinds if path not in tables]
    if len(tables) > 1:
        raise PlanError(Fault(f"two tables: {tables[0]} and {tables[1]}", None, "one of them"))
    chosen(options.workers, options.on)  # reports their faults before the study's
    # Heavy modules.
    from planner.questions.studies import study as studies
    from planner.questions.studies.run import sweep
    from planner.report import study as pages

    study = studies.load(options.study, options.changes)
    for path in reports:
        files.spare(path, study.files)
    table = tables[0] if tables else None
    with _one_voice(options.debug):
        outcome = sweep(study, table, options.workers, options.on, options.restart)
    for path in reports:
        pages.write(outcome, path)
    sys.stdout.write(pages.text(outcome))
    points = outcome.summary.points - outcome.summary.invalid - outcome.summary.outside
    return OK if points > 0 else FAILED


@contextlib.contextmanager
def _one_voice(debug: bool) -> Iterator[None]:
    """Hide the logs of threads that work for this process (a pool's, a cluster library's). An error
    that ends one of them ends the program, on one line: whatever else waits for such a thread would
    wait forever."""
    import logging
    import threading

    def ended(thread: threading.ExceptHookArgs) -> None:
        broken(thread.exc_value, debug)
        sys.stderr.flush()
        os._exit(BROKEN)

    hook, threading.excepthook = threading.excepthook, ended
    level = logging.root.manager.disable
    logging.disable(level if debug else logging.CRITICAL)
    try:
        yield
    finally:
        threading.excepthook = hook
        logging.disable(level)


@command(
    "check",
    "re-evaluate committed reports and report drift",
    argument(
        "paths PATH",
        "reports or folders, searched through; the current folder by default. "
        "None found below what is named is an error (exit 2)",
        nargs="*",
    ),
    many("--plans PATH", "plans or a folder of plans, each of which must have a report"),
    flag("--all", "print every difference and the unchanged reports"),
    flag("--write", "rewrite the reports that drifted; exit with status 0 if none is left"),
    FAULTS,
    TEMPLATES,
)
def _check(options: argparse.Namespace) -> int:
    from planner.review import check

    findings = check.check(list(map(Path, options.paths)), list(map(Path, options.plans)))
    findings = check.write(findings) if options.write else findings
    how = options.faults
    said = check.text(findings, options.all) if how == "text" else check.written(findings, how)
    sys.stdout.write(said)
    return FAILED if any(finding.drift or finding.missed for finding in findings) else OK


@command(
    "diff",
    "compare two plans or results",
    argument(
        "old A",
        "a plan, a result (.json), a report (.md, .html) or REVISION:PATH; or a revision alone, "
        "such as main: every plan of which any document changed since",
    ),
    argument("new B", "what to compare it with; default for a revision: the files here", nargs="?"),
    many("--plans PATH", "of revisions: plans and folders of plans; all by default"),
    formats("text", "md", "json"),
    flag("--all", "print every input and quantity that changed; JSON always has them"),
)
def _diff(options: argparse.Namespace) -> int | str:
    from planner.review import branches, diff, revisions, writing

    sides = [side for side in (options.old, options.new) if side is not None]
    if all(not Path(s).exists() and ":" not in s and revisions.exists(s) for s in sides):
        plans = branches.compare(options.old, options.new, list(map(Path, options.plans)))
        faults = [fault for one in plans for fault in one.faults]
        if options.format == "json":
            said = branches.json_text(plans)
        else:
            said = (branches.markdown if options.format == "md" else branches.text)(
                plans, options.all
            )
        sys.stdout.write(said)
        if faults:
            raise PlanError(faults)
        missed = [fault for one in plans for fault in one.missed]
        for fault in missed:
            print(fault, file=sys.stderr)
        return FAILED if missed else OK
    if options.plans:
        raise PlanError(Fault("--plans needs a revision", None, "diff main --plans plans"))
    if options.new is None:
        known = "a second plan or result, or a branch, a tag or a commit alone"
        raise PlanError(Fault(f"{options.old} needs a second plan or result", None, known))
    found = diff.diff(options.old, options.new)
    if options.format == "json":
        return writing.json_text(found)
    write = writing.markdown if options.format == "md" else writing.text
    return write(found, options.all)


@command(
    "import",
    "turn a published configuration into a model document, or the arguments of a run into a plan",
    argument("config CONFIG", "config.json, a file of arguments, or the arguments in quotes"),
    argument(
        "--from",
        "what wrote it",
        dest="source",
        choices=("huggingface", *LAUNCHED, *TRAINERS, "eleuther"),
        default="huggingface",
    ),
    flag("--plan", "import the whole run of a launch file as a plan, not only its model"),
    many("--set KEY=VALUE", "for a trainer's file: the model, and settings that it does not have"),
    argument(OUTPUT, "the document to write"),
)
def _import(options: argparse.Namespace) -> int:
    from planner.connect import imports
    from planner.documents import schema_files

    found = imports.read(options.config, options.source, options.plan, options.set)
    text = schema_files.placed(found.text, options.output)
    files.put(text, options.output, [options.config])
    for line in found.said:
        print(one_line(f"{found.place}: {line}"), file=sys.stderr)
    return OK


@command(
    "export",
    "write the launch configuration of a framework",
    *PLAN,
    argument("--to", "the framework", required=True, choices=FORMATS),
    argument("--job", "wrap it in a job file of this scheduler", choices=SCHEDULERS),
    flag("--force", "write what can be expressed of a plan that the framework cannot run"),
    argument(OUTPUT, "the file to write"),
)
def _export(options: argparse.Namespace) -> int:
    from planner.connect import as_run, exports

    plan = _loaded(options)
    made = exports.config(plan, options.to)
    if made.lost and not options.force:
        for caveat in exports.caveats(made.lost):
            print(f"{options.to}: {caveat}", file=sys.stderr)
        print(f"{options.to} cannot run this plan; --force writes the rest", file=sys.stderr)
        return FAILED
    text, told = made.text, made.commented
    if options.job is not None:
        from planner.connect.exports import jobs

        text, told = jobs.job(plan, options.to, made, options.job), False
    files.put(text, options.output, plan.document.files())
    if options.output not in (None, "-") or not (told and sys.stdout.isatty()):
        for caveat in exports.caveats(made.unsaid):  # the text itself may say them on the terminal
            print(f"{options.to}: {caveat}", file=sys.stderr)
    for line in as_run.lines(plan, options.to, made):
        print(f"{options.to}: {line}", file=sys.stderr)
    return OK


@command(
    "compare",
    "compare a plan with the log of a run, or with its step time",
    *PLAN,
    argument("--log FILE", "a trainer's log, an event file of TensorBoard, CSV or JSON"),
    argument("--step-time TIME", "instead of a log: the measured step time, such as 1.4s"),
    argument("--warm-up N", "records to skip (default: 5, or half of a shorter log)", type=int),
    TEMPLATES,
    argument("--format", "the table alone in this format", choices=("text", "md", "json")),
    many(
        OUTPUT,
        "write the plan's report with the comparison as a section; .md, .html or .json picks "
        "the format, .txt (and any ending with --format) is the table alone",
    ),
    examples=(
        "compare PLAN.yaml --log train.log",
        "compare presets/llama70b_h100x1024.yaml --step-time 4.2s",
    ),
)
def _compare(options: argparse.Namespace) -> int:
    from planner import report as render
    from planner.connect import compare
    from planner.questions.plan_questions import with_questions

    plan = _loaded(options)
    if (options.log is None) is (options.step_time is None):
        raise PlanError(Fault("one of --log FILE and --step-time TIME is needed"))
    if options.log is None and options.warm_up is not None:
        raise PlanError(Fault("--warm-up needs --log", None, "--step-time is of a typical step"))
    suffixes = {end: kind for end, kind in render.SUFFIXES.items() if kind != "trace"}
    if options.format is not None:  # any ending holds the table alone
        suffixes = {os.path.splitext(path)[1].lower(): "text" for path in options.output}
    inputs = [*filter(None, [options.log]), *plan.document.files()]
    kinds = _outputs(options.output, suffixes, "report", inputs)
    if options.log is not None:
        found = compare.compare(plan, options.log, options.warm_up)
    else:
        found = compare.compare_step(plan, options.step_time)
    writers = {"text": compare.text, "md": compare.markdown, "json": compare.data}
    table = writers[options.format or "text"](found)
    for path, kind in kinds.items():
        if kind == "text":
            files.write_text(path, table)
        else:
            render.write(with_questions(found.result), path)
    if not options.output or "-" in options.output or options.format is None:
        sys.stdout.write(table)
    return OK


@command(
    "measure",
    "measure this machine: an accelerator document from short benchmarks",
    argument("-o, --output FILE.yaml", "the accelerator document to write"),
    argument("--device", "the best by default", choices=("cuda", "cpu", "mps")),
    argument("--name", "of the accelerator; the device's own by default"),
    argument("--seconds N", "for all benchmarks (40)", type=float),
    argument(
        "--processes N",
        "processes of the collectives: GPUs (all by default), or on a CPU any number",
        type=int,
    ),
    argument(
        "--extends NAME",
        "a shipped accelerator whose datasheet holds; only shares of it are written",
    ),
)
def _measure(options: argparse.Namespace) -> int:
    from planner.cli.measure import run

    return run(options)


@command(
    "calibrate",
    "fit the rates of a cluster to the logs of runs on it",
    argument(
        "plans PLAN.yaml", "the plan of each run, or one of all; - is standard input", nargs="+"
    ),
    many(
        "--log FILE",
        "a trainer's log, an event file, CSV or JSON; of several plans as many, in their order",
        required=True,
    ),
    many("--set KEY=VALUE", "override a key of every plan"),
    argument("--warm-up N", "records to skip (default: 5, or half of a shorter log)", type=int),
    argument(OUTPUT, "the cluster document to write"),
    formats("text", "json"),
)
def _calibrate(options: argparse.Namespace) -> int:
    from planner.cli.calibrate import run

    return run(options)


@command(
    "list",
    "list the built-in presets",
    argument(
        "what",
        "default: all",
        nargs="?",
        choices=(
            *("models", "accelerators", "clusters", "schedules", "plans", "studies"),
            *("precisions", "quantities", "aliases"),
        ),
    ),
)
def _list(options: argparse.Namespace) -> str:
    from planner.cli.listing import listing

    return listing(options.what)


@command(
    "tensor",
    "print the size of a tensor in bytes",
    argument("shape SHAPE", "its sides: 49152x12288; a side may have a suffix, as 48Kix12288"),
    many(
        "--precision NAME",
        "a number format, or several with commas: fp32, bf16, half, mxfp8; by default each of "
        "plan.py list precisions",
    ),
    formats("text", "json"),
    examples=(
        "tensor 49152x12288 --precision fp32",
        "tensor 49152x12288 --precision single,brain,mxfp8,nvfp4",
        "tensor 8x4Kix12288",
    ),
)
def _tensor(options: argparse.Namespace) -> str:
    from planner.report import precisions

    shape, found = precisions.sides(options.shape), precisions.formats_called(options.precision)
    return (precisions.tensor_json if options.format == "json" else precisions.tensor)(shape, found)


@command(
    "matmul",
    "analyse one matmul: FLOPs, bytes, bound, time",
    argument(
        "shape BxDxK",
        "sides: X of B by D times W of D by K, 2BDK FLOPs; or batch x B x D x K, a batch of them",
    ),
    argument("--on ACCELERATOR", "a name or a document of an accelerator", required=True),
    argument("--precision NAME", "the number format: bf16 (by default), fp32, fp16, fp8, mxfp8"),
    flag("--backward", "include the backward pass: the gradients of X and of W, one matmul each"),
    argument("--took TIME", "a measured time such as 60ms; prints its utilisation"),
    formats("text", "json"),
    examples=(
        "matmul 16384x32768x8192 --on h100-sxm-80gb",
        "matmul 16384x32768x8192 --on h100-sxm-80gb --took 60ms --precision fp32",
        "matmul 32x4096x128x4096 --on h100 --backward",
        "matmul 1x8192x28672 --on a100 --format json",
    ),
)
def _matmul(options: argparse.Namespace) -> str:
    from planner.report import matmul, precisions

    sides = precisions.sides(options.shape, (3, 4), matmul.WANTED)
    one = precisions.format_called(options.precision or "bf16")
    found = matmul.product(sides, options.on, one, options.took, options.backward)
    return (matmul.to_json if options.format == "json" else matmul.text)(found)


@command(
    "schema",
    "print the JSON Schema of a kind of document, in one piece, for editors and validators",
    argument(
        "kind",
        "what the schema describes",
        choices=("plan", "model", "cluster", "accelerator", "study", "schedule", "result"),
    ),
    argument(OUTPUT, "write it here"),
)
def _schema(options: argparse.Namespace) -> int:
    from planner.documents import schema_files

    files.put(schema_files.text(schema_files.bundled(options.kind)), options.output)
    return OK


@command(
    "serve",
    "serve the planner as a web page and an HTTP interface",
    argument("plan PLAN.yaml", "plan to open first", nargs="?"),
    argument("--host ADDRESS", "the address to listen at (127.0.0.1)", default="127.0.0.1"),
    argument("--port N", "the port to listen at (8765)", type=int, default=8765),
)
def _serve(options: argparse.Namespace) -> int:
    with needed("serve", "serve"):
        from planner.serve import connections, programs
    asked = programs.programs(COMMANDS, options.status)
    connections.run(asked, options.plan, options.host, options.port)
    return OK


@command(
    "site",
    "write the page of serve as static files, which need no server program",
    argument("-o, --output DIR", "the folder to write", required=True),
    argument(
        "--pyodide DIR|URL",
        "a copy of Pyodide to put beside the page, such as node_modules/pyodide, or an address to "
        "load it from (a public one)",
    ),
)
def _site(options: argparse.Namespace) -> int:
    from planner.serve import site

    site.write(options.output, options.pyodide or site.PYODIDE)
    return OK


@command("mcp", "answer an assistant over the Model Context Protocol, on standard input and output")
def _mcp(options: argparse.Namespace) -> int:
    with needed("mcp", "serve,mcp"):
        from planner.serve import assistant, programs
    assistant.run(programs.programs(COMMANDS, options.status))
    return OK


@command(
    "completion",
    "print the completion script of a shell",
    argument("shell", "the shell that reads it", choices=SHELLS),
)
def _completion(options: argparse.Namespace) -> str:
    from planner.cli.completion import script

    return script(options.shell)
