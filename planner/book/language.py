"""What formulas are written in: the symbols of the notation, quantities, reductions, functions.

Every module of formulas imports all of it, and by name only the quantities of other modules.
"""

from functools import partial as partial
from typing import Any as Any

from planner.book.expressions import Expression as Expression
from planner.book.expressions import Operand as Operand
from planner.book.expressions import ceil as ceil
from planner.book.expressions import exp as exp
from planner.book.expressions import floor as floor
from planner.book.expressions import maximum as maximum
from planner.book.expressions import minimum as minimum
from planner.book.expressions import rational as rational
from planner.book.expressions import sqrt as sqrt
from planner.book.expressions import tanh as tanh
from planner.book.notation import *
from planner.book.quantity import SHARE as SHARE
from planner.book.quantity import SIGNED as SIGNED
from planner.book.quantity import Quantity as Quantity
from planner.book.reductions import *
from planner.book.sources import *

# Kinds of quantities that many modules have; `estimate`: not exact, a formula predicts it.
in_bytes = partial(Quantity, unit="bytes")
estimate = partial(Quantity, exact=False)
seconds = partial(estimate, unit="s")
# And with an axis.
bytes_of_part = partial(in_bytes, per="part")
bytes_of_stage = partial(in_bytes, per="stage")
bytes_of_component = partial(in_bytes, per="component")
seconds_of_block = partial(seconds, per="block")
seconds_of_part = partial(seconds, per="part")
