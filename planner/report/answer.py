"""The first screen as plain data for terminal, Markdown and HTML: the plan, four numbers with their
intervals, memory and time by part, faster or safer layouts, the sensitivity of time.

Numbers have three digits here; the quantities that they come from are named by id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from planner.base import numbers, units
from planner.base.display import clean, headline, thin
from planner.base.numbers import GIB, choose_unit, exact_text, format_shares, scientific, trim_zeros
from planner.base.sandbox import Record, computed_field
from planner.documents import stacks
from planner.documents.source import SEARCHED, SPLIT
from planner.engine.lower import SIZE_ONLY
from planner.plans import error_bands
from planner.plans.layout import DEGREES, format_option, pick_shown
from planner.plans.pipeline import cut_rule
from planner.questions.sensitivity import rank_measures, twice
from planner.report import facts
from planner.report.layout import (
    DAYS,
    GROUP_LOOKS,
    NUMBERS,
    PARTS_OF_STEP,
    PHASES,
    REINFORCEMENT,
    SERVING,
    STEP,
    trim_key,
)
from planner.results import intervals
from planner.results.improvements import Remedy, find_faster, measure_stack
from planner.results.inputs import find_origin
from planner.results.result import DEFAULT_RATES, Quantity, Result
from planner.results.verdict import FITS, VERDICTS, is_host_short

#: The memory of a device, and what of it leads where the device is too small for the rest.
LEADING = PROCESS, NEEDED = "memory.process", "memory.needed"
CAPACITY, COST = "memory.capacity", "cost.total"
#: Parts of the memory of a device, in the order of the bar; allocator and runtime follow.
OF_MEMORY = ("weights", "gradients", "optimizer", "activations", "buffers", "cache")
MANY = {"optimizer": "optimizer states", "cache": "keys and values"}
#: Why an interval of memory ends at the capacity.
ALL_KEPT = ", up to the whole device, which the allocator may fill with its cache"
#: Changes below this (0.05 %) are not shown.
LEAST_MOVE = Fraction(1, 2000)
#: Whiskers of all numbers share this scale: half of the value to half as much again.
SCALE = (Fraction(1, 2), Fraction(3, 2))
#: Groups of the parts of a step, in the order of the bar.
PEAK = ("arithmetic", "at peak rate")
GROUPS = tuple(GROUP_LOOKS)


class Better(NamedTuple):
    """A row of the table of layouts: the changes and their effects.

    Attributes:
        changes: the settings that differ from the plan, such as tensor 8→4; "This plan" in its own
            row.
        days: training time in the unit of the column; "–" where it is unknown.
        change: the relative change of that time, such as −12 %; empty where it is unknown.
        cost: total cost in the unit of the column; "–" where it is unknown.
        memory: predicted peak memory of a device, GiB.
        worst: memory that is needed at worst, GiB.
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


class Headline(Record):
    """A headline number; places are in per cent of the scale of the large numbers.

    Attributes:
        id, label: the quantity, and what it is called.
        number, unit: the value as printed.
        kind: how it is known.
        low, high: the ends of its interval; empty without one.
        note: what it rests on.
        limit: the place of the capacity; None outside the scale.
        ends: the places of the ends, at those of the scale if they are further out; empty without
            an interval.
        beyond: for each end, whether it is further out.
        labels: where the ends are written.
        assumed: the place of the value at the assumed utilisation; None without one.
    """

    id: str
    label: str
    number: str
    unit: str
    kind: str
    low: str
    high: str
    note: str
    limit: str | None
    ends: Sequence[str]
    beyond: Sequence[bool]
    labels: Sequence[str]
    assumed: str | None


class Segment(Record):
    """A part of a bar.

    Attributes:
        label, id: what it is, and the quantity; empty for what is none.
        look: its style.
        x, width: where it begins and how wide it is, in per cent of the bar.
        text, share: its size as printed, and its share in per cent.
        group: the group that it belongs to.
    """

    label: str
    id: str
    look: str
    x: str
    width: str
    text: str = ""
    share: str = ""
    group: str = ""


class Bar(Record):
    """A quantity by its parts.

    Attributes:
        id, total, title: the quantity as printed, and what it is called.
        between: its interval; empty without one.
        note: what is said beside it.
        segments, groups: its parts, and the groups of these.

        Of memory also, with places in per cent of the bar:

        capacity, free: GiB as printed; ``free_word`` is whether it is free or too much.
        at, low, high: the places of the capacity, and of the ends of the interval.
        label: the place of the total, as a style.
        room: whether there is room for the capacity beside it.
        over: how wide the part beyond the capacity is.
    """

    id: str
    total: str
    between: str
    note: str
    segments: list[Segment]
    title: str = "One step"
    groups: Sequence[Segment] = ()
    capacity: str = ""
    free: str = ""
    free_word: str = ""
    at: str = ""
    low: str = ""
    high: str = ""
    label: str = ""
    room: bool = False
    over: str = ""


class SensitivityBar(Record):
    """What more of an input does to training time.

    Attributes:
        words, key: the input in words, and its key.
        text, days: the change, and the time then.
        x, width, zero: its bar and the zero of the axis, in per cent.
        sooner: whether the time is less.
    """

    words: str
    key: str
    text: str
    days: str
    x: str
    width: str
    zero: str
    sooner: bool


class Overview(Record):
    """The contents of the first screen, which the terminal and all reports share.

    Attributes:
        status: the style of the verdict: ok, tight, bad or unknown.
        word: the verdict in words, with its reason if there is one.
        unsafe: whether the plan does not fit or fits only tightly.
    """

    _result: Result
    _serves: bool
    status: str
    word: str
    unsafe: bool

    @computed_field
    def _phases(self) -> list[tuple[str, Quantity]]:
        """The step of reinforcement learning and its phases that take time, by what they are
        called; empty for another plan."""
        named = [(label, self._result.get(i)) for label, i in PHASES]
        whole = named[0][1]  # without which the others are no step
        return [(label, one) for label, one in named if whole and one is not None and one.number]

    @computed_field
    def simulated(self) -> str:
        """The simulated allocator, as a sentence; empty where the simulation takes too long."""
        words = facts.describe_allocator(self._result, facts.MOST_ALIVE)
        return f"{headline(words)}." if words else ""

    @computed_field
    def sentence(self) -> list[tuple[str, bool]]:
        """The verdict in words, in pieces; each with whether it is a number."""
        result, free = self._result, self._result.get("memory.headroom")
        pieces: list[tuple[str, bool]] = []
        if free is None or CAPACITY not in result:
            why = result["memory.headroom"].absent or result.verdict["reason"]
            pieces += [(f"{headline(clean(why))}. ", False)]
        elif is_host_short(result):
            host, node = result["memory.host"].value, result.plan.get("cluster.node_memory")
            pieces += [
                (f"{gib(host)}\u00a0GiB", True),
                (f" of {gib(node)} GiB of host memory needed per node. ", False),
            ]
        elif self.status == "bad" and (short := self._find_short_phase()):
            before, size, after = short
            pieces += [(before, False), (f"{gib(size)}\u00a0GiB", True), (f" {after}. ", False)]
        elif self.status == "bad":
            needs, also, why = self.needs
            most = f" ({gib(also.value)} {why})" if also.text() != needs.text() else ""
            pieces += [
                (f"{gib(needs.value)}\u00a0GiB", True),
                (f" needed per device of {gib(result[CAPACITY].value)} GiB{most}", False),
                (f"; {self._name_largest()}. ", False),
            ]
        elif self.status == "tight":
            needs, also, why = self.needs
            pieces += [
                ("Needs ", False),
                (gib(needs.value), True),
                (f" of {gib(result[CAPACITY].value)} GiB per device ", False),
                (f"({gib(also.value)} {why}). ", False),
            ]
            if self.simulated:
                pieces.append((f"{self.simulated} ", False))
        runs = self._describe_run()
        if runs:
            pieces += runs
        if self.status in ("ok", "unknown") and free is not None and CAPACITY in result:
            least, peak = result.get("memory.headroom_p95"), result.get("rl.memory.peak")
            at_worst = gib(least.value) if least is not None else ""
            left = f"; {at_worst} at worst, after the allocator gives its cache back"
            left = left if at_worst not in ("", gib(free.value)) else ""
            what, why = "Peak memory", f" ({gib(free.value)} free{left})"
            used = result["memory.process"]
            if peak is not None:
                critic, used, rollout = (
                    result[f"rl.memory.{name}"] for name in ("critic", "update", "rollout")
                )
                of_it = f", of it the critic {gib(critic.value)}" if critic.value else ""
                what, why = "An update takes", f"{of_it}; the rollout {gib(rollout.value)}"
            if self.status == "unknown":
                what, why = "Memory of the states alone:", f"; {SIZE_ONLY}"
            capacity = gib(result[CAPACITY].value)
            pieces.append((f"{what} {gib(used.value)} of {capacity} GiB per device{why}.", False))
        return pieces

    @property
    def needs(self) -> tuple[Quantity, Quantity, str]:
        """What a device needs, what it may come to, and how; of a plan whose device is too small
        for what the allocator would keep, that is what it may come to."""
        worst, kept = (self._result[name] for name in ("memory.at_worst", PROCESS))
        if self.lacking:
            return self._result[NEEDED], kept, "with what the allocator would keep"
        return kept, worst, "at worst"

    @property
    def lacking(self) -> bool:
        """Whether a device is too small for what the allocator would keep."""
        free = self._result.get("memory.headroom")
        return self.status in ("tight", "bad") and free is not None and free.number < 0

    def _find_short_phase(self) -> tuple[str, Any, str] | None:
        """Find the phase of reinforcement learning in which a device is too small: bytes between
        the words of a sentence; None for another plan, or where the trainer alone is."""
        lacks = self._result.get("rl.memory.engine_headroom")
        left: Any = self._result[FITS].value
        if lacks is not None and lacks.value == left:
            lacked = "in its share of each device for its weights and one longest sequence"
            return "The engine lacks ", -left, lacked
        if lacks is not None and self._result["rl.memory.headroom"].value == left:
            of = f"{gib(self._result[CAPACITY].value)} GiB in the fullest phase of a step"
            return "", self._result["rl.memory.peak"].value, f"needed per device of {of}"
        return None

    def _describe_run(self) -> list[tuple[str, bool]]:
        """Return how long training takes and its cost, or the rate of serving."""
        result, pieces = self._result, list[tuple[str, bool]]()
        name = clean(result.plan.get("model.name") or "The model")
        if self._serves:
            rate = result.get("time.decode_tokens_per_second")
            if rate is not None:
                pieces += [(f"{name} generates ", False), (thin(rate.text()), True), (". ", False)]
            return pieces
        if self._phases:
            (_, whole), *parts = self._phases
            named = ", ".join(f"{label} {thin(one.text())}" for label, one in parts)
            waits = result["rl.trainer_idle_share"], result["rl.rollout_idle_share"]
            sides = zip(("trainer", "engine"), waits, strict=True)
            idle = [f"; the {side} waits {thin(one.text())}" for side, one in sides if one.number]
            devices = result.plan.get("rl.rollout.devices")
            balanced = result.get("rl.balanced_devices")
            if idle and balanced and (best := round(balanced.number)) != devices:
                idle.append(f"; {best} devices for the engine instead of {devices} balance them")
            pieces = [("A step takes ", False), (thin(whole.text()), True)]
            return [*pieces, (f": {named}{''.join(idle)}. ", False)]
        if result.plan.reinforced:
            why = result.absent.get("rl.step_seconds", "")
            return [(f"The time of a step is unknown: {clean(why)}. ", False)]
        days, cost = result.get(DAYS), result.get(COST)
        if days is None:
            step, rate = result.get("time.step_seconds"), result.get("time.tokens_per_second")
            if step is None or rate is None or self.status == "bad":
                return []
            pieces = [("A step takes ", False), (thin(step.text()), True)]
            return [*pieces, (" (", False), (thin(rate.text()), True), ("). ", False)]
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
        parts = [q for base in OF_MEMORY if (q := self._result.get(f"memory.{base}")) is not None]
        most = max(parts, key=lambda part: part.number)
        part = most.base.partition(".")[2]
        return f"{MANY.get(part, part)} take {gib(most.value)}\u00a0GiB"

    @computed_field
    def text(self) -> str:
        """The verdict in words, as one text."""
        return "".join(text for text, _ in self.sentence).strip()

    @computed_field
    def plan_line(self) -> list[tuple[str, str, str]]:
        """The plan in pieces: words before a value, the value, and words after it."""
        plan, get = self._result.plan, self._result.plan.get
        unnamed = "an unnamed model" if get("model.layers") else "a model given by its size"
        model = clean(get("model.name") or unnamed)
        active = self._result.get("parameters.active")
        total = self._result.get("parameters.total")
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
        if tokens and not self._serves:
            pieces.append(("", trim_zeros(numbers.text(tokens, "tokens", "table")), " tokens"))
        batch, length = get("training.global_batch"), get("training.sequence_length")
        if asked := get("rl.prompts"):  # the trainer's batch is packed: nobody stated its sizes
            pieces.append(("", f"{exact_text(asked)} × {get('rl.samples')}", " responses a step"))
        elif length:
            sizes = f"{exact_text(batch)} × {exact_text(length)}" if batch else exact_text(length)
            pieces.append(("batch " if batch else "length ", sizes, ""))
        optimizer = "" if self._serves else f", {clean(get('training.optimizer'))}"
        pieces.append(("", clean(get("training.precision")), optimizer))
        if not self._serves:
            if stack := get("training.stack"):
                pieces.append(("", clean(stacks.load_stack(stack)["name"]), ""))
            pieces.append(("", clean(get("training.implementation") or ""), " kernels"))
            if rank := get("training.lora.rank"):
                after = f", {get('training.lora.base')} weights"
                name = "DoRA" if get("training.lora.dora") else "LoRA"
                pieces.append((f"{name} rank ", str(rank), after))
        degrees = list(pick_shown(get))
        divided = [
            row.heading if value is True else f"{row.heading} {value}"
            for row, value in degrees
            if row.name in DIVIDE and value is not False
        ]
        if divided:
            pieces.append(("", ", ".join(divided), ""))
        if self._assumes_even_routing():
            pieces.append(("", "balanced routing", " assumed"))
        if not self._serves:
            pieces.append(("ZeRO-", str(get("parallelism.zero")), ""))
            pieces.append(("micro-batch ", str(get("training.micro_batch")), ""))
            recompute = get("training.recompute")
            pieces.append(("", "no" if recompute == "none" else clean(recompute), " recompute"))
            if (get("parallelism.pipeline") or 1) > 1:
                pieces.append(("", clean(get("training.schedule")), " schedule"))
            layers = len(plan.model.sequence) if plan.model else 0
            if layers and cut_rule(layers, plan.data["parallelism"]) == "ends":
                pieces.append(("", "both ends counted as layers", ""))
        if rollout := get("rl.rollout"):
            split = [name for name in ("tensor", "pipeline", "expert") if rollout[name] > 1]
            each = "".join(f", {name} {rollout[name]}" for name in split)
            pieces.append(("engine: ", f"{rollout['devices']} devices", each))
        pieces.append(("layout: ", "from the plan" if plan.searched is None else "found", ""))
        return [(before, value, after) for before, value, after in pieces if value]

    def _assumes_even_routing(self) -> bool:
        """Return whether experts are divided, no row is dropped, and the plan does not state how
        unevenly they are loaded."""
        plan = self._result.plan
        divided, rows = plan.get("parallelism.expert") or 1, plan.get("model.moe") or {}
        stated = find_origin(plan, "training.expert_imbalance")[0] != "default"
        return divided > 1 and rows.get("capacity_factor") is None and not stated

    @computed_field
    def found(self) -> str:
        """How the search chose the layout, and the split of devices; empty if the plan has them."""
        derived = dict.fromkeys(self._result.plan.derived.values())
        split = "; ".join(clean(why.removesuffix(SPLIT)) for why in derived if why.endswith(SPLIT))
        if self._result.plan.searched is None:
            return split
        why = next((why for why in derived if why.endswith(SEARCHED)), "")
        layout = clean(why.removesuffix(SEARCHED)) + self._explain_stack()
        return f"{layout}; split {split}" if split else layout

    @computed_field
    def published(self) -> str:
        """What a run of this plan measured, beside the prediction; empty without one, and for a
        plan with changed keys."""
        document, found = self._result.plan.document, []
        for row in () if document.overrides else document.get("measured") or ():
            if (quantity := self._result.get(row["quantity"])) is not None and quantity.number:
                measured = units.parse(row["value"], quantity.unit)
                change = numbers.text(Fraction(quantity.number) / measured - 1, style="change")
                when = ", ".join(filter(None, (row["source"], row.get("date"), row.get("note"))))
                title = clean(quantity.title.partition(" (")[0].removeprefix("predicted "))
                predicted = f"predicted {quantity.text()}, {change}"
                found.append(f"{title} {clean(row['value'])} ({clean(when)}); {predicted}")
        return "; ".join(found)

    def _explain_stack(self) -> str:
        """Explain the stack of a plan that names no software, and what its settings save; empty for
        other plans."""
        plan = self._result.plan
        kind, why = find_origin(plan, "training.stack")
        if kind != stacks.KIND:
            return ""
        stack = f". Stack by default: {clean(plan.get('training.stack'))}, {clean(why)}"
        saved = ((words, numbers.text(by, style="change")) for words, by in measure_stack(plan))
        rows = [f"{words} ({by})" for words, by in saved]
        return f"{stack}. A step takes longer with {', '.join(rows)}" if rows else stack

    @computed_field
    def numbers(self) -> list[Headline]:
        """The headline quantities in order, those that this plan has: four large ones, then the
        plan's own, then the others."""
        first = SERVING if self._serves else REINFORCEMENT if self._phases else NUMBERS
        every = self._result.evaluation.book.quantities.values()
        own = [(headline(clean(one.title)), one.id) for one in every if one.own]
        wanted = [row for row in (*first[:4], *own, *first[4:]) if row[1] in self._result]
        rows = (
            self._build_number(label, self.needs[0].id if i == PROCESS else i)
            for label, i in wanted
        )
        return [row for row in rows if row is not None]

    @computed_field
    def beyond(self) -> bool:
        """Whether one of the four large numbers has an interval beyond the scale."""
        return any(any(row.beyond) for row in self.numbers[:4])

    @computed_field
    def ring(self) -> bool:
        """Whether an assumed value is marked beside a predicted one."""
        return any(row.assumed for row in self.numbers)

    def _build_number(self, label: str, identifier: str) -> Headline | None:
        """Build a headline number with its interval, limit and note; None if the plan lacks the
        quantity.

        Args:
            label: what to call it.
            identifier: the id of the quantity.
        """
        quantity = self._result.get(identifier)
        if quantity is None or quantity.absent is not None:
            return None
        number, unit = _split_value(quantity)
        low, high = _format_ends(quantity)
        if identifier == PROCESS and self.status == "unknown":
            label = "Memory, states alone"
        ends, note, limit, ring = list[tuple[str, bool]](), "", None, None
        if identifier in LEADING and CAPACITY in self._result:
            capacity = self._result[CAPACITY]
            number, unit = gib(quantity.value), f"of {gib(capacity.value)} GiB"
            place, outside = _locate_value(capacity.number, quantity.number)
            limit = None if outside else place
        price = self._result.plan.get("cluster.price")
        if identifier == COST and price:
            label = f"{label} at {numbers.text(price)} USD per GPU-hour"
        between, other = quantity.interval, quantity.alternative
        if between is not None and quantity.number:
            ends = [_locate_value(end, quantity.number) for end in between]
            if other is not None:
                place, outside = _locate_value(other.number, quantity.number)
                ring = None if outside else place
        if other is not None and self._result.assumes_utilisation:
            note = f"assumed; predicted: {thin(other.text())}"
        elif other is not None:
            outside = between is not None and not between[0] <= other.number <= between[1]
            note = f"assumed: {thin(other.text())}{', outside' if outside else ''}"
        elif quantity.assumption:
            note = "default rates" if quantity.assumption == DEFAULT_RATES else "assumed"
        places = [place for place, _ in ends]
        return Headline(
            identifier, label, number, unit, quantity.kind, low, high, note, limit, places,
            beyond=[outside for _, outside in ends],
            labels=_shift_labels(*places) if ends else (),
            assumed=ring,
        )  # fmt: skip

    @computed_field
    def basis(self) -> str:
        """The published runs behind the intervals: their number and kind."""
        settings, said = self._result.evaluation.case.settings, []
        for name, base in (("time", STEP), ("memory", PROCESS)):
            found = intervals.find_basis(base, settings)
            if found is None or base not in self._result:
                continue
            runs = f"{found.rows} runs, {found.sources} source{'s' * (found.sources != 1)}"
            if found.own:
                runs = clean(found.own)
            elif not found.rows:
                runs = "no runs of this kind: as wide as the widest known interval"
            kind = f" ({clean(found.kind)})" if name == "time" and not found.own else ""
            full = name == "memory" and self.needs[0].base == PROCESS and self._may_be_full
            said.append(f"{name} {runs}{kind}{ALL_KEPT if full else ''}")
        step = self._result.get(STEP)
        if said and step is not None and step.assumption == DEFAULT_RATES:
            said.append(f"times rest on {DEFAULT_RATES}")
        best, mfu = error_bands.find_best_run(self._result.plan.get), self._result.get("time.mfu")
        if said and best and mfu is not None and mfu.number > best["mfu"]:
            reached = f"{numbers.text(best['mfu'], style='share')} ({best['run']})"
            said.append(
                f"no run in presets/runs on as many {best['architecture']} devices reaches this "
                f"utilisation, the best {reached} on {numbers.text(best['devices'])}"
            )
        return f"90 % intervals from published runs: {'; '.join(said)}" if said else ""

    @property
    def _may_be_full(self) -> bool:
        """Whether the capacity cuts the interval of the memory of the process."""
        capacity, between = self._result.get(CAPACITY), self._result[PROCESS].interval
        return between is not None and capacity is not None and between[1] == capacity.number

    @computed_field
    def memory(self) -> Bar | None:
        """The memory of the fullest device by part and the device's capacity, in GiB."""
        result = self._result
        capacity, total = result.get(CAPACITY), result.get("memory.total")
        if PROCESS not in result or capacity is None or total is None:
            return None
        needs = self.needs[0]
        # What the process cannot give back has no cache of the allocator in it.
        reserved = result.get("memory.reserved") if needs.base == PROCESS else None
        rows: list[tuple[str, Any, str]] = [
            (base, q.number, q.id)
            for base in OF_MEMORY
            if (q := result.get(f"memory.{base}")) is not None and q.number > 0
        ]
        # Live tensors at the peak: each part at its own maximum may sum to more.
        over = sum(size for _, size, _ in rows) - total.number
        cached = reserved.number - total.number if reserved is not None else Fraction(0)
        rest = needs.number - sum(size for _, size, _ in rows)
        # The allocator's cache is linked to its quantity, unless the parts exceed the total.
        base = "" if over > 0 or cached < 0 else "memory.allocator"
        rows += [("allocator", max(cached - max(over, 0), 0), base)]
        rows += [("runtime", rest - rows[-1][1], "")]
        rows = [row for row in rows if row[1] > 0]
        low, high = needs.interval or (needs.number, needs.number)
        whole = max(capacity.number, high, needs.number)
        segments = build_segments(rows, whole)
        texts = [gib(size) for _, size, _ in rows]
        free = capacity.number - needs.number
        stage, phase = result.get("memory.stage"), result.get("memory.phase")
        several = len(result.list_entries("stage")) > 1
        notes = [clean(stage.value)] if several and stage is not None else []
        notes += [f"peak: {clean(phase.value)}"] if phase is not None else []
        if (most := result.get("rl.memory.peak")) is not None:
            notes.append(f"the trainer alone: the fullest phase of a step takes {gib(most.value)}")
            critic, update = (result[f"rl.memory.{name}"].value for name in ("critic", "update"))
            if critic:
                notes.append(f"an update takes {gib(update)}, of it the critic {gib(critic)}")
        ends = _format_ends(needs)
        return Bar(
            id=needs.id,
            segments=[replace(p, text=text) for p, text in zip(segments, texts, strict=True)],
            total=gib(needs.value),
            between=f"{ends[0]}–{ends[1]}" if ends[0] else "",
            capacity=gib(capacity.value),
            at=format_share(capacity.number, whole),
            label=_place_label(needs.number / whole),
            room=abs(free) > whole / 5,
            low=format_share(low, whole),
            high=format_share(high, whole),
            over=format_share(max(-free, Fraction(0)), whole),
            free=gib(abs(free)),
            free_word="Free" if free >= 0 else "Too much",
            note=" · ".join(notes),
        )

    @computed_field
    def step(self) -> Bar | None:
        """The parts of a predicted step, in seconds; the first is arithmetic at the peak rate, so
        its share is the utilisation."""
        result, parts = self._result, self._result.step_parts
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
        order = [key for key in named if named[key] > 0]
        order.sort(key=lambda k: (GROUPS.index(k[0]), k[0] != "arithmetic" and -named[k]))
        segments = build_segments([(name, named[group, name], "") for group, name in order], whole)
        further = {group: iter(several) for group, several in GROUP_LOOKS.items()}
        looks = [next(further[group], "other") for group, _ in order]  # distinct while some remain
        each = format_shares([named[key] for key in order])
        if order[0] == PEAK and mfu is not None:  # its share is the utilisation, as that is printed
            own = mfu.text().removesuffix(" %")
            rest = Fraction(each[1]) + Fraction(each[0]) - Fraction(own)
            each[1] = numbers.text(rest / 100, style="share").removesuffix(" %")
            each[0] = own
        segments = [
            replace(part, look=look, group=key[0], share=s, text=format_seconds(named[key], whole))
            for part, key, look, s in zip(segments, order, looks, each, strict=True)
        ]
        groups, left = [], Fraction(0)
        for group in GROUPS:
            size = sum((named[key] for key in order if key[0] == group), Fraction(0))
            if size:
                share = exact_text(round(100 * size / whole))
                at, width = format_share(left, whole), format_share(size, whole)
                groups.append(Segment(group, "", "", at, width, share=share))
                left += size
        tokens, rate = self._format_tokens(), result.get("time.tokens_per_second")
        low, high = _format_ends(step)
        return Bar(
            id=STEP,
            title="One optimizer step" if result.plan.reinforced else "One step",
            total=thin(step.text()),
            between=f"{low}–{high} {_split_value(step)[1]}" if low else "",
            note=" · ".join(filter(None, (tokens, thin(rate.text()) if rate is not None else ""))),
            segments=segments,
            groups=groups,
        )

    def _format_tokens(self) -> str:
        """Format the tokens of a step; empty if batch or sequence length is unknown."""
        get = self._result.plan.get
        batch, length = get("training.global_batch"), get("training.sequence_length")
        return f"{exact_text(batch * length)} tokens" if batch and length else ""

    @cached_property
    def _units(self) -> dict[str, tuple[str, int | Fraction]]:
        """The units of time and cost in tables of layouts, for this plan or the first remedy, each
        with its size in days or USD."""
        advice, found = self._result.advice, dict[str, tuple[str, int | Fraction]]()
        for each, unit in ((DAYS, "days"), (COST, "USD")):
            own = self._result.get(each)
            size = Fraction(own.number if own is not None else 1)
            if own is None and each == COST and advice is not None:
                costs = (Fraction(remedy.cost) for remedy in advice.remedies if remedy.cost)
                size = next(costs, size)
            found[each] = choose_unit(size, unit)
        return found

    @computed_field
    def heads(self) -> tuple[str, str]:
        """The heads of the columns of time and cost."""
        time, money = (self._units[each][0] for each in (DAYS, COST))
        return time, money.replace("million", "M")

    def _format_cell(self, identifier: str, value: Any) -> str:
        """Format days or USD in the unit of their column, three digits."""
        return numbers.text(Fraction(value) / self._units[identifier][1], style="table")

    @computed_field
    def advice(self) -> tuple[list[Better], str, str] | None:
        """The nearest layouts that fit, or a sentence that there are none, and a note; None if this
        one fits."""
        advice = self._result.advice
        if advice is None:
            return None
        days, note = self._result.get(DAYS), ""
        if days is not None and self._result.assumes_utilisation:  # which no change would move
            days, note = days.alternative, "Time and cost are predicted here."
        rows = [self._build_remedy(remedy, days) for remedy in advice.remedies]
        none = "" if rows else "No change of one or two settings makes it fit."
        return rows, none, note

    def _build_remedy(self, remedy: Remedy, days: Quantity | None) -> Better:
        """Build the row of a remedy; its time is the plan's predicted days times the slowdown."""
        capacity, change, values = self._result[CAPACITY].number, None, dict[str, Any]()
        values[PROCESS] = capacity - remedy.headroom
        values["memory.at_worst"] = capacity - remedy.at_worst
        if remedy.slowdown is not None and days is not None:
            change = Fraction(remedy.slowdown) - 1
            values[DAYS] = Fraction(remedy.slowdown) * Fraction(days.number)
        if remedy.cost:
            values[COST] = remedy.cost
        words = format_changes(remedy.changes, self._result.plan.get)
        return self._build_better(words, values, change, remedy.changes)

    @computed_field
    def better(self) -> list[Better]:
        """This plan, then faster layouts near it that fit too, fewest changes first; empty if the
        plan does not fit or its time is not predicted."""
        own, plan = self._result, self._result.plan
        if self._result.verdict["state"] != "fits" or DAYS not in own or plan.searched is not None:
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

    @computed_field
    def moves(self) -> list[SensitivityBar]:
        """The sensitivity of training time to 10 % more of an input or to twice a setting, largest
        first; each with a bar from the zero of the common axis."""
        own = self._result
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
                SensitivityBar(
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


#: Settings of parallelism that the plan line names.
DIVIDE = frozenset((*DEGREES, "sequence", "virtual_pipeline", "data", "replicate"))


@lru_cache(maxsize=2)
def answer_of(result: Result) -> Overview:
    """Return the overview of a result, which the formats of one report and the summary share."""
    verdict, serves = result.verdict, result.plan.settings["training.mode"] == "inference"
    reason = f" ({clean(verdict['reason'])})" if verdict["reason"] else ""
    _, look, word, *_ = VERDICTS[verdict["state"]]
    return Overview(result, serves, look, word + reason, verdict["state"] in ("no", "tight"))


def build_segments(rows: Sequence[tuple[str, Any, str]], whole: Any) -> list[Segment]:
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
        at, width = format_share(left, whole), format_share(size, whole)
        parts.append(Segment(label, identifier, label, at, width))
        left += Fraction(size)
    return parts


def format_changes(changes: Any, get: Any) -> str:
    """Format the changes of a layout: tensor 8→4, zero 1→2; a key without a value gets one:
    lora.rank 16."""
    rows = ((key, get(key), value) for key, value in changes.items() if value is not None)
    told = (
        (key, bool(old) if isinstance(value, bool) and old is not None else old, value)
        for key, old, value in rows
    )
    return ", ".join(
        f"{trim_key(key)} {'' if old is None else f'{format_option(old)}→'}{format_option(value)}"
        for key, old, value in told
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
    elif quantity.base in LEADING:
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


def _locate_value(value: Any, around: Any) -> tuple[str, bool]:
    """Locate a value on the scale around another (``SCALE``: half of it to half as much again).

    Args:
        value: the value to place.
        around: the value in the middle of the scale.

    Returns:
        The position in per cent, that of the nearer end if it is outside, and whether it is.
    """
    low, high = SCALE
    place = (Fraction(value) / Fraction(around) - low) / (high - low)
    inside = min(max(place, Fraction(0)), Fraction(1))
    return format_share(inside, 1), inside != place


def _shift_labels(low: str, high: str) -> tuple[str, str]:
    """Separate the positions of two labels, in per cent, so that they do not overlap."""
    a, b = float(low), float(high)
    least = 24.0
    if b - a < least:
        middle = min(max((a + b) / 2, least / 2), 100 - least / 2)
        a, b = middle - least / 2, middle + least / 2
    return f"{max(a, 6):.1f}", f"{min(b, 94):.1f}"
