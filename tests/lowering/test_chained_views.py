"""Views of views: one pass for a chain of them, with the elements that numpy's views have."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import nbglcnn
from assertions import assert_equal
from fused_runs import run_fused
from gallery_networks import Attention
from nbglcnn import Session
from nbglcnn.codegen.strided import StridedView, compose_views, contiguous_view


def view_indices(view: StridedView) -> np.ndarray:
    """The index of each of a view's elements in its source."""
    grid = np.indices(view.sizes).reshape(len(view.sizes), -1)
    return view.offset + np.array(view.strides, np.int64) @ grid


@st.composite
def views(draw: st.DrawFn, count: int) -> StridedView:
    """A view of `count` elements: reshaped, transposed, sliced and perhaps repeated."""
    shape: list[int] = []
    rest = count
    while rest > 1:
        shape.append(draw(st.sampled_from([d for d in range(2, rest + 1) if rest % d == 0])))
        rest //= shape[-1]
    view = contiguous_view(tuple(shape) or (1,))
    view = view.transposed(draw(st.permutations(range(len(view.sizes)))))
    for axis in range(len(view.sizes)):
        length = view.sizes[axis]
        start, step = draw(st.integers(0, length - 1)), draw(st.sampled_from([-2, -1, 1, 1, 2]))
        room = (start if step < 0 else length - 1 - start) // abs(step)
        if draw(st.booleans()):
            view = view.sliced(axis, start, draw(st.integers(1, room + 1)), step)
    if draw(st.booleans()):
        view = StridedView((*view.sizes, 2), (*view.strides, 0), view.offset)
    return view


@given(st.data(), st.sampled_from([6, 8, 12, 24, 36, 60]))
def test_a_view_of_a_view_is_a_view(data: st.DataObject, count: int) -> None:
    first = data.draw(views(count))
    second = data.draw(views(math.prod(first.sizes)))
    composed = compose_views(first, second)
    if composed is not None:
        expected = view_indices(first)[view_indices(second)]
        np.testing.assert_array_equal(view_indices(composed), expected)


@given(st.data(), st.sampled_from([12, 24, 60]))
def test_transposes_and_slices_always_compose(data: st.DataObject, count: int) -> None:
    first = data.draw(views(count))
    order = data.draw(st.permutations(range(len(first.sizes))))
    second = contiguous_view(first.sizes).transposed(order)
    composed = compose_views(first, second)
    assert composed is not None
    np.testing.assert_array_equal(view_indices(composed), view_indices(first)[view_indices(second)])


class Heads(nn.Module):
    """The split of tokens into the queries, keys and values of heads, as in attention."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        tokens, batch, features = x.shape
        split = x.unflatten(-1, (3, features // 3)).unsqueeze(0).transpose(0, -2).squeeze(-2)
        heads = (part.reshape(tokens, batch * 3, -1).transpose(0, 1) for part in split)
        query, key, value = (part.reshape(batch, 3, tokens, -1) for part in heads)
        return query, key.transpose(2, 3), value[:, 1:]


@pytest.mark.parametrize("shape", [(7, 1, 36), (13, 2, 72), (8, 3, 45)], ids=str)
def test_a_chain_of_views_takes_one_pass(shape: tuple[int, ...]) -> None:
    model, x = Heads(), torch.randn(shape, generator=torch.Generator().manual_seed(2))
    plan = nbglcnn.compile(model, x, observe="outputs")
    assert len(plan.header.passes) == 3
    with Session(plan) as session:
        found = session.run(x.numpy())
    for value, expected in zip(found.values(), model(x), strict=True):
        assert_equal(value, expected.numpy())


def test_a_view_with_several_readers_is_made_once() -> None:
    class Shared(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            turned = x.transpose(1, 3)
            return turned.relu() + turned.reshape(turned.shape).tanh() + turned[:, 1:2]

    model, x = Shared(), torch.randn(2, 5, 4, 3)
    with Session(nbglcnn.compile(model, x, observe="outputs")) as session:
        assert_equal(session.run(x.numpy())["output"], model(x).numpy())


def test_views_that_cancel_each_other_take_no_pass() -> None:
    class Cancelled(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.permute(0, 2, 3, 1).permute(0, 3, 1, 2).relu()

    x = torch.randn(2, 5, 4, 3)
    plan = nbglcnn.compile(Cancelled(), x, observe="outputs")
    assert len(plan.header.passes) == 1
    with Session(plan) as session:
        assert_equal(session.run(x.numpy())["output"], x.relu().numpy())


def test_observed_views_have_their_own_values() -> None:
    model = nn.Sequential(nn.ReLU(), nn.Flatten(2), nn.Unflatten(2, (4, 3)), nn.ReLU())
    x = torch.randn(2, 5, 4, 3)
    with Session(nbglcnn.compile(model, x)) as session:
        session.run(x.numpy())
        assert_equal(session.read("1"), x.relu().flatten(2).numpy())


@pytest.mark.parametrize("features", [8, 5, 4], ids=str)
def test_rows_of_heads_are_joined(features: int) -> None:
    class Joined(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3 * features, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear((2 * x).transpose(1, 2).reshape(2, 7, -1))

    torch.manual_seed(features)
    model, x = Joined().eval(), torch.randn(2, 3, 7, features)
    passes, found, expected = run_fused(model, x)
    assert passes == 3  # the multiplication, the rows, the product
    assert_equal(found, expected)


@pytest.mark.parametrize("size", [(6, 5), (4, 7), (1, 9)], ids=str)
@pytest.mark.parametrize("channels", [8, 6, 3], ids=str)
def test_maps_become_rows_and_rows_become_maps(channels: int, size: tuple[int, int]) -> None:
    class Normalized(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(channels), nn.Linear(channels, channels)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.linear(self.norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)

    torch.manual_seed(channels)
    model, x = Normalized().eval(), torch.randn(2, channels, *size)
    _, found, expected = run_fused(model, x)
    assert_equal(found, expected)


@pytest.mark.parametrize("shape", [(1, 10), (6, 10), (5, 8), (1, 3), (9, 3), (7, 12, 1)], ids=str)
def test_vectors_are_written_and_read_texel_by_texel(shape: tuple[int, ...]) -> None:
    x = torch.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    _, found, _ = run_fused(nn.Sequential(nn.ReLU()), x)
    assert_equal(found, x.numpy())


@pytest.mark.parametrize("tokens", [13, 16], ids=str)
def test_attention_moves_whole_texels_between_its_products(tokens: int) -> None:
    torch.manual_seed(tokens)
    model, x = Attention(24, 3).eval(), torch.randn(2, tokens, 24)
    plan = nbglcnn.compile(model, x, observe="outputs")
    names = [plan.header.programs[one.program].name for one in plan.header.passes]
    # Queries and values; and the rows of the input and of all heads, if no four of them are of two
    # examples. Keys are turned.
    copies = {"affine_gather_transposed": 2, "affine_gather": 2, "affine_gather_texel": 1}
    if tokens % 4 == 0:
        copies |= {"affine_gather_transposed": 4, "affine_gather": 0}
    assert {name: names.count(name) for name in copies} == copies
    assert "strided_gather" not in names
    _, found, expected = run_fused(model, x)
    assert_equal(found, expected)
