"""A plain PyTorch decoder of a plan's model: the blocks that the plan lists, in their order.

Nothing is fused beyond what PyTorch's own modules fuse, so it is what the implementation `pytorch`
describes. Shapes: tokens (b, s), the residual stream (b, s, h).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from planner.plans.document import Block, Model

Values = Mapping[str, Any]

ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "gelu": functional.gelu,
    "gelu_new": lambda x: (
        0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    ),
    **dict.fromkeys(
        ("gelu_tanh", "gelu_pytorch_tanh", "gelu_fast"),
        partial(functional.gelu, approximate="tanh"),
    ),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": functional.silu,
    "relu": functional.relu,
    "relu2": lambda x: functional.relu(x) ** 2,
}


def norm(values: Values, width: int) -> Any:
    """LayerNorm or RMSNorm over `width`."""
    if values["type"] == "layernorm":
        return nn.LayerNorm(width, elementwise_affine=values["weight"], bias=values["bias"])
    return nn.RMSNorm(width, eps=1e-5, elementwise_affine=values["weight"])


class Attention(nn.Module):
    """Grouped-query attention with rotary positions where the model has them."""

    def __init__(self, values: Values, run: Values) -> None:
        super().__init__()
        self.heads, self.kv_heads = values["heads"], values["kv_heads"]
        self.width, self.rope = values["head_dim"], run["positions"] == "rope"
        self.causal, self.run = values["sees"].startswith("past"), run
        hidden = run["hidden"]
        queries, keys = self.heads * self.width, self.kv_heads * self.width
        self.split = [queries, keys, keys]
        self.fused = values["fused"]
        if self.fused:
            self.qkv = nn.Linear(hidden, sum(self.split), bias=values["bias"])
        else:
            self.query = nn.Linear(hidden, queries, bias=values["bias"])
            self.key = nn.Linear(hidden, keys, bias=values["key_bias"])
            self.value = nn.Linear(hidden, keys, bias=values["bias"])
        self.output = nn.Linear(queries, hidden, bias=values["output_bias"])
        self.each = values["qk_norm"] == "head"
        self.norms = None
        if values["qk_norm"] != "none":
            kind = {"type": run["norm"], "bias": values["qk_norm_bias"]}
            widths = (self.width, self.width) if self.each else (queries, keys)
            weights = (values["query_norm_weight"], True)
            self.norms = nn.ModuleList(
                norm({**kind, "weight": weight}, width)
                for weight, width in zip(weights, widths, strict=True)
            )

    def forward(self, x: Any, rotary: Any) -> Any:
        if self.fused:
            q, k, v = self.qkv(x).split(self.split, dim=-1)
        else:
            q, k, v = self.query(x), self.key(x), self.value(x)
        if self.norms is not None and not self.each:
            q, k = self.norms[0](q), self.norms[1](k)
        q, k, v = (y.unflatten(-1, (-1, self.width)) for y in (q, k, v))
        if self.norms is not None and self.each:
            q, k = self.norms[0](q), self.norms[1](k)
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        if self.rope:
            q, k = _turned(q, rotary), _turned(k, rotary)
        if self.run["attention"] != "eager":
            grouped, dropped = self.heads != self.kv_heads, self.run["dropout"]
            found = functional.scaled_dot_product_attention(
                q, k, v, is_causal=self.causal, dropout_p=dropped, enable_gqa=grouped
            )
        elif self.run["recompute"] == "selective":
            found = checkpoint(self._eager, q, k, v, use_reentrant=False)
        else:
            found = self._eager(q, k, v)
        return self.output(found.transpose(1, 2).flatten(-2))

    def _eager(self, q: Any, k: Any, v: Any) -> Any:
        repeats = self.heads // self.kv_heads
        if repeats > 1:
            k, v = k.repeat_interleave(repeats, 1), v.repeat_interleave(repeats, 1)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(self.width)
        if self.causal:
            length = scores.shape[-1]
            future = torch.full((length, length), float("-inf"), device=q.device, dtype=q.dtype)
            scores = scores + future.triu(1)
        weights = functional.softmax(scores, dim=-1).to(v.dtype)
        return functional.dropout(weights, self.run["dropout"]) @ v


def _turned(x: Any, rotary: Any) -> Any:
    cosine, sine = rotary
    width = cosine.shape[-1]
    part, rest = x[..., :width], x[..., width:]
    first, second = part.chunk(2, dim=-1)
    turned = part * cosine + torch.cat((-second, first), dim=-1) * sine
    return turned if rest.shape[-1] == 0 else torch.cat((turned, rest), dim=-1)


class FeedForward(nn.Module):
    """One feed-forward network, gated or not."""

    def __init__(self, values: Values, run: Values) -> None:
        super().__init__()
        hidden, width, bias = run["hidden"], values["intermediate"], values["bias"]
        self.gate = nn.Linear(hidden, width, bias=bias) if values["gated"] else None
        self.up = nn.Linear(hidden, width, bias=bias)
        self.down = nn.Linear(width, hidden, bias=values.get("output_bias", bias))
        self.activation = ACTIVATIONS[values["activation"]]

    def forward(self, x: Any, rotary: Any = None) -> Any:
        if self.gate is None:
            return self.down(self.activation(self.up(x)))
        return self.down(self.activation(self.gate(x)) * self.up(x))


class Experts(nn.Module):
    """Routed experts, one after another, and a shared expert that every token passes."""

    def __init__(self, values: Values, run: Values) -> None:
        super().__init__()
        self.top_k, count, wide = values["top_k"], values["experts"], values["shared_intermediate"]
        self.router = nn.Linear(run["hidden"], count, bias=values["router_bias"])
        self.experts = nn.ModuleList(FeedForward(values, run) for _ in range(count))
        shared = {**values, "intermediate": wide, "bias": values["shared_bias"]}
        self.shared = FeedForward(shared, run) if wide else None

    def forward(self, x: Any, rotary: Any = None) -> Any:
        rows = x.flatten(0, 1)
        chances = functional.softmax(self.router(rows).float(), dim=-1)
        weights, chosen = chances.topk(self.top_k, dim=-1)
        total = torch.zeros_like(rows)
        for index, expert in enumerate(self.experts):
            where, which = (chosen == index).nonzero(as_tuple=True)
            found = expert(rows[where]) * weights[where, which, None].to(rows.dtype)
            total = total.index_add(0, where, found.to(total.dtype))
        if self.shared is not None:
            total = total + self.shared(rows)
        return total.view_as(x)


#: What the mixers of a layer are, by the kind of their block: of (x, rotary tables).
MIXERS = {"attention": Attention, "mlp": FeedForward, "moe": Experts}


class Layer(nn.Module):
    """The blocks of a layer kind with the residual sums between them."""

    def __init__(self, blocks: Sequence[Block], run: Values) -> None:
        super().__init__()
        self.parallel, self.dropped = run["parallel"], nn.Dropout(run["dropout"])
        self.placement = run["norm_placement"]
        self.norms = nn.ModuleList(
            norm(block.values, run["hidden"]) for block in blocks if block.kind == "norm"
        )
        self.mixers = nn.ModuleList(
            MIXERS[block.kind](block.values, run) for block in blocks if block.kind != "norm"
        )

    def forward(self, x: Any, rotary: Any) -> Any:
        if self.parallel:
            inputs = [norm(x) for norm in self.norms]
            for index, mixer in enumerate(self.mixers):
                x = x + self.dropped(mixer(inputs[min(index, len(inputs) - 1)], rotary))
            return x
        norms = iter(self.norms)
        for mixer in self.mixers:
            y = next(norms)(x) if self.placement in ("pre", "sandwich") else x
            y = self.dropped(mixer(y, rotary))
            if self.placement == "sandwich":
                y = next(norms)(y)
            x = x + y
            if self.placement == "post":
                x = next(norms)(x)
        return x


class Decoder(nn.Module):
    """Embedding, layers, head and loss; ``run`` holds the keys of the plan's model and, over these,
    of its training."""

    def __init__(self, model: Model, run: Values) -> None:
        super().__init__()
        parts = {part.name: part.blocks for part in model.parts}
        blocks = [block for part in model.parts for block in part.blocks]
        hidden, vocabulary = run["hidden"], run["vocab"]
        self.run = run
        self.tables: list[int] = []  # where the rotary tables of the last pass lie
        self.embedding = nn.Embedding(vocabulary, hidden)
        learned = run["positions"] == "learned"
        self.positions = nn.Embedding(run["max_sequence"], hidden) if learned else None
        self.embedding_norm, self.final_norm = (
            nn.Sequential(*(norm(b.values, hidden) for b in parts[end] if b.kind == "norm"))
            for end in ("embedding", "head")
        )
        self.layers = nn.ModuleList(Layer(parts[name], run) for name in model.sequence)
        head = next(block for block in parts["head"] if block.kind == "head")
        self.head = nn.Linear(hidden, vocabulary, bias=head.values["bias"])
        if head.values["tied"]:
            self.head.weight = self.embedding.weight
        self.width = next((b.values["head_dim"] for b in blocks if b.kind == "attention"), 0)
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.normal_(weight, std=0.02)

    def forward(self, tokens: Any, targets: Any) -> Any:
        """The loss of `tokens` (b, s) against `targets` (b, s)."""
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        x = functional.dropout(self.embedding_norm(x), self.run["dropout"])
        rotary = self._rotary(tokens, x)
        for layer in self.layers:
            if self.run["recompute"] == "full":
                x = checkpoint(layer, x, rotary, use_reentrant=False)
            else:
                x = layer(x, rotary)
        logits = self.head(self.final_norm(x)).float().flatten(0, 1)
        return functional.cross_entropy(logits, targets.flatten())

    def _rotary(self, tokens: Any, x: Any) -> Any:
        if self.run["positions"] != "rope":
            return None
        steps = torch.arange(0, self.width, 2, device=tokens.device) / self.width
        places = torch.arange(tokens.shape[1], device=tokens.device)
        angles = torch.outer(places, 10000.0**-steps)
        angles = torch.cat((angles, angles), dim=-1)
        found = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        self.tables = [table.untyped_storage().data_ptr() for table in found]
        return found
