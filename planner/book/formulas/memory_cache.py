"""Inference: what each sequence keeps while it is served: keys and values of its tokens, and the
states of recurrent blocks, which do not grow."""

from planner.book.formulas.layout import micro_batches
from planner.book.language import *

POPE = "Pope et al. 2022 (arXiv 2211.05102), section 3.3"
#: Sequences that a device keeps a cache of: those of every micro-batch that is under way.
held = b * micro_batches

cache_block = in_bytes(
    "memory.cache.block", r"M_{kv}^{j}", "cache of one block on one device", per="block"
)
cache_index = in_bytes(
    "memory.cache.index",
    r"M_i^{j}",
    "cache of an indexer's keys on one device",
    per="block",
    block="attention",
    source="DeepSeek-V3.2 (arXiv 2512.02556), inference code: its keys have a cache of their own",
).equals(
    k_kv * held * Sum(d_i * floor((s + s_o) / c_key), "component", type="index"),
    "One key for each token or pool of tokens, which every rank holds whole.",
)

_of_attention = partial(cache_block.by, block="attention")
_of_attention(POPE, latent=False, windowed=False).equals(
    k_kv * held * (s + s_o) * (d_h + d_v) * maximum(a_kv, t) / t + cache_index,
    "A key and a value for each token of prompt and answer of the sequences under way, m "
    "micro-batches of b; a rank holds one head at least. And the keys of an indexer.",
)
_of_attention(
    f"{POPE}; Beltagy et al. 2020 (arXiv 2004.05150)", latent=False, windowed=True
).equals(
    k_kv * held * minimum(w, s + s_o) * (d_h + d_v) * maximum(a_kv, t) / t + cache_index,
    "Only the last w tokens are attended to. And the keys of an indexer.",
)
_of_attention("DeepSeek-V2 (arXiv 2405.04434), section 2.1.2", latent=True).equals(
    k_kv * held * (s + s_o) * (r_kv + d_r) + cache_index,
    "The compressed keys and values and one rotary key, which every rank holds whole. And the keys "
    "of an indexer.",
)

#: The last inputs of a depthwise convolution, as many as its kernel is long.
_window = Sum(n_in * n_out, "component", type="conv")
cache_block.by(f"{GU_DAO}; {DAO_GU}", block="mamba").equals(
    k_a * held * (m_in * n_st + _window) / t,
    "The state of every channel, and the window of the convolution.",
)
cache_block.by(YANG, block="delta_net").equals(
    k_a * held * (a_dv * d_dk * d_dv + _window) / t,
    "One matrix of keys by values for each head, and the window of the convolution.",
)
cache_block.by("De et al. 2024 (arXiv 2402.19427)", block="recurrence").equals(
    k_a * held * (w_r + _window) / t,
    "The state of every channel, and the window of the convolution.",
)
cache_block.by("Peng et al. 2023 (arXiv 2305.13048), section 3.3", block="rwkv").equals(
    k_a * held * (2 * h + 3 * w_rw / t),
    "The last token of both mixings, which every rank holds whole; numerator, denominator and "
    "largest exponent of every channel.",
)
cache_block.by("LFM2 (arXiv 2511.23404)", block="short_conv").equals(
    k_a * held * _window / t, "The window of the convolution."
)
cache_block.by("MiniMax-01 (arXiv 2501.08313)", block="lightning").equals(
    k_a * held * a_l * d_l**2 / t, "One matrix of keys by values for each head."
)

cache_stage = bytes_of_stage(
    "memory.cache.stage",
    r"M_{kv,\sigma}",
    "cache on one device of a stage",
    short="cache",
    source=POPE,
).equals(
    sum_on_stage(Sum(cache_block, "block", remembers=True)),
    "Each block that remembers, as often as the stage holds its layer.",
)
