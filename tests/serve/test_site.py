"""The page without a server: this package, unchanged, answers in the browser as `plan.py` does."""

from __future__ import annotations

import functools
import http.server
import json
import os
import random
import re
import threading
import zipfile
from collections.abc import Iterator
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from planner.base.errors import PlanError
from planner.serve import browser as worker
from planner.serve import find, page, persistent, site
from tests.browser import Browser
from tests.conftest import ROOT, RunCli, read_data

#: A copy of Pyodide: `npm install pyodide`, here or where PYODIDE says.
PYODIDE = Path(os.environ.get("PYODIDE", ROOT / "node_modules" / "pyodide"))
needs_pyodide = pytest.mark.skipif(
    not (PYODIDE / "pyodide.mjs").is_file(), reason="no copy of Pyodide"
)


# What is written ---------------------------------------------------------------------------------


def unpacked(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(archive)) as file:
        return {name: file.read(name) for name in file.namelist()}


@pytest.mark.slow
def test_the_archive_is_this_package_as_it_is_and_the_same_bytes_again() -> None:
    made = site.build_archive("planner")
    assert made == site.build_archive("planner")
    packed = unpacked(made)
    sources = [path for path in (ROOT / "planner").rglob("*.py") if "__pycache__" not in path.parts]
    assert len(sources) > 200
    for path in sources:
        assert packed[path.relative_to(ROOT).as_posix()] == path.read_bytes()
    for folder in ("presets", "schemas", "templates"):
        for path in (ROOT / folder).rglob("*.*"):
            if path.is_file():
                assert packed[f"planner/_data/{path.relative_to(ROOT).as_posix()}"]
    assert not [name for name in packed if name.endswith((".so", ".pyc")) or ".." in name]
    assert {"yaml/__init__.py", "jinja2/__init__.py", "rpds.py"} <= packed.keys()
    assert any("LICENSE" in name and "jinja2" in name for name in packed)


def written(tmp_path: Path, pyodide: str) -> Path:
    site.write_site(str(tmp_path / "page"), pyodide)
    return tmp_path / "page"


@pytest.mark.slow
def test_an_address_of_pyodide_is_named_and_nothing_is_copied(tmp_path: Path) -> None:
    made = written(tmp_path, "https://example.org/pyodide")
    shell = (made / "index.html").read_text("utf-8")
    assert 'data-pyodide="https://example.org/pyodide/"' in shell
    assert not (made / "pyodide").exists()
    names = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    scripts = {f"static/{name}.js" for name in ("page", "find", "host", "worker")}
    shown = {"index.html", "style.css", "first.json"}
    assert names == {*shown, "planner.zip", "sympy.zip", *scripts}
    first = json.loads((made / "first.json").read_text("utf-8"))
    wanted = page.call_page("answer", {"text": first["text"]})
    assert json.loads(first["answers"]["page/answer"]) == json.loads(
        worker.bodies.encode_json(wanted)
    )
    # Every address is relative, for the folder may lie anywhere.
    assert not [
        word for word in ('="/', "='/", "fetch(`/", 'fetch("/')
        for name in ("index.html", "static/find.js", "static/page.js")
        if word in (made / name).read_text("utf-8")
    ]  # fmt: skip
    assert 'data-pyodide="' + site.PYODIDE in page.render_shell(
        site={"pyodide": site.PYODIDE, "packages": {}, "policy": ""}
    )


@pytest.mark.slow
def test_a_copy_of_pyodide_goes_with_the_page(tmp_path: Path) -> None:
    copy = tmp_path / "pyodide"
    copy.mkdir()
    for name in site.CORE:
        (copy / name).write_text(name)
    with pytest.raises(PlanError, match=r"there is no pyodide-lock\.json"):
        written(tmp_path, str(copy))
    lock = {"packages": {"numpy": {"file_name": "numpy-1-wasm32.whl"}}}
    (copy / site.LOCK).write_text(json.dumps(lock))
    made = written(tmp_path, str(copy))
    there = {path.name for path in (made / "pyodide").iterdir()}
    assert there == {*site.CORE, site.LOCK}
    (copy / "numpy-1-wasm32.whl").write_text("numpy")
    (copy / "pandas-1-wasm32.whl").write_text("pandas")
    there = {path.name for path in (written(tmp_path, str(copy)) / "pyodide").iterdir()}
    assert there == {*site.CORE, site.LOCK, "numpy-1-wasm32.whl"}
    assert 'data-pyodide="pyodide/"' in (made / "index.html").read_text("utf-8")


def test_where_there_is_no_copy_it_is_told_what_one_is(run_cli: RunCli, tmp_path: Path) -> None:
    done = run_cli("site", "-o", str(tmp_path / "page"), "--pyodide", str(tmp_path / "none"))
    assert done.returncode == 2 and "node_modules/pyodide" in done.stderr
    assert not (tmp_path / "page").exists()


# What answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("address", "body"), read_data("serve")["answers_of_the_worker"])
def test_the_worker_answers_what_a_server_does(address: str, body: dict[str, Any]) -> None:
    body = {"text": page.read_preset(page.FIRST), **body}
    status, said = worker.answer(address, json.dumps(body), lambda line: None)
    wanted = find.call_function(address.partition("/")[2], body)
    assert status == 200 and json.loads(said) == json.loads(worker.bodies.encode_json(wanted))


def test_the_worker_refuses_what_a_server_refuses() -> None:
    for address in ("page/search", "find/answer", "v1/evaluate", "page", ""):
        assert worker.answer(address, "{}", lambda line: None)[0] == 404
    assert worker.answer("page/answer", "{", lambda line: None)[0] == 400
    assert worker.answer("page/why", '{"id": "time.mfu"}', lambda line: None)[0] == 200
    status, said = worker.report_missing("numpy")
    assert status == 422 and "NumPy" in json.loads(said)["faults"][0]["message"]


@pytest.mark.slow
def test_a_search_tells_its_progress() -> None:
    heard: list[str] = []
    body = json.dumps({"text": page.read_preset("gpt2small_hgx-h100")})
    status, said = worker.answer("find/search", body, heard.append)
    assert status == 200 and json.loads(said)["takes"]
    assert heard and all(isinstance(line, str) for line in heard)


@pytest.mark.parametrize("seed", range(5))
def test_what_stands_in_for_rpds_does_what_it_does(seed: int) -> None:
    rpds = pytest.importorskip("rpds")
    chance = random.Random(seed)
    for kind, steps in (
        ("HashTrieMap", ("insert", "remove")),
        ("HashTrieSet", ("insert", "discard")),
        ("List", ("push_front",)),
    ):
        both = [getattr(of, kind)() for of in (rpds, persistent)]
        for _ in range(60):
            step, key = chance.choice(steps), chance.randrange(6)
            given: tuple[Any, ...] = (key,)
            if step == "insert" and kind == "HashTrieMap":
                given = (key, chance.randrange(9))
            before = [sorted(one) for one in both]
            made, missing = [], []
            for one in both:
                try:
                    made.append(getattr(one, step)(*given))
                except KeyError:
                    missing.append(step)
            assert [sorted(one) for one in both] == before  # neither changes
            assert len(missing) in (0, 2)
            if missing:
                continue
            both = made
            shown = [[*one.items()] if kind == "HashTrieMap" else [*one] for one in both]
            ordered = [one if kind == "List" else sorted(one) for one in shown]
            assert ordered[0] == ordered[1]
            assert key in both[0] if step == "insert" else True
            assert [key in one for one in both] == [key in both[0]] * 2
    both = [of.HashTrieMap.convert({"a": 1}) for of in (rpds, persistent)]
    assert [one.get("a") for one in both] == [1, 1] and [len(one) for one in both] == [1, 1]


# In a browser ------------------------------------------------------------------------------------


class _Quiet(http.server.SimpleHTTPRequestHandler):
    asked: list[str] = []  # noqa: RUF012  # of all requests

    def log_message(self, *_: Any) -> None:
        self.asked.append(self.path)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The page in a folder of a server of files."""
    top = tmp_path_factory.mktemp("site")
    site.write_site(str(top / "some" / "folder"), str(PYODIDE))
    handler = functools.partial(_Quiet, directory=str(top))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/some/folder/"
    server.shutdown()


@pytest.mark.slow
@needs_pyodide
def test_controls_on_the_static_page_show_what_set_says(browser: Browser, address: str) -> None:
    from tests.serve.test_page import check_moves

    browser.visit(address)
    browser.wait("document.body?.dataset.ready === '1'")
    checked = sum(len(check_moves(browser, seed, 6)) for seed in range(3))
    assert checked > 5
    assert not browser.problems
    assert {path.partition("?")[0].split("/")[1] for path in _Quiet.asked} <= {"some"}


@pytest.mark.slow
@needs_pyodide
def test_an_address_with_a_plan_a_report_and_a_search(browser: Browser, address: str) -> None:
    from tests.serve.test_page import moved

    browser.visit(address)
    browser.wait("document.body?.dataset.ready === '1'")
    moved(browser, "parallelism.zero", "2")
    text = browser.run("document.querySelector('#text').value")
    fragment = browser.wait("location.hash.startsWith('#p=') && location.hash")
    browser.visit(address + fragment)
    browser.wait("document.body?.dataset.ready === '1'")
    assert browser.run("document.querySelector('#text').value") == text
    browser.run("document.querySelector('[data-question=\"longest-context\"]').click()")
    there = "#answered [data-take], #answered p:not(.waiting)"
    browser.wait(f"document.querySelector('{there}') !== null")
    answer = browser.run("document.querySelector('#answered').textContent")
    wanted = find.call_function("solve", {"text": text, "question": "longest-context"})
    assert answer.split() == unescape(re.sub(r"<[^>]*>", "", wanted["html"])).split()
    browser.run("document.querySelector('#search').requestSubmit()")
    if [*(PYODIDE).glob("numpy-*.whl")]:
        browser.wait("document.querySelectorAll('#found tr').length > 3")
    else:
        told = browser.wait("document.querySelector('#search > .fault').textContent")
        assert told == worker.LACKING["numpy"]


@pytest.mark.slow
@needs_pyodide
def test_without_pyodide_the_page_says_why_it_does_not_answer(
    browser: Browser, tmp_path: Path, address: str
) -> None:
    site.write_site(str(tmp_path / "page"), address + "nowhere/")
    handler = functools.partial(_Quiet, directory=str(tmp_path / "page"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser.visit(f"http://127.0.0.1:{server.server_port}/")
    browser.wait("document.body?.dataset.ready === '1'")  # with the answer that was written
    browser.run('document.querySelector(\'[data-key="parallelism.zero"] [value="2"]\').click()')
    told = browser.wait("document.querySelector('.control.wrong > .fault')?.textContent")
    assert "nowhere/pyodide.mjs" in told and "does not run here" in told
    assert browser.run("document.querySelector('#state').textContent") == "no answer"
    server.shutdown()
