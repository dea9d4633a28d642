"""Small autoencoders that enlarge in three ways, and a number for the checkerboards they draw."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

ACTIVATIONS = {"ReLU": nn.ReLU, "leaky ReLU": nn.LeakyReLU, "tanh": nn.Tanh, "SiLU": nn.SiLU}
# How to enlarge, and what stands between the pixels of a small picture then.
WAYS = {"transposed conv": "zeros", "resize + conv": "bilinear", "fractional stride": "nearest"}
# Both strides make 28 pixels 7, the one in two steps, and 7 pixels 28 again: what an enlargement
# does to one pixel it does to each fourth.
PERIOD = 4
LEVELS = {2: 2, 4: 1}


@dataclass(frozen=True)
class Choice:
    """What an autoencoder shall be like."""

    filters: int = 8
    kernel: int = 3
    stride: int = 2
    activation: str = "ReLU"
    enlarge: str = "transposed conv"
    seed: int = 0


class Autoencoder(nn.Sequential):
    """An encoder from N×1×28×28 to 7×7 pixels, and a decoder back (0 to 1)."""


def autoencoder(choice: Choice) -> Autoencoder:
    """The network as chosen, with random weights, ready to look at (in eval mode)."""
    for name, known in (("enlarge", WAYS), ("activation", ACTIVATIONS), ("stride", LEVELS)):
        if getattr(choice, name) not in known:
            found = getattr(choice, name)
            raise ValueError(f"{name} = {found!r}; there are {', '.join(map(repr, known))}")
    torch.manual_seed(choice.seed)
    kernel, stride = choice.kernel, choice.stride
    channels = [1, choice.filters, 2 * choice.filters][: LEVELS[stride] + 1]
    encoder, decoder = nn.Sequential(), nn.Sequential()
    for narrow, wide in itertools.pairwise(channels):
        padding = max(0, kernel - stride + 1) // 2
        encoder.append(nn.Conv2d(narrow, wide, kernel, stride, padding))
        encoder.append(ACTIVATIONS[choice.activation]())
    for wide, narrow in itertools.pairwise(channels[::-1]):
        decoder.extend(enlarging(choice.enlarge, wide, narrow, kernel, stride))
        decoder.append(nn.Sigmoid() if narrow == 1 else ACTIVATIONS[choice.activation]())
    model = Autoencoder()
    model.add_module("encoder", encoder)
    model.add_module("decoder", decoder)
    return model.eval()


def enlarging(way: str, inputs: int, outputs: int, kernel: int, stride: int) -> Iterator[nn.Module]:
    """Layers that make a picture `stride` times as wide and high, in one of `WAYS`."""
    if way == "transposed conv":
        padding = max(0, kernel - stride + 1) // 2
        last = stride - kernel + 2 * padding
        yield nn.ConvTranspose2d(inputs, outputs, kernel, stride, padding, output_padding=last)
        return
    # A convolution that moves by 1/stride of a pixel and reads the nearest one, as Josh Murr's
    # shader does, reads each pixel `stride` times in a row: as if the picture had been enlarged.
    yield nn.Upsample(scale_factor=stride, mode=WAYS[way])
    before, after = (kernel - 1) // 2, kernel // 2
    if before != after:
        yield nn.ZeroPad2d((before, after, before, after))
        before = 0
    yield nn.Conv2d(inputs, outputs, kernel, padding=before)


@dataclass(frozen=True)
class Layer:
    """One layer: what it is called and does, the shape of its output, and what it costs."""

    name: str
    kind: str
    shape: tuple[int, ...]
    parameters: int
    macs: int  # multiplications with an addition, for one picture


def layers(model: nn.Module) -> list[Layer]:
    """The layers of an autoencoder, in order."""
    found = []

    def note(name: str, layer: nn.Module) -> Any:
        def seen(_: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            macs = 0
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                # A convolution gathers into each number of its output, a transposed one scatters
                # each number of its input.
                per = layer.weight[0].numel()
                macs = per * (output if isinstance(layer, nn.Conv2d) else inputs[0]).numel()
            parameters = sum(one.numel() for one in layer.parameters())
            kind = type(layer).__name__
            found.append(Layer(name, kind, tuple(output.shape[1:]), parameters, macs))

        return layer.register_forward_hook(seen)

    leaves = [(n, one) for n, one in model.named_modules() if not list(one.children())]
    hooks = [note(name, one) for name, one in leaves]
    with torch.no_grad():
        model(torch.zeros(1, 1, 28, 28))
    for hook in hooks:
        hook.remove()
    return found


def checkerboard(pictures: np.ndarray) -> float:
    """The share of the contrast of N×1×28×28 pictures that repeats every 4 pixels, from 0 to 1.

    That is the energy of their spectrum at the frequencies whose period divides 4, except that of
    the mean, relative to all other energy. Where kernels overlap unevenly, they leave it there
    (Odena, Dumoulin and Olah, "Deconvolution and Checkerboard Artifacts", 2016).
    """
    energy = np.abs(np.fft.fft2(pictures[:, 0])) ** 2
    energy[:, 0, 0] = 0
    every = pictures.shape[-1] // PERIOD
    whole = energy.sum((1, 2))
    repeats = energy[:, ::every, ::every].sum((1, 2))
    return float(np.divide(repeats, whole, out=np.zeros_like(whole), where=whole > 0).mean())
