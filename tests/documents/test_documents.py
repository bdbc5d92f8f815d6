"""Whole documents through the command line: valid ones pass, each invalid one gives its message.

tests/documents/invalid/NAME.yaml has one fault; tests/documents/invalid.txt holds the line that it
must give. `pytest --update-golden` writes that file anew: read the difference before committing.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

from planner.base import resources
from planner.base.errors import nearest
from planner.cli import main as cli
from planner.documents.references import FOLDERS, preset_names
from planner.questions import loading
from tests.conftest import read_data

DOCUMENTS = Path(__file__).parents[1] / "documents"
EXPECTED = DOCUMENTS / "invalid.txt"
INVALID = sorted((DOCUMENTS / "invalid").glob("*.yaml"))


def complaint(path: Path) -> str:
    """What `plan.py validate` says of a document, with the list of presets left out."""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        status = cli.main(["validate", str(path)])
    assert status == cli.BAD_INPUT, f"{path.name} is accepted"
    text = errors.getvalue().replace(f"{os.path.relpath(path.parent)}/", "")
    text = text.replace(f"{path.parent}/", "")
    return re.sub(r"a path or (one of|a name)[^;)]*", "a path or one of …", text).rstrip("\n")


def expected() -> dict[str, str]:
    found: dict[str, str] = {}
    for block in EXPECTED.read_text("utf-8").strip().split("\n\n") if EXPECTED.exists() else ():
        name, _, message = block.partition("\n")
        found[name] = message
    return found


@pytest.fixture(scope="session")
def messages(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.config.getoption("--update-golden"):
        blocks = (f"{path.name}\n{complaint(path)}" for path in INVALID)
        EXPECTED.write_text("\n\n".join(blocks) + "\n", "utf-8")
    return expected()


@pytest.mark.parametrize("path", INVALID, ids=lambda path: path.stem)
def test_an_invalid_document_gives_its_message(path: Path, messages: dict[str, str]) -> None:
    assert complaint(path) == messages[path.name]


def test_every_message_names_a_place_and_there_are_enough(messages: dict[str, str]) -> None:
    assert len(INVALID) >= 40
    assert set(messages) == {path.name for path in INVALID}
    for name, message in messages.items():
        for line in message.splitlines():
            assert re.match(r"[^:]+\.yaml:\d+:\d+: .", line), f"{name}: {line}"


@pytest.mark.parametrize(
    "path", sorted((DOCUMENTS / "valid").glob("*.yaml")), ids=lambda path: path.stem
)
def test_a_valid_document_is_accepted(path: Path) -> None:
    assert cli.main(["validate", str(path)]) == cli.OK


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("kind", [kind for kind in FOLDERS if kind != "plan"])
def test_a_shipped_document_is_known_for_what_its_folder_holds(kind: str) -> None:
    """Also where all that it says beside what it extends is a link and shares (a800-sxm-80gb)."""
    folder = resources.folder("presets") / FOLDERS[kind]
    found = {loading.check_file(folder / f"{name}.yaml") for name in preset_names(kind)}
    assert found == {kind}


@pytest.mark.parametrize(("text", "kind"), read_data("documents")["kinds_by_keys"])
def test_a_short_document_is_known_by_what_it_changes(text: str, kind: str, tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text(text)
    assert loading.check_file(file) == kind


@pytest.mark.slow
def test_a_plan_of_the_name_of_its_model_is_no_model(tmp_path: Path) -> None:
    """Plans lie in one folder, some named after the model that they train: a plan that names this
    model means the shipped one; a model of that name would come first."""
    text = "model: llama3-8b\ncluster: hgx-h100\ntraining: {tokens: 1T, global_batch: 64}\n"
    for name in ("llama3-8b", "another"):
        (tmp_path / f"{name}.yaml").write_text(text, "utf-8")
    for name in ("llama3-8b", "another"):
        assert loading.load(tmp_path / f"{name}.yaml").get("model.layers") == 32
    (tmp_path / "llama3-8b.yaml").write_text("extends: llama3-8b\nlayers: 30\n", "utf-8")
    assert loading.load(tmp_path / "another.yaml").get("model.layers") == 30


@pytest.mark.parametrize(
    ("written", "meant"),
    [("b200", "b200-sxm-192gb"), ("gb20", "gb200"), ("B300", "b300-sxm-288gb"),
     ("mi300", "mi300x"), ("h10", None)],
)  # fmt: skip
def test_the_nearest_name_is_one_that_begins_as_it_was_written(
    written: str, meant: str | None
) -> None:
    names = preset_names("accelerator")
    found = nearest(written, names)
    assert found == meant if meant else found is not None and found.startswith("h10")
