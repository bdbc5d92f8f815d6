"""The symbol table: symbol, LaTeX, unit, meaning and document key of every input.

Megatron papers first (Narayanan et al. 2021, arXiv 2104.04473; Korthikanti et al. 2022, arXiv
2205.05198). A symbol with ``per=("block",)`` has one value for each block of each layer kind; its
key then is ``BLOCK.KEY`` as in a model document. Order here is the order of factors in print.
"""

from planner.quantity import symbol

# Sequence and batch
b = symbol("b", "sequences per device and forward pass (micro-batch)", key="training.micro_batch")
B = symbol("B", "sequences per optimizer step (global batch)", key="training.global_batch")
s = symbol("s", "sequence length in tokens", key="training.sequence_length")
T = symbol("T", "training tokens", key="training.tokens")

# Model
L = symbol("L", "layers", key="model.layers")
h = symbol("h", "hidden size", key="model.hidden")
V = symbol("V", "vocabulary size", key="model.vocab")
s_max = symbol("s_max", "longest sequence", latex=r"s_{\max}", key="model.max_sequence")
N_given = symbol("N", "parameters, as given", key="model.parameters")
L_k = symbol("L_k", "layers of this kind", latex=r"L_k", per=("part",))

# Attention
a = symbol("a", "query heads", key="attention.heads", per=("block",))
a_kv = symbol(
    "a_kv", "key/value heads", latex=r"a_{kv}", key="attention.kv_heads", per=("block",)
)
d_h = symbol("d_h", "head size", latex="d_h", key="attention.head_dim", per=("block",))
d_v = symbol("d_v", "value head size", latex="d_v", key="attention.value_head_dim", per=("block",))

# Feed-forward
f = symbol("f", "feed-forward width", key="mlp.intermediate", per=("block",))
E = symbol("E", "experts", key="moe.experts", per=("block",))
k = symbol("k", "experts per token", key="moe.top_k", per=("block",))
f_e = symbol("f_e", "width of one expert", latex="f_e", key="moe.intermediate", per=("block",))
f_s = symbol(
    "f_s", "width of the shared experts", latex="f_s", key="moe.shared_intermediate", per=("block",)
)

# Component: bound by the inventory to expressions in the symbols above
n_in = symbol("n_in", "input width", latex=r"n_{\mathrm{in}}", per=("component",))
n_out = symbol("n_out", "output width", latex=r"n_{\mathrm{out}}", per=("component",))
copies = symbol("copies", "copies of the component", latex=r"n_c", per=("component",))
applied = symbol("applied", "copies that one token uses", latex=r"n_u", per=("component",))

# Layout
n = symbol("n", "devices", key="cluster.devices")
n_node = symbol(
    "n_node", "devices per node", latex=r"n_{\mathrm{node}}", key="cluster.devices_per_node"
)
t = symbol("t", "tensor-parallel size", key="parallelism.tensor")
p = symbol("p", "pipeline-parallel size", key="parallelism.pipeline")
c = symbol("c", "context-parallel size", key="parallelism.context")
e = symbol("e", "expert-parallel size", key="parallelism.expert")
v = symbol("v", "virtual stages per device", key="parallelism.virtual_pipeline")
