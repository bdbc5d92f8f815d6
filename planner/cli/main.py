"""The command line. Each command imports what it needs, so that a short one starts quickly."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from planner.base import files
from planner.base.display import one_line
from planner.base.errors import Fault, PlanError, nearest

OK, FAILED, BAD_INPUT = 0, 1, 2
BROKEN = 70  # a fault of the program itself; sysexits.h calls it EX_SOFTWARE

Handler = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (0 done, 1 does not hold, 2 bad input, 70 a fault of
    the program, told on one line)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return run(arguments)
    except MemoryError:
        print("out of memory", file=sys.stderr)
        return BROKEN
    except Exception as error:
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        else:
            shown = one_line(f"{type(error).__name__}: {str(error)[:300]}")
            print(f"a fault of the program: {shown} (--debug shows where)", file=sys.stderr)
        return BROKEN


def run(arguments: list[str]) -> int:
    """As ``main``, but a fault of the program itself is raised."""
    if "_ARGCOMPLETE" in os.environ:  # a shell asks
        from planner.cli.completion import offer

        offer(_parser())
    try:
        handler, options = _parsed(_with_command(arguments))
        with files.within(getattr(options, "root", None)):
            status = handler(options)
        sys.stdout.flush()
        return status
    except PlanError as error:
        for fault in error.faults:
            print(fault, file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # The reader of a pipe went away (head, a closed pager): no fault of ours.
        _discard()
        return OK
    except OSError as error:  # a full disk behind standard output
        print(f"{error.filename or 'standard output'}: {error.strerror}", file=sys.stderr)
        _discard()
        return BAD_INPUT
    except KeyboardInterrupt:
        return 130


def _parsed(words: list[str]) -> tuple[Handler, argparse.Namespace]:
    """The command and its options, which may stand anywhere between its other words."""
    if not words or words[0] not in COMMANDS:  # --help, --version, or nothing
        options = _parser().parse_args(words)
        return options.handler, options
    help_text, configure, handler = COMMANDS[words[0]]
    parser = _Parser(prog=f"plan.py {words[0]}", description=help_text)
    configure(parser)
    _common_arguments(parser)
    return handler, parser.parse_intermixed_args(words[1:])


def _discard() -> None:
    """Nothing more can be written to standard output, at exit least of all."""
    with contextlib.suppress(ValueError, OSError):  # it may be no file at all
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _with_command(arguments: list[str]) -> list[str]:
    """A plan file straight after the program's name needs no command."""
    rest: list[str] = list(arguments)
    lead: list[str] = []  # options of every command may stand before it
    while rest[:1] in (["--debug"], ["--root"]):
        count = 1 if rest[0] == "--debug" else 2
        lead, rest = lead + rest[:count], rest[count:]
    first = next((word for word in rest if not word.startswith("-") or word == "-"), None)
    if first is None or rest[0] in ("-h", "--help", "--version"):
        return rest
    if first in COMMANDS:
        return [rest[0], *lead, *rest[1:]]
    if not (first == "-" or os.path.splitext(first)[1] or os.sep in first or Path(first).exists()):
        raise PlanError(
            Fault(
                f"unknown command {first}",
                None,
                "a plan file or one of: " + ", ".join(COMMANDS),
                nearest(first, COMMANDS),
            )
        )
    return ["report", *lead, *rest]


class _Parser(argparse.ArgumentParser):
    """argparse with one-line errors in the form of our other faults."""

    def error(self, message: str) -> Any:
        raise PlanError(Fault(f"{self.prog}: {message}", None, f"see {self.prog} --help"))


class _Version(argparse.Action):
    """The versions are worked out only when asked for: they hash formulas and presets."""

    def __call__(self, *_: Any) -> None:
        from planner.base.version import full

        print(full())
        raise SystemExit(OK)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="plan.py",
        description="Plan a training run of a large language model: parameters, FLOPs, memory, "
        "time and cost, each with its formula.",
        epilog="A plan file straight after the program's name needs no command: "
        "plan.py PLAN.yaml [-o report.md] [-o report.html] [--set KEY=VALUE]",
    )
    parser.add_argument(
        "--version", action=_Version, nargs=0, help="program, formula set and preset set"
    )
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=_Parser
    )
    for name, (help_text, configure, handler) in COMMANDS.items():
        sub = commands.add_parser(name, help=help_text, description=help_text)
        configure(sub)
        _common_arguments(sub)
        sub.set_defaults(handler=handler)
    return parser


def _common_arguments(parser: argparse.ArgumentParser) -> None:
    """What every command takes."""
    parser.add_argument(
        "--root",
        metavar="DIR",
        help="read no file outside this folder, whatever documents, links and reports name",
    )
    parser.add_argument(
        "--debug", action="store_true", help="show where, should the program itself fail"
    )


def _repeated(
    parser: argparse.ArgumentParser, name: str, metavar: str, what: str, dest: str | None = None
) -> None:
    """An option that may stand several times."""
    more = f"{what}; repeatable"
    parser.add_argument(name, metavar=metavar, action="append", default=[], help=more, dest=dest)


def _outputs(parser: argparse.ArgumentParser, what: str) -> None:
    """The files that a command writes, whose endings pick what is in them."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", action="append", default=[], help=f"{what}; repeatable"
    )


def _output(parser: argparse.ArgumentParser, what: str) -> None:
    """The one file that a command writes, in the place of standard output."""
    parser.add_argument("-o", "--output", metavar="FILE", help=what)


# report ------------------------------------------------------------------------------------


def _plan_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("plan", metavar="PLAN.yaml", help="a plan document; - is standard input")
    _repeated(parser, "--set", "KEY=VALUE", "override a key of the plan")


def _report_arguments(parser: argparse.ArgumentParser) -> None:
    _plan_arguments(parser)
    _outputs(parser, "write a report; .md, .html, .json or .txt picks the format")
    parser.add_argument(
        "--format", choices=("text", "md", "html", "json"), help="print the report in this format"
    )
    parser.add_argument(
        "--print",
        choices=("resolved",),
        dest="show",
        help="print the plan with every name and default resolved",
    )
    parser.add_argument(
        "--interactive",
        action="store_true",
        help="write HTML reports with sliders that recompute every number",
    )
    parser.add_argument(
        "--require-fit",
        action="store_true",
        help="exit with 1 where the plan does not fit into memory, or not by --margin",
    )
    _finding(parser)


def _finding(parser: argparse.ArgumentParser) -> None:
    """Which layouts count, where one is found."""
    from planner.connect.exports import FORMATS

    parser.add_argument(
        "--for",
        dest="launcher",
        choices=FORMATS,
        help="of a layout that is found: only one that this framework can start, as export says it",
    )
    parser.add_argument(
        "--margin",
        metavar="p95|SHARE|0",
        help="with how much memory to spare a layout that is found fits, and what --require-fit "
        "wants: the 95th percentile of published readings (p95, the default), a share more than "
        "predicted, or what is predicted (0)",
    )


def _report(options: argparse.Namespace) -> int:
    from planner.questions import loading

    plan = loading.load(options.plan, options.set, options.margin, options.launcher)
    if options.show:
        from planner.report.resolved import resolved

        sys.stdout.write(resolved(plan))
        return OK
    from planner import report as render
    from planner.questions.constraints import MARGIN, fit_limit
    from planner.results.result import evaluate

    for path in options.output:
        render.check_output(path, options.plan)
        files.spare(path, plan.document.files())
    if options.interactive and not any(map(_is_html, options.output)):
        raise PlanError(Fault("--interactive goes with an HTML report", None, "-o FILE.html"))
    limit = fit_limit(options.margin or MARGIN, plan) if options.require_fit else None
    result = evaluate(plan)
    for path in options.output:
        render.write(result, path, options.interactive)
    if options.format or not options.output or "-" in options.output:
        sys.stdout.write(render.as_text(result, options.format or "text"))
    else:
        sys.stdout.write(render.as_text(result, "text"))
    if limit is None:
        return OK
    quantity = result.get(limit.quantity)
    known = quantity is not None and result.verdict["state"] != "open"
    return OK if known and quantity is not None and limit.holds(quantity.number) else FAILED


def _is_html(path: str) -> bool:
    return Path(path).suffix.lower() in (".html", ".htm")


# validate, explain, list -------------------------------------------------------------------


def _files(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", help="documents of any kind")
    _repeated(parser, "--set", "KEY=VALUE", "override a key of a plan")


def _validate(options: argparse.Namespace) -> int:
    from planner.questions import loading

    faults: list[Fault] = []
    for file in options.files:
        try:
            kind = loading.check(file, options.set)
            if kind == "study":
                from planner.questions.studies import study

                study.load(file, options.set)
            print(one_line(f"{file}: a valid {kind}"))
        except PlanError as error:
            faults += error.faults
    if faults:
        raise PlanError(faults)
    return OK


def _explain_arguments(parser: argparse.ArgumentParser) -> None:
    _plan_arguments(parser)
    parser.add_argument("quantity", metavar="QUANTITY", help="such as memory.activations")
    parser.add_argument("--depth", type=int, default=None, help="levels shown; all by default")


def _explain(options: argparse.Namespace) -> int:
    from planner.questions import loading
    from planner.report.explain import explain
    from planner.results.result import evaluate

    result = evaluate(loading.load(options.plan, options.set))
    sys.stdout.write(explain(result, options.quantity, options.depth))
    return OK


def _sensitivity_arguments(parser: argparse.ArgumentParser) -> None:
    _plan_arguments(parser)
    parser.add_argument("quantity", metavar="QUANTITY", help="such as time.training_days")
    parser.add_argument(
        "--top", type=int, default=None, metavar="N", help="inputs shown of each kind; all"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _sensitivity(options: argparse.Namespace) -> int:
    from planner.questions import loading, sensitivity

    if options.top is not None and options.top < 1:
        raise PlanError(Fault(f"--top {options.top} shows nothing", None, "at least 1"))
    found = sensitivity.hangs_on(loading.load(options.plan, options.set), options.quantity)
    if options.format == "json":
        sys.stdout.write(sensitivity.to_json(found, options.top))
    else:
        sys.stdout.write(sensitivity.text(found, options.top))
    return OK


LISTS = ("models", "accelerators", "clusters", "plans", "studies", "precisions", "quantities")


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=LISTS, help="all presets by default")


def _list(options: argparse.Namespace) -> int:
    from planner.cli.listing import listing

    sys.stdout.write(listing(options.what))
    return OK


# solve -------------------------------------------------------------------------------------


def _solve_arguments(parser: argparse.ArgumentParser) -> None:
    _plan_arguments(parser)
    parser.add_argument(
        "question",
        nargs="?",
        metavar="QUESTION",
        help="largest-model, largest-model-by-deadline, largest-batch, longest-context, "
        "fewest-devices, tokens-by-deadline, cheapest or compute-optimal; left out with --vary",
    )
    parser.add_argument("--vary", metavar="KEY", help="the key to vary")
    _repeated(parser, "--until", "'QUANTITY<=VALUE'", "a limit (<= or >=)")
    parser.add_argument(
        "--maximize",
        metavar="QUANTITY",
        help="the value of KEY that makes this largest within the limits",
    )
    parser.add_argument(
        "--minimize",
        metavar="QUANTITY",
        help="the value of KEY that makes this smallest within the limits",
    )
    parser.add_argument("--deadline", metavar="TIME", help="such as '30 days'")
    parser.add_argument(
        "--with-layout",
        metavar="auto",
        help="auto searches for the best layout at each value, own keeps the plan's; by default "
        "auto for largest-model and where the plan leaves its layout open",
    )
    parser.add_argument(
        "--margin",
        metavar="p95|SHARE|0",
        help="how surely an answer fits: p95, the default, keeps room for the 95th percentile of "
        "published readings; a share such as 5%% so much more than predicted; 0 nothing",
    )
    parser.add_argument(
        "--family",
        metavar="MODEL",
        help="the model whose shape largest-model scales; the plan's own by default",
    )
    parser.add_argument(
        "--accelerators",
        metavar="NAME[=PRICE],…",
        help="what cheapest chooses from; by default all that ship with a price",
    )
    parser.add_argument(
        "--budget",
        metavar="AMOUNT",
        help="of compute-optimal: such as '1e24 FLOP', '2M USD' or '30 days'; left out, what the "
        "plan spends",
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")


def _solve(options: argparse.Namespace) -> int:
    from planner.questions import loading
    from planner.questions.solve import questions

    if options.plan in questions.NAMES and not os.path.exists(options.plan):
        known = f"solve PLAN {options.plan}"
        raise PlanError(Fault(f"{options.plan} is a question, not a plan", None, known))
    plan = loading.load(options.plan, options.set)
    if options.question == "compute-optimal":
        return _spend(plan, options)
    if options.budget is not None:
        raise PlanError(Fault("--budget is for one question", None, "compute-optimal"))
    answer = questions.ask(
        plan,
        options.question,
        vary=options.vary,
        until=options.until,
        deadline=options.deadline,
        maximize=options.maximize,
        minimize=options.minimize,
        family=options.family,
        accelerators=options.accelerators,
        with_layout=options.with_layout,
        margin=options.margin,
    )
    if options.format == "json":
        sys.stdout.write(questions.to_json(answer))
    else:
        sys.stdout.write(questions.text(answer))
    return OK if answer.holds else FAILED


def _spend(plan: Any, options: argparse.Namespace) -> int:
    from planner.questions.solve import budgets

    others = (
        "vary",
        "until",
        "maximize",
        "minimize",
        "deadline",
        "with_layout",
        "family",
        "margin",
    )
    if any(getattr(options, name) for name in (*others, "accelerators")):
        names = ", ".join(f"--{name.replace('_', '-')}" for name in others)
        raise PlanError(Fault(f"compute-optimal takes no {names} or --accelerators", None))
    answer = budgets.ask(plan, options.budget)
    writer = budgets.to_json if options.format == "json" else budgets.text
    sys.stdout.write(writer(answer))
    return OK


# search ------------------------------------------------------------------------------------


def _search_arguments(parser: argparse.ArgumentParser) -> None:
    _plan_arguments(parser)
    parser.add_argument("--top", type=int, default=10, metavar="N", help="layouts shown (10)")
    parser.add_argument(
        "--by",
        default="time.step_seconds",
        metavar="QUANTITY",
        help="what to make small: time.step_seconds, cost.total, memory.process, …",
    )
    _repeated(
        parser,
        "--fix",
        "KEY[=VALUE]",
        "a key of the layout that keeps a value, the plan's unless another is given",
    )
    _repeated(
        parser,
        "--vary",
        "KEY[=V1,V2]",
        "values that a key may have, of the layout or another such as training.precision; "
        "all of them where none are given",
    )
    _repeated(
        parser,
        "--limit",
        "'QUANTITY<=VALUE'",
        "a limit besides memory that a layout has to keep (<= or >=)",
    )
    _finding(parser)
    parser.add_argument(
        "--full",
        action="store_true",
        help="every valid layout, also those that lose against another in every respect",
    )
    parser.add_argument(
        "--front",
        action="store_true",
        help="list the layouts that no other beats both in memory and in what is made small",
    )
    parser.add_argument("--format", choices=("text", "md", "html", "json", "csv"), default="text")
    _outputs(
        parser,
        "write what was found; .html (with a picture of the space), .md, .json, .csv or .txt "
        "picks the format",
    )


def _search(options: argparse.Namespace) -> int:
    from planner.base.progress import progress
    from planner.questions import loading
    from planner.questions.constraints import MARGIN, parse_limit
    from planner.questions.search import choices
    from planner.questions.search.engine import POINTS, search
    from planner.report import searched

    if options.top < 1:
        raise PlanError(Fault(f"--top {options.top} shows nothing", None, "at least 1"))
    plan = loading.load(options.plan, options.set)
    kinds = {path: searched.kind_of(path) for path in options.output}
    for path in options.output:
        files.spare(path, plan.document.files())
    drawn = searched.DRAWN & {options.format, *kinds.values()}
    fixed = choices.fixed(plan, options.fix)
    found = search(
        plan,
        options.top,
        options.by,
        fixed,
        progress("layouts"),
        limits=[parse_limit(limit) for limit in options.limit],
        vary=choices.varied(options.vary, fixed),
        full=options.full,
        choices=True,
        points=POINTS if drawn else 0,
        margin=options.margin or MARGIN,
        launcher=options.launcher,
    )
    for path, kind in kinds.items():
        files.write_text(path, searched.WRITERS[kind](found, options.front))
    sys.stdout.write(searched.WRITERS[options.format](found, options.front))
    return OK if found.best else FAILED


# sweep -------------------------------------------------------------------------------------


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", metavar="STUDY.yaml", help="a study document; - is standard input")
    _outputs(parser, "the table (.csv, .jsonl, .parquet), a comparison (.html, .md)")
    parser.add_argument(
        "--workers", metavar="N", type=int, help="processes on this machine; all cores by default"
    )
    parser.add_argument(
        "--on",
        metavar="ADDRESS",
        help="a cluster in the place of this machine: dask://HOST:PORT or ray://HOST:PORT",
    )
    parser.add_argument(
        "--restart",
        action="store_true",
        help="begin afresh where an earlier sweep was stopped; without it, that one goes on",
    )
    # Of a study, whose keys are others than a plan's.
    _repeated(parser, "--set", "KEY=VALUE", "override a key of the study", dest="changes")


def _sweep(options: argparse.Namespace) -> int:
    from planner.cli.sweep import sweep

    return OK if sweep(options) else FAILED


# check, diff, import -----------------------------------------------------------------------


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        metavar="PATH",
        nargs="*",
        help="reports or folders, searched through; the current folder by default. "
        "None found below what is named is an error (exit 2)",
    )
    _repeated(
        parser, "--plans", "PATH", "plans or a folder of plans, each of which must have a report"
    )


def _check(options: argparse.Namespace) -> int:
    from planner.review import check

    findings = check.check(list(map(Path, options.paths)), list(map(Path, options.plans)))
    sys.stdout.write(check.text(findings))
    return FAILED if any(finding.drift for finding in findings) else OK


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="A", help="a plan, a result (.json) or REVISION:PATH")
    parser.add_argument("new", metavar="B")
    parser.add_argument("--format", choices=("text", "md"), default="text")


def _diff(options: argparse.Namespace) -> int:
    from planner.review import diff

    rows = diff.diff(options.old, options.new)
    sys.stdout.write(diff.markdown(rows) if options.format == "md" else diff.text(rows))
    return OK


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("config", metavar="CONFIG", help="config.json, or a file of arguments")
    parser.add_argument(
        "--from", dest="source", choices=("huggingface", "megatron"), default="huggingface"
    )
    _output(parser, "the model document to write")


def _import(options: argparse.Namespace) -> int:
    from planner.connect import imports

    _put(imports.document(options.config, options.source), options.output, [options.config])
    return OK


# export, compare, completion -----------------------------------------------------------------


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    from planner.connect.exports import FORMATS

    _plan_arguments(parser)
    parser.add_argument("--to", required=True, choices=FORMATS, help="the framework")
    _output(parser, "the file to write")


def _export(options: argparse.Namespace) -> int:
    from planner.connect import exports
    from planner.questions import loading

    plan = loading.load(options.plan, options.set)
    made = exports.config(plan, options.to)
    _put(made.text, options.output, plan.document.files())
    for unsaid in made.unsaid:
        print(f"{options.to}: {unsaid}", file=sys.stderr)
    return OK


def _compare_arguments(parser: argparse.ArgumentParser) -> None:
    _plan_arguments(parser)
    parser.add_argument(
        "--log",
        metavar="FILE",
        required=True,
        help="a log of Megatron-LM or torchtitan, CSV or JSON",
    )
    parser.add_argument(
        "--warm-up",
        metavar="N",
        type=int,
        help="records left out at the start; 5, or half of a shorter log",
    )
    parser.add_argument(
        "--format", choices=("text", "md", "json"), help="the table alone in this format"
    )
    _outputs(
        parser,
        "write the plan's report with the comparison as a section; .md, .html or .json picks "
        "the format, .txt (and any ending with --format) is the table alone",
    )


def _compare(options: argparse.Namespace) -> int:
    from planner import report as render
    from planner.connect import compare
    from planner.questions import loading

    plan = loading.load(options.plan, options.set)
    inputs = [options.log, *plan.document.files()]
    for path in options.output:
        if options.format is None:
            render.check_output(path, options.plan)
        if path != "-":
            files.spare(path, inputs)
    found = compare.compare(plan, options.log, options.warm_up)
    writers = {"text": compare.text, "md": compare.markdown, "json": compare.data}
    table = writers[options.format or "text"](found)
    for path in options.output:
        if path == "-":
            continue
        if options.format is not None or render.check_output(path, options.plan) == "text":
            files.write_text(path, table)
        else:
            render.write(found.report(), path)
    if not options.output or "-" in options.output or options.format is None:
        sys.stdout.write(table)
    return OK


def _measure_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE.yaml", help="the accelerator document to write"
    )
    parser.add_argument("--device", choices=("cuda", "cpu", "mps"), help="the best by default")
    parser.add_argument("--name", help="of the accelerator; the device's own by default")
    parser.add_argument(
        "--seconds", metavar="N", type=float, help="for all benchmarks (40), or all steps (60)"
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=int,
        help="processes of the collectives: GPUs (all by default), or on a CPU any number",
    )
    parser.add_argument(
        "--extends",
        metavar="NAME",
        help="a shipped accelerator whose datasheet holds; only shares of it are written",
    )
    parser.add_argument(
        "--step",
        metavar="PLAN.yaml",
        help="run training steps of this plan's model, scaled down, beside what is predicted",
    )
    _repeated(parser, "--set", "KEY=VALUE", "with --step: override a key of the plan")
    parser.add_argument(
        "--accelerator",
        metavar="FILE",
        help="with --step: predict for this document, such as one of -o, not the plan's own",
    )
    parser.add_argument(
        "--layers", metavar="N", type=int, help="with --step: layers that run; as many as fit"
    )
    parser.add_argument(
        "--steps", metavar="N", type=int, default=5, help="with --step: steps that are timed (5)"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text", help="with --step")


def _measure(options: argparse.Namespace) -> int:
    from planner.cli import measure as command

    return command.run(options, _put)


def _completion_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def _completion(options: argparse.Namespace) -> int:
    from planner.cli.completion import script

    sys.stdout.write(script(options.shell))
    return OK


def _put(text: str, output: str | None, inputs: Sequence[str]) -> None:
    """To a file, none of the inputs, or to standard output."""

    if output in (None, "-"):
        sys.stdout.write(text)
    else:
        files.spare(output, inputs)
        files.write_text(output, text)


COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Handler]] = {
    "report": ("evaluate a plan, print a summary, write reports", _report_arguments, _report),
    "validate": ("check documents against schema and cross-field rules", _files, _validate),
    "explain": ("print the derivation of one quantity", _explain_arguments, _explain),
    "sensitivity": (
        "say how a quantity moves with every input",
        _sensitivity_arguments,
        _sensitivity,
    ),
    "solve": ("answer an inverse question", _solve_arguments, _solve),
    "search": ("rank the layouts of a plan", _search_arguments, _search),
    "sweep": ("evaluate a grid of plans into a table", _sweep_arguments, _sweep),
    "check": ("re-evaluate committed reports and report drift", _check_arguments, _check),
    "diff": ("compare two plans or results", _diff_arguments, _diff),
    "import": ("turn a published configuration into a model document", _import_arguments, _import),
    "export": ("write the launch configuration of a framework", _export_arguments, _export),
    "compare": ("put a plan beside the log of a run", _compare_arguments, _compare),
    "measure": (
        "measure this machine, or a training step on it beside its plan",
        _measure_arguments,
        _measure,
    ),
    "list": ("list what ships as presets", _list_arguments, _list),
    "completion": ("print the completion script of a shell", _completion_arguments, _completion),
}
