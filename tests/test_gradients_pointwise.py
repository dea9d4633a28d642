"""Gradients of functions element by element, of reductions and of their kin, beside PyTorch's."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradients import assert_gradients
from nbglcnn.ops import broadcast, cast, pointwise, reduce, softmax, sort
from nbglcnn.ops.operator import NO_RULE
from operator_gradients import Row, assert_rows

FAMILIES = (broadcast, cast, pointwise, reduce, softmax, sort)
RNG = np.random.default_rng(0)
SHAPE = (2, 5, 3)


def between(low: float, high: float, *shape: int) -> np.ndarray:
    return RNG.uniform(low, high, shape or SHAPE).astype(np.float32)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


def number(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


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
    Row("Softsign", F.softsign, [between(900, 1000)]),
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


@pytest.mark.parametrize("rows", [ACTIVATIONS, FUNCTIONS], ids=["activations", "functions"])
def test_functions_of_one_number(rows: list[Row]) -> None:
    assert_rows(rows)


def test_flat_functions_pass_nothing() -> None:
    assert_rows(FLAT)
