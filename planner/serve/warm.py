"""What a process that computes has done before it is asked: the process that makes the others
imports this once, so that each of them, also one in the place of one that was ended, begins with
everything loaded and the plans that ship evaluated."""

from __future__ import annotations

import contextlib
import gc

from planner.base import resources
from planner.documents.source import preset_names
from planner.serve import find, page  # noqa: F401  # what they import is what is asked for


def _warm() -> None:
    gc.set_threshold(600_000)  # as the command line does
    for name in preset_names("plan")[-2:]:
        with contextlib.suppress(Exception):  # it is told to who asks
            page.answer({"text": resources.read_text(resources.folder("presets") / f"{name}.yaml")})
    gc.freeze()


_warm()
