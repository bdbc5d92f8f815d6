"""The symbol table's second page: hardware, prices and what a plan assumes about speed."""

import planner.book.notation  # noqa: F401  (symbols are ranked as they are declared)
from planner.book.quantity import symbol

P_listed = symbol(
    "P_listed",
    "peak rate of the training precision, as the datasheet prints it",
    unit="FLOP/s",
    latex=r"R_{\mathrm{sheet}}",
    key="cluster.accelerator.peak.value",
)
mfu_assumed = symbol(
    "mfu_assumed",
    "assumed model FLOPs utilisation",
    latex=r"u_{\mathrm{given}}",
    key="time.mfu",
    only_formulas=True,
    kind="assumed",
)
price = symbol(
    "price",
    "price of one device for one hour",
    unit="USD/h",
    latex=r"\pi_{\mathrm{h}}",
    key="cluster.price",
    only_formulas=True,
    cited=True,
)
reserved_price = symbol(
    "reserved_price",
    "price of one device for one hour under a long commitment",
    unit="USD/h",
    latex=r"\pi_{\mathrm{res}}",
    key="cluster.reserved_price",
    only_formulas=True,
    cited=True,
)
power = symbol(
    "power",
    "largest sustained power of one device",
    unit="W",
    latex=r"P_{\mathrm{dev}}",
    key="cluster.accelerator.power",
    only_formulas=True,
)
host_power = symbol(
    "host_power",
    "power per device outside the accelerators",
    unit="W",
    latex=r"P_{\mathrm{host}}",
    key="cluster.host_power",
    only_formulas=True,
)
pue = symbol(
    "pue",
    "power usage effectiveness of the site",
    latex=r"\mathrm{PUE}",
    key="cluster.pue",
    only_formulas=True,
)
carbon_intensity = symbol(
    "carbon_intensity",
    "carbon dioxide equivalent per energy",
    unit="kgCO2e/kWh",
    latex=r"\gamma",
    key="cluster.carbon_intensity",
    only_formulas=True,
)

# Rates of the hardware, as its documents print them
P_16 = symbol(
    "P_16",
    "peak rate of 16-bit products, as the datasheet prints it",
    unit="FLOP/s",
    latex=r"R_{16,\mathrm{sheet}}",
    key="cluster.accelerator.peak_16.value",
)
W = symbol(
    "W",
    "bandwidth of the device's memory",
    unit="bytes/s",
    latex="W",
    key="cluster.accelerator.memory_bandwidth",
    only_formulas=True,
)
n_sm = symbol(
    "n_sm", "multiprocessors", latex=r"n_{\mathrm{SM}}", key="cluster.accelerator.multiprocessors"
)
f_clk = symbol(
    "f_clk", "clock", unit="1/s", latex=r"f_{\mathrm{clk}}", key="cluster.accelerator.clock"
)
B_link = symbol(
    "B_link",
    "bandwidth of the link inside a node, as the datasheet prints it",
    unit="bytes/s",
    latex=r"\beta_{\mathrm{link}}",
    key="cluster.accelerator.link.bandwidth",
    only_formulas=True,
)
a_link = symbol(
    "a_link",
    "time of one hop inside a node",
    unit="s",
    latex=r"\alpha_{\mathrm{link}}",
    key="cluster.accelerator.link.latency",
)
a_sw = symbol(
    "a_sw",
    "time of a collective of no size that the link's switches carry out",
    unit="s",
    latex=r"\alpha_{\mathrm{sw}}",
    key="cluster.accelerator.link.switch_latency",
)
B_net = symbol(
    "B_net",
    "bandwidth of the network, per device and direction",
    unit="bytes/s",
    latex=r"\beta_{\mathrm{net}}",
    key="cluster.network.bandwidth",
    only_formulas=True,
)
B_sus = symbol(
    "B_sus",
    "what collectives were measured to reach of the network, per device and direction",
    unit="bytes/s",
    latex=r"\beta_{\mathrm{sus}}",
    key="cluster.network.sustained",
    kind="measured",
)
a_net = symbol(
    "a_net",
    "time of one hop between nodes",
    unit="s",
    latex=r"\alpha_{\mathrm{net}}",
    key="cluster.network.latency",
    only_formulas=True,
)
o_net = symbol(
    "o_net",
    "oversubscription of the network",
    latex=r"\omega",
    key="cluster.network.oversubscription",
    only_formulas=True,
)

B_host = symbol(
    "B_host",
    "rate between a device and its host's memory, one direction",
    unit="bytes/s",
    latex=r"\beta_{\mathrm{host}}",
    key="time.host_link",
)
B_dram = symbol(
    "B_dram",
    "rate at which a host's processors read and write its memory",
    unit="bytes/s",
    latex=r"W_{\mathrm{host}}",
    key="time.host_memory",
)

# Shares of those rates that runs sustain: calibrated facts (presets/efficiency)
e_mm = symbol(
    "e_mm",
    "share of the peak that large products sustain, in the training precision",
    latex=r"\eta",
    key="time.efficiency.matmul",
    kind="assumed",
)
e_16 = symbol(
    "e_16",
    "share of the peak that large 16-bit products sustain",
    latex=r"\eta_{16}",
    key="time.efficiency.matmul_16",
    kind="assumed",
)
e_att = symbol(
    "e_att",
    "share of the kernel's rate that fused attention sustains",
    latex=r"\eta_{\mathrm{att}}",
    key="time.efficiency.attention",
    kind="assumed",
)
e_mem = symbol(
    "e_mem",
    "share of the memory's bandwidth that kernels sustain",
    latex=r"\eta_{\mathrm{mem}}",
    key="time.efficiency.memory",
    kind="assumed",
)
e_link = symbol(
    "e_link",
    "share of the link that collectives sustain",
    latex=r"\eta_{\mathrm{link}}",
    key="time.efficiency.link",
    kind="assumed",
)
e_net = symbol(
    "e_net",
    "share of the network that collectives sustain",
    latex=r"\eta_{\mathrm{net}}",
    key="time.efficiency.network",
    kind="assumed",
)
e_a2a = symbol(
    "e_a2a",
    "rate of an all-to-all relative to other collectives",
    latex=r"\eta_{\mathrm{a2a}}",
    key="time.efficiency.all_to_all",
    kind="assumed",
)
e_disp = symbol(
    "e_disp",
    "share of network card and sustained link that DeepEP's kernels reach",
    latex=r"\eta_{\mathrm{disp}}",
    key="time.efficiency.dispatch",
    kind="assumed",
)
hidden_t = symbol(
    "hidden_t",
    "share of traffic that runs beside products, where it is overlapped",
    latex=r"\theta",
    key="time.efficiency.tensor_hidden",
    kind="assumed",
)
d_min = symbol(
    "d_min",
    "depth at which products run at half of their rate, for each TFLOP/s of a multiprocessor",
    latex=r"d_{1/2}",
    key="time.efficiency.small_dimension",
    kind="assumed",
)
k_64 = symbol(
    "k_64",
    "slowdown of products whose widths are no multiple of 64",
    latex=r"\kappa_{64}",
    key="time.efficiency.alignment",
    kind="assumed",
)
k_8 = symbol(
    "k_8",
    "slowdown of products whose widths are no multiple of 8",
    latex=r"\kappa_{8}",
    key="time.efficiency.alignment_8",
    kind="assumed",
)
k_ew = symbol(
    "k_ew",
    "memory traffic of the implementation's elementwise kernels, relative to fused ones",
    latex=r"\kappa_{\mathrm{ew}}",
    key="time.efficiency.elementwise",
    kind="assumed",
)
n_la = symbol(
    "n_la",
    "kernels that the host launches for one layer and pass",
    latex=r"n_{\mathrm{la}}",
    key="time.efficiency.launches",
    kind="assumed",
)
t_la = symbol(
    "t_la",
    "host time of one launch",
    unit="s",
    latex=r"t_{\mathrm{la}}",
    key="time.efficiency.launch",
    kind="assumed",
)
# What was chosen by hand where nothing that was published decides: assumed (presets/efficiency)
k_128 = symbol(
    "k_128",
    "what tiles of 128 x 128 cost, over larger ones, for the same work",
    latex=r"\kappa_{128}",
    key="time.efficiency.small_tile",
    kind="assumed",
)
x_head = symbol(
    "x_head",
    "power with which the rate of fused attention falls where heads are smaller than 128",
    latex=r"\chi_{\mathrm{head}}",
    key="time.efficiency.head_exponent",
    kind="assumed",
)
e_back = symbol(
    "e_back",
    "rate of fused attention backward, relative to forward",
    latex=r"\eta_{\mathrm{back}}",
    key="time.efficiency.attention_backward",
    kind="assumed",
)
n_blk = symbol(
    "n_blk",
    "queries and keys of one block of fused attention",
    latex=r"n_{\mathrm{blk}}",
    key="time.efficiency.attention_block",
    kind="assumed",
)
n_mix = symbol(
    "n_mix",
    "accesses of each of twice the hidden size by convolution, scan and gate",
    latex=r"n_{\mathrm{mix}}",
    key="time.efficiency.mixer_accesses",
    kind="assumed",
)
n_emb = symbol(
    "n_emb",
    "accesses of each value of the embedding, forward and backward",
    latex=r"n_{\mathrm{emb}}",
    key="time.efficiency.embedding_accesses",
    kind="assumed",
)
q_back = symbol(
    "q_back",
    "memory traffic of elementwise kernels backward, relative to forward",
    latex=r"q_{\mathrm{back}}",
    key="time.efficiency.elementwise_backward",
    kind="assumed",
)
n_ends = symbol(
    "n_ends",
    "kernels that the host launches for lookup, logits and loss",
    latex=r"n_{\mathrm{ends}}",
    key="time.efficiency.end_launches",
    kind="assumed",
)
n_ring = symbol(
    "n_ring",
    "kernels that the host launches for a block of keys and values of another rank",
    latex=r"n_{\mathrm{ring}}",
    key="time.efficiency.ring_launches",
    kind="assumed",
)
x_busy = symbol(
    "x_busy",
    "power that rounds the longer of device and host",
    latex=r"\chi_{\mathrm{busy}}",
    key="time.efficiency.host_exponent",
    kind="assumed",
)
f_back = symbol(
    "f_back",
    "share of a micro-batch's time that its backward pass takes",
    latex=r"\phi_B",
    key="time.efficiency.backward_share",
    kind="assumed",
)
f_disp = symbol(
    "f_disp",
    "share of the multiprocessors that exchanges beside products take",
    latex=r"\phi_{\mathrm{ex}}",
    key="time.efficiency.exchange_share",
    kind="assumed",
)
p_drop = symbol(
    "p_drop", "whether dropout runs", latex=r"\delta_{\mathrm{drop}}", key="time.dropout"
)
k_x = symbol(
    "k_x",
    "bytes of an element of the products' inputs",
    unit="bytes",
    latex="k_x",
    key="time.element",
)
p_rope = symbol(
    "p_rope", "whether positions are rotary", latex=r"\delta_{\mathrm{rope}}", key="time.rope"
)

# One matrix product on one device
N_x = symbol("N_x", "columns of a product on one device", latex="N_x", per=("product",))
K_x = symbol("K_x", "depth of a product on one device", latex="K_x", per=("product",))

# The run around the step
n_fail = symbol(
    "n_fail",
    "interruptions that were counted",
    latex=r"n_{\mathrm{fail}}",
    key="cluster.failures.count",
    kind="measured",
)
n_seen = symbol(
    "n_seen",
    "devices on which they were counted",
    latex=r"n_{\mathrm{seen}}",
    key="cluster.failures.devices",
    kind="measured",
)
t_seen = symbol(
    "t_seen",
    "time over which they were counted",
    unit="s",
    latex=r"t_{\mathrm{seen}}",
    key="cluster.failures.period",
    kind="measured",
)
B_sto = symbol(
    "B_sto",
    "rate at which the run writes to storage, all devices",
    unit="bytes/s",
    latex=r"\beta_{\mathrm{sto}}",
    key="cluster.storage.bandwidth",
)
x_blk = symbol(
    "x_blk",
    "share of the writing of a checkpoint during which training stands still",
    latex=r"\sigma_{\mathrm{blk}}",
    key="cluster.storage.blocking",
)
t_res = symbol(
    "t_res",
    "time from an interruption to the first new step",
    unit="s",
    latex=r"t_{\mathrm{res}}",
    key="time.restart",
    kind="assumed",
)
x_slow = symbol(
    "x_slow",
    "share by which stragglers lengthen a step",
    latex=r"\sigma_{\mathrm{slow}}",
    key="cluster.stragglers",
    kind="assumed",
)

# Power by use
idle_power = symbol(
    "idle_power",
    "power of one idle device",
    unit="W",
    latex=r"P_{\mathrm{idle}}",
    key="cluster.accelerator.idle_power",
)
e_own = symbol(
    "e_own",
    "share of the peak that large products sustain at the rated power",
    latex=r"\eta_{\mathrm{dev}}",
    key="cluster.accelerator.efficiency.matmul.value",
)
