"""A small network, and a model with input-dependent control flow, whose export fails."""

import numpy as np
import torch
from torch import nn

EXAMPLE = np.ones((1, 3, 8, 8), np.float32)


def small_cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 2, 1)).eval()


class InputDependent(nn.Module):
    """Its export fails, with the exporter's own error text."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x if x.sum() > 0 else -x
