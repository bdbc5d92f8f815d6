"""The GitHub Action and the pre-commit hooks: their scripts run against a real repository, with
stand-ins for the programs of the runner."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.cli.main import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
HOOKS: list[dict[str, Any]] = yaml.safe_load(
    (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
)
MARKER = "<!-- trainplan -->"

needs_bash = pytest.mark.skipif(
    shutil.which("bash") is None or shutil.which("git") is None, reason="needs bash and git"
)


# Hooks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: str(hook["id"]))
def test_a_hook_runs_a_command_that_exists(hook: dict[str, Any]) -> None:
    program, command = hook["entry"].split()
    assert program == "trainplan" and command in COMMANDS
    assert hook["language"] == "python"


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("plans/a.yaml", True),
        ("infra/plans/b.yml", True),
        ("replans/a.yaml", False),
        (".github/workflows/ci.yml", False),
    ],
)
def test_plans_are_validated_where_they_lie(file: str, wanted: bool) -> None:
    hook = next(hook for hook in HOOKS if hook["id"] == "plan-validate")
    assert bool(re.search(hook["files"], file)) == wanted


def test_pre_commit_accepts_the_hooks() -> None:
    clientlib = pytest.importorskip("pre_commit.clientlib")
    assert len(clientlib.load_manifest(ROOT / ".pre-commit-hooks.yaml")) == len(HOOKS)


# Action ---------------------------------------------------------------------------------------


def test_no_input_is_pasted_into_a_script() -> None:
    """What a pull request controls reaches a script through the environment only."""
    for step in ACTION["runs"]["steps"]:
        assert "${{" not in step.get("run", ""), step["name"]


def test_every_input_is_used_and_declared() -> None:
    used = set(re.findall(r"inputs\.(\w+)", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])


class Runner:
    """A repository with a base commit, and programs that note how they were called."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder / "repository", folder / "bin"
        self.calls = folder / "calls"
        (self.folder / "plans").mkdir(parents=True)
        self.bin.mkdir()
        self.git("init", "--quiet")
        self.program("trainplan", 'echo "compared $*"')

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(
            ["git", *who, *arguments],
            cwd=self.folder,
            check=True,
            capture_output=True,
            encoding="utf-8",
        ).stdout.strip()

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "x")
        return self.git("rev-parse", "HEAD")

    def program(self, name: str, body: str) -> None:
        file = self.bin / name
        note = f'printf "%s\\n" "{name} $*" >> "{self.calls}"'
        file.write_text(f"#!/bin/sh\n{note}\n{body}\n", encoding="utf-8")
        file.chmod(0o755)

    def run(self, script: str, report: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", ROOT / "action" / script, report],
            cwd=self.folder,
            env={**os.environ, "PATH": path, **variables},
            check=False,
            capture_output=True,
            encoding="utf-8",
        )

    def compare(self, base: str) -> str:
        report = self.folder.parent / "report.md"
        done = self.run("compare.sh", report, BASE=base, PLANS="plans")
        assert done.returncode == 0, done.stderr
        return report.read_text(encoding="utf-8")


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@needs_bash
def test_a_changed_a_new_and_a_removed_plan_are_told(runner: Runner) -> None:
    plans = runner.folder / "plans"
    for name in ("old", "gone", "same"):
        (plans / f"{name}.yaml").write_text("a: 1\n")
    (runner.folder / "other.yaml").write_text("a: 1\n")
    base = runner.commit()
    (plans / "old.yaml").write_text("a: 2\n")
    (plans / "new one.yaml").write_text("a: 3\n")
    (plans / "gone.yaml").unlink()
    (plans / "notes.md").write_text("x\n")
    (runner.folder / "other.yaml").write_text("a: 2\n")
    runner.commit()
    report = runner.compare(base)
    assert report.startswith(f"{MARKER}\n")
    assert f"compared diff {base}:plans/old.yaml plans/old.yaml --format md" in report
    assert "compared plans/new one.yaml --format text" in report
    assert "### `plans/gone.yaml`\n\nThe plan is removed." in report
    assert not any(name in report for name in ("same", "notes", "other"))


@needs_bash
def test_nothing_changed_is_told_too(runner: Runner) -> None:
    assert "No plan in `plans` changes." in runner.compare(runner.commit())


@needs_bash
def test_a_plan_that_fails_is_shown_and_does_not_stop_the_others(runner: Runner) -> None:
    base = runner.commit()
    for name in ("a", "b"):
        (runner.folder / "plans" / f"{name}.yaml").write_text("a: 1\n")
    runner.commit()
    runner.program("trainplan", 'echo "$1:1:1: no" >&2; exit 2')
    report = runner.compare(base)
    assert "plans/a.yaml:1:1: no" in report and "plans/b.yaml:1:1: no" in report


@needs_bash
def test_a_hostile_file_name_is_no_markup(runner: Runner) -> None:
    base = runner.commit()
    (runner.folder / "plans" / "<img src=x>`$(touch pwned)`.yaml").write_text("a: 1\n")
    runner.program("trainplan", "true")
    runner.commit()
    assert "<img" not in runner.compare(base)
    assert not (runner.folder / "pwned").exists()


@needs_bash
@pytest.mark.parametrize(
    ("found", "call"),
    [
        ("", "--method POST repos/o/r/issues/7/comments"),
        ("41", "--method PATCH repos/o/r/issues/comments/41"),
    ],
)
def test_a_comment_is_written_once_and_then_updated(
    runner: Runner, tmp_path: Path, found: str, call: str
) -> None:
    report = tmp_path / "report.md"
    report.write_text(f"{MARKER}\nfits\n")
    runner.program("gh", f'case "$*" in *paginate*) printf %s "{found}" ;; esac')
    done = runner.run("comment.sh", report, NUMBER="7", GITHUB_REPOSITORY="o/r")
    assert done.returncode == 0, done.stderr
    calls = runner.calls.read_text().splitlines()
    assert MARKER in "".join(calls) and call in calls[-1]


@needs_bash
@pytest.mark.parametrize(
    ("login", "updated"), [("", "5"), ("robot", "6"), ("nobody", "")], ids=("bot", "user", "new")
)
def test_a_comment_of_somebody_else_is_left_alone(
    runner: Runner, tmp_path: Path, login: str, updated: str
) -> None:
    """Of several comments with the marker, that of the token's own user is updated."""
    if shutil.which("jq") is None:
        pytest.skip("needs jq")
    report = tmp_path / "report.md"
    report.write_text(f"{MARKER}\nfits\n")
    comments = [
        {"id": 4, "user": {"login": "stranger"}, "body": f"{MARKER}\nmine"},
        {"id": 5, "user": {"login": "github-actions[bot]"}, "body": f"{MARKER}\nold"},
        {"id": 6, "user": {"login": "robot"}, "body": f"{MARKER}\nold"},
    ]
    (tmp_path / "comments.json").write_text(json.dumps(comments))
    user = f"echo {login}" if login else "exit 1"
    runner.program(
        "gh",
        f'case "$*" in "api user"*) {user} ;; '
        f'*paginate*) jq -r "$5" "{tmp_path / "comments.json"}" ;; esac',
    )
    done = runner.run("comment.sh", report, NUMBER="7", GITHUB_REPOSITORY="o/r")
    assert done.returncode == 0, done.stderr
    writing = runner.calls.read_text().splitlines()[-1]
    wanted = f"PATCH repos/o/r/issues/comments/{updated} " if updated else "POST "
    assert f"--method {wanted}" in writing


@needs_bash
def test_a_long_comment_is_cut_between_its_parts(runner: Runner, tmp_path: Path) -> None:
    """Never inside a fence, a fold or a line, and it says where the rest is."""
    part = "### `{0}`\n\n```text\n{1}```\n\n<details><summary>x</summary>\n{1}</details>\n"
    lines = "".join(f"{i} é\n" for i in range(900))
    report, body = tmp_path / "report.md", tmp_path / "body.md"
    whole = f"{MARKER}\n" + "".join(part.format(i, lines) for i in range(9))
    report.write_text(whole, encoding="utf-8")
    copy = 'for w; do case "$w" in body=@*) cp "${w#body=@}" ' + f'"{body}";; esac; done'
    runner.program("gh", copy)
    done = runner.run("comment.sh", report, NUMBER="7", GITHUB_REPOSITORY="o/r")
    assert done.returncode == 0, done.stderr
    text = body.read_text(encoding="utf-8")
    kept, rest = text.split("\n\n*The rest is")
    assert whole.startswith(kept) and "summary of the job" in rest
    assert 40_000 < len(text.encode()) < 65_536
    assert kept.count("```") % 2 == 0 and kept.count("<details>") == kept.count("</details>")
    report.write_text(f"{MARKER}\nshort\n")
    runner.run("comment.sh", report, NUMBER="7", GITHUB_REPOSITORY="o/r")
    assert body.read_text() == f"{MARKER}\nshort\n"


@needs_bash
def test_output_cannot_leave_its_fence(runner: Runner) -> None:
    base = runner.commit()
    (runner.folder / "plans" / "a.yaml").write_text("a: 1\n")
    runner.commit()
    runner.program("trainplan", "printf '```\\n# not a heading\\n'; exit 2")
    lines = runner.compare(base).splitlines()
    inside = lines[lines.index("```text") + 1 : -1]
    assert "# not a heading" in inside and lines[-1] == "```" and "```" not in inside


@needs_bash
def test_only_its_own_commands_are_on_the_path(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "temp").mkdir()
    python = runner.bin / "python"
    made = tmp_path / "temp" / "trainplan" / "bin"
    runner.program(
        "python",
        f'case "$*" in *venv*) mkdir -p "{made}"; for c in python pip trainplan; do '
        f'printf "#!/bin/sh\\n" > "{made}/$c"; chmod +x "{made}/$c"; done ;; esac',
    )
    given = {
        "PYTHON": str(python),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_PATH": str(tmp_path / "path"),
        "GITHUB_ACTION_PATH": str(ROOT),
    }
    done = runner.run("install.sh", tmp_path, **given)
    assert done.returncode == 0, done.stderr
    (added,) = (tmp_path / "path").read_text().split()
    assert [file.name for file in Path(added).iterdir()] == ["trainplan"]
    runner.program("python", 'case "$*" in --version) echo Python 3.9 ;; *) exit 1 ;; esac')
    done = runner.run("install.sh", tmp_path, **given)
    assert done.returncode == 1 and "needs Python 3.11 or later, not Python 3.9" in done.stdout


@needs_bash
def test_all_lines_of_reports_are_read(runner: Runner) -> None:
    (step,) = (s for s in ACTION["runs"]["steps"] if s["name"] == "Check committed reports")
    for reports, wanted in (("docs\nplans/a.md other\n", "docs plans/a.md other"), ("", "")):
        runner.calls.unlink(missing_ok=True)
        path = f"{runner.bin}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=runner.folder,
            env={**os.environ, "PATH": path, "REPORTS": reports},
            check=True,
            capture_output=True,
        )
        assert runner.calls.read_text().strip() == f"trainplan check --root . {wanted}".strip()


@needs_bash
def test_a_token_that_may_not_write_is_no_failure(runner: Runner, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_text(f"{MARKER}\n")
    runner.program("gh", "exit 1")
    done = runner.run("comment.sh", report, NUMBER="7", GITHUB_REPOSITORY="o/r")
    assert done.returncode == 0 and "::notice::" in done.stdout


@needs_bash
@pytest.mark.slow
def test_the_whole_action_on_a_pull_request(runner: Runner, tmp_path: Path) -> None:
    """Every step's script as the runner would execute it, with the program itself: a base branch,
    a branch that changes one plan, adds one and leaves a committed report stale."""
    plans, docs = runner.folder / "plans", runner.folder / "docs"
    docs.mkdir()
    preset = (ROOT / "presets" / "gpt2small_hgx-h100.yaml").read_text("utf-8")
    (plans / "small.yaml").write_text(preset)
    program = f'exec "{sys.executable}" "{ROOT / "plan.py"}" "$@"'
    runner.program("trainplan", program)
    subprocess.run(
        [runner.bin / "trainplan", "plans/small.yaml", "-o", "docs/small.md"],
        cwd=runner.folder,
        check=True,
        capture_output=True,
    )
    base = runner.commit()
    runner.git("checkout", "--quiet", "-b", "change")
    assert "tokens: 10B" in preset
    (plans / "small.yaml").write_text(preset.replace("tokens: 10B", "tokens: 20B"))
    (plans / "new.yaml").write_text(preset)
    runner.commit()
    body = tmp_path / "body.md"
    runner.program(
        "gh",
        'for word; do case "$word" in body=@*) cp "${word#body=@}" '
        + f'"{body}"'
        + ";; esac; done",
    )

    files = {name: tmp_path / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
    expressions = {
        "${{ github.event.pull_request.base.sha }}": base,
        "${{ github.event.pull_request.number }}": "7",
        **{f"${{{{ inputs.{k} }}}}": v["default"] for k, v in ACTION["inputs"].items()},
        "${{ inputs.token }}": "none",
    }
    environment = {
        **os.environ,
        "PATH": f"{runner.bin}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(ROOT),
        "GITHUB_REPOSITORY": "o/r",
        "RUNNER_TEMP": str(tmp_path),
        **{name: str(path) for name, path in files.items()},
    }
    ended = {}
    for step in ACTION["runs"]["steps"]:
        if step["name"] in ("Python", "Install"):  # need a network
            continue
        given = {key: expressions.get(value, value) for key, value in step.get("env", {}).items()}
        assert not any("${{" in value for value in given.values()), step["name"]
        ended[step["name"]] = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=runner.folder,
            env={**environment, **given},
            check=False,
            capture_output=True,
            encoding="utf-8",
        )
    assert [(name, done.returncode) for name, done in ended.items()] == [
        ("Compare with the base branch", 0),
        ("Comment", 0),
        ("Check committed reports", 1),
    ], [done.stderr for done in ended.values()]
    summary = files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
    assert summary == body.read_text("utf-8")
    assert summary.startswith(f"{MARKER}\n") and len(summary) < 60_000
    _, new, changed = summary.split("### `plans/")
    assert new.startswith("new.yaml`") and changed.startswith("small.yaml`")
    assert "| `training.tokens` | 10B | 20B | small.yaml:" in changed and "+100.0 %" in changed
    assert "**THE PLAN CHANGED; it still FITS.**" in changed and len(changed.encode()) < 6000
    assert "FITS" in new
    assert "docs/small.md: numbers moved" in ended["Check committed reports"].stdout


@needs_bash
def test_a_folder_that_does_not_exist_is_told(runner: Runner) -> None:
    report = runner.folder.parent / "report.md"
    base = runner.commit()
    done = runner.run("compare.sh", report, BASE=base, PLANS="nowhere")
    assert done.returncode == 0 and "No plan in `nowhere` changes." in report.read_text("utf-8")
