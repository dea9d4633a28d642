"""The Plan: a compiled network as data, without operators or GPU calls.

This module defines the format; `layers.py` defines the layer table's records. TypeScript's types
are generated from them (`js/src/plan/schema.ts`). `to_bytes` and `from_bytes` use the only
container code in Python. `constraints.py` has the table of a header's constraints.
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
from nbglcnn.plan.constraints import ALIGNMENT_BYTES as ALIGNMENT_BYTES
from nbglcnn.plan.constraints import UNIFORM_BYTES as UNIFORM_BYTES
from nbglcnn.plan.file_checks import MAGIC as MAGIC
from nbglcnn.plan.file_checks import checksum, first_problem, read_header
from nbglcnn.plan.layers import CLIP_TOLERANCE as CLIP_TOLERANCE
from nbglcnn.plan.layers import IMAGE_RANGES as IMAGE_RANGES
from nbglcnn.plan.layers import AxisWindow as AxisWindow
from nbglcnn.plan.layers import Bounds as Bounds
from nbglcnn.plan.layers import Comparison as Comparison
from nbglcnn.plan.layers import DisplayKind as DisplayKind
from nbglcnn.plan.layers import ExplanationKind as ExplanationKind
from nbglcnn.plan.layers import FieldMap as FieldMap
from nbglcnn.plan.layers import Fit as Fit
from nbglcnn.plan.layers import IndexMap as IndexMap
from nbglcnn.plan.layers import Layer as Layer
from nbglcnn.plan.layers import LayerPair as LayerPair
from nbglcnn.plan.layers import Layers as Layers
from nbglcnn.plan.layers import Operand as Operand
from nbglcnn.plan.layers import Role as Role
from nbglcnn.plan.layers import TokenGrid as TokenGrid
from nbglcnn.plan.layers import Window as Window
from nbglcnn.plan.layers import format_layer_count as format_layer_count
from nbglcnn.plan.layout import Layout
from nbglcnn.plan.picture_layout import PictureLayout as PictureLayout

VERSION = 15  # version of the format; readers reject any other

Float32 = npt.NDArray[np.float32]
Precision = Literal["float32", "float16"]
Format = Literal["rgba32f", "rgba16f"]
NOT_EDITABLE = -2  # `Value.edit_pass` of a value that cannot be edited
# In a page, separates the kind of a derived value, such as "before" its own edits, from the value's
# key.
DERIVED_KEY_SEPARATOR = "\0derived\0"
TEXEL_BYTES = {"rgba32f": 16, "rgba16f": 8}
FILE_DTYPES = {"rgba32f": "<f4", "rgba16f": "<f2"}  # numpy dtypes of weights in files, by format


class Target(msgspec.Struct, frozen=True):
    """The limits of a graphics device.

    The defaults are WebGL 2's guaranteed minimums, with textures of up to 4096 texels per side.

    Args:
        max_texture_size: The largest width and height of a texture in texels. Default: 4096.
        max_array_layers: The largest number of layers of a texture array. Default: 256.
        max_draw_buffers: The number of textures that a pass can write. Default: 4.
        max_texture_units: The number of textures that a pass can read. Default: 16.
        float32_render: Whether the device renders 32-bit floats. If not, Plans for it have the
            precision float16. Default: True.
        fast_kernels: Whether operators use their faster kernels. False selects the plain kernels,
            for devices on which the faster ones return wrong results. Default: True.
    """

    max_texture_size: int = 4096
    max_array_layers: int = 256
    max_draw_buffers: int = 4
    max_texture_units: int = 16
    float32_render: bool = True
    fast_kernels: bool = True


class Texture(msgspec.Struct, frozen=True):
    """A 2-D texture array; textures with one layer are arrays, too.

    Attributes:
        width: The width in texels.
        height: The height in texels.
        layers: The number of layers.
        format: `"rgba32f"` or `"rgba16f"`.
    """

    width: int
    height: int
    layers: int
    format: Format = "rgba32f"

    @property
    def bytes(self) -> int:
        """The size on the device in bytes."""
        return self.width * self.height * self.layers * TEXEL_BYTES[self.format]


class Program(msgspec.Struct, frozen=True):
    """A fragment shader.

    Attributes:
        name: The name of the kernel, for messages and profiles.
        source: GLSL ES 3.00 text without its #version line.
        samplers: The names of its sampler2DArray uniforms, in the order of a Pass's `inputs`.
        targets: The number of render targets (outputs o0, o1, …): the layers of the texture that it
            writes.
    """

    name: str
    source: str
    samplers: tuple[str, ...]
    targets: int


class Pass(msgspec.Struct, frozen=True):
    """One draw call: a full-viewport triangle with `program`, from `inputs` to all of `output`.

    Attributes:
        program: The index of the program.
        inputs: The indices of the textures that it reads.
        output: The index of the texture that it writes.
        uniforms: The byte offset of its UNIFORM_BYTES in the Plan's uniforms.
        viewport: (width, height) in texels of the output.
        layer: The index of the layer that it computes; -1 for none.
        cost: The number of texture fetches, used to predict time and to divide long passes.
        input_values: For each input, the index of the Plan's value that the pass reads, so that
            edits of the value apply; -1 if the input is no such value. Empty if no input is a
            value.
    """

    program: int
    inputs: tuple[int, ...]
    output: int
    uniforms: int
    viewport: tuple[int, int]
    layer: int = -1
    cost: int = 0
    input_values: tuple[int, ...] = ()


class Section(msgspec.Struct, frozen=True):
    """A part of a Plan that can run separately: a range of consecutive passes.

    Every pass is in one section. A section may read the results of earlier sections. Repeated runs
    without a commit return the same values.

    Attributes:
        name: The name of the section.
        first: The index of its first pass.
        count: The number of its passes.
        on_demand: Whether it runs only when it is requested by name.
    """

    name: str
    first: int
    count: int
    on_demand: bool = False


class Carry(msgspec.Struct, frozen=True):
    """State that persists between runs: a commit copies texture `source` to texture `target`.

    Both have the same size and format. A pass writes the source, and no pass writes the target. A
    weight has the initial contents of the target; they are restored when a lost graphics context is
    rebuilt.

    Attributes:
        source: The index of the source texture.
        target: The index of the target texture.
    """

    source: int
    target: int


class PackingRecipe(msgspec.Struct, frozen=True):
    """The recipe for packing a weight texture.

    Attributes:
        packer: The name of the packing function.
        sources: The names of the constants that it packs.
        arguments: The arguments of the packer.
    """

    packer: str
    sources: tuple[str, ...]
    arguments: dict[str, Any] = {}


class Weight(msgspec.Struct, frozen=True):
    """The contents of a texture that no pass writes: RGBA texels, named by content hash.

    The initial contents of a carry's target and of an optional input are weights too. In a file,
    textures of 16-bit floats are float16, rounded to nearest; elsewhere all are float32.

    Attributes:
        texture: The index of the texture.
        hash: The content hash.
        recipe: The recipe that packs the contents.
    """

    texture: int
    hash: str
    recipe: PackingRecipe


@dataclass(frozen=True)
class Patch:
    """New contents for a rectangle of a weight texture.

    Attributes:
        texture: The index of the texture.
        layer: The layer of the texture.
        x: The first column in texels.
        y: The first row in texels.
        data: The texels, shape (height, width, 4), float32.
    """

    texture: int
    layer: int
    x: int
    y: int
    data: Float32

    @property
    def rectangle(self) -> tuple[int, int, int, int]:
        """(x, y, width, height) in texels."""
        height, width, _ = self.data.shape
        return self.x, self.y, width, height


class Readback(msgspec.Struct, frozen=True):
    """The readback of a tensor: draw `draw_pass`, then read `viewport` of its output.

    Each RGBA texel contains four elements in order.

    Attributes:
        draw_pass: The pass to draw.
        count: The number of floats that belong to the tensor, in row-major order.
    """

    draw_pass: Pass
    count: int


class Value(msgspec.Struct, frozen=True):
    """A tensor that can be read and displayed by its key.

    Attributes:
        key: The name.
        kind: `"input"`, `"layer"`, `"module"`, `"output"`, `"parameter"` or `"contributed"` (added
            by a feature).
        shape: The shape, with the batch.
        nchw: The shape for display: images, channels, and a map's height and width.
        dtype: The name of the numpy dtype.
        texture: The index of the texture that contains it.
        layout: The positions of its elements in `texture`, in row-major order; its `nchw` may
            differ.
        layout_words: `layout` as the 16 integers of GLSL's `struct Layout`.
        readback: The pass and size for reading it.
        layer: The index of the first layer with this value; a module has the index of its last
            layer; -1 for an input.
        display_kind: How it is drawn.
        tokens: For attention weights, the indices into the Header's `tokens` for rows and columns;
            -1 if unknown.
        value_range: The limits that the network implies, or the values of black and white of a
            picture; None if the limits depend on the data.
        edit_pass: The pass after which its edits run; -1 for before all passes, -2 if it cannot be
            edited.
        view_of: The index of the value of which this is an alias or a view in the same texture, so
            that edits of that value apply here; -1 for none.
        shares_edits_of: The key of a value whose edits apply here, too, except for injected arrays,
            because a contributed value may have other examples; `""` for none.
        per_example: Whether its first axis is the batch and each example is computed separately.
        mixing_layer: The first later layer that computes across examples; `""` for none.
    """

    key: str
    kind: Literal["input", "layer", "module", "output", "parameter", "contributed"]
    shape: tuple[int, ...]
    nchw: tuple[int, int, int, int]
    dtype: str
    texture: int
    layout: Layout
    layout_words: tuple[int, ...]
    readback: Readback
    layer: int = -1
    display_kind: DisplayKind = "maps"
    tokens: tuple[int, int] = (-1, -1)
    value_range: Bounds = (None, None)
    edit_pass: int = -2
    view_of: int = -1
    shares_edits_of: str = ""
    per_example: bool = True
    mixing_layer: str = ""


class Input(msgspec.Struct, frozen=True):
    """An input of the network, and how an array is written to it.

    The array's elements are uploaded to `staging`, four per texel, and then `pack_pass` is drawn.
    An input that takes pictures is float32, (n, 1, 3 or 4, h, w), from 0 to 1, or uint8, from 0 to
    255. Pictures are resized by Pillow's bilinear, antialiased resampling.

    Attributes:
        key: The name.
        shape: The shape, with the batch.
        dtype: The name of the numpy dtype.
        staging: The index of the staging texture.
        pack_pass: The pass from the staging texture to the input's texture. If a weight fills that
            texture, the input may be omitted.
        position_axes: The axes that distinguish positions, as in a Layer.
        layer: The index of the layer whose value this is, if Python computes it; -1 for an input of
            the network. The network's inputs come first.
        fit: How a picture of another size is fitted: `"crop"` crops its centre, `"letterbox"` adds
            black bars, `"stretch"` distorts it; `""` if the input takes no pictures.
        crop_fraction: The share of each side that `"crop"` and `"stretch"` keep.
        accepts_any_size: Whether Python accepts pictures of any size; otherwise it rejects other
            sizes.
        layout: The order of the axes; channels may be last for uint8.
        contributed: Whether a feature added it, after all other inputs. The display of the network
            doesn't need it.
    """

    key: str
    shape: tuple[int, ...]
    dtype: str
    staging: int
    pack_pass: Pass
    position_axes: tuple[int, ...] = ()
    layer: int = -1
    fit: Fit = ""
    crop_fraction: float = 1.0
    accepts_any_size: bool = False
    layout: PictureLayout = "NCHW"
    contributed: bool = False


class Header(msgspec.Struct, frozen=True):
    """Everything in a Plan except uniforms and weights.

    TypeScript's `PlanHeader` is generated from this class.

    Attributes:
        version: The version of the format.
        language: The language of the shaders.
        name: The name of the network.
        observe: The setting for the values that are kept.
        target: The limits of the device.
        textures: All textures.
        programs: All shaders.
        passes: All passes, in order.
        sections: The parts that can run separately, in order.
        weights: The contents of textures that no pass writes.
        inputs: The inputs: the network's own, then values that Python computes, then contributed
            ones.
        values: The readable values: inputs, layers and modules in call order, outputs.
        parameters: The readable parameters.
        outputs: The keys of the outputs.
        layers: The table of layers.
        uniform_bytes: The size of the uniforms in bytes.
        batch: The number of examples per run.
        precision: The storage of activations and weights; arithmetic is always float32.
        comparison: The compared layers of two networks.
        field_maps: The dependencies between positions, for receptive fields.
        carries: State that persists between runs.
        tokens: The positions of tokens in an input's picture.
        preprocess: The keys of the layers between the picture, which is the first input then, and
            the model.
        shared_modules: For each module name without values, the keys of the module's other names.
        arguments: If `forward` has constants or nested arguments, its arguments by position. The
            key of an input is then its path (`sizes[0]`).
        constants: These constants by path, in Python syntax.
        blobs: In a file, for each hash the offset after the header and the size in bytes.
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
    field_maps: tuple[FieldMap, ...] = ()
    carries: tuple[Carry, ...] = ()
    tokens: tuple[TokenGrid, ...] = ()
    preprocess: tuple[str, ...] = ()
    shared_modules: dict[str, tuple[str, ...]] = {}
    arguments: tuple[str, ...] = ()
    constants: dict[str, str] = {}
    blobs: dict[str, tuple[int, int]] = {}  # hash -> (offset after the header, bytes), in a file


def optional_input_keys(header: Header) -> frozenset[str]:
    """The keys of inputs that need not be written, because a weight initializes their texture."""
    filled = {weight.texture for weight in header.weights}
    return frozenset(one.key for one in header.inputs if one.pack_pass.output in filled)


def pluralize(count: int | str, noun: str, ending: str = "s") -> str:
    """Format a count with its noun: "1 layer", "2 passes"."""
    return f"{count} {noun}{'' if str(count) == '1' else ending}"


class Plan:
    """A compiled network as data: a header, the uniforms of its passes, and its packed weights.

    `nbglcnn.compile` makes Plans, and `Session` runs them. A saved Plan needs neither the model nor
    PyTorch, and contains no Python code.

    Args:
        header: Everything except uniforms and weights, as records.
        uniforms: The uniform blocks of all passes.
        blobs: The packed weights by content hash, float32 texels of shape (layers, height, width,
            4).
    """

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
        """The table of layers, indexed by position or name."""
        return Layers(self.header.layers, self.header.shared_modules)

    @property
    def layer_count(self) -> str:
        """The number of layers as text: "17", or "17 + 17" for a comparison of two networks."""
        names = [layer.name for layer in self.header.layers]
        return format_layer_count(names, is_comparison=bool(self.header.comparison.pairs))

    @property
    def values(self) -> tuple[Value, ...]:
        """The readable values in order: inputs, layers and modules in call order, outputs."""
        return self.header.values

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The network's own inputs, without values that Python computes."""
        return tuple(one for one in self.header.inputs if one.layer < 0 and not one.contributed)

    @property
    def noise(self) -> frozenset[str]:
        """The keys of inputs that replace random numbers. Omitted ones are seeded random."""
        return optional_input_keys(self.header)

    @property
    def in_python(self) -> tuple[Input, ...]:
        """The values that Python computes, as input records."""
        return tuple(record for record in self.header.inputs if record.layer >= 0)

    @cached_property
    def from_python(self) -> frozenset[str]:
        """The keys of values that Python computes, and of modules and outputs that repeat them."""
        own = {number for number, layer in enumerate(self.header.layers) if layer.python}
        return frozenset(value.key for value in self.values if value.layer in own)

    @property
    def computed(self) -> list[str]:
        """The keys of all computed values: layers in order, then modules of several layers.

        A module has the value of its last layer, so compare layers first. Differences of a
        comparison are excluded, because they can be as small as rounding errors.
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
        """The storage of activations and weights: "float32" or "float16"."""
        return self.header.precision

    @property
    def gpu_bytes(self) -> int:
        """The device memory in bytes: the textures of values and weights, and the uniforms.

        All of it is allocated before the first run and kept. The statistics that a page shows need
        more memory, which the page's status line includes.
        """
        return sum(texture.bytes for texture in self.header.textures) + self.header.uniform_bytes

    @property
    def memory(self) -> str:
        """`gpu_bytes` and the precision as text: "12.3 MB on the GPU, float16"."""
        return f"{self.gpu_bytes / 1e6:.1f} MB on the GPU, {self.precision}"

    @cached_property
    def hash(self) -> str:
        """An identifier of the programs, passes and shapes, without the weights."""
        bare = msgspec.structs.replace(self.header, weights=(), blobs={})
        return content_hash(msgspec.json.encode(bare), self.uniforms)

    def to_bytes(self) -> bytes:
        """Serialize the Plan as one self-contained file.

        Returns:
            The bytes of the file: magic, size, checksum, JSON header, uniforms and weights.
        """
        return pack_file(self, self.blobs)

    @staticmethod
    def from_bytes(data: bytes) -> Plan:
        """Deserialize a Plan.

        Args:
            data: The result of `to_bytes`.

        Returns:
            The Plan.

        Raises:
            ModelError: If the data is damaged, or a Plan of another version.
        """
        return unpack_file(data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the Plan to a file.

        Args:
            path: The file; an existing one is replaced.

        Raises:
            OSError: If the file cannot be written.
        """
        Path(path).write_bytes(self.to_bytes())

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan:
        """Read a Plan from a file that `save` wrote.

        Args:
            path: The file.

        Returns:
            The Plan.

        Raises:
            ModelError: If the file is damaged, or a Plan of another version.
            OSError: If the file cannot be read.
        """
        return Plan.from_bytes(Path(path).read_bytes())


def content_hash(*parts: bytes | memoryview) -> str:
    """Return the first 32 hexadecimal digits of the SHA-256 hash, as the name of a blob."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()[:32]


def blob_name(recipe: PackingRecipe, blob: Float32) -> str:
    """Return the name of packed weights: equal only for equal contents and the same recipe."""
    contents = np.ascontiguousarray(blob).data.cast("B")
    return content_hash(msgspec.json.encode((recipe, blob.shape)), contents)


def _align_up(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def pack_file(plan: Plan, blobs: Mapping[str, Float32]) -> bytes:
    """Serialize a Plan with these blobs: all for a file, none for pages, which request them."""
    offset = _align_up(len(plan.uniforms))
    table: dict[str, tuple[int, int]] = {}
    formats = {w.hash: plan.header.textures[w.texture].format for w in plan.header.weights}
    with np.errstate(over="ignore"):  # beyond 65504 they become infinite, as on the device
        packed = {
            name: blob.astype(FILE_DTYPES[formats.get(name, "rgba32f")])
            for name, blob in blobs.items()
        }
    for name, blob in packed.items():
        table[name] = (offset, blob.nbytes)
        offset = _align_up(offset + blob.nbytes)
    header = msgspec.json.encode(msgspec.structs.replace(plan.header, blobs=table))
    start = _align_up(16 + len(header))
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
    """The inverse of `pack_file`; it checks every offset and size."""
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
    body = memoryview(data)[_align_up(16 + len(raw)) :]
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
        raise ModelError("damaged Plan file: its uniforms are incomplete")
    return Plan(header, bytes(body[: header.uniform_bytes]), blobs)
