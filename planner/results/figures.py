"""The key figures of a plan: what people call them, and the quantities that they are."""

from __future__ import annotations

from typing import NamedTuple


class KeyFigure(NamedTuple):
    """A key figure: its label, and its quantity."""

    label: str
    id: str


KEY_FIGURES = (
    KeyFigure("Parameters", "parameters.total"),
    KeyFigure("Training compute", "compute.training_flops"),
    KeyFigure("Memory per device", "memory.process"),
    KeyFigure("Cache of keys and values", "memory.cache"),
    KeyFigure("Time of one step", "time.step_seconds"),
    KeyFigure("Throughput", "time.tokens_per_second"),
    KeyFigure("Model FLOPs utilisation", "time.mfu"),
    KeyFigure("Time to the first token", "time.prefill_seconds"),
    KeyFigure("Time of one further token", "time.decode_seconds"),
    KeyFigure("Tokens generated", "time.decode_tokens_per_second"),
    KeyFigure("Cost of a million tokens", "cost.million_output_tokens"),
    KeyFigure("Training time", "time.training_days"),
    KeyFigure("Cost", "cost.total"),
    KeyFigure("Energy", "energy.total"),
)
