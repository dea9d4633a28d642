"""All operators, one file per family. Nothing outside this folder knows what an operator does."""

from nbglcnn.ops import (
    broadcast,
    cast,
    concat,
    conv,
    lookup,
    matmul,
    movement,
    norm,
    pad,
    pointwise,
    pool,
    reduce,
    resize,
    sample,
    scatter,
    softmax,
    sort,
    unpool,
)
from nbglcnn.ops.operator import Operator

FAMILIES = (
    broadcast,
    cast,
    concat,
    conv,
    lookup,
    matmul,
    movement,
    norm,
    pad,
    pointwise,
    pool,
    reduce,
    resize,
    sample,
    scatter,
    softmax,
    sort,
    unpool,
)
OPERATORS: dict[str, Operator] = {
    operator.name: operator for family in FAMILIES for operator in family.OPERATORS
}

# Nodes that end in an epilogue, and the unary ones that may stand in it (ops/conv.py, fusion.py).
FUSED_INTO = frozenset({"Conv", "ConvTranspose", "Gemm"})
UNARY = frozenset(pointwise.BY_NAME)
# Unary ones that a convolution may apply to what it reads (ops/conv.py, lower.py).
READ_THROUGH = frozenset(conv.BEFORE)
