"""Whole architectures: every layer equals PyTorch's, with all layers observed or fused."""

import io
import warnings
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

from assertions import assert_all_equal, assert_equal
from nbglcnn.load import load
from nbglcnn.lowering.lower import lower
from nbglcnn.reference import compute_reference
from nbglcnn.runtime.session import Session
from zoo import ZOO, build


@pytest.mark.parametrize("name", ZOO)
def test_every_layer_of_an_architecture_equals_pytorch(name: str) -> None:
    model, inputs = build(name)
    graph, arrays = load(model, inputs)
    expected = compute_reference(model, graph, arrays)
    for observe in ("all", "outputs"):
        with Session(lower(graph, observe=observe)) as session:
            actual = session.run(*arrays)
        assert_all_equal(actual, expected, where=f"OpenGL, observe={observe}")
    missing = called_modules(model, inputs) - {
        key.partition(":")[0].partition("[")[0] for key in expected
    }
    assert missing == set()


# Together they use most of the shaders; test_ops.py runs each shader in pages.
PAGE_NETWORKS = ("unet", "mobilenet_v3", "style transfer", "diffusion block", "spatial transformer")


@pytest.mark.parametrize("name", PAGE_NETWORKS)
def test_pages_give_the_same(name: str, run_in_pages: Callable[..., dict[str, Any]]) -> None:
    model, inputs = build(name)
    graph, arrays = load(model, inputs)
    expected = compute_reference(model, graph, arrays)
    for backend, values in run_in_pages(lower(graph), arrays).items():
        assert_all_equal(values, expected, where=backend)


class CeilPools(nn.Module):
    """Pools whose last window may lie in the padding only, and layers that depend on it."""

    def __init__(self, count: bool) -> None:
        super().__init__()
        self.mean = nn.AvgPool2d(3, 3, 1, ceil_mode=True, count_include_pad=count)
        self.most = nn.MaxPool2d(2, 2, 1, ceil_mode=True)
        self.again = nn.AvgPool2d((2, 3), (3, 2), (1, 0), ceil_mode=True, count_include_pad=count)
        self.head = nn.Identity()

    def add_head(self, x: Tensor) -> "CeilPools":
        size = self.again(self.most(self.mean(x))).flatten(1).shape[1]
        self.head = nn.Linear(size, 3)
        return self.eval()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.relu(self.again(self.most(self.mean(x)))).flatten(1))


@pytest.mark.parametrize("count", [True, False], ids=["padding counts", "padding left out"])
@pytest.mark.parametrize("size", [(58, 56), (10, 9), (7, 11)])
def test_pools_in_ceil_mode_have_the_sizes_that_pytorch_computes(
    size: tuple[int, int], count: bool
) -> None:
    x = torch.randn(1, 2, *size)
    model = CeilPools(count).add_head(x)
    graph, arrays = load(model, x)
    expected = compute_reference(model, graph, arrays)
    with Session(lower(graph)) as session:
        assert_all_equal(session.run(*arrays), expected)


@pytest.mark.parametrize("count", [True, False], ids=["padding counts", "padding left out"])
def test_a_file_that_declares_a_wrong_width_is_run_with_the_right_one(count: bool) -> None:
    """PyTorch's older exporter and onnx's inference count one window too many."""
    x = torch.randn(1, 2, 58, 56)
    model = CeilPools(count).add_head(x)
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), file, dynamo=False, opset_version=17)
    proto = onnx.shape_inference.infer_shapes(onnx.load_from_string(file.getvalue()))
    declared = {
        value.name: tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        for value in proto.graph.value_info
    }
    graph, arrays = load(proto, x)
    with Session(lower(graph)) as session:
        values = session.run(*arrays)
    wrong = [key for key, shape in declared.items() if key in values and values[key].shape != shape]
    assert wrong, "the exporter declares right shapes now: this test has lost its point"
    *_, output = values.values()
    with torch.no_grad():
        assert_equal(output, model(x).numpy())


def called_modules(model: nn.Module, inputs: tuple[Tensor, ...]) -> set[str]:
    """The paths of all submodules that a run calls; a shared module has its first name."""
    paths: set[str] = set()
    for path, module in model.named_modules():
        if path:
            module.register_forward_hook(lambda *_, path=path: paths.add(path))
    with torch.no_grad():
        model(*inputs)
    return paths
