"""Compares gradients of a torch module by nbglcnn on local OpenGL with those of torch.autograd."""

import copy
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

import nbglcnn

TOLERANCE = 1e-5  # of a tensor's largest gradient
ABSOLUTE_TOLERANCE = 1e-9


class WeightedSum(nn.Module):
    """The module's output times a random factor per element, summed: gives generic gradients."""

    def __init__(self, model: nn.Module, shape: torch.Size, seed: int) -> None:
        super().__init__()
        self.model = model
        factors = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
        self.register_buffer("factors", factors)

    def forward(self, *inputs: Tensor) -> Tensor:
        return (self.model(*inputs) * self.factors).sum()


def torch_gradients(
    model: nn.Module, inputs: tuple[Tensor, ...], dtype: torch.dtype
) -> dict[str, Tensor]:
    """Return the output's gradients: of float inputs by position, of parameters by name."""
    own = copy.deepcopy(model).to(dtype)
    given = [
        one.detach().to(dtype).requires_grad_() if one.is_floating_point() else one
        for one in inputs
    ]
    own(*given).backward()
    found = {str(k): one.grad for k, one in enumerate(given) if one.requires_grad}
    found |= {name: one.grad for name, one in own.named_parameters()}
    return {name: one for name, one in found.items() if one is not None}


def assert_gradients(
    model: nn.Module,
    *inputs: Tensor,
    seed: int = 0,
    tolerance: float = TOLERANCE,
    absolute_tolerance: float = ABSOLUTE_TOLERANCE,
) -> Mapping[str, np.ndarray]:
    """Assert that every input and parameter gradient matches torch's float64 within the tolerance.

    The tolerance is 1e-5 of the gradient's maximum.

    If torch's own float32 differs more from its float64 than that, ours may differ as much.
    `absolute_tolerance` is for gradients that are zero because larger terms cancel.
    """
    model = model.eval()
    with torch.no_grad():
        shape = model(*inputs).shape
    whole = WeightedSum(model, shape, seed).eval()
    right = torch_gradients(whole, inputs, torch.float64)
    single = torch_gradients(whole, inputs, torch.float32)
    assert right
    keys = input_keys(whole, inputs)
    names = {name: keys[int(name)] if name.isdigit() else name for name in right}
    found = nbglcnn.gradient(whole, tuple(inputs), wrt=[*names.values()])
    for name, key in names.items():
        truth = right[name].double().numpy()
        largest = np.abs(truth).max(initial=0)
        error = np.abs(found[key] - truth).max(initial=0)
        own = np.abs(single[name].double().numpy() - truth).max(initial=0)
        allowed = max(tolerance * largest, own) + absolute_tolerance
        assert found[key].shape == truth.shape, key
        assert error <= allowed, f"{key}: off by {error:.3g} of {largest:.3g} (torch: {own:.3g})"
    return found


def input_keys(model: nn.Module, inputs: tuple[Tensor, ...]) -> list[str]:
    """The names of the model's inputs."""
    from nbglcnn.load import load

    graph, _ = load(model, tuple(inputs))
    return [key.name for key in graph.keys if key.kind == "input"]
