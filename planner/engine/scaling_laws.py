"""Published scaling laws as entries of the axis ``law``: their constants, from presets/scaling."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from typing import Any

from planner.base import resources, units
from planner.book.formulas.parameters import active, embedding, head
from planner.book.notation import C_0, D_0, N_0, A_l, B_l, E_l, N_l, a_D, a_N, x_D, x_N
from planner.engine.evaluate import Entry

Exact = int | Fraction
#: Parameters of a model by what a source counts.
COUNTS = {"total": active.symbol, "non_embedding": active - embedding - head}
POINT = {"compute": C_0, "parameters": N_0, "tokens": D_0}
EXPONENTS = {"parameters": a_N, "tokens": a_D}
LOSS = {"E": E_l, "A": A_l, "B": B_l, "alpha": x_N, "beta": x_D}

#: Parameters times tokens of the budget at which a loss gives its point: that of runs of today, so
#: that numbers of a few digits, put into the power law, make its value.
PRODUCT = 10**22


@cache
def load_laws() -> tuple[Mapping[str, Any], ...]:
    """Return the laws as their sources print them."""
    return tuple(resources.load_preset("scaling/laws")["laws"])


@cache
def list_laws() -> tuple[Entry, ...]:
    """Return one entry for each law; numbers are exact."""
    return tuple(_make_law(law) for law in load_laws())


def _make_law(law: Mapping[str, Any]) -> Entry:
    """Return the entry of a law, which gives either a loss, or a point and the exponents through
    it."""
    found: dict[Any, Any] = {N_l: COUNTS[law["counts"]]}
    if "loss" in law:
        constants = {key: _parse_exact(value) for key, value in law["loss"].items()}
        found |= {LOSS[key]: value for key, value in constants.items()} | _frontier(**constants)
    else:
        found |= {symbol: _parse_exact(law[key]) for key, symbol in POINT.items()}
        found |= {EXPONENTS[key]: _parse_exact(value) for key, value in law["exponents"].items()}
    settings = {"law.loss": "loss" in law}
    return Entry("law", law["name"], law["title"], bindings=found, settings=settings)


def _frontier(E: Exact, A: Exact, B: Exact, alpha: Exact, beta: Exact) -> dict[Any, Exact | float]:
    """Minimise the loss under 6 N D = C (Hoffmann et al. 2022, equation 4) at one budget."""
    whole = alpha + beta
    unit = float(alpha * A / (beta * B)) ** float(1 / whole)
    most = unit * PRODUCT ** float(beta / whole)
    return {C_0: 6 * PRODUCT, N_0: most, D_0: PRODUCT / most, a_N: beta / whole, a_D: alpha / whole}


def _parse_exact(value: Any) -> Exact:
    """Return the decimal number that is meant; YAML 1.1 reads 1.23e22 as text."""
    return units.parse_number(str(value))
