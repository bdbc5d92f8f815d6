"""Bytes of the model states on one device: weights, gradients, optimizer states.

A weight is split first by tensor and expert parallelism (``parameters.device``), then, from the
ZeRO stage on that says so, over the devices that hold the same part (``layout.shards``).
"""

from planner.book.formulas.layout import data, state_ranks, vocabulary
from planner.book.formulas.parameters import component, parameters_total
from planner.book.language import *

MEGATRON = "Shoeybi et al. 2019 (arXiv 1909.08053), section 3"

of_zero = partial(bytes_of_component, source=ZERO)
parameters = partial(Quantity, unit="parameters", source=MEGATRON, per="component")

device_parameters = parameters(
    "parameters.device", "N_{c}^dev", "parameters of one component on one tensor and expert rank"
)
device_parameters.where(split="none").equals(component, "Every rank holds all of it.")
device_parameters.where(split="column").equals(
    component / t, "Outputs are divided over the tensor-parallel ranks, biases with them."
)
device_parameters.where(split="row", bias=False).equals(
    component / t, "Inputs are divided over the tensor-parallel ranks."
)
device_parameters.where(split="row", bias=True).equals(
    (component - copies * n_out) / t + copies * n_out,
    "Inputs are divided over the tensor-parallel ranks; every rank holds the whole bias, which is "
    "added after the sum.",
)
_PADDED_ROWS = "Rows of the padded vocabulary are divided over the tensor-parallel ranks."
device_parameters.by(PADDED, split="vocabulary", shared=False).equals(
    component * vocabulary / (V * t), _PADDED_ROWS
)
device_parameters.by(TIED, split="vocabulary", shared=True, again=False).equals(
    n_in * n_out * vocabulary / (V * t),
    "The copy of a tied matrix, for stages that hold it without the original.",
)
device_parameters.by(DUALPIPE_EMBEDDING, split="vocabulary", shared=True, again=True).equals(
    0, "The matrix lies on the same stage and is used once more."
)
device_parameters.by(
    f"{LEPIKHIN}; Megatron-LM (expert-tensor-parallel-size)", split="experts"
).equals(component / (e * t_e), "Experts are divided over e groups, each expert over t_e devices.")

width = partial(Quantity, source=MEGATRON, per="component")

inputs = width(
    "parameters.device_inputs", "n_in'", "input width of a matrix on one tensor and expert rank"
)
inputs.where(split=("none", "column")).equals(n_in, "All of them.")
inputs.where(split="row").equals(n_in / t, "Divided over the tensor-parallel ranks.")
inputs.where(split="vocabulary", type="linear").equals(n_in, "All of them.")
inputs.where(split="vocabulary", type="table").equals(vocabulary / t, _PADDED_ROWS)
inputs.where(split="experts").equals(
    n_in * n_out / f_e, "The side that is not the width of the expert."
)

outputs = width(
    "parameters.device_outputs", "n_out'", "output width of a matrix on one tensor and expert rank"
)
outputs.where(split=("none", "row")).equals(n_out, "All of them.")
outputs.where(split="column").equals(n_out / t, "Divided over the tensor-parallel ranks.")
outputs.where(split="vocabulary", type="linear").equals(
    vocabulary / t, "Columns of the padded vocabulary are divided over the tensor-parallel ranks."
)
outputs.where(split="vocabulary", type="table").equals(n_out, "All of them.")
outputs.where(split="experts").equals(
    f_e / t_e, "The width of the expert, divided over its tensor-parallel ranks."
)

biases = width(
    "parameters.device_biases",
    r"n_{\mathrm{b}}'",
    "biases of a matrix on one tensor and expert rank",
)
biases.where(bias=False).equals(0, "None.")
biases.where(bias=True, split=("none", "column", "row", "vocabulary")).equals(
    outputs, "One for each output."
)
biases.where(bias=True, split="experts").equals(
    n_out / t_e, "One for each output, divided over the expert's tensor-parallel ranks."
)

trained = parameters(
    "parameters.trained",
    "N_{c}^tr",
    "parameters of one component that get gradients, on one tensor and expert rank",
)
STILL = "the plan (training.vision.frozen, training.audio.frozen)"
trained.by("all weights are trained", lora=False, fixed=False).equals(
    device_parameters, "All of them."
)
trained.by(STILL, lora=False, fixed=True).equals(0, "The tower is left as it is.")
trained.by(LORA, lora=True, adapted=False).equals(0, "The component is frozen and has no adapter.")
trained.by(LORA, lora=True, adapted=True, split=("none", "column", "vocabulary")).equals(
    k_l * (n_in + n_out / t) + p_dora * n_out / t,
    "Two matrices of rank r: the first is whole on every rank, the second divided as outputs; of "
    "DoRA also the magnitude of each output.",
)
trained.by(LORA, lora=True, adapted=True, split="row").equals(
    k_l * (n_in / t + n_out) + p_dora * n_out,
    "Two matrices of rank r: the first divided as the inputs, the second whole on every rank; of "
    "DoRA also the magnitude of each output.",
)

# -- bytes of one component ---------------------------------------------------------------------

QLORA = "Dettmers et al. 2023 (arXiv 2305.14314), section 3"

frozen_bytes = in_bytes(
    "memory.weights.frozen_bytes",
    "k_f",
    "bytes of a frozen weight of a hidden matrix",
    coefficient="bytes",
)
frozen_bytes.by(LORA, lora_base="bf16").equals(2, "Kept in bf16.")
frozen_bytes.by("Dettmers et al. 2022 (arXiv 2208.07339)", lora_base="int8").equals(
    1, "One byte; the scale of a row is not counted."
)
frozen_bytes.by(
    "Frantar et al. 2022 (arXiv 2210.17323); AutoGPTQ, qlinear_cuda.py; AutoAWQ, gemm.py",
    lora_base="int4",
).equals(
    make_fraction(1, 2) + make_fraction(5, 2 * 128),
    "Four bits, and a 16-bit scale and a 4-bit zero for each group of 128.",
)
frozen_bytes.by(QLORA, lora_base="nf4").equals(
    make_fraction(1, 2) + make_fraction(4, 64), "Four bits, and an fp32 scale for each block of 64."
)
frozen_bytes.by(QLORA, lora_base="nf4-double").equals(
    make_fraction(1, 2) + make_fraction(1, 64) + make_fraction(4, 64 * 256),
    "Four bits, an 8-bit scale for each block of 64, and an fp32 scale for 256 of those.",
)

frozen = bytes_of_component(
    "memory.weights.frozen",
    r"M_{f,c}",
    "frozen weights of one component, before they are divided",
    source=LORA,
)
frozen.where(lora=False, fixed=False, originals=(None, False)).equals(0, "None.")
PEFT = "peft, utils/other.py (ModulesToSaveWrapper)"
frozen.by(PEFT, lora=False, fixed=False, originals=True).equals(
    k_a * device_parameters, "What is trained in full is a copy; the module stays as it was."
)
frozen.by(STILL, lora=False, fixed=True).equals(
    k_w * device_parameters, "Weights as all others are kept: k_w bytes each."
)
frozen.where(lora=True, hidden_matrix=True).equals(
    frozen_bytes * device_parameters, "The base in its own format."
)
frozen.where(lora=True, hidden_matrix=False, lora_prepared=False).equals(
    k_a * device_parameters, "Embeddings, head and vectors are not quantised."
)
frozen.by(
    "PEFT, prepare_model_for_kbit_training",
    lora=True,
    hidden_matrix=False,
    lora_prepared=True,
    coefficient="bytes",
).equals(4 * device_parameters, "Embeddings, head and vectors are made fp32.")

gathered_component = bytes_of_component(
    "memory.weights.gathered",
    r"M_{wg,c}",
    "weights of one component as their shards are gathered",
    source="PyTorch FSDP2 (MixedPrecisionPolicy, param_dtype)",
)
gathered_component.where(lora=False).equals(
    k_c * device_parameters, "All of them, in the format that the matmuls take."
)
gathered_component.by(f"{LORA}; torchao, NF4Tensor (fsdp_pre_all_gather)", lora=True).equals(
    k_c * trained + frozen,
    "Adapters in the format that the matmuls take, frozen weights as they are stored.",
)

held_weights = of_zero(
    "memory.weights.held", r"M_{wh,c}", "weights of one component that one device has, wherever"
)
held_weights.where(zero=(0, 1, 2)).equals(
    k_w * trained + frozen, "k_w bytes for each trained parameter, and the frozen ones."
)
held_weights.where(zero=3).equals(
    (k_w * trained + frozen) / state_ranks,
    "As without ZeRO, divided over the devices that share the weight.",
)
weights_component = bytes_of_component(
    "memory.weights.component",
    r"M_{w,c}",
    "weights of one component on one device",
    source="PyTorch, CPUOffloadPolicy; DeepSpeed, offload_param",
).equals((1 - f_w) * held_weights, "But for the share that lies on the host.")

TRL = "TRL 1.9.0, trl/trainer/dpo_trainer.py and trl/models/utils.py"
held_reference = of_zero(
    "memory.weights.reference",
    r"M_{wr,c}",
    "weights of one component of the reference model that one device has, wherever",
    reference="held",
    lora=False,
)
held_reference.by(f"{TRL} (prepare_deepspeed)", zero=(0, 1, 2)).equals(
    k_ref * device_parameters, "A second model, which is only read: k_ref bytes for each weight."
)
held_reference.by(f"{TRL} (prepare_deepspeed, prepare_fsdp)", zero=3).equals(
    k_ref * device_parameters / state_ranks, "Divided as the trained weights are."
)

gradients_component = of_zero(
    "memory.gradients.component", r"M_{g,c}", "gradients of one component on one device"
)
gradients_component.where(zero=(0, 1)).equals(k_g * trained, "k_g bytes for each parameter.")
gradients_component.where(zero=(2, 3)).equals(
    k_g * trained / state_ranks,
    "k_g bytes for each parameter, divided over the devices that share it.",
)
updated_gradients = of_zero(
    "memory.gradients.updated",
    r"M_{gu,c}",
    "gradients that a device's update of one component reads",
)
updated_gradients.where(zero=(0, 2, 3)).equals(gradients_component, "All that the device has.")
updated_gradients.where(zero=1).equals(
    gradients_component / state_ranks, "Those of the parameters whose states it has."
)

per_parameter = in_bytes(
    "memory.optimizer.per_parameter", "K_o", "optimizer states of one parameter"
)
per_parameter.by("Loshchilov & Hutter 2019 (arXiv 1711.05101)", optimizer="adamw").equals(
    2 * k_o, "A first and a second moment."
)
per_parameter.by(
    "Dettmers et al. 2021 (arXiv 2110.02861), section 2", optimizer="adam-8bit", coefficient="bytes"
).equals(
    2 * (1 + make_fraction(4, 256)),
    "Two moments of one byte, and for each of them one fp32 scale for a block of 256.",
)
per_parameter.by("stochastic gradient descent", optimizer="sgd").equals(0, "No state.")
per_parameter.by(
    "Sutskever et al. 2013; Chen et al. 2023 (arXiv 2302.06675)", optimizer=("sgd-momentum", "lion")
).equals(k_o, "One momentum.")

MUON = "Jordan et al. 2024 (Muon)"
SOAP = "Vyas et al. 2024 (arXiv 2409.11321), section 6; github.com/nikhilvyas/SOAP"
ALIKE = ("adamw", "adam-8bit", "sgd", "sgd-momentum", "lion")

each = bytes_of_component(
    "memory.optimizer.each", r"k_{o,c}", "optimizer states of one parameter of a component"
)
each.by("one state has the shape of the weight", optimizer=ALIKE).equals(
    per_parameter, "The same for each parameter."
)
each.by(FACTORED, optimizer="adafactor", matrix=True).equals(
    k_o * (inputs + outputs + biases) / (inputs * outputs + biases),
    "Of a matrix, the sums of the rows and of the columns that the rank holds; biases in full.",
)
each.by(FACTORED, optimizer="adafactor", matrix=False).equals(
    k_o, "A vector keeps its second moment in full."
)
each.by(f"{MUON}; {MOONLIGHT}", optimizer="muon", hidden_matrix=True).equals(
    k_o * (inputs * outputs + 2 * biases) / (inputs * outputs + biases),
    "A momentum for each parameter of a hidden matrix; for its biases two moments.",
)
basis = partial(Quantity, source=SOAP, per="component", optimizer="soap", matrix=True)
_SHORT_ENOUGH = (
    "Its length up to the longest side that has one (2 less its multiples of that), 0 beyond."
)
basis_rows = basis(
    "memory.optimizer.basis_rows", "m_{Q}", "side of a matrix's basis of its rows, if it has one"
).equals(maximum(0, 2 - ceil(inputs / s_basis)) * inputs, _SHORT_ENOUGH)
basis_columns = basis(
    "memory.optimizer.basis_columns", "n_{Q}", "side of its basis of its columns, if it has one"
).equals(maximum(0, 2 - ceil(outputs * n_side / s_basis)) * outputs * n_side, _SHORT_ENOUGH)
each.by(SOAP, optimizer="soap", matrix=True, coefficient="bytes").equals(
    2 * k_o + 8 * (basis_rows**2 + basis_columns**2) / (n_side * (inputs * outputs + biases)),
    "Two moments; and of the matrix two squares of each side in fp32, how gradients correlate and "
    "the basis of that, but for a side that is longer than SOAP's longest.",
)
each.by(f"{SOAP}: as AdamW", optimizer="soap", matrix=False).equals(
    2 * k_o, "A vector has two moments."
)
each.by(
    f"{MUON}: AdamW for embeddings, head and vectors", optimizer="muon", hidden_matrix=False
).equals(2 * k_o, "Two moments, as AdamW keeps them.")

per_parameter.by(
    f"{SHAZEER}; {MUON}; {SOAP}", optimizer=("adafactor", "muon", "soap"), shape=True
).equals(
    Sum(L_k * Sum(each * component, "component"), "part") / parameters_total,
    "On average over the model: matrices and vectors keep different states.",
)
per_parameter.by(
    f"{MOONLIGHT}: one momentum buffer", optimizer="muon", shape=False, exact=False
).equals(
    k_o,
    "A momentum, as if every parameter were one of a hidden matrix; embeddings, head and vectors "
    "keep a moment more.",
)

states = bytes_of_component(
    "memory.optimizer.states",
    r"K_{o,c}",
    "optimizer states of one component, before they are divided",
    source="the optimizer's states of each parameter",
).equals(each * trained, "Those of each parameter that is trained.")

held_states = of_zero(
    "memory.optimizer.held",
    r"M_{oh,c}",
    "master weights and optimizer states of one component that one device has, wherever",
)
held_states.where(zero=0).equals(
    (k_m + k_G) * trained + states,
    "A master weight, the gradient's copy where the recipe keeps one, the optimizer's states.",
)
held_states.where(zero=(1, 2, 3)).equals(
    ((k_m + k_G) * trained + states) / state_ranks,
    "As without ZeRO, divided over the devices that share the weight.",
)
paged = bytes_of_component(
    "memory.optimizer.paged",
    r"M_{op,c}",
    "optimizer states of one component in memory that device and host share",
    source="bitsandbytes, optim/optimizer.py (get_state_buffer)",
)
paged.where(optimizer_paged=False).equals(0, "None.")
for _name, _bytes in ((("adamw", "lion"), each), ("adam-8bit", 2)):
    for _zero, _owners in ((0, 1), ((1, 2, 3), state_ranks)):
        paged.where(optimizer_paged=True, optimizer=_name, zero=_zero, coefficient="bytes").equals(
            _bytes * trained / _owners, "The states; scales of their blocks stay on the device."
        )
optimizer_component = bytes_of_component(
    "memory.optimizer.component",
    r"M_{o,c}",
    "master weights and optimizer states of one component on one device",
    source=f"{REN}; Megatron-Core, optimizer/cpu_offloading (optimizer-offload-fraction)",
).equals((1 - f_o) * held_states - paged, "But for what is paged, or lies on the host.")

steps = bytes_of_component(
    "memory.optimizer.steps",
    r"M_{t,c}",
    "step counters of one component",
    source="PyTorch (torch.optim keeps one for each weight tensor that it updates)",
)
steps.where(lora=False).equals(k_t * tensors_c, "One number for each tensor, not divided.")
steps.by(LORA, lora=True, adapted=False).equals(0, "The component is frozen.")
steps.by(LORA, lora=True, adapted=True).equals(
    (2 + p_dora) * k_t, "One for each matrix of its adapter, and one for magnitudes."
)

# -- sums over a stage --------------------------------------------------------------------------


def _stage(name: str, latex: str, title: str, attribution: str = "") -> Quantity:
    """Declare the sum over the layers of a stage, in bytes.

    Args:
        name: middle of its id.
        latex: its symbol.
        title: for people.
        attribution: the part of the memory that it is counted under.
    """
    source = "sum over the layers of the stage"
    return bytes_of_stage(
        f"memory.{name}.stage", latex, title, short=name, attribution=attribution, source=source
    )


teacher_weights = in_bytes(
    "memory.weights.teacher",
    "M_w,tea",
    "weights of the teacher that one device has, wherever",
    exact=False,
    reference="held",
    teacher=True,
)
_even = k_ref * P_tea / (t * p)
_WHOLE = "accelerate 1.15.0, accelerator.py (prepare_model with evaluation_mode)"
teacher_weights.by(TRL, zero=(0, 1, 2)).equals(
    _even, "k_ref bytes for each weight, an even share of them on each stage and tensor rank."
)
teacher_weights.by(_WHOLE, zero=3, teacher_whole=True).equals(_even, "FSDP shards no teacher.")
teacher_weights.by(
    f"{TRL} (prepare_deepspeed); torchtune 0.6.1, knowledge_distillation_distributed.py",
    zero=3,
    teacher_whole=False,
).equals(_even * r / (data * c), "Divided over the data-parallel devices too.")

_AT_MOST_ONCE = "Each component as often as the stage holds it, a tied matrix at most once."
#: Where no second model is held, by ``training.reference``.
NO_SECOND = (None, "base", "precomputed")
weights_stage = _stage("weights", r"M_{w,\sigma}", "weights of one device of a stage", "weights")
weights_stage.where(reference=NO_SECOND).equals(
    Sum(copies_on_stage * weights_component, "component"), _AT_MOST_ONCE
)
weights_stage.by(TRL, reference="held", teacher=False).equals(
    Sum(copies_on_stage * (weights_component + (1 - f_w) * held_reference), "component"),
    f"{_AT_MOST_ONCE[:-1]}; and those of the reference model, but for the share on the host.",
)

weights_stage.where(reference="held", teacher=True).equals(
    Sum(copies_on_stage * weights_component, "component") + (1 - f_w) * teacher_weights,
    f"{_AT_MOST_ONCE[:-1]}; and those of the teacher, but for the share on the host.",
)

gradients_stage = _stage("gradients", r"M_{g,\sigma}", "gradients of one device of a stage").equals(
    Sum(copies_on_stage * gradients_component, "component"), _AT_MOST_ONCE
)

optimizer_stage = _stage(
    "optimizer", r"M_{o,\sigma}", "optimizer states of one device of a stage", "optimizer states"
).equals(
    Sum(copies_on_stage * (optimizer_component + steps), "component"),
    "Each component as often as the stage holds it, with the step counters of its tensors.",
)

bytes_per_parameter = in_bytes(
    "memory.bytes_per_parameter",
    "K",
    "bytes of weight, gradient and optimizer for one parameter, nothing divided",
    source="the recipe of the precision (training.bytes)",
).equals(
    k_w + k_g + k_m + k_G + per_parameter,
    "Weight, gradient, master weight, the gradient's copy and the optimizer's states.",
)
