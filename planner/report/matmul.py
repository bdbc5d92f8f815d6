"""One matmul on one device: work, traffic, roofline, predicted time, and the utilisation that a
measured time implies.

The matmul is one of a plan's (axis ``product``), so its formulas are those of the book; only the
letters are others, X of B by D times W of D by K.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from planner.base import numbers, units
from planner.base.display import as_json, clean, one_line, plain
from planner.base.errors import PlanError, show_files_alone
from planner.base.formats import Format
from planner.base.numbers import exact_text
from planner.book.expressions import Expression, Symbol, make_number
from planner.book.formulas.time_product import count, rows
from planner.book.notation import K_x, N_x, applied
from planner.connect.measure import expected
from planner.engine.evaluate import Entry, Point
from planner.plans import hardware
from planner.report.layout import MATMUL_LINES
from planner.results.result import SAID, Quantity, Result, evaluate_entry
from planner.typeset.boxes import Box, read_latex
from planner.typeset.typesetter import Typesetter

SHAPE = ("batch", "B", "D", "K")
WANTED = "three sizes BxDxK, or batch x B x D x K"
#: The matmuls of the backward pass: each has the FLOPs and bytes of the forward one.
BACKWARD = {"gradient X": "time.product.input", "gradient W": "time.product.weight"}
#: Settings that select the formulas: a matmul that is not sharded, in the run's format.
PLAIN = {
    "split": "none", "wide": False, "frozen": False, "bias": False, "adapted": False,
    "hidden matrix": True,
}  # fmt: skip
#: Recipes of precision by the number format that their products take.
RECIPES = {hardware.INPUTS.get(name, name): name for name in hardware.FORMATS if "-" not in name}


class Letters(Typesetter):
    """Typesetter of a matmul in the letters B, D and K; a batch of one has no factor."""

    LETTERS: Mapping[Symbol, str] = {rows.symbol: "B", K_x: "D", N_x: "K", count.symbol: "n"}
    batch = 1

    def make_name(self, symbol: Symbol) -> Box:
        """Return the name of an input or of a quantity."""
        own = self.LETTERS.get(symbol)
        return super().make_name(symbol) if own is None else read_latex(own)

    def box(self, expression: Any, point: Point | None, numbers: bool = False) -> Box:
        """Typeset the formula with symbols, or with numbers in their place.

        Args:
            expression: the formula; the factor of a batch of one is dropped from it.
            point: the entries at which it is evaluated.
            numbers: whether to write values instead of symbols.

        Returns:
            The formula as nested boxes, which each format writes in its own way.
        """
        alone = {count.symbol: make_number(1)} if self.batch == 1 else {}
        one: Expression = expression.put(alone)
        return super().box(one, point, numbers)


@dataclass(frozen=True)
class Matmul:
    """A matmul, or a batch of them in one kernel, and its quantities.

    Attributes:
        sides: the sizes B, D and K.
        batch: the number of matmuls.
        format: the number format of both factors.
        result: the evaluation of a plan that has just this matmul.
        answers: quantities by the names of ``MATMUL_LINES`` and ``BACKWARD``.
        took: measured seconds; None if there are none.
    """

    sides: Sequence[int]
    batch: int
    format: Format
    result: Result
    answers: Mapping[str, Quantity]
    took: Fraction | None

    @property
    def bound(self) -> str:
        """The bound of the least time."""
        over = self.answers["intensity"].number - self.answers["ridge"].number
        return "compute-bound" if over > 0 else "memory-bound" if over < 0 else "at the ridge"

    @property
    def backward(self) -> Fraction | None:
        """The predicted seconds of the backward pass; None if not evaluated."""
        passes = [self.answers[name].number for name in BACKWARD if name in self.answers]
        return sum(passes, Fraction(0)) if passes else None

    @property
    def reached(self) -> Fraction:
        """The share of the peak that the measured time implies."""
        assert self.took is not None
        return self.answers["at the peak"].number / self.took


def evaluate_matmul(
    shape: Sequence[int], accelerator: str, one: Format, took: str | None, backward: bool = False
) -> Matmul:
    """Evaluate a matmul, or a batch of them, on an accelerator.

    Args:
        shape: the sizes B, D and K, after the batch if there is one.
        one: the number format.
        took: a measured time, such as 60ms.
        backward: whether to evaluate its two matmuls of the backward pass too.

    Returns:
        The matmul with its evaluated quantities.

    Raises:
        PlanError: no such accelerator, no peak rate for the format, a format that no matmul of a
            plan has, or an invalid time.
    """
    recipe = RECIPES.get(one.format)
    if recipe is None:
        said = f"no matmul of a plan uses {one.format}"
        raise PlanError(said, None, f"one of {', '.join(RECIPES)}")
    such, sides = "a time above 0, such as 60ms", shape[-3:]
    seconds = None if took is None else units.parse_option("--took", took, "s", such)
    batch = shape[0] if len(shape) > len(sides) else 1
    changes = {
        "training.sequence_length": sides[0],
        "training.precision": recipe,
        "training.bytes.compute": one.bytes,
    }
    with show_files_alone():
        plan = expected.make_plan(accelerator, changes)
    bindings = {K_x: sides[1], N_x: sides[2], applied: batch}
    entry = Entry("product", "matmul", "matmul", bindings=bindings, settings=PLAIN)
    result = evaluate_entry(plan, entry)
    result.typesetter = letters = Letters(result.evaluation)
    letters.batch = batch
    book, point = result.evaluation.book, {"product": entry}
    answers = {
        name: result.get_quantity(base, point if book.quantities[base].per else {})
        for name, base in {**MATMUL_LINES, **(BACKWARD if backward else {})}.items()
    }
    for quantity in answers.values():
        if quantity.absent is not None:
            peaks = ", ".join(plan.get("cluster.accelerator.peaks"))
            said = f"{one.format} on {accelerator}: {quantity.absent}"
            raise PlanError(said, None, f"its peaks: {peaks}")
    return Matmul(sides, batch, one, result, answers, seconds)


# In print ---------------------------------------------------------------------------------------

WIDTH, LABEL, VALUE = 80, 13, 17


def format_matmul(found: Matmul) -> str:
    """Format the answers for a terminal, each with its formula and numbers."""
    answers, result = found.answers, found.result
    least, predicted = (answers[name].text() for name in ("at least", "predicted"))
    lines = [f"{found.bound}: {least} at least, {predicted} predicted"]
    if found.backward is not None:
        passed = numbers.text(found.backward, "s")
        lines += [f"backward: two matmuls of as many FLOPs and bytes, {passed} predicted"]
    if found.took:
        reached = numbers.text(found.reached, style="share")
        lines += [f"{numbers.text(found.took, 's')} are {reached} of the peak"]
    x, w = (" × ".join(map(exact_text, pair)) for pair in (found.sides[:2], found.sides[1:]))
    on = clean(result.plan.get("cluster.accelerator.name"))
    peak = result["time.peak"].text()
    width = numbers.text(result.plan.get("cluster.accelerator.memory_bandwidth"), "bytes/s")
    size = f"{exact_text(found.format.bytes)} bytes"
    each = f"n = {exact_text(found.batch)} of " if found.batch > 1 else ""
    lines += [f"{each}B × D = {x} times D × K = {w}"]
    lines += [f"in {found.format.format} (k_c = {size}) on {on}"]
    lines += [f"(R = {peak} dense, W = {width})", ""]
    letters = (*Letters.LETTERS, count.symbol)  # of the question
    uses = [used for used in answers["predicted"].uses if used.declared.symbol not in letters]
    lines += list_answers(answers, uses)
    if found.took:
        peak_time = answers["at the peak"]
        steps = [f"{peak_time.symbol} / t", f"{peak_time.text()} / {numbers.text(found.took, 's')}"]
        lines += format_answer("of your time", reached, "u", steps)
        if found.took < answers["at least"].number:
            lines += [f"{'':{LABEL}}faster than the device can be: another shape, precision or"]
            lines += [f"{'':{LABEL}}device, or a clock that was read before the kernel was done"]
    return "".join(one_line(line.rstrip()) + "\n" for line in lines)


def list_answers(answers: Mapping[str, Quantity], uses: Iterable[Quantity]) -> list[str]:
    """List quantities by name, each with its formula and numbers, then what they use."""
    lines = []
    for name, quantity in answers.items():
        value, steps = quantity.text(), [quantity.formula, quantity.substituted]
        lines += format_answer(name, value.replace("bytes", "B"), quantity.symbol, steps)
    told = (f"{used.symbol} = {used.text()}, {clean(used.title)}" for used in uses)
    return [*lines, *(f"{'':{LABEL}}{words}" for words in told)]


def format_answer(name: str, value: str, symbol: str, steps: Sequence[str]) -> list[str]:
    """Format a name, a value, and its formula with symbols and with numbers.

    Args:
        name, value: what is printed before the formula.
        symbol: the symbol of the quantity.
        steps: the formula with symbols, and with numbers.

    Returns:
        Lines; one if the whole fits.
    """
    first, room = f"{symbol} = {steps[0]}", WIDTH - LABEL - VALUE
    lines = []
    for step, lead in ((first, ""), (f"= {steps[1]}", " " * (len(symbol) + 1))):
        lines += textwrap.wrap(
            step, room, initial_indent=lead, subsequent_indent=f"{lead}  ", break_long_words=False
        )
    if len(first) + len(steps[1]) + 3 <= room:
        lines = [f"{first} = {steps[1]}"]
    head = f"{name:{LABEL}}{value:{VALUE}}"
    return [(head if i == 0 else " " * len(head)) + line for i, line in enumerate(lines)]


def dump_quantities(answers: Mapping[str, Quantity]) -> dict[str, Any]:
    """Return quantities by id as in a result, without what they use."""
    return {q.base: {name: plain(getattr(q, name)) for name in SAID} for q in answers.values()}


def encode_matmul(found: Matmul) -> str:
    """Return the answers as JSON, with the quantities as in a result."""
    tree = {
        "shape": dict(zip(SHAPE, (found.batch, *found.sides), strict=True)),
        "precision": found.format.format,
        "accelerator": found.result.plan.get("cluster.accelerator.name"),
        "bound": found.bound,
        "quantities": dump_quantities(found.answers),
    }
    if found.backward is not None:
        tree["backward"] = {"products": len(BACKWARD), "seconds": found.backward}
    if found.took:
        tree["took"] = {"seconds": found.took, "utilisation": found.reached}
    return as_json(tree)
