"""A declarative planner for training large language models.

>>> import planner
>>> plan = planner.load("presets/llama70b_h100x1024.yaml")
>>> result = plan.evaluate()
"""

from planner.api import Plan, import_config, load
from planner.errors import Fault, Place, PlanError
from planner.version import __version__

__all__ = ["Fault", "Place", "Plan", "PlanError", "__version__", "import_config", "load"]
