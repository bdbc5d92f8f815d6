"""Explaining a quantity in a terminal: what is asked, how deep it goes, what each line says."""

from __future__ import annotations

from functools import cache

import pytest

import planner
from planner.base import resources
from planner.base.errors import PlanError
from planner.documents import aliases
from planner.report.explain import WIDTH, explain, explain_as_data
from planner.results.lookup import look_up
from tests.conftest import read_data

LLAMA = "presets/llama70b_h100x1024.yaml"


@cache
def result(path: str = LLAMA) -> planner.Result:
    return planner.load(path).evaluate()


# -- what people call a quantity ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "identifier"),
    read_data("report")["names_of_quantities"],
)
def test_a_quantity_is_found_by_what_people_call_it(asked: str, identifier: str) -> None:
    assert look_up(result(), asked).id == identifier


@pytest.mark.parametrize(
    ("asked", "identifier"),
    read_data("report")["words_of_people"],
)
def test_words_that_people_use_lead_to_the_quantity(asked: str, identifier: str) -> None:
    assert look_up(result(), asked).id == identifier


@pytest.mark.parametrize("served", [False, True])
def test_each_alias_leads_to_its_quantity_in_any_order_of_its_words(served: bool) -> None:
    table = resources.load_preset("aliases/names")["quantities"]
    plan = {"model": "llama2-7b", "cluster": "8 x h100", "training": {"mode": "inference"}}
    one = planner.load(plan).evaluate() if served else result()
    for words in {words for several in table.values() for words in several}:
        meant = [identifier for identifier, several in table.items() if words in several]
        present = [identifier for identifier in meant if one.get(identifier)]
        assert len(present) <= 1, f"'{words}' has two quantities in one plan"
        backwards = " ".join(reversed(words.replace("/", " ").split()))
        for asked in (words, words.upper(), backwards, f"the {words}"):
            assert look_up(one, asked).id == (present or meant)[0]


def test_a_title_is_found_in_any_order_of_its_words() -> None:
    for quantity in result().quantities.values():
        if quantity.entries:
            continue
        try:
            found = look_up(result(), " ".join(reversed(quantity.title.split())))
        except PlanError as error:
            assert str(error).startswith("several quantities")
        else:
            assert aliases.words_of(quantity.title) <= aliases.words_of(found.title)


@pytest.mark.parametrize(
    ("asked", "words"),
    read_data("report")["not_one_quantity"],
)
def test_what_is_not_one_quantity_is_one_clear_line(asked: str, words: tuple[str, ...]) -> None:
    with pytest.raises(PlanError) as caught:
        explain(result(), asked)
    (fault,) = caught.value.faults
    assert all(word in str(fault) for word in words), str(fault)


def test_a_beginning_lists_what_begins_so_with_values() -> None:
    lines = explain(result(), "memory.").splitlines()
    assert any(line.startswith("memory.process ") and "GiB" in line for line in lines)
    assert all(line.startswith("memory.") and len(line) <= WIDTH for line in lines)
    few = explain(result(), "memory.act*").splitlines()
    assert 0 < len(few) < len(lines)
    stages = explain(result(), "memory.peak[").splitlines()
    assert [line.split()[0] for line in stages] == [f"memory.peak[{s}]" for s in ("0", "1-2", "3")]


def test_the_last_branch_is_drawn_as_the_last() -> None:
    """Also below many instances of one quantity, which stand as one branch."""
    asked = result("presets/mixtral8x7b_h100x1024.yaml")
    lines = explain(asked, "memory.buffers.dummies[0]").splitlines()
    branches = [line[:2] for line in lines if line.startswith(("├", "└"))]
    assert len(branches) > 2 and [*{*branches[:-1]}, branches[-1]] == ["├─", "└─"]


def test_an_input_says_who_decided_it_and_what_uses_it() -> None:
    text = explain(result(), "training.global_batch")
    assert text == explain(result(), "B")
    assert "1,024" in text and "llama70b_h100x1024.yaml:8" in text
    assert "used by layout.micro_batches, time.tokens_per_second" in text
    (several,) = explain(result(), "training.recompute_modules").splitlines()
    assert several.split() == ["[core_attention]", "training.recompute_modules", "default"]


# -- what is said ---------------------------------------------------------------------------------


def test_two_levels_with_the_values_put_in() -> None:
    """Of utilisation: its formula and numbers; then each thing in it with value, id, how it is
    known or whose it is, and its own formula and numbers."""
    text = explain(result(), "mfu")
    first, *lines = text.splitlines()
    assert first.split()[:2] == ["48.9", "%"] or "%" in first
    assert "time.mfu" in first and first.endswith("estimate")
    assert "  u = C_mod · r_tok / (n · R)" in lines
    assert any(line.startswith("    = 444,491,366,400 × ") for line in lines)
    assert any("Chowdhery et al. 2022" in line for line in lines)
    (row,) = (line for line in lines if "compute.model_flops_per_token" in line)
    assert row.startswith("├─ C_mod") and row.endswith("exact")
    text_of_flops = explain(result(), "C_tok")
    assert "= C_fwd + C_bwd\n" in text_of_flops
    assert "= 148,163,788,800 + 296,327,577,600\n" in text_of_flops
    (row,) = (line for line in lines if "cluster.devices" in line)
    assert row.startswith("├─ n ") and "1,024" in row and row.endswith("preset h100x1024")
    assert "--depth 3 goes on with" in text and "--symbolic" in text
    assert len(lines) < 30


def test_the_depth_is_what_is_asked() -> None:
    one, two, three = (explain(result(), "mfu", depth) for depth in (1, 2, 3))
    assert "compute.model_flops_per_token" not in one
    assert "compute.component" not in two
    assert "compute.component" in three
    assert explain(result(), "mfu", 0) == one
    every = explain(result(), "mfu", None)
    assert len(every.splitlines()) > 1000 and "--depth" not in every
    assert explain(result(), "mfu", 10**9) == every
    with pytest.raises(PlanError, match="a depth of -1"):
        explain(result(), "mfu", -1)


def test_as_data_it_holds_the_inputs_of_its_formula_so_many_levels_deep() -> None:
    found = result()
    whole = explain_as_data(found, "time.training_days", None)["quantity"]
    seen = set[str]()

    def walk(data: dict[str, object]) -> None:
        quantity = found.find(str(data["id"]))
        assert data["value"] == pytest.approx(quantity.value) and data["unit"] == quantity.unit
        assert quantity.id not in seen
        seen.add(quantity.id)
        inputs = data["inputs"]
        assert isinstance(inputs, list)
        assert {one["id"] for one in inputs if "id" in one} == {q.id for q in quantity.uses}
        for one in inputs:
            assert one["symbol"]
            if "key" in one:
                assert one["key"] in found.inputs or one["origin"] is not None
            elif "inputs" in one:
                walk(one)

    walk(whole)
    assert "time.step_seconds" in seen
    two = explain_as_data(found, "time.training_days")["quantity"]
    assert all("inputs" not in one for one in two["inputs"])
    assert "inputs" not in explain_as_data(found, "time.training_days", 1)["quantity"]


def test_as_data_a_beginning_an_input_and_a_closed_form() -> None:
    found = result()
    many = explain_as_data(found, "cost.")["quantities"]
    assert many["cost.total"]["value"] == pytest.approx(float(found["cost.total"].number))
    given = explain_as_data(found, "training.micro_batch")["input"]
    assert given["value"] == 1 and "layout.micro_batches" in given["used_by"]
    form = explain_as_data(found, "compute.training_flops_6nd", symbolic=True)["quantity"][
        "closed_form"
    ]
    symbols = {one["symbol"]: one for one in form["inputs"]}
    assert all(symbol in form["formula"] for symbol in symbols)
    with pytest.raises(PlanError, match="unknown quantity"):
        explain_as_data(found, "nothing.of.that")


def test_summands_have_names() -> None:
    """Of a layer's activations each tensor is named, and so are the parts of a model."""
    text = explain(result(), "memory.activations.layer")
    for line in ("mlp.gate and up projection output   112 MiB", "query 16.0 + key 2.00"):
        assert line in text
    words = explain(result(), "parameters.total")
    assert "= embedding 262,144,000 + layers 68,452,352,000 + head 262,152,192" in words
    assert "query 67,108,864 + key 8,388,608" in words


def test_the_fullest_stage_is_named_instead_of_how_it_is_found() -> None:
    text = explain(result(), "memory.total")
    assert "of stage 1 of 4, backward pass of a layer" in text
    assert "2 · Ψ = 2 × 4,344,578,048" in text
    assert "is largest over" not in text


def test_the_closed_form_with_its_terms_and_symbols() -> None:
    text = explain(result(), "memory.activations.layer", symbolic=True)
    assert "M_act^ℓ = b · s · h · (12 + " in text
    assert "281,288,704 bytes" in text
    assert "M_act^ℓ is the sum of, × for times b · s · h / (t · c)" in text
    assert "attention: key" in text and "× 2 · a_kv / a" in text
    assert "a_kv = 8" in text and "preset llama2-70b" in text
    known = explain(result("presets/gpt3_a100x1024.yaml"), "parameters.total", symbolic=True)
    assert "Recognised: Narayanan et al. 2021 (arXiv 2104.04473), equation 2" in known
    assert "Its formula is in such symbols" in explain(result(), "mfu", symbolic=True)


def test_an_assumption_is_called_so_with_the_prediction() -> None:
    text = explain(result("presets/mixtral8x7b_h100x1024.yaml"), "mfu")
    assert text.splitlines()[0].endswith("assumed")
    assert "predicted: " in text
    text = explain(result("presets/gpt3_a100x1024.yaml"), "mfu")
    assert not text.splitlines()[0].endswith("assumed")
    assert "at the assumed utilisation: 33.6 %" in text


def test_what_is_absent_says_why() -> None:
    text = explain(result(), "memory.cache")
    assert text.startswith("absent   memory.cache") and "  absent: " in text
    short = explain(planner.load(LLAMA, set={"training.precision": "mxfp8"}).evaluate(), "mfu")
    assert short.startswith("absent   time.mfu")


WORDS = ("definition", "the book", "is largest over")


@pytest.mark.slow
@pytest.mark.parametrize("path", [LLAMA, "presets/mixtral8x7b_h100x1024.yaml"])
def test_every_quantity_can_be_explained_within_the_width(path: str) -> None:
    """No line is wider than a terminal, but for a name that cannot be broken; none has words of the
    engine."""
    found = result(path)
    for quantity in [q for q in found.quantities.values() if not q.entries]:
        for symbolic in (False, True):
            text = explain(found, quantity.id, symbolic=symbolic)
            wide = [line for line in text.splitlines() if len(line) > WIDTH]
            assert not wide, (quantity.id, wide)
        assert not [word for word in WORDS if word in explain(found, quantity.id)], quantity.id
