"""The layer table of a Graph: what each layer is, reads and costs, for readers and views."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from nbglcnn.graph import Graph, Node, ValueKey
from nbglcnn.lowering.layer_descriptions import (
    SingleOperator,
    as_single_operator,
    describe_layer,
    short_caption,
)
from nbglcnn.lowering.provenance import (
    OperandTrace,
    Provenance,
    is_movement,
    trace_operands,
    trace_provenance,
)
from nbglcnn.lowering.receptive_fields import ReceptiveFields
from nbglcnn.ops import OPERATOR_RECORDS
from nbglcnn.ops.window import SlidingWindow
from nbglcnn.plan import schema as p
from nbglcnn.plan.picture_layout import picture_layout


def layer_keys(graph: Graph) -> list[ValueKey]:
    """The keys that are rows of the table: layers, and outputs without another name.

    In an ONNX file, a value that is an output has only the output's name.
    """
    named = {key.value_name for key in graph.keys if key.kind in ("input", "layer")}
    return [
        key
        for key in graph.keys
        if key.kind == "layer" or (key.kind == "output" and key.value_name not in named)
    ]


def pytorch_spelling(op: str) -> str:
    """An operator's name as spelled by PyTorch's class if only the case differs: ReLU."""
    short = OPERATOR_RECORDS[op].caption if op in OPERATOR_RECORDS else None
    return short if short is not None and short.lower() == op.lower() else op


# Exporters' names for unnamed values: "45", "val_19", "onnx::Conv_45".
_NUMERIC_NAME = re.compile(r"(?:val_|onnx::\w+_)?(\d+)")


def _numeric_name_labels(rows: Sequence[p.Layer]) -> dict[str, str]:
    """Display labels for layers whose names are numbers; a PyTorch module "0" keeps its name."""
    found = {
        row.name: f"{row.type} {number[1]}"
        for row in rows
        if not row.module and (number := _NUMERIC_NAME.fullmatch(row.name))
    }
    taken = Counter([*found.values(), *(row.name for row in rows)])
    return {name: label for name, label in found.items() if taken[label] == 1}


def find_planes(graph: Graph) -> frozenset[str]:
    """The values (n, h, w) that are one map per example, judged by how they are computed.

    These are a channel of maps (n, c, h, w), a reduction over all channels (an argmax, a mean), and
    values of the same shape computed from such a value. The shape alone is ambiguous: (n, tokens,
    features) looks the same, and its tokens are channels. An input is a plane if a node adds a
    channel axis to it.
    """
    found: set[str] = set()

    def is_plane(shape: tuple[int, ...], maps: tuple[int, ...]) -> bool:
        return len(shape) == 3 and len(maps) == 4 and (maps[0], *maps[2:]) == shape

    for node in graph.nodes:
        given = [name for name in node.inputs if name and not graph.values[name].is_constant]
        for name in given:
            made = [graph.shape(output) for output in node.outputs if output]
            if name in graph.inputs and any(is_plane(graph.shape(name), one) for one in made):
                found.add(name)
        for output in filter(None, node.outputs):
            shape = graph.shape(output)
            for name in given:
                kept = name in found and graph.shape(name) == shape
                if kept or is_plane(shape, graph.shape(name)):
                    found.add(output)
    return frozenset(found)


def layer_table(
    graph: Graph, receptive_fields: ReceptiveFields
) -> tuple[tuple[p.Layer, ...], dict[str, int]]:
    """The Layer records of a graph's layer keys, and the layer index of each node's passes."""
    producer = {name: node for node in graph.nodes for name in node.outputs if name}
    keys = layer_keys(graph)
    by_value: dict[str, str] = {
        key.value_name: key.name for key in graph.keys if key.kind == "input"
    }
    origins = parameter_origins(graph)
    node_index = {node.name: number for number, node in enumerate(graph.nodes)}
    operand = _OperandResolver(graph)
    rows: list[p.Layer] = []
    layer_of: dict[str, int] = {}
    counted: set[str] = set()
    initial = {carry.target: carry.initial for carry in graph.carries}
    for key in keys:
        mine, sources = _collect_nodes(graph, key.value_name, by_value, producer)
        for node in mine:
            layer_of.setdefault(node.name, len(rows))
        read = [name for node in mine for name in node.inputs if name]
        # A carried parameter counts as its initial value.
        read = [initial.get(name, name) for name in read]
        if not mine:  # folded from parameters at load time
            read = [key.value_name]
        parameters = {
            name for name in read if graph.values[name].is_constant and name not in by_value
        }
        origin_names = {origin for name in parameters for origin in origins.get(name, ())}
        computing = [node for node in mine if not is_movement(graph, node)]
        main = max(
            computing or mine, key=lambda n: OPERATOR_RECORDS[n.op].macs(graph, n), default=None
        )
        inputs = [name for name in read if name not in parameters and name in by_value]
        mine.sort(key=lambda node: node_index[node.name])
        window = OPERATOR_RECORDS[main.op].window if main else None
        single = as_single_operator(graph, mine, main) if main else SingleOperator("Identity", ())
        reading = OperandTrace(())
        if main is not None:
            reading = trace_operands(
                graph, key.value_name, mine, main, single.inputs, producer, by_value
            )
        single = replace(
            single, is_composite=single.is_composite and not reading.is_single_operator
        )
        description = describe_layer(
            graph, mine, main, single, key, is_movement=reading.is_movement
        )
        own = [node.python_fallback for node in mine if node.python_fallback is not None]
        rows.append(
            p.Layer(
                name=key.name,
                operator=own[0].operator if own else single.operator,
                module=key.module_type,
                attributes={
                    k: v.tolist() if isinstance(v, np.ndarray) else v
                    for k, v in {**main.attributes, **single.attributes}.items()
                }
                if main
                else {},
                input_shapes=tuple(graph.shape(v) for v in dict.fromkeys(inputs)),
                output_shape=graph.shape(key.value_name),
                parameters=sum(math.prod(graph.shape(name)) for name in origin_names),
                shared=sum(math.prod(graph.shape(name)) for name in origin_names & counted),
                macs=sum(OPERATOR_RECORDS[n.op].macs(graph, n) for n in mine),
                bytes=4 * math.prod(graph.shape(key.value_name)),
                description=key.description,
                inputs=tuple(by_value[value] for value in sources),
                operators=tuple(
                    n.python_fallback.operator if n.python_fallback else n.op for n in mine
                ),
                operands=tuple(
                    p.Operand("setting")
                    if read.source_value and k in OPERATOR_RECORDS[single.operator].shape_inputs
                    else operand.resolve(read, shape, by_value)
                    for k, (read, shape) in enumerate(reading.operands)
                ),
                window=_plan_window(window(graph, main), single) if window and main else p.Window(),
                position_axes=receptive_fields.position_axes.get(key.value_name, ()),
                dependencies=receptive_fields.trace_dependencies(
                    key.value_name, reversed(mine), sources
                ),
                role=description.role,
                short_name=short_caption(key.module_type or own[0].operator)
                if own
                else description.caption,
                explanation=description.explanation,
                is_composite=description.is_composite,
                formula=description.formula,
                bounds=description.bounds,
                type=key.module_type or pytorch_spelling(single.operator),
                python=own[0].reason if own else "",
                raw_shape=reading.raw_shape,
                index_maps=reading.index_maps,
            )
        )
        by_value.setdefault(key.value_name, key.name)
        counted |= origin_names
    labels = _numeric_name_labels(rows)
    labelled = (msgspec.structs.replace(row, label=labels.get(row.name, "")) for row in rows)
    return tuple(labelled), layer_of


def layer_index_by_key(graph: Graph, layers: Sequence[p.Layer]) -> dict[str, int]:
    """The row of the layer that computes each key's value, also for modules and outputs.

    A value belongs to the first key that has it: a key without computation gets the row before it.
    """
    rows = {layer.name: number for number, layer in enumerate(layers)}
    made = {
        key.value_name: rows.get(key.name, -1)
        for key in reversed(graph.keys)
        if key.kind == "input" or key.name in rows
    }
    return {key.name: made.get(key.value_name, -1) for key in graph.keys}


def layer_nodes(graph: Graph) -> dict[str, list[Node]]:
    """The nodes of each layer by name, including nodes that no operator of ours computes."""
    producer = {name: node for node in graph.nodes for name in node.outputs if name}
    node_index = {node.name: number for number, node in enumerate(graph.nodes)}
    known = {key.value_name for key in graph.keys if key.kind == "input"}
    found: dict[str, list[Node]] = {}
    for key in layer_keys(graph):
        mine, _ = _collect_nodes(graph, key.value_name, known, producer)
        found[key.name] = sorted(mine, key=lambda node: node_index[node.name])
        known.add(key.value_name)
    return found


def _collect_nodes(
    graph: Graph, value: str, earlier_values: Container[str], producer: Mapping[str, Node]
) -> tuple[list[Node], dict[str, int]]:
    """Collect a layer's nodes from its value back to the values of earlier keys, last first.

    Also returns these earlier values, numbered from 1.
    """
    mine: dict[str, Node] = {}
    sources: dict[str, int] = {}
    pending, seen = [value], set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in earlier_values:
            sources[name] = len(sources) + 1
        elif name in producer:
            node = mine.setdefault(producer[name].name, producer[name])
            # A stack: the last entry is visited first.
            pending += [
                source
                for source in reversed(node.inputs)
                if source
                and (
                    source in earlier_values  # even if it is a folded constant
                    or (one := graph.values.get(source)) is None
                    or not one.is_constant
                )
            ]
    return list(mine.values()), sources


def parameter_origins(graph: Graph) -> dict[str, frozenset[str]]:
    """The parameters from which each constant was computed."""
    origins = {
        value: frozenset([value])
        for name, value in graph.parameters.items()
        if name not in graph.buffers
    }
    for node in graph.folded_nodes:
        sources = frozenset().union(*(origins.get(name, frozenset()) for name in node.inputs))
        for name in node.outputs:
            origins[name] = sources
    return origins


def default_picture_fit(graph: Graph, value: str) -> p.Fit:
    """How images are fitted to an input by default; "" if it takes no images."""
    shape = graph.shape(value)
    pictures = (
        picture_layout(shape, graph.values[value].dtype) and value not in graph.noise_defaults
    )
    return "crop" if pictures else ""


def originals_of_reshaped(graph: Graph) -> dict[str, str]:
    """Map constants that are reshaped copies to their originals, in the same element order."""
    origins: dict[str, str] = {}
    for node in graph.folded_nodes:
        record = OPERATOR_RECORDS.get(node.op)
        if record is not None and record.role in ("leads", "alias"):
            source = node.inputs[0]
            origins[node.outputs[0]] = origins.get(source, source)
    return origins


class _OperandResolver:
    """Resolves operator inputs to the operands that the page can read."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._parameters: dict[str, str] = {}
        for parameter, value in graph.parameters.items():
            self._parameters.setdefault(value, parameter)
        self._folded = {name: node for node in graph.folded_nodes for name in node.outputs if name}
        self._initial = {carry.target: carry.initial for carry in graph.carries}
        # The table must not contain numbers that change with the weights.
        self._weight_dependent = set(graph.parameters.values())
        for node in graph.folded_nodes:
            if self._weight_dependent.intersection(node.inputs):
                self._weight_dependent.update(node.outputs)

    def resolve(
        self, provenance: Provenance, shape: tuple[int, ...], key_by_value: Mapping[str, str]
    ) -> p.Operand:
        """The operand with this value's elements; `key_by_value` names readable values."""
        name = self._initial.get(provenance.source_value, provenance.source_value)
        if not name:
            return p.Operand("omitted")
        if name in key_by_value:
            return p.Operand(
                "value", key_by_value[name], shape=shape, index_maps=provenance.index_maps
            )
        data = self._graph.values[name].data
        if data is None or data.dtype.kind not in "fiub" or not data.size:
            return p.Operand("unnamed")
        if name in self._weight_dependent:
            origin = self._parameter_origin(name)
            parameter = (
                self._parameters.get(origin.source_value) if data.dtype.kind == "f" else None
            )
            if parameter is None:
                return p.Operand("unnamed")
            moves = (*provenance.index_maps, *origin.index_maps)
            return p.Operand("parameter", parameter, shape=shape, index_maps=moves)
        # A broadcast array (stride 0) may be far larger than its memory.
        short = data[tuple(slice(None if stride else 1) for stride in data.strides)]
        number = float(short.min())
        same = math.isfinite(number) and number == float(short.max())
        return p.Operand("number", number=number) if same else p.Operand("unnamed")

    def _parameter_origin(self, name: str) -> Provenance:
        """The parameter that has a constant's elements; the constant itself if it was computed."""
        try:
            return trace_provenance(self._graph, name, self._folded, self._parameters)[0]
        except (AssertionError, IndexError, ValueError, ZeroDivisionError, KeyError, TypeError):
            return Provenance(name)  # constant folding at load time is not validated


def _plan_window(window: SlidingWindow, single: SingleOperator) -> p.Window:
    begins, ends = single.pads_begin or window.pads_begin, single.pads_end or window.pads_end
    return p.Window(window.kernel, window.strides, window.dilations, begins, ends)
