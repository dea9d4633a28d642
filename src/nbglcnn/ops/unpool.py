"""MaxUnpool: writes the values of a MaxPool back to their positions, by the pool's indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder
from nbglcnn.codegen.glsl import loop_iterations, loop_problem
from nbglcnn.codegen.strided import MAX_LOOKUPS, per_element_shader
from nbglcnn.graph import Graph, Node
from nbglcnn.ops import pool_gradient as gradients
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    constant_ints,
    has_input,
    int_attr,
    int_list_attr,
    string_attr,
)
from nbglcnn.ops.receptive_field import OperatorField, full_fields, same_position
from nbglcnn.ops.window import pad_to_3d, window_problem
from nbglcnn.plan.layout import MAX_EXACT_INTEGER

UNPOOL_SHADER = per_element_shader(
    "unpool", "ivec3 size, kernel, stride, padding; int height, count, rows"
)
MAX_READS = 2**26  # if each output element searches all indices; about a second


def _window_attributes(facts: KnownValues, node: Node) -> tuple[Shape, Shape, Shape]:
    rank = len(facts.shape(node.inputs[0])) - 2
    return (
        int_list_attr(node, "kernel_shape", ()),
        int_list_attr(node, "strides", (1,) * rank),
        int_list_attr(node, "pads", (0,) * 2 * rank),
    )


def _indexed_shape(facts: KnownValues, node: Node) -> Shape:
    """The shape to which the indices refer: the shape of the pool's input."""
    n, c, *spatial = facts.shape(node.inputs[0])
    kernel, strides, pads = _window_attributes(facts, node)
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


def _shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
    return [constant_ints(facts, node, 2) or _indexed_shape(facts, node)]


def _problem(facts: KnownValues, node: Node) -> str | None:
    shape, indices = facts.shape(node.inputs[0]), facts.shape(node.inputs[1])
    if problem := window_problem(facts, node, int_list_attr(node, "kernel_shape", ())):
        return problem
    if indices != shape:
        return f"indices of shape {indices} for an input of shape {shape}"
    if has_input(node, 2) and facts.constant_data(node.inputs[2]) is None:
        return "its output_shape depends on the input; it must be constant"
    counted, (output,) = _indexed_shape(facts, node), _shapes(facts, node)
    if len(output) != len(counted) or output[:2] != counted[:2]:
        return f"output_shape={output} for an input of shape {shape}"
    if min(counted) < 1 or any(o < c for o, c in zip(output, counted, strict=True)):
        return (
            f"output_shape={output}, which is smaller than {counted}, the shape that the indices "
            "refer to"
        )
    if math.prod(counted) > MAX_EXACT_INTEGER:
        return (
            f"indices into {math.prod(counted)} elements; at most {MAX_EXACT_INTEGER} are supported"
        )
    count = math.prod(shape)
    many = count > MAX_LOOKUPS or count * math.prod(output) > MAX_READS
    if isinstance(facts, Graph) and many and not _has_pool_indices(facts, node):
        return (
            "its indices don't come from a MaxPool with the same window: each of "
            f"{math.prod(output)} elements would search all {count} indices"
        )
    if isinstance(facts, Graph) and _has_pool_indices(facts, node):
        kernel, strides, _ = _window_attributes(facts, node)
        reach = [-(-k // s) for k, s in zip(kernel, strides, strict=True)]
        if problem := loop_problem(16 * loop_iterations(*reach)):
            return f"windows of {kernel} with strides {strides}: {problem}"
    return None


def _has_pool_indices(graph: Graph, node: Node) -> bool:
    """Whether the indices are those of a MaxPool with the same window."""
    for pool in graph.nodes:
        if pool.op == "MaxPool" and pool.outputs[1:] == (node.inputs[1],):
            return (
                graph.shape(pool.inputs[0]) == _indexed_shape(graph, node)
                and _window_attributes(graph, pool) == _window_attributes(graph, node)
                and set(int_list_attr(pool, "dilations", (1,))) == {1}
                and string_attr(pool, "auto_pad", "NOTSET") == "NOTSET"
                and not int_attr(pool, "storage_order", 0)
            )
    return False


def _unpool_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> Sequence[OperatorField | None]:
    """Any position of the same map if the indices come from a MaxPool, else any position."""
    found = full_fields(facts, node, output_index)
    if not (isinstance(facts, Graph) and _has_pool_indices(facts, node)):
        return found
    shape = facts.shape(node.outputs[output_index])
    sources = [facts.shape(name) for name in node.inputs[:2]]
    own = [
        OperatorField(shape, one, (same_position(0), same_position(1), *[None] * (len(one) - 2)))
        for one in sources
    ]
    return [*own, *found[2:]]


def _lower(b: Builder, node: Node) -> None:
    x, indices = b.tensor(node.inputs[0]), b.tensor(node.inputs[1])
    kernel, strides, pads = _window_attributes(b, node)
    counted, spatial = _indexed_shape(b, node)[2:], b.shape(node.inputs[0])[2:]
    output = b.create_output(node.outputs[0])
    height = pad_to_3d(b.shape(node.outputs[0])[2:], 1)[1]
    windows = _has_pool_indices(b.graph, node)
    count = math.prod(b.shape(node.inputs[0]))
    b.draw(
        UNPOOL_SHADER, output, [x, indices],
        uniforms={
            "size": pad_to_3d(counted, 1), "height": pad_to_3d(spatial, 1)[1],
            "kernel": pad_to_3d(kernel, 1),
            "count": count, "stride": pad_to_3d(strides, 1), "rows": height,
            "padding": pad_to_3d(pads[: len(spatial)], 0),
        },
        constants={"WINDOWS": int(windows)},
        fetches=16 * (math.prod(-(-k // s) for k, s in zip(kernel, strides, strict=True))
                      if windows else count),
    )  # fmt: skip


OPERATORS = [
    Operator("MaxUnpool", "Writes a MaxPool's maxima to their positions; the rest is 0.",
             _shapes, _lower, {"kernel_shape": any_value, "pads": any_value, "strides": any_value},
             _problem, role="resamples", receptive_field=_unpool_receptive_fields,
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(2,),
             gradient=gradients.max_unpool_rule(_indexed_shape)),
]  # fmt: skip
