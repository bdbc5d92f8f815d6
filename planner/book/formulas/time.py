"""How long: step, run, GPU hours and utilisation, at an assumed utilisation or predicted."""

from planner.book.formulas.compute import attended_per_token, model_per_token, performed_per_token
from planner.book.formulas.time_peak import peak
from planner.book.formulas.time_step import step
from planner.book.language import *

PALM = f"{CHOWDHERY}, appendix B"

#: Why a utilisation has no value.
COUNTED_ALONE = (
    "it would be above 1: more is counted than performed, as of scores the masked half "
    "(training.attention_count: causal leaves it out), or more assumed than can be (time.mfu)"
)

by_time = partial(Quantity, scales_with="time", source="definition")
by_rate = partial(Quantity, scales_with="rate", source=PALM)
token_rate = partial(Quantity, unit="tokens/s", scales_with="rate", source="definition")

tokens_per_second = token_rate("time.tokens_per_second", "r_tok", "tokens per second, all devices")
tokens_per_second.by(PALM, assumed=True).equals(
    n * peak * mfu_assumed / model_per_token,
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

device_hours = by_time("time.device_hours", "t_dev", "GPU hours", unit="h").equals(
    n * training_seconds / 3600, "Every device for the whole run; an hour has 3600 seconds."
)

mfu = by_rate(
    "time.mfu", "u", "model FLOPs utilisation", share=True, within=SHARE, beyond=COUNTED_ALONE
).equals(
    tokens_per_second * model_per_token / (n * peak),
    "Model FLOPs (masked scores by training.attention_count, nothing recomputed) over what the "
    "dense peaks could do.",
)

hfu = by_rate("time.hfu", "u_hw", "hardware FLOPs utilisation", share=True, exact=False).equals(
    tokens_per_second * performed_per_token / (n * peak),
    "What kernels perform, recomputation with it and masked blocks without, over the same.",
)

tflops_per_device = by_rate(
    "time.tflops_per_device", "F_dev", "model TFLOP/s of one device", unit="TFLOP/s"
).equals(
    tokens_per_second * model_per_token / (n * 10**12),
    "Model FLOPs of one device in one second, in units of 1e12.",
)


least_share = estimate(
    "time.floor",
    r"\phi",
    "least share of the predicted time that physics leaves to a step",
    share=True,
    within=SHARE,
    source="no device exceeds its peak, and no large matmul its matmul efficiency",
    mode="train",
    assumed=False,
).equals(
    minimum(1, maximum(hfu, tokens_per_second * attended_per_token / (n * peak * e_mm))),
    "All that kernels perform at the peak; or the FLOPs of the model without masked scores at the "
    "matmul efficiency. At most 1.",
)
