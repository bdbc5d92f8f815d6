"""Runs benchmarks through PyTorch on one device."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from planner.base import resources
from planner.base.errors import PlanError
from planner.connect.measure import collectives, devices, expected, jobs
from planner.plans.document import Plan

FORMATS = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}
#: Architectures by compute capability.
ARCHITECTURES = resources.load_beside(__file__, "architectures.yaml")
#: Repetitions of one benchmark, and what one of them lasts at least, so that clocks are exact.
FEWEST, MOST = 3, 30
SHORTEST = 0.002
Call = Callable[[], Any]


class Engine:
    """PyTorch on one device, or on several for collectives."""

    def __init__(self, device: str | None = None, processes: int | None = None) -> None:
        self.where = devices.pick_device(device)
        count = torch.cuda.device_count() if self.where.type == "cuda" else 1
        if processes is not None and self.where.type == "cuda" and processes > count:
            fault = f"--processes {processes}: there are {count} GPUs"
            raise PlanError(fault, None, f"1 to {count}")
        self.processes = processes or count
        if self.processes > 1 and self.where.type == "mps":
            raise PlanError("--processes needs cuda or cpu", None, "--device cpu")

    def read_machine(self) -> jobs.Machine:
        """Read what the device says about itself."""
        where = self.where
        facts: dict[str, Any] = {}
        # The others have other tiles than NVIDIA's: nothing is said about them.
        if where.type == "cuda" and torch.version.hip is None:
            given = torch.cuda.get_device_properties(where)
            kilohertz = getattr(given, "clock_rate", None)
            facts = {
                "architecture": ARCHITECTURES.get(f"{given.major}.{given.minor}"),
                "multiprocessors": given.multi_processor_count,
                "clock": kilohertz * 1000 if kilohertz else None,
            }
        name, memory = devices.read_name(where), devices.read_memory(where)
        version, formats = str(torch.__version__), tuple(self._list_formats())
        return jobs.Machine(where.type, name, memory, version, formats, **facts)

    def _list_formats(self) -> Iterator[str]:
        """List the number formats whose products the device runs."""
        cuda = self.where.type == "cuda"
        capability = torch.cuda.get_device_capability(self.where) if cuda else (0, 0)
        tried = {
            "fp32": True,
            "tf32": capability >= (8, 0) and torch.version.hip is None,
            "bf16": not cuda or torch.cuda.is_bf16_supported(),
            "fp16": True,
            "fp8": capability >= (8, 9),
        }
        for form, may in tried.items():
            if may and self.time_job(jobs.Product(form, 64, 64, 64), 0):
                yield form

    def time_job(self, job: jobs.Job, seconds: float) -> list[float]:
        """Time a benchmark several times over, s, in about `seconds`; none where it cannot run."""
        made: Callable[[Any], Call] = getattr(self, f"_{type(job).__name__.lower()}")
        try:
            with contextlib.ExitStack() as stack:
                if isinstance(job, jobs.Attention):
                    kernel = getattr(SDPBackend, devices.KERNELS[job.kernel])
                    stack.enter_context(sdpa_kernel(kernel))
                elif isinstance(job, jobs.Product) and self.where.type == "cuda":
                    matmul = torch.backends.cuda.matmul
                    stack.callback(setattr, matmul, "allow_tf32", matmul.allow_tf32)
                    matmul.allow_tf32 = job.form == "tf32"
                return self._time_call(made(job), seconds)
        except (RuntimeError, NotImplementedError, AttributeError, TypeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                torch.cuda.empty_cache()
            return []

    def time_group(
        self, wanted: list[jobs.Collective], seconds: float
    ) -> dict[jobs.Collective, list[float]]:
        """Time each collective between the processes, s; all share `seconds`."""
        return collectives.run_jobs(wanted, self.where.type, seconds)

    def _time_call(self, call: Call, seconds: float) -> list[float]:
        """Time a call for ``seconds``, at least ``FEWEST`` and at most ``MOST`` times; short calls
        are timed several at once."""
        call()
        devices.wait_for_device(self.where)
        first = self._time_once(call, 1)
        inner = max(1, math.ceil(SHORTEST / max(first, 1e-9)))
        found: list[float] = []
        end = time.perf_counter() + seconds
        while len(found) < FEWEST or (len(found) < MOST and time.perf_counter() < end):
            found.append(self._time_once(call, inner))
        return found

    def _time_once(self, call: Call, inner: int) -> float:
        """Time one call, s, averaged over `inner` in a row. CUDA keeps the time itself: what the
        host does meanwhile does not count."""
        if self.where.type != "cuda":
            start = time.perf_counter()
            for _ in range(inner):
                call()
            devices.wait_for_device(self.where)
            return (time.perf_counter() - start) / inner
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(inner):
            call()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000 / inner

    def _random(self, *shape: int, form: str = "fp32", grad: bool = False) -> Any:
        """Make a tensor of random numbers in a number format."""
        made = torch.randn(*shape, device=self.where)
        made = made.to(torch.float8_e4m3fn if form == "fp8" else FORMATS[form])
        return made.requires_grad_(grad)

    def _product(self, job: jobs.Product) -> Call:
        """Make the call of a matrix product; fp8 with one scale for each factor and a bf16
        result."""
        left = self._random(job.rows, job.depth, form=job.form)
        right = self._random(job.columns, job.depth, form=job.form).t()  # as a linear layer has it
        if job.form == "fp8":
            one = torch.ones((), device=self.where)
            return lambda: torch._scaled_mm(
                left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16
            )
        out = torch.empty(job.rows, job.columns, dtype=left.dtype, device=self.where)
        return lambda: torch.mm(left, right, out=out)

    def _traffic(self, job: jobs.Traffic) -> Call:
        """Make the call of a pass over memory."""
        a, b, c = (torch.ones(job.size // 4, device=self.where) for _ in range(3))
        return {
            "read": lambda: torch.sum(a),
            "copy": lambda: b.copy_(a),
            "triad": lambda: torch.add(a, b, alpha=0.5, out=c),
        }[job.kind]

    def _attention(self, job: jobs.Attention) -> Call:
        """Make the call of attention, forward and backward."""
        shape = (job.batch, job.heads, job.length, job.width)
        q, k, v = (self._random(*shape, form=job.form, grad=True) for _ in range(3))
        gradient = torch.ones_like(q)

        def call() -> None:
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=job.causal)
            torch.autograd.grad(found, (q, k, v), gradient)

        return call

    def _elementwise(self, job: jobs.Elementwise) -> Call:
        """Make the call of the elementwise kernels of a layer and the loss, forward and
        backward."""
        h, form = job.hidden, job.form
        # Under autocast the residual stream and its norms are fp32, what is added to it is not.
        x = self._random(job.tokens, h, grad=True)
        y, z = (self._random(job.tokens, h, form=form, grad=True) for _ in range(2))
        shape = (job.tokens, job.wide)
        wide, logits = (self._random(*shape, form=form, grad=True) for _ in range(2))
        weight = torch.ones(h, device=self.where, requires_grad=True)
        bias = torch.zeros(h, device=self.where, requires_grad=True)
        targets = torch.zeros(job.tokens, dtype=torch.long, device=self.where)
        one = torch.ones(job.tokens, h, device=self.where, dtype=FORMATS[form])
        two = torch.ones_like(wide)

        def call() -> None:
            stream = x
            found = []
            for added in (y, z):
                normal = functional.layer_norm(stream, (h,), weight, bias)
                found.append(normal.to(y.dtype))
                stream = stream + added
            last = functional.layer_norm(stream, (h,), weight, bias).to(y.dtype)
            active = functional.gelu(wide)
            loss = functional.cross_entropy(logits.float(), targets)
            torch.autograd.backward([*found, last, active, loss], [one, one, one, two, None])

        return call

    def _launches(self, job: jobs.Launches) -> Call:
        """Make the call of layers so small that launches take all the time, forward and
        backward."""
        plan = expected.make_tiny(job)
        layers = [Layer(plan).to(self.where) for _ in range(job.layers)]
        length, hidden = plan.get("training.sequence_length"), plan.get("model.hidden")
        x = self._random(1, length, hidden, grad=True)
        gradient = torch.ones_like(x)

        def call() -> None:
            y = x
            for layer in layers:
                y = layer(y)
            y.backward(gradient)

        return call


class Layer(nn.Module):
    """The layer of expected.yaml in plain PyTorch: one head of attention and a network."""

    def __init__(self, plan: Plan) -> None:
        super().__init__()
        width, wide = plan.get("model.hidden"), plan.get("model.mlp.intermediate")
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.inputs = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in "qkv")
        self.output = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, wide, bias=False)
        self.down = nn.Linear(wide, width, bias=False)

    def forward(self, x: Any) -> Any:
        """Compute the residual stream (1, s, h) behind the layer."""
        y = self.norms[0](x)
        q, k, v = (linear(y).unflatten(-1, (1, -1)).transpose(1, 2) for linear in self.inputs)
        core = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.output(core.transpose(1, 2).flatten(-2))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))
