"""Every key of a model, a cluster and an accelerator moves some number of a small plan, or is
listed with a reason; what is listed and moves a number fails too (tests/test_every_key_moves.py
tries the keys of a run and its layout)."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from fnmatch import fnmatchcase
from fractions import Fraction
from functools import cache, reduce
from pathlib import Path
from typing import Any

import pytest

import planner
from fuzz import documents, ranges
from planner.book.quantity import BOOK
from planner.documents import schema
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading
from tests.conftest import read_data
from tests.strategies import set_key
from tests.test_every_key_moves import NUMBERS, worth

Document = dict[str, Any]
SCALARS = tuple(name for name, first in BOOK.quantities.items() if not first.per)
CROSS = "model.cross_attention."
CHIP = "cluster.accelerator."
#: Keys that move no number, by pattern, with the reason.
STILL: dict[str, str] = read_data("every_fact_moves")["still"]
#: Keys that move numbers in another test, by pattern, with the test.
ELSEWHERE: dict[str, str] = read_data("every_fact_moves")["elsewhere"]
SHAPED: Document = read_data("every_fact_moves")["shaped"]
#: Layers wide enough that rates of devices, not launches, bound them.
WIDE: Document = {
    **SHAPED,
    "model": {"extends": "llama2-7b", "layers": 4},
    "training": {**SHAPED["training"], "sequence_length": 4096},
}
#: Rates that an accelerator states.
RATES = sorted({
    path.split(".")[1] for path in schema.list_key_paths("accelerator") if path.count(".") == 2
    and path.startswith("efficiency.")
})  # fmt: skip
#: What a key needs, or all keys that begin so, besides what fuzz/ranges.py gives them.
NEEDS: dict[str, Document] = {
    **{f"{CHIP}efficiency.{name}.": {f"{CHIP}efficiency.{name}": {"value": 0.5, "rows": "none"}}
       for name in RATES},
    **read_data("every_fact_moves")["needs"],
}  # fmt: skip
VALUES: dict[str, list[Any]] = read_data("every_fact_moves")["values"]


@cache
def leaves() -> tuple[str, ...]:
    """Keys of models, clusters and accelerators that hold no others."""
    found = [
        path for path in schema.list_key_paths("plan") if path.startswith(("model.", "cluster."))
    ]
    found = [path for path in found if not path.startswith(CHIP)]
    found += [CHIP + path for path in schema.list_key_paths("accelerator")]
    within = {path.rpartition(".")[0] for path in found}
    return tuple(path for path in found if path not in within)


def listed(key: str, table: dict[str, str]) -> str | None:
    return next((pattern for pattern in table if fnmatchcase(key, pattern)), None)


LAST: list[Evaluation] = []


def evaluation(document: Document) -> Evaluation | None:
    """A plan's evaluation, over the graph of the one before; None where it is no plan."""
    try:
        built = case.build(loading.load(document))
    except planner.PlanError:
        return None
    LAST[:] = [Evaluation(built, like=LAST[0] if LAST else None)]
    return LAST[0]


def base(key: str) -> Document:
    """A plan with what a key needs."""
    found = deepcopy(WIDE if key.startswith("cluster.") else SHAPED)
    for table in (ranges.NEEDS, NEEDS):
        for start in sorted(filter(key.startswith, table), key=len):
            for name, value in table[start].items():
                if value == "none":  # a key that is left out
                    *around, last = name.split(".")
                    reduce(dict.__getitem__, around, found).pop(last)
                else:
                    set_key(found, name, deepcopy(value))
    return found


def values(key: str, document: Document) -> Iterator[Any]:
    """Some values that a key may have."""
    said = ranges.numeric().get(key) or schema.describe("plan", key) or {}
    yield from VALUES.get(key, ())
    yield from said.get("enum", ())
    if "boolean" in str(said.get("type")):
        yield from (True, False)
    if key in ranges.numeric():
        now = loading.load(document).get(key)
        for times in (2, Fraction(1, 2)):
            if isinstance(now, (int, Fraction)) and not isinstance(now, bool):
                whole = "integer" in str(said.get("type"))
                yield ranges.written(now * times // 1 if whole else now * times, said)
        yield from (documents.draw_one(ranges.typical(said), seed) for seed in range(3))
    yield from map(plainly, said.get("examples", ()))
    yield from (1, 2, 4, 8)


def plainly(value: Any) -> Any:
    """An example as a document has it."""
    if isinstance(value, dict):
        return {name: plainly(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plainly(inner) for inner in value]
    return float(value) if isinstance(value, Fraction) else value


def moved(key: str) -> bool | None:
    """Whether a value of a key moves a number; None where no value is taken."""
    document = base(key)
    plain, several = evaluation(document), list[Evaluation]()
    assert plain is not None, loading.load(document)
    for value in values(key, document):
        other = deepcopy(document)
        set_key(other, key, value)
        found = evaluation(other)
        if found is None:
            continue
        several.append(found)
        if any(worth(found, name) != worth(plain, name) for name in NUMBERS):
            return True
    for found in several:
        if any(worth(found, name) != worth(plain, name) for name in SCALARS):
            return True
    return False if several else None


def test_what_is_listed_exists() -> None:
    for pattern in (*STILL, *ELSEWHERE):
        assert any(fnmatchcase(key, pattern) for key in leaves()), pattern
    for start in (*NEEDS, *VALUES):
        assert any(key.startswith(start) for key in leaves()), start
    for file in ELSEWHERE.values():
        assert (Path(__file__).parents[1] / file).is_file(), file


@pytest.mark.slow(every=3)
@pytest.mark.parametrize("part", range(6))
def test_every_fact_moves_a_number_or_is_listed(part: int) -> None:
    keys = [key for key in leaves() if not listed(key, STILL) and not listed(key, ELSEWHERE)]
    assert [key for key in keys[part::6] if not moved(key)] == []


@pytest.mark.slow
def test_what_is_listed_is_taken_and_moves_nothing() -> None:
    """One key of each pattern and each section, so that names are not tried a hundred times."""
    first = {(listed(key, STILL), key[:9]): key for key in leaves() if listed(key, STILL)}
    assert {key: moved(key) for key in first.values()} == dict.fromkeys(first.values(), False)


def test_parts_of_a_cross_attention_head_move_numbers_together() -> None:
    """Each alone would contradict the other and the size of a head."""
    plain = base(f"{CROSS}nope_dim")
    set_key(plain, f"{CROSS}head_dim", 96)
    found = []
    for nope, rope in ((80, 16), (64, 32)):
        set_key(plain, CROSS[:-1], {"nope_dim": nope, "rope_dim": rope, "kv_rank": 32})
        evaluated = evaluation(plain)
        assert evaluated is not None
        found.append(evaluated.value("parameters.total"))
    assert found[0] != found[1]
