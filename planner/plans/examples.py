"""Examples of a data set: their lengths, their padding, and the tokens of a run over them."""

from __future__ import annotations

from fractions import Fraction

from planner.base import numbers
from planner.documents.source import PAIRED
from planner.plans.document import Draft
from planner.plans.hardware import default_fact
from planner.plans.reinforcement import check_lengths, load_facts, read_lengths, round_length

EXAMPLES, EPOCHS, PADDING = "training.examples", "training.epochs", "training.padding"
LENGTHS, TOKENS = "training.example_tokens", "training.tokens"
#: Keys of a data set by the key that they decide, which is free without them.
DECIDED_BY = {TOKENS: (EPOCHS,), "training.sequence_length": (LENGTHS, PADDING)}


def apply_examples(draft: Draft) -> None:
    """Set the length that sequences have on average, and the tokens of a run over a data set."""
    given = [key for key in (EXAMPLES, LENGTHS, EPOCHS, PADDING) if draft.get(key) is not None]
    if not given:
        return
    if draft.get("rl") is not None or draft.get("training.mode") != "train":
        return draft.fault(given[0], "only training.mode: train passes over examples", "left out")
    for key, needed in ((EPOCHS, EXAMPLES), (PADDING, LENGTHS)):
        if key in given and needed not in given:
            draft.fault(key, f"{key} needs {needed}", f"left out, or {needed} beside it")
    _set_length(draft)
    if not draft.faults and draft.get(EXAMPLES) is not None:
        _count_tokens(draft)


def _set_length(draft: Draft) -> None:
    """Complete the lengths of examples, and set that of a sequence: of the examples that it packs,
    or of those that its micro-batch pads."""
    training = draft.data["training"]
    node, whole = training.get("example_tokens"), training.get("sequence_length")
    if node is None:
        return
    node = training["example_tokens"] = dict(node) if isinstance(node, dict) else {"mean": node}
    check_lengths(draft, LENGTHS, node, whole)
    if draft.faults:
        return
    draft.default(f"{LENGTHS}.cap", whole, "equals training.sequence_length")
    default_fact(draft, f"{LENGTHS}.spread", load_facts()["example_tokens"], "1")
    packed, padding = training.get("packed"), training.get("padding")
    if packed and padding:
        return draft.fault(
            PADDING, "packed sequences have no padding", "left out, or packed: false"
        )
    if packed:
        return
    draft.default(PADDING, "longest", "as transformers pads a micro-batch")
    if draft.get(PADDING) == "longest":
        micro = training["micro_batch"]
        mean = read_lengths(node).compute_mean_longest(micro)
        training["sequence_length"] = min(whole, round_length(mean, draft.get("parallelism")))
        what = f"the longest of {micro}" if micro > 1 else "an example"
        draft.derived["training.sequence_length"] = f"{what}, on average"


def _count_tokens(draft: Draft) -> None:
    """Set the tokens of a run from examples and epochs, or the epochs from the tokens."""
    training = draft.data["training"]
    each = training.get("sequence_length")
    if training.get("packed") and training.get("example_tokens"):
        each = training["example_tokens"]["mean"]
    if each is None:
        return
    examples, two = training["examples"], training.get("objective") in PAIRED
    of = f"{numbers.text(each, style='exact')} tokens{' twice' if two else ''}"
    once = examples * each * (2 if two else 1)
    epochs = Fraction(training.get("tokens") or once) / Fraction(once)
    counted = "the tokens over those of the examples" if training.get("tokens") else "one pass"
    epochs = draft.default(EPOCHS, epochs, counted)
    times = f"{numbers.text(epochs, style='exact')} epochs of {numbers.exact_text(examples)}"
    why = f"{times} examples of {of}"
    tokens = draft.default(TOKENS, once * epochs, why)
    if tokens != once * epochs:
        wrong = f"{numbers.text(tokens, 'tokens', 'table')} tokens contradict {why}"
        draft.fault(TOKENS, wrong, "one of the two", EPOCHS)
