"""Convolutions: Conv and ConvTranspose, and what Gemm shares with them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nbglcnn.builder import Builder, Tensor, best_block
from nbglcnn.glsl import Kernel, shader
from nbglcnn.graph import Node
from nbglcnn.layout import Frame, Layout, frame_of
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    has_input,
    integer,
    integers,
    number,
    only,
)
from nbglcnn.ops.pointwise import activation_of
from nbglcnn.ops.window import Window, sliding, transposed, window_problem
from nbglcnn.plan import Recipe

EPILOGUE = shader("epilogue.glsl")
DENSE = Kernel("conv", "\n".join([EPILOGUE, shader("conv.glsl")]), pixel=False)
PATCH = Kernel("conv_patch", "\n".join([EPILOGUE, shader("conv_patch.glsl")]), pixel=False)
GROUPED = Kernel(
    "grouped", "\n".join([EPILOGUE, shader("grouped.glsl"), shader("sums.glsl")]), pixel=False
)


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution to be drawn: the input's frame, the window, how weights are packed."""

    node: Node
    x: Frame
    window: Window
    groups: int
    channels: int  # of the output
    kernel_shape: Shape  # 4-D shape of the weight as the packer should see it
    transposed: bool = False
    packing: Mapping[str, object] = field(default_factory=dict)


def draw_convolution(b: Builder, conv: Convolution, bias: str, factor: float = 1.0) -> None:
    """Add the pass of a convolution with what was fused behind it; `factor` multiplies the bias."""
    node, window = conv.node, conv.window.plane()
    epilogue = b.epilogue(node)
    n, c = conv.x[0], conv.x[1]
    height, width = window.output
    frame: Frame = (n, conv.channels, height, width)
    sy, sx = window.strides if conv.transposed else (1, 1)
    block = best_block((n, conv.channels, -(-height // sy), -(-width // sx)))
    x = b.tensor(node.inputs[0], conv.x)
    if block[0] > 1 and x.layout.block[0] != block[0]:
        # Images that share a texel stack must do so in the input as well.
        if conv.x[2:] == (1, 1):
            x = b.tensor(node.inputs[0], conv.x, block)
        else:
            block = (1, 1, 1)
    output = b.output(epilogue.value, Layout(frame, block, (sy, sx)))

    norm = epilogue.normalization
    options: dict[str, object] = {**conv.packing, "shape": conv.kernel_shape}
    sources = [node.inputs[1]]
    if norm is not None:
        sources += [norm.inputs[1], norm.inputs[4]]
        options["epsilon"] = number(norm, "epsilon", 1e-5)
    if conv.transposed:
        options["transposed_groups"] = conv.groups
    residual = b.tensor(epilogue.residual, frame) if epilogue.residual else b.blank()
    inputs = [x, _bias(b, conv, bias, factor), residual]
    constants = {
        "TRANSPOSED": int(conv.transposed),
        "BIAS": int(bool(bias) or norm is not None),
        "RESIDUAL": int(bool(epilogue.residual)),
    }
    function, floats = activation_of(b, epilogue.activation)
    taps = math.prod(window.kernel)
    numbers = [*window.kernel, *window.strides, *window.dilations, *window.begins]
    each_in, each_out = c // conv.groups, conv.channels // conv.groups
    if conv.groups == 1 or (each_in % 4 == 0 and each_out % 4 == 0):
        weight = b.weight(Recipe("conv", tuple(sources), options))
        in_groups, out_groups = -(-each_in // 4), -(-conv.channels // 4)
        per_group = out_groups // conv.groups if conv.groups > 1 else out_groups
        patch = _patch(conv, block, in_groups)
        b.draw(
            DENSE if patch is None else PATCH, output, inputs, [weight],
            integers=[*numbers, in_groups, per_group, taps, out_groups * taps],
            floats=floats, constants={**constants, **(patch or {})}, parts=[function],
            fetches=8 * in_groups * taps // (sy * sx) + 8,
        )  # fmt: skip
        return
    depthwise = each_in == each_out == 1
    weight = b.weight(Recipe("depthwise" if depthwise else "grouped", tuple(sources), options))
    kernel_frame: Frame = (each_in, conv.channels, window.kernel[0], window.kernel[1])
    inputs.append(Tensor(weight, Layout(kernel_frame)))
    b.draw(
        GROUPED, output, inputs,
        integers=[*numbers, each_in, each_out],
        floats=floats, constants={**constants, "DEPTHWISE": int(depthwise)}, parts=[function],
        fetches=4 * taps * (2 if depthwise else 5 * each_in) // (sy * sx) + 8,
    )  # fmt: skip


def _patch(conv: Convolution, block: tuple[int, int, int], in_groups: int) -> dict[str, int] | None:
    """The structure of conv_patch.glsl's program here; None where conv.glsl is used."""
    window = conv.window.plane()
    (kh, kw), (sy, sx) = window.kernel, window.strides
    if block != (1, 2, 2) or window.dilations != (1, 1) or sy != sx:
        return None
    single = {"SINGLE": int(in_groups == 1)}
    if conv.transposed:
        if kh % sy or kw % sx or max(kh // sy, kw // sx) > 3:
            return None
        return {"TAPS_Y": kh // sy, "TAPS_X": kw // sx, "STEP": 1, **single}
    if sy > 2 or kw > 7 or (kh, kw) == (1, 1):
        return None
    # Unrolling pays while a body stays under about 60 reads; compile time grows with it.
    rows = kh if kh <= 3 and (kh + sy) * (kw + sx) + 4 * kh * kw <= 64 else 1
    return {"TAPS_Y": rows, "TAPS_X": kw, "STEP": sy, **single}


def _bias(b: Builder, conv: Convolution, bias: str, factor: float) -> Tensor:
    norm = b.epilogue(conv.node).normalization
    layout = Layout((1, conv.channels, 1, 1))
    own = (bias,) if bias else ()
    if norm is not None:
        options: dict[str, object] = {
            "epsilon": number(norm, "epsilon", 1e-5),
            "has_bias": bool(bias),
            "factor": factor,
        }
        return Tensor(b.weight(Recipe("bias", (*own, *norm.inputs[1:5]), options)), layout)
    if bias:
        return Tensor(b.weight(Recipe("bias", own, {"factor": factor})), layout)
    return b.blank()


def _optional(node: Node, position: int) -> str:
    return node.inputs[position] if has_input(node, position) else ""


def _kernel(facts: Facts, node: Node) -> Shape:
    return integers(node, "kernel_shape", facts.shape(node.inputs[1])[2:])


def _conv_problem(facts: Facts, node: Node) -> str | None:
    x, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if len(x) != len(w) or len(x) < 3:
        return f"input of shape {x} with a weight of shape {w}"
    if facts.constant(node.inputs[1]) is None or (
        has_input(node, 2) and facts.constant(node.inputs[2]) is None
    ):
        return "its weight or bias is computed while the network runs; they must be constants"
    if problem := window_problem(facts, node, _kernel(facts, node)):
        return problem
    groups = integer(node, "group", 1)
    inner, outer = (w[0], w[1] * groups) if node.op == "ConvTranspose" else (w[1] * groups, w[0])
    if groups < 1 or inner != x[1] or outer % groups or x[1] % groups:
        return f"group={groups} with an input of {x[1]} channels and a weight of shape {w}"
    if _kernel(facts, node) != w[2:]:
        return f"kernel_shape={_kernel(facts, node)} with a weight of shape {w}"
    rule = transposed if node.op == "ConvTranspose" else sliding
    if min(rule(facts, node, w[2:]).output) < 1:
        return f"an input of {x[2:]} is smaller than its kernel {w[2:]}"
    return None


def _conv_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    x, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    return [(x[0], w[0], *sliding(facts, node, w[2:]).output)]


def _conv(b: Builder, node: Node) -> None:
    x, w = b.shape(node.inputs[0]), b.shape(node.inputs[1])
    kernel = w if len(w) == 4 else (w[0], w[1], 1, w[2])
    window = sliding(b, node, w[2:])
    conv = Convolution(node, frame_of(x), window, integer(node, "group", 1), w[0], kernel)
    draw_convolution(b, conv, _optional(node, 2))


def _transposed_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    x, w = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    channels = w[1] * integer(node, "group", 1)
    return [(x[0], channels, *transposed(facts, node, w[2:]).output)]


def _transposed(b: Builder, node: Node) -> None:
    x, w = b.shape(node.inputs[0]), b.shape(node.inputs[1])
    groups = integer(node, "group", 1)
    kernel = w if len(w) == 4 else (w[0], w[1], 1, w[2])
    window = transposed(b, node, w[2:])
    conv = Convolution(node, frame_of(x), window, groups, w[1] * groups, kernel, transposed=True)
    draw_convolution(b, conv, _optional(node, 2))


def _conv_macs(facts: Facts, node: Node) -> int:
    w = facts.shape(node.inputs[1])
    map_of = node.inputs[0] if node.op == "ConvTranspose" else node.outputs[0]
    n, _, *spatial = facts.shape(map_of)
    return n * math.prod(w) * math.prod(spatial)


WINDOW = {
    "auto_pad": only("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "dilations": anything,
    "group": anything,
    "kernel_shape": anything,
    "pads": anything,
    "strides": anything,
}

OPERATORS = [
    Operator(
        "Conv",
        "Slides filters over the input: each output is the sum of products under one, plus a bias.",
        _conv_shape,
        _conv,
        WINDOW,
        _conv_problem,
        _conv_macs,
    ),
    Operator(
        "ConvTranspose",
        "A convolution's transpose: each input pixel stamps its filter into the output.",
        _transposed_shape,
        _transposed,
        {**WINDOW, "output_padding": anything, "output_shape": anything},
        _conv_problem,
        _conv_macs,
    ),
]
