"""A training step as one Graph: the network in training mode, its loss, gradients and update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nbglcnn.errors import InputError, UnsupportedModel
from nbglcnn.features.training.edit_points import add_edit_points
from nbglcnn.features.training.optimizers import Optimizer, clip_gradients
from nbglcnn.features.training.trainable import (
    EXAMPLE_WEIGHTS,
    FLOAT32,
    TRAIN_SECTION,
    TrainableGraph,
    make_trainable,
)
from nbglcnn.gradients.autodiff import append_nodes, differentiate, make_gradient_builder
from nbglcnn.graph import Carry, Graph, Value, ValueKey
from nbglcnn.load.training_mode import TrainingMode
from nbglcnn.losses import Loss, target_shape, unknown_loss_message
from nbglcnn.ops.gradient_builder import GradientBuilder

LOSS, TARGET = "loss", "target"
GRADIENT_PREFIX = "gradient of "  # prefix of the keys of gradients


@dataclass(frozen=True, slots=True)
class TrainStep:
    """A training step.

    `graph` has the key "loss", shape (2,): the loss, and a number that is finite if all updated
    parameters are. `input_keys` maps the role of each further input to its key: "target",
    "weights", "seed", "steps", and the optimizer's scalars. `parameter_names` maps each trained
    value to its first name. `optimizer_state_names` has the names under which the optimizer's
    tensors can be read, by parameter and torch.optim's name. `gradient_values` maps values to the
    values of those gradients that the step computes anyway.
    """

    graph: Graph
    input_keys: Mapping[str, str]
    parameter_names: Mapping[str, str]
    optimizer_state_names: Mapping[tuple[str, str], str]
    gradient_values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StepOptions:
    """The settings of a step: everything but its Graph."""

    mode: TrainingMode
    parameter_names: Mapping[str, str]
    loss: Loss | str
    optimizer: Optimizer
    output_key: str
    has_class_targets: bool  # whether targets are class indices
    min_batch_size: int  # size of the smallest batch
    edited_keys: tuple[str, ...] = ()  # keys whose edits affect training: see `add_edit_points`


def build_step(
    graph: Graph, options: StepOptions, wrt: Sequence[str] = (), observe: Sequence[str] = ()
) -> TrainStep:
    """Build the Graph of a training step from a loaded network.

    `wrt` are further keys or parameters to compute gradients for, as `gradient of <name>`. Keys
    that neither the loss nor an update depends on are removed, except those in `observe`.

    Raises:
        UnsupportedOperator: If an operator on the path has no gradient; the message names the
            layer.
        UnsupportedModel: If the loss depends on no parameter, or a layer cannot be trained.
        InputError: If the loss doesn't fit the output.
    """
    trainable = make_trainable(
        graph, options.mode, options.parameter_names, min_batch=options.min_batch_size
    )
    network = add_edit_points(trainable.graph, options.edited_keys, TRAIN_SECTION)
    inputs = dict(trainable.input_values)
    builder = make_gradient_builder(network, section=TRAIN_SECTION, prefix="loss")
    loss, seeds = _add_loss(network, builder, options, trainable, inputs)
    network = append_nodes(network, builder)
    builder = make_gradient_builder(network, section=TRAIN_SECTION, prefix="gradient")
    extra_wrt = {_value_name(trainable, network, name): name for name in wrt}
    found = differentiate(builder, network, seeds, {*options.parameter_names, *extra_wrt})
    trained = {value: name for value, name in options.parameter_names.items() if value in found}
    if not trained:
        raise UnsupportedModel(
            "the loss has no gradient with respect to any of the parameters "
            f"{', '.join(options.parameter_names.values())}"
        )
    network = _freeze_untrained(append_nodes(network, builder), trainable, trained)
    step = _add_update(network, trainable, options, trained, found, loss, inputs, extra_wrt)
    return replace(step, graph=prune_graph(step.graph, observe))


def _add_loss(
    network: Graph,
    builder: GradientBuilder,
    options: StepOptions,
    trainable: TrainableGraph,
    inputs: dict[str, str],
) -> tuple[str, dict[str, str]]:
    """Add the loss; return its value and the seeds of the gradients."""
    if isinstance(options.loss, str):
        keys = {key.name: key.value_name for key in network.keys}
        if options.loss not in keys:
            raise InputError(unknown_loss_message(options.loss, [*keys]))
        value = keys[options.loss]
        shape = network.shape(value)
        if any(n != 1 for n in shape) or network.values[value].dtype.kind != "f":
            raise InputError(
                f"loss={options.loss!r} has the shape {shape}; a loss must be a single number, "
                "as mean() returns. Or give a loss by name, as 'mse'"
            )
        return builder.reshape(value, ()), {value: builder.add_constant(np.ones(shape, np.float32))}
    output = next(key.value_name for key in network.keys if key.name == options.output_key)
    if network.values[output].dtype.kind != "f":
        raise InputError(
            f"{options.output_key} is {network.values[output].dtype}, which no loss supports"
        )
    shape = target_shape(
        options.loss, network.shape(output), has_class_indices=options.has_class_targets
    )
    target = TARGET
    while target in builder.values or any(key.name == target for key in network.keys):
        target += "_"
    builder.values[target] = Value(target, shape, FLOAT32)
    inputs[TARGET] = target
    weights = ""
    if EXAMPLE_WEIGHTS in trainable.input_values:
        examples = builder.shape(trainable.input_values[EXAMPLE_WEIGHTS])[0]
        if network.shape(output)[0] != examples:
            raise InputError(
                f"{options.output_key} of shape {network.shape(output)} has no axis of {examples} "
                "examples, and the last batch may have fewer. Give a batch_size that divides the "
                "number of examples"
            )
        own = trainable.input_values[EXAMPLE_WEIGHTS]
        weights = builder.divide(own, builder.sum(own, [0]))
    value, slope = options.loss.add_nodes(builder, output, target, weights)
    return value, {output: slope}


def _value_name(trainable: TrainableGraph, network: Graph, name: str) -> str:
    """The value of a key or a parameter, by name."""
    values = {name: value for value, name in trainable.parameter_names.items()}
    for key in reversed(network.keys):
        values[key.name] = key.value_name
    initial_values = {begin: value for value, begin in trainable.initial_values.items()}
    for parameter, value in network.parameters.items():
        values.setdefault(parameter, initial_values.get(value, value))
    return values[name]


def _freeze_untrained(
    network: Graph, trainable: TrainableGraph, trained: Mapping[str, str]
) -> Graph:
    """Return the Graph with parameters that have no gradient turned back into constants."""
    values, parameters = dict(network.values), dict(network.parameters)
    for value in trainable.parameter_names:
        if value not in trained:
            begin = trainable.initial_values[value]
            values[value] = replace(values.pop(begin), name=value)
            parameters = {n: value if v == begin else v for n, v in parameters.items()}
    return replace(network, values=MappingProxyType(values), parameters=parameters)


def _add_update(
    network: Graph,
    trainable: TrainableGraph,
    options: StepOptions,
    trained: Mapping[str, str],
    value_gradients: Mapping[str, str],
    loss: str,
    inputs: dict[str, str],
    extra_wrt: Mapping[str, str],
) -> TrainStep:
    """Add the optimizer's update; return the step with all of its inputs and outputs."""
    optimizer = options.optimizer
    builder = make_gradient_builder(network, section=TRAIN_SECTION, prefix="update")
    for name in optimizer.step_scalars(0):
        inputs[name] = name
        while inputs[name] in builder.values:
            inputs[name] += "_"
        builder.values[inputs[name]] = Value(inputs[name], (), FLOAT32)
    parameters, carries = dict(network.parameters), list(network.carries)
    state: dict[tuple[str, str], str] = {}
    checks = []
    used = clip_gradients(optimizer, builder, {value: value_gradients[value] for value in trained})
    for value, name in trained.items():
        slots = {}
        for slot in optimizer.state:
            slots[slot] = f"{slot} of {value}"
            begin = f"{slots[slot]} at first"
            shape = builder.shape(value)
            builder.values[slots[slot]] = Value(slots[slot], shape, FLOAT32)
            builder.values[begin] = Value(begin, shape, FLOAT32, np.zeros(shape, np.float32))
            state[name, slot] = f"{slot} of {name}"
            parameters[state[name, slot]] = begin
        weight, new = optimizer.update(builder, value, used[value], slots, inputs)
        carries.append(Carry(weight, value, trainable.initial_values[value]))
        carries += [Carry(new[slot], own, f"{own} at first") for slot, own in slots.items()]
        checks.append(builder.add_node("ReduceL1", weight, keepdims=0))
    numbers = [builder.reshape(one, (1,)) for one in (loss, builder.sum_tensors(checks))]
    loss_value = builder.add_node("Concat", *numbers, axis=0)
    gradients = {value: value_gradients[value] for value in trained}
    keys = [
        *(replace(key, kind="layer") if key.kind == "output" else key for key in network.keys),
        *(ValueKey(one, one, "input") for kind, one in inputs.items()
            if kind not in trainable.input_values),
        *(ValueKey(f"{GRADIENT_PREFIX}{name}", value_gradients[value], "output")
          for value, name in trained.items()),
        *(ValueKey(f"{GRADIENT_PREFIX}{name}", value_gradients[value], "output")
          for value, name in extra_wrt.items()
              if value in value_gradients and value not in trained),
        ValueKey(LOSS, loss_value, "output"),
    ]  # fmt: skip
    inputs = {kind: next(k.name for k in keys if k.value_name == v and k.kind == "input")
              for kind, v in inputs.items()}  # fmt: skip
    whole = replace(
        append_nodes(network, builder),
        keys=tuple(keys),
        inputs=(*network.inputs, *(k.value_name for k in keys if k.kind == "input"
                                   and k.value_name not in network.inputs)),
        outputs=tuple(key.value_name for key in keys if key.kind == "output"),
        parameters=parameters,
        carries=tuple(carries),
    )  # fmt: skip
    return TrainStep(whole, inputs, trained, state, gradients)


def prune_graph(graph: Graph, observe: Sequence[str] = ()) -> Graph:
    """Remove the nodes that neither outputs, updates nor the keys in `observe` depend on."""
    used = {*graph.outputs, *graph.inputs, *(carry.source for carry in graph.carries)}
    used |= {key.value_name for key in graph.keys if key.name in observe}
    nodes = []
    for node in reversed(graph.nodes):
        if used.intersection(node.outputs):
            used.update(filter(None, node.inputs))
            nodes.append(node)
    made = {name for node in nodes for name in node.outputs}
    made |= {name for name, value in graph.values.items() if value.is_constant} | {*graph.inputs}
    keys = tuple(key for key in graph.keys if key.value_name in made)
    return replace(graph, nodes=tuple(reversed(nodes)), keys=keys)
