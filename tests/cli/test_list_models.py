"""What `list models` prints of each shipped model is what the model is."""

from __future__ import annotations

import json
import time

import pytest

from benchmarks import model_sizes
from planner.cli.main import main
from planner.documents.references import preset_names

SIZES = json.loads(model_sizes.FILE.read_text(encoding="utf-8"))


def test_every_shipped_model_is_listed_with_its_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*SIZES] == preset_names("model")
    before = time.process_time()
    assert main(["list", "models"]) == 0
    assert time.process_time() - before < 0.5
    rows = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert [*SIZES] == [*rows][1:]
    for name, words in {
        "mixtral-8x7b": ("46.7B", "12.9B", "mixtral", "32,768"),  # arXiv 2401.04088
        "llama3.1-405b": ("406B", "llama", "131,072"),
        "qwen3-30b-a3b": ("30.5B", "3.3", "qwen"),
    }.items():
        assert all(word in rows[name] for word in words), rows[name]


@pytest.mark.parametrize("name", ["mixtral-8x7b", "llama3-8b", "bert-base"])
def test_sizes_are_those_of_the_model(name: str) -> None:
    assert SIZES[name] == model_sizes.count(name)


@pytest.mark.slow
def test_sizes_of_all_models_are_current() -> None:
    assert model_sizes.text() == model_sizes.FILE.read_text(encoding="utf-8")
