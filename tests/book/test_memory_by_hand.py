"""Memory of a device, each kind worked out by hand from the sizes of a published model."""

from __future__ import annotations

import pytest

from tests.book.test_time_by_hand import evaluation, first

#: Llama-2 7B (arXiv 2307.09288): 32 layers of 4,096, an embedding and a head of 32,000 x 4,096.
PARAMETERS = 6_738_415_616
MODEL = {"model": {"extends": "llama2-7b"}}


@pytest.mark.parametrize("zero", [0, 3])
@pytest.mark.parametrize("micro_batches", [1, 2, 4])
def test_gradients_that_are_freed_are_there_from_the_second_micro_batch_on(
    zero: int, micro_batches: int
) -> None:
    """PyTorch sets gradients to none after each step: when the loss of the first micro-batch is
    computed there are none yet; in those after it all are, of 2 bytes a parameter over the shards.
    While the first runs backward, without shards those of the head are there."""
    devices = 8
    found = evaluation(
        **MODEL,
        cluster__devices=devices,
        training__implementation="pytorch",
        training__precision="bf16-pure",
        training__gradient_accumulation=micro_batches,
        training__global_batch=None,
        parallelism={"zero": zero},
    )

    def live(phase: str) -> int:
        (stage,) = found.case.axes["stage"]
        return int(first(found, "memory.gradients.live", "phase", {"stage": stage}, phase=phase))

    every = 2 * PARAMETERS // (devices if zero else 1)
    later = micro_batches > 1
    assert live("loss") == every * later
    head = 2 * (32_000 + 1) * 4096 * (not zero)  # with the norm before it
    assert live("backward") == (every if later else head)


@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("reshard", [True, False])
def test_weights_of_the_root_and_of_one_or_two_layers_are_gathered(
    stages: int, reshard: bool
) -> None:
    """FSDP2 in bf16: embedding, head and the last norm stay gathered; of the layers the one that is
    worked on, and on the way back the next one too. Of two stages the first has no head. Without
    resharding all layers of the stage stay gathered until theirs is done."""
    found = evaluation(
        **MODEL,
        cluster__devices=8,
        training__implementation="torchtitan",
        training__gradient_accumulation=4,
        training__global_batch=None,
        parallelism={"zero": 3, "pipeline": stages, "reshard": reshard},
    )
    layer = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    root = 32_000 * 4096 + (32_001 * 4096 if stages == 1 else 0)
    stage = found.case.axes["stage"][0]

    def gathered(phase: str) -> int:
        return int(first(found, "memory.buffers.gathered", "phase", {"stage": stage}, phase=phase))

    most = 32 // stages
    assert gathered("loss") == 2 * (root + layer * (1 if reshard else most))
    assert gathered("backward") == 2 * (root + layer * (2 if reshard else most))
    assert gathered("first") == 2 * (root + layer)


@pytest.mark.parametrize(
    "layout", [{}, {"tensor": 4}, {"tensor": 8, "context": 2}, {"expert": 4}, {"tensor": 32}]
)
def test_a_device_holds_buffers_for_each_group_that_it_is_in(layout: dict[str, int]) -> None:
    """Of 64 devices: for all of them, and for each kind of group of more than one device."""
    found = evaluation(memory={"communicator": "100 MiB"}, parallelism=layout)
    tensor, context = layout.get("tensor", 1), layout.get("context", 1)
    data = 64 // (tensor * context)
    groups = [size for size in (64, tensor, context, data, layout.get("expert", 1)) if size > 1]
    assert found.value("memory.communicators") == len(groups) * 100 * 2**20


@pytest.mark.parametrize("zero", [0, 3])
def test_weights_in_8_bits_are_kept_unless_they_are_gathered(zero: int) -> None:
    """A byte for each weight of 32 layers' products, 4 x 4,096^2 and 3 x 4,096 x 11,008; a weight
    that is gathered is cast for each product anew."""
    found = evaluation(
        **MODEL,
        cluster__devices=8,
        training__implementation="pytorch",
        training__precision="fp8",
        training__bytes={"quantized": 1},
        parallelism={"zero": zero},
    )
    (stage,) = found.case.axes["stage"]
    products = 32 * (4 * 4096**2 + 3 * 4096 * 11_008)
    assert found.value("memory.buffers.quantized", {"stage": stage}) == products * (zero < 3)


def test_the_layers_of_a_model_have_their_parameters_on_average() -> None:
    """Llama-2's: the products, and two norms of 4,096."""
    products = 4 * 4096**2 + 3 * 4096 * 11_008
    assert evaluation(**MODEL).value("parameters.per_layer") == products + 2 * 4096
