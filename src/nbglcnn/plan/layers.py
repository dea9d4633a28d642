"""A Plan's layer table: its records, the operands of their operators, and the table for users."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from nbglcnn.errors import NO_SHARED_NAMES, unknown_name_message
from nbglcnn.graph import Comparison as Comparison
from nbglcnn.graph import LayerPair as LayerPair
from nbglcnn.tables import table

Role = Literal["head", "follows", "leads", "alias", "merges", "resamples"]
"""What a layer is among its neighbours, for stages and the graph.

One that `follows` keeps its input's places and belongs to the layer before it; one that `leads`
computes nothing and belongs to the layer behind it; an `alias` does either. One that `merges`
brings several values together, one that `resamples` gives maps of another size. A `head` is a
layer for itself.
"""
ExplanationKind = Literal[
    "nothing",
    "same",
    "pointwise",
    "slope",
    "batch norm",
    "group norm",
    "layer norm",
    "convolution",
    "transposed convolution",
    "matrix",
    "max pool",
    "mean pool",
    "softmax",
    "log softmax",
    "response",
    "sum pool",
    "sum",
    "elementwise",
    "concatenation",
    "moved",
    "chosen",
    "resampling",
    "padding",
]
"""Which explanation shows how a number comes about; "nothing" where there is none yet."""
Bounds = tuple[float | None, float | None]


DisplayKind = Literal["maps", "signal", "attention", "classes"]
"""What a value is, for its picture, besides what its shape says (a vector, a number, an image).

A "signal" has one axis of places: each channel is a curve. "attention" are the weights by which a
token (a row) sums up others (the columns), a map for each head. Of "classes" each place has a score
for each channel, or the class's number itself.
"""

Fit = Literal["", "crop", "letterbox", "stretch"]
"""How a picture of another size becomes an input; "" for an input that takes none."""
IMAGE_RANGES = ((0.0, 1.0), (-1.0, 1.0), (0.0, 255.0))
"""Black and white of the pictures that there are, in the order in which they are looked for."""
CLIP_TOLERANCE = 0.5 / 255
"""A value is clipped where it lies this share of the range beyond it: where 8 bits change it."""


class TokenGrid(msgspec.Struct, frozen=True):
    """The grid of positions that tokens represent; it covers the whole picture of an input.

    Attributes:
        input: The key of the input.
        rows: The number of rows of the grid.
        columns: The number of columns of the grid.
        positions: The position of each token, counted row by row; -1 for a token without one.
    """

    input: str
    rows: int
    columns: int
    positions: tuple[int, ...]


class IndexMap(msgspec.Struct, frozen=True):
    """A map from the elements of a value to those of a source, both counted in row-major order.

    The source of an element is `offset` plus the sum of coordinate · stride.

    Attributes:
        sizes: The sizes of the element's coordinates.
        strides: The stride of each coordinate in the source.
        offset: The index in the source of the first element.
        axis: The coordinate that uses `table` in place of its stride; -1 for none.
        table: The offset that each position along `axis` adds to the index in the source.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    axis: int = -1
    table: tuple[int, ...] = ()


class Operand(msgspec.Struct, frozen=True):
    """One input of an operator, used to explain a value.

    Attributes:
        kind: `"value"` or `"parameter"` (readable by `key`), `"number"` (a constant with equal
            elements), `"unnamed"` (no key), `"omitted"` (an optional input) or `"setting"` (a
            shape, axes or similar).
        key: The key of the value or parameter, if the Plan keeps it.
        number: The constant of `"number"`.
        shape: The shape in which the operator reads it.
        index_maps: The maps, applied one after the other, from an element of `shape` to the element
            of `key`.
    """

    kind: Literal["value", "parameter", "number", "unnamed", "omitted", "setting"]
    key: str = ""
    number: float = 0.0
    shape: tuple[int, ...] = ()
    index_maps: tuple[IndexMap, ...] = ()


class Window(msgspec.Struct, frozen=True):
    """The sliding window of a kernel or pool, one entry per spatial axis; empty for others.

    An operator that only pads has only `pads_begin` and `pads_end`. `auto_pad` is already resolved.

    Attributes:
        kernel: The kernel size.
        strides: The strides.
        dilations: The dilations.
        pads_begin: The padding at the start of each axis.
        pads_end: The padding at the end of each axis.
    """

    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    pads_begin: tuple[int, ...] = ()
    pads_end: tuple[int, ...] = ()


class AxisWindow(msgspec.Struct, frozen=True):
    """The positions along one axis of a source that a position of a reader can depend on.

    Position o of the reader depends on the positions o · stride − pad_begin + t · dilation for t
    below `kernel`; transposed, on those i with i · stride − pad_begin + t · dilation = o.

    Attributes:
        axis: The axis of the reader; -1 if each position depends on all positions of the source.
        kernel: The number of positions.
        stride: The stride.
        dilation: The dilation.
        pad_begin: The padding at the start of the axis.
        transposed: Whether the window is that of a transposed convolution.
        padding: The padding: `"zeros"` depends on no position of the source, the others repeat
            positions of it.
        table: The positions for each o, instead of the formula; empty if the formula applies.
    """

    axis: int = -1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad_begin: int = 0
    transposed: bool = False
    padding: Literal["zeros", "reflect", "edge", "wrap"] = "zeros"
    table: tuple[tuple[int, ...], ...] = ()


class FieldMap(msgspec.Struct, frozen=True):
    """The positions of a source that the positions of a reader can depend on.

    Attributes:
        output_sizes: The number of positions along each axis of the reader.
        input_sizes: The number of positions along each axis of the source.
        windows: One AxisWindow per axis of `input_sizes`; no two use the same axis of
            `output_sizes`.
    """

    output_sizes: tuple[int, ...]
    input_sizes: tuple[int, ...]
    windows: tuple[AxisWindow, ...]


class Layer(msgspec.Struct, frozen=True):
    """One row of the layer table: a call of a leaf module, or an operator outside leaf modules.

    Attributes:
        name: The key in `activations`. For an operator of a PyTorch model, it consists of the
            containing module and the code: "block.0: relu", "attn: q @ k.T".
        operator: The ONNX operator: "Conv".
        module: The PyTorch class: "Conv2d"; "" for an ONNX file.
        attributes: The attributes of `operator`.
        input_shapes: The shapes of the inputs, with the batch.
        output_shape: The shape of the output, with the batch.
        parameters: The number of trainable parameters.
        shared: The number of these parameters that an earlier row already counts (a repeated
            module, tied weights). Sum up `parameters - shared` for the network's count.
        macs: Multiply–accumulate operations, for the whole batch.
        bytes: The size of the output as float32 in bytes, for the whole batch.
        description: The settings in PyTorch's notation.
        inputs: The keys of the layers whose outputs it reads.
        operators: All operators that compute the row's value, in order.
        operands: The inputs of `operator`, as Operand records.
        window: The sliding window of `operator`, if it has one.
        position_axes: The axes of the output that distinguish positions, in order. Elements along
            other axes (channels) count as one position.
        dependencies: Triples (reader, source, index into the Plan's `field_maps`). 0 is the output,
            1 and so on are `inputs`, higher numbers are values between them. A value's triples as a
            source precede its triples as a reader.
        role: Its role in stages and in the graph.
        short_name: The name for captions.
        explanation: The kind of explanation for `operator`.
        is_composite: Whether other operators contribute to the value, too, so that it has no
            explanation.
        formula: A function of x in Python syntax (`row` and `column` are the last two coordinates,
            `channel` the second one, `choose(channel, …)` the number of a channel, `slope` the
            second operand), or of the operands a, b, c and so on.
        bounds: The ends at which `formula` saturates; None for an unbounded end.
        type: The common name: PyTorch's class, or the operator in PyTorch's spelling ("ReLU").
        label: The name in pictures if `name` is a number from an exporter: "Conv 45".
        python: Why the model's own framework computes the value in Python; "" for a layer on the
            GPU. The value then belongs to the last input that Python set.
        raw_shape: The shape of the result of `operator`, if other operators only move its elements.
        index_maps: The maps from elements of the value to elements of the result of `operator`.
    """

    name: str
    operator: str
    module: str
    attributes: dict[str, Any]
    input_shapes: tuple[tuple[int, ...], ...]
    output_shape: tuple[int, ...]
    parameters: int
    shared: int
    macs: int
    bytes: int
    description: str = ""
    inputs: tuple[str, ...] = ()  # keys of the layers whose outputs it reads, for the graph
    operators: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    window: Window = Window()
    position_axes: tuple[int, ...] = ()
    dependencies: tuple[tuple[int, int, int], ...] = ()
    role: Role = "head"
    short_name: str = ""
    explanation: ExplanationKind = "nothing"
    is_composite: bool = False
    formula: str = ""
    bounds: Bounds = (None, None)
    type: str = ""
    label: str = ""
    python: str = ""
    raw_shape: tuple[int, ...] = ()
    index_maps: tuple[IndexMap, ...] = ()


def format_layer_count(names: Sequence[str], *, is_comparison: bool) -> str:
    """Format the number of layers: "17", or "17 + 17" for two networks (`is_comparison`)."""
    if not is_comparison:
        return f"{len(names):,}"
    first = sum(name.startswith("A.") for name in names)
    return f"{first:,} + {len(names) - first:,}"


class Layers(Sequence[Layer]):
    """The layer table: a sequence of `Layer` records, indexed by position or name.

    It prints as a table, and displays as HTML in a notebook. An unknown name raises a KeyError with
    the nearest names.

    Args:
        layers: The records.
        shared: For each module name without values, the keys of the module's other names. Default:
            none.

    Example:
        >>> viewer.layers["encoder.0"].output_shape
    """

    def __init__(
        self, layers: tuple[Layer, ...], shared: Mapping[str, Sequence[str]] = NO_SHARED_NAMES
    ) -> None:
        self._layers = layers
        self._shared = shared

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            for layer in self._layers:
                if layer.name == index:
                    return layer
            names = [layer.name for layer in self._layers]
            raise KeyError(unknown_name_message(index, names, "layer", self._shared))
        try:
            return self._layers[index]
        except IndexError:
            count = len(self._layers)
            raise IndexError(
                f"layer {index}: this network has {count} layers, counted from 0"
            ) from None

    def __contains__(self, layer: object) -> bool:
        """Whether the table has a layer of this name, or contains this record."""
        if isinstance(layer, str):
            return any(each.name == layer for each in self._layers)
        return layer in self._layers

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                layer.name,
                layer.type + (" (in Python)" if layer.python else ""),
                "×".join(map(str, layer.output_shape)) or "scalar",
                f"{layer.parameters:,}" if layer.parameters else "",
                f"{layer.macs:,}" if layer.macs else "",
            )
            for layer in self._layers
        ]

    _TITLES = ("name", "type", "output shape", "parameters", "MACs")

    def __repr__(self) -> str:
        return table(self._TITLES, self._rows(), number_columns=(3, 4))

    def _repr_html_(self) -> str:
        return table(self._TITLES, self._rows(), "html")
