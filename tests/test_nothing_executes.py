"""No text of a document is executed, and no name leaves the folders it belongs to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from planner.base import resources
from planner.base.errors import PlanError
from planner.documents.source import load

PACKAGE = Path(__file__).resolve().parent.parent / "planner"
FILES = sorted(PACKAGE.rglob("*.py"))

#: What turns text into code, a command, an object or a request.
CALLS = {
    "eval", "exec", "compile", "__import__", "import_module", "sympify", "parse_expr", "lambdify",
    "parse_latex", "from_string", "literal_eval", "system", "popen", "Popen", "getoutput",
    "load_module", "unsafe_load", "full_load", "execv", "execvp", "spawn", "startfile",
}  # fmt: skip
#: These start a program where the module knows subprocess; else they are somebody's own.
STARTS = {"run", "call", "check_call", "check_output"}
MODULES = {
    "pickle", "marshal", "shelve", "ctypes", "socket", "http", "urllib", "requests", "ssl",
    "ftplib", "smtplib", "subprocess", "importlib", "runpy", "code", "codeop", "webbrowser",
}  # fmt: skip
#: The places that may, each with the reason.
ALLOWED = {
    # Where SymPy lies, for its version.
    ("book/canonical.py", "importlib"),
    # Modules of ours, from a list that is written out.
    ("__init__.py", "import_module"),
    ("__init__.py", "importlib"),
    # git, with a list of words and no shell.
    ("review/revisions.py", "subprocess"),
    ("review/revisions.py", "run"),
    # The work of a study on its way to a worker process, packed by the process that asks.
    ("questions/studies/engines.py", "pickle"),
    # Percent signs in the name of a file; nothing is asked for by it.
    ("base/fault_formats.py", "urllib"),
    # argcomplete is told which shell its script is for.
    ("cli/completion.py", "shell"),
    # This Python with a function of the module, by PyTorch; numbers come back as JSON.
    ("connect/measure/collectives.py", "spawn"),
    # The server: the socket that it listens on, the host in a page's own address, and the type of
    # a character in memory that its processes share.
    ("serve/app.py", "socket"),
    ("serve/app.py", "urllib"),
    ("serve/workers.py", "ctypes"),
}


def suspects(path: Path, root: Path = PACKAGE) -> set[tuple[str, str]]:
    """The suspicious calls and imports of a module."""
    name, found, text = path.relative_to(root).as_posix(), set(), path.read_text("utf-8")
    calls = CALLS | STARTS if "subprocess" in text else CALLS
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call):
            called = node.func
            word = called.id if isinstance(called, ast.Name) else getattr(called, "attr", "")
            is_pattern = word == "compile" and ast.unparse(called) == "re.compile"
            if word in calls and not is_pattern:
                found.add((name, word))
            for keyword in node.keywords:
                if keyword.arg == "shell":
                    found.add((name, "shell"))
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        found |= {(name, m.split(".")[0]) for m in modules if m.split(".")[0] in MODULES}
    return found


@pytest.mark.slow
def test_nothing_in_the_package_turns_text_into_code() -> None:
    found = {suspect for path in FILES for suspect in suspects(path)}
    assert found == ALLOWED
    assert len(FILES) > 60


def test_the_search_sees_what_it_looks_for(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    lines = ("import os, pickle, re", "os.system(x)", "eval(x)", "re.compile(x)", "f(shell=1)")
    path.write_text("\n".join(lines))
    found = {word for _, word in suspects(path, tmp_path)}
    assert found == {"pickle", "system", "eval", "shell"}


@pytest.mark.slow
def test_yaml_is_loaded_with_the_safe_loader_only() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr.endswith("Loader"):
                assert node.attr in ("SafeLoader", "CSafeLoader", "FileSystemLoader"), path.name


def test_jinja_runs_in_a_sandbox_and_takes_its_source_from_our_folder() -> None:
    for path in FILES:
        text = path.read_text("utf-8")
        if "jinja2" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call):
                    name = ast.unparse(node.func).rsplit(".", 1)[-1]
                    if name.endswith("Environment"):
                        assert name == "ImmutableSandboxedEnvironment", path.name
                    if name.endswith("Loader"):
                        assert "templates" in ast.unparse(node), path.name


def test_only_our_own_printers_mark_markup_as_safe() -> None:
    """Filters that write a formula's boxes, their text escaped, and the what-if page's program."""
    templates = [file.read_text("utf-8") for file in resources.folder("templates").rglob("*.jinja")]
    marked = {name for text in templates for name in re.findall(r"(\w+)\s*\|\s*safe\b", text)}
    assert marked == {"formula", "html", "script"}


CODE = (
    "__import__('os').system('touch {mark}')",
    "{{{{ cycler.__init__.__globals__.os.popen('touch {mark}').read() }}}}",
    "$(touch {mark})",
    "`touch {mark}`",
    "!!python/object/apply:os.system ['touch {mark}']",
    "; touch {mark}",
    "{{% for x in ().__class__.__base__.__subclasses__() %}}{{{{ x }}}}{{% endfor %}}",
    "{{0.__class__}}",
    "%(name)s",
)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["text", "md", "html", "json"])
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
    pytest.fail(f"{name} found {found.files()}")


def test_a_preset_folder_holds_no_link_out_of_it() -> None:
    folder = resources.folder("presets")
    for path in folder.rglob("*"):
        assert path.resolve().is_relative_to(folder.resolve()), path
