"""The symbol table's second page: hardware, prices and what a plan assumes about speed."""

from planner.quantity import symbol

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
)
price = symbol(
    "price",
    "price of one device for one hour",
    unit="USD/h",
    latex=r"\pi_{\mathrm{h}}",
    key="cluster.price",
)
reserved_price = symbol(
    "reserved_price",
    "price of one device for one hour under a long commitment",
    unit="USD/h",
    latex=r"\pi_{\mathrm{res}}",
    key="cluster.reserved_price",
)
power = symbol(
    "power",
    "largest sustained power of one device",
    unit="W",
    latex=r"P_{\mathrm{dev}}",
    key="cluster.accelerator.power",
)
host_power = symbol(
    "host_power",
    "power per device outside the accelerators",
    unit="W",
    latex=r"P_{\mathrm{host}}",
    key="cluster.host_power",
)
pue = symbol(
    "pue", "power usage effectiveness of the site", latex=r"\mathrm{PUE}", key="cluster.pue"
)
carbon_intensity = symbol(
    "carbon_intensity",
    "carbon dioxide equivalent per energy",
    unit="kgCO2e/kWh",
    latex=r"\gamma",
    key="cluster.carbon_intensity",
)
