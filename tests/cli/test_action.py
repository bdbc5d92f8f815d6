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
from typing import Any, NamedTuple

import pytest
import yaml

from planner.base.errors import PlanError
from planner.cli.main import COMMANDS
from tests.conftest import read_data

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


@pytest.mark.parametrize(("file", "wanted"), read_data("cli")["validated_plans"])
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


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("file", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda file: file.name)
def test_others_actions_are_pinned_to_a_commit(file: Path) -> None:
    used = re.findall(r"uses: (\S+)( # v[\d.]+)?$", file.read_text("utf-8"), re.MULTILINE)
    assert all(
        name == "./" or (re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", name) and version)
        for name, version in used
    ), used


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_may_only_read_but_for_one_comment_and_the_site(file: Path) -> None:
    workflow: dict[Any, Any] = yaml.safe_load(file.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    events = set(workflow[True])  # YAML 1.1 reads on as true
    assert events in (
        {"push", "pull_request"}, {"push", "workflow_dispatch"}, {"schedule", "workflow_dispatch"}
    )  # fmt: skip
    for job in workflow["jobs"].values():
        may = job.get("permissions", {"contents": "read"})
        if "pages" in may:  # it runs nothing of the repository, and never for a pull request
            assert may == {"pages": "write", "id-token": "write"}
            assert "pull_request" not in events and workflow[True]["push"] == {"branches": ["main"]}
            used = [step["uses"].partition("@")[0] for step in job["steps"]]
            assert used == ["actions/deploy-pages"]
            continue
        assert set(may.items()) <= {("contents", "read"), ("pull-requests", "write")}
        for step in job["steps"]:
            assert "${{" not in step.get("run", "")
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


def test_this_repository_runs_its_own_action_and_every_python() -> None:
    jobs = [j for f in WORKFLOWS for j in yaml.safe_load(f.read_text("utf-8"))["jobs"].values()]
    steps = [step for job in jobs for step in job["steps"]]
    (own,) = (step for step in steps if step.get("uses") == "./")
    assert set(own["with"]) <= set(ACTION["inputs"])
    assert all((ROOT / folder).is_dir() for folder in own["with"].values())
    (matrix,) = (job["strategy"]["matrix"] for job in jobs if "strategy" in job)
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    assert {".ci/run", "make nightly"} <= {step.get("run") for step in steps}


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


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@needs_bash
@pytest.mark.parametrize(("found", "call"), read_data("cli")["comments"])
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
    fenced = "```text\n~~~.yaml:1:1\n{1}```\n"
    part = "### `{0}`\n\n" + fenced + "\n<details><summary>x</summary>\n{1}</details>\n"
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
        call = f"trainplan check --format github --root . {wanted}".strip()
        assert runner.calls.read_text().strip() == call


@needs_bash
def test_a_token_that_may_not_write_is_no_failure(runner: Runner, tmp_path: Path) -> None:
    report = tmp_path / "report.md"
    report.write_text(f"{MARKER}\n")
    runner.program("gh", "exit 1")
    done = runner.run("comment.sh", report, NUMBER="7", GITHUB_REPOSITORY="o/r")
    assert done.returncode == 0 and "::notice::" in done.stdout


# The whole loop ---------------------------------------------------------------------------------

SMALL = """\
name: small
model: {model}
cluster: {{accelerator: h100-sxm-80gb, devices: 8}}
training: {{tokens: {tokens}, sequence_length: 1024, global_batch: 64}}
time: {{mfu: 0.4}}
"""
MODEL = "extends: gpt2-small\nname: own\n"
#: Files of which GitHub or a shell would make something else than a name.
HOSTILE = read_data("faults")["action"]


class Ended(NamedTuple):
    """What the steps of one run left behind."""

    codes: dict[str, int]
    output: str
    summary: str

    @property
    def commands(self) -> list[str]:
        """The lines that GitHub takes as workflow commands (actions/runner, ActionCommand)."""
        lines = self.output.splitlines()
        return [line for line in lines if line.lstrip().startswith("::") or "##[" in line]


class Loop(Runner):
    """A pull request: a base, a head, their merge as GitHub checks it out, and every step of the
    action as the workflow runs it, but for those that need a network."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.git("checkout", "--quiet", "-b", "main")
        self.program("trainplan", f'exec "{sys.executable}" "{ROOT / "plan.py"}" "$@"')
        copy = 'for word; do case "$word" in body=@*) cp "${word#body=@}" '
        self.program("gh", copy + f'"{folder / "body.md"}";; esac; done')

    def write(self, name: str, text: str) -> None:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def plan(self, name: str, tokens: str = "1B", model: str = "gpt2-small") -> None:
        self.write(name, SMALL.format(tokens=tokens, model=model))

    def trainplan(self, *words: str) -> None:
        subprocess.run([self.bin / "trainplan", *words], cwd=self.folder, check=True,
                       capture_output=True)  # fmt: skip

    def branch(self, name: str = "feature") -> None:
        """The base is what is there so far; the head begins."""
        self.base = self.commit()
        self.head_name = name
        self.git("checkout", "--quiet", "-b", name)

    def request(self, **inputs: str) -> Ended:
        """The head is what is there now: its merge into the base is checked out, and looked at."""
        self.head = self.commit()
        self.git("checkout", "--quiet", "main")
        self.git("merge", "--quiet", "--no-ff", "--message", "merge", self.head)
        return self.steps(self.folder, **inputs)

    def steps(self, folder: Path, **inputs: str) -> Ended:
        merge = self.git("rev-parse", "main")
        temp = self.bin.parent
        files = {name: temp / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_PATH")}
        for file in files.values():
            file.unlink(missing_ok=True)
        given = {**{k: v["default"] for k, v in ACTION["inputs"].items()}, **inputs, "token": "x"}
        expressions = {
            "${{ github.event.pull_request.base.sha }}": self.base,
            "${{ github.event.pull_request.base.ref }}": "main",
            "${{ github.event.pull_request.head.sha }}": self.head,
            "${{ github.event.pull_request.head.ref }}": self.head_name,
            "${{ github.event.pull_request.number }}": "7",
            **{f"${{{{ inputs.{name} }}}}": value for name, value in given.items()},
        }
        environment = {
            **os.environ,
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_REPOSITORY": "o/r",
            "GITHUB_SHA": merge,
            "RUNNER_TEMP": str(temp),
            **{name: str(path) for name, path in files.items()},
        }
        codes, output = {}, ""
        for step in ACTION["runs"]["steps"]:
            if step["name"] in ("Python", "Install"):  # need a network
                continue
            own = {key: expressions.get(value, value) for key, value in step["env"].items()}
            assert not any("${{" in value for value in own.values()), step["name"]
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=folder,
                env={**environment, **own},
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
            )
            codes[step["name"].split()[0]] = done.returncode
            output += done.stdout
        summary = files["GITHUB_STEP_SUMMARY"].read_text("utf-8")
        assert summary == (temp / "body.md").read_text("utf-8") and len(summary) < 60_000
        assert summary.startswith(f"{MARKER}\n")
        # Names of branches and short commits, never all the digits of one.
        assert not re.search("[0-9a-f]{11,}", summary)
        return Ended(codes, output, summary)


GREEN = {"Compare": 0, "Comment": 0, "Validate": 0, "Check": 0}


@pytest.fixture
def loop(tmp_path: Path) -> Loop:
    return Loop(tmp_path)


@needs_bash
@pytest.mark.slow
def test_a_changed_a_new_a_renamed_and_a_removed_plan_are_told(loop: Loop) -> None:
    for name in ("changed", "gone", "same", "deep/elsewhere", "moved"):
        loop.plan(f"plans/{name}.yaml", tokens={"gone": "7B", "moved": "5B"}.get(name, "1B"))
    loop.plan("plans/gone.yaml", "7B", "llama2-7b")
    loop.branch()
    loop.plan("plans/changed.yaml", "2B")
    loop.plan("top.yaml", "3B", "gpt2-medium")
    (loop.folder / "plans/gone.yaml").unlink()
    (loop.folder / "plans/moved.yaml").rename(loop.folder / "plans/new name.yaml")
    found = loop.request()
    assert found.codes == GREEN and not found.commands
    names = f"`main` at `{loop.base[:10]}` → `feature` at `{loop.head[:10]}`"
    assert names in found.summary
    assert "6 plans: 1 changed, 1 new, 1 removed, 1 renamed, 2 as before." in found.summary
    changed = found.summary.split("#### `plans/changed.yaml`")[1].split("####")[0]
    assert "THE PLAN CHANGED; it still FITS" in changed
    assert "| `training.tokens` | 1B | 2B | changed.yaml:4" in changed
    assert f"`{loop.base[:10]}:plans/changed.yaml` → `plans/changed.yaml`" in changed
    assert "before: plans/moved.yaml" in found.summary.split("`plans/new name.yaml`")[1]
    assert "The plan is removed" in found.summary.split("`plans/gone.yaml`")[1]
    assert "elsewhere" not in found.summary and "`top.yaml`" in found.summary


@needs_bash
@pytest.mark.slow(every=5)
@pytest.mark.parametrize("document", ["accelerator", "extended"])  # two files away, and one
def test_a_plan_follows_the_documents_that_it_names(loop: Loop, document: str) -> None:
    """The plan itself is not touched; what it names, or that names in turn, is."""
    loop.write("shared/own.yaml", MODEL)
    loop.write("shared/gpu.yaml", "extends: h100-sxm-80gb\nname: own GPU\n")
    loop.write("shared/racks.yaml", "accelerator: gpu.yaml\ndevices: 8\n")
    own = "cluster: {accelerator: h100-sxm-80gb, devices: 8}"
    base = SMALL.format(tokens="1B", model="../shared/own.yaml")
    base = base.replace(own, "cluster: ../shared/racks.yaml")
    loop.write("base/base.yaml", base)
    loop.write("plans/run.yaml", "extends: ../base/base.yaml\nname: run\n")
    loop.plan("plans/other.yaml")
    loop.branch()
    name, text = {
        "accelerator": ("shared/gpu.yaml", "extends: h200-sxm-141gb\nname: own GPU\n"),
        "extended": ("base/base.yaml", base.replace("1B", "3B")),
    }[document]
    loop.write(name, text)
    found = loop.request()
    assert found.codes == GREEN and not found.commands
    assert "3 plans: 2 changed, 1 as before." in found.summary
    run = found.summary.split("### `plans/run.yaml`")[1]
    assert f"documents that changed: {name}." in run and "CHANGED; it still FITS" in run


@needs_bash
@pytest.mark.slow
def test_what_a_plan_asks_and_requires_is_told(loop: Loop) -> None:
    """An answer moves, and what is required no longer holds, which is no green run."""
    asked = "questions: [largest-batch]\nrequire: [memory.headroom >= 60 GiB]\n"
    loop.plan("plans/small.yaml")
    loop.write("plans/asks.yaml", SMALL.format(tokens="1B", model="gpt2-small") + asked)
    loop.branch()
    loop.write("plans/asks.yaml", SMALL.format(tokens="1B", model="gpt2-small").replace(
        "global_batch: 64", "global_batch: 32") + asked.replace("60", "79"))  # fmt: skip
    found = loop.request()
    assert found.codes == {**GREEN, "Compare": 1}
    assert "memory.headroom &gt;= 79 GiB does not hold" in found.summary
    assert any("does not hold" in command for command in found.commands)
    assert "largest-batch" in found.summary and "2 plans: 1 changed, 1 as before" in found.summary


@needs_bash
@pytest.mark.slow
def test_a_document_that_is_gone_is_a_fault_of_the_plan_that_names_it(loop: Loop) -> None:
    loop.write("shared/own.yaml", MODEL)
    loop.plan("plans/run.yaml", model="../shared/own.yaml")
    loop.branch()
    (loop.folder / "shared/own.yaml").unlink()
    found = loop.request()
    assert found.codes == {**GREEN, "Compare": 2, "Validate": 2}
    assert "plans/run.yaml:2:8: no such file '../shared/own.yaml'" in found.summary
    assert any(c.startswith("::error file=plans/run.yaml,line=2,col=8,") for c in found.commands)


@needs_bash
@pytest.mark.slow
def test_a_fault_of_a_plan_stands_at_its_line_and_stops_no_other(loop: Loop) -> None:
    """A plan that no longer parses, one that lost a key, one with a fault that was there before."""
    for name in ("broken", "lost", "old", "good"):
        loop.plan(f"plans/{name}.yaml")
    loop.write("plans/old.yaml", SMALL.format(tokens="1B", model="gpt2-smal"))
    loop.branch()
    plan = SMALL.format(tokens="1B", model="gpt2-small")
    loop.write("plans/broken.yaml", plan + "time: [\n")
    loop.write("plans/lost.yaml", plan.replace("cluster:", "clusters:"))
    loop.plan("plans/good.yaml", "2B")
    found = loop.request()
    assert found.codes == {**GREEN, "Compare": 2, "Validate": 2}
    assert "4 plans: 1 changed, 2 not valid, 1 as before." in found.summary
    assert "THE PLAN CHANGED; it still FITS" in found.summary
    places = {re.sub(r",col.*", "", c) for c in found.commands if " file=" in c}
    assert "::error file=plans/old.yaml,line=2" in places
    assert "::error file=plans/broken.yaml,line=7" in places  # where the list should end
    # What is no plan any more is known from the base.
    assert any("plans/lost.yaml:3:1: unknown key 'clusters'" in c for c in found.commands)


@needs_bash
@pytest.mark.slow
def test_a_report_that_is_stale_stands_at_its_line(loop: Loop) -> None:
    """Reports are found wherever they are."""
    loop.plan("plans/small.yaml")
    (loop.folder / "docs").mkdir()
    loop.trainplan("plans/small.yaml", "-o", "docs/small.md")
    loop.branch()
    loop.plan("plans/small.yaml", "2B")
    found = loop.request()
    assert found.codes == {**GREEN, "Check": 1}
    (command,) = found.commands
    line = re.match(r"::error file=docs/small\.md,line=(\d+),title=[^:]*::numbers moved", command)
    assert line is not None
    text = (loop.folder / "docs/small.md").read_text("utf-8").splitlines()
    assert "trains in" in text[int(line[1]) - 1]
    assert "1 report, 1 drifted (1 in numbers)" in found.output


@needs_bash
@pytest.mark.slow
def test_a_preset_that_another_version_has_otherwise_is_the_programs_doing(loop: Loop) -> None:
    """Both sides are read by one program: nothing changed but the reports, which say who."""
    loop.plan("plans/small.yaml")
    loop.trainplan("plans/small.yaml", "-o", "small.json")
    report = loop.folder / "small.json"
    data = json.loads(report.read_text("utf-8"))
    data["inputs"]["cluster.accelerator.memory"]["value"] -= 10**9
    data["quantities"]["memory.capacity"]["value"] -= 10**9
    data["plan"]["fingerprint"] = "0" * len(data["plan"]["fingerprint"])
    report.write_text(json.dumps(data, indent=2), "utf-8")
    loop.branch()
    found = loop.request()
    assert found.codes == {**GREEN, "Check": 1}
    assert "1 plan: 1 as before." in found.summary
    (command,) = found.commands
    assert "presets changed (cluster.accelerator.memory)" in command


@needs_bash
@pytest.mark.slow
def test_nothing_changed_is_told_too(loop: Loop) -> None:
    loop.plan("plans/small.yaml")
    loop.write(".github/workflows/ci.yml", "on: push\njobs: {}\n")
    loop.branch()
    loop.write("notes.md", "x\n")
    found = loop.request()
    assert found.codes == GREEN and not found.commands
    assert found.summary.endswith("1 plan: 1 as before.\n")


@needs_bash
@pytest.mark.slow
@pytest.mark.parametrize("inputs", [{}, {"plans": "nowhere"}])
def test_where_no_plan_is_found_nothing_is_green(loop: Loop, inputs: dict[str, str]) -> None:
    loop.write("a.yaml", "a: 1\n")
    loop.branch()
    loop.write("b.yaml", "training: {x: 1}\n")
    found = loop.request(**inputs)
    assert found.codes == {**GREEN, "Compare": 2, "Validate": 2}
    where = inputs.get("plans", ".")
    assert len(found.commands) == 2
    assert f"::{where}: no plans found" in found.commands[0]
    second = rf"::{re.escape(where)}: (no plans found|unknown plan)"
    assert re.search(second, found.commands[1])


@needs_bash
@pytest.mark.slow
def test_what_others_did_to_the_base_meanwhile_is_not_the_pull_requests(loop: Loop) -> None:
    loop.plan("plans/mine.yaml")
    loop.plan("plans/theirs.yaml")
    loop.branch()
    loop.plan("plans/mine.yaml", "2B")
    loop.commit()
    loop.git("checkout", "--quiet", "main")
    loop.plan("plans/theirs.yaml", "9B")
    loop.commit()
    loop.git("checkout", "--quiet", "feature")
    found = loop.request()
    assert "2 plans: 1 changed, 1 as before." in found.summary and "`plans/mine" in found.summary


@needs_bash
@pytest.mark.slow
def test_a_hostile_name_is_a_name(loop: Loop) -> None:
    """Of files and of a branch: no markup, no option, no command of the shell or of GitHub."""
    for name in HOSTILE[:3]:
        loop.plan(f"plans/{name}")
    loop.plan("-p/-a.yaml")
    loop.branch("x`$(touch${IFS}pwned)`<img>")
    for name in HOSTILE:
        loop.plan(f"plans/{name}", "2B", "gpt2-smal" if name in HOSTILE[2:] else "gpt2-small")
    loop.plan("-p/-a.yaml", "2B")
    found = loop.request()
    assert found.codes == {**GREEN, "Compare": 2, "Validate": 2}
    assert all(c.startswith("::error ") for c in found.commands), found.commands
    # Five invalid plans, each told by the comparison and at its line.
    assert len(found.commands) == 10
    files = [c.split("file=")[1].split(",line")[0] for c in found.commands if "file=" in c]
    coded = ((":", "%3A"), (",", "%2C"), ("\n", "%0A"), ("\r", "%0D"))
    wanted = []
    for name in HOSTILE[2:]:
        name = f"plans/{name}".replace("%", "%25")
        for plain, code in coded:
            name = name.replace(plain, code)
        wanted.append(name)
    assert sorted(files) == sorted(wanted)
    outside = re.sub(r"```text.*?```|``.*?``|`[^`\n]*`", "", found.summary, flags=re.DOTALL)
    assert "<img" not in outside and not list(loop.folder.rglob("pwned"))
    assert "8 plans: 3 changed, 5 not valid." in found.summary


@needs_bash
@pytest.mark.slow
def test_a_comment_mentions_nobody(loop: Loop) -> None:
    """Neither a person nor an issue, by a name of a document, of a plan or of a branch."""
    for name in ("a", "b"):
        loop.write(f"plans/@octocat/fixes #7 www.x.org {name}.yaml", MODEL)
        model = json.dumps(f"plans/@octocat/fixes #7 www.x.org {name}.yaml")
        loop.plan(f"{name}.yaml", model=model.replace("plans/", "./plans/"))
    loop.branch("@octocat#7")
    for name in ("a", "b"):
        loop.write(f"plans/@octocat/fixes #7 www.x.org {name}.yaml", f"{MODEL}layers: 6\n")
    loop.plan("b.yaml", "'@octocat #7 https://example.org'")
    loop.write("c.yaml", SMALL.format(tokens="1B", model="gpt2-small").replace(
        "name: small", 'name: "@octocat\\n# GH-7 https://example.org"'))  # fmt: skip
    found = loop.request()
    assert "octocat" in found.summary
    outside = re.sub(r"```text.*?```|``.*?``|`[^`\n]*`", "", found.summary, flags=re.DOTALL)
    assert "octocat" in outside and "www" in outside
    assert not re.findall(r"@\w|#\d|GH-\d|://|www\.", outside), outside


BACKEND = """\
import pathlib, zipfile
def build_wheel(folder, settings=None, metadata=None):
    name = "stand_in-1-py3-none-any.whl"
    files = {
        "stand_in.py": "def run():\\n import sys; print(sys.flags.isolated); import other",
        "stand_in-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: stand-in\\nVersion: 1",
        "stand_in-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nTag: py3-none-any",
        "stand_in-1.dist-info/entry_points.txt": "[console_scripts]\\ntrainplan = stand_in:run",
        "stand_in-1.dist-info/RECORD": "",
    }
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as wheel:
        for file, text in files.items():
            wheel.writestr(file, text)
    return name
"""
SYSTEM = """\
[build-system]
requires = ["stand-in"]
build-backend = "backend"
backend-path = ["."]
"""


@needs_bash
@pytest.mark.slow(every=5)
@pytest.mark.parametrize("is_absolute", [False, True])
def test_python_imports_nothing_from_the_checkout(
    runner: Runner, tmp_path: Path, is_absolute: bool
) -> None:
    """Neither while it installs, nor in what pip begins for what a build requires, nor as the
    command of later steps, whatever PYTHONPATH names."""
    mark = tmp_path / "executed"
    for name in ("venv", "pip", "sitecustomize", "usercustomize", "other", "ensurepip", "zipfile"):
        (runner.folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write('{name} ')")
    for name in ("stand", "temp"):
        (tmp_path / name).mkdir()
    (tmp_path / "stand" / "pyproject.toml").write_text(SYSTEM)
    (tmp_path / "stand" / "backend.py").write_text(BACKEND)
    backend: dict[str, Any] = {}
    exec(BACKEND, backend)
    backend["build_wheel"](tmp_path)  # which is what the build requires, too
    given = {
        "PYTHON": sys.executable,
        "PYTHONPATH": str(runner.folder) if is_absolute else ".",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_PATH": str(tmp_path / "path"),
        "GITHUB_ACTION_PATH": str(tmp_path / "stand"),
    }
    done = runner.run("install.sh", tmp_path, **given)
    assert done.returncode == 0, done.stderr
    program = Path((tmp_path / "path").read_text().strip()) / "trainplan"
    environment = {**os.environ, **given}
    done = subprocess.run([program], cwd=runner.folder, env=environment, capture_output=True,
                          encoding="utf-8", check=False)  # fmt: skip
    assert done.stdout == "1\n" and "No module named 'other'" in done.stderr
    assert not mark.exists(), mark.read_text()
    # Without the option it would.
    subprocess.run([sys.executable, "-m", "venv"], cwd=runner.folder, env=environment, check=True)
    assert "venv" in mark.read_text()


@needs_bash
def test_nothing_that_a_repository_configures_runs(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from planner.review import revisions

    mark = tmp_path / "executed"
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {mark}\n")
    evil.chmod(0o755)
    (runner.folder / ".gitattributes").write_text("* diff=x filter=x merge=x\n")
    (runner.folder / "a.yaml").write_text("a: 1\n")
    runner.commit()
    (runner.folder / ".gitattributes").write_text("* diff=x filter=x merge=x\n#\n")
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "core.gitProxy", "core.askPass",
                "diff.external", "diff.x.textconv", "diff.x.command", "filter.x.smudge",
                "filter.x.clean", "credential.helper", "core.alternateRefsCommand"):  # fmt: skip
        runner.git("config", key, str(evil))
    # An object that is missing would be fetched.
    for key, value in (("url", "ssh://x/y"), ("promisor", "true"), ("uploadpack", str(evil))):
        runner.git("config", f"remote.origin.{key}", value)
    runner.git("config", "extensions.partialClone", "origin")
    monkeypatch.chdir(runner.folder)
    (tmp_path / "copy").mkdir()
    revisions.copy_tree("HEAD", tmp_path / "copy")
    assert (tmp_path / "copy" / "a.yaml").read_text() == "a: 1\n" and not mark.exists()
    blob = runner.git("rev-parse", "HEAD:a.yaml")
    (runner.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (tmp_path / "another").mkdir()
    with pytest.raises(PlanError, match=r"a\.yaml is not in this clone"):
        revisions.copy_tree("HEAD", tmp_path / "another")
    assert not mark.exists()
    for words in (["status"], ["cat-file", "-p", blob]):  # of which each would run a program
        subprocess.run(["git", *words], capture_output=True, check=False)
        assert mark.exists()
        mark.unlink()


@needs_bash
@pytest.mark.slow
def test_a_shallow_checkout_fetches_the_base_or_says_so_in_one_line(loop: Loop) -> None:
    """With fetch-depth 1 the base is fetched; where that is refused, one line says what to do."""
    loop.plan("plans/small.yaml")
    loop.branch()
    loop.plan("plans/small.yaml", "2B")
    assert loop.request().codes == GREEN
    shallow = loop.folder.parent / "shallow"
    loop.git("config", "uploadpack.allowAnySHA1InWant", "true")
    loop.git("clone", "--quiet", "--depth=1", loop.folder.as_uri(), str(shallow))
    found = loop.steps(shallow)
    assert found.codes == GREEN and "1 plan: 1 changed." in found.summary
    shutil.rmtree(shallow)
    loop.git("clone", "--quiet", "--depth=1", loop.folder.as_uri(), str(shallow))
    subprocess.run(["git", "remote", "remove", "origin"], cwd=shallow, check=True)
    found = loop.steps(shallow)
    assert found.codes == {**GREEN, "Compare": 2}
    (command,) = found.commands
    assert command == (
        f"::error title=trainplan::the base commit {loop.base[:10]} is not in this checkout and "
        "cannot be fetched: check out with fetch-depth: 0"
    )
    assert "Not compared: the base commit" in found.summary
