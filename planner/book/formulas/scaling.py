"""Compute-optimal training: what published scaling laws say about parameters and tokens.

Each law is an entry of the axis ``law`` (presets/scaling/laws.yaml). They were fitted on dense
models, each on its laboratory's data; N is what one token uses, and compute is 6ND. Quantities of
``scaling`` are about the plan; those of ``optimal`` answer what its compute is best spent on.
"""

from planner.book.formulas.compute import training_6nd
from planner.book.formulas.parameters import active
from planner.book.language import *

CHINCHILLA = "Hoffmann et al. 2022 (arXiv 2203.15556)"
LAWS = (
    f"{CHINCHILLA}; Besiroglu et al. 2024 (arXiv 2404.10102); Grattafiori et al. 2024 (arXiv "
    "2407.21783), section 3.2.1; Kaplan et al. 2020 (arXiv 2001.08361), appendix A"
)

by_law = partial(estimate, per="law")
optimal = partial(by_law, source=LAWS)
loss_of = partial(by_law, law_loss=True)

tokens_per_parameter = Quantity(
    "scaling.tokens_per_parameter",
    r"\rho",
    "training tokens for each parameter that a token uses",
    source=f"{CHINCHILLA}, table 3",
    mode="train",
    tuned=False,
).equals(T / active, "About 20 are compute-optimal by the first two approaches of Chinchilla.")

model_tokens = optimal(
    "scaling.model_tokens",
    r"D_\lambda",
    "compute-optimal tokens of a model of this size",
    unit="tokens",
    short="optimal tokens for this size",
).equals(
    D_0 * (N_l / N_0) ** (a_D / a_N),
    "Optimal tokens grow with optimal parameters, from a point of the law to the model's.",
)

ratio = by_law(
    "scaling.ratio",
    r"\tau_\lambda",
    "the plan's tokens over the compute-optimal ones",
    short="the plan's over them",
    source="definition",
).equals(
    T / model_tokens,
    "Above 1 a larger model would reach its loss with less compute (over-trained); below 1 a "
    "smaller one would (under-trained).",
)


def _loss(parameters: Any, tokens: Any) -> Any:
    """Return the loss of a law (Hoffmann et al. 2022, approach 3): what no model goes below, what
    few parameters cost, what few tokens cost."""
    return E_l + A_l / parameters**x_N + B_l / tokens**x_D


loss = loss_of(
    "scaling.loss",
    r"\hat L_\lambda",
    "predicted loss, nats per token",
    short="predicted loss",
    source=f"{CHINCHILLA}, equation 2",
).equals(
    _loss(N_l, T),
    "On the data and vocabulary of the law: it ranks plans, and forecasts no other data.",
)

parameters = optimal(
    "optimal.parameters",
    r"N^{\ast}_\lambda",
    "parameters that are compute-optimal for the plan's compute",
    unit="parameters",
).equals(
    N_0 * (training_6nd / C_0) ** a_N,
    "A power of compute through a point of the law. Of a law of the loss, E + A/N^alpha + "
    "B/D^beta, the loss is lowest under 6 N D = C where N = G (C/6)^(beta/(alpha + beta)), with G "
    "= (alpha A/(beta B))^(1/(alpha + beta)): equation 4. Its point is that of one budget C_0.",
)

tokens = optimal(
    "optimal.tokens",
    r"D^{\ast}_\lambda",
    "tokens that are compute-optimal for the plan's compute",
    unit="tokens",
).equals(D_0 * (training_6nd / C_0) ** a_D, "A power of compute through a point of the law.")

optimal_loss = loss_of(
    "optimal.loss",
    r"\hat L^{\ast}_\lambda",
    "lowest predicted loss for the plan's compute, nats per token",
    source=f"{CHINCHILLA}, equation 4",
).equals(_loss(parameters, tokens), "The loss at the compute-optimal parameters and tokens.")
