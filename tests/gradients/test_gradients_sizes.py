"""Gradients of every operator with a rule, of batches of 2, 3 and 5 and maps of 9 to 56 pixels.

A scatter of thousands of rows takes several passes, a map's lines don't fill blocks, images don't
fill a texture's layers: what small cases never meet.
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
from gradients import assert_gradients
from nbglcnn.ops import OPERATORS
from operator_gradients import RNG, Row, along, assert_rows, between, ints, number, randoms

STATE = RNG.bit_generator.state
Size = tuple[int, int, int]  # images, rows, columns
FEW: list[Size] = [(2, 40, 55), (3, 41, 28), (5, 33, 48)]
MANY: list[Size] = [
    (2, 9, 9), (2, 56, 56), (2, 13, 50), (3, 9, 56), (3, 55, 54), (3, 40, 56), (5, 56, 9),
    (5, 23, 31), (5, 47, 49),
]  # fmt: skip
SIZES = [*FEW, *(pytest.param(size, marks=pytest.mark.sweep) for size in MANY)]


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Whichever tests run."""
    RNG.bit_generator.state = STATE


def functions(n: int, h: int, w: int) -> Iterator[Row]:
    """Of one number, each over the range of its small case."""
    for row in (*pointwise.ACTIVATIONS, *pointwise.FUNCTIONS, *pointwise.FLAT):
        x, *others = row.inputs
        numbers = between(float(x.min()), float(x.max()), n, 3, h, w)
        yield Row(row.op, row.right, [numbers, *others], row.attributes, row.constants)


def several(n: int, h: int, w: int) -> Iterator[Row]:
    """Of several tensors, which are broadcast."""
    shape = (n, 3, h, w)
    for op, right in pointwise.BINARY.items():
        low = 0.3 if op in ("Div", "Pow") else -2
        for other in (shape, (3, 1, 1), (w,), (h, 1)):
            yield Row(op, right, [between(low, 2, *shape), between(low, 2, *other)])
        yield Row(op, right, [between(low, 2, n, 1, h, 1), between(low, 2, 3, 1, w)])
    yield Row("Mean", lambda a, b, c: (a + b + c) / 3, randoms(shape, (h, 1), (3, 1, w)))
    yield Row("Sum", lambda a, b, c: a + b + c, randoms(shape, (h, 1), (3, 1, w)))
    yield Row("Mod", torch.fmod, [between(-9, 9, *shape), between(0.5, 2, h, 1)], {"fmod": 1})
    slopes = [between(-1, 1, *shape), between(-1, 1, 3, 1, 1)]
    yield Row("PRelu", lambda x, w: torch.where(x > 0, x, x * w), slopes)
    choice = RNG.random((n, 1, h, 1)) < 0.5
    chosen = [choice, between(-1, 1, 3, 1, w), between(-1, 1, *shape)]
    yield Row("Where", lambda a, b: torch.where(torch.tensor(choice), a, b), chosen)
    for upper, cut in ((1, torch.triu), (0, torch.tril)):
        yield Row("Trilu", along(cut, 3), [between(-1, 1, *shape), np.array(3)], {"upper": upper})


def reductions(n: int, h: int, w: int) -> Iterator[Row]:
    for op, right in pointwise.PARTS.items():
        low, high = {"ReduceProd": (0.98, 1.02), "ReduceLogSum": (0.5, 2)}.get(op, (-2, 2))
        for axes in ((2, 3), (1,), (0, 2), (3,)):
            x = [between(low, high, n, 3, h, w), ints(*axes)]
            yield Row(op, along(right, axes, False), x, {"keepdims": 0})
    for op, right in (("Softmax", torch.softmax), ("LogSoftmax", torch.log_softmax)):
        for axis in (1, 2, 3):
            yield Row(op, along(right, axis), [between(-3, 3, n, 5, h, w)], {"axis": axis})
    for axis in (2, 3):
        best = [*randoms((n, 2, h, w)), ints(5)]
        largest = pointwise.largest(5, axis)
        yield Row("TopK", largest, best, {"axis": axis}, others=pointwise.PLACES)


def convolutions(n: int, h: int, w: int) -> Iterator[Row]:
    x = (n, 5, h, w)
    yield Row("Conv", lambda x, w, b: F.conv2d(x, w, b, 2, 1), randoms(x, (3, 5, 3, 2), (3,)),
              {"strides": (2, 2), "pads": (1, 1, 1, 1)})  # fmt: skip
    yield Row("Conv", lambda x, w: F.conv2d(x, w, None, 1, 1, 1, 2),
              randoms((n, 4, h, w), (6, 2, 3, 3)), {"pads": (1, 1, 1, 1), "group": 2})  # fmt: skip
    yield Row("Conv", lambda x, w: F.conv2d(x, w, None, 1, 0, (1, 2), 5),
              randoms(x, (10, 1, 3, 2)), {"group": 5, "dilations": (1, 2)})  # fmt: skip
    yield Row("ConvTranspose", lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1),
              randoms(x, (5, 3, 3, 3), (3,)),
              {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)})  # fmt: skip
    yield Row("Gemm", lambda a, b, c: a @ b.T + c, randoms((n * h, w), (7, w), (7,)),
              {"transB": 1})  # fmt: skip
    yield Row("MatMul", torch.matmul, randoms((n, 1, h, w), (3, w, 7)))
    yield Row("MatMul", torch.matmul, randoms((n, h, w), (n, w, h)))


def norms(n: int, h: int, w: int) -> Iterator[Row]:
    x = (n, 6, h, w)
    yield Row("BatchNormalization", layers.frozen,
              [*randoms(x), *(between(0.5, 2, 6) for _ in range(4))])  # fmt: skip
    yield Row("InstanceNormalization", lambda x, s, b: F.instance_norm(x, weight=s, bias=b),
              randoms(x, (6,), (6,)))  # fmt: skip
    yield Row("GroupNormalization", lambda x, s, b: F.group_norm(x, 3, s, b),
              randoms(x, (6,), (6,)), {"num_groups": 3})  # fmt: skip
    yield Row("LayerNormalization", lambda x, s, b: F.layer_norm(x, (h, w), s, b),
              randoms(x, (h, w), (h, w)), {"axis": 2})  # fmt: skip
    yield Row("RMSNormalization", lambda x, s: F.rms_norm(x, (w,), s, 1e-5), randoms(x, (w,)),
              {"axis": -1})  # fmt: skip
    yield Row("LpNormalization", lambda x: F.normalize(x, 2, 1), randoms(x), {"axis": 1, "p": 2})
    axes = (0, 2, 3)
    yield Row("MeanVarianceNormalization", layers.normal(axes, 1e-9, False), randoms(x))
    yield Row("LRN", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 1.5), randoms(x),
              {"size": 3, "alpha": 0.5, "bias": 1.5})  # fmt: skip


def pools(n: int, h: int, w: int) -> Iterator[Row]:
    x = (n, 3, h, w)
    for side in (2, 3, 7, 9):
        window = {"kernel_shape": (side, side), "pads": (side // 2,) * 4}
        for stride in (1, 2):
            pads = (side, stride, side // 2)
            strides = {**window, "strides": (stride, stride)}
            yield Row("MaxPool", along(F.max_pool2d, *pads), randoms(x), strides)
            padded = {**strides, "count_include_pad": 1}
            yield Row("AveragePool", along(F.avg_pool2d, *pads), randoms(x), padded)
    yield Row("AveragePool", lambda x: layers.dilated(x, False), randoms(x), layers.DILATED)
    equal = RNG.integers(0, 3, x).astype(np.float32)  # the first of equal ones has the gradient
    nine = {"kernel_shape": (9, 9)}
    yield Row("MaxPool", along(F.max_pool2d, 9, 1), [equal], nine)
    yield Row("GlobalMaxPool", along(F.adaptive_max_pool2d, 1), [equal])
    yield Row("GlobalMaxPool", along(F.adaptive_max_pool2d, 1), randoms(x))
    yield Row("GlobalAveragePool", lambda x: x.mean((2, 3), keepdim=True), randoms(x))
    yield Row("GlobalLpPool", layers.whole(2), randoms(x), {"p": 2})
    yield Row("LpPool", layers.norms(2, (3, 2), 2), randoms(x),
              {"p": 2, "kernel_shape": (3, 2), "strides": (2, 2)})  # fmt: skip


def indexed(*lengths: int, rows: tuple[int, ...]) -> np.ndarray:
    """Rows of indices, some of them negative and some twice."""
    places = np.stack([RNG.integers(-length, length, rows) for length in lengths], -1)
    places.reshape(-1, len(lengths))[-1] = places.reshape(-1, len(lengths))[0]
    return places


def picked(places: np.ndarray) -> Callable[[Tensor], Tensor]:
    return lambda x: x[tuple(torch.tensor(one) for one in np.moveaxis(places, -1, 0))]


def indexing(n: int, h: int, w: int) -> Iterator[Row]:
    """Places along an axis, rows of indices of every length, single elements."""
    x = (n, 3, h, w)
    for axis, length in enumerate(x):
        at = RNG.integers(-length, length, (4, 7))

        def taken(x: Tensor, axis: int = axis, at: np.ndarray = at) -> Tensor:
            places = torch.tensor(at % x.shape[axis]).flatten()
            return x.index_select(axis, places).unflatten(axis, (4, 7))

        yield Row("Gather", taken, [*randoms(x), at], {"axis": axis})
    for count in range(1, 5):
        places = indexed(*x[:count], rows=(h, 5))
        yield Row("GatherND", picked(places), [*randoms(x), places])
    many = indexed(h, w, rows=(h, w))
    yield Row("GatherND", picked(many), [*randoms((h, w, 2)), many])
    alone = indexed(h * w, rows=(2 * h * w,))
    yield Row("GatherND", picked(alone), [*randoms((h * w,)), alone])
    own = RNG.integers(0, h, (n, w, 2 * h))

    def by_image(x: Tensor) -> Tensor:
        return torch.stack([x[i][torch.tensor(own[i])] for i in range(n)])

    batched = [*randoms((n, h, 3)), own[..., None]]
    yield Row("GatherND", by_image, batched, {"batch_dims": 1})
    elements = RNG.integers(0, h, (n, 3, 2 * h, w))
    yield Row("GatherElements", lambda x: x.gather(2, torch.tensor(elements)),
              [*randoms(x), elements], {"axis": 2})  # fmt: skip


def moves(n: int, h: int, w: int) -> Iterator[Row]:
    x = (n, 3, h, w)
    yield Row("Concat", lambda a, b: torch.cat((a, b), 2), randoms(x, (n, 3, 5, w)), {"axis": 2})
    yield Row("Split", lambda x: x[:, :, :4], [*randoms(x), ints(4, h - 4)], {"axis": 2},
              others=("rest",))  # fmt: skip
    yield Row("Identity", lambda x: x * 1, randoms(x))
    yield Row("Dropout", lambda x: x * 1, randoms(x))
    yield Row("Reshape", lambda x: x.reshape(w, -1), [*randoms(x), ints(w, -1)])
    yield Row("Flatten", lambda x: x.flatten(2).flatten(0, 1), randoms(x), {"axis": 2})
    yield Row("Squeeze", lambda x: x.squeeze(1), [*randoms((n, 1, h, w)), ints(1)])
    yield Row("Unsqueeze", lambda x: x[:, None], [*randoms(x), ints(1)])
    yield Row("Transpose", lambda x: x.permute(2, 0, 3, 1), randoms(x), {"perm": (2, 0, 3, 1)})
    cut = [ints(1, 0, 3), ints(3, h, w), ints(1, 2, 3), ints(1, 2, 1)]
    yield Row("Slice", lambda x: x[:, 1:, ::2, 3:], [*randoms(x), *cut])
    yield Row("Expand", lambda x: x.expand(n, 3, h, w), [*randoms((3, 1, w)), ints(n, 3, h, w)])
    yield Row("Tile", lambda x: x.repeat(1, 2, 3, 1), [*randoms(x), ints(1, 2, 3, 1)])
    yield Row("DepthToSpace", lambda x: F.pixel_shuffle(x, 2), randoms((n, 12, h, w)),
              {"blocksize": 2, "mode": "CRD"})  # fmt: skip

    def packed(x: Tensor) -> Tensor:
        rows = x.reshape(n, 3, h // 2, 2, w // 2, 2)
        return rows.permute(0, 3, 5, 1, 2, 4).reshape(n, 12, h // 2, w // 2)

    even = (n, 3, h // 2 * 2, w // 2 * 2)
    yield Row("SpaceToDepth", packed, randoms(even), {"blocksize": 2})
    for mode in layers.MARGINS:
        yield Row("Pad", layers.padded(mode), [*randoms(x), layers.PADS], {"mode": mode})
    yield Row("Pad", layers.with_margin, [*randoms(x), layers.PADS, number(0.7)])
    yield Row("CenterCropPad", lambda x: F.pad(x[:, :, 1 : h - 1], (1, 1)),
              [*randoms(x), ints(h - 2, w + 2)], {"axes": (2, 3)})  # fmt: skip
    for mode, name in (("linear", "bilinear"), ("cubic", "bicubic")):
        for size in ((h + 7, 2 * w), (5, 7)):
            yield Row("Resize", along(F.interpolate, size, None, name),
                      [*randoms(x), None, None, ints(n, 3, *size)], {"mode": mode})  # fmt: skip


def samples(n: int, h: int, w: int) -> Iterator[Row]:
    x = between(-1, 1, n, 3, h, w)
    yield sampling.sampled("linear", "zeros", 0, x, between(-1.3, 1.3, n, w, h, 2))
    yield sampling.sampled("cubic", "border", 1, x, between(-1.3, 1.3, n, 9, 11, 2))
    yield sampling.regions((n, 3, h, w), 2 * n, (3, 2), scale=h / 12)
    yield sampling.added((3, 3), (2, 1), (1, 1), (1, 1), (h // 2, w), 3)
    small = (n, 1, h // 4, w // 4)
    places = RNG.permutation(4 * math.prod(small))[: math.prod(small)]
    yield sampling.placed(small, places.tolist(), (n, 1, h // 4 * 2, w // 4 * 2))


def scattered(n: int, h: int, w: int) -> Iterator[Row]:
    for reduction in scatter.REDUCTIONS:
        yield scatter.elements(reduction, (n, h, w), 2, w, scatter.uneven)
        yield scatter.slices(reduction, (h, w), 2, (h, w // 2), scatter.uneven)
        yield scatter.slices(reduction, (h, 3, w), 1, (h,), scatter.uneven)


FAMILIES = (
    functions, several, reductions, convolutions, norms, pools, indexing, moves, samples, scattered,
)  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=lambda size: "x".join(map(str, size)))
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_gradients_of_batches_of_maps(family: Callable[..., Iterator[Row]], size: Size) -> None:
    assert_rows(list(family(*size)))


def test_each_operator_with_a_rule_is_among_the_families() -> None:
    ruled = {name for name, operator in OPERATORS.items() if callable(operator.gradient)}
    assert ruled == {row.op for family in FAMILIES for row in family(2, 9, 9)}


class Pooled(nn.Module):
    """Adaptive pools, which ONNX doesn't have, squared: each element has a gradient of its own."""

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
    assert_gradients(Pooled(places), torch.randn(n, 3, h, w))
