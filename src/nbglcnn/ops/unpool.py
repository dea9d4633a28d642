"""MaxUnpool: puts what a MaxPool kept back to where it was, by the pool's indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import rounds, too_long
from nbglcnn.graph import Graph, Node
from nbglcnn.ops import pool_gradient as gradients
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    constant_integers,
    has_input,
    integer,
    integers,
    text,
)
from nbglcnn.ops.reach import Linked, everything, same
from nbglcnn.ops.strided import PLACES, by_element
from nbglcnn.ops.window import three, window_problem
from nbglcnn.plan.layout import EXACT

UNPOOL = by_element("unpool", "ivec3 size, kernel, stride, padding; int height, count, rows")
MOST_READS = 2**26  # where every output element looks through all indices; a second or so


def _attributes(facts: Facts, node: Node) -> tuple[Shape, Shape, Shape]:
    rank = len(facts.shape(node.inputs[0])) - 2
    return (
        integers(node, "kernel_shape", ()),
        integers(node, "strides", (1,) * rank),
        integers(node, "pads", (0,) * 2 * rank),
    )


def _counted(facts: Facts, node: Node) -> Shape:
    """The shape in which the indices count: that of the pool's input."""
    n, c, *spatial = facts.shape(node.inputs[0])
    kernel, strides, pads = _attributes(facts, node)
    rank = len(spatial)
    return (
        n,
        c,
        *(
            (d - 1) * s + k - before - after
            for d, s, k, before, after in zip(
                spatial, strides, kernel, pads[:rank], pads[rank:], strict=True
            )
        ),
    )


def _shapes(facts: Facts, node: Node) -> Sequence[Shape]:
    return [constant_integers(facts, node, 2) or _counted(facts, node)]


def _problem(facts: Facts, node: Node) -> str | None:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if problem := window_problem(facts, node, integers(node, "kernel_shape", ())):
        return problem
    if indices != shape:
        return f"indices of shape {indices} for an input of shape {shape}"
    if has_input(node, 2) and facts.constant(node.inputs[2]) is None:
        return "its output_shape is computed while the network runs; it must be constant"
    counted, (output,) = _counted(facts, node), _shapes(facts, node)
    if len(output) != len(counted) or output[:2] != counted[:2]:
        return f"output_shape={output} for an input of shape {shape}"
    if min(counted) < 1 or any(o < c for o, c in zip(output, counted, strict=True)):
        return f"output_shape={output}, which is smaller than {counted}, where the indices count"
    if math.prod(counted) > EXACT:
        return f"indices into {math.prod(counted)} elements; at most {EXACT} are supported"
    count = math.prod(shape)
    many = count > PLACES or count * math.prod(output) > MOST_READS
    if isinstance(facts, Graph) and many and not _pooled(facts, node):
        return (
            f"indices that no MaxPool with the same window gives: each of {math.prod(output)} "
            f"elements would look through all {count} of them"
        )
    if isinstance(facts, Graph) and _pooled(facts, node):
        kernel, strides, _ = _attributes(facts, node)
        reach = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
        if problem := too_long(16 * rounds(*reach)):
            return f"windows of {kernel} with strides {strides}: {problem}"
    return None


def _pooled(graph: Graph, node: Node) -> bool:
    """Whether the indices are those of a MaxPool with the same window."""
    for pool in graph.nodes:
        if pool.op == "MaxPool" and pool.outputs[1:] == (node.inputs[1],):
            return (
                graph.shape(pool.inputs[0]) == _counted(graph, node)
                and _attributes(graph, pool) == _attributes(graph, node)
                and set(integers(pool, "dilations", (1,))) == {1}
                and text(pool, "auto_pad", "NOTSET") == "NOTSET"
                and not integer(pool, "storage_order", 0)
            )
    return False


def _reach(facts: Facts, node: Node, position: int) -> Sequence[Linked | None]:
    """Anywhere in the same map where the indices are a MaxPool's, else anywhere."""
    found = everything(facts, node, position)
    if not (isinstance(facts, Graph) and _pooled(facts, node)):
        return found
    shape = facts.shape(node.outputs[position])
    sources = [facts.shape(name) for name in node.inputs[:2]]
    own = [Linked(shape, one, (same(0), same(1), *[None] * (len(one) - 2))) for one in sources]
    return [*own, *found[2:]]


def _draw(b: Builder, node: Node) -> None:
    x, indices = b.tensor(node.inputs[0]), b.tensor(node.inputs[1])
    kernel, strides, pads = _attributes(b, node)
    counted, spatial = _counted(b, node)[2:], b.shape(node.inputs[0])[2:]
    output = b.output(node.outputs[0])
    height = three(b.shape(node.outputs[0])[2:], 1)[1]
    windows = _pooled(b.graph, node)
    count = math.prod(b.shape(node.inputs[0]))
    b.draw(
        UNPOOL, output, [x, indices],
        numbers={
            "size": three(counted, 1), "height": three(spatial, 1)[1], "kernel": three(kernel, 1),
            "count": count, "stride": three(strides, 1), "rows": height,
            "padding": three(pads[: len(spatial)], 0),
        },
        constants={"WINDOWS": int(windows)},
        fetches=16 * (math.prod(-(-k // s) for k, s in zip(kernel, strides, strict=True))
                      if windows else count),
    )  # fmt: skip


OPERATORS = [
    Operator("MaxUnpool", "Puts the largest elements of a MaxPool's windows back, zeros around.",
             _shapes, _draw, {"kernel_shape": anything, "pads": anything, "strides": anything},
             _problem, role="resamples", reach=_reach,
             explains="nothing", formula=None, bounds=None, short=None, shape_inputs=(2,),
             gradient=gradients.unpooled(_counted)),
]  # fmt: skip
