"""Blocks that stand in several places of a model: matrices one behind another, and blocks of which
something further holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planner.plans.document import Block, Draft

Kind = dict[str, Any]
#: Stacks in front of the layers.
TOWERS = ("vision", "audio")


def mark_block(block: Block, mark: str) -> Block:
    """Return a block with the value ``mark`` set to true."""
    return replace(block, values={**block.values, mark: True})


def of_tower(block: Block, frozen: bool) -> Block:
    """Mark a block as running on a tower's tokens, and whether its weights are frozen."""
    return replace(block, values={**block.values, "tower": True, "frozen": frozen})


def chain(
    draft: Draft, data: Kind, key: str, first: int, hidden: int, last: int | None
) -> list[tuple[int, Block]]:
    """Build a chain of matrices, with an activation behind the first, the third and so on.

    Args:
        data: the section of the model that lists them.
        key: of the list in the section.
        first: values that the first matrix reads, if it does not say its ``inputs``.
        hidden: values that the matrices before the last one write.
        last: values that the last one writes; None if that is its own choice.

    Returns:
        the rows of each matrix per token, and its block.
    """
    chain: list[tuple[int, Block]] = []
    listed = data.get(key) or []
    for place, said in enumerate(listed):
        behind = place + 1 < len(listed)
        inputs = said.get("inputs") or first
        if not inputs:
            draft.fault(
                f"{data['place']}.{key}.{place}",
                "the input width of the first matrix is missing",
                "inputs",
            )
            draft.raise_faults()
        values = {
            **said,
            "inputs": inputs,
            "outputs": said.get("outputs") or (hidden if behind or last is None else last),
            "norm_width": said.get("norm_width") or inputs,
            "group": key,
            "activated": behind and place % 2 == 0,
            # Two matrices with an activation between them are divided as a feed-forward is.
            "split": ("column", "row")[place % 2] if place % 2 or behind else "none",
        }
        first = values["outputs"]
        chain.append((said.get("rows", 1), Block("matrix", f"{key}_{place + 1}", values)))
    if listed and last is not None and first != last:
        wrong = f"the last matrix has {first} outputs, not {last}"
        draft.fault(f"{data['place']}.{key}", wrong, f"outputs: {last}")
    return chain
