"""The model that a name, a family, a size, a shape or experts mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import log
from typing import Any

from planner.base import resources, units
from planner.base.numbers import exact_text
from planner.documents import aliases, references
from planner.documents.quick import terms
from planner.documents.quick.terms import LineValues, Said, ask_for, is_near, list_words, load_like


def choose_teacher(said: LineValues) -> None:
    """Choose the teacher that a size means, of the student's family; and the family of a student
    of which only the size is given, which is the teacher's."""
    size, family = said.pop("teacher size", None), said.pop("teacher family", None)
    teacher = _choose_member(family, size, False) if family else said.get("training.teacher")
    if family and teacher:
        said["training.teacher"] = teacher
    if teacher and "size" in said and not {"model", "family"} & {*said}:
        said["family"] = teacher._replace(value=teacher.value.split("-")[0])
    _choose_model(said)
    if size and not teacher and "model" in said:
        own = said["model"].value if isinstance(said["model"].value, str) else ""
        family = size._replace(value=own.split("-")[0])
        known = family.value in list_families()
        if (teacher := _choose_member(family, size, False) if known else None) is None:
            raise ask_for("teacher", size.place, size.value)
        said["training.teacher"] = teacher.assume("teacher")


def _choose_model(said: LineValues) -> None:
    """Choose the model that a name, a family, a size or several of them mean.

    Raises:
        PlanError: they mean several models, or none that is built in.
    """
    if (shape := _build_shape(said)) is not None:
        said["model"] = shape
    keys = ("size", "family", "model name", "active", "experts", "trait")
    size, family, named, active, experts, trait = said.take(*keys)
    routed, chosen = said.take("routed", "top k")
    given, copies, gated = size is not None, said.pop("copies", None), False
    if copies and "model" in said:
        moe = load_like("model", said["model"].value).get("moe") or {}
        size = None if moe.get("experts") == copies.value else size
    divided = said.get("parallelism.expert")
    if divided and divided.value != 1 and not family and "model" not in said:
        experts = experts or divided  # which no dense model has
    if family is not None:
        if "model" in said and said["model"].value in list_families()[family.value]:
            family = None
        elif (member := _choose_member(family, size, bool(experts or active))) is not None:
            said["model"], size = member, None
            if named and not terms.is_harmless(named.value.lower()):
                said.add_note(named.place, f"{named.value}: not understood, and left out")
        elif family.value not in list_words("plain_families"):
            named = family
        gated = family is not None and family.value in list_words("gated_families")
    if size is not None and "model" in said and not said["model"].why:
        sizes = find_sizes(said["model"].value)
        about = [is_near(own, size.value, limit="ratio") for own in sizes[:1]]
        if not any((*about, *(is_near(own, size.value) for own in sizes))):
            others = tuple(list_words("other_families"))
            if str(said["model"].value).startswith(others):
                raise ask_for("second", size.place, size.value)
            _take_as_tokens(said, size, float(sizes[0]) if sizes else 0)
        elif not any(is_near(own, size.value) for own in sizes):
            own = terms.format_size(int(sizes[0]))
            said.add_note(size.place, f"{size.value}: {said['model'].value} has {own}")
    elif size is not None:
        some = (experts or active) and not copies
        shape = _choose_experts(size, active) if some else choose_shape(size, said, gated)
        if routed and chosen and not copies:
            shape, routed, chosen = _divide_experts(shape, size, routed, chosen), None, None
        like = terms.as_mapping(shape.value)
        shown = f"{copies.value}x{size.value}" if copies else size.value
        if copies:
            like["moe"] = {"experts": copies.value, "top_k": 2}
            shape = shape._replace(why=f"{shape.why}; {copies.value} experts, 2 for each token")
            each, unit = Fraction(size.value[:-1]), size.value[-1]
            active = size._replace(value=f"{2 * each}{unit}")
            size = size._replace(value=f"{copies.value * each}{unit}")
        name, why = "", shape.why.removeprefix(terms.ASSUMED) or "its size alone"
        if named:
            name, known = f"{named.value} ", named.value in list_families()
            absent = f"no {named.value} of {size.value} is" if known else f"{named.value} is not"
            why = f"{absent} built in; {why}"
        if named or "layers" in like or "moe" in like:
            like["name"] = f"{name}{shown} (shape: {like.get('extends', 'unknown')})"
            shape = shape._replace(value=like, why=terms.ASSUMED + why)
        said["model"] = shape
        said["sized"] = size
        said |= {"used": active} if active else {}
    if vocab := said.pop("shape.vocab", None):
        like = terms.as_mapping(said["model"].value) | {"vocab": vocab.value}
        said["model"] = said["model"]._replace(value=like)
    if (routed or chosen) and "model" in said:
        like = terms.as_mapping(said["model"].value)
        layer = load_like("model", like).data.get("moe", {})
        counts = {key: one for key, one in (("experts", routed), ("top_k", chosen)) if one}
        if routed and "hidden" in like and not layer:  # a shape of its own
            layer = {"top_k": 2, **{key: one.value for key, one in counts.items()}}
            said["model"] = said["model"]._replace(value={**like, "moe": layer})
            said.pop("sized", None)
        for key, one in counts.items():
            if layer.get(key) != one.value:
                said.add_note(one.place, f"{key} {one.value}: not used; that of the model is")
    alone = "" if given else str(said.read("model", ""))
    chosen_size = re.search(r"\d[bm]\b", alone)
    if trait and alone and not chosen_size and trait.value not in re.split(r"[-.\d]", alone):
        raise ask_for("trait", trait.place, trait.value, alone)
    if (active or experts) and "model" in said and not said["model"].why:
        sizes = find_sizes(said["model"].value)
        if len({*sizes}) < 2 or (active and not is_near(sizes[1], active.value, limit="ratio")):
            raise ask_for("experts", (active or experts).place)  # type: ignore[union-attr]


@cache
def _load_sizes() -> Mapping[str, Any]:
    """Return title, parameters, those that a token uses, and context of the built-in models."""
    found = resources.read_json(resources.folder("presets") / "aliases" / "sizes.json")
    assert isinstance(found, dict)
    return found


def find_sizes(model: Any) -> tuple[str, ...]:
    """Return all parameters of a built-in model and those that a token uses; empty for others."""
    if isinstance(model, dict) and "layers" not in model:
        model = model.get("extends")
    found = _load_sizes().get(model) if isinstance(model, str) else None
    return tuple(map(str, found[1:3])) if found else ()


def count_parameters(said: LineValues) -> int | None:
    """Count the parameters of which a token makes use; None where they are unknown."""
    sizes = find_sizes(said["model"].value)
    if "sized" in said and len({*sizes}) < 2:
        return int(units.parse(said.get("used", said["sized"]).value, "parameters"))
    return int(sizes[1]) if sizes else None


@cache
def list_families() -> Mapping[str, tuple[str, ...]]:
    """Map families to their built-in models: beginnings of names, with a version and without."""
    families: dict[str, list[str]] = {}
    for name in _load_sizes():
        parts = name.split("-")
        begins = ["-".join(parts[: i + 1]) for i in range(len(parts) - 1)] or [name]
        for family in {re.sub(r"(?<=[a-z])[\d.]+$", "", parts[0]), *begins}:
            families.setdefault(family, []).append(name)
    for name in {*families} & {*_load_sizes()}:  # of whose name others are longer forms
        families[name].append(name)
    unusable = list_words("words_not_families")
    return {one: tuple(names) for one, names in families.items() if one not in unusable}


def _choose_member(family: Said, size: Said | None, experts: bool) -> Said | None:
    """Choose the model of a family that has a size, one with ``experts`` where the text has them,
    the newest where several have it; None where a shape of this size stands for it.

    Raises:
        PlanError: the family has several models and the size is not given, or none of this size
            and other parts than a decoder of text.
    """
    names = list_families()[family.value]
    if size is None:
        known = aliases.find_preset("model", family.value, references.preset_names("model"))
        if usual := terms.load_phrases()["usual members"].get(family.value):
            return family.assume("usual member", usual, family.value, ", ".join(names[:4]))
        if known is None and len(names) > 1:
            raise ask_for("family", family.place, family.value, ", ".join(names[:8]))
        only = family._replace(value=known or names[0])
        return only if known else only.assume("only one")
    spelt = [one for one in names if f"-{size.value.lower()}" in f"{one}-"]
    near = [one for one in names if is_near(find_sizes(one)[0], size.value, limit="shape")]
    near = spelt or near
    near = [one for one in near if not experts or len({*find_sizes(one)}) > 1]
    near = [one for one in near if experts or "moe" not in one.split("-")]
    stood_for = family.value in list_words("stood for")
    if not near and (stood_for or family.value not in list_words("other_families")):
        return None
    if not near:
        wanted = f"{family.value} of {size.value}"
        raise ask_for("family", size.place, wanted, ", ".join(names[:8]))
    newest = max(map(_read_version, near))
    near = [one for one in near if _read_version(one) == newest]
    near.sort(key=lambda one: one.count("-"))  # a text model before one with images
    if len(near) > 1 and near[0].count("-") == near[1].count("-"):
        if family.value in list_words("plain_families"):
            return None
        raise ask_for("family", family.place, f"{family.value} {size.value}", ", ".join(near))
    alone = newest == () or bool(re.search(r"\d", family.value))
    own, *used = (terms.format_size(int(one)) for one in find_sizes(near[0]))
    if used and used[0] != own and not (spelt or experts):  # which nobody says
        alone, own = False, f"{own}, with experts: {used[0]} of a token"
    why = "" if alone else f"{terms.ASSUMED}the newest {family.value} of {size.value}, of {own}"
    return Said(near[0], family.place, why)


def _read_version(name: str) -> tuple[int, ...]:
    """Read the version in the name of a model; empty where it has none."""
    found = re.match(r"[a-z]+-?v?(\d+(?:\.\d+)?)(?![\d.bmx])", name)
    return tuple(map(int, found[1].split("."))) if found else ()


def choose_shape(size: Said, said: LineValues, gated: bool = False) -> Said:
    """Choose the published dense model that reads the length, whose heads can be split, and whose
    shape a size gets: with more or fewer layers where it is not near, of another width where its
    layers are given or its vocabulary alone is larger; the size alone where all are much smaller
    or larger.

    Args:
        size: the number of parameters.
        said: values by key, of which this takes the vocabulary.
        gated: whether the feed-forward has to be gated.
    """
    wanted, names = units.parse(size.value, "parameters"), list_words("shapes")
    keys = (terms.LENGTH, "rl.response_tokens", "shape.layers")
    *lengths, deep = (said.read(key, 0) for key in keys)
    length = max(lengths)
    split = said.read("parallelism.tensor", 1)
    ratios = {name: _load_sizes()[name][1] / wanted for name in names}
    near = sorted(names, key=lambda one: max(ratios[one], 1 / ratios[one]))
    shapes = ((one, resources.load_preset(f"models/{one}")) for one in near)
    fitting = (
        one
        for one, shape in shapes
        if (_load_sizes()[one][3] or length) >= length or shape.get("positions") != "learned"
        if shape["attention"]["heads"] % split == 0
        if not gated or shape.get("mlp", {}).get("gated")
    )
    name = next(fitting, near[0])
    many = _load_sizes()[name][1]
    shown = terms.format_size(many)
    why = f"{terms.SHAPE}: the published dense model nearest to {size.value}, of {shown}"
    vocab = said.pop("shape.vocab", None)
    if is_near(exact_text(many), size.value, limit="shape") and not (deep or vocab):
        return Said(name, size.place, why)
    model = load_like("model", name).data
    word = model["hidden"] * (1 if model.get("tied_embeddings") else 2)
    inner = (many - word * model["vocab"]) / model["layers"]
    own = {"vocab": vocab.value} if vocab else {}
    ends = word * own.get("vocab", model["vocab"])
    layers, step = deep or round((wanted - ends) / inner), 2 * model["attention"]["heads"]
    if deep or layers < 1:  # ends grow with the width, layers with its square
        layers = deep or model["layers"]
        root = ((ends**2 + 4 * layers * inner * wanted) ** 0.5 - ends) / (2 * layers * inner)
        wide = round(root * model["hidden"] / step) * step
        factor = wide / model["hidden"]
        if wide < 4 * step:
            return Said({"parameters": size.value}, size.place)
        why += f", with {layers} layers of {wide}, not {model['layers']} of {model['hidden']}"
        like = {"extends": name, "layers": layers, "hidden": wide, **own}
        if inside := model.get("mlp", {}).get("intermediate"):
            like |= {"mlp": {"intermediate": max(1, round(inside * factor / 64)) * 64}}
        return Said(like, size.place, why)
    if max(ratios[name], 1 / ratios[name]) > terms.get_limit("scaled"):
        return Said({"parameters": size.value}, size.place)
    why += f", with {layers} layers in place of {model['layers']}"
    return Said({"extends": name, "layers": layers, **own}, size.place, why)


def _build_shape(said: LineValues) -> Said | None:
    """Build a model of the widths and layers that a text gives; None where it gives none.

    Raises:
        PlanError: some of them are missing, or there is a name or a size beside them.
    """
    keys, family = [key for key in said if key.startswith("shape.")], said.get("family")
    if keys and family and family.value in list_words("plain_families"):
        del said["family"]
    like = ""
    if {"shape.layers", "shape.hidden"} <= {*keys}:
        own, of = said.pop("model", None), said.pop("family", None)
        like = own.value if own else list_families()[of.value][0] if of else ""
    named = {*terms.NAMED, "experts", "active"} & {*said}
    if not keys or ("shape.hidden" not in keys and named):
        for key in {*keys} - {"shape.vocab", *(["shape.layers"] if named == {"size"} else [])}:
            note = f"{key.removeprefix('shape.')} {said[key].value}: not used beside a model's name"
            said.add_note(said.pop(key).place, note)
        return None
    given = {key: said.pop(key) for key in keys}
    place = next(iter(given.values())).place
    if not {"shape.layers", "shape.hidden"} <= {*given} or {*terms.NAMED} - {"size"} & {*said}:
        raise ask_for("shape", place)
    sizes = {key.removeprefix("shape."): one.value for key, one in given.items()}
    name, why = terms.load_phrases()["assumptions"]["shape"]
    name, hidden = like or name, sizes["hidden"]
    base = load_like("model", name).data
    usual = isinstance(base["layers"], int) and "mlp" in base and "moe" not in base
    if not usual or not hidden or not sizes["layers"]:
        raise ask_for("shape", place)
    attention = {"heads": sizes.get("heads", max(1, hidden // 128))}
    attention |= {"kv_heads": sizes["kv_heads"]} if "kv_heads" in sizes else {}
    gated = base["mlp"].get("gated")
    wide = sizes.get("intermediate", max(1, round(hidden * (8 / 3 if gated else 4) / 256)) * 256)
    shared = attention.get("kv_heads", attention["heads"]) / attention["heads"]
    vocab, matrices = sizes.get("vocab", base["vocab"]), 3 if gated else 2
    ends = (1 if base.get("tied_embeddings") else 2) * vocab * hidden
    blocks, inner = sizes["layers"] * hidden, (2 + 2 * shared) * hidden
    whole = ends + blocks * (inner + matrices * wide)
    if size := said.pop("size", None):  # what it leaves of the layers is the feed-forward's
        said["sized"] = size
        wanted = float(units.parse(size.value, "parameters"))
        if "intermediate" in sizes:
            several = {count: ends + blocks * (inner + count * wide) for count in (2, 3)}
            matrices = min(several, key=lambda count: abs(several[count] - wanted))
            whole = several[matrices]
        fills = round(((wanted - ends) / blocks - inner) / matrices / 64) * 64
        if hidden <= fills <= 8 * hidden and "intermediate" not in sizes:
            why, wide = f"{why}; the feed-forward fills {size.value}", fills
        elif is_near(size.value, str(whole), limit="ratio"):
            if not is_near(size.value, str(whole)):
                said.add_note(size.place, f"{size.value}: not used beside layers and widths")
            del said["sized"]
        else:
            _take_as_tokens(said, said.pop("sized"), whole)
            size = None
    said.setdefault("sized", Said(exact_text(int(whole)), place))
    model = {"extends": name, "layers": sizes["layers"], "hidden": hidden, "attention": attention}
    other = {} if bool(gated) == (matrices == 3) else {"gated": matrices == 3}
    mlp = {"intermediate": wide, **other}
    model |= {"mlp": mlp} | {k: v for k, v in sizes.items() if k == "vocab"}
    beside = f"{size.value} in " if size else ""
    model["name"] = f"{beside}{sizes['layers']} layers of {hidden} (shape: {name})"
    return Said(model, place, terms.ASSUMED + why)


def _take_as_tokens(said: LineValues, size: Said, parameters: float) -> None:
    """Take a size beside a model of another as the tokens, where it is that many times larger and
    no others are given.

    Raises:
        PlanError: it may be a second model.
    """
    many = float(units.parse(size.value, "parameters")) / (parameters or float("inf"))
    if "training.tokens" in said or many < terms.get_limit("data"):
        raise ask_for("second", size.place, size.value)
    said["training.tokens"] = size.assume("tokens alone", None, size.value)


def _choose_experts(size: Said, active: Said | None) -> Said:
    """Choose the built-in model with experts that is nearest to a size, in all parameters and in
    those that a token uses; with other layers and experts where it is not near.

    Raises:
        PlanError: all are much smaller or larger.
    """
    wanted, used = (units.parse(one.value, "parameters") if one else 0 for one in (size, active))
    factors = {
        name: (float(wanted / total), float(used / own if active else wanted / total))
        for name, (_, total, own, _) in _load_sizes().items()
        if own < total
    }
    limits = terms.load_phrases()["limits"]
    for name in sorted(factors, key=lambda one: sum(abs(log(factor)) for factor in factors[one])):
        whole, deep = factors[name]
        shown = [terms.format_size(one) for one in _load_sizes()[name][1:3]]
        why = f"{terms.ASSUMED}the built-in model with experts nearest to it: "
        why += f"{' with '.join(shown)} active"
        if all(1 / limits["ratio"] <= factor <= limits["ratio"] for factor in factors[name]):
            return Said(name, size.place, why)
        model = load_like("model", name).data
        experts = model.get("moe", {}).get("experts", 0) * whole / deep
        experts = 8 * round(experts / 8) or round(experts)  # which devices can share
        if isinstance(model.get("layers"), int) and experts >= model["moe"].get("top_k", 1):
            if max(deep, 1 / deep) > limits["scaled"]:
                break
            layers = max(1, round(model["layers"] * deep))
            why += f", with {layers} layers and {experts} experts"
            like = {"extends": name, "layers": layers, "moe": {"experts": experts}}
            return Said(like, size.place, why)
    shape = choose_shape(active, LineValues()) if active and used < wanted else None
    if shape is None or "parameters" in shape.value:
        raise ask_for("experts", size.place)
    like = terms.as_mapping(shape.value)
    model = load_like("model", like).data
    wide = model["mlp"].get("intermediate", 4 * model["hidden"])
    inside = model["layers"] * model["hidden"] * wide
    experts = round(float(1 + (wanted - used) / (inside * (3 if model["mlp"].get("gated") else 2))))
    why = f"{shape.why}, its feed-forward {experts} times as experts, one for each token"
    like |= {"layers": model["layers"], "moe": {"experts": experts, "top_k": 1}}
    return Said(like, size.place, why)


def _divide_experts(shape: Said, size: Said, routed: Said, chosen: Said) -> Said:
    """Divide a model with experts into so many of them, none of which is shared, as wide as leaves
    it its size; the shape as it is where it has so many, has none or is smaller without them."""
    like = terms.as_mapping(shape.value)
    model = load_like("model", like["extends"]).data
    own, (total, least) = model.get("moe"), map(float, find_sizes(like["extends"]))
    if not own or total == least or not isinstance(model["layers"], int):
        return shape
    same = (own["experts"], own.get("top_k", 1)) == (routed.value, chosen.value)
    if same and like != shape.value:
        return shape
    scale = like.get("layers", model["layers"]) / model["layers"]
    each = (total - least) / (own["experts"] - own.get("top_k", 1))
    rest = total - (own["experts"] + own.get("shared_experts", 0)) * each
    wanted = float(units.parse(size.value, "parameters")) / scale - rest
    inside = own.get("intermediate") or model["mlp"]["intermediate"]
    wide = round(inside * wanted / routed.value / each / 64) * 64
    moe = {"experts": routed.value, "top_k": chosen.value, "intermediate": wide}
    moe |= {"shared_experts": 0} if own.get("shared_experts") else {}
    why = f"{shape.why}; {routed.value} experts of width {wide}, as the text has them"
    return Said({**like, "moe": moe}, size.place, why) if wide > 0 else shape


def find_longest(model: Any) -> int:
    """Find the longest sequence of a built-in model or one like it, 0 where it is unknown."""
    known = {} if "parameters" in terms.as_mapping(model) else load_like("model", model).data
    return known.get("max_sequence") or 0


def pick_length(model: Any, usual: int = terms.USUAL_SEQUENCE) -> int:
    """Return the default sequence length of a model: the longest that it reads, at most the
    usual one."""
    return min(find_longest(model) or usual, usual)
