"""The matmuls that run on one device: the components of a block, joined where one kernel computes
several (query, key and value; gate and up).

They form an axis of their own, ``product``: each has rows, columns and a depth on one device;
columns and depth follow here from the components and their tensor-parallel split.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from planner.base.recent import cache_last
from planner.book import notation
from planner.book.expressions import add
from planner.book.formulas.layout import vocabulary
from planner.book.inventory import FURTHER_GATES
from planner.engine.evaluate import Entry

#: Components that read one input and run as one product, where the block has them.
JOINED = (
    ("query", "key", "value"),
    ("gate", *FURTHER_GATES, "up"),
    ("expert_gate", "expert_up"),
    ("shared_gate", "shared_up"),
)
KERNEL = {name: names for names in JOINED for name in names}


@cache_last(4)
def list_matmuls(components: tuple[Entry, ...], joined: bool) -> Iterator[Entry]:
    """Yield the matmuls of every block, in the order of its components.

    Args:
        components: those of all blocks.
        joined: whether the implementation keeps joined components as one matrix, with one adapter.
    """
    products: dict[tuple[Entry, tuple[str, ...]], list[Entry]] = {}
    for component in components:
        if component.settings["type"] == "linear" and component.parent is not None:
            kernel = KERNEL.get(component.name, (component.name,))
            products.setdefault((component.parent, kernel), []).append(component)
    for (block, _), members in products.items():
        first = members[0]
        split = first.settings["split"]
        widths = [(one.bindings[notation.n_out], bool(one.settings["adapted"])) for one in members]
        adapted = sum(target for _, target in widths)
        whole = adapted > 0 and (joined or bool(block.settings.get("block.fused")))
        (columns, depth), (beside, _) = (
            _split_widths(
                tuple(width if target else other * width for width, target in widths),
                first.bindings[notation.n_in],
                split,
                first.name == "expert_down",
            )
            # One formula under every implementation, which a search over several evaluates once.
            for other in (1, notation.p_ad)
        )
        yield Entry(
            "product",
            "+".join(member.name for member in members),
            ", ".join(member.name.replace("_", " ") for member in members),
            block,
            bindings={
                notation.N_x: columns,
                notation.K_x: depth,
                notation.N_ad: beside,
                notation.p_ad: int(whole),
                notation.n_ad: 1 if whole else adapted,
                notation.applied: first.bindings[notation.applied],
            },
            settings={
                "split": split,
                "wide": first.settings["wide"],
                "frozen": first.settings["frozen"],
                "final": members[-1].settings["final"],
                "bias": any(member.settings["bias"] for member in members),
                **({"lora": False} if first.settings.get("lora") is False else {}),
                "adapted": adapted > 0,
                "hidden matrix": first.settings["hidden matrix"],
            },
        )


@lru_cache(maxsize=256)
def _split_widths(columns: tuple[Any, ...], depth: Any, split: str, down: bool) -> tuple[Any, Any]:
    """Return columns and depth on one device, of joined components under their split.

    Args:
        columns: those of each component.
        depth: of all of them.
        split: how tensor parallelism divides them.
        down: whether they are the product of an expert that sums over its width, which
            expert-tensor ranks divide.
    """
    wide = add(*columns)
    if split == "column":
        wide = wide / notation.t
    elif split == "row":
        depth = depth / notation.t
    elif split == "vocabulary":
        wide = vocabulary / notation.t
    elif split == "experts" and down:
        depth = depth / notation.t_e
    elif split == "experts":
        wide = wide / notation.t_e
    return wide, depth
