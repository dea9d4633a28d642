"""Adaptive pools and areas, with overlapping windows: values, indices, layers, edits, files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nbglcnn
from gradient_checks import assert_gradients
from nbglcnn import Session, transforms
from nbglcnn.errors import UnsupportedOperator


class FunctionModule(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def area_resize(size: object) -> nn.Module:
    return FunctionModule(lambda x: F.interpolate(x, size, mode="area"))


UNEVEN_WINDOWS = {
    "a map": (nn.AdaptiveAvgPool2d((3, 5)), (3, 3, 40, 56)),
    "a larger map": (nn.AdaptiveAvgPool2d((12, 9)), (2, 5, 8, 6)),
    "rows kept": (nn.AdaptiveAvgPool2d((None, 4)), (2, 3, 7, 9)),
    "one column": (nn.AdaptiveAvgPool2d((4, 1)), (2, 1, 9, 1)),
    "large shares": (nn.AdaptiveAvgPool2d((2, 3)), (1, 2, 301, 205)),
    "a map without a batch": (nn.AdaptiveAvgPool2d((3, 4)), (3, 20, 21)),
    "a line": (nn.AdaptiveAvgPool1d(7), (2, 5, 45)),
    "a volume": (nn.AdaptiveAvgPool3d((2, 3, 5)), (2, 3, 7, 10, 11)),
    "an area": (area_resize((9, 7)), (2, 3, 40, 33)),
    "an area of a line": (area_resize(7), (3, 2, 40)),
    "an area of a volume": (area_resize((3, 2, 5)), (2, 3, 8, 7, 9)),
    "the largest of a map": (nn.AdaptiveMaxPool2d((3, 5)), (3, 3, 40, 56)),
    "the largest of large shares": (nn.AdaptiveMaxPool2d((2, 3)), (1, 2, 301, 205)),
    "the largest of a line": (nn.AdaptiveMaxPool1d(7), (2, 5, 45)),
    "the largest of a volume": (nn.AdaptiveMaxPool3d((2, 3, 5)), (2, 3, 7, 10, 11)),
    "the largest without a batch": (nn.AdaptiveMaxPool1d(3), (2, 20)),
}
with_uneven_windows = pytest.mark.parametrize(
    ("model", "shape"), UNEVEN_WINDOWS.values(), ids=UNEVEN_WINDOWS
)


@with_uneven_windows
def test_an_uneven_pool_is_one_layer_with_pytorchs_values(
    model: nn.Module, shape: tuple[int, ...]
) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape)
    plan = nbglcnn.compile(nn.Sequential(model), x)
    [layer] = plan.layers
    pools = [one for one in layer.operators if "Adaptive" in one]
    assert len(pools) == 1 and set(layer.operators) <= {*pools, "Squeeze", "Unsqueeze"}
    assert layer.operator == pools[0]
    kind = "max pool" if "Max" in pools[0] else "mean pool"
    assert layer.explanation == kind or "Unsqueeze" in layer.operators
    with Session(plan) as session:
        found = session.run(x.numpy())["output"]
        assert nbglcnn.verify(session, nn.Sequential(model), x).ok
    expected = model(x).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6 * abs(expected).max())


@with_uneven_windows
def test_gradients_of_uneven_pools_are_pytorchs(model: nn.Module, shape: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    assert_gradients(nn.Sequential(model, FunctionModule(torch.square)), torch.randn(shape))


EVEN_WINDOWS = {
    "the whole map": (nn.AdaptiveAvgPool2d(1), (2, 3, 9, 7), ["ReduceMean"]),
    "equal windows": (nn.AdaptiveAvgPool2d((3, 7)), (2, 3, 9, 14), ["AveragePool"]),
    "equal windows of a volume": (nn.AdaptiveAvgPool3d(2), (2, 3, 4, 6, 8), ["AveragePool"]),
    "the largest of all": (nn.AdaptiveMaxPool2d(1), (2, 3, 9, 7), ["GlobalMaxPool"]),
    "the largest of equal windows": (nn.AdaptiveMaxPool2d((3, 7)), (2, 3, 9, 14), ["MaxPool"]),
}


@pytest.mark.parametrize(("model", "shape", "operators"), EVEN_WINDOWS.values(), ids=EVEN_WINDOWS)
def test_pools_of_all_and_of_equal_windows_stay_ordinary_ones(
    model: nn.Module, shape: tuple[int, ...], operators: list[str]
) -> None:
    torch.manual_seed(2)
    x = torch.randn(shape)
    plan = nbglcnn.compile(model, x)
    assert [one for one in plan.layers[0].operators if one != "Squeeze"] == operators
    with Session(plan) as session:
        np.testing.assert_allclose(
            session.run(x.numpy())["output"], model(x).numpy(), rtol=1e-5, atol=1e-6
        )
    assert_gradients(nn.Sequential(model, nn.Tanh()), x)


@pytest.mark.parametrize("places", [1, (2, 13), (3, 4)], ids=["all", "equal windows", "uneven"])
def test_of_equal_largest_elements_the_first_has_the_gradient(places: object) -> None:
    torch.manual_seed(3)
    x = torch.randint(0, 3, (3, 5, 14, 13)).float()
    assert_gradients(nn.AdaptiveMaxPool2d(places), x)


class MaxWithIndices(nn.Module):
    """Returns the largest elements and their indices."""

    def __init__(self, places: int | tuple[int, int]) -> None:
        super().__init__()
        self.pool = nn.AdaptiveMaxPool2d(places, return_indices=True)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.pool(x)


@pytest.mark.parametrize("places", [(3, 4), (7, 2), 1], ids=["uneven", "equal windows", "all"])
def test_places_of_the_largest_are_those_in_their_map(places: int | tuple[int, int]) -> None:
    torch.manual_seed(4)
    x = torch.randint(0, 9, (3, 2, 14, 22)).float()
    x[0, 0, 3, 4] = x[0, 0, 3, 5] = torch.nan
    with Session(nbglcnn.compile(MaxWithIndices(places), x)) as session:
        found = session.run(x.numpy())
    for key, expected in zip(("output[0]", "output[1]"), MaxWithIndices(places)(x), strict=True):
        np.testing.assert_array_equal(found[key], expected.numpy())


def test_a_share_with_no_number_has_none_and_its_neighbours_do() -> None:
    x = torch.randn(2, 3, 11, 13)
    x[0, 1, 5, 6], x[1, 2, 0, 0], x[1, 0, 10, 12] = torch.nan, torch.inf, -torch.inf
    for model in (nn.AdaptiveAvgPool2d((4, 3)), nn.AdaptiveMaxPool2d((4, 3))):
        with Session(nbglcnn.compile(model, x)) as session:
            np.testing.assert_allclose(
                session.run(x.numpy())["output"], model(x).numpy(), rtol=1e-5, atol=1e-6
            )


def make_network() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(5)
    model = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d((3, 4)), nn.Flatten(), nn.Linear(72, 4)
    )
    return model.eval(), torch.rand(2, 3, 21, 18)


@pytest.mark.parametrize("observe", ["all", "outputs"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_a_network_with_one_runs_in_every_precision(observe: str, precision: str) -> None:
    model, x = make_network()
    with Session(nbglcnn.compile(model, x, observe=observe, precision=precision)) as session:
        found = session.run(x.numpy())["4" if observe == "all" else "output"]
        assert nbglcnn.verify(session, model, x).ok
    allowed = 1e-5 if precision == "float32" else 3e-3
    np.testing.assert_allclose(found, model(x).detach().numpy(), atol=allowed)


def test_a_bend_behind_one_acts_where_a_forward_hook_does() -> None:
    model, x = make_network()
    with Session(nbglcnn.compile(model, x)) as session:
        session.bend("2", transforms.multiply(3), channels=[1])
        found = session.run(x.numpy())["4"]
    channels = torch.ones(6).index_fill(0, torch.tensor([1]), 3.0)[:, None, None]
    handle = model[2].register_forward_hook(lambda _, __, out: out * channels)
    expected = model(x).detach().numpy()
    handle.remove()
    np.testing.assert_allclose(found, expected, atol=1e-5)


@with_uneven_windows
def test_a_file_of_a_model_with_one_holds_onnxs_own_operators(
    model: nn.Module, shape: tuple[int, ...], tmp_path: Path
) -> None:
    torch.manual_seed(6)
    x = torch.randn(shape)
    wrapped = nn.Sequential(model)
    path = nbglcnn.Viewer(wrapped, x).to_onnx(tmp_path / "pool.onnx")
    running = onnxruntime.InferenceSession(str(path))
    [found] = running.run(None, {running.get_inputs()[0].name: x.numpy()})
    np.testing.assert_allclose(found, model(x).numpy(), rtol=1e-4, atol=1e-5)


class FunctionalPools(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        mean = F.adaptive_avg_pool2d(x, (3, 4))
        area = F.interpolate(x, (3, 4), mode="area")
        values, places = F.adaptive_max_pool2d(x, (3, 4), return_indices=True)
        largest = F.adaptive_max_pool2d(x, 1)
        return torch.cat((mean, area, values, places.float()), 1) + largest.mean()


def test_functions_are_named_by_what_the_code_says() -> None:
    names = [
        layer.name for layer in nbglcnn.compile(FunctionalPools(), torch.rand(2, 3, 10, 11)).layers
    ]
    pools = [
        "adaptive_avg_pool2d",
        "interpolate",
        *("adaptive_max_pool2d[0]", "adaptive_max_pool2d[1]"),
    ]
    assert names[:4] == pools and "adaptive_max_pool2d" in names


def test_places_in_shares_that_are_too_large_are_refused_with_numbers() -> None:
    words = r"AdaptiveMaxPool: windows of \(301, 205\) pixels: its loops would run 62,"
    with pytest.raises(UnsupportedOperator, match=words):
        nbglcnn.compile(MaxWithIndices((1, 1)), torch.rand(1, 1, 301, 205))
