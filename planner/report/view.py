"""The view of a result: the contents of a report as plain data for the templates.

Both reports use this one view. Numbers are final text here; templates only place them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from planner.base import numbers
from planner.base.display import clean, format_flow, headline
from planner.base.errors import PlanError
from planner.base.numbers import exact_text, format_column, format_shares
from planner.base.sandbox import Record, computed_field
from planner.plans import error_bands
from planner.questions.plan_questions import PlanAnswer
from planner.questions.solve import questions
from planner.report import facts, pictures, timeline
from planner.report.answer import Overview, answer_of
from planner.report.derivations import MANY, Derivation, Derivations, InputRow, label_entry
from planner.report.elements import Link, Rows, Table
from planner.report.layout import ANSWERS, SECTIONS, STEP, Beside, Section, by_prefix, get_prefix
from planner.report.resolved import make_page_link
from planner.report.roofline import Roofline
from planner.results import intervals
from planner.results.inputs import Input
from planner.results.result import Quantity, Result, Summand
from planner.results.verdict import UNFIT

if TYPE_CHECKING:
    from planner.report.searched import SearchView

#: What a reference has: a name, or a document of ours that holds its own; and how it is cited.
REFERENCE = re.compile(r"[A-Z]|datasheet|presets/|\bdocument\b")
BRIEF = re.compile(r"[A-Z][\w-]+(?: et al\.| & [A-Z][\w-]+)? \d{4}\b")
SLOWEST = "time.stage"  # of the stages only the slowest is shown in its parts
#: What the rows of a price list decide, by their kind, where it is not the price by the hour.
PRICES = {"reserved": "cluster.reserved_price"}
LONGEST = 2000  # characters of a sentence on an answer
QUIET = (False, None, 0, "none", "")


class TextBlock(Record):
    """A part of a report with tables.

    Attributes:
        name: what it is about.
        sentence: what is said of that.
        tables: its tables.
        notes: texts below them.
    """

    name: str
    sentence: str
    tables: list[Table]
    notes: list[str]


class SectionView(Record):
    """A section of a report.

    Attributes:
        id, title: its anchor and its heading.
        open: whether pages show it unfolded.
        told: its head in pieces, each with whether it is a number.
        sums, tables, compared, digits: its tables.
        absent: quantities without a value, each with the reason.
        note: a sentence below its head; of memory, what the simulated allocator reserves.
        moments, roofline, timeline: its figures.
    """

    id: str
    title: str
    open: bool
    told: list[tuple[str, bool]]
    sums: list[Table]
    tables: list[Table]
    compared: Table | None
    digits: Table | None
    absent: list[Link]
    note: str
    moments: pictures.MemoryFigure | None
    roofline: Roofline | None
    timeline: timeline.StepView | None


class ReportView(Record):
    """The contents of a report, element by element.

    Attributes:
        answer: the first screen.
        name: the plan's name.
        page_link: the address of a page with the plan; None without one.
        warnings: sentences with the quantity that each is about.
        fingerprint: the hash of the resolved input.
        answers: the plan's questions, answered.
        required: its requirements: how each is met as a style, and a sentence.
        limits: how far the layout goes, one key at a time.
        derivations: how each quantity is computed.
    """

    _result: Result
    _sources: dict[str, int]
    answer: Overview
    name: str
    page_link: str | None
    warnings: list[Link]
    fingerprint: str
    answers: list[TextBlock]
    required: list[tuple[str, str]]
    limits: str
    derivations: list[Derivation]

    @cached_property
    def _plain(self) -> list[Quantity]:
        """The quantities of the plan as a whole."""
        return [q for q in self._result.quantities.values() if not q.entries]

    @computed_field
    def values(self) -> dict[str, Any]:
        """The value of every quantity that has one, by its id."""
        return {i: quantity.value for i, quantity in self._result.quantities.items()}

    @computed_field
    def prefixes(self) -> list[tuple[str, str, str, list[Derivation]]]:
        """The derivations by the prefix of their ids: that, its title, and what they begin with."""
        groups = by_prefix(self.derivations)
        return [(i, title, describe_opening(items), items) for i, title, items in groups]

    @computed_field
    def by_quantity(self) -> list[list[Derivation]]:
        """The derivations of nonzero values by quantity, in the order of prefixes."""
        found: dict[str, list[Derivation]] = {}
        for _, _, items in by_prefix(self.derivations):
            for item in items:
                if not item.nothing:
                    found.setdefault(item.base, []).append(item)
        return list(found.values())

    @computed_field
    def layouts(self) -> SearchView | None:
        """The comparison with a search over all layouts; None if the plan has no search."""
        plan = self._result.plan
        if plan.searched is None and plan.get("report.alternatives") != "search":
            return None
        from planner.questions.search.engine import scatter
        from planner.report import searched  # imports NumPy

        try:
            return searched.build_search_view(scatter(plan, **(plan.searched or {})))
        except PlanError as error:
            said = f"There is no search: {clean(error.faults[0].message)}"
            return searched.SearchView(said)

    @computed_field
    def comparison(self) -> TextBlock | None:
        """Planned, measured and their ratio, if the plan has the log of a run."""
        found = self._result.comparison
        if found is None:
            return None
        inside = {True: "inside", False: "outside", None: "–"}
        table = Table(
            "Planned and measured",
            ["Quantity", "Planned", "Measured", "Ratio", "Measured as", "Interval"],
            [
                [
                    headline(row.title),
                    "–" if row.planned is None else Link(row.quantity.id, row.quantity.text()),
                    row.text(row.measured),
                    numbers.text(row.ratio),
                    clean(row.how),
                    inside[row.inside],
                ]
                for row in found.rows
            ],
            looks=["", "n", "n", "n", "q", ""],
        )
        notes = [headline(note) for note in found.notes]
        return TextBlock(clean(found.log), found.format, [table], notes)

    @computed_field
    def symbols(self) -> list[InputRow]:
        """The inputs of the formulas, each once, with all values."""
        found: dict[str, tuple[InputRow, list[str]]] = {}
        for item in self.derivations:
            for row in item.inputs:
                _, values = found.setdefault(row.symbol, (row, []))
                values += [v for v in row.value.split(", ") if v not in values]
        return [
            replace(row, value=", ".join(values[:MANY]) + ", …" * (len(values) > MANY))
            for row, values in found.values()
        ]

    @computed_field
    def inputs(self) -> TextBlock:
        """Stated inputs first, then defaults that affect the result. Defaults that are off or none
        are only named; inputs of formulas are among the symbols."""
        stated, assumed = list[list[str]](), list[list[str]]()
        presets, quiet = 0, list[str]()
        decides = ("training.", "parallelism.", "time.", "cluster.")
        notation = self._result.evaluation.book.notation.items()
        keys = {str(symbol): note.key for symbol, note in notation}
        printed = {keys[row.symbol] for row in self.symbols}
        for entry in join_inputs(self._result.inputs):
            row = [entry.key, format_input(entry), clean(entry.origin)]
            if entry.kind == "preset":
                presets += 1
            elif entry.kind not in ("default", "derived"):
                stated.append(row)
            elif entry.value in QUIET:
                quiet.append(entry.key)
            elif (
                entry.key.startswith(decides)
                and not entry.origin.startswith("under ")
                and entry.key not in printed
            ):
                assumed.append(row)
        tables = (
            ("Stated", stated),
            ("Defaults that affect the result; each key changes one", assumed),
        )
        head = ["Key", "Value", "From"]
        told = f"{len(stated)} from the plan, {presets} from presets; {len(assumed)} defaults"
        made = [Table(title, head, rows, style="i") for title, rows in tables if rows]
        return TextBlock("", f"{told} that affect the result", made, quiet)

    @computed_field
    def facts_sources(self) -> list[tuple[str, str, str, str, str, bool]]:
        """The sources of the documents' facts: document, keys, text, address, note, and whether it
        is confirmed."""
        plan = self._result.plan
        cluster = plan.data.get("cluster") or {}
        accelerator, provider = cluster.get("accelerator") or {}, cluster.get("provider")
        prices = [
            row
            for row in accelerator.get("prices") or ()
            if row["provider"] == provider
            and PRICES.get(row["kind"], "cluster.price") in plan.derived
        ]
        documents = {
            "model": plan.data.get("model") or {},
            "cluster": cluster,
            "accelerator": accelerator,
            "price": {"sources": prices},
        }
        found: dict[tuple[str, ...], tuple[str, str, str, str, str, bool]] = {}
        rows = ((what, row) for what, one in documents.items() for row in one.get("sources") or ())
        for what, row in rows:
            url, keys = str(row.get("url")), ", ".join(row.get("keys") or [row.get("kind") or ""])
            text, note = clean(row["text"]), clean(row.get("note") or "")
            linked = url if url.startswith(("https://", "http://")) else ""
            entry = what, clean(keys), text, linked, note, row.get("confirmed") is not False
            found.setdefault((what, keys, text), entry)
        return list(found.values())

    @computed_field
    def sections(self) -> list[SectionView]:
        """The sections with anything to show."""
        named = {prefix for section in SECTIONS for prefix in section.prefixes}
        rest = tuple(dict.fromkeys(p for q in self._plain if (p := get_prefix(q.id)) not in named))
        told = tuple((clean(q.title), q.id) for q in self._plain if q.declared.own)
        own = tuple(name for _, name in told)
        ours = Section("own-quantities", "Quantities of this plan", own, told=told[:3])
        rest = tuple(start for start in rest if start not in own)
        further = Section("further-quantities", "Further quantities", rest)
        views = [self._build_section(section) for section in (ours, *SECTIONS, further)]
        return [view for view in views if view is not None]

    def _build_section(self, section: Section) -> SectionView | None:
        """Build a section; None if the plan has nothing to show in it."""
        quantities = {q.id: q for q in self._plain if get_prefix(q.id) in section.prefixes}
        result = self._result
        absent = [  # what has a formula but lacks facts
            Link(i, clean(why))
            for i, why in result.absent.items()
            if get_prefix(i) in section.prefixes and "[" not in i and result[i].chosen is not None
        ]
        sums = [table for base in section.sums for table in self._build_sums(base)]
        compared = [quantities.pop(i) for i in section.side_by_side if i in quantities]
        first = [quantities.pop(i) for i in section.first if i in quantities]
        rows = [q for q in (*first, *quantities.values()) if q.value or q.declared.own]
        if not (sums or compared or rows or absent):
            return None
        short = "memory.needed" in self._result and answer_of(self._result).lacking
        heading = section.lacking if short and section.lacking else section.told
        told = [(words, i) for words, i in heading if i in self._result]
        digits: Rows = [[headline(q.title), Link(q.id, q.text()), _format_digits(q)] for q in rows]
        head = ["Quantity", "Value", "In full"]
        return SectionView(
            id=section.id,
            title=section.title,
            open=section.open,
            told=self._build_heading(told) if told else [(f"{len(rows)} quantities", False)],
            sums=sums,
            tables=[table for beside in section.beside if (table := self._build_table(beside))],
            compared=_compare_ratios(compared) if compared else None,
            digits=Table("", head, digits, looks=["", "n", "n"]) if digits else None,
            absent=absent,
            note=answer_of(self._result).simulated if section.id == "memory" else "",
            moments=pictures.plot_memory(self._result) if section.id == "memory" else None,
            roofline=pictures.kernels(self._result) if section.id == "time" else None,
            timeline=timeline.build_step_view(self._result, section.id),
        )

    def _build_heading(self, quantities: Sequence[tuple[str, str]]) -> list[tuple[str, bool]]:
        """Return the head of a closed section: some of its numbers, each with a label."""
        pieces: list[tuple[str, bool]] = []
        for words, identifier in quantities:
            text = self._result[identifier].text()
            if text.startswith("−"):
                text, words = text[1:], "too little"
            after = f" {words}" if words else ""
            pieces += [(" · " if pieces else "", False), (text, True), (after, False)]
        return pieces

    def _build_sums(self, base: str) -> list[Table]:
        """Return the instances of a sum, each as a table of its terms: of pipeline stages the
        slowest only, of a model's parts its layers, not embedding and head."""
        found = [q for q in self._result.quantities.values() if q.base == base]
        if base == SLOWEST and found:
            found = [max(found, key=lambda stage: stage.number)]
        tables = []
        for quantity in found:
            layers = all(entry.settings.get("layers") is not False for entry in quantity.entries)
            if not layers or len(quantity.terms) < 2:
                continue
            title = ": ".join([headline(quantity.title), *map(label_entry, quantity.entries)])
            tables.append(self._build_terms(quantity, title, quantity.terms))
        return tables

    def _build_terms(self, quantity: Quantity, title: str, terms: Sequence[Summand]) -> Table:
        """Return a table of the terms of a quantity, with their shares.

        Args:
            quantity: the sum.
            title: of the table.
            terms: its summands; those of zero are left out.

        Returns:
            the table, with the sum as its total.
        """
        terms = [term for term in terms if term.value] or terms
        values: Sequence[Any] = [term.value for term in terms]
        unit, texts = format_column([*values, quantity.value], quantity.unit)
        rows = Rows()
        for term, text, share in zip(terms, texts, format_shares(values), strict=False):
            named = self._result.evaluation.book.quantities.get(term.id or "")
            label = clean((named and named.short) or term.label)
            rows.append([label, Link(term.id, text) if term.id else text, share])
        total = "Total", Link(quantity.id, texts[-1]), "100.0"
        return Table(title, ["Part", unit, "Share, %"], rows, total=total, style="numeric")

    def _build_table(self, table: Beside) -> Table | None:
        """Return a table with a row per entry of an axis, such as scaling laws; cells may be empty.
        With one unit, only complete columns, and only for several entries."""
        entries = self._result.list_entries(table.axis)
        if len(entries) < 1 + table.one_unit:
            return None
        known = self._result.quantities
        found = {base: [known.get(f"{base}[{e.path}]") for e in entries] for base in table.columns}
        if table.one_unit:
            found = {base: column for base, column in found.items() if None not in column}
        values = [q for row in zip(*found.values(), strict=True) for q in row]
        texts = ["–" if q is None else q.text() for q in values]
        caption = table.caption
        if table.one_unit and values:
            unit, texts = format_column([q.value for q in values if q], values[0].unit)
            caption = f"{caption}, {unit}"
        cells = iter(Link(q.id, t) if q else t for q, t in zip(values, texts, strict=True))
        label = label_entry if table.one_unit else lambda entry: headline(label_entry(entry))
        rows = [[label(entry), *(next(cells) for _ in found)] for entry in entries]
        rows = [row for row in rows if any(not isinstance(cell, str) for cell in row)]
        if not rows:
            return None
        named = self._result.evaluation.book.quantities
        head = [table.head, *(named[base].short or base for base in found)]
        return Table(caption, head, rows, style="numeric", anchors=not table.one_unit)

    @computed_field
    def references(self) -> list[tuple[int, str]]:
        """Numbered bibliography of the formulas' sources; sources such as "sum" are left out."""
        return [(n, text) for text, n in self._sources.items() if REFERENCE.search(text)]

    @computed_field
    def numbered(self) -> dict[int, str]:
        """The short form of a long reference: authors and year."""
        brief = ((n, BRIEF.match(text), len(text)) for n, text in self.references)
        return {n: found[0] for n, found, size in brief if found and len(found[0]) < size - 20}

    @computed_field
    def accuracy(self) -> Table | None:
        """The published runs behind the estimates of this report; None without estimates."""
        settings, rows = self._result.evaluation.case.settings, Rows()
        for base in ("memory.total", "memory.process", STEP, "time.latency_seconds"):
            quantity, found = self._result.get(base), intervals.find_basis(base, settings)
            if quantity is None or found is None:
                continue
            runs = clean(": ".join(filter(None, (found.kind, ", ".join(found.names)))))
            if not found.rows:
                runs = f"none of its kind ({runs}): as wide as the widest known interval"
            what = headline(quantity.title)
            if base == STEP:
                what = "Time of one step, and what follows from it"
            ends = (numbers.text(end, style="change") for end in (found.low, found.high))
            rows.append([Link(base, what), runs, str(found.rows), str(found.sources), *ends])
        title = "Published runs: measured over predicted, 5th to 95th percentile"
        head = ["Estimate", "Published runs", "Rows", "Sources", "From", "To"]
        return Table(title, head, rows, looks=["", "", "n", "n", "n", "n"]) if rows else None

    @computed_field
    def agreements(self) -> list[Link]:
        """Other software with the same counts, for the quantities of this report."""
        return [
            Link(
                row["quantity"],
                f"{row['exact']} of {row['cases']} cases to the byte"
                if row["exact"]
                else f"{row['cases']} cases within {numbers.text(row['worst'], style='share')}",
            )
            for row in error_bands.load_memory()["counted"]
            if row["quantity"] in self._result
        ]

    @computed_field
    def command(self) -> str:
        """The command that reproduces this report."""
        plan = self._result.document or "PLAN.yaml"
        words = ["python", "plan.py", plan]
        found = self._result.comparison
        if found is not None:
            told = found.format == "step time"
            words[2:] = ["compare", plan, "--step-time" if told else "--log", found.log]
            words += ["--warm-up", str(found.warm_up)] if found.warm_up is not None else []
        for key, text in self._result.plan.document.overrides:
            words += ["--set", f"{key}={clean(text)}"]
        words += ["--no-defaults"] if self._result.plan.document.left_out else []
        return shlex.join(words)


def _format_digits(quantity: Quantity) -> str:
    """Format a value in full; empty if it is printed so already, or is a share."""
    full = quantity.text("exact")
    return full if not quantity.declared.share and full != quantity.text() else ""


def _compare_ratios(quantities: Sequence[Quantity]) -> Table:
    """Compare conventions for one quantity by their ratio to the first."""
    measure, alone, rows = quantities[0].number, len(quantities) == 1, Rows()
    for one in quantities:
        ratio = "1" if alone else numbers.text(one.number / measure if measure else None)
        rows.append([headline(one.title), Link(one.id, one.text()), ratio, clean(one.why)])
    head = ["Convention", "Value", "Ratio", "What it counts"]
    return Table("Conventions side by side", head, rows, looks=["", "n", "n", "q"])


def describe_opening(items: Sequence[Derivation]) -> str:
    """Return the first titles of a closed group of derivations."""
    titles = list(dict.fromkeys(item.title for item in items))
    return "; ".join(titles[:3]) + ("; …" if len(titles) > 3 else "")


def collect_answers(result: Result) -> tuple[list[TextBlock], list[tuple[str, str]]]:
    """Return the answers to the plan's questions, and whether its requirements are met."""
    asked = result.questions
    if asked is None:
        return [], []
    statuses = {True: "ok", False: "bad", None: "unknown"}
    answers = [build_answer(clean(one.name), one) for one in asked.answers]
    return answers, [
        (statuses[one.holds], clean(one.sentence, LONGEST)) for one in asked.requirements
    ]


def build_answer(name: str, answer: PlanAnswer) -> TextBlock:
    """Return the answer to a question as templates read it."""
    tables = [
        Table("", list(map(clean, head)), [list(map(clean, row)) for row in rows])
        for head, *rows in answer.tables
    ]
    remarks = [clean(words, LONGEST) for words in answer.remarks]
    sentence = clean(answer.sentence, LONGEST)
    return TextBlock(name, sentence, tables, remarks)


def describe_limits(result: Result) -> str:
    """Describe the limits of this layout with memory as the bound, one key changed at a time; empty
    if the plan does not fit or no question has an answer."""
    if result.verdict["state"] != "fits":
        return ""
    found = []
    for question, words in ANSWERS.items():
        try:
            answer = questions.ask(result.plan, question, with_layout="own", unbounded=True)
        except PlanError:
            continue
        if answer.holds is None:
            continue
        said, beyond = words.format(exact_text(Fraction(answer.holds.number))), answer.fails
        more = f" ({exact_text(Fraction(beyond.number))} {UNFIT})" if beyond else ""
        found.append(said + more)
    return ", ".join(found)


@lru_cache(maxsize=1)
def view_of(result: Result) -> ReportView:
    """Return the view of a result, which the formats of one report share."""
    derivations = Derivations(result)
    answers, required = collect_answers(result)
    return ReportView(
        result,
        derivations.sources,
        answer=answer_of(result),
        name=clean(result.plan.name),
        page_link=make_page_link(result.plan),
        warnings=[Link(i, words) for i, words in facts.list_warnings(result)],
        fingerprint=result.hash_input(),
        answers=answers,
        required=required,
        limits=describe_limits(result),
        derivations=derivations.items,
    )


def join_inputs(entries: dict[str, Input]) -> list[Input]:
    """Return the inputs; a figure and its convention are one."""
    found = []
    for key, entry in entries.items():
        around, _, last = key.rpartition(".")
        convention = entries.get(f"{around}.convention")
        if last == "convention" and f"{around}.value" in entries:
            continue
        if last == "value" and convention is not None:
            text = f"{format_input(entry)}, {convention.value}"
            entry = Input(around, text, entry.kind, entry.origin)
        found.append(entry)
    return found


def format_input(entry: Input) -> str:
    """Format an input as it was written, or exactly."""
    value = entry.value
    if isinstance(value, bool):
        return "true" if value else "false"
    if entry.text is not None and entry.kind not in ("derived", "default"):
        return clean(entry.text)
    if isinstance(value, (int, Fraction)):
        return numbers.text(value, entry.unit or "1", "exact")
    if isinstance(value, (list, tuple)):
        return clean(", ".join(map(format_flow, value)))
    return clean(value)
