"""Convolutions: Conv and ConvTranspose, and the code that they share with Gemm."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import (
    COLUMN_GROUPS_GLSL,
    MAX_LOOP_ITERATIONS,
    FragmentShader,
    loop_iterations,
    loop_problem,
    shader_source,
)
from nbglcnn.codegen.strided import contiguous_view, gather_strided
from nbglcnn.codegen.weights import COLUMN_GROUPS, split_kernel_texture
from nbglcnn.errors import UnsupportedModel
from nbglcnn.graph import Node
from nbglcnn.ops.conv_gradient import conv_gradient, conv_transpose_gradient
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    float_attr,
    has_input,
    int_attr,
    int_list_attr,
    one_of,
)
from nbglcnn.ops.pointwise import IDENTITY_FUNCTION, activation_of
from nbglcnn.ops.receptive_field import window_fields
from nbglcnn.ops.window import (
    WINDOW_SLOTS,
    SlidingWindow,
    auto_pad_problem,
    sliding_window,
    transposed_window,
    window_problem,
)
from nbglcnn.plan.layout import NCHW, Layout, PixelBlock, storage_nchw
from nbglcnn.plan.schema import PackingRecipe


def _conv_shader(name: str, slots: str, *files: str) -> FragmentShader:
    texts = [shader_source(f"{file}.glsl") for file in ("epilogue", *files)]
    return FragmentShader(
        name,
        "\n".join([COLUMN_GROUPS_GLSL, *texts]),
        has_pixel_function=False,
        uniform_slots=f"{WINDOW_SLOTS}; int inputs, outputs{slots}",
    )


DENSE_CONV_SHADER = _conv_shader("conv", ", taps, lines, begin, end", "volume_rows", "conv")
PATCH_CONV_SHADER = _conv_shader(
    "conv_patch", ", taps, lines, begin, end; float slope", "conv_patch"
)
GROUPED_CONV_SHADER = _conv_shader(
    "grouped_conv", "", "volume_rows", "grouped_conv", "grouped_conv_main"
)
# Of a kernel for which further passes cannot sum the rest.
MAX_KERNEL_ELEMENTS = MAX_LOOP_ITERATIONS // 4
INPUT_ACTIVATION_CODES = {
    "Relu": 1,
    "LeakyRelu": 2,
}  # codes in conv_patch.glsl: cheap functions that map 0 outside the map to 0
PACK_KERNEL_SHADER = FragmentShader(
    "pack_kernel", f"{COLUMN_GROUPS_GLSL}\n{shader_source('pack_kernel.glsl')}",
    uniform_slots="int inputs, outputs, groups, taps; ivec3 steps; int lines; float factor",
)  # fmt: skip
PACK_KERNEL_TEXELS_SHADER = replace(
    PACK_KERNEL_SHADER, source=f"{COLUMN_GROUPS_GLSL}\n{shader_source('pack_kernel_texels.glsl')}"
)


@dataclass(frozen=True, slots=True)
class Convolution:
    """A convolution to lower: the input's nchw, the window and the packing of weights."""

    node: Node
    input_nchw: NCHW
    window: SlidingWindow
    groups: int
    output_channels: int  # output channels
    kernel_shape: NCHW  # weight shape for the packer
    transposed: bool = False
    pack_options: Mapping[str, object] = field(default_factory=dict)

    @property
    def group_channels(self) -> tuple[int, int]:
        """Input and output channels of one group."""
        return self.input_nchw[1] // self.groups, self.output_channels // self.groups

    @property
    def is_depthwise(self) -> bool:
        """Whether every channel is a separate group."""
        return self.groups > 1 and self.group_channels == (1, 1)

    @property
    def is_dense(self) -> bool:
        """Whether no texel of four channels mixes groups."""
        each_in, each_out = self.group_channels
        return self.groups == 1 or self.is_depthwise or (each_in % 4 == 0 and each_out % 4 == 0)


def draw_convolution(b: Builder, conv: Convolution, bias: str, bias_factor: float = 1.0) -> None:
    """Add a convolution's passes with its fused epilogue; `bias_factor` scales the bias."""
    node = conv.node
    epilogue = b.epilogue(node)
    x, output, input_activation = _input_and_output(b, conv, epilogue.output_name)
    residual = (
        b.tensor(epilogue.residual_name, output.layout.nchw)
        if epilogue.residual_name
        else b.zero_tensor()
    )
    inputs = [x, _bias_tensor(b, conv, bias, bias_factor), residual]
    constants = {
        "TRANSPOSED": int(conv.transposed),
        "BIAS": int(bool(bias) or epilogue.normalization is not None),
        "RESIDUAL": (2 if residual.layout == output.layout else 1) if epilogue.residual_name else 0,
        "DEPTH": int(conv.window.is_3d),
    }
    function, given = activation_of(b, epilogue.activation)
    taps = math.prod(conv.window.kernel)
    window = conv.window.uniforms(b.shape(node.inputs[0])[2:])
    reads = taps // math.prod(output.layout.phases)
    each_in, each_out = conv.group_channels
    if conv.is_dense:
        in_groups, per_group = -(-each_in // 4), -(-each_out // 4)
        patch = _patch_constants(b, conv, output.layout.block, x.layout)
        if patch is not None:
            patch["BEFORE"] = (
                INPUT_ACTIVATION_CODES[input_activation.op] if input_activation is not None else 0
            )
        each, sheets = split_kernel_texture(each_in, conv.output_channels, taps)
        sizes = {"inputs": in_groups, "outputs": per_group, "taps": taps, "lines": each * taps}
        constants |= {
            "SHEETS": int(sheets > 1),
            "DEPTHWISE": int(conv.is_depthwise),
            **(patch or {}),
        }
        weights = _dense_weights(b, conv)
        slope = {} if patch is None else {"slope": _negative_slope(input_activation)}
        for begin, end in channel_group_ranges(in_groups, taps):
            last = end == in_groups
            sum_of = output if last else b.create_scratch_tensor(output.layout)
            b.draw(
                DENSE_CONV_SHADER if patch is None else PATCH_CONV_SHADER, sum_of, inputs,
                [weights],
                uniforms={
                    **window, **sizes, **slope, "begin": begin, "end": end,
                    **(given if last else {}),
                },
                constants=constants, functions=[function if last else IDENTITY_FUNCTION],
                fetches=(5 if conv.is_depthwise else 8 * (end - begin)) * reads + 8,
            )  # fmt: skip
            inputs[2], constants = sum_of, constants | {"BIAS": 0, "RESIDUAL": 2}
        return
    inputs.append(_grouped_weights(b, conv))
    b.draw(
        GROUPED_CONV_SHADER, output, inputs,
        uniforms={**window, "inputs": each_in, "outputs": each_out, **given},
        constants=constants, functions=[function],
        fetches=20 * reads * each_in + 8,
    )  # fmt: skip


def channel_group_ranges(groups: int, taps: int) -> list[tuple[int, int]]:
    """Ranges (begin, end) of input channel groups, one for each pass of conv.glsl."""
    # A tap has two nested loops. The outer loop iterates once per row of tiles, at worst once per
    # group. The inner loop then iterates twice, the second time to terminate.
    most = max(1, (MAX_LOOP_ITERATIONS // taps - 4) // 3)
    return [(begin, min(begin + most, groups)) for begin in range(0, groups, most)]


def _negative_slope(input_activation: Node | None) -> float:
    """LeakyRelu's factor for negative values; 0 for Relu."""
    if input_activation is None or input_activation.op == "Relu":
        return 0.0
    return float_attr(input_activation, "alpha", 0.01)


def _input_and_output(
    b: Builder, conv: Convolution, value: str
) -> tuple[Tensor, Tensor, Node | None]:
    """The input to read, the output texture, and the activation to apply while reading."""
    window, n = conv.window.as_2d(), conv.input_nchw[0]
    height, width = window.output_shape
    sy, sx = window.strides if conv.transposed else (1, 1)
    if conv.window.is_3d:
        # Rows of several slices are stacked vertically, so only columns have phases.
        height, sy = height * conv.window.output_shape[0], 1
    phase = (n, conv.output_channels, -(-height // sy), -(-width // sx))
    block = b.choose_block(phase, slices=conv.window.is_3d)
    x, input_activation = _read_input(b, conv, block)
    if block[0] > 1 and x.layout.block[0] != block[0]:
        # Images that share a texel stack in the output must share one in the input as well.
        if conv.input_nchw[2:] == (1, 1):
            x = b.tensor(conv.node.inputs[0], conv.input_nchw, block)
        else:
            block = (1, 1, 1)
    layout = Layout((n, conv.output_channels, height, width), block, (sy, sx))
    return x, b.create_output(value, layout), input_activation


def _read_input(b: Builder, conv: Convolution, block: PixelBlock) -> tuple[Tensor, Node | None]:
    """The tensor to read, and the unary node before it if the shader applies that while reading."""
    name = conv.node.inputs[0]
    input_activation = b.deferred_node(name)
    if input_activation is not None:
        x = b.stored_tensor(input_activation.inputs[0])
        if (
            x.layout.nchw == conv.input_nchw
            and _patch_constants(b, conv, block, x.layout) is not None
        ):
            return x, input_activation
    return b.tensor(name, conv.input_nchw), None


def _kernel_recipe(b: Builder, conv: Convolution, packer: str) -> PackingRecipe:
    """The packing recipe of a constant kernel, multiplied by a fused BatchNormalization."""
    norm = b.epilogue(conv.node).normalization
    options: dict[str, object] = {**conv.pack_options, "shape": conv.kernel_shape}
    sources = [conv.node.inputs[1]]
    if norm is not None:
        sources += [norm.inputs[1], norm.inputs[4]]
        options["epsilon"] = float_attr(norm, "epsilon", 1e-5)
    if conv.transposed:
        options["transposed_groups"] = conv.groups
    return PackingRecipe(packer, tuple(sources), options)


def _dense_weights(b: Builder, conv: Convolution) -> int:
    """The weight texture for conv.glsl: packed on upload, or by a pass if weights are computed."""
    name = conv.node.inputs[1]
    if b.constant_data(name) is not None:
        return b.weight_texture(_kernel_recipe(b, conv, "conv"))
    inputs, outputs = conv.input_nchw[1] // conv.groups, conv.output_channels // conv.groups
    taps = math.prod(conv.window.kernel)
    by_input = conv.transposed or conv.pack_options.get("transpose", False)
    steps = (outputs * taps, taps) if by_input else (taps, inputs * taps)
    return pack_computed_kernel(
        b, b.stored_tensor(name), inputs, outputs, steps, taps=taps, groups=conv.groups,
        factor=cast(float, conv.pack_options.get("factor", 1.0)),
    )  # fmt: skip


def pack_computed_kernel(
    b: Builder,
    weights: Tensor,
    inputs: int,
    outputs: int,
    strides: tuple[int, int],
    *,
    taps: int = 1,
    groups: int = 1,
    factor: float = 1.0,
) -> int:
    """Pack computed weights as `pack_dense_kernel` packs constant weights, times `factor`.

    `inputs` and `outputs` are counts per group. `strides` are the strides in elements between
    inputs and between outputs. The stride between groups is the size of a group, and between taps
    1.
    """
    columns = min(-(-inputs // 4), COLUMN_GROUPS)
    parts = -(-inputs // (4 * columns))
    each, sheets = split_kernel_texture(inputs, outputs * groups, taps)
    layers = sheets if sheets <= 2 else 4
    if sheets > layers:
        raise UnsupportedModel(
            f"{b.layer_label()}: computed weights of {outputs * groups} × {inputs} × {taps} "
            "exceed a texture of 4 layers; constant weights may be larger"
        )
    layout = Layout((layers, 4, parts * each * taps, 4 * columns), (layers, 1, 1))
    # Never in strips: conv.glsl reads the texture directly.
    packed = Tensor(b.create_texture(*layout.size), layout)
    orientation = _kernel_read_constants(
        weights.layout.nchw, inputs, outputs, strides, taps, groups
    )
    b.draw(
        PACK_KERNEL_SHADER if orientation is None else PACK_KERNEL_TEXELS_SHADER, packed, [weights],
        uniforms={
            "inputs": inputs, "outputs": outputs, "groups": groups, "taps": taps,
            "steps": (*strides, inputs * outputs * taps), "lines": each * taps, "factor": factor,
        },
        constants=orientation or {}, fetches=16,
    )  # fmt: skip
    return packed.texture


def _kernel_read_constants(
    nchw: NCHW, inputs: int, outputs: int, strides: tuple[int, int], taps: int, groups: int
) -> dict[str, int] | None:
    """The constants with which pack_kernel_texels.glsl reads this nchw; None if it can't."""
    n, c, height, width = nchw
    if height * width != taps:
        return None
    if (n, c) == (outputs * groups, inputs) and strides == (taps, inputs * taps):
        return {"TRANSPOSED": 0}
    apart = groups == 1 or outputs % 4 == 0
    if apart and (n, c) == (inputs * groups, outputs) and strides == (outputs * taps, taps):
        return {"TRANSPOSED": 1}
    return None


def _grouped_weights(b: Builder, conv: Convolution) -> Tensor:
    """The weights for grouped_conv.glsl: a tensor of nchw (I/groups, O, KH, KW)."""
    name, groups = conv.node.inputs[1], conv.groups
    inputs, outputs = conv.input_nchw[1] // groups, conv.output_channels // groups
    *rows, columns = conv.window.kernel
    layout = Layout((inputs, conv.output_channels, math.prod(rows), columns))
    if b.constant_data(name) is not None:
        return Tensor(b.weight_texture(_kernel_recipe(b, conv, "grouped")), layout)
    taps = columns * math.prod(rows)
    shape = (inputs, outputs, taps) if conv.transposed else (outputs, inputs, taps)
    order = (1, 0, 2, 3) if conv.transposed else (2, 0, 1, 3)
    view = contiguous_view((groups, *shape)).transposed(order)
    return gather_strided(b, b.stored_tensor(name), layout, view.sizes, view.strides)


def _patch_constants(
    b: Builder, conv: Convolution, block: PixelBlock, x: Layout
) -> dict[str, int] | None:
    """The constants of conv_patch.glsl for this convolution; None if conv.glsl is used."""
    if not b.target.fast_kernels:
        return None
    window = conv.window.as_2d()
    (kh, kw), (sy, sx) = window.kernel, window.strides
    if (
        len(channel_group_ranges(-(-conv.group_channels[0] // 4), math.prod(conv.window.kernel)))
        > 1
    ):
        return None
    is_point = (
        (kh, kw, sy, sx) == (1, 1, 1, 1)
        and not any(window.pads_begin + window.pads_end)
        and (x.block, x.phases) == (block, (1, 1))
        and not x.max_side
        and not conv.transposed
        and not conv.is_depthwise
    )
    reads_patches = block == (1, 2, 2) and x.border and window.dilations == (1, 1) and sy == sx
    if not conv.is_dense or not (is_point or reads_patches):
        return None
    in_groups = -(-conv.group_channels[0] // 4)
    structure = {
        "PLAIN": int(x.phases == (1, 1)),
        "GROUPED": int(conv.groups > 1),
        "SINGLE": int(in_groups == 1),
        "LANES": min(conv.group_channels[0], 4),
        "RUNS": _group_loop_mode(x, in_groups),
        "POINT": int(is_point),
    }
    if conv.transposed:
        if kh % sy or kw % sx or max(kh // sy, kw // sx) > 3:
            return None
        taps = {"TAPS_Y": kh // sy, "TAPS_X": kw // sx}
        return {**taps, "STEP": 1, "EVERY": 1, "MORE_ROWS": 0, **structure}
    if sy > 2 or kw > 7:
        return None

    # Unrolling pays while a loop body has fewer than about 60 reads; compile time grows with it.
    def fits(rows: int, every: int) -> bool:
        return rows <= 3 and (rows + sy // every) * (kw + sx) + 4 * rows * kw <= 64

    if kh > 1 and fits(kh, 1):
        rows, every = kh, 1
    elif sy == 2 and kh % 2 == 0 and fits(kh // 2, 2):
        rows, every = kh // 2, 2
    else:
        rows, every = 1, sy
    taps = {"TAPS_Y": rows, "TAPS_X": kw, "STEP": sy, "EVERY": every}
    return {**taps, "MORE_ROWS": int(kh > rows), **structure}


def _group_loop_mode(x: Layout, groups: int) -> int:
    """The mode of conv_patch.glsl's loop over the channel groups of `x` that a pixel needs.

    If the map's width is a power of two, one row of tiles holds all groups. Other sizes take one
    row or more, depending on how they split best. A single program for all these sizes compiles
    sooner.
    """
    if groups > COLUMN_GROUPS:
        return 2
    width = x.nchw[3]
    one_row = x.tiles <= x.columns or x.columns % groups == 0
    return int(groups > 1 and not (one_row and width & (width - 1) == 0))


def _bias_tensor(b: Builder, conv: Convolution, bias: str, factor: float) -> Tensor:
    norm = b.epilogue(conv.node).normalization
    layout = Layout((1, conv.output_channels, 1, 1))
    own = (bias,) if bias else ()
    if norm is not None:
        options: dict[str, object] = {
            "epsilon": float_attr(norm, "epsilon", 1e-5),
            "has_bias": bool(bias),
            "factor": factor,
        }
        return Tensor(
            b.weight_texture(PackingRecipe("bias", (*own, *norm.inputs[1:5]), options)), layout
        )
    if not bias:
        return b.zero_tensor()
    if b.constant_data(bias) is None:
        return b.tensor(bias, layout.nchw)
    return Tensor(b.weight_texture(PackingRecipe("bias", own, {"factor": factor})), layout)


def _optional_input(node: Node, position: int) -> str:
    return node.inputs[position] if has_input(node, position) else ""


def _kernel_shape(facts: KnownValues, node: Node) -> Shape:
    return int_list_attr(node, "kernel_shape", facts.shape(node.inputs[1])[2:])


def _conv_window(facts: KnownValues, node: Node) -> SlidingWindow:
    return sliding_window(facts, node, facts.shape(node.inputs[1])[2:])


def _transposed_window(facts: KnownValues, node: Node) -> SlidingWindow:
    return transposed_window(facts, node, facts.shape(node.inputs[1])[2:])


def _conv_problem(facts: KnownValues, node: Node) -> str | None:
    x, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if len(x) != len(w) or len(x) < 3:
        return f"input of shape {x} with a weight of shape {w}"
    if problem := window_problem(facts, node, _kernel_shape(facts, node)):
        return problem
    groups = int_attr(node, "group", 1)
    inner, outer = (w[0], w[1] * groups) if node.op == "ConvTranspose" else (w[1] * groups, w[0])
    if groups < 1 or inner != x[1] or outer % groups or x[1] % groups:
        return f"group={groups} with an input of {x[1]} channels and a weight of shape {w}"
    if _kernel_shape(facts, node) != w[2:]:
        return f"kernel_shape={_kernel_shape(facts, node)} with a weight of shape {w}"
    each_in, each_out = inner // groups, outer // groups
    apart = groups > 1 and (each_in % 4 or each_out % 4) and (each_in, each_out) != (1, 1)
    if (elements := math.prod(w[2:]) * (each_in if apart else 1)) > MAX_KERNEL_ELEMENTS:
        each = " times the channels of a group" if apart else ""
        return (
            f"a kernel of {w[2:]}{each} has {elements:,} elements; at most {MAX_KERNEL_ELEMENTS:,}"
        )
    # grouped_conv.glsl has a loop over a group's channels for each of four pixels. conv.glsl has
    # two loops over the channels that one pass sums, at least one group of four channels.
    turns = 4 * loop_iterations(*w[2:], each_in) if apart else loop_iterations(*w[2:], 1, 1)
    if problem := loop_problem(turns):
        return f"a kernel of {w[2:]}: {problem}"
    if node.op == "Conv" and (problem := auto_pad_problem(facts, node, w[2:])):
        return problem
    rule = transposed_window if node.op == "ConvTranspose" else sliding_window
    if min(rule(facts, node, w[2:]).output_shape) < 1:
        return f"an input of {x[2:]} is smaller than its kernel {w[2:]}"
    return None


def _conv_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    x, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    return [(x[0], w[0], *_conv_window(facts, node).output_shape)]


def _lower_conv(b: Builder, node: Node) -> None:
    x, w = b.shape(node.inputs[0]), b.shape(node.inputs[1])
    window = _conv_window(b, node)
    conv = Convolution(
        node, storage_nchw(x), window, int_attr(node, "group", 1), w[0], storage_nchw(w)
    )
    draw_convolution(b, conv, _optional_input(node, 2))


def _transposed_shape(facts: KnownValues, node: Node) -> Sequence[Shape]:
    x, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    channels = w[1] * int_attr(node, "group", 1)
    return [(x[0], channels, *_transposed_window(facts, node).output_shape)]


def _lower_transposed(b: Builder, node: Node) -> None:
    x, w = b.shape(node.inputs[0]), b.shape(node.inputs[1])
    groups = int_attr(node, "group", 1)
    window = _transposed_window(b, node)
    channels = w[1] * groups
    conv = Convolution(
        node, storage_nchw(x), window, groups, channels, storage_nchw(w), transposed=True
    )
    draw_convolution(b, conv, _optional_input(node, 2))


def _conv_macs(facts: KnownValues, node: Node) -> int:
    w = facts.shape(node.inputs[1])
    map_of = node.inputs[0] if node.op == "ConvTranspose" else node.outputs[0]
    n, _, *spatial = facts.shape(map_of)
    return n * math.prod(w) * math.prod(spatial)


WINDOW_ATTRIBUTES = {
    "auto_pad": one_of("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "dilations": any_value,
    "group": any_value,
    "kernel_shape": any_value,
    "pads": any_value,
    "strides": any_value,
}

OPERATORS = [
    Operator(
        "Conv",
        "Slides filters over the input: each output is the sum of products under one, plus a bias.",
        _conv_shape,
        _lower_conv,
        WINDOW_ATTRIBUTES,
        _conv_problem,
        _conv_macs,
        window=_conv_window,
        role="head",
        receptive_field=window_fields(_conv_window),
        explanation="convolution",
        formula=None,
        bounds=None,
        caption=None,
        shape_inputs=(),
        gradient=conv_gradient,
    ),
    Operator(
        "ConvTranspose",
        "Transposed convolution: each input pixel adds its scaled filter to the output.",
        _transposed_shape,
        _lower_transposed,
        {**WINDOW_ATTRIBUTES, "output_padding": any_value, "output_shape": any_value},
        _conv_problem,
        _conv_macs,
        window=_transposed_window,
        role="resamples",
        receptive_field=window_fields(_transposed_window, transposed=True),
        explanation="transposed convolution",
        formula=None,
        bounds=None,
        caption="ConvT",
        shape_inputs=(),
        gradient=conv_transpose_gradient,
    ),
]
