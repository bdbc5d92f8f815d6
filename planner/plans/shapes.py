"""Shapes of blocks: defaults that depend on other keys, and checks across keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from planner.base import resources
from planner.documents import json_schema
from planner.plans.document import Draft

Kind = Mapping[str, Any]
#: Blocks whose values need no function of their own.
_ROWS = resources.load_beside(__file__)


class BlockShape:
    """The values of one block of one layer kind while they are completed."""

    def __init__(self, draft: Draft, kind: Kind, block: str, data: Kind) -> None:
        self.draft, self.kind, self.block = draft, kind, block
        self.here = f"{kind.get('place', 'model')}.{block}"
        self.values: dict[str, Any] = dict(kind.get(block) or {})
        # What a kind overrides is its own; the model's key is completed for all to see.
        self.common = kind.get(block) is data.get(block)

    def set_default(self, key: str, value: Any, why: str) -> Any:
        """Fill in a value that is not given; the model's own key too, unless the kind overrides the
        block.

        Args:
            key: of the block.
            value: in the unit of the key.
            why: the rule, as inputs and the page print it.

        Returns:
            the value of the key, given or not.
        """
        if self.values.get(key) is None:
            self.values[key] = value
            if self.common and self.draft.get(self.here) is not None:
                self.draft.default(f"{self.here}.{key}", value, why)
        return self.values[key]

    def add_fault(self, key: str, message: str, allowed: str | None = None) -> None:
        """Record a fault of a key of the block.

        Args:
            key: of the block.
            message: what is wrong.
            allowed: what may be written.
        """
        self.draft.fault(f"{self.here}.{key}", message, allowed)

    def copy_keys(self, *pairs: tuple[str, str]) -> None:
        """Set keys that are not given to others: of the same block, of another, of the model."""
        for key, of in pairs:
            block, _, name = of.removeprefix("model.").rpartition(".")
            held = self.kind.get(block) or {} if block else self.kind
            if block == self.block.removeprefix("cross_"):
                held = self.values
            self.set_default(key, held.get(name), f"equals {of}")

    def require_keys(self, *keys: str) -> None:
        """Record a fault for each key that has no value; raise a PlanError if there are any."""
        for key in keys:
            if self.values.get(key) is None:
                what = self.here.partition(".")[2].rpartition(".")[0] or "model"
                what = "model" if what == "model" else f"{what} tower"
                self.draft.fault(self.here, f"the {what} has no key '{self.block}.{key}'")
        self.draft.raise_faults()

    def divides(self, key: str, total: int, says: str, of: str) -> None:
        """Require that a value divides a total.

        Args:
            key: of the block.
            total: what it must divide.
            says: the message, with two fields: the value and the total.
            of: the key of the total, for what is allowed.

        Raises:
            PlanError: it does not.
        """
        if total % self.values[key]:
            self.add_fault(key, says.format(self.values[key], total), f"a divisor of {of}")
            self.draft.raise_faults()


@cache
def _load_constants(block: str) -> Mapping[str, Any]:
    """Return the schema's constant defaults, which it does not set for layer kinds."""
    given = json_schema.read_schema("model")["definitions"].get(f"{block}_defaults", {})
    return {key: said["default"] for key, said in given.get("properties", {}).items()}


def fill_block(draft: Draft, kind: Kind, block: str, data: Kind) -> dict[str, Any]:
    """Return the values of a block, with the defaults that depend on other keys.

    Args:
        draft: receives faults, and the defaults that the whole model shares.
        kind: the layer kind.
        block: its name, such as ``attention``.
        data: the section of the model, which a kind overrides.

    Raises:
        PlanError: values contradict each other, or one is missing.
    """
    here = BlockShape(draft, kind, block, data)
    for key, value in _load_constants(block).items():
        here.values.setdefault(key, value)
    _COMPLETE[block](here)
    return here.values


def _fill_attention(it: BlockShape) -> None:
    """Complete attention: head sizes, latent and compressed keys, windows, indexers."""
    values, kind = it.values, it.kind
    it.require_keys("heads")
    heads, latent = values["heads"], values.get("kv_rank") is not None
    if latent:
        it.require_keys("nope_dim", "rope_dim")
        parts = values["nope_dim"] + values["rope_dim"]
        it.set_default("head_dim", parts, "nope_dim + rope_dim")
        it.copy_keys(("value_head_dim", "attention.nope_dim"))
        if values["head_dim"] != parts:
            it.add_fault("head_dim", f"{values['head_dim']} is not nope_dim + rope_dim", str(parts))
    elif values.get("head_dim") is None:
        it.divides(
            "heads", kind["hidden"], "{} heads do not divide hidden {}", "hidden, or head_dim given"
        )
    it.copy_keys(("kv_heads", "attention.heads"))
    it.set_default("head_dim", kind["hidden"] // heads, "hidden / attention.heads")
    it.copy_keys(
        ("value_head_dim", "attention.head_dim"),
        ("bias", "model.bias"),
        ("key_bias", "attention.bias"),
        ("output_bias", "attention.bias"),
    )
    gated = values["output_gate"] == "full" and values["bias"]
    it.set_default("gate_bias", gated, "equals attention.bias for a full gate")
    it.divides("kv_heads", heads, "{} key/value heads do not divide {} heads", "attention.heads")
    if values.get("compress"):
        it.require_keys("query_rank")
        if latent or it.draft.get("training.mode") == "inference":
            what = "latent attention" if latent else "serving"
            it.add_fault("compress", f"compressed keys are not modelled in {what}", "left out")
    if values.get("index_pool"):
        it.require_keys("kv_rank", "index_heads")
    if values.get("output_groups"):
        it.require_keys("output_rank")
        mixed = heads * values["value_head_dim"]
        says = "{} groups do not divide {} mixed values"
        it.divides("output_groups", mixed, says, "heads * value_head_dim")
    if values.get("index_heads"):
        it.require_keys(*("index_head_dim", "query_rank")[: 2 if latent else 1])
    if values.get("relative_each"):
        it.require_keys("relative_buckets")
    values["doubled"] = bool(kind.get("shared_block"))
    past, window = kind.get("causal") is not False, values.get("window")
    values["sees"] = " ".join(["past"] * past + ["window"] * bool(window)) or "all"
    longest = kind.get("max_sequence")
    if window and longest and window > longest:
        wrong = f"a window of {window} tokens is longer than max_sequence {longest}"
        it.add_fault("window", wrong, f"at most {longest}")


def _fill_cross(it: BlockShape) -> None:
    """Complete cross-attention: keys that are not given are those of the layer's self-attention."""
    given, own = it.values, {"window": None, "index_top_k": None, "relative_each": False}
    it.values = {**_load_constants("attention"), **(it.kind.get("attention") or {}), **own}
    it.values.update({k: v for k, v in given.items() if v is not None})
    _fill_attention(it)
    it.values["cross"], it.values["sees"] = True, "all"


def _fill_mlp(it: BlockShape) -> None:
    """Complete a feed-forward block: how many matrices, and how many of these are gates."""
    linears = it.values.get("linears")
    if linears is not None:
        if linears < 3 and it.values["gated"]:
            wrong = f"a gated feed-forward block has 3 matrices or more, not {linears}"
            it.add_fault("linears", wrong, "3, or gated: false")
        it.values["gated"] = linears >= 3
    it.values["lone"], it.values["further"] = linears == 1, max(0, (linears or 0) - 3)
    it.values["multiplied"] = it.values["further"] > 0
    expansion = it.values.get("expansion") or 4
    width = expansion * it.kind["hidden"]
    if it.values.get("intermediate") is None and width != width // 1:
        it.add_fault("expansion", f"{expansion} × hidden is not a whole number")
    width = it.set_default("intermediate", width // 1, f"{expansion} × hidden")
    if linears == 1 and (width % it.kind["hidden"] or it.values["inner_norm"]):
        wrong = f"a single matrix needs a multiple of the hidden width, not {width}"
        wrong = "a single matrix has no inner norm" if it.values["inner_norm"] else wrong
        allowed = "false" if it.values["inner_norm"] else f"a multiple of {it.kind['hidden']}"
        it.add_fault("inner_norm" if it.values["inner_norm"] else "intermediate", wrong, allowed)
    it.copy_keys(("bias", "model.bias"))
    if it.values.get("output_bias") is None:
        it.values["output_bias"] = it.values["bias"]


def _fill_moe(it: BlockShape) -> None:
    """Complete experts: their width and gates follow from the feed-forward block where it has
    any."""
    it.require_keys("experts", "top_k")
    values, mlp = it.values, it.kind.get("mlp") or {}
    linears = mlp.get("linears") or 2
    if linears not in (2, 3) and values.get("gated") is None:
        wrong = f"experts have 2 or 3 matrices, where mlp.linears is {linears}"
        it.add_fault("gated", wrong, "true or false")
    gated = linears == 3 or mlp.get("gated", False)
    it.set_default("gated", gated, "equals mlp.gated")
    it.copy_keys(("bias", "model.bias"), ("shared_bias", "moe.bias"))
    it.set_default("activation", mlp.get("activation", "gelu"), "equals mlp.activation")
    width = mlp.get("intermediate") or 4 * it.kind["hidden"]
    width = it.set_default("intermediate", width, "equals mlp.intermediate")
    shared = values["shared_experts"] * width
    it.set_default("shared_intermediate", shared, "moe.shared_experts × moe.intermediate")
    values["capped"] = values.get("capacity_factor") is not None
    groups = values["router_groups"]
    it.copy_keys(("router_group_top_k", "moe.router_groups"))
    it.divides(
        "router_groups", values["experts"], "{} groups do not divide {} experts", "moe.experts"
    )
    chosen, used, experts = values["router_group_top_k"], values["top_k"], values["experts"]
    if chosen > groups:
        wrong = f"a token cannot choose {chosen} of {groups} groups"
        it.add_fault("router_group_top_k", wrong, f"1 to {groups}")
    held = chosen * experts // groups
    if held < used <= experts:
        wrong = f"a token cannot use {used} of the {held} experts of its groups"
        it.add_fault("top_k", wrong, f"1 to {held}")
    if used > experts + values["zero_experts"]:
        it.add_fault("top_k", f"a token cannot use {used} of {experts} experts", f"1 to {experts}")


def _fill_mamba(it: BlockShape) -> None:
    """Complete a Mamba block: inner width and ranks of version 1, heads of version 2."""
    values, hidden = it.values, it.kind["hidden"]
    it.require_keys("state")
    it.copy_keys(("bias", "model.bias"), ("output_bias", "mamba.bias"))
    if values["version"] == 1:
        it.set_default("inner", int(values["expand"] * hidden), "expand × hidden")
        it.set_default("dt_rank", -(-hidden // 16), "hidden / 16, rounded up")
        return
    it.require_keys("head_dim")
    head, given = values["head_dim"], (values.get("heads") or 0) * values["head_dim"]
    expanded = int(values["expand"] * hidden)
    why = "heads × head_dim" if given else "expand × hidden"
    inner = it.set_default("inner", given or expanded, why)
    says = "{} channels of a head do not divide the inner width {}"
    it.divides("head_dim", inner, says, "mamba.inner")
    wide = it.set_default("heads", inner // head, "inner / head_dim") * head
    if wide != inner:
        it.add_fault("inner", f"{inner} is not heads × head_dim", str(wide))
    it.divides("groups", values["heads"], "{} groups do not divide {} heads", "mamba.heads")


def _fill_by_row(it: BlockShape) -> None:
    """Complete a block by its row of shapes.yaml."""
    row = _ROWS[it.block]
    it.require_keys(*row.get("needs", ()))
    it.copy_keys(*row.get("copies", {}).items())
    for key, (of, says) in row.get("divides", {}).items():
        it.divides(key, it.values[of], says, f"{it.block}.{of}")


def _fill_lightning(it: BlockShape) -> None:
    """Complete lightning attention: heads and their size are those of the attention."""
    it.copy_keys(("heads", "attention.heads"))
    it.require_keys("heads")
    given = (it.kind.get("attention") or {}).get("head_dim")
    head = given or it.kind["hidden"] // it.values["heads"]
    it.set_default("head_dim", head, "equals attention.head_dim")


Complete = Callable[[BlockShape], None]
#: What mixes over tokens, what over channels, each with what completes its values.
TOKEN_MIXERS: dict[str, Complete] = {
    "attention": _fill_attention,
    "cross_attention": _fill_cross,
    "mamba": _fill_mamba,
    **dict.fromkeys(("delta_net", "short_conv", "recurrence", "rwkv"), _fill_by_row),
    "lightning": _fill_lightning,
}
CHANNEL_MIXERS: dict[str, Complete] = {"mlp": _fill_mlp, "moe": _fill_moe}
_COMPLETE = {**TOKEN_MIXERS, **CHANNEL_MIXERS, "per_layer_embedding": _fill_by_row}
