"""How many parameters, and where they sit. All exact."""

from planner.book.language import *

SHAPES = "shapes of the weights"

of_shape = partial(Quantity, unit="parameters", source=SHAPES, shape=True)
counted = partial(Quantity, unit="parameters", source=SHAPES)
parameters = partial(Quantity, unit="parameters")

component = counted("parameters.component", "N_c", "parameters of one component", per="component")
component.where(type="linear", bias=False, shared=False).equals(
    copies * n_in * n_out, "A weight matrix of input width times output width, once for each copy."
)
component.where(type="linear", bias=True, shared=False).equals(
    copies * (n_in * n_out + n_out),
    "A weight matrix and one bias for each output, once for each copy.",
)
component.where(shared=True, bias=False).equals(
    0, "The weight is tied to another one and counted there."
)
component.where(shared=True, bias=True).equals(
    n_out, "The weight is tied to another one and counted there; the bias is its own."
)
component.where(type="table", shared=False).equals(
    n_in * n_out, "One row of the embedding's width for each entry of the table."
)
component.where(type="conv", bias=False, shared=False).equals(
    n_in * n_out,
    "A depthwise convolution has one weight for each position of its kernel and each channel.",
)
component.where(type="conv", bias=True, shared=False).equals(
    n_in * n_out + n_out,
    "One weight for each position of the kernel and each channel, and a bias for each channel.",
)
component.where(type=("norm", "vector"), bias=False, shared=False).equals(
    copies * n_out, "One weight for each element."
)
component.where(type=("norm", "vector"), bias=True, shared=False).equals(
    copies * 2 * n_out, "One weight and one bias for each element."
)
component.where(type=("core", "index", "scan"), shared=False).equals(
    0, "Activations are multiplied with each other; there are no weights."
)

layer = counted("parameters.layer", r"N_{\ell}", "parameters of one layer", per="part").equals(
    Sum(component, "component"), "The sum over the components of the layer."
)

parameters_total = parameters("parameters.total", "N", "parameters")
parameters_total.by(SHAPES, shape=True).equals(
    Sum(L_k * layer, "part"), "Each part as often as it occurs; tied tensors are counted once."
)
parameters_total.by("the plan (model.parameters)", shape=False).equals(
    N_given, "The size that the plan states."
)

component_active = counted(
    "parameters.component_active",
    "N_c^act",
    "parameters of one component that a token uses",
    per="component",
).equals(
    component * applied / copies,
    "Of the experts, the chosen ones; everything else is used in full.",
)

active = parameters("parameters.active", "N_act", "parameters used by one token")
active.by(SHAPES, shape=True).equals(
    Sum(L_k * Sum(component_active, "component"), "part"),
    "As the total, with the chosen experts instead of all.",
)
active.by("the plan (model.parameters)", shape=False).equals(
    parameters_total, "A model given by its size alone is taken as dense."
)

embedding = of_shape("parameters.embedding", "N_emb", "parameters of embedding tables").equals(
    Sum(L_k * Sum(component, "component", type="table"), "part"),
    "Every table that is looked up: tokens, learned positions, segments, biases by distance.",
)

head = of_shape("parameters.head", "N_head", "parameters of the output head").equals(
    Sum(L_k * Sum(component, "component", group="head", shared=False), "part"),
    "The matrix over the vocabulary and its bias; 0 where it is the token embedding.",
)

non_embedding = parameters(
    "parameters.non_embedding",
    r"N_{\overline{\mathrm{emb}}}",
    "parameters without embeddings and output head",
    source=KAPLAN,
    shape=True,
).equals(
    parameters_total - embedding - head,
    "What scaling laws count: neither the tables nor the matrix over the vocabulary.",
)

routed_experts = of_shape(
    "parameters.routed_experts", "N_exp", "parameters of routed experts"
).equals(
    Sum(L_k * Sum(component, "component", split="experts"), "part"),
    "All copies of all experts, whether a token uses them or not.",
)

per_layer = of_shape(
    "parameters.per_layer", r"\bar N_{\ell}", "parameters of one layer, on average"
).equals(
    Sum(L_k * layer, "part", layers=True) / Sum(L_k, "part", layers=True),
    "The sum over the layers, over their number; layers of one kind are all alike.",
)
