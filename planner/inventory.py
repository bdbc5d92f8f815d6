"""The inventory: what each block of a model is made of.

Each block kind states its components once, with widths as expressions in the notation's symbols.
Parameters, matmul FLOPs, saved tensors, communication and checkpoint size all derive from here.

A component has a type, which decides the formulas that hold for it:

linear   a matmul of n_in by n_out, with a bias where ``bias`` is set
table    n_in rows of n_out, looked up (embeddings)
norm     n_out weights, with biases where ``bias`` is set
vector   n_out further weights that no matmul uses
core     attention's two products with itself: n_in = query/key width, n_out = value width

``split`` says how tensor parallelism cuts it: column (output), row (input), vocabulary, experts,
none (every rank holds all). ``copies`` is how many of it there are, ``applied`` how many a token
uses: an expert has E copies of which k are applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sympy import Expr, Integer

from planner.notation import E, V, a, a_kv, d_h, d_v, f, f_e, f_s, h, k, s_max

ONE = Integer(1)
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    type: str
    n_in: Expr
    n_out: Expr
    group: str  # the line of a breakdown that it belongs to
    split: str = "none"
    bias: bool = False
    copies: Expr = ONE
    applied: Expr = ONE
    shared: bool = False  # the weight is another component's, counted there
    extra: Mapping[str, Any] = field(default_factory=dict)


Components = Iterator[Component]


def _linear(
    name: str, n_in: Expr, n_out: Expr, group: str, split: str, bias: bool = False, **more: Any
) -> Component:
    return Component(name, "linear", n_in, n_out, group, split, bias, **more)


def attention(values: Values) -> Components:
    """Grouped-query attention (Ainslie et al. 2023, arXiv 2305.13245); a_kv = a is multi-head."""
    bias = values["bias"]
    yield _linear("query", h, a * d_h, "attention", "column", bias)
    yield _linear("key", h, a_kv * d_h, "attention", "column", bias)
    yield _linear("value", h, a_kv * d_v, "attention", "column", bias)
    if values.get("qk_norm") == "head":
        yield Component("query_norm", "norm", ONE, d_h, "norm")
        yield Component("key_norm", "norm", ONE, d_h, "norm")
    yield Component("core", "core", a * d_h, a * d_v, "attention scores", "column")
    yield _linear("output", a * d_v, h, "attention", "row", values["output_bias"])


def mlp(values: Values) -> Components:
    """Feed-forward; gated: Shazeer 2020, arXiv 2002.05202."""
    bias = values["bias"]
    if values["gated"]:
        yield _linear("gate", h, f, "mlp", "column", bias)
    yield _linear("up", h, f, "mlp", "column", bias)
    yield _linear("down", f, h, "mlp", "row", bias)


def moe(values: Values) -> Components:
    """Routed experts (Shazeer et al. 2017, arXiv 1701.06538) and experts that all tokens share."""
    bias = values["bias"]
    yield _linear("router", h, E, "router", "none", values.get("router_bias", False))
    routed = {"copies": E, "applied": k}
    if values["gated"]:
        yield _linear("expert_gate", h, f_e, "experts", "experts", bias, **routed)
    yield _linear("expert_up", h, f_e, "experts", "experts", bias, **routed)
    yield _linear("expert_down", f_e, h, "experts", "experts", bias, **routed)
    if values["shared_experts"]:
        if values["gated"]:
            yield _linear("shared_gate", h, f_s, "shared experts", "column", bias)
        yield _linear("shared_up", h, f_s, "shared experts", "column", bias)
        yield _linear("shared_down", f_s, h, "shared experts", "row", bias)


def norm(values: Values) -> Components:
    """RMSNorm (Zhang & Sennrich 2019) has weights, LayerNorm (Ba et al. 2016) biases as well."""
    yield Component("weight", "norm", ONE, h, "norm", bias=values["bias"])


def embedding(values: Values) -> Components:
    yield Component("token", "table", V, h, "embedding", "vocabulary")
    if values["positions"] == "learned":
        yield Component("position", "table", s_max, h, "embedding")


def head(values: Values) -> Components:
    yield _linear("output", h, V, "head", "vocabulary", values["bias"], shared=values["tied"])


BLOCKS: dict[str, Callable[[Values], Components]] = {
    "attention": attention,
    "mlp": mlp,
    "moe": moe,
    "norm": norm,
    "embedding": embedding,
    "head": head,
}
