"""Every fault of a document is told at once, and none that only follows from another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import planner
from planner.base import resources
from planner.base.errors import PlanError
from planner.documents.source import change_keys
from tests.conftest import ROOT, read_data

FAULTY = read_data("plans")["faulty"]


def told(tmp_path: Path, text: str) -> list[str]:
    file = tmp_path / "plan.yaml"
    file.write_text(text)
    with pytest.raises(PlanError) as caught:
        planner.load(file)
    return [str(fault).rpartition("plan.yaml:")[2] for fault in caught.value.faults]


def places(lines: list[str]) -> list[str]:
    return [line.partition(": ")[0] for line in lines]


def test_names_keys_values_and_what_contradicts_are_told_together(tmp_path: Path) -> None:
    lines = told(tmp_path, FAULTY)
    assert places(lines) == ["1:8", "3:16", "4:12", "5:3", "8:3", "9:14", "10:26"]
    assert sum("did you mean" in line for line in lines) == 5
    assert "1001 devices are not a multiple" in lines[2]


def test_what_rests_on_a_faulty_value_is_not_judged(tmp_path: Path) -> None:
    """Whether devices divide is not known where a degree is not."""
    for key in ("pp", "pipelin", "unheard_of"):
        lines = told(tmp_path, FAULTY.replace("pipeline", key))
        assert not any("multiple" in line for line in lines)
    lines = told(tmp_path, FAULTY.replace("devices: 1001", "devices: many"))
    assert not any("multiple" in line for line in lines)


def test_a_wrong_model_does_not_hide_a_wrong_layout(tmp_path: Path) -> None:
    text = (
        "model: {extends: llama2-7b, attention: {heads: 33}}\n"
        "cluster: 10 x h100\ntraining: {tokens: 1T}\nparallelism: {tensor: 3}\n"
    )
    assert places(told(tmp_path, text)) == ["1:48", "2:10"]


def scalars(data: dict[str, Any], around: str = "") -> Iterator[str]:
    for key, value in data.items():
        if isinstance(value, dict):
            yield from scalars(value, f"{around}{key}.")
        else:
            yield f"{around}{key}"


PLANS = {path.stem: resources.read_yaml(path) for path in (ROOT / "presets").glob("*.yaml")}


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for name, data in sorted(PLANS.items()) for key in scalars(data)],
)
def test_one_fault_in_a_plan_that_ships_gives_no_other(name: str, key: str, tmp_path: Path) -> None:
    """Whichever value is spoilt, and whichever key is misspelt."""
    around, _, last = key.rpartition(".")
    prefix = f"{around}." if around else ""
    value: Any = PLANS[name]
    for step in key.split("."):
        value = value[step]
    spoilt = (
        change_keys(PLANS[name], {key: {"no": "such value"}}),
        change_keys(PLANS[name], {key: None, f"{prefix}{last}q": value}),
        change_keys(PLANS[name], {key: None, f"{prefix}zzz": value}),
    )
    for data in spoilt:
        for line in told(tmp_path, yaml.safe_dump(data, sort_keys=False)):
            words = ("unknown", " is ", "has no key", "is not a quantity", "not allowed")
            assert any(word in line for word in words), line
            for word in ("divi", "multiple of", "contradicts", "cannot fill"):
                assert word not in line
