"""Pools: the largest, mean or p-norm of windows, and of whole maps."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import ROUNDS, Kernel, rounds, shader, too_long
from nbglcnn.codegen.slots import Number
from nbglcnn.graph import Node
from nbglcnn.ops import pool_gradient as gradients
from nbglcnn.ops.operator import (
    Allowed,
    Facts,
    Gradient,
    Operator,
    Shape,
    anything,
    integer,
    integers,
    only,
    positive,
)
from nbglcnn.ops.pool_indices import draw_indices
from nbglcnn.ops.reach import mixing, windowed
from nbglcnn.ops.reduce import KINDS, Kind, reduce_frame
from nbglcnn.ops.window import SLOTS, SlidingWindow, left_out, sliding, window_problem
from nbglcnn.plan.layout import EXACT, nchw_of
from nbglcnn.plan.schema import Explains

POOL = Kernel("pool", shader("depth.glsl") + shader("pool.glsl"), pixel=False,
    slots=f"{SLOTS}; ivec3 behind; int counts; float p")  # fmt: skip
LARGEST, MEAN, NORM = range(3)  # pool.glsl's KIND
KIND_OF = {"MaxPool": LARGEST, "AveragePool": MEAN, "LpPool": NORM}


def _window(facts: Facts, node: Node) -> SlidingWindow:
    return sliding(facts, node, integers(node, "kernel_shape", ()))


def _shapes(facts: Facts, node: Node) -> Sequence[Shape]:
    n, c, *_ = facts.shape(node.inputs[0])
    return [(n, c, *_window(facts, node).output)] * len(node.outputs)


def _problem(facts: Facts, node: Node) -> str | None:
    shape = facts.shape(node.inputs[0])
    if problem := window_problem(facts, node, integers(node, "kernel_shape", ())):
        return problem
    if node.op != "MaxPool" and (  # of that ONNX Runtime runs none that leaves pixels out
        problem := left_out(facts, node, integers(node, "kernel_shape", ()))
    ):
        return problem
    if min(integers(node, "pads", (0,))) < 0:
        return f"pads={integers(node, 'pads', ())}; negative ones are not supported"
    window = _window(facts, node)
    if min(window.output) < 1:
        return f"a window of {window.kernel} doesn't fit into a map of {shape[2:]}"
    pixels = 4 if len(node.outputs) > 1 and node.outputs[1] else 1
    most, elements = ROUNDS // pixels, math.prod(window.kernel)
    if pixels > 1 or not _whole(window, shape[2:]):
        if elements > most:
            return f"a window of {window.kernel} has {elements:,} elements; at most {most:,}"
        if problem := too_long(pixels * rounds(*window.kernel)):
            return f"a window of {window.kernel}: {problem}"
    if len(node.outputs) > 1 and node.outputs[1] and math.prod(shape) > EXACT:
        return f"indices into {math.prod(shape)} elements; at most {EXACT} are supported"
    return None


def _whole(window: SlidingWindow, spatial: Shape) -> bool:
    """Whether the only window is the whole map."""
    one = math.prod(window.output) == 1 and not any(window.begins + window.ends)
    return window.kernel == spatial and one


def _draw(b: Builder, node: Node) -> None:
    window, spatial = _window(b, node), b.shape(node.inputs[0])[2:]
    x = b.tensor(node.inputs[0])
    if _whole(window, spatial):
        # The whole map: in stages, so that its few results don't keep the device waiting.
        _reduce(b, node, x)
    else:
        _draw_windows(b, node, x, window)
    if len(node.outputs) > 1 and node.outputs[1]:
        _draw_indices(b, node, x, window)


def _reduce(b: Builder, node: Node, x: Tensor) -> None:
    p = integer(node, "p", 2)
    kind = _kind(node.op, p)
    numbers = {"p": p} if kind.slots else {}
    reduce_frame(b, x, (2, 3), kind, numbers=numbers, value=node.outputs[0])


def _draw_windows(b: Builder, node: Node, x: Tensor, window: SlidingWindow) -> None:
    nchw, plane = nchw_of(b.shape(node.outputs[0])), window.plane()
    layout = b.layout(nchw, b.block(nchw, slices=window.deep))
    output = b.output(node.outputs[0], layout)
    counts = integer(node, "count_include_pad", 0)
    numbers: dict[str, Number] = {
        **window.numbers(b.shape(node.inputs[0])[2:]),
        **{"behind": (*plane.ends, window.ends[0]), "counts": counts, "p": integer(node, "p", 2)},
    }
    b.draw(
        POOL, output, [x], numbers=numbers,
        constants={"KIND": KIND_OF[node.op], "DEPTH": int(window.deep)}, parts=[shader("nan.glsl")],
        fetches=math.prod(layout.block) * math.prod(window.kernel),
    )  # fmt: skip


def _draw_indices(b: Builder, node: Node, x: Tensor, window: SlidingWindow) -> None:
    spatial = b.shape(node.inputs[0])[2:]
    # What a step along each axis adds: the last one follows closest, or by columns the first.
    places = range(len(spatial))
    steps = [math.prod(spatial[k + 1 :]) for k in places]
    if integer(node, "storage_order", 0):
        steps = [math.prod(spatial[:k]) for k in places]
    draw_indices(b, x, window, spatial, b.output(node.outputs[1]), steps, in_map=False)


def _kind(op: str, p: int) -> Kind:
    """The reduction that a pool over whole maps is."""
    if op.endswith("LpPool"):
        if p in (1, 2):
            return KINDS[f"l{p}"]
        return Kind("pow(abs(v), vec4(u_p))", finish="pow(v, vec4(1.0 / u_p))", slots="float p")
    return KINDS["max" if op.endswith("MaxPool") else "mean"]


def _global_shapes(facts: Facts, node: Node) -> Sequence[Shape]:
    n, c, *spatial = facts.shape(node.inputs[0])
    return [(n, c, *[1] * len(spatial))]


def _global_problem(facts: Facts, node: Node) -> str | None:
    shape = facts.shape(node.inputs[0])
    return f"an input of shape {shape}; at least 3 axes are needed" if len(shape) < 3 else None


def _spatial(facts: Facts, node: Node) -> Sequence[int]:
    return range(2, len(facts.shape(node.inputs[0])))


def _draw_global(b: Builder, node: Node) -> None:
    x = b.tensor(node.inputs[0])
    _reduce(b, node, x)


SLIDING: dict[str, Allowed] = {
    "auto_pad": only("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "ceil_mode": only(0, 1),
    "dilations": anything,
    "kernel_shape": anything,
    "pads": anything,
    "strides": anything,
}


def _sliding(
    name: str,
    doc: str,
    explains: Explains,
    short: str | None,
    gradient: Gradient,
    **attributes: Allowed,
) -> Operator:
    return Operator(
        name, doc, _shapes, _draw, {**SLIDING, **attributes}, _problem,
        window=_window, role="resamples", reach=windowed(_window), explains=explains,
        formula=None, bounds=None, short=short, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


def _global(
    name: str,
    doc: str,
    explains: Explains,
    short: str | None,
    gradient: Gradient,
    **attributes: Allowed,
) -> Operator:
    return Operator(
        name, doc, _global_shapes, _draw_global, attributes, _global_problem,
        role="resamples", reach=mixing(_spatial), explains=explains,
        formula=None, bounds=None, short=short, shape_inputs=(), gradient=gradient,
    )  # fmt: skip


OPERATORS = [
    _sliding("MaxPool", "The largest element of each window.", "max pool", None, gradients.largest,
             storage_order=only(0, 1)),
    _sliding("AveragePool", "The mean of each window.", "mean pool", "AvgPool",
             gradients.mean, count_include_pad=only(0, 1)),
    _sliding("LpPool", "The p-norm of each window.", "nothing", None, gradients.norm,
             p=positive),
    _global("GlobalMaxPool", "The largest element of each map.", "max pool", "MaxPool",
            gradients.largest_of_all),
    _global("GlobalAveragePool", "The mean of each map.", "mean pool", "AvgPool",
            gradients.mean_of_all),
    _global("GlobalLpPool", "The p-norm of each map.", "nothing", None, gradients.norm,
            p=positive),
]  # fmt: skip
