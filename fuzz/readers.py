"""The YAML reader and the unit parser under random text.

    python -m fuzz.readers yaml|units [--seconds 600] [--corpus FOLDER]

With the package atheris (libFuzzer for Python), guided by coverage, where it is installed, else
with hypothesis. Any exception but PlanError and UnitError is a crash.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from fuzz import documents

UNITS = ("1", "bytes", "bytes/s", "FLOP/s", "tokens", "s", "W", "USD/h", "kgCO2e/kWh", "devices")


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
    """Return the texts that others are made of."""
    if target == "yaml":
        texts = [text for kind in documents.FOLDERS for text in documents.texts(kind)]
        return [text.encode() for text in texts if len(text) < 4000]
    scalars = [text for text in documents.SCALARS if len(text) < 100]
    return [bytes([i]) + text.encode() for text in scalars for i in range(len(UNITS))]


def with_atheris(target: str, seconds: int, corpus: Path) -> None:
    """Run a reader under coverage guidance."""
    import atheris

    with atheris.instrument_imports(include=["planner"]):
        pass
    for number, raw in enumerate(start(target)):
        (corpus / f"seed{number}").write_bytes(raw)
    flags = [f"-max_total_time={seconds}", "-timeout=2", "-rss_limit_mb=500", "-max_len=4096"]
    atheris.Setup([sys.argv[0], *flags, str(corpus)], TARGETS[target])
    atheris.Fuzz()


def with_hypothesis(target: str, seconds: float) -> int:
    """Run a reader for some seconds; return how many texts were tried."""
    known = st.sampled_from(start(target))
    made = known.flatmap(documents.edited) | st.binary(max_size=200)
    until, tried = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        for raw in documents.draw_one(st.lists(made, min_size=20, max_size=40), tried) or ():
            TARGETS[target](raw[:4096])
            tried += 1
    print(f"{target}: {tried} texts, no crash")
    return tried


def main() -> None:
    """Run the reader that is named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", choices=TARGETS)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--corpus", type=Path, help="a folder for the texts that are kept")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = options.corpus or stack.enter_context(tempfile.TemporaryDirectory())
        Path(folder).mkdir(parents=True, exist_ok=True)
        try:
            import atheris  # noqa: F401
        except ImportError:
            with_hypothesis(options.target, options.seconds)
        else:
            with_atheris(options.target, options.seconds, Path(folder))


if __name__ == "__main__":
    main()
