"""All operators, one file per family. Only this folder knows the semantics of an operator."""

from nbglcnn.ops import (
    adaptive_pool,
    batch_variance,
    broadcast,
    cast,
    concat,
    conv,
    conv_gradient,
    custom_elementwise,
    gather,
    matmul,
    movement,
    norm,
    pad,
    pointwise,
    pool,
    pool_gradient,
    python_operator,
    reduce,
    resize,
    sample,
    sample_gradient,
    scatter,
    softmax,
    top_k,
    unpool,
)
from nbglcnn.ops.operator import Operator

OPERATOR_MODULES = (
    broadcast,
    cast,
    concat,
    conv,
    gather,
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
    top_k,
    unpool,
)
CUSTOM_OPERATOR_MODULES = (
    adaptive_pool,
    conv_gradient,
    custom_elementwise,
    pool_gradient,
    sample_gradient,
    batch_variance,
)
OPERATORS: dict[str, Operator] = {
    operator.name: operator for family in OPERATOR_MODULES for operator in family.OPERATORS
}
# nbglcnn's own operators, in the domain of that name; model files can't contain them. Most of them
# serve gradients.
CUSTOM_OPERATORS: dict[str, Operator] = {
    operator.name: operator for family in CUSTOM_OPERATOR_MODULES for operator in family.OPERATORS
}
# All operators, and the record for nodes that Python computes.
OPERATOR_RECORDS: dict[str, Operator] = {
    **OPERATORS,
    **CUSTOM_OPERATORS,
    python_operator.PYTHON_OPERATOR.name: python_operator.PYTHON_OPERATOR,
}

# Operators that end in an epilogue, those of them that only take an activation, and the unary
# operators that an epilogue may contain (ops/conv.py, ops/concat.py, fusion.py).
EPILOGUE_OPERATORS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "Concat"})
ACTIVATION_EPILOGUE_OPERATORS = frozenset({"Concat"})
UNARY_OPERATORS = frozenset(pointwise.OPERATORS_BY_NAME)
# Unary operators that a convolution can apply while it reads its input (ops/conv.py, lower.py).
INPUT_ACTIVATIONS = frozenset(conv.INPUT_ACTIVATION_CODES)
