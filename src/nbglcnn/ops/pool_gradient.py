"""Gradients of pools: of means a transposed convolution, of the largest an operator of ours."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import Kernel, rounds, shader, too_long
from nbglcnn.graph import Array, Node
from nbglcnn.ops.adaptive_pool import indices_of, windows_problem
from nbglcnn.ops.movement_gradient import cut
from nbglcnn.ops.operator import Facts, Gradient, Operator, Shape, anything, integer, integers
from nbglcnn.ops.pool_indices import indices_in_map
from nbglcnn.ops.reach import everything
from nbglcnn.ops.rules import INT64, Rules
from nbglcnn.ops.window import SlidingWindow, sliding, three
from nbglcnn.plan.layout import EXACT, nchw_of

KERNEL = Kernel(
    "max_pool_gradient",
    shader("shares.glsl") + shader("max_pool_gradient.glsl") + shader("pixels.glsl"), pixel=False,
    slots="ivec3 kernel, stride, dilation, padding, size, places",
)  # fmt: skip
# Of windows of 2×2 pixels beside each other.
BLOCKS = Kernel("max_pool_gradient_blocks", shader("max_pool_gradient_blocks.glsl"), pixel=False)


def _window(facts: Facts, node: Node) -> SlidingWindow:
    return sliding(facts, node, integers(node, "kernel_shape", ()))


def largest(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """MaxPool: the first of the largest elements of a window has its gradient."""
    return [_to_largest(rules, node, dy[0], _window(rules, node))]


def largest_of_all(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GlobalMaxPool: the first of the largest elements of a map has its gradient."""
    n, c, *spatial = shape = rules.shape(node.inputs[0])
    count = math.prod(spatial)
    lines = rules.reshape(node.inputs[0], (n, c, count))
    place = rules.node("ArgMax", lines, dtype=INT64, axis=2, keepdims=1)
    place = rules.reshape(place, rules.shape(dy[0]), dtype=INT64)
    own = rules.array(np.arange(count, dtype=np.int64).reshape(1, 1, *shape[2:]))
    return [rules.slope(_OWN, dy[0], place, own)]


def _to_largest(rules: Rules, node: Node, dy: str, window: SlidingWindow) -> str:
    return rules.node(
        "MaxPoolGradient", node.inputs[0], node.outputs[0], dy, kernel_shape=window.kernel,
        strides=window.strides, dilations=window.dilations, pads=window.begins,
    )  # fmt: skip


def mean(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """AveragePool: each element of a window has as much as its mean counts it."""
    spatial = rules.shape(node.inputs[0])[2:]
    window, padded = _window(rules, node), integer(node, "count_include_pad", 0)
    counts: Array = np.ones((), np.float32)
    for axis, length in enumerate(spatial):
        along = _taps(window, axis, length, bool(padded))
        counts = np.multiply.outer(counts, along)
    share = rules.multiply(dy[0], rules.array((1 / counts).astype(np.float32)[None, None]))
    return [spread(rules, share, window, spatial)]


def spread(rules: Rules, share: str, window: SlidingWindow, spatial: Shape) -> str:
    """What each window gives to all of its elements, summed: (n, c, *spatial)."""
    channels = rules.shape(share)[1]
    ones = rules.filled((channels, 1, *window.kernel), 1)
    full = tuple(
        s * (o - 1) + d * (k - 1) + 1
        for s, o, d, k in zip(
            window.strides, window.output, window.dilations, window.kernel, strict=True
        )
    )
    left = [f - b - n for f, b, n in zip(full, window.begins, spatial, strict=True)]
    return rules.node(
        "ConvTranspose", share, ones, group=channels, strides=window.strides,
        dilations=window.dilations, pads=(*window.begins, *(max(0, n) for n in left)),
        output_padding=tuple(max(0, -n) for n in left),
    )  # fmt: skip


def _taps(window: SlidingWindow, axis: int, length: int, padded: bool) -> Array:
    """How many elements each mean along an axis counts."""
    begin, end = window.begins[axis], window.ends[axis]
    taps = np.arange(window.kernel[axis]) * window.dilations[axis]
    at = np.arange(window.output[axis])[:, None] * window.strides[axis] - begin + taps
    least, most = (-begin, length + end) if padded else (0, length)
    counted: Array = ((at >= least) & (at < most)).sum(1).astype(np.float64)
    return counted


def mean_of_all(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """GlobalAveragePool: a share each."""
    shape = rules.shape(node.inputs[0])
    return [rules.expand(rules.scale(dy[0], 1 / math.prod(shape[2:])), shape)]


def norm(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """LpPool: y = (Σ |x|^p)^(1/p); 0 where there is no length."""
    x, y = node.inputs[0], node.outputs[0]
    p = float(integer(node, "p", 2))
    share = rules.slope(_OF_NORM, dy[0], y, p=p)
    if node.op == "GlobalLpPool":
        whole = rules.expand(share, rules.shape(x))
    else:
        whole = spread(rules, share, _window(rules, node), rules.shape(x)[2:])
    return [rules.slope(_OF_ELEMENT, whole, x, p=p)]


def unpooled(counted: Callable[[Facts, Node], Shape]) -> Gradient:
    """A rule of a MaxUnpool whose indices count in this shape: each input reads its place.

    As in PyTorch one that another has replaced there does so, too.
    """

    def rule(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
        places = dy[0]
        for axis, length in enumerate(counted(rules, node)):
            places = cut(rules, places, axis, 0, length)
        flat = rules.reshape(places, (rules.count(places),))
        found = rules.node("Gather", flat, node.inputs[1], axis=0)
        return [found, *[""] * (len(node.inputs) - 1)]

    return rule


_OWN = "return select(equal(b, c), a, vec4(0.0));"
_OF_NORM = (
    "return select(equal(b, vec4(0.0)), vec4(0.0),"
    " a * (u_p == 1.0 ? vec4(1.0) : u_p == 2.0 ? 1.0 / b : pow(b, vec4(1.0 - u_p))));"
)
_OF_ELEMENT = (
    "return a * sign(b) * (u_p == 1.0 ? vec4(1.0) : u_p == 2.0 ? abs(b)"
    " : pow(abs(b), vec4(u_p - 1.0)));"
)


# The operator.


def _shapes(facts: Facts, node: Node) -> list[Shape]:
    return [facts.shape(node.inputs[0])]


def _sliding(node: Node) -> tuple[Shape, Shape, Shape, Shape]:
    """Kernel, strides, dilations and padding before, over depth, rows and columns."""
    names = (("kernel_shape", 1), ("strides", 1), ("dilations", 1), ("pads", 0))
    kernel, strides, dilations, begins = (
        three(integers(node, name, ()), filling) for name, filling in names
    )
    return kernel, strides, dilations, begins


def _reached(facts: Facts, node: Node) -> Shape:
    """How many windows along each axis reach a pixel, at most."""
    spatial, places = (three(facts.shape(name)[2:], 1) for name in node.inputs[:2])
    if "output_size" in node.attributes:
        return tuple(-(-m // n) + 1 for n, m in zip(spatial, places, strict=True))
    kernel, strides, dilations, _ = _sliding(node)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    each = zip(spans, strides, places, strict=True)
    return tuple(min(-(-span // stride), m) for span, stride, m in each)


def _problem(facts: Facts, node: Node) -> str | None:
    """Each fragment goes through a window, and then through all that reach a pixel."""
    shape, places = (facts.shape(name) for name in node.inputs[:2])
    if math.prod(shape[2:]) > EXACT:
        return f"indices into maps of {math.prod(shape[2:]):,} elements; at most {EXACT:,}"
    if problem := too_long(_ALONE + rounds(*_reached(facts, node))):
        return f"{_reached(facts, node)} windows reach a pixel: {problem}"
    if "output_size" in node.attributes:
        return windows_problem(shape[2:], places[2:])
    kernel = integers(node, "kernel_shape", ())
    if problem := too_long(rounds(*kernel)):
        return f"a window of {kernel}: {problem}"
    return None


_ALONE = 6  # rounds of the other loops of a fragment of one pixel


def _lower(b: Builder, node: Node) -> None:
    x, y, dy = (b.tensor(name) for name in node.inputs)
    shape = b.shape(node.inputs[0])
    spatial, places = (three(b.shape(name)[2:], 1) for name in node.inputs[:2])
    adaptive = "output_size" in node.attributes
    layout = b.layout(nchw_of(shape))
    kernel, strides, dilations, begins = _sliding(node)
    beside = (kernel, dilations, begins) == (strides, (1, 1, 1), (0, 0, 0))
    inside = all(o * s <= n for o, s, n in zip(places, strides, spatial, strict=True))
    plain = (layout.block, layout.phases) == ((1, 2, 2), (1, 1)) and not adaptive
    if beside and inside and kernel == (1, 2, 2) and plain and x.layout == layout:
        b.draw(BLOCKS, b.output(node.outputs[0], layout), [x, y, dy], fetches=6)
        return
    if adaptive:
        index = indices_of(b, x, spatial, places)
    else:
        pooled, sides = b.shape(node.inputs[1]), len(shape) - 2
        window = SlidingWindow(
            kernel[-sides:], strides[-sides:], dilations[-sides:], begins[-sides:],
            begins[-sides:], pooled[2:],
        )  # fmt: skip
        index = indices_in_map(b, x, window, shape[2:], nchw_of(pooled))
    reached = _reached(b, node)
    if too_long(math.prod(layout.block) * (_ALONE + rounds(*reached))):
        layout = b.layout(layout.nchw, (1, 1, 1))
    b.draw(
        KERNEL, b.output(node.outputs[0], layout), [index, dy],
        numbers={
            "kernel": kernel, "stride": strides, "dilation": dilations, "padding": begins,
            "size": spatial, "places": places,
        },
        constants={"ADAPTIVE": int(adaptive)},
        fetches=2 * math.prod(layout.block) * math.prod(reached),
    )  # fmt: skip


OPERATORS = [
    Operator(
        "MaxPoolGradient", "The gradient of a pool of largest elements.", _shapes, _lower,
        {"kernel_shape": anything, "strides": anything, "dilations": anything, "pads": anything,
         "output_size": anything},
        _problem, role="head", reach=everything, explains="nothing", formula=None, bounds=None,
        short=None, shape_inputs=(), gradient="it is itself part of a gradient",
    )
]  # fmt: skip
