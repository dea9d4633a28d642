"""Model with asserts, outside a test file: pytest rewrites test files' asserts, unlike a user's."""

import torch
from torch import nn


class AssertingModule(nn.Module):
    """Asserts about values, all true for the example when it is traced."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.abs().max() <= 100, "small"
        assert not torch.isnan(x).any()
        assert x.abs().min() >= 0 and (x.mean() < 200)
        return x * 2


def catch_input_assert(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    try:
        assert x.min() > 0
    except AssertionError:
        return x * 3
    return x


def catch_weight_assert(m: nn.Module, x: torch.Tensor) -> torch.Tensor:
    try:
        assert m.k > 0
    except AssertionError:
        return x * 3
    return x


def require_positive(_: nn.Module, x: torch.Tensor) -> torch.Tensor:
    assert x.min() > 0, f"{x.min()} is too small"
    assert not (x > 1e6).any()
    return x * 2
