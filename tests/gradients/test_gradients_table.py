"""Of each operator with a rule some nodes, their gradients beside those of torch functions."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import pointwise_gradients as pointwise
import sampling_gradients as sampling
import scatter_gradients as scatter
from nbglcnn.ops import FAMILIES, OPERATORS
from operator_gradients import RNG, Row, assert_rows, between, ints, number, randoms
from torch_layers import (
    DILATED,
    MARGINS,
    PADS,
    dilated,
    frozen,
    normal,
    norms,
    padded,
    whole,
    with_margin,
)

STATE = RNG.bit_generator.state
X = (2, 5, 7, 6)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Whichever tests run."""
    RNG.bit_generator.state = STATE


def even_response(x: Tensor) -> Tensor:
    """ONNX has the longer half of an even window behind, PyTorch before."""
    around = F.pad(x * x, (0, 0, 0, 0, 1, 2)).unfold(1, 4, 1).sum(-1)
    return x / (1.5 + 0.5 / 4 * around) ** 0.75


CONVOLUTIONS = [
    Row("Conv", lambda x, w, b: F.conv2d(x, w, b, 2, 1), randoms(X, (3, 5, 3, 2), (3,)),
        {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
    Row("Conv", lambda x, w: F.conv2d(F.pad(x, (2, 0, 0, 1)), w, None, 1, 0, (1, 2), 5),
        randoms(X, (10, 1, 3, 2)), {"pads": (0, 2, 1, 0), "group": 5, "dilations": (1, 2)}),
    Row("ConvTranspose", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
        randoms(X, (5, 3, 3, 3), (3,)),
        {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}),
    Row("Gemm", lambda a, b, c: 0.5 * a.T @ b.T + 2 * c, randoms((3, 5), (7, 3), (5, 1)),
        {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    Row("MatMul", torch.matmul, randoms((2, 1, 5, 3), (4, 3, 7))),
    Row("MatMul", torch.matmul, randoms((3,), (2, 3, 5))),
]  # fmt: skip
NORMS = [
    Row("BatchNormalization", frozen,
        [*randoms(X), *(between(0.5, 2, 5) for _ in range(4))]),
    Row("InstanceNormalization", lambda x, s, b: F.instance_norm(x, weight=s, bias=b),
        randoms(X, (5,), (5,))),
    Row("GroupNormalization", lambda x, s, b: F.group_norm(x, 3, s, b),
        randoms((2, 6, 3, 5), (6,), (6,)), {"num_groups": 3}),
    Row("LayerNormalization", lambda x, s, b: F.layer_norm(x, (7, 6), s, b),
        randoms(X, (7, 6), (7, 6)), {"axis": 2}),
    Row("RMSNormalization", lambda x, s: F.rms_norm(x, (7, 6), s, 1e-5),
        randoms(X, (7, 6)), {"axis": -2}),
    Row("LpNormalization", lambda x: F.normalize(x, 2, 1), randoms(X), {"axis": 1, "p": 2}),
    Row("LpNormalization", lambda x: F.normalize(x, 1, -1), randoms(X), {"axis": -1, "p": 1}),
    Row("MeanVarianceNormalization", normal((0, 2, 3), 1e-9, False), randoms(X)),
    Row("MeanVarianceNormalization", normal((1, 3), 1e-9, False), randoms(X), {"axes": (1, 3)}),
    Row("LRN", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1.5), randoms(X),
        {"size": 3, "alpha": 0.5, "bias": 1.5}),
    Row("LRN", even_response, randoms(X), {"size": 4, "alpha": 0.5, "bias": 1.5}),
]  # fmt: skip


FEW = RNG.integers(0, 3, X).astype(np.float32)  # the first of equal ones has the gradient
POOLS = [
    Row("MaxPool", lambda x: F.max_pool2d(x, (3, 2), 2, 1), randoms(X),
        {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    Row("MaxPool", lambda x: F.max_pool2d(x, 2, 1, 1, 2), [FEW],
        {"kernel_shape": (2, 2), "dilations": (2, 2), "pads": (1, 1, 1, 1)}),
    Row("GlobalMaxPool", lambda x: x.amax((2, 3), keepdim=True), randoms(X)),
    Row("AveragePool", lambda x: F.avg_pool2d(x, 3, 2, 1), randoms(X),
        {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "count_include_pad": 1}),
    Row("AveragePool", lambda x: dilated(x, False), randoms(X), DILATED),
    Row("AveragePool", lambda x: dilated(x, True), randoms(X), {**DILATED, "count_include_pad": 1}),
    Row("GlobalAveragePool", lambda x: x.mean((2, 3), keepdim=True), randoms(X)),
    *(Row("GlobalLpPool", whole(p), randoms(X), {"p": p}) for p in (1, 2, 3)),
    *(
        Row("LpPool", norms(p, (3, 2), 2), randoms(X),
            {"p": p, "kernel_shape": (3, 2), "strides": (2, 2)})
        for p in (1, 2, 3)
    ),
    Row("LpPool", norms(4, (2, 3), 1, 2), randoms(X),
        {"p": 4, "kernel_shape": (2, 3), "dilations": (2, 2)}),
]  # fmt: skip


def spread(x: Tensor) -> Tensor:
    """Blocks come first among the channels; pixel_shuffle has them last."""
    return x.reshape(2, 2, 2, 3, 3, 5).permute(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 10)


def packed(x: Tensor) -> Tensor:
    return x.reshape(1, 3, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 12, 2, 3)


MOVED = [
    Row("Concat", lambda a, b, c: torch.cat((a, b, c), 1), randoms((2, 3, 5), (2, 1, 5), (2, 4, 5)),
        {"axis": 1}),
    Row("Split", lambda x: x[:, :3], [*randoms(X), ints(3, 2)], {"axis": 1}, others=("rest",)),
    Row("Gather", lambda x: x[:, [2, 0, 2, 4]], [*randoms(X), ints(2, 0, -3, 4)], {"axis": 1}),
    Row("GatherND", lambda x: x[[1, 0, 1], [2, 4, 2]],
        [*randoms(X), np.array([[1, 2], [0, 4], [1, 2]])]),
    Row("GatherElements", lambda x: x.gather(1, torch.tensor([[0, 2, 2], [1, 1, 0]])),
        [*randoms((2, 3)), np.array([[0, 2, 2], [1, 1, 0]])], {"axis": 1}),
    Row("Identity", lambda x: x * 1, randoms(X)),
    Row("Dropout", lambda x: x * 1, randoms(X)),
    Row("Reshape", lambda x: x.reshape(10, 42), [*randoms(X), ints(-1, 42)]),
    Row("Flatten", lambda x: x.flatten(2).flatten(0, 1), randoms(X), {"axis": 2}),
    Row("Squeeze", lambda x: x.squeeze(1), [*randoms((3, 1, 5)), ints(1)]),
    Row("Unsqueeze", lambda x: x[:, None], [*randoms((3, 5)), ints(1)]),
    Row("Transpose", lambda x: x.permute(2, 0, 3, 1), randoms(X), {"perm": (2, 0, 3, 1)}),
    Row("Slice", lambda x: x[:, 1:4, ::2],
        [*randoms(X), ints(1, 0), ints(4, 7), ints(1, 2), ints(1, 2)]),
    Row("Expand", lambda x: x.expand(2, 3, 4, 5), [*randoms((3, 1, 5)), ints(2, 3, 4, 5)]),
    Row("Tile", lambda x: x.repeat(1, 2, 3), [*randoms((2, 3, 5)), ints(1, 2, 3)]),
    Row("DepthToSpace", lambda x: F.pixel_shuffle(x, 2), randoms((2, 12, 3, 5)),
        {"blocksize": 2, "mode": "CRD"}),
    Row("DepthToSpace", spread, randoms((2, 12, 3, 5)), {"blocksize": 2}),
    Row("SpaceToDepth", packed, randoms((1, 3, 4, 6)), {"blocksize": 2}),
    *(Row("Pad", padded(mode), [*randoms(X), PADS], {"mode": mode}) for mode in MARGINS),
    Row("Pad", with_margin, [*randoms(X), PADS, number(0.7)]),
    Row("CenterCropPad", lambda x: F.pad(x[:, :, 1:6], (1, 2)), [*randoms(X), ints(5, 9)],
        {"axes": (2, 3)}),
    Row("CenterCropPad", lambda x: F.pad(x[:, :, 1:5], (0, 0, 1, 1)),
        [*randoms((2, 3, 7)), ints(5, 4)], {"axes": (-2, -1)}),
    Row("Resize", lambda x: F.interpolate(x, (9, 11), mode="bilinear"),
        [*randoms(X), None, None, ints(2, 5, 9, 11)], {"mode": "linear"}),
    Row("Resize", lambda x: F.interpolate(x, (4, 9), mode="nearest"),
        [*randoms(X), None, None, ints(2, 5, 4, 9)],
        {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
]  # fmt: skip

TABLE = {"convolutions": CONVOLUTIONS, "normalizations": NORMS, "pools": POOLS, "moves": MOVED}
OTHERS = [
    *pointwise.ACTIVATIONS, *pointwise.FUNCTIONS, *pointwise.FLAT, *pointwise.SEVERAL,
    *(row for op in pointwise.BINARY for row in pointwise.pairs(op)),
    *(row for op in pointwise.PARTS for row in pointwise.reductions(op)),
    *pointwise.shares(1), *pointwise.RANKED,
    *sampling.REGIONS, *sampling.WINDOWS, *sampling.UNPOOLED, *sampling.mixed("linear", "zeros"),
    *(row for reduction in scatter.REDUCTIONS for row in scatter.scattered(reduction)),
]  # fmt: skip


@pytest.mark.parametrize("rows", TABLE.values(), ids=TABLE)
def test_nodes_of_each_operator(rows: list[Row]) -> None:
    assert_rows(rows)


def test_each_operator_with_a_rule_is_among_the_cases() -> None:
    ruled = {name for name, operator in OPERATORS.items() if callable(operator.gradient)}
    rows = [*OTHERS, *(row for rows in TABLE.values() for row in rows)]
    assert ruled == {row.op for row in rows}


def test_what_has_no_rule_says_why() -> None:
    for family in FAMILIES:
        for operator in family.OPERATORS:
            rule = operator.gradient
            assert callable(rule) or len(rule.split()) > 3, operator.name
