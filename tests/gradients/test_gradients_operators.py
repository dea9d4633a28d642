"""A few nodes of each operator with a rule: their gradients against those of torch functions."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import pointwise_gradients as pointwise
import sampling_gradients as sampling
import scatter_gradients as scatter
from nbglcnn.ops import OPERATOR_MODULES, OPERATORS
from operator_gradients import (
    RNG,
    GradientCase,
    assert_operator_gradients,
    int_vector,
    random_arrays,
    scalar,
    uniform,
)
from torch_layers import (
    DILATED_WINDOW,
    PAD_MODES,
    PADS,
    batch_norm_eval,
    dilated_mean,
    global_lp_pool,
    lp_pool,
    normalize,
    pad_by_mode,
    pad_with_value,
)

RNG_STATE = RNG.bit_generator.state
INPUT_SHAPE = (2, 5, 7, 6)


@pytest.fixture(autouse=True)
def reset_rng() -> None:
    """Make random numbers independent of the tests that run before."""
    RNG.bit_generator.state = RNG_STATE


def even_window_lrn(x: Tensor) -> Tensor:
    """For an even window ONNX puts the longer half after the element, PyTorch before it."""
    around = F.pad(x * x, (0, 0, 0, 0, 1, 2)).unfold(1, 4, 1).sum(-1)
    return x / (1.5 + 0.5 / 4 * around) ** 0.75


CONVOLUTION_CASES = [
    GradientCase("Conv", lambda x, w, b: F.conv2d(x, w, b, 2, 1),
                 random_arrays(INPUT_SHAPE, (3, 5, 3, 2), (3,)),
                 {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
    GradientCase("Conv", lambda x, w: F.conv2d(F.pad(x, (2, 0, 0, 1)), w, None, 1, 0, (1, 2), 5),
                 random_arrays(INPUT_SHAPE, (10, 1, 3, 2)),
                 {"pads": (0, 2, 1, 0), "group": 5, "dilations": (1, 2)}),
    GradientCase("ConvTranspose", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
                 random_arrays(INPUT_SHAPE, (5, 3, 3, 3), (3,)),
                 {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}),
    GradientCase("Gemm", lambda a, b, c: 0.5 * a.T @ b.T + 2 * c,
                 random_arrays((3, 5), (7, 3), (5, 1)),
                 {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}),
    GradientCase("MatMul", torch.matmul, random_arrays((2, 1, 5, 3), (4, 3, 7))),
    GradientCase("MatMul", torch.matmul, random_arrays((3,), (2, 3, 5))),
]  # fmt: skip
NORM_CASES = [
    GradientCase("BatchNormalization", batch_norm_eval,
                 [*random_arrays(INPUT_SHAPE), *(uniform(0.5, 2, 5) for _ in range(4))]),
    GradientCase("InstanceNormalization", lambda x, s, b: F.instance_norm(x, weight=s, bias=b),
                 random_arrays(INPUT_SHAPE, (5,), (5,))),
    GradientCase("GroupNormalization", lambda x, s, b: F.group_norm(x, 3, s, b),
                 random_arrays((2, 6, 3, 5), (6,), (6,)), {"num_groups": 3}),
    GradientCase("LayerNormalization", lambda x, s, b: F.layer_norm(x, (7, 6), s, b),
                 random_arrays(INPUT_SHAPE, (7, 6), (7, 6)), {"axis": 2}),
    GradientCase("RMSNormalization", lambda x, s: F.rms_norm(x, (7, 6), s, 1e-5),
                 random_arrays(INPUT_SHAPE, (7, 6)), {"axis": -2}),
    GradientCase("LpNormalization", lambda x: F.normalize(x, 2, 1), random_arrays(INPUT_SHAPE),
                 {"axis": 1, "p": 2}),
    GradientCase("LpNormalization", lambda x: F.normalize(x, 1, -1), random_arrays(INPUT_SHAPE),
                 {"axis": -1, "p": 1}),
    GradientCase("MeanVarianceNormalization", normalize((0, 2, 3), 1e-9, False),
                 random_arrays(INPUT_SHAPE)),
    GradientCase("MeanVarianceNormalization", normalize((1, 3), 1e-9, False),
                 random_arrays(INPUT_SHAPE), {"axes": (1, 3)}),
    GradientCase("LRN", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1.5),
                 random_arrays(INPUT_SHAPE), {"size": 3, "alpha": 0.5, "bias": 1.5}),
    GradientCase("LRN", even_window_lrn, random_arrays(INPUT_SHAPE),
                 {"size": 4, "alpha": 0.5, "bias": 1.5}),
]  # fmt: skip


# The first of equal ones gets the gradient.
TIED_VALUES = RNG.integers(0, 3, INPUT_SHAPE).astype(np.float32)
POOL_CASES = [
    GradientCase("MaxPool", lambda x: F.max_pool2d(x, (3, 2), 2, 1), random_arrays(INPUT_SHAPE),
                 {"kernel_shape": (3, 2), "strides": (2, 2), "pads": (1, 1, 1, 1)}),
    GradientCase("MaxPool", lambda x: F.max_pool2d(x, 2, 1, 1, 2), [TIED_VALUES],
                 {"kernel_shape": (2, 2), "dilations": (2, 2), "pads": (1, 1, 1, 1)}),
    GradientCase("GlobalMaxPool", lambda x: x.amax((2, 3), keepdim=True),
                 random_arrays(INPUT_SHAPE)),
    GradientCase("AveragePool", lambda x: F.avg_pool2d(x, 3, 2, 1), random_arrays(INPUT_SHAPE),
                 {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1),
                  "count_include_pad": 1}),
    GradientCase("AveragePool", lambda x: dilated_mean(x, False), random_arrays(INPUT_SHAPE),
                 DILATED_WINDOW),
    GradientCase("AveragePool", lambda x: dilated_mean(x, True), random_arrays(INPUT_SHAPE),
                 {**DILATED_WINDOW, "count_include_pad": 1}),
    GradientCase("GlobalAveragePool", lambda x: x.mean((2, 3), keepdim=True),
                 random_arrays(INPUT_SHAPE)),
    *(GradientCase("GlobalLpPool", global_lp_pool(p), random_arrays(INPUT_SHAPE), {"p": p})
      for p in (1, 2, 3)),
    *(
        GradientCase("LpPool", lp_pool(p, (3, 2), 2), random_arrays(INPUT_SHAPE),
                     {"p": p, "kernel_shape": (3, 2), "strides": (2, 2)})
        for p in (1, 2, 3)
    ),
    GradientCase("LpPool", lp_pool(4, (2, 3), 1, 2), random_arrays(INPUT_SHAPE),
                 {"p": 4, "kernel_shape": (2, 3), "dilations": (2, 2)}),
]  # fmt: skip


def depth_to_space(x: Tensor) -> Tensor:
    """ONNX puts the block axes before the channels; pixel_shuffle puts them after."""
    return x.reshape(2, 2, 2, 3, 3, 5).permute(0, 3, 4, 1, 5, 2).reshape(2, 3, 6, 10)


def space_to_depth(x: Tensor) -> Tensor:
    return x.reshape(1, 3, 2, 2, 3, 2).permute(0, 3, 5, 1, 2, 4).reshape(1, 12, 2, 3)


MOVEMENT_CASES = [
    GradientCase("Concat", lambda a, b, c: torch.cat((a, b, c), 1),
                 random_arrays((2, 3, 5), (2, 1, 5), (2, 4, 5)), {"axis": 1}),
    GradientCase("Split", lambda x: x[:, :3], [*random_arrays(INPUT_SHAPE), int_vector(3, 2)],
                 {"axis": 1}, other_outputs=("rest",)),
    GradientCase("Gather", lambda x: x[:, [2, 0, 2, 4]],
                 [*random_arrays(INPUT_SHAPE), int_vector(2, 0, -3, 4)], {"axis": 1}),
    GradientCase("GatherND", lambda x: x[[1, 0, 1], [2, 4, 2]],
                 [*random_arrays(INPUT_SHAPE), np.array([[1, 2], [0, 4], [1, 2]])]),
    GradientCase("GatherElements", lambda x: x.gather(1, torch.tensor([[0, 2, 2], [1, 1, 0]])),
                 [*random_arrays((2, 3)), np.array([[0, 2, 2], [1, 1, 0]])], {"axis": 1}),
    GradientCase("Identity", lambda x: x * 1, random_arrays(INPUT_SHAPE)),
    GradientCase("Dropout", lambda x: x * 1, random_arrays(INPUT_SHAPE)),
    GradientCase("Reshape", lambda x: x.reshape(10, 42),
                 [*random_arrays(INPUT_SHAPE), int_vector(-1, 42)]),
    GradientCase("Flatten", lambda x: x.flatten(2).flatten(0, 1), random_arrays(INPUT_SHAPE),
                 {"axis": 2}),
    GradientCase("Squeeze", lambda x: x.squeeze(1), [*random_arrays((3, 1, 5)), int_vector(1)]),
    GradientCase("Unsqueeze", lambda x: x[:, None], [*random_arrays((3, 5)), int_vector(1)]),
    GradientCase("Transpose", lambda x: x.permute(2, 0, 3, 1), random_arrays(INPUT_SHAPE),
                 {"perm": (2, 0, 3, 1)}),
    GradientCase("Slice", lambda x: x[:, 1:4, ::2],
                 [*random_arrays(INPUT_SHAPE), int_vector(1, 0), int_vector(4, 7), int_vector(1, 2),
                  int_vector(1, 2)]),
    GradientCase("Expand", lambda x: x.expand(2, 3, 4, 5),
                 [*random_arrays((3, 1, 5)), int_vector(2, 3, 4, 5)]),
    GradientCase("Tile", lambda x: x.repeat(1, 2, 3),
                 [*random_arrays((2, 3, 5)), int_vector(1, 2, 3)]),
    GradientCase("DepthToSpace", lambda x: F.pixel_shuffle(x, 2), random_arrays((2, 12, 3, 5)),
                 {"blocksize": 2, "mode": "CRD"}),
    GradientCase("DepthToSpace", depth_to_space, random_arrays((2, 12, 3, 5)), {"blocksize": 2}),
    GradientCase("SpaceToDepth", space_to_depth, random_arrays((1, 3, 4, 6)), {"blocksize": 2}),
    *(GradientCase("Pad", pad_by_mode(mode), [*random_arrays(INPUT_SHAPE), PADS], {"mode": mode})
      for mode in PAD_MODES),
    GradientCase("Pad", pad_with_value, [*random_arrays(INPUT_SHAPE), PADS, scalar(0.7)]),
    GradientCase("CenterCropPad", lambda x: F.pad(x[:, :, 1:6], (1, 2)),
                 [*random_arrays(INPUT_SHAPE), int_vector(5, 9)], {"axes": (2, 3)}),
    GradientCase("CenterCropPad", lambda x: F.pad(x[:, :, 1:5], (0, 0, 1, 1)),
                 [*random_arrays((2, 3, 7)), int_vector(5, 4)], {"axes": (-2, -1)}),
    GradientCase("Resize", lambda x: F.interpolate(x, (9, 11), mode="bilinear"),
                 [*random_arrays(INPUT_SHAPE), None, None, int_vector(2, 5, 9, 11)],
                 {"mode": "linear"}),
    GradientCase("Resize", lambda x: F.interpolate(x, (4, 9), mode="nearest"),
                 [*random_arrays(INPUT_SHAPE), None, None, int_vector(2, 5, 4, 9)],
                 {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
]  # fmt: skip

CASES_BY_FAMILY = {
    "convolutions": CONVOLUTION_CASES,
    "normalizations": NORM_CASES,
    "pools": POOL_CASES,
    "moves": MOVEMENT_CASES,
}
SUPPORT_CASES = [
    *pointwise.ACTIVATION_CASES, *pointwise.FUNCTION_CASES, *pointwise.ZERO_GRADIENT_CASES,
    *pointwise.VARIADIC_CASES,
    *(row for op in pointwise.BINARY_FUNCTIONS for row in pointwise.binary_cases(op)),
    *(row for op in pointwise.REDUCTIONS for row in pointwise.reduction_cases(op)),
    *pointwise.softmax_cases(1), *pointwise.TOPK_CASES,
    *sampling.ROI_ALIGN_CASES, *sampling.COL2IM_CASES, *sampling.MAX_UNPOOL_CASES,
    *sampling.grid_sample_cases("linear", "zeros"),
    *(row for reduction in scatter.REDUCTIONS for row in scatter.scatter_cases(reduction)),
]  # fmt: skip


@pytest.mark.parametrize("rows", CASES_BY_FAMILY.values(), ids=CASES_BY_FAMILY)
def test_nodes_of_each_operator(rows: list[GradientCase]) -> None:
    assert_operator_gradients(rows)


def test_each_operator_with_a_rule_is_among_the_cases() -> None:
    ruled = {name for name, operator in OPERATORS.items() if callable(operator.gradient)}
    rows = [*SUPPORT_CASES, *(row for rows in CASES_BY_FAMILY.values() for row in rows)]
    assert ruled == {row.op for row in rows}


def test_what_has_no_rule_says_why() -> None:
    for family in OPERATOR_MODULES:
        for operator in family.OPERATORS:
            rule = operator.gradient
            assert callable(rule) or len(rule.split()) > 3, operator.name
