"""The derivation of one quantity as a tree: formula, numbers, result, and what it rests on."""

from __future__ import annotations

from planner.base.errors import Fault, PlanError
from planner.report.derivations import inputs_of
from planner.report.facts import brief, left_open, with_interval
from planner.report.numbers import clean, exactly, shown
from planner.results.result import Quantity, Result
from planner.typeset import TEXT


def explain(result: Result, identifier: str, depth: int | None = None) -> str:
    """How a quantity is made, down to the inputs; `depth` limits the levels, 0 is itself only.

    Each quantity is explained where it first occurs and named afterwards.

    Raises:
        PlanError: an unknown quantity, or a negative depth.
    """
    if depth is not None and depth < 0:
        raise PlanError(Fault(f"a depth of {depth}", None, "0 or more"))
    lines: list[str] = []
    _tree(result.find(identifier), depth, "", "", set(), lines)
    return "\n".join(lines) + "\n"


def _tree(
    quantity: Quantity, depth: int | None, first: str, rest: str, seen: set[str], lines: list[str]
) -> None:
    if quantity.id in seen:
        lines.append(f"{first}{quantity.id} = {brief(quantity)} (above)")
        return
    seen.add(quantity.id)
    absent = quantity.absent is not None
    mark = "" if absent or quantity.exact else f" ({quantity.kind})"
    lines.append(f"{first}{quantity.id} – {clean(quantity.title)}{mark}")
    said = [f"absent: {clean(quantity.absent)}"] if absent else _formula(quantity)
    if quantity.chosen is not None:
        said += [clean(quantity.why, 2000), f"source: {clean(quantity.source)}"]
    for row in inputs_of(quantity):
        # The kind of what the document states; a default says it itself.
        kind = quantity.result.evaluation.case.kinds.get(row.symbol) if row.stated else None
        who = ", ".join(filter(None, (kind, row.origin)))
        text = f"{TEXT.write(row.name)} = {row.value}: {row.meaning}"
        said.append(f"{text} ({who})" if who else text)
    lines += [f"{rest}  {line}" for line in said]
    if depth == 0:
        return
    deeper = None if depth is None else depth - 1
    for below in quantity.uses:
        branch, trunk = ("└─ ", "   ") if below is quantity.uses[-1] else ("├─ ", "│  ")
        _tree(below, deeper, rest + branch, rest + trunk, seen, lines)


def _formula(quantity: Quantity) -> list[str]:
    """`symbol = formula`, the numbers, the value in full and rounded."""
    name, share = quantity.symbol, quantity.declared.share
    value = exactly(quantity.value, quantity.unit)
    texts = [quantity.formula, quantity.substituted, value]
    steps = [text for i, text in enumerate(texts) if i == 0 or text != texts[i - 1]]
    pad = " " * len(name)
    lines = [f"{pad if i else name} = {step}" for i, step in enumerate(steps)]
    rounded = brief(quantity, False)
    if not isinstance(quantity.value, str) and rounded != value:
        lines[-1] += f" = {rounded}"
    if quantity.interval is not None:
        low, high = (shown(end, quantity.unit, share) for end in quantity.interval)
        lines.append(f"{pad}   {low} to {high}: {left_open(quantity.result, quantity.base)}")
    if quantity.predicted is not None:
        lines.append(f"{pad}   predicted: {with_interval(quantity.predicted)}")
    return lines
