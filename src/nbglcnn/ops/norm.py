"""Normalizations with stored statistics or with statistics of the input itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from nbglcnn.codegen.builder import Builder, Tensor
from nbglcnn.codegen.glsl import FragmentShader, shader_source
from nbglcnn.codegen.strided import gather_strided
from nbglcnn.codegen.uniform_slots import GlslFunction
from nbglcnn.graph import Node
from nbglcnn.ops import norm_gradient as gradients
from nbglcnn.ops.broadcast import ADD_GLSL
from nbglcnn.ops.elementwise import (
    Operand,
    broadcast_shape,
    change_layout,
    draw_elementwise,
    operands_of,
)
from nbglcnn.ops.operator import (
    KnownValues,
    Operator,
    Shape,
    any_value,
    axis_of,
    float_attr,
    int_attr,
    int_list_attr,
    normalize_axes,
    one_of,
    same_shape,
)
from nbglcnn.ops.pointwise import SELECT_GLSL
from nbglcnn.ops.receptive_field import OperatorField, full_fields, mixed_axes_fields
from nbglcnn.ops.reduce import VARIANCE_KIND, draw_reduction, reduced_shape, tensor_for_axes
from nbglcnn.plan.layout import Layout
from nbglcnn.plan.schema import PackingRecipe

# Subtract the mean first: x · factor + shift would lose digits if the mean is large. Only an
# infinite factor, from a variance and epsilon of 0, is applied in PyTorch's order, so that NaN and
# Inf match.
BATCH_NORM_GLSL = "\n".join([
    SELECT_GLSL,
    "vec4 combine(vec4 x, vec4 mean, vec4 by, vec4 bias) {",
    "  bvec4 infinite = equal(floatBitsToUint(by) & 0x7fffffffu, uvec4(0x7f800000u));",
    "  return select(infinite, x * by + (bias - mean * by), (x - mean) * by + bias);",
    "}",
])  # fmt: skip
NORMALIZE_GLSL = "vec4 combine(vec4 x, vec4 mean, vec4 by) { return (x - mean) * by; }"
NORMALIZE_AND_SCALE_GLSL = (
    "vec4 combine(vec4 x, vec4 mean, vec4 by, vec4 scale) { return (x - mean) * by * scale; }"
)
NORMALIZE_AFFINE_GLSL = (
    "vec4 combine(vec4 x, vec4 mean, vec4 by, vec4 scale, vec4 bias)"
    " { return (x - mean) * by * scale + bias; }"
)
RMS_NORM_GLSL = "vec4 combine(vec4 x, vec4 by, vec4 scale) { return x * by * scale; }"
MEAN_VARIANCE_NORM_GLSL = (
    "vec4 combine(vec4 x, vec4 mean, vec4 deviation) { return (x - mean) / (deviation + 1e-9); }"
)
# A vector of length 0 stays 0.
LP_NORM_GLSL = "\n".join([
    SELECT_GLSL,
    "vec4 combine(vec4 x, vec4 by) { return select(equal(by, vec4(0.0)), vec4(0.0), x / by); }",
])  # fmt: skip
LRN_SHADER = FragmentShader(
    "lrn",
    "\n".join([shader_source("power.glsl"), shader_source("lrn.glsl")]),
    uniform_slots="int before, behind; float alpha, beta, bias",
)
RUNNING_STATISTICS_FUNCTION = GlslFunction(
    "vec4 combine(vec4 old, vec4 now) { return old * u_momentum + now * (1.0 - u_momentum); }",
    "float momentum",
)
BATCH_NORM_FACTOR_FUNCTION = GlslFunction(
    "vec4 combine(vec4 scale, vec4 variance) { return scale / sqrt(variance + u_epsilon); }",
    "float epsilon",
)


def draw_batch_norm(
    b: Builder, node: Node, x: Operand, value: str = "", statistics: Sequence[Operand] = ()
) -> Tensor:
    """Lower a BatchNormalization on any tensor: its own input, or a tensor it was fused to.

    `statistics` are the mean and variance per channel, if they aren't the node's own inputs.
    """
    scale, bias = operands_of(b, *node.inputs[1:3])
    mean, variance = statistics or operands_of(b, *node.inputs[3:5])
    epsilon = float_attr(node, "epsilon", 1e-5)
    channels = x.shape[1]
    one_each = (channels,) + (1,) * (len(x.shape) - 2)
    if scale.is_constant(b) and variance.is_constant(b):
        recipe = PackingRecipe(
            "batchnorm_factor", (scale.name, variance.name), {"epsilon": epsilon}
        )
        factor = Tensor(b.weight_texture(recipe), Layout((1, channels, 1, 1)))
    else:
        factor = draw_elementwise(
            b, [scale, variance], BATCH_NORM_FACTOR_FUNCTION, uniforms={"epsilon": epsilon}
        )
    operands = [
        x,
        replace(mean, shape=one_each),
        Operand(one_each, tensor=factor),
        replace(bias, shape=one_each),
    ]
    return draw_elementwise(b, operands, BATCH_NORM_GLSL, value=value)


def _lower_batch_norm(b: Builder, node: Node) -> None:
    (x,) = operands_of(b, node.inputs[0])
    if not int_attr(node, "training_mode", 0):
        draw_batch_norm(b, node, x, node.outputs[0])
        return
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    tensor, along = tensor_for_axes(b, x, axes)
    mean = draw_reduction(b, tensor, along, "mean")
    variance = draw_reduction(b, tensor, along, VARIANCE_KIND, reference=mean)
    statistics = [Operand(x.shape[1:2], tensor=found) for found in (mean, variance)]
    draw_batch_norm(b, node, Operand(x.shape, tensor=tensor), node.outputs[0], statistics)
    momentum = float_attr(node, "momentum", 0.9)
    for value, old, new in zip(node.outputs[1:], node.inputs[3:5], statistics, strict=False):
        if value:
            draw_elementwise(
                b,
                [*operands_of(b, old), new],
                RUNNING_STATISTICS_FUNCTION,
                value=value,
                uniforms={"momentum": momentum},
            )


def _batch_norm_shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    return [shape, shape[1:2], shape[1:2]][: len(node.outputs)]


def _batch_norm_problem(facts: KnownValues, node: Node) -> str | None:
    x = facts.shape(node.inputs[0])
    if len(x) < 2:
        return f"an input of shape {x}; expected (batch, channels, …)"
    for value in node.inputs[1:]:
        if facts.shape(value) != (x[1],):
            return f"parameters of shape {facts.shape(value)} for an input of {x[1]} channels"
    statistics = [name for name in node.outputs[1:] if name]
    if len(node.outputs) > 3 or (statistics and not int_attr(node, "training_mode", 0)):
        return "more outputs than the result, and running statistics of training_mode=1"
    return None


def _draw_normalized(
    b: Builder, x: Operand, statistics: Sequence[Operand], affine: Sequence[Operand], value: str
) -> None:
    """(x − mean) · inverse · scale + bias: one pass, or two if scale and bias differ in shape."""
    split = len(affine) == 2 and affine[0].shape != affine[1].shape
    first = affine[:1] if split else affine
    function = {0: NORMALIZE_GLSL, 1: NORMALIZE_AND_SCALE_GLSL, 2: NORMALIZE_AFFINE_GLSL}[
        len(first)
    ]
    operands = [x, *statistics, *first]
    if not split:
        draw_elementwise(b, operands, function, value=value)
        return
    result = Operand(x.shape, tensor=draw_elementwise(b, operands, function))
    draw_elementwise(b, [result, affine[1]], ADD_GLSL, value=value)


def _axis_statistics(
    b: Builder, x: Operand, axes: Sequence[int], epsilon: float
) -> tuple[Operand, list[Operand]]:
    """Return the input in a readable layout, its mean over `axes` and its inverse deviation."""
    tensor, along = tensor_for_axes(b, x, axes)
    mean = draw_reduction(b, tensor, along, "mean")
    inverse = draw_reduction(
        b, tensor, along, "inverse deviation", reference=mean, uniforms={"epsilon": epsilon}
    )
    shape = reduced_shape(x.shape, axes, True)
    found = [Operand(shape, tensor=mean), Operand(shape, tensor=inverse)]
    return Operand(x.shape, tensor=tensor), found


def _channel_operands(b: Builder, x: Operand, values: Sequence[str]) -> list[Operand]:
    return [Operand((x.shape[1],) + (1,) * (len(x.shape) - 2), value) for value in values]


def _lower_instance_norm(b: Builder, node: Node) -> None:
    (x,) = operands_of(b, node.inputs[0])
    affine = _channel_operands(b, x, node.inputs[1:3])
    epsilon = float_attr(node, "epsilon", 1e-5)
    x, statistics = _axis_statistics(b, x, range(2, len(x.shape)), epsilon)
    _draw_normalized(b, x, statistics, affine, node.outputs[0])


def _lower_layer_norm(b: Builder, node: Node) -> None:
    (x,) = operands_of(b, node.inputs[0])
    affine = operands_of(b, *(value for value in node.inputs[1:3] if value))
    axes = _trailing_axes(b, node)
    x, statistics = _axis_statistics(b, x, axes, float_attr(node, "epsilon", 1e-5))
    _draw_normalized(b, x, statistics, affine, node.outputs[0])
    for value, operand in zip(node.outputs[1:], statistics, strict=False):
        if value:
            b.bind(value, operand.stored_tensor(b))


def _trailing_axes(facts: KnownValues, node: Node) -> tuple[int, ...]:
    return tuple(range(axis_of(facts, node, -1), len(facts.shape(node.inputs[0]))))


def _layer_norm_shapes(facts: KnownValues, node: Node) -> Sequence[Shape]:
    shape = facts.shape(node.inputs[0])
    statistics = reduced_shape(shape, _trailing_axes(facts, node), True)
    return [shape, statistics, statistics][: len(node.outputs)]


def _lower_group_norm(b: Builder, node: Node) -> None:
    """Reduce each channel first, because a group's channels rarely align with texels."""
    (x,) = operands_of(b, node.inputs[0])
    affine = _channel_operands(b, x, node.inputs[1:3])
    groups, epsilon = int_attr(node, "num_groups", 0), float_attr(node, "epsilon", 1e-5)
    n, c = x.shape[:2]
    each = c // groups
    count = each * math.prod(x.shape[2:])
    tensor, along = tensor_for_axes(b, x, range(2, len(x.shape)))
    shape = reduced_shape(x.shape, range(2, len(x.shape)), True)

    def spread(found: Tensor, kind: str, **numbers: float) -> Operand:
        rows = change_layout(b, found, (n, groups, 1, each))
        joined = draw_reduction(b, rows, [3], kind, uniforms=numbers)
        copies = gather_strided(b, joined, found.layout.nchw, (n, groups, each), (groups, 1, 0))
        return Operand(shape, tensor=copies)

    mean = spread(draw_reduction(b, tensor, along, "mean"), "mean")
    squares = draw_reduction(b, tensor, along, "sum of deviations", reference=mean.tensor)
    inverse = spread(squares, "inverse root of sums", count=count, epsilon=epsilon)
    _draw_normalized(b, Operand(x.shape, tensor=tensor), [mean, inverse], affine, node.outputs[0])


def _lower_rms_norm(b: Builder, node: Node) -> None:
    (x, scale) = operands_of(b, *node.inputs[:2])
    axes = _trailing_axes(b, node)
    tensor, along = tensor_for_axes(b, x, axes)
    numbers = {"epsilon": float_attr(node, "epsilon", 1e-5)}
    inverse = draw_reduction(b, tensor, along, "inverse root mean square", uniforms=numbers)
    shape = reduced_shape(x.shape, axes, True)
    operands = [Operand(x.shape, tensor=tensor), Operand(shape, tensor=inverse), scale]
    draw_elementwise(b, operands, RMS_NORM_GLSL, value=node.outputs[0])


def _lower_lp_norm(b: Builder, node: Node) -> None:
    (x,) = operands_of(b, node.inputs[0])
    axes = (axis_of(b, node, -1),)
    tensor, along = tensor_for_axes(b, x, axes)
    length = draw_reduction(b, tensor, along, f"l{int_attr(node, 'p', 2)}")
    shape = reduced_shape(x.shape, axes, True)
    operands = [Operand(x.shape, tensor=tensor), Operand(shape, tensor=length)]
    draw_elementwise(b, operands, LP_NORM_GLSL, value=node.outputs[0])


def _lower_mean_variance(b: Builder, node: Node) -> None:
    (x,) = operands_of(b, node.inputs[0])
    axes = _mean_variance_axes(b, node)
    tensor, along = tensor_for_axes(b, x, axes)
    mean = draw_reduction(b, tensor, along, "mean")
    deviation = draw_reduction(b, tensor, along, "deviation", reference=mean)
    shape = reduced_shape(x.shape, axes, True)
    # Not `tensor`: if kept and reduced axes alternate, its axes have another order.
    operands = [x, Operand(shape, tensor=mean), Operand(shape, tensor=deviation)]
    draw_elementwise(b, operands, MEAN_VARIANCE_NORM_GLSL, value=node.outputs[0])


def _mean_variance_axes(facts: KnownValues, node: Node) -> tuple[int, ...]:
    rank = len(facts.shape(node.inputs[0]))
    return tuple(sorted(set(normalize_axes(int_list_attr(node, "axes", (0, 2, 3)), rank))))


def _lower_lrn(b: Builder, node: Node) -> None:
    x = b.tensor(node.inputs[0])
    count = int_attr(node, "size", 1)
    output = b.create_output(node.outputs[0], x.layout)
    numbers = {
        "alpha": float_attr(node, "alpha", 1e-4) / count,
        "beta": float_attr(node, "beta", 0.75),
        "bias": float_attr(node, "bias", 1.0),
        "before": (count - 1) // 2,
        "behind": count // 2,
    }
    b.draw(
        LRN_SHADER, output, [x], uniforms=numbers,
        fetches=4 * (count // 4 + 3),
    )  # fmt: skip


def _axis_problem(facts: KnownValues, node: Node) -> str | None:
    shape, axis = facts.shape(node.inputs[0]), int_attr(node, "axis", -1)
    if not -len(shape) <= axis < len(shape):
        return f"axis={axis} of an input of shape {shape}"
    for value in node.inputs[1:] if node.op != "LpNormalization" else ():
        if value and broadcast_shape(shape, facts.shape(value)) != shape:
            return f"parameters of shape {facts.shape(value)} for an input of shape {shape}"
    return None


def _channels_problem(facts: KnownValues, node: Node) -> str | None:
    x = facts.shape(node.inputs[0])
    if len(x) < 3 - (node.op == "GroupNormalization"):
        return f"an input of shape {x}; expected (batch, channels, …)"
    for value in node.inputs[1:3]:
        if facts.shape(value) != (x[1],):
            return f"parameters of shape {facts.shape(value)} for an input of {x[1]} channels"
    groups = int_attr(node, "num_groups", 1)
    if groups < 1 or x[1] % groups:
        return f"num_groups={groups} with an input of {x[1]} channels"
    return None


def _mean_variance_problem(facts: KnownValues, node: Node) -> str | None:
    shape, axes = facts.shape(node.inputs[0]), int_list_attr(node, "axes", (0, 2, 3))
    if any(not -len(shape) <= axis < len(shape) for axis in axes):
        return f"axes={axes} of an input of shape {shape}"
    return None


def _lrn_problem(facts: KnownValues, node: Node) -> str | None:
    shape, count = facts.shape(node.inputs[0]), int_attr(node, "size", 0)
    if count < 1:
        return f"size={count}; expected the number of channels to sum over"
    return None if len(shape) >= 2 else f"an input of shape {shape}; expected (batch, channels, …)"


def _spatial_axes(facts: KnownValues, node: Node) -> Sequence[int]:
    return range(2, len(facts.shape(node.inputs[0])))


def _non_batch_axes(facts: KnownValues, node: Node) -> Sequence[int]:
    return range(1, len(facts.shape(node.inputs[0])))


def _channel_axis(_facts: KnownValues, _node: Node) -> Sequence[int]:
    return (1,)


def _attribute_axis(facts: KnownValues, node: Node) -> Sequence[int]:
    return (axis_of(facts, node, -1),)


def _non_channel_axes(facts: KnownValues, node: Node) -> Sequence[int]:
    return [k for k in range(len(facts.shape(node.inputs[0]))) if k != 1]


_BATCH_FIELDS, _OWN_ELEMENT_FIELDS = (
    mixed_axes_fields(_non_channel_axes),
    mixed_axes_fields(lambda _facts, _node: ()),
)


def _batch_norm_receptive_fields(
    facts: KnownValues, node: Node, output_index: int
) -> Sequence[OperatorField | None]:
    if output_index:
        return full_fields(facts, node, output_index)
    training = int_attr(node, "training_mode", 0)
    return _BATCH_FIELDS(facts, node, 0) if training else _OWN_ELEMENT_FIELDS(facts, node, 0)


LAYER_NORM_ATTRIBUTES = {"axis": any_value, "epsilon": any_value, "stash_type": one_of(1)}
OPERATORS = [
    Operator("BatchNormalization",
             "Shifts and scales each channel by statistics of the training data, or of the batch.",
             _batch_norm_shapes, _lower_batch_norm,
             {"epsilon": any_value, "momentum": any_value, "training_mode": one_of(0, 1)},
             _batch_norm_problem,
             role="follows", receptive_field=_batch_norm_receptive_fields, explanation="batch norm",
             formula=None, bounds=None, caption="BN", shape_inputs=(),
             gradient=gradients.batch_norm),
    Operator("InstanceNormalization",
             "Shifts and scales each channel of each image by its statistics.",
             same_shape, _lower_instance_norm, {"epsilon": any_value}, _channels_problem,
             role="follows", receptive_field=mixed_axes_fields(_spatial_axes),
             explanation="group norm", formula=None, bounds=None, caption="IN", shape_inputs=(),
             gradient=gradients.instance_norm),
    Operator("LayerNormalization", "Shifts and scales each row by its statistics.",
             _layer_norm_shapes, _lower_layer_norm, LAYER_NORM_ATTRIBUTES, _axis_problem,
             role="follows", receptive_field=mixed_axes_fields(_trailing_axes),
             explanation="layer norm", formula=None, bounds=None, caption="LN", shape_inputs=(),
             gradient=gradients.layer_norm),
    Operator("GroupNormalization", "Shifts and scales groups of channels by their statistics.",
             same_shape, _lower_group_norm,
             {"epsilon": any_value, "num_groups": any_value, "stash_type": one_of(1)},
             _channels_problem,
             role="follows", receptive_field=mixed_axes_fields(_non_batch_axes),
             explanation="group norm", formula=None, bounds=None, caption="GN", shape_inputs=(),
             gradient=gradients.group_norm),
    Operator("RMSNormalization", "Scales each row by the root of its mean square.", same_shape,
             _lower_rms_norm, LAYER_NORM_ATTRIBUTES, _axis_problem,
             role="follows", receptive_field=mixed_axes_fields(_trailing_axes),
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.rms_norm),
    Operator("LpNormalization", "Divides by the length (or sum of magnitudes) along an axis.",
             same_shape, _lower_lp_norm, {"axis": any_value, "p": one_of(1, 2)}, _axis_problem,
             role="follows", receptive_field=mixed_axes_fields(_attribute_axis),
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.lp_norm),
    Operator("MeanVarianceNormalization", "Shifts and scales to mean 0 and variance 1 over axes.",
             same_shape, _lower_mean_variance, {"axes": any_value}, _mean_variance_problem,
             role="follows", receptive_field=mixed_axes_fields(_mean_variance_axes),
             explanation="nothing", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.mean_variance),
    Operator("LRN", "Divides by a power of the sum of squares of neighbouring channels.",
             same_shape, _lower_lrn,
             {"alpha": any_value, "beta": any_value, "bias": any_value, "size": any_value},
             _lrn_problem,
             role="follows", receptive_field=mixed_axes_fields(_channel_axis),
             explanation="response", formula=None, bounds=None, caption=None, shape_inputs=(),
             gradient=gradients.lrn),
]  # fmt: skip
