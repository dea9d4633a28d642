"""Normalizations, pools and padding as torch functions, for gradients of their operators."""

import torch
from torch import Tensor
from torch.nn import functional as F

from operator_gradients import int_vector


def normalize(axes: tuple[int, ...], eps: float = 1e-5, uses_square_root: bool = True):
    """Subtract the mean and divide by the deviation along some axes."""

    def right(x: Tensor) -> Tensor:
        variance = x.var(axes, correction=0, keepdim=True)
        apart = x - x.mean(axes, keepdim=True)
        return apart / ((variance + eps).sqrt() if uses_square_root else variance.sqrt() + eps)

    return right


def batch_norm_eval(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor
) -> Tensor:
    rows = (one[:, None, None] for one in (scale, bias, mean, variance))
    scale, bias, mean, variance = rows
    return (x - mean) / (variance + 1e-5).sqrt() * scale + bias


def lp_pool(p: int, kernel: tuple[int, int], stride: int, dilation: int = 1):
    """The p-norms of windows: nn.LPPool2d ignores signs, and has no dilation."""

    def right(x: Tensor) -> Tensor:
        powers = x.abs() ** p
        ones = torch.ones((x.shape[1], 1, *kernel), dtype=x.dtype)
        return F.conv2d(powers, ones, None, stride, 0, dilation, x.shape[1]) ** (1 / p)

    return right


def dilated_mean(x: Tensor, counts_padding: bool) -> Tensor:
    """Means over a dilated window, counting the zero padding or not."""
    ones = torch.ones((x.shape[1], 1, 2, 3), dtype=x.dtype)

    def sums(x: Tensor) -> Tensor:
        return F.conv2d(x, ones, None, 1, (1, 2), (2, 2), x.shape[1])

    return sums(x) / (6 if counts_padding else sums(torch.ones_like(x)))


def global_lp_pool(p: int):
    return lambda x: (x.abs() ** p).sum((2, 3), keepdim=True) ** (1 / p)


DILATED_WINDOW = {"kernel_shape": (2, 3), "dilations": (2, 2), "pads": (1, 2, 1, 2)}
PAD_MODES = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}


def pad_by_mode(mode: str):
    return lambda x: F.pad(x, (1, 2, 2, 0), PAD_MODES[mode])


def pad_with_value(x: Tensor, value: Tensor) -> Tensor:
    """Padding whose value is an input."""
    inside = F.pad(torch.ones_like(x), (1, 2, 2, 0))
    return F.pad(x, (1, 2, 2, 0)) + (1 - inside) * value


PADS = int_vector(0, 0, 2, 1, 0, 0, 0, 2)
