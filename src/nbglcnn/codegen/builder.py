"""Collects a Plan while operators lower themselves: values, weights, programs and passes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nbglcnn.codegen.edit_targets import EditTargets
from nbglcnn.codegen.formats import Formats
from nbglcnn.codegen.glsl import Kernel, program_source, shader, slots_of
from nbglcnn.codegen.slots import Number, Part, write
from nbglcnn.codegen.weights import TABLES, packed
from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Array, Carry, Graph, Key, Node
from nbglcnn.plan import schema as p
from nbglcnn.plan.layout import NCHW, Block, Layout, nchw_of

WIDTH = "int width"  # of the texture of row-major elements
FLATTEN = Kernel("flatten", shader("flatten.glsl"), pixel=False, slots=WIDTH)
FLATTEN_STRIPS = replace(FLATTEN, text=shader("flatten_strips.glsl"))
UNFLATTEN = Kernel(
    "unflatten", shader("unflatten.glsl") + shader("pixels.glsl"), pixel=False, slots=WIDTH
)
UNFLATTEN_PAIRS = replace(UNFLATTEN, text=shader("unflatten_pairs.glsl"))
RESHAPE = Kernel("reshape", shader("reshape.glsl"))

# Bytes of all textures: above it browsers tend to lose the context, not to say no.
BUDGET = 2 * 2**30
REPEATED = 2**26  # bytes of a constant of few numbers


def too_large(where: str, observe: str) -> UnsupportedModel:
    """The error for more than the budget."""
    more = "" if observe == "outputs" else ', observe="outputs"'
    return UnsupportedModel(
        f"{where}: the network needs more than {BUDGET / 2**30:.0f} GiB of textures. "
        f'Use a smaller input or batch{more} or precision="float16"'
    )


@dataclass(frozen=True, slots=True)
class Tensor:
    """A texture and how a tensor lies in it; `value` is the Graph's that is meant, "" for none."""

    texture: int
    layout: Layout
    value: str = ""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What a convolution does to its sums before it stores them, fused from the nodes after it.

    `value` is the name under which the result is known; `normalization` a BatchNormalization,
    `residual` a value of the same shape to add, `activation` a unary node.
    """

    value: str
    normalization: Node | None = None
    residual: str = ""
    activation: Node | None = None


def flat_width(count: int, longest: int = 4096) -> tuple[int, int]:
    """(width, height) in texels of a texture that holds `count` floats in row-major order.

    `longest` is the device's longest side.
    """
    texels = -(-max(count, 1) // 4)
    width = min(texels, 1024 if texels <= 2**22 else 4096, longest)
    return width, -(-texels // width)


def _cut(layout: Layout) -> dict[str, int]:
    """What a recipe says of strips: nothing where there are none."""
    return {"side": layout.side} if layout.side else {}


class Builder:
    """The state of one compilation: operators call `tensor`, `output`, `bind`, `draw`."""

    def __init__(
        self,
        graph: Graph,
        target: p.Target,
        epilogues: Mapping[str, Epilogue] = {},
        precision: p.Precision = "float32",
        keys: Sequence[Key] = (),
    ) -> None:
        self.graph = graph
        self.edit_targets = EditTargets(graph, keys)
        self.target = target
        self.formats = Formats(precision, target.float32_render)
        self.epilogues = epilogues
        self.layer = -1  # of the node being lowered; passes remember it
        self.textures: list[p.Texture] = []
        self.edged: set[int] = set()  # those that end with a column and a row of zeros
        self._packed_bytes = 0  # of the weights' textures
        self.programs: list[p.Program] = []
        self.passes: list[p.Pass] = []
        self.weights: list[p.Weight] = []
        self.uniforms = bytearray()
        self.blobs: dict[str, p.Float32] = {}
        self._program_numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        self._uniform_offsets: dict[bytes, int] = {}
        self._stored: dict[str, Tensor] = {}
        self._deferred: dict[str, tuple[Node, int, Callable[[Builder, Node], None]]] = {}
        self._copies: dict[tuple[str, NCHW, Block | None, int], Tensor] = {}
        self._weight_textures: dict[str, int] = {}
        self.used_constants: set[str] = set()
        self.sections: list[p.Section] = []
        self.carries: list[p.Carry] = []
        self.read_number = -1

    # Sections, and state that lives over runs.

    def end_section(self, name: str) -> None:
        """What was added since the last section is this one.

        The next one makes copies of its own: it may run when this one doesn't.
        """
        first = sum(section.count for section in self.sections)
        self.sections.append(
            p.Section(name, first, len(self.passes) - first, name in self.graph.on_demand)
        )
        self._copies.clear()

    def carried(self, carry: Carry) -> None:
        """Bind a carry's target to a texture that begins with the initial contents."""
        if math.prod(self.shape(carry.target)):
            self._begun(carry.target, carry.initial)

    def _begun(self, value: str, initial: str) -> Tensor:
        """Bind a value to a texture of its own that begins as a constant.

        `weight` would share it with a constant of the same numbers.
        """
        layout = self.fitted(self.layout(nchw_of(self.shape(value))))
        arguments = {"nchw": layout.nchw, "block": layout.block, **_cut(layout)}
        tensor = Tensor(self._fill(p.Recipe("tensor", (initial,), arguments)), layout)
        self.bind(value, tensor)
        return tensor

    def carry(self, carry: Carry) -> None:
        """A commit takes the source's texture to the target's.

        One pass brings it into the target's layout, or out of a texture that no pass writes.
        """
        if not math.prod(self.shape(carry.target)):
            return
        source, target = self.stored(carry.source), self.stored(carry.target)
        written = any(step.output == source.texture for step in self.passes)
        if not written or source.layout != target.layout:
            copy = self.scratch(target.layout, source)
            self.draw(RESHAPE, copy, [source], fetches=16)
            source = copy
        self.carries.append(p.Carry(source.texture, target.texture))

    # What is known of values.

    def shape(self, value: str) -> tuple[int, ...]:
        """The concrete shape of a value."""
        return self.graph.shape(value)

    def constant(self, value: str) -> Array | None:
        """The data of a value that is known now, else None."""
        return self.graph.constant(value)

    def fixed(self, value: str) -> Array | None:
        """A constant's data when no new weights can change its numbers, else None."""
        return self.graph.fixed(value)

    def epilogue(self, node: Node) -> Epilogue:
        """What was fused behind `node`; nothing but its own output when there is no fusion."""
        return self.epilogues.get(node.name, Epilogue(node.outputs[0]))

    # Where values lie.

    def block(self, nchw: NCHW, *, slices: bool = False) -> Block:
        """The block of an nchw: the one policy that every operator asks.

        The one that wastes least: 2×2 pixels for maps, lines for lines, images for vectors. With
        `slices` the rows are those of a volume's slices below each other, and no block holds
        pixels of two.
        """
        n, _, h, w = nchw
        if slices and h > 1:
            return self.block((n, 1, 1, w)) if w > 1 else (1, 1, 1)
        if h > 1 and w > 1:
            return (1, 2, 2)
        if w > 1:
            return (1, 1, 4) if w > 2 else (1, 1, 2)
        if h > 1:
            return (1, 4, 1) if h > 2 else (1, 2, 1)
        return (4, 1, 1) if n > 2 else (n, 1, 1)

    def layout(self, nchw: NCHW, block: Block | None = None) -> Layout:
        """A nchw in the given block (default: its own)."""
        return Layout(nchw, block or self.block(nchw))

    def stored(self, value: str) -> Tensor:
        """A value as it lies now, in whatever nchw; constants are packed on demand."""
        if not math.prod(self.shape(value)):
            return self.blank()
        if value in self._deferred:
            node, layer, lower = self._deferred.pop(value)
            reader = self._node, self.layer
            self.enter(node, layer)
            lower(self, node)
            self._node, self.layer = reader
        if value not in self._stored:
            self._stored[value] = self.constant_tensor(value, nchw_of(self.shape(value)))
        return self._stored[value]

    def source_of(self, number: int) -> int:
        """The kept value in the same texture that a kept one is a name or view of, or -1."""
        source, own = self.edit_targets.source(number), self.stored(self.edit_targets.value(number))
        if source < 0 or self.stored(self.edit_targets.value(source)).texture != own.texture:
            return -1
        return source

    def position(self, tensor: Tensor | int) -> int:
        """Of which kept value the node being lowered reads a tensor; -1 for none."""
        if isinstance(tensor, int):
            return -1
        found = self.edit_targets.read_by(self._node, tensor.value)
        if found < 0 or self._stored[self.edit_targets.value(found)].texture != tensor.texture:
            return -1  # a copy has what was edited
        return found

    def defer(self, node: Node, lower: Callable[[Builder, Node], None]) -> None:
        """Lower a node only when somebody wants its one output as a texture."""
        if node.inputs[0] in self._deferred:
            self.stored(node.inputs[0])  # of a chain only the last: a convolution applies one
        self._deferred[node.outputs[0]] = (node, self.layer, lower)

    def deferred(self, value: str) -> Node | None:
        """The node that gives this value when there is no texture of it yet."""
        return self._deferred[value][0] if value in self._deferred else None

    def tensor(self, value: str, nchw: NCHW | None = None, block: Block | None = None) -> Tensor:
        """A value in the given nchw (default: its own shape's) and block (default: any).

        One pass copies it there if it lies otherwise; the copy is remembered.
        """
        if not math.prod(self.shape(value)):
            return self.blank()
        nchw = nchw or nchw_of(self.shape(value))
        if self.constant(value) is not None and value not in self._stored:
            return self.constant_tensor(value, nchw, block)
        stored = self.stored(value)
        if stored.layout.nchw == nchw and block in (None, stored.layout.block):
            return stored
        key = (value, nchw, block, self.position(stored))
        if key not in self._copies:
            copy = replace(self.scratch(self.layout(nchw, block), stored), value=value)
            self.draw(RESHAPE, copy, [stored], fetches=16)
            self._copies[key] = copy
        return self._copies[key]

    def constant_tensor(self, value: str, nchw: NCHW, block: Block | None = None) -> Tensor:
        """A constant as a tensor in a texture of weights."""
        data = self.graph.values[value].data
        assert data is not None
        if 0 in data.strides:  # a file of a few bytes can ask for as much as it likes
            self._check_repeated(value)
        layout = self.fitted(self.layout(nchw, block))
        arguments = {"nchw": layout.nchw, "block": layout.block, **_cut(layout)}
        texture = self.weight(p.Recipe("tensor", (value,), arguments))
        return Tensor(texture, layout)

    def _check_repeated(self, value: str) -> None:
        """UnsupportedModel where a few numbers that repeat would be packed by the gigabyte."""
        shape = self.shape(value)
        if 4 * math.prod(shape) > REPEATED:
            raise UnsupportedModel(
                f"{self.where()}: a constant of shape {list(shape)}, in which few numbers repeat, "
                f"takes {4 * math.prod(shape):,} bytes of textures; at most {REPEATED:,} are for "
                "it. Let broadcasting repeat them"
            )

    def blank(self) -> Tensor:
        """A single zero: for a sampler that nothing reads, and where nothing is stored."""
        return Tensor(self.weight(p.Recipe("zero", ())), Layout((1, 1, 1, 1)))

    def fill(self, value: str, number: float) -> None:
        """Say that a value is this number everywhere."""
        self._check_repeated(value)
        nchw = nchw_of(self.shape(value))
        layout = self.fitted(self.layout(nchw))
        bits = int(np.float32(number).view(np.uint32))  # JSON has no infinity
        arguments = {"nchw": layout.nchw, "block": layout.block, "bits": bits, **_cut(layout)}
        self.bind(value, Tensor(self.weight(p.Recipe("filled", (), arguments)), layout))

    def output(self, value: str, layout: Layout | None = None) -> Tensor:
        """A new texture for `value`."""
        tensor = self.scratch(layout or self.layout(nchw_of(self.shape(value))))
        self.bind(value, tensor)
        return tensor

    def bind(self, value: str, tensor: Tensor) -> None:
        """Say where `value` lies: its row-major elements in any nchw of the same size."""
        assert math.prod(tensor.layout.nchw) == math.prod(self.shape(value)), (value, tensor)
        self.formats.holds(tensor.texture, self.graph.values[value].dtype)
        if tensor.value:
            self.edit_targets.view(value, tensor.value, self._node)
        self._stored[value] = replace(tensor, value=value)

    def scratch(self, layout: Layout, copied: Tensor | None = None) -> Tensor:
        """A new texture of this layout, for elements of the tensor `copied` when that is given."""
        layout = self.fitted(layout)
        tensor = Tensor(self.texture(*layout.size), layout)
        if layout.edge:
            self.edged.add(tensor.texture)
        if copied is not None:
            self.formats.same(tensor.texture, copied.texture)
        return tensor

    def fitted(self, layout: Layout) -> Layout:
        """The same elements in strips, if a texture of this device is too short for them.

        UnsupportedModel when it would have no room for the strips either.
        """
        longest = self.target.max_texture_size
        fitted = layout.within(longest)
        if max(fitted.size[:2]) > longest:
            n, c, h, w = layout.nchw
            width, height = layout.whole
            raise UnsupportedModel(
                f"{self.where()}: {n}×{c}×{h}×{w} elements take {width}×{height} texels, more than "
                f"a whole texture has; this device has at most {longest}×{longest}. "
                "Use a smaller input or batch"
            )
        self._check_size(*fitted.size)  # before a gigabyte is packed
        return fitted

    def texture(self, width: int, height: int, layers: int = 1) -> int:
        """A new texture; UnsupportedModel when the device or the budget cannot hold it."""
        self._check_size(width, height, layers)
        self.textures.append(p.Texture(width, height, layers))
        return len(self.textures) - 1

    def _check_size(self, width: int, height: int, layers: int) -> None:
        limit = self.target.max_texture_size
        if width > limit or height > limit or layers > self.target.max_array_layers:
            raise UnsupportedModel(
                f"{self.where()}: needs a texture of {width}×{height}×{layers} texels; this device "
                f"has at most {limit}×{limit}. Use a smaller input or batch"
            )
        # What else there is at once is known when all passes are: lower.py adds it up.
        if self._packed_bytes + width * height * layers * self.formats.texel_bytes > BUDGET:
            raise too_large(self.where(), "")

    def where(self) -> str:
        """The layer being lowered, for messages."""
        node = self._node
        if node is None:
            return self.graph.name
        return f"{node.module or node.name} ({node.module_type or node.op})"

    _node: Node | None = None

    def enter(self, node: Node, layer: int) -> None:
        """From here on passes belong to this node and layer."""
        self._node, self.layer = node, layer

    def enter_reads(self) -> None:
        """From here on steps belong to no layer: they bring values to the CPU."""
        self._node, self.layer = None, -1

    def read_texture(self, width: int, height: int, sources: Sequence[int]) -> int:
        """The one texture that all reads draw to, at least this large and as exact as `sources`."""
        if self.read_number < 0:
            self.read_number = self.texture(width, height)
        for source in sources:
            half = self.formats.of(source) == "rgba16f"
            self.formats.holds(self.read_number, np.dtype(np.float32 if half else np.int64))
        old = self.textures[self.read_number]
        self.textures[self.read_number] = p.Texture(
            max(width, old.width), max(height, old.height), 1
        )
        self._check_size(width, height, 1)
        return self.read_number

    # Weights, programs, passes.

    def weight(self, recipe: p.Recipe) -> int:
        """The texture packed by `recipe` from constants; equal contents share one texture."""
        blob = self._packed(recipe)
        # The recipe is part of the name: fresh parameters are equal now and differ after
        # load_state_dict.
        name = p.blob_name(recipe, blob)
        if name not in self._weight_textures:
            self._weight_textures[name] = self._fill(recipe, blob)
            self.formats.uploaded(self._weight_textures[name])
        return self._weight_textures[name]

    def _packed(self, recipe: p.Recipe) -> p.Float32:
        self.used_constants.update(recipe.sources)
        return packed(recipe, [self.graph.values[s].data for s in recipe.sources])

    def _fill(self, recipe: p.Recipe, blob: p.Float32 | None = None) -> int:
        """A new texture with what a recipe makes."""
        blob = self._packed(recipe) if blob is None else blob
        layers, height, width, _ = blob.shape
        texture = self.texture(width, height, layers)
        self._packed_bytes += width * height * layers * self.formats.texel_bytes
        if recipe.packer in TABLES:
            self.formats.holds(texture, np.dtype(np.int64))
        for source in recipe.sources:
            self.formats.holds(texture, self.graph.values[source].dtype)
        name = p.blob_name(recipe, blob)
        self.weights.append(p.Weight(texture, name, recipe))
        self.blobs[name] = blob
        return texture

    def draw(
        self,
        kernel: Kernel,
        output: Tensor,
        inputs: Sequence[Tensor] = (),
        weights: Sequence[int | Tensor] = (),
        *,
        numbers: Mapping[str, Number] = {},
        constants: Mapping[str, int] = {},
        parts: Sequence[str | Part] = (),
        fetches: int = 4,
    ) -> None:
        """Add a pass: `kernel` over inputs (x0.., layouts u.x[k]) and weights (w0..) into output.

        `numbers` fill the uniform slots that the kernel and its parts declare, by name; `fetches`
        estimates texture reads per fragment.
        """
        self.passes.append(
            self.step(
                kernel,
                output.texture,
                output.layout,
                inputs,
                weights,
                numbers,
                constants,
                parts,
                fetches,
            )
        )

    def step(
        self,
        kernel: Kernel,
        texture: int,
        layout: Layout,
        inputs: Sequence[Tensor] = (),
        weights: Sequence[int | Tensor] = (),
        numbers: Mapping[str, Number] = {},
        constants: Mapping[str, int] = {},
        parts: Sequence[str | Part] = (),
        fetches: int = 4,
        viewport: tuple[int, int] | None = None,
    ) -> p.Pass:
        """A pass without adding it to the list: what writing an input or reading a value draws."""
        assert len(inputs) <= 4
        samplers = (*(f"x{k}" for k in range(len(inputs))), *(f"w{k}" for k in range(len(weights))))
        layouts = [layout, *(tensor.layout for tensor in inputs)]
        if cut := max(one.side for one in layouts):
            constants = {**constants, "WRAPPED": cut}
        source = program_source(kernel, samplers, layout, constants, parts)
        number = self._program_numbers.setdefault((source, samplers), len(self.programs))
        if number == len(self.programs):
            self.programs.append(p.Program(kernel.name, source, samplers, math.prod(layout.block)))
        words = np.zeros(128, np.int32)
        words[:16] = layout.words()
        for k, tensor in enumerate(inputs):
            words[16 * (k + 1) : 16 * (k + 2)] = tensor.layout.words()
        write(words, slots_of(kernel, parts), numbers)
        data = words.tobytes()
        offset = self._uniform_offsets.setdefault(data, len(self.uniforms))
        if offset == len(self.uniforms):
            self.uniforms += data
        width, height = viewport or layout.drawn
        read = (*inputs, *weights)
        values = tuple(map(self.position, read))
        return p.Pass(
            number,
            tuple(t if isinstance(t, int) else t.texture for t in read),
            texture,
            offset,
            (width, height),
            self.layer,
            width * height * fetches,
            values if max(values, default=-1) >= 0 else (),
        )

    def input(self, key: str, value: str, initial: str = "") -> p.Input:
        """The upload of one of the network's inputs, which may begin as a constant."""
        shape, dtype = self.shape(value), self.graph.values[value].dtype
        empty = not math.prod(shape)
        if empty:
            tensor = self.scratch(Layout((1, 1, 1, 1)))
        else:
            tensor = self._begun(value, initial) if initial else self.output(value)
        width, height = flat_width(math.prod(shape), self.target.max_texture_size)
        staging = self.texture(width, height)
        self.formats.uploaded(staging)
        self.formats.holds(staging, dtype)
        layout = tensor.layout
        pairs = (layout.block, layout.phases, layout.nchw[3] % 2) == ((1, 2, 2), (1, 1), 0)
        pairs = pairs and self.target.fast_kernels and not layout.side
        step = self.step(
            UNFLATTEN_PAIRS if pairs else UNFLATTEN,
            tensor.texture,
            layout,
            [Tensor(staging, layout)],
            numbers={"width": width},
            fetches=8 if pairs else 16,
        )
        return p.Input(key, shape, dtype.name, staging, step)
