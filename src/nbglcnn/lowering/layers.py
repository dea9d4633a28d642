"""The layer table of a Graph: what each layer is, reads and costs, for people and pictures."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from nbglcnn.graph import Graph, Key, Node
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


def layer_keys(graph: Graph) -> list[Key]:
    """The keys that are rows of the table: layers, and outputs that are known by no other name.

    In an ONNX file what computes an output has that output's name alone.
    """
    named = {key.value for key in graph.keys if key.kind in ("input", "layer")}
    return [
        key
        for key in graph.keys
        if key.kind == "layer" or (key.kind == "output" and key.value not in named)
    ]


def pytorch_spelling(op: str) -> str:
    """An operator as PyTorch's class for it is spelled, where that is another spelling: ReLU."""
    short = OPERATOR_RECORDS[op].caption if op in OPERATOR_RECORDS else None
    return short if short is not None and short.lower() == op.lower() else op


# What exporters call a value that has no name of its own: "45", "val_19", "onnx::Conv_45".
_NUMERIC_NAME = re.compile(r"(?:val_|onnx::\w+_)?(\d+)")


def _labels(rows: Sequence[p.Layer]) -> dict[str, str]:
    """What people read in place of names that are numbers; a PyTorch module "0" is called so."""
    found = {
        row.name: f"{row.type} {number[1]}"
        for row in rows
        if not row.module and (number := _NUMERIC_NAME.fullmatch(row.name))
    }
    taken = Counter([*found.values(), *(row.name for row in rows)])
    return {name: label for name, label in found.items() if taken[label] == 1}


def find_planes(graph: Graph) -> frozenset[str]:
    """The values (n, h, w) that are a map for each example, by what they are made of.

    A channel of maps (n, c, h, w), or what is left of all of them (an argmax, a mean), and what is
    computed of such a value place by place. By its shape alone (n, tokens, features) is the same,
    and its tokens are channels. An input is one when it is given a channel's axis.
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
    """The Layer records of a graph's layer keys, and which of them each node's passes belong to."""
    producer = {name: node for node in graph.nodes for name in node.outputs if name}
    keys = layer_keys(graph)
    by_value: dict[str, str] = {key.value: key.name for key in graph.keys if key.kind == "input"}
    origins = parameter_origins(graph)
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    operand = _OperandResolver(graph)
    rows: list[p.Layer] = []
    layer_of: dict[str, int] = {}
    counted: set[str] = set()
    initial = {carry.target: carry.initial for carry in graph.carries}
    for key in keys:
        mine, sources = _collect_nodes(graph, key.value, by_value, producer)
        for node in mine:
            layer_of.setdefault(node.name, len(rows))
        read = [name for node in mine for name in node.inputs if name]
        # A carried parameter counts as its initial value.
        read = [initial.get(name, name) for name in read]
        if not mine:  # computed when the network was read, from parameters alone
            read = [key.value]
        parameters = {
            name for name in read if graph.values[name].is_constant and name not in by_value
        }
        origin_names = {origin for name in parameters for origin in origins.get(name, ())}
        computing = [node for node in mine if not is_movement(graph, node)]
        main = max(
            computing or mine, key=lambda n: OPERATOR_RECORDS[n.op].macs(graph, n), default=None
        )
        inputs = [name for name in read if name not in parameters and name in by_value]
        mine.sort(key=lambda node: place[node.name])
        window = OPERATOR_RECORDS[main.op].window if main else None
        single = as_single_operator(graph, mine, main) if main else SingleOperator("Identity", ())
        reading = OperandTrace(())
        if main is not None:
            reading = trace_operands(
                graph, key.value, mine, main, single.inputs, producer, by_value
            )
        single = replace(single, is_composite=single.is_composite and not reading.is_single)
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
                output_shape=graph.shape(key.value),
                parameters=sum(math.prod(graph.shape(name)) for name in origin_names),
                shared=sum(math.prod(graph.shape(name)) for name in origin_names & counted),
                macs=sum(OPERATOR_RECORDS[n.op].macs(graph, n) for n in mine),
                bytes=4 * math.prod(graph.shape(key.value)),
                description=key.description,
                inputs=tuple(by_value[value] for value in sources),
                operators=tuple(
                    n.python_fallback.operator if n.python_fallback else n.op for n in mine
                ),
                operands=tuple(
                    p.Operand("setting")
                    if read.name and k in OPERATOR_RECORDS[single.operator].shape_inputs
                    else operand.resolve(read, shape, by_value)
                    for k, (read, shape) in enumerate(reading.operands)
                ),
                window=_plan_window(window(graph, main), single) if window and main else p.Window(),
                position_axes=receptive_fields.position_axes.get(key.value, ()),
                dependencies=receptive_fields.receptive_reads(key.value, reversed(mine), sources),
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
        by_value.setdefault(key.value, key.name)
        counted |= origin_names
    labels = _labels(rows)
    labelled = (msgspec.structs.replace(row, label=labels.get(row.name, "")) for row in rows)
    return tuple(labelled), layer_of


def layer_rows(graph: Graph, layers: Sequence[p.Layer]) -> dict[str, int]:
    """For each key whose value a layer gives, a module's and an output's too, that layer's row.

    A value belongs to the first that gives it: what computes nothing has the row before it.
    """
    rows = {layer.name: number for number, layer in enumerate(layers)}
    made = {
        key.value: rows.get(key.name, -1)
        for key in reversed(graph.keys)
        if key.kind == "input" or key.name in rows
    }
    return {key.name: made.get(key.value, -1) for key in graph.keys}


def layer_nodes(graph: Graph) -> dict[str, list[Node]]:
    """The nodes of each layer, by its name, also of those that no operator of ours computes."""
    producer = {name: node for node in graph.nodes for name in node.outputs if name}
    place = {node.name: number for number, node in enumerate(graph.nodes)}
    known = {key.value for key in graph.keys if key.kind == "input"}
    found: dict[str, list[Node]] = {}
    for key in layer_keys(graph):
        mine, _ = _collect_nodes(graph, key.value, known, producer)
        found[key.name] = sorted(mine, key=lambda node: place[node.name])
        known.add(key.value)
    return found


def _collect_nodes(
    graph: Graph, value: str, known: Container[str], producer: Mapping[str, Node]
) -> tuple[list[Node], dict[str, int]]:
    """The nodes of a layer, from its value back to those that earlier keys have, the last first.

    Also these, counted from 1.
    """
    mine: dict[str, Node] = {}
    sources: dict[str, int] = {}
    pending, seen = [value], set()
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in known:
            sources[name] = len(sources) + 1
        elif name in producer:
            node = mine.setdefault(producer[name].name, producer[name])
            # The last is looked at first.
            pending += [
                source
                for source in reversed(node.inputs)
                if source
                and (
                    source in known  # a layer's that follows from parameters alone, too
                    or (one := graph.values.get(source)) is None
                    or not one.is_constant
                )
            ]
    return list(mine.values()), sources


def parameter_origins(graph: Graph) -> dict[str, frozenset[str]]:
    """For each constant, the parameters it was made of."""
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


def default_fit(graph: Graph, value: str) -> p.Fit:
    """How pictures become an input where nobody says; "" for one that takes none."""
    shape = graph.shape(value)
    pictures = picture_layout(shape, graph.values[value].dtype) and value not in graph.noise
    return "crop" if pictures else ""


def reshape_origins(graph: Graph) -> dict[str, str]:
    """For constants that are others in another shape: those, with their elements in that order."""
    origins: dict[str, str] = {}
    for node in graph.folded_nodes:
        record = OPERATOR_RECORDS.get(node.op)
        if record is not None and record.role in ("leads", "alias"):
            source = node.inputs[0]
            origins[node.outputs[0]] = origins.get(source, source)
    return origins


class _OperandResolver:
    """Where the page finds what operators read."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._parameters: dict[str, str] = {}
        for parameter, value in graph.parameters.items():
            self._parameters.setdefault(value, parameter)
        self._folded = {name: node for node in graph.folded_nodes for name in node.outputs if name}
        self._initial = {carry.target: carry.initial for carry in graph.carries}
        # Numbers that come with new weights are none that a table could hold.
        self._weight_dependent = set(graph.parameters.values())
        for node in graph.folded_nodes:
            if self._weight_dependent.intersection(node.inputs):
                self._weight_dependent.update(node.outputs)

    def resolve(
        self, read: Provenance, shape: tuple[int, ...], keys: Mapping[str, str]
    ) -> p.Operand:
        """The operand that has this value's elements; `keys` are those of values to be read."""
        name = self._initial.get(read.name, read.name)
        if not name:
            return p.Operand("omitted")
        if name in keys:
            return p.Operand("value", keys[name], shape=shape, index_maps=read.index_maps)
        data = self._graph.values[name].data
        if data is None or data.dtype.kind not in "fiub" or not data.size:
            return p.Operand("unnamed")
        if name in self._weight_dependent:
            origin = self._parameter_origin(name)
            parameter = self._parameters.get(origin.name) if data.dtype.kind == "f" else None
            if parameter is None:
                return p.Operand("unnamed")
            moves = (*read.index_maps, *origin.index_maps)
            return p.Operand("parameter", parameter, shape=shape, index_maps=moves)
        # Axes that were stretched may be far longer than what lies in memory.
        short = data[tuple(slice(None if stride else 1) for stride in data.strides)]
        number = float(short.min())
        same = math.isfinite(number) and number == float(short.max())
        return p.Operand("number", number=number) if same else p.Operand("unnamed")

    def _parameter_origin(self, name: str) -> Provenance:
        """The parameter whose elements a constant's are; itself where it was computed."""
        try:
            return trace_provenance(self._graph, name, self._folded, self._parameters)[0]
        except (AssertionError, IndexError, ValueError, ZeroDivisionError, KeyError, TypeError):
            return Provenance(name)  # nobody has checked what runs while the model is read


def _plan_window(window: SlidingWindow, single: SingleOperator) -> p.Window:
    begins, ends = single.pads_begin or window.pads_begin, single.pads_end or window.pads_end
    return p.Window(window.kernel, window.strides, window.dilations, begins, ends)
