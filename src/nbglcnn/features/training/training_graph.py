"""A network shown during training: one Graph of it and a training step, sharing the weights.

The section "forward" is the network as the Viewer shows it, with its own input. "evaluate" is the
network in eval mode on a batch, with the loss. "train" is a training step; "measure" computes
metrics of that step. All sections but "forward" run on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from nbglcnn.features.training.edit_points import EDIT_POINT_PREFIX, add_edit_points
from nbglcnn.features.training.run import TrainingRun
from nbglcnn.features.training.step import GRADIENT_PREFIX, LOSS, TARGET, prune_graph
from nbglcnn.features.training.trainable import EXAMPLE_WEIGHTS, FLOAT32, TRAIN_SECTION
from nbglcnn.gradients.autodiff import append_nodes, make_gradient_builder
from nbglcnn.gradients.weight_recomputation import unfold_constants
from nbglcnn.graph import Carry, Graph, Node, Value, ValueKey
from nbglcnn.losses import Loss, target_shape
from nbglcnn.lowering.shape_inference import infer_shapes
from nbglcnn.ops.gradient_builder import INT64, GradientBuilder

EVALUATE, MEASURE = "evaluate", "measure"
STEP_PREFIX, HELD_OUT_PREFIX = "train.", "evaluate."  # prefixes of the keys of both sections
RELU_OPS = ("Relu", "Clip")  # operators whose units can be dead (never above 0)


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """The Graph, and the keys that a page writes and reads.

    `input_keys` and `held_out_input_keys` map roles to keys: the model's own inputs by their names,
    "target", "weights", "seed", "steps" and the optimizer's scalars. `loss_value_key` has 2 or 3
    numbers: the loss, a number that is finite if all parameters are, and the accuracy if the
    targets are classes; `held_out_loss_key` has the loss and the accuracy. `update_ratios_key` is
    |update| / |weight| of each of `trained_parameters`; `dead_units_key` is the share of units of
    each layer in `relu_layers` that are 0 in the whole batch, "" without such layers.
    `prediction_key` is the output for the held-out batch. `state_names` are the names of all
    changing tensors. Edits of the keys in the request's `edited_keys` also act on the step and the
    evaluation.
    """

    graph: Graph
    input_keys: Mapping[str, str]
    held_out_input_keys: Mapping[str, str]
    loss_value_key: str
    held_out_loss_key: str
    prediction_key: str
    update_ratios_key: str
    dead_units_key: str
    trained_parameters: tuple[str, ...]
    relu_layers: tuple[str, ...]
    gradient_keys: Mapping[str, str]
    state_names: tuple[str, ...]


def build_training_graph(display_graph: Graph, run: TrainingRun) -> TrainingGraph:
    """Build the Graph of the shown network, as it was loaded, and of its training.

    Weights are taken from `run`.
    """
    step = _step_with_metrics(run)
    held_out = _evaluation_subgraph(run)
    merger = _GraphMerger(
        infer_shapes(
            unfold_constants(display_graph, _trained_constants(display_graph, step.graph))
        ),
        step.graph,
    )
    merger.add(step.graph, STEP_PREFIX)
    merger.add(held_out.graph, HELD_OUT_PREFIX)
    keys = [*merger.network_graph.keys]
    for part, prefix in ((held_out, HELD_OUT_PREFIX), (step, STEP_PREFIX)):
        for key in part.keys:
            value = merger.merged_name(prefix, key.value_name)
            keys.append(
                ValueKey(
                    prefix + key.name, value, "contributed", shares_edits_of=key.shares_edits_of
                )
            )
    trained = tuple(run.step.parameter_names.values())
    graph = merger.merged_graph(tuple(keys))
    return TrainingGraph(
        graph=graph,
        input_keys={kind: STEP_PREFIX + name for kind, name in step.input_keys.items()},
        held_out_input_keys={kind: HELD_OUT_PREFIX + name for kind,
            name in held_out.input_keys.items()},
        loss_value_key=STEP_PREFIX + LOSS,
        held_out_loss_key=HELD_OUT_PREFIX + LOSS,
        prediction_key=HELD_OUT_PREFIX + run.options.output_key,
        update_ratios_key=STEP_PREFIX + UPDATE_RATIOS,
        dead_units_key=STEP_PREFIX + DEAD_UNITS if step.relu_layers else "",
        trained_parameters=trained,
        relu_layers=step.relu_layers,
        gradient_keys={name: f"{STEP_PREFIX}{GRADIENT_PREFIX}{name}" for name in trained},
        state_names=tuple(dict.fromkeys(
            name for name, value in graph.parameters.items()
            if value in {carry.initial for carry in graph.carries}
        )),
    )  # fmt: skip


UPDATE_RATIOS, DEAD_UNITS = "ratios", "dead"


@dataclass(frozen=True, slots=True)
class _Subgraph:
    graph: Graph
    keys: tuple[ValueKey, ...]
    input_keys: Mapping[str, str]
    relu_layers: tuple[str, ...] = ()


def _trained_constants(graph: Graph, step: Graph) -> list[str]:
    """The constants of a network that a training step updates."""
    begins = {carry.initial for carry in step.carries}
    names = {name for name, value in step.parameters.items() if value in begins}
    return [value for name, value in graph.parameters.items() if name in names]


# The training step and its metrics


def _step_with_metrics(run: TrainingRun) -> _Subgraph:
    """The step with its section "measure", and with the accuracy beside the loss."""
    step, graph = run.step, run.step.graph
    own = {key.name: key.value_name for key in run.graph.keys if key.kind == "input"}
    keys = {key.name: key.value_name for key in graph.keys}
    told = keys[LOSS]
    if run.options.has_class_targets and isinstance(run.options.loss, Loss):
        builder = make_gradient_builder(graph, section=TRAIN_SECTION, prefix="accuracy")
        is_correct = add_accuracy(
            builder, keys[run.options.output_key], keys[step.input_keys[TARGET]],
            keys[step.input_keys[EXAMPLE_WEIGHTS]] if EXAMPLE_WEIGHTS in step.input_keys else "",
        )  # fmt: skip
        told = builder.add_node("Concat", told, builder.reshape(is_correct, (1,)), axis=0)
        graph = append_nodes(graph, builder)
    builder = make_gradient_builder(graph, section=MEASURE, prefix="measure")
    sources = {carry.target: carry.source for carry in graph.carries}
    ratios = [_update_ratio(builder, sources[value], value) for value in step.parameter_names]
    found = {UPDATE_RATIOS: builder.add_node("Concat", *ratios, axis=0)}
    flat = _relu_values(graph)
    dead = [_dead_unit_share(builder, value) for value in flat.values()]
    if dead:
        found[DEAD_UNITS] = builder.add_node("Concat", *dead, axis=0)
    graph = append_nodes(graph, builder)
    gradients = [key for key in graph.keys if key.name.startswith(GRADIENT_PREFIX)]
    kept = (
        *(ValueKey(name, graph.key(name).value_name, "input") for name in step.input_keys.values()),
        *(ValueKey(name, graph.key(name).value_name, "input") for name in own),
        *gradients,
        *(key for key in graph.keys if key.name.startswith(EDIT_POINT_PREFIX)),
        ValueKey(LOSS, told, "output"),
        *(ValueKey(name, value, "output") for name, value in found.items()),
    )
    inputs = {**{name: name for name in own}, **step.input_keys}
    outputs = tuple(key.value_name for key in kept if key.kind == "output")
    graph = prune_graph(
        replace(graph, keys=kept, outputs=(*outputs, *(k.value_name for k in gradients)))
    )
    return _Subgraph(graph, kept, inputs, tuple(flat))


def _update_ratio(builder: GradientBuilder, new: str, old: str) -> str:
    """|new − old| / |old|: (1,)."""
    moved = builder.add_node("ReduceL2", builder.subtract(new, old), keepdims=0)
    whole = builder.add_node("ReduceL2", old, keepdims=0)
    return builder.reshape(
        builder.apply_glsl("return a / max(b, vec4(1e-30));", moved, whole), (1,)
    )


def _relu_values(graph: Graph) -> dict[str, str]:
    """The outputs of ReLUs in a step, by the layer's name."""
    made = {name: node for node in graph.nodes for name in node.outputs if name}
    found: dict[str, str] = {}
    for key in graph.keys:
        node = made.get(key.value_name)
        if node is not None and node.op == "Identity":  # read an edited value before its edit
            node = made.get(node.inputs[0])
        if node is None or key.kind != "layer" or node.op not in RELU_OPS:
            continue
        shape = graph.shape(key.value_name)
        if node.op == "Clip":
            least = graph.constant_data(node.inputs[1]) if len(node.inputs) > 1 else None
            if least is None or float(least) != 0:
                continue
        if len(shape) >= 2 and 0 not in shape and not key.name.startswith(EDIT_POINT_PREFIX):
            found.setdefault(key.name, node.outputs[0])
    return found


def _dead_unit_share(builder: GradientBuilder, value: str) -> str:
    """The share of channels whose maximum over the batch is 0, shape (1,)."""
    axes = [axis for axis in range(len(builder.shape(value))) if axis != 1]
    largest = builder.add_node("ReduceMax", value, builder.add_int_list(*axes), keepdims=0)
    none = builder.apply_glsl(
        "return select(greaterThan(a, vec4(0.0)), vec4(0.0), vec4(1.0));", largest
    )
    return builder.reshape(builder.add_node("ReduceMean", none, keepdims=0), (1,))


def add_accuracy(builder: GradientBuilder, output: str, target: str, example_weights: str) -> str:
    """Accuracy: the share of examples (and positions) whose largest logit is the target class.

    `example_weights` (batch,) is 1 for the examples that count, else 0; "" if all count.
    """
    predicted_class = builder.add_node("ArgMax", output, axis=1, keepdims=0, dtype=INT64)
    shape = builder.shape(target)
    is_correct = builder.apply_glsl(
        "return select(lessThan(abs(a - b), vec4(0.5)), vec4(1.0), vec4(0.0));",
        builder.add_node("Cast", predicted_class, to=1), target,
    )  # fmt: skip
    if not example_weights:
        return builder.add_node("ReduceMean", is_correct, keepdims=0)
    each = builder.reshape(example_weights, (shape[0], *[1] * (len(shape) - 1)))
    share = 1.0 / builder.numel(target) * shape[0]
    sums = builder.add_node("ReduceSum", builder.multiply(is_correct, each), keepdims=0)
    total = builder.add_node("ReduceSum", example_weights, keepdims=0)
    return builder.scale(builder.divide(sums, total), share)


# The network in eval mode on a batch


def _evaluation_subgraph(run: TrainingRun) -> _Subgraph:
    """The network in eval mode with the loss of a batch; weights can exclude examples."""
    graph = infer_shapes(unfold_constants(run.graph, _trained_constants(run.graph, run.step.graph)))
    graph = replace(graph, nodes=tuple(replace(node, section=EVALUATE) for node in graph.nodes))
    graph = add_edit_points(graph, run.options.edited_keys, EVALUATE)
    names = {key.name: key.value_name for key in graph.keys}
    inputs = {key.name: key.name for key in graph.keys if key.kind == "input"}
    points = [key for key in graph.keys if key.name.startswith(EDIT_POINT_PREFIX)]
    output = names[run.options.output_key]
    keys = [*(ValueKey(name, names[name], "input") for name in inputs)]
    builder = make_gradient_builder(graph, section=EVALUATE, prefix="loss")
    if isinstance(run.options.loss, str):
        found = [builder.reshape(names[run.options.loss], (1,))]
    else:
        target, weights = _unique_name(builder, TARGET), _unique_name(builder, EXAMPLE_WEIGHTS)
        shape = target_shape(
            run.options.loss, graph.shape(output), has_class_indices=run.options.has_class_targets
        )
        examples = graph.shape(output)[0]
        builder.values[target] = Value(target, shape, FLOAT32)
        builder.values[weights] = Value(weights, (examples,), FLOAT32)
        share = builder.divide(weights, builder.sum(weights, [0]))
        loss, _ = run.options.loss.add_nodes(builder, output, target, share)
        found = [builder.reshape(loss, (1,))]
        if run.options.has_class_targets:
            is_correct = add_accuracy(builder, output, target, weights)
            found.append(builder.reshape(is_correct, (1,)))
        inputs |= {TARGET: target, EXAMPLE_WEIGHTS: weights}
        keys += [ValueKey(name, name, "input") for name in (target, weights)]
    told = builder.add_node("Concat", *found, axis=0)
    graph = append_nodes(graph, builder)
    outputs = [ValueKey(LOSS, told, "output")]
    if run.options.output_key != LOSS:
        outputs.append(ValueKey(run.options.output_key, output, "output"))
    graph = replace(
        graph,
        keys=(*keys, *points, *outputs),
        inputs=tuple(key.value_name for key in keys),
        outputs=tuple(key.value_name for key in outputs),
    )
    graph = prune_graph(graph)
    return _Subgraph(graph, graph.keys, inputs)


def _unique_name(builder: GradientBuilder, name: str) -> str:
    while name in builder.values:
        name += "_"
    return name


# Merging


class _GraphMerger:
    """Merges graphs. Values get a prefix per graph; weights are shared with the training step."""

    def __init__(self, display_graph: Graph, step_graph: Graph) -> None:
        self.network_graph, self._step = display_graph, step_graph
        self._nodes: list[Node] = []
        self._folded: list[Node] = [*display_graph.folded_nodes]
        self._inputs: list[str] = [*display_graph.inputs]
        self._outputs: list[str] = [*display_graph.outputs]
        self._noise: dict[str, str] = dict(display_graph.noise_defaults)
        self._values: dict[str, Value] = {}
        self._names: dict[str, dict[str, str]] = {}
        # By the parameter's name: the variable of the training step, or "" for a constant.
        targets = {carry.initial: carry.target for carry in step_graph.carries}
        self._shared_weights = {
            name: STEP_PREFIX + targets[value] if value in targets else ""
            for name, value in step_graph.parameters.items()
        }
        own = {
            display_graph.parameters[name]: target
            for name, target in self._shared_weights.items()
            if target and name in display_graph.parameters
        }  # fmt: skip
        self._names[""] = {name: own.get(name, name) for name in display_graph.values}
        for name, value in display_graph.values.items():
            if name not in own:
                self._values[name] = value
        self._nodes += (self._rename_node(node, "") for node in display_graph.nodes)

    def merged_name(self, prefix: str, value: str) -> str:
        """The name of a graph's value in the merged Graph."""
        return self._names[prefix][value]

    def add(self, graph: Graph, prefix: str) -> None:
        """Add the nodes of a graph."""
        names = {value: prefix + value for value in graph.values}
        for parameter, value in graph.parameters.items():
            target, known = (
                self._shared_weights.get(parameter, ""),
                self.network_graph.parameters.get(parameter),
            )
            if graph is self._step:
                target = ""  # the step keeps its own names
            if target:
                names[value] = target
            elif (
                known is not None
                and known in self._values
                and _is_same_constant(self._values[known], graph.values[value])
            ):
                names[value] = known
        self._names[prefix] = names
        for value, record in graph.values.items():
            self._values.setdefault(names[value], replace(record, name=names[value]))
        self._nodes += (self._rename_node(node, prefix) for node in graph.nodes)
        self._folded += (self._rename_node(node, prefix) for node in graph.folded_nodes)
        self._inputs += (names[value] for value in graph.inputs)
        self._outputs += (names[value] for value in graph.outputs)
        # The noise of a step's graph is not added: it is written for each step.

    def _rename_node(self, node: Node, prefix: str) -> Node:
        names = self._names[prefix]
        found = replace(
            node,
            name=prefix + node.name,
            inputs=tuple(names[name] if name else "" for name in node.inputs),
            outputs=tuple(names[name] if name else "" for name in node.outputs),
        )
        return replace(found, module="", module_type="", module_call="") if prefix else found

    def merged_graph(self, keys: tuple[ValueKey, ...]) -> Graph:
        """Return the merged Graph."""
        step, names = self._step, self._names[STEP_PREFIX]
        carries = tuple(
            Carry(names[c.source], names[c.target], names[c.initial]) for c in step.carries
        )
        begins = {carry.initial for carry in step.carries}
        parameters = {
            name: value for name, value in self.network_graph.parameters.items()
            if not self._shared_weights.get(name)
        }  # fmt: skip
        parameters |= {n: names[value] for n, value in step.parameters.items() if value in begins}
        order = {EVALUATE: 1, TRAIN_SECTION: 2, MEASURE: 3}  # after the section "forward"
        return replace(
            self.network_graph,
            nodes=tuple(sorted(self._nodes, key=lambda node: order.get(node.section, 0))),
            values=MappingProxyType(self._values),
            inputs=tuple(self._inputs),
            outputs=tuple(dict.fromkeys(self._outputs)),
            keys=keys,
            parameters=MappingProxyType(parameters),
            folded_nodes=tuple(self._folded),
            carries=(*self.network_graph.carries, *carries),
            noise_defaults=MappingProxyType(self._noise),
            on_demand_sections=self.network_graph.on_demand_sections
            | {EVALUATE, TRAIN_SECTION, MEASURE},
        )


def _is_same_constant(one: Value, other: Value) -> bool:
    a, b = one.data, other.data
    if a is None or b is None:
        return False
    return a is b or (a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
