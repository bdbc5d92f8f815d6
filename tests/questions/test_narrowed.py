"""Spaces of more layouts than are searched: what is said of an answer, when it speaks of all."""

from __future__ import annotations

import contextlib
import io
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from planner.cli import main as cli
from planner.plans.document import Plan
from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.search import bounded_search, engine, ranking
from planner.questions.search.bounded_search import BoundedSearch
from planner.questions.search.engine import REPLICAS, Walk, search
from planner.report import searched
from tests.conftest import read_data
from tests.layouts import yield_layouts

MEMORY, STEP = "memory.process", "time.step_seconds"


def document(model: str, devices: int, **training: Any) -> dict[str, Any]:
    return {
        "name": "large",
        "model": model,
        "cluster": {"accelerator": "a100-sxm-40gb", "devices": devices, "devices_per_node": 8},
        "training": {
            "tokens": "1B", "sequence_length": 2048, "global_batch": 4 * devices, **training,
        },
        "parallelism": {"zero": 0},
    }  # fmt: skip


def plan(model: str = "mixtral-8x7b", devices: int = 64, **training: Any) -> Plan:
    return loading.load(document(model, devices, **training))


@pytest.mark.slow
def test_a_space_above_the_limit_is_narrowed_and_says_so() -> None:
    """8,192 devices, whose layouts are more than are searched."""
    large = plan(devices=8192, global_batch=2**17)
    whole = Walk(large, (engine.FITS,))
    assert whole.size > engine.MOST
    found = search(large, 1, most=engine.MOST)
    assert 0 < found.size <= engine.MOST < found.every == whole.size
    assert found.best and found.narrowed[REPLICAS] == (1,)
    data = ranking.dump_search(found)
    assert (data["layouts"], data["searched"]) == (found.every, found.size)
    assert data["narrowed"] == {key: list(values) for key, values in found.narrowed.items()}
    for text in (searched.WRITERS[kind](found, False) for kind in ("text", "html", "md")):
        for key in found.narrowed:
            assert f"{key} 1" in text.replace(r"\_", "_")


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("most", [1, 10_000])
def test_nothing_fits_only_where_nothing_of_all_does(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is limited to what the layout needs that needs least, which is one of those that a
    narrowed search leaves out: two long sequences over 64 context-parallel ranks."""
    monkeypatch.setattr(bounded_search, "MOST", most)
    long = document("mixtral-8x7b", 64, global_batch=2, sequence_length=65_536)
    wide = loading.load({**long, "parallelism": {"context": 32}})
    every = search(wide, 1, MEMORY)
    least = every.best[0].values[MEMORY]
    assert search(wide, 1, MEMORY, most=1).best[0].values[MEMORY] > least
    for share, fits in ((1, True), (0.999, False)):
        limits = [Limit(MEMORY, "<=", least * share)]
        found = search(wide, 1, STEP, limits=limits, most=most)
        assert bool(found.best) is fits
        plainest = BoundedSearch(wide, STEP, limits).run_question(BoundedSearch.find_simplest)
        assert (plainest is not None) is fits
        roomiest = BoundedSearch(wide, STEP, limits).run_question(BoundedSearch.find_max_slack)
        assert (roomiest is not None) is fits
        if not fits:
            assert found.narrowed == {} and found.size == found.every == every.size
            assert "only those" not in searched.format_search(found)


@pytest.mark.slow
def test_a_narrowed_space_has_those_layouts_that_have_one_of_the_values() -> None:
    whole = Walk(plan(devices=16), ())
    every = [changes for rows in whole.yield_rows() for changes in yield_layouts(rows)]
    for key in (REPLICAS, "parallelism.tensor"):
        values = sorted({changes[key] for changes in every})
        assert len(values) > 1
        for kept in (values[:1], values[1::2]):
            small = whole.narrow_layouts({key: kept})
            found = [changes for rows in small.yield_rows() for changes in yield_layouts(rows)]
            assert found == [changes for changes in every if changes[key] in kept]
            assert small.size == len(found) < len(every) == whole.size


def test_what_is_exactly_full_lacks_nothing() -> None:
    full = SimpleNamespace(nearest=SimpleNamespace(values={engine.FITS: 0}, get={}.get))
    assert "with most room" in ranking.describe_closest(full)  # type: ignore[arg-type]


@pytest.mark.slow
def test_what_is_limited_besides_memory_leaves_replicas_open() -> None:
    wide = plan()
    found = search(wide, 1, limits=[Limit(STEP, "<=", 0)], most=1)
    assert not found.best and found.narrowed == {REPLICAS: (1,)}
    assert "parallelism.replicate 1" in searched.format_search(found)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("changes", read_data("questions")["replicas"])
@pytest.mark.parametrize("model", ["llama2-7b", "mixtral-8x7b", "deepseek-v2-lite"])
def test_replicas_need_no_less_memory(model: str, changes: dict[str, Any]) -> None:
    """On which it rests that where nothing without replicas fits, nothing does."""
    loaded = loading.load(document(model, 16), {"training.global_batch": 32, **changes})
    compared = 0
    for chunk in Walk(loaded, (MEMORY,), {REPLICAS: (1, 2, 4, 8)}, full=True):
        replicas = chunk.of_replicate
        others = [column for column in chunk.columns if column is not replicas]
        order = np.lexsort((replicas, *others))
        keys = np.stack(others)[:, order]
        memory, valid = chunk.values[MEMORY][:, :, order], chunk.valid[:, :, order]
        pairs = (keys[:, 1:] == keys[:, :-1]).all(axis=0) & valid[:, :, 1:] & valid[:, :, :-1]
        more = memory[:, :, 1:] - memory[:, :, :-1]
        assert (more[pairs] >= 0).all()
        compared += int(pairs.sum())
    assert compared > 1000


def run(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        status = cli.main(list(words))
    return status, out.getvalue()


@pytest.mark.slow
def test_answers_and_open_layouts_say_what_was_left_out(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded_search, "MOST", 5000)
    monkeypatch.setattr("planner.questions.search.automatic.MOST", 5000)
    path = tmp_path / "plan.yaml"
    path.write_text(yaml.safe_dump(document("mixtral-8x7b", 64)), "utf-8")
    asked = ("solve", str(path), "longest-context", "--with-layout", "auto")
    status, text = run(*asked)
    assert status == 0 and "parallelism.replicate 1" in text
    narrowed = json.loads(run(*asked, "--format", "json")[1])["narrowed"]
    assert narrowed[REPLICAS] == [1]
    resolved = run(str(path), "--set", "parallelism=auto", "--print", "resolved")[1]
    assert "parallelism.replicate 1" in resolved
    monkeypatch.setattr(bounded_search, "MOST", engine.MOST)
    assert json.loads(run(*asked, "--format", "json")[1])["narrowed"] == {}
