"""Options of frameworks: each is read, harmless, named or refused; none is lost in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.base.errors import Place, PlanError
from planner.connect.exports import TABLED, load_framework
from planner.connect.exports.rules import list_written
from planner.connect.imports import (
    find_source,
    import_file,
    launch,
    option_table,
    trainers,
)
from planner.connect.imports.option_table import load_options
from planner.questions import loading
from planner.results.result import evaluate_plan
from tests.conftest import ROOT, leave_to_night, read_data

FOLDER = Path(option_table.__file__).with_name("options")
TABLES = sorted({file.stem for file in FOLDER.iterdir()} - {*TABLED})


@pytest.mark.parametrize("name", TABLES)
def test_each_option_of_a_framework_is_in_a_list(name: str) -> None:
    table, written = load_options(name), set(list_written(load_framework(name).rows))
    lost = [one for one in table.defaults if one not in written and not table.classify(one)]
    assert not lost


@pytest.mark.parametrize(("name", "options"), read_data("trainer_options").items())
def test_each_option_of_a_trainer_is_in_a_list(name: str, options: str) -> None:
    known, table = load_framework(name), load_options(name)
    read = {*list_written(known.rows), *known.models, *(k for r in known.also for k in r["when"])}
    renamed = {trainers.rename_option(known, option) for option in options.split()}
    assert not {one for one in renamed - read if not table.classify(one)}


@pytest.mark.parametrize("row", read_data("shipped_files"), ids=lambda row: row["source"])
def test_a_file_that_a_framework_ships_is_read_right_or_refused_by_name(
    row: dict[str, Any],
) -> None:
    text = row["says"] if isinstance(row["says"], str) else json.dumps(row["says"])
    place = Place(row["source"])
    if "refused" in row:
        with pytest.raises(PlanError, match=row["refused"]):
            launch.read_launch(text, row["from"], place, row.get("function", ""))
        return
    read = launch.read_launch(text, row["from"], place, row.get("function", ""))
    assert ([line for line in read.said if "no key says" not in line] or [None]) == [
        row.get("named")
    ]
    plan = loading.load(read.document)
    if "same_as" in row:
        same = loading.load({**read.document, "model": row["same_as"]})
        counts = [evaluate_plan(one)["parameters.total"].value for one in (plan, same)]
        assert counts[0] == counts[1]
    for key, value in row.get("read", {}).items():
        assert plan.get(key) == value, key


#: Files of frameworks by repository and commit, without what they have of data and logs, and what
#: the framework itself resolves: OmegaConf, the builders of torchtune bd2a0fc and the GPT of LitGPT
#: 26857050 on the meta device, OLMo's of ai2-olmo 0.6, NeoXArgs, axolotl's and TRL 1.16's own
#: classes (a pair is two sequences), and for nanotron transformers' model of the same sizes;
#: Pythia's counts are those of its pages. A file that is refused has the option that is named.
PUBLISHED = [
    json.loads(line)
    for line in (ROOT / "tests/data/published_files.jsonl").read_text("utf-8").splitlines()
]


@pytest.mark.parametrize(
    "row", leave_to_night(PUBLISHED, PUBLISHED[::16]), ids=lambda row: row["source"]
)
def test_a_published_file_is_read_as_its_framework_resolves_it(
    row: dict[str, Any], tmp_path: Path
) -> None:
    says, name, path = row["says"], row["from"], tmp_path / "run.yaml"
    path.write_text(says if isinstance(says, str) else json.dumps(says), "utf-8")
    source = "" if name in TABLED else name  # recognised by what they have
    if "refused" in row:
        with pytest.raises(PlanError) as error:
            import_file(str(path), source, name == "nanotron", row.get("set", ()))
        assert row["refused"] in str(error.value)
        return
    read = import_file(str(path), source, name == "nanotron", row.get("set", ()))
    plan, wanted = loading.load(read.document), dict(row["read"])
    if "parameters" in wanted:
        assert evaluate_plan(plan)["parameters.total"].value == wanted.pop("parameters")
    assert {key: plan.get(key) for key in wanted} == wanted


@pytest.mark.slow
def test_a_framework_is_known_by_what_its_published_files_have(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    for row in PUBLISHED:
        says = row["says"]
        path.write_text(says if isinstance(says, str) else yaml.safe_dump(says), "utf-8")
        if row["from"]:
            assert find_source(str(path)) == row["from"], row["source"]


def test_an_option_that_no_list_has_is_named_with_the_nearest() -> None:
    read = launch.read_launch("base_emb_dims: 64\n", "maxtext", Place("run"))
    assert "base_emb_dims (did you mean base_emb_dim?)" in read.said[-1]


@pytest.mark.parametrize(("said", "about"), read_data("connect")["megatron_options"])
def test_what_an_option_of_megatron_says_changes_the_plan_or_is_named(
    said: str, about: Any
) -> None:
    text = f"{read_data('connect')['megatron_model']} {said}"
    if isinstance(about, dict):
        plan = loading.load(launch.read_launch(text, "megatron", Place("run")).document)
        assert {key: plan.get(key) for key in about} == about
    elif about.startswith("not modelled"):
        assert launch.read_launch(text, "megatron", Place("run")).said[-1] == about
    else:
        with pytest.raises(PlanError, match=about):
            launch.read_launch(text, "megatron", Place("run"))
