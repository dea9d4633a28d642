"""A training step as one Graph: the network in training mode, its loss, gradients and update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nbglcnn.errors import InputError, UnsupportedModel
from nbglcnn.features.training.edit_points import with_points
from nbglcnn.features.training.optimizers import Optimizer, clipped
from nbglcnn.features.training.trainable import FLOAT32, TRAIN, WEIGHTS, Trainable, trainable
from nbglcnn.gradients.autodiff import differentiate, writer, written
from nbglcnn.graph import Carry, Graph, Key, Value
from nbglcnn.load.training import TrainingMode
from nbglcnn.losses import Loss, target_shape, unknown_loss
from nbglcnn.ops.rules import Rules

LOSS, TARGET = "loss", "target"
GRADIENT = "gradient of "  # begins the keys of gradients


@dataclass(frozen=True, slots=True)
class Step:
    """A training step.

    `graph` has the key "loss", (2,): the loss, and a number that is finite where the updated
    parameters are. `inputs` are the keys of what each step is given besides the model's inputs, by
    what they are: "target", "weights", "seed", "steps", and the optimizer's numbers. `parameters`
    are the values that are trained, each with its first name, `state` the names under which the
    optimizer's tensors can be read, by parameter and torch.optim's name; `gradients` are the
    values of gradients that are there anyway, by the value that they are of.
    """

    graph: Graph
    inputs: Mapping[str, str]
    parameters: Mapping[str, str]
    state: Mapping[tuple[str, str], str]
    gradients: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Request:
    """What a step is made of, but for its Graph; `wrt` are further values to have gradients of."""

    mode: TrainingMode
    parameters: Mapping[str, str]
    loss: Loss | str
    optimizer: Optimizer
    output: str
    index: bool  # whether targets are indices of classes
    fewest: int  # examples of the smallest batch
    bent: tuple[str, ...] = ()  # keys whose edits act on what is learned: see `points`


def step_of(
    graph: Graph, request: Request, wrt: Sequence[str] = (), observe: Sequence[str] = ()
) -> Step:
    """The Graph of a step of a network as it was loaded.

    `wrt` are keys or parameters whose gradients are wanted too, as `gradient of <name>`; of other
    keys what neither loss nor update follow from is left out, but for those in `observe`.

    Raises:
        UnsupportedOperator: naming the layer, where one on the way has no gradient.
        UnsupportedModel: the loss depends on no parameter, or something cannot be trained.
        InputError: the loss doesn't fit the output.
    """
    ready = trainable(graph, request.mode, request.parameters, fewest=request.fewest)
    network = with_points(ready.graph, request.bent, TRAIN)
    inputs = dict(ready.inputs)
    rules = writer(network, section=TRAIN, prefix="loss")
    loss, seeds = _loss(network, rules, request, ready, inputs)
    network = written(network, rules)
    rules = writer(network, section=TRAIN, prefix="gradient")
    further = {_value(ready, network, name): name for name in wrt}
    found = differentiate(rules, network, seeds, {*request.parameters, *further})
    trained = {value: name for value, name in request.parameters.items() if value in found}
    if not trained:
        raise UnsupportedModel(
            f"the loss depends on none of the parameters {', '.join(request.parameters.values())} "
            "in a way that has a gradient"
        )
    network = _restored(written(network, rules), ready, trained)
    step = _updated(network, ready, request, trained, found, loss, inputs, further)
    return replace(step, graph=needed(step.graph, observe))


def _loss(
    network: Graph, rules: Rules, request: Request, ready: Trainable, inputs: dict[str, str]
) -> tuple[str, dict[str, str]]:
    """The loss's value, and the seeds of the gradients."""
    if isinstance(request.loss, str):
        keys = {key.name: key.value for key in network.keys}
        if request.loss not in keys:
            raise InputError(unknown_loss(request.loss, [*keys]))
        value = keys[request.loss]
        shape = network.shape(value)
        if any(n != 1 for n in shape) or network.values[value].dtype.kind != "f":
            raise InputError(
                f"loss={request.loss!r} has the shape {shape}; a loss is a single number, as "
                "mean() gives it. Or give the name of one, as 'mse'"
            )
        return rules.reshape(value, ()), {value: rules.array(np.ones(shape, np.float32))}
    output = next(key.value for key in network.keys if key.name == request.output)
    if network.values[output].dtype.kind != "f":
        raise InputError(f"{request.output} is of {network.values[output].dtype}; no loss has that")
    shape = target_shape(request.loss, network.shape(output), index=request.index)
    target = TARGET
    while target in rules.values or any(key.name == target for key in network.keys):
        target += "_"
    rules.values[target] = Value(target, shape, FLOAT32)
    inputs[TARGET] = target
    weights = ""
    if WEIGHTS in ready.inputs:
        examples = rules.shape(ready.inputs[WEIGHTS])[0]
        if network.shape(output)[0] != examples:
            raise InputError(
                f"{request.output} of shape {network.shape(output)} has no axis of the "
                f"{examples} examples, of which a batch may have fewer. Give a batch_size that "
                "divides their number"
            )
        own = ready.inputs[WEIGHTS]
        weights = rules.divide(own, rules.sum(own, [0]))
    value, slope = request.loss.write(rules, output, target, weights)
    return value, {output: slope}


def _value(ready: Trainable, network: Graph, name: str) -> str:
    """The value of a key or a parameter."""
    values = {name: value for value, name in ready.parameters.items()}
    for key in reversed(network.keys):
        values[key.name] = key.value
    begins = {begin: value for value, begin in ready.begins.items()}
    for parameter, value in network.parameters.items():
        values.setdefault(parameter, begins.get(value, value))
    return values[name]


def _restored(network: Graph, ready: Trainable, trained: Mapping[str, str]) -> Graph:
    """The Graph in which parameters without a gradient are constants again."""
    values, parameters = dict(network.values), dict(network.parameters)
    for value in ready.parameters:
        if value not in trained:
            begin = ready.begins[value]
            values[value] = replace(values.pop(begin), name=value)
            parameters = {n: value if v == begin else v for n, v in parameters.items()}
    return replace(network, values=MappingProxyType(values), parameters=parameters)


def _updated(
    network: Graph,
    ready: Trainable,
    request: Request,
    trained: Mapping[str, str],
    found: Mapping[str, str],
    loss: str,
    inputs: dict[str, str],
    further: Mapping[str, str],
) -> Step:
    """The step with its update, and with what it needs and gives."""
    optimizer = request.optimizer
    rules = writer(network, section=TRAIN, prefix="update")
    for name in optimizer.numbers(0):
        inputs[name] = name
        while inputs[name] in rules.values:
            inputs[name] += "_"
        rules.values[inputs[name]] = Value(inputs[name], (), FLOAT32)
    parameters, carries = dict(network.parameters), list(network.carries)
    state: dict[tuple[str, str], str] = {}
    checks = []
    used = clipped(optimizer, rules, {value: found[value] for value in trained})
    for value, name in trained.items():
        slots = {}
        for slot in optimizer.state:
            slots[slot] = f"{slot} of {value}"
            begin = f"{slots[slot]} at first"
            shape = rules.shape(value)
            rules.values[slots[slot]] = Value(slots[slot], shape, FLOAT32)
            rules.values[begin] = Value(begin, shape, FLOAT32, np.zeros(shape, np.float32))
            state[name, slot] = f"{slot} of {name}"
            parameters[state[name, slot]] = begin
        weight, new = optimizer.update(rules, value, used[value], slots, inputs)
        carries.append(Carry(weight, value, ready.begins[value]))
        carries += [Carry(new[slot], own, f"{own} at first") for slot, own in slots.items()]
        checks.append(rules.node("ReduceL1", weight, keepdims=0))
    numbers = [rules.reshape(one, (1,)) for one in (loss, rules.total(checks))]
    told = rules.node("Concat", *numbers, axis=0)
    gradients = {value: found[value] for value in trained}
    keys = [
        *(replace(key, kind="layer") if key.kind == "output" else key for key in network.keys),
        *(Key(one, one, "input") for kind, one in inputs.items() if kind not in ready.inputs),
        *(Key(f"{GRADIENT}{name}", found[value], "output") for value, name in trained.items()),
        *(Key(f"{GRADIENT}{name}", found[value], "output") for value, name in further.items()
          if value in found and value not in trained),
        Key(LOSS, told, "output"),
    ]  # fmt: skip
    inputs = {kind: next(k.name for k in keys if k.value == v and k.kind == "input")
              for kind, v in inputs.items()}  # fmt: skip
    whole = replace(
        written(network, rules),
        keys=tuple(keys),
        inputs=(*network.inputs, *(k.value for k in keys if k.kind == "input"
                                   and k.value not in network.inputs)),
        outputs=tuple(key.value for key in keys if key.kind == "output"),
        parameters=parameters,
        carries=tuple(carries),
    )  # fmt: skip
    return Step(whole, inputs, trained, state, gradients)


def needed(graph: Graph, observe: Sequence[str] = ()) -> Graph:
    """The Graph without what neither the loss, an update nor these keys follow from."""
    used = {*graph.outputs, *graph.inputs, *(carry.source for carry in graph.carries)}
    used |= {key.value for key in graph.keys if key.name in observe}
    nodes = []
    for node in reversed(graph.nodes):
        if used.intersection(node.outputs):
            used.update(filter(None, node.inputs))
            nodes.append(node)
    made = {name for node in nodes for name in node.outputs}
    made |= {name for name, value in graph.values.items() if value.is_constant} | {*graph.inputs}
    keys = tuple(key for key in graph.keys if key.value in made)
    return replace(graph, nodes=tuple(reversed(nodes)), keys=keys)
