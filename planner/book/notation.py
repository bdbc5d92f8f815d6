"""The symbol table: symbol, meaning, document key, LaTeX and unit of every input.

Megatron papers first (Narayanan et al. 2021, arXiv 2104.04473; Korthikanti et al. 2022, arXiv
2205.05198). A symbol ``per_block`` has one value for each block of each layer kind; its key then is
``BLOCK.KEY`` as in a model document. Order here is the order of factors in print.
Formulas and the inventory import all of it: a list of letters above each would say nothing.
"""

from functools import partial

from planner.book.quantity import symbol

per_block = partial(symbol, per="block")
per_component = partial(symbol, per="component")
bytes_of = partial(symbol, unit="bytes")
in_format = partial(bytes_of, under="training.bytes.")
of_memory = partial(bytes_of, under="memory.")
settled = partial(symbol, under="memory.")
in_buckets = partial(settled, unit="parameters")
offloaded = partial(symbol, under="training.offload.")
degree = partial(symbol, under="parallelism.")
bytes_per_second = partial(symbol, unit="bytes/s", letter=r"\beta")
hop_time = partial(symbol, unit="s", letter=r"\alpha")
assumed = partial(symbol, kind="assumed")
of_failures = partial(symbol, kind="measured", under="cluster.failures.")
#: Nothing but formulas reads their keys.
formula_input = partial(symbol, only_formulas=True)
of_accelerator = partial(symbol, under="cluster.accelerator.")
peak_rate = partial(of_accelerator, unit="FLOP/s")
link_hop = partial(hop_time, under="cluster.accelerator.link.")
printed = partial(formula_input, under="cluster.accelerator.")
of_network = partial(formula_input, under="cluster.network.")
#: Shares that runs sustain, and other facts of ``time.efficiency``: assumed, where no run was ever
#: held against them. A share is η; what something takes over its best is κ; a power is χ.
efficiency = partial(assumed, under="time.efficiency.")
sustained = partial(efficiency, letter=r"\eta")
excess = partial(efficiency, letter=r"\kappa")
exponent = partial(efficiency, letter=r"\chi")
lasting = partial(efficiency, unit="s")
wait = partial(lasting, letter=r"\alpha")
#: Of a step of decoding, by the engine that serves.
of_decoding = partial(lasting, under="time.efficiency.decode_")
#: 1 or 0.
whether = partial(symbol, under="time.", letter=r"\delta")


# Sequence and batch
b = symbol("b", "sequences per device and forward pass (micro-batch)", "training.micro_batch")
B = symbol("B", "sequences per optimizer step (global batch)", "training.global_batch")
s = symbol("s", "sequence length in tokens", "training.sequence_length")
s_dec = symbol("s_dec", "sequence length of the decoder", "training.decoder_sequence_length")
s_cap = symbol("s_cap", "longest example in tokens", "training.example_tokens.cap")
s_ex = symbol("s_ex", "mean tokens of an example", "training.example_tokens.mean")
T = formula_input("T", "training tokens", "training.tokens")
n_img = symbol("n_img", "images of a sequence", "training.vision.items")
s_img = symbol("s_img", "tokens of an image in its tower", "training.vision.tokens")
n_clip = symbol("n_clip", "clips of a sequence", "training.audio.items")
s_clip = symbol("s_clip", "tokens of a clip in its tower", "training.audio.tokens")
s_ctx = symbol("s_ctx", "tokens of the context of a sequence", "training.context_tokens")
x_tok = symbol("x_tok", "tokens of a stack for each token of the model", per="stack")

# Model
L = symbol("L", "layers", "model.layers")
h = symbol("h", "hidden size", "model.hidden")
V = symbol("V", "vocabulary size", "model.vocab")
s_max = symbol("s_max", "longest sequence", "model.max_sequence", latex=r"s_{\max}")
N_given = symbol("N", "parameters, as given", "model.parameters")
L_k = symbol("L_k", "layers of this kind", per="part")

# Attention
a = per_block("a", "query heads", "attention.heads")
a_kv = per_block("a_kv", "key/value heads", "attention.kv_heads", latex=r"a_{kv}")
d_h = per_block("d_h", "head size", "attention.head_dim")
d_v = per_block("d_v", "value head size", "attention.value_head_dim")
r_q = per_block("r_q", "rank of the query", "attention.query_rank")
r_kv = per_block("r_kv", "rank of keys and values", "attention.kv_rank", latex=r"r_{kv}")
d_n = per_block("d_n", "head size without positions", "attention.nope_dim")
d_r = per_block("d_r", "rotary head size", "attention.rope_dim")
w = per_block("w", "attention window", "attention.window")
r_aa = per_block("r_aa", "rank of adapters of attention", "attention.adapter_rank")
a_i = per_block("a_i", "indexer heads", "attention.index_heads")
d_i = per_block("d_i", "indexer head size", "attention.index_head_dim")
k_i = per_block("k_i", "keys that an indexer picks", "attention.index_top_k")
p_i = per_block("p_i", "tokens that a key of the indexer stands for", "attention.index_pool")
r_c = per_block("r_c", "tokens that a compressed key stands for", "attention.compress")
g_o = per_block("g_o", "groups of the output projection", "attention.output_groups")
r_o = per_block("r_o", "width that each of them gives", "attention.output_rank")

# Feed-forward
f = per_block("f", "feed-forward width", "mlp.intermediate")
n_gates = per_block("n_gates", "gates beyond the first", "mlp.further", latex="n_gate")
r_ma = per_block("r_ma", "rank of adapters of the feed-forward", "mlp.adapter_rank")
n_act = per_block("n_act", "learned scalars of the activation", "mlp.activation_parameters")
E = per_block("E", "experts", "moe.experts")
k = per_block("k", "experts per token", "moe.top_k")
G_r = per_block(
    "G_r", "groups of experts of the router", "moe.router_groups", latex=r"G_{\mathrm{r}}"
)
g_r = per_block(
    "g_r",
    "groups of which a token's experts come",
    "moe.router_group_top_k",
    latex=r"g_{\mathrm{r}}",
)
f_cap = per_block("f_cap", "slots of an expert over its even share", "moe.capacity_factor")
f_e = per_block("f_e", "width of one expert", "moe.intermediate")
f_s = per_block("f_s", "width of the shared experts", "moe.shared_intermediate")
E_0 = per_block("E_0", "experts without weights", "moe.zero_experts")
n_rs = per_block("n_rs", "learned scales of the router", "moe.router_scales")
h_l = per_block("h_l", "width that the experts see", "moe.latent")

# State space, linear attention, convolution
m_in = per_block("m_in", "inner width of Mamba", "mamba.inner")
n_st = per_block("n_st", "state of one channel", "mamba.state")
a_m = per_block("a_m", "Mamba heads", "mamba.heads")
g_m = per_block("g_m", "Mamba groups", "mamba.groups")
k_conv = per_block("k_conv", "kernel of its convolution", "mamba.conv_kernel")
r_dt = per_block("r_dt", "rank of the step size", "mamba.dt_rank", latex=r"r_{\Delta}")
c_m = per_block("c_m", "chunk of the scan", "mamba.chunk")
a_dk = per_block("a_dk", "delta-net key heads", "delta_net.key_heads", latex=r"a_{\delta k}")
a_dv = per_block("a_dv", "delta-net value heads", "delta_net.value_heads", latex=r"a_{\delta v}")
d_dk = per_block("d_dk", "delta-net key head size", "delta_net.key_head_dim", latex=r"d_{\delta k}")
d_dv = per_block(
    "d_dv", "delta-net value head size", "delta_net.value_head_dim", latex=r"d_{\delta v}"
)
k_d = per_block("k_d", "its convolution", "delta_net.conv_kernel", latex=r"k_\delta")
r_g = per_block("r_g", "rank of its gates", "delta_net.gate_rank")
c_d = per_block("c_d", "chunk of the scan", "delta_net.chunk", latex=r"c_\delta")
k_s = per_block("k_s", "its convolution", "short_conv.kernel")
w_r = per_block("w_r", "width of the recurrence", "recurrence.width")
a_r = per_block("a_r", "blocks of its gates", "recurrence.heads")
k_r = per_block("k_r", "width of its convolution", "recurrence.conv_kernel")
w_rw = per_block("w_rw", "channels of RWKV", "rwkv.width")
a_l = per_block("a_l", "lightning heads", "lightning.heads")
d_l = per_block("d_l", "lightning head size", "lightning.head_dim")
c_l = per_block("c_l", "chunk of the scan", "lightning.chunk")

# Matrices in front of a tower and behind it, and rows that are learned
w_in = per_block("w_in", "width of what a matrix reads", "matrix.inputs")
w_out = per_block("w_out", "width of what a matrix gives", "matrix.outputs")
w_nm = per_block("w_nm", "width of the norm before a matrix", "matrix.norm_width")
n_mat = per_block("n_mat", "such matrices side by side", "matrix.copies")
n_lrn = per_block("n_lrn", "learned rows", "learned.rows")

# Embedding
h_e = symbol("h_e", "embedding width", "model.embedding_dim")
s_off = symbol("s_off", "further positions", "model.position_offset", latex=r"s_{+}")
n_seg = symbol("n_seg", "segments", "model.token_types")
n_lab = symbol("n_lab", "labels of the classifier", "model.classifier.labels", latex=r"n_\ell")
h_p = per_block("h_p", "per-layer width", "per_layer_embedding.width")
V_p = per_block("V_p", "per-layer vocabulary", "per_layer_embedding.vocab")
n_alt = per_block("n_alt", "parts of the residual stream", "altup.inputs")
n_hyp = per_block("n_hyp", "parts of the residual stream", "hyper.inputs")
r_la = per_block("r_la", "rank of the augmented residual", "laurel.rank")
n_rel_own = per_block(
    "n_rel_l", "buckets of distance of a layer", "attention.relative_buckets", latex=r"n_{rel,\ell}"
)
n_rel = per_block("n_rel", "buckets of distance", "positions.relative_buckets")
a_rel = per_block("a_rel", "heads of that table", "positions.heads")

# Component: bound by the inventory to expressions in the symbols above
n_in = per_component("n_in", "input width")
n_out = per_component("n_out", "output width")
copies = per_component("copies", "copies of the component", latex=r"n_c")
c_key = per_component("c_key", "tokens that one of its keys stands for")
n_key = per_component("n_key", "keys of a sequence")
m_key = per_component("m_key", "keys that a window or an indexer leaves of them at most")
m_run = per_component("m_run", "those as kernels run them, of a window in whole blocks")
applied = per_component("applied", "copies that one token uses", latex=r"n_u")

# Layout
n = symbol("n", "devices", "cluster.devices")
n_node = symbol(
    "n_node", "devices of a node, or of several whose devices one link joins", "cluster.link_domain"
)
n_host = symbol("n_host", "devices that share a host's memory", "cluster.devices_per_node")
t = degree("t", "tensor-parallel size", "tensor")
p = degree("p", "pipeline-parallel size", "pipeline")
c = degree("c", "context-parallel size", "context")
e = degree("e", "expert-parallel size", "expert")
v = degree("v", "virtual stages per device", "virtual_pipeline")
t_e = degree("t_e", "tensor-parallel size in experts", "expert_tensor")
r = degree("r", "replicas of hybrid sharding", "replicate")
g_V = degree("g_V", "the padded vocabulary per tensor rank is a multiple of it", "vocab_multiple")
part_on_stage = partial(symbol, per="stage part")
component_on_stage = partial(symbol, per="stage component")
layers_on_stage = part_on_stage("L_ks", "layers of a part on a stage", latex=r"L_{k\sigma}")
in_flight = part_on_stage(
    "A_ks", "layers of a part on a stage times micro-batches alive", latex=r"A_{k\sigma}"
)
recomputed_in_flight = part_on_stage(
    "R_ks", "of these, those that are recomputed", latex=r"R_{k\sigma}"
)
in_flight_on_run = part_on_stage(
    "A_kr",
    "layers of a part times micro-batches alive, on all stages that hold the same",
    latex=r"A_{k\sigma}^{\Sigma}",
)
recomputed_on_run = part_on_stage(
    "R_kr", "of these, those that are recomputed", latex=r"R_{k\sigma}^{\Sigma}"
)
alike = symbol("n_alike", "stages in a row that hold the same", latex=r"n_{\sigma}", per="stage")
copies_on_stage = component_on_stage(
    "held_sc", "how often a stage holds a component", latex=r"L_{\sigma c}"
)
first_on_stage = component_on_stage(
    "first_sc",
    "whether a component is the first of its shape on a stage",
    latex=r"\delta_{\sigma c}",
)

# Bytes of one parameter and of one activation: the recipe of the precision
k_w = in_format("k_w", "bytes of a weight", "weight")
k_g = in_format("k_g", "bytes of a gradient", "gradient")
k_m = in_format("k_m", "bytes of a master weight", "master")
k_G = in_format("k_G", "bytes of a gradient's copy for the optimizer", "main_gradient")
k_o = in_format("k_o", "bytes of one optimizer state", "state")
k_c = in_format("k_c", "bytes of a weight's copy in the compute format", "compute")
k_red = in_format("k_red", "bytes of a gradient being reduced", "reduce")
k_quant = in_format("k_quant", "bytes of a weight's quantized copies", "quantized")
k_a = in_format("k_a", "bytes of an activation", "activation")
k_ref = in_format("k_ref", "bytes of a weight of the reference model", "reference")
k_z = in_format("k_z", "bytes of a logit in the loss", "logit")
k_disp = in_format("k_disp", "bytes of a value on its way to an expert", "dispatch")
k_comb = in_format("k_comb", "bytes of a value on its way back from an expert", "combine")
k_gat = in_format("k_gat", "bytes of a weight being gathered", "gather")
k_l = symbol("k_l", "rank of the adapters", "training.lora.rank", latex="r_LoRA")
p_lora = whether("p_lora", "whether the adapters' dropout runs", "lora_dropout")
p_dora = symbol(
    "p_dora",
    "magnitudes of an adapter, a vector of its outputs",
    "training.lora.dora",
    letter=r"\delta",
)
k_t = in_format("k_t", "bytes of an optimizer's step counter", "step")
n_ns = symbol("n_ns", "Newton-Schulz iterations of Muon", "training.muon.iterations", latex="n_NS")
n_basis = symbol(
    "n_basis", "steps after which SOAP renews its bases", "training.soap.frequency", latex="n_Q"
)
s_basis = symbol(
    "s_basis", "longest side that SOAP has a basis of", "training.soap.largest_side", latex="s_Q"
)
n_side = per_component(
    "n_side", "matrices that lie side by side as one, this and others", latex=r"n_{\mathrm{j},c}"
)
tensors_c = per_component("tensors_c", "weight tensors of the component", latex=r"n_{w,c}")
d_rot = symbol("d_rot", "head size of the rotary tables", "model.attention.head_dim")
k_kv = in_format("k_kv", "bytes of an element of the cache", "cache", latex=r"k_{kv}")
s_o = symbol("s_o", "tokens generated", "training.output_tokens")
n_q = symbol("n_q", "tokens of a sequence that a step of decoding computes")
f_off = offloaded("f_off", "share of the activations that lies on the host", "activations")
f_w = offloaded(
    "f_w", "share of the weights that lies on the host", "parameters", latex="f_{off,w}"
)
f_g = offloaded(
    "f_g", "share of the gradients that lies on the host", "gradients", latex="f_{off,g}"
)
f_o = offloaded(
    "f_o",
    "share of master weights and optimizer states that lies on the host",
    "optimizer",
    latex="f_{off,o}",
)
gamma = formula_input(
    "gamma",
    "rows of the fullest device over the mean",
    "training.expert_imbalance",
    latex=r"\gamma",
    kind="assumed",
    neutral=1,
)
n_lc = symbol("n_lc", "chunks of the loss", "training.loss_chunks")
P_tea = symbol("P_tea", "parameters of the teacher", unit="parameters")
n_read = symbol("n_read", "forward passes without a backward pass", "training.read_passes")
M_oth = of_memory("M_oth", "further memory", "other")

# One tensor of the implementation's profile
rows_j = symbol("rows_j", "rows", latex="n_j", per="tensor")
width_j = symbol("width_j", "elements of a row", latex="w_j", per="tensor")
bytes_j = bytes_of("bytes_j", "bytes of an element", latex="k_j", per="tensor")
ranks_j = symbol("ranks_j", "devices that share it", latex="r_j", per="tensor")

# What a device holds besides the model
M_dev = bytes_of("M_dev", "memory of a device", "cluster.accelerator.memory_usable")
M_node = bytes_of("M_node", "memory of the host of a node", "cluster.node_memory")
M_ctx = of_memory("M_ctx", "memory of the device context", "context")
M_com = of_memory("M_com", "memory of one communicator", "communicator")
M_ch = of_memory("M_ch", "buffers of one channel to one other device", "channel")
n_ch = settled("n_ch", "channels to each other device of the node", "channels")
M_work = of_memory("M_work", "workspace of the matmul library", "workspace")
n_ws = settled("n_ws", "such workspaces", "workspaces")
n_pc = settled("n_pc", "communicators of a device in its pipeline", "pipeline_communicators")
n_bk = settled("n_bk", "buckets of gradients", "buckets")
N_bk = in_buckets("N_bk", "parameters of a bucket", "bucket_size")
N_upd = in_buckets(
    "N_upd", "parameters whose gradients are copied at once for the update", "update_group"
)
N_live = in_buckets(
    "N_live", "parameters kept gathered besides the layers at work", "live_parameters"
)
f_all = settled(
    "f_all", "gaps that the allocator cannot fill, as a share of live tensors", "allocator_share"
)
f_95 = settled(
    "f_95",
    "what live tensors may take beyond the prediction, as a share of it (95th percentile)",
    "margin",
)

# A convention of utilisation: bound to expressions by planner/engine/flop_conventions.py
C_conv = symbol(
    "C_conv",
    "FLOPs of a token that the convention counts",
    latex=r"C_\kappa",
    unit="FLOP",
    per="convention",
)

# Hardware, prices and what a plan assumes about speed
P_listed = peak_rate(
    "P_listed",
    "peak rate of the training precision, as the datasheet prints it",
    "peak.value",
    latex="R_sheet",
)
n_bub = symbol(
    "n_bub",
    "passes of a stage, forward and backward, as long as the bubble of a schedule of one's own",
    "time.bubble",
)
mfu_assumed = formula_input(
    "mfu_assumed", "assumed model FLOPs utilisation", "time.mfu", latex="u_given", kind="assumed"
)
of_site = partial(formula_input, under="cluster.")
hourly = partial(of_site, unit="USD/h", cited=True)
billed = partial(formula_input, under="cluster.bill.", unit="s")
price = hourly("price", "price of one device for one hour", "price", latex=r"\pi_{\mathrm{h}}")
reserved_price = hourly(
    "reserved_price",
    "price of one device for one hour under a long commitment",
    "reserved_price",
    latex=r"\pi_res",
)
power = printed("power", "largest sustained power of one device", "power", latex="P_dev", unit="W")
host_power = of_site(
    "host_power",
    "power per device outside the accelerators",
    "host_power",
    latex="P_host",
    unit="W",
)
pue = of_site("pue", "power usage effectiveness of the site", "pue", latex=r"\mathrm{PUE}")
carbon_intensity = of_site(
    "carbon_intensity",
    "carbon dioxide equivalent per energy",
    "carbon_intensity",
    latex=r"\gamma",
    unit="kgCO2e/kWh",
)

demand_price = hourly(
    "demand_price", "price of one device for one hour without commitment", "on_demand_price",
    latex=r"\pi_dem",
)  # fmt: skip
x_spot = symbol("x_spot", "share of the run on spot devices", "cluster.spot_share")
electricity_price = of_site(
    "electricity_price",
    "price of electricity",
    "electricity_price",
    latex=r"\pi_kWh",
    unit="USD/kWh",
)
t_inc = billed("t_inc", "time in whole multiples of which devices are billed", "increment")
t_least = billed("t_least", "shortest time that is billed", "minimum")
V_kept = billed("V_kept", "bytes stored for as long as the run takes", "stored", unit="bytes")
V_sent = billed("V_sent", "bytes sent out of the provider's network", "sent", unit="bytes")
storage_price = billed(
    "storage_price", "price of storage", "storage_price", latex=r"\pi_kept", unit="USD/GB/month"
)
egress_price = billed(
    "egress_price", "price of sending data out", "egress_price", latex=r"\pi_sent", unit="USD/GB"
)

# Rates of the hardware, as its documents print them
P_16 = peak_rate(
    "P_16",
    "peak rate of 16-bit products, as the datasheet prints it",
    "peak_16.value",
    latex=r"R_{16,\mathrm{sheet}}",
)
P_32 = peak_rate("P_32", "dense peak rate of 32-bit products", "peaks.fp32.value", latex=r"R_{32}")
W = printed("W", "bandwidth of the device's memory", "memory_bandwidth", unit="bytes/s")
n_sm = of_accelerator("n_sm", "multiprocessors", "multiprocessors", latex="n_SM")
f_clk = of_accelerator("f_clk", "clock", "clock", unit="1/s")
n_mxu = of_accelerator("n_mxu", "rows, and columns, of a systolic matrix unit", "matrix_unit.width")
n_prog = of_accelerator(
    "n_prog", "parts of a device that run programs of their own", "matrix_unit.programs"
)
B_link = bytes_per_second(
    "B_link",
    "bandwidth of the link inside a node, as the datasheet prints it",
    "cluster.accelerator.link.bandwidth",
    only_formulas=True,
)
n_ax = of_accelerator("n_ax", "axes of the torus", "link.axes")
n_X = symbol("n_X", "devices along the first axis of the torus", "cluster.sides.x")
n_Y = symbol("n_Y", "devices along its second axis", "cluster.sides.y")
n_Z = symbol("n_Z", "devices along its third axis", "cluster.sides.z")
a_link = link_hop("a_link", "time of one hop inside a node", "latency")
a_sw = link_hop(
    "a_sw", "time of a collective of no size that the link's switches carry out", "switch_latency"
)
e_sw = of_accelerator(
    "e_sw",
    "share of what collectives sustain of the link that its switches reach where they add up",
    "link.switch_share",
    latex=r"\eta_sw",
)
B_net = of_network(
    "B_net",
    "bandwidth of the network, per device and direction",
    "bandwidth",
    letter=r"\beta",
    unit="bytes/s",
)
B_sus = bytes_per_second(
    "B_sus",
    "what collectives were measured to reach of the network, per device and direction",
    "cluster.network.sustained",
    kind="measured",
)
a_net = of_network("a_net", "time of one hop between nodes", "latency", letter=r"\alpha", unit="s")
o_net = of_network("o_net", "oversubscription of the network", "oversubscription", latex=r"\omega")
n_pod = symbol("n_pod", "devices that switches join at full rate", "cluster.network.pod")
B_host = bytes_per_second(
    "B_host", "rate between a device and its host's memory, one direction", "time.host_link"
)
B_dram = bytes_per_second(
    "B_dram",
    "rate at which a host's processors read and write its memory",
    "time.host_memory",
    latex="W_host",
)

# Shares of those rates that runs sustain: calibrated facts (presets/efficiency)
e_mm = sustained(
    "e_mm",
    "matmul efficiency, the share of the peak that large matmuls reach in the training precision",
    "matmul",
    latex=r"\eta",
)
e_16 = sustained("e_16", "share of the peak that large 16-bit products sustain", "matmul_16")
e_att = sustained("e_att", "share of the kernel's rate that fused attention sustains", "attention")
q_8 = efficiency("q_8", "rate of fused attention in 8 bit, relative to 16 bit", "attention_8bit")
e_mem = sustained("e_mem", "share of the memory's bandwidth that kernels sustain", "memory")
e_link = sustained("e_link", "share of the link that collectives sustain", "link")
e_net = sustained("e_net", "share of the network that collectives sustain", "network")
e_a2a = sustained("e_a2a", "rate of an all-to-all relative to other collectives", "all_to_all")
e_disp = sustained(
    "e_disp", "share of a network card that kernels reach which send a token once", "dispatch"
)
e_kl = sustained("e_kl", "share of the link's bandwidth that these reach", "dispatch_link")
a_row = wait(
    "a_row", "time that these take for each row besides its bytes", "dispatch_row", unit="s/tokens"
)
a_meet = wait("a_meet", "time that ranks wait for one another at an exchange", "exchange_wait")
a_disp = wait(
    "a_disp",
    "time of one exchange of tokens in which the host learns how many rows come",
    "dispatch_latency",
)
c_ov = efficiency(
    "c_ov",
    "share of its time that traffic beside products still costs",
    "contention",
    latex=r"\theta",
)
d_min = efficiency(
    "d_min",
    "depth at which products run at half of their rate, for each TFLOP/s of a multiprocessor",
    "small_dimension",
    latex=r"d_{1/2}",
)
k_64 = excess("k_64", "slowdown of products whose widths are no multiple of 64", "alignment")
k_8 = excess(
    "k_8",
    "slowdown of products whose widths are no multiple of 8",
    "alignment_8",
    latex=r"\kappa_{8}",
)
k_ew = excess(
    "k_ew",
    "memory traffic of the implementation's elementwise kernels, relative to fused ones",
    "elementwise",
)
n_la = efficiency("n_la", "kernels that the host launches for one layer and pass", "launches")
n_one = efficiency(
    "n_one",
    "kernels that the host launches for one expert and pass, where experts run one by one",
    "expert_launches",
)
t_la = lasting("t_la", "host time of one launch", "launch")
# What was chosen by hand where nothing that was published decides: assumed (presets/efficiency)
k_128 = excess(
    "k_128", "what tiles of 128 x 128 cost, over larger ones, for the same work", "small_tile"
)
x_head = exponent(
    "x_head",
    "power with which the rate of fused attention falls where heads are smaller than 128",
    "head_exponent",
)
e_back = sustained(
    "e_back", "rate of fused attention backward, relative to forward", "attention_backward"
)
n_blk = efficiency("n_blk", "queries and keys of one block of fused attention", "attention_block")
n_mix = efficiency(
    "n_mix",
    "accesses of each of twice the hidden size by convolution, scan and gate",
    "mixer_accesses",
)
n_emb = efficiency(
    "n_emb", "accesses of each value of the embedding, forward and backward", "embedding_accesses"
)
q_grp = efficiency("q_grp", "rate of grouped products, relative to other large ones", "grouped")
q_back = efficiency(
    "q_back",
    "memory traffic of elementwise kernels backward, relative to forward",
    "elementwise_backward",
)
n_ends = efficiency(
    "n_ends", "kernels that the host launches for lookup, logits and loss", "end_launches"
)
n_ring = efficiency(
    "n_ring",
    "kernels that the host launches for a block of keys and values of another rank",
    "ring_launches",
)
# A step of decoding, by the engine that serves (presets/efficiency/engines.yaml)
t_stp = of_decoding("t_stp", "host time of a step of decoding that the device waits for", "step")
t_seq = of_decoding("t_seq", "the same for each sequence", "sequence")
t_hk = of_decoding("t_hk", "host time of one kernel of a step of decoding", "launch")
t_gap = of_decoding("t_gap", "time of a kernel besides its work", "gap")
n_row = efficiency("n_row", "rows that a matmul computes at least", "decode_rows")
a_ar = of_decoding("a_ar", "time of an engine's all-reduce of no size", "all_reduce")
x_ar = of_decoding("x_ar", "the same for each doubling of its ranks", "all_reduce_doubling")
e_ar = sustained(
    "e_ar",
    "share of what collectives sustain of the link that an engine's all-reduce reaches",
    "decode_all_reduce_share",
)
e_few = sustained("e_few", "rate of a small all-to-all over a large one", "decode_all_to_all")
e_qr = efficiency(
    "e_qr", "share of the 32-bit peak that QR decompositions reach", "decomposition", letter=r"\eta"
)
f_disp = efficiency(
    "f_disp",
    "share of the multiprocessors that exchanges beside products take",
    "exchange_share",
    latex=r"\phi_ex",
)
p_drop = whether("p_drop", "whether dropout runs", "dropout")
k_x = in_format("k_x", "bytes of an element of the products' inputs", "input")
n_cast = symbol("n_cast", "reads of an input to cast it", "time.cast_reads")
p_rope = whether("p_rope", "whether positions are rotary", "rope")

# One matrix product on one device
N_x = symbol("N_x", "columns of a product on one device", per="product")
K_x = symbol("K_x", "depth of a product on one device", per="product")
N_ad = symbol("N_ad", "columns of a product that adapters stand beside", per="product")
p_ad = symbol("p_ad", "whether one adapter stands beside all columns of a product", per="product")
n_ad = symbol("n_ad", "adapters beside a product, each with its own input", per="product")

# One collective over a group of devices
D_X = symbol(
    "D_X", "bytes of a collective, as nccl-tests counts them", unit="bytes", per="collective"
)

# The run around the step
n_fail = of_failures("n_fail", "interruptions that were counted", "count")
n_seen = of_failures("n_seen", "devices on which they were counted", "devices")
t_seen = of_failures("t_seen", "time over which they were counted", "period", unit="s")
B_sto = bytes_per_second(
    "B_sto", "rate at which the run writes to storage, all devices", "cluster.storage.bandwidth"
)
x_blk = symbol(
    "x_blk",
    "share of the writing of a checkpoint during which training stands still",
    "cluster.storage.blocking",
    letter=r"\sigma",
)
t_res = assumed(
    "t_res", "time from an interruption to the first new step", "time.restart", unit="s"
)
x_slow = assumed(
    "x_slow", "share by which stragglers lengthen a step", "cluster.stragglers", letter=r"\sigma"
)

# Power by use
idle_power = of_accelerator(
    "idle_power", "power of one idle device", "idle_power", latex="P_idle", unit="W"
)
e_own = of_accelerator(
    "e_own", "matmul efficiency at the rated power", "efficiency.matmul.value", latex=r"\eta_dev"
)

# The constants of published scaling laws (presets/scaling). A law is an entry of the axis ``law``.
# Every law says how parameters and tokens grow with compute from a point that it gives; a law of
# the loss says so through the constants of its loss.
of_law = partial(symbol, per="law")
N_l = of_law("N_l", "parameters as the law counts them", latex=r"N_\lambda", unit="parameters")
C_0 = of_law("C_0", "compute at a point of the law", unit="FLOP")
N_0 = of_law("N_0", "optimal parameters there", unit="parameters")
D_0 = of_law("D_0", "optimal tokens there", unit="tokens")
a_N = of_law("a_N", "exponent of optimal parameters over compute")
a_D = of_law("a_D", "exponent of optimal tokens over compute")
E_l = of_law("E_l", "loss that no model goes below", latex=r"E_\lambda")
A_l = of_law("A_l", "loss due to few parameters", latex=r"A_\lambda")
B_l = of_law("B_l", "loss due to few tokens", latex=r"B_\lambda")
x_N = of_law("x_N", "exponent of the parameters in the loss", latex=r"\alpha_\lambda")
x_D = of_law("x_D", "exponent of the tokens in the loss", latex=r"\beta_\lambda")

# Reinforcement learning: what a plan states of a step
of_step = partial(symbol, under="rl.")
n_pr = of_step("n_pr", "prompts of a step", "prompts")
n_smp = of_step("n_smp", "responses to each prompt", "samples")
n_ep = of_step("n_ep", "how often a step trains on each response", "epochs")
n_upd = of_step("n_upd", "optimizer steps of a step and epoch", "updates")
n_rl = of_step("n_rl", "steps of the run", "steps")
s_pr = of_step("s_pr", "mean tokens of a prompt", "prompt_tokens.mean", latex=r"\bar{s}_p")
s_rsp = of_step("s_rsp", "mean tokens of a response", "response_tokens.mean", latex=r"\bar{s}_r")
n_old = of_step("n_old", "whether log-probabilities are computed before the update", "old_logprobs")
n_ref = of_step("n_ref", "whether a reference model gives log-probabilities", "reference")
x_st = of_step("x_st", "steps by which the generating weights may be older", "staleness")
n_ro = of_step("n_ro", "devices of the engine", "rollout.devices")
x_lp = of_step(
    "x_lp",
    "time of a pass for log-probabilities over a forward pass",
    "logprob_excess",
    letter=r"\kappa",
)
t_over = of_step(
    "t_over", "time of a decode step beyond serving", "rollout.step_overhead", unit="s/tokens"
)
n_dr = of_step("n_dr", "drafted tokens of a step", "rollout.speculation.draft_tokens")
x_acc = of_step("x_acc", "share of them that is accepted", "rollout.speculation.acceptance")
t_host = of_step("t_host", "time of a step that is in no phase", "host_seconds", unit="s")
R_swi = of_step("R_swi", "rate at which states move to the host", "switch_rate", unit="bytes/s")
t_ten = of_step("t_ten", "time of a tensor on its way", "sync_tensor_seconds", unit="s")
t_ver = of_step("t_ver", "time of the verifier", "reward_seconds", unit="s")
# And what its other plans and the lengths of its responses come to (planner/engine/rollout.py)
n_eng = symbol("n_eng", "replicas of the engine")
n_slot = symbol("n_slot", "requests that a replica of the engine works on at once")
r_read = symbol("r_read", "rate at which the engine reads prompts", unit="tokens/s")
k_roll = bytes_of("k_roll", "bytes of a weight on its way to the engine")
f_roll = of_step(
    "f_roll", "share of a device's memory that the engine takes", "rollout.memory_share"
)
M_crit = bytes_of("M_crit", "weights, gradients and optimizer states of the critic on one device")
M_cst = bytes_of("M_cst", "weights and optimizer states of the critic on one device")
M_eng = bytes_of("M_eng", "weights of the engine on one device")
M_one = bytes_of("M_one", "the engine on one device with one longest sequence")
t_crit = symbol("t_crit", "update of the critic", unit="s")
t_val = symbol("t_val", "values of the responses by the critic", unit="s")
t_rm = symbol("t_rm", "scores of the responses by the reward model", unit="s")
on_rung = partial(symbol, per="rung")
n_tok_r = on_rung("n_tok_r", "tokens that each request gains", latex=r"n_{\rho}", unit="tokens")
n_req_r = on_rung("n_req_r", "requests that a replica works on", latex=r"n_{q\rho}")
t_tok_r = on_rung("t_tok_r", "time of a step of the engine", latex=r"t_{dec,\rho}", unit="s/tokens")
