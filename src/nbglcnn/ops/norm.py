"""Normalizations: by stored statistics, or by those of the input itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import Kernel, shader
from nbglcnn.codegen.slots import Part
from nbglcnn.graph import Node
from nbglcnn.ops import norm_gradient as gradients
from nbglcnn.ops.broadcast import ADD
from nbglcnn.ops.elementwise import Operand, broadcast_shape, combine, named, reshaped
from nbglcnn.ops.operator import (
    Facts,
    Operator,
    Shape,
    anything,
    axis_of,
    integer,
    integers,
    normal_axes,
    number,
    only,
    same_shape,
)
from nbglcnn.ops.pointwise import SELECT
from nbglcnn.ops.reach import Linked, everything, mixing
from nbglcnn.ops.reduce import VARIANCE, lying_for, reduce_frame, reduced_shape
from nbglcnn.ops.strided import gather
from nbglcnn.plan.layout import Layout
from nbglcnn.plan.schema import Recipe

# The mean goes first: x · factor + shift would lose digits where the mean is large. Only an
# infinite factor, of variance and epsilon 0, is applied as by PyTorch: NaN and Inf come out alike.
NORMALIZE = "\n".join([
    SELECT,
    "vec4 combine(vec4 x, vec4 mean, vec4 by, vec4 bias) {",
    "  bvec4 infinite = equal(floatBitsToUint(by) & 0x7fffffffu, uvec4(0x7f800000u));",
    "  return select(infinite, x * by + (bias - mean * by), (x - mean) * by + bias);",
    "}",
])  # fmt: skip
SHIFTED = "vec4 combine(vec4 x, vec4 mean, vec4 by) { return (x - mean) * by; }"
SCALED = "vec4 combine(vec4 x, vec4 mean, vec4 by, vec4 scale) { return (x - mean) * by * scale; }"
AFFINE = (
    "vec4 combine(vec4 x, vec4 mean, vec4 by, vec4 scale, vec4 bias)"
    " { return (x - mean) * by * scale + bias; }"
)
PRODUCT = "vec4 combine(vec4 x, vec4 by, vec4 scale) { return x * by * scale; }"
STANDARD = (
    "vec4 combine(vec4 x, vec4 mean, vec4 deviation) { return (x - mean) / (deviation + 1e-9); }"
)
# What has no length stays 0.
QUOTIENT = "\n".join([
    SELECT,
    "vec4 combine(vec4 x, vec4 by) { return select(equal(by, vec4(0.0)), vec4(0.0), x / by); }",
])  # fmt: skip
LRN = Kernel(
    "lrn",
    "\n".join([shader("power.glsl"), shader("lrn.glsl")]),
    slots="int before, behind; float alpha, beta, bias",
)
RUNNING = Part(
    "vec4 combine(vec4 old, vec4 now) { return old * u_momentum + now * (1.0 - u_momentum); }",
    "float momentum",
)
FACTOR = Part(
    "vec4 combine(vec4 scale, vec4 variance) { return scale / sqrt(variance + u_epsilon); }",
    "float epsilon",
)


def batch_normalized(
    b: Builder, node: Node, x: Operand, value: str = "", statistics: Sequence[Operand] = ()
) -> Tensor:
    """A BatchNormalization node of any tensor, its own input or one it was fused to.

    `statistics` are mean and variance of each channel where they aren't those of the node.
    """
    scale, bias = named(b, *node.inputs[1:3])
    mean, variance = statistics or named(b, *node.inputs[3:5])
    epsilon = number(node, "epsilon", 1e-5)
    channels = x.shape[1]
    one_each = (channels,) + (1,) * (len(x.shape) - 2)
    if scale.constant(b) and variance.constant(b):
        recipe = Recipe("batchnorm_factor", (scale.name, variance.name), {"epsilon": epsilon})
        factor = Tensor(b.weight(recipe), Layout((1, channels, 1, 1)))
    else:
        factor = combine(b, [scale, variance], FACTOR, numbers={"epsilon": epsilon})
    operands = [
        x,
        replace(mean, shape=one_each),
        Operand(one_each, tensor=factor),
        replace(bias, shape=one_each),
    ]
    return combine(b, operands, NORMALIZE, value=value)


def _batch(b: Builder, node: Node) -> None:
    (x,) = named(b, node.inputs[0])
    if not integer(node, "training_mode", 0):
        batch_normalized(b, node, x, node.outputs[0])
        return
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    tensor, along = lying_for(b, x, axes)
    mean = reduce_frame(b, tensor, along, "mean")
    variance = reduce_frame(b, tensor, along, VARIANCE, given=mean)
    statistics = [Operand(x.shape[1:2], tensor=found) for found in (mean, variance)]
    batch_normalized(b, node, Operand(x.shape, tensor=tensor), node.outputs[0], statistics)
    momentum = number(node, "momentum", 0.9)
    for value, old, new in zip(node.outputs[1:], node.inputs[3:5], statistics, strict=False):
        if value:
            combine(b, [*named(b, old), new], RUNNING, value=value, numbers={"momentum": momentum})


def _batch_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    return [shape, shape[1:2], shape[1:2]][: len(node.outputs)]


def _batch_problem(facts: Facts, node: Node) -> str | None:
    x = facts.shape(node.inputs[0])
    if len(x) < 2:
        return f"an input of shape {x}; expected (batch, channels, …)"
    for value in node.inputs[1:]:
        if facts.shape(value) != (x[1],):
            return f"parameters of shape {facts.shape(value)} for an input of {x[1]} channels"
    statistics = [name for name in node.outputs[1:] if name]
    if len(node.outputs) > 3 or (statistics and not integer(node, "training_mode", 0)):
        return "more outputs than the result, and running statistics of training_mode=1"
    return None


def _normalize(
    b: Builder, x: Operand, statistics: Sequence[Operand], affine: Sequence[Operand], value: str
) -> None:
    """(x − mean) · inverse · scale + bias: one pass, two where scale and bias differ in shape."""
    split = len(affine) == 2 and affine[0].shape != affine[1].shape
    first = affine[:1] if split else affine
    function = {0: SHIFTED, 1: SCALED, 2: AFFINE}[len(first)]
    operands = [x, *statistics, *first]
    if not split:
        combine(b, operands, function, value=value)
        return
    result = Operand(x.shape, tensor=combine(b, operands, function))
    combine(b, [result, affine[1]], ADD, value=value)


def _over_axes(
    b: Builder, x: Operand, axes: Sequence[int], epsilon: float
) -> tuple[Operand, list[Operand]]:
    """The input where it was read, its mean over `axes` and the inverse of its deviation."""
    tensor, along = lying_for(b, x, axes)
    mean = reduce_frame(b, tensor, along, "mean")
    inverse = reduce_frame(
        b, tensor, along, "inverse deviation", given=mean, numbers={"epsilon": epsilon}
    )
    shape = reduced_shape(x.shape, axes, True)
    found = [Operand(shape, tensor=mean), Operand(shape, tensor=inverse)]
    return Operand(x.shape, tensor=tensor), found


def _per_channel(b: Builder, x: Operand, values: Sequence[str]) -> list[Operand]:
    return [Operand((x.shape[1],) + (1,) * (len(x.shape) - 2), value) for value in values]


def _instance(b: Builder, node: Node) -> None:
    (x,) = named(b, node.inputs[0])
    affine = _per_channel(b, x, node.inputs[1:3])
    epsilon = number(node, "epsilon", 1e-5)
    x, statistics = _over_axes(b, x, range(2, len(x.shape)), epsilon)
    _normalize(b, x, statistics, affine, node.outputs[0])


def _layer(b: Builder, node: Node) -> None:
    (x,) = named(b, node.inputs[0])
    affine = named(b, *(value for value in node.inputs[1:3] if value))
    axes = _trailing(b, node)
    x, statistics = _over_axes(b, x, axes, number(node, "epsilon", 1e-5))
    _normalize(b, x, statistics, affine, node.outputs[0])
    for value, operand in zip(node.outputs[1:], statistics, strict=False):
        if value:
            b.bind(value, operand.stored(b))


def _trailing(facts: Facts, node: Node) -> tuple[int, ...]:
    return tuple(range(axis_of(facts, node, -1), len(facts.shape(node.inputs[0]))))


def _layer_shape(facts: Facts, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    statistics = reduced_shape(shape, _trailing(facts, node), True)
    return [shape, statistics, statistics][: len(node.outputs)]


def _group(b: Builder, node: Node) -> None:
    """Each channel goes first: a group's channels seldom fall on whole texels."""
    (x,) = named(b, node.inputs[0])
    affine = _per_channel(b, x, node.inputs[1:3])
    groups, epsilon = integer(node, "num_groups", 0), number(node, "epsilon", 1e-5)
    n, c = x.shape[:2]
    each = c // groups
    count = each * math.prod(x.shape[2:])
    tensor, along = lying_for(b, x, range(2, len(x.shape)))
    shape = reduced_shape(x.shape, range(2, len(x.shape)), True)

    def spread(found: Tensor, kind: str, **numbers: float) -> Operand:
        rows = reshaped(b, found, (n, groups, 1, each))
        joined = reduce_frame(b, rows, [3], kind, numbers=numbers)
        copies = gather(b, joined, found.layout.nchw, (n, groups, each), (groups, 1, 0))
        return Operand(shape, tensor=copies)

    mean = spread(reduce_frame(b, tensor, along, "mean"), "mean")
    squares = reduce_frame(b, tensor, along, "sum of deviations", given=mean.tensor)
    inverse = spread(squares, "inverse root of sums", count=count, epsilon=epsilon)
    _normalize(b, Operand(x.shape, tensor=tensor), [mean, inverse], affine, node.outputs[0])


def _root_mean_square(b: Builder, node: Node) -> None:
    (x, scale) = named(b, *node.inputs[:2])
    axes = _trailing(b, node)
    tensor, along = lying_for(b, x, axes)
    numbers = {"epsilon": number(node, "epsilon", 1e-5)}
    inverse = reduce_frame(b, tensor, along, "inverse root mean square", numbers=numbers)
    shape = reduced_shape(x.shape, axes, True)
    operands = [Operand(x.shape, tensor=tensor), Operand(shape, tensor=inverse), scale]
    combine(b, operands, PRODUCT, value=node.outputs[0])


def _length(b: Builder, node: Node) -> None:
    (x,) = named(b, node.inputs[0])
    axes = (axis_of(b, node, -1),)
    tensor, along = lying_for(b, x, axes)
    length = reduce_frame(b, tensor, along, f"l{integer(node, 'p', 2)}")
    shape = reduced_shape(x.shape, axes, True)
    operands = [Operand(x.shape, tensor=tensor), Operand(shape, tensor=length)]
    combine(b, operands, QUOTIENT, value=node.outputs[0])


def _mean_variance(b: Builder, node: Node) -> None:
    (x,) = named(b, node.inputs[0])
    axes = _mean_variance_axes(b, node)
    tensor, along = lying_for(b, x, axes)
    mean = reduce_frame(b, tensor, along, "mean")
    deviation = reduce_frame(b, tensor, along, "deviation", given=mean)
    shape = reduced_shape(x.shape, axes, True)
    # Not `tensor`: for axes that alternate, its own are in another order.
    operands = [x, Operand(shape, tensor=mean), Operand(shape, tensor=deviation)]
    combine(b, operands, STANDARD, value=node.outputs[0])


def _mean_variance_axes(facts: Facts, node: Node) -> tuple[int, ...]:
    rank = len(facts.shape(node.inputs[0]))
    return tuple(sorted(set(normal_axes(integers(node, "axes", (0, 2, 3)), rank))))


def _local_response(b: Builder, node: Node) -> None:
    x = b.tensor(node.inputs[0])
    count = integer(node, "size", 1)
    output = b.output(node.outputs[0], x.layout)
    numbers = {
        "alpha": number(node, "alpha", 1e-4) / count,
        "beta": number(node, "beta", 0.75),
        "bias": number(node, "bias", 1.0),
        "before": (count - 1) // 2,
        "behind": count // 2,
    }
    b.draw(
        LRN, output, [x], numbers=numbers,
        fetches=4 * (count // 4 + 3),
    )  # fmt: skip


def _axis_problem(facts: Facts, node: Node) -> str | None:
    shape, axis = facts.shape(node.inputs[0]), integer(node, "axis", -1)
    if not -len(shape) <= axis < len(shape):
        return f"axis={axis} of an input of shape {shape}"
    for value in node.inputs[1:] if node.op != "LpNormalization" else ():
        if value and broadcast_shape(shape, facts.shape(value)) != shape:
            return f"parameters of shape {facts.shape(value)} for an input of shape {shape}"
    return None


def _channels_problem(facts: Facts, node: Node) -> str | None:
    x = facts.shape(node.inputs[0])
    if len(x) < 3 - (node.op == "GroupNormalization"):
        return f"an input of shape {x}; expected (batch, channels, …)"
    for value in node.inputs[1:3]:
        if facts.shape(value) != (x[1],):
            return f"parameters of shape {facts.shape(value)} for an input of {x[1]} channels"
    groups = integer(node, "num_groups", 1)
    if groups < 1 or x[1] % groups:
        return f"num_groups={groups} with an input of {x[1]} channels"
    return None


def _mean_variance_problem(facts: Facts, node: Node) -> str | None:
    shape, axes = facts.shape(node.inputs[0]), integers(node, "axes", (0, 2, 3))
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        return f"axes={axes} of an input of shape {shape}"
    return None


def _local_response_problem(facts: Facts, node: Node) -> str | None:
    shape, count = facts.shape(node.inputs[0]), integer(node, "size", 0)
    if count < 1:
        return f"size={count}; expected the number of channels to sum over"
    return None if len(shape) >= 2 else f"an input of shape {shape}; expected (batch, channels, …)"


def _spatial(facts: Facts, node: Node) -> Sequence[int]:
    return range(2, len(facts.shape(node.inputs[0])))


def _within(facts: Facts, node: Node) -> Sequence[int]:
    return range(1, len(facts.shape(node.inputs[0])))


def _channels(_facts: Facts, _node: Node) -> Sequence[int]:
    return (1,)


def _last(facts: Facts, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, -1),)


def _all_but_channels(facts: Facts, node: Node) -> Sequence[int]:
    return [k for k in range(len(facts.shape(node.inputs[0]))) if k != 1]


_OF_THE_BATCH, _OF_ITSELF = mixing(_all_but_channels), mixing(lambda _facts, _node: ())


def _batch_reach(facts: Facts, node: Node, position: int) -> Sequence[Linked | None]:
    if position:
        return everything(facts, node, position)
    training = integer(node, "training_mode", 0)
    return _OF_THE_BATCH(facts, node, 0) if training else _OF_ITSELF(facts, node, 0)


ROWS = {"axis": anything, "epsilon": anything, "stash_type": only(1)}
OPERATORS = [
    Operator("BatchNormalization",
             "Shifts and scales each channel by statistics of the training data, or of the batch.",
             _batch_shape, _batch,
             {"epsilon": anything, "momentum": anything, "training_mode": only(0, 1)},
             _batch_problem,
             role="follows", reach=_batch_reach, explains="batch norm",
             formula=None, bounds=None, short="BN", shape_inputs=(),
             gradient=gradients.batch),
    Operator("InstanceNormalization",
             "Shifts and scales each channel of each image by its statistics.",
             same_shape, _instance, {"epsilon": anything}, _channels_problem,
             role="follows", reach=mixing(_spatial), explains="group norm",
             formula=None, bounds=None, short="IN", shape_inputs=(),
             gradient=gradients.instance),
    Operator("LayerNormalization", "Shifts and scales each row by its statistics.", _layer_shape,
             _layer, ROWS, _axis_problem,
             role="follows", reach=mixing(_trailing), explains="layer norm",
             formula=None, bounds=None, short="LN", shape_inputs=(),
             gradient=gradients.layer),
    Operator("GroupNormalization", "Shifts and scales groups of channels by their statistics.",
             same_shape, _group,
             {"epsilon": anything, "num_groups": anything, "stash_type": only(1)},
             _channels_problem,
             role="follows", reach=mixing(_within), explains="group norm",
             formula=None, bounds=None, short="GN", shape_inputs=(),
             gradient=gradients.group),
    Operator("RMSNormalization", "Scales each row by the root of its mean square.", same_shape,
             _root_mean_square, ROWS, _axis_problem,
             role="follows", reach=mixing(_trailing), explains="nothing",
             formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.root_mean_square),
    Operator("LpNormalization", "Divides by the length (or sum of magnitudes) along an axis.",
             same_shape, _length, {"axis": anything, "p": only(1, 2)}, _axis_problem,
             role="follows", reach=mixing(_last), explains="nothing",
             formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.length),
    Operator("MeanVarianceNormalization", "Shifts and scales to mean 0 and variance 1 over axes.",
             same_shape, _mean_variance, {"axes": anything}, _mean_variance_problem,
             role="follows", reach=mixing(_mean_variance_axes), explains="nothing",
             formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.mean_variance),
    Operator("LRN", "Divides by a power of the sum of squares of neighbouring channels.",
             same_shape, _local_response,
             {"alpha": anything, "beta": anything, "bias": anything, "size": anything},
             _local_response_problem,
             role="follows", reach=mixing(_channels), explains="response",
             formula=None, bounds=None, short=None, shape_inputs=(),
             gradient=gradients.local_response),
]  # fmt: skip
