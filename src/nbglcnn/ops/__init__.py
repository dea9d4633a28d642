"""All operators, one file per family. Nothing outside this folder knows what an operator does."""

from nbglcnn.ops import (
    adaptive_pool,
    broadcast,
    cast,
    concat,
    conv,
    conv_gradient,
    lookup,
    matmul,
    movement,
    norm,
    own,
    pad,
    pointwise,
    pool,
    pool_gradient,
    python,
    reduce,
    resize,
    sample,
    sample_gradient,
    scatter,
    softmax,
    sort,
    unpool,
    variance,
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
OWN_FAMILIES = (adaptive_pool, conv_gradient, own, pool_gradient, sample_gradient, variance)
OPERATORS: dict[str, Operator] = {
    operator.name: operator for family in FAMILIES for operator in family.OPERATORS
}
# Those of nbglcnn's own, in the domain of that name: no file can have them. Gradients need most.
OWN_OPERATORS: dict[str, Operator] = {
    operator.name: operator for family in OWN_FAMILIES for operator in family.OPERATORS
}
# Those, and the one that is no operator at all: what Python computes.
RECORDS: dict[str, Operator] = {**OPERATORS, **OWN_OPERATORS, python.RECORD.name: python.RECORD}

# Nodes that end in an epilogue, those of them that only take an activation, and the unary ones that
# may stand there (ops/conv.py, ops/concat.py, fusion.py).
FUSED_INTO = frozenset({"Conv", "ConvTranspose", "Gemm", "Concat"})
ONLY_ACTIVATED = frozenset({"Concat"})
UNARY = frozenset(pointwise.BY_NAME)
# Unary ones that a convolution may apply to what it reads (ops/conv.py, lower.py).
READ_THROUGH = frozenset(conv.BEFORE)
