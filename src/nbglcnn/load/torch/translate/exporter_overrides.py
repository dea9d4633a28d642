"""onnxscript functions for operators that onnxscript itself translates inexactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnxscript
import torch

from nbglcnn.load.torch.edits.recorded_module import bend_operator
from nbglcnn.load.torch.translate.attention import attention
from nbglcnn.load.torch.translate.resize import resize_translations

opset18: Any = onnxscript.opset18  # accepts Python numbers too


def exporter_translations() -> Mapping[Any, Callable[..., Any]]:
    """Functions in onnxscript for operators whose own translation differs from PyTorch's result."""

    def log_sigmoid(x: Any) -> Any:
        """log(sigmoid(x)) without onnxscript's −∞ for a sigmoid that underflows to 0."""
        return opset18.Neg(opset18.Softplus(opset18.Neg(x)))

    aten = torch.ops.aten
    return {
        aten.atan2.default: _atan2,
        aten.sinc.default: _sinc,
        **dict.fromkeys((aten.xlogy.Tensor, aten.xlogy.Scalar_Self), _xlogy),
        aten.xlogy.Scalar_Other: _xlogy,
        aten.log_sigmoid.default: log_sigmoid,
        aten.scaled_dot_product_attention.default: attention,
        bend_operator(): lambda x, key: opset18.Identity(x),
        **resize_translations(),
        **_stacks(),
    }


# The axes to add for torch.atleast_1d, 2d and 3d, by a tensor's number of dimensions.
_AT_LEAST_AXES: Mapping[int, Sequence[Sequence[int]]] = {
    1: ([0],),
    2: ([0, 1], [0]),
    3: ([0, 1, 2], [0, 2], [2]),
}


def _stacks() -> Mapping[Any, Callable[..., Any]]:
    """`torch.hstack` and similar, which onnxscript writes as loops over a sequence."""

    def axes(numbers: Sequence[int]) -> Any:
        return opset18.Constant(value_ints=[*numbers])

    def joined(tensors: Sequence[Any], missing: Sequence[Sequence[int]], axis: int) -> Any:
        made = [
            opset18.Unsqueeze(one, axes(missing[len(one.shape)]))
            if len(one.shape) < len(missing)
            else one
            for one in tensors
        ]
        return opset18.Concat(*made, axis=axis)

    def hstack(tensors: Sequence[Any]) -> Any:
        return joined(tensors, _AT_LEAST_AXES[1], int(len(tensors[0].shape) > 1))

    def vstack(tensors: Sequence[Any]) -> Any:
        return joined(tensors, _AT_LEAST_AXES[2], 0)

    def dstack(tensors: Sequence[Any]) -> Any:
        return joined(tensors, _AT_LEAST_AXES[3], 2)

    def column_stack(tensors: Sequence[Any]) -> Any:
        return joined(tensors, ([0, 1], [1]), 1)

    aten = torch.ops.aten
    return {
        aten.hstack.default: hstack,
        aten.vstack.default: vstack,
        aten.row_stack.default: vstack,
        aten.dstack.default: dstack,
        aten.column_stack.default: column_stack,
    }


# The branch that Where does not select is computed from safe values, as in jax.numpy: otherwise 0 /
# 0 would make the gradient NaN.


def _sinc(x: Any) -> Any:
    one = opset18.CastLike(1.0, x)
    zero = opset18.Equal(x, opset18.CastLike(0.0, x))
    angle = opset18.Where(zero, one, opset18.Mul(x, opset18.CastLike(math.pi, x)))
    return opset18.Where(zero, one, opset18.Div(opset18.Sin(angle), angle))


def _xlogy(x: Any, y: Any) -> Any:
    """The product of x and log(y); 0 if x is 0 and y is not NaN."""
    like = x if hasattr(x, "dtype") else y
    x, y = (opset18.CastLike(one, like) for one in (x, y))
    zero, one = opset18.CastLike(0.0, like), opset18.CastLike(1.0, like)
    infinite = opset18.Equal(y, opset18.CastLike(math.inf, like))
    without = opset18.Or(opset18.LessOrEqual(y, zero), infinite)  # log(y) isn't finite
    idle = opset18.And(opset18.Equal(x, zero), without)
    return opset18.Mul(x, opset18.Log(opset18.Where(idle, one, y)))


def _atan2(y: Any, x: Any) -> Any:
    """Uses the smaller of y / x and x / y; onnxscript's is −π for (0, −1) and 0 for NaN."""
    zero, one = opset18.CastLike(0.0, y), opset18.CastLike(1.0, y)
    pi, half = opset18.CastLike(math.pi, y), opset18.CastLike(math.pi / 2, y)
    most = opset18.CastLike(3e38, y)
    # Clipped, since a quotient of two infinite numbers is NaN.
    y, x = (opset18.Clip(one, opset18.Neg(most), most) for one in (y, x))

    def negative(v: Any) -> Any:  # includes −0
        return opset18.Or(opset18.Less(v, zero), opset18.Less(opset18.Reciprocal(v), zero))

    def with_sign(number: Any) -> Any:
        return opset18.Where(negative(y), opset18.Neg(number), number)

    steep = opset18.Greater(opset18.Abs(y), opset18.Abs(x))
    nothing = opset18.And(opset18.Equal(y, zero), opset18.Equal(x, zero))
    idle = opset18.Or(steep, nothing)
    flat = opset18.Div(opset18.Where(idle, zero, y), opset18.Where(idle, one, x))
    turn = opset18.Where(negative(x), with_sign(pi), zero)
    inverse = opset18.Div(opset18.Where(steep, x, zero), opset18.Where(steep, y, one))
    return opset18.Where(
        steep,
        opset18.Sub(with_sign(half), opset18.Atan(inverse)),
        opset18.Add(opset18.Atan(flat), turn),
    )
