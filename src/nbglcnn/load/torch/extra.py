"""PyTorch operators that onnxscript has no function for, written with others or of our own."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.load.passes.algebra import DOMAIN
from nbglcnn.load.torch.adaptive import MOST_EVEN
from nbglcnn.load.torch.attention import attention
from nbglcnn.load.torch.resize import resizes
from nbglcnn.load.torch.traced import bend_operator
from nbglcnn.load.torch.translate import known

if TYPE_CHECKING:
    import torch


@cache
def recorded_rule(function: Any) -> Callable[..., Any] | None:
    """How an operator is taken apart while it is recorded; None for those that stay whole."""
    import torch

    aten = torch.ops.aten
    whole = (  # passes over the program look at these
        *(aten.max_unpool2d.default, aten.max_unpool3d.default),
        *(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default),
        aten.adaptive_max_pool3d.default,
    )
    return None if function in whole else rule_of(function)


@cache
def rule_of(function: Any) -> Callable[..., Any] | None:
    """How an operator is taken apart; None where ONNX has a form for it."""
    import torch
    from torch._decomp import decomposition_table

    if (own := decompositions().get(function)) is not None:
        return own
    if not isinstance(function, torch._ops.OpOverload) or known(function):
        return None
    if function._schema.is_mutable:
        return None
    if function._can_decompose():
        rule: Callable[..., Any] = function.decompose
        return rule
    found: Callable[..., Any] | None = decomposition_table.get(function)
    return found


def _wrong(*_: Any) -> Any:
    raise UnsupportedOperator(
        "PyTorch takes multilabel_margin_loss apart into other numbers than its own; compute the "
        "loss outside the network"
    )


@cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """By overload, the same result from simpler operators."""
    import torch

    aten = torch.ops.aten
    return {
        aten.cdist.default: _distances,
        aten.cumprod.default: _cumulative_product,
        aten.div.Tensor: _quotient_of_pairs,
        aten.linalg_householder_product.default: lambda x, tau: _by_folding(
            "HouseholderProduct", x, tau, like=x
        ),
        # Composite ones are kept whole unless they are named here.
        **dict.fromkeys((aten.linalg_inv.default, aten.inverse.default), _inverse),
        **dict.fromkeys((aten.linalg_matrix_exp.default, aten.matrix_exp.default), _matrix_exp),
        aten.linalg_solve.default: lambda a, b, *, left=True: _by_folding(
            "Solve", a, b, like=b, left=int(left)
        ),
        aten.median.dim: _median,
        aten.median.default: lambda x: _median(x.flatten(), 0)[0],
        aten.rrelu.default: _rrelu,
        aten.multilabel_margin_loss.default: _wrong,
        aten.mT.default: lambda x: x.transpose(-2, -1),
        aten.batch_norm.default: lambda *args: _batch_norm(*args)[0],
        aten.native_batch_norm.default: _batch_norm,
        aten.adaptive_avg_pool1d.default: _adaptive_mean(1),
        aten.adaptive_avg_pool2d.default: _adaptive_mean(2),
        aten.adaptive_avg_pool3d.default: _adaptive_mean(3),
        # Ours always is: of equal numbers the first comes first.
        aten.argsort.stable: lambda x, *, stable=None, dim=-1, descending=False: aten.sort.default(
            x, dim, descending
        )[1],
        aten.sort.stable: lambda x, *, stable=None, dim=-1, descending=False: aten.sort.default(
            x, dim, descending
        ),
    }


def translations() -> Mapping[Any, Callable[..., Any]]:
    """For torch.onnx.export: operators whose form in ONNX loses what PyTorch keeps."""
    import torch
    from onnxscript import opset18

    def log_sigmoid(x: Any) -> Any:
        """log(sigmoid(x)), as onnxscript writes it, is −∞ where the sigmoid falls to 0."""
        return opset18.Neg(opset18.Softplus(opset18.Neg(x)))

    aten = torch.ops.aten
    return {
        aten.atan2.default: _atan2,
        aten.sinc.default: _sinc,
        **dict.fromkeys((aten.xlogy.Tensor, aten.xlogy.Scalar_Self), _xlogy),
        aten.xlogy.Scalar_Other: _xlogy,
        torch.ops.aten.log_sigmoid.default: log_sigmoid,
        torch.ops.aten.scaled_dot_product_attention.default: attention,
        bend_operator(): lambda x, key: opset18.Identity(x),
        **resizes(),
        **_stacks(),
    }


# Axes that a tensor of too few dimensions gets, by their number: torch.atleast_1d, 2d and 3d.
_AT_LEAST: Mapping[int, Sequence[Sequence[int]]] = {
    1: ([0],),
    2: ([0, 1], [0]),
    3: ([0, 1, 2], [0, 2], [2]),
}


def _stacks() -> Mapping[Any, Callable[..., Any]]:
    """`torch.hstack` and its like, which onnxscript writes as loops over a sequence."""
    import torch
    from onnxscript import opset18

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
        return joined(tensors, _AT_LEAST[1], int(len(tensors[0].shape) > 1))

    def vstack(tensors: Sequence[Any]) -> Any:
        return joined(tensors, _AT_LEAST[2], 0)

    def dstack(tensors: Sequence[Any]) -> Any:
        return joined(tensors, _AT_LEAST[3], 2)

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


# What a Where doesn't choose is computed of harmless numbers, as in jax.numpy: a quotient of 0 by 0
# would give NaN to the gradient else.


def _onnx() -> Any:
    from onnxscript import opset18

    return opset18


def _sinc(x: Any) -> Any:
    onnx = _onnx()

    one = onnx.CastLike(1.0, x)
    zero = onnx.Equal(x, onnx.CastLike(0.0, x))
    angle = onnx.Where(zero, one, onnx.Mul(x, onnx.CastLike(math.pi, x)))
    return onnx.Where(zero, one, onnx.Div(onnx.Sin(angle), angle))


def _xlogy(x: Any, y: Any) -> Any:
    """The product of x and log(y), and 0 where x is 0 and y is not NaN."""
    onnx = _onnx()

    like = x if hasattr(x, "dtype") else y
    x, y = (onnx.CastLike(one, like) for one in (x, y))
    zero, one = onnx.CastLike(0.0, like), onnx.CastLike(1.0, like)
    infinite = onnx.Equal(y, onnx.CastLike(math.inf, like))
    without = onnx.Or(onnx.LessOrEqual(y, zero), infinite)  # a finite logarithm
    idle = onnx.And(onnx.Equal(x, zero), without)
    return onnx.Mul(x, onnx.Log(onnx.Where(idle, one, y)))


def _atan2(y: Any, x: Any) -> Any:
    """By the smaller of y / x and x / y; onnxscript's gives −π for (0, −1) and 0 for NaN."""
    onnx = _onnx()

    zero, one = onnx.CastLike(0.0, y), onnx.CastLike(1.0, y)
    pi, half = onnx.CastLike(math.pi, y), onnx.CastLike(math.pi / 2, y)
    most = onnx.CastLike(3e38, y)
    # An infinite quotient of infinite numbers would be NaN.
    y, x = (onnx.Clip(one, onnx.Neg(most), most) for one in (y, x))

    def negative(v: Any) -> Any:  # −0 too
        return onnx.Or(onnx.Less(v, zero), onnx.Less(onnx.Reciprocal(v), zero))

    def with_sign(number: Any) -> Any:
        return onnx.Where(negative(y), onnx.Neg(number), number)

    steep = onnx.Greater(onnx.Abs(y), onnx.Abs(x))
    nothing = onnx.And(onnx.Equal(y, zero), onnx.Equal(x, zero))
    idle = onnx.Or(steep, nothing)
    flat = onnx.Div(onnx.Where(idle, zero, y), onnx.Where(idle, one, x))
    turn = onnx.Where(negative(x), with_sign(pi), zero)
    inverse = onnx.Div(onnx.Where(steep, x, zero), onnx.Where(steep, y, one))
    return onnx.Where(
        steep,
        onnx.Sub(with_sign(half), onnx.Atan(inverse)),
        onnx.Add(onnx.Atan(flat), turn),
    )


def _batch_norm(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    mean: torch.Tensor | None,
    variance: torch.Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn: bool = False,
) -> Any:
    """By the running statistics; in training mode by those of the batch, which also change them.

    Gives the mean and the reciprocal of the deviation, too.
    """
    import torch

    aten = torch.ops.aten
    if mean is None or variance is None:
        return aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    if not training:
        call = aten._native_batch_norm_legit_no_training.default
        return call(x, weight, bias, mean, variance, momentum, eps)
    found = aten._native_batch_norm_legit.no_stats(x, weight, bias, True, momentum, eps)
    dims = [dim for dim in range(x.ndim) if dim != 1]
    mean.mul_(1 - momentum).add_(x.mean(dims), alpha=momentum)
    variance.mul_(1 - momentum).add_(x.var(dims), alpha=momentum)
    return found


def _adaptive_mean(rank: int) -> Callable[..., Any]:
    """Of the whole map, or of windows of one size beside each other; others stay as they are."""

    def pool(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        import torch

        sizes = list(output_size) * (rank if len(output_size) == 1 else 1)
        spatial = x.shape[-rank:]
        if set(sizes) == {1}:
            return x.mean([*range(-rank, 0)], keepdim=True)
        pairs = list(zip(spatial, sizes, strict=True))
        area = math.prod(n // m for n, m in pairs if m)
        if all(m and n % m == 0 for n, m in pairs) and area <= MOST_EVEN:
            window = [n // m for n, m in pairs]
            return getattr(torch.nn.functional, f"avg_pool{rank}d")(x, window, window)
        return NotImplemented

    return pool


def _cumulative_product(
    x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """In doubling steps: after the k-th each element is the product of the 2^k up to it."""
    import torch

    if dtype is not None or not x.is_floating_point():
        x = x.to(dtype or torch.int64)
    step = 1
    while x.ndim and step < x.shape[dim]:
        rest = x.shape[dim] - step
        further = x.narrow(dim, step, rest) * x.narrow(dim, 0, rest)
        x, step = torch.cat([x.narrow(dim, 0, step), further], dim), step * 2
    return x.clone()


def _quotient_of_pairs(a: Any, b: Any) -> Any:
    """A quotient of complex numbers, as in a spectrum over its size."""
    import torch

    if not any(isinstance(x, torch.Tensor) and x.is_complex() for x in (a, b)):
        return NotImplemented
    if isinstance(b, torch.Tensor) and b.is_complex():
        below = torch.view_as_real(b).square().sum(-1)
        a, b = a * b.conj(), below
    factor = 1 / b
    return a * factor


def _by_folding(
    op: str, *inputs: torch.Tensor, like: torch.Tensor, **attributes: int
) -> torch.Tensor:
    """A node of our own for linear algebra, which folding computes if it is of weights alone."""
    import torch

    node: torch.Tensor = torch.onnx.ops.symbolic(
        f"{DOMAIN}::{op}", inputs, {**attributes}, dtype=like.dtype, shape=like.shape, version=1
    )
    return node


def _inverse(x: torch.Tensor) -> torch.Tensor:
    return _by_folding("Inverse", x, like=x)


def _matrix_exp(x: torch.Tensor) -> torch.Tensor:
    return _by_folding("MatrixExp", x, like=x)


def _median(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower of two medians, as PyTorch gives it."""
    import torch

    values, places = torch.sort(x, dim)
    middle = (x.shape[dim] - 1) // 2 if x.ndim else 0
    values, places = values.narrow(dim, middle, 1), places.narrow(dim, middle, 1)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def _distances(
    a: torch.Tensor, b: torch.Tensor, p: float = 2.0, mode: int | None = None
) -> torch.Tensor:
    """From each row of `a` to each row of `b`; modes differ in speed alone."""
    differences = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 2:  # as PyTorch itself computes few; many by a product that loses digits
        return differences.square().sum(-1).sqrt()
    if p == 1:
        return differences.sum(-1)
    if p == float("inf"):
        return differences.amax(-1)
    if p == 0:
        return (differences != 0).to(a.dtype).sum(-1)
    return differences.pow(p).sum(-1).pow(1 / p)


def _rrelu(
    x: torch.Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """In eval mode the slope is the mean of its bounds."""
    import torch

    if training:
        return NotImplemented
    return torch.where(x > 0, x, x * ((lower + upper) / 2))
