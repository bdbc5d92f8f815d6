"""Transformers of diffusion models: counted as diffusers counts them, held and timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.base.errors import PlanError
from planner.connect.imports import diffusion, hf
from tests.changed import result_of
from tests.conftest import read_data

DATA = Path(__file__).parents[1] / "data" / "counts" / "diffusion.json"
COUNTS = json.loads(DATA.read_text("utf-8"))
ROWS = COUNTS["models"]
BY_NAME = {row["name"]: row for row in ROWS}
ONE = {"accelerator": "h100-sxm-80gb", "devices": 1}
EIGHT = {"accelerator": "h100-sxm-80gb", "devices": 8, "devices_per_node": 8}
#: One of each form: conditions alone, attention to a context, two streams, and two that become one.
FORMS = ("DiTTransformer2DModel-0", "PixArtTransformer2DModel-0", "SD3Transformer2DModel-0",
         "FluxTransformer2DModel-0")  # fmt: skip


def result(model: Any, cluster: dict[str, Any] = ONE, **more: Any) -> Any:
    document = {
        "model": model,
        "cluster": cluster,
        "training": {"global_batch": 8, "tokens": "1B"},
        "parallelism": {},
    }
    return result_of(document, **more)


def value(found: Any, quantity: str) -> Any:
    return found[quantity].value


def of_row(row: dict[str, Any], **training: Any) -> Any:
    document = hf.convert_config(row["config"]).document
    run = {"sequence_length": row["tokens"], **training}
    run |= {"context_tokens": row["context_tokens"]} if "context" in document else {}
    return result(document, training=run)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in ROWS])
def test_a_model_has_the_parameters_and_the_flops_that_the_library_counts(
    row: dict[str, Any],
) -> None:
    found = of_row(row)
    assert value(found, "parameters.total") == row["params_total"]
    forward = value(found, "compute.forward_flops_per_token")
    assert forward * row["tokens"] == row["flops"]


def test_every_class_that_is_known_was_built() -> None:
    assert {row["config"]["_class_name"] for row in ROWS} == diffusion.CLASSES.keys()


# dit-xl-2 is held against its paper below.
SHIPPED = {"flux.1-dev": "FLUX.1-dev", "sd3-medium": "stable-diffusion-3-medium"}


def test_every_shipped_transformer_of_images_is_held() -> None:
    presets = (DATA.parents[3] / "presets" / "models").glob("*.yaml")
    images = {path.stem for path in presets if "\noutput:" in path.read_text("utf-8")}
    assert images == {*SHIPPED, "dit-xl-2"}


@pytest.mark.parametrize(("preset", "row"), SHIPPED.items())
def test_a_shipped_model_is_what_its_configuration_says(preset: str, row: str) -> None:
    document = hf.convert_config(BY_NAME[row]["config"]).document
    whole = value(result(preset), "parameters.total")
    assert whole == BY_NAME[row]["params_total"]
    for quantity in ("compute.forward_flops_per_token", "memory.total", "time.step_seconds"):
        assert value(result(preset), quantity) == value(result(document), quantity)


def test_dit_xl_2_is_what_its_paper_says() -> None:
    """Peebles & Xie 2022 (arXiv 2212.09748), table 1: 675M parameters, 118.6 Gflops at 256 pixels,
    which are multiply-adds."""
    found = result("dit-xl-2")
    assert round(value(found, "parameters.total") / 10**6) == 675
    forward = value(found, "compute.forward_flops_per_token") * 256
    assert round(forward / 2 / 10**9, 1) == 118.6


def test_a_published_file_has_keys_that_its_class_does_not_read() -> None:
    """transformer/config.json of Qwen-Image as its first version published it."""
    said = {"_class_name": "QwenImageTransformer2DModel", "_diffusers_version": "0.34.0.dev0"}
    said |= {"guidance_embeds": False, "pooled_projection_dim": 768}
    assert value(result(hf.convert_config(said).document), "parameters.total") == 20_430_401_088


@pytest.mark.parametrize(
    ("change", "said"),
    read_data("faults")["diffusion_keys"],
)
def test_what_is_not_understood_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as caught:
        hf.convert_config({**BY_NAME["FluxTransformer2DModel-0"]["config"], **change})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("row", "change", "said"),
    read_data("faults")["diffusion_architecture"],
)
def test_what_changes_the_architecture_is_refused_by_name(
    row: str, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(PlanError) as caught:
        hf.convert_config({**BY_NAME[row]["config"], **change})
    assert said in str(caught.value)


STEM: dict[str, Any] = {"stem": [{"inputs": 16}], "output": [{"outputs": 16}]}
SHAPE: dict[str, Any] = {"layers": 2, "hidden": 64, "max_sequence": 32, "attention": {"heads": 2}}
CONTEXT = {"context": {"tokens": 8, "stem": [{"inputs": 12}]}}


@pytest.mark.parametrize(("parts", "model", "more", "said"), read_data("faults")["diffusion"])
def test_what_cannot_be_answered_is_one_clear_fault(
    parts: list[str], model: dict[str, Any], more: dict[str, Any], said: str
) -> None:
    model = {
        **(STEM if "stem" in parts else {}),
        **(CONTEXT if "context" in parts else {}),
        **model,
    }
    with pytest.raises(PlanError) as caught:
        result({**SHAPE, **model}, EIGHT, **more)
    assert any(said in str(fault) for fault in caught.value.faults), caught.value


MORE = ("parameters.total", "compute.training_flops", "memory.total", "time.step_seconds")
WAYS: list[dict[str, Any]] = read_data("connect")["ways_of_diffusion"]


@pytest.mark.slow(every=5)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("row", FORMS)
def test_more_layers_more_patches_and_more_context_never_take_less(
    row: str, way: dict[str, Any]
) -> None:
    """Wide enough for eight devices; a kind of layer of each twice as often."""
    config = {**BY_NAME[row]["config"], "num_attention_heads": 8, "attention_head_dim": 48}
    config |= {"dual_attention_layers": [0]} if row[0] == "S" else {}
    config |= {"caption_projection_dim": 384} if row[0] == "S" else {}
    config |= {"cross_attention_dim": 384} if row[0] == "P" else {}
    document = hf.convert_config({**config, "num_layers": 3}).document
    deeper = hf.convert_config({**config, "num_layers": 5}).document
    run = {**way, "training": {**way.get("training", {}), "sequence_length": 256}}

    def values(model: dict[str, Any], **training: Any) -> list[Any]:
        found = result(model, EIGHT, **{**run, "training": {**run["training"], **training}})
        return [value(found, quantity) for quantity in MORE]

    plain = values(document)
    larger = [values(deeper), values(document, sequence_length=512, tokens="2B")]
    if "context" in document:
        larger.append(values(document, context_tokens=2 * document["context"]["tokens"]))
    for other in larger:
        assert all(a <= b for a, b in zip(plain, other, strict=True)), (plain, other)
        assert plain != other


#: What PyTorch keeps of a layer on a CPU and not on a GPU, in bytes for a token: RMSNorm in pieces
#: keeps what it normalised of queries and keys; and what is here left out of a condition, in rows:
#: its vector and the number of a class (DiT makes them in each layer), and the sum of it and of
#: learned rows (PixArt).
PIECES = dict.fromkeys(("FluxTransformer2DModel", "Flux2Transformer2DModel"), 2 * 128 * 4)
LEFT_OUT = {"DiTTransformer2DModel": 128 * 4 + 8, "PixArtTransformer2DModel": 6 * 128 * 4}
#: What a GPU keeps besides: the random state of each fused attention.
STATES = {"PixArtTransformer2DModel": 48}


@pytest.mark.parametrize(
    "row", [pytest.param(row, id=row["config"]["_class_name"]) for row in COUNTS["kept"]]
)
def test_layers_keep_what_autograd_keeps(row: dict[str, Any]) -> None:
    name = row["config"]["_class_name"]
    found = of_row(
        row, precision="fp32", attention="flash", implementation="pytorch", global_batch=1
    )
    tokens = row["tokens"] + row["context_tokens"]
    for kind, measured in row["kept"].items():
        held = value(found, f"memory.activations.whole[{kind}]") - STATES.get(name, 24)
        pieces = PIECES.get(name, 0) * tokens
        assert held + pieces + LEFT_OUT.get(name, 0) == measured, kind


def test_single_stream_layers_keep_and_move_both_streams() -> None:
    """One layer that keeps its input alone keeps a row for each patch and each token of text."""
    found = result("flux.1-dev", EIGHT, training={"recompute": "full"}, parallelism={"zero": 3})
    for kind in ("double", "single"):
        kept = value(found, f"memory.activations.part[{kind}]")
        assert kept == 2 * (4096 + 512) * 3072


def test_a_condition_is_one_row_for_each_sequence() -> None:
    """Modulations have most of DiT's weights beside its layers, and next to none of its FLOPs."""
    found = result("dit-xl-2", training={"micro_batch": 4})
    assert value(found, "parameters.component[layer.modulation.matrix]") == 6 * 1152 * 1153
    flops = value(found, "compute.component[layer.modulation.matrix]") * 256
    assert flops == 2 * 6 * 1152 * 1152
    assert value(found, "time.product.rows[layer.modulation.matrix]") == 4


def test_no_published_run_is_claimed_for_their_times() -> None:
    from planner.results import intervals

    found = intervals.find_basis("time.step_seconds", result("dit-xl-2").evaluation.case.settings)
    words = planner.load("gpt2small_hgx-h100").evaluate().evaluation.case.settings
    dense = intervals.find_basis("time.step_seconds", words)
    assert found is not None and dense is not None
    assert found.rows == found.sources == 0 < dense.rows
    assert found.high - found.low > dense.high - dense.low


def test_keys_and_values_of_a_context_are_kept_of_its_tokens() -> None:
    """PixArt's attention to the text keeps queries of patches, and keys and values of the text."""
    config = BY_NAME["PixArt-XL-2-1024-MS"]["config"]
    few, many = (
        value(
            result(hf.convert_config(config).document, training={"context_tokens": n}),
            "memory.activations.part[layer]",
        )
        for n in (100, 101)
    )
    assert many - few == 2 * 2 * 1152  # a key and a value of two bytes each


def test_frameworks_for_language_models_refuse_it_by_name() -> None:
    from planner import api
    from planner.connect import exports

    plan = api.load(
        {"model": "flux.1-dev", "cluster": EIGHT, "training": {}, "parallelism": {"zero": 3}}
    ).plan
    for name in exports.FORMATS:
        if name in exports.WITHOUT_MODEL:
            assert exports.build_config(plan, name).text
            continue
        with pytest.raises(PlanError, match=f"{name} has no diffusion models"):
            exports.build_config(plan, name)


@pytest.mark.slow
def test_a_search_ranks_layouts_by_what_they_evaluate_to() -> None:
    plan = planner.load(
        {
            "model": "sd3-medium",
            "cluster": EIGHT,
            "training": {"global_batch": 64, "tokens": "1B"},
            "parallelism": {},
        }
    )
    best = plan.search(top=3).best
    assert best
    for layout in best:
        again = planner.load(
            {
                "model": "sd3-medium",
                "cluster": EIGHT,
                "training": {"global_batch": 64, "tokens": "1B"},
                "parallelism": {},
            },
            set={key: said for key, said in layout.changes.items() if said is not None},
        ).evaluate()
        assert value(again, "time.step_seconds") == pytest.approx(
            layout.values["time.step_seconds"], rel=1e-9
        )
