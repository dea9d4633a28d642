"""Gradient cases of pointwise functions, reductions and softmax-like functions, with torch's."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from operator_gradients import (
    RNG,
    GradientCase,
    float_vector,
    int_vector,
    random_arrays,
    scalar,
    uniform,
    with_arguments,
)

WIDE_VALUES = np.concatenate(
    [uniform(-5, 5, 31), float_vector(0, 1, -1, 3, -3, 0.5, -0.5, 30, -30)]
)
EDGE_VALUES = float_vector(-3, 3, -2.5, 2.5, 0, -0.5, 0.5, 1, -1, 0.2)


def selu(x: Tensor, alpha: float, gamma: float) -> Tensor:
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


ACTIVATION_CASES = [
    GradientCase("Relu", F.relu, [WIDE_VALUES]),
    GradientCase("LeakyRelu", lambda x: F.leaky_relu(x, 0.2), [WIDE_VALUES], {"alpha": 0.2}),
    GradientCase("LeakyRelu", lambda x: torch.where(x > 0, x, -0.3 * x), [WIDE_VALUES],
                 {"alpha": -0.3}),
    GradientCase("ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0), [EDGE_VALUES],
                 {"alpha": 0.5}),
    GradientCase("ThresholdedRelu", lambda x: F.threshold(x, -0.5, 0), [EDGE_VALUES],
                 {"alpha": -0.5}),
    GradientCase("Elu", lambda x: F.elu(x, 0.7), [WIDE_VALUES], {"alpha": 0.7}),
    GradientCase("Elu", lambda x: F.elu(x, -0.7), [WIDE_VALUES], {"alpha": -0.7}),
    GradientCase("Celu", lambda x: F.celu(x, 0.7), [WIDE_VALUES], {"alpha": 0.7}),
    GradientCase("Celu", F.celu, [WIDE_VALUES]),
    GradientCase("Selu", F.selu, [WIDE_VALUES]),
    GradientCase("Selu", lambda x: selu(x, -0.5, 1.2), [WIDE_VALUES],
                 {"alpha": -0.5, "gamma": 1.2}),
    GradientCase("Selu", lambda x: selu(x, 0.5, 1.2), [WIDE_VALUES], {"alpha": 0.5, "gamma": 1.2}),
    GradientCase("Sigmoid", torch.sigmoid, [WIDE_VALUES]),
    GradientCase("Tanh", torch.tanh, [WIDE_VALUES]),
    GradientCase("HardSigmoid", F.hardsigmoid, [WIDE_VALUES], {"alpha": 1 / 6, "beta": 0.5}),
    GradientCase("HardSigmoid", lambda x: (-0.3 * x + 0.4).clamp(0, 1), [uniform(-5, 5)],
                 {"alpha": -0.3, "beta": 0.4}),
    GradientCase("HardSwish", F.hardswish, [WIDE_VALUES]),
    GradientCase("Swish", F.silu, [WIDE_VALUES]),
    GradientCase("Swish", lambda x: x * torch.sigmoid(-1.7 * x), [WIDE_VALUES], {"alpha": -1.7}),
    GradientCase("Softplus", F.softplus, [WIDE_VALUES]),
    GradientCase("Softplus", F.softplus, [uniform(-9, -6)]),
    GradientCase("Softsign", F.softsign, [WIDE_VALUES]),
    GradientCase("Softsign", F.softsign, [uniform(90, 99)]),
    GradientCase("Mish", F.mish, [WIDE_VALUES]),
    GradientCase("Mish", F.mish, [uniform(-20, -10)]),
    GradientCase("Clip", lambda x: x.clamp(-0.5, 0.5), [EDGE_VALUES, scalar(-0.5), scalar(0.5)], {},
                 (1, 2)),
    GradientCase("Clip", lambda x: x.clamp(min=0.5), [EDGE_VALUES, scalar(0.5)], {}, (1,)),
    GradientCase("Clip", lambda x: x.clamp(max=0.5), [EDGE_VALUES, None, scalar(0.5)], {}, (2,)),
    GradientCase("Gelu", F.gelu, [WIDE_VALUES]),
    GradientCase("Gelu", lambda x: F.gelu(x, approximate="tanh"), [WIDE_VALUES],
                 {"approximate": "tanh"}),
    GradientCase("Shrink", lambda x: F.hardshrink(x, 0.5), [EDGE_VALUES], {"lambd": 0.5}),
    GradientCase("Shrink", lambda x: F.softshrink(x, 0.7), [EDGE_VALUES],
                 {"lambd": 0.7, "bias": 0.7}),
]  # fmt: skip
FUNCTION_CASES = [
    GradientCase("Erf", torch.erf, [WIDE_VALUES]),
    GradientCase("Exp", torch.exp, [uniform(-5, 5)]),
    GradientCase("Log", torch.log, [uniform(0.01, 9)]),
    GradientCase("Sqrt", torch.sqrt, [uniform(0.01, 9)]),
    GradientCase("Sqrt", torch.sqrt, [float_vector(0, 4)]),
    GradientCase("Reciprocal", torch.reciprocal, [WIDE_VALUES[:30]]),
    GradientCase("Neg", torch.neg, [WIDE_VALUES]),
    GradientCase("Abs", torch.abs, [WIDE_VALUES]),
    GradientCase("Sin", torch.sin, [uniform(-300, 300)]),
    GradientCase("Cos", torch.cos, [uniform(-300, 300)]),
    GradientCase("Tan", torch.tan, [uniform(-1.4, 1.4)]),
    GradientCase("Asin", torch.asin, [uniform(-0.99, 0.99)]),
    GradientCase("Acos", torch.acos, [uniform(-0.99, 0.99)]),
    GradientCase("Atan", torch.atan, [WIDE_VALUES]),
    GradientCase("Sinh", torch.sinh, [uniform(-4, 4)]),
    GradientCase("Cosh", torch.cosh, [uniform(-4, 4)]),
    GradientCase("Asinh", torch.asinh, [WIDE_VALUES]),
    GradientCase("Acosh", torch.acosh, [uniform(1.01, 9)]),
    GradientCase("Atanh", torch.atanh, [uniform(-0.99, 0.99)]),
    GradientCase("Cast", lambda x: x.float() if x.dtype == torch.float32 else x, [WIDE_VALUES],
                 {"to": 1}),
]  # fmt: skip
ZERO_GRADIENT_CASES = [
    GradientCase(op, lambda x: torch.floor(x), [WIDE_VALUES])
    for op in ("Sign", "Floor", "Ceil", "Round")
]


def broadcast(a: Tensor, *others: Tensor) -> list[Tensor]:
    return list(torch.broadcast_tensors(a, *others))


# Every way of broadcasting two tensors.
BROADCAST_SHAPES = [
    ((2, 5, 3), (2, 5, 3)),
    ((2, 5, 3), ()),
    ((), (2, 5, 3)),
    ((2, 5, 3, 2), (5, 1, 1)),
    ((5, 3), (3,)),
    ((2, 1, 3, 1), (1, 5, 1, 2)),
    ((1, 1, 1), (3,)),
    ((2, 1, 2, 1, 3), (1, 3, 1, 2, 1)),
]
BINARY_FUNCTIONS = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow,
    "Max": torch.maximum, "Min": torch.minimum,
}  # fmt: skip


def binary_cases(op: str) -> list[GradientCase]:
    low = 0.3 if op in ("Div", "Pow") else -2
    given = (
        [np.asarray(RNG.uniform(low, 2, s), np.float32) for s in two] for two in BROADCAST_SHAPES
    )
    return [GradientCase(op, BINARY_FUNCTIONS[op], two) for two in given]


TIES = [RNG.integers(0, 3, shape).astype(np.float32) for shape in ((2, 5, 3), (5, 1), (2, 5, 3))]


def amax(*tensors: Tensor) -> Tensor:
    return torch.stack(broadcast(*tensors)).amax(0)


def amin(*tensors: Tensor) -> Tensor:
    return torch.stack(broadcast(*tensors)).amin(0)


SIGNED_NUMBERS = float_vector(0, 1, 0.5, 2.5, -1.5, -2)
POWER_BASES, EXPONENTS = map(
    np.ravel, np.meshgrid(SIGNED_NUMBERS, float_vector(0, 1, 2, 3, -1, -2))
)
CHOICE_MASK = RNG.random((2, 1, 3)) < 0.5


def choose(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(torch.tensor(CHOICE_MASK), a, b)


VARIADIC_CASES = [
    GradientCase("Max", torch.maximum, TIES[:2]),
    GradientCase("Min", torch.minimum, TIES[1:]),
    GradientCase("Max", amax, TIES),
    GradientCase("Min", amin, TIES),
    GradientCase("Max", amax, random_arrays((2, 5, 3), (3,), (1,), (5, 1), (2, 1, 1))),
    GradientCase("Max", lambda x: x * 1, [TIES[0]]),
    GradientCase("Mean", lambda a, b, c: (a + b + c) / 3, random_arrays((2, 5, 3), (5, 1), (3,))),
    GradientCase("Sum", lambda a, b, c: a + b + c, random_arrays((2, 5, 3), (5, 1), (3,))),
    GradientCase("Div", torch.div, [float_vector(0, 1, -2, 1e30), float_vector(3, -2, 0.1, 1e25)]),
    GradientCase("Mod", torch.fmod, [uniform(-9, 9), uniform(0.5, 2, 5, 1)], {"fmod": 1}),
    GradientCase("Mod", torch.fmod, [uniform(-9, 9), uniform(-2, -0.5, 3)], {"fmod": 1}),
    GradientCase("PRelu", lambda x, w: torch.where(x > 0, x, x * w), [EDGE_VALUES, scalar(0.3)]),
    GradientCase("PRelu", lambda x, w: torch.where(x > 0, x, x * w),
                 [uniform(-1, 1), uniform(-1, 1, 5, 1)]),
    GradientCase("Where", choose, [CHOICE_MASK, uniform(-1, 1, 5, 1), uniform(-1, 1)]),
    GradientCase("Where", choose, [CHOICE_MASK, scalar(0.5), uniform(-1, 1, 1, 5, 3)]),
    *(
        GradientCase("Trilu", with_arguments(f, k), [uniform(-1, 1, 2, 3, 5), np.array(k)],
                     {"upper": upper})
        for k in (-1, 0, 2) for upper, f in ((1, torch.triu), (0, torch.tril))
    ),
    GradientCase("Pow", torch.pow, [POWER_BASES, EXPONENTS]),
    *(GradientCase("Pow", with_arguments(torch.pow, e), [SIGNED_NUMBERS, scalar(e)], {}, (1,))
      for e in (0, 1, 2, 3, -1, -2)),
    *(GradientCase("Pow", with_arguments(torch.pow, e), [SIGNED_NUMBERS[:4], scalar(e)], {}, (1,))
      for e in (0.5, 1.7, -0.5)),
    GradientCase("Pow", lambda x: x**3, [float_vector(0, 1, -2.5), np.array(3)]),
    GradientCase("Pow", lambda x: x ** torch.tensor([2, 0, 3]),
                 [uniform(-2, 2, 5, 3), np.array([2, 0, 3])]),
    GradientCase("Pow", lambda b: 2.0**b, [scalar(2), uniform(-2, 2)], {}, (0,)),
]  # fmt: skip

# Reductions.
REDUCTIONS = {
    "ReduceSum": torch.sum,
    "ReduceMean": torch.mean,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceL1": lambda x, axes, keepdim: x.abs().sum(axes, keepdim),
    "ReduceL2": lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim),
    "ReduceLogSum": lambda x, axes, keepdim: x.sum(axes, keepdim).log(),
    "ReduceLogSumExp": torch.logsumexp,
    "ReduceSumSquare": lambda x, axes, keepdim: (x * x).sum(axes, keepdim),
    "ReduceProd": lambda x, axes, keepdim: product_over_axes(x, axes, keepdim),
}


def product_over_axes(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim)
    return x


REDUCED_SHAPES = (
    ((2, 5, 3, 4), (2, 3), 1), ((2, 5, 3, 4), (1,), 0), ((2, 5, 3), (0, 2), 0), ((5, 3), (-1,), 1),
    ((7,), (0,), 0), ((2, 3, 2, 3, 2), (1, 3), 1), ((1, 70, 2), (1,), 1), ((2, 1, 3), (1,), 0),
)  # fmt: skip


def reduction_cases(op: str) -> list[GradientCase]:
    low = 0.5 if op in ("ReduceLogSum", "ReduceProd") else -2
    right = REDUCTIONS[op]
    rows = [
        GradientCase(op, with_arguments(right, axes, bool(keepdims)),
                     [uniform(low, 2, *shape), int_vector(*axes)], {"keepdims": keepdims})
        for shape, axes, keepdims in REDUCED_SHAPES
    ]  # fmt: skip
    everything = GradientCase(
        op, with_arguments(right, (0, 1, 2), False), [uniform(low, 2)], {"keepdims": 0}
    )

    def of_one(x: Tensor) -> Tensor:
        return right(x[..., None], (3,), False)

    nothing = GradientCase(op, of_one, [uniform(low, 2)], {"noop_with_empty_axes": 1})
    return [*rows, everything, nothing]


def softmax_cases(scale: float) -> list[GradientCase]:
    shapes = ((2, 5, 3), (5, 7), (4,), (2, 3, 2, 2, 3), (1, 70), (2, 1))
    return [
        GradientCase(op, with_arguments(f, axis), [scale * uniform(-3, 3, *shape)], {"axis": axis})
        for op, f in (("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax))
        for shape in shapes
        for axis in sorted({-1, 0, len(shape) // 2})
    ]


def topk_values(k: int, axis: int, is_largest: bool = True):
    return lambda x: torch.topk(x, k, axis, is_largest).values


INDEX_OUTPUT = ("places",)
SMALLEST_ATTRIBUTES = {"axis": 0, "largest": 0}
TOPK_CASES = [
    GradientCase("TopK", topk_values(2, 1), [uniform(-1, 1), int_vector(2)], {"axis": 1},
                 other_outputs=INDEX_OUTPUT),
    GradientCase("TopK", topk_values(3, -1), [uniform(-1, 1, 2, 7), int_vector(3)],
                 other_outputs=INDEX_OUTPUT),
    GradientCase("TopK", topk_values(2, 0, False), [uniform(-1, 1, 5), int_vector(2)],
        SMALLEST_ATTRIBUTES,
                 other_outputs=INDEX_OUTPUT),
    GradientCase("TopK", topk_values(2, 0, False), [*random_arrays((5, 2)), int_vector(2)],
                 SMALLEST_ATTRIBUTES, other_outputs=INDEX_OUTPUT),
    GradientCase("TopK", topk_values(3, 2), [*random_arrays((2, 2, 3, 2, 2)), int_vector(3)],
                 {"axis": 2}, other_outputs=INDEX_OUTPUT),
]  # fmt: skip
