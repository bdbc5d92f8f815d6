"""A declarative planner for training large language models.

>>> import planner
>>> plan = planner.load("presets/llama70b_h100x1024.yaml")
>>> result = plan.evaluate()
"""

from typing import TYPE_CHECKING, Any

from planner.errors import Fault, Place, PlanError
from planner.version import __version__

if TYPE_CHECKING:
    from planner.api import Plan, import_config, load, load_study

__all__ = [
    "Fault",
    "Place",
    "Plan",
    "PlanError",
    "__version__",
    "import_config",
    "load",
    "load_study",
]


def __getattr__(name: str) -> Any:
    # The command line imports this package too, and has no use for the Python face.
    if name in ("Plan", "import_config", "load", "load_study"):
        from planner import api

        return getattr(api, name)
    raise AttributeError(f"module 'planner' has no attribute {name!r}")
