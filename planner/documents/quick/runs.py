"""The devices of a run, their price and network; its tokens, batch, length and measured rate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from math import gcd, prod

from planner.base import numbers, units
from planner.base.numbers import exact_text, plain_text
from planner.documents import references, source
from planner.documents.quick import terms
from planner.documents.quick.models import count_parameters, find_sizes, pick_length
from planner.documents.quick.terms import BATCH, LineValues, Said, ask_for, get_limit, load_like


def assume_devices(said: LineValues, asked: list[str], trained: bool) -> None:
    """Derive the devices, and assume what a question needs of them.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text, to which one is added that a limit without devices asks.
        trained: whether the length of the run is given.
    """
    without, several = terms.load_phrases()["without devices"], said.pop("several", None)
    kind_only = _derive_devices(said)
    one, limits = said.get("cluster.devices"), {"deadline", "budget", "money"} & said.keys()
    bare = kind_only and one is not None and bool(one.why)
    bought = limits and bare and "largest-model" not in asked
    if bought and trained and not asked:
        del said["cluster.devices"]
    paid = {"hours", "price"} & said.keys()
    counted = {*without["counted"]} & {*asked} or paid or several or bought
    tuned = {"tuned", terms.EXAMPLES, "pairs"} & said.keys() or any("lora" in key for key in said)
    kind = said.get("cluster.accelerator")
    link = load_like("accelerator", kind.value).get("link") or {} if kind else {}
    card = not link or link.get("topology") in ("host", "pair")
    single = said.pop("one instance", None)
    few = bool(tuned and (card or single) and one and not several)  # who names one has one
    if {"cluster", "cluster.devices"} & said.keys():
        pass
    elif not asked and trained and "deadline" in limits:
        asked.append("fewest-devices")
    elif not asked and limits and not bare and (trained or "cluster.accelerator" not in said):
        asked.append("cheapest")
    elif asked == ["memory"]:
        said["cluster.devices"] = terms.assume_value(_multiply_degrees(said), without["alone"])
        if not {"batch", "batch_tokens", *terms.COUNTS} & {*said}:  # not as many as fill a device
            said.assume(*terms.SMALLEST)
    one = said.get("cluster.devices")
    if {*without["found"]} & {*asked} and "cluster" not in said:
        if one and one.why:
            del said["cluster.devices"]
        said.assume("cluster.accelerator", "cluster.devices")
        first = said["cluster.devices"]
        if "fewest-devices" in asked and (many := count_holding(said)) > first.value:
            said["cluster.devices"] = first.assume("holding", many)
    elif "cluster" not in said and ((counted and bare and not few) or one is None):
        said.assume("cluster.accelerator", "cluster.devices")
        least, degrees = said["cluster.devices"], _multiply_degrees(said)
        many = count_holding(said, degrees if degrees > 1 else least.value)
        hours = Fraction(said["hours"].value) if "hours" in said else _estimate_hours(said)
        many = max(many, 1 << int(hours / 720).bit_length() >> 1)  # as many as take 30 days
        if "parallelism.data" in said:
            said["cluster.devices"] = least._replace(value=degrees)
        elif many != least.value or several:
            said["cluster.devices"] = least.assume("devices", many)


def choose_device(said: LineValues) -> None:
    """Choose the accelerator that a name, a memory and a variant such as PCIe mean together.

    Raises:
        PlanError: there is none.
    """
    memory, variant, ram = said.take("memory", "variant", "ram")
    name, many = said.get("cluster.accelerator"), said.get("cluster.devices")
    kinds = references.preset_names("accelerator") if name else terms.list_words("cards")
    if name:
        kinds = [kind for kind in kinds if name_family(kind) == name_family(name.value)]

    def has_memory(kind: str, amount: Said, limit: str = "near") -> bool:
        own = load_like("accelerator", kind).get("memory")
        same = name and not name.why and kind == name.value and limit == "near"
        every = many.value if many and same else 1  # `4x3090, 96 GB` of all
        each = (plain_text(Fraction(amount.value) / count) for count in (1, every))
        return any(terms.is_near(own, f"{one} GB", "bytes", limit) for one in each)

    if ram and (memory or (name and not any(has_memory(kind, ram) for kind in kinds))):
        said["cluster.node_memory"] = ram._replace(value=f"{ram.value} GiB")
        ram = None
    memory = memory or ram
    if (about := memory or variant) and "cluster" not in said:
        fitting = [
            kind
            for kind in kinds
            if variant is None or variant.value in kind.split("-")
            if memory is None or has_memory(kind, memory)
        ]
        if name:
            fitting.sort(key=lambda one: "sxm" not in one)  # the usual form, where there is one
        if name and memory and not fitting and has_memory(name.value, memory, "memory"):
            said["own memory"], fitting = memory, [name.value]
        if not fitting or (variant and not name):
            raise ask_for("memory" if memory else "variant", about.place, about.value)
        if name is None:
            why = f"{terms.ASSUMED}a device of {about.value} GB"
            why += f", as are {', '.join(fitting[1:])}" if fitting[1:] else ""
            said["cluster.accelerator"] = Said(fitting[0], about.place, why)
        elif name.value not in fitting:
            said["cluster.accelerator"] = name._replace(value=fitting[0])
    elif name is None and "cluster.devices" in said and "cluster" not in said:
        said.assume("cluster.accelerator")
    kind = said.get("cluster.accelerator")
    stated = said.get("training.precision")
    if kind and (stated is None or stated.value == "bf16"):
        peaks = load_like("accelerator", kind.value).get("peaks")
        if "bf16" not in peaks:
            if said.pop("training.precision", None) and stated:
                said.add_note(stated.place, "bf16: not used; the device has no bf16 rate")
            said.assume("training.precision")


def name_family(accelerator: str) -> str:
    """Return the name of an accelerator up to its number, which its other forms share."""
    return re.match(r"\D*\d*[^-]*(-(pro|max|ultra)\b)?", accelerator)[0]  # type: ignore[index]


def count_holding(said: LineValues, least: int = 8, taken: str = "bytes") -> int:
    """Count the devices that hold a model and what is taken for each of its parameters.

    Args:
        said: values by key.
        least: the smallest number; others are twice that, and so on.
        taken: the name of the bytes of each parameter, in the limits of phrases.yaml.
    """
    model, limits = said["model"].value, terms.load_phrases()["limits"]
    sizes = [said["sized"].value] if "sized" in said else [*find_sizes(model)[:1]]
    if not sizes:
        return least
    if any("lora" in key for key in said):  # of weights that are not trained
        taken = "4 bit" if str(said.read("training.lora.base", "")).startswith("nf4") else "frozen"
    device = load_like("accelerator", said["cluster.accelerator"].value)
    memory = units.parse(device.get("memory"), "bytes") * Fraction(str(limits["share"]))
    needed = units.parse(sizes[0], "parameters") * limits[taken] / memory
    return next(least << i for i in range(64) if least << i >= needed)


def name_card(needed: str) -> str:
    """Name the smallest common card with so much memory, such as ``10.7 GiB``, in words."""
    cards = {kind: load_like("accelerator", kind) for kind in terms.list_words("cards")}
    memory = {kind: units.parse(card.get("memory"), "bytes") for kind, card in cards.items()}
    least = units.parse(needed, "bytes") * Fraction("1.05")
    held = sorted((size, kind) for kind, size in memory.items() if size >= least)
    rows, name = terms.load_phrases()["reasons"], held and cards[held[0][1]].get("name")
    return str(rows["card"].format(name, needed) if held else rows["no card"].format(needed))


def _estimate_hours(said: LineValues) -> Fraction:
    """Estimate the device-hours of a run by 6 FLOPs a parameter and token at a usual utilisation;
    0 where parameters, tokens or the rate of the device are unknown."""
    size, run = count_parameters(said), said.get("training.tokens")
    device = load_like("accelerator", said["cluster.accelerator"].value)
    peak = device.get("peaks.bf16.value")
    if size is None or run is None or peak is None:
        return Fraction(0)
    rate = units.parse(peak, "FLOP/s") * Fraction(str(get_limit("utilisation")))
    return 6 * size * units.parse(str(run.value), "tokens") / rate / 3600


def _derive_devices(said: LineValues) -> bool:
    """Derive the number of devices from nodes and devices per node, or the reverse; return whether
    only their kind is said."""
    if these := said.pop("of these", None):
        said["nodes" if said.pop("some nodes", None) else "cluster.devices"] = these
    nodes, alone = said.pop("nodes", None), said.pop("alone", None)
    if pools := [one for one in said.take("trainers", "rollouts") if one]:
        whole = sum(one.value for one in pools)
        said.setdefault("cluster.devices", pools[0]._replace(value=whole))
    if (some := said.pop("some nodes", None)) and not nodes and "cluster.devices" not in said:
        nodes = some.assume("one node", 1)
    each, devices = said.get("cluster.devices_per_node"), said.get("cluster.devices")
    if nodes and devices and each and each.value == devices.value:  # 96 dgx-a100 (8 x 40 GB)
        devices = said.pop("cluster.devices")
    if nodes and devices and each is None:
        if devices.value % nodes.value or (devices.value <= 8 and nodes.value > 1):
            raise ask_for("nodes", devices.place, nodes.value, devices.value)
        said["cluster.devices_per_node"] = Said(devices.value // nodes.value, nodes.place)
    elif nodes is not None:
        said.assume("cluster.devices_per_node")
        whole = nodes.value * said["cluster.devices_per_node"].value
        if said.setdefault("cluster.devices", Said(whole, nodes.place, nodes.why)).value != whole:
            raise ask_for("number", nodes.place, "devices", whole)
    elif each or alone or "memory" in said:
        one = terms.assume_value(_multiply_degrees(said), "nobody says how many")
        said.setdefault("cluster.devices", each or one)
    return bool(some if alone is None else not alone.value)


def _multiply_degrees(said: LineValues) -> int:
    """Multiply the degrees that a text gives, which is the least number of devices."""
    keys = (f"parallelism.{key}" for key in terms.DEGREES)
    return prod(max(1, int(said[key].value)) for key in keys if key in said)


def add_price(said: LineValues, asked: Iterable[str]) -> None:
    """Convert a price of a node to that of a device; assume the lowest listed price if cost
    matters and no price is given.

    Args:
        said: values by key, which this changes.
        asked: the questions of the text.

    Raises:
        PlanError: it may be the price of a device or of a node.
    """
    money = said.get("money")
    solved = {*asked} & {*terms.load_phrases()["answered"], "tokens-by-deadline"}
    spent = (solved and "cost" not in asked) or "price" in said
    if money and not spent and Fraction(money.value) < get_limit("hourly"):
        said["price"] = said.pop("money").assume("price", None, money.value)
    price, of, whole, cloud = said.take("price", "price of", "node price", "cloud")
    each, many = said.get("cluster.devices_per_node"), said.get("cluster.devices")
    kind = said.get("cluster.accelerator")
    paid = said.read("cluster.purchase")
    device = load_like("accelerator", kind.value).data if kind else {}
    listed = source.list_prices(device, paid, said.read("cluster.term"))
    most = 2 * max((units.parse(one["price"], "USD/h") for one in listed), default=0)
    if price and not of and Fraction(price.value) > (most or get_limit("price")):
        each = each or (many if many and many.value <= 8 else None)
        if each is None:
            raise ask_for("node price", price.place, price.value)
        price, whole = None, price
    if whole:
        if each is None:
            said.assume("cluster.devices_per_node")
            each = said["cluster.devices_per_node"]
        amount = plain_text(round(Fraction(whole.value) / each.value, 4))
        why = f"${whole.value} for {each.value} devices"
        said["cluster.price"] = Said(f"{amount} USD/h", whole.place, why)
    elif price:
        said["cluster.price"] = Said(f"{price.value} USD/h", price.place, price.why)
    if "cluster.price" in said:  # which is what is paid, however it is called
        said.pop("cluster.purchase", None)
    if owned := said.pop("bought", None):
        note, spent_once = f"{owned.value} USD a device: not used", Fraction(owned.value)
        rate = said["cluster.price"].value if "cluster.price" in said else ""
        if rate := rate or next((one["price"] for one in listed), ""):
            months = numbers.text(spent_once / units.parse(rate, "USD/h") / 730)
            texts = numbers.text(spent_once, "USD"), months, rate
            note = terms.load_phrases()["reasons"]["bought"].format(*texts)
        said.add_note(owned.place, note)
    if {"cluster", "cluster.price", "cluster.provider"} & said.keys():
        return
    if not ({"budget", "money", "cluster.purchase"} & said.keys() or "cost" in asked):
        return
    sold = [one for one in listed if cloud is None or cloud.value == one["provider"]]
    if sold:
        bought = {"deadline", "training.tokens"} & said.keys() and "largest-model" in asked
        key, other = ("price", "provider") if bought else ("provider", "price")
        shown = sold[0][other]
        if other == "price":
            shown = numbers.text(units.parse(shown, "USD/h"), "USD/h")
        first = terms.load_phrases()["first price"].get(paid, "the lowest that is listed")
        why = f"nobody states a price; {first}, {shown}"
        said[f"cluster.{key}"] = terms.assume_value(sold[0][key], why)
    elif "time" not in asked and (spent or {"budget", "money"} & said.keys()):
        place = cloud.place if cloud else terms.START
        raise ask_for("price", place, cloud.value if cloud else said["cluster.accelerator"].value)
    else:
        unsold = f"{said['cluster.accelerator'].value}{f' at {cloud.value}' if cloud else ''}"
        note = f"no price of {unsold} is listed, so that no cost is computed; write one as $2.5/h"
        said.add_note(terms.START, note)


def add_network(said: LineValues, asked: Iterable[str]) -> None:
    """Convert the bandwidth of a network, of a device or of a node, to that of a device; assume one
    for several nodes of devices that come without, also where a question may take several."""
    of = said.pop("network of", None)
    if (rate := said.pop("network", None)) is None:
        device, count = said.get("cluster.accelerator"), said.get("cluster.devices")
        known = load_like("accelerator", device.value).data if device else {}
        each = said.get("cluster.devices_per_node")
        many = count.value if count else 0
        grown = many and {"fewest-devices", "cheapest"} & {*asked}
        several = (grown or many > (each.value if each else 8)) and "network" not in known
        slow = several and known.get("link", {}).get("topology") in ("host", "switch")
        if slow or (many > 4096 and several):
            said.assume("cluster.network.bandwidth")
        return
    kind, value = of.value if of else "card", units.parse(rate.value, "bytes/s")
    whole, limit = kind == "node", terms.load_phrases()["limits"].get(kind)
    if limit:  # nobody says whose
        whole = (value > units.parse(limit, "bytes/s")) != (kind == "ethernet")
        rate = rate.assume("network", None, rate.value, "node" if whole else "device")
    if whole:
        said.assume("cluster.devices_per_node")
        each = value / said["cluster.devices_per_node"].value * 8 / 10**9
        rate = rate._replace(value=f"{plain_text(each)} Gb/s")
    said["cluster.network.bandwidth"] = rate


def find_few_tokens(said: LineValues) -> Said | None:
    """Find tokens that are too few for a run, as the length of a sequence; None for others."""
    tokens, limits = said.get("training.tokens"), terms.load_phrases()["limits"]
    found = re.fullmatch(r"(\d+)(k?)", str(tokens.value)) if tokens else None
    count = int(found[1]) * (1024 if found[2] else 1) if found else 0
    if not found or not tokens or not limits["length"] <= count <= limits["run"]:
        return None
    return tokens.assume("length", count, found[0])


def convert_tokens(said: LineValues, tuned: bool) -> None:
    """Convert steps and epochs to tokens, and a batch in tokens to sequences; runs that are
    ``tuned`` may be short.

    Args:
        said: values by key, which this changes.
        tuned: whether it is a fine-tuning, which may have few tokens.

    Raises:
        PlanError: numbers that contradict each other, or of which something is missing.
    """
    bare, pairs = said.take("length alone", "pairs")
    if pairs:
        said[terms.EXAMPLES] = pairs._replace(value=(1 if is_paired(said) else 2) * pairs.value)
    if bare and terms.LENGTH in said:
        raise ask_for("bare", bare.place, bare.value // 1024)
    if bare:
        said[terms.LENGTH] = bare.assume("length alone", None, bare.value // 1024)
    (of, packed), length = said.take(terms.EACH, "packed"), said.get(terms.LENGTH)
    if of and length is None and not of.is_assumed:
        length = said[terms.LENGTH] = of.assume("example")
    each = length.value if length else pick_length(said["model"].value)
    if length and each < get_limit("length"):
        raise ask_for("length", length.place, each)
    if (batch := said.pop("batch", None)) is not None:
        number, many = batch.value
        whole = terms.expand_binary(number, many)
        limits = terms.load_phrases()["limits"]
        counted = many or whole >= limits["batch"]
        few = counted and whole < limits["tokens"]
        if (few and whole * each > limits["step"]) or (not counted and whole >= limits["tokens"]):
            raise ask_for("batch", batch.place, exact_text(whole))
        counted = counted and not few
        sized = batch.assume("sequences", whole, number, many) if few else Said(whole, batch.place)
        said["batch_tokens" if counted else BATCH] = sized
        if not counted and "training.gradient_accumulation" in said:
            said["training.micro_batch"] = said.pop(BATCH).assume("accumulated batch")
    if step := said.pop("batch_tokens", None):
        if step.value < get_limit("tokens") and not tuned:
            raise ask_for("batch", step.place, exact_text(step.value))
        if step.value < each and (not length or length.why):
            each = min(each, step.value)
            said[terms.LENGTH] = step.assume("one sequence", each)
        count, devices = max(1, round(step.value / each)), said.get("cluster.devices")
        rest = devices.value // gcd(devices.value, count) if devices else 0
        if devices and (count > devices.value or rest > get_limit("split")):
            shares = (devices.value >> i for i in range(64) if devices.value % 2**i == 0)
            near = (max(1, round(count / share)) * share for share in shares)
            count = next((one for one in near if terms.is_near(str(one), str(count), "1")), count)
        why = f"{exact_text(step.value)} tokens in sequences of {exact_text(each)}"
        said[BATCH] = Said(count, step.place, why)
    if (steps := said.pop("steps", None)) is not None:
        share_batch(said, tuned)
        if BATCH not in said and (run := said.get("training.tokens")):
            count = round(units.parse(str(run.value), "tokens") / steps.value / each)
            if 0 < count * each <= get_limit("step"):
                said[BATCH], steps = steps.assume("steps", count, run.value, steps.value), None
        elif BATCH not in said and tuned:
            assume_tuned_batch(said)
    if steps is not None:
        if BATCH not in said:
            usual = terms.get_usual("batch_tokens")
            said[BATCH] = usual._replace(value=max(1, usual.value // each))
        made = steps.value * (step.value if step else said[BATCH].value * each)
        why = f"{terms.ASSUMED * said[BATCH].is_assumed}{steps.value} steps"
        if said.setdefault("training.tokens", Said(made, steps.place, why)).value != made:
            raise ask_for("number", steps.place, "tokens", made)
    if of and of.value < each:
        said |= {terms.EACH: of, **({"training.packed": packed} if packed else {})}
    if text := said.pop("text", None):
        usual = terms.get_usual("text")
        one = usual._replace(value=int(Fraction(text.value) / usual.value), place=text.place)
        said.setdefault("training.tokens", one)
    tokens = said.get("training.tokens")
    count = tokens and units.parse(str(tokens.value), "tokens")
    sure = tuned and length and not length.why
    if tokens and count < get_limit("run") and not sure:
        raise ask_for("run", tokens.place, tokens.value)
    if (times := said.pop("each", None)) is not None:
        size = count_parameters(said)
        if size is None:
            raise ask_for("each", times.place)
        why = f"{times.value} tokens a parameter"
        if tokens and not terms.is_near(str(tokens.value), str(size * times.value), "tokens"):
            raise ask_for("number", times.place, "tokens", size * times.value)
        said.setdefault("training.tokens", Said(size * times.value, times.place, why))
    if tokens and (examples := said.pop(terms.EXAMPLES, None)):
        said.add_note(examples.place, f"{examples.value} examples: not used beside tokens")
    epochs = None if terms.EXAMPLES in said else said.pop(terms.EPOCHS, None)
    if epochs and epochs.value != 1:
        if (tokens := said.get("training.tokens")) is None:
            note = f"{epochs.value} epochs, of how many tokens is not said: not used"
            return said.add_note(epochs.place, note)
        whole = int(units.parse(str(tokens.value), "tokens") * epochs.value)
        why = f"{epochs.value} epochs of {tokens.why.removeprefix(terms.ASSUMED) or tokens.value}"
        why = terms.ASSUMED * tokens.is_assumed + why
        said["training.tokens"] = Said(whole, tokens.place, why)


def is_paired(said: LineValues) -> bool:
    """Decide whether an objective compares pairs, of two sequences, which people count as one."""
    return "training.objective" in said and said["training.objective"].value in source.PAIRED


def assume_tuned_batch(said: LineValues) -> None:
    """Assume the batch of a fine-tuning."""
    values = {"training.objective": "sft"} | {key: one.value for key, one in said.items()}
    batch, why = source.assume_batch(values.get, values.get("cluster.devices") or 1)
    said[BATCH] = terms.assume_value(batch, why)


def share_batch(said: LineValues, tuned: bool) -> None:
    """Convert a batch of each device and its accumulation to that of all devices, which are data
    parallel as far as the text does not split the model; a fine-tuning that accumulates a batch
    that is not given has one sequence at a time."""
    counts = ("training.gradient_accumulation", terms.COUNTS[1], "cluster.devices")
    steps, micro, count = map(said.get, counts)
    keys = [f"parallelism.{key}" for key in terms.DEGREES[1:]]
    split, few = prod(said[key].value for key in keys if key in said), said.get(BATCH)
    alone = tuned or find_data_alone(said)
    if few and alone and not micro and count and few.value * split < count.value:
        said[terms.COUNTS[1]] = said.pop(BATCH).assume("few sequences")
    if not steps or not count or BATCH in said or not (micro or tuned):
        return
    if micro is None:
        micro = said[terms.COUNTS[1]] = terms.get_usual("accumulated")._replace(place=steps.place)
    data, alone = said.get("parallelism.data"), steps.assume("batch of a device", 1)
    if "ring" in said and not data:
        alone = steps.assume("ring", 1)
        said.setdefault(keys[2], alone._replace(value=count.value // max(1, split)))
    if not data:
        split = prod(said.setdefault(key, alone).value for key in keys)
    copies = data.value if data else Fraction(count.value, max(1, split))
    if copies.denominator == 1:
        whole = micro.value * steps.value * copies.numerator
        why = f"{micro.value} sequences, {steps.value} times, {copies} data parallel"
        said[BATCH] = said.pop("training.gradient_accumulation")._replace(value=whole, why=why)


def convert_rate(said: LineValues, adapted: bool, asked: Iterable[str]) -> None:
    """Convert a measured rate, in FLOP or tokens, to a share of the devices' peak; so the device
    hours of a run whose share is asked for.

    Args:
        said: values by key, which this changes.
        adapted: whether adapters are trained, whose rate says nothing of all weights.
        asked: the questions of the text.

    Raises:
        PlanError: it is not known of which model or devices.
    """
    if "mfu" in asked and {"hours", "training.tokens"} <= said.keys():
        hours, whole = said.pop("hours"), said["training.tokens"].value
        seconds = Fraction(hours.value) * 3600
        each = round(units.parse(str(whole), "tokens") / seconds, 1)
        said["token rate"] = said["rate of"] = hours._replace(value=plain_text(each))
        said["time.use"] = hours._replace(value="assumed")
    flop, tokens, of = said.take("flop rate", "token rate", "rate of")
    if (rate := flop or tokens) is None:
        return
    kind, count = said.get("cluster.accelerator"), said.get("cluster.devices")
    size = count_parameters(said)
    if kind is None or count is None or (tokens and (adapted or size is None)):
        raise ask_for("rate", rate.place, rate.value)
    if tokens:
        usual = terms.get_usual("rated length")
        length = pick_length(said["model"].value, usual.value)
        said.setdefault(terms.LENGTH, usual._replace(value=length))
    peaks = load_like("accelerator", kind.value).get("peaks")
    precision = said.read("training.precision", "bf16")
    peak = next(peaks[one] for one in (precision, "bf16", "fp16") if one in peaks)
    whole = units.parse(peak["value"], "FLOP/s") / (2 if peak["convention"] == "sparse" else 1)
    each = Fraction(rate.value) * (10**12 if flop else _count_flop(said, size or 0))
    least = get_limit("least mfu")
    total = tokens and not of and each / count.value / whole >= least
    each /= count.value if total else 1
    shown = f"{rate.value} {'TFLOP/s' if flop else 'tokens/s, attention counted,'}"
    shown += " of each device" if tokens and not of and not total else ""
    share = f"{plain_text(round(each / whole * 100, 1))}%"
    said["time.mfu"] = rate.assume("rate", share, shown, plain_text(whole / 10**12))


def _count_flop(said: LineValues, parameters: int) -> int:
    """Count the FLOP of training on a token: 6 a parameter and 12 a layer for each of the length
    and of the width of its attention (arXiv 2204.02311, appendix B)."""
    known = load_like("model", said["model"].value)
    layers, wide = known.get("layers"), known.get("hidden")
    inside = 12 * layers * wide * said[terms.LENGTH].value if isinstance(layers, int) else 0
    return 6 * parameters + inside


def find_data_alone(said: LineValues) -> Said | None:
    """Find what says that the data alone is split, not the model: FSDP, ZeRO-3, DDP."""
    found, launcher = said.get("data alone") or said.get("parallelism.zero"), said.get("launcher")
    least = 2 if launcher and launcher.value == "deepspeed" else 3
    return found if found and (found.value is True or found.value >= least) else None
