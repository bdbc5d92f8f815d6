"""What a checkpoint of adapters weighs, by arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

import planner

LLAMA: dict[str, Any] = {
    "model": "llama2-70b",
    "cluster": "hgx-h100",
    "training": {
        "tokens": "10M",
        "sequence_length": 2048,
        "lora": {"rank": 16, "targets": ["query", "value"]},
    },
    "parallelism": {"tensor": 8},
}


def size(changes: dict[str, Any]) -> int:
    found = planner.load(LLAMA, set=changes).evaluate()["checkpoint.bytes"].value
    assert isinstance(found, int)
    return found


#: Llama-2 70B: 80 layers, queries 8,192 to 8,192 and values 8,192 to 1,024, rank 16.
ADAPTERS = 80 * 16 * ((8192 + 8192) + (8192 + 1024))


@pytest.mark.parametrize(
    ("implementation", "weight"),
    [("megatron", 2 + 4), ("pytorch", 4)],  # bf16 and a master copy; fp32 alone
)
def test_a_checkpoint_of_adapters_holds_the_adapters(implementation: str, weight: int) -> None:
    """Two fp32 moments of AdamW for each parameter of the adapters, and its weights."""
    changes: dict[str, Any] = {"training.implementation": implementation}
    if implementation == "pytorch":
        changes["parallelism.tensor"] = 1
    assert size(changes) == ADAPTERS * (weight + 8)
    assert ADAPTERS * (weight + 8) < 10**9
    assert size({**changes, "training.optimizer": "sgd"}) == ADAPTERS * weight


def test_merged_weights_are_saved_where_that_is_asked_for() -> None:
    merged = size({"training.lora.checkpoint": "merged"})
    assert merged == ADAPTERS * 14 + 2 * 68_976_648_192


def test_without_adapters_all_is_saved() -> None:
    assert size({"training.lora": None}) == 68_976_648_192 * 14


@pytest.mark.parametrize("optimizer", ["adamw", "adam-8bit", "lion", "muon", "adafactor"])
def test_every_optimizer_has_one(optimizer: str) -> None:
    assert 0 < size({"training.optimizer": optimizer}) <= ADAPTERS * 14
