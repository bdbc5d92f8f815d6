"""Reinforcement learning: one plan made into ordinary plans, and the lengths of its responses.

The plan itself becomes that of the trainer: its own devices, and sequences as the trainer runs
them. ``list_roles`` makes it the plans of its other roles.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from statistics import NormalDist
from typing import Any

from planner.base import numbers, resources
from planner.base.errors import format_divisors
from planner.documents import schema, source
from planner.plans.document import Draft, copy_mappings
from planner.plans.hardware import default_fact
from planner.plans.model import HEADS

NORMAL = NormalDist()
#: Points at which a distribution of lengths is integrated, from no token to the cap.
GRID = 256


@dataclass(frozen=True)
class Lengths:
    """Lengths of texts: lognormal, cut at a cap.

    Attributes:
        mean: in tokens, of the lengths as cut.
        cap: in tokens.
        spread: standard deviation of the logarithm.
    """

    mean: float
    cap: float
    spread: float

    @cached_property
    def _centre(self) -> float:
        """The mean of the logarithm, by bisection: the mean of the cut lengths grows with it."""
        low, high = -5.0, math.log(self.cap) + 10 * self.spread + 1
        for _ in range(60):
            middle = (low + high) / 2
            if self._compute_mean(middle) < self.mean:
                low = middle
            else:
                high = middle
        return low

    def _compute_mean(self, centre: float) -> float:
        """Compute the mean of lengths cut at the cap, for a mean of the logarithm."""
        at_cap = (math.log(self.cap) - centre) / self.spread
        below = math.exp(centre + self.spread**2 / 2) * NORMAL.cdf(at_cap - self.spread)
        return below + self.cap * (1 - NORMAL.cdf(at_cap))

    def find_share_above(self, tokens: float) -> float:
        """Find the share of texts that are longer than so many tokens."""
        if tokens >= self.cap or (tokens >= self.mean and not self.spread):
            return 0.0
        if tokens <= 0 or not self.spread:
            return 1.0
        return 1 - NORMAL.cdf((math.log(tokens) - self._centre) / self.spread)

    @cached_property
    def second_moment(self) -> float:
        """The mean of the squared length."""
        if not self.spread:
            return self.mean**2
        centre, width = self._centre, self.spread
        at_cap = (math.log(self.cap) - centre) / width
        below = math.exp(2 * centre + 2 * width**2) * NORMAL.cdf(at_cap - 2 * width)
        return below + self.cap**2 * (1 - NORMAL.cdf(at_cap))

    def find_longest(self, count: float) -> float:
        """Find the length that the longest of ``count`` texts has on average, in tokens."""
        return self._find_length(max(0.5, (count - 0.375) / (count + 0.25)))  # Blom 1958

    def list_typical(self, count: int) -> list[float]:
        """List lengths, in tokens: of each of ``count`` equal shares of texts that in its middle,
        shortest first."""
        return [self._find_length((index + 0.5) / count) for index in range(count)]

    def _find_length(self, share: float) -> float:
        """Find the length, in tokens, that a share of the texts does not exceed."""
        if not self.spread:
            return self.mean
        return min(self.cap, math.exp(self._centre + self.spread * NORMAL.inv_cdf(share)))

    def compute_mean_longest(self, count: int) -> float:
        """Compute the mean of the longest of ``count`` texts, in tokens: the sum of the chances
        that at least one of them is longer than a length."""
        if count == 1 or not self.spread:
            return self.mean
        width = self.cap / GRID
        above = (self.find_share_above(width * (at + 0.5)) for at in range(GRID))
        return width * sum(1 - (1 - share) ** count for share in above)


def read_lengths(node: Mapping[str, Any]) -> Lengths:
    """Read completed ``rl.prompt_tokens``, ``rl.response_tokens`` or
    ``training.example_tokens``."""
    return Lengths(*(float(node[key]) for key in ("mean", "cap", "spread")))


def apply_reinforcement(draft: Draft) -> None:
    """Turn a plan of reinforcement learning into the plan of its trainer, with ``rl`` completed;
    do nothing for another plan."""
    document = draft.document
    stated = document.data.get("rl")
    if document.data["training"]["mode"] != "rl":
        if stated is not None:
            draft.fault("rl", "only reinforcement learning has a section rl", "training.mode: rl")
        return
    draft.data["training"]["mode"] = "train"
    rl = draft.data["rl"] = copy_mappings(stated or _load_plain_sections()["rl"])
    sound = [fill(draft, rl) for fill in (_fill_lengths, _fill_devices, _count_updates)]
    if not all(sound):
        draft.data["training"]["global_batch"] = None  # which nothing else is said about
        return
    _fill_roles(draft, rl)
    if draft.get("model.moe") is not None and draft.get("parallelism.expert") > 1:
        why = "1, as NeMo RL divides no expert of the trainer"
        draft.default("parallelism.expert_tensor", 1, why)
    _pack_batch(draft, rl)


def _fill_lengths(draft: Draft, rl: dict[str, Any]) -> bool:
    """Complete the lengths of prompts and responses; return False if they are at fault."""
    whole = draft.get("training.sequence_length") or draft.get("model.max_sequence")
    before = len(draft.faults)
    for name in ("prompt_tokens", "response_tokens"):
        key, node = f"rl.{name}", rl.get(name)
        if node is None:
            draft.fault(key, f"{key} is not given", "a number of tokens, or {mean, cap, spread}")
            continue
        node = rl[name] = dict(node) if isinstance(node, dict) else {"mean": node}
        check_lengths(draft, key, node, whole)
    if len(draft.faults) > before:
        return False
    for name, prompt in (("prompt_tokens", 0), ("response_tokens", rl["prompt_tokens"]["mean"])):
        node, room = rl[name], max(1, (whole or 0) - math.ceil(prompt))
        draft.default(f"rl.{name}.cap", room, "what training.sequence_length leaves")
        default_fact(draft, f"rl.{name}.spread", load_facts()[name], "1")
        if node["mean"] > node["cap"]:
            wrong = f"a mean of {numbers.text(node['mean'], 'tokens')} is above the cap of {room}"
            draft.fault(f"rl.{name}.mean", f"{wrong} that prompts leave", f"at most {room}")
        elif node["mean"] == node["cap"]:
            node["spread"] = Fraction(0)
    return len(draft.faults) == before


def check_lengths(draft: Draft, key: str, node: Mapping[str, Any], whole: int | None) -> None:
    """Check that a mean is at most its cap, and the cap at most the longest sequence.

    Args:
        draft: takes the faults.
        key: dotted, of the lengths.
        node: {mean, cap, spread}, as far as they are given.
        whole: longest sequence, in tokens.
    """
    cap = node.get("cap") or whole
    if cap is None:
        draft.fault(key, "nothing limits it", "training.sequence_length, or a model's")
    elif node["mean"] > cap:
        wrong = f"a mean of {numbers.text(node['mean'], 'tokens')} is above the cap of {cap}"
        draft.fault(f"{key}.mean", wrong, f"at most {cap}")
    elif whole and cap > whole:
        wrong = f"{cap} tokens are more than training.sequence_length {whole}"
        draft.fault(f"{key}.cap", wrong, f"at most {whole}")


def round_length(tokens: float, layout: Mapping[str, Any]) -> int:
    """Round a mean length up to what the ranks that divide a sequence need."""
    ranks = layout["tensor"] * layout["context"]
    multiple = 2 * ranks if ranks > 1 else 1
    return math.ceil(tokens / multiple) * multiple


@cache
def load_facts() -> Mapping[str, Any]:
    """Return what a plan of reinforcement learning has where it states nothing else."""
    facts: Mapping[str, Any] = resources.load_preset("efficiency/rollout")
    return facts


def _fill_devices(draft: Draft, rl: dict[str, Any]) -> bool:
    """Divide the devices between engine and trainer; return False if they do not divide."""
    every = draft.document.data["cluster"]["devices"]
    rollout, split = rl["rollout"], rl["placement"] == "split"
    own, why = (every // 2, "half of cluster.devices") if split else (every, "all, in turn")
    devices = draft.default("rl.rollout.devices", own, why)
    facts = load_facts()
    default_fact(draft, "rl.rollout.memory_share", facts["memory_share"][rl["placement"]], "1")
    default_fact(draft, "rl.rollout.step_overhead", facts["step_overhead"], "s")
    default_fact(draft, "rl.sync_tensor_seconds", facts["tensor_seconds"][rl["placement"]], "s")
    for key, unit in (("logprob_excess", "1"), ("switch_rate", "bytes/s"), ("host_seconds", "s")):
        default_fact(draft, f"rl.{key}", facts[key], unit)
    left = every - devices if split else every
    if not devices:
        draft.fault("rl.placement", "one device cannot be split", "colocated, or more devices")
        return False
    if devices > every or left < 1:
        wrong = f"{devices} devices of {every}" + (" leave none to the trainer" if split else "")
        draft.fault("rl.rollout.devices", wrong, f"at most {every - split}")
        return False
    tensor = draft.default("rl.rollout.tensor", 1, "as nothing else is found")
    sizes = {"tensor × pipeline": tensor * rollout["pipeline"], "expert": rollout["expert"]}
    for name, size in sizes.items():
        if devices % size:
            wrong = f"{devices} devices are not divisible by {name} {size} of the engine"
            draft.fault(f"rl.rollout.{name.split()[0]}", wrong, format_divisors(devices))
            return False
    if rl["staleness"] and not split:
        wrong = "an engine on the trainer's devices generates with the newest weights"
        draft.fault("rl.staleness", wrong, "0, or placement: split")
    if rollout["partial"] and not rl["staleness"]:
        wrong = "a step on policy waits for all of its responses"
        draft.fault("rl.rollout.partial", wrong, "rl.staleness: 1, or false")
    if split:
        draft.data["cluster"]["devices"] = left
        draft.derived["cluster.devices"] = f"those of the trainer: {every} less rl.rollout.devices"
    return True


def _fill_roles(draft: Draft, rl: dict[str, Any]) -> None:
    """Check that a critic is there if the algorithm has one, and only then."""
    ppo, missing = rl["algorithm"] == "ppo", rl["critic"] is False
    if ppo and missing:
        draft.fault("rl.critic", "ppo trains a critic", "true, or a model")
    elif not ppo and not missing:
        draft.fault("rl.critic", f"{rl['algorithm']} trains no critic", "algorithm: ppo")


def _count_updates(draft: Draft, rl: dict[str, Any]) -> bool:
    """Count the optimizer steps of a step; return False if responses do not divide by them."""
    responses = rl["prompts"] * rl["samples"]
    batch = draft.default("training.global_batch", responses, "prompts × samples")
    if responses % batch:
        wrong = f"{rl['prompts']} prompts × {rl['samples']} samples do not divide by {batch}"
        draft.fault("training.global_batch", wrong, format_divisors(responses))
        return False
    why = "prompts × samples / training.global_batch"
    updates = draft.default("rl.updates", responses // batch, why)
    if updates * batch != responses:
        wrong = f"{updates} × {batch} is not {responses}, prompts × samples"
        draft.fault("rl.updates", wrong, str(responses // batch))
    return bool(updates * batch == responses)


def _pack_batch(draft: Draft, rl: dict[str, Any]) -> None:
    """State batch and length as the trainer runs them: packed sequences become as many of equal
    length, with the same tokens."""
    training, layout = draft.data["training"], draft.get("parallelism")
    batch = training["global_batch"]
    inner = layout["tensor"] * layout["pipeline"] * layout["context"]
    data, rest = divmod(draft.data["cluster"]["devices"], inner)
    if rest or not data:
        return  # which is said of the trainer's layout
    cap = training.get("sequence_length") or draft.get("model.max_sequence")
    prompt, response = (read_lengths(rl[f"{name}_tokens"]) for name in ("prompt", "response"))
    mean = prompt.mean + response.mean
    micro = training["micro_batch"]
    each = batch / data
    packed = training.get("packed") is not False
    if packed:
        room, long = cap * micro, response.find_share_above(cap / 2 - prompt.mean)
        passes = max(1, math.ceil(max(each * mean / room, each * long / micro)))
        square = prompt.mean**2 + 2 * prompt.mean * response.mean + response.second_moment
        micro = max(1, round(each * mean**2 / square / passes))  # attention as the lengths have it
        why = "packed: the tokens of training.global_batch responses, in sequences of equal length"
    else:
        passes = max(1, math.ceil(each / micro))
        mean = prompt.mean + response.compute_mean_longest(micro)
        why = "padded: each micro-batch to its longest response, on average"
    if layout["virtual_pipeline"] > 1:  # whose schedule runs whole rounds of the pipeline
        passes = -(-passes // layout["pipeline"]) * layout["pipeline"]
    rows = data * passes * micro
    tokens = mean * batch if packed else mean * rows
    for key, value in (
        ("micro_batch", micro),
        ("global_batch", rows),
        ("sequence_length", round_length(tokens / rows, layout)),
    ):
        if training.get(key) != value:
            training[key] = value
            draft.derived[f"training.{key}"] = why


def list_roles(data: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the other roles of a completed plan of reinforcement learning, or its teacher, each
    with its key and the changes of the document that make it a plan of its own."""
    if (teacher := data["training"].get("teacher")) is not None:
        plain = _load_plain_sections()
        own = {name: copy_mappings(plain[name]) for name in ("training", "parallelism", "memory")}
        own["training"]["sequence_length"] = data["training"].get("sequence_length")
        yield "teacher", "training.teacher", {"model": teacher, **own, "cluster.devices": 1}
        return
    rl = data["rl"]
    engine = _list_engine_changes(rl["rollout"], data["training"])
    yield "engine", "rl.rollout", engine
    if (draft := rl["rollout"]["speculation"].get("draft")) is not None:
        own = {"model": draft, "parallelism": {**engine["parallelism"], "expert": 1}}
        yield "draft", "rl.rollout.speculation.draft", {**engine, **own}
    alone = {"rl.algorithm": "grpo", "rl.critic": False, "rl.reward": "verifier"}
    scored = {"model.head": False, "model.classifier": dict(HEADS["reward"] or {})}
    if rl["critic"] is not False:
        own = {} if rl["critic"] is True else {"model": rl["critic"]}
        yield "critic", "rl.critic", {**alone, **own, **scored}
    if rl["reward"] != "verifier":
        yield "reward", "rl.reward", {**alone, "model": rl["reward"], **scored}


def list_trainer_changes(data: Mapping[str, Any]) -> dict[str, Any]:
    """List the changes that make the document of a completed plan of reinforcement learning that of
    its trainer alone, with packed sequences as its batch."""
    packed = ("micro_batch", "global_batch", "sequence_length")
    changes = {f"training.{key}": data["training"][key] for key in packed}
    changes["cluster.devices"] = data["cluster"]["devices"]
    return {**changes, "training.mode": "train", "rl": None}


def _list_engine_changes(rollout: Mapping[str, Any], trainer: Mapping[str, Any]) -> dict[str, Any]:
    """List the changes that make a document of reinforcement learning that of its engine.

    Args:
        rollout: the section of the engine.
        trainer: the section ``training``, which dates the software of both.
    """
    plain = _load_plain_sections()
    training, layout = (copy_mappings(plain[name]) for name in ("training", "parallelism"))
    training |= {"mode": "inference", "precision": rollout["precision"]}
    training |= {"engine": rollout["engine"], "kernels": trainer.get("kernels")}
    if rollout["precision"] == "fp8":  # engines keep the weights themselves in 8 bit
        training["bytes"] = {**(training.get("bytes") or {}), "weight": 1, "compute": 1}
    layout |= {key: rollout[key] for key in ("tensor", "pipeline", "expert")}
    if rollout["expert"] > 1:  # engines divide experts over the devices of tensor parallelism too
        layout["expert_tensor"] = max(1, rollout["tensor"] // rollout["expert"])
    return {
        "training": training,
        "parallelism": layout,
        "cluster.devices": rollout["devices"],
        "rl": None,
    }


@cache
def _load_plain_sections() -> Mapping[str, Mapping[str, Any]]:
    """Return the sections of a plan that states nothing there."""
    plain = {"model": {"parameters": 1}, "cluster": {"devices": 1, "accelerator": "h100-sxm-80gb"}}
    document = source.load({**plain, "training": {}, "rl": {}}, kind="plan")
    data = schema.validate(document, "plan").data
    return {name: data.get(name) or {} for name in ("training", "parallelism", "memory", "rl")}
