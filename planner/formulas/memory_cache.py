"""Inference: the cache of keys and values that each sequence keeps while it is served."""

from typing import Any

from planner.folds import Total, largest, smallest
from planner.notation import L_ks, a_kv, b, d_h, d_r, d_v, k_kv, r_kv, s, s_o, t, w
from planner.quantity import quantity

BLOCK: dict[str, Any] = {
    "identifier": "memory.cache.block",
    "symbol": r"M_{kv}^{j}",
    "unit": "bytes",
    "title": "cache of one attention block on one device",
    "per": ("block",),
    "coefficient": "1",
}
POPE = "Pope et al. 2022 (arXiv 2211.05102), section 3.3"


@quantity(**BLOCK, source=POPE, when={"block": "attention", "latent": False, "windowed": False})
def block():
    """A key and a value for each token of prompt and answer; a rank holds one head at least."""
    return k_kv * b * (s + s_o) * (d_h + d_v) * largest(a_kv, t) / t


@quantity(
    **BLOCK,
    source=f"{POPE}; Beltagy et al. 2020 (arXiv 2004.05150)",
    when={"block": "attention", "latent": False, "windowed": True},
)
def block_windowed():
    """Only the last w tokens are attended to."""
    return k_kv * b * smallest(w, s + s_o) * (d_h + d_v) * largest(a_kv, t) / t


@quantity(
    **BLOCK,
    source="DeepSeek-V2 (arXiv 2405.04434), section 2.1.2",
    when={"block": "attention", "latent": True},
)
def block_latent():
    """The compressed keys and values and one rotary key, which every rank holds whole."""
    return k_kv * b * (s + s_o) * (r_kv + d_r)


@quantity(
    "memory.cache.stage",
    symbol=r"M_{kv,\sigma}",
    unit="bytes",
    title="cache on one device of a stage",
    source=POPE,
    per=("stage",),
)
def cache_stage():
    """Each attention block as often as the stage holds its layer. Recurrent mixers, whose state
    does not grow with the sequence, are not counted."""
    return Total(L_ks * Total(block, "block", block="attention"), "part")
