"""Functions of one value, also at the ends of their range and for NaN and Inf."""

import numpy as np
from torch import nn

from cases.case import module, node

SHAPE = (1, 5, 3, 7)
EDGES = np.array(
    [0.0, -0.0, 1e-7, -1e-7, 1e-3, -1e-3, 0.5, -0.5, 1, -1, 3, -3, 6, -6, 20, -20, 100, -100, 1e30, -1e30, np.inf, -np.inf, np.nan],
    np.float32,
).reshape(1, 1, 1, -1)  # fmt: skip

WILD = EDGES[np.isnan(EDGES) | (np.abs(EDGES) != 1e30)].reshape(1, 1, 1, -1)

ACTIVATIONS = [
    nn.ReLU(), nn.LeakyReLU(0.2), nn.ELU(0.7), nn.CELU(0.7), nn.SELU(), nn.GELU(), nn.GELU("tanh"), nn.Hardswish(),
    nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), nn.ReLU6(), nn.Softsign(), nn.Hardtanh(-0.5, 0.7),
]  # fmt: skip

CASES = [
    *(module(f"{a}", lambda a=a: a, SHAPE, scale=3.0) for a in ACTIVATIONS),
    *(
        node(f"{op} at its edges", op, [EDGES])
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
    node("Clip at its edges", "Clip", [EDGES, np.float32(-3), np.float32(6)], constants=[1, 2]),
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
    *(node(f"{op} of NaN and Inf", op, [WILD]) for op in ("Sin", "Cos")),
    node("Sign", "Sign", [SHAPE]),
    node("Swish", "Swish", [SHAPE], opset=24),
    node("ThresholdedRelu", "ThresholdedRelu", [SHAPE], alpha=0.3),
]
