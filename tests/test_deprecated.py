"""A renamed key, from its last minor version to the fault that names its successor.

The worked example: suppose that `training.batch` became `training.global_batch` in 0.1, and
`attention.groups` of a model became `attention.kv_heads`.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from planner import deprecated, schema
from planner.cli import main
from planner.deprecated import DeprecatedKey, Renamed
from planner.errors import PlanError
from planner.plan import load
from planner.version import __version__

MINOR = ".".join(__version__.split(".")[:2])
NOW = f"{MINOR}.0"
NEXT = f"{__version__.split('.')[0]}.{int(__version__.split('.')[1]) + 1}"
ROWS = (
    Renamed("plan", "training.batch", "training.global_batch", NOW),
    Renamed("model", "attention.groups", "attention.kv_heads", NOW),
)
OLD = """\
model:
  extends: gpt2-small
  attention: {groups: 4}
cluster: hgx-h100
training: {tokens: 1B, sequence_length: 1024, batch: 64}
"""
NEW = OLD.replace("groups", "kv_heads").replace("batch:", "global_batch:")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecated, "RENAMED", ROWS)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "plan.yaml"
    path.write_text(OLD)
    return path


@pytest.mark.usefixtures("table")
def test_an_old_key_works_and_warns_at_its_place(
    plan: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(plan), "--format", "json"]) == 0
    old = capsys.readouterr()
    assert old.err.splitlines() == [
        f"plan.yaml:5:47: the key training.batch is deprecated and goes in {NEXT} "
        f"(its name is training.global_batch since {NOW})",
        f"plan.yaml:3:15: the key model.attention.groups is deprecated and goes in {NEXT} "
        f"(its name is model.attention.kv_heads since {NOW})",
    ]
    plan.write_text(NEW)
    assert main(["report", str(plan), "--format", "json"]) == 0
    new = capsys.readouterr()
    assert new.err == ""
    assert new.out == old.out


@pytest.mark.usefixtures("table")
def test_an_override_by_the_old_name_works_and_warns(plan: Path) -> None:
    plan.write_text(NEW)
    with pytest.warns(DeprecatedKey, match=r"^--set training\.batch=128: the key training\.batch"):
        assert load(plan, ["training.batch=128"]).get("training.global_batch") == 128


@pytest.mark.usefixtures("table")
def test_an_old_key_changes_what_is_extended(plan: Path, tmp_path: Path) -> None:
    """The parent has the new name; the child's old name means the same key."""
    parent = tmp_path / "parent.yaml"
    parent.write_text(NEW)
    plan.write_text("extends: ./parent.yaml\ntraining: {batch: 256}\n")
    with pytest.warns(DeprecatedKey):
        assert load(plan).get("training.global_batch") == 256


@pytest.mark.usefixtures("table")
def test_both_names_at_once_are_a_fault(plan: Path) -> None:
    plan.write_text(OLD.replace("batch: 64", "batch: 64, global_batch: 64"))
    with pytest.raises(PlanError) as caught:
        load(plan)
    assert str(caught.value) == (
        "plan.yaml:5:47: training.batch and training.global_batch are two names of one key "
        "(training.global_batch only)"
    )


def test_one_minor_version_later_the_fault_names_the_new_key(
    plan: Path, table: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deprecated, "__version__", f"{NEXT}.0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PlanError) as caught:
            load(plan)
    assert [str(fault) for fault in caught.value.faults] == [
        "plan.yaml:3:15: unknown key 'groups' in model.attention "
        "(did you mean 'model.attention.kv_heads'?)",
        "plan.yaml:5:47: unknown key 'batch' in training (did you mean 'training.global_batch'?)",
    ]


def test_every_row_leads_from_no_key_to_a_key() -> None:
    for row in deprecated.RENAMED:
        schema.describe(row.kind, row.new)
        with pytest.raises(KeyError):
            schema.describe(row.kind, row.old)


def test_a_patch_version_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Renamed("plan", "a", "b", "0.4.2")
    assert row.until == "0.5"
    for version, works in (("0.4.0", True), ("0.4.9", True), ("0.5.0", False), ("1.0.0", False)):
        monkeypatch.setattr(deprecated, "__version__", version)
        assert row.works is works
