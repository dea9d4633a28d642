"""The builder of a Plan: operators add values, weights, programs and passes to it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nbglcnn.codegen.edit_targets import EditTargets
from nbglcnn.codegen.glsl import FragmentShader, program_source, shader_source, uniform_slots_of
from nbglcnn.codegen.strided import StridedView, contiguous_view, copy_elements, draw_view
from nbglcnn.codegen.texture_formats import TextureFormats
from nbglcnn.codegen.uniform_slots import GlslFunction, UniformValue, write_uniforms
from nbglcnn.codegen.weights import INTEGER_PACKERS, pack_weight
from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Array, Carry, Graph, Node, ValueKey
from nbglcnn.plan import schema as p
from nbglcnn.plan.layout import NCHW, Layout, PixelBlock, storage_nchw

WIDTH_SLOT = "int width"  # width of the texture with row-major elements
FLATTEN_SHADER = FragmentShader(
    "flatten", shader_source("flatten.glsl"), has_pixel_function=False, uniform_slots=WIDTH_SLOT
)
FLATTEN_STRIPS_SHADER = replace(FLATTEN_SHADER, source=shader_source("flatten_strips.glsl"))
FLATTEN_TEXELS_SHADER = replace(FLATTEN_SHADER, source=shader_source("flatten_texels.glsl"))
UNFLATTEN_SHADER = FragmentShader(
    "unflatten",
    shader_source("unflatten.glsl") + shader_source("pixel_loop_main.glsl"),
    has_pixel_function=False,
    uniform_slots=WIDTH_SLOT,
)
UNFLATTEN_PAIRS_SHADER = replace(UNFLATTEN_SHADER, source=shader_source("unflatten_pairs.glsl"))
UNFLATTEN_TEXELS_SHADER = FragmentShader(
    "unflatten", shader_source("unflatten_texels.glsl"), uniform_slots=WIDTH_SLOT
)

# Limit for all textures, in bytes: above it browsers tend to lose the context without an error.
TEXTURE_BUDGET_BYTES = 2 * 2**30
MAX_REPEATED_CONSTANT_BYTES = 2**26  # bytes of a constant with few distinct numbers


def too_large_error(layer: str, observe: str) -> UnsupportedModel:
    """Return the error for a network that exceeds the texture budget."""
    more = "" if observe == "outputs" else ', observe="outputs"'
    return UnsupportedModel(
        f"{layer}: the network needs more than {TEXTURE_BUDGET_BYTES / 2**30:.0f} GiB of textures. "
        f'Use a smaller input or batch{more} or precision="float16"'
    )


@dataclass(frozen=True, slots=True)
class Tensor:
    """A texture with the layout of a tensor in it; `value_name` is its name in the Graph, or ""."""

    texture: int
    layout: Layout
    value_name: str = ""


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Operations on a convolution's sums before it stores them, fused from the nodes after it.

    `output_name` is the name of the result; `bias_name` is a vector to add to a matrix product,
    `normalization` is a BatchNormalization, `residual_name` a value of the same shape to add,
    `activation` a unary node.
    """

    output_name: str
    bias_name: str = ""
    normalization: Node | None = None
    residual_name: str = ""
    activation: Node | None = None


@dataclass(frozen=True, slots=True)
class DeferredView:
    """A view of `source` that no pass has drawn yet, its node and layer, and its own layout."""

    node: Node
    layer: int
    source: Tensor
    view: StridedView
    layout: Layout


def row_major_texture_size(count: int, max_side: int = 4096) -> tuple[int, int]:
    """(width, height) in texels of a texture that holds `count` floats in row-major order.

    `max_side` is the largest side of a texture on the device.
    """
    texels = -(-max(count, 1) // 4)
    width = min(texels, 1024 if texels <= 2**22 else 4096, max_side)
    return width, -(-texels // width)


def _strip_arguments(layout: Layout) -> dict[str, int]:
    """Return a recipe's argument for a layout in strips; empty for other layouts."""
    return {"side": layout.max_side} if layout.max_side else {}


class Builder:
    """The state of one compilation: operators call `tensor`, `create_output`, `bind`, `draw`."""

    def __init__(
        self,
        graph: Graph,
        target: p.Target,
        epilogues: Mapping[str, Epilogue] = {},
        precision: p.Precision = "float32",
        keys: Sequence[ValueKey] = (),
        observed: Collection[str] = (),
    ) -> None:
        self.graph = graph
        self.observed = observed
        self.reader_counts = Counter(name for node in graph.nodes for name in node.inputs)
        self.edit_targets = EditTargets(graph, keys)
        self.target = target
        self.formats = TextureFormats(precision, target.float32_render)
        self.epilogues = epilogues
        self.layer = -1  # layer of the current node; stored in passes
        self.textures: list[p.Texture] = []
        self.bordered_textures: set[int] = set()  # with a trailing column and row of zeros
        self._weight_bytes = 0  # of the weight textures
        self.programs: list[p.Program] = []
        self.passes: list[p.Pass] = []
        self.weights: list[p.Weight] = []
        self.uniform_data = bytearray()
        self.blobs: dict[str, p.Float32] = {}
        self._program_numbers: dict[tuple[str, tuple[str, ...]], int] = {}
        self._uniform_offsets: dict[bytes, int] = {}
        self._tensors: dict[str, Tensor] = {}
        self._deferred_nodes: dict[str, tuple[Node, int, Callable[[Builder, Node], None]]] = {}
        self._deferred_views: dict[str, DeferredView] = {}
        self._copies: dict[tuple[str, NCHW, PixelBlock | None, int], Tensor] = {}
        self._weight_textures: dict[str, int] = {}
        self.used_constants: set[str] = set()
        self.sections: list[p.Section] = []
        self.carries: list[p.Carry] = []
        self.readback_index = -1

    # Sections and state that persists between runs.

    def end_section(self, name: str) -> None:
        """End a section: the passes since the end of the last section belong to this one.

        The next section makes its own copies, because it may run without this one.
        """
        first = sum(section.count for section in self.sections)
        self.sections.append(
            p.Section(name, first, len(self.passes) - first, name in self.graph.on_demand_sections)
        )
        self._copies.clear()

    def bind_state_target(self, carry: Carry) -> None:
        """Bind a carry's target to a texture that starts with the initial contents."""
        if math.prod(self.shape(carry.target)):
            self._bind_initialized_texture(carry.target, carry.initial)

    def _bind_initialized_texture(self, value: str, initial: str) -> Tensor:
        """Bind a value to its own texture, which starts as a constant.

        `weight_texture` would share the texture with a constant of equal contents.
        """
        layout = self.fit_to_device(self.layout(storage_nchw(self.shape(value))))
        arguments = {"nchw": layout.nchw, "block": layout.block, **_strip_arguments(layout)}
        tensor = Tensor(
            self._create_weight(p.PackingRecipe("tensor", (initial,), arguments)), layout
        )
        self.bind(value, tensor)
        return tensor

    def add_carry(self, carry: Carry) -> None:
        """Add a carry: a commit copies the source's texture to the target's.

        An additional pass copies the source if the layouts differ or no pass writes its texture.
        """
        if not math.prod(self.shape(carry.target)):
            return
        source, target = self.stored_tensor(carry.source), self.stored_tensor(carry.target)
        written = any(step.output == source.texture for step in self.passes)
        if not written or source.layout != target.layout:
            copy = self.create_scratch_tensor(target.layout, source)
            copy_elements(self, copy, source)
            source = copy
        self.carries.append(p.Carry(source.texture, target.texture))

    # Properties of values.

    def shape(self, value: str) -> tuple[int, ...]:
        """The concrete shape of a value."""
        return self.graph.shape(value)

    def constant_data(self, value: str) -> Array | None:
        """Return the data of a constant value, or None."""
        return self.graph.constant_data(value)

    def static_data(self, value: str) -> Array | None:
        """Return a constant's data if new weights cannot change it, or None."""
        return self.graph.static_data(value)

    def epilogue(self, node: Node) -> Epilogue:
        """Return the epilogue fused into `node`; without fusion only its own output."""
        return self.epilogues.get(node.name, Epilogue(node.outputs[0]))

    # Layouts of values.

    def choose_block(self, nchw: NCHW, *, slices: bool = False) -> PixelBlock:
        """Return the block for a shape nchw; all operators use this policy.

        The block wastes the fewest texels: 2×2 pixels for maps, lines for lines, images for
        vectors. With `slices` the rows are a volume's slices below each other, and no block
        contains pixels of two slices.
        """
        n, _, h, w = nchw
        if slices and h > 1:
            return self.choose_block((n, 1, 1, w)) if w > 1 else (1, 1, 1)
        if h > 1 and w > 1:
            return (1, 2, 2)
        if w > 1:
            return (1, 1, 4) if w > 2 else (1, 1, 2)
        if h > 1:
            return (1, 4, 1) if h > 2 else (1, 2, 1)
        return (4, 1, 1) if n > 2 else (n, 1, 1)

    def layout(self, nchw: NCHW, block: PixelBlock | None = None) -> Layout:
        """Return the layout of a shape nchw in the given block (default: its own)."""
        return Layout(nchw, block or self.choose_block(nchw))

    def stored_tensor(self, value: str) -> Tensor:
        """Return a value's tensor as stored, in any nchw; constants are packed on demand."""
        if not math.prod(self.shape(value)):
            return self.zero_tensor()
        if value in self._deferred_views:
            self._draw_deferred_view(value)
        if value in self._deferred_nodes:
            node, layer, lower = self._deferred_nodes.pop(value)
            reader = self._node, self.layer
            self.enter_layer(node, layer)
            lower(self, node)
            self._node, self.layer = reader
        if value not in self._tensors:
            self._tensors[value] = self.constant_tensor(value, storage_nchw(self.shape(value)))
        return self._tensors[value]

    def shared_texture_source(self, key_index: int) -> int:
        """Return the kept value whose texture a kept view or alias shares, or -1."""
        source, own = (
            self.edit_targets.preceding_key_index(key_index),
            self.stored_tensor(self.edit_targets.value_name(key_index)),
        )
        if (
            source < 0
            or self.stored_tensor(self.edit_targets.value_name(source)).texture != own.texture
        ):
            return -1
        return source

    def edit_target_index(self, tensor: Tensor | int) -> int:
        """Return the kept value whose edits apply when the current node reads a tensor, or -1."""
        if isinstance(tensor, int):
            return -1
        found = self.edit_targets.applicable_key_index(self._node, tensor.value_name)
        if (
            found < 0
            or self._tensors[self.edit_targets.value_name(found)].texture != tensor.texture
        ):
            return -1  # a copy already contains the edits
        return found

    def defer(self, node: Node, lower: Callable[[Builder, Node], None]) -> None:
        """Defer a node until its only output is requested as a texture."""
        if node.inputs[0] in self._deferred_nodes:
            # Of a chain only the last is deferred: a convolution fuses one.
            self.stored_tensor(node.inputs[0])
        self._deferred_nodes[node.outputs[0]] = (node, self.layer, lower)

    def defer_view(
        self, node: Node, value: str, source: Tensor, view: StridedView, layout: Layout
    ) -> None:
        """Defer an output that is a view of a tensor until it is requested as a texture.

        It then gets the requested layout, or `layout`. A view of it reads the tensor instead, so
        that a chain of views takes one pass.
        """
        self._deferred_views[value] = DeferredView(node, self.layer, source, view, layout)

    def _draw_deferred_view(self, value: str, layout: Layout | None = None) -> None:
        deferred = self._deferred_views.pop(value)
        reader = self._node, self.layer
        self.enter_layer(deferred.node, deferred.layer)
        output = self.create_scratch_tensor(layout or deferred.layout, deferred.source)
        draw_view(self, output, deferred.source, deferred.view)
        self.bind(value, output)
        self._node, self.layer = reader

    def view_source(self, value: str) -> tuple[Tensor, StridedView]:
        """Return a tensor and the view of its row-major elements that a value is."""
        if value in self._deferred_views:
            deferred = self._deferred_views[value]
            return deferred.source, deferred.view
        tensor = self.stored_tensor(value)
        return tensor, contiguous_view((math.prod(tensor.layout.nchw),))

    def deferred_node(self, value: str) -> Node | None:
        """Return the deferred node that computes this value, or None."""
        return self._deferred_nodes[value][0] if value in self._deferred_nodes else None

    def tensor(
        self, value: str, nchw: NCHW | None = None, block: PixelBlock | None = None
    ) -> Tensor:
        """Return a value in the given nchw (default: its own shape's) and block (default: any).

        A pass copies it if the stored layout differs; the copy is cached.
        """
        if not math.prod(self.shape(value)):
            return self.zero_tensor()
        nchw = nchw or storage_nchw(self.shape(value))
        if self.constant_data(value) is not None and value not in self._tensors:
            return self.constant_tensor(value, nchw, block)
        if value in self._deferred_views:
            self._draw_deferred_view(value, self.layout(nchw, block))
        stored = self.stored_tensor(value)
        if stored.layout.nchw == nchw and block in (None, stored.layout.block):
            return stored
        key = (value, nchw, block, self.edit_target_index(stored))
        if key not in self._copies:
            copy = replace(
                self.create_scratch_tensor(self.layout(nchw, block), stored), value_name=value
            )
            copy_elements(self, copy, stored)
            self._copies[key] = copy
        return self._copies[key]

    def constant_tensor(self, value: str, nchw: NCHW, block: PixelBlock | None = None) -> Tensor:
        """Pack a constant into a weight texture."""
        data = self.graph.values[value].data
        assert data is not None
        if 0 in data.strides:  # a tiny file can declare a huge constant
            self._check_repeated_constant(value)
        layout = self.fit_to_device(self.layout(nchw, block))
        arguments = {"nchw": layout.nchw, "block": layout.block, **_strip_arguments(layout)}
        texture = self.weight_texture(p.PackingRecipe("tensor", (value,), arguments))
        return Tensor(texture, layout)

    def _check_repeated_constant(self, value: str) -> None:
        """Raise UnsupportedModel if a few repeated numbers would be packed into a huge texture."""
        shape = self.shape(value)
        if 4 * math.prod(shape) > MAX_REPEATED_CONSTANT_BYTES:
            raise UnsupportedModel(
                f"{self.layer_label()}: a constant of shape {list(shape)} with few repeated "
                f"values takes {4 * math.prod(shape):,} bytes of textures; at most "
                f"{MAX_REPEATED_CONSTANT_BYTES:,} are supported. Use broadcasting instead"
            )

    def zero_tensor(self) -> Tensor:
        """Return a single zero, for samplers that aren't read and for empty tensors."""
        return Tensor(self.weight_texture(p.PackingRecipe("zero", ())), Layout((1, 1, 1, 1)))

    def bind_filled(self, value: str, number: float) -> None:
        """Bind a value to a texture filled with one number."""
        self._check_repeated_constant(value)
        nchw = storage_nchw(self.shape(value))
        layout = self.fit_to_device(self.layout(nchw))
        bits = int(np.float32(number).view(np.uint32))  # JSON has no infinity
        arguments = {
            "nchw": layout.nchw,
            "block": layout.block,
            "bits": bits,
            **_strip_arguments(layout),
        }
        self.bind(
            value, Tensor(self.weight_texture(p.PackingRecipe("filled", (), arguments)), layout)
        )

    def create_output(self, value: str, layout: Layout | None = None) -> Tensor:
        """Bind `value` to a new texture."""
        tensor = self.create_scratch_tensor(layout or self.layout(storage_nchw(self.shape(value))))
        self.bind(value, tensor)
        return tensor

    def bind(self, value: str, tensor: Tensor) -> None:
        """Bind `value` to a tensor with its row-major elements, in any nchw of the same size."""
        assert math.prod(tensor.layout.nchw) == math.prod(self.shape(value)), (value, tensor)
        self.formats.mark_dtype(tensor.texture, self.graph.values[value].dtype)
        if tensor.value_name:
            self.edit_targets.add_view(value, tensor.value_name, self._node)
        self._tensors[value] = replace(tensor, value_name=value)

    def create_scratch_tensor(self, layout: Layout, source: Tensor | None = None) -> Tensor:
        """Create a texture of this layout, for copies of elements of `source` if it is passed."""
        layout = self.fit_to_device(layout)
        tensor = Tensor(self.create_texture(*layout.size), layout)
        if layout.border:
            self.bordered_textures.add(tensor.texture)
        if source is not None:
            self.formats.mark_copy(tensor.texture, source.texture)
        return tensor

    def fit_to_device(self, layout: Layout) -> Layout:
        """Split a layout into strips if it exceeds the device's largest texture side.

        Raises UnsupportedModel if the strips don't fit either.
        """
        longest = self.target.max_texture_size
        fitted = layout.split_to_fit(longest)
        if max(fitted.size[:2]) > longest:
            n, c, h, w = layout.nchw
            width, height = layout.whole
            raise UnsupportedModel(
                f"{self.layer_label()}: {n}×{c}×{h}×{w} elements take {width}×{height} texels, "
                "more than a texture can have; this device supports at most "
                f"{longest}×{longest}. Use a smaller input or batch"
            )
        self._check_size(*fitted.size)  # before a huge array is packed
        return fitted

    def create_texture(self, width: int, height: int, layers: int = 1) -> int:
        """Create a texture; UnsupportedModel if it exceeds the device's limits or the budget."""
        self._check_size(width, height, layers)
        self.textures.append(p.Texture(width, height, layers))
        return len(self.textures) - 1

    def _check_size(self, width: int, height: int, layers: int) -> None:
        limit = self.target.max_texture_size
        if width > limit or height > limit or layers > self.target.max_array_layers:
            raise UnsupportedModel(
                f"{self.layer_label()}: needs a texture of {width}×{height}×{layers} texels; "
                f"this device supports at most {limit}×{limit}. Use a smaller input or batch"
            )
        # Here without activations: lower.py sums all textures when the passes are known.
        if (
            self._weight_bytes + width * height * layers * self.formats.texel_bytes
            > TEXTURE_BUDGET_BYTES
        ):
            raise too_large_error(self.layer_label(), "")

    def layer_label(self) -> str:
        """Return the layer being lowered, for messages."""
        node = self._node
        if node is None:
            return self.graph.name
        return f"{node.module or node.name} ({node.module_type or node.op})"

    _node: Node | None = None

    def enter_layer(self, node: Node, layer: int) -> None:
        """Set the node and layer of the passes that follow."""
        self._node, self.layer = node, layer

    def enter_readback(self) -> None:
        """Start the passes that read values back to the CPU; they belong to no layer."""
        self._node, self.layer = None, -1

    def readback_texture(self, width: int, height: int, sources: Sequence[int]) -> int:
        """Return the one texture of all readbacks, at least this large and exact as `sources`."""
        if self.readback_index < 0:
            self.readback_index = self.create_texture(width, height)
        for source in sources:
            half = self.formats.format_of(source) == "rgba16f"
            self.formats.mark_dtype(self.readback_index, np.dtype(np.float32 if half else np.int64))
        old = self.textures[self.readback_index]
        self.textures[self.readback_index] = p.Texture(
            max(width, old.width), max(height, old.height), 1
        )
        self._check_size(width, height, 1)
        return self.readback_index

    # Weights, programs, passes.

    def weight_texture(self, recipe: p.PackingRecipe) -> int:
        """Return the texture packed by `recipe`; equal contents share one texture."""
        blob = self._pack_recipe(recipe)
        # The name contains the recipe: fresh parameters may be equal now and differ after
        # load_state_dict.
        name = p.blob_name(recipe, blob)
        if name not in self._weight_textures:
            self._weight_textures[name] = self._create_weight(recipe, blob)
            self.formats.mark_uploaded(self._weight_textures[name])
        return self._weight_textures[name]

    def _pack_recipe(self, recipe: p.PackingRecipe) -> p.Float32:
        self.used_constants.update(recipe.sources)
        return pack_weight(recipe, [self.graph.values[s].data for s in recipe.sources])

    def _create_weight(self, recipe: p.PackingRecipe, blob: p.Float32 | None = None) -> int:
        """Create a texture with the contents that a recipe packs."""
        blob = self._pack_recipe(recipe) if blob is None else blob
        layers, height, width, _ = blob.shape
        texture = self.create_texture(width, height, layers)
        self._weight_bytes += width * height * layers * self.formats.texel_bytes
        if recipe.packer in INTEGER_PACKERS:
            self.formats.mark_dtype(texture, np.dtype(np.int64))
        for source in recipe.sources:
            self.formats.mark_dtype(texture, self.graph.values[source].dtype)
        name = p.blob_name(recipe, blob)
        self.weights.append(p.Weight(texture, name, recipe))
        self.blobs[name] = blob
        return texture

    def draw(
        self,
        shader: FragmentShader,
        output: Tensor,
        inputs: Sequence[Tensor] = (),
        weights: Sequence[int | Tensor] = (),
        *,
        uniforms: Mapping[str, UniformValue] = {},
        constants: Mapping[str, int] = {},
        functions: Sequence[str | GlslFunction] = (),
        fetches: int = 4,
    ) -> None:
        """Add a pass: `shader` over inputs (x0.., layouts u.x[k]) and weights (w0..) into output.

        `uniforms` fill the uniform slots that the kernel and its parts declare, by name; `fetches`
        estimates texture reads per fragment.
        """
        self.passes.append(
            self.make_pass(
                shader,
                output.texture,
                output.layout,
                inputs,
                weights,
                uniforms,
                constants,
                functions,
                fetches,
            )
        )

    def make_pass(
        self,
        shader: FragmentShader,
        texture: int,
        layout: Layout,
        inputs: Sequence[Tensor] = (),
        weights: Sequence[int | Tensor] = (),
        uniforms: Mapping[str, UniformValue] = {},
        constants: Mapping[str, int] = {},
        functions: Sequence[str | GlslFunction] = (),
        fetches: int = 4,
        viewport: tuple[int, int] | None = None,
    ) -> p.Pass:
        """Return a pass without adding it, for uploads of inputs and readbacks of values."""
        assert len(inputs) <= 4
        samplers = (*(f"x{k}" for k in range(len(inputs))), *(f"w{k}" for k in range(len(weights))))
        layouts = [layout, *(tensor.layout for tensor in inputs)]
        if cut := max(one.max_side for one in layouts):
            constants = {**constants, "WRAPPED": cut}
        source = program_source(shader, samplers, layout, constants, functions)
        number = self._program_numbers.setdefault((source, samplers), len(self.programs))
        if number == len(self.programs):
            self.programs.append(p.Program(shader.name, source, samplers, math.prod(layout.block)))
        words = np.zeros(128, np.int32)
        words[:16] = layout.to_words()
        for k, tensor in enumerate(inputs):
            words[16 * (k + 1) : 16 * (k + 2)] = tensor.layout.to_words()
        write_uniforms(words, uniform_slots_of(shader, functions), uniforms)
        data = words.tobytes()
        offset = self._uniform_offsets.setdefault(data, len(self.uniform_data))
        if offset == len(self.uniform_data):
            self.uniform_data += data
        width, height = viewport or layout.drawn
        read = (*inputs, *weights)
        values = tuple(map(self.edit_target_index, read))
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

    def add_input(self, key: str, value: str, initial: str = "") -> p.Input:
        """Add the upload of one of the network's inputs, which may start as a constant."""
        shape, dtype = self.shape(value), self.graph.values[value].dtype
        empty = not math.prod(shape)
        if empty:
            tensor = self.create_scratch_tensor(Layout((1, 1, 1, 1)))
        else:
            tensor = (
                self._bind_initialized_texture(value, initial)
                if initial
                else self.create_output(value)
            )
        width, height = row_major_texture_size(math.prod(shape), self.target.max_texture_size)
        staging = self.create_texture(width, height)
        self.formats.mark_uploaded(staging)
        self.formats.mark_dtype(staging, dtype)
        layout = tensor.layout
        shader, fetches = UNFLATTEN_SHADER, 16
        pairs = (layout.block, layout.phases, layout.nchw[3] % 2) == ((1, 2, 2), (1, 1), 0)
        if self.target.fast_kernels and layout.has_whole_texels:
            shader, fetches = UNFLATTEN_TEXELS_SHADER, 4
        elif self.target.fast_kernels and pairs and not layout.max_side:
            shader, fetches = UNFLATTEN_PAIRS_SHADER, 8
        step = self.make_pass(
            shader,
            tensor.texture,
            layout,
            [Tensor(staging, layout)],
            uniforms={"width": width},
            fetches=fetches,
        )
        return p.Input(key, shape, dtype.name, staging, step)
