"""Utilisation by the conventions of others: half of all disputes are about these.

Each convention is an entry of the axis ``convention`` (planner/engine/flop_conventions.py): which
FLOPs count.
"""

from planner.book.formulas.time import COUNTED_ALONE, tokens_per_second
from planner.book.formulas.time_peak import peak
from planner.book.language import *

CONVENTIONS = (
    f"{CHOWDHERY}, appendix B; Dao 2023 (arXiv 2307.08691), section 4; {KORTHIKANTI}, section 6.3"
)

by_convention = partial(
    Quantity, source=CONVENTIONS, share=True, per="convention", within=SHARE, beyond=COUNTED_ALONE
)

utilisation = by_convention(
    "time.utilisation", r"u_\kappa", "utilisation of the dense peak", short="of the dense peak"
).equals(
    tokens_per_second * C_conv / (n * peak),
    "The FLOPs that the convention counts, in one second, over what the dense peaks could do.",
)

utilisation_listed = by_convention(
    "time.utilisation_listed",
    r"u'_\kappa",
    "utilisation of the peak as the datasheet prints it",
    short="of the datasheet's peak",
).equals(
    tokens_per_second * C_conv / (n * P_listed),
    "As of the dense peak; a printed peak with sparsity halves it.",
)
