"""How long: step, run, device hours and utilisation, at an assumed utilisation or predicted."""

from planner.book.formulas.compute import component, executed_per_token, per_token
from planner.book.formulas.time_peak import peak
from planner.book.formulas.time_step import step
from planner.book.language import *

PALM = f"{CHOWDHERY}, appendix B"

by_time = partial(Quantity, scales_with="time", source="definition")
by_rate = partial(Quantity, scales_with="rate", source=PALM)
token_rate = partial(Quantity, unit="tokens/s", scales_with="rate", source="definition")

tokens_per_second = token_rate("time.tokens_per_second", "r_tok", "tokens per second, all devices")
tokens_per_second.by(PALM, assumed=True).equals(
    n * peak * mfu_assumed / per_token,
    "All devices at the assumed share of their dense peak, over the model FLOPs of a token.",
)
tokens_per_second.where(assumed=False, exact=False).equals(
    B * s / step, "B sequences of s tokens in the predicted time of a step."
)

tokens_per_second_per_device = token_rate(
    "time.tokens_per_second_per_device", "r_dev", "tokens per second and device"
).equals(tokens_per_second / n, "The rate of the run divided by its devices.")

step.by("definition", assumed=True, title="time of one optimizer step").equals(
    B * s / tokens_per_second, "B sequences of s tokens at the assumed rate."
)

training_seconds = by_time(
    "time.training_seconds", "t_run", "time of the run without interruptions", unit="s"
).equals(T / tokens_per_second, "All tokens at the rate of the run.")

training_days = by_time(
    "time.training_days", "t_days", "days of training without interruptions", unit="days"
).equals(training_seconds / 86400, "A day has 86400 seconds.")

device_hours = by_time("time.device_hours", "t_dev", "device hours", unit="h").equals(
    n * training_seconds / 3600, "Every device for the whole run; an hour has 3600 seconds."
)

mfu = by_rate("time.mfu", "u", "model FLOPs utilisation", share=True).equals(
    tokens_per_second * per_token / (n * peak),
    "Model FLOPs (attention in full, nothing recomputed) over what the dense peaks could do.",
)

hfu = by_rate("time.hfu", "u_hw", "hardware FLOPs utilisation", share=True).equals(
    mfu * executed_per_token / per_token,
    "As the model FLOPs utilisation, with recomputed work counted too.",
)

tflops_per_device = by_rate(
    "time.tflops_per_device", "F_dev", "model TFLOP/s of one device", unit="TFLOP/s"
).equals(mfu * peak / 10**12, "Model FLOPs of one device in one second, in units of 1e12.")


#: FLOPs of one token, forward and twice backward, for scores that are masked: half of a decoder's.
MASKED = rational(3, 2) * sum(
    Sum(L_k * Sum(component, "component", type="core", sees=sees), "part")
    for sees in ("past", "past window")
)

least_share = estimate(
    "time.floor",
    r"\phi",
    "least share of the predicted time that physics leaves to a step",
    share=True,
    within=SHARE,
    source="a device does no more than its peak, and large products no more than they sustain",
    mode="train",
    assumed=False,
)
least_share.where(attention_count=("full", "window")).equals(
    minimum(1, maximum(hfu, mfu * (per_token - MASKED) / (per_token * e_mm))),
    "All FLOPs at the peak; or those of the model at the rate that large products sustain, where "
    "of the FLOPs of scores, 3 times the forward ones, half (3/2) are masked. At most 1.",
)
least_share.where(attention_count=("causal", "causal-window")).equals(
    minimum(1, maximum(hfu, mfu / e_mm)),
    "All FLOPs at the peak; or those of the model, in which masked scores do not count here, at "
    "the rate that large products sustain. At most 1.",
)
