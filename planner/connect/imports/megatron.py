"""From a Megatron-LM argument list to a model document."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from planner.base.errors import Fault, Place, PlanError, nearest

FLAGS = {
    "group-query-attention",
    "swiglu",
    "disable-bias-linear",
    "add-qkv-bias",
    "squared-relu",
    "untie-embeddings-and-output-weights",
    "use-rotary-position-embeddings",
    "qk-layernorm",
    "no-position-embedding",
    "multi-latent-attention",
    "moe-shared-expert-gate",
    "openai-gelu",
    "apply-layernorm-1p",
}
NUMBERS = {
    "num-layers",
    "hidden-size",
    "ffn-hidden-size",
    "num-attention-heads",
    "num-query-groups",
    "kv-channels",
    "max-position-embeddings",
    "vocab-size",
    "padded-vocab-size",
    "make-vocab-size-divisible-by",
    "num-experts",
    "moe-router-topk",
    "moe-router-num-groups",
    "moe-router-group-topk",
    "moe-ffn-hidden-size",
    "moe-shared-expert-intermediate-size",
    "mtp-num-layers",
    "q-lora-rank",
    "kv-lora-rank",
    "qk-head-dim",
    "qk-pos-emb-head-dim",
    "v-head-dim",
    "tensor-model-parallel-size",
    "seq-length",
}
WORDS = {"normalization", "position-embedding-type", "moe-layer-freq"}
#: Arguments about numerics and routing that no weight depends on, though they sound like it.
HARMLESS = re.compile(
    r"eps$|epsilon|dropout|^moe-(router-(?!topk$)|token|aux|z-loss|grouped|permute|pad|layer-recomp"
    r"|use|per-layer-logging|input-jitter|enable)|loss|^rotary-(base|percent|scaling|inter|seq)"
    r"|^recompute|^no-persist|^(no-)?masked-softmax|^no-(bias|rope)-|attention-(softmax|backend)"
    r"|^use-(flash|fused|checkpoint|distributed|mcore|cpu|torch)|^log-|^bias-|fusion|^init-|^rope-"
    r"|parallel|^exit|^decoder-(first|last)-pipeline|^num-(workers|distributed|virtual|nodes|gpus)"
    r"|^num-layers-per-virtual|^mscale|^cross-entropy|^(no-)?create-attention|^transformer-impl"
    r"|^enable-experimental|^overlap|^ckpt|^clip|^attention-(dropout|softmax)|^hidden-dropout"
)
SHAPED = re.compile(
    r"layer|hidden|head|expert|moe|mamba|hybrid|norm|embed|bias|lora|latent|mtp|window|attention"
    r"|vocab|ffn|encoder|decoder|swiglu|gelu|relu|spec$|conv|sink"
)


LONGEST = 200_000  # characters of an argument list


def parse(text: str, place: Place | None = None) -> dict[str, Any]:
    """The arguments of a shell line, a script's array or a file with one on each line."""
    if len(text) > LONGEST:
        allowed = f"at most {LONGEST:,} characters"
        raise PlanError(Fault("too long for an argument list", place, allowed))
    lines = [
        line.split("#", 1)[0] if line.lstrip().startswith("#") else line
        for line in text.replace("\\\n", " ").splitlines()
    ]
    try:
        words = shlex.split(" ".join(lines), comments=False)
    except ValueError as error:
        raise PlanError(Fault(f"not an argument list: {error}", place)) from None
    found: dict[str, Any] = {}
    name = None
    for word in words:
        if re.match(r"--[a-z]", word):
            name, equals, value = word[2:].partition("=")
            name = name.replace("_", "-")
            found[name] = value if equals else True
        elif name is not None:
            found[name] = word if found[name] is True else f"{found[name]} {word}"
    if not found:
        raise PlanError(Fault("no argument of the form --num-layers 32 in it", place))
    return found


class Arguments:
    """Typed access to the arguments, and faults that name them."""

    def __init__(self, found: dict[str, Any], place: Place | None) -> None:
        self.found, self.place = found, place

    def fault(self, message: str, allowed: str | None = None) -> PlanError:
        return PlanError(Fault(message, self.place, allowed))

    def number(self, name: str, otherwise: int | None = None) -> int | None:
        value = self.found.get(name)
        if value is None:
            return otherwise
        if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,15}", value) or int(value) < 1:
            raise self.fault(f"--{name} is {value!r}", "a whole number, at least 1")
        return int(value)

    def need(self, name: str) -> int:
        value = self.number(name)
        if value is None:
            raise self.fault(f"there is no argument --{name}")
        return value

    def flag(self, name: str) -> bool:
        value = self.found.get(name, False)
        if value not in (True, False):
            raise self.fault(f"--{name} takes no value, not {value!r}")
        return bool(value)

    def word(self, name: str, otherwise: str, allowed: Sequence[str]) -> str:
        value = str(self.found.get(name, otherwise))
        if value not in allowed:
            raise self.fault(f"--{name} is {value!r}, which is not modelled", ", ".join(allowed))
        return value


def convert(found: dict[str, Any], place: Place | None = None) -> dict[str, Any]:
    """The model document of parsed arguments.

    Raises:
        PlanError: an argument is missing, malformed or changes the architecture unmodelled.
    """
    known = FLAGS | NUMBERS | WORDS
    for name, value in found.items():
        if name in known or HARMLESS.search(name) or not SHAPED.search(name) or value == "0":
            continue
        raise PlanError(
            Fault(
                f"--{name} could change the architecture and is not modelled",
                place,
                None,
                nearest(name, known),
            )
        )
    it = Arguments(found, place)
    rmsnorm = it.word("normalization", "LayerNorm", ("LayerNorm", "RMSNorm")) == "RMSNorm"
    document: dict[str, Any] = {
        "layers": it.need("num-layers"),
        "hidden": it.need("hidden-size"),
        "vocab": _vocabulary(it),
        "mtp": None if found.get("mtp-num-layers") == "0" else it.number("mtp-num-layers"),
        "max_sequence": it.number("max-position-embeddings", it.number("seq-length")),
        "attention": _attention(it),
        "mlp": _mlp(it),
        "norm": "rmsnorm" if rmsnorm else "layernorm",
        "positions": _positions(it),
        "bias": not it.flag("disable-bias-linear"),
        "tied_embeddings": not it.flag("untie-embeddings-and-output-weights"),
    }
    if "num-experts" in found:
        document["moe"] = _moe(it, document["layers"])
    return {key: value for key, value in document.items() if value is not None}


def _vocabulary(it: Arguments) -> int:
    """The vocabulary without padding, which belongs to the layout (parallelism.vocab_multiple)."""
    padded = it.number("padded-vocab-size")
    it.number("make-vocab-size-divisible-by")
    return it.need("vocab-size") if it.number("vocab-size") or padded is None else padded


def _positions(it: Arguments) -> str:
    if it.flag("use-rotary-position-embeddings"):
        return "rope"
    if it.flag("no-position-embedding") and "position-embedding-type" not in it.found:
        return "none"
    kinds = {"learned_absolute": "learned", "rope": "rope", "none": "none", "yarn": "rope"}
    return kinds[it.word("position-embedding-type", "learned_absolute", tuple(kinds))]


def _attention(it: Arguments) -> dict[str, Any]:
    heads, norm = it.need("num-attention-heads"), it.flag("qk-layernorm")
    rms = it.found.get("normalization") == "RMSNorm"
    biased = not it.flag("disable-bias-linear")
    values: dict[str, Any] = {"heads": heads}
    if it.flag("multi-latent-attention"):
        values |= {
            "query_rank": it.number("q-lora-rank"),
            "kv_rank": it.number("kv-lora-rank", 32),
            "nope_dim": it.number("qk-head-dim", 128),
            "rope_dim": it.number("qk-pos-emb-head-dim", 64),
            "value_head_dim": it.number("v-head-dim", 128),
            "latent_norm": norm,
        }
        if biased:
            raise it.fault("latent attention with biases is not modelled", "--disable-bias-linear")
    else:
        values["head_dim"] = it.number("kv-channels")
        if it.flag("group-query-attention"):
            values["kv_heads"] = it.number("num-query-groups", 1)
        if it.flag("add-qkv-bias"):
            values |= {"bias": True, "output_bias": biased}
        if norm:
            values |= {"qk_norm": "head", "qk_norm_bias": not rms}
    return {key: value for key, value in values.items() if value is not None}


def _mlp(it: Arguments) -> dict[str, Any]:
    gated = it.flag("swiglu")
    width = it.number("ffn-hidden-size")
    if width is None and gated:  # as many weights as without the gate, in multiples of 64
        width = int(4 * it.need("hidden-size") * 2 / 3 / 64) * 64
    values: dict[str, Any] = {"gated": gated, "intermediate": width}
    values["activation"] = "silu" if gated else "relu2" if it.flag("squared-relu") else "gelu"
    return {key: value for key, value in values.items() if value is not None}


def _moe(it: Arguments, layers: int) -> dict[str, Any]:
    shared = it.number("moe-shared-expert-intermediate-size")
    values: dict[str, Any] = {
        "experts": it.need("num-experts"),
        "top_k": it.number("moe-router-topk", 2),
        "intermediate": it.number("moe-ffn-hidden-size"),
        "router_groups": it.number("moe-router-num-groups"),
        "router_group_top_k": it.number("moe-router-group-topk"),
        **_frequency(it, layers),
    }
    if shared:
        values |= {"shared_experts": 1, "shared_intermediate": shared}
        values["shared_gate"] = it.flag("moe-shared-expert-gate")
    return {key: value for key, value in values.items() if value is not None}


def _frequency(it: Arguments, layers: int) -> dict[str, int]:
    """`2`: every second layer from the first on; `([0]*3+[1]*58)`: spelled out."""
    from planner.connect.imports.tidy import experts_rule

    text = str(it.found.get("moe-layer-freq", "1")).replace(" ", "").strip("()")
    if text.isdigit() and int(text):
        pattern = [int(i % int(text) == 0) for i in range(layers)]
    else:
        pattern = []
        for term in text.split("+"):
            match = re.fullmatch(r"\(?\[([01](?:,[01])*)\](?:\*([0-9]{1,5}))?\)?", term)
            if match is None:
                raise it.fault(f"--moe-layer-freq is {text!r}", "2, or ([0]*3+[1]*58)")
            pattern += [int(digit) for digit in match[1].split(",")] * int(match[2] or 1)
    if len(pattern) != layers:
        raise it.fault(f"--moe-layer-freq names {len(pattern)} of {layers} layers")
    if 1 not in pattern:
        raise it.fault("--moe-layer-freq leaves no layer to the experts")
    rule = experts_rule(["sparse" if sparse else "dense" for sparse in pattern])
    if rule is None:
        raise it.fault(f"--moe-layer-freq {text!r} follows no period", "a period")
    return rule
