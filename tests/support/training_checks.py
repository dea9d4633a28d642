"""Runs the same training in PyTorch and nbglcnn, and compares the results."""

import copy
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import nbglcnn
from nbglcnn.features.training import Training

Loss = Callable[[Tensor, Tensor], Tensor]
OptimizerFactory = Callable[[Any], torch.optim.Optimizer]
TOLERANCE = 1e-5


@dataclass
class TorchTraining:
    """The result of PyTorch's training."""

    losses: np.ndarray
    model: nn.Module


def batches(x: Tensor, y: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches in the data's order, cycling forever."""
    for k in itertools.cycle(range(0, len(x), size)):
        yield x[k : k + size], y[k : k + size]


def train_in_torch(
    model: nn.Module, x: Tensor, y: Tensor, loss: Loss, optimizer: OptimizerFactory, *,
    steps: int, size: int, dtype: torch.dtype = torch.float32,
    prepared: Callable[[nn.Module], Any] = nn.Module.train,
    clip: Callable[[nn.Module], Any] = lambda _: None,
    rate: Callable[[int], float] | None = None,
) -> TorchTraining:  # fmt: skip
    """Run a plain training loop on a copy of the model."""
    own = copy.deepcopy(model).to(dtype)
    prepared(own)
    steps_of = optimizer([one for one in own.parameters() if one.requires_grad])
    losses = []
    for step, (inputs, targets) in enumerate(itertools.islice(batches(x, y, size), steps)):
        if rate is not None:
            for group in steps_of.param_groups:
                group["lr"] = rate(step)
        steps_of.zero_grad()
        if targets.is_floating_point():
            targets = targets.to(dtype)
        found = loss(own(inputs.to(dtype)), targets)
        found.backward()
        clip(own)
        steps_of.step()
        losses.append(found.item())
    return TorchTraining(np.array(losses), own)


def assert_near_float64(
    name: str, actual: np.ndarray, float64_reference: Tensor, float32_reference: Tensor,
    tolerance: float,
    scale: float | None = None,
) -> None:  # fmt: skip
    """Assert the error against float64 is within tolerance, or twice torch's float32 error.

    Errors are relative to `scale`, by default the tensor's maximum.
    """
    truth = float64_reference.detach().double().numpy()
    scale = max(float(np.abs(truth).max(initial=0)) if scale is None else scale, 1e-9)
    assert actual.shape == truth.shape, name
    error = np.abs(actual - truth).max(initial=0) / scale
    theirs = np.abs(float32_reference.detach().double().numpy() - truth).max(initial=0) / scale
    assert error <= max(tolerance, 2 * theirs), (name, error, theirs)


def assert_trained(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    loss: Any,
    torch_loss: Loss,
    optimizer: Any,
    torch_optimizer: OptimizerFactory,
    *,
    steps: int = 4,
    size: int = 4,
    tolerance: float = TOLERANCE,
    prepared: Callable[[nn.Module], Any] = nn.Module.train,
    clip: Callable[[nn.Module], Any] = lambda _: None,
    rate: Callable[[int], float] | None = None,
    weights: bool = True,
    **options: Any,
) -> Training:
    """Assert that losses, weights, statistics and the last gradients match float64 PyTorch.

    If torch's own float32 differs from its float64 by more than `tolerance`, ours may differ by
    twice as much. The model itself stays unchanged.
    """
    before = {n: t.clone() for n, t in model.state_dict().items()}
    modes = [one.training for one in model.modules()]
    result = nbglcnn.train(
        model, data, loss, optimizer, size, steps=steps, shuffle=False, progress=False, **options
    )
    assert [one.training for one in model.modules()] == modes
    assert all(torch.equal(t, before[n]) for n, t in model.state_dict().items())
    assert all(one.grad is None for one in model.parameters())
    assert result.losses.dtype == np.float32 and result.losses.shape == (steps,)
    assert not result.stopped
    own = {"steps": steps, "size": size, "prepared": prepared, "clip": clip, "rate": rate}
    right = train_in_torch(model, *data, torch_loss, torch_optimizer, dtype=torch.float64, **own)
    float32_reference = train_in_torch(model, *data, torch_loss, torch_optimizer, **own)
    assert_near_float64("losses", result.losses, torch.from_numpy(right.losses),
                        torch.from_numpy(float32_reference.losses), tolerance)  # fmt: skip
    grads = [one.grad for one in right.model.parameters() if one.grad is not None]
    largest = max((float(one.abs().max()) for one in grads), default=0)
    for (name, one), other in zip(
        right.model.named_parameters(), float32_reference.model.parameters(), strict=True
    ):
        if one.grad is not None:
            size = max(float(one.grad.abs().max()), 0.1 * largest)
            assert_near_float64(f"gradient of {name}", result.gradients[name], one.grad, other.grad,
                                tolerance, size)  # fmt: skip
    copied = copy.deepcopy(model)
    copied.load_state_dict(result.state_dict())
    if weights:
        for name, tensor in right.model.state_dict().items():
            assert_near_float64(name, copied.state_dict()[name].numpy(), tensor,
                                float32_reference.model.state_dict()[name], tolerance)  # fmt: skip
    return result
