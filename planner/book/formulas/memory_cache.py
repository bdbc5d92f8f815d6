"""Inference: what each sequence keeps while it is served: keys and values of its tokens, and the
states of recurrent blocks, which do not grow."""

from typing import Any

from planner.book.formulas.layout import micro_batches
from planner.book.notation import (
    L_ks,
    a_dv,
    a_kv,
    a_l,
    b,
    d_dk,
    d_dv,
    d_h,
    d_l,
    d_r,
    d_v,
    k_a,
    k_kv,
    m_in,
    n_in,
    n_out,
    n_st,
    r_kv,
    s,
    s_o,
    t,
    w,
    w_r,
)
from planner.book.quantity import quantity
from planner.book.reductions import Total, largest, smallest

BLOCK: dict[str, Any] = {
    "identifier": "memory.cache.block",
    "symbol": r"M_{kv}^{j}",
    "unit": "bytes",
    "title": "cache of one block on one device",
    "per": ("block",),
    "coefficient": "1",
}
POPE = "Pope et al. 2022 (arXiv 2211.05102), section 3.3"
#: Sequences that a device keeps a cache of: those of every micro-batch that is under way.
held = b * micro_batches


@quantity(**BLOCK, source=POPE, when={"block": "attention", "latent": False, "windowed": False})
def block():
    """A key and a value for each token of prompt and answer of the sequences under
    way, m micro-batches of b; a rank holds one head at least."""
    return k_kv * held * (s + s_o) * (d_h + d_v) * largest(a_kv, t) / t


@quantity(
    **BLOCK,
    source=f"{POPE}; Beltagy et al. 2020 (arXiv 2004.05150)",
    when={"block": "attention", "latent": False, "windowed": True},
)
def block_windowed():
    """Only the last w tokens are attended to."""
    return k_kv * held * smallest(w, s + s_o) * (d_h + d_v) * largest(a_kv, t) / t


@quantity(
    **BLOCK,
    source="DeepSeek-V2 (arXiv 2405.04434), section 2.1.2",
    when={"block": "attention", "latent": True},
)
def block_latent():
    """The compressed keys and values and one rotary key, which every rank holds whole."""
    return k_kv * held * (s + s_o) * (r_kv + d_r)


def _window():
    """The last inputs of a depthwise convolution, as many as its kernel is long."""
    return Total(n_in * n_out, "component", type="conv")


@quantity(
    **BLOCK,
    source="Gu & Dao 2023 (arXiv 2312.00752); Dao & Gu 2024 (arXiv 2405.21060)",
    when={"block": "mamba"},
)
def block_mamba():
    """The state of every channel, and the window of the convolution."""
    return k_a * held * (m_in * n_st + _window()) / t


@quantity(**BLOCK, source="Yang et al. 2024 (arXiv 2412.06464)", when={"block": "delta_net"})
def block_delta_net():
    """One matrix of keys by values for each head, and the window of the convolution."""
    return k_a * held * (a_dv * d_dk * d_dv + _window()) / t


@quantity(**BLOCK, source="De et al. 2024 (arXiv 2402.19427)", when={"block": "recurrence"})
def block_recurrence():
    """The state of every channel, and the window of the convolution."""
    return k_a * held * (w_r + _window()) / t


@quantity(**BLOCK, source="LFM2 (arXiv 2511.23404)", when={"block": "short_conv"})
def block_short_conv():
    """The window of the convolution."""
    return k_a * held * _window() / t


@quantity(**BLOCK, source="MiniMax-01 (arXiv 2501.08313)", when={"block": "lightning"})
def block_lightning():
    """One matrix of keys by values for each head."""
    return k_a * held * a_l * d_l**2 / t


@quantity(
    "memory.cache.stage",
    symbol=r"M_{kv,\sigma}",
    unit="bytes",
    title="cache on one device of a stage",
    source=POPE,
    per=("stage",),
)
def cache_stage():
    """Each block that remembers, as often as the stage holds its layer."""
    return Total(L_ks * Total(block, "block", remembers=True), "part")
