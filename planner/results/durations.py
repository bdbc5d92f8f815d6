"""Durations of the passes and the communication of a step, and memory held by them: values of the
book, by stage and chunk, from which a step is simulated (planner/results/timeline.py)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from planner.engine.evaluate import Absent, Entry, widen
from planner.engine.instance import limit_recompute
from planner.plans import pipeline, schedules
from planner.plans.schedules import FORWARD, INPUT, WEIGHT, Schedule
from planner.results.attribution import break_down
from planner.results.result import Result

#: The streams of a device: work, and traffic over the link of its node, over the network, and with
#: the host; then the slots of an engine.
STREAMS = COMPUTE, LINK, NETWORK, HOST, SLOTS = "compute", "link", "network", "host", "slot"
#: Traffic between passes, by the quantity whose time it takes.
TRAFFIC = {
    "send": "network.pipeline",
    **dict.fromkeys(("reduce", "gather", "contention"), "time.data"),
    "tied": "time.tied",
}
#: Traffic of a part beside its passes, whether or not it is waited for: what it is called in
#: forward and in backward passes, the setting that says where its group lies, and the quantity of
#: its seconds in all of them (of traffic with the host, in that pass).
BESIDE = (
    (("dispatch", "combine"), ("dispatch", "combine"), "time.expert", "time.part.exchanged"),
    (("gather",), ("gather",), "time.shards", "time.part.gathers"),
    (("offload",), (), HOST, "time.part.offload.away"),
    ((), ("fetch",), HOST, "time.part.offload.back"),
)
#: Endings of the names of communication, among the parts of a layer's time.
TRAVELS = ("exchange", "offloading")
#: Parts of a layer's time, by the quantity of which they are shares.
SHARES = {"busy": ("busy.forward", "busy.backward", "busy.weights"), "passes": ("repeated",)}
#: The most buckets of a chunk's gradients: more make no visible difference.
MOST_BUCKETS = 16


class Chunk(NamedTuple):
    """Seconds and saved bytes of one chunk of the model for a micro-batch.

    Attributes:
        forward: seconds of the forward pass.
        backward: seconds of the whole backward pass: gradients of inputs and weights,
            recomputation.
        weight: of these, gradients of weights.
        again: of these, recomputation.
        exposed: seconds of exposed communication by name, of the forward and the backward pass.
        kept: bytes saved from the forward to the backward pass.
        held_again: bytes of the largest layer that is recomputed, while it is.
        trained: parameters.
        travels: traffic beside the forward and the backward pass: its stream, its names (at the
            beginning and at the end of the pass), its seconds.
    """

    forward: float
    backward: float
    weight: float
    again: float
    exposed: tuple[Mapping[str, float], Mapping[str, float]]
    kept: float
    held_again: float
    trained: float
    travels: tuple[tuple[tuple[str, tuple[str, ...], float], ...], ...] = ((), ())

    def get_seconds(self, kind: str) -> float:
        """Return the seconds of a pass."""
        if kind == FORWARD:
            return self.forward
        if kind == INPUT:
            return self.backward - self.weight
        return self.weight if kind == WEIGHT else self.backward


@dataclass
class StepData:
    """The durations of a step in seconds, and its memory in bytes, by stage.

    Attributes:
        schedule: the order of passes.
        turns: micro-batches that pass a chunk.
        chunks: of each stage those that it holds, by their number there.
        closed: ``time.step_seconds``.
        send: to the next stage.
        waits: share of a send that its device waits, or is slowed by.
        reduce: gradients over data parallelism.
        gather: weights over data parallelism.
        optimizer: the update.
        tied: gradients of tied embeddings.
        reduces_beside: whether gradients travel beside the backward pass.
        reduces_each: whether they do after each micro-batch.
        gathers_first: whether weights travel beside the forward pass of the first micro-batch.
        buckets: pieces in which the gradients of a chunk travel.
        contention: share of its time that such traffic costs the work beside it.
        sends: the stream of sends.
        shares: the stream of data parallelism.
        updates: the stream of the update.
        base: bytes besides activations, in backward and in forward passes.
        update: bytes in the update.
        capacity: bytes of a device.
        names: of exposed communication.
    """

    schedule: Schedule
    turns: float
    chunks: list[dict[int, Chunk]]
    closed: float = 0.0
    send: float = 0.0
    waits: float = 1.0
    reduce: list[float] = field(default_factory=list)
    gather: list[float] = field(default_factory=list)
    optimizer: list[float] = field(default_factory=list)
    tied: float = 0.0
    reduces_beside: bool = False
    reduces_each: bool = False
    gathers_first: bool = False
    buckets: int = 1
    contention: float = 0.0
    sends: str = LINK
    shares: str = LINK
    updates: str = COMPUTE
    base: list[tuple[float, float]] = field(default_factory=list)
    update: list[float] = field(default_factory=list)
    capacity: float = 0.0
    names: Mapping[str, str] = field(default_factory=lambda: {name: name for name in TRAFFIC})

    def __post_init__(self) -> None:
        size = len(self.chunks)
        for name in ("reduce", "gather", "optimizer", "update"):
            setattr(self, name, getattr(self, name) or [0.0] * size)
        self.base = self.base or [(0.0, 0.0)] * size
        #: Each chunk's share of the parameters of its stage.
        self.parted = [
            {number: chunk.trained / whole for number, chunk in chunks.items()}
            for chunks in self.chunks
            for whole in [sum(chunk.trained for chunk in chunks.values()) or 1]
        ]


def read_step(result: Result, slow: Mapping[int, float]) -> StepData:
    """Read the step of a plan; passes of ``slow`` stages take so many times as long."""
    return Reader(result).build_step(slow)


class Reader:
    """Reads values of the book for one plan."""

    def __init__(self, result: Result) -> None:
        self.result, self.evaluation, self.plan = result, result.evaluation, result.plan

    def build_step(self, slow: Mapping[int, float]) -> StepData:
        """Return the durations that a simulated step runs with, in seconds.

        Args:
            slow: factors of the time of stages, by index; 1 for others.

        Raises:
            PlanError: one of the durations has no value.
        """
        plan = self.plan
        layout, settings = plan.data["parallelism"], plan.settings
        assert plan.model is not None
        batches, vocab = int(self("layout.micro_batches")), plan.get("model.vocab")
        name, size = settings["training.schedule"], layout["pipeline"]
        sizes = size, layout["virtual_pipeline"], batches, layout["expert_overlap"]
        own = layout.get("passes")
        schedule = schedules.expand_table(own, *sizes) if own else schedules.schedule(name, *sizes)
        parts = {entry.name: entry for entry in self.result.list_entries("part")}
        held = pipeline.list_chunk_parts(plan.model, layout, vocab)
        most = limit_recompute(plan, settings["training.recompute"])
        #: Seconds for each parameter in which its gradient is added to those before.
        turns = self("layout.passes")
        added = self("time.accumulation") / turns / (self("time.parameters") or 1)
        chunks: list[dict[int, Chunk]] = [{} for _ in range(size)]
        alike: dict[tuple[object, ...], Chunk] = {}  # most chunks hold the same
        for way in schedule.ways:
            for place, (stage, chunk) in enumerate(way):
                holds, pace = [parts[part] for part in held[place]], slow.get(stage, 1)
                if (*holds, pace) not in alike:
                    alike[*holds, pace] = self._read_chunk(holds, most, pace, added)
                chunks[stage][chunk] = alike[*holds, pace]
        stages = pipeline.build_stages(plan.model, layout, name, batches, vocab)
        entries = [
            entry
            for entry, stage in zip(self.result.list_entries("stage"), stages, strict=True)
            for _ in range(stage.index, stage.last + 1)
        ]
        passed, owned = (
            [found[stage] for stage in entries]
            for name in ("time.ring", "time.owned")
            for found in [{stage: self._divide_by_max(name, stage) for stage in set(entries)}]
        )
        overlap, zero = settings["parallelism.data_overlap"], settings["parallelism.zero"]
        reduce, gather = self("time.data.reduce"), self("time.data.gather")
        update = self("time.optimizer")
        contention = float(plan.get("time.efficiency.contention") or 0)
        phases = {entry.name: entry for entry in self.result.list_entries("phase")}

        def besides(stage: Entry, phase: str) -> float:
            """What a device holds in a phase besides activations."""
            point = {"stage": stage, "phase": phases[phase]}
            return self("memory.live", **point) - self("memory.activations.live", **point)

        return StepData(
            schedule,
            turns,
            chunks,
            closed=self("time.step_seconds"),
            send=self("network.pipeline"),
            reduce=[reduce * share for share in (owned if zero == 3 else passed)],
            gather=[gather * share for share in passed],
            optimizer=[update * share for share in owned],
            tied=self("time.tied"),
            reduces_beside=overlap != "none",
            reduces_each=zero == 2,
            gathers_first=overlap == "all" or (zero == 2 and overlap != "none"),
            buckets=min(MOST_BUCKETS, max(1, round(self("time.buckets") / len(chunks[0])))),
            sends=self._find_stream("time.pipeline"),
            shares=self._find_stream("time.shards"),
            contention=contention,
            waits=contention if layout["send_overlap"] and len(chunks[0]) > 1 else 1.0,
            updates=HOST if settings["time.host_update"] else COMPUTE,
            base=[(besides(stage, "backward"), besides(stage, "loss")) for stage in entries],
            update=[besides(stage, "step") for stage in entries],
            capacity=self("memory.capacity"),
            names={
                work: str(self.evaluation.book.quantities[quantity].attribution)
                for work, quantity in TRAFFIC.items()
            },
        )

    def __call__(self, quantity: str, **point: Entry) -> float:
        """Return the value of a quantity of the book; 0 if this plan has none."""
        try:
            return float(self.evaluation.value(quantity, widen(dict(point))))
        except Absent:
            return 0.0

    def _divide_by_max(self, quantity: str, stage: Entry) -> float:
        """Return one stage's value of a quantity divided by the maximum over stages."""
        most, chosen = self(quantity), self.evaluation.trace_quantity(quantity).chosen
        if not most or chosen is None:
            return 1.0
        body = chosen.expression.body
        return float(self.evaluation.compute(body, {"stage": stage})) / most

    def _read_chunk(self, holds: Sequence[Entry], most: int, slow: float, added: float) -> Chunk:
        """Read a chunk of some parts, of which at most ``most`` layers are recomputed."""
        total: dict[str, float] = defaultdict(float)
        exposed: dict[str, float] = defaultdict(float)
        on_device = self("memory.activations.offloaded")
        first = any(part.name == pipeline.FIRST for part in holds)
        travelled: dict[str, float] = defaultdict(float)
        held_again = 0.0
        for part, count in Counter(holds).items():
            whole = self("time.part", part=part) * count * slow
            for of, names in SHARES.items():
                passes = self(f"time.part.{of}", part=part)
                for name in names:
                    seconds = self(f"time.part.{name}", part=part)
                    total[name] += whole * seconds / passes if passes else 0
            for name, seconds in break_down(self.evaluation, "time.part", {"part": part}).items():
                if name.endswith(TRAVELS):
                    exposed[name] += float(seconds) * count * slow
            layers = part.settings["layers"]
            again = min(count, most) if layers else 0
            total["kept"] += (on_device if layers else 1) * (
                again * self("memory.activations.part", part=part)
                + (count - again) * self("memory.activations.whole", part=part)
            )
            if again:
                held_again = max(held_again, self("memory.activations.again", part=part))
            total["trained"] += count * self._count_trained(part, first)
            for *_, quantity in BESIDE:
                travelled[quantity] += count * self(quantity, part=part)
        adding = added * total["trained"]
        backward = total["busy.backward"]
        busy = total["busy.forward"] + backward  # none, where a stage holds nothing
        share = total["busy.forward"] / busy if busy else 0.0
        return Chunk(
            forward=total["busy.forward"],
            backward=backward + adding,
            weight=total["busy.weights"] + adding,
            again=total["repeated"],
            exposed=(
                {name: seconds * share for name, seconds in exposed.items()},
                {name: seconds * (1 - share) for name, seconds in exposed.items()},
            ),
            kept=total["kept"],
            held_again=held_again,
            trained=total["trained"],
            travels=(self._beside(travelled, 0, share), self._beside(travelled, 1, 1 - share)),
        )

    def _beside(
        self, travelled: Mapping[str, float], back: int, share: float
    ) -> tuple[tuple[str, tuple[str, ...], float], ...]:
        """List the communication beside a forward (0) or a backward pass (1): ``share`` of each
        time; of host traffic all, which belongs to one of them."""
        return tuple(
            (
                self._find_stream(where),
                works[back],
                travelled[quantity] * (1 if where == HOST else share) / len(works[back]),
            )
            for *works, where, quantity in BESIDE
            if travelled[quantity] and works[back]
        )

    def _find_stream(self, where: str) -> str:
        """Return the stream over which a group communicates."""
        if where in STREAMS:
            return where
        return NETWORK if self.plan.settings[where] == "nodes" else LINK

    def _count_trained(self, part: Entry, first: bool) -> float:
        """Count the trained parameters of a part; a matrix tied to the embedding counts there, if
        that is in the same chunk."""
        return sum(
            self("parameters.trained", component=entry)
            for entry in self.result.list_entries("component")
            if entry.parent is not None
            and entry.parent.parent is part
            and not (first and entry.settings["shared"])
        )
