"""What shows itself in a notebook. How it does is known to a room further down, which sets ``html``
when the Python face is imported."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The HTML of an object; None where nobody has said how.
html: Callable[[Any], str] | None = None


class Shown:
    """An object that a notebook shows as HTML, and a terminal on one line."""

    def _repr_html_(self) -> str | None:
        """Return what Jupyter and its relatives show in place of ``repr``."""
        return None if html is None else html(self)
