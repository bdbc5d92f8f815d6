"""The benchmarks of a machine, one after another, and the accelerator document that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from planner.base.errors import Fault, PlanError
from planner.connect.measure import expected, rates
from planner.connect.measure.jobs import (
    Attention,
    Backend,
    Collective,
    Elementwise,
    Job,
    Launches,
    Machine,
    Product,
    Traffic,
)
from planner.connect.measure.rates import Share, share
from planner.documents import schema, source

Tell = Callable[[str], None]
#: Seconds for all benchmarks, and how they are divided between kinds.
SECONDS = 40.0
PARTS = {"products": 0.45, "memory": 0.1, "attention": 0.25, "elementwise": 0.1, "launches": 0.05}
COLLECTIVES = 0.25  # on top, where there are several processes
#: Widest product that is tried: wider ones are no faster.
WIDEST = 8192
#: Which format's shares stand under the plain keys.
MAIN = ("bf16", "fp16", "fp32")


@dataclass
class Found:
    """What the benchmarks say, in the words of an accelerator document."""

    machine: Machine
    extends: str | None
    peaks: dict[str, float] = field(default_factory=dict)  # FLOP/s, dense
    bandwidth: float = 0.0
    efficiency: dict[str, Share] = field(default_factory=dict)
    link: tuple[float, float] | None = None  # bytes/s in one direction, seconds of a hop
    link_name: str = ""
    measured: set[str] = field(default_factory=set)  # peaks that no datasheet gives
    base: Mapping[str, Any] = field(default_factory=dict)  # the accelerator that is extended

    @property
    def main(self) -> str:
        return next(form for form in MAIN if form in self.machine.formats)

    def key(self, name: str, form: str) -> str:
        """The key of a share of one format."""
        return name if form == self.main else f"{name}_{form}"

    def facts(self) -> dict[str, Any]:
        """What formulas ask of the accelerator beside its rates."""
        own = {"multiprocessors": self.machine.multiprocessors, "clock": self.machine.clock}
        return {key: self.base.get(key) or value for key, value in own.items() if value}

    def accelerator(self) -> dict[str, Any]:
        """As a mapping that plans can hold."""
        peaks = {f: {"value": r, "convention": "dense"} for f, r in self.peaks.items()}
        memory = {"memory": self.machine.memory, "memory_bandwidth": self.bandwidth}
        return {**memory, "peaks": peaks, **self.facts()}


def measure(
    backend: Backend,
    seconds: float = SECONDS,
    extends: str | None = None,
    tell: Tell = lambda line: None,
) -> Found:
    """Run all benchmarks.

    Args:
        backend: what runs them.
        seconds: for all of them, about.
        extends: a shipped accelerator, or a document, whose datasheet figures hold; shares are
            then of its figures. Left out, the fastest run of each kind stands for the figure.
        tell: called with a line about what happens.

    Raises:
        PlanError: nothing runs, or `extends` names no accelerator.
    """
    found = Found(backend.machine(), extends)
    if extends is not None:
        document = source.load({"extends": extends}, kind="accelerator")
        found.base = schema.validate(document, "accelerator").data
        found.bandwidth = float(found.base["memory_bandwidth"])
        found.peaks = {
            form: float(peak["value"]) / (2 if peak["convention"] == "sparse" else 1)
            for form, peak in found.base["peaks"].items()
        }
    _memory(found, backend, seconds * PARTS["memory"], tell)
    forms = found.machine.formats
    for form in forms:
        _products(found, backend, form, seconds * PARTS["products"] / len(forms), tell)
    if not found.measured | set(found.efficiency):
        raise PlanError(Fault(f"no benchmark runs on {found.machine.name}"))
    both = [form for form in dict.fromkeys((found.main, "fp32")) if form in forms]
    for form in both:
        _attention(found, backend, form, seconds * PARTS["attention"] / len(both), tell)
    for form in both:
        _elementwise(found, backend, form, seconds * PARTS["elementwise"] / len(both), tell)
    _launches(found, backend, seconds * PARTS["launches"], tell)
    if backend.processes > 1:
        _collectives(found, backend, seconds * COLLECTIVES, tell)
    return found


def _runs(times: Mapping[Any, Sequence[float]]) -> int:
    return sum(map(len, times.values()))


def _each(
    backend: Backend, jobs: Sequence[Any], seconds: float, tell: Tell, kind: str
) -> dict[Any, list[float]]:
    """Times of those benchmarks that run here."""
    found: dict[Any, list[float]] = {}
    for job in jobs:
        tell(f"{kind}: {job}")
        times = backend.times(job, seconds / len(jobs))
        if times:
            found[job] = times
    return found


def _remark(job: Job, rate: Sequence[float], scale: float, unit: str) -> str:
    low, high = rates.spread(rate)
    three = (f"{value / scale:.4g}" for value in (median(rate), low, high))
    return "{}: {} {unit} ({} to {}), {count} runs".format(job, *three, unit=unit, count=len(rate))


# -- memory ------------------------------------------------------------------------------------


def _memory(found: Found, backend: Backend, seconds: float, tell: Tell) -> None:
    most = 2**30 if found.machine.device == "cuda" else 2**28
    size = min(most, found.machine.memory // 32) // 4096 * 4096
    jobs = [Traffic(kind, size) for kind in ("read", "copy", "triad")]
    times = _each(backend, jobs, seconds, tell, "memory")
    speeds = {job: [job.moved / each for each in seen] for job, seen in times.items()}
    if not speeds:
        raise PlanError(Fault(f"no benchmark runs on {found.machine.name}"))
    if found.extends is None:
        found.bandwidth = max(max(seen) for seen in speeds.values())
    # Kernels write as well as read.
    kernels = [speed for job, seen in speeds.items() if job.kind != "read" for speed in seen]
    remarks = [_remark(job, seen, 1e9, "GB/s") for job, seen in speeds.items()]
    found.efficiency["memory"] = share(
        [speed / found.bandwidth for speed in kernels or next(iter(speeds.values()))],
        f"copy and triad, {len(kernels)} runs",
        remarks=remarks,
    )


# -- products ----------------------------------------------------------------------------------


def _widest(backend: Backend, form: str, seconds: float, memory: int) -> int | None:
    """The widest square product of which all benchmarks take about `seconds`."""
    width = 256
    while True:
        times = backend.times(Product(form, width, width, width), 0)
        if not times:
            return None
        # One twice as wide takes eight times as long, all benchmarks together eight times that.
        room = 4 * (2 * width) ** 2 * 4 < memory
        if width >= WIDEST or 64 * min(times) > seconds or not room:
            return width
        width *= 2


def _products(found: Found, backend: Backend, form: str, seconds: float, tell: Tell) -> None:
    tell(f"products: {form}, looking for a size")
    n = _widest(backend, form, seconds / 2, found.machine.memory)
    if n is None:
        return
    quarter = n // 4
    shapes = [(n, n, n), (n, n, quarter), (n, quarter, n), (quarter, n, n), (n // 2,) * 3]
    jobs = [Product(form, *shape) for shape in shapes]
    times = _each(backend, jobs, seconds / 2, tell, f"products in {form}")
    if not times:
        return
    times_of = {job: expected.ProductTime(job, found.facts()) for job in times}
    rated = rates.products(times, times_of)
    if not rated.every:
        return
    if form not in found.peaks:
        found.peaks[form] = max(rated.every)
        found.measured.add(form)
    key = found.key("matmul", form) if form in MAIN else f"matmul_{form}"
    note = f"{len(times)} products in {form}, {_runs(times)} runs"
    found.efficiency[key] = share(
        [rate / found.peaks[form] for rate in rated.every],
        note,
        remarks=[_remark(job, seen, 1e12, "TFLOP/s") for job, seen in rated.rates.items()],
    )
    if form not in MAIN:
        return
    small = rated.small
    if small is not None:
        found.efficiency[found.key("small_dimension", form)] = Share(small, note)
    _uneven(found, backend, Product(form, n // 2, n // 2, n // 2), rated, seconds / 20)


def _uneven(
    found: Found, backend: Backend, even: Product, rated: rates.Products, seconds: float
) -> None:
    """The same product a little wider: by 8, and by 1."""
    if even not in rated.rates:
        return
    rate = median(rated.rates[even])
    wider = [Product(even.form, even.rows, even.columns + more, even.depth) for more in (8, 1)]
    slowdown = 1.0
    for key, job in zip(("alignment", "alignment_8"), wider, strict=True):
        times = backend.times(job, seconds)
        if not times:
            return
        model = expected.ProductTime(job, found.facts())
        small = model.small_dimension if rated.small is None else rated.small
        samples = [max(1.0, model.uneven(each, rate, small) / slowdown) for each in times]
        slowdown = median(samples)
        note = f"{job} beside {even} in {even.form}, {len(times)} runs"
        found.efficiency[found.key(key, even.form)] = share(samples, note)


# -- attention ---------------------------------------------------------------------------------


def _attention(found: Found, backend: Backend, form: str, seconds: float, tell: Tell) -> None:
    gpu = found.machine.device == "cuda"
    batch, heads, length = (4, 16, 4096) if gpu else (1, 8, 1024)

    def job(kernel: str, width: int, causal: bool = True) -> Attention:
        return Attention(form, kernel, batch, heads, width, length, causal)

    fused = [job("flash", 64), job("flash", 128)]
    others = [job("flash", 128, False), job("efficient", 128), job("math", 128)]
    vendor = [job("vendor", 64), job("vendor", 128)] if gpu else []
    times = _each(backend, [*fused, *others, *vendor], seconds, tell, f"attention in {form}")
    accelerator = found.accelerator()
    shares = {
        job: [expected.attention(job, accelerator) / each for each in seen]
        for job, seen in times.items()
    }
    remarks = [_remark(job, seen, 1, "of the kernel's rate") for job, seen in shares.items()]
    open_ = [job for job in fused if job in shares] or [j for j in others[1:2] if j in shares]
    for name, jobs in (("attention_open", open_), ("attention", vendor)):
        samples = [each for job in jobs for each in shares.get(job, ())]
        if samples:
            note = f"fused attention in {form}, forward and backward, {len(samples)} runs"
            found.efficiency[found.key(name, form)] = share(samples, note, remarks=remarks)
            remarks = []


# -- the rest ----------------------------------------------------------------------------------


def _elementwise(found: Found, backend: Backend, form: str, seconds: float, tell: Tell) -> None:
    tokens, hidden = (8192, 4096) if found.machine.device == "cuda" else (1024, 768)
    job = Elementwise(form, tokens, hidden)
    times = _each(backend, [job], seconds, tell, f"elementwise kernels in {form}").get(job)
    if times:
        moved = expected.elementwise(job, found.bandwidth, found.efficiency["memory"].value)
        found.efficiency[found.key("elementwise", form)] = share(
            [each / moved for each in times],
            f"norms, sums, gelu and loss of {job} in {form}, {len(times)} runs",
        )


def _launches(found: Found, backend: Backend, seconds: float, tell: Tell) -> None:
    job = Launches()
    times = _each(backend, [job], seconds, tell, "launches").get(job)
    if times:
        count = expected.launches(job)
        note = f"{job}, forward and backward, {len(times)} runs"
        found.efficiency["launch"] = share([each / count for each in times], note, "s")


def _collectives(found: Found, backend: Backend, seconds: float, tell: Tell) -> None:
    count = backend.processes
    gpu = found.machine.device == "cuda"
    sizes = (2**12, 2**20, 2**28 if gpu else 2**24)
    jobs = [
        Collective(kind, size, count)
        for kind in ("all-reduce", "all-gather", "all-to-all")
        for size in sizes
    ]
    tell(f"collectives between {count} processes")
    times = {job: seen for job, seen in backend.collectives(jobs, seconds).items() if seen}
    volumes = {job: expected.collective(job, 1, 0) for job in times}
    hops = {job: expected.collective(job, expected.ENDLESS, 1) for job in times}
    sustained = rates.link(times, volumes, hops)
    if sustained is None:
        return
    peak = max(sustained.rates)
    given = found.base.get("link")
    if given is not None:
        peak = float(given["bandwidth"]) / (2 if given["convention"] == "bidirectional" else 1)
    found.link = peak, sustained.latency
    found.link_name = "NCCL" if gpu else f"gloo, {count} processes of one host"
    volume = {job: [volumes[job] / each for each in seen] for job, seen in times.items()}
    remarks = [_remark(job, seen, 1e9, "GB/s") for job, seen in volume.items()]  # type: ignore[arg-type]
    found.efficiency["link"] = share(
        [rate / peak for rate in sustained.rates],
        f"all-reduce and all-gather of {sizes[-1] // 2**20} MiB over {count}, "
        f"{len(sustained.rates)} runs",
        remarks=remarks,
    )
    largest = next((j for j in times if j.kind == "all-to-all" and j.size == sizes[-1]), None)
    if largest is not None:
        rate = median(sustained.rates)
        samples = [volumes[largest] / each / rate for each in times[largest]]
        found.efficiency["all_to_all"] = share(samples, f"{largest}, {len(samples)} runs")
