"""Keys of a YAML text change, and nothing else of it."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.base.errors import PlanError
from planner.documents.editing import change_values
from planner.documents.source import change_keys, lookup
from tests.conftest import ROOT, read_data

HOSTILE = (
    "# tab\there\n"
    "model:   &m  llama2-70b   # é 模型\n"
    "cluster: {accelerator: h100-sxm-80gb,devices: 8 ,\n"
    "          devices_per_node: 8}   # {tensor: 9}\n"
    "\n"
    "training: {  tokens: 1T  }\n"
    "parallelism:\n"
    "    tensor: 8      #\ta tab\n"
    '    "zero" : 1\n'
    "    # between\n"
    "notes: >\n"
    "  long\n"
    "  text: no key\n"
    "last: 'it''s: one'"
)
TEXTS = {
    "as it is": HOSTILE,
    "CRLF": HOSTILE.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + HOSTILE,
    "an end of line": HOSTILE + "\n",
    "comments behind": HOSTILE + "\n\n# the end\n...\n",
}
SHIPPED = sorted((ROOT / "presets").glob("*.yaml"))


def moved(old: str, new: str) -> tuple[list[str], list[str]]:
    """Lines, with their ends, that went and that came."""
    lines = list(difflib.ndiff(old.splitlines(True), new.splitlines(True)))
    return [one[2:] for one in lines if one[0] == "-"], [one[2:] for one in lines if one[0] == "+"]


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize(
    ("changes", "gone", "went", "came"),
    read_data("documents")["edits"],
)
def test_only_the_lines_of_the_keys_change(
    name: str, changes: dict[str, Any], gone: tuple[str, ...], went: str | None, came: str | None
) -> None:
    text = TEXTS[name]
    made = change_values(text, "x.yaml", changes, gone)
    old, new = moved(text, made)
    if (went, came) != (None, None):
        assert [line.rstrip("\r\n") for line in old] == ([went] if went else [])
        assert [line.rstrip("\r\n") for line in new] == (came.split("|") if came else [])
    else:
        assert len(old) == len(new) == 1
    ends = "\r\n" if name == "CRLF" else "\n"
    assert all(line.endswith(ends) or made.endswith(line) for line in new)
    assert ("\r" in made) == ("\r" in text)
    data, before = yaml.safe_load(made), yaml.safe_load(text)
    assert data == change_keys(before, {**changes, **dict.fromkeys(gone)})


def test_a_name_becomes_what_extends_it_and_a_comment_stays() -> None:
    text = "model: llama2-70b   # ours\ncluster: 64 x h100-sxm-80gb\nparallelism: auto  # x\n"
    changes = {"model.layers": 40, "cluster.price": "2 USD/h", "parallelism.tensor": 2}
    assert change_values(text, "x.yaml", changes) == (
        "model:   # ours\n  extends: llama2-70b\n  layers: 40\n"
        "cluster:\n  accelerator: h100-sxm-80gb\n  devices: 64\n  price: 2 USD/h\n"
        "parallelism:  # x\n  tensor: 2\n"
    )
    flow = "{model: llama2-70b, cluster: hgx-h100}"
    made = change_values(
        flow, "x.yaml", {"cluster.accelerator.power": "500 W", "training.tokens": "1T"}
    )
    assert made == (
        "{model: llama2-70b, cluster: {extends: hgx-h100, accelerator: {power: 500 W}}, "
        "training: {tokens: 1T}}"
    )


def test_an_alias_is_written_out_and_its_anchor_stays() -> None:
    text = "a: &p {tensor: 8, zero: 1}\nparallelism: *p  # as a\n"
    made = change_values(text, "x.yaml", {"parallelism.tensor": 4})
    assert made == "a: &p {tensor: 8, zero: 1}\nparallelism: {tensor: 4, zero: 1}  # as a\n"


def test_lists_blocks_and_the_last_entry() -> None:
    text = "p:\n  stages:\n    - a\n    - b\n\n  # c\nq: |\n  x\n  y\n\nr:\n  only: 1\n"
    assert change_values(text, "x.yaml", {"p.stages": ["c"]}).startswith(
        "p:\n  stages: [c]\n\n  # c\n"
    )
    assert change_values(text, "x.yaml", {}, ["p.stages"]).startswith("p: {}\n\n  # c\n")
    assert yaml.safe_load(change_values(text, "x.yaml", {}, ["r.only"]))["r"] == {}
    assert change_values(text, "x.yaml", {}, ["q"]) == text.replace("q: |\n  x\n  y\n", "")
    assert change_values("a: 1\nb:\n", "x.yaml", {"b": 2}) == "a: 1\nb: 2\n"
    with pytest.raises(PlanError, match=r"x.yaml:3:5: 'x' is in a list \(a mapping\)"):
        change_values(text, "x.yaml", {"p.stages.x": 1})


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
@given(
    st.dictionaries(
        st.sampled_from(
            ["parallelism.tensor", "parallelism.zero", "training.tokens", "training.micro_batch",
             "training.loss", "cluster.devices", "model.layers", "time.mfu", "name", "new.one"]
        ),
        st.one_of(st.integers(0, 10**15), st.text("aZé #:'\"\\{}[],&*!|>%@`-?\t", max_size=12)),
        max_size=4,
    )
)  # fmt: skip
def test_shipped_plans_keep_what_is_not_changed(path: Path, changes: dict[str, Any]) -> None:
    text = path.read_text("utf-8")
    before = yaml.safe_load(text)
    named = {key.split(".")[0] for key in changes} & {"model", "cluster"}
    made = change_values(text, path.name, changes)
    data = yaml.safe_load(made)
    for key, value in changes.items():
        assert lookup(data, key) == value
    for key, value in before.items():
        if isinstance(value, dict):
            kept = {k: v for k, v in value.items() if f"{key}.{k}" not in changes}
            assert kept.items() <= data[key].items()
        elif key not in changes and key not in named:
            assert data[key] == value
    comments = [line for line in text.splitlines() if line.lstrip().startswith("#")]
    assert [line for line in made.splitlines() if line.lstrip().startswith("#")] == comments
    old, _ = moved(text, made)
    assert len(old) <= len(changes)
    if not named and "new.one" not in changes:  # and back again
        old_values = {key: lookup(before, key) for key in changes}
        gone = [key for key, value in old_values.items() if value is None]
        kept = {key: value for key, value in old_values.items() if value is not None}
        undone = yaml.safe_load(change_values(made, path.name, kept, gone))
        assert {key: value for key, value in undone.items() if value != {}} == before
