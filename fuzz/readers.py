"""The YAML reader and the unit parser under coverage guidance.

    python -m fuzz.readers yaml|units [--seconds 600] [--corpus FOLDER]

With the package atheris (libFuzzer for Python) where it is installed, else with a loop of our own
that keeps the inputs which reach new lines. Any exception but PlanError and UnitError is a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import CodeType, FrameType
from typing import Any

from fuzz import mutate, seeds, values

UNITS = ("1", "bytes", "bytes/s", "FLOP/s", "tokens", "s", "W", "USD/h", "kgCO2e/kWh", "devices")
WATCHED = ("nodes.py", "units.py", "errors.py", "numbers.py", "source.py", "references.py")


def read_yaml(raw: bytes) -> None:
    """One YAML text; every fault has a place and prints."""
    from planner.base.errors import PlanError
    from planner.documents.yaml_nodes import parse_yaml

    text = raw.decode("utf-8", "surrogateescape")
    try:
        root = parse_yaml(text, "x.yaml")
    except PlanError as error:
        for fault in error.faults:
            assert str(fault).startswith("x.yaml:"), str(fault)
        return
    if root is not None:
        root.plain()


def read_unit(raw: bytes) -> None:
    """One quantity in the unit that the first byte picks; what is read can be printed."""
    from planner.base import numbers, units

    unit, text = UNITS[raw[0] % len(UNITS) if raw else 0], raw[1:].decode("utf-8", "replace")
    try:
        value = units.parse(text, unit)
    except units.UnitError as error:
        assert error.message
        return
    with contextlib.suppress(units.UnitError):
        units.check_range(value)
        assert numbers.text(value, unit)
        assert numbers.exact_text(value)


TARGETS: dict[str, Callable[[bytes], None]] = {"yaml": read_yaml, "units": read_unit}


def start(target: str) -> list[bytes]:
    if target == "yaml":
        texts = [text for kind in seeds.KINDS for text in seeds.texts(kind)]
        return [text.encode() for text in texts if len(text) < 4000]
    scalars = [text for text in values.SCALARS if len(text) < 100]
    return [bytes([i]) + text.encode() for text in scalars for i in range(len(UNITS))]


def with_atheris(target: str, seconds: int, corpus: Path) -> None:
    import atheris

    with atheris.instrument_imports(include=["planner"]):
        pass
    for number, raw in enumerate(start(target)):
        (corpus / f"seed{number}").write_bytes(raw)
    flags = [f"-max_total_time={seconds}", "-timeout=2", "-rss_limit_mb=500", "-max_len=4096"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], TARGETS[target])
    atheris.Fuzz()


def by_lines(target: str, seconds: int, random: Random) -> int:
    """The same with the interpreter's line events; returns how many inputs were tried."""
    pool = start(target)
    seen: set[tuple[CodeType, int]] = set()
    fresh = False

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal fresh
        place = (frame.f_code, frame.f_lineno)
        if place not in seen:
            seen.add(place)
            fresh = True
        return local

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename.endswith(WATCHED) else None

    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        raw = pool[tried] if tried < len(pool) else mutate.text(random, random.choice(pool))
        tried += 1
        fresh = False
        sys.settrace(trace)
        try:
            TARGETS[target](raw[:4096])
        finally:
            sys.settrace(None)
        if fresh:
            pool.append(raw[:4096])
    print(f"{target}: {tried} inputs, {len(seen)} lines reached, no crash")
    return tried


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, help="a folder for the inputs that are kept")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.corpus or stack.enter_context(tempfile.TemporaryDirectory())
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            import atheris  # noqa: F401
        except ImportError:
            by_lines(options.target, options.seconds, Random(1))
        else:
            with_atheris(options.target, options.seconds, Path(folder))


if __name__ == "__main__":
    main()
