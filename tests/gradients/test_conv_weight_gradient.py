"""Operator that computes a filter's gradient: in strips, in pages of textures, in many parts."""

from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch.nn.grad import conv2d_weight

from nbglcnn import Plan, Session
from nbglcnn.graph import Graph, Node, Value, ValueKey
from nbglcnn.lowering.lower import lower
from nbglcnn.ops.conv_gradient import (
    MAX_SUM_TERMS,
    MIN_FRAGMENTS,
    MIN_POSITIONS_PER_FRAGMENT,
    _sum_partition,
)
from strips import compile_in_strips

FLOAT32 = np.dtype(np.float32)
# x, filters, stride, padding, dilation, groups
FILTER_CASES = {
    "dense": ((5, 9, 7, 6), (7, 9, 3, 3), 1, 1, 1, 1),
    "of stride 3": ((2, 3, 11, 13), (5, 3, 4, 3), 3, 2, 1, 1),
    "in groups of 4": ((3, 8, 6, 5), (12, 4, 3, 2), 1, 0, 2, 2),
    "in groups of 3": ((2, 6, 5, 6), (4, 3, 2, 2), 2, 1, 1, 2),
    "of a channel each": ((4, 6, 6, 7), (6, 1, 3, 3), 1, 1, 1, 6),
    "as large as the map": ((6, 5, 4, 3), (6, 5, 4, 3), 1, 0, 1, 1),
    "of vectors": ((9, 13, 1, 1), (6, 13, 1, 1), 1, 0, 1, 1),
    "larger than the map": ((2, 9, 2, 2), (5, 9, 4, 4), 2, 1, 1, 1),
}


def filter_gradient_graph(name: str) -> tuple[Graph, tuple[np.ndarray, ...], np.ndarray]:
    """Return a Graph of the operator alone, its inputs, and torch's result in float64."""
    shape, filters, stride, padding, dilation, group = FILTER_CASES[name]
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=generator)
    y = torch.conv2d(x, torch.zeros(filters), None, stride, padding, dilation, group)
    dy = torch.randn(y.shape, generator=generator)
    right = conv2d_weight(x.double(), filters, dy.double(), stride, padding, dilation, group)
    node = Node(
        "filters", "ConvWeightGradient", ("x", "dy"), ("w",),
        MappingProxyType({
            "kernel_shape": filters[2:], "strides": (stride, stride), "group": group,
            "dilations": (dilation, dilation), "pads": (padding, padding),
        }),
        domain="nbglcnn",
    )  # fmt: skip
    values = {"x": shape, "dy": tuple(dy.shape), "w": filters}
    graph = Graph(
        name="filters",
        nodes=(node,),
        values=MappingProxyType({k: Value(k, one, FLOAT32) for k, one in values.items()}),
        parameters={},
        inputs=("x", "dy"),
        outputs=("w",),
        keys=tuple(ValueKey(k, k, "output" if k == "w" else "input") for k in values),
    )
    return graph, (x.numpy(), dy.numpy()), right.numpy()


def assert_gradient(found: np.ndarray, right: np.ndarray) -> None:
    np.testing.assert_allclose(found, right, atol=1e-6 * abs(right).max(), rtol=0)


@pytest.mark.parametrize("name", FILTER_CASES)
def test_in_strips_the_gradient_of_filters_is_the_same(name: str) -> None:
    graph, arrays, right = filter_gradient_graph(name)
    plans = [compile_in_strips(graph, texels, observe="outputs") for texels in (16, 8, 4)]
    found = [plan for plan in plans if plan is not None]
    assert found
    with Session(found[0]) as session:
        assert_gradient(session.run(*arrays)["w"], right)


@pytest.mark.parametrize("name", ["dense", "in groups of 3", "of a channel each", "of vectors"])
def test_in_pages_the_gradient_of_filters_is_the_same(
    name: str,
    run_in_pages: Callable[[Plan, tuple[np.ndarray, ...]], dict[str, dict[str, np.ndarray]]],
) -> None:
    graph, arrays, right = filter_gradient_graph(name)
    for values in run_in_pages(lower(graph, observe="outputs"), arrays).values():
        assert_gradient(values["w"], right)


@pytest.mark.parametrize("images", [1, 3, 32, 1000])
@pytest.mark.parametrize(
    "places", [(1, 1, 1), (1, 7, 7), (3, 5, 9), (1, 1, 100_001), (1, 224, 224)]
)
@pytest.mark.parametrize("fragments", [1, 144, 100_000])
def test_parts_are_neither_too_long_nor_without_work(images, places, fragments) -> None:
    together = images if images < 3 else 4
    batch, (rows, columns) = _sum_partition(images, together, places, fragments, iterations=0)
    strips = -(-places[1] // rows) * -(-places[2] // columns)
    parts = -(-images // batch) * strips
    terms = batch * places[0] * rows * columns
    assert batch % together == 0 and 1 <= rows <= places[1] and 1 <= columns <= places[2]
    assert terms <= 2 * MAX_SUM_TERMS
    if parts > 1 and terms < MAX_SUM_TERMS // 2:
        # Split only to get enough fragments.
        assert parts * fragments <= 4 * MIN_FRAGMENTS
        assert images * places[0] * places[1] * places[2] >= MIN_POSITIONS_PER_FRAGMENT // 2 * parts
