"""Nodes for gradients of functions element by element, reductions and shares, with torch's own."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from operator_gradients import (
    RNG,
    Row,
    along,
    between,
    floats,
    ints,
    number,
    randoms,
)

WIDE = np.concatenate([between(-5, 5, 31), floats(0, 1, -1, 3, -3, 0.5, -0.5, 30, -30)])
EDGE = floats(-3, 3, -2.5, 2.5, 0, -0.5, 0.5, 1, -1, 0.2)


def selu(x: Tensor, alpha: float, gamma: float) -> Tensor:
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x))


ACTIVATIONS = [
    Row("Relu", F.relu, [WIDE]),
    Row("LeakyRelu", lambda x: F.leaky_relu(x, 0.2), [WIDE], {"alpha": 0.2}),
    Row("LeakyRelu", lambda x: torch.where(x > 0, x, -0.3 * x), [WIDE], {"alpha": -0.3}),
    Row("ThresholdedRelu", lambda x: F.threshold(x, 0.5, 0), [EDGE], {"alpha": 0.5}),
    Row("ThresholdedRelu", lambda x: F.threshold(x, -0.5, 0), [EDGE], {"alpha": -0.5}),
    Row("Elu", lambda x: F.elu(x, 0.7), [WIDE], {"alpha": 0.7}),
    Row("Elu", lambda x: F.elu(x, -0.7), [WIDE], {"alpha": -0.7}),
    Row("Celu", lambda x: F.celu(x, 0.7), [WIDE], {"alpha": 0.7}),
    Row("Celu", F.celu, [WIDE]),
    Row("Selu", F.selu, [WIDE]),
    Row("Selu", lambda x: selu(x, -0.5, 1.2), [WIDE], {"alpha": -0.5, "gamma": 1.2}),
    Row("Selu", lambda x: selu(x, 0.5, 1.2), [WIDE], {"alpha": 0.5, "gamma": 1.2}),
    Row("Sigmoid", torch.sigmoid, [WIDE]),
    Row("Tanh", torch.tanh, [WIDE]),
    Row("HardSigmoid", F.hardsigmoid, [WIDE], {"alpha": 1 / 6, "beta": 0.5}),
    Row("HardSigmoid", lambda x: (-0.3 * x + 0.4).clamp(0, 1), [between(-5, 5)],
        {"alpha": -0.3, "beta": 0.4}),
    Row("HardSwish", F.hardswish, [WIDE]),
    Row("Swish", F.silu, [WIDE]),
    Row("Swish", lambda x: x * torch.sigmoid(-1.7 * x), [WIDE], {"alpha": -1.7}),
    Row("Softplus", F.softplus, [WIDE]),
    Row("Softplus", F.softplus, [between(-9, -6)]),
    Row("Softsign", F.softsign, [WIDE]),
    Row("Softsign", F.softsign, [between(90, 99)]),
    Row("Mish", F.mish, [WIDE]),
    Row("Mish", F.mish, [between(-20, -10)]),
    Row("Clip", lambda x: x.clamp(-0.5, 0.5), [EDGE, number(-0.5), number(0.5)], {}, (1, 2)),
    Row("Clip", lambda x: x.clamp(min=0.5), [EDGE, number(0.5)], {}, (1,)),
    Row("Clip", lambda x: x.clamp(max=0.5), [EDGE, None, number(0.5)], {}, (2,)),
    Row("Gelu", F.gelu, [WIDE]),
    Row("Gelu", lambda x: F.gelu(x, approximate="tanh"), [WIDE], {"approximate": "tanh"}),
    Row("Shrink", lambda x: F.hardshrink(x, 0.5), [EDGE], {"lambd": 0.5}),
    Row("Shrink", lambda x: F.softshrink(x, 0.7), [EDGE], {"lambd": 0.7, "bias": 0.7}),
]  # fmt: skip
FUNCTIONS = [
    Row("Erf", torch.erf, [WIDE]),
    Row("Exp", torch.exp, [between(-5, 5)]),
    Row("Log", torch.log, [between(0.01, 9)]),
    Row("Sqrt", torch.sqrt, [between(0.01, 9)]),
    Row("Sqrt", torch.sqrt, [floats(0, 4)]),
    Row("Reciprocal", torch.reciprocal, [WIDE[:30]]),
    Row("Neg", torch.neg, [WIDE]),
    Row("Abs", torch.abs, [WIDE]),
    Row("Sin", torch.sin, [between(-300, 300)]),
    Row("Cos", torch.cos, [between(-300, 300)]),
    Row("Tan", torch.tan, [between(-1.4, 1.4)]),
    Row("Asin", torch.asin, [between(-0.99, 0.99)]),
    Row("Acos", torch.acos, [between(-0.99, 0.99)]),
    Row("Atan", torch.atan, [WIDE]),
    Row("Sinh", torch.sinh, [between(-4, 4)]),
    Row("Cosh", torch.cosh, [between(-4, 4)]),
    Row("Asinh", torch.asinh, [WIDE]),
    Row("Acosh", torch.acosh, [between(1.01, 9)]),
    Row("Atanh", torch.atanh, [between(-0.99, 0.99)]),
    Row("Cast", lambda x: x.float() if x.dtype == torch.float32 else x, [WIDE], {"to": 1}),
]  # fmt: skip
FLAT = [Row(op, lambda x: torch.floor(x), [WIDE]) for op in ("Sign", "Floor", "Ceil", "Round")]


def spread(a: Tensor, *others: Tensor) -> list[Tensor]:
    return list(torch.broadcast_tensors(a, *others))


# Every way of broadcasting two tensors.
PAIRS = [
    ((2, 5, 3), (2, 5, 3)),
    ((2, 5, 3), ()),
    ((), (2, 5, 3)),
    ((2, 5, 3, 2), (5, 1, 1)),
    ((5, 3), (3,)),
    ((2, 1, 3, 1), (1, 5, 1, 2)),
    ((1, 1, 1), (3,)),
    ((2, 1, 2, 1, 3), (1, 3, 1, 2, 1)),
]
BINARY = {
    "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow,
    "Max": torch.maximum, "Min": torch.minimum,
}  # fmt: skip


def pairs(op: str) -> list[Row]:
    low = 0.3 if op in ("Div", "Pow") else -2
    given = ([np.asarray(RNG.uniform(low, 2, s), np.float32) for s in two] for two in PAIRS)
    return [Row(op, BINARY[op], two) for two in given]


TIES = [RNG.integers(0, 3, shape).astype(np.float32) for shape in ((2, 5, 3), (5, 1), (2, 5, 3))]


def amax(*tensors: Tensor) -> Tensor:
    return torch.stack(spread(*tensors)).amax(0)


def amin(*tensors: Tensor) -> Tensor:
    return torch.stack(spread(*tensors)).amin(0)


SIGNED = floats(0, 1, 0.5, 2.5, -1.5, -2)
BASES, EXPONENTS = map(np.ravel, np.meshgrid(SIGNED, floats(0, 1, 2, 3, -1, -2)))
CHOICE = RNG.random((2, 1, 3)) < 0.5


def chosen(a: Tensor, b: Tensor) -> Tensor:
    return torch.where(torch.tensor(CHOICE), a, b)


SEVERAL = [
    Row("Max", torch.maximum, TIES[:2]),
    Row("Min", torch.minimum, TIES[1:]),
    Row("Max", amax, TIES),
    Row("Min", amin, TIES),
    Row("Max", amax, randoms((2, 5, 3), (3,), (1,), (5, 1), (2, 1, 1))),
    Row("Max", lambda x: x * 1, [TIES[0]]),
    Row("Mean", lambda a, b, c: (a + b + c) / 3, randoms((2, 5, 3), (5, 1), (3,))),
    Row("Sum", lambda a, b, c: a + b + c, randoms((2, 5, 3), (5, 1), (3,))),
    Row("Div", torch.div, [floats(0, 1, -2, 1e30), floats(3, -2, 0.1, 1e25)]),
    Row("Mod", torch.fmod, [between(-9, 9), between(0.5, 2, 5, 1)], {"fmod": 1}),
    Row("Mod", torch.fmod, [between(-9, 9), between(-2, -0.5, 3)], {"fmod": 1}),
    Row("PRelu", lambda x, w: torch.where(x > 0, x, x * w), [EDGE, number(0.3)]),
    Row("PRelu", lambda x, w: torch.where(x > 0, x, x * w), [between(-1, 1), between(-1, 1, 5, 1)]),
    Row("Where", chosen, [CHOICE, between(-1, 1, 5, 1), between(-1, 1)]),
    Row("Where", chosen, [CHOICE, number(0.5), between(-1, 1, 1, 5, 3)]),
    *(
        Row("Trilu", along(f, k), [between(-1, 1, 2, 3, 5), np.array(k)], {"upper": upper})
        for k in (-1, 0, 2) for upper, f in ((1, torch.triu), (0, torch.tril))
    ),
    Row("Pow", torch.pow, [BASES, EXPONENTS]),
    *(Row("Pow", along(torch.pow, e), [SIGNED, number(e)], {}, (1,)) for e in (0, 1, 2, 3, -1, -2)),
    *(Row("Pow", along(torch.pow, e), [SIGNED[:4], number(e)], {}, (1,)) for e in (0.5, 1.7, -0.5)),
    Row("Pow", lambda x: x**3, [floats(0, 1, -2.5), np.array(3)]),
    Row("Pow", lambda x: x ** torch.tensor([2, 0, 3]), [between(-2, 2, 5, 3), np.array([2, 0, 3])]),
    Row("Pow", lambda b: 2.0**b, [number(2), between(-2, 2)], {}, (0,)),
]  # fmt: skip

# Reductions.
PARTS = {
    "ReduceSum": torch.sum,
    "ReduceMean": torch.mean,
    "ReduceMax": torch.amax,
    "ReduceMin": torch.amin,
    "ReduceL1": lambda x, axes, keepdim: x.abs().sum(axes, keepdim),
    "ReduceL2": lambda x, axes, keepdim: torch.linalg.vector_norm(x, 2, axes, keepdim),
    "ReduceLogSum": lambda x, axes, keepdim: x.sum(axes, keepdim).log(),
    "ReduceLogSumExp": torch.logsumexp,
    "ReduceSumSquare": lambda x, axes, keepdim: (x * x).sum(axes, keepdim),
    "ReduceProd": lambda x, axes, keepdim: products(x, axes, keepdim),
}


def products(x: Tensor, axes: tuple[int, ...], keepdim: bool) -> Tensor:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim)
    return x


REDUCED = (
    ((2, 5, 3, 4), (2, 3), 1), ((2, 5, 3, 4), (1,), 0), ((2, 5, 3), (0, 2), 0), ((5, 3), (-1,), 1),
    ((7,), (0,), 0), ((2, 3, 2, 3, 2), (1, 3), 1), ((1, 70, 2), (1,), 1), ((2, 1, 3), (1,), 0),
)  # fmt: skip


def reductions(op: str) -> list[Row]:
    low = 0.5 if op in ("ReduceLogSum", "ReduceProd") else -2
    right = PARTS[op]
    rows = [
        Row(op, along(right, axes, bool(keepdims)), [between(low, 2, *shape), ints(*axes)],
            {"keepdims": keepdims})
        for shape, axes, keepdims in REDUCED
    ]  # fmt: skip
    everything = Row(op, along(right, (0, 1, 2), False), [between(low, 2)], {"keepdims": 0})

    def of_one(x: Tensor) -> Tensor:
        return right(x[..., None], (3,), False)

    nothing = Row(op, of_one, [between(low, 2)], {"noop_with_empty_axes": 1})
    return [*rows, everything, nothing]


def shares(scale: float) -> list[Row]:
    shapes = ((2, 5, 3), (5, 7), (4,), (2, 3, 2, 2, 3), (1, 70), (2, 1))
    return [
        Row(op, along(f, axis), [scale * between(-3, 3, *shape)], {"axis": axis})
        for op, f in (("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax))
        for shape in shapes
        for axis in sorted({-1, 0, len(shape) // 2})
    ]


def largest(k: int, axis: int, most: bool = True):
    return lambda x: torch.topk(x, k, axis, most).values


PLACES = ("places",)
SMALLEST = {"axis": 0, "largest": 0}
RANKED = [
    Row("TopK", largest(2, 1), [between(-1, 1), ints(2)], {"axis": 1}, others=PLACES),
    Row("TopK", largest(3, -1), [between(-1, 1, 2, 7), ints(3)], others=PLACES),
    Row("TopK", largest(2, 0, False), [between(-1, 1, 5), ints(2)], SMALLEST, others=PLACES),
    Row("TopK", largest(2, 0, False), [*randoms((5, 2)), ints(2)], SMALLEST, others=PLACES),
    Row("TopK", largest(3, 2), [*randoms((2, 2, 3, 2, 2)), ints(3)], {"axis": 2}, others=PLACES),
]  # fmt: skip
