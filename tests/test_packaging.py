"""The installed wheel, run from another directory, is the program of the checkout."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DATA = ("presets", "schemas", "templates")
PLAN = "presets/llama70b_h100x1024.yaml"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("hatchling") is None or importlib.util.find_spec("pip") is None,
        reason="the wheel is built with pip and hatchling (extra: test)",
    ),
    pytest.mark.skipif(not (ROOT / "planner" / "cli").is_dir(), reason="planner/cli is missing"),
]


@dataclass(frozen=True)
class Installed:
    wheel: Path
    site: Path  # what site-packages would be
    elsewhere: Path  # an empty directory, far from the checkout

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            command,
            cwd=self.elsewhere,
            env=environment | {"PYTHONPATH": str(self.site)},
            capture_output=True,
            encoding="utf-8",
            timeout=120,
            check=False,
        )

    def trainplan(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self.run(str(self.site / "bin" / "trainplan"), *arguments)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    base = tmp_path_factory.mktemp("wheel")
    elsewhere = base / "elsewhere"
    elsewhere.mkdir()

    def pip(*arguments: str) -> None:
        command = [sys.executable, "-m", "pip", "--quiet", *arguments]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr

    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(base), str(ROOT))
    (wheel,) = base.glob("trainplan-*.whl")
    site = base / "site"
    pip("install", "--no-deps", "--no-index", "--target", str(site), str(wheel))
    return Installed(wheel, site, elsewhere)


def test_the_wheel_holds_every_data_file_and_nothing_of_the_tests(installed: Installed) -> None:
    with zipfile.ZipFile(installed.wheel) as archive:
        held = set(archive.namelist())
    expected = {
        f"planner/_data/{path.relative_to(ROOT).as_posix()}"
        for folder in DATA
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {name.split("/")[2] for name in expected} == set(DATA)
    assert expected <= held
    assert {"planner/py.typed", "planner/book/canonical_forms.txt"} <= held
    tops = {name.split("/")[0] for name in held}
    assert {top for top in tops if not top.endswith(".dist-info")} == {
        "planner",
        "trainplan.py",
    }
    same = "import planner, trainplan; raise SystemExit(trainplan is not planner)"
    assert installed.run(sys.executable, "-c", same).returncode == 0


def test_the_wheel_finds_its_own_data(installed: Installed) -> None:
    code = (
        "from planner.base.resources import folder\n"
        f"print(*(folder(name) for name in {DATA}), sep='\\n')"
    )
    done = installed.run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    assert [Path(line) for line in done.stdout.splitlines()] == [
        installed.site / "planner" / "_data" / name for name in DATA
    ]


def test_help_and_list(installed: Installed) -> None:
    usage = installed.trainplan("--help")
    assert (usage.returncode, usage.stderr) == (0, "")
    models = installed.trainplan("list", "models")
    assert models.returncode == 0, models.stderr
    assert "llama2-70b" in models.stdout


def test_a_plan_reports_the_same_bytes_as_the_checkout(installed: Installed) -> None:
    # Its own document, so that the names in it must be found among the packaged presets.
    (installed.elsewhere / "my.yaml").write_bytes((ROOT / PLAN).read_bytes())
    outputs = ("r.md", "r.html", "r.json")
    arguments = ["my.yaml", *(word for name in outputs for word in ("-o", name))]

    done = installed.trainplan(*arguments)
    assert done.returncode == 0, done.stderr
    packaged = {name: (installed.elsewhere / name).read_bytes() for name in outputs}
    done = installed.run(sys.executable, str(ROOT / "plan.py"), *arguments)
    assert done.returncode == 0, done.stderr
    for name in outputs:
        assert packaged[name] == (installed.elsewhere / name).read_bytes(), name


def test_a_wrong_plan_is_refused_by_the_packaged_schema(installed: Installed) -> None:
    text = (ROOT / PLAN).read_text(encoding="utf-8").replace("\nmodel:", "\nmodell:")
    (installed.elsewhere / "wrong.yaml").write_text(text, encoding="utf-8")
    done = installed.trainplan("validate", "wrong.yaml")
    assert done.returncode == 2
    assert "wrong.yaml:" in done.stderr
    assert "modell" in done.stderr
