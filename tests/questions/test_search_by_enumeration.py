"""What a search lists, held to nested loops over every layout of small plans, each of them checked
and evaluated as a plan of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from planner.base.errors import PlanError
from planner.connect.exports import build_config as export
from planner.connect.exports.table import Elsewhere
from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.plans.document import Plan
from planner.plans.plan import variant
from planner.questions import loading
from planner.questions.constraints import Limit
from planner.questions.search.engine import Layout, SearchResult, search
from planner.questions.search.layouts import Space
from tests.conftest import leave_to_night, read_data

FITS, SURE, MEMORY, STEP = (
    "memory.left", "memory.headroom_p95", "memory.process", "time.step_seconds",
)  # fmt: skip
COST, HEADROOM = "cost.total", "memory.headroom"
QUANTITIES = (FITS, HEADROOM, SURE, MEMORY, STEP, COST)
#: The keys of a layout; those that are left to follow from them are cleared.
NAMES = read_data("questions")["names_of_keys"]
SCHEDULES = ("1f1b", "interleaved", "gpipe", "zero-bubble", "dualpipe", "dualpipev")
#: Chunks of the model on a device, under a schedule that has no choice of them but 1.
CHUNKS = {"dualpipev": 2}
MODES = ("none", "selective", "full")
#: What most decides which formulas a plan takes.
STRUCTURE = ("pipeline", "zero", "recompute", "sequence", "schedule", "kernels", "cut")


def document(layers: int, node: int, batch: int, sequence: int, **changes: Any) -> dict[str, Any]:
    """Six devices, so that no number but 1 is a power of what another is. Launches take next to
    nothing: layouts that wait for the same launches take the same time."""
    return {
        "name": "small",
        "model": {
            "layers": layers, "hidden": 384, "vocab": 1000, "max_sequence": 4096,
            "attention": {"heads": 6}, "mlp": {"intermediate": 1536}, **changes.pop("model", {}),
        },
        "cluster": {
            "accelerator": "a100-sxm-40gb", "devices": 6, "devices_per_node": node,
            "price": "2 USD/h", "network": {"bandwidth": "100 Gb/s"},
        },
        "training": {
            "tokens": "1B", "sequence_length": sequence, "global_batch": batch,
            **changes.pop("training", {}),
        },
        "parallelism": {"zero": 0, **changes.pop("parallelism", {})},
        "time": {"efficiency": {"launch": "10 ns"}},
    }  # fmt: skip


#: Plans with the keys that are held, so that a thousand layouts are left at most.
PLANS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dense": (
        document(6, 3, 12, 384),
        {"schedule": "1f1b", "cut": "even", "recompute": "none", "micro": 2},
    ),
    "uneven": (
        document(4, 2, 6, 384, training={"attention": "eager"}),
        {"recompute": "none", "zero": 1},
    ),
    "experts": (
        document(
            3, 2, 6, 384,
            model={"moe": {"experts": 6, "top_k": 2, "intermediate": 768, "shared_experts": 1}},
            training={"implementation": "megatron"},
        ),
        {"schedule": "1f1b", "micro": 1, "recompute": "none", "zero": 2},
    ),
    "long context": (
        document(2, 6, 6, 3072, parallelism={"context_exchange": "gather"}),
        {"zero": 1, "pipeline": 1},
    ),
    "chunks": (
        document(12, 2, 12, 192, training={"implementation": "megatron"}),
        {"context": 1, "zero": 0, "recompute": "full", "sequence": False},
    ),
}  # fmt: skip


class Row(NamedTuple):
    """One layout, by the short names of its keys, with what its plan comes to."""

    said: Mapping[str, Any]
    values: Mapping[str, float]

    def key(self, by: str = STEP) -> tuple[float, float]:
        """To eleven digits: sums in another order differ in the last of sixteen."""
        return float(f"{self.values[by]:.11g}"), float(f"{self.values[MEMORY]:.11g}")


def divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def everything(
    plan: Plan, held: Mapping[str, Sequence[Any]], free: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Every layout that docs/layouts.md says is searched, by the short names of its keys. ``held``
    are keys with the values that they may have; of those that are ``free``, sensible or not."""
    devices, batch = plan.get("cluster.devices"), plan.get("training.global_batch")
    node = plan.get("cluster.devices_per_node")
    layers, experts = plan.get("model.layers"), plan.get("model.moe.experts") or 1

    def of(name: str, values: Sequence[Any]) -> Sequence[Any]:
        return held.get(name, values)

    def valid(said: Mapping[str, Any]) -> Plan | None:
        try:
            return changed(plan, said)
        except PlanError:
            return None

    found: list[tuple[dict[str, Any], Plan]] = []
    for tensor, pipeline, context in product(
        of("tensor", divisors(devices)), of("pipeline", divisors(devices)),
        of("context", divisors(devices)),
    ):  # fmt: skip
        if devices % (tensor * pipeline * context) or pipeline > layers:
            continue
        data = devices // (tensor * pipeline * context)
        whole = experts > 1
        of_expert = [n for n in divisors(devices) if n in (1, tensor)] if whole else [1]
        if "expert_tensor" in free and whole:
            of_expert = [n for n in divisors(devices) if n <= tensor]
        ends = "ends" if layers % pipeline or "cut" in free else None
        for expert, expert_tensor, cut in product(
            of("expert", divisors(experts)), of("expert_tensor", of_expert),
            of("cut", list(dict.fromkeys((None, ends)))),
        ):  # fmt: skip
            chunked = (layers + (2 if cut == "ends" else 0)) // pipeline
            runs = [
                (virtual, schedule)
                for virtual, schedule in product(
                    of("virtual", divisors(max(1, chunked)) if pipeline > 1 else [1]),
                    of("schedule", [s for s in SCHEDULES if s != "gpipe" or "schedule" in free]),
                )
                if (
                    virtual > 1 if schedule == "interleaved" else virtual == CHUNKS.get(schedule, 1)
                )
                and (pipeline > 1 or schedule == "1f1b")
            ]
            copies = data * context * tensor
            alone = data * context == 1 and (
                experts == 1 or copies == expert * expert_tensor
            )  # fmt: skip
            stages = of("zero", (0, 1, 2, 3))
            if alone:  # all of them are the step without it
                stages = (0,) if 0 in stages else stages[:1]
            for (virtual, schedule), sequence, micro, zero, recompute in product(
                runs,
                of("sequence", (False, True) if tensor > 1 else (False,)),
                of("micro", divisors(batch // data) if batch % data == 0 else ()),
                stages,
                of("recompute", MODES),
            ):
                said = {
                    "tensor": tensor, "pipeline": pipeline, "context": context, "expert": expert,
                    "expert_tensor": expert_tensor, "virtual": virtual, "schedule": schedule,
                    "cut": cut, "sequence": sequence, "replicate": 1, "micro": micro,
                    "zero": zero, "recompute": recompute, "kernels": None,
                }  # fmt: skip
                shards = data * context
                several = [n for n in divisors(shards)[1:-1] if zero > 0]
                if "replicate" not in (*held, *free):
                    inside = [n for n in several if shards // n * tensor <= node]
                    several = [] if shards * tensor <= node else inside
                ones = [n for n in (1, *several) if n in held.get("replicate", (n,))]
                fits = [(n, made) for n in ones if (made := valid({**said, "replicate": n}))]
                if "replicate" not in (*held, *free):
                    fits = fits[:2]
                found += [({**said, "replicate": n}, made) for n, made in fits]
    names = dict.fromkeys(made.get("training.implementation") for _, made in found)
    for said, made in found:
        yield said
        if said["tensor"] == said["pipeline"] == 1 and not plan.document.data["training"].get(
            "implementation"
        ):
            for name in names:
                if name != made.get("training.implementation"):
                    yield {**said, "kernels": name}


def changed(plan: Plan, said: Mapping[str, Any]) -> Plan:
    cleared = ("parallelism.data", "parallelism.expert_data", "training.gradient_accumulation")
    changes = {NAMES[name]: value for name, value in said.items()}
    if plan.document.data["training"].get("implementation"):
        del changes[NAMES["kernels"]]  # whose kernels run is no choice
    return variant(plan, {**dict.fromkeys(cleared), **changes})


def evaluated(
    plan: Plan, every: Sequence[Mapping[str, Any]], quantities: Sequence[str] = QUANTITIES
) -> list[Row]:
    """Each layout as a plan of its own, in floats; plans of one structure share a graph, and others
    what they have in common with the last one."""
    found, graphs, last = list[Row](), dict[Any, Evaluation](), None
    for said in every:
        built = case.build(changed(plan, said))
        alike = tuple(
            v if k in STRUCTURE else isinstance(v, int) and v > 1 for k, v in said.items()
        )
        again = graphs.get(alike) and graphs[alike].rerun(built, False)
        if again is None:
            again = last = Evaluation(built, like=last, exact=False)
            for name in quantities:
                again.instance(name, {})
        graphs[alike] = again
        found.append(Row(said, {name: float(again.value(name)) for name in quantities}))
    return found


class Case(NamedTuple):
    plan: Plan
    held: Mapping[str, Any]
    rows: Sequence[Row]
    same: Mapping[str, str]  # modes that are the same step as another and hold no less

    def search(self, **options: Any) -> SearchResult:
        fixed = {NAMES[name]: value for name, value in self.held.items()}
        return search(self.plan, **{"fixed": fixed, "margin": "0", **options})


def twins(plan: Plan, rows: Sequence[Row]) -> dict[str, str]:
    """Modes of recomputation under which no layout takes another time or holds less than under
    another one, of which the plan's own, else the first, is asked."""
    table: dict[Any, dict[str, tuple[float, float]]] = {}
    for row in rows:
        rest = tuple(sorted((k, str(v)) for k, v in row.said.items() if k != "recompute"))
        table.setdefault(rest, {})[row.said["recompute"]] = row.key()
    modes = list(dict.fromkeys(row.said["recompute"] for row in rows))

    def stands(one: str, other: str) -> bool:
        """Whether one may stand for the other."""
        return all(
            at[one][0] == at[other][0] and at[one][1] <= at[other][1] for at in table.values()
        )

    modes.sort(key=lambda mode: mode != plan.get("training.recompute"))
    kept: list[str] = []
    for place, mode in enumerate(modes):
        later = [other for other in modes[place + 1 :] if not stands(mode, other)]
        if not any(stands(other, mode) for other in (*kept, *later)):
            kept.append(mode)
    return {m: next(k for k in kept if stands(k, m)) for m in modes if m not in kept}


@cache
def counted_out(name: str) -> Case:
    """A plan with every layout of it."""
    written, held = PLANS[name]
    plan = loading.load(written)
    rows = evaluated(plan, list(everything(plan, {k: (v,) for k, v in held.items()})))
    same = {} if "recompute" in held else twins(plan, rows)
    return Case(plan, held, [r for r in rows if r.said["recompute"] not in same], same)


def told(layout: Layout) -> dict[str, Any]:
    """The keys of a layout that was found, by their short names."""
    said = {name: layout.changes.get(key) for name, key in NAMES.items()}
    return said


def is_row(layout: Layout, rows: Sequence[Row]) -> Row:
    """The row that a layout is."""
    (row,) = (row for row in rows if row.said == told(layout))
    return row


#: Those of which every layout is evaluated in a second or two, and the others.
QUICK = ("dense", "long context", "chunks")
every_plan = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in PLANS]
)


@pytest.mark.slow
@every_plan
def test_every_layout_is_counted_once_and_the_best_are_the_first_in_order(name: str) -> None:
    found_out = counted_out(name)
    rows = found_out.rows
    assert len(rows) > 80
    found = found_out.search(top=12)
    assert found.size == found.every == len(rows)
    assert found.same == found_out.same
    fitting = [row for row in rows if row.values[FITS] >= 0]
    assert found.fitting == len(fitting)
    # What takes as long and holds as much is one step, said in other words.
    expected = sorted({row.key() for row in fitting})[:12]
    assert [is_row(layout, fitting).key() for layout in found.best] == expected
    for layout in found.best:
        row = is_row(layout, fitting)
        for quantity in (STEP, MEMORY, FITS):
            assert float(layout.values[quantity]) == pytest.approx(row.values[quantity], rel=1e-9)


@pytest.mark.slow
@every_plan
def test_the_front_is_what_no_other_layout_beats(name: str) -> None:
    found_out = counted_out(name)
    keys = {row.key() for row in found_out.rows if row.values[FITS] >= 0}
    unbeaten = [
        (score, memory)
        for score, memory in keys
        if not any((s, m) != (score, memory) and s <= score and m <= memory for s, m in keys)
    ]
    found = found_out.search(top=1)
    assert [is_row(layout, found_out.rows).key() for layout in found.front] == sorted(unbeaten)


def plainness(row: Row) -> tuple[Any, ...]:
    """What docs and the heading of a search call plain, what counts most first."""
    said = row.said
    degrees = [said[k] for k in ("tensor", "pipeline", "context", "expert", "expert_tensor")]
    degrees.append(said["replicate"])
    whole = 1
    for degree in degrees:
        whole *= degree
    return (
        sum(degree > 1 for degree in degrees),
        said["schedule"] not in ("1f1b", "interleaved"),
        whole,
        said["virtual"],
        said["zero"],
        SCHEDULES.index(said["schedule"]),
        said["cut"] is not None,
        MODES.index(said["recompute"]),
        said["tensor"] > 1 and not said["sequence"],
        said["kernels"] is not None,
        said["micro"],
    )


@pytest.mark.slow
@every_plan
@pytest.mark.parametrize("by", [STEP, MEMORY, COST])
def test_the_plainest_within_a_fiftieth_is_recommended(name: str, by: str) -> None:
    found_out = counted_out(name)
    fitting = [row for row in found_out.rows if row.values[FITS] >= 0]
    least = min(row.values[by] for row in fitting)
    near = [row for row in fitting if row.values[by] <= least * 1.02 * (1 - 1e-12)]
    found = found_out.search(top=1, by=by)
    assert found.plain is not None
    plainest = min(map(plainness, near))
    row = is_row(found.plain, near)
    assert plainness(row) == plainest
    assert row.key(by)[0] == min(r.key(by)[0] for r in near if plainness(r) == plainest)
    assert is_row(found.best[0], fitting).key(by)[0] == float(f"{least:.11g}")


@pytest.mark.slow
@every_plan
def test_each_value_of_each_key_has_the_best_layout_with_it(name: str) -> None:
    found_out = counted_out(name)
    rows = found_out.rows
    # A device on which only some layouts have room, so that with some values nothing fits.
    memory = sorted({row.values[MEMORY] for row in rows})
    room = memory[len(memory) // 8]
    limit = Limit(MEMORY, "<=", Fraction(room))
    fitting = [row for row in rows if row.values[MEMORY] <= room * (1 + 1e-12)]
    found = found_out.search(top=1, choices=True, limits=(Limit(MEMORY, "<=", room + 0.5),))
    assert limit.is_met(room) and found.fitting == len(fitting)
    shown: dict[str, list[Any]] = {}
    for choice in found.choices:
        shown.setdefault(choice.key, []).append((choice.value, choice.layout))
    for short, key in NAMES.items():
        own = short == "kernels"

        def value(row: Row, short: str = short, own: bool = own) -> Any:
            said = row.said[short]
            return said if not own else said or changed(found_out.plan, row.said).get(NAMES[short])

        best: dict[Any, tuple[float, float]] = {}
        for row in fitting:
            best[value(row)] = min(best.get(value(row), row.key()), row.key())
        none = {value(row) for row in rows} - best.keys()
        if len(best) + len(none) < 2:
            assert key not in shown, key
            continue
        listed = shown[key]
        assert [v for v, layout in listed if layout is None] == sorted(none, key=str), key
        with_one = [(v, layout) for v, layout in listed if layout is not None]
        assert {v: is_row(layout, fitting).key() for v, layout in with_one} == best, key
        scores = [best[v] for v, _ in with_one]
        assert scores == sorted(scores), key


@pytest.mark.slow
@every_plan
def test_limits_are_kept_also_by_what_just_meets_them(name: str) -> None:
    found_out = counted_out(name)
    rows = [row for row in found_out.rows if row.values[FITS] >= 0]
    ordered = sorted(rows, key=Row.key)
    middle = ordered[len(ordered) // 3]
    for relation, quantity in (("<=", STEP), (">=", STEP), ("<=", MEMORY), (">=", FITS)):
        bound = middle.values[quantity]
        # Rounded to eleven digits on both sides, as sums in another order are.
        sign = 1 if relation == "<=" else -1
        limit = Limit(quantity, relation, bound * (1 + sign * 1e-11))
        kept = [row for row in rows if limit.is_met(row.values[quantity])]
        assert 0 < len(kept) < len(rows) or quantity in (FITS, MEMORY)
        found = found_out.search(top=1, limits=(limit,))
        assert found.fitting == len(kept), (relation, quantity)
        assert is_row(found.best[0], kept).key() == min(map(Row.key, kept))


@pytest.mark.slow
@every_plan
def test_with_as_much_to_spare_as_is_asked(name: str) -> None:
    """Where none has so much, those that fit as predicted are ranked, which is said; where none
    fits, the one that lacks least is named."""
    found_out = counted_out(name)
    rows = found_out.rows
    capacity = rows[0].values[HEADROOM] + rows[0].values[MEMORY]
    share = Fraction(capacity / sorted(row.values[MEMORY] for row in rows)[len(rows) // 2]) - 1
    spared = [row for row in rows if row.values[MEMORY] * (1 + float(share)) <= capacity]
    found = found_out.search(top=1, margin=str(float(share * Fraction(10**9 + 1, 10**9))))
    exact = [
        row for row in rows if row.values[MEMORY] * (1 + float(share)) <= capacity * (1 - 1e-9)
    ]
    assert 0 < len(exact) <= found.fitting <= len(spared) < len(rows) and not found.tight
    safe = [row for row in rows if row.values[SURE] >= 0]
    found = found_out.search(top=1, margin="p95")
    assert (found.fitting, found.tight) == (len(safe), not safe)
    least = min(row.values[MEMORY] for row in rows)
    tight = found_out.search(top=1, margin=str(capacity / least))
    assert tight.tight and tight.fitting == 0
    assert is_row(tight.best[0], rows).key() == min(r.key() for r in rows if r.values[FITS] >= 0)
    none = found_out.search(top=1, limits=(Limit(MEMORY, "<=", int(least) - 1),))
    assert not none.best and none.fitting == 0 and none.plain is None and not none.tight
    assert none.nearest is not None and is_row(none.nearest, rows).values[FITS] == max(
        row.values[FITS] for row in rows
    )


@pytest.mark.slow(every=5)
@every_plan
def test_a_key_that_is_held_leaves_the_layouts_that_have_its_value(name: str) -> None:
    found_out = counted_out(name)
    values: dict[str, dict[Any, None]] = {}
    for row in found_out.rows:
        for short, value in row.said.items():
            values.setdefault(short, {})[value] = None
    for short in ("tensor", "pipeline", "context", "micro", "expert"):
        for value in values[short] if short not in found_out.held else ():
            fixed = {**found_out.held, short: value}
            kept = [row for row in found_out.rows if row.said[short] == value]
            if "recompute" not in fixed:  # which modes are alike may hang on what is left
                fixed["recompute"] = next(m for m in MODES if m not in found_out.same)
                kept = [row for row in kept if row.said["recompute"] == fixed["recompute"]]
            found = search(
                found_out.plan, 1, fixed={NAMES[k]: v for k, v in fixed.items()}, margin="0"
            )
            # Kernels are those of some layout that is left.
            own = [row.said for row in kept if row.said["kernels"] is None]
            ran = {None, *(changed(found_out.plan, said).get(NAMES["kernels"]) for said in own)}
            kept = [row for row in kept if row.said["kernels"] in ran]
            assert found.size == len(kept), (short, value)
            fitting = [row for row in kept if row.values[FITS] >= 0]
            assert found.fitting == len(fitting)
            assert is_row(found.best[0], fitting).key() == min(map(Row.key, fitting))


#: Plans whose layouts are listed only: what is held, and the keys of which every valid value is.
Listed = tuple[dict[str, Any], dict[str, Any], tuple[str, ...]]
LISTED: dict[str, Listed] = {
    **{name: (written, held, ()) for name, (written, held) in PLANS.items()},
    **{
        f"{name} {short}": (PLANS[name][0], {"recompute": "none", **PLANS[name][1]}, (short,))
        for name, short in (
            ("dense", "zero"), ("dense", "replicate"), ("experts", "expert_tensor"),
            ("chunks", "schedule"), ("uneven", "cut"),
        )
    },
    "two experts": (
        document(
            2, 2, 6, 384, model={"moe": {"experts": 2, "top_k": 1, "intermediate": 768}}
        ),
        {"zero": 2, "recompute": "none", "micro": 1},
        (),
    ),
    "one node": (document(3, 6, 6, 384), {"recompute": "full", "context": 1}, ()),
    "short": (document(7, 3, 6, 12), {"zero": 3, "recompute": "none"}, ("replicate",)),
    "spelled out": (
        document(
            6, 3, 12, 384, training={"gradient_accumulation": 4, "micro_batch": 1},
            parallelism={"pipeline": 2, "data": 3},
        ),
        {"recompute": "none", "micro": 2},
        (),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LISTED)
def test_every_layout_is_listed_once_and_plainer_ones_have_smaller_numbers(name: str) -> None:
    written, held, free = LISTED[name]
    held = {key: value for key, value in held.items() if key not in free}
    plan = loading.load(written)
    space = Space(plan, {NAMES[k]: (v,) for k, v in held.items()}, tuple(NAMES[k] for k in free))
    found: list[tuple[dict[str, Any], int]] = []
    for rows in space.yield_blocks(50):
        places = rows.valid.ravel().nonzero()[0]
        plain = rows.score_simplicity(places).tolist()
        for place, number in zip(places.tolist(), plain, strict=True):
            changes, follows = rows.build_setting(place)
            found.append(({name: changes.get(key) for name, key in NAMES.items()}, number))
            if place == places[-1]:
                made = variant(plan, changes)
                for key in follows:
                    assert made.get(key) == follows[key], key
    expected = list(everything(plan, {k: (v,) for k, v in held.items()}, free))
    assert len(expected) == space.size > 50
    order = sorted(range(len(found)), key=lambda place: str(found[place][0]))
    assert [str(found[place][0]) for place in order] == sorted(map(str, expected))
    told = [plainness(Row(said, {})) for said, _ in found]
    by_rank = {number: each for each, (_, number) in zip(told, found, strict=True)}
    assert len(by_rank) == len(set(told))
    assert [by_rank[number] for number in sorted(by_rank)] == sorted(by_rank.values())


@pytest.mark.parametrize("most", range(1, 60, 7))
def test_blocks_end_where_they_have_as_many_rows_as_are_asked_for(most: int) -> None:
    written, held = PLANS["dense"]
    space = Space(loading.load(written), {NAMES[k]: (v,) for k, v in held.items()})
    (whole,) = space.yield_blocks()
    sizes = [int((whole.of_degrees == place).sum()) for place in range(len(space.degrees))]
    expected, rows = [], 0
    for size in sizes:
        rows += size
        if rows >= most:
            expected.append(rows)
            rows = 0
    blocks = list(space.yield_blocks(most))
    assert [len(block) for block in blocks] == [*expected, *[rows] * (rows > 0)]
    columns = zip(*(block.columns for block in blocks), strict=True)
    for column, several in zip(whole.columns, columns, strict=True):
        assert column.tolist() == [number for part in several for number in part.tolist()]


#: Keys that are asked for with values, or with every valid one, and what else is held.
ASKED = list(map(tuple, read_data("questions")["searches"]))


#: Of these, those that are tried each time also with every valid value.
SOON = {("dense", "micro"), ("dense", "replicate"), ("chunks", "virtual")}


@pytest.mark.slow(every=5)
@pytest.mark.parametrize(
    ("name", "short", "values", "more"),
    leave_to_night(ASKED, [one for one in ASKED if one[2] or one[:2] in SOON]),
)
def test_what_is_asked_for_is_tried_sensible_or_not(
    name: str, short: str, values: tuple[Any, ...], more: dict[str, Any]
) -> None:
    written, held = PLANS[name]
    plan = loading.load(written)
    held = {k: v for k, v in {"recompute": "none", **held, **more}.items() if k != short}
    limited: dict[str, Sequence[Any]] = {k: (v,) for k, v in held.items()}
    every = everything(
        plan, {**limited, **({short: values} if values else {})}, () if values else (short,)
    )
    rows = evaluated(plan, list(every))
    assert rows
    fixed = {NAMES[k]: v for k, v in held.items()}
    found = search(plan, 3, fixed=fixed, vary={NAMES[short]: values}, margin="0")
    assert found.size == len(rows)
    fitting = [row for row in rows if row.values[FITS] >= 0]
    assert found.fitting == len(fitting)
    expected = sorted({row.key() for row in fitting})[:3]
    assert [is_row(layout, fitting).key() for layout in found.best] == expected


@pytest.mark.slow
def test_another_key_of_the_plan_is_crossed_with_every_layout() -> None:
    written, held = PLANS["long context"]
    fixed = {NAMES[k]: v for k, v in held.items()}
    every: list[Row] = []
    for length in (1536, 3072):
        plan = loading.load(
            {**written, "training": {**written["training"], "sequence_length": length}}
        )
        rows = evaluated(plan, list(everything(plan, {k: (v,) for k, v in held.items()})))
        every += [Row({**row.said, "length": length}, row.values) for row in rows]
    plan, key = counted_out("long context").plan, "training.sequence_length"
    found = search(plan, 5, fixed=fixed, vary={key: (1536, 3072)}, margin="0")
    kept = [row for row in every if row.said["recompute"] not in found.same]
    assert found.size == len(kept) and found.varied == (key,)
    best = sorted({row.key() for row in kept if row.values[FITS] >= 0})[:5]
    for layout, expected in zip(found.best, best, strict=True):
        said = {**told(layout), "length": layout.changes[key]}
        (row,) = (row for row in kept if row.said == said)
        assert row.key() == expected


@pytest.mark.slow
def test_what_follows_from_a_layout_is_what_its_plan_says() -> None:
    """Data parallelism, steps of accumulation, kernels and their loss, by the plan's completion."""
    for name in QUICK:
        found_out = counted_out(name)
        for layout in found_out.search(top=20).best:
            made = changed(found_out.plan, told(layout))
            for key, value in layout.follows.items():
                assert made.get(key) == value, (name, key)


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("framework", ["megatron", "torchtitan", "deepspeed"])
def test_what_a_framework_starts_are_the_layouts_that_its_export_says_whole(framework: str) -> None:
    """Of two modes that are the same step one stands for the other only where both are started."""
    written, _ = PLANS["dense"]
    plan = loading.load(written, {"training.implementation": "pytorch"})
    held = {"context": 1, "schedule": "1f1b", "cut": "even", "micro": 2, "sequence": False}
    started = []
    for said in everything(plan, {k: (v,) for k, v in held.items()}):
        unsaid = export(changed(plan, said), framework).unsaid
        if not any(one.key in NAMES.values() and not isinstance(one.why, Elsewhere)
                   for one in unsaid):  # fmt: skip
            started.append(said)
    rows = evaluated(plan, started)
    same = twins(plan, rows)
    rows = [row for row in rows if row.said["recompute"] not in same]
    fixed = {NAMES[k]: v for k, v in held.items()}
    found = search(plan, 4, fixed=fixed, margin="0", launcher=framework)
    assert found.launcher == framework and found.same == same
    assert found.size == len(rows) > 4
    fitting = [row for row in rows if row.values[FITS] >= 0]
    expected = sorted({row.key() for row in fitting})[:4]
    assert [is_row(layout, fitting).key() for layout in found.best] == expected


def test_layouts_of_a_model_that_serves_are_ranked_by_the_time_of_an_answer() -> None:
    by = "time.latency_seconds"
    written = document(6, 3, 12, 384, training={"mode": "inference", "output_tokens": 50})
    del written["training"]["tokens"]
    plan = loading.load(written)
    held = {"schedule": "1f1b", "cut": "even", "recompute": "none", "zero": 0, "micro": 2}
    every = list(everything(plan, {k: (v,) for k, v in held.items()}))
    rows = evaluated(plan, every, (FITS, MEMORY, by))
    found = search(plan, 5, by, {NAMES[k]: v for k, v in held.items()}, margin="0")
    assert found.size == len(rows) > 25
    fitting = [row for row in rows if row.values[FITS] >= 0]
    expected = sorted({row.key(by) for row in fitting})[:5]
    assert [is_row(layout, fitting).key(by) for layout in found.best] == expected
