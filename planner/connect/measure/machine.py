"""The benchmarks of a machine, one after another, and the accelerator document that they give."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any, TypeVar

from planner.base.errors import PlanError
from planner.base.numbers import plain_text
from planner.connect.measure import expected, jobs, rates
from planner.connect.measure.rates import Share
from planner.documents import schema, source

if TYPE_CHECKING:
    from planner.connect.measure.engine import Engine

Tell = Callable[[str], None]
J = TypeVar("J", bound=jobs.Job)
#: Seconds for all benchmarks, and how they are divided between kinds.
SECONDS = 40.0
PARTS = {"products": 0.45, "memory": 0.1, "attention": 0.25, "elementwise": 0.1, "launches": 0.05}
COLLECTIVES = 0.25  # on top, where there are several processes
#: Widest product that is tried: wider ones are no faster.
WIDEST = 8192
#: Which format's shares stand under the plain keys.
MAIN = ("bf16", "fp16", "fp32")


@dataclass
class Measurements:
    """The results of the benchmarks, by the keys of an accelerator document.

    Attributes:
        backend: what runs the benchmarks.
        machine: the device.
        extends: the accelerator whose datasheet figures the shares are of; None to measure peaks
            too.
        tell: called with a line on progress.
        peaks: FLOP/s by number format, dense.
        bandwidth: bytes/s of memory.
        efficiency: shares by key.
        link: bytes/s in one direction, and seconds of a hop; None if not measured.
        base: the accelerator that is extended; empty for none.
    """

    backend: Engine
    machine: jobs.Machine
    extends: str | None
    tell: Tell
    peaks: dict[str, float] = field(default_factory=dict)
    bandwidth: float = 0.0
    efficiency: dict[str, Share] = field(default_factory=dict)
    link: tuple[float, float] | None = None
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """Return the number format whose keys have no suffix."""
        return next(form for form in MAIN if form in self.machine.formats)

    @property
    def gpu(self) -> bool:
        """Check whether the device is one that PyTorch calls cuda, AMD's included."""
        return self.machine.device == "cuda"

    def name_key(self, name: str, form: str) -> str:
        """Name the key of a share of one format."""
        return name if form == self.main else f"{name}_{form}"

    def list_facts(self) -> dict[str, Any]:
        """List what formulas need of the accelerator beside its rates."""
        own = {"multiprocessors": self.machine.multiprocessors, "clock": self.machine.clock}
        return {key: self.base.get(key) or value for key, value in own.items() if value}

    def add(
        self, key: str, samples: Sequence[float], what: str, unit: str = "", remarks: Any = ()
    ) -> None:
        """Add a share by its samples: their median and spread, and what they are of.

        Args:
            key: its name in the efficiency of an accelerator.
            samples: at least one.
            what: what they are of.
            unit: s, or nothing for a share.
            remarks: comments on the line before.
        """
        rows = f"{what}, {len(samples)} runs"
        spread = rates.find_spread(samples)
        self.efficiency[key] = Share(median(samples), rows, spread, unit, tuple(remarks))

    def time_jobs(self, wanted: Sequence[J], seconds: float, kind: str) -> dict[J, list[float]]:
        """Time those benchmarks that run here.

        Args:
            wanted: benchmarks.
            seconds: for all of them, about.
            kind: what the lines to the user call them.

        Returns:
            Seconds of each run, by benchmark.
        """
        found: dict[J, list[float]] = {}
        for job in wanted:
            self.tell(f"{kind}: {job}")
            times = self.backend.time_job(job, seconds / len(wanted))
            if times:
                found[job] = times
        return found


def measure_machine(
    backend: Engine,
    seconds: float = SECONDS,
    extends: str | None = None,
    tell: Tell = lambda line: None,
) -> Measurements:
    """Run all benchmarks.

    Args:
        backend: what runs them: PyTorch, or a stand-in.
        seconds: for all of them, about.
        extends: a shipped accelerator, or a document, whose datasheet figures hold; shares are then
            of its figures. Left out, the fastest run of each kind stands for the figure.
        tell: called with a line about what happens.

    Raises:
        PlanError: nothing runs, or `extends` names no accelerator.
    """
    found = Measurements(backend, backend.read_machine(), extends, tell)
    if extends is not None:
        document = source.load({"extends": extends}, kind="accelerator")
        found.base = schema.validate(document, "accelerator").data
        found.bandwidth = float(found.base["memory_bandwidth"])
        found.peaks = {form: expected.to_dense(peak) for form, peak in found.base["peaks"].items()}
    _time_memory(found, seconds * PARTS["memory"])
    forms = found.machine.formats
    for form in forms:
        _time_products(found, form, seconds * PARTS["products"] / len(forms))
    both = [form for form in dict.fromkeys((found.main, "fp32")) if form in forms]
    for kind, run in (("attention", _time_attention), ("elementwise", _time_elementwise)):
        for form in both:
            run(found, form, seconds * PARTS[kind] / len(both))
    job = jobs.Launches()
    for times in found.time_jobs([job], seconds * PARTS["launches"], "launches").values():
        # Launches of all layers, forward and backward.
        count = job.layers * float(
            expected.find_value(expected.make_tiny(job), "time.part.host[layer]")
        )
        samples = [each / count for each in times]
        found.add("launch", samples, f"{job}, forward and backward", "s")
    if backend.processes > 1:
        _time_collectives(found, seconds * COLLECTIVES)
    return found


def _list_remarks(rates_of: Mapping[Any, Sequence[float]], scale: float, unit: str) -> list[str]:
    """List for each benchmark the rate of its median run, and the 5th and 95th percentile of its
    runs.

    Args:
        rates_of: rates by benchmark.
        scale: what to divide them by.
        unit: the unit after that.
    """
    remarks = []
    for job, found in rates_of.items():
        rate = median(found), *rates.find_spread(found)
        middle, low, high = (plain_text(x / scale, 4) for x in rate)
        remarks.append(f"{job}: {middle} {unit} ({low} to {high}), {len(found)} runs")
    return remarks


def _time_memory(found: Measurements, seconds: float) -> None:
    """Time passes over memory: the bandwidth, if no datasheet gives it, and the share that kernels
    reach.

    Raises:
        PlanError: no benchmark runs on the device.
    """
    most = 2**30 if found.gpu else 2**28
    size = min(most, found.machine.memory // 32) // 4096 * 4096
    wanted = [jobs.Traffic(kind, size) for kind in ("read", "copy", "triad")]
    times = found.time_jobs(wanted, seconds, "memory")
    speeds = {job: [job.moved / each for each in seen] for job, seen in times.items()}
    if not speeds:
        raise PlanError(f"no benchmark runs on {found.machine.name}")
    if found.extends is None:
        found.bandwidth = max(max(seen) for seen in speeds.values())
    # Kernels write as well as read.
    kernels = [speed for job, seen in speeds.items() if job.kind != "read" for speed in seen]
    shares = [speed / found.bandwidth for speed in kernels or next(iter(speeds.values()))]
    found.add("memory", shares, "copy and triad", remarks=_list_remarks(speeds, 1e9, "GB/s"))


def _find_widest(backend: Engine, form: str, seconds: float, memory: int) -> int | None:
    """Find the widest square product for which all benchmarks take about ``seconds``.

    Args:
        backend: what runs it.
        form: the number format.
        seconds: the time for all benchmarks.
        memory: bytes of the device.

    Returns:
        The width; None if the device has no product in that format.
    """
    width = 256
    while True:
        times = backend.time_job(jobs.Product(form, width, width, width), 0)
        if not times:
            return None
        # One twice as wide takes eight times as long, all benchmarks together eight times that.
        room = 4 * (2 * width) ** 2 * 4 < memory
        if width >= WIDEST or 64 * min(times) > seconds or not room:
            return width
        width *= 2


def _time_products(found: Measurements, form: str, seconds: float) -> None:
    """Time matrix products of several shapes: peak, efficiency, and the loss of small dimensions.

    Args:
        found: the measurements, to which this adds.
        form: the number format.
        seconds: the time to spend.
    """
    found.tell(f"products: {form}, looking for a size")
    n = _find_widest(found.backend, form, seconds / 2, found.machine.memory)
    if n is None:
        return
    quarter = n // 4
    shapes = [(n, n, n), (n, n, quarter), (n, quarter, n), (quarter, n, n), (n // 2,) * 3]
    wanted = [jobs.Product(form, *shape) for shape in shapes]
    times = found.time_jobs(wanted, seconds / 2, f"products in {form}")
    if not times:
        return
    models = {job: expected.ProductTime(job, found.list_facts()) for job in times}
    rated, small = rates.fit_products(times, models)
    every = [rate for samples in rated.values() for rate in samples]
    if not every:
        return
    peak = found.peaks.setdefault(form, max(every))
    key, shares = found.name_key("matmul", form), [rate / peak for rate in every]
    remarks = _list_remarks(rated, 1e12, "TFLOP/s")
    found.add(key, shares, f"{len(times)} products in {form}", remarks=remarks)
    if form not in MAIN:
        return
    if small is not None:
        rows = found.efficiency[key].rows
        found.efficiency[found.name_key("small_dimension", form)] = Share(small, rows)
    half = wanted[-1]
    if half in rated:
        _time_uneven(found, half, median(rated[half]), small, seconds / 20)


def _time_uneven(
    found: Measurements, even: jobs.Product, rate: float, small: float | None, seconds: float
) -> None:
    """Time the same product 8 and 1 columns wider, which shows the loss of widths that are not
    aligned. A slowdown is written as measured, although formulas take at most the cost of padding.

    Args:
        found: the measurements, to which this adds a slowdown for each, at least 1.
        even: the product with an aligned width.
        rate: FLOP/s that it reached.
        small: the fitted ``small_dimension``; None for the built-in one.
        seconds: the time for each of the two.
    """
    slowdown = 1.0
    for key, more in (("alignment", 8), ("alignment_8", 1)):
        job = replace(even, columns=even.columns + more)
        times = found.backend.time_job(job, seconds)
        if not times:
            return
        model = expected.ProductTime(job, found.list_facts())
        usual = model.predict_time(rate, model.small_dimension if small is None else small)
        samples = [max(1.0, each / usual / slowdown) for each in times]
        slowdown = median(samples)
        found.add(found.name_key(key, even.form), samples, f"{job} beside {even} in {even.form}")


def _time_attention(found: Measurements, form: str, seconds: float) -> None:
    """Time fused, plain and, on a GPU, vendor attention; add their shares of the predicted rate."""
    batch, heads, length = (4, 16, 4096) if found.gpu else (1, 8, 1024)
    job = partial(jobs.Attention, form, batch=batch, heads=heads, width=128, length=length)
    fused = [job("flash", width=64), job("flash")]
    others = [job("flash", causal=False), job("efficient"), job("math")]
    vendor = [job("vendor", width=64), job("vendor")] if found.gpu else []
    times = found.time_jobs([*fused, *others, *vendor], seconds, f"attention in {form}")
    accelerator = {
        "memory": found.machine.memory,
        "memory_bandwidth": found.bandwidth,
        "peaks": {f: {"value": r, "convention": "dense"} for f, r in found.peaks.items()},
        **found.list_facts(),
    }
    shares = {
        job: [expected.predict_core(job, accelerator) / each for each in seen]
        for job, seen in times.items()
    }
    remarks = _list_remarks(shares, 1, "of the kernel's rate")
    open_ = [job for job in fused if job in shares] or [j for j in others[1:2] if j in shares]
    for name, wanted in (("attention_open", open_), ("attention", vendor)):
        samples = [each for job in wanted for each in shares.get(job, ())]
        if samples:
            what = f"fused attention in {form}, forward and backward"
            found.add(found.name_key(name, form), samples, what, remarks=remarks)
            remarks = []


def _time_elementwise(found: Measurements, form: str, seconds: float) -> None:
    """Time the elementwise kernels of a layer; add how much longer than their bytes they take."""
    job = jobs.Elementwise(form, *((8192, 4096) if found.gpu else (1024, 768)))
    for times in found.time_jobs([job], seconds, f"elementwise kernels in {form}").values():
        moved = expected.predict_pass(job, found.bandwidth, found.efficiency["memory"].value)
        what = f"norms, sums, gelu and loss of {job} in {form}"
        found.add(found.name_key("elementwise", form), [each / moved for each in times], what)


def _time_collectives(found: Measurements, seconds: float) -> None:
    """Time collectives between all processes; add the bandwidth and latency of the link."""
    count = found.backend.processes
    sizes = (2**12, 2**20, 2**28 if found.gpu else 2**24)
    kinds = ("all-reduce", "all-gather", "all-to-all")
    wanted = [jobs.Collective(kind, size, count) for kind in kinds for size in sizes]
    found.tell(f"collectives between {count} processes")
    times = {job: seen for job, seen in found.backend.time_group(wanted, seconds).items() if seen}
    volumes = {job: expected.predict_comm(job, 1, 0) for job in times}
    hops = {job: expected.predict_comm(job, expected.ENDLESS, 1) for job in times}
    sustained = rates.fit_link(times, volumes, hops)
    if sustained is None:
        return
    bandwidths, latency = sustained
    given = found.base.get("link")
    peak = max(bandwidths) if given is None else expected.to_direction(given)
    found.link = peak, latency
    speeds = {job: [volumes[job] / each for each in seen] for job, seen in times.items()}
    what = f"all-reduce and all-gather of {sizes[-1] // 2**20} MiB over {count}"
    shares = [rate / peak for rate in bandwidths]
    found.add("link", shares, what, remarks=_list_remarks(speeds, 1e9, "GB/s"))
    largest = jobs.Collective("all-to-all", sizes[-1], count)
    if largest in speeds:
        samples = [speed / median(bandwidths) for speed in speeds[largest]]
        found.add("all_to_all", samples, str(largest))
