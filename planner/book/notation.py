"""The symbol table: symbol, LaTeX, unit, meaning and document key of every input.

Megatron papers first (Narayanan et al. 2021, arXiv 2104.04473; Korthikanti et al. 2022, arXiv
2205.05198). A symbol with ``per=("block",)`` has one value for each block of each layer kind; its
key then is ``BLOCK.KEY`` as in a model document. Order here is the order of factors in print.
"""

from planner.book.quantity import symbol

# Sequence and batch
b = symbol("b", "sequences per device and forward pass (micro-batch)", key="training.micro_batch")
B = symbol("B", "sequences per optimizer step (global batch)", key="training.global_batch")
s = symbol("s", "sequence length in tokens", key="training.sequence_length")
s_dec = symbol(
    "s_dec",
    "sequence length of the decoder",
    latex=r"s_{\mathrm{dec}}",
    key="training.decoder_sequence_length",
)
T = symbol("T", "training tokens", key="training.tokens", only_formulas=True)

# Model
L = symbol("L", "layers", key="model.layers")
h = symbol("h", "hidden size", key="model.hidden")
V = symbol("V", "vocabulary size", key="model.vocab")
s_max = symbol("s_max", "longest sequence", latex=r"s_{\max}", key="model.max_sequence")
N_given = symbol("N", "parameters, as given", key="model.parameters")
L_k = symbol("L_k", "layers of this kind", latex=r"L_k", per=("part",))

# Attention
a = symbol("a", "query heads", key="attention.heads", per=("block",))
a_kv = symbol("a_kv", "key/value heads", latex=r"a_{kv}", key="attention.kv_heads", per=("block",))
d_h = symbol("d_h", "head size", latex="d_h", key="attention.head_dim", per=("block",))
d_v = symbol("d_v", "value head size", latex="d_v", key="attention.value_head_dim", per=("block",))
r_q = symbol("r_q", "rank of the query", latex="r_q", key="attention.query_rank", per=("block",))
r_kv = symbol(
    "r_kv", "rank of keys and values", latex=r"r_{kv}", key="attention.kv_rank", per=("block",)
)
d_n = symbol(
    "d_n", "head size without positions", latex="d_n", key="attention.nope_dim", per=("block",)
)
d_r = symbol("d_r", "rotary head size", latex="d_r", key="attention.rope_dim", per=("block",))
w = symbol("w", "attention window", unit="1", key="attention.window", per=("block",))
a_i = symbol("a_i", "indexer heads", latex="a_i", key="attention.index_heads", per=("block",))
d_i = symbol(
    "d_i", "indexer head size", latex="d_i", key="attention.index_head_dim", per=("block",)
)

# Feed-forward
f = symbol("f", "feed-forward width", key="mlp.intermediate", per=("block",))
n_act = symbol(
    "n_act",
    "learned scalars of the activation",
    latex=r"n_{\mathrm{act}}",
    key="mlp.activation_parameters",
    per=("block",),
)
E = symbol("E", "experts", key="moe.experts", per=("block",))
k = symbol("k", "experts per token", key="moe.top_k", per=("block",))
G_r = symbol(
    "G_r",
    "groups of experts of the router",
    latex=r"G_{\mathrm{r}}",
    key="moe.router_groups",
    per=("block",),
)
g_r = symbol(
    "g_r",
    "groups of which a token's experts come",
    latex=r"g_{\mathrm{r}}",
    key="moe.router_group_top_k",
    per=("block",),
)
f_cap = symbol(
    "f_cap",
    "slots of an expert over its even share",
    latex=r"f_{\mathrm{cap}}",
    key="moe.capacity_factor",
    per=("block",),
)
f_e = symbol("f_e", "width of one expert", latex="f_e", key="moe.intermediate", per=("block",))
f_s = symbol(
    "f_s", "width of the shared experts", latex="f_s", key="moe.shared_intermediate", per=("block",)
)
E_0 = symbol("E_0", "experts without weights", latex="E_0", key="moe.zero_experts", per=("block",))
n_rs = symbol(
    "n_rs",
    "learned scales of the router",
    latex=r"n_{\mathrm{rs}}",
    key="moe.router_scales",
    per=("block",),
)
h_l = symbol("h_l", "width that the experts see", latex="h_l", key="moe.latent", per=("block",))

# State space, linear attention, convolution
m_in = symbol(
    "m_in", "inner width of Mamba", latex=r"m_{\mathrm{in}}", key="mamba.inner", per=("block",)
)
n_st = symbol(
    "n_st", "state of one channel", latex=r"n_{\mathrm{st}}", key="mamba.state", per=("block",)
)
a_m = symbol("a_m", "Mamba heads", latex="a_m", key="mamba.heads", per=("block",))
g_m = symbol("g_m", "Mamba groups", latex="g_m", key="mamba.groups", per=("block",))
k_conv = symbol(
    "k_conv",
    "kernel of its convolution",
    latex=r"k_{\mathrm{conv}}",
    key="mamba.conv_kernel",
    per=("block",),
)
r_dt = symbol(
    "r_dt", "rank of the step size", latex=r"r_{\Delta}", key="mamba.dt_rank", per=("block",)
)
c_m = symbol("c_m", "chunk of the scan", latex="c_m", key="mamba.chunk", per=("block",))
a_dk = symbol(
    "a_dk", "delta-net key heads", latex=r"a_{\delta k}", key="delta_net.key_heads", per=("block",)
)
a_dv = symbol(
    "a_dv",
    "delta-net value heads",
    latex=r"a_{\delta v}",
    key="delta_net.value_heads",
    per=("block",),
)
d_dk = symbol(
    "d_dk",
    "delta-net key head size",
    latex=r"d_{\delta k}",
    key="delta_net.key_head_dim",
    per=("block",),
)
d_dv = symbol(
    "d_dv",
    "delta-net value head size",
    latex=r"d_{\delta v}",
    key="delta_net.value_head_dim",
    per=("block",),
)
k_d = symbol(
    "k_d", "its convolution", latex=r"k_\delta", key="delta_net.conv_kernel", per=("block",)
)
r_g = symbol("r_g", "rank of its gates", latex="r_g", key="delta_net.gate_rank", per=("block",))
c_d = symbol("c_d", "chunk of the scan", latex=r"c_\delta", key="delta_net.chunk", per=("block",))
k_s = symbol("k_s", "its convolution", latex="k_s", key="short_conv.kernel", per=("block",))
w_r = symbol("w_r", "width of the recurrence", latex="w_r", key="recurrence.width", per=("block",))
a_r = symbol("a_r", "blocks of its gates", latex="a_r", key="recurrence.heads", per=("block",))
k_r = symbol(
    "k_r", "width of its convolution", latex="k_r", key="recurrence.conv_kernel", per=("block",)
)
a_l = symbol("a_l", "lightning heads", latex="a_l", key="lightning.heads", per=("block",))
d_l = symbol("d_l", "lightning head size", latex="d_l", key="lightning.head_dim", per=("block",))
c_l = symbol("c_l", "chunk of the scan", latex="c_l", key="lightning.chunk", per=("block",))

# Embedding
h_e = symbol("h_e", "embedding width", latex="h_e", key="model.embedding_dim")
s_off = symbol("s_off", "further positions", latex=r"s_{+}", key="model.position_offset")
n_seg = symbol("n_seg", "segments", latex=r"n_{\mathrm{seg}}", key="model.token_types")
h_p = symbol("h_p", "per-layer width", latex="h_p", key="per_layer_embedding.width", per=("block",))
V_p = symbol(
    "V_p", "per-layer vocabulary", latex="V_p", key="per_layer_embedding.vocab", per=("block",)
)
n_rel = symbol(
    "n_rel",
    "buckets of distance",
    latex=r"n_{\mathrm{rel}}",
    key="positions.relative_buckets",
    per=("block",),
)
a_rel = symbol(
    "a_rel", "heads of that table", latex=r"a_{\mathrm{rel}}", key="positions.heads", per=("block",)
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
t_e = symbol("t_e", "tensor-parallel size in experts", latex="t_e", key="parallelism.expert_tensor")
r = symbol("r", "replicas of hybrid sharding", key="parallelism.replicate")
g_V = symbol(
    "g_V",
    "the padded vocabulary per tensor rank is a multiple of it",
    latex="g_V",
    key="parallelism.vocab_multiple",
)
layers_on_stage = symbol(
    "L_ks", "layers of a part on a stage", latex=r"L_{k\sigma}", per=("stage", "part")
)
in_flight = symbol(
    "A_ks",
    "layers of a part on a stage times micro-batches alive",
    latex=r"A_{k\sigma}",
    per=("stage", "part"),
)

recomputed_in_flight = symbol(
    "R_ks",
    "of these, those that are recomputed",
    latex=r"R_{k\sigma}",
    per=("stage", "part"),
)
copies_on_stage = symbol(
    "held_sc",
    "how often a stage holds a component",
    latex=r"L_{\sigma c}",
    per=("stage", "component"),
)
first_on_stage = symbol(
    "first_sc",
    "whether a component is the first of its shape on a stage",
    latex=r"\delta_{\sigma c}",
    per=("stage", "component"),
)

# Bytes of one parameter and of one activation: the recipe of the precision
k_w = symbol("k_w", "bytes of a weight", unit="bytes", latex="k_w", key="training.bytes.weight")
k_g = symbol("k_g", "bytes of a gradient", unit="bytes", latex="k_g", key="training.bytes.gradient")
k_m = symbol(
    "k_m", "bytes of a master weight", unit="bytes", latex="k_m", key="training.bytes.master"
)
k_G = symbol(
    "k_G",
    "bytes of a gradient's copy for the optimizer",
    unit="bytes",
    latex="k_G",
    key="training.bytes.main_gradient",
)
k_o = symbol(
    "k_o", "bytes of one optimizer state", unit="bytes", latex="k_o", key="training.bytes.state"
)
k_c = symbol(
    "k_c",
    "bytes of a weight's copy in the compute format",
    unit="bytes",
    latex="k_c",
    key="training.bytes.compute",
)
k_red = symbol(
    "k_red",
    "bytes of a gradient being reduced",
    unit="bytes",
    latex=r"k_{\mathrm{red}}",
    key="training.bytes.reduce",
)
k_quant = symbol(
    "k_quant",
    "bytes of a weight's quantized copies",
    unit="bytes",
    latex=r"k_{\mathrm{quant}}",
    key="training.bytes.quantized",
)
k_a = symbol(
    "k_a", "bytes of an activation", unit="bytes", latex="k_a", key="training.bytes.activation"
)
k_disp = symbol(
    "k_disp",
    "bytes of a value on its way to an expert",
    unit="bytes",
    latex=r"k_{\mathrm{disp}}",
    key="training.bytes.dispatch",
)
k_gat = symbol(
    "k_gat",
    "bytes of a weight being gathered",
    unit="bytes",
    latex=r"k_{\mathrm{gat}}",
    key="training.bytes.gather",
)

k_l = symbol("k_l", "rank of the adapters", latex=r"r_{\mathrm{LoRA}}", key="training.lora.rank")
k_t = symbol(
    "k_t",
    "bytes of an optimizer's step counter",
    unit="bytes",
    latex="k_t",
    key="training.bytes.step",
)
tensors_c = symbol(
    "tensors_c", "weight tensors of the component", latex=r"n_{w,c}", per=("component",)
)
d_rot = symbol(
    "d_rot",
    "head size of the rotary tables",
    latex=r"d_{\mathrm{rot}}",
    key="model.attention.head_dim",
)

k_kv = symbol(
    "k_kv",
    "bytes of an element of the cache",
    unit="bytes",
    latex=r"k_{kv}",
    key="training.bytes.cache",
)
s_o = symbol("s_o", "tokens generated", latex="s_o", key="training.output_tokens")
f_off = symbol(
    "f_off",
    "share of the activations that lies on the host",
    latex=r"f_{\mathrm{off}}",
    key="training.offload.activations",
)
gamma = symbol(
    "gamma",
    "rows of the fullest device over the mean",
    latex=r"\gamma",
    key="training.expert_imbalance",
    only_formulas=True,
    kind="assumed",
    neutral=1,
)
n_lc = symbol("n_lc", "chunks of the loss", latex=r"n_{\mathrm{lc}}", key="training.loss_chunks")
M_oth = symbol(
    "M_oth",
    "further memory",
    unit="bytes",
    latex=r"M_{\mathrm{oth}}",
    key="memory.other",
)

# One tensor of the implementation's profile
rows_j = symbol("rows_j", "rows", latex="n_j", per=("tensor",))
width_j = symbol("width_j", "elements of a row", latex="w_j", per=("tensor",))
bytes_j = symbol("bytes_j", "bytes of an element", unit="bytes", latex="k_j", per=("tensor",))
ranks_j = symbol("ranks_j", "devices that share it", latex="r_j", per=("tensor",))

# What a device holds besides the model
M_dev = symbol(
    "M_dev",
    "memory of a device",
    unit="bytes",
    latex=r"M_{\mathrm{dev}}",
    key="cluster.accelerator.memory_usable",
)
M_ctx = symbol(
    "M_ctx",
    "memory of the device context",
    unit="bytes",
    latex=r"M_{\mathrm{ctx}}",
    key="memory.context",
)
M_com = symbol(
    "M_com",
    "memory of one communicator",
    unit="bytes",
    latex=r"M_{\mathrm{com}}",
    key="memory.communicator",
)
M_work = symbol(
    "M_work",
    "workspace of the matmul library",
    unit="bytes",
    latex=r"M_{\mathrm{work}}",
    key="memory.workspace",
)
n_ws = symbol("n_ws", "such workspaces", latex=r"n_{\mathrm{ws}}", key="memory.workspaces")
n_pc = symbol(
    "n_pc",
    "communicators of a device in its pipeline",
    latex=r"n_{\mathrm{pc}}",
    key="memory.pipeline_communicators",
)
n_bk = symbol("n_bk", "buckets of gradients", latex=r"n_{\mathrm{bk}}", key="memory.buckets")
N_bk = symbol(
    "N_bk",
    "parameters of a bucket",
    unit="parameters",
    latex=r"N_{\mathrm{bk}}",
    key="memory.bucket_size",
)
N_live = symbol(
    "N_live",
    "parameters kept gathered besides the layers at work",
    unit="parameters",
    latex=r"N_{\mathrm{live}}",
    key="memory.live_parameters",
)
f_all = symbol(
    "f_all",
    "gaps that the allocator cannot fill, as a share of live tensors",
    latex=r"f_{\mathrm{all}}",
    key="memory.allocator_share",
)
f_95 = symbol(
    "f_95",
    "what a process may take beyond the prediction, as a share of it (95th percentile)",
    latex=r"f_{95}",
    key="memory.margin",
)

# A convention of utilisation: bound to expressions by planner/engine/flop_conventions.py
C_conv = symbol(
    "C_conv",
    "FLOPs of a token that the convention counts",
    unit="FLOP",
    latex=r"C_\kappa",
    per=("convention",),
)
