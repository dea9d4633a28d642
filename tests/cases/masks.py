"""Assignment under a boolean mask, loaded as an elementwise choice."""

import torch
from torch import nn

from cases.case import module


class AssignZero(nn.Module):
    def forward(self, x):
        y = x * 2
        y[y < 0.5] = 0
        return torch.relu(y - 0.25)


class MultiplyMasked(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[y < 0] *= 0.1
        return y


class MaskedTwice(nn.Module):
    """Two equal masks, computed twice, with a chain of functions between read and assignment."""

    def forward(self, x):
        y = x + 1
        y[y > 0] = torch.exp(-y[y > 0]) + 1
        return y


class MaskedChannels(nn.Module):
    """A mask over channels after a full slice of the batch axis; the assigned number is computed."""

    def forward(self, x):
        y = x.clone()
        y[:, x.mean((0, 2, 3)) > 0] = x.max()
        return y


class MaskedVectors(nn.Module):
    """A mask over positions; the selected elements are multiplied by a vector."""

    def forward(self, x):
        y = x.permute(0, 2, 3, 1).clone()
        y[y[..., 0] > 0] *= torch.arange(5.0)
        return y


class MaskedAccumulate(nn.Module):
    def forward(self, x):
        y = x.clone()
        return y.index_put((y > 0,), torch.tensor(3.0), accumulate=True)


CASES = [
    module("assigned under a mask", AssignZero, (2, 3, 5, 7)),
    module("scaled under a mask", MultiplyMasked, (1, 5, 3)),
    module("computed under a mask", MaskedTwice, (2, 3, 1, 7)),
    module("channels under a mask", MaskedChannels, (2, 7, 3, 5)),
    module("vectors under a mask", MaskedVectors, (2, 5, 3, 4)),
    module("added under a mask", MaskedAccumulate, (3, 5)),
]
