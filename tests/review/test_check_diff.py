"""Committed reports and their drift; what changed between plans, results and revisions."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner import report as render
from planner.base.errors import PlanError
from planner.cli.main import main
from planner.questions import loading
from planner.results.result import evaluate_plan
from planner.review import check, diff, writing
from tests.conftest import read_data

PLAN = Path("presets/gpt2small_hgx-h100.yaml").resolve()
FORMATS = ("md", "html", "json")
LONG = ("md", "json")  # of the plan with an override


@pytest.fixture(autouse=True, scope="module")
def written() -> Iterator[None]:
    """Reports are written once for each input: how they are is tested elsewhere."""
    kept: dict[Any, str] = {}

    def as_text(result: Any, kind: str, real: Any = render.as_text) -> str:
        document = result.plan.document
        key = kind, result.document, repr(document.node), document.overrides
        return kept.get(key) or kept.setdefault(key, real(result, kind))

    with pytest.MonkeyPatch.context() as patch:
        for module in (check, render):
            patch.setattr(module, "as_text", as_text)
        yield


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a plan and its reports in docs/, one of them with an override."""
    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        (folder / "plans").mkdir()
        (folder / "docs" / "deep").mkdir(parents=True)
        shutil.copy(PLAN, "plans/small.yaml")
        for ending in FORMATS:
            write(f"docs/small.{ending}")
        for ending in LONG:
            write(f"docs/deep/long.{ending}", "training.tokens=20B", 'name=it\'s "longer"')
        Path("docs/notes.md").write_text("# Notes\n\npython plan.py plans/small.yaml\n")
        Path("docs/other.json").write_text('{"plan": 1}')
    return folder


@pytest.fixture
def repository(reports: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one test's own with that plan and its reports."""
    shutil.copytree(reports, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, *overrides: str) -> None:
    render.write_report(evaluate_plan(loading.load("plans/small.yaml", overrides)), path)


def edit(path: str, old: str, new: str) -> None:
    text = Path(path).read_text()
    assert old in text
    Path(path).write_text(text.replace(old, new))


def check_small(*endings: str) -> dict[str, check.Finding]:
    """What became of the reports without an override, by path."""
    paths = [Path(f"docs/small.{ending}") for ending in endings or FORMATS]
    return {found.path: found for found in check.check_reports(paths)}


def kinds(*paths: str) -> dict[str, str]:
    return {f.path: f.kind for f in check.check_reports([Path(p) for p in paths])}


@pytest.mark.slow
def test_fresh_reports_are_unchanged(repository: Path) -> None:
    before = {p: p.read_bytes() for p in repository.rglob("*") if p.is_file()}
    found = kinds()
    assert set(found) == {
        *(f"docs/small.{ending}" for ending in FORMATS),
        *(f"docs/deep/long.{ending}" for ending in LONG),
    }
    assert set(found.values()) == {"same"}
    assert {p: p.read_bytes() for p in repository.rglob("*") if p.is_file()} == before


@pytest.mark.slow
def test_found_from_another_folder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "plans")
    assert set(kinds("../docs/deep").values()) == {"same"}


@pytest.mark.slow
def test_a_changed_plan_moves_numbers(repository: Path) -> None:
    edit("plans/small.yaml", "tokens: 10B", "tokens: 11B")
    found = {f.path: f for f in check.check_reports()}
    for ending in FORMATS:
        assert found[f"docs/small.{ending}"].kind == "numbers"
    assert found["docs/deep/long.md"].kind == "same"  # its override hides the change
    assert any("compute.training_flops:" in d for d in found["docs/small.json"].details)
    assert "numbers moved" in check.format_findings(list(found.values()))


@pytest.mark.slow
def test_drift_stands_at_its_line(repository: Path) -> None:
    """Of each report one fault, at the line of it that moved first; of a plan that is no longer
    valid its own, once for all its reports."""
    edit("plans/small.yaml", "tokens: 10B", "tokens: 11B")
    findings = check.check_reports([Path("docs")])
    data = json.loads(check.export_findings(findings, "json"))
    files = [fault["file"] for fault in data["faults"]]
    assert files == [f"docs/small.{ending}" for ending in ("html", "json", "md")]
    assert {r["path"]: r["state"] for r in data["reports"]} == {f.path: f.kind for f in findings}
    for fault in data["faults"]:
        line = Path(fault["file"]).read_text("utf-8").splitlines()[fault["line"] - 1]
        assert fault["rule"] == "numbers"
        assert re.search(r"73\.8|time.training_days", line), (fault["file"], line)
    edit("plans/small.yaml", "tokens: 11B", "tokens: none")
    (fault,) = json.loads(check.export_findings(check.check_reports([Path("docs")]), "json"))[
        "faults"
    ]
    text = Path("plans/small.yaml").read_text("utf-8").splitlines()
    assert fault["file"] == "plans/small.yaml" and "tokens: none" in text[fault["line"] - 1]


@pytest.mark.slow
def test_what_drifted_is_written_anew_and_nothing_else(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("docs/small.html").unlink()
    edit("docs/small.md", "GPT-2", "GPT-3")
    edit("docs/deep/long.json", '"version"', '"gone": 1, "version"')
    shutil.copy("docs/small.md", "docs/lost.md")
    edit("docs/lost.md", "plans/small.yaml", "plans/lost.yaml")
    before = {p: p.read_bytes() for p in repository.rglob("*") if p.is_file()}
    assert main(["check", "docs", "--write"]) == 1  # the lost one is as it was
    out, _ = capsys.readouterr()
    assert "docs/small.md: " in out and "; written\n" in out
    after = {p: p.read_bytes() for p in repository.rglob("*") if p.is_file()}
    moved = {p.relative_to(repository).as_posix() for p in after if after[p] != before.get(p)}
    assert "docs/small.md" in moved
    assert moved <= {"docs/small.md", "docs/deep/long.json"}
    assert out.splitlines()[-1].endswith(f"; {len(moved)} written")
    Path("docs/lost.md").unlink()
    assert main(["check", "docs", "--write"]) == main(["check", "docs"]) == 0
    write("fresh.md")
    assert Path("fresh.md").read_bytes() == Path("docs/small.md").read_bytes()


@pytest.mark.slow
def test_a_plan_without_a_report_is_missing_one(repository: Path) -> None:
    for name in ("docs/small.html", "docs/deep/long.json", "docs/deep/long.md"):
        Path(name).unlink()
    shutil.copy(PLAN, "plans/other.yaml")
    Path("plans/model.yaml").write_text("layers: 2\n")
    Path("plans/broken.yaml").write_text("a: [\n")
    found = check.check_reports(plans=[Path("plans")])
    assert [f.path for f in found if f.kind == "missing"] == ["plans/other.yaml"]
    assert check.format_findings(found).splitlines()[-1] == (
        "2 reports, none drifted; 1 plan without a report"
    )
    assert all(f.kind == "same" for f in check.check_reports(plans=[Path("plans/small.yaml")]))
    with pytest.raises(PlanError, match="no such file or folder"):
        check.check_reports(plans=[Path("nowhere")])


@pytest.mark.slow
def test_wording_is_told_from_numbers(repository: Path) -> None:
    edit("docs/small.md", "## Reproduce", "## Repeat")
    edit("docs/small.html", "<h2>Reproduce", "<h2>Repeat")
    data = json.loads(Path("docs/small.json").read_text())
    data["quantities"]["parameters.total"]["title"] = "weights"
    Path("docs/small.json").write_text(json.dumps(data))
    found = check_small()
    for ending in FORMATS:
        assert found[f"docs/small.{ending}"].kind == "wording", ending
    assert "parameters.total: title" in found["docs/small.json"].details


@pytest.mark.slow
def test_digits_grouped_otherwise_are_no_other_numbers(repository: Path) -> None:
    text = Path("docs/small.md").read_text()
    assert "124,439,808" in text
    Path("docs/small.md").write_text(re.sub(r"(?<=\d),(?=\d{3})", "\u202f", text))
    (found,) = check.check_reports([Path("docs/small.md")])
    assert found.kind == "wording" and "grouped otherwise" in " ".join(found.details)


@pytest.mark.slow
def test_check_is_short_and_has_the_rest(repository: Path) -> None:
    """At most 25 lines for five reports, what decides first, the summary last; --all has more."""
    for number in range(5):
        write(f"docs/n{number}.json")
    edit("plans/small.yaml", "sequence_length: 1024", "sequence_length: 512")
    found = check.check_reports([Path(f"docs/n{number}.json") for number in range(5)])
    lines = check.format_findings(found).splitlines()
    assert len(lines) <= 25 and lines[-1] == "5 reports, 5 drifted (5 in numbers)"
    assert lines[0] == "docs/n0.json: numbers moved; the plan changed (training.sequence_length)"
    assert lines[1].startswith("  time.training_days: ") and lines[3].endswith("more: --all")
    assert len(check.format_findings(found, everything=True).splitlines()) > 250


@pytest.mark.slow
def test_a_number_edited_by_hand_is_named(repository: Path) -> None:
    data = json.loads(Path("docs/small.json").read_text())
    data["quantities"]["parameters.total"]["value"] = 124438272
    Path("docs/small.json").write_text(json.dumps(data))
    edit("docs/small.md", "124,439,808", "124,438,272")
    found = check_small("json", "md")
    assert found["docs/small.json"].kind == found["docs/small.md"].kind == "numbers"
    assert "124,438,272" in " ".join(found["docs/small.json"].details)


@pytest.mark.slow
def test_a_plan_that_vanished_or_broke(repository: Path) -> None:
    edit("plans/small.yaml", "micro_batch: 32", "micro_batch: 33")
    assert set(kinds("docs/small.md").values()) == {"invalid"}
    Path("plans/small.yaml").unlink()
    found = check.check_reports()
    assert {f.kind for f in found} == {"lost"} and all(f.drift for f in found)


@pytest.mark.slow
def test_what_is_no_report(repository: Path) -> None:
    with pytest.raises(PlanError, match="not a trainplan report"):
        check.check_reports([Path("docs/notes.md")])
    with pytest.raises(PlanError, match="no such file"):
        check.check_reports([Path("docs/nothing.md")])
    with pytest.raises(PlanError, match="no reports found"):
        check.check_reports([Path("plans")])


@pytest.mark.slow
def test_reports_are_found_wherever_they_are(
    repository: Path, monkeypatch: pytest.MonkeyPatch, run_cli: Callable[..., Any]
) -> None:
    """In any folder but those of version control, packages and virtual environments."""
    shutil.rmtree("docs/deep")
    for ending in ("html", "json"):
        Path(f"docs/small.{ending}").unlink()
    for folder in ("reviews/2026", ".git", "node_modules/x", "venv", ".hidden"):
        Path(folder).mkdir(parents=True)
        shutil.copy("docs/small.md", f"{folder}/small.md")
    Path("venv/pyvenv.cfg").write_text("home = /usr\n")
    edit("plans/small.yaml", "tokens: 10B", "tokens: 11B")
    found = kinds()
    assert found["reviews/2026/small.md"] == found[".hidden/small.md"] == "numbers"
    assert not any(part in name for name in found for part in (".git/", "node_modules", "venv"))
    done = run_cli("check", cwd=repository)
    assert done.returncode == 1 and "reviews/2026/small.md: numbers moved" in done.stdout
    done = run_cli("check", "plans", cwd=repository)
    assert done.returncode == 2 and done.stderr.startswith("plans: no reports found")
    for name in Path().rglob("*.md"):
        name.unlink()
    done = run_cli("check", cwd=repository)
    assert done.returncode == 0 and done.stdout == "no reports found\n"


@pytest.mark.slow
def test_whether_the_plan_changed_or_the_program(repository: Path) -> None:
    both = ("html", "json")  # Markdown has it as HTML does
    for ending in both:
        edit(f"docs/small.{ending}", "0.1.0", "0.0.9")
    found = check_small(*both)
    for ending in both:
        cause = found[f"docs/small.{ending}"].cause
        assert cause.startswith("the plan is as it was, the program changed (0.0.9 → ")
    edit("plans/small.yaml", "tokens: 10B", "tokens: 11B")
    found = check_small(*both)
    for ending in both:
        cause = found[f"docs/small.{ending}"].cause
        said = "the plan changed (t" if ending == "json" else "the plan or what it names changed"
        assert cause.startswith(said)
        assert "and the program changed (0.0.9 → " in cause
    assert "(training.tokens" in found["docs/small.json"].cause
    for ending in both:
        write(f"docs/small.{ending}")
    edit("plans/small.yaml", "tokens: 11B", "tokens: 12B")
    found = check_small(*both)
    assert all("program" not in found[f"docs/small.{e}"].cause for e in both)


# diff


@pytest.mark.slow
def test_equal_sides(repository: Path) -> None:
    found = diff.diff_plans("plans/small.yaml", "docs/small.json")
    assert found.rows == ()
    assert writing.format_diff(found) == "NOTHING CHANGED; it FITS.\n"


@pytest.mark.slow
def test_doubling_the_tokens(repository: Path) -> None:
    found = diff.diff_plans("docs/small.json", "docs/deep/long.json")
    rows = {row.id: row for row in found.rows}
    assert diff.format_change(rows["time.training_days"]) == "+100.0 %"
    assert diff.format_change(rows["training.tokens"]) == "+100.0 %"
    assert "parameters.total" not in rows and "memory.total" not in rows
    text = writing.render_diff(found)
    assert text.startswith(writing.MARKER)
    assert text.splitlines()[1].startswith("**THE PLAN CHANGED; it still FITS.** ")


def test_percent_against_zero_is_new() -> None:
    def row(old: object, new: object) -> diff.ChangeRow:
        return diff.ChangeRow("x", "quantity", "x", "bytes", old, new)

    assert diff.format_change(row(0, 5)) == diff.format_change(row(None, 5)) == "new"
    assert diff.format_change(row(5, None)) == "gone"
    assert diff.format_change(row(100, 90)) == "−10.0 %"
    assert diff.format_change(row("a", "b")) == ""


@pytest.mark.slow
def test_losing_the_fit_is_the_verdict(repository: Path) -> None:
    text = Path("plans/small.yaml").read_text().replace("micro_batch: 32", "micro_batch: 128")
    text = text.replace("global_batch: 512", "global_batch: 1024")
    Path("plans/big.yaml").write_text(
        text.replace("sequence_length: 1024", "sequence_length: 1024\n  loss: full")
    )
    found = diff.diff_plans("plans/small.yaml", "plans/big.yaml")
    for text in (writing.format_diff(found), writing.format_sentence(found)):
        assert text.startswith("FITS → DOES NOT FIT: the plans differ.")
    assert writing.render_diff(found).splitlines()[1].startswith("**FITS → DOES NOT FIT: ")


@pytest.mark.slow
def test_hostile_names_stay_in_their_cell(repository: Path) -> None:
    edit("plans/small.yaml", "name: GPT-2", "name: <script>|`x`\u202e GPT-2")
    text = writing.render_diff(diff.diff_plans("docs/small.json", "plans/small.yaml"))
    assert "<script>" not in text and "\u202e" not in text
    for line in text.splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") == 5


@pytest.fixture
def sides(repository: Path) -> Callable[..., diff.Diff]:
    """The shipped plan of a cluster against itself with overrides, or with another result."""

    def made(*overrides: str, against: Any = None) -> diff.Diff:
        return diff.diff_results("a.yaml", "b.yaml", evaluated(), against or evaluated(*overrides))

    return made


CLUSTER = PLAN.with_name("llama70b_h100x1024.yaml")


def evaluated(*overrides: str) -> Any:
    """The result of the shipped plan of a cluster, with overrides, as JSON of one's own."""
    return json.loads(evaluate_cluster(overrides))


@cache
def evaluate_cluster(overrides: tuple[str, ...]) -> str:
    return json.dumps(evaluate_plan(loading.load(CLUSTER, overrides)).to_json())


CASES = read_data("review")["changed_outputs"]


def number(cell: str) -> int:
    """Digits of a cell as an integer of the last one that prints."""
    text = cell.replace(",", "").replace(".", "").replace("−", "-").replace("+", "")
    return 0 if text == "=" else int(text)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("overrides", CASES.values(), ids=CASES)
def test_a_difference_is_short_and_adds_up(
    sides: Callable[..., diff.Diff], overrides: tuple[str, ...]
) -> None:
    """At most 25 lines of 80 columns or 6 KB; the parts of every sum add up exactly as they print,
    down to the total and across to the change."""
    found = sides(*overrides)
    lines = writing.format_diff(found).splitlines()
    assert len(lines) <= 25 and max(map(len, lines)) <= 80
    said = "THE PLAN CHANGED; it still FITS.", "FITS → DOES NOT FIT: the plan changed. "
    assert lines[0].startswith(said)
    assert len(writing.render_diff(found).encode()) < 6000
    for most in range(2, 8):
        for parts in found.parts:
            _, rows = writing.split_by_part(parts, most)
            assert len(rows) <= most + 1
            cells = [[number(cell) for cell in row[1:]] for row in rows]
            assert all(after - before == moved for before, after, moved in cells)
            if len(cells) > 1:
                *body, total = cells
                assert [sum(column) for column in zip(*body, strict=True)] == total
    whole = writing.format_diff(found, everything=True)
    assert all(f"  {row.id}: " in whole for row in found.of("quantity"))
    data = writing.dump_diff(found)
    assert len(data["rows"]) == len(found.rows) and data["changed"] == ["plan"]


SIZES = st.one_of(st.just(Fraction(0)), st.fractions(0, 10**13, max_denominator=10**9))


@pytest.mark.slow
@settings(max_examples=15)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=9), st.tuples(SIZES, SIZES), min_size=1),
       st.integers(2, 8), st.sampled_from([("s", diff.STEP), ("bytes", diff.PROCESS)]))  # fmt: skip
def test_parts_of_any_sizes_add_up(parts: dict[str, Any], most: int, of: tuple[str, str]) -> None:
    """Down to the totals and across to the changes, in whatever unit they print."""
    totals = tuple(map(sum, zip(*parts.values(), strict=True)))
    _, rows = writing.split_by_part(diff.Parts(*of, totals, parts), most)  # type: ignore[arg-type]
    *body, total = ([number(cell) for cell in row[1:]] for row in rows)
    assert len(rows) <= most + 1
    assert all(after - before == moved for before, after, moved in (*body, total))
    assert [sum(column) for column in zip(*body, strict=True)] == total


@pytest.mark.slow
def test_the_keys_that_were_changed_stand_with_their_places(repository: Path) -> None:
    shutil.copy(CLUSTER, "plans/large.yaml")
    text = Path("plans/large.yaml").read_text()
    Path("old").mkdir()
    Path("old/large.yaml").write_text(text.replace("tensor: 4", "tensor: 8"))
    lines = writing.format_diff(diff.diff_plans("old/large.yaml", "plans/large.yaml")).splitlines()
    at = next(n for n, line in enumerate(text.splitlines(), 1) if "tensor: 4" in line)
    assert [line.split() for line in lines if "parallelism" in line] == [
        ["parallelism.tensor", "8", "→", "4", f"large.yaml:{at}"]
    ]
    assert not any("parallelism.data" in line for line in lines)  # which only follows


@pytest.mark.slow
def test_of_another_model_its_name_is_told(sides: Callable[..., diff.Diff]) -> None:
    (row,) = (one for one in sides(*CASES["a model"]).changes if one.key == "model")
    assert (row.old, row.new) == ("llama2-70b", "llama3-8b")


@pytest.mark.slow
def test_keys_that_are_not_shown_are_counted(sides: Callable[..., diff.Diff]) -> None:
    found = sides(*CASES["many"])
    shown = [line for line in writing.format_diff(found).splitlines() if line.endswith("--set")]
    (more,) = (line for line in writing.format_diff(found).splitlines() if "more keys" in line)
    assert len(shown) + int(more.split()[1]) == len(found.changes) >= 12


@pytest.mark.slow
def test_who_changed_something_comes_first(sides: Callable[..., diff.Diff]) -> None:
    """The program (its version, or numbers of the same input), presets, prices."""

    def altered(**how: Any) -> str:
        result = evaluated()
        result |= {key: how[key] for key in how if key == "version"}
        for key, value in how.get("inputs", {}).items():
            result["inputs"][key]["value"] = value
        for key, value in how.get("quantities", {}).items():
            result["quantities"][key]["value"] = value
        return writing.format_sentence(sides(against=result))

    slower = {"time.training_days": 500.0}
    assert altered(version="9", quantities=slower).startswith("THE PROGRAM CHANGED; it still FITS.")
    assert altered(quantities=slower).startswith("THE PROGRAM CHANGED; it still FITS. ")
    assert altered(version="9").startswith("THE PROGRAM CHANGED; it still FITS. No number moves.")
    preset = {"cluster.accelerator.memory_bandwidth": 1}
    assert altered(inputs=preset).startswith("PRESETS CHANGED; ")
    assert altered(inputs={"cluster.price": 1}).startswith("PRICES CHANGED; ")
    assert altered(inputs={"training.tokens": 1}).startswith("THE PLAN CHANGED; ")
    both = altered(version="9", inputs={"training.tokens": 1})
    assert both.startswith("THE PLAN AND THE PROGRAM CHANGED; ")
    assert altered(inputs={"time.efficiency.network": 0.5}).startswith("THE PROGRAM CHANGED; ")


@pytest.mark.slow
def test_what_one_side_lacks_is_told(sides: Callable[..., diff.Diff]) -> None:
    said = writing.format_sentence(sides(*CASES["serving"]))
    assert "Training " in said and " before, none now" in said and "GiB less memory" in said


@pytest.mark.slow
def test_a_host_that_is_short_of_memory_is_named(sides: Callable[..., diff.Diff]) -> None:
    """Of 20 layers of 855,654,400 parameters and an embedding of 262,144,000, 8 of 256 devices keep
    16 bytes for each: gradients, master weights and two moments."""
    found = sides("training.offload.optimizer=1", "cluster.node_memory=4 GiB")
    assert "8.09 GiB of host memory per node are needed, 4.00 GiB are there" in (
        writing.format_sentence(found)
    )


@pytest.mark.slow
def test_old_results_without_parts_are_compared_too(sides: Callable[..., diff.Diff]) -> None:
    """Of any version: without states, parts, origins and what quantities use."""
    new = evaluated("parallelism.tensor=8")
    bare = {
        "verdict": {"fits": True},
        "inputs": {key: {"value": said["value"]} for key, said in new["inputs"].items()},
        "quantities": {
            key: {part: said[part] for part in ("value", "unit", "title")}
            for key, said in new["quantities"].items()
        },
    }
    found = sides(against=bare)
    assert "memory" in writing.format_diff(found) and writing.render_diff(found, everything=True)
    assert writing.dump_diff(found)["parts"]


@pytest.mark.slow
def test_a_hostile_result_stays_short(sides: Callable[..., diff.Diff]) -> None:
    """Whatever stands in it, a comment keeps its bytes and its tables their cells."""
    new = evaluated(*CASES["many"])
    bad = "<img src=x>|`&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&&\n# x\u202e" * 9
    for said in new["inputs"].values():
        said.update(value=bad, origin=f"{bad}:1".replace("\n", ""))
    new["inputs"] |= {f"{bad}{number}": {"value": bad} for number in range(20)}
    new["step_parts"] = {bad: 3.0, f"{bad}!": 0.7}
    new["version"] = bad
    found = sides(against=new)
    text = writing.render_diff(found)
    assert len(text.encode()) < 6000 and "<img" not in text.replace("`<", "").replace("\u202e", "")
    assert all(
        line.replace("\\|", "").count("|") == 5 for line in text.splitlines() if line[:1] == "|"
    )
    assert len(writing.format_diff(found).splitlines()) <= 25
    assert all(
        line.isprintable() for line in writing.format_diff(found).replace("\u202f", "").splitlines()
    )


@pytest.mark.slow
def test_a_report_stands_for_its_plan(repository: Path) -> None:
    """In any format, as committed or as of a revision; numbers are those of today's program."""
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    for ending in ("md", "html"):
        assert diff.diff_plans(f"docs/small.{ending}", "docs/small.json").rows == ()
    edit("plans/small.yaml", "sequence_length: 1024", "sequence_length: 512")
    found = diff.diff_plans("main:docs/small.md", "docs/small.md")
    assert [row.id for row in found.causes["plan"]] == ["training.sequence_length"]


def git(*words: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
        check=True,
        capture_output=True,
    )


@pytest.mark.slow
def test_revisions(repository: Path) -> None:
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    edit("plans/small.yaml", "tokens: 10B", "tokens: 5B")
    rows = {r.id: r for r in diff.diff_plans("main:plans/small.yaml", "plans/small.yaml").rows}
    assert diff.format_change(rows["training.tokens"]) == "−50.0 %"
    assert diff.diff_plans("main:docs/small.json", "main:plans/small.yaml").rows == ()
    for bad in ("main:plans/none.yaml", "nowhere:plans/small.yaml", "--upload:plans/small.yaml"):
        with pytest.raises(PlanError):
            diff.diff_plans(bad, "plans/small.yaml")


@pytest.mark.slow
def test_revisions_from_a_subfolder(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path is from the current folder, or from the top as git means it."""
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    edit("plans/small.yaml", "tokens: 10B", "tokens: 5B")
    monkeypatch.chdir(repository / "plans")
    for old in ("HEAD:small.yaml", "HEAD:./small.yaml", "HEAD:plans/small.yaml"):
        rows = {r.id: r for r in diff.diff_plans(old, "small.yaml").rows}
        assert diff.format_change(rows["training.tokens"]) == "−50.0 %"
    monkeypatch.chdir(repository / "docs" / "deep")
    rows = {r.id: r for r in diff.diff_plans("HEAD:../../plans/small.yaml", "long.json").rows}
    assert diff.format_change(rows["training.tokens"]) == "+100.0 %"
    with pytest.raises(PlanError, match="no such file in that revision"):
        diff.diff_plans("HEAD:small.yaml", "long.json")


@pytest.mark.slow
def test_revisions_follow_committed_links_and_names(repository: Path) -> None:
    """Links to files and folders, documents that name others beside them, names with spaces."""
    Path("base").mkdir()
    shutil.copy(PLAN.parent / "models" / "gpt2-small.yaml", "base/our model.yaml")
    edit("plans/small.yaml", "model: gpt2-small", "model: ../base/our model")
    Path("plans/variant.yaml").write_text("extends: small.yaml\ntraining: {tokens: 20B}\n")
    Path("link.yaml").symlink_to("plans/small.yaml")
    Path("linked").symlink_to("plans")
    Path("results").symlink_to("docs")
    Path("out.yaml").symlink_to("/etc/hostname")
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    edit("base/our model.yaml", "layers: 12", "layers: 13")
    rows = {r.id: r for r in diff.diff_plans("HEAD:plans/small.yaml", "plans/small.yaml").rows}
    assert (rows["model.layers"].old, rows["model.layers"].new) == (12, 13)
    variant = diff.diff_plans("HEAD:plans/small.yaml", "HEAD:linked/variant.yaml")
    assert {r.id for r in variant.of("input")} == {"training.tokens"}
    assert diff.diff_plans("HEAD:results/small.json", "HEAD:docs/small.json").rows == ()
    with pytest.raises(PlanError, match="no such file in that revision"):
        diff.diff_plans("HEAD:out.yaml", "plans/small.yaml")


@pytest.mark.slow
def test_a_large_repository_with_odd_names_is_quick(repository: Path) -> None:
    """Two processes of git read what the plan names, of 2,000 documents and one odd name."""
    git("init", "-q", "-b", "main")
    Path("many").mkdir()
    for number in range(2000):
        Path(f"many/{number}.yaml").write_text(f"a: {number}\n")
    try:
        Path(os.fsdecode(b"many/caf\xe9.yaml")).write_text("a: 1\n")
    except OSError:
        pytest.skip("names are UTF-8 here")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    calls: list[tuple[str, ...]] = []
    real = subprocess.run

    def counted(words: Any, **options: Any) -> Any:
        calls.append(tuple(words))
        return real(words, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", counted)
        assert diff.diff_plans("HEAD:plans/small.yaml", "plans/small.yaml").rows == ()
    assert len([words for words in calls if words[0] == "git"]) < 10
    edit("plans/small.yaml", "tokens: 10B", "tokens: 5B")
    rows = {r.id: r for r in diff.diff_plans("HEAD:plans/small.yaml", "plans/small.yaml").rows}
    assert diff.format_change(rows["training.tokens"]) == "−50.0 %"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("inputs", "training.tokens", "value"), float("nan")),
        (("quantities", "memory.total", "value"), [1]),
        (("verdict",), {}),
    ],
)
def test_a_damaged_result_is_one_line(repository: Path, path: tuple[str, ...], value: Any) -> None:
    data = json.loads(Path("docs/small.json").read_text("utf-8"))
    inner = data
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    Path("docs/damaged.json").write_text(json.dumps(data), "utf-8")
    with pytest.raises(PlanError, match="this is not a result"):
        diff.diff_plans("docs/damaged.json", "plans/small.yaml")


@pytest.mark.slow
def test_sides_that_are_nothing(repository: Path) -> None:
    for side in ("docs/other.json", "docs/none.json", "docs/notes.md", "none.md", "none.yaml"):
        with pytest.raises(PlanError):
            diff.diff_plans(side, "plans/small.yaml")
