"""The devices that PyTorch sees: which is measured, and what it says about itself."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from planner.base import resources
from planner.base.errors import PlanError

#: Kernels of attention as PyTorch calls them.
KERNELS: Mapping[str, str] = resources.load_beside(__file__)


def pick_device(wanted: str | None) -> Any:
    """Pick the device of that kind, or the fastest that is there.

    Raises:
        PlanError: PyTorch sees no such device.
    """
    known = {"cuda": torch.cuda, "mps": torch.backends.mps}
    there = [*(kind for kind, api in known.items() if api.is_available()), "cpu"]
    if wanted is not None and wanted not in there:
        fault = f"--device {wanted}: PyTorch sees no such device here"
        raise PlanError(fault, None, "one of: " + ", ".join(there))
    return torch.device(wanted or there[0])


def read_name(where: Any) -> str:
    """Read the product's name; of a CPU with the threads that run."""
    if where.type == "cuda":
        return str(torch.cuda.get_device_name(where))
    name = _read_proc("/proc/cpuinfo", "model name") or platform.processor()
    name = name or platform.machine() or "CPU"
    if where.type == "mps":
        return f"{name}, GPU"
    threads = torch.get_num_threads()
    return f"{name}, {threads} thread{'s' * (threads > 1)}"


def read_memory(where: Any) -> int:
    """Read the memory of the device, bytes."""
    if where.type == "cuda":
        return int(torch.cuda.get_device_properties(where).total_memory)
    if where.type == "mps":
        return int(torch.mps.recommended_max_memory())
    return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


def _read_proc(file: str, label: str) -> str:
    """Read what Linux says behind the first such label; nothing where it says nothing."""
    with contextlib.suppress(OSError):
        for line in Path(file).read_text("utf-8", "replace").splitlines():
            if line.startswith(label):
                return line.partition(":")[2].strip()
    return ""


def wait_for_device(where: Any) -> None:
    """Wait for what the device has been told to do."""
    if where.type == "cuda":
        torch.cuda.synchronize(where)
    elif where.type == "mps":
        torch.mps.synchronize()
