"""How much: GPU hours at the prices of the cluster document."""

from planner.book.formulas.time import device_hours
from planner.book.formulas.time_inference import decode_rate, prefill_rate
from planner.book.formulas.time_run import run_device_hours
from planner.book.language import *

PRICES = "GPU hours at the price of one"

dollars = partial(Quantity, unit="USD", scales_with="time", source=PRICES)
of_a_million = partial(estimate, unit="USD/Mtokens", source=PRICES, mode="inference")

total = dollars("cost.total", r"\pi", "cost of the GPU hours")
total.where(purchase=(None, "on-demand", "reserved")).equals(
    device_hours * price,
    "Every GPU hour at the price of the cluster; storage, network and staff are not in it.",
)
total.where(purchase="spot", exact=False).equals(
    run_device_hours * price,
    "Spot devices are paid for lost work, restarts and checkpoints too, as cost.run.",
)

reserved = dollars(
    "cost.reserved", r"\pi_run,res", "cost of the GPU hours under a long commitment"
).equals(device_hours * reserved_price, "The same hours at the price of reserved devices.")

run = dollars("cost.run", r"\pi_cal", "cost of the run with interruptions", exact=False).equals(
    run_device_hours * price, "The GPU hours on the calendar at the price of the cluster."
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
