"""README and docs: every example runs, every link leads somewhere, the book is the book."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from planner.cli import main
from planner.documents import schema, source
from planner.questions import loading
from tests.conftest import RunCli, leave_to_night, read_data

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
#: Made of the others' examples, which run where they stand.
MADE = [page for page in PAGES if page.parent.name in ("commands", "formulas")]
WRITTEN = [page for page in PAGES if page not in MADE]
NAMES = {page: page.relative_to(ROOT).as_posix() for page in PAGES}
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))

# What the examples use of the repository; a run must not write into the repository itself.
NEEDED = read_data("docs")["needed"]
# Commands that prepare a machine, or run these very tests.
PREPARING = tuple(read_data("docs")["preparing"])
# Commands that take seconds and write nothing: whether they are commands is tried each time.
LONG = read_data("docs")["long"]
# What a reader puts a name of his own in for.
GAP = re.compile(r"\b(NAME|FILE|PLAN|ID)\b")
# A page for contributors shows declarations as they stand in the book.
SNIPPET = re.compile(r"\w+ = \w+\(")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text and where it stands."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT).as_posix()}:{self.line}"


def blocks(page: Path) -> list[Block]:
    found, start, opening, lines = [], 0, "", []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = re.match(r"\s*```(.*)", line)
        if fence and not start:
            start, opening, lines = number, fence[1].strip(), []
        elif fence:
            found.append(Block(page, start, opening, textwrap.dedent("\n".join(lines)) + "\n"))
            start = 0
        elif start:
            lines.append(line)
    assert not start, f"{page.name}:{start} is never closed"
    return found


#: Commands that were run.
RUN: set[str] = set()
BLOCKS = [block for page in WRITTEN for block in blocks(page)]


def of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the repository in it, where examples may write."""
    folder = tmp_path_factory.mktemp("desk")
    for name in NEEDED:
        if (ROOT / name).exists():
            (folder / name).symlink_to(ROOT / name)
    return folder


def commands(text: str) -> list[str]:
    """The commands of a block, one for each `&&`."""
    lines = [line.split(" # ")[0].strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    return [part.strip() for line in lines for part in line.split("&&")]


def run(command: str, desk: Path, run_cli: RunCli) -> subprocess.CompletedProcess[str] | None:
    """Run an example of ours; None for one that prepares a machine or has a gap to fill in."""
    if command.startswith(PREPARING) or GAP.search(command):
        return None
    words, target = shlex.split(command), None
    if ">" in words:
        words, target = words[: words.index(">")], words[words.index(">") + 1]
    known = {("python", "plan.py"): 2, (".venv/bin/python", "plan.py"): 2, ("python", "-m"): 1}
    assert words[0] == "trainplan" or tuple(words[:2]) in known, f"who runs {command!r}?"
    if words[1] == "-m":
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=desk,
            capture_output=True,
            encoding="utf-8",
            timeout=300,
            check=False,
        )
    else:
        arguments = words[1:] if words[0] == "trainplan" else words[2:]
        done = run_cli(*arguments, cwd=desk, env={"NO_COLOR": "1"})
    if target is not None:
        (desk / target).write_text(done.stdout, encoding="utf-8")
    return done


@pytest.mark.slow
@pytest.mark.parametrize("at_night", leave_to_night([False, True], [False]))
@pytest.mark.parametrize("page", WRITTEN, ids=NAMES.get)
def test_commands_run(page: Path, at_night: bool, desk: Path, run_cli: RunCli) -> None:
    """A page from top to bottom: what one command writes, another reads. A document whose first
    line is a name, `# run.yaml`, is the file of that name. What names no file runs once."""
    for block in of("sh", "bash", "yaml"):
        if block.page != page:
            continue
        if block.language == "yaml":
            if named := re.match(r"# (\w+\.yaml)\n", block.text):
                (desk / named[1]).write_text(block.text, encoding="utf-8")
            continue
        for command in commands(block.text):
            if command in RUN and not re.search(r"[./>]", command.removeprefix("python plan.py")):
                continue
            RUN.add(command)
            if command in LONG and not at_night:
                words = shlex.split(command.partition("plan.py ")[2])
                main._parse_words(main._add_report(words))
                continue
            done = run(command, desk, run_cli)
            assert done is None or done.returncode == 0, f"{block}: {command}\n{done.stderr}"


@pytest.mark.parametrize("block", of("console"), ids=str)
def test_sessions_print_what_the_page_says(block: Block, desk: Path, run_cli: RunCli) -> None:
    """A line `…` stands for any number of lines."""
    for session in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, expected = session.partition("\n")
        done = run(command, desk, run_cli)
        assert done is not None
        pattern = "".join(
            r"(?:.*\n)*?" if line == "…" else re.escape(line) + r"\n"
            for line in expected.splitlines()
        )
        assert re.fullmatch(pattern, done.stdout + done.stderr), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("block", of("python"), ids=str)
def test_python_runs(block: Block, desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if SNIPPET.match(block.text):
        book = [path.read_text("utf-8") for path in (ROOT / "planner/book/formulas").glob("*.py")]
        for statement in block.text.strip().split("\n\n"):
            assert any(statement in page for page in book), f"{block}: {statement}"
        return
    code = compile(block.text, str(block), "exec")
    monkeypatch.chdir(desk)
    exec(code, {"__name__": "example"})


@pytest.mark.slow
@pytest.mark.parametrize("block", of("yaml", "yml"), ids=str)
def test_documents_are_valid(block: Block, tmp_path: Path) -> None:
    data = yaml.safe_load(block.text)
    if "repos" in data:
        used = {hook["id"] for repo in data["repos"] for hook in repo["hooks"]}
        assert used <= {hook["id"] for hook in HOOKS}
        return
    if "jobs" in data:
        steps = [step for job in data["jobs"].values() for step in job["steps"]]
        ours = next(step for step in steps if "trainplan" in step.get("uses", ""))
        assert set(ours["with"]) <= set(ACTION["inputs"])
        return
    kind = "defaults" if "reports" in data else loading.find_doc_type(data)
    file = tmp_path / "document.yaml"
    file.write_text(block.text, encoding="utf-8")
    if kind == "plan":
        loading.load(file)
    else:
        schema.validate(source.load(file, kind=kind), kind)


LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=NAMES.get)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    anchors = set(re.findall(r'<a id="([^"]+)">', text))
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.M):  # as GitHub and MkDocs name them
        anchors.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    missing = []
    for match in LINK.finditer(re.sub(r"```.*?```", "", text, flags=re.S)):
        target = match[1] or match[2]
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, anchor = target.partition("#")
        if path and not (page.parent / path).exists():
            missing.append(target)
        if not path and anchor not in anchors:
            missing.append(target)
    assert not missing


@pytest.mark.slow
def test_made_pages_are_what_the_program_says() -> None:
    from benchmarks import pages

    moved = [path.relative_to(ROOT).as_posix() for path in pages.stale(pages.pages())]
    assert not moved, f"make pages (it writes {', '.join(moved)})"


@pytest.mark.slow
def test_every_quantity_stands_in_a_chapter_with_a_formula_in_both_scripts() -> None:
    from benchmarks import book
    from planner.book.quantity import BOOK

    latex, mathml = book.pages(), book.pages(mathml=True)
    index = latex.pop("formulas.md")
    chapters, total = "".join(latex.values()), len(list(BOOK.list_formulas()))
    assert chapters.count("```math") == total
    assert "".join(mathml.values()).count('<math display="block">') == total
    for identifier in BOOK.quantities:
        place = f'<a id="{identifier}"></a>'
        assert chapters.count(place) == index.count(place) == 1
        (chapter,) = re.findall(rf"\(([^)#]*)#{re.escape(identifier)}\)", index)
        assert place in latex[chapter]


def test_every_command_has_a_page_that_names_its_options() -> None:
    from planner.cli.commands import COMMANDS

    for name, command in COMMANDS.items():
        page = (ROOT / "docs" / "commands" / f"{name}.md").read_text(encoding="utf-8")
        for names, _ in command.arguments:
            assert names[0] in page or not names[0].startswith("-")
        assert f"plan.py {name}" in page or name == "report"


def test_no_page_speaks_of_a_command_that_does_not_exist() -> None:
    from planner.cli.main import COMMANDS

    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for command in re.findall(r"plan\.py ([a-z]+) ", text):
            assert command in COMMANDS, f"{page.name}: plan.py {command}"


@pytest.mark.slow
def test_the_site_builds(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for page in (ROOT / "docs").glob("**/*.md"):
        assert (tmp_path / page.relative_to(ROOT / "docs")).with_suffix(".html").is_file()
    formulas = (tmp_path / "formulas" / "memory.html").read_text(encoding="utf-8")
    assert "<math" in formulas and "\\frac" not in formulas


def test_every_page_is_in_the_navigation() -> None:
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    pages = [page for entry in nav for page in entry.values()]
    listed = {name for page in pages for name in (page if isinstance(page, list) else [page])}
    docs = ROOT / "docs"
    written = {NAMES[page].removeprefix("docs/") for page in WRITTEN if docs in page.parents}
    assert listed == written | {"page/index.html"}  # which `make site` puts beside them


@pytest.mark.slow
def test_the_plan_that_the_readme_shows_is_the_one_that_its_command_runs(tmp_path: Path) -> None:
    """Its layout is left open, and what is found with the kernels of the shipped plan is what that
    states."""
    (shown,) = (block for block in blocks(ROOT / "README.md") if block.language == "yaml")
    (tmp_path / "run.yaml").write_text(shown.text, encoding="utf-8")
    opened = loading.load(tmp_path / "run.yaml", {"training.implementation": "megatron"})
    stated = loading.load(ROOT / "presets" / "llama70b_h100x1024.yaml")
    assert yaml.safe_load(shown.text)["parallelism"] == "auto"
    for section in ("model", "cluster", "training", "parallelism"):
        assert opened.data[section] == stated.data[section]


def test_a_long_command_is_on_a_page() -> None:
    assert {*LONG} <= {each for block in BLOCKS for each in commands(block.text)}
