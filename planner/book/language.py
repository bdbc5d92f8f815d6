"""What formulas are written in: the symbols of the notation, quantities, reductions, functions.

Every module of formulas imports all of it, and by name only the quantities of other modules.

Reductions run over an axis: one formula that holds for each part, stage or component, made into one
value. Their names are NumPy's: ``Max`` reduces an axis, ``maximum`` compares values.
"""

from functools import partial as partial
from typing import Any as Any

from planner.book.expressions import *
from planner.book.expressions import apply_operation
from planner.book.expressions import log as log
from planner.book.notation import *
from planner.book.quantity import SHARE as SHARE
from planner.book.quantity import SIGNED as SIGNED
from planner.book.quantity import Quantity as Quantity
from planner.book.settings import expand_keywords
from planner.book.sources import *

#: Schedules by which a device is at one pass at a time.
IN_TURN = ("1f1b", "interleaved", "gpipe", "zero-bubble", "own")
#: Schedules by which a forward pass runs beside a backward pass.
PAIRED = ("dualpipe", "dualpipev")
#: Where the devices of a group lie, if they are more than one.
DIVIDED = ("node", "nodes")

# Kinds of quantities that many modules have; `estimate`: not exact, a formula predicts it.
in_bytes = partial(Quantity, unit="bytes")
estimate = partial(Quantity, exact=False)
seconds = partial(estimate, unit="s")
# And with an axis.
bytes_of_part = partial(in_bytes, per="part")
bytes_of_stage = partial(in_bytes, per="stage")
bytes_of_component = partial(in_bytes, per="component")
seconds_of_block = partial(seconds, per="block")
of_experts = partial(estimate, per="block", block="moe")
seconds_of_part = partial(seconds, per="part")


def _reduce_axis(op: str, body: Any, axis: str, *by: Any, **where: Any) -> Expression:
    """Reduce an expression over the entries of an axis whose settings match ``where``."""
    pairs = tuple((name, str(value)) for name, value in sorted(expand_keywords(where).items()))
    return apply_operation(op, body, *by, data=(axis, pairs))


#: ``Sum(body, axis, **where)`` is the sum of a body over an axis, ``Max`` its largest value.
Sum, Max = partial(_reduce_axis, "total"), partial(_reduce_axis, "largest")
#: ``AtArgmax(body, axis, by)`` is the body where ``by`` is largest, at the first of equals.
AtArgmax = partial(_reduce_axis, "at_largest")
#: ``Argmax(body, axis)`` is the name of the entry where the body is largest.
Argmax = partial(_reduce_axis, "which")


def sum_on_stage(body: Any, **where: Any) -> Expression:
    """Sum over the parts of a stage that match ``where``, times how many of each the stage has."""
    return Sum(layers_on_stage * body, "part", **where)


def max_on_stage(body: Any, **where: Any) -> Expression:
    """Take the maximum over the parts of a stage."""
    return Max(minimum(1, layers_on_stage) * body, "part", **where)


def max_over_stages(body: Any, **where: Any) -> Expression:
    """Take the maximum over stages of the sum over components, times the copies of each."""
    return Max(Sum(copies_on_stage * body, "component", **where), "stage")


def log2(value: Any) -> Expression:
    """Compute the logarithm to base 2."""
    return log(value) / log(2)
