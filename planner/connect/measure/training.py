"""Training steps of a plan's model through PyTorch: how long they take and what they hold."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from planner.base.errors import Fault, PlanError
from planner.connect.measure.decoder import Decoder
from planner.plans.document import Plan

#: Kernels of attention as PyTorch calls them.
KERNELS = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "math": "MATH",
    "vendor": "CUDNN_ATTENTION",
}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "bf16-pure": torch.bfloat16}

#: What was measured: quantity -> value and how; exact where it was counted.
Measured = dict[str, tuple[Fraction | int, str]]


def device(wanted: str | None) -> Any:
    """The device of that kind, or the fastest that is there.

    Raises:
        PlanError: PyTorch sees no such device.
    """
    known = {"cuda": torch.cuda, "mps": torch.backends.mps}
    there = [*(kind for kind, api in known.items() if api.is_available()), "cpu"]
    if wanted is not None and wanted not in there:
        fault = f"--device {wanted}: PyTorch sees no such device here"
        raise PlanError(Fault(fault, None, "one of: " + ", ".join(there)))
    return torch.device(wanted or there[0])


def device_name(where: Any) -> str:
    """The product's name; of a CPU with the threads that run."""
    if where.type == "cuda":
        return str(torch.cuda.get_device_name(where))
    name = _said("/proc/cpuinfo", "model name") or platform.processor()
    name = name or platform.machine() or "CPU"
    if where.type == "mps":
        return f"{name}, GPU"
    threads = torch.get_num_threads()
    return f"{name}, {threads} thread{'s' * (threads > 1)}"


def total_memory(where: Any) -> int:
    """Memory of the device, bytes."""
    if where.type == "cuda":
        return int(torch.cuda.get_device_properties(where).total_memory)
    if where.type == "mps":
        return int(torch.mps.recommended_max_memory())
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def free_memory(where: Any) -> int:
    """Memory that a run can have now, bytes."""
    if where.type == "cuda":
        return int(torch.cuda.mem_get_info(where)[0])
    found = _said("/proc/meminfo", "MemAvailable")
    return int(found.split()[0]) * 1024 if found else total_memory(where) // 2


def _said(file: str, label: str) -> str:
    """What Linux says behind the first such label; nothing where it says nothing."""
    with contextlib.suppress(OSError):
        for line in Path(file).read_text("utf-8", "replace").splitlines():
            if line.startswith(label):
                return line.partition(":")[2].strip()
    return ""


def synchronize(where: Any) -> None:
    """Wait for what the device has been told to do."""
    if where.type == "cuda":
        torch.cuda.synchronize(where)
    elif where.type == "mps":
        torch.mps.synchronize()


def attention_kernels(*names: str) -> Any:
    """The context in which PyTorch's attention runs by one of these kernels."""
    return sdpa_kernel([getattr(SDPBackend, KERNELS[name]) for name in names])


# -- a run -------------------------------------------------------------------------------------


def decoder(plan: Plan, where: Any) -> Any:
    """The plan's model with random weights on a device."""
    assert plan.model is not None
    run = {**plan.get("model"), **plan.get("training")}
    run["dropout"] = float(run["dropout"])
    pure = DTYPES[run["precision"]] if run["precision"] == "bf16-pure" else None
    torch.manual_seed(0)
    return Decoder(plan.model, run).to(device=where, dtype=pure)


class Trainer:
    """A model with its optimizer and one batch of random tokens."""

    def __init__(self, plan: Plan, where: Any) -> None:
        training = plan.get("training")
        self.model, self.where, self.precision = decoder(plan, where), where, training["precision"]
        fused = training["optimizer_kernel"] == "fused"
        weights = self.model.parameters()
        self.optimizer = torch.optim.AdamW(weights, lr=1e-4, fused=fused, foreach=not fused)
        shape = (training["micro_batch"], training["sequence_length"])
        self.tokens = torch.randint(plan.get("model.vocab"), shape, device=where)
        self.kernel = training["attention"]

    def compute(self) -> Any:
        """The context that a forward pass runs in: precision and attention kernel."""
        stack = contextlib.ExitStack()
        if self.precision in ("bf16", "fp16"):
            stack.enter_context(torch.autocast(self.where.type, DTYPES[self.precision]))
        if self.kernel != "eager" and self.where.type == "cuda":
            # fp32 has no flash kernel: the efficient one stands in.
            stack.enter_context(attention_kernels(self.kernel, "efficient"))
        return stack

    def step(self) -> None:
        """One training step: forward, backward, update."""
        with self.compute():
            loss = self.model(self.tokens, self.tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def kept(self) -> tuple[int, int]:
        """Bytes that a forward pass keeps for the backward pass, and the most that a layer does:
        each storage once, no weights and no casts of them, no rotary tables in a layer."""
        known = {weight.untyped_storage().data_ptr() for weight in self.model.parameters()}
        sizes: Counter[int | None] = Counter()  # bytes by layer, None outside of all
        alive: list[Any] = []  # what is kept stays alive, so that no address is used twice
        here: list[int | None] = [None]

        def pack(tensor: Any) -> Any:
            alive.append(tensor)
            storage = tensor.untyped_storage()
            address = storage.data_ptr()
            if address not in known and not _cast(tensor):
                known.add(address)
                sizes[None if address in self.model.tables else here[0]] += storage.nbytes()
            return tensor

        def enter(index: int | None) -> Any:
            return lambda *_: here.__setitem__(0, index)

        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with self.compute() as stack, hooks:
            for index, layer in enumerate(self.model.layers):
                stack.enter_context(layer.register_forward_pre_hook(enter(index)))
                stack.enter_context(layer.register_forward_hook(enter(None)))
            self.model(self.tokens, self.tokens)
        layers = [size for index, size in sizes.items() if index is not None]
        return sizes.total(), max(layers, default=0)

    def live(self) -> int | None:
        """Bytes alive at the peak of a step, by PyTorch's own tracker; None where it has none."""
        try:
            from torch.distributed._tools.mem_tracker import MemTracker
        except ImportError:
            return None
        tracker = MemTracker()
        tracker.track_external(self.model, self.optimizer, self.tokens)
        with tracker:
            self.step()
        peaks = tracker.get_tracker_snapshot("peak")
        return max(int(snapshot["Total"]) for snapshot in peaks.values())


def _cast(tensor: Any) -> bool:
    """Whether a tensor is a weight in another format, which autocast made."""
    function = tensor.grad_fn
    while function is not None and type(function).__name__ in ("TBackward0", "ToCopyBackward0"):
        function = function.next_functions[0][0]
    return isinstance(getattr(function, "variable", None), nn.Parameter)


def run(plan: Plan, where: Any, steps: int, tell: Any) -> tuple[Measured, list[str]]:
    """Train some steps: what they take and hold, and remarks."""
    assert plan.model is not None
    found: Measured = {}
    notes: list[str] = []
    trainer = Trainer(plan, where)
    trainer.step()
    synchronize(where)
    if where.type == "cuda":
        torch.cuda.reset_peak_memory_stats(where)
    times: list[float] = []
    for index in range(steps):
        start = time.perf_counter()
        trainer.step()
        synchronize(where)
        times.append(time.perf_counter() - start)
        tell(f"step {index + 1} of {steps}: {times[-1]:.3g} s")
    typical = Fraction(median(times))
    tokens = plan.get("training.micro_batch") * plan.get("training.sequence_length")
    how = f"median of {len(times)}, {min(times):.3g} to {max(times):.3g} s"
    found["time.step_seconds"] = typical, how
    found["time.tokens_per_second"] = tokens / typical, "from the step time"
    weights = sum(weight.numel() for weight in trainer.model.parameters())
    found["parameters.total"] = weights, "counted"
    if where.type == "cuda":
        found["memory.total"] = torch.cuda.max_memory_allocated(where), "max_memory_allocated"
        found["memory.reserved"] = torch.cuda.max_memory_reserved(where), "max_reserved"
    if plan.get("training.recompute") == "none":
        every, layer = trainer.kept()
        found["memory.activations.layer"] = layer, "kept for backward, by hooks"
        found["memory.activations.stage[0]"] = every, "kept for backward, by hooks"
        if where.type == "cpu" and plan.get("model.norm") == "rmsnorm":
            notes.append("on a CPU PyTorch takes RMSNorm apart, which keeps more")
        if any(block.kind == "moe" for part in plan.model.parts for block in part.blocks):
            notes.append("experts run one after another, which keeps and takes more")
    if where.type == "cpu":
        peak = trainer.live()
        if peak is None:
            notes.append("memory of the process is not measured on a CPU")
        else:
            found["memory.total"] = peak, "live tensors, by PyTorch's tracker"
    return found, notes
