"""What the hardware is worth for one training run: the figures that follow from its choices.

A datasheet lists a peak for each number format; a run uses one of them. Which one follows from
the training precision here, so that formulas see one peak and its convention. Shares of the
hardware's rates that runs sustain are facts too: of the accelerator (``efficiency`` in its
document), or of no accelerator (presets/efficiency).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import prod
from typing import Any

from planner.base import formats, resources, units
from planner.base.errors import PlanError, nearest
from planner.book.quantity import agrees
from planner.documents.references import preset_names
from planner.documents.source import list_prices, name_price
from planner.documents.stacks import KIND, split_stack
from planner.plans.document import STACK, Draft, Plan
from planner.plans.kernels import load_profile

#: By precision recipe: the format of the matmuls, the names of their peak in a datasheet, and the
#: document of presets/formats that their inputs are in.
FORMATS, PEAKS, INPUTS = resources.load_beside(__file__).values()
#: Modules that selective recomputation can recompute (training.recompute_modules).
CORE = "core_attention"
MODULES = (CORE, "mla_up_projection", "norm", "activation", "mlp", "moe")
#: The efficiencies that apply to matmuls of a format; the first that an accelerator has.
SHARES = {"fp8": ("matmul_8bit",), "fp4": ("matmul_4bit", "matmul_8bit")}
#: Matmul efficiencies, and the peak that each is a share of.
PRODUCTS = {"matmul": "peak", "matmul_16": "peak_16"}
#: Efficiencies of a format, else of the accelerator, else of all accelerators.
SHARED = ("memory", "link", "network", "contention", "all_to_all", "exchange_wait",
          "small_dimension", "alignment", "alignment_8", "launch")  # fmt: skip
#: Elementwise kernels take the time of their traffic, which is the implementation's.
AS_FAST = {"value": 1, "rows": "none; of the implementation"}
#: Axes of a torus, which has up to three.
AXES = ("x", "y", "z")
HOST = ("host_link", "host_memory")
#: What a provider's bill depends on, with its unit.
BILL = {"increment": "s", "minimum": "s", "stored": "bytes", "storage_price": "USD/GB/month",
        "sent": "bytes", "egress_price": "USD/GB"}  # fmt: skip
#: Of what is offloaded, what travels beside the passes: with the optimizer the gradients do, unless
#: they stay in one buffer until the update.
TRAVELLING = ("activations", "parameters", "optimizer")

#: A run does not finish whose restart takes so many times the mean time between interruptions: one
#: restart in e**11, 60,000, comes to its end.
MOST_RESTART = 11


def is_narrow(precision: str) -> bool:
    """Return whether a recipe casts the inputs of matmuls to a format of less than 16 bits."""
    return FORMATS[precision] in SHARES


def fill_hardware(draft: Draft) -> None:
    """Complete what follows from precision, implementation and accelerator: the datasheet peak of
    the run's precision, the usual network, the provider's prices, and the efficiencies."""
    accelerator = draft.get("cluster.accelerator")
    precision = draft.get("training.precision")
    wanted = FORMATS[precision]
    logits = ("fp32",) if wanted == "fp32" else ("bf16", "fp16")
    name = INPUTS.get(precision, precision)
    draft.default("training.bytes.input", formats.load_format(name).bytes, f"bytes of {name}")
    names = PEAKS.get(precision, (wanted,))
    for key, name in (*(("peak", each) for each in names), *(("peak_16", each) for each in logits)):
        found = accelerator["peaks"].get(name)
        if found is not None:
            why = f"peaks.{name}, the format of the {'matmuls' if key == 'peak' else 'logits'}"
            draft.default(f"cluster.accelerator.{key}", {"format": name, **found}, why)
    if accelerator.get("network") is not None:
        why = "that of the accelerator's usual systems"
        draft.default("cluster.network", dict(accelerator["network"]), why)
    _fill_link(draft, accelerator)
    # A price is a fact of an accelerator at a provider, so another accelerator has another one.
    _fill_prices(draft, accelerator)
    reach = draft.get("cluster.network") or {}
    if reach.get("sustained") is not None and reach["sustained"] > reach["bandwidth"]:
        wrong = "collectives are faster than the network's bandwidth"
        allowed = "both are per device; nccl-tests print those of a node, in bytes"
        draft.fault("cluster.network.sustained", wrong, allowed)
    rated, idle = accelerator.get("power"), accelerator.get("idle_power")
    if rated is not None and idle is not None and idle > rated:
        message = f"{idle} W idle is more than the device's power of {rated} W"
        draft.fault("cluster.accelerator.idle_power", message, f"at most {rated} W")
    if not needs_mfu(draft):
        _set_efficiency(draft, accelerator)
    else:  # how much kernels perform is not assumed
        block = load_calibration()["assumed"]["attention_block"]
        draft.default("time.efficiency.attention_block", _parse_fact(block), _name_source(block))


def _fill_prices(draft: Draft, accelerator: Mapping[str, Any]) -> None:
    """Complete the prices that the provider asks, and how often it takes spot devices back."""
    provider, purchase = draft.get("cluster.provider"), draft.get("cluster.purchase")
    paid_there, ways = False, {"price": purchase, "reserved_price": "reserved"}
    for key, paid in (ways | ({"on_demand_price": None} if purchase == "spot" else {})).items():
        rows = list_prices(accelerator, paid, draft.get("cluster.term")) if provider else ()
        for row in rows:
            if row["provider"] != provider:
                continue
            why = name_price(row)
            kept = draft.default(f"cluster.{key}", row["price"], why)
            paid_there |= key == "price" and kept == row["price"]
            if row["kind"] == "spot" and draft.get("cluster.failures") is None:
                for name, value in row.get("interruptions", {}).items():
                    draft.default(f"cluster.failures.{name}", value, why)
    bills = resources.load_preset("practice/billing")["providers"]
    _fill_bill(draft, bills.get(provider) if paid_there else None)
    if draft.get("cluster.spot_share") is not None and purchase != "spot":
        wrong = "a share of the run on spot devices, of which none are rented"
        draft.fault("cluster.spot_share", wrong, "cluster.purchase: spot", "cluster.purchase")
    elif draft.get("cluster.spot_share") not in (None, 1) and draft.get("cluster.bill") is not None:
        wrong = "a share of the run on spot devices beside a bill"
        draft.fault("cluster.spot_share", wrong, "cluster.spot_share without cluster.bill")
    if purchase == "spot":
        draft.default("cluster.spot_share", 1, "all of the run")
        if draft.get("cluster.spot_share") == 1:
            draft.default("cluster.on_demand_price", 0, "no part of the run")
    if purchase == "spot" and draft.get("cluster.storage") is None:
        nodes = -(-draft.get("cluster.devices") // draft.get("cluster.devices_per_node"))
        fact = load_calibration()["storage"]
        each = _parse_fact(fact, "bytes/s")
        draft.default("cluster.storage.bandwidth", nodes * each, _name_source(fact))
        draft.default("cluster.storage.blocking", 1, "training waits for a checkpoint")


def _fill_bill(draft: Draft, fact: Mapping[str, str] | None) -> None:
    """Complete how the provider bills, and what it asks for storage and for data sent out. Rounding
    to a minute or less is left out where the plan states no bill."""
    usual = {"increment": "1 s", "minimum": "0 s", "stored": "0 B", "sent": "0 B"}
    known: Mapping[str, str] = {**usual, **(fact or {})}
    coarse = max(units.parse(known[name], "s") for name in ("increment", "minimum")) > 60
    if draft.get("cluster.bill") is None and not coarse:
        return
    why = f"{known['text']}, {known['date']}" if fact else "neither the plan nor a provider says"
    for name, unit in BILL.items():
        if name in known:
            draft.default(f"cluster.bill.{name}", units.parse(known[name], unit), why)
    for amount, price in (("stored", "storage_price"), ("sent", "egress_price")):
        if not draft.get(f"cluster.bill.{amount}"):
            draft.default(f"cluster.bill.{price}", 0, f"nothing is {amount}")


def _fill_link(draft: Draft, accelerator: Mapping[str, Any]) -> None:
    """Complete and check the devices that the link joins (a node or more), the pod, the torus."""
    node = draft.get("cluster.devices_per_node")
    most = (accelerator.get("link") or {}).get("domain")
    joined, why = node, "devices of a node"
    if most is not None and most >= 2 * node:
        joined, why = most // node * node, f"whole nodes of the {most} devices that the link joins"
    draft.default("cluster.link_domain", joined, why)
    given = draft.get("cluster.link_domain")
    if given < node or given > max(joined, node):
        wrong = f"a link of {given} devices, with nodes of {node}"
        draft.fault("cluster.link_domain", wrong, f"from {node} to {joined}")
    network = draft.get("cluster.network")
    if network is not None:
        pod = draft.default("cluster.network.pod", given, "between the domains of the link")
        if pod < given:
            wrong = f"a pod of {pod} devices is smaller than the link's {given}"
            draft.fault("cluster.network.pod", wrong, f"at least {given}")
    axes = (accelerator.get("link") or {}).get("axes")
    if axes is None:
        return
    size = min(given, draft.get("cluster.devices"))
    shape = draft.default("cluster.slice", _even(size, axes), f"{size} devices, divided evenly")
    if len(shape) != axes or prod(shape) != size:
        wrong = f"a torus of {' × '.join(str(side) for side in shape)} devices"
        draft.fault("cluster.slice", wrong, f"{axes} axes of {size} devices in all")
    sides = [*shape, 1, 1]
    for index, axis in enumerate(AXES):
        draft.default(f"cluster.sides.{axis}", sides[index], "of cluster.slice")


def _even(size: int, axes: int) -> list[int]:
    """Divide a torus of so many devices into sides as equal as possible, short ones first."""
    sides = []
    for left in range(axes, 1, -1):
        side = trial = 1
        while trial**left <= size:
            side = trial if size % trial == 0 else side
            trial += 1
        sides.append(side)
        size //= side
    return [*sides, size]


Fact = Mapping[str, Any]


def _set_efficiency(draft: Draft, accelerator: Mapping[str, Any]) -> None:
    """Set the efficiencies of the accelerator: its own, those that runs were fitted to, else
    defaults.

    Raises:
        PlanError: ``efficiency.like`` names no accelerator.
    """
    facts = load_calibration()
    kernels = load_profile(draft.get("training.implementation"))["time"]
    defaults = facts["defaults"]
    try:
        own = _select_held(merge_efficiency(accelerator), draft.get("training.kernels"))
    except PlanError as error:
        place = draft.document.find_place(("cluster", "accelerator", "efficiency", "like"))
        raise PlanError(replace(fault, place=place) for fault in error.faults) from None

    for key, (_, fact, times, why) in find_efficiency(draft).items():
        draft.default(f"time.efficiency.{key}", _parse_fact(fact) * times, _name_source(fact) + why)
    for key in ("launches", "expert_launches"):
        launches = _parse_fact({"value": kernels[key]})
        draft.default(f"time.efficiency.{key}", launches, "of the implementation")
    dispatcher = facts["dispatchers"].get(draft.get("parallelism.dispatcher"), {})
    serving = _find_engine(draft) if draft.get("training.mode") == "inference" else {}
    for key, otherwise in {**facts["assumed"], **dispatcher, **serving}.items():
        default_fact(draft, f"time.efficiency.{key}", own.get(key) or otherwise)
    if accelerator.get("link") is not None:
        for key in ("latency", "switch_latency", "switch_share"):
            fact = defaults["link_latency" if key == "latency" else key]
            default_fact(draft, f"cluster.accelerator.link.{key}", fact)
    for key in HOST:
        rate, why = _parse_fact(defaults[key], "bytes/s"), _name_source(defaults[key])
        way = accelerator.get(key)
        if way is not None:
            share = defaults[f"{key}_share"]
            both = 2 if way["convention"] == "bidirectional" else 1
            rate = way["bandwidth"] * _parse_fact(share) / (both * way["devices"])
            why = f"{_name_source(share)}, of cluster.accelerator.{key}"
        draft.default(f"time.{key}", rate, why)
    draft.default("time.dropout", int(draft.get("training.dropout") > 0), "training.dropout")
    if draft.get("training.lora") is not None:
        dropped = int((draft.get("training.lora.dropout") or 0) > 0)
        draft.default("time.lora_dropout", dropped, "training.lora.dropout")
    reads, until = 1, draft.get("training.kernels")
    dated = kernels["cast_reads"].get(draft.get("training.precision"), {})
    for date, each in dated.items():  # the oldest first, which holds before, too
        reads = each if reads == 1 or until is None or date <= until else reads
    draft.default("time.cast_reads", reads, "of the implementation")
    draft.default("time.rope", int(draft.get("model.positions") == "rope"), "model.positions")


def _find_engine(draft: Draft) -> dict[str, Fact]:
    """Return what a step of decoding costs besides its work, by the keys of ``time.efficiency``:
    as the releases of the engine until the date of the software have it."""
    until = draft.get("training.kernels")
    found = dict(load_calibration()["serving"])
    releases = resources.load_preset("efficiency/engines")[draft.get("training.engine")]
    for release in releases:
        if until is None or release["since"] <= until or release is releases[0]:
            found |= {key: fact for key, fact in release.items() if key != "since"}
    return found


def _adjust_for_date(plan: Draft | Plan, peak: str, fact: Fact) -> tuple[Fact, Any, str]:
    """Return a matmul efficiency, a factor for the date of the software, and the reason: as matmuls
    alone were measured at that date relative to the newest (``products`` of the accelerator). A
    measured efficiency replaces an assumed one."""
    accelerator, until = plan.get("cluster.accelerator"), plan.get("training.kernels")
    listed = accelerator.get(peak)
    if listed is None:
        return fact, 1, ""
    wide = ("bf16", "fp16")
    formats_alike = wide if listed["format"] in wide else (listed["format"].removeprefix("mx"),)
    rows = [row for row in accelerator.get("products") or () if row["format"] in formats_alike]
    if not rows:
        return fact, 1, ""
    newest = held = rows[0]
    for row in rows:
        newest = row if row["date"] >= newest["date"] else newest
        held = row if row["date"] < held["date"] else held
    for row in rows:
        held = row if held["date"] <= row["date"] <= (until or newest["date"]) else held
    said = f"products measured alone with {held.get('software', 'software')}, {held['date']}"
    slower = Fraction(held["rate"], newest["rate"])
    if fact.get("kind") != "assumed":
        return fact, slower, f"; {said}, over the newest" if slower != 1 else ""
    dense = Fraction(listed["value"], 2 if listed["convention"] == "sparse" else 1)
    best = {"value": newest["rate"] / dense, "rows": f"none; {said}", "kind": "measured"}
    return best, slower, ""


def find_efficiency(plan: Draft | Plan) -> dict[str, tuple[str, Fact, Any, str]]:
    """Collect the efficiencies of a run by their keys of ``time.efficiency``. Each has its name in
    the ``efficiency`` of an accelerator; the fact that applies (the accelerator's own, else that of
    all accelerators); a factor for the run's software; and the reason for that factor."""
    wanted, accelerator = FORMATS[plan.get("training.precision")], plan.get("cluster.accelerator")
    facts = load_calibration()
    own = _select_held(merge_efficiency(accelerator), plan.get("training.kernels"))
    rows: list[tuple[str, Sequence[str], Fact]]
    # Kernels outside partial graphs are launched by libraries; eager ones by Python.
    ways = {"launch": "eager"} if plan.get("training.cuda_graphs") == "none" else {}
    rows = [(key, (f"{key}_{ways.get(key, wanted)}", key), facts["shared"][key]) for key in SHARED]
    # A share of one format stands beside that of all: `matmul_fp32` beside `matmul`.
    wide = (accelerator.get("peak_16") or {"format": "bf16"})["format"]
    default = facts["defaults"]["matmul"]
    rows.append(("matmul_16", (f"matmul_{wide}", "matmul"), default))
    rows.append(("matmul", (f"matmul_{wanted}", *SHARES.get(wanted, ()), "matmul"), default))
    kernel = "attention" if _find_kernel(plan, own) == "vendor" else "attention_open"
    rows.append(("attention", (f"{kernel}_{wanted}", kernel), facts["shared"].get(kernel)))
    rows.append(("elementwise", (f"elementwise_{wanted}", "elementwise"), AS_FAST))
    traffic = load_profile(plan.get("training.implementation"))["time"]["elementwise"]
    found = {}
    for key, names, otherwise in rows:
        # One of its own holds for all formats, unless others have shares that it would replace.
        apart = key in PRODUCTS and (len(names) > 2 or accelerator.get("products") is not None)
        name = next((name for name in names if own.get(name)), names[0 if apart else -1])
        fact, times, why = own.get(name) or otherwise, 1, ""
        if key in PRODUCTS:
            fact, times, why = _adjust_for_date(plan, PRODUCTS[key], fact)
        elif key == "elementwise":
            times = _parse_fact({"value": traffic})
        found[key] = (name, fact, times, why)
    return found


def _name_source(fact: Mapping[str, Any]) -> str:
    """Describe where the value of a fact is from: ``calibrated`` on published runs, ``measured`` on
    a machine, ``assumed`` where no run was compared with it, else its source."""
    rows = fact["rows"].removeprefix("none; ")
    kind = fact.get("kind") or ("calibrated" if rows == fact["rows"] else "")
    return f"{kind}: {rows}" if kind else rows


@cache
def load_calibration() -> Mapping[str, Any]:
    """Return the efficiencies that belong to no accelerator, and the defaults."""
    facts: Mapping[str, Any] = resources.load_preset("efficiency/training")
    return facts


def merge_efficiency(accelerator: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an accelerator's own efficiencies over those of the preset that it is ``like``."""
    own: Mapping[str, Any] = accelerator.get("efficiency") or {}
    while "like" in own:
        like = _load_efficiency(own["like"])
        own = {**like, **{key: fact for key, fact in own.items() if key != "like"}}
    return own


def _select_held(own: Mapping[str, Fact], until: str | None) -> Mapping[str, Fact]:
    """Return the efficiencies of software that existed at a date; all of them without a date."""
    return {
        key: fact for key, fact in own.items() if until is None or fact.get("since", "") <= until
    }


@cache
def _load_efficiency(name: str) -> Mapping[str, Any]:
    """Return the efficiencies of a built-in accelerator; raise a PlanError for an unknown name."""
    names = preset_names("accelerator")
    if name not in names:
        fault = f"efficiency.like: unknown accelerator '{name}'"
        raise PlanError(fault, None, "see plan.py list accelerators", nearest(name, names))
    return resources.load_preset(f"accelerators/{name}").get("efficiency") or {}


def default_fact(draft: Draft, key: str, fact: Fact, unit: str = "s") -> None:
    """Fill in a key that is not given with the value of a fact, and its source as the reason.

    Args:
        draft: the plan being completed.
        key: the dotted key.
        fact: a row of presets/efficiency.
        unit: of the key.
    """
    draft.default(key, _parse_fact(fact, unit), _name_source(fact))


def _parse_fact(fact: Mapping[str, Any], unit: str = "s") -> Any:
    """Parse the value of a fact exactly: 0.92, or `26 us`."""
    return units.parse(fact["value"], unit)


def _find_kernel(draft: Draft | Plan, own: Mapping[str, Any]) -> str:
    """Return whose fused attention kernel runs: the vendor's, an open one, or unknown."""
    kernels = load_profile(draft.get("training.implementation"))["time"]
    if kernels["attention"] == "vendor" and "attention" in own:
        return "vendor"
    accelerator = draft.get("cluster.accelerator")
    known = accelerator.get("multiprocessors") and accelerator.get("clock")
    # The instructions that open kernels issue are those of one vendor's generations.
    theirs = accelerator.get("vendor", "NVIDIA") == "NVIDIA"
    return "open" if known and theirs else "unknown"


def needs_mfu(draft: Draft | Plan) -> bool:
    """Return whether times are computed from the utilisation that a plan gives (``time.mfu``): if
    the plan asks for it (``time.use``), or if a fact that a prediction needs is missing. Otherwise
    the prediction is the answer, and the assumption only a note."""
    if draft.get("time.mfu") is None:
        return False
    return draft.get("time.use") == "assumed" or not _is_predictable(draft)


def _is_predictable(draft: Draft | Plan) -> bool:
    """Return whether a plan has every fact that its predicted time needs."""
    cluster, training = draft.get("cluster"), draft.get("training")
    accelerator, network = cluster["accelerator"], cluster.get("network") or {}
    devices, node = cluster["devices"], cluster["link_domain"]
    return (
        "layers" in draft.get("model")
        and None not in [training.get(key) for key in ("sequence_length", "global_batch")]
        and accelerator.get("peak") is not None
        and (min(devices, node) == 1 or accelerator.get("link") is not None)
        and (devices <= node or None not in [network.get(key) for key in ("bandwidth", "latency")])
    )


def pick_settings(draft: Draft) -> dict[str, Any]:
    """Collect the settings that select formulas of time and energy."""
    cluster, training = draft.get("cluster"), draft.get("training")
    assumed = needs_mfu(draft)
    failures = cluster.get("failures")
    # Whether interruptions were seen, and whether a run that has them comes to its end.
    interrupted = finishes = True
    if failures is not None:
        restarts = (draft.get("time.restart") or 0) * failures["count"] * cluster["devices"]
        interrupted = failures["count"] > 0
        finishes = restarts <= MOST_RESTART * failures["period"] * failures["devices"]
    # What selective recomputation computes again, and whether it does so in some layers only.
    rules = load_profile(training["implementation"])
    modules = training.get("recompute_modules") or ()
    core = training["attention"] == "eager" or rules["time"]["fused_core"] == "again"
    found = {
        "time.assumed": assumed,
        "time.offload": any(
            training["offload"][key]
            for key in TRAVELLING
            if key != "optimizer" or rules["gradients"] != "persistent"
        ),
        "time.host_update": training["offload"]["optimizer"] > 0,
        "memory.host_stated": _states_host(draft),
        "time.stragglers_given": cluster.get("stragglers") is not None,
        "run.interrupted": interrupted,
        "run.finishes": finishes,
        "network.measured": (cluster.get("network") or {}).get("sustained") is not None,
        "cost.billed": cluster.get("bill") is not None,
        "cost.spot": cluster.get("purchase") == "spot",
        "energy.hosts_given": cluster.get("host_power") is not None,
        "energy.pue_given": cluster.get("pue") is not None,
        "time.again.operations": bool(rules.get("selective")),
        "time.again.some": training.get("recompute_layers") is not None,
        **{f"time.again.{key}": key in modules and (core or key != CORE) for key in MODULES},
    }
    return found if assumed else {**found, **_predict_settings(draft)}


def _states_host(draft: Draft) -> bool:
    """Decide whether the plan states the memory of a host and fills it by a known amount."""
    shaped = "layers" in draft.get("model") and draft.get("training.sequence_length") is not None
    stated = draft.get("cluster.node_memory") is not None
    return stated and shaped and draft.get("training.mode") == "train"


def _find_unstated(draft: Draft) -> str:
    """Return what a plan leaves open of the software that it gets by default: the framework, or
    its release too; empty where it names the software."""
    if draft.document.find_origin(("training", "stack")).kind != KIND:
        return ""
    return "framework and release" if draft.get("training.kernels") is None else "framework"


def _predict_settings(draft: Draft) -> dict[str, Any]:
    """Return the settings of predicted time: where each group of ranks lies, what overlaps, which
    kernels run."""
    layout, training = draft.get("parallelism"), draft.get("training")
    accelerator = draft.get("cluster.accelerator")
    node = draft.get("cluster.link_domain")
    inner = layout["tensor"] * layout["context"]
    devices = draft.get("cluster.devices")
    kernels = load_profile(training["implementation"])["time"]

    def span(size: int, reach: int) -> str:
        """Return whether a group whose ranks spread over ``reach`` devices leaves a node."""
        return "none" if size == 1 else "node" if reach <= node else "nodes"

    replicas = layout["replicate"]
    shards = layout["data"] * layout["context"] // replicas
    overlapped = bool(layout.get("tensor_overlap"))
    experts = layout["expert"] * layout["expert_tensor"]
    systolic = accelerator.get("matrix_unit")
    wide = training["bytes"]["weight"] > training["bytes"]["compute"]
    base = draft.get("training.lora.base")
    facts = {"base": base, "prepared": draft.get("training.lora.prepared"), "wide": wide}
    facts |= {"precision": training["precision"], "zero": layout["zero"]}
    ways = (
        row["way"]
        for row in kernels["adapters"]
        if all(agrees(facts[key], wanted) for key, wanted in row["when"].items())
    )
    month = draft.get("training.kernels") or split_stack(draft.get(STACK) or "")[1]
    branches = base in ("nf4", "nf4-double") and month < kernels["branches"]
    branches = branches and None not in map(accelerator.get, ("multiprocessors", "clock"))
    return {
        # Decides what published runs a plan is like, not its formulas.
        "time.scale": "node" if devices <= node else "nodes",
        "time.unstated": _find_unstated(draft),
        "time.tensor": span(layout["tensor"], layout["tensor"]),
        "time.switched": bool((accelerator.get("link") or {}).get("switch_reduces")),
        "time.torus": (accelerator.get("link") or {}).get("axes") is not None,
        "time.expert": span(layout["expert"], experts),
        "time.expert_tensor": span(layout["expert_tensor"], layout["expert_tensor"]),
        "time.gathering": span(experts, experts),
        "time.experts_beside": layout["expert"] > 1 and layout["expert_overlap"],
        "time.pipeline": span(layout["pipeline"], devices),
        "time.shards": span(shards, shards * layout["tensor"]),
        "time.context": span(layout["context"], inner),
        # Replicas lie as far apart as each of them reaches.
        "time.replicas": span(replicas, replicas * shards * layout["tensor"]),
        "time.tiles": systolic is None and accelerator.get("multiprocessors") is not None,
        "time.systolic": systolic is not None,
        "time.casts": is_narrow(training["precision"]),
        "time.attention": _find_kernel(draft, merge_efficiency(accelerator)),
        "time.accumulation": kernels["accumulation"],
        "time.buckets": kernels["buckets"],
        "time.bias": kernels["bias"],
        "time.adapters": next(ways, "plain"),
        "time.unpack": "branches" if branches else "traffic",
        "time.tensor_overlap": overlapped,
        "time.inputs_again": kernels["inputs"] == "part" and not overlapped,
    }
