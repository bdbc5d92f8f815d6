"""The same bytes everywhere: reports under several interpreters, hash seeds, locales, time zones,
with and without gmpy2, from a checkout and from an installed wheel.

    python -m benchmarks.same_bytes [--python PYTHON]... [--wheel]

PYTHON is an interpreter that has the dependencies; without any, the one that runs this. Prints one
line for each way and format; exit status 1 where two differ.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLANS = ("llama70b_h100x1024", "mixtral8x7b_h100x1024", "gpt2small_hgx-h100")
FILES = ("md", "html", "json")  # beside the summary on standard output
#: Hash seed, locale, time zone, encoding of standard output.
SURROUNDINGS = (
    {"PYTHONHASHSEED": "0", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "4242", "LC_ALL": "C.UTF-8", "TZ": "Asia/Kathmandu"},
    {"PYTHONHASHSEED": "1", "LC_ALL": "de_DE.UTF-8", "TZ": "America/St_Johns", "COLUMNS": "40"},
    {"PYTHONHASHSEED": "7", "LC_ALL": "tr_TR.ISO-8859-9", "PYTHONIOENCODING": "latin-1"},
    {"PYTHONHASHSEED": "9", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"PYTHONHASHSEED": "3", "SYMPY_GROUND_TYPES": "python", "PYTHONOPTIMIZE": "1"},
)


@dataclass(frozen=True)
class Way:
    """One way to run the program."""

    name: str
    line: tuple[str, ...]  # the program
    folder: Path
    surroundings: Mapping[str, str]

    def digests(self, plan: str) -> dict[str, str]:
        """Of each format of a plan's report; what went wrong instead, where something did."""
        with tempfile.TemporaryDirectory() as name:
            reports = {kind: Path(name) / f"report.{kind}" for kind in FILES}
            done = subprocess.run(
                [*self.line, plan, *(w for path in reports.values() for w in ("-o", str(path)))],
                cwd=self.folder,
                env={k: v for k, v in os.environ.items() if not k.startswith("LC_")}
                | dict(self.surroundings),
                capture_output=True,
                check=False,
            )
            if done.returncode:
                return dict.fromkeys(("text", *FILES), done.stderr.decode(errors="replace")[-200:])
            text = done.stdout.replace(name.encode(), b".")  # which says where it wrote
            made = {"text": text} | {kind: p.read_bytes() for kind, p in reports.items()}
        return {kind: hashlib.sha256(data).hexdigest()[:16] for kind, data in made.items()}


def ways(pythons: Sequence[str], wheel: bool, folder: Path) -> Iterator[Way]:
    """Every interpreter in the first surroundings; every surroundings under the first one."""
    for number, python in enumerate(pythons):
        for surroundings in SURROUNDINGS if number == 0 else SURROUNDINGS[:2]:
            name = f"{python} {' '.join(f'{k}={v}' for k, v in surroundings.items())}"
            yield Way(name, (python, str(ROOT / "plan.py")), ROOT, surroundings)
    if wheel:
        site = installed(pythons[0], folder)
        environment = {**SURROUNDINGS[1], "PYTHONPATH": str(site)}
        yield Way("wheel", (pythons[0], "-m", "planner"), folder, environment)


def installed(python: str, folder: Path) -> Path:
    """A folder with what the wheel holds; its presets are its own."""
    build = [python, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (folder / "dist").glob("*.whl")
    site = folder / "site"
    subprocess.run([python, "-m", "zipfile", "-e", str(wheel), str(site)], check=True)
    return site


def differences(pythons: Sequence[str], wheel: bool, plans: Sequence[str] = PLANS) -> list[str]:
    """What differs from the first way; prints each digest as it comes."""
    first: dict[tuple[str, str], str] = {}
    found: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for plan in plans:
            source = ROOT / "presets" / f"{plan}.yaml"
            (folder / "presets").mkdir(exist_ok=True)
            (folder / "presets" / source.name).write_bytes(source.read_bytes())
        for way, plan in itertools.product(ways(pythons, wheel, folder), plans):
            for kind, digest in way.digests(f"presets/{plan}.yaml").items():
                same = first.setdefault((plan, kind), digest) == digest and len(digest) == 16
                said = f"{digest}  {plan}  {kind:4}  {way.name}{'' if same else '  DIFFERS'}"
                print(said, flush=True)
                if not same:
                    found.append(f"{plan} as {kind}: {way.name}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", action="append", default=[], help="repeatable")
    parser.add_argument("--wheel", action="store_true", help="build a wheel and try it too")
    parser.add_argument("--plan", action="append", default=[], help="of presets/; repeatable")
    options = parser.parse_args()
    # No link is followed: an interpreter knows its environment by its own name.
    pythons = [os.path.abspath(shutil.which(name) or name) for name in options.python]
    found = differences(pythons or [sys.executable], options.wheel, options.plan or PLANS)
    print(f"{len(found)} differences")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
