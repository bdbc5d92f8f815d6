"""The forward pass of one layer as events: matmuls, and the chunks of tensor-parallel communication
that overlap with them (``parallelism.tensor_overlap``).

Durations are the book's. Before column-parallel matmuls the rows of all ranks are gathered, after
row-parallel ones the sums are scattered, each for as long as the other and in as many pieces as
there are ranks: a piece of a matmul waits for the rows that it reads, a piece of the sums for the
matmul that computes it.
"""

from __future__ import annotations

from typing import NamedTuple

from planner.engine.evaluate import Entry
from planner.results.durations import Reader
from planner.results.result import Result


class PassSpan(NamedTuple):
    """A kernel, or communication, of one forward pass of a layer.

    Attributes:
        block: its name.
        works: whether it is on the compute stream, else traffic between devices.
        work: what it is called.
        start: seconds from the start of the pass.
        end: seconds from the start of the pass.
    """

    block: str
    works: bool
    work: str
    start: float
    end: float


#: Names of the communication before and after the matmuls of a block.
OF_RANKS, OF_EXPERTS = ("gathering rows", "scattering sums"), ("dispatch", "combine")


def simulate_forward(result: Result, part: Entry) -> tuple[PassSpan, ...]:
    """Simulate the forward pass of a layer kind, the embedding or the head, in the order in which
    its pieces end on each stream; the last one ends after ``time.part.forward`` seconds."""
    layout, settings = result.plan.data["parallelism"], result.plan.settings
    count = layout["tensor"] if settings["time.tensor_overlap"] else 1
    contention = float(result.plan.get("time.efficiency.contention") or 0) if count > 1 else 0.0

    value = Reader(result)
    products: dict[Entry, list[Entry]] = {}
    for product in result.list_entries("product"):
        if product.parent is not None:
            products.setdefault(product.parent, []).append(product)
    done: list[PassSpan] = []
    for entry in result.list_entries("block"):
        if entry.parent is not part:
            continue
        takes = {"column": 0.0, "row": 0.0}
        between = value("time.elementwise", block=entry)
        if entry.settings["block"] == "attention":
            between += value("time.core.forward", block=entry)
            between += value("time.core.context", block=entry)
        for product in products.get(entry, ()):
            seconds = value("time.product.forward", product=product)
            split = product.settings["split"]
            if split in takes:
                takes[split] += seconds
            else:
                between += seconds
            between += value("time.product.adapter", product=product)
        exchange, names, pieces = value("time.exchange", block=entry), OF_EXPERTS, 1
        if exchanges := value("time.exchanges", block=entry):
            exchange = exchanges * value("network.tensor", block=entry)
            names, pieces = OF_RANKS, count
        sides = takes["column"], between, takes["row"]
        start = done[-1].end if done else 0.0
        done += simulate_block(entry.name, start, sides, exchange / 2, names, pieces, contention)
    return tuple(done)


def simulate_block(
    name: str,
    start: float,
    sides: tuple[float, float, float],
    exchange: float,
    called: tuple[str, str],
    count: int,
    contention: float,
) -> list[PassSpan]:
    """Simulate a block: communication, column-parallel matmuls, what waits for all of them,
    row-parallel matmuls, communication. Each of both ends is cut into pieces, which overlap.

    Args:
        name: of the block.
        start: seconds from the start of the pass.
        sides: seconds of the column-parallel matmuls, of what is between, of the row-parallel ones.
        exchange: seconds of the communication at either end.
        called: what the communication before and after is called.
        count: pieces.
        contention: share of the overlapped time that is lost to traffic, from 0 to 1.

    Returns:
        spans, each as far as it takes time.
    """
    columns, between, rows = sides
    done, compute, link = list[PassSpan](), start, start

    def run(works: bool, work: str, ready: float, seconds: float) -> float:
        """Add a span that starts at ``ready``, if it takes time; return its end.

        Args:
            works: whether it is on the compute stream.
            work: what it is called.
            ready: seconds from the start of the pass.
            seconds: its duration.
        """
        if seconds:
            done.append(PassSpan(name, works, work, ready, ready + seconds))
        return ready + seconds

    for _ in range(count):
        link = run(False, called[0], link, exchange / count)
        compute = run(True, "products by columns", max(compute, link), columns / count)
    compute = link = run(True, "what follows", max(compute, link), between)
    for _ in range(count):
        compute = run(True, "products by rows", compute, rows / count)
        link = run(False, called[1], max(link, compute), exchange / count)
    end = max(compute, link)
    # The streams never wait at once, so time beyond the duration is overlap.
    both = sum(piece.end - piece.start for piece in done) - (end - start)
    run(True, "work that traffic slows", end, contention * max(0.0, both))
    return done
