"""The inventory: what each block of a model is made of.

Each block kind states its components once, as rows of inventory.yaml, with widths as formulas in
the notation's symbols. Parameters, matmul FLOPs, saved tensors, communication and checkpoint size
all derive from here.

A component has a type, which decides the formulas that hold for it:

linear   a matmul of n_in by n_out, with a bias where ``bias`` is set
table    n_in rows of n_out, looked up (embeddings)
norm     n_out weights, with biases where ``bias`` is set
vector   n_out further weights that no matmul uses
conv     a causal depthwise convolution of width n_in over n_out channels
core     attention's two products with itself: n_in = query/key width, n_out = value width
index    the indexer's product of queries and keys, n_in wide; its scores are weighed over n_out
scan     products of a linear attention or state space that use no weights

``split`` says how tensor parallelism cuts it: column (output), row (input), vocabulary, experts,
none (every rank holds all). ``copies`` is how many of it there are, ``applied`` how many a token
uses: an expert has E copies of which k are applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from planner.base import resources
from planner.book.expressions import Expression, make_number
from planner.book.formula_text import parse_formula, resolve_name
from planner.book.notation import h
from planner.book.quantity import agrees

ONE = make_number(1)
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Component:
    """One component of a block: a matrix, a vector, or an operation without weights.

    Attributes:
        name: unique in its block.
        n_in: width of the input; of a convolution the kernel.
        n_out: width of the output.
        group: the line of a breakdown that it belongs to.
        split: how tensor parallelism divides it: none, column, row, vocabulary or experts.
        bias: whether a vector is added.
        type: linear, table, norm, vector, conv, core (attention), index or scan.
        copies: of the weights, such as experts.
        applied: copies that a token uses.
        shared: whether the weight is another component's, counted there.
        again: whether it lies beside that one on every stage, so that no copy is held.
        frozen: whether the loss sends it no gradient.
        scan: which algorithm a scan is.
        each: tokens that a key of a core or an index stands for.
        most: keys that a query meets at most; None for all.
        run: keys as kernels run them, where that is more.
        final: whether it is the last of its layer, and nothing keeps its output.
        side: its tokens, where they are not all of the sequence: ``decoder``; ``cross``, which meet
            the encoder's; ``first`` of each sequence; ``tower``, of a stack in front of the
            decoder.
    """

    name: str
    n_in: Expression
    n_out: Expression
    group: str
    split: str = "none"
    bias: bool = False
    type: str = "linear"
    copies: Expression = ONE
    applied: Expression = ONE
    shared: bool = False
    again: bool = False
    frozen: bool = False
    scan: str = ""
    each: Expression = ONE
    most: Expression | None = None
    run: Expression | None = None
    final: bool = False
    side: str = ""


Components = Iterator[Component]

#: Types of components that multiply matrices.
MATMULS = ("linear", "core", "index", "scan")


#: The group of projections that are a layer's own if layers share a block.
ADAPTERS = "adapters"
#: Gates beyond the first, each another matrix beside it.
FURTHER_GATES = tuple(f"gate_{place}" for place in range(2, 7))
#: What targets of adapters call a projection, where that is not its own name.
_TARGETS = {
    **dict.fromkeys(FURTHER_GATES, ("gate",)),
    **dict.fromkeys(("query_down", "query_up"), ("query",)),
    **dict.fromkeys(("kv_down", "kv_up"), ("key", "value")),
}


def name_targets(block: str, component: str) -> tuple[str, ...]:
    """List the targets of adapters that mean a component of a block of some kind."""
    return ("head",) if block == "head" else _TARGETS.get(component, (component,))


def _name_matmuls(values: Values) -> tuple[str, ...]:
    """List the matmuls from the hidden size to the width of a feed-forward."""
    further = FURTHER_GATES[: values.get("further") or 0]
    return ("gate", *further, "up") if values["gated"] else ("up",)


#: Fields of a component that are widths or numbers, as formulas; and those that are flags.
_FORMULAS = ("n_in", "n_out", "copies", "applied", "each", "most", "run")
_FLAGS = ("bias", "shared")
#: Keys of rows that are no fields.
_OF_ROWS = ("when", "unless", "for", "use")


@cache
def _load_rows() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Load the rows of each kind of block, with what they leave to its group and to their type."""
    return {
        kind: [
            {"name": "{name}", "n_in": 1, "group": block["group"]}
            | ({"group": "norm"} if row.get("type") == "norm" else {})
            | row
            for row in block["rows"]
        ]
        for kind, block in resources.load_beside(__file__).items()
    }


@cache
def _parse_formula(text: str) -> Expression:
    """Parse a width in symbols of the notation."""
    return parse_formula(text, resolve_name).tree


def _has_values(values: Values, wanted: Values) -> bool:
    """Check whether a block has values; true and false stand for any and for none."""
    return all(
        bool(values.get(key)) is one if isinstance(one, bool) else agrees(values.get(key), one)
        for key, one in wanted.items()
    )


def _holds(row: Values, values: Values) -> bool:
    """Check the conditions of a row of a block."""
    return _has_values(values, row.get("when", {})) and not (
        "unless" in row and _has_values(values, row["unless"])
    )


def _choose_value(field: Any, values: Values) -> Any:
    """Return the value of a field: of several the first whose condition holds; None if none does.
    Words in braces are values of the block."""
    if isinstance(field, list):
        rows = (one if isinstance(one, dict) else {"is": one} for one in field)
        field = next((row["is"] for row in rows if _holds(row, values)), None)
    return field.format(**values) if isinstance(field, str) and "{" in field else field


def _yield_components(kind: str, values: Values) -> Components:
    """Yield the components of a kind of block whose rows hold."""
    matmuls = _name_matmuls(values) if "gated" in values else ()
    for row in _load_rows()[kind]:
        if not _holds(row, values):
            continue
        if "use" in row:
            yield from _yield_components(row["use"], values)
            continue
        names = row.get("for", ("",))
        for name in matmuls if names == "matmuls" else names:
            words = {**values, "name": name, "matmuls": len(matmuls)}
            found = {k: _choose_value(v, words) for k, v in row.items() if k not in _OF_ROWS}
            found |= {
                k: _parse_formula(str(found[k])) for k in _FORMULAS if found.get(k) is not None
            }
            found |= {k: values[found[k]] for k in _FLAGS if isinstance(found.get(k), str)}
            yield Component(**found)


#: Block kinds with a cache or a state in serving.
REMEMBERING = frozenset(
    {"attention", "mamba", "delta_net", "short_conv", "recurrence", "rwkv", "lightning"}
)


#: The projections of one stream whose tokens share an attention core with others (Esser et al.
#: 2024, arXiv 2403.03206, section 4) are those of attention, without the components in ``without``.
ROWS_OF = {"stream": "attention"}


def list_components(kind: str, values: Values) -> Components:
    """Yield the components of a block; weights shared with another block are counted there."""
    side_norms = (f"side_norm_{place + 1}" for place in range(values.get("side_norms", 0)))
    found = [
        *_yield_components("core" if values.get("joined") else ROWS_OF.get(kind, kind), values)
    ]
    if kind == "stream" and not values.get("joined"):
        found = [piece for piece in found if piece.name not in ("core", *values["without"])]
    found += [Component(name, ONE, h, "norm", type="norm") for name in side_norms]
    if values.get("layer_scale"):
        found.append(Component("layer_scale", ONE, h, "norm", type="vector"))
    # Routed experts' output is weighed by the router, and a gate weighs the shared experts'.
    kept = kind == "norm" or (
        kind == "moe" and (not values["shared_intermediate"] or values["shared_gate"])
    )
    if values.get("last") and found[-1:] and found[-1].type == "linear" and not kept:
        found[-1] = replace(found[-1], final=True)
    if values.get("decoder"):
        cross = bool(values.get("cross"))
        # Cross-attention projects keys and values of the encoder's tokens, all else the decoder's.
        others = {"key": "", "value": "", "core": "cross"} if cross else {}
        found = [replace(c, side=others.get(c.name, "decoder")) for c in found]
    if values.get("tower"):
        still = bool(values.get("frozen"))
        found = [replace(c, side="tower", frozen=c.frozen or still) for c in found]
    if values.get("reused"):
        again = bool(values.get("again"))
        found = [
            c if c.group == ADAPTERS else replace(c, shared=True, bias=False, again=again)
            for c in found
        ]
    yield from found
