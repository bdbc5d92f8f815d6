"""The page's functions inside a web worker, where Pyodide runs this package: the host of a site
(``planner.serve.site``), as ``planner.serve.app`` is that of a server."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack

from planner.base import progress
from planner.engine.in_turn import keep_graphs
from planner.serve import bodies, find

#: The functions below each part of an address, as a server has them.
ADDRESSES = {"page": find.AT_ONCE, "find": find.FUNCTIONS}
#: Seconds between two lines of progress.
PERIOD = 0.25
#: What lacks a package that no site can bring along, by the package.
LACKING = {"numpy": "Searches and charts need NumPy, which this copy of Pyodide does not include."}

_whole = ExitStack()


def begin() -> None:
    """Prepare the process for many answers one after another; it was imported without collecting
    garbage."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(600_000)  # as the command line does
    _whole.enter_context(keep_graphs())


def answer(address: str, raw: str, hear: Callable[[str], object]) -> tuple[int, str]:
    """Return the status of an answer and its body, as a server does.

    Args:
        address: the path of the request, relative to the page.
        raw: the body of the request.
        hear: receives lines of progress.

    Raises:
        ModuleNotFoundError: a package that is not loaded yet is needed.
    """
    part, _, name = address.partition("/")
    if name not in ADDRESSES.get(part, ()):
        return 404, bodies.encode_faults("there is nothing at this address").decode()
    with progress.send_progress(hear, PERIOD):
        status, body = bodies.compute_answer(find.call_function, name, raw.encode())
    return status, body.decode()


def report_missing(name: str) -> tuple[int, str]:
    """Return the answer to a request that needs a package which cannot be loaded."""
    told = LACKING.get(name, f"This needs {name}, which could not be loaded.")
    return 422, bodies.encode_faults(told).decode()
