"""Energy and carbon: what the devices and their site draw over the run."""

from planner.book.formulas.time import device_hours, hfu
from planner.book.notation import (
    carbon_intensity,
    e_own,
    host_power,
    idle_power,
    power,
    pue,
)
from planner.book.quantity import Quantity
from planner.book.reductions import minimum

PATTERSON = "Patterson et al. 2021 (arXiv 2104.10350), section 2"


@Quantity(
    "energy.devices",
    symbol=r"E_{\mathrm{dev}}",
    unit="kWh",
    title="energy of the accelerators",
    scales_with="time",
    source=PATTERSON,
    exact=False,
)
def devices():
    """Every device hour at the rated power: an upper bound; 1000 turns W into kW."""
    return device_hours * power / 1000


@Quantity(
    "energy.hosts",
    symbol=r"E_{\mathrm{host}}",
    unit="kWh",
    title="energy of the nodes outside their accelerators",
    scales_with="time",
    source=PATTERSON,
    exact=False,
)
def hosts():
    """Processors, memory, fans and network cards, per device; 1000 turns W into kW."""
    return device_hours * host_power / 1000


computers = Quantity(
    "energy.computers",
    symbol=r"E_{\mathrm{IT}}",
    unit="kWh",
    title="energy of the computers",
    scales_with="time",
    source=PATTERSON,
    exact=False,
)


@computers.where(hosts_given=True)
def _():
    """Accelerators, and what surrounds them in a node."""
    return devices + hosts


computers.equals(
    devices,
    "The cluster states no power for its hosts (cluster.host_power); they are not in it.",
    hosts_given=False,
    title="energy of the accelerators alone",
)


total = Quantity(
    "energy.total",
    symbol=r"E_{\mathrm{run}}",
    unit="kWh",
    title="energy that the site draws",
    scales_with="time",
    source=PATTERSON,
    exact=False,
)


@total.where(pue_given=True)
def _():
    """What the site draws for each kWh of its computers, cooling and conversion included."""
    return computers * pue


total.equals(
    computers,
    "The cluster states no power usage effectiveness (cluster.pue); cooling is not in it.",
    pue_given=False,
    title="energy of the computers, cooling left out",
)


@Quantity(
    "energy.carbon",
    symbol=r"m_{\mathrm{CO_2e}}",
    unit="kgCO2e",
    title="emissions of the energy drawn",
    scales_with="time",
    source=PATTERSON,
    exact=False,
)
def carbon():
    """Energy times the intensity of the grid; making the hardware is not in it."""
    return total * carbon_intensity


expected = Quantity(
    "energy.expected",
    symbol=r"E_{\mathrm{exp}}",
    unit="kWh",
    title="energy by how busy the devices are",
    source="Newkirk et al. 2025 (arXiv 2506.14551): nodes draw less than their rating, by the "
    "arithmetic that they do",
    exact=False,
)


def _drawn():
    """The share of their rated power that the devices draw."""
    idle, busy = idle_power / power, minimum(1, hfu / e_own)
    return idle + (1 - idle) * busy


@expected.where(hosts_given=True)
def _():
    """A device draws its idle power and, above it, as much as its arithmetic: at the share of the
    peak that large products sustain it draws the rated power. Hosts stay at their rating; the site
    adds to both what it adds to all."""
    return (hosts + devices * _drawn()) * total / computers


@expected.where(hosts_given=False)
def _():
    """A device draws its idle power and, above it, as much as its arithmetic: at the share of the
    peak that large products sustain it draws the rated power. Hosts are not in it."""
    return total * _drawn()
