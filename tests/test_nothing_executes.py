"""No text of a document is executed, and no name leaves the folders it belongs to."""

from __future__ import annotations

import ast
import marshal
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.util import MAGIC_NUMBER
from io import BytesIO
from itertools import chain
from pathlib import Path

import pytest
from jinja2.bccache import bc_magic

from planner.base import resources
from planner.base.errors import PlanError
from planner.documents.source import load
from tests.conftest import read_data

PACKAGE = Path(__file__).resolve().parent.parent / "planner"
FILES = sorted(PACKAGE.rglob("*.py"))

#: What turns text into code, a command, an object or a request; SymPy evaluates text in most of
#: what it is given.
CALLS = {*read_data("nothing_executes")["calls"]}
#: These start a program where the module knows subprocess; else they are somebody's own.
STARTS = {"run", "call", "check_call", "check_output"}
MODULES = {
    "pickle", "marshal", "shelve", "ctypes", "socket", "http", "urllib", "requests", "ssl",
    "ftplib", "smtplib", "subprocess", "importlib", "runpy", "code", "codeop", "webbrowser",
    "sympy", "joblib", "dill", "cloudpickle", "multiprocessing", "pebble", "pty",
}  # fmt: skip
#: What is looked up along a path that others may change, and arguments that allow code.
ATTRIBUTES = {"sys.path", "sys.meta_path", "sys.path_hooks", "sys.pycache_prefix"}
KEYWORDS = {"shell", "allow_pickle"}
#: The places that may, each with the reason.
ALLOWED = {*map(tuple, read_data("nothing_executes")["allowed"])}
#: Functions that fill text in which is no constant beside the call: it is one elsewhere in the
#: module, a word of a schema or of a table that ships, never of a document, whose braces would
#: reach the attributes of what is filled in.
FILLED = {*map(tuple, read_data("nothing_executes")["filled"])}


def sites(path: Path) -> Iterator[tuple[str, ast.AST]]:
    """The nodes of a module, each with the function that it is in."""

    def walk(node: ast.AST, around: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            yield around, child
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk(child, child.name if is_function else around)  # type: ignore[attr-defined]

    yield from walk(ast.parse(path.read_text("utf-8")), "")


def suspects(path: Path, root: Path = PACKAGE) -> set[tuple[str, str, str]]:
    """The suspicious calls, imports, attributes and arguments of a module, with their function."""
    name, found, text = path.relative_to(root).as_posix(), set(), path.read_text("utf-8")
    calls = CALLS | STARTS if "subprocess" in text else CALLS
    for around, node in sites(path):
        words = []
        if isinstance(node, ast.Call):
            called = node.func
            word = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            is_pattern = word == "compile" and ast.unparse(called) == "re.compile"
            words = [word] if word in calls and not is_pattern else []
            words += [keyword.arg for keyword in node.keywords if keyword.arg in KEYWORDS]
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ATTRIBUTES:
            words.append(ast.unparse(node))
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
            words += [alias.name for alias in node.names if alias.name in CALLS]
        words += [m.split(".")[0] for m in modules if m.split(".")[0] in MODULES]
        found |= {(name, around, word) for word in words}
    return found


@pytest.mark.slow
def test_no_text_of_a_document_is_filled_in() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), around)
        for path in FILES
        for around, node in sites(path)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr == "format" and not isinstance(node.func.value, ast.Constant)
    }
    assert found == FILLED


@pytest.mark.slow
def test_nothing_in_the_package_turns_text_into_code() -> None:
    found = {suspect for path in FILES for suspect in suspects(path)}
    assert found == ALLOWED
    assert len(FILES) > 60


def test_the_search_sees_what_it_looks_for(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    lines = ("import os, pickle, re", "os.system(x)", "eval(x)", "re.compile(x)", "f(shell=1)",
             "def g():", "    sys.path.append(x.subs(y, 'z'))")  # fmt: skip
    path.write_text("\n".join(lines))
    found = {word for _, around, word in suspects(path, tmp_path) if not around}
    assert found == {"pickle", "system", "eval", "shell"}
    assert {("bad.py", "g", "subs"), ("bad.py", "g", "sys.path")} <= suspects(path, tmp_path)


@pytest.mark.slow
def test_yaml_is_loaded_with_the_safe_loader_only() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.endswith("Loader"):
                assert node.attr in ("SafeLoader", "CSafeLoader", "FileSystemLoader"), path.name


def test_jinja_runs_in_a_sandbox_and_takes_its_source_from_our_folder() -> None:
    made = []
    for path in FILES:
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "jinja2" in text else ():
            called = node.bases if isinstance(node, ast.ClassDef) else []
            called = [node.func] if isinstance(node, ast.Call) else called
            for name in (ast.unparse(one).rsplit(".", 1)[-1] for one in called):
                if name.endswith("Environment"):
                    made.append((path.name, name))
                if name.endswith("Loader") and isinstance(node, ast.Call):
                    assert "templates" in ast.unparse(node), path.name
    assert made == [("sandbox.py", "ImmutableSandboxedEnvironment")]


def test_only_our_own_printers_mark_markup_as_safe() -> None:
    """Filters that write a formula's boxes, their text escaped."""
    templates = [file.read_text("utf-8") for file in resources.folder("templates").rglob("*.jinja")]
    marked = {name for text in templates for name in re.findall(r"(\w+)\s*\|\s*safe\b", text)}
    assert marked == {"formula", "html"}


#: The first releases without a published way out of a sandbox, a file or a request.
MENDED = {
    "jinja2": ((3, 1, 6), "CVE-2025-27516: code from a sandboxed template by |attr"),
    "starlette": ((1, 3, 1), "CVE-2026-54283: forms without bounds; CVE-2026-48710: the host"),
    "pyarrow": ((23, 0, 1), "CVE-2026-25087: memory that is freed, from a file that is read"),
    "ray": ((2, 54), "CVE-2026-27482 and CVE-2025-62593: a page that is open in a browser"),
    "pyyaml": ((5, 4), "CVE-2020-14343: code from a document, with the full loader"),
}


def test_releases_with_published_escapes_are_excluded() -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text("utf-8"))["project"]
    bounds: dict[str, list[tuple[int, ...]]] = {}
    extras = project["optional-dependencies"].values()
    for line in chain(project["dependencies"], *extras):
        name, _, least = line.partition(">=")
        bounds.setdefault(name.partition("[")[0].lower(), []).append(
            tuple(map(int, least.split(".")))
        )
    for name, (mended, why) in MENDED.items():
        assert bounds[name] and all(least >= mended for least in bounds[name]), (name, why)


CODE = read_data("faults")["code"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", ["html", "md", "text", "json"])
def test_text_of_a_document_is_shown_and_never_run(tmp_path: Path, kind: str) -> None:
    import planner
    from planner import report as render

    mark = tmp_path / "executed"
    code = [words.format(mark=mark) for words in CODE]
    for first in range(0, len(code), 4):
        name, notes, model, cluster = (code[(first + n) % len(code)] for n in range(4))
        document = {
            "name": name, "notes": notes,
            "model": {"extends": "gpt2-small", "name": model},
            "cluster": {"extends": "hgx-h100", "name": cluster},
            "training": {"tokens": "1B", "sequence_length": 1024},
        }  # fmt: skip
        shown = render.as_text(planner.load(document).evaluate(), kind)
        assert "__class__ at" not in shown
        assert "<class" not in shown
    assert not mark.exists()


@pytest.mark.parametrize("name", [
    "__import__('os').system('id')", "lambda: 0", "1+1", "tensor*2", "open('/etc/passwd').read()",
])  # fmt: skip
def test_a_number_is_no_expression(name: str) -> None:
    from planner.base import units

    with pytest.raises(units.UnitError):
        units.parse(name, "1")


@pytest.mark.parametrize("kind", ["model", "cluster", "accelerator"])
@pytest.mark.parametrize("name", [
    "../gpt2small_hgx-h100", "..", ".", "../../pyproject", "models/../../../etc/passwd",
    "/etc/hostname", "~/.bashrc", "gpt2-small/../../gpt2small_hgx-h100", "file:///etc/hostname",
    "C:\\Windows\\win.ini", "gpt2-small\0", "//etc/hostname", "%2e%2e/x", "..\\..\\x",
])  # fmt: skip
def test_a_name_does_not_leave_the_presets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    """Given outside any folder that holds such a file, the name finds nothing."""
    monkeypatch.chdir(tmp_path)
    document = {"cluster": {"accelerator": name}} if kind == "accelerator" else {kind: name}
    try:
        found = load(document)
    except PlanError:
        return
    pytest.fail(f"{name} found {found.list_files()}")


def test_a_preset_folder_holds_no_link_out_of_it() -> None:
    folder = resources.folder("presets")
    for path in folder.rglob("*"):
        assert path.resolve().is_relative_to(folder.resolve()), path


# Caches ---------------------------------------------------------------------------------------

PLAN = resources.folder("presets") / "gpt2small_hgx-h100.yaml"


def report(folder: Path, **environment: str) -> bytes:
    """A report in HTML by a process of its own in a folder, which keeps no byte code beside the
    sources."""
    done = subprocess.run(
        [sys.executable, PACKAGE.parent / "plan.py", PLAN, "--format", "html"],
        cwd=folder,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, bytes]:
    """A user's caches, in which all byte code leaves a mark when it runs; the mark; a report."""
    folder = tmp_path_factory.mktemp("caches")
    mark, clean = folder / "executed", report(folder, XDG_CACHE_HOME=str(folder / "whole"))
    code = marshal.dumps(compile(f"open({str(mark)!r}, 'w')", "planted", "exec"))
    planted = 0
    for file in (folder / "whole").rglob("*"):
        if file.suffix == ".pyc":  # behind its header
            assert file.read_bytes().startswith(MAGIC_NUMBER)
            file.write_bytes(file.read_bytes()[:16] + code)
            planted += 1
        elif file.suffix == ".cache":  # behind Jinja's header and the hash of the template
            data = BytesIO(file.read_bytes())
            assert data.read(len(bc_magic)) == bc_magic and pickle.load(data)
            file.write_bytes(data.getvalue()[: data.tell()] + code)
            planted += 1
    assert planted > 50
    return folder / "whole", mark, clean


def _as_it_is(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder / "cache")}


def _relative(folder: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": "cache"}


def _no_home(folder: Path) -> dict[str, str]:
    """The home folder of a user whom the system does not know."""
    (folder / "~").mkdir()
    (folder / "cache").rename(folder / "~" / ".cache")
    return {"HOME": "~", "XDG_CACHE_HOME": ""}


def _writable(folder: Path) -> dict[str, str]:
    for name in ("modules", "markup"):
        (folder / "cache" / "trainplan" / name).chmod(0o777)
    return _as_it_is(folder)


def _writable_around(folder: Path) -> dict[str, str]:
    (folder / "cache").chmod(0o777)
    return _as_it_is(folder)


def _linked(folder: Path) -> dict[str, str]:
    (folder / "cache").rename(folder / "planted")
    (folder / "cache").symlink_to(folder / "planted")
    return _as_it_is(folder)


def _of_another(folder: Path) -> dict[str, str]:
    if os.geteuid() != 0:
        pytest.skip("only root gives folders away")
    for name in ("modules", "markup"):
        os.chown(folder / "cache" / "trainplan" / name, 12345, 12345)
    return _as_it_is(folder)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "way", [_relative, _no_home, _writable, _writable_around, _linked, _of_another]
)
def test_planted_byte_code_does_not_run(
    caches: tuple[Path, Path, bytes], tmp_path: Path, way: Callable[[Path], dict[str, str]]
) -> None:
    whole, mark, clean = caches
    shutil.copytree(whole, tmp_path / "cache")
    mark.unlink(missing_ok=True)
    assert report(tmp_path, **way(tmp_path)) == clean
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["modules", "markup"])
def test_byte_code_of_the_users_own_folder_runs(
    caches: tuple[Path, Path, bytes], tmp_path: Path, kept: str
) -> None:
    """What is planted above would run, were the folder not refused."""
    whole, mark, _ = caches
    shutil.copytree(whole / "trainplan" / kept, tmp_path / "cache" / "trainplan" / kept)
    (tmp_path / "cache" / "trainplan").chmod(0o700)
    mark.unlink(missing_ok=True)
    with pytest.raises(subprocess.CalledProcessError):
        report(tmp_path, **_as_it_is(tmp_path))
    assert mark.exists()


@pytest.mark.slow
def test_no_cache_decides_a_number(caches: tuple[Path, Path, bytes], tmp_path: Path) -> None:
    """Of what may lie where caches are, byte code alone is opened to be read."""
    folder = tmp_path / "cache" / "trainplan"
    folder.mkdir(0o700, parents=True)
    run = (
        "import sys; from planner.__main__ import run; seen = set()\n"
        "def note(event, words):\n"
        "    if event == 'open' and words[2] & 3 == 0: seen.add(str(words[0]))\n"
        "sys.addaudithook(note)\n"
        f"sys.argv = ['plan.py', {str(PLAN)!r}, '--format', 'html']; run()\n"
        f"print(*(name for name in seen if name.startswith({str(folder)!r})), file=sys.stderr)"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **_as_it_is(tmp_path)}
    names = subprocess.run(
        [sys.executable, "-c", run], cwd=PACKAGE.parent, env=environment, capture_output=True,
        check=True, encoding="utf-8",
    ).stderr.split()  # fmt: skip
    assert {Path(name).suffix for name in names} == {".pyc", ".cache"}, names
