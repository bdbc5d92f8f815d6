"""A layer's time on one device, each piece worked out by hand from what it moves or waits for."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from planner.engine import instance as case
from planner.engine.evaluate import Evaluation
from planner.questions import loading

LAYERS, HIDDEN, HEADS, GROUPS, WIDE, VOCABULARY = 6, 960, 15, 5, 2560, 5000
LENGTH, BATCH = 480, 3
TOKENS = LENGTH * BATCH
SIZE = HIDDEN // HEADS
RATE = Fraction(7, 10) * 3_350 * 10**9  # of memory, sustained
LINK = Fraction(9, 10) * 100 * 10**9

SHARES: dict[str, Any] = {
    "memory": "0.7",
    "link": "0.9",
    "elementwise": "1.3",
    "elementwise_backward": "2.2",
    "embedding_accesses": "7",
    "contention": "0.6",
    "launches": "17",
    "launch": "3 us",
    "end_launches": "23",
}


def evaluation(model: dict[str, Any] | None = None, **changes: Any) -> Evaluation:
    document: dict[str, Any] = {
        "model": {
            "layers": LAYERS,
            "hidden": HIDDEN,
            "vocab": VOCABULARY,
            "max_sequence": LENGTH,
            "norm": "rmsnorm",
            "positions": "rope",
            "attention": {"heads": HEADS, "kv_heads": GROUPS},
            "mlp": {"intermediate": WIDE, "gated": True},
            **(model or {}),
        },
        "cluster": {
            "accelerator": {
                "extends": "h100-sxm-80gb",
                "link": {
                    "bandwidth": "100 GB/s",
                    "convention": "per-direction",
                    "latency": "2 us",
                    "switch_latency": "1 s",
                },
            },
            "devices": 5,
            "devices_per_node": 5,
        },
        "training": {
            "tokens": "1B",
            "sequence_length": LENGTH,
            "global_batch": 4 * BATCH,
            "micro_batch": BATCH,
            "implementation": "megatron",
            "dropout": 0,
        },
        "parallelism": {"tensor": 5, "zero": 0, "sequence": True},
        "time": {"efficiency": SHARES},
    }
    for dotted, value in changes.items():
        section, _, key = dotted.partition("__")
        document[section] = {**document[section], key: value} if key else value
    return Evaluation(case.build(loading.load(document)))


def of(e: Evaluation, identifier: str, axis: str, **settings: Any) -> Any:
    """A quantity at the first entry of an axis that has these settings."""
    entry = next(
        x for x in e.case.axes[axis] if all(x.settings.get(k) == v for k, v in settings.items())
    )
    return e.value(identifier, {axis: entry})


@pytest.mark.parametrize("sequence", [True, False])
def test_elementwise_kernels_move_what_they_read_and_write(sequence: bool) -> None:
    """In 2 bytes, at 0.7 of 3.35 TB/s, 1.3 times what fused kernels move. A norm reads and writes;
    a residual sum reads two and writes one; rotary positions read and write queries and keys in 4
    bytes, each in halves by three passes; a gated activation reads two and writes one. Five ranks
    share the widths, and under sequence parallelism the tokens of norms and sums."""
    e = evaluation(parallelism={"tensor": 5, "zero": 0, "sequence": sequence})
    ranks = 5 if sequence else 1
    residual = Fraction(3 * 2 * TOKENS * HIDDEN, ranks)
    moved = {
        "norm": Fraction(2 * 2 * TOKENS * HIDDEN, ranks),
        "attention": residual + Fraction(24 * TOKENS * (HEADS + GROUPS) * SIZE, 5),
        "mlp": residual + Fraction(3 * 2 * TOKENS * WIDE, 5),
        "embedding": 7 * 2 * TOKENS * HIDDEN,
    }
    for block, expected in moved.items():
        assert of(e, "time.elementwise.bytes", "block", block=block) == expected, block
        taken = Fraction(13, 10) * expected / RATE
        assert of(e, "time.elementwise", "block", block=block) == taken, block


def test_learned_positions_and_plain_activations_move_less() -> None:
    """No turning of queries and keys; a plain activation reads and writes its width once."""
    e = evaluation(
        {"positions": "learned", "mlp": {"intermediate": WIDE, "gated": False}},
        training__dropout=0.1,
    )
    residual = Fraction((3 * 2 + 1) * TOKENS * HIDDEN, 5)  # and a mask of one byte
    assert of(e, "time.elementwise.bytes", "block", block="attention") == residual
    plain = residual + Fraction(2 * 2 * TOKENS * WIDE, 5)
    assert of(e, "time.elementwise.bytes", "block", block="mlp") == plain


@pytest.mark.parametrize(
    ("mixer", "keys"),
    [("mamba", {"state": 16, "head_dim": 64}), ("recurrence", {"width": HIDDEN, "heads": HEADS})],
)
def test_scans_and_convolutions_move_twice_the_hidden_size_a_few_times(
    mixer: str, keys: dict[str, Any]
) -> None:
    """Eleven accesses of 2 x 960 values, beside the residual sum."""
    model = {"mixer": mixer, mixer: keys}
    e = evaluation(model, time={"efficiency": {**SHARES, "mixer_accesses": 11}})
    residual = Fraction(3 * 2 * TOKENS * HIDDEN, 5)
    found = of(e, "time.elementwise.bytes", "block", block=mixer)
    assert found == residual + Fraction(11 * 2 * 2 * TOKENS * HIDDEN, 5)


def test_a_rank_holds_its_part_of_a_matrix() -> None:
    """Columns of query and logits, rows of what comes back; of an expert the width. The vocabulary
    is padded to a multiple of 9 on each of five ranks."""
    e = evaluation(
        {"moe": {"experts": 10, "top_k": 2, "intermediate": WIDE}, "feed_forward": "moe"},
        parallelism={"tensor": 5, "expert_tensor": 5, "zero": 0, "vocab_multiple": 9,
                     "sequence": True},
    )  # fmt: skip
    padded = 1008  # 5,000 / 5 in multiples of 9
    for kind, name, inputs, outputs in (
        ("attention", "query", HIDDEN, HIDDEN // 5),
        ("attention", "key", HIDDEN, GROUPS * SIZE // 5),
        ("attention", "output", HIDDEN // 5, HIDDEN),
        ("moe", "expert_up", HIDDEN, WIDE // 5),
        ("moe", "expert_down", HIDDEN, WIDE // 5),  # the width, whichever side it is
        ("moe", "router", HIDDEN, 10),
        ("head", "output", HIDDEN, padded),
        ("embedding", "token", padded, HIDDEN),
    ):
        (entry,) = (
            x
            for x in e.case.axes["component"]
            if x.name == name and x.parent and x.parent.settings["block"] == kind
        )
        found = [
            e.value(f"parameters.device_{side}", {"component": entry})
            for side in ("inputs", "outputs")
        ]
        assert found == [inputs, outputs], name


@pytest.mark.parametrize(
    ("loss", "each"), [("full", 2 + 12), ("vocab-parallel", 2 + 12), ("fused", 4 * 2)]
)
def test_the_loss_passes_over_the_logits(loss: str, each: int) -> None:
    """Logits of 2 bytes read, and 12 bytes in passes of 4; one kernel reads them twice, and reads
    and writes them once more as gradients. The vocabulary is split in five and not padded."""
    layout = {"tensor": 5, "zero": 0, "vocab_multiple": 1}
    e = evaluation(training__loss=loss, parallelism=layout)
    found = of(e, "time.elementwise.bytes", "block", block="head")
    assert found == Fraction(each * TOKENS * VOCABULARY, 5)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("sequence", [True, False])
def test_an_exchange_after_each_pair_of_products(overlap: bool, sequence: bool) -> None:
    """A ring of five passes 2 x 4/5 of the tokens' 2-byte values at 90 GB/s in 8 hops of 2 us.
    Half of it lies before the products that are divided by columns, half behind those that are by
    rows; in five pieces each, four of which travel beside four pieces of these products, as far as
    these last; what is hidden still costs 0.6 of its time. Under sequence parallelism the inputs of
    a block are gathered again beside the product of the input's gradient, half an exchange. Norms
    exchange nothing."""
    layout = {"tensor": 5, "zero": 0, "sequence": sequence, "tensor_overlap": overlap}
    e = evaluation(parallelism=layout)
    once = Fraction(2 * 4, 5) * 2 * TOKENS * HIDDEN / LINK + 8 * Fraction(2, 10**6)
    for block in ("attention", "mlp"):
        inside = [x for x in e.case.axes["product"] if x.parent.settings.get("block") == block]

        def beside(piece: str, *splits: str, inside: list[Any] = inside) -> Any:
            products = [x for x in inside if x.settings["split"] in splits]
            return sum(e.value(f"time.product.{piece}", {"product": x}) for x in products)

        pieces = 0
        for split in ("column", "row") if overlap else ():
            pieces += min(once / 2, beside("forward", split)) * Fraction(4, 5)
        again = once / 2 - min(once / 2, beside("input", "column", "row")) * Fraction(4, 10)
        assert of(e, "time.exchanges", "block", block=block) == 1
        assert of(e, "time.exchange", "block", block=block) == once - pieces * Fraction(4, 10)
        found = of(e, "time.exchange.again", "block", block=block)
        assert found == (again if sequence and not overlap else 0)
    for block in ("norm", "embedding", "head"):
        assert of(e, "time.exchanges", "block", block=block) == 0
        assert of(e, "time.exchange", "block", block=block) == 0
        assert of(e, "time.exchange.again", "block", block=block) == 0


def layer(e: Evaluation) -> dict[str, Any]:
    return {"part": next(x for x in e.case.axes["part"] if x.settings.get("layers"))}


@pytest.mark.parametrize(("recompute", "passes"), [("none", 3), ("selective", 3), ("full", 4)])
def test_the_host_launches_kernels_for_each_pass(recompute: str, passes: int) -> None:
    """17 kernels a pass of a layer and one more for each of the two exchanges with each of half of
    the four other ranks, once forward, twice backward, once more where all is computed again; 23
    for lookup, logits and loss. 3 us each."""
    e = evaluation(training__recompute=recompute)
    assert e.value("time.part.launches", layer(e)) == 17 + 2 * Fraction(4, 2)
    assert e.value("time.part.host", layer(e)) == passes * 21 * Fraction(3, 10**6)
    ends = [x for x in e.case.axes["part"] if not x.settings.get("layers")]
    for end in ends:
        assert e.value("time.part.host", {"part": end}) == 23 * Fraction(3, 10**6)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_a_layer_is_its_pieces_one_after_another(recompute: str) -> None:
    """Forward: products, attention, elementwise kernels, exchanges; backward the same with their
    own rates, and inputs gathered again; what is computed again runs once more: all of the forward
    pass, or the attention core alone. Of device and host the longer, pass by pass: 21 launches
    of 3 us forward, and twice as many backward, or three times where all is computed again."""
    e = evaluation(training__recompute=recompute, training__recompute_modules=["core_attention"])
    at = layer(e)
    blocks = [x for x in e.case.axes["block"] if x.parent is at["part"]]
    products = [x for x in e.case.axes["product"] if x.parent in blocks]

    def sum_of(identifier: str, axis: str = "block", **wanted: Any) -> Any:
        entries = blocks if axis == "block" else products
        return sum(
            e.value(identifier, {axis: x})
            for x in entries
            if all(x.settings.get(k) == v for k, v in wanted.items())
        )

    core = sum_of("time.core.forward", block="attention")
    forward = (
        sum_of("time.product.forward", "product")
        + core
        + sum_of("time.elementwise")
        + sum_of("time.exchange")
    )
    backward = (
        sum_of("time.product.backward", "product")
        + sum_of("time.product.casts", "product")
        + sum_of("time.core.backward", block="attention")
        + Fraction(22, 10) * sum_of("time.elementwise")
        + sum_of("time.exchange")
        + sum_of("time.exchange.again")
    )
    again = {"none": 0, "selective": core, "full": forward}[recompute]
    near = pytest.approx
    assert float(e.value("time.part.forward", at)) == near(float(forward), rel=1e-12)
    assert float(e.value("time.part.backward", at)) == near(float(backward), rel=1e-12)
    assert float(e.value("time.part.repeated", at)) == near(float(again), rel=1e-12)
    host = 21 * 3e-6
    busy = max(float(forward), host)
    busy += max(float(backward + again), host * (3 if recompute == "full" else 2))
    assert float(e.value("time.part.busy", at)) == near(busy, rel=1e-12)
    assert float(e.value("time.part", at)) == near(busy, rel=1e-12)


def products(e: Evaluation, name: str, *pieces: str) -> list[Any]:
    entry = next(x for x in e.case.axes["product"] if x.name == name)
    return [e.value(f"time.product.{piece}", {"product": entry}) for piece in pieces]


@pytest.mark.parametrize("bias", [False, True])
def test_the_backward_pass_of_a_product_has_two_of_them_and_sums_up_the_bias(bias: bool) -> None:
    """A bias's gradient reads that of the output once: 1,440 rows of a fifth of 2,560 values of 2
    bytes."""
    e = evaluation({"bias": bias, "mlp": {"intermediate": WIDE, "gated": False}})
    pieces = "backward", "input", "weight", "bias"
    for name, wide in (("up", WIDE // 5), ("down", HIDDEN)):
        whole, into, weight, summed = products(e, name, *pieces)
        assert min(into, weight) > 0
        fused = summed == 0  # a kernel that runs anyway may sum it up
        assert fused or summed == 2 * TOKENS * wide / RATE
        assert whole == into + weight + summed
    assert bias or fused


def test_a_frozen_product_sends_back_the_gradient_of_its_input() -> None:
    lora = {"rank": 24, "targets": ["query"]}
    e = evaluation(training__lora=lora, parallelism={"zero": 0}, cluster__devices=1)
    for name in ("down", "query+key+value"):
        whole, into = products(e, name, "backward", "input")
        assert whole == into
    assert products(e, "down", "adapter", "adapter_backward", "adapter_launches") == [0, 0, 0]


@pytest.mark.parametrize("dropout", [0, 0.1])
@pytest.mark.parametrize(
    ("kernels", "forward", "back_out", "back_in", "launches"),
    # y += scale * B(A(drop(x))) as PyTorch runs it: A, B, mul and add forward; backward mul, two
    # products each for B and A, and the sum of two gradients. Or scale and sum inside of products,
    # which then read what they add to.
    [("separate", 2 + 3, 2, 3, 10), ("fused", 1, 0, 1, 6)],
)
def test_an_adapter_moves_and_launches_what_its_operations_do(
    kernels: str, forward: int, back_out: int, back_in: int, launches: int, dropout: float
) -> None:
    """Beside the down projection, values of 2 bytes; dropout has a mask of 1 byte and an access of
    in- and output each."""
    lora = {"rank": 24, "targets": ["down"], "kernels": kernels, "dropout": dropout}
    e = evaluation(training__lora=lora, parallelism={"zero": 0}, cluster__devices=1)
    pieces = "narrow", "adapter", "adapter_backward", "adapter_launches"
    narrow, there, back, started = products(e, "down", *pieces)
    # At the least both matrices' traffic: input and output, the rank's values, the weights.
    assert narrow >= 2 * (TOKENS * (WIDE + HIDDEN + 2 * 24) + 24 * (WIDE + HIDDEN)) / RATE
    dropped = 5 * TOKENS * WIDE / RATE if dropout else 0
    assert there - narrow == forward * 2 * TOKENS * HIDDEN / RATE + dropped
    moved = 2 * TOKENS * (back_out * HIDDEN + back_in * WIDE) / RATE
    assert back - 2 * narrow == moved + dropped
    assert started == launches + (2 if dropout else 0)
    layer = next(x for x in e.case.axes["part"] if x.settings["layers"])
    assert e.value("time.part.launches", {"part": layer}) == 17 + Fraction(started) / 3


def test_inputs_are_cast_to_8_bit_but_for_the_logits() -> None:
    """Of the input forward and of the output's gradient backward 2 bytes are read and 2 written."""
    e = evaluation(training__precision="fp8")
    (cast,) = products(e, "query+key+value", "casts")
    columns = (HIDDEN + 2 * GROUPS * SIZE) // 5
    assert cast == 4 * TOKENS * (HIDDEN + columns) / RATE
    head = next(x for x in e.case.axes["product"] if x.settings["wide"])
    assert e.value("time.product.casts", {"product": head}) == 0
    # A frozen weight needs no gradient, for which the copies along the columns are.
    e = evaluation(training__precision="fp8", training__lora={"rank": 4, "targets": ["down"]})
    assert products(e, "query+key+value", "casts") == [3 * TOKENS * (HIDDEN + columns) / RATE]


@pytest.mark.parametrize(
    ("precision", "date", "reads", "bits"),
    [
        # MXFP8Quantizer: one kernel reads 2 bytes and writes two copies of 8 bits, each with 8 bits
        # for 32 of them (TransformerEngine, common/cast/mxfp8).
        ("mxfp8", "2026-08", 1, 2 * Fraction(8 * 33, 32)),
        # NVFP4Quantizer::quantize_impl: nvte_hadamard_transform_amax, the rows' cast, and the cast
        # of the transformed columns read the input; 4 bits twice, each with 8 bits for 16 of them.
        ("nvfp4", "2025-12", 3, 2 * Fraction(4 * 16 + 8, 16)),
        # From pull request 2555 (2026-02) on one kernel casts rows and transformed columns.
        ("nvfp4", "2026-08", 2, 2 * Fraction(4 * 16 + 8, 16)),
    ],
)
def test_casts_to_block_scaled_formats(
    precision: str, date: str, reads: int, bits: Fraction
) -> None:
    e = evaluation(
        training__kernels=date,
        training__precision=precision,
        training__implementation="megatron",
        cluster__accelerator="b200-sxm-192gb",
    )
    (cast,) = products(e, "query+key+value", "casts")
    columns = (HIDDEN + 2 * GROUPS * SIZE) // 5
    rate = RATE * Fraction(77, 10) / Fraction(335, 100)
    assert cast == (2 * reads + bits / 8) * TOKENS * (HIDDEN + columns) / rate


@pytest.mark.parametrize(("recompute", "times"), [("none", 2), ("full", 3)])
def test_packed_weights_are_read_and_written_wide_for_each_product(
    recompute: str, times: int
) -> None:
    """In 4 bits, with a scale of 8 bits for each 64 of them and one of 32 for each 256 of those."""
    lora = {"rank": 24, "targets": ["down"], "base": "nf4-double"}
    e = evaluation(
        training__lora=lora,
        training__recompute=recompute,
        parallelism={"zero": 0},
        cluster__devices=1,
    )
    (cast,) = products(e, "down", "casts")
    each = Fraction(1, 2) + Fraction(1, 64) + Fraction(4, 64 * 256) + 2
    assert cast == times * each * WIDE * HIDDEN / RATE
