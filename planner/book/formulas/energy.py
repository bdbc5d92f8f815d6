"""Energy and carbon: what the devices and their site draw over the run."""

from planner.book.formulas.time import device_hours, hfu
from planner.book.language import *

PATTERSON = "Patterson et al. 2021 (arXiv 2104.10350), section 2"

of_run = partial(estimate, unit="kWh", scales_with="time", source=PATTERSON)

devices = of_run("energy.devices", "E_dev", "energy of the accelerators").equals(
    device_hours * power / 1000,
    "Every GPU hour at the rated power: an upper bound; 1000 turns W into kW.",
)

hosts = of_run("energy.hosts", "E_host", "energy of the nodes outside their accelerators").equals(
    device_hours * host_power / 1000,
    "Processors, memory, fans and network cards, per device; 1000 turns W into kW.",
)

computers = of_run("energy.computers", "E_IT", "energy of the computers")
computers.where(hosts_given=True).equals(
    devices + hosts, "Accelerators, and what surrounds them in a node."
)
computers.where(hosts_given=False, title="energy of the accelerators alone").equals(
    devices, "The cluster states no power for its hosts (cluster.host_power); they are not in it."
)

total = of_run("energy.total", "E_run", "energy that the site draws")
total.where(pue_given=True).equals(
    computers * pue,
    "What the site draws for each kWh of its computers, cooling and conversion included.",
)
total.where(pue_given=False, title="energy of the computers, cooling left out").equals(
    computers,
    "The cluster states no power usage effectiveness (cluster.pue); cooling is not in it.",
)

carbon = of_run(
    "energy.carbon",
    r"m_{\mathrm{C}\mathrm{O}_\mathrm{2}\mathrm{e}}",
    "emissions of the energy drawn",
    unit="kgCO2e",
).equals(
    total * carbon_intensity,
    "Energy times the intensity of the grid; making the hardware is not in it.",
)

cost = of_run("energy.cost", r"\pi_E", "cost of the energy that the site draws", unit="USD").equals(
    total * electricity_price,
    "Energy at the price of electricity; what is not in the energy is not in its cost.",
)

expected = estimate(
    "energy.expected",
    "E_exp",
    "energy by how busy the devices are",
    unit="kWh",
    source="Newkirk et al. 2025 (arXiv 2506.14551): nodes draw less than their rating, by the "
    "arithmetic that they do",
)

_idle = idle_power / power
#: The share of their rated power that the devices draw.
_drawn = _idle + (1 - _idle) * minimum(1, hfu / e_own)
expected.where(hosts_given=True).equals(
    (hosts + devices * _drawn) * total / computers,
    "A device draws its idle power and, above it, as much as its arithmetic: at the matmul "
    "efficiency of large matmuls it draws the rated power. Hosts stay at their rating; the "
    "site adds to both what it adds to all.",
)
expected.where(hosts_given=False).equals(
    total * _drawn,
    "A device draws its idle power and, above it, as much as its arithmetic: at the matmul "
    "efficiency of large matmuls it draws the rated power. Hosts are not in it.",
)
