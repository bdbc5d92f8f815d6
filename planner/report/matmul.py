"""One matrix product on one device: its work, its traffic, the roof above it, its predicted time,
and the utilisation that a timing of it stands for.

The product is one of a plan's (axis ``product``), so its formulas are those of the book; only their
letters are those of the question, X of B by D times W of D by K.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from planner.base import units
from planner.base.display import as_json, exact_text, one_line, plain, significant
from planner.base.errors import Fault, PlanError
from planner.base.formats import Format
from planner.book.expressions import Expression, Symbol, number
from planner.book.formulas.time_product import count, rows
from planner.book.notation import K_x, N_x, applied
from planner.connect.measure import expected
from planner.engine import instance
from planner.engine.evaluate import Entry, Evaluation, Point
from planner.plans import hardware
from planner.report.numbers import clean, percent, shown
from planner.results.result import SAID, Quantity, Result
from planner.typeset import Box, Typesetter, parse

SHAPE = "BDK"
#: What is answered, by the names of the answers.
ANSWERS = {
    "FLOPs": "roofline.product.flops",
    "bytes moved": "roofline.product.bytes",
    "intensity": "roofline.product.intensity",
    "ridge": "roofline.ridge",
    "at the peak": "roofline.product.arithmetic",
    "memory": "roofline.product.traffic",
    "at least": "roofline.product.seconds",
    "predicted": "time.product.forward",
    "utilisation": "roofline.product.utilisation",
}
#: How the product is divided and what else decides its formulas: a plain one in the run's format.
PLAIN = {
    "split": "none",
    "wide": False,
    "frozen": False,
    "bias": False,
    "adapted": False,
    "hidden matrix": True,
}
#: Recipes of precision by the number format that their products take.
RECIPES = {hardware.INPUTS.get(name, name): name for name in hardware.FORMATS if "-" not in name}


class Letters(Typesetter):
    """Formulas of products in the letters of the question; the one product is not counted."""

    LETTERS: Mapping[Symbol, str] = {rows.symbol: "B", K_x: "D", N_x: "K"}

    def name(self, symbol: Symbol) -> Box:
        """The name of an input or of a quantity."""
        return parse(self.LETTERS[symbol]) if symbol in self.LETTERS else super().name(symbol)

    def box(self, expression: Any, point: Point | None, numbers: bool = False) -> Box:
        """The formula with symbols, or with a number in the place of each."""
        one: Expression = expression.put({count.symbol: number(1)})
        return super().box(one, point, numbers)


@dataclass(frozen=True)
class Product:
    """A product and what the book says of it. ``took``: seconds that somebody measured."""

    sides: Sequence[int]
    format: Format
    result: Result
    answers: Mapping[str, Quantity]
    took: Fraction | None

    @property
    def bound(self) -> str:
        """What decides its least time."""
        over = self.answers["intensity"].number - self.answers["ridge"].number
        return "compute-bound" if over > 0 else "memory-bound" if over < 0 else "at the ridge"

    @property
    def reached(self) -> Fraction:
        """The share of the peak that the timing stands for, where there is one."""
        assert self.took is not None
        return self.answers["at the peak"].number / self.took


def product(sides: Sequence[int], accelerator: str, one: Format, took: str | None) -> Product:
    """A product of sides B, D and K in a number format on an accelerator.

    Raises:
        PlanError: no such accelerator, one without a peak of that format, a format that no product
            of a plan is in, or a timing that is no time.
    """
    recipe = RECIPES.get(one.format)
    if recipe is None:
        said = f"no product of a plan is in {one.format}"
        raise PlanError(Fault(said, None, f"one of {', '.join(RECIPES)}"))
    seconds = _seconds(took)
    changes = {
        "training.sequence_length": sides[0],
        "training.precision": recipe,
        "training.bytes.compute": one.bytes,
    }
    try:
        plan = expected.plan(accelerator, changes)
    except PlanError as error:  # but for what stands in a document of its own, nothing has a place
        places = (fault.place for fault in error.faults)
        faults = [
            replace(fault, place=None) if place and place.file.startswith("<") else fault
            for fault, place in zip(error.faults, places, strict=True)
        ]
        raise PlanError(faults) from None
    case, bindings = instance.build(plan), {K_x: sides[1], N_x: sides[2], applied: 1}
    entry = Entry("product", "matmul", "matmul", bindings=bindings, settings=PLAIN)
    result = Result(plan, Evaluation(replace(case, axes={**case.axes, "product": (entry,)})))
    result.typesetter = Letters(result.evaluation)
    book, point = result.evaluation.book, {"product": entry}
    answers = {
        name: result.quantity(base, point if book.quantities[base].per else {})
        for name, base in ANSWERS.items()
    }
    for quantity in answers.values():
        if quantity.absent is not None:
            peaks = ", ".join(plan.get("cluster.accelerator.peaks"))
            said = f"{one.format} on {accelerator}: {quantity.absent}"
            raise PlanError(Fault(said, None, f"its peaks: {peaks}"))
    return Product(sides, one, result, answers, seconds)


def _seconds(text: str | None) -> Fraction | None:
    if text is None:
        return None
    try:
        found = units.parse(text, "s")
    except units.UnitError as error:
        raise PlanError(
            Fault(f"--took: {error.message}", None, error.allowed, error.hint)
        ) from None
    if found <= 0:
        raise PlanError(Fault(f"--took {text}", None, "a time above 0, such as 60ms"))
    return Fraction(found)


# In print ---------------------------------------------------------------------------------------

WIDTH, LABEL, VALUE = 80, 13, 17


def text(found: Product) -> str:
    """The answers for a terminal, each with its formula and the numbers in it."""
    answers, result = found.answers, found.result
    least = shown(answers["at least"].value, "s")
    lines = [f"{found.bound}: {least} at least, {shown(answers['predicted'].value, 's')} predicted"]
    if found.took:
        lines += [f"{shown(found.took, 's')} are {_share(found.reached)} of the peak"]
    x, w = (" × ".join(map(exact_text, pair)) for pair in (found.sides[:2], found.sides[1:]))
    on = clean(result.plan.get("cluster.accelerator.name"))
    peak = shown(result["time.peak"].value, "FLOP/s")
    width = shown(result.plan.get("cluster.accelerator.memory_bandwidth"), "bytes/s")
    size = f"{exact_text(found.format.bytes)} bytes"
    lines += [f"B × D = {x} times D × K = {w}"]
    lines += [f"in {found.format.format} (k_c = {size}) on {on}"]
    lines += [f"(R = {peak} dense, W = {width})", ""]
    for name, quantity in answers.items():
        value = shown(quantity.value, quantity.unit)
        value = _share(quantity.number) if quantity.declared.share else value
        steps = [quantity.formula, quantity.substituted]
        lines += _row(name, value.replace("bytes", "B"), quantity.symbol, steps)
    lines += [f"{'':{LABEL}}{_said(used)}" for used in answers["predicted"].uses if _own(used)]
    if found.took:
        peak_time = answers["at the peak"]
        numbers = f"{shown(peak_time.value, 's')} / {shown(found.took, 's')}"
        steps = [f"{peak_time.symbol} / t", numbers]
        lines += _row("of your time", _share(found.reached), "u", steps)
        if found.took < answers["at least"].number:
            lines += [f"{'':{LABEL}}faster than the device can be: another shape, precision or"]
            lines += [f"{'':{LABEL}}device, or a clock that was read before the kernel was done"]
    return "".join(one_line(line.rstrip()) + "\n" for line in lines)


def _row(name: str, value: str, symbol: str, steps: Sequence[str]) -> list[str]:
    """A name, a value, and its formula with symbols and with numbers beside it."""
    first, second = (f"{symbol} = {steps[0]}", f"{'':{len(symbol)}} = {steps[1]}")
    room = WIDTH - LABEL - VALUE
    lines = [line for step in (first, second) for line in _wrapped(step, room)]
    if len(first) + len(steps[1]) + 3 <= room:
        lines = [f"{first} = {steps[1]}"]
    head = f"{name:{LABEL}}{value:{VALUE}}"
    return [(head if i == 0 else " " * len(head)) + line for i, line in enumerate(lines)]


def _wrapped(step: str, room: int) -> list[str]:
    indent = " " * (len(step) - len(step.lstrip(" "))) + "  "
    found = textwrap.wrap(step, room, subsequent_indent=indent, break_long_words=False)
    return [step[: len(step) - len(step.lstrip(" "))] + found[0].lstrip(" "), *found[1:]]


def _share(share: Fraction) -> str:
    small = share < Fraction(1, 1000)
    return f"{significant(share * 100, 2)} %" if small else percent(share)


def _own(quantity: Quantity) -> bool:
    """Whether a quantity of a formula has no letter of the question."""
    return quantity.declared.symbol not in (*Letters.LETTERS, count.symbol)


def _said(quantity: Quantity) -> str:
    value = shown(quantity.value, quantity.unit, quantity.declared.share)
    return f"{quantity.symbol} = {value}, {clean(quantity.title)}"


def to_json(found: Product) -> str:
    """The answers as JSON, as a result has its quantities."""
    quantities = {
        quantity.base: {name: plain(getattr(quantity, name)) for name in SAID}
        for quantity in found.answers.values()
    }
    tree = {
        "shape": dict(zip(SHAPE, found.sides, strict=True)),
        "precision": found.format.format,
        "accelerator": found.result.plan.get("cluster.accelerator.name"),
        "bound": found.bound,
        "quantities": quantities,
    }
    if found.took:
        tree["took"] = {"seconds": found.took, "utilisation": found.reached}
    return as_json(tree)
