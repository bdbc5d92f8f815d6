"""Plans from a line of text: what is said, where it stands, and what is not understood."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from itertools import cycle
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.api import Plan
from planner.base import units
from planner.base.errors import PlanError
from planner.documents import quick, references, schema, source
from planner.documents.quick import models, runs, splits, terms
from planner.documents.source import lookup
from planner.documents.yaml_nodes import Node
from tests.conftest import read_data

WORDS = (
    *("llama3-8b", "gpt", "model", "70B", "on", "64", "3", "1,0", "h100", "x", "×", "nodes", "of"),
    *("2T", "tokens", "tp8", "pp", "zero", "8k", "batch", "full", "recompute"),
    *(",", "-", "=", "%", "$", "/h", "٣", "\x00", "é", "'"),
)

#: Lines as people type them, and what they must mean.
LINES = read_data("quick_lines")
SHORT = read_data("documents")["short_lines"]
#: Forms in which people write one thing, and what else their line says.
FORMS = read_data("quick_forms")


def leaves(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    for key, inner in node.iter_children():
        dotted = f"{path}.{key}" if path else str(key)
        if isinstance(inner.value, dict):
            yield from leaves(inner, dotted)
        elif dotted not in ("name", "parallelism", "parallelism.auto"):
            yield dotted, inner


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row["line"], marks=[pytest.mark.slow(every=2)] if place % 4 else [])
        for place, row in enumerate(LINES)
    ],
)
def test_lines_as_people_type_them(row: dict[str, Any]) -> None:
    if "ask" in row:
        with pytest.raises(PlanError) as caught:
            quick.parse_quick(row["line"])
        assert any(row["ask"] in str(fault) for fault in caught.value.faults)
        return
    document = quick.parse_quick(row["line"])
    stated: dict[str, Any] = {}
    assumed: dict[str, Any] = {}
    for key, node in leaves(document):
        (assumed if node.origin.text.startswith(quick.ASSUMED) else stated)[key] = node.plain()
    if "model.name" not in row.get("assumed", {}):
        assumed.pop("model.name", None)
    wanted = (
        {SHORT.get(k, k): v for k, v in row.get(of, {}).items()} for of in ("plan", "assumed")
    )
    assert [stated, assumed] == [*wanted]  # all of it, and nothing else
    schema.validate(source.load(document), "plan")
    told = "; ".join(quick.list_assumptions(document, lambda key: None, {}))
    assert all(key in told or key.partition(".")[0] in told for key in assumed)


@pytest.mark.slow(every=2)
@pytest.mark.parametrize(
    ("rest", "forms"),
    [pytest.param(row["rest"], one, id=one[0]) for row in FORMS for one in row["forms"]],
)
def test_forms_of_one_thing_read_alike_wherever_they_stand(
    rest: list[str], forms: list[str]
) -> None:
    def read(form: str, place: int) -> dict[str, Any]:
        parts = [*rest[: place % (len(rest) + 1)], form, *rest[place % (len(rest) + 1) :]]
        found = dict(leaves(quick.parse_quick((", ", "; ")[place % 2].join(parts))))
        values = {key: node.plain() for key, node in found.items() if key != "notes"}
        if "training.tokens" in values:
            values["training.tokens"] = units.parse(str(values["training.tokens"]), "tokens")
        return {key: v for key, v in values.items() if (key, v) != ("cluster.devices_per_node", 8)}

    first = read(forms[0], len(rest))
    for place, form in enumerate(forms[1:]):
        assert read(form, place) == first, form


def test_models_that_say_their_tokens_ship() -> None:
    key, rows = "training.tokens of ", terms.load_phrases()["assumptions"]
    said = {name.removeprefix(key): row for name, row in rows.items() if name.startswith(key)}
    assert len(said) > 80 and said.keys() <= {*references.preset_names("model")}
    assert all(units.parse(many, "tokens") > 1e11 and "(" in why for many, why in said.values())


def test_shapes_have_the_sizes_that_the_table_gives() -> None:
    for name in terms.load_phrases()["shapes"].split():
        result = planner.load(
            {"model": name, "cluster": "1 x h100", "training": {"sequence_length": 128}}
        ).evaluate()
        assert result["parameters.total"].value == models._load_sizes()[name][1]


@pytest.mark.parametrize(
    ("words", "total", "active"),
    [("8x3B moe", 18e9, 5.3e9), ("1.8T-A280B moe", 1.8e12, 280e9), ("671B-A37B", 671e9, 37e9)],
)
def test_experts_have_about_the_sizes_that_are_said(
    words: str, total: float, active: float
) -> None:
    """Of 8x3B the attention is shared, as of Mixtral 8x7B, which has 47B and not 56B."""
    document = quick.parse_quick(f"{words} on 1024 h100 seq 1024")
    result = planner.load({**document.plain(), "parallelism": {}}).evaluate()
    assert result["parameters.total"].value == pytest.approx(total, rel=0.1)
    assert result["parameters.active"].value == pytest.approx(active, rel=0.1)


@pytest.mark.parametrize(
    "size", [*("13M", "51M", "150M", "1B", "5B", "20B", "50B", "100B", "250B", "700B")]
)
def test_a_shape_with_other_layers_has_about_the_size_that_is_said(size: str) -> None:
    document = quick.parse_quick(f"{size} on 64 h100 seq 1024")
    result = planner.load({**document.plain(), "parallelism": {}}).evaluate()
    wanted = float(units.parse(size, "parameters"))
    assert result["parameters.total"].value == pytest.approx(wanted, rel=0.1)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("words", ["{} GB RAM", "{}GB host memory", "{} gb of ddr5", "{}G RAM"])
def test_memory_of_the_host_chooses_no_device(words: str) -> None:
    for name, amount in zip(references.preset_names("accelerator"), cycle((16, 40, 256, 600))):
        line = f"llama3-8b on 8 x {name}, "
        plain, also = map(quick.parse_quick, (line, line + words.format(amount)))
        host = {"node_memory": f"{amount} GiB"}
        assert lookup(also.plain(), "cluster") == lookup(plain.plain(), "cluster") | host


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("amount", [8, 16, 24, 32, 48, 64])
def test_what_stands_for_a_device_has_its_memory(amount: int) -> None:
    for name in terms.load_phrases()["absent"]:
        for line in (f"llama3-8b on a {name} {amount}GB", f"llama3-8b on 4 x {name} {amount}GB"):
            try:
                kind = lookup(quick.parse_quick(line).plain(), "cluster.accelerator")
            except PlanError as error:  # an amount that is none of such a card
                assert f"{amount} GB of what?" in str(error)
                continue
            like = kind if isinstance(kind, dict) else {"extends": kind}
            own = source.load(like, kind="accelerator").get("memory")
            assert units.parse(own, "bytes") >= 0.95 * amount * 10**9, line


def test_no_word_and_no_number_is_passed_over() -> None:
    """A number, or a word that turns the meaning of others, ends the answer."""
    for word in (
        "half",
        "no 8",
        "17",
        "3.35",
        "400 mbps",
        "12%",
        "$70",
        "-4",
    ):
        with pytest.raises(PlanError) as caught:
            quick.parse_quick(f"llama3-8b on 64 h100 {word} 2T tokens")
        assert any(word.strip("-$") in str(fault) for fault in caught.value.faults), word
    counted = "llama3-8b on 64 h100 two frobnicate 2T tokens"  # a number of what is not known
    assert quick.list_ignored(counted)[1] == ["two frobnicate"]


def test_a_date_is_a_deadline_in_days(monkeypatch: pytest.MonkeyPatch) -> None:
    class Day(date):
        @classmethod
        def today(cls) -> Day:
            return cls(2026, 11, 29)

    monkeypatch.setattr(splits, "date", Day)
    days = read_data("documents")["days_until"]
    for words, count in {**days, "until March 1st, 2028": 458, "by end of the year": 32}.items():
        splits.list_splits.cache_clear()
        document = quick.parse_quick(f"7B 1T tokens on 128 h100 {words}")
        assert document.plain()["require"] == [f"time.training_days <= {count} days"]
        assert words.split()[0] in str(quick.list_assumptions(document, lambda key: None, {}))


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("start", range(5))
def test_a_phrase_is_tried_wherever_it_matches(start: int) -> None:
    """What a line needs for a phrase to be compiled, it has wherever the phrase matches."""
    table = terms.load_phrases()
    says = [str(row["say"]) for row in table["phrases"]] + [*map(str, table["refused"])]
    for row in LINES[start::5]:
        line = row["line"]
        tried = {id(pattern) for pattern, *_ in splits._list_patterns(line)}
        marked = {kind: splits._mark_names(line, kind) for kind in splits.map_names()}
        for say in says:
            pattern, slots = splits._compile_phrase(say)
            text = next((marked[kind] for kind in slots if kind in marked), line)
            begins = (m.start() for m in re.finditer(r"\b\w", line))
            assert id(pattern) in tried or not any(pattern.match(text, at) for at in begins), say


def test_a_line_that_reads_as_two_plans_is_asked_about() -> None:
    with pytest.raises(PlanError, match="two things"):
        quick.parse_quick("largest model on 8 h100 batch 4M tokens 100B")  # a model of 100B?
    line = "llama3-8b 8 h100 seq 4096 batch 512 tokens 100B"  # a batch of 512 tokens is none
    assert plan(line)["training"] == {
        "sequence_length": 4096,
        "global_batch": 512,
        "tokens": "100B",
    }


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    "row", [row for row in LINES if "plan" in row][::5], ids=lambda row: row["line"]
)
def test_a_word_that_is_not_understood_never_changes_the_plan(row: dict[str, Any]) -> None:
    """A nonsense word is named, wherever it stands, or ends the answer: it is in the place of a
    name, or parts what belongs together; of that a word is named too, where the plan changes."""
    line, wanted = row["line"], plan(row["line"])
    left_out = 0
    for begin in [0, *(found.end() for found in re.finditer(r"\s+", line)), len(line)]:
        text = f"{line[:begin]} zorblax {line[begin:]}"
        try:
            document = quick.parse_quick(text)
        except PlanError:
            continue
        same = document.plain() | {"name": ""} == wanted | {"name": ""}
        if "zorblax" in (left := quick.list_ignored(text)[1]):
            assert same or len(left) > 1 + len(quick.list_ignored(line)[1])
            left_out += 1
        else:  # a name of a model, a value, or a kind of examples
            assert same or "zorblax" in str(document.plain()["model"]) + quick.write_quick(
                "", document
            )
    unnamed = "nobody names one" in quick.write_quick("", quick.parse_quick(line))
    assert left_out or unnamed or "compute-optimal" in str(wanted)  # a word may be the model


def test_a_misspelt_word_is_corrected_and_said() -> None:
    line = "lama 3 8b on 64 h100, 2 trilion tokns"
    assert plan(line) | {"name": ""} == plan("llama3-8b on 64 h100, 2T tokens") | {"name": ""}
    assert splits.correct_spelling(line)[1] == [
        "'lama' read as 'llama'",
        "'trilion' read as 'trillion'",
        "'tokns' read as 'tokens'",
    ]


def test_the_smallest_card_is_the_next_one_with_so_much_memory() -> None:
    """Datasheets have 12, 16 and 80 GB; 5 % are spare."""
    assert "RTX 3060 12 GB" in runs.name_card("9 GB")
    assert "RTX 4060 Ti 16 GB" in runs.name_card("12 GB")
    assert "80 GB" in runs.name_card("70 GB")
    assert "takes several" in runs.name_card("1 TB")


@pytest.mark.parametrize(("line", "texts"), read_data("documents")["alternatives"])
def test_alternatives_are_lines_of_their_own(line: str, texts: list[str]) -> None:
    assert [" ".join(one.split()) for one in quick.split_alternatives(line)] == [
        " ".join(one.split()) for one in texts
    ]


@pytest.mark.parametrize(
    "word", ["zero3", "tp 8", "pp 2", "cp 2", "micro batch 2", "full recompute", "zero1 tp4"]
)
def test_what_is_given_of_a_layout_stays_and_the_rest_is_found(word: str) -> None:
    document = quick.parse_quick(f"llama3-8b on 64 h100 {word}")
    result = planner.quick(f"llama3-8b on 64 h100 {word}").evaluate()
    assert result.plan.searched is not None
    for key, node in leaves(document):
        if key.startswith(("parallelism.", "training.")):
            assert result.plan.get(key) == node.plain()


def test_words_that_say_nothing_are_told_and_the_plan_is_that_without_them() -> None:
    line = "kindly llama3-8b on 64 h100, 2T tokens, cheers"
    assert quick.list_ignored(line) == (["kindly", "cheers"], [], [])
    assert plan(line) | {"name": ""} == plan("llama3-8b on 64 h100, 2T tokens") | {"name": ""}


def plan(text: str) -> dict[str, Any]:
    said: dict[str, Any] = quick.parse_quick(text).plain()
    return said


def told(text: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        planner.quick(text)
    return [str(fault) for fault in caught.value.faults]


@pytest.mark.slow
def test_a_deadline_is_required_of_a_run_that_is_stated_and_asks_what_it_buys_otherwise() -> None:
    stated = plan("gpt2-small on 8 h100, within 3 days, 100B tokens")
    assert stated["require"] == ["time.training_days <= 3 days"]
    asked = plan("gpt2-small on 8 h100 in 2 weeks")["questions"]
    assert asked[0]["tokens-by-deadline"]["deadline"] == "2 weeks"
    result = planner.quick("gpt2-small on 8 h100 dp8 in 2 weeks").evaluate()
    (found,) = (answer.found for answer in result.questions.answers)
    held, missed = (Plan(one.plan).evaluate() for one in (found.holds, found.fails))
    assert held["time.training_days"].value <= 14 < missed["time.training_days"].value


def test_a_long_model_is_not_trained_at_its_longest_unless_it_is_asked_for() -> None:
    long = quick.parse_quick("llama3.1-8b on 64 h100")
    assert long.plain()["training"] == {"sequence_length": terms.USUAL_SEQUENCE}
    assert "nobody states a length" in quick.write_quick("…", long)
    asked = quick.parse_quick("llama3.1-8b on 64 h100, sequence 128k")
    assert asked.plain()["training"] == {"sequence_length": 131_072}
    assert "nobody" not in quick.write_quick("…", asked)


@pytest.mark.parametrize("text", read_data("documents")["printed_lines"])
def test_what_is_printed_is_the_same_plan(text: str) -> None:
    document = quick.parse_quick(text)
    written = yaml.safe_load(quick.write_quick(text, document))
    one, other = (schema.validate(source.load(each), "plan").data for each in (document, written))
    assert one == other


def test_what_is_not_understood_is_told_at_its_column_with_what_is() -> None:
    first, second = told("llama9 on 64 h1000, 2T tokens")
    assert first.startswith("<text>:1:1: not understood: 'llama9' (a model: ")
    assert first.endswith("did you mean 'llama'?)")
    assert second.startswith("<text>:1:11: not understood: '64 h1000' (did you mean 'h100")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        *read_data("faults")["lines"],
        ("x" * 2000, "too much text"),
    ],
)
def test_faults_of_a_line(text: str, fault: str) -> None:
    assert any(fault in line for line in told(text))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.sampled_from(WORDS),
        max_size=12,
    ).flatmap(lambda words: st.sampled_from([" ".join(words), "".join(words)]))
    | st.text(max_size=60)
)
def test_any_text_is_a_plan_or_a_fault(text: str) -> None:
    try:
        document = quick.parse_quick(text)
    except PlanError as error:
        assert all("\n" not in str(fault) for fault in error.faults)
    else:
        yaml.safe_load(quick.write_quick(text, document))


@pytest.mark.parametrize(
    ("said", "stack"),
    [
        ("trl sft {} deepspeed zero3", "trl-deepspeed"),
        ("axolotl {} full finetune, deepspeed zero2", "axolotl-deepspeed"),
        ("hf trainer {} ds zero3", "transformers-deepspeed"),
        ("{} llama factory ds z3", "llama-factory-deepspeed"),
        ("ms swift {} zero3 offload", "ms-swift-deepspeed"),
        ("axolotl lora {} fsdp", "axolotl"),
    ],
)
def test_who_shards_is_of_the_stack(said: str, stack: str) -> None:
    """Formats and buckets of DeepSpeed are not FSDP's; a trainer keeps its kernels under both."""
    line = said.format("llama3-8b") + ", 8xh100, 10M tokens"
    training = lookup(quick.parse_quick(line).plain(), "training")
    assert (training["stack"], training.get("implementation")) == (stack, None)
