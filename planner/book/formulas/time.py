"""How long: step, run, device hours and utilisation, at an assumed utilisation or predicted."""

from planner.book.formulas.compute import executed_per_token, per_token
from planner.book.formulas.time_peak import peak
from planner.book.formulas.time_step import step
from planner.book.notation import B, T, n, s
from planner.book.notation_hardware import mfu_assumed
from planner.book.quantity import Quantity

PALM = "Chowdhery et al. 2022 (arXiv 2204.02311), appendix B"

tokens_per_second = Quantity(
    "time.tokens_per_second",
    symbol=r"r_{\mathrm{tok}}",
    unit="tokens/s",
    title="tokens per second, all devices",
    scales_with="rate",
)


@tokens_per_second.where(assumed=True, source=PALM)
def _():
    """All devices at the assumed share of their dense peak, over the model FLOPs of a token."""
    return n * peak * mfu_assumed / per_token


@tokens_per_second.where(assumed=False, source="definition", exact=False)
def _():
    """B sequences of s tokens in the predicted time of a step."""
    return B * s / step


@Quantity(
    "time.tokens_per_second_per_device",
    symbol=r"r_{\mathrm{dev}}",
    unit="tokens/s",
    title="tokens per second and device",
    scales_with="rate",
    source="definition",
)
def tokens_per_second_per_device():
    """The rate of the run divided by its devices."""
    return tokens_per_second / n


@step.where(assumed=True, title="time of one optimizer step", source="definition")
def _():
    """B sequences of s tokens at the assumed rate."""
    return B * s / tokens_per_second


@Quantity(
    "time.training_seconds",
    symbol=r"t_{\mathrm{run}}",
    unit="s",
    title="time of the run without interruptions",
    scales_with="time",
    source="definition",
)
def training_seconds():
    """All tokens at the rate of the run."""
    return T / tokens_per_second


@Quantity(
    "time.training_days",
    symbol=r"t_{\mathrm{days}}",
    unit="days",
    title="days of training without interruptions",
    scales_with="time",
    source="definition",
)
def training_days():
    """A day has 86400 seconds."""
    return training_seconds / 86400


@Quantity(
    "time.device_hours",
    symbol=r"t_{\mathrm{dev}}",
    unit="h",
    title="device hours",
    scales_with="time",
    source="definition",
)
def device_hours():
    """Every device for the whole run; an hour has 3600 seconds."""
    return n * training_seconds / 3600


@Quantity(
    "time.mfu",
    symbol="u",
    unit="1",
    title="model FLOPs utilisation",
    share=True,
    scales_with="rate",
    source=PALM,
)
def mfu():
    """Model FLOPs (attention in full, nothing recomputed) over what the dense peaks could do."""
    return tokens_per_second * per_token / (n * peak)


@Quantity(
    "time.hfu",
    symbol=r"u_{\mathrm{hw}}",
    unit="1",
    title="hardware FLOPs utilisation",
    share=True,
    scales_with="rate",
    source=PALM,
)
def hfu():
    """As the model FLOPs utilisation, with recomputed work counted too."""
    return mfu * executed_per_token / per_token


@Quantity(
    "time.tflops_per_device",
    symbol=r"F_{\mathrm{dev}}",
    unit="TFLOP/s",
    title="model TFLOP/s of one device",
    scales_with="rate",
    source=PALM,
)
def tflops_per_device():
    """Model FLOPs of one device in one second, in units of 1e12."""
    return mfu * peak / 10**12
