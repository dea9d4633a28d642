"""Batch norms that use batch statistics in eval mode, as PyTorch does if the code requests it."""

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import nbglcnn
from assertions import assert_equal
from nbglcnn import Session, compile, verify
from nbglcnn.errors import UnsupportedModel

X = 3 * torch.randn(4, 3, 4, 5, generator=torch.Generator().manual_seed(0)) + 1


class MadeInForward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.BatchNorm2d(3)(x)  # type: ignore[no-any-return]


class RunningStatistics(nn.Module):
    """Has running statistics far from the batch's."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor([1.0, 2, 3]))
        self.register_buffer("variance", torch.tensor([4.0, 9, 16]))
        self.weight = nn.Parameter(torch.tensor([0.5, 1, 2]))
        self.bias = nn.Parameter(torch.tensor([1.0, 0, -1]))


class FunctionalBatchNorm(RunningStatistics):
    def forward(self, x: Tensor) -> Tensor:
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, training=True)


class ClonedStatistics(RunningStatistics):
    def forward(self, x: Tensor) -> Tensor:
        statistics = self.mean.clone(), self.variance.clone()
        y = F.batch_norm(x, *statistics, self.weight, training=True, momentum=0.3, eps=0.1)
        return y + F.batch_norm(x, self.mean, self.variance)


class NativeBatchNorm(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.native_batch_norm(
            x, None, None, torch.zeros(3), torch.ones(3), True, 0.1, 1e-5
        )[0]


class SetToTraining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm.train()(x)  # type: ignore[no-any-return]


class InstanceNorms(RunningStatistics):
    """Normalizes by running statistics, then by each picture's own."""

    def forward(self, x: Tensor) -> Tensor:
        statistics = self.mean, self.variance, self.weight, self.bias
        y = F.instance_norm(x, *statistics, use_input_stats=False)
        return y + F.instance_norm(x)


BATCH_STATISTICS_MODELS = [
    MadeInForward,
    FunctionalBatchNorm,
    ClonedStatistics,
    NativeBatchNorm,
    SetToTraining,
    InstanceNorms,
]


@pytest.mark.parametrize("made", BATCH_STATISTICS_MODELS)
def test_the_statistics_are_those_that_pytorch_takes(made: type[nn.Module]) -> None:
    model = made().eval()
    twin, x = copy.deepcopy(model), X.clone().requires_grad_()
    right = twin(x)
    (right * torch.arange(right.numel()).reshape(right.shape)).sum().backward()
    with Session(compile(model, X)) as session:
        assert_equal(session.run(X.numpy())["output"], right.detach().numpy())
        assert verify(session, model, X).ok
    weighted = nn.Sequential(
        model, ScaledByBuffer(torch.arange(right.numel()).reshape(right.shape))
    )
    found = nbglcnn.gradient(weighted.eval(), X)["input"]
    assert x.grad is not None
    np.testing.assert_allclose(found, x.grad.numpy(), atol=1e-5 * float(x.grad.abs().max()))


class ScaledByBuffer(nn.Module):
    def __init__(self, factors: Tensor) -> None:
        super().__init__()
        self.register_buffer("factors", factors)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factors


def test_statistics_that_are_read_again_are_those_behind_their_change() -> None:
    class Both(SetToTraining):
        def forward(self, x: Tensor) -> Tensor:
            y = self.norm.train()(x)
            return self.norm.eval()(y)  # type: ignore[no-any-return]

    model, other = Both().eval(), torch.randn(X.shape)
    with Session(compile(model, X)) as session, torch.no_grad():
        found = session.run(other.numpy())["output"]
        assert_equal(found, copy.deepcopy(model)(other).numpy())


def test_a_batchnorm_that_forward_puts_in_training_mode_is_not_trained() -> None:
    model = nn.Sequential(nn.Conv2d(3, 3, 1), SetToTraining())
    with pytest.raises(UnsupportedModel, match=r"1\.norm: forward itself puts this BatchNorm"):
        nbglcnn.train(model, (X, X), batch_size=4, steps=1, progress=False)
