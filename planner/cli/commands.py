"""The commands: what each takes, and what it does.

Each imports what it needs, so that a short one starts quickly.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

from planner.base import files, numbers, resources
from planner.base.display import as_json, one_line
from planner.base.errors import Fault, Place, PlanError, collect_faults, require_extra
from planner.cli.completion import SHELLS, build_script
from planner.connect.exports import FORMATS, LAUNCHED, READ_TRAINERS, SCHEDULERS, SCRIPTED, TABLED

if TYPE_CHECKING:
    from planner.plans.document import Plan

OK, FAILED, BAD_INPUT = 0, 1, 2
BROKEN = 70  # an internal error; sysexits.h calls it EX_SOFTWARE
LITTLE = 0.02  # share of the memory of a device that is little to leave free

OFFERS = 8  # kinds of device that the answer to a line names
#: The names of an argument, and its other options for argparse.
Argument = tuple[tuple[str, ...], dict[str, Any]]
#: Returns the exit status, or what is printed where all went well.
Handler = Callable[[argparse.Namespace], int | str]


class Command(NamedTuple):
    """A command of the program.

    Attributes:
        help: one sentence.
        arguments: in the order of ``--help``.
        handler: runs it.
        examples: that help prints, without the program's name.
    """

    help: str
    arguments: tuple[Argument, ...]
    handler: Handler
    examples: tuple[str, ...] = ()

    def add_args(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's arguments to a parser."""
        if self.examples:
            parser.formatter_class = argparse.RawDescriptionHelpFormatter
            parser.epilog = "\n".join(["examples:", *(f"  plan.py {e}" for e in self.examples)])
        for names, how in (*self.arguments, *EVERYWHERE):
            parser.add_argument(*names, **how)
        parser.set_defaults(handler=self.handler)


#: What commands.yaml says: the arguments that commands share, and the commands.
ROWS = resources.load_beside(__file__)
#: The lists and the types that its arguments name.
CHOICES = {
    "frameworks": FORMATS,
    "written": (*FORMATS, *SCRIPTED),
    "schedulers": SCHEDULERS,
    "shells": SHELLS,
    "sources": ("huggingface", *LAUNCHED, *READ_TRAINERS, *TABLED, "eleuther"),
}
TYPES = {"int": int, "float": float}


def _list_args(rows: Iterable[str | dict[str, Any]]) -> Iterator[Argument]:
    """Yield the arguments of some rows; a word stands for arguments that commands share."""
    for row in rows:
        if isinstance(row, str):
            yield from _list_args(ROWS["shared"][row])
        elif "formats" in row:
            names = row["formats"]
            yield from _list_args(
                [{"--format": "output format", "choices": names, "default": names[0]}]
            )
        else:
            yield _make_arg(row)


def _make_arg(row: dict[str, Any]) -> Argument:
    """Make an argument of its row, whose first key has its names and what stands for its value."""
    (said, help), *options = row.items()
    how, words = dict(options), said.split()
    flags = [word.rstrip(",") for word in words if word.startswith("-")]
    names = tuple(flags or words[:1])
    if flags == words and "choices" not in how:
        return names, {"action": "store_true", "help": help}
    if how.pop("repeatable", False):
        help, how = f"{help}; repeatable", {"action": "append", "default": [], **how}
    if "type" in how:
        how["type"] = TYPES[how["type"]]
    if isinstance(how.get("choices"), str):
        how["choices"] = CHOICES[how["choices"]]
    return names, {"metavar": " ".join(words[len(names) :]) or None, "help": help, **how}


#: Options of every command.
EVERYWHERE = tuple(_list_args(["everywhere"]))


def report_crash(error: BaseException | None, debug: bool) -> int:
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


def format_faults(faults: Sequence[Fault], how: str) -> str:
    """Format faults of documents for another program."""
    from planner.base import fault_formats

    return fault_formats.WRITERS[how](fault_formats.list_fault_rows(faults), fault_formats.RULES)


def _load_plan(options: argparse.Namespace, **how: Any) -> Plan:
    """Load the plan of the options, with its questions and requirements checked; tell on standard
    error what is to be told of a launch file in its place.

    Args:
        **how: further arguments of ``loading.load``.
    """
    from planner.questions import loading
    from planner.questions.plan_questions import check_questions

    plan = check_questions(loading.load(options.plan, options.set, **how))
    for line in plan.document.remarks:
        print(one_line(f"{options.plan}: {line}"), file=sys.stderr)
    return plan


def _check_outputs(
    paths: Sequence[str], formats: Mapping[str, str], what: str, inputs: Sequence[str] = ()
) -> dict[str, str]:
    """Find the format of each output file, and refuse to overwrite inputs.

    Args:
        paths: as they were named; ``-``, standard output, is left out.
        formats: formats by the ending of a name.
        what: the output, as faults name it.
        inputs: files that are read.

    Returns:
        The format of each file.

    Raises:
        PlanError: an ending has no format, or an output is an input.
    """
    kinds = {path: files.format_of(path, formats, what) for path in paths if path != "-"}
    for path in kinds:
        files.refuse_overwrite(path, inputs)
    return kinds


def _check_top(top: int | None) -> None:
    """Check that a search prints a layout.

    Raises:
        PlanError: ``--top`` is below 1.
    """
    if top is not None and top < 1:
        raise PlanError(f"--top {top} shows nothing", None, "at least 1")


def _run_report(options: argparse.Namespace) -> int | str:
    """Print and write the report of a plan, or print the sizes of a model.

    Exit with status 1 where the plan misses a requirement, or does not fit and has to.

    Raises:
        PlanError: bad input, or options that do not go together.
    """
    from planner.questions import loading

    try:
        plan = _load_plan(options, margin=options.margin, launcher=options.launcher)
    except loading.OtherKind as error:
        if error.kind not in ("model", loading.CONFIGURATION):
            raise
        return _report_model(options)
    if options.show:
        from planner.report.resolved import format_resolved

        return format_resolved(plan)
    from planner import report
    from planner.questions.constraints import fit_limit, margin_of
    from planner.questions.plan_questions import evaluate, judge_limit

    kinds = _check_outputs(options.output, report.SUFFIXES, "report", plan.document.list_files())
    if options.only and options.format != "json":
        raise PlanError("--only needs a result in JSON", None, "--format json")
    limit = fit_limit(margin_of(plan, options.margin), plan) if options.require_fit else None
    result = evaluate(plan)
    told = _write_reports(result, kinds)
    sys.stdout.write(report.as_text(result, options.format or "text", options.only))
    sys.stdout.write(told if options.format in (None, "text") else "")
    missed = _print_missed(result.questions.missed)
    fit = limit and judge_limit(result, "--require-fit", Place(options.plan), limit, fits=True)
    return FAILED if missed or (fit and not fit.holds) else OK


def _write_reports(result: Any, paths: Iterable[str]) -> str:
    """Write the report of a result to each file; return what is said of it in text, if anything."""
    from planner import report

    for path in paths:
        report.write_report(result, path)
    return f"\nReport written to {', '.join(paths)}.\n" if paths else ""


def _report_model(options: argparse.Namespace) -> str:
    """Return the report of a model in place of a plan."""
    from planner.report import model

    whole = ("output", "only", "show", "require_fit", "margin", "launcher")
    asked = [name for name in whole if getattr(options, name)]
    if asked or options.format not in (None, "text", "json"):
        told = "such as -o, --only and --format md need a plan; a model alone has its sizes"
        raise PlanError(f"options {told}", None, "--set KEY=VALUE, --format text or json")
    found = model.measure_model(options.plan, options.set)
    return (model.encode_sizes if options.format == "json" else model.format_sizes)(found)


def _print_missed(missed: Sequence[Fault]) -> bool:
    """Print the requirements that are missed, a line each; return whether there are any."""
    for fault in missed:
        print(fault, file=sys.stderr)
    return bool(missed)


def _run_quick(options: argparse.Namespace) -> int | str:
    """Answer a line of text, and write its plan or report; two alternatives are compared."""
    from planner import report
    from planner.documents import quick, schema_files
    from planner.documents.quick.splits import correct_spelling
    from planner.questions import loading
    from planner.questions.plan_questions import check_questions, evaluate
    from planner.questions.solve import answers
    from planner.results.inputs import list_reasons

    text = " ".join(options.text)
    if len(texts := quick.split_alternatives(text)) > 1:
        return _compare_texts(texts)
    document = quick.parse_quick(text)
    said, plans = quick.write_quick(text, document), {".yaml": "plan", ".yml": "plan"}
    kinds = _check_outputs(options.output, {**plans, **report.SUFFIXES}, "plan or report")
    documents = [path for path, kind in kinds.items() if kind == "plan"]
    for path in documents:
        files.write_text(path, f"{schema_files.make_schema_line('plan', path)}\n{said}")
        del kinds[path]
    result = evaluate(check_questions(loading.load(document)))
    told = _write_reports(result, kinds)
    if options.format != "text":
        sys.stdout.write(report.as_text(result, options.format))
        return FAILED if _print_missed(result.questions.missed) else OK
    asked = result.questions
    lead = [f"MISSED  {one.sentence}" for one in asked.requirements if not one.holds]
    lead += [f"ANSWER  {one.name}: {one.sentence}" for one in asked.answers]
    result = _find_answer(result)
    if {one.name for one in asked.answers} <= {"tokens-by-deadline"}:
        names = quick.list_asked(text, result.plan.reinforced)
        lead += [_format_asked(name, [result]) for name in _add_hours(names, [result])]
    corrected, (ignored, *without) = correct_spelling(text)[1], quick.list_ignored(text)
    notes = document.plain().get("notes")
    lead = [*([f"Note: {notes}"] if notes else []), *_list_left_out(*without), *lead]
    below = quick.list_assumptions(document, result.plan.get, list_reasons(result.plan))
    cheapest = [one.found for one in asked.answers if one.name == "cheapest"]
    solved = {one.found.domain.key for one in asked.answers if hasattr(one.found, "domain")}
    solved |= {"cluster.accelerator", "cluster.price"} if cheapest else set()
    below = [one for one in below if one.partition(" ")[0] not in solved]  # an answer is none
    below = _list_assumed("Assumed", below)
    below += [f"Spelling: {', '.join(corrected)}"] if corrected else []
    below += [f"Ignored: {', '.join(ignored)}"] if ignored else []
    offers = "\n".join(answers.format_offers(cheapest[0], OFFERS)) if cheapest else ""
    planned = all(hasattr(one.found, "holds") for one in asked.answers)  # not a size of model alone
    verdict, _, body = (report.as_text(result, options.format) if planned else "").partition("\n\n")
    where = f"written to {', '.join(documents)}" if documents else "-o plan.yaml writes it"
    said = f"# What was understood; {where}.\n{said}"
    parts = [_wrap_lead(lead), offers, verdict, _wrap_lead(below), body.rstrip(), said]
    sys.stdout.write("\n\n".join(part for part in parts if part) + told)
    return FAILED if _print_missed(asked.missed) else OK


def _find_answer(result: Any) -> Any:
    """Return the result of the plan that answers, not of where the search started; why it has what
    the start leaves open is told of it too."""
    from planner.documents.source import SEARCHED
    from planner.results.result import evaluate_plan

    asked = [one.found for one in result.questions.answers]
    found = [one for one in asked if getattr(one, "holds", None)]
    if not found:
        return result
    start, made = result.plan, found[-1].holds.plan
    if start.searched is None or "layouts" not in found[-1].extra:
        return evaluate_plan(made)
    layout = f"found: the best of those tried at the answer{SEARCHED}"
    why = {k: layout if said.endswith(SEARCHED) else said for k, said in start.derived.items()}
    made = replace(made, derived={**why, **made.derived}, searched=start.searched)
    return evaluate_plan(made)


def _wrap_lead(lines: Sequence[str]) -> str:
    """Fill lines to the width of a terminal, each with its further lines indented."""
    return "\n".join(
        fill(line, 80, subsequent_indent=" " * (len(line) - len(line.lstrip()) + 2))
        for line in map(one_line, lines)
    )


def _list_assumed(heading: str, values: Sequence[str]) -> list[str]:
    """List values that are assumed below a heading, a line each, if there are any."""
    return [f"{heading}:", *(f"  {each}" for each in values)] if values else []


def _list_left_out(words: Collection[str], unused: Collection[str]) -> list[str]:
    """List the lines that name words of a text that are not understood, and numbers that decide
    nothing, if there are any."""
    left, numbers = (", ".join(f"'{one}'" for one in each) for each in (words, unused))
    hint = "If one of them matters, write it as KEY=VALUE (docs/quick.md)."
    lines = [f"Not understood, and left out: {left}. {hint}"] if words else []
    return lines + ([f"Not used, changes nothing that is computed: {numbers}."] if unused else [])


def _add_hours(names: Sequence[str], results: Sequence[Any]) -> list[str]:
    """Add the GPU hours to a cost that is asked for and that one of the results does not have."""
    unpriced = any(each["cost.total"].value is None for each in results)
    return [*names, *(["time.device_hours"] if "cost.total" in names and unpriced else [])]


def _format_asked(name: str, results: Sequence[Any], sides: Sequence[str] = ("",)) -> str:
    """Format what a line asks for, a quantity or ``verdict``, of one plan or of several, each
    with the words of its side of a comparison."""
    from planner.documents.quick.runs import name_card
    from planner.report.answer import answer_of
    from planner.results.verdict import VERDICTS, is_host_short

    if name == "card":
        needed = [one["memory.process"].text() for one in results]
        return "\n".join(f"ANSWER  {name_card(one)}" for one in needed)
    words = [VERDICTS[one.verdict["state"]].says[0] for one in results]
    says = " and ".join(dict.fromkeys(words))
    quantity = "memory.process" if name == "verdict" else name
    capacities = [one["memory.capacity"].text() for one in results if name == "verdict"]
    several = len({*capacities}) > 1
    asked = [answer_of(one).needs[0] if name == "verdict" else one[name] for one in results]
    values = [one.text() for one in asked]
    if several:
        values = [f"{one} of {most}" for one, most in zip(values, capacities, strict=True)]
    if name == "verdict" and len({*words}) > 1:  # each with its own
        values, says = [", ".join(each) for each in zip(words, values, strict=True)], "verdict"
    shown = " and ".join(
        f"{of}{': ' if of else ''}{one}" for of, one in zip(sides, values, strict=True)
    )
    each = " per device" if quantity.startswith("memory.") else ""
    if name in ("energy.total", "energy.cost"):
        each = f" ({results[0]['energy.computers'].title}; {results[0]['energy.total'].title})"
    if name == "verdict" and all(is_host_short(one) for one in results):
        there = numbers.text(results[0].plan.get("cluster.node_memory"), "bytes")
        needed = results[0]["memory.host"].text()
        return f"ANSWER  {says}: {needed} of {there} of host memory per node"
    if name == "verdict":
        room = _describe_room(results[0]) if len(results) == 1 else ""
        return f"ANSWER  {says}: {shown}{'' if several else f' of {capacities[0]}'}{each}{room}"
    return f"ANSWER  {name}: {shown}{each}; the plan {says}"


def _describe_room(result: Any) -> str:
    """Describe what a plan leaves at worst, or the nearest change that would fit."""
    from planner.report.answer import answer_of

    advice, least = answer_of(result).advice, result["memory.headroom_p95"]
    if result.verdict["state"] == "no":
        nearest = advice[0][:1] if advice else []
        return "".join(f"; {row.changes} would fit: {row.memory} GiB" for row in nearest)
    _, also, why = answer_of(result).needs
    if also.base == "memory.process":
        return f"; {also.text()} {why}"
    if least.value is None:
        return ""
    little = least.value < LITTLE * result["memory.capacity"].value
    return f"; {'only ' if little else ''}{least.text()} free at worst"


def _compare_texts(texts: Sequence[str]) -> str:
    """Return what lines of text differ in from the first, each with what it assumes."""
    from planner.documents import quick
    from planner.questions import loading
    from planner.questions.plan_questions import evaluate
    from planner.results.inputs import list_reasons
    from planner.review import diff, writing

    answers, assumed, results, reports = [], [], [], []
    words, left = [one.split() for one in texts], [quick.list_ignored(one)[1:] for one in texts]
    sides = [
        " ".join(one for one in of if not all(one in each for each in words)).strip("?!,;: ")
        for of in words
    ]
    for document, side in zip(quick.parse_compared(texts), sides, strict=True):
        result = evaluate(loading.load(document))
        told = quick.list_assumptions(document, result.plan.get, list_reasons(result.plan))
        notes = document.plain().get("notes")
        assumed.append([*([f"note: {notes}"] if notes else []), *told])
        solved = result.questions.answers
        answers += [f"ANSWER  {side}: {one.name}: {one.sentence}" for one in solved]
        results.append(_find_answer(result))
        reports.append(results[-1].to_json())
    found = [
        writing.format_diff(diff.diff_results(texts[0], text, reports[0], report))
        for text, report in zip(texts[1:], reports[1:], strict=True)
    ]
    unread = (dict.fromkeys(chain(*each)) for each in zip(*left, strict=True))
    both = [one for one in assumed[0] if all(one in each for each in assumed)]
    lead = [*_list_left_out(*unread), *_list_assumed("Assumed for each", both)]
    for side, told in zip(sides, assumed, strict=True):
        lead += _list_assumed(f"Assumed for {side}", [one for one in told if one not in both])
    timed = all(one.plan.get("training.tokens") for one in results)
    usual = [] if answers else ["time.training_days" if timed else "verdict"]
    asked = quick.list_asked(texts[0], all(one.plan.reinforced for one in results)) or usual
    answers += [_format_asked(name, results, sides) for name in _add_hours(asked, results)]
    return "\n".join([*answers, _wrap_lead(lead), "", *found])


def _read_study(file: str | Path, overrides: Sequence[str]) -> Any:
    """Read a study; its modules are imported for files that are one."""
    from planner.questions.studies import study  # a heavy module

    return study.read_study(file, overrides)


def _run_validate(options: argparse.Namespace) -> int:
    """Validate every document, and report all faults at the end.

    Raises:
        PlanError: a document is wrong, or a folder has no plans.
    """
    from planner.documents import references
    from planner.questions import loading
    from planner.questions.plan_questions import check_questions

    faults: list[Fault] = []
    valid = 0
    for given in options.files:
        names = [given]
        if os.path.isdir(given):
            below = files.walk_files([Path(given)], references.ENDINGS)
            names = [str(file) for file, _ in below if references.is_plan_like(file)]
            if not names:
                known = "documents with model, cluster and training"
                faults.append(Fault("no plans found", Place(given), known))
        for name in names:
            with collect_faults(faults):
                kind = loading.check_file(name, options.set, check_questions, _read_study)
                valid += 1
                if options.faults == "text":
                    print(one_line(f"{name}: a valid {kind}"))
    if faults:
        raise PlanError(faults)
    if options.faults != "text":
        sys.stdout.write(format_faults([], options.faults))
    if options.faults == "github":  # no name of a file stands in a line of the log
        print(f"valid documents: {valid}")
    return OK


def _run_explain(options: argparse.Namespace) -> str:
    """Return the derivation of a quantity.

    Raises:
        PlanError: an invalid depth, or no such quantity.
    """
    from planner.report.explain import DEPTH, explain, explain_as_data
    from planner.results.result import evaluate_plan

    asked, text = " ".join(options.quantity), options.depth
    if text is not None and text != "all" and not re.fullmatch("-?[0-9]{1,9}", text):
        raise PlanError(f"--depth {text}", None, "a number of levels, or all")
    depth = DEPTH if text is None else None if text == "all" else int(text)
    result = evaluate_plan(_load_plan(options))
    if options.format == "json":
        return as_json(explain_as_data(result, asked, depth, options.symbolic))
    return explain(result, asked, depth, options.symbolic)


def _run_sensitivity(options: argparse.Namespace) -> str:
    """Return the sensitivity of a quantity."""
    from planner.questions import sensitivity

    _check_top(options.top)
    found = sensitivity.find_sensitivity(_load_plan(options), options.quantity)
    forms = {"text": sensitivity.format_sensitivity, "json": sensitivity.encode_sensitivity}
    return forms[options.format](found, options.top)


def _run_solve(options: argparse.Namespace) -> int | str:
    """Answer an inverse question, and write the answer into a plan on request; exit with status 1
    where no value meets the limits.

    Raises:
        PlanError: bad input, or options that do not go together.
    """
    from planner.questions.solve import budgets, questions

    if options.plan in questions.NAMES and not os.path.exists(options.plan):
        known = f"solve PLAN {options.plan}"
        raise PlanError(f"{options.plan} is a question, not a plan", None, known)
    plan = _load_plan(options)
    names = "vary until maximize minimize deadline with_layout family margin accelerators budget"
    how = {name: getattr(options, name) for name in (*names.split(), "unbounded")}
    asked = questions.prepare(plan, options.question, **how)
    if options.write or options.output:
        from planner.questions import write_back

        if options.question == budgets.QUESTION or (options.write and options.output):
            said = "--write or -o FILE, for a question whose answer is a value of the plan's keys"
            raise PlanError("--write and -o do not apply", None, said)
        write_back.find_target(options.plan, options.output)
    answer = asked()
    writers: Any = budgets if isinstance(answer, budgets.Spending) else questions
    sys.stdout.write((writers.to_json if options.format == "json" else writers.text)(answer))
    if isinstance(answer, budgets.Spending):
        return OK
    if answer.holds and (options.write or options.output):
        changes = write_back.list_answer_keys(plan, answer)
        sys.stderr.write(write_back.write_values(options.plan, changes, options.output))
    return OK if answer.holds else FAILED


def _run_search(options: argparse.Namespace) -> int:
    """Rank the layouts of a plan, and write one into a plan on request; exit with status 1 where
    none fits.

    Raises:
        PlanError: bad input, or options that do not go together.
    """
    from planner.questions.constraints import parse_limit
    from planner.questions.search import choices
    from planner.questions.search.engine import POINTS, search
    from planner.report import searched

    _check_top(options.top)
    plan = _load_plan(options, searched=True)
    inputs = plan.document.list_files()
    kinds = _check_outputs(options.output, searched.SUFFIXES, "list of layouts", inputs)
    if options.rank is not None and not options.apply:
        raise PlanError("--rank needs --apply", None, "--apply PLAN.yaml")
    if options.apply:
        from planner.questions import write_back

        write_back.find_target(options.apply)
    drawn = searched.DRAWN & {options.format, *kinds.values()}
    fixed = choices.parse_fixed(plan, options.fix)
    found = search(
        plan,
        options.top,
        options.by,
        fixed,
        limits=[parse_limit(limit, plan) for limit in options.limit],
        vary=choices.parse_varied(options.vary, fixed),
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
        changes = write_back.list_ranked_keys(found, options.rank)
        sys.stderr.write(write_back.write_values(options.apply, changes))
    return OK if found.best else FAILED


def _run_advise(options: argparse.Namespace) -> str:
    """Return the path from a plan to what experts do, and write the plan with its first changes on
    request.

    Raises:
        PlanError: bad input, or options that do not go together.
    """
    from planner.questions import write_back
    from planner.questions.expert_path import find_expert_path
    from planner.report import expert_path

    if (options.apply is None) is not (options.output is None):
        raise PlanError("--apply N and -o FILE go together")
    plan = _load_plan(options)
    if options.output is not None:
        write_back.find_target(options.plan, options.output)
    path = find_expert_path(plan)
    if options.apply is not None:
        changes = write_back.list_path_keys(path, options.apply)
        sys.stderr.write(write_back.write_values(options.plan, changes, options.output))
    forms = {"md": expert_path.render_expert_path, "json": expert_path.encode_expert_path}
    return forms.get(options.format, expert_path.format_expert_path)(path)


def _run_sweep(options: argparse.Namespace) -> int:
    """Evaluate a study into a table and comparisons; exit with status 1 where no point is valid and
    within the limits.

    Raises:
        PlanError: bad input, no output, or two tables.
    """
    from planner.questions.studies import COMPARISONS, TABLES
    from planner.questions.studies.engines import choose_engine

    if not options.output:
        raise PlanError("a sweep needs an output", None, "-o FILE.csv, .parquet or .html")
    formats = {**TABLES, **COMPARISONS}
    kinds = _check_outputs(options.output, formats, "table and no comparison")
    tables = [path for path, kind in kinds.items() if kind in TABLES.values()]
    reports = [path for path in kinds if path not in tables]
    if len(tables) > 1:
        raise PlanError(f"two tables: {tables[0]} and {tables[1]}", None, "one of them")
    choose_engine(options.workers, options.on)  # reports their faults before the study's
    # Heavy modules.
    from planner.questions.studies.run import sweep
    from planner.questions.studies.study import read_study
    from planner.report.study import format_study, write_study

    study = read_study(options.study, options.changes)
    for path in reports:
        files.refuse_overwrite(path, study.files)
    table = tables[0] if tables else None
    with _hide_logs(options.debug):
        outcome = sweep(study, table, options.workers, options.on, options.restart)
    for path in reports:
        write_study(outcome, path)
    sys.stdout.write(format_study(outcome))
    points = outcome.summary.points - outcome.summary.invalid - outcome.summary.outside
    return OK if points > 0 else FAILED


@contextlib.contextmanager
def _hide_logs(debug: bool) -> Iterator[None]:
    """Hide the logs of threads that work for this process (a pool's, a cluster library's). An error
    that ends one of them ends the program, on one line: whatever else waits for such a thread would
    wait forever."""
    import logging
    import threading

    def report_end(thread: threading.ExceptHookArgs) -> None:
        """Report the error of a thread and end the program."""
        report_crash(thread.exc_value, debug)
        sys.stderr.flush()
        os._exit(BROKEN)

    hook, threading.excepthook = threading.excepthook, report_end
    level = logging.root.manager.disable
    logging.disable(level if debug else logging.CRITICAL)
    try:
        yield
    finally:
        threading.excepthook = hook
        logging.disable(level)


def _run_check(options: argparse.Namespace) -> int:
    """Evaluate the plans of reports again; exit with status 1 where a report drifted or a
    requirement is missed."""
    from planner.review import check

    findings = check.check_reports(list(map(Path, options.paths)), list(map(Path, options.plans)))
    findings = check.write_drifted(findings) if options.write else findings
    if options.faults == "text":
        sys.stdout.write(check.format_findings(findings, options.all))
    else:
        sys.stdout.write(check.export_findings(findings, options.faults))
    return FAILED if any(finding.drift or finding.missed for finding in findings) else OK


def _run_diff(options: argparse.Namespace) -> int | str:
    """Compare two plans or results, or the plans of two revisions; exit with status 1 where a
    changed plan misses a requirement.

    Raises:
        PlanError: bad input, or plans of a revision with faults.
    """
    from planner.review import branches, diff, revisions, writing

    sides = [side for side in (options.old, options.new) if side is not None]
    if all(not Path(s).exists() and ":" not in s and revisions.is_revision(s) for s in sides):
        plans = branches.compare_revisions(options.old, options.new, list(map(Path, options.plans)))
        faults = [fault for one in plans for fault in one.faults]
        if options.format == "json":
            said = branches.encode_branches(plans)
        else:
            form = branches.render_branches if options.format == "md" else branches.format_branches
            said = form(plans, options.all)
        sys.stdout.write(said)
        if faults:
            raise PlanError(faults)
        return FAILED if _print_missed([fault for one in plans for fault in one.missed]) else OK
    if options.plans:
        raise PlanError("--plans needs a revision", None, "diff main --plans plans")
    if options.new is None:
        known = "a second plan or result, or a branch, a tag or a commit alone"
        raise PlanError(f"{options.old} needs a second plan or result", None, known)
    found = diff.diff_plans(options.old, options.new)
    if options.format == "json":
        return as_json(writing.dump_diff(found))
    write = writing.render_diff if options.format == "md" else writing.format_diff
    return write(found, options.all)


def _run_import(options: argparse.Namespace) -> int:
    """Write the document of an imported configuration, and remarks on it to standard error."""
    from planner.connect import imports
    from planner.documents import schema_files

    found = imports.import_file(
        options.config, options.source, options.plan, options.set, options.run
    )
    text = schema_files.update_line(found.text, options.output)
    files.write_output(text, options.output, [options.config])
    for line in found.said:
        print(one_line(f"{found.place}: {line}"), file=sys.stderr)
    return OK


def _run_export(options: argparse.Namespace) -> int:
    """Write the launch configuration of a plan; exit with status 1 where the framework cannot run
    it."""
    from planner.connect import as_run, exports
    from planner.connect.exports import scripts

    plan, scripted = _load_plan(options), options.to in SCRIPTED
    if scripted and options.job is not None:
        raise PlanError(f"--job wraps no script of {options.to}", None, "without --job")
    made = (scripts.write_trainer_script if scripted else exports.build_config)(plan, options.to)
    if made.lost and not options.force:
        for caveat in exports.caveats(made.lost):
            print(f"{options.to}: {caveat}", file=sys.stderr)
        print(f"{options.to} cannot run this plan; --force writes the rest", file=sys.stderr)
        return FAILED
    text, told = made.text, made.commented
    if options.job is not None:
        from planner.connect.exports import jobs

        text, told = jobs.write_job(plan, options.to, made, options.job), False
    files.write_output(text, options.output, plan.document.list_files())
    if options.output not in (None, "-") or not (told and sys.stdout.isatty()):
        for caveat in exports.caveats(made.unsaid):  # the text itself may say them on the terminal
            print(f"{options.to}: {caveat}", file=sys.stderr)
    for line in as_run.describe_run(plan, options.to, made):
        print(f"{options.to}: {line}", file=sys.stderr)
    return OK


def _run_compare(options: argparse.Namespace) -> int:
    """Compare a plan with a measured run, and write tables or reports.

    Raises:
        PlanError: bad input, or not exactly one of a log and a step time.
    """
    from planner import report
    from planner.connect import compare
    from planner.questions.plan_questions import attach_questions

    plan = _load_plan(options)
    if (options.log is None) is (options.step_time is None):
        raise PlanError("one of --log FILE and --step-time TIME is needed")
    if options.log is None and options.warm_up is not None:
        raise PlanError("--warm-up needs --log", None, "--step-time is of a typical step")
    suffixes = {end: kind for end, kind in report.SUFFIXES.items() if kind != "trace"}
    if options.format is not None:  # any ending holds the table alone
        suffixes = {os.path.splitext(path)[1].lower(): "text" for path in options.output}
    inputs = [*filter(None, [options.log]), *plan.document.list_files()]
    kinds = _check_outputs(options.output, suffixes, "report", inputs)
    if options.log is not None:
        found = compare.compare(plan, options.log, options.warm_up)
    else:
        found = compare.compare_step(plan, options.step_time)
    writers = {
        "text": compare.render_table,
        "md": compare.render_section,
        "json": compare.dump_rows,
    }
    table = writers[options.format or "text"](found)
    for path, kind in kinds.items():
        if kind == "text":
            files.write_text(path, table)
        else:
            report.write_report(attach_questions(found.result), path)
    if not options.output or "-" in options.output or options.format is None:
        sys.stdout.write(table)
    return OK


def _run_explain_oom(options: argparse.Namespace) -> str:
    """Return why a run of a plan ran out of memory.

    Raises:
        PlanError: bad input, or not exactly one of a text and a snapshot.
    """
    from planner.report.out_of_memory import explain_failure

    if (options.text is None) is (options.snapshot is None):
        raise PlanError("one of --text FILE and --snapshot FILE is needed")
    return explain_failure(_load_plan(options), options.text, options.snapshot, options.format)


def _run_measure(options: argparse.Namespace) -> int:
    """Measure this machine."""
    from planner.cli.measure import run_measure

    return run_measure(options)


def _run_calibrate(options: argparse.Namespace) -> int:
    """Fit the rates of a cluster to logs."""
    from planner.cli.calibrate import run_calibrate

    return run_calibrate(options)


def _run_list(options: argparse.Namespace) -> str:
    """Return the table of what is built in."""
    from planner.cli.listing import format_listing

    return format_listing(options.what)


def _run_tensor(options: argparse.Namespace) -> str:
    """Return the size of a tensor in each number format."""
    from planner.report import precisions

    shape, found = precisions.parse_sides(options.shape), precisions.find_formats(options.precision)
    return (precisions.tensor_json if options.format == "json" else precisions.tensor)(shape, found)


def _run_matmul(options: argparse.Namespace) -> str:
    """Return the analysis of one matmul."""
    from planner.report import matmul, precisions

    sides = precisions.parse_sides(options.shape, (3, 4), matmul.WANTED)
    one = precisions.format_called(options.precision or "bf16")
    found = matmul.evaluate_matmul(sides, options.on, one, options.took, options.backward)
    return (matmul.encode_matmul if options.format == "json" else matmul.format_matmul)(found)


def _run_collective(options: argparse.Namespace) -> str:
    """Return the analysis of one collective."""
    from planner.report import collective

    found = collective.evaluate_collective(
        options.operation, options.size, options.on, options.devices, options.set
    )
    encode = collective.encode_collective if options.format == "json" else None
    return (encode or collective.format_collective)(found)


def _run_fit_table(options: argparse.Namespace) -> str:
    """Return the table of what can be trained on a device, and write its plans on request."""
    from planner.questions.fit_table import evaluate_fit_table, write_cell_plans
    from planner.report import fit_table

    table = evaluate_fit_table(
        options.device,
        options.devices,
        options.models,
        options.lengths,
        options.examples,
        options.set,
    )
    if options.plans:
        sys.stderr.write(f"{len(write_cell_plans(table, options.plans))} plans written\n")
    return fit_table.FORMS[options.format](table)


def _run_schema(options: argparse.Namespace) -> int:
    """Write the JSON Schema of a kind of document."""
    from planner.documents import schema_files

    files.write_output(
        schema_files.format_schema(schema_files.build_bundle(options.kind)), options.output
    )
    return OK


def _run_serve(options: argparse.Namespace) -> int:
    """Serve the page until the server is stopped."""
    with require_extra("serve", "serve"):
        from planner.serve import connections, programs
    asked = programs.build_programs(COMMANDS, options.status)
    connections.run_server(asked, options.plan, options.host, options.port)
    return OK


def _run_site(options: argparse.Namespace) -> int:
    """Write the page as static files."""
    from planner.serve import site

    site.write_site(options.output, options.pyodide or site.PYODIDE)
    return OK


def _run_mcp(options: argparse.Namespace) -> int:
    """Answer an assistant until its input ends."""
    with require_extra("mcp", "serve,mcp"):
        from planner.serve import assistant, programs
    assistant.run_assistant(programs.build_programs(COMMANDS, options.status))
    return OK


def _run_completion(options: argparse.Namespace) -> str:
    """Return the completion script of a shell."""
    return build_script(options.shell)


#: The commands by name, in the order in which help lists them; ``_run_NAME`` above runs each.
COMMANDS = {
    name: Command(
        row["help"],
        tuple(_list_args(row.get("arguments", ()))),
        globals()[f"_run_{name.replace('-', '_')}"],
        tuple(row.get("examples", ())),
    )
    for name, row in ROWS["commands"].items()
}
