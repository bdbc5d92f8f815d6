"""Short benchmarks, each a few numbers: what runs, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """One matrix product of rows × depth by depth × columns."""

    form: str
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> int:
        """Count multiplications and additions."""
        return 2 * self.rows * self.columns * self.depth

    def __str__(self) -> str:
        return f"{self.rows}×{self.columns}×{self.depth}"


@dataclass(frozen=True)
class Traffic:
    """A pass over arrays in memory: copy (one read, one written), read, or triad (two and one)."""

    kind: str
    size: int  # bytes of one array

    @property
    def moved(self) -> int:
        """Count the bytes read and written."""
        return {"read": 1, "copy": 2, "triad": 3}[self.kind] * self.size

    def __str__(self) -> str:
        return f"{self.kind} of {self.size // 2**20} MiB"


@dataclass(frozen=True)
class Attention:
    """Scaled dot-product attention, forward and backward."""

    form: str
    kernel: str  # flash, efficient, math, vendor
    batch: int
    heads: int
    width: int
    length: int
    causal: bool = True

    def __str__(self) -> str:
        seen = "causal" if self.causal else "full"
        heads = f"{self.batch} × {self.heads} heads of {self.width}"
        return f"{self.kernel}, {seen}, {heads}, {self.length} tokens"


@dataclass(frozen=True)
class Elementwise:
    """What a layer and the loss do besides products and attention, forward and backward: norms,
    residual sums, an activation (gelu), cross-entropy."""

    form: str
    tokens: int
    hidden: int

    @property
    def wide(self) -> int:
        """Return the width behind the activation, and of the vocabulary: about as much beside one
        layer as the loss of a small model beside all of its layers."""
        return 4 * self.hidden

    def __str__(self) -> str:
        return f"{self.tokens} tokens of {self.hidden}"


@dataclass(frozen=True)
class Launches:
    """Layers so small that nothing but launching their kernels takes time."""

    layers: int = 4

    def __str__(self) -> str:
        return f"{self.layers} layers of 1 head of 8, 8 tokens"


@dataclass(frozen=True)
class Collective:
    """One collective of several processes: all-reduce, all-gather or all-to-all."""

    kind: str
    size: int  # bytes of the whole tensor on each process
    processes: int

    def __str__(self) -> str:
        return f"{self.kind} of {self.size // 1024} KiB over {self.processes}"


Job = Product | Traffic | Attention | Elementwise | Launches


@dataclass(frozen=True)
class Machine:
    """What a device says about itself."""

    device: str  # cuda, cpu, mps
    name: str
    memory: int  # bytes
    torch: str
    formats: tuple[str, ...]
    architecture: str | None = None
    multiprocessors: int | None = None
    clock: int | None = None  # Hz
