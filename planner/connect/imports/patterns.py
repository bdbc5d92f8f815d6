"""Which layer is of which kind: from the lists, intervals and strings of configurations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.connect.imports.config import Config, Trait

Labels = Callable[[Config], Sequence[str]]
Traits = Mapping[str, Trait]


@dataclass(frozen=True)
class Axis:
    """One respect in which layers differ: a label for each layer, and what each label means."""

    labels: Labels
    kinds: Mapping[str, Traits] = field(default_factory=dict)


def depth(c: Config) -> int:
    return c.need("num_hidden_layers")


def listed(key: str, otherwise: Labels, words: Mapping[str, str] | None = None) -> Labels:
    """The labels of a list with one word for each layer, renamed by ``words``."""

    def labels(c: Config) -> Sequence[str]:
        given = c.words(key)
        if given is None:
            return otherwise(c)
        layers = depth(c)
        if len(given) < layers:
            raise c.fault(f"{c.name(key)} names {len(given)} of {layers} layers")
        known = words or {}
        for word in given:
            if words is not None and word not in known:
                raise c.fault(
                    f"{c.name(key)} holds {word!r}, which is not modelled",
                    "one of: " + ", ".join(known),
                )
        return [known.get(word, word) for word in given[:layers]]

    return labels


def all_are(label: str) -> Labels:
    return lambda c: [label] * depth(c)


def every(key: str | int, special: str, normal: str, shift: int = 1) -> Labels:
    """Layer i is special where (i + shift) is a multiple of the key's value."""

    def labels(c: Config) -> Sequence[str]:
        step = key if isinstance(key, int) else (c.whole(key, 0) or 0)
        return [special if step and (i + shift) % step == 0 else normal for i in range(depth(c))]

    return labels


def period(step: str, offset: str, special: str, normal: str) -> Labels:
    """Layer i is special where i leaves the remainder ``offset`` on division by ``step``."""

    def labels(c: Config) -> Sequence[str]:
        size, rest = c.need(step), c.whole(offset, 0) or 0
        return [special if i % size == rest else normal for i in range(depth(c))]

    return labels


def up_to(key: str, before: str, after: str) -> Labels:
    """The first so many layers are of one kind, the others of another."""

    def labels(c: Config) -> Sequence[str]:
        count = c.whole(key, 0) or 0
        return [before if i < count else after for i in range(depth(c))]

    return labels


def at(key: str, special: str, normal: str, otherwise: Labels | None = None) -> Labels:
    """The layers of a list of indices are special."""

    def labels(c: Config) -> Sequence[str]:
        indices = c.indices(key)
        if indices is None and otherwise is not None:
            return otherwise(c)
        chosen = frozenset(indices or ())
        return [special if i in chosen else normal for i in range(depth(c))]

    return labels


def _period(sequence: Sequence[str]) -> int:
    """The shortest start that repeats to the sequence (by the borders of all starts, so that a
    hundred thousand layers take no longer than they should)."""
    borders = [0] * len(sequence)
    for i in range(1, len(sequence)):
        border = borders[i - 1]
        while border and sequence[i] != sequence[border]:
            border = borders[border - 1]
        borders[i] = border + 1 if sequence[i] == sequence[border] else 0
    return len(sequence) - borders[-1]


def compressed(sequence: Sequence[str]) -> list[str | dict[str, object]]:
    """A pattern that repeats to the sequence, runs written as `{kind, count}`."""
    size = _period(sequence)
    runs: list[list[object]] = []
    for name in sequence[:size]:
        if runs and runs[-1][0] == name:
            runs[-1][1] = int(str(runs[-1][1])) + 1
        else:
            runs.append([name, 1])
    return [str(n) if k == 1 else {"kind": n, "count": k} for n, k in runs]
