"""The Plan: a compiled network as data, without operators or GPU calls.

Here the format is written, and in `layers.py` the layer table's records. TypeScript's types are
generated from it (`js/src/plan/schema.ts`), and `to_bytes`/`from_bytes` hold the only container
code in Python; `constraints.py` has the table of a header's constraints.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from nbglcnn.errors import ModelError
from nbglcnn.plan.constraints import ALIGN as ALIGN
from nbglcnn.plan.constraints import UNIFORM_BYTES as UNIFORM_BYTES
from nbglcnn.plan.file_checks import MAGIC as MAGIC
from nbglcnn.plan.file_checks import checksum, first_problem, read_header
from nbglcnn.plan.layers import CLIP_TOLERANCE as CLIP_TOLERANCE
from nbglcnn.plan.layers import IMAGE_RANGES as IMAGE_RANGES
from nbglcnn.plan.layers import Along as Along
from nbglcnn.plan.layers import Bounds as Bounds
from nbglcnn.plan.layers import Comparison as Comparison
from nbglcnn.plan.layers import Explains as Explains
from nbglcnn.plan.layers import Fit as Fit
from nbglcnn.plan.layers import Form as Form
from nbglcnn.plan.layers import Layer as Layer
from nbglcnn.plan.layers import Layers as Layers
from nbglcnn.plan.layers import Move as Move
from nbglcnn.plan.layers import Operand as Operand
from nbglcnn.plan.layers import Pair as Pair
from nbglcnn.plan.layers import Reach as Reach
from nbglcnn.plan.layers import Role as Role
from nbglcnn.plan.layers import Tokens as Tokens
from nbglcnn.plan.layers import Window as Window
from nbglcnn.plan.layers import format_layer_count as format_layer_count
from nbglcnn.plan.layout import Layout
from nbglcnn.plan.picture_layout import PictureLayout as PictureLayout

VERSION = 14  # of the format; a reader refuses any other

Float32 = npt.NDArray[np.float32]
Precision = Literal["float32", "float16"]
Format = Literal["rgba32f", "rgba16f"]
NOT_EDITABLE = -2  # `Value.after` of a value that cannot be edited
# Between what is asked of a value, such as "before" its own edits, and its key, in a page.
DERIVED_KEY_SEPARATOR = "\0derived\0"
TEXEL_BYTES = {"rgba32f": 16, "rgba16f": 8}
FILE_DTYPES = {"rgba32f": "<f4", "rgba16f": "<f2"}  # numbers of a weight, as numpy calls them


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
    a number of texture fetches, to predict time and to cut long passes. `values` says which of the
    Plan's values each input is, as that value's key has it: an edit of the value changes it (-1:
    none of them; empty where no input is one).
    """

    program: int
    inputs: tuple[int, ...]
    output: int
    uniforms: int
    viewport: tuple[int, int]
    layer: int = -1
    cost: int = 0
    values: tuple[int, ...] = ()


class Section(msgspec.Struct, frozen=True):
    """A part of the Plan that is run by itself: its passes `first` to `first + count - 1`.

    Sections follow each other, and every pass is in one. A section may read what those before it
    have written. Running one any number of times, without a commit, gives the same values. One
    `on_demand` runs when it is asked for by its name, and not with all others.
    """

    name: str
    first: int
    count: int
    on_demand: bool = False


class Carry(msgspec.Struct, frozen=True):
    """State that lives over runs: at a commit texture `source` is copied to texture `target`.

    Both have one size and format, a pass writes the source and none the target. A weight has what
    the target holds at first, and again when a lost graphics context is rebuilt: what was
    committed is gone then.
    """

    source: int
    target: int


class Recipe(msgspec.Struct, frozen=True):
    """How a weight texture is packed: a packer's name, the constants' names, its arguments."""

    packer: str
    sources: tuple[str, ...]
    arguments: dict[str, Any] = {}


class Weight(msgspec.Struct, frozen=True):
    """The contents of a texture that no pass writes: float32 RGBA, named by content hash.

    A carry's target and an input that may be left out begin with them. For a texture of 16-bit
    floats a file has them in float16, rounded to the nearest; elsewhere they are float32 for it
    too.
    """

    texture: int
    hash: str
    recipe: Recipe


@dataclass(frozen=True)
class Patch:
    """Other numbers in a rectangle of a weight texture: `data` is (height, width, 4) texels."""

    texture: int
    layer: int
    x: int
    y: int
    data: Float32

    @property
    def rectangle(self) -> tuple[int, int, int, int]:
        """x, y, width and height."""
        height, width, _ = self.data.shape
        return self.x, self.y, width, height


class Read(msgspec.Struct, frozen=True):
    """How elements reach the CPU: draw `step`, then read `viewport` of its output.

    Each RGBA texel is four elements in order.

    The first `count` floats are the tensor in row-major order.
    """

    step: Pass
    count: int


class Value(msgspec.Struct, frozen=True):
    """A tensor that can be read and drawn under the name `key`.

    `kind` is input, layer, module, output or contributed (added by a feature); `nchw` says how it
    is shown and what its numbers go over: images, channels, and a map's height and width
    (`layout.display_nchw`). `layout` is how it lies in `texture`, row-major elements in the same
    order but maybe in another nchw, and `words` the same as the 16 integers of GLSL's `struct
    Layout`; `layer` is the first of the Plan's layers that gives this very value (-1: it is an
    input's), so that a module has its last one's. `form` says what it is; `tokens` are the Header's
    that the rows and the columns of attention weights are (-1: not known); `limits` are the numbers
    between which it lies by the network's own account, or black and white of a picture (None where
    only its numbers tell). An edit of the value is
    run behind pass number `after` (-1: before all passes; -2: the value cannot be edited). `source`
    is the value in the same texture that it is another name or a view of (-1: none): what is edited
    there is edited here. Edits of the value `edited_as` ("": none) run here too, but for arrays
    that are put in its place: a contributed value may have other examples. `by_example` says that
    its first axis counts the examples of a batch and each is computed by itself, `mixed` ("": none)
    is the first layer behind it that computes across examples.
    """

    key: str
    kind: Literal["input", "layer", "module", "output", "parameter", "contributed"]
    shape: tuple[int, ...]
    nchw: tuple[int, int, int, int]
    dtype: str
    texture: int
    layout: Layout
    words: tuple[int, ...]
    read: Read
    layer: int = -1
    form: Form = "maps"
    tokens: tuple[int, int] = (-1, -1)
    limits: Bounds = (None, None)
    after: int = -2
    source: int = -1
    edited_as: str = ""
    by_example: bool = True
    mixed: str = ""


class Input(msgspec.Struct, frozen=True):
    """Where an input array goes: its elements, four a texel, into `staging`; then draw `step`.

    `places` are the axes that tell places apart, as a Layer's. `layer` is the Plan's layer whose
    value it is, which Python computes (-1: it is one of the network's own inputs, which stand in
    front). Where a weight fills the output of `step`, nothing need be written.

    `fit` says how a picture of another size becomes an input of float32, (n, 1, 3 or 4, h, w), or
    of uint8, whose channels may be last (`layout`): "crop" cuts its middle out, "letterbox" sets it
    between black bars, "stretch" changes its proportions; "" where the input takes no pictures. Of
    "crop" and "stretch" `share` of each side stays. The picture is resampled as Pillow does it
    (bilinear, antialiased) to numbers from 0 to 1, of uint8 from 0 to 255: grey, RGB or RGBA. With
    `resampled` Python takes pictures of any size, too; else it refuses those of another. A
    `contributed` input is a feature's, behind all others; showing the network doesn't need it.
    """

    key: str
    shape: tuple[int, ...]
    dtype: str
    staging: int
    step: Pass
    places: tuple[int, ...] = ()
    layer: int = -1
    fit: Fit = ""
    share: float = 1.0
    resampled: bool = False
    layout: PictureLayout = "NCHW"
    contributed: bool = False


class Header(msgspec.Struct, frozen=True):
    """Everything of a Plan but its blobs: what TypeScript's `PlanHeader` is generated from.

    `batch` is how many examples run at once; `precision` is that of stored activations and weights,
    what is computed is always float32. `preprocess` names the layers between the picture, which is
    the first input then, and the model itself. `shared` has the keys of modules with several names,
    by those of the names that no value has. Where forward was called with constants, or with arrays
    in dicts, tuples or lists, `arguments` names its arguments by position and `constants` has the
    constants by path, as Python writes them: an input's key is its path then (`sizes[0]`).
    """

    version: int
    language: Literal["glsl-es-300"]
    name: str
    observe: str
    target: Target
    textures: tuple[Texture, ...]
    programs: tuple[Program, ...]
    passes: tuple[Pass, ...]
    sections: tuple[Section, ...]
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
    carries: tuple[Carry, ...] = ()
    tokens: tuple[Tokens, ...] = ()
    preprocess: tuple[str, ...] = ()
    shared: dict[str, tuple[str, ...]] = {}
    arguments: tuple[str, ...] = ()
    constants: dict[str, str] = {}
    blobs: dict[str, tuple[int, int]] = {}  # hash -> (offset after the header, bytes), in a file


def noise_keys(header: Header) -> frozenset[str]:
    """The keys of inputs that need not be written, for a weight fills their texture at first."""
    filled = {weight.texture for weight in header.weights}
    return frozenset(one.key for one in header.inputs if one.step.output in filled)


def pluralize(count: int | str, noun: str, ending: str = "s") -> str:
    """Say how many there are: "1 layer", "2 passes"."""
    return f"{count} {noun}{'' if str(count) == '1' else ending}"


class Plan:
    """A compiled network: a header, its passes' uniforms and its packed weights by content hash."""

    def __init__(self, header: Header, uniforms: bytes, blobs: Mapping[str, Float32]) -> None:
        self.header = header
        self.uniforms = uniforms
        self.blobs = dict(blobs)

    def __repr__(self) -> str:
        h = self.header
        return (
            f"Plan({h.name!r}: {pluralize(self.layer_count, 'layer')}, "
            f"{pluralize(len(h.passes), 'pass', 'es')}, {pluralize(len(h.programs), 'program')}, "
            f"{self.memory})"
        )

    @property
    def layers(self) -> Layers:
        """The layer table, indexed by position or name."""
        return Layers(self.header.layers, self.header.shared)

    @property
    def layer_count(self) -> str:
        """How many layers there are: "17", or "17 + 17" of the two that are compared."""
        names = [layer.name for layer in self.header.layers]
        return format_layer_count(names, is_comparison=bool(self.header.comparison.pairs))

    @property
    def values(self) -> tuple[Value, ...]:
        """What can be read, in order: inputs, layers and modules in call order, outputs."""
        return self.header.values

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The network's own inputs, without the values that Python computes."""
        return tuple(one for one in self.header.inputs if one.layer < 0 and not one.contributed)

    @property
    def noise(self) -> frozenset[str]:
        """The keys of inputs in the place of random numbers: seeded ones unless given."""
        return noise_keys(self.header)

    @property
    def in_python(self) -> tuple[Input, ...]:
        """The values that Python computes, as inputs."""
        return tuple(record for record in self.header.inputs if record.layer >= 0)

    @cached_property
    def from_python(self) -> frozenset[str]:
        """The keys of all values that Python computes: of layers, and of what repeats them."""
        own = {number for number, layer in enumerate(self.header.layers) if layer.python}
        return frozenset(value.key for value in self.values if value.layer in own)

    @property
    def computed(self) -> list[str]:
        """The keys of all values but the inputs: layers in order, then modules of several layers.

        What a module gives is what its last layer gave, so that layers are where to look first.
        A difference is not among them: that of two values may be as small as their rounding.
        """
        inputs = {record.key for record in self.inputs}
        comparison = self.header.comparison
        inputs |= {comparison.table, *(pair.difference for pair in comparison.pairs)}
        layers = {layer.name for layer in self.header.layers}
        inputs |= {value.key for value in self.values if value.kind == "contributed"}
        keys = [value.key for value in self.values if value.key not in inputs]
        return sorted(keys, key=lambda key: key not in layers)

    @property
    def precision(self) -> Precision:
        """What activations and weights are stored in: "float32" or "float16"."""
        return self.header.precision

    @property
    def gpu_bytes(self) -> int:
        """The most bytes that running it takes on the device: all its textures, and uniforms.

        Weights and activations are both textures. All are made before the first run and kept. The
        statistics that a page shows take more: its status line counts them too.
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
    formats = {w.hash: plan.header.textures[w.texture].format for w in plan.header.weights}
    with np.errstate(over="ignore"):  # beyond 65504 they are infinite on the device too
        packed = {
            name: blob.astype(FILE_DTYPES[formats.get(name, "rgba32f")])
            for name, blob in blobs.items()
        }
    for name, blob in packed.items():
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
        data[start + at : start + at + size] = packed[name].tobytes()
    data[12:16] = checksum(data).to_bytes(4, "little")
    return bytes(data)


def unpack_file(data: bytes) -> Plan:
    """The inverse of `pack_file`, with every offset and size checked."""
    raw = read_header(data)
    try:
        header = msgspec.json.decode(raw, type=Header)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ModelError(f"damaged Plan file: {error}") from None
    if header.version != VERSION:
        raise ModelError(
            f"Plan file of format {header.version}; this nbglcnn reads {VERSION}. "
            "Compile the model again"
        )
    if problem := first_problem(header):
        raise ModelError(f"damaged Plan: {problem}")
    body = memoryview(data)[_aligned(16 + len(raw)) :]
    blobs: dict[str, Float32] = {}
    for weight in header.weights:
        at, length = header.blobs.get(weight.hash, (0, -1))
        texture = header.textures[weight.texture]
        shape = (texture.layers, texture.height, texture.width, 4)
        stored = np.dtype(FILE_DTYPES[texture.format])
        size = stored.itemsize * int(np.prod(shape, dtype=object))
        if length != size or not 0 <= at <= len(body) - length:
            raise ModelError(
                f"damaged Plan file: weight {weight.hash} is missing or has a wrong size"
            )
        packed = np.frombuffer(body[at : at + length], stored).reshape(shape)
        blobs[weight.hash] = packed.astype(np.float32)
    if not 0 <= header.uniform_bytes <= len(body):
        raise ModelError("damaged Plan file: its uniforms are cut off")
    return Plan(header, bytes(body[: header.uniform_bytes]), blobs)
