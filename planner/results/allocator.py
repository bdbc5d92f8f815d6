"""PyTorch's caching allocator, run over the allocations of a step.

The rules are those of c10/cuda/CUDACachingAllocator.cpp of PyTorch (commit 001074d2): sizes in
units of 512 bytes; requests up to 1 MiB share segments of 2 MiB, those below 10 MiB segments of
20 MiB, others have one of their own in units of 2 MiB; the smallest free block that is large enough
serves a request, and what is left of it stays a block, in a large segment only beyond 1 MiB; free
neighbours merge; each stream has blocks of its own. If the device has no room, segments without a
tensor are returned and the request is tried again before it fails.

A step is a row of slots: the forward pass of each layer for each micro-batch in flight, the loss,
the backward passes, the end of the backward pass, the update. A tensor is allocated at the start of
one slot and freed at the end of another: what layers keep in the forward and the backward pass of
its layer, the rest where its phases begin and end.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, inf
from operator import itemgetter

from planner.book import notation
from planner.plans.kernels import load_profile
from planner.results.allocations import Allocation, find_fullest, list_allocations
from planner.results.result import Result

#: Sizes are units; the largest small request, the smallest large one, the unit of their segments.
UNIT, SMALL, LARGE, LARGE_UNIT = 512, 2**20, 10 * 2**20, 2 * 2**20
#: Bytes of the segments of medium and of small requests, which are the pages of segments that grow.
PAGES = (20 * 2**20, 2 * 2**20)


def round_sizes(request: Fraction | int) -> tuple[int, int]:
    """Return the bytes of the block for a request, and of the segment if no block is free."""
    block = max(1, ceil(request / UNIT)) * UNIT
    large = ceil(block / LARGE_UNIT) * LARGE_UNIT if block >= LARGE else PAGES[False]
    return block, large if block > SMALL else PAGES[True]


@dataclass(eq=False)
class Pool:
    """The free blocks of one stream and class of sizes, each of which neighbours used ones.

    Attributes:
        page: bytes of a segment that is not for one large request.
        top: the address behind the last segment.
        blocks: size and address of each, in order.
        sizes: the size of each, by address.
        ends: its address, by that behind it.
        segments: sizes of segments, by address.
    """

    page: int
    top: int = 0
    blocks: list[tuple[int, int]] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    segments: dict[int, int] = field(default_factory=dict)

    def add(self, address: int, size: int) -> None:
        """Add a block, merged with those beside it."""
        if address + size in self.sizes:
            size += self.remove(address + size)
        if address in self.ends:
            before = self.ends[address]
            address, size = before, size + self.remove(before)
        self.sizes[address], self.ends[address + size] = size, address
        insort(self.blocks, (size, address))

    def remove(self, address: int) -> int:
        """Remove the block at an address; return its size."""
        size = self.sizes.pop(address)
        del self.ends[address + size], self.blocks[bisect_left(self.blocks, (size, address))]
        return size

    def find_fit(self, size: int, expandable: bool) -> int | None:
        """Return the address of the smallest block that is large enough; the end of a segment that
        can grow is the last choice."""
        fits = self.blocks[bisect_left(self.blocks, (size,)) :][:2]
        if expandable and len(fits) == 2 and sum(fits[0]) == self.top:
            return fits[1][1]
        return fits[0][1] if fits else None


class Allocator:
    """Hands out the memory of a device.

    Args:
        capacity: bytes of all segments at most.
        expandable: whether segments grow (``expandable_segments:True``).

    Attributes:
        reserved: bytes of all segments.
        most_reserved: the most that was reserved.
        pools: free blocks, by stream and whether their requests are small.
    """

    def __init__(self, capacity: float, expandable: bool = False) -> None:
        self.capacity, self.expandable = capacity, expandable
        self.reserved = self.most_reserved = 0
        self.pools: dict[tuple[str, bool], Pool] = {}

    def allocate(self, request: Fraction | int, stream: str = "") -> tuple[Pool, int, int] | None:
        """Allocate ``request`` bytes for a stream; return the pool, address and size of the block,
        None if there is no room, also after what is cached was returned."""
        size, segment = round_sizes(request)
        small = size <= SMALL
        pool = self.pools.setdefault((stream, small), Pool(PAGES[small]))
        if pool.find_fit(size, self.expandable) is None and not self._grow(pool, size, segment):
            self.return_cache()
            if not self._grow(pool, size, segment):
                return None
        address = pool.find_fit(size, self.expandable)
        assert address is not None
        left = pool.remove(address) - size
        if left >= UNIT if small or self.expandable else left > SMALL:
            pool.add(address + size, left)
            left = 0
        return pool, address, size + left

    def return_cache(self) -> None:
        """Return segments without a tensor to the device; of segments that grow, free pages."""
        for pool in self.pools.values():
            for size, address in tuple(pool.blocks):
                whole = pool.segments.get(address) == size
                returned = size // pool.page * pool.page if self.expandable else whole * size
                self.reserved -= returned
                pool.remove(address)
                if returned < size:
                    pool.add(address, size - returned)

    def _grow(self, pool: Pool, size: int, added: int) -> bool:
        """Reserve a segment for a block; return False if the device has no room."""
        if self.expandable:
            there = pool.sizes[pool.ends[pool.top]] if pool.top in pool.ends else 0
            added = ceil((size - there) / pool.page) * pool.page
        if self.reserved + added > self.capacity:
            return False
        self.reserved += added
        self.most_reserved = max(self.most_reserved, self.reserved)
        pool.top += 0 if self.expandable else UNIT  # apart, so that segments do not merge
        pool.segments[pool.top] = added
        pool.add(pool.top, added)
        pool.top += added
        return True


def run_allocator(result: Result, capacity: float = inf) -> tuple[Allocator, Allocation | None]:
    """Run two steps of the fullest device; optimizer states are made at the end of the first.

    Args:
        capacity: bytes that may be reserved.

    Returns:
        The allocator as the run left it; and the tensor for which there was no room, born in the
        phase that asked for it, which is also ``forward``. None if both steps ran.

    Raises:
        PlanError: the memory of the plan cannot be computed.
    """
    settings = result.plan.settings
    profile = load_profile(settings["training.implementation"])
    streams = profile.get("streams", {}) if settings["parallelism.zero"] == 3 else {}
    allocator = Allocator(capacity, not result.plan.get("memory.allocator_share"))
    freed, slot = defaultdict[float, list[tuple[Pool, int, int]]](list), 0
    for start, end, row in sorted(StepOrder(result).list_spans(), key=itemgetter(0)):
        for before in range(slot, start):
            for pool, address, size in freed.pop(before, ()):
                pool.add(address, size)
        slot, block = start, allocator.allocate(row.bytes, streams.get(row.quantity, ""))
        if block is None:
            return allocator, row
        freed[end].append(block)
    return allocator, None


class StepOrder:
    """Places the allocations of a step in slots.

    Attributes:
        tensors: the allocations of each tensor, one for each copy.
        kinds: the layer kind of each layer of the stage.
        size: slots of the forward passes.
        first: the slot of the last backward pass.
        length: slots of a step.
        begin: the first slot of each phase.
        end: the last one.
        made: the phase of the first step in which what lasts is made, by role; else before it.
    """

    def __init__(self, result: Result) -> None:
        stage, case = find_fullest(result), result.evaluation.case
        tensors = defaultdict[object, list[Allocation]](list)
        for row in list_allocations(result, stage):
            tensors[row.quantity, row.entry, row.bytes] += [row] * row.copies
        self.tensors, self.phases = [*tensors.values()], result.list_entries("phase")
        parts, pairs = result.list_entries("part"), case.pair_values
        held = {part: pairs[notation.layers_on_stage, stage, part] for part in parts}
        self.kinds = [
            part.name for part in parts if part.settings["layers"] for _ in range(held[part])
        ]
        alive = (pairs[notation.in_flight, stage, part] / (held[part] or 1) for part in parts)
        self.size = ceil(max(alive)) * len(self.kinds)
        self.first = self.size + max(self.size, 2)
        self.length = self.first + 3
        starts = (self.size, self.size + 1, *range(self.first, self.length))
        self.begin = dict(zip((phase.name for phase in self.phases), starts, strict=False))
        self.end = {**self.begin, "backward": self.first - 1}
        self.made = {"optimizer states": "step"}
        if case.settings["gradients"] == "fresh":
            self.made["gradients"] = "gradients"

    def list_spans(self) -> Iterator[tuple[int, float, Allocation]]:
        """Yield the first and the last slot of each tensor of two steps. The buffers of a layer are
        those of another one in the next slot."""
        for copies in self.tensors:
            layers = self.kinds.count(str(copies[0].part))
            kept = copies[0].born == "loss" and len(copies) >= layers > 0
            for copy, row in enumerate(copies):
                end, steps = self.end[row.freed], [0, self.length]
                spans: list[tuple[int, float]] = [(self.begin[row.born], end)]
                if (row.born, row.freed) == (self.phases[0].name, self.phases[-1].name):
                    spans, steps = [(self.begin.get(self.made.get(row.role, ""), 0), inf)], [0]
                elif kept:
                    batch, layer = copy // layers, self.kinds.index(str(row.part)) + copy % layers
                    backward = self.size + (batch + 1) * len(self.kinds) - layer
                    end = min(max(backward, self.begin[row.freed]), end)
                    spans = [(batch * len(self.kinds) + layer, end)]
                    row = row._replace(born="forward")
                elif row.part in self.kinds and end <= self.first:
                    slots = range(0 if row.born == "loss" else self.begin[row.born], end + 1)
                    spans = [(slot, slot) for slot in slots]
                for step in steps:
                    yield from ((step + start, step + stop, row) for start, stop in spans)
