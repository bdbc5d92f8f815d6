"""How many parameters, and where they sit. All exact."""

from typing import Any

from planner.book.notation import L_k, N_given, applied, copies, n_in, n_out
from planner.book.quantity import quantity
from planner.book.reductions import Total

SHAPES = "shapes of the weights"
COMPONENT: dict[str, Any] = {
    "identifier": "parameters.component",
    "symbol": "N_c",
    "unit": "parameters",
    "title": "parameters of one component",
    "source": SHAPES,
    "per": ("component",),
}


@quantity(**COMPONENT, when={"type": "linear", "bias": False, "shared": False})
def component():
    """A weight matrix of input width times output width, once for each copy."""
    return copies * n_in * n_out


@quantity(**COMPONENT, when={"type": "linear", "bias": True, "shared": False})
def component_with_bias():
    """A weight matrix and one bias for each output, once for each copy."""
    return copies * (n_in * n_out + n_out)


@quantity(**COMPONENT, when={"shared": True, "bias": False})
def component_tied():
    """The weight is tied to another one and counted there."""
    return 0


@quantity(**COMPONENT, when={"shared": True, "bias": True})
def component_tied_with_bias():
    """The weight is tied to another one and counted there; the bias is its own."""
    return n_out


@quantity(**COMPONENT, when={"type": "table", "shared": False})
def component_table():
    """One row of the embedding's width for each entry of the table."""
    return n_in * n_out


@quantity(**COMPONENT, when={"type": "conv", "bias": False, "shared": False})
def component_conv():
    """A depthwise convolution has one weight for each position of its kernel and each channel."""
    return n_in * n_out


@quantity(**COMPONENT, when={"type": "conv", "bias": True, "shared": False})
def component_conv_with_bias():
    """One weight for each position of the kernel and each channel, and a bias for each channel."""
    return n_in * n_out + n_out


@quantity(**COMPONENT, when={"type": ("norm", "vector"), "bias": False, "shared": False})
def component_norm():
    """One weight for each element."""
    return copies * n_out


@quantity(**COMPONENT, when={"type": ("norm", "vector"), "bias": True, "shared": False})
def component_norm_with_bias():
    """One weight and one bias for each element."""
    return copies * 2 * n_out


@quantity(**COMPONENT, when={"type": ("core", "index", "scan"), "shared": False})
def component_core():
    """Activations are multiplied with each other; there are no weights."""
    return 0


@quantity(
    "parameters.layer",
    symbol=r"N_{\ell}",
    unit="parameters",
    title="parameters of one layer",
    source=SHAPES,
    per=("part",),
)
def layer():
    """The sum over the components of the layer."""
    return Total(component, "component")


@quantity(
    "parameters.total",
    symbol="N",
    unit="parameters",
    title="parameters",
    source=SHAPES,
    when={"model.shape": True},
)
def total():
    """Each part as often as it occurs; tied tensors are counted once."""
    return Total(L_k * layer, "part")


@quantity(
    "parameters.total",
    symbol="N",
    unit="parameters",
    title="parameters",
    source="the plan (model.parameters)",
    when={"model.shape": False},
)
def total_given():
    """The size that the plan states."""
    return N_given


@quantity(
    "parameters.component_active",
    symbol=r"N_c^{\mathrm{act}}",
    unit="parameters",
    title="parameters of one component that a token uses",
    source=SHAPES,
    per=("component",),
)
def component_active():
    """Of the experts, the chosen ones; everything else is used in full."""
    return component * applied / copies


@quantity(
    "parameters.active",
    symbol=r"N_{\mathrm{act}}",
    unit="parameters",
    title="parameters used by one token",
    source=SHAPES,
    when={"model.shape": True},
)
def active():
    """As the total, with the chosen experts instead of all."""
    return Total(L_k * Total(component_active, "component"), "part")


@quantity(
    "parameters.active",
    symbol=r"N_{\mathrm{act}}",
    unit="parameters",
    title="parameters used by one token",
    source="the plan (model.parameters)",
    when={"model.shape": False},
)
def active_given():
    """A model given by its size alone is taken as dense."""
    return total


@quantity(
    "parameters.embedding",
    symbol=r"N_{\mathrm{emb}}",
    unit="parameters",
    title="parameters of embedding tables",
    source=SHAPES,
    when={"model.shape": True},
)
def embedding():
    """Every table that is looked up: tokens, learned positions, segments, biases by distance."""
    return Total(L_k * Total(component, "component", type="table"), "part")


@quantity(
    "parameters.head",
    symbol=r"N_{\mathrm{head}}",
    unit="parameters",
    title="parameters of the output head",
    source=SHAPES,
    when={"model.shape": True},
)
def head():
    """The matrix over the vocabulary and its bias; 0 where it is the token embedding."""
    return Total(L_k * Total(component, "component", group="head", shared=False), "part")


@quantity(
    "parameters.non_embedding",
    symbol=r"N_{\overline{\mathrm{emb}}}",
    unit="parameters",
    title="parameters without embeddings and output head",
    source="Kaplan et al. 2020 (arXiv 2001.08361), section 2.1",
    when={"model.shape": True},
)
def non_embedding():
    """What scaling laws count: neither the tables nor the matrix over the vocabulary."""
    return total - embedding - head


@quantity(
    "parameters.routed_experts",
    symbol=r"N_{\mathrm{exp}}",
    unit="parameters",
    title="parameters of routed experts",
    source=SHAPES,
    when={"model.shape": True},
)
def routed_experts():
    """All copies of all experts, whether a token uses them or not."""
    return Total(L_k * Total(component, "component", split="experts"), "part")


@quantity(
    "parameters.per_layer",
    symbol=r"\bar N_{\ell}",
    unit="parameters",
    title="parameters of one layer, on average",
    source=SHAPES,
    when={"model.shape": True},
)
def per_layer():
    """The sum over the layers, over their number; layers of one kind are all alike."""
    layers = Total(L_k, "part", layers=True)
    return Total(L_k * layer, "part", layers=True) / layers
