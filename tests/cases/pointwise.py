"""Unary elementwise functions, also at extreme values and for NaN and Inf."""

import numpy as np
from torch import nn

from cases.case import module, node

SHAPE = (1, 5, 3, 7)
EDGE_VALUES = np.array(
    [0.0, -0.0, 1e-7, -1e-7, 1e-3, -1e-3, 0.5, -0.5, 1, -1, 3, -3, 6, -6, 20, -20, 100, -100, 1e30, -1e30, np.inf, -np.inf, np.nan],
    np.float32,
).reshape(1, 1, 1, -1)  # fmt: skip

EXTREME_VALUES = EDGE_VALUES[np.isnan(EDGE_VALUES) | (np.abs(EDGE_VALUES) != 1e30)].reshape(
    1, 1, 1, -1
)

ACTIVATIONS = [
    nn.ReLU(), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.CELU(0.7), nn.SELU(), nn.GELU(), nn.GELU("tanh"), nn.Hardswish(),
    nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), nn.ReLU6(), nn.Softsign(), nn.Hardtanh(-0.5, 0.7),
]  # fmt: skip

CASES = [
    *(module(f"{a}", lambda a=a: a, SHAPE, scale=3.0) for a in ACTIVATIONS),
    *(
        node(f"{op} at its edges", op, [EDGE_VALUES])
        for op in (
            "Relu",
            "LeakyRelu",
            "Elu",
            "Selu",
            "Sigmoid",
            "Tanh",
            "Softplus",
            "HardSigmoid",
            "Abs",
            "Neg",
            "Erf",
            "Ceil",
            "Floor",
            "Exp",
            "Log",
            "Sqrt",
            "Reciprocal",
            "Softsign",
            "Mish",
        )
    ),
    node("Clip with min alone", "Clip", [SHAPE, np.float32(-0.3)], constants=[1]),
    node("Clip with max alone", "Clip", [SHAPE, None, np.float32(0.3)], constants=[2]),
    node(
        "Clip at its edges", "Clip", [EDGE_VALUES, np.float32(-3), np.float32(6)], constants=[1, 2]
    ),
    node("Softplus", "Softplus", [SHAPE]),
    node("Mish", "Mish", [SHAPE]),
    node("Exp", "Exp", [SHAPE]),
    node("Log", "Log", [SHAPE], values=lambda r, s: r.uniform(0.01, 9, s)),
    node("Sqrt", "Sqrt", [SHAPE], values=lambda r, s: r.uniform(0, 9, s)),
    node("Reciprocal", "Reciprocal", [SHAPE]),
    node(
        "Round halves to even",
        "Round",
        [np.array([[-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.3]], np.float32)],
    ),
    *(node(op, op, [SHAPE], values=lambda r, s: r.uniform(-300, 300, s)) for op in ("Sin", "Cos")),
    *(node(f"{op} of NaN and Inf", op, [EXTREME_VALUES]) for op in ("Sin", "Cos")),
    node("Sign", "Sign", [SHAPE]),
    node("Swish", "Swish", [SHAPE], opset=24),
    node("ThresholdedRelu", "ThresholdedRelu", [SHAPE], alpha=0.3),
    *(
        node(op, op, [SHAPE], values=lambda r, s: r.uniform(-1.2, 1.2, s))
        for op in ("Asin", "Acos", "Atanh")
    ),
    *(
        node(f"{op} widely", op, [SHAPE], values=lambda r, s: r.uniform(-9, 9, s))
        for op in ("Atan", "Asinh", "Acosh", "Sinh", "Cosh")
    ),
    *(
        node(f"{op} nearby", op, [SHAPE], values=lambda r, s: r.uniform(-0.9, 0.9, s))
        for op in ("Tan", "Atan", "Asinh", "Sinh", "Cosh")
    ),
    node("Acosh nearby", "Acosh", [SHAPE], values=lambda r, s: r.uniform(1, 1.6, s)),
    *(
        node(f"{op} at its edges", op, [EDGE_VALUES])
        for op in ("Asin", "Acos", "Atan", "Asinh", "Acosh", "Atanh", "Sinh", "Cosh")
    ),
    *(node(f"{op} of 89", op, [np.float32([[88.9, -89, 10, -20.1]])]) for op in ("Sinh", "Cosh")),
    node("Tan of NaN and Inf", "Tan", [EXTREME_VALUES]),
    node("Shrink hard", "Shrink", [SHAPE], lambd=0.7),
    node("Shrink softly at its edges", "Shrink", [EDGE_VALUES], lambd=1.0, bias=0.5),
]
