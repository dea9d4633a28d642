"""Gradients of enlarged and reduced maps, compared with torch.autograd."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gradient_checks import assert_gradients

CASES: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "nearest": (partial(F.interpolate, scale_factor=2), (2, 3, 3, 5)),
    "nearest to a size": (partial(F.interpolate, size=(7, 4)), (1, 3, 3, 5)),
    "bilinear": (partial(F.interpolate, scale_factor=2, mode="bilinear"), (2, 3, 3, 5)),
    "bilinear by corners": (
        partial(F.interpolate, size=(7, 8), mode="bilinear", align_corners=True), (1, 3, 3, 5),
    ),
    "bicubic": (partial(F.interpolate, size=(7, 9), mode="bicubic"), (1, 3, 4, 5)),
    "shrunk without aliasing": (
        partial(F.interpolate, size=(3, 2), mode="bilinear", antialias=True), (1, 2, 7, 6),
    ),
    "linear 1-D": (partial(F.interpolate, size=11, mode="linear"), (2, 3, 5)),
    "trilinear": (partial(F.interpolate, scale_factor=2, mode="trilinear"), (1, 2, 2, 3, 4)),
}  # fmt: skip


class FunctionModule(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", CASES)
def test_maps_of_another_size(name: str) -> None:
    function, shape = CASES[name]
    torch.manual_seed(5)
    assert_gradients(FunctionModule(function), torch.randn(shape))
