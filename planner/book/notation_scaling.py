"""The symbol table's third page: the constants of published scaling laws (presets/scaling).

A law is an entry of the axis ``law``. Every law says how parameters and tokens grow with compute
from a point that it gives; a law of the loss says so through the constants of its loss.
"""

import planner.book.notation_hardware  # noqa: F401  (symbols are ranked as they are declared)
from planner.book.quantity import symbol

LAW = ("law",)

N_l = symbol(
    "N_l",
    "parameters as the law counts them",
    unit="parameters",
    latex=r"N_\lambda",
    per=LAW,
)
C_0 = symbol("C_0", "compute at a point of the law", unit="FLOP", latex="C_0", per=LAW)
N_0 = symbol("N_0", "optimal parameters there", unit="parameters", latex="N_0", per=LAW)
D_0 = symbol("D_0", "optimal tokens there", unit="tokens", latex="D_0", per=LAW)
a_N = symbol("a_N", "exponent of optimal parameters over compute", latex="a_N", per=LAW)
a_D = symbol("a_D", "exponent of optimal tokens over compute", latex="a_D", per=LAW)
E_l = symbol("E_l", "loss that no model goes below", latex=r"E_\lambda", per=LAW)
A_l = symbol("A_l", "loss due to few parameters", latex=r"A_\lambda", per=LAW)
B_l = symbol("B_l", "loss due to few tokens", latex=r"B_\lambda", per=LAW)
x_N = symbol("x_N", "exponent of the parameters in the loss", latex=r"\alpha_\lambda", per=LAW)
x_D = symbol("x_D", "exponent of the tokens in the loss", latex=r"\beta_\lambda", per=LAW)
