"""Bytes of the model states on one device: weights, gradients, optimizer states.

A weight is split first by tensor and expert parallelism (``parameters.device``), then, from the
ZeRO stage on that says so, over the devices that hold the same part (``layout.shards``).
"""

from typing import Any

from sympy import Rational

from planner.book.formulas.layout import shards, vocabulary
from planner.book.formulas.parameters import component, total
from planner.book.notation import (
    L_k,
    V,
    copies,
    e,
    f_e,
    held_sc,
    k_a,
    k_G,
    k_g,
    k_l,
    k_m,
    k_o,
    k_t,
    k_w,
    n_in,
    n_out,
    t,
    t_e,
    tensors_c,
)
from planner.book.quantity import quantity
from planner.book.reductions import Total

MEGATRON = "Shoeybi et al. 2019 (arXiv 1909.08053), section 3"
ZERO = "Rajbhandari et al. 2020 (arXiv 1910.02054), section 5"

DEVICE: dict[str, Any] = {
    "identifier": "parameters.device",
    "symbol": r"N_{c}^{\mathrm{dev}}",
    "unit": "parameters",
    "title": "parameters of one component on one tensor and expert rank",
    "per": ("component",),
}


@quantity(**DEVICE, source=MEGATRON, when={"split": "none"})
def device_whole():
    """Every rank holds all of it."""
    return component


@quantity(**DEVICE, source=MEGATRON, when={"split": "column"})
def device_column():
    """Outputs are divided over the tensor-parallel ranks, biases with them."""
    return component / t


@quantity(**DEVICE, source=MEGATRON, when={"split": "row", "bias": False})
def device_row():
    """Inputs are divided over the tensor-parallel ranks."""
    return component / t


@quantity(**DEVICE, source=MEGATRON, when={"split": "row", "bias": True})
def device_row_with_bias():
    """Inputs are divided over the tensor-parallel ranks; every rank holds the whole bias, which is
    added after the sum."""
    return (component - copies * n_out) / t + copies * n_out


@quantity(
    **DEVICE,
    source="Megatron-LM (make-vocab-size-divisible-by)",
    when={"split": "vocabulary", "shared": False},
)
def device_vocabulary():
    """Rows of the padded vocabulary are divided over the tensor-parallel ranks."""
    return component * vocabulary / (V * t)


@quantity(
    **DEVICE,
    source="Narayanan et al. 2021: the first and the last stage each hold tied embeddings",
    when={"split": "vocabulary", "shared": True, "again": False},
)
def device_tied():
    """The copy of a tied matrix, for stages that hold it without the original."""
    return n_in * n_out * vocabulary / (V * t)


@quantity(
    **DEVICE,
    source="DeepSeek-AI 2024 (arXiv 2412.19437), section 3.2.3",
    when={"split": "vocabulary", "shared": True, "again": True},
)
def device_again():
    """The matrix lies on the same stage and is used once more."""
    return 0


@quantity(
    **DEVICE,
    source="Lepikhin et al. 2020 (arXiv 2006.16668); Megatron-LM (expert-tensor-parallel-size)",
    when={"split": "experts"},
)
def device_experts():
    """Experts are divided over e groups, each expert over t_e devices."""
    return component / (e * t_e)


SIDE: dict[str, Any] = {"unit": "1", "per": ("component",)}
IN: dict[str, Any] = {
    "identifier": "parameters.device_inputs",
    "symbol": r"n_{\mathrm{in}}'",
    "title": "input width of a matrix on one tensor and expert rank",
    "source": MEGATRON,
    **SIDE,
}
OUT: dict[str, Any] = {
    "identifier": "parameters.device_outputs",
    "symbol": r"n_{\mathrm{out}}'",
    "title": "output width of a matrix on one tensor and expert rank",
    "source": MEGATRON,
    **SIDE,
}


@quantity(**IN, when={"split": ("none", "column")})
def inputs():
    """All of them."""
    return n_in


@quantity(**IN, when={"split": "row"})
def inputs_row():
    """Divided over the tensor-parallel ranks."""
    return n_in / t


@quantity(**IN, when={"split": "vocabulary", "type": "linear"})
def inputs_head():
    """All of them."""
    return n_in


@quantity(**IN, when={"split": "vocabulary", "type": "table"})
def inputs_table():
    """Rows of the padded vocabulary are divided over the tensor-parallel ranks."""
    return vocabulary / t


@quantity(**IN, when={"split": "experts"})
def inputs_expert():
    """The side that is not the width of the expert."""
    return n_in * n_out / f_e


@quantity(**OUT, when={"split": ("none", "row")})
def outputs():
    """All of them."""
    return n_out


@quantity(**OUT, when={"split": "column"})
def outputs_column():
    """Divided over the tensor-parallel ranks."""
    return n_out / t


@quantity(**OUT, when={"split": "vocabulary", "type": "linear"})
def outputs_head():
    """Columns of the padded vocabulary are divided over the tensor-parallel ranks."""
    return vocabulary / t


@quantity(**OUT, when={"split": "vocabulary", "type": "table"})
def outputs_table():
    """All of them."""
    return n_out


@quantity(**OUT, when={"split": "experts"})
def outputs_expert():
    """The width of the expert, divided over its tensor-parallel ranks."""
    return f_e / t_e


BIAS: dict[str, Any] = {
    "identifier": "parameters.device_biases",
    "symbol": r"n_{\mathrm{b}}'",
    "title": "biases of a matrix on one tensor and expert rank",
    "source": MEGATRON,
    **SIDE,
}


@quantity(**BIAS, when={"bias": False})
def biases():
    """None."""
    return 0


@quantity(**BIAS, when={"bias": True, "split": ("none", "column", "row", "vocabulary")})
def biases_of_outputs():
    """One for each output."""
    return outputs


@quantity(**BIAS, when={"bias": True, "split": "experts"})
def biases_of_expert():
    """One for each output, divided over the expert's tensor-parallel ranks."""
    return n_out / t_e


TRAINED: dict[str, Any] = {
    "identifier": "parameters.trained",
    "symbol": r"N_{c}^{\mathrm{tr}}",
    "unit": "parameters",
    "title": "parameters of one component that get gradients, on one tensor and expert rank",
    "per": ("component",),
}
LORA = "Hu et al. 2021 (arXiv 2106.09685), section 4.1"


@quantity(**TRAINED, source="all weights are trained", when={"lora": False})
def trained():
    """All of them."""
    return device_whole


@quantity(**TRAINED, source=LORA, when={"lora": True, "adapted": False})
def trained_frozen():
    """The component is frozen and has no adapter."""
    return 0


@quantity(
    **TRAINED,
    source=LORA,
    when={"lora": True, "adapted": True, "split": ("none", "column", "vocabulary")},
)
def trained_adapter_column():
    """Two matrices of rank r: the first is whole on every rank, the second divided as outputs."""
    return k_l * (n_in + n_out / t)


@quantity(**TRAINED, source=LORA, when={"lora": True, "adapted": True, "split": "row"})
def trained_adapter_row():
    """Two matrices of rank r: the first divided as the inputs, the second whole on every rank."""
    return k_l * (n_in / t + n_out)


# -- bytes of one component ---------------------------------------------------------------------

FROZEN_BYTES: dict[str, Any] = {
    "identifier": "memory.weights.frozen_bytes",
    "symbol": "k_f",
    "unit": "bytes",
    "title": "bytes of a frozen weight of a hidden matrix",
    "coefficient": "bytes",
}
QLORA = "Dettmers et al. 2023 (arXiv 2305.14314), section 3"


@quantity(**FROZEN_BYTES, source=LORA, when={"training.lora.base": "bf16"})
def frozen_bytes_bf16():
    """Kept in bf16."""
    return 2


@quantity(
    **FROZEN_BYTES,
    source="Dettmers et al. 2022 (arXiv 2208.07339)",
    when={"training.lora.base": "int8"},
)
def frozen_bytes_int8():
    """One byte; the scale of a row is not counted."""
    return 1


@quantity(**FROZEN_BYTES, source=QLORA, when={"training.lora.base": "nf4"})
def frozen_bytes_nf4():
    """Four bits, and an fp32 scale for each block of 64."""
    return Rational(1, 2) + Rational(4, 64)


@quantity(**FROZEN_BYTES, source=QLORA, when={"training.lora.base": "nf4-double"})
def frozen_bytes_nf4_double():
    """Four bits, an 8-bit scale for each block of 64, and an fp32 scale for 256 of those."""
    return Rational(1, 2) + Rational(1, 64) + Rational(4, 64 * 256)


FROZEN: dict[str, Any] = {
    "identifier": "memory.weights.frozen",
    "symbol": r"M_{f,c}",
    "unit": "bytes",
    "title": "frozen weights of one component, before they are divided",
    "source": LORA,
    "per": ("component",),
}


@quantity(**FROZEN, when={"lora": False})
def frozen():
    """None."""
    return 0


@quantity(**FROZEN, when={"lora": True, "hidden matrix": True})
def frozen_matrix():
    """The base in its own format."""
    return frozen_bytes_bf16 * device_whole


@quantity(**FROZEN, when={"lora": True, "hidden matrix": False})
def frozen_outside():
    """Embeddings, head and vectors are not quantised."""
    return k_a * device_whole


WEIGHTS: dict[str, Any] = {
    "identifier": "memory.weights.component",
    "symbol": r"M_{w,c}",
    "unit": "bytes",
    "title": "weights of one component on one device",
    "source": ZERO,
    "per": ("component",),
}


@quantity(**WEIGHTS, when={"parallelism.zero": (0, 1, 2)})
def weights_component():
    """k_w bytes for each trained parameter, and the frozen ones."""
    return k_w * trained + frozen


@quantity(**WEIGHTS, when={"parallelism.zero": 3})
def weights_component_sharded():
    """As without ZeRO, divided over the devices that share the weight."""
    return (k_w * trained + frozen) / shards


GRADIENTS: dict[str, Any] = {
    "identifier": "memory.gradients.component",
    "symbol": r"M_{g,c}",
    "unit": "bytes",
    "title": "gradients of one component on one device",
    "source": ZERO,
    "per": ("component",),
}


@quantity(**GRADIENTS, when={"parallelism.zero": (0, 1)})
def gradients_component():
    """k_g bytes for each parameter."""
    return k_g * trained


@quantity(**GRADIENTS, when={"parallelism.zero": (2, 3)})
def gradients_component_sharded():
    """k_g bytes for each parameter, divided over the devices that share it."""
    return k_g * trained / shards


PER_PARAMETER: dict[str, Any] = {
    "identifier": "memory.optimizer.per_parameter",
    "symbol": "K_o",
    "unit": "bytes",
    "title": "optimizer states of one parameter",
}


@quantity(
    **PER_PARAMETER,
    source="Loshchilov & Hutter 2019 (arXiv 1711.05101)",
    when={"training.optimizer": "adamw"},
)
def per_parameter():
    """A first and a second moment."""
    return 2 * k_o


@quantity(
    **PER_PARAMETER,
    source="Dettmers et al. 2021 (arXiv 2110.02861), section 2",
    when={"training.optimizer": "adam-8bit"},
    coefficient="bytes",
)
def per_parameter_8bit():
    """Two moments of one byte, and for each of them one fp32 scale for a block of 256."""
    return 2 * (1 + Rational(4, 256))


@quantity(**PER_PARAMETER, source="stochastic gradient descent", when={"training.optimizer": "sgd"})
def per_parameter_sgd():
    """No state."""
    return 0


@quantity(
    **PER_PARAMETER,
    source="Sutskever et al. 2013; Chen et al. 2023 (arXiv 2302.06675)",
    when={"training.optimizer": ("sgd-momentum", "lion")},
)
def per_parameter_momentum():
    """One momentum."""
    return k_o


@quantity(
    **PER_PARAMETER,
    source="Shazeer & Stern 2018 (arXiv 1804.04235); Jordan et al. 2024 (Muon)",
    when={"training.optimizer": ("adafactor", "muon"), "model.shape": True},
)
def per_parameter_mean():
    """On average over the model: matrices and vectors keep different states."""
    return Total(L_k * Total(each * component, "component"), "part") / total


@quantity(
    **{**PER_PARAMETER, "exact": False},
    source="Liu et al. 2025 (arXiv 2502.16982), section 2.3: one momentum buffer",
    when={"training.optimizer": "muon", "model.shape": False},
)
def per_parameter_muon():
    """A momentum, as if every parameter were one of a hidden matrix; embeddings, head and vectors
    keep a moment more."""
    return k_o


EACH: dict[str, Any] = {
    "identifier": "memory.optimizer.each",
    "symbol": r"k_{o,c}",
    "unit": "bytes",
    "title": "optimizer states of one parameter of a component",
    "per": ("component",),
}
ALIKE = ("adamw", "adam-8bit", "sgd", "sgd-momentum", "lion")


@quantity(
    **EACH,
    source="one state has the shape of the weight",
    when={"training.optimizer": ALIKE},
)
def each():
    """The same for each parameter."""
    return per_parameter


@quantity(
    **EACH,
    source="Shazeer & Stern 2018 (arXiv 1804.04235), section 3",
    when={"training.optimizer": "adafactor", "matrix": True},
)
def each_factored():
    """Of a matrix, the sums of the rows and of the columns that the rank holds; biases in full."""
    return k_o * (inputs + outputs + biases) / (inputs * outputs + biases)


@quantity(
    **EACH,
    source="Shazeer & Stern 2018 (arXiv 1804.04235), section 3",
    when={"training.optimizer": "adafactor", "matrix": False},
)
def each_unfactored():
    """A vector keeps its second moment in full."""
    return k_o


@quantity(
    **EACH,
    source="Jordan et al. 2024 (Muon); Liu et al. 2025 (arXiv 2502.16982), section 2.3",
    when={"training.optimizer": "muon", "hidden matrix": True},
)
def each_muon():
    """A momentum for each parameter of a hidden matrix; for its biases two moments."""
    return k_o * (inputs * outputs + 2 * biases) / (inputs * outputs + biases)


@quantity(
    **EACH,
    source="Jordan et al. 2024 (Muon): AdamW for embeddings, head and vectors",
    when={"training.optimizer": "muon", "hidden matrix": False},
)
def each_muon_outside():
    """Two moments, as AdamW keeps them."""
    return 2 * k_o


@quantity(
    "memory.optimizer.states",
    symbol=r"K_{o,c}",
    unit="bytes",
    title="optimizer states of one component, before they are divided",
    source="the optimizer's states of each parameter",
    per=("component",),
)
def states():
    """Those of each parameter that is trained."""
    return each * trained


OPTIMIZER: dict[str, Any] = {
    "identifier": "memory.optimizer.component",
    "symbol": r"M_{o,c}",
    "unit": "bytes",
    "title": "master weights and optimizer states of one component on one device",
    "source": ZERO,
    "per": ("component",),
}


@quantity(
    **{**OPTIMIZER, "source": "Ren et al. 2021 (arXiv 2101.06840)"},
    when={"training.offload.optimizer": True},
)
def optimizer_component_offloaded():
    """They lie in the host's memory."""
    return 0


@quantity(**OPTIMIZER, when={"parallelism.zero": 0, "training.offload.optimizer": False})
def optimizer_component():
    """A master weight, the gradient's copy where the recipe keeps one, the optimizer's states."""
    return (k_m + k_G) * trained + states


@quantity(**OPTIMIZER, when={"parallelism.zero": (1, 2, 3), "training.offload.optimizer": False})
def optimizer_component_sharded():
    """As without ZeRO, divided over the devices that share the weight."""
    return ((k_m + k_G) * trained + states) / shards


@quantity(
    "memory.optimizer.steps",
    symbol=r"M_{t,c}",
    unit="bytes",
    title="step counters of one component",
    source="PyTorch (torch.optim keeps one for each weight tensor)",
    per=("component",),
)
def steps():
    """One number for each tensor of weights, not divided."""
    return k_t * tensors_c


# -- sums over a stage --------------------------------------------------------------------------


def _stage(name: str, latex: str, title: str):
    return quantity(
        f"memory.{name}.stage",
        symbol=latex,
        unit="bytes",
        title=title,
        source="sum over the layers of the stage",
        per=("stage",),
    )


@_stage("weights", r"M_{w,\sigma}", "weights of one device of a stage")
def weights_stage():
    """Each component as often as the stage holds it, a tied matrix at most once."""
    return Total(held_sc * weights_component, "component")


@_stage("gradients", r"M_{g,\sigma}", "gradients of one device of a stage")
def gradients_stage():
    """Each component as often as the stage holds it, a tied matrix at most once."""
    return Total(held_sc * gradients_component, "component")


@_stage("optimizer", r"M_{o,\sigma}", "optimizer states of one device of a stage")
def optimizer_stage():
    """Each component as often as the stage holds it, with the step counters of its tensors."""
    return Total(held_sc * (optimizer_component + steps), "component")


@quantity(
    "memory.bytes_per_parameter",
    symbol="K",
    unit="bytes",
    title="bytes of weight, gradient and optimizer for one parameter, nothing divided",
    source="the recipe of the precision (training.bytes)",
)
def bytes_per_parameter():
    """Weight, gradient, master weight, the gradient's copy and the optimizer's states."""
    return k_w + k_g + k_m + k_G + per_parameter
