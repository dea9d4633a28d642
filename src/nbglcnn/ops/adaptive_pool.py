"""Adaptive pools, operators of nbglcnn's own: maps cut into so many shares, which may overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import Kernel, rounds, shader, too_long
from nbglcnn.graph import Array, Node
from nbglcnn.ops.movement_gradient import by_matrix
from nbglcnn.ops.operator import Facts, Gradient, Operator, Shape, anything, integers
from nbglcnn.ops.reach import Linked, first, listed, same
from nbglcnn.ops.rules import Rules
from nbglcnn.ops.window import three
from nbglcnn.plan.layout import EXACT
from nbglcnn.plan.schema import Explains

KERNEL = Kernel(
    "adaptive_pool",
    "".join(
        shader(f"{part}.glsl") for part in ("nan", "shares", "adaptive_pool", "pixels")
    ),
    pixel=False, slots="ivec3 size, places",
)  # fmt: skip
LARGEST, MEAN, PLACE = range(3)  # adaptive_pool.glsl's KIND
KIND_OF = {"AdaptiveMaxPool": LARGEST, "AdaptiveAveragePool": MEAN}
MOST_AT_ONCE = 4096  # pixels of a share that one pass goes through; else axis by axis
MOST_PRODUCT = 2**30  # of an axis and its shares: shares.glsl multiplies them


def share(place: int, size: int, places: int) -> range:
    """The pixels of one of the shares of an axis, as PyTorch cuts it."""
    return range(place * size // places, -(-(place + 1) * size // places))


def longest(size: int, places: int) -> int:
    """Of how many pixels a share is at most."""
    return max(len(share(place, size, places)) for place in range(min(places, size)))


def windows_problem(spatial: Shape, places: Shape) -> str | None:
    """Why one fragment cannot look through a whole share, or None."""
    sides = [longest(n, m) for n, m in zip(spatial, places, strict=True)]
    if problem := too_long(2 + rounds(*three(tuple(sides), 1))):
        return f"shares of {tuple(sides)} pixels: {problem}"
    return None


def _places(node: Node) -> Shape:
    return integers(node, "output_size", ())


def _shapes(facts: Facts, node: Node) -> Sequence[Shape]:
    n, c, *_ = facts.shape(node.inputs[0])
    return [(n, c, *_places(node))] * len(node.outputs)


def _problem(facts: Facts, node: Node) -> str | None:
    """Maps, lines and volumes."""
    shape, places = facts.shape(node.inputs[0]), _places(node)
    spatial = shape[2:]
    if len(spatial) not in (1, 2, 3) or len(places) != len(spatial) or min(places) < 1:
        return f"an input of shape {shape} for an output of {places}"
    for n, m in zip(spatial, places, strict=True):
        if n * m > MOST_PRODUCT:
            return f"an axis of {n:,} for {m:,} places; at most {MOST_PRODUCT:,} as a product"
        if problem := windows_problem((n,), (m,)):
            return problem
    if not _with_indices(node):
        return None
    if math.prod(spatial) > EXACT:
        return f"indices into maps of {math.prod(spatial):,} elements; at most {EXACT:,}"
    return windows_problem(spatial, places)


def _with_indices(node: Node) -> bool:
    return len(node.outputs) > 1 and bool(node.outputs[1])


def _draw(b: Builder, node: Node) -> None:
    x, kind = b.tensor(node.inputs[0]), KIND_OF[node.op]
    size, places = (three(sides, 1) for sides in (b.shape(node.inputs[0])[2:], _places(node)))
    pooled = x
    if math.prod(map(longest, size, places)) <= MOST_AT_ONCE:
        pooled = _pooled(b, x, kind, size, places)
    else:
        # One axis after the other: hundreds of rounds of a fragment instead of their product.
        for axis in (2, 1, 0):
            made = (*size[:axis], *places[axis:])
            pooled = _pooled(b, pooled, kind, (*size[: axis + 1], *places[axis + 1 :]), made)
    b.bind(node.outputs[0], pooled)
    if _with_indices(node):
        b.bind(node.outputs[1], indices_of(b, x, size, places))


def _pooled(b: Builder, x: Tensor, kind: int, size: Shape, places: Shape) -> Tensor:
    """A pass over maps of this size, of so many shares each."""
    sides = [longest(n, m) for n, m in zip(size, places, strict=True)]
    n, c, *_ = x.layout.nchw
    layout = b.layout((n, c, places[0] * places[1], places[2]))
    if too_long(1 + math.prod(layout.block) * (1 + rounds(*sides))):
        layout = b.layout(layout.nchw, (1, 1, 1))
    output = b.scratch(layout)
    b.draw(
        KERNEL, output, [x], numbers={"size": size, "places": places}, constants={"KIND": kind},
        fetches=math.prod(layout.block) * math.prod(sides),
    )  # fmt: skip
    return output


def indices_of(b: Builder, x: Tensor, size: Shape, places: Shape) -> Tensor:
    """Where in its map the first of the largest elements of each share is."""
    return _pooled(b, x, PLACE, size, places)


def _linked(facts: Facts, node: Node, position: int) -> Linked:
    source, shape = facts.shape(node.inputs[0]), facts.shape(node.outputs[position])
    links = [
        listed(axis, m, n, partial(_shares, n, m))
        for axis, (n, m) in enumerate(zip(source[2:], shape[2:], strict=True), 2)
    ]
    return Linked(shape, source, (same(0), same(1), *links))


def _shares(size: int, places: int) -> list[range]:
    return [share(place, size, places) for place in range(places)]


def _of_means(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """AdaptiveAveragePool: each share gives all of its pixels as much, axis by axis."""
    found = dy[0]
    for axis, size in enumerate(rules.shape(node.inputs[0])):
        places = rules.shape(dy[0])[axis]
        if axis < 2 or size == places:
            continue
        matrix: Array = np.zeros((size, places), np.float32)
        for place, pixels in enumerate(_shares(size, places)):
            matrix[pixels.start : pixels.stop, place] = 1 / len(pixels)
        found = by_matrix(rules, found, axis, matrix)
    return [found]


def _of_largest(rules: Rules, node: Node, dy: Sequence[str]) -> Sequence[str]:
    """AdaptiveMaxPool: the first of the largest elements of a share has its gradient."""
    x, y = node.inputs[0], node.outputs[0]
    return [rules.node("MaxPoolGradient", x, y, dy[0], output_size=_places(node))]


def _adaptive(name: str, doc: str, explains: Explains, short: str, gradient: Gradient) -> Operator:
    return Operator(
        name, doc, _shapes, _draw, {"output_size": anything}, _problem,
        role="resamples", reach=first(_linked), explains=explains, formula=None, bounds=None,
        short=short, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


OPERATORS = [
    _adaptive("AdaptiveAveragePool", "The mean of each of so many shares of a map.", "mean pool",
              "AvgPool", _of_means),
    _adaptive("AdaptiveMaxPool", "The largest element of each of so many shares of a map.",
              "max pool", "MaxPool", _of_largest),
]  # fmt: skip
