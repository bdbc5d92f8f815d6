"""The first screen as plain data for terminal, Markdown and HTML: the plan, four numbers with their
intervals, memory and time by part, faster or safer layouts, the sensitivity of time.

Numbers have three digits here; the quantities that they come from are named by id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from planner.base import numbers
from planner.base.display import clean, headline, thin
from planner.base.numbers import GIB, choose_unit, exact_text, format_shares, scientific, trim_zeros
from planner.engine.lower import SIZE_ONLY
from planner.plans.layout import DEGREES, format_option, pick_shown
from planner.plans.pipeline import cut_rule
from planner.questions.sensitivity import rank_measures, twice
from planner.report.layout import (
    DAYS,
    NUMBERS,
    PARTS_OF_STEP,
    SERVING,
    STEP,
    Data,
    pick,
    trim_key,
)
from planner.results import intervals
from planner.results.improvements import Remedy, find_faster
from planner.results.result import DEFAULT_RATES, Quantity, Result
from planner.results.verdict import VERDICTS

PROCESS, CAPACITY, COST = "memory.process", "memory.capacity", "cost.total"
#: Parts of the memory of a device, in the order of the bar; allocator and runtime follow.
OF_MEMORY = ("weights", "gradients", "optimizer", "activations", "buffers", "cache")
MANY = {"optimizer": "optimizer states", "cache": "keys and values"}
#: Attributes that templates read, and those that take longer to compute.
SAID = (
    "status", "word", "unsafe", "ring", "sentence", "text", "plan_line", "found", "numbers",
    "beyond", "basis", "memory", "step",
)  # fmt: skip
FURTHER = ("advice", "heads", "better", "moves")
#: Changes below this (0.05 %) are not shown.
LEAST_MOVE = Fraction(1, 2000)
#: Whiskers of all numbers share this scale: half of the value to half as much again.
SCALE = (Fraction(1, 2), Fraction(3, 2))
#: Groups of the parts of a step, in the order of the bar.
PEAK = ("arithmetic", "at peak rate")
GROUPS = ("arithmetic", "kernels", "exposed communication", "idle")


class Better(NamedTuple):
    """A row of the table of layouts: the changes and their effects.

    Attributes:
        changes: the settings that differ from the plan, such as tensor 8→4; "This plan" in its own
            row.
        days: training time in the unit of the column; "–" where it is unknown.
        change: the relative change of that time, such as −12 %; empty where it is unknown.
        cost: total cost in the unit of the column; "–" where it is unknown.
        memory: predicted peak memory of a device, GiB.
        worst: the 95th percentile of peak memory, GiB.
        status: the style of the verdict, such as ok.
        word: the verdict in words.
        takes: new values by key; empty for the plan itself.
    """

    changes: str
    days: str
    change: str
    cost: str
    memory: str
    worst: str
    status: str
    word: str
    takes: Mapping[str, Any]


class Overview:
    """Compute the contents of the first screen, which the terminal and all reports share.

    Attributes:
        result: the result that is shown.
        status: the style of the verdict: ok, tight, bad or unknown.
        word: the verdict in words, with its reason if there is one.
        serves: whether the plan is for inference.
        unsafe: whether the plan does not fit or fits only tightly.
    """

    def __init__(self, result: Result) -> None:
        self.result = result
        self.status, self.word = VERDICTS[result.verdict["state"]][1:3]
        if result.verdict["reason"]:
            self.word += f" ({clean(result.verdict['reason'])})"
        self.serves = result.plan.settings["training.mode"] == "inference"
        self.unsafe = result.verdict["state"] in ("no", "tight")

    def to_data(self, further: bool = True) -> Data:
        """Return what templates read; with ``further``, alternatives and the sensitivity too."""
        return pick(self, SAID + FURTHER if further else SAID)

    @cached_property
    def sentence(self) -> list[tuple[str, bool]]:
        """The verdict in words, in pieces; each with whether it is a number."""
        result, free = self.result, self.result.get("memory.headroom")
        pieces: list[tuple[str, bool]] = []
        if free is None or CAPACITY not in result:
            why = result["memory.headroom"].absent or result.verdict["reason"]
            pieces += [(f"{headline(clean(why))}. ", False)]
        elif self.status == "bad":
            process = result["memory.process"]
            low, high = _format_ends(process)
            between = f" ({low}–{high})" if low else ""
            pieces += [
                (f"{gib(process.value)}\u00a0GiB", True),
                (f"{between} needed per device of {gib(result[CAPACITY].value)} GiB", False),
                (f"; {self._name_largest()}. ", False),
            ]
        elif self.status == "tight":
            worst, kept = (result[name] for name in ("memory.at_worst", "memory.process"))
            within = free.number >= 0
            needs, also = (kept, worst) if within else (result["memory.needed"], kept)
            why = "at the 95th percentile" if within else "with what the allocator would keep"
            pieces += [
                ("Needs ", False),
                (gib(needs.value), True),
                (f" of {gib(result[CAPACITY].value)} GiB per device ", False),
                (f"({gib(also.value)} {why}). ", False),
            ]
        runs = self._describe_run()
        if runs:
            pieces += runs
        if self.status in ("ok", "unknown") and free is not None and CAPACITY in result:
            least = result.get("memory.headroom_p95")
            left = f"; {gib(least.value)} at the 95th percentile" if least is not None else ""
            what, why = "Peak memory", f" ({gib(free.value)} free{left})"
            if self.status == "unknown":
                what, why = "Memory of the states alone:", f"; {SIZE_ONLY}"
            used, capacity = gib(result["memory.process"].value), gib(result[CAPACITY].value)
            pieces.append((f"{what} {used} of {capacity} GiB per device{why}.", False))
        return pieces

    def _describe_run(self) -> list[tuple[str, bool]]:
        """Return how long training takes and its cost, or the rate of serving."""
        result, pieces = self.result, list[tuple[str, bool]]()
        name = clean(result.plan.get("model.name") or "The model")
        if self.serves:
            rate = result.get("time.decode_tokens_per_second")
            if rate is not None:
                pieces += [(f"{name} generates ", False), (thin(rate.text()), True), (". ", False)]
            return pieces
        days, cost = result.get(DAYS), result.get(COST)
        if days is None:
            return []
        first = {"bad": "If it ran: ", "tight": "If it runs: "}.get(self.status)
        pieces = [(first or f"{name} trains in ", False), (thin(days.text()), True)]
        if cost is not None:
            pieces += [(", " if first else " for ", False), (thin(cost.text()), True)]
        if result.assumes_utilisation:
            mfu, other = result["time.mfu"], result[DAYS].alternative
            said = f" (predicted: {thin(other.text())})" if other else ""
            pieces.append((f" at an assumed utilisation of {thin(mfu.text())}{said}", False))
        return [*pieces, (". ", False)]

    def _name_largest(self) -> str:
        """Name the part with the most bytes on a device that is too small."""
        parts = [q for base in OF_MEMORY if (q := self.result.get(f"memory.{base}")) is not None]
        most = max(parts, key=lambda part: part.number)
        part = most.base.partition(".")[2]
        return f"{MANY.get(part, part)} take {gib(most.value)}\u00a0GiB"

    @cached_property
    def text(self) -> str:
        """The verdict in words, as one text."""
        return "".join(text for text, _ in self.sentence).strip()

    @cached_property
    def plan_line(self) -> list[tuple[str, str, str]]:
        """The plan in pieces: words before a value, the value, and words after it."""
        plan, get = self.result.plan, self.result.plan.get
        unnamed = "an unnamed model" if get("model.layers") else "a model given by its size"
        model = clean(get("model.name") or unnamed)
        active = self.result.get("parameters.active")
        total = self.result.get("parameters.total")
        after = ""
        if total is not None:
            after = f", {total.text().removesuffix(' parameters')}"
            if active is not None and active.value != total.value:
                after += f", {active.text().removesuffix(' parameters')} active"
        pieces = [("", model, after)]
        devices, accelerator = get("cluster.devices"), get("cluster.accelerator.name")
        if devices:
            node = get("cluster.devices_per_node")
            each = f", {exact_text(node)} per node" if node and node < devices else ""
            pieces.append(("", f"{exact_text(devices)} × {clean(accelerator or 'device')}", each))
        tokens = get("training.tokens")
        if tokens and not self.serves:
            pieces.append(("", trim_zeros(numbers.text(tokens, "tokens", "table")), " tokens"))
        batch, length = get("training.global_batch"), get("training.sequence_length")
        if length:
            sizes = f"{exact_text(batch)} × {exact_text(length)}" if batch else exact_text(length)
            pieces.append(("batch " if batch else "length ", sizes, ""))
        optimizer = "" if self.serves else f", {clean(get('training.optimizer'))}"
        pieces.append(("", clean(get("training.precision")), optimizer))
        if not self.serves:
            pieces.append(("", clean(get("training.implementation") or ""), " kernels"))
        degrees = list(pick_shown(get))
        divided = [
            row.heading if value is True else f"{row.heading} {value}"
            for row, value in degrees
            if row.name in DIVIDE and value is not False
        ]
        if divided:
            pieces.append(("", ", ".join(divided), ""))
        if not self.serves:
            pieces.append(("ZeRO-", str(get("parallelism.zero")), ""))
            pieces.append(("micro-batch ", str(get("training.micro_batch")), ""))
            recompute = get("training.recompute")
            pieces.append(("", "no" if recompute == "none" else clean(recompute), " recompute"))
            if (get("parallelism.pipeline") or 1) > 1:
                pieces.append(("", clean(get("training.schedule")), " schedule"))
            if (
                plan.model
                and cut_rule(len(plan.model.sequence), plan.data["parallelism"]) == "ends"
            ):
                pieces.append(("", "both ends counted as layers", ""))
        pieces.append(("layout: ", "from the plan" if plan.searched is None else "found", ""))
        return [(before, value, after) for before, value, after in pieces if value]

    @cached_property
    def found(self) -> str:
        """How the search chose the layout; empty if the plan has one."""
        plan = self.result.plan
        if plan.searched is None:
            return ""
        why = next(
            (why for why in plan.derived.values() if why.endswith("(parallelism: auto)")), ""
        )
        return clean(why.removesuffix(" (parallelism: auto)"))

    @cached_property
    def numbers(self) -> list[Data]:
        """The headline quantities in order, those that this plan has: four large ones, then the
        plan's own, then the others."""
        first = SERVING if self.serves else NUMBERS
        every = self.result.evaluation.book.quantities.values()
        own = [(headline(clean(one.title)), one.id) for one in every if one.own]
        rows = (self._build_number(label, i) for label, i in (*first[:4], *own, *first[4:]))
        return [row for row in rows if row is not None]

    @property
    def beyond(self) -> bool:
        """Whether one of the four large numbers has an interval beyond the scale."""
        whiskers = [row.whisker for row in self.numbers[:4] if row.whisker]
        return any(one.lower or one.higher for one in whiskers)

    @property
    def ring(self) -> bool:
        """Whether an assumed value is marked beside a predicted one."""
        return any(row.whisker and row.whisker.assumed for row in self.numbers)

    def _build_number(self, label: str, identifier: str) -> Data | None:
        """Build a headline number with its interval, limit and note; None if the plan lacks the
        quantity.

        Args:
            label: what to call it.
            identifier: the id of the quantity.

        Returns:
            The number and its unit as printed, the ends of the interval as text, and ``whisker``
            and ``limit`` as positions on ``SCALE``, per cent.
        """
        quantity = self.result.get(identifier)
        if quantity is None or quantity.absent is not None:
            return None
        number, unit = _split_value(quantity)
        low, high = _format_ends(quantity)
        if identifier == PROCESS and self.status == "unknown":
            label = "Memory, states alone"
        row = Data(id=identifier, label=label, number=number, unit=unit, kind=quantity.kind,
                   low=low, high=high, whisker=None, note="", limit=None)  # fmt: skip
        if identifier == PROCESS and CAPACITY in self.result:
            row.number = gib(quantity.value)
            row.unit = f"of {gib(self.result[CAPACITY].value)} GiB"
            row.limit = _locate_value(self.result[CAPACITY].number, quantity.number)
        price = self.result.plan.get("cluster.price")
        if identifier == COST and price:
            row.label = f"{label} at {numbers.text(price)} USD per GPU-hour"
        between, other = quantity.interval, quantity.alternative
        if between is not None and quantity.number:
            ends = [_locate_value(end, quantity.number, True) for end in between]
            over = [_locate_value(end, quantity.number) is None for end in between]
            row.whisker = Data(low=ends[0], high=ends[1], lower=over[0], higher=over[1],
                               assumed=None)  # fmt: skip
            row.labels = _shift_labels(ends[0], ends[1])
            if other is not None:
                row.whisker.assumed = _locate_value(other.number, quantity.number)
        if other is not None and self.result.assumes_utilisation:
            row.note = f"assumed; predicted: {thin(other.text())}"
        elif other is not None:
            outside = between is not None and not between[0] <= other.number <= between[1]
            row.note = f"assumed: {thin(other.text())}{', outside' if outside else ''}"
        elif quantity.assumption:
            row.note = "default rates" if quantity.assumption == DEFAULT_RATES else "assumed"
        return row

    @cached_property
    def basis(self) -> str:
        """The published runs behind the intervals: their number and kind."""
        settings, said = self.result.evaluation.case.settings, []
        for name, base in (("time", STEP), ("memory", PROCESS)):
            found = intervals.find_basis(base, settings)
            if found is None or base not in self.result:
                continue
            runs = f"{found.rows} runs, {found.sources} source{'s' * (found.sources != 1)}"
            if found.own:
                runs = clean(found.own)
            elif not found.rows:
                runs = "no runs of this kind: as wide as the widest known interval"
            kind = f" ({clean(found.kind)})" if name == "time" and not found.own else ""
            said.append(f"{name} {runs}{kind}")
        step = self.result.get(STEP)
        if said and step is not None and step.assumption == DEFAULT_RATES:
            said.append(f"times rest on {DEFAULT_RATES}")
        return f"90 % intervals from published runs: {'; '.join(said)}" if said else ""

    @cached_property
    def memory(self) -> Data | None:
        """The memory of the fullest device by part and the device's capacity, in GiB."""
        result = self.result
        process, capacity = result.get(PROCESS), result.get(CAPACITY)
        total, reserved = result.get("memory.total"), result.get("memory.reserved")
        if process is None or capacity is None or total is None:
            return None
        rows: list[tuple[str, Any, str]] = [
            (base, q.number, q.id)
            for base in OF_MEMORY
            if (q := result.get(f"memory.{base}")) is not None and q.number > 0
        ]
        # Live tensors at the peak: each part at its own maximum may sum to more.
        over = sum(size for _, size, _ in rows) - total.number
        cached = reserved.number - total.number if reserved is not None else Fraction(0)
        rest = process.number - sum(size for _, size, _ in rows)
        # The allocator's cache is linked to its quantity, unless the parts exceed the total.
        base = "" if over > 0 or cached < 0 else "memory.allocator"
        rows += [("allocator", max(cached - max(over, 0), 0), base)]
        rows += [("runtime", rest - rows[-1][1], "")]
        rows = [row for row in rows if row[1] > 0]
        low, high = process.interval or (process.number, process.number)
        whole = max(capacity.number, high, process.number)
        segments = build_segments(rows, whole)
        for part, (_, size, _) in zip(segments, rows, strict=True):
            part.text = gib(size)
        free = capacity.number - process.number
        stage, phase = result.get("memory.stage"), result.get("memory.phase")
        several = len(result.list_entries("stage")) > 1
        notes = [clean(stage.value)] if several and stage is not None else []
        notes += [f"peak: {clean(phase.value)}"] if phase is not None else []
        ends = _format_ends(process)
        return Data(
            id=PROCESS,
            segments=segments,
            total=gib(process.value),
            between=f"{ends[0]}–{ends[1]}" if ends[0] else "",
            capacity=gib(capacity.value),
            at=format_share(capacity.number, whole),
            label=_place_label(process.number / whole),
            room=abs(capacity.number - process.number) > whole / 5,
            low=format_share(low, whole),
            high=format_share(high, whole),
            over=format_share(max(-free, Fraction(0)), whole),
            free=gib(abs(free)),
            free_word="Free" if free >= 0 else "Too much",
            note=" · ".join(notes),
        )

    @cached_property
    def step(self) -> Data | None:
        """The parts of a predicted step, in seconds; the first is arithmetic at the peak rate, so
        its share is the utilisation."""
        result, parts = self.result, self.result.step_parts
        step, mfu = result.get(STEP), result.get("time.mfu")
        if step is None or not parts:
            return None
        rows = [(*PARTS_OF_STEP.get(name, ("kernels", name)), Fraction(s)) for name, s in
                parts.items()]  # fmt: skip
        products = sum((s for group, _, s in rows if group == "arithmetic"), Fraction(0))
        peak = Fraction(mfu.number) * Fraction(step.number) if mfu is not None else Fraction(0)
        named: dict[tuple[str, str], Fraction] = {}
        if 0 < peak < products:
            named[PEAK] = peak
            # Recomputation is named; the rest of arithmetic is the loss below the peak rate.
            again = sum((s for _, name, s in rows if name == "recomputation"), Fraction(0))
            again = min(again, products - peak)
            named["arithmetic", "below peak"] = products - peak - again
            named["arithmetic", "recomputed"] = again
            rows = [row for row in rows if row[0] != "arithmetic"]
        for group, name, seconds in rows:
            named[group, name] = named.get((group, name), Fraction(0)) + seconds
        # Parts below a thousandth are merged into the largest of their group.
        whole = sum(named.values(), Fraction(0))
        for group in GROUPS:
            members = sorted((k for k in named if k[0] == group), key=lambda key: -named[key])
            for key in members[1:]:
                if named[key] < whole / 1000:
                    named[members[0]] += named.pop(key)
        order = sorted(
            named, key=lambda k: (GROUPS.index(k[0]), k[0] != "arithmetic" and -named[k])
        )
        order = [key for key in order if named[key] > 0]
        segments = build_segments([(name, named[group, name], "") for group, name in order], whole)
        looks = choose_looks(order)
        each = format_shares([named[key] for key in order])
        if order[0] == PEAK and mfu is not None:  # its share is the utilisation, as that is printed
            own = mfu.text().removesuffix(" %")
            rest = Fraction(each[1]) + Fraction(each[0]) - Fraction(own)
            each[1] = numbers.text(rest / 100, style="share").removesuffix(" %")
            each[0] = own
        for part, key, look, share in zip(segments, order, looks, each, strict=True):
            part.look, part.group, part.share = look, key[0], share
            part.text = format_seconds(named[key], whole)
        groups, left = [], Fraction(0)
        for group in GROUPS:
            size = sum((named[key] for key in order if key[0] == group), Fraction(0))
            if size:
                share = exact_text(round(100 * size / whole))
                at = {"x": format_share(left, whole), "width": format_share(size, whole)}
                text = format_seconds(size, whole)
                groups.append(Data(label=group, share=share, text=text, **at))
                left += size
        tokens, rate = self._format_tokens(), result.get("time.tokens_per_second")
        low, high = _format_ends(step)
        return Data(
            id=STEP,
            total=thin(step.text()),
            between=f"{low}–{high} {_split_value(step)[1]}" if low else "",
            note=" · ".join(filter(None, (tokens, thin(rate.text()) if rate is not None else ""))),
            segments=segments,
            groups=groups,
        )

    def _format_tokens(self) -> str:
        """Format the tokens of a step; empty if batch or sequence length is unknown."""
        get = self.result.plan.get
        batch, length = get("training.global_batch"), get("training.sequence_length")
        return f"{exact_text(batch * length)} tokens" if batch and length else ""

    @cached_property
    def units(self) -> dict[str, tuple[str, int | Fraction]]:
        """The units of time and cost in tables of layouts, for this plan or the first remedy, each
        with its size in days or USD."""
        advice, found = self.result.advice, dict[str, tuple[str, int | Fraction]]()
        for each, unit in ((DAYS, "days"), (COST, "USD")):
            own = self.result.get(each)
            size = Fraction(own.number if own is not None else 1)
            if own is None and each == COST and advice is not None:
                costs = (Fraction(remedy.cost) for remedy in advice.remedies if remedy.cost)
                size = next(costs, size)
            found[each] = choose_unit(size, unit)
        return found

    @cached_property
    def heads(self) -> tuple[str, str]:
        """The heads of the columns of time and cost."""
        time, money = (self.units[each][0] for each in (DAYS, COST))
        return time, money.replace("million", "M")

    def _format_cell(self, identifier: str, value: Any) -> str:
        """Format days or USD in the unit of their column, three digits."""
        return numbers.text(Fraction(value) / self.units[identifier][1], style="table")

    @cached_property
    def advice(self) -> Data | None:
        """The nearest layouts that fit, if this one does not: ``rows``, or a sentence ``none``."""
        advice = self.result.advice
        if advice is None:
            return None
        days, note = self.result.get(DAYS), ""
        if days is not None and self.result.assumes_utilisation:  # which no change would move
            days, note = days.alternative, "Time and cost are predicted here."
        rows = [self._build_remedy(remedy, days) for remedy in advice.remedies]
        none = "" if rows else "No change of one or two settings makes it fit."
        return Data(rows=rows, none=none, note=note)

    def _build_remedy(self, remedy: Remedy, days: Quantity | None) -> Better:
        """Build the row of a remedy; its time is the plan's predicted days times the slowdown."""
        capacity, change, values = self.result[CAPACITY].number, None, dict[str, Any]()
        values[PROCESS] = capacity - remedy.headroom
        values["memory.at_worst"] = capacity - remedy.at_worst
        if remedy.slowdown is not None and days is not None:
            change = Fraction(remedy.slowdown) - 1
            values[DAYS] = Fraction(remedy.slowdown) * Fraction(days.number)
        if remedy.cost:
            values[COST] = remedy.cost
        words = format_changes(remedy.changes, self.result.plan.get)
        return self._build_better(words, values, change, remedy.changes)

    @cached_property
    def better(self) -> list[Better]:
        """This plan, then faster layouts near it that fit too, fewest changes first; empty if the
        plan does not fit or its time is not predicted."""
        own, plan = self.result, self.result.plan
        if self.result.verdict["state"] != "fits" or DAYS not in own or plan.searched is not None:
            return []
        ids = (DAYS, PROCESS, "memory.at_worst", *([COST] if COST in own else ()))
        rows, days = [], Fraction(own[DAYS].number)
        for near in find_faster(plan, ids, own.evaluation):
            values = {i: Fraction(near.values[i]) for i in ids}
            words, change = format_changes(near.chosen, plan.get), values[DAYS] / days - 1
            rows.append(self._build_better(words, values, change, near.changes))
        if not rows:
            return []
        return [self._build_better("This plan", {i: Fraction(own[i].number) for i in ids}), *rows]

    def _build_better(
        self,
        words: str,
        values: Mapping[str, Any],
        change: Fraction | None = None,
        takes: Mapping[str, Any] | None = None,
    ) -> Better:
        """Build a row of the table of layouts.

        Args:
            words: the changes in words.
            values: values by id: bytes of ``memory.process`` and ``memory.at_worst``, and days and
                USD if known.
            change: the relative change of training time.
            takes: new values by key.
        """
        by = "" if change is None else numbers.text(change, style="change")
        days, cost = (
            self._format_cell(name, values[name]) if name in values else "–"
            for name in (DAYS, COST)
        )
        memory, worst = gib(values[PROCESS]), gib(values["memory.at_worst"])
        return Better(words, days, by, cost, memory, worst, *VERDICTS["fits"][1:3], takes or {})

    @cached_property
    def moves(self) -> list[Data]:
        """The sensitivity of training time to 10 % more of an input or to twice a setting, largest
        first; each with a bar from the zero of the common axis."""
        own = self.result
        days = own.get(DAYS)
        if days is None or not days.number:
            return []
        found = [
            (f"10\u00a0% {_describe_key(each.key, each.meaning)}", each.key, Fraction(each.change))
            for each in rank_measures(own, DAYS, most=4)
        ]
        found += [(f"twice the {words}", key, change) for words, key, change in twice(own, DAYS)]
        found = [row for row in found if abs(row[2]) >= LEAST_MOVE]
        found.sort(key=lambda row: -abs(row[2]))
        changes = [change for _, _, change in found]
        low, high = min([*changes, Fraction(0)]), max([*changes, Fraction(0)])
        span = (high - low) or Fraction(1)
        rows = []
        for words, key, change in found:
            start, stop = sorted((Fraction(0), change))
            rows.append(
                Data(
                    words=words[:1].upper() + words[1:],
                    key=key,
                    text=numbers.text(change, style="change"),
                    days=thin(numbers.text(Fraction(days.number) * (1 + change), "days")),
                    x=format_share(start - low, span),
                    width=format_share(stop - start, span),
                    zero=format_share(-low, span),
                    sooner=change < 0,
                )
            )
        return rows


#: The answer of a result; the formats of one report and the summary share it.
answer_of = lru_cache(maxsize=1)(Overview)
#: Settings of parallelism that the plan line names.
DIVIDE = frozenset((*DEGREES, "sequence", "virtual_pipeline", "data", "replicate"))


def build_segments(rows: Sequence[tuple[str, Any, str]], whole: Any) -> list[Data]:
    """Place the parts of a bar side by side.

    Args:
        rows: label, size and id of each part; the id is empty for what is no quantity.
        whole: the size of the full width, in the same unit.

    Returns:
        Label, id, look, start ``x`` and ``width`` of each part, the last two in per cent of the
        whole.
    """
    parts, left = [], Fraction(0)
    for label, size, identifier in rows:
        parts.append(Data(label=label, id=identifier, look=label, x=format_share(left, whole),
                          width=format_share(size, whole)))  # fmt: skip
        left += Fraction(size)
    return parts


def choose_looks(keys: Iterable[tuple[str, str]]) -> list[str]:
    """Choose a look for each part of a step by its group, distinct while looks remain."""
    looks = {
        "arithmetic": iter(("peak", "below", "again")),
        "kernels": iter(("kernel", "launch", "kernel2", "launch2")),
        "exposed communication": iter(("exchange1", "exchange2", "exchange3", "exchange4")),
        "idle": iter(("idle", "idle2")),
    }
    return [next(looks[group], "other") for group, _ in keys]


def format_changes(changes: Any, get: Any) -> str:
    """Format the changes of a layout: tensor 8→4, zero 1→2."""
    return ", ".join(
        f"{trim_key(key)} {format_option(get(key))}→{format_option(value)}"
        for key, value in changes.items()
        if value is not None
    )


def gib(size: Any) -> str:
    """Format bytes in GiB, three digits, without the unit."""
    return numbers.text(Fraction(size) / GIB, style="table")


def format_seconds(size: Fraction, whole: Fraction) -> str:
    """Format a part of a step in the unit of the step."""
    return numbers.text(size, "s") if whole < 1 else f"{numbers.text(size, style='table')} s"


def _describe_key(key: str, meaning: str) -> str:
    """Describe an increase of an input by the start of its meaning."""
    if key == "training.tokens":
        return "more tokens"
    words = clean(meaning).partition(",")[0]
    return f"higher {words[:1].lower()}{words[1:]}"


def _split_value(quantity: Quantity) -> tuple[str, str]:
    """Split a value as printed into number and unit."""
    if _is_wide(quantity):
        return scientific(quantity.number), "" if quantity.unit == "1" else quantity.unit
    number, _, unit = quantity.text().partition(" ")
    if quantity.unit == "parameters":
        unit = ""
    return number, "% of peak" if quantity.base == "time.mfu" else unit


def _format_ends(quantity: Quantity) -> tuple[str, str]:
    """Format the ends of an interval, three digits, in the unit of the value."""
    if quantity.interval is None:
        return "", ""
    if quantity.declared.share:
        low, high = (quantity.declared.text(end).removesuffix(" %") for end in quantity.interval)
    elif quantity.base == PROCESS:
        low, high = map(gib, quantity.interval)
    else:
        size = choose_unit(quantity.value, quantity.unit)[1]
        wide = _is_wide(quantity)
        ends = (Fraction(end) / (1 if wide else size) for end in quantity.interval)
        low, high = (scientific(end) if wide else numbers.text(end, style="table") for end in ends)
    return low, high


def _is_wide(quantity: Quantity) -> bool:
    """Decide whether a value in a unit of the user's has too many digits for a line."""
    _, size = choose_unit(quantity.value, quantity.unit)
    return quantity.declared.own and abs(quantity.number / size) >= 10**7


def format_share(part: Any, whole: Any) -> str:
    """Format a share in per cent, two decimals, for a style sheet."""
    return f"{float(Fraction(part) * 100 / Fraction(whole)):.2f}"


def _place_label(share: Any) -> str:
    """Place the label of a bar's end: right of it, or left of it near the edge."""
    place = float(100 * share)
    return f"right:{100 - place:.2f}%" if place > 75 else f"left:{place:.2f}%"


def _locate_value(value: Any, around: Any, clip: bool = False) -> str | None:
    """Locate a value on the scale around another (``SCALE``: half of it to half as much again).

    Args:
        value: the value to place.
        around: the value in the middle of the scale.
        clip: whether to move what is outside to the nearer end.

    Returns:
        The position in per cent; None outside the scale.
    """
    low, high = SCALE
    place = (Fraction(value) / Fraction(around) - low) / (high - low)
    if clip:
        place = min(max(place, Fraction(0)), Fraction(1))
    return format_share(place, 1) if 0 <= place <= 1 else None


def _shift_labels(low: str | None, high: str | None) -> tuple[str, str]:
    """Separate the positions of two labels, in per cent, so that they do not overlap."""
    a, b = float(low or 0), float(high or 100)
    least = 24.0
    if b - a < least:
        middle = min(max((a + b) / 2, least / 2), 100 - least / 2)
        a, b = middle - least / 2, middle + least / 2
    return f"{max(a, 6):.1f}", f"{min(b, 94):.1f}"
