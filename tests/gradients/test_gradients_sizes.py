"""Gradients of every operator with a rule, for batches of 2, 3 and 5 and maps of 9 to 56 pixels.

Sizes that small cases don't reach: a scatter of thousands of rows takes several passes, a map's
rows don't fill blocks, images don't fill a texture's layers.
"""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import pointwise_gradients as pointwise
import sampling_gradients as sampling
import scatter_gradients as scatter
import torch_layers as layers
from gradient_checks import assert_gradients
from nbglcnn.ops import OPERATORS
from operator_gradients import (
    RNG,
    GradientCase,
    assert_operator_gradients,
    int_vector,
    random_arrays,
    scalar,
    uniform,
    with_arguments,
)

RNG_STATE = RNG.bit_generator.state
Size = tuple[int, int, int]  # images, rows, columns
FEW_SIZES: list[Size] = [(2, 40, 55), (3, 41, 28), (5, 33, 48)]
MANY_SIZES: list[Size] = [
    (2, 9, 9), (2, 56, 56), (2, 13, 50), (3, 9, 56), (3, 55, 54), (3, 40, 56), (5, 56, 9),
    (5, 23, 31), (5, 47, 49),
]  # fmt: skip
SIZES = [*FEW_SIZES, *(pytest.param(size, marks=pytest.mark.sweep) for size in MANY_SIZES)]


@pytest.fixture(autouse=True)
def reset_rng() -> None:
    """Make random numbers independent of the tests that run before."""
    RNG.bit_generator.state = RNG_STATE


def unary_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    """Unary operators, each over the range of its small case."""
    for row in (
        *pointwise.ACTIVATION_CASES,
        *pointwise.FUNCTION_CASES,
        *pointwise.ZERO_GRADIENT_CASES,
    ):
        x, *others = row.inputs
        numbers = uniform(float(x.min()), float(x.max()), n, 3, h, w)
        yield GradientCase(
            row.op, row.reference, [numbers, *others], row.attributes, row.constant_input_indices
        )


def variadic_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    """Operators of several tensors, which are broadcast."""
    shape = (n, 3, h, w)
    for op, right in pointwise.BINARY_FUNCTIONS.items():
        low = 0.3 if op in ("Div", "Pow") else -2
        for other in (shape, (3, 1, 1), (w,), (h, 1)):
            yield GradientCase(op, right, [uniform(low, 2, *shape), uniform(low, 2, *other)])
        yield GradientCase(op, right, [uniform(low, 2, n, 1, h, 1), uniform(low, 2, 3, 1, w)])
    yield GradientCase(
        "Mean", lambda a, b, c: (a + b + c) / 3, random_arrays(shape, (h, 1), (3, 1, w))
    )
    yield GradientCase("Sum", lambda a, b, c: a + b + c, random_arrays(shape, (h, 1), (3, 1, w)))
    yield GradientCase(
        "Mod", torch.fmod, [uniform(-9, 9, *shape), uniform(0.5, 2, h, 1)], {"fmod": 1}
    )
    slopes = [uniform(-1, 1, *shape), uniform(-1, 1, 3, 1, 1)]
    yield GradientCase("PRelu", lambda x, w: torch.where(x > 0, x, x * w), slopes)
    choice = RNG.random((n, 1, h, 1)) < 0.5
    chosen = [choice, uniform(-1, 1, 3, 1, w), uniform(-1, 1, *shape)]
    yield GradientCase("Where", lambda a, b: torch.where(torch.tensor(choice), a, b), chosen)
    for upper, cut in ((1, torch.triu), (0, torch.tril)):
        yield GradientCase(
            "Trilu", with_arguments(cut, 3), [uniform(-1, 1, *shape), np.array(3)], {"upper": upper}
        )


def reduction_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    for op, right in pointwise.REDUCTIONS.items():
        low, high = {"ReduceProd": (0.98, 1.02), "ReduceLogSum": (0.5, 2)}.get(op, (-2, 2))
        for axes in ((2, 3), (1,), (0, 2), (3,)):
            x = [uniform(low, high, n, 3, h, w), int_vector(*axes)]
            yield GradientCase(op, with_arguments(right, axes, False), x, {"keepdims": 0})
    for op, right in (("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax)):
        for axis in (1, 2, 3):
            yield GradientCase(
                op, with_arguments(right, axis), [uniform(-3, 3, n, 5, h, w)], {"axis": axis}
            )
    for axis in (2, 3):
        best = [*random_arrays((n, 2, h, w)), int_vector(5)]
        largest = pointwise.topk_values(5, axis)
        yield GradientCase(
            "TopK", largest, best, {"axis": axis}, other_outputs=pointwise.INDEX_OUTPUT
        )


def convolution_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    x = (n, 5, h, w)
    yield GradientCase("Conv", lambda x, w, b: F.conv2d(x, w, b, 2, 1),
                       random_arrays(x, (3, 5, 3, 2), (3,)),
                       {"strides": (2, 2), "pads": (1, 1, 1, 1)})  # fmt: skip
    yield GradientCase("Conv", lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 2),
                       random_arrays((n, 4, h, w), (6, 2, 3, 3)),
                       {"pads": (1, 1, 1, 1), "group": 2})  # fmt: skip
    yield GradientCase("Conv", lambda x, w: F.conv2d(x, w, None, 1, 0, (1, 2), 5),
                       random_arrays(x, (10, 1, 3, 2)),
                       {"group": 5, "dilations": (1, 2)})  # fmt: skip
    yield GradientCase("ConvTranspose", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
                       random_arrays(x, (5, 3, 3, 3), (3,)),
                       {"strides": (2, 2), "pads": (1, 1, 1, 1),
                        "output_padding": (1, 1)})  # fmt: skip
    yield GradientCase("Gemm", lambda a, b, c: a @ b.T + c, random_arrays((n * h, w), (7, w), (7,)),
                       {"transB": 1})  # fmt: skip
    yield GradientCase("MatMul", torch.matmul, random_arrays((n, 1, h, w), (3, w, 7)))
    yield GradientCase("MatMul", torch.matmul, random_arrays((n, h, w), (n, w, h)))


def norm_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    x = (n, 6, h, w)
    yield GradientCase("BatchNormalization", layers.batch_norm_eval,
                       [*random_arrays(x), *(uniform(0.5, 2, 6) for _ in range(4))])  # fmt: skip
    yield GradientCase("InstanceNormalization",
                       lambda x, s, b: F.instance_norm(x, weight=s, bias=b),
                       random_arrays(x, (6,), (6,)))  # fmt: skip
    yield GradientCase("GroupNormalization", lambda x, s, b: F.group_norm(x, 3, s, b),
                       random_arrays(x, (6,), (6,)), {"num_groups": 3})  # fmt: skip
    yield GradientCase("LayerNormalization", lambda x, s, b: F.layer_norm(x, (h, w), s, b),
                       random_arrays(x, (h, w), (h, w)), {"axis": 2})  # fmt: skip
    yield GradientCase("RMSNormalization", lambda x, s: F.rms_norm(x, (w,), s, 1e-5),
                       random_arrays(x, (w,)), {"axis": -1})  # fmt: skip
    yield GradientCase(
        "LpNormalization", lambda x: F.normalize(x, 2, 1), random_arrays(x), {"axis": 1, "p": 2}
    )
    axes = (0, 2, 3)
    yield GradientCase(
        "MeanVarianceNormalization", layers.normalize(axes, 1e-9, False), random_arrays(x)
    )
    yield GradientCase("LRN", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1.5),
                       random_arrays(x), {"size": 3, "alpha": 0.5, "bias": 1.5})  # fmt: skip


def pool_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    x = (n, 3, h, w)
    for side in (2, 3, 7, 9):
        window = {"kernel_shape": (side, side), "pads": (side // 2,) * 4}
        for stride in (1, 2):
            pads = (side, stride, side // 2)
            strides = {**window, "strides": (stride, stride)}
            yield GradientCase(
                "MaxPool", with_arguments(F.max_pool2d, *pads), random_arrays(x), strides
            )
            padded = {**strides, "count_include_pad": 1}
            yield GradientCase(
                "AveragePool", with_arguments(F.avg_pool2d, *pads), random_arrays(x), padded
            )
    yield GradientCase(
        "AveragePool",
        lambda x: layers.dilated_mean(x, False),
        random_arrays(x),
        layers.DILATED_WINDOW,
    )
    equal = RNG.integers(0, 3, x).astype(np.float32)  # the first of equal ones gets the gradient
    nine = {"kernel_shape": (9, 9)}
    yield GradientCase("MaxPool", with_arguments(F.max_pool2d, 9, 1), [equal], nine)
    yield GradientCase("GlobalMaxPool", with_arguments(F.adaptive_max_pool2d, 1), [equal])
    yield GradientCase("GlobalMaxPool", with_arguments(F.adaptive_max_pool2d, 1), random_arrays(x))
    yield GradientCase(
        "GlobalAveragePool", lambda x: x.mean((2, 3), keepdim=True), random_arrays(x)
    )
    yield GradientCase("GlobalLpPool", layers.global_lp_pool(2), random_arrays(x), {"p": 2})
    yield GradientCase("LpPool", layers.lp_pool(2, (3, 2), 2), random_arrays(x),
                       {"p": 2, "kernel_shape": (3, 2), "strides": (2, 2)})  # fmt: skip


def random_indices(*lengths: int, rows: tuple[int, ...]) -> np.ndarray:
    """Random indices, some negative, with one row repeated."""
    places = np.stack([RNG.integers(-length, length, rows) for length in lengths], -1)
    places.reshape(-1, len(lengths))[-1] = places.reshape(-1, len(lengths))[0]
    return places


def gather_rows(indices: np.ndarray) -> Callable[[Tensor], Tensor]:
    return lambda x: x[tuple(torch.tensor(one) for one in np.moveaxis(indices, -1, 0))]


def indexing_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    """Gathers along an axis, by rows of indices of every length, and of single elements."""
    x = (n, 3, h, w)
    for axis, length in enumerate(x):
        at = RNG.integers(-length, length, (4, 7))

        def taken(x: Tensor, axis: int = axis, at: np.ndarray = at) -> Tensor:
            places = torch.tensor(at % x.shape[axis]).flatten()
            return x.index_select(axis, places).unflatten(axis, (4, 7))

        yield GradientCase("Gather", taken, [*random_arrays(x), at], {"axis": axis})
    for count in range(1, 5):
        places = random_indices(*x[:count], rows=(h, 5))
        yield GradientCase("GatherND", gather_rows(places), [*random_arrays(x), places])
    many = random_indices(h, w, rows=(h, w))
    yield GradientCase("GatherND", gather_rows(many), [*random_arrays((h, w, 2)), many])
    alone = random_indices(h * w, rows=(2 * h * w,))
    yield GradientCase("GatherND", gather_rows(alone), [*random_arrays((h * w,)), alone])
    own = RNG.integers(0, h, (n, w, 2 * h))

    def by_image(x: Tensor) -> Tensor:
        return torch.stack([x[i][torch.tensor(own[i])] for i in range(n)])

    batched = [*random_arrays((n, h, 3)), own[..., None]]
    yield GradientCase("GatherND", by_image, batched, {"batch_dims": 1})
    elements = RNG.integers(0, h, (n, 3, 2 * h, w))
    yield GradientCase("GatherElements", lambda x: x.gather(2, torch.tensor(elements)),
                       [*random_arrays(x), elements], {"axis": 2})  # fmt: skip


def movement_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    x = (n, 3, h, w)
    yield GradientCase(
        "Concat", lambda a, b: torch.cat((a, b), 2), random_arrays(x, (n, 3, 5, w)), {"axis": 2}
    )
    yield GradientCase("Split", lambda x: x[:, :, :4], [*random_arrays(x), int_vector(4, h - 4)],
                       {"axis": 2}, other_outputs=("rest",))  # fmt: skip
    yield GradientCase("Identity", lambda x: x * 1, random_arrays(x))
    yield GradientCase("Dropout", lambda x: x * 1, random_arrays(x))
    yield GradientCase(
        "Reshape", lambda x: x.reshape(w, -1), [*random_arrays(x), int_vector(w, -1)]
    )
    yield GradientCase(
        "Flatten", lambda x: x.flatten(2).flatten(0, 1), random_arrays(x), {"axis": 2}
    )
    yield GradientCase(
        "Squeeze", lambda x: x.squeeze(1), [*random_arrays((n, 1, h, w)), int_vector(1)]
    )
    yield GradientCase("Unsqueeze", lambda x: x[:, None], [*random_arrays(x), int_vector(1)])
    yield GradientCase(
        "Transpose", lambda x: x.permute(2, 0, 3, 1), random_arrays(x), {"perm": (2, 0, 3, 1)}
    )
    cut = [int_vector(1, 0, 3), int_vector(3, h, w), int_vector(1, 2, 3), int_vector(1, 2, 1)]
    yield GradientCase("Slice", lambda x: x[:, 1:, ::2, 3:], [*random_arrays(x), *cut])
    yield GradientCase(
        "Expand",
        lambda x: x.expand(n, 3, h, w),
        [*random_arrays((3, 1, w)), int_vector(n, 3, h, w)],
    )
    yield GradientCase(
        "Tile", lambda x: x.repeat(1, 2, 3, 1), [*random_arrays(x), int_vector(1, 2, 3, 1)]
    )
    yield GradientCase("DepthToSpace", lambda x: F.pixel_shuffle(x, 2),
                       random_arrays((n, 12, h, w)), {"blocksize": 2, "mode": "CRD"})  # fmt: skip

    def packed(x: Tensor) -> Tensor:
        rows = x.reshape(n, 3, h // 2, 2, w // 2, 2)
        return rows.permute(0, 3, 5, 1, 2, 4).reshape(n, 12, h // 2, w // 2)

    even = (n, 3, h // 2 * 2, w // 2 * 2)
    yield GradientCase("SpaceToDepth", packed, random_arrays(even), {"blocksize": 2})
    for mode in layers.PAD_MODES:
        yield GradientCase(
            "Pad", layers.pad_by_mode(mode), [*random_arrays(x), layers.PADS], {"mode": mode}
        )
    yield GradientCase("Pad", layers.pad_with_value, [*random_arrays(x), layers.PADS, scalar(0.7)])
    yield GradientCase("CenterCropPad", lambda x: F.pad(x[:, :, 1 : h - 1], (1, 1)),
                       [*random_arrays(x), int_vector(h - 2, w + 2)], {"axes": (2, 3)})  # fmt: skip
    for mode, name in (("linear", "bilinear"), ("cubic", "bicubic")):
        for size in ((h + 7, 2 * w), (5, 7)):
            yield GradientCase("Resize", with_arguments(F.interpolate, size, None, name),
                               [*random_arrays(x), None, None, int_vector(n, 3, *size)],
                               {"mode": mode})  # fmt: skip


def sampling_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    x = uniform(-1, 1, n, 3, h, w)
    yield sampling.grid_sample_case("linear", "zeros", 0, x, uniform(-1.3, 1.3, n, w, h, 2))
    yield sampling.grid_sample_case("cubic", "border", 1, x, uniform(-1.3, 1.3, n, 9, 11, 2))
    yield sampling.roi_align_case((n, 3, h, w), 2 * n, (3, 2), scale=h / 12)
    yield sampling.col2im_case((3, 3), (2, 1), (1, 1), (1, 1), (h // 2, w), 3)
    small = (n, 1, h // 4, w // 4)
    places = RNG.permutation(4 * math.prod(small))[: math.prod(small)]
    yield sampling.max_unpool_case(small, places.tolist(), (n, 1, h // 4 * 2, w // 4 * 2))


def scatter_cases(n: int, h: int, w: int) -> Iterator[GradientCase]:
    for reduction in scatter.REDUCTIONS:
        yield scatter.scatter_elements_case(reduction, (n, h, w), 2, w, scatter.uniform_values)
        yield scatter.scatter_nd_case(reduction, (h, w), 2, (h, w // 2), scatter.uniform_values)
        yield scatter.scatter_nd_case(reduction, (h, 3, w), 1, (h,), scatter.uniform_values)


CASE_FAMILIES = (
    unary_cases, variadic_cases, reduction_cases, convolution_cases, norm_cases, pool_cases,
    indexing_cases, movement_cases, sampling_cases, scatter_cases,
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("family", CASE_FAMILIES, ids=lambda family: family.__name__)
def test_gradients_of_batches_of_maps(
    family: Callable[..., Iterator[GradientCase]], size: Size
) -> None:
    assert_operator_gradients(list(family(*size)))


def test_each_operator_with_a_rule_is_among_the_families() -> None:
    ruled = {name for name, operator in OPERATORS.items() if callable(operator.gradient)}
    assert ruled == {row.op for family in CASE_FAMILIES for row in family(2, 9, 9)}


class AdaptivePools(nn.Module):
    """Adaptive pools, which ONNX lacks, squared: each element has a different gradient."""

    def __init__(self, places: tuple[int, int]) -> None:
        super().__init__()
        self.places = places

    def forward(self, x: Tensor) -> Tensor:
        mean = F.adaptive_avg_pool2d(x, self.places)
        area = F.interpolate(x, self.places, mode="area")
        return mean**2 + F.adaptive_max_pool2d(x, self.places) ** 2 + area**3


@pytest.mark.parametrize("places", [(3, 5), (3, 7), (4, 5), (7, 7), (2, 2), (60, 11)], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
def test_gradients_of_adaptive_pools(size: Size, places: tuple[int, int]) -> None:
    n, h, w = size
    torch.manual_seed(0)
    assert_gradients(AdaptivePools(places), torch.randn(n, 3, h, w))
