"""FLOPs of linear attentions and state spaces, product by product, as their papers chunk them."""

from __future__ import annotations

import math
from typing import Any

import pytest

from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading


def flops(model: dict[str, Any], sequence: int) -> Any:
    """Of the products without weights, forwards, of one token of the first layer that has any."""
    e = Evaluation(
        case.build(
            loading.load({
                "model": {"extends": "gpt2-small", "vocab": 512, **model},
                "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
                "training": {"tokens": "1M", "sequence_length": sequence, "global_batch": 1},
                "time": {"mfu": 0.4, "use": "assumed"},
            })
        )
    )  # fmt: skip
    scan = next(c for c in e.case.axes["component"] if c.settings.get("type") == "scan")
    return e.value("compute.component", {"component": scan})


@pytest.mark.parametrize("sequence", [1024, 1000])
def test_a_delta_rule_chunk_by_chunk(sequence: int) -> None:
    """Keys with keys, queries with keys, scores with values, and three products with the state; a
    last chunk is filled up to 64 (Yang et al. 2024, arXiv 2412.06464, section 3.3)."""
    heads, key, value, chunk = 4, 32, 48, 64
    delta = {
        "key_heads": heads, "value_heads": heads, "key_head_dim": key, "value_head_dim": value,
        "chunk": chunk,
    }  # fmt: skip
    per_chunk = 2 * (
        chunk * chunk * key  # keys with keys
        + chunk * chunk * key  # queries with keys
        + chunk * chunk * value  # scores with values
        + 3 * chunk * key * value  # state read, corrected and written
    )
    chunks = math.ceil(sequence / chunk)
    found = flops({"mixer": "delta_net", "delta_net": delta}, sequence)
    assert found * sequence == heads * chunks * per_chunk


def test_a_lightning_attention_chunk_by_chunk() -> None:
    """Queries with keys and scores with values in a chunk, of 256 and a last one of 232; queries
    with the state and keys with values, each token once."""
    heads, size, sequence = 4, 32, 1000
    lightning = {"heads": heads, "head_dim": size, "chunk": 256}
    inside = 2 * 2 * size * (3 * 256**2 + 232**2)
    state = 2 * 2 * sequence * size * size
    found = flops({"mixer": "lightning", "lightning": lightning}, sequence)
    assert found * sequence == heads * (inside + state)
