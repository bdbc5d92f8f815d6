"""The key figures of a plan: what people call them, and the quantities that they are."""

from __future__ import annotations

from typing import NamedTuple


class Row(NamedTuple):
    """A key figure: its label, and its quantity."""

    label: str
    id: str


KEY_FIGURES = (
    Row("Parameters", "parameters.total"),
    Row("Training compute", "compute.training_flops"),
    Row("Memory per device", "memory.process"),
    Row("Cache of keys and values", "memory.cache"),
    Row("Time of one step", "time.step_seconds"),
    Row("Throughput", "time.tokens_per_second"),
    Row("Model FLOPs utilisation", "time.mfu"),
    Row("Time to the first token", "time.prefill_seconds"),
    Row("Time of one further token", "time.decode_seconds"),
    Row("Tokens generated", "time.decode_tokens_per_second"),
    Row("Cost of a million tokens", "cost.million_output_tokens"),
    Row("Training time", "time.training_days"),
    Row("Cost", "cost.total"),
    Row("Energy", "energy.total"),
)
