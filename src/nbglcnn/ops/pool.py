"""Pools: the largest, mean or p-norm of windows, and of whole maps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.builder import Builder
from nbglcnn.glsl import Kernel, shader
from nbglcnn.graph import Node
from nbglcnn.ops.operator import (
    Allowed,
    Facts,
    Operator,
    Shape,
    anything,
    integer,
    integers,
    only,
)
from nbglcnn.ops.reduce import KINDS, Kind, reduce_frame
from nbglcnn.ops.window import Window, sliding, window_problem

POOL = Kernel("pool", shader("pool.glsl"), pixel=False)
INDICES = Kernel("pool_indices", shader("nan.glsl") + shader("pool_indices.glsl"))
LARGEST, MEAN, NORM = range(3)  # pool.glsl's KIND
KIND_OF = {"MaxPool": LARGEST, "AveragePool": MEAN, "LpPool": NORM}
EXACT = 2**24  # float32 holds integers up to here


def _window(facts: Facts, node: Node) -> Window:
    return sliding(facts, node, integers(node, "kernel_shape", ()))


def _shapes(facts: Facts, node: Node) -> Sequence[Shape]:
    n, c, *_ = facts.shape(node.inputs[0])
    return [(n, c, *_window(facts, node).output)] * len(node.outputs)


def _problem(facts: Facts, node: Node) -> str | None:
    shape = facts.shape(node.inputs[0])
    if problem := window_problem(facts, node, integers(node, "kernel_shape", ())):
        return problem
    if min(integers(node, "pads", (0,))) < 0:
        return f"pads={integers(node, 'pads', ())}; negative ones are not supported"
    window = _window(facts, node)
    if min(window.output) < 1:
        return f"a window of {window.kernel} doesn't fit into a map of {shape[2:]}"
    if len(node.outputs) > 1 and node.outputs[1] and math.prod(shape) > EXACT:
        return f"indices into {math.prod(shape)} elements; at most {EXACT} are supported"
    return None


def _draw(b: Builder, node: Node) -> None:
    x, window, kind = b.tensor(node.inputs[0]), _window(b, node).plane(), KIND_OF[node.op]
    p = integer(node, "p", 2)
    h, w = x.layout.frame[2:]
    if window.output == (1, 1) and window.kernel == (h, w) and not any(window.begins + window.ends):
        # The whole map: in stages, so that its few results don't keep the device waiting.
        reduce_frame(b, x, (2, 3), _kind(node.op, p), numbers=[p], value=node.outputs[0])
    else:
        output = b.output(node.outputs[0])
        _, by, bx = output.layout.block
        spans = [
            (step - 1) * s + (k - 1) * d + 1
            for step, k, s, d in zip(
                (by, bx), window.kernel, window.strides, window.dilations, strict=True
            )
        ]
        numbers = [*window.kernel, *window.strides, *window.dilations, *window.begins]
        numbers += [*spans, *window.ends, integer(node, "count_include_pad", 0)]
        b.draw(
            POOL,
            output,
            [x],
            integers=numbers,
            floats=[*[0.0] * 12, float(p)],
            constants={"KIND": kind},
            parts=[shader("nan.glsl")],
            fetches=math.prod(spans),
        )
    if len(node.outputs) > 1 and node.outputs[1]:
        steps = (1, h) if integer(node, "storage_order", 0) else (w, 1)
        numbers = [*window.kernel, *window.strides, *window.dilations, *window.begins]
        b.draw(
            INDICES,
            b.output(node.outputs[1]),
            [x],
            integers=[*numbers, 0, 0, 0, 0, *steps],
            fetches=4 * math.prod(window.kernel),
        )


def _kind(op: str, p: int) -> Kind:
    """The reduction that a pool over whole maps is."""
    if op.endswith("LpPool"):
        if p in (1, 2):
            return KINDS[f"l{p}"]
        return Kind("pow(abs(v), vec4(u.f[3].y))", finish="pow(v, vec4(1.0 / u.f[3].y))")
    return KINDS["max" if op.endswith("MaxPool") else "mean"]


def _global_shapes(facts: Facts, node: Node) -> Sequence[Shape]:
    n, c, *spatial = facts.shape(node.inputs[0])
    return [(n, c, *[1] * len(spatial))]


def _global_problem(facts: Facts, node: Node) -> str | None:
    shape = facts.shape(node.inputs[0])
    return f"an input of shape {shape}; at least 3 axes are needed" if len(shape) < 3 else None


def _draw_global(b: Builder, node: Node) -> None:
    p = integer(node, "p", 2)
    x = b.tensor(node.inputs[0])
    reduce_frame(b, x, (2, 3), _kind(node.op, p), numbers=[p], value=node.outputs[0])


def _positive(value: object) -> bool:
    """A number of at least 1."""
    return isinstance(value, int) and value >= 1


SLIDING: dict[str, Allowed] = {
    "auto_pad": only("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "ceil_mode": only(0, 1),
    "dilations": anything,
    "kernel_shape": anything,
    "pads": anything,
    "strides": anything,
}


def _sliding(name: str, doc: str, **attributes: Allowed) -> Operator:
    return Operator(name, doc, _shapes, _draw, {**SLIDING, **attributes}, _problem)


def _global(name: str, doc: str, **attributes: Allowed) -> Operator:
    return Operator(name, doc, _global_shapes, _draw_global, attributes, _global_problem)


OPERATORS = [
    _sliding("MaxPool", "The largest element of each window.", storage_order=only(0, 1)),
    _sliding("AveragePool", "The mean of each window.", count_include_pad=only(0, 1)),
    _sliding("LpPool", "The p-norm of each window.", p=_positive),
    _global("GlobalMaxPool", "The largest element of each map."),
    _global("GlobalAveragePool", "The mean of each map."),
    _global("GlobalLpPool", "The p-norm of each map.", p=_positive),
]
