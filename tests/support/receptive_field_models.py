"""Random networks whose gradients are zero only where there is no dependency.

Weights are positive, activations strictly increasing and pools are means, so a derivative is zero
only if no path exists. All channels of a position count as one position, so channels are mixed
before layers that separate them in space (PixelShuffle, Fold).
"""

from __future__ import annotations

import random

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS = (nn.Sigmoid, nn.Tanh, nn.Softplus, nn.ELU, nn.SiLU, nn.LeakyReLU)
PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class NamedFunction(nn.Module):
    """A function as a module."""

    def __init__(self, name: str, function) -> None:
        super().__init__()
        self.name, self.function = name, function

    def extra_repr(self) -> str:
        return self.name

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class ParallelBranches(nn.Module):
    """Parallel branches from one value, added or concatenated."""

    def __init__(self, ways: list[nn.Module], how: str) -> None:
        super().__init__()
        self.ways, self.how = nn.ModuleList(ways), how

    def extra_repr(self) -> str:
        return self.how

    def forward(self, x: Tensor) -> Tensor:
        values = [way(x) for way in self.ways]
        return torch.cat(values, 1) if self.how == "cat" else sum(values[1:], start=values[0])


class SqueezeExcitation(nn.Module):
    """Squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.one = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.one(self.pool(x)))


class WindowMixing(nn.Module):
    """Mixes the elements within each window of a map, as a shifted-window transformer does."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.mix = nn.Linear(size * size, size * size)

    def forward(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        s = self.size
        y = x.permute(0, 2, 3, 1).reshape(n, h // s, s, w // s, s, c).permute(0, 1, 3, 2, 4, 5)
        y = self.mix(y.reshape(-1, s * s, c).transpose(1, 2)).transpose(1, 2)
        y = y.reshape(n, h // s, w // s, s, s, c).permute(0, 1, 3, 2, 4, 5)
        return y.reshape(n, h, w, c).permute(0, 3, 1, 2)


class GlobalAttention(nn.Module):
    """Attention of every position to every other."""

    def forward(self, x: Tensor) -> Tensor:
        q = x.flatten(2).transpose(1, 2)
        shares = torch.softmax(q @ q.transpose(1, 2), dim=-1)
        return (shares @ q).transpose(1, 2).reshape(x.shape)


class StepNetwork(nn.Module):
    """A chain of steps inside a container."""

    def __init__(self, steps: list[nn.Module]) -> None:
        super().__init__()
        self.steps = nn.Sequential(*steps)

    def forward(self, x: Tensor) -> Tensor:
        return self.steps(x) * 1.5


def nearest_indices_agree(before: int, after: int) -> bool:
    """Whether nearest-neighbour indices agree by a quotient and by a product of float32."""
    for half in (0.0, 0.5):
        x = torch.arange(after, dtype=torch.float32) + half
        quotient = x / torch.tensor(after / before, dtype=torch.float32)
        if not torch.equal(quotient.floor(), (x * (before / after)).floor()):
            return False
    return True


class NetworkGenerator:
    """Draws the steps of a network for maps with 1 or 2 spatial axes, and tracks their shapes."""

    def __init__(self, seed: int, axes: int = 2) -> None:
        self.random, self.axes = random.Random(seed), axes
        self.x = torch.rand(1, 2, *(self.random.randint(7, 14) for _ in range(axes)))

    def random_sizes(self, low: int, high: int) -> tuple[int, ...]:
        return tuple(self.random.randint(low, high) for _ in range(self.axes))

    def module_type(self, name: str) -> type[nn.Module]:
        return getattr(nn, f"{name}{self.axes}d")

    def network(self, max_steps: int = 5) -> StepNetwork:
        """Draw steps while maps stay small enough to check every position."""
        value, steps = self.x, []
        for _ in range(self.random.randint(2, max_steps)):
            for _ in range(20):
                step = self.step(value).eval()
                try:
                    with torch.no_grad():
                        found = step(value)
                except (RuntimeError, ValueError):
                    continue  # a kernel or a padding larger than the map
                sizes = found.shape[2:]
                if min(sizes, default=0) >= 1 and max(sizes) <= 24 and found.shape[1] <= 16:
                    value = found
                    steps.append(step)
                    break
        return StepNetwork(steps)

    def step(self, x: Tensor) -> nn.Module:
        kinds = [self.convolution] * 4 + [self.transposed, self.pool, self.resize, self.resize]
        kinds += [
            self.padding,
            self.slicing,
            self.branches,
            self.branches,
            self.pointwise,
            self.shuffle,
        ]
        kinds += [self.global_layer if self.random.random() < 0.3 else self.reshaping]
        return self.random.choice(kinds)(x)

    def convolution(self, x: Tensor) -> nn.Module:
        channels, mode = x.shape[1], self.random.choice(PADDING_MODES)
        groups = self.random.choice([1, 1, channels, 2 if channels % 2 == 0 else 1])
        return self.module_type("Conv")(
            channels, channels * self.random.choice([1, 2]), self.random_sizes(1, 4),
            stride=self.random_sizes(1, 2), padding=self.random_sizes(0, 2),
            dilation=self.random_sizes(1, 3), groups=groups, padding_mode=mode,
        )  # fmt: skip

    def transposed(self, x: Tensor) -> nn.Module:
        stride = self.random_sizes(1, 3)
        return self.module_type("ConvTranspose")(
            x.shape[1], 2, self.random_sizes(1, 4), stride=stride, padding=self.random_sizes(0, 1),
            output_padding=tuple(self.random.randint(0, s - 1) for s in stride),
            dilation=self.random_sizes(1, 2),
        )  # fmt: skip

    def pool(self, _: Tensor) -> nn.Module:
        if self.random.random() < 0.4:
            return self.module_type("AdaptiveAvgPool")(self.random_sizes(1, 6))
        ceil, inside = self.random.random() < 0.5, self.random.random() < 0.5
        stride, padding = self.random_sizes(1, 3), self.random_sizes(0, 1)
        return self.module_type("AvgPool")(self.random_sizes(2, 4), stride, padding, ceil, inside)

    def resize(self, x: Tensor) -> nn.Module:
        modes = ["nearest", "nearest-exact", "linear" if self.axes == 1 else "bilinear"]
        mode = self.random.choice([*modes, *["bicubic"] * (self.axes == 2)])
        corners = self.random.random() < 0.5 if mode[-6:] in ("linear", "icubic") else None
        # If ONNX's coordinates differ from PyTorch's, Plans follow ONNX, and receptive fields
        # follow Plans.
        if self.random.random() < 0.5:
            size = self.random_sizes(2, 20)
            if "nearest" in mode and not all(map(nearest_indices_agree, x.shape[2:], size)):
                size = tuple(2 * n for n in x.shape[2:])
            return nn.Upsample(size=size, mode=mode, align_corners=corners)
        factor = self.random.choice([2, 2, 3, 0.5, 1.5])
        if corners and any(factor * n % 1 for n in x.shape[2:]):
            corners = False
        return nn.Upsample(scale_factor=factor, mode=mode, align_corners=corners)

    def padding(self, _: Tensor) -> nn.Module:
        sides = [self.random.randint(0, 3) for _ in range(2 * self.axes)]
        kind = self.random.choice(["Reflection", "Replication", "Circular", "Zero", "Constant"])
        if kind == "Constant":
            return self.module_type("ConstantPad")([side - 1 for side in sides], 0.5)
        return self.module_type(f"{kind}Pad")(sides)

    def slicing(self, _: Tensor) -> nn.Module:
        start, step = self.random_sizes(0, 2), self.random_sizes(1, 2)
        end, axis = self.random.choice([None, -1]), self.random.randint(2, 1 + self.axes)
        index = (..., *(slice(a, end, b) for a, b in zip(start, step, strict=True)))
        places = [self.random.randint(0, 3) for _ in range(self.random.randint(2, 5))]
        functions = {
            f"x[{index}]": lambda x: x[index],
            f"flip {axis}": lambda x: x.flip(axis),
            f"roll {axis}": lambda x: x.roll(2, axis),
            f"take {places} of {axis}": lambda x: x.index_select(axis, torch.tensor(places)),
            f"cat along {axis}": lambda x: torch.cat([x, x * 2], axis),
            f"chunk {axis}": lambda x: x.chunk(2, axis)[1],
        }
        return NamedFunction(*self.random.choice(list(functions.items())))

    def branches(self, x: Tensor) -> nn.Module:
        channels = x.shape[1]
        ways: list[nn.Module] = [nn.Identity()]
        for _ in range(self.random.randint(1, 2)):
            sides = [0] * self.axes
            sides[self.random.randrange(self.axes)] = self.random.randint(1, 2)
            dilation = self.random.randint(1, 2)
            ways.append(
                self.module_type("Conv")(
                    channels, channels, tuple(2 * s + 1 for s in sides), dilation=dilation,
                    padding=tuple(s * dilation for s in sides),
                )
            )  # fmt: skip
        if self.random.random() < 0.5:
            ways.pop(0)
        return ParallelBranches(ways, self.random.choice(["cat", "add"]))

    def pointwise(self, x: Tensor) -> nn.Module:
        channels = x.shape[1]
        return self.random.choice([
            nn.Sequential(self.module_type("BatchNorm")(channels),
                          self.random.choice(ACTIVATIONS)()),
            nn.LocalResponseNorm(3),
            self.random.choice(ACTIVATIONS)(),
        ])  # fmt: skip

    def global_layer(self, x: Tensor) -> nn.Module:
        norms = [nn.GroupNorm(1, x.shape[1]), self.module_type("InstanceNorm")(x.shape[1])]
        return self.random.choice(
            [*norms, GlobalAttention(), *[SqueezeExcitation(x.shape[1])] * (self.axes == 2)]
        )

    def shuffle(self, x: Tensor) -> nn.Module:
        channels = x.shape[1]
        if self.axes == 1:
            return self.reshaping(x)
        if self.random.random() < 0.5:
            return nn.Sequential(nn.Conv2d(channels, 8, 1), nn.PixelShuffle(2))
        return nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(4 * channels, 4, 1))

    def reshaping(self, x: Tensor) -> nn.Module:
        functions = {
            "flat and back": lambda x: torch.tanh(x.flatten(1)).reshape(x.shape),
            "one axis and back": lambda x: x.flatten(2).sigmoid().reshape(x.shape),
        }
        if self.axes == 2:
            functions["transposed"] = lambda x: x.transpose(2, 3)
            functions["shuffled by hand"] = lambda x: (
                x.mean(1, keepdim=True).expand(-1, 4, -1, -1).unflatten(1, (1, 2, 2))
                .permute(0, 1, 4, 2, 5, 3).reshape(1, 1, 2 * x.shape[2], 2 * x.shape[3])
            )  # fmt: skip
            functions["unfolded and folded"] = lambda x: F.fold(
                F.unfold(x, (3, 2), padding=(1, 0), stride=(1, 2)).softmax(1),
                x.shape[2:], (3, 2), padding=(1, 0), stride=(1, 2),
            )  # fmt: skip
            for side in (2, 3):
                if x.shape[2] % side == 0 and x.shape[3] % side == 0:
                    return WindowMixing(side)
        return NamedFunction(*self.random.choice(list(functions.items())))


def with_positive_weights(model: nn.Module, seed: int) -> nn.Module:
    """Set positive weights of about 1 / fan-in, so that nothing cancels or saturates."""
    source = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            fan = max(parameter[0].numel(), 1) if parameter.ndim > 1 else 1
            parameter.copy_((0.5 + torch.rand(parameter.shape, generator=source)) / fan)
    return model.eval()
