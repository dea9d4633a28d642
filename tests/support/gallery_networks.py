"""The gallery's networks after those in the papers, with random weights."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional


def vgg11() -> nn.Module:
    """VGG-11 with BatchNorm, a quarter as wide, for 64×64 pictures of ten classes: a long chain."""
    layers: list[nn.Module] = []
    channels = 3
    for width in (16, "pool", 32, "pool", 64, 64, "pool", 128, 128, "pool", 128, 128, "pool"):
        if isinstance(width, str):
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    model = nn.Sequential()
    model.features = nn.Sequential(*layers)
    model.classifier = nn.Sequential(
        nn.Flatten(), nn.Linear(512, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 10)
    )
    return model


class DenseLayer(nn.Module):
    """A dense layer: concatenates its input with `growth` new channels."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(channels), nn.Conv2d(channels, 4 * growth, 1)
        self.norm2, self.conv2 = nn.BatchNorm2d(4 * growth), nn.Conv2d(4 * growth, growth, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """C channels in, C + growth out."""
        y = self.conv1(functional.relu(self.norm1(x)))
        return torch.cat([x, self.conv2(functional.relu(self.norm2(y)))], 1)


class DenseNet121(nn.Module):
    """DenseNet-121 (Huang et al. 2017) with 58 dense layers in four blocks, a quarter as wide.

    It is as wide as in the paper with `growth` 32.
    """

    def __init__(self, growth: int = 8, classes: int = 10) -> None:
        super().__init__()
        channels = 2 * growth
        self.stem = nn.Sequential(
            nn.Conv2d(3, channels, 7, 2, 3),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        )
        for number, count in enumerate((6, 12, 24, 16), 1):
            layers = [DenseLayer(channels + k * growth, growth) for k in range(count)]
            setattr(self, f"dense{number}", nn.Sequential(*layers))
            channels += count * growth
            if number < 4:
                half = [nn.Conv2d(channels, channels // 2, 1), nn.AvgPool2d(2)]
                step = nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), *half)
                setattr(self, f"step{number}", step)
                channels //= 2
        self.norm = nn.BatchNorm2d(channels)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        x = self.stem(x)
        for number in range(1, 5):
            x = getattr(self, f"dense{number}")(x)
            x = getattr(self, f"step{number}")(x) if number < 4 else x
        return self.head(functional.relu(self.norm(x)).mean((2, 3)))


class Attention(nn.Module):
    """Self-attention (Vaswani et al. 2017) that exposes the attention weights as a value."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.softmax = nn.Softmax(-1)

    def forward(self, x: Tensor) -> Tensor:
        """N×tokens×width in and out."""
        n, tokens, width = x.shape
        parts = self.qkv(x).view(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = self.softmax(q @ k.transpose(-1, -2) * (width // self.heads) ** -0.5)
        return self.project((weights @ v).transpose(1, 2).reshape(n, tokens, width))


class TransformerBlock(nn.Module):
    """Pre-norm attention and MLP, each with a residual connection."""

    def __init__(self, width: int, heads: int, ratio: int = 2) -> None:
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, ratio * width), nn.GELU(), nn.Linear(ratio * width, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        """N×tokens×width in and out."""
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    """A ViT (Dosovitskiy et al. 2021) that averages its tokens, of 49 patches of 8×8 pixels."""

    def __init__(
        self, width: int = 48, heads: int = 4, depth: int = 6, *, patch: int = 8, tokens: int = 49,
        ratio: int = 2, classes: int = 10,
    ) -> None:  # fmt: skip
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.places = nn.Parameter(torch.randn(1, tokens, width) / 5)
        blocks = (TransformerBlock(width, heads, ratio) for _ in range(depth))
        self.blocks = nn.Sequential(*blocks)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of the classes."""
        x = self.patches(x).flatten(2).transpose(1, 2) + self.places
        return self.head(self.norm(self.blocks(x)).mean(1))


def signal_classifier() -> nn.Module:
    """Four convolutions over a signal, then scores of five classes."""
    widths = (1, 8, 16, 16, 32)
    layers: list[nn.Module] = []
    for i, o in pairwise(widths):
        layers += [nn.Conv1d(i, o, 9, 2, 4), nn.BatchNorm1d(o), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, 5))


def chirp_signal(length: int = 512) -> Tensor:
    """Two noisy chirps, shape 2×1×length."""
    t = torch.linspace(0, 1, length)
    up, down = (torch.sin(2 * torch.pi * 24 * s * s) * torch.exp(-3 * s) for s in (t, t.flip(0)))
    return (torch.stack([up, down]) + 0.05 * torch.randn(2, length))[:, None]


class AttentionGate(nn.Module):
    """Weights a skip connection by the features from below (Oktay et al. 2018)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.skip, self.below = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, channels, 1)
        self.weigh = nn.Sequential(nn.ReLU(), nn.Conv2d(channels, 1, 1), nn.Sigmoid())

    def forward(self, skip: Tensor, below: Tensor) -> Tensor:
        """Two maps of one shape in, one out."""
        return skip * self.weigh(self.skip(skip) + self.below(below))


class AttentionUNet(nn.Module):
    """A U-Net with gated skips that classifies each pixel into one of four classes."""

    def __init__(self, width: int = 12) -> None:
        super().__init__()
        a, b, c = width, 2 * width, 4 * width
        self.down1, self.down2, self.middle = (
            _double_conv(3, a),
            _double_conv(a, b),
            _double_conv(b, c),
        )
        self.pool = nn.MaxPool2d(2)
        self.up2, self.gate2, self.dec2 = (
            nn.ConvTranspose2d(c, b, 2, 2),
            AttentionGate(b),
            _double_conv(2 * b, b),
        )
        self.up1, self.gate1, self.dec1 = (
            nn.ConvTranspose2d(b, a, 2, 2),
            AttentionGate(a),
            _double_conv(2 * a, a),
        )
        self.head = nn.Conv2d(a, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        """N×4×H×W scores of N×3×H×W pictures."""
        one = self.down1(x)
        two = self.down2(self.pool(one))
        y = self.up2(self.middle(self.pool(two)))
        y = self.dec2(torch.cat([y, self.gate2(two, y)], 1))
        y = self.up1(y)
        return self.head(self.dec1(torch.cat([y, self.gate1(one, y)], 1)))


def _double_conv(inputs: int, outputs: int) -> nn.Sequential:
    first = [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    second = [nn.Conv2d(outputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*first, *second)


def calibrate_statistics(model: nn.Module, x: Tensor) -> nn.Module:
    """Set the running statistics from `x` and switch to eval mode, so that maps vary visibly.

    The weights stay random.
    """
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            part.momentum = 1.0
    with torch.no_grad():
        model.train()(x)
    return model.eval()
