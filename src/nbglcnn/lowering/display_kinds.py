"""The display kind of each value of a Graph, which selects its view; found along dataflow links.

Kinds are signals, attention weights and class maps; tokens are mapped to patches of an input.
Shapes are ambiguous: (n, c, length) of a 1-D convolution looks like (n, tokens, features).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from nbglcnn.graph import Graph, Node
from nbglcnn.lowering.receptive_fields import ReceptiveFields
from nbglcnn.ops import OPERATOR_RECORDS
from nbglcnn.ops.operator import Shape
from nbglcnn.ops.receptive_field import (
    MAX_TABLE_LENGTH,
    OperatorField,
    same_position,
    source_positions,
)
from nbglcnn.plan import schema as p
from nbglcnn.plan.layout import NCHW, display_nchw

# Class maps are at most this many times smaller than the image; smaller maps are features.
MAX_CLASS_MAP_DOWNSCALE = 8
MAX_SEARCHED_OPERATORS = 8  # operators to search through
IMAGE_CHANNELS = (1, 3)  # channels of an image input

# Explanation kinds of operators that mix numbers along an axis but keep positions.
POSITION_PRESERVING_KINDS = ("softmax", "log softmax", "layer norm", "group norm")

ImageAxis = tuple[str, int]  # an input's rows (0) or columns (1)


class DisplayKinds:
    """The display kind of each value, its display shape, and its tokens."""

    def __init__(
        self,
        graph: Graph,
        receptive_fields: ReceptiveFields,
        planes: frozenset[str],
        inputs: Mapping[str, str],
    ) -> None:
        """Find the display kinds; `inputs` are the keys of the Graph's inputs by value."""
        self._graph = graph
        self._receptive_fields = receptive_fields
        self._plane_values = planes
        self._signals = _find_signals(graph, receptive_fields)
        self._attention = _find_attention(graph)
        self._classes = _find_class_maps(graph, planes)
        self._grids = _TokenGrids(graph, receptive_fields, inputs)
        self._table: dict[p.TokenGrid, int] = {}

    @property
    def token_grids(self) -> tuple[p.TokenGrid, ...]:
        """All token grids that `attention_grid_indices` has numbered."""
        return tuple(self._table)

    def kind_of(self, value: str, key_kind: str) -> p.DisplayKind:
        """The display kind of a value, for a key of this kind."""
        if value in self._attention:
            return "attention"
        if key_kind == "output" and value in self._classes:
            return "classes"
        return "signal" if value in self._signals else "maps"

    def display_nchw(self, value: str, batch: int) -> NCHW:
        """The display shape of a value; one-head attention and planes are one map per example."""
        shape = self._graph.shape(value)
        if value in self._plane_values:
            n, h, w = shape
            return display_nchw((n, 1, h, w), batch)
        if value in self._attention and len(shape) == 2:
            return (1, 1, *shape)
        if value in self._attention and len(shape) == 3 and shape[0] in (1, batch):
            n, rows, columns = shape
            return (n, 1, rows, columns)
        return display_nchw(shape, batch)

    def attention_grid_indices(self, value: str, batch: int) -> tuple[int, int]:
        """The grids of the rows and columns of attention weights: indices into `token_grids`."""
        shape = self._graph.shape(value)
        if value not in self._attention or (len(shape) > 2 and shape[0] not in (1, batch)):
            return (-1, -1)  # heads of several examples on one axis: no single image
        found = self._grids.tokens_of(value)
        rows, columns = (self._token_index(found.get(len(shape) - k)) for k in (2, 1))
        return rows, columns

    def _token_index(self, tokens: p.TokenGrid | None) -> int:
        return -1 if tokens is None else self._table.setdefault(tokens, len(self._table))


def _find_signals(graph: Graph, receptive_fields: ReceptiveFields) -> frozenset[str]:
    """Values (n, channels, length) that 1-D windows and channel norms read and write.

    Also values linked to such a value position by position, before or after it. 4-D values count if
    they have a single row or column.
    """
    found: set[str] = set()

    def is_line(name: str) -> bool:
        shape = graph.shape(name)
        return len(shape) == 3 or (len(shape) == 4 and min(shape[2:]) == 1 < max(shape[2:]))

    def follows(linked: OperatorField, name: str, source: str) -> bool:
        shapes = graph.shape(name), graph.shape(source)
        if (linked.output_shape, linked.input_shape) != shapes or len(shapes[0]) != len(shapes[1]):
            return False
        spatial = range(2, len(shapes[0]))
        return all((along := linked.windows[k]) is not None and along.axis == k for k in spatial)

    pairs: list[tuple[str, str]] = []
    for node in graph.nodes:
        record = OPERATOR_RECORDS[node.op]
        kind = record.explanation_kind(graph, node)
        if record.window is not None or kind in ("batch norm", "group norm"):
            found.update(filter(None, (node.inputs[0], *node.outputs)))
        for name in filter(None, node.outputs):
            read = receptive_fields.source_fields(node, name)
            pairs += [(name, source) for source, linked in read if follows(linked, name, source)]
    before = -1
    while len(found) > before:
        before = len(found)
        for name, source in pairs:
            if name in found or source in found:
                found.update((name, source))
    return frozenset(name for name in found if is_line(name))


def _find_attention(graph: Graph) -> frozenset[str]:
    """Softmax outputs that a product uses as weights, and the values in between.

    The value is the left operand of a product of two computed values, and the softmax runs along
    its rows.
    """
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in filter(None, node.inputs):
            readers.setdefault(name, []).append(node)

    def weighs(name: str, steps: int = MAX_SEARCHED_OPERATORS) -> set[str]:
        """The value, and the values after it, that are used as attention weights."""
        found: set[str] = set()
        for node in readers.get(name, ()) if steps else ():
            kind = OPERATOR_RECORDS[node.op].explanation_kind(graph, node)
            if kind == "matrix" and node.inputs[0] == name:
                other = graph.values.get(node.inputs[1])
                if other is None or not other.is_constant:
                    found.add(name)
            # Dropout, a mask or a factor may be in between.
            elif kind in ("same", "pointwise") and len(node.outputs) == 1:
                [output] = node.outputs
                if graph.shape(output) == graph.shape(name) and (
                    behind := weighs(output, steps - 1)
                ):
                    found |= {name, *behind}
        return found

    found: set[str] = set()
    for node in graph.nodes:
        if OPERATOR_RECORDS[node.op].explanation_kind(graph, node) == "softmax":
            rank = len(graph.shape(node.outputs[0]))
            axis = node.attributes.get("axis", -1)
            if rank > 1 and axis in (-1, rank - 1):
                found |= weighs(node.outputs[0])
    return frozenset(found)


def _find_class_maps(graph: Graph, planes: frozenset[str]) -> frozenset[str]:
    """Outputs with class scores, or a class index, for each pixel of an input image.

    Scores come directly from a convolution, at most resampled or summed, or from a softmax over the
    channels; outputs of other activations are features. Three channels without a softmax are a
    colour image.
    """
    producer = {name: node for node in graph.nodes for name in node.outputs if name}
    pictures = [
        s[2:] for s in map(graph.shape, graph.inputs) if len(s) == 4 and s[1] in IMAGE_CHANNELS
    ]

    def covers(h: int, w: int) -> bool:
        return min(h, w) > 1 and any(
            h <= height <= h * MAX_CLASS_MAP_DOWNSCALE and abs(height / h - width / w) * w <= 1
            for height, width in pictures
        )

    def scores(name: str, channels: int, steps: int = MAX_SEARCHED_OPERATORS) -> bool:
        node = producer.get(name)
        if node is None or steps == 0:
            return False
        record = OPERATOR_RECORDS[node.op]
        kind = record.explanation_kind(graph, node)
        if kind in ("softmax", "log softmax"):
            return node.attributes.get("axis", -1) in (1, -3)
        if kind in ("convolution", "transposed convolution"):
            return channels not in IMAGE_CHANNELS
        if kind in ("same", "resampling") or record.output_bounds(graph, node) == (0.0, 1.0):
            return scores(node.inputs[0], channels, steps - 1)
        return kind == "sum" and all(scores(one, channels, steps - 1) for one in node.inputs)

    def is_map(name: str) -> bool:
        shape = graph.shape(name)
        if name in planes:
            return graph.values[name].dtype.kind in "iu" and covers(*shape[1:])
        if len(shape) != 4 or not covers(*shape[2:]):
            return False
        return shape[1] > 1 and scores(name, shape[1])

    return frozenset(name for name in graph.outputs if is_map(name))


class _TokenGrids:
    """Axes of values that are rows, columns or tokens (grid positions) of an input image.

    An axis that merges rows and columns is a token axis. It remains one through operators that
    process tokens separately, and through attention, whose rows are the queries' tokens.
    """

    def __init__(self, graph: Graph, links: ReceptiveFields, inputs: Mapping[str, str]) -> None:
        self._graph = graph
        # By value and axis: the input's key, and 0 for image rows or 1 for columns; or tokens.
        self._image_axes: dict[str, dict[int, ImageAxis]] = {}
        self._tokens: dict[str, dict[int, p.TokenGrid]] = {}
        for name in graph.inputs:
            shape = graph.shape(name)
            if len(shape) == 4 and shape[1] in IMAGE_CHANNELS:
                self._image_axes[name] = {2: (inputs[name], 0), 3: (inputs[name], 1)}
        for node in graph.nodes:
            stays = (
                OPERATOR_RECORDS[node.op].explanation_kind(graph, node) in POSITION_PRESERVING_KINDS
            )
            for name in filter(None, node.outputs):
                for source, linked in links.source_fields(node, name):
                    if source in self._image_axes or source in self._tokens:
                        self._propagate(
                            name, source, _preserve_positions(linked) if stays else linked
                        )

    def tokens_of(self, value: str) -> Mapping[int, p.TokenGrid]:
        """The tokens along each axis of a value."""
        return self._tokens.get(value, {})

    def _propagate(self, name: str, source: str, operator_field: OperatorField) -> None:
        """Propagate what is known of a source's axes to a value."""
        shape, read = self._graph.shape(name), self._graph.shape(source)
        if max((*shape, *read), default=0) > MAX_TABLE_LENGTH:
            return
        before, after = (
            _view_axes(read, operator_field.input_shape),
            _view_axes(shape, operator_field.output_shape),
        )
        axis_of = {parts[0]: axis for axis, parts in enumerate(before) if len(parts) == 1}
        reads = {
            along.axis: (axis_of[part], along)
            for part, along in enumerate(operator_field.windows)
            if along is not None and part in axis_of
        }
        sides, tokens = self._image_axes.get(source, {}), self._tokens.get(source, {})
        for axis, parts in enumerate(after):
            found = [reads[part] for part in parts if part in reads]
            if not found or len(found) < len(parts):
                continue
            [(first, along), *others] = found
            if not others and first in sides:
                self._image_axes.setdefault(name, {}).setdefault(axis, sides[first])
            elif not others and first in tokens:
                self._merge_tokens(
                    name, axis, tokens[first], source_positions(read[first], along, shape[axis])
                )
            elif len(found) == 2 and all(one.kernel == one.stride == 1 for _, one in found):
                self._join_axes(
                    name, axis, [sides.get(k) for k, _ in found], [read[k] for k, _ in found]
                )

    def _join_axes(
        self, name: str, axis: int, image_axes: Sequence[ImageAxis | None], lengths: Sequence[int]
    ) -> None:
        """Make tokens of an axis that merges an image's rows and columns, row by row."""
        match image_axes:
            case [(rows_of, 0), (columns_of, 1)] if rows_of == columns_of:
                rows, columns = lengths
                grid = p.TokenGrid(rows_of, rows, columns, tuple(range(rows * columns)))
                self._tokens.setdefault(name, {}).setdefault(axis, grid)

    def _merge_tokens(
        self, name: str, axis: int, tokens: p.TokenGrid, source_positions: Iterable[Sequence[int]]
    ) -> None:
        """Set the tokens along an axis from a source's tokens, if each position has at most one."""
        rows = list(source_positions)
        if any(len(row) > 1 for row in rows):
            return
        places = tuple(tokens.positions[row[0]] if row else -1 for row in rows)
        known = self._tokens.setdefault(name, {})
        other = known.get(axis)
        if other is not None:
            # The operands of a sum, or the parts of a Concat; a token with two positions gets none.
            if msgspec.structs.replace(other, positions=()) != msgspec.structs.replace(
                tokens, positions=()
            ):
                return
            pairs = zip(other.positions, places, strict=True)
            places = tuple(max(a, b) if min(a, b) < 0 or a == b else -1 for a, b in pairs)
        known[axis] = msgspec.structs.replace(tokens, positions=places)


def _preserve_positions(operator_field: OperatorField) -> OperatorField:
    """The field as if unmixed along axes on which the operator keeps positions."""
    axes = tuple(
        same_position(k) if along is None else along
        for k, along in enumerate(operator_field.windows)
    )
    return (
        OperatorField(operator_field.output_shape, operator_field.input_shape, axes)
        if operator_field.output_shape == operator_field.input_shape
        else operator_field
    )


def _view_axes(shape: Shape, view_shape: Shape) -> list[tuple[int, ...]]:
    """For each axis of a shape, the axes of a view of the same elements that it merges.

    Axes of length 1 are left out. If the shapes don't match, the axis has none.
    """
    left = [(k, length) for k, length in enumerate(view_shape) if length > 1]
    parts: list[tuple[int, ...]] = []
    for length in shape:
        size, mine = 1, []
        while size < length and left:
            k, part = left.pop(0)
            size *= part
            mine.append(k)
        if size != length:
            return [*parts, *[()] * (len(shape) - len(parts))]
        parts.append(tuple(mine))
    return parts
