"""Fourier transforms: ONNX's DFT, and the nodes that PyTorch's exporter writes for torch.fft."""

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from cases.case import module, node


class FunctionModule(nn.Module):
    """Wrap a function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *x):
        return self.function(*x)


class FrequencyFilter(nn.Module):
    """A filter per channel in the frequency domain of its maps, as in FFTformer and GFNet."""

    def __init__(self, channels: int, height: int, width: int) -> None:
        super().__init__()
        self.real = nn.Parameter(torch.randn(channels, height, width // 2 + 1))
        self.pairs = nn.Parameter(torch.randn(channels, height, width // 2 + 1, 2))
        self.size = (height, width)

    def forward(self, x):
        seen = torch.fft.rfft2(x, norm="ortho")
        complex_ = seen * torch.view_as_complex(self.pairs) + seen * self.real
        return torch.fft.irfft2(complex_, s=self.size, norm="ortho")


def fft_case(name, function, *shapes):
    return module(f"torch.fft: {name}", lambda: FunctionModule(function), *shapes)


def as_real(x):
    return torch.view_as_real(x)


def fourier_unit(x):
    """LaMa's FourierUnit: real and imaginary parts as channels, and the inverse transform."""
    seen = torch.fft.rfftn(x, dim=(-2, -1), norm="ortho")
    maps = torch.cat((seen.real, seen.imag), 1).relu()
    a, b = maps.chunk(2, 1)
    return torch.fft.irfftn(torch.complex(a, b), s=x.shape[-2:], dim=(-2, -1), norm="ortho")


fft = torch.fft
CASES = [
    fft_case("rfft", lambda x: as_real(fft.rfft(x)), (2, 3, 10)),
    fft_case("rfft of 7 along rows", lambda x: as_real(fft.rfft(x, dim=2)), (1, 3, 7, 4)),
    fft_case("rfft padded, forward", lambda x: as_real(fft.rfft(x, n=16, norm="forward")), (2, 3, 11)),
    fft_case("fft2 of real maps", lambda x: as_real(fft.fft2(x, norm="ortho")), (1, 3, 5, 8)),
    fft_case("fftn", lambda x: as_real(fft.fftn(x, dim=(1, 2, 3), norm="forward")), (2, 3, 4, 5)),
    *(
        fft_case(
            f"fft2 and ifft2, {norm}",
            lambda x, norm=norm: as_real(fft.ifft2(fft.fft2(x, norm=norm) * 2.0, norm=norm)),
            (1, 4, 5, 6),
        )
        for norm in ("backward", "forward")
    ),
    *(
        fft_case(
            f"irfft of {length} of complex numbers, {norm}",
            lambda x, n=length, norm=norm: fft.irfft(torch.view_as_complex(x), n=n, norm=norm),
            (2, 3, 6, 2),
        )
        for length, norm in ((10, "backward"), (11, "ortho"))
    ),
    fft_case("the spectrum's size", lambda x: fft.rfft2(x).abs(), (1, 3, 6, 6)),
    fft_case("a spectrum over its size", lambda x: fft.irfft(fft.rfft(x) / (fft.rfft(x).abs() + 1), n=8), (2, 3, 8)),
    fft_case("the quotient of spectra", lambda x, y: fft.irfft(fft.rfft(x) / (fft.rfft(y) + 9), n=8), (2, 3, 8), (2, 3, 8)),
    fft_case("the product of spectra", lambda x, y: fft.irfft2(fft.rfft2(x) * fft.rfft2(y).conj(), s=(8, 6)), (1, 3, 8, 6), (1, 3, 8, 6)),
    fft_case("channels of frequencies and back", fourier_unit, (1, 4, 6, 8)),
    module("torch.fft: filters by frequency", lambda: FrequencyFilter(3, 8, 6), (2, 3, 8, 6)),
    node("DFT", "DFT", [(2, 6, 5, 1)]),
    node("DFT of complex numbers along axis 1", "DFT", [(2, 6, 5, 2), None, np.int64(1)], constants=[2]),
    node("DFT, inverse, along the batch", "DFT", [(4, 3, 2), None, np.int64(0)], constants=[2], inverse=1),
    node("DFT, inverse of real numbers", "DFT", [(2, 5, 1)], inverse=1),
    node("DFT, one-sided, longer", "DFT", [(1, 7, 3, 1), np.int64(10), np.int64(-3)], constants=[1, 2], onesided=1),
    node("DFT, shorter", "DFT", [(1, 9, 2), np.int64(4)], constants=[1]),
    node("DFT of operator set 17", "DFT", [(3, 5, 4, 2)], opset=17),
    node("DFT of operator set 17, axis 2, one-sided", "DFT", [(1, 3, 8, 1)], opset=17, axis=2, onesided=1),
]  # fmt: skip
