"""Transformers of diffusion models as diffusers builds and runs them:
`python -m benchmarks.diffusion FILE.json`.

For each class that planner/connect/imports/diffusion.yaml knows: published configurations, and
small ones of random shapes, with the parameters of the model on the meta device and the FLOPs of
one forward pass over one sample there, as PyTorch's counter counts them; and of three small ones
what autograd keeps of their layers. Needs torch and diffusers, and nothing of the planner but the
list of classes. Printed by versions, kept in
tests/data/counts/diffusion.json, which tests/connect/test_diffusion.py holds the importer against.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks import tables

ROWS = Path(__file__).resolve().parents[1] / "planner/connect/imports/diffusion.yaml"
#: Small configurations of each class.
EACH = 5
#: Tokens of text in each sample.
TEXT = 16
TABLES = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text("utf-8"))
#: Configurations as published on the Hub, where they differ from what the class assumes.
PUBLISHED: Mapping[str, Mapping[str, Mapping[str, Any]]] = TABLES["published"]


def small(name: str, draw: random.Random) -> dict[str, Any]:
    """A small configuration of random shape."""
    heads, size, patch = draw.randint(1, 4), 2 * draw.randint(3, 12), draw.choice((1, 2, 4))
    made: dict[str, Any] = {
        "num_attention_heads": heads,
        "attention_head_dim": size,
        "num_layers": draw.randint(1, 4),
        "in_channels": draw.randint(1, 6),
        "out_channels": draw.choice((None, draw.randint(1, 6))),
    }
    flag = draw.choice((True, False))
    if name in ("DiTTransformer2DModel", "PixArtTransformer2DModel", "Transformer2DModel"):
        made |= {"attention_bias": flag, "patch_size": patch, "sample_size": patch * 4}
        made["activation_fn"] = draw.choice(("gelu", "gelu-approximate", "geglu"))
        made["num_embeds_ada_norm"] = draw.randint(2, 30)
        crossed = name[0] == "P" or (name[0] == "T" and flag)
        if name[0] == "T":
            made["norm_type"] = "ada_norm_single" if crossed else "ada_norm_zero"
            made["norm_elementwise_affine"] = False
        if crossed:
            made["attention_head_dim"] = 6 * draw.randint(1, 4)
            made["cross_attention_dim"] = heads * made["attention_head_dim"]
            made |= {"caption_channels": draw.randint(5, 40)}
            made["use_additional_conditions"] = draw.choice((True, False))
    if name == "SD3Transformer2DModel":
        layers = made["num_layers"]
        made |= {"patch_size": patch, "sample_size": 4 * patch, "pos_embed_max_size": 8}
        made |= {"qk_norm": draw.choice((None, "rms_norm")), "caption_projection_dim": heads * size}
        made["dual_attention_layers"] = [i for i in range(layers) if draw.random() < 0.4]
    if name in ("FluxTransformer2DModel", "QwenImageTransformer2DModel"):
        made["attention_head_dim"] = 4 * draw.randint(2, 6)
        first = made["attention_head_dim"] // 4 // 2 * 2
        rest = (made["attention_head_dim"] - first) // 2
        made["axes_dims_rope"] = [first + rest % 2 * 2, rest // 2 * 2, rest // 2 * 2]
    if name in ("FluxTransformer2DModel", "Flux2Transformer2DModel"):
        made |= {"num_single_layers": draw.randint(1, 3), "guidance_embeds": flag}
    if name == "Flux2Transformer2DModel":
        made |= {"attention_head_dim": 4 * size, "axes_dims_rope": [size] * 4}
    if name == "LTXVideoTransformer3DModel":
        made |= {"cross_attention_dim": heads * size, "caption_channels": draw.randint(5, 40)}
        made |= {"attention_bias": flag, "out_channels": draw.randint(1, 6)}
    if name == "WanTransformer3DModel":
        made |= {"attention_head_dim": 6 * draw.randint(2, 5), "ffn_dim": draw.randint(10, 90)}
        made |= {"text_dim": draw.randint(4, 40), "freq_dim": 2 * draw.randint(4, 20)}
        made |= {"cross_attn_norm": flag, "patch_size": [draw.choice((1, 2)), 2, 2]}
    else:
        made |= (
            {"joint_attention_dim": draw.randint(8, 50)} if "caption_channels" not in made else {}
        )
        made["pooled_projection_dim"] = draw.randint(8, 50)
    return made


def built(name: str, given: Mapping[str, Any]) -> Any:
    """The model of a configuration, without memory."""
    import inspect

    import diffusers
    import torch

    cls = getattr(diffusers, name)
    known = inspect.signature(cls.__init__).parameters
    with torch.device("meta"):
        return cls(**{key: value for key, value in given.items() if key in known}).eval()


def flops(name: str, model: Any, device: str = "meta") -> tuple[int, int]:
    """FLOPs of one sample, and of how many patches it is."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    c, tokens = model.config, 8 * 8
    zeros, one = torch.zeros, torch.zeros(1, device=device, dtype=torch.long)
    grad = torch.set_grad_enabled(device != "meta")
    with torch.device(device), grad, FlopCounterMode(display=False) as counter:
        if name[:4] in ("Flux", "Qwen"):
            given = {
                "hidden_states": zeros(1, tokens, c.in_channels),
                "encoder_hidden_states": zeros(1, TEXT, c.joint_attention_dim),
                "timestep": zeros(1),
            }
            if name[0] == "F":
                axes = len(c.axes_dims_rope)
                given |= {"img_ids": zeros(tokens, axes), "txt_ids": zeros(TEXT, axes)}
                given |= {"guidance": zeros(1)} if c.guidance_embeds else {}
            else:
                given["img_shapes"] = [(1, 8, 8)]
                given |= {"additional_t_cond": one} if c.use_additional_t_cond else {}
            if name == "FluxTransformer2DModel":
                given["pooled_projections"] = zeros(1, c.pooled_projection_dim)
        elif name == "LTXVideoTransformer3DModel":
            given = {"encoder_hidden_states": zeros(1, TEXT, c.caption_channels)}
            given |= {"hidden_states": zeros(1, tokens, c.in_channels), "timestep": zeros(1)}
            given |= {"encoder_attention_mask": zeros(1, TEXT)}
            given |= {"num_frames": 1, "height": 8, "width": 8}
        elif name == "WanTransformer3DModel":
            frames, height, width = (2 * size for size in c.patch_size)
            given = {
                "hidden_states": zeros(1, c.in_channels, frames, 4 * height // 2, 8 * width // 2),
                "encoder_hidden_states": zeros(1, TEXT, c.text_dim),
                "timestep": zeros(1),
            }
        else:
            side = c.sample_size if c.sample_size < 64 else 32
            side = c.sample_size if name != "SD3Transformer2DModel" else side
            tokens = (side // c.patch_size) ** 2
            given = {"hidden_states": zeros(1, c.in_channels, side, side)}
            if name == "SD3Transformer2DModel":
                given["pooled_projections"] = zeros(1, c.pooled_projection_dim)
                given["encoder_hidden_states"] = zeros(1, TEXT, c.joint_attention_dim)
                given["timestep"] = zeros(1)
            elif c.norm_type == "ada_norm_zero":
                given |= {"timestep": one, "class_labels": one}
            else:
                given["encoder_hidden_states"] = zeros(1, TEXT, c.caption_channels)
                more = model.use_additional_conditions
                given["added_cond_kwargs"] = {
                    "resolution": zeros(1, 2) if more else None,
                    "aspect_ratio": zeros(1, 1) if more else None,
                }
                given["timestep"] = zeros(1)
        model(**given)
    return int(counter.get_total_flops()), tokens


#: Small models whose layers are watched, and the attribute that holds the layers of each kind.
WATCHED: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]] = TABLES["watched"]


def kept(name: str) -> dict[str, Any]:
    """Bytes that autograd keeps of the last layer of each kind of a small model, on a CPU in fp32:
    every storage once, weights left out."""
    import torch

    given, kinds = WATCHED[name]
    model = built(name, given).to_empty(device="cpu").train()
    weights = {one.untyped_storage().data_ptr() for one in model.parameters()}
    found, alive, where = dict.fromkeys(kinds, 0), [], [""]

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            weights.add(storage.data_ptr())
            alive.append(tensor)
            if where[0]:
                found[where[0]] += storage.nbytes()
        return tensor

    for kind, attribute in kinds.items():
        last = getattr(model, attribute)[-1]
        last.register_forward_pre_hook(lambda *_, kind=kind: where.__setitem__(0, kind))
        last.register_forward_hook(lambda *_: where.__setitem__(0, ""))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        tokens = flops(name, model, "cpu")[1]
    config = {"_class_name": name, **given}
    return {"config": config, "tokens": tokens, "context_tokens": TEXT, "kept": found}


def main() -> None:
    """The command-line interface."""
    import diffusers
    import torch

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    rows = []
    for name in yaml.safe_load(ROWS.read_text("utf-8"))["types"]:
        tried = [(label, dict(said)) for label, said in PUBLISHED.get(name, {}).items()]
        for seed in range(EACH):
            tried.append((f"{name}-{seed}", small(name, random.Random(f"{name} {seed}"))))
        for label, given in tried:
            try:
                model = built(name, given)
                counted, tokens = flops(name, model)
            except Exception as error:  # a shape that the library refuses
                print(f"{label}: {type(error).__name__}: {str(error)[:200]}")
                continue
            plain = json.loads(json.dumps({**model.config}, default=str))
            config = {key: value for key, value in plain.items() if key[0] != "_"}
            row: dict[str, Any] = {"name": label, "config": {"_class_name": name, **config}}
            row["params_total"] = sum(one.numel() for one in model.parameters())
            row |= {"flops": counted, "tokens": tokens}
            row["context_tokens"] = TEXT
            rows.append(row)
    made = {"torch": torch.__version__, "diffusers": diffusers.__version__}
    tables.write_rows(asked.file, made, {"kept": [*map(kept, WATCHED)], "models": rows})
    print(f"{len(rows)} configurations of diffusers {diffusers.__version__}")


if __name__ == "__main__":
    main()
