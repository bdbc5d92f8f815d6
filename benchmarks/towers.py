"""Towers as transformers builds and runs them: `python -m benchmarks.towers FILE.json`.

For each wrapper that planner/connect/imports/towers.yaml knows: the configuration of its class, and
small ones of random shapes, as `save_pretrained` writes them, with the parameters of the model on
the meta device; and of small ones the FLOPs of one image or clip through tower and projector, as
PyTorch's counter counts them on a CPU with unfused attention. Needs torch and transformers, and of
the planner the list of wrappers. Kept in tests/data/counts/towers.json (test_towers.py).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from benchmarks import tables

ROWS = Path(__file__).resolve().parents[1] / "planner/connect/imports/towers.yaml"
#: Small configurations of each wrapper.
EACH = 3
#: Patches a side of the image that towers without an image size are run on.
GRID = 8
TEXT = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
#: Keys of a configuration that say nothing about its shape.
UNSAID = ("transformers_version", "dtype", "_name_or_path", "id2label", "label2id", "architectures")


def tower(kind: str, given: Mapping[str, Any], hidden: int, draw: random.Random) -> dict[str, Any]:
    """Keys of a small tower of random shape that are other than its class has them."""
    heads, patch, side = draw.choice((2, 4)), draw.choice((4, 6, 8)), draw.choice((4, 8))
    width, layers, inner = 8 * heads * draw.choice((1, 2, 3)), draw.randint(1, 4), 12
    inner *= draw.randint(2, 9)
    known = {
        "hidden_size": width,
        "embed_dim": width,
        "d_model": width,
        "num_hidden_layers": layers,
        "encoder_layers": layers,
        "depth": layers,
        "num_attention_heads": heads,
        "encoder_attention_heads": heads,
        "num_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": width // heads,
        "intermediate_size": inner,
        "encoder_ffn_dim": inner,
        "patch_size": patch,
        "image_size": patch * side,
        "num_patches": side * side,
        "out_hidden_size": hidden,
        "output_dim": hidden,
        "n_window": 4,
        "max_source_positions": 4 * draw.randint(2, 6),
        "num_mel_bins": draw.choice((8, 20)),
        "num_position_embeddings": draw.choice((16, 64)),
        "deepstack_visual_indexes": list(range(min(2, layers))),
        "fullatt_block_indexes": [layers - 1],
        "window_size": 4 * patch,
        "pos_emb_height": draw.choice((4, 8)),
        "pos_emb_width": 8,
        "position_embedding_size": draw.choice((16, 32)),
        "attention_bias": draw.choice((True, False)),
        "use_qk_norm": draw.choice((True, False)),
        "use_mask_token": draw.choice((True, False)),
        "vision_use_head": draw.choice((True, False)),
    }
    own = {key: value for key, value in known.items() if key in given}
    if isinstance(given.get("image_size"), (list, tuple)):
        own |= {"image_size": [patch * side] * 2, "patch_size": [patch] * 2}
    if kind == "qwen2_vl":
        own["hidden_size"] = hidden
    if kind == "llama4":  # a shuffle of four, and matrices that fit
        own |= {"hidden_size": width, "intermediate_size": 4 * width, "projector_input_dim": 48}
        own |= {"projector_output_dim": 48, "vision_output_dim": 48}
    if kind == "voxtral":
        own["intermediate_size"] = 4 * width
    return own


def configuration(kind: str, seed: int | None) -> Any:
    """The configuration of a wrapper's class, or a small one of random shape."""
    from transformers import CONFIG_MAPPING

    plain = CONFIG_MAPPING[kind]().to_dict()
    if seed is None:
        return CONFIG_MAPPING[kind]()
    draw = random.Random(f"{kind} {seed}")
    hidden = 32 * draw.randint(1, 3)
    changed: dict[str, Any] = {}
    text = dict(plain.get("text_config") or {})
    sizes = {**TEXT, "hidden_size": hidden, "intermediate_size": 96, "vocab_size": 160}
    sizes |= {"head_dim": 16, "moe_intermediate_size": 48, "num_experts": 4, "num_local_experts": 4}
    sizes |= {"head_dim": hidden // 4, "num_experts_per_tok": 2}
    text |= {key: value for key, value in sizes.items() if key in text}
    if kind == "glm5_next":  # latent attention has a key for each head
        text |= {"num_key_value_heads": text["num_attention_heads"], "pad_token_id": None}
    for key in ("layer_types", "indexer_types", "mlp_layer_types", "max_window_layers",
                "no_rope_layers", "per_layer_config"):  # fmt: skip
        text.pop(key, None)
    changed["text_config"] = text
    outer = {
        "multimodal_projector_bias": draw.choice((True, False)),
        "projector_bias": draw.choice((True, False)),
        "projector_use_layernorm": draw.choice((True, False)),
        "projector_hidden_size": 40,
        "alignment_intermediate_size": 80,
        "mm_tokens_per_image": 4,
        "projection_dim": hidden,
        "hidden_size": hidden,
        "vocab_size": 160,
    }
    changed |= {key: value for key, value in outer.items() if key in plain}
    said = yaml.safe_load(ROWS.read_text("utf-8"))["wrappers"][kind]
    for one in said.values():
        given = plain.get(one["of"])
        if given is None:
            given = CONFIG_MAPPING[one["as"]]().to_dict()
        own = tower(kind, given, hidden, draw)
        changed[one["of"]] = {**given, **own}
        if kind == "kimi_k25":
            changed["projection_hidden_size"] = own["hidden_size"]
        if kind == "paligemma":
            changed[one["of"]]["projection_dim"] = hidden
    return CONFIG_MAPPING[kind](**{**plain, **changed})


def runs(config: Any) -> bool:
    """Whether the language model can read what the tower gives; not all defaults of classes fit."""
    own = getattr(config, "vision_config", None) or getattr(config, "audio_config", None)
    if own is None:
        return False
    text = config.get_text_config()
    out = getattr(own, "hidden_size" if hasattr(own, "embed_dim") else "out_hidden_size", None)
    pooled = int(getattr(config, "mm_tokens_per_image", 1) ** 0.5)
    side = own.image_size // own.patch_size if pooled > 1 else pooled
    heads = text.hidden_size % text.num_attention_heads
    return out in (None, text.hidden_size) and side >= pooled and not heads


def saved(config: Any) -> dict[str, Any]:
    """What a configuration writes down, less what says nothing about its shape."""

    def tidy(node: Any) -> Any:
        if isinstance(node, dict):
            return {str(k): tidy(v) for k, v in node.items() if k not in UNSAID}
        return [tidy(item) for item in node] if isinstance(node, (list, tuple)) else node

    made: dict[str, Any] = tidy(config.to_diff_dict())
    return made


def built(config: Any) -> Any:
    """The model of a configuration, without memory."""
    import torch
    from transformers import AutoModelForImageTextToText, AutoModelForSeq2SeqLM
    from transformers.models.auto import modeling_auto as auto

    with torch.device("meta"):
        for names, make in (
            (auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES, AutoModelForImageTextToText),
            (auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES, AutoModelForSeq2SeqLM),
        ):
            if config.model_type in names:
                return make.from_config(config)
        from transformers import AutoModelForMultimodalLM

        return AutoModelForMultimodalLM.from_config(config)


def flops(config: Any) -> int | None:
    """FLOPs of one image or clip through tower and projector; None where it is not run here."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    if hasattr(config, "audio_config"):
        config._attn_implementation = config.audio_config._attn_implementation = "eager"
        model = type(built(config))(config).eval()
        own = config.audio_config.to_dict()
        frames = torch.zeros(1, own["num_mel_bins"], 2 * own["max_source_positions"])
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            if config.model_type == "qwen2_audio":
                found = model.model.audio_tower(frames).last_hidden_state
                model.model.multi_modal_projector(found)
            elif config.model_type == "voxtral":
                model.get_audio_features(frames)
            else:
                return None
        return int(counter.get_total_flops())
    if config.model_type == "llama4":  # its last matrix is not in what is called
        return None
    config._attn_implementation = "eager"
    config.vision_config._attn_implementation = "eager"
    model = type(built(config))(config).eval()
    own = config.vision_config.to_dict()
    both = own.get("image_size") or 0
    size = both if isinstance(both, int) else both[0]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        if "temporal_patch_size" in own:
            patch, grid = own["patch_size"], GRID
            colours = own.get("in_channels") or own["num_channels"]
            values = colours * own["temporal_patch_size"] * patch**2
            model.get_image_features(
                pixel_values=torch.zeros(grid * grid, values),
                image_grid_thw=torch.tensor([[1, grid, grid]]),
            )
        else:
            more = {}
            if config.model_type in ("mistral3", "lighton_ocr") or own["model_type"] == "pixtral":
                more["image_sizes"] = torch.tensor([[size, size]])
            pixels = torch.zeros(1, 3, size, size)
            if config.model_type in ("idefics3", "smolvlm"):
                pixels = torch.ones(1, 1, 3, size, size)
            model.get_image_features(pixel_values=pixels, **more)
    return int(counter.get_total_flops())


def main() -> None:
    """The command-line interface."""
    import torch
    import transformers

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    asked = parser.parse_args()
    rows = []
    for kind in yaml.safe_load(ROWS.read_text("utf-8"))["wrappers"]:
        for seed in (None, *range(EACH)):
            name = f"{kind}-{'default' if seed is None else seed}"
            try:
                config = configuration(kind, seed)
                model = built(config)
            except Exception as error:  # a shape that the library refuses
                print(f"{name}: {type(error).__name__}: {str(error)[:120]}")
                continue
            if not runs(config):
                print(f"{name}: its tower and its language model do not fit together")
                continue
            row: dict[str, Any] = {"name": name, "config": saved(config)}
            row["class"] = type(model).__name__
            row["params_total"] = sum(one.numel() for one in model.parameters())
            if seed is not None:
                try:
                    counted = flops(config)
                    if counted is not None:
                        row["tower_flops"] = counted
                    if hasattr(getattr(config, "vision_config", None), "temporal_patch_size"):
                        row["tower_tokens"] = GRID * GRID
                except Exception as error:
                    print(f"{name}: FLOPs: {type(error).__name__}: {str(error)[:120]}")
            rows.append(row)
    made = {"torch": torch.__version__, "transformers": transformers.__version__}
    tables.write_rows(asked.file, made, {"models": rows})
    print(f"{len(rows)} configurations of {made['transformers']}")


if __name__ == "__main__":
    main()
