"""Where the states of a run lie: shares of them in the host's memory, and when gradients leave."""

from __future__ import annotations

from planner.base.display import format_flow
from planner.documents.source import PAIRED
from planner.plans.document import Draft
from planner.plans.kernels import load_profile

#: Optimizers that bitsandbytes has with paged states.
PAGED = ("adamw", "adam-8bit", "lion")
STEP, OPTIMIZER = "training.optimizer_step", "training.offload.optimizer"
PAGES = "training.optimizer_paged"
PARAMETERS, GRADIENTS = "training.offload.parameters", "training.offload.gradients"
OBJECTIVE, REFERENCE = "training.objective", "training.reference"
TEACHER = "training.teacher"
READ = "training.read_passes"
#: Objectives that compare with a reference model: passes of a micro-batch that are only read, where
#: the model is asked in the step, and where its log-probabilities are there. TRL 1.9.0,
#: trl/trainer/dpo_trainer.py and kto_trainer.py (_compute_kl_logps).
READ_PASSES = {"dpo": (1, 0), "kto": (3, 1), "distill": (1, 0)}
#: The value of ``STEP`` that uses each gradient at once, so that a step is one micro-batch.
IN_BACKWARD = "in-backward"


def fill_shares(draft: Draft) -> None:
    """Set the shares of weights, gradients and optimizer states on the host: those that are given,
    else as much as the update of the weights there needs; check that they agree. Weights on the
    host are fetched layer by layer, as ZeRO-3 gathers them."""
    shares, needed, why = draft.data["training"]["offload"], False, "none without training.offload"
    for key, because in (
        (PARAMETERS, "weights on the host are updated there"),
        (GRADIENTS, "gradients on the host are used there"),
        (OPTIMIZER, ""),
    ):
        name = key.rpartition(".")[2]
        share = draft.default(key, needed, why)
        if share < needed:
            draft.fault(key, f"{format_flow(share)}, but {why}", f"{name}: true")
        if key != GRADIENTS:
            shares[name] = share * 1
        needed, why = share > 0, because
    zero, layout = "parallelism.zero", draft.get("parallelism")
    if not shares["parameters"] or layout["zero"] == 3:
        return
    own = draft.document
    stated = own.find_origin(zero.split(".")).kind != "default" and own.get(zero) == layout["zero"]
    if stated and own.held is None:  # and no search changes it
        wrong = f"weights on the host are fetched by layers, not with {zero} {layout['zero']}"
        draft.fault(PARAMETERS, wrong, "false, or zero: 3", zero)
    draft.get("parallelism")["zero"] = 3
    draft.derived[zero] = "3 where weights lie on the host"


def check_step(draft: Draft) -> None:
    """Check that gradients can leave one by one, to the update or to the host."""
    training = draft.get("training")
    wrong, allowed = "", ""
    if training["optimizer_paged"] and training["optimizer"] not in PAGED:
        wrong = f"{training['optimizer']} has no paged kernel"
        allowed = f"false, or optimizer: {', '.join(PAGED)}"
    elif training["optimizer_paged"] and draft.get(OPTIMIZER):
        wrong = "states on the host (training.offload.optimizer) are not paged"
        allowed = "one of the two"
    if wrong:
        draft.fault(PAGES, wrong, allowed)
    within, away = training["optimizer_step"] == IN_BACKWARD, draft.get(GRADIENTS)
    if not (within or away):
        return
    key, otherwise = PARAMETERS if draft.get(PARAMETERS) else GRADIENTS, "false"
    if within:
        key, otherwise = STEP, "whole"
    if training["mode"] != "train":
        draft.fault(key, "nothing is trained in inference", otherwise)
    elif draft.get("model.layers") is None:
        draft.fault(key, "the model has no layers yet", f"a model of known shape, or {otherwise}")
    elif load_profile(training["implementation"])["gradients"] == "persistent":
        wrong = f"{training['implementation']} keeps all gradients in one buffer"
        draft.fault(key, wrong, f"implementation: pytorch, or {otherwise}")


def fill_reference(draft: Draft) -> None:
    """Set how the reference model of an objective is held, and the passes that are only read."""
    training = draft.get("training")
    objective, adapters = training.get("objective"), training.get("lora") is not None
    batch, given = training.get("global_batch"), training.get("reference")
    if objective in PAIRED and batch and batch % 2:
        draft.fault("training.global_batch", "a pair is two sequences", "an even number")
    taught = training.get("teacher") is not None
    if objective == "distill" and not taught:
        draft.fault(OBJECTIVE, "distill needs a teacher", "training.teacher: a model beside it")
    elif taught and objective != "distill":
        draft.fault(TEACHER, f"{objective or 'pretrain'} has no teacher", "objective: distill")
    if objective not in READ_PASSES:
        if given is not None:
            wrong = f"{objective or 'pretrain'} compares with no reference model"
            draft.fault(REFERENCE, wrong, f"objective: {', '.join(READ_PASSES)}")
        return
    if training["mode"] != "train":
        draft.fault(OBJECTIVE, "nothing is trained in inference", "mode: train")
    own = adapters and objective != "distill"
    held, other = ("base", "held") if own else ("held", "base")
    why = f"objective: {objective} with{'' if adapters else 'out'} training.lora"
    given = draft.default(REFERENCE, held, why)
    if given == other:
        wrong = "the base of the adapters is the reference" if own else "there are no adapters"
        wrong = "a teacher is another model" if objective == "distill" else wrong
        draft.fault(REFERENCE, f"{given}: {wrong}", f"{held} or precomputed")
    asked, there = READ_PASSES[objective]
    if objective == "distill":
        draft.default("training.teacher_whole", False, "ZeRO-3 shards a teacher")
        why = "the teacher's, counted as so many of the student's"
    draft.default(READ, there if given == "precomputed" else asked, why)
