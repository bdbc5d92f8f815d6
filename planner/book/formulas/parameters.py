"""How many parameters, and where they sit. All exact."""

from functools import partial

from planner.book.notation import L_k, N_given, applied, copies, n_in, n_out
from planner.book.quantity import Quantity
from planner.book.reductions import Sum

SHAPES = "shapes of the weights"

of_shape = partial(Quantity, unit="parameters", source=SHAPES, shape=True)
counted = partial(Quantity, unit="parameters", source=SHAPES)
parameters = partial(Quantity, unit="parameters")

component = counted("parameters.component", "N_c", "parameters of one component", per="component")
component.where(type="linear", bias=False, shared=False).equals(
    copies * n_in * n_out, "A weight matrix of input width times output width, once for each copy."
)


@component.where(type="linear", bias=True, shared=False)
def _():
    """A weight matrix and one bias for each output, once for each copy."""
    return copies * (n_in * n_out + n_out)


component.where(shared=True, bias=False).equals(
    0, "The weight is tied to another one and counted there."
)
component.where(shared=True, bias=True).equals(
    n_out, "The weight is tied to another one and counted there; the bias is its own."
)
component.where(type="table", shared=False).equals(
    n_in * n_out, "One row of the embedding's width for each entry of the table."
)


@component.where(type="conv", bias=False, shared=False)
def _():
    """A depthwise convolution has one weight for each position of its kernel and each channel."""
    return n_in * n_out


@component.where(type="conv", bias=True, shared=False)
def _():
    """One weight for each position of the kernel and each channel, and a bias for each channel."""
    return n_in * n_out + n_out


component.where(type=("norm", "vector"), bias=False, shared=False).equals(
    copies * n_out, "One weight for each element."
)
component.where(type=("norm", "vector"), bias=True, shared=False).equals(
    copies * 2 * n_out, "One weight and one bias for each element."
)
component.where(type=("core", "index", "scan"), shared=False).equals(
    0, "Activations are multiplied with each other; there are no weights."
)


@counted("parameters.layer", r"N_{\ell}", "parameters of one layer", per="part")
def layer():
    """The sum over the components of the layer."""
    return Sum(component, "component")


total = parameters("parameters.total", "N", "parameters")
total.where(shape=True, source=SHAPES).equals(
    Sum(L_k * layer, "part"), "Each part as often as it occurs; tied tensors are counted once."
)
total.where(shape=False, source="the plan (model.parameters)").equals(
    N_given, "The size that the plan states."
)


@counted(
    "parameters.component_active",
    r"N_c^{\mathrm{act}}",
    "parameters of one component that a token uses",
    per="component",
)
def component_active():
    """Of the experts, the chosen ones; everything else is used in full."""
    return component * applied / copies


active = parameters("parameters.active", r"N_{\mathrm{act}}", "parameters used by one token")


@active.where(shape=True, source=SHAPES)
def _():
    """As the total, with the chosen experts instead of all."""
    return Sum(L_k * Sum(component_active, "component"), "part")


active.where(shape=False, source="the plan (model.parameters)").equals(
    total, "A model given by its size alone is taken as dense."
)


@of_shape("parameters.embedding", r"N_{\mathrm{emb}}", "parameters of embedding tables")
def embedding():
    """Every table that is looked up: tokens, learned positions, segments, biases by distance."""
    return Sum(L_k * Sum(component, "component", type="table"), "part")


@of_shape("parameters.head", r"N_{\mathrm{head}}", "parameters of the output head")
def head():
    """The matrix over the vocabulary and its bias; 0 where it is the token embedding."""
    return Sum(L_k * Sum(component, "component", group="head", shared=False), "part")


@parameters(
    "parameters.non_embedding",
    r"N_{\overline{\mathrm{emb}}}",
    "parameters without embeddings and output head",
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1",
    shape=True,
)
def non_embedding():
    """What scaling laws count: neither the tables nor the matrix over the vocabulary."""
    return total - embedding - head


@of_shape("parameters.routed_experts", r"N_{\mathrm{exp}}", "parameters of routed experts")
def routed_experts():
    """All copies of all experts, whether a token uses them or not."""
    return Sum(L_k * Sum(component, "component", split="experts"), "part")


@of_shape("parameters.per_layer", r"\bar N_{\ell}", "parameters of one layer, on average")
def per_layer():
    """The sum over the layers, over their number; layers of one kind are all alike."""
    layers = Sum(L_k, "part", layers=True)
    return Sum(L_k * layer, "part", layers=True) / layers
