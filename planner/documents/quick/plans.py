"""The document of a plan, from the values of a text."""

from __future__ import annotations

import re
from fractions import Fraction
from math import prod
from typing import Any

from planner.base import numbers, units
from planner.base.display import one_line
from planner.base.numbers import exact_text, plain_text
from planner.documents import aliases, source, stacks
from planner.documents.quick import models, runs, terms
from planner.documents.quick.terms import LENGTH, START, LineValues, Said, ask_for, load_phrases
from planner.documents.references import preset_names
from planner.documents.yaml_nodes import Node, Origin, from_data

SPENT = ("energy", "electricity", "carbon", "cost")  # questions


def complete_values(said: LineValues) -> dict[str, Said]:
    """Convert parsed values to keys of a plan, with assumptions for what is missing.

    Raises:
        PlanError: what is missing, or may mean two things.
    """
    asked = [said.pop(key).value for key in [*said] if key.startswith("question ")]
    spent = said.pop("flop", None)
    _assume_offload(said)
    if of_nodes := said.pop("node hours", None):
        said.assume("cluster.devices_per_node")
        each = said["cluster.devices_per_node"].value
        said["hours"] = of_nodes._replace(value=str(Fraction(of_nodes.value) * each))
    counted = {"training.tokens", "each", "text"} & said.keys()
    if (post := said.pop("instruct", None)) and not counted:  # weights that are trained already
        said.setdefault("tuned", post)
    if "rl.algorithm" in said:
        said.setdefault("tuned", said["rl.algorithm"]._replace(value=True))
    trained = {*terms.RUN}
    named = any(key in terms.NAMED or key.startswith("shape.") for key in said)
    if spent and not named and "largest-model" not in asked:
        asked, spent = [*asked, "largest-model"], spent.assume("compute")
    elif not asked and not named and not trained & said.keys():
        limits = {"deadline", "budget", "money", "hours"} & said.keys()
        asked = ["largest-model"] if limits else []
    spending = bool(asked) and {*asked} <= {*SPENT} and not trained & said.keys()
    timed = {"deadline", "cluster.devices"} <= said.keys() or "hours" in said
    if spending and timed:  # what is spent in this time
        asked = [*asked, "tokens-by-deadline"]
        said.assume(*([] if named else ["model"]))
    if sized := "largest-model" in asked:
        if "size" not in said and said.read("family") in terms.list_words("plain_families"):
            del said["family"]
        said.assume("model")
        if (spent or {"budget", "money"} & said.keys()) and "cluster.accelerator" not in said:
            said.assume("cluster.accelerator", "cluster.devices")
        if said.pop("each", None):  # tokens in proportion to a size that is asked for
            asked.append("compute-optimal")
    models.choose_teacher(said)
    if "model" not in said:
        raise ask_for("model")
    if "memory" in said and not {"cluster", "cluster.accelerator"} & said.keys():
        said.setdefault("alone", Said(True))
        runs.choose_device(said)  # before a question needs it
    runs.assume_devices(said, asked, bool(spent or trained & said.keys()))
    runs.choose_device(said)
    runs.add_price(said, asked)
    if said.pop("least", None):
        said.assume(*terms.SMALLEST)
    layout = {key for key in said if key.startswith(("parallelism.", "cluster.accelerator"))}
    whole = layout == {"parallelism.zero", "cluster.accelerator"} and "largest-batch" in asked
    if whole and runs.count_holding(said, 1, "kept") == 1:
        said.setdefault("data alone", said["parallelism.zero"]._replace(value=True))
    if grid := said.pop("grid", None):
        for key, known in terms.load_phrases()["countries"][grid.value].items():
            said.setdefault(key, terms.assume_value(*known))
    if "electricity" in asked:
        said.assume("cluster.electricity_price")
    if "carbon" in asked and "cluster" not in said:
        said.assume("cluster.carbon_intensity")
    runs.add_network(said, asked)
    if "rl.algorithm" in said and _assume_phases(said, asked):
        known = {*terms.list_words("order"), "launcher"}
        return {key: one for key, one in said.items() if key.partition(".")[0] in known}
    if (hybrid := said.pop("hybrid", None)) and "parallelism.replicate" not in said:
        if "cluster" in said or "cluster.devices" not in said:
            raise ask_for("hybrid", hybrid.place)
        count = said["cluster.devices"].value // runs.count_holding(said)
        said["parallelism.replicate"] = hybrid.assume("replicas", max(1, count))
    adapted = said.pop("lora", None) or any(key.startswith("training.lora.") for key in said)
    if bits := said.pop("weight format", None):
        base, why = load_phrases()["formats"][bits.value]
        pretrained = trained & said.keys() and "tuned" not in said
        if not adapted and ("whole" in said or (pretrained and "training.stack" not in said)):
            raise ask_for("bits", bits.place, bits.value)
        if said.get("training.lora.base", bits).value not in (bits.value, base):
            raise ask_for("bits", bits.place, bits.value)
        why += "" if adapted else ", which are not trained themselves: adapters (LoRA) are"
        frozen = bits._replace(value=base, why=terms.ASSUMED + why)
        adapted = said.setdefault("training.lora.base", frozen)
    if double := said.pop("double", None):  # scales of the 4-bit weights in 8 bits
        adapted = said["training.lora.base"] = double._replace(value="nf4-double")
    if adapted:
        said.assume(terms.RANK)
        if "training.dropout" in said:
            said["training.lora.dropout"] = said.pop("training.dropout")
    tuned = bool(said.pop("tuned", None) or adapted or {terms.EXAMPLES, "pairs"} & said.keys())
    every, other = said.pop("whole", None), said.pop("other objective", None)
    if tuned and not adapted and not other:
        said.assume("training.objective")
    if tuned and not (every or adapted) and {"fewest-devices", "largest-model"} & {*asked}:
        said.add_note(START, "fine-tuning of all weights; LoRA or QLoRA needs less")
    stated = {key for key in (LENGTH, terms.EACH) if key in said and not said[key].is_assumed}
    free = not stated and "length alone" not in said
    filled = {terms.EXAMPLES, "pairs"} & said.keys() and terms.EACH not in said
    usual = terms.get_usual("example length" if filled else "tuned length")
    longest = models.find_longest(said["model"].value)
    if free and (few := runs.find_few_tokens(said)):
        said[LENGTH] = few
        del said["training.tokens"]
    elif free and tuned and longest > usual.value and "longest-context" not in asked:
        said[LENGTH] = usual
    doubled = {"batch", terms.BATCH, terms.COUNTS[1]} & said.keys()
    for key in doubled if runs.is_paired(said) else ():
        size = said[key].value  # k and M count tokens
        twice = 2 * size if key != "batch" else size if size[1] else (2 * size[0], "")
        said[key] = said[key]._replace(value=twice)
    runs.convert_tokens(said, tuned)
    runs.share_batch(said, tuned)
    follow = {terms.BATCH, "training.gradient_accumulation"} & said.keys()
    if tuned and not follow and not {"largest-batch", "fewest-devices", "cheapest"} & {*asked}:
        runs.assume_tuned_batch(said)
    size = models.count_parameters(said)
    if spent and size and not sized and "training.tokens" not in said:
        count = int(Fraction(spent.value) / (6 * size))
        said["training.tokens"], spent = spent.assume("tokens", count, spent.value), None
    runs.convert_rate(said, bool(adapted), asked)
    _replicate_whole(said)
    mfu, busy = said.get("time.mfu"), said.pop("busy", None)
    if mfu and units.parse(str(mfu.value), "1") > terms.get_limit("mfu"):
        if not busy:
            raise ask_for("mfu", mfu.place, mfu.value)
        said.add_note(mfu.place, f"utilisation {mfu.value}: not used; no run reaches it as MFU")
        del said["time.mfu"], said["time.use"]
    if sized and spent:
        for key in {"deadline", "budget", "money", "hours"} & said.keys():
            said.add_note(said[key].place, f"{said.pop(key).value}: not used beside FLOP")
        said["questions"] = spent._replace(value=[{"compute-optimal": f"{spent.value} FLOP"}])
    elif spent:
        raise ask_for("flop", spent.place, spent.value)
    else:
        _add_questions(said, asked, sized, not tuned)
    if longest > terms.USUAL_SEQUENCE:
        said.assume(LENGTH)
    elif isinstance(said["model"].value, str) and not longest:
        said.setdefault(LENGTH, terms.get_usual("no longest"))
    return {key: one for key, one in said.items() if key not in ("sized", "used", "shape.layers")}


def _assume_phases(said: LineValues, asked: list[str]) -> bool:
    """Complete a plan of reinforcement learning; return False where only the training of the policy
    can be planned, which then has a note.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text.
    """
    rows, algorithm = load_phrases()["reinforcement"], said["rl.algorithm"]
    sized = isinstance(said["model"].value, dict) and "parameters" in said["model"].value
    cap, mean = said.pop("rl.response_tokens", None), said.pop("rl.response_tokens.mean", None)
    few = said.pop("length alone", None) or runs.find_few_tokens(said)
    long = "training.tokens" in said and few is None
    if sized or long or {*asked} & {*rows["unplanned"]} or said.keys() & {*rows["unplanned"]}:
        prompt = said.get("rl.prompt_tokens")
        for key in [key for key in said if key.startswith("rl.")]:
            left = said.pop(key)
            if key != "rl.algorithm" and not left.is_assumed:
                said.add_note(left.place, f"{key} {left.value}: not used")
        if cap and LENGTH not in said:
            said[LENGTH] = cap._replace(value=cap.value + (prompt.value if prompt else 0))
        said.add_note(algorithm.place, rows["note"].format(algorithm.value))
        said["other objective"] = algorithm
        return False
    for role in ("rl.critic", "rl.reward"):
        if size := said.pop(f"{role} size", None):
            said[role] = models.choose_shape(size, LineValues())
    keys = (terms.EXAMPLES, terms.EPOCHS, "training.tokens", terms.EACH)
    examples, epochs, *_ = said.take(*keys)
    if batch := said.pop("batch", None):
        number, many = batch.value
        said[terms.BATCH] = batch._replace(value=int(number * 1024 ** " km".find(many)))
    if steps := said.pop("steps", None):
        said["rl.steps"] = steps
    said["training.mode"] = algorithm._replace(value="rl", why="")
    for key, (value, why) in rows["assumed"].items():
        plain, _, of = key.partition(" of ")
        if of in ("", algorithm.value, *asked):
            said.setdefault(plain, terms.assume_value(value, why))
    if examples and ("rl.steps" not in said or said["rl.steps"].why):
        whole = examples.value * (epochs.value if epochs else 1)
        why = f"{whole} prompts, {said['rl.prompts'].value} in a step"
        said["rl.steps"] = examples._replace(value=-(-whole // said["rl.prompts"].value), why=why)
    elif unused := examples or epochs:
        what = "examples" if examples else "epochs"
        said.add_note(unused.place, f"{unused.value} {what}: not used")
    usual, why = rows["length"]
    longest = models.find_longest(said["model"].value)
    part = said["rl.prompt_tokens"]
    whole = max(min(usual, longest or usual), 0 if part.why else 2 * part.value)
    whole = said.read(LENGTH, whole)
    prompt = min(part.value, whole // 2)
    said["rl.prompt_tokens"] = part._replace(value=prompt)
    why = rows["mean"] if cap or few or LENGTH in said else why
    if mean and not cap:
        cap, why = mean._replace(value=2 * mean.value), rows["cap"]
    cap = cap or few or Said(whole - prompt, START)
    lengths = {"mean": mean.value if mean else max(1, cap.value // 2), "cap": cap.value}
    said["rl.response_tokens"] = cap._replace(value=lengths, why=terms.ASSUMED + why)
    both = prompt + cap.value
    both = min(both, longest) if longest and longest >= cap.value else both
    said.setdefault(LENGTH, terms.assume_value(both, "prompt and response together"))
    if few := said.pop("rl.mini prompts", None):
        said[terms.BATCH] = few._replace(value=few.value * said["rl.samples"].value)
    responses = said["rl.prompts"].value * said["rl.samples"].value
    each, why = rows["batch"]
    part = responses // each if responses % each == 0 else responses
    runs.share_batch(said, True)
    if more := said.pop(terms.COUNTS[2], None):
        said.add_note(more.place, f"{more.value} accumulation steps: not used")
    said.setdefault(terms.BATCH, terms.assume_value(part, why))
    if not any(key.startswith("parallelism.") for key in said):
        value, why = rows["zero"]
        said["parallelism.zero"] = terms.assume_value(value, why)
    return True


def _assume_offload(said: LineValues) -> None:
    """Assume of what an offload is of which nobody says it: of the optimizer, and where the weights
    are divided (FSDP, ZeRO-3) of these too."""
    vague, zero = said.pop("offload", None), said.get("parallelism.zero")
    if vague and not {"training.offload.optimizer", "training.offload.parameters"} & {*said}:
        parts = ("optimizer", "parameters")[: 2 if zero and zero.value == 3 else 1]
        offload = vague.assume("offload", None, " and the ".join(parts))
        said |= {f"training.offload.{part}": offload for part in parts}


def _replicate_whole(said: LineValues) -> None:
    """Keep layers whole where only the data is said to be split; convert what a text says of
    failures and links."""
    if alone := runs.find_data_alone(said):
        for key in terms.DEGREES[1 : -1 if "ring" in said else None]:
            said.setdefault(f"parallelism.{key}", alone.assume("data alone", 1))
    said.take("data alone", "ring")
    if period := said.pop("failures", None):
        if "cluster.devices" not in said:
            raise ask_for("devices")
        seen = {"count": 1, "devices": said["cluster.devices"].value, "period": period.value}
        said["cluster.failures"] = period._replace(value=seen)
    bare, memory = said.pop("no link", None), said.pop("own memory", None)
    if (kind := said.get("cluster.accelerator")) and (bare or memory):
        known = terms.load_like("accelerator", kind.value)
        changed: dict[str, Any] = {"extends": kind.value}
        why = [kind.why.removeprefix(terms.ASSUMED)] if kind.why else []
        if bare and (link := known.get("host_link")):
            changed |= {"link": {**link, "topology": "host"}}
            why.append(f"devices of a node exchange over {link['name']}")
        if memory:
            changed["memory"] = f"{memory.value} GB"
            why.append(f"{kind.value} with {memory.value} GB in place of its own")
        if why:
            because = terms.ASSUMED + "; ".join(why)
            said["cluster.accelerator"] = kind._replace(value=changed, why=because)


def _add_questions(said: LineValues, asked: list[str], sized: bool, trained: bool) -> None:
    """Collect the questions and requirements of a plan from what is asked, deadline and budget.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text.
        sized: whether they ask for a size of model.
        trained: whether all weights are trained from their start, so that a number of tokens may
            be assumed.

    Raises:
        PlanError: a question lacks a limit or tokens.
    """
    if (money := said.pop("money", None)) is not None:
        paid = "cluster.price" in said or "tokens-by-deadline" in asked
        if Fraction(money.value) < terms.get_limit("budget") and not paid:
            raise ask_for("money", money.place, money.value)
        said.setdefault("budget", money)
    if "cheapest" in asked and "deadline" not in said:
        said.assume("deadline")
    deadline, budget, hours, start = said.take("deadline", "budget", "hours", "start")
    if start and deadline and deadline.why.endswith("from today"):
        left = units.parse(deadline.value, "s") - units.parse(start.value, "s")
        if left > 0:
            why = deadline.why.replace("from today", f"{start.value} after today")
            deadline = deadline._replace(value=f"{left // 86400} days", why=why)
    elif start:
        said.add_note(start.place, "the day of the start: not used")
    if hours and (many := said.get("cluster.devices")) and not many.why:
        each = numbers.text(float(Fraction(hours.value) / many.value), "h", "table")
        whole = exact_text(Fraction(hours.value))
        note = f"{whole} GPU hours on {exact_text(many.value)} devices are {each} h"
        said.add_note(hours.place, note)
    limits: dict[str, Any] = {"deadline": deadline.value} if deadline else {}
    until = [f"cost.total <= {budget.value} USD"] if budget else []
    until += [f"time.device_hours <= {hours.value} h"] if hours else []
    limits |= {"until": until} if until else {}
    tokens = bool({"training.tokens", terms.EXAMPLES} & said.keys())
    if sized and not tokens and (limits or "compute-optimal" in asked):
        usual = terms.get_usual("deadline")
        if budget and not hours and {"cluster.price", "cluster.devices"} <= said.keys():
            deadline = deadline if _buy_devices(said, budget, deadline or usual) else None
        elif len([*filter(None, (deadline, budget, hours))]) != 1:
            raise ask_for("each")
        spent = deadline.value if deadline else f"{budget.value} USD" if budget else ""
        if hours:
            spent = f"{plain_text(Fraction(hours.value) / said.read('cluster.devices', 1))} h"
        said["questions"] = Said([{"compute-optimal": spent}], START)
        return
    names = [one for one in asked if one in load_phrases()["answered"]]
    depends = {"time", "cost", "hours", *SPENT} & {*asked} or (names and limits)
    if depends and not tokens and "tokens-by-deadline" not in asked:
        usual, key = load_phrases()["assumptions"], "training.tokens" if trained else "tuned tokens"
        named = "" if said["model"].why.startswith(terms.SHAPE) else said["model"].value
        amount, why = usual.get(f"{key} of {named}") or usual[key]
        if isinstance(amount, int):  # tokens of a parameter
            if (count := models.count_parameters(said)) is None:
                raise ask_for("tokens", None, names[0] if names else asked[0])
            amount *= count
        said["training.tokens"] = terms.assume_value(amount, why)
        tokens = True
    if sized and tokens and budget and not hours and "cluster.price" in said:
        _buy_devices(said, budget, deadline or terms.get_usual("deadline"))
    questions: list[Any] = []
    for name in names:
        if name == "largest-model" and deadline:
            name = "largest-model-by-deadline"
        kind, many = said.get("cluster.accelerator"), said.get("cluster.devices")
        chosen = kind and not kind.why and isinstance(kind.value, str)
        kept = {"accelerators": kind.value} if kind and chosen and name == "cheapest" else {}
        if many and not many.why and name == "cheapest":
            note = f"{many.value} devices: not kept; the cheapest number is found"
            said.add_note(many.place, note)
        for key in ("cluster.accelerator", "cluster.devices") if name == "cheapest" else ():
            if (one := said.get(key)) and one.why:
                said[key] = one.assume("cheapest", one.value)
        questions.append({name: limits | kept} if limits or kept else name)
    if "tokens-by-deadline" in asked or (not tokens and not questions and limits):
        if not limits:
            raise ask_for("limit")
        said.pop(terms.EPOCHS if terms.EXAMPLES in said else "training.tokens", None)
        limits["set"] = {"training.tokens": "1T"}  # where it starts
        questions.append({"tokens-by-deadline": limits})
    if questions:
        said["questions"] = Said(questions, START, deadline.why if deadline else "")
    elif (first := deadline or budget or hours) is not None:
        days = [f"time.training_days <= {deadline.value}"] if deadline else []
        said["require"] = Said([*days, *until], first.place, first.why)


def _buy_devices(said: LineValues, budget: Said, deadline: Said) -> bool:
    """Assume the devices that a budget pays for until a deadline, in whole nodes, where nobody says
    how many; return whether the budget lasts until then."""
    devices, price = said["cluster.devices"], said["cluster.price"]
    cost = units.parse(price.value, "USD/h") * units.parse(deadline.value, "h")
    many = int(Fraction(budget.value) / cost)
    if devices.why and many:
        whole = many - many % 8 or many
        said["cluster.devices"] = devices.assume("budget", whole, budget.value, deadline.value)
    return bool(many >= devices.value)


def build_document(text: str, said: LineValues) -> Node:
    """Build the document from parsed values; what they do not fix of the layout is searched.

    Args:
        text: the line, which becomes the name of the plan.
        said: values by dotted key, which this changes.

    Returns:
        The document, its sections in the order of yaml.
    """
    title = from_data(
        one_line(" ".join(text.split()))[: terms.get_limit("name")], START, terms.STATED
    )
    launcher, data = said.pop("launcher", None), said.get("parallelism.data")
    if (stack := said.get("training.stack")) is not None:
        name = aliases.find_preset("stack", str(stack.value), preset_names("stack"))
        other = stacks.find_with_engine(name, launcher.value) if launcher and name else name
        if launcher and other is None:
            said.add_note(launcher.place, f"{launcher.value}: left out, as {name} does not run it")
        said["training.stack"] = stack._replace(value=other or name or stack.value)
        launcher = None
        if (
            said.read("training.implementation") == "pytorch"
        ):  # FSDP, around the models of the stack
            del said["training.implementation"]
    if data and "cluster.devices" in said:
        degrees = [f"parallelism.{key}" for key in terms.DEGREES[1:]]
        count = prod(said[key].value for key in ("parallelism.data", *degrees) if key in said)
        rest = Fraction(said["cluster.devices"].value, count)
        if "parallelism.tensor" not in said and 1 < rest <= 8 and rest.denominator == 1:
            said["parallelism.tensor"] = data.assume("tensor", int(rest), data.value)
            count *= int(rest)
        if count == said["cluster.devices"].value:  # the search makes it of these
            del said["parallelism.data"]
            left = Said(1, data.place, "what data leaves")
            said = LineValues(dict.fromkeys(degrees, left) | said)
    parts = [said.get(f"parallelism.{key}") for key in ("expert", "tensor")]
    if (count := said.get("cluster.devices")) and all(parts):
        stages = said.read("parallelism.pipeline", 1)
        if count.value % (max(1, stages * prod(one.value for one in parts if one))):
            said.setdefault("parallelism.expert_tensor", Said(1).assume("whole experts"))
    follow = {"parallelism.data", "training.gradient_accumulation"} & said.keys()
    sized = isinstance(said["model"].value, dict) and "parameters" in said["model"].value
    if not sized and not follow and "rl.algorithm" not in said:
        said |= {"parallelism.for": launcher} if launcher else {}
        alone = not any(key.startswith("parallelism.") for key in said)
        opened = ("parallelism", "auto") if alone else ("parallelism.auto", True)
        said = LineValues({opened[0]: Said(opened[1]), **said})
    if launcher is not None:
        said["training.stack"] = launcher
    kind = said.get("cluster.accelerator")
    sizes = load_phrases()["unsized"].get(str(kind.value)) if kind and not kind.why else None
    if kind and sizes and not re.search(rf"(?<!\d){sizes[0]}(?!\d)", text):
        said["cluster.accelerator"] = kind.assume("memory", None, sizes[1])
    if "cluster" in said and any(key.startswith("cluster.") for key in said):
        said["cluster.extends"] = said.pop("cluster")
    nodes = {
        key: from_data(value, place, Origin("argument", why) if why else terms.STATED)
        for key, (value, place, why) in said.items()
    }
    tree = {"name": title, "cluster": {}, "training": {}} | source.expand_keys(nodes)
    order = terms.list_words("order")
    assert tree.keys() <= {*order}, tree.keys()
    return from_data({key: tree[key] for key in order if key in tree}, START, terms.STATED)
