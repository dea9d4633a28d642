"""Gemm and MatMul of every rank, with each operand constant or computed."""

import numpy as np
from torch import nn

from cases.case import module, node

RNG = np.random.default_rng(13)


class Classifier(nn.Module):
    """Flattened maps into fully connected layers, as at the end of a classifier."""

    def __init__(self, channels, size, act=nn.ReLU):
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.flatten = nn.Flatten()
        self.hidden = nn.Linear(channels * size[0] * size[1], 17)
        self.norm = nn.BatchNorm1d(17)
        self.act = act()
        self.last = nn.Linear(17, 10, bias=False)

    def forward(self, x):
        return self.last(self.act(self.norm(self.hidden(self.flatten(self.conv(x))))))


class Attention(nn.Module):
    """One attention head: its scores and weighted sum, with the products that a transformer needs."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = nn.Linear(12, 12), nn.Linear(12, 12), nn.Linear(12, 12)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, 3, d // 3).transpose(1, 2) for p in (self.q, self.k, self.v))
        return ((q @ k.transpose(2, 3) / 2).softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)


class ComputedOperands(nn.Module):
    """A product of two computed operands, one in a transposed convolution's layout."""

    def __init__(self):
        super().__init__()
        self.up = nn.ConvTranspose1d(4, 6, 3, 2)

    def forward(self, x, y):
        return self.up(x) @ y, y.T @ self.up(x)[0].T


def inf_weight():
    w = RNG.normal(0, 1, (7, 5)).astype(np.float32)
    w[3, 2] = np.inf
    w[6, 4] = np.nan
    return w


MATMUL_SHAPES = [
    ((4, 5), (5, 3)), ((1, 5), (5, 3)), ((5,), (5, 3)), ((4, 5), (5,)), ((5,), (5,)), ((9, 513), (513, 2)),
    ((3, 5), (5, 513)), ((2, 7, 5), (5, 9)), ((2, 7, 5), (5,)), ((5,), (2, 5, 3)), ((2, 7, 5), (2, 5, 9)),
    ((2, 7, 5), (1, 5, 9)), ((1, 7, 5), (3, 5, 9)), ((2, 3, 7, 5), (2, 3, 5, 9)), ((2, 3, 7, 5), (5, 2)),
    ((2, 1, 7, 6), (1, 3, 6, 9)), ((2, 3, 1, 2, 3, 4), (1, 3, 2, 1, 4, 5)), ((1, 197, 64), (64, 33)),
    ((7, 5), (2, 3, 5, 1)), ((2, 3, 1), (2, 1, 4)),
]  # fmt: skip
GEMM_BIAS_SHAPES = [(), (1,), (5,), (1, 5), (4, 1), (4, 5)]

CASES = [
    module("linear", lambda: nn.Linear(7, 5), (3, 7)),
    module("linear of one row", lambda: nn.Linear(7, 5), (1, 7)),
    module("linear of two rows", lambda: nn.Linear(7, 5), (2, 7)),
    module("linear to one", lambda: nn.Linear(7, 1), (5, 7)),
    module("linear from one", lambda: nn.Linear(1, 6), (5, 1)),
    module("linear without bias", lambda: nn.Linear(513, 6, bias=False), (2, 513)),
    module("linear 5000 to 3", lambda: nn.Linear(5000, 3), (1, 5000)),
    module("linear of a vector", lambda: nn.Linear(7, 5), (7,)),
    module("linear of rank 3", lambda: nn.Linear(7, 5), (2, 3, 7)),
    module("linear of rank 4", lambda: nn.Linear(7, 5), (2, 3, 5, 7)),
    module("linear, ReLU, linear", lambda: nn.Sequential(nn.Linear(9, 33), nn.ReLU(), nn.Linear(33, 4)), (6, 9)),
    *(
        module(f"classifier {size}, batch {n}", lambda size=size: Classifier(6, size), (n, 3, *size))
        for size in ((5, 4), (1, 1), (1, 9)) for n in (1, 2, 5)
    ),
    module("attention", Attention, (2, 5, 12)),
    module("products of computed operands", ComputedOperands, (1, 4, 3), (7, 9)),
    *(
        node(f"Gemm transA={a} transB={b} {'constant' if constant else 'computed'}", "Gemm",
             [(7, 4) if a else (4, 7), (5, 7) if b else (7, 5), (5,)],
             constants=[1, 2] if constant else [], transA=a, transB=b, alpha=0.5, beta=2.5)
        for a in (0, 1) for b in (0, 1) for constant in (False, True)
    ),
    *(node(f"Gemm with C of {c}, constant", "Gemm", [(4, 7), (7, 5), c], constants=[1, 2], beta=0.3) for c in GEMM_BIAS_SHAPES),
    *(node(f"Gemm with C of {c}", "Gemm", [(4, 7), (7, 5), c], constants=[1], beta=0.3) for c in GEMM_BIAS_SHAPES),
    node("Gemm without C", "Gemm", [(4, 7), (7, 5)]),
    node("Gemm with the first constant", "Gemm", [(4, 7), (7, 5)], constants=[0]),
    node("Gemm of 4099 computed", "Gemm", [(2, 4099), (4099, 6)]),
    node("Gemm with Inf and NaN", "Gemm", [(4, 7), inf_weight()], constants=[1]),
    node("MatMul with Inf and NaN", "MatMul", [(2, 3, 7), inf_weight()]),
    *(node(f"MatMul {a} {b}", "MatMul", [a, b]) for a, b in MATMUL_SHAPES),
    *(node(f"MatMul {a} {b} constant", "MatMul", [a, b], constants=[1]) for a, b in MATMUL_SHAPES),
    *(node(f"MatMul {a} constant {b}", "MatMul", [a, b], constants=[0]) for a, b in MATMUL_SHAPES[:12]),
    module("linear to 16390, weights in two layers", lambda: nn.Linear(5, 16390), (3, 5)),
    module("linear of a map to 4100, weights in four layers", lambda: nn.Sequential(nn.Flatten(), nn.Linear(45, 4100)), (1, 5, 3, 3)),
    node("MatMul by computed weights in three layers", "MatMul", [(2, 3), (3, 32790)]),
]  # fmt: skip
