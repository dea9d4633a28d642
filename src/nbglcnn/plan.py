"""The Plan: a compiled network as data, without operators or GPU calls.

This is the one place where the format is written. TypeScript's types are generated from it
(`js/src/plan.ts`), and `to_bytes`/`from_bytes` hold the only container code in Python.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from nbglcnn.errors import ModelError, unknown
from nbglcnn.layout import Layout

VERSION = 4  # of the format; a reader refuses any other
MAGIC = b"NBGLCNN2"  # then the header's length and the checksum, 4 bytes each, then the header
ALIGN = (
    256  # of every blob in the file, and of each pass's uniforms: WebGL2's largest offset alignment
)
UNIFORM_BYTES = 512  # of one pass's uniform block, as glsl/prelude.glsl declares it

Float32 = npt.NDArray[np.float32]
Precision = Literal["float32", "float16"]
Format = Literal["rgba32f", "rgba16f"]
TEXEL_BYTES = {"rgba32f": 16, "rgba16f": 8}


class Target(msgspec.Struct, frozen=True):
    """What a device can do; by default WebGL2's guaranteed minimums, 4096 texels a side.

    Without `float32_render` it can draw 16-bit floats only, and Plans for it have that precision.
    Without `fast_kernels` each operator takes its plainest kernel: the faster ones were found to
    compute wrong numbers there.
    """

    max_texture_size: int = 4096
    max_array_layers: int = 256
    max_draw_buffers: int = 4
    max_texture_units: int = 16
    float32_render: bool = True
    fast_kernels: bool = True


class Texture(msgspec.Struct, frozen=True):
    """A 2-D texture array. All textures are arrays, also those of one layer."""

    width: int
    height: int
    layers: int
    format: Format = "rgba32f"

    @property
    def bytes(self) -> int:
        """Its bytes on the device."""
        return self.width * self.height * self.layers * TEXEL_BYTES[self.format]


class Program(msgspec.Struct, frozen=True):
    """A fragment shader: GLSL ES 3.00 text without its #version line.

    `samplers` are the names of its sampler2DArray uniforms in the order of a Pass's `inputs`;
    `targets` is the number of render targets (outputs o0, o1, …), the layers of the texture it
    writes. `name` is the kernel's name, for messages and profiles.
    """

    name: str
    source: str
    samplers: tuple[str, ...]
    targets: int


class Pass(msgspec.Struct, frozen=True):
    """One draw: a full-viewport triangle with `program` over `inputs` into every layer of `output`.

    `uniforms` is the byte offset of its UNIFORM_BYTES in the Plan's uniform blob; `viewport` is
    (width, height) in texels of the output; `layer` indexes the Plan's layers (-1: none); `cost` is
    a number of texture fetches, to predict time and to cut long passes.
    """

    program: int
    inputs: tuple[int, ...]
    output: int
    uniforms: int
    viewport: tuple[int, int]
    layer: int = -1
    cost: int = 0


class Recipe(msgspec.Struct, frozen=True):
    """How a weight texture is packed: a packer's name, the constants' names, its arguments."""

    packer: str
    sources: tuple[str, ...]
    arguments: dict[str, Any] = {}


class Weight(msgspec.Struct, frozen=True):
    """The contents of a texture that no pass writes: float32 RGBA, named by content hash.

    They are float32 for a texture of 16-bit floats too, which rounds them when they are uploaded.
    """

    texture: int
    hash: str
    recipe: Recipe


class Read(msgspec.Struct, frozen=True):
    """How elements reach the CPU: draw `step`, then read `viewport` of its output.

    Each RGBA texel is four elements in order.

    The first `count` floats are the tensor in row-major order.
    """

    step: Pass
    count: int


class Value(msgspec.Struct, frozen=True):
    """A tensor that can be read and drawn under the name `key`.

    `kind` is input, layer, module or output; `frame` says how it is shown and what its numbers go
    over: images, channels, and a map's height and width (`layout.picture_of`). `layout` is how it
    lies in `texture`, row-major elements in the same order but maybe in another frame, and `words`
    the same as the 16 integers of GLSL's `struct Layout`; `layer` is the first of the Plan's layers
    that gives this very value (-1: it is an input's), so that a module has its last one's.
    """

    key: str
    kind: Literal["input", "layer", "module", "output", "parameter"]
    shape: tuple[int, ...]
    frame: tuple[int, int, int, int]
    dtype: str
    texture: int
    layout: Layout
    words: tuple[int, ...]
    read: Read
    layer: int = -1


class Input(msgspec.Struct, frozen=True):
    """Where an input array goes: its elements, four a texel, into `staging`; then draw `step`.

    `places` are the axes that tell places apart, as a Layer's.
    """

    key: str
    shape: tuple[int, ...]
    dtype: str
    staging: int
    step: Pass
    places: tuple[int, ...] = ()


class Operand(msgspec.Struct, frozen=True):
    """What an operator reads at one place of its inputs, for explaining a value.

    A "value" or "parameter" can be read as `key`, where the Plan keeps it; a constant whose
    elements are all the same is a "number"; an "unnamed" one has no key; an optional input that
    isn't there is "omitted".
    """

    kind: Literal["value", "parameter", "number", "unnamed", "omitted"]
    key: str = ""
    number: float = 0.0


class Window(msgspec.Struct, frozen=True):
    """How a kernel or pool slides, an entry per spatial axis; `begins` and `ends` are padding.

    All are empty for an operator without a window. What `auto_pad` means is already worked out.
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

    `operator` is the ONNX operator ("Conv"), `module` PyTorch's class name ("Conv2d", "" for an
    ONNX file), `description` its settings in PyTorch's words; `parameters` counts trainable
    numbers and `shared` those of them that an earlier row has too (a module that is called twice,
    tied weights): the differences add up to the network's. `macs` are multiply-adds, `bytes`
    float32 bytes of the output. `operators` are all that compute it, in order; `attributes`,
    `operands` and `window` are those of `operator` alone.

    `places` are the axes of the output that tell its places apart, in their order; all that lies
    along the others (channels) counts as one place. `reads` says what can depend on what, as
    (reader, source, index into the Plan's reaches): 0 is the output, 1 and so on are `inputs`,
    higher numbers stand for values between them. A reader's own rows come before it is a source.
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


class Pair(msgspec.Struct, frozen=True):
    """A layer of A, the layer of B that it is compared with, and the difference B − A: keys.

    `name` is the layer's own in A; `row` is where the Comparison's table has its numbers.
    """

    name: str
    a: str
    b: str
    difference: str
    row: int


class Comparison(msgspec.Struct, frozen=True):
    """What a Plan of two networks, A and B, compares; without pairs, no such Plan.

    `titles` say what A and B are, `only_a` and `only_b` are layers without a partner. `table` is
    the key of a value (examples, 3 · rows): of each row the mean of |B − A|, its maximum, and the
    mean of |A|.
    """

    titles: tuple[str, str] = ("", "")
    pairs: tuple[Pair, ...] = ()
    only_a: tuple[str, ...] = ()
    only_b: tuple[str, ...] = ()
    table: str = ""


class Header(msgspec.Struct, frozen=True):
    """Everything of a Plan but its blobs: what TypeScript's `PlanHeader` is generated from.

    `batch` is how many examples run at once; `precision` is that of stored activations and weights,
    what is computed is always float32.
    """

    version: int
    language: Literal["glsl-es-300"]
    name: str
    observe: str
    target: Target
    textures: tuple[Texture, ...]
    programs: tuple[Program, ...]
    passes: tuple[Pass, ...]
    weights: tuple[Weight, ...]
    inputs: tuple[Input, ...]
    values: tuple[Value, ...]
    parameters: tuple[Value, ...]
    outputs: tuple[str, ...]
    layers: tuple[Layer, ...]
    uniform_bytes: int
    batch: int = 1
    precision: Precision = "float32"
    comparison: Comparison = Comparison()
    reaches: tuple[Reach, ...] = ()
    blobs: dict[str, tuple[int, int]] = {}  # hash -> (offset after the header, bytes), in a file


class Plan:
    """A compiled network: a header, its passes' uniforms and its packed weights by content hash."""

    def __init__(self, header: Header, uniforms: bytes, blobs: Mapping[str, Float32]) -> None:
        self.header = header
        self.uniforms = uniforms
        self.blobs = dict(blobs)

    def __repr__(self) -> str:
        h = self.header
        return (
            f"Plan({h.name!r}: {self.layer_count} layers, {len(h.passes)} passes, "
            f"{len(h.programs)} programs, {self.memory})"
        )

    @property
    def layers(self) -> Layers:
        """The layer table, indexed by position or name."""
        return Layers(self.header.layers)

    @property
    def layer_count(self) -> str:
        """How many layers there are: "17", or "17 + 17" of the two that are compared."""
        names = [layer.name for layer in self.header.layers]
        return layer_count(names, two=bool(self.header.comparison.pairs))

    @property
    def values(self) -> tuple[Value, ...]:
        """What can be read, in order: inputs, layers and modules in call order, outputs."""
        return self.header.values

    @property
    def computed(self) -> list[str]:
        """The keys of all values but the inputs: layers in order, then modules of several layers.

        What a module gives is what its last layer gave, so that layers are where to look first.
        A difference is not among them: that of two values may be as small as their rounding.
        """
        inputs = {record.key for record in self.header.inputs}
        comparison = self.header.comparison
        inputs |= {comparison.table, *(pair.difference for pair in comparison.pairs)}
        layers = {layer.name for layer in self.header.layers}
        keys = [value.key for value in self.values if value.key not in inputs]
        return sorted(keys, key=lambda key: key not in layers)

    @property
    def precision(self) -> Precision:
        """What activations and weights are stored in: "float32" or "float16"."""
        return self.header.precision

    @property
    def gpu_bytes(self) -> int:
        """The most bytes that running it takes on the device: all its textures, and uniforms.

        Weights and activations are both textures. All are made before the first run and kept.
        """
        return sum(texture.bytes for texture in self.header.textures) + self.header.uniform_bytes

    @property
    def memory(self) -> str:
        """`gpu_bytes` and the precision in words: "12.3 MB on the GPU, float16"."""
        return f"{self.gpu_bytes / 1e6:.1f} MB on the GPU, {self.precision}"

    @cached_property
    def hash(self) -> str:
        """A name for this Plan's programs, passes and shapes, not for its weights."""
        bare = msgspec.structs.replace(self.header, weights=(), blobs={})
        return content_hash(msgspec.json.encode(bare), self.uniforms)

    def to_bytes(self) -> bytes:
        """One self-contained file: magic, size, checksum, JSON header, uniforms, weights."""
        return pack_file(self, self.blobs)

    @staticmethod
    def from_bytes(data: bytes) -> Plan:
        """Read `to_bytes`; ModelError when it isn't a Plan of this version or is damaged."""
        return unpack_file(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `to_bytes` to a file."""
        Path(path).write_bytes(self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Read a file written by `save`."""
        return Plan.from_bytes(Path(path).read_bytes())


def layer_count(names: Sequence[str], *, two: bool) -> str:
    """How many layers these are, those of `two` networks apart: "17", "17 + 17"."""
    if not two:
        return f"{len(names):,}"
    first = sum(name.startswith("A.") for name in names)
    return f"{first:,} + {len(names) - first:,}"


class Layers(Sequence[Layer]):
    """The layer table: a sequence that also takes names, printed as a table."""

    def __init__(self, layers: tuple[Layer, ...]) -> None:
        self._layers = layers

    def __len__(self) -> int:
        return len(self._layers)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, str):
            for layer in self._layers:
                if layer.name == index:
                    return layer
            raise KeyError(unknown(index, [layer.name for layer in self._layers], "layer"))
        return self._layers[index]

    def __contains__(self, layer: object) -> bool:
        """Whether there is a layer of this name, or this very record of one."""
        if isinstance(layer, str):
            return any(each.name == layer for each in self._layers)
        return layer in self._layers

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                layer.name,
                layer.module or layer.operator,
                "×".join(map(str, layer.output_shape)) or "scalar",
                f"{layer.parameters:,}" if layer.parameters else "",
                f"{layer.macs:,}" if layer.macs else "",
            )
            for layer in self._layers
        ]

    _TITLES = ("name", "type", "output shape", "parameters", "multiply-adds")

    def __repr__(self) -> str:
        rows = [self._TITLES, *self._rows()]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if i < 3 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        from html import escape

        def cells(row: tuple[str, ...], tag: str) -> str:
            return "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in row)

        body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in self._rows())
        head = f"<thead><tr>{cells(self._TITLES, 'th')}</tr></thead>"
        return f"<table>{head}<tbody>{body}</tbody></table>"


def content_hash(*parts: bytes | memoryview) -> str:
    """The first 32 hexadecimal digits of SHA-256, the name of a blob."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:32]


def blob_name(recipe: Recipe, blob: Float32) -> str:
    """The name of a weight's contents: equal only for equal contents made by the same recipe."""
    contents = np.ascontiguousarray(blob).data.cast("B")
    return content_hash(msgspec.json.encode((recipe, blob.shape)), contents)


def _aligned(size: int) -> int:
    return -(-size // ALIGN) * ALIGN


def pack_file(plan: Plan, blobs: Mapping[str, Float32]) -> bytes:
    """A Plan file with these blobs: all for a file, none for the page, which gets them apart."""
    offset = _aligned(len(plan.uniforms))
    table: dict[str, tuple[int, int]] = {}
    for name, blob in blobs.items():
        table[name] = (offset, blob.nbytes)
        offset = _aligned(offset + blob.nbytes)
    header = msgspec.json.encode(msgspec.structs.replace(plan.header, blobs=table))
    start = _aligned(16 + len(header))
    data = bytearray(start + offset)
    data[:8] = MAGIC
    data[8:12] = len(header).to_bytes(4, "little")
    data[16 : 16 + len(header)] = header
    data[start : start + len(plan.uniforms)] = plan.uniforms
    for name, (at, size) in table.items():
        data[start + at : start + at + size] = blobs[name].tobytes()
    data[12:16] = checksum(data).to_bytes(4, "little")
    return bytes(data)


def checksum(data: bytes | bytearray) -> int:
    """CRC-32 of a Plan file without the 4 bytes that hold it: no flipped bit goes unnoticed."""
    view = memoryview(data)
    return zlib.crc32(view[16:], zlib.crc32(view[:12]))


def unpack_file(data: bytes) -> Plan:
    """The inverse of `pack_file`, with every offset and size checked."""
    if data[:8] != MAGIC:
        raise ModelError(
            "not a Plan file of this version (its first 8 bytes differ); compile the model again"
        )
    kept, found = int.from_bytes(data[12:16], "little"), checksum(data)
    if len(data) < 16 or kept != found:
        raise ModelError(
            f"damaged Plan file: checksum {found:08x}, the file says {kept:08x}; copy it again"
        )
    size = int.from_bytes(data[8:12], "little")
    if size > len(data) - 16:
        raise ModelError(f"damaged Plan file: header of {size} bytes in a file of {len(data)}")
    try:
        header = msgspec.json.decode(data[16 : 16 + size], type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"damaged Plan file: {error}") from None
    if header.version != VERSION:
        raise ModelError(
            f"Plan file of format {header.version}; this nbglcnn reads {VERSION}. "
            "Compile the model again"
        )
    if problem := _reach_problem(header):
        raise ModelError(f"damaged Plan file: {problem}")
    body = memoryview(data)[_aligned(16 + size) :]
    blobs: dict[str, Float32] = {}
    for weight in header.weights:
        at, length = header.blobs.get(weight.hash, (0, -1))
        texture = header.textures[weight.texture]
        shape = (texture.layers, texture.height, texture.width, 4)
        if length != 4 * int(np.prod(shape, dtype=object)) or not 0 <= at <= len(body) - length:
            raise ModelError(
                f"damaged Plan file: weight {weight.hash} is missing or has a wrong size"
            )
        blobs[weight.hash] = np.frombuffer(body[at : at + length], np.float32).reshape(shape).copy()
    if not 0 <= header.uniform_bytes <= len(body):
        raise ModelError("damaged Plan file: uniforms are missing")
    return Plan(header, bytes(body[: header.uniform_bytes]), blobs)


def _reach_problem(header: Header) -> str | None:
    """What of reaches, or of layers that read by them, points outside of what it should."""
    for k, reach in enumerate(header.reaches):
        sizes = (*reach.reader, *reach.source)
        if len(reach.axes) != len(reach.source) or min(sizes, default=0) < 0:
            return f"reach {k} has {len(reach.axes)} axes of places {reach.source}"
        for along, size in zip(reach.axes, reach.source, strict=True):
            length = reach.reader[along.axis] if 0 <= along.axis < len(reach.reader) else None
            if along.axis != -1 and length is None:
                return f"reach {k} reads along axis {along.axis} of {len(reach.reader)}"
            if along.kernel < 1 or len(along.table) not in (0, length):
                return f"reach {k} has a window of {along.kernel} and {len(along.table)} rows"
            if any(not 0 <= place < size for row in along.table for place in row):
                return f"reach {k} reads outside of its source"
    for layer in header.layers:
        if any(not 0 <= axis < len(layer.output_shape) for axis in layer.places):
            return f"layer {layer.name!r} has places along axes {layer.places}"
        if any(not 0 <= reach < len(header.reaches) for _, _, reach in layer.reads):
            return f"layer {layer.name!r} reads by a reach that is not there"
    return None
