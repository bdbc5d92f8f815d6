"""Properties of the memory model: nothing is lost, nothing is held twice but what is said to be,
and more work never needs less memory."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.memory_accuracy import evaluated, value_of
from planner.base.errors import PlanError
from planner.engine.evaluate import widen
from tests.changed import merged
from tests.conftest import read_data

FAULTS = read_data("faults")

LAYOUTS = st.fixed_dictionaries(
    {
        "tensor": st.sampled_from([1, 2, 4]),
        "pipeline": st.sampled_from([1, 2, 3]),
        "context": st.sampled_from([1, 2]),
        "expert": st.sampled_from([1, 2, 4]),
        "zero": st.sampled_from([0, 1, 2, 3]),
    }
)
MODELS = st.fixed_dictionaries(
    {
        "layers": st.integers(3, 9),
        "hidden": st.sampled_from([256, 512]),
        "vocab": st.integers(1000, 2000),
        "tied_embeddings": st.booleans(),
        "bias": st.booleans(),
        "norm": st.sampled_from(["rmsnorm", "layernorm"]),
        "experts": st.sampled_from([0, 4, 8]),
    }
)


def plan_document(model=None, layout=None, **training):
    model, layout = dict(model or {}), dict(layout or {})
    experts = model.pop("experts", 0)
    inner = 1
    for key in ("tensor", "pipeline", "context"):
        inner *= layout.get(key, 1)
    if not experts:
        layout.pop("expert", None)
    else:
        model["moe"] = {"experts": experts, "top_k": 2, "intermediate": 256}
    return {
        "model": {
            "layers": 6,
            "hidden": 512,
            "vocab": 1000,
            "max_sequence": 512,
            "attention": {"heads": 8, "kv_heads": 4},
            **model,
        },
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": 4 * inner, "devices_per_node": 8},
        "training": {
            "sequence_length": 512,
            "micro_batch": 2,
            "gradient_accumulation": 12,
            "implementation": "megatron",
            **training,
        },
        "parallelism": layout,
    }


def ranks_of(component, layout):
    """Over how many devices of one stage and data-parallel rank a component is divided."""
    split = component.settings["split"]
    if split == "experts":
        return layout.get("expert", 1)
    return 1 if split == "none" else layout.get("tensor", 1)


@pytest.mark.slow
@given(MODELS, LAYOUTS)
@settings(max_examples=60)
def test_ranks_together_hold_the_whole_and_what_is_stated_to_be_replicated(model, layout):
    document = plan_document(model, layout)
    ev = evaluated(document)
    layout = document["parallelism"]
    held, replicated = Fraction(0), Fraction(0)
    for stage in ev.case.axes["stage"]:
        first, _, last = stage.name.partition("-")
        stages = int(last or first) - int(first) + 1
        for component in ev.case.axes["component"]:
            point = widen({"stage": stage, "component": component})
            here = ev.case.pair_values[ev_symbol("copies_on_stage"), stage, component] * stages
            device = Fraction(ev.value("parameters.device", {"component": component}))
            whole = Fraction(ev.value("parameters.component", {"component": component}))
            held += here * device * ranks_of(component, layout)
            replicated += here * (device * ranks_of(component, layout) - whole)
            assert point["stage"] is stage
    assert held - replicated == ev.value("parameters.total")
    # What is held twice: row biases, padding of the vocabulary, tied embeddings of two stages.
    if not model["bias"] and layout.get("tensor", 1) == 1 and not model["tied_embeddings"]:
        padded = ev.value("layout.vocabulary") - document["model"]["vocab"]
        assert replicated == 2 * padded * document["model"]["hidden"]


def ev_symbol(name):
    from planner.book import notation

    return getattr(notation, name)


@pytest.mark.slow
@given(MODELS, LAYOUTS)
@settings(max_examples=40)
def test_shards_of_all_data_parallel_ranks_sum_to_the_state(model, layout):
    whole = evaluated(plan_document(model, {**layout, "zero": 0}))
    sharded = evaluated(plan_document(model, {**layout, "zero": 3}))
    for component in range(len(whole.case.axes["component"])):
        a, b = whole.case.axes["component"][component], sharded.case.axes["component"][component]
        for state in ("weights", "gradients", "optimizer"):
            full = Fraction(whole.value(f"memory.{state}.component", {"component": a}))
            part = Fraction(sharded.value(f"memory.{state}.component", {"component": b}))
            assert part * Fraction(sharded.value("layout.shards", {"component": b})) == full


@pytest.mark.slow
@given(MODELS, LAYOUTS, st.sampled_from(["1f1b", "gpipe", "zero-bubble"]))
@settings(max_examples=40)
def test_every_layer_lies_on_exactly_one_stage(model, layout, schedule):
    ev = evaluated(plan_document(model, layout, schedule=schedule))
    layers = 0
    for stage in ev.case.axes["stage"]:
        first, _, last = stage.name.partition("-")
        for part in ev.case.axes["part"]:
            if part.settings["layers"]:
                held = ev.case.pair_values[ev_symbol("layers_on_stage"), stage, part]
                layers += held * (int(last or first) - int(first) + 1)
    assert layers == model["layers"]


def total(**changes):
    return value_of(plan_document(**changes), "memory.total")


@pytest.mark.slow
@given(LAYOUTS)
@settings(max_examples=25)
def test_more_work_needs_no_less_memory(layout):
    small = total(layout=layout)
    assert total(layout=layout, micro_batch=4) >= small
    assert total(layout=layout, sequence_length=1024) >= small
    assert total(layout=layout, recompute="full") <= small
    assert total(layout={**layout, "zero": 1}) <= total(layout={**layout, "zero": 0})


@pytest.mark.parametrize("implementation", ["torchtitan", "megatron"])
def test_keys_and_values_that_are_gathered_lie_in_memory(implementation):
    """Of a million tokens of Llama-3 8B, one layer: 2 × 8 heads × 128 values of 2 bytes, 4 GiB."""

    def document(exchange):
        return merged(
            read_data("plans")["million_tokens"],
            training={"implementation": implementation},
            parallelism={"context_exchange": exchange},
        )

    whole = 2**20 * 2 * 8 * 128 * 2
    gathered, ring = evaluated(document("gather")), evaluated(document("ring"))
    tensors = {t.name: gathered.value("memory.tensor", {"tensor": t}) for t in tensors_of(gathered)}
    assert tensors["keys and values of all ranks"] == whole == 4 * 2**30
    assert "keys and values of all ranks" not in {t.name for t in tensors_of(ring)}
    layer = [value_of(document(way), "memory.buffers.layer") for way in ("gather", "ring")]
    assert layer[0] > whole and layer[1] < whole / 2


def test_under_ulysses_the_output_of_attention_lies_twice_and_few_heads_are_repeated():
    """Of a million tokens over 16 ranks, whose 8 heads of keys and values are repeated."""
    document = merged(
        read_data("plans")["million_tokens"],
        training={"implementation": "pytorch"},
        cluster={"devices": 16},
        parallelism={"context_exchange": "ulysses", "context": 16},
    )
    e = evaluated(document)
    sizes = {t.name: e.value("memory.tensor", {"tensor": t}) for t in tensors_of(e)}
    ranks = document["parallelism"]["context"]
    output = sizes["attention output before the all-to-all"]
    assert output == sizes["attention output"] == 2**20 // ranks * 32 * 128 * 2
    repeated = sizes["keys and values repeated for each rank"]
    assert repeated == 2**20 // ranks * 2 * max(0, ranks - 8) * 128 * 2


def tensors_of(evaluation):
    return evaluation.case.axes["tensor"]


def test_the_ladder_of_optimizers():
    sizes = [
        value_of(plan_document(optimizer=name, precision="fp32"), "memory.optimizer")
        for name in ("sgd", "adafactor", "adam-8bit", "lion", "muon", "adamw")
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0


def test_sixteen_bytes_with_adam_in_fp32_and_twelve_with_momentum():
    assert value_of(plan_document(precision="fp32"), "memory.bytes_per_parameter") == 16
    assert (
        value_of(
            plan_document(precision="fp32", optimizer="sgd-momentum"), "memory.bytes_per_parameter"
        )
        == 12
    )


@pytest.mark.parametrize(("precision", "size"), [("fp32", 16), ("bf16", 18), ("fp16", 20)])
def test_bytes_of_megatron_recipes(precision, size):
    """Megatron-LM, docs on the distributed optimizer: 16, 18, 20 bytes without it."""
    document = plan_document(precision=precision)
    assert value_of(document, "memory.bytes_per_parameter") == size


# -- schedules ----------------------------------------------------------------------------------


def alive(layers=12, **changes):
    """Layers of the first stage times micro-batches alive there."""
    layout = {"pipeline": 4, **changes.pop("layout", {})}
    ev = evaluated(plan_document(model={"layers": layers}, layout=layout, **changes))
    first = ev.case.axes["stage"][0]
    part = next(p for p in ev.case.axes["part"] if p.settings["layers"])
    return ev.case.pair_values[ev_symbol("in_flight"), first, part]


def test_micro_batches_in_flight_on_the_first_stage():
    assert alive() == 3 * 4
    assert alive(schedule="gpipe") == 3 * 12
    assert alive(schedule="zero-bubble") == 3 * 4
    assert alive(gradient_accumulation=2) == 3 * 2


def test_interleaving_keeps_the_share_of_korthikanti_more():
    """Section 4.2.3: (1 + (p - 1)/(pv)) of a whole model on the first stage."""
    p, v, layers = 4, 3, 24
    kept = alive(layers, layout={"virtual_pipeline": v}, schedule="interleaved")
    assert kept == layers * (1 + Fraction(p - 1, p * v))


def test_dualpipe_holds_two_stages_and_one_micro_batch_more():
    """DeepSeek-V3, table 2: activations p + 1, parameters twice."""
    ev = evaluated(plan_document(model={"layers": 12}, layout={"pipeline": 4}, schedule="dualpipe"))
    first = ev.case.axes["stage"][0]
    part = next(p for p in ev.case.axes["part"] if p.settings["layers"])
    assert ev.case.pair_values[ev_symbol("layers_on_stage"), first, part] == 2 * 3
    assert ev.case.pair_values[ev_symbol("in_flight"), first, part] == 3 * (4 + 1)


# -- Korthikanti et al. 2022 ----------------------------------------------------------------------


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_the_formulas_of_korthikanti(sequence, recompute):
    """Equations 1, 2, 4 and 6, and 2sbh: with t-way tensor and sequence parallelism."""
    s, b, h, a, t = 2048, 2, 1024, 16, 4
    document = plan_document(
        model={
            "hidden": h,
            "attention": {"heads": a},
            "norm": "layernorm",
            "bias": True,
            "max_sequence": s,
        },
        layout={"tensor": t, "sequence": sequence},
        sequence_length=s,
        micro_batch=b,
        attention="eager",
        implementation="megatron-2022",
        recompute=recompute,
    )
    scores = Fraction(5 * a * s, h * t) if recompute == "none" else 0
    if recompute == "full":
        expected = Fraction(2 * s * b * h, t if sequence else 1)
    elif sequence:
        expected = s * b * h * (Fraction(34, t) + scores)
    else:
        expected = s * b * h * (10 + Fraction(24, t) + scores)
    assert value_of(document, "memory.activations.layer") == expected


# -- adapters and inference -----------------------------------------------------------------------


def test_adapters_train_what_their_rank_says():
    """Rank r on query and value: r (n_in + n_out) parameters for each, nothing else is trained."""
    document = plan_document(
        implementation="pytorch", lora={"rank": 4}, precision="fp32", gradient_accumulation=2
    )
    heads = 8 * 64, 4 * 64
    adapters = 6 * 4 * ((512 + heads[0]) + (512 + heads[1]))
    assert value_of(document, "memory.gradients") == 4 * adapters


@pytest.mark.parametrize(("tensor", "heads"), [(1, 8), (2, 4), (8, 1), (16, 1)])
def test_a_cache_of_llama_2_70b(tensor, heads):
    """80 layers, 8 key/value heads of 128, bf16: 320 KiB for each token (2 × 80 × 8 × 128 × 2), of
    which each rank keeps its heads; one, where there are more ranks than heads."""
    document = {
        "model": "llama2-70b",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": tensor},
        "parallelism": {"tensor": tensor},
        "training": {"mode": "inference", "sequence_length": 1000, "output_tokens": 24},
    }
    assert value_of(document, "memory.cache.stage") == 1024 * 320 * 1024 * heads // 8


@pytest.mark.parametrize(("tensor", "heads"), [(1, 8), (4, 2), (16, 1)])
@pytest.mark.parametrize(("prompt", "kept"), [(1000, 1024), (8168, 4096)])
def test_a_cache_of_mistral_7b(tensor, heads, prompt, kept):
    """32 layers, 8 key/value heads of 128 (arXiv 2310.06825, table 1), of the last 4,096 tokens."""
    document = {
        "model": "mistral-7b",
        "cluster": {"accelerator": "h100-sxm-80gb", "devices": tensor},
        "parallelism": {"tensor": tensor},
        "training": {"mode": "inference", "sequence_length": prompt, "output_tokens": 24},
    }
    assert value_of(document, "memory.cache.stage") == kept * 2 * 32 * heads * 128 * 2


RECURRENT = read_data("plans")["recurrent_models"]


@pytest.mark.parametrize(
    ("model", "elements"),
    [
        # mamba_ssm's allocate_inference_cache: (channels, state) and (channels, kernel), each layer
        ("mamba-130m", 24 * (1536 * 16 + 1536 * 4)),
        # Mamba-2: (heads, head size, state); the convolution also sees 2 × groups × state
        ("codestral-mamba-7b", 64 * (128 * 64 * 128 + (8192 + 2 * 8 * 128) * 4)),
        # MiniMax-01 (arXiv 2501.08313), lightning attention: keys by values, of 128, a head
        (RECURRENT["lightning"], 10 * 64 * 128 * 128),
        # The delta rule (arXiv 2412.06464): keys by values a head; queries, keys and values are
        # convolved over 4 tokens
        (RECURRENT["delta rule"], 5 * (6 * 32 * 48 + (2 * 2 * 32 + 6 * 48) * 4)),
        # Griffin (arXiv 2402.19427): one number a channel of the recurrence
        (RECURRENT["Griffin"], 7 * (480 + 480 * 3)),
        # LFM2 (arXiv 2511.23404): the last inputs of a gated convolution
        (RECURRENT["LFM2"], 7 * 384 * 3),
    ],
)
def test_the_state_of_a_recurrent_model_does_not_grow_with_the_sequence(model, elements):
    for tokens in (24, 24_000):
        served = read_data("plans")["three_served"]
        document = {"model": model, **merged(served, training={"output_tokens": tokens})}
        assert value_of(document, "memory.cache.stage") == 3 * 2 * elements


# -- layouts that cannot exist --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layout", "training", "says"),
    FAULTS["layouts"],
)
def test_layouts_that_cannot_exist(layout, training, says):
    with pytest.raises(PlanError) as fault:
        evaluated(plan_document(layout=layout, **training))
    assert says in str(fault.value)


@pytest.mark.parametrize("vocab, more", [(2000, 26865788 - 25512828), (4000, 36617788 - 34240828)])
def test_a_reference_that_is_held_takes_its_weights_and_a_forward_pass(
    vocab: int, more: int
) -> None:
    """Live bytes at the peak of a step of TRL 1.16's DPOTrainer (CPU, fp32, two pairs of 32 tokens,
    recomputed layers), less those with precompute_ref_log_probs."""
    shape = {"layers": 2, "hidden": 64, "vocab": vocab, "mlp": {"gated": True, "intermediate": 128}}
    run = {"sequence_length": 32, "micro_batch": 4, "global_batch": 8, "objective": "dpo"}
    run |= {"precision": "fp32", "implementation": "transformers", "recompute": "full"}
    plan = {"model": {**shape, "attention": {"heads": 4}}, "cluster": "2 x h100"}
    held, there = (
        evaluated({**plan, "training": {**run, "reference": how}})
        for how in ("held", "precomputed")
    )
    assert held.value("memory.total") - there.value("memory.total") == more
    for name in ("compute.executed_flops_per_token", "compute.performed_flops_per_token"):
        forward = there.value("compute.forward_flops_per_token")
        assert held.value(name) - there.value(name) == forward, name
    assert held.value("time.step_seconds") > there.value("time.step_seconds")


def test_an_update_that_copies_gradients_is_the_peak_whatever_the_length() -> None:
    """Qwen-1.8B trained in full on one A100 reads 43.5 GB at 256, 512, 1024 and 2048 tokens
    (QwenLM/Qwen, README: profiling of memory and speed): a peak that no activation is part of."""
    model = {"layers": 24, "hidden": 2048, "vocab": 151936, "tied_embeddings": False}
    model |= {"attention": {"heads": 16}, "mlp": {"gated": True, "intermediate": 5504}}
    run = {"stack": "deepspeed", "precision": "bf16", "global_batch": 8, "recompute": "full"}
    runs = [
        evaluated(
            {"model": model, "cluster": "1 x a100", "parallelism": {"zero": 2},
             "training": {**run, "micro_batch": 1, "sequence_length": length}}
        )
        for length in (256, 2048)
    ]  # fmt: skip
    assert {e.value("memory.phase") for e in runs} == {"optimizer step"}
    (total,) = {e.value("memory.total") for e in runs}
    assert abs(total / 43.5e9 - 1) < 0.06
    # Two bytes of each weight and gradient, twelve of master and states; a copy in each format.
    # Beside them one bucket, and cuBLAS's workspaces.
    more = total - (2 + 2 + 12 + 2 + 4) * runs[0].value("parameters.total")
    assert 2 * 5e8 <= more < 2 * 5e8 + 2**27


def test_embedding_and_head_in_units_of_their_own_are_not_gathered_together() -> None:
    """torchtune shards Llama 3.1 70B with `custom_sharded_layers` (recipes/configs/llama3_1): of
    two matrices of 128,256 x 8,192 in bf16 one at a time is whole beside the layers."""
    training = {"stack": "torchtune@2024-11", "sequence_length": 2048, "global_batch": 16}
    plan = {"model": "llama3.1-70b", "cluster": "8 x a100", "training": training}
    whole, apart = (
        value_of({**plan, "parallelism": {"zero": 3, "split_root": split}}, "memory.total")
        for split in (False, True)
    )
    assert whole - apart == 2 * 128256 * 8192


def test_fused_kernels_keep_what_they_take_alone() -> None:
    """Liger-Kernel, src/liger_kernel/ops: rms_norm.py keeps its input and reciprocal deviations,
    swiglu.py gate and up alone; transformers keeps an fp32 input, what it normalized, and the
    activated gate. In the backward pass gradients of gate and up are written over them."""
    run = {"implementation": "transformers", "precision": "bf16-pure"}
    plain, fused = (
        evaluated(plan_document({"mlp": {"gated": True, "intermediate": 1024}}, **run, **more))
        for more in ({}, {"fused_kernels": ["norm", "gate"]})
    )
    kept = [e.value("memory.activations.layer") for e in (plain, fused)]
    assert kept[0] - kept[1] == 2 * 512 * (2 * (4 + 2 - 2) * 512 + 2 * 1024)
