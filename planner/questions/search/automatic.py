"""``parallelism: auto``: build the plan of a document that leaves its layout to the search.

Keys of the layout that the document sets stay, and so do micro-batch, recomputation and schedule;
the rest is the layout with the shortest predicted step of all that fit, under the common schedules.
If none fits, the layout that lacks least memory is taken, and the verdict says so as for any plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from planner.base import numbers
from planner.base.errors import Fault, PlanError
from planner.documents import stacks
from planner.documents.source import SEARCHED, Document, assume_batch
from planner.engine.instance import compute_values
from planner.plans import plan, reinforcement
from planner.plans.document import Plan
from planner.plans.layout import FOLLOWING, KERNELS, KEYS, filter_keys
from planner.questions.constraints import margin_of
from planner.questions.healing import build_near_plan, drop_auto_keys
from planner.questions.search.engine import MOST, STEP, Layout, search
from planner.questions.search.layouts import COMMON, MICRO_BATCH
from planner.questions.search.ranking import SPARED, describe_scope
from planner.questions.search.selection import SPARE
from planner.results.verdict import FITS

#: What is shortest in reinforcement learning, and how many of the trainer's fastest are tried.
WHOLE_STEP, TRIED = "rl.step_seconds", 6
#: Keys that a search keeps at a value, and keys with the values that it tries.
Kept = Mapping[str, Any]
#: Layouts found in this process, by the data of the documents.
_FOUND: dict[str, tuple[Layout, str, Kept]] = {}
MOST_KEPT = 64


def add_best_layout(document: Document) -> Plan:
    """Complete a document with the best layout.

    Raises:
        PlanError: no valid layout, or a document for which a step cannot be predicted.
    """
    key = repr((document.data, document.defaults and document.defaults.margin))
    document, batch = _add_batch(document)
    if key not in _FOUND:
        _FOUND.pop(next(iter(_FOUND)) if len(_FOUND) == MOST_KEPT else "", None)
        _FOUND[key] = _find_layout(document)
    layout, why, kept = _FOUND[key]
    chosen = _list_changes(document, layout, kept)
    found = _build_chosen(document, chosen)
    given = {k for k in chosen if _is_given(document, k)}
    derived = {**found.derived, **batch, **{k: why for k in chosen if k not in given}}
    return replace(found, derived=derived, searched=kept)


def _is_given(document: Document, key: str) -> bool:
    """Decide whether a document sets a key, other than by a default."""
    path = key.split(".")
    return document.has_value(path) and document.find_origin(path).kind != "default"


def _list_trained(document: Document) -> Mapping[str, Any]:
    """List the changes that make a document of reinforcement learning that of its trainer, with the
    batch of an undivided layout; none for another document.

    Raises:
        PlanError: what is wrong with the section ``rl``.
    """
    if document.data["training"]["mode"] != "rl":
        return {}
    draft, _ = plan.begin_plan(drop_auto_keys(document))
    reinforcement.apply_reinforcement(draft)
    draft.raise_faults()
    return reinforcement.list_trainer_changes(draft.data)


def _find_layout(document: Document) -> tuple[Layout, str, Kept]:
    """Find the best layout of a document, the reason for it in words, and the values that were
    kept.

    Raises:
        PlanError: a key that follows from the layout is set, a step cannot be predicted, or no
            layout is valid.
    """
    place = document.find_key_place(("parallelism",))
    for key in (*filter_keys(FOLLOWING), "parallelism.stages"):
        if _is_given(document, key):
            raise PlanError(
                f"{key} follows from the layout, which parallelism: auto chooses",
                      document.find_key_place(key.split(".")), "left out"
            )  # fmt: skip
    fixed = {k: document.get(k) for k in KEYS if _is_given(document, k)}
    trained = _list_trained(document)
    if trained:  # as many sequences at once as are packed into one
        fixed[MICRO_BATCH] = trained[MICRO_BATCH]
    start = build_near_plan(drop_auto_keys(document).change_keys(trained), fixed)
    if start.model is None:
        raise PlanError(
            "parallelism: auto needs the shape of the model", place, "a layout spelled out"
        )
    if start.settings["training.mode"] != "train":
        raise PlanError(
            "parallelism: auto ranks layouts by the time of a training step", place,
                  "a layout spelled out, or training.mode: train"
        )  # fmt: skip
    said = document.get("parallelism.margin")
    said = margin_of(start) if said is None else said
    open_keys = {"training.schedule": COMMON, **stacks.list_open_values(start.get)}
    kept = {
        "fixed": fixed,
        "vary": {key: v for key, v in open_keys.items() if not _is_given(document, key)},
        "margin": said if isinstance(said, str) else str(float(said)),
        "launcher": document.get("parallelism.for"),
    }
    try:
        found = search(start, TRIED if trained else 1, STEP, most=MOST, **kept)
    except PlanError as error:
        raise PlanError(
            Fault(f"parallelism: auto: {fault.message}", fault.place or place, fault.allowed)
            for fault in error.faults
        ) from None
    counted = describe_scope(found)
    if trained and (several := [*filter(None, (found.plain, *found.best))]):
        why = f"found: the shortest step of the fastest {len(several)} of the trainer's {counted}"
        return _choose_step(document, several, kept), f"{why}{SEARCHED}", kept
    if found.plain is not None:
        how = "tight: none fits at the 95th percentile, this is" if found.tight else "found:"
        (fastest,) = found.best
        behind = float(found.plain.values[STEP] / fastest.values[STEP]) - 1
        ahead = f" ({numbers.text(behind, style='share')} faster)" if behind > 0 else ""
        near = behind <= SPARE
        of = f"simplest within {SPARED} of" if near else "fastest that somebody ran, not"
        best = f"the {of} the fastest that fits{ahead}"
        own = found.plain.changes
        rows = stacks.iter_untried(lambda key: own.get(key, start.get(key)))
        alone = ", ".join(f"{key.rpartition('.')[2]} {own[key]}: {known}" for key, known in rows)
        nobody = "; nobody is known to have run " * bool(alone)
        why = f"{how} {best} of {counted}{nobody}{alone}{SEARCHED}"
        return found.plain, why, kept
    assert found.nearest is not None
    lacking = numbers.text(-found.nearest.values[FITS], "bytes")
    why = f"found: none of {counted} fits, this one lacks least, {lacking}{SEARCHED}"
    return found.nearest, why, kept


def _choose_step(document: Document, layouts: Sequence[Layout], kept: Kept) -> Layout:
    """Choose the layout whose step of reinforcement learning is the shortest, of those that fit; if
    none does, the one that lacks least."""
    scores = {}
    for index, layout in enumerate(layouts):
        with suppress(PlanError):
            built = _build_chosen(document, _list_changes(document, layout, kept))
            values = compute_values(built, (FITS, WHOLE_STEP))
            left, step = values[FITS], values[WHOLE_STEP]
            scores[index] = (left < 0, step if left >= 0 else -left)
    return layouts[min(scores, key=scores.__getitem__, default=0)]


def _list_changes(document: Document, layout: Layout, kept: Kept) -> dict[str, Any]:
    """List what a layout changes in the document; how many sequences are packed follows."""
    packed = document.data["training"]["mode"] == "rl"
    picked = {*KEYS, KERNELS, *kept["vary"]} - ({MICRO_BATCH} if packed else set())
    return {key: value for key, value in layout.changes.items() if key in picked}


def _build_chosen(document: Document, chosen: Mapping[str, Any]) -> Plan:
    """Build the plan of a document with a layout in place of ``auto``; other keys (an assumed
    utilisation, a loss) stay as they are."""
    return plan.build_plan(plan.change_document(drop_auto_keys(document), chosen))


def _add_batch(document: Document) -> tuple[Document, Mapping[str, str]]:
    """Return the document with a global batch, and the reason for one that it does not set.

    Raises:
        PlanError: nothing says how long a sequence is.
    """
    if document.get("training.global_batch") is not None or document.get("training.mode") == "rl":
        return document, {}
    if not (document.get("training.sequence_length") or document.get("model.max_sequence")):
        raise PlanError(
            "parallelism: auto needs a batch",
                  document.find_key_place(("parallelism",)),
                  "training.global_batch and training.sequence_length"
        )  # fmt: skip
    batch, why = assume_batch(document.get, document.get("cluster.devices"))
    return document.change_keys({"training.global_batch": batch}), {"training.global_batch": why}
