"""Preloaded by the fork server, so that every worker, also one that replaces another, starts with
modules and built-in plans in memory."""

from __future__ import annotations

import contextlib
import gc

from planner.documents.references import preset_names
from planner.serve import find, page  # noqa: F401  # what they import is what is asked for


def _fill_caches() -> None:
    """Answer two plans as the page would, and take what is then in memory out of garbage
    collection."""
    gc.set_threshold(600_000)  # as the command line does
    for name in preset_names("plan")[-2:]:  # a dense one and one of experts
        with contextlib.suppress(Exception):  # a request reports it
            body = {"text": page.read_preset(name), "set": {"training.micro_batch": 1}}
            page.change_text(body)
            page.compute_more(body)
    gc.freeze()


_fill_caches()
