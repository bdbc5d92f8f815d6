"""The first screen: what was planned, four numbers with their intervals, where memory and time go,
what would be better and what moves the answer. Plain data that terminal, Markdown and HTML place.

Numbers have three digits here; the quantities that they come from are named by id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from planner.base.display import exact_text, scientific, significant
from planner.plans.layout import DEGREES, stated
from planner.questions.nearby import faster
from planner.questions.sensitivity import sensitivities, twice
from planner.report.layout import DAYS, NUMBERS, PARTS_OF_STEP, SERVING, STATUS, STEP, short_key
from planner.report.numbers import (
    GIB,
    Data,
    clean,
    headline,
    percent,
    scale,
    shares,
    shown,
    signed,
    thin,
)
from planner.results import intervals
from planner.results.remedies import Remedy
from planner.results.result import Quantity, Result

PROCESS, CAPACITY, COST = "memory.process", "memory.capacity", "cost.total"
#: Parts of the memory of a device, in the order of the bar; the last two make a process of them.
OF_MEMORY = ("weights", "gradients", "optimizer", "activations", "buffers", "cache")
MANY = {"optimizer": "optimizer states", "cache": "keys and values"}
#: Whiskers of all numbers share this scale: half of the value to half as much again.
SCALE = (Fraction(1, 2), Fraction(3, 2))
#: Groups of the parts of a step, in the order of the bar.
PEAK = ("arithmetic", "at peak rate")
GROUPS = ("arithmetic", "kernels", "waiting for exchange", "idle")


class Better(NamedTuple):
    """A row of the table of layouts: what changes, and what comes of it."""

    changes: str
    days: str
    change: str  # of the time
    cost: str
    memory: str
    worst: str
    status: str
    word: str


class Answer:
    """What the first screen says of a result."""

    def __init__(self, result: Result) -> None:
        self.result = result
        #: The same plan with its time predicted, where the plan assumes a utilisation.
        self.predicted = result.predicted or result
        self.status, self.word = STATUS[result.verdict["state"]]
        self.serves = result.plan.settings["training.mode"] == "inference"
        self.unsafe = result.verdict["state"] in ("no", "tight")

    # -- the verdict --------------------------------------------------------------------------

    @cached_property
    def sentence(self) -> list[tuple[str, bool]]:
        """The verdict in words, in pieces; of numbers it is true that they are."""
        result, free = self.result, self.result.get("memory.headroom")
        pieces: list[tuple[str, bool]] = []
        if free is None or CAPACITY not in result:
            pieces += [(f"What decides is not stated: {clean(result.verdict['reason'])}. ", False)]
        elif self.status == "bad":
            process = result["memory.process"]
            low, high = _ends(process)
            between = f" ({low}–{high})" if low else ""
            pieces += [
                (f"{gib(process.value)}\u00a0GiB", True),
                (f"{between} are needed, {gib(result[CAPACITY].value)} are there", False),
                (f"; {self._most()}. ", False),
            ]
        elif self.status == "tight":
            worst = gib(result["memory.at_worst"].value)
            pieces += [
                ("Needs ", False),
                (gib(result["memory.process"].value), True),
                (f" of {gib(result[CAPACITY].value)} GiB, {worst} at worst. ", False),
            ]
        runs = self._runs()
        if runs:
            pieces += runs
        if self.status in ("ok", "unknown") and free is not None and CAPACITY in result:
            least = result.get("memory.headroom_p95")
            left = f", {gib(least.value)} at worst" if least is not None else ""
            if self.status == "unknown":
                left = f" beside the states; {clean(result.verdict['reason'])}"
            pieces.append(
                (f"Of each device's {gib(result[CAPACITY].value)} GiB, "
                 f"{gib(free.value)} stay free{left}.", False)
            )  # fmt: skip
        return pieces

    def _runs(self) -> list[tuple[str, bool]]:
        """How long it runs and for how much, or what serving gives."""
        result, pieces = self.result, list[tuple[str, bool]]()
        name = clean(result.plan.get("model.name") or "The model")
        if self.serves:
            rate = result.get("time.decode_tokens_per_second")
            if rate is not None:
                pieces += [(f"{name} generates ", False), (thin(_brief(rate)), True), (". ", False)]
            return pieces
        days, cost = self.predicted.get(DAYS), self.predicted.get(COST)
        if days is None:
            return []
        first = {"bad": "If it ran: ", "tight": "If it runs: "}.get(self.status)
        pieces = [(first or f"{name} trains in ", False), (thin(_brief(days)), True)]
        if cost is not None:
            pieces += [(", " if first else " for ", False), (thin(_brief(cost)), True)]
        mfu = result.get("time.mfu")
        if mfu is not None and mfu.kind == "assumed":
            if self.predicted is not result:
                pieces.append((f" as predicted, {thin(_brief(result[DAYS]))}", False))
            pieces.append((f" at an assumed utilisation of {thin(_brief(mfu))}", False))
        return [*pieces, (". ", False)]

    def _most(self) -> str:
        """Which part takes most of a device that is too small."""
        parts = [q for base in OF_MEMORY if (q := self.result.get(f"memory.{base}")) is not None]
        most = max(parts, key=lambda part: part.number)
        part = most.base.partition(".")[2]
        return f"{MANY.get(part, part)} take {gib(most.value)}\u00a0GiB"

    @cached_property
    def text(self) -> str:
        """The verdict in words, as one text."""
        return "".join(text for text, _ in self.sentence).strip()

    # -- what was planned ---------------------------------------------------------------------

    @cached_property
    def plan_line(self) -> list[tuple[str, str, str]]:
        """What was planned: pieces of words before a value, the value, and words after it."""
        plan, get = self.result.plan, self.result.plan.get
        unnamed = "an unnamed model" if get("model.layers") else "a model given by its size"
        model = clean(get("model.name") or unnamed)
        active = self.result.get("parameters.active")
        total = self.result.get("parameters.total")
        after = ""
        if total is not None:
            after = f", {_brief(total).removesuffix(' parameters')}"
            if active is not None and active.value != total.value:
                after += f", {_brief(active).removesuffix(' parameters')} active"
        pieces = [("", model, after)]
        devices, accelerator = get("cluster.devices"), get("cluster.accelerator.name")
        if devices:
            node = get("cluster.devices_per_node")
            each = f", {exact_text(node)} a node" if node and node < devices else ""
            pieces.append(("", f"{exact_text(devices)} × {clean(accelerator or 'device')}", each))
        tokens = get("training.tokens")
        if tokens and not self.serves:
            pieces.append(("", short_count(tokens), " tokens"))
        batch, length = get("training.global_batch"), get("training.sequence_length")
        if length:
            sizes = f"{exact_text(batch)} × {exact_text(length)}" if batch else exact_text(length)
            pieces.append(("batch " if batch else "length ", sizes, ""))
        optimizer = "" if self.serves else f", {clean(get('training.optimizer'))}"
        pieces.append(("", clean(get("training.precision")), optimizer))
        degrees = list(stated(get))
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
        pieces.append(("", "layout found" if plan.searched is not None else "layout as stated", ""))
        return [(before, value, after) for before, value, after in pieces if value]

    @cached_property
    def found(self) -> str:
        """How a layout was found; empty for one that was stated."""
        plan = self.result.plan
        if plan.searched is None:
            return ""
        why = next(
            (why for why in plan.derived.values() if why.endswith("(parallelism: auto)")), ""
        )
        return clean(why.removesuffix(" (parallelism: auto)"))

    # -- numbers ------------------------------------------------------------------------------

    @cached_property
    def numbers(self) -> list[Data]:
        """The numbers that answer, most wanted first: all that this plan has of them; behind the
        four that stand large those that it defines."""
        first = SERVING if self.serves else NUMBERS
        every = self.result.evaluation.book.quantities.values()
        own = [(headline(clean(one.title)), one.id) for one in every if one.own]
        rows = (self._number(label, i) for label, i in (*first[:4], *own, *first[4:]))
        return [row for row in rows if row is not None]

    @property
    def beyond(self) -> bool:
        """Whether the interval of one of the four large numbers goes beyond their scale."""
        whiskers = [row.whisker for row in self.numbers[:4] if row.whisker]
        return any(one.lower or one.higher for one in whiskers)

    def _number(self, label: str, identifier: str) -> Data | None:
        quantity = self.result.get(identifier)
        if quantity is None or quantity.absent is not None:
            return None
        # What is predicted leads; what a plan assumes in its place stands beside it.
        assumed, quantity = quantity, quantity.predicted or quantity
        number, unit = _split(quantity)
        low, high = _ends(quantity)
        if identifier == PROCESS and self.status == "unknown":
            label = "Memory, states alone"
        row = Data(id=identifier, label=label, number=number, unit=unit, kind=quantity.kind,
                   low=low, high=high, whisker=None, note="", limit=None)  # fmt: skip
        if identifier == PROCESS and CAPACITY in self.result:
            row.number = gib(quantity.value)
            row.unit = f"of {gib(self.result[CAPACITY].value)} GiB"
            row.limit = _at(self.result[CAPACITY].number, quantity.number)
        price = self.result.plan.get("cluster.price")
        if identifier == COST and price:
            row.label = f"{label} at {significant(Fraction(price), 3)} USD a device-hour"
        between = quantity.interval
        if between is not None and quantity.number:
            ends = [_at(end, quantity.number, True) for end in between]
            over = [_at(end, quantity.number) is None for end in between]
            row.whisker = Data(low=ends[0], high=ends[1], lower=over[0], higher=over[1],
                               assumed=None)  # fmt: skip
            row.labels = _apart(ends[0], ends[1])
            if assumed is not quantity:
                row.whisker.assumed = _at(assumed.number, quantity.number)
        if assumed is not quantity:
            outside = between is not None and not between[0] <= assumed.number <= between[1]
            row.note = f"assumed: {thin(_brief(assumed))}{', outside' if outside else ''}"
        elif quantity.kind == "assumed":
            row.note = "assumed"
        return row

    @cached_property
    def basis(self) -> str:
        """What the intervals rest on: how many published runs of this kind."""
        settings, said = self.predicted.evaluation.case.settings, []
        for name, base in (("time", STEP), ("memory", PROCESS)):
            found = intervals.basis(base, settings)
            if found is None or base not in self.predicted:
                continue
            runs = f"{found.rows} runs, {found.sources} source{'s' * (found.sources != 1)}"
            if found.own:
                runs = clean(found.own)
            elif not found.rows:
                runs = "no run of this kind: as wide as the least certain"
            kind = f" ({clean(found.kind)})" if name == "time" and not found.own else ""
            said.append(f"{name} {runs}{kind}")
        return f"5th to 95th percentile of published runs: {'; '.join(said)}" if said else ""

    # -- memory -------------------------------------------------------------------------------

    @cached_property
    def memory(self) -> Data | None:
        """The memory of the fullest device by part, against what a device has, in GiB."""
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
        # Live tensors at the peak: what the parts hold at their own largest may be more.
        over = sum(size for _, size, _ in rows) - total.number
        cached = reserved.number - total.number if reserved is not None else Fraction(0)
        rest = process.number - sum(size for _, size, _ in rows)
        # The cache stands as its own quantity, unless parts at their largest reach into it.
        base = "" if over > 0 or cached < 0 else "memory.allocator"
        rows += [("allocator", max(cached - max(over, 0), 0), base)]
        rows += [("runtime", rest - rows[-1][1], "")]
        rows = [row for row in rows if row[1] > 0]
        low, high = process.interval or (process.number, process.number)
        whole = max(capacity.number, high, process.number)
        segments = segmented(rows, whole)
        for part, (_, size, _) in zip(segments, rows, strict=True):
            part.text = gib(size)
        free = capacity.number - process.number
        stage, phase = result.get("memory.stage"), result.get("memory.phase")
        several = len(result.entries("stage")) > 1
        notes = [clean(stage.value)] if several and stage is not None else []
        notes += [f"peak: {clean(phase.value)}"] if phase is not None else []
        ends = _ends(process)
        return Data(
            id=PROCESS,
            segments=segments,
            total=gib(process.value),
            between=f"{ends[0]}–{ends[1]}" if ends[0] else "",
            capacity=gib(capacity.value),
            at=share_text(capacity.number, whole),
            label=_beside(process.number / whole),
            room=abs(capacity.number - process.number) > whole / 5,
            low=share_text(low, whole),
            high=share_text(high, whole),
            over=share_text(max(-free, Fraction(0)), whole),
            free=gib(abs(free)),
            free_word="Free" if free >= 0 else "Too much",
            note=" · ".join(notes),
        )

    # -- the step -----------------------------------------------------------------------------

    @cached_property
    def step(self) -> Data | None:
        """A predicted step by what it goes to, in seconds: the first part is arithmetic at the peak
        rate, so that its share is the utilisation."""
        result, parts = self.predicted, self.predicted.step_parts
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
            # What is computed again is named; the rest of arithmetic is what rates fall short by.
            again = sum((s for _, name, s in rows if name == "recomputation"), Fraction(0))
            again = min(again, products - peak)
            named["arithmetic", "below peak"] = products - peak - again
            named["arithmetic", "recomputed"] = again
            rows = [row for row in rows if row[0] != "arithmetic"]
        for group, name, seconds in rows:
            named[group, name] = named.get((group, name), Fraction(0)) + seconds
        # What is less than a thousandth is told with the largest of its group.
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
        segments = segmented([(name, named[group, name], "") for group, name in order], whole)
        looks = looked(order)
        each = shares([named[key] for key in order])
        if order[0] == PEAK and mfu is not None:  # its share is the utilisation, as that is printed
            own = percent(Fraction(mfu.number)).removesuffix(" %")
            each[1] = f"{float(each[1]) + float(each[0]) - float(own):.1f}"
            each[0] = own
        for part, key, look, share in zip(segments, order, looks, each, strict=True):
            part.look, part.group, part.share = look, key[0], share
            part.text = seconds_text(named[key], whole)
        groups, left = [], Fraction(0)
        for group in GROUPS:
            size = sum((named[key] for key in order if key[0] == group), Fraction(0))
            if size:
                share = f"{round(100 * size / whole)}"
                at = {"x": share_text(left, whole), "width": share_text(size, whole)}
                text = seconds_text(size, whole)
                groups.append(Data(label=group, share=share, text=text, **at))
                left += size
        tokens, rate = self._tokens(), result.get("time.tokens_per_second")
        low, high = _ends(step)
        return Data(
            id=STEP,
            total=thin(_brief(step)),
            between=f"{low}–{high} {_split(step)[1]}" if low else "",
            note=" · ".join(filter(None, (tokens, thin(_brief(rate)) if rate is not None else ""))),
            segments=segments,
            groups=groups,
            assumed=result is not self.result,
        )

    def _tokens(self) -> str:
        get = self.result.plan.get
        batch, length = get("training.global_batch"), get("training.sequence_length")
        return f"{exact_text(batch * length)} tokens" if batch and length else ""

    # -- what would be better, what moves it --------------------------------------------------

    @cached_property
    def units(self) -> dict[str, tuple[str, int | Fraction]]:
        """The units that tables of layouts give time and money in, those of this plan or of the
        first remedy, and how large each is in days and USD."""
        advice, found = self.result.advice, dict[str, tuple[str, int | Fraction]]()
        for each, unit in ((DAYS, "days"), (COST, "USD")):
            own = self.predicted.get(each)
            size = Fraction(own.number if own is not None else 1)
            if own is None and each == COST and advice is not None:
                costs = (Fraction(remedy.cost) for remedy in advice.remedies if remedy.cost)
                size = next(costs, size)
            found[each] = scale(size, unit)
        return found

    @cached_property
    def heads(self) -> tuple[str, str]:
        """Above the columns of time and money."""
        time, money = (self.units[each][0] for each in (DAYS, COST))
        return time, money.replace("million", "M")

    def _in_column(self, identifier: str, value: Any) -> str:
        return significant(Fraction(value) / self.units[identifier][1], 3)

    @cached_property
    def advice(self) -> Data | None:
        """The nearest safe plans of one that is not: ``rows``, and ``none`` where nothing helps."""
        advice = self.result.advice
        if advice is None:
            return None
        days = self.predicted.get(DAYS)
        rows = [self._remedy(remedy, days) for remedy in advice.remedies]
        return Data(
            rows=rows, none="" if rows else "No one or two changes of the layout make it safe."
        )

    def _remedy(self, remedy: Remedy, days: Quantity | None) -> Better:
        capacity = self.result[CAPACITY].number
        slower, text, change = remedy.slowdown, "–", ""
        if slower is not None and days is not None:
            text = self._in_column(DAYS, Fraction(slower) * Fraction(days.number))
            change = f"{signed(Fraction(slower) - 1)}"
        cost = self._in_column(COST, remedy.cost) if remedy.cost else "–"
        return Better(changed(remedy.changes, self.result.plan.get), text, change, cost,
                      gib(capacity - remedy.headroom), gib(capacity - remedy.at_worst),
                      *STATUS["fits"])  # fmt: skip

    @cached_property
    def better(self) -> list[Better]:
        """This plan, then faster layouts near it that are safe too, fewest changes first; nothing
        where the plan is not safe or its time is not predicted."""
        own, plan = self.predicted, self.predicted.plan
        if self.result.verdict["state"] != "fits" or DAYS not in own or plan.searched is not None:
            return []
        ids = (DAYS, PROCESS, "memory.at_worst", *([COST] if COST in own else ()))
        rows, days = [], Fraction(own[DAYS].number)
        for near in faster(plan, ids, own.evaluation):
            values = {i: Fraction(near.values[i]) for i in ids}
            rows.append(
                self._better(changed(near.chosen, plan.get), values, values[DAYS] / days - 1)
            )
        if not rows:
            return []
        name = "This plan" if own is self.result else "This plan, as predicted"
        return [self._better(name, {i: Fraction(own[i].number) for i in ids}, None), *rows]

    def _better(self, words: str, values: dict[str, Fraction], change: Fraction | None) -> Better:
        cost = self._in_column(COST, values[COST]) if COST in values else "–"
        by = "" if change is None else signed(change)
        days = self._in_column(DAYS, values[DAYS])
        memory, worst = gib(values[PROCESS]), gib(values["memory.at_worst"])
        return Better(words, days, by, cost, memory, worst, *STATUS["fits"])

    @cached_property
    def moves(self) -> list[Data]:
        """What a tenth more of an input, or twice of a choice, does to the days of training, the
        most first; with a bar to the left or right of where nothing changes."""
        own = self.predicted
        days = own.get(DAYS)
        if days is None or not days.number:
            return []
        found = [(f"10\u00a0% {_of_key(each.key, each.meaning)}", each.key, Fraction(each.change))
                 for each in sensitivities(own, DAYS, most=4)]  # fmt: skip
        found += [(f"twice the {words}", key, change) for words, key, change in twice(own, DAYS)]
        found = [row for row in found if signed(row[2])[1:] != percent(Fraction(0))]
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
                    text=signed(change),
                    days=thin(shown(Fraction(days.number) * (1 + change), "days")),
                    x=share_text(start - low, span),
                    width=share_text(stop - start, span),
                    zero=share_text(-low, span),
                    sooner=change < 0,
                )
            )
        return rows


#: The answer of a result; the formats of one report and the summary share it.
answer_of = lru_cache(maxsize=1)(Answer)
#: What the plan line names of what divides the work.
DIVIDE = frozenset((*DEGREES, "sequence", "virtual_pipeline", "data", "replicate"))


def segmented(rows: Sequence[tuple[str, Any, str]], whole: Any) -> list[Data]:
    """Parts of a bar: label, id, look, and where each begins and how wide it is, in per cent."""
    parts, left = [], Fraction(0)
    for label, size, identifier in rows:
        parts.append(Data(label=label, id=identifier, look=label, x=share_text(left, whole),
                          width=share_text(size, whole)))  # fmt: skip
        left += Fraction(size)
    return parts


def looked(keys: Iterable[tuple[str, str]]) -> list[str]:
    """How each part of a step is drawn, by its group: no two parts of a bar look alike as long as
    there are looks left."""
    looks = {
        "arithmetic": iter(("peak", "below", "again")),
        "kernels": iter(("kernel", "launch", "kernel2", "launch2")),
        "waiting for exchange": iter(("exchange1", "exchange2", "exchange3", "exchange4")),
        "idle": iter(("idle", "idle2")),
    }
    return [next(looks[group], "other") for group, _ in keys]


def changed(changes: Any, get: Any) -> str:
    """Changes of a layout as a reader says them: tensor 8→4, zero 1→2."""
    said = []
    for key, value in changes.items():
        if value is None:
            continue
        before = get(key)
        words = ["yes" if v is True else "no" if v is False else str(v) for v in (before, value)]
        said.append(f"{short_key(key)} {words[0]}→{words[1]}")
    return ", ".join(said)


def gib(size: Any) -> str:
    """Bytes in GiB, three digits, without the unit."""
    return significant(Fraction(size) / GIB, 3).replace("-", "−")


def short_count(count: Any) -> str:
    """A count as people write it: 15T, 1.5M."""
    text = shown(count, "tokens").removesuffix(" tokens")
    return re.sub(r"\.0+(?=[TBM])|(?<=\.\d)0(?=[TBM])", "", text)


def seconds_text(size: Fraction, whole: Fraction) -> str:
    """A part of a step in the unit of the step."""
    return shown(size, "s") if whole < 1 else f"{significant(size, 3)} s"


def _of_key(key: str, meaning: str) -> str:
    """What more of an input is called in a line: the start of what it means."""
    if key == "training.tokens":
        return "more tokens"
    words = clean(meaning).partition(",")[0]
    return f"higher {words[:1].lower()}{words[1:]}"


def _brief(quantity: Quantity) -> str:
    return shown(quantity.value, quantity.unit, quantity.declared.share)


def _split(quantity: Quantity) -> tuple[str, str]:
    """A rounded value and its unit."""
    if _wide(quantity):
        return scientific(quantity.number), "" if quantity.unit == "1" else quantity.unit
    number, _, unit = _brief(quantity).partition(" ")
    if quantity.unit == "parameters":
        unit = ""
    return number, "% of peak" if quantity.base == "time.mfu" else unit


def _ends(quantity: Quantity) -> tuple[str, str]:
    """The ends of an interval, three digits, in the unit that the value is printed in."""
    if quantity.interval is None:
        return "", ""
    if quantity.declared.share:
        low, high = (percent(Fraction(end)).removesuffix(" %") for end in quantity.interval)
    elif quantity.base == PROCESS:
        low, high = map(gib, quantity.interval)
    else:
        size = scale(quantity.value, quantity.unit)[1]
        wide = _wide(quantity)
        ends = (Fraction(end) / (1 if wide else size) for end in quantity.interval)
        low, high = (scientific(end) if wide else significant(end, 3) for end in ends)
    return low, high


def _wide(quantity: Quantity) -> bool:
    """Whether a value of a unit of one's own has more digits than a line has room for."""
    _, size = scale(quantity.value, quantity.unit)
    return quantity.declared.own and abs(quantity.number / size) >= 10**7


def share_text(part: Any, whole: Any) -> str:
    """A share in per cent, two decimals, as style sheets take it."""
    return f"{float(Fraction(part) * 100 / Fraction(whole)):.2f}"


def _beside(share: Any) -> str:
    """Where the label of a bar's end stands: to the right of it, or to the left near the edge."""
    place = float(100 * share)
    return f"right:{100 - place:.2f}%" if place > 75 else f"left:{place:.2f}%"


def _at(value: Any, around: Any, clip: bool = False) -> str | None:
    """Where a value stands on the common scale around another one, in per cent; None outside."""
    low, high = SCALE
    place = (Fraction(value) / Fraction(around) - low) / (high - low)
    if clip:
        place = min(max(place, Fraction(0)), Fraction(1))
    return share_text(place, 1) if 0 <= place <= 1 else None


def _apart(low: str | None, high: str | None) -> tuple[str, str]:
    """Where the labels of two ends stand, in per cent: not over one another."""
    a, b = float(low or 0), float(high or 100)
    least = 24.0
    if b - a < least:
        middle = min(max((a + b) / 2, least / 2), 100 - least / 2)
        a, b = middle - least / 2, middle + least / 2
    return f"{max(a, 6):.1f}", f"{min(b, 94):.1f}"
