"""Writes the page as a folder of files for any web server: this package runs in the visitor's
browser, under Pyodide, and answers there what ``planner.serve.app`` answers over HTTP."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path, PurePath

from planner.base import files, resources
from planner.base.errors import Place, PlanError
from planner.base.progress import report_progress
from planner.serve import bodies, browser, page

#: The version of Pyodide that the tests run, and where a page loads it that names no other copy.
VERSION = "314.0.7"
PYODIDE = f"https://cdn.jsdelivr.net/pyodide/v{VERSION}/full/"
#: What a copy of Pyodide consists of, and the bytes of one file at most.
CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
LOCK, MOST = "pyodide-lock.json", 100_000_000
#: Distributions by the archive that carries them: what each answer needs, and what some need, which
#: a browser loads with the first of these.
ARCHIVES: Mapping[str, Sequence[str]] = resources.load_beside(__file__)
#: What of a package no browser runs: compiled parts, tests, command lines.
LEFT_OUT = frozenset((".so", ".pyd", ".pyc", ".pyi", ".pyx", ".c"))
FOLDERS_LEFT_OUT = frozenset(("__pycache__", "tests", "_data", "..", "benchmarks"))
SCRIPTS = ("serve/page.js", "serve/find.js", "site/host.js", "site/worker.js")
#: Requests of a page that nobody has touched. Their answers are shown while the planner loads.
FIRST = ("page/answer", "page/panel", "page/more")
#: The page's policy; a server would say more in its headers.
POLICY = page.POLICY.replace("frame-ancestors 'none'; ", "")


def write_site(folder: str, pyodide: str = PYODIDE) -> None:
    """Write the page into a folder, which is created; other files in it stay.

    Args:
        folder: where.
        pyodide: the address of Pyodide's files, or a folder with them, which is copied.

    Raises:
        PlanError: there is no such copy of Pyodide, a package is missing, or a file cannot be
            written.
    """
    top, copied = Path(folder), "://" not in pyodide
    found = dict(_copy_pyodide(Path(pyodide))) if copied else {}
    address = "pyodide/" if copied else pyodide.rstrip("/") + "/"
    archives = {name: f"{name}.zip" for name in ARCHIVES}
    site = {"pyodide": address, "packages": archives, "policy": POLICY}
    found["index.html"] = page.render_shell(site=site).encode()
    found["style.css"] = page.render_style().encode()
    for name in SCRIPTS:
        found[f"static/{Path(name).name}"] = resources.load_own_bytes(
            resources.folder("templates") / name
        )
    found["first.json"] = _answer_first()
    for name, file in archives.items():
        found[file] = build_archive(name)
    for name, content in found.items():
        report_progress(f"writing {name}")
        with files.convert_errors(top / name):
            files.resolve_target(top / name).parent.mkdir(parents=True, exist_ok=True)
        with files.replace_file(top / name) as made:
            made.write(content)


def _answer_first() -> bytes:
    """Return what the planner answers to the page's first requests, for the plan at start."""
    text = page.read_preset(page.FIRST)
    body = bodies.encode_json({"text": text}).decode()
    answers = {one: browser.answer(one, body, lambda line: None)[1] for one in FIRST}
    return bodies.encode_json({"text": text, "answers": answers})


def _copy_pyodide(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a copy of Pyodide that the page loads; NumPy's where it has them.

    Raises:
        PlanError: one is missing.
    """
    allowed = "a folder with Pyodide's files, such as node_modules/pyodide, or their address"
    place = Place(f"--pyodide {folder}")
    if not folder.is_dir():
        raise PlanError("no such folder", place, allowed)
    for name in (*CORE, LOCK):
        if not (folder / name).is_file():
            raise PlanError(f"there is no {name}", place, allowed)
        yield f"pyodide/{name}", files.read_bytes(folder / name, MOST)
    lock = files.parse_json(files.read_text(folder / LOCK, MOST), Place(str(folder / LOCK)))
    wheel = lock.get("packages", {}).get("numpy", {}).get("file_name")
    if isinstance(wheel, str) and (folder / Path(wheel).name).is_file():
        name = Path(wheel).name
        yield f"pyodide/{name}", files.read_bytes(folder / name, MOST)


def build_archive(name: str) -> bytes:
    """Return an archive of packages in Python; equal files give equal bytes.

    Raises:
        PlanError: a package is missing.
    """
    packed: dict[str, bytes] = {}
    for one in ARCHIVES[name]:
        packed |= _list_package_files(one)
    if name == "planner":
        packed |= _list_own_files()
    made = BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for path, content in sorted(packed.items()):
            about = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
            about.compress_type, about.create_system = zipfile.ZIP_DEFLATED, 3
            about.external_attr = 0o644 << 16
            file.writestr(about, content)
    return made.getvalue()


def _list_own_files() -> dict[str, bytes]:
    """Return the files of this package, with presets, schemas and templates inside it."""
    package = Path(__file__).resolve().parent.parent
    folders = {"planner": package}
    for name in ("presets", "schemas", "templates"):
        folders[f"planner/_data/{name}"] = resources.folder(name)
    found = {
        f"{to}/{path.relative_to(top).as_posix()}": resources.load_own_bytes(path)
        for to, top in folders.items()
        for path in sorted(top.rglob("*"))
        if path.is_file() and _is_wanted(path.relative_to(top))
    }
    return {**found, "rpds.py": found["planner/serve/persistent.py"]}


def _list_package_files(name: str) -> dict[str, bytes]:
    """Return the files of an installed distribution, with its licence.

    Raises:
        PlanError: it is not installed.
    """
    with suppress(PackageNotFoundError):
        listed = distribution(name).files or ()
        return {
            one.as_posix(): resources.load_own_bytes(Path(str(one.locate())))
            for one in listed
            if _is_wanted(one)
        }
    raise PlanError(f"site needs {name}", None, f"pip install {name}")


def _is_wanted(path: PurePath) -> bool:
    """Decide whether a browser needs a file of a package."""
    return path.suffix not in LEFT_OUT and not FOLDERS_LEFT_OUT & {*path.parts}
