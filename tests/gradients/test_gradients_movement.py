"""Gradients of operators that move elements, compared with torch.autograd."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nbglcnn
from gradient_checks import assert_gradients
from nbglcnn.errors import ModelError

CASES: dict[str, tuple[Callable[..., Tensor], tuple[int, ...]]] = {
    "reshape and transpose": (lambda x: x.reshape(2, 3, 20).transpose(1, 2), (2, 3, 4, 5)),
    "slice": (lambda x: x[:, 1:3, 2:, :-1], (2, 4, 5, 3)),
    "slice by steps": (lambda x: x[:, ::2, 1::3], (2, 5, 8, 3)),
    "one place": (lambda x: x[:, 2] * 2 + x[:, 0], (2, 3, 4)),
    "flip": (lambda x: x.flip(2), (1, 3, 4, 5)),
    "roll": (lambda x: x.roll(2, 2), (1, 3, 5, 4)),
    "roll by nothing": (lambda x: torch.cat((x[:, :0], x.roll(0, 1), x[:, 3:]), 1), (2, 3, 4)),
    "repeat": (lambda x: x.repeat(1, 3, 1, 2), (2, 3, 1, 4)),
    "expand": (lambda x: x.expand(2, 3, 4, 5), (1, 3, 1, 5)),
    "concatenate": (lambda x, y: torch.cat((x, y, x * y.mean()), 1), (2, 3, 4, 5)),
    "split": (lambda x: x.split((2, 3), 1)[1] ** 1, (2, 5, 3, 4)),
    "chunks": (lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1], (2, 6, 3)),
    "pixel shuffle": (lambda x: F.pixel_shuffle(x, 2), (2, 12, 3, 5)),
    "pixel unshuffle": (lambda x: F.pixel_unshuffle(x, 3), (1, 2, 6, 9)),
    "channel shuffle": (lambda x: F.channel_shuffle(x, 3), (1, 6, 4, 5)),
    "zeros around": (lambda x: F.pad(x, (1, 2, 0, 3)), (2, 3, 4, 5)),
    "cut and zeros": (lambda x: F.pad(x, (-1, 2, 3, -2)), (2, 3, 5, 5)),
    "reflected": (lambda x: F.pad(x, (2, 1, 3, 0), mode="reflect"), (2, 3, 4, 5)),
    "edges": (lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"), (2, 3, 4, 5)),
    "wrapped": (lambda x: F.pad(x, (2, 1, 3, 0), mode="circular"), (2, 3, 4, 5)),
    "a margin longer than the map": (
        lambda x: F.pad(x, (5, 7, 6, 0), mode="replicate"), (1, 2, 3, 2),
    ),
    "chosen rows": (lambda x: x[:, torch.tensor([2, 0, 2, 1])], (2, 3, 4, 5)),
    "chosen places": (
        lambda x: x.gather(1, torch.tensor([[0, 2, 2], [1, 1, 0]])[:, :, None].expand(2, 3, 4)),
        (2, 3, 4),
    ),
    "added at places": (
        lambda x, y: x.scatter_add(1, torch.tensor([[0, 2, 2], [1, 1, 0]]), y), (2, 3),
    ),
    "written to places": (
        lambda x, y: x.scatter(1, torch.tensor([[0, 2], [3, 1]]), y[:, :2] ** 2), (2, 4),
    ),
    "rows written": (
        lambda x, y: x.index_put((torch.tensor([2, 0]),), y[:2] * 3), (3, 4),
    ),
    "einsum": (lambda x, y: torch.einsum("nchw,ncw->nhc", x, y.mean(2)), (2, 3, 4, 5)),
    "attention": (
        lambda x, y: F.scaled_dot_product_attention(x, y, x * 0.5), (1, 2, 5, 3),
    ),
}  # fmt: skip


class FunctionModule(nn.Module):
    def __init__(self, function: Callable[..., Tensor], two: bool) -> None:
        super().__init__()
        self.function, self.two = function, two

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.function(x, y) if self.two else self.function(x * y)


@pytest.mark.parametrize("name", CASES)
def test_elements_that_move(name: str) -> None:
    function, shape = CASES[name]
    torch.manual_seed(4)
    two = function.__code__.co_argcount == 2
    assert_gradients(FunctionModule(function, two), torch.randn(shape), torch.randn(shape))


class EmbeddingLookup(nn.Module):
    """Rows of a table, selected at run time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 5)

    def forward(self, indices: Tensor, x: Tensor) -> Tensor:
        return self.table(indices) * x


def test_rows_that_an_input_chooses() -> None:
    torch.manual_seed(4)
    assert_gradients(EmbeddingLookup(), torch.tensor([[1, 3, 3], [0, 6, 1]]), torch.randn(2, 3, 5))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x, need_weights=False)[0]


def test_multihead_attention() -> None:
    torch.manual_seed(4)
    assert_gradients(Attention(), torch.randn(2, 5, 6))


def onnx_model(
    nodes: list[onnx.NodeProto], shape: tuple[int, ...], **arrays: np.ndarray
) -> onnx.ModelProto:
    """A model file with one input x and one output y."""
    graph = onnx.helper.make_graph(
        nodes, "moves",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, shape)],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )  # fmt: skip
    opset = onnx.helper.make_opsetid("", 21)
    return onnx.helper.make_model(graph, opset_imports=[opset], ir_version=10)


def test_a_piece_without_a_name_has_zeros() -> None:
    nodes = [
        onnx.helper.make_node("Split", ["x", "sizes"], ["a", "", "c"], axis=1),
        onnx.helper.make_node("Concat", ["a", "c", "c"], ["y"], axis=1),
    ]
    model = onnx_model(nodes, (2, 6), sizes=np.array([1, 2, 3]))
    x = np.ones((2, 6), np.float32)
    found = nbglcnn.gradient(model, x, of="y", wrt="x")["x"]
    assert found.tolist() == [[1, 0, 0, 2, 2, 2]] * 2


def test_slices_that_each_example_chooses_by_itself() -> None:
    nodes = [onnx.helper.make_node("GatherND", ["x", "rows"], ["y"], batch_dims=1)]
    rows = np.array([[[2], [2]], [[-1], [0]]])
    model = onnx_model(nodes, (2, 3, 2), rows=rows)
    x = np.ones((2, 3, 2), np.float32)
    found = nbglcnn.gradient(model, x, "y", wrt="x")["x"]
    assert found[:, :, 0].tolist() == [[0, 0, 2], [1, 0, 1]]
    assert (found[:, :, 0] == found[:, :, 1]).all()


ROW_INDICES = torch.tensor([[0, 1], [1, 1], [3, 4]])


@pytest.mark.parametrize(
    "pick",
    [
        lambda x: x[ROW_INDICES] * torch.arange(6.0).reshape(3, 2).to(x.dtype),
        lambda x: x.take(ROW_INDICES),
        lambda x: x[ROW_INDICES[None, :, :, None]],
    ],
    ids=["two axes", "take", "four axes"],
)
def test_indices_may_have_more_axes_than_what_they_pick_from(
    pick: Callable[..., Tensor],
) -> None:
    assert_gradients(FunctionModule(pick, two=False), torch.randn(5), torch.randn(5))


EMBEDDING_INDICES = torch.tensor([[0, 2, 1], [2, 2, 3]])


@pytest.mark.parametrize(
    "model",
    [
        nn.Embedding(4, 3, padding_idx=2),
        nn.Embedding(4, 3, padding_idx=-4),
        nn.Sequential(nn.Embedding(4, 3, padding_idx=2), nn.Linear(3, 2)),
        *(nn.EmbeddingBag(4, 3, padding_idx=2, mode=mode) for mode in ("sum", "mean", "max")),
    ],
    ids=["padding", "from the end", "before a layer", "sum", "mean", "max"],
)
@pytest.mark.parametrize(
    "ids",
    [EMBEDDING_INDICES, EMBEDDING_INDICES[:1, 1:2], EMBEDDING_INDICES[:, 2:]],
    ids=["many", "one", "no padding"],
)
def test_the_padding_row_of_an_embedding_has_no_gradient(model: nn.Module, ids: Tensor) -> None:
    assert_gradients(model, ids)


def test_a_padding_row_of_computed_weights_has_no_gradient() -> None:
    def looked_up(x: Tensor) -> Tensor:
        return F.embedding(EMBEDDING_INDICES, x.tanh(), padding_idx=2) + F.embedding(
            EMBEDDING_INDICES, x
        )

    assert_gradients(FunctionModule(looked_up, two=False), torch.randn(4, 3), torch.randn(4, 3))


def test_a_file_cannot_have_a_padding_row() -> None:
    table = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), "w")
    node = onnx.helper.make_node("Gather", ["w", "i"], ["y"], padding_idx=1)
    given = onnx.helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [2])
    made = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [2, 3])
    graph = onnx.helper.make_graph([node], "g", [given], [made], [table])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)])
    with pytest.raises(ModelError, match="attribute 'padding_idx' is not allowed here"):
        nbglcnn.compile(model, np.array([0, 1]))
