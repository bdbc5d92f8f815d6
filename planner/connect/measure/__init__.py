"""What this machine does: an accelerator document from short benchmarks.

PyTorch is imported here only, in ``engine``, ``devices`` and ``collectives``; what the benchmarks
should take comes from ordinary plan documents (``expected``), so that rates are read out of times
with the very formulas that predict times from rates.
"""

from __future__ import annotations

from typing import Any

from planner.base.errors import PlanError


def need_torch() -> Any:
    """Import the torch module.

    Raises:
        PlanError: it is not installed, or cannot be loaded.
    """
    try:
        import torch
    except (ImportError, OSError) as error:
        absent = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        what = "PyTorch is not installed" if absent else f"PyTorch cannot be loaded: {error}"
        raise PlanError(f"plan.py measure: {what}", None, "pip install '.[measure]'") from None
    return torch
