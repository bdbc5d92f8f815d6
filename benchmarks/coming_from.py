"""Pages for who comes from another calculator: what it asks, its numbers and ours, and why they
differ. `python -m benchmarks.pages` writes them to docs/coming_from/.

A file of tests/data/coming_from/ holds one source: what it is and of which version, how its inputs
are called here, and cases. A case has a plan (of the source's own arguments, where they are
imported, or written out), the numbers that the source gives for it, recorded as exact numbers, and
for each of them the quantity here and the terms of the difference. A term is a formula over the
letters below, over the names that the file adds, and over quantities of the plan. Terms have to add
up to the difference exactly.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import yaml

import planner
from planner.base import numbers, resources
from planner.base.numbers import exact_text
from planner.connect import imports

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data" / "coming_from"
#: What the letters of terms stand for, as in the notation of the formulas.
LETTERS = {
    "L": "model.layers",
    "h": "model.hidden",
    "V": "model.vocab",
    "a": "model.attention.heads",
    "s": "training.sequence_length",
    "b": "training.micro_batch",
    "B": "training.global_batch",
    "N": "cluster.devices",
    "t": "parallelism.tensor",
    "p": "parallelism.pipeline",
}
OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


@dataclass
class Compared:
    """A number of theirs beside one of ours, and the terms of the difference: by the name of what
    differs its formula and what it comes to."""

    what: str
    printed: str | None
    theirs: Fraction
    quantity: str
    ours: Fraction
    unit: str
    terms: list[tuple[str, str, Fraction]] = field(default_factory=list)

    @property
    def unexplained(self) -> Fraction:
        """What the terms leave of the difference; nothing, where the explanation is right."""
        return self.theirs - self.ours - sum(amount for _, _, amount in self.terms)


def sources() -> dict[str, dict[str, Any]]:
    """What is recorded of each source, by the name of its page."""
    return {path.stem: resources.read_yaml(path) for path in sorted(DATA.glob("*"))}


def document(case: Mapping[str, Any]) -> dict[str, Any]:
    """The plan of a case, without the keys that are set on top of it."""
    if "plan" in case:
        return dict(case["plan"])
    made = imports.import_file(case["arguments"], "eleuther").document
    if "model" in made:
        return made
    return {
        "model": made,
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 1},
        "training": {},
    }


def compare(source: Mapping[str, Any], case: Mapping[str, Any]) -> list[Compared]:
    """The numbers of a case, ours evaluated now.

    Raises:
        ValueError: a term names what neither the plan nor the file has.
    """
    plan = planner.load(document(case), set=case.get("set", {}))
    result = plan.evaluate()
    names = {**LETTERS, **source.get("names", {}), **case.get("names", {})}

    def value(said: Any) -> Fraction:
        """A number, a key of the plan, a quantity, or a formula over names of them."""
        if not isinstance(said, str):
            return Fraction(said)
        if said in result.quantities:
            return Fraction(str(result[said].value))
        if plan.plan.get(said) is not None:
            return Fraction(str(plan.plan.get(said)))
        return worth(ast.parse(said, mode="eval").body)

    def worth(node: ast.AST) -> Fraction:
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return Fraction(OPERATORS[type(node.op)](worth(node.left), worth(node.right)))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -worth(node.operand)
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return Fraction(node.value)
        if isinstance(node, ast.Name) and node.id in names:
            return value(names[node.id])
        raise ValueError(f"{ast.unparse(node)} is nothing that a term may name")

    compared: list[Compared] = []
    for row in case["compared"]:
        quantity = result.quantities.get(row["ours"])
        unit = row.get("unit") or (quantity.unit if quantity else "1")
        each = Compared(
            row["theirs"],
            row.get("printed"),
            Fraction(row["value"]),
            row["ours"],
            value(row["ours"]),
            unit,
        )
        if row.get("because") == "the rows above":
            each.terms = _added(other for other in compared if other.unit == unit)
        else:
            terms = row.get("because", {}).items()
            each.terms = [(name, formula, value(formula)) for name, formula in terms]
        compared.append(each)
    return compared


def _added(rows: Iterable[Compared]) -> list[tuple[str, str, Fraction]]:
    """The terms of several rows by what differs, those with one name as one."""
    found: dict[str, Fraction] = {}
    for name, _, amount in (term for row in rows for term in row.terms):
        found[name] = found.get(name, Fraction(0)) + amount
    return [(name, "", amount) for name, amount in found.items()]


# As pages ---------------------------------------------------------------------------------------


def pages(folder: Path) -> dict[Path, str]:
    """The page of each source, and one that lists them, by where they stand."""
    known = sources()
    made = {folder / f"{name}.md": "\n".join(_page(said)) for name, said in known.items()}
    listed = [f"| [{said['title']}]({name}.md) | {said['about']} |" for name, said in known.items()]
    lines = ["# Coming from another calculator", "", *_INTRODUCTION, ""]
    made[folder / "index.md"] = "\n".join(
        [*lines, "| from | what it is |", "| --- | --- |", *listed, ""]
    )
    return made


_INTRODUCTION = [
    "How the inputs of other calculators are called here, what they and this program say of the "
    "same input, and why they differ. Their numbers are recorded, each with how it was obtained; "
    "ours are evaluated when these pages are made, and a test holds the named terms of every "
    "difference to it, to the last byte."
]


def _page(source: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"# Coming from {source['title']}", "", source["about"], "")
    yield from (f"Source: {source['source']}", "")
    yield from (source["inputs_note"].strip(), "") if "inputs_note" in source else ()
    yield from ("## Inputs", "", "| there | here | note |", "| --- | --- | --- |")
    for there, here, *note in source["inputs"]:
        yield f"| {there} | {f'`{here}`' if here else '–'} | {''.join(note)} |"
    yield from ("", "## Why numbers differ", "", "| what | how | who is right |")
    yield "| --- | --- | --- |"
    for name, about in source["differences"].items():
        yield f"| {name} | {about['how'].strip()} | {about['right'].strip()} |"
    yield ""
    for case in source["cases"]:
        yield from _case(source, case)
    yield from (f"In formulas {_letters({**LETTERS, **source.get('names', {})})}.", "")


def _case(source: Mapping[str, Any], case: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"## {case['title']}", "")
    if "arguments" in case:
        command = f'python plan.py import --from eleuther "{case["arguments"]}" -o plan.yaml'
        yield from ("```text", f"python {case['arguments']}", "```", "")
        yield from ("```sh", command, "```", "")
    else:
        text = yaml.safe_dump(case["plan"], sort_keys=False, default_flow_style=None, width=96)
        yield from ("```yaml", text.strip(), "```", "")
    if "set" in case:
        said = ", ".join(f"`{key}={_said(value)}`" for key, value in case["set"].items())
        yield from (f"To compare like with like, here with {said}.", "")
    if "note" in case:
        yield from (case["note"].strip(), "")
    compared = compare(source, case)
    yield from ("| theirs | | here | | theirs less ours |", "| --- | --: | --- | --: | --: |")
    for row in compared:
        theirs, ours = (numbers.text(value, row.unit) for value in (row.theirs, row.ours))
        less = _amount(row.theirs - row.ours, row.unit)
        yield f"| {row.what} | {row.printed or theirs} | `{row.quantity}` | {ours} | {less} |"
    yield ""
    lines = [
        f"| {row.what} | {name} | {by and f'`{by}`'} | {_amount(amount, row.unit)} |"
        for row in compared
        for name, by, amount in row.terms
    ]
    if lines:
        yield from ("| of the difference of | comes from | by | |", "| --- | --- | --- | --: |")
        yield from (*lines, "")
    if "names" in case:
        yield from (f"Here {_letters(case['names'])}.", "")


def _amount(value: Fraction, unit: str) -> str:
    """An exact difference with its sign."""
    if not value:
        return "none"
    return f"{'+' if value > 0 else '−'}{exact_text(abs(value))} {unit}"


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _letters(names: Mapping[str, Any]) -> str:
    """What letters stand for, in a sentence."""
    *others, last = (f"{letter} is `{said}`" for letter, said in names.items())
    return f"{', '.join(others)} and {last}" if others else last
