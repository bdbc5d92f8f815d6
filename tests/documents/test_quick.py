"""Plans from a line of text: what is said, where it stands, and what is not understood."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

import planner
from planner.base.errors import PlanError
from planner.documents import quick, schema, source

WORDS = (
    *("llama3-8b", "gpt", "model", "70B", "on", "64", "3", "1,0", "h100", "x", "×", "nodes", "of"),
    *("2T", "tokens", "tp8", "pp", "zero", "8k", "batch", "full", "recompute"),
    *(",", "-", "=", "%", "$", "/h", "٣", "\x00", "é", "'"),
)


def plan(text: str) -> dict[str, Any]:
    said: dict[str, Any] = quick.read(text).plain()
    return said


def told(text: str) -> list[str]:
    with pytest.raises(PlanError) as caught:
        planner.quick(text)
    return [str(fault) for fault in caught.value.faults]


def test_the_plan_of_a_line() -> None:
    assert plan("llama3-8b on 64 h100, 2T tokens") == {
        "name": "llama3-8b on 64 h100, 2T tokens",
        "model": "llama3-8b",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 64},
        "training": {"tokens": "2T"},
        "parallelism": "auto",
    }


def test_a_deadline_is_required_of_a_run_that_is_stated_and_asks_what_it_buys_otherwise() -> None:
    stated = plan("gpt2-small on 8 h100, within 3 days, 100B tokens")
    assert stated["require"] == ["time.training_days <= 3 days"]
    asked = plan("gpt2-small on 8 h100 in 2 weeks")["questions"]
    assert asked[0]["tokens-by-deadline"]["deadline"] == "2 weeks"
    result = planner.quick("gpt2-small on 8 h100 dp8 in 2 weeks").evaluate()
    (tokens,) = (answer.found.holds.value for answer in result.questions.answers)
    held, missed = (
        planner.quick(f"gpt2-small on 8 h100 dp8 {count:.0f} tokens").evaluate()
        for count in (tokens, tokens * 1.001)
    )
    assert held["time.training_days"].value <= 14 < missed["time.training_days"].value


def test_everything_that_may_stand_in_a_line() -> None:
    found = plan(
        "train meta-llama/Llama-2-70b-hf on 128 nodes of 8 H100s for 1.5 trillion tokens with 4k "
        "context, batch 1,024, micro batch 2, fp8, muon, full recompute, tp8 pp=4 cp-2 zero1, "
        "schedule zero-bubble, sequence parallel, $2.5/h, 40% mfu"
    )
    del found["name"]
    assert found == {
        "model": "llama2-70b",
        "cluster": {
            "accelerator": "h100-sxm-80gb",
            "devices": 1024,
            "devices_per_node": 8,
            "price": "2.5 USD/h",
        },
        "training": {
            "tokens": "1.5T",
            "sequence_length": 4096,
            "global_batch": 1024,
            "micro_batch": 2,
            "precision": "fp8",
            "optimizer": "muon",
            "recompute": "full",
            "schedule": "zero-bubble",
        },
        "parallelism": {"tensor": 8, "pipeline": 4, "context": 2, "zero": 1, "sequence": True},
        "time": {"mfu": "40%"},
    }


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("70B on 8 h100", "model.parameters", "70B"),
        ("a 1.3B model on 8 h100", "model.parameters", "1.3B"),
        ("llama 3 8b 64xh100 300 billion tokens", "training.tokens", "300B"),
        ("mixtral 8x7b on 8 x 4090", "model", "mixtral-8x7b"),
        ("mixtral 8x7b on 8 x 4090", "cluster.accelerator", "rtx-4090"),
        ("llama2-7b on h100 x 16", "cluster.devices", 16),
        ("llama2-7b on 16 a100 80gb", "cluster.accelerator", "a100-sxm-80gb"),
        ("llama2-7b on 16 a100 40gb", "cluster.accelerator", "a100-sxm-40gb"),
        ("llama2-7b on hgx-h100", "cluster", "hgx-h100"),
        ("llama2-7b on 8 h100 1.5 tokens", "training.tokens", "1.5"),
        ("llama2-7b on 8 h100 fsdp", "parallelism.zero", 3),
        ("llama2-7b on 8 h100 ZeRO-2", "parallelism.zero", 2),
        ("llama2-7b on 8 h100 256 sequences", "training.global_batch", 256),
        ("llama2-7b on 8 h100 seq_len=2048", "training.sequence_length", 2048),
        ("llama2-7b on 8 h100 context length 32k", "training.sequence_length", 32768),
        ("llama2-7b on 8 h100 no recompute", "training.recompute", "none"),
        ("llama2-7b on 8 h100, bf16, optimizer=lion", "training.optimizer", "lion"),
    ],
)
def test_ways_to_say_it(text: str, key: str, value: object) -> None:
    assert source.lookup(plan(text), key) == value


def test_a_long_model_is_not_trained_at_its_longest_unless_it_is_asked_for() -> None:
    long = quick.read("llama3.1-8b on 64 h100")
    assert long.plain()["training"] == {"sequence_length": quick.USUAL_SEQUENCE}
    assert "nobody states a length" in quick.write("…", long)
    asked = quick.read("llama3.1-8b on 64 h100, sequence 128k")
    assert asked.plain()["training"] == {"sequence_length": 131_072}
    assert "nobody" not in quick.write("…", asked)


@pytest.mark.parametrize(
    "text",
    [
        "llama3-8b on 64 h100, 2T tokens",
        "70B on 1024 h100 15T tokens seq 4096 $2.5/h 40% mfu",
        "mixtral 8x7b on hgx-h100: 1T tokens",
        "qwen3-30b-a3b on 8 b200 100B tokens ep8 zero1 sequence 4k batch 64",
    ],
)
def test_what_is_printed_is_the_same_plan(text: str) -> None:
    document = quick.read(text)
    written = yaml.safe_load(quick.write(text, document))
    one, other = (schema.validate(source.load(each), "plan").data for each in (document, written))
    assert one == other


def test_what_is_not_understood_is_told_at_its_column_with_what_is() -> None:
    first, second = told("lama3-8b on 64 h1000, 2T tokens")
    assert first.startswith("<text>:1:1: not understood: 'lama3-8b' (a model: ")
    assert first.endswith("did you mean 'llama3-8b'?)")
    assert second == "<text>:1:13: not understood: '64 h1000' (did you mean 'h100'?)"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "no model"),
        ("on 64 h100", "no model"),
        ("llama3-8b", "no devices"),
        ("llama3-8b on 64 h100 tp8 tp4", "<text>:1:26: a second parallelism.tensor: 4"),
        ("llama3-8b on 64 h100 tp3", "<text>:1:14: 64 devices are no multiple of"),
        ("llama3-8b on 64 h100 zero7", "<text>:1:22: parallelism.zero is 7"),
        ("llama3-8b on 64 h100 __import__('os')", "<text>:1:22: not understood"),
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
        document = quick.read(text)
    except PlanError as error:
        assert all("\n" not in str(fault) for fault in error.faults)
    else:
        yaml.safe_load(quick.write(text, document))
