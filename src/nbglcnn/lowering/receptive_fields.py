"""Receptive fields: the input positions that a layer's positions depend on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nbglcnn.graph import Graph, Node
from nbglcnn.ops import OPERATOR_RECORDS
from nbglcnn.ops.axes import nchw_flags
from nbglcnn.ops.operator import Shape
from nbglcnn.ops.receptive_field import OperatorField
from nbglcnn.plan import schema as p

# Most positions tracked per value. If the tracked axes exceed this, fall back to `spatial_axes`.
MAX_POSITIONS = 2**20

Flags = tuple[bool, ...]
LayerDependency = tuple[int, int, int]


def spatial_axes(shape: Shape) -> tuple[int, ...]:
    """The axes after batch and channels, the default position axes of a value."""
    return tuple(range(2, len(shape)))


class ReceptiveFields:
    """The position axes of a Graph's values, and their dependencies."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._fields: dict[str, Sequence[OperatorField | None]] = {}  # by output name
        self._table: dict[p.FieldMap, int] = {}
        self.position_axes = {name: spatial_axes(graph.shape(name)) for name in graph.inputs}
        for node in graph.nodes:
            for position, name in enumerate(node.outputs):
                if name:
                    self._fields[name] = OPERATOR_RECORDS[node.op].receptive_field(
                        graph, node, position
                    )
                    self.position_axes[name] = self._output_position_axes(node, name)

    @property
    def field_maps(self) -> tuple[p.FieldMap, ...]:
        """All field maps to which `trace_dependencies` has given an index."""
        return tuple(self._table)

    def trace_dependencies(
        self, value: str, nodes: Iterable[Node], sources: Mapping[str, int]
    ) -> tuple[LayerDependency, ...]:
        """Return the read relations from a layer's value back to `sources` through these nodes.

        The numbers in a row are 0 for `value` and those in `sources`. A value whose only reader
        reads it position by position shares the reader's number.
        """
        if value not in self.position_axes or not math.prod(self._graph.shape(value)):
            return ()  # value depends only on weights, or has no elements
        number = {value: 0, **sources}
        readers: dict[str, dict[tuple[int, p.FieldMap], None]] = {name: {} for name in sources}
        steps: list[LayerDependency] = []
        if value in sources:
            readers[value][0, self._identity_field(value)] = None
        last = len(sources)
        # Reverse order: visit the readers of a value before its producer.
        for node in {node.name: node for node in nodes}.values():
            for name in node.outputs:
                if name != value and name not in readers:
                    continue
                if name != value:
                    reader_reads = list(readers[name])
                    if len(reader_reads) == 1 and reader_reads[0][1] == self._identity_field(name):
                        number[name] = reader_reads[0][0]
                    else:
                        last += 1
                        number[name] = last
                        steps += [
                            (reader, last, self._field_index(field_map))
                            for reader, field_map in reader_reads
                        ]
                for source, field_map in self._source_receptive_fields(node, name):
                    readers.setdefault(source, {})[number[name], field_map] = None
        for name, place in sources.items():
            steps += [
                (reader, place, self._field_index(field_map)) for reader, field_map in readers[name]
            ]
        return tuple(steps)

    def _identity_field(self, name: str) -> p.FieldMap:
        return _identity_map(
            math.prod(_flagged_lengths(self._graph.shape(name), self._position_flags(name)))
        )

    def _field_index(self, field_map: p.FieldMap) -> int:
        return self._table.setdefault(field_map, len(self._table))

    def _position_flags(self, name: str) -> Flags:
        places = self.position_axes[name]
        return tuple(axis in places for axis in range(len(self._graph.shape(name))))

    def input_fields(self, name: str) -> Sequence[OperatorField | None]:
        """The receptive field of a value in each input of the node that computes it."""
        return self._fields[name]

    def source_fields(self, node: Node, name: str) -> Iterable[tuple[str, OperatorField]]:
        """Yield the values that a node reads for one of its outputs, with their operator fields."""
        for source, operator_field in zip(node.inputs, self._fields[name], strict=True):
            if operator_field is not None and source in self.position_axes:
                yield source, operator_field

    def _source_receptive_fields(self, node: Node, name: str) -> Iterable[tuple[str, p.FieldMap]]:
        """Yield the values that a node reads for one of its outputs, with their field maps."""
        for source, operator_field in self.source_fields(node, name):
            yield source, self._receptive_field(name, source, operator_field)

    def _receptive_field(self, name: str, source: str, operator_field: OperatorField) -> p.FieldMap:
        shapes = [self._graph.shape(one) for one in (name, source)]
        views = [operator_field.output_shape, operator_field.input_shape]
        flags = [
            _view_flags(shape, self._position_flags(one), view)
            for shape, one, view in zip(shapes, (name, source), views, strict=True)
        ]
        reader, input_flags = flags
        if reader is None or input_flags is None:
            sizes = [
                _flagged_lengths(s, self._position_flags(o))
                for s, o in zip(shapes, (name, source), strict=True)
            ]
            return p.FieldMap(sizes[0], sizes[1], (p.AxisWindow(),) * len(sizes[1]))
        at = {axis: k for k, axis in enumerate(k for k, flag in enumerate(reader) if flag)}
        axes = tuple(
            p.AxisWindow()
            if along is None or along.axis not in at
            else msgspec.structs.replace(along, axis=at[along.axis])
            for along, flag in zip(operator_field.windows, input_flags, strict=True)
            if flag
        )
        sizes = [
            _flagged_lengths(view, flag)
            for view, flag in zip(views, (reader, input_flags), strict=True)
        ]
        if sizes[0] == sizes[1] and all(one == p.AxisWindow(k) for k, one in enumerate(axes)):
            return _identity_map(math.prod(sizes[0]))
        return p.FieldMap(sizes[0], sizes[1], axes)

    def _output_position_axes(self, node: Node, name: str) -> tuple[int, ...]:
        """The axes of an output along which positions depend on different input positions."""
        shape = self._graph.shape(name)
        units = _stride_spans(shape)
        found: set[int] = set()
        for source, operator_field in zip(node.inputs, self._fields[name], strict=True):
            if operator_field is None or source not in self.position_axes:
                continue
            flags = _view_flags(
                self._graph.shape(source), self._position_flags(source), operator_field.input_shape
            )
            if flags is None:
                continue
            spans = _stride_spans(operator_field.output_shape)
            for along, flag in zip(operator_field.windows, flags, strict=True):
                if along is None or not flag:
                    continue
                if operator_field.output_shape == shape:
                    found.add(along.axis)
                    continue
                low, high = spans[along.axis]
                found |= {
                    k
                    for k, (start, end) in enumerate(units)
                    if shape[k] > 1 and start < high and low < end
                }
        if not found or math.prod(shape[k] for k in found) > MAX_POSITIONS:
            return spatial_axes(shape)
        return tuple(sorted(found))


def _identity_map(count: int) -> p.FieldMap:
    return p.FieldMap((count,), (count,), (p.AxisWindow(0),))


def _stride_spans(shape: Shape) -> list[tuple[int, int]]:
    """Each axis's stride, and the stride times its length."""
    units = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    return [(unit, unit * length) for unit, length in zip(units, shape, strict=True)]


def _view_flags(shape: Shape, flags: Flags, view: Shape) -> Flags | None:
    """Return the flag of each axis of a view, or None if one of its axes mixes both flag values."""
    return flags if view == shape else nchw_flags(shape, flags, view)


def _flagged_lengths(shape: Shape, flags: Flags) -> Shape:
    return tuple(length for length, flag in zip(shape, flags, strict=True) if flag)
