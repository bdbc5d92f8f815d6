"""Bodies of requests and of answers: JSON, parsed and written in the worker processes, so that the
server itself only passes bytes on."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir
from typing import Any

from planner.base import files
from planner.base.display import plain, quote_json
from planner.base.errors import Fault, PlanError
from planner.serve.page import describe_fault
from planner.serve.programs import MOST

#: Bytes of a request and of an answer at most.
MAX_BODY, MAX_ANSWER = 1_000_000, 8_000_000
#: Types of the page's keys that are not optional text.
KINDS: dict[str, Any] = {
    "text": str,
    **dict.fromkeys(("set", "brought"), dict | None),
    **dict.fromkeys(("keys", "fixed"), list),
}
#: A function that answers a body, by name: with data, or with JSON as bytes.
Function = Callable[[str, Mapping[str, Any]], Any]


def encode_json(data: Any) -> bytes:
    """Encode data as JSON on one line."""
    return quote_json(plain(data)).encode("utf-8", "replace")


def encode_faults(*faults: Fault | str) -> bytes:
    """Encode faults as the body of an answer."""
    told = [Fault(one) if isinstance(one, str) else one for one in faults]
    return encode_json({"faults": [describe_fault(fault) for fault in told]})


def parse_body(raw: bytes) -> dict[str, Any]:
    """Parse the object in a body.

    Raises:
        PlanError: it is no JSON, no object, has a key twice, or an invalid number or text.
    """

    def refuse_number(word: str) -> Any:
        """Raise a ValueError for NaN and Infinity, which are no JSON."""
        raise ValueError(f"{word} is not a number")

    if len(raw) > MAX_BODY:
        raise PlanError(f"a request has at most {MAX_BODY // 1000} kB")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise PlanError("the body is not UTF-8") from None
    how: dict[str, Any] = {"object_pairs_hook": files.refuse_twice}
    data = files.parse_json(text, parse_constant=refuse_number, **how)
    if not isinstance(data, dict):
        raise PlanError("the body is not a JSON object", None, '{"key": value, …}')
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except (UnicodeEncodeError, RecursionError):
        raise PlanError("the body has an incomplete character or is nested too deeply") from None
    return data


def compute_answer(
    function: Function, name: str, raw: bytes, of_page: bool = True
) -> tuple[int, bytes]:
    """Compute an answer. A document that comes from elsewhere reads no files here.

    Args:
        function: called with the name and the parsed body.
        name: of what is asked.
        raw: the body, JSON.
        of_page: whether the page asks, whose keys have the types of ``KINDS``.

    Returns:
        the status (200; 400 for a body that is wrong; 422 for a plan that is wrong) and the body.
    """
    try:
        body = parse_body(raw)
        for key, value in body.items() if of_page else ():
            whole = isinstance(value, KINDS.get(key, str | None))
            parts = value if isinstance(value, list | dict) else ()
            if not whole or len(parts) > MOST or not all(isinstance(one, str) for one in parts):
                raise PlanError(f"'{key}' has another type, or more than {MOST} values")
    except PlanError as error:
        return 400, encode_faults(*error.faults)
    try:
        # No document that comes from elsewhere reads a file here: its folder is empty.
        with tempfile.TemporaryDirectory() as folder, chdir(folder), files.restrict_reading(folder):
            found = function(name, body)
        answer = found if isinstance(found, bytes) else encode_json(found)
        if len(answer) > MAX_ANSWER:
            raise PlanError(f"the answer is larger than {MAX_ANSWER // 10**6} MB")
        return 200, answer
    except PlanError as error:
        return 422, encode_faults(*error.faults)
    except KeyError as error:
        return 400, encode_faults(f"the body has no {error}, or nothing is called so")
