"""Writes planner/book/canonical_forms.txt anew: `python -m benchmarks.canonical_forms`.

The canonical form, as SymPy makes it, of every formula of the book, of every size that an
implementation profile names, of what shipped models bind to symbols, and of what the reports of
shipped plans ask for. What no shipped document meets is put in order by SymPy when it is met.
A line each, in order, so that two branches that add formulas merge.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from planner.book import expressions

# What SymPy has put in order is asked for as well where another process meets it first.
expressions.make_in_order = expressions._make_unique

from planner.base import files, resources  # noqa: E402
from planner.book import canonical  # noqa: E402
from planner.book.expressions import Expression  # noqa: E402

#: Under which a model has other tensors or other FLOPs are counted.
SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"training.recompute": "full", "training.attention_count": "causal"},
    {"training.mode": "inference"},
)


def trees() -> Iterator[Expression]:
    """What is put in order for the book, and for the models that ship."""
    from planner.book import inventory  # noqa: F401
    from planner.book.published import OF_STAGE
    from planner.book.quantity import BOOK
    from planner.documents.references import preset_names
    from planner.engine import tensors
    from planner.plans import kernels

    yield OF_STAGE
    yield from (formula.written for formula in BOOK.list_formulas())
    yield from (*tensors.WIDTHS.values(), *tensors.ROWS.values())
    for file in sorted((resources.folder("presets") / "implementations").glob("*.yaml")):
        for lines in (kernels.load_profile(file.stem).get("blocks") or {}).values():
            yield from (line.get("times", 1) * tensors.WIDTHS[line["width"]] for line in lines)
    for model in preset_names("model"):
        for chosen in SETTINGS:
            yield from bound(model, chosen)


def bound(model: str, chosen: dict[str, str]) -> Iterator[Expression]:
    """What a plan of a model binds to symbols, under some settings."""
    from planner.base.errors import PlanError
    from planner.engine.evaluate import Absent
    from planner.engine.instance import build
    from planner.questions import loading

    document = {"model": model, "cluster": "hgx-h100", "training": {"tokens": "1B"}}
    try:
        plan = loading.load({**document, "parallelism": {"zero": 0}}, chosen)
    except PlanError:  # a model without that mode
        return
    case = build(plan)
    values = [*case.bindings.values(), *case.pair_values.values()]
    for entries in case.axes.values():
        for entry in () if isinstance(entries, Absent) else entries:
            values += entry.bindings.values()
    yield from (value for value in values if isinstance(value, Expression))


def reports() -> None:
    """Print every shipped plan in every format, for what its answers and closed forms ask for."""
    from planner.questions import loading
    from planner.questions.plan_questions import evaluate
    from planner.report import as_text

    for file in sorted(resources.folder("presets").glob("*.yaml")):
        for kind in ("text", "md", "html"):
            as_text(evaluate(loading.load(file)), kind)


def text() -> str:
    """The file as it should be."""
    forms = canonical.read_forms()
    forms.clear()
    for tree in trees():
        canonical.to_canonical(tree)
    reports()
    return "".join(f"{key} {form}\n" for key, form in sorted(forms.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Canonical forms of the book, as SymPy has them.")
    parser.add_argument("-o", "--output", type=Path, default=canonical.SHIPPED, metavar="FILE")
    files.write_text(parser.parse_args().output, text())


if __name__ == "__main__":
    main()
