"""How much: GPU hours at the prices of the cluster document."""

from planner.book.formulas.time import device_hours, training_days
from planner.book.formulas.time_inference import decode_rate, prefill_rate
from planner.book.formulas.time_run import run_days, run_device_hours
from planner.book.language import *

PRICES = "GPU hours at the price of one"
BILL = "how the provider bills (cluster.bill)"


def bill_hours(devices: Operand, days: Operand) -> Expression:
    """Return the GPU hours that are billed of some devices for some days."""
    return devices * maximum(t_least, t_inc * ceil(86400 * days / t_inc)) / 3600


def price_storage(days: Operand) -> Expression:
    """Return what storage for some days, and data sent out once, cost."""
    return (12 * V_kept * storage_price * days / 365 + V_sent * egress_price) / 10**9


dollars = partial(Quantity, unit="USD", scales_with="time", source=PRICES)
of_a_million = partial(estimate, unit="USD/Mtokens", source=PRICES, mode="inference")

billed_hours = Quantity(
    "cost.billed_hours", "t_bill", "GPU hours that are billed", unit="h", scales_with="time",
    source=BILL,
)  # fmt: skip
storage = dollars("cost.storage", r"\pi_data", "cost of storage and of data sent out", source=BILL)
for _spot, _days in ((False, training_days), (True, run_days)):
    billed_hours.where(spot=_spot).equals(
        bill_hours(n, _days),
        "Each device for the days of the run, of spot devices with interruptions, in whole "
        "increments and no less than the shortest time that is billed; a day has 86,400 seconds.",
    )
    storage.where(spot=_spot).equals(
        price_storage(_days),
        "What is stored, for the days of the run, and what leaves the provider's network once; a "
        "GB has 10^9 bytes and a month 365/12 days.",
    )

total = dollars("cost.total", r"\pi", "cost of the GPU hours")
total.where(billed=False, spot=False).equals(
    device_hours * price,
    "Every GPU hour at the price of the cluster; storage, network and staff are not in it.",
)
total.where(billed=False, spot=True, exact=False).equals(
    x_spot * run_device_hours * price + (1 - x_spot) * device_hours * demand_price,
    "A share of the run (cluster.spot_share, all of it if left out) on spot devices, paid for lost "
    "work, restarts and checkpoints too, as cost.run; the rest without commitment, uninterrupted.",
)
total.where(billed=True, title="cost of the GPU hours, as billed, and of storage").equals(
    billed_hours * price + storage,
    "The GPU hours that are billed at the price of the cluster, and storage and data sent out "
    "where the plan states them; staff is not in it.",
)

reserved = dollars("cost.reserved", r"\pi_run,res", "cost of the GPU hours under a long commitment")
run = dollars("cost.run", r"\pi_cal", "cost of the run with interruptions", exact=False)
reserved.where(billed=False).equals(
    device_hours * reserved_price, "The same hours at the price of reserved devices."
)
run.where(billed=False).equals(
    run_device_hours * price, "The GPU hours on the calendar at the price of the cluster."
)
for _cost, _days, _price in ((reserved, training_days, reserved_price), (run, run_days, price)):
    _cost.where(billed=True).equals(
        bill_hours(n, _days) * _price + price_storage(_days),
        "The GPU hours that are billed at this price, and storage and data sent out.",
    )

million_input = of_a_million(
    "cost.million_input_tokens", r"\pi_in", "cost of a million tokens of prompts"
).equals(
    10**6 * n * price / (3600 * prefill_rate),
    "All devices for as long as they take to read a million tokens; an hour has 3600 seconds.",
)

million_output = of_a_million(
    "cost.million_output_tokens", r"\pi_out", "cost of a million generated tokens"
).equals(
    10**6 * n * price / (3600 * decode_rate),
    "All devices for as long as they take to generate a million tokens.",
)
