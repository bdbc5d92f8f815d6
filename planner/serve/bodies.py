"""Bodies of requests and of answers: JSON, read and written in the processes that compute, so that
the server itself only passes bytes on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir
from typing import Any

from planner.base import files
from planner.base.display import plain, quoted
from planner.base.errors import Fault, PlanError
from planner.serve.page import fault_of

#: What answers a body, by a name: data, or JSON that is written already.
Function = Callable[[str, Mapping[str, Any]], Any]


def written(data: Any) -> bytes:
    """Data as JSON on one line."""
    return quoted(plain(data)).encode("utf-8", "replace")


def of_faults(*faults: Fault | str) -> bytes:
    """Faults as the body of an answer."""
    told = [Fault(one) if isinstance(one, str) else one for one in faults]
    return written({"faults": [fault_of(fault) for fault in told]})


def read(raw: bytes) -> dict[str, Any]:
    """The object that a body is.

    Raises:
        PlanError: it is no JSON, no object, or holds what is no number or no text.
    """

    def refused(word: str) -> Any:
        raise ValueError(f"{word} is no number")

    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise PlanError(Fault("the body is no UTF-8")) from None
    data = files.parse_json(text, parse_constant=refused)
    if not isinstance(data, dict):
        raise PlanError(Fault("the body is no JSON object", None, '{"key": value, …}'))
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise PlanError(Fault("the body has half a character, or is nested too deeply")) from None
    return data


def answered(function: Function, name: str, raw: bytes) -> tuple[int, bytes]:
    """The status of an answer and its body."""
    try:
        body = read(raw)
        if "text" in body:  # of the page
            good = isinstance(body["text"], str) and isinstance(body.get("set", {}), dict)
            if not good:
                raise PlanError(Fault("'text' is a text, 'set' an object of keys and values"))
    except PlanError as error:
        return 400, of_faults(*error.faults)
    try:
        # No document that comes from elsewhere reads a file here: its folder is empty.
        with tempfile.TemporaryDirectory() as folder, chdir(folder), files.within(folder):
            found = function(name, body)
        return 200, found if isinstance(found, bytes) else written(found)
    except PlanError as error:
        return 422, of_faults(*error.faults)
    except KeyError as error:
        return 400, of_faults(f"the body has no {error}, or nothing is called so")
