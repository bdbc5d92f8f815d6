"""A declarative planner for training large language models.

>>> import planner
>>> plan = planner.load("presets/llama70b_h100x1024.yaml")
>>> result = plan.evaluate()
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from planner.api import Plan, load, load_study, quick, simulate
    from planner.base.errors import Fault, Place, PlanError
    from planner.base.version import __version__
    from planner.connect.imports import import_config

__all__ = [
    "Fault",
    "Place",
    "Plan",
    "PlanError",
    "__version__",
    "import_config",
    "load",
    "load_study",
    "quick",
    "simulate",
]

#: Where each name comes from.
_HOMES = {
    "Fault": "base.errors",
    "Place": "base.errors",
    "PlanError": "base.errors",
    "__version__": "base.version",
    "import_config": "connect.imports",
}


def __getattr__(name: str) -> "Any":
    # The command line imports this package too. It has no use for the Python face, and nothing may
    # take time before an interrupt is told what to do.
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(f"planner.{_HOMES.get(name, 'api')}"), name)
    raise AttributeError(f"module 'planner' has no attribute {name!r}")
