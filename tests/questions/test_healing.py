"""A change of one key gives the nearest valid plan: what no longer holds follows, with a reason."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("starlette")
from planner.base.errors import PlanError
from planner.documents import references, yaml_nodes
from planner.questions import loading
from planner.serve import page
from planner.serve.controls import shown_in
from tests.conftest import KINDS_OF_MODEL, RunCli, leave_to_night, read_data

MODELS = references.preset_names("model")
LENGTH = "training.sequence_length"
#: Other controls, and values that few layouts go with.
OTHERS = read_data("questions")["healing"]


def changed(text: str, key: str, word: str) -> tuple[str, list[dict[str, Any]]]:
    """The text after a change of a control, which is a valid plan with the key as it was set."""
    said = page.call_page("change", {"text": text, "set": {key: word}})
    assert "faults" not in said, (key, word, said["faults"])
    plan = page.load_from_text(said["text"])
    root = yaml_nodes.parse_yaml(said["text"], "plan.yaml")
    assert shown_in(root, plan, [key])[key].value == word
    for one in said["followed"]:
        assert one["why"] and one["undo"][key] == word
        # What follows is needed: as it was before, the plan does not hold.
        with pytest.raises(PlanError):
            page.load_from_text(page.write_keys(said["text"], one["undo"]))
    return said["text"], said["followed"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("name", leave_to_night(MODELS, KINDS_OF_MODEL))
def test_every_model_can_be_picked_and_then_another_control_moved(name: str) -> None:
    text, _ = changed(page.read_preset(page.FIRST), "model", name)
    chance = random.Random(name)
    for key in chance.sample(sorted(OTHERS), 2):
        changed(text, key, chance.choice(OTHERS[key]))


def test_few_keys_follow_and_say_why() -> None:
    _, followed = changed(page.read_preset(page.FIRST), "model", "llama3-8b")
    assert [(one["changed"], one["why"]) for one in followed] == [
        ("10 → 8", "32 layers cannot fill 40 pipeline stages")
    ]
    assert changed(page.read_preset(page.FIRST), "parallelism.zero", "2")[1] == []


def test_what_follows_can_be_put_back() -> None:
    text, followed = changed(page.read_preset(page.FIRST), "cluster.devices", "768")
    (undo,) = [one["undo"] for one in followed if "training.global_batch" in one["undo"]]
    said = page.call_page("change", {"text": text, "set": undo})
    plan = page.load_from_text(said["text"])
    assert plan.get("training.global_batch") == 1024 and plan.get("cluster.devices") == 768


@pytest.mark.slow
def test_a_search_does_not_ask_the_layout_that_the_plan_has(run_cli: RunCli) -> None:
    file, model = "llama70b_h100x1024", "model=gpt3-13b"
    done = run_cli("search", file, "--set", "model=llama3-8b", "--top", "1", "--fix",
                   "parallelism.tensor=4")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "own layout is not valid: 32 layers cannot fill 40" in " ".join(done.stdout.split())
    # What no layout mends is told as for any command.
    done = run_cli("search", file, "--set", model)
    assert done.returncode == 2 and "learned positions" in done.stderr
    with pytest.raises(PlanError, match="learned positions"):
        loading.load(file, [model], searched=True)


@pytest.mark.slow
def test_what_one_model_brought_follows_the_next() -> None:
    """A length that only followed a short model is put back for one that reads more; one that
    somebody set stays."""
    first = page.read_preset(page.FIRST)
    short = page.call_page("change", {"text": first, "set": {"model": "gpt2-small"}})
    assert page.load_from_text(short["text"]).get(LENGTH) == 1024
    assert short["brought"][LENGTH] == "4096"
    body = {"text": short["text"], "set": {"model": "llama3-8b"}, "brought": short["brought"]}
    long = page.call_page("change", body)
    assert page.load_from_text(long["text"]).get(LENGTH) == 4096
    (chip,) = [one for one in long["followed"] if one["key"] == LENGTH]
    assert chip["changed"] == "1024 → 4096"
    assert chip["undo"] == {"model": "llama3-8b", LENGTH: "1024"}
    assert LENGTH not in long["brought"]
    # Between both: nearest to what the plan said, which is remembered.
    middle = page.call_page("change", {**body, "set": {"model": "opt-125m"}})
    assert page.load_from_text(middle["text"]).get(LENGTH) == 2048
    assert middle["brought"][LENGTH] == "4096"
    # Without what followed, as where somebody set the length, it stays.
    kept = page.call_page("change", {"text": short["text"], "set": {"model": "llama3-8b"}})
    assert page.load_from_text(kept["text"]).get(LENGTH) == 1024
