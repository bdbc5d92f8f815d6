"""Short benchmarks, each a few numbers: what runs, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Product:
    """One matrix product of rows × depth by depth × columns.

    Attributes:
        form: the number format.
        rows, columns, depth: the sizes.
    """

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
    """A pass over arrays in memory: copy (one read, one written), read, or triad (two and one).

    Attributes:
        kind: copy, read or triad.
        size: bytes of one array.
    """

    kind: str
    size: int

    @property
    def moved(self) -> int:
        """Count the bytes read and written."""
        return {"read": 1, "copy": 2, "triad": 3}[self.kind] * self.size

    def __str__(self) -> str:
        return f"{self.kind} of {self.size // 2**20} MiB"


@dataclass(frozen=True)
class Attention:
    """Scaled dot-product attention, forward and backward.

    Attributes:
        form: the number format.
        kernel: flash, efficient, math or vendor.
        batch: sequences.
        heads: heads of each, with as many key-value heads.
        width: of a head.
        length: tokens of a sequence.
        causal: whether the mask is causal.
    """

    form: str
    kernel: str
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
    residual sums, an activation (gelu), cross-entropy.

    Attributes:
        form: the number format of what is added to the residual stream.
        tokens: rows of each array.
        hidden: the width of the residual stream.
    """

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
    """Layers so small that nothing but launching their kernels takes time.

    Attributes:
        layers: the number of layers.
    """

    layers: int = 4

    def __str__(self) -> str:
        return f"{self.layers} layers of 1 head of 8, 8 tokens"


@dataclass(frozen=True)
class Collective:
    """One collective of several processes: all-reduce, all-gather or all-to-all.

    Attributes:
        kind: all-reduce, all-gather or all-to-all.
        size: bytes of the whole tensor on each process.
        processes: their number.
    """

    kind: str
    size: int
    processes: int

    def __str__(self) -> str:
        return f"{self.kind} of {self.size // 1024} KiB over {self.processes}"


Job = Product | Traffic | Attention | Elementwise | Launches


@dataclass(frozen=True)
class Machine:
    """The properties of a device, as PyTorch reports them.

    Attributes:
        device: cuda, cpu or mps.
        name: its name.
        memory: bytes.
        torch: the version of PyTorch.
        formats: the number formats whose products it runs.
        architecture: of an NVIDIA GPU; None for other devices.
        multiprocessors: their number; None where there are none.
        clock: Hz; None if unknown.
    """

    device: str
    name: str
    memory: int
    torch: str
    formats: tuple[str, ...]
    architecture: str | None = None
    multiprocessors: int | None = None
    clock: int | None = None
