"""A Graph pass: the network in training mode, with parameters as variables.

Parameters become values that are carried from step to step. Values that were folded from them are
computed in each step, Dropout masks are multiplied in, and BatchNorm uses the statistics of its
batch.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import MappingProxyType

import numpy as np

from nbglcnn.errors import InputError, UnsupportedModel, suggest_names
from nbglcnn.features.edits.bent_graph import insert_nodes_at_keys
from nbglcnn.gradients.autodiff import make_gradient_builder
from nbglcnn.gradients.weight_recomputation import unfold_constants
from nbglcnn.graph import Carry, Graph, Node, Value, ValueKey
from nbglcnn.load.training_mode import (
    DROPOUT_SUFFIX,
    BatchNormSpec,
    DropoutSpec,
    TrainingMode,
    dropout_keys,
)
from nbglcnn.lowering.batch_axes import BatchAxes
from nbglcnn.lowering.receptive_fields import ReceptiveFields
from nbglcnn.lowering.shape_inference import infer_shapes, layer_name
from nbglcnn.ops.gradient_builder import GradientBuilder
from nbglcnn.ops.norm_gradient import mean as mean_of
from nbglcnn.ops.norm_gradient import reshape_per_channel

TRAIN_SECTION = "train"  # the section of a training step
SEED, EXAMPLE_WEIGHTS, STEPS = "seed", "weights", "steps"  # roles of a step's further inputs
FLOAT32 = np.dtype(np.float32)
MAX_MASK_ELEMENTS = 2**24  # per Dropout mask: float32 counts integers exactly up to here

# The PCG hash of Jarzynski and Olano (2020), of the indices of element, step and layer.
MASK_GLSL = "\n".join([
    "uvec4 h = (uvec4(a) * 747796405u + uvec4(b) * 2891336453u + uint(u_layer)) * 747796405u",
    "  + 2891336453u;",
    "h = ((h >> ((h >> 28u) + 4u)) ^ h) * 277803737u;",
    "h = (h >> 22u) ^ h;",
    "h = h * 747796405u + 2891336453u;",
    "h = ((h >> ((h >> 28u) + 4u)) ^ h) * 277803737u;",
    "h = (h >> 22u) ^ h;",
    "return select(lessThan(vec4(h >> 8u), vec4(u_least)), vec4(0.0), vec4(1.0));",
])  # fmt: skip


@dataclass(frozen=True, slots=True)
class TrainableGraph:
    """A network in training mode.

    `graph` has inferred shapes; its carries are BatchNorm's running statistics. `parameter_names`
    maps each trained value to its first name; `initial_values` maps trained values and statistics
    to their initial constants. `input_values` maps the role of each further input to its value: the
    "seed" of Dropout's masks, the "weights" (batch,) of the examples, and "steps", the number of
    steps including this one.
    """

    graph: Graph
    parameter_names: Mapping[str, str]
    initial_values: Mapping[str, str]
    input_values: Mapping[str, str]


def select_parameters(
    graph: Graph, mode: TrainingMode, selection: str | Sequence[str]
) -> dict[str, str]:
    """Select the parameters to train; return their values, each with its first name.

    `selection` is "all" or a list of names, modules, or fnmatch patterns ("decoder.*").

    Raises:
        KeyError: If a name or pattern matches no parameter.
        InputError: If no parameter is left to train.
    """
    names = [
        name for name, value in graph.parameters.items()
        if graph.values[value].dtype.kind == "f" and name not in _buffer_names(graph)
        and value not in mode.dropouts
    ]  # fmt: skip
    patterns = [selection] if isinstance(selection, str) else [*selection]
    if selection == "all":
        found = [name for name in names if name not in mode.frozen]
    else:
        found = []
        for pattern in patterns:
            if not isinstance(pattern, str):
                raise InputError(f"parameters={selection!r}: names and patterns must be strings")
            fits = [n for n in names if fnmatchcase(n, pattern) or n.startswith(f"{pattern}.")]
            if not fits:
                known = "" if len(names) > 20 else f"; this model's are {', '.join(names)}"
                near = suggest_names(pattern, _suggest_patterns(names, pattern))
                raise KeyError(f"parameters: no parameter matches {pattern!r}{near}{known}")
            found += fits
    if not found:
        why = "all of them have requires_grad=False" if names else "the model has none"
        raise InputError(f"parameters={selection!r}: no parameter is left to train: {why}")
    for name in found:
        if name in graph.constant_reads:
            raise UnsupportedModel(
                f"{name} cannot be trained: the computation depends on its values (an `if`, a "
                "loop or a size in forward, or a NumPy array that shares its memory). Exclude it "
                "from `parameters`"
            )
    own = {graph.parameters[name] for name in found}
    first: dict[str, str] = {}
    for name, value in graph.parameters.items():
        if value in own:
            first.setdefault(value, name)
    return first


def _suggest_patterns(names: Sequence[str], pattern: str) -> list[str]:
    """Candidates for a suggestion: parameters and modules, or modules with the pattern's suffix."""
    parts = [name.split(".") for name in names]
    modules = dict.fromkeys(".".join(one[:k]) for one in parts for k in range(1, len(one)))
    end = pattern[len(pattern.rstrip(".*?")) :]
    return [name + end for name in modules] if end else [*names, *modules]


def _buffer_names(graph: Graph) -> set[str]:
    """The names of buffers, and of BatchNorm statistics, which an ONNX file doesn't mark."""
    values = {name for node in graph.nodes if node.op == "BatchNormalization"
              for name in node.inputs[3:5]}  # fmt: skip
    return set(graph.buffers) | {n for n, value in graph.parameters.items() if value in values}


def make_trainable(
    graph: Graph, mode: TrainingMode, parameters: Mapping[str, str], *, min_batch: int
) -> TrainableGraph:
    """Convert a loaded network to training mode, with all nodes in the section "train".

    Args:
        graph: The loaded network.
        mode: How its modules behave in training mode.
        parameters: The values to train, each with its first name (`select_parameters`).
        min_batch: The size of the smallest batch. If it is below the graph's, the input "weights"
            (batch,) is 1 for real examples and 0 for padding.

    Raises:
        UnsupportedModel: If a BatchNorm has a single value per channel, or a mask is too large.
    """
    graph = infer_shapes(unfold_constants(graph, parameters))
    _check_partial_batch(graph, min_batch)
    inputs = {name: _unique_name(name, graph) for name in (SEED, EXAMPLE_WEIGHTS, STEPS)}
    begins: dict[str, str] = {}
    values = dict(graph.values)
    _make_variables(values, begins, parameters)
    for name, value in inputs.items():
        shape = (graph.shape(graph.inputs[0])[0],) if name == EXAMPLE_WEIGHTS else ()
        values[value] = Value(value, shape, FLOAT32)
    nodes = tuple(replace(node, section=TRAIN_SECTION) for node in graph.nodes)
    graph = replace(graph, nodes=nodes, values=MappingProxyType(values))
    graph, masks = _apply_dropout(graph, mode, inputs[SEED])
    builder = make_gradient_builder(graph, section=TRAIN_SECTION, prefix="batchnorm")
    masked = min_batch < graph.shape(inputs[EXAMPLE_WEIGHTS])[0]
    statistics = _BatchNormStatistics(builder, inputs, min_batch if masked else None)
    for node in graph.nodes:
        norm = mode.norm_spec(node) if node.op == "BatchNormalization" else None
        builder.nodes.append(node if norm is None else statistics.with_batch_statistics(node, norm))
    values = dict(builder.values)
    _make_variables(values, begins, statistics.updated_values)
    carries = tuple(Carry(new, old, begins[old]) for old, new in statistics.updated_values.items())
    used = {name for node in builder.nodes for name in node.inputs}
    used |= {inputs[EXAMPLE_WEIGHTS]} if masked else set()
    added = {name: value for name, value in inputs.items() if value in used}
    keys = [ValueKey(name, value, "input") for name, value in added.items()]
    keys += [ValueKey(f"{name}.mask", value, "layer") for name, value in masks.items()]
    graph = replace(
        graph, nodes=tuple(builder.nodes), values=MappingProxyType(values), carries=carries,
        inputs=(*graph.inputs, *added.values()), keys=(*graph.keys, *keys),
        parameters={n: begins.get(v, v) for n, v in graph.parameters.items()},
    )  # fmt: skip
    return TrainableGraph(graph, parameters, begins, added)


def _unique_name(name: str, graph: Graph) -> str:
    taken = {*graph.values, *(key.name for key in graph.keys)}
    while name in taken:
        name += "_"
    return name


def _make_variables(
    values: dict[str, Value], initial_names: dict[str, str], constants: Collection[str]
) -> None:
    """Turn constants into computed values, and keep their data as initial values."""
    for name in constants:
        initial_names[name] = f"{name} at first"
        while initial_names[name] in values:
            initial_names[name] += "'"
        values[initial_names[name]] = replace(values[name], name=initial_names[name])
        values[name] = replace(values[name], data=None)


# Dropout


def _apply_dropout(graph: Graph, mode: TrainingMode, seed: str) -> tuple[Graph, dict[str, str]]:
    """Add the Dropouts; return the Graph and the masks by the key of the layer."""
    builder = make_gradient_builder(graph, section=TRAIN_SECTION, prefix="dropout")
    masks: dict[str, str] = {}
    drops = dropout_keys(mode, graph)
    between: dict[str, Value] = {}

    def of_layer(key: ValueKey, value: str, name: str) -> list[Node]:
        drop, shape = drops[key.name], graph.shape(key.value_name)
        masks[key.name] = mask = _dropout_mask(builder, drop, shape, seed, key.name, len(masks))
        factor = builder.scale(mask, drop.scale)
        where = Node(f"{name}/Mul", "Mul", (value, factor), (name,), module=key.name,
                     module_type=key.module_type, module_call=key.module_call or "",
                     section=TRAIN_SECTION)  # fmt: skip
        if not (drop.fill or drop.shift):
            return [where]
        # x · mask · scale + fill · (1 − mask) · scale + shift
        rest = builder.apply_glsl("return u_fill * (1.0 - a) + u_shift;", mask,
                                fill=drop.fill * drop.scale, shift=drop.shift)  # fmt: skip
        kept = f"{name} kept"
        between[kept] = Value(kept, shape, FLOAT32)
        added = replace(where, name=f"{name}/Add", op="Add", inputs=(kept, rest))
        return [replace(where, outputs=(kept,)), added]

    with_dropouts = insert_nodes_at_keys(graph, drops, "dropped", of_layer)
    ones = {
        graph.parameters[name]: (name, drop)
        for name, drop in mode.dropouts.items() if name in graph.parameters
    }  # fmt: skip
    nodes = []
    for node in with_dropouts.nodes:
        for own in ones.keys() & set(node.inputs):
            name, drop = ones[own]
            key = name.removesuffix(DROPOUT_SUFFIX)
            shape = graph.shape(node.outputs[0])
            masks[key] = mask = _dropout_mask(builder, drop, shape, seed, key, len(masks))
            factor = builder.scale(mask, drop.scale)
            node = replace(node, inputs=tuple(factor if n == own else n for n in node.inputs))
        nodes.append(node)
    values = {**with_dropouts.values, **builder.values, **between}
    whole = replace(with_dropouts, nodes=(*builder.nodes, *nodes), values=MappingProxyType(values))
    return whole, masks


def _dropout_mask(
    builder: GradientBuilder,
    dropout: DropoutSpec,
    shape: tuple[int, ...],
    seed: str,
    name: str,
    layer_number: int,
) -> str:
    """A Dropout mask: 1 for kept elements, 0 for dropped ones."""
    kept = {"elements": len(shape), "channels": 2, "examples": 1}[dropout.granularity]
    own = (*shape[:kept], *[1] * (len(shape) - kept))
    count = math.prod(own)
    if count > MAX_MASK_ELEMENTS:
        raise UnsupportedModel(
            f"{name}: a Dropout of {count:,} elements; at most {MAX_MASK_ELEMENTS:,} are "
            "supported. Train with a smaller batch"
        )
    numbers = builder.add_constant(np.arange(count, dtype=np.float32).reshape(own))
    return builder.apply_glsl(
        MASK_GLSL, numbers, seed, layer=float(layer_number), least=dropout.p * 2.0**24
    )


def _check_partial_batch(graph: Graph, min_batch_size: int) -> None:
    """Raise UnsupportedModel if examples depend on each other and a batch may be partial.

    Padding examples would affect the real ones. BatchNorms with running statistics are allowed:
    they exclude the padding.
    """
    batch = graph.shape(graph.inputs[0])[0]
    if min_batch_size >= batch:
        return
    examples = BatchAxes(graph, ReceptiveFields(graph), batch)
    mixing = (examples.mixing_node(name) for name in graph.outputs)
    if (node := next(filter(None, mixing), None)) is not None:
        raise UnsupportedModel(
            f"{layer_name(node)}: it computes across the examples of a batch (as BatchNorm with "
            f"track_running_stats=False does), and the last batch of an epoch has {min_batch_size} "
            f"of {batch}. Give a batch_size that divides the number of examples, or remove some"
        )


# BatchNorm


class _BatchNormStatistics:
    """Converts BatchNorms to the batch's own statistics.

    `updated_values` maps running statistics to their updated values.
    """

    def __init__(
        self, builder: GradientBuilder, inputs: Mapping[str, str], min_batch: int | None
    ) -> None:
        self.updated_values: dict[str, str] = {}
        self._builder = builder
        self._steps = inputs[STEPS]
        self._min_batch = min_batch
        self._weights = inputs[EXAMPLE_WEIGHTS] if min_batch is not None else ""
        self._batch_ratio = ""  # batch size / number of real examples

    def with_batch_statistics(self, node: Node, norm: BatchNormSpec) -> Node:
        """Return the node with the batch's mean and variance; add the nodes that compute both."""
        builder, x = self._builder, node.inputs[0]
        shape = builder.shape(x)
        if (
            node.inputs[3] not in self.updated_values
            and builder.constant_data(node.inputs[3]) is None
        ):
            raise UnsupportedModel(
                f"{layer_name(node)}: forward itself puts this BatchNorm into training mode, so "
                "its running statistics cannot be kept. Remove that call: during training all "
                "modules are in training mode"
            )
        count = math.prod(shape) // max(1, shape[1])
        if count < 2 or (self._min_batch == 1 and count == shape[0]):
            where = "" if count < 2 else ", in the last batch of an epoch, which has 1 example"
            raise UnsupportedModel(
                f"{layer_name(node)}: BatchNorm has a single value per channel ({shape}){where}, "
                "which has no variance. Train with another batch_size, or call .eval() on it"
            )
        if node.inputs[3] in self.updated_values and norm.momentum is None:
            raise UnsupportedModel(
                f"{layer_name(node)}: a BatchNorm with momentum=None that is called twice; give "
                "it a momentum"
            )
        axes = [axis for axis in range(len(shape)) if axis != 1]
        mean, variance = self._mean_and_variance(x, axes)
        unbiased: tuple[str, ...] = (variance,)
        text = "return a + (b * u_count / (u_count - 1.0) - a) * "
        if self._weights:
            unbiased, text = (
                (variance, self._batch_ratio),
                ("return a + (b * u_count / (u_count - c) - a) * "),
            )
        self._update_running(node.inputs[3], "return a + (b - a) * ", (mean,), norm)
        self._update_running(node.inputs[4], text, unbiased, norm, count=float(count))
        return replace(node, inputs=(*node.inputs[:3], mean, variance))

    def _mean_and_variance(self, x: str, axes: Sequence[int]) -> tuple[str, str]:
        """The mean and the population variance of each channel, each of shape (channels,)."""
        builder = self._builder
        shape = builder.shape(x)
        if not self._weights:
            mean = builder.reshape(mean_of(builder, x, axes), shape[1:2])
            return mean, builder.add_node("BatchVariance", x, mean)
        if not self._batch_ratio:
            self._batch_ratio = builder.apply_glsl(
                "return u_examples / a;", builder.sum(self._weights, [0], keepdims=False),
                examples=float(shape[0]),
            )  # fmt: skip
        own = builder.reshape(self._weights, (shape[0], *[1] * (len(shape) - 1)))
        mean = mean_of(builder, builder.multiply(x, own), axes)
        mean = builder.multiply(builder.reshape(mean, shape[1:2]), self._batch_ratio)
        is_example = builder.add_node(
            "Greater", own, builder.add_scalar(0), dtype=np.dtype(np.bool_)
        )
        # Padding examples get the mean, which adds nothing to the variance.
        filled = builder.add_node(
            "Where", is_example, x, reshape_per_channel(builder, mean, len(shape))
        )
        return mean, builder.multiply(
            builder.add_node("BatchVariance", filled, mean), self._batch_ratio
        )

    def _update_running(
        self, old: str, glsl: str, new: Sequence[str], norm: BatchNormSpec, **numbers: float
    ) -> None:
        now = self.updated_values.get(old, old)
        if norm.momentum is None:
            operands = (now, *new, self._steps)
            factor = f"1.0 / (u_batches + {'abcd'[len(new) + 1]})"
            numbers["batches"] = float(norm.batch_count)
        else:
            operands, factor = (now, *new), "u_momentum"
            numbers["momentum"] = float(norm.momentum)
        self.updated_values[old] = self._builder.apply_glsl(
            f"{glsl}{factor};", *operands, **numbers
        )
