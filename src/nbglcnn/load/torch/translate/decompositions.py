"""Decompositions of PyTorch operators without an ONNX equivalent, some into custom operators."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from nbglcnn.errors import UnsupportedOperator
from nbglcnn.load.passes.linear_algebra import CUSTOM_DOMAIN
from nbglcnn.load.torch.translate.translation import has_onnx_form

if TYPE_CHECKING:
    import torch


# Pixels per window; larger windows are reduced axis by axis, as is their gradient.
MAX_WINDOW_AREA = 4096


@cache
def recorded_decomposition(function: Any) -> Callable[..., Any] | None:
    """The decomposition of an operator during recording; None if it is kept whole."""
    import torch

    aten = torch.ops.aten
    whole = (  # handled by passes over the program
        *(aten.max_unpool2d.default, aten.max_unpool3d.default),
        *(aten.adaptive_max_pool1d.default, aten.adaptive_max_pool2d.default),
        aten.adaptive_max_pool3d.default,
    )
    return None if function in whole else find_decomposition(function)


@cache
def find_decomposition(function: Any) -> Callable[..., Any] | None:
    """The decomposition of an operator; None if it can be translated to ONNX."""
    import torch
    from torch._decomp import decomposition_table

    if (own := decompositions().get(function)) is not None:
        return own
    if not isinstance(function, torch._ops.OpOverload) or has_onnx_form(function):
        return None
    if function._schema.is_mutable:
        return None
    if function._can_decompose():
        rule: Callable[..., Any] = function.decompose
        return rule
    found: Callable[..., Any] | None = decomposition_table.get(function)
    return found


def _refuse_margin_loss(*_: Any) -> Any:
    raise UnsupportedOperator(
        "PyTorch's decomposition of multilabel_margin_loss computes different values than the "
        "loss itself; compute it outside the network"
    )


@cache
def decompositions() -> Mapping[Any, Callable[..., Any]]:
    """Decompositions by operator overload; the results are the same."""
    import torch

    aten = torch.ops.aten
    return {
        aten.cdist.default: _distances,
        aten.clamp.default: _clamp,
        aten.copysign.Tensor: _copysign,
        aten.copysign.Scalar: _copysign,
        aten.cross_entropy_loss.default: aten.cross_entropy_loss.default.decompose,
        aten.cross.default: _cross,
        aten.cumprod.default: _cumulative_product,
        aten.div.Tensor: _complex_quotient,
        aten.linalg_householder_product.default: lambda x, tau: _custom_operator(
            "HouseholderProduct", x, tau, like=x
        ),
        # Composite operators stay whole unless they are listed here.
        **dict.fromkeys((aten.linalg_inv.default, aten.inverse.default), _inverse),
        **dict.fromkeys((aten.linalg_matrix_exp.default, aten.matrix_exp.default), _matrix_exp),
        aten.linalg_solve.default: lambda a, b, *, left=True: _custom_operator(
            "Solve", a, b, like=b, left=int(left)
        ),
        aten.einsum.default: _einsum_of_diagonals,
        aten.embedding_bag.default: _embedding_bag,
        aten.embedding_bag.padding_idx: _embedding_bag,
        **{
            one: _for_integers(lambda x: x.clone())
            for one in (aten.ceil.default, aten.floor.default, aten.round.default)
        },
        aten.trunc.default: _for_integers(lambda x: x.clone()),
        aten.isnan.default: _for_integers(lambda x: x != x),
        aten.isfinite.default: _for_integers(lambda x: x == x),
        aten.fmax.default: lambda a, b: _choose_non_nan(torch.ge, a, b),
        aten.fmin.default: lambda a, b: _choose_non_nan(torch.le, a, b),
        aten.hypot.default: _hypot,
        aten.softshrink.default: _softshrink,
        aten.special_xlog1py.default: _xlog1py,
        aten.special_xlog1py.self_scalar: lambda x, y: _xlog1py(torch.tensor(x).to(y), y),
        aten.special_xlog1py.other_scalar: lambda x, y: _xlog1py(x, torch.tensor(y).to(x)),
        aten.index.Tensor: _with_long_indices(aten.index.Tensor),
        aten.index_put.default: _with_long_indices(aten.index_put.default),
        aten.index_put_.default: _with_long_indices(aten.index_put_.default),
        aten.index_reduce.default: _index_reduce,
        aten.logcumsumexp.default: _log_cumulative_sum_exp,
        aten.masked_select.default: _masked_select,
        aten.median.dim: _median,
        aten.median.default: lambda x: _median(x.flatten(), 0)[0],
        aten.remainder.Tensor: _remainder,
        aten.remainder.Scalar: _remainder,
        aten.rrelu.default: _rrelu,
        aten.multilabel_margin_loss.default: _refuse_margin_loss,
        aten.scatter.reduce: _scatter_by_name,
        aten.scatter.src: _scatter_narrowed(aten.scatter.src),
        aten.scatter_add.default: _scatter_narrowed(aten.scatter_add.default),
        aten.scatter_reduce.two: _scatter_reduce,
        **dict.fromkeys(
            (aten.nll_loss.default, aten.nll_loss_nd.default, aten.nll_loss2d.default), _nll_loss
        ),
        aten.mT.default: lambda x: x.transpose(-2, -1),
        aten.batch_norm.default: lambda *args: _batch_norm(*args)[0],
        aten.native_batch_norm.default: _batch_norm,
        aten.adaptive_avg_pool1d.default: _adaptive_mean(1),
        aten.adaptive_avg_pool2d.default: _adaptive_mean(2),
        aten.adaptive_avg_pool3d.default: _adaptive_mean(3),
        # Our sort is always stable: equal numbers keep their order.
        aten.argsort.stable: lambda x, *, stable=None, dim=-1, descending=False: aten.sort.default(
            x, dim, descending
        )[1],
        aten.sort.stable: lambda x, *, stable=None, dim=-1, descending=False: aten.sort.default(
            x, dim, descending
        ),
    }


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
    """Normalize by the running statistics, in training mode by the batch's, and update them.

    Also returns the mean and the reciprocal of the standard deviation.
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
    """Decompose global average pools and adjacent equal windows; NotImplemented for others."""

    def pool(x: torch.Tensor, output_size: Sequence[int]) -> Any:
        import torch

        sizes = list(output_size) * (rank if len(output_size) == 1 else 1)
        spatial = x.shape[-rank:]
        if set(sizes) == {1}:
            return x.mean([*range(-rank, 0)], keepdim=True)
        pairs = list(zip(spatial, sizes, strict=True))
        area = math.prod(n // m for n, m in pairs if m)
        if all(m and n % m == 0 for n, m in pairs) and area <= MAX_WINDOW_AREA:
            window = [n // m for n, m in pairs]
            return getattr(torch.nn.functional, f"avg_pool{rank}d")(x, window, window)
        return NotImplemented

    return pool


def _cumulative_product(
    x: torch.Tensor, dim: int, *, dtype: torch.dtype | None = None
) -> torch.Tensor:
    """By doubling: after step k each element is the product of the 2^k elements up to it."""
    import torch

    if dtype is not None or not x.is_floating_point():
        x = x.to(dtype or torch.int64)
    step = 1
    while x.ndim and step < x.shape[dim]:
        rest = x.shape[dim] - step
        further = x.narrow(dim, step, rest) * x.narrow(dim, 0, rest)
        x, step = torch.cat([x.narrow(dim, 0, step), further], dim), step * 2
    return x.clone()


def _cross(a: torch.Tensor, b: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    """The default axis is the first of length 3; onnxscript uses the last axis."""
    import torch

    if dim is None:
        shape = torch.broadcast_tensors(a, b)[0].shape  # type: ignore[no-untyped-call]
        dim = next((axis for axis, length in enumerate(shape) if length == 3), -1)
    found: torch.Tensor = torch.linalg.cross(a, b, dim=dim)
    return found


def _log_cumulative_sum_exp(x: torch.Tensor, dim: int) -> torch.Tensor:
    """Subtracts the maximum if it is finite: onnxscript's version is NaN for -inf."""
    import torch

    if not x.ndim:
        return x.clone()
    most = x.amax(dim, keepdim=True)
    most = torch.where(most.isinf(), 0, most)
    return (x - most).exp().cumsum(dim).log() + most


def _complex_quotient(a: Any, b: Any) -> Any:
    """A quotient of complex numbers, such as a spectrum divided by its size."""
    import torch

    if not any(isinstance(x, torch.Tensor) and x.is_complex() for x in (a, b)):
        return NotImplemented
    if isinstance(b, torch.Tensor) and b.is_complex():
        below = torch.view_as_real(b).square().sum(-1)
        a, b = a * b.conj(), below
    factor = 1 / b
    return a * factor


def _custom_operator(
    op: str, *inputs: torch.Tensor, like: torch.Tensor, **attributes: int
) -> torch.Tensor:
    """A custom linear algebra node; constant folding computes it if it depends on weights only."""
    import torch

    node: torch.Tensor = torch.onnx.ops.symbolic(
        f"{CUSTOM_DOMAIN}::{op}",
        inputs,
        {**attributes},
        dtype=like.dtype,
        shape=like.shape,
        version=1,
    )
    return node


def _inverse(x: torch.Tensor) -> torch.Tensor:
    return _custom_operator("Inverse", x, like=x)


def _matrix_exp(x: torch.Tensor) -> torch.Tensor:
    return _custom_operator("MatrixExp", x, like=x)


def _median(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """The lower of the two medians, as in PyTorch."""
    import torch

    values, places = torch.sort(x, dim)
    middle = (x.shape[dim] - 1) // 2 if x.ndim else 0
    values, places = values.narrow(dim, middle, 1), places.narrow(dim, middle, 1)
    if x.ndim and x.is_floating_point():  # the result is NaN and the first NaN's index
        unknown = x.isnan()
        some = unknown.any(dim, keepdim=True)
        values = torch.where(some, math.nan, values)
        places = torch.where(some, unknown.to(x.dtype).argmax(dim, keepdim=True), places)
    return (values, places) if keepdim else (values.squeeze(dim), places.squeeze(dim))


def _remainder(x: torch.Tensor, y: Any) -> Any:
    """Computed with fmod: onnxscript's x - floor(x / y) * y is NaN for infinite operands."""
    import torch

    if not x.is_floating_point():
        return NotImplemented
    found = torch.fmod(x, y)
    return torch.where((found != 0) & ((found < 0) != (y < 0)), found + y, found)


def _distances(
    a: torch.Tensor, b: torch.Tensor, p: float = 2.0, mode: int | None = None
) -> torch.Tensor:
    """Distances from each row of `a` to each row of `b`; `mode` affects only speed."""
    differences = (a.unsqueeze(-2) - b.unsqueeze(-3)).abs()
    if p == 2:  # PyTorch does this for few rows; for many it uses a less exact product
        return differences.square().sum(-1).sqrt()
    if p == 1:
        return differences.sum(-1)
    if p == float("inf"):
        return differences.amax(-1)
    if p == 0:
        return (differences != 0).to(a.dtype).sum(-1)
    return differences.pow(p).sum(-1).pow(1 / p)


def _for_integers(decompose: Callable[..., Any]) -> Callable[..., Any]:
    """ONNX has the operator for floats only; for integers PyTorch's result is trivial."""
    return lambda x: NotImplemented if x.is_floating_point() or x.is_complex() else decompose(x)


def _clamp(x: torch.Tensor, low: Any = None, high: Any = None) -> Any:
    """An integer tensor clamped to float bounds becomes float."""
    import torch

    if x.is_floating_point() or not any(isinstance(end, float) for end in (low, high)):
        return NotImplemented
    return x.to(torch.get_default_dtype()).clamp(low, high)


def _with_long_indices(function: Any) -> Callable[..., Any]:
    """Convert int32 indices to int64 and uint8 masks to bool, the types that ONNX accepts."""

    def indexed(x: torch.Tensor, indices: Sequence[torch.Tensor | None], *rest: Any) -> Any:
        import torch

        types = {torch.int32: torch.int64, torch.uint8: torch.bool}
        found = [
            one if one is None or one.dtype not in types else one.to(types[one.dtype])
            for one in indices
        ]
        if all(one is other for one, other in zip(found, indices, strict=True)):
            return NotImplemented
        return function(x, found, *rest)

    return indexed


def _masked_select(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    import torch

    x, mask = torch.broadcast_tensors(x, mask)  # type: ignore[no-untyped-call]
    return x[mask]


def _nll_loss(
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
) -> torch.Tensor:
    """The mean (1), sum (2) or list (0) of -x at each example's class `target`."""
    import torch

    dim = 1 if x.ndim > 1 else 0
    counts = target != ignore_index
    classes = torch.where(counts, target, 0)
    ones = torch.ones_like(target, dtype=x.dtype)
    factors = ones if weight is None else weight[classes]
    factors = torch.where(counts, factors, 0)
    found = x.gather(dim, classes.unsqueeze(dim)).squeeze(dim)
    losses = torch.where(counts, -found * factors, 0)
    if reduction == 0:
        return losses
    return losses.sum() if reduction == 2 else losses.sum() / factors.sum()


def _narrow_source(source: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """The part of a larger source that an index reads: ONNX needs equal shapes."""
    for axis, length in enumerate(index.shape):
        if source.shape[axis] != length:
            source = source.narrow(axis, 0, length)
    return source


def _scatter_narrowed(function: Any) -> Callable[..., Any]:
    def scattered(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> Any:
        part = _narrow_source(source, index)
        return NotImplemented if part is source else function(x, dim, index, part)

    return scattered


def _scatter_by_name(
    x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, reduce: str
) -> torch.Tensor:
    return x.scatter_reduce(dim, index, source, {"add": "sum", "multiply": "prod"}[reduce])


def _scatter_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> Any:
    """A mean as sum / count: ONNX has no mean reduction, and onnxscript then ignores it."""
    import torch

    part = _narrow_source(source, index)
    if reduce != "mean":
        if part is source:
            return NotImplemented
        return x.scatter_reduce(dim, index, part, reduce, include_self=include_self)
    counts = torch.full_like(x, int(include_self))
    counts = counts.scatter_add(dim, index, torch.ones_like(part))
    kept = x if include_self else torch.where(counts == 0, x, 0)
    total = kept.scatter_add(dim, index, part)
    mode = None if x.is_floating_point() else "floor"
    return torch.div(total, counts.clamp(min=1), rounding_mode=mode)


def _index_reduce(
    x: torch.Tensor,
    dim: int,
    index: torch.Tensor,
    source: torch.Tensor,
    reduce: str,
    *,
    include_self: bool = True,
) -> torch.Tensor:
    """Expand an index along one axis over the other axes."""
    shape = [1] * source.ndim
    shape[dim] = -1
    whole = index.long().reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, whole, source, reduce, include_self=include_self)


def _choose_non_nan(prefers_first: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The operand that isn't NaN, else by `prefers_first`; of equal ones `a` gets the gradient."""
    import torch

    a, b = (one.to(torch.result_type(a, b)) for one in (a, b))
    chosen = prefers_first(a, b)
    return torch.where(chosen | b.isnan() if b.is_floating_point() else chosen, a, b)


def _softshrink(x: torch.Tensor, lambd: float = 0.5) -> torch.Tensor:
    import torch

    return torch.where(x.abs() <= lambd, 0.0, x - x.sign() * lambd)


def _xlog1py(x: Any, y: Any) -> torch.Tensor:
    """The product of x and log(1 + y); 0 if x is 0 and the logarithm is not finite."""
    import torch

    idle = (x == 0) & ((y <= -1) | (y == math.inf))
    return torch.as_tensor(x * torch.log1p(torch.where(idle, 0.0, y)))


def _hypot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Uses the ratio of the smaller to the larger, since squares would overflow earlier."""
    import torch

    a, b = a.abs(), b.abs()
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    below = torch.where((large == 0) | large.isinf(), 1, large)
    found = large * (1 + (small / below).square()).sqrt()
    none = torch.where(large == 0, large, 1)
    found = torch.where(large == 0, none.square().sqrt(), found)  # 0, with a NaN gradient
    infinite = a.isinf() | b.isinf()  # even if the other is NaN
    return torch.where(infinite, math.inf, found)


def _copysign(a: torch.Tensor, b: Any) -> torch.Tensor:
    import torch

    size = a.abs() if a.is_floating_point() else a.abs().to(torch.get_default_dtype())
    if not isinstance(b, torch.Tensor):
        return size if math.copysign(1, b) > 0 else -size
    b = b.to(size.dtype)
    return torch.where((b < 0) | (b.reciprocal() < 0), -size, size)  # including b = -0


def _einsum_of_diagonals(
    equation: str, tensors: Sequence[torch.Tensor], *, path: Any = None
) -> Any:
    """Take the diagonal of an operand that has a letter twice."""
    import torch

    given, arrow, wanted = equation.replace(" ", "").partition("->")
    operands = given.split(",")
    if "." in equation or all(len(set(one)) == len(one) for one in operands):
        return NotImplemented
    if not arrow:  # implicit output: the letters that occur once, sorted
        wanted = "".join(sorted(c for c in set(given) - {","} if given.count(c) == 1))
    found = []
    for k, (letters, x) in enumerate(zip(operands, tensors, strict=True)):
        while again := next((c for c in letters if letters.count(c) > 1), ""):
            first, second = letters.index(again), letters.rindex(again)
            x = x.diagonal(dim1=first, dim2=second)
            letters = letters[:first] + letters[first + 1 : second] + letters[second + 1 :] + again
        operands[k] = letters
        found.append(x)
    return torch.einsum(f"{','.join(operands)}->{wanted}", *found)


def _embedding_bag(
    weight: torch.Tensor,
    indices: torch.Tensor,
    offsets: torch.Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: torch.Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[torch.Tensor, ...]:
    """The sum (0), mean (1) or maximum (2) of rows of `weight` in bags that start at `offsets`.

    Python reads the bag sizes as constants. Only the first result is valid, since
    `torch.nn.functional.embedding_bag` returns no other.
    """
    import torch

    begins = offsets.tolist()
    ends = begins[1:] if include_last_offset else [*begins[1:], len(indices)]
    padding = -1 if padding_idx is None else padding_idx % len(weight)
    counts = indices != padding
    rows = weight[indices.long()]
    if mode == 2:
        rows = torch.where(counts.unsqueeze(-1), rows, -math.inf)
    else:
        factors = counts.to(weight.dtype)
        if per_sample_weights is not None:
            factors = factors * per_sample_weights
        rows = rows * factors.unsqueeze(-1)
    bags = []
    for begin, end in zip(begins, ends, strict=False):
        if begin == end:
            bags.append(torch.zeros(weight.shape[1:], dtype=weight.dtype))
            continue
        size = counts[begin:end].sum()
        bag = rows[begin:end]
        if mode == 2:
            bags.append(torch.where(size > 0, bag.amax(0), 0))
        else:
            bags.append(bag.sum(0) / (size.clamp(min=1) if mode == 1 else 1))
    return torch.stack(bags), *(offsets.new_empty(0) for _ in range(3))


def _rrelu(
    x: torch.Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Any:
    """In eval mode the slope is the mean of the two bounds."""
    import torch

    if training:
        return NotImplemented
    return torch.where(x > 0, x, x * ((lower + upper) / 2))
