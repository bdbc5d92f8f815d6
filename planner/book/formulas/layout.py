"""How a run is laid out over devices: groups, micro-batches, tokens and rows on one device."""

from planner.book.language import *

GROUPS = f"{NARAYANAN}, section 3"

data = Quantity("layout.data", "d", "data-parallel size", source=GROUPS).equals(
    n / (t * p * c),
    "The devices that are left when each copy of the model takes t times p times c of them.",
)

micro_batches = Quantity(
    "layout.micro_batches", "m", "micro-batches of one optimizer step", source=GROUPS
).equals(
    B / (b * data),
    "A data-parallel rank works through its share of the global batch, b sequences at a time.",
)

layer_micro_batches = Quantity(
    "layout.passes",
    "m_c",
    "micro-batches that pass a layer of a device in one optimizer step",
    source=GROUPS,
)
layer_micro_batches.where(schedule=(*IN_TURN, "dualpipev")).equals(micro_batches, "All of them.")
layer_micro_batches.by(DUALPIPE, schedule="dualpipe").equals(
    micro_batches / 2, "Half of them pass the layers of one direction."
)

state_ranks = Quantity(
    "layout.shards", "d_sh", "devices that share the sharded states of a weight", per="component"
)
state_ranks.by(SHARDED, split=("none", "column", "row", "vocabulary")).equals(
    data * c / r,
    "Context-parallel ranks hold the same weights as data-parallel ones; r replicas of hybrid "
    "sharding each hold all shards.",
)
state_ranks.by(
    "Megatron-LM: expert data parallel; Singh et al. 2023 (arXiv 2303.06318), section 4",
    split="experts",
).equals(
    t * c * data / (e * t_e * r),
    "An expert lies on t_e devices of each of the e groups, so fewer devices hold copies of it.",
)

vocabulary = Quantity(
    "layout.vocabulary", "V_pad", "vocabulary with padding", source=PADDED
).equals(
    ceil(V / (g_V * t)) * (g_V * t),
    "The embedding gets rows until each tensor rank has a multiple of g_V.",
)

tokens = Quantity(
    "layout.tokens",
    "n_tok",
    "tokens of a micro-batch on one device",
    unit="tokens",
    source="Megatron-LM: context parallel divides the sequence",
    coefficient="tokens",
    stacked=True,
).equals(s * b / c, "b sequences of s tokens, of which each context-parallel rank has its part.")

Quantity(
    "layout.padding",
    "f_pad",
    "share of the tokens that are padding",
    share=True,
    within=SHARE,
    source="definition",
).where(padding=("longest", "sequence_length")).equals(
    1 - s_ex / s, "Examples have s_ex tokens, sequences s."
)

fused_rows = Quantity(
    "layout.fused_rows",
    "n_row",
    "rows of logits that a fused loss works on at a time",
    unit="tokens",
)
fused_rows.by(
    "Liger-Kernel 0.5.10, src/liger_kernel/ops/fused_linear_cross_entropy.py", training_loss="fused"
).equals(
    minimum(tokens, maximum(1, 2 ** ceil(log2(2 * ceil(tokens / ceil(vocabulary / h)) - 1)) / 2)),
    "As many logits as the input has elements, in rows whose number is the next power of two: half "
    "of the one next to an odd number, whose logarithm is never rounded to a whole one.",
)

routed = estimate(
    "layout.routed",
    "n_rou",
    "rows that the experts of one device work on, of one micro-batch",
    unit="tokens",
    per="block",
)
routed.by("Megatron-LM (all-to-all dispatch)", capped=False).equals(
    gamma * E * ceil(tokens * k * t_e / (t * E)),
    "With even routing every expert gets the same whole number of rows. The e groups bring e times "
    "the tokens to E/e experts, so the number does not depend on e; tensor ranks that do not share "
    "an expert share the tokens. The fullest device has gamma times as many.",
)

sequence_ranks = Quantity(
    "layout.sequence_ranks", "t_seq", "devices that share the residual stream"
)
sequence_ranks.by(SEQUENCE, sequence=True).equals(
    t, "Sequence parallelism divides norms and the residual stream over the tensor-parallel ranks."
)
sequence_ranks.by(f"{KORTHIKANTI}, section 4.2.1", sequence=False).equals(
    1, "Without sequence parallelism every tensor-parallel rank holds the whole residual stream."
)

routed.by(CAPACITY, capped=True).equals(
    E * ceil(f_cap * tokens * k * t_e / (t * E)),
    "Every expert has the same number of slots, filled or not: its even share times the capacity "
    "factor. Tokens beyond them are dropped, so imbalance adds nothing.",
)
