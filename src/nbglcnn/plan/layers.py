"""A Plan's layer table: its rows, what their operators read, and the table as people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from nbglcnn.errors import NO_SHARED_NAMES, unknown_name_message
from nbglcnn.graph import Comparison as Comparison
from nbglcnn.graph import Pair as Pair
from nbglcnn.tables import table

Role = Literal["head", "follows", "leads", "alias", "merges", "resamples"]
"""What a layer is among its neighbours, for stages and the graph.

One that `follows` keeps its input's places and belongs to the layer before it; one that `leads`
computes nothing and belongs to the layer behind it; an `alias` does either. One that `merges`
brings several values together, one that `resamples` gives maps of another size. A `head` is a
layer for itself.
"""
Explains = Literal[
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


Form = Literal["maps", "signal", "attention", "classes"]
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


class Tokens(msgspec.Struct, frozen=True):
    """The places of an input's picture that tokens stand for: those of a grid over all of it.

    `places` has one for each token, counted row by row; -1: it stands for none.
    """

    input: str
    rows: int
    columns: int
    places: tuple[int, ...]


class Move(msgspec.Struct, frozen=True):
    """Which element of a source each element of a value is, both counted in row-major order.

    An element has coordinates along `sizes`; its source is `offset` and the sum of coordinate ·
    stride. Along `axis` (−1: along none) `table` has what each place adds instead.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    axis: int = -1
    table: tuple[int, ...] = ()


class Operand(msgspec.Struct, frozen=True):
    """What an operator reads at one place of its inputs, for explaining a value.

    A "value" or "parameter" can be read as `key`, where the Plan keeps it; a constant whose
    elements are all the same is a "number"; an "unnamed" one has no key; an optional input that
    isn't there is "omitted"; a "setting" is a shape, axes or the like. The operator reads it in
    `shape`; an element of that is the one of `key` that all `moves` lead to, one after the other.
    """

    kind: Literal["value", "parameter", "number", "unnamed", "omitted", "setting"]
    key: str = ""
    number: float = 0.0
    shape: tuple[int, ...] = ()
    moves: tuple[Move, ...] = ()


class Window(msgspec.Struct, frozen=True):
    """How a kernel or pool slides, an entry per spatial axis; `begins` and `ends` are padding.

    All are empty for an operator without a window; one that only pads has `begins` and `ends`. What
    `auto_pad` means is already worked out.
    """

    kernel: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()


class Along(msgspec.Struct, frozen=True):
    """The places along one axis of a source that a place of a reader can depend on.

    The reader's place o along its axis `axis` depends on the places o · stride − begin + t ·
    dilation for t below `kernel`; transposed, on those i with i · stride − begin + t · dilation =
    o. What lies outside the source isn't there, or is what `padding` repeats. A `table` has a
    list of places for each o instead. With `axis` −1 each place depends on every place.
    """

    axis: int = -1
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    begin: int = 0
    transposed: bool = False
    padding: Literal["zeros", "reflect", "edge", "wrap"] = "zeros"
    table: tuple[tuple[int, ...], ...] = ()


class Reach(msgspec.Struct, frozen=True):
    """Which places of a source the places of a reader can depend on.

    `reader` and `source` are how many places there are along each axis, and `axes` has an Along
    for each axis of `source`; no two of them name the same axis of `reader`.
    """

    reader: tuple[int, ...]
    source: tuple[int, ...]
    axes: tuple[Along, ...]


class Layer(msgspec.Struct, frozen=True):
    """One row of the summary: a leaf module's call, or an operator that belongs to none.

    `name` is its key; an operator of a PyTorch model says in which module it is and what the code
    says there: "block.0: relu", "attn: q @ k.T". `type` is what people call it: PyTorch's class, or
    the operator in PyTorch's spelling ("ReLU"). `label` is what pictures say in place of a `name`
    that is an exporter's number: "Conv 45".

    `operator` is the ONNX operator ("Conv"), `module` PyTorch's class name ("Conv2d", "" for an
    ONNX file), `description` its settings in PyTorch's words; `parameters` counts trainable
    numbers and `shared` those of them that an earlier row has too (a module that is called twice,
    tied weights): the differences add up to the network's. `macs` are
    multiply–accumulate operations, `bytes` float32 bytes of the output. `operators` are all that
    compute it, in order; `attributes`, `operands` and `window` are those of `operator` alone.

    `places` are the axes of the output that tell its places apart, in their order; all that lies
    along the others (channels) counts as one place. `reads` says what can depend on what, as
    (reader, source, index into the Plan's reaches): 0 is the output, 1 and so on are `inputs`,
    higher numbers stand for values between them. A reader's own rows come before it is a source.

    What the page knows of operators stands here: `role`; `short`, what captions call it;
    `explains`, the kind of `operator`'s explanation, and `composite`: that operator isn't all that
    the layer computes, so there is none; `formula`, of a function of one number, in x, as Python
    would write it (`row` and `column` are the last two coordinates, `channel` is the second one,
    `choose(channel, …)` the number of a channel, `slope` the second operand), or of the operands,
    which are a, b, c and so on; `bounds`, the ends at which it saturates. Where other operators
    only move what `operator` gives, that has the shape `made`, and `moves` lead to its elements.

    `python` says why the model's own framework computes the value in the place of passes, for the
    last input from Python; empty for a layer that the GPU computes.
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
    inputs: tuple[str, ...] = ()  # keys of the layers it reads, for drawing the graph
    operators: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    window: Window = Window()
    places: tuple[int, ...] = ()
    reads: tuple[tuple[int, int, int], ...] = ()
    role: Role = "head"
    short: str = ""
    explains: Explains = "nothing"
    composite: bool = False
    formula: str = ""
    bounds: Bounds = (None, None)
    type: str = ""
    label: str = ""
    python: str = ""
    made: tuple[int, ...] = ()
    moves: tuple[Move, ...] = ()


def format_layer_count(names: Sequence[str], *, is_comparison: bool) -> str:
    """How many layers these are, two networks' apart if `is_comparison`: "17", "17 + 17"."""
    if not is_comparison:
        return f"{len(names):,}"
    first = sum(name.startswith("A.") for name in names)
    return f"{first:,} + {len(names) - first:,}"


class Layers(Sequence[Layer]):
    """The layer table: a sequence that also takes names, printed as a table."""

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
            raise IndexError(f"layer {index}: this network has {count} layers, from 0") from None

    def __contains__(self, layer: object) -> bool:
        """Whether there is a layer of this name, or this very record of one."""
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
        return table(self._TITLES, self._rows(), numbers=(3, 4))

    def _repr_html_(self) -> str:
        return table(self._TITLES, self._rows(), "html")
