"""Templates over plain data: text, numbers, lists, mappings, and records of these. Whatever else a
template were given by mistake has no attribute in it. Templates that do not ship with the program
make their text in a process of its own, bounded in time, memory and length."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar, dataclass_transform

T = TypeVar("T")

#: What a template may call of text and mappings, and of Jinja's functions.
METHODS: dict[type, frozenset[str]] = {
    str: frozenset((
        "capitalize", "endswith", "lower", "lstrip", "partition", "removeprefix", "removesuffix",
        "replace", "rpartition", "rstrip", "split", "startswith", "strip", "title", "upper",
    )),
    dict: frozenset(("get", "items", "keys", "values")),
}  # fmt: skip
FUNCTIONS = ("namespace", "range")
#: Limits of foreign templates: time, bytes of memory, bytes of text.
SECONDS, MEMORY, LENGTH = 10, 2**30, 2**25
BOUNDS = f"at most {SECONDS} s, {MEMORY >> 30} GiB of memory, {LENGTH >> 20} MiB of text"


class computed_field(cached_property[T]):
    """A field of a record that is computed when it is first read."""


@dataclass_transform(frozen_default=True)
class Record:
    """What templates read by name: each kind is a frozen dataclass, of which they have the fields
    whose names do not begin with an underscore, computed ones too, and nothing else."""

    __dataclass_fields__: ClassVar[dict[str, Any]]
    readable: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True)(cls)
        names = [name for name, value in vars(cls).items() if isinstance(value, computed_field)]
        names += (one.name for one in fields(cls))
        cls.readable |= {name for name in names if name[0] != "_"}

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields that templates read, each computed: all that a copy has."""
        return {name: getattr(self, name) for name in self.readable}


def make_sandbox(**options: Any) -> Any:
    """Make an environment whose templates read plain data and nothing else."""
    from jinja2 import StrictUndefined
    from jinja2.runtime import LoopContext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        """Jinja's sandbox, with attributes of plain data alone."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            """Return an attribute of a record or a loop directly, which is quicker than the
            rule."""
            if isinstance(obj, Record) and attribute in obj.readable:
                return getattr(obj, attribute)
            if type(obj) is LoopContext and attribute[0] != "_":
                return getattr(obj, attribute)
            return super().getattr(obj, attribute)

        def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
            """Return whether a template may read an attribute: a field of a record, a method in
            ``METHODS``, or what Jinja allows of its own objects.

            Args:
                obj: what the template has.
                attr: name of the attribute.
                value: of the attribute, which plain data does not need.
            """
            if isinstance(obj, Record):
                return attr in obj.readable
            if isinstance(obj, tuple):
                return attr in getattr(obj, "_fields", ())
            if known := next((kind for kind in METHODS if isinstance(obj, kind)), None):
                return attr in METHODS[known]
            ours = type(obj).__module__.startswith("jinja2.")
            return ours and super().is_safe_attribute(obj, attr, value)

        def wrap_str_format(self, value: Any) -> None:
            """Return None: ``METHODS`` has no ``format``, so no text is used as one."""

    made = Sandbox(
        undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True, **options
    )
    made.globals = {name: made.globals[name] for name in FUNCTIONS}
    return made


def make_apart(function: Callable[..., Any], *given: Any) -> Any:
    """Run a function in a process of its own and return its result, which must be JSON data; return
    None if it exceeds ``BOUNDS`` or crashes."""
    import multiprocessing

    ways = multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("fork" if "fork" in ways else "spawn")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_send_result, args=(send, function, given))
    child.start()
    send.close()
    made = None
    with suppress(EOFError, OSError):  # it was ended, or has more to say
        if receive.poll(SECONDS):
            made = json.loads(receive.recv_bytes(LENGTH))
    receive.close()
    child.kill()
    child.join()
    return made


def _send_result(send: Any, function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    """Send the result of a function; exit in any case without printing anything."""
    try:
        _limit_process()
        send.send_bytes(json.dumps(function(*given)).encode())
    finally:
        os._exit(0)


def _limit_process() -> None:
    """Limit the time and memory of this process, where the system can."""
    with suppress(ImportError, OSError):
        import resource

        bounds = {resource.RLIMIT_CPU: SECONDS}
        with suppress(OSError):
            pages = Path("/proc/self/statm").read_text("ascii").split()[0]
            bounds[resource.RLIMIT_AS] = int(pages) * resource.getpagesize() + MEMORY
        for kind, most in bounds.items():
            with suppress(ValueError):  # it is bounded more tightly
                resource.setrlimit(kind, (most, most))
